/* SPDX-License-Identifier: BSD-2-Clause */
/* Large states: the lock of a stripe, its journal, the index and the allocator. */

#include "scenes.h"

#include "core/check.h"
#include "store/large/index.h"

#include <string.h>

static const int64_t now_ns = 20 * INT64_C(1000000000);

static struct shared {
    weir_policy policy;
    weir_large *large[MODEL_THREADS + 1];
    bool done[MODEL_THREADS];
} * shared;

typedef struct charge {
    int64_t cost;
    weir_decision decision;
} charge;

static weir_status check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t at_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    charge *c = ctx;
    return weir_check(p, state, level, at_ns, c->cost, &c->decision);
}

static weir_large_call call_of(uint64_t hash, charge *c)
{
    return (weir_large_call){
        .policy = &shared->policy, .hash = hash, .now_ns = now_ns, .fn = check_state, .ctx = c};
}

static int64_t take_by(unsigned process, uint64_t hash, int64_t cost)
{
    charge c = {.cost = cost};
    weir_large_call call = call_of(hash, &c);
    MODEL_CHECK(weir_large_run(shared->large[process], &call) == WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static void prepare(void)
{
    static const char text[] = "sliding-log 40/10s";
    shared = model_alloc(sizeof *shared);
    MODEL_CHECK(weir_policy_parse(&shared->policy, text, strlen(text), NULL, NULL) == WEIR_OK);
    void *part = model_alloc(WEIR_LARGE_BYTES_MIN);
    for (unsigned t = 0; t <= MODEL_THREADS; t++) {
        const weir_processes *p = t < MODEL_THREADS ? &processes[t] : &last_process;
        MODEL_CHECK(weir_large_open(&shared->large[t], part, WEIR_LARGE_BYTES_MIN, t == 0, p) ==
                    WEIR_OK);
    }
}

/* Two keys of one stripe. */
enum { KEY = 64, OTHER = 68 };

static void prepare_one(void)
{
    prepare();
    take_by(0, KEY, 1);
}

/* With one more request, the log grows. */
static void prepare_full(void)
{
    prepare();
    for (int i = 0; i < 4; i++) {
        charge c = {.cost = 1};
        weir_large_call call = call_of(KEY, &c);
        call.now_ns = now_ns - 4 + i;
        MODEL_CHECK(weir_large_run(shared->large[0], &call) == WEIR_OK);
    }
}

static void take(void)
{
    take_by(model_self(), KEY, 1);
    shared->done[model_self()] = true;
}

static void take_both(void)
{
    weir_large *l = shared->large[model_self()];
    size_t stripe = weir_large_stripe(l, KEY);
    weir_large_lock(l, stripe);
    for (int i = 0; i < 2; i++) {
        charge c = {.cost = 1};
        weir_large_call call = call_of(i ? OTHER : KEY, &c);
        MODEL_CHECK(weir_large_try(l, &call) == WEIR_OK);
    }
    weir_large_commit(l, stripe);
    weir_large_unlock(l, stripe);
    shared->done[model_self()] = true;
}

static void take_and_drop(void)
{
    weir_large *l = shared->large[model_self()];
    size_t stripe = weir_large_stripe(l, KEY);
    weir_large_lock(l, stripe);
    for (int i = 0; i < 2; i++) {
        charge c = {.cost = 1};
        weir_large_call call = call_of(i ? OTHER : KEY, &c);
        MODEL_CHECK(weir_large_try(l, &call) == WEIR_OK);
    }
    weir_large_roll_back(l, stripe);
    weir_large_unlock(l, stripe);
}

static void reset(void)
{
    weir_large_reset(shared->large[model_self()], KEY);
    shared->done[model_self()] = true;
}

static bool add_up(void *ctx, const weir_key_state *stored)
{
    uint64_t *units = ctx;
    units[0] += weir_block_units(stored->words_len);
    units[1]++;
    return true;
}

/* The index leads to every unit that is taken, and the sums are right. */
static void check_whole(void)
{
    weir_large *l = shared->large[MODEL_THREADS];
    weir_block_seen seen;
    uint64_t next, units[2] = {0, 0}, taken = 0;
    weir_large_each(l, add_up, units);
    weir_allocator_list(&l->blocks, 0, &seen, 1, &next); /* repairs the allocator */
    for (uint64_t i = 0; i < (l->blocks.units + 63) / 64; i++)
        taken += (uint64_t)__builtin_popcountll(port_word_load_relaxed(&l->blocks.taken[i]));
    weir_large_stats stats = weir_large_stats_get(l);
    MODEL_CHECK(taken == units[0] && stats.bytes == taken * WEIR_UNIT);
    MODEL_CHECK(stats.keys == units[1] && stats.damaged == 0);
}

static int64_t charged(uint64_t hash)
{
    return 40 - take_by(MODEL_THREADS, hash, 0);
}

static void check_sum(int64_t before)
{
    int64_t done = shared->done[0] + shared->done[1];
    int64_t dead = model_is_dead(0) + model_is_dead(1);
    check_whole();
    MODEL_CHECK(charged(KEY) >= before + done && charged(KEY) <= before + done + dead);
}

static void check_new(void)
{
    check_sum(0);
}

static void check_updated(void)
{
    check_sum(1);
}

static void check_grown(void)
{
    check_sum(4);
}

/* Both keys were charged, or none. */
static void check_transaction(void)
{
    check_sum(1);
    MODEL_CHECK(charged(KEY) == charged(OTHER) + 1 + (shared->done[1] ? 1 : 0));
}

static void check_dropped(void)
{
    check_whole();
    MODEL_CHECK(charged(KEY) == 1 && charged(OTHER) == 0);
}

static void check_reset(void)
{
    check_whole();
    MODEL_CHECK(charged(KEY) == 0 || (model_is_dead(0) && charged(KEY) == 1));
}

const model_scene model_large_update = {
    "large: two charges of a key", prepare_one, {take, take}, check_updated, 0};
const model_scene model_large_insert = {
    "large: two insert a key", prepare, {take, take}, check_new, 0};
const model_scene model_large_update_death = {
    "large: a charge is killed", prepare_one, {take, take}, check_updated, 1};
const model_scene model_large_insert_death = {
    "large: an insertion is killed", prepare, {take}, check_new, 1};
const model_scene model_large_grow_death = {
    "large: a log that grows is killed", prepare_full, {take}, check_grown, 1};
const model_scene model_large_repair_death = {
    "large: a charge and its repair are killed", prepare_one, {take, take}, check_updated, 3};
const model_scene model_large_many_death = {
    "large: a transaction is killed", prepare_one, {take_both}, check_transaction, 1};
const model_scene model_large_drop_death = {
    "large: a roll-back is killed", prepare_one, {take_and_drop}, check_dropped, 1};
const model_scene model_large_reset_death = {
    "large: a reset is killed", prepare_one, {reset}, check_reset, 1};
