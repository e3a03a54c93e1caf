/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_FILE_HEADER_H
#define WEIR_STORE_FILE_HEADER_H
/* The header of a state file: its first page, which says what the file is and where its parts are.
 * Anonymous memory has one too, and so has the memory of a caller. docs/internals/state.md
 * describes it byte by byte. */

#include <weir/weir_store.h>

#include "port/atomic.h"
#include "store/clock.h"
#include "store/image/resets.h"

#include <stddef.h>

/* The version of the parts' contents: of the layouts of the table, the large states and the
 * reservations, and of the states of src/core. Increase it with each change of one of these. A file
 * with another version is refused. */
#define WEIR_STATE_VERSION 3
/* An older version that can be read, and whose states can be copied into a new file: weir_unpack()
 * decodes its entries, and weir_store_policy_id() finds its ids. */
#define WEIR_STATE_VERSION_READABLE 2
/* The version of a file with partitions, so that a program that does not know them refuses it. */
#define WEIR_STATE_VERSION_PARTITIONS 4

enum {
    WEIR_FILE_HEADER_BYTES = 4096,
    WEIR_FILE_HEADER_FIXED = 504, /* bytes that never change, before their checksum */
    WEIR_IMAGE_FORMAT = 1,        /* the version of the header and of the order of parts */
    WEIR_MEMORY_FORMAT = 0x10001  /* the same for memory of the caller */
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

/* A partition: the parts of `table` and `large` that it has. Sorted by name. */
typedef struct weir_file_partition {
    uint64_t name_hash; /* 0: unused, as are all after it */
    uint64_t table_bytes, large_bytes;
} weir_file_partition;

typedef struct weir_file_header {
    uint8_t magic[8];    /* weir_file_header_magic */
    uint32_t byte_order; /* 0x01020304 */
    uint32_t format;
    uint32_t state_version;
    uint32_t head_bytes;
    uint64_t bytes; /* size of the whole image */
    weir_file_part parts[WEIR_PARTS];
    uint8_t secret[16];
    int64_t made_ns;
    weir_file_partition partitions[WEIR_PARTITIONS_MAX];
    weir_file_part processes; /* memory of the caller: the process slots. In a file all zero */
    uint8_t zero[8];
    uint64_t checksum; /* of all bytes above */

    /* The words that change, on a cache line of their own. */
    port_word openings;   /* openings so far; gives each opening its id */
    port_word attached;   /* openings that were not closed; 0: closed cleanly */
    port_word written_ns; /* about when it was last written to the disk */
    /* The boot id of the machine. It is written by each opening that finds no other process with
     * the file open. */
    uint8_t boot[16];
    weir_clock_slots clock_slots;
    char partition_names[WEIR_PARTITIONS_MAX][72]; /* padded with zeros */
    weir_resets resets;
    uint8_t rest[312];
} weir_file_header;

enum { WEIR_FILE_HEADER_MAGIC = 8 };

/* The magic number at the start of every state file. */
extern const uint8_t weir_file_header_magic[WEIR_FILE_HEADER_MAGIC];

/* Computes the layout of parts of these sizes. Returns false if the sizes are impossible.
 *  h  processes.bytes is set: 0 in a file. If it is not 0, the process slots come first, and no
 *     part is aligned to huge pages. */
bool weir_file_header_lay_out(weir_file_header *h, const uint64_t bytes[WEIR_PARTS]);

/* Completes a new header whose layout was computed, and whose partitions are set. */
void weir_file_header_init(weir_file_header *h, const uint8_t secret[16], int64_t made_ns);

/* Marks a header whose parts are not complete yet, so that weir_file_header_check() refuses the
 * file; and one whose parts are. */
void weir_file_header_complete(weir_file_header *h, bool complete);

/* The version of the states that a header with its partitions has; see WEIR_STATE_VERSION. */
uint32_t weir_file_header_version(const weir_file_header *h);

/* Validates the header of a file. Returns false and explains what is wrong.
 *  file_bytes  the size of the file. If it is less than a header, *h is not read.
 *  read_only   accept WEIR_STATE_VERSION_READABLE too.
 *  ret         one line, terminated; written if the result is false. */
bool weir_file_header_check(const weir_file_header *h, uint64_t file_bytes, bool read_only,
                            char *ret, size_t size);

/* The same for memory of the caller, of any size. */
bool weir_memory_header_check(const weir_file_header *h, char *ret, size_t size);

/* ---- partitions (partitions.c) --------------------------------------------------------------- */

/* Names and sizes, sorted by name, so that the order of the options does not matter. */

/* A partition of an image. The sizes are multiples of 4 KiB. */
typedef struct weir_image_partition {
    char name[WEIR_PARTITION_NAME_MAX + 1];
    uint64_t name_hash; /* not 0; the same in all files */
    size_t table_bytes, large_bytes;
} weir_image_partition;

/* Hashes a partition's name. The header of a file has the name and the hash; an exported key has
 * only the hash. */
uint64_t weir_partition_name_hash(const char *name);

/* Writes the partitions of the options to a header that has none. Their names are valid and
 * distinct, and there are at most WEIR_PARTITIONS_MAX. */
void weir_partitions_set(weir_file_header *h, const weir_store_options *options);

/* Whether the names of a header belong to its hashes, and its entries are sorted and complete. */
bool weir_partitions_sound(const weir_file_header *h);

/* The number of partitions. With `ret`, writes up to WEIR_PARTITIONS_MAX of them. */
size_t weir_partitions_get(const weir_file_header *h, weir_image_partition *ret);

#endif
