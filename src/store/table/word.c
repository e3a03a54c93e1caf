/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */

#include "store/table/word.h"

#include "core/gcra.h"
#include "core/wide.h"
#include "core/windows.h"
#include "port/assert.h"

/* The sizes of a count, in bits: 8, 12 .. 32 for fixed windows, 8, 10 .. 20 for each of the two
 * counts of a sliding counter. */
enum {
    BITS_MIN = 8,
    WINDOW_BITS_MAX = 32,
    CALENDAR_BITS_MAX = 28, /* a calendar window is longer than WEIR_LIMIT_MAX ns, which is 2^31 */
    WINDOW_STEP = 4,
    COUNTER_BITS_MAX = 20,
    COUNTER_STEP = 2
};

/* ---- windows --------------------------------------------------------------------------------- */

/* How the low bits of a word are divided. */
typedef struct shape {
    unsigned bits;  /* all of them; 0: the states do not fit in a word */
    unsigned count; /* those of one count */
    unsigned shift; /* how far a count is shifted left in them */
    bool is_counter;
} shape;

static inline unsigned limit_bits(const weir_layer *l)
{
    WEIR_ASSERT(l->limit >= 1);
    return 64 - (unsigned)__builtin_clzll((uint64_t)l->limit);
}

/* The smallest size of a count that holds the limit. */
static inline unsigned count_bits(unsigned limit, unsigned step)
{
    return limit > BITS_MIN ? (limit + step - 1) / step * step : BITS_MIN;
}

static inline shape window_shape(const weir_layer *l)
{
    unsigned limit = limit_bits(l), count = count_bits(limit, WINDOW_STEP);
    bool fits = l->window ? count <= CALENDAR_BITS_MAX
                          : count <= WINDOW_BITS_MAX && l->period_ns >> count != 0;
    return (shape){fits ? count : 0, count, count - limit, false};
}

static inline shape counter_shape(const weir_layer *l)
{
    unsigned limit = limit_bits(l), count = count_bits(limit, COUNTER_STEP);
    bool fits = count <= COUNTER_BITS_MAX && l->period_ns >> 2 * count != 0;
    return (shape){fits ? 2 * count : 0, count, count - limit, true};
}

static shape shape_of(const weir_layer *l)
{
    if (l->format == WEIR_STATE_WINDOW_WORD)
        return window_shape(l);
    return l->format == WEIR_STATE_COUNTER ? counter_shape(l) : (shape){0};
}

/* What a word holds: the idle time, rounded up, and the counts. */
typedef struct parts {
    uint64_t base;
    uint64_t cur, prev; /* prev is 0 for a fixed window */
} parts;

static inline uint64_t round_up(int64_t t_ns, unsigned bits)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    return ((uint64_t)t_ns + mask) & ~mask;
}

static inline uint64_t low(uint64_t x, unsigned bits)
{
    return x & (((uint64_t)1 << bits) - 1);
}

/* Returns false if a count does not fit, or if the time is too late. */
static inline bool join(shape s, const parts *p, uint64_t *ret_word)
{
    uint64_t counts = s.is_counter ? p->cur << s.count | p->prev : p->cur;
    *ret_word = p->base | counts << s.shift;
    return (p->cur | p->prev) >> (s.count - s.shift) == 0 && p->base <= WEIR_NOW_NS_MAX;
}

static inline parts split(shape s, uint64_t word)
{
    uint64_t counts = low(word, s.bits), base = word - counts;
    if (!s.is_counter)
        return (parts){base, counts >> s.shift, 0};
    return (parts){base, counts >> (s.count + s.shift), low(counts, s.count) >> s.shift};
}

static inline weir_span span_at(const weir_layer *l, int64_t t_ns)
{
    if (l->window)
        return l->window(l->zone, l->calendar, l->anchor, t_ns);
    int64_t start_ns = t_ns - t_ns % l->period_ns;
    return (weir_span){start_ns, start_ns + l->period_ns};
}

static bool in_time(int64_t t_ns)
{
    return t_ns >= 0 && t_ns <= WEIR_NOW_NS_MAX;
}

static bool encode_window(const weir_layer *l, const uint64_t *state, uint64_t *ret_word)
{
    parts p = {0};
    int64_t at_ns = (int64_t)state[0];
    shape s = shape_of(l);
    if (s.bits == 0 || !in_time(at_ns))
        return false;
    if (s.is_counter) {
        if (at_ns > INT64_MAX - 2 * l->period_ns || at_ns % l->period_ns != 0)
            return false;
        p = (parts){round_up(at_ns + 2 * l->period_ns, s.bits), state[1] >> 32, (uint32_t)state[1]};
    } else {
        weir_span span = span_at(l, at_ns);
        p = (parts){round_up(span.end_ns, s.bits), (uint64_t)(at_ns - span.start_ns), 0};
    }
    return join(s, &p, ret_word);
}

