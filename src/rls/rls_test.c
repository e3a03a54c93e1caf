/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions: statuses, overall codes, headers and statistics. model_test.c compares many more
 * with a model; here are the cases that it leaves out, and those where weir differs. */

#include "kit_test.h"

#include "service/rules/answer.h"

static const weir_rls_options plain;

#define LIMIT(n, u) .has_limit = true, .requests_per_unit = (n), .unit = (u)
#define PER(n, u)   LIMIT(n, WEIR_RLS_##u)

/* ---- single limits --------------------------------------------------------------------------- */

static void a_limit_denies_what_is_over_it(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", LIMIT(2, WEIR_RLS_MINUTE)};
    activate_one(&plain, &spec, 1);
    int64_t at_ns = now_ns + 10 * s_ns + 1;
    expect_status(ask("d", "k=v", 0, at_ns), WEIR_RLS_OK, 1, 50);
    expect_status(ask("d", "k=v", 0, at_ns), WEIR_RLS_OK, 0, 50);
    expect_status(ask("d", "k=v", 0, at_ns), WEIR_RLS_OVER_LIMIT, 0, 50);
    weir_rls_status s = ask("d", "k=w", 0, at_ns); /* another value, another count */
    expect_status(s, WEIR_RLS_OK, 1, 50);
    assert_true(s.has_limit);
    assert_int_equal(s.requests_per_unit, 2);
    assert_int_equal(s.unit, WEIR_RLS_MINUTE);
    expect_status(ask("d", "k=v", 0, now_ns + 60 * s_ns - 1), WEIR_RLS_OVER_LIMIT, 0, 1);
    expect_status(ask("d", "k=v", 0, now_ns + 60 * s_ns), WEIR_RLS_OK, 1, 60);
}

/* A request of several hits that is denied counts too, unless denied hits are not counted. */
static void denied_hits_count(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", LIMIT(10, WEIR_RLS_MINUTE)};
    activate_one(&plain, &spec, 1);
    expect_status(ask("d", "k=v", 4, now_ns), WEIR_RLS_OK, 6, 60);
    expect_status(ask("d", "k=v", 7, now_ns), WEIR_RLS_OVER_LIMIT, 0, 60);
    expect_status(ask("d", "k=v", 1, now_ns), WEIR_RLS_OVER_LIMIT, 0, 60);
    activate_one(&(weir_rls_options){.stop_when_over = true}, &spec, 1);
    expect_status(ask("d", "k=w", 4, now_ns), WEIR_RLS_OK, 6, 60);
    expect_status(ask("d", "k=w", 7, now_ns), WEIR_RLS_OVER_LIMIT, 0, 60);
    expect_status(ask("d", "k=w", 6, now_ns), WEIR_RLS_OK, 0, 60);
}

/* A peek is over the limit if nothing is left. The window's end is known without hits. */
static void no_hits_are_a_peek(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", LIMIT(2, WEIR_RLS_HOUR)};
    activate_one(&plain, &spec, 1);
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 5), "k=v");
    d->has_hits = true;
    expect_status(decide(&r, now_ns).statuses[0], WEIR_RLS_OK, 2, 3600);
    ask("d", "k=v", 1, now_ns);
    expect_status(decide(&r, now_ns).statuses[0], WEIR_RLS_OK, 1, 3600);
    ask("d", "k=v", 1, now_ns);
    expect_status(decide(&r, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 3600);
    assert_int_equal(stat("rate_limit.d.k.total_hits"), 2);
}

