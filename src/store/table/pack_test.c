/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Random policies of every kind, with states from random charges. A state that was packed and
 * unpacked must decide as one that was not, at any time and for any cost. */

#include "core/algorithm.h"
#include "core/decision_kit_test.h"
#include "port/random_kit_test.h"
#include "store/state.h"
#include "store/table/pack.h"
#include "tests/kit/kit.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A number in 1..max: small ones are as likely as large ones, and the limits are the most
 * likely. */
static int64_t draw(uint64_t *seed, int64_t max)
{
    uint64_t x = next_random(seed), width = (uint64_t)__builtin_clzll((uint64_t)max);
    int64_t n = (int64_t)(next_random(seed) >> (width + x % (64 - width)));
    n = x >> 60 == 0 ? max : x >> 60 == 1 ? max - (int64_t)(x >> 16 & 3) : n;
    return n < 1 ? 1 : n > max ? max : n;
}

/* ---- policies -------------------------------------------------------------------------------- */

static bool draw_layer(weir_layer *l, uint64_t *seed)
{
    uint64_t x = next_random(seed);
    /* none is a block */
    weir_algorithm algorithm = (weir_algorithm)(x % (WEIR_ALGORITHMS - 1));
    *l = (weir_layer){.algorithm = algorithm < WEIR_BLOCK ? algorithm : WEIR_CONCURRENT,
                      .limit = draw(seed, WEIR_LIMIT_MAX),
                      .rate = draw(seed, x >> 8 & 1 ? 64 : WEIR_RATE_MAX),
                      .period_ns = draw(seed, WEIR_SPAN_NS_MAX)};
    l->stepped = l->algorithm == WEIR_TOKEN_BUCKET && x >> 9 & 1;
    if (!weir_layer_is_bucket(l))
        l->rate = l->limit;
    l->relaxed = l->algorithm == WEIR_SLIDING_COUNTER && x >> 10 & 1;
    if (l->algorithm == WEIR_FIXED_WINDOW) {
        l->calendar = (weir_calendar)((x >> 16) % 6);
        l->count_denied = x >> 11 & 1;
    }
    if (weir_layer_has_calendar(l)) {
        l->window = weir_calendar_window;
        l->anchor = (int32_t)((x >> 20) % (uint64_t)(weir_anchor_max(l->calendar) + 1));
        l->period_ns = 0;
    }
    if (l->algorithm == WEIR_SLIDING_SLICES)
        l->slices = 1 + (int64_t)(x >> 20) % 6;
    if (l->algorithm == WEIR_SLIDING_LOG || l->algorithm == WEIR_CONCURRENT)
        l->limit = l->rate = 1 + (x >> 20 & 1);
    int64_t limit = 0;
    if (weir_layer_init(l, &limit) == WEIR_OK)
        return true;
    l->limit = limit;
    l->rate = !weir_layer_is_bucket(l) ? limit : l->rate;
    return limit > 0 && weir_layer_init(l, NULL) == WEIR_OK;
}

/* Replaces the last of several layers by a block, in some policies. */
static void add_block(weir_policy *p, uint64_t *seed)
{
    uint64_t x = next_random(seed);
    if (p->layers == 1 || x % 4)
        return;
    weir_layer *l = &p->layer[p->layers - 1];
    *l = (weir_layer){.algorithm = WEIR_BLOCK, .limit = p->layer[0].limit, .rate = 1};
    for (uint32_t i = 1; i < p->layers - 1; i++)
        l->limit = p->layer[i].limit < l->limit ? p->layer[i].limit : l->limit;
    l->period_ns = draw(seed, WEIR_SPAN_NS_MAX / 2);
    l->longest_ns = x >> 8 & 1 ? l->period_ns + draw(seed, WEIR_SPAN_NS_MAX / 2) : 0;
    assert_int_equal(weir_layer_init(l, NULL), WEIR_OK);
}

