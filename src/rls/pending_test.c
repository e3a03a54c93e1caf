/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests to limits whose states an engine keeps: they wait, are repeated, and are answered as if
 * the engine had answered at once. */

#include "service/fake_engine_test.h"

#include "kit_test.h"

static fake_engine *engine;

static const weir_rls_options remote = {.engine = WEIR_ENGINE_REDIS};

#define LIMIT(n, u) .has_limit = true, .requests_per_unit = (n), .unit = (u)

static const weir_rls_spec specs[] = {
    {.key = "a", LIMIT(10, WEIR_RLS_DAY)},
    {.key = "b", LIMIT(3, WEIR_RLS_DAY)},
    {.key = "g", .name = "named", .has_limit = true, .policy = "fixed-window 5/d"},
    {.key = "q", .quota_mode = true, .atomic = true, LIMIT(4, WEIR_RLS_DAY)},
};

static int remote_setup(void **state)
{
    if (rls_setup(state) != 0)
        return -1;
    engine = fake_open();
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
    return 0;
}

static int remote_teardown(void **state)
{
    weir_rls_wait_cancel(&wait);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    fake_close(&engine->engine);
    return rls_teardown(state);
}

static void activate_domain(const weir_rls_options *options, bool atomic)
{
    const weir_rls_domain_spec domain = {"d", atomic, specs, 4};
    activate(options, &domain, 1);
}

/* Moves the bytes of a request elsewhere, as the buffer of a connection may. */
static void move(kit_request *to, const kit_request *from, char *bytes)
{
    *to = *from;
    to->request.descriptors = to->descriptor;
    for (size_t i = 0; i < to->request.descriptors_len; i++) {
        weir_rls_descriptor *d = &to->descriptor[i];
        d->entries = &to->entry[d->entries - from->entry];
    }
    for (size_t i = 0; i < to->entries; i++) {
        weir_slice *parts[] = {&to->entry[i].key, &to->entry[i].value};
        for (int k = 0; k < 2; k++) {
            memcpy(bytes, parts[k]->at, parts[k]->len);
            parts[k]->at = bytes;
            bytes += parts[k]->len;
        }
    }
}

/* Leaves in the loop what requests of other sessions may leave there. */
static void use_loop_otherwise(void)
{
    memset(loop->plan, 0xa5, sizeof loop->plan);
    memset(loop->item, 0xa5, sizeof loop->item);
    memset(loop->take, 0xa5, sizeof loop->take);
    memset(loop->status, 0xa5, sizeof loop->status);
}

/* Decides a request, answering each batch of the engine when it is asked.
 *  waits  how often the request must wait. */
static weir_rls_response decide_waiting(const kit_request *r, int waits)
{
    weir_rls_response response;
    kit_request moved[2];
    char bytes[2][256];
    for (int i = 0; i < waits; i++) {
        move(&moved[i % 2], r, bytes[i % 2]);
        assert_int_equal(weir_rls_decide(loop, &wait, &moved[i % 2].request, 1, &response, now_ns),
                         0);
        assert_int_equal(weir_rls_decide(loop, &wait, &moved[i % 2].request, 1, &response, now_ns),
                         0); /* a call too early changes nothing */
        int before = wakes;
        assert_int_equal(engine->batches, 1);
        fake_reply(engine, 0, now_ns);
        use_loop_otherwise();
        assert_int_equal(wakes, before + 1);
    }
    assert_int_equal(weir_rls_decide(loop, &wait, &r->request, 1, &response, now_ns), 1);
    assert_int_equal(engine->batches, 0);
    assert_null(wait.config);
    assert_null(wait.partial);
    return response;
}

static kit_request *both(kit_request *r, uint32_t hits)
{
    add(begin(r, "d", hits), "a=v");
    add(r, "b=v");
    return r;
}

