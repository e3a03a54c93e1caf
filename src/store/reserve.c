/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The memory of reservations: a header, an array of records, a binary heap of record numbers by
 * expiry time, and for each record its place in the heap, or the next record of the free list. Only
 * the records are trusted. The rest is rebuilt from them at each opening, and after the death of a
 * process that held the lock.
 *
 * A record that expired goes to the end of the free list, and stays known until it is reused: a
 * commit that comes too late then charges what was used.
 *
 * In larger memory there are also chains of open records by hash, so that those of a key are found
 * without a search. */

#include "store/reserve.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "port/assert.h"
#include "port/port.h"
#include "store/reserve_id.h"

#include <stdalign.h>

enum {
    POLICIES = 64, /* size of the cache of parsed policies */
};
_Static_assert(WEIR_RESERVE_MAX <= 1 << WEIR_RESERVE_SLOT_BITS, "an id can hold its number");

typedef struct record {
    port_word open; /* OPEN or EXPIRED if the record is valid */
    uint64_t id, hash, policy_id;
    int64_t charged_ns, expires_ns, units;
    uint64_t check; /* a checksum of all but `open` */
} record;
_Static_assert(sizeof(record) == 64, "a record is a cache line");

/* Values that damage is unlikely to produce. The units of an EXPIRED record are 0. */
#define OPEN    UINT64_C(0x6e65706f72696577)
#define EXPIRED UINT64_C(0x646e655f72696577)

typedef struct head {
    /* When the first one expires; INT64_MAX: none. On a cache line of its own: every decision
     * reads it. */
    alignas(64) port_word next_ns;
    alignas(64) port_word lock; /* the id of the process that holds it; 0: free */
    uint64_t counter;           /* of ids */
    uint64_t damaged, lost;
    uint32_t heap_len;
    uint32_t free_first; /* head of the free list, a queue: 1 + a record's number; 0: empty */
    uint32_t used;       /* records from this number on were never used */
    uint32_t free_last;  /* the end of the free list, if it is not empty */
} head;
_Static_assert(sizeof(head) == 128, "WEIR_RESERVE_BYTES_MAX says so");

typedef struct known {
    uint64_t id; /* 0: this entry is empty */
    weir_policy policy;
} known;

typedef struct table {
    weir_reserve handle; /* the first member: callers hold a pointer to it */
    head *head;
    record *records;
    uint32_t *heap; /* numbers of open records, as a binary min-heap by expires_ns */
    /* Of an open record, its place in the heap; of a free one, 1 + the next free one. */
    uint32_t *link;
    /* Chains of open records by hash: the first of each, and the neighbors of each record, as 1 + a
     * record's number. NULL: there are none. */
    uint32_t *chain, *next, *previous;
    uint32_t max;
    port_mutex *mutex;
    const weir_processes *processes;
    weir_secret secret;
    weir_reserve_hooks hooks;
    known *known; /* a cache of POLICIES entries, by id */
} table;

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t check_of(const table *t, const record *r)
{
    const uint64_t words[] = {
        r->id,
        r->hash,
        r->policy_id,
        (uint64_t)r->charged_ns,
        (uint64_t)r->expires_ns,
        (uint64_t)r->units,
    };
    return weir_siphash(t->secret, words, sizeof words);
}

static bool is_open(const record *r)
{
    return port_word_load_relaxed(&r->open) == OPEN; /* under the lock */
}

static bool is_expired(const record *r)
{
    return port_word_load_relaxed(&r->open) == EXPIRED;
}

/* Makes a record valid. The release store publishes its other words, also to a process that reads
 * them after this one was killed.
 *  as  OPEN or EXPIRED. */
static void set_valid(const table *t, record *r, uint64_t as)
{
    r->check = check_of(t, r);
    port_word_store_release(&r->open, as);
}

/* Makes a record invalid. The fence orders this before all that the caller changes next. */
static void set_free(record *r)
{
    port_word_store_relaxed(&r->open, 0);
    port_stores_in_order();
}

