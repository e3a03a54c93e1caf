/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The in-memory store: hashes keys, and knows which policies' states lie in the table and which are
 * large. It knows what a state is from the core alone, and sees a key's text only to hash it. */

#include <weir/weir_store.h>

#include "port/file.h"
#include "port/port.h"
#include "store/clock.h"
#include "store/hash.h"
#include "store/large.h"
#include "store/pack.h"
#include "store/stored.h"
#include "store/table.h"

#include <string.h>

enum {
    GROUP = 32,            /* requests whose states are on the way at once */
    PART_BYTES_MIN = 65536 /* of either part of the memory */
};

struct weir_store {
    weir_table *table;
    weir_large *large;
    weir_hash_keys hash;
    weir_secret secret;
    weir_owners owners;
    void *part;
    size_t part_bytes;
    uint64_t memory_max, large_max;
    weir_clock clock;
};

/* port_boot_id() as a word. */
static uint64_t boot_word(void)
{
    uint64_t words[2];
    uint8_t id[sizeof words];
    port_boot_id(id);
    memcpy(words, id, sizeof words);
    return words[0] ^ words[1];
}

/* ---- open and close -------------------------------------------------------------------------- */

static weir_status set_secret(weir_store *s, const uint8_t *bytes)
{
    uint8_t random[16];
    if (!bytes) {
        weir_status st = port_random(random, sizeof random);
        if (st != WEIR_OK)
            return st;
        bytes = random;
    }
    for (unsigned i = 0; i < 8; i++) {
        s->secret.k0 |= (uint64_t)bytes[i] << (8 * i);
        s->secret.k1 |= (uint64_t)bytes[8 + i] << (8 * i);
    }
    return WEIR_OK;
}

weir_status weir_store_open(weir_store **ret, const weir_store_options *options)
{
    weir_store_options o = options ? *options : (weir_store_options){0};
    if (o.memory_bytes == 0)
        o.memory_bytes = (size_t)256 << 20;
    if (o.large_bytes == 0)
        o.large_bytes = o.memory_bytes / 4;
    if (o.memory_bytes < (size_t)1 << 20 || o.large_bytes < PART_BYTES_MIN ||
        o.large_bytes > o.memory_bytes - PART_BYTES_MIN)
        return WEIR_E_RANGE;
    weir_store *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->memory_max = o.memory_bytes;
    s->large_max = o.large_bytes;
    weir_status st = set_secret(s, o.secret);
    weir_hash_init(&s->hash, s->secret);
    s->owners.self = 1;
    s->part_bytes = o.memory_bytes - o.large_bytes;
    s->part = port_map(s->part_bytes);
    if (!s->part)
        st = WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = weir_table_open(&s->table, s->part, s->part_bytes, &s->owners,
                             o.when_full == WEIR_REFUSE);
    if (st == WEIR_OK)
        st = weir_large_open(&s->large, o.large_bytes);
    if (st != WEIR_OK) {
        weir_store_close(s);
        return st;
    }
    weir_clock_start(&s->clock, port_clocks_now(), boot_word(), NULL, 0);
    *ret = s;
    return WEIR_OK;
}

void weir_store_close(weir_store *s) /* accepts NULL and half-opened stores */
{
    if (!s)
        return;
    weir_table_close(s->table);
    weir_large_close(s->large);
    port_unmap(s->part, s->part_bytes);
    port_free(s);
}

/* ---- keys ------------------------------------------------------------------------------------ */

uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    return weir_siphash(s->secret, text, len);
}

static bool good_key(const void *key, size_t len)
{
    return key && len >= 1 && len <= WEIR_KEY_MAX;
}

static bool good_time(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX;
}

static bool good_cost(int64_t cost)
{
    return cost >= 0 && cost <= WEIR_COST_MAX;
}

