/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The two calls of the bare loop. They are in their own file, like those of a library, so that the
 * compiler can neither hoist the policy out of the loop nor drop a result. */

#define XXH_INLINE_ALL

#include "bare.h"

#include "kit.h"

#include <xxhash.h>

void bare_open(bare *b, size_t len, int64_t limit, int64_t interval_ns)
{
    *b = (bare){
        .slots = kit_map(len * sizeof(bare_slot)),
        .len = len,
        .limit = limit,
        .interval_ns = interval_ns,
        .capacity_ns = limit * interval_ns,
    };
}

void bare_close(bare *b)
{
    kit_unmap(b->slots, b->len * sizeof(bare_slot));
}

/* A key whose hash is 0 would share the first empty slot. The benchmark accepts that. */
static inline bare_slot *find(const bare *b, uint64_t tag)
{
    size_t mask = b->len - 1, at = tag & mask;
    while (b->slots[at].tag != tag && b->slots[at].tag != 0)
        at = (at + 1) & mask;
    b->slots[at].tag = tag;
    return &b->slots[at];
}

static inline void decide(const bare *b, bare_slot *s, int64_t now_ns, bare_answer *ret)
{
    int64_t tat_ns = s->tat_ns > now_ns ? s->tat_ns : now_ns;
    int64_t over_ns = tat_ns + b->interval_ns - now_ns - b->capacity_ns;
    bool allowed = over_ns <= 0;
    if (allowed) {
        tat_ns += b->interval_ns;
        s->tat_ns = tat_ns;
    }
    ret->allowed = allowed;
    ret->limit = b->limit;
    ret->remaining = (b->capacity_ns - (tat_ns - now_ns)) / b->interval_ns;
    ret->retry_after_ns = allowed ? 0 : over_ns;
    ret->reset_after_ns = tat_ns - now_ns;
}

void bare_single(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret)
{
    decide(b, find(b, XXH3_64bits(k->text, k->len)), now_ns, ret);
}

void bare_batch(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret)
{
    uint64_t tags[KEY_BATCH];
    for (size_t i = 0; i < KEY_BATCH; i++) {
        tags[i] = XXH3_64bits(k[i].text, k[i].len);
        __builtin_prefetch(&b->slots[tags[i] & (b->len - 1)], 1);
    }
    for (size_t i = 0; i < KEY_BATCH; i++)
        decide(b, find(b, tags[i]), now_ns, &ret[i]);
}
