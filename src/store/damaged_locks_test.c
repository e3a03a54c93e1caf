/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Locks of buckets that no thread holds, because damage left them: flipped bits, and the id of the
 * opening that finds them. */

#include "store/image/file_header.h"
#include "store/iterate.h"
#include "store/kit_test.h"
#include "store/table/cuckoo.h"
#include "tests/store/check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- one bucket ------------------------------------------------------------------------------ */

enum { SELF = 9, DEAD = 1, RECORD = 200 };

static const weir_processes self = {.self = SELF};

typedef struct ground {
    weir_bucket bucket;
    weir_undo_record undo[WEIR_UNDO_RECORDS];
    port_counter damaged;
    weir_bucket_array array;
} ground;

static void new_ground(ground *g)
{
    memset(g, 0, sizeof *g);
    g->array = (weir_bucket_array){.processes = &self,
                                   .lock = (uint64_t)SELF << WEIR_LOCK_OWNER_AT | WEIR_LOCKED,
                                   .buckets = &g->bucket,
                                   .buckets_len = 1,
                                   .undo = g->undo,
                                   .damaged = &g->damaged};
}

/* Adds TIME entries to the bucket, or drops one if it is full. */
static void change(ground *g, uint64_t tag)
{
    weir_line old, line;
    weir_bucket_lock(&g->array, &g->bucket, &old);
    line = old;
    if (weir_line_fits(&line, WEIR_FORM_TIME))
        weir_line_add(
            &line, &(weir_bucket_entry){.tag = tag, .fresh_at_ns = s_ns, .form = WEIR_FORM_TIME});
    else
        weir_line_drop(&line, 1u << tag % WEIR_LINE_ENTRIES);
    weir_bucket_commit(&g->array, &g->bucket, &old, &line);
}

static void lock_as(ground *g, uint64_t id, uint64_t undo)
{
    uint64_t header = port_word_load_relaxed(&g->bucket.word[0]);
    port_word_store_relaxed(&g->bucket.word[0], weir_header_lock(&g->array, header) ^
                                                    (SELF ^ id) << WEIR_LOCK_OWNER_AT ^
                                                    undo << WEIR_UNDO_AT);
}

/* A lock with our own id that no thread holds is released after a while, and counted. The entries
 * stay, unless the lock refers to a record. */
static void lock_of_nobody(void **unused)
{
    (void)unused;
    static ground g;
    for (uint64_t undo = 0; undo <= RECORD; undo += RECORD) {
        weir_line l;
        new_ground(&g);
        for (uint64_t tag = 0; tag < 3; tag++)
            change(&g, tag);
        lock_as(&g, SELF, undo);
        weir_bucket_copy(&g.array, &g.bucket, &l);
        assert_int_equal(weir_line_live(&l), undo ? 0 : 7);
        assert_int_equal(l.word[0] & WEIR_OVERFLOWED, undo ? WEIR_OVERFLOWED : 0);
        assert_int_equal(port_load_relaxed(&g.damaged), undo ? 4 : 1);
        assert_int_equal(l.word[0] & WEIR_VERSION_ODD, 0);
    }
}

/* Whatever changes a bucket, its version is even if it was, and an odd one becomes even. So a
 * flipped lock bit names an owner that does not exist. */
static void versions_are_even(void **unused)
{
    (void)unused;
    static ground g;
    new_ground(&g);
    port_word_store_relaxed(&g.bucket.word[0], WEIR_VERSION_ODD);
    for (uint64_t i = 0; i < 300; i++) {
        weir_line l;
        change(&g, i);
        weir_bucket_lock(&g.array, &g.bucket, &l);
        weir_bucket_publish(&g.bucket, l.word[0]);
        if (i % 3 == 0)
            lock_as(&g, DEAD, 0);
        weir_bucket_copy(&g.array, &g.bucket, &l);
        assert_int_equal(l.word[0] & WEIR_VERSION_ODD, 0);
        assert_int_equal(l.word[0] & WEIR_LOCKED, 0);
    }
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(weir_process_id(n), 2 * n + 1);
    assert_int_equal(weir_process_id(1 << (WEIR_PROCESS_ID_BITS - 1)), 1);
    assert_int_equal(port_load_relaxed(&g.damaged), 0);
}

/* ---- a state file ---------------------------------------------------------------------------- */

enum { KEYS = 2000, LIMIT = 50 };

typedef struct rig {
    char path[32];
    weir_store *s;
    weir_policy p;
    weir_store_options options;
} rig;

static void open_rig(rig *r, size_t bytes)
{
    r->options = (weir_store_options){.memory_bytes = bytes, .file = r->path};
    assert_int_equal(weir_store_open(&r->s, &r->options), WEIR_OK);
}

