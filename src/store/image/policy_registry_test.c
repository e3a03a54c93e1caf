/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The policy registry: full, damaged, and used by many threads. */

#include "store/image/policy_registry.h"

#include "port/port.h"
#include "tests/store/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENTRIES_AT = 4096, TEXTS_AT = ENTRIES_AT + WEIR_POLICY_REGISTRY_ENTRIES * 16 };

static int make_registry(void **state)
{
    *state = calloc(1, WEIR_POLICY_REGISTRY_BYTES);
    return *state ? 0 : -1;
}

static int drop_registry(void **state)
{
    free(*state);
    return 0;
}

static weir_policy_registry at(void *part)
{
    return weir_policy_registry_at(part, WEIR_POLICY_REGISTRY_BYTES);
}

static void assert_text(const weir_policy_registry *r, uint64_t id, const char *text)
{
    char buf[1024];
    assert_int_equal(weir_policy_registry_text(r, id, buf, sizeof buf), strlen(text));
    if (text[0])
        assert_string_equal(buf, text);
}

static bool note(weir_policy_registry *r, uint64_t id, const char *text)
{
    return weir_policy_registry_note(r, id, text, strlen(text), true);
}

static uint64_t used(const weir_policy_registry *r)
{
    uint64_t n;
    memcpy(&n, r->part, sizeof n);
    return n;
}

