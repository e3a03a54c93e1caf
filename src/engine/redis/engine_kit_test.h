/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_ENGINE_KIT_TEST_H
#define WEIR_ENGINE_REDIS_ENGINE_KIT_TEST_H
/* A kit for tests of the redis engine: a virtual clock with a timer, and a simulated client that
 * keeps its calls until the test ends them. */

#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t us_ns = 1000, ms_ns = 1000000, s_ns = 1000000000;
static const int64_t start_ns = 1767225600000000000;
enum { CALLS_MAX = 256, BATCHES_MAX = 128, LINES_MAX = 64 };

/* Allocations fail after the next `no_memory_from`; less than 0: none fails. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static int no_memory_from = -1, failed; /* failed: how many did */
static bool fails_once;                 /* only that allocation, not those after it */

void *__wrap_calloc(size_t n, size_t size)
{
    if (no_memory_from == 0) {
        failed++;
        no_memory_from = fails_once ? -1 : 0;
        return NULL;
    }
    no_memory_from -= no_memory_from > 0;
    return __real_calloc(n, size);
}

/* ---- the kit --------------------------------------------------------------------------------- */

struct port_timer {
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

typedef struct world {
    port_dialer dialer; /* first */
    int64_t now_ns;
    port_timer *timer;
    weir_store *store;
    weir_redis_stats stats;
    weir_redis_options options;
    weir_engine *engine;
    char line[LINES_MAX][64];
    size_t lines;
    weir_policy policy;
    char text[WEIR_POLICY_TEXT_MAX];
} world;

/* The simulated client, in place of client.c. */
static struct kit_client {
    weir_redis_call *call[CALLS_MAX];
    size_t calls, sent;
    bool is_down;
    int64_t next_ns;
    uint64_t seed; /* that it was opened with */
} client;

static inline port_timer *new_timer_of(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns),
                                       void *ctx)
{
    world *w = (world *)d;
    w->timer = calloc(1, sizeof *w->timer);
    if (!w->timer)
        return NULL;
    *w->timer = (port_timer){fn, ctx, INT64_MAX};
    return w->timer;
}

static inline void set_timer_of(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
}

static inline void free_timer_of(port_timer *a)
{
    free(a);
}

static inline int64_t now_of(port_dialer *d)
{
    return ((world *)d)->now_ns;
}

static const port_dialer_calls dialer_calls = {.new_timer = new_timer_of,
                                               .set_timer = set_timer_of,
                                               .free_timer = free_timer_of,
                                               .now = now_of};

weir_status weir_redis_client_open(weir_redis_client **ret, const weir_redis_options *options,
                                   const port_tls *tls, port_dialer *dialer,
                                   weir_redis_counts *counts, const weir_redis_log *log,
                                   uint64_t seed)
{
    (void)options, (void)tls, (void)dialer, (void)counts, (void)log;
    memset(&client, 0, sizeof client);
    client.seed = seed;
    *ret = (weir_redis_client *)(void *)&client;
    return WEIR_OK;
}

static inline void end_call(world *w, size_t at, weir_redis_outcome outcome)
{
    weir_redis_call *c = client.call[at];
    memmove(&client.call[at], &client.call[at + 1],
            (client.calls - at - 1) * sizeof client.call[0]);
    client.calls--;
    c->outcome = outcome;
    c->done(c, w ? w->now_ns : start_ns);
}

void weir_redis_client_close(weir_redis_client *c)
{
    (void)c;
    while (client.calls > 0)
        end_call(NULL, 0, WEIR_REDIS_CONNECTION_LOST);
}

void weir_redis_client_send(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    (void)c, (void)now_ns;
    assert_true(client.calls < CALLS_MAX);
    client.call[client.calls++] = call;
    client.sent++;
}

void weir_redis_client_abandon(weir_redis_client *c, weir_redis_call *call)
{
    (void)c;
    size_t at = 0;
    while (at < client.calls && client.call[at] != call)
        at++;
    assert_true(at < client.calls);
    memmove(&client.call[at], &client.call[at + 1],
            (client.calls - at - 1) * sizeof client.call[0]);
    client.calls--;
}

bool weir_redis_client_is_up(const weir_redis_client *c, const weir_engine_request *q,
                             int64_t *ret_next_ns)
{
    (void)c, (void)q;
    *ret_next_ns = client.next_ns;
    return !client.is_down;
}

/* A key that begins with a digit is on the node of that number. */
uint32_t weir_redis_client_node(const weir_redis_client *c, const weir_engine_request *q,
                                const char **ret_name)
{
    (void)c;
    bool digit = q->key.at[0] >= '0' && q->key.at[0] <= '9';
    *ret_name = digit ? "other:6379" : "host:6379";
    return digit ? (uint32_t)(q->key.at[0] - '0') : 0;
}

static inline void say(void *ctx, const char *event, const char *node, const char *text)
{
    world *w = ctx;
    (void)snprintf(w->line[w->lines++ % LINES_MAX], sizeof w->line[0], "%s %s %s", event, node,
                   text);
}

static bool is_silent; /* engines are opened without a log */

/* Lets each allocation of opening fail in turn, alone or with all later ones, before it opens the
 * engine. */
