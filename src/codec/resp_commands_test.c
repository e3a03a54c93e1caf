/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands, from bytes to bytes, at times that are passed in. */

#include "codec/resp_commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUT_PAUSE = 1 << 16 };

static const int64_t now_ns = 1767225600000000000;

typedef struct fixture {
    weir_store *store;
    weir_hub *hub;
    weir_service *service;
    weir_resp_options options;
    weir_resp_session session;
    weir_buffer in, out;
} fixture;

static const weir_zone *no_zone(void *ctx, const char *name, size_t len)
{
    (void)ctx;
    (void)name;
    (void)len;
    return NULL;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const weir_zones zones = {no_zone, NULL};
    assert_int_equal(weir_store_open(&f->store, NULL), WEIR_OK);
    assert_int_equal(weir_hub_open(&f->hub, f->store, &zones), WEIR_OK);
    assert_int_equal(weir_service_open(&f->service, f->hub), WEIR_OK);
    weir_buffer_init(&f->in, 1 << 21);
    weir_buffer_init(&f->out, 1 << 20);
    f->options =
        (weir_resp_options){.service = f->service, .version = "1.2.3", .first_id = 7, .id_step = 1};
    weir_resp_session_init(&f->session, &f->options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    weir_service_close(f->service);
    weir_hub_close(f->hub);
    weir_store_close(f->store);
    free(f);
    return 0;
}

/* Sends an inline request, and expects exactly this reply. */
static void ask(fixture *f, const char *request, const char *reply)
{
    weir_buffer_append(&f->in, request, strlen(request));
    weir_buffer_append(&f->in, "\r\n", 2);
    weir_session_step step = weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    assert_int_equal(step.next, f->session.closing ? WEIR_SESSION_CLOSE : WEIR_SESSION_READ);
    weir_buffer_append(&f->out, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&f->out), reply);
    weir_buffer_clear(&f->out);
}

static void check_check(void **state)
{
    fixture *f = *state;
    const char *take = "WEIR.CHECK 'gcra 3/s burst 2' alice";
    ask(f, take, "*6\r\n:1\r\n:2\r\n:1\r\n:0\r\n:334\r\n:0\r\n");
    ask(f, take, "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:667\r\n:0\r\n");
    ask(f, take, "*6\r\n:0\r\n:2\r\n:0\r\n:334\r\n:667\r\n:0\r\n");
    ask(f, "weir.check 'gcra   3/1s burst 02' alice cost 0", /* the same policy and key */
        "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:667\r\n:0\r\n");
    ask(f, "WEIR.CHECK 'gcra 3/s burst 2' bob COST 3",
        "*6\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:0\r\n:0\r\n");
    ask(f, "WEIR.CHECK 'leaky-queue 10/s depth 2' carol",
        "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:100\r\n:0\r\n");
    ask(f, "WEIR.CHECK 'leaky-queue 10/s depth 2' carol",
        "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:200\r\n:100\r\n");
}

static void check_check_errors(void **state)
{
    fixture *f = *state;
    ask(f, "WEIR.CHECK 'gcra 100/x' alice",
        "-ERR policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w\r\n");
    ask(f, "WEIR.CHECK 'fixed-window 5/day tz Mars/Base' alice",
        "-ERR policy: column 23: found 'Mars/Base', expected the name of a time zone, as in tz "
        "Europe/Berlin\r\n");
    ask(f, "WEIR.CHECK 'gcra 1/s'", "-ERR wrong number of arguments for 'weir.check' command\r\n");
    ask(f, "WEIR.CHECK 'gcra 1/s' a PRICE 3",
        "-ERR syntax error, expected policy-text key [COST n] after the command\r\n");
    ask(f, "WEIR.CHECK 'gcra 1/s' a COST",
        "-ERR syntax error, expected policy-text key [COST n] after the command\r\n");
    const char *cost = "-ERR the cost is not a whole number from 0 to 2147483647\r\n";
    ask(f, "WEIR.CHECK 'gcra 1/s' a COST x", cost);
    ask(f, "WEIR.CHECK 'gcra 1/s' a COST -1", cost);
    ask(f, "WEIR.CHECK 'gcra 1/s' a COST 2147483648", cost);
    ask(f, "WEIR.CHECK 'gcra 1/s' a COST 99999999999999999999", cost);
    ask(f, "WEIR.CHECK 'gcra 1/s' ''", "-ERR the key has 0 bytes, expected 1 to 65536\r\n");
}

static void check_long_key(void **state)
{
    fixture *f = *state;
    static const char head[] = "*3\r\n$10\r\nWEIR.CHECK\r\n$8\r\ngcra 1/s\r\n";
    for (size_t len = WEIR_KEY_MAX; len <= WEIR_KEY_MAX + 1; len++) {
        char *key = malloc(len);
        memset(key, 'k', len);
        weir_buffer_append(&f->in, head, sizeof head - 1);
        weir_resp_put_bulk(&f->in, key, len);
        free(key);
        ask(f, "",
            len == WEIR_KEY_MAX ? "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n"
                                : "-ERR the key has 65537 bytes, expected 1 to 65536\r\n");
    }
}

