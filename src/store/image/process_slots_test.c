/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Process slots, and the presence of processes below them: held by one opening at a time, and free
 * once its thread has ended. */

#include "store/image/shared_memory.h"

#include "store/kill_kit_test.h"
#include "store/kit_test.h"

enum { LEN = 8 };

static unsigned inits_left; /* until one fails; 0: none fails */

bool __real_port_presence_init(port_presence *p);
bool __wrap_port_presence_init(port_presence *p);
bool __wrap_port_presence_init(port_presence *p)
{
    bool fails = inits_left > 0 && --inits_left == 0;
    return !fails && __real_port_presence_init(p);
}

/* In memory that processes share. */
typedef struct shared {
    port_presence place[LEN];
    port_word openings;
    port_word owner[LEN]; /* the process that has the slot, as far as it knows */
    port_counter taken;
} shared;

static shared *new_shared(weir_process_slots *ret)
{
    shared *s = part_of(sizeof *s);
    *ret = (weir_process_slots){s->place, LEN};
    assert_true(weir_process_slots_init(ret));
    return s;
}

static void drop_shared(shared *s)
{
    munmap(s, sizeof *s);
}

/* ---- one place ------------------------------------------------------------------------------- */

static void try_take(void *place)
{
    port_presence *p = place;
    assert_false(port_presence_take(p, 7));
    assert_true(port_presence_is_held(p, 5));
    assert_false(port_presence_is_held(p, 7));
}

static void take_and_end(void *place)
{
    assert_true(port_presence_take(place, 9));
}

static void in_thread(void (*fn)(void *place), port_presence *p)
{
    port_thread *t = port_thread_start(fn, p);
    assert_non_null(t);
    port_thread_join(t);
}

static void one_place(void **unused)
{
    (void)unused;
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    port_presence *p = &s->place[0];
    assert_false(port_presence_is_held(p, 5));
    for (int i = 0; i < 3; i++) {
        assert_true(port_presence_take(p, 5));
        assert_false(port_presence_take(p, 6)); /* the same thread */
        assert_true(port_presence_is_held(p, 5));
        in_thread(try_take, p);
        port_presence_release(p);
        assert_false(port_presence_is_held(p, 5));
        in_thread(take_and_end, p);
        assert_false(port_presence_is_held(p, 9));
    }
    drop_shared(s);
}

static int take_and_wait(void *ctx)
{
    shared *s = ctx;
    if (!port_presence_take(&s->place[1], 3))
        return 1;
    port_add_relaxed(&s->taken, 1);
    for (;;)
        pause();
}

/* A place is free after its process was killed. */
static void killed_holder(void **unused)
{
    (void)unused;
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    for (uint64_t n = 0; n < 20; n++) {
        pid_t pid = fork_child(take_and_wait, s);
        while (port_load_relaxed(&s->taken) <= n)
            port_yield();
        assert_true(port_presence_is_held(&s->place[1], 3));
        assert_false(port_presence_take(&s->place[1], 4));
        assert_true(kill_child(pid));
        if (n % 2)
            assert_false(port_presence_is_held(&s->place[1], 3));
        assert_true(port_presence_take(&s->place[1], 4));
        assert_false(port_presence_is_held(&s->place[1], 3));
        assert_true(port_presence_is_held(&s->place[1], 4));
        port_presence_release(&s->place[1]);
    }
    drop_shared(s);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void a_slot_that_fails(void **unused)
{
    (void)unused;
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    for (unsigned n = 1; n <= LEN; n++) {
        inits_left = n;
        assert_false(weir_process_slots_init(&slots));
    }
    assert_int_equal(inits_left, 0);
    drop_shared(s);
}

static void ids(void **unused)
{
    (void)unused;
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    uint64_t id;
    for (uint64_t n = 0; n < LEN; n++) {
        assert_true(weir_process_slots_take(&slots, &s->openings, &id));
        assert_int_equal(id, 2 * n + 1);
    }
    assert_false(weir_process_slots_take(&slots, &s->openings, &id));
    assert_int_equal(id, 2 * LEN - 1);
    weir_process_slots_release(&slots, 3);
    assert_false(weir_process_slots_has(&slots, 3));
    assert_true(weir_process_slots_take(&slots, &s->openings, &id));
    assert_int_equal(id % (2 * (uint64_t)LEN), 3);
    assert_true(id > 2 * LEN && weir_process_slots_has(&slots, id));
    assert_false(weir_process_slots_has(&slots, 3));
    weir_process_slots_release(&slots, id);
    for (uint64_t n = 1; n < 2 * LEN; n += 2) {
        if (n != 3)
            weir_process_slots_release(&slots, n);
    }
    drop_shared(s);
}

/* The last slot is found as well when the ids begin again. */
static void last_slot(void **unused)
{
    (void)unused;
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    uint64_t id;
    for (uint64_t n = 1; n < LEN; n++)
        assert_true(weir_process_slots_take(&slots, &s->openings, &id));
    port_word_store_relaxed(&s->openings, (1 << (WEIR_PROCESS_ID_BITS - 1)));
    assert_true(weir_process_slots_take(&slots, &s->openings, &id));
    assert_int_equal(id, 2 * LEN - 1);
    for (uint64_t n = 1; n < 2 * LEN; n += 2)
        weir_process_slots_release(&slots, n);
    drop_shared(s);
}

static int take_and_release(void *ctx)
{
    shared *s = ctx;
    weir_process_slots slots = {s->place, LEN};
    for (int n = 0; n < 3000; n++) {
        uint64_t id, none = 0;
        if (!weir_process_slots_take(&slots, &s->openings, &id))
            return 1;
        port_word *owner = &s->owner[id / 2 % LEN];
        if (!port_word_cas_acquire(owner, &none, id))
            return 2;
        for (uint64_t other = id; other + 2 * LEN > id && other > 0; other--)
            (void)weir_process_slots_has(&slots, other);
        if (!weir_process_slots_has(&slots, id))
            return 3;
        port_word_store_release(owner, 0);
        weir_process_slots_release(&slots, id);
    }
    return 0;
}

/* Processes that take slots at once never have the same one. */
static void many_processes(void **unused)
{
    (void)unused;
    enum { PROCESSES = 4 };
    weir_process_slots slots;
    shared *s = new_shared(&slots);
    pid_t pid[PROCESSES];
    for (size_t i = 0; i < PROCESSES; i++)
        pid[i] = fork_child(take_and_release, s);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(wait_child(pid[i]), 0);
    drop_shared(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_place),
        cmocka_unit_test(killed_holder),
        cmocka_unit_test(ids),
        cmocka_unit_test(last_slot),
        cmocka_unit_test(many_processes),
        cmocka_unit_test(a_slot_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
