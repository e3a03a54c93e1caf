/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Metrics: every line is valid for Prometheus, and the values are those that were counted. */

#include "codec/answer/metrics.h"
#include "service/top/top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weir_store *store;

static char *metrics_after(void (*use)(weir_limiter *h, weir_service *s))
{
    weir_limiter *limiter;
    weir_service *service;
    assert_int_equal(weir_store_open(&store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    use(limiter, service);
    weir_buffer out;
    weir_buffer_init(&out, 1 << 20);
    weir_metrics_put(&out, limiter, "1.\"2\\3\n", NULL);
    weir_buffer_append(&out, "", 1);
    assert_false(out.failed);
    char *text = strdup((char *)weir_buffer_data(&out));
    weir_buffer_free(&out);
    weir_service_close(service);
    weir_limiter_close(limiter);
    weir_store_close(store);
    return text;
}

static void take(weir_service *s, const char *rule, const char *key, int64_t cost)
{
    weir_request ask = {.rule = {rule, strlen(rule)}, .key = {key, strlen(key)}, .cost = cost};
    assert_true(weir_service_take(s, NULL, &ask, 1, 1767225600000000000));
}

static void use_it(weir_limiter *h, weir_service *s)
{
    static const char *const root = "root", *const evil = "evil";
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "api";
    spec.limit = "fixed-window 2/m";
    spec.allow = &root;
    spec.allow_len = 1;
    spec.deny = &evil;
    spec.deny_len = 1;
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, store, NULL, &spec, 1), WEIR_OK);
    weir_limiter_set_rules(h, rules);
    take(s, "api", "alice", 1);
    take(s, "api", "alice", 1);
    weir_service_latency(s, 100);
    take(s, "api", "alice", 1);
    weir_service_latency(s, 300);
    take(s, "api", "root", 1);
    take(s, "api", "evil", 1);
    weir_service_latency(s, INT64_C(5000000000));
}

static void expect(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    if (!at || (at > text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line %s in\n%s", line, text);
}

static void check_values(void **state)
{
    (void)state;
    char *text = metrics_after(use_it);
    expect(text, "weir_build_info{version=\"1.\\\"2\\\\3\\n\"} 1");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"allowed\"} 2");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"denied\"} 1");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"shadowed\"} 0");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"allow_listed\"} 1");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"deny_listed\"} 1");
    expect(text, "weir_decisions_total{policy=\"api\",verdict=\"failed\"} 0");
    expect(text, "weir_decision_duration_seconds_bucket{le=\"0.000000128\"} 2");
    expect(text, "weir_decision_duration_seconds_bucket{le=\"0.000000256\"} 2");
    expect(text, "weir_decision_duration_seconds_bucket{le=\"0.000000512\"} 3");
    expect(text, "weir_decision_duration_seconds_bucket{le=\"0.536870912\"} 3");
    assert_null(strstr(text, "weir_decision_duration_seconds_bucket{le=\"1.073741824\"}"));
    expect(text, "weir_decision_duration_seconds_bucket{le=\"+Inf\"} 5");
    expect(text, "weir_decision_duration_seconds_sum 10.000000500");
    expect(text, "weir_decision_duration_seconds_count 5");
    expect(text, "weir_store_keys 1");
    expect(text, "weir_store_evicted_total 0");
    expect(text, "weir_store_refused_total 0");
    expect(text, "weir_store_damaged_total 0");
    expect(text, "weir_store_sync_failures_total 0");
    expect(text, "weir_store_reservations 0");
    expect(text, "# TYPE weir_clock_offset_seconds gauge");
    expect(text, "weir_clock_offset_seconds 0.000000000");
    expect(text, "weir_clock_steps_total 0");
    expect(text, "weir_clock_jumps_total 0");
    expect(text, "# TYPE weir_decisions_total counter");
    expect(text, "# TYPE weir_decision_duration_seconds histogram");
    free(text);
}

