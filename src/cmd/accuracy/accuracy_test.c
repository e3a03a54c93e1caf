/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The generator and the comparison. tests/conformance/accuracy_test.py compares the whole command
 * with a model. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cmd/accuracy/measure.h"
#include "cmd/accuracy/traffic.h"
#include "cmd/cmd.h"
#include "port/memory_kit_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)

/* ---- traffic --------------------------------------------------------------------------------- */

static traffic_options options_of(int kind)
{
    return (traffic_options){.kind = (traffic_kind)kind,
                             .sources = 300,
                             .requests = 60011,
                             .rate = 10,
                             .period_ns = SECOND,
                             .seed = 42};
}

/* Runs a traffic to its end. Returns a hash of all times, and counts sources and requests. */
static uint64_t run_traffic(traffic *t, uint64_t *ret_sources, uint64_t *ret_requests)
{
    uint64_t hash = 0;
    *ret_sources = *ret_requests = 0;
    while (traffic_source(t)) {
        int64_t t_ns = 0, before_ns = TRAFFIC_BEGIN_NS;
        uint64_t requests = 0;
        while (traffic_next(t, &t_ns)) {
            assert_true(t_ns >= before_ns);
            before_ns = t_ns;
            hash = (hash ^ (uint64_t)t_ns) * UINT64_C(0x100000001b3);
            requests++;
        }
        assert_true(requests > 0);
        assert_false(traffic_next(t, &t_ns));
        *ret_requests += requests;
        ++*ret_sources;
    }
    assert_false(traffic_source(t));
    return hash;
}

/* All requests are generated, by all sources, and depend only on the options. */
static void check_traffic(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        traffic t;
        uint64_t sources, requests;
        traffic_options o = options_of(kind);
        assert_true(traffic_init(&t, &o));
        uint64_t first = run_traffic(&t, &sources, &requests);
        assert_int_equal(sources, o.sources);
        assert_int_equal(requests, o.requests);
        assert_true(traffic_init(&t, &o));
        assert_true(run_traffic(&t, &sources, &requests) == first);
        o.seed++;
        assert_true(traffic_init(&t, &o));
        assert_true(run_traffic(&t, &sources, &requests) != first);
    }
}

/* A long source has the mean rate that was asked for. One of 20 of its gaps is long if it sends
 * bursts; 1/e of them exceed the mean if they are exponential. */
static void check_rates(void **unused)
{
    (void)unused;
    static const double longer[] = {0, 0.3679, 0.0473, 0.3679};
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        traffic t;
        traffic_options o = options_of(kind);
        o.sources = 1;
        o.requests = 400000;
        int64_t t_ns, first_ns = -1, last_ns = 0, long_gaps = 0;
        assert_true(traffic_init(&t, &o) && traffic_source(&t));
        while (traffic_next(&t, &t_ns)) {
            long_gaps += first_ns >= 0 && t_ns - last_ns > SECOND / 10;
            first_ns = first_ns < 0 ? t_ns : first_ns;
            last_ns = t_ns;
        }
        double mean_ns = (double)(last_ns - first_ns) / 399999;
        assert_true(mean_ns > 0.97e8 && mean_ns < 1.03e8);
        double share = (double)long_gaps / 399999;
        assert_true(share > longer[kind] - 0.003 && share < longer[kind] + 0.003);
    }
}

/* The first sources of heavy-tailed traffic send 1/1, 1/2, 1/3 of the most. */
static void check_heavy_tail(void **unused)
{
    (void)unused;
    traffic t;
    traffic_options o = options_of(TRAFFIC_HEAVY_TAILED);
    o.sources = 100000; /* more than have requests */
    o.requests = 100000;
    uint64_t count[3] = {0}, sources, requests;
    int64_t t_ns;
    assert_true(traffic_init(&t, &o));
    for (int i = 0; i < 3; i++) {
        assert_true(traffic_source(&t));
        while (traffic_next(&t, &t_ns))
            count[i]++;
    }
    assert_in_range(count[0], 8270, 8271); /* 100000 / (1/1 + 1/2 + ... + 1/100000) */
    assert_in_range(count[1], 4135, 4136);
    assert_in_range(count[2], 2756, 2757);
    run_traffic(&t, &sources, &requests);
    assert_int_equal(requests + count[0] + count[1] + count[2], 100000);
    assert_in_range(sources, 10000, 50000);
}

