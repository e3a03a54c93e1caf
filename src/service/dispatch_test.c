/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Dispatch to engines: which requests are sent, when the completion is ready, and what the answers
 * do. The tests pass the time in. */

#include "core/decision.h"
#include "service/fake_engine_test.h"
#include "service/kit_test.h"
#include "service/service_internal.h"
#include "tests/kit/kit.h"

#include <stdio.h>

static fake_engine *redis, *hybrid;
static weir_completion completion;
static int ready;

static weir_rule_spec far_of(const char *name, const char *limit)
{
    weir_rule_spec s = spec_of(name, limit);
    s.engine = WEIR_ENGINE_REDIS;
    return s;
}

static void set_usual_rules(void)
{
    static const char *const evil = "evil", *const root = "root";
    static const weir_override_spec vip = {.pattern = "vip-*", .limit = "fixed-window  20/1h"};
    weir_rule_spec specs[] = {
        spec_of("near", "fixed-window 3/h"), far_of("far", "fixed-window 5/1h"),
        far_of("look", "fixed-window 1/h"), far_of("shut", "fixed-window 5/h"),
        spec_of("mixed", "gcra 1/s burst 5")};
    specs[1].overrides = &vip;
    specs[1].allow = &root;
    specs[1].deny = &evil;
    specs[1].overrides_len = specs[1].allow_len = specs[1].deny_len = 1;
    specs[2].shadow = true;
    specs[2].on_error = specs[3].on_error = WEIR_ON_ERROR_CLOSED;
    specs[4].engine = WEIR_ENGINE_HYBRID;
    set_rules(specs, 5);
}

static int setup_engines(void **state)
{
    if (setup(state) != 0)
        return -1;
    redis = fake_open();
    hybrid = fake_open();
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &redis->engine);
    weir_service_set_engine(service, WEIR_ENGINE_HYBRID, &hybrid->engine);
    completion = (weir_completion){.ready = count_ready, .ctx = &ready};
    ready = 0;
    set_usual_rules();
    return 0;
}

static int teardown_engines(void **state)
{
    weir_completion_cancel(&completion);
    redis->engine.calls->close(&redis->engine);
    hybrid->engine.calls->close(&hybrid->engine);
    return teardown(state);
}

static bool take(weir_request *requests, size_t n)
{
    return weir_service_take(service, &completion, requests, n, now_ns);
}

/* Takes, and answers as redis. */
static void take_far(weir_request *request)
{
    assert_false(take(request, 1));
    fake_reply(redis, 0, now_ns);
    assert_true(take(request, 1));
}

static bool is_text(weir_slice b, const char *text)
{
    return b.len == strlen(text) && memcmp(b.at, text, b.len) == 0;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void check_mixed_batch(void **unused)
{
    (void)unused;
    weir_request requests[] = {request_of("far", "a", 1),    request_of("near", "a", 1),
                               request_of("mixed", "a", 1),  request_of("nope", "a", 1),
                               request_of("far", "evil", 1), request_of("far", "a", 2),
                               request_of("far", "vip-1", 1)};
    size_t n = sizeof requests / sizeof requests[0];
    assert_false(take(requests, n));
    assert_true(weir_completion_is_pending(&completion));
    assert_int_equal(weir_completion_len(&completion), n);
    assert_int_equal(redis->batches, 1); /* one batch each */
    assert_int_equal(hybrid->batches, 1);
    const weir_engine_batch *r = redis->waiting[0].batch;
    assert_int_equal(r->len, 3);
    assert_false(r->all);
    const weir_engine_request *q = r->request;
    assert_true(is_text(q[0].name, "far") && is_text(q[0].key, "a"));
    assert_true(is_text(q[0].text, "fixed-window 5/h")); /* canonical */
    assert_true(is_text(q[2].text, "fixed-window 20/h") && is_text(q[2].name, "far"));
    assert_int_equal(q[1].cost, 2);
    assert_int_equal(counts_of("near").allowed, 1); /* decided before the engines answer */
    assert_int_equal(service->decided, 3);
    assert_int_equal(counts_of("far").allowed, 0);

    fake_reply(redis, 0, now_ns);
    assert_int_equal(ready, 0);
    assert_false(take(requests, n));
    fake_reply(hybrid, 0, now_ns);
    assert_int_equal(ready, 1);
    assert_false(weir_completion_is_pending(&completion));
    assert_true(take(requests, n));
    assert_int_equal(weir_completion_len(&completion), 0);
    static const weir_status statuses[] = {WEIR_OK, WEIR_OK, WEIR_OK, WEIR_E_ABSENT,
                                           WEIR_OK, WEIR_OK, WEIR_OK};
    static const int64_t remaining[] = {4, 2, 4, 0, 0, 2, 19};
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(requests[i].status, statuses[i]);
        if (i != 3)
            assert_int_equal(requests[i].decision.remaining, remaining[i]);
    }
    assert_int_equal(requests[4].reason, WEIR_BY_DENY_LIST);
    assert_int_equal(requests[6].policy->layer[0].limit, 20);
    assert_int_equal(counts_of("far").allowed, 3);
    assert_int_equal(counts_of("far").deny_listed, 1);
    assert_int_equal(counts_of("near").allowed, 1);
    assert_int_equal(counts_of("mixed").allowed, 1);
    assert_int_equal(left("near", "a", now_ns), 2); /* not charged again */
    assert_int_equal(service->decided, 3);
}

