/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Resident memory of a store in memory, and when it is moved to huge pages. The thread's waits and
 * the calls that move memory are fakes, so that a test runs the thread step by step. */

#include "store/store.h"

#include "port/file.h"
#include "port/port.h"
#include "store/kit_test.h"

#include <stdio.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define HUGE_PAGE (2 * MIB)

enum { SMALL_PAGE = 4096, MOVES_MAX = 64 };

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    port_mutex *lock;
    port_cond *changed;
    unsigned waits, allowed; /* waits begun by the thread, and those that the test has ended */
    bool real;               /* do not stop the thread */
    int64_t wait_ns;         /* of the last wait */
    unsigned moves;
    weir_part moved[MOVES_MAX];
    bool fail_thread;
    size_t hinted_bytes; /* of all hints to use huge pages */
} fake;

void __real_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void __wrap_port_use_huge_pages(void *at, size_t bytes);
void __wrap_port_prefer_huge_pages(void *at, size_t bytes);
port_thread *__real_port_thread_start(void (*fn)(void *arg), void *arg);
port_thread *__wrap_port_thread_start(void (*fn)(void *arg), void *arg);

void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    port_mutex_lock(fake.lock);
    fake.wait_ns = ns;
    fake.waits++;
    port_cond_wake(fake.changed);
    while (!fake.real && fake.allowed < fake.waits)
        port_cond_wait(fake.changed, fake.lock);
    bool real = fake.real;
    port_mutex_unlock(fake.lock);
    if (real) /* the store is being closed: sleep until the stop wakes the thread */
        __real_port_cond_wait_for(c, m, ns);
}

void __wrap_port_use_huge_pages(void *at, size_t bytes)
{
    port_mutex_lock(fake.lock);
    assert_true(fake.moves < MOVES_MAX);
    fake.moved[fake.moves++] = (weir_part){at, bytes};
    port_mutex_unlock(fake.lock);
}

void __wrap_port_prefer_huge_pages(void *at, size_t bytes)
{
    assert_non_null(at);
    fake.hinted_bytes += bytes;
}

port_thread *__wrap_port_thread_start(void (*fn)(void *arg), void *arg)
{
    return fake.fail_thread ? NULL : __real_port_thread_start(fn, arg);
}

/* ---- a store --------------------------------------------------------------------------------- */

typedef struct fixture {
    weir_store *s;
    weir_store_options options;
} fixture;

static void begin_with(fixture *f, size_t memory_bytes, bool prefault)
{
    static const uint8_t secret[16] = "the same secret";
    memset(&fake, 0, sizeof fake);
    fake.lock = port_mutex_new();
    fake.changed = port_cond_new();
    assert_true(fake.lock && fake.changed);
    *f = (fixture){
        .options = {.memory_bytes = memory_bytes, .secret = secret, .prefault = prefault}};
    assert_int_equal(weir_store_open(&f->s, &f->options), WEIR_OK);
}

static void begin(fixture *f, size_t memory_bytes)
{
    begin_with(f, memory_bytes, false);
}

static void end(fixture *f)
{
    port_mutex_lock(fake.lock);
    fake.real = true;
    port_cond_wake(fake.changed);
    port_mutex_unlock(fake.lock);
    weir_store_close(f->s);
    port_cond_free(fake.changed);
    port_mutex_free(fake.lock);
}

/* Waits until the thread waits. */
static void settle(void)
{
    port_mutex_lock(fake.lock);
    while (fake.waits == fake.allowed)
        port_cond_wait(fake.changed, fake.lock);
    port_mutex_unlock(fake.lock);
}

/* Lets the thread run until its next wait. */
static void step(void)
{
    settle();
    port_mutex_lock(fake.lock);
    fake.allowed = fake.waits;
    port_cond_wake(fake.changed);
    port_mutex_unlock(fake.lock);
    settle();
}

/* One request for each of the keys from..to-1. */
static void take(const fixture *f, const char *policy, int from, int to)
{
    weir_policy p = policy_of(policy);
    uint64_t id = weir_store_policy_id(f->s, &p);
    for (int i = from; i < to; i++) {
        char key[16];
        weir_decision d;
        int len = snprintf(key, sizeof key, "key %d", i);
        assert_int_equal(weir_store_check(f->s, &p, id, key, (size_t)len, s_ns, 1, &d), WEIR_OK);
        assert_true(d.allowed);
    }
}

static size_t resident_pages(weir_part part)
{
    static unsigned char pages[65536];
    size_t n = part.bytes / SMALL_PAGE, resident = 0;
    assert_true(n <= sizeof pages);
    assert_int_equal(mincore(part.at, n * SMALL_PAGE, pages), 0);
    for (size_t i = 0; i < n; i++)
        resident += pages[i] & 1;
    return resident;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Each key makes at most one small page resident. Opening touches the heads of the parts. */
static void resident_memory_grows_with_the_keys(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 256 * MIB);
    weir_image_parts parts = weir_image_parts_get(f.s->image);
    assert_true(resident_pages(parts.table) + resident_pages(parts.large) <= 64);
    take(&f, "gcra 1/m burst 5", 0, 3000);
    step();
    size_t table = resident_pages(parts.table);
    assert_in_range(table, 2800, 3000 + 10);
    assert_true(resident_pages(parts.large) + resident_pages(parts.reserved) <= 64);
    take(&f, "gcra 1/m burst 5", 0, 3000); /* the same keys */
    assert_int_equal(resident_pages(parts.table), table);
    assert_int_equal(fake.moves, 0);
    end(&f);
}

