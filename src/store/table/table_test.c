/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table in one thread: full buckets, displacement, eviction, changes of form, time, iteration
 * and copying. */

#include "store/table/table_kit_test.h"

enum { FULL = WEIR_LINE_ENTRIES }; /* entries of `tat` that fill a bucket */

typedef struct fixture {
    void *part;
    size_t bytes;
    weir_table *table;
    weir_policy tat, counter, window;
    unsigned takes;
} fixture;

static void open_fixture(fixture *f, size_t bytes, bool refuse)
{
    *f = (fixture){.part = part_of(bytes),
                   .bytes = bytes,
                   .tat = policy_of("gcra 1/s burst 100"),
                   .counter = policy_of("sliding-counter 100/h"),
                   .window = policy_of("fixed-window 100/h")};
    f->table = open_part(f->part, bytes, &alone, refuse);
}

static void close_fixture(fixture *f)
{
    weir_table_close(f->table);
    munmap(f->part, f->bytes);
}

static int open_table(void **state)
{
    static fixture f;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN, false);
    *state = &f;
    return 0;
}

static int close_table(void **state)
{
    close_fixture(*state);
    return 0;
}

/* Charges. Returns what remains; -1 if the charge is denied. Every other call takes the fast
 * path. */
static int64_t take(fixture *f, const weir_policy *p, uint64_t hash, int64_t now_ns, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(charge_key(f->table, p, hash, now_ns, f->takes++ % 2 == 0, &c), WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static uint64_t keys(const fixture *f)
{
    return weir_table_stats_get(f->table).keys;
}

static uint64_t evicted(const fixture *f)
{
    return weir_table_stats_get(f->table).evicted;
}

/* ---- two buckets ----------------------------------------------------------------------------- */

static void sizes(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *text;
        size_t words;
    } cases[] = {
        {"gcra 1/s burst 100", 1},
        {"gcra 3/s burst 100", 2},
        {"fixed-window 5/h", 1},
        {"fixed-window 5/h from-first", 2},
        {"sliding-counter 5/h", 2},
        {"sliding-log 2/s", 5},
        {"sliding-log 3/s", 0},
        {"sliding-slices 9/s slices 6", 5},
        {"sliding-slices 9/s slices 7", 0},
        {"gcra 1/s & gcra 3/s & sliding-counter 5/h", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_policy p = policy_of(cases[i].text);
        assert_int_equal(weir_table_words(&p), cases[i].words);
    }
    assert_int_equal(f->table->array.buckets_len, 192);
}

/* Keys with the same two buckets do not affect each other until both buckets are full. */
static void two_buckets_fill(void **state)
{
    fixture *f = *state;
    for (int64_t n = 0; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 1 + n), 99 - n);
    assert_int_equal(keys(f), 2 * FULL);
    assert_int_equal(evicted(f), 0);
    for (int64_t n = 0; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
    /* One more key: the key closest to idle is evicted, and no other. */
    assert_int_equal(take(f, &f->tat, colliding(1000), s_ns, 50), 50);
    assert_int_equal(keys(f), 2 * FULL);
    assert_int_equal(evicted(f), 1);
    assert_int_equal(take(f, &f->tat, colliding(0), s_ns, 0), 100);
    for (int64_t n = 1; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
    /* An idle key is dropped first, which is not an eviction. */
    assert_int_equal(take(f, &f->tat, colliding(2000), 4 * s_ns, 1), 99);
    assert_int_equal(evicted(f), 1);
    assert_int_equal(take(f, &f->tat, colliding(1000), 4 * s_ns, 0), 53);
    check_whole(f->table);
}

/* Keys are evicted in the order in which they become idle. */
static void evicted_in_order(void **state)
{
    fixture *f = *state;
    static const int64_t costs[2 * FULL] = {50, 20, 70, 10, 60, 30, 80, 40};
    for (uint64_t n = 0; n < 2 * FULL; n++)
        take(f, &f->tat, colliding(n), s_ns, costs[n]);
    for (int64_t least = 10; least <= 80; least += 10) {
        take(f, &f->tat, colliding((uint64_t)(1000 + least)), s_ns, 90);
        for (uint64_t n = 0; n < 2 * FULL; n++)
            assert_int_equal(take(f, &f->tat, colliding(n), s_ns, 0),
                             costs[n] <= least ? 100 : 100 - costs[n]);
    }
    assert_int_equal(evicted(f), 2 * FULL);
}

/* A new key is stored even if it is closer to idle than all others: otherwise it would never be
 * limited. */
static void newcomer_is_kept(void **state)
{
    fixture *f = *state;
    for (uint64_t n = 0; n < 2 * FULL; n++)
        take(f, &f->tat, colliding(n), s_ns, 50 + (int64_t)n);
    assert_int_equal(take(f, &f->tat, colliding(1000), s_ns, 1), 99);
    assert_int_equal(take(f, &f->tat, colliding(1000), s_ns, 1), 98);
    assert_int_equal(take(f, &f->tat, colliding(0), s_ns, 0), 100);
    assert_int_equal(evicted(f), 1);
}

static void refused_when_full(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN, true);
    for (uint64_t n = 0; n < 2 * FULL; n++)
        take(&f, &f.tat, colliding(n), s_ns, 2 + (int64_t)n);
    for (uint64_t n = 0; n < 4; n++) {
        charge c = {.cost = 1, .decision.limit = -7};
        assert_int_equal(
            charge_key(f.table, n % 2 ? &f.tat : &f.counter, colliding(1000 + n), s_ns, n < 2, &c),
            WEIR_E_FULL);
        assert_int_equal(weir_table_stats_get(f.table).refused, n + 1);
    }
    /* The keys in the table go on. Denials and peeks of other keys are answered. */
    assert_int_equal(take(&f, &f.tat, colliding(0), s_ns, 1), 97);
    assert_int_equal(take(&f, &f.tat, colliding(1000), s_ns, 0), 100);
    assert_int_equal(take(&f, &f.tat, colliding(1000), s_ns, 101), -1);
    /* An idle key is dropped; no other key is evicted. */
    assert_int_equal(take(&f, &f.tat, colliding(1000), 4 * s_ns, 1), 99);
    assert_int_equal(evicted(&f), 0);
    for (uint64_t n = 2; n < 2 * FULL; n++)
        assert_int_equal(take(&f, &f.tat, colliding(n), 4 * s_ns, 0), 101 - (int64_t)n);
    check_whole(f.table);
    close_fixture(&f);
}

/* A state that changes to a larger form is refused if its buckets are full, and stays unchanged. */
static void refused_growth(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN, true);
    weir_policy p = policy_of("sliding-counter 1000000/h");
    assert_int_equal(take(&f, &p, colliding(0), s_ns, 60000), 940000);
    for (uint64_t n = 1; n < 6; n++)
        take(&f, &f.counter, colliding(n), s_ns, 1); /* three of 9 units in each bucket */
    assert_int_equal(keys(&f), 6);
    charge c = {.cost = 10000};
    assert_int_equal(weir_table_run(f.table, &p, colliding(0), s_ns, check, &c), WEIR_OK);
    assert_int_equal(c.decision.remaining, 930000); /* 10 units beside twice 9: that fits */
    for (uint64_t n = 1; n < 6; n++)
        assert_int_equal(take(&f, &f.counter, colliding(n), s_ns, 0), 99);
    weir_table_reset(f.table, colliding(1));
    weir_policy log = policy_of("sliding-log 2/h");
    assert_int_equal(weir_table_run(f.table, &log, colliding(0), s_ns, check, &c), WEIR_OK);
    assert_false(c.decision.allowed);
    c.cost = 1;
    assert_int_equal(weir_table_run(f.table, &log, colliding(0), s_ns, check, &c), WEIR_E_FULL);
    assert_int_equal(take(&f, &p, colliding(0), s_ns, 0), 930000);
    check_whole(f.table);
    close_fixture(&f);
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* A state of another form does not belong to the policy, and is replaced. */
static void forms_of_one_key(void **state)
{
    fixture *f = *state;
    weir_policy log = policy_of("sliding-log 2/s"), ticks = policy_of("gcra 17/s burst 100"),
                pair = policy_of("fixed-window 100/h from-first");
    const weir_policy *const of[] = {&f->tat, &ticks, &log, &f->tat, &pair, &log, &pair};
    static const uint64_t bytes[] = {14, 18, 54, 14, 18, 54, 18};
    uint64_t hash = colliding(7);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        int64_t limit = of[i] == &log ? 2 : 100;
        assert_int_equal(take(f, of[i], hash, s_ns, 1), limit - 1);
        assert_int_equal(take(f, of[i], hash, s_ns, 1), limit - 2);
        assert_int_equal(keys(f), 1);
        assert_int_equal(weir_table_stats_get(f->table).bytes, bytes[i]);
    }
    weir_table_reset(f->table, hash);
    assert_int_equal(keys(f), 0);
    assert_int_equal(weir_table_stats_get(f->table).bytes, 0);
    assert_int_equal(take(f, &f->tat, hash, s_ns, 0), 100);
    check_whole(f->table);
}

/* A count of more than 16 bits takes a larger form. Two windows later it takes the smaller form
 * again. */
static void form_grows_and_shrinks(void **state)
{
    fixture *f = *state;
    weir_policy p = policy_of("sliding-counter 1000000/s");
    for (int64_t round = 0; round < 3; round++) {
        int64_t now_ns = (10 * round + 1) * s_ns;
        assert_int_equal(take(f, &p, 5, now_ns, 65535), 1000000 - 65535);
        assert_int_equal(weir_table_stats_get(f->table).bytes, 18);
        assert_int_equal(take(f, &p, 5, now_ns, 1), 1000000 - 65536);
        assert_int_equal(weir_table_stats_get(f->table).bytes, 20);
        assert_int_equal(take(f, &p, 5, now_ns, 0), 1000000 - 65536);
    }
    assert_int_equal(keys(f), 1);
    check_whole(f->table);
}

/* Entries of every form in two buckets do not disturb each other. */
static void forms_in_one_bucket(void **state)
{
    fixture *f = *state;
    weir_policy ticks = policy_of("gcra 17/s burst 100"),
                pair = policy_of("fixed-window 100/h from-first");
    assert_int_equal(take(f, &f->tat, colliding(1), s_ns, 10), 90);
    assert_int_equal(take(f, &ticks, colliding(2), s_ns, 20), 80);
    assert_int_equal(take(f, &pair, colliding(3), s_ns, 30), 70);
    assert_int_equal(take(f, &f->tat, colliding(4), s_ns, 40), 60);
    assert_int_equal(take(f, &f->tat, colliding(1), s_ns, 1), 89);
    assert_int_equal(take(f, &ticks, colliding(2), s_ns, 1), 79);
    assert_int_equal(take(f, &pair, colliding(3), s_ns, 1), 69);
    assert_int_equal(keys(f), 4);
    assert_int_equal(weir_table_stats_get(f->table).bytes, 2 * 14 + 2 * 18);
    weir_table_reset(f->table, colliding(3));
    assert_int_equal(take(f, &f->tat, colliding(4), s_ns, 0), 60);
    weir_table_reset(f->table, colliding(2));
    assert_int_equal(take(f, &f->tat, colliding(5), s_ns, 3), 97); /* only TIME entries again */
    assert_int_equal(take(f, &f->tat, colliding(1), s_ns, 0), 89);
    assert_int_equal(take(f, &f->tat, colliding(4), s_ns, 0), 60);
    check_whole(f->table);
}

/* A large entry evicts as many small ones as necessary, in the bucket where that costs less. */
static void large_among_small(void **state)
{
    fixture *f = *state;
    weir_policy large = policy_of("sliding-log 2/h");
    assert_int_equal(weir_table_words(&large), 5);
    for (int64_t n = 0; n < 2 * FULL; n++)
        take(f, &f->tat, colliding((uint64_t)n), s_ns, 1 + n);
    assert_int_equal(take(f, &large, colliding(1000), s_ns, 1), 1);
    assert_int_equal(evicted(f), FULL);
    assert_int_equal(keys(f), FULL + 1);
    assert_int_equal(take(f, &large, colliding(1000), s_ns, 0), 1);
    for (int64_t n = FULL; n < 2 * FULL; n++) /* the keys farthest from idle stayed */
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
    check_whole(f->table);
}

/* ---- displacement ---------------------------------------------------------------------------- */

/* Entries of the first and of the alternate bucket are displaced to their other buckets. */
static void keys_are_displaced(void **state)
{
    fixture *f = *state;
    static const uint64_t tops[] = {0x0123, 0x4567}; /* the buckets of colliding(), in order */
    assert_int_equal(weir_first_of(f->table, colliding(0)), 0);
    assert_int_equal(weir_first_of(f->table, loner(0x4567, 1)), 52);
    assert_int_equal(weir_distance_of(f->table, colliding(0)), 52);
    for (uint64_t n = 0; n < FULL; n++) {
        for (int i = 0; i < 2; i++)
            take(f, &f->tat, loner(tops[i], 8 + n), s_ns, 50);
    }
    for (uint64_t n = 0; n < 2 * FULL; n++)
        take(f, &f->tat, colliding(n), s_ns, 1);
    assert_int_equal(evicted(f), 0);
    assert_int_equal(keys(f), 4 * FULL);
    for (uint64_t n = 0; n < FULL; n++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(take(f, &f->tat, loner(tops[i], 8 + n), s_ns, 0), 50);
    }
    for (uint64_t n = 0; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding(n), s_ns, 0), 99);
    /* Now none of them can be displaced. */
    take(f, &f->tat, colliding(1000), s_ns, 1);
    assert_int_equal(evicted(f), 1);
    check_whole(f->table);
}

