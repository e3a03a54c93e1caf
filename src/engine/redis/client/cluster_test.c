/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A Cluster of three masters: discovery, redirects and failover. */

#include "engine/redis/client/cluster_kit_test.h"

static void calls_go_to_the_node_of_the_key(void **state)
{
    (void)state;
    kit.bytewise = true;
    open_cluster();
    test_call t[3];
    for (int i = 0; i < 3; i++)
        take(&t[i], in_third[i], i);
    run_due_events();
    for (int i = 0; i < 3; i++) {
        assert_answered(&t[i]);
        assert_int_equal(srv[i]->calls, 1);
        assert_int_equal(srv[i]->connects, 1);
    }
    assert_null(connection_to(7999));
    assert_int_equal(srv[0]->map_requests, 1);
    assert_non_null(strstr(kit.log, "redis-slots a:7000: 3 masters, 16384 slots\n"));
    assert_int_equal(count(&kit.counts.connected), 3);
}

static void any_node_can_be_the_seed(void **state)
{
    (void)state;
    find_keys();
    kit.url[0] = "redis://gone:6999";
    kit.url[1] = "redis://gone:6999";
    kit.url[2] = "redis://rep:7999";
    kit.options.urls_len = 3;
    server *replica = add_server(7999);
    replica->role = "slave";
    replica->has_module = false;
    replica->no_version = "-BUSY Redis is busy running a script.\r\n"; /* it gets no calls */
    replica->slots = thirds(map[0], "a", 7000, 7001, 7002);
    for (int i = 0; i < 3; i++)
        srv[i] = add_server((uint16_t)(7000 + i));
    open_client();
    test_call t[3];
    for (int i = 0; i < 3; i++)
        take(&t[i], in_third[i], i);
    run_due_events();
    for (int i = 0; i < 3; i++)
        assert_answered(&t[i]);
    assert_int_equal(replica->calls, 0);
    pass(10000 * MS);
    assert_null(connection_to(7999)); /* the connection is no longer needed */
    for (int i = 0; i < 3; i++)
        server_dies(srv[i]);
    pass(3000 * MS);
    assert_non_null(connection_to(7999)); /* now it is */
}

static void moved_updates_the_map(void **state)
{
    (void)state;
    static const char *const moved[] = {"-MOVED 866 a:7001\r\n", "-MOVED 866 :7001\r\n",
                                        "-MOVED 866 ?:7001\r\n"};
    for (size_t i = 0; i < 3; i++) {
        if (i > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        open_cluster();
        pass(1000 * MS);
        const char *slots = thirds(map[1], "a", 7001, 7000, 7002);
        for (int j = 0; j < 3; j++)
            srv[j]->slots = slots;
        srv[0]->error = moved[i];
        test_call t, again, other;
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
        assert_int_equal(srv[0]->calls, 1);
        assert_int_equal(srv[1]->calls, 1);
        assert_int_equal(count(&kit.counts.redirected), 1);
        srv[0]->error = NULL;
        take(&again, "hello", 2);
        take(&other, "user:6", 3); /* the map was requested again */
        run_due_events();
        assert_answered(&again);
        assert_answered(&other);
        assert_int_equal(srv[0]->calls, 2);
        assert_int_equal(srv[1]->calls, 2);
        pass(5000 * MS);
        assert_int_equal(map_requests(), 2);
    }
}

static void map_requests_are_limited(void **state)
{
    (void)state;
    open_cluster();
    for (int i = 0; i < 100; i++) { /* in one second */
        srv[0]->replied = 0;
        srv[0]->replies = 1;
        srv[0]->reply[0] = "-MOVED 866 a:7001\r\n";
        test_call t;
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
        pass(10 * MS);
    }
    assert_in_range(map_requests(), 5, 12);
}

static void ask_does_not_update_the_map(void **state)
{
    (void)state;
    open_cluster();
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-ASK 866 a:7001\r\n";
    test_call t, again;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(srv[1]->askings, 1);
    take(&again, "hello", 2);
    run_due_events();
    assert_answered(&again);
    assert_int_equal(srv[0]->calls, 2);
    assert_int_equal(srv[1]->askings, 1);
    assert_int_equal(srv[1]->calls, 1);
}

/* If the node that was asked for is down, the call goes to the node of its slot, as any other. */
static void ask_may_name_a_node_that_is_down(void **state)
{
    (void)state;
    open_cluster();
    add_server(7003)->is_down = true;
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-ASK 866 a:7003\r\n";
    test_call t;
    take(&t, "hello", 1);
    pass(10 * MS);
    assert_answered(&t);
    assert_int_equal(srv[0]->calls, 2);
    assert_int_equal(srv[0]->askings, 0);
}

static void ask_may_name_an_unknown_node(void **state)
{
    (void)state;
    open_cluster();
    server *fresh = add_server(7003);
    srv[0]->error = "-ASK 866 a:7003\r\n";
    test_call t;
    take(&t, "hello", 1);
    pass(10 * MS);
    assert_answered(&t);
    assert_int_equal(fresh->askings, 1);
    for (int i = 0; i < 10; i++) { /* the connection stays while it is used */
        pass(1000 * MS);
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
    }
    assert_int_equal(fresh->connects, 1);
    pass(10000 * MS);
    assert_null(connection_to(7003));
    kit.log[0] = 0;
    take(&t, "hello", 1);
    run_due_events();
    assert_string_equal(kit.log, "redis-up a:7003: the module\n");
}

static void the_target_may_be_an_ipv6_address(void **state)
{
    (void)state;
    open_cluster();
    add_server(7003);
    srv[0]->error = "-MOVED 866 [fe80::1]:7003\r\n";
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
    assert_string_equal(connection_to(7003)->host, "fe80::1");
    assert_non_null(strstr(kit.log, "redis-up [fe80::1]:7003: the module\n"));
}

/* A seed that was a replica, and has become a master. */
static void moved_may_name_a_former_replica(void **state)
{
    (void)state;
    kit.url[1] = "redis://a:7003";
    kit.options.urls_len = 2;
    server *promoted = add_server(7003);
    promoted->role = "slave";
    promoted->slots = map[0];
    open_cluster();
    assert_non_null(connection_to(7003));
    promoted->role = "master";
    srv[0]->error = "-MOVED 866 a:7003\r\n";
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(promoted->calls, 1);
    assert_int_equal(promoted->connects, 2); /* its role was read again */
    assert_memory_equal(promoted->last, "WEIR.ASK", 8);
}

static void redirects_are_limited(void **state)
{
    (void)state;
    open_cluster();
    srv[0]->error = "-MOVED 866 a:7001\r\n";
    srv[1]->error = "-MOVED 866 a:7000\r\n";
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_REFUSED);
    assert_int_equal(srv[0]->calls + srv[1]->calls, 1 + 8); /* 8 redirects */
}