static void check_immediate_answers(void **unused)
{
    (void)unused;
    redis->immediate = true;
    weir_request requests[] = {request_of("far", "a", 1), request_of("near", "a", 1),
                               request_of("far", "a", 5)};
    assert_true(take(requests, 3));
    assert_int_equal(requests[0].decision.remaining, 4);
    assert_int_equal(requests[1].decision.remaining, 2);
    assert_false(requests[2].decision.allowed);
    assert_int_equal(ready, 0);
    assert_int_equal(counts_of("far").allowed, 1);
    assert_int_equal(counts_of("far").denied, 1);
    assert_int_equal(service->decided, 3);
    assert_true(weir_service_peek(service, &completion, requests, now_ns));
    assert_int_equal(service->decided, 3);
}

static void check_shadow(void **unused)
{
    (void)unused;
    weir_request request = request_of("look", "a", 1);
    for (int i = 0; i < 2; i++) {
        take_far(&request);
        assert_true(request.decision.allowed);
        assert_int_equal(request.reason, i == 0 ? WEIR_BY_LIMIT : WEIR_BY_SHADOW);
    }
    redis->by_error = true;
    take_far(&request);
    assert_true(request.decision.allowed);
    assert_int_equal(request.reason, WEIR_BY_ON_ERROR);
    weir_counts c = counts_of("look");
    assert_true(c.allowed == 1 && c.shadowed == 1 && c.unreached == 1);
}

static void check_long_batch(void **unused)
{
    (void)unused;
    static weir_request requests[WEIR_BATCH_MAX];
    static char keys[WEIR_BATCH_MAX][8];
    for (int i = 0; i < WEIR_BATCH_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i % 50);
        requests[i] = request_of("far", keys[i], 1);
    }
    assert_false(take(requests, WEIR_BATCH_MAX));
    assert_int_equal(redis->waiting[0].batch->len, WEIR_BATCH_MAX);
    fake_reply(redis, 0, now_ns);
    assert_true(take(requests, WEIR_BATCH_MAX));
    for (int i = 0; i < WEIR_BATCH_MAX; i++)
        assert_int_equal(requests[i].decision.remaining, i < 50 ? 4 : 3);
}

/* ---- what changes meanwhile ------------------------------------------------------------------ */

static void check_reload_while_pending(void **unused)
{
    (void)unused;
    weir_request requests[] = {request_of("far", "a", 1), request_of("near", "a", 1)};
    assert_false(take(requests, 2));
    weir_rule_spec specs[] = {spec_of("other", "gcra 1/s burst 3")};
    set_rules(specs, 1);
    weir_request other = request_of("other", "a", 1); /* another session sees the new rules */
    assert_true(weir_service_take(service, NULL, &other, 1, now_ns));
    assert_int_equal(other.status, WEIR_OK);
    set_rules(specs, 1);
    fake_reply(redis, 0, now_ns);
    assert_true(take(requests, 2));
    assert_int_equal(requests[0].decision.remaining, 4);
    assert_int_equal(requests[0].policy->layer[0].limit, 5);
    assert_int_equal(requests[1].policy->layer[0].limit, 3);
    assert_int_equal(counts_of("far").allowed, 1);
    assert_true(
        weir_service_take(service, &completion, &other, 1, now_ns)); /* the old rules are freed */
    assert_true(take(requests, 2));
    assert_int_equal(requests[0].status, WEIR_E_ABSENT);
}

