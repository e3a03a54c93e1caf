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
    take(&t, "alice", 1);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(srv[0]->calls, 1);
    assert_string_equal(connection_to(7000)->host, "m");
    assert_int_equal(guard[1]->connects, 0); /* one Sentinel suffices */
    assert_string_equal(kit.log, "redis-up s1:26379: a Sentinel\n"
                                 "redis-master m:7000: mymaster\n"
                                 "redis-up m:7000: the module\n");
    pass(60000 * MS);
    assert_int_equal(guard[0]->connects, 1);
    assert_int_equal(srv[0]->connects, 1);
}

static void follows_a_failover(void **state)
{
    (void)state;
    open_guarded();
    pass(5000 * MS);
    server_dies(srv[0]);
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
    take(&t, "alice", 2);
    run_due_events();
    assert_answered(&t);
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
    take(&t, "alice", 2);
    run_due_events();
    assert_answered(&t);
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
        take(&t, "alice", 1);
        pass(100 * MS);
        assert_ended(&t, i % 2 ? WEIR_REDIS_ANSWERED : WEIR_REDIS_UNREACHABLE);
    }
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
    kit.options.sentinel_password = "guard";
    kit.options.user = "me";
    kit.options.password = "secret";
    open_guarded();
    guard[0]->password = "guard";
    srv[0]->password = "secret";
    test_call t;
    take(&t, "alice", 1);
    run_due_events();
    assert_answered(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_go_to_the_master, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_a_failover, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_while_the_old_master_is_up, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_asks_the_sentinels, setup, teardown),
        cmocka_unit_test_setup_teardown(another_sentinel_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_master_is_logged_once, setup, teardown),
        cmocka_unit_test_setup_teardown(invalid_sentinel_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(distinguishes_sentinels_from_servers, setup, teardown),
        cmocka_unit_test_setup_teardown(sentinels_have_their_own_password, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
