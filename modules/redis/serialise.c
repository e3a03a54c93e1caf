/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialising and deserialising. A state that is read must be one that the core could have written:
 * weir_state_sound() checks it. */

#include "value.h"

#include "abi.h"
#include "core/check.h"
#include "port/assert.h"

#include <string.h>

enum { VERSION = 1, WHOLE = 0, CHANGES = 1 };
enum { SET, PATCH, DROP };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_number(weir_buffer *out, uint64_t x, size_t bytes)
{
    uint8_t byte[8];
    for (size_t i = 0; i < 8; i++)
        byte[i] = (uint8_t)(x >> (8 * i));
    weir_buffer_append(out, byte, bytes);
}

/* There may be two million words: no loop over bytes. */
static void put_words(weir_buffer *out, const uint64_t *state, size_t words)
{
    if (!weir_buffer_reserve(out, words * 8))
        return;
    uint8_t *at = weir_buffer_tail(out);
    for (size_t k = 0; k < words; k++, at += 8) {
        uint64_t x = state[k];
        const uint8_t byte[8] = {(uint8_t)x,         (uint8_t)(x >> 8),  (uint8_t)(x >> 16),
                                 (uint8_t)(x >> 24), (uint8_t)(x >> 32), (uint8_t)(x >> 40),
                                 (uint8_t)(x >> 48), (uint8_t)(x >> 56)};
        memcpy(at, byte, 8);
    }
    weir_buffer_added(out, words * 8);
}

static void put_head(weir_buffer *out, uint8_t form, size_t items)
{
    put_number(out, VERSION | (uint64_t)form << 8 | (uint64_t)items << 16, 4);
}

void weir_serialise_set(weir_buffer *out, size_t i, const weir_state_view *view)
{
    const weir_interned *s = view->interned;
    put_number(out, SET | (uint64_t)i << 8, 3);
    put_number(out,
               view->level | (uint64_t)s->name_len << 8 | (uint64_t)s->text_len << 16 |
                   (uint64_t)view->words << 32,
               8);
    weir_buffer_append(out, weir_interned_name(s), s->name_len);
    weir_buffer_append(out, weir_interned_text(s), s->text_len);
    put_words(out, view->state, view->words);
}

void weir_serialise_value(weir_buffer *out, weir_value v)
{
    size_t len = weir_value_len(v);
    put_head(out, WHOLE, len);
    for (size_t i = 0; i < len; i++) {
        weir_state_view view;
        weir_value_at(v, i, &view);
        weir_serialise_set(out, i, &view);
    }
}

void weir_serialise_changes(weir_buffer *out, size_t items)
{
    put_head(out, CHANGES, items);
}

void weir_serialise_patch(weir_buffer *out, size_t i, const uint64_t *state, const uint32_t *word,
                          size_t words)
{
    put_number(out, PATCH | (uint64_t)i << 8, 3);
    put_number(out, words, 4);
    for (size_t k = 0; k < words; k++) {
        put_number(out, word[k], 4);
        put_number(out, state[word[k]], 8);
    }
}

void weir_serialise_drop(weir_buffer *out, size_t i)
{
    put_number(out, DROP | (uint64_t)i << 8, 3);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
} reader;

