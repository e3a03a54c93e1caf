/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations in one process. reserve_step_test.c has the tests with killed processes, copies and
 * records that no call writes. */

#include "store/reserve_id.h"
#include "store/reserve_kit_test.h"

/* ---- the life of a reservation --------------------------------------------------------------- */

static void check_settled(void **unused)
{
    (void)unused;
    fixture x;
    int64_t over = -1;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t id = make(&x, 3, s_ns, 40, 60 * s_ns);
    assert_int_equal(left(&x, 3, s_ns), 60);
    assert_int_equal(commit(&x, id, 2 * s_ns, 15, &over), 85);
    assert_int_equal(over, 0);
    assert_int_equal(try_commit(&x, id, 2 * s_ns), WEIR_E_ABSENT); /* only once */
    assert_int_equal(left(&x, 3, 2 * s_ns), 85);
    id = make(&x, 3, s_ns, 40, 60 * s_ns);
    assert_int_equal(commit(&x, id, 2 * s_ns, 40, &over), 45); /* the exact cost */
    id = make(&x, 3, s_ns, 5, 60 * s_ns);
    assert_int_equal(commit(&x, id, 2 * s_ns, 25, &over), 20); /* more than was reserved */
    assert_int_equal(over, 0);
    id = make(&x, 3, s_ns, 10, 60 * s_ns);
    assert_int_equal(commit_into_debt(&x, id, 2 * s_ns, 25), 0); /* more than is left */
    assert_int_equal(make(&x, 3, s_ns, 1, 60 * s_ns), 0);
    assert_int_equal(count_open(&x), 0);
    id = make(&x, 4, s_ns, 0, 60 * s_ns); /* a reservation of 0: nothing is known about the cost */
    assert_true(id != 0);
    assert_int_equal(commit_into_debt(&x, id, 2 * s_ns, WEIR_COST_MAX), 0);
    tear_down(&x);
    set_up(&x, "fixed-window 100/h", SMALL); /* what cannot be counted is reported */
    id = make(&x, 3, s_ns, 10, 60 * s_ns);
    uint64_t next = make(&x, 3, s_ns, 10, 60 * s_ns);
    assert_int_equal(commit_into_debt(&x, id, 2 * s_ns, WEIR_COST_MAX), 10);
    assert_int_equal(commit_into_debt(&x, next, 2 * s_ns, 15), 5);
    tear_down(&x);
}

/* After its expiry a reservation is known without its units, and is committed once. */
static void check_late(void **unused)
{
    (void)unused;
    fixture x;
    int64_t over = -1;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t id = make(&x, 3, s_ns, 40, 5 * s_ns);
    assert_int_equal(left(&x, 3, 6 * s_ns), 100);
    assert_int_equal(count_open(&x), 0);
    assert_int_equal(commit(&x, id, 6 * s_ns, 30, &over), 70); /* less than was reserved */
    assert_int_equal(over, 0);
    assert_int_equal(try_commit(&x, id, 6 * s_ns), WEIR_E_ABSENT); /* only once */
    assert_int_equal(left(&x, 3, 6 * s_ns), 70);
    id = make(&x, 3, 6 * s_ns, 10, s_ns);
    assert_int_equal(commit_into_debt(&x, id, 9 * s_ns, 80), 0); /* the commit finds it expired */
    id = make(&x, 4, 9 * s_ns, 10, s_ns);
    assert_int_equal(try_commit(&x, id, 20 * s_ns),
                     WEIR_OK); /* a cancellation: nothing to return */
    assert_int_equal(left(&x, 4, 20 * s_ns), 100);
    assert_int_equal(try_commit(&x, id, 20 * s_ns), WEIR_E_ABSENT);
    id = make(&x, 4, 20 * s_ns, 10, s_ns);
    assert_int_equal(left(&x, 4, 21 * s_ns), 100);
    reopen(&x); /* also after a restart */
    assert_int_equal(weir_reserve_stats_get(x.r).damaged, 0);
    assert_int_equal(commit(&x, id, 22 * s_ns, 10, &over), 90);
    reopen(&x);
    assert_int_equal(try_commit(&x, id, 22 * s_ns), WEIR_E_ABSENT);
    tear_down(&x);
}

