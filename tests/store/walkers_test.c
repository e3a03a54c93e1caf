/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walkers: a store stays consistent between random calls, and the walkers find and name each
 * kind of damage. */

#include "tests/store/check.h"

#include "store/image/policy_registry.h"
#include "store/store.h"
#include "store/table/cuckoo.h"

#include "store/large/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;

enum { KEYS = 300 };

typedef struct fixture {
    weir_store *s;
    weir_policy p[3];
    uint64_t id[3];
} fixture;

static void open_store(fixture *f)
{
    static const char *const texts[] = {"gcra 1/h burst 50", "gcra 7/h burst 50",
                                        "sliding-log 50/h"};
    const weir_store_options options = {
        .memory_bytes = 1 << 20, .secret = (const uint8_t[16]){1}, .large_bytes = 256 << 10};
    assert_int_equal(weir_store_open(&f->s, &options), WEIR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_policy_parse(&f->p[i], texts[i], strlen(texts[i]), NULL, NULL),
                         WEIR_OK);
        f->id[i] = weir_store_policy_id(f->s, &f->p[i]);
    }
}

static uint64_t next_random(uint64_t *x)
{
    *x = *x * 6364136223846793005 + 1442695040888963407;
    return *x >> 33;
}

/* One random call. Ids of reservations are kept in `ids`. */
static void call_any(fixture *f, uint64_t *x, int64_t now_ns, uint64_t ids[KEYS])
{
    uint64_t key = next_random(x) % KEYS, i = next_random(x) % 3, what = next_random(x) % 16;
    int64_t cost = (int64_t)(next_random(x) % 9), over;
    weir_decision d;
    const weir_policy *p = &f->p[i];
    if (what == 0)
        assert_int_equal(weir_store_reset(f->s, f->id[i], &key, sizeof key), WEIR_OK);
    else if (what == 1)
        assert_int_equal(weir_store_refund(f->s, p, f->id[i], &key, sizeof key, now_ns, cost, &d),
                         WEIR_OK);
    else if (what < 4 && ids[key] == 0)
        assert_int_equal(weir_store_reserve(f->s, p, f->id[i], &key, sizeof key, now_ns, cost,
                                            90 * s_ns, &d, &ids[key]),
                         WEIR_OK);
    else if (what < 4) {
        (void)!weir_store_commit(f->s, ids[key], now_ns, cost, &d, &over); /* it may have expired */
        ids[key] = 0;
    } else
        assert_int_equal(weir_store_check(f->s, p, f->id[i], &key, sizeof key, now_ns, cost, &d),
                         WEIR_OK);
}

