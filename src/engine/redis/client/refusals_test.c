/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Servers that are up and do not decide: no connection stays with one. */

#include "engine/redis/client/client_kit_test.h"

#define READ_ONLY "-READONLY You can't write against a read only replica.\r\n"

/* A call whose deadline is far away. */
static void take_patiently(test_call *t, const char *key)
{
    call_of(t, WEIR_VERB_TAKE, key, 1, 50 * MS);
    send_call(t);
    pass(50 * MS);
}

static size_t times_in_log(const char *line)
{
    size_t n = 0;
    for (const char *at = kit.log; (at = strstr(at, line)); at++)
        n++;
    return n;
}

/* Another server has taken the name: the call goes there, over a new connection. */
static void a_failover_behind_a_name(void **state)
{
    (void)state;
    static const char *const errors[] = {
        READ_ONLY, "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is 'no'.\r\n",
        "-ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write\r\n"};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        server *s = add_server(7000);
        open_client();
        run_due_events();
        s->replies = 1;
        s->reply[0] = errors[i];
        test_call t;
        take_patiently(&t, "alice");
        assert_answered(&t);
        assert_int_equal(s->connects, 2);
        assert_int_equal(connection_to(7000)->skip, 1); /* of several addresses the next */
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
    }
}

/* The replies to other calls are not lost. */
static void sent_calls_get_their_replies(void **state)
{
    (void)state;
    server *s = open_with_server();
    enum { N = 5 };
    static test_call t[N];
    for (int i = 0; i < N; i++)
        take(&t[i], "alice", i);
    s->replies = 1;
    s->reply[0] = READ_ONLY;
    pass(50 * MS);
    for (int i = 0; i < N; i++)
        assert_answered(&t[i]);
    assert_int_equal(count(&kit.counts.lost), 0);
    assert_int_equal(s->connects, 2);
}

/* A server that does not reply to the other calls is not waited for. */
static void a_hung_server_is_left_soon(void **state)
{
    (void)state;
    server *s = open_with_server();
    test_call a, b;
    take(&a, "alice", 1);
    s->replies = 1;
    s->reply[0] = READ_ONLY;
    call_of(&b, WEIR_VERB_TAKE, "bob", 1, 500 * MS);
    pass(0);
    s->is_hung = true;
    assert_int_equal(a.done, 0);
    send_call(&b); /* it waits for the next connection */
    pass(40 * MS);
    s->is_hung = false;
    pass(20 * MS);
    assert_answered(&b);
    assert_int_equal(s->connects, 2);
}

/* It is left 50 ms after the refusal, while a call has no reply. */
static void replies_are_waited_for_a_while(void **state)
{
    (void)state;
    server *s = open_with_server();
    test_call a, b;
    call_of(&a, WEIR_VERB_TAKE, "alice", 1, 500 * MS);
    call_of(&b, WEIR_VERB_TAKE, "bob", 1, 500 * MS);
    send_call(&a);
    send_call(&b);
    s->replies = 2;
    s->reply[0] = READ_ONLY;
    s->reply[1] = ""; /* none */
    pass(49 * MS);
    assert_int_equal(s->connects, 1);
    pass(10 * MS);
    assert_int_equal(s->connects, 2);
    assert_answered(&a);
    assert_int_equal(b.done, 1);
}

static void connections_end_once_a_second(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->no_decision = DECISION;
    s->error = READ_ONLY;
    open_client();
    run_due_events();
    for (int i = 0; i < 100; i++) { /* 5 s */
        test_call t;
        take_patiently(&t, "alice"); /* it is refused, or the next connection comes too late */
        assert_int_equal(t.done, 1);
        assert_int_not_equal(t.call.outcome, WEIR_REDIS_ANSWERED);
    }
    assert_in_range(s->connects, 4, 6);
    s->error = NULL;
    test_call t;
    pass(1000 * MS);
    take_patiently(&t, "alice");
    assert_answered(&t);
}

/* A handshake ends with a decision. */
static void a_server_that_refuses_is_down(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOREPLICAS Not enough good replicas to write.",
        "NOPERM this user has no permissions to run the 'weir.ask' command",
        "ERR The user executing the script can't run this command or subcommand script: weir_ask",
        "ERR ACL failure in script: User weir has no permissions to run the 'set' command",
        "LOADING Redis is loading the dataset in memory",
        "CLUSTERDOWN The cluster is down",
        "READONLY You can't write against a read only replica.",
        "THROTTLED by a managed service",
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char error[128], expected[160];
        snprintf(error, sizeof error, "-%s\r\n", errors[i]);
        snprintf(expected, sizeof expected, "redis-down a:7000: %s\n", errors[i]);
        server *s = add_server(7000);
        s->has_module = i % 2;
        s->has_functions = true;
        s->error = error;
        open_client();
        pass(5000 * MS);
        assert_string_equal(strstr(kit.log, "redis-down"), expected);
        assert_int_equal(count(&kit.counts.connected), 0);
        assert_true(s->loads <= 1);
        s->error = NULL;
        pass(1000 * MS);
        test_call t;
        take_patiently(&t, "alice");
        assert_answered(&t);
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
    }
}

