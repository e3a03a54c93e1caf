/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Planning: the keys of states, lengths at their limits, and how many requests are decided
 * together. */

#include "kit_test.h"

static const weir_rls_options plain;

#define PER_DAY(n) .has_limit = true, .requests_per_unit = (n), .unit = WEIR_RLS_DAY

/* ---- keys ------------------------------------------------------------------------------------ */

/* Writes a text with a backslash before '|', '\' and one more byte. */
static size_t escape(char *to, const char *text, size_t len, char also)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '|' || text[i] == '\\' || text[i] == also)
            to[n++] = '\\';
        to[n++] = text[i];
    }
    to[n] = '\0';
    return n;
}

/* Each special byte is escaped, wherever it is in a value of any length. */
static void values_are_escaped(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", PER_DAY(1)};
    activate_one(&plain, &spec, 1);
    for (size_t len = 1; len < 26; len++) {
        for (size_t i = 0; i < 2 * len; i++) {
            char value[32], key[64] = "k=";
            memset(value, 'v', len);
            value[i / 2] = i % 2 ? '|' : '\\';
            kit_request r;
            add(begin(&r, "d", 0), "k=v");
            r.entry[0].value = (weir_slice){value, len};
            assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OK);
            escape(key + 2, value, len, '|');
            assert_int_equal(left("d.k", key, now_ns), 0);
        }
    }
}

/* In the name of an entry, '=' is escaped too. Names come from requests with limits of their own,
 * and from patterns. */
static void names_are_escaped(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", .value = "*", PER_DAY(1)};
    activate_one(&plain, &spec, 1);
    for (size_t len = 2; len < 26; len++) {
        for (size_t i = 6; i < 3 * len; i++) {
            char name[32], key[64];
            memset(name, 'n', len);
            memcpy(name, "a_", 2);
            name[i / 3] = "|\\="[i % 3];
            kit_request r;
            add(begin(&r, "d", 0), "k=v");
            r.entry[0].key = (weir_slice){name, len};
            assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OK);
            size_t n = escape(key, name, len, '=');
            snprintf(key + n, sizeof key - n, "=v");
            const weir_rule_spec *rule;
            size_t rules;
            rule = weir_rls_config_rules(weir_rls_loop_config(loop), &rules);
            assert_int_equal(left(rule[0].name, key, now_ns), 0);
        }
    }
}

/* Limits of requests count by domain. A pattern with a shared threshold, in a descriptor before,
 * does not matter for them. */
static void limits_of_requests_have_keys_of_their_own(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "s", .value = "x*", .share_threshold = true, PER_DAY(9)};
    const weir_rls_domain_spec domains[] = {{"d", false, &spec, 1}, {"e", false, &spec, 1}};
    activate(&plain, domains, 2);
    static const char *const values[] = {"k=1", "k=2"};
    for (size_t i = 0; i < 4; i++) {
        kit_request r;
        add(begin(&r, i % 2 ? "e" : "d", 0), "s=x1");
        weir_rls_descriptor *d = add(&r, values[i / 2]);
        d->has_override = true;
        d->override = (weir_rls_override){1, WEIR_RLS_DAY};
        assert_int_equal(decide(&r, now_ns).statuses[1].code, WEIR_RLS_OK);
        assert_int_equal(decide(&r, now_ns).statuses[1].code, WEIR_RLS_OVER_LIMIT);
    }
}

