/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's public functions: check, peek, refund, reset, batches, reservations and statistics. A
 * key is hashed, and its state is looked up in the hash table or, if it is large, in the index of
 * large states. All arithmetic on states is in src/core. */

#include "store/store.h"

#include "port/assert.h"
#include "port/port.h"
#include "store/table/pack.h"

#include <string.h>

enum { GROUP = 32 }; /* requests whose states are prefetched at once */

_Static_assert(WEIR_POLICY_CLASS >> (64 - WEIR_CLASS_BITS) == WEIR_CLASS_MASK,
               "the high bits of an id are the class");

uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    uint64_t id = (weir_siphash(s->secret, text, len) & ~WEIR_POLICY_CLASS) |
                  (uint64_t)weir_pack_class(p) << (64 - WEIR_CLASS_BITS);
    weir_image_note_policy(s->image, id, text, len);
    return id;
}

/* ---- partitions ------------------------------------------------------------------------------ */

static uint64_t id_bits(const weir_partition *p)
{
    return p->is.name_hash & WEIR_ID_PARTITION;
}

const weir_area *weir_area_find(const weir_store *s, uint64_t policy_id)
{
    for (size_t i = 0; i < s->partitions_len; i++) {
        if ((policy_id & WEIR_ID_PARTITION) == id_bits(&s->partitions[i]))
            return &s->partitions[i].area;
    }
    return &s->common;
}

uint64_t weir_store_partition_id(const weir_store *s, uint64_t policy_id, const char *name)
{
    for (size_t i = 0; i < s->partitions_len; i++) {
        if (strcmp(s->partitions[i].is.name, name) == 0)
            return (policy_id & ~WEIR_ID_PARTITION) | id_bits(&s->partitions[i]);
    }
    return policy_id;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* How a callback changes a state, beyond what weir_check() changes. */
typedef struct changes {
    int64_t refund;
    bool any_words;
} changes;

static weir_status run_large(weir_store *s, const weir_area *at, const weir_policy *p,
                             uint64_t hash, int64_t now_ns, weir_state_fn fn, void *ctx, changes d)
{
    const weir_large_call call = {.policy = p,
                                  .hash = hash,
                                  .now_ns = weir_table_now(at->table, now_ns),
                                  .fn = fn,
                                  .ctx = ctx,
                                  .refund = d.refund,
                                  .any_words = d.any_words,
                                  .when_full = s->when_full};
    return weir_large_run(at->large, &call);
}

/* Runs fn on the state of `hash`, in the table or among the large states. */
static weir_status run_hash(weir_store *s, const weir_area *at, const weir_policy *p, uint64_t hash,
                            int64_t now_ns, weir_state_fn fn, void *ctx, changes d)
{
    if (weir_table_words(p) > 0)
        return weir_table_run(at->table, p, hash, now_ns, fn, ctx);
    return run_large(s, at, p, hash, now_ns, fn, ctx, d);
}

weir_status weir_store_run(weir_store *s, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                           int64_t now_ns, weir_state_fn fn, void *ctx)
{
    return run_hash(s, weir_area_of(s, policy_id), p, hash, now_ns, fn, ctx,
                    (changes){.any_words = true});
}

/* A call of a public function: expires reservations, runs fn, and syncs. */
static weir_status run(weir_store *s, const weir_area *at, const weir_policy *p, uint64_t hash,
                       int64_t now_ns, weir_state_fn fn, void *ctx, changes d)
{
    if (!weir_good_time(now_ns))
        return WEIR_E_RANGE;
    weir_store_expire_due(s, now_ns);
    weir_status st = run_hash(s, at, p, hash, now_ns, fn, ctx, d);
    weir_store_sync_if_always(s);
    return st;
}

/* With a single layer, the decision says what the key has used. */
static void note_usage(const weir_policy *p, weir_status st, const weir_decision *d,
                       weir_usage *ret_usage)
{
    if (st == WEIR_OK && p->layers == 1)
        *ret_usage = (weir_usage){d->reset_after_ns, weir_used_share(d->limit, d->remaining)};
}

weir_status weir_check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                             int64_t now_ns, weir_usage *ret_usage)
{
    weir_charge *c = ctx;
    weir_status st = weir_check(p, state, level, now_ns, c->cost, &c->decision);
    note_usage(p, st, &c->decision, ret_usage);
    return st;
}

weir_status weir_peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage; /* the fields of a denied peek are not those of the state */
    weir_charge *c = ctx;
    return weir_peek(p, state, level, now_ns, c->cost, &c->decision);
}

static weir_status refund_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    weir_charge *c = ctx;
    weir_status st = weir_refund(p, state, level, now_ns, c->cost, &c->decision);
    note_usage(p, st, &c->decision, ret_usage);
    return st;
}