static bool decode_window(const weir_layer *l, uint64_t word, uint64_t *ret_state)
{
    shape s = shape_of(l);
    parts p = split(s, word);
    if (s.bits == 0 || p.base == 0 || p.base > WEIR_NOW_NS_MAX)
        return false;
    /* The last window that ends by `base`: no other ends within 2^bits ns before it. */
    int64_t before_ns = (int64_t)p.base - ((int64_t)1 << s.bits);
    weir_span span = span_at(l, before_ns);
    bool is_one = round_up(span.end_ns, s.bits) == p.base;
    if (s.is_counter) {
        ret_state[0] = (uint64_t)(span.end_ns - 2 * l->period_ns);
        ret_state[1] = p.cur << 32 | p.prev;
        return is_one && span.end_ns >= 2 * l->period_ns;
    }
    WEIR_ASSERT((int64_t)p.cur < span.end_ns - span.start_ns);
    ret_state[0] = (uint64_t)span.start_ns + p.cur;
    return is_one;
}

/* The last time at which the functions below decide, in 2116: no sum reaches WEIR_NOW_NS_MAX. */
#define TAKE_NS_MAX ((int64_t)4 << 60)

static bool take_window(const weir_layer *l, uint64_t *word, int64_t now_ns, int64_t cost,
                        weir_decision *ret)
{
    shape s = window_shape(l);
    if (s.bits == 0 || now_ns > TAKE_NS_MAX)
        return false;
    weir_span span = span_at(l, now_ns);
    uint64_t base = round_up(span.end_ns, s.bits), counts = low(*word, s.bits);
    uint64_t count = *word - counts == base ? counts >> s.shift : 0;
    WEIR_ASSERT((int64_t)count < span.end_ns - span.start_ns);
    if (*word - counts > base)
        return false;
    uint64_t state = (uint64_t)span.start_ns + count, old = state;
    weir_window_check(l, &state, now_ns, cost, l->count_denied, ret);
    if (state != old)
        *word = base | (state - (uint64_t)span.start_ns) << s.shift;
    return true;
}

static bool take_counter(const weir_layer *l, uint64_t *word, int64_t now_ns, int64_t cost,
                         weir_decision *ret)
{
    shape s = counter_shape(l);
    if (s.bits == 0 || now_ns > TAKE_NS_MAX)
        return false;
    int64_t period_ns = l->period_ns, start_ns = now_ns - now_ns % period_ns;
    uint64_t base = round_up(start_ns + 2 * period_ns, s.bits);
    uint64_t counts = low(*word, s.bits) >> s.shift, before = *word - low(*word, s.bits);
    uint64_t pair = counts >> s.count << 32 | low(counts, s.count);
    uint64_t state[2] = {(uint64_t)start_ns, pair};
    if (before > base)
        return false;
    if (before == round_up(start_ns + period_ns, s.bits))
        state[0] -= (uint64_t)period_ns;
    else if (before != base)
        state[1] = pair = 0;
    uint64_t old_start = state[0];
    weir_counter_check(l, state, now_ns, cost, ret);
    if (state[0] != old_start || state[1] != pair)
        *word = base | ((state[1] >> 32) << s.count | (uint32_t)state[1]) << s.shift;
    return true;
}

static unsigned window_used(unsigned class, uint64_t word)
{
    if (class < WEIR_CLASS_COUNTER)
        return word >> (class - WEIR_CLASS_WINDOW) * WINDOW_STEP & UINT8_MAX;
    /* The larger of both: without the period, it is not known which count is the current one. */
    unsigned prev_at = (class - WEIR_CLASS_COUNTER) * COUNTER_STEP;
    unsigned prev = word >> prev_at & UINT8_MAX;
    unsigned cur = word >> (2 * prev_at + BITS_MIN) & UINT8_MAX;
    return cur > prev ? cur : prev;
}

/* ---- ticks ----------------------------------------------------------------------------------- */

enum { NUM_MAX = 1 << WEIR_TICKS_REST_BITS };

static bool is_small(const weir_layer *l)
{
    return l->num <= NUM_MAX && l->cap_hi == 0 && l->cap_lo >> 62 == 0;
}

/* TAT = f - rest / num ns, with rest < num. */
static inline bool join_ticks(int64_t f_ns, uint64_t rest, uint64_t *ret_word)
{
    uint64_t since_ns = (uint64_t)f_ns - (uint64_t)WEIR_TICKS_EPOCH_NS;
    *ret_word = WEIR_TICKS | since_ns << WEIR_TICKS_REST_BITS | rest;
    return f_ns >= WEIR_TICKS_EPOCH_NS && since_ns >> (63 - WEIR_TICKS_REST_BITS) == 0;
}

static inline uint64_t rest_of(uint64_t word)
{
    return low(word, WEIR_TICKS_REST_BITS);
}

static bool encode_ticks(const weir_layer *l, const uint64_t *state, uint64_t *ret_word)
{
    weir_wide t = {state[0], state[1]};
    if (!is_small(l) || t.hi >= l->num)
        return false;
    uint64_t f_ns = weir_wide_div_ceil(t, l->num);
    uint64_t rest = weir_wide_sub(weir_wide_mul(f_ns, l->num), t).lo;
    return f_ns <= INT64_MAX && join_ticks((int64_t)f_ns, rest, ret_word);
}

