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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_is_overwritten),
        cmocka_unit_test(equally_close_to_idle),
        cmocka_unit_test(searches_begin_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
