/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The header traceparent, by the rules of W3C Trace Context, and the notes about a decision. */

#include "codec/answer/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static bool reads(const char *text)
{
    /* A copy of its length, so that ASan sees a read beyond it. */
    size_t len = strlen(text);
    char *copy = malloc(len + 1);
    weir_trace_parent ignored;
    memcpy(copy, text, len);
    bool good = weir_trace_parent_read((weir_slice){copy, len}, &ignored);
    free(copy);
    return good;
}

static void test_ids(void **state)
{
    static const uint8_t trace_id[16] = {0x0A, 0xF7, 0x65, 0x19, 0x16, 0xCD, 0x43, 0xDD,
                                         0x84, 0x48, 0xEB, 0x21, 0x1C, 0x80, 0x31, 0x9C};
    static const uint8_t span_id[8] = {0xB7, 0xAD, 0x6B, 0x71, 0x69, 0x20, 0x33, 0x31};
    static const char text[] = "00-" TRACE "-" SPAN "-01";
    weir_trace_parent parent;
    (void)state;
    assert_true(weir_trace_parent_read((weir_slice){text, strlen(text)}, &parent));
    assert_memory_equal(parent.trace_id, trace_id, sizeof trace_id);
    assert_memory_equal(parent.span_id, span_id, sizeof span_id);
}

static void test_flags(void **state)
{
    (void)state;
    assert_false(reads("00-" TRACE "-" SPAN "-00"));
    assert_false(reads("00-" TRACE "-" SPAN "-fe"));
    assert_true(reads("00-" TRACE "-" SPAN "-03"));
    assert_true(reads("00-" TRACE "-" SPAN "-ff"));
    assert_true(reads("00-" TRACE "-" SPAN "-a1"));
}

static void test_versions(void **state)
{
    (void)state;
    assert_false(reads("ff-" TRACE "-" SPAN "-01"));
    assert_true(reads("fe-" TRACE "-" SPAN "-01"));
    assert_true(reads("01-" TRACE "-" SPAN "-01"));
    assert_true(reads("cc-" TRACE "-" SPAN "-01-what-comes-later"));
    assert_true(reads("01-" TRACE "-" SPAN "-01-"));
    assert_false(reads("01-" TRACE "-" SPAN "-01."));
    assert_false(reads("00-" TRACE "-" SPAN "-01-"));
    assert_false(reads("00-" TRACE "-" SPAN "-01-later"));
    assert_false(reads("01-" TRACE "-" SPAN "-01, 01-" TRACE "-" SPAN "-01"));
    assert_false(reads("0-" TRACE "-" SPAN "-01x"));
}

static void test_malformed(void **state)
{
    static const char valid[] = "00-" TRACE "-" SPAN "-01";
    char text[sizeof valid];
    (void)state;
    assert_false(reads(""));
    assert_false(reads("00-" TRACE "-" SPAN "-0"));
    assert_false(reads("00-00000000000000000000000000000000-" SPAN "-01"));
    assert_true(reads("00-00000000000000000000000000000001-" SPAN "-01"));
    assert_true(reads("00-10000000000000000000000000000000-" SPAN "-01"));
    assert_false(reads("00-" TRACE "-0000000000000000-01"));
    assert_true(reads("00-" TRACE "-0000000000000001-01"));
    assert_true(reads("00-" TRACE "-1000000000000000-01"));
    for (size_t i = 0; valid[i]; i++) {
        for (const char *bad = "gAF/:`@ _"; *bad; bad++) {
            memcpy(text, valid, sizeof valid);
            text[i] = *bad;
            if (reads(text))
                fail_msg("accepted %s", text);
        }
        memcpy(text, valid, sizeof valid);
        text[i] = text[i] == '-' ? '0' : '-';
        if (reads(text))
            fail_msg("accepted %s", text);
    }
}

static void test_decision(void **state)
{
    const weir_trace_parent parent = {{1}, {2}};
    weir_trace_span span;
    weir_request r = {.rule = {"api", 3}, .reason = WEIR_BY_SHADOW, .decision = {.allowed = true}};
    (void)state;
    memset(&span, 0xFF, sizeof span);
    weir_trace_begin(&span, &parent, 77);
    assert_memory_equal(&span.parent, &parent, sizeof parent);
    assert_int_equal(span.begun_ns, 77);
    assert_null(span.reason);
    assert_string_equal(span.policy, "");
    assert_string_equal(span.context_name, "");
    weir_trace_decide(&span, &r);
    assert_true(span.allowed);
    assert_string_equal(span.reason, "shadow");
    assert_string_equal(span.policy, "api");
    r = (weir_request){.rule = {"gcra 1/s", 8}, .by_text = true, .reason = WEIR_BY_LIMIT};
    weir_trace_decide(&span, &r);
    assert_false(span.allowed);
    assert_string_equal(span.reason, "limit");
    assert_string_equal(span.policy, "(texts)");
}

static void test_other_decision(void **state)
{
    const weir_trace_parent parent = {{1}, {2}};
    char name[WEIR_RULE_NAME_MAX + 2];
    weir_trace_span span;
    (void)state;
    weir_trace_answer(NULL, true);
    weir_trace_in(NULL, "weir.route", (weir_slice){"a", 1});
    weir_trace_begin(&span, &parent, 1);
    weir_trace_answer(&span, true);
    assert_true(span.allowed);
    assert_string_equal(span.reason, "limit");
    weir_trace_answer(&span, false);
    assert_false(span.allowed);
    weir_trace_in(&span, "weir.route", (weir_slice){NULL, 0});
    assert_string_equal(span.context_name, "");
    memset(name, 'x', sizeof name);
    weir_trace_in(&span, "weir.domain", (weir_slice){name, WEIR_RULE_NAME_MAX + 1});
    assert_string_equal(span.context, "weir.domain");
    assert_int_equal(strlen(span.context_name), WEIR_RULE_NAME_MAX);
    weir_trace_in(&span, "weir.domain", (weir_slice){name, WEIR_RULE_NAME_MAX - 1});
    assert_int_equal(strlen(span.context_name), WEIR_RULE_NAME_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),      cmocka_unit_test(test_flags),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_decision), cmocka_unit_test(test_other_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