/* With PEEKS_ALLOW, a peek is over once more hits than the limit were counted. */
static void a_peek_may_need_a_hit_too_many(void **unused)
{
    (void)unused;
    static const weir_rls_options options = {
        .peeks = WEIR_RLS_PEEKS_ALLOW, .headers = true, .exact_reset = true};
    const weir_rls_spec specs[] = {
        {.key = "k", LIMIT(2, WEIR_RLS_MINUTE)},
        {.key = "zero", LIMIT(0, WEIR_RLS_MINUTE)},
        {.key = "most", LIMIT(INT32_MAX, WEIR_RLS_MINUTE)},
        {.key = "own", .has_limit = true, .policy = "fixed-window 2/m count-denied"},
        {.key = "atomic", .atomic = true, LIMIT(2, WEIR_RLS_MINUTE)}};
    activate_one(&options, specs, 5);
    kit_request peek;
    add(begin(&peek, "d", 0), "k=v")->has_hits = true;
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OK, 2, 60);
    expect_status(ask("d", "k=v", 1, now_ns), WEIR_RLS_OK, 1, 60);
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OK, 1, 60);
    expect_status(ask("d", "k=v", 1, now_ns), WEIR_RLS_OK, 0, 60);
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OK, 0, 60);
    weir_rls_status s = ask("d", "k=v", 1, now_ns);
    expect_status(s, WEIR_RLS_OVER_LIMIT, 0, 60);
    assert_int_equal(s.requests_per_unit, 2);
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 60);
    expect_status(ask("d", "k=w", 5, now_ns), WEIR_RLS_OVER_LIMIT, 0, 60);
    expect_status(decide(&peek, now_ns + 60 * s_ns).statuses[0], WEIR_RLS_OK, 2, 60);
    assert_int_equal(stat("rate_limit.d.k.over_limit"), 4);
    assert_int_equal(stat("rate_limit.d.k.near_limit"), 2);
    assert_int_equal(stat("rate_limit.d.k.within_limit"), 2);

    weir_rls_descriptor *d = add(begin(&peek, "d", 0), "k=o");
    d->has_hits = d->has_override = true; /* a limit of the request */
    d->override = (weir_rls_override){1, WEIR_RLS_MINUTE};
    d->hits = 1;
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OK, 0, 60);
    d->hits = 0;
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OK, 0, 60);
    d->hits = 1;
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 60);
    d->hits = 0;
    expect_status(decide(&peek, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 60);

    static const struct {
        const char *descriptor;
        weir_rls_code code;
    } rows[] = {{"zero=v", WEIR_RLS_OVER_LIMIT},
                {"most=v", WEIR_RLS_OK},
                {"own=v", WEIR_RLS_OK},
                {"atomic=v", WEIR_RLS_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ask("d", rows[i].descriptor, INT32_MAX, now_ns);
        ask("d", rows[i].descriptor, 2, now_ns);
        add(begin(&peek, "d", 0), rows[i].descriptor)->has_hits = true;
        assert_int_equal(decide(&peek, now_ns).statuses[0].code, rows[i].code);
    }
}

/* Header fields tell the limit, not the layer above it. */
static void the_layer_above_a_limit_is_not_in_headers(void **unused)
{
    (void)unused;
    static const weir_rls_options options = {.peeks = WEIR_RLS_PEEKS_ALLOW,
                                             .flavours = WEIR_HEADERS_IETF};
    const weir_rls_spec spec = {.key = "k", LIMIT(2, WEIR_RLS_MINUTE)};
    activate_one(&options, &spec, 1);
    for (uint32_t hits = 1; hits < 4; hits++) {
        kit_request r;
        add(begin(&r, "d", hits), "k=v");
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.decided_len, 1);
        const weir_rls_decided *d = response.decided;
        assert_int_equal(d->policy->layers, 1);
        assert_int_equal(d->policy->layer[0].limit, 2);
        assert_int_equal(d->decision->layer, 0);
        assert_int_equal(d->decision->limit, 2);
    }
}

/* The cost of the service has a maximum, which the hits of a descriptor exceed. */
static void numbers_have_no_gaps(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "zero", LIMIT(0, WEIR_RLS_DAY)},
                                   {.key = "max", LIMIT(UINT32_MAX, WEIR_RLS_SECOND)},
                                   {.key = "free", .has_limit = true, .unlimited = true}};
    activate_one(&plain, specs, 3);
    weir_rls_status s = ask("d", "zero=v", 1, now_ns);
    expect_status(s, WEIR_RLS_OVER_LIMIT, 0, 86400);
    assert_true(s.has_limit);
    assert_int_equal(stat("rate_limit.d.zero.over_limit"), 1);
    s = ask("d", "max=v", UINT32_MAX, now_ns);
    expect_status(s, WEIR_RLS_OK, 0, 1);
    assert_int_equal(s.requests_per_unit, UINT32_MAX);
    s = ask("d", "free=v", 1, now_ns);
    expect_status(s, WEIR_RLS_OK, UINT32_MAX, 0);
    assert_false(s.has_limit);
    assert_int_equal(stat("rate_limit.d.free.total_hits"), 0);
    s = ask("d", "none=v", 1, now_ns);
    expect_status(s, WEIR_RLS_OK, 0, 0);
    assert_false(s.has_limit);
}

