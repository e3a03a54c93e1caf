/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The HTTP endpoints and the metrics of the Rate Limit Service. A fake takes the place of the
 * service: it records the request, and answers as the test says. */

#include "codec/http/kit_test.h"
#include "rls/wire/http.h"
#include "rls/wire/metrics.h"
#include "tests/kit/kit.h"

#include <inttypes.h>

/* ---- the fake service ------------------------------------------------------------------------ */

static struct fake {
    weir_rls_response response;
    int pending; /* calls that are answered later */
    size_t calls, cancelled;
    size_t limits;
    char domain[64]; /* of the last request */
    size_t descriptors;
    const weir_rls_stat *stats;
    size_t stats_len;
} fake;

static weir_rls_status ok_status = {.code = WEIR_RLS_OK,
                                    .has_limit = true,
                                    .requests_per_unit = 10,
                                    .unit = WEIR_RLS_MINUTE,
                                    .remaining = 9,
                                    .reset_ns = 5 * SECOND_NS};

size_t weir_rls_decide(weir_rls_loop *l, weir_rls_wait *wait, const weir_rls_request *requests,
                       size_t n, weir_rls_response *responses, int64_t now_ns)
{
    (void)l;
    assert_int_equal(n, 1);
    assert_true(now_ns > 0);
    assert_int_equal(requests->verb, WEIR_RLS_CHECK_AND_REPORT);
    fake.calls++;
    if (fake.pending > 0) {
        assert_non_null(wait->completion.ready);
        fake.pending--;
        return 0;
    }
    snprintf(fake.domain, sizeof fake.domain, "%.*s", (int)requests->domain.len,
             requests->domain.at);
    fake.descriptors = requests->descriptors_len;
    responses[0] = fake.response;
    return 1;
}

void weir_rls_wait_cancel(weir_rls_wait *wait)
{
    fake.cancelled++;
    weir_completion_cancel(&wait->completion);
}

const weir_rls_config *weir_rls_loop_config(weir_rls_loop *l)
{
    return (const weir_rls_config *)l;
}

void weir_rls_config_print(const weir_rls_config *c, weir_buffer *out)
{
    assert_ptr_equal(c, &fake);
    weir_buffer_printf(out, "d.k: the limits\n");
}

void weir_rls_each_stat(weir_rls *r, void (*fn)(void *ctx, const weir_rls_stat *stat), void *ctx)
{
    assert_ptr_equal(r, &fake);
    for (size_t i = 0; i < fake.stats_len; i++)
        fn(ctx, &fake.stats[i]);
}

bool weir_rls_has_limits(weir_rls *r)
{
    assert_ptr_equal(r, &fake);
    return fake.limits > 0;
}

const char *weir_rls_unit_word(weir_rls_unit unit)
{
    assert_int_equal(unit, WEIR_RLS_MINUTE);
    return "MINUTE";
}

/* ---- fixtures -------------------------------------------------------------------------------- */

static weir_rls_door door;
static weir_http_guest guest;

static fixture *open_fixture(void **state)
{
    fixture *f = *state;
    fake = (struct fake){.response = {.failure = WEIR_RLS_ANSWERED,
                                      .code = WEIR_RLS_OK,
                                      .statuses = &ok_status,
                                      .statuses_len = 1}};
    door.loop = (weir_rls_loop *)&fake;
    door.rls = (weir_rls *)&fake;
    guest = weir_rls_http(&door);
    f->options.guests = &guest;
    f->options.guests_len = 1;
    return f;
}

static const char request[] = "{\"domain\":\"edge\",\"descriptors\":[{\"entries\":"
                              "[{\"key\":\"k\",\"value\":\"v\"}]}]}";

/* Sends a body of any type to /json, with additional header lines. */
static const char *post_json(fixture *f, const char *lines, const char *body)
{
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "POST /json HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n%s", lines,
                       strlen(body), body);
    return speak(f, text, (size_t)len);
}

/* ---- /json ----------------------------------------------------------------------------------- */

