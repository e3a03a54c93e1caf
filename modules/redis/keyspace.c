/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opening keys and states, and deciding. Writing them back is in replicate.c. */

#include "keyspace.h"

#include "core/check.h"
#include "core/decision.h"
#include "port/assert.h"
#include "store/shape.h"

#include <string.h>

redis_type *weir_data_type;

/* ---- keys ------------------------------------------------------------------------------------ */

bool weir_key_open(weir_open_key *k, redis_ctx *ctx, redis_string *name, int mode)
{
    k->name = name; /* clearing the whole structure would cost more than deciding */
    k->key = redis.OpenKey(ctx, name, mode);
    k->value = 0;
    k->exists = k->must_drop_idle = k->of_one_policy = false;
    k->cells = 0;
    if (!k->key)
        return true;
    if (redis.ModuleTypeGetType(k->key) == weir_data_type) { /* never of an empty key */
        k->exists = true;
        k->value = (weir_value)redis.ModuleTypeGetValue(k->key);
        return true;
    }
    if (redis.KeyType(k->key) == REDIS_KEY_EMPTY)
        return true;
    redis.CloseKey(k->key);
    return false;
}

void weir_key_put(weir_open_key *k)
{
    void *old;
    if (k->exists)
        redis.ModuleTypeReplaceValue(k->key, weir_data_type, (void *)k->value, &old);
    else if (k->value)
        redis.ModuleTypeSetValue(k->key, weir_data_type, (void *)k->value);
    if (k->exists && !k->value)
        redis.DeleteKey(k->key); /* frees a value of 0, which owns nothing */
    k->exists = k->value != 0;
}

