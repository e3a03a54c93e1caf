/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LARGE_KIT_TEST_H
#define WEIR_STORE_LARGE_KIT_TEST_H
/* A kit for the tests of large states: opening, charging, and checking that all of the memory is
 * consistent. */

#include "store/kit_test.h"
#include "store/large/index.h"
#include "tests/store/check.h"

#include <stdlib.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static inline weir_large *open_part(void *part, size_t bytes, bool is_new, const weir_processes *o)
{
    weir_large *l = NULL;
    assert_int_equal(weir_large_open(&l, part, bytes, is_new, o), WEIR_OK);
    return l;
}

/* The hash of key number n. */
static inline uint64_t hash_of(uint64_t n)
{
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return n ^ n >> 31;
}

static inline weir_status refund(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                 int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    charge *c = ctx;
    return weir_refund(p, state, level, now_ns, c->cost, &c->decision);
}

static inline weir_large_call call_of(const weir_policy *p, uint64_t hash, int64_t now_ns,
                                      charge *c)
{
    return (weir_large_call){.policy = p, .hash = hash, .now_ns = now_ns, .fn = check, .ctx = c};
}

/* Charges. Returns what remains; -1 if the charge is denied. */
static inline int64_t take(weir_large *l, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           int64_t cost)
{
    charge c = {.cost = cost};
    weir_large_call call = call_of(p, hash, now_ns, &c);
    assert_int_equal(weir_large_run(l, &call), WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static inline int64_t give(weir_large *l, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           int64_t units)
{
    charge c = {.cost = units};
    weir_large_call call = call_of(p, hash, now_ns, &c);
    call.fn = refund;
    call.refund = units;
    assert_int_equal(weir_large_run(l, &call), WEIR_OK);
    return c.decision.remaining;
}

static inline bool add_up(void *ctx, const weir_key_state *stored)
{
    weir_large_stats *sum = ctx;
    sum->keys++;
    sum->bytes += weir_block_units(stored->words_len) * WEIR_UNIT;
    return true;
}

/* Checks that the memory is consistent, that no entry was damaged, and that the statistics are
 * right. Takes over the locks of dead processes. */
static inline void check_whole(weir_large *l)
{
    weir_large_stats sum = {0};
    weir_block_seen seen;
    uint64_t next;
    weir_allocator_list(&l->blocks, 0, &seen, 1, &next); /* takes over the allocator's lock too */
    weir_large_each(l, add_up, &sum);
    weir_large_stats stats = weir_large_stats_get(l);
    assert_int_equal(stats.damaged, 0);
    assert_int_equal(stats.keys, sum.keys);
    assert_int_equal(stats.bytes, sum.bytes);
    WEIR_CHECK(weir_large_check(l));
}

/* Memory of its own, and some policies. */
typedef struct fixture {
    void *part;
    size_t bytes;
    weir_large *l;
    weir_policy log, slices, layers;
} fixture;

static inline void open_fixture(fixture *f, size_t bytes)
{
    f->bytes = bytes;
    f->part = part_of(bytes);
    f->l = open_part(f->part, bytes, true, &alone);
    f->log = policy_of("sliding-log 100/m");
    f->slices = policy_of("sliding-slices 1000/h slices 600");
    f->layers = policy_of("sliding-log 50/m & gcra 10/s burst 20 & sliding-log 70/m count-denied");
}

static inline void close_fixture(fixture *f)
{
    weir_large_close(f->l);
    munmap(f->part, f->bytes);
}

#endif
