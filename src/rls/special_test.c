/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests that need several calls of the service: atomic ones, negative hits, and reports. */

#include "kit_test.h"

static const weir_rls_options plain;

#define LIMIT(n, u) .has_limit = true, .requests_per_unit = (n), .unit = (u)

/* ---- atomic requests ------------------------------------------------------------------------- */

/* Decides "a=v" and "b=v" with a number of hits, and returns the overall code.
 *  left_a, left_b  what must remain; UINT32_MAX: that status is over the limit. */
static void expect_both(uint32_t hits, weir_rls_code code, uint32_t left_a, uint32_t left_b)
{
    kit_request r;
    add(begin(&r, "d", hits), "a=v");
    add(&r, "b=v");
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    assert_int_equal(response.code, code);
    const uint32_t left_of[] = {left_a, left_b};
    for (int i = 0; i < 2; i++) {
        bool over = left_of[i] == UINT32_MAX;
        assert_int_equal(response.statuses[i].code, over ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK);
        assert_int_equal(response.statuses[i].remaining, over ? 0 : left_of[i]);
    }
}

static void an_atomic_request_is_charged_as_a_whole(void **unused)
{
    (void)unused;
    weir_rls_spec specs[] = {{.key = "a", LIMIT(10, WEIR_RLS_DAY)},
                             {.key = "b", LIMIT(3, WEIR_RLS_DAY)}};
    const weir_rls_domain_spec domain = {"d", true, specs, 2};
    activate(&plain, &domain, 1);
    expect_both(2, WEIR_RLS_OK, 8, 1);
    expect_both(2, WEIR_RLS_OVER_LIMIT, 8, UINT32_MAX);
    expect_both(1, WEIR_RLS_OK, 7, 0);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 3); /* without the two that b denied */
    assert_int_equal(stat("rate_limit.d.a.within_limit"), 3);
    assert_int_equal(stat("rate_limit.d.b.total_hits"), 5);
    assert_int_equal(stat("rate_limit.d.b.over_limit"), 2);
    assert_int_equal(stat("rate_limit.d.b.within_limit"), 3);
    specs[1].atomic = true; /* one of the limits is enough */
    activate_one(&plain, specs, 2);
    expect_both(1, WEIR_RLS_OVER_LIMIT, 7, UINT32_MAX);
    specs[1].atomic = false;
    forget();
    activate_one(&plain, specs, 2);
    expect_both(1, WEIR_RLS_OK, 9, 2);
    expect_both(3, WEIR_RLS_OVER_LIMIT, 6, UINT32_MAX);
    activate_one(&(weir_rls_options){.stop_when_over = true}, specs, 2);
    expect_both(1, WEIR_RLS_OVER_LIMIT, 6, UINT32_MAX);
}

/* A limit of 0 denies the whole, one in shadow_mode does not, and one in quota_mode is charged only
 * if the others allow the request. */
static void special_limits_in_atomic_requests(void **unused)
{
    (void)unused;
    weir_rls_spec specs[] = {{.key = "a", LIMIT(10, WEIR_RLS_DAY)},
                             {.key = "b", LIMIT(0, WEIR_RLS_DAY)}};
    weir_rls_domain_spec domain = {"d", true, specs, 2};
    activate(&plain, &domain, 1);
    expect_both(2, WEIR_RLS_OVER_LIMIT, 10, UINT32_MAX);
    specs[1].shadow_mode = true;
    activate(&plain, &domain, 1);
    expect_both(2, WEIR_RLS_OK, 8, 0);
    specs[1].requests_per_unit = 3;
    activate(&plain, &domain, 1);
    expect_both(2, WEIR_RLS_OK, 6, 1);
    expect_both(2, WEIR_RLS_OK, 4, 0);
    assert_int_equal(stat("rate_limit.d.b.shadow_mode"), 2 + 1);
    specs[1].shadow_mode = false;
    specs[0].quota_mode = true;
    activate(&plain, &domain, 1);
    expect_both(2, WEIR_RLS_OVER_LIMIT, 4, UINT32_MAX);
    expect_both(1, WEIR_RLS_OK, 3, 0);
    specs[1].requests_per_unit = 9;
    activate(&plain, &domain, 1);                       /* b keeps the 3 that it counted */
    expect_both(4, WEIR_RLS_OVER_LIMIT, UINT32_MAX, 6); /* all quotas are over: they deny */
    expect_both(3, WEIR_RLS_OK, 0, 3);
}

