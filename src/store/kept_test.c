/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Limits that change: a key keeps what it used, whatever the order of the changes, and whichever
 * thread or opening uses which limit. */

#include "store/kept_kit_test.h"

#include "core/check.h"
#include "port/port.h"
#include "store/shape.h"
#include "store/table/cuckoo.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Three more layers, whose states take a word or two each: four small states are in the table, and
 * three that are not are a large state. */
#define WORDS_3 " & gcra 1/s burst 1000000 & gcra 1/s burst 1000000 & gcra 1/s burst 1000000"
#define WORDS_6 " & gcra 3/s burst 1000000 & gcra 3/s burst 1000000 & gcra 3/s burst 1000000"

/* A raise, a lowering below the usage, and back. */
static void windows(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 1000/month"), b, c;
    assert_true(take(s, &a, "k", start_ns, 900).allowed);
    b = limit_of(s, "q", "fixed-window 2000/month");
    weir_store_keep(s);
    assert_int_equal(left(s, &b, start_ns), 1100);
    assert_int_equal(take(s, &b, "k", start_ns, 100).remaining, 1000);
    c = limit_of(s, "q", "fixed-window 950/month");
    weir_store_keep(s);
    weir_decision d = take(s, &c, "k", start_ns, 1);
    assert_true(!d.allowed && d.remaining == 0);
    assert_int_equal(d.retry_after_ns, 31 * 86400 * s_ns);
    assert_int_equal(left(s, &a, start_ns), 0);
    assert_int_equal(left(s, &b, start_ns), 1000);
    assert_int_equal(keys_of(s), 2); /* the state is at one place */
    weir_store_close(s);
}

/* Names, shapes and policies without a name share nothing. */
static void others(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 10/h");
    assert_int_equal(take(s, &a, "k", start_ns, 4).remaining, 6);
    static const char *const texts[] = {
        "fixed-window 20/m",
        "fixed-window 20/h from-first",
        "sliding-log 20/h",
        "sliding-counter 20/h",
        "fixed-window 20/h & gcra 1/s",
        "fixed-window 20/day",
        "sliding-slices 20/h slices 10",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        limit b = limit_of(s, "q", texts[i]);
        weir_store_keep(s);
        assert_false(weir_store_keeps(&a.policy, &b.policy));
        assert_int_equal(left(s, &b, start_ns), i == 4 ? 1 : 20);
    }
    limit named = limit_of(s, "r", "fixed-window 20/h"), same;
    assert_true(weir_store_keeps(&a.policy, &named.policy));
    assert_int_equal(left(s, &named, start_ns), 20);
    same = (limit){named.policy, weir_store_policy_id(s, &named.policy)};
    assert_int_equal(left(s, &same, start_ns), 20);
    limit from_17 = limit_of(s, "q", "fixed-window 10/month from 17"),
          more = limit_of(s, "q", "fixed-window 20/month from 17"),
          from_18 = limit_of(s, "q", "fixed-window 20/month from 18");
    assert_true(weir_store_keeps(&from_17.policy, &more.policy));
    assert_false(weir_store_keeps(&from_17.policy, &from_18.policy));
    weir_policy word = parse("fixed-window 19/20ns"), pair = parse("fixed-window 20/20ns");
    assert_int_not_equal(word.layer[0].format, pair.layer[0].format);
    assert_false(weir_store_keeps(&word, &pair));
    limit b = limit_of(s, "q", "fixed-window 20/h count-denied");
    weir_store_keep(s);
    assert_true(weir_store_keeps(&a.policy, &b.policy));
    assert_int_equal(left(s, &b, start_ns), 16);
    weir_store_close(s);
}

