/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Top keys: the bounds of the Space-Saving sketch on any stream, the errors of sampling, and the
 * merge of several services. */

#include "service/top/top.h"

#include "service/kit_test.h"
#include "service/top/space_saving.h"
#include "service/top/tracker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 400, LISTS = 4 };

/* ---- sketches -------------------------------------------------------------------------------- */

/* The exact costs of all keys, and the sketches of the same streams. */
typedef struct world {
    uint64_t random;
    size_t lists, max;
    int64_t step;
    weir_space_saving *list[LISTS];
    double truth[KEYS + 1], sum; /* exact: halves of whole numbers below 2^53 */
} world;

static world world_new(uint64_t seed, size_t lists, size_t max)
{
    world w = {.random = seed, .lists = lists, .max = max};
    for (size_t i = 0; i < lists; i++) {
        w.list[i] = weir_space_saving_new(max, 0);
        assert_non_null(w.list[i]);
    }
    return w;
}

static void world_free(world *w)
{
    for (size_t i = 0; i < w->lists; i++)
        weir_space_saving_free(w->list[i]);
}

static void world_add(world *w, size_t key, uint64_t cost)
{
    char text[16];
    int len = snprintf(text, sizeof text, "k%zu", key);
    weir_space_saving *h = w->list[weir_sampler_random(&w->random) % w->lists];
    weir_space_saving_decay(h, w->step); /* lazily, as a service does */
    weir_space_saving_add(h, key, text, (size_t)len, cost, 1);
    w->truth[key] += (double)cost;
    w->sum += (double)cost;
}

static void world_decay(world *w, int64_t steps)
{
    w->step += steps;
    for (int64_t i = 0; i < steps; i++) {
        w->sum /= 2;
        for (size_t k = 0; k <= KEYS; k++)
            w->truth[k] /= 2;
    }
}

/* Checks the bounds in space_saving.h. Rounding may have lost less than one unit in each list. */
static void world_check(world *w)
{
    static weir_space_saving_row rows[LISTS * KEYS];
    double lost = w->step > 0 ? (double)w->lists : 0;
    bool listed[KEYS + 1] = {false};
    for (size_t i = 0; i < w->lists; i++)
        weir_space_saving_decay(w->list[i], w->step);
    weir_space_saving_sum sum = weir_space_saving_merge(w->list, w->lists, rows);
    assert_true((double)sum.cost <= w->sum && (double)sum.cost >= w->sum - lost);
    assert_true((double)sum.unlisted <= w->sum / (double)w->max);
    for (size_t i = 0; i < sum.len; i++) {
        size_t key = (size_t)rows[i].hash;
        assert_true(key >= 1 && key <= KEYS && !listed[key]);
        listed[key] = true;
        assert_true((double)rows[i].least <= w->truth[key]);
        assert_true((double)rows[i].cost + lost >= w->truth[key]);
        assert_true(rows[i].cost - rows[i].least <= sum.unlisted + 1 + (uint64_t)lost);
        assert_true(i == 0 || rows[i].cost <= rows[i - 1].cost);
        char text[16];
        int len = snprintf(text, sizeof text, "k%zu", key);
        assert_true(rows[i].key->len == (uint32_t)len);
        assert_memory_equal(rows[i].key->text, text, (size_t)len);
    }
    for (size_t key = 1; key <= KEYS; key++) {
        if (!listed[key])
            assert_true(w->truth[key] <= (double)sum.unlisted + lost);
        if (w->truth[key] > w->sum / (double)w->max + lost)
            assert_true(listed[key]);
    }
}

/* Streams of several shapes: even, skewed, in runs, and always new keys, which is the worst case
 * for Space-Saving. */
static size_t next_key(world *w, unsigned shape, size_t i)
{
    uint64_t x = weir_sampler_random(&w->random);
    switch (shape) {
    case 0:
        return 1 + x % KEYS;
    case 1:
        return 1 + (size_t)(x % KEYS) * (size_t)(x / KEYS % KEYS) / KEYS;
    case 2:
        return 1 + i / 50 % KEYS;
    default:
        return x % 8 == 0 ? 1 + x / 8 % 3 : 1 + i % KEYS;
    }
}