/* Times reach neither their end nor an overflow. */
static void check_extremes(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        traffic t;
        int64_t t_ns;
        traffic_options o = {.kind = (traffic_kind)kind, .seed = UINT64_MAX};
        o.sources = 1;
        o.requests = TRAFFIC_REQUESTS_MAX;
        o.rate = WEIR_LIMIT_MAX;
        o.period_ns = 1;
        assert_true(traffic_init(&t, &o) && traffic_source(&t));
        assert_int_equal(t.left, TRAFFIC_REQUESTS_MAX);
        for (int i = 0; i < 100; i++)
            assert_true(traffic_next(&t, &t_ns));
        o.requests = 1;
        o.rate = 1;
        o.period_ns = TRAFFIC_SPAN_NS_MAX;
        for (o.seed = 0; o.seed < 200; o.seed++) {
            assert_true(traffic_init(&t, &o) && traffic_source(&t) && traffic_next(&t, &t_ns));
            assert_true(t_ns >= TRAFFIC_BEGIN_NS && t_ns < TRAFFIC_BEGIN_NS + TRAFFIC_SPAN_NS_MAX);
            assert_true(t.t_ns > 0 && t.t_ns <= WEIR_NOW_NS_MAX);
        }
        o.period_ns++;
        assert_false(traffic_init(&t, &o));
        o.period_ns = WEIR_SPAN_NS_MAX;
        o.requests = TRAFFIC_REQUESTS_MAX;
        assert_false(traffic_init(&t, &o));
    }
}

/* ---- the comparison -------------------------------------------------------------------------- */

static weir_policy policy_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

typedef struct measured {
    accuracy_measure measure;
    accuracy_key *key;
} measured;

static void open_measured(measured *m, accuracy_against against, int64_t limit, const char *text)
{
    weir_policy p = policy_of(text);
    assert_int_equal(accuracy_measure_init(&m->measure, against, limit, MINUTE), WEIR_OK);
    assert_int_equal(accuracy_measure_add(&m->measure, &p), WEIR_OK);
    m->key = accuracy_key_open(&m->measure);
    assert_non_null(m->key);
}

static void request(measured *m, int64_t seconds, int64_t cost)
{
    assert_int_equal(accuracy_request(&m->measure, m->key, seconds * SECOND, cost), WEIR_OK);
}

/* Ends the key, closes all, and returns the result. */
static accuracy_tally close_measured(measured *m)
{
    accuracy_key_end(&m->measure, m->key);
    accuracy_key_close(m->key, &m->measure);
    return m->measure.policy[0].tally;
}

/* Four units before a boundary and four after it: a fixed window allows all of them. */
static void check_fixed_window(void **unused)
{
    (void)unused;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        measured m;
        open_measured(&m, (accuracy_against)against, 4, "fixed-window 4/m");
        for (int i = 0; i < 4; i++)
            request(&m, 59, 1);
        for (int i = 0; i < 4; i++)
            request(&m, 60, 1);
        request(&m, 61, 1); /* the ninth is denied, and rightly so */
        accuracy_tally t = close_measured(&m);
        assert_int_equal(t.allowed, 8);
        assert_int_equal(t.denied, 1);
        assert_int_equal(t.wrongly_allowed, 4);
        assert_int_equal(t.wrongly_denied, 0);
        assert_int_equal(t.keys_missed + t.keys_wrongly_denied, 0);
        assert_int_equal(t.peak, against == ACCURACY_OWN ? 8 : 0);
        assert_int_equal(m.measure.exact_denied, against == ACCURACY_OWN ? 0 : 5);
    }
}

/* The strict counter denies what the window has room for: 4 units at 0 s have left the window at
 * 60 s, but the counter assumes that they were spread over it. */
static void check_counter(void **unused)
{
    (void)unused;
    measured m;
    open_measured(&m, ACCURACY_OWN, 4, "sliding-counter 4/m");
    request(&m, 0, 4);
    request(&m, 60, 1); /* estimated 4 + 1, really 1 */
    request(&m, 75, 1); /* estimated 3 + 1 */
    accuracy_tally t = close_measured(&m);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.wrongly_denied, 1);
    assert_int_equal(t.keys_wrongly_denied, 1);
    assert_int_equal(t.estimates, 3);
    assert_true(t.difference_max == 4.0);
    assert_true(t.difference_sum == 7.0); /* 0 + 4 + 3 */
}

