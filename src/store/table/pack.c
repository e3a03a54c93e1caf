/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The encodings. f is the time at which the key is idle, stored in every entry. T is a state of two
 * words as one number. W is the period.
 *
 *     AS_TICKS     f = ceil(T / num), and a number below num: f*num - T
 *     AS_STEPS     f = ceil(T / rate) * W, and a number below rate: f/W*rate - T
 *     AS_PAIR      a window in two words: f = start + W, and the count
 *     AS_COUNTER   f = start + 2W, and both counts
 *     AS_WINDOW    an aligned window: f = start + W, and the count. State version 2 had it; it is
 *                  decoded only
 *
 * A block that is over is left out. States that do not fit, those with a block that is not over,
 * and all other formats are stored word by word, and f is a mark: see
 * store/state.h.
 *
 * The used share must be known without the policy. So a count is shifted left until the highest bit
 * of the limit is the highest bit of the field: the field's high bits then are about the share. The
 * number of AS_STEPS has a bit above it that says whether the key has used much. */

#include "store/table/pack.h"

#include "core/block.h"
#include "core/layer.h"
#include "core/wide.h"
#include "port/assert.h"
#include "store/state.h"
#include "store/table/word.h"

enum { SHORT_BITS = 32, LONG_BITS = 48, SHARE_BITS = 1 };

size_t weir_pack_words(const weir_policy *p)
{
    if (p->layers == 1) { /* the same answer as below, with less work */
        size_t first = weir_layer_words(p->layer, 0);
        bool small = first <= WEIR_ENTRY_WORDS;
        return small && first == weir_layer_words(p->layer, WEIR_LEVEL_MAX) ? first : 0;
    }
    size_t words = weir_state_words(p, 0);
    return words <= WEIR_ENTRY_WORDS && words == weir_state_words(p, WEIR_LEVEL_MAX) ? words : 0;
}

/* ---- encoding -------------------------------------------------------------------------------- */

typedef enum way { AS_WORDS, AS_TICKS, AS_STEPS, AS_PAIR, AS_COUNTER, AS_WINDOW } way;

