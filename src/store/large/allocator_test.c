/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The allocator alone: where it places blocks, how far it searches, what it lists, and how it
 * completes a change that was interrupted. */

#include "store/large/allocator.h"

#include "store/kit_test.h"

enum { UNITS = 66000, PENDING = 64, BITMAP = (UNITS + 63) / 64, OP_ALLOC = 1, OP_FREE = 2 };

/* The memory: its head, pending words, bitmaps and units. */
typedef struct layout {
    weir_allocator_head head;
    port_word pending[PENDING];
    port_word taken[BITMAP], begins[BITMAP];
    _Alignas(16) unsigned char units[UNITS * (size_t)WEIR_UNIT];
} layout;

typedef struct rig {
    layout *at;
    weir_allocator a;
} rig;

static void make(rig *r)
{
    layout *at = part_of(sizeof *at);
    *r = (rig){.at = at,
               .a = {.processes = &alone,
                     .head = &at->head,
                     .taken = at->taken,
                     .begins = at->begins,
                     .base = at->units,
                     .units = UNITS,
                     .words = (port_word *)at,
                     .words_len = sizeof *at / 8,
                     .words_undo = offsetof(layout, taken) / 8}};
}

static void drop(rig *r)
{
    assert_int_equal(port_word_load_relaxed(&r->at->head.lock), 0);
    munmap(r->at, sizeof *r->at);
}

/* Allocates a block of `units` units. Its pending word is number i. */
static uint64_t alloc(rig *r, size_t i, uint64_t units, uint64_t from, bool far)
{
    return weir_allocator_alloc(&r->a, 2 * (units - WEIR_BLOCK_HEAD_UNITS), 3, 1000 + i, from, far,
                                &r->at->pending[i]);
}

static void expect_use(const rig *r, uint64_t used, uint64_t count)
{
    assert_int_equal(port_word_load_relaxed(&r->at->head.used), used);
    assert_int_equal(port_word_load_relaxed(&r->at->head.count), count);
}

