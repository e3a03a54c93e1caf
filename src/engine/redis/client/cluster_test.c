/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A Cluster of three masters: discovery, redirects, failover; and servers with invalid replies. */

#include "engine/redis/client/client_kit_test.h"

static char map[2][512]; /* space for replies */

/* A range of slots with its master, and a replica that is never connected to. */
static int put_range(char *at, size_t size, int from, int to, const char *host, int port)
{
    return snprintf(at, size,
                    "*4\r\n:%d\r\n:%d\r\n*4\r\n$%zu\r\n%s\r\n:%d\r\n$2\r\nid\r\n*0\r\n"
                    "*3\r\n$3\r\nrep\r\n:7999\r\n$2\r\nid\r\n",
                    from, to, strlen(host), host, port);
}

static const char *thirds(char *at, const char *host, int a, int b, int c)
{
    size_t len = (size_t)snprintf(at, 512, "*3\r\n");
    len += (size_t)put_range(at + len, 512 - len, 0, 5460, host, a);
    len += (size_t)put_range(at + len, 512 - len, 5461, 10922, host, b);
    put_range(at + len, 512 - len, 10923, 16383, host, c);
    return at;
}

/* A key of each third of the slots. */
static const char *const in_third[3] = {"hello", "user:6", "foo"};

static void find_keys(void)
{
    assert_in_range(weir_redis_slot("hello", 5), 0, 5460);
    assert_in_range(weir_redis_slot("user:6", 6), 5461, 10922);
    assert_in_range(weir_redis_slot("foo", 3), 10923, 16383);
}

static server *srv[3];

static void open_cluster(void)
{
    find_keys();
    const char *slots = thirds(map[0], "a", 7000, 7001, 7002);
    for (int i = 0; i < 3; i++) {
        srv[i] = add_server((uint16_t)(7000 + i));
        srv[i]->slots = slots;
    }
    open_client();
    run_due_events();
}

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
    kit.url[1] = "redis://rep:7999";
    kit.options.urls_len = 2;
    server *replica = add_server(7999);
    replica->role = "slave";
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
}

/* A node may send "", "?" or null as its own host. */
static void a_host_may_be_left_out(void **state)
{
    (void)state;
    static const char *const none[] = {"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:7001\r\n",
                                       "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:7001\r\n",
                                       "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:7001\r\n"};
    server *seed = add_server(7000);
    server *master = add_server(7001);
    for (size_t i = 0; i < 3; i++) {
        seed->slots = none[i];
        open_client();
        test_call t;
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
        assert_string_equal(connection_to(7001)->host, "a");
        if (i < 2)
            weir_redis_client_close(kit.client);
    }
    assert_int_equal(seed->calls, 0);
    assert_int_equal(master->calls, 3);
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
        assert_int_equal(srv[0]->map_requests + srv[1]->map_requests + srv[2]->map_requests, 2);
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
    assert_in_range(srv[0]->map_requests + srv[1]->map_requests + srv[2]->map_requests, 5, 12);
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
    pass(10000 * MS);
    assert_null(connection_to(7003));
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
    assert_in_range(srv[0]->calls + srv[1]->calls, 3, 10);
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
    t.request[1].key = bytes_of("other");
    t.call.deadline_ns = kit.now_ns + MS;
    t.done = 0;
    send_call(&t);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_ANSWERED);
    assert_int_equal(t.request[0].status, WEIR_E_UNSUPPORTED);
    assert_int_equal(s->calls, 1);
}

