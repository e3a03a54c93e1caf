/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Full buckets: the place of a new key, and the key that gives way. */

#include "store/table/table_kit_test.h"

enum { FULL = WEIR_LINE_ENTRIES }; /* entries of `tat` that fill a bucket */

typedef struct fixture {
    void *part;
    weir_table *table;
    weir_policy tat;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){.part = part_of(WEIR_TABLE_BYTES_MIN), .tat = policy_of("gcra 1/s burst 100")};
    f->table = open_part(f->part, WEIR_TABLE_BYTES_MIN, &alone, false);
}

static void close_fixture(fixture *f)
{
    weir_table_close(f->table);
    munmap(f->part, WEIR_TABLE_BYTES_MIN);
}

/* Charges a key that collides with all others. Returns what remains. */
static int64_t take(fixture *f, uint64_t n, int64_t now_ns, bool hot, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(charge_key(f->table, &f->tat, colliding(n), now_ns, hot, &c), WEIR_OK);
    assert_true(c.decision.allowed);
    return c.decision.remaining;
}

static uint64_t evicted(const fixture *f)
{
    return weir_table_stats_get(f->table).evicted;
}

/* On the fast path, a new key takes the place of the idle one, wherever that is. */
static void idle_is_overwritten(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * FULL; i++) {
        fixture f;
        weir_line l;
        open_fixture(&f);
        for (unsigned n = 0; n < (i < FULL ? FULL : 2 * FULL); n++)
            take(&f, n, s_ns, true, n == i ? 2 : 90);
        assert_int_equal(take(&f, 1000, 3 * s_ns, true, 1), 99);
        weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(1000));
        weir_bucket_copy(&f.table->array, i < FULL ? at.first : at.alternate, &l);
        assert_int_equal(weir_line_find(&l, at.tag, i >= FULL), i % FULL);
        assert_int_equal(evicted(&f), 0);
        check_whole(f.table);
        close_fixture(&f);
    }
}

/* If two keys are equally close to idle, the one in the first bucket is evicted. */
static void equally_close_to_idle(void **state)
{
    (void)state;
    static const int64_t costs[2 * FULL] = {50, 50, 10, 50, 50, 10, 50, 50};
    for (int cold = 0; cold < 2; cold++) { /* on the fast path, no search precedes */
        fixture f;
        open_fixture(&f);
        for (uint64_t n = 0; n < 2 * FULL; n++)
            take(&f, n, s_ns, true, costs[n]);
        port_store_relaxed(&f.table->head->counts[0].skip, !cold);
        take(&f, 1000, s_ns, !cold, 20);
        for (uint64_t n = 0; n < 2 * FULL; n++)
            assert_int_equal(take(&f, n, s_ns, true, 0), n == 2 ? 100 : 100 - costs[n]);
        assert_int_equal(evicted(&f), 1);
        close_fixture(&f);
    }
}

/* After a search in vain, the next WEIR_SKIPS searches are skipped, and no more. */
static void searches_begin_again(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (uint64_t n = 0; n < 2 * FULL + 3 * (WEIR_SKIPS + 1); n++) {
        take(&f, n, s_ns, n % 2 == 0, 50);
        assert_int_equal(port_load_relaxed(&f.table->head->counts[0].skip),
                         n < 2 * FULL ? 0 : WEIR_SKIPS - (n - 2 * FULL) % (WEIR_SKIPS + 1));
    }
    close_fixture(&f);
}

/* Locks all buckets but two, or unlocks them. */
static void lock_others(fixture *f, const weir_bucket_pair *but, uint64_t *headers, bool unlock)
{
    const weir_bucket_array *a = &f->table->array;
    for (uint64_t i = 0; i < a->buckets_len; i++) {
        weir_bucket *b = &a->buckets[i];
        if (b == but->first || b == but->alternate)
            continue;
        if (unlock) {
            assert_int_equal(port_word_load_relaxed(&b->word[0]), weir_header_lock(a, headers[i]));
            weir_bucket_unlock(b, headers[i]);
        } else {
            headers[i] = port_word_load_relaxed(&b->word[0]);
            assert_true(weir_bucket_try_lock(a, b, headers[i]));
        }
    }
}

/* An insertion does not wait for a bucket to which it could displace an entry, and does not change
 * it. It evicts a key instead. */
