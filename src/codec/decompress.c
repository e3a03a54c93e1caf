/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One API over zlib and libzstd. Between two members (gzip members or zstd frames), the magic
 * number of the next member is collected byte by byte, because the input may be cut inside it. The
 * collected bytes are then passed to the library before the rest of the input. */

#define ZLIB_CONST /* zlib's next_in as const */

#include "codec/decompress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { GZIP_WINDOW = 15 + 16 };    /* for zlib: the largest window, and only the gzip format */
#define STEP_MAX ((size_t)1 << 30) /* zlib counts bytes in an unsigned int */

/* When libzstd rejects a frame header, it checks whether the bytes of the last call begin with the
 * magic number of a format before 1.0, and then decodes that format. The result would depend on how
 * the input is cut. Feeding a header in steps shorter than a magic number prevents this. */
enum { ZSTD_HEAD_MAX = 18, ZSTD_HEAD_STEP = 3 };

struct weir_decompressor {
    weir_compression inside; /* UNDECIDED between two members */
    bool padding;            /* zeros may follow the last member */
    uint8_t magic[WEIR_COMPRESSION_MAGIC_MAX];
    size_t magic_len, magic_used;
    uint64_t offset;   /* of the next input byte */
    uint64_t begun_at; /* the offset where the member begins, or should begin */
    z_stream gzip;
    ZSTD_DStream *zstd;
    /* The most input bytes for one call: up to the end of the next block. If a later block in the
     * same call were damaged, the output of this block could be lost. */
    size_t zstd_wants;
    size_t zstd_head; /* bytes until the frame header has certainly ended */
};

weir_compression weir_compression_of(const uint8_t *bytes, size_t len)
{
    static const uint8_t zstd[] = {0x28, 0xB5, 0x2F, 0xFD}, skipped[] = {0x50, 0x2A, 0x4D, 0x18};
    bool gzip_may = true, zstd_may = true, skipped_may = true;
    for (size_t i = 0; i < len && i < sizeof zstd; i++) {
        gzip_may = gzip_may && (i > 1 || bytes[i] == (i == 0 ? 0x1F : 0x8B));
        zstd_may = zstd_may && bytes[i] == zstd[i];
        skipped_may = skipped_may && (i == 0 ? bytes[i] & 0xF0 : bytes[i]) == skipped[i];
    }
    if (gzip_may)
        return len >= 2 ? WEIR_COMPRESSION_GZIP : WEIR_COMPRESSION_UNDECIDED;
    if (zstd_may || skipped_may)
        return len >= sizeof zstd ? WEIR_COMPRESSION_ZSTD : WEIR_COMPRESSION_UNDECIDED;
    return WEIR_COMPRESSION_NONE;
}

weir_status weir_decompress_open(weir_decompressor **ret)
{
    weir_decompressor *u = calloc(1, sizeof *u);
    if (!u)
        return WEIR_E_NOMEM;
    u->zstd = ZSTD_createDStream();
    if (!u->zstd || inflateInit2(&u->gzip, GZIP_WINDOW) != Z_OK) {
        ZSTD_freeDStream(u->zstd);
        free(u);
        return WEIR_E_NOMEM;
    }
    *ret = u;
    return WEIR_OK;
}

void weir_decompress_close(weir_decompressor *u)
{
    if (!u)
        return;
    inflateEnd(&u->gzip);
    ZSTD_freeDStream(u->zstd);
    free(u);
}

__attribute__((format(printf, 3, 4))) static weir_status
fail(weir_decompress_error *error, uint64_t offset, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    vsnprintf(error->text, sizeof error->text, text, args);
    va_end(args);
    error->offset = offset;
    return WEIR_E_SYNTAX;
}

/* ---- inside a member ------------------------------------------------------------------------- */

/* The input and the output of a step. */
typedef struct flow {
    const uint8_t *in;
    size_t len;
    uint8_t *out;
    size_t out_size;
    size_t used, made;
    bool idle; /* the last step made no progress */
} flow;

static void member_ends(weir_decompressor *u)
{
    u->padding = u->inside == WEIR_COMPRESSION_GZIP;
    u->inside = WEIR_COMPRESSION_UNDECIDED;
}

static weir_status step_gzip(weir_decompressor *u, flow *f, weir_decompress_error *error)
{
    z_stream *z = &u->gzip;
    uInt len = (uInt)(f->len < STEP_MAX ? f->len : STEP_MAX);
    uInt room = (uInt)(f->out_size < STEP_MAX ? f->out_size : STEP_MAX);
    z->next_in = f->in;
    z->avail_in = len;
    z->next_out = f->out;
    z->avail_out = room;
    int r = inflate(z, Z_NO_FLUSH);
    f->used = len - z->avail_in;
    f->made = room - z->avail_out;
    if (r == Z_STREAM_END)
        member_ends(u);
    if (r == Z_STREAM_END || r == Z_OK ||
        r == Z_BUF_ERROR) /* Z_BUF_ERROR: no progress was possible */
        return WEIR_OK;
    if (r == Z_MEM_ERROR) {
        fail(error, u->offset, "out of memory");
        return WEIR_E_NOMEM;
    }
    return fail(error, u->offset + f->used, "the gzip data is damaged: %s",
                z->msg ? z->msg : "unknown reason");
}