/* Nor is a domain a part of the name of an entry. */
static void domains_are_not_ambiguous(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", PER_DAY(9)};
    const weir_rls_domain_spec domains[] = {{"d", false, &spec, 1}, {"de", false, &spec, 1}};
    static const char *const rows[][2] = {{"d", "ek=1"}, {"de", "k=1"}};
    activate(&plain, domains, 2);
    for (size_t i = 0; i < 2; i++) {
        kit_request r;
        weir_rls_descriptor *d = add(begin(&r, rows[i][0], 0), rows[i][1]);
        d->has_override = true;
        d->override = (weir_rls_override){1, WEIR_RLS_DAY};
        assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OK);
    }
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* Descriptors are refused from 65536 bytes on, with two for each entry, even without a limit. */
static void long_descriptors_are_refused(void **unused)
{
    (void)unused;
    static char text[RLS_DESCRIPTOR_MAX];
    const weir_rls_spec spec = {.key = "k", PER_DAY(5)};
    activate_one(&plain, &spec, 1);
    memset(text, 'v', sizeof text);
    for (size_t over = 0; over < 2; over++) {
        kit_request r;
        add(begin(&r, "d", 0), "k=v");
        add(&r, "none=v|other=w|k=v");
        size_t others = 3 * 2 + strlen("nonevotherkv"); /* bytes without the long value */
        r.entry[2].value = (weir_slice){text, RLS_DESCRIPTOR_MAX - others + over};
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.failure, over ? WEIR_RLS_REFUSED : WEIR_RLS_ANSWERED);
        assert_string_equal(over ? response.why : "a descriptor has more than 65535 bytes",
                            "a descriptor has more than 65535 bytes");
    }
}

/* The keys of a request share a megabyte. One that needs more is refused, and others are not. */
static void long_requests_are_refused(void **unused)
{
    (void)unused;
    static char text[17000];
    const weir_rls_spec spec = {.key = "k", PER_DAY(100)};
    activate_one(&plain, &spec, 1);
    memset(text, 'v', sizeof text);
    kit_request r[3];
    weir_rls_request list[3];
    weir_rls_response got[3];
    for (int i = 0; i < 3; i++) {
        begin(&r[i], "d", 0);
        for (int k = 0; k < (i == 1 ? 64 : 1); k++) {
            add(&r[i], "k=v");
            if (i == 1)
                r[i].entry[k].value = (weir_slice){text, sizeof text};
        }
        list[i] = r[i].request;
    }
    assert_int_equal(weir_rls_decide(loop, &wait, list, 3, got, now_ns), 1);
    assert_int_equal(got[0].statuses[0].remaining, 99);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 1, 2, got + 1, now_ns), 2);
    assert_int_equal(got[1].failure, WEIR_RLS_REFUSED);
    assert_string_equal(got[1].why, "the descriptors of the request are too long");
    assert_int_equal(got[2].statuses[0].remaining, 98);
}

/* A pattern that stands for a value counts with its own length. */
static void long_patterns_are_refused(void **unused)
{
    (void)unused;
    static char pattern[20000 + 1];
    memset(pattern, '*', sizeof pattern - 1);
    const weir_rls_spec spec = {
        .key = "k", .value = pattern, .share_threshold = true, PER_DAY(100)};
    activate_one(&plain, &spec, 1);
    kit_request r;
    begin(&r, "d", 0);
    for (size_t n = 1; n <= 64; n++)
        add(&r, "k=v");
    r.request.descriptors_len = 32;
    assert_int_equal(decide(&r, now_ns).statuses[31].remaining, 100 - 32);
    r.request.descriptors_len = 64;
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.failure, WEIR_RLS_REFUSED);
    assert_string_equal(response.why, "the descriptors of the request are too long");
}

/* The names of statistics have at most 1024 bytes, with a margin for limits of requests. */
static void names_of_overrides_are_bounded(void **unused)
{
    (void)unused;
    static char value[RLS_STAT_MAX];
    const weir_rls_spec spec = {.key = "k", PER_DAY(5)};
    activate_one(&plain, &spec, 1);
    memset(value, 'v', sizeof value);
    for (size_t over = 0; over < 2; over++) {
        kit_request r;
        char name[RLS_STAT_MAX + 64];
        weir_rls_descriptor *d = add(begin(&r, "d", 3), "k=v");
        size_t len = RLS_STAT_MAX - strlen("d.k") - 2 + over;
        d->has_override = true;
        d->override = (weir_rls_override){9, WEIR_RLS_DAY};
        r.entry[0].value = (weir_slice){value, len};
        decide(&r, now_ns);
        snprintf(name, sizeof name, "rate_limit.d.k_%.*s.total_hits", (int)len, value);
        assert_int_equal(stat(name), over ? UINT64_MAX : 3);
        assert_int_equal(stat("rate_limit.(others).total_hits"), over ? 3 : UINT64_MAX);
    }
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 2), NULL);
    d->has_override = true;
    d->override = (weir_rls_override){9, WEIR_RLS_DAY};
    assert_int_equal(decide(&r, now_ns).statuses[0].remaining, 7);
    assert_int_equal(stat("rate_limit.d..total_hits"), 2);
    d = add(begin(&r, "d", 2), "a=|b=2|=3");
    d->has_override = true;
    d->override = (weir_rls_override){9, WEIR_RLS_DAY};
    decide(&r, now_ns);
    assert_int_equal(stat("rate_limit.d.a.b_2._3.total_hits"), 2);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Decides n requests with some descriptors each, and expects in how many steps.
 *  own  the descriptors have limits of their own. */
