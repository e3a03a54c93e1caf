/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLIENT_KIT_TEST_H
#define WEIR_ENGINE_REDIS_CLIENT_KIT_TEST_H
/* A kit for tests of the client: a dialer with a virtual clock, and simulated servers behind it. A
 * server reads requests and replies as the test has set it up. `remaining` in a decision is the
 * cost of its request, so a test can match replies to requests. */

#include "engine/redis/client/node.h"
#include "engine/redis/client/topology.h"

#include "codec/resp/resp.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS WEIR_REDIS_MS

enum {
    CONNECTIONS_MAX = 256,
    TIMERS_MAX = 2048,
    SERVERS_MAX = 8,
    REPLIES_MAX = 16,
    LOG_MAX = 8192
};

struct port_connection {
    bool used, up, authenticated;
    char host[WEIR_REDIS_HOST_MAX];
    uint16_t port;
    uint32_t skip;
    const port_tls *tls;
    const char *tls_name;
    port_connection_events events;
    void *ctx;
    weir_buffer in, out;
    weir_resp_parser parser;
    bool asking;
};

struct port_timer {
    bool used;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

/* A simulated server; its port identifies it. */
typedef struct server {
    uint16_t port;
    bool is_down; /* connections are refused */
    bool is_hung; /* it never replies */
    bool has_module, has_functions, has_library, has_script;
    bool has_no_time;               /* it refuses TIME to functions and scripts */
    int version;                    /* of its library; 0: that of the client */
    const char *role;               /* NULL: "master" */
    const char *slots;              /* the reply to CLUSTER SLOTS; NULL: not in Cluster mode */
    const char *master;             /* a Sentinel's reply; NULL: it knows no master */
    const char *user, *password;    /* NULL: none */
    const char *error;              /* the reply to every call; NULL: decisions */
    const char *reply[REPLIES_MAX]; /* the replies to the next calls */
    size_t replied, replies;
    const char *loading;     /* the reply to ROLE; NULL: its role */
    const char *no_load;     /* the reply to FUNCTION LOAD and SCRIPT LOAD; NULL: it loads */
    const char *no_version;  /* the reply to weir_version; NULL: its version */
    const char *resets;      /* the reply to HGETALL; NULL: nothing was reset */
    const char *set;         /* the reply to HSET; NULL: it is new */
    const char *no_decision; /* the reply to a handshake's request to decide; NULL: as to a call */
    size_t decisions;        /* such requests */
    size_t flushes;          /* before as many of them, the library is removed */
    size_t calls, connects, loads, askings, map_requests, master_requests, reads; /* counts */
    char database[8]; /* the latest SELECT */
    char last[4096];  /* the latest call, its words separated by spaces */
} server;

#define DECISION "*8\r\n:1\r\n:1000\r\n:999\r\n:0\r\n:1000\r\n:0\r\n:0\r\n:0\r\n"

static bool cut; /* in all tests: replies arrive byte by byte */

static struct kit {
    port_dialer port;
    int64_t now_ns;
    port_connection connection[CONNECTIONS_MAX];
    port_timer timer[TIMERS_MAX];
    server server[SERVERS_MAX];
    size_t servers;
    bool bytewise;      /* replies arrive byte by byte */
    bool holds;         /* connections stay in CONNECTING */
    bool no_memory;     /* for connections */
    size_t timers_left; /* then one timer fails */
    const port_tls *tls;
    size_t len_max; /* of a connection's buffers */
    char log[LOG_MAX];
    weir_redis_counts counts;
    weir_redis_resets resets; /* used if counts.resets points to it */
    const char *url[8];
    weir_redis_options options;
    weir_redis_client *client;
    weir_policy policy;
} kit;

/* ---- the dialer ------------------------------------------------------------------------------ */

static server *server_at(uint16_t port)
{
    for (size_t i = 0; i < kit.servers; i++) {
        if (kit.server[i].port == port)
            return &kit.server[i];
    }
    return NULL;
}

static port_connection *kit_connect(port_dialer *d, const port_endpoint *to,
                                    const port_connection_events *events, void *ctx)
{
    (void)d;
    for (size_t i = 0; !kit.no_memory && i < CONNECTIONS_MAX; i++) {
        port_connection *l = &kit.connection[i];
        if (l->used)
            continue;
        *l = (port_connection){.used = true, .port = to->port, .events = *events, .ctx = ctx};
        l->skip = to->skip;
        l->tls = to->tls;
        l->tls_name = to->tls_name;
        snprintf(l->host, sizeof l->host, "%s", to->host);
        weir_buffer_init(&l->in, kit.len_max);
        weir_buffer_init(&l->out, kit.len_max);
        weir_resp_init(&l->parser, NULL);
        if (server_at(to->port))
            server_at(to->port)->connects++;
        return l;
    }
    return NULL;
}

static weir_buffer *kit_out(port_connection *l)
{
    return &l->out;
}

static void kit_send(port_connection *l)
{
    assert_true(l->used);
}

static void drop_connection(port_connection *l)
{
    assert_true(l->used);
    weir_buffer_free(&l->in);
    weir_buffer_free(&l->out);
    l->used = false;
}

static inline size_t timers_in_use(void)
{
    size_t n = 0;
    for (size_t i = 0; i < TIMERS_MAX; i++)
        n += kit.timer[i].used;
    return n;
}

static port_timer *kit_new_timer(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    (void)d;
    if (kit.timers_left-- == 0)
        return NULL;
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        if (kit.timer[i].used)
            continue;
        kit.timer[i] = (port_timer){true, fn, ctx, INT64_MAX};
        return &kit.timer[i];
    }
    return NULL;
}

