/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests: which limits are charged, what is denied, held, counted and logged, and what the
 * context shows of several limits. */

#include "fake.h"

#include "modules/nginx/decide.h"

/* Configures a location with these directives, separated by ';', and starts a worker. */
static void configure(const char *directives)
{
    fake_configure(directives);
    assert_true(fake_start());
    fake_logged();
}

/* Runs the phase handler on a new request. */
static ngx_int_t request(void)
{
    return weir_ngx_handler(fake_request());
}

/* A request that the limits allow at once. */
static void expect_pass(void)
{
    assert_int_equal(request(), NGX_DECLINED);
    assert_int_equal(fake.finalized, NGX_AGAIN);
}

static void expect_denial(ngx_int_t status)
{
    assert_int_equal(request(), NGX_DONE);
    assert_int_equal(fake.finalized, status);
}

static const weir_ngx_counts *counts(size_t i)
{
    return ((weir_ngx_limit **)fake.conf->limits.elts)[i]->counts;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void one_limit(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 2\" key=a");
    expect_pass();
    expect_pass();
    assert_string_equal(fake_logged(), "");
    expect_denial(429);
    char *log =
        strstr(fake_logged(), "error limiting requests by \"gcra 1/h burst 2\", retry after ");
    assert_non_null(log);
    assert_non_null(strstr(log, " s, zone \"z\"\n"));
    assert_int_equal(counts(0)->of[WEIR_NGX_PASSED], 2);
    assert_int_equal(counts(0)->of[WEIR_NGX_REJECTED], 1);
    assert_string_equal(fake_variable("weir_status"), "REJECTED");
}

static void no_limits(void **unused)
{
    (void)unused;
    configure("weir off");
    expect_pass();
    assert_null(weir_ngx_ctx_of(&fake.r));
    assert_null(fake_variable("weir_status"));
}

/* All enforced limits are charged together, or none is. */
static void two_limits(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 5\" key=a status=503;weir z \"gcra 1/h burst 1\" key=b");
    expect_pass();
    assert_string_equal(fake_variable("weir_policy"), "gcra 1/h burst 1");
    assert_string_equal(fake_variable("weir_remaining"), "0");
    expect_denial(429);
    assert_int_equal(counts(0)->of[WEIR_NGX_PASSED], 1);
    assert_int_equal(counts(1)->of[WEIR_NGX_REJECTED], 1);
    assert_int_equal(counts(0)->of[WEIR_NGX_REJECTED], 0);
}

/* A request is decided on once: after an internal redirect its context is found again. */
static void one_decision_for_each_request(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 2\" key=a");
    expect_pass();
    weir_ngx_ctx *ctx = weir_ngx_ctx_of(&fake.r);
    assert_non_null(ctx);
    assert_int_equal(weir_ngx_handler(&fake.r), NGX_DECLINED);
    fake.r.ctx[1] = NULL;
    assert_null(weir_ngx_ctx_of(&fake.r));
    fake.r.internal = 1;
    assert_ptr_equal(weir_ngx_ctx_of(&fake.r), ctx);
    fake.r.ctx[1] = NULL;
    fake.r.internal = 0;
    fake.r.filter_finalize = 1;
    assert_ptr_equal(weir_ngx_ctx_of(&fake.r), ctx);
    assert_int_equal(counts(0)->of[WEIR_NGX_PASSED], 1);
}

/* Shadow limits deny and delay nothing, but count and log. */
static void shadow_limits(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 1\" key=a shadow;weir z \"leaky-queue 1/h depth 5\" key=a "
              "shadow;weir z \"gcra 1/h burst 9\" key=a");
    expect_pass();
    assert_string_equal(fake_variable("weir_status"), "PASSED");
    expect_pass();
    assert_string_equal(fake_variable("weir_status"), "REJECTED_SHADOW");
    assert_string_equal(fake_variable("weir_policy"), "gcra 1/h burst 1");
    const char *log = fake_logged();
    assert_non_null(strstr(log, "error limiting requests by \"gcra 1/h burst 1\", retry after "));
    assert_non_null(strstr(log, "warn delaying request by "));
    assert_non_null(strstr(log, ", zone \"z\" (shadow)\n"));
    assert_int_equal(counts(0)->of[WEIR_NGX_REJECTED_SHADOW], 1);
    assert_int_equal(counts(1)->of[WEIR_NGX_DELAYED_SHADOW], 1);
    assert_int_equal(counts(2)->of[WEIR_NGX_PASSED], 2);
    assert_int_equal(weir_ngx_ctx_of(&fake.r)->enforced_len, 1);
}