/* The oldest expired one is forgotten first, also after a restart, whatever its place is. */
static void check_forgotten(void **unused)
{
    (void)unused;
    fixture x;
    uint64_t ids[SMALL_MAX];
    set_up(&x, "fixed-window 1000000/h", SMALL);
    for (int i = 0; i < SMALL_MAX; i++)
        ids[i] = make(&x, 0, s_ns, 1, (SMALL_MAX - i) * s_ns);
    weir_reserve_expire(x.r, 1000 * s_ns);
    assert_int_equal(count_open(&x), 0);
    (void)make(&x, 0, 1000 * s_ns, 1,
               60 * s_ns);              /* takes the place of the one that expired first */
    for (int i = 0; i < SMALL_MAX; i++) /* a denied one takes no place */
        assert_int_equal(make(&x, 0, 1000 * s_ns, WEIR_COST_MAX, 60 * s_ns), 0);
    reopen(&x);
    (void)make(&x, 0, 1000 * s_ns, 1, 60 * s_ns);
    assert_int_equal(count_open(&x), 2);
    assert_int_equal(try_commit(&x, ids[SMALL_MAX - 1], 1000 * s_ns), WEIR_E_ABSENT);
    assert_int_equal(try_commit(&x, ids[SMALL_MAX - 2], 1000 * s_ns), WEIR_E_ABSENT);
    for (int i = 0; i < SMALL_MAX - 2; i++)
        assert_int_equal(try_commit(&x, ids[i], 1000 * s_ns), WEIR_OK);
    assert_int_equal(count_open(&x), 2);
    tear_down(&x);
}

/* A reservation expires at its exact nanosecond, not earlier. */
static void check_expiry(void **unused)
{
    (void)unused;
    fixture x;
    set_up(&x, "fixed-window 100/h", SMALL);
    assert_false(weir_reserve_due(x.r, WEIR_NOW_NS_MAX));
    uint64_t late = make(&x, 1, s_ns, 30, 9 * s_ns);
    uint64_t soon = make(&x, 1, s_ns, 50, 5 * s_ns);
    assert_false(weir_reserve_due(x.r, 6 * s_ns - 1));
    assert_true(weir_reserve_due(x.r, 6 * s_ns));
    assert_int_equal(left(&x, 1, 6 * s_ns - 1), 20);
    assert_int_equal(left(&x, 1, 6 * s_ns), 70);
    assert_int_equal(try_commit(&x, soon, 6 * s_ns - 1), WEIR_OK); /* known, without units */
    assert_int_equal(left(&x, 1, 6 * s_ns), 70);
    assert_false(weir_reserve_due(x.r, 10 * s_ns - 1));
    assert_int_equal(try_commit(&x, late, 10 * s_ns), WEIR_OK);
    assert_int_equal(left(&x, 1, 10 * s_ns), 100);
    uint64_t id = make(&x, 1, s_ns, 30, WEIR_SPAN_NS_MAX);
    assert_int_equal(try_commit(&x, id, WEIR_SPAN_NS_MAX), WEIR_OK);
    make(&x, 1, WEIR_NOW_NS_MAX, 30, WEIR_SPAN_NS_MAX);
    assert_int_equal(left(&x, 1, WEIR_NOW_NS_MAX), 70);
    make(&x, 2, 20 * s_ns, 100, 1); /* a new reservation expires the others that are due */
    assert_true(make(&x, 2, 20 * s_ns + 1, 100, 1) != 0);
    tear_down(&x);
}

/* Units are returned as of the expiry, however late the next decision is. A charge in one window
 * takes nothing from the next window. */
static void check_windows(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t ends_s;    /* a charge of 10 at 30 s does not count any more from here on */
        int64_t left_then; /* of 100, with 20 charged meanwhile */
    } rows[] = {
        {"fixed-window 100/m", 60, 80},     {"fixed-window 100/m from-first", 90, 80},
        {"sliding-log 100/m", 90, 80},      {"sliding-slices 100/m slices 6", 90, 80},
        {"sliding-counter 100/m", 120, 80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int64_t early = 0; early < 2; early++) {
            fixture x;
            weir_decision d;
            set_up(&x, rows[i].policy, SMALL);
            int64_t end_ns = rows[i].ends_s * s_ns - early;
            make(&x, 5, 30 * s_ns, 10, end_ns - 30 * s_ns);
            assert_int_equal(weir_check(&x.policy, x.fake.state[5], 0, end_ns, 20, &d), WEIR_OK);
            int64_t before = d.remaining, after = left(&x, 5, end_ns);
            if (!early)
                assert_int_equal(after, before); /* nothing was left to return */
            if (!early)
                assert_int_equal(after, rows[i].left_then);
            if (early)
                assert_true(after > before && after <= before + 10);
            tear_down(&x);
        }
    }
    fixture x;
    weir_decision d;
    set_up(&x, "fixed-window 100/m", SMALL);
    make(&x, 5, 30 * s_ns, 10, 15 * s_ns); /* expires at 45 s, found at 70 s */
    weir_reserve_expire(x.r, 70 * s_ns);
    assert_int_equal(weir_check(&x.policy, x.fake.state[5], 0, 70 * s_ns, 20, &d), WEIR_OK);
    assert_int_equal(d.remaining, 80);
    tear_down(&x);
}

