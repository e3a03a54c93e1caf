/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The properties. They use the compiler's 128-bit integers, and share no arithmetic with the core.
 */

#include "cell.h"

#include "core/algorithm.h"
#include "core/decision.h"
#include "core/figures.h"

#include <weir/weir_zone.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------- */

static int64_t pick(const int64_t *of, size_t len, uint8_t by)
{
    return of[by % len];
}

#define PICK(of, by) pick((of), sizeof(of) / sizeof((of)[0]), (by))

static bool make_layer(weir_layer *l, const uint8_t b[8])
{
    static const int64_t limits[] = {1, 2, 3, 5, 20, 100, 1000, 1 << 20, INT32_MAX - 1, INT32_MAX};
    static const int64_t rates[] = {
        1, 2, 3, 7, 100, 1000003, INT32_MAX, 12499999999, WEIR_RATE_MAX};
    static const int64_t periods[] = {1,
                                      2,
                                      7,
                                      1000,
                                      155382367,
                                      1000000000,
                                      60000000000,
                                      3600000000000,
                                      86400000000000,
                                      315360000000000000,
                                      WEIR_SPAN_NS_MAX};
    static const int64_t slices[] = {1, 2, 3, 7, 60, 1000};
    static const int64_t small_limits[] = {1, 2, 3, 5, 17, 40};
    memset(l, 0, sizeof *l);
    l->algorithm = (weir_algorithm)(b[0] % WEIR_BLOCK); /* one of those before it */
    l->limit = PICK(limits, b[1]);
    l->rate = PICK(rates, b[2]);
    l->period_ns = PICK(periods, b[3]);
    l->stepped = l->algorithm == WEIR_TOKEN_BUCKET && b[4] % 2;
    if (weir_layer_can(l, WEIR_CAN_DELAY)) {
        const int64_t nodelays[] = {0, 0, 1, 2, 19, l->limit / 2, l->limit - 2, l->limit - 1};
        int64_t nodelay = PICK(nodelays, b[5]);
        l->nodelay = (int32_t)(nodelay < 0 || nodelay >= l->limit ? l->limit - 1 : nodelay);
    }
    if (weir_layer_is_bucket(l))
        return weir_layer_init(l, NULL) == WEIR_OK;
    if (b[1] & 0x80)
        l->limit = PICK(small_limits, b[1]);
    l->rate = l->limit;
    l->relaxed = l->algorithm == WEIR_SLIDING_COUNTER && b[4] % 2;
    l->count_denied =
        (l->algorithm == WEIR_FIXED_WINDOW || l->algorithm == WEIR_SLIDING_LOG) && b[4] % 3 == 0;
    if (l->algorithm == WEIR_SLIDING_SLICES)
        l->slices = PICK(slices, b[5]);
    if (l->algorithm == WEIR_FIXED_WINDOW)
        l->calendar = (weir_calendar)(b[5] % 6);
    if (weir_layer_has_calendar(l)) {
        l->window = weir_calendar_window;
        l->period_ns = 0;
        l->anchor = (b[4] * 256 + b[1]) % (weir_anchor_max(l->calendar) + 1);
    }
    return weir_layer_init(l, NULL) == WEIR_OK;
}

/* Makes a block beside the layers so far. */
static bool make_block(weir_policy *p, const uint8_t b[2])
{
    static const int64_t periods[] = {
        1, 2, 7, 1000, 155382367, 1000000000, 60000000000, 315360000000000000, WEIR_SPAN_NS_MAX};
    static const int64_t longer[] = {0, 0, 1, 5, 1000, 3000000000, 3600000000000, INT64_MAX >> 4};
    weir_layer *l = &p->layer[p->layers];
    memset(l, 0, sizeof *l);
    l->algorithm = WEIR_BLOCK;
    l->limit = WEIR_LIMIT_MAX;
    for (uint32_t i = 0; i < p->layers; i++)
        l->limit = p->layer[i].limit < l->limit ? p->layer[i].limit : l->limit;
    l->rate = l->limit;
    l->period_ns = PICK(periods, b[0]);
    int64_t more_ns = PICK(longer, b[1]);
    if (more_ns > WEIR_SPAN_NS_MAX - l->period_ns)
        more_ns = WEIR_SPAN_NS_MAX - l->period_ns;
    l->longest_ns = more_ns > 0 ? l->period_ns + more_ns : 0;
    p->layers++;
    return weir_layer_init(l, NULL) == WEIR_OK;
}

