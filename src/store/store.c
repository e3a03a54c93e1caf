/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's public functions: check, peek, refund, charge, resets, batches and statistics. A key
 * is hashed, and its state is looked up in the hash table or, if it is large, in the index of large
 * states. All arithmetic on states is in src/core. */

#include "store/store.h"

#include "port/assert.h"
#include "port/port.h"
#include "store/figures.h"
#include "store/iterate.h"
#include "store/kept.h"
#include "store/table/pack.h"

#include <string.h>

enum { GROUP = 32 }; /* requests whose states are prefetched at once */

_Static_assert(WEIR_POLICY_CLASS >> (64 - WEIR_CLASS_BITS) == WEIR_CLASS_MASK,
               "the high bits of an id are the class");

bool weir_store_knows(const weir_store *s, uint64_t policy_id)
{
    char text[WEIR_POLICY_TEXT_MAX];
    return weir_policy_registry_text(weir_image_policies(s->image), policy_id, text, sizeof text);
}

static uint64_t with_class(uint64_t hash, unsigned class)
{
    return (hash & ~WEIR_POLICY_CLASS) | (uint64_t) class << (64 - WEIR_CLASS_BITS);
}

/* The id is part of the hash of each key. So a policy keeps the id under which an earlier version
 * has stored its keys in the file. */
static uint64_t id_of(const weir_store *s, const weir_policy *p, uint64_t hash)
{
    unsigned former[WEIR_FORMER_CLASSES];
    uint64_t id = with_class(hash, weir_pack_class(p));
    if (weir_store_knows(s, id))
        return id;
    weir_pack_former_classes(p, former);
    for (size_t i = 0; i < WEIR_FORMER_CLASSES; i++) {
        if (weir_store_knows(s, with_class(hash, former[i])))
            return with_class(hash, former[i]);
    }
    return id;
}

uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    uint64_t id = id_of(s, p, weir_siphash(s->secret, text, len));
    weir_image_note_policy(s->image, id, text, len, false);
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

/* Runs a callback on a large state. The call is complete but for what the store knows.
 *  named  as in weir_store_call(). */
static weir_status run_large(weir_store *s, const weir_area *at, weir_large_call *call,
                             const weir_store_request *named)
{
    call->now_ns = weir_table_now(at->table, call->now_ns);
    call->when_full = s->when_full;
    call->kept_until_ns = weir_table_kept_until(at->table);
    weir_status st = weir_large_run(at->large, call);
    return st == WEIR_E_ELSEWHERE && named ? weir_kept_run(s, at, call, named) : st;
}

/* The same for a state in the table or among the large states. */
static weir_status run_hash(weir_store *s, const weir_area *at, weir_large_call *call,
                            const weir_store_request *named)
{
    if (weir_table_words(call->policy) == 0)
        return run_large(s, at, call, named);
    weir_status st =
        weir_table_run(at->table, call->policy, call->hash, call->now_ns, call->fn, call->ctx);
    return st == WEIR_E_ELSEWHERE && named ? weir_kept_run(s, at, call, named) : st;
}

weir_status weir_store_run(weir_store *s, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                           int64_t now_ns, weir_state_fn fn, void *ctx)
{
    weir_large_call call = {
        .policy = p, .hash = hash, .now_ns = now_ns, .fn = fn, .ctx = ctx, .any_words = true};
    const weir_store_request unknown = {.policy_id = policy_id};
    return run_hash(s, weir_area_of(s, policy_id), &call, &unknown);
}

weir_status weir_store_call(weir_store *s, const weir_area *at, weir_large_call *call,
                            const weir_store_request *named)
{
    if (!weir_good_time(call->now_ns))
        return WEIR_E_RANGE;
    weir_store_expire_due(s, call->now_ns);
    weir_status st = run_hash(s, at, call, named);
    weir_store_sync_if_always(s);
    return st;
}

