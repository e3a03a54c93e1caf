/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What requests hold: it is given back when they end, renewed while they live, and not held by
 * those that are denied. */

#include "fake.h"

#include "modules/nginx/decide.h"
#include "store/iterate.h"

static const int64_t ms_ns = 1000000, s_ns = 1000000000;
static int64_t start_ns;

static weir_ngx_limit *limit(size_t i)
{
    return ((weir_ngx_limit **)fake.conf->limits.elts)[i];
}

/* Sets the time of the zone: milliseconds after the start of the test. */
static void at_ms(int64_t ms)
{
    weir_store_set_time(limit(0)->zone->store, start_ns + ms * ms_ns);
}

static void configure(const char *directives)
{
    fake_configure(directives);
    assert_true(fake_start());
    fake_logged();
    start_ns = weir_store_now(limit(0)->zone->store) + s_ns;
    at_ms(0);
}

/* How many units of a limit are free. */
static int64_t left(size_t i)
{
    weir_decision d;
    const weir_ngx_limit *l = limit(i);
    weir_store *s = l->zone->store;
    assert_int_equal(
        weir_store_peek(s, &l->policy, weir_ngx_limit_id(l), "a", 1, weir_store_now(s), 0, &d),
        WEIR_OK);
    return d.remaining;
}

static ngx_int_t request(void)
{
    return weir_ngx_handler(fake_request());
}

/* A request in flight: its pool. */
static ngx_pool_t begin(void)
{
    assert_int_equal(request(), NGX_DECLINED);
    ngx_pool_t pool = fake.pool;
    fake.pool = (ngx_pool_t){0};
    return pool;
}

/* Ends it, and a denied one before. */
static void end(ngx_pool_t pool)
{
    fake_request();
    fake.pool = pool;
    fake_request();
}

static void slots(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 2 lease 30s\" key=a");
    ngx_pool_t first = begin(), second = begin();
    assert_string_equal(fake_variable("weir_remaining"), "0");
    assert_int_equal(request(), NGX_DONE);
    assert_int_equal(fake.finalized, 429);
    assert_string_equal(fake_variable("weir_status"), "REJECTED");
    assert_int_equal(left(0), 0);
    end(first);
    assert_int_equal(left(0), 1);
    first = begin();
    assert_int_equal(weir_ngx_handler(&fake.r), NGX_DECLINED); /* the phase runs again */
    assert_int_equal(left(0), 0);
    end(second);
    end(first);
    assert_int_equal(left(0), 2);
    assert_int_equal(limit(0)->counts->of[WEIR_NGX_PASSED], 3);
    assert_int_equal(limit(0)->counts->of[WEIR_NGX_REJECTED], 1);
}

/* A limit that denies a request leaves nothing held, whatever the order of the limits. */
static void several_limits(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 3 lease 30s\" key=a cost=2;weir z \"gcra 1/h burst 2\" key=a;"
              "weir z \"concurrent 9 lease 60s & fixed-window 9/year\" key=a");
    ngx_pool_t first = begin();
    assert_true(left(0) == 1 && left(1) == 1 && left(2) == 8);
    assert_int_equal(request(), NGX_DONE); /* by the first limit */
    assert_true(left(0) == 1 && left(1) == 1 && left(2) == 8);
    end(first);
    assert_true(left(0) == 3 && left(1) == 1 && left(2) == 8); /* the rate of the last is charged */
    first = begin();
    end(first);
    assert_int_equal(request(), NGX_DONE); /* by the second one */
    assert_true(left(0) == 3 && left(1) == 0 && left(2) == 7);
    fake_request(); /* ends the denied one */
}

static void nothing_to_hold(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 2 lease 30s\" key=a cost=$c");
    fake.variable = (ngx_str_t)ngx_string("0");
    ngx_pool_t first = begin();
    assert_int_equal(left(0), 2);
    fake_pass(3600000);
    end(first);
    assert_int_equal(left(0), 2);
}

/* A shadow limit counts the requests that it would allow, and denies none. */
static void shadow_limits(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 1 lease 30s\" key=a shadow");
    ngx_pool_t first = begin(), second = begin();
    assert_string_equal(fake_variable("weir_status"), "REJECTED_SHADOW");
    end(second);
    assert_int_equal(left(0), 0);
    end(first);
    assert_int_equal(left(0), 1);
}

/* A request renews its leases every third of the shortest one. */
static void renewals(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 1 lease 30s\" key=a;weir z \"concurrent 1 lease 60s\" key=a");
    ngx_pool_t first = begin();
    at_ms(9999);
    fake_pass(9999);
    at_ms(29999);
    assert_int_equal(left(0), 0);
    at_ms(31000); /* the test itself took some time */
    assert_int_equal(left(0), 1);
    assert_int_equal(left(1), 0);
    end(first);
    assert_string_equal(fake_logged(), "");

    at_ms(100000);
    first = begin();
    for (int64_t ms = 110000; ms < 300000; ms += 10000) {
        at_ms(ms);
        fake_pass(10000);
        at_ms(ms + 9999);
        assert_true(left(0) == 0 && left(1) == 0);
    }
    end(first);
    assert_true(left(0) == 1 && left(1) == 1);
    fake_pass(100000); /* nothing is renewed any more */
    assert_string_equal(fake_logged(), "");
}

