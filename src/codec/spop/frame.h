/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_FRAME_H
#define WEIR_CODEC_SPOP_FRAME_H
/* Frames of SPOP 2.0, the protocol of HAProxy's SPOE, as HAProxy's doc/SPOE.txt, section 3, defines
 * them: integers of variable length, typed data, lists, and the frames around them. This file must
 * not know what a frame is for. All functions are pure, but for the buffer that they append to. */

#include "port/buffer.h"
#include "port/text.h"

#define WEIR_SPOP_FRAME_MIN 256   /* bytes of a frame, after its length: the least that the */
#define WEIR_SPOP_FRAME_MAX 16384 /* protocol allows, and the most that weir announces */
#define WEIR_SPOP_PREFIX    4     /* bytes of the length before a frame */

typedef enum weir_spop_type {
    WEIR_SPOP_UNSET = 0,
    WEIR_SPOP_HAPROXY_HELLO = 1,
    WEIR_SPOP_HAPROXY_DISCONNECT = 2,
    WEIR_SPOP_NOTIFY = 3,
    WEIR_SPOP_AGENT_HELLO = 101,
    WEIR_SPOP_AGENT_DISCONNECT = 102,
    WEIR_SPOP_ACK = 103
} weir_spop_type;

/* Flags of a frame. */
enum { WEIR_SPOP_FIN = 1, WEIR_SPOP_ABORT = 2 };

/* Status codes of a DISCONNECT frame. */
typedef enum weir_spop_status {
    WEIR_SPOP_NORMAL = 0,
    WEIR_SPOP_TOO_BIG = 3,
    WEIR_SPOP_INVALID = 4,
    WEIR_SPOP_NO_VERSION = 5,
    WEIR_SPOP_NO_FRAME_SIZE = 6,
    WEIR_SPOP_NO_CAPABILITIES = 7,
    WEIR_SPOP_BAD_VERSION = 8,
    WEIR_SPOP_BAD_FRAME_SIZE = 9,
    WEIR_SPOP_FRAGMENTED = 10,
    WEIR_SPOP_STATUSES
} weir_spop_status;

/* The text of a status code, static; "unknown" for other codes. */
const char *weir_spop_status_text(weir_spop_status status);

/* Types of data. */
typedef enum weir_spop_data {
    WEIR_SPOP_NULL = 0,
    WEIR_SPOP_BOOL = 1,
    WEIR_SPOP_INT32 = 2,
    WEIR_SPOP_UINT32 = 3,
    WEIR_SPOP_INT64 = 4,
    WEIR_SPOP_UINT64 = 5,
    WEIR_SPOP_IPV4 = 6,
    WEIR_SPOP_IPV6 = 7,
    WEIR_SPOP_STRING = 8,
    WEIR_SPOP_BINARY = 9
} weir_spop_data;

/* ---- reading --------------------------------------------------------------------------------- */

/* Bytes that are read from the front. */
typedef struct weir_spop_reader {
    const uint8_t *at, *end;
} weir_spop_reader;

/* Each function consumes what it reads. It returns false, with the reader at any place, if the
 * bytes end before or are invalid. */

/* An integer of 1..10 bytes; one above UINT64_MAX is invalid. */
bool weir_spop_read_varint(weir_spop_reader *r, uint64_t *ret);

/* A string: its length and its bytes. */
bool weir_spop_read_string(weir_spop_reader *r, weir_slice *ret);

typedef struct weir_spop_value {
    weir_spop_data type;
    uint64_t number;  /* WEIR_SPOP_BOOL: 0 or 1; integers: the value, a negative one as 2^64 - n */
    weir_slice bytes; /* of a string, binary data or an address; in the input */
} weir_spop_value;

/* A type and its data. The types 10 to 15 are invalid. */
bool weir_spop_read_value(weir_spop_reader *r, weir_spop_value *ret);

/* A frame without its length. */
typedef struct weir_spop_frame {
    unsigned type; /* 0..255: a weir_spop_type, or one that is unknown */
    uint32_t flags;
    uint64_t stream_id, frame_id;
    weir_spop_reader payload;
} weir_spop_frame;

/* Reads the type, the flags and the ids of a frame. */
bool weir_spop_read_frame(weir_spop_reader *r, weir_spop_frame *ret);

/* Prints a value as text: numbers in decimal; true and false as 1 and 0, as HAProxy does; addresses
 * in canonical form; strings and binary data as they are.
 *  buf  WEIR_SPOP_TEXT_MAX bytes, which *ret may refer to.
 *  ret_is_address  set to true for an address; not written otherwise.
 * Returns false for WEIR_SPOP_NULL; *ret is then empty. */
#define WEIR_SPOP_TEXT_MAX 48
bool weir_spop_text(const weir_spop_value *v, char *buf, weir_slice *ret, bool *ret_is_address);

/* ---- writing --------------------------------------------------------------------------------- */

/* A writer into memory of a fixed size. */
typedef struct weir_spop_writer {
    uint8_t *at, *end;
    bool full; /* something did not fit; nothing was written since */
} weir_spop_writer;

void weir_spop_put_byte(weir_spop_writer *w, unsigned byte);
void weir_spop_put_varint(weir_spop_writer *w, uint64_t v);
void weir_spop_put_string(weir_spop_writer *w, const char *at, size_t len);

/* A type and its data. */
void weir_spop_put_bool(weir_spop_writer *w, bool v);
void weir_spop_put_uint32(weir_spop_writer *w, uint32_t v);
void weir_spop_put_int64(weir_spop_writer *w, int64_t v);
void weir_spop_put_text(weir_spop_writer *w, const char *at, size_t len);

/* Begins a frame at the tail of a buffer, with room for `size` bytes after its length.
 *  size  WEIR_SPOP_FRAME_MIN..WEIR_SPOP_FRAME_MAX.
 * Returns a writer for the payload. If memory is exhausted, the writer is full. */
weir_spop_writer weir_spop_begin(weir_buffer *out, size_t size, weir_spop_type type, uint32_t flags,
                                 uint64_t stream_id, uint64_t frame_id);

/* Ends a frame: writes its length and appends it. Appends nothing if memory was exhausted. */
void weir_spop_end(weir_buffer *out, const weir_spop_writer *w);

#endif