/* Each layer returns what it still counts. */
static void check_layers(void **unused)
{
    (void)unused;
    fixture x;
    weir_decision d;
    set_up(&x, "fixed-window 50/m & fixed-window 100/h", SMALL);
    uint64_t id = make(&x, 0, 59 * s_ns, 40, 60 * s_ns);
    assert_int_equal(weir_check(&x.policy, x.fake.state[0], 0, 60 * s_ns, 10, &d), WEIR_OK);
    assert_int_equal(try_commit(&x, id, 61 * s_ns), WEIR_OK);
    assert_int_equal(left(&x, 0, 61 * s_ns), 40);  /* of this minute, in which 10 were charged */
    assert_int_equal(left(&x, 0, 120 * s_ns), 50); /* of the hour, 90 are left */
    tear_down(&x);
}

static void check_buckets(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"gcra 1/s burst 10", "token-bucket 10 refill 1/s",
                                           "token-bucket 10 refill 1 every 1s",
                                           "gcra 1/s burst 10 & gcra 3/s burst 10"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        fixture x;
        weir_decision d;
        set_up(&x, policies[i], SMALL);
        uint64_t id = make(&x, 0, 100 * s_ns, 6, 60 * s_ns);
        assert_int_equal(weir_check(&x.policy, x.fake.state[0], 0, 100 * s_ns, 4, &d), WEIR_OK);
        assert_int_equal(left(&x, 0, 100 * s_ns), 0);
        int64_t over;
        /* 1 has drained, 4 were returned. */
        assert_int_equal(commit(&x, id, 101 * s_ns, 2, &over), 5);
        make(&x, 0, 101 * s_ns, 5, 2 * s_ns);
        assert_int_equal(left(&x, 0, 103 * s_ns), 7);
        tear_down(&x);
    }
}

static void check_refused(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"leaky-queue 10/s depth 20",
                                           "fixed-window 5/s count-denied",
                                           "gcra 1/s burst 3 & sliding-log 5/s count-denied"};
    fixture x;
    weir_decision d;
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        set_up(&x, policies[i], SMALL);
        assert_int_equal(reserve_units(x.r, &x.policy, 77, 0, s_ns, 1, s_ns, &d, &id),
                         WEIR_E_UNSUPPORTED);
        tear_down(&x);
    }
    set_up(&x, "fixed-window 10/h", SMALL);
    x.fake.fails = WEIR_E_NOMEM;
    for (int i = 0; i < 2 * SMALL_MAX; i++) /* this uses up no record */
        assert_int_equal(reserve_units(x.r, &x.policy, 77, 0, s_ns, 1, s_ns, &d, &id),
                         WEIR_E_NOMEM);
    x.fake.fails = WEIR_OK;
    assert_int_equal(id, 0);
    for (int i = 0; i < 2 * SMALL_MAX; i++)
        assert_int_equal(make(&x, 0, s_ns, 11, s_ns), 0); /* nor does a denial */
    assert_int_equal(count_open(&x), 0);
    assert_int_equal(left(&x, 0, s_ns), 10);
    for (size_t i = x.fake.policies; i < POLICIES; i++)
        fake_note(&x.fake, 1000 + i, &x.policy);
    static const uint64_t unknown[] = {78, 77 + 64, 0};
    uint64_t known = make(&x, 0, s_ns, 1, s_ns);
    for (size_t i = 0; i < 3; i++) /* the policy would be unknown at the end of the reservation */
        assert_int_equal(reserve_units(x.r, &x.policy, unknown[i], 0, s_ns, 1, s_ns, &d, &id),
                         WEIR_E_FULL);
    assert_int_equal(try_commit(&x, known, s_ns), WEIR_OK);
    tear_down(&x);
    weir_reserve *r = NULL;
    const weir_reserve_hooks hooks = {NULL, fake_run, fake_find, fake_known, fake_note, fake_moved};
    assert_int_equal(weir_reserve_open(&r, &x, SMALL - 1, true, &first, secret, &hooks),
                     WEIR_E_RANGE);
    weir_reserve_close(NULL);
}

