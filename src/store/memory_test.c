/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Stores in memory of the caller, which processes share. */

#include "store/image/file_header.h"
#include "store/iterate.h"
#include "store/kill_kit_test.h"
#include "store/kit_test.h"
#include "store/store.h"
#include "store/table/cuckoo.h"
#include "tests/store/check.h"

#include "store/large/index.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>

enum { KIB = 1 << 10, MIB = 1 << 20, PAGE = 4096, POLICIES = 4 };

static const int64_t now_ns = INT64_C(1800000000000000000);

static const uint8_t secret[16] = "sixteen letters";

/* Two policies with small states and two with large ones. */
static const char *const texts[POLICIES] = {"gcra 1000000/h burst 1000", "fixed-window 1000000/h",
                                            "sliding-log 1000/h",
                                            "sliding-slices 5000/h slices 60"};

/* Shared memory between two pages that fault. */
typedef struct rig {
    unsigned char *memory;
    size_t bytes;
    weir_store *s;
    weir_store_error error;
    weir_store_opened opened;
    weir_store_options options;
    weir_policy p[POLICIES];
} rig;

static void make_rig(rig *r, size_t bytes)
{
    unsigned char *at = part_of(bytes + 2 * PAGE);
    assert_int_equal(mprotect(at, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(at + PAGE + bytes, PAGE, PROT_NONE), 0);
    *r = (rig){.memory = at + PAGE, .bytes = bytes};
    r->options = (weir_store_options){.memory = r->memory,
                                      .memory_bytes = bytes,
                                      .ret_error = &r->error,
                                      .ret_opened = &r->opened};
    for (size_t i = 0; i < POLICIES; i++)
        r->p[i] = policy_of(texts[i]);
}

static weir_store *must_open(rig *r)
{
    weir_store *s = NULL;
    r->error.text[0] = '\0';
    weir_status st = weir_store_open(&s, &r->options);
    assert_string_equal(r->error.text, "");
    assert_int_equal(st, WEIR_OK);
    return s;
}

static void open_rig(rig *r, size_t bytes)
{
    make_rig(r, bytes);
    r->options.secret = secret;
    r->s = must_open(r);
    assert_int_equal(r->opened.found, WEIR_FOUND_NOTHING);
    assert_true(r->s->hash.folded && r->s->common.table->folded);
}

static void unmap_rig(rig *r)
{
    munmap(r->memory - PAGE, r->bytes + 2 * (size_t)PAGE);
}

static void close_rig(rig *r)
{
    WEIR_CHECK(weir_store_check_all(r->s, true));
    weir_store_close(r->s);
    unmap_rig(r);
}

static weir_status charge_key(rig *r, weir_store *s, size_t policy, uint64_t key, int64_t cost,
                              weir_decision *ret)
{
    uint64_t id = weir_store_policy_id(s, &r->p[policy]);
    return weir_store_check(s, &r->p[policy], id, &key, sizeof key, now_ns, cost, ret);
}

static bool take(rig *r, weir_store *s, size_t policy, uint64_t key, int64_t cost)
{
    weir_decision d = {.allowed = false};
    assert_int_equal(charge_key(r, s, policy, key, cost, &d), WEIR_OK);
    return d.allowed;
}

/* The units of a key that are charged. */
static int64_t charged(rig *r, weir_store *s, size_t policy, uint64_t key)
{
    weir_decision d;
    uint64_t id = weir_store_policy_id(s, &r->p[policy]);
    assert_int_equal(weir_store_peek(s, &r->p[policy], id, &key, sizeof key, now_ns, 0, &d),
                     WEIR_OK);
    return d.limit - d.remaining;
}

static void must_not_open(rig *r, weir_status expected, const char *text)
{
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, &r->options), expected);
    assert_null(s);
    assert_string_equal(r->error.text, text);
}

static unsigned mutexes = UINT_MAX; /* how many more the system has */

