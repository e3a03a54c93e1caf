/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Where blocks are placed, and which ones are evicted for them, called without decisions. */

#include "store/large/index.h"

#include "store/large/large_kit_test.h"

#include <unistd.h>

enum { BYTES = 128 << 10, SMALL_UNITS = 6, UNITS_MAX = 200 };

static weir_large *open_new(void *part)
{
    return open_part(part, BYTES, true, &alone);
}

static uint64_t evicted(weir_large *l)
{
    return weir_large_stats_get(l).evicted;
}

/* The words of a state whose block has that many units. */
static size_t words_of(uint64_t units)
{
    return 2 * (units - 2);
}

/* Allocates in stripe 0. The block `keep_at` must stay. */
static weir_status alloc(weir_large *l, uint64_t units, uint64_t keep_at, uint64_t *ret_at)
{
    weir_block_request want = {0, words_of(units), 0, keep_at, &l->stripe[0], WEIR_EVICT, false};
    return weir_eviction_alloc(l, &want, ret_at);
}

static void put_mark(weir_large *l, uint64_t hash, uint64_t units, int64_t mark)
{
    static const uint64_t words[2 * UNITS_MAX];
    weir_key_state stored = {.hash = hash,
                             .fresh_at_ns = mark,
                             .form = WEIR_LARGE_FORM,
                             .words_len = words_of(units),
                             .words = words};
    assert_true(units <= UNITS_MAX);
    (void)!weir_large_put(l, &stored);
}

static void put(weir_large *l, uint64_t hash, uint64_t units)
{
    put_mark(l, hash, units, 9 * s_ns);
}

/* Fills the memory with blocks of SMALL_UNITS units, of keys that have used that share. */
static void fill(weir_large *l, unsigned used)
{
    for (uint64_t n = 0; n < l->blocks.units / SMALL_UNITS; n++)
        put_mark(l, hash_of(1 + n), SMALL_UNITS, 9 * s_ns | used);
    assert_int_equal(evicted(l), 0);
}

typedef struct span {
    uint64_t at, units;
} span;

/* The most units in a row that none of the blocks covers. */
static uint64_t widest(const weir_large *l, const span *blocks, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i <= n; i++) {
        uint64_t from = i < n ? blocks[i].at + blocks[i].units : 1, to = l->blocks.units;
        for (size_t j = 0; j < n; j++) {
            if (blocks[j].at >= from && blocks[j].at < to)
                to = blocks[j].at;
        }
        most = to - from > most ? to - from : most;
    }
    return most;
}

/* Blocks of the open transaction, which are in no index yet, are not evicted for its next block.
 * That block fits beside them, if only just, wherever the search begins. */