static weir_policy draw_policy(uint64_t *seed)
{
    weir_policy p;
    do {
        uint64_t x = next_random(seed);
        p = (weir_policy){.layers = x % 4 ? 1 : 2 + (x >> 8) % 2};
        for (uint32_t i = 0; i < p.layers; i++) {
            while (!draw_layer(&p.layer[i], seed))
                ;
        }
        /* The same kind twice, because pairs have an encoding of their own. */
        if (p.layers == 2 && x >> 20 & 1) {
            int64_t limit = p.layer[0].limit;
            p.layer[1] = p.layer[0];
            p.layer[1].limit = 1 + limit / 3;
            if (!weir_layer_is_bucket(&p.layer[1]))
                p.layer[1].rate = p.layer[1].limit;
            if (weir_layer_init(&p.layer[1], NULL) != WEIR_OK)
                p.layers = 1;
        }
        add_block(&p, seed);
    } while (weir_pack_words(&p) == 0);
    return p;
}

/* ---- states ---------------------------------------------------------------------------------- */

typedef struct words {
    uint64_t word[WEIR_ENTRY_WORDS];
} words;

static weir_decision check_both(const weir_policy *p, words *a, words *b, int64_t now_ns,
                                int64_t cost)
{
    weir_decision one, two;
    assert_int_equal(weir_peek(p, a->word, WEIR_LEVEL_MAX, now_ns, cost, &one), WEIR_OK);
    assert_int_equal(weir_peek(p, b->word, WEIR_LEVEL_MAX, now_ns, cost, &two), WEIR_OK);
    assert_same_decision(&one, &two);
    assert_int_equal(weir_check(p, a->word, WEIR_LEVEL_MAX, now_ns, cost, &one), WEIR_OK);
    assert_int_equal(weir_check(p, b->word, WEIR_LEVEL_MAX, now_ns, cost, &two), WEIR_OK);
    assert_same_decision(&one, &two);
    assert_int_equal(weir_fresh_after(p, a->word, WEIR_LEVEL_MAX, now_ns),
                     weir_fresh_after(p, b->word, WEIR_LEVEL_MAX, now_ns));
    return one;
}

static int64_t later(int64_t now_ns, int64_t wait_ns)
{
    int64_t room_ns = WEIR_NOW_NS_MAX - now_ns;
    return wait_ns < -now_ns ? 0 : now_ns + (wait_ns < room_ns ? wait_ns : room_ns);
}

/* Both states give the same decisions at interesting times. */
static void probe(const weir_policy *p, const words *a, const words *b, int64_t now_ns,
                  const weir_decision *d, uint64_t *seed)
{
    int64_t fresh_ns = weir_fresh_after(p, a->word, WEIR_LEVEL_MAX, now_ns);
    const int64_t waits[] = {0,
                             1,
                             -1,
                             -1000000,
                             d->retry_after_ns,
                             d->retry_after_ns - 1,
                             d->reset_after_ns,
                             d->reset_after_ns - 1,
                             fresh_ns,
                             fresh_ns - 1,
                             fresh_ns / 2,
                             draw(seed, WEIR_NOW_NS_MAX),
                             draw(seed, WEIR_NOW_NS_MAX)};
    const int64_t costs[] = {0, 1, d->remaining, d->limit, draw(seed, WEIR_COST_MAX)};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        int64_t cost = costs[next_random(seed) % 5];
        words one = *a, two = *b;
        weir_decision next = check_both(p, &one, &two, later(now_ns, waits[i]), cost);
        check_both(p, &one, &two, later(later(now_ns, waits[i]), next.retry_after_ns), cost);
    }
}

/* An entry tells the time at which the state is idle. For windows it may be later. It is INT64_MAX
 * if the state is never idle. */
static void check_time(const weir_policy *p, const words *state, const weir_bucket_entry *e,
                       int64_t now_ns)
{
    int64_t after_ns = weir_fresh_after(p, state->word, WEIR_LEVEL_MAX, now_ns);
    int64_t at_ns = after_ns < INT64_MAX - now_ns ? now_ns + after_ns : INT64_MAX;
    const weir_layer *l = p->layer;
    bool alone = weir_pack_layers(p) == 1;
    bool counter = alone && l->format == WEIR_STATE_COUNTER;
    bool window = alone && l->format == WEIR_STATE_WINDOW_WORD;
    int64_t idle_ns = weir_pack_time(e);
    bool pair = weir_pair_fits(p) && e->form <= WEIR_FORM_ONE;
    bool is_mark = e->form >= WEIR_FORM_ONE && !pair;
    if (is_mark && after_ns > 0) /* rounded up, with the used share */
        at_ns = ((at_ns < INT64_MAX - 256 ? at_ns : INT64_MAX - 256) | 255) + 1 +
                (int64_t)weir_usage_of(p, state->word, WEIR_LEVEL_MAX, now_ns).used;
    if (after_ns == 0)
        assert_true(counter || window || pair || idle_ns <= now_ns ||
                    (state->word[0] | state->word[1]) == 0);
    else if (counter || window || pair)
        assert_true(idle_ns >= at_ns);
    else
        assert_int_equal(idle_ns, at_ns);
    /* At most two windows and twice their rounding, or twice that of a count of 32 bits. */
    int64_t late_ns = counter ? l->period_ns : INT64_C(1) << 31;
    if (after_ns > 0 && e->form == WEIR_FORM_TIME && late_ns < (INT64_MAX - at_ns) / 4)
        assert_true(idle_ns <= at_ns + 4 * late_ns);
}