/* Without weir_store_keep(), and after the longest span and an hour, nothing is sought. */
static void period(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 10/year"),
          b = limit_of(s, "q", "fixed-window 20/year");
    int64_t now_ns = weir_store_now(s), until_ns = now_ns + (367 * 24 + 1) * 3600 * s_ns;
    assert_int_equal(take(s, &a, "k", now_ns, 4).remaining, 6);
    assert_int_equal(left(s, &b, now_ns), 20);
    weir_store_keep(s);
    assert_int_equal(left(s, &b, now_ns), 16);
    const port_word *until = weir_table_kept_until(s->common.table);
    int64_t later_ns = (int64_t)port_word_load_relaxed(until) - until_ns;
    assert_in_range(later_ns, 0, 60 * s_ns);
    weir_table_keep_until(s->common.table, until_ns - 1); /* it never goes back */
    assert_int_equal(port_word_load_relaxed(until), until_ns + later_ns);
    assert_true(weir_kept_until(until, until_ns + later_ns - 1));
    assert_false(weir_kept_until(until, until_ns + later_ns));
    weir_store_close(s);
}

/* For how long a state of each kind matters: the longest span of both limits and all layers. */
static void spans(void **unused)
{
    (void)unused;
    static const struct {
        const char *texts[2];
        int64_t s;
    } rows[] = {
        {{"fixed-window 10/day", "fixed-window 20/day"}, 2 * 86400},
        {{"fixed-window 10/week", "fixed-window 20/week"}, 8 * 86400},
        {{"fixed-window 10/month", "fixed-window 20/month"}, 32 * 86400},
        {{"fixed-window 10/h", "fixed-window 20/h"}, 7200},
        {{"fixed-window 10/h from-first", "fixed-window 20/h from-first"}, 7200},
        {{"gcra 1/h burst 10", "gcra 1/h burst 9"}, 36000},
        {{"gcra 1/h burst 9", "gcra 1/h burst 10"}, 36000},
        {{"gcra 3/h burst 10", "gcra 3/h burst 1"}, 12000},
        {{"token-bucket 20 refill 5 every 1h", "token-bucket 4 refill 5 every 1h"}, 18000},
        {{"gcra 1/s & fixed-window 5/h", "gcra 2/s & fixed-window 5/h"}, 7200},
        {{"fixed-window 5/h & gcra 1/s", "fixed-window 5/h & gcra 2/s"}, 7200},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_store *s = store_with_key(NULL);
        (void)limit_of(s, "q", rows[i].texts[0]);
        (void)limit_of(s, "q", rows[i].texts[1]);
        int64_t until_ns = weir_store_now(s) + (rows[i].s + 3600) * s_ns;
        weir_store_keep(s);
        int64_t is_ns = (int64_t)port_word_load_relaxed(weir_table_kept_until(s->common.table));
        assert_in_range(is_ns - until_ns, 0, 60 * s_ns);
        weir_store_close(s);
    }
}

/* An empty store has nothing to keep, and a single limit no other. */
static void nothing_to_keep(void **unused)
{
    (void)unused;
    weir_store *s;
    assert_int_equal(weir_store_open(&s, NULL), WEIR_OK);
    limit_of(s, "q", "fixed-window 10/h");
    limit_of(s, "q", "fixed-window 20/h");
    weir_store_keep(s);
    assert_int_equal(port_word_load_relaxed(weir_table_kept_until(s->common.table)), 0);
    limit_of(s, "q", "fixed-window 30/h");
    weir_store_keep(s); /* a thread may still use a former limit, for the first key */
    assert_int_not_equal(port_word_load_relaxed(weir_table_kept_until(s->common.table)), 0);
    weir_store_close(s);
    s = store_with_key(NULL);
    limit_of(s, "q", "fixed-window 10/h");
    weir_store_keep(s);
    assert_int_equal(port_word_load_relaxed(weir_table_kept_until(s->common.table)), 0);
    weir_store_close(s);
}