/* Keys and prefixes whose hash tag is not the text within weir's own braces. */
static void slots_follow_unusual_hash_tags(void **state)
{
    (void)state;
    static const char *const keys[] = {"}", "}x", "a}b", "{a}", "{", "{}", "x"};
    static const char *const prefixes[] = {"weir:", "", "p{", "p{x}", "{}"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (size_t j = 0; j < sizeof prefixes / sizeof *prefixes; j++) {
            weir_redis_context context = {.prefix = prefixes[j]};
            weir_redis_topology t = {.context = &context,
                                     .prefix_has_tag = strchr(prefixes[j], '{')};
            weir_engine_request q = {.key = bytes_of(keys[i]), .name = bytes_of("n")};
            char name[128];
            size_t len = weir_redis_key(prefixes[j], &q, true, name, sizeof name);
            assert_int_equal(weir_redis_topology_slot(&t, &q), weir_redis_slot(name, len));
        }
    }
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
    test_call other;
    take(&other, "hello", 3);
    take(&t, "foo", 3);
    run_due_events();
    assert_answered(&other);
    assert_answered(&t);
    assert_int_equal(b->calls, 2);
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

static void invalid_maps_are_refused(void **state)
{
    (void)state;
    static const char *const tales[] = {
        "*1\r\n:5\r\n",
        "+OK\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        "*1\r\n*3\r\n:6\r\n:5\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:65536\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$4\r\n/tmp\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$3\r\na\nb\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*3\r\n+a\r\n:5\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        ("*2\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n"
         ":7000\r\n"),
        "*-1\r\n",
    };
    server *s = add_server(7000);
    open_client();
    run_due_events();
    for (size_t i = 0; i < sizeof tales / sizeof *tales; i++) {
        weir_redis_client_close(kit.client);
        s->slots = tales[i];
        kit.log[0] = 0;
        open_client();
        run_due_events();
        assert_non_null(strstr(kit.log, "the server's reply to CLUSTER SLOTS is not valid"));
    }
    s->slots = thirds(map[0], "a", 7000, 7000, 7000);
    pass(3000 * MS);
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
}

/* Each map has 2000 new nodes. */
static void the_node_table_is_bounded(void **state)
{
    (void)state;
    server *s = add_server(7000);
    enum { ENTRIES = 2000 };
    char *text = malloc(ENTRIES * 64);
    for (int round = 0; round < 4; round++) {
        size_t len = (size_t)sprintf(text, "*%d\r\n", ENTRIES);
        for (int i = 0; i < ENTRIES; i++)
            len += (size_t)sprintf(text + len, "*3\r\n:%d\r\n:%d\r\n*2\r\n$4\r\nh%03d\r\n:%d\r\n",
                                   i, i, round, 10000 + i);
        s->slots = text;
        if (round == 0)
            open_client();
        pass(1100 * MS);
        assert_in_range(timers_in_use(), 1, WEIR_REDIS_NODES_MAX + 2); /* one for each node */
    }
    s->slots = thirds(map[0], "a", 7000, 7000, 7000);
    pass(2000 * MS);
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
    free(text);
}

static void a_silent_node_is_not_asked_twice(void **state)
{
    (void)state;
    open_cluster();
    srv[1]->is_hung = srv[2]->is_hung = true;
    const char *slots = thirds(map[1], "a", 7001, 7001, 7002);
    srv[0]->slots = slots;
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-CLUSTERDOWN The cluster is down\r\n";
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_ended(&t, WEIR_REDIS_REFUSED);
    pass(2000 * MS);
    assert_non_null(strstr(kit.log, "redis-slots a:7000: 2 masters"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_go_to_the_node_of_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(any_node_can_be_the_seed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_host_may_be_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_updates_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(map_requests_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(ask_does_not_update_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(ask_may_name_an_unknown_node, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_may_name_a_former_replica, setup, teardown),
        cmocka_unit_test_setup_teardown(redirects_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(tryagain_repeats_the_call, setup, teardown),
        cmocka_unit_test_setup_teardown(readonly_finds_the_new_master, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_node_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(all_nodes_may_be_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_without_a_node_are_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_need_one_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_follow_unusual_hash_tags, setup, teardown),
        cmocka_unit_test_setup_teardown(moved_reveals_a_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_first_url_is_a_single_server, setup, teardown),
        cmocka_unit_test_setup_teardown(invalid_maps_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_node_table_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_node_is_not_asked_twice, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
