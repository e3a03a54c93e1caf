/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service when memory runs out: what is answered, and that nothing is lost. */

#include "service/fake_engine_test.h"

#include "kit_test.h"

#include "port/locks_kit_test.h"
#include "port/memory_kit_test.h"

#define PER_DAY(n) .has_limit = true, .requests_per_unit = (n), .unit = WEIR_RLS_DAY

static const weir_rls_options plain;

static const char *const replaces[] = {"first", "other"};
static const weir_rls_spec inner[] = {{.key = "c", .value = "*", PER_DAY(9)}};
static weir_rls_value member = {.kind = WEIR_RLS_TEXT, .name = {"n", 1}, .text = {"text", 4}};
static const weir_rls_value metadata = {.kind = WEIR_RLS_MAP, .first = &member};
static const weir_rls_spec specs[] = {
    {.key = "a", .name = "first", .descriptors = inner, .descriptors_len = 1, PER_DAY(5)},
    {.key = "b",
     .name = "second",
     .replaces = replaces,
     .replaces_len = 2,
     .has_limit = true,
     .policy = "gcra 1/s"},
    {.key = "detailed", .detailed_metric = true, .metadata = &metadata, PER_DAY(5)},
    {.key = "quota", .quota_mode = true, PER_DAY(5)},
};
static const weir_rls_domain_spec domain = {
    .domain = "d", .descriptors = specs, .descriptors_len = 4};

/* ---- configurations -------------------------------------------------------------------------- */

static bool build(uint64_t n, bool later)
{
    const weir_rls_options options = {.flavours = 1, .limit_header = "L", .metadata = true};
    weir_rls_config *c = NULL;
    weir_rls_config_error e = {.text = ""};
    memory_fail(n, later);
    weir_status st = weir_rls_config_build(&c, NULL, &options, &domain, 1, &e);
    bool failed = memory_stop();
    assert_int_equal(st, failed ? WEIR_E_NOMEM : WEIR_OK);
    assert_int_equal(c != NULL, !failed);
    assert_string_equal(e.text, "");
    weir_rls_config_drop(c);
    return failed;
}

static void a_configuration_needs_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(build);
}

/* A configuration that fills many blocks: each of them may be the one that fails. */
static bool build_large(uint64_t n, bool later)
{
    enum { LIMITS = 1200 };
    static char keys[LIMITS][128], names[LIMITS][16];
    static weir_rls_spec many[LIMITS];
    for (size_t i = 0; i < LIMITS && keys[i][0] == '\0'; i++) {
        snprintf(keys[i], sizeof keys[i], "%0100zu", i);
        snprintf(names[i], sizeof names[i], "name%zu", i);
        many[i] = (weir_rls_spec){.key = keys[i], .name = names[i], PER_DAY(1)};
        many[i].policy = i % 3 == 0 ? "gcra 1/s" : NULL;
    }
    const weir_rls_domain_spec large = {
        .domain = "d", .descriptors = many, .descriptors_len = LIMITS};
    const weir_rls_options options = {.flavours = 1};
    weir_rls_config *c = NULL;
    weir_rls_config_error e;
    memory_fail(n, later);
    weir_status st = weir_rls_config_build(&c, NULL, &options, &large, 1, &e);
    bool failed = memory_stop();
    assert_int_equal(st, failed ? WEIR_E_NOMEM : WEIR_OK);
    weir_rls_config_drop(c);
    return failed;
}

static void a_large_configuration_needs_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(build_large);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void ignore_stat(void *ctx, const weir_rls_stat *found)
{
    (void)found;
    ++*(int *)ctx;
}

/* Opens all, decides, and reads the statistics. */
static bool open_and_decide(uint64_t n, bool later)
{
    weir_rls_config *c = NULL;
    weir_rls_config_error e;
    weir_rls_response response;
    weir_rls_wait own = {.config = NULL};
    const weir_rls_options options = {.metadata = true};
    int stats = 0;
    kit_request r;
    add(begin(&r, "d", 2), "detailed=v")->has_hits = true;
    memory_fail(n, later);
    weir_rls *shared = weir_rls_open();
    weir_rls_loop *l = shared ? weir_rls_loop_open(shared, service) : NULL;
    if (l && weir_rls_config_build(&c, NULL, &options, &domain, 1, &e) == WEIR_OK) {
        weir_rls_activate(shared, c);
        assert_int_equal(weir_rls_decide(l, &own, &r.request, 1, &response, now_ns), 1);
        if (response.failure != WEIR_RLS_ANSWERED)
            assert_string_equal(response.why, "out of memory");
        else
            assert_non_null(response.metadata);
        if (response.statuses_len > 0)
            assert_int_equal(response.statuses[0].requests_per_unit, 5);
        weir_rls_each_stat(shared, ignore_stat, &stats);
        assert_true(stats >= 7);
    }
    bool failed = memory_stop();
    weir_rls_loop_close(l);
    weir_rls_close(shared);
    return failed;
}