/* With a single layer, a decision that keeps nothing says what the key has used. */
static void note_usage(const weir_policy *p, weir_status st, const weir_state_call *c,
                       weir_usage *ret_usage)
{
    const weir_decision *d = &c->decision;
    if (st == WEIR_OK && p->layers == 1 && c->keep == 0)
        *ret_usage = (weir_usage){d->reset_after_ns, weir_used_share(d->limit, d->remaining)};
}

weir_status weir_check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                             int64_t now_ns, weir_usage *ret_usage)
{
    weir_state_call *c = ctx;
    weir_status st = weir_check_sound(p, state, level, now_ns, c->cost, c->keep, &c->decision);
    note_usage(p, st, c, ret_usage);
    return st;
}

weir_status weir_peek_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage; /* the fields of a denied peek are not those of the state */
    weir_state_call *c = ctx;
    return weir_peek_keep(p, state, level, now_ns, c->cost, c->keep, &c->decision);
}

static weir_status refund_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    weir_state_call *c = ctx;
    weir_status st = weir_refund(p, state, level, now_ns, c->cost, &c->decision);
    note_usage(p, st, c, ret_usage);
    return st;
}

static weir_status charge_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage; /* the decision does not say how far a key is in debt */
    weir_state_call *c = ctx;
    return weir_charge(p, state, level, now_ns, c->cost, &c->decision, &c->over);
}

/* Runs call->fn with a charge of `cost`, and writes *ret after its last run. */
static weir_status run_charge(weir_store *s, const weir_area *at, weir_large_call call,
                              int64_t cost, int64_t keep, weir_decision *ret,
                              const weir_store_request *named)
{
    weir_state_call c;
    c.cost = cost;
    c.keep = keep;
    WEIR_ASSERT(call.fn == weir_check_state || call.fn == weir_peek_state ||
                call.fn == refund_state);
    call.ctx = &c;
    call.refund = call.fn == refund_state ? cost : 0;
    weir_status st = weir_store_call(s, at, &call, named);
    if (st == WEIR_OK)
        *ret = c.decision;
    return st;
}

/* Decides in the cases that the functions below leave to it. */
static weir_status check_rare(weir_store *s, const weir_area *at, const weir_policy *p,
                              uint64_t hash, int64_t now_ns, int64_t cost, weir_decision *ret)
{
    if (!weir_pack_is_fast(p))
        return run_charge(
            s, at,
            (weir_large_call){.policy = p, .hash = hash, .now_ns = now_ns, .fn = weir_check_state},
            cost, 0, ret, NULL);
    if (!weir_good_time(now_ns) || !weir_good_cost(cost))
        return WEIR_E_RANGE;
    weir_store_expire_due(s, now_ns);
    weir_status st = weir_table_take_one(at->table, p, hash, now_ns, cost, ret);
    weir_store_sync_if_always(s);
    return st;
}

/* Whether a check of a good key has only to take from the table. */
static inline bool is_usual(const weir_store *s, const weir_policy *p, int64_t now_ns, int64_t cost)
{
    return s->plain && weir_pack_is_single(p) && weir_good_time(now_ns) && weir_good_cost(cost) &&
           !weir_reserve_due(s->reserved, now_ns);
}

/* Runs fn with a charge on the state of a key. */
__attribute__((noinline)) static weir_status
run_key(weir_store *s, const weir_policy *p, uint64_t policy_id, const void *key, size_t key_len,
        int64_t now_ns, weir_state_fn fn, int64_t cost, int64_t keep, weir_decision *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    const weir_store_request named = {.policy_id = policy_id, .key = key, .key_len = key_len};
    const weir_large_call call = {.policy = p,
                                  .hash = weir_store_hash(s, policy_id, key, key_len),
                                  .now_ns = now_ns,
                                  .fn = fn};
    return run_charge(s, weir_area_of(s, policy_id), call, cost, keep, ret, &named);
}