/* Makes steps near the edges: at the waits and costs of the previous decision, plus or minus one.
 */
static void make_steps(input *in, const uint8_t *bytes, size_t len)
{
    static const int64_t starts[] = {0, 1, 1767225600000000000, 7258118400000000000,
                                     WEIR_NOW_NS_MAX - 1000};
    cell c = cell_new(&in->policy);
    int64_t t_ns = len > 0 ? PICK(starts, bytes[0]) : 0;
    int64_t limit = in->policy.layer[0].limit;
    weir_decision d = cell_take(&c, t_ns, 0);
    for (in->steps = 0; in->steps < STEPS_MAX && len >= 4; in->steps++, bytes += 4, len -= 4) {
        const int64_t waits[] = {0,
                                 0,
                                 1,
                                 d.retry_after_ns - 1,
                                 d.retry_after_ns,
                                 d.reset_after_ns - 1,
                                 d.reset_after_ns,
                                 1000000000,
                                 (int64_t)bytes[1] << (bytes[2] % 52)};
        const int64_t costs[] = {1,     1,         1, d.remaining,   d.remaining + 1,
                                 limit, limit + 1, 0, WEIR_COST_MAX, bytes[2]};
        int64_t wait_ns = PICK(waits, bytes[0]);
        if (wait_ns > 0 && wait_ns <= WEIR_NOW_NS_MAX - t_ns)
            t_ns += wait_ns;
        int64_t cost = PICK(costs, bytes[3]);
        in->step[in->steps] = (step){t_ns, cost > WEIR_COST_MAX ? WEIR_COST_MAX : cost};
        d = cell_take(&c, t_ns, in->step[in->steps].cost);
    }
    free(c.state);
}

bool input_read(input *ret, const uint8_t *bytes, size_t len)
{
    if (len < 1)
        return false;
    uint32_t layers = bytes[0] % 16 == 0 ? 3 : bytes[0] % 4 == 0 ? 2 : 1;
    bool has_block = bytes[0] >> 6 == 1;
    bytes++, len--;
    if (len < 8 * layers)
        return false;
    ret->policy.layers = layers;
    bool holds = false;
    for (uint32_t i = 0; i < layers; i++, bytes += 8, len -= 8) {
        weir_layer *l = &ret->policy.layer[i];
        if (!make_layer(l, bytes) || (holds && weir_layer_holds(l)))
            return false;
        holds |= weir_layer_holds(l);
    }
    if (has_block && (len < 2 || !make_block(&ret->policy, bytes)))
        return false;
    make_steps(ret, bytes, len);
    return ret->steps > 0;
}

