/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The layout of a state file, and the validation of its header. */

#include "store/image/file_header.h"

#include "store/image/policy_registry.h"
#include "store/siphash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BYTE_ORDER_MARK  UINT32_C(0x01020304)
#define OTHER_BYTE_ORDER UINT32_C(0x04030201)
#define PAGE             UINT64_C(4096)
#define LARGE_PAGE       (UINT64_C(2) << 20)
#define REGISTRY_BYTES   ((uint64_t)WEIR_POLICY_REGISTRY_BYTES)
#define BYTES_MAX        (UINT64_C(1) << 56) /* of a part, so that no sum overflows */

/* The first byte is in no text file. The line ends reveal a transfer as text. */
const uint8_t weir_file_header_magic[WEIR_FILE_HEADER_MAGIC] = {0x89, 'w',  'e',  'i',
                                                                'r',  '\r', '\n', 0x1A};

_Static_assert(sizeof(weir_file_header) == WEIR_FILE_HEADER_BYTES, "the file's layout");
_Static_assert(offsetof(weir_file_header, parts) == 32, "the file's layout");
_Static_assert(offsetof(weir_file_header, secret) == 96, "the file's layout");
_Static_assert(offsetof(weir_file_header, partitions) == 120, "the file's layout");
_Static_assert(offsetof(weir_file_header, checksum) == WEIR_FILE_HEADER_FIXED, "the file's layout");
_Static_assert(offsetof(weir_file_header, boot) == 536, "the file's layout");
_Static_assert(offsetof(weir_file_header, clock_slots) == 552, "the file's layout");
_Static_assert(offsetof(weir_file_header, partition_names) == 648, "the file's layout");
_Static_assert(offsetof(weir_file_header, resets) == 1728, "the file's layout");

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

bool weir_file_header_lay_out(weir_file_header *h, const uint64_t bytes[WEIR_PARTS])
{
    bool in_file = h->processes.bytes == 0;
    uint64_t at = WEIR_FILE_HEADER_BYTES;
    if (!in_file) {
        h->processes.at = at;
        at += h->processes.bytes;
    }
    for (size_t i = 0; i < WEIR_PARTS; i++) {
        if (bytes[i] == 0 || bytes[i] > BYTES_MAX)
            return false;
        at = round_up(at, in_file && bytes[i] >= LARGE_PAGE ? LARGE_PAGE : PAGE);
        h->parts[i] = (weir_file_part){at, bytes[i]};
        at += bytes[i];
    }
    h->bytes = round_up(at, PAGE);
    return h->bytes <= SIZE_MAX / 2;
}

/* A checksum against accidents: its key is no secret. */
static uint64_t sum_of(const weir_file_header *h)
{
    const weir_secret key = {0, 0};
    return weir_siphash(key, h, WEIR_FILE_HEADER_FIXED);
}

uint32_t weir_file_header_version(const weir_file_header *h)
{
    return weir_partitions_get(h, NULL) > 0 ? WEIR_STATE_VERSION_PARTITIONS : WEIR_STATE_VERSION;
}

void weir_file_header_init(weir_file_header *h, const uint8_t secret[16], int64_t made_ns)
{
    memcpy(h->magic, weir_file_header_magic, sizeof h->magic);
    h->byte_order = BYTE_ORDER_MARK;
    h->format = h->processes.bytes == 0 ? WEIR_IMAGE_FORMAT : WEIR_MEMORY_FORMAT;
    h->state_version = weir_file_header_version(h);
    h->head_bytes = WEIR_FILE_HEADER_BYTES;
    memcpy(h->secret, secret, sizeof h->secret);
    h->made_ns = made_ns;
    h->checksum = sum_of(h);
}

void weir_file_header_complete(weir_file_header *h, bool complete)
{
    h->checksum = complete ? sum_of(h) : 0;
}

