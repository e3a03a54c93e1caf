/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decompresses data from zlib and libzstd with the input cut in every way, and data that is
 * truncated, damaged or not compressed. */

#include "codec/decompress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cmocka.h>

enum { DATA_MAX = 1 << 20, TEXT_LEN = 300000 };

typedef struct bytes {
    size_t len;
    uint8_t at[DATA_MAX];
} bytes;

static bytes compressed, out;
static char text[TEXT_LEN];

static void add_gzip(const void *from, size_t len)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)from;
    z.avail_in = (uInt)len;
    z.next_out = compressed.at + compressed.len;
    z.avail_out = (uInt)(DATA_MAX - compressed.len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    compressed.len = DATA_MAX - z.avail_out;
    deflateEnd(&z);
}

static void add_zstd(const void *from, size_t len)
{
    size_t n =
        ZSTD_compress(compressed.at + compressed.len, DATA_MAX - compressed.len, from, len, 3);
    assert_false(ZSTD_isError(n));
    compressed.len += n;
}

static void add_bytes(const void *from, size_t len)
{
    memcpy(compressed.at + compressed.len, from, len);
    compressed.len += len;
}

/* ---- fakes ----------------------------------------------------------------------------------- */

/* A function of the C library, zlib or libzstd that fails. */
static enum function {
    NOTHING,
    CALLOC,
    INFLATE_INIT,
    INFLATE,
    ZSTD_CREATE,
    ZSTD_DECOMPRESS
} failing;
static int inflate_error;

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
int __wrap_inflateInit2_(z_stream *z, int bits, const char *version, int size);
int __real_inflateInit2_(z_stream *z, int bits, const char *version, int size);
int __wrap_inflate(z_stream *z, int flush);
int __real_inflate(z_stream *z, int flush);
ZSTD_DStream *__wrap_ZSTD_createDStream(void);
ZSTD_DStream *__real_ZSTD_createDStream(void);
size_t __wrap_ZSTD_decompressStream(ZSTD_DStream *d, ZSTD_outBuffer *to, ZSTD_inBuffer *from);
size_t __real_ZSTD_decompressStream(ZSTD_DStream *d, ZSTD_outBuffer *to, ZSTD_inBuffer *from);

void *__wrap_calloc(size_t n, size_t size)
{
    return failing == CALLOC ? NULL : __real_calloc(n, size);
}

int __wrap_inflateInit2_(z_stream *z, int bits, const char *version, int size)
{
    return failing == INFLATE_INIT ? Z_MEM_ERROR : __real_inflateInit2_(z, bits, version, size);
}

int __wrap_inflate(z_stream *z, int flush)
{
    return failing == INFLATE ? inflate_error : __real_inflate(z, flush);
}

ZSTD_DStream *__wrap_ZSTD_createDStream(void)
{
    return failing == ZSTD_CREATE ? NULL : __real_ZSTD_createDStream();
}

size_t __wrap_ZSTD_decompressStream(ZSTD_DStream *d, ZSTD_outBuffer *to, ZSTD_inBuffer *from)
{
    return failing == ZSTD_DECOMPRESS ? (size_t)-ZSTD_error_memory_allocation
                                      : __real_ZSTD_decompressStream(d, to, from);
}

/* ---- running it ------------------------------------------------------------------------------ */

/* Decompresses `compressed` into `out`, a few bytes at a time. */
static weir_status decompress(size_t in_step, size_t out_step, weir_decompress_error *error)
{
    weir_decompressor *u;
    assert_int_equal(weir_decompress_open(&u), WEIR_OK);
    weir_status st = WEIR_OK;
    size_t pos = 0, made = 0, room = 0;
    out.len = 0;
    while (st == WEIR_OK && (pos < compressed.len || made == room)) {
        size_t len = compressed.len - pos < in_step ? compressed.len - pos : in_step, used;
        room = DATA_MAX - out.len < out_step ? DATA_MAX - out.len : out_step;
        st = weir_decompress_run(u, compressed.at + pos, len, &used, out.at + out.len, room, &made,
                                 error);
        assert_true(st != WEIR_OK || used == len || made == room);
        pos += used;
        out.len += made;
    }
    if (st == WEIR_OK)
        st = weir_decompress_end(u, error);
    weir_decompress_close(u);
    return st;
}