/* A commit that cannot charge the difference still ends the reservation. */
static void check_no_room(void **unused)
{
    (void)unused;
    fixture x;
    weir_decision d;
    int64_t over = -1;
    set_up(&x, "sliding-log 100/h", SMALL);
    uint64_t id = make(&x, 0, s_ns, 10, 60 * s_ns);
    /* A log that is full at this level; the fake store has no other level. */
    for (int64_t t = 2; t <= 4; t++)
        assert_int_equal(weir_check(&x.policy, x.fake.state[0], 0, t * s_ns, 1, &d), WEIR_OK);
    assert_int_equal(weir_check(&x.policy, x.fake.state[0], 0, 5 * s_ns, 1, &d), WEIR_E_ROOM);
    assert_int_equal(commit(&x, id, 5 * s_ns, 30, &over), 87);
    assert_int_equal(over, 20);
    id = make(&x, 1, s_ns, 10, 60 * s_ns);
    x.fake.fails = WEIR_E_BUSY; /* then nothing is written */
    d.remaining = over = -5;
    assert_int_equal(weir_reserve_commit(x.r, id, 5 * s_ns, 3, &d, &over), WEIR_E_BUSY);
    assert_true(d.remaining == -5 && over == -5);
    x.fake.fails = WEIR_OK;
    assert_int_equal(try_commit(&x, id, 5 * s_ns), WEIR_E_ABSENT);
    tear_down(&x);
}

