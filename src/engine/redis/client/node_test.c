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
    take_answered(&t, "alice", 7);
    assert_int_equal(s->loads, 1);
    assert_string_equal(kit.log, "redis-library a:7000: the functions library was loaded\n"
                                 "redis-up a:7000: functions\n");
    char expected[256];
    snprintf(expected, sizeof expected, "FCALL weir_ask 1 %s", key_of_api);
    assert_memory_equal(s->last, expected, strlen(expected));
    assert_string_equal(s->last + strlen(expected), " TAKE gcra 100/s burst 20 7");
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
    take_answered(&t, "alice", 7);
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
    take_answered(&a, "alice", 3);
    assert_int_equal(s->loads, 3);
    s->has_script = false; /* SCRIPT FLUSH */
    take_answered(&a, "alice", 4);
    assert_int_equal(s->loads, 4);
    assert_int_equal(s->connects, 1);
    assert_string_equal(kit.log, "redis-library a:7000: the functions library was loaded\n"
                                 "redis-up a:7000: functions\n"
                                 "redis-library a:7000: the functions library was loaded\n"
                                 "redis-library a:7000: the script was loaded\n"
                                 "redis-up a:7000: a script\n"
                                 "redis-library a:7000: the script was loaded\n");
}

/* With each value of `by`, over the same connection and over a new one. */
static void reloads_a_lost_script(void **state)
{
    (void)state;
    static const weir_redis_by by[] = {WEIR_REDIS_BY_ANY, WEIR_REDIS_BY_SCRIPT};
    for (size_t i = 0; i < 2; i++) {
        if (i > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        kit.options.by = by[i];
        server *s = add_server(7000);
        s->has_module = false;
        s->has_functions = by[i] == WEIR_REDIS_BY_SCRIPT; /* not used */
        open_client();
        run_due_events();
        s->has_script = false;
        test_call a;
        take_answered(&a, "alice", 1);
        assert_int_equal(s->loads, 2);
        assert_int_equal(count(&kit.counts.reloaded), 1);
        server_dies(s);
        s->is_down = s->has_script = false;
        pass(20 * MS);
        assert_int_equal(s->connects, 2);
        assert_int_equal(s->loads, 3);
        assert_false(s->has_library);
    }
}

/* A call that needs functions which are being loaded is not charged: it ends as refused. */
static void a_reload_without_a_reply(void **state)
{
    (void)state;
    static const char lost[] = "-NOSCRIPT No matching script.\r\n";
    server *s = add_server(7000);
    s->has_module = false;
    open_client();
    run_due_events();
    s->is_hung = true;
    test_call a;
    take(&a, "alice", 1);
    reply(connection_to(7000), lost, sizeof lost - 1);
    pass(51 * MS);
    assert_ended(&a, WEIR_REDIS_REFUSED);
    assert_string_equal(a.why, "the server has lost weir's functions");
    assert_int_equal(count(&kit.counts.refused), 1);
}

/* Without the right to load functions, the script is used, unless the option `by` excludes it. */
static void functions_may_not_be_accepted(void **state)
{
    (void)state;
    static const char denied[] = "-NOPERM no right to run the 'function|load' command\r\n";
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = true;
    s->no_load = denied;
    kit.options.by = WEIR_REDIS_BY_FUNCTIONS;
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-down a:7000: NOPERM no right to run the 'function|load' "
                                 "command\n");
    weir_redis_client_close(kit.client);
    kit.options.by = WEIR_REDIS_BY_ANY;
    kit.log[0] = 0;
    open_client();
    run_due_events(); /* the script is refused, too */
    assert_string_equal(kit.log, "redis-down a:7000: NOPERM no right to run the 'function|load' "
                                 "command\n");
    s->no_load = "+OK\r\n";
    kit.log[0] = 0;
    s->has_functions = false;
    pass(1000 * MS);
    assert_string_equal(kit.log, "redis-down a:7000: the reply to SCRIPT LOAD is not a SHA-1\n");
    weir_redis_client_close(kit.client);
    s->no_load = NULL;
    kit.options.by = WEIR_REDIS_BY_FUNCTIONS;
    kit.log[0] = 0;
    open_client();
    run_due_events();
    assert_string_equal(kit.log,
                        "redis-down a:7000: the server does not accept the functions library\n");
    assert_int_equal(s->loads, 0);
}