/* Of an open or an expired record. */
static bool may_have(const table *t, uint64_t id, uint32_t slot)
{
    weir_reserve_slots slots = weir_reserve_slots_of(t->secret, id);
    return slots.of[0] == slot || slots.of[1] == slot;
}

static bool sound(const table *t, const record *r, uint32_t slot)
{
    return (is_open(r) || is_expired(r)) && r->check == check_of(t, r) &&
           may_have(t, r->id, slot) && r->units >= 0 && r->units <= WEIR_COST_MAX &&
           r->charged_ns >= 0 && r->charged_ns < r->expires_ns;
}

/* ---- the heap and the free list -------------------------------------------------------------- */

static bool sooner(const table *t, uint32_t a, uint32_t b)
{
    return t->records[a].expires_ns < t->records[b].expires_ns;
}

static void place(table *t, uint32_t at, uint32_t slot)
{
    t->heap[at] = slot;
    t->link[slot] = at;
}

static void sift_up(table *t, uint32_t at, uint32_t slot)
{
    while (at > 0 && sooner(t, slot, t->heap[(at - 1) / 2])) {
        place(t, at, t->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(t, at, slot);
}

static void sift_down(table *t, uint32_t at, uint32_t slot)
{
    for (uint32_t len = t->head->heap_len;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < len && sooner(t, t->heap[child + 1], t->heap[child]))
            child++;
        if (child >= len || !sooner(t, t->heap[child], slot))
            break;
        place(t, at, t->heap[child]);
        at = child;
    }
    place(t, at, slot);
}

static uint32_t *chain_of(const table *t, uint64_t hash)
{
    return &t->chain[hash % t->max];
}

static void chain_add(table *t, uint32_t slot)
{
    if (!t->chain)
        return;
    uint32_t *first = chain_of(t, t->records[slot].hash);
    t->next[slot] = *first;
    t->previous[slot] = 0;
    if (*first > 0)
        t->previous[*first - 1] = slot + 1;
    *first = slot + 1;
}

static void chain_drop(table *t, uint32_t slot)
{
    if (!t->chain)
        return;
    uint32_t next = t->next[slot], previous = t->previous[slot];
    if (previous > 0)
        t->next[previous - 1] = next;
    else
        *chain_of(t, t->records[slot].hash) = next;
    if (next > 0)
        t->previous[next - 1] = previous;
}

static void heap_add(table *t, uint32_t slot)
{
    WEIR_ASSERT(slot < t->max && t->head->heap_len < t->max);
    sift_up(t, t->head->heap_len++, slot);
    chain_add(t, slot);
}

static void heap_drop(table *t, uint32_t slot)
{
    WEIR_ASSERT(t->head->heap_len > 0 && t->heap[t->link[slot]] == slot);
    uint32_t at = t->link[slot], last = t->heap[--t->head->heap_len];
    chain_drop(t, slot);
    if (last == slot)
        return;
    sift_up(t, at, last);
    sift_down(t, t->link[last], last);
}

/* Publishes when the next reservation expires. Release: see weir_reserve_due(). */
static void set_next(table *t)
{
    int64_t next_ns = t->head->heap_len > 0 ? t->records[t->heap[0]].expires_ns : INT64_MAX;
    if ((int64_t)port_word_load_relaxed(&t->head->next_ns) != next_ns)
        port_word_store_release(&t->head->next_ns, (uint64_t)next_ns);
}

static void slot_put(table *t, uint32_t slot)
{
    head *h = t->head;
    WEIR_ASSERT(slot < t->max && !is_open(&t->records[slot]));
    t->link[slot] = 0;
    if (h->free_first > 0)
        t->link[h->free_last - 1] = slot + 1;
    else
        h->free_first = slot + 1;
    h->free_last = slot + 1;
}

/* Finds the next record for a reservation: one that was never used, else the one that has been free
 * for the longest time. Returns false if there is none. */
static bool slot_find(const table *t, uint32_t *ret)
{
    const head *h = t->head;
    *ret = h->used < t->max ? h->used : h->free_first - 1;
    return h->used < t->max || h->free_first > 0;
}

/* Takes the record that slot_find() found. A reservation in it that expired is no longer known. */
static void slot_take(table *t, uint32_t slot)
{
    head *h = t->head;
    if (h->used < t->max) {
        h->used++;
        return;
    }
    h->free_first = t->link[slot];
    set_free(&t->records[slot]);
}

/* Adds the expired records to the free list, in the order of their expiry. */
static void rebuild_expired(table *t)
{
    for (uint32_t slot = 0; slot < t->max; slot++) {
        if (is_expired(&t->records[slot]))
            heap_add(t, slot);
    }
    while (t->head->heap_len > 0) {
        uint32_t slot = t->heap[0];
        heap_drop(t, slot);
        slot_put(t, slot);
    }
}

/* Rebuilds the heap, the free list and the counter from the records. */
static weir_status rebuild(table *t)
{
    head *h = t->head;
    /* The memory may be older than the ids that were given out since. A random counter does not
     * repeat them. */
    weir_status st = port_random(&h->counter, sizeof h->counter);
    h->heap_len = h->free_first = 0;
    h->used = t->max;
    for (uint32_t i = 0; t->chain && i < t->max; i++)
        t->chain[i] = 0;
    for (uint32_t slot = 0; slot < t->max; slot++) {
        record *r = &t->records[slot];
        if (sound(t, r, slot))
            continue;
        if (port_word_load_relaxed(&r->open) != 0) {
            set_free(r);
            h->damaged++;
        }
        slot_put(t, slot);
    }
    rebuild_expired(t);
    for (uint32_t slot = 0; slot < t->max; slot++) {
        if (is_open(&t->records[slot]))
            heap_add(t, slot);
    }
    set_next(t);
    return st;
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* The mutex lets only one thread of this process wait for the lock in the shared memory. */
static void lock(table *t)
{
    port_mutex_lock(t->mutex);
    if (weir_robust_lock(&t->head->lock, t->processes) == WEIR_LOCK_OWNER_DIED)
        (void)rebuild(t); /* without random numbers the counter goes on */
}

static void unlock(table *t)
{
    weir_robust_unlock(&t->head->lock);
    port_mutex_unlock(t->mutex);
}

/* ---- open and close -------------------------------------------------------------------------- */

static void lay_out(table *t, void *part, size_t bytes)
{
    bool chained = bytes >= WEIR_RESERVE_BYTES_CHAINED;
    size_t max = (bytes - sizeof(head)) / (sizeof(record) + (chained ? 5 : 2) * sizeof(uint32_t));
    size_t most = chained ? WEIR_RESERVE_MAX : WEIR_RESERVE_UNCHAINED_MAX;
    t->max = (uint32_t)(max < most ? max : most);
    t->head = part;
    t->records = (record *)(t->head + 1);
    t->heap = (uint32_t *)(t->records + t->max);
    t->link = t->heap + t->max;
    t->chain = chained ? t->link + t->max : NULL;
    t->next = chained ? t->chain + t->max : NULL;
    t->previous = chained ? t->next + t->max : NULL;
    t->handle.next_ns = &t->head->next_ns;
}

weir_status weir_reserve_open(weir_reserve **ret, void *part, size_t bytes, bool is_new,
                              const weir_processes *processes, weir_secret secret,
                              const weir_reserve_hooks *hooks)
{
    if (bytes < WEIR_RESERVE_BYTES_MIN)
        return WEIR_E_RANGE;
    weir_status st = WEIR_E_NOMEM;
    table *t = port_zalloc(1, sizeof *t);
    if (!t)
        return st;
    t->processes = processes;
    t->secret = secret;
    t->hooks = *hooks;
    t->mutex = port_mutex_new();
    t->known = port_zalloc(POLICIES, sizeof *t->known);
    if (!t->mutex || !t->known)
        goto fail;
    lay_out(t, part, bytes);
    port_mutex_lock(t->mutex);
    /* A lock with our id was held by a dead process with the same id. It is ours now. */
    if (port_word_load_relaxed(&t->head->lock) != processes->self)
        (void)weir_robust_lock(&t->head->lock, processes);
    st = WEIR_OK;
    if (is_new) /* the rest is zero; untouched records take no real memory */
        set_next(t);
    else
        st = rebuild(t);
    unlock(t);
    if (st != WEIR_OK)
        goto fail;
    *ret = &t->handle;
    return WEIR_OK;
fail:
    weir_reserve_close(&t->handle);
    return st;
}

void weir_reserve_close(weir_reserve *r)
{
    if (!r)
        return;
    table *t = (table *)r;
    port_mutex_free(t->mutex);
    port_free(t->known);
    port_free(t);
}

void weir_reserve_lock(weir_reserve *r)
{
    lock((table *)r);
}

void weir_reserve_unlock(weir_reserve *r)
{
    unlock((table *)r);
}

void weir_reserve_copy(weir_reserve *r, weir_reserve *from)
{
    table *t = (table *)r, *old = (table *)from;
    lock(t);
    for (uint32_t slot = 0; slot < old->max; slot++) {
        if (!sound(old, &old->records[slot], slot))
            continue;
        if (slot < t->max)
            t->records[slot] = old->records[slot];
        else if (is_open(&old->records[slot]))
            t->head->lost++;
    }
    (void)rebuild(t); /* without random numbers the counter goes on */
    unlock(t);
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Returns NULL if the id is unknown. The result is valid until the next call. */
static const weir_policy *policy_of(table *t, uint64_t policy_id)
{
    known *k = &t->known[policy_id % POLICIES];
    if (k->id == policy_id && policy_id != 0)
        return &k->policy;
    k->id = 0;
    if (t->hooks.policy_find(t->hooks.ctx, policy_id, &k->policy) != WEIR_OK)
        return NULL;
    k->id = policy_id;
    return &k->policy;
}

/* Stores a policy. Returns whether it will be found when the reservation ends, perhaps after a
 * restart. */
static bool keep_policy(table *t, uint64_t policy_id, const weir_policy *p)
{
    const weir_reserve_hooks *h = &t->hooks;
    bool is_known = h->policy_known(h->ctx, policy_id);
    if (!is_known)
        h->policy_note(h->ctx, policy_id, p);
    return (is_known || h->policy_known(h->ctx, policy_id)) && policy_of(t, policy_id);
}

/* ---- callbacks on states --------------------------------------------------------------------- */

typedef struct change {
    int64_t units;
    weir_charged of; /* the reservation */
    int64_t ttl_ns;
    bool if_there;          /* do not charge a key that has no state */
    int64_t over;           /* output: the units that could not be counted */
    int64_t now_ns;         /* output: the time of the charge */
    int64_t ends_ns;        /* output: when the renewed lease ends */
    weir_decision decision; /* output */
} change;

static weir_status charge_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    change *c = ctx;
    c->now_ns = weir_state_time(p, state, level, now_ns);
    return weir_check(p, state, level, c->now_ns, c->units, &c->decision);
}

static weir_status give_back_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                   int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    change *c = ctx;
    return weir_refund_charge(p, state, level, &c->of, now_ns, c->units, &c->decision);
}

static weir_status renew_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    change *c = ctx;
    return weir_renew(p, state, level, &c->of, c->ttl_ns, now_ns, &c->decision, &c->ends_ns);
}

