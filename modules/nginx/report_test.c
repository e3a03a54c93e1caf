/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a response and an operator see: the variables, the header fields, the body of a denial,
 * weir_status and weir_reset. */

#include "fake.h"

#include "core/decision.h"
#include "modules/nginx/context.h"

static void configure(const char *directives)
{
    fake_configure(directives);
    assert_true(fake_start());
    fake_logged();
}

static ngx_int_t request(void)
{
    return weir_ngx_handler(fake_request());
}

static ngx_int_t last_filter(ngx_http_request_t *r)
{
    (void)r;
    return NGX_OK;
}

/* Runs the header filter of the module. */
static void filter(void)
{
    assert_int_equal(ngx_http_top_header_filter(&fake.r), NGX_OK);
}

static int open_with_filter(void **unused)
{
    ngx_http_top_header_filter = last_filter;
    return fake_open(unused);
}

/* ---- variables ------------------------------------------------------------------------------- */

static void variables(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/s burst 5\" key=a name=api");
    request();
    assert_string_equal(fake_variable("weir_status"), "PASSED");
    assert_string_equal(fake_variable("weir_policy"), "api");
    assert_string_equal(fake_variable("weir_limit"), "5");
    assert_string_equal(fake_variable("weir_remaining"), "4");
    assert_string_equal(fake_variable("weir_retry_after"), "0");
    assert_string_equal(fake_variable("weir_reset"), "1");
    assert_string_equal(fake_variable("weir_delay"), "0.000");
    assert_string_equal(fake_variable("weir_next"), "0");
}

/* The next unit is 12 s away, and the full quota a minute. */
static void next_unit(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 5/m burst 5\" key=a cost=5");
    request();
    assert_string_equal(fake_variable("weir_remaining"), "0");
    assert_string_equal(fake_variable("weir_reset"), "60");
    assert_string_equal(fake_variable("weir_next"), "12");
    weir_ngx_ctx *ctx = weir_ngx_ctx_of(&fake.r);
    ctx->shown.next_ns = 1000000001;
    assert_string_equal(fake_variable("weir_next"), "2");
    ctx->shown.next_ns = INT64_MAX;
    assert_null(fake_variable("weir_next"));
    ctx->shown.next_ns = WEIR_NEXT_UNKNOWN;
    assert_null(fake_variable("weir_next"));
    ctx->shown.next_ns = 0;
    assert_string_equal(fake_variable("weir_next"), "0");
    ctx->by_error = true;
    assert_null(fake_variable("weir_next"));
}

/* Times are rounded up: seconds to whole ones, the delay to milliseconds. */
static void times(void **unused)
{
    (void)unused;
    static const struct {
        weir_decision decision;
        const char *retry_after, *reset, *delay;
    } rows[] = {
        {{.retry_after_ns = 1}, "1", "0", "0.000"},
        {{.retry_after_ns = 1000000000}, "1", "0", "0.000"},
        {{.retry_after_ns = 1000000001, .reset_after_ns = 1}, "2", "1", "0.000"},
        {{.never = true, .reset_after_ns = 2000000000}, NULL, "2", "0.000"},
        {{.allowed = true, .delay_ns = 1}, "0", "0", "0.001"},
        {{.allowed = true, .delay_ns = 61234567890}, "0", "0", "61.235"},
    };
    configure("weir z \"gcra 1/s burst 5\" key=a");
    request();
    weir_ngx_ctx *ctx = weir_ngx_ctx_of(&fake.r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ctx->shown.decision = rows[i].decision;
        const char *retry = fake_variable("weir_retry_after");
        assert_true(rows[i].retry_after ? retry && strcmp(retry, rows[i].retry_after) == 0
                                        : !retry);
        assert_string_equal(fake_variable("weir_reset"), rows[i].reset);
        assert_string_equal(fake_variable("weir_delay"), rows[i].delay);
    }
    ctx->by_error = true;
    assert_null(fake_variable("weir_limit"));
    assert_string_equal(fake_variable("weir_policy"), "gcra 1/s burst 5");
}

/* Of several limits the variables show the one with the highest status, then the one that ranks
 * first as in every other interface. */