/* The table is nearly full before the first key is evicted. */
static void fills_before_it_evicts(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN + ((size_t)1 << 18), false);
    uint64_t places = f.table->array.buckets_len * FULL, n = 0;
    while (evicted(&f) == 0)
        take(&f, &f.tat, mix(n++), s_ns, 50);
    assert_true(n > places * 94 / 100);
    assert_int_equal(check_whole(f.table), n - 1);
    uint64_t lost = 0;
    for (uint64_t i = 0; i < n; i++)
        lost += take(&f, &f.tat, mix(i), s_ns, 0) != 50;
    assert_int_equal(lost, 1);
    close_fixture(&f);
}

/* Three entries each in both buckets of a key that takes the space of two: two of them are
 * displaced, and none is evicted, however little they have used. */
static void two_entries_are_displaced_for_a_wide_one(void **state)
{
    (void)state;
    static const uint64_t tops[] = {0x0123, 0x4567};
    for (int64_t cost = 10; cost <= 50; cost += 40) {
        fixture f;
        open_fixture(&f, WEIR_TABLE_BYTES_MIN, false);
        weir_policy ticks = policy_of("gcra 7/h burst 100"),
                    pair = policy_of("gcra 1/s burst 50 & fixed-window 90/h");
        for (size_t i = 0; i < 2; i++) {
            for (uint64_t n = 0; n < 3; n++)
                take(&f, &ticks, classed(loner(tops[i], 8 + n), &ticks), s_ns, cost);
        }
        assert_int_equal(take(&f, &pair, colliding(0), s_ns, 10), 40);
        assert_int_equal(evicted(&f), 0);
        assert_int_equal(check_whole(f.table), 7);
        close_fixture(&f);
    }
}