/* What the reply to the version means. */
static void replies_to_the_version(void **state)
{
    (void)state;
    static const struct {
        const char *reply, *by;
        size_t loads;
    } known[] = {{":1\r\n", "functions", 1},
                 {":-5\r\n", "functions", 1},
                 {"+OK\r\n", "functions", 1},
                 {"*2\r\n:9\r\n:9\r\n", "functions", 1},
                 {"-ERR Function not found\r\n", "functions", 1},
                 {"-ERR unknown command 'FCALL'\r\n", "a script", 1},
                 {"-NOPERM no right to run 'fcall'\r\n", "a script", 1},
                 {"-OOM command not allowed\r\n", "functions", 1},
                 {"-MISCONF errors writing to disk\r\n", "functions", 1},
                 {"-NOREPLICAS not enough good replicas\r\n", "functions", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (i > 0) {
            assert_int_equal(teardown(NULL), 0);
            setup(NULL);
        }
        server *s = add_server(7000);
        s->has_module = false;
        s->no_version = known[i].reply;
        open_client();
        run_due_events();
        assert_int_equal(s->loads, known[i].loads);
        char expected[64];
        snprintf(expected, sizeof expected, "redis-up a:7000: %s\n", known[i].by);
        assert_non_null(strstr(kit.log, expected));
    }
}

/* A handshake loads a library again that others remove, but not for ever. */
static void a_library_that_is_removed(void **state)
{
    (void)state;
    for (size_t flushes = 4; flushes <= 5; flushes++) {
        assert_int_equal(teardown(NULL), 0);
        setup(NULL);
        server *s = add_server(7000);
        s->has_module = false;
        s->flushes = flushes;
        open_client();
        run_due_events();
        assert_int_equal(s->loads, 5);
        assert_int_equal(strstr(kit.log, "redis-up") != NULL, flushes == 4);
        assert_int_equal(strstr(kit.log, "redis-down a:7000: ERR Function not found") != NULL,
                         flushes == 5);
    }
}

/* The first error of a handshake is the reason, also if it is short. */
static void the_first_error_is_the_reason(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->loading = "-X\r\n";
    s->no_version = "-BUSY Redis is busy running a script.\r\n";
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-down a:7000: X\n");
}

static void texts_are_copied_for_the_log(void **state)
{
    (void)state;
    static const char text[] = "a\tb\x7f\x80~ ";
    char copy[16];
    for (size_t size = 1; size < sizeof copy; size++) {
        memset(copy, '#', sizeof copy);
        assert_ptr_equal(weir_redis_copy_text(copy, size, text, sizeof text - 1), copy);
        size_t len = size < sizeof text ? size - 1 : sizeof text - 1;
        assert_int_equal(strlen(copy), len);
        assert_memory_equal(copy, "a b  ~ ", len);
        assert_int_equal(copy[size], '#');
    }
}

static void an_unloaded_module_is_noticed(void **state)
{
    (void)state;
    server *s = open_with_server();
    s->has_module = false;
    s->has_functions = true;
    test_call a;
    take_answered(&a, "alice", 1);
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
    s->no_decision = DECISION;
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
    s->user = "me";
    s->password = "s e\"cret";
    kit.url[0] = "redis://me:s%20e%22cret@a:7000/3";
    open_client();
    run_due_events();
    assert_true(weir_redis_client_is_up(kit.client, &(weir_engine_request){.key = {"x", 1}},
                                        &(int64_t){0}));
    assert_string_equal(s->database, "3");
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

/* A reason is logged again after the connection worked, and an error reply after ten seconds. */
static void logs_again_later(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    for (int i = 0; i < 2; i++) {
        run_due_events();
        kit.log[0] = 0;
        server_dies(s);
        s->is_down = false;
        pass(6000 * MS);
        assert_string_equal(kit.log, "redis-down a:7000: it closed the connection\n"
                                     "redis-up a:7000: the module\n");
    }
    kit.log[0] = 0;
    s->error = "-ERR one\r\n";
    for (int i = 0; i < 3; i++) {
        test_call a;
        take(&a, "alice", 1);
        run_due_events();
        assert_ended(&a, WEIR_REDIS_REFUSED);
        pass(i == 0 ? 9999 * MS : MS);
        s->error = "-ERR two\r\n";
    }
    assert_string_equal(kit.log, "redis-refuses a:7000: ERR one\n"
                                 "redis-refuses a:7000: ERR two\n");
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
    s->loading = "*5\r\n$5\r\nslave\r\n$1\r\nb\r\n:7001\r\n$9\r\nconnected\r\n:1\r\n";
    pass(2000 * MS);
    assert_null(strstr(kit.log, "redis-up"));
    s->loading = NULL;
    s->role = "master";
    pass(2000 * MS);
    take_answered(&a, "alice", 1);
}

/* A server that does not tell its role counts as a master. */
static void the_role_may_be_unknown(void **state)
{
    (void)state;
    static const char *const unknown[] = {"-NOPERM no right to run the 'role' command\r\n",
                                          "-ERR unknown command 'ROLE'\r\n"};
    server *s = add_server(7000);
    s->role = "slave";
    open_client();
    for (size_t i = 0; i < 2; i++) {
        pass(1000 * MS);
        kit.log[0] = 0;
        s->loading = unknown[i];
        pass(2000 * MS);
        assert_string_equal(kit.log, "redis-up a:7000: the module\n");
        s->loading = NULL;
        server_dies(s);
        s->is_down = false;
    }
}

/* At most two reasons in five seconds. */
static void alternating_reasons_are_limited(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    for (int i = 0; i < 80; i++) {
        s->loading = i % 2 ? "-LOADING one\r\n" : "-LOADING two\r\n";
        pass(100 * MS);
    }
    size_t logged = 0;
    for (const char *at = kit.log; (at = strstr(at, "redis-down")); at++)
        logged++;
    assert_in_range(logged, 3, 4);
}

/* Each pause is random, between 1/2 and 1 of a length that doubles up to two seconds. */
static void pauses_are_random(void **state)
{
    (void)state;
    static const int64_t pauses[] = {7964674,   12044985,  30970856,  57266513,
                                     126504578, 188795580, 448158803, 770287772,
                                     858945278, 753332649, 953162444};
    open_client();
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        int64_t next_ns = 0;
        run_due_events();
        assert_false(
            weir_redis_client_is_up(kit.client, &(weir_engine_request){.key = {"x", 1}}, &next_ns));
        assert_int_equal(next_ns - kit.now_ns, pauses[i]);
        kit.now_ns = next_ns;
    }
}

/* A connection that breaks soon after the handshake does not end the backoff. */
static void a_flapping_server_is_backed_off(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    for (int i = 0; i < 1000; i++) {
        pass(10 * MS);
        if (connection_to(7000))
            close_connection(connection_to(7000), "it closed the connection");
    }
    assert_in_range(s->connects, 10, 20);
    assert_int_equal(count(&kit.counts.connected), 0);
    pass(2000 * MS); /* up for a while */
    assert_int_equal(count(&kit.counts.connected), 1);
    pass(2000 * MS);
    size_t connects = s->connects;
    close_connection(connection_to(7000), "it closed the connection");
    pass(10 * MS); /* the first pause again */
    assert_int_equal(s->connects, connects + 1);
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
    take_answered(&a, "alice", 1);
}

static void an_unknown_error_to_the_version_is_a_reason(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->no_version = "-BUSY Redis is busy running a script.\r\n";
    open_client();
    pass(1000 * MS);
    assert_string_equal(kit.log, "redis-down a:7000: BUSY Redis is busy running a script.\n");
    assert_int_equal(s->loads, 0);
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
        "MOVED 1 b:65536",
        "MOVED 16384 b:7001",
        "MOVED 1",
        "ASK x b:7001",
        "MOVED 1 /tmp/x:7001",
        "MOVED 1 a b:7001",
        "ERR something else",
    };
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    run_due_events();
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        char text[128];
        snprintf(text, sizeof text, "-%s\r\n", why[i]);
        test_call a, b;
        s->error = text;
        take(&a, "alice", 1);
        pass(50 * MS);
        assert_ended(&a, WEIR_REDIS_REFUSED);
        assert_string_equal(a.why, why[i]);
        s->error = NULL;
        take(&b, "alice", 1);
        pass(50 * MS);
        assert_answered(&b);
    }
    assert_int_equal(s->connects, 1 + 1); /* LOADING ended one, and the others came too soon */
    assert_non_null(strstr(kit.log, "redis-refuses a:7000: OOM command not allowed when used "
                                    "memory > 'maxmemory'.\n")); /* logged once */
    assert_null(strstr(kit.log, "redis-refuses a:7000: NOPERM"));
}

