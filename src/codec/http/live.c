/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises the events of /v1/live. A stream remembers sums for each policy, so that a tick has
 * only the policies whose counters changed. */

#include "codec/http/live.h"

#include "codec/answer/json.h"
#include "codec/answer/metrics.h"
#include "port/assert.h"
#include "port/port.h"
#include "service/top/top.h"

#include <inttypes.h>

/* Sums of counters, by index; those beyond the array are 0. */
typedef struct sums {
    uint64_t *at;
    size_t len;
} sums;

struct weir_http_live {
    const weir_http_options *options;
    weir_login login;
    int64_t next_ns;
    bool ticked;           /* the first tick, which has all policies, was sent */
    uint64_t generation;   /* of the rules that the client knows */
    weir_latency latency;  /* at the last tick */
    sums seen, candidates; /* of each policy at the last tick */
};

static weir_limiter *limiter_of(const weir_http_live *l)
{
    return weir_service_limiter(l->options->service);
}

bool weir_http_live_may_go_on(weir_http_live *l, const void *peer)
{
    weir_login_refresh(&l->login, l->options->access, peer);
    return l->login.everything || (l->login.user && weir_user_may(l->login.user, WEIR_MAY_TOP));
}

static bool sees(const weir_http_live *l, const char *policy)
{
    return weir_user_sees(weir_login_bounds(&l->login), (weir_slice){policy, strlen(policy)});
}

/* ---- hello, policies ------------------------------------------------------------------------- */

/* Policies that are appended. */
typedef struct policies {
    const weir_http_live *live;
    weir_buffer *out;
} policies;

static bool put_policy(void *ctx, const weir_rule_view *rule)
{
    const policies *p = ctx;
    weir_buffer *b = p->out;
    if (!sees(p->live, rule->name))
        return true;
    bool first = weir_buffer_data(b)[weir_buffer_len(b) - 1] == '[';
    weir_buffer_printf(b, "%s{\"name\":", first ? "" : ",");
    weir_json_put_string(b, rule->name, strlen(rule->name));
    weir_buffer_printf(b, ",\"limit\":");
    weir_json_put_string(b, rule->limit, strlen(rule->limit));
    weir_buffer_printf(b, ",\"engine\":\"%s\",\"shadow\":%s,\"candidate\":",
                       weir_engine_word(rule->engine), rule->shadow ? "true" : "false");
    if (rule->candidate)
        weir_json_put_string(b, rule->candidate, strlen(rule->candidate));
    else
        weir_buffer_printf(b, "null");
    weir_buffer_append(b, "}", 1);
    return !b->failed;
}

/* Appends the member "policies". */
static void put_policies(weir_http_live *l, weir_buffer *b)
{
    /* The number is read first: a change in between is announced again at the next tick. */
    l->generation = weir_limiter_generation(limiter_of(l));
    weir_buffer_printf(b, "\"policies\":[");
    policies p = {l, b};
    if (!b->failed)
        weir_service_rules(l->options->service, put_policy, &p);
    weir_buffer_printf(b, "]");
}

static void put_hello(weir_http_live *l, int64_t now_ns, weir_buffer *b)
{
    const weir_http_options *o = l->options;
    weir_buffer_printf(b, "event: hello\ndata: {\"version\":");
    weir_json_put_string(b, o->version, strlen(o->version));
    weir_buffer_put(b, ",\"start_ms\":", o->started_ns / 1000000);
    weir_buffer_put(b, ",\"now_ms\":", now_ns / 1000000);
    weir_buffer_put(b, ",\"interval_ms\":", WEIR_HTTP_LIVE_NS / 1000000);
    weir_buffer_printf(b, ",\"top\":%s,\"password\":%s,",
                       weir_limiter_top_keys(limiter_of(l)) > 0 ? "true" : "false",
                       weir_access_is_limited(o->access) ? "true" : "false");
    put_policies(l, b);
    weir_buffer_printf(b, "}\n\n");
}