static words pack_and_unpack(const weir_policy *p, const words *from, int64_t now_ns,
                             weir_usage usage, weir_bucket_entry *ret)
{
    words to = {{0}};
    *ret = (weir_bucket_entry){0};
    weir_pack(p, from->word, now_ns, usage, ret);
    assert_in_range(ret->form, WEIR_FORM_TIME, WEIR_FORM_FIVE);
    assert_true(ret->form != WEIR_FORM_SHORT || ret->words[0] >> 32 == 0);
    assert_true(ret->form != WEIR_FORM_LONG || ret->words[0] >> 48 == 0);
    for (size_t w = weir_form_words(ret->form); w < WEIR_ENTRY_WORDS; w++)
        ret->words[w] = next_random(&to.word[0]); /* words that the form does not have */
    to.word[0] = 0;
    assert_true(weir_unpack(p, ret, to.word));
    return to;
}

/* Decides on two states of a key. One is packed after each decision, the other never. */
static void run_policy(const weir_policy *p, uint64_t *seed, uint64_t *ret_forms)
{
    static const int64_t starts[] = {0, 1, 1767225600000000000, WEIR_NOW_NS_MAX - 1000,
                                     WEIR_NOW_NS_MAX};
    words a = {{0}}, b = {{0}};
    int64_t now_ns = starts[next_random(seed) % 5];
    weir_decision d = check_both(p, &a, &b, now_ns, 0);
    for (int i = 0; i < 12; i++) {
        uint64_t x = next_random(seed);
        const int64_t costs[] = {1, 1, d.remaining, d.limit / 2, draw(seed, WEIR_COST_MAX)};
        const int64_t waits[] = {0,
                                 1,
                                 d.retry_after_ns,
                                 d.reset_after_ns / 2,
                                 d.reset_after_ns - 1,
                                 draw(seed, WEIR_SPAN_NS_MAX)};
        int64_t wait_ns = waits[(x >> 8) % 6];
        now_ns = later(now_ns, wait_ns > 0 ? wait_ns : 0);
        d = check_both(p, &a, &b, now_ns, costs[x % 5]);
        weir_bucket_entry e;
        bool is_known = x >> 16 & 1;
        weir_usage usage = weir_usage_of(p, b.word, WEIR_LEVEL_MAX, now_ns);
        b = pack_and_unpack(p, &b, now_ns, is_known ? usage : WEIR_USAGE_UNKNOWN, &e);
        check_time(p, &a, &e, now_ns);
        probe(p, &a, &b, now_ns, &d, seed);
        *ret_forms |= 1u << e.form;
    }
}