/* A lease that was lost is not renewed again, and its end gives back nothing of others. */
static void lost_leases(void **unused)
{
    (void)unused;
    static const char lost[] = "warn cannot renew a lease of \"n\", zone \"z\": it has ended, "
                               "or the key was reset or evicted\n";
    configure("weir z \"concurrent 1 lease 30s\" key=a name=n");
    ngx_pool_t first = begin();
    at_ms(31000);
    fake_pass(10000);
    assert_string_equal(fake_logged(), lost);
    fake_pass(10000);
    assert_string_equal(fake_logged(), "");
    ngx_pool_t second = begin();
    end(first);
    assert_int_equal(left(0), 0);
    assert_int_equal(weir_store_reset(limit(0)->zone->store, limit(0)->id, "a", 1), WEIR_OK);
    fake_pass(10000);
    assert_string_equal(fake_logged(), lost);
    end(second);
    assert_int_equal(left(0), 1);
}

/* If memory is exhausted, nothing stays held. */
static void no_memory(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 5 lease 30s\" key=a;weir z \"concurrent 5 lease 40s\" key=a");
    ngx_int_t rc = NGX_DONE;
    int errors = 0;
    for (long n = 0; n < 10 && rc != NGX_DECLINED; n++) {
        fake_request();
        fake.allocations = n;
        rc = weir_ngx_handler(&fake.r);
        fake.allocations = -1;
        assert_true(left(0) == (rc == NGX_DECLINED ? 4 : 5) && left(1) == left(0));
        errors += rc == NGX_DONE;
        if (rc == NGX_DONE)
            assert_string_equal(fake_logged(), "alert no decision by \"concurrent 5 lease 40s\", "
                                               "zone \"z\": out of memory\n");
    }
    assert_int_equal(rc, NGX_DECLINED);
    assert_int_equal(errors, 1);
    fake_request();
}

/* A reload: requests of the old configuration give back what counts under the new one. */
static void a_limit_that_changes(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 3 lease 30s\" key=a name=n");
    ngx_pool_t first = begin(), second = begin();
    weir_store *old = limit(0)->zone->store;
    fake_reload();
    fake_configure("weir z \"concurrent 4 lease 30s\" key=a name=n");
    assert_true(fake_start());
    at_ms(1);
    ngx_pool_t third = begin();
    assert_int_equal(left(0), 1);
    end(first);
    assert_int_equal(left(0), 2);
    at_ms(10001);
    weir_store_set_time(old, start_ns + 10001 * ms_ns);
    fake_pass(10000);
    at_ms(39999);
    assert_int_equal(left(0), 2); /* the others are renewed */
    end(second);
    assert_int_equal(left(0), 3);
    end(third);
    assert_int_equal(left(0), 4);
}

/* After a reset of all keys, what was held before does not count. */
static void reset_of_all(void **unused)
{
    (void)unused;
    configure("weir z \"concurrent 2 lease 30s\" key=a name=n;weir_reset z n all");
    ngx_pool_t first = begin();
    fake_request();
    fake.r.method = NGX_HTTP_POST;
    assert_int_equal(fake.core_loc.handler(&fake.r), NGX_OK);
    assert_int_equal(left(0), 2);
    ngx_pool_t second = begin();
    at_ms(10000);
    fake_pass(10000);
    assert_int_equal(left(0), 1);
    end(first);
    assert_int_equal(left(0), 1);
    end(second);
    assert_int_equal(left(0), 2);
    assert_string_equal(fake_logged(), "");
}

static void errors(void **unused)
{
    (void)unused;
    fake_expect_conf("weir z \"concurrent 2 lease 100ms\" key=a", NULL, NULL);
    fake_expect_conf("weir z \"concurrent 2 lease 99ms\" key=a", "",
                     "emerg the lease in the policy is too short, expected at least 100 ms\n");
    fake_expect_conf("weir z \"gcra 5/s & concurrent 2 lease 9ms\" key=a", "",
                     "emerg the lease in the policy is too short, expected at least 100 ms\n");
}

/* A daemon would hold the units until the lease ends. */
static void no_daemon(void **unused)
{
    (void)unused;
    fake_configure("weir z \"gcra 1/s\" key=a;weir z \"concurrent 2  lease 30s\" key=a;"
                   "weir_daemon h:1 on_error=local");
    assert_false(fake_start());
    assert_string_equal(fake_logged(),
                        "emerg weir_daemon cannot decide on the policy \"concurrent 2 lease 30s\", "
                        "because nothing would be given back when a request ends: expected "
                        "\"weir_daemon off\" with concurrent in nginx.conf:7\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open, fake_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slots),        TEST(several_limits), TEST(nothing_to_hold), TEST(shadow_limits),
        TEST(renewals),     TEST(lost_leases),    TEST(no_memory),       TEST(a_limit_that_changes),
        TEST(reset_of_all), TEST(errors),         TEST(no_daemon)};
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