static bool adds_up(const weir_file_header *h)
{
    bool in_file = h->format == WEIR_IMAGE_FORMAT;
    weir_file_header again = {.processes.bytes = h->processes.bytes};
    uint64_t bytes[WEIR_PARTS];
    for (size_t i = 0; i < WEIR_PARTS; i++)
        bytes[i] = h->parts[i].bytes;
    return h->head_bytes == WEIR_FILE_HEADER_BYTES &&
           (in_file ? h->processes.bytes == 0 && bytes[WEIR_PART_REGISTRY] == REGISTRY_BYTES
                    : h->processes.bytes > 0 && h->processes.bytes <= BYTES_MAX &&
                          bytes[WEIR_PART_REGISTRY] >= WEIR_POLICY_REGISTRY_MIN &&
                          bytes[WEIR_PART_REGISTRY] <= REGISTRY_BYTES) &&
           weir_file_header_lay_out(&again, bytes) && again.bytes == h->bytes &&
           memcmp(again.parts, h->parts, sizeof again.parts) == 0;
}

static bool has_version(const weir_file_header *h, bool read_only, char *ret, size_t size)
{
    uint32_t found = h->state_version, expected = weir_file_header_version(h);
    bool readable = found == WEIR_STATE_VERSION_READABLE && expected == WEIR_STATE_VERSION;
    if (found == expected || (readable && read_only))
        return true;
    snprintf(ret, size, "its states have version %" PRIu32 ", expected %" PRIu32 "%s", found,
             expected,
             readable     ? "; weir state can export them for a new file"
             : found == 1 ? ", and cannot be converted"
                          : "");
    return false;
}

/* Validates all but the magic number and the size of the whole. */
static bool is_sound(const weir_file_header *h, uint32_t format, bool read_only, char *ret,
                     size_t size)
{
    if (h->byte_order == OTHER_BYTE_ORDER)
        snprintf(ret, size, "it was created on a machine with another byte order");
    else if (h->format != format)
        snprintf(ret, size, "it has format %" PRIu32 ", expected %" PRIu32, h->format, format);
    else if (h->checksum == 0)
        snprintf(ret, size, "it is an unfinished copy");
    /* The creator of a file counts its own opening, so the count is not 0. If it began again at 0,
     * a new id could equal that of a dead owner of locks. */
    else if (h->byte_order != BYTE_ORDER_MARK || h->checksum != sum_of(h) ||
             port_word_load_relaxed(&h->openings) == 0)
        snprintf(ret, size, "its header is damaged");
    else if (!has_version(h, read_only, ret, size))
        return false;
    else if (!weir_partitions_sound(h))
        snprintf(ret, size, "the names of its partitions are damaged");
    else if (!adds_up(h))
        snprintf(ret, size, "the sizes in its header are inconsistent");
    else
        return true;
    return false;
}

static bool has_magic(const weir_file_header *h)
{
    return memcmp(h->magic, weir_file_header_magic, sizeof h->magic) == 0;
}

bool weir_file_header_check(const weir_file_header *h, uint64_t file_bytes, bool read_only,
                            char *ret, size_t size)
{
    if (file_bytes == 0)
        snprintf(ret, size, "it is empty");
    else if (file_bytes < WEIR_FILE_HEADER_BYTES || !has_magic(h))
        snprintf(ret, size, "it is not a state file of weir");
    else if (!is_sound(h, WEIR_IMAGE_FORMAT, read_only, ret, size))
        return false;
    else if (file_bytes != h->bytes)
        snprintf(ret, size, "it has %" PRIu64 " bytes, expected %" PRIu64 " as in its header",
                 file_bytes, h->bytes);
    else
        return true;
    return false;
}

bool weir_memory_header_check(const weir_file_header *h, char *ret, size_t size)
{
    if (has_magic(h))
        return is_sound(h, WEIR_MEMORY_FORMAT, false, ret, size);
    snprintf(ret, size, "it is not all zero, and has no store of weir; pass zeroed memory");
    return false;
}
