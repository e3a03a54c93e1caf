/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libweir-redis runs a redis engine on a worker thread. A call on any thread is posted to the
 * worker as a batch of one request. A call that waits does so on a waiter: a condition variable
 * that is reused. Only the worker's thread uses the engine. */

#include "engine/engine.h"
#include "net/tls/client.h"
#include "net/worker.h"
#include "port/assert.h"
#include "port/port.h"

#include <weir/weir_store.h>

#include <stdio.h>
#include <string.h>

enum {
    STORE_BYTES = 64 << 20,   /* for WEIR_REDIS_LOCAL */
    STORE_BYTES_MIN = 1 << 20 /* otherwise the store is used only for its clock */
};

typedef struct waiter {
    port_mutex *lock; /* of `done` */
    port_cond *changed;
    bool done;
    struct waiter *next;
} waiter;

struct weir_redis {
    weir_redis_options *options;
    weir_store *store; /* for WEIR_REDIS_LOCAL; its clock is the engine's clock */
    port_tls *tls;
    weir_worker *worker;
    weir_engine *engine; /* only for the worker's thread */
    weir_status begun;   /* written before weir_worker_open() returns */
    uint64_t seed;
    port_mutex *lock; /* of `waiters` */
    waiter *waiters;  /* free ones */
    /* 1: no request is accepted. Stored with release before the worker is asked to end; loaded with
     * acquire by the worker before it posts to itself. */
    port_word closing;
    weir_redis_stats stats;
    weir_redis_resets resets;
};

/* A request that is posted to the worker. */
typedef struct posted {
    weir_engine_batch batch; /* first */
    weir_engine_request request;
    weir_redis *owner;
    waiter *waiter; /* of the caller that waits; NULL: fn is called, and this is freed */
    weir_redis_fn fn;
    void *ctx;
    weir_policy policy; /* a copy, if fn is called */
    char bytes[];       /* copies of the policy text and of the key */
} posted;

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

static void answer(posted *q)
{
    if (q->waiter) {
        port_mutex_lock(q->waiter->lock);
        WEIR_ASSERT(!q->waiter->done);
        q->waiter->done = true;
        port_cond_wake(q->waiter->changed);
        port_mutex_unlock(q->waiter->lock);
        return; /* the waiting caller may have freed *q */
    }
    weir_redis_answer a = {q->request.decision, q->request.by_error};
    q->fn(q->ctx, q->request.status, q->request.status == WEIR_OK ? &a : NULL);
    port_free(q);
}

static void on_done(weir_engine_batch *batch, int64_t now_ns)
{
    (void)now_ns;
    answer((posted *)batch);
}