/* The latest limits of a family are searched, whichever of its limits is used. */
static void many_limits(void **unused)
{
    (void)unused;
    enum { LIMITS = WEIR_FORMER_MAX + 2 };
    static const struct {
        int used, by;
        bool is_found;
    } rows[] = {{0, LIMITS - 1, false}, {1, LIMITS - 1, true}, {LIMITS - 2, LIMITS - 1, true},
                {LIMITS - 1, 1, true},  {1, 0, false},         {2, 0, true},
                {LIMITS - 1, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_store *s = store_with_key(NULL);
        limit limits[LIMITS];
        char text[32];
        for (int l = 0; l < LIMITS; l++) {
            snprintf(text, sizeof text, "fixed-window %d/h", 100 + l);
            limits[l] = limit_of(s, "q", text);
        }
        weir_store_keep(s);
        (void)take(s, &limits[rows[i].used], "k", start_ns, 4);
        assert_int_equal(left(s, &limits[rows[i].by], start_ns),
                         100 + rows[i].by - (rows[i].is_found ? 4 : 0));
        weir_store_close(s);
    }
}

/* Reservations and other calls that know only hashes afterwards. */
static void calls(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 100/h"), b = limit_of(s, "q", "fixed-window 200/h");
    weir_decision d;
    uint64_t id, second;
    int64_t over;
    assert_int_equal(
        weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns, 40, s_ns * 60, &d, &id), WEIR_OK);
    weir_store_keep(s);
    assert_int_equal(
        weir_store_reserve(s, &b.policy, b.id, "k", 1, start_ns, 50, s_ns * 60, &d, &second),
        WEIR_OK);
    assert_int_equal(d.remaining, 110);
    assert_int_equal(weir_store_commit(s, id, start_ns, 10, &d, &over), WEIR_OK);
    assert_int_equal(d.remaining, 140);
    assert_int_equal(weir_store_refund(s, &a.policy, a.id, "k", 1, start_ns, 1, &d), WEIR_OK);
    assert_int_equal(d.remaining, 41);
    weir_store_request r[2] = {
        {.policy = &b.policy, .policy_id = b.id, .key = "k", .key_len = 1, .cost = 1},
        {.policy = &b.policy, .policy_id = b.id, .key = "new", .key_len = 3, .cost = 1}};
    size_t blocking;
    assert_int_equal(weir_store_take_many(s, r, 2, start_ns, &blocking), WEIR_OK);
    assert_int_equal(r[0].decision.remaining, 140);
    assert_int_equal(r[1].decision.remaining, 199);
    r[0].policy = r[1].policy = &a.policy;
    r[0].policy_id = r[1].policy_id = a.id;
    r[1].key = "k", r[1].key_len = 1;
    weir_store_check_batch(s, r, 2, start_ns);
    assert_int_equal(r[0].decision.remaining, 39);
    assert_int_equal(r[1].decision.remaining, 38);
    assert_int_equal(weir_store_commit(s, second, start_ns, 0, &d, &over), WEIR_OK);
    assert_int_equal(d.remaining, 88);
    assert_int_equal(weir_store_reset(s, b.id, "k", 1), WEIR_OK);
    assert_int_equal(left(s, &a, start_ns), 100);
    assert_int_equal(left(s, &b, start_ns), 200);
    weir_store_close(s);
}

/* A call that fails on the new limit moves nothing. */
static void failures(void **unused)
{
    (void)unused;
    static const char *const texts[][2] = {{"fixed-window 10/h", "fixed-window 20/h count-denied"},
                                           {"sliding-log 10/h", "sliding-log 20/h count-denied"}};
    for (size_t i = 0; i < 2; i++) {
        weir_store *s = store_with_key(NULL);
        limit a = limit_of(s, "q", texts[i][0]), b = limit_of(s, "q", texts[i][1]);
        weir_decision d;
        weir_store_keep(s);
        (void)take(s, &a, "k", start_ns, 4);
        assert_int_equal(weir_store_refund(s, &b.policy, b.id, "k", 1, start_ns, 1, &d),
                         WEIR_E_UNSUPPORTED);
        assert_int_equal(keys_of(s), 2);
        assert_int_equal(weir_store_refund(s, &a.policy, a.id, "k", 1, start_ns, 1, &d), WEIR_OK);
        assert_int_equal(d.remaining, 7);
        assert_int_equal(left(s, &b, start_ns), 17);
        assert_int_equal(keys_of(s), 2);
        weir_store_close(s);
    }
}