/* ---- fakes ----------------------------------------------------------------------------------- */

static bool faking; /* different numbers, instead of those of the limiter */

weir_store_stats __wrap_weir_limiter_store_stats(weir_limiter *l);
weir_store_stats __real_weir_limiter_store_stats(weir_limiter *l);
weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l);
weir_clock_view __real_weir_limiter_clock(weir_limiter *l);
void __wrap_weir_limiter_counts(weir_limiter *l,
                                void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                                void *ctx);
void __real_weir_limiter_counts(weir_limiter *l,
                                void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                                void *ctx);

weir_store_stats __wrap_weir_limiter_store_stats(weir_limiter *l)
{
    static const weir_store_stats fake = {.keys = 11,
                                          .memory_bytes = 12,
                                          .evicted = 13,
                                          .memory_max = 14,
                                          .large_keys = 15,
                                          .large_bytes = 16,
                                          .large_max = 17,
                                          .refused = 18,
                                          .damaged = 19,
                                          .reserved = 20,
                                          .syncs_failed = 21};
    return faking ? fake : __real_weir_limiter_store_stats(l);
}

weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l)
{
    static const weir_clock_view fake = {.offset_ns = -1500000002, .steps = 22, .step_ns = 23};
    return faking ? fake : __real_weir_limiter_clock(l);
}

void __wrap_weir_limiter_counts(weir_limiter *l,
                                void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                                void *ctx)
{
    static const weir_counts fake = {.allowed = 31,
                                     .denied = 32,
                                     .shadowed = 33,
                                     .allow_listed = 34,
                                     .deny_listed = 35,
                                     .unreached = 36,
                                     .failed = 37};
    if (faking)
        fn(ctx, "p", &fake);
    else
        __real_weir_limiter_counts(l, fn, ctx);
}

/* Each metric has its own number. */
static void check_numbers(void **state)
{
    static const char *const lines[] = {
        "weir_store_keys 11",
        "weir_store_memory_bytes 12",
        "weir_store_evicted_total 13",
        "weir_store_memory_max_bytes 14",
        "weir_store_refused_total 18",
        "weir_store_damaged_total 19",
        "weir_store_reservations 20",
        "weir_store_sync_failures_total 21",
        "weir_clock_offset_seconds -1.500000002",
        "weir_clock_steps_total 22",
        "weir_decisions_total{policy=\"p\",verdict=\"allowed\"} 31",
        "weir_decisions_total{policy=\"p\",verdict=\"denied\"} 32",
        "weir_decisions_total{policy=\"p\",verdict=\"shadowed\"} 33",
        "weir_decisions_total{policy=\"p\",verdict=\"allow_listed\"} 34",
        "weir_decisions_total{policy=\"p\",verdict=\"deny_listed\"} 35",
        "weir_decisions_total{policy=\"p\",verdict=\"unreached\"} 36",
        "weir_decisions_total{policy=\"p\",verdict=\"failed\"} 37",
    };
    (void)state;
    faking = true;
    char *text = metrics_after(use_it);
    faking = false;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect(text, lines[i]);
    free(text);
}

/* Each line is a comment or a sample of the metric in the last TYPE line. */
static void check_form(void **state)
{
    (void)state;
    char *text = metrics_after(use_it), name[64] = "?", *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# TYPE ", 7) == 0)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(line + 7, " "), line + 7);
        else if (line[0] != '#')
            assert_memory_equal(line, name, strlen(name));
    }
    free(text);
}

