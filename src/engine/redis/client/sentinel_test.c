/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Masters by Sentinels: discovery, failover, and Sentinels that do not reply. */

#include "engine/redis/client/client_kit_test.h"

static const char master_a[] = "*2\r\n$1\r\nm\r\n$4\r\n7000\r\n";
static const char master_b[] = "*2\r\n$1\r\nm\r\n$4\r\n7001\r\n";

static server *guard[2], *srv[2];

static void open_guarded(void)
{
    for (int i = 0; i < 2; i++) {
        guard[i] = add_server((uint16_t)(26379 + i));
        guard[i]->role = "sentinel";
        guard[i]->master = master_a;
        srv[i] = add_server((uint16_t)(7000 + i));
    }
    srv[1]->role = "slave";
    kit.url[0] = "redis://s1";
    kit.url[1] = "redis://s2:26380";
    kit.options.urls_len = 2;
    kit.options.sentinel = "mymaster";
    open_client();
}

static void calls_go_to_the_master(void **state)
{
    (void)state;
    kit.bytewise = true;
    open_guarded();
    test_call t;
    take_answered(&t, "alice", 1);
    assert_int_equal(srv[0]->calls, 1);
    assert_string_equal(connection_to(7000)->host, "m");
    assert_int_equal(guard[1]->connects, 0); /* one Sentinel suffices */
    assert_string_equal(kit.log, "redis-up s1:26379: a Sentinel\n"
                                 "redis-master m:7000: mymaster\n"
                                 "redis-up m:7000: the module\n");
    pass(60000 * MS);
    assert_int_equal(guard[0]->connects, 1);
    assert_int_equal(guard[0]->master_requests, 61); /* every second */
    assert_int_equal(srv[0]->connects, 1);
}

/* The database of the first URL is the master's. */
static void the_master_has_a_database(void **state)
{
    (void)state;
    open_guarded();
    weir_redis_client_close(kit.client);
    kit.url[0] = "redis://s1/3";
    kit.url[1] = "redis://s2:26380/4";
    open_client();
    run_due_events();
    assert_string_equal(srv[0]->database, "3");
    assert_string_equal(guard[0]->database, "");
}

/* A Sentinel gets no second request before it has replied to the first. */
static void one_request_at_a_time(void **state)
{
    (void)state;
    open_guarded();
    pass(500 * MS);
    size_t before = guard[0]->master_requests;
    guard[0]->is_hung = true;
    srv[0]->error = "-READONLY You can't write against a read only replica.\r\n";
    srv[0]->no_decision = DECISION;
    test_call t;
    take(&t, "alice", 1);
    pass(60 * MS); /* each repetition asks the Sentinel */
    assert_ended(&t, WEIR_REDIS_REFUSED);
    guard[0]->is_hung = false;
    run_due_events();
    assert_int_equal(guard[0]->master_requests, before + 1);
}

/* A Sentinel names a node whose connection has just failed several times: it is tried at once. */
static void a_named_master_is_tried_at_once(void **state)
{
    (void)state;
    open_guarded();
    pass(500 * MS);
    server_dies(srv[1]);
    guard[0]->master = master_b;
    pass(10000 * MS); /* its pauses are 0.5 to 1 s now */
    assert_null(connection_to(7001));
    guard[0]->master = master_a;
    pass(150 * MS); /* the Sentinel is asked every 100 ms */
    test_call t;
    take_answered(&t, "alice", 1);
    srv[1]->is_down = false;
    srv[1]->role = "master";
    guard[0]->master = master_b;
    srv[0]->replied = 0;
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-READONLY You can't write against a read only replica.\r\n";
    size_t connects = srv[1]->connects;
    take(&t, "alice", 1);
    pass(20 * MS);
    assert_answered(&t);
    assert_int_equal(srv[1]->connects, connects + 1);
    assert_int_equal(srv[1]->calls, 1);
    server_dies(srv[1]);
    srv[1]->is_down = false;
    pass(10 * MS); /* the first pause again */
    assert_int_equal(srv[1]->connects, connects + 2);
}

/* A call that waits for the old master goes to the new one. */
static void waiting_calls_follow_the_master(void **state)
{
    (void)state;
    open_guarded();
    pass(500 * MS);
    server_dies(srv[0]);
    srv[0]->is_down = false;
    kit.holds = true; /* a new connection to the old master stays in CONNECTING */
    pass(20 * MS);
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "alice", 1, 1000 * MS);
    send_call(&t);
    srv[1]->role = "master";
    guard[0]->master = master_b;
    pass(200 * MS);
    assert_int_equal(t.done, 0);
    kit.holds = false;
    srv[0]->is_hung = true;
    run_due_events();
    assert_answered(&t);
    assert_int_equal(srv[0]->calls, 0);
    assert_int_equal(srv[1]->calls, 1);
}