/* Hits of a denied atomic request count at the limits that denied it, and nowhere as near or within
 * a limit: none of them was made. */
static void a_denied_atomic_request_makes_no_hits(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(10, WEIR_RLS_DAY)},
                                   {.key = "b", LIMIT(8, WEIR_RLS_DAY)},
                                   {.key = "s", .shadow_mode = true, LIMIT(0, WEIR_RLS_DAY)}};
    const weir_rls_domain_spec domain = {"d", true, specs, 3};
    activate(&plain, &domain, 1);
    expect_both(7, WEIR_RLS_OK, 3, 1);
    expect_both(2, WEIR_RLS_OVER_LIMIT, 3, UINT32_MAX); /* a would have reached 9 */
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 7);
    assert_int_equal(stat("rate_limit.d.a.near_limit"), 0);
    assert_int_equal(stat("rate_limit.d.a.within_limit"), 7);
    assert_int_equal(stat("rate_limit.d.b.near_limit"), 1); /* of the first request */
    assert_int_equal(stat("rate_limit.d.b.over_limit"), 2);
    kit_request r;
    add(begin(&r, "d", 2), "b=v");
    add(&r, "s=v");
    assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(stat("rate_limit.d.s.total_hits"), 0);
    const weir_rls_spec other[] = {{.key = "a", LIMIT(10, WEIR_RLS_HOUR)},
                                   {.key = "b", LIMIT(0, WEIR_RLS_HOUR)}};
    const weir_rls_domain_spec zero = {"e", true, other, 2};
    activate(&plain, &zero, 1);
    add(begin(&r, "e", 9), "a=v");
    add(&r, "b=v");
    assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(stat("rate_limit.e.a.total_hits"), 0);
    assert_int_equal(stat("rate_limit.e.a.near_limit"), 0);
    assert_int_equal(stat("rate_limit.e.b.over_limit"), 9);
}

/* A descriptor of 0 hits denies an atomic request if its limit is used up: nothing is charged,
 * whatever the order of the descriptors is. */
static void a_peek_denies_an_atomic_request(void **unused)
{
    static const struct {
        weir_rls_spec peeked, charged;
        uint32_t used; /* of the peeked limit, before */
        weir_rls_code code;
        uint32_t left;
    } rows[] = {
        {{LIMIT(2, WEIR_RLS_DAY)}, {LIMIT(9, WEIR_RLS_DAY)}, 2, WEIR_RLS_OVER_LIMIT, 9},
        {{LIMIT(2, WEIR_RLS_HOUR)}, {LIMIT(9, WEIR_RLS_HOUR)}, 0, WEIR_RLS_OK, 8},
        {{LIMIT(2, WEIR_RLS_MINUTE)},
         {LIMIT(9, WEIR_RLS_MINUTE)},
         1, /* one is left */
         WEIR_RLS_OK,
         8},
        {{LIMIT(0, WEIR_RLS_HOUR)}, {LIMIT(8, WEIR_RLS_HOUR)}, 0, WEIR_RLS_OVER_LIMIT, 8},
        {{.shadow_mode = true, LIMIT(2, WEIR_RLS_WEEK)},
         {LIMIT(9, WEIR_RLS_WEEK)},
         2,
         WEIR_RLS_OK,
         8},
        {{.quota_mode = true, LIMIT(2, WEIR_RLS_MONTH)},
         {LIMIT(9, WEIR_RLS_MONTH)},
         2,
         WEIR_RLS_OVER_LIMIT,
         9},
        {{.quota_mode = true, LIMIT(2, WEIR_RLS_YEAR)},
         {.quota_mode = true, LIMIT(9, WEIR_RLS_YEAR)},
         2,
         WEIR_RLS_OK,
         8},
        {{.has_limit = true, .policy = "gcra 2/h burst 2"},
         {.has_limit = true, .policy = "gcra 9/h burst 9"},
         2,
         WEIR_RLS_OVER_LIMIT,
         9},
    };
    (void)unused;
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        weir_rls_spec specs[] = {rows[i / 2].peeked, rows[i / 2].charged};
        specs[0].key = "p";
        specs[1].key = "c";
        const weir_rls_domain_spec domain = {"d", true, specs, 2};
        forget();
        activate(&plain, &domain, 1);
        const char *key = i % 2 ? "1" : "2";
        char peeked[8], charged[8];
        snprintf(peeked, sizeof peeked, "p=%s", key);
        snprintf(charged, sizeof charged, "c=%s", key);
        if (rows[i / 2].used > 0)
            ask("d", peeked, rows[i / 2].used, now_ns);
        kit_request r;
        begin(&r, "d", 1);
        for (size_t k = 0; k < 2; k++) {
            weir_rls_descriptor *d = add(&r, k == i % 2 ? peeked : charged);
            d->has_hits = k == i % 2; /* 0 */
        }
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.code, rows[i / 2].code);
        assert_int_equal(response.statuses[1 - i % 2].remaining, rows[i / 2].left);
        kit_request after;
        add(begin(&after, "d", 1), charged)->has_hits = true;
        assert_int_equal(decide(&after, now_ns).statuses[0].remaining, rows[i / 2].left);
    }
}