static void random_policies(void **state)
{
    (void)state;
    enum { POLICIES = 12000 };
    uint64_t seed = 20260101, forms = 0, formats = 0;
    for (int i = 0; i < POLICIES; i++) {
        weir_policy p = draw_policy(&seed);
        run_policy(&p, &seed, &forms);
        for (uint32_t l = 0; l < p.layers; l++)
            formats |= 1u << p.layer[l].format;
    }
    assert_int_equal(forms, 0xfe);                       /* every form occurred */
    assert_int_equal(formats, (1u << WEIR_FORMATS) - 1); /* every format occurred */
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The sizes of common policies, as in the documentation. */
static void usual_policies(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t cost;
        weir_form form;
    } cases[] = {
        {"gcra 100/s burst 20", 5, WEIR_FORM_TIME},
        {"gcra 3/s burst 20", 5, WEIR_FORM_TIME},
        {"gcra 17/s burst 20", 5, WEIR_FORM_SHORT},
        {"token-bucket 20 refill 5 every 1h", 5, WEIR_FORM_SHORT},
        {"fixed-window 100/h", 5, WEIR_FORM_TIME},
        {"fixed-window 100/50ns", 5, WEIR_FORM_SHORT},
        {"fixed-window 100/h from-first", 5, WEIR_FORM_SHORT},
        {"sliding-counter 100/h", 5, WEIR_FORM_TIME},
        {"sliding-counter 100000/h", 65536, WEIR_FORM_TIME},
        {"sliding-counter 100000/s", 65535, WEIR_FORM_SHORT},
        {"sliding-counter 100000/s", 65536, WEIR_FORM_LONG},
        {"sliding-counter 16000000/h", 16000000, WEIR_FORM_LONG},
        {"sliding-counter 17000000/h", 5, WEIR_FORM_TWO},
        {"fixed-window 100/day", 5, WEIR_FORM_TIME},
        {"fixed-window 1900000000/2s", 5, WEIR_FORM_ONE},
        {"gcra 10/s burst 10 & gcra 100/h burst 100", 5, WEIR_FORM_LONG},
        {"gcra 10/s burst 10 & gcra 1/s burst 1000", 5, WEIR_FORM_LONG},
        {"gcra 10/s burst 10 & sliding-counter 100/h", 5, WEIR_FORM_ONE},
        {"gcra 3/s burst 10 & sliding-counter 100/h", 5, WEIR_FORM_FIVE},
        {"sliding-log 2/s", 1, WEIR_FORM_FIVE},
        {"gcra 100/s burst 20 & block 10m", 5, WEIR_FORM_TIME},
        {"fixed-window 100/h & block 10m doubling 1h", 5, WEIR_FORM_TIME},
        {"gcra 17/s burst 20 & block 10m", 5, WEIR_FORM_SHORT},
        {"gcra 10/s burst 10 & gcra 1/s burst 1000 & block 10m", 5, WEIR_FORM_LONG},
        {"sliding-counter 17000000/h & block 10m", 5, WEIR_FORM_THREE},
        {"sliding-log 1/s & block 10m", 1, WEIR_FORM_FIVE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p;
        if (weir_policy_parse(&p, cases[i].text, strlen(cases[i].text), NULL, NULL) != WEIR_OK)
            fail_msg("%s", cases[i].text);
        words w = {{0}};
        weir_decision d;
        weir_bucket_entry e;
        int64_t now_ns = 1767225600000000000;
        assert_int_equal(weir_check(&p, w.word, WEIR_LEVEL_MAX, now_ns, cases[i].cost, &d),
                         WEIR_OK);
        assert_true(d.allowed);
        pack_and_unpack(&p, &w, now_ns, WEIR_USAGE_UNKNOWN, &e);
        if (e.form != cases[i].form)
            fail_msg("%s: form %d", cases[i].text, (int)e.form);
    }
}

/* A block is left out once it is over, and has been for the longest time by which the clock of the
 * table can step back. Until then its key is evicted last. */
static void blocks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds; /* from the denial until the block is over and forgotten */
        weir_form running, over;
        size_t words; /* of the other layers */
    } cases[] = {
        {"gcra 1/m burst 9 & block 10s", 10, WEIR_FORM_TWO, WEIR_FORM_TIME, 1},
        {"gcra 1/m burst 9 & block 10s doubling 1m", 20, WEIR_FORM_THREE, WEIR_FORM_TIME, 1},
        {"gcra 17/m burst 9 & block 10s", 10, WEIR_FORM_THREE, WEIR_FORM_SHORT, 2},
        {"gcra 1/m burst 9 & gcra 2/m burst 9 & block 10s", 10, WEIR_FORM_THREE, WEIR_FORM_LONG, 2},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i / 2].text);
        int64_t begin_ns = i % 2 ? INT64_C(1767225600000000000) : 0;
        int64_t over_ns = begin_ns + cases[i / 2].seconds * INT64_C(1000000000);
        words w = {{0}}, want = {{0}};
        weir_decision d;
        weir_bucket_entry e;
        assert_int_equal(weir_check(&p, w.word, WEIR_LEVEL_MAX, begin_ns, 9, &d), WEIR_OK);
        assert_int_equal(weir_check(&p, w.word, WEIR_LEVEL_MAX, begin_ns, 1, &d), WEIR_OK);
        assert_false(d.allowed);
        for (size_t n = 0; n < cases[i / 2].words; n++)
            want.word[n] = w.word[n];
        words back = pack_and_unpack(&p, &w, begin_ns, WEIR_USAGE_UNKNOWN, &e);
        assert_int_equal(e.form, cases[i / 2].running);
        assert_int_equal(weir_rank_used(weir_pack_rank(&e, begin_ns)), WEIR_USED_MAX);
        assert_memory_equal(&back, &w, sizeof w);
        back = pack_and_unpack(&p, &w, over_ns + WEIR_SEEN_STEP_NS - 1, WEIR_USAGE_UNKNOWN, &e);
        assert_int_equal(e.form, cases[i / 2].running);
        assert_memory_equal(&back, &w, sizeof w);
        back = pack_and_unpack(&p, &w, over_ns + WEIR_SEEN_STEP_NS, WEIR_USAGE_UNKNOWN, &e);
        assert_int_equal(e.form, cases[i / 2].over);
        assert_memory_equal(&back, &want, sizeof want);
    }
}

