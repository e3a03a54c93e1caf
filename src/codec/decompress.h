/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DECOMPRESS_H
#define WEIR_CODEC_DECOMPRESS_H
/* gzip (RFC 1952) and zstd (RFC 8878) -> the bytes that were packed, however the input is cut.
 * Members and frames that follow one another are unpacked one after the other, and may be mixed. It
 * must not know files, threads, or what the bytes mean. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

typedef enum weir_compression {
    WEIR_COMPRESSION_UNDECIDED, /* too few bytes to tell; never with 4 or more */
    WEIR_COMPRESSION_NONE,      /* neither of them */
    WEIR_COMPRESSION_GZIP,
    WEIR_COMPRESSION_ZSTD
} weir_compression;

#define WEIR_COMPRESSION_MAGIC_MAX 4 /* bytes that tell */

/* What begins with these bytes. Pure. */
weir_compression weir_compression_of(const uint8_t *bytes, size_t len);

typedef struct weir_decompressor weir_decompressor;

#define WEIR_DECOMPRESS_ERROR_MAX 160

typedef struct weir_decompress_error {
    uint64_t offset; /* of the packed input: where it was noticed */
    char text[WEIR_DECOMPRESS_ERROR_MAX];
} weir_decompress_error;

/* Returns WEIR_OK or WEIR_E_NOMEM. One thread at a time. */
WEIR_NODISCARD weir_status weir_decompress_open(weir_decompressor **ret);
void weir_decompress_close(weir_decompressor *u); /* accepts NULL */

/* Unpacks from the input into `out`, until the room is full, or the input is used up and all that
 * it holds is in `out`.
 *  room   bytes, at least 1. If made == room there may be more: call again with the rest.
 *  used   bytes of the input that are done with; always written. All of them if made < room.
 *  made   bytes written to `out`; always written: on an error what could be unpacked before it.
 *  error  written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX for what is damaged, or neither gzip nor zstd. Zeros
 * behind a gzip member, with which tapes are filled up, are left out. After an error only close. */
WEIR_NODISCARD weir_status weir_decompress_run(weir_decompressor *u, const uint8_t *in, size_t len,
                                               size_t *used, uint8_t *out, size_t room,
                                               size_t *made, weir_decompress_error *error);

/* Whether the input may end here. Returns WEIR_OK, or WEIR_E_SYNTAX with an error that says that it
 * is cut off. */
WEIR_NODISCARD weir_status weir_decompress_end(const weir_decompressor *u,
                                               weir_decompress_error *error);

#endif
