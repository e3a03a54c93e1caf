/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The search: bisection over the limit, for each burst of a ladder.
 *
 * Whether a key is ever denied is monotone in the limit and in the burst. As long as nothing was
 * denied, the state holds all units of the key so far, whatever the limit is. So the first denial
 * under a limit is a request that a smaller limit denies too, unless it has denied one before.
 * Therefore, a key that is not denied at some limit and burst needs no decision at larger ones.
 *
 * If all costs are equal, the number of denied requests is monotone too. The n-th request that is
 * allowed under a larger limit is never later than the n-th under a smaller one: at that time, the
 * earlier n - 1 are at least as old as their counterparts, and so they count no more. If costs
 * differ, a larger limit may allow a large request whose charge then denies several small ones.
 * Windows that begin at a request, and denials that count, are not monotone either. There the
 * search finds a limit that meets the target while the next smaller one does not, and then tries a
 * few smaller ones. */

#include "cmd/suggest/suggest.h"

#include "accesslog/messages.h"
#include "cmd/kit/caret.h"
#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"

#include <string.h>

enum {
    NEIGHBOURS = 8,    /* smaller limits to try if the number of denied requests is not monotone */
    PROBES_MAX = 1024, /* to look for a better pair between two steps of the ladder */
    BURSTS_BEYOND = 4, /* the ladder ends at this multiple of the smallest limit + burst */
};

typedef struct search {
    const suggest_options *o;
    const weir_zones *zones;
    const suggest_trace *t;
    suggest_decider d;
    uint64_t allowed;  /* of the target */
    bool monotone;     /* the measure of the target is monotone in the limit and the burst */
    int64_t limit_max; /* the most units of a key: larger limits are pointless */
    uint32_t *order;   /* all keys */
    size_t active; /* the other keys are not denied at `base`, with this burst or a larger one */
    int64_t base;  /* a limit that does not meet the target; 0: `active` is all keys */
    int64_t met;   /* the limit that was found last; 0: none yet */
} search;

/* ---- policies -------------------------------------------------------------------------------- */

static weir_status parse(const suggest_options *o, const weir_zones *zones, int64_t limit,
                         int64_t burst, weir_policy *ret, weir_policy_error *ret_error, char *text)
{
    if (!suggest_policy_text(o, limit, burst, text))
        return WEIR_E_SYNTAX;
    return weir_policy_parse(ret, text, strlen(text), zones, ret_error);
}

int suggest_check_period(const suggest_options *o, const weir_zones *zones)
{
    char text[SUGGEST_POLICY_MAX];
    weir_policy p;
    weir_policy_error error = {0};
    if (parse(o, zones, 1, 1, &p, &error, text) != WEIR_OK) {
        if (error.column == 0)
            return accesslog_complain(ACCESSLOG_USAGE, "--per: the text is too long");
        caret_policy_error("weir suggest: --per", text, &error);
        return ACCESSLOG_USAGE;
    }
    if (p.layers > 1)
        return accesslog_complain(ACCESSLOG_USAGE, "--per: expected one period, found '%s'",
                                  o->per);
    return 0;
}

/* Sets the policy that decides. Returns false if there is none: with a very long period, a small
 * limit allows no large burst. */
static bool set_policy(search *s, int64_t limit, int64_t burst)
{
    char text[SUGGEST_POLICY_MAX];
    return parse(s->o, s->zones, limit, burst, &s->d.policy, NULL, text) == WEIR_OK;
}

/* ---- one limit ------------------------------------------------------------------------------- */

/* Whether the first `n` keys meet the target. */
static bool meets(search *s, size_t n, int64_t limit, int64_t burst)
{
    uint64_t left = s->allowed;
    if (!set_policy(s, limit, burst))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t most = s->o->target.requests ? left + 1 : 1;
        uint64_t denied = suggest_denied(&s->d, s->t, s->order[i], s->t->split_ns, most);
        if (denied > left)
            return false;
        left -= denied;
    }
    return true;
}

