/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Keys and cells: what a decision changes before it is written, and how many states a key has. */

#include "server_kit_test.h"

/* Decides on a cell that is expected to be decided on. */
static weir_decision decide(weir_cell *c, weir_verb verb, int64_t n, int64_t *ret_granted)
{
    weir_decision d;
    assert_int_equal(weir_cell_decide(c, verb, NOW, n, 0, &d, ret_granted), WEIR_OK);
    return d;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void verbs(void **unused)
{
    (void)unused;
    weir_open_key key = {0};
    weir_cell c;
    int64_t granted;
    assert_int_equal(weir_cell_open(&c, &key, intern("gcra 1/h burst 5"), NOW), WEIR_OK);
    assert_true(c.absent && c.state == c.small);
    assert_int_equal(decide(&c, WEIR_VERB_PEEK, 1, &granted).remaining, 5);
    assert_int_equal(decide(&c, WEIR_VERB_TAKE, 2, &granted).remaining, 3);
    assert_int_equal(granted, 0);
    assert_int_equal(decide(&c, WEIR_VERB_REFUND, 1, &granted).remaining, 4);
    weir_decision d = decide(&c, WEIR_VERB_GRANT, 9, &granted); /* at most what remains */
    assert_int_equal(granted, 4);
    assert_false(d.allowed);
    d = decide(&c, WEIR_VERB_GRANT, 1, &granted);
    assert_int_equal(granted, 0);
    assert_int_equal(decide(&c, WEIR_VERB_RESET, 0, &granted).remaining, 5);
    assert_null(c.state);
    weir_cell_close(&c);
}

/* The verb of CL.THROTTLE is none of a cell. */
static void a_verb_of_no_cell(void **unused)
{
    (void)unused;
    weir_open_key key = {0};
    weir_cell c;
    weir_decision d;
    int64_t granted = 7;
    assert_int_equal(weir_cell_open(&c, &key, intern("gcra 1/h burst 5"), NOW), WEIR_OK);
    assert_int_equal(weir_cell_decide(&c, WEIR_VERB_THROTTLE, NOW, 1, 0, &d, &granted),
                     WEIR_E_RANGE);
    assert_int_equal(granted, 0);
    weir_cell_close(&c);
}

/* A small state is decided on in a copy. */
static void a_small_state_is_copied(void **unused)
{
    (void)unused;
    weir_interned *s = intern("gcra 1/h burst 5");
    uint64_t state = (uint64_t)NOW;
    weir_open_key key = {.value = weir_value_put(0, 0, s, 0, &state, 1, 0), .exists = true};
    weir_cell c;
    int64_t granted;
    assert_int_equal(weir_cell_open(&c, &key, s, NOW), WEIR_OK);
    assert_false(c.absent);
    decide(&c, WEIR_VERB_TAKE, 1, &granted);
    assert_true(c.state[0] > state && c.before[0] == state);
    weir_cell_close(&c);
    weir_state_view view;
    weir_value_at(key.value, 0, &view);
    assert_int_equal(view.state[0], state);
    weir_value_free(key.value);
}

/* A long state is written in place. Closing the cell restores every word. */
static void a_long_state_is_restored(void **unused)
{
    (void)unused;
    enum { WORDS_MAX = 256 };
    weir_interned *s = intern("sliding-slices 100/d slices 100");
    size_t words = weir_state_words(&s->policy, 0);
    uint64_t before[WORDS_MAX];
    assert_true(words > WEIR_CELL_SMALL && words <= WORDS_MAX);
    weir_open_key key = {.exists = true};
    weir_cell c;
    int64_t granted;
    assert_int_equal(weir_cell_open(&c, &key, s, NOW), WEIR_OK);
    assert_non_null(c.new_state);
    decide(&c, WEIR_VERB_TAKE, 3, &granted);
    key.value = weir_value_put_heap_state(0, 0, c.new_state);
    c.new_state = NULL;
    weir_cell_close(&c);
    memcpy(before, weir_value_heap_state(key.value, 0)->state, words * sizeof before[0]);
    key.cells = 0;
    assert_int_equal(weir_cell_open(&c, &key, s, NOW), WEIR_OK);
    assert_true(c.in_place == weir_value_heap_state(key.value, 0));
    assert_int_equal(decide(&c, WEIR_VERB_TAKE, 5, &granted).remaining, 92);
    assert_int_equal(decide(&c, WEIR_VERB_REFUND, 1, &granted).remaining, 93);
    assert_true(c.undo_len > 0 && memcmp(c.state, before, words * sizeof before[0]) != 0);
    weir_cell_close(&c);
    assert_memory_equal(weir_value_heap_state(key.value, 0)->state, before,
                        words * sizeof before[0]);
    weir_value_free(key.value);
}

/* A state grows level by level, first in the cell and then on the heap. */
static void a_state_grows(void **unused)
{
    (void)unused;
    weir_interned *s = intern("sliding-log 100/d");
    weir_open_key key = {0};
    weir_cell c;
    int64_t granted;
    size_t small = 0;
    assert_int_equal(weir_cell_open(&c, &key, s, NOW), WEIR_OK);
    for (int i = 0; i < 100; i++) {
        weir_decision d;
        assert_int_equal(weir_cell_decide(&c, WEIR_VERB_TAKE, NOW + i, 1, 0, &d, &granted),
                         WEIR_OK);
        assert_int_equal(d.remaining, 99 - i);
        small += c.state == c.small;
        assert_int_equal(c.words, weir_state_words(&s->policy, c.level));
    }
    assert_true(small > 0 && c.new_state && c.state == c.new_state->state && c.level > 0);
    weir_cell_close(&c);
}

/* ---- states of a key ------------------------------------------------------------------------- */

/* A key with a state under each of n policies: gcra 1/h burst 1, burst 2, ...
 *  used  the states from this one on are not idle. */
static weir_open_key key_with(int n, int used)
{
    weir_open_key key = {.exists = true};
    for (int i = 0; i < n; i++) {
        char text[32];
        uint64_t state = (uint64_t)(i < used ? NOW - SECOND : NOW + SECOND);
        snprintf(text, sizeof text, "gcra 1/h burst %d", i + 1);
        key.value = weir_value_put(key.value, (size_t)i, intern(text), 0, &state, 1, 0);
    }
    return key;
}

static void idle_states(void **unused)
{
    (void)unused;
    weir_open_key key = key_with(3, 1);
    assert_true(weir_key_can_drop(&key, 0, NOW));
    assert_false(weir_key_can_drop(&key, 1, NOW));
    assert_false(weir_key_can_drop(&key, 1, NOW + SECOND - 1));
    assert_true(weir_key_can_drop(&key, 1, NOW + SECOND));
    weir_cell c; /* a state that the command decides on stays */
    assert_int_equal(weir_cell_open(&c, &key, intern("gcra 1/h burst 1"), NOW), WEIR_OK);
    assert_false(weir_key_can_drop(&key, 0, NOW));
    weir_cell_close(&c);
    weir_value_free(key.value);
}

/* Another policy fits if a state can be dropped for it. A policy that the key has needs no room. */
static void a_full_key(void **unused)
{
    (void)unused;
    static const struct {
        int states, idle;
        const char *text;
        bool drops;
        weir_status st;
    } rows[] = {
        {WEIR_POLICIES_OF_KEY - 1, 0, "gcra 1/d", false, WEIR_OK},
        {WEIR_POLICIES_OF_KEY, 0, "gcra 1/d", true, WEIR_E_FULL},
        {WEIR_POLICIES_OF_KEY, 1, "gcra 1/d", true, WEIR_OK},
        {WEIR_POLICIES_OF_KEY, 0, "gcra 1/h burst 2", false, WEIR_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_open_key key = key_with(rows[i].states, rows[i].idle);
        weir_cell c;
        assert_int_equal(weir_cell_open(&c, &key, intern(rows[i].text), NOW), rows[i].st);
        assert_int_equal(key.must_drop_idle, rows[i].drops);
        weir_cell_close(&c);
        weir_value_free(key.value);
    }
}

/* States that may become so large that they would not fit into one payload. */
static void states_that_may_grow(void **unused)
{
    (void)unused;
    weir_open_key key = {0};
    weir_cell c[4];
    for (int i = 0; i < 4; i++) {
        char text[40];
        snprintf(text, sizeof text, "sliding-log %d/d", 2000000000 + i);
        assert_int_equal(weir_cell_open(&c[i], &key, intern(text), NOW),
                         i < 3 ? WEIR_OK : WEIR_E_FULL);
    }
    for (int i = 0; i < 4; i++)
        weir_cell_close(&c[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(verbs),
                                       cmocka_unit_test(a_verb_of_no_cell),
                                       cmocka_unit_test(a_small_state_is_copied),
                                       cmocka_unit_test(a_long_state_is_restored),
                                       cmocka_unit_test(a_state_grows),
                                       cmocka_unit_test(idle_states),
                                       cmocka_unit_test(a_full_key),
                                       cmocka_unit_test(states_that_may_grow)};
    return cmocka_run_group_tests_name("keyspace", tests, open_server, close_server);
}