static void check_notes(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    assert_text(r, 1, "");
    assert_true(note(r, 1, "gcra 1/s"));
    assert_true(note(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 2/s")); /* of the same entry */
    assert_true(note(r, UINT64_MAX, "x"));
    uint64_t before = used(r);
    assert_true(note(r, 1, "gcra 1/s"));
    assert_int_equal(used(r), before); /* stored only once */
    assert_text(r, 1, "gcra 1/s");
    assert_text(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 2/s");
    assert_text(r, UINT64_MAX, "x");
    assert_text(r, 1 + 2 * WEIR_POLICY_REGISTRY_ENTRIES, "");
    assert_int_equal(weir_policy_registry_len(r), 3);
    char buf[8];
    assert_int_equal(weir_policy_registry_text(r, 1, buf, sizeof buf), 0); /* does not fit */
    assert_false(note(r, 0, "x"));
    assert_text(r, 0, "");
    assert_false(weir_policy_registry_note(r, 9, "", 0, true));
    WEIR_CHECK(weir_policy_registry_check(r));
}

typedef struct seen {
    uint64_t ids; /* the sum of all ids */
    size_t len, most;
} seen;

static bool see(void *ctx, uint64_t id, const char *text, size_t len)
{
    seen *t = ctx;
    assert_int_equal(len, 3);
    assert_int_equal(text[0], 'p');
    t->ids += id;
    return ++t->len < t->most;
}

static bool count(void *ctx, uint64_t id, const char *text, size_t len)
{
    seen *t = ctx;
    t->ids += id;
    t->len += text[len - 1] != '\0';
    return true;
}

static void check_each(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    seen none = {.most = 9}, all = {.most = 9}, two = {.most = 2};
    weir_policy_registry_each(r, see, &none);
    assert_int_equal(none.len, 0);
    for (uint64_t id = 5; id < 8; id++)
        assert_true(note(r, id, "p/s"));
    weir_policy_registry_each(r, see, &all);
    assert_int_equal(all.len, 3);
    assert_int_equal(all.ids, 5 + 6 + 7);
    weir_policy_registry_each(r, see, &two);
    assert_int_equal(two.len, 2);
}

static void check_many(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    char text[32];
    for (uint64_t i = 1; i <= WEIR_POLICY_REGISTRY_ENTRIES; i++) {
        snprintf(text, sizeof text, "gcra %u/s", (unsigned)i);
        assert_true(note(r, i * 0x9E3779B97F4A7C15, text));
    }
    uint64_t before = used(r);
    assert_false(note(r, 12345, "one more"));
    assert_text(r, 12345, "");
    assert_int_equal(used(r), before);
    assert_int_equal(weir_policy_registry_len(r), WEIR_POLICY_REGISTRY_ENTRIES);
    for (uint64_t i = 1; i <= WEIR_POLICY_REGISTRY_ENTRIES; i++) {
        snprintf(text, sizeof text, "gcra %u/s", (unsigned)i);
        assert_text(r, i * 0x9E3779B97F4A7C15, text);
    }
    WEIR_CHECK(weir_policy_registry_check(r));
}

static void check_long_ones(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    char text[1001];
    memset(text, 'a', 1000);
    text[1000] = '\0';
    uint64_t n = 0;
    while (note(r, n + 1, text))
        n++;
    assert_int_equal(n, WEIR_POLICY_REGISTRY_TEXT_BYTES / 1008);
    assert_text(r, n, text);
    assert_text(r, n + 1, "");
    while (note(r, ++n + 1, "short ones still fit") ||
           used(r) + 32 <= WEIR_POLICY_REGISTRY_TEXT_BYTES)
        assert_text(r, n + 1, "short ones still fit");
    assert_true(used(r) <= WEIR_POLICY_REGISTRY_TEXT_BYTES);
    WEIR_CHECK(weir_policy_registry_check(r));
}

/* A forgotten id has no text, and its space is used for another one. */
static void check_forget(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    assert_true(note(r, 1, "gcra 1/s"));
    assert_true(note(r, 2, "gcra 2/s"));
    assert_true(note(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "fixed-window 7/m"));
    uint64_t before = used(r);
    weir_policy_registry_forget(r, 1);
    weir_policy_registry_forget(r, 1);
    weir_policy_registry_forget(r, 0);
    weir_policy_registry_forget(r, 77);
    assert_text(r, 1, "");
    assert_text(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "fixed-window 7/m"); /* behind it */
    assert_int_equal(weir_policy_registry_len(r), 2);
    seen all = {.most = 9};
    weir_policy_registry_each(r, count, &all);
    assert_int_equal(all.len, 2);
    WEIR_CHECK(weir_policy_registry_check(r));
    uint64_t other = 1 + 2 * WEIR_POLICY_REGISTRY_ENTRIES; /* its search begins at the same entry */
    assert_true(note(r, other, "gcra 3/s"));
    assert_text(r, other, "gcra 3/s");
    assert_text(r, 1, "");
    assert_int_equal(used(r), before);
    assert_int_equal(weir_policy_registry_len(r), 3);
    assert_true(note(r, 1, "gcra 1/s")); /* in another entry */
    assert_text(r, 1, "gcra 1/s");
    assert_int_equal(used(r), before + 16);
    WEIR_CHECK(weir_policy_registry_check(r));
    weir_policy_registry_forget(r, 2);
    assert_true(note(r, 2, "gcra 9/m")); /* an id may get another text */
    assert_text(r, 2, "gcra 9/m");
    assert_int_equal(used(r), before + 16);
}

/* An id without a text, of a process that was killed, gets its own text. */
static void check_incomplete(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    uint8_t *bytes = *state;
    bytes[ENTRIES_AT + 1 * 16] = 1;
    assert_int_equal(weir_policy_registry_len(r), 1);
    assert_text(r, 1, "");
    assert_true(note(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 2/s"));
    assert_int_equal(weir_policy_registry_len(r), 2);
    assert_true(note(r, 1, "gcra 1/s"));
    assert_int_equal(weir_policy_registry_len(r), 2);
    assert_text(r, 1, "gcra 1/s");
    assert_text(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 2/s");
    WEIR_CHECK(weir_policy_registry_check(r));
}

/* In a full registry, ids that come and go need no more space, whatever the lengths are. */
static void check_forget_full(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    for (uint64_t id = 1; id <= WEIR_POLICY_REGISTRY_ENTRIES; id++)
        assert_true(note(r, id, "12345678"));
    assert_false(note(r, 10000, "12345678"));
    for (uint64_t id = 1; id <= 9; id++) {
        weir_policy_registry_forget(r, id * 100);
        assert_int_equal(weir_policy_registry_len(r), WEIR_POLICY_REGISTRY_ENTRIES - 1);
        uint64_t before = used(r);
        assert_true(note(r, 10000 + id, "12345678"));
        assert_int_equal(used(r), before);
        assert_false(note(r, 20000, "12345678"));
        weir_policy_registry_forget(r, 10000 + id);
        assert_true(note(r, id * 100, "123456789")); /* longer by a word */
        assert_int_equal(used(r), before + 24);
        assert_text(r, id * 100, "123456789");
        assert_text(r, 10000 + id, "");
    }
    WEIR_CHECK(weir_policy_registry_check(r));
    char longest[WEIR_POLICY_REGISTRY_TEXT_MAX + 2] = "";
    memset(longest, 'x', sizeof longest - 1);
    assert_false(note(r, 1, longest)); /* too long */
    longest[WEIR_POLICY_REGISTRY_TEXT_MAX] = '\0';
    uint64_t full = WEIR_POLICY_REGISTRY_TEXT_BYTES;
    memcpy(*state, &full, sizeof full);
    weir_policy_registry_forget(r, 5);
    assert_false(note(r, 20000, longest)); /* no memory: the entry is given back */
    assert_true(note(r, 20000, "87654321"));
    assert_text(r, 20000, "87654321");
    assert_int_equal(weir_policy_registry_len(r), WEIR_POLICY_REGISTRY_ENTRIES);
}

/* A quarter of the entries and of the memory is for calls that may fill it. */
static void check_quarter(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    uint64_t id = 1;
    while (weir_policy_registry_note(r, id, "x", 1, false))
        id++;
    assert_int_equal(id - 1, WEIR_POLICY_REGISTRY_ENTRIES / 4 * 3);
    weir_policy_registry_forget(r, 7);
    assert_true(weir_policy_registry_note(r, 7000, "x", 1, false));
    assert_false(weir_policy_registry_note(r, 7001, "x", 1, false));
    for (; id <= WEIR_POLICY_REGISTRY_ENTRIES; id++)
        assert_true(note(r, id, "x"));
    assert_false(note(r, id, "x"));
    memset(*state, 0, WEIR_POLICY_REGISTRY_BYTES);
    char text[1001];
    memset(text, 'a', 1000);
    for (id = 1; weir_policy_registry_note(r, id, text, 1000, false);)
        id++;
    assert_int_equal(id - 1, WEIR_POLICY_REGISTRY_TEXT_BYTES / 4 * 3 / 1008);
    assert_int_equal(weir_policy_registry_len(r), id - 1);
    assert_true(weir_policy_registry_note(r, id, text, 1000, true));
}

/* What a process leaves that is killed while it gives an entry to another id. */
static void check_taken(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    uint8_t *bytes = *state;
    assert_true(note(r, 1, "gcra 1/s"));
    weir_policy_registry_forget(r, 1);
    uint8_t *top = bytes + ENTRIES_AT + 1 * 16 + 15;
    assert_int_equal(*top, 0x80); /* forgotten */
    *top = 0x40;                  /* taken */
    assert_text(r, 1, "");
    assert_true(note(r, 1, "gcra 2/s"));
    assert_int_equal(*top, 0x40);
    assert_text(r, 1, "gcra 2/s");
    WEIR_CHECK(weir_policy_registry_check(r));
    weir_policy_registry_repair(r);
    assert_int_equal(*top, 0x80);
    assert_text(r, 1, "gcra 2/s");
    uint64_t before = used(r);
    assert_true(note(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 3/s")); /* in the first entry */
    assert_int_equal(*top, 0);
    assert_int_equal(used(r), before + 16);
    weir_policy_registry_forget(r, 1);
    weir_policy_registry_repair(r); /* it keeps the memory of a forgotten text */
    assert_int_equal(used(r), before + 16);
    assert_true(note(r, 4, "gcra 4/s"));
    assert_text(r, 1 + WEIR_POLICY_REGISTRY_ENTRIES, "gcra 3/s");
    WEIR_CHECK(weir_policy_registry_check(r));
}

static void check_torn(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    uint8_t *bytes = *state;
    assert_true(note(r, 1, "gcra 1/s"));
    assert_true(note(r, 2, "gcra 2/s"));
    assert_true(note(r, 3, "gcra 3/s"));
    bytes[TEXTS_AT + 16 + 8] ^= 1; /* a letter of the second text */
    memset(bytes, 0, 8);           /* the number of bytes used */
    memset(bytes + ENTRIES_AT + 3 * 16 + 8, 0xFF, 8);
    assert_text(r, 1, "gcra 1/s");
    assert_text(r, 2, "");
    assert_text(r, 3, "");
    weir_policy_registry_repair(r);
    WEIR_CHECK(weir_policy_registry_check(r));
    assert_int_equal(used(r), 16);
    assert_true(note(r, 2, "gcra 2/s"));
    assert_true(note(r, 3, "gcra 3/s"));
    assert_true(note(r, 4, "gcra 4/s"));
    assert_text(r, 1, "gcra 1/s");
    assert_text(r, 2, "gcra 2/s");
    assert_text(r, 3, "gcra 3/s");
    assert_text(r, 4, "gcra 4/s");
    assert_int_equal(weir_policy_registry_len(r), 4);
    WEIR_CHECK(weir_policy_registry_check(r));
    memset(bytes, 0xFF, 8); /* not repaired: no text is written outside */
    assert_false(note(r, 5, "gcra 5/s"));
    for (size_t i = 0; i < WEIR_POLICY_REGISTRY_BYTES; i++) /* no byte makes it read outside */
        bytes[i] = (uint8_t)(i * 37 + i / 256 * 11);
    for (uint64_t i = 0; i < 100; i++)
        assert_text(r, i, "");
    weir_policy_registry_repair(r);
    assert_int_equal(used(r), 0);
}

/* A registry of any size keeps texts until it is full, and writes nothing behind its end. */
static void check_small(void **unused)
{
    (void)unused;
    for (size_t bytes = WEIR_POLICY_REGISTRY_MIN; bytes <= 16 * WEIR_POLICY_REGISTRY_MIN;
         bytes += 4096 + 8) {
        /* Of the exact size, so that a sanitizer detects accesses beyond it. */
        void *part = calloc(1, bytes);
        assert_non_null(part);
        weir_policy_registry registry = weir_policy_registry_at(part, bytes), *r = &registry;
        char text[600];
        uint64_t ids = 0, full = 0;
        memset(text, 'x', sizeof text);
        for (uint64_t id = UINT64_MAX; full < 5; id -= 3) {
            bool noted =
                weir_policy_registry_note(r, id, text, id % 2 ? 200 : sizeof text - 1, true);
            full += !noted;
            ids += noted;
        }
        assert_true(ids * 400 > (bytes - 4096) / 2 && ids * 200 < bytes);
        WEIR_CHECK(weir_policy_registry_check(r));
        uint64_t found = 0;
        char buf[sizeof text];
        for (uint64_t id = UINT64_MAX, n = 0; n < 10000; id -= 3, n++)
            found += weir_policy_registry_text(r, id, buf, sizeof buf) > 0;
        assert_int_equal(found, ids);
        weir_policy_registry_repair(r);
        WEIR_CHECK(weir_policy_registry_check(r));
        free(part);
    }
}

static void note_all(void *arg)
{
    for (uint64_t i = 1; i <= 500; i++) {
        char text[32];
        snprintf(text, sizeof text, "gcra %u/s", (unsigned)i);
        note(arg, i, text);
        char buf[32] = "";
        if (weir_policy_registry_text(arg, 501 - i, buf, sizeof buf) > 0 &&
            strncmp(buf, "gcra ", 5) != 0)
            abort();
    }
}

static void check_threads(void **state)
{
    weir_policy_registry registry = at(*state), *r = &registry;
    port_thread *threads[4];
    for (int i = 0; i < 4; i++) {
        threads[i] = port_thread_start(note_all, r);
        assert_non_null(threads[i]);
    }
    for (int i = 0; i < 4; i++)
        port_thread_join(threads[i]);
    for (uint64_t i = 1; i <= 500; i++) {
        char text[32];
        snprintf(text, sizeof text, "gcra %u/s", (unsigned)i);
        assert_text(r, i, text);
    }
    assert_int_equal(weir_policy_registry_len(r), 500);
    WEIR_CHECK(weir_policy_registry_check(r));
}

/* Threads replace the texts of 8 ids, each in its turn, while others read them. */
typedef struct replacing {
    weir_policy_registry r;
    port_mutex *lock;
} replacing;

enum { ROUNDS = 4000 };

static void replace_all(void *arg)
{
    replacing *c = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char text[32];
        uint64_t id = 1 + i % 8;
        snprintf(text, sizeof text, "%u gcra %u/s", (unsigned)id, i % 3 * 50000000);
        port_mutex_lock(c->lock);
        weir_policy_registry_forget(&c->r, id);
        port_mutex_unlock(c->lock);
        note(&c->r, id, text);
    }
}

static void read_all(void *arg)
{
    const replacing *c = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char buf[32];
        uint64_t id = 1 + i % 8;
        if (weir_policy_registry_text(&c->r, id, buf, sizeof buf) > 0 &&
            (buf[0] != (char)('0' + id) || strncmp(buf + 1, " gcra ", 6) != 0))
            abort();
    }
}

static void check_replacing(void **state)
{
    replacing c = {at(*state), port_mutex_new()};
    port_thread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = port_thread_start(i % 2 ? read_all : replace_all, &c);
    for (int i = 0; i < 4; i++)
        port_thread_join(threads[i]);
    WEIR_CHECK(weir_policy_registry_check(&c.r));
    port_mutex_free(c.lock);
    for (uint64_t id = 1; id <= 8; id++) {
        char buf[32];
        assert_true(weir_policy_registry_text(&c.r, id, buf, sizeof buf) > 0);
    }
}

int main(void)
{
#define WITH_ONE(test) cmocka_unit_test_setup_teardown(test, make_registry, drop_registry)
    const struct CMUnitTest tests[] = {
        WITH_ONE(check_notes),         WITH_ONE(check_each),       WITH_ONE(check_many),
        WITH_ONE(check_long_ones),     WITH_ONE(check_torn),       WITH_ONE(check_threads),
        WITH_ONE(check_forget),        WITH_ONE(check_incomplete), WITH_ONE(check_forget_full),
        WITH_ONE(check_quarter),       WITH_ONE(check_taken),      WITH_ONE(check_replacing),
        cmocka_unit_test(check_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
