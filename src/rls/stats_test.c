/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Statistics: their names, their order, their number, and the sums over several loops. */

#include "kit_test.h"

static const weir_rls_options plain;

#define PER_DAY(n) .has_limit = true, .requests_per_unit = (n), .unit = WEIR_RLS_DAY

static void names_are_sanitised_as_by_the_reference(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"d.k_v", "d.k_v"},
        {"d.a:b|c", "d.a_b_c"},
        {"d.a\nb\t\x7f\xc3\xbc", "d.a_b__\xc3\xbc"},
        {"d.ip_10.0.0.1", "d.ip_10_0_0_1"},
        {"1.2.3.4.5.6.7.8.9", "1_2_3_4.5_6_7_8.9"},
        {"1234.5.6.7.", "1234_5_6_7."},
        {"1.2345.6.7.8", "1.2345_6_7_8"},
        {"1.2.3", "1.2.3"},
        {"1.2.3.", "1.2.3."},
        {"1.2.3.4444", "1_2_3_4444"},
        {"1..2.3.4", "1..2.3.4"},
        {"255.254.253.252", "255_254_253_252"},
        {"x100.200.30.4.5", "x100_200_30_4.5"},
        {"/0.9:", "/0.9_"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        rls_sanitise(text, strlen(text));
        assert_string_equal(text, rows[i][1]);
    }
}

/* What follows a name in memory is neither read nor changed. */
static void only_the_name_is_sanitised(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        size_t len;
        const char *expected;
    } rows[] = {
        {"1.2.3.4", 5, "1.2.3.4"},     {"ab1.2.3.4", 7, "ab1.2.3.4"},   {"1.2.3.4", 6, "1.2.3.4"},
        {"x|1.2.3.4", 2, "x_1.2.3.4"}, {"1.2.3.45.6", 7, "1_2_3_45.6"}, {":|", 1, "_|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i].text);
        rls_sanitise(text, rows[i].len);
        assert_string_equal(text, rows[i].expected);
    }
}

typedef struct listing {
    weir_buffer out;
    char last[RLS_STAT_MAX + 128];
} listing;

static void list_stat(void *ctx, const weir_rls_stat *stat)
{
    listing *l = ctx;
    assert_true(strcmp(l->last, stat->name) < 0);
    snprintf(l->last, sizeof l->last, "%s", stat->name);
    bool of_service = strncmp(stat->name, "ratelimit.service.", 18) == 0;
    const char *shown = stat->name + (of_service ? 18 : 0);
    weir_buffer_printf(&l->out, "%s [%.*s] [%.*s] [%.*s] %llu\n", shown, (int)stat->domain.len,
                       stat->domain.at, (int)stat->key.len, stat->key.at, (int)stat->what.len,
                       stat->what.at, (unsigned long long)stat->value);
}