void weir_key_close(weir_open_key *k)
{
    if (k->key)
        redis.CloseKey(k->key);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Opens a state that is all zero: the quota is full. */
static void open_absent(weir_cell *c)
{
    c->absent = true;
    c->level = 0;
    c->words = weir_state_words(&c->interned->policy, 0);
    if (c->words <= WEIR_CELL_SMALL) {
        memset(c->small, 0, c->words * sizeof c->small[0]);
        c->state = c->small;
        return;
    }
    c->new_state = weir_heap_state_new(c->interned, 0, c->words);
    c->state = c->new_state->state;
}

static bool has_cell(const weir_open_key *k, const weir_interned *s)
{
    size_t i = 0;
    while (i < k->cells && k->interned[i] != s && k->former[i] != s)
        i++;
    return i < k->cells;
}

bool weir_key_can_drop(const weir_open_key *k, size_t i, int64_t now_ns)
{
    weir_state_view view;
    weir_value_at(k->value, i, &view);
    return !has_cell(k, view.interned) &&
           (view.interned->former ||
            weir_fresh_after(&view.interned->policy, view.state, view.level, now_ns) == 0);
}

/* Whether the key can hold its states and the new ones even if all grow to their maximum. The value
 * must always fit into one serialised payload.
 *  without_idle  leaves out the states that can be dropped */
static bool fits(const weir_open_key *k, bool without_idle, int64_t now_ns)
{
    size_t policies = 0, bytes = 0, len = weir_value_len(k->value);
    for (size_t i = 0; i < k->cells; i++) {
        if (weir_value_find(k->value, k->interned[i]) == len) {
            policies++;
            bytes += weir_state_bytes_max(k->interned[i]);
        }
    }
    for (size_t i = 0; i < len; i++) {
        weir_state_view view;
        weir_value_at(k->value, i, &view);
        if (!without_idle || !weir_key_can_drop(k, i, now_ns)) {
            policies++;
            bytes += weir_state_bytes_max(view.interned);
        }
    }
    return policies <= WEIR_POLICIES_OF_KEY && bytes <= WEIR_VALUE_BYTES_MAX;
}

/* Sets k->must_drop_idle if the states fit only without the idle ones. */
static bool make_room(weir_open_key *k, int64_t now_ns)
{
    if (!k->must_drop_idle && fits(k, false, now_ns))
        return true;
    k->must_drop_idle = true;
    return fits(k, true, now_ns);
}

/* Whether `from` was the limit of the policy that `to` is the limit of now, and its states can be
 * converted. */
static bool is_former_limit(const weir_open_key *k, const weir_interned *from,
                            const weir_interned *to)
{
    bool same_policy = from->name_len == to->name_len &&
                       strcmp(weir_interned_name(from), weir_interned_name(to)) == 0 &&
                       (weir_interned_base_len(to) > 0 || k->of_one_policy);
    return same_policy && !from->throttle && weir_store_keeps(&from->policy, &to->policy);
}

/* The index of the state under a former limit that no other cell is on, the latest; else the number
 * of states. */
static size_t find_former(const weir_open_key *k, const weir_interned *s)
{
    size_t len = weir_value_len(k->value);
    for (size_t i = len; i-- > 0;) {
        weir_state_view view;
        weir_value_at(k->value, i, &view);
        if (!has_cell(k, view.interned) && is_former_limit(k, view.interned, s))
            return i;
    }
    return len;
}

static bool grow(weir_cell *c);

/* Converts the state of the former limit. A damaged one counts as none. */
static weir_status convert(weir_cell *c)
{
    weir_state_view view;
    weir_value_at(c->key->value, weir_value_find(c->key->value, c->former), &view);
    weir_status st = WEIR_E_ROOM;
    while (st == WEIR_E_ROOM) {
        st = weir_state_convert(&c->former->policy, view.state, view.level, &c->interned->policy,
                                c->opened_ns, c->state, c->level);
        if (st == WEIR_E_ROOM) {
            memset(c->state, 0, c->words * sizeof *c->state);
            if (!grow(c))
                return WEIR_E_NOMEM;
        }
    }
    return WEIR_OK;
}

static weir_status open_new(weir_cell *c, size_t former)
{
    weir_open_key *k = c->key;
    weir_state_view view;
    open_absent(c);
    if (former == weir_value_len(k->value))
        return WEIR_OK;
    weir_value_at(k->value, former, &view);
    c->former = k->former[k->cells - 1] = view.interned;
    return convert(c);
}

weir_status weir_cell_open(weir_cell *c, weir_open_key *k, weir_interned *s, int64_t now_ns)
{
    weir_state_view view;
    WEIR_ASSERT(k->cells < WEIR_DECIDED_MAX && !has_cell(k, s));
    c->key = k;
    c->interned = s;
    c->absent = false;
    c->new_state = c->in_place = NULL;
    c->undo = NULL;
    c->undo_len = 0;
    c->former = NULL;
    c->opened_ns = now_ns;
    size_t i = weir_value_find(k->value, s), len = weir_value_len(k->value);
    size_t former = i < len || len == 0 ? len : find_former(k, s);
    k->former[k->cells] = NULL;
    k->interned[k->cells++] = s;
    bool full = (k->must_drop_idle || (i == len && len + k->cells > 1)) && !make_room(k, now_ns);
    if (i == len) {
        weir_status st = open_new(c, former);
        return full ? WEIR_E_FULL : st;
    }
    weir_value_at(k->value, i, &view);
    c->level = c->level_before = view.level;
    c->words = view.words;
    if (view.words > WEIR_CELL_SMALL) {
        c->in_place = weir_value_heap_state(k->value, i);
        c->state = c->in_place->state;
        return full ? WEIR_E_FULL : WEIR_OK;
    }
    memcpy(c->small, view.state, view.words * sizeof c->small[0]);
    memcpy(c->before, view.state, view.words * sizeof c->before[0]);
    c->state = c->small;
    return full ? WEIR_E_FULL : WEIR_OK;
}

static void undo_in_place(weir_cell *c)
{
    for (size_t i = c->undo_len; i-- > 0;) {
        WEIR_ASSERT(c->undo[i].word < c->in_place->words);
        c->in_place->state[c->undo[i].word] = c->undo[i].before;
    }
    c->undo_len = 0;
}

void weir_cell_close(weir_cell *c)
{
    undo_in_place(c);
    redis.Free(c->undo);
    weir_heap_state_free(c->new_state);
}

/* Appends the words that the core is about to write to the undo log. */
static void log_undo(weir_cell *c, int64_t now_ns, int64_t refund)
{
    enum { WORDS_MAX = 64 }; /* if more words change, the whole state is logged */
    size_t word[WORDS_MAX];
    size_t n = weir_state_writes(&c->interned->policy, c->state, c->level, now_ns, refund, word,
                                 WORDS_MAX);
    bool all = n > WORDS_MAX;
    n = all ? c->words : n;
    c->undo = redis.Realloc(c->undo, (c->undo_len + n) * sizeof *c->undo + 1);
    for (size_t k = 0; k < n; k++) {
        uint32_t at = (uint32_t)(all ? k : word[k]);
        c->undo[c->undo_len++] = (weir_undo_word){at, c->state[at]};
    }
}

/* Grows the state to its next level. Returns false if it has reached its maximum. */
static bool grow(weir_cell *c)
{
    const weir_policy *p = &c->interned->policy;
    size_t words = weir_state_words(p, c->level + 1);
    WEIR_ASSERT(words > c->words);
    if (words > WEIR_STATE_WORDS_MAX)
        return false;
    if (words <= WEIR_CELL_SMALL) {
        uint64_t from[WEIR_CELL_SMALL];
        memcpy(from, c->small, sizeof from);
        weir_state_grow(p, from, c->level, c->small);
    } else {
        weir_heap_state *wider = weir_heap_state_new(c->interned, c->level + 1, words);
        weir_state_grow(p, c->state, c->level, wider->state);
        weir_heap_state_free(c->new_state);
        c->new_state = wider;
        c->state = wider->state;
    }
    c->level++;
    c->words = words;
    return true;
}

static weir_status check(weir_cell *c, int64_t now_ns, int64_t cost, int64_t keep,
                         weir_decision *ret)
{
    const weir_policy *p = &c->interned->policy;
    if (c->in_place && !c->new_state)
        log_undo(c, now_ns, 0);
    weir_status st = weir_check_keep(p, c->state, c->level, now_ns, cost, keep, ret);
    while (st == WEIR_E_ROOM && grow(c))
        st = weir_check_keep(p, c->state, c->level, now_ns, cost, keep, ret);
    return st == WEIR_E_ROOM ? WEIR_E_NOMEM : st;
}

weir_status weir_cell_block(weir_cell *c, int64_t now_ns, int64_t cost, int64_t keep,
                            weir_decision *ret)
{
    if (c->in_place && !c->new_state)
        log_undo(c, now_ns, 0);
    return weir_block_if_denied(&c->interned->policy, c->state, c->level, now_ns, cost, keep, ret);
}

static weir_status peek(const weir_cell *c, int64_t now_ns, int64_t cost, int64_t keep,
                        weir_decision *ret)
{
    return weir_peek_keep(&c->interned->policy, c->state, c->level, now_ns, cost, keep, ret);
}

static weir_status refund(weir_cell *c, int64_t now_ns, int64_t n, weir_decision *ret)
{
    if (c->in_place && !c->new_state)
        log_undo(c, now_ns, n);
    return weir_refund(&c->interned->policy, c->state, c->level, now_ns, n, ret);
}

static weir_status charge(weir_cell *c, int64_t now_ns, int64_t n, weir_decision *ret,
                          int64_t *ret_granted)
{
    const weir_policy *p = &c->interned->policy;
    int64_t over = n;
    if (c->in_place && !c->new_state)
        log_undo(c, now_ns, 0);
    weir_status st = weir_charge(p, c->state, c->level, now_ns, n, ret, &over);
    while (st == WEIR_E_ROOM && grow(c))
        st = weir_charge(p, c->state, c->level, now_ns, n, ret, &over);
    *ret_granted = n - over;
    return st == WEIR_E_ROOM ? WEIR_E_NOMEM : st;
}

static weir_status grant(weir_cell *c, int64_t now_ns, int64_t n, weir_decision *ret,
                         int64_t *ret_granted)
{
    weir_decision d;
    weir_status st = peek(c, now_ns, 0, 0, &d);
    int64_t most = st == WEIR_OK && n > d.remaining ? d.remaining : n;
    if (st == WEIR_OK && most > 0)
        st = check(c, now_ns, most, 0, &d);
    if (st == WEIR_OK)
        st = peek(c, now_ns, 1, 0, ret);
    if (st == WEIR_OK)
        *ret_granted = most;
    return st;
}

static void reset(weir_cell *c, weir_decision *ret)
{
    *ret = weir_full_quota(&c->interned->policy);
    weir_heap_state_free(c->new_state);
    c->new_state = NULL;
    c->state = NULL;
}

int64_t weir_cell_next(const weir_cell *c, int64_t now_ns, int64_t keep, const weir_decision *d)
{
    weir_decision one;
    if (weir_next_is_now(&c->interned->policy, d))
        return 0;
    return peek(c, now_ns, 1, keep, &one) == WEIR_OK ? one.retry_after_ns : WEIR_NEXT_UNKNOWN;
}

weir_status weir_cell_decide(weir_cell *c, weir_verb verb, int64_t now_ns, int64_t n, int64_t keep,
                             weir_decision *ret, int64_t *ret_granted)
{
    WEIR_ASSERT(c->state && n >= 0 && n <= WEIR_COST_MAX);
    *ret_granted = 0;
    switch (verb) {
    case WEIR_VERB_TAKE:
        return check(c, now_ns, n, keep, ret);
    case WEIR_VERB_PEEK:
        return peek(c, now_ns, n, keep, ret);
    case WEIR_VERB_REFUND:
        return refund(c, now_ns, n, ret);
    case WEIR_VERB_CHARGE:
        return charge(c, now_ns, n, ret, ret_granted);
    case WEIR_VERB_GRANT:
        return grant(c, now_ns, n, ret, ret_granted);
    case WEIR_VERB_RESET:
        reset(c, ret);
        return WEIR_OK;
    case WEIR_VERB_THROTTLE:
    case WEIR_VERB_RESET_ALL:
        break;
    }
    return WEIR_E_RANGE;
}
