/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The in-memory store: its hash, options and statistics, large states and states that grow,
 * callbacks, and failed allocations. tests/conformance/store_suite.c tests what all have. */

#include <weir/weir_store.h>

#include "store/image/file_header.h"
#include "store/iterate.h"
#include "store/kit_test.h"
#include "store/siphash.h"
#include "store/store.h"
#include "store/table/cuckoo.h"
#include "tests/store/check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static weir_store *store_of(size_t memory_bytes, size_t large_bytes)
{
    static const uint8_t secret[16] = "0123456789abcde";
    weir_store *s = NULL;
    weir_store_options options = {
        .memory_bytes = memory_bytes, .secret = secret, .large_bytes = large_bytes};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    return s;
}

static weir_decision take(weir_store *s, const weir_policy *p, const char *key, int64_t now_ns,
                          int64_t cost)
{
    weir_decision d = {0};
    assert_int_equal(
        weir_store_check(s, p, weir_store_policy_id(s, p), key, strlen(key), now_ns, cost, &d),
        WEIR_OK);
    return d;
}

static void check_siphash(void **unused)
{
    (void)unused;
    /* SipHash-1-3 of the bytes 0, 1, .. n-1 with the key 00 01 .. 0f, computed with an independent
     * program. */
    static const struct {
        size_t len;
        uint64_t hash;
    } known[] = {
        {0, 0xabac0158050fc4dc},  {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140},
        {8, 0x369095118d299a8e},  {9, 0x25a48eb36c063de4},  {15, 0xd320d86d2a519956},
        {16, 0xcc4fdd1a7d908b66}, {31, 0x2370dd1f8c21d1bc}, {63, 0x9d199062b7bbb3a8},
    };
    const weir_secret secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(weir_siphash(secret, bytes, known[i].len) == known[i].hash);
}

static weir_status open_with(size_t memory_bytes, size_t large_bytes)
{
    weir_store *s = NULL;
    weir_store_options options = {.memory_bytes = memory_bytes, .large_bytes = large_bytes};
    weir_status st = weir_store_open(&s, &options);
    assert_true((st == WEIR_OK) == (s != NULL));
    weir_store_close(s);
    return st;
}

static void check_options(void **unused)
{
    (void)unused;
    enum { MIB = 1 << 20, KIB = 1 << 10 };
    assert_int_equal(open_with(0, 0), WEIR_OK);
    assert_int_equal(open_with(MIB, 0), WEIR_OK);
    assert_int_equal(open_with(MIB - 1, 0), WEIR_E_RANGE);
    assert_int_equal(open_with(MIB, 64 * KIB), WEIR_OK);
    assert_int_equal(open_with(MIB, 64 * KIB - 1), WEIR_E_RANGE);
    assert_int_equal(open_with(MIB, MIB - 64 * KIB), WEIR_OK);
    assert_int_equal(open_with(MIB, MIB - 64 * KIB + 1), WEIR_E_RANGE);
    assert_int_equal(open_with(SIZE_MAX, 0), WEIR_E_RANGE);
    assert_int_equal(open_with((size_t)1 << 47, 0), WEIR_E_NOMEM);
    weir_store_close(NULL);
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, NULL), WEIR_OK);
    assert_int_equal(weir_store_stats_get(s).memory_max, 256 * MIB);
    assert_int_equal(weir_store_stats_get(s).large_max, 64 * MIB);
    assert_int_equal(weir_reserve_stats_get(s->reserved).max, WEIR_RESERVE_UNCHAINED_MAX);
    weir_store_close(s);
}

/* A key is in the store until it is idle, and its bytes are counted. */
static void check_statistics(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0, 0);
    weir_policy p = policy_of("gcra 1/s burst 5"), wide = policy_of("gcra 3/s burst 5");
    uint64_t empty = weir_store_stats_get(s).memory_bytes;
    assert_true(take(s, &p, "peek", s_ns, 0).allowed);
    assert_false(take(s, &p, "too much", s_ns, 6).allowed);
    assert_int_equal(weir_store_stats_get(s).keys, 0);
    assert_true(take(s, &p, "a", s_ns, 1).allowed);
    assert_int_equal(weir_store_stats_get(s).memory_bytes, empty + 14);
    assert_true(take(s, &wide, "a", s_ns, 1).allowed);
    assert_int_equal(weir_store_stats_get(s).memory_bytes, empty + 14 + 18);
    weir_decision d;
    assert_int_equal(weir_store_peek(s, &p, weir_store_policy_id(s, &p), "a", 1, s_ns, 4, &d),
                     WEIR_OK);
    assert_true(d.allowed);
    assert_int_equal(d.remaining, 4);
    assert_int_equal(weir_store_peek(s, &p, weir_store_policy_id(s, &p), "a", 1, s_ns, 5, &d),
                     WEIR_OK);
    assert_false(d.allowed);
    assert_int_equal(take(s, &p, "a", s_ns, 0).remaining, 4);
    assert_int_equal(weir_store_stats_get(s).keys, 2);
    weir_store_close(s);
}

