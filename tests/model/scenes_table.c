/* SPDX-License-Identifier: BSD-2-Clause */
/* The table: the fast path and the general one, insertion, displacement, and the table's time. */

#include "scenes.h"

#include "core/check.h"
#include "store/table/cuckoo.h"

#include <string.h>

enum { SECOND = 1000000000 };

static const int64_t start_ns = 100 * (int64_t)SECOND;

static struct shared {
    weir_policy fast, wide; /* an entry of one word, and one of two */
    weir_table *table[MODEL_THREADS + 1];
    bool done[MODEL_THREADS], allowed[MODEL_THREADS];
} * shared;

/* Keys that share both of their buckets, numbers 0 and 52 of 192. The tags of n and n + HIGH differ
 * in their high bits only. */
enum { HIGH = 1 << 16 };

static uint64_t colliding(uint64_t n)
{
    return 0x0123000000000000 | 0x45670000 | (n & 0xffff) | n >> 16 << 32;
}

/* Keys with the first bucket 0 or 52, and an alternate bucket of their own. */
static uint64_t loner(bool in_52, uint64_t n)
{
    return (uint64_t)(in_52 ? 17760 : 0x0123) << 48 | n << 28;
}

static weir_policy policy_of(const char *text)
{
    weir_policy p;
    MODEL_CHECK(weir_policy_parse(&p, text, strlen(text), NULL, NULL) == WEIR_OK);
    return p;
}

static void prepare(void)
{
    shared = model_alloc(sizeof *shared);
    shared->fast = policy_of("gcra 1/s burst 10");
    shared->wide = policy_of("gcra 1/s burst 10 & sliding-counter 100/h");
    void *part = model_alloc(WEIR_TABLE_BYTES_MIN);
    for (unsigned t = 0; t <= MODEL_THREADS; t++) {
        const weir_processes *p = t < MODEL_THREADS ? &processes[t] : &last_process;
        MODEL_CHECK(weir_table_open(&shared->table[t], part, WEIR_TABLE_BYTES_MIN, p, false) ==
                    WEIR_OK);
    }
}

/* Charges a key. Returns what remains; -1 if the charge is denied. */
static int64_t take_at(unsigned process, uint64_t hash, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    MODEL_CHECK(weir_table_take_one(shared->table[process], &shared->fast, hash, now_ns, cost,
                                    &d) == WEIR_OK);
    return d.allowed ? d.remaining : -1;
}

static void take(uint64_t hash)
{
    take_at(model_self(), hash, start_ns, 1);
    shared->done[model_self()] = true;
}

/* After the threads: each thread that ended has charged the key. A killed thread may have. */
static void check_charged(uint64_t hash, unsigned first, unsigned n, int64_t before)
{
    int64_t done = 0, dead = 0;
    for (unsigned t = first; t < first + n; t++) {
        done += shared->done[t];
        dead += model_is_dead(t);
    }
    int64_t left = take_at(MODEL_THREADS, hash, start_ns, 0);
    MODEL_CHECK(left <= 10 - before - done && left >= 10 - before - done - dead);
}

static void check_whole(void)
{
    weir_table *t = shared->table[MODEL_THREADS];
    weir_bucket_repair_all(&t->array);
    for (uint64_t b = 0; b < t->array.buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->array.buckets[b], &l);
        MODEL_CHECK(weir_line_sound(&l));
    }
    MODEL_CHECK(weir_table_stats_get(t).damaged == 0);
}

/* ---- one key --------------------------------------------------------------------------------- */

static void prepare_one(void)
{
    prepare();
    take_at(0, colliding(1), start_ns, 1);
}

static void take_1(void)
{
    take(colliding(1));
}

static void take_2(void)
{
    take(colliding(2));
}

static void check_update(void)
{
    check_whole();
    check_charged(colliding(1), 0, 2, 1);
}

static void check_insert_same(void)
{
    check_whole();
    check_charged(colliding(1), 0, 2, 0);
}

