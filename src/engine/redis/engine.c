/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The redis engine answers each request by its deadline: from the deny cache, from a server, or, if
 * no server answers in time, as on_error says. This file dispatches requests between the four parts
 * that it is made of: the deny cache, the circuit breaker of each node, the client and the
 * fallback.
 *
 * A batch becomes a job with one item for each request. A batch with `all` set has one item for all
 * of its requests. An item is answered within submit(), or it is with the client. */

#include "engine/engine.h"

#include "core/algorithm.h"
#include "engine/redis/breaker.h"
#include "engine/redis/client/client.h"
#include "engine/redis/deny_cache.h"
#include "engine/redis/fallback.h"

#include "port/assert.h"
#include "port/port.h"

#include <stddef.h>

static const int64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

typedef struct redis_engine redis_engine;
struct job;

typedef struct item {
    weir_redis_call call; /* while it is with the client */
    struct job *job;
    weir_deny_key key; /* if `cached` */
    int64_t sent_ns;
    uint32_t epoch;
    uint32_t node;
    bool cached; /* the deny cache may answer it, and learns from its reply */
    bool sent;   /* it is with the client */
    bool probe;  /* it is the probe of its node's breaker */
} item;

typedef struct job {
    redis_engine *engine;
    weir_engine_batch *batch;
    size_t items, left; /* left: items without an answer */
    item item[];
} job;

typedef struct node {
    weir_breaker breaker;
    bool probe_logged;
} node;

struct redis_engine {
    weir_engine base; /* first */
    weir_redis_setup setup;
    weir_redis_client *client;
    port_timer *timer;
    int64_t timer_ns; /* when it expires */
    weir_fallback fallback;
    weir_deny_cache *denials; /* NULL: switched off */
    size_t denials_counted;   /* how many of its keys stats->deny_keys includes */
    int64_t sweep_ns;         /* when its expired entries are next removed */
    int64_t deadline_ns;
    size_t in_flight, in_flight_max; /* items without an answer */
    uint64_t random;
    bool closing;
    node node[WEIR_REDIS_NODES_MAX + 1]; /* the last is for requests whose node is not known */
};

static uint64_t next_random(redis_engine *e)
{
    e->random += 0x9e3779b97f4a7c15U; /* splitmix64 */
    uint64_t x = e->random;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/* The request of an item; the first request of the batch if the item is a batch with `all` set. */
static weir_engine_request *request_of(const item *it)
{
    const weir_engine_batch *b = it->job->batch;
    return b->all ? b->request : &b->request[it - it->job->item];
}

static void set_timer(redis_engine *e)
{
    int64_t at_ns = e->denials_counted > 0 ? e->sweep_ns : INT64_MAX;
    if (at_ns != e->timer_ns)
        e->setup.dialer->calls->set_timer(e->timer, at_ns);
    e->timer_ns = at_ns;
}

static void answered(redis_engine *e, item *it)
{
    WEIR_ASSERT(e->in_flight > 0 && it->job->left > 0);
    e->in_flight--;
    it->job->left--;
}

/* ---- answers without a server ---------------------------------------------------------------- */

static void fall_back(redis_engine *e, item *it, int64_t now_ns, int64_t wait_ns, const char *why)
{
    weir_engine_batch *b = it->job->batch;
    if (wait_ns < ns_per_ms)
        wait_ns = ns_per_ms;
    weir_on_error by =
        b->all ? weir_fallback_answer_all(&e->fallback, b, now_ns, wait_ns, why)
               : weir_fallback_answer(&e->fallback, request_of(it), now_ns, wait_ns, why);
    port_add_relaxed(&e->setup.stats->by_error[by], b->all ? b->len : 1);
    answered(e, it);
}

/* How long until a request to the item's node may succeed. */
static int64_t wait_of(const redis_engine *e, const item *it, int64_t now_ns)
{
    const weir_breaker *b = &e->node[it->node].breaker;
    if (b->state == WEIR_BREAKER_CLOSED)
        return ns_per_s;
    return b->state == WEIR_BREAKER_OPEN ? b->until_ns - now_ns : e->deadline_ns;
}

static const char *why_of(weir_redis_outcome outcome)
{
    switch (outcome) {
    case WEIR_REDIS_TIMEOUT:
        return "Redis did not reply before the deadline (redis.deadline)";
    case WEIR_REDIS_CONNECTION_LOST:
        return "the connection to Redis broke before the reply";
    case WEIR_REDIS_UNREACHABLE:
        return "no connection to Redis";
    case WEIR_REDIS_OVERLOADED:
        return "too many requests are in flight to Redis (redis.in_flight)";
    case WEIR_REDIS_REFUSED:
        return "Redis replied with an error; the log has it";
    case WEIR_REDIS_ANSWERED:
        break;
    }
    return "";
}

/* ---- circuit breakers ------------------------------------------------------------------------ */

static void log_breaker(redis_engine *e, const item *it, const char *state)
{
    const char *name = "";
    if (!e->setup.log.write)
        return;
    (void)weir_redis_client_node(e->client, request_of(it), &name);
    e->setup.log.write(e->setup.log.ctx, "redis-breaker", name, state);
}

static bool breaker_admits(redis_engine *e, item *it, int64_t now_ns)
{
    node *n = &e->node[it->node];
    weir_breaker_state was = n->breaker.state;
    if (!weir_breaker_admits(&n->breaker, now_ns))
        return false;
    it->probe = was == WEIR_BREAKER_OPEN;
    if (it->probe && !n->probe_logged) {
        log_breaker(e, it, "probing");
        n->probe_logged = true;
    }
    return true;
}

/* An error reply counts as a success: the node is alive and replies at once. WEIR_REDIS_OVERLOADED
 * counts as neither: the request did not reach the node. */
static void record_outcome(redis_engine *e, item *it, weir_redis_outcome outcome, int64_t now_ns)
{
    node *n = &e->node[it->node];
    weir_breaker_state was = n->breaker.state;
    if (e->closing)
        return;
    if (outcome == WEIR_REDIS_OVERLOADED) {
        if (it->probe)
            weir_breaker_abandon_probe(&n->breaker);
        return;
    }
    bool good = outcome == WEIR_REDIS_ANSWERED || outcome == WEIR_REDIS_REFUSED;
    if (!weir_breaker_record(&n->breaker, it->probe, good, now_ns, next_random(e)))
        return;
    if (n->breaker.state == WEIR_BREAKER_CLOSED) {
        n->probe_logged = false;
        log_breaker(e, it, "closed");
    } else if (was == WEIR_BREAKER_CLOSED) {
        port_add_relaxed(&e->setup.stats->opened, 1);
        log_breaker(e, it, "open");
    }
}

/* ---- the deny cache -------------------------------------------------------------------------- */

static port_counter *epoch_of(const redis_engine *e, const weir_engine_request *q)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (size_t i = 0; i < q->key.len; i++)
        hash = (hash ^ (uint8_t)q->key.at[i]) * 0x100000001b3U;
    return &e->setup.stats->deny_epoch[(hash ^ hash >> 32) % WEIR_DENY_EPOCHS];
}

