/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations: a child that is stopped after each instruction, copies to smaller memory, and
 * records and policies that no call writes. */

#include "store/kill_kit_test.h"
#include "store/reserve_kit_test.h"

#include <sys/mman.h>

/* ---- killed at any instruction --------------------------------------------------------------- */

enum { OPEN = 4 }; /* before each call */

typedef struct scene {
    const char *name;
    void (*act)(weir_reserve *r, fixture *x, const uint64_t ids[OPEN]);
    int opens, ends; /* reservations, by the call */
} scene;

static void reserve_one(weir_reserve *r, fixture *x, const uint64_t ids[OPEN])
{
    weir_decision d;
    uint64_t id = 0;
    (void)ids;
    assert_int_equal(reserve_units(r, &x->policy, 77, 5, s_ns, 7, 3 * s_ns, &d, &id), WEIR_OK);
    assert_true(id != 0);
}

static void commit_one(weir_reserve *r, fixture *x, const uint64_t ids[OPEN])
{
    weir_decision d;
    int64_t over;
    (void)x;
    assert_int_equal(weir_reserve_commit(r, ids[1], s_ns, 3, &d, &over), WEIR_OK);
}

static void expire_two(weir_reserve *r, fixture *x, const uint64_t ids[OPEN])
{
    (void)x;
    (void)ids;
    weir_reserve_expire(r, 12 * s_ns);
}

static void zero_all(weir_reserve *r, fixture *x, const uint64_t ids[OPEN])
{
    (void)x;
    (void)ids;
    weir_reserve_lock(r);
    weir_reserve_zero_units(r, 3);
    weir_reserve_unlock(r);
}

static const scene scenes[] = {
    {"a reservation", reserve_one, 1, 0},
    {"a commit", commit_one, 0, 1},
    {"two that expire", expire_two, 0, 2},
    {"units set to zero", zero_all, 0, 1},
};

typedef struct stepping {
    const scene *scene;
    fixture x;
    stepped_memory m;
    uint64_t ids[OPEN];
} stepping;

static int act(void *ctx)
{
    stepping *s = ctx;
    weir_reserve *r = open_part(&s->x.fake, s->m.part, SMALL, false, &second);
    if (!step_begin())
        return 1;
    s->scene->act(r, &s->x, s->ids);
    return 0;
}

/* Whatever a kill leaves, the next process finds no damaged record, and loses none that the call
 * does not end. */
static void check_step(void *ctx, int changes)
{
    static const weir_processes third = {.self = 3};
    stepping *s = ctx;
    fake aside = s->x.fake;
    weir_reserve *r = open_part(&aside, s->m.copy, SMALL, false, &third);
    weir_reserve_stats stats = weir_reserve_stats_get(r);
    WEIR_CHECK(weir_reserve_check(r));
    if (stats.damaged > 0)
        fail_msg("%s: damaged after write %d", s->scene->name, changes);
    assert_in_range(stats.open, OPEN - s->scene->ends, OPEN + s->scene->opens);
    weir_reserve_close(r);
}

static void killed_at_every_instruction(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        static stepping s;
        s = (stepping){.scene = &scenes[i]};
        set_up(&s.x, "fixed-window 100/h", SMALL);
        unsigned char *memory = mmap(NULL, 3 * (size_t)SMALL, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED);
        s.m = (stepped_memory){memory, memory + SMALL, memory + 2 * (size_t)SMALL, SMALL, 0};
        for (int n = 0; n < OPEN; n++)
            s.ids[n] = make(&s.x, 3, s_ns, 5, (10 + n) * s_ns);
        memcpy(s.m.part, s.x.part, SMALL);
        int changes = step_child(act, &s.m, check_step, &s);
        munmap(memory, 3 * (size_t)SMALL);
        tear_down(&s.x);
        if (changes == -1)
            skip();
        assert_true(changes > 5);
    }
}

/* ---- copies, records, policies --------------------------------------------------------------- */

/* A copy to smaller memory has the reservations that fit, and counts the others. */
static void copied_to_less_memory(void **unused)
{
    (void)unused;
    enum { MANY = SMALL_MAX + 3 };
    fixture from, to;
    uint64_t ids[MANY];
    set_up(&from, "fixed-window 1000/h", 2 * SMALL);
    set_up(&to, "fixed-window 1000/h", SMALL);
    for (int i = 0; i < MANY; i++)
        ids[i] = make(&from, 3, s_ns, 2, (100 - i) * s_ns);
    assert_int_equal(try_commit(&from, ids[0], s_ns), WEIR_OK);
    weir_reserve_copy(to.r, from.r);
    assert_int_equal(count_open(&to), SMALL_MAX - 1);
    assert_int_equal(weir_reserve_stats_get(to.r).lost, 3);
    assert_int_equal(count_open(&from), MANY - 1);
    fake_note(&to.fake, 77, &to.policy);
    assert_int_equal(try_commit(&to, ids[0], s_ns), WEIR_E_ABSENT);
    assert_int_equal(try_commit(&to, ids[1], s_ns), WEIR_OK);
    assert_int_equal(try_commit(&to, ids[SMALL_MAX], s_ns), WEIR_E_ABSENT);
    assert_int_equal(count_open(&to), SMALL_MAX - 2);
    tear_down(&from);
    tear_down(&to);
}

