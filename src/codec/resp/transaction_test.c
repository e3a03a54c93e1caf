/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* MULTI, EXEC, DISCARD, WATCH and UNWATCH. wait_test.c has transactions that wait for an engine. */

#include "codec/resp/kit_test.h"

#define TAKE      "WEIR.TAKE 'gcra 1/s burst 5' k"
#define PEEK      "WEIR.PEEK 'gcra 1/s burst 5' k"
#define LEFT(n)   "*6\r\n:1\r\n:5\r\n:" #n "\r\n:0\r\n"
#define FOUR      LEFT(4) ":1000\r\n:0\r\n"
#define THREE     LEFT(3) ":2000\r\n:0\r\n"
#define FIVE      LEFT(5) ":0\r\n:0\r\n"
#define OK        "+OK\r\n"
#define QUEUED    "+QUEUED\r\n"
#define EXECABORT "-EXECABORT Transaction discarded because of previous errors.\r\n"

static void runs_the_queue(void **state)
{
    fixture *f = *state;
    expect(f, "MULTI", OK);
    expect(f, TAKE, QUEUED);
    expect(f, "PING hello", QUEUED);
    expect(f, "weir.take 'gcra 1/s burst 5' k", QUEUED);
    expect(f, "EXEC", "*3\r\n" FOUR "$5\r\nhello\r\n" THREE);
    expect(f, PEEK, THREE);
    expect(f, "EXEC", "-ERR EXEC without MULTI\r\n");
    expect(f, "MULTI\r\nEXEC\r\nPING", OK "*0\r\n+PONG\r\n");
}

/* As a client sends a pipeline: everything at once, with other requests around it. */
static void runs_a_pipeline(void **state)
{
    fixture *f = *state;
    expect(f, TAKE "\r\nMULTI\r\n" TAKE "\r\n" PEEK "\r\nEXEC\r\nPING\r\nMULTI\r\nEXEC",
           FOUR OK QUEUED QUEUED "*2\r\n" THREE THREE "+PONG\r\n" OK "*0\r\n");
    assert_int_equal(weir_resp_session_memory(&f->session), 0);
}

static void an_error_while_it_runs_is_an_element(void **state)
{
    fixture *f = *state;
    expect(f, "MULTI\r\nWEIR.TAKE nobody k\r\n" TAKE "\r\nEXEC",
           OK QUEUED QUEUED
           "*2\r\n-ERR no policy 'nobody'; WEIR.POLICY LIST shows all policies\r\n" FOUR);
}

static void a_refused_command_refuses_all(void **state)
{
    fixture *f = *state;
    static const char *const wrong[][2] = {
        {"NOSUCH", "-ERR unknown command 'NOSUCH'; WEIR.HELP lists the commands\r\n"},
        {"WEIR.TAKE a", "-ERR wrong number of arguments for 'weir.take' command\r\n"},
        {"AUTH x", "-ERR AUTH, HELLO and subscriptions are not allowed in a transaction\r\n"},
        {"HELLO 3", "-ERR AUTH, HELLO and subscriptions are not allowed in a transaction\r\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect(f, "MULTI\r\n" TAKE, OK QUEUED);
        expect(f, wrong[i][0], wrong[i][1]);
        expect(f, TAKE, QUEUED);
        expect(f, "EXEC", EXECABORT);
        expect(f, "EXEC", "-ERR EXEC without MULTI\r\n");
        expect(f, PEEK, FIVE);
    }
}

static void discards(void **state)
{
    fixture *f = *state;
    expect(f, "MULTI\r\n" TAKE "\r\nDISCARD\r\n" PEEK, OK QUEUED OK FIVE);
    expect(f, "DISCARD", "-ERR DISCARD without MULTI\r\n");
    expect(f, "MULTI\r\nNOSUCH\r\nDISCARD",
           OK "-ERR unknown command 'NOSUCH'; WEIR.HELP lists the commands\r\n" OK);
    expect(f, "MULTI\r\n" TAKE "\r\nRESET\r\nEXEC\r\n" PEEK,
           OK QUEUED "+RESET\r\n-ERR EXEC without MULTI\r\n" FIVE);
    expect(f, "MULTI\r\n" TAKE "\r\nQUIT", OK QUEUED OK);
}

static void nothing_is_watched(void **state)
{
    fixture *f = *state;
    expect(f, "WATCH k\r\nMULTI\r\nWATCH k\r\nMULTI\r\n" TAKE "\r\nUNWATCH\r\nEXEC",
           OK OK "-ERR WATCH inside MULTI is not allowed\r\n"
                 "-ERR MULTI calls can not be nested\r\n" QUEUED QUEUED "*2\r\n" FOUR OK);
    expect(f, "UNWATCH", OK);
    expect(f, "WATCH", "-ERR wrong number of arguments for 'watch' command\r\n");
}

static void a_queue_has_at_most_64_kib(void **state)
{
    fixture *f = *state;
    static const char request[] = "ECHO 1234567890";
    size_t n = 0, most = 65536 / (sizeof request + 1); /* with CR LF */
    expect(f, "MULTI", OK);
    for (; n < most; n++)
        expect(f, request, QUEUED);
    assert_in_range(weir_resp_session_memory(&f->session), 65536 - sizeof request, 2 * 65536);
    expect(f, request,
           "-ERR the commands of a transaction exceed 65536 bytes, or memory is exhausted\r\n");
    expect(f, "ECHO 1",
           "-ERR the commands of a transaction exceed 65536 bytes, or memory is exhausted\r\n");
    expect(f, "EXEC", EXECABORT);
    assert_int_equal(weir_resp_session_memory(&f->session), 0);
}

/* The session stops for output, and goes on in the queue. */
static void stops_and_goes_on(void **state)
{
    fixture *f = *state;
    static const char requests[] = "MULTI\r\n" TAKE "\r\nPING\r\nPING\r\nEXEC\r\nPING\r\n";
    static const char replies[] = OK QUEUED QUEUED QUEUED "*3\r\n" FOUR "+PONG\r\n+PONG\r\n"
                                                          "+PONG\r\n";
    weir_buffer all;
    weir_buffer_init(&all, 4096);
    weir_buffer_append(&f->in, requests, strlen(requests));
    for (weir_session_next next = WEIR_SESSION_AGAIN; next == WEIR_SESSION_AGAIN;) {
        next = weir_resp_session_run(&f->session, &f->in, &f->out, 0, now_ns).next;
        assert_true(next == WEIR_SESSION_READ || weir_buffer_len(&f->out) > 0);
        weir_buffer_append(&all, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
        weir_buffer_clear(&f->out);
    }
    weir_buffer_append(&all, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&all), replies);
    weir_buffer_free(&all);
}

static void needs_the_password(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "secret");
    weir_resp_session_close(&f->session);
    weir_resp_session_init(&f->session, &f->options);
    expect(f, "MULTI\r\nEXEC",
           "-NOAUTH Authentication required.\r\n"
           "-NOAUTH Authentication required.\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_the_queue),
        TEST(runs_a_pipeline),
        TEST(an_error_while_it_runs_is_an_element),
        TEST(a_refused_command_refuses_all),
        TEST(discards),
        TEST(nothing_is_watched),
        TEST(a_queue_has_at_most_64_kib),
        TEST(stops_and_goes_on),
        TEST(needs_the_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