/* A debt moves to another limit, and so does what a commit charges. */
static void debts(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "gcra 1/s burst 5"), b = limit_of(s, "q", "gcra 2/s burst 9");
    weir_decision d;
    uint64_t id;
    int64_t over;
    assert_int_equal(
        weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns, 5, s_ns * 60, &d, &id), WEIR_OK);
    assert_int_equal(weir_store_charge(s, &a.policy, a.id, "k", 1, start_ns, 7, &d, &over),
                     WEIR_OK);
    assert_int_equal(d.retry_after_ns, 7 * s_ns);
    weir_store_keep(s);
    d = take(s, &b, "k", start_ns, 1); /* 12 units are used, of 9 */
    assert_false(d.allowed);
    assert_int_equal(d.retry_after_ns, 2 * s_ns);
    assert_int_equal(weir_store_commit(s, id, start_ns, 9, &d, &over), WEIR_OK);
    assert_int_equal(d.retry_after_ns, 7 * s_ns / 2);
    assert_int_equal(over, 0);
    weir_store_close(s);
    s = store_with_key(NULL);
    a = limit_of(s, "q", "fixed-window 100/h"), b = limit_of(s, "q", "fixed-window 200/h");
    assert_int_equal(weir_store_charge(s, &a.policy, a.id, "k", 1, start_ns, 150, &d, &over),
                     WEIR_OK);
    assert_false(d.allowed);
    weir_store_keep(s);
    assert_int_equal(left(s, &b, start_ns), 50);
    assert_int_equal(weir_store_charge(s, &b.policy, b.id, "k", 1, start_ns, 50, &d, &over),
                     WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
    weir_store_close(s);
}

/* A prepared key has no text: an absent one is not sought, and is inserted. */
static void prepared_keys(void **unused)
{
    (void)unused;
    static const char *const texts[][2] = {
        {"fixed-window 10/h", "fixed-window 20/h"},
        {"fixed-window 10/h & gcra 1/s burst 9", "fixed-window 20/h & gcra 2/s burst 19"},
        {"sliding-log 10/h", "sliding-log 20/h"},
    };
    for (size_t i = 0; i < 3; i++) {
        weir_store *s = store_with_key(NULL);
        limit a = limit_of(s, "q", texts[i][0]), b = limit_of(s, "q", texts[i][1]);
        weir_key key;
        weir_decision d;
        assert_true(take(s, &a, "k", start_ns, 4).allowed);
        weir_store_keep(s);
        assert_int_equal(weir_store_key(s, b.id, "k", 1, &key), WEIR_OK);
        for (int64_t n = 1; n <= 2; n++) {
            assert_int_equal(weir_store_check_key(s, &b.policy, key, start_ns, 1, &d), WEIR_OK);
            assert_int_equal(d.remaining, (i == 1 ? 19 : 20) - n);
        }
        weir_store_close(s);
    }
}

/* ---- against the core ------------------------------------------------------------------------ */

enum { VARIANTS = 3, KEYS = 4, WORDS = 200, STEPS = 6000 };

static const char *const families[][VARIANTS] = {
    {"gcra 10/s burst 20", "gcra 20/s burst 5", "gcra 3/s burst 100"},
    {"token-bucket 30 refill 7/m", "token-bucket 3 refill 60/m", "token-bucket 300 refill 1/m"},
    {"token-bucket 9 refill 2 every 10s", "token-bucket 20 refill 5 every 10s",
     "token-bucket 3 refill 1 every 10s"},
    {"leaky-queue 10/s depth 5", "leaky-queue 7/s depth 9 nodelay 2", "leaky-queue 1/s depth 1"},
    {"fixed-window 9/m", "fixed-window 300/m", "fixed-window 70000/m"},
    {"fixed-window 9/m from-first", "fixed-window 30/m from-first", "fixed-window 2/m from-first"},
    {"sliding-counter 9/m", "sliding-counter 30/m", "sliding-counter 2/m"},
    {"sliding-counter 9/m relaxed", "sliding-counter 70000/m relaxed",
     "sliding-counter 2/m relaxed"},
    {"sliding-log 40/m", "sliding-log 9/m", "sliding-log 3/m count-denied"},
    {"sliding-slices 9/m slices 6", "sliding-slices 30/m slices 6", "sliding-slices 2/m slices 6"},
    {"sliding-slices 9/m slices 20", "sliding-slices 30/m slices 20",
     "sliding-slices 2/m slices 20"},
    {"gcra 3/s burst 9 & fixed-window 30/m", "gcra 10/s burst 2 & fixed-window 20/m",
     "gcra 10/s burst 20 & fixed-window 40/m"},
    {"sliding-log 5/m & gcra 1/s burst 3", "sliding-log 30/m & gcra 2/s burst 30",
     "sliding-log 9/m & gcra 7/s burst 3"},
    {"sliding-log 2/m", "sliding-log 9/m", "sliding-log 1/m"},
    {"sliding-log 3/m", "sliding-log 1/m count-denied", "sliding-log 8/m"},
    {"sliding-log 2/m & gcra 1/s burst 3", "sliding-log 5/m & gcra 2/s burst 30",
     "sliding-log 1/m & gcra 7/s burst 3"},
    {"fixed-window 9/m" WORDS_3, "fixed-window 30/m" WORDS_6, "fixed-window 20/m" WORDS_3},
    {"concurrent 9 lease 30s", "concurrent 2 lease 30s", "concurrent 1 lease 30s"},
};