/* Limits in quota_mode deny an atomic request if all of them are over, and then nothing is charged.
 * Whatever the order of the descriptors is. */
static void quotas_in_atomic_requests(void **unused)
{
    enum { OVER = UINT32_MAX };
    static const struct {
        weir_rls_spec quota, other;
        uint32_t hits;
        weir_rls_code code;
        uint32_t left_quota, left_other;
    } rows[] = {
        {{.quota_mode = true, LIMIT(0, WEIR_RLS_DAY)},
         {LIMIT(3, WEIR_RLS_DAY)},
         1,
         WEIR_RLS_OVER_LIMIT,
         OVER,
         3},
        {{.quota_mode = true, LIMIT(1, WEIR_RLS_HOUR)},
         {LIMIT(5, WEIR_RLS_HOUR)},
         2,
         WEIR_RLS_OVER_LIMIT,
         OVER,
         5},
        {{.quota_mode = true, .shadow_mode = true, LIMIT(1, WEIR_RLS_WEEK)},
         {LIMIT(5, WEIR_RLS_WEEK)},
         2,
         WEIR_RLS_OK,
         0,
         3},
        {{.quota_mode = true, .shadow_mode = true, LIMIT(0, WEIR_RLS_WEEK)},
         {LIMIT(6, WEIR_RLS_WEEK)},
         2,
         WEIR_RLS_OK,
         0,
         4},
        {{.quota_mode = true, LIMIT(1, WEIR_RLS_MONTH)},
         {.quota_mode = true, LIMIT(9, WEIR_RLS_MONTH)},
         2,
         WEIR_RLS_OK,
         OVER,
         7},
        {{LIMIT(0, WEIR_RLS_YEAR)}, {LIMIT(9, WEIR_RLS_YEAR)}, 2, WEIR_RLS_OVER_LIMIT, OVER, 9},
    };
    (void)unused;
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        bool swapped = i % 2;
        weir_rls_spec specs[] = {rows[i / 2].quota, rows[i / 2].other};
        specs[0].key = swapped ? "b" : "a";
        specs[1].key = swapped ? "a" : "b";
        const weir_rls_domain_spec domain = {"d", true, specs, 2};
        uint32_t quota = rows[i / 2].left_quota, other = rows[i / 2].left_other;
        forget();
        activate(&plain, &domain, 1);
        expect_both(rows[i / 2].hits, rows[i / 2].code, swapped ? other : quota,
                    swapped ? quota : other);
    }
}

/* With PEEKS_ALLOW, a peek denies an atomic request only if its limit was exceeded, which an atomic
 * limit never is. */