bool __real_port_presence_init(port_presence *p);
bool __wrap_port_presence_init(port_presence *p);
bool __wrap_port_presence_init(port_presence *p)
{
    if (mutexes == 0)
        return false;
    mutexes--;
    return __real_port_presence_init(p);
}

/* ---- one process ----------------------------------------------------------------------------- */

/* All of the store lies in the memory, even if it is full. */
static void sizes(void **unused)
{
    (void)unused;
    static const size_t bytes[] = {MIB, MIB + PAGE, 3 * MIB, 8 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        rig r;
        open_rig(&r, bytes[i]);
        weir_store_stats stats = weir_store_stats_get(r.s);
        assert_true(stats.memory_max <= bytes[i] && stats.memory_max >= bytes[i] / 100 * 93);
        assert_int_equal(stats.large_max, bytes[i] / 4 / PAGE * PAGE);
        for (uint64_t key = 0; key < bytes[i] / 16 && key < 1000000; key++) {
            weir_decision d;
            weir_status st = charge_key(&r, r.s, key % POLICIES, key, 1, &d);
            assert_true(st == WEIR_OK && d.allowed);
        }
        assert_true(weir_store_stats_get(r.s).keys > bytes[i] / 200);
        if (bytes[i] == MIB)
            assert_true(weir_store_stats_get(r.s).evicted > 0);
        close_rig(&r);
    }
}

/* Not a multiple of a page: the rest is left alone. */
static void odd_sizes(void **unused)
{
    (void)unused;
    rig r;
    make_rig(&r, 2 * MIB);
    memset(r.memory + MIB + PAGE, 0xA5, MIB - PAGE);
    r.options.memory_bytes = MIB + 2 * PAGE - 1;
    r.options.large_bytes = 100 * KIB + 1;
    r.s = must_open(&r);
    assert_int_equal(weir_store_stats_get(r.s).large_max, 100 * KIB);
    for (uint64_t key = 0; key < 100000; key++)
        assert_true(take(&r, r.s, key % 2, key, 1));
    for (size_t i = MIB + PAGE; i < 2 * MIB; i++)
        assert_int_equal(r.memory[i], 0xA5);
    close_rig(&r);
}

/* Closing one opening leaves the memory to the others and to later ones. */
static void attach(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    weir_store *other = must_open(&r);
    assert_int_equal(r.opened.found, WEIR_FOUND_OPEN);
    for (size_t i = 0; i < POLICIES; i++) {
        assert_true(take(&r, r.s, i, 7, 3));
        assert_int_equal(charged(&r, other, i, 7), 3);
        assert_true(take(&r, other, i, 7, 2));
    }
    weir_decision d;
    uint64_t reserved = 0, key = 8;
    assert_int_equal(weir_store_reserve(r.s, &r.p[0], weir_store_policy_id(r.s, &r.p[0]), &key,
                                        sizeof key, now_ns, 10, s_ns, &d, &reserved),
                     WEIR_OK);
    weir_store_close(r.s);
    r.s = must_open(&r);
    for (size_t i = 0; i < POLICIES; i++)
        assert_int_equal(charged(&r, r.s, i, 7), 5);
    weir_store_close(other);
    assert_int_equal(weir_store_cancel(r.s, reserved, now_ns, &d), WEIR_OK);
    weir_store_close(r.s);
    r.s = must_open(&r);
    for (size_t i = 0; i < POLICIES; i++)
        assert_int_equal(charged(&r, r.s, i, 7), 5);
    assert_int_equal(charged(&r, r.s, 0, 8), 0);
    close_rig(&r);
}