/* Whether exactly the units from..to-1 near them are taken, and a block begins at the first. */
static void expect_block(const rig *r, uint64_t from, uint64_t to, bool taken)
{
    for (uint64_t i = from; i < to; i++) {
        assert_int_equal(weir_unit_bit(r->a.taken, i), taken);
        assert_int_equal(weir_unit_bit(r->a.begins, i), taken && i == from);
    }
    assert_int_equal(weir_block_sound(&r->a, from), taken);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void sizes_of_blocks(void **state)
{
    (void)state;
    assert_int_equal(weir_block_units(0), 2);
    assert_int_equal(weir_block_units(1), 3);
    assert_int_equal(weir_block_units(2), 3);
    assert_int_equal(weir_block_units(3), 4);
    assert_true(weir_block_units(WEIR_BLOCK_WORDS_MAX) < UINT64_MAX);
    assert_int_equal(weir_block_units(WEIR_BLOCK_WORDS_MAX + 1), UINT64_MAX);
}

static void blocks_are_adjacent(void **state)
{
    (void)state;
    rig r;
    make(&r);
    assert_int_equal(alloc(&r, 0, 70, 0, false), 1); /* unit 0 is not used */
    assert_int_equal(alloc(&r, 1, 5, 0, false), 71);
    assert_int_equal(alloc(&r, 2, 64, 0, false), 76);
    expect_use(&r, 139, 3);
    expect_block(&r, 1, 71, true);
    expect_block(&r, 71, 76, true);
    expect_block(&r, 76, 140, true);
    expect_block(&r, 140, 150, false);
    assert_false(weir_unit_bit(r.a.taken, 0));
    const weir_block *b = weir_block_at(&r.a, 71);
    assert_int_equal(port_word_load_relaxed(&b->hash), 1001);
    assert_int_equal(port_word_load_relaxed(&b->mark), INT64_MAX);
    assert_int_equal(port_word_load_relaxed(&b->next), 0);
    assert_int_equal(weir_block_words(b), 6);
    assert_int_equal(weir_block_level(b), 3);
    assert_int_equal(port_word_load_relaxed(&r.at->pending[1]), 71 << 2 | WEIR_PENDING_ADDED);
    assert_int_equal(port_word_load_relaxed(&r.at->head.op), 0);

    weir_allocator_free(&r.a, &r.at->pending[1]);
    assert_int_equal(port_word_load_relaxed(&r.at->pending[1]), 0);
    assert_int_equal(port_word_load_relaxed(&r.at->head.op), 0);
    expect_use(&r, 134, 2);
    expect_block(&r, 71, 76, false);
    expect_block(&r, 1, 71, true);
    expect_block(&r, 76, 140, true);
    assert_int_equal(alloc(&r, 3, 5, 0, false), 140); /* where the last search ended */
    assert_int_equal(alloc(&r, 4, 6, 1, false), 145); /* the gap is too small */
    assert_int_equal(alloc(&r, 5, 5, 1, false), 71);
    drop(&r);
}

/* The last unit can be used, and a search goes on at the beginning. */
static void the_end_of_the_memory(void **state)
{
    (void)state;
    rig r;
    make(&r);
    assert_int_equal(alloc(&r, 0, UNITS, 0, true), 0);
    assert_int_equal(alloc(&r, 0, UNITS - 8, 0, true), 1);
    assert_int_equal(alloc(&r, 1, 8, 0, true), 0);
    expect_use(&r, UNITS - 8, 1);
    assert_int_equal(port_word_load_relaxed(&r.at->pending[1]), 0);
    assert_int_equal(alloc(&r, 1, 7, 0, false), UNITS - 7);
    expect_use(&r, UNITS - 1, 2);
    assert_int_equal(alloc(&r, 2, 2, 0, true), 0);
    weir_allocator_free(&r.a, &r.at->pending[0]);
    assert_int_equal(alloc(&r, 2, 2, 0, false), 1);
    assert_int_equal(alloc(&r, 3, 2, UNITS + 9, false), 3);
    assert_int_equal(
        weir_allocator_alloc(&r.a, WEIR_BLOCK_WORDS_MAX + 1, 0, 1, 0, true, &r.at->pending[4]), 0);
    drop(&r);
}

/* A short search covers 2^14 units and eight times the size of the block. */
static void a_short_search(void **state)
{
    (void)state;
    enum { NEAR = (1 << 14) + 2 * 8 };
    for (int more = 0; more <= 1; more++) {
        rig r;
        make(&r);
        assert_int_equal(alloc(&r, 0, NEAR - 1 + (uint64_t)more, 1, true), 1);
        assert_int_equal(alloc(&r, 1, 2, 1, false), more ? 0 : NEAR);
        assert_int_equal(alloc(&r, 2, 2, 1, true), more ? NEAR + 1 : NEAR + 2);
        drop(&r);
    }
    /* Near the end, it also covers as much of the beginning. */
    for (int more = 0; more <= 1; more++) {
        rig r;
        make(&r);
        uint64_t gap = NEAR - 1 + (uint64_t)more;
        assert_int_equal(alloc(&r, 0, gap - 1, 1, true), 1);
        assert_int_equal(alloc(&r, 1, 2, gap, true), gap);
        assert_int_equal(alloc(&r, 2, UNITS - gap - 2, gap + 2, true), gap + 2);
        weir_allocator_free(&r.a, &r.at->pending[1]);
        assert_int_equal(alloc(&r, 3, 2, UNITS - 100, false), more ? 0 : gap);
        assert_int_equal(alloc(&r, 4, 2, UNITS - 100, true), more ? gap : 0);
        drop(&r);
    }
}

/* A search tries 2^15 gaps. */
static void many_small_gaps(void **state)
{
    (void)state;
    enum { WORDS = 1024 };
    for (int more = 0; more <= 1; more++) {
        rig r;
        make(&r);
        for (size_t i = 0; i < WORDS; i++) /* 32 gaps of one unit; unit 0 is none */
            port_word_store_relaxed(&r.at->taken[i], 0xAAAAAAAAAAAAAAAA);
        port_word_store_relaxed(&r.at->taken[WORDS], more ? 2 : 0);
        assert_int_equal(alloc(&r, 0, 2, 1, true), more ? 0 : 64 * WORDS);
        drop(&r);
    }
}

/* ---- listing --------------------------------------------------------------------------------- */

static void blocks_are_listed(void **state)
{
    (void)state;
    enum { FAR = 1 << 13 };
    rig r;
    weir_block_seen seen[4];
    uint64_t next = 0;
    make(&r);
    assert_int_equal(alloc(&r, 0, 5, 1, false), 1);
    assert_int_equal(alloc(&r, 1, 6, FAR - 1, false), FAR - 1);
    assert_int_equal(alloc(&r, 2, 7, 0, false), FAR + 5);
    port_word_store_relaxed(&weir_block_at(&r.a, 1)->mark, 77);
    assert_int_equal(weir_allocator_list(&r.a, 0, seen, 4, &next), 2);
    assert_int_equal(next, FAR);
    assert_int_equal(seen[0].at, 1);
    assert_int_equal(seen[0].units, 5);
    assert_int_equal(seen[0].hash, 1000);
    assert_int_equal(seen[0].mark, 77);
    assert_int_equal(seen[1].at, FAR - 1);
    assert_int_equal(seen[1].units, 6);
    assert_int_equal(weir_allocator_list(&r.a, 0, seen, 1, &next), 1);
    assert_int_equal(next, 2);
    assert_int_equal(weir_allocator_list(&r.a, next, seen, 4, &next), 1);
    assert_int_equal(next, FAR + 2);
    assert_int_equal(weir_allocator_list(&r.a, next, seen, 4, &next), 1);
    assert_int_equal(seen[0].at, FAR + 5);
    assert_int_equal(weir_allocator_list(&r.a, UNITS - 3, seen, 4, &next), 0);
    assert_int_equal(next, UNITS);
    drop(&r);
}

/* A damaged block is no longer taken, and its neighbours are. */
static void damaged_blocks_are_freed(void **state)
{
    (void)state;
    for (int last = 0; last <= 1; last++) { /* whether free units follow it */
        rig r;
        weir_block_seen seen[4];
        uint64_t next = 0;
        make(&r);
        assert_int_equal(alloc(&r, 0, 5, 1, false), 1);
        assert_int_equal(alloc(&r, 1, 66, 0, false), 6);
        if (!last)
            assert_int_equal(alloc(&r, 2, 7, 0, false), 72);
        port_word_store_relaxed(&weir_block_at(&r.a, 6)->hash, 5);
        assert_false(weir_block_sound(&r.a, 6));
        assert_int_equal(weir_allocator_list(&r.a, 0, seen, 4, &next), last ? 1 : 2);
        expect_block(&r, 1, 6, true);
        expect_block(&r, 6, 72, false);
        expect_block(&r, 72, 79, !last);
        drop(&r);
    }
}

static void the_position_of_the_sweep(void **state)
{
    (void)state;
    rig r;
    make(&r);
    assert_int_equal(weir_allocator_sweep_at(&r.a), 0);
    weir_allocator_sweep_to(&r.a, UNITS - 1);
    assert_int_equal(weir_allocator_sweep_at(&r.a), UNITS - 1);
    weir_allocator_sweep_to(&r.a, UNITS);
    assert_int_equal(port_word_load_relaxed(&r.at->head.sweep_at), 0);
    port_word_store_relaxed(&r.at->head.sweep_at, UNITS); /* damage */
    assert_int_equal(weir_allocator_sweep_at(&r.a), 0);
    drop(&r);
}

static void any_unit(void **state)
{
    (void)state;
    rig r;
    unsigned sixteenths = 0;
    make(&r);
    for (int i = 0; i < 200; i++) {
        uint64_t at = weir_allocator_any(&r.a);
        assert_true(at < UNITS);
        sixteenths |= 1u << at * 16 / UNITS;
    }
    assert_int_equal(sixteenths, 0xffff);
    drop(&r);
}

/* ---- damage and interrupted changes ---------------------------------------------------------- */

static void a_pending_word_without_a_block(void **state)
{
    (void)state;
    rig r;
    make(&r);
    const uint64_t at[] = {0, 2, 6, UNITS - 1, UNITS, (uint64_t)1 << 61};
    assert_int_equal(alloc(&r, 0, 5, 1, false), 1);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        port_word_store_relaxed(&r.at->pending[1], at[i] << 2 | WEIR_PENDING_REMOVED);
        weir_allocator_free(&r.a, &r.at->pending[1]);
        assert_int_equal(port_word_load_relaxed(&r.at->pending[1]), 0);
        expect_use(&r, 5, 1);
    }
    expect_block(&r, 1, 6, true);
    drop(&r);
}