/* ---- callbacks on a state -------------------------------------------------------------------- */

static weir_status add_to_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    int64_t *add_ns = ctx;
    int64_t from_ns = (int64_t)*state > now_ns ? (int64_t)*state : now_ns;
    *state = (uint64_t)(from_ns + *add_ns);
    return *add_ns > 10 * s_ns ? WEIR_E_FULL : WEIR_OK;
}

static void check_apply(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0, 0);
    weir_policy p = policy_of("gcra 1/s burst 5"), log = policy_of("sliding-log 8/s");
    uint64_t id = weir_store_policy_id(s, &p);
    int64_t add_ns = 2 * s_ns;
    assert_int_equal(weir_store_apply(s, &p, id, "a", 1, s_ns, add_to_state, &add_ns), WEIR_OK);
    assert_int_equal(weir_store_apply(s, &p, id, "a", 1, s_ns, add_to_state, &add_ns), WEIR_OK);
    assert_int_equal(take(s, &p, "a", s_ns, 0).remaining, 1);
    add_ns = 11 * s_ns; /* changed, but the status is an error: not stored */
    assert_int_equal(weir_store_apply(s, &p, id, "a", 1, s_ns, add_to_state, &add_ns), WEIR_E_FULL);
    assert_int_equal(take(s, &p, "a", s_ns, 0).remaining, 1);
    assert_int_equal(weir_store_apply(s, &log, id, "a", 1, s_ns, add_to_state, &add_ns),
                     WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_store_apply(s, &p, id, "", 0, s_ns, add_to_state, &add_ns), WEIR_E_RANGE);
    weir_store_close(s);
}

/* ---- large states ---------------------------------------------------------------------------- */

/* A log that outgrows the memory is refused without a charge. Other keys are not affected. */
static void check_log_too_large(void **unused)
{
    (void)unused;
    weir_store *s = store_of(2 << 20, 1 << 20);
    weir_policy log = policy_of("sliding-log 1000000/h");
    uint64_t id = weir_store_policy_id(s, &log);
    weir_decision d;
    weir_status st = WEIR_OK;
    int64_t t_ns = s_ns, charged = 0;
    while ((st = weir_store_check(s, &log, id, "a", 1, t_ns++, 1, &d)) == WEIR_OK && d.allowed)
        charged++;
    assert_int_equal(st, WEIR_E_NOMEM);
    assert_true(charged >= 32768);
    uint64_t memory = weir_store_stats_get(s).memory_bytes;
    assert_int_equal(take(s, &log, "a", t_ns, 0).remaining, 1000000 - charged);
    assert_true(take(s, &log, "b", t_ns, 1).allowed);
    assert_int_equal(weir_store_reset(s, id, "b", 1), WEIR_OK);
    assert_int_equal(weir_store_stats_get(s).memory_bytes, memory);
    assert_int_equal(weir_store_reset(s, id, "a", 1), WEIR_OK);
    assert_true(weir_store_stats_get(s).memory_bytes < 64 * 1024); /* growing leaked no memory */
    weir_store_close(s);
}

/* Large states are admitted in any stripe: others are evicted. */
static void check_large_states(void **unused)
{
    (void)unused;
    weir_store *s = store_of(2 << 20, 1 << 20);
    weir_policy p = policy_of("sliding-slices 9/h slices 60000"); /* 240 KB: four fit */
    char key[16];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_true(take(s, &p, key, s_ns, 1).allowed);
    }
    weir_store_stats stats = weir_store_stats_get(s);
    assert_int_equal(stats.keys, 4);
    assert_int_equal(stats.large_keys, 4);
    assert_int_equal(stats.large_bytes, stats.memory_bytes);
    assert_int_equal(stats.evicted, 196);
    weir_store_close(s);
}

/* ---- the disk -------------------------------------------------------------------------------- */

