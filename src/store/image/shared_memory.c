/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The magic number of a new header is stored last. Memory without it is treated as new. */

#include "store/image/shared_memory.h"

#include "port/assert.h"
#include "store/image/policy_registry.h"
#include "store/image/state_file.h"
#include "store/robust_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE UINT64_C(4096)

enum {
    SLOTS_MAX = 2048,
    SLOT_BYTES = 2048,   /* bytes of memory for each slot */
    REGISTRY_SHARE = 32, /* the part of the memory for the registry */
};

static uint64_t pages(uint64_t bytes)
{
    return bytes / PAGE * PAGE;
}

uint64_t weir_shared_memory_processes(size_t memory_bytes)
{
    uint64_t slots = memory_bytes / SLOT_BYTES; /* at least 512 */
    return pages((slots < SLOTS_MAX ? slots : SLOTS_MAX) * sizeof(port_presence));
}

uint64_t weir_shared_memory_registry(size_t memory_bytes)
{
    uint64_t bytes = pages(memory_bytes / REGISTRY_SHARE);
    return bytes < WEIR_POLICY_REGISTRY_BYTES ? bytes : WEIR_POLICY_REGISTRY_BYTES;
}

size_t weir_shared_memory_overhead(size_t memory_bytes)
{
    return (size_t)(WEIR_FILE_HEADER_BYTES + weir_shared_memory_processes(memory_bytes) +
                    weir_shared_memory_registry(memory_bytes));
}

weir_process_slots weir_shared_memory_slots(weir_file_header *h)
{
    return (weir_process_slots){(port_presence *)((char *)h + h->processes.at),
                                h->processes.bytes / sizeof(port_presence)};
}

/* ---- a new header ---------------------------------------------------------------------------- */

bool weir_shared_memory_is_new(const weir_file_header *h)
{
    return port_word_load_acquire((const port_word *)h) == 0; /* the magic number */
}

bool weir_shared_memory_init(weir_file_header *h, weir_file_header *head, const uint8_t secret[16])
{
    const size_t from = sizeof head->magic;
    weir_file_header_init(head, secret, port_now_ns());
    memcpy((char *)h + from, (const char *)head + from, sizeof *head - from);
    weir_process_slots slots = weir_shared_memory_slots(h);
    return weir_process_slots_init(&slots);
}

void weir_shared_memory_publish(weir_file_header *h)
{
    uint64_t word;
    memcpy(&word, weir_file_header_magic, sizeof word);
    port_word_store_release((port_word *)h, word);
}

/* ---- an old header --------------------------------------------------------------------------- */

/* Describes partition i of a header. */
static void describe(const weir_file_header *h, size_t i, char *ret, size_t size)
{
    const weir_file_partition *p = &h->partitions[i];
    if (p->name_hash == 0)
        snprintf(ret, size, "none");
    else
        snprintf(ret, size, "'%.20s' of %" PRIu64 "+%" PRIu64 " bytes", h->partition_names[i],
                 p->table_bytes, p->large_bytes);
}

static weir_status check_partitions(const weir_file_header *h, const weir_file_header *wanted,
                                    const weir_store_options *options)
{
    char is[80], asked[80];
    for (size_t i = 0; i < WEIR_PARTITIONS_MAX; i++) {
        if (memcmp(&h->partitions[i], &wanted->partitions[i], sizeof h->partitions[i]) == 0)
            continue;
        describe(h, i, is, sizeof is);
        describe(wanted, i, asked, sizeof asked);
        return weir_file_error(WEIR_E_RANGE, options, "",
                               "partition %zu of its store is %s, but %s was requested", i, is,
                               asked);
    }
    return WEIR_OK;
}

weir_status weir_shared_memory_check(const weir_file_header *h, const weir_file_header *wanted,
                                     const weir_store_options *options)
{
    char what[128];
    if (!weir_memory_header_check(h, what, sizeof what))
        return weir_file_error(WEIR_E_SYNTAX, options, "", "%s", what);
    uint64_t large = h->parts[WEIR_PART_LARGE].bytes,
             wanted_large = wanted->parts[WEIR_PART_LARGE].bytes;
    if (h->bytes != wanted->bytes || large != wanted_large) {
        return weir_file_error(WEIR_E_RANGE, options, "",
                               "its store has %" PRIu64 " bytes, %" PRIu64
                               " of them for large states, requested are %" PRIu64
                               " bytes, %" PRIu64 " of them for large states",
                               h->bytes, large, wanted->bytes, wanted_large);
    }
    if (options->secret && memcmp(options->secret, h->secret, sizeof h->secret) != 0)
        return weir_file_error(WEIR_E_RANGE, options, "",
                               "the secret of its store differs from the one given");
    /* A later version may divide the memory in another way. */
    if (memcmp(h->parts, wanted->parts, sizeof h->parts) != 0 ||
        memcmp(&h->processes, &wanted->processes, sizeof h->processes) != 0)
        return weir_file_error(WEIR_E_SYNTAX, options, "",
                               "the sizes in its header are inconsistent");
    return check_partitions(h, wanted, options);
}

/* ---- process slots --------------------------------------------------------------------------- */

static port_presence *slot_of(const weir_process_slots *s, uint64_t id)
{
    return &s->slot[id / 2 % s->len]; /* ids are odd */
}

bool weir_process_slots_init(weir_process_slots *s)
{
    for (uint64_t i = 0; i < s->len; i++) {
        if (!port_presence_init(&s->slot[i]))
            return false;
    }
    return true;
}

/* Counts an opening. Returns its id. */
static uint64_t next_id(port_word *openings)
{
    uint64_t n = port_word_load_relaxed(openings);
    while (!port_word_cas_relaxed(openings, &n, n + 1))
        continue;
    return weir_process_id(n);
}

bool weir_process_slots_take(weir_process_slots *s, port_word *openings, uint64_t *ret_id)
{
    WEIR_ASSERT(s->len > 0);
    /* Twice as often as there are slots: when ids start again at 1, slots are skipped. */
    for (uint64_t tries = 0; tries < 2 * s->len; tries++) {
        uint64_t id = next_id(openings);
        if (port_presence_take(slot_of(s, id), id)) {
            *ret_id = id;
            return true;
        }
    }
    return false;
}

void weir_process_slots_release(weir_process_slots *s, uint64_t id)
{
    port_presence_release(slot_of(s, id));
}

bool weir_process_slots_has(const weir_process_slots *s, uint64_t id)
{
    return port_presence_is_held(slot_of(s, id), id);
}