static void a_peek_may_let_an_atomic_request_pass(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "p", LIMIT(1, WEIR_RLS_DAY)},
                                   {.key = "c", .atomic = true, LIMIT(9, WEIR_RLS_DAY)},
                                   {.key = "q", .atomic = true, LIMIT(1, WEIR_RLS_DAY)}};
    activate_one(&(weir_rls_options){.peeks = WEIR_RLS_PEEKS_ALLOW}, specs, 3);
    for (uint32_t used = 1; used < 3; used++) {
        ask("d", "p=v", 1, now_ns);
        ask("d", "q=v", 1, now_ns);
        kit_request r;
        begin(&r, "d", 1);
        add(&r, "p=v")->has_hits = true;
        add(&r, "q=v")->has_hits = true;
        add(&r, "c=v");
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.code, used == 1 ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
        assert_int_equal(response.statuses[0].code, response.code);
        assert_int_equal(response.statuses[1].code, WEIR_RLS_OK);
        assert_int_equal(response.statuses[2].remaining, 8);
    }
}

/* A quota is over from the hit on that exceeds it. */
static void a_quota_is_over_by_one_hit(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", .quota_mode = true, LIMIT(1, WEIR_RLS_DAY)},
                                   {.key = "b", LIMIT(5, WEIR_RLS_DAY)}};
    const weir_rls_domain_spec domain = {"d", true, specs, 2};
    activate(&plain, &domain, 1);
    expect_both(1, WEIR_RLS_OK, 0, 4);
    expect_both(1, WEIR_RLS_OVER_LIMIT, UINT32_MAX, 4);
}

/* Only limits count as quotas; with the option quota_mode, descriptors without a limit do too. */
static void descriptors_that_are_no_quotas(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "free", .has_limit = true, .unlimited = true},
                                   {.key = "a", .quota_mode = true, LIMIT(1, WEIR_RLS_DAY)},
                                   {.key = "b", LIMIT(5, WEIR_RLS_DAY)}};
    const weir_rls_domain_spec domain = {"d", true, specs, 3};
    for (int all = 0; all < 2; all++) {
        kit_request r;
        activate(&(weir_rls_options){.quota_mode = all == 1}, &domain, 1);
        begin(&r, "d", 2);
        add(&r, "free=v");
        add(&r, "none=v");
        add(&r, "a=v");
        add(&r, "b=v");
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.code, all ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
        assert_int_equal(response.statuses[2].code, WEIR_RLS_OVER_LIMIT);
        assert_int_equal(response.statuses[3].remaining, all ? 3 : 5);
    }
}

static void an_atomic_request_has_at_most_16_limits(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", LIMIT(100, WEIR_RLS_DAY)};
    const weir_rls_domain_spec domain = {"d", true, &spec, 1};
    activate(&plain, &domain, 1);
    kit_request r;
    begin(&r, "d", 0);
    for (int i = 0; i < 16; i++)
        add(&r, "a=v");
    assert_int_equal(decide(&r, now_ns).statuses[15].remaining, 84);
    add(&r, "a=v");
    assert_string_equal(refusal_of(&r),
                        "the request has more than 16 limits, which cannot be decided atomically");
    activate_one(&plain, &spec, 1);
    assert_int_equal(decide(&r, now_ns).statuses[16].remaining, 100 - 16 - 17);
}

/* ---- negative hits, and other verbs ---------------------------------------------------------- */

static void negative_hits_are_given_back(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(10, WEIR_RLS_DAY)},
                                   {.key = "b", LIMIT(3, WEIR_RLS_DAY)}};
    activate_one(&(weir_rls_options){.stop_when_over = true}, specs, 2);
    expect_both(3, WEIR_RLS_OK, 7, 0);
    kit_request r;
    add(begin(&r, "d", 2), "a=v");
    add(&r, "b=v")->negative = true;
    weir_rls_response response = decide(&r, now_ns);
    expect_status(response.statuses[0], WEIR_RLS_OK, 5, 86400);
    expect_status(response.statuses[1], WEIR_RLS_OK, 2, 86400);
    assert_int_equal(stat("rate_limit.d.b.total_hits"), 3);
    r.descriptor[1].negative = false;
    decide(&r, now_ns);
    r.descriptor[0].negative = true;
    response = decide(&r, now_ns); /* b is charged alone, and is over */
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    expect_status(response.statuses[0], WEIR_RLS_OK, 5, 86400);
}