/* A state file in /tmp that does not exist yet. */
typedef struct test_file {
    char path[32], beside[40], lock[40];
} test_file;

static test_file new_file(void)
{
    test_file f = {.path = "/tmp/weir-store-XXXXXX"};
    close(mkstemp(f.path));
    unlink(f.path);
    snprintf(f.beside, sizeof f.beside, "%s.new", f.path);
    snprintf(f.lock, sizeof f.lock, "%s.lock", f.path);
    return f;
}

static unsigned syncs; /* calls of msync(), which the linker replaces (--wrap) */

int __wrap_msync(void *p, size_t len, int flags);
int __wrap_msync(void *p, size_t len, int flags)
{
    (void)p;
    (void)len;
    (void)flags;
    syncs++;
    return 0;
}

static weir_status keep_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
    state[0] += 1;
    return WEIR_OK;
}

/* Makes each call that may change a state, and checks how often each of them syncs the file. */
static void count_syncs(weir_store *s, unsigned each)
{
    weir_policy p = policy_of("gcra 1/h burst 50"), log = policy_of("sliding-log 50/h");
    uint64_t id = weir_store_policy_id(s, &p), log_id = weir_store_policy_id(s, &log), reserved = 0;
    weir_store_request r[2] = {{&p, id, "b", 1, 1, WEIR_OK, {0}, 0},
                               {&log, log_id, "b", 1, 1, WEIR_OK, {0}, 0}};
    weir_decision d;
    size_t blocking;
    int64_t over;
    weir_key key;
    assert_int_equal(weir_store_key(s, id, "a", 1, &key), WEIR_OK);
#define SYNCS(call) (syncs = 0, assert_int_equal(call, WEIR_OK), assert_int_equal(syncs, each))
    SYNCS(weir_store_check(s, &p, id, "a", 1, s_ns, 1, &d));
    SYNCS(weir_store_check(s, &log, log_id, "a", 1, s_ns, 1, &d));
    SYNCS(weir_store_check_key(s, &p, key, s_ns, 1, &d));
    SYNCS(weir_store_refund(s, &p, id, "a", 1, s_ns, 1, &d));
    SYNCS(weir_store_charge(s, &p, id, "a", 1, s_ns, 1, &d, &over));
    SYNCS(weir_store_apply(s, &p, id, "a", 1, s_ns, keep_state, NULL));
    SYNCS(weir_store_take_many(s, r, 2, s_ns, &blocking));
    SYNCS((weir_store_check_batch(s, r, 2, s_ns), r[1].status));
    SYNCS(weir_store_reserve(s, &p, id, "a", 1, s_ns, 9, s_ns, &d, &reserved));
    SYNCS(weir_store_renew(s, reserved, s_ns, s_ns, &d));
    SYNCS(weir_store_cancel(s, reserved, s_ns, &d));
    SYNCS(weir_store_reset(s, id, "a", 1));
    SYNCS(weir_store_reset_policy(s, id));
#undef SYNCS
}