static void kit_set_timer(port_timer *a, int64_t at_ns)
{
    assert_true(a->used);
    a->at_ns = at_ns;
}

static void kit_free_timer(port_timer *a)
{
    if (a)
        a->used = false;
}

static int64_t kit_now(port_dialer *d)
{
    (void)d;
    return kit.now_ns;
}

static const port_dialer_calls kit_calls = {kit_connect,     kit_out,       kit_send,
                                            drop_connection, kit_new_timer, kit_set_timer,
                                            kit_free_timer,  kit_now};

/* ---- servers --------------------------------------------------------------------------------- */

static void put(weir_buffer *b, const char *text)
{
    weir_buffer_append(b, text, strlen(text));
}

static bool is(weir_slice arg, const char *word)
{
    return weir_resp_word_is(arg, word);
}

static void put_figures(weir_buffer *b, int64_t cost, bool more)
{
    const int64_t v[12] = {1, 1000000, cost, 0, 1000, 0, 0, 0, 77, -1, -1, -1};
    weir_resp_put_integers(b, v, more ? 12 : 8, 0);
}

static bool is_of_handshake(const weir_resp_request *r)
{
    static const char end[] = ":#handshake";
    for (size_t i = 1; i < r->args; i++) {
        weir_slice a = r->arg[i];
        if (a.len >= sizeof end &&
            memcmp(a.at + a.len - (sizeof end - 1), end, sizeof end - 1) == 0)
            return true;
    }
    return false;
}

static void put_decision(const server *s, const weir_resp_request *r, weir_buffer *b);

static void decide(server *s, const weir_resp_request *r, weir_buffer *b)
{
    if (is_of_handshake(r)) {
        s->decisions++;
        if (s->flushes > 0) {
            s->flushes--;
            s->has_library = false;
            put(b, "-ERR Function not found\r\n");
        } else if (s->no_decision)
            put(b, s->no_decision);
        else
            put_decision(s, r, b);
        return;
    }
    s->calls++;
    size_t len = 0;
    for (size_t i = 0; i < r->args && len + r->arg[i].len + 2 < sizeof s->last; i++) {
        memcpy(s->last + len, r->arg[i].at, r->arg[i].len);
        len += r->arg[i].len;
        s->last[len++] = ' ';
    }
    s->last[len > 0 ? len - 1 : 0] = 0;
    if (s->replied < s->replies) {
        put(b, s->reply[s->replied++]);
        return;
    }
    put_decision(s, r, b);
}