/* Without an atomic limit, each descriptor is charged by itself, whatever is given back. */
static void negative_hits_beside_others(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "g", .has_limit = true, .policy = "fixed-window 5/d"},
        {.key = "h", .has_limit = true, .policy = "fixed-window 3/d"},
        {.key = "q", .quota_mode = true, .has_limit = true, .policy = "fixed-window 9/d"},
        {.key = "k", LIMIT(7, WEIR_RLS_DAY)}};
    activate_one(&plain, specs, 4);
    ask("d", "g=v", 3, now_ns);
    kit_request r;
    add(begin(&r, "d", 4), "h=v");
    weir_rls_descriptor *d = add(&r, "g=v");
    d->negative = d->has_hits = true;
    d->hits = 2;
    add(&r, "q=v");
    add(&r, "k=v");
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    expect_status(response.statuses[0], WEIR_RLS_OVER_LIMIT, 0, 86400);
    expect_status(response.statuses[1], WEIR_RLS_OK, 4, 86400);
    expect_status(response.statuses[2], WEIR_RLS_OK, 5, 86400);
    expect_status(response.statuses[3], WEIR_RLS_OK, 3, 86400);
    assert_int_equal(left("d.h", "h=v", now_ns), 3);
}

/* Each limit answers a report by itself, and is charged all of it. */
static void a_report_to_several_limits(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "a", LIMIT(10, WEIR_RLS_DAY)},
        {.key = "zero", LIMIT(0, WEIR_RLS_DAY)},
        {.key = "g", .has_limit = true, .policy = "fixed-window 5/d"},
        {.key = "h", .has_limit = true, .policy = "fixed-window 9/d"},
        {.key = "s", .shadow_mode = true, .has_limit = true, .policy = "fixed-window 6/d"}};
    activate_one(&plain, specs, 5);
    ask("d", "h=1", 3, now_ns);
    kit_request r;
    add(begin(&r, "d", 7), "none=v");
    add(&r, "zero=v");
    weir_rls_descriptor *d = add(&r, "h=1");
    d->negative = d->has_hits = true;
    d->hits = 1;
    add(&r, "a=v");
    add(&r, "g=v");
    add(&r, "h=v");
    add(&r, "s=v");
    add(&r, "g=w");
    r.request.verb = WEIR_RLS_REPORT;
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.code, WEIR_RLS_OK);
    assert_false(response.statuses[0].has_limit);
    expect_status(response.statuses[1], WEIR_RLS_OVER_LIMIT, 0, 86400);
    expect_status(response.statuses[2], WEIR_RLS_OK, 7, 86400);
    expect_status(response.statuses[3], WEIR_RLS_OK, 3, 86400);
    expect_status(response.statuses[4], WEIR_RLS_OVER_LIMIT, 0, 86400);
    expect_status(response.statuses[5], WEIR_RLS_OK, 2, 86400);
    expect_status(response.statuses[6], WEIR_RLS_OK, 0, 86400);
    expect_status(response.statuses[7], WEIR_RLS_OVER_LIMIT, 0, 86400);
    assert_int_equal(left("d.g", "g=v", now_ns), 0);
    assert_int_equal(left("d.h", "h=v", now_ns), 2);
    assert_int_equal(left("d.s", "s=v", now_ns), 0);
    assert_int_equal(left("d.g", "g=w", now_ns), 0);
    const int64_t next_ns = now_ns + 86400 * s_ns;
    assert_int_equal(left("d.g", "g=w", next_ns), 5);
}

static weir_rls_status look(const char *descriptor, int64_t at_ns)
{
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 1), descriptor);
    d->has_hits = true;
    weir_rls_response response = decide(&r, at_ns);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    return response.statuses[0];
}

