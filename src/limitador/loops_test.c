/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The counts of namespaces, and the list of counters. */

#include "kit_test.h"

#include <inttypes.h>

/* ---- counts and counters --------------------------------------------------------------------- */

typedef struct texts {
    char all[2048];
} texts;

static void put_count(void *ctx, const weir_limitador_count *c)
{
    texts *t = ctx;
    size_t at = strlen(t->all);
    snprintf(t->all + at, sizeof t->all - at, "%.*s %" PRIu64 " %" PRIu64 " %" PRIu64 ";",
             (int)c->name_space.len, c->name_space.at, c->authorized_calls, c->authorized_hits,
             c->limited_calls);
}

static const char *counts(void)
{
    static texts t;
    t.all[0] = '\0';
    weir_limitador_counts(shared, put_count, &t);
    return t.all;
}

static void test_counts(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(5, 60)};
    const weir_rls_request other = {.domain = text_of("a")};
    (void)unused;
    USE(limits);
    assert_string_equal(counts(), "");
    TAKES(alice, 3, "10");
    CHECKS(alice, 3, "0");
    CHECKS(alice, 1, "1");
    REPORTS(alice, 7, "1");
    assert_string_equal(counts(), "ns 2 10 2;");
    weir_limitador_loop *second = weir_limitador_loop_open(shared, service);
    assert_true(weir_limitador_decide(second, NULL, &other, &response, at_ns));
    assert_true(weir_limitador_decide(loop, NULL, &other, &response, at_ns));
    assert_string_equal(counts(), "a 2 2 0;ns 2 10 2;");
    TAKES(alice, 9, "0");
    const weir_limitador_request too_much = {
        .name_space = text_of("ns"), .delta = 9, .counted = true};
    assert_true(weir_limitador_take(second, NULL, &too_much, &response, at_ns));
    assert_string_equal(counts(), "a 2 2 0;ns 2 10 4;");
    weir_limitador_loop_close(loop); /* the loops may be closed in any order */
    loop = second;
    assert_string_equal(counts(), "a 1 1 0;ns 0 0 1;");
}

static void decide_in(const char *name_space, size_t len)
{
    const weir_rls_request r = {.domain = {name_space, len}};
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
}

/* A name is before those that it begins. */
static void test_order_of_namespaces(void **unused)
{
    static const char *const names[] = {"ba", "bab", "b", "a", "bb", "abc"};
    (void)unused;
    for (size_t i = 0; i < 6; i++)
        decide_in(names[i], strlen(names[i]));
    assert_string_equal(counts(), "a 1 1 0;abc 1 1 0;b 1 1 0;ba 1 1 0;bab 1 1 0;bb 1 1 0;");
}

/* A name of more than 256 bytes is counted with the others. */
static void test_long_namespaces(void **unused)
{
    char name[WEIR_LIMITADOR_NAME_MAX + 2], expected[WEIR_LIMITADOR_NAME_MAX + 64];
    (void)unused;
    memset(name, 'n', sizeof name);
    decide_in(name, WEIR_LIMITADOR_NAME_MAX);
    decide_in(name, WEIR_LIMITADOR_NAME_MAX + 1);
    snprintf(expected, sizeof expected, "(others) 1 1 0;%.*s 1 1 0;", WEIR_LIMITADOR_NAME_MAX,
             name);
    assert_string_equal(counts(), expected);
}

/* Namespaces come from clients, so their number is bounded. */
static void test_many_namespaces(void **unused)
{
    char name[16];
    (void)unused;
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "n%04d", i);
        const weir_rls_request r = {.domain = text_of(name)};
        assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    }
    const weir_rls_request first = {.domain = text_of("n0000")};
    assert_true(weir_limitador_decide(loop, NULL, &first, &response, at_ns));
    assert_memory_equal(counts(), "(others) 100 100 0;n0000 2 2 0;n0001 1 1 0;", 43);
}

static void put_counter(void *ctx, const weir_limitador_counter *c)
{
    texts *t = ctx;
    size_t at = strlen(t->all);
    assert_true(c->has_state);
    at += (size_t)snprintf(t->all + at, sizeof t->all - at, "%s %" PRIu64 " %" PRId64,
                           c->limit->rule, c->remaining, c->expires_ns / s_ns);
    for (size_t i = 0; i < c->limit->limit.variables_len; i++)
        at += (size_t)snprintf(t->all + at, sizeof t->all - at, " %zu[%.*s]", c->values[i].len,
                               (int)c->values[i].len, c->values[i].at);
    snprintf(t->all + at, sizeof t->all - at, ";");
}

static void list(int64_t when_ns, texts *t)
{
    weir_buffer kept;
    weir_buffer_init(&kept, 1 << 20);
    assert_true(weir_limitador_counters(loop, NULL, &kept, text_of("ns"), when_ns, put_counter, t));
    assert_false(kept.failed);
    weir_buffer_free(&kept);
}

static void test_counters(void **unused)
{
    static texts t;
    const char *const both[] = {"descriptors[0].user", "descriptors[0].method"};
    const weir_rls_entry odd[] = {ENTRY("user", "a|b\\"), ENTRY("method", "")};
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(3, 50, both), limit_of(9, 70)};
    (void)unused;
    limits[0].name = "all";
    limits[1].name = "user";
    limits[1].variables_len = 2;
    limits[2].name_space = "other";
    USE(limits);
    list(at_ns, &t);
    assert_string_equal(t.all, "");
    TAKES(alice, 3, "10");
    TAKES(odd, 1, "1");
    list(at_ns + s_ns, &t);
    assert_string_equal(t.all,
                        "ns:all 5 59;ns:user 0 49 3[GET] 5[alice];ns:user 2 49 0[] 4[a|b\\];");
}

