/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calls of a client in virtual time: each ends once, at its deadline at the latest, and with its
 * own reply. */

#include "engine/redis/client/client_kit_test.h"

static void the_module_decides(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    test_call t;
    take_answered(&t, "alice", 3);
    assert_true(t.request[0].decision.allowed);
    assert_int_equal(t.request[0].decision.limit, 1000000);
    assert_int_equal(t.request[0].decision.reset_after_ns, 1000000);
    assert_string_equal(s->last, "WEIR.ASK TAKE gcra 100/s burst 20 weir:{alice}:api 3");
    assert_string_equal(kit.log, "redis-up a:7000: the module\n");
    assert_int_equal(count(&kit.counts.sent), 1);
    assert_int_equal(count(&kit.counts.answered), 1);
    assert_int_equal(count(&kit.counts.connected), 1);
}

static void replies_match_their_calls(void **state)
{
    (void)state;
    add_server(7000);
    open_client();
    enum { N = 300 };
    static test_call t[N];
    for (int i = 0; i < N; i++)
        take(&t[i], "alice", i);
    run_due_events();
    for (int i = 0; i < N; i++)
        assert_answered(&t[i]);
    assert_int_equal(kit.server[0].connects, 1);
}

static void a_call_is_late_at_its_deadline(void **state)
{
    (void)state;
    server *s = open_with_server();
    s->is_hung = true;
    test_call a, b, c;
    take(&a, "alice", 1);
    call_of(&b, WEIR_VERB_TAKE, "alice", 2, 20 * MS);
    send_call(&b);
    int64_t begin_ns = kit.now_ns;
    pass(20 * MS - 1);
    assert_int_equal(b.done, 0);
    pass(1);
    assert_ended(&b, WEIR_REDIS_TIMEOUT);
    assert_int_equal(b.done_ns, begin_ns + 20 * MS);
    assert_int_equal(a.done, 0);
    pass(40 * MS);
    assert_ended(&a, WEIR_REDIS_TIMEOUT);
    /* A late reply is dropped. The next call does not get it. */
    memset(&a, 0x55, sizeof a);
    memset(&b, 0x55, sizeof b);
    take(&c, "alice", 3);
    s->is_hung = false;
    run_due_events();
    assert_answered(&c);
    assert_int_equal(count(&kit.counts.timeout), 2);
    assert_int_equal(s->connects, 1);
}

static void a_refused_connection_is_unreachable(void **state)
{
    (void)state;
    open_client();
    test_call a, b;
    take(&a, "alice", 1);
    pass(50 * MS);
    assert_ended(&a, WEIR_REDIS_UNREACHABLE);
    pass(5000 * MS); /* the pauses have grown: a call ends at once */
    int64_t next_ns = -1;
    assert_false(weir_redis_client_is_up(kit.client, a.request, &next_ns));
    assert_in_range(next_ns, kit.now_ns, kit.now_ns + 2000 * MS);
    pass(next_ns - kit.now_ns);
    take(&b, "alice", 1);
    run_due_events();
    assert_ended(&b, WEIR_REDIS_UNREACHABLE);
    assert_int_equal(count(&kit.counts.unreachable), 2);
    assert_string_equal(kit.log, "redis-down a:7000: connection refused\n");
}

/* A call waits for the end of a pause only if the pause ends before its deadline. */
static void a_pause_may_end_too_late(void **state)
{
    (void)state;
    server *s = open_with_server();
    server_dies(s);
    run_due_events();
    test_call a, b;
    int64_t next_ns = 0;
    call_of(&a, WEIR_VERB_TAKE, "alice", 1, 0);
    assert_false(weir_redis_client_is_up(kit.client, a.request, &next_ns));
    call_of(&a, WEIR_VERB_TAKE, "alice", 1, next_ns - kit.now_ns);
    send_call(&a);
    call_of(&b, WEIR_VERB_TAKE, "alice", 2, next_ns - kit.now_ns + 1);
    send_call(&b);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_UNREACHABLE);
    assert_string_equal(a.why, "no connection to the node before the deadline");
    assert_int_equal(b.done, 0);
    s->is_down = false;
    pass(next_ns - kit.now_ns);
    assert_answered(&b);
}