bool input_parse(input *ret, const char *text, const uint8_t *bytes, size_t len)
{
    if (weir_policy_parse(&ret->policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        return false;
    make_steps(ret, bytes, len);
    return ret->steps > 0;
}

/* ---- P1: the inequality ---------------------------------------------------------------------- */

typedef struct run { /* the allowed requests of an input, in order */
    size_t len;
    step step[STEPS_MAX];
} run;

static run allowed_run(const input *in)
{
    run r = {0};
    cell c = cell_new(&in->policy);
    for (size_t i = 0; i < in->steps; i++) {
        if (cell_take(&c, in->step[i].t_ns, in->step[i].cost).allowed)
            r.step[r.len++] = in->step[i];
    }
    free(c.state);
    return r;
}

static int64_t sum_of(const run *r, size_t i, size_t k)
{
    int64_t sum = 0; /* no overflow: at most STEPS_MAX * WEIR_COST_MAX */
    for (; i <= k; i++)
        sum += r->step[i].cost;
    return sum;
}

/* For all i <= k: sum * T <= C * T + (t_k - t_i), with both sides multiplied by the rate. For a
 * bucket that refills in steps, in tokens. */
static bool bucket_bound(const weir_layer *l, const run *r)
{
    u128 period = (u128)l->period_ns, rate = (u128)l->rate, limit = (u128)l->limit;
    for (size_t k = 0; k < r->len; k++) {
        for (size_t i = 0; i <= k; i++) {
            u128 sum = (u128)sum_of(r, i, k), ti = (u128)r->step[i].t_ns,
                 tk = (u128)r->step[k].t_ns;
            bool good = l->stepped ? sum <= limit + (tk / period - ti / period) * rate
                                   : sum * period <= limit * period + (tk - ti) * rate;
            if (!good)
                return false;
        }
    }
    return true;
}

static weir_span window_of(const weir_layer *l, int64_t t_ns)
{
    if (l->window)
        return l->window(l->zone, l->calendar, l->anchor, t_ns);
    int64_t start_ns = t_ns / l->period_ns * l->period_ns;
    return (weir_span){start_ns, start_ns + l->period_ns};
}

static bool window_bound(const weir_layer *l, const run *r)
{
    weir_span span = {-1, -1};
    int64_t sum = 0;
    for (size_t i = 0; i < r->len; i++) {
        int64_t t_ns = r->step[i].t_ns;
        if (t_ns >= span.end_ns) {
            span = l->calendar == WEIR_FROM_FIRST ? (weir_span){t_ns, t_ns + l->period_ns}
                                                  : window_of(l, t_ns);
            sum = 0;
        }
        if (l->calendar == WEIR_FROM_FIRST && sum == 0 && r->step[i].cost == 0)
            span.end_ns = -1; /* a peek does not start a window */
        sum += r->step[i].cost;
        if (sum > l->limit)
            return false;
    }
    return true;
}

static bool log_bound(const weir_layer *l, const run *r)
{
    for (size_t k = 0; k < r->len; k++) {
        int64_t sum = 0;
        for (size_t i = 0; i <= k; i++)
            sum += r->step[i].t_ns > r->step[k].t_ns - l->period_ns ? r->step[i].cost : 0;
        if (sum > l->limit)
            return false;
    }
    return true;
}

static bool counter_bound(const weir_layer *l, const run *r)
{
    u128 w = (u128)l->period_ns, limit = (u128)l->limit;
    for (size_t k = 0; k < r->len; k++) {
        u128 window = (u128)r->step[k].t_ns / w;
        int64_t prev = 0, cur = 0;
        for (size_t i = 0; i <= k; i++) {
            u128 at = (u128)r->step[i].t_ns / w;
            cur += at == window ? r->step[i].cost : 0;
            prev += at + 1 == window ? r->step[i].cost : 0;
        }
        u128 estimate = (u128)prev * (w - (u128)r->step[k].t_ns % w) + (u128)cur * w;
        if (r->step[k].cost > 0 &&
            (l->relaxed ? estimate >= (limit + 1) * w : estimate > limit * w))
            return false;
    }
    return true;
}

static bool slices_bound(const weir_layer *l, const run *r)
{
    u128 s = (u128)l->slices, w = (u128)l->period_ns;
    for (size_t k = 0; k < r->len; k++) {
        u128 present = (u128)r->step[k].t_ns * s / w;
        int64_t sum = 0;
        for (size_t i = 0; i <= k; i++)
            sum += (u128)r->step[i].t_ns * s / w + s > present ? r->step[i].cost : 0;
        if (sum > l->limit)
            return false;
    }
    return true;
}

static bool layer_bound(const weir_layer *l, const run *r)
{
    switch (l->algorithm) {
    case WEIR_FIXED_WINDOW:
        return window_bound(l, r);
    case WEIR_SLIDING_LOG:
    case WEIR_CONCURRENT: /* nothing is given back, and each lease is one period long */
        return log_bound(l, r);
    case WEIR_SLIDING_COUNTER:
        return counter_bound(l, r);
    case WEIR_SLIDING_SLICES:
        return slices_bound(l, r);
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_LEAKY_QUEUE:
        return bucket_bound(l, r);
    case WEIR_BLOCK: /* p10 */
        return true;
    }
    return false;
}

bool p1_bound(const input *in)
{
    run r = allowed_run(in);
    for (uint32_t i = 0; i < in->policy.layers; i++) {
        /* A denial that is counted may have started a from-first window, and the run does not
         * contain it. */
        const weir_layer *l = &in->policy.layer[i];
        if (l->calendar == WEIR_FROM_FIRST && (l->count_denied || in->policy.layers > 1))
            continue;
        if (!layer_bound(l, &r))
            return fail(in, "P1", in->steps - 1, "more was allowed than the bound permits");
    }
    return true;
}

/* ---- P2: the fields -------------------------------------------------------------------------- */

static bool in_time(int64_t t_ns, int64_t wait_ns)
{
    return wait_ns <= WEIR_NOW_NS_MAX - t_ns;
}

static const char *wrong_retry(const cell *c, const step *s, const weir_decision *d)
{
    if (d->allowed)
        return d->retry_after_ns == 0 && !d->never ? NULL : "allowed, and a wait";
    if (d->never)
        return cell_try(c, WEIR_NOW_NS_MAX, s->cost).allowed ? "never, but allowed" : NULL;
    if (d->retry_after_ns < 1)
        return "denied without a wait";
    if (in_time(s->t_ns, d->retry_after_ns - 1) &&
        cell_try(c, s->t_ns + d->retry_after_ns - 1, s->cost).allowed)
        return "allowed before retry_after";
    if (in_time(s->t_ns, d->retry_after_ns) &&
        !cell_try(c, s->t_ns + d->retry_after_ns, s->cost).allowed)
        return "denied at retry_after";
    return NULL;
}

/* When a cost of 1 is allowed: the retry_after of a peek. */
static const char *wrong_next(const cell *c, const step *s, const weir_decision *d)
{
    weir_decision next;
    if (weir_peek(c->policy, c->state, c->level, s->t_ns, 1, &next) != WEIR_OK ||
        (weir_next_is_now(c->policy, d) && !next.allowed) || (d->remaining == 0 && next.allowed))
        return "a peek of cost 1 fails, or contradicts `remaining`";
    return wrong_retry(c, &(step){.t_ns = s->t_ns, .cost = 1}, &next);
}

/* The figures of the layer that a peek of cost 0 names, computed from what remains of it. */
static const char *wrong_figures(const cell *c, const step *s)
{
    weir_decision d;
    weir_figures f;
    if (weir_peek(c->policy, c->state, c->level, s->t_ns, 0, &d) != WEIR_OK || !d.allowed)
        return NULL; /* a block */
    const weir_layer *l = &c->policy->layer[d.layer];
    if (!weir_figures_of(c->policy, c->state, c->level, s->t_ns, d.layer, &f))
        return "no figures";
    if (weir_layer_is_bucket(l) || weir_layer_is_block(l))
        return f.count == WEIR_NO_FIGURE ? NULL : "a layer that counts nothing has a count";
    int64_t used = f.count;
    if (l->algorithm == WEIR_SLIDING_COUNTER) {
        int64_t at_ns = f.start_ns > s->t_ns ? f.start_ns : s->t_ns;
        if (at_ns - f.start_ns >= l->period_ns)
            return "the window has ended";
        __int128 weight = (__int128)f.previous * (l->period_ns - (at_ns - f.start_ns));
        used += (int64_t)((weight + (l->relaxed ? 0 : l->period_ns - 1)) / l->period_ns);
    }
    return d.remaining == (used < d.limit ? d.limit - used : 0) ? NULL : "a count differs";
}

/* Only for a policy of one layer, or for an allowance: remaining is then the smallest of all
 * layers. */
static const char *wrong_remaining(const cell *c, const step *s, const weir_decision *d)
{
    if (d->remaining > 0 && !cell_try(c, s->t_ns, d->remaining).allowed)
        return "a cost of remaining is denied";
    if (d->remaining < WEIR_COST_MAX && cell_try(c, s->t_ns, d->remaining + 1).allowed)
        return "a cost above remaining is allowed";
    return NULL;
}

/* For an allowance under several layers: no other layer that ties on `remaining` resets later than
 * the reported layer. */
static const char *wrong_reset_of_layers(const cell *c, const step *s, const weir_decision *d)
{
    for (uint32_t i = 0; i < c->policy->layers; i++) {
        if (d->remaining >= c->policy->layer[i].limit)
            return NULL;
    }
    if (d->allowed && !cell_try(c, s->t_ns + d->reset_after_ns, d->remaining + 1).allowed)
        return "a cost of remaining + 1 is denied at reset_after";
    return NULL;
}

static const char *wrong_reset(const cell *c, const step *s, const weir_decision *d)
{
    if (!in_time(s->t_ns, d->reset_after_ns))
        return NULL;
    if (c->policy->layers > 1)
        return wrong_reset_of_layers(c, s, d);
    if (!cell_try(c, s->t_ns + d->reset_after_ns, d->limit).allowed)
        return "no full quota at reset_after";
    if (weir_fresh_after(c->policy, c->state, c->level, s->t_ns) != d->reset_after_ns)
        return "weir_fresh_after() differs";
    if (d->reset_after_ns > 0 && cell_try(c, s->t_ns + d->reset_after_ns - 1, d->limit).allowed)
        return "full quota before reset_after";
    return NULL;
}

bool p2_fields(const input *in)
{
    cell c = cell_new(&in->policy);
    const char *wrong = NULL;
    size_t i = 0;
    for (; i < in->steps && !wrong; i++) {
        const step *s = &in->step[i];
        weir_decision d = cell_take(&c, s->t_ns, s->cost);
        wrong = wrong_retry(&c, s, &d);
        if (!wrong && (d.allowed || in->policy.layers == 1))
            wrong = wrong_remaining(&c, s, &d);
        wrong = wrong ? wrong : wrong_reset(&c, s, &d);
        wrong = wrong ? wrong : wrong_next(&c, s, &d);
        wrong = wrong ? wrong : wrong_figures(&c, s);
    }
    free(c.state);
    return wrong ? fail(in, "P2", i - 1, wrong) : true;
}

/* ---- P3, P4 ---------------------------------------------------------------------------------- */

static bool denials_write(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].count_denied || p->layer[i].algorithm == WEIR_BLOCK)
            return true;
    }
    return false;
}