/* An inline policy of a pending request stays in the cache, however many others follow. */
static void check_inline_policies_while_pending(void **unused)
{
    (void)unused;
    enum { OTHERS = 3 * WEIR_SERVICE_POLICIES_MAX };
    set_default_engine(WEIR_ENGINE_REDIS);
    weir_request request = {
        .rule = text_of("gcra   7/1s burst 9"), .by_text = true, .key = text_of("a")};
    request.cost = 1;
    assert_false(take(&request, 1));
    assert_true(is_text(redis->waiting[0].batch->request[0].text, "gcra 7/s burst 9"));
    assert_int_equal(redis->waiting[0].batch->request[0].name.len, 0);
    set_default_engine(WEIR_ENGINE_LOCAL);
    for (int i = 0; i < OTHERS; i++) {
        char text[64];
        snprintf(text, sizeof text, "gcra %d/s", i + 1);
        weir_request other = {
            .rule = text_of(text), .by_text = true, .key = text_of("a"), .cost = 1};
        assert_true(weir_service_take(service, NULL, &other, 1, now_ns));
    }
    fake_reply(redis, 0, now_ns);
    assert_true(take(&request, 1));
    assert_int_equal(request.decision.remaining, 8);
    assert_int_equal(request.policy->layer[0].limit, 9);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).allowed, OTHERS + 1);
}

static void check_cancel(void **unused)
{
    (void)unused;
    set_default_engine(WEIR_ENGINE_HYBRID);
    weir_request requests[] = {request_of("far", "a", 1),
                               request_of("near", "a", 1),
                               request_of("mixed", "a", 1),
                               {.rule = text_of("gcra 1/s"), .by_text = true, .key = text_of("a")}};
    assert_false(take(requests, 4));
    fake_reply(hybrid, 0, now_ns);
    weir_completion_cancel(&completion);
    weir_completion_cancel(&completion);
    assert_int_equal(redis->abandoned, 1);
    assert_int_equal(hybrid->abandoned, 0);
    assert_int_equal(ready, 0);
    assert_false(weir_completion_is_pending(&completion));
    assert_int_equal(counts_of("far").allowed, 0);
    assert_int_equal(counts_of("near").allowed, 1);
    assert_false(take(requests, 1)); /* again, with an answer that is not read yet */
    fake_reply(redis, 0, now_ns);
    assert_int_equal(ready, 1);
    weir_completion_cancel(&completion);
    assert_false(take(requests, 1)); /* and after a reload */
    set_usual_rules();
    assert_int_equal(left("near", "a", now_ns), 2);
    weir_completion_cancel(&completion);
}

/* Many sessions, with answers in another order. */
static void check_many_sessions(void **unused)
{
    (void)unused;
    enum { TURNS = 100 };
    static weir_completion turns[TURNS];
    static weir_request requests[TURNS];
    static char keys[TURNS][8];
    for (int i = 0; i < TURNS; i++) {
        turns[i] = (weir_completion){.ready = count_ready, .ctx = &ready};
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        requests[i] = request_of("far", keys[i], 1 + i % 3);
        assert_false(weir_service_take(service, &turns[i], &requests[i], 1, now_ns));
    }
    for (int i = 0; i < TURNS; i += 10)
        weir_completion_cancel(&turns[i]);
    while (redis->batches > 0)
        fake_reply(redis, redis->batches / 2, now_ns);
    assert_int_equal(ready, TURNS - TURNS / 10);
    for (int i = TURNS - 1; i >= 0; i--) {
        if (i % 10 == 0)
            continue;
        assert_true(weir_service_take(service, &turns[i], &requests[i], 1, now_ns));
        assert_int_equal(requests[i].decision.remaining, 4 - i % 3);
    }
}

