/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Full buckets: the place of a new key, and the key that gives way. Also keys whose limits
 * change. */

#include "store/table/table_kit_test.h"

enum { FULL = WEIR_LINE_ENTRIES }; /* entries of `tat` that fill a bucket */

typedef struct fixture {
    void *part;
    weir_table *table;
    weir_policy tat;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){.part = part_of(WEIR_TABLE_BYTES_MIN), .tat = policy_of("gcra 1/s burst 100")};
    f->table = open_part(f->part, WEIR_TABLE_BYTES_MIN, &alone, false);
}

static void close_fixture(fixture *f)
{
    weir_table_close(f->table);
    munmap(f->part, WEIR_TABLE_BYTES_MIN);
}

/* Charges a key that collides with all others. Returns what remains. */
static int64_t take(fixture *f, uint64_t n, int64_t now_ns, bool hot, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(charge_key(f->table, &f->tat, colliding(n), now_ns, hot, &c), WEIR_OK);
    assert_true(c.decision.allowed);
    return c.decision.remaining;
}

static uint64_t evicted(const fixture *f)
{
    return weir_table_stats_get(f->table).evicted;
}

/* On the fast path, a new key takes the place of the idle one, wherever that is. */
static void idle_is_overwritten(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * FULL; i++) {
        fixture f;
        weir_line l;
        open_fixture(&f);
        for (unsigned n = 0; n < (i < FULL ? FULL : 2 * FULL); n++)
            take(&f, n, s_ns, true, n == i ? 2 : 90);
        assert_int_equal(take(&f, 1000, 3 * s_ns, true, 1), 99);
        weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(1000));
        weir_bucket_copy(&f.table->array, i < FULL ? at.first : at.alternate, &l);
        assert_int_equal(weir_line_find(&l, at.tag, i >= FULL), i % FULL);
        assert_int_equal(evicted(&f), 0);
        check_whole(f.table);
        close_fixture(&f);
    }
}

/* If two keys are equally close to idle, the one in the first bucket is evicted. */
static void equally_close_to_idle(void **state)
{
    (void)state;
    static const int64_t costs[2 * FULL] = {50, 50, 10, 50, 50, 10, 50, 50};
    for (int cold = 0; cold < 2; cold++) { /* on the fast path, no search precedes */
        fixture f;
        open_fixture(&f);
        for (uint64_t n = 0; n < 2 * FULL; n++)
            take(&f, n, s_ns, true, costs[n]);
        port_store_relaxed(&f.table->head->counts[0].skip, !cold);
        take(&f, 1000, s_ns, !cold, 20);
        for (uint64_t n = 0; n < 2 * FULL; n++)
            assert_int_equal(take(&f, n, s_ns, true, 0), n == 2 ? 100 : 100 - costs[n]);
        assert_int_equal(evicted(&f), 1);
        close_fixture(&f);
    }
}

/* After a search in vain, the next WEIR_SKIPS searches are skipped, and no more. */
static void searches_begin_again(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (uint64_t n = 0; n < 2 * FULL + 3 * (WEIR_SKIPS + 1); n++) {
        take(&f, n, s_ns, n % 2 == 0, 50);
        assert_int_equal(port_load_relaxed(&f.table->head->counts[0].skip),
                         n < 2 * FULL ? 0 : WEIR_SKIPS - (n - 2 * FULL) % (WEIR_SKIPS + 1));
    }
    close_fixture(&f);
}

/* Locks all buckets but two, or unlocks them. */
static void lock_others(fixture *f, const weir_bucket_pair *but, uint64_t *headers, bool unlock)
{
    const weir_bucket_array *a = &f->table->array;
    for (uint64_t i = 0; i < a->buckets_len; i++) {
        weir_bucket *b = &a->buckets[i];
        if (b == but->first || b == but->alternate)
            continue;
        if (unlock) {
            assert_int_equal(port_word_load_relaxed(&b->word[0]), weir_header_lock(a, headers[i]));
            weir_bucket_unlock(b, headers[i]);
        } else {
            headers[i] = port_word_load_relaxed(&b->word[0]);
            assert_true(weir_bucket_try_lock(a, b, headers[i]));
        }
    }
}