static size_t threads_now(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* A store of its own memory of this size has a thread for huge pages. */
static void no_threads(void **unused)
{
    (void)unused;
    rig r;
    size_t before = threads_now();
    make_rig(&r, 32 * MIB);
    r.options.sync = WEIR_SYNC_SECOND;
    r.options.shared = true;
    r.s = must_open(&r);
    assert_int_equal(threads_now(), before);
    assert_int_equal(weir_store_watch(r.s), WEIR_FILE_IN_PLACE);
    assert_int_equal(weir_store_mapping(r.s).fd, -1);
    close_rig(&r);
}

/* The time of one opening is that of the next. */
static void shared_time(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    int64_t before_ns = weir_store_now(r.s);
    weir_store_set_time(r.s, before_ns + 1000 * s_ns);
    weir_store *other = must_open(&r);
    int64_t there_ns = weir_store_now(other);
    assert_true(there_ns >= before_ns + 1000 * s_ns);
    assert_true(weir_store_now(r.s) >= there_ns - s_ns / 1000);
    weir_store_close(other);
    close_rig(&r);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void bad_options(void **unused)
{
    (void)unused;
    static const char excluded[] =
        "'memory' cannot be combined with 'file', 'reset', 'read_only' or 'prefault'";
    rig r;
    make_rig(&r, 2 * MIB);
    weir_store_options *o = &r.options, good = *o;
    o->file = "/nowhere/state";
    must_not_open(&r, WEIR_E_RANGE, excluded);
    o->read_only = true;
    must_not_open(&r, WEIR_E_RANGE, excluded);
    *o = good;
    o->reset = true;
    must_not_open(&r, WEIR_E_RANGE, excluded);
    *o = good;
    o->prefault = true;
    must_not_open(&r, WEIR_E_RANGE, excluded);
    *o = good;
    o->memory_bytes = 0;
    must_not_open(&r, WEIR_E_RANGE, "'memory' requires 'memory_bytes'");
    o->memory_bytes = MIB - 1;
    must_not_open(&r, WEIR_E_RANGE, "the memory has 1048575 bytes, expected at least 1 MiB");
    o->memory_bytes = MIB;
    o->memory = r.memory + 64;
    must_not_open(&r, WEIR_E_RANGE, "'memory' does not begin on a page of 4096 bytes");
    *o = good;
    o->memory_bytes = MIB;
    o->large_bytes = 360 * KIB;
    must_not_open(&r, WEIR_E_RANGE,
                  "the memory for large states leaves 573440 of 1048576 bytes for the hash table, "
                  "expected at least 576 KiB");
    o->large_bytes = 960 * KIB;
    must_not_open(&r, WEIR_E_RANGE,
                  "the memory for large states leaves 0 of 1048576 bytes for the hash table, "
                  "expected at least 576 KiB");
    o->large_bytes = 64 * KIB - 1;
    must_not_open(&r, WEIR_E_RANGE,
                  "the memory for large states has 65535 bytes, expected at least 64 KiB, and at "
                  "least 64 KiB less than the whole memory of 1048576 bytes");
    for (size_t i = 0; i < r.bytes; i++)
        assert_int_equal(r.memory[i], 0);
    unmap_rig(&r);
}

/* A store of other sizes or partitions stays as it is. */
static void other_sizes(void **unused)
{
    (void)unused;
    static const weir_store_partition one[] = {{"a", 576 * KIB, 0}};
    static const weir_store_partition two[] = {{"b", 0, 128 * KIB}, {"a", 576 * KIB, 64 * KIB}};
    rig r;
    make_rig(&r, 2 * MIB);
    weir_store_options *o = &r.options;
    o->partitions = one;
    o->partitions_len = 1;
    r.s = must_open(&r);
    assert_true(take(&r, r.s, 0, 1, 1));
    weir_store_options good = *o;
    o->memory_bytes = 3 * MIB;
    must_not_open(&r, WEIR_E_RANGE,
                  "memory: its store has 2097152 bytes, 524288 of them for large states, requested "
                  "are 3145728 bytes, 786432 of them for large states");
    *o = good;
    o->large_bytes = 128 * KIB;
    must_not_open(&r, WEIR_E_RANGE,
                  "memory: its store has 2097152 bytes, 524288 of them for large states, requested "
                  "are 2097152 bytes, 131072 of them for large states");
    *o = good;
    o->partitions_len = 0;
    must_not_open(
        &r, WEIR_E_RANGE,
        "memory: partition 0 of its store is 'a' of 589824+0 bytes, but none was requested");
    o->partitions = two;
    o->partitions_len = 2;
    must_not_open(&r, WEIR_E_RANGE,
                  "memory: partition 0 of its store is 'a' of 589824+0 bytes, but 'a' of "
                  "589824+65536 bytes was requested");
    *o = good;
    static const weir_store_partition small[] = {{"a", 576 * KIB - 1, 0}};
    o->partitions = small;
    must_not_open(&r, WEIR_E_RANGE,
                  "the partition 'a' has 589823 bytes, expected at least 576 KiB in memory of the "
                  "caller");
    *o = good;
    static const uint8_t another[16] = "another secret!";
    o->secret = another;
    must_not_open(&r, WEIR_E_RANGE, "memory: the secret of its store differs from the one given");
    *o = good;
    weir_store_close(must_open(&r));
    assert_int_equal(charged(&r, r.s, 0, 1), 1);
    close_rig(&r);
}

static void damaged_header(void **unused)
{
    (void)unused;
    static const struct {
        size_t at;
        const char *text;
    } damage[] = {
        {offsetof(weir_file_header, magic),
         "memory: it is not all zero, and has no store of weir; pass zeroed memory"},
        {offsetof(weir_file_header, format), "memory: it has format 65536, expected 65537"},
        {offsetof(weir_file_header, secret), "memory: its header is damaged"},
        {offsetof(weir_file_header, checksum), "memory: its header is damaged"},
    };
    rig r;
    open_rig(&r, MIB);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        r.memory[damage[i].at] ^= 1;
        must_not_open(&r, WEIR_E_SYNTAX, damage[i].text);
        r.memory[damage[i].at] ^= 1;
    }
    weir_store_close(must_open(&r));
    close_rig(&r);
}

/* A state file's header is no header of memory. */
static void header_of_a_file(void **unused)
{
    (void)unused;
    rig r;
    make_rig(&r, MIB);
    weir_file_header *h = (weir_file_header *)r.memory;
    const uint64_t bytes[WEIR_PARTS] = {PAGE, PAGE, PAGE, PAGE};
    assert_true(weir_file_header_lay_out(h, bytes));
    weir_file_header_init(h, secret, 0);
    must_not_open(&r, WEIR_E_SYNTAX, "memory: it has format 1, expected 65537");
    unmap_rig(&r);
}

/* The first opening was killed before it stored the magic number. */
static void half_created(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    weir_store_close(r.s);
    memset(r.memory, 0, 8);
    memset(r.memory + 8, 0x5A, PAGE - 8);
    r.s = must_open(&r);
    assert_int_equal(r.opened.found, WEIR_FOUND_NOTHING);
    assert_true(take(&r, r.s, 0, 1, 1));
    close_rig(&r);
}

/* Where the system has no robust mutexes, the memory stays free for another try. */
static void no_robust_mutexes(void **unused)
{
    (void)unused;
    rig r;
    make_rig(&r, MIB);
    static const unsigned initialised[] = {0, 511};
    for (size_t i = 0; i < 2; i++) {
        mutexes = initialised[i];
        must_not_open(&r, WEIR_E_NOMEM, "memory: the system has no robust mutexes");
    }
    mutexes = 512;
    r.s = must_open(&r);
    mutexes = UINT_MAX;
    assert_int_equal(r.opened.found, WEIR_FOUND_NOTHING);
    close_rig(&r);
}

/* ---- the places of openings ------------------------------------------------------------------ */

enum { PLACES = 512 };

static void places_used_up(void **unused)
{
    (void)unused;
    rig r;
    weir_store *s[PLACES];
    make_rig(&r, MIB);
    for (size_t i = 0; i < PLACES; i++)
        s[i] = must_open(&r);
    for (int round = 0; round < 3; round++) {
        must_not_open(&r, WEIR_E_BUSY,
                      "memory: processes have it open 512 times, which is the limit");
        size_t i = (size_t)round * 255;
        weir_store_close(s[i]);
        s[i] = must_open(&r);
    }
    assert_true(take(&r, s[3], 0, 1, 1));
    for (size_t i = 1; i < PLACES; i++)
        weir_store_close(s[i]);
    assert_int_equal(charged(&r, s[0], 0, 1), 1);
    r.s = s[0];
    close_rig(&r);
}

/* Ids begin again at 1, and leave out those that are in use. */
static void ids_begin_again(void **unused)
{
    (void)unused;
    const uint64_t last = (1 << WEIR_PROCESS_ID_BITS) - 1;
    rig r;
    open_rig(&r, MIB);
    weir_file_header *h = (weir_file_header *)r.memory;
    const weir_processes *p = weir_image_processes(r.s->image);
    assert_int_equal(p->self, 1);
    port_word_store_relaxed(&h->openings, last / 2);
    weir_store *a = must_open(&r), *b = must_open(&r);
    assert_int_equal(weir_image_processes(a->image)->self, last);
    assert_int_equal(weir_image_processes(b->image)->self, 3); /* 1 is in use */
    assert_true(p->alive(p->ctx, last) && p->alive(p->ctx, 3) && p->alive(p->ctx, 1));
    assert_false(p->alive(p->ctx, 3 + 2 * PLACES)); /* the same place, another id */
    weir_store_close(a);
    assert_false(p->alive(p->ctx, last));
    weir_store_close(b);
    assert_false(p->alive(p->ctx, 3));
    close_rig(&r);
}

/* ---- several processes ----------------------------------------------------------------------- */

static int charge_and_exit(void *ctx)
{
    rig *r = ctx;
    weir_store *s = NULL;
    weir_decision d;
    if (weir_store_open(&s, &r->options) != WEIR_OK)
        return 2;
    for (size_t i = 0; i < POLICIES; i++) {
        if (charge_key(r, s, i, 5, 2, &d) != WEIR_OK || !d.allowed)
            return 3;
    }
    return 1; /* without closing */
}

static void charges_of_a_child(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(run_in_child(charge_and_exit, &r), 1);
        for (size_t i = 0; i < POLICIES; i++)
            assert_int_equal(charged(&r, r.s, i, 5), 2 * n);
    }
    close_rig(&r);
}