/* Rounded up, so that nobody comes back too early. */
static void resets_are_exact_if_asked(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", LIMIT(2, WEIR_RLS_MINUTE)};
    activate_one(&(weir_rls_options){.exact_reset = true, .headers = true}, &spec, 1);
    kit_request r;
    add(begin(&r, "d", 0), "k=v");
    weir_rls_response response = decide(&r, now_ns + 1);
    assert_int_equal(response.statuses[0].reset_ns, 60 * s_ns - 1);
    assert_int_equal(response.headers_len, 3);
    assert_string_equal(response.headers[2].value, "60");
}

/* All descriptors with a limit are listed, and one of them represents the request. */
static void decisions_are_listed_for_headers(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(5, WEIR_RLS_MINUTE)},
                                   {.key = "b", LIMIT(2, WEIR_RLS_HOUR)},
                                   {.key = "c", .has_limit = true, .policy = "gcra 1/h burst 9"},
                                   {.key = "zero", LIMIT(0, WEIR_RLS_DAY)}};
    const weir_rls_options options = {
        .flavours = WEIR_HEADERS_IETF, .headers = true, .retry_spread = 10};
    activate_one(&options, specs, 4);
    kit_request r;
    begin(&r, "d", 0);
    add(&r, "none=v");
    add(&r, "a=v");
    add(&r, "b=v");
    add(&r, "c=v");
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.headers_len, 0);
    assert_int_equal(response.flavours, WEIR_HEADERS_IETF);
    assert_int_equal(response.retry_spread, 10);
    assert_int_equal(response.decided_len, 3);
    assert_int_equal(response.decided[1].key.len, 3);
    assert_memory_equal(response.decided[1].key.at, "b=v", 3);
    assert_int_equal(response.shown, 1); /* the least remaining */
    assert_memory_equal(response.decided[1].rule.at, "d.b", 3);
    assert_int_equal(response.decided[0].policy->layer[0].limit, 5);
    assert_int_equal(response.decided[1].policy->layer[0].limit, 2);
    assert_int_equal(response.decided[2].policy->layer[0].algorithm, WEIR_GCRA);
    assert_int_equal(response.decided[1].decision->remaining, 1);
    ask("d", "a=v", 9, now_ns); /* denied from now on; b has less left */
    response = decide(&r, now_ns);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(response.shown, 0);
    begin(&r, "d", 0);
    add(&r, "zero=v");
    response = decide(&r, now_ns);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(response.decided_len, 0);
}

static void expect_headers(const weir_rls_response *response, const char *limit,
                           const char *remaining, const char *reset)
{
    static const char *const names[] = {"RateLimit-Limit", "X-Left", "RateLimit-Reset"};
    const char *const values[] = {limit, remaining, reset};
    assert_int_equal(response->headers_len, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(response->headers[i].name, names[i]);
        assert_string_equal(response->headers[i].value, values[i]);
    }
}

/* The headers are those of a limit that is over, else of that with the least remaining. */
static void headers_show_one_limit(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "a", PER(1, MINUTE)}, {.key = "b", PER(3, HOUR)}, {.key = "c", PER(2, DAY)}};
    activate_one(&(weir_rls_options){.headers = true, .remaining_header = "X-Left"}, specs, 3);
    static const struct {
        const char *descriptors[3];
        uint32_t hits;
        const char *limit, *remaining, *reset;
    } rows[] = {
        {{"b=1", "c=1"}, 1, "2", "1", "86400"},        {{"c=1", "b=1"}, 1, "2", "0", "86400"},
        {{"a=1", "c=1", "b=1"}, 1, "2", "0", "86400"}, /* a has 0 left too, but is not over */
        {{"c=1", "a=2", "b=2"}, 1, "2", "0", "86400"}, {{"a=3", "c=3", "b=3"}, 1, "1", "0", "60"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kit_request r;
        begin(&r, "d", rows[i].hits);
        for (size_t k = 0; k < 3 && rows[i].descriptors[k]; k++)
            add(&r, rows[i].descriptors[k]);
        weir_rls_response response = decide(&r, now_ns);
        expect_headers(&response, rows[i].limit, rows[i].remaining, rows[i].reset);
    }
    kit_request r;
    add(begin(&r, "d", 1), "none=v");
    assert_int_equal(decide(&r, now_ns).headers_len, 0);
}