/* An insertion does not wait for a bucket to which it could displace an entry, and does not change
 * it. It evicts a key instead. */
static void locked_buckets_are_left_alone(void **state)
{
    (void)state;
    enum { BUCKETS = 192 };
    static const uint64_t tops[] = {0x0123, 0x4567}; /* the buckets of colliding() */
    for (int hot = 0; hot < 2; hot++) {
        fixture f;
        uint64_t headers[BUCKETS];
        open_fixture(&f);
        assert_int_equal(f.table->array.buckets_len, BUCKETS);
        weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(0));
        for (uint64_t n = 0; n < 2 * FULL; n++) {
            charge c = {.cost = 50};
            charge_key(f.table, &f.tat, loner(tops[n % 2], 8 + n / 2), s_ns, true, &c);
        }
        lock_others(&f, &at, headers, false);
        assert_int_equal(take(&f, 0, s_ns, hot, 40), 60);
        assert_int_equal(evicted(&f), 1);
        lock_others(&f, &at, headers, true);
        assert_int_equal(take(&f, 1, s_ns, hot, 40), 60);
        assert_int_equal(evicted(&f), 1);
        assert_int_equal(check_whole(f.table), 2 * FULL + 1);
        close_fixture(&f);
    }
}

/* Leaves an old entry of a key in its alternate bucket, as a writer does that is killed while it
 * displaces the key. */
static void leave_behind(fixture *f, uint64_t hash, int64_t fresh_at_ns)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_bucket_pair at = weir_bucket_pair_of(f->table, hash);
    weir_bucket_entry e = {at.tag, fresh_at_ns, WEIR_FORM_TIME, true, {0}};
    weir_lock_set_pair(f->table, &h, &at);
    weir_line_add(&weir_lock_set_find(&h, at.alternate)->line, &e);
    weir_lock_set_commit(&h);
}

/* A new key displaces one of the two entries of a key: the valid one, which overwrites the old one,
 * or the old one, which is dropped. */
static void left_in_both_buckets(void **state)
{
    (void)state;
    static const uint64_t tops[] = {0x0123, 0x4567}; /* the buckets of colliding() */
    for (int old = 0; old < 2; old++) {
        fixture f;
        charge c = {.cost = 50};
        /* Keys whose first bucket has the entry that can be displaced. */
        const uint64_t others = tops[old] << 48 | 0x80000000 | 17;
        open_fixture(&f);
        take(&f, 0, s_ns, true, 30);
        if (!old)
            charge_key(f.table, &f.tat, loner(0x4567, 1), s_ns, true, &c);
        for (uint64_t n = 1; n < FULL; n++)
            charge_key(f.table, &f.tat, others | n << 32, s_ns, true, &c);
        leave_behind(&f, colliding(0), 6 * s_ns);
        for (uint64_t n = FULL; n < 2 * FULL; n++)
            charge_key(f.table, &f.tat, others | n << 32, s_ns, true, &c);
        assert_int_equal(weir_table_stats_get(f.table).keys, 2 * FULL + 1 + !old);
        charge_key(f.table, &f.tat, others | (uint64_t)2 * FULL << 32, s_ns, true, &c);
        assert_int_equal(evicted(&f), 0);
        assert_int_equal(take(&f, 0, s_ns, true, 0), 70);
        assert_int_equal(check_whole(f.table), 2 * FULL + 1 + !old);
        close_fixture(&f);
    }
}

/* ---- chains of displacements ----------------------------------------------------------------- */

/* A hash with these two buckets of 192, of the class of keys that refill in 69 to 137 s. */
static uint64_t between(uint64_t first, uint64_t alternate, uint64_t n)
{
    uint64_t distance = (alternate + 192 - first) % 192;
    uint64_t low = (((distance - 1) << 32) / 191 + 128) & ~(uint64_t)63;
    return (first * 65536 / 192 + 1) << 48 | n << 32 | low | 17;
}