/* ---- keys and costs -------------------------------------------------------------------------- */

static void keys(void **unused)
{
    (void)unused;
    static u_char longest[WEIR_KEY_MAX + 1];
    memset(longest, 'k', sizeof longest);
    configure("weir z \"gcra 1/h burst 1\" key=$a name=k");
    fake.variable = (ngx_str_t){WEIR_KEY_MAX, longest};
    expect_pass();
    expect_denial(429);
    fake.variable = (ngx_str_t)ngx_string("other");
    expect_pass();
    fake.variable.len = 0; /* not limited */
    expect_pass();
    expect_pass();
    assert_null(weir_ngx_ctx_of(&fake.r));
    fake_logged();
    fake.variable = (ngx_str_t){WEIR_KEY_MAX + 1, longest};
    expect_pass();
    assert_string_equal(fake_logged(), "error the key of \"k\" has 65537 bytes, expected at most "
                                       "65536; not limited\n");
}

static void costs(void **unused)
{
    (void)unused;
    static const struct {
        ngx_str_t text;
        const char *remaining;
    } rows[] = {{ngx_string("3"), "2147483644"},  {ngx_string("0"), "2147483644"},
                {ngx_string(""), "2147483643"},   {ngx_string("x"), "2147483642"},
                {ngx_string("1x"), "2147483641"}, {ngx_string("-1"), "2147483640"},
                {ngx_string("2147483640"), "0"},  {ngx_string("99999999999"), NULL}};
    configure("weir z \"fixed-window 2147483647/d\" key=a cost=$c");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake.variable = rows[i].text;
        assert_int_equal(request(), rows[i].remaining ? NGX_DECLINED : NGX_DONE);
        if (rows[i].remaining)
            assert_string_equal(fake_variable("weir_remaining"), rows[i].remaining);
        const char *log = fake_logged();
        bool bad = i >= 3 && i <= 5;
        assert_int_equal(strncmp(log, "warn bad cost \"", 15) == 0, bad);
    }
}

/* A cost that the policy never allows has no time after which to try again. */
static void a_cost_that_never_passes(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 2\" key=a cost=$c");
    fake.variable = (ngx_str_t)ngx_string("3");
    expect_denial(429);
    assert_string_equal(fake_logged(),
                        "error limiting requests by \"gcra 1/h burst 2\", which never "
                        "allows so much, zone \"z\"\n");
    assert_null(fake_variable("weir_retry_after"));
}

/* Also beside another limit, which is then decided together. */
static void a_part_that_is_kept(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 4\" key=a keep=50%");
    expect_pass();
    expect_pass();
    expect_denial(429);
}

static void a_part_that_is_kept_of_two(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 4\" key=a keep=3;weir z \"gcra 1/h burst 9\" key=b");
    expect_pass();
    expect_denial(429);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void held_requests(void **unused)
{
    (void)unused;
    configure("weir z \"leaky-queue 1/h depth 5\" key=a");
    expect_pass();
    assert_int_equal(request(), NGX_AGAIN);
    assert_true(fake.r.read_event_handler == ngx_http_test_reading);
    assert_true(fake.r.write_event_handler == ngx_http_request_empty_handler);
    assert_string_equal(fake_variable("weir_status"), "DELAYED");
    assert_non_null(strstr(fake_logged(), "warn delaying request by 3"));
    fake_pass(3599000);
    assert_int_equal(fake.phases, 0);
    fake_pass(1000);
    assert_int_equal(fake.phases, 1);
    assert_true(fake.r.write_event_handler == ngx_http_core_run_phases);
    assert_int_equal(weir_ngx_handler(&fake.r), NGX_DECLINED); /* the phase runs again */
    assert_int_equal(counts(0)->of[WEIR_NGX_DELAYED], 1);
}