/* A decision is left out if its rule is gone, or if its policy is not known any more. */
static void decisions_that_are_not_listed(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", PER(5, MINUTE)}, {.key = "b", PER(5, HOUR)}};
    const weir_rls_domain_spec domain = {"d", true, specs, 2};
    const weir_rls_options options = {.flavours = WEIR_HEADERS_IETF};
    activate(&options, &domain, 1);
    kit_request r;
    begin(&r, "d", 1);
    weir_rls_descriptor *d = add(&r, "own=v");
    d->has_override = true;
    d->override = (weir_rls_override){9, WEIR_RLS_DAY};
    add(&r, "a=v");
    add(&r, "b=v");
    weir_rls_response response = decide(&r, now_ns + 5);
    assert_int_equal(response.decided_len, 2);
    assert_memory_equal(response.decided[0].rule.at, "d.a", 3);
    assert_int_equal(response.now_ns, now_ns + 5);
    assert_int_equal(weir_limiter_drop_rule(limiter, "d.a", 3), WEIR_OK);
    response = decide(&r, now_ns);
    assert_int_equal(response.decided_len, 1);
    assert_memory_equal(response.decided[0].rule.at, "d.b", 3);
    r.request.descriptors_len = 1;
    response = decide(&r, now_ns); /* one call decided it: its policy is known */
    assert_int_equal(response.decided_len, 1);
    assert_int_equal(response.decided[0].rule.len, 0);
}

/* With the option shadow_mode, no request is denied; those that would be are counted. */
static void nothing_is_denied_in_shadow_mode(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", PER(1, DAY)};
    activate_one(&(weir_rls_options){.shadow_mode = true}, &spec, 1);
    kit_request r;
    add(begin(&r, "d", 1), "a=v");
    for (uint64_t over = 0; over < 3; over++) {
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.code, WEIR_RLS_OK);
        assert_int_equal(response.statuses[0].code, over > 0 ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK);
        assert_int_equal(stat("global_shadow_mode"), over);
    }
}

/* An unlimited descriptor is no quota that could still be within its limit. */
static void unlimited_descriptors_are_no_quotas(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "free", .has_limit = true, .unlimited = true},
                                   {.key = "a", PER(1, DAY)}};
    activate_one(&(weir_rls_options){.quota_mode = true}, specs, 2);
    kit_request r;
    add(begin(&r, "d", 2), "free=v");
    add(&r, "a=v");
    assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
}

/* Only requests of Envoy's own API are counted as such. */
static void requests_are_counted(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", PER(5, MINUTE)};
    activate_one(&plain, &spec, 1);
    for (int verb = WEIR_RLS_CHECK_AND_REPORT; verb <= WEIR_RLS_REPORT; verb++)
        by_verb((weir_rls_verb)verb, "a=v", 1);
    kit_find f = {.name = "ratelimit_server.ShouldRateLimit.total_requests"};
    weir_rls_each_stat(rls, find_stat, &f);
    assert_true(f.seen);
    assert_int_equal(f.value, 1);
}