static void json_answers(void **state)
{
    fixture *f = open_fixture(state);
    const char *a = post_json(f, "Content-Type: application/x-www-form-urlencoded\r\n", request);
    assert_int_equal(status_of(a), 200);
    has_line(a, "Content-Type: application/json");
    assert_string_equal(body_of(a),
                        "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\"currentLimit\":"
                        "{\"requestsPerUnit\":10,\"unit\":\"MINUTE\"},\"limitRemaining\":9,"
                        "\"durationUntilReset\":\"5s\"}]}");
    assert_string_equal(fake.domain, "edge");
    assert_int_equal(fake.descriptors, 1);

    door.arena.len = door.arena.capacity; /* earlier requests have used it */
    fake.response.code = WEIR_RLS_OVER_LIMIT;
    assert_int_equal(status_of(post_json(f, "", request)), 429);
    fake.response.code = WEIR_RLS_UNKNOWN;
    assert_int_equal(status_of(post_json(f, "", request)), 500);
}

static void json_errors(void **state)
{
    fixture *f = open_fixture(state);
    const char *a = post_json(f, "", "{\"domain\":1}");
    assert_int_equal(status_of(a), 400);
    has_line(a, "Content-Type: text/plain; charset=utf-8");
    assert_string_equal(body_of(a), "Bad Request\n");
    assert_int_equal(status_of(post_json(f, "", "")), 400);
    assert_int_equal(fake.calls, 0);

    fake.response = (weir_rls_response){.failure = WEIR_RLS_REFUSED, .why = "no"};
    assert_int_equal(status_of(post_json(f, "", request)), 400);
    fake.response = (weir_rls_response){.failure = WEIR_RLS_UNAVAILABLE, .why = "no"};
    assert_int_equal(status_of(post_json(f, "", request)), 500);
    assert_int_equal(status_of(get(f, "/json")), 405);
}

/* A page of another site cannot spend anything. */
static void json_of_another_site(void **state)
{
    fixture *f = open_fixture(state);
    assert_int_equal(status_of(post_json(f, "Sec-Fetch-Site: cross-site\r\n", request)), 403);
    assert_int_equal(fake.calls, 0);
}

/* A request that waits for an engine is repeated, and one whose connection closes is cancelled. */
static void json_pending(void **state)
{
    fixture *f = open_fixture(state);
    int ready = 0;
    reopen(f);
    f->session.completion.ready = count_ready;
    f->session.completion.ctx = &ready;
    fake.pending = 2;
    weir_buffer_clear(&f->output);
    weir_buffer_printf(&f->in, "POST /json HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s",
                       strlen(request), request);
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_PENDING);
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_PENDING);
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_int_equal(fake.calls, 3);
    assert_int_equal(status_of(output_of(f)), 200);
    size_t cancelled = fake.cancelled;
    reopen(f);
    assert_int_equal(fake.cancelled, cancelled); /* nothing was pending */
    f->session.completion.ready = count_ready;
    fake.pending = 1;
    weir_buffer_printf(&f->in, "POST /json HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s",
                       strlen(request), request);
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_PENDING);
    reopen(f);
    assert_int_equal(fake.cancelled, cancelled + 1);
}

/* ---- the other endpoints --------------------------------------------------------------------- */

static bool not_ready(void *ctx, weir_buffer *out)
{
    (void)ctx;
    weir_buffer_printf(out, "\"stopping\"");
    return true;
}

static void healthcheck(void **state)
{
    fixture *f = open_fixture(state);
    const char *a = get(f, "/healthcheck");
    assert_int_equal(status_of(a), 200);
    assert_string_equal(body_of(a), "OK");

    /* Probes come with any host, and without a password. */
    users_kit_set_password(&f->users, "secret");
    static const char probe[] = "GET /healthcheck HTTP/1.1\r\nHost: ratelimit.svc\r\n\r\n";
    assert_int_equal(status_of(speak(f, probe, sizeof probe - 1)), 200);
    f->options.not_ready = not_ready;
    assert_int_equal(status_of(speak(f, probe, sizeof probe - 1)), 500);
    assert_int_equal(status_of(get(f, "/rlconfig")), 401);
    assert_int_equal(status_of(get(f, "/stats")), 401);
    assert_int_equal(status_of(post_json(f, "", request)), 401);
}