static void consistent_between_random_calls(void **unused)
{
    (void)unused;
    fixture f;
    uint64_t x = 3, ids[KEYS] = {0};
    open_store(&f);
    for (int64_t i = 0; i < 3000; i++) {
        call_any(&f, &x, s_ns + i * s_ns, ids);
        if (i % 4 == 0)
            WEIR_CHECK(weir_store_check_all(f.s, false));
    }
    assert_true(weir_store_stats_get(f.s).keys > KEYS);
    weir_store_close(f.s);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void fill(fixture *f)
{
    open_store(f);
    for (uint64_t key = 0; key < 2000; key++) {
        weir_decision d;
        uint64_t i = key % 3, id;
        assert_int_equal(weir_store_check(f->s, &f->p[i], f->id[i], &key, sizeof key, s_ns, 1, &d),
                         WEIR_OK);
        if (key < 9)
            assert_int_equal(weir_store_reserve(f->s, &f->p[0], f->id[0], &key, sizeof key, s_ns, 1,
                                                (int64_t)(20 - key) * s_ns, &d, &id),
                             WEIR_OK);
    }
    WEIR_CHECK(weir_store_check_all(f->s, false));
}

/* The walkers find damage, and say `text`. */
static void damaged(const fixture *f, const char *text)
{
    const char *wrong = weir_store_check_all(f->s, false);
    if (!wrong || !strstr(wrong, text))
        fail_msg("expected \"%s\", found \"%s\"", text, wrong ? wrong : "nothing");
}

/* The same while a word has another value. */
static void damage(const fixture *f, port_word *word, uint64_t value, const char *text)
{
    uint64_t old = port_word_load_relaxed(word);
    port_word_store_relaxed(word, value);
    damaged(f, text);
    port_word_store_relaxed(word, old);
    WEIR_CHECK(weir_store_check_all(f->s, false));
}

static void damaged_table(void **unused)
{
    (void)unused;
    fixture f;
    fill(&f);
    weir_table *t = f.s->common.table;
    weir_bucket *b = t->array.buckets;
    weir_line l;
    do
        weir_bucket_copy(&t->array, ++b, &l);
    while (weir_line_live(&l) != 3 || l.word[0] & (WEIR_MIXED | WEIR_ALTERNATES));
    uint64_t header = l.word[0];
    damage(&f, &b->word[0], header | WEIR_LOCKED, "locked");
    damage(&f, &b->word[0], header | (uint64_t)WEIR_LIVE << WEIR_CODE_AT(3), "invalid header");
    damage(&f, &b->word[0], header | WEIR_ALTERNATE(2), "free entry is marked as alternate");
    damage(&f, &b->word[0], header | WEIR_ALTERNATE(1), "has not overflowed");
    damage(&f, &b->word[0], header & ~((uint64_t)15 << WEIR_CODE_AT(1)), "counter");
    uint64_t high = l.word[5] & 0xffff, low = l.word[6] & UINT32_MAX;
    port_word_store_relaxed(&b->word[5], high | high << 16);
    port_word_store_relaxed(&b->word[6], low | low << 32);
    damaged(&f, "the tag of one");
    port_word_store_relaxed(&b->word[5], l.word[5]);
    port_word_store_relaxed(&b->word[6], l.word[6]);
    port_add_relaxed(&t->head->counts[7].held, 1);
    damaged(&f, "counter 7");
    port_add_relaxed(&t->head->counts[7].held, UINT64_MAX);
    damage(&f, &t->head->undo[200].owner, 1, "undo record 200");
    damage(&f, &t->head->seen_ns, UINT64_MAX, "time is out of range");
    weir_store_close(f.s);
}

static void damaged_large(void **unused)
{
    (void)unused;
    fixture f;
    fill(&f);
    weir_large *l = f.s->common.large;
    weir_allocator *b = &l->blocks;
    size_t i = 0;
    uint64_t at = 0;
    for (; at == 0 || port_word_load_relaxed(&weir_block_at(b, at)->next) != 0; i++)
        at = port_word_load_relaxed(&l->bucket[i]); /* a block that is alone in its chain */
    i--;
    uint64_t bit = (uint64_t)1 << at % 64;
    weir_block *block = weir_block_at(b, at);
    port_word *taken = &b->taken[at / 64], *begins = &b->begins[at / 64];
    uint64_t taken_bits = port_word_load_relaxed(taken), end = b->units - 1;
    damage(&f, &l->stripe[1].lock, 1, "stripe 1: locked");
    damage(&f, &l->stripe[1].journal_len, 1, "transaction is open");
    damage(&f, &l->stripe[1].now_ns, UINT64_MAX, "time is out of range");
    damage(&f, &l->stripe[1].pending[3], 4, "pending word 3");
    damage(&f, &l->stripe[1].pending_used, 4, "a pending word is taken");
    damage(&f, &b->head->lock, 1, "the allocator");
    damage(&f, &b->head->op, 1, "the allocator");
    damage(&f, &b->head->used, port_word_load_relaxed(&b->head->used) + 1, "units taken");
    damage(&f, &b->head->count, port_word_load_relaxed(&b->head->count) - 1, "blocks, counted");
    damage(&f, &b->taken[0], port_word_load_relaxed(&b->taken[0]) | 1, "unit 0");
    damage(&f, taken, taken_bits & ~bit, ": free");
    damage(&f, begins, port_word_load_relaxed(begins) & ~bit, "in no block");
    damage(&f, begins, port_word_load_relaxed(begins) | bit << 1, "begins in block");
    port_word *last = &b->taken[end / 64];
    damage(&f, last, port_word_load_relaxed(last) | (uint64_t)1 << end % 64, "in no block");
    damage(&f, &block->shape, port_word_load_relaxed(&block->shape) ^ 1, "invalid");
    damage(&f, &block->hash, port_word_load_relaxed(&block->hash) ^ 1, "invalid");
    damage(&f, &block->next, at, "chain is broken");
    damage(&f, &l->bucket[i], 0, "not in the index");
    damage(&f, &l->bucket[i ^ 1], at, "the index leads to");
    weir_store_close(f.s);
}

static void damaged_reservations(void **unused)
{
    (void)unused;
    fixture f;
    fill(&f);
    unsigned char *part = weir_image_parts_get(f.s->image).reserved.at;
    size_t bytes = weir_image_parts_get(f.s->image).reserved.bytes, max = (bytes - 128) / 72;
    enum { NEXT = 0, LOCK = 8, LENS = 12, USED = 13, RECORDS = 16, RECORD = 8, UNITS = 6 };
    port_word *words = (port_word *)part, *heap = words + RECORDS + max * RECORD;
    uint64_t lens = port_word_load_relaxed(&words[LENS]), pair = port_word_load_relaxed(heap);
    damage(&f, &words[NEXT], 5, "the next expiry is at 5");
    damage(&f, &words[LOCK], 1, "the reservations: locked");
    damage(&f, &words[LENS], UINT32_MAX, "more than fit");
    damage(&f, &words[LENS], lens - 1, "8 records open");
    damage(&f, &words[LENS], lens | (uint64_t)3 << 32, "open, and in the list of free ones");
    damage(&f, &words[LENS], lens | (uint64_t)UINT32_MAX << 32, "list of free records is damaged");
    damage(&f, &words[USED], 10, "expected 10");
    damage(&f, &words[RECORDS], 0, "in the heap, and not open");
    damage(&f, &words[RECORDS + RECORD + UNITS], 2, "in the heap, and not open or damaged");
    damage(&f, heap, pair | UINT32_MAX, "there is no record");
    damage(&f, heap, pair << 32 | pair >> 32, "not at its place in the heap");
    weir_store_close(f.s);
}

static void damaged_registry(void **unused)
{
    (void)unused;
    fixture f;
    fill(&f);
    port_word *words = (port_word *)weir_image_policies(f.s->image)->part;
    enum { ENTRIES_AT = 4096 / 8, PLACE = 1, LEN_BITS = 16 };
    size_t of[3];
    for (size_t i = 0; i < 3; i++)
        of[i] = ENTRIES_AT + 2 * (f.id[i] % WEIR_POLICY_REGISTRY_ENTRIES);
    uint64_t place = port_word_load_relaxed(&words[of[1] + PLACE]);
    assert_int_equal(port_word_load_relaxed(&words[of[1]]), f.id[1]);
    damage(&f, &words[0], 4, "bytes used");
    damage(&f, &words[0], 8, "beyond the end");
    damage(&f, &words[of[1]], f.id[1] + 1, "its id is not found");
    damage(&f, &words[of[1]], 0, "its id is not found");
    damage(&f, &words[of[1] + PLACE], place + 1, "its text is damaged");
    port_word *copy = words + ENTRIES_AT + 2 * ((f.id[1] + 1) % WEIR_POLICY_REGISTRY_ENTRIES);
    port_word_store_relaxed(copy, f.id[1] + 1);
    damage(&f, copy + PLACE, place, "its text is damaged"); /* the checksum covers the id */
    port_word_store_relaxed(copy, 0);
    weir_store_close(f.s);
}

/* The same tag in the first and in the alternate bucket of a key. */
static void twice_in_the_table(void **unused)
{
    (void)unused;
    fixture f;
    fill(&f);
    weir_table *t = f.s->common.table;
    uint64_t key = 3;
    weir_bucket_pair at = weir_bucket_pair_of(t, weir_store_hash(f.s, f.id[0], &key, sizeof key));
    weir_line first, old, line;
    weir_bucket_copy(&t->array, at.first, &first);
    unsigned i = weir_line_find(&first, at.tag, false);
    assert_true(i < WEIR_LINE_ENTRIES);
    weir_bucket_entry e = weir_line_get(&first, i);
    e.alternate = true;
    weir_bucket_lock(&t->array, at.alternate, &old);
    line = old;
    weir_line_add(&line, &e);
    weir_bucket_commit(&t->array, at.alternate, &old, &line);
    port_word_store_relaxed(&at.first->word[0], first.word[0] | WEIR_OVERFLOWED);
    const char *wrong = weir_table_check(t, false);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "in its other bucket too"));
    assert_non_null(
        weir_table_check_key(t, weir_store_hash(f.s, f.id[0], &key, sizeof key), false));
    assert_null(weir_table_check(t, true)); /* as a killed writer leaves it */
    weir_store_close(f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consistent_between_random_calls),
        cmocka_unit_test(damaged_table),
        cmocka_unit_test(twice_in_the_table),
        cmocka_unit_test(damaged_large),
        cmocka_unit_test(damaged_reservations),
        cmocka_unit_test(damaged_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
