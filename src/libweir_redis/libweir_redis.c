/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libweir-redis: the redis engine on a thread of its own, and callers on any. A call becomes a
 * round of one request, which is posted to that thread; whoever waits for it waits in a seat that
 * is used again. Everything of the engine is touched by that thread alone. */

#include "engine/engine.h"
#include "net/tls.h"
#include "net/worker.h"
#include "port/port.h"

#include <weir/weir_store.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    STORE_BYTES = 64 << 20,   /* for WEIR_REDIS_LOCAL ... */
    STORE_BYTES_MIN = 1 << 20 /* ... and where it is but a clock */
};

/* Where a caller waits. */
typedef struct seat {
    port_mutex *lock; /* of `done` */
    port_cond *changed;
    bool done;
    struct seat *next;
} seat;

struct weir_redis {
    weir_redis_options *options;
    weir_store *store; /* for WEIR_REDIS_LOCAL; and its clock is the engine's */
    port_tls *tls;
    weir_worker *worker;
    weir_engine *engine; /* the worker's */
    weir_status begun;   /* written before weir_worker_open() returns */
    uint64_t seed;
    port_mutex *lock; /* of `seats` */
    seat *seats;      /* that nobody uses */
    /* 1: nothing is taken any more. Released before the worker is told to end, and acquired by it
     * before it posts to itself. */
    port_word closing;
    weir_redis_stats stats;
};

/* One request on its way. */
typedef struct sent_request {
    weir_engine_batch round; /* first */
    weir_engine_request request;
    weir_redis *owner;
    seat *seat;       /* of who waits; NULL: */
    weir_redis_fn fn; /* who is called, and the sent_request freed */
    void *ctx;
    weir_policy policy; /* a copy for fn's */
    char bytes[];       /* the text and the key */
} sent_request;

/* ---- the worker's thread --------------------------------------------------------------------- */

static int64_t now_of(void *ctx)
{
    weir_redis *r = ctx;
    return weir_store_now(r->store);
}

static void begin(void *ctx, port_dialer *dialer)
{
    weir_redis *r = ctx;
    const weir_redis_setup setup = {.options = r->options,
                                    .tls = r->tls,
                                    .dialer = dialer,
                                    .store = r->store,
                                    .stats = &r->stats,
                                    .seed = r->seed};
    r->begun = weir_redis_engine_open(&r->engine, &setup);
}

static void end(void *ctx)
{
    weir_redis *r = ctx;
    if (r->engine)
        r->engine->calls->close(r->engine);
}

static void answer(sent_request *q)
{
    if (q->seat) {
        port_mutex_lock(q->seat->lock);
        q->seat->done = true;
        port_cond_wake(q->seat->changed);
        port_mutex_unlock(q->seat->lock);
        return; /* from the unlocking on, *q may be gone */
    }
    weir_redis_answer a = {q->request.decision, q->request.by_error};
    q->fn(q->ctx, q->request.status, q->request.status == WEIR_OK ? &a : NULL);
    port_free(q);
}

static void on_done(weir_engine_batch *round, int64_t now_ns)
{
    (void)now_ns;
    answer((sent_request *)round);
}

static void ask(void *arg)
{
    sent_request *q = arg;
    if (q->owner->engine->calls->submit(q->owner->engine, &q->round, now_of(q->owner)))
        answer(q);
}

/* ---- requests -------------------------------------------------------------------------------- */

static weir_status check_request(const weir_redis *r, const void *key, size_t key_len, int64_t cost)
{
    if (port_word_load_acquire(&r->closing))
        return WEIR_E_IO;
    return key && key_len >= 1 && key_len <= WEIR_KEY_MAX && cost >= 0 && cost <= WEIR_COST_MAX
               ? WEIR_OK
               : WEIR_E_RANGE;
}

static void fill(sent_request *q, weir_redis *r, weir_verb verb, const weir_policy *p,
                 weir_slice text, weir_slice key, int64_t cost)
{
    q->owner = r;
    q->round = (weir_engine_batch){.request = &q->request, .len = 1, .done = on_done};
    q->request = (weir_engine_request){
        .verb = verb, .policy = p, .text = text, .key = key, .cost = cost, .status = WEIR_E_IO};
    if (r->options->on_error == WEIR_REDIS_LOCAL)
        q->request.policy_id = weir_store_policy_id(r->store, p);
}