/* Decides in the cases that weir_store_check() leaves to it. */
__attribute__((noinline)) static weir_status check_text_rare(weir_store *s, const weir_policy *p,
                                                             uint64_t policy_id, const void *key,
                                                             size_t key_len, int64_t now_ns,
                                                             int64_t cost, weir_decision *ret)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    weir_status st = check_rare(s, weir_area_of(s, policy_id), p, hash, now_ns, cost, ret);
    if (st != WEIR_E_ELSEWHERE)
        return st;
    return run_key(s, p, policy_id, key, key_len, now_ns, weir_check_state, cost, 0, ret);
}

weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                             const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                             weir_decision *ret)
{
    if (__builtin_expect(is_usual(s, p, now_ns, cost) && weir_good_key(key, key_len), 1)) {
        uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
        weir_status st = weir_table_take_word(s->common.table, p, hash, now_ns, cost, ret);
        if (__builtin_expect(st != WEIR_E_ELSEWHERE, 1))
            return st;
    }
    return check_text_rare(s, p, policy_id, key, key_len, now_ns, cost, ret);
}

weir_status weir_store_check_keep(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                  const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                                  int64_t keep, weir_decision *ret)
{
    if (keep == 0)
        return weir_store_check(s, p, policy_id, key, key_len, now_ns, cost, ret);
    return run_key(s, p, policy_id, key, key_len, now_ns, weir_check_state, cost, keep, ret);
}

weir_status weir_store_peek_keep(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                 const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                                 int64_t keep, weir_decision *ret)
{
    return run_key(s, p, policy_id, key, key_len, now_ns, weir_peek_state, cost, keep, ret);
}

weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                            const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                            weir_decision *ret)
{
    return weir_store_peek_keep(s, p, policy_id, key, key_len, now_ns, cost, 0, ret);
}

/* Runs a callback on the state of a key. The call is complete but for the key. */
static weir_status call_key(weir_store *s, uint64_t policy_id, const void *key, size_t key_len,
                            weir_large_call call)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    const weir_store_request named = {.policy_id = policy_id, .key = key, .key_len = key_len};
    call.hash = weir_store_hash(s, policy_id, key, key_len);
    return weir_store_call(s, weir_area_of(s, policy_id), &call, &named);
}

typedef struct figures {
    uint32_t layer;
    weir_figures of;
} figures;

static weir_status read_figures(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    figures *f = ctx;
    (void)ret_usage;
    return weir_figures_of(p, state, level, now_ns, f->layer, &f->of) ? WEIR_OK : WEIR_E_RANGE;
}

weir_status weir_store_figures(weir_store *s, const weir_policy *p, uint64_t policy_id,
                               const void *key, size_t key_len, int64_t now_ns, uint32_t layer,
                               weir_figures *ret)
{
    figures f = {.layer = layer};
    weir_status st =
        call_key(s, policy_id, key, key_len,
                 (weir_large_call){.policy = p, .now_ns = now_ns, .fn = read_figures, .ctx = &f});
    if (st == WEIR_OK)
        *ret = f.of;
    return st;
}

weir_status weir_store_refund(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_decision *ret)
{
    return run_key(s, p, policy_id, key, key_len, now_ns, refund_state, cost, 0, ret);
}

weir_status weir_store_charge(weir_store *s, const weir_policy *p, uint64_t policy_id,
                              const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                              weir_decision *ret, int64_t *ret_over)
{
    weir_state_call c = {.cost = cost};
    weir_status st =
        call_key(s, policy_id, key, key_len,
                 (weir_large_call){.policy = p, .now_ns = now_ns, .fn = charge_state, .ctx = &c});
    if (st == WEIR_OK) {
        *ret = c.decision;
        *ret_over = c.over;
    }
    return st;
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
    apply a = {fn, ctx};
    return call_key(
        s, policy_id, key, key_len,
        (weir_large_call){
            .policy = p, .now_ns = now_ns, .fn = apply_state, .ctx = &a, .any_words = true});
}

weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len)
{
    if (!weir_good_key(key, key_len))
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    const weir_area *at = weir_area_of(s, policy_id);
    weir_reserve_lock(s->reserved);
    weir_table_note(at->table, hash);
    weir_reserve_zero_units(s->reserved, hash);
    weir_table_reset(at->table, hash);
    weir_large_reset(at->large, hash);
    weir_kept_reset(s, policy_id, key, key_len);
    weir_reserve_unlock(s->reserved);
    weir_store_sync_if_always(s);
    return WEIR_OK;
}

/* ---- all keys of a policy -------------------------------------------------------------------- */

weir_status weir_store_reset_policy_of(weir_store *s, uint64_t policy, size_t most)
{
    weir_status st = weir_resets_raise(s->resets, policy, most);
    weir_store_sync_if_always(s);
    return st;
}

weir_status weir_store_reset_policy(weir_store *s, uint64_t policy)
{
    return weir_store_reset_policy_of(s, policy, WEIR_RESETS_MAX);
}

/* The ids of all generations differ: they differ in the bits below the class and the partition, in
 * a product of the generation and an odd number. The other number is its inverse. */
#define LOW_BITS (((uint64_t)1 << WEIR_ID_PARTITION_AT) - 1)
static const uint64_t spread = 0x9e3779b97f4a7c15U, inverse = 0xf1de83e19937733dU;

__attribute__((noinline)) static uint64_t id_of_generation(const weir_store *s, uint64_t policy_id,
                                                           uint64_t policy)
{
    return policy_id ^ (weir_resets_generation(s->resets, policy) * spread & LOW_BITS);
}

static bool has_resets(const weir_store *s)
{
    return __builtin_expect(port_word_load_relaxed(&s->resets->begun) != 0, 0);
}

uint64_t weir_store_current_id(const weir_store *s, uint64_t policy_id, uint64_t policy)
{
    return has_resets(s) ? id_of_generation(s, policy_id, policy) : policy_id;
}

bool weir_id_is_of(const weir_store *s, uint64_t current_id, uint64_t id, uint64_t policy)
{
    uint64_t differs = current_id ^ id;
    return differs == 0 ||
           (has_resets(s) && differs <= LOW_BITS &&
            (differs * inverse & LOW_BITS) <= weir_resets_generation(s->resets, policy));
}