/* ---- ticks ----------------------------------------------------------------------------------- */

typedef struct tick {
    weir_http_live *live;
    weir_buffer *out;
    size_t rules, others; /* of the names visited */
    bool any;             /* a policy was appended */
} tick;

/* Stores a sum. Returns whether the tick must contain it: it has changed, the tick is the first
 * one, or memory is exhausted. */
static bool is_news(const tick *t, sums *seen, size_t i, uint64_t sum)
{
    if (i >= seen->len) {
        size_t len = i < 8 ? 16 : 2 * i;
        uint64_t *at = port_zalloc(len, sizeof *at);
        if (!at)
            return true;
        if (seen->at)
            memcpy(at, seen->at, seen->len * sizeof *at);
        port_free(seen->at);
        *seen = (sums){at, len};
    }
    WEIR_ASSERT(i < seen->len);
    bool changed = seen->at[i] != sum;
    seen->at[i] = sum;
    return changed || !t->live->ticked;
}

static void put_counts(void *ctx, const char *name, const weir_counts *c)
{
    tick *t = ctx;
    uint64_t sum = 0;
    for (size_t i = 0; i < WEIR_VERDICTS; i++)
        sum += weir_counter_value(&weir_verdict_counters[i], c);
    /* A place that stays the same although names are added: the three names of requests without a
     * rule are visited last. */
    size_t place = name[0] == '(' ? t->others++ : 3 + t->rules++;
    if (!is_news(t, &t->live->seen, place, sum) || !sees(t->live, name))
        return;
    weir_buffer_printf(t->out, "%s", t->any ? "," : "");
    weir_json_put_string(t->out, name, strlen(name));
    for (size_t i = 0; i < WEIR_VERDICTS; i++)
        weir_buffer_put(t->out, i == 0 ? ":[" : ",",
                        (int64_t)weir_counter_value(&weir_verdict_counters[i], c));
    weir_buffer_append_byte(t->out, ']');
    t->any = true;
}

static void put_candidate(void *ctx, const char *name, size_t index, const weir_candidate_counts *c)
{
    tick *t = ctx;
    const uint64_t counts[] = {c->both_allow, c->both_deny, c->only_current_denies,
                               c->only_candidate_denies, c->overridden};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        sum += counts[i];
    if (!is_news(t, &t->live->candidates, index, sum) || !sees(t->live, name))
        return;
    weir_buffer_printf(t->out, "%s", t->any ? "," : "");
    weir_json_put_string(t->out, name, strlen(name));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        weir_buffer_put(t->out, i == 0 ? ":[" : ",", (int64_t)counts[i]);
    weir_buffer_append_byte(t->out, ']');
    t->any = true;
}

uint64_t weir_http_live_latency_ns(const weir_latency *since, const weir_latency *now,
                                   uint64_t rank)
{
    uint64_t before = 0;
    WEIR_ASSERT(rank >= 1);
    for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++) {
        uint64_t n = now->count[i] - since->count[i];
        uint64_t low_ns = i == 0 ? 0 : UINT64_C(1) << (i + 6);
        uint64_t high_ns = UINT64_C(1) << (i + 7);
        if (before + n < rank)
            before += n;
        else if (i == WEIR_LATENCY_BUCKETS - 1) /* it has no upper bound */
            return low_ns;
        else
            return low_ns + (high_ns - low_ns) * (rank - before) / n;
    }
    return 0;
}