/* The time of the next attempt to connect, with and without a known master. */
static void tells_when_it_connects_next(void **state)
{
    (void)state;
    test_call t;
    int64_t next_ns = 7, again_ns = 7;
    server *s = add_server(7001);
    kit.url[1] = "redis://a:7001";
    kit.options.urls_len = 2;
    s->is_down = true;
    open_client();
    call_of(&t, WEIR_VERB_TAKE, "alice", 1, 0);
    assert_false(weir_redis_client_is_up(kit.client, t.request, &next_ns));
    assert_int_equal(next_ns, 0); /* it connects now */
    run_due_events();
    assert_false(weir_redis_client_is_up(kit.client, t.request, &next_ns));
    assert_in_range(next_ns, kit.now_ns + 5 * MS, kit.now_ns + 10 * MS);
    test_call late, waits; /* whether a server may reply before the deadline */
    call_of(&late, WEIR_VERB_TAKE, "alice", 1, next_ns - kit.now_ns);
    send_call(&late);
    call_of(&waits, WEIR_VERB_TAKE, "alice", 1, next_ns - kit.now_ns + 1);
    send_call(&waits);
    run_due_events();
    assert_ended(&late, WEIR_REDIS_UNREACHABLE);
    assert_string_equal(late.why, "no server can be reached before the deadline");
    assert_int_equal(waits.done, 0);
    pass(next_ns - kit.now_ns); /* the other URL's pause is longer */
    assert_false(weir_redis_client_is_up(kit.client, t.request, &again_ns));
    assert_in_range(again_ns, next_ns + 1, next_ns + 5 * MS);
    weir_redis_client_close(kit.client);
    s->is_down = false;
    s->is_hung = true;
    open_client();
    run_due_events();
    next_ns = 7;
    assert_false(weir_redis_client_is_up(kit.client, t.request, &next_ns));
    assert_int_equal(next_ns, 0); /* the second URL may reply at any time */
    weir_redis_client_close(kit.client);
    kit.options.urls_len = 1;
    s = add_server(7000);
    open_client();
    run_due_events();
    server_dies(s);
    s->is_down = false;
    kit.holds = true;
    pass(20 * MS);
    next_ns = 7;
    assert_false(weir_redis_client_is_up(kit.client, t.request, &next_ns));
    assert_int_equal(next_ns, 0);
}

static void timeouts_before_the_handshake_ends(void **state)
{
    (void)state;
    server *s = add_server(7000);
    kit.holds = true;
    open_client();
    pass(3000 * MS - 1);
    assert_string_equal(kit.log, "");
    pass(1);
    assert_string_equal(kit.log, "redis-down a:7000: connecting timed out\n");
    s->is_hung = true;
    pass(20 * MS);
    kit.holds = false;
    kit.log[0] = 0;
    run_due_events(); /* the handshake begins, and has its own time */
    pass(3000 * MS - 1);
    assert_non_null(connection_to(7000));
    assert_int_equal(s->connects, 2);
    pass(20 * MS);
    s->is_hung = false;
    pass(100 * MS);
    assert_int_equal(s->connects, 3);
    assert_string_equal(kit.log, "redis-down a:7000: the server does not reply\n"
                                 "redis-up a:7000: the module\n");
}

static void a_call_waits_for_the_connection(void **state)
{
    (void)state;
    server *s = add_server(7000);
    kit.holds = true;
    open_client();
    test_call a, b;
    take(&a, "alice", 1);
    call_of(&b, WEIR_VERB_TAKE, "bob", 2, 500 * MS);
    send_call(&b);
    pass(60 * MS);
    assert_ended(&a, WEIR_REDIS_UNREACHABLE);
    assert_int_equal(b.done, 0);
    kit.holds = false;
    run_due_events();
    assert_answered(&b);
    assert_int_equal(s->calls, 1);
    assert_true(weir_redis_client_is_up(kit.client, a.request, &(int64_t){0}));
}