/* With WEIR_SYNC_ALWAYS, every call syncs the file before it returns; otherwise none does. */
static void check_sync(void **unused)
{
    (void)unused;
    test_file f = new_file();
    for (int i = 0; i < 3; i++) {
        weir_store *s = NULL;
        const weir_store_options options = {.memory_bytes = 8 << 20,
                                            .file = i < 2 ? f.path : NULL,
                                            .sync = i == 0 ? WEIR_SYNC_NEVER : WEIR_SYNC_ALWAYS};
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        count_syncs(s, i == 1);
        weir_store_close(s);
    }
    unlink(f.path);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* A cancelled reservation returns all of its units, once. */
static void check_cancel(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"fixed-window 1000/h", "sliding-log 1000/h"};
    for (size_t i = 0; i < 2; i++) {
        weir_store *s = store_of(0, 0);
        weir_policy p = policy_of(texts[i]);
        uint64_t id = 0, policy_id = weir_store_policy_id(s, &p);
        weir_decision d = {0};
        take(s, &p, "a", s_ns, 100);
        assert_int_equal(
            weir_store_reserve(s, &p, policy_id, "a", 1, s_ns, 700, 60 * s_ns, &d, &id), WEIR_OK);
        assert_int_equal(d.remaining, 200);
        assert_int_equal(weir_store_stats_get(s).reserved, 1);
        assert_int_equal(weir_store_cancel(s, id, -1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_store_cancel(s, id ^ 1, 2 * s_ns, &d), WEIR_E_ABSENT);
        assert_int_equal(d.remaining, 200);
        assert_int_equal(weir_store_cancel(s, id, 2 * s_ns, &d), WEIR_OK);
        assert_true(d.allowed);
        assert_int_equal(d.remaining, 900);
        assert_int_equal(weir_store_stats_get(s).reserved, 0);
        assert_int_equal(weir_store_cancel(s, id, 2 * s_ns, &d), WEIR_E_ABSENT);
        assert_int_equal(take(s, &p, "a", 100 * s_ns, 0).remaining, 900); /* nothing expires */
        weir_store_close(s);
    }
}

/* After a reset of its key, a reservation that is cancelled returns nothing. */
static void check_reset_ends_reservations(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0, 0);
    weir_policy p = policy_of("fixed-window 1000/h");
    uint64_t id = 0, policy_id = weir_store_policy_id(s, &p);
    weir_decision d;
    for (int64_t ttl_ns = 0; ttl_ns <= WEIR_SPAN_NS_MAX; ttl_ns += WEIR_SPAN_NS_MAX)
        assert_int_equal(weir_store_reserve(s, &p, policy_id, "a", 1, s_ns, 700,
                                            ttl_ns ? ttl_ns + 1 : 0, &d, &id),
                         WEIR_E_RANGE);
    assert_int_equal(weir_store_reserve(s, &p, policy_id, "a", 1, s_ns, 700, s_ns, &d, &id),
                     WEIR_OK);
    assert_int_equal(weir_store_reset(s, policy_id, "a", 1), WEIR_OK);
    take(s, &p, "a", s_ns, 500);
    assert_int_equal(weir_store_cancel(s, id, s_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 500);
    weir_store_close(s);
}

/* A file that is opened with another size keeps its states, its reservations and its time. */
static void check_resized(void **unused)
{
    (void)unused;
    test_file f = new_file();
    weir_policy p = policy_of("gcra 1/h burst 1000"), log = policy_of("sliding-log 1000/d");
    weir_store *s = NULL;
    weir_decision d;
    uint64_t id = 0;
    weir_store_options options = {.memory_bytes = 8 << 20, .file = f.path};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    int64_t later_ns = weir_store_now(s) + 3600 * s_ns;
    take(s, &log, "a", later_ns, 9);
    assert_int_equal(weir_store_reserve(s, &p, weir_store_policy_id(s, &p), "a", 1, later_ns, 700,
                                        60 * s_ns, &d, &id),
                     WEIR_OK);
    for (int mib = 9; mib >= 8; mib--) {
        weir_store_close(s);
        options.memory_bytes = (size_t)mib << 20;
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        assert_int_equal(weir_store_stats_get(s).memory_max, options.memory_bytes);
        assert_true(weir_store_seen_ns(s) + 1000000 >= later_ns);
        assert_true(weir_store_now(s) + 1000000 >= later_ns);
        assert_int_equal(take(s, &log, "a", later_ns, 0).remaining, 991);
        assert_int_equal(take(s, &p, "a", later_ns, 0).remaining, 300);
        assert_int_equal(weir_store_stats_get(s).reserved, 1);
        WEIR_CHECK(weir_store_check_all(s, false));
    }
    assert_int_equal(weir_store_cancel(s, id, later_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 1000);
    weir_store_close(s);
    unlink(f.path);
}

/* ---- failed allocations ---------------------------------------------------------------------- */

/* The linker replaces these functions (--wrap). The fail_at'th call from now on fails; 0: none. */
static unsigned fail_at;

static bool fails(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap64(at, len, prot, flags, fd, offset);
}

/* If an allocation fails, opening fails and leaks nothing. Only the thread that moves the memory to
 * huge pages is not necessary. */
static void check_open_without_memory(void **unused)
{
    (void)unused;
    unsigned nth = 0, failed = 0;
    for (bool all = false; !all;) {
        weir_store *s = NULL;
        fail_at = ++nth;
        weir_status st = weir_store_open(&s, NULL);
        all = fail_at > 0; /* there are fewer allocations */
        fail_at = 0;
        assert_int_equal(st, s ? WEIR_OK : WEIR_E_NOMEM);
        assert_true(s || !all);
        failed += !s;
        weir_store_close(s);
    }
    assert_in_range(failed, 5, nth - 1); /* the store, three mappings, a handle */
}

/* The same for a file: a new one, an existing one, one that is resized and one that is reset. A
 * failed opening leaves no lock, no other file, and the states as they were. */
static void check_file_without_memory(void **unused)
{
    (void)unused;
    test_file f = new_file();
    weir_policy p = policy_of("gcra 1/h burst 50"), log = policy_of("sliding-log 50/h");
    for (int i = 0; i < 4; i++) {
        weir_store_error error;
        const weir_store_options options = {.memory_bytes = (size_t)(i < 2 ? 8 : 9) << 20,
                                            .file = f.path,
                                            .sync = WEIR_SYNC_SECOND,
                                            .reset = i == 3,
                                            .ret_error = &error};
        weir_store *s = NULL;
        weir_status st = WEIR_E_NOMEM;
        unsigned nth = 0;
        while (st == WEIR_E_NOMEM) {
            fail_at = ++nth;
            memset(&error, 0, sizeof error);
            st = weir_store_open(&s, &options);
            assert_true((st == WEIR_OK) == (s != NULL));
            assert_true((st == WEIR_OK) == (error.text[0] == '\0'));
            assert_int_equal(access(f.beside, F_OK), -1);
            assert_true(i == 0 || access(f.path, F_OK) == 0);
            assert_int_equal(access(f.lock, F_OK), st == WEIR_OK ? 0 : -1);
        }
        assert_true(fail_at > 0);
        fail_at = 0;
        assert_int_equal(st, WEIR_OK);
        assert_true(nth > 8);
        int64_t charged = i < 3 ? i : 0;
        assert_int_equal(take(s, &p, "a", s_ns, 1).remaining, 49 - charged);
        assert_int_equal(take(s, &log, "a", s_ns, 1).remaining, 49 - charged);
        assert_int_equal(weir_store_stats_get(s).memory_max,
                         options.memory_bytes); /* the file was resized */
        weir_store_close(s);
    }
    unlink(f.path);
}

/* A large state is refused if an allocation fails, and the key is unchanged. */
static void check_state_without_memory(void **unused)
{
    (void)unused;
    weir_store *s = store_of(0, 0);
    weir_policy p = policy_of("sliding-slices 100/h slices 1000");
    weir_decision d = {.limit = -7};
    fail_at = 1;
    assert_int_equal(weir_store_check(s, &p, weir_store_policy_id(s, &p), "a", 1, s_ns, 1, &d),
                     WEIR_E_NOMEM);
    assert_int_equal(fail_at, 0);
    assert_int_equal(d.limit, -7);
    assert_int_equal(take(s, &p, "a", s_ns + 4, 0).remaining, 100);
    assert_int_equal(take(s, &p, "a", s_ns + 4, 1).remaining, 99);
    fail_at = 1; /* of the copy for the callback */
    uint64_t id = weir_store_policy_id(s, &p);
    assert_int_equal(weir_store_apply(s, &p, id, "a", 1, s_ns + 4, keep_state, NULL), WEIR_E_NOMEM);
    assert_int_equal(take(s, &p, "a", s_ns + 4, 0).remaining, 99);
    weir_store_close(s);
}

/* A log that cannot grow is refused. No other key is evicted for it. */
static void check_growth_spares_others(void **unused)
{
    (void)unused;
    weir_store *s = store_of(1 << 20, 0);
    weir_policy victim = policy_of("sliding-log 100/h"), busy = policy_of("sliding-log 1000000/h"),
                huge = policy_of("sliding-slices 1/h slices 65536");
    uint64_t busy_id = weir_store_policy_id(s, &busy);
    weir_decision d;
    weir_status st = WEIR_OK;
    int taken = 0;
    for (; taken < 1000000 && st == WEIR_OK; taken++)
        st = weir_store_check(s, &busy, busy_id, "t", 1, s_ns + taken, 1, &d);
    assert_int_equal(st, WEIR_E_NOMEM);
    uint64_t evicted = weir_store_stats_get(s).evicted;
    for (char key = 'a'; key < 'a' + 20; key++)
        take(s, &victim, (char[]){key, 0}, s_ns + taken, 100);
    for (int i = 0; i < 3; i++)
        assert_int_equal(weir_store_check(s, &busy, busy_id, "t", 1, s_ns + taken + i, 1, &d),
                         WEIR_E_NOMEM);
    assert_int_equal(
        weir_store_check(s, &huge, weir_store_policy_id(s, &huge), "x", 1, s_ns + taken, 1, &d),
        WEIR_E_NOMEM);
    for (char key = 'a'; key < 'a' + 20; key++)
        assert_false(take(s, &victim, (char[]){key, 0}, s_ns + taken, 1).allowed);
    assert_int_equal(weir_store_stats_get(s).evicted, evicted);
    weir_store_close(s);
}

static weir_status spoil(void *ctx, uint64_t *state, int64_t now_ns)
{
    (void)now_ns;
    state[0] = state[1] = 12345;
    return *(weir_status *)ctx;
}

/* The changes of a callback are stored only if it returns WEIR_OK, for states of any size. */
static void check_apply_fails(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"sliding-counter 10/h", "sliding-slices 10/h slices 60"};
    static const weir_status fails[] = {WEIR_E_RANGE, WEIR_E_ROOM};
    for (size_t i = 0; i < 4; i++) {
        weir_store *s = store_of(0, 0);
        weir_policy p = policy_of(texts[i % 2]);
        weir_status st = fails[i / 2];
        take(s, &p, "k", s_ns, 3);
        assert_int_equal(
            weir_store_apply(s, &p, weir_store_policy_id(s, &p), "k", 1, s_ns, spoil, &st),
            WEIR_E_RANGE);
        assert_int_equal(take(s, &p, "k", s_ns, 0).remaining, 7);
        weir_store_close(s);
    }
}

/* A file with a valid header and damaged large states is refused with a message. */
static void check_damaged_part(void **unused)
{
    (void)unused;
    char path[] = "/tmp/weir-store-XXXXXX";
    enum { LARGE_AT = 32 + 2 * 16 }; /* in the header: the offset of the third part */
    const uint64_t bad = 12345;
    uint64_t at = 0;
    weir_store_error error = {""};
    weir_store *s = NULL;
    close(mkstemp(path));
    const weir_store_options options = {
        .memory_bytes = 8 << 20, .file = path, .reset = true, .ret_error = &error};
    weir_store_options again = options;
    again.reset = false;
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    weir_store_close(s);
    s = NULL;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &at, sizeof at, LARGE_AT), sizeof at);
    assert_int_equal(pwrite(fd, &bad, sizeof bad, (off_t)at), sizeof bad);
    close(fd);
    assert_int_equal(weir_store_open(&s, &again), WEIR_E_SYNTAX);
    assert_null(s);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "large states are damaged; --reset-state"));
    unlink(path);
}