/* Late hits are charged, whether they fit or not, and are over the limit only if nothing was left
 * before. Other limits of the request, also atomic ones, are decided as always. */
static void late_hits_are_charged(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "l", .late = true, .has_limit = true, .policy = "token-bucket 5 refill 1/h"},
        {.key = "m", .late = true, LIMIT(5, WEIR_RLS_DAY)},
        {.key = "p", .atomic = true, .has_limit = true, .policy = "fixed-window 5/d"}};
    activate_one(&plain, specs, 3);
    expect_status(ask("d", "l=v", 3, now_ns), WEIR_RLS_OK, 2, 3 * 3600);
    expect_status(ask("d", "l=v", 4, now_ns), WEIR_RLS_OK, 0, 2 * 3600); /* 2 are owed */
    expect_status(look("l=v", now_ns), WEIR_RLS_OVER_LIMIT, 0, 2 * 3600);
    expect_status(ask("d", "l=v", 1, now_ns), WEIR_RLS_OVER_LIMIT, 0, 3 * 3600);
    assert_int_equal(look("l=v", now_ns + 3600 * 4 * s_ns - 1).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(look("l=v", now_ns + 3600 * 4 * s_ns).code, WEIR_RLS_OK);
    assert_int_equal(stat("rate_limit.d.l.total_hits"), 8);
    assert_int_equal(stat("rate_limit.d.l.over_limit"), 3);
    assert_int_equal(stat("rate_limit.d.l.within_limit"), 3);
    assert_int_equal(ask("d", "m=v", 9, now_ns).code, WEIR_RLS_OK);
    assert_int_equal(ask("d", "m=v", 1, now_ns).code, WEIR_RLS_OVER_LIMIT);
    kit_request r;
    add(begin(&r, "d", 4), "l=w");
    add(&r, "p=v");
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.code, WEIR_RLS_OK);
    response = decide(&r, now_ns); /* the atomic limit denies */
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(response.statuses[0].code, WEIR_RLS_OK);
    assert_int_equal(response.statuses[1].code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(left("d.p", "p=v", now_ns), 1);
    assert_int_equal(look("l=w", now_ns).code, WEIR_RLS_OVER_LIMIT);
}

typedef struct noted {
    size_t calls;
    char policy[16];
    weir_rls_not_charged last;
} noted;

static void note(void *ctx, const weir_rls_not_charged *of)
{
    noted *n = ctx;
    n->calls++;
    n->last = *of;
    snprintf(n->policy, sizeof n->policy, "%.*s", (int)of->policy.len, of->policy.at);
}

static noted not_charged(size_t most)
{
    noted n = {0};
    size_t calls = weir_rls_each_not_charged(rls, most, note, &n);
    assert_int_equal(calls, n.calls);
    return n;
}

/* A request of several hits that is denied without a charge is noted, if units are left or it never
 * fits. */