static void check_insert_both(void)
{
    check_whole();
    check_charged(colliding(1), 0, 1, 0);
    check_charged(colliding(2), 1, 1, 0);
}

/* Looks at a key that was charged before: it is never absent, and never has more left. */
static void look_1(void)
{
    int64_t first = take_at(model_self(), colliding(1), start_ns, 0);
    MODEL_CHECK(first <= 9);
    MODEL_CHECK(take_at(model_self(), colliding(1), start_ns, 0) <= first);
}

static void check_insert_beside(void)
{
    check_whole();
    MODEL_CHECK(take_at(MODEL_THREADS, colliding(1), start_ns, 0) == 9);
    check_charged(colliding(2), 0, 1, 0);
}

const model_scene model_table_update = {
    "table: two charges of a key", prepare_one, {take_1, take_1}, check_update, 0};
const model_scene model_table_update_death = {
    "table: a charge is killed", prepare_one, {take_1, take_1}, check_update, 3};
const model_scene model_table_insert_same = {
    "table: two insert a key", prepare, {take_1, take_1}, check_insert_same, 0};
const model_scene model_table_insert_both = {
    "table: two insert different keys", prepare, {take_1, take_2}, check_insert_both, 0};
const model_scene model_table_insert_look = {
    "table: an insertion and a look-up", prepare_one, {take_2, look_1}, check_insert_beside, 0};
const model_scene model_table_insert_death = {
    "table: an insertion is killed", prepare_one, {take_2, look_1}, check_insert_beside, 1};

/* ---- displacement ---------------------------------------------------------------------------- */

/* Buckets 0 and 52 are full. */
static void prepare_full(void)
{
    prepare();
    for (uint64_t n = 0; n < 8; n++)
        take_at(0, loner(n / 4, n % 4), start_ns, 1);
}

/* The key that is displaced first. */
static void look_displaced(void)
{
    MODEL_CHECK(take_at(model_self(), loner(true, 0), start_ns, 0) == 9);
}

static void take_displaced(void)
{
    take(loner(true, 0));
}

static void check_displaced(void)
{
    check_whole();
    for (uint64_t n = 0; n < 8; n++) {
        if (n != 4)
            MODEL_CHECK(take_at(MODEL_THREADS, loner(n / 4, n % 4), start_ns, 0) == 9);
    }
    check_charged(colliding(1), 0, 1, 0);
    check_charged(loner(true, 0), 1, 1, 1);
}

static void check_displaced_look(void)
{
    check_displaced();
    MODEL_CHECK(take_at(MODEL_THREADS, loner(true, 0), start_ns, 0) == 9);
}

const model_scene model_table_displace_look = {"table: a displacement and a look-up",
                                               prepare_full,
                                               {take_1, look_displaced},
                                               check_displaced_look,
                                               0};
const model_scene model_table_displace_take = {"table: a displacement and a charge",
                                               prepare_full,
                                               {take_1, take_displaced},
                                               check_displaced,
                                               0};
const model_scene model_table_displace_death = {
    "table: a displacement is killed", prepare_full, {take_1, take_displaced}, check_displaced, 1};

/* A key with two buckets that are `distance` apart. */
static uint64_t between(uint64_t first, uint64_t distance, uint64_t n)
{
    return weir_hash_of(shared->table[0], first, n << 32 | (((distance - 1) << 32) / 191 + 1));
}

/* A key with the first bucket 100 and the alternate one 10, or with 150 and 100. */
static uint64_t mover(bool in_150, uint64_t n)
{
    return between(in_150 ? 150 : 100, in_150 ? 142 : 102, n);
}

static void prepare_mover(void)
{
    prepare();
    for (uint64_t n = 0; n < 8; n++)
        take_at(0, mover(n / 4, n % 4), start_ns, 1);
}

/* Inserts a key, which displaces one from bucket 100 to bucket 10. */
static void displace_mover(void)
{
    take(between(100, 50, 0));
}