static void check_full(void **unused)
{
    (void)unused;
    fixture x;
    weir_decision d;
    uint64_t id, ids[SMALL_MAX];
    set_up(&x, "fixed-window 1000000/h", SMALL);
    assert_int_equal(weir_reserve_stats_get(x.r).max, SMALL_MAX);
    for (int i = 0; i < SMALL_MAX; i++)
        ids[i] = make(&x, 0, s_ns, 1, (SMALL_MAX - i) * s_ns);
    assert_int_equal(reserve_units(x.r, &x.policy, 77, 0, s_ns, 1, s_ns, &d, &id), WEIR_E_FULL);
    assert_int_equal(left(&x, 0, s_ns), 1000000 - SMALL_MAX);
    assert_int_equal(try_commit(&x, ids[20], s_ns), WEIR_OK);
    ids[20] = make(&x, 0, s_ns, 1, 7 * s_ns);
    assert_int_equal(reserve_units(x.r, &x.policy, 77, 0, s_ns, 1, s_ns, &d, &id), WEIR_E_FULL);
    id = make(&x, 0, 2 * s_ns, 1, s_ns); /* one has expired by then */
    assert_true(id != 0);
    assert_int_equal(count_open(&x), SMALL_MAX);
    weir_reserve_expire(x.r, 1000 * s_ns);
    assert_int_equal(count_open(&x), 0);
    assert_int_equal(left(&x, 0, 1000 * s_ns), 1000000);
    tear_down(&x);
    static const struct {
        size_t bytes;
        uint64_t max;
    } rows[] = {
        {WEIR_RESERVE_BYTES_CHAINED - 1, WEIR_RESERVE_UNCHAINED_MAX},
        {WEIR_RESERVE_BYTES_CHAINED, WEIR_RESERVE_UNCHAINED_MAX + 1024},
        {WEIR_RESERVE_BYTES_MAX + 4096, WEIR_RESERVE_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_up(&x, "fixed-window 1000000/h", rows[i].bytes);
        assert_int_equal(weir_reserve_stats_get(x.r).max, rows[i].max);
        tear_down(&x);
    }
}

/* More than an id could number once: each leads to its own record, also after a restart. */
static void check_many(void **unused)
{
    (void)unused;
    enum { MANY = WEIR_RESERVE_UNCHAINED_MAX + 1024 };
    static uint64_t ids[MANY];
    fixture x;
    int64_t over;
    weir_decision d;
    set_up(&x, "fixed-window 1000000/h", WEIR_RESERVE_BYTES_CHAINED);
    for (int i = 0; i < MANY; i++)
        ids[i] = make(&x, (uint64_t)i * 8, s_ns, 1, (2 + i % 3) * s_ns);
    assert_int_equal(reserve_units(x.r, &x.policy, 77, 0, s_ns, 1, s_ns, &d, ids), WEIR_E_FULL);
    assert_int_equal(count_open(&x), MANY);
    reopen(&x);
    assert_int_equal(count_open(&x), MANY);
    for (int i = 0; i < MANY; i += 3)
        (void)commit(&x, ids[i], s_ns, 0, &over);
    assert_int_equal(count_open(&x), MANY - (MANY + 2) / 3);
    assert_int_equal(try_commit(&x, ids[3], s_ns), WEIR_E_ABSENT);
    assert_int_equal(left(&x, 0, 4 * s_ns), 1000000 - MANY / 3);
    assert_int_equal(left(&x, 0, 5 * s_ns), 1000000);
    assert_int_equal(count_open(&x), 0);
    tear_down(&x);
}

/* An id of an earlier version, with fewer bits for the record's number. */
static void check_former_id(void **unused)
{
    (void)unused;
    fixture x;
    int64_t over;
    set_up(&x, "fixed-window 100/h", SMALL);
    (void)make(&x, 1, s_ns, 10, 60 * s_ns);
    uint64_t id = weir_reserve_encrypt(secret, UINT64_C(0x123456789abc) << 16 | 1);
    weir_reserve_close(x.r);
    uint64_t *records = (uint64_t *)((unsigned char *)x.part + 128), *former = records + 8;
    memcpy(former, records, 64);
    former[1] = id;
    former[7] = weir_siphash(secret, former + 1, 6 * sizeof *former);
    x.r = open_part(&x.fake, x.part, x.bytes, false, &first);
    assert_int_equal(count_open(&x), 2);
    assert_int_equal(commit(&x, id, s_ns, 4, &over), 96);
    assert_int_equal(weir_reserve_stats_get(x.r).damaged, 0);
    tear_down(&x);
}

/* No id leads to another reservation: neither the next number, nor an id with one bit changed. */
static void check_ids(void **unused)
{
    (void)unused;
    fixture x;
    uint64_t ids[SMALL_MAX];
    set_up(&x, "fixed-window 1000000/h", SMALL);
    for (int i = 0; i < SMALL_MAX; i++) {
        ids[i] = make(&x, 0, s_ns, 1, 60 * s_ns);
        for (int k = 0; k < i; k++)
            assert_true(ids[k] != ids[i]);
    }
    assert_int_equal(try_commit(&x, 0, s_ns), WEIR_E_ABSENT);
    for (int i = 0; i < SMALL_MAX; i++) {
        assert_int_equal(try_commit(&x, ids[i] + 1, s_ns), WEIR_E_ABSENT);
        for (int bit = 0; bit < 64; bit++)
            assert_int_equal(try_commit(&x, ids[i] ^ (uint64_t)1 << bit, s_ns), WEIR_E_ABSENT);
    }
    for (int i = 0; i < SMALL_MAX; i++)
        assert_int_equal(try_commit(&x, ids[i], s_ns), WEIR_OK);
    uint64_t again = make(&x, 0, s_ns, 1, 60 * s_ns); /* in the same record, with a new id */
    for (int i = 0; i < SMALL_MAX; i++)
        assert_true(ids[i] != again);
    tear_down(&x);
}

/* A reset returns the reserved units. They are not returned a second time. */
static void zero_units(size_t bytes)
{
    fixture x;
    weir_decision d;
    int64_t over;
    set_up(&x, "fixed-window 100/h", bytes);
    uint64_t c = make(&x, 1, s_ns, 40, 50 * s_ns); /* of another key, and expires first */
    uint64_t a = make(&x, 0, s_ns, 30, 60 * s_ns), b = make(&x, 0, s_ns, 20, 60 * s_ns);
    weir_reserve_lock(x.r);
    weir_reserve_zero_units(x.r, 0);
    weir_reserve_unlock(x.r);
    memset(x.fake.state[0], 0, sizeof x.fake.state[0]);
    assert_int_equal(weir_check(&x.policy, x.fake.state[0], 0, 2 * s_ns, 50, &d), WEIR_OK);
    reopen(&x);
    assert_int_equal(count_open(&x), 3);
    assert_int_equal(commit(&x, a, 3 * s_ns, 5, &over), 45); /* the real cost is charged */
    assert_int_equal(try_commit(&x, b, 3 * s_ns), WEIR_OK);
    assert_int_equal(left(&x, 0, 3 * s_ns), 45);
    assert_int_equal(commit(&x, c, 3 * s_ns, 10, &over), 90);
    tear_down(&x);
}

static void check_zero_units(void **unused)
{
    (void)unused;
    zero_units(SMALL);
    zero_units(WEIR_RESERVE_BYTES_CHAINED);
}

/* The units of a key that was renamed are returned to its new hash. */
static void rename_key(size_t bytes)
{
    fixture x;
    int64_t over;
    set_up(&x, "fixed-window 100/h", bytes);
    uint64_t a = make(&x, 0, s_ns, 30, 60 * s_ns), b = make(&x, 1, s_ns, 20, 60 * s_ns);
    uint64_t c = make(&x, 0, s_ns, 10, 60 * s_ns);
    weir_reserve_lock(x.r);
    weir_reserve_rename(x.r, 0, 1, 77);
    weir_reserve_unlock(x.r);
    assert_int_equal(count_open(&x), 3);
    assert_int_equal(commit(&x, a, s_ns, 20, &over), 90); /* of the 20 units that b took */
    assert_int_equal(commit(&x, c, s_ns, 5, &over), 95);
    weir_reserve_lock(x.r);
    weir_reserve_rename(x.r, 1, 2, 77);
    weir_reserve_zero_units(x.r, 1);
    weir_reserve_unlock(x.r);
    reopen(&x);
    assert_int_equal(count_open(&x), 1);
    assert_int_equal(commit(&x, b, s_ns, 20, &over), 100); /* hash 2 was never charged */
    assert_int_equal(left(&x, 0, s_ns), 60);
    tear_down(&x);
}

static void check_rename(void **unused)
{
    (void)unused;
    rename_key(SMALL);
    rename_key(WEIR_RESERVE_BYTES_CHAINED);
}

/* ---- opened again ---------------------------------------------------------------------------- */

static void check_reopened(void **unused)
{
    (void)unused;
    fixture x;
    int64_t over;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t a = make(&x, 0, s_ns, 10, 60 * s_ns), b = make(&x, 1, s_ns, 20, 5 * s_ns);
    uint64_t c = make(&x, 0, s_ns, 30, 50 * s_ns);
    assert_int_equal(try_commit(&x, c, s_ns), WEIR_OK);
    reopen(&x);
    assert_int_equal(count_open(&x), 2);
    assert_int_equal(weir_reserve_stats_get(x.r).damaged, 0);
    assert_int_equal(try_commit(&x, c, 2 * s_ns), WEIR_E_ABSENT);
    assert_int_equal(left(&x, 1, 6 * s_ns - 1), 80);
    assert_int_equal(left(&x, 1, 6 * s_ns), 100);
    assert_int_equal(try_commit(&x, b, 6 * s_ns), WEIR_OK); /* it has expired */
    assert_int_equal(try_commit(&x, b, 6 * s_ns), WEIR_E_ABSENT);
    assert_int_equal(commit(&x, a, 7 * s_ns, 4, &over), 96);
    uint64_t d = make(&x, 0, 7 * s_ns, 10, 60 * s_ns);
    assert_true(d != a && d != b && d != c);
    x.fake.policies = 0; /* a file that lost its policy texts */
    reopen(&x);
    assert_int_equal(try_commit(&x, d, 8 * s_ns), WEIR_E_ABSENT);
    assert_int_equal(left(&x, 0, 70 * s_ns), 86); /* they stay charged */
    assert_int_equal(weir_reserve_stats_get(x.r).lost, 1);
    assert_int_equal(count_open(&x), 0);
    tear_down(&x);
}

/* Copies of all memory that survives the process. */
enum { MOMENTS_MAX = 64 };

typedef struct moment {
    uint64_t state[KEYS][WORDS];
    uint8_t part[SMALL];
} moment;

typedef struct watch {
    const fixture *fixture;
    size_t len;
    moment at[MOMENTS_MAX];
} watch;

static void take_moment(fake *f, bool after)
{
    (void)after;
    watch *w = f->watch;
    assert_true(w->len < MOMENTS_MAX);
    moment *m = &w->at[w->len++];
    memcpy(m->state, f->state, sizeof m->state);
    memcpy(m->part, w->fixture->part, sizeof m->part);
}

/* The process is killed before and after each change of a state, while it holds the lock. Used
 * units stay charged, no unit is returned twice, and each open reservation can be ended once. */
static void check_killed(void **unused)
{
    (void)unused;
    static watch w;
    fixture x;
    int64_t over;
    w = (watch){.fixture = &x};
    set_up(&x, "fixed-window 100/h", SMALL);
    x.fake.watch = &w;
    x.fake.on_run = take_moment;
    uint64_t ids[4];
    ids[0] = make(&x, 0, s_ns, 10, 60 * s_ns);
    ids[1] = make(&x, 0, s_ns, 20, 5 * s_ns);
    ids[2] = make(&x, 0, s_ns, 30, 70 * s_ns);
    ids[3] = make(&x, 0, s_ns, 0, 70 * s_ns);
    commit(&x, ids[0], 2 * s_ns, 7, &over);
    commit(&x, ids[3], 2 * s_ns, 5, &over);
    assert_int_equal(left(&x, 0, 6 * s_ns), 100 - 7 - 5 - 30);
    x.fake.on_run = NULL;
    assert_int_equal(w.len, 2 * 7);
    for (size_t i = 0; i < w.len; i++) {
        fixture y = {.policy = x.policy, .bytes = SMALL, .part = port_map(SMALL)};
        assert_non_null(y.part);
        pthread_mutex_init(&y.fake.mutex, NULL);
        memcpy(y.fake.state, w.at[i].state, sizeof y.fake.state);
        memcpy(y.part, w.at[i].part, SMALL);
        fake_note(&y.fake, 77, &y.policy);
        y.r = open_part(&y.fake, y.part, SMALL, false, &second);
        assert_int_equal(weir_reserve_stats_get(y.r).damaged, 0);
        int64_t open = (int64_t)count_open(&y), ended = 0;
        for (int k = 0; k < 4; k++)
            ended += try_commit(&y, ids[k], 3 * s_ns) == WEIR_OK;
        assert_int_equal(ended, open + (i >= 12)); /* one that expired is known */
        /* All committed units are charged in any case. */
        int64_t used = (i >= 9 ? 7 : 0) + (i >= 11 ? 5 : 0);
        assert_true(left(&y, 0, 3 * s_ns) <= 100 - used);
        if (i % 2 == 0 && i < 8) /* killed before the charge: as if it had not begun */
            assert_int_equal(left(&y, 0, 3 * s_ns), 100);
        for (int k = 0; k < 4; k++)
            assert_int_equal(try_commit(&y, ids[k], 3 * s_ns), WEIR_E_ABSENT);
        assert_int_equal(weir_reserve_stats_get(y.r).open, 0);
        for (int k = 0; k < SMALL_MAX; k++) /* no record was lost */
            assert_true(make(&y, 1, 3 * s_ns, 1, s_ns) != 0);
        tear_down(&y);
    }
    tear_down(&x);
}

/* Another process was killed while it held the lock. Everything but the records is damaged. */
static void check_left_locked(void **unused)
{
    (void)unused;
    fixture x;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = make(&x, 0, s_ns, 10, (60 + i) * s_ns);
    uint8_t *bytes = x.part;
    const uint64_t holder = 9;
    memset(bytes, 0xff, 8);                                    /* nothing ever expires */
    memset(bytes + 128 + SMALL_MAX * 64, 0xff, SMALL_MAX * 8); /* the heap */
    memset(bytes + 64 + 32, 0xff, 12);                         /* its length, and the free list */
    memcpy(bytes + 64, &holder, sizeof holder);
    assert_int_equal(try_commit(&x, ids[2], 2 * s_ns), WEIR_OK);
    assert_int_equal(count_open(&x), 3);
    assert_int_equal(left(&x, 0, 61 * s_ns - 1), 70);
    assert_int_equal(left(&x, 0, 61 * s_ns), 80);
    assert_int_equal(left(&x, 0, 62 * s_ns), 90);
    for (int k = 1; k < SMALL_MAX; k++)
        assert_true(make(&x, 1, 62 * s_ns, 1, s_ns) != 0);
    tear_down(&x);
}

/* Damage to any byte of a record drops that record, and no other. */
static void check_damaged(void **unused)
{
    (void)unused;
    fixture x;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = make(&x, 0, s_ns, 10, 60 * s_ns);
    uint8_t *bytes = x.part, whole[SMALL];
    memcpy(whole, x.part, sizeof whole);
    weir_reserve_close(x.r);
    for (size_t i = 0; i < 64; i++) { /* the second record */
        memcpy(bytes, whole, sizeof whole);
        bytes[128 + 64 + i] ^= 0x10;
        x.r = open_part(&x.fake, x.part, x.bytes, false, &second);
        assert_int_equal(count_open(&x), 2);
        assert_int_equal(weir_reserve_stats_get(x.r).damaged, 1);
        assert_int_equal(try_commit(&x, ids[1], s_ns), WEIR_E_ABSENT);
        weir_reserve_close(x.r);
    }
    memcpy(bytes, whole, sizeof whole);
    memcpy(bytes + 128 + 64, bytes + 128, 64); /* a copy of a record in another place is invalid */
    x.r = open_part(&x.fake, x.part, x.bytes, false, &second);
    assert_int_equal(count_open(&x), 2);
    weir_reserve_close(x.r);
    memset(bytes, 0xff, x.bytes);
    memset(bytes + 64, 0, 8); /* unlocked */
    x.r = open_part(&x.fake, x.part, x.bytes, false, &second);
    assert_int_equal(count_open(&x), 0);
    for (int k = 0; k < SMALL_MAX; k++)
        assert_true(make(&x, 1, 3 * s_ns, 1, s_ns) != 0);
    tear_down(&x);
}

/* ---- against a model ------------------------------------------------------------------------- */

typedef struct entry {
    uint64_t id;
    int64_t units, expires_ns;
} entry;

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return *seed >> 33;
}