/* Whether the memory was moved from its beginning, one huge page after the other. */
static void expect_moved(unsigned from, unsigned to, weir_part part)
{
    assert_int_equal((uintptr_t)part.at % HUGE_PAGE, 0);
    for (unsigned i = from; i < to; i++) {
        assert_ptr_equal(fake.moved[i].at, (char *)part.at + (i - from) * HUGE_PAGE);
        assert_int_equal(fake.moved[i].bytes, HUGE_PAGE);
    }
}

/* Whether the large states fill their memory up to `bytes`, beside a sixteenth of it for the index,
 * and at least as much as that. */
static bool is_resident(const fixture *f, size_t bytes)
{
    size_t used = weir_large_stats_get(f->s->common.large).bytes, index = f->s->large_max / 16;
    return used >= index && used + index >= bytes;
}

/* The table is moved once it has a key for every fourth page, and the large states as far as they
 * fill their memory. */
static void well_used_memory_is_moved(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 32 * MIB);
    weir_image_parts parts = weir_image_parts_get(f.s->image);
    int enough = (int)(parts.table.bytes / SMALL_PAGE / 4);
    unsigned table = (unsigned)(parts.table.bytes / HUGE_PAGE), large = 4;
    take(&f, "gcra 1/m burst 5", 0, enough - 1);
    step();
    step();
    assert_int_equal(fake.moves, 0);
    assert_int_equal(fake.wait_ns, s_ns);
    take(&f, "gcra 1/m burst 5", enough - 1, enough);
    for (unsigned i = 1; i <= table; i++) {
        step();
        assert_int_equal(fake.moves, i);
        assert_int_equal(fake.wait_ns, 1000000);
    }
    expect_moved(0, table, parts.table);
    step();
    assert_int_equal(fake.wait_ns, s_ns);

    int keys = 0;
    for (unsigned i = 1; i <= large; i++) {
        while (!is_resident(&f, i * HUGE_PAGE)) {
            step();
            assert_int_equal(fake.moves, table + i - 1);
            assert_int_equal(fake.wait_ns, s_ns);
            take(&f, "sliding-log 100/m", keys, keys + 100);
            keys += 100;
        }
        step();
        assert_int_equal(fake.moves, table + i);
        assert_int_equal(fake.wait_ns, 1000000);
        if (i == 1) {
            step();
            assert_int_equal(fake.wait_ns, s_ns);
        }
    }
    expect_moved(table, table + large, parts.large);
    unsigned waits = fake.waits;
    port_mutex_lock(fake.lock); /* the thread has nothing left to do, and ends */
    fake.allowed = fake.waits;
    port_cond_wake(fake.changed);
    port_mutex_unlock(fake.lock);
    end(&f);
    assert_int_equal(fake.waits, waits);
    assert_int_equal(fake.moves, table + large);
}

/* A small store uses huge pages from the beginning, without a thread. */
static void small_stores_have_no_thread(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 15 * MIB);
    weir_image_parts parts = weir_image_parts_get(f.s->image);
    assert_null(f.s->huge_pages);
    assert_int_equal(fake.moves, 0);
    assert_int_equal(fake.hinted_bytes, parts.table.bytes + parts.large.bytes);
    weir_huge_pages *none = (weir_huge_pages *)f.s;
    assert_int_equal(weir_huge_pages_start(&none, f.s, false), WEIR_OK);
    assert_null(none);
    end(&f);
    begin(&f, 16 * MIB);
    assert_non_null(f.s->huge_pages);
    end(&f);
    assert_int_equal(fake.moves + fake.hinted_bytes, 0);
}

/* With prefault, all memory is moved from the start, also that of a small store. */
static void prefault_moves_all_memory(void **state)
{
    (void)state;
    fixture f;
    static const size_t sizes[] = {32 * MIB, 12 * MIB};
    for (size_t i = 0; i < 2; i++) {
        begin_with(&f, sizes[i], true);
        weir_image_parts parts = weir_image_parts_get(f.s->image);
        unsigned table = (unsigned)(parts.table.bytes / HUGE_PAGE);
        unsigned large = (unsigned)(parts.large.bytes / HUGE_PAGE);
        settle();
        for (unsigned moves = 1; moves <= table + large; moves++) {
            assert_int_equal(fake.moves, moves);
            assert_int_equal(fake.wait_ns, 1000000);
            if (moves < table + large)
                step();
        }
        expect_moved(0, table, parts.table);
        expect_moved(table, table + large, parts.large);
        end(&f);
        assert_int_equal(fake.moves, table + large);
    }
}

/* Where the system refuses a thread, a store uses huge pages from the beginning. With prefault, all
 * memory is moved before the store is open. */
static void no_thread(void **state)
{
    (void)state;
    for (int prefault = 0; prefault <= 1; prefault++) {
        const weir_store_options options = {.memory_bytes = 32 * MIB, .prefault = prefault};
        weir_store *s = NULL;
        memset(&fake, 0, sizeof fake);
        fake.lock = port_mutex_new();
        fake.fail_thread = true;
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        assert_null(s->huge_pages);
        weir_image_parts parts = weir_image_parts_get(s->image);
        unsigned table = (unsigned)(parts.table.bytes / HUGE_PAGE);
        unsigned large = (unsigned)(parts.large.bytes / HUGE_PAGE);
        if (prefault) {
            assert_int_equal(fake.moves, table + large);
            expect_moved(0, table, parts.table);
            expect_moved(table, table + large, parts.large);
        } else {
            assert_int_equal(fake.moves, 0);
            assert_int_equal(fake.hinted_bytes, (table + large) * HUGE_PAGE);
        }
        weir_store_close(s);
        port_mutex_free(fake.lock);
    }
    weir_huge_pages_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resident_memory_grows_with_the_keys),
        cmocka_unit_test(well_used_memory_is_moved),
        cmocka_unit_test(small_stores_have_no_thread),
        cmocka_unit_test(prefault_moves_all_memory),
        cmocka_unit_test(no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
