/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The encodings. f is the time at which the key is idle, stored in every entry. T is a state of two
 * words as one number. W is the period.
 *
 *     AS_TICKS     f = ceil(T / num), and a number below num: f*num - T
 *     AS_STEPS     f = ceil(T / rate) * W, and a number below rate: f/W*rate - T
 *     AS_WINDOW    an aligned window: f = start + W, and the count
 *     AS_PAIR      a window in two words: f = start + W, and the count
 *     AS_COUNTER   f = start + 2W, and both counts
 *     AS_TATS      two TATs: f = the later one, the lag of the other, and a bit: which is later
 *
 * States that do not fit, and all other formats, are stored word by word. */

#include "store/table/pack.h"

#include "core/algorithm.h"
#include "core/wide.h"
#include "store/state.h"

enum { SHORT_BITS = 32, LONG_BITS = 48, COUNT_BITS = 24, LAG_BITS = 47 };

size_t weir_pack_words(const weir_policy *p)
{
    if (p->layers == 1) { /* the same answer as below, with less work */
        size_t fixed = weir_format_words(p->layer[0].format);
        if (fixed > 0)
            return fixed;
    }
    size_t words = weir_state_words(p, WEIR_LEVEL_MAX);
    return words <= WEIR_ENTRY_WORDS && words == weir_state_words(p, 0) ? words : 0;
}

/* ---- encoding -------------------------------------------------------------------------------- */

typedef enum way {
    AS_WORDS,
    AS_TIME,
    AS_TICKS,
    AS_STEPS,
    AS_WINDOW,
    AS_PAIR,
    AS_COUNTER,
    AS_TATS
} way;

static way way_of(const weir_policy *p)
{
    const weir_layer *l = p->layer;
    if (p->layers == 2 && l[0].format == WEIR_STATE_TAT_NS && l[1].format == WEIR_STATE_TAT_NS)
        return AS_TATS;
    if (p->layers != 1)
        return AS_WORDS;
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
        return AS_TIME;
    case WEIR_STATE_TAT_TICKS:
        return AS_TICKS;
    case WEIR_STATE_TAT_STEPS:
        return AS_STEPS;
    case WEIR_STATE_WINDOW_WORD:
        return l->calendar == WEIR_ALIGNED ? AS_WINDOW : AS_WORDS;
    case WEIR_STATE_WINDOW_PAIR:
        return l->calendar == WEIR_ALIGNED || l->calendar == WEIR_FROM_FIRST ? AS_PAIR : AS_WORDS;
    case WEIR_STATE_COUNTER:
        return AS_COUNTER;
    case WEIR_STATE_LOG:
    case WEIR_STATE_SLICES:
        break;
    }
    return AS_WORDS;
}

/* An encoded state. */
typedef struct packed {
    int64_t fresh_at_ns;
    uint64_t rest;
    bool is_long; /* use the LONG form even if `rest` is small */
} packed;

static bool in_time(int64_t t_ns)
{
    return t_ns >= 0 && t_ns <= WEIR_NOW_NS_MAX;
}

/* T = each * q - rest, with rest < each. Returns false if it does not fit. */
static bool pack_wide(const uint64_t *state, uint64_t each, uint64_t *ret_q, uint64_t *ret_rest)
{
    weir_wide t = {state[0], state[1]};
    if (t.hi >= each) /* the quotient does not fit in 64 bits: the state is damaged */
        return false;
    *ret_q = weir_wide_div_ceil(t, each);
    *ret_rest = weir_wide_sub(weir_wide_mul(*ret_q, each), t).lo;
    return true;
}

static void unpack_wide(uint64_t q, uint64_t rest, uint64_t each, uint64_t *ret_state)
{
    weir_wide t = weir_wide_sub(weir_wide_mul(q, each), (weir_wide){0, rest});
    ret_state[0] = t.hi;
    ret_state[1] = t.lo;
}

static bool pack_steps(const weir_layer *l, const uint64_t *state, packed *ret)
{
    uint64_t steps;
    if (!pack_wide(state, (uint64_t)l->rate, &steps, &ret->rest) ||
        steps > (uint64_t)(INT64_MAX / l->period_ns))
        return false;
    ret->fresh_at_ns = (int64_t)steps * l->period_ns;
    return true;
}

static bool pack_ticks(const weir_layer *l, const uint64_t *state, packed *ret)
{
    uint64_t ns;
    if (!pack_wide(state, l->num, &ns, &ret->rest) || ns > INT64_MAX)
        return false;
    ret->fresh_at_ns = (int64_t)ns;
    return true;
}

static bool pack_window(const weir_layer *l, const uint64_t *state, packed *ret)
{
    int64_t word = (int64_t)state[0];
    if (!in_time(word))
        return false;
    ret->rest = (uint64_t)(word % l->period_ns);
    ret->fresh_at_ns = word - (int64_t)ret->rest + l->period_ns;
    return true;
}

static bool pack_pair(const weir_layer *l, const uint64_t *state, packed *ret)
{
    if (!in_time((int64_t)state[0]))
        return false;
    ret->fresh_at_ns = (int64_t)state[0] + l->period_ns;
    ret->rest = state[1];
    return true;
}