/* Under WEIR_REFUSE, a request whose state does not fit is refused, alone or in a transaction.
 * Nothing is charged, and the refusals are counted. */
static void check_refused(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"gcra 1/d burst 9", "sliding-log 9/d"};
    enum { KNOWN = -1 };
    for (size_t t = 0; t < 2; t++) {
        weir_store *s = NULL;
        const weir_store_options options = {.memory_bytes = 1 << 20, .when_full = WEIR_REFUSE};
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        weir_policy p = policy_of(texts[t]);
        uint64_t id = weir_store_policy_id(s, &p), refused;
        weir_decision d;
        int known = KNOWN, key = 0;
        assert_int_equal(weir_store_check(s, &p, id, &known, sizeof known, s_ns, 1, &d), WEIR_OK);
        while (weir_store_check(s, &p, id, &key, sizeof key, s_ns, 1, &d) == WEIR_OK)
            key++;
        d = (weir_decision){.limit = -1};
        assert_int_equal(weir_store_check(s, &p, id, &key, sizeof key, s_ns, 1, &d), WEIR_E_FULL);
        assert_int_equal(d.limit, -1);
        refused = weir_store_stats_get(s).refused;
        assert_int_equal(refused, 2);
        weir_store_request r[] = {{&p, id, &known, sizeof known, 1, WEIR_OK, {0}, 0},
                                  {&p, id, &key, sizeof key, 1, WEIR_OK, {0}, 0}};
        size_t blocking;
        assert_int_equal(weir_store_take_many(s, r, 0, s_ns, &blocking), WEIR_E_RANGE);
        assert_int_equal(weir_store_take_many(s, r, WEIR_TAKE_MANY_MAX + 1, s_ns, &blocking),
                         WEIR_E_RANGE);
        assert_int_equal(weir_store_take_many(s, r, 2, s_ns, &blocking), WEIR_E_FULL);
        assert_int_equal(r[0].status, WEIR_OK);
        assert_int_equal(r[1].status, WEIR_E_FULL);
        assert_int_equal(weir_store_stats_get(s).refused, refused + 1);
        assert_int_equal(weir_store_peek(s, &p, id, &known, sizeof known, s_ns, 1, &d), WEIR_OK);
        assert_int_equal(d.remaining, 8);
        weir_store_close(s);
    }
}

