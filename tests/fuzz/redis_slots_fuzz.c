/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the Redis client among servers that send any bytes. The servers complete the
 * handshake. To a request for the map of the Cluster, and to a decision, they reply with the next
 * piece of the input, up to a NUL; at its end they stop replying. Every call ends exactly once, at
 * its deadline at the latest, and closing the client releases everything. */

#include "fuzz.h"

#include "engine/redis/client/topology.h"

#include "codec/resp/resp.h"

enum { CONNECTIONS_MAX = 1200, TIMERS_MAX = 1200, CALLS = 6, TURNS_MAX = 200 };

struct port_connection {
    bool used, up;
    port_connection_events events;
    void *ctx;
    weir_buffer in, out;
    weir_resp_parser parser;
};

struct port_timer {
    bool used;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

typedef struct fuzz_call {
    weir_redis_call call; /* first */
    weir_engine_request request;
    int done;
} fuzz_call;

static port_connection connection[CONNECTIONS_MAX];
static port_timer timer[TIMERS_MAX];
static size_t connections_end, timers_end;
static int64_t now_ns;
static const uint8_t *input;
static size_t input_len;

static port_connection *dial(port_dialer *d, const port_endpoint *to,
                             const port_connection_events *events, void *ctx)
{
    (void)d;
    CHECK(to->host[0]);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (connection[i].used)
            continue;
        connection[i] = (port_connection){.used = true, .events = *events, .ctx = ctx};
        weir_buffer_init(&connection[i].in, 1 << 20);
        weir_buffer_init(&connection[i].out, 1 << 20);
        weir_resp_init(&connection[i].parser, NULL);
        connections_end = i >= connections_end ? i + 1 : connections_end;
        return &connection[i];
    }
    return NULL;
}

static weir_buffer *out(port_connection *l)
{
    return &l->out;
}

static void send_soon(port_connection *l)
{
    CHECK(l->used);
}

static void hang_up(port_connection *l)
{
    CHECK(l->used);
    weir_buffer_free(&l->in);
    weir_buffer_free(&l->out);
    l->used = false;
}

static port_timer *timer_new(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    (void)d;
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        if (timer[i].used)
            continue;
        timer[i] = (port_timer){true, fn, ctx, INT64_MAX};
        timers_end = i >= timers_end ? i + 1 : timers_end;
        return &timer[i];
    }
    return NULL;
}

static void set(port_timer *a, int64_t at_ns)
{
    CHECK(a->used);
    a->at_ns = at_ns;
}

static void drop(port_timer *a)
{
    if (a)
        a->used = false;
}

static int64_t now(port_dialer *d)
{
    (void)d;
    return now_ns;
}

static void put(weir_buffer *b, const char *text)
{
    weir_buffer_append(b, text, strlen(text));
}

/* Replies with the next piece of the input. Returns false at its end. */
static bool put_next(weir_buffer *b)
{
    if (input_len == 0)
        return false;
    const uint8_t *end = memchr(input, 0, input_len);
    size_t len = end ? (size_t)(end - input) : input_len;
    weir_buffer_append(b, input, len);
    size_t used = end ? len + 1 : len;
    input += used;
    input_len -= used;
    return true;
}

/* Replies to all requests on a connection. Returns whether there were any. */
static bool serve(port_connection *l)
{
    static weir_slice arg[WEIR_RESP_ARGS_MAX];
    bool busy = false, silent = false;
    while (l->used && !silent) {
        weir_resp_request r = {.arg = arg};
        weir_resp_result result =
            weir_resp_next(&l->parser, weir_buffer_data(&l->out), weir_buffer_len(&l->out), &r);
        CHECK(result == WEIR_RESP_REQUEST || result == WEIR_RESP_NEED_MORE);
        if (result == WEIR_RESP_NEED_MORE)
            break;
        busy = true;
        if (weir_resp_word_is(arg[0], "ROLE"))
            put(&l->in, "*1\r\n$6\r\nmaster\r\n");
        else if (weir_resp_word_is(arg[0], "COMMAND"))
            put(&l->in, "*1\r\n*1\r\n+x\r\n");
        else if (weir_resp_word_is(arg[0], "CLUSTER") || weir_resp_word_is(arg[0], "WEIR.ASK"))
            silent = !put_next(&l->in);
        else
            put(&l->in, "+OK\r\n");
        weir_buffer_consume(&l->out, r.used);
    }
    if (busy && weir_buffer_len(&l->in) > 0)
        l->events.received(l->ctx, &l->in, now_ns);
    return busy;
}