static void backoff_grows_and_ends(void **state)
{
    (void)state;
    open_client();
    pass(10000 * MS);
    uint64_t first = count(&kit.counts.attempts);
    assert_in_range(first, 15, 27); /* 10, 20, ... 640, then 0.5 to 1 s */
    pass(100000 * MS);
    assert_in_range(count(&kit.counts.attempts) - first, 100, 200);
    server *s = add_server(7000);
    pass(5000 * MS);
    assert_int_equal(s->connects, 1);
    server_dies(s);
    s->is_down = false;
    pass(10 * MS); /* the first pause again, since the connection had worked */
    assert_int_equal(s->connects, 2);
}

static void sent_calls_end_as_broken(void **state)
{
    (void)state;
    server *s = open_with_server();
    s->is_hung = true;
    test_call late, a, b;
    call_of(&late, WEIR_VERB_TAKE, "alice", 0, MS);
    send_call(&late);
    take(&a, "alice", 1);
    take(&b, "alice", 2);
    pass(MS);
    assert_ended(&late, WEIR_REDIS_TIMEOUT);
    assert_int_equal(count(&kit.counts.connected), 1);
    server_dies(s);
    assert_int_equal(count(&kit.counts.connected), 0);
    assert_ended(&a, WEIR_REDIS_CONNECTION_LOST);
    assert_ended(&b, WEIR_REDIS_CONNECTION_LOST);
    assert_int_equal(count(&kit.counts.lost), 2);
    assert_string_equal(a.why, "it closed the connection");
    s->is_down = s->is_hung = false;
    pass(1000 * MS);
    assert_int_equal(s->calls, 0); /* it is not sent again */
    test_call c;
    take_answered(&c, "alice", 3);
    assert_string_equal(kit.log, "redis-up a:7000: the module\n"
                                 "redis-down a:7000: it closed the connection\n"
                                 "redis-up a:7000: the module\n");
}

static void a_hung_server_is_reconnected(void **state)
{
    (void)state;
    server *s = open_with_server();
    s->is_hung = true;
    test_call a;
    take(&a, "alice", 1);
    pass(2900 * MS);
    assert_ended(&a, WEIR_REDIS_TIMEOUT);
    assert_int_equal(s->connects, 1);
    pass(3100 * MS); /* the timer expires every 3 s */
    assert_int_equal(s->connects, 2);
    s->is_hung = false;
    test_call b;
    call_of(&b, WEIR_VERB_TAKE, "alice", 2, 5000 * MS);
    send_call(&b);
    pass(5000 * MS);
    assert_answered(&b);
    pass(60000 * MS); /* a connection without requests stays open */
    assert_in_range(s->connects, 2, 3);
    assert_true(weir_redis_client_is_up(kit.client, a.request, &(int64_t){0}));
}

static void an_abandoned_call_is_not_touched(void **state)
{
    (void)state;
    server *s = add_server(7000);
    kit.holds = true;
    open_client();
    test_call waits, sent, next;
    take(&waits, "alice", 1);
    weir_redis_client_abandon(kit.client, &waits.call);
    memset(&waits, 0x55, sizeof waits);
    kit.holds = false;
    run_due_events();
    take(&sent, "alice", 2);
    take(&next, "alice", 3);
    weir_redis_client_abandon(kit.client, &sent.call);
    memset(&sent, 0x55, sizeof sent);
    run_due_events();
    assert_answered(&next);
    assert_int_equal(s->calls, 2);
    /* The same for a call that ended within send(). */
    server_dies(s);
    pass(5000 * MS);
    test_call ended;
    call_of(&ended, WEIR_VERB_TAKE, "alice", 1, 0);
    send_call(&ended);
    weir_redis_client_abandon(kit.client, &ended.call);
    run_due_events();
    assert_int_equal(ended.done, 0);
}

static void too_many_calls_are_refused(void **state)
{
    (void)state;
    server *s = add_server(7000);
    kit.options.in_flight = 4;
    open_client();
    run_due_events();
    s->is_hung = true;
    test_call t[6];
    for (int i = 0; i < 6; i++)
        take(&t[i], "alice", i);
    run_due_events();
    for (int i = 0; i < 6; i++)
        assert_int_equal(t[i].done, i >= 4);
    assert_ended(&t[4], WEIR_REDIS_OVERLOADED);
    assert_int_equal(count(&kit.counts.sent), 4);
    s->is_hung = false;
    run_due_events();
    for (int i = 0; i < 4; i++)
        assert_answered(&t[i]);
    test_call last;
    take_answered(&last, "alice", 9);
}

