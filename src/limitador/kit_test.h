/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_KIT_TEST_H
#define WEIR_LIMITADOR_KIT_TEST_H
/* The fixture of limitador's tests: a limiter with top keys, a loop, limits of the namespace "ns",
 * and requests with the entries of a user. */

#include "limitador/limitador.h"

#include "rls/entry_kit_test.h"
#include "service/kit_test.h"
#include "service/top/top.h"

#include <stdio.h>

#define KIT __attribute__((unused)) static

static weir_limitador *shared;
static weir_limitador_loop *loop;
static int64_t at_ns;

KIT int open_all(void **unused)
{
    const weir_top_options top = {.keys = 16, .memory_bytes = 1 << 20};
    bool good = weir_store_open(&store, NULL) == WEIR_OK &&
                weir_limiter_open(&limiter, store, NULL) == WEIR_OK &&
                weir_limiter_enable_top(limiter, &top) == WEIR_OK &&
                weir_service_open(&service, limiter) == WEIR_OK;
    (void)unused;
    shared = weir_limitador_open();
    loop = weir_limitador_loop_open(shared, service);
    at_ns = now_ns;
    return good && shared && loop ? 0 : -1;
}

KIT int close_all(void **state)
{
    weir_limitador_loop_close(loop);
    weir_limitador_close(shared);
    return teardown(state);
}

/* ---- building -------------------------------------------------------------------------------- */

static weir_limitador_problem problems[8];
static size_t problems_len;

KIT void keep_problem(void *ctx, const weir_limitador_problem *problem)
{
    (void)ctx;
    assert_true(problems_len < 8);
    problems[problems_len++] = *problem;
}

KIT weir_limitador_config *built(const weir_limitador_limit *limits, size_t n)
{
    const weir_limitador_options options = {.headers = true};
    weir_limitador_config *c = NULL;
    problems_len = 0;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, n, keep_problem, NULL),
                     WEIR_OK);
    return c;
}

KIT void use(const weir_limitador_limit *limits, size_t n)
{
    size_t len;
    weir_limitador_config *c = built(limits, n);
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &len);
    set_rules(rules, len);
    weir_limitador_activate(shared, c);
}

#define USE(limits) use(limits, sizeof(limits) / sizeof(limits)[0])

KIT weir_limitador_limit limit_of(uint64_t max, uint64_t seconds)
{
    return (weir_limitador_limit){.name_space = "ns", .max_value = max, .seconds = seconds};
}

KIT weir_limitador_limit limit_by(uint64_t max, uint64_t seconds, const char *const *variable)
{
    weir_limitador_limit l = limit_of(max, seconds);
    l.variables = variable;
    l.variables_len = 1;
    return l;
}

KIT weir_limitador_limit limit_if(uint64_t max, uint64_t seconds, const char *const *condition)
{
    weir_limitador_limit l = limit_of(max, seconds);
    l.conditions = condition;
    l.conditions_len = 1;
    return l;
}

/* ---- asking ---------------------------------------------------------------------------------- */

KIT const weir_rls_entry alice[] = {ENTRY("user", "alice"), ENTRY("method", "GET")};
KIT const weir_rls_entry bob[] = {ENTRY("user", "bob"), ENTRY("method", "POST")};

static weir_rls_response response;

KIT weir_rls_code ask(weir_rls_verb verb, const weir_rls_entry *entries, uint64_t delta)
{
    const weir_rls_descriptor d = {.entries = entries, .entries_len = 2};
    const weir_limitador_request r = {.verb = verb,
                                      .name_space = text_of("ns"),
                                      .descriptors = &d,
                                      .descriptors_len = 1,
                                      .delta = delta,
                                      .headers = verb == WEIR_RLS_CHECK_AND_REPORT,
                                      .counted = true};
    assert_true(weir_limitador_take(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    assert_int_equal(response.statuses_len, 0);
    return response.code;
}

KIT void check_codes(weir_rls_verb verb, const weir_rls_entry *entries, uint64_t delta,
                     const char *expected)
{
    for (; *expected; expected++)
        assert_int_equal(ask(verb, entries, delta),
                         *expected == '1' ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
}

#define TAKES(entries, delta, expected)                                                            \
    check_codes(WEIR_RLS_CHECK_AND_REPORT, entries, delta, expected)
#define CHECKS(entries, delta, expected)  check_codes(WEIR_RLS_CHECK, entries, delta, expected)
#define REPORTS(entries, delta, expected) check_codes(WEIR_RLS_REPORT, entries, delta, expected)

KIT void check_headers(const char *limit, const char *remaining, const char *reset)
{
    assert_int_equal(response.headers_len, 3);
    assert_string_equal(response.headers[0].name, "X-RateLimit-Limit");
    assert_string_equal(response.headers[0].value, limit);
    assert_string_equal(response.headers[1].name, "X-RateLimit-Remaining");
    assert_string_equal(response.headers[1].value, remaining);
    assert_string_equal(response.headers[2].name, "X-RateLimit-Reset");
    assert_string_equal(response.headers[2].value, reset);
}

#endif
