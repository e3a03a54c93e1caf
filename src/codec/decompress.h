/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DECOMPRESS_H
#define WEIR_CODEC_DECOMPRESS_H
/* Streaming decompression of gzip (RFC 1952) and zstd (RFC 8878). The input may be cut anywhere.
 * Several gzip members and zstd frames may follow one another, also mixed; their contents are
 * concatenated. This module does not know files or threads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

typedef enum weir_compression {
    WEIR_COMPRESSION_UNDECIDED, /* too few bytes to decide; impossible with 4 or more */
    WEIR_COMPRESSION_NONE,      /* neither gzip nor zstd */
    WEIR_COMPRESSION_GZIP,
    WEIR_COMPRESSION_ZSTD
} weir_compression;

#define WEIR_COMPRESSION_MAGIC_MAX 4 /* bytes of the longest magic number */

/* Recognises the compression by its magic number, the first bytes of the data. Pure. */
weir_compression weir_compression_of(const uint8_t *bytes, size_t len);

typedef struct weir_decompressor weir_decompressor;

#define WEIR_DECOMPRESS_ERROR_MAX 160

typedef struct weir_decompress_error {
    uint64_t offset; /* in the compressed input, where the error was detected */
    char text[WEIR_DECOMPRESS_ERROR_MAX];
} weir_decompress_error;

/* Returns WEIR_OK or WEIR_E_NOMEM. Threads: one at a time. */
WEIR_NODISCARD weir_status weir_decompress_open(weir_decompressor **ret);
void weir_decompress_close(weir_decompressor *u); /* accepts NULL */

/* Decompresses input into `out`, until `out` is full or the input is consumed.
 *  out_size  bytes of `out`, at least 1. If *made == out_size, more output may be pending: call
 *            again with the rest of the input.
 *  used      input bytes that were consumed; always written. All of them if *made < out_size.
 *  made      bytes written to `out`; always written. On an error: the output before the error.
 *  error     written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX for damaged data, or data that is neither gzip nor
 * zstd. Zero padding behind a gzip member, as on tapes, is skipped. After an error, call only
 * weir_decompress_close(). */
WEIR_NODISCARD weir_status weir_decompress_run(weir_decompressor *u, const uint8_t *in, size_t len,
                                               size_t *used, uint8_t *out, size_t out_size,
                                               size_t *made, weir_decompress_error *error);

/* Checks that the input may end here. Returns WEIR_OK, or WEIR_E_SYNTAX for truncated data. */
WEIR_NODISCARD weir_status weir_decompress_end(const weir_decompressor *u,
                                               weir_decompress_error *error);

#endif