static void the_service_needs_memory(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns); /* the service allocates at its first use */
    fail_each_allocation(open_and_decide);
}

/* Closing frees all counters, names and configurations, and keeps the sums until then. */
static void all_is_freed(void **unused)
{
    enum { NAMES = 600 }; /* more than two blocks of counters */
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    weir_rls *shared = weir_rls_open();
    weir_rls_loop *loops[2];
    for (int i = 0; i < 2; i++)
        loops[i] = weir_rls_loop_open(shared, service);
    for (int i = 0; i < 2 * NAMES; i++) {
        weir_rls_wait own = {.config = NULL};
        weir_rls_response response;
        kit_request r;
        char text[32];
        if (i % NAMES == 0) {
            weir_rls_config *c;
            weir_rls_config_error e;
            assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), WEIR_OK);
            weir_rls_activate(shared, c);
        }
        snprintf(text, sizeof text, "detailed=v%d", i % NAMES);
        add(begin(&r, i == NAMES ? "" : "d", 1), text); /* one of them is refused */
        assert_int_equal(weir_rls_decide(loops[i / NAMES], &own, &r.request, 1, &response, now_ns),
                         1);
    }
    weir_rls *other = rls;
    rls = shared;
    for (int closed = 0; closed <= 2; closed++) {
        assert_int_equal(stat("rate_limit.d.detailed_v0.total_hits"), 1);
        assert_int_equal(stat("rate_limit.d.detailed_v1.total_hits"), 2);
        assert_int_equal(stat("rate_limit.d.detailed_v599.total_hits"), 2);
        assert_int_equal(stat("call.should_rate_limit.service_error"), 1);
        if (closed < 2)
            weir_rls_loop_close(loops[1 - closed]);
    }
    rls = other;
    weir_rls_close(shared);
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
}

/* Without memory for its counters, a loop answers, and counts nothing. */
static void counters_need_memory(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    memory_fail(0, true);
    assert_int_equal(ask("d", "a=v", 0, now_ns).remaining, 4);
    assert_true(memory_stop());
    assert_int_equal(ask("d", "a=v", 0, now_ns).remaining, 3);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 1);
    weir_rls_loop_close(loop); /* what was not counted is not counted elsewhere either */
    loop = weir_rls_loop_open(rls, service);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 1);
    assert_int_equal(stat("call.should_rate_limit.redis_error"), 0);
    assert_int_equal(stat("call.should_rate_limit.service_error"), 0);
}

/* Limits whose names cannot be stored are counted together. */
static void names_of_limits_need_memory(void **unused)
{
    (void)unused;
    weir_rls_config *c;
    weir_rls_config_error e;
    size_t len;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), WEIR_OK);
    set_rules(weir_rls_config_rules(c, &len), 5);
    memory_fail(1, true); /* the first limit's name is stored */
    weir_rls_activate(rls, c);
    assert_true(memory_stop());
    (void)ask("d", "a=v", 2, now_ns);
    (void)ask("d", "b=v", 3, now_ns);
    assert_int_equal(stat("rate_limit.d.a.total_hits"), 2);
    assert_int_equal(stat("rate_limit.(others).total_hits"), 3);
}

/* The end of a request that waited leaves its configuration to the loop, until the next call. */
static void a_replaced_configuration_is_freed(void **unused)
{
    (void)unused;
    fake_engine *engine = fake_open();
    const weir_rls_options remote = {.engine = WEIR_ENGINE_REDIS};
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
    activate(&remote, &domain, 1);
    kit_request r;
    weir_rls_response response;
    add(begin(&r, "d", 1), "a=v");
    uint64_t blocks = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
        activate(&remote, &domain, 1);
        fake_reply(engine, 0, now_ns);
        assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 1);
        if (i % 2 == 1) { /* the next call, or the end of the loop, frees it */
            weir_rls_loop_close(loop);
            loop = weir_rls_loop_open(rls, service);
        }
        (void)weir_rls_loop_config(loop);
        blocks = i == 1 ? port_load_relaxed(&memory.blocks) : blocks;
    }
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    fake_close(&engine->engine);
}