static void beside_pending_blocks(void **unused)
{
    (void)unused;
    enum { TIMES = 400, MOST = 3 };
    void *part = part_of(BYTES);
    for (uint64_t i = 0; i < TIMES; i++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        span pending[MOST];
        uint64_t at;
        size_t n = i % (MOST + 1);
        for (uint64_t k = 0; k < hash_of(i) % 1000; k++)
            put(l, hash_of(1 + k), 3 + hash_of(k) % 30);
        port_add_relaxed(&l->blocks.head->dice, hash_of(i));
        weir_large_lock(l, 0);
        for (size_t k = 0; k < n; k++) {
            pending[k].units = 3 + hash_of(i + k) % 900;
            assert_int_equal(alloc(l, pending[k].units, 0, &pending[k].at), WEIR_OK);
        }
        uint64_t most = widest(l, pending, n);
        assert_int_equal(alloc(l, most + 1, 0, &at), WEIR_E_NOMEM);
        assert_int_equal(alloc(l, most, 0, &at), WEIR_OK);
        for (size_t k = 0; k < n; k++)
            assert_true(weir_block_sound(&l->blocks, pending[k].at));
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* The old block of a key that grows stays. If the new one cannot fit beside it, nothing is
 * evicted. */
static void beside_the_old_block(void **unused)
{
    (void)unused;
    void *part = part_of(BYTES);
    for (uint64_t before = 0; before < 1000; before += 50) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        for (uint64_t k = 0; k < before; k++)
            put(l, hash_of(5000 + k), SMALL_UNITS);
        put(l, 0, SMALL_UNITS);
        fill(l, 0);
        weir_large_lock(l, 0);
        span old = {.units = SMALL_UNITS};
        uint64_t at, most;
        weir_index_find(l, 0, &old.at);
        most = widest(l, &old, 1);
        assert_int_equal(alloc(l, most + 1, old.at, &at), WEIR_E_NOMEM);
        assert_int_equal(evicted(l), 0);
        assert_int_equal(alloc(l, most, old.at, &at), WEIR_OK);
        assert_true(weir_block_sound(&l->blocks, old.at));
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* For a wide block, a few blocks anywhere are evicted, which does not help: at most 8, and only 2
 * if all keys have used much. Then no more blocks are evicted than it covers, wherever the search
 * begins. */
static void as_few_as_it_covers(void **unused)
{
    (void)unused;
    enum { TIMES = 64 };
    static const struct {
        unsigned used, evictions;
    } rows[] = {{0, 8}, {200, 2}};
    void *part = part_of(BYTES);
    for (size_t row = 0; row < 2; row++) {
        uint64_t early = 0, late = 0, elsewhere = 0, evictions = rows[row].evictions;
        for (uint64_t i = 0; i < TIMES; i++) {
            weir_large *l = open_new(memset(part, 0, BYTES));
            uint64_t at, half = l->blocks.units / 2, wide = half / 2;
            fill(l, rows[row].used);
            port_add_relaxed(&l->blocks.head->dice, hash_of(i));
            weir_large_lock(l, 0);
            assert_int_equal(alloc(l, wide, 0, &at), WEIR_OK);
            assert_in_range(evicted(l), wide / SMALL_UNITS, evictions + wide / SMALL_UNITS + 1);
            elsewhere += evicted(l) - wide / SMALL_UNITS;
            early += at < half;
            late += at > half;
            weir_large_roll_back(l, 0);
            weir_large_unlock(l, 0);
            check_whole(l);
            weir_large_close(l);
        }
        assert_true(early > 0 && late > 0 && elsewhere > TIMES * evictions / 2);
    }
    munmap(part, BYTES);
}

static bool count_dear(void *ctx, const weir_key_state *stored)
{
    *(uint64_t *)ctx += weir_mark_used(stored->fresh_at_ns) > 64;
    return true;
}

/* For a wide block, adjacent keys are evicted that have used little, not keys that have used much,
 * wherever the search begins. */
static void a_cheap_stretch_is_cleared(void **unused)
{
    (void)unused;
    enum { TIMES = 64 };
    void *part = part_of(BYTES);
    for (uint64_t i = 0; i < TIMES; i++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        uint64_t at, n = l->blocks.units / SMALL_UNITS, dear = 0, left = 0;
        for (uint64_t k = 0; k < n; k++) {
            bool cheap = k > n / 4 && k < n / 2;
            put_mark(l, hash_of(1 + k), SMALL_UNITS, 9 * s_ns | (cheap ? 64 : 65));
        }
        weir_large_each(l, count_dear, &dear);
        port_add_relaxed(&l->blocks.head->dice, hash_of(i));
        weir_large_lock(l, 0);
        assert_int_equal(alloc(l, l->blocks.units / 6, 0, &at), WEIR_OK);
        assert_in_range(at, l->blocks.units / 4, l->blocks.units / 2);
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        weir_large_each(l, count_dear, &left);
        assert_int_equal(left, dear);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* Of the keys that are evicted, the first two may have blocks of any size. The next ones have
 * blocks that are wide enough, if there are any. */
static void the_third_is_wide(void **unused)
{
    (void)unused;
    enum { TIMES = 32, WIDE = 200 };
    void *part = part_of(BYTES);
    for (uint64_t i = 0; i < TIMES; i++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        uint64_t at, more = i % 2;
        for (uint64_t k = 0; k < l->blocks.units / (WIDE + SMALL_UNITS); k++) {
            put_mark(l, hash_of(1000 + k), WIDE, 9 * s_ns);
            put_mark(l, hash_of(2000 + k), SMALL_UNITS, 8 * s_ns);
        }
        port_add_relaxed(&l->blocks.head->dice, hash_of(i));
        weir_large_lock(l, 0);
        assert_int_equal(alloc(l, WIDE + more, 0, &at), WEIR_OK);
        if (more) /* eight small ones do not help */
            assert_in_range(evicted(l), 9, 10);
        else
            assert_int_equal(evicted(l), 3);
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* A key is idle from the very time of its mark on. Then two idle keys are dropped for each new
 * one. */
static void idle_at_the_mark(void **unused)
{
    (void)unused;
    void *part = part_of(BYTES);
    for (int64_t early = 0; early <= 1; early++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        uint64_t at;
        for (uint64_t k = 0; k < 3; k++)
            put(l, hash_of(1 + k), SMALL_UNITS);
        for (size_t i = 0; i < l->stripes; i++)
            port_word_store_relaxed(&l->stripe[i].now_ns, (uint64_t)(9 * s_ns - early));
        weir_allocator_sweep_to(&l->blocks, 0);
        weir_large_lock(l, 0);
        assert_int_equal(alloc(l, SMALL_UNITS, 0, &at), WEIR_OK);
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        assert_int_equal(weir_large_stats_get(l).keys, early ? 3 : 1);
        assert_int_equal(evicted(l), 0);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* Blocks of the same size fill the memory: one of them is evicted, and the new block takes exactly
 * its place. The first one is the closest to idle. */
static void one_is_replaced(void **unused)
{
    (void)unused;
    enum { UNITS = 1000, MORE = 1 << 20 };
    uint64_t *words = calloc(2 * UNITS, sizeof *words), first = 0, late = 0;
    void *part = part_of(MORE);
    for (uint64_t i = 0; i < 32; i++) {
        weir_large *l = open_part(memset(part, 0, MORE), MORE, true, &alone);
        uint64_t at, most = (l->blocks.units - 1) / UNITS;
        weir_key_state stored = {
            .form = WEIR_LARGE_FORM, .words_len = words_of(UNITS), .words = words};
        for (stored.hash = 1; stored.hash <= most; stored.hash++) {
            stored.fresh_at_ns = (int64_t)stored.hash * s_ns;
            assert_int_equal(weir_large_put(l, &stored), WEIR_OK);
        }
        port_add_relaxed(&l->blocks.head->dice, hash_of(i));
        port_word_store_relaxed(&l->blocks.head->rover, l->blocks.units / 2);
        weir_large_lock(l, 0);
        assert_int_equal(alloc(l, UNITS, 0, &at), WEIR_OK);
        assert_int_equal(evicted(l), 1);
        assert_int_equal(at % UNITS, 1);
        first += at == 1;
        late += at > l->blocks.units / 4;
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        weir_large_close(l);
    }
    assert_true(first > 0 && late > 0);
    munmap(part, MORE);
    free(words);
}

/* The lowest rank in the sample that the next eviction draws, of a block other than keep_at; sets
 * *ret_at to the block. The sample is 4 blocks each from 4 random places, drawn again up to 7 times
 * while every key in it has used much. */
static void look_ahead(weir_large *l, uint64_t keep_at, uint64_t *ret_at)
{
    enum { SAMPLES = 8, PLACES = 4, EACH = 4 };
    weir_allocator *b = &l->blocks;
    uint64_t dice = port_load_relaxed(&b->head->dice), lowest = UINT64_MAX, next;
    bool dear = true;
    for (int i = 0; i < SAMPLES && dear; i++) {
        weir_block_seen seen[EACH];
        lowest = UINT64_MAX;
        for (int place = 0; place < PLACES; place++) {
            size_t n = weir_allocator_list(b, weir_allocator_any(b), seen, EACH, &next);
            for (size_t k = 0; k < n; k++) {
                unsigned used = weir_mark_used(seen[k].mark);
                uint64_t rank = weir_rank(used, seen[k].mark);
                dear = dear && used > 64;
                if (seen[k].at != keep_at && rank < lowest) {
                    lowest = rank;
                    *ret_at = seen[k].at;
                }
            }
        }
    }
    assert_true(lowest < UINT64_MAX);
    port_store_relaxed(&b->head->dice, dice);
}

/* Of a sample, the key with the lowest rank is evicted. If its block has to stay, it is the next
 * one. */
static void the_lowest_rank_is_evicted(void **unused)
{
    (void)unused;
    enum { TIMES = 400, UNITS = UNITS_MAX };
    void *part = part_of(BYTES);
    for (uint64_t i = 0; i < TIMES; i++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        uint64_t keep_at = 0, lowest = UINT64_MAX, expected_at, at;
        for (uint64_t k = 0; k < (l->blocks.units - 1) / UNITS; k++) {
            uint64_t x = hash_of((1 + i) << 32 | k), used = x % 32 == 0 ? 64 : 65 + x % 8;
            int64_t mark = (int64_t)((x >> 8) % 9999 << 32 | used);
            put_mark(l, hash_of(1 + k), UNITS, mark);
            uint64_t rank = weir_rank((unsigned)used, mark);
            if (i % 2 == 0 && rank < lowest) {
                lowest = rank;
                keep_at = 1 + k * UNITS;
            }
        }
        port_add_relaxed(&l->blocks.head->dice, hash_of(i));
        look_ahead(l, keep_at, &expected_at);
        weir_large_lock(l, 0);
        assert_int_equal(alloc(l, UNITS, keep_at, &at), WEIR_OK);
        assert_int_equal(at, expected_at);
        assert_int_equal(evicted(l), 1);
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
        check_whole(l);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* A short search that would begin behind the end of the memory begins at its start. */
static void search_from_beyond(void **unused)
{
    (void)unused;
    void *part = part_of(1 << 20);
    weir_large *l = open_part(part, 1 << 20, true, &alone);
    weir_allocator *b = &l->blocks;
    const uint64_t from[] = {UINT64_MAX, b->units, b->units - 1};
    weir_large_lock(l, 0);
    for (size_t i = 0; i < 3; i++) {
        port_word *pending = weir_stripe_take_pending(&l->stripe[0]);
        assert_int_equal(weir_allocator_alloc(b, 4, 0, 0, from[i], false, pending), 1 + 4 * i);
    }
    weir_large_roll_back(l, 0);
    weir_large_unlock(l, 0);
    check_whole(l);
    weir_large_close(l);
    munmap(part, 1 << 20);
}

/* Takes or frees all units but unit 0. */
static void take_all(weir_allocator *b, bool taken)
{
    for (uint64_t i = 0; i <= b->units / 64; i++)
        port_word_store_relaxed(&b->taken[i], taken ? UINT64_MAX : 0);
}

static void free_from(weir_allocator *b, uint64_t at, uint64_t units)
{
    for (uint64_t i = at; i < at + units; i++)
        port_word_store_relaxed(&b->taken[i / 64], port_word_load_relaxed(&b->taken[i / 64]) &
                                                       ~((uint64_t)1 << i % 64));
}

/* Whether a search from `from` on finds the only free units, at `at`. */
static bool finds(weir_large *l, uint64_t units, uint64_t at, uint64_t from, bool far)
{
    weir_allocator *b = &l->blocks;
    weir_large_lock(l, 0);
    take_all(b, true);
    free_from(b, at, units);
    port_word *pending = weir_stripe_take_pending(&l->stripe[0]);
    uint64_t got = weir_allocator_alloc(b, words_of(units), 0, 0, from, far, pending);
    assert_true(got == 0 || got == at);
    weir_large_roll_back(l, 0);
    weir_large_unlock(l, 0);
    return got != 0;
}

/* How far searches go. At the end of the memory they go on at its beginning. */
static void searches_end(void **unused)
{
    (void)unused;
    enum { SHORT = 1 << 14, FAR = 1 << 22 };
    size_t bytes = (size_t)FAR * 20;
    void *part = part_of(bytes);
    weir_large *l = open_part(part, bytes, true, &alone);
    uint64_t units = l->blocks.units;
    assert_in_range(units, FAR + 2 * SHORT, 2 * FAR);
    for (uint64_t n = 3; n <= 1003; n += 1000) {
        uint64_t near = SHORT + 8 * n;
        assert_true(finds(l, n, 100 + near - 1, 100, false));
        assert_false(finds(l, n, 100 + near, 100, false));
        assert_false(finds(l, n, 99, 100, false));
        assert_true(finds(l, n, near - 1, units - n, false));
        assert_false(finds(l, n, near, units - n, false));
        assert_true(finds(l, n, 1, units - near, false));
        assert_false(finds(l, n, 1, units - near - 1, false));
        assert_true(finds(l, n, 100 + FAR - 1, 100, true));
        assert_false(finds(l, n, 100 + FAR, 100, true));
        assert_true(finds(l, n, 99, 100, true));
        assert_true(finds(l, n, units - n, units - n, true));
    }
    weir_large_close(l);
    munmap(part, bytes);
}

/* Whether a new state finds the only free units, which are far away, while `used` units count as
 * taken. */
static bool looks_far(weir_large *l, uint64_t units, uint64_t used)
{
    weir_allocator *b = &l->blocks;
    uint64_t at = 0;
    take_all(b, true);
    free_from(b, b->units - units, units);
    port_word_store_relaxed(&b->head->rover, 1);
    port_word_store_relaxed(&b->head->used, used);
    weir_large_lock(l, 0);
    weir_block_request want = {0, words_of(units), 0, 0, &l->stripe[0], WEIR_REFUSE, false};
    weir_status st = weir_eviction_alloc(l, &want, &at);
    assert_int_equal(st, at != 0 ? WEIR_OK : WEIR_E_FULL);
    weir_large_roll_back(l, 0);
    weir_large_unlock(l, 0);
    return at != 0;
}

/* If more than seven eighths of the memory are taken, only a large state is worth a long search. */
static void long_searches(void **unused)
{
    (void)unused;
    enum { MORE = 1 << 20, LARGE = 1025 };
    void *part = part_of(MORE);
    weir_large *l = open_part(part, MORE, true, &alone);
    uint64_t units = l->blocks.units, most = units - units / 8;
    assert_true(looks_far(l, LARGE - 1, most));
    assert_false(looks_far(l, LARGE - 1, most + 1));
    assert_true(looks_far(l, LARGE, most + 1));
    weir_large_close(l);
    munmap(part, MORE);
}

/* A search gives up after 2^15 gaps that are too small. */
static void many_small_gaps(void **unused)
{
    (void)unused;
    enum { GAPS = 1 << 15 };
    size_t bytes = (size_t)4 * GAPS * WEIR_UNIT;
    void *part = part_of(bytes);
    weir_large *l = open_part(part, bytes, true, &alone);
    weir_allocator *b = &l->blocks;
    for (uint64_t gaps = GAPS - 1; gaps <= GAPS; gaps++) {
        take_all(b, true);
        for (uint64_t i = 0; i < gaps; i++)
            free_from(b, 2 + 3 * i, 2);
        free_from(b, 2 + 3 * gaps, 3);
        weir_large_lock(l, 0);
        port_word *pending = weir_stripe_take_pending(&l->stripe[0]);
        assert_int_equal(weir_allocator_alloc(b, words_of(3), 0, 0, 1, true, pending),
                         gaps < GAPS ? 2 + 3 * gaps : 0);
        weir_large_roll_back(l, 0);
        weir_large_unlock(l, 0);
    }
    weir_large_close(l);
    munmap(part, bytes);
}

/* An opening releases the allocator's lock only if the lock has its own id, and completes what was
 * in progress. */
static void lock_at_opening(void **unused)
{
    (void)unused;
    void *part = part_of(BYTES);
    for (uint64_t owner = 0; owner < 3; owner++) {
        weir_large *l = open_new(memset(part, 0, BYTES));
        weir_allocator_head *h = l->blocks.head;
        put(l, hash_of(1), SMALL_UNITS);
        uint64_t used = port_word_load_relaxed(&h->used);
        port_word_store_relaxed(&h->lock, owner);
        port_word_store_relaxed(&h->op, 1); /* an allocation of unit 100, which is undone */
        port_word_store_relaxed(&h->op_at, 100);
        port_word_store_relaxed(&h->op_units, 1);
        port_word_store_relaxed(&h->op_used, used);
        port_word_store_relaxed(&h->op_count, 1);
        port_word_store_relaxed(&h->used, used + 1);
        weir_large_close(l);
        l = open_part(part, BYTES, false, &alone);
        bool is_ours = owner == alone.self;
        assert_int_equal(port_word_load_relaxed(&h->lock), is_ours ? 0 : owner);
        assert_int_equal(port_word_load_relaxed(&h->op), is_ours ? 0 : 1);
        assert_int_equal(port_word_load_relaxed(&h->used), used + !is_ours);
        weir_large_close(l);
    }
    munmap(part, BYTES);
}

/* The random units are those of SplitMix64 from 0 on, scaled to the memory. */
static void random_units(void **unused)
{
    (void)unused;
    static const uint64_t known[] = {0, 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
                                     0xf88bb8a8724c81ec};
    void *part = part_of(BYTES);
    weir_large *l = open_new(part);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(weir_allocator_any(&l->blocks), (known[i] >> 32) * l->blocks.units >> 32);
    weir_large_close(l);
    munmap(part, BYTES);
}

/* A header fits exactly at the end of the memory. What would follow is not read. */
static void header_at_the_end(void **unused)
{
    (void)unused;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *part = part_of(BYTES + page);
    assert_int_equal(mprotect(part + BYTES, page, PROT_NONE), 0);
    weir_large *l = open_new(part);
    weir_allocator *b = &l->blocks;
    uint64_t end = b->units - 2;
    assert_ptr_equal(weir_block_at(b, b->units), part + BYTES);
    weir_large_lock(l, 0);
    port_word *pending = weir_stripe_take_pending(&l->stripe[0]);
    assert_int_equal(weir_allocator_alloc(b, 0, 0, 0, end, false, pending), end);
    assert_true(weir_block_sound(b, end));
    weir_large_roll_back(l, 0);
    weir_large_unlock(l, 0);
    for (port_word *const *bits = (port_word *const[]){b->taken, b->begins, NULL}; *bits; bits++)
        port_word_store_relaxed(&(*bits)[(end + 1) / 64], (uint64_t)1 << (end + 1) % 64);
    assert_false(weir_block_sound(b, end + 1));
    weir_large_close(l);
    munmap(part, BYTES + page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_pending_blocks),
        cmocka_unit_test(beside_the_old_block),
        cmocka_unit_test(as_few_as_it_covers),
        cmocka_unit_test(search_from_beyond),
        cmocka_unit_test(header_at_the_end),
        cmocka_unit_test(searches_end),
        cmocka_unit_test(many_small_gaps),
        cmocka_unit_test(lock_at_opening),
        cmocka_unit_test(one_is_replaced),
        cmocka_unit_test(random_units),
        cmocka_unit_test(a_cheap_stretch_is_cleared),
        cmocka_unit_test(the_third_is_wide),
        cmocka_unit_test(idle_at_the_mark),
        cmocka_unit_test(long_searches),
        cmocka_unit_test(the_lowest_rank_is_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