/* Adds a key with a used share of used/256. */
static void put(fixture *f, uint64_t hash, int64_t used)
{
    weir_key_state s = {hash, s_ns + (used << 29), WEIR_FORM_TIME, 0, 0, NULL, 0};
    weir_table_now(f->table, s_ns);
    assert_int_equal(weir_table_put(f->table, &s), WEIR_OK);
}

static bool is_stored(fixture *f, uint64_t hash)
{
    charge c = {.cost = 0};
    assert_int_equal(charge_key(f->table, &f->tat, hash, s_ns, true, &c), WEIR_OK);
    return c.decision.remaining < 100;
}

/* Fills a bucket, which has some keys, with keys whose other bucket is `other`. */
static void fill(fixture *f, uint64_t bucket, uint64_t other, uint64_t len, int64_t used)
{
    for (uint64_t n = 0; n < len; n++)
        put(f, between(bucket, other, 100 + n), used);
}

/* Buckets 0 and 1, those of the new key, are full of keys that have used much. The lowest in rank
 * of one of them can be displaced to bucket 10 if the lowest there is displaced to bucket 11, and
 * so on. The last bucket of the chain has a key that has used little. Up to three displacements in
 * a row, that key is evicted. With more, the lowest of the new key's buckets is. */
static void the_least_used_at_the_end_of_a_chain(void **state)
{
    (void)state;
    enum { HIGH = 140, LOW = WEIR_CHEAP + 1 };
    for (unsigned i = 0; i < 4 * 4; i++) {
        fixture f;
        uint64_t chain = 1 + i / 4, from = i & 1, last = 9 + chain;
        open_fixture(&f);
        put(&f, between(from, 10, 1), LOW + (int64_t)from);
        if (from == 1)
            put(&f, between(0, 1, 1), LOW);
        fill(&f, 0, 1, FULL - 1, HIGH);
        fill(&f, 1, 0, FULL - from, HIGH);
        for (uint64_t b = 10; b <= last; b++) {
            put(&f, between(b, b + 1, 1), b == last ? 9 : LOW + (int64_t)b);
            fill(&f, b, 0, FULL - 1, HIGH);
        }
        port_store_relaxed(&f.table->head->counts[0].skip, 9);
        charge c = {.cost = 50};
        assert_int_equal(charge_key(f.table, &f.tat, between(0, 1, 99), s_ns, i & 2, &c), WEIR_OK);
        assert_int_equal(evicted(&f), 1);
        assert_int_equal(is_stored(&f, between(last, last + 1, 1)), chain >= WEIR_MOVES);
        assert_int_equal(is_stored(&f, between(0, from == 1 ? 1 : 10, 1)), chain < WEIR_MOVES);
        assert_true(is_stored(&f, between(0, 1, 99)));
        check_whole(f.table);
        close_fixture(&f);
    }
}

/* A key that has used little is evicted at once, even if another one has used less. */
static void little_used_is_evicted_at_once(void **state)
{
    (void)state;
    for (int64_t used = WEIR_CHEAP; used <= WEIR_CHEAP + 1; used++) {
        for (int hot = 0; hot < 2; hot++) {
            fixture f;
            open_fixture(&f);
            put(&f, between(0, 10, 1), used);
            fill(&f, 0, 1, FULL - 1, 140);
            fill(&f, 1, 0, FULL, 140);
            fill(&f, 10, 0, FULL, 9);
            port_store_relaxed(&f.table->head->counts[0].skip, 9);
            charge c = {.cost = 50};
            assert_int_equal(charge_key(f.table, &f.tat, between(0, 1, 99), s_ns, hot, &c),
                             WEIR_OK);
            assert_int_equal(evicted(&f), 1);
            assert_int_equal(is_stored(&f, between(0, 10, 1)), used > WEIR_CHEAP);
            close_fixture(&f);
        }
    }
}

/* Only the last key of a bucket can be displaced: of the others, some would have to return, and
 * some lead to buckets whose keys would. */