static void months_and_years_are_those_of_the_calendar_if_asked(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {
        {.key = "m", LIMIT(2, WEIR_RLS_MONTH)},
        {.key = "y", LIMIT(2, WEIR_RLS_YEAR)},
        {.key = "f", .has_limit = true, .policy = "fixed-window 2/month from 17"}};
    activate_one(&(weir_rls_options){.calendar = true}, specs, 3);
    int64_t day_s = 86400, at_ns = now_ns + 33 * day_s * s_ns; /* 3 February 2026 */
    kit_request r;
    add(begin(&r, "d", 0), "m=v")->has_hits = true;
    expect_status(decide(&r, at_ns).statuses[0], WEIR_RLS_OK, 2, 26 * day_s);
    expect_status(ask("d", "m=v", 2, at_ns), WEIR_RLS_OK, 0, 26 * day_s);
    expect_status(ask("d", "y=v", 2, at_ns), WEIR_RLS_OK, 0, (365 - 33) * day_s);
    add(begin(&r, "d", 0), "f=v")->has_hits = true;
    expect_status(decide(&r, at_ns).statuses[0], WEIR_RLS_OK, 2, 14 * day_s);
    expect_status(ask("d", "f=v", 2, at_ns), WEIR_RLS_OK, 0, 14 * day_s);
    activate_one(&plain, specs, 2);
    int64_t left_s = 30 * day_s - at_ns / s_ns % (30 * day_s);
    expect_status(ask("d", "m=v", 2, at_ns), WEIR_RLS_OK, 0, left_s);
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Any policy decides. Its first layer tells the number and the unit, unless the file does. */
static void a_policy_decides(void **unused)
{
    (void)unused;
    static const struct {
        weir_rls_spec spec;
        uint32_t requests_per_unit;
        weir_rls_unit unit;
        uint32_t allowed; /* at once */
    } rows[] = {
        {{.policy = "gcra 100/m burst 20"}, 100, WEIR_RLS_MINUTE, 20},
        {{.policy = "token-bucket 5 refill 10/h"}, 10, WEIR_RLS_HOUR, 5},
        {{.policy = "sliding-log 3/d"}, 3, WEIR_RLS_DAY, 3},
        {{.policy = "fixed-window 4/month"}, 4, WEIR_RLS_MONTH, 4},
        {{.policy = "sliding-counter 6/7d"}, 6, WEIR_RLS_WEEK, 6},
        {{.policy = "fixed-window 4/day"}, 4, WEIR_RLS_DAY, 4},
        {{.policy = "fixed-window 4/week"}, 4, WEIR_RLS_WEEK, 4},
        {{.policy = "fixed-window 4/year"}, 4, WEIR_RLS_YEAR, 4},
        {{.policy = "gcra 4294967295/s burst 3"}, UINT32_MAX, WEIR_RLS_SECOND, 3},
        {{.policy = "gcra 4294967296/s burst 3"}, 3, WEIR_RLS_UNIT_UNKNOWN, 3},
        {{.policy = "sliding-log 7/90s"}, 7, WEIR_RLS_UNIT_UNKNOWN, 7},
        {{.policy = "sliding-log 3/s & fixed-window 100/d"}, 3, WEIR_RLS_SECOND, 3},
        {{.policy = "gcra 1/s burst 9", LIMIT(55, WEIR_RLS_YEAR)}, 55, WEIR_RLS_YEAR, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_rls_spec spec = rows[i].spec;
        char entry[16]; /* another key a row: a limit that changes keeps what was used */
        snprintf(entry, sizeof entry, "k=%zu", i);
        spec.key = "k";
        spec.has_limit = true;
        activate_one(&plain, &spec, 1);
        for (uint32_t k = 0; k <= rows[i].allowed; k++) {
            weir_rls_status s = ask("d", entry, 0, now_ns);
            assert_int_equal(s.code, k < rows[i].allowed ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
            assert_int_equal(s.remaining, k < rows[i].allowed ? rows[i].allowed - k - 1 : 0);
            assert_int_equal(s.requests_per_unit, rows[i].requests_per_unit);
            assert_int_equal(s.unit, rows[i].unit);
        }
    }
}

/* The reset of a denial is when the same request is allowed, not when the quota is full. */
static void the_reset_of_a_denial_is_the_wait(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", .has_limit = true, .policy = "gcra 1/s burst 10"};
    activate_one(&plain, &spec, 1);
    expect_status(ask("d", "k=v", 8, now_ns), WEIR_RLS_OK, 2, 8);
    expect_status(ask("d", "k=v", 5, now_ns), WEIR_RLS_OVER_LIMIT, 0, 3);
    expect_status(ask("d", "k=v", 11, now_ns), WEIR_RLS_OVER_LIMIT, 0, 8); /* no wait helps */
    assert_int_equal(stat("rate_limit.d.k.over_limit"), 5 + 11); /* none of them was charged */
    assert_int_equal(stat("rate_limit.d.k.near_limit"), 0);
    expect_status(ask("d", "k=w", 10, now_ns), WEIR_RLS_OK, 0, 10);
    expect_status(ask("d", "k=w", 1, now_ns + s_ns - 1), WEIR_RLS_OVER_LIMIT, 0, 1);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void bad_requests_are_refused(void **unused)
{
    (void)unused;
    static char text[RLS_DESCRIPTOR_MAX];
    const weir_rls_spec spec = {.key = "k", LIMIT(2, WEIR_RLS_MINUTE)};
    kit_request r;
    add(begin(&r, "d", 0), "k=v");
    assert_string_equal(refusal_of(&r), "no rate limit configuration loaded");
    activate_one(&plain, &spec, 1);
    begin(&r, "", 0);
    assert_string_equal(refusal_of(&r), "rate limit domain must not be empty");
    begin(&r, "d", 0);
    assert_string_equal(refusal_of(&r), "rate limit descriptor list must not be empty");
    r.request.descriptors_len = WEIR_RLS_DESCRIPTORS_MAX + 1;
    assert_string_equal(refusal_of(&r), "the request has more than 64 descriptors");
    add(begin(&r, "d", 0), "k=v")->has_override = true;
    assert_string_equal(refusal_of(&r), "the limit of a descriptor has no known unit");
    memset(text, '|', sizeof text);
    add(begin(&r, "d", 0), "k=v");
    r.entry[0].value = (weir_slice){text, RLS_DESCRIPTOR_MAX - 2};
    assert_string_equal(refusal_of(&r), "a descriptor has more than 65535 bytes");
    r.entry[0].value.len--; /* fits, but not with its escapes */
    assert_string_equal(refusal_of(&r), "a descriptor has more than 65535 bytes");
    r.entry[0].value.len = RLS_DESCRIPTOR_MAX / 2 - 2;
    assert_true(decide(&r, now_ns).statuses[0].has_limit);
    add(begin(&r, "d", 1), "k=v")->negative = true;
    assert_string_equal(refusal_of(&r),
                        "is_negative_hits needs a limit that does not count denied hits: set "
                        "stop_when_over, or a policy without count-denied");
    assert_int_equal(stat("call.should_rate_limit.service_error"), 8);
    assert_int_equal(stat("call.should_rate_limit.redis_error"), 0);
}

/* Each value has a state of its own, whatever bytes are in it. */
static void keys_are_not_ambiguous(void **unused)
{
    (void)unused;
    const weir_rls_spec inner = {.key = "b", LIMIT(1, WEIR_RLS_DAY)};
    const weir_rls_spec spec = {.key = "a", .descriptors = &inner, .descriptors_len = 1};
    activate_one(&plain, &spec, 1);
    static const char *const rows[][2] = {{"x", "y"},   {"x|b=y", ""},  {"x\\", "y"},
                                          {"x", "\\y"}, {"x\\|b=", ""}, {"10.0.0.1", ""},
                                          {"", "x|b=y"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kit_request r;
        add(begin(&r, "d", 0), "a=1|b=2");
        r.entry[0].value = text_of(rows[i][0]);
        r.entry[1].value = text_of(rows[i][1]);
        assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OK);
        assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
    }
    assert_int_equal(left("d.a.b", "a=x|b=y", now_ns), 0); /* as `weir explain` finds it */
    assert_int_equal(left("d.a.b", "a=x\\|b\\=y|b=", now_ns), 1);
    assert_int_equal(left("d.a.b", "a=x\\|b=y|b=", now_ns), 0);
}

/* Nor are keys whose names have a '=': those of a limit that comes with the request, and of a
 * pattern. */
static void names_are_not_ambiguous(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", .value = "*", LIMIT(1, WEIR_RLS_DAY)};
    activate_one(&plain, &spec, 1);
    static const char *const rows[][2] = {{"a_=b", "c"},          {"a_", "b=c"},
                                          {"a_long_name=b", "c"}, {"a_long_name", "b=c"},
                                          {"a_\\=b", "c"},        {"a_\\", "b=c"}};
    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            kit_request r;
            weir_rls_descriptor *d = add(begin(&r, "d", 0), "k=v");
            d->has_override = own == 1;
            d->override = (weir_rls_override){1, WEIR_RLS_YEAR};
            r.entry[0] = (weir_rls_entry){text_of(rows[i][0]), text_of(rows[i][1])};
            assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OK);
            assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
        }
    }
}

/* The limit of a request decides by a count of its own, without shadow_mode. */
static void a_request_may_have_its_own_limit(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {
        .key = "k", .name = "n", .shadow_mode = true, LIMIT(1, WEIR_RLS_MINUTE)};
    activate_one(&plain, &spec, 1);
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 0), "k=v");
    d->has_override = true;
    d->override = (weir_rls_override){2, WEIR_RLS_HOUR};
    weir_rls_status s = decide(&r, now_ns).statuses[0];
    expect_status(s, WEIR_RLS_OK, 1, 3600);
    assert_int_equal(s.name.len, 0);
    assert_int_equal(s.unit, WEIR_RLS_HOUR);
    decide(&r, now_ns);
    expect_status(decide(&r, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 3600);
    expect_status(ask("d", "k=v", 0, now_ns), WEIR_RLS_OK, 0, 60);
    assert_int_equal(stat("rate_limit.d.k_v.over_limit"), 1);
    r.request.domain = text_of("other");
    assert_false(decide(&r, now_ns).statuses[0].has_limit);
    d->override.requests_per_unit = 0;
    r.request.domain = text_of("d");
    expect_status(decide(&r, now_ns).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 3600);
}