/* Long keys count towards WEIR_SERVICE_PENDING_BYTES_MAX. */
static void check_memory_bound(void **unused)
{
    (void)unused;
    enum { TURNS = WEIR_SERVICE_PENDING_BYTES_MAX / WEIR_KEY_MAX };
    static weir_completion turns[TURNS];
    static char key[WEIR_KEY_MAX];
    memset(key, 'k', sizeof key);
    size_t waiting = 0, most = FAKE_BATCHES_MAX;
    weir_request request = {.rule = text_of("far"), .key = {key, sizeof key}, .cost = 1};
    weir_request requests[17]; /* one in the middle needs no engine */
    for (int i = 0; i < 17; i++)
        requests[i] = request;
    requests[7] = request_of("near", "a", 0);
    size_t calls = 0;
    for (; calls < TURNS && waiting < most; calls++) {
        turns[calls] = (weir_completion){.ready = count_ready, .ctx = &ready};
        waiting += !weir_service_take(service, &turns[calls], requests, 17, now_ns);
    }
    assert_in_range(waiting, TURNS / 16 - 8, TURNS / 16);
    for (int i = 0; i < 17; i++) {
        assert_int_equal(requests[i].status, i == 7 ? WEIR_OK : WEIR_E_IO);
        assert_int_equal(requests[i].why != NULL, i != 7);
    }
    assert_int_equal(counts_of("far").failed, 16 * (calls - waiting));
    for (int i = 0; i < TURNS; i++)
        weir_completion_cancel(&turns[i]);
    weir_request small = request_of("far", "a", 1);
    take_far(&small);
    assert_int_equal(small.status, WEIR_OK);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void check_on_error(void **unused)
{
    (void)unused;
    redis->by_error = true;
    weir_request requests[] = {request_of("far", "a", 1), request_of("shut", "a", 1)};
    assert_false(take(requests, 2));
    assert_int_equal(redis->waiting[0].batch->request[0].on_error, WEIR_ON_ERROR_DEFAULT);
    assert_int_equal(redis->waiting[0].batch->request[1].on_error, WEIR_ON_ERROR_CLOSED);
    fake_reply(redis, 0, now_ns);
    assert_true(take(requests, 2));
    assert_true(requests[0].decision.allowed);
    assert_false(requests[1].decision.allowed);
    assert_int_equal(requests[0].reason, WEIR_BY_ON_ERROR);
    assert_int_equal(requests[1].reason, WEIR_BY_ON_ERROR);
    assert_int_equal(counts_of("far").unreached, 1);
    assert_int_equal(counts_of("far").allowed, 0);
    assert_int_equal(counts_of("shut").unreached, 1);
    assert_int_equal(counts_of("shut").denied, 0);
    /* A policy without a rule uses the engine's default, also in memory that is used again. */
    set_default_engine(WEIR_ENGINE_REDIS);
    weir_request texts[2] = {
        {.rule = text_of("gcra 1/s"), .by_text = true, .key = text_of("a"), .cost = 1}};
    texts[1] = texts[0];
    assert_false(take(texts, 2));
    for (int i = 0; i < 2; i++)
        assert_int_equal(redis->waiting[0].batch->request[i].on_error, WEIR_ON_ERROR_DEFAULT);
}

static void ask(bool (*fn)(weir_service *, weir_completion *, weir_request *, int64_t),
                weir_request *r, weir_verb verb)
{
    assert_false(fn(service, &completion, r, now_ns));
    assert_int_equal(redis->waiting[0].batch->request[0].verb, verb);
    fake_reply(redis, 0, now_ns);
    assert_true(fn(service, &completion, r, now_ns));
}

static void check_statuses(void **unused)
{
    (void)unused;
    weir_request request = request_of("far", "a", 1);
    redis->status = WEIR_E_UNSUPPORTED;
    redis->reason = "a double cannot hold it";
    take_far(&request);
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    assert_string_equal(request.why, "a double cannot hold it");
    redis->status = WEIR_E_IO;
    redis->reason = NULL;
    take_far(&request);
    assert_int_equal(request.status, WEIR_E_IO);
    assert_non_null(request.why);
    assert_int_equal(counts_of("far").failed, 2);
    redis->status = WEIR_E_UNSUPPORTED;
    take_far(&request);
    assert_non_null(request.why);
    ask(weir_service_refund, &request, WEIR_VERB_REFUND);
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    assert_null(request.why); /* the engine does support the policy */
    redis->status = WEIR_E_RANGE;
    take_far(&request);
    assert_int_equal(request.status, WEIR_E_RANGE);
    assert_null(request.why);
    redis->status = WEIR_OK;
    take_far(&request);
    assert_int_equal(request.status, WEIR_OK);
    assert_null(request.why);
}

/* The position of an error stays while other requests of its batch are pending. */
static void check_error_in_a_pending_batch(void **unused)
{
    (void)unused;
    weir_request requests[] = {request_of("far", "a", 1),
                               {.rule = text_of("gcrx 1/s"), .by_text = true, .key = text_of("a")}};
    assert_false(take(requests, 2));
    requests[1].error.column = 0;
    fake_reply(redis, 0, now_ns);
    assert_true(take(requests, 2));
    assert_int_equal(requests[0].error.column, 0);
    assert_int_equal(requests[1].error.column, 1);
}

static void check_no_engine(void **unused)
{
    (void)unused;
    weir_request requests[] = {request_of("far", "a", 1), request_of("near", "a", 1),
                               request_of("far", "root", 1)};
    assert_true(weir_service_take(service, NULL, requests, 3, now_ns));
    assert_int_equal(requests[0].status, WEIR_E_UNSUPPORTED);
    assert_non_null(requests[0].why);
    assert_int_equal(requests[1].status, WEIR_OK);
    assert_int_equal(requests[2].status, WEIR_OK); /* a list needs no engine */
    assert_true(weir_service_take(service, &completion, &requests[1], 1, -1)); /* bad time */
    assert_int_equal(requests[1].status, WEIR_E_RANGE);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    assert_true(weir_service_peek(service, &completion, &requests[0], now_ns));
    assert_int_equal(requests[0].status, WEIR_E_UNSUPPORTED);
    weir_throttle t = {1, 1, 60, 1};
    weir_throttle_result result;
    set_default_engine(WEIR_ENGINE_REDIS);
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
    assert_int_equal(result.status, WEIR_E_UNSUPPORTED);
    assert_non_null(result.why);
    assert_int_equal(counts_of(WEIR_COUNTS_THROTTLE).failed, 1);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &redis->engine);
}