static void tryagain_repeats_the_call(void **state)
{
    (void)state;
    open_cluster();
    for (int i = 0; i < 3; i++)
        srv[0]->reply[i] = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    srv[0]->replies = 3;
    test_call t, never;
    take(&t, "hello", 1);
    run_due_events();
    assert_int_equal(t.done, 0);
    assert_int_equal(srv[0]->calls, 1); /* only after a pause */
    pass(40 * MS);
    assert_answered(&t);
    assert_int_equal(srv[0]->calls, 4);
    srv[0]->error = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    take(&never, "hello", 1);
    pass(60 * MS);
    assert_ended(&never, WEIR_REDIS_REFUSED);
    assert_memory_equal(never.why, "TRYAGAIN", 8);
    assert_in_range(srv[0]->calls, 4 + 10, 4 + 20); /* not limited to 8 repetitions */
}

/* Calls that are paused while another one is do not make its pause longer. */
static void paused_calls_continue_together(void **state)
{
    (void)state;
    open_cluster();
    srv[0]->error = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    test_call a, b;
    take(&a, "hello", 1);
    pass(3 * MS);
    take(&b, "hello", 2);
    pass(2 * MS - 1);
    assert_int_equal(srv[0]->calls, 2);
    pass(1);
    assert_int_equal(srv[0]->calls, 4);
    srv[0]->error = NULL;
    pass(5 * MS);
    assert_answered(&a);
    assert_answered(&b);
}

static void readonly_finds_the_new_master(void **state)
{
    (void)state;
    open_cluster();
    pass(1000 * MS);
    const char *slots = thirds(map[1], "a", 7003, 7001, 7002);
    server *promoted = add_server(7003);
    for (int i = 0; i < 3; i++)
        srv[i]->slots = slots;
    srv[0]->error = "-READONLY You can't write against a read only replica.\r\n";
    test_call t;
    take(&t, "hello", 1);
    pass(50 * MS);
    assert_answered(&t);
    assert_int_equal(promoted->calls, 1);
}

static void readonly_is_limited(void **state)
{
    (void)state;
    open_cluster();
    srv[0]->no_decision = DECISION;
    srv[0]->error = "-READONLY You can't write against a read only replica.\r\n";
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "hello", 1, 5000 * MS);
    send_call(&t);
    pass(1000 * MS);
    assert_ended(&t, WEIR_REDIS_REFUSED);
    assert_int_equal(srv[0]->calls, 1 + 8);
}