static void what_is_no_decision(void **state)
{
    (void)state;
    static const char *const replies[] = {"+OK\r\n", "*0\r\n", "*1\r\n*0\r\n", ":1\r\n", "$-1\r\n"};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        server *s = add_server(7000);
        s->no_decision = replies[i];
        open_client();
        pass(100 * MS);
        assert_string_equal(kit.log, "redis-down a:7000: the server's reply is not a decision\n");
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
    }
}

/* An error is one without a text, too: of a library that is loaded, and of decisions. */
static void an_error_without_a_text(void **state)
{
    (void)state;
    static const char down[] = "redis-down a:7000: an error without a text\n";
    for (int i = 0; i < 3; i++) {
        server *s = add_server(7000);
        s->has_module = i == 2;
        s->has_functions = i == 1;
        s->no_load = i < 2 ? "-\r\n" : NULL;
        s->error = i == 2 ? "-\r\n" : NULL;
        open_client();
        pass(100 * MS);
        assert_string_equal(strstr(kit.log, "redis-down"), down);
        assert_int_equal(count(&kit.counts.connected), 0);
        s->no_load = s->error = NULL;
        pass(1000 * MS);
        test_call t;
        take_patiently(&t, "alice");
        assert_answered(&t);
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
    }
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    pass(3000 * MS);
    s->error = "-\r\n";
    test_call t;
    for (int i = 0; i < 5; i++)
        take_patiently(&t, "alice");
    assert_non_null(strstr(kit.log, down));
    assert_int_equal(s->connects, 2);
}

/* Each call is refused, but not the handshake's: the node counts as down until one is answered. */
static void refusals_in_a_row(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    pass(3000 * MS);
    s->error = "-NOPERM no right to run the 'zadd' command\r\n";
    test_call t;
    for (int i = 0; i < 4; i++)
        take_patiently(&t, "alice");
    assert_int_equal(times_in_log("redis-down"), 0);
    for (int i = 0; i < 400; i++) { /* 20 s */
        take_patiently(&t, "alice");
        assert_int_equal(t.done, 1);
    }
    assert_string_equal(strstr(kit.log, "redis-down"),
                        "redis-down a:7000: NOPERM no right to run the 'zadd' command\n"
                        "redis-refuses a:7000: NOPERM no right to run the 'zadd' command\n"
                        "redis-refuses a:7000: NOPERM no right to run the 'zadd' command\n");
    assert_in_range(s->connects, 10, 22);
    s->error = NULL;
    pass(1000 * MS);
    take_patiently(&t, "alice");
    for (int i = 0; i < 3; i++) {
        assert_answered(&t);
        pass(6000 * MS);
        take_patiently(&t, "alice");
    }
    assert_int_equal(times_in_log("redis-up a:7000: the module\n"), 2);
    server_dies(s);
    pass(3000 * MS);
    s->is_down = false;
    pass(3000 * MS); /* it is up again before its first call */
    assert_int_equal(times_in_log("redis-up a:7000: the module\n"), 3);
}

/* A daemon that is not ready gets no calls, so a node without calls cannot stay down. */
static void a_doubted_node_without_calls(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->no_decision = DECISION;
    s->error = "-NOREPLICAS Not enough good replicas to write.\r\n";
    open_client();
    run_due_events();
    test_call t;
    for (int i = 0; i < 5; i++)
        take_patiently(&t, "alice");
    pass(9000 * MS);
    assert_int_equal(times_in_log("redis-up"), 1);
    pass(5000 * MS);
    assert_int_equal(times_in_log("redis-up"), 2);
}

/* Errors that depend on the key say nothing about the server. */
static void errors_of_a_key_end_nothing(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        "-OOM the key has states under too many policies\r\n", "-OOM request 1: the key has\r\n",
        "-ERR something\r\n"};
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    run_due_events();
    for (int i = 0; i < 40; i++) {
        s->error = errors[i % 4];
        test_call t;
        take_patiently(&t, "alice");
        assert_ended(&t, WEIR_REDIS_REFUSED);
    }
    assert_int_equal(s->connects, 1);
}

/* Five refusals in a row, not in all. */
static void answers_end_a_row(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    run_due_events();
    for (int i = 0; i < 40; i++) {
        s->error = i % 5 < 4 ? "-MISCONF cannot save\r\n" : NULL;
        test_call t;
        take_patiently(&t, "alice");
    }
    assert_int_equal(s->connects, 1);
}

/* ---- TIME ------------------------------------------------------------------------------------ */

static bool sent_time(const server *s)
{
    char expected[64];
    snprintf(expected, sizeof expected, " AT %lld TAKE ", (long long)kit.now_ns / 1000);
    return strstr(s->last, expected) != NULL;
}