static void expect_left(const weir_rls_response *response, uint32_t first, uint32_t second)
{
    assert_int_equal(response->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(response->statuses[0].remaining, first);
    assert_int_equal(response->statuses[1].remaining, second);
}

static void a_request_waits_for_its_engine(void **unused)
{
    (void)unused;
    activate_domain(&remote, false);
    kit_request r;
    weir_rls_response response = decide_waiting(both(&r, 2), 1);
    expect_left(&response, 8, 1);
    response = decide_waiting(&r, 1);
    expect_left(&response, 6, 0);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(stat("rate_limit.d.a.within_limit"), 4);
    assert_int_equal(stat("rate_limit.d.b.over_limit"), 2); /* the count before is not known */
    engine->immediate = true;
    response = decide_waiting(&r, 0);
    expect_left(&response, 4, 0);
}

/* For header fields, the engine reports when the next unit comes. */
static void the_next_unit_is_known(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        weir_rls_options options = remote;
        options.flavours = WEIR_HEADERS_IETF;
        engine->reports_next = i == 1;
        activate_domain(&options, false);
        kit_request r;
        add(begin(&r, "d", 3), i ? "b=v" : "b=w");
        weir_rls_response response = decide_waiting(&r, 1);
        assert_int_equal(response.decided_len, 1);
        assert_int_equal(response.decided[0].decision->remaining, 0);
        assert_int_equal(response.decided[0].next_ns,
                         i ? response.decided[0].decision->reset_after_ns : WEIR_NEXT_UNKNOWN);
    }
}

/* While it waits, other requests arrive after it, the configuration is replaced, and the answer is
 * that of the one it began with. */
static void a_waiting_request_keeps_its_configuration(void **unused)
{
    (void)unused;
    kit_request r[3];
    weir_rls_request list[3];
    weir_rls_response got[3];
    activate_domain(&remote, false);
    for (int i = 0; i < 3; i++) {
        add(begin(&r[i], "d", 0), "g=v");
        list[i] = r[i].request;
    }
    assert_int_equal(weir_rls_decide(loop, &wait, list, 2, got, now_ns), 0);
    const weir_rls_spec other = {.key = "g", LIMIT(7, WEIR_RLS_HOUR)};
    activate_one(&remote, &other, 1);
    fake_reply(engine, 0, now_ns);
    assert_int_equal(weir_rls_decide(loop, &wait, list, 3, got, now_ns), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(got[i].statuses[0].remaining, 4 - i);
        assert_memory_equal(got[i].statuses[0].name.at, "named", 5);
    }
    assert_int_equal(weir_rls_decide(loop, &wait, list + 2, 1, got + 2, now_ns), 0);
    fake_reply(engine, 0, now_ns);
    assert_int_equal(weir_rls_decide(loop, &wait, list + 2, 1, got + 2, now_ns), 1);
    assert_int_equal(got[2].statuses[0].requests_per_unit, 7);
}

static void an_atomic_request_waits_for_each_call(void **unused)
{
    (void)unused;
    kit_request r;
    activate_domain(&remote, true);
    weir_rls_response response = decide_waiting(both(&r, 2), 1);
    expect_left(&response, 8, 1);
    add(&r, "q=v");
    response = decide_waiting(&r, 3); /* the limit in quota_mode is asked before and afterwards */
    expect_left(&response, 8, 0);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(response.statuses[2].remaining, 4);
    r.request.hits_addend = 1;
    response = decide_waiting(&r, 3);
    expect_left(&response, 7, 0);
    assert_int_equal(response.statuses[2].remaining, 3);
}

static void hits_are_given_back_before_others_are_taken(void **unused)
{
    (void)unused;
    kit_request r;
    const weir_rls_options options = {.engine = WEIR_ENGINE_REDIS, .stop_when_over = true};
    activate_domain(&options, false);
    decide_waiting(both(&r, 3), 1);
    add(&r, "g=v");
    r.descriptor[0].negative = r.descriptor[1].negative = true;
    weir_rls_response response = decide_waiting(&r, 3);
    expect_left(&response, 10, 3);
    assert_int_equal(response.statuses[2].remaining, 2);
}