/* ---- used shares ------------------------------------------------------------------------------
 * */

/* The rank of an entry tells the used share without the policy: it is at most the true one, and at
 * least half of it. Where one bit is stored, it is 0 up to a quarter, and 128 from three quarters
 * on. */
static void used_shares(void **state)
{
    (void)state;
    enum { BIT = 99 };
    static const struct {
        const char *text;
        unsigned less; /* in 1/256; BIT: only one bit is stored */
    } cases[] = {
        {"gcra 1/ns burst 100", 0}, /* the quota is full again within 1 ms */
        {"gcra 100/s burst 20", 1},
        {"gcra 1/2h burst 60", 1},
        {"gcra 3/s burst 64", 1},
        {"token-bucket 20 refill 3 every 1h", BIT},
        {"token-bucket 20 refill 1000000000000 every 2000h", BIT},
        {"leaky-queue 7/s depth 9", 1},
        {"fixed-window 100/h", 1},
        {"fixed-window 1/h", 1},
        {"fixed-window 2147483647/d", 1},
        {"fixed-window 128/h from-first", 1},
        {"fixed-window 9/month", 1},
        {"sliding-counter 100/h", 1},
        {"sliding-counter 100000/h", 1},
        {"sliding-counter 100000/s", 1},
        {"sliding-counter 5000000/s", 1},
        {"sliding-counter 16000000/h", 1},
        {"sliding-counter 17000000/h", 1},
        {"gcra 17/s burst 64", 1},
        {"fixed-window 9/10us", 1},
        {"sliding-counter 2147483647/h", 2},
        {"sliding-log 2/s", 1},
        {"sliding-slices 60/m slices 6", 1},
        {"gcra 10/s burst 10 & gcra 100/d burst 100", BIT},
        {"gcra 100/d burst 100 & gcra 10/s burst 10", BIT},
        {"gcra 1/s burst 5 & sliding-counter 100/h", BIT},
        {"fixed-window 9/h & gcra 100/h burst 9", BIT},
        {"gcra 3/s burst 5 & sliding-counter 100/h", 1},
        {"gcra 100/s burst 20 & block 10m", 1},
        {"gcra 10/s burst 10 & gcra 100/d burst 100 & block 10m", BIT},
    };
    int64_t now_ns = 1767225600000000000;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        int64_t limit = 0;
        for (uint32_t l = 0; l < p.layers; l++) {
            if (limit == 0 || p.layer[l].limit < limit)
                limit = p.layer[l].limit;
        }
        for (int64_t eighth = 1; eighth <= 8; eighth++) {
            int64_t cost = (limit * eighth + 7) / 8;
            words w = {{0}};
            weir_decision d;
            weir_bucket_entry e;
            assert_int_equal(weir_check(&p, w.word, WEIR_LEVEL_MAX, now_ns, cost, &d), WEIR_OK);
            assert_true(d.allowed);
            pack_and_unpack(&p, &w, now_ns, WEIR_USAGE_UNKNOWN, &e);
            e.tag = weir_pack_class(&p);
            unsigned used = weir_rank_used(weir_pack_rank(&e, now_ns));
            int64_t most = cost * 256 / limit, least = most / 2 - cases[i].less;
            if (cases[i].less == BIT) {
                most = cost * 4 <= limit ? 0 : 128;
                least = eighth < 6 ? 0 : 128;
            } else if (i == 0) {
                least = 0;
            }
            if (used > most || used < least)
                fail_msg("%s: %d of %d: %u/256", cases[i].text, (int)cost, (int)limit, used);
        }
    }
}