/* Invalidates what all threads have cached about a key that is reset or refunded. This is done
 * twice: when the request is submitted, for requests that follow it, and when it ends, for replies
 * to requests that preceded it. It is done even if no reply came: the server may have executed it.
 */
static void invalidate(redis_engine *e, const weir_engine_request *q)
{
    if (q->verb == WEIR_VERB_RESET || q->verb == WEIR_VERB_REFUND || q->verb == WEIR_VERB_CHARGE)
        port_add_relaxed(epoch_of(e, q), 1);
}

/* Brings stats->deny_keys up to date. A negative difference wraps, and so does the sum. */
static void count_denials(redis_engine *e, size_t keys)
{
    if (keys != e->denials_counted)
        port_add_relaxed(&e->setup.stats->deny_keys, (uint64_t)keys - (uint64_t)e->denials_counted);
    e->denials_counted = keys;
}

static bool is_cached(redis_engine *e, item *it, int64_t now_ns)
{
    weir_engine_request *q = request_of(it);
    if (!it->cached)
        return false;
    it->epoch = (uint32_t)port_load_relaxed(epoch_of(e, q));
    port_add_relaxed(&e->setup.stats->deny_lookups, 1);
    bool found = weir_deny_cache_find(e->denials, it->key, it->epoch, now_ns, q);
    count_denials(e, weir_deny_cache_keys(e->denials));
    if (found)
        port_add_relaxed(&e->setup.stats->deny_hits, 1);
    return found;
}