static void a_report_charges_all(void **unused)
{
    (void)unused;
    kit_request r;
    activate_domain(&remote, false);
    add(begin(&r, "d", 7), "g=v");
    r.request.verb = WEIR_RLS_REPORT;
    weir_rls_response response = decide_waiting(&r, 2);
    assert_int_equal(response.code, WEIR_RLS_OK);
    r.request.verb = WEIR_RLS_CHECK;
    r.request.hits_addend = 1;
    assert_int_equal(decide_waiting(&r, 1).code, WEIR_RLS_OVER_LIMIT);
}

/* Also one by a limit in shadow_mode, whose decision is that it would have denied. */
static void a_report_in_shadow_mode_charges_all(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {
        .key = "s", .shadow_mode = true, .has_limit = true, .policy = "fixed-window 5/d"};
    activate_one(&remote, &spec, 1);
    kit_request r;
    add(begin(&r, "d", 3), "s=v");
    r.request.verb = WEIR_RLS_REPORT;
    assert_int_equal(decide_waiting(&r, 2).statuses[0].remaining, 2);
    expect_status(decide_waiting(&r, 2).statuses[0], WEIR_RLS_OK, 0, 86400);
    assert_int_equal(stat("rate_limit.d.s.shadow_mode"), 1);
    r.request.verb = WEIR_RLS_CHECK;
    r.request.hits_addend = 1;
    assert_int_equal(decide_waiting(&r, 1).statuses[0].remaining, 0);
}

/* Late hits need a peek and a charge. If the server is down, on_error decides the peek. */
static void late_hits_of_an_engine(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {
        .key = "l", .late = true, .has_limit = true, .policy = "fixed-window 5/d"};
    activate_one(&remote, &spec, 1);
    kit_request r;
    add(begin(&r, "d", 4), "l=v");
    expect_status(decide_waiting(&r, 2).statuses[0], WEIR_RLS_OK, 1, 86400);
    expect_status(decide_waiting(&r, 2).statuses[0], WEIR_RLS_OK, 0, 86400);
    expect_status(decide_waiting(&r, 2).statuses[0], WEIR_RLS_OVER_LIMIT, 0, 86400);
    assert_int_equal(stat("rate_limit.d.l.total_hits"), 12);
    assert_int_equal(stat("rate_limit.d.l.over_limit"), 7);
}

/* What another limit denied was not made, also after several calls. */
static void an_atomic_request_is_denied_while_it_waits(void **unused)
{
    (void)unused;
    kit_request r;
    activate_domain(&remote, true);
    (void)decide_waiting(both(&r, 2), 1);
    add(begin(&r, "d", 5), "a=v");
    (void)decide_waiting(&r, 1);
    add(both(&r, 2), "q=v");
    weir_rls_response response = decide_waiting(&r, 3); /* denied by b */
    expect_left(&response, 3, 0);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 7);
    assert_int_equal(stat("rate_limit.d.a.near_limit"), 0); /* of 10, it would have reached 9 */
    assert_int_equal(stat("rate_limit.d.b.over_limit"), 2);
    assert_int_equal(stat("rate_limit.d.q.total_hits"), 0);
}

/* A peek is answered before anything is charged, also if the charge waits. */
static void a_peek_denies_a_request_that_waits(void **unused)
{
    (void)unused;
    kit_request r;
    activate_domain(&remote, true);
    (void)decide_waiting(both(&r, 2), 1);
    both(&r, 1)->descriptor[1].has_hits = true; /* 0 */
    weir_rls_response response = decide_waiting(&r, 2);
    assert_int_equal(response.code, WEIR_RLS_OK);
    expect_left(&response, 7, 1);
    (void)decide_waiting(both(&r, 1), 1);
    both(&r, 1)->descriptor[1].has_hits = true; /* 0 */
    response = decide_waiting(&r, 2);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    expect_left(&response, 6, 0);
}

