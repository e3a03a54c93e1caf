/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The three forms of a value, and how one becomes another. */

#include "value.h"

#include "abi.h"

#include <string.h>

enum { SMALL = 1, ONE = 2, FORM = 3 };
enum { SLOT_AT = 2, FAR_AT = SLOT_AT + WEIR_BASE_BITS };
_Static_assert(WEIR_DELTA_MAX == UINT64_MAX >> FAR_AT, "the bits that are left");
_Static_assert(sizeof(weir_value) == sizeof(uint64_t), "a state is told within one word");

typedef struct list {
    size_t len;
    weir_heap_state *entry[];
} list;

static bool is_small(weir_value v)
{
    return (v & FORM) == SMALL;
}

static bool is_one(weir_value v)
{
    return (v & FORM) == ONE;
}

static weir_heap_state *one_of(weir_value v)
{
    return (weir_heap_state *)(v - ONE);
}

static list *list_of(weir_value v)
{
    return (list *)v;
}

static uint32_t slot_of(weir_value v)
{
    return (uint32_t)(v >> SLOT_AT) & (WEIR_BASES_MAX - 1);
}

/* ---- entries --------------------------------------------------------------------------------- */

weir_heap_state *weir_heap_state_new(weir_interned *scope, unsigned level, size_t words)
{
    weir_heap_state *e = redis.Calloc(1, sizeof *e + words * sizeof e->state[0]);
    weir_interned_ref(scope);
    e->scope = scope;
    e->level = level;
    e->words = (uint32_t)words;
    return e;
}

void weir_heap_state_free(weir_heap_state *e)
{
    if (!e)
        return;
    weir_interned_unref(e->scope);
    redis.Free(e);
}

/* ---- small states ---------------------------------------------------------------------------- */

/* A state of one or two words, as one number of 128 bits. */
typedef struct number {
    uint64_t hi, lo;
} number;

static number number_of(const weir_interned *s, const uint64_t *state)
{
    return (number){s->small == 2 ? state[0] : 0, state[s->small - 1]};
}

/* Whether x is at a slot's base or behind it by what can be told. */
static bool is_near(uint32_t slot, number x, uint64_t *ret_far)
{
    const weir_base *s = weir_base_at(slot);
    uint64_t far = x.lo - s->base_lo;
    if (x.hi - s->base_hi - (x.lo < s->base_lo) != 0 || far > WEIR_DELTA_MAX)
        return false;
    *ret_far = far;
    return true;
}

static bool is_before(uint32_t slot, number x)
{
    const weir_base *s = weir_base_at(slot);
    return x.hi != s->base_hi ? x.hi < s->base_hi : x.lo < s->base_lo;
}

/* A slot of the scope for x. They only move on, so that no mix of states makes ever more of them.
 * 0: there is none. */
static uint32_t slot_for(weir_interned *s, number x, uint64_t *ret_far)
{
    if (s->slot && is_near(s->slot, x, ret_far))
        return s->slot;
    if (s->slot && is_before(s->slot, x))
        return 0;
    uint64_t back = WEIR_DELTA_MAX / 2;
    if (x.hi == 0 && x.lo < back)
        back = x.lo;
    if (!weir_base_new(s, x.hi - (x.lo < back), x.lo - back))
        return 0;
    *ret_far = back;
    return s->slot;
}

/* As `old`, a small state of the same scope or 0. Returns 0 if it must be an entry. */
static weir_value tell(weir_value old, weir_interned *s, const uint64_t *state)
{
    number x = number_of(s, state);
    uint64_t far;
    uint32_t slot = old ? slot_of(old) : 0;
    if (slot == 0 || !is_near(slot, x, &far)) {
        slot = slot_for(s, x, &far);
        if (slot == 0)
            return 0;
        port_word_add_relaxed(&weir_base_at(slot)->refs, 1);
        if (old)
            weir_base_unref(slot_of(old));
    }
    return far << FAR_AT | (uint64_t)slot << SLOT_AT | SMALL;
}

static void look_small(weir_value v, weir_state_view *ret)
{
    const weir_base *s = weir_base_at(slot_of(v));
    uint64_t lo = s->base_lo + (v >> FAR_AT), hi = s->base_hi + (lo < s->base_lo);
    ret->scope = s->scope;
    ret->level = 0;
    ret->words = s->scope->small;
    ret->state = ret->small;
    ret->small[0] = ret->words == 2 ? hi : lo;
    ret->small[1] = lo;
}

static weir_heap_state *to_entry(weir_value v)
{
    weir_state_view view;
    look_small(v, &view);
    weir_heap_state *e = weir_heap_state_new(view.scope, 0, view.words);
    memcpy(e->state, view.state, view.words * sizeof e->state[0]);
    weir_base_unref(slot_of(v));
    return e;
}

