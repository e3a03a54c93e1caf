/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Resets of all keys of a policy: the table of generations, and what decisions and reservations
 * find afterwards, in this process and in others, in files and in their copies. */

#include "store/image/resets.h"

#include "store/image/policy_registry.h"
#include "store/iterate.h"
#include "store/kill_kit_test.h"
#include "store/kit_test.h"
#include "store/store.h"
#include "tests/store/check.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const int64_t now_ns = INT64_C(1800000000000000000);

/* ---- the table ------------------------------------------------------------------------------- */

static void check_generations(void **unused)
{
    (void)unused;
    weir_resets r = {0};
    assert_int_equal(weir_resets_generation(&r, 7), 0);
    assert_int_equal(weir_resets_raise(&r, 7, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(weir_resets_generation(&r, 7), 1);
    assert_int_equal(weir_resets_generation(&r, 8), 0);
    assert_int_equal(weir_resets_raise(&r, 8, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(weir_resets_raise(&r, 7, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(weir_resets_generation(&r, 7), 2);
    assert_int_equal(weir_resets_generation(&r, 8), 1);
    assert_int_equal(weir_resets_raise(&r, 0, WEIR_RESETS_MAX),
                     WEIR_OK); /* any number is a policy */
    assert_int_equal(weir_resets_generation(&r, 0), 1);
    assert_int_equal(weir_resets_generation(&r, 1), 0);
    assert_int_equal(port_word_load_relaxed(&r.begun), 4);
}

static void check_full(void **unused)
{
    (void)unused;
    weir_resets r = {0};
    for (uint64_t i = 0; i < WEIR_RESETS_MAX; i++) {
        assert_int_equal(weir_resets_entries(&r, NULL), i);
        assert_int_equal(weir_resets_raise(&r, i, WEIR_RESETS_MAX), WEIR_OK);
    }
    assert_int_equal(weir_resets_raise(&r, WEIR_RESETS_MAX, WEIR_RESETS_MAX), WEIR_E_FULL);
    assert_int_equal(weir_resets_generation(&r, WEIR_RESETS_MAX), 0);
    for (uint64_t i = 0; i < WEIR_RESETS_MAX; i++) {
        assert_int_equal(weir_resets_generation(&r, i), 1);
        assert_int_equal(weir_resets_raise(&r, i, WEIR_RESETS_MAX),
                         WEIR_OK); /* those in the table may be reset */
        assert_int_equal(weir_resets_generation(&r, i), 2);
    }
    assert_int_equal(weir_resets_entries(&r, NULL), WEIR_RESETS_MAX);
}

/* A caller may leave entries for others. Policies in the table may be reset by all. */
static void check_fewer(void **unused)
{
    (void)unused;
    weir_resets r = {0};
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(weir_resets_raise(&r, i, 3), WEIR_OK);
    assert_int_equal(weir_resets_raise(&r, 3, 3), WEIR_E_FULL);
    assert_int_equal(weir_resets_raise(&r, 0, 3), WEIR_OK);
    assert_int_equal(weir_resets_raise(&r, 3, 4), WEIR_OK);
    assert_int_equal(weir_resets_raise(&r, 3, 3), WEIR_OK);
    assert_int_equal(weir_resets_entries(&r, NULL), 4);
}

/* A table whose slots are all taken, as only damage can cause. */
static void check_damaged(void **unused)
{
    (void)unused;
    weir_resets r = {0};
    for (size_t i = 0; i < WEIR_RESETS_SLOTS; i++)
        port_word_store_relaxed(&r.slot[i], UINT64_MAX - 1);
    assert_int_equal(weir_resets_generation(&r, 7), 0);
    assert_int_equal(weir_resets_raise(&r, 7, WEIR_RESETS_MAX), WEIR_E_FULL);
}

static uint64_t only_entry(const weir_resets *r)
{
    uint64_t entries[WEIR_RESETS_SLOTS];
    assert_int_equal(weir_resets_entries(r, entries), 1);
    return entries[0];
}

static void check_merge(void **unused)
{
    (void)unused;
    weir_resets from = {0}, to = {0};
    assert_int_equal(weir_resets_raise(&from, 7, WEIR_RESETS_MAX), WEIR_OK);
    uint64_t first = only_entry(&from);
    assert_int_equal(first & WEIR_GENERATION_MAX, 1);
    assert_int_equal(weir_resets_raise(&from, 7, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(only_entry(&from), first + 1);
    assert_int_equal(weir_resets_merge(&to, first + 1), WEIR_OK);
    assert_int_equal(weir_resets_generation(&to, 7), 2);
    assert_int_not_equal(port_word_load_relaxed(&to.begun), 0);
    assert_int_equal(weir_resets_merge(&to, first), WEIR_OK); /* never lowers a generation */
    assert_int_equal(weir_resets_merge(&to, first + 1), WEIR_OK);
    assert_int_equal(weir_resets_generation(&to, 7), 2);
    assert_int_equal(weir_resets_merge(&to, first + 2), WEIR_OK);
    assert_int_equal(weir_resets_generation(&to, 7), 3);
    assert_int_equal(weir_resets_merge(&to, first - 1), WEIR_E_RANGE); /* generation 0 */
    assert_int_equal(weir_resets_merge(&to, 1), WEIR_E_RANGE);         /* no policy */
    assert_int_equal(only_entry(&to), first + 2);
    uint64_t last = first - 1 + WEIR_GENERATION_MAX;
    assert_int_equal(weir_resets_merge(&to, last - 1), WEIR_OK);
    assert_int_equal(weir_resets_raise(&to, 7, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(only_entry(&to), last);
    assert_int_equal(weir_resets_raise(&to, 7, WEIR_RESETS_MAX), WEIR_E_FULL);
    assert_int_equal(only_entry(&to), last);
    for (uint64_t i = 8; weir_resets_entries(&to, NULL) < WEIR_RESETS_MAX; i++)
        assert_int_equal(weir_resets_raise(&to, i, WEIR_RESETS_MAX), WEIR_OK);
    assert_int_equal(weir_resets_merge(&to, first + (WEIR_GENERATION_MAX + 1) * 12345),
                     WEIR_E_FULL);
}

enum { RAISES = 2000, THREADS = 4, POLICIES = 50 };

static void *raise_many(void *resets)
{
    for (uint64_t i = 0; i < RAISES; i++)
        assert_int_equal(weir_resets_raise(resets, i % POLICIES, WEIR_RESETS_MAX), WEIR_OK);
    return NULL;
}

/* Threads that insert and raise the same policies lose no reset. */
static void check_threads(void **unused)
{
    (void)unused;
    weir_resets r = {0};
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, raise_many, &r), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(weir_resets_entries(&r, NULL), POLICIES);
    for (uint64_t i = 0; i < POLICIES; i++)
        assert_int_equal(weir_resets_generation(&r, i), THREADS * RAISES / POLICIES);
}

/* ---- decisions ------------------------------------------------------------------------------- */

static const char *const texts[] = {"gcra 10/h burst 10", "fixed-window 10/h",
                                    "sliding-log 10/h", /* large */
                                    "gcra 10/h burst 10 & fixed-window 10/day"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

typedef struct rig {
    weir_store *s;
    weir_policy p;
    uint64_t id, policy; /* of the states, and for resets */
} rig;

static void open_rig(rig *r, const weir_store_options *options, const char *text)
{
    assert_int_equal(weir_store_open(&r->s, options), WEIR_OK);
    r->p = policy_of(text);
    r->id = weir_store_policy_id(r->s, &r->p);
    r->policy = 4711;
}

static void close_rig(rig *r)
{
    WEIR_CHECK(weir_store_check_all(r->s, true));
    weir_store_close(r->s);
}

static uint64_t current(const rig *r)
{
    return weir_store_current_id(r->s, r->id, r->policy);
}

static void reset_all(const rig *r)
{
    assert_int_equal(weir_store_reset_policy(r->s, r->policy), WEIR_OK);
}

static int64_t remaining(const rig *r, const char *key)
{
    weir_decision d;
    assert_int_equal(weir_store_peek(r->s, &r->p, current(r), key, strlen(key), now_ns, 0, &d),
                     WEIR_OK);
    return d.remaining;
}

static int64_t take(const rig *r, const char *key, int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_store_check(r->s, &r->p, current(r), key, strlen(key), now_ns, cost, &d),
                     WEIR_OK);
    assert_true(d.allowed);
    return d.remaining;
}

static void check_all_keys(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < TEXTS; i++) {
        rig r;
        open_rig(&r, NULL, texts[i]);
        rig other = r; /* the same ids, reset as another policy */
        other.id ^= 1;
        other.policy++;
        assert_int_equal(current(&r), r.id);
        assert_int_equal(take(&r, "alice", 10), 0);
        assert_int_equal(take(&r, "bob", 3), 7);
        assert_int_equal(take(&other, "alice", 4), 6);
        for (int round = 0; round < 3; round++) {
            reset_all(&r);
            assert_int_equal(remaining(&r, "alice"), 10);
            assert_int_equal(remaining(&r, "bob"), 10);
            assert_int_equal(remaining(&other, "alice"), 6);
            assert_int_equal(take(&r, "alice", 7 + round), 3 - round);
        }
        assert_int_equal(current(&other), other.id);
        close_rig(&r);
    }
}

/* The ids of generations differ from each other, and keep the class and the partition. */
static void check_ids(void **unused)
{
    (void)unused;
    enum { ROUNDS = 1000 };
    static uint64_t ids[ROUNDS + 1];
    static const uint64_t keep = WEIR_POLICY_CLASS | WEIR_ID_PARTITION;
    rig r;
    open_rig(&r, NULL, texts[0]);
    ids[0] = current(&r);
    for (size_t i = 1; i <= ROUNDS; i++) {
        reset_all(&r);
        ids[i] = current(&r);
        assert_int_equal(ids[i] & keep, r.id & keep);
        for (size_t k = 0; k < i; k++)
            assert_true(ids[k] != ids[i]);
    }
    close_rig(&r);
}

static void check_full_store(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, NULL, texts[0]);
    for (r.policy = 0; r.policy < WEIR_RESETS_MAX; r.policy++)
        reset_all(&r);
    assert_int_equal(take(&r, "alice", 4), 6);
    assert_int_equal(weir_store_reset_policy(r.s, r.policy), WEIR_E_FULL);
    assert_int_equal(remaining(&r, "alice"), 6);
    close_rig(&r);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static uint64_t reserve(const rig *r, const char *key, int64_t cost)
{
    weir_decision d;
    uint64_t id;
    assert_int_equal(
        weir_store_reserve(r->s, &r->p, current(r), key, strlen(key), now_ns, cost, s_ns, &d, &id),
        WEIR_OK);
    assert_true(d.allowed);
    return id;
}

/* A reservation of a former generation neither returns units to the new one nor charges it. */
static void check_reservations(void **unused)
{
    (void)unused;
    rig r;
    weir_decision d;
    int64_t over;
    open_rig(&r, NULL, texts[0]);
    uint64_t less = reserve(&r, "alice", 3), more = reserve(&r, "alice", 3);
    uint64_t cancelled = reserve(&r, "alice", 3);
    (void)reserve(&r, "alice", 1); /* expires */
    reset_all(&r);
    assert_int_equal(take(&r, "alice", 5), 5);
    assert_int_equal(weir_store_cancel(r.s, cancelled, now_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 3); /* that of the former generation */
    assert_int_equal(weir_store_commit(r.s, less, now_ns, 1, &d, &over), WEIR_OK);
    assert_int_equal(d.remaining, 5);
    assert_int_equal(weir_store_commit(r.s, more, now_ns, 9, &d, &over), WEIR_OK);
    assert_int_equal(d.remaining, 0);
    assert_int_equal(over, 0);
    assert_int_equal(remaining(&r, "alice"), 5);
    assert_int_equal(weir_store_peek(r.s, &r.p, current(&r), "alice", 5, now_ns + s_ns, 0, &d),
                     WEIR_OK);
    assert_int_equal(d.remaining, 5);
    assert_int_equal(weir_store_stats_get(r.s).reserved, 0);
    /* One of the new generation does return its units. */
    uint64_t id = reserve(&r, "alice", 2);
    assert_int_equal(remaining(&r, "alice"), 3);
    assert_int_equal(weir_store_cancel(r.s, id, now_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 5);
    close_rig(&r);
}

/* Resets and reservations leave no more than one text of a policy in the registry, and in a
 * partition they find their states. */
static void check_registry(void **unused)
{
    (void)unused;
    static const weir_store_partition partition = {"own", 600 << 10, 100 << 10};
    const weir_store_options options = {
        .memory_bytes = 4 << 20, .partitions = &partition, .partitions_len = 1};
    rig r;
    weir_decision d;
    open_rig(&r, &options, texts[0]);
    for (int divided = 0; divided < 2; divided++) {
        weir_partition_stats stats;
        size_t before = 0;
        if (divided)
            r.id = weir_store_partition_id(r.s, r.id, "own");
        weir_store_note_policy(r.s, r.id, &r.p);
        for (int i = 0; i < 5; i++) {
            reset_all(&r);
            uint64_t id = reserve(&r, "alice", 2);
            assert_int_equal(weir_store_cancel(r.s, id, now_ns, &d), WEIR_OK);
            assert_int_equal(d.remaining, 10);
            size_t texts_len = weir_policy_registry_len(weir_image_policies(r.s->image));
            assert_true(i == 0 || texts_len == before);
            before = texts_len;
        }
        assert_int_equal(before, 1 + divided);
        assert_int_equal(weir_store_partitions(r.s, &stats, 1), 1);
        assert_int_equal(stats.keys > 0, divided);
    }
    close_rig(&r);
}

/* ---- other processes, files and copies ------------------------------------------------------- */

static char path[64];

static weir_store_options file_options(size_t bytes)
{
    return (weir_store_options){.file = path, .memory_bytes = bytes, .large_bytes = 1 << 20};
}

static void check_file(void **unused)
{
    (void)unused;
    snprintf(path, sizeof path, "/tmp/weir_resets_%d", (int)getpid());
    for (size_t i = 0; i < TEXTS; i++) {
        rig r;
        weir_store_options options = file_options(9 << 20);
        open_rig(&r, &options, texts[i]);
        assert_int_equal(take(&r, "alice", 9), 1);
        reset_all(&r);
        assert_int_equal(take(&r, "alice", 2), 8);
        assert_int_equal(weir_store_reset_policy(r.s, 4712), WEIR_OK); /* another one */
        uint64_t other = weir_store_current_id(r.s, r.id, 4712);
        assert_int_not_equal(other, r.id);
        close_rig(&r);
        for (size_t mib = 9; mib <= 11; mib++) { /* the same file, then copies of other sizes */
            options = file_options(mib << 20);
            open_rig(&r, &options, texts[i]);
            assert_int_equal(remaining(&r, "alice"), 8);
            assert_int_equal(weir_store_current_id(r.s, r.id, 4712), other);
            reset_all(&r);
            assert_int_equal(take(&r, "alice", 2), 8);
            close_rig(&r);
        }
        unlink(path);
    }
}

/* In shared memory, all processes find the reset, also that of a process that was killed. */
static void check_processes(void **unused)
{
    (void)unused;
    const weir_store_options options = {
        .memory = part_of(4 << 20), .memory_bytes = 4 << 20, .large_bytes = 1 << 20};
    rig r;
    open_rig(&r, &options, texts[0]);
    assert_int_equal(take(&r, "alice", 9), 1);
    pid_t child = fork();
    if (child == 0) {
        rig of_child;
        open_rig(&of_child, &options, texts[0]);
        reset_all(&of_child);
        (void)take(&of_child, "alice", 3);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(remaining(&r, "alice"), 7);
    close_rig(&r);
    munmap(options.memory, options.memory_bytes);
}

/* ---- concurrency ----------------------------------------------------------------------------- */

enum { ROUNDS = 300 };

typedef struct contest {
    rig r;
    port_word charged, resets;
    port_word stop;
} contest;

static void *charge_on(void *ctx)
{
    contest *c = ctx;
    while (port_word_load_relaxed(&c->stop) == 0) {
        weir_decision d;
        assert_int_equal(weir_store_check(c->r.s, &c->r.p, current(&c->r), "k", 1, now_ns, 1, &d),
                         WEIR_OK);
        if (d.allowed)
            port_word_add_relaxed(&c->charged, 1);
    }
    return NULL;
}

/* Between two resets, exactly the limit passes: no charge is lost, and none is counted twice. */
static void check_exact(void **unused)
{
    (void)unused;
    contest c = {0};
    pthread_t thread[2];
    open_rig(&c.r, NULL, "fixed-window 10/day");
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, charge_on, &c), 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        while (port_word_load_relaxed(&c.charged) < 10 * i)
            sched_yield();
        reset_all(&c.r);
    }
    while (port_word_load_relaxed(&c.charged) < 10 * (ROUNDS + 1))
        sched_yield();
    port_word_store_relaxed(&c.stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(port_word_load_relaxed(&c.charged), 10 * (ROUNDS + 1));
    close_rig(&c.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_generations), cmocka_unit_test(check_full),
        cmocka_unit_test(check_fewer),       cmocka_unit_test(check_damaged),
        cmocka_unit_test(check_merge),       cmocka_unit_test(check_threads),
        cmocka_unit_test(check_all_keys),    cmocka_unit_test(check_ids),
        cmocka_unit_test(check_full_store),  cmocka_unit_test(check_reservations),
        cmocka_unit_test(check_registry),    cmocka_unit_test(check_file),
        cmocka_unit_test(check_processes),   cmocka_unit_test(check_exact),
    };
    return cmocka_run_group_tests_name("resets", tests, NULL, NULL);
}