static void expect_steps(size_t n, size_t descriptors, uint32_t hits, bool own, size_t steps)
{
    static kit_request r[100];
    static weir_rls_request list[100];
    static weir_rls_response got[100];
    const weir_rls_spec spec = {.key = "k", PER_DAY(100000)};
    static uint32_t unit_of_test = 50000;
    activate_one(&plain, &spec, 1);
    unit_of_test++; /* another count for each test */
    int64_t before = left("d.k", "k=v", now_ns);
    for (size_t i = 0; i < n; i++) {
        begin(&r[i], "d", hits);
        for (size_t k = 0; k < descriptors; k++) {
            weir_rls_descriptor *d = add(&r[i], "k=v");
            d->has_override = own;
            d->override = (weir_rls_override){unit_of_test, WEIR_RLS_DAY};
        }
        list[i] = r[i].request;
    }
    size_t done = 0;
    for (; done < n; steps--) {
        size_t decided = weir_rls_decide(loop, &wait, list + done, n - done, got, now_ns);
        assert_in_range(decided, 1, 64);
        for (size_t i = 0; i < decided; i++) {
            assert_int_equal(got[i].failure, WEIR_RLS_ANSWERED);
            for (size_t k = 0; k < descriptors; k++) {
                uint32_t used = (uint32_t)((done + i) * descriptors + k + 1) * hits;
                assert_int_equal(got[i].statuses[k].remaining,
                                 (own ? unit_of_test : (uint32_t)before) - used);
            }
        }
        done += decided;
    }
    assert_int_equal(steps, 0);
}

/* A group has at most 64 requests to the service, 256 descriptors and 64 own limits. A request of
 * several hits needs two. */
static void requests_are_decided_in_groups(void **unused)
{
    (void)unused;
    expect_steps(64, 1, 1, false, 1);
    expect_steps(65, 1, 1, false, 2);
    expect_steps(21, 3, 1, false, 1);
    expect_steps(22, 3, 1, false, 2);
    expect_steps(64, 3, 1, false, 4);
    expect_steps(32, 1, 2, false, 1);
    expect_steps(33, 1, 2, false, 2);
    expect_steps(2, 40, 1, false, 2);
    expect_steps(64, 1, 1, true, 1);
    expect_steps(3, 40, 1, true, 3);
    expect_steps(1, 64, 2, false, 1);
}

/* Descriptors without a limit need no request to the service, but a place. */
static void descriptors_without_limits_take_places(void **unused)
{
    (void)unused;
    static kit_request r[5];
    weir_rls_request list[5];
    weir_rls_response got[5];
    const weir_rls_spec spec = {.key = "k", PER_DAY(9)};
    activate_one(&plain, &spec, 1);
    for (size_t i = 0; i < 5; i++) {
        begin(&r[i], "d", 0);
        for (size_t k = 0; k < 64; k++)
            add(&r[i], "none=v");
        list[i] = r[i].request;
    }
    assert_int_equal(weir_rls_decide(loop, &wait, list, 5, got, now_ns), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(got[i].statuses_len, 64);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(values_are_escaped),
        TEST(names_are_escaped),
        TEST(limits_of_requests_have_keys_of_their_own),
        TEST(domains_are_not_ambiguous),
        TEST(long_descriptors_are_refused),
        TEST(long_patterns_are_refused),
        TEST(long_requests_are_refused),
        TEST(names_of_overrides_are_bounded),
        TEST(requests_are_decided_in_groups),
        TEST(descriptors_without_limits_take_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