/* The policy's window never ends. So what is left is the quota less all open and committed
 * reservations. */
static void check_model(void **unused)
{
    (void)unused;
    fixture x;
    entry list[SMALL_MAX];
    size_t len = 0;
    int64_t now_ns = s_ns, used = 0;
    uint64_t seed = 20261121;
    set_up(&x, "fixed-window 1000000000/3650d", SMALL);
    for (int step = 0; step < 20000; step++) {
        now_ns += (int64_t)(random_next(&seed) % 40);
        for (size_t i = 0; i < len;) {
            if (list[i].expires_ns <= now_ns)
                list[i] = list[--len];
            else
                i++;
        }
        int64_t cost = (int64_t)(random_next(&seed) % 1000);
        if (random_next(&seed) % 2 == 0 && len < SMALL_MAX) {
            int64_t ttl_ns = (int64_t)(random_next(&seed) % 2000) + 1;
            list[len++] = (entry){make(&x, 0, now_ns, cost, ttl_ns), cost, now_ns + ttl_ns};
        } else if (len > 0) {
            size_t i = random_next(&seed) % len;
            int64_t over;
            commit(&x, list[i].id, now_ns, cost, &over);
            used += cost;
            list[i] = list[--len];
        }
        if (step % 1000 == 999)
            reopen(&x);
        int64_t held = 0;
        for (size_t i = 0; i < len; i++)
            held += list[i].units;
        assert_int_equal(left(&x, 0, now_ns), 1000000000 - used - held);
        assert_int_equal(count_open(&x), len);
    }
    tear_down(&x);
}