/* Of two entries in each bucket, only the second one leaves enough space. The first ones stay. */
static void the_second_is_displaced(void **state)
{
    fixture *f = *state;
    static const uint64_t tops[] = {0x0123, 0x4567};
    weir_policy pair = policy_of("gcra 1/s burst 50 & fixed-window 90/100ns");
    for (size_t i = 0; i < 2; i++) {
        take(f, &f->tat, loner(tops[i], 8), s_ns, 50);
        take(f, &pair, loner(tops[i], 9), s_ns, 20);
    }
    assert_int_equal(take(f, &pair, colliding(0), s_ns, 10), 40);
    assert_int_equal(evicted(f), 0);
    assert_int_equal(check_whole(f->table), 5);
    for (size_t i = 0; i < 2; i++) {
        weir_bucket_pair at = weir_bucket_pair_of(f->table, loner(tops[i], 8));
        weir_line l;
        weir_bucket_copy(&f->table->array, at.first, &l);
        assert_true(weir_line_find(&l, at.tag, false) < WEIR_LINE_ENTRIES);
    }
}

/* After a search that found no space, the next searches in its neighbourhood are skipped. */
static void vain_searches_are_skipped(void **state)
{
    fixture *f = *state;
    for (uint64_t n = 0; n < 3000; n++)
        take(f, &f->tat, mix(n), s_ns, 50);
    assert_true(evicted(f) > 2000);
    uint64_t skipping = 0;
    for (size_t i = 0; i < WEIR_COUNTS_LEN; i++)
        skipping += port_load_relaxed(&f->table->head->counts[i].skip) > 0;
    assert_true(skipping > WEIR_COUNTS_LEN / 2);
}