static bool same_fields(const weir_decision *a, const weir_decision *b)
{
    return a->limit == b->limit && a->remaining == b->remaining &&
           a->reset_after_ns == b->reset_after_ns;
}

/* A peek predicts the decision on the same request. */
static bool peek_is_true(const input *in, const cell *c, const step *s)
{
    weir_decision peek, none;
    cell copy = cell_copy(c);
    bool good =
        weir_peek(&in->policy, copy.state, copy.level, s->t_ns, s->cost, &peek) == WEIR_OK &&
        memcmp(copy.state, c->state, cell_bytes(c)) == 0;
    none = cell_take(&copy, s->t_ns, 0);
    weir_decision real = cell_take(&copy, s->t_ns, s->cost);
    free(copy.state);
    good = good && peek.allowed == real.allowed && peek.never == real.never;
    if (peek.allowed)
        return good && peek.retry_after_ns == 0 && same_fields(&peek, &none);
    return good &&
           (denials_write(&in->policy) || (peek.retry_after_ns == real.retry_after_ns &&
                                           peek.layer == real.layer && same_fields(&peek, &real)));
}

bool p3_denial_writes_nothing(const input *in)
{
    cell c = cell_new(&in->policy);
    bool good = true;
    size_t i = 0;
    for (; i < in->steps && good; i++) {
        if (!peek_is_true(in, &c, &in->step[i])) {
            free(c.state);
            return fail(in, "P3", i, "a peek changed the state, or predicted another decision");
        }
        cell before = cell_copy(&c);
        weir_decision d = cell_take(&c, in->step[i].t_ns, in->step[i].cost);
        bool silent = in->step[i].cost == 0 || (!d.allowed && !denials_write(&in->policy));
        if (silent)
            good = before.level == c.level && memcmp(before.state, c.state, cell_bytes(&c)) == 0;
        free(before.state);
    }
    free(c.state);
    return good ? true : fail(in, "P3", i - 1, "a denial or a peek changed the state");
}