/* Of two entries that have used the same share, the one that is idle first has the lower rank. */
static void ranks(void **state)
{
    (void)state;
    weir_bucket_entry e = {.tag = 20, .form = WEIR_FORM_TIME, .fresh_at_ns = 5000};
    uint64_t early = weir_pack_rank(&e, 9000);
    assert_int_equal(weir_rank_used(early), 0);
    e.fresh_at_ns = 6000;
    assert_true(weir_pack_rank(&e, 9000) > early);
    e.fresh_at_ns = INT64_MAX;
    assert_int_equal(weir_rank_used(weir_pack_rank(&e, 0)), WEIR_USED_MAX);
    e.tag = WEIR_CLASS_OTHER; /* only a word of a policy with a former class has this class */
    assert_int_equal(weir_rank_used(weir_pack_rank(&e, 0)), 128);
}

/* State version 2 stored the count of an aligned window in 32 bits, beside the window's end. */
static void window_of_version_2(void **state)
{
    (void)state;
    const int64_t h_ns = INT64_C(3600000000000);
    weir_policy p = policy_of("fixed-window 100/h");
    uint64_t word[WEIR_ENTRY_WORDS];
    const weir_bucket_entry e = {
        .form = WEIR_FORM_SHORT, .fresh_at_ns = 7 * h_ns, .words = {(uint64_t)30 << (32 - 7)}};
    weir_decision d;
    assert_true(weir_unpack(&p, &e, word));
    assert_int_equal(weir_check(&p, word, WEIR_LEVEL_MAX, 6 * h_ns + 5, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 70);
    assert_int_equal(d.reset_after_ns, h_ns - 5);
}

/* A file that an earlier build wrote has these classes in its tags: they never change. */
static void former_classes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned first;
    } rows[] = {{"sliding-counter 9/h", 41},
                {"sliding-counter 65535/h", 41},
                {"sliding-counter 65536/h", 42},
                {"sliding-counter 4194304/h", 48}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = policy_of(rows[i].text);
        unsigned got[WEIR_FORMER_CLASSES], want[] = {rows[i].first, 61, 62, 63};
        weir_pack_former_classes(&p, got);
        assert_memory_equal(got, want, sizeof want);
    }
}

/* ---- damaged states and entries -------------------------------------------------------------- */

/* A state of any words is packed, and decides the same when it is unpacked. An entry of any words
 * is unpacked or refused. */
static void any_words(void **state)
{
    (void)state;
    uint64_t seed = 7, refused = 0;
    for (int i = 0; i < 20000; i++) {
        weir_policy p = draw_policy(&seed);
        words w = {{0}};
        for (size_t n = 0; n < weir_pack_words(&p); n++)
            w.word[n] = next_random(&seed) >> next_random(&seed) % 64;
        int64_t now_ns = draw(&seed, WEIR_NOW_NS_MAX);
        weir_bucket_entry e;
        weir_decision d = {0};
        if (weir_peek(&p, w.word, WEIR_LEVEL_MAX, now_ns, 1, &d) == WEIR_OK) {
            words back = pack_and_unpack(&p, &w, now_ns, WEIR_USAGE_UNKNOWN, &e);
            check_both(&p, &w, &back, now_ns, 1);
        }
        e = (weir_bucket_entry){.form = (weir_form)(1 + next_random(&seed) % 7),
                                .fresh_at_ns = (int64_t)next_random(&seed)};
        for (size_t n = 0; n < WEIR_ENTRY_WORDS; n++)
            e.words[n] = next_random(&seed);
        e.words[0] >>= e.form == WEIR_FORM_SHORT ? 32 : e.form == WEIR_FORM_LONG ? 16 : 0;
        if (weir_unpack(&p, &e, w.word))
            (void)!weir_check(&p, w.word, WEIR_LEVEL_MAX, now_ns, 1, &d);
        else
            refused++;
    }
    assert_true(refused > 1000);
}

