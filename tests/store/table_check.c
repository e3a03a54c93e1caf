/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker of the table. */

#include "store/table/cuckoo.h"
#include "tests/store/check.h"

#include <inttypes.h>

static weir_line line_of(const weir_table *t, uint64_t b)
{
    weir_line l;
    for (unsigned i = 0; i < WEIR_LINE_WORDS; i++)
        l.word[i] = port_word_load_relaxed(&t->buckets[b].word[i]);
    return l;
}

static uint64_t other_of(const weir_table *t, uint64_t b, const weir_bucket_entry *e)
{
    uint64_t len = t->buckets_len, distance = weir_distance_of(t, e->tag);
    return (b + (e->alternate ? len - distance : distance)) % len;
}

static const char *check_entry(const weir_table *t, uint64_t b, const weir_line *l, unsigned i,
                               bool killed)
{
    weir_bucket_entry e = weir_line_get(l, i);
    uint64_t other_b = other_of(t, b, &e), first = e.alternate ? other_b : b;
    weir_line other = line_of(t, other_b);
    if (weir_first_of(t, weir_hash_of(t, first, e.tag)) != first)
        return weir_wrong("bucket %" PRIu64 ": no hash has the tag of entry %u", b, i);
    if (weir_line_find(l, e.tag, e.alternate) != i)
        return weir_wrong("bucket %" PRIu64 ": entry %u has the tag of one before it", b, i);
    if (!killed && e.alternate && !(other.word[0] & WEIR_OVERFLOWED))
        return weir_wrong("bucket %" PRIu64 ": the first bucket of entry %u has not overflowed", b,
                          i);
    if (!killed && weir_line_find(&other, e.tag, !e.alternate) != WEIR_LINE_ENTRIES)
        return weir_wrong("bucket %" PRIu64 ": entry %u is in its other bucket too", b, i);
    return NULL;
}

static const char *check_bucket(const weir_table *t, uint64_t b, bool killed, uint64_t *held)
{
    weir_line l = line_of(t, b);
    if (l.word[0] & WEIR_LOCKED)
        return weir_wrong("bucket %" PRIu64 ": locked", b);
    if (!weir_line_sound(&l))
        return weir_wrong("bucket %" PRIu64 ": invalid header %#" PRIx64, b, l.word[0]);
    unsigned live = weir_line_live(&l);
    if ((l.word[0] & WEIR_ALTERNATES) >> 2 & ~(uint64_t)live)
        return weir_wrong("bucket %" PRIu64 ": a free entry is marked as alternate", b);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        const char *wrong = live >> i & 1 ? check_entry(t, b, &l, i, killed) : NULL;
        if (wrong)
            return wrong;
        *held += live >> i & 1 ? weir_held_by(weir_line_form(&l, i)) : 0;
    }
    return NULL;
}

static const char *check_head(const weir_table *t)
{
    if (port_word_load_relaxed(&t->head->seen_ns) > (uint64_t)WEIR_NOW_NS_MAX)
        return weir_wrong("the table's time is out of range");
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++) {
        if (port_word_load_relaxed(&t->head->undo[i].owner) != 0)
            return weir_wrong("undo record %u: in use", i);
    }
    return NULL;
}

const char *weir_table_check(const weir_table *t, bool killed)
{
    uint64_t held[WEIR_COUNTS_LEN] = {0};
    const char *wrong = check_head(t);
    uint64_t begin = (uint64_t)(t->buckets - t->array.buckets);
    for (uint64_t b = 0; b < t->buckets_len && !wrong; b++)
        wrong = check_bucket(t, b, killed, &held[(begin + b) % WEIR_COUNTS_LEN]);
    for (unsigned i = 0; i < WEIR_COUNTS_LEN && !wrong && !killed; i++) {
        uint64_t counted = port_load_relaxed(&t->counts[i].held);
        if (counted != held[i])
            wrong =
                weir_wrong("counter %u: %#" PRIx64 " held, counted %#" PRIx64, i, held[i], counted);
    }
    return wrong;
}

const char *weir_table_check_key(const weir_table *t, uint64_t hash, bool killed)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    uint64_t held = 0;
    const char *wrong = check_bucket(t, (uint64_t)(at.first - t->buckets), killed, &held);
    return wrong ? wrong : check_bucket(t, (uint64_t)(at.alternate - t->buckets), killed, &held);
}