/* ---- threads and processes ------------------------------------------------------------------- */

static bool both_alive(const void *ctx, uint64_t id)
{
    (void)ctx;
    return id == 1 || id == 2;
}

typedef struct worker {
    fixture *fixture;
    weir_reserve *r;
    int64_t used;
    uint64_t seed;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 4000; i++) {
        weir_decision d;
        uint64_t id = 0;
        int64_t over, now_ns = s_ns + i, cost = (int64_t)(random_next(&w->seed) % 50);
        int64_t ttl_ns = (int64_t)(random_next(&w->seed) % 60) + 1;
        if (reserve_units(w->r, &w->fixture->policy, 77, random_next(&w->seed) % KEYS, now_ns, cost,
                          ttl_ns, &d, &id) != WEIR_OK)
            continue; /* temporarily full */
        if (weir_reserve_due(w->r, now_ns + 30))
            weir_reserve_expire(w->r, now_ns + 30);
        (void)!weir_reserve_renew(w->r, id, now_ns, ttl_ns, &d);
        if (weir_reserve_commit(w->r, id, now_ns, cost / 2, &d, &over) == WEIR_OK)
            w->used += cost / 2;
    }
    return NULL;
}

/* Threads of two processes use the same memory. In the end, exactly the committed units are
 * charged. */