/* Runs fn, and writes *ret after its last run. */
static weir_status run_charge(weir_store *s, const weir_area *at, const weir_policy *p,
                              uint64_t hash, int64_t now_ns, int64_t cost, weir_state_fn fn,
                              weir_decision *ret)
{
    weir_charge c;
    c.cost = cost;
    WEIR_ASSERT(fn == weir_check_state || fn == weir_peek_state || fn == refund_state);
    changes d = {.refund = fn == refund_state ? cost : 0};
    weir_status st = run(s, at, p, hash, now_ns, fn, &c, d);
    if (st == WEIR_OK)
        *ret = c.decision;
    return st;
}

/* Decides in the cases that check() leaves to it. */
__attribute__((noinline)) static weir_status check_rare(weir_store *s, const weir_area *at,
                                                        const weir_policy *p, uint64_t hash,
                                                        int64_t now_ns, int64_t cost,
                                                        weir_decision *ret)
{
    if (!weir_pack_is_fast(p))
        return run_charge(s, at, p, hash, now_ns, cost, weir_check_state, ret);
    if (!weir_good_time(now_ns) || !weir_good_cost(cost))
        return WEIR_E_RANGE;
    weir_store_expire_due(s, now_ns);
    weir_status st = weir_table_take_one(at->table, p, hash, now_ns, cost, ret);
    weir_store_sync_if_always(s);
    return st;
}

/* Small enough to be compiled without a stack frame. */
__attribute__((always_inline)) static inline weir_status check(weir_store *s, const weir_area *at,
                                                               const weir_policy *p, uint64_t hash,
                                                               int64_t now_ns, int64_t cost,
                                                               weir_decision *ret)
{
    bool rare = !weir_pack_is_fast(p) || !weir_good_time(now_ns) || !weir_good_cost(cost) ||
                weir_reserve_due(s->reserved, now_ns) || s->sync_always;
    return __builtin_expect(rare, 0) ? check_rare(s, at, p, hash, now_ns, cost, ret)
                                     : weir_table_take_one(at->table, p, hash, now_ns, cost, ret);
}

/* weir_store_check() on a store with partitions. */
__attribute__((noinline)) static weir_status check_divided(weir_store *s, const weir_policy *p,
                                                           uint64_t policy_id, const void *key,
                                                           size_t key_len, int64_t now_ns,
                                                           int64_t cost, weir_decision *ret)
{
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    return check(s, weir_area_find(s, policy_id), p, hash, now_ns, cost, ret);
}

weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                             weir_decision *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    if (__builtin_expect(s->partitions_len > 0, 0))
        return check_divided(s, p, policy_id, key, key_len, now_ns, cost, ret);
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    return check(s, &s->common, p, hash, now_ns, cost, ret);
}

weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                            const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                            weir_decision *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    const weir_area *at = weir_area_of(s, policy_id);
    return run_charge(s, at, p, hash, now_ns, cost, weir_peek_state, ret);
}

weir_status weir_store_refund(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_decision *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    const weir_area *at = weir_area_of(s, policy_id);
    return run_charge(s, at, p, hash, now_ns, cost, refund_state, ret);
}

typedef struct apply {
    weir_store_fn fn;
    void *ctx;
} apply;

static weir_status apply_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, weir_usage *ret_usage)
{
    enum { SMALL = 16 };
    (void)ret_usage;
    apply *a = ctx;
    uint64_t small[SMALL];
    size_t words = weir_state_words(p, level);
    uint64_t *copy = words <= SMALL ? small : port_zalloc(words, sizeof *copy);
    if (!copy)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < words; i++)
        copy[i] = state[i];
    weir_status st = a->fn(a->ctx, copy, now_ns);
    for (size_t i = 0; i < words && st == WEIR_OK; i++)
        state[i] = copy[i];
    if (copy != small)
        port_free(copy);
    return st == WEIR_E_ROOM ? WEIR_E_RANGE : st; /* a state of a fixed size never grows */
}

weir_status weir_store_apply(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, weir_store_fn fn,
                             void *ctx)
{
    if (weir_state_words(p, 0) != weir_state_words(p, WEIR_LEVEL_MAX))
        return WEIR_E_UNSUPPORTED;
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    apply a = {fn, ctx};
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    return run(s, weir_area_of(s, policy_id), p, hash, now_ns, apply_state, &a,
               (changes){.any_words = true});
}

weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    weir_reserve_zero_units(s->reserved, hash);
    const weir_area *at = weir_area_of(s, policy_id);
    weir_table_reset(at->table, hash);
    weir_large_reset(at->large, hash);
    weir_store_sync_if_always(s);
    return WEIR_OK;
}

/* ---- prepared keys --------------------------------------------------------------------------- */