/* ---- against a model ------------------------------------------------------------------------- */

enum { MODEL_KEYS = 700, MODEL_STEPS = 200000, MODEL_WORDS = WEIR_ENTRY_WORDS };

typedef struct model {
    weir_policy policies[8];
    uint64_t state[MODEL_KEYS][MODEL_WORDS];
    uint64_t hash[MODEL_KEYS];
    uint64_t evictions;
} model;

static void model_step(fixture *f, model *m, uint64_t *seed, int64_t now_ns)
{
    uint64_t key = next_random(seed) % MODEL_KEYS, x = next_random(seed);
    const weir_policy *p = &m->policies[key % 8];
    if (x % 64 == 0) {
        weir_table_reset(f->table, m->hash[key]);
        memset(m->state[key], 0, sizeof m->state[key]);
        return;
    }
    charge c = {.cost = x % 4 == 0 ? 0 : (int64_t)(x >> 8) % 30};
    uint64_t idle[MODEL_WORDS] = {0};
    weir_decision want, want_idle;
    assert_int_equal(weir_check(p, m->state[key], WEIR_LEVEL_MAX, now_ns, c.cost, &want), WEIR_OK);
    assert_int_equal(weir_check(p, idle, WEIR_LEVEL_MAX, now_ns, c.cost, &want_idle), WEIR_OK);
    assert_int_equal(charge_key(f->table, p, m->hash[key], now_ns, x >> 40 & 1, &c), WEIR_OK);
    if (c.decision.remaining != want.remaining) {
        m->evictions++;
        memcpy(m->state[key], idle, sizeof idle);
        want = want_idle;
    }
    assert_int_equal(c.decision.allowed, want.allowed);
    assert_int_equal(c.decision.remaining, want.remaining);
    assert_int_equal(c.decision.retry_after_ns, want.retry_after_ns);
    assert_int_equal(c.decision.reset_after_ns, want.reset_after_ns);
}