static void free_seat(seat *s)
{
    if (!s)
        return;
    port_cond_free(s->changed);
    port_mutex_free(s->lock);
    port_free(s);
}

static seat *new_seat(void)
{
    seat *s = port_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->lock = port_mutex_new();
    s->changed = port_cond_new();
    if (s->lock && s->changed)
        return s;
    free_seat(s);
    return NULL;
}

static seat *take_seat(weir_redis *r)
{
    port_mutex_lock(r->lock);
    seat *s = r->seats;
    if (s)
        r->seats = s->next;
    port_mutex_unlock(r->lock);
    return s ? s : new_seat();
}

static void give_seat(weir_redis *r, seat *s)
{
    port_mutex_lock(r->lock);
    s->done = false;
    s->next = r->seats;
    r->seats = s;
    port_mutex_unlock(r->lock);
}

static void wait_in(seat *s)
{
    port_mutex_lock(s->lock);
    while (!s->done)
        port_cond_wait(s->changed, s->lock);
    port_mutex_unlock(s->lock);
}

/* The caller's policy and key stay, since it waits. */
static weir_status ask_and_wait(weir_redis *r, weir_verb verb, const weir_policy *p,
                                const void *key, size_t key_len, int64_t cost,
                                weir_redis_answer *ret)
{
    char text[WEIR_POLICY_TEXT_MAX];
    sent_request q = {.fn = NULL};
    weir_status st = check_request(r, key, key_len, cost);
    if (st != WEIR_OK)
        return st;
    q.seat = take_seat(r);
    if (!q.seat)
        return WEIR_E_NOMEM;
    size_t len = weir_policy_print(p, text, sizeof text);
    fill(&q, r, verb, p, (weir_slice){text, len}, (weir_slice){key, key_len}, cost);
    if (weir_worker_post(r->worker, ask, &q)) {
        wait_in(q.seat);
        st = q.request.status;
        if (st == WEIR_OK && ret)
            *ret = (weir_redis_answer){q.request.decision, q.request.by_error};
    } else {
        st = WEIR_E_NOMEM;
    }
    give_seat(r, q.seat);
    return st;
}

weir_status weir_redis_check(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                             int64_t cost, weir_redis_answer *ret)
{
    return ask_and_wait(r, WEIR_VERB_TAKE, p, key, key_len, cost, ret);
}

weir_status weir_redis_peek(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                            int64_t cost, weir_redis_answer *ret)
{
    return ask_and_wait(r, WEIR_VERB_PEEK, p, key, key_len, cost, ret);
}

weir_status weir_redis_refund(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                              int64_t cost, weir_redis_answer *ret)
{
    return ask_and_wait(r, WEIR_VERB_REFUND, p, key, key_len, cost, ret);
}

weir_status weir_redis_reset(weir_redis *r, const weir_policy *p, const void *key, size_t key_len)
{
    return ask_and_wait(r, WEIR_VERB_RESET, p, key, key_len, 0, NULL);
}

weir_status weir_redis_check_async(weir_redis *r, const weir_policy *p, const void *key,
                                   size_t key_len, int64_t cost, weir_redis_fn fn, void *ctx)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_status st = check_request(r, key, key_len, cost);
    if (st != WEIR_OK)
        return st;
    size_t len = weir_policy_print(p, text, sizeof text);
    sent_request *q = port_zalloc(1, sizeof *q + len + key_len);
    if (!q)
        return WEIR_E_NOMEM;
    q->fn = fn;
    q->ctx = ctx;
    q->policy = *p;
    memcpy(q->bytes, text, len);
    memcpy(q->bytes + len, key, key_len);
    fill(q, r, WEIR_VERB_TAKE, &q->policy, (weir_slice){q->bytes, len},
         (weir_slice){q->bytes + len, key_len}, cost);
    if (weir_worker_post(r->worker, ask, q))
        return WEIR_OK;
    port_free(q);
    return WEIR_E_NOMEM;
}

/* ---- options ------------------------------------------------------------------------------------- */

