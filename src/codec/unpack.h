/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_UNPACK_H
#define WEIR_CODEC_UNPACK_H
/* gzip (RFC 1952) and zstd (RFC 8878) -> the bytes that were packed, however the input is cut.
 * Members and frames that follow one another are unpacked one after the other, and may be mixed. It
 * must not know files, threads, or what the bytes mean. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

typedef enum weir_packing {
    WEIR_PACKING_OPEN, /* too few bytes to tell; never with 4 or more */
    WEIR_PACKING_NONE, /* neither of them */
    WEIR_PACKING_GZIP,
    WEIR_PACKING_ZSTD
} weir_packing;

#define WEIR_PACKING_MAGIC_MAX 4 /* bytes that tell */

/* What begins with these bytes. Pure. */
weir_packing weir_packing_of(const uint8_t *bytes, size_t len);

typedef struct weir_unpack weir_unpack;

#define WEIR_UNPACK_TEXT_MAX 160

typedef struct weir_unpack_error {
    uint64_t offset; /* of the packed input: where it was noticed */
    char text[WEIR_UNPACK_TEXT_MAX];
} weir_unpack_error;

/* Returns WEIR_OK or WEIR_E_NOMEM. One thread at a time. */
WEIR_NODISCARD weir_status weir_unpack_open(weir_unpack **ret);
void weir_unpack_close(weir_unpack *u); /* accepts NULL */

/* Unpacks from the input into `out`, until the room is full, or the input is used up and all that
 * it holds is in `out`.
 *  room   bytes, at least 1. If made == room there may be more: call again with the rest.
 *  used   bytes of the input that are done with; always written. All of them if made < room.
 *  made   bytes written to `out`; always written: on an error what could be unpacked before it.
 *  error  written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX for what is damaged, or neither gzip nor zstd. Zeros
 * behind a gzip member, with which tapes are filled up, are left out. After an error only close. */
WEIR_NODISCARD weir_status weir_unpack_run(weir_unpack *u, const uint8_t *in, size_t len,
                                           size_t *used, uint8_t *out, size_t room, size_t *made,
                                           weir_unpack_error *error);

/* Whether the input may end here. Returns WEIR_OK, or WEIR_E_SYNTAX with an error that says that it
 * is cut off. */
WEIR_NODISCARD weir_status weir_unpack_end(const weir_unpack *u, weir_unpack_error *error);

#endif