/* A MOVED shows that the master belongs to a Cluster. The Sentinels are still asked. */
static void a_cluster_with_sentinels(void **state)
{
    (void)state;
    open_guarded();
    pass(500 * MS);
    srv[1]->role = "master";
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-MOVED 866 m:7001\r\n";
    test_call t;
    take_answered(&t, "hello", 1);
    take(&t, "foo", 1); /* the other slots are still the master's */
    run_due_events();
    assert_answered(&t);
    assert_int_equal(srv[0]->calls, 2);
    assert_int_equal(srv[1]->calls, 1);
    size_t before = guard[0]->master_requests;
    pass(10000 * MS);
    assert_in_range(guard[0]->master_requests - before, 9, 11);
}

static void follows_a_failover(void **state)
{
    (void)state;
    open_guarded();
    pass(5000 * MS);
    server_dies(srv[0]);
    size_t before = guard[0]->master_requests;
    run_due_events(); /* the Sentinel is asked at once */
    assert_int_equal(guard[0]->master_requests, before + 1);
    test_call t, during;
    pass(500 * MS);
    take(&during, "alice", 1);
    run_due_events();
    assert_ended(&during, WEIR_REDIS_UNREACHABLE);
    guard[0]->master = guard[1]->master =
        master_b; /* before the node knows that it is the master */
    pass(300 * MS);
    assert_int_equal(srv[1]->calls, 0);
    srv[1]->role = "master";
    pass(2000 * MS);
    take_answered(&t, "alice", 2);
    assert_int_equal(srv[1]->calls, 1);
    assert_non_null(strstr(kit.log, "redis-master m:7001: mymaster\n"));
    /* The old master comes back as a replica, and gets no calls. */
    srv[0]->is_down = false;
    srv[0]->role = "slave";
    pass(10000 * MS);
    assert_null(connection_to(7000));
}

/* The old master is partitioned from the Sentinels, but not from the client. */
static void follows_while_the_old_master_is_up(void **state)
{
    (void)state;
    open_guarded();
    pass(5000 * MS);
    srv[1]->role = "master";
    guard[0]->master = master_b;
    pass(1100 * MS);
    test_call t;
    take_answered(&t, "alice", 2);
    assert_int_equal(srv[1]->calls, 1);
    pass(10000 * MS);
    assert_null(connection_to(7000));
}

static void readonly_asks_the_sentinels(void **state)
{
    (void)state;
    open_guarded();
    pass(500 * MS);
    srv[0]->error = "-READONLY You can't write against a read only replica.\r\n";
    srv[1]->role = "master";
    guard[0]->master = master_b;
    test_call t;
    take(&t, "alice", 2);
    pass(49 * MS);
    assert_answered(&t);
    assert_int_equal(srv[1]->calls, 1);
}

static void another_sentinel_takes_over(void **state)
{
    (void)state;
    open_guarded();
    pass(1000 * MS);
    server_dies(guard[0]);
    pass(1000 * MS);
    assert_int_equal(guard[1]->connects, 1);
    test_call t;
    take(&t, "alice", 1);
    run_due_events();
    assert_answered(&t); /* calls do not need the Sentinels */
    guard[1]->is_hung = true;
    guard[0]->is_down = false;
    pass(5000 * MS);
    assert_int_equal(lines_to(26379), 1);
    assert_int_equal(srv[0]->connects, 1);
}

/* The client reconnects again and again, but logs it once. */
static void an_unknown_master_is_logged_once(void **state)
{
    (void)state;
    open_guarded();
    weir_redis_client_close(kit.client);
    kit.options.urls_len = 1;
    guard[0]->master = "*-1\r\n";
    open_client();
    kit.log[0] = 0;
    pass(20000 * MS);
    assert_true(guard[0]->connects > 5);
    assert_string_equal(kit.log,
                        "redis-up s1:26379: a Sentinel\n"
                        "redis-down s1:26379: the Sentinel does not know the master mymaster\n");
    guard[0]->master = master_a;
    kit.log[0] = 0;
    pass(5000 * MS);
    assert_string_equal(kit.log, "redis-up s1:26379: a Sentinel\n"
                                 "redis-master m:7000: mymaster\n"
                                 "redis-up m:7000: the module\n");
    guard[0]->master = "*2\r\n$1\r\nm\r\n"; /* the rest of the reply is late */
    server_dies(guard[0]);
    guard[0]->is_down = false;
    kit.log[0] = 0;
    pass(100 * MS);
    assert_string_equal(kit.log, "redis-up s1:26379: a Sentinel\n");
}