static void which_limit_is_shown(void **unused)
{
    (void)unused;
    static weir_ngx_limit limits[4];
    const weir_decision few = {.allowed = true, .limit = 9, .remaining = 1},
                        many = {.allowed = true, .limit = 9, .remaining = 5},
                        denied = {.limit = 9, .retry_after_ns = 5};
    const struct {
        weir_ngx_status status;
        weir_ngx_outcome outcome;
        size_t shown; /* the limit that is shown after it */
    } rows[] = {
        {WEIR_NGX_PASSED, {.limit = &limits[0], .decision = many}, 0},
        {WEIR_NGX_PASSED, {.limit = &limits[1], .decision = few, .next_ns = 7}, 1},
        {WEIR_NGX_PASSED, {.limit = &limits[0], .decision = many}, 1},
        {WEIR_NGX_REJECTED_SHADOW, {.limit = &limits[2], .decision = denied}, 2},
        {WEIR_NGX_DELAYED_SHADOW, {.limit = &limits[3], .decision = few}, 2},
        {WEIR_NGX_DELAYED, {.limit = &limits[3], .decision = many, .cost = 3}, 3},
    };
    weir_ngx_ctx *ctx = weir_ngx_ctx_new(fake_request(), 2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_ngx_ctx_show(ctx, rows[i].status, &rows[i].outcome);
        assert_ptr_equal(ctx->shown.limit, &limits[rows[i].shown]);
        assert_int_equal(ctx->shown.next_ns, rows[i].shown == 1 ? 7 : 0);
    }
    assert_int_equal(ctx->shown.cost, 3);
    assert_int_equal(ctx->status, WEIR_NGX_DELAYED);
}

/* An outcome that is unknown, of which a daemon reports nothing, is not in the headers. */
static void which_limits_are_in_the_headers(void **unused)
{
    (void)unused;
    static weir_ngx_limit limits[2];
    weir_ngx_ctx *ctx = weir_ngx_ctx_new(fake_request(), 2);
    weir_ngx_ctx_keep(ctx, &(weir_ngx_outcome){.limit = &limits[0]}, true);
    assert_int_equal(ctx->enforced_len, 0);
    weir_ngx_outcome known = {.limit = &limits[0], .decision = {.limit = 1}, .cost = 3};
    weir_ngx_ctx_keep(ctx, &known, false);
    known.limit = &limits[1];
    weir_ngx_ctx_keep(ctx, &known, true);
    assert_int_equal(ctx->enforced_len, 2);
    assert_int_equal(ctx->enforced_shown, 1);
    assert_ptr_equal(ctx->enforced[1].limit, &limits[1]);
    assert_int_equal(ctx->enforced[1].cost, 3);
    fake.allocations = 0;
    assert_null(weir_ngx_ctx_new(&fake.r, 1));
}

/* ---- headers --------------------------------------------------------------------------------- */

static void header_sets(void **unused)
{
    (void)unused;
    static const char names[] =
        "expected off, on, legacy, both, none, ietf, ietf-07, ietf-03, x-ratelimit, "
        "github or openai\n";
    static const struct {
        const char *directive;
        unsigned headers; /* 0: refused */
    } rows[] = {
        {"weir_headers off", WEIR_HEADERS_NONE},
        {"weir_headers none", WEIR_HEADERS_NONE},
        {"weir_headers on", WEIR_HEADERS_DEFAULT},
        {"weir_headers both", WEIR_HEADERS_DEFAULT},
        {"weir_headers legacy", WEIR_HEADERS_X_RATELIMIT},
        {"weir_headers ietf github", WEIR_HEADERS_IETF | WEIR_HEADERS_GITHUB},
        {"weir_headers On", 0},
        {"weir_headers ietf x", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char log[256] = "";
        const char *bad = strrchr(rows[i].directive, ' ') + 1;
        if (!rows[i].headers)
            snprintf(log, sizeof log, "emerg bad value \"%s\", %s", bad, names);
        fake_next_location();
        fake_expect_conf(rows[i].directive, rows[i].headers ? NULL : "", log);
        if (rows[i].headers)
            assert_int_equal(fake.loc->headers, rows[i].headers);
    }
    fake_next_location();
    assert_null(fake_conf("weir_headers on"));
    fake_expect_conf("weir_headers off", "is duplicate", NULL);
}

static void headers(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/s burst 5\" key=a name=api;weir_headers x-ratelimit ietf");
    request();
    filter();
    assert_string_equal(fake_header("X-RateLimit-Limit"), "5");
    assert_string_equal(fake_header("X-RateLimit-Remaining"), "4");
    assert_string_equal(fake_header("RateLimit-Policy"), "\"api\";q=5;w=5");
    assert_string_equal(fake_header("RateLimit"), "\"api\";r=4;t=1");
    assert_null(fake_header("Retry-After"));
    for (int i = 0; i < 5; i++)
        request();
    filter();
    assert_string_equal(fake_header("X-RateLimit-Remaining"), "0");
    assert_string_equal(fake_header("Retry-After"), "1");
    fake_request(); /* without a decision */
    filter();
    assert_int_equal(fake.r.headers_out.headers.part.nelts, 0);
}