/* A commit at more than the reserved cost, for a key that is idle by then and does not fit. */
static void check_commit_refused(void **unused)
{
    (void)unused;
    enum { KEYS = 200000 };
    const weir_store_options options = {
        .memory_bytes = 1 << 20, .secret = (const uint8_t[16]){3}, .when_full = WEIR_REFUSE};
    weir_store *s;
    weir_policy p = policy_of("gcra 1/h burst 5"), quick = policy_of("gcra 1000/s burst 5");
    weir_decision d;
    uint64_t id;
    int64_t over;
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    uint64_t p_id = weir_store_policy_id(s, &p);
    assert_int_equal(weir_store_reserve(s, &quick, weir_store_policy_id(s, &quick), "k", 1, s_ns, 1,
                                        60 * s_ns, &d, &id),
                     WEIR_OK);
    for (int key = 0; key < KEYS; key++)
        (void)!weir_store_check(s, &p, p_id, &key, sizeof key, 2 * s_ns, 1, &d);
    assert_int_equal(weir_store_commit(s, id, 2 * s_ns, 3, &d, &over), WEIR_OK);
    assert_int_equal(over, 2);
    assert_int_equal(d.remaining, 5);
    weir_store_close(s);
}

/* ---- attacks and a full table ---------------------------------------------------------------- */