static void statistics_are_sorted_by_name(void **unused)
{
    (void)unused;
    const weir_rls_spec inner = {.key = "m", PER_DAY(1)};
    const weir_rls_spec spec = {
        .key = "ip", .value = "10.0.0.1", .descriptors = &inner, .descriptors_len = 1, PER_DAY(2)};
    const weir_rls_domain_spec domain = {"d:x", false, &spec, 1};
    activate(&plain, &domain, 1);
    ask("d:x", "ip=10.0.0.1|m=v", 3, now_ns);
    ask("no:1", "k=v", 0, now_ns);
    listing l = {.last = ""};
    weir_buffer_init(&l.out, 1 << 16);
    weir_rls_each_stat(rls, list_stat, &l);
    weir_buffer_append(&l.out, "", 1);
    assert_string_equal(
        (const char *)weir_buffer_data(&l.out),
        "call.should_rate_limit.redis_error [] [] [redis_error] 0\n"
        "call.should_rate_limit.service_error [] [] [service_error] 0\n"
        "config_load_error [] [] [config_load_error] 0\n"
        "config_load_success [] [] [config_load_success] 1\n"
        "global_shadow_mode [] [] [global_shadow_mode] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.m.near_limit [d_x] [ip_10_0_0_1.m] [near_limit] 1\n"
        "rate_limit.d_x.ip_10_0_0_1.m.over_limit [d_x] [ip_10_0_0_1.m] [over_limit] 2\n"
        "rate_limit.d_x.ip_10_0_0_1.m.over_limit_with_local_cache [d_x] [ip_10_0_0_1.m] "
        "[over_limit_with_local_cache] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.m.shadow_mode [d_x] [ip_10_0_0_1.m] [shadow_mode] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.m.total_hits [d_x] [ip_10_0_0_1.m] [total_hits] 3\n"
        "rate_limit.d_x.ip_10_0_0_1.m.within_limit [d_x] [ip_10_0_0_1.m] [within_limit] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.near_limit [d_x] [ip_10_0_0_1] [near_limit] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.over_limit [d_x] [ip_10_0_0_1] [over_limit] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.over_limit_with_local_cache [d_x] [ip_10_0_0_1] "
        "[over_limit_with_local_cache] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.shadow_mode [d_x] [ip_10_0_0_1] [shadow_mode] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.total_hits [d_x] [ip_10_0_0_1] [total_hits] 0\n"
        "rate_limit.d_x.ip_10_0_0_1.within_limit [d_x] [ip_10_0_0_1] [within_limit] 0\n"
        "rate_limit.no_1.domain_not_found [no_1] [] [domain_not_found] 1\n"
        "stat_names_not_stored [] [] [stat_names_not_stored] 0\n"
        "ratelimit_server.ShouldRateLimit.total_requests [] [] [total_requests] 2\n");
    weir_buffer_free(&l.out);
}

/* Also where one name begins another, and its next byte is less or greater than a dot. */
/* With dots_replaced, only the dots between the parts of a name and those of the domain stay. */
static void dots_are_replaced(void **unused)
{
    (void)unused;
    static const weir_rls_options options = {.dots_replaced = true};
    const weir_rls_spec inner = {.key = "p.q", .value = "/a.B/*", PER_DAY(1)};
    const weir_rls_spec specs[] = {
        {.key = "h.i", .value = "x.y", .descriptors = &inner, .descriptors_len = 1, PER_DAY(2)},
        {.key = "d.e", .detailed_metric = true, PER_DAY(2)},
        {.key = "v.m", .value_to_metric = true, PER_DAY(2)}};
    const weir_rls_domain_spec domain = {"do.main", false, specs, 3};
    activate(&options, &domain, 1);
    assert_int_equal(ask("do.main", "h.i=x.y|p.q=/a.B/c.d", 1, now_ns).requests_per_unit, 1);
    ask("do.main", "h.i=x.y", 2, now_ns);
    ask("do.main", "d.e=f.g", 3, now_ns);
    ask("do.main", "v.m=1.2", 4, now_ns);
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "do.main", 5), "o.p=q.r");
    d->has_override = true;
    d->override = (weir_rls_override){1, WEIR_RLS_DAY};
    decide(&r, now_ns);
    assert_int_equal(stat("rate_limit.do.main.h_i_x_y.p_q_/a_B/*.total_hits"), 1);
    assert_int_equal(stat("rate_limit.do.main.h_i_x_y.total_hits"), 2);
    assert_int_equal(stat("rate_limit.do.main.d_e_f_g.total_hits"), 3);
    assert_int_equal(stat("rate_limit.do.main.v_m_1_2.total_hits"), 4);
    assert_int_equal(stat("rate_limit.do.main.o_p_q_r.total_hits"), 5);
}

static void statistics_are_sorted_with_their_last_part(void **unused)
{
    (void)unused;
    static const char *const keys[] = {
        "m", "k.z", "k0", "k", "k-x", "k.near", "k.over_limit", "k.total_hits.x", "a", "k.n"};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    weir_rls_spec specs[KEYS];
    for (size_t i = 0; i < KEYS; i++)
        specs[i] = (weir_rls_spec){.key = keys[i], PER_DAY(1)};
    activate_one(&plain, specs, KEYS);
    ask("no", "k=v", 0, now_ns);
    ask("d.k", "k=v", 0, now_ns);
    ask("x", "k=v", 0, now_ns);
    listing l = {.last = ""};
    weir_buffer_init(&l.out, 1 << 16);
    weir_rls_each_stat(rls, list_stat, &l); /* asserts the order */
    weir_buffer_free(&l.out);
    assert_int_equal(stat("rate_limit.x.domain_not_found"), 1);
}