static void a_single_call_in_flight(void **state)
{
    (void)state;
    server *s = add_server(7000);
    kit.options.in_flight = 1;
    open_client();
    run_due_events();
    s->is_hung = true;
    test_call a, b;
    take(&a, "alice", 1);
    take(&b, "alice", 2);
    run_due_events();
    assert_ended(&b, WEIR_REDIS_OVERLOADED);
    assert_int_equal(count(&kit.counts.overloaded), 1);
    s->is_hung = false;
    run_due_events();
    assert_answered(&a);
}

static void a_full_buffer_is_refused(void **state)
{
    (void)state;
    kit.len_max = 4096;
    server *s = open_with_server();
    s->is_hung = true;
    enum { N = 100 };
    static test_call t[N];
    for (int i = 0; i < N; i++)
        take(&t[i], "alice", i);
    run_due_events();
    int overloaded = 0;
    for (int i = 0; i < N; i++)
        overloaded += t[i].done && t[i].call.outcome == WEIR_REDIS_OVERLOADED;
    assert_in_range(overloaded, 50, 95);
    s->is_hung = false;
    run_due_events();
    for (int i = 0; i < N - overloaded; i++)
        assert_answered(&t[i]);
}

/* Late calls leave entries in the pipeline, whose number is limited, too. */
static void the_pipeline_is_bounded(void **state)
{
    (void)state;
    kit.options.in_flight = 8;
    server *s = open_with_server();
    s->is_hung = true;
    static test_call t[8];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++)
            take(&t[i], "alice", i);
        pass(51 * MS);
    }
    assert_int_equal(count(&kit.counts.sent), 32);
    assert_int_equal(count(&kit.counts.overloaded), 48);
}

static void an_invalid_reply_closes_the_connection(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        ":1\r\n",
        "+OK\r\n",
        "*8\r\n:1\r\n:2\r\n+x\r\n",
        "*7\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*8\r\n:2\r\n:20\r\n:3\r\n:0\r\n:5\r\n:0\r\n:0\r\n:0\r\n",
        "*8\r\n:1\r\n:20\r\n:21\r\n:0\r\n:5\r\n:0\r\n:0\r\n:0\r\n",
        "*8\r\n:1\r\n:20\r\n:1\r\n:-2\r\n:5\r\n:0\r\n:0\r\n:0\r\n",
        "*8\r\n:1\r\n:20\r\n:1\r\n:0\r\n:5\r\n:0\r\n:7\r\n:0\r\n",
        "*8\r\n:1\r\n:20\r\n:1\r\n:0\r\n:9223372036854775807\r\n:0\r\n:0\r\n:0\r\n",
        "*8\r\n*8\r\n*8\r\n",
        "%1\r\n",
        ">3\r\n",
        "\r\n",
        "*8\n",
    };
    server *s = add_server(7000);
    open_client();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            pass(3000 * MS);
            kit.bytewise = bytewise;
            s->replied = 0;
            s->replies = 1;
            s->reply[0] = bad[i];
            size_t dials = s->connects;
            test_call a, b;
            take(&a, "alice", 1);
            take(&b, "alice", 2);
            run_due_events();
            assert_ended(&a, WEIR_REDIS_CONNECTION_LOST);
            assert_ended(&b, WEIR_REDIS_CONNECTION_LOST);
            assert_string_equal(a.why, "the server's reply violates the protocol");
            pass(3000 * MS);
            assert_int_equal(s->connects, dials + 1);
        }
    }
}

/* A complete decision within an array is no reply. */
static void a_nested_reply_is_not_a_decision(void **state)
{
    (void)state;
    static const char inner[] = "*8\r\n:1\r\n:20\r\n:1\r\n:0\r\n:5\r\n:0\r\n:0\r\n:0\r\n";
    server *s = open_with_server();
    s->is_hung = true;
    test_call a;
    take(&a, "alice", 1);
    reply(connection_to(7000), "*8\r\n", 4);
    reply(connection_to(7000), inner, sizeof inner - 1);
    assert_ended(&a, WEIR_REDIS_CONNECTION_LOST);
}