static void see_hash(void *ctx, uint64_t hash)
{
    unsigned *seen = ctx;
    for (unsigned n = 0; n < 4; n++)
        *seen |= (unsigned)(hash == mover(false, n)) << n;
}

static bool see_key(void *ctx, const weir_key_state *stored)
{
    see_hash(ctx, stored->hash);
    return true;
}

/* Reads bucket 10 before bucket 100, as weir_table_each() does. */
static void watch_mover(void)
{
    static const unsigned order[] = {10, 100};
    weir_table *t = shared->table[model_self()];
    unsigned seen = 0, noted = 0;
    weir_table_watch(&t, 1);
    for (unsigned i = 0; i < 2; i++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->buckets[order[i]], &l);
        for (unsigned e = 0; e < WEIR_LINE_ENTRIES; e++) {
            weir_bucket_entry entry = weir_line_get(&l, e);
            if (weir_line_live(&l) >> e & 1)
                see_hash(&seen, weir_entry_hash(t, &t->buckets[order[i]], &entry));
        }
    }
    MODEL_CHECK(weir_table_noted(t, see_hash, &noted));
    for (unsigned n = 0; n < 4; n++) {
        if (noted >> n & 1)
            weir_table_get(t, mover(false, n), see_key, &seen);
    }
    weir_table_unwatch(&t, 1);
    MODEL_CHECK(seen == 15);
}

static void check_mover(void)
{
    check_whole();
    for (uint64_t n = 0; n < 8; n++)
        MODEL_CHECK(take_at(MODEL_THREADS, mover(n / 4, n % 4), start_ns, 0) == 9);
    check_charged(between(100, 50, 0), 0, 1, 0);
}

const model_scene model_table_watch = {"table: a displacement while the table is copied",
                                       prepare_mover,
                                       {displace_mover, watch_mover},
                                       check_mover,
                                       0};

/* ---- time ------------------------------------------------------------------------------------ */

/* Four keys in bucket 0. The first is idle one second later, the others much later. */
static void prepare_idle(void)
{
    prepare();
    take_at(0, colliding(1), start_ns, 1);
    for (uint64_t n = 2; n <= 4; n++)
        take_at(0, colliding(n), start_ns, 10);
}

/* Inserts a key in the place of the first. */
static void replace_idle(void)
{
    take_at(model_self(), colliding(5), start_ns + 2 * SECOND, 1);
}

/* The first key is not idle yet: it has 9 left. If another thread has dropped it, the decision is
 * at the table's time. */
static void take_before_idle(void)
{
    weir_decision d;
    MODEL_CHECK(weir_table_take_one(shared->table[model_self()], &shared->fast, colliding(1),
                                    start_ns, 10, &d) == WEIR_OK);
    shared->allowed[model_self()] = d.allowed;
}

static bool is_late(void *ctx, const weir_key_state *stored)
{
    if ((stored->hash & WEIR_TAG_MASK) == (colliding(1) & WEIR_TAG_MASK))
        *(bool *)ctx = stored->fresh_at_ns >= start_ns + 12 * (int64_t)SECOND;
    return true;
}

static void check_idle(void)
{
    bool late = false;
    check_whole();
    weir_table_each(shared->table[MODEL_THREADS], is_late, &late);
    MODEL_CHECK(!shared->allowed[1] || late);
}

const model_scene model_table_idle = {"table: a key is dropped as idle, and charged",
                                      prepare_idle,
                                      {replace_idle, take_before_idle},
                                      check_idle,
                                      0};

/* ---- a key takes the place of another -------------------------------------------------------- */

/* Four keys in bucket 0. Key 1 is idle one second later, the others much later. */
static void prepare_idle_at(uint64_t entry)
{
    prepare();
    for (uint64_t n = 0; n < 4; n++)
        take_at(0, colliding(n == entry ? 1 : 10 + n), start_ns, n == entry ? 1 : 10);
}

static void prepare_idle_first(void)
{
    prepare_idle_at(0);
}

