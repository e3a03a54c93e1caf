/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's limits with an engine that answers later, with one that fails, with changes of the
 * limits meanwhile; and memory that runs out. */

#include "limitador/limitador.h"

#include "rls/entry_kit_test.h"
#include "service/fake_engine_test.h"
#include "service/kit_test.h"

#include "port/locks_kit_test.h"
#include "port/memory_kit_test.h"

#include <stdio.h>

static weir_limitador *shared;
static weir_limitador_loop *loop;
static fake_engine *fake;
static int ready;
static weir_rls_response response;

static void is_ready(void *ctx)
{
    (void)ctx;
    ready++;
}

static weir_completion completion = {.ready = is_ready};

static int open_all(void **state)
{
    int err = setup(state);
    fake = fake_open();
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &fake->engine);
    shared = weir_limitador_open();
    loop = weir_limitador_loop_open(shared, service);
    ready = 0;
    return err == 0 && shared && loop ? 0 : -1;
}

static int close_all(void **state)
{
    weir_completion_cancel(&completion);
    weir_limitador_loop_close(loop);
    weir_limitador_close(shared);
    int err = teardown(state);
    fake->engine.calls->close(&fake->engine);
    return err;
}

static const char *const by_user[] = {"descriptors[0].user"};

static weir_limitador_limit limits[] = {
    {.name_space = "ns", .name = "all", .max_value = 3, .seconds = 60},
    {.name_space = "ns",
     .name = "user",
     .max_value = 2,
     .seconds = 60,
     .variables = by_user,
     .variables_len = 1},
};

static void use(size_t n)
{
    const weir_limitador_options options = {.headers = true, .engine = WEIR_ENGINE_REDIS};
    weir_limitador_config *c;
    size_t len;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, n, NULL, NULL), WEIR_OK);
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &len);
    set_rules(rules, len);
    weir_limitador_activate(shared, c);
}

static bool ask(weir_rls_verb verb, uint32_t hits)
{
    /* The bytes of a request may move between the calls. */
    static char users[2][6] = {"alice", "alice"};
    static size_t calls;
    const weir_rls_entry entry = {{"user", 4}, {users[calls++ % 2], 5}};
    const weir_rls_descriptor d = {.entries = &entry, .entries_len = 1};
    const weir_rls_request r = {.verb = verb,
                                .domain = text_of("ns"),
                                .descriptors = &d,
                                .descriptors_len = 1,
                                .hits_addend = hits};
    return weir_limitador_decide(loop, &completion, &r, &response, now_ns);
}

/* Asks until the engine has answered. */
static weir_rls_code answer(weir_rls_verb verb, uint32_t hits)
{
    assert_false(ask(verb, hits));
    assert_false(ask(verb, hits));
    fake_reply(fake, 0, now_ns);
    while (!ask(verb, hits))
        fake_reply(fake, 0, now_ns);
    assert_false(weir_completion_is_pending(&completion));
    assert_int_equal(weir_completion_len(&completion), 0);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    return response.code;
}

static void test_pending(void **unused)
{
    (void)unused;
    use(2);
    assert_int_equal(answer(WEIR_RLS_CHECK, 0), WEIR_RLS_OK);
    assert_int_equal(answer(WEIR_RLS_CHECK_AND_REPORT, 2), WEIR_RLS_OK);
    assert_int_equal(response.headers_len, 3);
    assert_string_equal(response.headers[0].value, "2, 2;w=60;name=\"user\", 3;w=60;name=\"all\"");
    assert_string_equal(response.headers[1].value, "0");
    assert_int_equal(answer(WEIR_RLS_CHECK_AND_REPORT, 1), WEIR_RLS_OVER_LIMIT);
    assert_int_equal(answer(WEIR_RLS_CHECK, 0), WEIR_RLS_OVER_LIMIT);
    assert_int_equal(answer(WEIR_RLS_REPORT, 1), WEIR_RLS_OK);
    assert_int_equal(ready, 5);
}