static void a_lost_node_is_replaced(void **state)
{
    (void)state;
    open_cluster();
    pass(3000 * MS);
    server *promoted = add_server(7003);
    server_dies(srv[0]);
    pass(300 * MS);
    test_call t, other;
    take(&t, "hello", 1);
    take(&other, "foo", 2);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_UNREACHABLE);
    assert_answered(&other);                                   /* the other nodes serve calls */
    const char *slots = thirds(map[1], "a", 7003, 7001, 7002); /* its replacement */
    srv[1]->slots = srv[2]->slots = slots;
    pass(1500 * MS);
    take(&t, "hello", 3);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(promoted->calls, 1);
    assert_non_null(strstr(kit.log, "redis-slots a:7001") ? kit.log
                                                          : strstr(kit.log, "redis-slots a:7002"));
}

static void all_nodes_may_be_lost(void **state)
{
    (void)state;
    open_cluster();
    for (int i = 0; i < 3; i++)
        server_dies(srv[i]);
    pass(10000 * MS);
    for (int i = 0; i < 3; i++)
        srv[i]->is_down = false;
    pass(2000 * MS);
    test_call t[3];
    for (int i = 0; i < 3; i++)
        take(&t[i], in_third[i], i);
    run_due_events();
    for (int i = 0; i < 3; i++)
        assert_answered(&t[i]);
}

static void slots_without_a_node_are_unreachable(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->slots = "*1\r\n*3\r\n:0\r\n:100\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    open_client();
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_UNREACHABLE);
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    pass(1000 * MS);
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
}

static void takes_need_one_slot(void **state)
{
    (void)state;
    static const char cross_slot[] = "the keys are in different hash slots of the Cluster: give "
                                     "them the same {tag} to take them together";
    open_cluster();
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "{org}:a", 1, 50 * MS);
    t.request[1] = t.request[0];
    t.request[1].key = bytes_of("{org}:b");
    t.request[1].cost = 2;
    t.call.len = 2;
    t.call.all = true;
    uint32_t slot = weir_redis_slot("{org", 4);
    server *s = srv[slot < 5461 ? 0 : slot < 10923 ? 1 : 2];
    s->replies = 1;
    s->reply[0] = "*17\r\n:1\r\n:1\r\n:20\r\n:19\r\n:0\r\n:5\r\n:0\r\n:0\r\n:0\r\n"
                  ":0\r\n:20\r\n:1\r\n:-1\r\n:5\r\n:0\r\n:0\r\n:0\r\n";
    send_call(&t);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_ANSWERED);
    assert_string_equal(s->last, "WEIR.ASKALL 2 gcra 100/s burst 20 weir:{{org}:a}:api 1 "
                                 "gcra 100/s burst 20 weir:{{org}:b}:api 2");
    assert_int_equal(t.call.blocking, 1);
    assert_int_equal(t.request[0].decision.remaining, 19);
    assert_true(t.request[1].decision.never);
    assert_int_equal(t.request[1].decision.retry_after_ns, INT64_MAX);
    for (size_t len = 2; len < 4; len++) { /* the last one has another slot */
        for (size_t i = 0; i <= len; i++) {
            t.request[i] = t.request[0];
            t.request[i].status = WEIR_E_BUSY;
            t.request[i].by_error = true;
        }
        t.request[len - 1].key = bytes_of("other");
        t.call.len = len;
        t.call.deadline_ns = kit.now_ns + MS;
        t.done = 0;
        send_call(&t);
        run_due_events();
        assert_status(&t, WEIR_E_UNSUPPORTED, cross_slot);
    }
    assert_int_equal(s->calls, 1);
}

static void moved_reveals_a_cluster(void **state)
{
    (void)state;
    server *a = add_server(7000), *b = add_server(7001);
    open_client(); /* its error is the one for a user without the right to CLUSTER SLOTS */
    test_call t;
    take(&t, "foo", 1);
    run_due_events();
    assert_answered(&t);
    a->error = "-MOVED 12182 a:7001\r\n";
    take(&t, "foo", 2);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(b->calls, 1);
    a->error = NULL;
    test_call other, first;
    assert_int_equal(weir_redis_slot("3560", 4), 0);
    take(&other, "hello", 3);
    take(&t, "foo", 3);
    take(&first, "3560", 3);
    run_due_events();
    assert_answered(&other);
    assert_answered(&t);
    assert_answered(&first);
    assert_int_equal(b->calls, 2);
    pass(10000 * MS); /* both nodes are in the map, so their connections are kept */
    assert_int_equal(a->connects, 1);
    assert_int_equal(b->connects, 1);
    assert_non_null(connection_to(7000));
    assert_non_null(connection_to(7001));
}

