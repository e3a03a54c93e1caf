/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_KIT_TEST_H
#define WEIR_CODEC_HTTP_KIT_TEST_H
/* Fixtures of the HTTP tests: a session with a service and a store, without sockets. */

#include "codec/http/session.h"
#include "service/top/top.h"
#include "service/users/kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define UNUSED    __attribute__((unused))
#define NOW_NS    INT64_C(1767225600000000000) /* the first second of 2026 */
#define SECOND_NS INT64_C(1000000000)

enum { OUT_PAUSE = 1 << 16, OUT_MAX = 1 << 22 };

typedef struct fixture {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    users_kit users;
    weir_http_options options;
    weir_http_session session;
    weir_answer answer; /* of the listener, for new sessions */
    weir_buffer in, out;
    weir_buffer output; /* all output, with a NUL */
    int64_t now_ns;
    int64_t waited_ns;
    weir_session_next last;
} fixture;

/* If set, this engine has the state of all policies of a new fixture. */
UNUSED static weir_engine_kind kit_engine = WEIR_ENGINE_LOCAL;

UNUSED static void set_rules(fixture *f)
{
    static const char *const root = "root", *const evil = "evil";
    weir_rule_spec specs[] = {WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT,
                              WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT,
                              WEIR_RULE_SPEC_DEFAULT};
    specs[0].name = "api";
    specs[0].limit = "gcra 1/s burst 5";
    specs[0].allow = &root;
    specs[0].allow_len = 1;
    specs[0].deny = &evil;
    specs[0].deny_len = 1;
    specs[1].name = "two";
    specs[1].limit = "fixed-window 2/m & fixed-window 10/month";
    specs[2].name = "queue";
    specs[2].limit = "leaky-queue 10/s depth 2";
    specs[3].name = "look";
    specs[3].limit = "fixed-window 1/m";
    specs[3].shadow = true;
    specs[4].name = "slow";
    specs[4].limit = "token-bucket 7 refill 2 every 90s";
    weir_rules *rules;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        specs[i].engine = kit_engine;
    assert_int_equal(
        weir_rules_build(&rules, f->store, NULL, specs, sizeof specs / sizeof specs[0]), WEIR_OK);
    weir_limiter_configure(f->limiter, rules, kit_engine);
}

UNUSED static fixture *fixture_of(weir_when_full when_full)
{
    fixture *f = calloc(1, sizeof *f);
    static const uint8_t secret[16] = {7};
    const weir_store_options store = {
        .memory_bytes = 1 << 20, .secret = secret, .when_full = when_full};
    assert_int_equal(weir_store_open(&f->store, &store), WEIR_OK);
    assert_int_equal(weir_limiter_open(&f->limiter, f->store, NULL), WEIR_OK);
    set_rules(f);
    assert_int_equal(weir_limiter_enable_top(f->limiter, &(weir_top_options){20, 1 << 20}),
                     WEIR_OK);
    assert_int_equal(weir_service_open(&f->service, f->limiter), WEIR_OK);
    static const char *const hosts[] = {"weir"};
    f->options = (weir_http_options){.service = f->service,
                                     .access = &f->users.access,
                                     .version = "1.2.3",
                                     .hosts = {hosts, sizeof hosts / sizeof *hosts}};
    weir_buffer_init(&f->in, 1 << 21);
    weir_buffer_init(&f->out, OUT_MAX);
    weir_buffer_init(&f->output, OUT_MAX);
    weir_http_session_init(&f->session, &f->options);
    f->now_ns = NOW_NS;
    return f;
}

UNUSED static fixture *fixture_new(void)
{
    return fixture_of(WEIR_EVICT);
}

UNUSED static void fixture_free(fixture *f)
{
    weir_http_session_close(&f->session);
    users_kit_close(&f->users);
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    weir_buffer_free(&f->output);
    weir_service_close(f->service);
    weir_limiter_close(f->limiter);
    weir_store_close(f->store);
    free(f);
}