typedef struct model {
    size_t variant;
    uint64_t state[WORDS];
} model;

static weir_decision model_take(model *m, const limit *limits, size_t variant, int64_t now_ns,
                                int64_t cost)
{
    weir_decision d;
    uint64_t state[WORDS] = {0};
    enum { LEVEL = 6 };
    if (m->variant != variant) {
        assert_int_equal(weir_state_convert(&limits[m->variant].policy, m->state, LEVEL,
                                            &limits[variant].policy, now_ns, state, LEVEL),
                         WEIR_OK);
        memcpy(m->state, state, sizeof state);
        m->variant = variant;
    }
    assert_int_equal(weir_check(&limits[variant].policy, m->state, LEVEL, now_ns, cost, &d),
                     WEIR_OK);
    return d;
}

/* Three limits in any order, as threads with different rules use them. */
static void random_changes(void **unused)
{
    (void)unused;
    uint64_t random = 7;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weir_store *s = store_with_key(NULL);
        limit limits[VARIANTS];
        model models[KEYS] = {0};
        int64_t now_ns = start_ns;
        for (size_t i = 0; i < VARIANTS; i++)
            limits[i] = limit_of(s, "q", families[f][i]);
        weir_store_keep(s);
        for (int step = 0; step < STEPS; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t variant = (random >> 33) % VARIANTS, key = (random >> 40) % KEYS;
            int64_t cost = (int64_t)((random >> 45) % 4);
            const char name[] = {(char)('a' + key), '\0'};
            now_ns += (int64_t)(random >> 50) % 64 == 0 ? 40 * s_ns
                                                        : (int64_t)((random >> 48) % 300) * 2000000;
            weir_decision is = take(s, &limits[variant], name, now_ns, cost);
            weir_decision expected = model_take(&models[key], limits, variant, now_ns, cost);
            if (is.allowed != expected.allowed || is.remaining != expected.remaining ||
                is.retry_after_ns != expected.retry_after_ns ||
                is.reset_after_ns != expected.reset_after_ns || is.delay_ns != expected.delay_ns)
                fail_msg("family %zu, step %d, variant %zu: remaining %lld, expected %lld", f, step,
                         variant, (long long)is.remaining, (long long)expected.remaining);
        }
        assert_in_range(keys_of(s), 1, 1 + KEYS);
        weir_store_close(s);
    }
}

/* ---- several threads ------------------------------------------------------------------------- */

enum { THREADS = 4, TAKES = 4000 };

typedef struct worker {
    weir_store *store;
    const limit *limits;
    unsigned self;
    int64_t allowed[KEYS];
} worker;

static void work(void *ctx)
{
    worker *w = ctx;
    for (unsigned i = 0; i < TAKES; i++) {
        const char name[] = {(char)('a' + i % KEYS), '\0'};
        const limit *l = &w->limits[(i / 16 + w->self) % 2];
        w->allowed[i % KEYS] += take(w->store, l, name, start_ns, 1).allowed;
    }
}

