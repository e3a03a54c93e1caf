/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* weir_store_copy(): what a store holds is in its copy, of any size, also while other processes use
 * the store. */

#include "store/iterate.h"
#include "store/kill_kit_test.h"
#include "store/kit_test.h"
#include "store/store.h"
#include "tests/store/check.h"

enum { KIB = 1 << 10, MIB = 1 << 20, POLICIES = 4 };

static const int64_t now_ns = INT64_C(1800000000000000000);

/* Two policies with small states and two with large ones. The second and the fourth may be in a
 * partition. */
static const char *const texts[POLICIES] = {"gcra 1000000/h burst 100000", "fixed-window 1000000/h",
                                            "sliding-log 1000/h",
                                            "sliding-slices 100000/h slices 60"};

static const weir_store_partition partition = {"own", 600 * KIB, 100 * KIB};

typedef struct rig {
    weir_store *s;
    weir_store_options options;
    weir_policy p[POLICIES];
    uint64_t id[POLICIES];
} rig;

/* Opens a store in memory of its own.
 *  from  whose secret to use; NULL: another one. */
static void open_rig(rig *r, size_t bytes, bool divided, const rig *from)
{
    *r = (rig){.options = {.memory = part_of(bytes),
                           .memory_bytes = bytes,
                           .large_bytes = bytes / 4,
                           .secret = from ? weir_store_secret(from->s) : NULL,
                           .partitions = &partition,
                           .partitions_len = divided}};
    assert_int_equal(weir_store_open(&r->s, &r->options), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        r->p[i] = policy_of(texts[i]);
        r->id[i] = weir_store_policy_id(r->s, &r->p[i]);
        if (i % 2 == 1)
            r->id[i] = weir_store_partition_id(r->s, r->id[i], "own");
    }
}

static void close_rig(rig *r)
{
    WEIR_CHECK(weir_store_check_all(r->s, true));
    weir_store_close(r->s);
    munmap(r->options.memory, r->options.memory_bytes);
}

static weir_status charge_key(const rig *r, weir_store *s, size_t policy, uint64_t key,
                              int64_t cost, weir_decision *ret)
{
    return weir_store_check(s, &r->p[policy], r->id[policy], &key, sizeof key, now_ns, cost, ret);
}

static void take(const rig *r, size_t policy, uint64_t key, int64_t cost)
{
    weir_decision d = {.allowed = false};
    assert_int_equal(charge_key(r, r->s, policy, key, cost, &d), WEIR_OK);
    assert_true(d.allowed);
}

static int64_t charged(const rig *r, size_t policy, uint64_t key)
{
    weir_decision d;
    assert_int_equal(
        weir_store_peek(r->s, &r->p[policy], r->id[policy], &key, sizeof key, now_ns, 0, &d),
        WEIR_OK);
    return d.limit - d.remaining;
}

typedef struct known_texts {
    const rig *r;
    size_t len;
} known_texts;

static bool know_text(void *ctx, uint64_t id, const char *text, size_t len)
{
    known_texts *k = ctx;
    for (size_t i = 0; i < POLICIES; i++) {
        if (k->r->id[i] == id) {
            assert_int_equal(len, strlen(texts[i]));
            assert_memory_equal(text, texts[i], len);
            k->len++;
        }
    }
    return true;
}