/* Delivers events until nothing more happens. */
static void run_events(void)
{
    bool busy = true;
    for (int turns = 0; busy && turns < TURNS_MAX; turns++) {
        busy = false;
        for (size_t i = 0; i < connections_end; i++) {
            port_connection *l = &connection[i];
            if (l->used && !l->up) {
                l->up = busy = true;
                l->events.connected(l->ctx, now_ns);
            } else if (l->used) {
                busy |= serve(l);
            }
        }
        for (size_t i = 0; i < timers_end; i++) {
            port_timer *a = &timer[i];
            if (!a->used || a->at_ns > now_ns)
                continue;
            a->at_ns = INT64_MAX;
            a->fn(a->ctx, now_ns);
            busy = true;
        }
    }
}

static void on_done(weir_redis_call *c, int64_t at_ns)
{
    (void)at_ns;
    fuzz_call *f = (fuzz_call *)c;
    CHECK(f->done++ == 0);
    CHECK(!c->why || strlen(c->why) < WEIR_REDIS_WHY_MAX);
}

static void ask(weir_redis_client *c, const weir_policy *p, fuzz_call *f, const char *key)
{
    *f = (fuzz_call){0};
    f->request = (weir_engine_request){
        .policy = p, .text = {"gcra 1/s", 8}, .key = {key, strlen(key)}, .cost = 1};
    f->call = (weir_redis_call){.request = &f->request,
                                .len = 1,
                                .deadline_ns = now_ns + 50 * WEIR_REDIS_MS,
                                .done = on_done};
    weir_redis_client_send(c, &f->call, now_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const port_dialer_calls calls = {dial,      out, send_soon, hang_up,
                                            timer_new, set, drop,      now};
    static const char *const key[CALLS] = {"foo", "bar", "hello", "a", "b", "c"};
    static weir_redis_counts counts;
    port_dialer dialer = {&calls};
    const char *url = "redis://a:1";
    weir_redis_options options = {.urls = &url, .urls_len = 1};
    weir_policy policy;
    CHECK(weir_policy_parse(&policy, "gcra 1/s", 8, NULL, NULL) == WEIR_OK);
    input = data;
    input_len = size;
    connections_end = timers_end = 0;
    now_ns = 1767225600000000000;
    weir_redis_client *c;
    CHECK(weir_redis_client_open(&c, &options, NULL, &dialer, &counts, NULL, 1) == WEIR_OK);
    static fuzz_call call[CALLS];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < CALLS; i++)
            ask(c, &policy, &call[i], key[i]);
        for (int i = 0; i < 12; i++) {
            run_events();
            now_ns += 5 * WEIR_REDIS_MS;
        }
        run_events();
        for (int i = 0; i < CALLS; i++)
            CHECK(call[i].done == 1);
        now_ns += 1000 * WEIR_REDIS_MS;
    }
    size_t timers = 0; /* one for each node, and two more */
    for (size_t i = 0; i < timers_end; i++)
        timers += timer[i].used;
    CHECK(timers <= WEIR_REDIS_NODES_MAX + 2);
    weir_redis_client_close(c);
    for (size_t i = 0; i < connections_end; i++)
        CHECK(!connection[i].used);
    for (size_t i = 0; i < timers_end; i++)
        CHECK(!timer[i].used);
    return 0;
}
