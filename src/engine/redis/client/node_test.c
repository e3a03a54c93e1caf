/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The handshake, and error replies. */

#include "engine/redis/client/client_kit_test.h"

static const char key_of_api[] = "weir:{alice}:api#";

static void prefers_the_module(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_functions = s->has_library = true;
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-up a:7000: the module\n");
    assert_int_equal(s->loads, 0);
}

static void loads_missing_functions(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = true;
    open_client();
    test_call t;
    take(&t, "alice", 7);
    run_due_events();
    assert_answered(&t);
    assert_int_equal(s->loads, 1);
    assert_string_equal(kit.log, "redis-library a:7000: the functions library was loaded\n"
                                 "redis-up a:7000: functions\n");
    char expected[256];
    snprintf(expected, sizeof expected, "FCALL weir_ask 1 %s", key_of_api);
    assert_memory_equal(s->last, expected, strlen(expected));
    assert_string_equal(s->last + strlen(expected) + 16, " TAKE gcra 100/s burst 20 7");
}

static void uses_loaded_functions(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = s->has_library = true;
    s->version = 9; /* a newer library is used */
    open_client();
    run_due_events();
    assert_int_equal(s->loads, 0);
    assert_string_equal(kit.log, "redis-up a:7000: functions\n");
}

static void falls_back_to_a_script(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    open_client();
    test_call t;
    take(&t, "alice", 7);
    run_due_events();
    assert_answered(&t);
    assert_memory_equal(s->last, "EVALSHA 0123456789012345678901234567890123456789 1 weir:{", 56);
    assert_non_null(strstr(s->last, " weir_ask TAKE gcra 100/s burst 20 7"));
    assert_string_equal(kit.log, "redis-library a:7000: the script was loaded\n"
                                 "redis-up a:7000: a script\n");
}

static void obeys_the_option_by(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_functions = s->has_library = true;
    kit.options.by = WEIR_REDIS_BY_SCRIPT;
    open_client();
    run_due_events();
    assert_non_null(strstr(kit.log, "redis-up a:7000: a script\n"));
    weir_redis_client_close(kit.client);
    kit.options.by = WEIR_REDIS_BY_FUNCTIONS;
    kit.log[0] = 0;
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-up a:7000: functions\n");
    weir_redis_client_close(kit.client);
    kit.options.by = WEIR_REDIS_BY_MODULE;
    s->has_module = false;
    kit.log[0] = 0;
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-down a:7000: the server has not loaded the weir module\n");
}

static void reloads_lost_functions(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = true;
    open_client();
    run_due_events();
    s->has_library = false; /* FUNCTION FLUSH */
    test_call a, b;
    take(&a, "alice", 1);
    take(&b, "alice", 2);
    run_due_events();
    assert_answered(&a);
    assert_answered(&b);
    assert_int_equal(s->loads, 2);
    assert_int_equal(count(&kit.counts.reloaded), 1);
    s->has_functions = false; /* a server without functions has replaced it */
    s->has_library = false;
    take(&a, "alice", 3);
    run_due_events();
    assert_answered(&a);
    assert_int_equal(s->loads, 3);
    s->has_script = false; /* SCRIPT FLUSH */
    take(&a, "alice", 4);
    run_due_events();
    assert_answered(&a);
    assert_int_equal(s->loads, 4);
    assert_int_equal(s->connects, 1);
}

static void an_unloaded_module_is_noticed(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    run_due_events();
    s->has_module = false;
    s->has_functions = true;
    test_call a;
    take(&a, "alice", 1);
    run_due_events();
    assert_answered(&a);
    assert_non_null(strstr(kit.log, "redis-up a:7000: functions\n"));
}

static void loading_is_limited(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    open_client();
    run_due_events();
    s->error = "-NOSCRIPT No matching script.\r\n";
    test_call a;
    take(&a, "alice", 1);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_REFUSED);
    assert_in_range(s->calls, 2, 20);
}

static void authenticates(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->password = "s e\"cret";
    kit.url[0] = "redis://me:s%20e%22cret@a:7000/3";
    open_client();
    run_due_events();
    assert_true(weir_redis_client_is_up(kit.client, &(weir_engine_request){.key = {"x", 1}},
                                        &(int64_t){0}));
    weir_redis_client_close(kit.client);
    kit.options.password = "wrong"; /* overrides the URL's */
    kit.log[0] = 0;
    open_client();
    pass(60000 * MS); /* logged once */
    assert_string_equal(kit.log, "redis-down a:7000: authentication failed: WRONGPASS "
                                 "invalid username-password pair\n");
}

/* The log gives the reason within a second, though it has just logged that the connection broke. */
static void logs_a_revoked_password(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->password = "secret";
    kit.options.password = "secret";
    open_client();
    run_due_events();
    s->password = "another";
    kit.log[0] = 0;
    server_dies(s);
    s->is_down = false;
    pass(1000 * MS);
    assert_string_equal(kit.log, "redis-down a:7000: it closed the connection\n"
                                 "redis-down a:7000: authentication failed: WRONGPASS "
                                 "invalid username-password pair\n");
}