/* Keys of all forms are added and removed. Each is decided on as if it were alone, except for a few
 * that are evicted, which are counted. A fifth of the keys share few buckets. */
static void as_if_alone(void **state)
{
    fixture f;
    static model m;
    static const char *const texts[8] = {
        "gcra 10/s burst 100",
        "gcra 10/s burst 40",
        "gcra 7/s burst 90",
        "sliding-counter 100/5s",
        "fixed-window 100/3s",
        "gcra 5/s burst 50 & gcra 1/s burst 99",
        "fixed-window 70/4s from-first",
        "sliding-slices 99/5s slices 6",
    };
    (void)state;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN + 64 * 800 + 17, false);
    for (size_t i = 0; i < 8; i++)
        m.policies[i] = policy_of(texts[i]);
    for (uint64_t i = 0; i < MODEL_KEYS; i++) {
        m.hash[i] = mix(1000 + i);
        if (i % 5 == 0) /* one of a few pairs of buckets, with its own tag */
            m.hash[i] = (mix(i % 235) & ~(UINT64_C(0xffff) << 32)) | i << 32;
        memset(m.state[i], 0, sizeof m.state[i]);
    }
    uint64_t seed = 1;
    int64_t now_ns = s_ns;
    for (int i = 0; i < MODEL_STEPS; i++) {
        now_ns += (int64_t)(next_random(&seed) % (4 * WEIR_SEEN_STEP_NS));
        weir_table_now(f.table, now_ns);
        model_step(&f, &m, &seed, now_ns);
        WEIR_CHECK(weir_table_check_key(f.table, m.hash[(unsigned)i % MODEL_KEYS], false));
        if (i % 256 == 0)
            check_whole(f.table);
    }
    assert_true(m.evictions <= evicted(&f));
    assert_in_range(evicted(&f), 0, MODEL_STEPS / 500);
    assert_true(check_whole(f.table) > MODEL_KEYS / 4);
    close_fixture(&f);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void hash_zero(void **state)
{
    fixture *f = *state;
    assert_int_equal(take(f, &f->tat, 0, s_ns, 10), 90);
    assert_int_equal(take(f, &f->tat, 0, s_ns, 1), 89);
    assert_int_equal(take(f, &f->tat, UINT64_MAX, s_ns, 1), 99);
    assert_int_equal(keys(f), 2);
    weir_table_reset(f->table, 0);
    weir_table_reset(f->table, UINT64_MAX);
    assert_int_equal(keys(f), 0);
}

/* No key is dropped before the table's time has reached its idle time, even if another clock is
 * ahead. */