static void prepare_idle_last(void)
{
    prepare_idle_at(3);
}

/* The same in bucket 52: bucket 0 is full of other keys. */
static void prepare_alternate_at(uint64_t entry)
{
    prepare();
    for (uint64_t n = 0; n < 4; n++)
        take_at(0, colliding(20 + n), start_ns, 10);
    for (uint64_t n = 0; n < 4; n++)
        take_at(0, colliding(n == entry ? 1 : 10 + n), start_ns, n == entry ? 1 : 10);
}

static void prepare_alternate_first(void)
{
    prepare_alternate_at(0);
}

static void prepare_alternate_last(void)
{
    prepare_alternate_at(3);
}

static void insert_at(uint64_t n)
{
    take_at(model_self(), colliding(n), start_ns + 2 * (int64_t)SECOND, 10);
}

static void insert_low(void)
{
    insert_at(2);
}

static void insert_high(void)
{
    insert_at(1 + HIGH);
}

/* Key 1 has 9 left, or is idle at the table's time. */
static void look_old(void)
{
    int64_t left = take_at(model_self(), colliding(1), start_ns, 0);
    MODEL_CHECK(left == 9 || left == 10);
}

/* The new key has nothing left, or is not there yet. */
static void look_at(uint64_t n)
{
    int64_t left = take_at(model_self(), colliding(n), start_ns, 0);
    MODEL_CHECK(left <= 0 || left == 10);
}

static void look_low(void)
{
    look_at(2);
}

static void look_high(void)
{
    look_at(1 + HIGH);
}

static void look_old_low(void)
{
    look_old();
    look_low();
}

static void look_old_high(void)
{
    look_old();
    look_high();
}

/* The others have nothing left. */
static void check_others(void)
{
    check_whole();
    unsigned there = 0;
    for (uint64_t n = 0; n < 4; n++)
        there += take_at(MODEL_THREADS, colliding(10 + n), start_ns, 0) <= 2;
    MODEL_CHECK(there >= 3);
}

static void check_low(void)
{
    check_others();
    look_old();
    look_low();
}

static void check_high(void)
{
    check_others();
    look_old();
    look_high();
}

const model_scene model_table_replace_low = {"table: a key is replaced, and looked up",
                                             prepare_idle_first,
                                             {insert_low, look_old_low},
                                             check_low,
                                             0};
const model_scene model_table_replace_high = {
    "table: a key is replaced by one with other high bits",
    prepare_idle_first,
    {insert_high, look_old_high},
    check_high,
    0};
const model_scene model_table_replace_last = {"table: the last key of a bucket is replaced",
                                              prepare_idle_last,
                                              {insert_low, look_old_low},
                                              check_low,
                                              0};
const model_scene model_table_replace_alternate = {
    "table: a key in its alternate bucket is replaced",
    prepare_alternate_first,
    {insert_low, look_old_low},
    check_low,
    0};
const model_scene model_table_replace_alternate_high = {
    "table: a key in its alternate bucket is replaced by one with other high bits",
    prepare_alternate_first,
    {insert_high, look_old_high},
    check_high,
    0};
const model_scene model_table_replace_alternate_last = {
    "table: the last key of an alternate bucket is replaced",
    prepare_alternate_last,
    {insert_low, look_old_low},
    check_low,
    0};
const model_scene model_table_replace_death = {"table: the replacement of a key is killed",
                                               prepare_idle_first,
                                               {insert_low, look_old},
                                               check_low,
                                               1};
const model_scene model_table_replace_high_death = {
    "table: the replacement by one with other high bits is killed",
    prepare_idle_first,
    {insert_high, look_old},
    check_high,
    1};

/* ---- the alternate bucket -------------------------------------------------------------------- */

/* Bucket 0 is full, so two keys go to bucket 52. */
static void prepare_first_full(void)
{
    prepare();
    for (uint64_t n = 0; n < 4; n++)
        take_at(0, colliding(10 + n), start_ns, 1);
}