static const char *counters(void)
{
    static texts t;
    t.all[0] = '\0';
    list(at_ns, &t);
    return t.all;
}

static const char *const by_user[] = {"descriptors[0].user"};

/* Charges a key of the limit "user", whatever its variables are. */
static void charge(const char *key, size_t len, int64_t cost)
{
    weir_request r = {.rule = text_of("ns:user"), .key = {key, len}, .cost = cost};
    assert_true(weir_service_take(service, NULL, &r, 1, at_ns));
    assert_int_equal(r.status, WEIR_OK);
}

/* Values are empty, of one byte, or end with an escape that escapes nothing. */
static void test_values_of_counters(void **unused)
{
    weir_limitador_limit limits[] = {limit_by(9, 60, by_user)};
    (void)unused;
    limits[0].name = "user";
    USE(limits);
    charge("\\", 1, 4);
    charge("x", 1, 3);
    charge("a\\", 2, 2);
    charge("\\|", 2, 1);
    assert_string_equal(counters(), "ns:user 5 60 0[];ns:user 6 60 1[x];ns:user 7 60 2[a\\];"
                                    "ns:user 8 60 1[|];");
}

/* Keys of another number of values, such as those of earlier variables, are not listed. */
static void test_other_variables(void **unused)
{
    const char *const both[] = {"descriptors[0].user", "descriptors[0].method"};
    weir_limitador_limit limits[] = {limit_by(9, 60, both)};
    (void)unused;
    limits[0].name = "user";
    limits[0].variables_len = 2;
    USE(limits);
    charge("1", 1, 1);
    charge("1|2", 3, 2);
    charge("1|2|3", 5, 3);
    charge("1|2|3|4", 7, 4);
    assert_string_equal(counters(), "ns:user 7 60 1[1] 1[2];");
    limits[0].variables_len = 1;
    USE(limits);
    assert_string_equal(counters(), "ns:user 8 60 1[1];");
}

/* A full counter has 0 left, even if max_value is larger than a counter can count. */
static void test_large_limits(void **unused)
{
    weir_limitador_limit limits[] = {limit_by(UINT64_MAX, 60, by_user)};
    (void)unused;
    limits[0].name = "user";
    USE(limits);
    charge("a", 1, WEIR_LIMIT_MAX - 1);
    charge("b", 1, WEIR_LIMIT_MAX);
    assert_string_equal(counters(), "ns:user 0 60 1[b];ns:user 18446744071562067969 60 1[a];");
}

/* A longer key than those that the lists of top keys keep is not listed. */
static void test_long_counters(void **unused)
{
    char key[WEIR_TOP_TEXT_MAX + 1], expected[WEIR_TOP_TEXT_MAX + 64];
    weir_limitador_limit limits[] = {limit_by(9, 60, by_user)};
    (void)unused;
    limits[0].name = "user";
    USE(limits);
    memset(key, 'k', sizeof key);
    charge(key, sizeof key, 1);
    charge(key, sizeof key - 1, 2);
    snprintf(expected, sizeof expected, "ns:user 7 60 128[%.128s];", key);
    assert_string_equal(counters(), expected);
}

/* A counter is listed if it is a top key by what was allowed, or by what was denied. */
static void test_denied_counters(void **unused)
{
    weir_limitador_limit limits[] = {limit_by(9, 60, by_user)};
    char text[16];
    (void)unused;
    limits[0].name = "user";
    USE(limits);
    charge("alice", 5, 1);
    charge("alice", 5, 20);
    charge("bob", 3, 1);
    charge("bob", 3, 10);
    for (int i = 0; i < 64; i++) {
        snprintf(text, sizeof text, "%d", i);
        charge(text, strlen(text), 9);
    }
    const char *found = counters();
    assert_non_null(strstr(found, "ns:user 8 60 5[alice];"));
    assert_non_null(strstr(found, "ns:user 8 60 3[bob];"));
    assert_non_null(strstr(found, "ns:user 0 60 2[63];"));
}

/* The counters are those of the active limits, also if no request was decided by them yet. */
static void test_counters_after_a_reload(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_of(0, 60), limit_by(0, 61, by_user)};
    (void)unused;
    limits[0].name = "all";
    use(limits, 1);
    TAKES(alice, 1, "1");
    USE(limits);
    assert_string_equal(counters(), "ns:all 8 60;");
    use(limits, 0);
    assert_string_equal(counters(), "");
}

/* Without top keys, only counters of limits without variables are known. */
static void test_counters_without_top_keys(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(9, 60, by_user)};
    (void)unused;
    weir_limitador_loop_close(loop);
    weir_service_close(service);
    weir_limiter_close(limiter);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    loop = weir_limitador_loop_open(shared, service);
    limits[0].name = "all";
    limits[1].name = "user";
    USE(limits);
    TAKES(alice, 2, "1");
    assert_string_equal(counters(), "ns:all 7 60;");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_counts),
        TEST(test_order_of_namespaces),
        TEST(test_long_namespaces),
        TEST(test_many_namespaces),
        TEST(test_counters),
        TEST(test_values_of_counters),
        TEST(test_other_variables),
        TEST(test_long_counters),
        TEST(test_large_limits),
        TEST(test_denied_counters),
        TEST(test_counters_after_a_reload),
        TEST(test_counters_without_top_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
