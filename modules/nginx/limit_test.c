/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The directive `weir`: its parameters and their errors, which limits are duplicates, and warnings
 * of what has no effect. */

#include "fake.h"

typedef struct row {
    const char *directive;
    const char *error; /* that the function returns: NULL: accepted; "": it was logged */
    const char *log;
} row;

static void expect_rows(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fake_next_location();
        fake_expect_conf(rows[i].directive, rows[i].error, rows[i].log);
    }
}

#define EXPECT_ROWS(rows) expect_rows(rows, sizeof(rows) / sizeof(rows)[0])

#define WEIR "weir z \"gcra 1/s\" key=a "

static void parameters(void **unused)
{
    (void)unused;
    static const char status[] =
        "emerg bad parameter \"status=%s\", expected status= from 400 to 599\n";
    char low[128], high[128], word[128];
    snprintf(low, sizeof low, status, "399");
    snprintf(high, sizeof high, status, "600");
    snprintf(word, sizeof word, status, "x");
    const row rows[] = {
        {WEIR, NULL, NULL},
        {WEIR "status=400 unit=tokens name=a log_level=info", NULL, NULL},
        {WEIR "status=599 unit=bytes log_level=error shadow", NULL,
         "warn \"status=599\" has no effect, because a limit with shadow denies nothing\n"},
        {WEIR "status=399", "", low},
        {WEIR "status=600", "", high},
        {WEIR "status=x", "", word},
        {WEIR "name=", "",
         "emerg bad parameter \"name=\", expected name= with 1 to 64 letters, digits and - _ . : "
         "/\n"},
        {WEIR "unit=", "",
         "emerg bad parameter \"unit=\", expected unit= requests, tokens or bytes\n"},
        {WEIR "unit=byte", "",
         "emerg bad parameter \"unit=byte\", expected unit= requests, tokens or bytes\n"},
        {WEIR "log_level=debug", "",
         "emerg bad parameter \"log_level=debug\", expected log_level= info, notice, warn or "
         "error\n"},
        {WEIR "cost=", "", "emerg bad parameter \"cost=\", expected cost=EXPRESSION\n"},
        {WEIR "keep=", "",
         "emerg bad parameter \"keep=\", expected keep= with a number of units, or a share from 0% "
         "to "
         "100%\n"},
        {WEIR "keep=101%", "",
         "emerg bad parameter \"keep=101%\", expected keep= with a number of units, or a share "
         "from "
         "0% to 100%\n"},
        {WEIR "keep=0%", NULL, NULL},
        {WEIR "shadows", "",
         "emerg bad parameter \"shadows\", expected key=, cost=, keep=, name=, status=, delay=, "
         "unit=, "
         "log_level= or shadow\n"},
        {WEIR "key=b", "", "emerg duplicate parameter \"key=\"\n"},
        {"weir z \"gcra 1/s\" key=", "", "emerg bad parameter \"key=\", expected key=EXPRESSION\n"},
        {"weir z \"gcra 1/s\" name=a", "",
         "emerg no key, expected a parameter such as key=$binary_remote_addr\n"},
        {"weir z \"gcra 1/x\" key=a", "",
         "emerg policy \"gcra 1/x\", column 8: unknown unit 'x', expected one of ns us ms s m h d "
         "w\n"},
        {"weir z \"gcra 1/s\"", "",
         "emerg expected weir ZONE \"POLICY\" key=EXPRESSION ..., or weir off\n"},
        {"weir offs", "", "emerg expected weir ZONE \"POLICY\" key=EXPRESSION ..., or weir off\n"},
        {"weir off", NULL, NULL},
    };
    EXPECT_ROWS(rows);
}