static void rlconfig(void **state)
{
    fixture *f = open_fixture(state);
    const char *a = get(f, "/rlconfig");
    assert_int_equal(status_of(a), 200);
    assert_string_equal(body_of(a), "d.k: the limits\n");
    assert_int_equal(status_of(get(f, "/rlconfig?unknown=1")), 200);
    assert_int_equal(status_of(get(f, "/stats?unknown=1")), 200);
    door.loop = NULL; /* no configuration is active */
    a = get(f, "/rlconfig");
    assert_int_equal(status_of(a), 200);
    assert_string_equal(body_of(a), "");
}

/* Only the names of the endpoints are theirs. */
static void other_paths(void **state)
{
    static const char *const paths[] = {"/jsom", "/stat", "/statt", "/statss", "/rlconfix"};
    fixture *f = open_fixture(state);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(status_of(get(f, paths[i])), 404);
}

static void absent_without_the_service(void **state)
{
    fixture *f = open_fixture(state);
    f->options.guests_len = 0;
    assert_int_equal(status_of(post_json(f, "", request)), 404);
    assert_int_equal(status_of(get(f, "/healthcheck")), 404);
    assert_int_equal(status_of(get(f, "/stats")), 404);
    assert_null(strstr(get(f, "/metrics"), "weir_rls_"));
    assert_null(strstr(get(f, "/"), "\n  /json"));
}

/* It lists the endpoints only if there are limits. */
static void front_page(void **state)
{
    fixture *f = open_fixture(state);
    assert_null(strstr(get(f, "/"), "\n  /json "));
    fake.limits = 1;
    assert_non_null(strstr(get(f, "/"), "\n  /json "));
}

/* ---- statistics ------------------------------------------------------------------------------ */

#define LIMIT(domain_, key_, what_, value_)                                                        \
    {                                                                                              \
        .name = "ratelimit.service.rate_limit." domain_ "." key_ "." what_,                        \
        .domain = {domain_, sizeof domain_ - 1}, .key = {key_, sizeof key_ - 1},                   \
        .what = {what_, sizeof what_ - 1}, .value = value_                                         \
    }

static const weir_rls_stat some_stats[] = {
    {.name = "ratelimit.service.call.should_rate_limit.redis_error", .value = 3},
    {.name = "ratelimit.service.call.should_rate_limit.service_error", .value = 4},
    {.name = "ratelimit.service.config_load_error", .value = 1},
    LIMIT("d", "a", "over_limit", 5),
    LIMIT("d", "a", "total_hits", 18446744073709551615U),
    LIMIT("d", "a.b", "total_hits", 1),
    LIMIT("d", "a.b.c", "total_hits", 2),
    LIMIT("d", "a.b.d", "over_limit", 7),
    LIMIT("d", "a.b.d", "total_hits", 4),
    LIMIT("d", "a\"", "total_hits", 8),
    LIMIT("d.x", "y", "total_hits", 16),
    LIMIT("d", "x.y", "total_hits", 32),
};

static void stats(void **state)
{
    fixture *f = open_fixture(state);
    fake.stats = some_stats;
    fake.stats_len = 5;
    const char *a = get(f, "/stats");
    assert_int_equal(status_of(a), 200);
    assert_string_equal(body_of(a),
                        "ratelimit.service.call.should_rate_limit.redis_error: 3\n"
                        "ratelimit.service.call.should_rate_limit.service_error: 4\n"
                        "ratelimit.service.config_load_error: 1\n"
                        "ratelimit.service.rate_limit.d.a.over_limit: 5\n"
                        "ratelimit.service.rate_limit.d.a.total_hits: 18446744073709551615\n");
}

static void has_sample(const char *metrics, const char *line)
{
    const char *at = strstr(metrics, line);
    if (!at || at[-1] != '\n' || at[strlen(line)] != '\n')
        fail_msg("no sample '%s' in\n%s", line, metrics);
}