/* A rule that is gone is no match: rules and configurations are not replaced at one moment. */
static void a_limit_without_its_rule_does_not_apply(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "k", LIMIT(1, WEIR_RLS_MINUTE)},
                                   {.key = "m", LIMIT(1, WEIR_RLS_MINUTE)}};
    weir_rls_domain_spec domain = {"d", false, specs, 2};
    for (int i = 0; i < 4; i++) {
        int gone = i / 2; /* the descriptor without a rule */
        domain.atomic = i % 2 == 1;
        activate(&plain, &domain, 1);
        assert_int_equal(weir_limiter_drop_rule(limiter, gone ? "d.m" : "d.k", 3), WEIR_OK);
        kit_request r;
        char texts[2][8];
        begin(&r, "d", 0);
        for (int k = 0; k < 2; k++) {
            snprintf(texts[k], sizeof texts[k], "%c=%d", k ? 'm' : 'k', i);
            add(&r, texts[k]);
        }
        weir_rls_response response = decide(&r, now_ns);
        assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
        assert_false(response.statuses[gone].has_limit);
        assert_true(response.statuses[!gone].has_limit);
        assert_int_equal(response.code, WEIR_RLS_OK);
        assert_int_equal(decide(&r, now_ns).code, WEIR_RLS_OVER_LIMIT);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Many requests, of which some need calls of their own, are answered in order. */
static void many_requests_are_answered_in_groups(void **unused)
{
    (void)unused;
    enum { N = 150 };
    static kit_request r[N];
    static weir_rls_request list[N];
    static weir_rls_response got[N];
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(1000, WEIR_RLS_DAY)},
                                   {.key = "b", .atomic = true, LIMIT(1000, WEIR_RLS_DAY)}};
    activate_one(&plain, specs, 2);
    for (int i = 0; i < N; i++) {
        begin(&r[i], i % 7 == 3 ? "" : "d", i % 5 == 0 ? 2 : 0);
        for (int k = 0; k < 1 + i % 3; k++)
            add(&r[i], i % 11 == 0 ? "b=v" : "a=v");
        list[i] = r[i].request;
    }
    uint32_t left_a = 1000, left_b = 1000;
    for (size_t done = 0; done < N;) {
        size_t n = weir_rls_decide(loop, &wait, list + done, N - done, got + done, now_ns);
        assert_in_range(n, 1, 64);
        for (size_t i = done; i < done + n; i++) {
            assert_int_equal(got[i].failure, i % 7 == 3 ? WEIR_RLS_REFUSED : WEIR_RLS_ANSWERED);
            for (size_t k = 0; k < got[i].statuses_len; k++) {
                uint32_t *left_of = i % 11 == 0 ? &left_b : &left_a;
                *left_of -= i % 5 == 0 ? 2 : 1;
                assert_int_equal(got[i].statuses[k].remaining, *left_of);
            }
        }
        done += n;
    }
}