static void expect(const char *wanted, size_t len)
{
    static const size_t steps[][2] = {
        {DATA_MAX, DATA_MAX}, {1, DATA_MAX}, {DATA_MAX, 7}, {3, 1000}, {65536, 262144}};
    weir_decompress_error error;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(decompress(steps[i][0], steps[i][1], &error), WEIR_OK);
        assert_int_equal(out.len, len);
        assert_memory_equal(out.at, wanted, len);
    }
}

static int begin(void **state)
{
    (void)state;
    compressed.len = 0;
    uint32_t seed = 1;
    for (size_t i = 0; i < TEXT_LEN; i++) {
        seed = seed * 1664525 + 1013904223;
        text[i] = (char)('a' + (seed >> 28));
    }
    return 0;
}

static void magic_numbers_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *at;
        size_t len;
        weir_compression packing;
    } table[] = {
        {"", 0, WEIR_COMPRESSION_UNDECIDED},
        {"\x1f", 1, WEIR_COMPRESSION_UNDECIDED},
        {"\x1f\x8b", 2, WEIR_COMPRESSION_GZIP},
        {"\x1f\x8c", 2, WEIR_COMPRESSION_NONE},
        {"\x28\xb5\x2f", 3, WEIR_COMPRESSION_UNDECIDED},
        {"\x28\xb5\x2f\xfd", 4, WEIR_COMPRESSION_ZSTD},
        {"\x28\xb5\x2f\xfe", 4, WEIR_COMPRESSION_NONE},
        {"P*M", 3, WEIR_COMPRESSION_UNDECIDED},
        {"_*M\x18", 4, WEIR_COMPRESSION_ZSTD},
        {"`*M\x18", 4, WEIR_COMPRESSION_NONE},
        {"1\t", 2, WEIR_COMPRESSION_NONE},
        {"{", 1, WEIR_COMPRESSION_NONE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(weir_compression_of((const uint8_t *)table[i].at, table[i].len),
                         table[i].packing);
}

static void one_member(void **state)
{
    (void)state;
    add_gzip(text, TEXT_LEN);
    expect(text, TEXT_LEN);
    compressed.len = 0;
    add_zstd(text, TEXT_LEN);
    expect(text, TEXT_LEN);
    compressed.len = 0;
    add_zstd("", 0);
    expect("", 0);
    compressed.len = 0;
    expect("", 0);
}

static void concatenated_members(void **state)
{
    (void)state;
    add_gzip(text, 1000);
    add_gzip("", 0);
    add_bytes("\0\0\0", 3);
    add_gzip(text + 1000, 1000);
    add_zstd(text + 2000, 200000);
    add_bytes("\x5a\x2a\x4d\x18\x05\0\0\0skip!", 13);
    add_zstd(text + 202000, 50000);
    add_gzip(text + 252000, TEXT_LEN - 252000);
    add_bytes("\0\0\0\0\0", 5);
    expect(text, TEXT_LEN);
}

static void truncated_input(void **state)
{
    (void)state;
    weir_decompress_error error;
    for (int zstd = 0; zstd < 2; zstd++) {
        compressed.len = 0;
        if (zstd)
            add_zstd(text, 5000);
        else
            add_gzip(text, 5000);
        size_t all = compressed.len;
        for (size_t len = 1; len < all; len++) {
            compressed.len = len;
            assert_int_equal(decompress(len % 9 + 1, 1000, &error), WEIR_E_SYNTAX);
            assert_int_equal(error.offset, len);
            assert_non_null(strstr(error.text, "truncated"));
            assert_memory_equal(out.at, text, out.len);
        }
    }
}

static void damage_is_detected(void **state)
{
    (void)state;
    weir_decompress_error error;
    for (int zstd = 0; zstd < 2; zstd++) {
        compressed.len = 0;
        add_gzip(text, 100);
        size_t first = compressed.len;
        if (zstd)
            add_zstd(text + 100, 200000);
        else
            add_gzip(text + 100, 200000);
        size_t at =
            zstd ? compressed.len - 4 : compressed.len - 8; /* zstd: a block; gzip: the checksum */
        compressed.at[at] ^= 0x55;
        assert_int_equal(decompress(DATA_MAX, DATA_MAX, &error), WEIR_E_SYNTAX);
        assert_true(error.offset > first && error.offset <= compressed.len);
        assert_non_null(strstr(error.text, "damaged"));
        assert_true(out.len >= 100 + 131072); /* at least everything before the damaged block */
        assert_memory_equal(out.at, text, out.len < 131072 ? out.len : 131072);
    }
}

static void trailing_bytes(void **state)
{
    (void)state;
    weir_decompress_error error;
    add_gzip(text, 100);
    size_t end = compressed.len;
    add_bytes("\0\0", 2);
    add_bytes("more", 4);
    assert_int_equal(decompress(DATA_MAX, DATA_MAX, &error), WEIR_E_SYNTAX);
    assert_int_equal(error.offset, end + 2);
    assert_string_equal(error.text,
                        "expected the end of the file or more compressed data, found other bytes");
    assert_int_equal(out.len, 100);
    compressed.len = 0;
    add_zstd(text, 100);
    end = compressed.len;
    add_bytes("\0", 1); /* zstd does not allow padding */
    assert_int_equal(decompress(1, 1, &error), WEIR_E_SYNTAX);
    assert_int_equal(error.offset, end);
}

/* An invalid frame header that contains the magic number of a format before 1.0. */
static void legacy_magic_in_a_zstd_header(void **state)
{
    (void)state;
    static const uint8_t head[] = {0x28, 0xB5, 0x2F, 0xFD, 0xFF, 0x00, 0x28, 0x28, 0x48,
                                   0x27, 0xB5, 0x2F, 0xFD, 0x00, 0x00, 0x00, 0x00, 0x00};
    weir_decompress_error error;
    add_bytes(head, sizeof head);
    for (size_t step = 1; step <= sizeof head; step++)
        assert_int_equal(decompress(step, DATA_MAX, &error), WEIR_E_SYNTAX);
}

/* A frame with a window of 2 GiB. */
static void zstd_window_too_large(void **state)
{
    (void)state;
    weir_decompress_error error;
    add_bytes("\x28\xb5\x2f\xfd\0\xa8\0\0\0\0\0", 11);
    assert_int_equal(decompress(DATA_MAX, DATA_MAX, &error), WEIR_E_SYNTAX);
    assert_int_equal(error.offset, 0);
    assert_non_null(strstr(error.text, "zstd -dc --long=31"));
}

static void without_memory(void **state)
{
    (void)state;
    weir_decompressor *u = NULL;
    weir_decompress_error error;
    for (int i = 0; i < 3; i++) {
        failing = (enum function[]){CALLOC, INFLATE_INIT, ZSTD_CREATE}[i];
        assert_int_equal(weir_decompress_open(&u), WEIR_E_NOMEM);
        assert_null(u);
        weir_decompress_close(u);
    }
    failing = NOTHING;
    add_zstd(text, 100);
    uint64_t end = compressed.len;
    add_gzip(text, 100);
    inflate_error = Z_MEM_ERROR;
    for (int i = 0; i < 2; i++) {
        failing = i == 0 ? INFLATE : ZSTD_DECOMPRESS;
        assert_int_equal(decompress(1, DATA_MAX, &error), WEIR_E_NOMEM);
        assert_int_equal(error.offset, i == 0 ? end : 0);
        assert_string_equal(error.text, "out of memory");
    }
    failing = INFLATE;
    inflate_error = Z_STREAM_ERROR; /* zlib gives no reason */
    assert_int_equal(decompress(1, DATA_MAX, &error), WEIR_E_SYNTAX);
    assert_string_equal(error.text, "the gzip data is damaged: unknown reason");
    failing = NOTHING;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magic_numbers_are_recognised),
        cmocka_unit_test_setup(one_member, begin),
        cmocka_unit_test_setup(concatenated_members, begin),
        cmocka_unit_test_setup(truncated_input, begin),
        cmocka_unit_test_setup(damage_is_detected, begin),
        cmocka_unit_test_setup(trailing_bytes, begin),
        cmocka_unit_test_setup(legacy_magic_in_a_zstd_header, begin),
        cmocka_unit_test_setup(zstd_window_too_large, begin),
        cmocka_unit_test_setup(without_memory, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