static void dead_ends(void **state)
{
    (void)state;
    for (uint64_t back = 0; back < FULL; back++) {
        fixture f;
        open_fixture(&f);
        for (uint64_t n = 0; n < FULL; n++) {
            put(&f, between(0, n < back ? 1 : 10 + n, n), 140);
            put(&f, between(10 + n, n == FULL - 1 ? 20 : 1, 1), 140);
            fill(&f, 10 + n, 0, FULL - 1, 140);
        }
        fill(&f, 1, 0, FULL, 140);
        charge c = {.cost = 50};
        assert_int_equal(charge_key(f.table, &f.tat, between(0, 1, 99), s_ns, back % 2, &c),
                         WEIR_OK);
        assert_int_equal(evicted(&f), 0);
        assert_int_equal(check_whole(f.table), 6 * FULL + 1);
        close_fixture(&f);
    }
}

/* ---- a locked bucket ------------------------------------------------------------------------- */

typedef struct locker {
    fixture *f;
    weir_bucket *bucket;
    uint64_t header;
    unsigned runs;
} locker;

/* Charges 10. Locks a bucket in the first run, and unlocks it in the second. */
static weir_status charge_and_lock(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                   int64_t now_ns, weir_usage *ret_usage)
{
    locker *l = ctx;
    charge c = {.cost = 10};
    if (l->runs++ == 0) {
        l->header = port_word_load_relaxed(&l->bucket->word[0]);
        assert_true(weir_bucket_try_lock(&l->f->table->array, l->bucket, l->header));
    } else if (weir_is_locked(l->bucket)) {
        weir_bucket_unlock(l->bucket, l->header);
    }
    return check(&c, p, state, level, now_ns, ret_usage);
}

/* An insertion uses the alternate bucket only if the first one is full. If the alternate one is
 * locked then, the call unlocks the first one and decides again. */
static void the_alternate_bucket_is_locked(void **state)
{
    (void)state;
    for (unsigned len = FULL - 1; len <= FULL; len++) {
        fixture f;
        open_fixture(&f);
        fill(&f, 0, 1, len, 140);
        locker l = {.f = &f, .bucket = &f.table->array.buckets[1]};
        assert_int_equal(
            weir_table_run(f.table, &f.tat, between(0, 1, 99), s_ns, charge_and_lock, &l), WEIR_OK);
        assert_int_equal(l.runs, len < FULL ? 1 : 2);
        if (len < FULL)
            weir_bucket_unlock(l.bucket, l.header);
        assert_true(is_stored(&f, between(0, 1, 99)));
        assert_int_equal(check_whole(f.table), len + 1);
        close_fixture(&f);
    }
}

static bool keep_all(void *ctx, const weir_table_one *ones)
{
    (void)ctx;
    (void)ones;
    return true;
}

static void finished(void *ctx, bool written)
{
    (void)ctx;
    assert_true(written);
}

/* A transaction finds and updates a key in its alternate bucket. */
static void a_transaction_in_the_alternate_bucket(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (uint64_t n = 0; n <= FULL; n++)
        take(&f, n, s_ns, true, 50);
    charge c = {.cost = 1};
    weir_table_one one = {&f.tat, colliding(FULL), check, &c, WEIR_E_BUSY, NULL};
    assert_int_equal(weir_table_run_many(f.table, &one, 1, s_ns, keep_all, finished, NULL),
                     WEIR_OK);
    assert_int_equal(take(&f, FULL, s_ns, true, 0), 49);
    assert_int_equal(check_whole(f.table), FULL + 1);
    close_fixture(&f);
}

/* A writer that was killed while it inserted a key into its alternate bucket has not marked the
 * first one. What a transaction charges is found by later lookups, which look at the mark. */
static void a_transaction_marks_the_first_bucket(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (uint64_t n = 0; n <= FULL; n++)
        take(&f, n, s_ns, true, 50);
    port_word *first = &weir_bucket_pair_of(f.table, colliding(FULL)).first->word[0];
    assert_true(port_word_load_relaxed(first) & WEIR_OVERFLOWED);
    port_word_store_relaxed(first, port_word_load_relaxed(first) & ~WEIR_OVERFLOWED);
    charge c = {.cost = 1};
    weir_table_one one = {&f.tat, colliding(FULL), check, &c, WEIR_E_BUSY, NULL};
    assert_int_equal(weir_table_run_many(f.table, &one, 1, s_ns, keep_all, finished, NULL),
                     WEIR_OK);
    assert_int_equal(take(&f, FULL, s_ns, true, 0), 49);
    assert_int_equal(take(&f, FULL, s_ns, false, 0), 49);
    assert_int_equal(check_whole(f.table), FULL + 1);
    close_fixture(&f);
}