/* A record with a right checksum and impossible contents is dropped. */
static void forged_records(void **unused)
{
    (void)unused;
    enum { ID, HASH, POLICY, CHARGED, EXPIRES, UNITS, CHECK, FIRST_AT = 128 + 8 };
    static const struct {
        size_t word;
        int64_t value;
        bool good;
    } cases[] = {
        {HASH, 99, true},          {UNITS, 0, true},
        {UNITS, -1, false},        {UNITS, WEIR_COST_MAX, true},
        {CHARGED, -1, false},      {UNITS, (int64_t)WEIR_COST_MAX + 1, false},
        {CHARGED, 0, true},        {EXPIRES, s_ns, false},
        {EXPIRES, s_ns + 1, true}, {ID, 12345, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture x;
        set_up(&x, "fixed-window 100/h", SMALL);
        make(&x, 3, s_ns, 5, 10 * s_ns);
        uint64_t words[CHECK + 1];
        memcpy(words, (char *)x.part + FIRST_AT, sizeof words);
        words[cases[i].word] = (uint64_t)cases[i].value;
        words[CHECK] = weir_siphash(secret, words, CHECK * sizeof *words);
        memcpy((char *)x.part + FIRST_AT, words, sizeof words);
        reopen(&x);
        assert_int_equal(count_open(&x), cases[i].good);
        assert_int_equal(weir_reserve_stats_get(x.r).damaged, !cases[i].good);
        tear_down(&x);
    }
}

/* Reservations of policies whose ids share an entry of the cache. An unknown policy is refused when
 * the store has no space for its text. */
static void policies_share_a_cache_entry(void **unused)
{
    (void)unused;
    fixture x;
    weir_decision d;
    int64_t over;
    static const uint64_t policy_ids[] = {0, 64, 128};
    uint64_t ids[3], unknown = 0;
    set_up(&x, "fixed-window 100/h", SMALL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(reserve_units(x.r, &x.policy, policy_ids[i], (uint64_t)i, s_ns, 10,
                                       60 * s_ns, &d, &ids[i]),
                         WEIR_OK);
    x.fake.policies = 3;
    while (x.fake.policies < POLICIES)
        fake_note(&x.fake, 1000 + x.fake.policies, &x.policy);
    assert_int_equal(reserve_units(x.r, &x.policy, 192, 7, s_ns, 1, 60 * s_ns, &d, &unknown),
                     WEIR_E_FULL);
    assert_int_equal(unknown, 0);
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(weir_reserve_commit(x.r, ids[i], s_ns, 4, &d, &over), WEIR_OK);
        assert_int_equal(d.remaining, 96);
    }
    tear_down(&x);
}

/* The units of an expired reservation return as of its expiry, however late that is noticed. */
static void units_return_as_of_the_expiry(void **unused)
{
    (void)unused;
    fixture x;
    set_up(&x, "fixed-window 100/h", SMALL);
    make(&x, 3, s_ns, 5, 10 * s_ns);
    weir_reserve_expire(x.r, 500 * s_ns);
    assert_int_equal(x.fake.last_ns, 11 * s_ns);
    tear_down(&x);
}

/* A commit at more than was reserved, for a key without a state and without memory for one. */
static void commit_of_more_without_memory(void **unused)
{
    (void)unused;
    static const weir_status full[] = {WEIR_E_NOMEM, WEIR_E_ROOM, WEIR_E_FULL};
    for (size_t i = 0; i < 3; i++) {
        fixture x;
        weir_decision d;
        int64_t over = -1;
        set_up(&x, "fixed-window 100/h", SMALL);
        uint64_t id = make(&x, 3, s_ns, 5, 10 * s_ns);
        x.fake.fails = full[i];
        x.fake.fails_once = true;
        assert_int_equal(weir_reserve_commit(x.r, id, s_ns, 9, &d, &over), WEIR_OK);
        assert_int_equal(over, 4);
        assert_int_equal(d.remaining, 95);
        tear_down(&x);
    }
}

/* A renewal that fails leaves the reservation as it was. */
static void renewal_without_memory(void **unused)
{
    (void)unused;
    fixture x;
    weir_decision d = {.remaining = 77};
    int64_t over = -1;
    set_up(&x, "fixed-window 100/h", SMALL);
    uint64_t id = make(&x, 3, s_ns, 5, 10 * s_ns);
    x.fake.fails = WEIR_E_NOMEM;
    x.fake.fails_once = true;
    assert_int_equal(weir_reserve_renew(x.r, id, s_ns, 20 * s_ns, &d), WEIR_E_NOMEM);
    assert_int_equal(d.remaining, 77);
    assert_int_equal(weir_reserve_commit(x.r, id, 11 * s_ns - 1, 2, &d, &over), WEIR_OK);
    assert_true(d.remaining == 98 && over == 0);
    tear_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_instruction),
        cmocka_unit_test(copied_to_less_memory),
        cmocka_unit_test(forged_records),
        cmocka_unit_test(policies_share_a_cache_entry),
        cmocka_unit_test(units_return_as_of_the_expiry),
        cmocka_unit_test(commit_of_more_without_memory),
        cmocka_unit_test(renewal_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
