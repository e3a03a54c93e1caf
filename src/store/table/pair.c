/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */

#include "store/table/pack.h"

#include "port/assert.h"

/* The highest bit of the number in an entry is the share. In the form ONE, it is bit 62. */
enum { SHORT_BITS = 32, LONG_BITS = 48, SHARE = 62, SECOND = 63 };

static bool fits(const weir_layer *l)
{
    return l->format != WEIR_STATE_TAT_TICKS && weir_word_fits(l);
}

bool weir_pair_fits(const weir_policy *p)
{
    return weir_pack_layers(p) == 2 && fits(&p->layer[0]) && fits(&p->layer[1]);
}

static inline bool are_tats(const weir_policy *p)
{
    return p->layer[0].format == WEIR_STATE_TAT_NS && p->layer[1].format == WEIR_STATE_TAT_NS;
}

bool weir_pair_encode(const weir_policy *p, const uint64_t words[2], unsigned used,
                      weir_bucket_entry *ret)
{
    bool second = words[1] > words[0];
    uint64_t late = words[second], other = words[!second], lag = late - other;
    uint64_t share = used > WEIR_CHEAP;
    if (late > INT64_MAX)
        return false;
    ret->fresh_at_ns = (int64_t)late;
    if (are_tats(p) && lag >> (LONG_BITS - 2) == 0) {
        bool is_long = lag >> (SHORT_BITS - 2) != 0;
        ret->form = is_long ? WEIR_FORM_LONG : WEIR_FORM_SHORT;
        ret->words[0] = lag << 1 | second | share << ((is_long ? LONG_BITS : SHORT_BITS) - 1);
        return true;
    }
    ret->form = WEIR_FORM_ONE;
    ret->words[0] = other | (uint64_t)second << SECOND | share << SHARE;
    return other >> SHARE == 0;
}

bool weir_pair_decode(const weir_policy *p, const weir_bucket_entry *e, uint64_t ret_words[2])
{
    uint64_t late = (uint64_t)e->fresh_at_ns, number = e->words[0];
    bool second;
    if (late > INT64_MAX)
        return false;
    if (e->form == WEIR_FORM_ONE) {
        second = number >> SECOND;
        ret_words[!second] = number & (((uint64_t)1 << SHARE) - 1);
    } else if (are_tats(p) && (e->form == WEIR_FORM_SHORT || e->form == WEIR_FORM_LONG)) {
        unsigned bits = e->form == WEIR_FORM_SHORT ? SHORT_BITS : LONG_BITS;
        number &= ((uint64_t)1 << (bits - 1)) - 1;
        second = number & 1;
        ret_words[!second] = late - (number >> 1);
    } else {
        return false;
    }
    ret_words[second] = late;
    return true;
}

bool weir_pair_take(const weir_policy *p, uint64_t words[2], int64_t now_ns, int64_t cost,
                    weir_decision *ret, unsigned *used)
{
    const weir_layer *l = p->layer;
    uint64_t now[2] = {words[0], words[1]};
    weir_decision d;
    WEIR_ASSERT(weir_pack_layers(p) == 2);
    if (l[0].count_denied || l[1].count_denied ||
        !weir_word_take(&l[0], &now[0], now_ns, cost, ret) ||
        !weir_word_take(&l[1], &now[1], now_ns, cost, &d))
        return false;
    d.layer = 1;
    bool both = ret->allowed && d.allowed;
    if (both && cost > 0) {
        unsigned a = weir_used_share(ret->limit, ret->remaining);
        unsigned b = weir_used_share(d.limit, d.remaining);
        *used = a > b ? a : b;
    }
    int64_t delay_ns = ret->delay_ns > d.delay_ns ? ret->delay_ns : d.delay_ns;
    /* Of two denials, or of two layers that allow it, the one that ranks first. */
    if (ret->allowed != d.allowed ? ret->allowed : weir_outranks(&d, ret))
        *ret = d;
    ret->delay_ns = both ? delay_ns : 0;
    words[0] = both ? now[0] : words[0];
    words[1] = both ? now[1] : words[1];
    return true;
}

unsigned weir_pair_used(const weir_bucket_entry *e)
{
    unsigned at = e->form == WEIR_FORM_SHORT  ? SHORT_BITS - 1
                  : e->form == WEIR_FORM_LONG ? LONG_BITS - 1
                                              : SHARE;
    return e->words[0] >> at & 1 ? 128 : 0;
}