static void denied_hits_are_noted(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "t", .has_limit = true, .policy = "token-bucket 5 refill 1/h"},
        {.key = "l", .late = true, .has_limit = true, .policy = "token-bucket 5 refill 1/h"},
        {.key = "m", LIMIT(5, WEIR_RLS_DAY)},
        {.key = "s", .shadow_mode = true, .has_limit = true, .policy = "fixed-window 5/d"},
        {.key = "w", .has_limit = true, .policy = "fixed-window 5/d"}};
    assert_int_equal(not_charged(9).calls, 0); /* there is no configuration */
    activate_one(&plain, specs, 5);
    ask("d", "t=v", 4, now_ns);
    assert_int_equal(not_charged(9).calls, 0);
    ask("d", "t=v", 2, now_ns);
    ask("d", "t=v", 3, now_ns);
    noted n = not_charged(9);
    assert_int_equal(n.calls, 1);
    assert_string_equal(n.policy, "d.t");
    assert_true(n.last.requests == 2 && n.last.hits == 3 && n.last.left == 1);
    assert_int_equal(not_charged(9).calls, 0);
    ask("d", "t=v", 1, now_ns);
    ask("d", "t=v", 1, now_ns); /* one hit */
    ask("d", "t=v", 5, now_ns); /* nothing is left */
    assert_int_equal(not_charged(9).calls, 0);
    ask("d", "t=v", 6, now_ns); /* never fits */
    n = not_charged(9);
    assert_true(n.last.requests == 1 && n.last.hits == 6 && n.last.left == 0);
    ask("d", "l=v", 9, now_ns);
    ask("d", "l=v", 9, now_ns);
    ask("d", "m=v", 9, now_ns);
    ask("d", "s=v", 9, now_ns);
    by_verb(WEIR_RLS_CHECK, "w=v", 9);
    by_verb(WEIR_RLS_REPORT, "t=w", 9);
    assert_int_equal(not_charged(9).calls, 0);
    kit_request r;
    add(begin(&r, "d", 1), "w=v");
    r.descriptor[0].has_hits = true;
    r.descriptor[0].hits = UINT64_MAX;
    decide(&r, now_ns);
    ask("d", "t=v", 7, now_ns);
    assert_int_equal(not_charged(0).calls, 0);
    assert_string_equal(not_charged(1).policy, "d.t");
    n = not_charged(1);
    assert_string_equal(n.policy, "d.w");
    assert_true(n.last.hits == UINT32_MAX && n.last.left == 5);
}

/* Only limits of files with a state are named in the log. */
static void other_denied_hits_are_not_noted(void **unused)
{
    (void)unused;
    const weir_rls_spec none = {.key = "z", LIMIT(0, WEIR_RLS_DAY)};
    activate_one(&(weir_rls_options){.stop_when_over = true}, &none, 1);
    assert_int_equal(ask("d", "z=v", 2, now_ns).code, WEIR_RLS_OVER_LIMIT);
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 9), "z=v");
    d->has_override = true;
    d->override = (weir_rls_override){5, WEIR_RLS_DAY};
    weir_rls_response response = decide(&r, now_ns);
    expect_status(response.statuses[0], WEIR_RLS_OVER_LIMIT, 0, 86400);
    assert_int_equal(not_charged(9).calls, 0);
}

/* Hits keep units for others, and so do peeks; a charge and a refund do not. Others may take what
 * is kept. */