static uint64_t key_hash(const weir_store *s, uint64_t policy_id, const void *key, size_t len)
{
    return weir_hash(&s->hash, policy_id, key, len);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Runs fn on the state of `hash`, wherever states of the policy lie. */
static weir_status run_hash(weir_store *s, const weir_policy *p, uint64_t hash, int64_t now_ns,
                            weir_state_fn fn, void *ctx)
{
    if (weir_table_words(p) > 0)
        return weir_table_run(s->table, p, hash, now_ns, fn, ctx);
    return weir_large_run(s->large, p, hash, weir_table_now(s->table, now_ns), fn, ctx);
}

static weir_status run(weir_store *s, const weir_policy *p, uint64_t policy_id, const void *key,
                       size_t key_len, int64_t now_ns, weir_state_fn fn, void *ctx)
{
    if (!good_key(key, key_len) || !good_time(now_ns))
        return WEIR_E_RANGE;
    return run_hash(s, p, key_hash(s, policy_id, key, key_len), now_ns, fn, ctx);
}

typedef struct charge {
    int64_t cost;
    weir_decision decision; /* not the caller's own: a run may be in vain */
} charge;

/* Of a single layer, the figures say when the state is fresh. */
static void note_fresh(const weir_policy *p, weir_status st, const weir_decision *d,
                       int64_t *ret_fresh_after_ns)
{
    if (st == WEIR_OK && p->layers == 1)
        *ret_fresh_after_ns = d->reset_after_ns;
}

static weir_status check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    charge *c = ctx;
    weir_status st = weir_check(p, state, level, now_ns, c->cost, &c->decision);
    note_fresh(p, st, &c->decision, ret_fresh_after_ns);
    return st;
}

static weir_status peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                              int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    (void)ret_fresh_after_ns; /* a refused peek's figures are not those of the state */
    charge *c = ctx;
    return weir_peek(p, state, level, now_ns, c->cost, &c->decision);
}

static weir_status refund_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    charge *c = ctx;
    weir_status st = weir_refund(p, state, level, now_ns, c->cost, &c->decision);
    note_fresh(p, st, &c->decision, ret_fresh_after_ns);
    return st;
}

/* A decision, which is the caller's only once it counts. */
static weir_status run_charge(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_state_fn fn, weir_decision *ret)
{
    charge c;
    c.cost = cost;
    weir_status st = run(s, p, policy_id, key, key_len, now_ns, fn, &c);
    if (st == WEIR_OK)
        *ret = c.decision;
    return st;
}

weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                             weir_decision *ret)
{
    if (!weir_pack_is_time(p))
        return run_charge(s, p, policy_id, key, key_len, now_ns, cost, check_state, ret);
    if (!good_key(key, key_len) || !good_time(now_ns) || !good_cost(cost))
        return WEIR_E_RANGE;
    uint64_t hash = key_hash(s, policy_id, key, key_len);
    return weir_table_take_one(s->table, p, hash, now_ns, cost, ret);
}

weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                            const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                            weir_decision *ret)
{
    return run_charge(s, p, policy_id, key, key_len, now_ns, cost, peek_state, ret);
}

weir_status weir_store_refund(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_decision *ret)
{
    return run_charge(s, p, policy_id, key, key_len, now_ns, cost, refund_state, ret);
}

typedef struct apply {
    weir_store_fn fn;
    void *ctx;
} apply;

static weir_status apply_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    enum { SMALL = 16 };
    (void)ret_fresh_after_ns;
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
    return st == WEIR_E_ROOM ? WEIR_E_RANGE : st; /* no state of a fixed size has to grow */
}

weir_status weir_store_apply(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, weir_store_fn fn,
                             void *ctx)
{
    if (weir_state_words(p, 0) != weir_state_words(p, WEIR_LEVEL_MAX))
        return WEIR_E_UNSUPPORTED;
    apply a = {fn, ctx};
    return run(s, p, policy_id, key, key_len, now_ns, apply_state, &a);
}

weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len)
{
    if (!good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = key_hash(s, policy_id, key, key_len);
    weir_table_reset(s->table, hash);
    weir_large_reset(s->large, hash);
    return WEIR_OK;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Hashes up to GROUP requests, and sets out to read their states. */
static void hash_group(const weir_store *s, const weir_store_request *requests, size_t n,
                       uint64_t *ret_hashes)
{
    for (size_t i = 0; i < n; i++) {
        const weir_store_request *r = &requests[i];
        ret_hashes[i] = 0;
        if (!good_key(r->key, r->key_len))
            continue;
        ret_hashes[i] = key_hash(s, r->policy_id, r->key, r->key_len);
        weir_table_prefetch(s->table, ret_hashes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || ret_hashes[i] != ret_hashes[i - 1])
            weir_table_prefetch_second(s->table, ret_hashes[i]);
    }
}

static bool good_request(const weir_store_request *r, int64_t now_ns)
{
    return good_key(r->key, r->key_len) && good_time(now_ns) && good_cost(r->cost);
}

static void decide_one(weir_store *s, weir_store_request *r, uint64_t hash, int64_t now_ns)
{
    charge c;
    c.cost = r->cost;
    r->status = good_request(r, now_ns) ? run_hash(s, r->policy, hash, now_ns, check_state, &c)
                                        : WEIR_E_RANGE;
    if (r->status == WEIR_OK)
        r->decision = c.decision;
}

/* Decides the first `len` requests, which are about one key and good, together. */
static void decide_row(weir_store *s, weir_store_request *requests, size_t len, uint64_t hash,
                       int64_t now_ns)
{
    weir_table_take takes[GROUP];
    for (size_t i = 0; i < len; i++)
        takes[i] = (weir_table_take){requests->policy, requests[i].cost, &requests[i].decision};
    weir_status st = weir_table_take_time(s->table, takes, len, hash, now_ns);
    for (size_t i = 0; i < len; i++)
        requests[i].status = st;
}

/* How many of the first requests are about the key and the policy of the first, and good. */
static size_t row_of(const weir_store_request *requests, size_t n, const uint64_t *hashes)
{
    size_t len = 1;
    while (len < n && hashes[len] == hashes[0] && requests[len].policy == requests->policy &&
           good_key(requests[len].key, requests[len].key_len) && good_cost(requests[len].cost))
        len++;
    return len;
}

/* Decides one or more of the first requests. Returns how many. */
static size_t decide_first(weir_store *s, weir_store_request *r, size_t n, const uint64_t *hashes,
                           int64_t now_ns)
{
    if (!weir_pack_is_time(r->policy) || !good_request(r, now_ns)) {
        decide_one(s, r, hashes[0], now_ns);
        return 1;
    }
    if (n == 1 || hashes[1] != hashes[0]) {
        r->status =
            weir_table_take_one(s->table, r->policy, hashes[0], now_ns, r->cost, &r->decision);
        return 1;
    }
    size_t len = row_of(r, n, hashes);
    decide_row(s, r, len, hashes[0], now_ns);
    return len;
}

void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    uint64_t hashes[GROUP];
    for (size_t at = 0; at < n; at += GROUP) {
        size_t group = n - at < GROUP ? n - at : GROUP;
        weir_store_request *r = &requests[at];
        hash_group(s, r, group, hashes);
        for (size_t i = 0; i < group;)
            i += decide_first(s, &r[i], group - i, &hashes[i], now_ns);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

int64_t weir_store_now(weir_store *s)
{
    int64_t boot_ns = port_boot_ns();
    if (weir_clock_is_due(&s->clock, boot_ns))
        weir_clock_tick(&s->clock, port_clocks_now());
    return weir_clock_time(&s->clock, boot_ns);
}

void weir_store_set_time(weir_store *s, int64_t time_ns)
{
    weir_clock_set(&s->clock, port_clocks_now(), time_ns);
}

weir_clock_view weir_store_clock(const weir_store *s)
{
    return weir_clock_look(&s->clock);
}

/* ---- figures --------------------------------------------------------------------------------- */

weir_store_stats weir_store_stats_get(weir_store *s)
{
    weir_table_stats table = weir_table_stats_get(s->table);
    weir_large_stats large = weir_large_stats_get(s->large);
    return (weir_store_stats){.keys = table.keys + large.keys,
                              .memory_bytes = table.bytes + large.bytes,
                              .evicted = table.evicted + large.evicted,
                              .memory_max = s->memory_max,
                              .large_keys = large.keys,
                              .large_bytes = large.bytes,
                              .large_max = s->large_max};
}