weir_status weir_store_key(const weir_store *s, uint64_t policy_id, const void *key, size_t key_len,
                           weir_key *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    ret->hash = weir_store_hash(s, policy_id, key, key_len);
    ret->partition = weir_area_of(s, policy_id);
    return WEIR_OK;
}

void weir_store_prefetch(const weir_store *s, weir_key key)
{
    const weir_area *at = key.partition;
    (void)s;
    if (at) /* NULL in a key that was never prepared */
        weir_table_prefetch(at->table, key.hash);
}

weir_status weir_store_check_key(weir_store *s, const weir_policy *p, weir_key key, int64_t now_ns,
                                 int64_t cost, weir_decision *ret)
{
    return check(s, key.partition, p, key.hash, now_ns, cost, ret);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Where the states of a request are. Most stores have no partitions; a constant `divided` keeps the
 * search for one out of their batches. */
static inline const weir_area *area_of_request(const weir_store *s, const weir_store_request *r,
                                               bool divided)
{
    return divided ? weir_area_find(s, r->policy_id) : &s->common;
}

/* The requests that are decided on together. */
typedef struct group {
    uint64_t hashes[GROUP];
    uint64_t large; /* a bit for each request on a large state */
} group;

/* Finds the requests on large states, and lists their keys. Returns how many there are. */
__attribute__((always_inline)) static inline size_t find_large(const weir_store *s,
                                                               const weir_store_request *requests,
                                                               size_t n, bool divided, group *g,
                                                               weir_large_hint *ret)
{
    const weir_policy *last = NULL;
    bool is_large = false;
    size_t len = 0;
    g->large = 0;
    for (size_t i = 0; i < n; i++) {
        const weir_policy *p = requests[i].policy;
        if (p != last)
            is_large = !weir_pack_is_fast(p) && weir_table_words(p) == 0;
        last = p;
        if (is_large) {
            const weir_area *at = area_of_request(s, &requests[i], divided);
            g->large |= (uint64_t)1 << i;
            ret[len++] = (weir_large_hint){at->large, p, g->hashes[i]};
        }
    }
    return len;
}

/* Hashes up to GROUP requests and prefetches their states. */
__attribute__((always_inline)) static inline void hash_group(const weir_store *s,
                                                             const weir_store_request *requests,
                                                             size_t n, bool divided, group *ret)
{
    WEIR_ASSERT(n <= GROUP);
    weir_large_hint large[GROUP];
    weir_hash_requests(&s->hash, requests, n, ret->hashes);
    size_t large_len = find_large(s, requests, n, divided, ret, large);
    if (large_len > 0)
        weir_large_prefetch(large, large_len);
    if (large_len == n)
        return;
    for (size_t i = 0; i < n; i++)
        weir_table_prefetch(area_of_request(s, &requests[i], divided)->table, ret->hashes[i]);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || ret->hashes[i] != ret->hashes[i - 1])
            weir_table_prefetch_alternate(area_of_request(s, &requests[i], divided)->table,
                                          ret->hashes[i]);
    }
}

static void decide_one(weir_store *s, const weir_area *at, weir_store_request *r, uint64_t hash,
                       bool large, int64_t now_ns)
{
    weir_charge c;
    c.cost = r->cost;
    if (!weir_good_request(r, now_ns))
        r->status = WEIR_E_RANGE;
    else if (large)
        r->status = run_large(s, at, r->policy, hash, now_ns, weir_check_state, &c, (changes){0});
    else
        r->status = weir_table_run(at->table, r->policy, hash, now_ns, weir_check_state, &c);
    if (r->status == WEIR_OK)
        r->decision = c.decision;
}

/* How many requests at the front have the key and the policy of the first one, and are valid. */
static size_t run_length(const weir_store_request *requests, size_t n, const uint64_t *hashes,
                         int64_t now_ns)
{
    WEIR_ASSERT(n >= 1 && weir_good_request(requests, now_ns));
    size_t len = 1;
    while (len < n && hashes[len] == hashes[0] && requests[len].policy == requests->policy &&
           weir_good_request(&requests[len], now_ns))
        len++;
    return len;
}

/* Decides request i of a group, and maybe some that follow. Returns how many. */
__attribute__((always_inline)) static inline size_t
decide_next(weir_store *s, weir_store_request *requests, size_t n, bool divided, const group *g,
            size_t i, int64_t now_ns)
{
    weir_store_request *r = &requests[i];
    const uint64_t *hashes = &g->hashes[i];
    const weir_area *at = area_of_request(s, r, divided);
    if (!weir_pack_is_fast(r->policy) || !weir_good_request(r, now_ns)) {
        decide_one(s, at, r, hashes[0], g->large >> i & 1, now_ns);
        return 1;
    }
    if (i + 1 == n || hashes[1] != hashes[0]) {
        r->status =
            weir_table_take_one(at->table, r->policy, hashes[0], now_ns, r->cost, &r->decision);
        return 1;
    }
    size_t len = run_length(r, n - i, hashes, now_ns);
    weir_table_take_row(at->table, r, len, hashes[0], now_ns);
    return len;
}

