/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each allocation of the service fails in turn, and so does each call for random numbers. A call
 * that fails returns an error, frees what it made, and changes nothing: it succeeds once there is
 * memory again. */

#include "service/service_internal.h"
#include "service/top/top.h"
#include "service/zone_cache.h"

#include "service/fake_engine_test.h"
#include "service/kit_test.h"

#include "port/memory_kit_test.h"

#include <stdio.h>

weir_status __real_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len);

static int randoms; /* calls of port_random() */

weir_status __wrap_port_random(void *buf, size_t len)
{
    randoms++;
    return may_allocate() ? __real_port_random(buf, len) : WEIR_E_IO;
}

static const char *const root = "root", *const evil = "10.0.0.0/8";
static const weir_override_spec overrides[] = {{.pattern = "vip-*", .limit = "fixed-window 20/h"},
                                               {.pattern = "2001:db8::/32", .limit = "gcra 9/s"}};

static weir_rule_spec full_spec(const char *name, const char *limit)
{
    weir_rule_spec s = spec_of(name, limit);
    s.overrides = overrides;
    s.overrides_len = 2;
    s.allow = &root;
    s.deny = &evil;
    s.allow_len = s.deny_len = 1;
    s.key = "$client/$header.x-api-key";
    return s;
}

static weir_status expected(bool failed)
{
    return failed ? WEIR_E_NOMEM : WEIR_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool try_open(uint64_t n, bool later)
{
    weir_limiter *l = NULL;
    weir_service *s = NULL;
    randoms = 0;
    memory_fail(n, later);
    weir_status st = weir_limiter_open(&l, store, NULL);
    assert_int_equal(l != NULL, st == WEIR_OK);
    if (st == WEIR_OK)
        st = weir_limiter_enable_top(l, &(weir_top_options){10, 1 << 20});
    if (st == WEIR_OK)
        st = weir_service_open(&s, l);
    bool failed = memory_stop();
    if (st != WEIR_E_IO) /* no random numbers */
        assert_int_equal(st, expected(failed));
    assert_int_equal(s == NULL, failed);
    /* The secrets of the top keys and of the policy cache, and the seed of the samples. */
    assert_true(failed || randoms == 3);
    weir_service_close(s);
    weir_limiter_close(l);
    return failed;
}

static bool try_zones(uint64_t n, bool later)
{
    static const char text[] = "fixed-window 3/day tz Europe/Berlin";
    weir_policy p;
    memory_fail(n, later);
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    assert_int_equal(cache == NULL, memory.failed.value > 0);
    if (cache) {
        weir_zones zones = weir_zone_cache_zones(cache);
        weir_policy_error e = {0};
        weir_status st = weir_policy_parse(&p, text, strlen(text), &zones, &e);
        bool failed = memory_stop();
        if (failed) {
            assert_int_equal(st, WEIR_E_NOMEM);
            assert_string_equal(e.text, "no memory is left, expected enough to read the time zone");
        }
        /* The failure is not remembered. */
        if (zones.find(zones.ctx, "Europe/Berlin", 13))
            assert_int_equal(weir_policy_parse(&p, text, strlen(text), &zones, NULL), WEIR_OK);
        weir_zone_cache_close(cache);
        return failed;
    }
    return memory_stop();
}

static void test_open(void **unused)
{
    (void)unused;
    fail_each_allocation(try_open);
    fail_each_allocation(try_zones);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool try_rules(uint64_t n, bool later)
{
    weir_rules *rules = NULL;
    const weir_rule_spec specs[] = {full_spec("a", "gcra 1/s"), spec_of("b", "gcra 2/s"),
                                    full_spec("c", "gcra 3/s & fixed-window 5/h")};
    memory_fail(n, later);
    weir_status st = weir_rules_build(&rules, store, NULL, specs, 3);
    bool failed = memory_stop();
    assert_int_equal(st, expected(failed));
    assert_int_equal(rules == NULL, failed);
    weir_rules_drop(rules);
    return failed;
}

static bool try_routes(uint64_t n, bool later)
{
    static const char *const names[] = {"a", "b"};
    const weir_rule_spec spec = spec_of("a", "gcra 1/s");
    const weir_route_spec routes[] = {
        {.path = "/v1", .policies = names, .policies_len = 2},
        {.name = "rest", .methods = names, .methods_len = 2, .hosts = names, .hosts_len = 1}};
    weir_rules *rules = NULL;
    assert_int_equal(weir_rules_build(&rules, store, NULL, &spec, 1), WEIR_OK);
    assert_int_equal(weir_rules_set_routes(rules, routes, 1, WEIR_SLASH_REFUSE), WEIR_OK);
    weir_routes *before = rules->routes;
    memory_fail(n, later);
    weir_status st = weir_rules_set_routes(rules, routes, 2, WEIR_SLASH_REFUSE);
    bool failed = memory_stop();
    assert_int_equal(st, expected(failed));
    assert_int_equal(rules->routes == before, failed); /* the old ones stay */
    weir_rules_discard(rules);
    return failed;
}

/* Changes one rule and removes it again. The rule that stays keeps its options and its state. */
static bool try_change(uint64_t n, bool later)
{
    weir_rule_error error;
    memory_fail(n, later);
    weir_status st = weir_limiter_set_limit(limiter, "a", "fixed-window 6/h", &error);
    bool failed = memory_stop();
    assert_int_equal(st, expected(failed));
    assert_int_equal(left("a", "b", now_ns), failed ? 5 : 6);
    assert_int_equal(left("a", "vip-1", now_ns), 20);
    assert_int_equal(weir_limiter_set_limit(limiter, "a", "fixed-window 5/h", NULL), WEIR_OK);
    assert_int_equal(left("a", "b", now_ns), 5);
    return failed;
}

static bool try_drop(uint64_t n, bool later)
{
    assert_int_equal(weir_limiter_set_limit(limiter, "b", "fixed-window 3/h", NULL), WEIR_OK);
    memory_fail(n, later);
    weir_status st = weir_limiter_drop_rule(limiter, "b", 1);
    bool failed = memory_stop();
    assert_int_equal(st, expected(failed));
    if (failed) {
        assert_int_equal(left("b", "k", now_ns), 3);
        assert_int_equal(weir_limiter_drop_rule(limiter, "b", 1), WEIR_OK);
    }
    assert_int_equal(weir_limiter_drop_rule(limiter, "b", 1), WEIR_E_ABSENT);
    weir_service_refresh(service);
    return failed;
}

static void test_rules(void **unused)
{
    (void)unused;
    fail_each_remembered(try_rules); /* the store remembers the limits of a name */
    fail_each_allocation(try_routes);
    const weir_rule_spec spec = full_spec("a", "fixed-window 5/h");
    set_rules(&spec, 1);
    weir_service_refresh(service);
    fail_each_remembered(try_change);
    fail_each_remembered(try_drop);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* An inline policy that is not in the cache yet. */
static bool try_inline_policy(uint64_t n, bool later)
{
    weir_service *s;
    assert_int_equal(weir_service_open(&s, limiter), WEIR_OK);
    weir_request request = {.rule = text_of("fixed-window 9/h"), .by_text = true, .cost = 0};
    request.key = text_of("k");
    memory_fail(n, later);
    assert_true(weir_service_take(s, NULL, &request, 1, now_ns));
    bool failed = memory_stop();
    assert_int_equal(request.status, expected(failed));
    assert_true(weir_service_take(s, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(request.decision.remaining, 9);
    weir_service_close(s);
    return failed;
}

/* The memory of evicted policies is freed. */
static void test_evicted_policies(void **unused)
{
    (void)unused;
    enum { FULL = 4 * WEIR_SERVICE_POLICIES_MAX };
    uint64_t blocks = 0;
    for (int i = 1; i <= FULL + 100; i++) {
        char text[32];
        snprintf(text, sizeof text, "gcra %d/s", i);
        weir_request request = {.rule = text_of(text), .by_text = true, .key = text_of("k")};
        assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
        assert_int_equal(request.status, WEIR_OK);
        if (i == FULL)
            blocks = port_load_relaxed(&memory.blocks);
    }
    assert_in_range(port_load_relaxed(&memory.blocks), 1, blocks + 20); /* some sets had room */
}

static void do_nothing(void *ctx)
{
    (void)ctx;
}

enum remote_call { TAKE, TAKE_ALL, PEEK, THROTTLE, REMOTE_CALLS };
static enum remote_call remote_call;
static fake_engine *engine;

/* Calls the service once. Returns whether the request is answered; its status goes to *ret. */
static bool call_remotely(weir_service *s, weir_completion *c, weir_status *ret)
{
    static char key[2]; /* changes after each call: an engine that waits needs a copy */
    memcpy(key, "k", sizeof key);
    weir_request request = request_of("far", key, 1);
    const weir_throttle throttle = {1, 1, 60, 1};
    weir_all_result all = {0};
    weir_throttle_result throttled = {0};
    bool answered = false;
    switch (remote_call) {
    case TAKE:
        answered = weir_service_take(s, c, &request, 1, now_ns);
        break;
    case TAKE_ALL:
        answered = weir_service_take_all(s, c, &request, 1, now_ns, &all);
        break;
    case PEEK:
        answered = weir_service_peek(s, c, &request, now_ns);
        break;
    default:
        answered = weir_service_throttle(s, c, &throttle, request.key, now_ns, &throttled);
    }
    key[0] = 'x';
    const char *why = remote_call == THROTTLE ? throttled.why : request.why;
    *ret = remote_call == TAKE_ALL   ? all.status
           : remote_call == THROTTLE ? throttled.status
                                     : request.status;
    assert_true(!answered || (why != NULL) == (*ret != WEIR_OK));
    return answered;
}

/* A request without memory for its pending state fails, and is not sent. */
static bool try_engine(uint64_t n, bool later)
{
    weir_service *s;
    weir_completion c = {.ready = do_nothing};
    weir_status st = WEIR_OK;
    assert_int_equal(weir_service_open(&s, limiter), WEIR_OK);
    weir_service_set_engine(s, WEIR_ENGINE_REDIS, &engine->engine);
    size_t submitted = engine->submitted;
    memory_fail(n, later);
    bool answered = call_remotely(s, &c, &st);
    bool failed = memory_stop();
    assert_int_equal(answered, failed);
    assert_int_equal(engine->submitted - submitted, failed ? 0 : 1);
    if (failed)
        assert_int_equal(st, WEIR_E_IO);
    if (failed)
        assert_false(call_remotely(s, &c, &st));
    fake_reply(engine, 0, now_ns);
    assert_true(call_remotely(s, &c, &st));
    assert_int_equal(st, WEIR_OK);
    weir_service_close(s);
    return failed;
}

static void test_requests(void **unused)
{
    (void)unused;
    fail_each_allocation(try_inline_policy);
    weir_rule_spec spec = spec_of("far", "fixed-window 1000000/h");
    spec.engine = WEIR_ENGINE_REDIS;
    set_rules(&spec, 1);
    set_default_engine(WEIR_ENGINE_REDIS);
    weir_service_refresh(service);
    engine = fake_open();
    for (remote_call = TAKE; remote_call < REMOTE_CALLS; remote_call++)
        fail_each_allocation(try_engine);
    engine->engine.calls->close(&engine->engine);
}

/* A pending request keeps the rules that are replaced meanwhile, until it is answered. */
static void test_reload(void **unused)
{
    (void)unused;
    uint64_t blocks = 0;
    weir_rule_spec spec = full_spec("far", "fixed-window 1000000/h");
    spec.engine = WEIR_ENGINE_REDIS;
    engine = fake_open();
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
    set_rules(&spec, 1);
    for (int i = 0; i < 4; i++) {
        weir_completion c = {.ready = do_nothing};
        weir_request request = request_of("far", "k", 1);
        assert_false(weir_service_take(service, &c, &request, 1, now_ns));
        for (int k = 0; k < 2; k++) {
            set_rules(&spec, 1);
            weir_service_refresh(service);
        }
        fake_reply(engine, 0, now_ns);
        assert_true(weir_service_take(service, &c, &request, 1, now_ns));
        weir_service_refresh(service);
        if (i == 1)
            blocks = port_load_relaxed(&memory.blocks);
    }
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    engine->engine.calls->close(&engine->engine);
}

/* ---- top keys -------------------------------------------------------------------------------- */

static weir_limiter *tracked;
static weir_service *tracking;

static void take_tracked(const char *key)
{
    weir_request request = {.rule = text_of("gcra 1/s burst 1000"), .by_text = true, .cost = 1};
    request.key = text_of(key);
    assert_true(weir_service_take(tracking, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_OK);
}

static weir_status read_top(weir_top *ret)
{
    return weir_limiter_top(tracked, text_of(WEIR_COUNTS_TEXTS), WEIR_TOP_ALLOWED, 5, now_ns, ret);
}

/* A request is decided even if its key cannot be tracked. The list is then missing. */
static bool try_tracking(uint64_t n, bool later)
{
    weir_top top = {0};
    assert_int_equal(weir_service_open(&tracking, tracked), WEIR_OK);
    weir_service_tick(tracking, now_ns);
    memory_fail(n + 1, later); /* the first allocation is for the policy */
    take_tracked("k");
    bool failed = memory_stop();
    if (n == 0) /* not at once again */
        assert_int_equal(tracking->counters->of[NAME_TEXTS].left[COUNT_ALLOWED], 1 << 20);
    assert_int_equal(read_top(&top), WEIR_OK);
    assert_int_equal(top.len, failed ? 0 : 1);
    weir_top_free(&top);
    weir_service_close(tracking);
    return failed;
}

static bool try_reading(uint64_t n, bool later)
{
    weir_top top = {0};
    memory_fail(n, later);
    weir_status st = read_top(&top);
    bool failed = memory_stop();
    assert_int_equal(st, expected(failed));
    assert_int_equal(top.len, failed ? 0 : 2);
    if (st == WEIR_OK)
        weir_top_free(&top);
    return failed;
}

static void test_top(void **unused)
{
    (void)unused;
    assert_int_equal(weir_limiter_open(&tracked, store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_enable_top(tracked, &(weir_top_options){10, 1 << 20}), WEIR_OK);
    fail_each_allocation(try_tracking);
    assert_int_equal(weir_service_open(&tracking, tracked), WEIR_OK);
    take_tracked("k");
    take_tracked("m");
    fail_each_allocation(try_reading);
    weir_service_close(tracking);
    assert_int_equal(port_load_relaxed(&tracked->top.bytes), 0);
    weir_limiter_close(tracked);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open),
        TEST(test_rules),
        TEST(test_requests),
        TEST(test_reload),
        TEST(test_evicted_policies),
        TEST(test_top),
    };
    return cmocka_run_group_tests_name("service-memory", tests, NULL, NULL);
}