/* With ACCURACY_RATE, denied requests count: one that would fit is denied. */
static void check_rate(void **unused)
{
    (void)unused;
    measured m;
    open_measured(&m, ACCURACY_RATE, 2, "sliding-slices 2/m slices 2");
    request(&m, 0, 1);
    request(&m, 10, 2); /* 3 units */
    request(&m, 59, 1); /* 4 units */
    request(&m, 61, 1); /* 4 units: that at 0 has left, the slice before 60 is 1 unit */
    request(&m, 200, 0);
    accuracy_tally t = close_measured(&m);
    assert_int_equal(m.measure.exact_denied, 3);
    assert_int_equal(t.denied, 2);
    assert_int_equal(t.wrongly_allowed, 1);
    assert_int_equal(t.wrongly_denied, 0);
    assert_int_equal(t.estimates, 4);
}

/* A log against itself never differs, with any cost and while it grows. */
static void check_log(void **unused)
{
    (void)unused;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        measured m;
        open_measured(&m, (accuracy_against)against, 500, "sliding-log 500/m");
        for (int64_t i = 0; i < 3000; i++) {
            if (i == 1500) {
                accuracy_key_end(&m.measure, m.key);
                accuracy_key_reset(m.key, &m.measure);
            }
            request(&m, 1000 + i % 1500 / 11, i * 7 % 5);
        }
        request(&m, 2000, 501);
        request(&m, 2000, WEIR_COST_MAX);
        accuracy_tally t = close_measured(&m);
        assert_true(t.allowed > 500 && t.denied > 500);
        assert_int_equal(t.wrongly_allowed + t.wrongly_denied, 0);
        assert_int_equal(t.keys_missed + t.keys_wrongly_denied, 0);
        assert_true(against == ACCURACY_RATE || t.difference_max == 0);
        assert_int_equal(m.measure.keys, 2);
        assert_int_equal(m.measure.requests, 3002);
    }
}

static void check_unsupported(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        weir_status status[ACCURACY_AGAINST];
    } cases[] = {
        {"leaky-queue 5/m depth 2", {WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED}},
        {"gcra 5/m & gcra 5/h", {WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED, WEIR_E_UNSUPPORTED}},
        {"gcra 5/m", {WEIR_OK, WEIR_OK, WEIR_E_UNSUPPORTED}},
        {"fixed-window 6/m", {WEIR_OK, WEIR_OK, WEIR_E_UNSUPPORTED}},
        {"fixed-window 5/h", {WEIR_OK, WEIR_OK, WEIR_OK}},
    };
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        accuracy_measure m;
        assert_int_equal(accuracy_measure_init(&m, (accuracy_against)against, 5, MINUTE), WEIR_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            weir_policy p = policy_of(cases[i].text);
            assert_int_equal(accuracy_measure_add(&m, &p), cases[i].status[against]);
        }
        weir_policy p = policy_of("sliding-log 5/m");
        while (m.len < ACCURACY_POLICIES_MAX)
            assert_int_equal(accuracy_measure_add(&m, &p), WEIR_OK);
        assert_int_equal(accuracy_measure_add(&m, &p), WEIR_E_FULL);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const char *log_name;

/* Runs the command on standard error and output that are discarded. Returns its exit status. */
static int run_command(const char *against)
{
    const char *argv[] = {"accuracy", "--json", "--against", against, "--limit", "40/m", log_name};
    return weir_cmd_accuracy(sizeof argv / sizeof argv[0], (char **)argv);
}

static const char *attempt_against;

static bool attempt(uint64_t n, bool later)
{
    memory_fail(n, later);
    int status = run_command(attempt_against);
    bool failed = memory_stop();
    assert_int_equal(status, failed ? 1 : 0);
    return failed;
}

/* Each allocation fails once; the command then fails, and loses no memory. */
static void check_memory(void **unused)
{
    (void)unused;
    char name[] = "/tmp/accuracy_test.XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < 400; i++)
        fprintf(f, "%d000000000\tkey %d\n", 1000 + i / 9, i % 3);
    fclose(f);
    log_name = name;
    for (int against = 0; against < ACCURACY_AGAINST; against++) {
        attempt_against = accuracy_against_name((accuracy_against)against);
        assert_int_equal(run_command(attempt_against), 0); /* stdio allocates its buffers */
        fail_each_allocation(attempt);
    }
    (void)unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_traffic),      cmocka_unit_test(check_rates),
        cmocka_unit_test(check_heavy_tail),   cmocka_unit_test(check_extremes),
        cmocka_unit_test(check_fixed_window), cmocka_unit_test(check_counter),
        cmocka_unit_test(check_rate),         cmocka_unit_test(check_log),
        cmocka_unit_test(check_unsupported),  cmocka_unit_test(check_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