static void test_failing_engine(void **unused)
{
    static const weir_rls_verb verbs[] = {WEIR_RLS_CHECK_AND_REPORT, WEIR_RLS_CHECK,
                                          WEIR_RLS_REPORT};
    (void)unused;
    use(2);
    fake->status = WEIR_E_IO;
    fake->reason = "no server replies";
    for (size_t i = 0; i < 3; i++) {
        assert_false(ask(verbs[i], 1));
        fake_reply(fake, 0, now_ns);
        assert_true(ask(verbs[i], 1));
        assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
        assert_string_equal(response.why, "no server replies");
    }
}

/* The answer has the reason of the limit that failed, whichever limit that is. */
static void test_one_failing_limit(void **unused)
{
    static const weir_rls_verb verbs[] = {WEIR_RLS_CHECK, WEIR_RLS_REPORT};
    (void)unused;
    fake->status = WEIR_E_IO;
    fake->reason = "no server replies";
    for (size_t i = 0; i < 4; i++) {
        weir_rule_spec rules[2];
        size_t len;
        use(2);
        memcpy(rules, weir_limitador_config_rules(weir_limitador_loop_config(loop), &len),
               sizeof rules);
        rules[i % 2].engine = WEIR_ENGINE_LOCAL;
        set_rules(rules, 2);
        assert_false(ask(verbs[i / 2], 1));
        fake_reply(fake, 0, now_ns);
        assert_true(ask(verbs[i / 2], 1));
        assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
        assert_string_equal(response.why, "no server replies");
    }
}

/* A report of more hits than are left fills the counters that have less, at once and later. */
static void test_report_beyond_the_limit(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        fake->immediate = true;
        limits[0].seconds = limits[1].seconds = 61 - (uint64_t)i; /* other counters */
        use(2);
        assert_true(ask(WEIR_RLS_REPORT, 1)); /* 2 of all are left, and 1 of the user */
        assert_true(ask(WEIR_RLS_CHECK, 0));
        assert_int_equal(response.code, WEIR_RLS_OK);
        fake->immediate = i == 0;
        if (i == 0)
            assert_true(ask(WEIR_RLS_REPORT, 2));
        else
            assert_int_equal(answer(WEIR_RLS_REPORT, 2), WEIR_RLS_OK);
        assert_int_equal(response.code, WEIR_RLS_OK);
        fake->immediate = true;
        assert_true(ask(WEIR_RLS_CHECK, 0));
        assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
        use(1);
        assert_true(ask(WEIR_RLS_CHECK, 0));
        assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT); /* 3 of all are charged */
    }
}