/* Names that are full or too many are counted together. */
static void names_are_bounded(void **unused)
{
    (void)unused;
    static char longest[RLS_STAT_MAX + 1];
    rls_names *n = &rls->names;
    size_t len = n->len;
    n->dynamic = RLS_DYNAMIC_MAX;
    assert_int_equal(rls_names_add(n, "x", 1, 0, true), RLS_NO_NAME);
    n->len = RLS_NAMES_MAX;
    assert_int_equal(rls_names_add(n, "x", 1, 0, false), RLS_NO_NAME);
    n->len = len;
    assert_int_equal(rls_names_add(n, "x", 1, 0, false), len);
    assert_int_equal(rls_names_find(n, "x", 1, 0), len);
    assert_int_equal(rls_names_find(n, "x", 1, 1), RLS_NO_NAME);
    memset(longest, 'x', sizeof longest);
    weir_rls_spec specs[] = {{.key = longest, PER_DAY(5)}, {.key = "later", PER_DAY(5)}};
    for (size_t i = RLS_STAT_MAX - 1; i >= RLS_STAT_MAX - 2; i--) { /* after "d." */
        char text[RLS_STAT_MAX + 64];
        longest[i] = '\0';
        activate_one(&plain, specs, 2);
        snprintf(text, sizeof text, "%s=v", longest);
        ask("d", text, 3, now_ns);
        snprintf(text, sizeof text, "rate_limit.d.%s.total_hits", longest);
        assert_int_equal(stat(text), i == RLS_STAT_MAX - 2 ? 3 : UINT64_MAX);
        assert_int_equal(stat("rate_limit.(others).total_hits"), 3);
    }
    ask("d", "later=v", 1, now_ns);
    assert_int_equal(stat("rate_limit.d.later.total_hits"), 1);
}

/* Names from requests are stored up to a limit. Then their hits count at the limit's own name, and
 * those of unknown domains at "(others)". */
static void names_from_requests_are_bounded(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", .detailed_metric = true, PER_DAY(5)};
    activate_one(&plain, &spec, 1);
    char text[RLS_STAT_MAX + 16];
    for (int i = 0; i < RLS_DYNAMIC_MAX + 3; i++) {
        snprintf(text, sizeof text, "k=v%d", i);
        ask("d", text, 0, now_ns);
    }
    assert_int_equal(stat("rate_limit.d.k_v0.total_hits"), 1);
    assert_int_equal(stat("rate_limit.d.k_v9999.total_hits"), 1);
    assert_int_equal(stat("rate_limit.d.k_v10000.total_hits"), UINT64_MAX);
    assert_int_equal(stat("rate_limit.d.k.total_hits"), 3);
    assert_int_equal(stat("stat_names_not_stored"), 3);
    ask("d", "k=v7", 0, now_ns);
    assert_int_equal(stat("rate_limit.d.k_v7.total_hits"), 2);
    assert_int_equal(stat("rate_limit.(others).domain_not_found"), UINT64_MAX);
    ask("unknown", "k=v", 0, now_ns);
    assert_int_equal(stat("rate_limit.(others).domain_not_found"), 1);
    kit_request r;
    weir_rls_descriptor *d = add(begin(&r, "d", 2), "k=v");
    d->has_override = true;
    d->override = (weir_rls_override){9, WEIR_RLS_DAY};
    decide(&r, now_ns);
    assert_int_equal(stat("rate_limit.(others).within_limit"), 2);
    assert_int_equal(stat("stat_names_not_stored"), 5);
    const weir_rls_spec more = {.key = "later", PER_DAY(5)};
    activate_one(&plain, &more, 1); /* names of configurations are stored nevertheless */
    ask("d", "later=x", 0, now_ns);
    assert_int_equal(stat("rate_limit.d.later.total_hits"), 1);
}