static void race(const char *small, const char *large, int64_t total)
{
    weir_store *s = store_with_key(NULL);
    const limit limits[] = {limit_of(s, "q", small), limit_of(s, "q", large)};
    worker workers[THREADS];
    port_thread *threads[THREADS];
    weir_store_keep(s);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = s, .limits = limits, .self = i};
        assert_non_null(threads[i] = port_thread_start(work, &workers[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        port_thread_join(threads[i]);
    for (size_t key = 0; key < KEYS; key++) {
        const char name[] = {(char)('a' + key), '\0'};
        int64_t allowed = 0;
        for (unsigned i = 0; i < THREADS; i++)
            allowed += workers[i].allowed[key];
        assert_int_equal(take(s, &limits[1], name, start_ns, 0).remaining, total - allowed);
    }
    weir_store_close(s);
}

static void races(void **unused)
{
    (void)unused;
    race("fixed-window 1000/day", "fixed-window 100000/day", 100000);
    race("gcra 100/d burst 1000", "gcra 100/d burst 9000", 9000);
    race("sliding-slices 1000/d slices 20", "sliding-slices 90000/d slices 20", 90000);
    race("fixed-window 1000/day" WORDS_3, "fixed-window 100000/day" WORDS_6, 100000);
    race("fixed-window 1000/day" WORDS_6, "fixed-window 100000/day" WORDS_3, 100000);
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* A restart with other limits, and one with those of before. A resized file keeps them too. */
static void restarts(void **unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-kept-%d.state", (int)getpid());
    static const char *const texts[] = {"gcra 1/d burst 100", "gcra 1/d burst 300",
                                        "gcra 1/d burst 100"};
    static const int64_t expected[] = {100, 290, 80};
    for (size_t i = 0; i < 3; i++) {
        weir_store *s;
        const weir_store_options o = {.file = path, .memory_bytes = (size_t)(16 + 16 * i) << 20};
        assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
        limit l = limit_of(s, "q", texts[i]);
        weir_store_keep(s);
        assert_int_equal(left(s, &l, start_ns), expected[i]);
        assert_true(take(s, &l, "k", start_ns, 10).allowed);
        weir_store_close(s);
    }
    unlink(path);
    snprintf(path, sizeof path, "/tmp/weir-kept-%d.state.lock", (int)getpid());
    unlink(path);
}

/* Processes with different limits that share a file which has no key yet. */
static void shared_file(void **unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-kept-%d.state", (int)getpid());
    const weir_store_options o = {.file = path, .memory_bytes = (size_t)16 << 20, .shared = true};
    weir_store *s[2];
    limit l[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_store_open(&s[i], &o), WEIR_OK);
        l[i] = limit_of(s[i], "q", i == 0 ? "fixed-window 10/d" : "fixed-window 20/d");
        weir_store_keep(s[i]);
    }
    assert_int_equal(take(s[0], &l[0], "k", start_ns, 4).remaining, 6);
    assert_int_equal(take(s[1], &l[1], "k", start_ns, 3).remaining, 13);
    assert_int_equal(left(s[0], &l[0], start_ns), 3);
    for (int i = 0; i < 2; i++)
        weir_store_close(s[i]);
    unlink(path);
    snprintf(path, sizeof path, "/tmp/weir-kept-%d.state.lock", (int)getpid());
    unlink(path);
}

/* Changes of small and large states. */
static const char *const changes[][2] = {
    {"fixed-window 10/h", "fixed-window 20/h"},
    {"sliding-log 10/h", "sliding-log 20/h"},
    {"fixed-window 10/h" WORDS_3, "fixed-window 20/h" WORDS_6},
    {"fixed-window 10/h" WORDS_6, "fixed-window 20/h" WORDS_3},
};

static void in_a_partition(void **unused)
{
    (void)unused;
    const weir_store_partition own = {"q", 6 << 20, 1 << 20};
    const weir_store_options o = {
        .memory_bytes = (size_t)16 << 20, .partitions = &own, .partitions_len = 1};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        weir_store *s;
        assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
        limit a = limit_of(s, "q", changes[i][0]), b = limit_of(s, "q", changes[i][1]);
        assert_true(take(s, &a, "k", start_ns, 4).allowed);
        weir_store_keep(s);
        assert_int_equal(take(s, &b, "k", start_ns, 1).remaining, 15);
        assert_int_equal(left(s, &a, start_ns), 5);
        assert_int_equal(keys_of(s), 1);
        weir_store_close(s);
    }
}

/* The state under the new limit does not fit into the table: the old one stays. */
static void a_full_table(void **unused)
{
    (void)unused;
    weir_store *s;
    weir_decision d;
    const weir_store_options o = {.memory_bytes = 1 << 20, .when_full = WEIR_REFUSE};
    assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
    limit a = limit_of(s, "q", "fixed-window 10/h" WORDS_6),
          b = limit_of(s, "q", "fixed-window 20/h" WORDS_3);
    assert_true(take(s, &a, "k", start_ns, 4).allowed);
    weir_store_keep(s);
    weir_policy p = parse("fixed-window 1/year");
    uint64_t id = weir_store_policy_id(s, &p);
    for (uint32_t i = 0; i < 80000; i++)
        (void)!weir_store_check(s, &p, id, &i, sizeof i, start_ns, 1, &d);
    assert_int_equal(weir_store_check(s, &b.policy, b.id, "k", 1, start_ns, 1, &d), WEIR_E_FULL);
    assert_int_equal(left(s, &a, start_ns), 6);
    weir_store_close(s);
}

/* ---- killed processes ------------------------------------------------------------------------ */

/* Leaves the journal of a process that was killed while it moved the state of "k" from a to b. */
static void leave_move(weir_store *s, const limit *a, const limit *b)
{
    weir_table_head *head = s->common.table->head;
    port_word_store_relaxed(&head->moves[1].from, weir_store_hash(s, a->id, "k", 1));
    port_word_store_relaxed(&head->moves[1].to, weir_store_hash(s, b->id, "k", 1));
    port_word_store_relaxed(&head->moves[1].owner, weir_process_id(7));
}

/* The old state is removed if the new one is there, and otherwise stays. */
static void lost_moves(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        weir_store *s = store_with_key(NULL);
        limit a = limit_of(s, "q", changes[i][0]), b = limit_of(s, "q", changes[i][1]);
        assert_true(take(s, &a, "k", start_ns, 4).allowed);
        leave_move(s, &a, &b);
        weir_store_keep(s);
        assert_int_equal(port_word_load_relaxed(&s->common.table->head->moves[1].owner), 0);
        assert_int_equal(left(s, &a, start_ns), 6);
        assert_int_equal(keys_of(s), 2);
        weir_store_close(s);
        s = store_with_key(NULL);
        a = limit_of(s, "q", changes[i][0]);
        b = limit_of(s, "q", changes[i][1]);
        assert_true(take(s, &a, "k", start_ns, 4).allowed);
        assert_true(take(s, &b, "k", start_ns, 7).allowed);
        assert_int_equal(keys_of(s), 3);
        leave_move(s, &a, &b);
        weir_store_keep(s);
        assert_int_equal(keys_of(s), 2);
        assert_int_equal(left(s, &a, start_ns), 3);
        /* Killed before both keys were noted: there is nothing to complete. */
        leave_move(s, &b, &b);
        port_word_store_relaxed(&s->common.table->head->moves[1].to, 0);
        weir_store_keep(s);
        assert_int_equal(port_word_load_relaxed(&s->common.table->head->moves[1].owner), 0);
        leave_move(s, &b, &b);
        port_word_store_relaxed(&s->common.table->head->moves[1].from, 0);
        weir_store_keep(s);
        assert_int_equal(port_word_load_relaxed(&s->common.table->head->moves[1].owner), 0);
        assert_int_equal(left(s, &b, start_ns), 13);
        weir_store_close(s);
    }
}

