/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Templates: what is a placeholder and what is not, values for denials of every kind, the longest
 * body. */

#include "codec/answer/fields.h"

#include "core/decision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS INT64_C(1000000000)
#define NOW_NS    (INT64_C(1700000000) * SECOND_NS)

static void check_templates(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int at; /* of the error; -1: none */
    } rows[] = {
        {"", -1},
        {"wait {retry_after} s", -1},
        {"{policy}{limit}{remaining}{cost}{retry_after}{retry_after_ms}{reset_after}{reset_at}",
         -1},
        {"{\"error\":{\"code\":1,\"wait\":{retry_after}}}", -1},
        {"{} {{limit}} { limit } {Limit} {1} {", -1},
        {"{limit", -1},
        {"body{color:red}", -1},
        {"a {retry} b", 2},
        {"{limit}{limits}", 7},
        {"{{x}}", 1},
        {"{_}", 0},
        {"{az}", 0},
        {"{a`}{a{b}", 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t at = 4711;
        const char *error = weir_denial_body_check(rows[i].text, strlen(rows[i].text), &at);
        assert_int_equal(error != NULL, rows[i].at >= 0);
        if (error) {
            assert_int_equal(at, rows[i].at);
            assert_string_equal(error, "unknown placeholder");
        }
    }
    size_t at;
    assert_string_equal(weir_denial_body_check("a\0b", 3, &at), "a NUL byte");
    assert_int_equal(at, 1);
    assert_string_equal(weir_denial_body_placeholder(0), "policy");
    assert_string_equal(weir_denial_body_placeholder(7), "reset_at");
    assert_null(weir_denial_body_placeholder(8));
}

/* Each field of a decision is a placeholder; a denial has no use for two of them. */
static void check_fields(void **unused)
{
    (void)unused;
    size_t at;
#define CHECK(id, kind, name)                                                                      \
    if (WEIR_FIELD_##id != WEIR_FIELD_ALLOWED && WEIR_FIELD_##id != WEIR_FIELD_DELAY)              \
        assert_null(weir_denial_body_check("{" #name "}", strlen("{" #name "}"), &at));
    WEIR_DECISION_LIST(CHECK)
#undef CHECK
}

static void check_body(const char *text, const weir_decision *d, const char *name, bool resets,
                       const char *want)
{
    weir_buffer out;
    weir_buffer_init(&out, WEIR_DENIAL_BODY_ROOM);
    weir_answered a = {.name = {name, name ? strlen(name) : 0}, .decision = d, .resets = resets};
    weir_denial_body_put(&out, text, &a, 7, NOW_NS);
    assert_int_equal(weir_buffer_len(&out), strlen(want));
    if (*want)
        assert_memory_equal(weir_buffer_data(&out), want, strlen(want));
    weir_buffer_free(&out);
}

static void check_bodies(void **unused)
{
    (void)unused;
    static const char every[] = "{policy} {limit} {remaining} {cost} {retry_after} "
                                "{retry_after_ms} {reset_after} {reset_at}";
    weir_decision d = {.limit = 10,
                       .remaining = 3,
                       .retry_after_ns = SECOND_NS + 1,
                       .reset_after_ns = 2 * SECOND_NS + 1};
    check_body(every, &d, "api", true, "api 10 3 7 2 1001 3 1700000003");
    check_body(every, &d, NULL, true, "limit 10 3 7 2 1001 3 1700000003");
    check_body(every, &d, "api", false, "api 10 3 7 0 0 0 0");
    d.reset_after_ns = INT64_MAX;
    check_body("{reset_at}", &d, "api", true, "9223372037");
    d.never = true;
    d.retry_after_ns = INT64_MAX;
    check_body(every, &d, "api", true, "api 10 3 7 0 0 0 0");
    check_body("", &d, "api", true, "");
    check_body("none", &d, "api", true, "none");
    check_body("{limit}", &d, "api", true, "10");
    check_body("{\"a\":{\"n\":{limit}}}{", &d, "api", true, "{\"a\":{\"n\":10}}{");
    check_body("{{limit}} {} p{color:red}", &d, "api", true, "{10} {} p{color:red}");
}

/* {retry_after} is that of the header, and {retry_after_ms} is exact. */
static void check_spread(void **unused)
{
    (void)unused;
    static const char text[] = "{retry_after} {retry_after_ms} {reset_after} {reset_at}";
    static const char want[] = "9 6000 45 1700000045";
    const weir_decision d = {
        .limit = 10, .retry_after_ns = 6 * SECOND_NS, .reset_after_ns = 30 * SECOND_NS};
    const weir_answered a = {
        .name = {"api", 3}, .decision = &d, .resets = true, .key = {"alice", 5}, .spread = 100};
    weir_buffer out;
    weir_buffer_init(&out, WEIR_DENIAL_BODY_ROOM);
    weir_denial_body_put(&out, text, &a, 1, NOW_NS);
    assert_int_equal(weir_buffer_len(&out), strlen(want));
    assert_memory_equal(weir_buffer_data(&out), want, strlen(want));
    weir_buffer_free(&out);
}

/* No template becomes longer than WEIR_DENIAL_BODY_ROOM: checked for each placeholder. */
static void check_longest(void **unused)
{
    (void)unused;
    char *text = malloc(WEIR_DENIAL_BODY_MAX + 1), name[WEIR_RATELIMIT_NAME_MAX];
    assert_non_null(text);
    memset(name, 'n', sizeof name);
    for (size_t i = 0; weir_denial_body_placeholder(i); i++) {
        const char *word = weir_denial_body_placeholder(i);
        size_t len = 0, word_len = strlen(word);
        while (len + word_len + 2 <= WEIR_DENIAL_BODY_MAX) {
            text[len] = '{';
            memcpy(text + len + 1, word, word_len);
            text[len + word_len + 1] = '}';
            len += word_len + 2;
        }
        text[len] = '\0';
        size_t at;
        assert_null(weir_denial_body_check(text, len, &at));
        weir_decision d = {.limit = INT64_MAX,
                           .remaining = INT64_MAX,
                           .retry_after_ns = INT64_MAX,
                           .reset_after_ns = INT64_MAX};
        weir_answered a = {.name = {name, sizeof name}, .decision = &d, .resets = true};
        weir_buffer out;
        weir_buffer_init(&out, WEIR_DENIAL_BODY_ROOM);
        weir_denial_body_put(&out, text, &a, INT64_MAX, INT64_MAX);
        assert_false(out.failed);
        weir_buffer_free(&out);
    }
    memset(text, 'x', WEIR_DENIAL_BODY_MAX + 1);
    size_t at;
    assert_null(weir_denial_body_check(text, WEIR_DENIAL_BODY_MAX, &at));
    at = 1;
    assert_string_equal(weir_denial_body_check(text, WEIR_DENIAL_BODY_MAX + 1, &at),
                        "longer than 16384 bytes");
    assert_int_equal(at, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_templates), cmocka_unit_test(check_fields),
        cmocka_unit_test(check_bodies),    cmocka_unit_test(check_longest),
        cmocka_unit_test(check_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