static void time_is_shared(void **state)
{
    fixture *f = *state;
    int64_t half_ms_ns = 500000;
    assert_int_equal(weir_table_now(f->table, s_ns), s_ns);
    assert_int_equal(weir_table_now(f->table, s_ns - half_ms_ns), s_ns);
    assert_int_equal(weir_table_now(f->table, s_ns + half_ms_ns), s_ns + half_ms_ns);
    /* Half a millisecond does not advance it. */
    assert_int_equal(weir_table_now(f->table, 0), s_ns);
    for (int i = 0; i < 2; i++) { /* with and without the fast path */
        uint64_t hash = 1 + (uint64_t)i;
        int64_t t_ns = (1 + i) * s_ns;
        f->takes = (unsigned)i;
        assert_int_equal(take(f, &f->tat, hash, 0, 100), 0);
        f->takes = (unsigned)i;
        assert_int_equal(take(f, &f->tat, hash, t_ns + s_ns, 2), -1);
        f->takes = (unsigned)i;
        assert_int_equal(take(f, &f->tat, hash, t_ns + s_ns, 1), 0);
        assert_int_equal(weir_table_now(f->table, 0), t_ns + s_ns);
    }
    int64_t ms_ns = 2 * half_ms_ns;
    weir_table_now(f->table, 3 * s_ns + ms_ns);
    assert_int_equal(weir_table_now(f->table, 0), 3 * s_ns);
    weir_table_now(f->table, 3 * s_ns + ms_ns + 1);
    assert_int_equal(weir_table_now(f->table, 0), 3 * s_ns + ms_ns + 1);
}

/* A key that is idle by a clock ahead of the table's is not dropped. If it is evicted, it is
 * counted. */
static void idle_by_the_tables_time(void **state)
{
    fixture *f = *state;
    weir_policy p = policy_of("gcra 10000/s burst 100"); /* 0.1 ms per unit */
    assert_int_equal(weir_table_now(f->table, s_ns), s_ns);
    take(f, &p, colliding(0), s_ns, 5);
    for (uint64_t n = 1; n < 2 * FULL; n++)
        take(f, &f->tat, colliding(n), s_ns, 50);
    take(f, &f->tat, colliding(1000), s_ns + 900000, 50);
    assert_int_equal(evicted(f), 1);
}

/* Several requests for one key at once. */
static void several_takes_of_a_key(void **state)
{
    fixture *f = *state;
    enum { LEN = 5 };
    weir_store_request r[LEN] = {0};
    for (int i = 0; i < LEN; i++) {
        r[i].policy = &f->tat;
        r[i].cost = 30 + (i == 3);
    }
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 0; n < 3 * FULL; n += 2) /* some are in their alternate bucket */
            weir_table_take_row(f->table, r, LEN, loner(0x0123, n % 16), s_ns);
    }
    for (int i = 0; i < LEN; i++)
        assert_false(r[i].decision.allowed);
    uint64_t hash = colliding(9);
    weir_table_take_row(f->table, r, LEN, hash, s_ns);
    static const int64_t remaining[LEN] = {70, 40, 10, 10, 10};
    for (int i = 0; i < LEN; i++) {
        assert_int_equal(r[i].status, WEIR_OK);
        assert_int_equal(r[i].decision.allowed, i < 3);
        assert_int_equal(r[i].decision.remaining, remaining[i]);
    }
    assert_int_equal(take(f, &f->tat, hash, s_ns, 0), 10);
}

/* ---- iteration and copying ------------------------------------------------------------------- */

typedef struct copying {
    weir_table *to;
    const uint64_t *hash; /* ascending */
    size_t len, count;
} copying;

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static bool put_into(void *ctx, const weir_key_state *stored)
{
    copying *t = ctx;
    t->count++;
    assert_non_null(bsearch(&stored->hash, t->hash, t->len, sizeof *t->hash, by_value));
    return weir_table_put(t->to, stored) == WEIR_OK;
}

/* Hashes around the smallest one of a bucket, and random ones. */
static void make_hashes(const weir_table *t, uint64_t *ret, size_t n)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t len = t->array.buckets_len, seed = 77;
    for (size_t i = 0; i < n; i++) {
        ret[i] = next_random(&seed);
        if (i % 4 < 2) {
            uint64_t bucket = next_random(&seed) % len;
            bucket = i < 16 ? i % 8 : i < 32 ? len - 1 - i % 8 : bucket;
            ret[i] = (uint64_t)((((wide)bucket << 64) + len - 1) / len) - i % 4;
        }
        ret[i] = t->folded ? weir_fold(ret[i]) : ret[i];
    }
    qsort(ret, n, sizeof *ret, by_value);
}

/* Iteration returns the whole hash of every key, for any size of the table. A copy of another size
 * gives the same decisions.
 *  whole  the smallest size for which that is so.
 *  n      the number of keys. */
