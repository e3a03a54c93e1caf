/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of keys: each key once, in order, with a record of its own. */

#include "accesslog/key_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

enum { KEYS = 20000, WORDS = 3 };

/* A record of a caller. */
typedef struct record {
    accesslog_key base;
    uint64_t words[WORDS];
} record;

static record *record_at(accesslog_key_table *t, const char *text, size_t len)
{
    return (record *)accesslog_key_table_at(t, text, len);
}

static void check_records(void **unused)
{
    (void)unused;
    accesslog_key_table *t = accesslog_key_table_open(sizeof(record));
    assert_non_null(t);
    assert_null(accesslog_key_table_first(t));
    for (uint64_t i = 0; i < 2 * KEYS; i++) { /* each key twice */
        char text[32];
        int len = snprintf(text, sizeof text, "key %d", (int)(i % KEYS));
        record *r = record_at(t, text, (size_t)len);
        assert_non_null(r);
        assert_int_equal((uintptr_t)r % sizeof(uint64_t), 0);
        for (size_t w = 0; w < WORDS; w++) {
            assert_int_equal(r->words[w], i / KEYS * (i % KEYS + w));
            r->words[w] = i % KEYS + w;
        }
    }
    assert_int_equal(accesslog_key_table_count(t), KEYS);
    uint32_t n = 0;
    for (const accesslog_key *k = accesslog_key_table_first(t); k; k = k->next, n++) {
        char text[32];
        int len = snprintf(text, sizeof text, "key %d", (int)n);
        assert_int_equal(k->number, n);
        assert_int_equal(k->len, len);
        assert_memory_equal(accesslog_key_text(k), text, (size_t)len);
    }
    assert_int_equal(n, KEYS);
    accesslog_key_table_close(t);
    accesslog_key_table_close(NULL);
}

/* The empty key, a prefix, a key above the size of a chunk, and the smallest record. */
static void check_texts(void **unused)
{
    (void)unused;
    static char longest[3 << 20];
    memset(longest, 'x', sizeof longest);
    accesslog_key_table *t = accesslog_key_table_open(sizeof(accesslog_key));
    assert_non_null(t);
    assert_ptr_equal(accesslog_key_table_at(t, "", 0), accesslog_key_table_at(t, "x", 0));
    assert_ptr_not_equal(accesslog_key_table_at(t, "key 1", 4),
                         accesslog_key_table_at(t, "key 1", 5));
    const accesslog_key *k = accesslog_key_table_at(t, longest, sizeof longest);
    assert_memory_equal(accesslog_key_text(k), longest, sizeof longest);
    assert_ptr_equal(accesslog_key_table_at(t, longest, sizeof longest), k);
    assert_int_equal(accesslog_key_table_count(t), 4);
    accesslog_key_table_close(t);
}

/* Memory beside the keys is zeroed, aligned, and does not overlap them. */
static void check_memory_beside(void **unused)
{
    (void)unused;
    accesslog_key_table *t = accesslog_key_table_open(sizeof(record));
    assert_non_null(t);
    for (int i = 0; i < KEYS; i++) {
        static const uint8_t zeros[24];
        record *r = record_at(t, (const char *)&i, sizeof i);
        size_t bytes = 1 + (size_t)i % sizeof zeros;
        uint8_t *beside = accesslog_key_table_alloc(t, bytes);
        assert_non_null(beside);
        assert_int_equal((uintptr_t)beside % sizeof(uint64_t), 0);
        assert_memory_equal(beside, zeros, bytes);
        memset(beside, 0xFF, bytes);
        assert_memory_equal(r->words, zeros, sizeof r->words);
        memset(r->words, 0xFF, sizeof r->words);
    }
    int n = 0;
    for (const accesslog_key *k = accesslog_key_table_first(t); k; k = k->next, n++)
        assert_memory_equal(accesslog_key_text(k), &n, sizeof n);
    assert_int_equal(n, KEYS);
    accesslog_key_table_close(t);
}

/* The three steps find what one step finds. */
static void check_steps(void **unused)
{
    (void)unused;
    accesslog_key_table *t = accesslog_key_table_open(sizeof(record));
    assert_non_null(t);
    uint64_t a = accesslog_key_table_hash(t, "a", 1), b = accesslog_key_table_hash(t, "b", 1);
    assert_null(accesslog_key_table_prefetch(t, a));
    accesslog_key *key = accesslog_key_table_at(t, "a", 1);
    assert_ptr_equal(accesslog_key_table_prefetch(t, a), key);
    assert_ptr_equal(accesslog_key_table_at_hash(t, a, "a", 1), key);
    assert_null(accesslog_key_table_prefetch(t, b));
    key = accesslog_key_table_at_hash(t, b, "b", 1);
    assert_ptr_equal(accesslog_key_table_at(t, "b", 1), key);
    accesslog_key_table_close(t);
}

static bool try_open(uint64_t n, bool later)
{
    memory_fail(n, later);
    accesslog_key_table *t = accesslog_key_table_open(sizeof(record));
    bool failed = memory_stop();
    assert_int_equal(t == NULL, failed);
    accesslog_key_table_close(t);
    return failed;
}

/* A key that cannot be added leaves the table as it was. */
static void check_without_memory(void **unused)
{
    (void)unused;
    char text[16];
    fail_each_allocation(try_open);
    accesslog_key_table *t = accesslog_key_table_open(sizeof(record));
    assert_non_null(t);
    memory_fail(0, true); /* no chunk */
    assert_null(accesslog_key_table_at(t, "a", 1));
    memory_fail(1, true);
    int i = 0;
    for (; snprintf(text, sizeof text, "%d", i) > 0 && accesslog_key_table_at(t, text, 8); i++)
        ;
    assert_true(memory_stop());
    assert_int_equal(accesslog_key_table_count(t), i);
    assert_true(i >= 2048); /* it could not grow */
    assert_non_null(accesslog_key_table_at(t, text, 8));
    assert_int_equal(accesslog_key_table_count(t), i + 1);
    accesslog_key_table_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_records),        cmocka_unit_test(check_texts),
        cmocka_unit_test(check_memory_beside),  cmocka_unit_test(check_steps),
        cmocka_unit_test(check_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