__attribute__((always_inline)) static inline void
check_batch(weir_store *s, weir_store_request *requests, size_t n, bool divided, int64_t now_ns)
{
    group g;
    for (size_t at = 0; at < n; at += GROUP) {
        size_t len = n - at < GROUP ? n - at : GROUP;
        hash_group(s, &requests[at], len, divided, &g);
        for (size_t i = 0; i < len;)
            i += decide_next(s, &requests[at], len, divided, &g, i, now_ns);
    }
}

__attribute__((noinline)) static void
check_divided_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    check_batch(s, requests, n, true, now_ns);
}

void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    if (weir_good_time(now_ns))
        weir_store_expire_due(s, now_ns);
    if (__builtin_expect(s->partitions_len == 0, 1))
        check_batch(s, requests, n, false, now_ns);
    else
        check_divided_batch(s, requests, n, now_ns);
    weir_store_sync_if_always(s);
}

/* ---- reservations ---------------------------------------------------------------------------- */

weir_status weir_store_reserve(weir_store *s, const weir_policy *p, uint64_t policy_id,
                               const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                               int64_t ttl_ns, weir_decision *ret, uint64_t *ret_id)
{
    if (!weir_good_key(key, key_len) || !weir_good_time(now_ns) || !weir_good_cost(cost) ||
        ttl_ns < 1 || ttl_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    weir_status st =
        weir_reserve_make(s->reserved, p, policy_id, hash, now_ns, cost, ttl_ns, ret, ret_id);
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns, int64_t actual,
                              weir_decision *ret, int64_t *ret_over)
{
    if (!weir_good_time(now_ns) || !weir_good_cost(actual))
        return WEIR_E_RANGE;
    weir_status st = weir_reserve_commit(s->reserved, id, now_ns, actual, ret, ret_over);
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns, weir_decision *ret)
{
    int64_t over;
    return weir_store_commit(s, id, now_ns, 0, ret, &over);
}

/* ---- statistics, the file, time -------------------------------------------------------------- */

weir_file weir_store_watch(weir_store *s)
{
    return weir_image_watch(s->image);
}

int64_t weir_store_now(weir_store *s)
{
    int64_t boot_ns = port_boot_ns();
    if (weir_clock_is_due(&s->clock, boot_ns))
        weir_clock_tick(&s->clock, port_clocks_now());
    return weir_clock_time(&s->clock, boot_ns);
}

/* The sums of the small and the large states of an area. */
typedef struct sums {
    weir_table_stats table;
    weir_large_stats large;
} sums;

static sums sums_of(const weir_store *s, const weir_partition *p)
{
    sums of = {0};
    if (!p || p->area.table != s->common.table)
        of.table = weir_table_stats_get(p ? p->area.table : s->common.table);
    if (!p || p->area.large != s->common.large)
        of.large = weir_large_stats_get(p ? p->area.large : s->common.large);
    return of;
}

size_t weir_store_partitions(weir_store *s, weir_partition_stats *ret, size_t max)
{
    for (size_t i = 0; i < s->partitions_len && i < max; i++) {
        const weir_partition *p = &s->partitions[i];
        sums of = sums_of(s, p);
        ret[i] = (weir_partition_stats){.name = p->is.name,
                                        .keys = of.table.keys + of.large.keys,
                                        .memory_bytes = of.table.bytes + of.large.bytes,
                                        .memory_max = p->is.table_bytes + p->is.large_bytes,
                                        .evicted = of.table.evicted + of.large.evicted,
                                        .refused = of.table.refused + of.large.refused};
    }
    return s->partitions_len;
}

weir_store_stats weir_store_stats_get(weir_store *s)
{
    weir_reserve_stats reserved = weir_reserve_stats_get(s->reserved);
    weir_store_stats ret = {.memory_max = s->memory_max,
                            .large_max = s->large_max,
                            .damaged = reserved.damaged,
                            .reserved = reserved.open,
                            .syncs_failed = weir_image_stats_get(s->image).syncs_failed};
    for (size_t i = 0; i <= s->partitions_len; i++) {
        sums of = sums_of(s, i > 0 ? &s->partitions[i - 1] : NULL);
        ret.keys += of.table.keys + of.large.keys;
        ret.memory_bytes += of.table.bytes + of.large.bytes;
        ret.evicted += of.table.evicted + of.large.evicted;
        ret.large_keys += of.large.keys;
        ret.large_bytes += of.large.bytes;
        ret.refused += of.table.refused + of.large.refused;
        ret.damaged += of.table.damaged + of.large.damaged;
    }
    return ret;
}