static void check_shared(void **unused)
{
    (void)unused;
    static const weir_processes one = {1, both_alive, NULL}, two = {2, both_alive, NULL};
    enum { THREADS = 4 };
    fixture x;
    set_up(&x, "fixed-window 1000000000/3650d", SMALL);
    fake_note(&x.fake, 77, &x.policy);
    weir_reserve_close(x.r);
    weir_reserve *handle[2] = {open_part(&x.fake, x.part, x.bytes, false, &one),
                               open_part(&x.fake, x.part, x.bytes, false, &two)};
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.fixture = &x, .r = handle[i % 2], .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    int64_t used = 0, charged = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        used += workers[i].used;
    }
    weir_reserve_close(handle[0]);
    x.r = handle[1];
    for (uint64_t key = 0; key < KEYS; key++)
        charged += 1000000000 - left(&x, key, 2 * s_ns);
    assert_true(used > 0);
    assert_int_equal(charged, used);
    WEIR_CHECK(weir_reserve_check(x.r));
    tear_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_settled),     cmocka_unit_test(check_expiry),
        cmocka_unit_test(check_late),        cmocka_unit_test(check_forgotten),
        cmocka_unit_test(check_windows),     cmocka_unit_test(check_layers),
        cmocka_unit_test(check_buckets),     cmocka_unit_test(check_refused),
        cmocka_unit_test(check_no_room),     cmocka_unit_test(check_full),
        cmocka_unit_test(check_ids),         cmocka_unit_test(check_reopened),
        cmocka_unit_test(check_killed),      cmocka_unit_test(check_damaged),
        cmocka_unit_test(check_model),       cmocka_unit_test(check_shared),
        cmocka_unit_test(check_left_locked), cmocka_unit_test(check_zero_units),
        cmocka_unit_test(check_rename),      cmocka_unit_test(check_many),
        cmocka_unit_test(check_former_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
