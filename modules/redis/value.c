/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Encoding and decoding of values, and the steps from one form to another. */

#include "value.h"

#include "abi.h"
#include "core/check.h"
#include "port/assert.h"

#include <string.h>

enum { INLINE = 1, ONE = 2, TAG = 3 };
enum { BASE_AT = 2, DELTA_AT = BASE_AT + WEIR_BASE_BITS };
_Static_assert(WEIR_DELTA_MAX == UINT64_MAX >> DELTA_AT, "the delta takes the remaining bits");
_Static_assert(sizeof(weir_value) == sizeof(uint64_t), "a value fits into a pointer");

typedef struct list {
    size_t len;
    weir_heap_state *state[];
} list;

static bool is_inline(weir_value v)
{
    return (v & TAG) == INLINE;
}

static bool is_one(weir_value v)
{
    return (v & TAG) == ONE;
}

static weir_heap_state *one_of(weir_value v)
{
    WEIR_ASSERT(is_one(v));
    return (weir_heap_state *)(v - ONE);
}

static list *list_of(weir_value v)
{
    WEIR_ASSERT(v != 0 && (v & TAG) == 0);
    return (list *)v;
}

static uint32_t base_of(weir_value v)
{
    return (uint32_t)(v >> BASE_AT) & (WEIR_BASES_MAX - 1);
}

/* ---- states on the heap ---------------------------------------------------------------------- */

weir_heap_state *weir_heap_state_new(weir_interned *interned, unsigned level, size_t words)
{
    weir_heap_state *e = redis.Calloc(1, sizeof *e + words * sizeof e->state[0]);
    weir_interned_ref(interned);
    e->interned = interned;
    e->level = level & UINT8_MAX;
    e->words = (uint32_t)words & (WEIR_STATE_WORDS_MAX * 2 - 1);
    return e;
}

void weir_heap_state_free(weir_heap_state *e)
{
    if (!e)
        return;
    weir_interned_unref(e->interned);
    redis.Free(e);
}

/* ---- inline states --------------------------------------------------------------------------- */

/* A state of one or two words as one number of 128 bits. */
typedef struct number {
    uint64_t hi, lo;
} number;

static number number_of(const weir_interned *s, const uint64_t *state)
{
    WEIR_ASSERT(s->small == 1 || s->small == 2);
    return (number){s->small == 2 ? state[0] : 0, state[s->small - 1]};
}

/* Whether x is at most WEIR_DELTA_MAX above a base. */
static bool is_near(uint32_t base, number x, uint64_t *ret_delta)
{
    const weir_base *b = weir_base_at(base);
    uint64_t delta = x.lo - b->lo;
    if (x.hi - b->hi - (x.lo < b->lo) != 0 || delta > WEIR_DELTA_MAX)
        return false;
    *ret_delta = delta;
    return true;
}

static bool is_below(uint32_t base, number x)
{
    const weir_base *b = weir_base_at(base);
    return x.hi != b->hi ? x.hi < b->hi : x.lo < b->lo;
}

/* Finds or makes a base for x. A new base of a policy is always higher than the last one of its
 * epoch: otherwise states that alternate between low and high would use up the bases. Returns 0 if
 * there is none. */
static uint32_t base_for(weir_interned *s, number x, uint32_t epoch, uint64_t *ret_delta)
{
    uint32_t base = *weir_base_of(s, epoch);
    if (base > 0 && weir_base_at(base)->epoch == epoch) {
        if (is_near(base, x, ret_delta))
            return base;
        if (is_below(base, x))
            return 0;
    }
    uint64_t back = WEIR_DELTA_MAX / 2;
    if (x.hi == 0 && x.lo < back)
        back = x.lo;
    if (!weir_base_new(s, epoch, x.hi - (x.lo < back), x.lo - back))
        return 0;
    *ret_delta = back;
    return *weir_base_of(s, epoch);
}

/* Encodes a state inline. Reuses the base of `old` if that is near enough and has this epoch.
 * Returns 0 if the state must be stored on the heap. old  an inline state under the same policy,
 * which is replaced; or 0 */
static weir_value encode_inline(weir_value old, weir_interned *s, const uint64_t *state,
                                uint32_t epoch)
{
    number x = number_of(s, state);
    uint64_t delta;
    uint32_t base = old ? base_of(old) : 0;
    if (base == 0 || weir_base_at(base)->epoch != epoch || !is_near(base, x, &delta)) {
        base = base_for(s, x, epoch, &delta);
        if (base == 0)
            return 0;
        port_word_add_relaxed(&weir_base_at(base)->refs, 1);
        if (old)
            weir_base_unref(base_of(old));
    }
    return delta << DELTA_AT | (uint64_t)base << BASE_AT | INLINE;
}

static void decode_inline(weir_value v, weir_state_view *ret)
{
    const weir_base *b = weir_base_at(base_of(v));
    uint64_t lo = b->lo + (v >> DELTA_AT), hi = b->hi + (lo < b->lo);
    ret->interned = b->interned;
    ret->level = 0;
    ret->words = b->interned->small;
    ret->state = ret->small;
    ret->small[0] = ret->words == 2 ? hi : lo;
    ret->small[1] = lo;
}

static weir_heap_state *to_heap(weir_value v)
{
    weir_state_view view;
    decode_inline(v, &view);
    weir_heap_state *e = weir_heap_state_new(view.interned, 0, view.words);
    memcpy(e->state, view.state, view.words * sizeof e->state[0]);
    weir_base_unref(base_of(v));
    return e;
}

/* ---- values ---------------------------------------------------------------------------------- */