static void new_rig(rig *r)
{
    *r = (rig){.path = "/tmp/weir-locks-XXXXXX", .p = policy_of("gcra 1/h burst 50")};
    close(mkstemp(r->path));
    unlink(r->path);
    open_rig(r, 8 << 20);
}

static void close_rig(rig *r)
{
    weir_store_close(r->s);
    unlink(r->path);
}

/* Charges one unit of each key. Returns how many keys then have `remaining` left. */
static int charge_all(rig *r, int64_t remaining)
{
    uint64_t id = weir_store_policy_id(r->s, &r->p);
    int alike = 0;
    for (int key = 0; key < KEYS; key++) {
        weir_decision d;
        assert_int_equal(weir_store_check(r->s, &r->p, id, &key, sizeof key, s_ns, 1, &d), WEIR_OK);
        alike += d.remaining == remaining;
    }
    return alike;
}

/* Calls fn for the header of each bucket of the closed file that has entries, with the id of the
 * next opening. */
static void each_header(rig *r, void (*fn)(port_word *header, uint64_t next_id))
{
    int fd = open(r->path, O_RDWR);
    off_t len = lseek(fd, 0, SEEK_END);
    uint8_t *at = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    const weir_file_header *h = (const weir_file_header *)at;
    uint64_t next_id = weir_process_id(port_word_load_relaxed(&h->openings));
    const weir_file_part *table = &h->parts[WEIR_PART_TABLE];
    weir_bucket *bucket = (weir_bucket *)(at + table->at + sizeof(weir_table_head));
    for (; (uint8_t *)(bucket + 1) <= at + table->at + table->bytes; bucket++) {
        if (port_word_load_relaxed(&bucket->word[0]) & WEIR_CODES)
            fn(&bucket->word[0], next_id);
    }
    munmap(at, (size_t)len);
    close(fd);
}

static void flip_lock_bit(port_word *header, uint64_t next_id)
{
    (void)next_id;
    port_word_store_relaxed(header, port_word_load_relaxed(header) ^ WEIR_LOCKED);
}

/* In a young file the versions of buckets and the ids of openings are small numbers. A flipped bit
 * still locks no bucket with the id of the opening that finds it: nothing waits, and a bucket keeps
 * its entries or is emptied. */
static void flipped_bits(void **unused)
{
    (void)unused;
    rig r;
    new_rig(&r);
    assert_int_equal(charge_all(&r, LIMIT - 1), KEYS);
    for (int round = 0; round < 6; round++) {
        weir_store_close(r.s);
        each_header(&r, flip_lock_bit);
        open_rig(&r, 8 << 20);
        charge_all(&r, LIMIT - 2 - round);
        WEIR_CHECK(weir_store_check_all(r.s, true));
    }
    close_rig(&r);
}

static unsigned locks_left; /* how many buckets lock_as_next() still locks */

static void lock_as_next(port_word *header, uint64_t next_id)
{
    uint64_t contents = port_word_load_relaxed(header) & WEIR_CONTENTS;
    if (locks_left == 0)
        return;
    locks_left--;
    port_word_store_relaxed(header, next_id << WEIR_LOCK_OWNER_AT | WEIR_LOCKED | contents);
}

/* A bucket that is locked with the id of the opening that finds it: a decision waits for a while,
 * then it releases the lock. No entry is lost. */
static void locked_as_this_opening(void **unused)
{
    (void)unused;
    rig r;
    new_rig(&r);
    assert_int_equal(charge_all(&r, LIMIT - 1), KEYS);
    weir_store_close(r.s);
    locks_left = 1;
    each_header(&r, lock_as_next);
    open_rig(&r, 8 << 20);
    assert_int_equal(charge_all(&r, LIMIT - 2), KEYS);
    assert_int_equal(weir_store_stats_get(r.s).damaged, 1);
    WEIR_CHECK(weir_store_check_all(r.s, true));
    close_rig(&r);
}

/* A resize waits for none of these locks. */
static void resize_with_locks(void **unused)
{
    (void)unused;
    rig r;
    new_rig(&r);
    assert_int_equal(charge_all(&r, LIMIT - 1), KEYS);
    weir_store_close(r.s);
    locks_left = UINT_MAX;
    each_header(&r, lock_as_next);
    open_rig(&r, 9 << 20);
    assert_int_equal(charge_all(&r, LIMIT - 2), KEYS);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_of_nobody),    cmocka_unit_test(versions_are_even),
        cmocka_unit_test(flipped_bits),      cmocka_unit_test(locked_as_this_opening),
        cmocka_unit_test(resize_with_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