/* Moves those of the first *n keys that are denied to the front, and sets *n to their number.
 * Without such a policy, *n does not change. Returns whether the target is met. */
static bool sift(search *s, size_t *n, int64_t limit, int64_t burst)
{
    uint64_t most = s->o->target.requests ? UINT64_MAX : 1, sum = 0;
    size_t front = 0;
    if (!set_policy(s, limit, burst))
        return false;
    for (size_t i = 0; i < *n; i++) {
        uint32_t key = s->order[i];
        uint64_t denied = suggest_denied(&s->d, s->t, key, s->t->split_ns, most);
        sum += denied;
        if (denied > 0) {
            s->order[i] = s->order[front];
            s->order[front++] = key;
        }
    }
    *n = front;
    return sum <= s->allowed;
}

/* ---- one burst ------------------------------------------------------------------------------- */

/* Finds a first limit that meets the target by doubling, with the limit below it as the base. */
static bool gallop(search *s, int64_t burst)
{
    if (!sift(s, &s->active, s->limit_max, burst))
        return false;
    s->active = s->t->keys;
    for (int64_t limit = 1;; limit = limit < s->limit_max / 2 ? 2 * limit : s->limit_max) {
        size_t n = s->active;
        if (sift(s, &n, limit, burst) || limit == s->limit_max) {
            s->met = limit;
            return true;
        }
        s->active = n;
        s->base = limit;
    }
}

/* Lowers the base until it does not meet the target with this larger burst. */
static void descend(search *s, int64_t burst)
{
    WEIR_ASSERT(s->met > 0);
    while (s->base > 0 && meets(s, s->active, s->base, burst)) {
        s->met = s->base;
        s->base /= 2;
        s->active = s->t->keys;
        if (s->base > 0)
            sift(s, &s->active, s->base, burst);
    }
}

/* Returns the smallest limit above `low` that meets the target, if `low` does not, or is 0, and
 * `high` does. */
static int64_t bisect(search *s, size_t n, int64_t low, int64_t high, int64_t burst)
{
    WEIR_ASSERT(low >= 0 && low < high);
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (meets(s, n, mid, burst))
            high = mid;
        else
            low = mid;
    }
    return high;
}

/* Tries smaller limits than `limit`, for a measure that is not monotone. */
static int64_t try_neighbours(search *s, int64_t limit, int64_t burst)
{
    for (int64_t i = 1; i <= NEIGHBOURS && limit - i > s->base; i++) {
        if (meets(s, s->active, limit - i, burst)) {
            limit -= i;
            i = 0;
        }
    }
    return limit;
}

/* Returns the smallest limit that meets the target with this burst, or 0 if none does. Bursts must
 * ascend from call to call. */
static int64_t locate(search *s, int64_t burst)
{
    if (s->met == 0) {
        if (!gallop(s, burst))
            return 0;
    } else if (!s->monotone && !meets(s, s->active, s->met, burst)) {
        return 0;
    } else {
        descend(s, burst);
    }
    int64_t high = bisect(s, s->active, s->base, s->met, burst);
    s->met = s->monotone ? high : try_neighbours(s, high, burst);
    return s->met;
}

/* ---- all bursts ------------------------------------------------------------------------------ */

/* Returns the smallest number of the ladder 1, 2, 3, 5, 8, 10, 15, 20, 30, 50, ... that is at least
 * `n`. */
static int64_t nice(int64_t n)
{
    static const int tenths[] = {10, 15, 20, 30, 50, 80};
    for (int64_t power = 1;; power *= 10) {
        for (size_t i = 0; i < sizeof tenths / sizeof tenths[0]; i++) {
            int64_t step = power * tenths[i] / 10;
            if (step >= n)
                return step;
        }
    }
}

/* Finds the smallest limit for each burst. A pair with a larger burst and no smaller limit is left
 * out. */