/* Its connection ends while a reply is read, and a new one begins at once. */
static void a_replica_becomes_the_master(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->slots = thirds(map[0], "a", 7000, 7000, 7000);
    s->role = "slave";
    kit.holds = true;
    open_client();
    kit.holds = false;
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "hello", 1, 5000 * MS);
    send_call(&t);
    run_due_events();
    s->role = "master";
    pass(3000 * MS);
    assert_answered(&t);
}

/* A call that waits for a node is sent to another node as soon as a map says that this one serves
 * its key. */
static void waiting_calls_follow_the_map(void **state)
{
    (void)state;
    for (int lost = 0; lost < 3; lost += 2) { /* the first node, and the third */
        if (lost > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        open_cluster();
        server_dies(srv[lost]);
        run_due_events();
        srv[lost]->is_down = false;
        kit.holds = true; /* a new connection to the node stays in CONNECTING */
        pass(20 * MS);
        test_call t;
        call_of(&t, WEIR_VERB_TAKE, in_third[lost], 1, 2000 * MS);
        send_call(&t);
        pass(500 * MS);
        assert_int_equal(t.done, 0);
        const char *slots = thirds(map[1], "a", lost ? 7000 : 7001, 7001, lost ? 7001 : 7002);
        for (int i = 0; i < 3; i++)
            srv[i]->slots = slots;
        pass(1000 * MS); /* the map is requested while a node is not up */
        assert_answered(&t);
        assert_int_equal(srv[1]->calls, 1);
        assert_int_equal(srv[lost]->calls, 0);
    }
}

static void only_the_first_url_is_a_single_server(void **state)
{
    (void)state;
    kit.url[1] = "redis://a:7001";
    kit.options.urls_len = 2;
    server *b = add_server(7001);
    open_client();
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "foo", 1, 10000 * MS);
    send_call(&t);
    pass(1000 * MS);
    assert_int_equal(b->calls, 0);
    add_server(7000);
    pass(3000 * MS);
    assert_answered(&t);
    assert_int_equal(b->calls, 0);
    assert_non_null(
        strstr(kit.log, "redis-alone a:7000: the server is not in Cluster mode: the other URLs"));
    pass(10000 * MS);
    assert_null(connection_to(7001));
}

/* The prefix may determine the slot of all keys. */
static void a_prefix_with_a_hash_tag(void **state)
{
    (void)state;
    kit.options.prefix = "p{foo}:";
    open_cluster();
    for (int i = 0; i < 3; i++) {
        test_call t;
        take(&t, in_third[i], 1);
        run_due_events();
        assert_answered(&t);
    }
    assert_int_equal(srv[2]->calls, 3);
    assert_string_equal(srv[2]->last, "WEIR.ASK TAKE gcra 100/s burst 20 p{foo}:{foo}:api 1");
}

static void the_node_of_a_key_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {"a:7000", "a:7001", "a:7002"};
    const char *name = NULL;
    add_server(6999)->is_hung = true;
    kit.url[0] = "redis://a:6999";
    open_client();
    run_due_events();
    weir_engine_request q = {.key = bytes_of("hello"), .name = bytes_of("n")};
    assert_int_equal(weir_redis_client_node(kit.client, &q, &name), WEIR_REDIS_NODES_MAX);
    assert_string_equal(name, "");
    weir_redis_client_close(kit.client);
    kit.url[0] = "redis://a:7000";
    open_cluster();
    uint32_t at[3];
    for (int i = 0; i < 3; i++) {
        q.key = bytes_of(in_third[i]);
        at[i] = weir_redis_client_node(kit.client, &q, &name);
        assert_string_equal(name, names[i]);
    }
    assert_true(at[0] == 0 && at[1] != at[2] && at[1] > 0 && at[1] < 3 && at[2] > 0 && at[2] < 3);
    server_dies(srv[2]);
    int64_t next_ns = 0;
    assert_false(weir_redis_client_is_up(kit.client, &q, &next_ns));
    assert_in_range(next_ns, kit.now_ns + 5 * MS, kit.now_ns + 10 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_go_to_the_node_of_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(any_node_can_be_the_seed, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_updates_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_with_a_hash_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(the_node_of_a_key_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(map_requests_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(ask_does_not_update_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(ask_may_name_a_node_that_is_down, setup, teardown),
        cmocka_unit_test_setup_teardown(ask_may_name_an_unknown_node, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_may_name_a_former_replica, setup, teardown),
        cmocka_unit_test_setup_teardown(the_target_may_be_an_ipv6_address, setup, teardown),
        cmocka_unit_test_setup_teardown(redirects_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(tryagain_repeats_the_call, setup, teardown),
        cmocka_unit_test_setup_teardown(paused_calls_continue_together, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_finds_the_new_master, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_node_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(all_nodes_may_be_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_without_a_node_are_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_need_one_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_reveals_a_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replica_becomes_the_master, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_calls_follow_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_first_url_is_a_single_server, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