/* A child that opens the store, may lock a key, reports its id, and waits to be killed. */
typedef struct victim {
    rig *r;
    int report[2];
    bool lock;
} victim;

/* Locks the first bucket of key 5 under the policies with small states, and all large states. */
static void lock_keys(rig *r, weir_store *s)
{
    weir_table *t = s->common.table;
    weir_bucket *locked = NULL;
    for (size_t i = 0; i < POLICIES; i++) {
        uint64_t key = 5, id = weir_store_policy_id(s, &r->p[i]);
        weir_bucket *b = weir_first_bucket(t, weir_store_hash(s, id, &key, sizeof key));
        weir_line line;
        if (weir_table_words(&r->p[i]) > 0 && b != locked)
            weir_bucket_lock(&t->array, locked = b, &line);
    }
    for (size_t i = 0; i < s->common.large->stripes; i++)
        weir_large_lock(s->common.large, i);
}

static int open_and_wait(void *ctx)
{
    victim *v = ctx;
    weir_store *s = NULL;
    if (weir_store_open(&s, &v->r->options) != WEIR_OK)
        return 1;
    if (v->lock)
        lock_keys(v->r, s);
    uint64_t id = weir_image_processes(s->image)->self;
    if (write(v->report[1], &id, sizeof id) != sizeof id)
        return 1;
    for (;;)
        pause();
}