/* If the client leaves, its pool is freed, and nothing is resumed. */
static void a_held_request_ends(void **unused)
{
    (void)unused;
    configure("weir z \"leaky-queue 1/s depth 5\" key=a");
    expect_pass();
    assert_int_equal(request(), NGX_AGAIN);
    fake_request();
    fake_pass(10000);
    assert_int_equal(fake.phases, 0);
}

/* delay= is subtracted from each delay. */
static void a_queue_with_delay(void **unused)
{
    (void)unused;
    configure("weir z \"leaky-queue 1/h depth 5\" key=a delay=2");
    for (int i = 0; i < 3; i++)
        expect_pass();
    assert_int_equal(request(), NGX_AGAIN);
    int64_t delay_ns = weir_ngx_ctx_of(&fake.r)->delay_ns;
    assert_in_range(delay_ns, INT64_C(3590000000000), INT64_C(3600000000000));
    const weir_ngx_limit *limit = *(weir_ngx_limit **)fake.conf->limits.elts;
    assert_int_equal(weir_ngx_delay(limit, INT64_C(7200000000000)), 0);
    assert_int_equal(weir_ngx_delay(limit, INT64_C(7200000000001)), 1);
}

/* ---- a daemon decides ------------------------------------------------------------------------ */

#define PONG    "+PONG\r\n"
#define ALLOWED "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:1000\r\n:0\r\n"
#define DELAYED "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:1000\r\n:70\r\n"
#define DENIED  "*6\r\n:0\r\n:9\r\n:0\r\n:250\r\n:1000\r\n:0\r\n"

static void wait_for_daemon(void)
{
    assert_int_equal(request(), NGX_AGAIN);
    assert_int_equal(fake.phases, 0);
}

static void a_daemon(void **unused)
{
    (void)unused;
    configure("weir z \"leaky-queue 1/h depth 9\" key=a;weir_daemon h:1");
    wait_for_daemon();
    fake_run();
    fake_connected(0);
    fake_receive(PONG ALLOWED);
    assert_int_equal(fake.phases, 1);
    assert_string_equal(fake_variable("weir_remaining"), "8");
    assert_string_equal(fake_variable("weir_reset"), "1");
    wait_for_daemon();
    fake_receive(DENIED);
    assert_int_equal(fake.finalized, 429);
    assert_string_equal(fake_variable("weir_retry_after"), "1");
    wait_for_daemon();
    fake_receive(DELAYED);
    assert_int_equal(fake.phases, 0);
    assert_string_equal(fake_variable("weir_delay"), "0.070");
    fake_pass(70);
    assert_int_equal(fake.phases, 1);
    assert_int_equal(counts(0)->of[WEIR_NGX_PASSED], 1);
    assert_int_equal(counts(0)->of[WEIR_NGX_DELAYED], 1);
    assert_int_equal(counts(0)->of[WEIR_NGX_REJECTED], 1);
}

/* The enforced limits are one question, and each shadow limit is another. */
static void questions_to_a_daemon(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/s\" key=a;weir z \"gcra 2/s\" key=b;weir z \"gcra 3/s\" key=c "
              "shadow;weir_daemon h:1");
    wait_for_daemon();
    fake_run();
    fake_connected(0);
    const char *sent = fake_sent();
    assert_non_null(strstr(sent, "WEIR.TAKEALL\r\n$1\r\n2\r\n"));
    assert_non_null(strstr(sent, "WEIR.CHECK\r\n$16\r\ngcra 3/s burst 1\r\n"));
    fake_receive(PONG "*7\r\n:0\r\n:9\r\n:0\r\n:250\r\n:1000\r\n:0\r\n:1\r\n");
    assert_int_equal(fake.finalized, NGX_AGAIN); /* the shadow limit has no answer yet */
    fake_receive(DENIED);
    assert_int_equal(fake.finalized, 429);
    assert_string_equal(fake_variable("weir_policy"), "gcra 2/s burst 1");
    assert_int_equal(counts(0)->of[WEIR_NGX_REJECTED], 0);
    assert_int_equal(counts(1)->of[WEIR_NGX_REJECTED], 1);
    assert_int_equal(counts(2)->of[WEIR_NGX_REJECTED_SHADOW], 1);
}