static void hits_keep_units(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "k", .keep = 2, .has_limit = true, .policy = "token-bucket 10 refill 1/h"},
        {.key = "a", .keep = WEIR_KEEP_PERCENT(50), .atomic = true, LIMIT(10, WEIR_RLS_DAY)},
        {.key = "l",
         .keep = 4,
         .late = true,
         .has_limit = true,
         .policy = "token-bucket 10 refill 1/h"},
        {.key = "n", .keep = 10, .has_limit = true, .policy = "fixed-window 10/d"}};
    activate_one(&plain, specs, 4);
    expect_status(ask("d", "k=v", 7, now_ns), WEIR_RLS_OK, 1, 7 * 3600);
    expect_status(ask("d", "k=v", 2, now_ns), WEIR_RLS_OVER_LIMIT, 0, 3600);
    expect_status(look("k=v", now_ns), WEIR_RLS_OK, 1, 7 * 3600);
    expect_status(ask("d", "k=v", 1, now_ns), WEIR_RLS_OK, 0, 8 * 3600);
    assert_int_equal(look("k=v", now_ns).code, WEIR_RLS_OVER_LIMIT); /* 2 are left */
    assert_int_equal(left("d.k", "k=v", now_ns), 2);
    assert_int_equal(stat("rate_limit.d.k.total_hits"), 10);
    assert_int_equal(stat("rate_limit.d.k.over_limit"), 2);
    assert_int_equal(stat("rate_limit.d.k.within_limit"), 8);
    assert_int_equal(stat("rate_limit.d.k.near_limit"), 2); /* above 6, 80 % of 8 */
    weir_rls_status report = by_verb(WEIR_RLS_REPORT, "k=w", 9).statuses[0];
    expect_status(report, WEIR_RLS_OVER_LIMIT, 0, 9 * 3600); /* it takes one of the kept units */
    report = by_verb(WEIR_RLS_REPORT, "k=x", 8).statuses[0];
    expect_status(report, WEIR_RLS_OK, 0, 8 * 3600);
    kit_request back;
    add(begin(&back, "d", 3), "k=v")->negative = true;
    assert_int_equal(decide(&back, now_ns).statuses[0].remaining, 3); /* and 2 are kept */
    assert_int_equal(left("d.k", "k=v", now_ns), 5);
    add(begin(&back, "d", 6), "a=v");
    assert_int_equal(decide(&back, now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(ask("d", "a=v", 5, now_ns).remaining, 0);
    assert_int_equal(ask("d", "a=v", 1, now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(stat("rate_limit.d.a.near_limit"), 1); /* above 4, 80 % of 5 */
    assert_int_equal(left("d.a", "a=v", now_ns), 5);
    expect_status(ask("d", "l=v", 5, now_ns), WEIR_RLS_OK, 1, 5 * 3600);
    assert_int_equal(look("l=v", now_ns).code, WEIR_RLS_OK); /* 5 are left */
    expect_status(ask("d", "l=v", 3, now_ns), WEIR_RLS_OK, 0, 8 * 3600);
    assert_int_equal(left("d.l", "l=v", now_ns), 2); /* late hits take what is kept */
    assert_int_equal(look("l=v", now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(ask("d", "l=v", 1, now_ns).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(left("d.l", "l=v", now_ns), 1);
    assert_int_equal(stat("rate_limit.d.l.over_limit"), 3); /* two of three, and the last one */
    expect_status(ask("d", "n=v", 1, now_ns), WEIR_RLS_OVER_LIMIT, 0, 86400);
    assert_int_equal(stat("rate_limit.d.n.over_limit"), 1);
    assert_int_equal(left("d.n", "n=v", now_ns), 10);
}

static void a_check_charges_nothing_and_a_report_always(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(5, WEIR_RLS_DAY)},
                                   {.key = "g", .has_limit = true, .policy = "fixed-window 5/d"}};
    activate_one(&plain, specs, 2);
    static const char *const rows[] = {"a=v", "g=v"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(by_verb(WEIR_RLS_CHECK, rows[i], 5).code, WEIR_RLS_OK);
        assert_int_equal(by_verb(WEIR_RLS_CHECK, rows[i], 6).code, WEIR_RLS_OVER_LIMIT);
        assert_int_equal(by_verb(WEIR_RLS_REPORT, rows[i], 2).statuses[0].remaining, 3);
        assert_int_equal(by_verb(WEIR_RLS_CHECK, rows[i], 4).code, WEIR_RLS_OVER_LIMIT);
        assert_int_equal(by_verb(WEIR_RLS_CHECK, rows[i], 3).code, WEIR_RLS_OK);
        assert_int_equal(by_verb(WEIR_RLS_REPORT, rows[i], 4).code, WEIR_RLS_OK);
        assert_int_equal(by_verb(WEIR_RLS_CHECK, rows[i], 1).code, WEIR_RLS_OVER_LIMIT);
    }
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 6);
    assert_int_equal(stat("rate_limit.d.g.total_hits"), 6);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_atomic_request_is_charged_as_a_whole),
        TEST(special_limits_in_atomic_requests),
        TEST(a_denied_atomic_request_makes_no_hits),
        TEST(a_peek_denies_an_atomic_request),
        TEST(a_peek_may_let_an_atomic_request_pass),
        TEST(quotas_in_atomic_requests),
        TEST(a_quota_is_over_by_one_hit),
        TEST(descriptors_that_are_no_quotas),
        TEST(an_atomic_request_has_at_most_16_limits),
        TEST(negative_hits_are_given_back),
        TEST(negative_hits_beside_others),
        TEST(late_hits_are_charged),
        TEST(hits_keep_units),
        TEST(denied_hits_are_noted),
        TEST(other_denied_hits_are_not_noted),
        TEST(a_report_to_several_limits),
        TEST(a_check_charges_nothing_and_a_report_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