static void invalid_sentinel_replies(void **state)
{
    (void)state;
    static const char *const bad[] = {"*-1\r\n",
                                      "*2\r\n$1\r\nm\r\n$5\r\n99999\r\n",
                                      "*2\r\n$1\r\nm\r\n$1\r\nx\r\n",
                                      "*2\r\n$0\r\n\r\n$4\r\n7000\r\n",
                                      "*2\r\n$4\r\n/tmp\r\n$4\r\n7000\r\n",
                                      "*2\r\n$1\r\nm\r\n$6\r\n070000\r\n",
                                      "+OK\r\n",
                                      "-ERR unknown command\r\n"};
    open_guarded();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_redis_client_close(kit.client);
        guard[0]->master = bad[i];
        guard[1]->master = i % 2 ? master_a : bad[i];
        open_client();
        test_call t;
        kit.log[0] = 0;
        take(&t, "alice", 1);
        pass(100 * MS);
        assert_ended(&t, i % 2 ? WEIR_REDIS_ANSWERED : WEIR_REDIS_UNREACHABLE);
        assert_non_null(strstr(kit.log, bad[i][0] == '-'
                                            ? "redis-down s1:26379: ERR unknown command"
                                            : "the Sentinel does not know the master mymaster"));
    }
}

/* The host and the port of an earlier reply are not used. */
static void replies_without_a_host_or_a_port(void **state)
{
    (void)state;
    static const char *const replies[] = {"*1\r\n$1\r\nm\r\n", "*2\r\n$0\r\n\r\n$4\r\n7001\r\n"};
    open_guarded();
    srv[1]->role = "master";
    for (size_t i = 0; i < 2; i++) {
        guard[0]->master = guard[1]->master = master_a;
        pass(5000 * MS);
        kit.log[0] = 0;
        guard[0]->master = guard[1]->master = replies[i];
        pass(1500 * MS);
        assert_non_null(strstr(kit.log, "the Sentinel does not know the master"));
        test_call t;
        take(&t, "alice", 1); /* the master that is known stays */
        run_due_events();
        assert_answered(&t);
    }
    assert_int_equal(srv[1]->connects, 0);
    weir_redis_client_close(kit.client);
    guard[0]->master = "*3\r\n$1\r\nm\r\n$4\r\n7001\r\n$1\r\n9\r\n"; /* more is ignored */
    open_client();
    run_due_events();
    assert_int_equal(srv[1]->connects, 1);
}

static void distinguishes_sentinels_from_servers(void **state)
{
    (void)state;
    open_guarded();
    weir_redis_client_close(kit.client);
    guard[0]->role = guard[1]->role = "master";
    kit.log[0] = 0;
    open_client();
    pass(1000 * MS);
    assert_non_null(strstr(kit.log, "redis-down s1:26379: the server is not a Sentinel\n"));
    weir_redis_client_close(kit.client);
    kit.options.sentinel = NULL;
    kit.options.urls_len = 1;
    kit.url[0] = "redis://s1:26379";
    guard[0]->role = "sentinel";
    kit.log[0] = 0;
    open_client();
    pass(1000 * MS);
    assert_string_equal(
        kit.log,
        "redis-down s1:26379: the server is a Sentinel: give the master's name (sentinel)\n");
}

static void sentinels_have_their_own_password(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (i > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        kit.options.sentinel_password = i > 0 ? "guard" : NULL;
        kit.options.sentinel_user = i > 1 ? "watch" : NULL;
        kit.options.user = "me";
        kit.options.password = "secret";
        open_guarded();
        guard[0]->password = kit.options.sentinel_password;
        guard[0]->user = kit.options.sentinel_user;
        srv[0]->user = "me";
        srv[0]->password = "secret";
        test_call t;
        take_answered(&t, "alice", 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_go_to_the_master, setup, teardown),
        cmocka_unit_test_setup_teardown(the_master_has_a_database, setup, teardown),
        cmocka_unit_test_setup_teardown(one_request_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_named_master_is_tried_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_calls_follow_the_master, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cluster_with_sentinels, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_a_failover, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_while_the_old_master_is_up, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_asks_the_sentinels, setup, teardown),
        cmocka_unit_test_setup_teardown(another_sentinel_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_master_is_logged_once, setup, teardown),
        cmocka_unit_test_setup_teardown(invalid_sentinel_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(replies_without_a_host_or_a_port, setup, teardown),
        cmocka_unit_test_setup_teardown(distinguishes_sentinels_from_servers, setup, teardown),
        cmocka_unit_test_setup_teardown(sentinels_have_their_own_password, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