/* A request of 64 descriptors with several hits each does not fit with the requests that tell the
 * count before. */
static void the_largest_request_is_decided(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "a", LIMIT(130, WEIR_RLS_DAY)};
    activate_one(&plain, &spec, 1);
    kit_request r;
    begin(&r, "d", 2);
    for (int i = 0; i < WEIR_RLS_DESCRIPTORS_MAX; i++)
        add(&r, "a=v");
    weir_rls_response response = decide(&r, now_ns);
    assert_int_equal(response.statuses_len, WEIR_RLS_DESCRIPTORS_MAX);
    assert_int_equal(response.statuses[63].remaining, 2);
    response = decide(&r, now_ns);
    assert_int_equal(response.statuses[0].code, WEIR_RLS_OK);
    assert_int_equal(response.statuses[1].code, WEIR_RLS_OVER_LIMIT);
}

/* ---- configurations -------------------------------------------------------------------------- */

/* Counts stay where the policy's text did not change, and statistics always. */
static void a_reload_keeps_counts_and_statistics(void **unused)
{
    (void)unused;
    const weir_rls_spec specs[] = {{.key = "a", LIMIT(5, WEIR_RLS_DAY)},
                                   {.key = "b", LIMIT(7, WEIR_RLS_DAY)}};
    activate_one(&plain, specs, 1);
    ask("d", "a=v", 0, now_ns);
    weir_rls_count_refused(rls);
    activate_one(&plain, specs, 2);
    assert_ptr_equal(weir_rls_loop_config(loop), rls->config); /* at once */
    assert_int_equal(ask("d", "a=v", 0, now_ns).remaining, 3);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 2);
    assert_int_equal(stat("config_load_success"), 2);
    assert_int_equal(stat("config_load_error"), 1);
    assert_ptr_equal(weir_rls_loop_config(loop), rls->config);
    activate_one(&plain, &specs[1], 1);
    assert_false(ask("d", "a=v", 0, now_ns).has_limit);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 2);
    weir_rls_loop_close(loop); /* and those of loops that close */
    loop = weir_rls_loop_open(rls, service);
    ask("d", "b=v", 0, now_ns);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 2);
    weir_rls_loop_close(loop);
    loop = weir_rls_loop_open(rls, service);
    assert_int_equal(stat("rate_limit.d.b.total_hits"), 1);
}