/* A bucket that a call has locked but not changed keeps its version, so that other threads need not
 * decide again. */
static void unchanged_buckets_keep_their_version(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    weir_bucket_pair at = weir_bucket_pair_of(f.table, colliding(0));
    for (uint64_t n = 1; n < FULL; n++)
        take(&f, n, s_ns, true, 50);
    uint64_t first = port_word_load_relaxed(&at.first->word[0]),
             alternate = port_word_load_relaxed(&at.alternate->word[0]);
    weir_table_reset(f.table, colliding(0));
    assert_int_equal(port_word_load_relaxed(&at.first->word[0]), first);
    assert_int_equal(port_word_load_relaxed(&at.alternate->word[0]), alternate);
    weir_table_reset(f.table, colliding(1));
    assert_int_equal(port_word_load_relaxed(&at.first->word[0]) >> WEIR_VERSION_AT,
                     (first >> WEIR_VERSION_AT) + 2);
    assert_int_equal(port_word_load_relaxed(&at.alternate->word[0]), alternate);
    close_fixture(&f);
}

static weir_status keep_meanwhile(void *ctx, const weir_policy *p, uint64_t *words, unsigned level,
                                  int64_t now_ns, weir_usage *ret_usage)
{
    (void)p;
    (void)level;
    (void)ret_usage;
    weir_table_keep_until(ctx, now_ns + s_ns);
    words[0] = (uint64_t)(now_ns + s_ns);
    return WEIR_OK;
}

/* A key is not inserted if it may have another state by the time that its bucket is locked. */
static void a_change_meanwhile(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    const port_word *first = &weir_bucket_pair_of(f.table, colliding(0)).first->word[0];
    uint64_t header = port_word_load_relaxed(first);
    assert_int_equal(weir_table_run(f.table, &f.tat, colliding(0), s_ns, keep_meanwhile, f.table),
                     WEIR_E_ELSEWHERE);
    assert_int_equal(port_word_load_relaxed(first), header); /* it was unlocked */
    assert_false(weir_table_has(f.table, colliding(0)));
    close_fixture(&f);
}

/* A move of a killed process belongs to one other process, unless there is nothing to complete. */
static void taken_over(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    weir_table *t = f.table;
    weir_table_head *head = t->head;
    uint64_t from, to;
    for (uint64_t i = 0; i < 9; i++) {
        bool begun = i % 3 > 0 && i / 3 > 0;
        port_word_store_relaxed(&head->moves[1].from, i % 3);
        port_word_store_relaxed(&head->moves[1].to, i / 3);
        port_word_store_relaxed(&head->moves[1].owner, weir_process_id(7));
        assert_int_equal(weir_table_move_take_over(t, 1, &from, &to), begun);
        assert_int_equal(port_word_load_relaxed(&head->moves[1].owner),
                         begun ? t->array.processes->self : 0);
        if (begun)
            assert_true(from == i % 3 && to == i / 3);
        assert_false(weir_table_move_take_over(t, 1, &from, &to));
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_is_overwritten),
        cmocka_unit_test(equally_close_to_idle),
        cmocka_unit_test(searches_begin_again),
        cmocka_unit_test(locked_buckets_are_left_alone),
        cmocka_unit_test(left_in_both_buckets),
        cmocka_unit_test(the_least_used_at_the_end_of_a_chain),
        cmocka_unit_test(little_used_is_evicted_at_once),
        cmocka_unit_test(dead_ends),
        cmocka_unit_test(the_alternate_bucket_is_locked),
        cmocka_unit_test(a_transaction_in_the_alternate_bucket),
        cmocka_unit_test(a_transaction_marks_the_first_bucket),
        cmocka_unit_test(unchanged_buckets_keep_their_version),
        cmocka_unit_test(a_change_meanwhile),
        cmocka_unit_test(taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