static void an_unrequested_reply_closes_the_connection(void **state)
{
    (void)state;
    server *s = open_with_server();
    reply(connection_to(7000), "+PONG\r\n", 7);
    assert_null(connection_to(7000));
    pass(100 * MS);
    assert_int_equal(s->connects, 2);
}

static void no_memory_for_a_connection(void **state)
{
    (void)state;
    add_server(7000);
    kit.no_memory = true;
    open_client();
    test_call a;
    take(&a, "alice", 1);
    pass(50 * MS);
    assert_ended(&a, WEIR_REDIS_UNREACHABLE);
    kit.no_memory = false;
    pass(3000 * MS);
    take_answered(&a, "alice", 2);
    assert_string_equal(kit.log, "redis-down a:7000: no memory for a connection\n"
                                 "redis-up a:7000: the module\n");
}

static void tls_is_used_for_rediss(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7001\r\n";
    add_server(7001);
    kit.url[0] = "rediss://a:7000";
    kit.tls = (const port_tls *)&kit; /* not dereferenced */
    open_client();
    test_call a;
    take_answered(&a, "alice", 2);
    assert_ptr_equal(connection_to(7000)->tls, kit.tls);
    assert_ptr_equal(connection_to(7001)->tls, kit.tls);
    assert_null(connection_to(7001)->tls_name);
    weir_redis_client_close(kit.client);
    kit.url[0] = "redis://a:7000";
    open_client();
    run_due_events();
    assert_null(connection_to(7001)->tls);
}

/* The log names it by its path. */
static void a_unix_socket(void **state)
{
    (void)state;
    add_server(0);
    kit.url[0] = "unix:///run/redis.sock";
    open_client();
    test_call a;
    take_answered(&a, "alice", 1);
    assert_string_equal(connection_to(0)->host, "/run/redis.sock");
    assert_string_equal(kit.log, "redis-up /run/redis.sock: the module\n");
}

/* The user and the password of the first URL are used for all. */
static void the_first_url_has_the_password(void **state)
{
    (void)state;
    kit.url[0] = "redis://me:secret@gone:6999";
    kit.url[1] = "redis://you:other@a:7000";
    kit.options.urls_len = 2;
    server *s = add_server(7000);
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    s->user = "me";
    s->password = "secret";
    open_client();
    test_call a;
    take_answered(&a, "alice", 1);
}

static void send_another(weir_redis_call *c, int64_t now_ns);
static test_call chained;

static void closing_ends_all_calls(void **state)
{
    (void)state;
    server *s = open_with_server();
    s->is_hung = true;
    test_call sent, overloaded;
    take(&sent, "alice", 1);
    call_of(&overloaded, WEIR_VERB_TAKE, "alice", 1, 0);
    send_call(&overloaded);
    weir_redis_client_close(kit.client);
    assert_ended(&sent, WEIR_REDIS_CONNECTION_LOST);
    assert_ended(&overloaded, WEIR_REDIS_UNREACHABLE);
    kit.holds = true;
    open_client();
    test_call waits;
    take(&waits, "alice", 1);
    weir_redis_client_close(kit.client);
    assert_ended(&waits, WEIR_REDIS_UNREACHABLE);
    assert_string_equal(waits.why, "the client was closed");
    kit.holds = s->is_hung = false;
    open_client(); /* done() may send another call, which ends as well */
    run_due_events();
    s->is_hung = true;
    call_of(&sent, WEIR_VERB_TAKE, "alice", 1, 50 * MS);
    sent.call.done = send_another;
    send_call(&sent);
    weir_redis_client_close(kit.client);
    assert_ended(&sent, WEIR_REDIS_CONNECTION_LOST);
    assert_ended(&chained, WEIR_REDIS_UNREACHABLE);
    assert_string_equal(chained.why, "the client was closed");
    kit.client = NULL;
    assert_null(strstr(kit.log, "redis-down"));
}

/* ---- done() calls the client ----------------------------------------------------------------- */

static test_call *victim;