static void move_contents(size_t whole, bool folded, size_t n)
{
    static const size_t more[] = {0, 64, 12345 * 64 + 63, (size_t)3 << 20};
    const char *const texts[4] = {"gcra 1/h burst 100", "gcra 7/h burst 100", "sliding-log 2/d",
                                  "sliding-counter 100/d"};
    weir_policy p[4];
    uint64_t *hash = calloc(n, sizeof *hash);
    for (int i = 0; i < 4; i++)
        p[i] = policy_of(texts[i]);
    for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
        fixture a, b;
        open_fixture(&a, whole + more[m], false);
        open_fixture(&b, whole + more[(m + 1) % 4], false);
        if (folded) {
            weir_table_fold(a.table);
            weir_table_fold(b.table);
        }
        make_hashes(a.table, hash, n);
        for (size_t i = 0; i < n; i++)
            take(&a, &p[i % 4], hash[i], s_ns, 1 + (int64_t)(i % 2));
        copying t = {.to = b.table, .hash = hash, .len = n};
        assert_true(weir_table_each(a.table, put_into, &t));
        assert_true(evicted(&a) + evicted(&b) < n / 1000);
        assert_int_equal(t.count, check_whole(a.table));
        assert_int_equal(check_whole(b.table), t.count - evicted(&b));
        uint64_t lost = 0;
        for (size_t i = 0; i < n; i++)
            lost += take(&a, &p[i % 4], hash[i], s_ns, 0) != take(&b, &p[i % 4], hash[i], s_ns, 0);
        assert_int_equal(lost, evicted(&b));
        close_fixture(&a);
        close_fixture(&b);
    }
    free(hash);
}

static void contents_move(void **state)
{
    (void)state;
    move_contents(WEIR_TABLE_BYTES_WHOLE, false, 30000);
}

static void folded_contents_move(void **state)
{
    (void)state;
    move_contents(WEIR_TABLE_BYTES_FOLDED, true, 4000);
}

/* Nine of ten entries of a table with folded hashes are used before a key is evicted. */
static void folded_table_fills(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20, KEYS = BYTES / WEIR_LINE_BYTES * WEIR_LINE_ENTRIES / 10 * 9 };
    fixture f;
    uint64_t seed = 5;
    open_fixture(&f, BYTES, false);
    weir_table_fold(f.table);
    for (int i = 0; i < KEYS; i++)
        take(&f, &f.window, weir_fold(next_random(&seed)), s_ns, 1);
    assert_int_equal(evicted(&f), 0);
    close_fixture(&f);
}

static bool stop(void *ctx, const weir_key_state *stored)
{
    (void)stored;
    return --*(int *)ctx > 0;
}

/* An invalid entry is refused, an idle one is not stored, and iterations can be stopped. */
static void put_is_checked(void **state)
{
    fixture *f = *state;
    uint64_t words[6] = {UINT64_C(1) << 32};
    const weir_key_state bad[] = {
        {1, 9 * s_ns, WEIR_FORM_NONE, 0, 0, words, 0},
        {1, 9 * s_ns, 8, 0, 1, words, 0},
        {1, 9 * s_ns, WEIR_FORM_TIME, 0, 1, words, 0},
        {1, 9 * s_ns, WEIR_FORM_TIME, 1, 0, words, 0},
        {1, 9 * s_ns, WEIR_FORM_SHORT, 0, 1, words, 0},
        {1, 9 * s_ns, WEIR_FORM_FIVE, 0, 4, words, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_table_put(f->table, &bad[i]), WEIR_E_RANGE);
    /* A time whose bits 6 to 21 are those of an empty bucket's header. */
    weir_key_state one = {5, INT64_C(1) << 22, WEIR_FORM_TIME, 0, 0, NULL, 0};
    assert_int_equal(weir_table_put(f->table, &one), WEIR_OK);
    assert_int_equal(keys(f), 1);
    take(f, &f->tat, 5, 3 * s_ns, 50);
    one.fresh_at_ns = 3 * s_ns;
    assert_int_equal(weir_table_put(f->table, &one), WEIR_OK);
    assert_int_equal(keys(f), 0);
    one.fresh_at_ns = 13 * s_ns;
    for (one.hash = 1; one.hash < 10; one.hash++)
        assert_int_equal(weir_table_put(f->table, &one), WEIR_OK);
    assert_int_equal(take(f, &f->tat, 5, 3 * s_ns, 0), 90);
    int left = 3;
    assert_false(weir_table_each(f->table, stop, &left));
    assert_int_equal(left, 0);
}

static bool add_hash(void *ctx, const weir_key_state *stored)
{
    *(uint64_t *)ctx += stored->hash;
    return true;
}

/* In a table of more than 2^16 buckets, only some tags belong to a bucket. An iteration returns the
 * hash of each key, and survives a damaged tag. */
static void tags_of_a_large_table(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f, WEIR_TABLE_BYTES_MIN + ((size_t)5 << 20), false);
    assert_true(f.table->array.buckets_len > 1 << 16);
    const uint64_t hashes[] = {0, 0x123456789abcdef0, UINT64_MAX};
    uint64_t sum = 0;
    for (size_t i = 0; i < 3; i++)
        take(&f, &f.tat, hashes[i], s_ns, 50);
    assert_true(weir_table_each(f.table, add_hash, &sum));
    assert_true(sum == hashes[0] + hashes[1] + hashes[2]);
    assert_int_equal(check_whole(f.table), 3);
    for (size_t i = 0; i < 3; i++) {
        weir_bucket_pair at = weir_bucket_pair_of(f.table, hashes[i]);
        port_word *high = &at.first->word[5]; /* the highest 16 bits of each tag */
        port_word_store_relaxed(high, ~port_word_load_relaxed(high));
    }
    assert_true(weir_table_each(f.table, add_hash, &sum));
    const char *wrong = weir_table_check(f.table, false);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "no hash has the tag"));
    close_fixture(&f);
}