static void put_decision(const server *s, const weir_resp_request *r, weir_buffer *b)
{
    if (s->error) {
        put(b, s->error);
        return;
    }
    bool by_library = is(r->arg[0], "FCALL"), by_script = is(r->arg[0], "EVALSHA");
    if ((by_library && !s->has_library) || (by_script && !s->has_script)) {
        put(b, by_library ? "-ERR Function not found\r\n" : "-NOSCRIPT No matching script.\r\n");
        return;
    }
    if (!by_library && !by_script && !s->has_module) {
        put(b, "-ERR unknown command 'WEIR.ASK', with args beginning with: \r\n");
        return;
    }
    int64_t cost = 0;
    size_t at = by_library ? 6 : by_script ? 7 : 4;
    bool has_time = (by_library || by_script) && is(r->arg[at - 2], "AT");
    if (s->has_no_time && !has_time) {
        put(b, "-NOTIME the server refuses TIME to functions and scripts: NOPERM\r\n");
        return;
    }
    at += has_time ? 2 : 0;
    (void)weir_i64_read(r->arg[at].at, r->arg[at].len, &cost);
    put_figures(b, cost, is(r->arg[r->args - 1], "FIGURES"));
}

static bool is_text(weir_slice arg, const char *text)
{
    return arg.len == strlen(text) && memcmp(arg.at, text, arg.len) == 0;
}

static void authenticate(const server *s, port_connection *l, const weir_resp_request *r,
                         weir_buffer *b)
{
    const weir_slice *a = r->arg;
    l->authenticated = s->password && r->args == (s->user ? 3 : 2) &&
                       (!s->user || is_text(a[1], s->user)) && is_text(a[r->args - 1], s->password);
    put(b, l->authenticated ? "+OK\r\n" : "-WRONGPASS invalid username-password pair\r\n");
}

static void answer_shake(server *s, const weir_resp_request *r, weir_buffer *b)
{
    const weir_slice *a = r->arg;
    if (is(a[0], "SELECT")) {
        snprintf(s->database, sizeof s->database, "%.*s", (int)a[1].len, a[1].at);
        put(b, "+OK\r\n");
    } else if (is(a[0], "ROLE") && s->loading) {
        put(b, s->loading);
    } else if (is(a[0], "ROLE")) {
        weir_resp_put_array(b, 3);
        weir_resp_put_text(b, s->role ? s->role : "master");
        put(b, ":0\r\n*1\r\n*2\r\n$1\r\nx\r\n$-1\r\n");
    } else if (is(a[0], "COMMAND")) {
        put(b, s->has_module ? "*1\r\n*3\r\n$8\r\nweir.ask\r\n:5\r\n*1\r\n+write\r\n"
                             : "*1\r\n*-1\r\n");
    } else if ((is(a[0], "FUNCTION") || is(a[0], "SCRIPT")) && s->no_load) {
        put(b, s->no_load);
    } else if (is(a[0], "FUNCTION")) {
        s->has_library = true;
        s->version = WEIR_REDIS_LIBRARY_VERSION;
        s->loads++;
        put(b, "$4\r\nweir\r\n");
    } else if (is(a[0], "SCRIPT")) {
        s->has_script = true;
        s->loads++;
        put(b, "$40\r\n0123456789012345678901234567890123456789\r\n");
    } else if (is(a[0], "SENTINEL")) {
        s->master_requests++;
        put(b, s->master ? s->master : "*-1\r\n");
    } else {
        put(b, "+OK\r\n");
    }
}