/* ---- values ---------------------------------------------------------------------------------- */

size_t weir_value_len(weir_value v)
{
    if (v == 0)
        return 0;
    return v & FORM ? 1 : list_of(v)->len;
}

weir_heap_state *weir_value_heap_state(weir_value v, size_t i)
{
    if (is_small(v))
        return NULL;
    return is_one(v) ? one_of(v) : list_of(v)->entry[i];
}

void weir_value_at(weir_value v, size_t i, weir_state_view *ret)
{
    if (is_small(v)) {
        look_small(v, ret);
        return;
    }
    const weir_heap_state *e = weir_value_heap_state(v, i);
    ret->scope = e->scope;
    ret->level = e->level;
    ret->words = e->words;
    ret->state = e->state;
}

size_t weir_value_find(weir_value v, const weir_interned *s)
{
    size_t len = weir_value_len(v);
    if (len > 0 && is_small(v))
        return weir_base_at(slot_of(v))->scope == s ? 0 : len;
    for (size_t i = 0; i < len; i++) {
        if (weir_value_heap_state(v, i)->scope == s)
            return i;
    }
    return len;
}

weir_value weir_value_put(weir_value v, size_t i, weir_interned *scope, unsigned level,
                          const uint64_t *state, size_t words)
{
    size_t len = weir_value_len(v);
    if (scope->small > 0 && (len == 0 || (len == 1 && i == 0))) {
        weir_value old = is_small(v) && weir_base_at(slot_of(v))->scope == scope ? v : 0;
        weir_value told = tell(old, scope, state);
        if (told) {
            if (!old)
                weir_value_free(v);
            return told;
        }
    }
    weir_heap_state *e = i < len ? weir_value_heap_state(v, i) : NULL;
    if (!e || e->words != words || e->scope != scope) {
        e = weir_heap_state_new(scope, level, words);
        v = weir_value_put_heap_state(v, i, e);
    }
    e->level = level;
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
        weir_heap_state_free(list_of(v)->entry[i]);
        list_of(v)->entry[i] = e;
        return v;
    }
    list *l =
        redis.Realloc(len > 1 ? list_of(v) : NULL, sizeof *l + (len + 1) * sizeof l->entry[0]);
    if (len == 1)
        l->entry[0] = is_small(v) ? to_entry(v) : one_of(v);
    l->entry[len] = e;
    l->len = len + 1;
    return (weir_value)l;
}

weir_value weir_value_drop(weir_value v, size_t i)
{
    if (v & FORM) {
        weir_value_free(v);
        return 0;
    }
    list *l = list_of(v);
    weir_heap_state_free(l->entry[i]);
    memmove(l->entry + i, l->entry + i + 1, (--l->len - i) * sizeof l->entry[0]);
    if (l->len > 1)
        return v;
    weir_heap_state *e = l->entry[0];
    redis.Free(l);
    v = (weir_value)e + ONE;
    /* What was in a list only for its company may be small again. */
    return e->scope->small > 0 ? weir_value_put(v, 0, e->scope, e->level, e->state, e->words) : v;
}

void weir_value_free(weir_value v)
{
    if (v == 0)
        return;
    if (is_small(v)) {
        weir_base_unref(slot_of(v));
        return;
    }
    size_t len = weir_value_len(v);
    for (size_t i = 0; i < len; i++)
        weir_heap_state_free(weir_value_heap_state(v, i));
    if (!(v & FORM))
        redis.Free(list_of(v));
}

weir_value weir_value_copy(weir_value v)
{
    weir_value copy = 0;
    for (size_t i = 0; i < weir_value_len(v); i++) {
        weir_state_view at;
        weir_value_at(v, i, &at);
        copy = weir_value_put(copy, i, at.scope, at.level, at.state, at.words);
    }
    return copy;
}

size_t weir_bytes_most(const weir_interned *s)
{
    size_t words = weir_state_words(&s->policy, WEIR_LEVEL_MAX);
    return (words < WEIR_STATE_WORDS_MAX ? words : WEIR_STATE_WORDS_MAX) * sizeof(uint64_t);
}

size_t weir_value_bytes(weir_value v)
{
    size_t len = weir_value_len(v), bytes = 0;
    if (len == 0 || is_small(v))
        return 0;
    for (size_t i = 0; i < len; i++)
        bytes += redis.MallocSize(weir_value_heap_state(v, i));
    return bytes + (v & FORM ? 0 : redis.MallocSize(list_of(v)));
}