/* The dialer's clock decides while a server refuses TIME, no longer. Nothing is loaded twice. */
static void a_server_that_refuses_time(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        server *s = add_server(7000);
        test_call t;
        s->has_module = false;
        s->has_functions = i == 0;
        s->has_no_time = true;
        open_client();
        for (int connections = 1; connections < 4; connections++) {
            pass(3000 * MS);
            take_answered(&t, "alice", 5);
            assert_true(sent_time(s));
            assert_int_equal(s->connects, connections);
            close_connection(connection_to(7000), "it closed the connection");
        }
        assert_int_equal(s->loads, 1);
        assert_int_equal(times_in_log("redis-clock a:7000: NOTIME the server refuses TIME to "
                                      "functions and scripts: NOPERM\n"),
                         1);
        s->has_no_time = false;
        pass(1000 * MS);
        take_patiently(&t, "alice");
        assert_answered(&t);
        assert_null(strstr(s->last, " AT "));
        s->has_no_time = true; /* over an open connection */
        take_answered(&t, "alice", 5);
        assert_true(sent_time(s));
        assert_int_equal(s->connects, 4);
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
    }
}

/* ---- a Cluster ------------------------------------------------------------------------------- */

#define TWO_NODES                                                                                  \
    "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\nb\r\n:7001\r\n"                                        \
    "*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7002\r\n"

/* Both nodes belong to a Cluster that is down: the URL's name is looked up again, and has another
 * Cluster by now. */
static void a_cluster_that_is_down(void **state)
{
    (void)state;
    server *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = add_server((uint16_t)(7000 + i));
        s[i]->slots = TWO_NODES;
    }
    s[0]->error = "-MOVED 1 b:7001\r\n";
    open_client();
    pass(5000 * MS);
    assert_int_equal(s[1]->decisions + s[2]->decisions, 2);
    size_t connects = s[0]->connects;
    s[1]->error = s[2]->error = "-CLUSTERDOWN The cluster is down\r\n";
    s[0]->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    s[0]->error = NULL;
    test_call t;
    for (int i = 0; i < 40; i++) { /* 2 s; the keys of both nodes */
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        take_patiently(&t, key);
    }
    assert_answered(&t);
    assert_int_equal(s[0]->connects, connects + 1);
}

/* The same while the connection to the name is open. */
static void a_seed_of_a_dead_cluster(void **state)
{
    (void)state;
    server *s = add_server(7000), *nodes[2];
    s->slots = TWO_NODES;
    for (int i = 0; i < 2; i++) {
        nodes[i] = add_server((uint16_t)(7001 + i));
        nodes[i]->slots = TWO_NODES;
    }
    open_client();
    pass(100 * MS);
    assert_int_equal(s->connects, 1);
    server_dies(nodes[0]);
    server_dies(nodes[1]);
    pass(2000 * MS);
    assert_in_range(s->connects, 2, 3);
    pass(8000 * MS);
    assert_in_range(s->connects, 7, 11); /* once a second */
    assert_int_equal(times_in_log("redis-down a:7000"), 1);
    nodes[0]->is_down = nodes[1]->is_down = false;
    pass(2000 * MS);
    size_t connects = s->connects;
    pass(10000 * MS);
    assert_int_equal(s->connects, connects);
}

/* The handshake asks each node to decide about a slot that it serves. */
static void a_node_that_refuses(void **state)
{
    (void)state;
    server *s = add_server(7000);
    add_server(7001);
    server *bad = add_server(7002);
    s->slots = kit.server[1].slots = bad->slots = TWO_NODES;
    bad->error = "-OOM command not allowed\r\n";
    open_client();
    pass(3000 * MS);
    assert_int_equal(times_in_log("redis-down b:7002: OOM command not allowed\n"), 1);
    assert_int_equal(times_in_log("redis-up b:7001: the module\n"), 1);
}

/* A name may lead to a server that has not joined its Cluster yet. */
static void a_cluster_without_slots(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->slots = "*0\r\n";
    s->error = "-CLUSTERDOWN Hash slot not served\r\n";
    open_client();
    pass(3000 * MS);
    assert_in_range(s->connects, 3, 5);
    assert_int_equal(times_in_log("redis-down a:7000: no node of the Cluster is up\n"), 1);
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    s->error = NULL;
    pass(1100 * MS);
    test_call t;
    take_patiently(&t, "alice");
    assert_answered(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failover_behind_a_name, setup, teardown),
        cmocka_unit_test_setup_teardown(sent_calls_get_their_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hung_server_is_left_soon, setup, teardown),
        cmocka_unit_test_setup_teardown(replies_are_waited_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_end_once_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_refuses_is_down, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_decision, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_without_a_text, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(a_doubted_node_without_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_of_a_key_end_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_end_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_refuses_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cluster_that_is_down, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seed_of_a_dead_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cluster_without_slots, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