uint64_t weir_recorded_id(const weir_store *s, const weir_policy *p, uint64_t policy_id)
{
    if (!has_resets(s) || weir_store_knows(s, policy_id))
        return policy_id;
    uint64_t id = weir_store_policy_id(s, p);
    return weir_area_of(s, policy_id) == &s->common
               ? id
               : (id & ~WEIR_ID_PARTITION) | (policy_id & WEIR_ID_PARTITION);
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

/* Decides in the cases that weir_store_check_key() leaves to it. The key's text is not known, so an
 * absent key is not sought. */
__attribute__((noinline)) static weir_status check_key_rare(weir_store *s, const weir_policy *p,
                                                            weir_key key, int64_t now_ns,
                                                            int64_t cost, weir_decision *ret)
{
    weir_status st = check_rare(s, key.partition, p, key.hash, now_ns, cost, ret);
    if (st != WEIR_E_ELSEWHERE)
        return st;
    const weir_store_request unknown = {.key = NULL};
    const weir_large_call call = {
        .policy = p, .hash = key.hash, .now_ns = now_ns, .fn = weir_check_state};
    return run_charge(s, key.partition, call, cost, 0, ret, &unknown);
}

/* Small enough to be compiled without a stack frame. */
weir_status weir_store_check_key(weir_store *s, const weir_policy *p, weir_key key, int64_t now_ns,
                                 int64_t cost, weir_decision *ret)
{
    const weir_area *at = key.partition;
    return __builtin_expect(is_usual(s, p, now_ns, cost), 1)
               ? weir_table_take_here(at->table, p, key.hash, now_ns, cost, ret)
               : check_key_rare(s, p, key, now_ns, cost, ret);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Where the states of a request are. Most stores have no partitions; a constant `divided` keeps the
 * search for one out of their batches. */
static inline const weir_area *area_of_request(const weir_store *s, const weir_store_request *r,
                                               bool divided)
{
    return divided ? weir_area_of(s, r->policy_id) : &s->common;
}

/* What the policies of some requests are. */
typedef struct kinds {
    bool singles;     /* for all of them weir_pack_is_single() is true */
    size_t large_len; /* how many requests are on large states */
} kinds;

/* Lists the keys of the requests on large states. */
__attribute__((always_inline)) static inline kinds
find_kinds(const weir_store *s, const weir_store_request *requests, size_t n, bool divided,
           const uint64_t *hashes, weir_large_hint *ret_large)
{
    const weir_policy *last = NULL;
    bool is_large = false;
    kinds k = {true, 0};
    for (size_t i = 0; i < n; i++) {
        const weir_policy *p = requests[i].policy;
        if (p != last && !weir_pack_is_single(p)) {
            k.singles = false;
            is_large = !weir_pack_is_fast(p) && weir_table_words(p) == 0;
        } else if (p != last) {
            is_large = false;
        }
        last = p;
        if (is_large) {
            const weir_area *at = area_of_request(s, &requests[i], divided);
            ret_large[k.large_len++] = (weir_large_hint){at->large, p, hashes[i]};
        }
    }
    return k;
}

/* Hashes up to GROUP requests and prefetches their states. Returns what their policies are. */
__attribute__((always_inline)) static inline kinds hash_group(const weir_store *s,
                                                              const weir_store_request *requests,
                                                              size_t n, bool divided,
                                                              uint64_t ret[GROUP])
{
    WEIR_ASSERT(n <= GROUP);
    weir_large_hint large[GROUP];
    weir_hash_requests(&s->hash, requests, n, ret);
    kinds k = find_kinds(s, requests, n, divided, ret, large);
    if (k.large_len > 0)
        weir_large_prefetch(large, k.large_len);
    if (k.large_len == n)
        return k;
    for (size_t i = 0; i < n; i++)
        weir_table_prefetch(area_of_request(s, &requests[i], divided)->table, ret[i]);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || ret[i] != ret[i - 1])
            weir_table_prefetch_alternate(area_of_request(s, &requests[i], divided)->table, ret[i]);
    }
    return k;
}

/* Decides one request.
 *  run  run_hash() or run_large(). */
__attribute__((always_inline)) static inline void
decide_by(weir_status (*run)(weir_store *s, const weir_area *at, weir_large_call *call,
                             const weir_store_request *named),
          weir_store *s, const weir_area *at, weir_store_request *r, uint64_t hash, int64_t now_ns)
{
    weir_state_call c;
    c.cost = r->cost;
    c.keep = r->keep;
    weir_large_call call = {
        .policy = r->policy, .hash = hash, .now_ns = now_ns, .fn = weir_check_state, .ctx = &c};
    r->status = weir_good_request(r, now_ns) ? run(s, at, &call, r) : WEIR_E_RANGE;
    if (r->status == WEIR_OK)
        r->decision = c.decision;
}

static void decide_one(weir_store *s, const weir_area *at, weir_store_request *r, uint64_t hash,
                       int64_t now_ns)
{
    decide_by(run_hash, s, at, r, hash, now_ns);
}

/* Decides up to GROUP requests on large states. */
__attribute__((noinline)) static void decide_large(weir_store *s, weir_store_request *requests,
                                                   size_t n, const uint64_t *hashes, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++)
        decide_by(run_large, s, area_of_request(s, &requests[i], true), &requests[i], hashes[i],
                  now_ns);
}