static void put_latency(weir_http_live *l, weir_buffer *b)
{
    static const struct {
        const char *name;
        uint64_t percent;
    } rows[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};
    weir_latency now = weir_limiter_latency(limiter_of(l)), since = l->latency;
    uint64_t n = 0;
    for (int i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        n += now.count[i] - since.count[i];
    l->latency = now;
    if (n == 0 || !l->ticked) {
        weir_buffer_printf(b, ",\"latency_us\":null");
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t rank = n / 100 * rows[i].percent + (n % 100 * rows[i].percent + 99) / 100;
        uint64_t ns = weir_http_live_latency_ns(&since, &now, rank);
        weir_buffer_printf(b, "%s\"%s\":%" PRIu64 ".%03" PRIu64, i == 0 ? ",\"latency_us\":{" : ",",
                           rows[i].name, ns / 1000, ns % 1000);
    }
    weir_buffer_append_byte(b, '}');
}

static void put_tick(weir_http_live *l, int64_t now_ns, weir_buffer *b)
{
    tick t = {.live = l, .out = b};
    const weir_http_options *o = l->options;
    weir_buffer_put(b, "event: tick\ndata: {\"t_ms\":", now_ns / 1000000);
    weir_buffer_printf(b, ",\"policies\":{");
    weir_limiter_counts(limiter_of(l), put_counts, &t);
    weir_buffer_printf(b, "},\"candidates\":{");
    t.any = false;
    weir_limiter_candidates(limiter_of(l), put_candidate, &t);
    weir_buffer_printf(b, "}");
    put_latency(l, b);
    weir_store_stats s = weir_limiter_store_stats(limiter_of(l));
    weir_buffer_printf(b, ",\"store\":{");
    for (size_t i = 0; i < WEIR_STORE_COUNTERS; i++) {
        if (weir_store_counters[i].live)
            weir_buffer_printf(b, "%s\"%s\":%" PRIu64, i == 0 ? "" : ",",
                               weir_store_counters[i].live,
                               weir_counter_value(&weir_store_counters[i], &s));
    }
    weir_buffer_append_byte(b, '}');
    if (o->live)
        o->live(o->live_ctx, now_ns, b);
    weir_buffer_printf(b, "}\n\n");
    l->ticked = true;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Counts the stream. Returns false if there are too many. */
static bool enter(const weir_http_options *o)
{
    if (!o->streams || port_add_relaxed(o->streams, 1) < WEIR_HTTP_LIVE_MAX)
        return true;
    port_sub_relaxed(o->streams, 1);
    return false;
}

weir_status weir_http_live_open(weir_http_live **ret, const weir_http_options *o,
                                const weir_login *login, int64_t now_ns, weir_buffer *out)
{
    if (!enter(o))
        return WEIR_E_FULL;
    weir_http_live *l = port_zalloc(1, sizeof *l);
    if (l) {
        l->options = o;
        l->login = *login;
        l->next_ns = now_ns;
        put_hello(l, now_ns, out);
    } else if (o->streams) {
        port_sub_relaxed(o->streams, 1);
    }
    if (!l || out->failed) {
        weir_http_live_close(l);
        return WEIR_E_NOMEM;
    }
    *ret = l;
    return WEIR_OK;
}

void weir_http_live_close(weir_http_live *l)
{
    if (!l)
        return;
    if (l->options->streams) {
        WEIR_ASSERT(port_load_relaxed(l->options->streams) > 0);
        port_sub_relaxed(l->options->streams, 1);
    }
    port_free(l->seen.at);
    port_free(l->candidates.at);
    port_free(l);
}

int64_t weir_http_live_next_ns(const weir_http_live *l)
{
    return l->next_ns;
}

void weir_http_live_put(weir_http_live *l, int64_t now_ns, weir_buffer *out)
{
    if (l->generation != weir_limiter_generation(limiter_of(l))) {
        weir_buffer_printf(out, "event: policies\ndata: {");
        put_policies(l, out);
        weir_buffer_printf(out, "}\n\n");
    }
    put_tick(l, now_ns, out);
    int64_t next_ns = l->next_ns + WEIR_HTTP_LIVE_NS;
    l->next_ns = next_ns > now_ns ? next_ns : now_ns + WEIR_HTTP_LIVE_NS;
}

size_t weir_http_live_memory(const weir_http_live *l)
{
    return sizeof *l + (l->seen.len + l->candidates.len) * sizeof *l->seen.at;
}