/* Keys chosen by clients: each is a distinct label on a line of its own. */
static void check_keys(void **state)
{
    (void)state;
    const weir_top_options options = {20, 1 << 20};
    static char longest[2][300];
    weir_limiter *limiter;
    weir_service *service;
    memset(longest, 'x', sizeof longest);
    longest[0][298] = longest[1][299] = '\0';
    assert_int_equal(weir_store_open(&store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_enable_top(limiter, &options), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "fixed-window 9/m", NULL), WEIR_OK);
    const char *keys[] = {"a\"b\nc", "\xFF", "\\xFF", "\xE2\x82\xAC", longest[0], longest[1]};
    for (size_t i = 0; i < 6; i++)
        take(service, "api", keys[i], (int64_t)i + 1);
    take(service, "api", "x", 10);
    take(service, "gcra 1/s", "t", 1); /* an unknown policy has no top keys */
    weir_request by_text = {
        .rule = {"gcra 1/s", 8}, .by_text = true, .key = {"text", 4}, .cost = 1};
    assert_true(weir_service_take(service, NULL, &by_text, 1, 1767225600000000000));
    weir_throttle_result result;
    assert_true(weir_service_throttle(service, NULL, &(weir_throttle){9, 1, 1, 1},
                                      (weir_slice){"thr", 3}, 1767225600000000000, &result));
    weir_buffer out;
    weir_buffer_init(&out, 1 << 20);
    weir_metrics_put_top(&out, service, 1767225600000000000, NULL);
    weir_buffer_append(&out, "", 1);
    const char *text = (const char *)weir_buffer_data(&out);
    expect(text, "# TYPE weir_top_cost gauge");
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"allowed\",key=\"a\\\"b\\\\x0Ac\"} 1");
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"allowed\",key=\"\\\\xFF\"} 2");
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"allowed\",key=\"\\\\x5CxFF\"} 3");
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"allowed\",key=\"\xE2\x82\xAC\"} 4");
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"denied\",key=\"x\"} 10");
    expect(text, "weir_top_cost{policy=\"(texts)\",verdict=\"allowed\",key=\"text\"} 1");
    expect(text, "weir_top_cost{policy=\"(throttle)\",verdict=\"allowed\",key=\"thr\"} 1");
    assert_non_null(strstr(text, "x\\\\... 298 bytes #"));
    assert_non_null(strstr(text, "x\\\\... 299 bytes #"));
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 2 + 9);
    weir_buffer_free(&out);
    weir_service_close(service);
    weir_limiter_close(limiter);
    weir_store_close(store);
}

/* The weir_top_cost lines after requests for the keys, of which `listed` are tracked. */
static char *top_after(size_t listed, const char *const *keys, size_t n)
{
    const weir_top_options options = {listed, 1 << 20};
    weir_limiter *limiter;
    weir_service *service;
    assert_int_equal(weir_store_open(&store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_enable_top(limiter, &options), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "fixed-window 99/m", NULL), WEIR_OK);
    for (size_t i = 0; i < n; i++)
        take(service, "api", keys[i], 1);
    weir_buffer out;
    weir_buffer_init(&out, 1 << 20);
    weir_metrics_put_top(&out, service, 1767225600000000000, NULL);
    weir_buffer_append(&out, "", 1);
    char *text = strdup((const char *)weir_buffer_data(&out));
    weir_buffer_free(&out);
    weir_service_close(service);
    weir_limiter_close(limiter);
    weir_store_close(store);
    return text;
}

/* A key that ends within a character is escaped, also if a longer key was printed before it. */
static void check_key_cut(void **state)
{
    static const char *const keys[] = {"a\xC3\xA9", "a\xC3"};
    (void)state;
    char *text = top_after(1, keys, 2);
    expect(text, "weir_top_cost{policy=\"api\",verdict=\"allowed\",key=\"a\\\\xC3\"} 2");
    free(text);
}

/* The first ten keys of each list are printed. */
static void check_ten_keys(void **state)
{
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    (void)state;
    char *text = top_after(20, keys, 12);
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "verdict=\"allowed\"")); at++)
        n++;
    assert_int_equal(n, WEIR_TOP_K);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_values),  cmocka_unit_test(check_numbers),
        cmocka_unit_test(check_form),    cmocka_unit_test(check_keys),
        cmocka_unit_test(check_key_cut), cmocka_unit_test(check_ten_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