/* Names with the same first two parts of the key are one sample of the reference's metrics. */
static void metrics(void **state)
{
    fixture *f = open_fixture(state);
    fake.stats = some_stats;
    fake.stats_len = sizeof some_stats / sizeof some_stats[0];
    assert_null(strstr(get(f, "/metrics"), "config_load_error"));
    fake.limits = 1;
    const char *a = get(f, "/metrics");
    has_sample(a, "weir_rls_hits_total{domain=\"d\",key=\"a\"} 18446744073709551615");
    has_sample(a, "weir_rls_hits_total{domain=\"d\",key=\"a.b\"} 1");
    has_sample(a, "weir_rls_hits_total{domain=\"d\",key=\"a.b.d\"} 4");
    has_sample(a, "weir_rls_hits_total{domain=\"d\",key=\"a\\\"\"} 8");
    has_sample(a, "weir_rls_over_limit_total{domain=\"d\",key=\"a.b.d\"} 7");
    has_sample(a, "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\"} "
                  "18446744073709551615");
    has_sample(a, "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\",key2=\"b\"} 7");
    /* The reference divides a domain at its dots too. */
    has_sample(a, "weir_rls_hits_total{domain=\"d.x\",key=\"y\"} 16");
    has_sample(a, "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"x\",key2=\"y\"} 48");
    assert_null(strstr(a, "weir_rls_near_limit_total")); /* no metric without samples */
    has_sample(a, "ratelimit_service_config_load_error 1");
    has_sample(a, "ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"} 3");
    has_sample(a, "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} 4");
    assert_null(strstr(a, "key=\"(others)\""));
    const char *type = strstr(a, "# TYPE ratelimit_service_should_rate_limit_error counter");
    assert_non_null(type);
    assert_null(strstr(type + 1, "# TYPE ratelimit_service_should_rate_limit_error"));
}

/* The whole text, with names that differ in what the reference leaves out. */
static void all_metrics(void **state)
{
    (void)open_fixture(state);
    static const weir_rls_stat all[] = {
        {.name = "ratelimit.service.config_load_success", .value = 2},
        {.name = "ratelimit.service.config_load_error", .value = 1},
        {.name = "ratelimit.service.call.should_rate_limit.redis_error", .value = 3},
        {.name = "ratelimit.service.call.should_rate_limit.service_error", .value = 4},
        {.name = "ratelimit.service.rate_limit.d.domain_not_found",
         .domain = {"d", 1},
         .what = {"domain_not_found", 16},
         .value = 9},
        LIMIT("d", "a.", "total", 99),
        LIMIT("d", "a.", "total_hits", 1),
        LIMIT("d", "a.b.c", "total_hits", 2),
        LIMIT("d", "a.b.d", "total_hits", 4),
        {.name = "ratelimit_server.ShouldRateLimit.total_requests", .value = 5},
    };
    fake.stats = all;
    for (size_t n = 7; n <= sizeof all / sizeof all[0]; n += 3) {
        weir_buffer b;
        weir_buffer_init(&b, 1 << 14);
        fake.stats_len = n;
        weir_rls_metrics_put(&b, door.rls);
        weir_buffer_append(&b, "", 1);
        char want[4096];
        bool many = n > 7;
        snprintf(want, sizeof want,
                 "# HELP weir_rls_hits_total Hits of requests that matched the limit.\n"
                 "# TYPE weir_rls_hits_total counter\n"
                 "weir_rls_hits_total{domain=\"d\",key=\"a.\"} 1\n%s"
                 "# HELP ratelimit_service_rate_limit_total_hits Hits of requests that matched the "
                 "limit.\n"
                 "# TYPE ratelimit_service_rate_limit_total_hits counter\n"
                 "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\",key2=\"\"} 1\n%s"
                 "# HELP ratelimit_service_config_load_success Configurations of limits that were "
                 "loaded.\n"
                 "# TYPE ratelimit_service_config_load_success counter\n"
                 "ratelimit_service_config_load_success 2\n"
                 "# HELP ratelimit_service_config_load_error Configurations of limits that were "
                 "refused.\n"
                 "# TYPE ratelimit_service_config_load_error counter\n"
                 "ratelimit_service_config_load_error 1\n"
                 "# HELP ratelimit_service_should_rate_limit_error Requests that failed, by the "
                 "reason.\n"
                 "# TYPE ratelimit_service_should_rate_limit_error counter\n"
                 "ratelimit_service_should_rate_limit_error{err_type=\"redis_error\"} 3\n"
                 "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} 4\n%s",
                 many ? "weir_rls_hits_total{domain=\"d\",key=\"a.b.c\"} 2\n"
                        "weir_rls_hits_total{domain=\"d\",key=\"a.b.d\"} 4\n"
                      : "",
                 many ? "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a\","
                        "key2=\"b\"} 6\n"
                      : "",
                 many ? "# HELP ratelimit_service_total_requests Requests.\n"
                        "# TYPE ratelimit_service_total_requests counter\n"
                        "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 5\n"
                      : "");
        assert_string_equal((const char *)weir_buffer_data(&b), want);
        weir_buffer_free(&b);
    }
}