/* ---- the fallback ---------------------------------------------------------------------------- */

typedef struct other {
    int calls, pending;
    weir_rls_verb verb;
} other;

static bool has_namespace(void *ctx, weir_slice domain)
{
    (void)ctx;
    return domain.len == 5 && memcmp(domain.at, "other", 5) == 0;
}

static bool decide_elsewhere(void *ctx, weir_completion *completion,
                             const weir_rls_request *request, weir_rls_response *ret, int64_t at_ns)
{
    other *o = ctx;
    assert_ptr_equal(completion, &wait.completion);
    assert_int_equal(at_ns, now_ns);
    if (o->pending > 0) {
        o->pending--;
        return false;
    }
    o->calls++;
    o->verb = request->verb;
    *ret = (weir_rls_response){.code = WEIR_RLS_OVER_LIMIT};
    return true;
}

static void a_fallback_decides_what_envoys_limits_are_not_for(void **unused)
{
    (void)unused;
    other o = {.pending = 0};
    const weir_rls_fallback fallback = {&o, has_namespace, decide_elsewhere};
    const weir_rls_spec spec = {.key = "a", LIMIT(5, WEIR_RLS_DAY)};
    kit_request r[3];
    weir_rls_request list[3];
    weir_rls_response got[3];
    weir_rls_set_fallback(loop, &fallback);
    begin(&r[0], "", 0);
    assert_int_equal(decide(&r[0], now_ns).code, WEIR_RLS_OVER_LIMIT); /* no configuration */
    activate_one(&plain, &spec, 1);
    assert_int_equal(by_verb(WEIR_RLS_REPORT, "a=v", 1).code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(o.verb, WEIR_RLS_REPORT);
    static const char *const domains[] = {"d", "other", "unknown"};
    for (int i = 0; i < 3; i++) {
        add(begin(&r[i], domains[i], 0), "a=v");
        list[i] = r[i].request;
    }
    o.pending = 2;
    assert_int_equal(weir_rls_decide(loop, &wait, list, 3, got, now_ns), 1);
    assert_int_equal(got[0].code, WEIR_RLS_OK);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 1, 2, got + 1, now_ns), 0);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 1, 2, got + 1, now_ns), 0);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 1, 2, got + 1, now_ns), 1);
    assert_int_equal(got[1].code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 2, 1, got + 2, now_ns), 1);
    assert_int_equal(got[2].code, WEIR_RLS_OK);
    assert_int_equal(o.calls, 3);
    assert_int_equal(stat("rate_limit.unknown.domain_not_found"), 1);
    kit_find f = {.name = "ratelimit_server.ShouldRateLimit.total_requests"};
    weir_rls_each_stat(rls, find_stat, &f);
    assert_int_equal(f.value, 4); /* each of them once, but not the report */
    weir_rls_set_fallback(loop, NULL);
    assert_int_equal(decide(&r[1], now_ns).code, WEIR_RLS_OK);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_limit_denies_what_is_over_it),
        TEST(denied_hits_count),
        TEST(no_hits_are_a_peek),
        TEST(a_peek_may_need_a_hit_too_many),
        TEST(the_layer_above_a_limit_is_not_in_headers),
        TEST(numbers_have_no_gaps),
        TEST(resets_are_exact_if_asked),
        TEST(decisions_are_listed_for_headers),
        TEST(headers_show_one_limit),
        TEST(decisions_that_are_not_listed),
        TEST(nothing_is_denied_in_shadow_mode),
        TEST(unlimited_descriptors_are_no_quotas),
        TEST(requests_are_counted),
        TEST(months_and_years_are_those_of_the_calendar_if_asked),
        TEST(a_policy_decides),
        TEST(the_reset_of_a_denial_is_the_wait),
        TEST(bad_requests_are_refused),
        TEST(keys_are_not_ambiguous),
        TEST(names_are_not_ambiguous),
        TEST(a_request_may_have_its_own_limit),
        TEST(a_limit_without_its_rule_does_not_apply),
        TEST(many_requests_are_answered_in_groups),
        TEST(the_largest_request_is_decided),
        TEST(a_reload_keeps_counts_and_statistics),
        TEST(a_fallback_decides_what_envoys_limits_are_not_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