static void check_bounds(void **unused)
{
    (void)unused;
    static const size_t maxes[] = {1, 2, 10, 100};
    for (unsigned run = 0; run < 96; run++) {
        world w = world_new(run + 1, 1 + run / 4 % LISTS, maxes[run / 16 % 4]);
        for (size_t i = 0; i < 3000; i++) {
            uint64_t x = weir_sampler_random(&w.random);
            uint64_t cost = run % 3 == 0 ? 1 : run % 3 == 1 ? 1 + x % 100 : x % 2147483647 + 1;
            world_add(&w, next_key(&w, run % 4, i), cost);
            if (run >= 48 && x % 500 == 0)
                world_decay(&w, (int64_t)(x / 500 % 3));
            if (i % 600 == 599)
                world_check(&w);
        }
        world_decay(&w, run >= 48 ? 100 : 0);
        world_check(&w);
        world_free(&w);
    }
}

/* A request of one and a half intervals contains the drawn unit of the second one, or the next hit
 * is at that unit. */
static void check_sampler_within_an_interval(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
        int64_t left;
        weir_sampler s = {.next = 3};
        weir_sampler_begin(&s, &left, &random);
        uint64_t copy = random, drawn = weir_sampler_random(&copy) % 8;
        left -= 12;
        uint64_t counted = weir_sampler_hit(&s, &left, &random);
        assert_int_equal(counted, drawn < 4 ? 16 : 8);
        uint64_t next = drawn < 4 ? 8 + weir_sampler_random(&copy) % 8 : drawn;
        assert_int_equal(left, next - 4 + 1);
    }
}

static void check_decay(void **unused)
{
    (void)unused;
    weir_space_saving *h = weir_space_saving_new(3, 7);
    weir_space_saving_add(h, 1, "a", 1, 8, 4);
    weir_space_saving_add(h, 2, "b", 1, 1, 1);
    weir_space_saving_add(h, 3, "c", 1, 5, 1);
    weir_space_saving_decay(h, 6); /* an earlier step does nothing */
    assert_int_equal(h->cost, 14);
    weir_space_saving_decay(h, 8);
    assert_int_equal(h->cost, 7);
    assert_int_equal(h->len, 2);
    assert_int_equal(h->weight[0].cost, 4);
    assert_int_equal(h->key[0].requests, 2);
    assert_int_equal(h->weight[1].hash, 3);
    assert_int_equal(h->weight[1].cost, 2);
    assert_memory_equal(h->key[1].text, "c", 1);
    assert_int_equal(weir_space_saving_unlisted(h), 0);
    weir_space_saving_decay(h, INT64_MAX);
    assert_int_equal(h->len, 0);
    assert_int_equal(h->cost, 0);
    weir_space_saving_free(h);
}