static void check_reserve(void **unused)
{
    (void)unused;
    uint64_t id;
    weir_request request = request_of("far", "a", 1);
    weir_service_reserve(service, &request, s_ns, now_ns, &id);
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    assert_non_null(request.why);
    request = request_of("near", "a", 1);
    weir_service_reserve(service, &request, s_ns, now_ns, &id);
    assert_int_equal(request.status, WEIR_OK);
}

/* ---- calls of one request -------------------------------------------------------------------- */

static void check_peek_refund_reset(void **unused)
{
    (void)unused;
    weir_request request = request_of("far", "a", 3), again = request;
    take_far(&request);
    assert_false(weir_service_peek(service, &completion, &again, now_ns)); /* and still: */
    ask(weir_service_peek, &again, WEIR_VERB_PEEK);
    assert_int_equal(again.decision.remaining, 2);
    again.cost = 2;
    ask(weir_service_refund, &again, WEIR_VERB_REFUND);
    assert_int_equal(again.decision.remaining, 4);
    again.cost = 7;
    ask(weir_service_charge, &again, WEIR_VERB_CHARGE);
    assert_int_equal(again.over, 2);
    again.cost = 1; /* the decision is on a cost of 0 */
    ask(weir_service_charge, &again, WEIR_VERB_CHARGE);
    assert_int_equal(again.next_ns, WEIR_NEXT_UNKNOWN);
    ask(weir_service_reset, &again, WEIR_VERB_RESET);
    assert_int_equal(again.status, WEIR_OK);
    redis->immediate = true;
    assert_true(weir_service_peek(service, &completion, &again, now_ns));
    assert_int_equal(again.decision.remaining, 5);
    assert_true(weir_service_peek(service, &completion, &again, -1)); /* bad time */
    assert_int_equal(again.status, WEIR_E_RANGE);
    assert_int_equal(counts_of("far").allowed, 1); /* the take alone */
    assert_int_equal(weir_limiter_latency(limiter).count[0], 1);
}