/* A store with the smallest possible table. */
static weir_store *tiny_store(uint8_t secret)
{
    weir_store *s = NULL;
    const weir_store_options options = {.memory_bytes = 1 << 20,
                                        .secret = (const uint8_t[16]){secret},
                                        .large_bytes = (1 << 20) - (64 << 10)};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    return s;
}

/* Adds keys which, under the first secret, have both buckets among the first few. Returns how many
 * live keys are evicted. */
static uint64_t flood(weir_store *known, weir_store *s, size_t keys)
{
    enum { FEW = 16 };
    weir_policy p = policy_of("gcra 1/h burst 5");
    uint64_t id = weir_store_policy_id(known, &p);
    const weir_bucket *end = known->common.table->array.buckets + FEW;
    for (uint64_t key = 0; keys > 0; key++) {
        uint64_t hash = weir_store_hash(known, id, &key, sizeof key);
        weir_bucket_pair at = weir_bucket_pair_of(known->common.table, hash);
        if (at.first >= end || at.alternate >= end)
            continue;
        weir_decision d;
        keys--;
        assert_int_equal(
            weir_store_check(s, &p, weir_store_policy_id(s, &p), &key, sizeof key, s_ns, 1, &d),
            WEIR_OK);
    }
    return weir_store_stats_get(s).evicted;
}

/* The purpose of the secret: an attacker who knows it can choose keys that share buckets, and so
 * evict keys. Under another secret the same keys do not collide. */
static void check_flooding(void **unused)
{
    (void)unused;
    enum { KEYS = 300, ROOM = 16 * WEIR_LINE_ENTRIES };
    weir_store *known = tiny_store(1), *other = tiny_store(2);
    assert_true(known->common.table->array.buckets_len * WEIR_LINE_ENTRIES > 3 * KEYS);
    assert_int_equal(flood(known, known, KEYS), KEYS - ROOM);
    assert_int_equal(flood(known, other, KEYS), 0);
    weir_store_close(known);
    weir_store_close(other);
}

static void charge_keys(weir_store *s, const weir_policy *p, uint64_t first, uint64_t n,
                        int64_t now_ns)
{
    uint64_t id = weir_store_policy_id(s, p);
    for (uint64_t key = first; key < first + n; key++) {
        weir_decision d;
        assert_int_equal(weir_store_check(s, p, id, &key, sizeof key, now_ns, 1, &d), WEIR_OK);
        assert_true(d.allowed);
    }
}

/* With a tenth more keys than fit, and with twice as many, every new key is stored, exactly the
 * surplus is evicted, and each eviction is counted. */
static void check_overfull(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/h burst 5");
    for (unsigned tenths = 11; tenths <= 20; tenths += 9) {
        weir_store *s = tiny_store(3);
        uint64_t room = s->common.table->array.buckets_len * WEIR_LINE_ENTRIES,
                 keys = room * tenths / 10;
        charge_keys(s, &p, 0, keys, s_ns);
        weir_store_stats stats = weir_store_stats_get(s);
        assert_int_equal(stats.keys + stats.evicted, keys);
        assert_in_range(stats.keys, room * 95 / 100, room);
        weir_store_close(s);
    }
}

