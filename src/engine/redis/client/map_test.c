/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Maps of a Cluster: invalid, changed and large ones, and nodes that give none. */

#include "engine/redis/client/cluster_kit_test.h"

/* A node may send "", "?" or null as its own host. Any other host is a name. */
static void a_host_may_be_left_out(void **state)
{
    (void)state;
    static const char *const none[] = {
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:7001\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:7001\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:7001\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7001\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$2\r\n?b\r\n:7001\r\n",
    };
    static const char *const hosts[] = {"a", "a", "a", "b", "?b"};
    server *seed = add_server(7000);
    server *master = add_server(7001);
    for (size_t i = 0; i < 5; i++) {
        seed->slots = none[i];
        open_client();
        test_call t;
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
        assert_string_equal(connection_to(7001)->host, hosts[i]);
        if (i < 4)
            weir_redis_client_close(kit.client);
    }
    assert_int_equal(seed->calls, 0);
    assert_int_equal(master->calls, 5);
}

/* A replica that gives an invalid map, or none in time, is not in the map itself. Another node is
 * asked soon. */
static void another_node_gives_the_map(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        kit.url[1] = "redis://a:7003";
        kit.options.urls_len = 2;
        server *replica = add_server(7003);
        replica->role = "slave";
        replica->slots = map[0];
        open_cluster();
        if (i == 0)
            replica->slots = "*1\r\n:5\r\n";
        size_t before = replica->map_requests, others = 0;
        for (int k = 0; k < 4 && replica->map_requests == before; k++) {
            pass(200 * MS);
            others = map_requests();
            replica->is_hung = i == 1;
            srv[0]->replied = 0;
            srv[0]->replies = 1;
            srv[0]->reply[0] = "-MOVED 866 a:7000\r\n";
            test_call t;
            take(&t, "hello", 1);
            run_due_events();
            assert_answered(&t);
            if (i == 1 && map_requests() == others)
                break; /* the replica was asked, and does not reply */
        }
        pass(1000 * MS);
        assert_int_equal(map_requests(), others + 1);
        assert_int_equal(strstr(kit.log, "is not valid") != NULL, i == 0);
    }
}

/* Requests the map by a MOVED that changes nothing. */
static void request_the_map(void)
{
    size_t before = map_requests();
    test_call t;
    pass(200 * MS);
    srv[0]->replied = 0;
    srv[0]->replies = 1;
    srv[0]->reply[0] = "-MOVED 866 a:7000\r\n";
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
    pass(100 * MS);
    assert_int_equal(map_requests(), before + 1);
}

/* The map of the Cluster, where the second node has the slots up to `to`. */
static void set_map(int to, bool whole)
{
    static char text[512];
    size_t len = (size_t)snprintf(text, 512, "*3\r\n");
    len += (size_t)put_range(text + len, 512 - len, 0, 5460, "a", 7000);
    len += (size_t)put_range(text + len, 512 - len, 5461, to, "a", 7001);
    put_range(text + len, 512 - len, to + 1, whole ? 16383 : 16382, "a", 7002);
    for (int i = 0; i < 3; i++)
        srv[i]->slots = text;
    kit.log[0] = 0;
}

static void assert_logged_map(const char *text)
{
    char *at = strstr(kit.log, "redis-slots");
    if (!text) {
        assert_null(at);
        return;
    }
    assert_non_null(at);
    assert_string_equal(strchr(at, ' ') + sizeof " a:7000: " - 1, text);
    kit.log[0] = 0;
}

/* A map with other nodes is logged at once, and one with migrated slots every five seconds. */
static void changes_of_the_map_are_logged(void **state)
{
    (void)state;
    open_cluster();
    kit.log[0] = 0;
    pass(6000 * MS);
    request_the_map();
    assert_logged_map(NULL); /* no change */
    set_map(10000, true);
    request_the_map();
    assert_logged_map("3 masters, 16384 slots\n");
    set_map(10001, false);
    request_the_map();
    assert_logged_map(NULL); /* too soon */
    pass(5000 * MS);
    request_the_map();
    assert_logged_map("3 masters, 16383 slots\n"); /* the change before */
    pass(5000 * MS);
    request_the_map();
    assert_logged_map(NULL);
    const char *slots = thirds(map[1], "a", 7000, 7001, 7001);
    for (int i = 0; i < 3; i++)
        srv[i]->slots = slots;
    request_the_map();
    assert_logged_map("2 masters, 16384 slots\n");
    /* MOVED tells of a migrated slot before the map does. */
    pass(5000 * MS);
    for (int i = 0; i < 2; i++) {
        srv[1]->replied = 0;
        srv[1]->replies = 1;
        srv[1]->reply[0] = i ? "-MOVED 12182 a:7001\r\n" : "-MOVED 12182 a:7000\r\n";
        test_call t;
        take(&t, "foo", 1);
        run_due_events();
        assert_answered(&t);
        if (i == 0) {
            assert_int_equal(srv[0]->calls > 0, true);
            srv[0]->replied = 0;
            srv[0]->replies = 1;
            srv[0]->reply[0] = "-MOVED 12182 a:7001\r\n";
        }
    }
    pass(1000 * MS);
    request_the_map();
    assert_logged_map("2 masters, 16384 slots\n");
}