static void check_throttle(void **unused)
{
    (void)unused;
    weir_throttle t = {.max_burst = 1, .count = 1, .period_s = 60, .quantity = 0};
    weir_throttle_result result;
    assert_false(weir_service_has_decided(service));
    assert_true(weir_service_throttle(service, NULL, &t, text_of("k"), now_ns, &result));
    assert_true(weir_service_has_decided(service)); /* by the local engine */
    t.count = 0;
    assert_true(weir_service_throttle(service, NULL, &t, text_of("k"), now_ns, &result));
    assert_int_equal(result.status, WEIR_E_RANGE);
    assert_int_equal(result.numbers, WEIR_THROTTLE_ZERO_RATE);
    t.count = 1;
    set_default_engine(WEIR_ENGINE_HYBRID);
    t.quantity = 1;
    for (int i = 0; i < 3; i++) {
        assert_false(
            weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
        assert_int_equal(hybrid->waiting[0].batch->request[0].verb, WEIR_VERB_THROTTLE);
        assert_false(
            weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
        fake_reply(hybrid, 0, now_ns);
        assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
        assert_int_equal(result.status, WEIR_OK);
        assert_int_equal(result.answer.limited, i == 2);
    }
    hybrid->immediate = true;
    t.count = 0;
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
    assert_int_equal(result.status, WEIR_E_RANGE);
    assert_int_equal(result.numbers, WEIR_THROTTLE_ZERO_RATE);
    assert_true(weir_service_throttle(service, &completion, &t, text_of(""), now_ns, &result));
    assert_int_equal(result.status, WEIR_E_RANGE);
    assert_int_equal(result.numbers, WEIR_THROTTLE_OK);
    static char long_key[WEIR_KEY_MAX + 1];
    const weir_slice too_long = {long_key, sizeof long_key};
    assert_true(weir_service_throttle(service, &completion, &t, too_long, now_ns, &result));
    assert_int_equal(result.status, WEIR_E_RANGE);
    t.count = 1;
    hybrid->status = WEIR_E_IO;
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
    assert_int_equal(result.status, WEIR_E_IO);
    assert_non_null(result.why);
    hybrid->status = WEIR_OK;
    hybrid->by_error = true;
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
    assert_int_equal(result.status, WEIR_OK);
    assert_false(result.answer.limited);
    t.quantity = 0; /* counts as nothing */
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &result));
    weir_counts c = counts_of(WEIR_COUNTS_THROTTLE);
    assert_true(c.allowed == 2 && c.denied == 1 && c.failed == 5 && c.unreached == 1);
    assert_int_equal(service->decided, 6); /* the local ones, and those answered at once */
}

static void check_explain(void **unused)
{
    (void)unused;
    weir_buffer out;
    weir_buffer_init(&out, 4096);
    weir_request request = request_of("far", "vip-1", 1);
    assert_false(weir_service_explain(service, &completion, &request, now_ns, &out));
    assert_int_equal(weir_buffer_len(&out), 0);
    set_usual_rules(); /* replaces the rule of the pending request */
    fake_reply(redis, 0, now_ns);
    request = request_of("far", "vip-1", 1);
    assert_true(weir_service_explain(service, &completion, &request, now_ns, &out));
    redis->immediate = redis->by_error = true;
    request = request_of("shut", "a", 1);
    assert_true(weir_service_explain(service, &completion, &request, now_ns, &out));
    weir_buffer_append(&out, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&out),
                        "policy   far\n"
                        "key      vip-1\n"
                        "limit    fixed-window 20/h\n"
                        "         because of the override vip-*\n"
                        "engine   redis\n"
                        "state    20 of 20 free; full\n"
                        "next     now\n"
                        "policy   shut\n"
                        "key      a\n"
                        "limit    fixed-window 5/h\n"
                        "engine   redis, whose server is unreachable: on_error decides\n"
                        "state    0 of 5 free; full\n"
                        "next     in 1 s, at 2026-01-01 00:00:01.000 UTC\n");
    weir_buffer_free(&out);
}

/* ---- several as one -------------------------------------------------------------------------- */

/* Repeats the call until it is answered. Returns the number of engine batches. */
static int take_all(weir_request *requests, size_t n, weir_all_result *ret)
{
    int rounds = 0;
    while (!weir_service_take_all(service, &completion, requests, n, now_ns, ret)) {
        assert_int_equal(redis->batches, 1);
        fake_reply(redis, 0, now_ns);
        rounds++;
    }
    return rounds;
}