UNUSED static int setup(void **state)
{
    *state = fixture_new();
    return 0;
}

UNUSED static int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

UNUSED static void reopen(fixture *f)
{
    weir_http_session_close(&f->session);
    weir_http_session_init(&f->session, &f->options);
    f->session.answer = &f->answer;
    weir_buffer_clear(&f->in);
}

/* Collects the output in `output`, as a string. Delays take no time. */
UNUSED static void run(fixture *f, size_t out_pause)
{
    do {
        weir_session_step step =
            weir_http_session_run(&f->session, &f->in, &f->out, out_pause, f->now_ns);
        if (step.next == WEIR_SESSION_WAIT) {
            assert_true(step.until_ns >= f->now_ns);
            f->waited_ns += step.until_ns - f->now_ns;
            f->now_ns = step.until_ns;
        }
        assert_false(f->out.failed);
        weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
        weir_buffer_clear(&f->out);
        f->last = step.next;
    } while (f->last == WEIR_SESSION_AGAIN || f->last == WEIR_SESSION_WAIT);
}

UNUSED static void feed(fixture *f, const char *bytes, size_t len, size_t step)
{
    for (size_t at = 0; at < len && f->last != WEIR_SESSION_CLOSE; at += step) {
        weir_buffer_append(&f->in, bytes + at, len - at < step ? len - at : step);
        run(f, OUT_PAUSE);
    }
}

UNUSED static const char *output_of(fixture *f)
{
    weir_buffer_append(&f->output, "", 1);
    return (const char *)weir_buffer_data(&f->output);
}

/* Sends bytes on a new connection. The response is valid until the next call. */
UNUSED static const char *speak(fixture *f, const char *bytes, size_t len)
{
    reopen(f);
    weir_buffer_clear(&f->output);
    f->last = WEIR_SESSION_READ;
    feed(f, bytes, len, len);
    return output_of(f);
}

#define HOST "Host: weir\r\n"

UNUSED static const char *get(fixture *f, const char *target)
{
    char request[8192];
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", target);
    return speak(f, request, (size_t)len);
}

UNUSED static const char *post(fixture *f, const char *target, const char *json)
{
    char request[8192];
    int len = snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       target, strlen(json), json);
    return speak(f, request, (size_t)len);
}

/* Sends a request with the given header lines and body. */
UNUSED static const char *with(fixture *f, const char *start, const char *lines)
{
    char request[8192];
    int len = snprintf(request, sizeof request, "%s HTTP/1.1\r\n" HOST "%s\r\n", start, lines);
    return speak(f, request, (size_t)len);
}

UNUSED static int status_of(const char *answer)
{
    assert_memory_equal(answer, "HTTP/1.1 ", 9);
    return atoi(answer + 9);
}

UNUSED static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

UNUSED static void has_line(const char *answer, const char *line)
{
    const char *end = body_of(answer), *at = strstr(answer, line);
    if (!at || at > end || at[-1] != '\n' || memcmp(at + strlen(line), "\r\n", 2) != 0)
        fail_msg("no line '%s' in\n%s", line, answer);
}

UNUSED static void has_no_line(const char *answer, const char *name)
{
    const char *at = strstr(answer, name);
    if (at && at < body_of(answer))
        fail_msg("a line '%s' in\n%s", name, answer);
}

/* Expects a problem of the type about:blank with this status and detail. */
UNUSED static void is_problem(const char *answer, int status, const char *detail)
{
    if (status_of(answer) != status)
        fail_msg("expected %d, got\n%s", status, answer);
    json_t *json = json_loads(body_of(answer), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "type")), "about:blank");
    assert_int_equal(json_integer_value(json_object_get(json, "status")), status);
    assert_string_equal(json_string_value(json_object_get(json, "detail")), detail);
    json_decref(json);
    has_line(answer, "Content-Type: application/problem+json");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