/* Once no more names from requests are stored, looking for one takes no lock. */
static void full_names_take_no_lock(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    rls->names.dynamic = RLS_DYNAMIC_MAX - 1;
    (void)ask("d", "detailed=last", 0, now_ns);
    size_t taken = locks.taken;
    (void)ask("d", "detailed=more", 0, now_ns);
    assert_int_equal(locks.taken, taken);
    assert_int_equal(stat("rate_limit.d.detailed_last.total_hits"), 1);
    assert_int_equal(stat("rate_limit.d.detailed.total_hits"), 1);
}

/* A name that memory does not suffice for is counted at the limit's own name. */
static void names_need_memory(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    memory_fail(0, true);
    (void)ask("d", "detailed=w", 0, now_ns);
    assert_true(memory_stop());
    assert_int_equal(stat("rate_limit.d.detailed.total_hits"), 1);
    assert_int_equal(stat("rate_limit.d.detailed_w.total_hits"), UINT64_MAX);
    assert_int_equal(stat("stat_names_not_stored"), 1);
    (void)ask("d", "detailed=w", 0, now_ns);
    assert_int_equal(stat("rate_limit.d.detailed_w.total_hits"), 1);
}

/* Without memory to sort them, the statistics are those of the names before. */
static void sorting_statistics_needs_memory(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    assert_int_equal(stat("rate_limit.d.detailed_v.total_hits"), 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    (void)ask("d", "detailed=w", 0, now_ns);
    memory_fail(0, true);
    assert_int_equal(stat("rate_limit.d.detailed_v.total_hits"), 2);
    assert_int_equal(stat("rate_limit.d.detailed_w.total_hits"), UINT64_MAX);
    assert_true(memory_stop());
    assert_int_equal(stat("rate_limit.d.detailed_w.total_hits"), 1);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A request that must keep the answers of earlier calls, and cannot, is unavailable. */
static void waiting_needs_memory(void **unused)
{
    (void)unused;
    fake_engine *engine = fake_open();
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine->engine);
    const weir_rls_domain_spec atomic = {"d", true, specs, 4};
    activate(&(weir_rls_options){.engine = WEIR_ENGINE_REDIS}, &atomic, 1);
    kit_request r;
    weir_rls_response response;
    add(begin(&r, "d", 1), "a=v");
    add(&r, "detailed=v");
    assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
    weir_rls_wait_cancel(&wait);
    size_t abandoned = engine->abandoned, refused = 0;
    for (uint64_t n = 0; refused == 0; n++) {
        uint64_t blocks = port_load_relaxed(&memory.blocks);
        memory_fail(n, false);
        size_t decided = weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns);
        assert_int_equal(decided, memory_stop());
        if (decided == 0)
            break;
        assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
        assert_int_equal(engine->batches, 0);
        refused = engine->abandoned - abandoned;
        assert_string_equal(refused ? response.why : "the store is full", "the store is full");
        assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    }
    assert_int_equal(refused, 1);
    assert_null(wait.partial);
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
    fake_reply(engine, 0, now_ns);
    assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 1);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks + 1); /* counters of the loop */
    add(&r, "quota=v");
    for (int waits = 0; waits < 3; waits++) {
        assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 0);
        fake_reply(engine, 0, now_ns);
    }
    assert_int_equal(weir_rls_decide(loop, &wait, &r.request, 1, &response, now_ns), 1);
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks + 1);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    fake_close(&engine->engine);
}

/* A loop that has the active configuration, and knows its names, takes no lock. */
static void deciding_takes_no_lock(void **unused)
{
    (void)unused;
    activate(&plain, &domain, 1);
    (void)ask("d", "detailed=v", 0, now_ns);
    size_t taken = locks.taken;
    (void)ask("d", "detailed=v", 0, now_ns);
    assert_int_equal(locks.taken, taken);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_configuration_needs_memory),
        TEST(a_large_configuration_needs_memory),
        TEST(the_service_needs_memory),
        TEST(all_is_freed),
        TEST(counters_need_memory),
        TEST(names_of_limits_need_memory),
        TEST(a_replaced_configuration_is_freed),
        TEST(full_names_take_no_lock),
        TEST(names_need_memory),
        TEST(sorting_statistics_needs_memory),
        TEST(waiting_needs_memory),
        TEST(deciding_takes_no_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