static void on_error(void **unused)
{
    (void)unused;
    static const struct {
        const char *directives;
        ngx_int_t finalized;
        int phases;
        const char *status, *remaining;
    } rows[] = {
        {"weir z \"gcra 1/h burst 2\" key=a;weir_daemon h:1", NGX_AGAIN, 1, "PASSED", NULL},
        {"weir z \"gcra 1/h burst 2\" key=a status=503;weir_daemon h:1 on_error=closed", 503, 0,
         "REJECTED", NULL},
        {"weir z \"gcra 1/h burst 2\" key=a;weir_daemon h:1 on_error=local", NGX_AGAIN, 1, "PASSED",
         "1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_close(NULL);
        fake_open(NULL);
        configure(rows[i].directives);
        fake.connect_rc = NGX_ERROR;
        wait_for_daemon();
        fake_run();
        assert_int_equal(fake.finalized, rows[i].finalized);
        assert_int_equal(fake.phases, rows[i].phases);
        assert_string_equal(fake_variable("weir_status"), rows[i].status);
        const char *remaining = fake_variable("weir_remaining");
        assert_true(rows[i].remaining ? strcmp(remaining, rows[i].remaining) == 0 : !remaining);
        assert_int_equal(counts(0)->of[WEIR_NGX_FAILED], 1);
    }
}

/* The answer of a request whose client has left is dropped. */
static void a_client_that_leaves(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/s\" key=a;weir_daemon h:1");
    wait_for_daemon();
    fake_run();
    fake_connected(0);
    fake_request();
    fake_receive(PONG ALLOWED);
    assert_int_equal(fake.phases, 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Memory that runs out at any allocation of a request is an error of the server, or the request
 * passes without a context. */
static void no_memory(void **unused)
{
    (void)unused;
    configure("weir z \"leaky-queue 1/h depth 9\" key=a;weir z \"gcra 1/s burst 9\" key=a shadow");
    expect_pass();
    ngx_int_t rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
    for (long n = 0; n < 10 && rc == NGX_HTTP_INTERNAL_SERVER_ERROR; n++) {
        fake_request();
        fake.allocations = n;
        rc = weir_ngx_handler(&fake.r);
        fake.allocations = -1;
        assert_true(n > 0 || rc == NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
    assert_int_equal(rc, NGX_AGAIN);
}

/* A zone that cannot be opened limits nothing. */
static void a_zone_without_a_store(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h\" key=a");
    weir_ngx_limit *limit = *(weir_ngx_limit **)fake.conf->limits.elts;
    weir_store *store = limit->zone->store;
    limit->open = false;
    limit->zone->store = NULL;
    limit->zone->tried = fake.now_s; /* it was tried in this second */
    expect_pass();
    assert_int_equal(counts(0)->of[WEIR_NGX_FAILED], 1);
    limit->zone->store = store;
    expect_pass();
    assert_int_equal(counts(0)->of[WEIR_NGX_PASSED], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open, fake_close)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(one_limit),
                                       TEST(no_limits),
                                       TEST(two_limits),
                                       TEST(one_decision_for_each_request),
                                       TEST(shadow_limits),
                                       TEST(keys),
                                       TEST(costs),
                                       TEST(a_cost_that_never_passes),
                                       TEST(a_part_that_is_kept),
                                       TEST(a_part_that_is_kept_of_two),
                                       TEST(held_requests),
                                       TEST(a_held_request_ends),
                                       TEST(a_queue_with_delay),
                                       TEST(a_daemon),
                                       TEST(questions_to_a_daemon),
                                       TEST(on_error),
                                       TEST(a_client_that_leaves),
                                       TEST(no_memory),
                                       TEST(a_zone_without_a_store)};
    return cmocka_run_group_tests_name("handler", tests, NULL, NULL);
}