static bool pack_counter(const weir_layer *l, const uint64_t *state, packed *ret)
{
    uint64_t prev = (uint32_t)state[1], cur = state[1] >> 32;
    if (!in_time((int64_t)state[0]) || (int64_t)state[0] > INT64_MAX - 2 * l->period_ns ||
        (prev | cur) >> COUNT_BITS != 0)
        return false;
    ret->is_long = (prev | cur) >> (SHORT_BITS / 2) != 0;
    ret->fresh_at_ns = (int64_t)state[0] + 2 * l->period_ns;
    ret->rest = cur << (ret->is_long ? COUNT_BITS : SHORT_BITS / 2) | prev;
    return true;
}

static bool pack_tats(const uint64_t *state, packed *ret)
{
    bool second = state[1] > state[0];
    uint64_t late = state[second], lag = late - state[!second];
    if (late > INT64_MAX || lag >> LAG_BITS != 0)
        return false;
    ret->fresh_at_ns = (int64_t)late;
    ret->rest = lag << 1 | second;
    return true;
}

static bool pack_by(way w, const weir_layer *l, const uint64_t *state, packed *ret)
{
    switch (w) {
    case AS_TIME:
        ret->fresh_at_ns = (int64_t)state[0];
        return true;
    case AS_TICKS:
        return pack_ticks(l, state, ret);
    case AS_STEPS:
        return pack_steps(l, state, ret);
    case AS_WINDOW:
        return pack_window(l, state, ret);
    case AS_PAIR:
        return pack_pair(l, state, ret);
    case AS_COUNTER:
        return pack_counter(l, state, ret);
    case AS_TATS:
        return pack_tats(state, ret);
    case AS_WORDS:
        break;
    }
    return false;
}

/* The form of a state that is stored word by word. */
static weir_form form_of_words(size_t words)
{
    return words == 1   ? WEIR_FORM_ONE
           : words == 2 ? WEIR_FORM_TWO
           : words == 3 ? WEIR_FORM_THREE
                        : WEIR_FORM_FIVE;
}

void weir_pack(const weir_policy *p, const uint64_t *state, int64_t now_ns, int64_t after_ns,
               weir_bucket_entry *ret)
{
    packed r = {0};
    way w = way_of(p);
    if (pack_by(w, p->layer, state, &r) && r.rest >> LONG_BITS == 0) {
        bool is_long = r.is_long || r.rest >> SHORT_BITS != 0;
        ret->form = w == AS_TIME ? WEIR_FORM_TIME : is_long ? WEIR_FORM_LONG : WEIR_FORM_SHORT;
        ret->fresh_at_ns = r.fresh_at_ns;
        ret->words[0] = r.rest;
        return;
    }
    size_t words = weir_pack_words(p);
    ret->form = form_of_words(words);
    ret->fresh_at_ns = weir_fresh_at(p, state, WEIR_LEVEL_MAX, now_ns, after_ns);
    for (size_t i = 0; i < WEIR_ENTRY_WORDS; i++)
        ret->words[i] = i < words ? state[i] : 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static bool unpack_counter(const weir_layer *l, const weir_bucket_entry *e, uint64_t *ret_state)
{
    unsigned bits = e->form == WEIR_FORM_SHORT ? SHORT_BITS / 2 : COUNT_BITS;
    uint64_t prev = e->words[0] & (((uint64_t)1 << bits) - 1), cur = e->words[0] >> bits;
    ret_state[0] = (uint64_t)(e->fresh_at_ns - 2 * l->period_ns);
    ret_state[1] = cur << 32 | prev;
    return true;
}

static bool unpack_by(way w, const weir_layer *l, const weir_bucket_entry *e, uint64_t *ret_state)
{
    uint64_t fresh_at_ns = (uint64_t)e->fresh_at_ns, rest = e->words[0];
    switch (w) {
    case AS_TICKS:
        unpack_wide(fresh_at_ns, rest, l->num, ret_state);
        return rest < l->num;
    case AS_STEPS:
        unpack_wide(fresh_at_ns / (uint64_t)l->period_ns, rest, (uint64_t)l->rate, ret_state);
        return rest < (uint64_t)l->rate;
    case AS_WINDOW:
        ret_state[0] = fresh_at_ns - (uint64_t)l->period_ns + rest;
        return true;
    case AS_PAIR:
        ret_state[0] = fresh_at_ns - (uint64_t)l->period_ns;
        ret_state[1] = rest;
        return true;
    case AS_COUNTER:
        return unpack_counter(l, e, ret_state);
    case AS_TATS:
        ret_state[rest & 1] = fresh_at_ns;
        ret_state[!(rest & 1)] = fresh_at_ns - (rest >> 1);
        return true;
    case AS_TIME: /* has a form of its own */
    case AS_WORDS:
        break;
    }
    return false;
}

static bool unpack(const weir_policy *p, const weir_bucket_entry *e, size_t words,
                   uint64_t *ret_state)
{
    way w = way_of(p);
    if (e->form == WEIR_FORM_TIME) {
        ret_state[0] = (uint64_t)e->fresh_at_ns;
        return w == AS_TIME;
    }
    if (e->form == WEIR_FORM_SHORT || e->form == WEIR_FORM_LONG)
        return e->fresh_at_ns >= 0 && unpack_by(w, p->layer, e, ret_state);
    for (size_t i = 0; i < words; i++)
        ret_state[i] = e->words[i];
    return w != AS_TIME && e->form == form_of_words(words);
}

bool weir_unpack(const weir_policy *p, const weir_bucket_entry *e,
                 uint64_t ret_state[WEIR_ENTRY_WORDS])
{
    size_t words = weir_pack_words(p);
    bool is_one = unpack(p, e, words, ret_state);
    for (size_t i = 0; i < words && !is_one; i++)
        ret_state[i] = 0;
    return is_one;
}