static void spread(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"10", "-1%", "101%", "1.5%", "%", "x%", "Off"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char directive[64], log[128];
        snprintf(directive, sizeof directive, "weir_retry_spread %s", bad[i]);
        snprintf(log, sizeof log,
                 "emerg bad value \"%s\", expected off or a share of the wait from 0%% to 100%%, "
                 "such as "
                 "10%%\n",
                 bad[i]);
        fake_next_location();
        fake_expect_conf(directive, "", log);
    }
    fake_next_location();
    fake_expect_conf("weir_retry_spread 100%", NULL, "");
    assert_int_equal(fake.loc->retry_spread, 100);
    fake_expect_conf("weir_retry_spread 10%", "is duplicate", "");
    fake_next_location();
    fake_expect_conf("weir_retry_spread 0%", NULL, "");
    assert_int_equal(fake.loc->retry_spread, 0);
    fake_next_location();
    fake_expect_conf("weir_retry_spread off", NULL, "");
    assert_int_equal(fake.loc->retry_spread, 0);
}

/* The header, the body and the variable of a denial have the same time. */
static void waits_are_spread(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h\" key=a name=api;weir_headers ietf;weir_retry_spread 10%;"
              "weir_denied_body \"{retry_after} {retry_after_ms}\"");
    request();
    assert_string_equal(fake_variable("weir_retry_after"), "0");
    assert_int_equal(request(), NGX_DONE);
    filter();
    assert_string_equal(fake_header("Retry-After"), "3851");
    assert_string_equal(fake_header("RateLimit"), "\"api\";r=0;t=3851");
    assert_string_equal(fake_variable("weir_retry_after"), "3851");
    assert_memory_equal(fake.body, "3851 3", 6);
    weir_ngx_ctx *ctx = weir_ngx_ctx_of(&fake.r); /* no decision: nothing is spread */
    ctx->enforced_len = 0;
    (void)weir_ngx_deny(&fake.r, ctx, 429);
    assert_string_equal(fake.body, "1 1000");
}

/* ---- the body of a denial -------------------------------------------------------------------- */

static void bodies(void **unused)
{
    (void)unused;
    write_file("body", "wait {retry_after} s");
    static const struct {
        const char *directive, *type, *body;
    } rows[] = {
        {"weir_denied_body \"no: {policy} {limit}\"", "text/plain; charset=utf-8", "no: api 1"},
        {"weir_denied_body \"<p>\" type=text/html", "text/html", "<p>"},
        {"weir_denied_body file=body", "text/plain; charset=utf-8", "wait 3600 s"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char directives[256];
        fake_close(NULL);
        open_with_filter(NULL);
        snprintf(directives, sizeof directives, "weir z \"gcra 1/h\" key=a name=api;%s",
                 rows[i].directive);
        configure(directives);
        request();
        assert_int_equal(request(), NGX_DONE);
        assert_int_equal(fake.finalized, NGX_OK);
        assert_int_equal(fake.r.headers_out.status, 429);
        assert_true(weir_ngx_is(&fake.r.headers_out.content_type, rows[i].type));
        assert_string_equal(fake.body, rows[i].body);
    }
}

static void body_errors(void **unused)
{
    (void)unused;
    static const struct {
        const char *directive, *error, *log;
    } rows[] = {
        {"weir_denied_body off", NULL, ""},
        {"weir_denied_body off type=text/html", "has no type= with off", ""},
        {"weir_denied_body no type=html", "",
         "emerg bad parameter \"type=html\", expected type= such as type=text/html\n"},
        {"weir_denied_body no html", "",
         "emerg bad parameter \"html\", expected type= such as type=text/html\n"},
        {"weir_denied_body file=absent", "", "emerg cannot open \"absent\"\n"},
        {"weir_denied_body file=.", "", "emerg \".\" is no file of at most 16384 bytes\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_next_location();
        fake_expect_conf(rows[i].directive, rows[i].error, rows[i].log);
    }
    fake_next_location();
    assert_string_equal(fake_conf("weir_denied_body {nothing}"), "");
    assert_memory_equal(fake_logged(), "emerg byte 1 of the body: ", 26);
    fake_next_location();
    assert_null(fake_conf("weir_denied_body no"));
    fake_expect_conf("weir_denied_body no", "is duplicate", "");
}

/* ---- weir_status ----------------------------------------------------------------------------- */

static void status_as_json(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 2\" key=a name=api;weir z \"gcra 1/d burst 9\" key=a;"
              "weir_status");
    for (int i = 0; i < 3; i++)
        request();
    fake_request();
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_OK);
    static const char expected[] =
        "\"evicted\":0,\"limits\":[{\"policy\":\"api\",\"passed\":2,\"delayed\":0,\"rejected\":1,"
        "\"delayed_shadow\":0,\"rejected_shadow\":0,\"failed\":0},{\"policy\":\"gcra 1/d burst "
        "9\",\"passed\":2,\"delayed\":0,\"rejected\":0,\"delayed_shadow\":0,\"rejected_shadow\":0,"
        "\"failed\":0}]}]}\n";
    static const char begin[] = "{\"zones\":[{\"zone\":\"z\",\"open\":true,\"keys\":2,";
    assert_memory_equal(fake.body, begin, sizeof begin - 1);
    assert_string_equal(strstr(fake.body, "\"evicted\""), expected);
    assert_true(weir_ngx_is(&fake.r.headers_out.content_type, "application/json"));
    assert_int_equal(fake.r.headers_out.content_length_n, strlen(fake.body));
}