/* A change of block `at` as a killed process leaves it: with its lock. */
static void interrupt(rig *r, uint64_t op, uint64_t at, uint64_t units, size_t pending)
{
    weir_allocator_head *h = &r->at->head;
    port_word_store_relaxed(&h->op, op);
    port_word_store_relaxed(&h->op_at, at);
    port_word_store_relaxed(&h->op_units, units);
    port_word_store_relaxed(&h->op_pending, (uint64_t)(&r->at->pending[pending] - r->a.words));
    port_word_store_relaxed(&h->op_used, 12);
    port_word_store_relaxed(&h->op_count, 2);
    port_word_store_relaxed(&h->lock, alone.self);
}

static void interrupted_changes(void **state)
{
    (void)state;
    static const struct {
        uint64_t op, at, units;
        size_t pending;
        uint64_t used, count; /* afterwards */
        bool cleared;         /* the second block, which has pending word 1 */
    } cases[] = {
        {OP_ALLOC, 6, 7, 1, 12, 2, true},     {OP_FREE, 6, 7, 1, 5, 1, true},
        {OP_FREE, 6, 7, 0, 5, 1, true}, /* pending word 0 belongs to the first block */
        {0, 6, 7, 1, 12, 2, false},           {OP_FREE, 0, 7, 1, 12, 2, false},
        {OP_FREE, UNITS, 7, 1, 12, 2, false}, {OP_FREE, 6, UNITS - 5, 1, 12, 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig r;
        make(&r);
        assert_int_equal(alloc(&r, 0, 5, 1, false), 1);
        assert_int_equal(alloc(&r, 1, 7, 0, false), 6);
        uint64_t pending = port_word_load_relaxed(&r.at->pending[1]);
        interrupt(&r, cases[i].op, cases[i].at, cases[i].units, cases[i].pending);
        weir_allocator_repair(&r.a);
        assert_int_equal(port_word_load_relaxed(&r.at->head.op), 0);
        expect_use(&r, cases[i].used, cases[i].count);
        expect_block(&r, 1, 6, true);
        expect_block(&r, 6, 13, !cases[i].cleared);
        bool kept = !cases[i].cleared || cases[i].pending != 1;
        assert_int_equal(port_word_load_relaxed(&r.at->pending[1]), kept ? pending : 0);
        assert_int_not_equal(port_word_load_relaxed(&r.at->pending[0]), 0);
        drop(&r);
    }
}

/* A repair neither releases the lock of another process nor completes its change. Who takes the
 * lock over, because that process is dead, does both. */
static void the_lock_of_another(void **state)
{
    (void)state;
    rig r;
    make(&r);
    assert_int_equal(alloc(&r, 0, 5, 1, false), 1);
    interrupt(&r, OP_FREE, 1, 5, 0);
    port_word_store_relaxed(&r.at->head.lock, alone.self + 1);
    weir_allocator_repair(&r.a);
    assert_int_equal(port_word_load_relaxed(&r.at->head.lock), alone.self + 1);
    expect_block(&r, 1, 6, true);
    weir_block_seen seen;
    uint64_t next;
    assert_int_equal(weir_allocator_list(&r.a, 0, &seen, 1, &next), 0);
    expect_block(&r, 1, 6, false);
    expect_use(&r, 7, 1);
    drop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_blocks),
        cmocka_unit_test(blocks_are_adjacent),
        cmocka_unit_test(the_end_of_the_memory),
        cmocka_unit_test(a_short_search),
        cmocka_unit_test(many_small_gaps),
        cmocka_unit_test(blocks_are_listed),
        cmocka_unit_test(damaged_blocks_are_freed),
        cmocka_unit_test(the_position_of_the_sweep),
        cmocka_unit_test(any_unit),
        cmocka_unit_test(a_pending_word_without_a_block),
        cmocka_unit_test(interrupted_changes),
        cmocka_unit_test(the_lock_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