static void a_name_that_is_too_long_is_not_stored(void **unused)
{
    (void)unused;
    static char value[2 * RLS_STAT_MAX];
    const weir_rls_spec spec = {.key = "k", .value_to_metric = true, PER_DAY(5)};
    activate_one(&plain, &spec, 1);
    memset(value, 'x', sizeof value);
    kit_request r;
    add(begin(&r, "d", 0), "k=v");
    for (size_t len = RLS_STAT_MAX - 4; len < RLS_STAT_MAX - 2; len++) {
        r.entry[0].value = (weir_slice){value, len};
        assert_true(decide(&r, now_ns).statuses[0].has_limit);
    }
    assert_int_equal(stat("rate_limit.d.k.total_hits"), 1);
    assert_int_equal(stat("stat_names_not_stored"), 1);
    r.request.domain = (weir_slice){value, sizeof value};
    decide(&r, now_ns);
    assert_int_equal(stat("rate_limit.(others).domain_not_found"), 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 300 };

/* Decides on a loop of its own, with names that the other threads add too. */
static void run_loop(void *unused)
{
    (void)unused;
    weir_service *own_service;
    weir_rls_wait own_wait = {.config = NULL};
    if (weir_service_open(&own_service, limiter) != WEIR_OK)
        abort();
    weir_rls_loop *own = weir_rls_loop_open(rls, own_service);
    for (int i = 0; i < ROUNDS; i++) {
        kit_request r;
        weir_rls_response response;
        char text[32];
        snprintf(text, sizeof text, "k=v%d", i % 50);
        add(begin(&r, i % 10 == 0 ? "unknown" : "d", 0), text);
        if (weir_rls_decide(own, &own_wait, &r.request, 1, &response, now_ns + i) != 1)
            abort();
    }
    weir_rls_loop_close(own);
    weir_service_close(own_service);
}

static void loops_count_without_each_other(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", .detailed_metric = true, PER_DAY(1000)};
    activate_one(&plain, &spec, 1);
    port_thread *thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_non_null(thread[i] = port_thread_start(run_loop, NULL));
    for (int i = 0; i < 20; i++) { /* meanwhile, read and replace the configuration */
        stat("rate_limit.d.k_v1.total_hits");
        activate_one(&plain, &spec, 1);
    }
    for (int i = 0; i < THREADS; i++)
        port_thread_join(thread[i]);
    uint64_t sum = 0;
    for (int i = 0; i < 50; i++) {
        char name[64];
        snprintf(name, sizeof name, "rate_limit.d.k_v%d.total_hits", i);
        sum += i % 10 == 0 ? 0 : stat(name);
    }
    assert_int_equal(sum, THREADS * ROUNDS * 9 / 10);
    assert_int_equal(stat("rate_limit.unknown.domain_not_found"), THREADS * ROUNDS / 10);
}

static void it_knows_whether_there_are_limits(void **unused)
{
    const weir_rls_spec spec = {.key = "k", PER_DAY(1)};
    (void)unused;
    weir_rls *empty = weir_rls_open();
    assert_false(weir_rls_has_limits(empty));
    weir_rls_close(empty);
    activate_one(&plain, NULL, 0);
    assert_false(weir_rls_has_limits(rls));
    activate_one(&plain, &spec, 1);
    assert_true(weir_rls_has_limits(rls));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(names_are_sanitised_as_by_the_reference),
        TEST(only_the_name_is_sanitised),
        TEST(statistics_are_sorted_by_name),
        TEST(dots_are_replaced),
        TEST(statistics_are_sorted_with_their_last_part),
        TEST(names_are_bounded),
        TEST(names_from_requests_are_bounded),
        TEST(a_name_that_is_too_long_is_not_stored),
        TEST(loops_count_without_each_other),
        TEST(it_knows_whether_there_are_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