bool p4_clock_back_is_stricter(const input *in)
{
    cell c = cell_new(&in->policy);
    bool good = true;
    size_t i = 0;
    for (; i < in->steps && good; i++) {
        const step *s = &in->step[i];
        cell_take(&c, s->t_ns, s->cost);
        bool allowed = cell_try(&c, s->t_ns, s->cost).allowed;
        for (int64_t back_ns = 1; back_ns <= s->t_ns && good; back_ns *= 60) {
            bool earlier = cell_try(&c, s->t_ns - back_ns, s->cost).allowed;
            good = allowed || !earlier;
            allowed = earlier;
            if (back_ns > INT64_MAX / 60)
                break;
        }
    }
    free(c.state);
    return good ? true : fail(in, "P4", i - 1, "an earlier clock allowed more");
}

/* ---- P6, P7 ---------------------------------------------------------------------------------- */

static bool same(const weir_decision *a, const weir_decision *b)
{
    return a->allowed == b->allowed && a->never == b->never && a->limit == b->limit &&
           a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
           a->reset_after_ns == b->reset_after_ns && a->layer == b->layer;
}

bool p6_buckets_agree(const input *in)
{
    const weir_layer *l = &in->policy.layer[0];
    if (in->policy.layers > 1 || !weir_layer_can(l, WEIR_CAN_DRAIN_EVENLY))
        return true;
    weir_policy other = in->policy;
    other.layer[0].algorithm =
        l->algorithm == WEIR_TOKEN_BUCKET ? WEIR_LEAKY_BUCKET : WEIR_TOKEN_BUCKET;
    if (weir_layer_init(&other.layer[0], NULL) != WEIR_OK)
        return fail(in, "P6", 0, "the policy is invalid with the other algorithm");
    cell a = cell_new(&in->policy), b = cell_new(&other);
    bool good = true;
    size_t i = 0;
    for (; i < in->steps && good; i++) {
        weir_decision x = cell_take(&a, in->step[i].t_ns, in->step[i].cost);
        weir_decision y = cell_take(&b, in->step[i].t_ns, in->step[i].cost);
        good = same(&x, &y);
    }
    free(a.state);
    free(b.state);
    return good ? true : fail(in, "P6", i - 1, "token-bucket and leaky-bucket differ");
}