/* The texts that are single, by where they are. */
static const char **texts(weir_redis_options *o, size_t i)
{
    const char **all[] = {
        &o->user,   &o->password, &o->sentinel, &o->sentinel_user, &o->sentinel_password,
        &o->prefix, &o->tls_ca,   &o->tls_cert, &o->tls_key,       &o->tls_name};
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy(char **to, const char *text)
{
    size_t size = size_of(text);
    if (size == 0)
        return NULL;
    const char *at = memcpy(*to, text, size);
    *to += size;
    return at;
}

/* Returns a copy in one allocation, without zones and ret_error; free it with port_free(). NULL: no
 * memory. */
static weir_redis_options *copy_options(const weir_redis_options *options)
{
    weir_redis_options from = *options;
    size_t size = sizeof from + from.urls_len * sizeof *from.urls;
    for (size_t i = 0; i < from.urls_len; i++)
        size += size_of(from.urls[i]);
    for (size_t i = 0; texts(&from, i); i++)
        size += size_of(*texts(&from, i));

    weir_redis_options *o = port_zalloc(1, size);
    if (!o)
        return NULL;
    const char **urls = (const char **)(void *)(o + 1);
    char *to = (char *)(urls + from.urls_len);
    *o = from;
    for (size_t i = 0; i < from.urls_len; i++)
        urls[i] = copy(&to, from.urls[i]);
    o->urls = urls;
    for (size_t i = 0; texts(o, i); i++)
        *texts(o, i) = copy(&to, *texts(o, i));
    o->zones = NULL;
    o->ret_error = NULL;
    return o;
}

/* Reads the TLS files if a URL needs them; otherwise *ret is NULL. */
static weir_status open_tls(const weir_redis_options *options, port_tls **ret,
                            weir_redis_error *ret_error)
{
    bool wanted = false;
    *ret = NULL;
    for (size_t i = 0; i < options->urls_len; i++)
        wanted = wanted || strncasecmp(options->urls[i], "rediss://", 9) == 0;
    if (!wanted)
        return WEIR_OK;
    return net_tls_open(ret, options->tls_ca, options->tls_cert, options->tls_key,
                        options->tls_insecure, ret_error->text, sizeof ret_error->text);
}

/* ---- its life -------------------------------------------------------------------------------- */

static void free_all(weir_redis *r)
{
    while (r->seats) {
        seat *s = r->seats;
        r->seats = s->next;
        free_seat(s);
    }
    port_mutex_free(r->lock);
    net_tls_close(r->tls);
    weir_store_close(r->store);
    port_free(r->options);
    port_free(r);
}

static weir_status start(weir_redis *r, const weir_zones *zones, weir_redis_error *error)
{
    const weir_store_options memory = {
        .memory_bytes = r->options->on_error == WEIR_REDIS_LOCAL ? STORE_BYTES : STORE_BYTES_MIN,
        .zones = zones};
    const weir_worker_options worker = {.ctx = r, .begin = begin, .end = end, .now = now_of};
    weir_status st = open_tls(r->options, &r->tls, error);
    if (st == WEIR_OK)
        st = port_random(&r->seed, sizeof r->seed);
    if (st == WEIR_OK)
        st = weir_store_open(&r->store, &memory);
    if (st == WEIR_OK)
        st = weir_worker_open(&r->worker, &worker);
    if (st == WEIR_OK && r->begun != WEIR_OK) {
        weir_worker_close(r->worker);
        st = r->begun;
    }
    return st;
}

static weir_status open_good(weir_redis **ret, const weir_redis_options *options,
                             weir_redis_error *error)
{
    weir_status st = WEIR_E_NOMEM;
    weir_redis *r = port_zalloc(1, sizeof *r);
    if (!r)
        return st;
    r->lock = port_mutex_new();
    r->options = copy_options(options);
    if (r->lock && r->options)
        st = start(r, options->zones, error);
    if (st != WEIR_OK) {
        free_all(r);
        return st;
    }
    *ret = r;
    return WEIR_OK;
}

weir_status weir_redis_open(weir_redis **ret, const weir_redis_options *options)
{
    weir_redis_error error = {.text = ""};
    weir_status st = weir_redis_options_check(options, &error);
    if (st == WEIR_OK)
        st = open_good(ret, options, &error);
    if (st != WEIR_OK && error.text[0] == '\0')
        (void)snprintf(error.text, sizeof error.text, "%s: give the process more",
                       st == WEIR_E_NOMEM ? "no memory" : "no thread or descriptor is left");
    if (st != WEIR_OK && options->ret_error)
        *options->ret_error = error;
    return st;
}

void weir_redis_close(weir_redis *r)
{
    if (!r)
        return;
    port_word_store_release(&r->closing, 1);
    weir_worker_close(r->worker);
    free_all(r);
}