static inline void open_engine(world *w, weir_redis_stats *stats)
{
    weir_status st = WEIR_E_NOMEM;
    const weir_redis_setup setup = {.options = &w->options,
                                    .dialer = &w->dialer,
                                    .store = w->store,
                                    .stats = stats,
                                    .log =
                                        is_silent ? (weir_redis_log){0} : (weir_redis_log){say, w},
                                    .seed = 7};
    for (int n = 0; st == WEIR_E_NOMEM && n < 400; n++) {
        no_memory_from = n / 2;
        fails_once = n % 2 == 0;
        failed = 0;
        st = weir_redis_engine_open(&w->engine, &setup);
    }
    assert_int_equal(failed, 0);
    no_memory_from = -1;
    fails_once = false;
    assert_int_equal(st, WEIR_OK);
}

/* Opens the engine of another thread if `first` is not NULL. */
static inline void begin_beside(world *w, world *first, const char *policy,
                                weir_redis_options options)
{
    const weir_store_options in = {.memory_bytes = 2 << 20};
    memset(w, 0, sizeof *w);
    w->dialer.calls = &dialer_calls;
    w->now_ns = start_ns;
    w->options = options;
    assert_int_equal(weir_store_open(&w->store, &in), WEIR_OK);
    assert_int_equal(weir_policy_parse(&w->policy, policy, strlen(policy), NULL, NULL), WEIR_OK);
    (void)weir_policy_print(&w->policy, w->text, sizeof w->text);
    open_engine(w, first ? &first->stats : &w->stats);
}

static inline void begin(world *w, const char *policy, weir_redis_options options)
{
    begin_beside(w, NULL, policy, options);
}

static inline void end(world *w)
{
    w->engine->calls->close(w->engine);
    weir_store_close(w->store);
    assert_int_equal(port_load_relaxed(&w->stats.deny_keys), 0);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A batch of one request. */
typedef struct single {
    weir_engine_batch batch; /* first */
    weir_engine_request request;
    int done;
    int64_t done_ns;
} single;

static inline void on_done(weir_engine_batch *r, int64_t now_ns)
{
    single *s = (single *)r;
    s->done++;
    s->done_ns = now_ns;
}

static inline weir_engine_request request(world *w, weir_verb verb, const char *key, int64_t cost)
{
    return (weir_engine_request){.verb = verb,
                                 .policy = &w->policy,
                                 .text = {w->text, strlen(w->text)},
                                 .name = {"api", 3},
                                 .key = {key, strlen(key)},
                                 .policy_id = weir_store_policy_id(w->store, &w->policy),
                                 .cost = cost};
}

/* Returns whether it was answered at once. */
static inline bool ask(world *w, single *s, weir_verb verb, const char *key, int64_t cost)
{
    weir_on_error on_error = s->request.on_error;
    weir_throttle throttle = s->request.throttle;
    memset(s, 0, sizeof *s);
    s->request = request(w, verb, key, cost);
    s->request.on_error = on_error;
    s->request.throttle = throttle;
    s->batch = (weir_engine_batch){.request = &s->request, .len = 1, .done = on_done};
    return w->engine->calls->submit(w->engine, &s->batch, w->now_ns);
}

static inline void to(world *w, int64_t now_ns)
{
    for (int i = 0; i < 1000 && w->timer->at_ns <= now_ns; i++) {
        if (w->timer->at_ns > w->now_ns)
            w->now_ns = w->timer->at_ns;
        w->timer->at_ns = INT64_MAX;
        w->timer->fn(w->timer->ctx, w->now_ns);
    }
    w->now_ns = now_ns;
}

/* The server allows the first call. */
static inline void allow(world *w, int64_t remaining)
{
    weir_engine_request *q = client.call[0]->request;
    q->status = WEIR_OK;
    q->decision = (weir_decision){
        .limit = q->policy->layer[0].limit, .remaining = remaining, .allowed = true};
    end_call(w, 0, WEIR_REDIS_ANSWERED);
}

static inline void deny(world *w, int64_t remaining, int64_t retry_ns)
{
    weir_engine_request *q = client.call[0]->request;
    q->status = WEIR_OK;
    q->decision = (weir_decision){.limit = q->policy->layer[0].limit,
                                  .remaining = remaining,
                                  .retry_after_ns = retry_ns,
                                  .reset_after_ns = 2 * retry_ns};
    end_call(w, 0, WEIR_REDIS_ANSWERED);
}

static inline uint64_t by(world *w, weir_on_error how)
{
    return port_load_relaxed(&w->stats.by_error[how]);
}

typedef struct several {
    weir_engine_batch batch; /* first */
    weir_engine_request request[4];
    int done;
} several;

static inline void several_done(weir_engine_batch *r, int64_t now_ns)
{
    (void)now_ns;
    ((several *)r)->done++;
}

static inline bool ask_several(world *w, several *s, size_t len, bool all)
{
    static const char *const keys[] = {"a", "b", "1c", "d"};
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < len; i++)
        s->request[i] = request(w, WEIR_VERB_TAKE, keys[i], 1);
    s->batch =
        (weir_engine_batch){.request = s->request, .len = len, .all = all, .done = several_done};
    return w->engine->calls->submit(w->engine, &s->batch, w->now_ns);
}

#endif