static pid_t start_victim(victim *v, uint64_t *ret_id)
{
    assert_int_equal(pipe(v->report), 0);
    pid_t pid = fork_child(open_and_wait, v);
    assert_true(pid > 0);
    assert_int_equal(read(v->report[0], ret_id, sizeof *ret_id), sizeof *ret_id);
    close(v->report[0]);
    close(v->report[1]);
    return pid;
}

/* A child is alive until it is killed, for every process. */
static void alive_until_killed(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    const weir_processes *p = weir_image_processes(r.s->image);
    victim v = {.r = &r};
    for (int i = 0; i < 50; i++) {
        uint64_t id[2];
        pid_t pid[2] = {start_victim(&v, &id[0]), start_victim(&v, &id[1])};
        assert_true(id[0] != id[1] && id[0] != p->self);
        assert_true(p->alive(p->ctx, id[0]) && p->alive(p->ctx, id[1]));
        assert_true(kill_child(pid[0]));
        assert_false(p->alive(p->ctx, id[0]));
        assert_true(p->alive(p->ctx, id[1]));
        assert_true(kill_child(pid[1]));
        assert_false(p->alive(p->ctx, id[1]));
    }
    close_rig(&r);
}

/* Another process takes over the locks of a killed one, and repairs what they protect. */
static void killed_with_locks(void **unused)
{
    (void)unused;
    rig r;
    open_rig(&r, MIB);
    victim v = {.r = &r, .lock = true};
    for (int n = 1; n <= 20; n++) {
        uint64_t id;
        pid_t pid = start_victim(&v, &id);
        assert_true(kill_child(pid));
        if (n % 2 == 0)
            assert_int_equal(run_in_child(charge_and_exit, &r), 1);
        for (size_t i = 0; i < POLICIES && n % 2 == 1; i++)
            assert_true(take(&r, r.s, i, 5, 2));
        for (size_t i = 0; i < POLICIES; i++)
            assert_int_equal(charged(&r, r.s, i, 5), 2 * n);
    }
    close_rig(&r);
}