static void check_saturation(void **unused)
{
    (void)unused;
    weir_space_saving *h = weir_space_saving_new(1, 0);
    weir_space_saving_row row[1];
    for (int i = 0; i < 3; i++)
        weir_space_saving_add(h, 1, "a", 1, INT64_MAX, INT64_MAX);
    weir_space_saving_sum sum = weir_space_saving_merge(&h, 1, row);
    assert_true(sum.cost == INT64_MAX && row[0].cost == INT64_MAX && row[0].requests == INT64_MAX);
    weir_space_saving_free(h);
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* One unit of each interval is hit, whatever the costs of the requests. */
static void check_intervals(void **unused)
{
    (void)unused;
    uint64_t random = 1;
    for (unsigned shift = 0; shift < 12; shift++) {
        weir_sampler s = {.next = shift};
        int64_t left;
        weir_sampler_begin(&s, &left, &random);
        uint64_t cost_sum = 0, hit = 0, interval = UINT64_C(1) << shift;
        for (int i = 0; i < 20000; i++) {
            uint64_t x = weir_sampler_random(&random);
            int64_t cost = 1 + (int64_t)(x % 7 == 0 ? x / 7 % 10000 : x / 7 % 5);
            cost_sum += (uint64_t)cost;
            left -= cost;
            if (left <= 0)
                hit += weir_sampler_hit(&s, &left, &random);
            assert_true(left > 0 && left < 2 * (int64_t)interval);
            assert_true(hit <= cost_sum + interval && cost_sum < hit + interval);
        }
        assert_true(shift > 0 || cost_sum == hit);
    }
}

/* Two keys alternate, and 1 unit in 10 is the first one's. Its expected count is its share,
 * although the interval changes all the time. Each interval has a standard deviation below 0.3 of
 * its length; the test allows 8 standard deviations. */
static void check_expectation(void **unused)
{
    (void)unused;
    uint64_t random = 12345;
    weir_sampler s = {0};
    int64_t left;
    double truth[2] = {0}, seen[2] = {0}, squares = 0;
    weir_sampler_begin(&s, &left, &random);
    for (int i = 0; i < 400000; i++) {
        int key = i % 2;
        int64_t cost = key == 0 ? 2 : 18;
        if (i % 5000 == 0) {
            s.next = (unsigned)(i / 5000) % 10;
            if (i % 10000 == 0)
                weir_sampler_begin(&s, &left, &random);
        }
        truth[key] += (double)cost;
        left -= cost;
        if (left > 0)
            continue;
        double interval = (double)(UINT64_C(1) << s.shift);
        squares += 0.09 * interval * interval;
        seen[key] += (double)weir_sampler_hit(&s, &left, &random);
    }
    for (int key = 0; key < 2; key++) {
        double off = seen[key] - truth[key];
        assert_true(off * off < 64 * squares);
    }
}

/* ---- the limiter ----------------------------------------------------------------------------- */

static weir_service *services[LISTS];

static void open_limiter(const weir_top_options *options, size_t n)
{
    memset(services, 0, sizeof services);
    assert_int_equal(weir_store_open(&store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    if (options)
        assert_int_equal(weir_limiter_enable_top(limiter, options), WEIR_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(weir_service_open(&services[i], limiter), WEIR_OK);
}

static void close_limiter(void)
{
    for (size_t i = 0; i < LISTS; i++)
        weir_service_close(services[i]);
    weir_limiter_close(limiter);
    weir_store_close(store);
}

static const weir_top_options ten = {10, 1 << 20};

static bool took_bytes(weir_service *s, const char *rule, const void *key, size_t len, int64_t cost,
                       int64_t at_ns)
{
    weir_request request = {.rule = text_of(rule),
                            .by_text = strchr(rule, ' ') != NULL,
                            .key = {key, len},
                            .cost = cost};
    return weir_service_take(s, NULL, &request, 1, at_ns);
}

static void take_bytes(weir_service *s, const char *rule, const void *key, size_t len, int64_t cost,
                       int64_t at_ns)
{
    assert_true(took_bytes(s, rule, key, len, cost, at_ns));
}

static void take(const char *rule, const char *key, int64_t cost)
{
    take_bytes(services[0], rule, key, strlen(key), cost, now_ns);
}

static weir_top top_of(const char *policy, weir_top_of of, int64_t at_ns)
{
    weir_top t;
    assert_int_equal(
        weir_limiter_top(limiter, text_of(policy), of, weir_limiter_top_keys(limiter), at_ns, &t),
        WEIR_OK);
    return t;
}

/* "alice 3 2, bob 1 1 of 4": keys with costs and requests, and the sum. */
static void expect(const char *policy, weir_top_of of, const char *expected)
{
    weir_top t = top_of(policy, of, now_ns);
    char text[512];
    int n = 0;
    for (size_t i = 0; i < t.len; i++) {
        const weir_top_key *k = &t.key[i];
        assert_int_equal(k->error, 0);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%.*s %lld %lld", i > 0 ? ", " : "",
                      (int)k->text_len, k->text, (long long)k->cost, (long long)k->requests);
    }
    snprintf(text + n, sizeof text - (size_t)n, "%sof %lld", n > 0 ? " " : "", (long long)t.cost);
    assert_string_equal(text, expected);
    assert_true(t.complete);
    assert_int_equal(t.sampling, 1);
    assert_int_equal(t.unlisted, 0);
    weir_top_free(&t);
}

/* Which verdicts count as allowed or denied, and under which name. */
static void check_verdicts(void **unused)
{
    (void)unused;
    static const char *const allow[] = {"root"}, *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/h burst 5"),
                              spec_of("look", "gcra 1/h burst 5")};
    specs[0].allow = allow;
    specs[0].allow_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[0].v4_bits = 24;
    specs[1].shadow = true;
    open_limiter(&ten, 1);
    set_rules(specs, 2);
    expect("api", WEIR_TOP_DENIED, "of 0");

    take("api", "alice", 4);
    take("api", "alice", 3);
    take("api", "alice", 1);
    take("api", "alice", 0); /* a peek */
    take("api", "bob", -1);
    take("api", "", 1);
    take("none", "bob", 1);
    take("api", "root", 100);
    take("api", "evil", 50);
    take("api", "10.1.2.3", 2);
    take("api", "10.1.2.4", 2);
    expect("api", WEIR_TOP_ALLOWED, "root 100 1, alice 5 2, 10.1.2.0/24 4 2 of 109");
    expect("api", WEIR_TOP_DENIED, "evil 50 1, alice 3 1 of 53");
    take("look", "carol", 5);
    take("look", "carol", 2);
    expect("look", WEIR_TOP_ALLOWED, "carol 5 1 of 5");
    expect("look", WEIR_TOP_DENIED, "carol 2 1 of 2");
    take("gcra 1/h burst 2", "dave", 2);
    expect("(texts)", WEIR_TOP_ALLOWED, "dave 2 1 of 2");
    weir_throttle t = {.max_burst = 4, .count = 1, .period_s = 60, .quantity = 3};
    for (int i = 0; i < 2; i++) {
        weir_throttle_result a;
        assert_true(
            weir_service_throttle(services[0], NULL, &t, (weir_slice){"erin", 4}, now_ns, &a));
        assert_int_equal(a.status, WEIR_OK);
    }
    expect("(throttle)", WEIR_TOP_ALLOWED, "erin 3 1 of 3");
    expect("(throttle)", WEIR_TOP_DENIED, "erin 3 1 of 3");
    close_limiter();
}

static void check_refusals(void **unused)
{
    (void)unused;
    weir_top t;
    weir_slice api = {"api", 3};
    open_limiter(NULL, 1);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h", NULL), WEIR_OK);
    for (int i = 0; i < 3; i++)
        take("api", "a", WEIR_COST_MAX);
    assert_int_equal(weir_limiter_top_keys(limiter), 0);
    assert_int_equal(weir_limiter_top(limiter, api, WEIR_TOP_DENIED, 1, now_ns, &t),
                     WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_limiter_enable_top(limiter, &(weir_top_options){0, 1}), WEIR_E_RANGE);
    assert_int_equal(weir_limiter_enable_top(limiter, &(weir_top_options){1001, 1}), WEIR_E_RANGE);
    close_limiter();

    open_limiter(&ten, 1);
    assert_int_equal(weir_limiter_top(limiter, api, WEIR_TOP_DENIED, 1, now_ns, &t), WEIR_E_ABSENT);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h", NULL), WEIR_OK);
    assert_int_equal(weir_limiter_top(limiter, api, WEIR_TOP_DENIED, 0, now_ns, &t), WEIR_E_RANGE);
    assert_int_equal(weir_limiter_top(limiter, api, WEIR_TOP_DENIED, 11, now_ns, &t), WEIR_E_RANGE);
    take("api", "a", 1);
    take("api", "a", 1);
    assert_int_equal(weir_limiter_drop_rule(limiter, "api", 3), WEIR_OK);
    assert_int_equal(weir_limiter_top(limiter, api, WEIR_TOP_DENIED, 1, now_ns, &t), WEIR_E_ABSENT);
    close_limiter();
}

/* Several services are merged, and each minute halves the costs. */
static void check_merge(void **unused)
{
    (void)unused;
    open_limiter(&ten, LISTS);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h burst 1000", NULL), WEIR_OK);
    for (size_t i = 0; i < LISTS; i++) {
        take_bytes(services[i], "api", "both", 4, 16, now_ns);
        char own[] = {'o', (char)('0' + i)};
        take_bytes(services[i], "api", own, 2, (int64_t)i + 1, now_ns);
    }
    expect("api", WEIR_TOP_ALLOWED, "both 64 4, o3 4 1, o2 3 1, o1 2 1, o0 1 1 of 74");
    weir_top t = top_of("api", WEIR_TOP_ALLOWED, now_ns + 2 * WEIR_TOP_HALF_NS);
    assert_int_equal(t.len, 2);
    assert_int_equal(t.key[0].cost, 16);
    assert_int_equal(t.key[1].cost, 1);
    weir_top_free(&t);
    /* A later request has its full cost. */
    take_bytes(services[0], "api", "both", 4, 16, now_ns + WEIR_TOP_HALF_NS);
    t = top_of("api", WEIR_TOP_ALLOWED, now_ns + WEIR_TOP_HALF_NS);
    assert_int_equal(t.key[0].cost, 32 + 16);
    weir_top_free(&t);
    close_limiter();
}

/* Empty bytes, long keys, and keys with a common beginning. */
static void check_hostile_keys(void **unused)
{
    (void)unused;
    static char longest[2][WEIR_KEY_MAX];
    memset(longest, 'x', sizeof longest);
    longest[1][WEIR_KEY_MAX - 1] = 'y';
    open_limiter(&ten, 1);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h burst 1000", NULL), WEIR_OK);
    take_bytes(services[0], "api", longest[0], WEIR_KEY_MAX, 9, now_ns);
    take_bytes(services[0], "api", longest[1], WEIR_KEY_MAX, 8, now_ns);
    take_bytes(services[0], "api", longest[0], 128, 7, now_ns);
    take_bytes(services[0], "api", longest[0], 129, 6, now_ns);
    take_bytes(services[0], "api", "\0\xFF\r\n\"", 5, 5, now_ns);
    weir_top t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
    assert_int_equal(t.len, 5);
    for (size_t i = 0; i < 4; i++) {
        static const size_t lens[] = {WEIR_KEY_MAX, WEIR_KEY_MAX, 128, 129};
        assert_int_equal(t.key[i].cost, 9 - i);
        assert_int_equal(t.key[i].len, lens[i]);
        assert_int_equal(t.key[i].text_len, 128);
        assert_memory_equal(t.key[i].text, longest[0], 128);
    }
    assert_true(t.key[0].hash != t.key[1].hash);
    assert_int_equal(t.key[4].text_len, 5);
    assert_memory_equal(t.key[4].text, "\0\xFF\r\n\"", 5);
    weir_top_free(&t);
    close_limiter();
}

/* Costs are halved by the time of a request, even if no second has passed since the last one. */
static void check_half(void **unused)
{
    (void)unused;
    int64_t half_ns = (now_ns / WEIR_TOP_HALF_NS + 1) * WEIR_TOP_HALF_NS;
    open_limiter(&ten, 1);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h burst 1000", NULL), WEIR_OK);
    take_bytes(services[0], "api", "k", 1, 16, half_ns - s_ns / 2);
    take_bytes(services[0], "api", "k", 1, 16, half_ns + s_ns / 10);
    weir_top t = top_of("api", WEIR_TOP_ALLOWED, half_ns + s_ns / 10);
    assert_int_equal(t.key[0].cost, 8 + 16);
    weir_top_free(&t);
    close_limiter();
}

/* A million keys in 10 s, three of which have a high cost: sampling finds these, with costs close
 * to the true ones. The seed is random; the test allows five standard deviations. */
static void check_million(void **unused)
{
    (void)unused;
    static const weir_top_options hundred = {100, 1 << 20};
    enum { N = 1000000, BATCH = 50 };
    open_limiter(&hundred, 1);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "fixed-window 2000000/h", NULL),
                     WEIR_OK);
    for (int i = 0; i < N; i += BATCH) {
        static char text[BATCH][16];
        weir_request requests[BATCH];
        for (int b = 0; b < BATCH; b++) {
            int heavy = b < 10 ? 1 : b < 15 ? 2 : b < 18 ? 3 : 0; /* 20 %, 10 %, 6 % */
            int len = heavy > 0 ? snprintf(text[b], sizeof text[b], "heavy%d", heavy)
                                : snprintf(text[b], sizeof text[b], "%d", i + b);
            requests[b] =
                (weir_request){.rule = {"api", 3}, .key = {text[b], (size_t)len}, .cost = 1};
        }
        assert_true(
            weir_service_take(services[0], NULL, requests, BATCH, now_ns + (int64_t)i * 10000));
    }
    weir_top t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
    assert_true(t.sampling > 1);
    assert_true(t.unlisted > 0 && t.unlisted <= t.cost / 100);
    assert_true(llabs(t.cost - N) <= 16 * t.sampling);
    for (int i = 0; i < 3; i++) {
        static const int64_t truth[] = {200000, 100000, 60000};
        char name[8] = "heavy1";
        name[5] = (char)('1' + i);
        assert_int_equal(t.key[i].text_len, 6);
        assert_memory_equal(t.key[i].text, name, 6);
        assert_true(t.key[i].cost - t.key[i].error <= truth[i] + truth[i] / 4);
        assert_true(t.key[i].cost >= truth[i] - truth[i] / 4);
        assert_true(t.key[i].error <= t.cost / 100);
    }
    weir_top_free(&t);

    /* At a low rate all requests are counted exactly again. */
    int64_t later_ns = now_ns + 13 * s_ns;
    take_bytes(services[0], "api", "late", 4, 1, later_ns);
    for (int i = 0; i < 900; i++)
        take_bytes(services[0], "api", "late", 4, 1000, later_ns);
    t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
    assert_memory_equal(t.key[0].text, "late", 4);
    assert_true(t.key[0].cost - t.key[0].error == 900001);
    weir_top_free(&t);
    close_limiter();
}