/* No key with less than its full quota is evicted while there is an idle one: a full store of idle
 * keys accepts as many new ones. */
static void check_idle_go_first(void **unused)
{
    (void)unused;
    weir_policy quick = policy_of("gcra 1/s burst 5"), slow = policy_of("gcra 1/h burst 5");
    weir_store *s = tiny_store(4);
    uint64_t room = s->common.table->array.buckets_len * WEIR_LINE_ENTRIES, most = room * 8 / 10;
    for (int64_t round = 0; round < 10; round++) {
        charge_keys(s, &quick, (uint64_t)round * most, most, (2 * round + 1) * s_ns);
        assert_int_equal(weir_store_stats_get(s).evicted, 0);
    }
    charge_keys(s, &slow, 0, most, 100 * s_ns);
    assert_int_equal(weir_store_stats_get(s).evicted, 0);
    for (uint64_t key = 0; key < most; key++) {
        weir_decision d;
        assert_int_equal(weir_store_peek(s, &slow, weir_store_policy_id(s, &slow), &key, sizeof key,
                                         100 * s_ns, 1, &d),
                         WEIR_OK);
        assert_int_equal(d.remaining, 4);
    }
    weir_store_close(s);
}

/* Buckets of one rate share a state. Each decides as if it had charged all of it. */
static void check_shared_states(void **unused)
{
    (void)unused;
    static const struct {
        const char *wide, *narrow; /* of 9 and of 3 units */
    } rows[] = {{"gcra 10/s burst 9", "leaky-queue 10/s depth 2 nodelay 1"},
                {"token-bucket 9 refill 120/m", "leaky-bucket 2/s capacity 3"},
                {"gcra 7/s burst 9", "gcra 7/s burst 3"},
                {"leaky-queue 101/h depth 8", "gcra 101/h burst 3"},
                {"token-bucket 9 refill 2 every 1s", "token-bucket 3 refill 2 every 1s"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_store *s = store_of(1 << 20, 0);
        weir_policy wide = policy_of(rows[i].wide), narrow = policy_of(rows[i].narrow);
        uint64_t id = weir_store_policy_id(s, &wide);
        weir_decision d;
        assert_true(weir_store_can_share(&wide, &narrow));
        for (int64_t n = 0; n < 10; n++) {
            assert_int_equal(
                weir_store_check(s, n % 2 ? &narrow : &wide, id, "k", 1, 1800000000 * s_ns, 1, &d),
                WEIR_OK);
            assert_int_equal(d.limit, n % 2 ? 3 : 9);
            assert_int_equal(d.allowed, n % 2 == 0 || n < 3);
        }
        weir_store_close(s);
    }
    static const char *const others[][2] = {
        {"gcra 10/s burst 9", "gcra 11/s burst 9"},
        {"gcra 10/s", "fixed-window 10/s"},
        {"gcra 10/s burst 9 & fixed-window 9/d", "gcra 10/s"},
        {"gcra 2/s", "token-bucket 1 refill 2 every 1s"},
        {"token-bucket 9 refill 2 every 1s", "token-bucket 9 refill 4 every 2s"},
        {"gcra 11/w burst 9", "gcra 11/w burst 8000"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        weir_policy a = policy_of(others[i][0]), b = policy_of(others[i][1]);
        assert_false(weir_store_can_share(&a, &b));
        assert_false(weir_store_can_share(&b, &a));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_shared_states),
        cmocka_unit_test(check_refused),
        cmocka_unit_test(check_damaged_part),
        cmocka_unit_test(check_growth_spares_others),
        cmocka_unit_test(check_apply_fails),
        cmocka_unit_test(check_commit_refused),
        cmocka_unit_test(check_flooding),
        cmocka_unit_test(check_overfull),
        cmocka_unit_test(check_idle_go_first),
        cmocka_unit_test(check_siphash),
        cmocka_unit_test(check_options),
        cmocka_unit_test(check_statistics),
        cmocka_unit_test(check_apply),
        cmocka_unit_test(check_log_too_large),
        cmocka_unit_test(check_large_states),
        cmocka_unit_test(check_sync),
        cmocka_unit_test(check_cancel),
        cmocka_unit_test(check_reset_ends_reservations),
        cmocka_unit_test(check_resized),
        cmocka_unit_test(check_open_without_memory),
        cmocka_unit_test(check_file_without_memory),
        cmocka_unit_test(check_state_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