/* The words of a state stay as they are, even if no decision leaves such a state. */
static void out_of_range(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "gcra 7/s burst 9",    "token-bucket 10 refill 3 every 1s",
        "fixed-window 9/h",    "fixed-window 9/h from-first",
        "sliding-counter 9/h", "gcra 10/s burst 10 & gcra 100/h burst 100"};
    static const uint64_t words_of[] = {UINT64_MAX, INT64_MAX, (uint64_t)WEIR_NOW_NS_MAX + 1,
                                        (uint64_t)1 << 63, 5};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_policy p = policy_of(texts[i]);
        for (size_t a = 0; a < 5; a++) {
            for (size_t b = 0; b < 5; b++) {
                weir_bucket_entry e;
                words w = {{words_of[a], weir_pack_words(&p) > 1 ? words_of[b] : 0}};
                words back = pack_and_unpack(&p, &w, 1000000000, (weir_usage){1, 0}, &e);
                if (memcmp(&back, &w, sizeof w) != 0)
                    fail_msg("%s: %zu, %zu", texts[i], a, b);
            }
        }
    }
}

/* An entry of another form does not belong to the policy. */
static void other_forms(void **state)
{
    (void)state;
    weir_policy tat = policy_of("gcra 100/s"), log = policy_of("sliding-log 2/s"),
                ticks = policy_of("gcra 3/s");
    uint64_t got[WEIR_ENTRY_WORDS];
    for (unsigned form = WEIR_FORM_TIME; form <= WEIR_FORM_FIVE; form++) {
        weir_bucket_entry e = {.form = (weir_form)form, .fresh_at_ns = 5, .words = {1}};
        assert_int_equal(weir_unpack(&tat, &e, got), form == WEIR_FORM_TIME);
        assert_int_equal(weir_unpack(&log, &e, got), form == WEIR_FORM_FIVE);
        assert_int_equal(weir_unpack(&ticks, &e, got), form == WEIR_FORM_SHORT ||
                                                           form == WEIR_FORM_LONG ||
                                                           form == WEIR_FORM_TWO);
        if (form == WEIR_FORM_FIVE) { /* a head at or behind the end of the ring is damage */
            e.words[0] = 2;
            e.words[1] = 7;
            assert_false(weir_unpack(&log, &e, got));
            for (size_t i = 0; i < weir_pack_words(&log); i++)
                assert_int_equal(got[i], 0);
        }
        e.words[0] = 3; /* with 3 ticks per ns, the remainder is 0..2 */
        assert_int_equal(weir_unpack(&ticks, &e, got), form == WEIR_FORM_TWO);
    }
}

/* All words of the state are written, also those of a block that is left out; none behind it. */
static void every_word_is_written(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"gcra 1/s burst 9 & block 10s doubling 1m",
                                        "gcra 1/s burst 9"};
    for (size_t i = 0; i < 2; i++) {
        weir_policy p = policy_of(texts[i]);
        weir_bucket_entry e = {.form = WEIR_FORM_TIME, .fresh_at_ns = 5};
        size_t len = weir_pack_words(&p);
        assert_int_equal(len, i == 0 ? 3 : 1);
        for (int sound = 1; sound >= 0; sound--, e.form = WEIR_FORM_FIVE) {
            uint64_t got[WEIR_ENTRY_WORDS];
            memset(got, 0x55, sizeof got);
            assert_int_equal(weir_unpack(&p, &e, got), sound);
            for (size_t k = 0; k < WEIR_ENTRY_WORDS; k++)
                assert_int_equal(got[k], k >= len ? 0x5555555555555555 : k == 0 && sound ? 5 : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_policies),
        cmocka_unit_test(used_shares),
        cmocka_unit_test(ranks),
        cmocka_unit_test(window_of_version_2),
        cmocka_unit_test(former_classes),
        cmocka_unit_test(usual_policies),
        cmocka_unit_test(any_words),
        cmocka_unit_test(out_of_range),
        cmocka_unit_test(other_forms),
        cmocka_unit_test(blocks),
        cmocka_unit_test(every_word_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