static void status_for_prometheus(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h burst 2\" key=a name=api;weir_status prometheus");
    for (int i = 0; i < 3; i++)
        request();
    fake_request();
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_OK);
    static const char *const lines[] = {
        "# TYPE weir_nginx_decisions_total counter\n",
        "weir_nginx_decisions_total{zone=\"z\",policy=\"api\",result=\"passed\"} 2\n",
        "weir_nginx_decisions_total{zone=\"z\",policy=\"api\",result=\"rejected\"} 1\n",
        "weir_nginx_decisions_total{zone=\"z\",policy=\"api\",result=\"failed\"} 0\n",
        "# TYPE weir_nginx_zone_keys gauge\nweir_nginx_zone_keys{zone=\"z\"} 1\n",
        "weir_nginx_zone_evicted_total{zone=\"z\"} 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!strstr(fake.body, lines[i]))
            fail_msg("expected %s in %s", lines[i], fake.body);
    }
    fake_request();
    fake.r.method = NGX_HTTP_POST;
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_HTTP_NOT_ALLOWED);
}

/* ---- weir_reset ------------------------------------------------------------------------------ */

static void expect_reset(ngx_int_t status, const char *body)
{
    fake_request();
    fake.r.method = NGX_HTTP_POST;
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_OK);
    assert_int_equal(fake.r.headers_out.status, status);
    assert_string_equal(fake.body, body);
}

static void resets(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h\" key=$k;weir_reset z \"gcra  1/h\" key=$k");
    fake.variable = (ngx_str_t)ngx_string("k");
    assert_int_equal(request(), NGX_DECLINED);
    assert_int_equal(request(), NGX_DONE);
    expect_reset(200, "{\"reset\":true}\n");
    assert_int_equal(request(), NGX_DECLINED);
    fake.variable.len = 0;
    expect_reset(400, "{\"reset\":false,\"detail\":\"expected a key of 1 to 65536 bytes\"}\n");
    fake_request();
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_HTTP_NOT_ALLOWED);
}

/* addr= resets the bytes of an address, an IPv4 one also as a socket for IPv6 sees it. */
static void resets_of_addresses(void **unused)
{
    (void)unused;
    static u_char plain[] = {192, 0, 2, 1},
                  mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
    const ngx_str_t keys[] = {{4, plain}, {16, mapped}};
    configure("weir z \"gcra 1/h\" key=$binary_remote_addr;weir_reset z \"gcra 1/h\" addr=$a");
    for (int i = 0; i < 2; i++) {
        fake.variable = keys[i];
        assert_int_equal(request(), NGX_DECLINED);
        assert_int_equal(request(), NGX_DONE);
    }
    fake.variable = (ngx_str_t)ngx_string("192.0.2.1");
    expect_reset(200, "{\"reset\":true}\n");
    for (int i = 0; i < 2; i++) {
        fake.variable = keys[i];
        assert_int_equal(request(), NGX_DECLINED);
    }
    fake.variable = (ngx_str_t)ngx_string("2001:db8::1");
    expect_reset(200, "{\"reset\":true}\n");
    fake.variable = (ngx_str_t)ngx_string("192.0.2");
    expect_reset(400, "{\"reset\":false,\"detail\":\"expected an IP address\"}\n");
}