static void send_another(weir_redis_call *c, int64_t now_ns)
{
    on_done(c, now_ns);
    call_of(&chained, WEIR_VERB_TAKE, "carol", 9, 50 * MS);
    send_call(&chained);
    if (victim)
        weir_redis_client_abandon(kit.client, &victim->call);
}

static void done_may_send_and_abandon(void **state)
{
    (void)state;
    server *s = open_with_server();
    test_call a, b;
    call_of(&a, WEIR_VERB_TAKE, "alice", 1, 50 * MS);
    a.call.done = send_another;
    send_call(&a);
    take(&b, "alice", 2);
    victim = &b;
    run_due_events();
    assert_answered(&a);
    assert_answered(&chained);
    assert_int_equal(b.done, 0);
    /* The same while a connection breaks. */
    s->is_hung = true;
    call_of(&a, WEIR_VERB_TAKE, "alice", 1, 50 * MS);
    a.call.done = send_another;
    send_call(&a);
    take(&b, "alice", 2);
    server_dies(s);
    assert_ended(&a, WEIR_REDIS_CONNECTION_LOST);
    assert_int_equal(b.done, 0);
    s->is_down = s->is_hung = false;
    pass(20 * MS);
    assert_answered(&chained);
    victim = NULL;
}

/* A request that wants figures. */
static void ask_for_figures(test_call *t, const char *key)
{
    call_of(t, WEIR_VERB_TAKE, key, 1, 50 * MS);
    t->request[0].with_figures = true;
    t->request[0].next_ns = WEIR_NEXT_UNKNOWN;
    send_call(t);
    pass(2 * MS);
    assert_answered(t);
}

/* An older module refuses FIGURES. The call is sent again, and later ones are sent without it. A
 * new connection may lead to a newer module. */
static void an_older_module_is_asked_without_figures(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "-ERR wrong number of arguments for 'WEIR.ASK' command\r\n",
        "-ERR expected 'policy key cost' 1 times after the number, found 4 arguments\r\n"};
    server *s = open_with_server();
    test_call t;
    ask_for_figures(&t, "alice");
    assert_int_equal(t.request[0].next_ns, 77000);
    for (int i = 0; i < 2; i++) {
        int sent = (int)count(&kit.counts.sent);
        s->replied = 0;
        s->replies = 1;
        s->reply[0] = errors[i];
        ask_for_figures(&t, "alice");
        assert_int_equal(t.request[0].next_ns, WEIR_NEXT_UNKNOWN);
        ask_for_figures(&t, "bob");
        assert_int_equal(t.request[0].next_ns, WEIR_NEXT_UNKNOWN);
        assert_string_equal(s->last, "WEIR.ASK TAKE gcra 100/s burst 20 weir:{bob}:api 1");
        assert_int_equal(count(&kit.counts.sent), sent + 3);
        server_dies(s);
        s->is_down = false;
        pass(100 * MS);
        ask_for_figures(&t, "bob");
        assert_int_equal(t.request[0].next_ns, 77000);
        assert_string_equal(s->last, "WEIR.ASK TAKE gcra 100/s burst 20 weir:{bob}:api 1 FIGURES");
    }
    s->replied = 0;
    s->reply[0] = errors[0];
    take(&t, "alice", 1); /* an error that FIGURES does not explain */
    pass(2 * MS);
    assert_ended(&t, WEIR_REDIS_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_module_decides, setup, teardown),
        cmocka_unit_test_setup_teardown(replies_match_their_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_is_late_at_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_connection_is_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pause_may_end_too_late, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_when_it_connects_next, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_module_is_asked_without_figures, setup, teardown),
        cmocka_unit_test_setup_teardown(timeouts_before_the_handshake_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_waits_for_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(a_single_call_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(a_nested_reply_is_not_a_decision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_unix_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_url_has_the_password, setup, teardown),
        cmocka_unit_test_setup_teardown(backoff_grows_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(sent_calls_end_as_broken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hung_server_is_reconnected, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abandoned_call_is_not_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_calls_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_buffer_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_pipeline_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(an_invalid_reply_closes_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unrequested_reply_closes_the_connection, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_a_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(tls_is_used_for_rediss, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_ends_all_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(done_may_send_and_abandon, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
