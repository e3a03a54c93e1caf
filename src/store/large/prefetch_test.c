/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a batch prefetches: every cache line that the decisions on its keys load, and no other. */

#include "port/atomic.h"

static void note_prefetch(const void *p);

/* Records the prefetches of the code below. */
#define port_prefetch note_prefetch
#include "store/large/prefetch.c"
#undef port_prefetch

#include "store/kit_test.h"
#include "store/large/large_kit_test.h"
#include "tests/store/check.h"

#include <stdio.h>

enum { NOTES_MAX = 2000, PART = 1 << 18 };

static const int64_t now_ns = INT64_C(1795377343327627102);

typedef struct notes {
    const void *at[NOTES_MAX];
    size_t len;
} notes;

static notes found, expected;

static void add(notes *n, const void *p)
{
    assert_true(n->len < NOTES_MAX);
    n->at[n->len++] = p;
}

static void note_prefetch(const void *p)
{
    add(&found, p);
}

static void expect_bytes(const void *p, size_t bytes)
{
    const unsigned char *first = p;
    for (size_t i = 0; i < bytes; i += 64)
        add(&expected, first + i);
    add(&expected, first + bytes - 1);
}

static void expect_block(const weir_large_hint *key, uint64_t at)
{
    const weir_allocator *b = &key->large->blocks;
    size_t bytes = 32 + 8 * weir_state_words(key->policy, 0);
    add(&expected, &b->begins[at / 64]);
    add(&expected, &b->taken[at / 64]);
    expect_bytes(weir_block_at(b, at), bytes <= 256 ? bytes : 64);
}

static const port_word *bucket(const weir_large_hint *key)
{
    return &key->large->bucket[weir_index_bucket(key->large, key->hash)];
}

/* The blocks that the chain of each key has: 0 if it has no first or no second one. */
static void check_prefetched(const weir_large_hint *keys, const uint64_t first[],
                             const uint64_t second[], size_t n)
{
    found.len = expected.len = 0;
    for (size_t i = 0; i < n; i++) {
        const weir_large *l = keys[i].large;
        const weir_stripe *s = &l->stripe[weir_index_bucket(l, keys[i].hash) % l->stripes];
        add(&expected, bucket(&keys[i]));
        add(&expected, &s->lock);
        expect_bytes(s->journal, 96);
    }
    for (size_t i = 0; i < n; i++) {
        if (first[i] != 0)
            expect_block(&keys[i], first[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (second[i] != 0)
            expect_block(&keys[i], second[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const weir_block *block = weir_block_at(&keys[i].large->blocks, first[i]);
        if (first[i] == 0)
            continue;
        if (port_word_load_relaxed(&block->hash) != keys[i].hash)
            block = weir_block_at(&keys[i].large->blocks, second[i]);
        size_t index[WEIR_STATE_LOADS], loads = 0;
        if (second[i] != 0 || port_word_load_relaxed(&block->hash) == keys[i].hash)
            loads =
                weir_state_loads(keys[i].policy, block->state[0], weir_block_level(block), index);
        for (size_t k = 0; k < loads; k++)
            add(&expected, &block->state[index[k]]);
    }
    weir_large_prefetch(keys, n);
    assert_int_equal(found.len, expected.len);
    for (size_t i = 0; i < found.len; i++)
        assert_ptr_equal(found.at[i], expected.at[i]);
}

static uint64_t first_of(const weir_large_hint *key)
{
    return port_word_load_relaxed(bucket(key));
}

static weir_large *open_large(void)
{
    return open_part(part_of(PART), PART, true, &alone);
}

static void close_large(weir_large *l)
{
    WEIR_CHECK(weir_large_check(l));
    weir_large_close(l);
}

/* Sizes on both sides of what is prefetched as a whole. */
static void states_of_many_sizes(void **state)
{
    (void)state;
    enum { KEYS = 31, FIRST = 10 };
    weir_large *l = open_large();
    static weir_policy p[KEYS];
    weir_large_hint keys[KEYS];
    uint64_t first[KEYS], second[KEYS] = {0};
    for (size_t i = 0; i < KEYS; i++) {
        char text[64];
        snprintf(text, sizeof text, "sliding-slices 5000/h slices %d", FIRST + (int)i);
        p[i] = policy_of(text);
        keys[i] = (weir_large_hint){l, &p[i], hash_of(i + 1)};
        assert_int_equal(first_of(&keys[i]), 0); /* each has a bucket of its own */
        assert_true(take(l, &p[i], keys[i].hash, now_ns, 1) >= 0);
        first[i] = first_of(&keys[i]);
    }
    check_prefetched(keys, first, second, KEYS);
    check_prefetched(keys, first, second, 1);
    check_prefetched(keys, first, second, 0);
    close_large(l);
}

/* The first two blocks of a chain, and keys that are absent. */
static void chains(void **state)
{
    (void)state;
    weir_large *l = open_large();
    weir_policy p = policy_of("sliding-log 500/h");
    weir_large_hint keys[3] = {{l, &p, hash_of(1)}};
    uint64_t n = 2;
    for (size_t i = 1; i < 3; i++) {
        do
            keys[i] = (weir_large_hint){l, &p, hash_of(n++)};
        while (bucket(&keys[i]) != bucket(&keys[0]));
    }
    const uint64_t none[3] = {0};
    check_prefetched(keys, none, none, 3);
    uint64_t at[2];
    for (size_t i = 0; i < 2; i++) {
        for (int k = 0; k < 40; k++) /* the log grows */
            assert_true(take(l, &p, keys[i].hash, now_ns + k, 1) >= 0);
        weir_stripe *s = weir_large_stripe_of(l, keys[i].hash);
        weir_index_lock(l, s);
        (void)weir_index_find(l, keys[i].hash, &at[i]);
        weir_robust_unlock(&s->lock);
    }
    uint64_t head = first_of(&keys[0]), other = head == at[0] ? at[1] : at[0];
    const uint64_t first[3] = {head, head, head};
    const uint64_t second[3] = {head == at[0] ? 0 : other, head == at[1] ? 0 : other, other};
    check_prefetched(keys, first, second, 3);
    close_large(l);
}

/* A link that is no block, as damage may leave it. */
static void damaged_links(void **state)
{
    (void)state;
    weir_large *l = open_large();
    weir_policy p = policy_of("sliding-log 500/h");
    const weir_large_hint key = {l, &p, hash_of(1)};
    uint64_t units = l->blocks.units;
    const uint64_t none = 0, bad[] = {units, units - 1, units - 2, units + 1, UINT64_MAX};
    port_word *link = &l->bucket[weir_index_bucket(l, key.hash)];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        port_word_store_relaxed(link, bad[i]);
        check_prefetched(&key, &none, &none, 1);
    }
    const uint64_t last = units - 3;
    port_word_store_relaxed(link, last);
    check_prefetched(&key, &last, &none, 1);
    port_word_store_relaxed(link, 0);
    close_large(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_many_sizes),
        cmocka_unit_test(chains),
        cmocka_unit_test(damaged_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