/* Of names that are equal to the reference, the first ones too make one sample. */
static void first_metrics(void **state)
{
    fixture *f = open_fixture(state);
    static const weir_rls_stat two[] = {LIMIT("d", "a.b.c", "over_limit", 2),
                                        LIMIT("d", "a.b.d", "over_limit", 4)};
    fake.stats = two;
    fake.stats_len = 2;
    fake.limits = 1;
    const char *a = get(f, "/metrics");
    has_sample(a, "ratelimit_service_rate_limit_over_limit{domain=\"d\",key1=\"a\",key2=\"b\"} 6");
}

/* The number of samples is bounded; no hit is lost. */
static void many_limits(void **state)
{
    enum { LIMITS = WEIR_RLS_METRICS_MAX + 50 };
    fixture *f = open_fixture(state);
    static weir_rls_stat many[LIMITS];
    static char keys[LIMITS][16];
    for (int i = 0; i < LIMITS; i++) {
        int len = snprintf(keys[i], sizeof keys[i], "k%05d", i);
        many[i] = (weir_rls_stat)LIMIT("d", "", "total_hits", 2);
        many[i].key = (weir_slice){keys[i], (size_t)len};
    }
    fake.stats = many;
    fake.stats_len = LIMITS;
    fake.limits = 1;
    const char *a = get(f, "/metrics");
    has_sample(a, "weir_rls_hits_total{domain=\"d\",key=\"k00999\"} 2");
    assert_null(strstr(a, "k01000"));
    has_sample(a, "weir_rls_hits_total{domain=\"(others)\",key=\"(others)\"} 100");
    has_sample(a, "ratelimit_service_rate_limit_total_hits{domain=\"(others)\","
                  "key1=\"(others)\"} 100");
}

/* ---- spans ----------------------------------------------------------------------------------- */

static weir_trace_span last;
static size_t ended;

static void end_span(void *ctx, const weir_trace_span *span)
{
    (void)ctx;
    ended++;
    last = *span;
}

static void spans(void **state)
{
    static const weir_tracer tracer = {end_span, NULL};
    static const char lines[] =
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    fixture *f = open_fixture(state);
    f->options.tracer = &tracer;
    ended = 0;
    assert_int_equal(status_of(post_json(f, lines, request)), 200);
    assert_int_equal(ended, 1);
    assert_true(last.allowed);
    assert_string_equal(last.name, "/json");
    assert_string_equal(last.context, "weir.domain");
    assert_string_equal(last.context_name, "edge");
    assert_string_equal(last.policy, "");
    fake.response.code = WEIR_RLS_OVER_LIMIT;
    assert_int_equal(status_of(post_json(f, lines, request)), 429);
    assert_int_equal(ended, 2);
    assert_false(last.allowed);
    fake.response.failure = WEIR_RLS_REFUSED;
    assert_int_equal(status_of(post_json(f, lines, request)), 400);
    assert_int_equal(ended, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(json_answers),  TEST(json_errors), TEST(json_of_another_site),
        TEST(json_pending),  TEST(healthcheck), TEST(rlconfig),
        TEST(front_page),    TEST(stats),       TEST(absent_without_the_service),
        TEST(metrics),       TEST(many_limits), TEST(all_metrics),
        TEST(first_metrics), TEST(other_paths), TEST(spans),
    };
    assert_true(weir_rls_arena_open(&door.arena));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weir_rls_arena_close(&door.arena);
    return failed;
}