static void costs(void **unused)
{
    (void)unused;
    static const row rows[] = {
        {"weir z \"gcra 1/s burst 5\" key=a cost=5", NULL, NULL},
        {"weir z \"gcra 1/s burst 5\" key=a cost=$c", NULL, NULL},
        {"weir z \"gcra 1/s burst 5\" key=a cost=0", NULL, "warn a cost of 0 charges nothing\n"},
        {"weir z \"gcra 1/s burst 5\" key=a cost=6", NULL,
         "warn no request is allowed, because the policy allows a cost of at most 5\n"},
        {"weir z \"gcra 1/s burst 5 & fixed-window 3/m\" key=a cost=4", NULL,
         "warn no request is allowed, because the policy allows a cost of at most 3\n"},
        {"weir z \"gcra 1/s burst 5\" key=a cost=6 shadow", NULL, NULL},
        {"weir z \"gcra 1/s burst 5\" key=a cost=3 keep=2", NULL, NULL},
        {"weir z \"gcra 1/s burst 5\" key=a cost=4 keep=2", NULL,
         "warn no request is allowed, because the policy allows a cost of at most 3 with what the "
         "request keeps\n"},
        {"weir z \"gcra 1/s burst 5\" key=a keep=80%", NULL, NULL},
        {"weir z \"gcra 1/s burst 5\" key=a keep=6", NULL,
         "warn no request is allowed, because the policy allows a cost of at most 0 with what the "
         "request keeps\n"},
        {"weir z \"gcra 1/s burst 5\" key=a cost=1x", "",
         "emerg bad parameter \"cost=1x\", expected a whole number or a variable\n"},
        {"weir z \"gcra 1/s burst 5\" key=a cost=-1", "",
         "emerg bad parameter \"cost=-1\", expected a whole number or a variable\n"},
    };
    EXPECT_ROWS(rows);
}

/* delay= needs a queue that is deeper. Its time is rounded up. */
static void delays(void **unused)
{
    (void)unused;
    static const char expected[] = "expected delay= from 1 to the depth of the leaky-queue in the "
                                   "policy\n";
    char zero[160], deep[160], none[160];
    snprintf(zero, sizeof zero, "emerg bad parameter \"delay=0\", %s", expected);
    snprintf(deep, sizeof deep, "emerg bad parameter \"delay=10\", %s", expected);
    snprintf(none, sizeof none, "emerg bad parameter \"delay=1\", %s", expected);
    const row rows[] = {
        {"weir z \"leaky-queue 3/s depth 9\" key=a delay=0", "", zero},
        {"weir z \"leaky-queue 3/s depth 9\" key=a delay=10", "", deep},
        {"weir z \"gcra 3/s\" key=a delay=1", "", none},
        {"weir z \"leaky-queue 3/s depth 9 nodelay 2\" key=a delay=1", "",
         "emerg delay= and nodelay in the policy mean the same, use one of them\n"},
        {"weir z \"leaky-queue 3/s depth 9\" key=a delay=1", NULL, NULL},
        {"weir z \"gcra 9/s & leaky-queue 1/s depth 9\" key=a delay=9", NULL, NULL},
    };
    EXPECT_ROWS(rows);
    weir_ngx_limit **limits = fake.conf->limits.elts;
    assert_int_equal(fake.conf->limits.nelts, 2);
    assert_int_equal(limits[0]->undelayed_ns, 333333334);
    assert_int_equal(limits[1]->undelayed_ns, INT64_C(9000000000));
}