static void check_take_all(void **unused)
{
    (void)unused;
    weir_all_result all;
    weir_request requests[] = {request_of("far", "a", 2), request_of("shut", "a", 3),
                               request_of("far", "root", 9)};
    assert_int_equal(take_all(requests, 3, &all), 1);
    assert_int_equal(all.status, WEIR_OK);
    assert_true(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(requests[1].decision.remaining, 2);
    assert_int_equal(requests[2].reason, WEIR_BY_ALLOW_LIST);
    assert_int_equal(take_all(requests, 3, &all), 1);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(requests[0].decision.remaining, 3); /* nothing was charged */
    assert_int_equal(counts_of("far").allowed, 1);
    assert_int_equal(counts_of("far").allow_listed, 1);
    assert_int_equal(counts_of("shut").denied, 1);
}

/* Requests in shadow are decided after the others, and are charged only if these are allowed. */
static void check_take_all_shadow(void **unused)
{
    (void)unused;
    weir_all_result all;
    weir_request requests[] = {request_of("look", "a", 1), request_of("far", "a", 4)};
    assert_int_equal(take_all(requests, 2, &all), 2);
    assert_true(all.allowed);
    assert_int_equal(requests[0].reason, WEIR_BY_LIMIT);
    assert_int_equal(take_all(requests, 2, &all), 2);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    requests[1].cost = 1;
    assert_int_equal(take_all(requests, 2, &all), 2);
    assert_true(all.allowed);
    assert_int_equal(requests[0].reason, WEIR_BY_SHADOW);
    assert_int_equal(take_all(requests, 1, &all), 1);
    assert_true(all.allowed);
    weir_request others[] = {request_of("far", "c", 1), request_of("look", "c", 1)};
    assert_int_equal(take_all(others, 2, &all), 2);
    assert_int_equal(others[0].decision.remaining, 4);
    assert_int_equal(others[1].decision.remaining, 0);
    weir_request listed[] = {request_of("look", "b", 1), request_of("far", "evil", 1),
                             request_of("far", "b", 1)};
    assert_int_equal(take_all(listed, 3, &all), 1);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(listed[0].decision.remaining, 1);
    assert_int_equal(listed[2].decision.remaining, 5);
    assert_int_equal(counts_of("look").shadowed, 2);
    redis->immediate = true;
    assert_int_equal(take_all(listed, 3, &all), 0);
    assert_int_equal(all.index, 1);
}

static void check_take_all_errors(void **unused)
{
    (void)unused;
    weir_all_result all;
    weir_request requests[] = {request_of("far", "a", 1), request_of("near", "a", 1),
                               request_of("far", "b", 1)};
    assert_int_equal(take_all(requests, 3, &all), 0);
    assert_int_equal(all.status, WEIR_E_UNSUPPORTED);
    assert_int_equal(requests[1].status, WEIR_E_UNSUPPORTED);
    assert_non_null(requests[1].why);
    assert_int_equal(requests[0].status, WEIR_OK);
    assert_int_equal(redis->submitted, 0);
    assert_true(weir_service_take_all(service, NULL, requests, 1, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_UNSUPPORTED);
    redis->status = WEIR_E_IO;
    requests[1] = request_of("look", "a", 1);
    assert_int_equal(take_all(requests, 3, &all), 1);
    assert_int_equal(all.status, WEIR_E_IO);
    redis->status = WEIR_OK;
    redis->by_error = true;
    requests[1] = request_of("shut", "a", 1);
    assert_int_equal(take_all(requests, 2, &all), 1);
    assert_int_equal(all.status, WEIR_OK);
    assert_false(all.allowed);
    assert_int_equal(all.index, 1);
    assert_int_equal(counts_of("shut").unreached, 1);
}

static void check_take_all_while_pending(void **unused)
{
    (void)unused;
    weir_all_result all;
    weir_request requests[] = {request_of("look", "a", 1), request_of("far", "a", 4)};
    assert_false(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    assert_false(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    set_usual_rules();
    assert_int_equal(left("near", "a", now_ns), 3);
    fake_reply(redis, 0, now_ns);
    assert_false(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    set_usual_rules();
    assert_int_equal(left("near", "a", now_ns), 3);
    fake_reply(redis, 0, now_ns);
    assert_true(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    assert_true(all.allowed);
    assert_int_equal(requests[1].decision.remaining, 1);
    assert_false(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    weir_completion_cancel(&completion);
    assert_int_equal(redis->abandoned, 1);
}

/* ---- rules and counts ------------------------------------------------------------------------ */

static void check_set_limit(void **unused)
{
    (void)unused;
    weir_rule_error e;
    assert_int_equal(weir_limiter_set_limit(limiter, "far", "fixed-window 9/h", &e), WEIR_OK);
    weir_request request = request_of("far", "a", 1);
    take_far(&request); /* its engine still keeps the state */
    assert_int_equal(request.decision.remaining, 8);
    set_default_engine(WEIR_ENGINE_REDIS);
    assert_int_equal(weir_limiter_set_limit(limiter, "new", "fixed-window 2/h", &e), WEIR_OK);
    request = request_of("new", "a", 1);
    take_far(&request);
    assert_int_equal(request.decision.remaining, 1);
}

/* No service can adopt new rules with the old default engine, or the other way round: both belong
 * to one generation. */
static void check_configure(void **unused)
{
    (void)unused;
    weir_rules *rules;
    const weir_rule_spec spec = spec_of("other", "fixed-window 2/h");
    uint64_t generation = port_load_relaxed(&limiter->generation);
    assert_int_equal(weir_rules_build(&rules, store, NULL, &spec, 1), WEIR_OK);
    weir_limiter_configure(limiter, rules, WEIR_ENGINE_HYBRID);
    assert_int_equal(port_load_relaxed(&limiter->generation), generation + 1);
    assert_int_equal(weir_limiter_default_engine(limiter), WEIR_ENGINE_HYBRID);
    weir_request requests[] = {request_of("far", "a", 1),
                               request_of("other", "a", 1),
                               {.rule = text_of("gcra 1/s"), .by_text = true, .key = text_of("a")}};
    assert_false(take(requests, 3));
    assert_int_equal(hybrid->batches, 1);
    fake_reply(hybrid, 0, now_ns);
    assert_true(take(requests, 3));
    assert_int_equal(requests[0].status, WEIR_E_ABSENT);
    assert_int_equal(requests[1].decision.remaining, 1);
}

static void check_latency(void **unused)
{
    (void)unused;
    weir_request requests[] = {request_of("far", "a", 1), request_of("near", "a", 1),
                               request_of("far", "b", 1)};
    assert_false(take(requests, 3));
    assert_true(weir_service_has_decided(service));
    weir_service_latency(service, 100);
    fake_reply(redis, 0, now_ns + 1000000);
    assert_true(take(requests, 3));
    assert_false(weir_service_has_decided(service));
    weir_latency l = weir_limiter_latency(limiter);
    assert_int_equal(l.count[0], 1);
    assert_int_equal(l.count[13], 2);
    assert_int_equal(l.sum_ns, 100 + 2 * 1000000);
    /* An atomic take is one decision. */
    weir_all_result all;
    assert_false(weir_service_take_all(service, &completion, requests, 1, now_ns, &all));
    fake_reply(redis, 0, now_ns + 2000000);
    assert_true(weir_service_take_all(service, &completion, requests, 1, now_ns + 9000000, &all));
    l = weir_limiter_latency(limiter);
    assert_int_equal(l.count[14], 1);
    assert_int_equal(l.sum_ns, 100 + 2 * 1000000 + 2000000);
    assert_int_equal(service->decided, 0);
    redis->immediate = true;
    assert_true(weir_service_take_all(service, &completion, requests, 1, now_ns, &all));
    assert_int_equal(service->decided, 1);
    assert_true(weir_service_take_all(service, NULL, requests + 1, 1, now_ns, &all));
    assert_int_equal(service->decided, 2);
    assert_true(weir_service_take_all(service, &completion, requests, 2, now_ns, &all));
    assert_int_equal(all.status, WEIR_E_UNSUPPORTED);
    assert_int_equal(service->decided, 3);
    weir_throttle t = {1, 1, 60, 1};
    weir_throttle_result throttled;
    set_default_engine(WEIR_ENGINE_HYBRID);
    assert_false(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &throttled));
    fake_reply(hybrid, 0, now_ns + 500);
    assert_true(weir_service_throttle(service, &completion, &t, text_of("k"), now_ns, &throttled));
    assert_int_equal(weir_limiter_latency(limiter).sum_ns, 100 + 4 * 1000000 + 500);
    assert_int_equal(service->decided, 3);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_engines, teardown_engines)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_mixed_batch),
        TEST(check_immediate_answers),
        TEST(check_shadow),
        TEST(check_long_batch),
        TEST(check_reload_while_pending),
        TEST(check_inline_policies_while_pending),
        TEST(check_cancel),
        TEST(check_many_sessions),
        TEST(check_memory_bound),
        TEST(check_on_error),
        TEST(check_statuses),
        TEST(check_error_in_a_pending_batch),
        TEST(check_no_engine),
        TEST(check_reserve),
        TEST(check_peek_refund_reset),
        TEST(check_throttle),
        TEST(check_explain),
        TEST(check_take_all),
        TEST(check_take_all_shadow),
        TEST(check_take_all_errors),
        TEST(check_take_all_while_pending),
        TEST(check_set_limit),
        TEST(check_configure),
        TEST(check_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