/* Keys of all kinds, in stores that grow, shrink and stay. */
static void states_are_kept(void **unused)
{
    (void)unused;
    enum { KEYS = 400 };
    static const size_t sizes[][2] = {{2 * MIB, 3 * MIB},
                                      {3 * MIB, 2 * MIB},
                                      {2 * MIB, 2 * MIB},
                                      {2 * MIB, 20 * MIB},
                                      {20 * MIB, 2 * MIB}};
    for (size_t n = 0; n < 2 * sizeof sizes / sizeof sizes[0]; n++) {
        rig a, b;
        bool divided = n % 2;
        open_rig(&a, sizes[n / 2][0] + (divided ? MIB : 0), divided, NULL);
        for (uint64_t key = 0; key < KEYS; key++)
            take(&a, key % POLICIES, key, 1 + (int64_t)(key % 7));
        weir_store_set_time(a.s, now_ns + 5 * s_ns);
        open_rig(&b, sizes[n / 2][1] + (divided ? MIB : 0), divided, &a);
        assert_int_equal(weir_store_copy(b.s, a.s), WEIR_OK);
        assert_int_equal(weir_store_stats_get(b.s).keys, KEYS);
        assert_int_equal(weir_store_stats_get(b.s).evicted, 0);
        for (uint64_t key = 0; key < KEYS; key++) {
            assert_int_equal(charged(&a, key % POLICIES, key), 1 + (int64_t)(key % 7));
            assert_int_equal(charged(&b, key % POLICIES, key), 1 + (int64_t)(key % 7));
        }
        weir_partition_stats of[2][1];
        assert_int_equal(weir_store_partitions(a.s, of[0], 1), divided);
        assert_int_equal(weir_store_partitions(b.s, of[1], 1), divided);
        if (divided)
            assert_int_equal(of[0]->keys, of[1]->keys);
        int64_t time_ns = weir_store_now(b.s);
        assert_true(time_ns >= now_ns + 5 * s_ns && time_ns < now_ns + 3600 * s_ns);
        known_texts known = {.r = &b};
        weir_store_policies(b.s, know_text, &known);
        assert_int_equal(known.len, divided ? POLICIES / 2 : POLICIES);
        close_rig(&a);
        close_rig(&b);
    }
}

/* Without the partition, or with too little memory, the rest is copied. */
static void what_does_not_fit(void **unused)
{
    (void)unused;
    enum { KEYS = 40000 };
    rig a, b;
    open_rig(&a, 4 * MIB, true, NULL);
    for (uint64_t key = 0; key < 100; key++)
        take(&a, key % POLICIES, key, 3);
    open_rig(&b, 4 * MIB, false, &a);
    assert_int_equal(weir_store_copy(b.s, a.s), WEIR_OK);
    assert_int_equal(weir_store_stats_get(b.s).keys, 50);
    assert_int_equal(charged(&b, 0, 4), 3);
    assert_int_equal(charged(&b, 1, 5), 0);
    close_rig(&a);
    close_rig(&b);
    open_rig(&a, 4 * MIB, false, NULL);
    for (uint64_t key = 0; key < KEYS; key++)
        take(&a, 0, key, 1);
    assert_int_equal(weir_store_stats_get(a.s).keys, KEYS);
    open_rig(&b, MIB, false, &a);
    /* It evicts, and so has space. */
    assert_int_equal(weir_store_copy(b.s, a.s), WEIR_OK);
    uint64_t copied = weir_store_stats_get(b.s).keys, kept = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        kept += charged(&b, 0, key) == 1;
    assert_true(copied > KEYS / 2 && copied < KEYS);
    assert_int_equal(kept, copied);
    close_rig(&a);
    close_rig(&b);
}

/* A reservation can be committed in the copy, and is not returned twice. */
static void reservations_are_kept(void **unused)
{
    (void)unused;
    enum { OPEN = 100 };
    rig a, b;
    uint64_t id[OPEN];
    weir_decision d;
    int64_t over;
    open_rig(&a, 2 * MIB, false, NULL);
    for (uint64_t key = 0; key < OPEN; key++)
        assert_int_equal(weir_store_reserve(a.s, &a.p[0], a.id[0], &key, sizeof key, now_ns, 10,
                                            s_ns, &d, &id[key]),
                         WEIR_OK);
    open_rig(&b, 3 * MIB, false, &a);
    assert_int_equal(weir_store_copy(b.s, a.s), WEIR_OK);
    assert_int_equal(weir_store_stats_get(b.s).keys, OPEN);
    for (uint64_t key = 0; key < OPEN; key++) {
        assert_int_equal(charged(&b, 0, key), 10);
        assert_int_equal(weir_store_commit(b.s, id[key], now_ns, 4, &d, &over), WEIR_OK);
        assert_int_equal(charged(&b, 0, key), 4);
        assert_int_equal(weir_store_commit(b.s, id[key], now_ns, 4, &d, &over), WEIR_E_ABSENT);
        assert_int_equal(weir_store_cancel(a.s, id[key], now_ns, &d), WEIR_OK);
    }
    close_rig(&a);
    close_rig(&b);
}