/* ---- many processes -------------------------------------------------------------------------- */

enum { LIMIT = 1000, TAKERS = 4 };

typedef struct race {
    rig r;
    port_counter *allowed; /* of each policy, in shared memory */
} race;

/* Charges one key of each policy until all are denied. */
static int take_all(void *ctx)
{
    race *a = ctx;
    weir_store *s = NULL;
    if (weir_store_open(&s, &a->r.options) != WEIR_OK)
        return 1;
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < POLICIES; i++) {
            weir_decision d;
            if (charge_key(&a->r, s, i, 9, 1, &d) != WEIR_OK)
                return 2;
            port_add_relaxed(&a->allowed[i], d.allowed);
            any = any || d.allowed;
        }
    }
    weir_store_close(s);
    return 0;
}

static void exact_limit(void **unused)
{
    (void)unused;
    static const char *const limits[POLICIES] = {"gcra 1000/h burst 1000", "fixed-window 1000/h",
                                                 "sliding-log 1000/h",
                                                 "sliding-slices 1000/h slices 60"};
    race a;
    open_rig(&a.r, MIB);
    a.allowed = part_of(POLICIES * sizeof *a.allowed);
    for (size_t i = 0; i < POLICIES; i++)
        a.r.p[i] = policy_of(limits[i]);
    pid_t pid[TAKERS];
    for (size_t i = 0; i < TAKERS; i++)
        pid[i] = fork_child(take_all, &a);
    for (size_t i = 0; i < TAKERS; i++) {
        int status = wait_child(pid[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    for (size_t i = 0; i < POLICIES; i++)
        assert_int_equal(port_load_relaxed(&a.allowed[i]), LIMIT);
    WEIR_CHECK(weir_store_check_all(a.r.s, false));
    munmap(a.allowed, POLICIES * sizeof *a.allowed);
    close_rig(&a.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(attach),
        cmocka_unit_test(no_threads),
        cmocka_unit_test(shared_time),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(other_sizes),
        cmocka_unit_test(damaged_header),
        cmocka_unit_test(header_of_a_file),
        cmocka_unit_test(half_created),
        cmocka_unit_test(no_robust_mutexes),
        cmocka_unit_test(places_used_up),
        cmocka_unit_test(ids_begin_again),
        cmocka_unit_test(charges_of_a_child),
        cmocka_unit_test(alive_until_killed),
        cmocka_unit_test(killed_with_locks),
        cmocka_unit_test(exact_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