static const uint8_t *take_bytes(reader *r, size_t n)
{
    const uint8_t *at = r->at;
    if (n > r->left) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

static uint64_t take_number(reader *r, size_t bytes)
{
    const uint8_t *at = take_bytes(r, bytes);
    uint64_t x = 0;
    for (size_t i = 0; at && i < bytes; i++)
        x |= (uint64_t)at[i] << (8 * i);
    return x;
}

static void take_words(reader *r, uint64_t *state, size_t words)
{
    const uint8_t *at = take_bytes(r, words * 8);
    for (size_t k = 0; at && k < words; k++, at += 8)
        state[k] = (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
                   (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 |
                   (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

/* Whether the value still fits into one payload with a state under policy `s`, even if all states
 * grow to their maximum. */
static bool can_grow(weir_value v, const weir_interned *s)
{
    size_t bytes = weir_state_bytes_max(s);
    for (size_t i = 0; i < weir_value_len(v); i++) {
        weir_state_view view;
        weir_value_at(v, i, &view);
        bytes += weir_state_bytes_max(view.interned);
    }
    return bytes <= WEIR_VALUE_BYTES_MAX;
}

static weir_status read_set(reader *r, size_t i, weir_value *v)
{
    enum { FEW = 16 };
    unsigned level = (unsigned)take_number(r, 1);
    size_t name_len = take_number(r, 1), text_len = take_number(r, 2), words = take_number(r, 4);
    const char *name = (const char *)take_bytes(r, name_len);
    const char *text = (const char *)take_bytes(r, text_len);
    weir_interned *s;
    if (i > weir_value_len(*v) || i >= WEIR_STATES_MAX || level > WEIR_LEVEL_MAX ||
        words > WEIR_STATE_WORDS_MAX)
        return WEIR_E_SYNTAX;
    weir_status st = weir_intern_stored(name, name_len, text, text_len, &s);
    if (st != WEIR_OK)
        return st;
    size_t found = weir_value_find(*v, s);
    /* A level at which the state does not grow is not one that it can have reached. */
    bool reached = level == 0 || weir_state_words(&s->policy, level - 1) < words;
    bool is_new = found == weir_value_len(*v); /* it may replace the state of another policy */
    if (words != weir_state_words(&s->policy, level) || !reached || (found != i && !is_new) ||
        (is_new && !can_grow(*v, s)))
        return WEIR_E_SYNTAX;
    uint64_t few[FEW], *state = words <= FEW ? few : redis.Alloc(words * sizeof *state);
    take_words(r, state, words);
    bool sound = weir_state_sound(&s->policy, state, level);
    if (sound)
        *v = weir_value_put(*v, i, s, level, state, words, WEIR_EPOCH_UNKNOWN);
    if (state != few)
        redis.Free(state);
    return sound ? WEIR_OK : WEIR_E_SYNTAX;
}

static weir_status read_patch(reader *r, size_t i, weir_value v)
{
    weir_heap_state *e = i < weir_value_len(v) ? weir_value_heap_state(v, i) : NULL;
    size_t n = take_number(r, 4), done = 0;
    if (!e)
        return WEIR_E_SYNTAX;
    struct {
        size_t word;
        uint64_t before;
    } *undo = redis.Alloc(n * sizeof *undo + 1);
    for (; done < n; done++) {
        size_t word = take_number(r, 4);
        if (word >= e->words)
            break;
        undo[done].word = word;
        undo[done].before = e->state[word];
        e->state[word] = take_number(r, 8);
    }
    bool good = done == n && weir_state_sound(&e->interned->policy, e->state, e->level);
    while (!good && done-- > 0)
        e->state[undo[done].word] = undo[done].before;
    redis.Free(undo);
    if (good)
        e->epoch = WEIR_EPOCH_UNKNOWN;
    return good ? WEIR_OK : WEIR_E_SYNTAX;
}

/* Reads an item that are_items() has accepted, so its bytes are there. */
static weir_status read_item(reader *r, bool all, size_t k, weir_value *v)
{
    unsigned what = (unsigned)take_number(r, 1);
    size_t i = take_number(r, 2);
    if (all && (what != SET || i != k))
        return WEIR_E_SYNTAX;
    if (what == SET)
        return read_set(r, i, v);
    if (what == PATCH)
        return read_patch(r, i, *v);
    if (what != DROP || i >= weir_value_len(*v))
        return WEIR_E_SYNTAX;
    *v = weir_value_drop(*v, i);
    return WEIR_OK;
}

/* Whether the bytes consist of exactly `items` items. Does not check their contents. */
static bool are_items(reader r, size_t items)
{
    for (size_t k = 0; k < items && !r.bad; k++) {
        unsigned what = (unsigned)take_number(&r, 1);
        take_number(&r, 2);
        if (what == SET) {
            take_number(&r, 1);
            size_t name_len = take_number(&r, 1), text_len = take_number(&r, 2);
            take_bytes(&r, take_number(&r, 4) * 8 + name_len + text_len);
        } else if (what == PATCH) {
            take_bytes(&r, take_number(&r, 4) * 12);
        }
    }
    return !r.bad && r.left == 0;
}

/* Most changes are one patch of a long state, which is applied in place: it succeeds or leaves the
 * state unchanged. Several changes are applied to a copy. */
weir_status weir_deserialise(const uint8_t *bytes, size_t len, weir_value *v)
{
    reader r = {bytes, len, len > WEIR_SERIALISED_MAX};
    uint64_t version = take_number(&r, 1), form = take_number(&r, 1);
    size_t items = take_number(&r, 2);
    if (r.bad || version != VERSION || form > CHANGES || items == 0 ||
        (form == WHOLE && items > WEIR_STATES_MAX) || !are_items(r, items))
        return WEIR_E_SYNTAX;
    bool in_place = form == CHANGES && items == 1;
    weir_value old = *v, made = form == WHOLE ? 0 : in_place ? old : weir_value_copy(old);
    weir_status st = WEIR_OK;
    for (size_t k = 0; k < items && st == WEIR_OK; k++)
        st = read_item(&r, form == WHOLE, k, &made);
    WEIR_ASSERT(!r.bad);
    if (!in_place)
        weir_value_free(st == WEIR_OK ? old : made);
    if (st == WEIR_OK)
        *v = made;
    return st;
}