/* Whether a refund has undone the charge. Without a reservation, a concurrent layer gives back the
 * units whose leases end first, so only the sum is as before. */
static bool undone(const weir_policy *p, const weir_decision *before, const weir_decision *after)
{
    return weir_policy_hold(p) ? before->remaining == after->remaining : same(before, after);
}

bool p7_refund_undoes(const input *in)
{
    cell c = cell_new(&in->policy);
    bool good = true;
    size_t i = 0;
    for (; i < in->steps && good; i++) {
        const step *s = &in->step[i];
        weir_decision before = cell_try(&c, s->t_ns, 0), after;
        if (!cell_take(&c, s->t_ns, s->cost).allowed)
            continue;
        cell copy = cell_copy(&c);
        weir_status st = weir_refund(copy.policy, copy.state, copy.level, s->t_ns, s->cost, &after);
        if (st == WEIR_E_UNSUPPORTED)
            good = memcmp(copy.state, c.state, cell_bytes(&c)) == 0;
        else
            good = st == WEIR_OK && undone(c.policy, &before, &after);
        free(copy.state);
    }
    free(c.state);
    return good ? true : fail(in, "P7", i - 1, "an immediate refund does not undo the charge");
}

/* ---- P8 -------------------------------------------------------------------------------------- */

/* Returns the most that was allowed in any span [t, t + length). */
static int64_t most_within(const run *r, int64_t length_ns)
{
    int64_t most = 0;
    for (size_t i = 0; i < r->len; i++) {
        int64_t sum = 0;
        for (size_t k = i; k < r->len && r->step[k].t_ns - r->step[i].t_ns < length_ns; k++)
            sum += r->step[k].cost;
        most = sum > most ? sum : most;
    }
    return most;
}

bool p8_report_is_true(const input *in)
{
    static const char worst[] = "worst case  ";
    const weir_layer *l = &in->policy.layer[0];
    if (in->policy.layers > 1 || l->period_ns == 0 || weir_layer_holds(l))
        return true;
    char report[WEIR_POLICY_REPORT_MAX];
    weir_policy_report(&in->policy, report, sizeof report);
    const char *at = strstr(report, worst);
    if (!at)
        return fail(in, "P8", 0, "no worst case in the report");
    run r = allowed_run(in);
    int64_t said = strtoll(at + sizeof worst - 1, NULL, 10);
    return most_within(&r, l->period_ns) <= said
               ? true
               : fail(in, "P8", in->steps - 1,
                      "more was allowed than the worst case of the report");
}