static void look_2(void)
{
    int64_t first = take_at(model_self(), colliding(2), start_ns, 0);
    MODEL_CHECK(take_at(model_self(), colliding(2), start_ns, 0) <= first);
}

static void check_second(void)
{
    check_whole();
    check_charged(colliding(2), 0, 1, 0);
}

const model_scene model_table_alternate_both = {"table: two insert keys in an alternate bucket",
                                                prepare_first_full,
                                                {take_1, take_2},
                                                check_insert_both,
                                                0};
const model_scene model_table_alternate_look = {
    "table: an insertion in an alternate bucket and a look-up",
    prepare_first_full,
    {take_2, look_2},
    check_second,
    0};

/* ---- states of several words, and transactions ----------------------------------------------- */

typedef struct charge {
    int64_t cost;
    weir_decision decision;
} charge;

static weir_status check_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    charge *c = ctx;
    return weir_check(p, state, level, now_ns, c->cost, &c->decision);
}

static int64_t take_wide_at(unsigned process, uint64_t hash, int64_t cost)
{
    charge c = {.cost = cost};
    MODEL_CHECK(weir_table_run(shared->table[process], &shared->wide, hash, start_ns, check_state,
                               &c) == WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static void take_wide(void)
{
    take_wide_at(model_self(), colliding(1), 1);
    shared->done[model_self()] = true;
}

static void look_wide(void)
{
    int64_t first = take_wide_at(model_self(), colliding(1), 0);
    MODEL_CHECK(take_wide_at(model_self(), colliding(1), 0) <= first);
}

static void prepare_wide(void)
{
    prepare();
    take_wide_at(0, colliding(1), 1);
}

static void check_wide_of(unsigned n)
{
    check_whole();
    int64_t left = take_wide_at(MODEL_THREADS, colliding(1), 0), done = 0, dead = 0;
    for (unsigned t = 0; t < n; t++) {
        done += shared->done[t];
        dead += model_is_dead(t);
    }
    MODEL_CHECK(left <= 9 - done && left >= 9 - done - dead);
}

static void check_wide(void)
{
    check_wide_of(2);
}

static void check_wide_one(void)
{
    check_wide_of(1);
}

static bool keep_all(void *ctx, const weir_table_one *ones)
{
    (void)ctx;
    return ones[0].status == WEIR_OK && ones[1].status == WEIR_OK;
}

static void finish(void *ctx, bool written)
{
    (void)ctx;
    MODEL_CHECK(written);
}

static void take_two(uint64_t a, uint64_t b)
{
    charge c[2] = {{.cost = 1}, {.cost = 1}};
    weir_table_one ones[2] = {{&shared->fast, a, check_state, &c[0], WEIR_OK, NULL},
                              {&shared->fast, b, check_state, &c[1], WEIR_OK, NULL}};
    MODEL_CHECK(weir_table_run_many(shared->table[model_self()], ones, 2, start_ns, keep_all,
                                    finish, NULL) == WEIR_OK);
    shared->done[model_self()] = true;
}

static void take_both(void)
{
    take_two(loner(false, 0), loner(true, 1));
}

static void take_both_reversed(void)
{
    take_two(loner(true, 1), loner(false, 0));
}

static void check_both(void)
{
    check_whole();
    check_charged(loner(false, 0), 0, 2, 0);
    check_charged(loner(true, 1), 0, 2, 0);
}

const model_scene model_table_wide = {
    "table: two charges of several words", prepare_wide, {take_wide, take_wide}, check_wide, 0};
const model_scene model_table_wide_look = {"table: a charge of several words and a look-up",
                                           prepare_wide,
                                           {take_wide, look_wide},
                                           check_wide_one,
                                           0};
const model_scene model_table_wide_death = {"table: a charge of several words is killed",
                                            prepare_wide,
                                            {take_wide, take_wide},
                                            check_wide,
                                            3};
const model_scene model_table_many = {
    "table: two transactions", prepare, {take_both, take_both_reversed}, check_both, 0};

/* ---- moves of a state, and their journal ----------------------------------------------------- */

enum { FROM = 11, TO = 12 };

/* Completes a move whose thread was killed. */
static void complete_at(unsigned process)
{
    weir_table *t = shared->table[process];
    uint64_t from, to;
    if (!weir_table_move_take_over(t, 0, &from, &to))
        return;
    MODEL_CHECK(!shared->done[0] && from == loner(false, 0) && to == loner(true, 1));
    if (weir_table_has(t, to))
        weir_table_reset(t, from);
    weir_table_move_end(t, 0);
}

static void complete(void)
{
    complete_at(model_self());
}

static void journal_first(void)
{
    size_t slot = weir_table_move_begin(shared->table[0], 1, 2);
    weir_table_move_end(shared->table[0], slot);
}

/* Is killed in the middle of a move. */
static void journal_then_die(void)
{
    MODEL_CHECK(weir_table_move_begin(shared->table[1], FROM, TO) < WEIR_TABLE_MOVES);
    take_1();
    model_die();
}

/* The journal has the second move, if it has begun; never the first one. */
static void check_journal(void)
{
    weir_table *t = shared->table[MODEL_THREADS];
    for (size_t slot = 0; slot < WEIR_TABLE_MOVES; slot++) {
        uint64_t from, to;
        if (!weir_table_move_take_over(t, slot, &from, &to))
            continue;
        MODEL_CHECK(from == FROM && to == TO);
        weir_table_move_end(t, slot);
        shared->done[1] = false;
    }
    MODEL_CHECK(!shared->done[1]);
}

static bool begin_move(void *ctx, const weir_table_one *ones)
{
    (void)ones;
    *(size_t *)ctx = weir_table_move_begin(shared->table[0], loner(false, 0), loner(true, 1));
    return true;
}

static void written(void *ctx, bool all)
{
    (void)ctx;
    MODEL_CHECK(all);
}

static weir_status take_out(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, weir_usage *ret_usage)
{
    (void)p, (void)level, (void)now_ns, (void)ret_usage;
    *(uint64_t *)ctx = state[0];
    state[0] = 0;
    return WEIR_OK;
}

static weir_status put_in(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                          int64_t now_ns, weir_usage *ret_usage)
{
    (void)p, (void)level, (void)now_ns, (void)ret_usage;
    state[0] = *(uint64_t *)ctx;
    return WEIR_OK;
}

static void prepare_move(void)
{
    prepare();
    take_at(0, loner(false, 0), start_ns, 4);
}

static void move(void)
{
    uint64_t state = 0;
    size_t slot = WEIR_TABLE_MOVES;
    weir_table_one ones[2] = {{&shared->fast, loner(false, 0), take_out, &state, WEIR_OK, NULL},
                              {&shared->fast, loner(true, 1), put_in, &state, WEIR_OK, NULL}};
    MODEL_CHECK(weir_table_run_many(shared->table[0], ones, 2, start_ns, begin_move, written,
                                    &slot) == WEIR_OK);
    weir_table_move_end(shared->table[0], slot);
    shared->done[0] = true;
}

/* The state is at one of its two places, whenever the move was killed. */
static void check_move(void)
{
    check_whole();
    complete_at(MODEL_THREADS);
    int64_t before = take_at(MODEL_THREADS, loner(false, 0), start_ns, 0);
    int64_t after = take_at(MODEL_THREADS, loner(true, 1), start_ns, 0);
    MODEL_CHECK(before + after == 16);
    MODEL_CHECK(before == 10 || (before == 6 && !shared->done[0]));
}

const model_scene model_table_journal = {"table: a slot of the journal is taken again",
                                         prepare,
                                         {journal_first, journal_then_die},
                                         check_journal,
                                         2};
const model_scene model_table_move_death = {
    "table: a move is killed, and completed", prepare_move, {move, complete}, check_move, 1};