static void answer_one(server *s, port_connection *l, const weir_resp_request *r, weir_buffer *b)
{
    const weir_slice *a = r->arg;
    if (is(a[0], "AUTH")) {
        authenticate(s, l, r, b);
    } else if (s->password && !l->authenticated) {
        put(b, "-NOAUTH Authentication required.\r\n");
    } else if (is(a[0], "CLUSTER")) {
        s->map_requests++;
        put(b, s->slots ? s->slots : "-ERR This instance has cluster support disabled\r\n");
    } else if (is(a[0], "FCALL") && is(a[1], "WEIR_VERSION")) {
        if (s->no_version)
            put(b, s->no_version);
        else if (!s->has_functions)
            put(b, "-ERR unknown command 'FCALL'\r\n");
        else if (!s->has_library)
            put(b, "-ERR Function not found\r\n");
        else
            weir_resp_put_i64(b, s->version ? s->version : WEIR_REDIS_LIBRARY_VERSION);
    } else if (is(a[0], "HGETALL")) {
        s->reads++;
        assert_int_equal(r->args, 2);
        assert_true(is_text(a[1], "weir:#resets"));
        put(b, s->resets ? s->resets : "*0\r\n");
    } else if (is(a[0], "HSET")) {
        size_t len = 0;
        for (size_t i = 0; i < r->args; i++)
            len += (size_t)snprintf(s->last + len, sizeof s->last - len, i == 0 ? "%.*s" : " %.*s",
                                    (int)a[i].len, a[i].at);
        put(b, s->set ? s->set : ":1\r\n");
    } else if (is(a[0], "ASKING")) {
        s->askings++;
        l->asking = true;
        put(b, "+OK\r\n");
    } else if (is(a[0], "WEIR.ASK") || is(a[0], "WEIR.ASKALL") || is(a[0], "FCALL") ||
               is(a[0], "EVALSHA") || is(a[0], "CL.THROTTLE")) {
        decide(s, r, b);
        l->asking = false;
    } else {
        answer_shake(s, r, b);
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool is_sound_call(const weir_redis_call *call)
{
    bool linked = call->next->before == call && call->before->next == call;
    if (!call->pipeline)
        return linked && (!call->wait_next || (call->wait_next->wait_before == call &&
                                               call->wait_before->wait_next == call));
    return linked && !call->wait_next &&
           weir_redis_pipeline_at(call->pipeline, call->number)->call == call;
}

/* The rings are linked in both directions, the deadlines are in order, and each call is where it
 * says. */
static void assert_calls_are_sound(const weir_redis_calls *c)
{
    size_t in_flight = 0;
    int64_t before_ns = INT64_MIN;
    for (const weir_redis_call *call = c->deadlines.next; call != &c->deadlines;
         call = call->next) {
        in_flight++;
        assert_true(is_sound_call(call) && !call->ended && call->deadline_ns >= before_ns);
        before_ns = call->deadline_ns;
    }
    for (const weir_redis_call *call = c->ended.next; call != &c->ended; call = call->next)
        assert_true(is_sound_call(call) && call->ended && !call->pipeline && !call->wait_next);
    assert_int_equal(in_flight, c->in_flight);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void hear(port_connection *l)
{
    if (weir_buffer_len(&l->in) > 0)
        l->events.received(l->ctx, &l->in, kit.now_ns);
}

static void close_connection(port_connection *l, const char *why)
{
    port_connection gone = *l;
    drop_connection(l);
    gone.events.closed(gone.ctx, why, kit.now_ns);
}

static void reply(port_connection *l, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    size_t step = kit.bytewise ? 1 : len;
    void *ctx = l->ctx;
    for (size_t i = 0; i < len && l->used && l->ctx == ctx; i += step) {
        weir_buffer_append(&l->in, at + i, step);
        if (l->in.failed)
            close_connection(l, "no memory for its replies");
        else
            hear(l);
    }
}

/* Reads the requests on a connection, and replies. Returns whether there were any. */
static bool serve(port_connection *l)
{
    server *s = server_at(l->port);
    if (!s || s->is_hung || weir_buffer_len(&l->out) == 0)
        return false;
    static weir_slice arg[WEIR_RESP_ARGS_MAX];
    weir_buffer replies;
    weir_buffer_init(&replies, 64 << 20);
    bool any = false;
    weir_resp_limits limits = {WEIR_RESP_ARGS_MAX, 1 << 20, 1 << 16, 1 << 21};
    l->parser.limits = &limits;
    for (;;) {
        weir_resp_request r = {.arg = arg};
        weir_resp_result result =
            weir_resp_next(&l->parser, weir_buffer_data(&l->out), weir_buffer_len(&l->out), &r);
        assert_true(result == WEIR_RESP_REQUEST || result == WEIR_RESP_NEED_MORE);
        any |= result == WEIR_RESP_REQUEST;
        if (result == WEIR_RESP_REQUEST)
            answer_one(s, l, &r, &replies);
        weir_buffer_consume(&l->out, r.used);
        if (result == WEIR_RESP_NEED_MORE)
            break;
    }
    if (replies.failed)
        close_connection(l, "it closed the connection");
    else
        reply(l, weir_buffer_data(&replies), weir_buffer_len(&replies));
    weir_buffer_free(&replies);
    return any;
}

/* Runs all events that are due now, and those that they cause. */
static void run_due_events(void)
{
    bool busy = true;
    for (int turn = 0; busy; turn++) {
        assert_true(turn < 1000);
        busy = false;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            port_connection *l = &kit.connection[i];
            if (!l->used)
                continue;
            server *s = server_at(l->port);
            if (!l->up && !kit.holds && (!s || s->is_down)) {
                close_connection(l, "connection refused");
                busy = true;
            } else if (!l->up && !kit.holds) {
                l->up = busy = true;
                l->events.connected(l->ctx, kit.now_ns);
            } else if (l->up) {
                busy |= serve(l);
            }
        }
        for (size_t i = 0; i < TIMERS_MAX; i++) {
            port_timer *a = &kit.timer[i];
            if (!a->used || a->at_ns > kit.now_ns)
                continue;
            a->at_ns = INT64_MAX;
            a->fn(a->ctx, kit.now_ns);
            busy = true;
        }
        if (kit.client) /* its context comes first */
            assert_calls_are_sound(&((const weir_redis_context *)kit.client)->calls);
    }
}

/* Advances the clock from timer to timer. */
static inline void pass(int64_t ns)
{
    int64_t until_ns = kit.now_ns + ns;
    run_due_events();
    for (;;) {
        int64_t next_ns = INT64_MAX;
        for (size_t i = 0; i < TIMERS_MAX; i++) {
            if (kit.timer[i].used && kit.timer[i].at_ns < next_ns)
                next_ns = kit.timer[i].at_ns;
        }
        if (next_ns > until_ns)
            break;
        kit.now_ns = next_ns;
        run_due_events();
    }
    kit.now_ns = until_ns;
    run_due_events();
}

static port_connection *connection_to(uint16_t port)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (kit.connection[i].used && kit.connection[i].port == port)
            return &kit.connection[i];
    }
    return NULL;
}

