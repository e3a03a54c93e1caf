/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calls through a client, in a time of their own: that each ends once, in time, and by its own
 * answer. */

#include "engine/redis/client_kit_test.h"

static void asks_the_module(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    test_call t;
    take(&t, "alice", 3);
    settle();
    assert_answered(&t);
    assert_true(t.question[0].decision.allowed);
    assert_int_equal(t.question[0].decision.limit, 1000000);
    assert_int_equal(t.question[0].decision.reset_after_ns, 1000000);
    assert_string_equal(s->last, "WEIR.ASK TAKE gcra 100/s burst 20 weir:{alice}:api 3");
    assert_string_equal(kit.log, "redis-up a:7000: the module\n");
    assert_int_equal(count(&kit.counts.sent), 1);
    assert_int_equal(count(&kit.counts.answered), 1);
    assert_int_equal(count(&kit.counts.connected), 1);
}

static void answers_go_to_their_calls(void **state)
{
    (void)state;
    add_server(7000);
    kit.bytewise = *state != NULL;
    open_client();
    enum { N = 300 };
    static test_call t[N];
    for (int i = 0; i < N; i++)
        take(&t[i], "alice", i);
    settle();
    for (int i = 0; i < N; i++)
        assert_answered(&t[i]);
    assert_int_equal(kit.server[0].dials, 1);
}

static void answers_byte_by_byte(void **state)
{
    *state = &kit;
    answers_go_to_their_calls(state);
}

static void is_late_at_the_deadline(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    settle();
    s->is_hung = true;
    test_call a, b, c;
    take(&a, "alice", 1);
    ask_of(&b, WEIR_VERB_TAKE, "alice", 2, 20 * MS);
    send_call(&b);
    int64_t begin_ns = kit.now_ns;
    pass(20 * MS - 1);
    assert_int_equal(b.done, 0);
    pass(1);
    assert_ended(&b, WEIR_REDIS_LATE);
    assert_int_equal(b.done_ns, begin_ns + 20 * MS);
    assert_int_equal(a.done, 0);
    pass(40 * MS);
    assert_ended(&a, WEIR_REDIS_LATE);
    /* What comes late is nobody's: least of all the next one's. */
    memset(&a, 0x55, sizeof a);
    memset(&b, 0x55, sizeof b);
    take(&c, "alice", 3);
    s->is_hung = false;
    settle();
    assert_answered(&c);
    assert_int_equal(count(&kit.counts.late), 2);
    assert_int_equal(s->dials, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(asks_the_module, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_go_to_their_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_byte_by_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(is_late_at_the_deadline, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