static weir_status step_zstd(weir_decompressor *u, flow *f, weir_decompress_error *error)
{
    size_t most = u->zstd_head > 0 ? ZSTD_HEAD_STEP : u->zstd_wants;
    ZSTD_inBuffer in = {f->in, f->len < most ? f->len : most, 0};
    ZSTD_outBuffer out = {f->out, f->out_size, 0};
    size_t r = ZSTD_decompressStream(u->zstd, &out, &in);
    f->used = in.pos;
    f->made = out.pos;
    u->zstd_head -= in.pos < u->zstd_head ? in.pos : u->zstd_head;
    if (!ZSTD_isError(r)) {
        u->zstd_wants = r;
        if (r == 0)
            member_ends(u);
        return WEIR_OK;
    }
    ZSTD_ErrorCode code = ZSTD_getErrorCode(r);
    if (code == ZSTD_error_memory_allocation) {
        fail(error, u->offset, "out of memory");
        return WEIR_E_NOMEM;
    }
    if (code == ZSTD_error_frameParameter_windowTooLarge)
        return fail(error, u->begun_at,
                    "the zstd data was compressed with --long and needs more memory than weir "
                    "allows; decompress it with zstd -dc --long=31");
    return fail(error, u->offset + f->used, "the zstd data is damaged: %s", ZSTD_getErrorName(r));
}

/* ---- between members ------------------------------------------------------------------------- */

static weir_status begin_member(weir_decompressor *u, weir_compression packing,
                                weir_decompress_error *error)
{
    if (packing == WEIR_COMPRESSION_NONE)
        return fail(error, u->begun_at,
                    "expected the end of the file or more compressed data, found other bytes");
    u->inside = packing;
    u->magic_used = 0;
    if (packing == WEIR_COMPRESSION_GZIP) {
        inflateReset(&u->gzip);
    } else {
        u->zstd_wants = ZSTD_initDStream(u->zstd);
        u->zstd_head = ZSTD_HEAD_MAX;
    }
    return WEIR_OK;
}

/* Collects the magic number of the next member. Sets u->inside once it is complete. */
static weir_status collect_magic(weir_decompressor *u, flow *f, weir_decompress_error *error)
{
    while (f->used < f->len && u->inside == WEIR_COMPRESSION_UNDECIDED) {
        uint8_t byte = f->in[f->used++];
        if (u->magic_len == 0 && u->padding && byte == 0) {
            u->offset++;
            continue;
        }
        if (u->magic_len == 0)
            u->begun_at = u->offset;
        u->magic[u->magic_len++] = byte;
        weir_compression packing = weir_compression_of(u->magic, u->magic_len);
        weir_status st =
            packing == WEIR_COMPRESSION_UNDECIDED ? WEIR_OK : begin_member(u, packing, error);
        if (st != WEIR_OK)
            return st;
    }
    return WEIR_OK;
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* Decompresses one step of a member: first its magic number, then the input. */
static weir_status step(weir_decompressor *u, flow *f, weir_decompress_error *error)
{
    bool magic = u->magic_len > 0;
    flow part = {.in = f->in + f->used,
                 .len = f->len - f->used,
                 .out = f->out + f->made,
                 .out_size = f->out_size - f->made};
    if (magic) {
        part.in = u->magic + u->magic_used;
        part.len = u->magic_len - u->magic_used;
    }
    weir_status st = u->inside == WEIR_COMPRESSION_GZIP ? step_gzip(u, &part, error)
                                                        : step_zstd(u, &part, error);
    u->offset += part.used;
    f->made += part.made;
    if (!magic)
        f->used += part.used;
    else if ((u->magic_used += part.used) == u->magic_len)
        u->magic_len = u->magic_used = 0;
    f->idle = part.used == 0 && part.made == 0;
    return st;
}

weir_status weir_decompress_run(weir_decompressor *u, const uint8_t *in, size_t len, size_t *used,
                                uint8_t *out, size_t out_size, size_t *made,
                                weir_decompress_error *error)
{
    flow f = {.in = in, .len = len, .out = out, .out_size = out_size};
    weir_status st = WEIR_OK;
    while (st == WEIR_OK && f.made < out_size && !f.idle) {
        if (u->inside == WEIR_COMPRESSION_UNDECIDED)
            st = collect_magic(u, &f, error);
        if (st != WEIR_OK || u->inside == WEIR_COMPRESSION_UNDECIDED)
            break;
        st = step(u, &f, error);
    }
    *used = f.used;
    *made = f.made;
    return st;
}

weir_status weir_decompress_end(const weir_decompressor *u, weir_decompress_error *error)
{
    if (u->inside == WEIR_COMPRESSION_UNDECIDED && u->magic_len == 0)
        return WEIR_OK;
    const char *name = u->inside == WEIR_COMPRESSION_GZIP   ? "gzip "
                       : u->inside == WEIR_COMPRESSION_ZSTD ? "zstd "
                                                            : "compressed ";
    return fail(error, u->offset + u->magic_len - u->magic_used, "the %sdata is truncated", name);
}