/* However long the intervals have become, requests after an idle time are counted exactly. */
static void check_idle(void **unused)
{
    (void)unused;
    open_limiter(&ten, 1);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "fixed-window 2000000000/h", NULL),
                     WEIR_OK);
    for (int i = 0; i < 8000; i++)
        take("api", "big", 1 << 17);
    weir_top t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
    assert_true(t.sampling > 1 << 10);
    weir_top_free(&t);
    for (int i = 0; i < 900; i++)
        take_bytes(services[0], "api", "late", 4, 1, now_ns + 13 * s_ns);
    t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
    assert_int_equal(t.len, 2);
    assert_memory_equal(t.key[1].text, "late", 4);
    assert_int_equal(t.key[1].cost - t.key[1].error, 900);
    weir_top_free(&t);
    close_limiter();
}

/* Lists without memory are reported as incomplete. Lists that decayed to nothing free theirs. */
static void check_memory(void **unused)
{
    (void)unused;
    const weir_top_options two = {10, 2 * weir_space_saving_bytes(10)};
    static const char *const names[] = {"a", "b", "c"};
    open_limiter(&two, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_limiter_set_limit(limiter, names[i], "gcra 1/h burst 9", NULL),
                         WEIR_OK);
        take(names[i], "alice", 1);
        weir_top t = top_of(names[i], WEIR_TOP_ALLOWED, now_ns);
        assert_int_equal(t.len, i < 2);
        assert_int_equal(t.complete, i < 2);
        weir_top_free(&t);
    }
    int64_t later_ns = now_ns + 2 * WEIR_TOP_HALF_NS;
    take_bytes(services[0], "c", "alice", 5, 1, later_ns);
    weir_top t = top_of("c", WEIR_TOP_ALLOWED, later_ns);
    assert_int_equal(t.len, 1);
    assert_true(t.complete);
    weir_top_free(&t);
    close_limiter();
}