/* ---- P9 -------------------------------------------------------------------------------------- */

/* `plain_ns` is the delay without nodelay: the backlog, rounded up. */
static const char *wrong_delay(const weir_layer *l, const weir_decision *d, int64_t plain_ns)
{
    i128 rate = l->rate, undelayed = (i128)l->nodelay * l->period_ns;
    i128 backlog_max = plain_ns * rate, backlog_min = plain_ns > 0 ? backlog_max - rate + 1 : 0;
    if (d->delay_ns < 0 || d->delay_ns * rate < backlog_min - undelayed)
        return "delayed too little";
    if (d->delay_ns > 0 && (d->delay_ns - 1) * rate >= backlog_max - undelayed)
        return "delayed too long";
    return NULL;
}

typedef struct served { /* the allowed requests of a leaky-queue, in order */
    size_t len;
    int64_t at_ns[STEPS_MAX], cost[STEPS_MAX];
} served;

/* For all i < k: sum(cost i..k-1) * T <= K * T + (s_k - s_i). Each s may be rounded up by less than
 * a nanosecond. */
static const char *wrong_service(const weir_layer *l, const served *s)
{
    for (size_t i = 0; i < s->len; i++) {
        i128 sum = 0;
        for (size_t k = i + 1; k < s->len; k++) {
            if (s->at_ns[k] < s->at_ns[k - 1])
                return "served before an earlier request";
            sum += s->cost[k - 1];
            i128 span_ns = (i128)s->at_ns[k] - s->at_ns[i] + (l->num > 1);
            if (sum * l->period_ns > (i128)l->nodelay * l->period_ns + span_ns * l->rate)
                return "more was served than the bound permits";
        }
    }
    return NULL;
}

bool p9_queue_has_two_stages(const input *in)
{
    const weir_layer *l = &in->policy.layer[0];
    if (in->policy.layers > 1 || !weir_layer_can(l, WEIR_CAN_DELAY))
        return true;
    weir_policy plain = in->policy;
    plain.layer[0].nodelay = 0;
    cell a = cell_new(&in->policy), b = cell_new(&plain);
    const char *wrong = NULL;
    served s = {0};
    size_t i = 0;
    for (; i < in->steps && !wrong; i++) {
        weir_decision d = cell_take(&a, in->step[i].t_ns, in->step[i].cost);
        weir_decision one = cell_take(&b, in->step[i].t_ns, in->step[i].cost);
        wrong = same(&d, &one) ? wrong_delay(l, &d, one.delay_ns) : "nodelay changes the decision";
        if (d.allowed && in->step[i].cost > 0) {
            s.at_ns[s.len] = in->step[i].t_ns + d.delay_ns;
            s.cost[s.len++] = in->step[i].cost;
        }
    }
    if (!wrong)
        wrong = wrong_service(l, &s);
    free(a.state);
    free(b.state);
    return wrong ? fail(in, "P9", i - 1, wrong) : true;
}

/* ---- P10: what a request keeps --------------------------------------------------------------- */

static weir_decision cell_take_keep(cell *c, int64_t t_ns, int64_t cost, int64_t keep)
{
    weir_decision d;
    weir_status st;
    while ((st = weir_check_keep(c->policy, c->state, c->level, t_ns, cost, keep, &d)) ==
           WEIR_E_ROOM)
        cell_grow(c);
    if (st != WEIR_OK)
        abort();
    return d;
}

static weir_decision cell_try_keep(const cell *c, int64_t t_ns, int64_t cost, int64_t keep)
{
    cell copy = cell_copy(c);
    weir_decision d = cell_take_keep(&copy, t_ns, cost, keep);
    free(copy.state);
    return d;
}

static const char *wrong_keep_retry(const cell *c, const step *s, int64_t keep,
                                    const weir_decision *d)
{
    int64_t wait_ns = d->retry_after_ns;
    if (d->never)
        return wait_ns != INT64_MAX || cell_try_keep(c, WEIR_NOW_NS_MAX, s->cost, keep).allowed
                   ? "never, but allowed"
                   : NULL;
    if (wait_ns < 1 || (in_time(s->t_ns, wait_ns - 1) &&
                        cell_try_keep(c, s->t_ns + wait_ns - 1, s->cost, keep).allowed))
        return "allowed before retry_after";
    if (in_time(s->t_ns, wait_ns) && !cell_try_keep(c, s->t_ns + wait_ns, s->cost, keep).allowed)
        return "denied at retry_after";
    return NULL;
}