size_t weir_value_len(weir_value v)
{
    if (v == 0)
        return 0;
    return v & TAG ? 1 : list_of(v)->len;
}

uint32_t weir_value_epoch(weir_value v)
{
    if (is_inline(v))
        return weir_base_at(base_of(v))->epoch;
    return is_one(v) ? one_of(v)->epoch : WEIR_EPOCH_UNKNOWN;
}

weir_heap_state *weir_value_heap_state(weir_value v, size_t i)
{
    WEIR_ASSERT(i < weir_value_len(v));
    if (is_inline(v))
        return NULL;
    return is_one(v) ? one_of(v) : list_of(v)->state[i];
}

void weir_value_at(weir_value v, size_t i, weir_state_view *ret)
{
    if (is_inline(v)) {
        decode_inline(v, ret);
        return;
    }
    const weir_heap_state *e = weir_value_heap_state(v, i);
    ret->interned = e->interned;
    ret->level = e->level;
    ret->words = e->words;
    ret->state = e->state;
}

size_t weir_value_find(weir_value v, const weir_interned *s)
{
    size_t len = weir_value_len(v);
    if (len > 0 && is_inline(v))
        return weir_base_at(base_of(v))->interned == s ? 0 : len;
    for (size_t i = 0; i < len; i++) {
        if (weir_value_heap_state(v, i)->interned == s)
            return i;
    }
    return len;
}

weir_value weir_value_put(weir_value v, size_t i, weir_interned *interned, unsigned level,
                          const uint64_t *state, size_t words, uint32_t epoch)
{
    size_t len = weir_value_len(v);
    WEIR_ASSERT(i < len || (i == len && len < WEIR_STATES_MAX));
    if (interned->small > 0 && (len == 0 || (len == 1 && i == 0))) {
        weir_value old = is_inline(v) && weir_base_at(base_of(v))->interned == interned ? v : 0;
        weir_value encoded = encode_inline(old, interned, state, epoch);
        if (encoded) {
            if (!old)
                weir_value_free(v);
            return encoded;
        }
    }
    weir_heap_state *e = i < len ? weir_value_heap_state(v, i) : NULL;
    if (!e || e->words != words || e->interned != interned) {
        e = weir_heap_state_new(interned, level, words);
        v = weir_value_put_heap_state(v, i, e);
    }
    e->level = level & UINT8_MAX;
    e->epoch = is_one(v) ? epoch : WEIR_EPOCH_UNKNOWN;
    memcpy(e->state, state, words * sizeof e->state[0]);
    return v;
}

weir_value weir_value_put_heap_state(weir_value v, size_t i, weir_heap_state *e)
{
    size_t len = weir_value_len(v);
    if (len == 0 || (len == 1 && i == 0)) {
        weir_value_free(v);
        return (weir_value)e + ONE;
    }
    if (i < len) {
        weir_heap_state_free(list_of(v)->state[i]);
        list_of(v)->state[i] = e;
        return v;
    }
    list *l =
        redis.Realloc(len > 1 ? list_of(v) : NULL, sizeof *l + (len + 1) * sizeof l->state[0]);
    if (len == 1)
        l->state[0] = is_inline(v) ? to_heap(v) : one_of(v);
    l->state[0]->epoch = WEIR_EPOCH_UNKNOWN;
    l->state[len] = e;
    l->len = len + 1;
    return (weir_value)l;
}

weir_value weir_value_drop(weir_value v, size_t i)
{
    WEIR_ASSERT(i < weir_value_len(v));
    if (v & TAG) {
        weir_value_free(v);
        return 0;
    }
    list *l = list_of(v);
    weir_heap_state_free(l->state[i]);
    memmove(l->state + i, l->state + i + 1, (--l->len - i) * sizeof l->state[0]);
    if (l->len > 1)
        return v;
    weir_heap_state *e = l->state[0];
    redis.Free(l);
    v = (weir_value)e + ONE;
    /* The state that is left may fit inline again. */
    return e->interned->small > 0
               ? weir_value_put(v, 0, e->interned, e->level, e->state, e->words, WEIR_EPOCH_UNKNOWN)
               : v;
}

void weir_value_free(weir_value v)
{
    if (v == 0)
        return;
    if (is_inline(v)) {
        weir_base_unref(base_of(v));
        return;
    }
    size_t len = weir_value_len(v);
    for (size_t i = 0; i < len; i++)
        weir_heap_state_free(weir_value_heap_state(v, i));
    if (!(v & TAG))
        redis.Free(list_of(v));
}

weir_value weir_value_copy(weir_value v)
{
    weir_value copy = 0;
    for (size_t i = 0; i < weir_value_len(v); i++) {
        weir_state_view at;
        weir_value_at(v, i, &at);
        copy =
            weir_value_put(copy, i, at.interned, at.level, at.state, at.words, WEIR_EPOCH_UNKNOWN);
    }
    return copy;
}

size_t weir_state_bytes_max(const weir_interned *s)
{
    size_t words = weir_state_words(&s->policy, WEIR_LEVEL_MAX);
    return (words < WEIR_STATE_WORDS_MAX ? words : WEIR_STATE_WORDS_MAX) * sizeof(uint64_t);
}

size_t weir_value_bytes(weir_value v)
{
    size_t len = weir_value_len(v), bytes = 0;
    if (is_inline(v))
        return 0;
    for (size_t i = 0; i < len; i++)
        bytes += redis.MallocSize(weir_value_heap_state(v, i));
    return bytes + (v & TAG ? 0 : redis.MallocSize(list_of(v)));
}