typedef struct thread {
    pthread_t id;
    weir_service *service;
    int failures;
} thread;

static void *take_many(void *arg)
{
    thread *t = arg;
    for (int i = 0; i < 20000; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "%d", i % 3 == 0 ? 7 : i);
        t->failures +=
            !took_bytes(t->service, "api", key, (size_t)len, 1, now_ns + (int64_t)i * s_ns / 500);
    }
    return NULL;
}

/* One thread lists the top keys while others decide. */
static void check_threads(void **unused)
{
    (void)unused;
    thread threads[2];
    open_limiter(&ten, 2);
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 1/h burst 1000", NULL), WEIR_OK);
    for (int i = 0; i < 2; i++) {
        threads[i] = (thread){.service = services[i]};
        assert_int_equal(pthread_create(&threads[i].id, NULL, take_many, &threads[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        weir_top t = top_of("api", WEIR_TOP_ALLOWED, now_ns);
        for (size_t k = 1; k < t.len; k++)
            assert_true(t.key[k - 1].cost >= t.key[k].cost);
        weir_top_free(&t);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i].id, NULL);
        assert_int_equal(threads[i].failures, 0);
    }
    weir_top t = top_of("api", WEIR_TOP_DENIED, now_ns + 40 * s_ns);
    assert_true(t.len > 0 && t.key[0].text_len == 1 && t.key[0].text[0] == '7');
    weir_top_free(&t);
    close_limiter();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_sampler_within_an_interval),
        cmocka_unit_test(check_bounds),
        cmocka_unit_test(check_decay),
        cmocka_unit_test(check_saturation),
        cmocka_unit_test(check_intervals),
        cmocka_unit_test(check_expectation),
        cmocka_unit_test(check_verdicts),
        cmocka_unit_test(check_refusals),
        cmocka_unit_test(check_merge),
        cmocka_unit_test(check_hostile_keys),
        cmocka_unit_test(check_million),
        cmocka_unit_test(check_half),
        cmocka_unit_test(check_idle),
        cmocka_unit_test(check_memory),
        cmocka_unit_test(check_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
