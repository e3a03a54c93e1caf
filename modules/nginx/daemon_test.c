/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A daemon: the arguments of `weir_daemon`, the choice of a connection, and what the connection
 * does with replies, errors, silence and lost connections. */

#include "fake.h"

#include "modules/nginx/daemon.h"

#define QUESTION "*3\r\n$10\r\nWEIR.CHECK\r\n$8\r\ngcra 1/s\r\n$1\r\nk\r\n"
#define PING     "*1\r\n$4\r\nPING\r\n"
#define PONG     "+PONG\r\n"
#define ALLOWED  "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:1000\r\n:0\r\n"
#define DENIED   "*6\r\n:0\r\n:9\r\n:0\r\n:250\r\n:1000\r\n:0\r\n"
#define DOWN     "error weir daemon \"h:1\" is unavailable: "

/* ---- arguments ------------------------------------------------------------------------------- */

static void arguments(void **unused)
{
    (void)unused;
    static const char time[] = "expected a time from 1ms to 60s\n";
    static const struct {
        const char *directive, *log;
    } rows[] = {
        {"weir_daemon h:1", ""},
        {"weir_daemon unix:/run/weir.sock timeout=1ms connect_timeout=60s", ""},
        {"weir_daemon h connections=64 on_error=local password=p", ""},
        {"weir_daemon off", ""},
        {"weir_daemon h!", "emerg weir_daemon: address \"h!\": invalid host\n"},
        {"weir_daemon h?", "emerg weir_daemon: address \"h?\": expected host:port or unix:/path\n"},
        {"weir_daemon h timeout=0", "emerg weir_daemon: parameter \"timeout\": "},
        {"weir_daemon h timeout=61s", "emerg weir_daemon: parameter \"timeout\": "},
        {"weir_daemon h connect_timeout=x", "emerg weir_daemon: parameter \"connect_timeout\": "},
        {"weir_daemon h connections=0",
         "emerg weir_daemon: parameter \"connections\": expected a number from 1 to 64\n"},
        {"weir_daemon h connections=65",
         "emerg weir_daemon: parameter \"connections\": expected a number from 1 to 64\n"},
        {"weir_daemon h on_error=no",
         "emerg weir_daemon: parameter \"on_error\": expected open, closed or local\n"},
        {"weir_daemon h password=",
         "emerg weir_daemon: parameter \"password\": expected 1 to 512 bytes\n"},
        {"weir_daemon h pasword=secret",
         "emerg weir_daemon: parameter \"pasword\": expected timeout=, connect_timeout=, "
         "on_error=, connections= or password=\n"},
        {"weir_daemon h timeout=1s timeout=2s", "emerg duplicate parameter \"timeout=\"\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char log[256];
        size_t len = strlen(rows[i].log);
        snprintf(log, sizeof log, "%s%s", rows[i].log,
                 len > 0 && rows[i].log[len - 1] != '\n' ? time : "");
        fake_next_location();
        fake_expect_conf(rows[i].directive, len > 0 ? "" : NULL, log);
    }
    fake_next_location();
    assert_null(fake_conf("weir_daemon h:1"));
    assert_int_equal(weir_ngx_daemon_on_error(fake.loc->daemon), WEIR_NGX_ON_ERROR_OPEN);
    fake_expect_conf("weir_daemon h:1", "is duplicate", NULL);
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct asked {
    weir_ngx_ask ask;
    int done;
    weir_ngx_daemon *again; /* done() asks it the same question */
} asked;

static const weir_ngx_ask_limit limit = {{"gcra 1/s", 8}, {"k", 1}, 1, 0};

static void on_done(weir_ngx_ask *ask)
{
    asked *a = (asked *)ask;
    weir_ngx_daemon *again = a->again;
    a->done++;
    a->again = NULL;
    if (again)
        assert_int_equal(weir_ngx_daemon_ask(again, ask, &limit, 1, ngx_cycle->log), NGX_OK);
}

static weir_ngx_daemon *daemon_of(const char *directive)
{
    fake_next_location();
    assert_null(fake_conf(directive));
    return fake.loc->daemon;
}

/* Asks a question, and sends it. */
static void ask(weir_ngx_daemon *d, asked *a)
{
    *a = (asked){.ask = {.done = on_done}};
    assert_int_equal(weir_ngx_daemon_ask(d, &a->ask, &limit, 1, ngx_cycle->log), NGX_OK);
    assert_int_equal(a->done, 0); /* never within the call */
    fake_run();
}

static void expect_answer(const asked *a, weir_ngx_answer answer)
{
    assert_int_equal(a->done, 1);
    assert_int_equal(a->ask.answer, answer);
}

/* Opens the connection: the first question was asked before. */
static void expect_greeting(const char *greeting)
{
    char expected[512];
    fake_connected(0);
    snprintf(expected, sizeof expected, "%s%s", greeting, QUESTION);
    assert_string_equal(fake_sent(), expected);
}

/* A daemon with a connection that is ready. */
static weir_ngx_daemon *ready_daemon(const char *directive)
{
    weir_ngx_daemon *d = daemon_of(directive);
    asked first;
    ask(d, &first);
    expect_greeting(PING);
    fake_receive(PONG ALLOWED);
    expect_answer(&first, WEIR_NGX_ANSWERED);
    return d;
}

static void replies(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = daemon_of("weir_daemon h:1");
    asked a, b;
    ask(d, &a);
    assert_int_equal(fake.connects, 1);
    assert_string_equal(fake_sent(), "");
    expect_greeting(PING);
    ask(d, &b);
    assert_string_equal(fake_sent(), QUESTION);
    fake_receive(PONG ALLOWED DENIED);
    expect_answer(&a, WEIR_NGX_ANSWERED);
    assert_true(a.ask.decision.allowed && a.ask.decision.remaining == 8);
    expect_answer(&b, WEIR_NGX_ANSWERED);
    assert_false(b.ask.decision.allowed);
    assert_int_equal(b.ask.decision.retry_after_ns, 250000000);
    assert_int_equal(fake.connects, 1);
    assert_string_equal(fake_logged(), "");
}

/* A reply may come byte by byte. */
static void a_reply_in_pieces(void **unused)
{
    (void)unused;
    static const char all[] = ALLOWED;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a;
    ask(d, &a);
    for (size_t i = 0; all[i]; i++) {
        char byte[] = {all[i], '\0'};
        assert_int_equal(a.done, 0);
        fake_receive(byte);
    }
    expect_answer(&a, WEIR_NGX_ANSWERED);
}

static void a_password(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = daemon_of("weir_daemon h:1 password=secret");
    asked a;
    ask(d, &a);
    expect_greeting("*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n");
    fake_receive("-WRONGPASS wrong\r\n");
    fake_run();
    expect_answer(&a, WEIR_NGX_ASK_LOST);
    assert_string_equal(fake_logged(), DOWN "it refused the connection: WRONGPASS wrong\n");
}

/* done() may ask again. */
static void a_question_after_a_reply(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a;
    ask(d, &a);
    a.again = d;
    fake_sent();
    fake_receive(ALLOWED);
    assert_string_equal(fake_sent(), QUESTION);
    fake_receive(DENIED);
    assert_int_equal(a.done, 2);
    assert_false(a.ask.decision.allowed);
}

static void an_error_reply(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    for (int i = 0; i < WEIR_NGX_LINES_MAX + 2; i++) {
        asked a;
        ask(d, &a);
        fake_receive("-ERR no\r\n");
        expect_answer(&a, WEIR_NGX_ASK_REFUSED);
        assert_string_equal(fake_logged(),
                            i < WEIR_NGX_LINES_MAX
                                ? "error weir daemon \"h:1\" replied with an error: ERR no\n"
                                : "");
    }
    fake_pass(WEIR_NGX_LINES_MS);
    assert_string_equal(fake_logged(), "error 2 more questions got an error from weir daemon "
                                       "\"h:1\" within 10 s\n");
}

static void questions_that_are_refused(void **unused)
{
    (void)unused;
    static char large[WEIR_NGX_QUESTION_LEN_MAX];
    static weir_ngx_ask_limit many[WEIR_NGX_ASK_MAX + 1];
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a = {.ask = {.done = on_done}};
    assert_int_equal(weir_ngx_daemon_ask(d, &a.ask, many, 0, ngx_cycle->log), NGX_ERROR);
    assert_int_equal(weir_ngx_daemon_ask(d, &a.ask, many, WEIR_NGX_ASK_MAX + 1, ngx_cycle->log),
                     NGX_ERROR);
    memset(large, 'k', sizeof large);
    const weir_ngx_ask_limit one = {{"gcra 1/s", 8}, {large, sizeof large}, 1, 0};
    assert_int_equal(weir_ngx_daemon_ask(d, &a.ask, &one, 1, ngx_cycle->log), NGX_OK);
    assert_int_equal(a.done, 0);
    fake_run();
    expect_answer(&a, WEIR_NGX_ASK_FULL);
    assert_string_equal(fake_logged(), "error weir daemon \"h:1\": a command is too long, or too "
                                       "many commands wait\n");
}

/* As many questions wait as slots are there. */
static void a_full_queue(void **unused)
{
    (void)unused;
    enum { SLOTS = 65536 };
    static asked all[SLOTS + 1];
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    for (size_t i = 0; i <= SLOTS; i++) {
        all[i] = (asked){.ask = {.done = on_done}};
        assert_int_equal(weir_ngx_daemon_ask(d, &all[i].ask, &limit, 1, ngx_cycle->log), NGX_OK);
        if (i % 100 == 99) {
            fake_run();
            fake_sent();
        }
    }
    fake_run();
    fake_logged();
    expect_answer(&all[SLOTS], WEIR_NGX_ASK_FULL);
    assert_int_equal(all[SLOTS - 1].done, 0);
    fake_pass(50);
    for (size_t i = 0; i < SLOTS; i++)
        expect_answer(&all[i], WEIR_NGX_ASK_TIMEOUT);
}

static void cancelled_questions(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a, b;
    ask(d, &a);
    ask(d, &b);
    weir_ngx_daemon_cancel(&a.ask);
    weir_ngx_daemon_cancel(&a.ask); /* twice does nothing */
    fake_receive(DENIED ALLOWED);
    assert_int_equal(a.done, 0);
    expect_answer(&b, WEIR_NGX_ANSWERED);
    assert_true(b.ask.decision.allowed);
    /* A failure that is due is cancelled, too. */
    ask(d, &a);
    fake_receive(NULL);
    a = (asked){.ask = {.done = on_done}};
    assert_int_equal(weir_ngx_daemon_ask(d, &a.ask, &limit, 1, ngx_cycle->log), NGX_OK);
    weir_ngx_daemon_cancel(&a.ask);
    fake_run();
    assert_int_equal(a.done, 0);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A late reply is dropped, and the next one belongs to the next question. */
static void a_timeout(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1 timeout=80ms");
    asked a, b;
    ask(d, &a);
    fake_pass(79);
    assert_int_equal(a.done, 0);
    fake_pass(1);
    expect_answer(&a, WEIR_NGX_ASK_TIMEOUT);
    ask(d, &b);
    fake_receive(DENIED);
    assert_int_equal(b.done, 0);
    fake_receive(ALLOWED);
    expect_answer(&b, WEIR_NGX_ANSWERED);
    assert_true(b.ask.decision.allowed);
    assert_int_equal(fake.closes, 0);
}

/* A connection with an overdue reply is given up after a second without a byte. */
static void a_silent_daemon(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a, b;
    ask(d, &a);
    fake_pass(1049);
    expect_answer(&a, WEIR_NGX_ASK_TIMEOUT);
    assert_int_equal(fake.closes, 0);
    fake_pass(1);
    assert_int_equal(fake.closes, 1);
    assert_string_equal(fake_logged(), DOWN "no reply\n");
    ask(d, &b);
    expect_answer(&b, WEIR_NGX_ASK_DOWN);
    fake_pass(100);
    assert_int_equal(fake.connects, 2);
    fake_connected(0);
    assert_string_equal(strstr(fake_sent(), "PING"), "PING\r\n");
    fake_receive(PONG);
    assert_string_equal(fake_logged(), "notice weir daemon \"h:1\" is available again\n");
}

/* Attempts to connect follow after 100 ms, 200 ms, ... up to 5 s. Only the first failure is
 * logged. */
static void attempts(void **unused)
{
    (void)unused;
    static const ngx_msec_t waits[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    weir_ngx_daemon *d = daemon_of("weir_daemon h:1");
    asked a;
    fake.connect_rc = NGX_ERROR;
    ask(d, &a);
    expect_answer(&a, WEIR_NGX_ASK_DOWN);
    assert_string_equal(fake_logged(), DOWN "connect() failed\n");
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        int before = fake.connects;
        fake_pass(waits[i] - 1);
        assert_int_equal(fake.connects, before);
        fake_pass(1);
        assert_int_equal(fake.connects, before + 1);
    }
    assert_string_equal(fake_logged(), "");
}

static void connecting_takes_too_long(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = daemon_of("weir_daemon h:1 timeout=5s connect_timeout=1s");
    asked a;
    ask(d, &a);
    fake_pass(999);
    assert_int_equal(a.done, 0);
    fake_pass(1);
    expect_answer(&a, WEIR_NGX_ASK_DOWN);
    assert_string_equal(fake_logged(), DOWN "connect() failed\n");
    fake_close(NULL);
    fake_open(NULL);
    d = daemon_of("weir_daemon h:1 timeout=50ms");
    ask(d, &a);
    fake_pass(50);
    expect_answer(&a, WEIR_NGX_ASK_TIMEOUT);
    assert_string_equal(fake_logged(), DOWN "connecting took longer than timeout= allows\n");
}

/* ---- lost connections ------------------------------------------------------------------------ */

static void lost_connections(void **unused)
{
    (void)unused;
    static const struct {
        const char *bytes, *why;
    } rows[] = {
        {NULL, "it closed the connection"},
        {"$1\r\nx\r\n", "its reply is not one of a weir daemon"},
        {ALLOWED ALLOWED, "it sent a reply that no command waits for"},
        {"HTTP/1.1 400 Bad Request\r\n", "its reply is not one of a weir daemon"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[128];
        fake_close(NULL);
        fake_open(NULL);
        weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
        asked a;
        ask(d, &a);
        fake_receive(rows[i].bytes);
        expect_answer(&a, i == 2 ? WEIR_NGX_ANSWERED : WEIR_NGX_ASK_LOST);
        snprintf(expected, sizeof expected, DOWN "%s\n", rows[i].why);
        assert_string_equal(fake_logged(), expected);
        assert_int_equal(fake.closes, 1);
    }
}

/* A daemon that closes an idle connection is no failure. The next question connects again. */
static void an_idle_connection_ends(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a;
    assert_true(fake.c.idle);
    fake_receive(NULL);
    assert_int_equal(fake.closes, 1);
    assert_string_equal(fake_logged(), "");
    ask(d, &a);
    assert_int_equal(fake.connects, 2);
    expect_greeting(PING);
    fake_receive(PONG ALLOWED);
    expect_answer(&a, WEIR_NGX_ANSWERED);
}

/* If connect() fails, the questions go to the next address of the name. */
static void two_addresses(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = daemon_of("weir_daemon two:1");
    asked a;
    ask(d, &a);
    fake_connected(ECONNREFUSED);
    assert_int_equal(fake.connects, 2);
    assert_int_equal(a.done, 0);
    expect_greeting(PING);
    fake_receive(PONG ALLOWED);
    expect_answer(&a, WEIR_NGX_ANSWERED);
    assert_string_equal(fake_logged(), "");
}

static void two_connections(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = daemon_of("weir_daemon h:1 connections=2");
    asked a, b, c;
    fake.connect_rc = NGX_ERROR;
    ask(d, &a);
    assert_int_equal(fake.connects, 1);
    ask(d, &b);
    assert_int_equal(fake.connects, 2);
    expect_answer(&b, WEIR_NGX_ASK_DOWN);
    ask(d, &c); /* both are down: it fails without an attempt */
    expect_answer(&c, WEIR_NGX_ASK_DOWN);
    assert_int_equal(fake.connects, 2);
}

/* A worker that shuts down closes a connection as soon as no request waits for it. */
static void a_worker_shuts_down(void **unused)
{
    (void)unused;
    weir_ngx_daemon *d = ready_daemon("weir_daemon h:1");
    asked a;
    ask(d, &a);
    ngx_exiting = 1;
    assert_int_equal(fake.closes, 0);
    fake_receive(ALLOWED);
    expect_answer(&a, WEIR_NGX_ANSWERED);
    assert_int_equal(fake.closes, 1);
    assert_string_equal(fake_logged(), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open, fake_close)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(arguments),
                                       TEST(replies),
                                       TEST(a_reply_in_pieces),
                                       TEST(a_password),
                                       TEST(a_question_after_a_reply),
                                       TEST(an_error_reply),
                                       TEST(questions_that_are_refused),
                                       TEST(a_full_queue),
                                       TEST(cancelled_questions),
                                       TEST(a_timeout),
                                       TEST(a_silent_daemon),
                                       TEST(attempts),
                                       TEST(connecting_takes_too_long),
                                       TEST(lost_connections),
                                       TEST(an_idle_connection_ends),
                                       TEST(two_addresses),
                                       TEST(two_connections),
                                       TEST(a_worker_shuts_down)};
    return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