/* A limit whose rule is gone stays left out, however often the request waits. */
static void an_atomic_request_waits_without_a_rule(void **unused)
{
    (void)unused;
    static const char *const rules[] = {"d.a", "d.b"};
    for (int gone = 0; gone < 2; gone++) {
        activate_domain(&remote, true);
        assert_int_equal(weir_limiter_drop_rule(limiter, rules[gone], 3), WEIR_OK);
        kit_request r;
        add(both(&r, 1), "q=v");
        weir_rls_response response = decide_waiting(&r, 3);
        assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
        assert_int_equal(response.code, WEIR_RLS_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(response.statuses[i].has_limit, i != gone);
        assert_int_equal(response.statuses[!gone].remaining, gone ? 9 : 2);
        assert_int_equal(response.statuses[2].remaining, 3 - (uint32_t)gone);
    }
}

/* A failure of an earlier call is the answer, with its reason. */
static void a_failure_is_kept_while_other_calls_wait(void **unused)
{
    (void)unused;
    const weir_rls_options options = {.engine = WEIR_ENGINE_REDIS, .stop_when_over = true};
    activate_domain(&options, false);
    kit_request r;
    weir_rls_response response;
    both(&r, 1)->descriptor[0].negative = true;
    engine->status = WEIR_E_IO;
    engine->reason = "the server is away";
    assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
    fake_reply(engine, 0, now_ns);
    engine->status = WEIR_OK;
    response = decide_waiting(&r, 1);
    assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
    assert_string_equal(response.why, "the server is away");
}

/* A request that is given up at any of its calls leaves nothing behind. */
static void a_request_can_be_cancelled(void **unused)
{
    (void)unused;
    kit_request r;
    weir_rls_response response;
    activate_domain(&remote, true);
    add(both(&r, 1), "q=v");
    for (int waits = 0; waits < 3; waits++) {
        assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
        for (int i = 0; i < waits; i++) {
            fake_reply(engine, 0, now_ns);
            assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
        }
        weir_rls_wait_cancel(&wait);
        assert_int_equal(engine->batches, 0);
        assert_null(wait.partial);
    }
    assert_int_equal(engine->abandoned, 3);
    assert_int_equal(decide_waiting(&r, 3).code, WEIR_RLS_OK);
}

static void a_failure_of_the_engine_is_unavailable(void **unused)
{
    (void)unused;
    kit_request r;
    engine->status = WEIR_E_IO;
    engine->reason = "the server is away";
    for (int atomic = 0; atomic < 2; atomic++) {
        activate_domain(&remote, atomic == 1);
        weir_rls_response response = decide_waiting(both(&r, 1), 1);
        assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
        assert_string_equal(response.why, "the server is away");
    }
    assert_int_equal(stat("call.should_rate_limit.redis_error"), 2);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 0);
    engine->status = WEIR_OK;
    engine->by_error = true;
    const weir_rls_options closed = {.engine = WEIR_ENGINE_REDIS, .on_error = WEIR_ON_ERROR_CLOSED};
    activate_domain(&closed, false);
    assert_int_equal(decide_waiting(&r, 1).code, WEIR_RLS_OVER_LIMIT);
    activate_domain(&remote, false);
    assert_int_equal(decide_waiting(&r, 1).code, WEIR_RLS_OK);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    weir_rls_response response = decide_waiting(&r, 0);
    assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
    assert_non_null(strstr(response.why, "no server is configured"));
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, remote_setup, remote_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_request_waits_for_its_engine),
        TEST(the_next_unit_is_known),
        TEST(a_waiting_request_keeps_its_configuration),
        TEST(an_atomic_request_waits_for_each_call),
        TEST(an_atomic_request_is_denied_while_it_waits),
        TEST(a_peek_denies_a_request_that_waits),
        TEST(an_atomic_request_waits_without_a_rule),
        TEST(hits_are_given_back_before_others_are_taken),
        TEST(late_hits_of_an_engine),
        TEST(a_report_charges_all),
        TEST(a_report_in_shadow_mode_charges_all),
        TEST(a_request_can_be_cancelled),
        TEST(a_failure_of_the_engine_is_unavailable),
        TEST(a_failure_is_kept_while_other_calls_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