/* While processes were killed in all slots, states still move. */
static void full_journal(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 10/h"), b = limit_of(s, "q", "fixed-window 20/h");
    assert_true(take(s, &a, "k", start_ns, 4).allowed);
    weir_store_keep(s);
    size_t first = weir_table_move_begin(s->common.table, 1, 2);
    assert_int_equal(first, 0);
    assert_int_equal(weir_table_move_begin(s->common.table, 3, 4), 1);
    assert_int_equal(weir_table_move_begin(s->common.table, 5, 6), WEIR_TABLE_MOVES);
    assert_int_equal(left(s, &b, start_ns), 16);
    weir_table_move_end(s->common.table, first);
    assert_int_equal(left(s, &a, start_ns), 6);
    assert_int_equal(weir_table_move_begin(s->common.table, 1, 2), 0);
    weir_store_close(s);
}

enum { ROUNDS = 40, SHARED_BYTES = 4 << 20 };

typedef struct shared {
    port_word allowed[3]; /* counted by the child after each call, for each family */
    unsigned char memory[];
} shared;

enum { CHANGING = 3 };

static const char *const changing[CHANGING][2] = {
    {"fixed-window 100000/day", "fixed-window 200000/day"},
    {"sliding-slices 100000/d slices 20", "sliding-slices 200000/d slices 20"},
    {"fixed-window 100000/day" WORDS_3, "fixed-window 200000/day" WORDS_6},
};