static void an_unsupported_policy_is_an_answer(void **state)
{
    (void)state;
    server *s = open_with_server();
    test_call a;
    s->error = "-ERR policy: 1/3 of a unit cannot be held\r\n";
    take(&a, "alice", 1);
    run_due_events();
    assert_status(&a, WEIR_E_UNSUPPORTED, "policy: 1/3 of a unit cannot be held");
    const char *first = a.request[0].reason;
    for (int i = 0; i < 200; i++) { /* the number of kept texts is limited */
        char text[64], expected[64];
        snprintf(text, sizeof text, "-ERR weir: %d\r\n", i / 2); /* each text comes twice */
        s->error = text;
        take(&a, "alice", 1);
        run_due_events();
        snprintf(expected, sizeof expected, "weir: %d", i / 2);
        assert_status(&a, WEIR_E_UNSUPPORTED,
                      i < 62 ? expected : "the server does not support this policy");
    }
    assert_string_equal(first, "policy: 1/3 of a unit cannot be held");
    s->error = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    take(&a, "alice", 1);
    run_due_events();
    assert_ended(&a, WEIR_REDIS_ANSWERED);
    assert_int_equal(a.request[0].status, WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(a.request[0].reason, "different hash slots"));
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
    static const char *const others[] = {"-Cell error: Store error: another\r\n",
                                         "-Cell error: another\r\n"};
    for (size_t i = 0; i < 2; i++) {
        s->error = others[i];
        a.done = 0;
        a.request[0].throttle_status = WEIR_THROTTLE_OK;
        a.request[0].by_error = true;
        a.request[0].reason = "not answered";
        a.call.deadline_ns = kit.now_ns + MS;
        send_call(&a);
        run_due_events();
        assert_status(&a, WEIR_E_RANGE, NULL);
        assert_int_equal(a.request[0].throttle_status, WEIR_THROTTLE_RANGE);
    }
    s->error = NULL;
    s->has_module = false;
    s->has_functions = true;
    a.done = 0;
    a.call.deadline_ns = kit.now_ns + MS;
    send_call(&a);
    run_due_events();
    assert_status(&a, WEIR_E_UNSUPPORTED,
                  "CL.THROTTLE needs the weir module, which the server has not loaded");
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
        cmocka_unit_test_setup_teardown(reloads_a_lost_script, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reload_without_a_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(functions_may_not_be_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_library_that_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(replies_to_the_version, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_error_is_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(texts_are_copied_for_the_log, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unloaded_module_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_role_may_be_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(alternating_reasons_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(pauses_are_random, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flapping_server_is_backed_off, setup, teardown),
        cmocka_unit_test_setup_teardown(loading_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(authenticates, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_a_revoked_password, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_again_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replica_gets_no_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_a_loading_server, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_error_to_the_version_is_a_reason, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refusals_have_a_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unsupported_policy_is_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(cl_throttle_needs_the_module, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