static void a_replica_gets_no_calls(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->role = "slave";
    open_client();
    test_call a;
    take(&a, "alice", 1);
    pass(1000 * MS);
    assert_ended(&a, WEIR_REDIS_UNREACHABLE);
    assert_int_equal(s->calls, 0);
    assert_string_equal(kit.log,
                        "redis-down a:7000: the server is a replica, but weir needs a master\n");
    s->role = "master";
    pass(2000 * MS);
    take(&a, "alice", 1);
    run_due_events();
    assert_answered(&a);
}

static void waits_for_a_loading_server(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->loading = "-LOADING Redis is loading the dataset in memory\r\n";
    open_client();
    pass(1000 * MS);
    assert_string_equal(kit.log,
                        "redis-down a:7000: LOADING Redis is loading the dataset in memory\n");
    s->loading = NULL;
    pass(2000 * MS);
    test_call a;
    take(&a, "alice", 1);
    run_due_events();
    assert_answered(&a);
}

static void refusals_have_a_reason(void **state)
{
    (void)state;
    static const char *const why[] = {
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOPERM this user has no permissions to run the 'weir.ask' command",
        "MISCONF Redis is configured to save RDB snapshots",
        "BUSY Redis is busy running a script.",
        "LOADING Redis is loading",
        "CLUSTERDOWN The cluster is down",
        "WRONGTYPE Operation against a key",
        "READONLY You can't write against a read only replica.",
        "MASTERDOWN Link with MASTER is down",
        "NOAUTH Authentication required.",
        "MOVED 99999 b:7001",
        "MOVED 1 b:0",
        "MOVED 1",
        "ASK x b:7001",
        "MOVED 1 /tmp/x:7001",
        "MOVED 1 a b:7001",
        "ERR something else",
    };
    server *s = add_server(7000);
    open_client();
    run_due_events();
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        char text[128];
        snprintf(text, sizeof text, "-%s\r\n", why[i]);
        s->error = text;
        test_call a;
        take(&a, "alice", 1);
        run_due_events();
        assert_ended(&a, WEIR_REDIS_REFUSED);
        assert_string_equal(a.why, why[i]);
    }
    assert_int_equal(s->connects, 1);
    assert_string_equal(kit.log, "redis-up a:7000: the module\n"
                                 "redis-refuses a:7000: OOM command not allowed when used memory > "
                                 "'maxmemory'.\n"); /* logged once */
}

static void an_unsupported_policy_is_an_answer(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    run_due_events();
    test_call a;
    s->error = "-ERR policy: 1/3 of a unit cannot be held\r\n";
    take(&a, "alice", 1);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_ANSWERED);
    assert_int_equal(a.request[0].status, WEIR_E_UNSUPPORTED);
    assert_string_equal(a.request[0].reason, "policy: 1/3 of a unit cannot be held");
    for (int i = 0; i < 100; i++) { /* the number of kept texts is limited */
        char text[64];
        snprintf(text, sizeof text, "-ERR weir: %d\r\n", i);
        s->error = text;
        take(&a, "alice", 1);
        run_due_events();
        assert_int_equal(a.request[0].status, WEIR_E_UNSUPPORTED);
        assert_non_null(a.request[0].reason);
    }
    s->error = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    take(&a, "alice", 1);
    run_due_events();
    assert_int_equal(a.request[0].status, WEIR_E_UNSUPPORTED);
}

static void cl_throttle_needs_the_module(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    test_call a;
    call_of(&a, WEIR_VERB_THROTTLE, "alice", 0, 50 * MS);
    a.request[0].throttle = (weir_throttle){15, 30, 60, -1};
    s->replies = 3;
    s->reply[0] = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
    s->reply[2] = "-Cell error: Store error: max_burst is less than -1, expected -1 or more\r\n";
    s->reply[1] = "-Cell error: Store error: Zero rates are not supported\r\n";
    send_call(&a);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_ANSWERED);
    assert_string_equal(s->last, "CL.THROTTLE weir:{alice}:#throttle 15 30 60 -1");
    assert_int_equal(a.request[0].answer.limit, 16);
    assert_int_equal(a.request[0].answer.retry_after_s, -1);
    a.done = 0;
    a.call.deadline_ns = kit.now_ns + MS;
    send_call(&a);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_ANSWERED);
    assert_int_equal(a.request[0].status, WEIR_E_RANGE);
    assert_int_equal(a.request[0].throttle_status, WEIR_THROTTLE_ZERO_RATE);
    a.done = 0;
    a.call.deadline_ns = kit.now_ns + MS;
    send_call(&a);
    run_due_events();
    assert_int_equal(a.request[0].throttle_status, WEIR_THROTTLE_NEGATIVE_LIMIT);
    s->has_module = false;
    s->has_functions = true;
    a.done = 0;
    a.call.deadline_ns = kit.now_ns + MS;
    send_call(&a);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_ANSWERED);
    assert_int_equal(a.request[0].status, WEIR_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prefers_the_module, setup, teardown),
        cmocka_unit_test_setup_teardown(loads_missing_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(uses_loaded_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(falls_back_to_a_script, setup, teardown),
        cmocka_unit_test_setup_teardown(obeys_the_option_by, setup, teardown),
        cmocka_unit_test_setup_teardown(reloads_lost_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unloaded_module_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(loading_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(authenticates, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_a_revoked_password, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replica_gets_no_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_a_loading_server, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_have_a_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unsupported_policy_is_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(cl_throttle_needs_the_module, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