/* How many requests at the front have the key and the policy of the first one, and are plain. */
static size_t run_length(const weir_store_request *requests, size_t n, const uint64_t *hashes)
{
    WEIR_ASSERT(n >= 1 && weir_plain_request(requests));
    size_t len = 1;
    while (len < n && hashes[len] == hashes[0] && requests[len].policy == requests->policy &&
           weir_plain_request(&requests[len]))
        len++;
    return len;
}

/* Decides requests again whose keys are absent, and may be elsewhere. */
__attribute__((noinline)) static void decide_elsewhere(weir_store *s, const weir_area *at,
                                                       weir_store_request *r, size_t n,
                                                       uint64_t hash, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++)
        decide_one(s, at, &r[i], hash, now_ns);
}

/* Decides the first of n requests, and maybe some that follow. Returns how many. */
__attribute__((always_inline)) static inline size_t
decide_next(weir_store *s, weir_store_request *r, size_t n, bool divided, bool singles,
            const uint64_t *hashes, int64_t now_ns)
{
    const weir_area *at = area_of_request(s, r, divided);
    size_t len = 1;
    if ((!singles && !weir_pack_is_fast(r->policy)) || !weir_plain_request(r)) {
        decide_one(s, at, r, hashes[0], now_ns);
        return 1;
    }
    if (n == 1 || hashes[1] != hashes[0]) {
        r->status = (singles ? weir_table_take_word : weir_table_take_one)(
            at->table, r->policy, hashes[0], now_ns, r->cost, &r->decision);
    } else {
        len = run_length(r, n, hashes);
        weir_table_take_row(at->table, r, len, hashes[0], now_ns);
    }
    if (__builtin_expect(r->status == WEIR_E_ELSEWHERE, 0))
        decide_elsewhere(s, at, r, len, hashes[0], now_ns);
    return len;
}

__attribute__((always_inline)) static inline void
decide_group(weir_store *s, weir_store_request *requests, size_t n, bool divided, bool singles,
             const uint64_t *hashes, int64_t now_ns)
{
    for (size_t i = 0; i < n;)
        i += decide_next(s, &requests[i], n - i, divided, singles, &hashes[i], now_ns);
}

/* Decides up to GROUP requests of any policies. */
__attribute__((noinline)) static void decide_others(weir_store *s, weir_store_request *requests,
                                                    size_t n, const uint64_t *hashes,
                                                    int64_t now_ns)
{
    if (__builtin_expect(s->partitions_len == 0, 1))
        decide_group(s, requests, n, false, false, hashes, now_ns);
    else
        decide_group(s, requests, n, true, false, hashes, now_ns);
}

__attribute__((always_inline)) static inline void
check_batch(weir_store *s, weir_store_request *requests, size_t n, bool divided, int64_t now_ns)
{
    uint64_t hashes[GROUP];
    for (size_t at = 0; at < n; at += GROUP) {
        size_t len = n - at < GROUP ? n - at : GROUP;
        kinds k = hash_group(s, &requests[at], len, divided, hashes);
        if (k.singles && !divided)
            decide_group(s, &requests[at], len, false, true, hashes, now_ns);
        else if (k.large_len == len)
            decide_large(s, &requests[at], len, hashes, now_ns);
        else
            decide_others(s, &requests[at], len, hashes, now_ns);
    }
}

__attribute__((noinline)) static void
check_divided_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    check_batch(s, requests, n, true, now_ns);
}

void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns)
{
    if (!weir_good_time(now_ns)) {
        for (size_t i = 0; i < n; i++)
            requests[i].status = WEIR_E_RANGE;
        return;
    }
    weir_store_expire_due(s, now_ns);
    if (__builtin_expect(s->partitions_len == 0, 1))
        check_batch(s, requests, n, false, now_ns);
    else
        check_divided_batch(s, requests, n, now_ns);
    weir_store_sync_if_always(s);
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