static void search_bursts(search *s, suggest_found *ret, int64_t below[SUGGEST_CHOICES_MAX])
{
    int64_t least = INT64_MAX, last = 0;
    for (int64_t burst = 1; ret->len < SUGGEST_CHOICES_MAX - 1; burst = nice(burst + 1)) {
        burst = burst < s->limit_max ? burst : s->limit_max;
        int64_t limit = locate(s, burst);
        if (limit > 0 && (ret->len == 0 || limit < ret->choice[ret->len - 1].limit)) {
            below[ret->len] = last;
            ret->choice[ret->len].burst = burst;
            ret->choice[ret->len++].limit = limit;
            least = limit + burst < least ? limit + burst : least;
        }
        if (limit == 1 || burst >= s->limit_max || burst / BURSTS_BEYOND >= least)
            return;
        last = burst;
    }
}

/* What may be better than the best pair so far. */
typedef struct gap {
    int64_t sum;          /* of the limit and the burst of the best pair so far */
    int64_t limit, burst; /* the best pair in the gap; 0: none */
    size_t keys;          /* those that may be denied: the first ones of the order */
    int probes;           /* that are left */
    bool ended_early;     /* no probe was left */
} gap;

/* Looks for a pair with low < burst < high and a smaller sum.
 *  limit  no burst below `high` meets the target with a smaller limit. */
static void search_gap(search *s, gap *g, int64_t low, int64_t high, int64_t limit)
{
    if (high - low < 2 || low + 1 + limit >= g->sum)
        return;
    if (g->probes == 0) {
        g->ended_early = true;
        return;
    }
    g->probes--;
    int64_t mid = low + (high - low) / 2, most = g->sum - 2 - low;
    most = most < s->limit_max ? most : s->limit_max;
    if (meets(s, g->keys, most, mid)) { /* else the lower half has no better pair */
        int64_t least = bisect(s, g->keys, limit - 1, most, mid);
        if (least + mid < g->sum) {
            g->sum = least + mid;
            g->limit = least;
            g->burst = mid;
        }
        search_gap(s, g, low, mid, least);
    }
    search_gap(s, g, mid, high, limit);
}

/* Finds the pair with the smallest sum of limit and burst, which may be between two steps of the
 * ladder, and inserts it.
 *  below  for each choice a burst that does not meet the target at its limit, or 0. */
static void search_gaps(search *s, size_t keys, suggest_found *ret,
                        int64_t below[SUGGEST_CHOICES_MAX])
{
    gap g = {.sum = INT64_MAX, .keys = keys, .probes = PROBES_MAX};
    size_t at = 0;
    for (size_t i = 0; i < ret->len; i++) {
        int64_t sum = ret->choice[i].limit + ret->choice[i].burst;
        g.sum = sum < g.sum ? sum : g.sum;
    }
    for (size_t i = 0; i < ret->len; i++) {
        int64_t before = g.sum;
        search_gap(s, &g, below[i], ret->choice[i].burst, ret->choice[i].limit);
        at = g.sum < before ? i : at;
    }
    ret->complete = !g.ended_early;
    if (g.burst == 0)
        return;
    WEIR_ASSERT(ret->len < SUGGEST_CHOICES_MAX);
    if (g.limit > ret->choice[at].limit) {
        memmove(&ret->choice[at + 1], &ret->choice[at], (ret->len - at) * sizeof *ret->choice);
        memmove(&below[at + 1], &below[at], (ret->len - at) * sizeof *below);
        ret->len++;
        below[at + 1] = g.burst;
    }
    ret->choice[at].limit = g.limit;
    ret->choice[at].burst = g.burst;
}

/* Lowers each burst between the steps of the ladder, so that neither number can be smaller. */
static void lower_bursts(search *s, size_t keys, suggest_found *ret,
                         const int64_t below[SUGGEST_CHOICES_MAX])
{
    for (size_t i = 0; i < ret->len; i++) {
        suggest_choice *c = &ret->choice[i];
        int64_t low = below[i];
        while (c->burst - low > 1) {
            int64_t mid = low + (c->burst - low) / 2;
            if (meets(s, keys, c->limit, mid))
                c->burst = mid;
            else
                low = mid;
        }
    }
}

