/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash index by id, and an area of texts. An id takes an index entry with one compare-and-swap.
 * Its text is written to memory that it has reserved, and published with one store. A process that
 * is killed in between leaves an id without a text; the next process that stores a text for the id
 * completes it. */

#include "store/image/policy_registry.h"

#include "port/assert.h"
#include "port/atomic.h"
#include "store/siphash.h"

#include <string.h>

enum {
    /* Bits of `place` for the text's length. Above them is 1 + the offset of the text. */
    LEN_BITS = 16,
    LEN_MAX = (1 << LEN_BITS) - 1
};

typedef struct entry {
    port_word id;    /* 0: free */
    port_word place; /* 0: the text is not published yet */
} entry;

/* Behind the entries are the texts. Each has a checksum of 8 bytes before it. */
typedef struct registry_part {
    port_word used; /* bytes used of the texts */
    uint8_t unused[4088];
    entry entries[];
} registry_part;

enum { TEXT_BYTES = WEIR_POLICY_REGISTRY_TEXT_BYTES / WEIR_POLICY_REGISTRY_ENTRIES };

_Static_assert(sizeof(registry_part) == 4096, "the file's layout");
_Static_assert(sizeof(entry) == 16, "the file's layout");
_Static_assert(WEIR_POLICY_REGISTRY_TEXT_BYTES % WEIR_POLICY_REGISTRY_ENTRIES == 0,
               "the file's layout");

weir_policy_registry weir_policy_registry_at(void *part, size_t bytes)
{
    WEIR_ASSERT(bytes >= WEIR_POLICY_REGISTRY_MIN && bytes <= WEIR_POLICY_REGISTRY_BYTES);
    uint64_t left = bytes - sizeof(registry_part), entries = left / (sizeof(entry) + TEXT_BYTES);
    return (weir_policy_registry){part, entries, (left - entries * sizeof(entry)) / 8 * 8};
}

static registry_part *part_of(const weir_policy_registry *r)
{
    return r->part;
}

static uint8_t *texts(const weir_policy_registry *r)
{
    return (uint8_t *)(part_of(r)->entries + r->entries_len);
}

static size_t bytes_of(size_t len)
{
    return (8 + len + 7) / 8 * 8;
}

/* Of the text and its id. A checksum against accidents: its key is no secret. */
static uint64_t checksum(uint64_t id, const uint8_t *text, size_t len)
{
    const weir_secret key = {id, len};
    return weir_siphash(key, text, len);
}

/* Returns the valid text at a place, or NULL. */
static const uint8_t *text_of(const weir_policy_registry *r, uint64_t id, uint64_t place,
                              size_t *ret_len)
{
    size_t len = place & LEN_MAX;
    uint64_t begin = (place >> LEN_BITS) - 1;
    if (place == 0 || len == 0 || begin % 8 != 0 || begin > r->texts_len ||
        bytes_of(len) > r->texts_len - begin)
        return NULL;
    uint64_t sum;
    memcpy(&sum, texts(r) + begin, sizeof sum);
    const uint8_t *text = texts(r) + begin + 8;
    *ret_len = len;
    return sum == checksum(id, text, len) ? text : NULL;
}

/* Finds the entry of an id. With `claim`, takes a free entry for it. Returns NULL if there is
 * none. */
static entry *find(const weir_policy_registry *r, uint64_t id, bool claim)
{
    WEIR_ASSERT(id != 0);
    for (uint64_t i = 0; i < r->entries_len; i++) {
        entry *e = &part_of(r)->entries[(id % r->entries_len + i) % r->entries_len];
        uint64_t there = port_word_load_relaxed(&e->id); /* relaxed: `place` publishes the entry */
        if (there == 0) {
            if (!claim)
                return NULL;
            if (port_word_cas_relaxed(&e->id, &there, id))
                return e;
        }
        if (there == id)
            return e;
    }
    return NULL;
}

/* Reserves memory for a text. Returns false if there is none. */
static bool reserve_bytes(const weir_policy_registry *r, size_t bytes, uint64_t *ret_begin)
{
    uint64_t used = port_word_load_relaxed(&part_of(r)->used);
    do {
        if (used % 8 != 0 || used > r->texts_len || bytes > r->texts_len - used)
            return false;
    } while (!port_word_cas_relaxed(&part_of(r)->used, &used, used + bytes));
    WEIR_ASSERT(used % 8 == 0 && used + bytes <= r->texts_len);
    *ret_begin = used;
    return true;
}

bool weir_policy_registry_note(const weir_policy_registry *r, uint64_t id, const char *text,
                               size_t len)
{
    if (id == 0 || len == 0 || len > LEN_MAX)
        return false;
    size_t known_len;
    entry *e = find(r, id, true);
    if (!e)
        return false;
    if (text_of(r, id, port_word_load_acquire(&e->place), &known_len))
        return true;
    uint64_t begin;
    if (!reserve_bytes(r, bytes_of(len), &begin))
        return false;
    uint64_t sum = checksum(id, (const uint8_t *)text, len);
    memcpy(texts(r) + begin, &sum, sizeof sum);
    memcpy(texts(r) + begin + 8, text, len);
    /* Pairs with the acquire loads. Two threads may store the same id: they write the same text. */
    port_word_store_release(&e->place, (begin + 1) << LEN_BITS | len);
    return true;
}

size_t weir_policy_registry_text(const weir_policy_registry *r, uint64_t id, char *buf, size_t size)
{
    size_t len;
    const entry *e = id == 0 ? NULL : find(r, id, false);
    const uint8_t *text = e ? text_of(r, id, port_word_load_acquire(&e->place), &len) : NULL;
    if (!text || len >= size)
        return 0;
    memcpy(buf, text, len);
    buf[len] = '\0';
    return len;
}

size_t weir_policy_registry_len(const weir_policy_registry *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->entries_len; i++)
        n += port_word_load_relaxed(&part_of(r)->entries[i].id) != 0;
    return n;
}

void weir_policy_registry_each(const weir_policy_registry *r,
                               bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                               void *ctx)
{
    for (size_t i = 0; i < r->entries_len; i++) {
        const entry *e = &part_of(r)->entries[i];
        uint64_t id = port_word_load_relaxed(&e->id);
        size_t len;
        const uint8_t *text = text_of(r, id, port_word_load_acquire(&e->place), &len);
        if (text && !fn(ctx, id, (const char *)text, len))
            return;
    }
}

void weir_policy_registry_repair(const weir_policy_registry *r)
{
    uint64_t used = 0;
    for (size_t i = 0; i < r->entries_len; i++) {
        entry *e = &part_of(r)->entries[i];
        size_t len;
        uint64_t place = port_word_load_relaxed(&e->place);
        if (!text_of(r, port_word_load_relaxed(&e->id), place, &len)) {
            port_word_store_release(&e->place, 0);
            continue;
        }
        uint64_t end = (place >> LEN_BITS) - 1 + bytes_of(len);
        used = used < end ? end : used;
    }
    port_word_store_release(&part_of(r)->used, used);
}