/* If the limits change while a request waits, it is decided again by the new ones. */
static void test_changed_limits(void **unused)
{
    (void)unused;
    for (int fewer = 0; fewer < 2; fewer++) {
        use(fewer ? 2 : 1);
        assert_false(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
        use(fewer ? 1 : 2);
        assert_false(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
        assert_int_equal(fake->abandoned, fewer + 1);
        fake_reply(fake, 0, now_ns);
        assert_true(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
        assert_int_equal(response.code, WEIR_RLS_OK);
    }
    use(2);
    assert_false(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
    use(0);
    assert_true(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
    assert_int_equal(response.code, WEIR_RLS_OK);
    assert_false(weir_completion_is_pending(&completion));
}

/* A rule that is not active yet does not abandon the requests to the others. */
static void test_absent_rules(void **unused)
{
    weir_rule_spec rules[2];
    size_t len;
    (void)unused;
    use(2);
    memcpy(rules, weir_limitador_config_rules(weir_limitador_loop_config(loop), &len),
           sizeof rules);
    for (size_t i = 0; i < 2; i++) {
        set_rules(&rules[i], 1);
        assert_false(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
        fake_reply(fake, 0, now_ns);
        assert_true(ask(WEIR_RLS_CHECK_AND_REPORT, 1));
        assert_int_equal(fake->abandoned, 0);
        assert_int_equal(response.code, WEIR_RLS_OK);
        assert_string_equal(response.headers[0].value,
                            i == 0 ? "3, 3;w=60;name=\"all\"" : "2, 2;w=60;name=\"user\"");
    }
}

/* A limit with a 0 denies; the others are asked only for the headers. */
static void test_zero(void **unused)
{
    (void)unused;
    limits[0].max_value = 0;
    use(2);
    assert_int_equal(answer(WEIR_RLS_CHECK_AND_REPORT, 1), WEIR_RLS_OVER_LIMIT);
    assert_string_equal(response.headers[0].value, "0, 0;w=60;name=\"all\", 2;w=60;name=\"user\"");
    limits[0].max_value = 3;
    use(2);
    assert_int_equal(answer(WEIR_RLS_CHECK_AND_REPORT, 2), WEIR_RLS_OK);
}

/* A loop that has the active limits takes no lock. */
static void test_locks(void **unused)
{
    (void)unused;
    fake->immediate = true;
    use(2);
    assert_true(ask(WEIR_RLS_CHECK, 0));
    size_t taken = locks.taken;
    assert_true(ask(WEIR_RLS_CHECK, 0));
    assert_int_equal(locks.taken, taken);
    weir_limitador_loop_close(loop);
    loop = weir_limitador_loop_open(shared, service);
    taken = locks.taken;
    assert_true(weir_limitador_has(loop, text_of("ns")));
    assert_int_equal(locks.taken, taken);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void put_counter(void *ctx, const weir_limitador_counter *c)
{
    char *to = (char *)ctx + strlen(ctx);
    if (c->has_state)
        snprintf(to, 200, "%s %d %d;", c->limit->rule, (int)c->remaining,
                 (int)(c->expires_ns / s_ns));
    else
        snprintf(to, 200, "%s ?;", c->limit->rule);
}

static char listed[2000];

static bool list(weir_buffer *kept)
{
    listed[0] = '\0';
    return weir_limitador_counters(loop, &completion, kept, text_of("ns"), now_ns, put_counter,
                                   listed);
}

/* The engine is asked for one counter after the other. Those without charges are left out. */
static void test_counters(void **unused)
{
    (void)unused;
    weir_buffer kept;
    weir_buffer_init(&kept, 1 << 20);
    limits[1].variables_len = 0;
    limits[1].seconds = 30;
    use(2);
    limits[1].variables_len = 1;
    limits[1].seconds = 60;
    assert_int_equal(answer(WEIR_RLS_CHECK_AND_REPORT, 2), WEIR_RLS_OK);
    for (int i = 0; i < 2; i++) {
        assert_false(list(&kept));
        fake_reply(fake, 0, now_ns);
    }
    assert_true(list(&kept));
    assert_string_equal(listed, "ns:all 1 60;ns:user 0 30;");
    weir_buffer_clear(&kept);

    assert_false(list(&kept)); /* the limits change: the answer is not used */
    limits[0].max_value = 5;
    use(1);
    limits[0].max_value = 3;
    size_t abandoned = fake->abandoned;
    assert_false(list(&kept));
    assert_int_equal(fake->abandoned, abandoned + 1);
    fake_reply(fake, 0, now_ns);
    assert_true(list(&kept));
    assert_string_equal(listed, "");
    weir_buffer_clear(&kept);

    fake->immediate = fake->by_error = true; /* what on_error decides is not the state */
    assert_true(list(&kept));
    assert_string_equal(listed, "ns:all ?;");
    weir_buffer_free(&kept);

    weir_buffer_init(&kept, 16);
    assert_true(list(&kept));
    assert_true(kept.failed);
    assert_string_equal(listed, "");
    weir_buffer_free(&kept);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void count(void *ctx, const weir_limitador_count *c)
{
    *(uint64_t *)ctx += c->authorized_calls;
}

static void ignore_counter(void *ctx, const weir_limitador_counter *c)
{
    (void)ctx;
    assert_true(c->remaining < c->limit->limit.max_value);
}

/* Builds limits of which one is a duplicate. */
static bool build(uint64_t n, bool later)
{
    static const char *const conditions[] = {"descriptors[0].user != 'bob'", "true", "1 < 2"};
    const weir_limitador_options options = {.headers = true};
    weir_limitador_limit list[] = {limits[0], limits[1], limits[1], limits[0]};
    weir_limitador_config *c = NULL;
    list[3].conditions = conditions;
    list[3].conditions_len = 3;
    memory_fail(n, later);
    weir_status st = weir_limitador_config_build(&c, &options, list, 4, NULL, NULL);
    bool failed = memory_stop();
    size_t rules = 3;
    if (st == WEIR_OK)
        (void)weir_limitador_config_rules(c, &rules);
    assert_int_equal(rules, 3);
    /* Memory that could be given back is kept if there is none to copy it to. */
    assert_int_equal(st, failed && (later || !c) ? WEIR_E_NOMEM : WEIR_OK);
    weir_limitador_config_drop(c);
    return failed;
}

static void test_memory_for_limits(void **unused)
{
    (void)unused;
    fail_each_allocation(build);
}

static bool build_and_decide(uint64_t n, bool later)
{
    const weir_limitador_options options = {.headers = true};
    const weir_rls_entry entry = {{"user", 4}, {"alice", 5}};
    const weir_rls_descriptor d = {.entries = &entry, .entries_len = 1};
    const weir_rls_request r = {.domain = text_of("ns"), .descriptors = &d, .descriptors_len = 1};
    const weir_rls_request other = {.domain = text_of("other")};
    weir_limitador_config *c = NULL;
    uint64_t calls = 0;
    memory_fail(n, later);
    weir_limitador *l = weir_limitador_open();
    weir_limitador_loop *one = l ? weir_limitador_loop_open(l, service) : NULL;
    if (one && weir_limitador_config_build(&c, &options, limits, 2, NULL, NULL) == WEIR_OK) {
        weir_limitador_activate(l, c);
        assert_true(weir_limitador_decide(one, NULL, &r, &response, now_ns));
        assert_true(weir_limitador_decide(one, NULL, &other, &response, now_ns));
        weir_buffer kept;
        weir_buffer_init(&kept, 1 << 20);
        assert_true(
            weir_limitador_counters(one, NULL, &kept, r.domain, now_ns, ignore_counter, NULL));
        weir_buffer_free(&kept);
        weir_limitador_counts(l, count, &calls);
        assert_true(calls <= 2);
    }
    bool failed = memory_stop();
    weir_limitador_loop_close(one);
    weir_limitador_close(l);
    return failed;
}

/* A request whose keys do not fit in memory is refused, not decided with a part of them. */
static void test_memory_for_keys(void **unused)
{
    static char value[1000];
    const weir_limitador_options options = {.headers = false};
    const weir_rls_entry entry = {{"user", 4}, {value, sizeof value}};
    const weir_rls_descriptor d = {.entries = &entry, .entries_len = 1};
    const weir_rls_request r = {.domain = text_of("ns"), .descriptors = &d, .descriptors_len = 1};
    weir_limitador_config *c;
    size_t len;
    (void)unused;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, 2, NULL, NULL), WEIR_OK);
    set_rules(weir_limitador_config_rules(c, &len), 2);
    weir_limitador_activate(shared, c);
    static const struct {
        size_t escape; /* where the value has a '|' */
        uint64_t allocations;
    } rows[] = {
        {257, 3}, /* "*"; the escape; what follows it */
        {900, 2}, /* "*"; what precedes the escape */
    };
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, now_ns)); /* opens the service */
    for (size_t i = 0; i < 2; i++) {
        memset(value, 'v', sizeof value);
        value[rows[i].escape] = '|';
        for (uint64_t n = 0; n <= rows[i].allocations; n++) { /* the last one is of the counts */
            weir_limitador_loop_close(loop);
            loop = weir_limitador_loop_open(shared, service);
            memory_fail(n, false);
            assert_true(weir_limitador_decide(loop, NULL, &r, &response, now_ns));
            assert_true(memory_stop());
            assert_int_equal(response.failure,
                             n < rows[i].allocations ? WEIR_RLS_UNAVAILABLE : WEIR_RLS_ANSWERED);
        }
    }
}

static void test_memory(void **unused)
{
    const weir_limitador_options options = {.headers = true};
    weir_limitador_config *c;
    size_t len;
    (void)unused;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, 2, NULL, NULL), WEIR_OK);
    set_rules(weir_limitador_config_rules(c, &len), 2);
    weir_limitador_config_drop(c);
    (void)build_and_decide(UINT64_MAX >> 1, false); /* the service allocates at its first use */
    fail_each_allocation(build_and_decide);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pending),
        TEST(test_failing_engine),
        TEST(test_one_failing_limit),
        TEST(test_report_beyond_the_limit),
        TEST(test_changed_limits),
        TEST(test_absent_rules),
        TEST(test_zero),
        TEST(test_counters),
        TEST(test_locks),
        TEST(test_memory_for_keys),
        TEST(test_memory_for_limits),
        TEST(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