/* All keys of the limits with a name; other limits keep what was used. */
static void resets_of_all_keys(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h\" key=$k name=n;weir_reset z n all");
    fake.variable = (ngx_str_t)ngx_string("k");
    assert_int_equal(request(), NGX_DECLINED);
    assert_int_equal(request(), NGX_DONE);
    expect_reset(200, "{\"reset\":true}\n");
    assert_int_equal(request(), NGX_DECLINED);
    assert_int_equal(request(), NGX_DONE);
    weir_store *s = (*(weir_ngx_limit **)fake.conf->limits.elts)->zone->store;
    for (uint64_t other = 1; other < WEIR_RESETS_MAX; other++)
        assert_int_equal(weir_store_reset_policy(s, other << 40), WEIR_OK);
    expect_reset(200, "{\"reset\":true}\n");
    assert_int_equal(request(), NGX_DECLINED);
}

/* A store that has no room for another generation of keys. */
static void resets_that_fail(void **unused)
{
    (void)unused;
    configure("weir z \"gcra 1/h\" key=a name=n;weir_reset z n all");
    weir_store *s = (*(weir_ngx_limit **)fake.conf->limits.elts)->zone->store;
    for (uint64_t other = 1; other <= WEIR_RESETS_MAX; other++)
        assert_int_equal(weir_store_reset_policy(s, other << 40), WEIR_OK);
    fake_request();
    fake.r.method = NGX_HTTP_POST;
    fake_logged();
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_HTTP_INTERNAL_SERVER_ERROR);
    assert_string_equal(fake_logged(), "error cannot reset \"n\", zone \"z\": full\n");
}

static void operator_errors(void **unused)
{
    (void)unused;
    static const char duplicate[] = "is duplicate: a location has one weir_status or weir_reset";
    fake_expect_conf("weir_status text", "",
                     "emerg bad format \"text\", expected json or "
                     "prometheus\n");
    fake_expect_conf("weir_status json", NULL, NULL);
    fake_expect_conf("weir_status", duplicate, NULL);
    fake_expect_conf("weir_reset z a key=$k", duplicate, NULL);
    fake_next_location();
    fake_expect_conf("weir_reset z a cost=1", "",
                     "emerg bad parameter \"cost=1\", expected "
                     "key=EXPRESSION, addr=EXPRESSION or all\n");
    fake_next_location();
    fake_expect_conf("weir_reset z a key=", "",
                     "emerg bad parameter \"key=\", expected "
                     "key=EXPRESSION, addr=EXPRESSION or all\n");
    fake_next_location();
    fake_expect_conf("weir_reset z \"gcra 1/h\" all", "",
                     "emerg expected the name of a limit with \"all\"\n");
}

/* A weir_reset must name a limit of its zone; warnings say when it resets nothing. */
static void resets_of_nothing(void **unused)
{
    (void)unused;
    static const struct {
        const char *directives, *log;
        bool starts;
    } rows[] = {
        {"weir z \"gcra 1/h\" key=$a name=api;weir_reset z other key=$k",
         "emerg weir_reset: no limit \"other\" in zone \"z\", expected the name of a limit or, if "
         "it has none, its policy in nginx.conf:7\n",
         false},
        {"weir z \"gcra 1/h\" key=x$a name=api;weir_reset z api addr=$k",
         "warn weir_reset resets nothing, because the key of the limit is not $binary_remote_addr: "
         "use key= in nginx.conf:7\n",
         true},
        {"weir z \"gcra 1/h\" key=$a name=api;weir_daemon h:1;weir_reset z api key=$k",
         "warn weir_reset resets nothing, because a daemon decides: use weir reset in "
         "nginx.conf:7\n",
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_close(NULL);
        open_with_filter(NULL);
        fake_configure(rows[i].directives);
        assert_int_equal(fake_start(), rows[i].starts);
        assert_string_equal(fake_logged(), rows[i].log);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_with_filter, fake_close)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(variables),
                                       TEST(next_unit),
                                       TEST(times),
                                       TEST(which_limit_is_shown),
                                       TEST(which_limits_are_in_the_headers),
                                       TEST(header_sets),
                                       TEST(headers),
                                       TEST(spread),
                                       TEST(waits_are_spread),
                                       TEST(bodies),
                                       TEST(body_errors),
                                       TEST(status_as_json),
                                       TEST(status_for_prometheus),
                                       TEST(resets),
                                       TEST(resets_of_addresses),
                                       TEST(resets_of_all_keys),
                                       TEST(resets_that_fail),
                                       TEST(operator_errors),
                                       TEST(resets_of_nothing)};
    return cmocka_run_group_tests_name("report", tests, make_dir, remove_dir);
}