static way way_of(const weir_policy *p)
{
    const weir_layer *l = p->layer;
    if (weir_pack_layers(p) != 1)
        return AS_WORDS;
    switch (l->format) {
    case WEIR_STATE_TAT_TICKS:
        return AS_TICKS;
    case WEIR_STATE_TAT_STEPS:
        return AS_STEPS;
    case WEIR_STATE_WINDOW_PAIR:
        return l->calendar == WEIR_ALIGNED || l->calendar == WEIR_FROM_FIRST ? AS_PAIR : AS_WORDS;
    case WEIR_STATE_COUNTER:
        return AS_COUNTER;
    case WEIR_STATE_WINDOW_WORD:
        return l->calendar == WEIR_ALIGNED ? AS_WINDOW : AS_WORDS;
    case WEIR_STATE_TAT_NS: /* always one word */
    case WEIR_STATE_LOG:
    case WEIR_STATE_SLICES:
    case WEIR_STATE_BLOCK: /* never alone */
    case WEIR_STATE_BLOCK_PAIR:
    case WEIR_STATE_LEASES:
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
    WEIR_ASSERT(*ret_rest < each);
    return true;
}

static void unpack_wide(uint64_t q, uint64_t rest, uint64_t each, uint64_t *ret_state)
{
    weir_wide t = weir_wide_sub(weir_wide_mul(q, each), (weir_wide){0, rest});
    ret_state[0] = t.hi;
    ret_state[1] = t.lo;
}

/* Stores a number, and a bit above it: whether the key has used much. Returns false if it does not
 * fit. */
static bool pack_share(uint64_t rest, unsigned used, packed *ret)
{
    uint64_t share = used > WEIR_CHEAP;
    ret->is_long = rest >> (SHORT_BITS - SHARE_BITS) != 0;
    ret->rest = rest | share << ((ret->is_long ? LONG_BITS : SHORT_BITS) - SHARE_BITS);
    return rest >> (LONG_BITS - SHARE_BITS) == 0;
}

static uint64_t unpack_share(const weir_bucket_entry *e)
{
    unsigned bits = (e->form == WEIR_FORM_SHORT ? SHORT_BITS : LONG_BITS) - SHARE_BITS;
    return e->words[0] & (((uint64_t)1 << bits) - 1);
}

/* The used share of a bucket that refills in steps. */
static unsigned steps_used(const weir_layer *l, const uint64_t *state, int64_t now_ns)
{
    weir_wide t = {state[0], state[1]};
    weir_wide clock = weir_wide_mul((uint64_t)(now_ns / l->period_ns), (uint64_t)l->rate);
    if (!weir_wide_less(clock, t))
        return 0;
    weir_wide backlog = weir_wide_sub(t, clock);
    bool within = backlog.hi == 0 && backlog.lo <= (uint64_t)l->limit;
    return weir_used_share(l->limit, within ? l->limit - (int64_t)backlog.lo : 0);
}

static bool pack_steps(const weir_layer *l, const uint64_t *state, int64_t now_ns, packed *ret)
{
    uint64_t steps, rest;
    if (!pack_wide(state, (uint64_t)l->rate, &steps, &rest) ||
        steps > (uint64_t)(INT64_MAX / l->period_ns))
        return false;
    ret->fresh_at_ns = (int64_t)steps * l->period_ns;
    return pack_share(rest, steps_used(l, state, now_ns), ret);
}

static bool pack_ticks(const weir_layer *l, const uint64_t *state, packed *ret)
{
    uint64_t ns;
    if (!pack_wide(state, l->num, &ns, &ret->rest) || ns > INT64_MAX)
        return false;
    ret->fresh_at_ns = (int64_t)ns;
    return true;
}

static unsigned limit_bits(const weir_layer *l)
{
    return 64 - (unsigned)__builtin_clzll((uint64_t)l->limit);
}

/* How far a count up to the limit can be shifted in a field of `bits` bits. */
static unsigned shift_in(const weir_layer *l, unsigned bits)
{
    return bits > limit_bits(l) ? bits - limit_bits(l) : 0;
}

/* Returns false for a count above the limit, which only a damaged state can have. */
static bool pack_count(const weir_layer *l, uint64_t count, packed *ret)
{
    unsigned shift = shift_in(l, SHORT_BITS);
    ret->rest = count << shift;
    return count >> (SHORT_BITS - shift) == 0;
}

static bool pack_pair(const weir_layer *l, const uint64_t *state, packed *ret)
{
    if (!in_time((int64_t)state[0]))
        return false;
    ret->fresh_at_ns = (int64_t)state[0] + l->period_ns;
    return pack_count(l, state[1], ret);
}

static bool pack_counter(const weir_layer *l, const uint64_t *state, packed *ret)
{
    uint64_t prev = (uint32_t)state[1], cur = state[1] >> 32;
    unsigned bits = SHORT_BITS / 2;
    ret->is_long = (prev | cur) >> (bits - shift_in(l, bits)) != 0;
    if (ret->is_long)
        bits = LONG_BITS / 2;
    unsigned shift = shift_in(l, bits);
    if (limit_bits(l) > LONG_BITS / 2 || !in_time((int64_t)state[0]) ||
        (int64_t)state[0] > INT64_MAX - 2 * l->period_ns || (prev | cur) >> (bits - shift) != 0)
        return false;
    ret->fresh_at_ns = (int64_t)state[0] + 2 * l->period_ns;
    ret->rest = (cur << bits | prev) << shift;
    return true;
}

static bool pack_by(way w, const weir_layer *l, const uint64_t *state, int64_t now_ns, packed *ret)
{
    switch (w) {
    case AS_TICKS:
        return pack_ticks(l, state, ret);
    case AS_STEPS:
        return pack_steps(l, state, now_ns, ret);
    case AS_PAIR:
        return pack_pair(l, state, ret);
    case AS_COUNTER:
        return pack_counter(l, state, ret);
    case AS_WINDOW:
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

/* Where the state of the second layer begins. */
static size_t second_at(const weir_policy *p)
{
    return weir_format_words(p->layer[0].format);
}

static bool pack_pair_of(const weir_policy *p, const uint64_t *state, int64_t now_ns,
                         weir_usage usage, weir_bucket_entry *ret)
{
    uint64_t words[2];
    if (!weir_word_encode(&p->layer[0], state, &words[0]) ||
        !weir_word_encode(&p->layer[1], state + second_at(p), &words[1]))
        return false;
    if (usage.fresh_after_ns < 0)
        usage = weir_usage_of(p, state, WEIR_LEVEL_MAX, now_ns);
    return weir_pair_encode(p, words, usage.used, ret);
}

/* Whether the policy has no block, or one that no decision will notice: those to come are made
 * WEIR_SEEN_STEP_NS before now_ns at the earliest. */
static bool is_block_over(const weir_policy *p, const uint64_t *state, int64_t now_ns)
{
    const weir_layer *block = &p->layer[p->layers - 1];
    int64_t from_ns = now_ns > WEIR_SEEN_STEP_NS ? now_ns - WEIR_SEEN_STEP_NS : 0;
    weir_decision d;
    if (!weir_layer_is_block(block))
        return true;
    state += weir_pack_words(p) - weir_format_words(block->format);
    weir_block_check(block, state, from_ns, 0, &d);
    return d.reset_after_ns == 0;
}

/* Encodes the layers beside the block. Returns false if they do not fit. */
static bool pack_compactly(const weir_policy *p, const uint64_t *state, int64_t now_ns,
                           weir_usage usage, weir_bucket_entry *ret)
{
    packed r = {0};
    uint64_t word;
    if (weir_pack_layers(p) == 1 && weir_word_encode(p->layer, state, &word)) {
        ret->form = WEIR_FORM_TIME;
        ret->fresh_at_ns = (int64_t)word;
        return true;
    }
    if (weir_pair_fits(p) && pack_pair_of(p, state, now_ns, usage, ret))
        return true;
    if (!pack_by(way_of(p), p->layer, state, now_ns, &r) || r.rest >> LONG_BITS != 0)
        return false;
    bool is_long = r.is_long || r.rest >> SHORT_BITS != 0;
    ret->form = is_long ? WEIR_FORM_LONG : WEIR_FORM_SHORT;
    ret->fresh_at_ns = r.fresh_at_ns;
    ret->words[0] = r.rest;
    return true;
}

void weir_pack(const weir_policy *p, const uint64_t *state, int64_t now_ns, weir_usage usage,
               weir_bucket_entry *ret)
{
    if (is_block_over(p, state, now_ns) && pack_compactly(p, state, now_ns, usage, ret))
        return;
    size_t words = weir_pack_words(p);
    WEIR_ASSERT(words >= 1 && words <= WEIR_ENTRY_WORDS);
    ret->form = form_of_words(words);
    ret->fresh_at_ns = weir_mark_of(p, state, WEIR_LEVEL_MAX, now_ns, usage);
    for (size_t i = 0; i < WEIR_ENTRY_WORDS; i++)
        ret->words[i] = i < words ? state[i] : 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static uint64_t unpack_count(const weir_layer *l, const weir_bucket_entry *e)
{
    return e->words[0] >> shift_in(l, SHORT_BITS);
}

static void unpack_counter(const weir_layer *l, const weir_bucket_entry *e, uint64_t *ret_state)
{
    unsigned bits = (e->form == WEIR_FORM_SHORT ? SHORT_BITS : LONG_BITS) / 2;
    uint64_t counts = e->words[0] >> shift_in(l, bits);
    uint64_t prev = counts & (((uint64_t)1 << bits) - 1), cur = counts >> bits;
    ret_state[0] = (uint64_t)(e->fresh_at_ns - 2 * l->period_ns);
    ret_state[1] = cur << 32 | prev;
}

static bool unpack_by(way w, const weir_layer *l, const weir_bucket_entry *e, uint64_t *ret_state)
{
    uint64_t fresh_at_ns = (uint64_t)e->fresh_at_ns, rest = e->words[0];
    switch (w) {
    case AS_TICKS:
        unpack_wide(fresh_at_ns, rest, l->num, ret_state);
        return rest < l->num;
    case AS_STEPS:
        rest = unpack_share(e);
        unpack_wide(fresh_at_ns / (uint64_t)l->period_ns, rest, (uint64_t)l->rate, ret_state);
        return rest < (uint64_t)l->rate;
    case AS_PAIR:
        ret_state[0] = fresh_at_ns - (uint64_t)l->period_ns;
        ret_state[1] = unpack_count(l, e);
        return true;
    case AS_COUNTER:
        unpack_counter(l, e, ret_state);
        return true;
    case AS_WINDOW:
        ret_state[0] = fresh_at_ns - (uint64_t)l->period_ns + unpack_count(l, e);
        return true;
    case AS_WORDS:
        break;
    }
    return false;
}

static bool unpack_pair_of(const weir_policy *p, const weir_bucket_entry *e, uint64_t *ret_state)
{
    uint64_t words[2];
    return weir_pair_decode(p, e, words) && weir_word_decode(&p->layer[0], words[0], ret_state) &&
           weir_word_decode(&p->layer[1], words[1], ret_state + second_at(p));
}

static bool unpack(const weir_policy *p, const weir_bucket_entry *e, size_t words,
                   uint64_t *ret_state)
{
    if (e->form == WEIR_FORM_TIME)
        return weir_pack_layers(p) == 1 &&
               weir_word_decode(p->layer, (uint64_t)e->fresh_at_ns, ret_state);
    if (e->form <= WEIR_FORM_ONE && weir_pair_fits(p))
        return unpack_pair_of(p, e, ret_state);
    if (e->form == WEIR_FORM_SHORT || e->form == WEIR_FORM_LONG)
        return e->fresh_at_ns >= 0 && unpack_by(way_of(p), p->layer, e, ret_state);
    for (size_t i = 0; i < words; i++)
        ret_state[i] = e->words[i];
    bool always_time = p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS;
    return !always_time && e->form == form_of_words(words) &&
           weir_state_sound(p, ret_state, WEIR_LEVEL_MAX);
}

bool weir_unpack(const weir_policy *p, const weir_bucket_entry *e,
                 uint64_t ret_state[WEIR_ENTRY_WORDS])
{
    size_t words = weir_pack_words(p);
    for (size_t i = 0; i < words; i++) /* also of a block that is left out */
        ret_state[i] = 0;
    bool is_one = unpack(p, e, words, ret_state);
    for (size_t i = 0; i < words && !is_one; i++)
        ret_state[i] = 0;
    return is_one;
}

/* ---- what an eviction forgives --------------------------------------------------------------- */

/* The classes of policies that are not in word.h. Those of sliding counters are CLASS_COUNTER plus
 * the number of bits by which the limit is longer than a count in the SHORT form, 5 at most. */
enum { CLASS_COUNTER = WEIR_CLASS_OTHER, CLASS_PAIR = 61, CLASS_COUNT, CLASS_SHARE };

static unsigned bits_over(const weir_layer *l)
{
    unsigned bits = limit_bits(l), max = CLASS_PAIR - CLASS_COUNTER - 1;
    unsigned over = bits > SHORT_BITS / 2 ? bits - SHORT_BITS / 2 : 0;
    return over < max ? over : max;
}

unsigned weir_pack_class(const weir_policy *p)
{
    const weir_layer *l = p->layer;
    if (weir_pack_layers(p) == 1 && weir_word_fits(l))
        return weir_word_class(l);
    if (weir_pair_fits(p))
        return CLASS_PAIR;
    switch (way_of(p)) {
    case AS_TICKS:
        return weir_time_class(l);
    case AS_PAIR:
        return CLASS_COUNT;
    case AS_COUNTER:
        return CLASS_COUNTER + bits_over(l);
    case AS_STEPS:
    case AS_WINDOW:
    case AS_WORDS: /* has forms of its own */
        break;
    }
    return CLASS_SHARE;
}

void weir_pack_former_classes(const weir_policy *p, unsigned ret[WEIR_FORMER_CLASSES])
{
    enum { COUNTER_OF_VERSION_2 = 41 };
    unsigned bits = limit_bits(p->layer), over = bits > SHORT_BITS / 2 ? bits - SHORT_BITS / 2 : 0;
    ret[0] = (COUNTER_OF_VERSION_2 + over) & WEIR_CLASS_MASK;
    ret[1] = CLASS_PAIR;
    ret[2] = CLASS_COUNT;
    ret[3] = CLASS_SHARE;
}

/* The high 8 bits of a field that ends below bit `end`, divided by 2^over. */
static unsigned high_bits(uint64_t rest, unsigned end, unsigned over)
{
    return ((unsigned)(rest >> (end - 8)) & 255) >> over;
}

/* The larger of both shares: without the period, it is not known which count is the current one. */
static unsigned counter_used(const weir_bucket_entry *e, unsigned over)
{
    unsigned bits = SHORT_BITS / 2;
    if (e->form == WEIR_FORM_LONG) {
        bits = LONG_BITS / 2;
        over = over > 8 ? over - 8 : 0;
    }
    unsigned cur = high_bits(e->words[0], 2 * bits, over);
    unsigned prev = high_bits(e->words[0], bits, over);
    return cur > prev ? cur : prev;
}

uint64_t weir_pack_rank(const weir_bucket_entry *e, int64_t now_ns)
{
    unsigned class = (unsigned)e->tag & WEIR_CLASS_MASK;
    unsigned bits = e->form == WEIR_FORM_SHORT ? SHORT_BITS : LONG_BITS, used;
    if (e->form == WEIR_FORM_TIME)
        return weir_word_rank(e->tag, (uint64_t)e->fresh_at_ns, now_ns);
    if (class == CLASS_PAIR && e->form <= WEIR_FORM_ONE)
        used = weir_pair_used(e);
    else if (e->form != WEIR_FORM_SHORT && e->form != WEIR_FORM_LONG)
        used = weir_mark_used(e->fresh_at_ns);
    else if (class <= WEIR_CLASS_TIME_MAX)
        used = weir_time_used(class, e->fresh_at_ns - now_ns);
    else if (class < CLASS_COUNT)
        used = counter_used(e, class > CLASS_COUNTER ? class - CLASS_COUNTER : 0);
    else if (class == CLASS_SHARE)
        used = high_bits(e->words[0], bits, 0) & 128;
    else
        used = high_bits(e->words[0], bits, 0);
    return weir_rank(used, e->fresh_at_ns);
}