static inline size_t lines_to(uint16_t port)
{
    size_t n = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        n += kit.connection[i].used && kit.connection[i].port == port;
    return n;
}

static inline void server_dies(server *s)
{
    s->is_down = true;
    for (port_connection *l; (l = connection_to(s->port));)
        close_connection(l, "it closed the connection");
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef struct test_call {
    weir_redis_call call; /* first */
    weir_engine_request request[WEIR_TAKE_MANY_MAX];
    char key[64];
    int done; /* how many times */
    int64_t done_ns;
    char why[WEIR_REDIS_WHY_MAX];
} test_call;

static void on_done(weir_redis_call *c, int64_t now_ns)
{
    test_call *t = (test_call *)c;
    t->done++;
    t->done_ns = now_ns;
    snprintf(t->why, sizeof t->why, "%s", c->why ? c->why : "");
}

static const char policy_text[] = "gcra 100/s burst 20";

static weir_slice bytes_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static void call_of(test_call *t, weir_verb verb, const char *key, int64_t cost, int64_t within_ns)
{
    memset(t, 0xa5, sizeof *t); /* only what is set below counts */
    t->request[1].status = WEIR_E_BUSY;
    t->done = 0;
    snprintf(t->key, sizeof t->key, "%s", key);
    t->request[0] = (weir_engine_request){
        .verb = verb,
        .policy = &kit.policy,
        .text = bytes_of(policy_text),
        .name = bytes_of("api"),
        .key = bytes_of(t->key),
        .cost = cost,
        .status = WEIR_E_BUSY,
        .by_error = true,
        .reason = "not answered",
        .granted = 7,
    };
    t->call.request = t->request;
    t->call.len = 1;
    t->call.all = false;
    t->call.deadline_ns = kit.now_ns + within_ns;
    t->call.done = on_done;
}

static void send_call(test_call *t)
{
    weir_redis_client_send(kit.client, &t->call, kit.now_ns);
    assert_int_equal(t->done, 0); /* not from within send() */
}

static inline void take(test_call *t, const char *key, int64_t cost)
{
    call_of(t, WEIR_VERB_TAKE, key, cost, 50 * MS);
    send_call(t);
}

#define assert_ended(t, how)                                                                       \
    do {                                                                                           \
        assert_int_equal((t)->done, 1);                                                            \
        assert_int_equal((t)->call.outcome, how);                                                  \
    } while (0)

static inline void assert_status(const test_call *t, weir_status status, const char *reason)
{
    assert_ended(t, WEIR_REDIS_ANSWERED);
    for (size_t i = 0; i < t->call.len; i++) {
        assert_int_equal(t->request[i].status, status);
        assert_false(t->request[i].by_error);
        if (reason)
            assert_string_equal(t->request[i].reason, reason);
        else
            assert_null(t->request[i].reason);
    }
    /* Only the requests of the call are written. */
    if (t->call.len < WEIR_TAKE_MANY_MAX)
        assert_int_equal(t->request[t->call.len].status, WEIR_E_BUSY);
}

static inline void assert_answered(const test_call *t)
{
    assert_status(t, WEIR_OK, NULL);
    assert_int_equal(t->request[0].granted, 0);
    assert_int_equal(t->request[0].decision.remaining, t->request[0].cost);
}

/* ---- setup and teardown ---------------------------------------------------------------------- */

static void on_log(void *ctx, const char *event, const char *node, const char *text)
{
    (void)ctx;
    size_t len = strlen(kit.log);
    snprintf(kit.log + len, sizeof kit.log - len, "%s %s: %s\n", event, node, text);
}

static server *add_server(uint16_t port)
{
    server *s = &kit.server[kit.servers++];
    *s = (server){.port = port, .has_module = true};
    return s;
}

static int setup(void **state)
{
    (void)state;
    memset(&kit, 0, sizeof kit);
    kit.port.calls = &kit_calls;
    kit.now_ns = 1767225600000000000;
    kit.len_max = 64 << 20;
    kit.timers_left = SIZE_MAX;
    kit.bytewise = cut;
    kit.url[0] = "redis://a:7000";
    kit.options = (weir_redis_options){.urls = kit.url, .urls_len = 1};
    return weir_policy_parse(&kit.policy, policy_text, strlen(policy_text), NULL, NULL) == WEIR_OK
               ? 0
               : -1;
}

static inline void open_client(void)
{
    const weir_redis_log log = {on_log, NULL};
    weir_redis_error error;
    assert_int_equal(weir_redis_options_check(&kit.options, &error), WEIR_OK);
    assert_int_equal(
        weir_redis_client_open(&kit.client, &kit.options, kit.tls, &kit.port, &kit.counts, &log, 1),
        WEIR_OK);
}

/* Opens the client of one server, and lets it connect. */
static inline server *open_with_server(void)
{
    server *s = add_server(7000);
    open_client();
    run_due_events();
    return s;
}

/* A call that is answered at once. */
static inline void take_answered(test_call *t, const char *key, int64_t cost)
{
    take(t, key, cost);
    run_due_events();
    assert_answered(t);
}

static int teardown(void **state)
{
    (void)state;
    weir_redis_client_close(kit.client);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (kit.connection[i].used)
            return -1;
    }
    for (size_t i = 0; i < TIMERS_MAX; i++) {
        if (kit.timer[i].used)
            return -1;
    }
    return 0;
}

/* Runs all tests, then runs them again with all replies cut into bytes. */
#define RUN_BOTH_WAYS(tests)                                                                       \
    do {                                                                                           \
        int failed = cmocka_run_group_tests_name("whole", tests, NULL, NULL);                      \
        cut = true;                                                                                \
        return failed + cmocka_run_group_tests_name("byte by byte", tests, NULL, NULL);            \
    } while (0)

static inline uint64_t count(const port_counter *c)
{
    return port_load_relaxed(c);
}

#endif