static bool decode_ticks(const weir_layer *l, uint64_t word, uint64_t *ret_state)
{
    uint64_t f_ns = (uint64_t)weir_word_time(word);
    weir_wide t = weir_wide_sub(weir_wide_mul(f_ns, l->num), (weir_wide){0, rest_of(word)});
    ret_state[0] = t.hi;
    ret_state[1] = t.lo;
    return word & WEIR_TICKS && is_small(l) && rest_of(word) < l->num;
}

static bool take_ticks(const weir_layer *l, uint64_t *word, int64_t now_ns, int64_t cost,
                       weir_decision *ret)
{
    int64_t f_ns = weir_word_time(*word);
    uint64_t rest = rest_of(*word);
    bool is_ours = *word == 0 || *word & WEIR_TICKS;
    if (!is_small(l) || !is_ours || rest >= l->num)
        return false;
    if (!weir_gcra_ticks_check(l, &f_ns, &rest, now_ns, cost, ret))
        return false;
    return !ret->allowed || cost == 0 || join_ticks(f_ns, rest, word);
}

/* ---- all formats ----------------------------------------------------------------------------- */

bool weir_word_fits(const weir_layer *l)
{
    return l->format == WEIR_STATE_TAT_NS ||
           (l->format == WEIR_STATE_TAT_TICKS ? is_small(l) : shape_of(l).bits != 0);
}

unsigned weir_time_class(const weir_layer *l)
{
    weir_wide cap = {l->cap_hi, l->cap_lo};
    /* The quota is full after cap / num ns, which is below 2^60. */
    uint64_t full_ns = cap.hi < l->num ? weir_wide_div_ceil(cap, l->num) : UINT64_MAX;
    unsigned bits = full_ns > 1 ? 64 - (unsigned)__builtin_clzll(full_ns - 1) : 0;
    unsigned class = bits > 20 ? bits - 20 : 0;
    return class < WEIR_CLASS_TIME_MAX ? class : WEIR_CLASS_TIME_MAX;
}

unsigned weir_word_class(const weir_layer *l)
{
    WEIR_ASSERT(weir_word_fits(l));
    if (l->format == WEIR_STATE_TAT_NS || l->format == WEIR_STATE_TAT_TICKS)
        return weir_time_class(l);
    shape s = shape_of(l);
    return s.is_counter ? WEIR_CLASS_COUNTER + (s.count - BITS_MIN) / COUNTER_STEP
                        : WEIR_CLASS_WINDOW + (s.count - BITS_MIN) / WINDOW_STEP;
}

bool weir_word_encode(const weir_layer *l, const uint64_t *state, uint64_t *ret_word)
{
    if (l->format == WEIR_STATE_TAT_NS) {
        *ret_word = state[0];
        return true;
    }
    return l->format == WEIR_STATE_TAT_TICKS ? encode_ticks(l, state, ret_word)
                                             : encode_window(l, state, ret_word);
}

bool weir_word_decode(const weir_layer *l, uint64_t word, uint64_t *ret_state)
{
    if (l->format == WEIR_STATE_TAT_NS) {
        ret_state[0] = word;
        return true;
    }
    return l->format == WEIR_STATE_TAT_TICKS ? decode_ticks(l, word, ret_state)
                                             : decode_window(l, word, ret_state);
}

bool weir_word_take(const weir_layer *l, uint64_t *word, int64_t now_ns, int64_t cost,
                    weir_decision *ret)
{
    ret->layer = 0;
    if (l->format == WEIR_STATE_TAT_NS) {
        weir_gcra_check(l, word, now_ns, cost, ret);
        return true;
    }
    switch (l->format) {
    case WEIR_STATE_TAT_TICKS:
        return take_ticks(l, word, now_ns, cost, ret);
    case WEIR_STATE_WINDOW_WORD:
        return take_window(l, word, now_ns, cost, ret);
    case WEIR_STATE_COUNTER:
        return take_counter(l, word, now_ns, cost, ret);
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
    case WEIR_STATE_TAT_NS: /* decided above */
    case WEIR_STATE_TAT_STEPS:
    case WEIR_STATE_WINDOW_PAIR:
    case WEIR_STATE_LOG:
    case WEIR_STATE_SLICES:
    case WEIR_STATE_LEASES:
        break;
    }
    return false;
}

uint64_t weir_word_rank(uint64_t tag, uint64_t word, int64_t now_ns)
{
    unsigned class = (unsigned)tag & WEIR_CLASS_MASK, used = 0;
    int64_t fresh_at_ns = weir_word_time(word);
    if (class <= WEIR_CLASS_TIME_MAX)
        used = weir_time_used(class, fresh_at_ns - now_ns);
    else if (class < WEIR_CLASS_OTHER)
        used = window_used(class, word);
    else /* the policy has an id of a former class: the share is unknown */
        used = WEIR_USED_MAX / 2 + 1;
    return weir_rank(used, fresh_at_ns);
}