/* Finds all pairs. */
static void search_pairs(search *s, suggest_found *ret)
{
    int64_t below[SUGGEST_CHOICES_MAX] = {0};
    size_t keys = s->t->keys;
    search_bursts(s, ret, below);
    if (ret->len == 0)
        return;
    sift(s, &keys, ret->choice[ret->len - 1].limit, below[0] > 0 ? below[0] : 1);
    if (s->monotone)
        search_gaps(s, keys, ret, below);
    lower_bursts(s, keys, ret, below);
}

/* ---- algorithms without a burst -------------------------------------------------------------- */

/* Finds the smallest limit, and puts a few limits around it beside it. */
static void search_limit(search *s, suggest_found *ret)
{
    static const int quarters[] = {1, 2, 3, 4, 6, 8, 16};
    int64_t limit = locate(s, 1), last = 0;
    for (size_t i = 0; limit > 0 && i < sizeof quarters / sizeof quarters[0]; i++) {
        int64_t other = (limit * quarters[i] + 3) / 4;
        if (other > last && other <= WEIR_LIMIT_MAX)
            ret->choice[ret->len++].limit = other;
        last = other;
    }
    for (size_t i = 0; i < ret->len; i++)
        ret->best = ret->choice[i].limit == limit ? i : ret->best;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* The same, up to the largest limit of the policy language. */
static int64_t nice_limit(int64_t n)
{
    int64_t step = nice(n);
    return step < WEIR_LIMIT_MAX ? step : WEIR_LIMIT_MAX;
}

/* Rounds all numbers up, and removes pairs that have become equal. */
static void round_up(suggest_found *ret)
{
    size_t len = 0, best = 0;
    for (size_t i = 0; i < ret->len; i++) {
        suggest_choice c = ret->choice[i];
        c.limit = nice_limit(c.limit);
        c.burst = c.burst > 0 ? nice_limit(c.burst) : 0;
        if (len == 0 || c.limit != ret->choice[len - 1].limit ||
            c.burst != ret->choice[len - 1].burst)
            ret->choice[len++] = c;
        best = i == ret->best ? len - 1 : best;
    }
    WEIR_ASSERT(len == 0 || best < len);
    ret->len = len;
    ret->best = best;
}

/* Returns the worst case that `weir policy` prints, which no other function returns. */
static int64_t worst_case(const weir_policy *p)
{
    static const char label[] = "worst case  ";
    char report[WEIR_POLICY_REPORT_MAX];
    uint64_t n = 0;
    weir_policy_report(p, report, sizeof report);
    const char *at = strstr(report, label);
    if (at)
        weir_digits_read(at + strlen(label), strlen(at) - strlen(label), &n);
    return (int64_t)n;
}

static void finish_choice(search *s, suggest_choice *c)
{
    if (!set_policy(s, c->limit, c->burst))
        return;
    weir_policy_print(&s->d.policy, c->text, sizeof c->text);
    c->worst_case = worst_case(&s->d.policy);
}

/* Decides the whole log by each choice. Keys that the tightest limit and burst never deny are left
 * out. */
static void decide_choices(search *s, suggest_found *ret)
{
    suggest_choice tightest = {.limit = INT64_MAX, .burst = INT64_MAX};
    size_t n = 0;
    for (size_t i = 0; i < ret->len; i++) {
        const suggest_choice *c = &ret->choice[i];
        tightest.limit = c->limit < tightest.limit ? c->limit : tightest.limit;
        tightest.burst = c->burst < tightest.burst ? c->burst : tightest.burst;
    }
    bool valid = set_policy(s, tightest.limit, tightest.burst);
    for (size_t i = 0; i < s->t->keys; i++) {
        uint32_t key = s->order[i];
        if (!valid || suggest_denied(&s->d, s->t, key, INT64_MAX, 1) > 0) {
            s->order[i] = s->order[n];
            s->order[n++] = key;
        }
    }
    for (size_t i = 0; i < ret->len; i++) {
        suggest_choice *c = &ret->choice[i];
        finish_choice(s, c);
        ret->period_ns = s->d.policy.layer[0].period_ns;
        c->result = ret->totals;
        for (size_t j = 0; j < n; j++)
            suggest_decide(&s->d, s->t, s->order[j], &c->result);
    }
}

/* The choice with the smallest worst case, and among equals with the smallest burst. */
static size_t best_of(const suggest_found *f)
{
    size_t best = 0;
    for (size_t i = 1; i < f->len; i++) {
        if (f->choice[i].worst_case < f->choice[best].worst_case)
            best = i;
    }
    return best;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* The binary logarithm of the number of requests of a key. */
static unsigned size_class(const suggest_trace *t, uint32_t key)
{
    unsigned class = 0;
    for (size_t n = t->begin[key + 1] - t->begin[key]; n > 1; n /= 2)
        class ++;
    return class;
}

/* Orders the keys by size, the largest first: they are denied first, and end a probe early. */
static void order_keys(search *s)
{
    enum { CLASSES = 33 };
    size_t at[CLASSES + 1] = {0};
    for (uint32_t k = 0; k < s->t->keys; k++)
        at[CLASSES - size_class(s->t, k)]++;
    for (size_t c = 0; c < CLASSES; c++)
        at[c + 1] += at[c];
    for (uint32_t k = 0; k < s->t->keys; k++)
        s->order[at[CLASSES - size_class(s->t, k) - 1]++] = k;
}

/* The most units of a key in the searched part, 1..WEIR_LIMIT_MAX. */
static int64_t most_units(const suggest_trace *t)
{
    int64_t most = 1;
    for (uint32_t k = 0; k < t->keys; k++) {
        int64_t units = 0;
        for (size_t i = t->begin[k]; i < t->begin[k + 1] && units < WEIR_LIMIT_MAX; i++) {
            const suggest_request *r = &t->request[i];
            if (r->now_ns < t->split_ns && r->cost != SUGGEST_COST_ABOVE)
                units += r->cost;
        }
        most = units > most ? units : most;
    }
    return most < WEIR_LIMIT_MAX ? most : WEIR_LIMIT_MAX;
}

bool suggest_is_met(const suggest_target *t, const suggest_counts *part)
{
    return t->requests ? part->requests_denied <= suggest_target_allows(t, part->requests)
                       : part->keys_denied <= suggest_target_allows(t, part->keys);
}

static void run(search *s, suggest_found *ret)
{
    bool bucket = s->o->algorithm->bucket;
    ret->complete = s->monotone;
    order_keys(s);
    if (bucket)
        search_pairs(s, ret);
    else
        search_limit(s, ret);
    if (s->o->round)
        round_up(ret);
    decide_choices(s, ret);
    if (bucket)
        ret->best = best_of(ret);
}

weir_status suggest_search(const suggest_options *o, const weir_zones *zones,
                           const suggest_trace *t, suggest_found *ret)
{
    search s = {.o = o, .zones = zones, .t = t, .active = t->keys, .limit_max = most_units(t)};
    s.monotone = !o->target.requests || (!t->mixed_costs && !strchr(o->per, ' ')); /* no option */
    s.order = port_zalloc(t->keys, sizeof *s.order);
    if (!s.order)
        return WEIR_E_NOMEM;
    ret->totals = suggest_totals(t);
    const suggest_counts *part = &ret->totals.searched;
    ret->allowed = s.allowed =
        suggest_target_allows(&o->target, o->target.requests ? part->requests : part->keys);
    run(&s, ret);
    suggest_decider_free(&s.d);
    port_free(s.order);
    return s.d.status;
}