/* Keys and prefixes whose hash tag is not the text within weir's own braces. */
static void slots_follow_unusual_hash_tags(void **state)
{
    (void)state;
    static char large[601] = "}";
    memset(large + 1, 'x', sizeof large - 2);
    const char *const keys[] = {"}", "}x", "a}b", "{a}", "{", "{}", "x", "", large};
    static const char *const prefixes[] = {"weir:", "", "p{", "p{x}", "{}"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (size_t j = 0; j < sizeof prefixes / sizeof *prefixes; j++) {
            weir_redis_context context = {.prefix = prefixes[j], .counts = &kit.counts};
            weir_redis_topology t = {.context = &context,
                                     .prefix_has_tag = strchr(prefixes[j], '{')};
            weir_engine_request q = {.key = bytes_of(keys[i]), .name = bytes_of("n")};
            char name[1024];
            size_t len = weir_redis_key(prefixes[j], &q, true, 0, name, sizeof name);
            assert_int_equal(weir_redis_topology_slot(&t, &q), weir_redis_slot(name, len));
            /* The first node that is up decides whether keys are named as for the module. */
            weir_redis_node idle = {.by = WEIR_REDIS_BY_MODULE},
                            up = {.state = WEIR_REDIS_UP, .by = WEIR_REDIS_BY_SCRIPT};
            t.node[1] = &idle;
            t.node[2] = &up;
            t.nodes_end = 3;
            len = weir_redis_key(prefixes[j], &q, false, 0, name, sizeof name);
            assert_int_equal(weir_redis_topology_slot(&t, &q), weir_redis_slot(name, len));
        }
    }
}

static void invalid_maps_are_refused(void **state)
{
    (void)state;
    static const char *const tales[] = {
        "*1\r\n:5\r\n",
        "+OK\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        "*1\r\n*3\r\n:6\r\n:5\r\n*2\r\n$1\r\nz\r\n:7001\r\n",
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
    server *s = add_server(7000), *unknown = add_server(7001);
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
    assert_int_equal(unknown->connects, 0);
    s->slots = thirds(map[0], "a", 7000, 7000, 7000);
    pass(3000 * MS);
    test_call t;
    take(&t, "hello", 1);
    run_due_events();
    assert_answered(&t);
}

/* An error does not mean that the server is not in Cluster mode, unless it says so. */
static void errors_instead_of_a_map(void **state)
{
    (void)state;
    static const char *const errors[] = {"-LOADING Redis is loading\r\n", "-X\r\n", "-\r\n",
                                         "-ERR no cluster\r\n", "-NOPERM no right\r\n"};
    server *s = add_server(7000);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        s->slots = errors[i];
        open_client();
        test_call t;
        take(&t, "hello", 1);
        pass(60 * MS);
        assert_ended(&t, i < 3 ? WEIR_REDIS_UNREACHABLE : WEIR_REDIS_ANSWERED);
        if (i < 3)
            assert_string_equal(t.why, "no connection before the deadline");
        s->slots = thirds(map[0], "a", 7000, 7000, 7000);
        pass(200 * MS);
        take(&t, "hello", 1);
        run_due_events();
        assert_answered(&t);
        assert_int_equal(strstr(kit.log, "redis-slots") != NULL, i < 3);
        kit.log[0] = 0;
        weir_redis_client_close(kit.client);
    }
    kit.client = NULL;
}

/* Each map has 2000 new nodes, and the last one has those of the first again. */
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
                                   i, i, round % 3, 10000 + i);
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

/* While a map is read, the full table keeps the new nodes of this map. */
static void a_full_table_keeps_new_nodes(void **state)
{
    (void)state;
    enum { OTHERS = WEIR_REDIS_NODES_MAX - 2 }; /* with the seed, all but one */
    for (int i = 0; i < 3; i++)
        srv[i] = add_server((uint16_t)(7000 + i));
    char *text = malloc((OTHERS + 1) * 64);
    size_t len = (size_t)sprintf(text, "*%d\r\n", OTHERS);
    for (int i = 0; i < OTHERS; i++)
        len += (size_t)sprintf(text + len, "*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\nh\r\n:%d\r\n", i, i,
                               10000 + i);
    srv[0]->slots = text;
    open_client();
    run_due_events();
    srv[0]->slots = "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    pass(1100 * MS);
    srv[0]->slots = thirds(map[0], "a", 7000, 7001, 7002);
    kit.log[0] = 0;
    pass(1100 * MS);
    assert_non_null(strstr(kit.log, "redis-slots a:7000: 3 masters, 16384 slots\n"));
    for (int i = 0; i < 3; i++) {
        test_call t;
        take(&t, in_third[i], 1);
        run_due_events();
        assert_answered(&t);
        assert_int_equal(srv[i]->calls, 1);
    }
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
        cmocka_unit_test_setup_teardown(a_host_may_be_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(another_node_gives_the_map, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_of_the_map_are_logged, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_instead_of_a_map, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_follow_unusual_hash_tags, setup, teardown),
        cmocka_unit_test_setup_teardown(invalid_maps_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_node_table_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_table_keeps_new_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_node_is_not_asked_twice, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