/* What a limit keeps, and its defaults. */
static void members(void **unused)
{
    (void)unused;
    fake_expect_conf("weir z \"gcra  60/m\" key=$a", NULL, NULL);
    fake_expect_conf("weir z \"gcra 60/m burst 5\" key=$a name=api status=503 log_level=warn "
                     "unit=tokens keep=20%",
                     NULL, NULL);
    fake_expect_conf("weir z \"gcra 60/m\" key=$b shadow log_level=notice unit=requests", NULL,
                     NULL);
    weir_ngx_limit **limits = fake.loc->limits->elts;
    assert_int_equal(fake.loc->limits->nelts, 3);
    assert_int_equal(fake.loc->shadows, 1);
    assert_int_equal(limits[0]->keep, 0);
    assert_int_equal(limits[1]->keep, WEIR_KEEP_PERCENT(20));
    assert_string_equal((const char *)limits[0]->at.file.data, "nginx.conf");
    assert_int_equal(limits[0]->at.line, 7);
    assert_int_equal(limits[0]->status, 429);
    assert_int_equal(limits[0]->log_level, NGX_LOG_ERR);
    assert_int_equal(limits[0]->unit, WEIR_UNIT_UNSET);
    assert_true(weir_ngx_is(&limits[0]->label, "gcra 60/m burst 1"));
    assert_true(weir_ngx_is(&limits[0]->states, "key=$a"));
    assert_int_equal(limits[1]->status, 503);
    assert_int_equal(limits[1]->log_level, NGX_LOG_WARN);
    assert_int_equal(limits[1]->unit, WEIR_UNIT_TOKENS);
    assert_true(weir_ngx_is(&limits[1]->label, "api"));
    assert_true(weir_ngx_is(&limits[1]->states, "api"));
    assert_true(limits[2]->shadow && !limits[1]->shadow);
    assert_int_equal(limits[2]->log_level, NGX_LOG_NOTICE);
    assert_int_equal(limits[2]->unit, WEIR_UNIT_REQUESTS);
}

static void several_in_a_location(void **unused)
{
    (void)unused;
    static const char twice[] = "is duplicate: it would charge each request twice";
    fake_expect_conf(WEIR, NULL, NULL);
    fake_expect_conf(WEIR "status=403 cost=1", twice, NULL);
    fake_expect_conf(WEIR "cost=2", NULL,
                     "warn no request is allowed, because the policy allows a "
                     "cost of at most 1\n");
    fake_expect_conf(WEIR "name=other", NULL, NULL);
    fake_expect_conf("weir y \"gcra 1/s\" key=a", NULL, NULL);
    fake_expect_conf("weir z \"gcra 2/s\" key=a", NULL, NULL);
    fake_expect_conf("weir z \"gcra 1/s\" key=b", NULL, NULL);
    fake_expect_conf("weir z \"gcra 1/s burst 1\" key=b", twice, NULL);
    fake_expect_conf("weir z \"gcra 1/s burst 2\" key=a", NULL, NULL);
    fake_expect_conf("weir z \"leaky-queue 60/m depth 5\" key=a name=other", twice, NULL);
    fake_expect_conf("weir off", "", "emerg \"weir off\" excludes other limits here\n");
    fake_next_location();
    fake_expect_conf("weir off", NULL, NULL);
    fake_expect_conf(WEIR, "", "emerg \"weir off\" excludes other limits here\n");
    fake_next_location();
    for (int i = 1; i <= WEIR_TAKE_MANY_MAX + 1; i++) {
        char directive[64];
        bool fits = i <= WEIR_TAKE_MANY_MAX;
        snprintf(directive, sizeof directive, "weir z \"gcra %d/s\" key=a", i);
        fake_expect_conf(directive, fits ? NULL : "",
                         fits ? NULL : "emerg too many limits, expected at most 16\n");
    }
}

/* Limits of one zone, name and rate have the id of the largest burst, in any order. */
static void shared_states(void **unused)
{
    (void)unused;
    static const char *const directives[] = {
        "weir z \"leaky-queue 1/s depth 8\" key=a name=n",
        "weir z \"gcra 1/s burst 9\" key=$b name=n",
        "weir z \"gcra 60/m burst 2\" key=$c name=n",
        "weir z \"gcra 60/m burst 2\" key=$c name=m",
        "weir y \"gcra 60/m burst 2\" key=$c name=n",
        "weir z \"gcra 2/s burst 2\" key=$c name=n",
        "weir z \"gcra 1/s burst 3\" key=$c",
        "weir z \"gcra 1/s burst 4\" key=$c",
        "weir z \"fixed-window 1/s\" key=$c name=n",
    };
    enum { N = sizeof directives / sizeof directives[0], SHARE = 3 };
    for (size_t first = 0; first < N; first++) {
        fake_close(NULL);
        fake_open(NULL);
        for (size_t i = 0; i < N; i++) {
            fake_next_location();
            fake_expect_conf(directives[(first + i) % N], NULL, NULL);
        }
        weir_ngx_limit **limits = fake.conf->limits.elts;
        for (size_t i = 0; i < N; i++) {
            size_t which = (first + i) % N, widest = which < SHARE ? 0 : which;
            assert_ptr_equal(limits[i]->widest, limits[(widest + N - first) % N]);
            assert_int_equal(limits[i]->mixed, which != 3 && which != 4);
        }
    }
}