static weir_store *open_memory(void *memory, limit ret[CHANGING][2])
{
    weir_store *s;
    const weir_store_options o = {.memory = memory, .memory_bytes = SHARED_BYTES};
    if (weir_store_open(&s, &o) != WEIR_OK)
        return NULL;
    static const char *const names[CHANGING] = {"window", "slices", "layers"};
    for (size_t f = 0; f < CHANGING; f++) {
        for (size_t i = 0; i < 2; i++)
            ret[f][i] = limit_of(s, names[f], changing[f][i]);
    }
    weir_store_keep(s);
    return s;
}

static _Noreturn void move_until_killed(shared *in, void *memory)
{
    limit limits[CHANGING][2];
    weir_store *s = open_memory(memory, limits);
    for (uint64_t n = 0; s; n++) {
        const limit *l = &limits[n % CHANGING][n / CHANGING % 2];
        weir_decision d;
        if (weir_store_check(s, &l->policy, l->id, "k", 1, start_ns, 1, &d) != WEIR_OK ||
            !d.allowed)
            break;
        port_word_add_relaxed(&in->allowed[n % CHANGING], 1);
    }
    _exit(1);
}

/* A process that moves states is killed again and again. No charge that a call returned
 * is lost, and of each killed process at most one charge is not known. */
static void kills(void **unused)
{
    (void)unused;
    shared *in = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *memory =
        mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    limit limits[CHANGING][2];
    assert_true(in != MAP_FAILED && memory != MAP_FAILED);
    weir_store *s = open_memory(memory, limits);
    assert_non_null(s);
    for (size_t f = 0; f < CHANGING; f++)
        assert_true(take(s, &limits[f][0], "k", start_ns, 1).allowed);
    for (int64_t round = 1; round <= ROUNDS; round++) {
        uint64_t before = port_word_load_relaxed(&in->allowed[CHANGING - 1]);
        pid_t child = fork();
        if (child == 0)
            move_until_killed(in, memory);
        while (port_word_load_relaxed(&in->allowed[CHANGING - 1]) < before + 50 + (uint64_t)round)
            port_pause();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        weir_store_keep(s);
        for (size_t f = 0; f < CHANGING; f++) {
            int64_t known = 1 + (int64_t)port_word_load_relaxed(&in->allowed[f]);
            int64_t one = 100000 - left(s, &limits[f][0], start_ns);
            assert_int_equal(200000 - left(s, &limits[f][1], start_ns), one);
            assert_in_range(one, known, known + round);
        }
    }
    weir_store_close(s);
    munmap(memory, SHARED_BYTES);
    munmap(in, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),         cmocka_unit_test(others),
        cmocka_unit_test(period),          cmocka_unit_test(spans),
        cmocka_unit_test(nothing_to_keep), cmocka_unit_test(many_limits),
        cmocka_unit_test(calls),           cmocka_unit_test(debts),
        cmocka_unit_test(failures),        cmocka_unit_test(random_changes),
        cmocka_unit_test(races),           cmocka_unit_test(restarts),
        cmocka_unit_test(prepared_keys),   cmocka_unit_test(in_a_partition),
        cmocka_unit_test(a_full_table),    cmocka_unit_test(lost_moves),
        cmocka_unit_test(full_journal),    cmocka_unit_test(kills),
        cmocka_unit_test(shared_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