/* A table that is closed and opened again is unchanged, and has the same time. */
static void opened_again(void **state)
{
    fixture *f = *state;
    take(f, &f->tat, 5, 3 * s_ns, 50);
    take(f, &f->counter, 6, 3 * s_ns, 50);
    weir_table_close(f->table);
    f->table = open_part(f->part, f->bytes, &(weir_processes){.self = 2}, false);
    assert_int_equal(weir_table_now(f->table, 0), 3 * s_ns);
    assert_int_equal(take(f, &f->tat, 5, 0, 0), 50);
    assert_int_equal(take(f, &f->counter, 6, 0, 0), 50);
    assert_int_equal(check_whole(f->table), 2);
    weir_table_repair_locks(f->table);
    assert_false(f->table->array.opening); /* from now on, locks of this process are in use */
}

/* A damaged time is reset, and counted. */
static void damaged_time(void **state)
{
    fixture *f = *state;
    const uint64_t bad[] = {(uint64_t)WEIR_NOW_NS_MAX + 1, INT64_MAX, (uint64_t)1 << 63,
                            UINT64_MAX};
    take(f, &f->tat, 5, 3 * s_ns, 50);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        port_word_store_relaxed(&f->table->head->seen_ns, bad[i]);
        weir_table_close(f->table);
        f->table = open_part(f->part, f->bytes, &alone, false);
        assert_int_equal(weir_table_stats_get(f->table).damaged, i + 1);
        assert_int_equal(take(f, &f->tat, 5, 3 * s_ns, 0), 50);
    }
    port_word_store_relaxed(&f->table->head->seen_ns, WEIR_NOW_NS_MAX);
    weir_table_close(f->table);
    f->table = open_part(f->part, f->bytes, &alone, false);
    assert_int_equal(weir_table_now(f->table, 0), WEIR_NOW_NS_MAX);
}

#define ON_A_TABLE(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_TABLE(sizes),
        ON_A_TABLE(two_buckets_fill),
        ON_A_TABLE(evicted_in_order),
        ON_A_TABLE(newcomer_is_kept),
        cmocka_unit_test(refused_when_full),
        cmocka_unit_test(refused_growth),
        ON_A_TABLE(forms_of_one_key),
        ON_A_TABLE(form_grows_and_shrinks),
        ON_A_TABLE(forms_in_one_bucket),
        ON_A_TABLE(large_among_small),
        ON_A_TABLE(keys_are_displaced),
        cmocka_unit_test(fills_before_it_evicts),
        cmocka_unit_test(two_entries_are_displaced_for_a_wide_one),
        ON_A_TABLE(the_second_is_displaced),
        ON_A_TABLE(vain_searches_are_skipped),
        cmocka_unit_test(as_if_alone),
        ON_A_TABLE(hash_zero),
        ON_A_TABLE(time_is_shared),
        ON_A_TABLE(idle_by_the_tables_time),
        ON_A_TABLE(several_takes_of_a_key),
        cmocka_unit_test(contents_move),
        cmocka_unit_test(folded_contents_move),
        cmocka_unit_test(folded_table_fills),
        ON_A_TABLE(put_is_checked),
        cmocka_unit_test(tags_of_a_large_table),
        ON_A_TABLE(opened_again),
        ON_A_TABLE(damaged_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