/* Charges units that were used, whether they fit or not, and gives back the lease: in this order,
 * because only the charge may have to be repeated on a larger state. */
static weir_status charge_more_state(void *ctx, const weir_policy *p, uint64_t *state,
                                     unsigned level, int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    change *c = ctx;
    weir_status st = WEIR_OK;
    if (c->if_there && weir_state_is_zero(p, state, level)) {
        c->over = c->units;
        return weir_check(p, state, level, now_ns, 0, &c->decision);
    }
    if (weir_policy_counts(p))
        st = weir_charge(p, state, level, now_ns, c->units, &c->decision, &c->over);
    if (st == WEIR_OK)
        st = weir_refund_charge(p, state, level, &c->of, now_ns, 0, &c->decision);
    return st;
}

/* The key of a reservation. A copy: the record may be free by the time of the call. */
typedef struct key {
    uint64_t policy_id, hash;
} key;

static key key_of(const record *r)
{
    return (key){r->policy_id, r->hash};
}

static weir_charged charged_of(const record *r)
{
    return (weir_charged){r->charged_ns, r->expires_ns, r->units};
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Returns the policy, with leases of another length in its concurrent layer; without such a layer,
 * `p` itself.
 *  with  memory for the result. */
static const weir_policy *with_lease(const weir_policy *p, int64_t lease_ns, weir_policy *with)
{
    const weir_layer *hold = weir_policy_hold(p);
    if (!hold)
        return p;
    *with = *p;
    with->layer[hold - p->layer].den = (uint64_t)lease_ns;
    return with;
}

/* Replaces a TTL of 0 by the lease of the policy. Returns false if the policy has none, or if the
 * TTL is longer. */
static bool choose_ttl(const weir_policy *p, int64_t *ttl_ns)
{
    const weir_layer *hold = weir_policy_hold(p);
    if (!hold)
        return *ttl_ns > 0;
    if (*ttl_ns == 0)
        *ttl_ns = hold->period_ns;
    return *ttl_ns <= hold->period_ns;
}

static weir_status run(table *t, const weir_policy *p, key of, int64_t now_ns, weir_state_fn fn,
                       change *c)
{
    return t->hooks.run(t->hooks.ctx, p, of.policy_id, of.hash, now_ns, fn, c);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Ends a reservation. From here on its units cannot be returned again. */
static void end(table *t, uint32_t slot)
{
    WEIR_ASSERT(is_open(&t->records[slot]));
    set_free(&t->records[slot]);
    heap_drop(t, slot);
    slot_put(t, slot);
}

/* Ends a reservation that expired. The record stays known. If the process is killed before it is,
 * the reservation is gone. */
static void end_expired(table *t, uint32_t slot)
{
    record *r = &t->records[slot];
    end(t, slot);
    r->units = 0;
    set_valid(t, r, EXPIRED);
}

static void expire(table *t, int64_t now_ns)
{
    while (t->head->heap_len > 0 && t->records[t->heap[0]].expires_ns <= now_ns) {
        uint32_t slot = t->heap[0];
        const record *r = &t->records[slot];
        change c = {.units = r->units, .of = charged_of(r)};
        const weir_policy *p = policy_of(t, r->policy_id);
        key of = key_of(r);
        int64_t expires_ns = r->expires_ns;
        end_expired(t, slot);
        if (!p || run(t, p, of, expires_ns, give_back_state, &c) != WEIR_OK)
            t->head->lost++;
    }
    set_next(t); /* only after the units are returned */
}

void weir_reserve_expire(weir_reserve *r, int64_t now_ns)
{
    table *t = (table *)r;
    lock(t);
    expire(t, now_ns);
    unlock(t);
}

/* Charges the units of a request. If the charge is allowed, opens the record of slot_find() and
 * writes its id. */
static weir_status make(table *t, weir_store_request *request, uint64_t hash, int64_t now_ns,
                        int64_t ttl_ns, uint32_t slot, uint64_t *ret_id)
{
    change c = {.units = request->cost};
    key of = {request->policy_id, hash};
    weir_policy with;
    const weir_policy *p = with_lease(request->policy, ttl_ns, &with);
    weir_status st = run(t, p, of, now_ns, charge_state, &c);
    if (st != WEIR_OK)
        return st;
    request->decision = c.decision;
    if (!c.decision.allowed)
        return WEIR_OK;
    record *r = &t->records[slot];
    slot_take(t, slot);
    r->id = weir_reserve_id(t->secret, &t->head->counter, slot);
    r->hash = hash;
    r->policy_id = request->policy_id;
    r->charged_ns = c.now_ns;
    r->expires_ns = c.now_ns + ttl_ns; /* cannot overflow: see the assertion below */
    r->units = request->cost;
    set_valid(t, r, OPEN);
    heap_add(t, slot);
    set_next(t);
    *ret_id = r->id;
    return WEIR_OK;
}
_Static_assert(INT64_MAX - WEIR_NOW_NS_MAX >= WEIR_SPAN_NS_MAX, "a time and a span can be added");

weir_status weir_reserve_make(weir_reserve *r, weir_store_request *request, uint64_t hash,
                              int64_t now_ns, int64_t ttl_ns, uint64_t *ret_id)
{
    const weir_policy *p = request->policy;
    if (!weir_policy_can(p, WEIR_CAN_REFUND))
        return WEIR_E_UNSUPPORTED;
    WEIR_ASSERT(request->cost >= 0 && request->cost <= WEIR_COST_MAX && ttl_ns >= 0 &&
                ttl_ns <= WEIR_SPAN_NS_MAX);
    if (!choose_ttl(p, &ttl_ns))
        return WEIR_E_RANGE;
    table *t = (table *)r;
    weir_status st = WEIR_E_FULL;
    uint32_t slot;
    lock(t);
    expire(t, now_ns);
    if (keep_policy(t, request->policy_id, p) && slot_find(t, &slot))
        st = make(t, request, hash, now_ns, ttl_ns, slot, ret_id);
    unlock(t);
    return st;
}

/* Finds a reservation that is open or has expired, and its policy. Returns NULL if there is none.
 */
static record *find(table *t, uint64_t id, const weir_policy **ret_policy)
{
    weir_reserve_slots slots = weir_reserve_slots_of(t->secret, id);
    for (size_t i = 0; i < 2; i++) {
        record *r = slots.of[i] < t->max ? &t->records[slots.of[i]] : NULL;
        if (r && r->id == id && (is_open(r) || is_expired(r))) {
            *ret_policy = policy_of(t, r->policy_id);
            return *ret_policy ? r : NULL;
        }
    }
    return NULL;
}

bool weir_reserve_find(weir_reserve *r, uint64_t id, weir_reserved *ret)
{
    table *t = (table *)r;
    const weir_policy *p;
    lock(t);
    const record *of = find(t, id, &p);
    if (of)
        *ret = (weir_reserved){*p, of->policy_id, of->hash};
    unlock(t);
    return of != NULL;
}

weir_status weir_reserve_commit(weir_reserve *r, uint64_t id, int64_t now_ns, int64_t actual,
                                weir_decision *ret, int64_t *ret_over)
{
    WEIR_ASSERT(actual >= 0 && actual <= WEIR_COST_MAX);
    table *t = (table *)r;
    weir_status st = WEIR_E_ABSENT;
    lock(t);
    expire(t, now_ns);
    const weir_policy *p;
    record *of = find(t, id, &p);
    if (of) {
        bool more = actual > of->units;
        change c = {.units = more ? actual - of->units : of->units - actual, .of = charged_of(of)};
        key at = key_of(of);
        if (is_open(of)) {
            end(t, (uint32_t)(of - t->records));
        } else {
            set_free(of); /* it is in the free list */
            /* A state that has moved since counts more than one that begins here. */
            c.if_there = t->hooks.may_have_moved(t->hooks.ctx, at.policy_id, now_ns);
        }
        set_next(t);
        st = run(t, p, at, now_ns, more ? charge_more_state : give_back_state, &c);
        if (more && (st == WEIR_E_NOMEM || st == WEIR_E_ROOM || st == WEIR_E_FULL)) {
            /* The key has no state, and no memory for one: nothing more can be charged. */
            c = (change){.over = c.units};
            st = run(t, p, at, now_ns, charge_state, &c);
        }
        if (st == WEIR_OK) {
            *ret = c.decision;
            *ret_over = c.over;
        }
    }
    unlock(t);
    return st;
}

/* Changes when an open reservation expires. If the process is killed here, the reservation is gone,
 * and its lease ends by itself. */
static void postpone(table *t, record *r, int64_t expires_ns)
{
    uint32_t slot = (uint32_t)(r - t->records);
    heap_drop(t, slot);
    set_free(r);
    r->expires_ns = expires_ns;
    set_valid(t, r, OPEN);
    heap_add(t, slot);
    set_next(t);
}

weir_status weir_reserve_renew(weir_reserve *r, uint64_t id, int64_t now_ns, int64_t ttl_ns,
                               weir_decision *ret)
{
    WEIR_ASSERT(ttl_ns >= 0 && ttl_ns <= WEIR_SPAN_NS_MAX);
    table *t = (table *)r;
    weir_status st = WEIR_E_ABSENT;
    lock(t);
    expire(t, now_ns);
    const weir_policy *p;
    record *of = find(t, id, &p);
    bool open = of && is_open(of);
    if (open && !choose_ttl(p, &ttl_ns)) {
        st = WEIR_E_RANGE;
    } else if (open) {
        change c = {.of = charged_of(of), .ttl_ns = ttl_ns};
        st = run(t, p, key_of(of), now_ns, renew_state, &c);
        if (st == WEIR_OK) {
            *ret = c.decision;
            postpone(t, of, c.ends_ns);
        }
    }
    unlock(t);
    return st;
}

/* Changes an open record. If the process is killed meanwhile, the reservation is gone. */
static void rewrite(table *t, uint32_t slot, uint64_t hash, uint64_t policy_id, int64_t units)
{
    record *r = &t->records[slot];
    set_free(r);
    chain_drop(t, slot);
    r->hash = hash;
    r->policy_id = policy_id;
    r->units = units;
    chain_add(t, slot);
    set_valid(t, r, OPEN);
}

/* Changes the open records of a key: sets their units to 0, or renames the key. */
static void rewrite_key(table *t, uint64_t hash, bool zero, uint64_t to_hash, uint64_t to_policy_id)
{
    uint32_t next = t->chain ? *chain_of(t, hash) : t->head->heap_len;
    while (next > 0) {
        uint32_t slot = t->chain ? next - 1 : t->heap[next - 1];
        const record *r = &t->records[slot];
        next = t->chain ? t->next[slot] : next - 1;
        if (r->hash == hash)
            rewrite(t, slot, to_hash, zero ? r->policy_id : to_policy_id, zero ? 0 : r->units);
    }
}

void weir_reserve_zero_units(weir_reserve *r, uint64_t hash)
{
    rewrite_key((table *)r, hash, true, hash, 0);
}

void weir_reserve_rename(weir_reserve *r, uint64_t hash, uint64_t to_hash, uint64_t to_policy_id)
{
    rewrite_key((table *)r, hash, false, to_hash, to_policy_id);
}

bool weir_reserve_refers(const weir_reserve *r, uint64_t policy_id)
{
    const table *t = (const table *)r;
    bool refers = false;
    for (uint32_t slot = 0; slot < t->max; slot++)
        refers |= t->records[slot].policy_id == policy_id && sound(t, &t->records[slot], slot);
    return refers;
}

bool weir_reserve_any(const weir_reserve *r)
{
    return (int64_t)port_word_load_relaxed(r->next_ns) != INT64_MAX;
}

weir_reserve_stats weir_reserve_stats_get(weir_reserve *r)
{
    table *t = (table *)r;
    lock(t);
    weir_reserve_stats stats = {.open = t->head->heap_len,
                                .max = t->max,
                                .damaged = t->head->damaged,
                                .lost = t->head->lost};
    unlock(t);
    return stats;
}