static void submit(void *arg)
{
    posted *q = arg;
    if (q->owner->engine->calls->submit(q->owner->engine, &q->batch, now_of(q->owner)))
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

static void fill(posted *q, weir_redis *r, weir_verb verb, const weir_policy *p, weir_slice text,
                 weir_slice key, int64_t cost)
{
    WEIR_ASSERT(!q->waiter != !q->fn);
    q->owner = r;
    q->batch = (weir_engine_batch){.request = &q->request, .len = 1, .done = on_done};
    q->request = (weir_engine_request){.verb = verb,
                                       .policy = p,
                                       .policy_id = weir_store_policy_id(r->store, p),
                                       .text = text,
                                       .key = key,
                                       .cost = cost,
                                       .status = WEIR_E_IO};
}

static void free_waiter(waiter *s)
{
    port_cond_free(s->changed);
    port_mutex_free(s->lock);
    port_free(s);
}

static waiter *new_waiter(void)
{
    waiter *s = port_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->lock = port_mutex_new();
    s->changed = port_cond_new();
    if (s->lock && s->changed)
        return s;
    free_waiter(s);
    return NULL;
}

static waiter *take_waiter(weir_redis *r)
{
    port_mutex_lock(r->lock);
    waiter *s = r->waiters;
    if (s)
        r->waiters = s->next;
    port_mutex_unlock(r->lock);
    return s ? s : new_waiter();
}

static void return_waiter(weir_redis *r, waiter *s)
{
    port_mutex_lock(r->lock);
    s->done = false;
    s->next = r->waiters;
    r->waiters = s;
    port_mutex_unlock(r->lock);
}

static void wait_on(waiter *s)
{
    port_mutex_lock(s->lock);
    while (!s->done)
        port_cond_wait(s->changed, s->lock);
    port_mutex_unlock(s->lock);
}

/* Copies nothing: the caller waits, so its policy and key stay valid.
 *  ret_granted  as weir_engine_request.granted; may be NULL. */
static weir_status submit_and_wait(weir_redis *r, weir_verb verb, const weir_policy *p,
                                   const void *key, size_t key_len, int64_t cost,
                                   weir_redis_answer *ret, int64_t *ret_granted)
{
    char text[WEIR_POLICY_TEXT_MAX];
    posted q = {.fn = NULL};
    weir_status st = check_request(r, key, key_len, cost);
    if (st != WEIR_OK)
        return st;
    q.waiter = take_waiter(r);
    if (!q.waiter)
        return WEIR_E_NOMEM;
    size_t len = weir_policy_print(p, text, sizeof text);
    fill(&q, r, verb, p, (weir_slice){text, len}, (weir_slice){key, key_len}, cost);
    st = weir_worker_post(r->worker, submit, &q);
    if (st == WEIR_OK) {
        wait_on(q.waiter);
        st = q.request.status;
        if (st == WEIR_OK && ret)
            *ret = (weir_redis_answer){q.request.decision, q.request.by_error};
        if (st == WEIR_OK && ret_granted)
            *ret_granted = q.request.granted;
    }
    return_waiter(r, q.waiter);
    return st;
}

weir_status weir_redis_check(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                             int64_t cost, weir_redis_answer *ret)
{
    return submit_and_wait(r, WEIR_VERB_TAKE, p, key, key_len, cost, ret, NULL);
}

weir_status weir_redis_peek(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                            int64_t cost, weir_redis_answer *ret)
{
    return submit_and_wait(r, WEIR_VERB_PEEK, p, key, key_len, cost, ret, NULL);
}

weir_status weir_redis_refund(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                              int64_t cost, weir_redis_answer *ret)
{
    return submit_and_wait(r, WEIR_VERB_REFUND, p, key, key_len, cost, ret, NULL);
}

weir_status weir_redis_charge(weir_redis *r, const weir_policy *p, const void *key, size_t key_len,
                              int64_t cost, weir_redis_answer *ret, int64_t *ret_over)
{
    int64_t counted;
    weir_status st = submit_and_wait(r, WEIR_VERB_CHARGE, p, key, key_len, cost, ret, &counted);
    if (st == WEIR_OK)
        *ret_over = cost - counted;
    return st;
}

weir_status weir_redis_reset(weir_redis *r, const weir_policy *p, const void *key, size_t key_len)
{
    return submit_and_wait(r, WEIR_VERB_RESET, p, key, key_len, 0, NULL, NULL);
}

weir_status weir_redis_check_async(weir_redis *r, const weir_policy *p, const void *key,
                                   size_t key_len, int64_t cost, weir_redis_fn fn, void *ctx)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_status st = check_request(r, key, key_len, cost);
    if (st != WEIR_OK)
        return st;
    size_t len = weir_policy_print(p, text, sizeof text);
    posted *q = port_zalloc(1, sizeof *q + len + key_len);
    if (!q)
        return WEIR_E_NOMEM;
    q->fn = fn;
    q->ctx = ctx;
    q->policy = *p;
    memcpy(q->bytes, text, len);
    memcpy(q->bytes + len, key, key_len);
    fill(q, r, WEIR_VERB_TAKE, &q->policy, (weir_slice){q->bytes, len},
         (weir_slice){q->bytes + len, key_len}, cost);
    st = weir_worker_post(r->worker, submit, q);
    if (st != WEIR_OK)
        port_free(q);
    return st;
}

/* ---- options --------------------------------------------------------------------------------- */

enum { STRINGS = 10 };

/* The strings of the options except the URLs, by index. */
static const char **string_at(weir_redis_options *o, size_t i)
{
    const char **all[] = {
        &o->user,   &o->password, &o->sentinel, &o->sentinel_user, &o->sentinel_password,
        &o->prefix, &o->tls_ca,   &o->tls_cert, &o->tls_key,       &o->tls_name};
    _Static_assert(sizeof all / sizeof *all == STRINGS, "copy_options() copies each string");
    WEIR_ASSERT(i < STRINGS);
    return all[i];
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
    for (size_t i = 0; i < STRINGS; i++)
        size += size_of(*string_at(&from, i));

    weir_redis_options *o = port_zalloc(1, size);
    if (!o)
        return NULL;
    const char **urls = (const char **)(void *)(o + 1);
    char *to = (char *)(urls + from.urls_len);
    *o = from;
    for (size_t i = 0; i < from.urls_len; i++)
        urls[i] = copy(&to, from.urls[i]);
    o->urls = urls;
    for (size_t i = 0; i < STRINGS; i++)
        *string_at(o, i) = copy(&to, *string_at(o, i));
    WEIR_ASSERT(to == (char *)o + size);
    o->zones = NULL;
    o->ret_error = NULL;
    return o;
}

/* Reads the TLS files if the URLs need them; otherwise *ret is not written. */
static weir_status open_tls(const weir_redis_options *options, port_tls **ret,
                            weir_redis_error *ret_error)
{
    /* If one URL needs TLS, all do: weir_redis_options_check(). */
    if (strncmp(options->urls[0], "rediss", 6) != 0)
        return WEIR_OK;
    return net_tls_open(ret, options->tls_ca, options->tls_cert, options->tls_key,
                        options->tls_insecure, ret_error->text, sizeof ret_error->text);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_all(weir_redis *r)
{
    while (r->waiters) {
        waiter *s = r->waiters;
        r->waiters = s->next;
        free_waiter(s);
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
    r->stats.client.resets = &r->resets;
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
    if (st != WEIR_OK && !*error.text)
        (void)snprintf(error.text, sizeof error.text, "%s",
                       st == WEIR_E_NOMEM ? "out of memory"
                                          : "no threads or file descriptors are left");
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