/* ---- warnings -------------------------------------------------------------------------------- */

/* Configures a location with these directives, separated by ';', and expects these lines when the
 * whole configuration is known. */
static void expect_effects(const char *directives, const char *log)
{
    fake_close(NULL);
    fake_open(NULL);
    fake_configure(directives);
    assert_string_equal(fake_logged(), "");
    assert_true(fake_start());
    assert_string_equal(fake_logged(), log);
}

#define AT " in nginx.conf:7\n"

static void effects(void **unused)
{
    (void)unused;
    expect_effects(WEIR, "");
    expect_effects("weir off", "warn no weir uses the zone \"z\"" AT);
    expect_effects(WEIR ";weir_headers on", "");
    expect_effects(WEIR "shadow;weir_headers on",
                   "warn \"weir_headers\" has no effect, because no weir without shadow is here or "
                   "below" AT);
    expect_effects(WEIR ";weir_retry_spread 10%", "");
    expect_effects(WEIR "shadow;weir_retry_spread 0%", "");
    expect_effects(WEIR "shadow;weir_retry_spread 10%",
                   "warn \"weir_retry_spread\" has no effect, because no weir without shadow is "
                   "here or below" AT);
    expect_effects(WEIR "shadow;weir_denied_body no",
                   "warn \"weir_denied_body\" has no effect, because no weir without shadow is "
                   "here or below" AT);
    expect_effects(WEIR "shadow;weir_daemon h:1", "");
    expect_effects("weir_daemon h:1",
                   "warn \"weir_daemon\" has no effect, because no weir is here or below" AT
                   "warn no weir uses the zone \"z\"" AT);
    expect_effects(WEIR "unit=bytes", "warn \"unit=bytes\" has no effect without weir_headers "
                                      "ietf" AT);
    expect_effects(WEIR "unit=tokens;weir_headers ietf",
                   "warn \"unit=tokens\" has no effect without weir_headers openai" AT);
    expect_effects(WEIR "unit=tokens;weir_headers openai", "");
    expect_effects("weir z \"gcra 1/s\" key=binary_remote_addr",
                   "warn the key \"binary_remote_addr\" is the same for all requests, did you mean "
                   "\"$binary_remote_addr\"?" AT);
    expect_effects("weir z \"gcra 1/s\" key=a$upstream_status",
                   "warn the variable $upstream_... has no value yet when limits are checked" AT);
    expect_effects("weir z \"gcra 1/s\" key=a cost=${bytes_sent}",
                   "warn the variable $bytes_sent has no value yet when limits are checked" AT);
}

/* Memory runs out at any allocation of a directive. */
static void no_memory(void **unused)
{
    (void)unused;
    bool accepted = false;
    for (long n = 0; n < 40 && !accepted; n++) {
        fake_close(NULL);
        fake_open(NULL);
        fake.allocations = n;
        accepted = !fake_conf("weir new \"gcra 1/s\" key=$a cost=$c");
        fake.allocations = -1;
    }
    assert_true(accepted);
}

static void zones_that_are_not_declared(void **unused)
{
    (void)unused;
    assert_null(fake_conf("weir nowhere \"gcra 1/s\" key=a"));
    assert_false(fake_start());
    assert_string_equal(fake_logged(), "emerg unknown zone \"nowhere\", expected the name of a "
                                       "weir_zone in nginx.conf:7\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parameters, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(costs, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(delays, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(members, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(several_in_a_location, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(shared_states, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(effects, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(no_memory, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(zones_that_are_not_declared, fake_open, fake_close)};
    return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