/* ---- while other processes use the store ----------------------------------------------------- */

enum { CHARGERS = 2, SHARED_KEYS = 64, COUNTERS = 2 * SHARED_KEYS + 1 };

typedef struct busy {
    rig from;
    /* In shared memory: charges begun and answered of each key, which only grow. */
    port_counter *begun, *answered;
    port_counter *ending; /* in shared memory too: not 0 once a child has failed or shall end */
} busy;

static weir_status charge_until_ending(const busy *b)
{
    weir_store *s = NULL;
    weir_status status = weir_store_open(&s, &b->from.options);
    for (uint64_t n = 0; status == WEIR_OK && port_load_relaxed(b->ending) == 0; n++) {
        uint64_t key = n % SHARED_KEYS, reserved;
        weir_decision d;
        port_add_relaxed(&b->begun[key], 1);
        status = charge_key(&b->from, s, key % POLICIES, key, 1, &d);
        if (status != WEIR_OK)
            break;
        port_add_relaxed(&b->answered[key], d.allowed);
        /* Reservations that are made and returned meanwhile change nothing. */
        if (key % POLICIES == 0)
            status = weir_store_reserve(s, &b->from.p[0], b->from.id[0], &key, sizeof key, now_ns,
                                        5, s_ns, &d, &reserved);
        if (key % POLICIES == 0 && status == WEIR_OK)
            status = weir_store_cancel(s, reserved, now_ns, &d);
    }
    weir_store_close(s);
    return status;
}

static int run_charger(void *ctx)
{
    const busy *b = ctx;
    weir_status status = charge_until_ending(b);
    port_add_relaxed(b->ending, 1);
    return status != WEIR_OK;
}

/* Each key in the copy has all charges that were answered before the copy began, and none that
 * began after it had ended. After all reservations have expired, none of their units is left. */
static void copy_of_a_busy_store(void **unused)
{
    (void)unused;
    busy b;
    open_rig(&b.from, 2 * MIB, false, NULL);
    b.begun = part_of(COUNTERS * sizeof *b.begun);
    b.answered = b.begun + SHARED_KEYS;
    b.ending = b.answered + SHARED_KEYS;
    pid_t pid[CHARGERS];
    for (size_t i = 0; i < CHARGERS; i++)
        pid[i] = fork_child(run_charger, &b);
    for (int n = 0; n < 20; n++) {
        rig to;
        uint64_t least[SHARED_KEYS], before = port_load_relaxed(&b.begun[0]);
        while (port_load_relaxed(&b.begun[0]) < before + 3 && port_load_relaxed(b.ending) == 0)
            port_yield();
        open_rig(&to, (size_t)(2 + n % 2) * MIB, false, &b.from);
        for (size_t key = 0; key < SHARED_KEYS; key++)
            least[key] = port_load_relaxed(&b.answered[key]);
        assert_int_equal(weir_store_copy(to.s, b.from.s), WEIR_OK);
        for (uint64_t key = 0; key < SHARED_KEYS; key++) {
            uint64_t most = port_load_relaxed(&b.begun[key]);
            weir_decision d;
            if (key % POLICIES == 2 && most > 900)
                continue; /* near the limit of the log */
            /* Time goes on to the expiry of all reservations. */
            assert_int_equal(weir_store_peek(to.s, &to.p[key % POLICIES], to.id[key % POLICIES],
                                             &key, sizeof key,
                                             key % POLICIES == 0 ? now_ns + s_ns : now_ns, 0, &d),
                             WEIR_OK);
            uint64_t drained = key % POLICIES == 0 ? 1000000 / 3600 + 1 : 0;
            assert_true((uint64_t)(d.limit - d.remaining) + drained >= least[key]);
            assert_true((uint64_t)(d.limit - d.remaining) <= most);
        }
        close_rig(&to);
    }
    assert_int_equal(port_load_relaxed(b.ending), 0);
    port_add_relaxed(b.ending, 1);
    for (size_t i = 0; i < CHARGERS; i++)
        assert_int_equal(wait_child(pid[i]), 0);
    munmap(b.begun, COUNTERS * sizeof *b.begun);
    close_rig(&b.from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_kept),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(reservations_are_kept),
        cmocka_unit_test(copy_of_a_busy_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
