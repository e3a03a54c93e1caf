/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_FILE_HEADER_H
#define WEIR_STORE_FILE_HEADER_H
/* The first page of an image: what it is, where its parts lie, and who has had it open. It must not
 * know of files or processes. docs/internals/state.md describes it byte by byte. */

#include "port/atomic.h"
#include "store/clock.h"

#include <stddef.h>

enum {
    WEIR_FILE_HEADER_BYTES = 4096,
    WEIR_FILE_HEADER_FIXED = 504, /* bytes that never change, ahead of their checksum */
    WEIR_IMAGE_FORMAT = 1         /* of this page, and of how the parts lie */
};

typedef enum weir_file_part_name { /* in the order in which they lie */
                                   WEIR_PART_REGISTRY,
                                   WEIR_PART_RESERVED,
                                   WEIR_PART_LARGE,
                                   WEIR_PART_TABLE,
                                   WEIR_PARTS
} weir_file_part_name;

typedef struct weir_file_part {
    uint64_t at, bytes;
} weir_file_part;

typedef struct weir_file_header {
    uint8_t magic[8];    /* weir_file_header_magic */
    uint32_t byte_order; /* 0x01020304 */
    uint32_t format;
    uint32_t state_version;
    uint32_t head_bytes;
    uint64_t bytes; /* of all */
    weir_file_part parts[WEIR_PARTS];
    uint8_t secret[16];
    int64_t made_ns;
    uint8_t zero[384];
    uint64_t checksum; /* of all above */

    /* What changes, on a cache line of its own. */
    port_word openings;   /* so far; an owner's id is made from it */
    port_word attached;   /* openings that were not yet closed; 0: closed as it should be */
    port_word written_ns; /* when it was last known to be on the disk */
    uint8_t boot[16];     /* of the machine, when it was last opened by the first to do so */
    weir_clock_slots epoch;
    uint8_t rest[3448];
} weir_file_header;

enum { WEIR_FILE_HEADER_MAGIC = 8 };

/* What every state file begins with. */
extern const uint8_t weir_file_header_magic[WEIR_FILE_HEADER_MAGIC];

/* Says where parts of these sizes lie, and how large the whole is. False if there is no such
 * whole. */
bool weir_file_header_lay_out(weir_file_header *h, const uint64_t bytes[WEIR_PARTS]);

/* Makes a new head of one that was laid out. */
void weir_file_header_init(weir_file_header *h, const uint8_t secret[16], int64_t made_ns);

/* Says what is wrong with a head that was read.
 *  file_bytes  of the file it was read from; if it is shorter than a head, *h is not looked at.
 *  ret         one line, terminated; written if the answer is false. */
bool weir_file_header_check(const weir_file_header *h, uint64_t file_bytes, char *ret, size_t size);

#endif