/* `after` is the state after an allowed request. */
static const char *wrong_charge(const cell *c, const cell *after, const step *s, int64_t keep)
{
    cell plain = cell_copy(c);
    weir_decision d = cell_take(&plain, s->t_ns, s->cost);
    bool same_state =
        plain.level == after->level && memcmp(plain.state, after->state, cell_bytes(after)) == 0;
    free(plain.state);
    if (!d.allowed || !same_state)
        return "it is not charged as without keep";
    for (uint32_t i = 0; i < c->policy->layers; i++) {
        int64_t kept = keep >= 0 ? keep : (c->policy->layer[i].limit * -keep + 99) / 100;
        if (c->policy->layers == 1 && !cell_try(after, s->t_ns, kept).allowed)
            return "what is kept is not left";
    }
    return keep < 0 || cell_try(after, s->t_ns, keep).allowed ? NULL
                                                              : "units that are kept are gone";
}

static const char *wrong_keep(const cell *c, const step *s, int64_t keep)
{
    weir_decision peek;
    cell after = cell_copy(c), untouched = cell_copy(c);
    weir_decision d = cell_take_keep(&after, s->t_ns, s->cost, keep);
    const char *wrong = NULL;
    if (weir_peek_keep(c->policy, untouched.state, c->level, s->t_ns, s->cost, keep, &peek) !=
            WEIR_OK ||
        memcmp(untouched.state, c->state, cell_bytes(c)) != 0)
        wrong = "a peek failed or wrote";
    else if (peek.allowed != d.allowed || peek.never != d.never)
        wrong = "a peek decides otherwise";
    else if (d.remaining < 0 || d.remaining > d.limit || (!d.allowed && d.delay_ns != 0))
        wrong = "a field is out of range";
    else if (d.allowed)
        wrong = d.retry_after_ns != 0 || d.never ? "allowed, and a wait"
                                                 : wrong_charge(c, &after, s, keep);
    else
        wrong = wrong_keep_retry(&after, s, keep, &d);
    if (!wrong && d.allowed &&
        (!cell_try_keep(&after, s->t_ns, d.remaining, keep).allowed ||
         (d.remaining < WEIR_COST_MAX &&
          cell_try_keep(&after, s->t_ns, d.remaining + 1, keep).allowed)))
        wrong = "remaining is not the largest cost with this keep";
    free(after.state);
    free(untouched.state);
    return wrong;
}

bool p10_keep_leaves_units(const input *in)
{
    cell c = cell_new(&in->policy);
    const char *wrong = NULL;
    size_t i = 0;
    for (; i < in->steps && !wrong; i++) {
        int64_t left = cell_try(&c, in->step[i].t_ns, 0).remaining;
        const int64_t keeps[] = {1,
                                 left,
                                 left > 0 ? left - 1 : 2,
                                 in->policy.layer[0].limit,
                                 WEIR_COST_MAX,
                                 WEIR_KEEP_PERCENT(1),
                                 WEIR_KEEP_PERCENT(20),
                                 WEIR_KEEP_PERCENT(100)};
        for (size_t k = 0; k < sizeof keeps / sizeof keeps[0] && !wrong; k++)
            wrong = wrong_keep(&c, &in->step[i], keeps[k]);
        cell_take(&c, in->step[i].t_ns, in->step[i].cost);
    }
    free(c.state);
    return wrong ? fail(in, "P10", i - 1, wrong) : true;
}

bool all_properties(const input *in)
{
    return p1_bound(in) && p2_fields(in) && p3_denial_writes_nothing(in) &&
           p4_clock_back_is_stricter(in) && p6_buckets_agree(in) && p7_refund_undoes(in) &&
           p8_report_is_true(in) && p9_queue_has_two_stages(in) && p10_keep_leaves_units(in) &&
           p11_block_ends(in) && p12_charge(in);
}