static void cache_denial(redis_engine *e, const item *it, int64_t now_ns)
{
    if (!it->cached)
        return;
    weir_deny_cache_add(e->denials, it->key, it->epoch, it->sent_ns, now_ns, request_of(it));
    count_denials(e, weir_deny_cache_keys(e->denials));
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Calls done() once all items have answers. done() may submit and abandon other batches. */
static void finish(job *j, int64_t now_ns)
{
    weir_engine_batch *b = j->batch;
    if (j->left > 0)
        return;
    b->inside = NULL;
    port_free(j);
    b->done(b, now_ns);
}

/* The client calls this from its own events, never within weir_redis_client_send(): so submit() has
 * returned. */
static void call_done(weir_redis_call *c, int64_t now_ns)
{
    item *it = (item *)(void *)((char *)c - offsetof(item, call));
    redis_engine *e = it->job->engine;
    weir_redis_outcome outcome = c->outcome;
    WEIR_ASSERT(it->sent && !it->job->batch->all == !c->all);
    it->sent = false;
    record_outcome(e, it, outcome, now_ns);
    invalidate(e, request_of(it));
    if (outcome == WEIR_REDIS_ANSWERED) {
        if (c->all)
            it->job->batch->blocking = c->blocking;
        cache_denial(e, it, now_ns);
        answered(e, it);
    } else {
        fall_back(e, it, now_ns, wait_of(e, it, now_ns), why_of(outcome));
    }
    set_timer(e);
    finish(it->job, now_ns);
}

/* Hands an item to the client, or answers it by on_error if its node cannot be reached. */
static void send(redis_engine *e, item *it, int64_t now_ns)
{
    weir_engine_request *q = request_of(it);
    const char *name;
    int64_t next_ns = 0;
    it->node = weir_redis_client_node(e->client, q, &name);
    WEIR_ASSERT(it->node <= WEIR_REDIS_NODES_MAX);
    if (!weir_redis_client_is_up(e->client, q, &next_ns) && next_ns > now_ns) {
        port_add_relaxed(&e->setup.stats->client.unreachable, 1);
        fall_back(e, it, now_ns, next_ns - now_ns, why_of(WEIR_REDIS_UNREACHABLE));
        return;
    }
    if (!breaker_admits(e, it, now_ns)) {
        fall_back(e, it, now_ns, wait_of(e, it, now_ns),
                  "Redis did not reply several times in a row; the circuit breaker is open");
        return;
    }
    WEIR_ASSERT(!it->sent);
    it->sent = true;
    it->sent_ns = now_ns;
    it->call.request = q;
    it->call.len = it->job->batch->all ? it->job->batch->len : 1;
    it->call.all = it->job->batch->all;
    if (q->verb == WEIR_VERB_RESET_ALL)
        it->call.token = next_random(e) | 1;
    it->call.deadline_ns = now_ns + e->deadline_ns;
    it->call.done = call_done;
    weir_redis_client_send(e->client, &it->call, now_ns);
}

/* Refusals without a round trip: that of weir_refund(), and resets that cannot be made. */
static bool is_supported(const redis_engine *e, weir_engine_request *q)
{
    if (q->verb == WEIR_VERB_RESET_ALL &&
        !weir_redis_resets_can(e->setup.stats->client.resets, q, &q->reason)) {
        q->status = WEIR_E_UNSUPPORTED;
        return false;
    }
    if (q->verb != WEIR_VERB_REFUND)
        return true;
    if (!weir_policy_can(q->policy, WEIR_CAN_REFUND)) {
        q->status = WEIR_E_UNSUPPORTED;
        q->reason = WEIR_NO_REFUNDS;
        return false;
    }
    return true;
}

/* Answers an item here if possible; otherwise sends it to a server. */
static void dispatch(redis_engine *e, item *it, int64_t now_ns)
{
    e->in_flight++;
    invalidate(e, request_of(it));
    if (!is_supported(e, request_of(it)))
        answered(e, it);
    else if (e->closing)
        fall_back(e, it, now_ns, ns_per_s, "weir is shutting down");
    else if (is_cached(e, it, now_ns))
        answered(e, it);
    else if (e->in_flight > e->in_flight_max)
        fall_back(e, it, now_ns, e->deadline_ns, why_of(WEIR_REDIS_OVERLOADED));
    else
        send(e, it, now_ns);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    redis_engine *e = ctx;
    e->timer_ns = INT64_MAX;
    if (e->denials && now_ns >= e->sweep_ns) {
        weir_deny_cache_sweep(e->denials, now_ns);
        count_denials(e, weir_deny_cache_keys(e->denials));
        e->sweep_ns = now_ns + ns_per_s;
    }
    set_timer(e);
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void answer_without_memory(redis_engine *e, weir_engine_batch *b, int64_t now_ns)
{
    static const char why[] = "out of memory";
    if (b->all) {
        weir_on_error by = weir_fallback_answer_all(&e->fallback, b, now_ns, e->deadline_ns, why);
        port_add_relaxed(&e->setup.stats->by_error[by], b->len);
        return;
    }
    for (size_t i = 0; i < b->len; i++) {
        weir_on_error by =
            weir_fallback_answer(&e->fallback, &b->request[i], now_ns, e->deadline_ns, why);
        port_add_relaxed(&e->setup.stats->by_error[by], 1);
    }
}

static void item_init(redis_engine *e, job *j, item *it)
{
    it->job = j;
    it->node = WEIR_REDIS_NODES_MAX;
    weir_engine_request *q = request_of(it);
    if (e->denials && !j->batch->all && weir_deny_cache_may_hold(q)) {
        it->cached = true;
        it->key = weir_deny_key_of(e->denials, q);
        it->key.word[0] ^= weir_redis_resets_token(e->setup.stats->client.resets, q);
    }
}

static bool engine_submit(weir_engine *base, weir_engine_batch *b, int64_t now_ns)
{
    redis_engine *e = (redis_engine *)base;
    size_t items = b->all ? 1 : b->len;
    port_add_relaxed(&e->setup.stats->requests, b->len);
    for (size_t i = 0; i < b->len; i++) {
        b->request[i].by_error = false;
        b->request[i].reason = NULL;
    }
    job *j = port_zalloc(1, sizeof *j + items * sizeof(item));
    if (!j) {
        answer_without_memory(e, b, now_ns);
        return true;
    }
    j->engine = e;
    j->batch = b;
    j->items = j->left = items;
    for (size_t i = 0; i < items; i++) {
        item_init(e, j, &j->item[i]);
        dispatch(e, &j->item[i], now_ns);
    }
    set_timer(e);
    if (j->left == 0) {
        port_free(j);
        return true;
    }
    b->inside = j;
    return false;
}

static void abandon_item(redis_engine *e, item *it)
{
    if (!it->sent)
        return;
    weir_redis_client_abandon(e->client, &it->call);
    invalidate(e, request_of(it));
    if (it->probe)
        weir_breaker_abandon_probe(&e->node[it->node].breaker);
    e->in_flight--;
}

static void engine_abandon(weir_engine *base, weir_engine_batch *b)
{
    redis_engine *e = (redis_engine *)base;
    job *j = b->inside;
    WEIR_ASSERT(j->batch == b && j->left > 0);
    for (size_t i = 0; i < j->items; i++)
        abandon_item(e, &j->item[i]);
    b->inside = NULL;
    port_free(j);
    set_timer(e);
}

static void free_all(redis_engine *e)
{
    WEIR_ASSERT(e->in_flight == 0);
    e->setup.dialer->calls->free_timer(e->timer);
    count_denials(e, 0);
    weir_deny_cache_close(e->denials);
    port_free(e);
}

static void engine_close(weir_engine *base)
{
    redis_engine *e = (redis_engine *)base;
    e->closing = true;
    weir_redis_client_close(e->client);
    free_all(e);
}

static const weir_engine_calls calls = {engine_submit, engine_abandon, engine_close};

static weir_status open_deny_cache(redis_engine *e, size_t bytes)
{
    uint64_t secret[4];
    if (bytes == SIZE_MAX)
        return WEIR_OK;
    if (port_random(secret, sizeof secret) != WEIR_OK)
        for (int i = 0; i < 4; i++)
            secret[i] = next_random(e);
    return weir_deny_cache_open(&e->denials, bytes ? bytes : WEIR_REDIS_DENY_CACHE_BYTES_DEFAULT,
                                secret);
}

static weir_on_error on_error_of(weir_redis_on_error how)
{
    return how == WEIR_REDIS_CLOSED  ? WEIR_ON_ERROR_CLOSED
           : how == WEIR_REDIS_LOCAL ? WEIR_ON_ERROR_LOCAL
                                     : WEIR_ON_ERROR_OPEN;
}

bool weir_redis_engine_would_probe(const weir_engine *engine, int64_t now_ns)
{
    const redis_engine *e = (const redis_engine *)(const void *)engine;
    for (size_t i = 0; i < sizeof e->node / sizeof e->node[0]; i++) {
        const weir_breaker *b = &e->node[i].breaker;
        if (b->state == WEIR_BREAKER_OPEN && now_ns >= b->until_ns)
            return true;
    }
    return false;
}

weir_status weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup)
{
    const weir_redis_options *o = setup->options;
    redis_engine *e = port_zalloc(1, sizeof *e);
    if (!e)
        return WEIR_E_NOMEM;
    e->base.calls = &calls;
    e->setup = *setup;
    e->timer_ns = INT64_MAX;
    e->random = setup->seed;
    e->deadline_ns = o->deadline_ns ? o->deadline_ns : WEIR_REDIS_DEADLINE_NS_DEFAULT;
    e->in_flight_max = o->in_flight ? o->in_flight : WEIR_REDIS_IN_FLIGHT_DEFAULT;
    weir_fallback_init(&e->fallback, setup->store, on_error_of(o->on_error));
    weir_status st = open_deny_cache(e, o->deny_cache_bytes);
    if (st != WEIR_OK)
        goto fail;
    st = WEIR_E_NOMEM;
    e->timer = setup->dialer->calls->new_timer(setup->dialer, on_timer, e);
    if (!e->timer)
        goto fail;
    st = weir_redis_client_open(&e->client, o, setup->tls, setup->dialer, &setup->stats->client,
                                &e->setup.log, next_random(e));
    if (st != WEIR_OK)
        goto fail;
    *ret = &e->base;
    return WEIR_OK;
fail:
    free_all(e);
    return st;
}