static void check_throttle(void **state)
{
    fixture *f = *state;
    ask(f, "CL.THROTTLE u 15 30 60", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
    ask(f, "cl.throttle u 15 30 60 15", "*5\r\n:0\r\n:16\r\n:0\r\n:-1\r\n:32\r\n");
    ask(f, "CL.THROTTLE u 15 30 60 1", "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n");
    ask(f, "CL.THROTTLE u 15 30 60 17", "*5\r\n:1\r\n:16\r\n:0\r\n:-1\r\n:32\r\n");
    ask(f, "CL.THROTTLE u 15 30 60 -16", "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n");
    /* The state is the key's, whatever the numbers. */
    ask(f, "CL.THROTTLE u 0 1 100", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:100\r\n");
    ask(f, "CL.THROTTLE u 0 1 1", "*5\r\n:1\r\n:1\r\n:0\r\n:100\r\n:100\r\n");
    ask(f, "WEIR.CHECK 'gcra 1/ns' u", "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n");
}

static void check_throttle_errors(void **state)
{
    fixture *f = *state;
    const char *usage = "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per "
                        "period> <period> [<quantity>]\r\n";
    const char *zero = "-Cell error: Store error: Zero rates are not supported\r\n";
    ask(f, "CL.THROTTLE", usage);
    ask(f, "CL.THROTTLE u 1 1", usage);
    ask(f, "CL.THROTTLE u 1 1 1 1 1", usage);
    ask(f, "CL.THROTTLE u abc 1 1", "-Cell error: Store error: Couldn't parse as integer: abc\r\n");
    ask(f, "CL.THROTTLE u 1 1 1 1.5",
        "-Cell error: Store error: Couldn't parse as integer: 1.5\r\n");
    ask(f, "CL.THROTTLE u 1 1 ''", "-Cell error: Store error: Couldn't parse as integer: \r\n");
    ask(f, "CL.THROTTLE u 1 1 -", "-Cell error: Store error: Couldn't parse as integer: -\r\n");
    ask(f, "CL.THROTTLE u 9223372036854775808 1 1",
        "-Cell error: Store error: Couldn't parse as integer: 9223372036854775808\r\n");
    ask(f, "CL.THROTTLE u 1 0 60", zero);
    ask(f, "CL.THROTTLE u 1 60 0", zero);
    ask(f, "CL.THROTTLE u 1 2000000000 1", zero);
    ask(f, "CL.THROTTLE u 9223372036854775807 1 1",
        "-Cell error: Store error: The rate, burst or quantity does not fit in 64 bits of "
        "nanoseconds\r\n");
    ask(f, "CL.THROTTLE u +1 +1 +60", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n");
}

static void check_others(void **state)
{
    fixture *f = *state;
    ask(f, "PING", "+PONG\r\n");
    ask(f, "ping hello", "$5\r\nhello\r\n");
    ask(f, "PING a b", "-ERR wrong number of arguments for 'ping' command\r\n");
    ask(f, "COMMAND DOCS", "*0\r\n");
    ask(f, "FLUSHALL", "-ERR unknown command 'FLUSHALL'; WEIR.HELP lists those there are\r\n");
    ask(f, "QUIT", "+OK\r\n");
    assert_true(f->session.closing);
    ask(f, "PING", ""); /* nothing more is answered */
}

static void check_protocol_error(void **state)
{
    fixture *f = *state;
    ask(f, "PING\r\n*1\r\n:5", "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    assert_true(f->session.closing);
}

static void check_http_guard(void **state)
{
    fixture *f = *state;
    ask(f, "POST / HTTP/1.1\r\nPING", "");
    assert_true(f->session.closing);
}

/* Many requests at once are answered in order; with a full output the rest waits. */
static void check_pipeline(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 1000; i++)
        weir_buffer_append(&f->in, "PING\r\n", 6);
    assert_int_equal(weir_resp_session_run(&f->session, &f->in, &f->out, 70, now_ns).next,
                     WEIR_SESSION_AGAIN);
    assert_int_equal(weir_buffer_len(&f->out), 77);
    weir_buffer_clear(&f->out);
    assert_int_equal(weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns).next,
                     WEIR_SESSION_READ);
    assert_int_equal(weir_buffer_len(&f->out), 7000 - 77);
    assert_int_equal(weir_buffer_len(&f->in), 0);
}

/* More policy texts than are kept compiled: an old one is compiled again and finds its keys. */
static void check_many_policies(void **state)
{
    fixture *f = *state;
    char text[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= 3 * WEIR_SERVICE_POLICIES_MAX; i++) {
            snprintf(text, sizeof text, "WEIR.CHECK 'fixed-window 1/%dd' k", i);
            weir_buffer_append(&f->in, text, strlen(text));
            weir_buffer_append(&f->in, "\r\n", 2);
            weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
            assert_memory_equal(weir_buffer_data(&f->out), round == 0 ? "*6\r\n:1" : "*6\r\n:0", 6);
            weir_buffer_clear(&f->out);
        }
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_check),         TEST(check_check_errors),    TEST(check_long_key),
        TEST(check_throttle),      TEST(check_throttle_errors), TEST(check_others),
        TEST(check_pipeline),      TEST(check_protocol_error),  TEST(check_http_guard),
        TEST(check_many_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