static void locked_buckets_are_left_alone(void **state)
{
    (void)state;
    enum { BUCKETS = 192 };
    static const uint64_t tops[] = {0x0123, 0x4567}; /* the buckets of colliding() */
    for (int hot = 0; hot < 2; hot++) {
        fixture f;
        uint64_t headers[BUCKETS];
        open_fixture(&f);
        assert_int_equal(f.table->array.buckets_len, BUCKETS);
        weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(0));
        for (uint64_t n = 0; n < 2 * FULL; n++) {
            charge c = {.cost = 50};
            charge_key(f.table, &f.tat, loner(tops[n % 2], 8 + n / 2), s_ns, true, &c);
        }
        lock_others(&f, &at, headers, false);
        assert_int_equal(take(&f, 0, s_ns, hot, 40), 60);
        assert_int_equal(evicted(&f), 1);
        lock_others(&f, &at, headers, true);
        assert_int_equal(take(&f, 1, s_ns, hot, 40), 60);
        assert_int_equal(evicted(&f), 1);
        assert_int_equal(check_whole(f.table), 2 * FULL + 1);
        close_fixture(&f);
    }
}

/* Leaves an old entry of a key in its alternate bucket, as a writer does that is killed while it
 * displaces the key. */
static void leave_behind(fixture *f, uint64_t hash, int64_t fresh_at_ns)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_bucket_pair at = weir_bucket_pair_of(f->table, hash);
    weir_bucket_entry e = {at.tag, fresh_at_ns, WEIR_FORM_TIME, true, {0}};
    weir_lock_set_pair(f->table, &h, &at);
    weir_line_add(&weir_lock_set_find(&h, at.alternate)->line, &e);
    weir_lock_set_commit(f->table, &h);
}

/* A new key displaces one of the two entries of a key: the valid one, which overwrites the old one,
 * or the old one, which is dropped. */
static void left_in_both_buckets(void **state)
{
    (void)state;
    static const uint64_t tops[] = {0x0123, 0x4567}; /* the buckets of colliding() */
    for (int old = 0; old < 2; old++) {
        fixture f;
        charge c = {.cost = 50};
        /* Keys whose first bucket has the entry that can be displaced. */
        const uint64_t others = tops[old] << 48 | 0x80000000 | 17;
        open_fixture(&f);
        take(&f, 0, s_ns, true, 30);
        if (!old)
            charge_key(f.table, &f.tat, loner(0x4567, 1), s_ns, true, &c);
        for (uint64_t n = 1; n < FULL; n++)
            charge_key(f.table, &f.tat, others | n << 32, s_ns, true, &c);
        leave_behind(&f, colliding(0), 6 * s_ns);
        for (uint64_t n = FULL; n < 2 * FULL; n++)
            charge_key(f.table, &f.tat, others | n << 32, s_ns, true, &c);
        assert_int_equal(weir_table_stats_get(f.table).keys, 2 * FULL + 1 + !old);
        charge_key(f.table, &f.tat, others | (uint64_t)2 * FULL << 32, s_ns, true, &c);
        assert_int_equal(evicted(&f), 0);
        assert_int_equal(take(&f, 0, s_ns, true, 0), 70);
        assert_int_equal(check_whole(f.table), 2 * FULL + 1 + !old);
        close_fixture(&f);
    }
}

/* A bucket that a call has locked but not changed keeps its version, so that other threads need not
 * decide again. */
static void unchanged_buckets_keep_their_version(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(0));
    for (uint64_t n = 1; n < FULL; n++)
        take(&f, n, s_ns, true, 50);
    uint64_t first = port_word_load_relaxed(&at.first->word[0]),
             alternate = port_word_load_relaxed(&at.alternate->word[0]);
    weir_table_reset(f.table, colliding(0));
    assert_int_equal(port_word_load_relaxed(&at.first->word[0]), first);
    assert_int_equal(port_word_load_relaxed(&at.alternate->word[0]), alternate);
    weir_table_reset(f.table, colliding(1));
    assert_int_equal(port_word_load_relaxed(&at.first->word[0]) >> WEIR_VERSION_AT,
                     (first >> WEIR_VERSION_AT) + 1);
    assert_int_equal(port_word_load_relaxed(&at.alternate->word[0]), alternate);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_is_overwritten),
        cmocka_unit_test(equally_close_to_idle),
        cmocka_unit_test(searches_begin_again),
        cmocka_unit_test(locked_buckets_are_left_alone),
        cmocka_unit_test(left_in_both_buckets),
        cmocka_unit_test(unchanged_buckets_keep_their_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
