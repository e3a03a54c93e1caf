/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_TABLE_KIT_TEST_H
#define WEIR_STORE_TABLE_KIT_TEST_H
/* A kit for the tests of the table: opening, charging on the fast path, and hashes that are chosen
 * to collide, which is not possible through the store. */

#include "store/kit_test.h"
#include "store/table/cuckoo.h"
#include "tests/store/check.h"

#include <stdlib.h>

static inline weir_table *open_part(void *part, size_t bytes, const weir_processes *o, bool refuse)
{
    weir_table *t = NULL;
    assert_int_equal(weir_table_open(&t, part, bytes, o, refuse), WEIR_OK);
    return t;
}

/* Mixes a number into a pseudorandom one: a key's hash, or the next seed. */
static inline uint64_t mix(uint64_t n)
{
    n += 0x9e3779b97f4a7c15;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return n ^ n >> 31;
}

static inline uint64_t next_random(uint64_t *seed)
{
    return mix((*seed)++);
}

/* A hash with the class of a policy. */
static inline uint64_t classed(uint64_t hash, const weir_policy *p)
{
    return (hash & ~(uint64_t)WEIR_CLASS_MASK) | weir_pack_class(p);
}

/* Hashes that share both buckets of a small table, numbers 0 and 52 of 192. Their class is that of
 * buckets which refill in 69 to 137 s. */
static inline uint64_t colliding(uint64_t n)
{
    return 0x0123000000000000 | 0x45670000 | (n & 0x3ff) << 6 | (n >> 10 & 0xffff) << 32 | 17;
}

/* A hash with the first bucket given by `top`, and an alternate bucket of its own. n is 0..15. */
static inline uint64_t loner(uint64_t top, uint64_t n)
{
    return top << 48 | n << 28;
}

/* Charges a key, on the fast path if `hot` is set and the policy has one. */
static inline weir_status charge_key(weir_table *t, const weir_policy *p, uint64_t hash,
                                     int64_t now_ns, bool hot, charge *c)
{
    return hot && weir_pack_is_fast(p)
               ? weir_table_take_one(t, p, hash, now_ns, c->cost, &c->decision)
               : weir_table_run(t, p, hash, now_ns, check, c);
}

/* Checks that the table is consistent and that its statistics are right. Returns the number of
 * keys. */
static inline uint64_t check_whole(weir_table *t)
{
    uint64_t keys = 0, units = 0;
    for (uint64_t b = 0; b < t->buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->buckets[b], &l);
        for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
            bool live = weir_line_live(&l) >> i & 1;
            keys += live;
            units += live ? weir_form_units(weir_line_form(&l, i)) : 0;
        }
    }
    WEIR_CHECK(weir_table_check(t, false));
    weir_table_stats stats = weir_table_stats_get(t);
    assert_int_equal(stats.keys, keys);
    assert_int_equal(stats.bytes, 2 * units);
    assert_int_equal(stats.damaged, 0);
    return keys;
}

#endif
