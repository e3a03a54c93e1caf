/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Notes of keys that move while the table is read. */

#include "store/table/table_kit_test.h"

enum { BUCKETS = 192, MARK = 50, FROM = 100, TO = 10, OTHER = 150, KEYS = 9 };

/* The hash of an entry with these two buckets in a table of BUCKETS buckets. */
static uint64_t hash_of(uint64_t first, uint64_t alternate, uint64_t n)
{
    const weir_table t = {.buckets_len = BUCKETS};
    uint64_t distance = (alternate + BUCKETS - first) % BUCKETS;
    return weir_hash_of(&t, first, n << 32 | (((distance - 1) << 32) / (BUCKETS - 1) + 1));
}

static void put(weir_table *t, uint64_t hash)
{
    const weir_key_state state = {
        .hash = hash, .fresh_at_ns = INT64_MAX / 2 | 0x3f, .form = WEIR_FORM_TIME};
    assert_int_equal(weir_table_put(t, &state), WEIR_OK);
}

static weir_table *open_table(void *part, const weir_processes *p)
{
    weir_table *t = NULL;
    assert_int_equal(weir_table_open(&t, part, WEIR_TABLE_BYTES_MIN, p, true), WEIR_OK);
    assert_int_equal(t->buckets_len, BUCKETS);
    return t;
}

static char *part;

static weir_table *new_table(void)
{
    part = aligned_alloc(4096, WEIR_TABLE_BYTES_MIN);
    assert_non_null(part);
    memset(part, 0, WEIR_TABLE_BYTES_MIN);
    return open_table(part, &alone);
}

static void close_table(weir_table *t)
{
    weir_table_close(t);
    free(part);
}

typedef struct reading {
    weir_table *table;
    uint64_t seen[2 * KEYS], noted[64];
    size_t len, noted_len;
} reading;

static bool see(void *ctx, const weir_key_state *stored)
{
    reading *r = ctx;
    r->seen[r->len++] = stored->hash;
    if (stored->hash == hash_of(MARK, MARK + 1, 0))
        put(r->table, hash_of(FROM, OTHER, 9));
    return true;
}

static void add(void *ctx, uint64_t hash)
{
    reading *r = ctx;
    assert_true(r->noted_len < 64);
    r->noted[r->noted_len++] = hash;
}

static size_t times_seen(const reading *r, uint64_t hash)
{
    size_t n = 0;
    for (size_t i = 0; i < r->len; i++)
        n += r->seen[i] == hash;
    return n;
}

/* When the reader is at the bucket MARK, a new key displaces one of FROM, which is not read yet, to
 * TO, which is. */
static void a_key_that_moves(void **unused)
{
    (void)unused;
    for (int watched = 0; watched <= 1; watched++) {
        weir_table *t = new_table();
        reading r = {.table = t};
        put(t, hash_of(MARK, MARK + 1, 0));
        for (uint64_t n = 1; n <= 4; n++) {
            put(t, hash_of(FROM, TO, n));
            put(t, hash_of(OTHER, FROM, n));
        }
        if (watched)
            weir_table_watch(&t, 1);
        assert_true(weir_table_each(t, see, &r));
        assert_int_equal(r.len, KEYS); /* with the new one, without the one that moved */
        assert_true(weir_table_noted(t, add, &r));
        assert_int_equal(r.noted_len, watched);
        assert_int_equal(weir_table_notes(t), watched);
        if (watched) {
            assert_int_equal(times_seen(&r, r.noted[0]), 0);
            weir_table_get(t, r.noted[0], see, &r);
            assert_int_equal(times_seen(&r, r.noted[0]), 1);
            for (uint64_t n = 1; n <= 4; n++)
                assert_int_equal(times_seen(&r, hash_of(FROM, TO, n)), 1);
            assert_true(weir_table_noted(t, add, &r));
            assert_int_equal(r.noted_len, 1);
            weir_table_unwatch(&t, 1);
        }
        close_table(t);
    }
}

static void get(void **unused)
{
    (void)unused;
    weir_table *t = new_table();
    reading r = {.table = t};
    for (uint64_t n = 1; n <= 5; n++) /* the last one lies in its alternate bucket */
        put(t, hash_of(FROM, TO, n));
    for (uint64_t n = 0; n <= 6; n++) {
        r.len = 0;
        weir_table_get(t, hash_of(FROM, TO, n), see, &r);
        assert_int_equal(r.len, n >= 1 && n <= 5);
        assert_int_equal(times_seen(&r, hash_of(FROM, TO, n)), r.len);
    }
    close_table(t);
}

static void notes(void **unused)
{
    (void)unused;
    enum { PROBES = 16 };
    weir_table *t = new_table();
    reading r = {.table = t};
    weir_table_note(t, 77); /* not watched */
    weir_table_watch(&t, 1);
    assert_true(weir_table_noted(t, add, &r));
    assert_int_equal(r.noted_len, 0);
    for (uint64_t n = 1; n <= PROBES + 1; n++) {
        r.noted_len = 0;
        for (uint64_t i = 0; i < n; i++) {
            weir_table_note(t, (i + 1) * WEIR_TABLE_NOTES);
            weir_table_note(t, (i + 1) * WEIR_TABLE_NOTES); /* takes no more space */
        }
        assert_int_equal(weir_table_noted(t, add, &r), n <= PROBES);
        assert_int_equal(r.noted_len, n <= PROBES ? n : PROBES);
    }
    assert_true(weir_table_noted(t, add, &r)); /* nothing is lost any more */
    r.noted_len = 0;
    size_t from = weir_table_move_begin(t, 5, hash_of(FROM, TO, 6));
    assert_true(weir_table_noted(t, add, &r));
    assert_int_equal(r.noted_len, 1);
    assert_true(r.noted[0] == hash_of(FROM, TO, 6));
    weir_table_move_end(t, from);
    weir_table_unwatch(&t, 1);
    weir_table_note(t, 77);
    assert_true(weir_table_noted(t, add, &r));
    assert_int_equal(r.noted_len, 1);
    close_table(t);
}

static bool nobody(const void *ctx, uint64_t id)
{
    (void)ctx;
    (void)id;
    return false;
}

/* A watcher was killed: its notes are dropped, and the next one does not wait. One with the id of
 * this opening is not waited for either. */
static void a_watcher_dies(void **unused)
{
    (void)unused;
    weir_table *t = new_table(), *next;
    reading r = {.table = t};
    const weir_processes other = {.self = 3, .alive = nobody};
    weir_table_watch(&t, 1);
    weir_table_note(t, 77);
    next = open_table(part, &other);
    weir_table_watch(&next, 1);
    assert_true(weir_table_noted(next, add, &r));
    assert_int_equal(r.noted_len, 0);
    weir_table_note(t, 78);
    assert_true(weir_table_noted(next, add, &r));
    assert_int_equal(r.noted_len, 1);
    weir_table_close(next);
    next = open_table(part, &other);
    weir_table_watch(&next, 1);
    weir_table_unwatch(&next, 1);
    weir_table_close(next);
    close_table(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_moves),
        cmocka_unit_test(get),
        cmocka_unit_test(notes),
        cmocka_unit_test(a_watcher_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
