/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the redis engine knows to be denied, and who waits for whom, in virtual time: what is sent,
 * and what is not. */

#include "engine/redis/engine_kit_test.h"

/* ---- what is known to be denied -------------------------------------------------------------- */

static void a_denial_is_known_until_its_time(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    w.now_ns += ms_ns; /* the way there and back */
    deny(&w, 0, s_ns);
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 1);

    w.now_ns = start_ns + 500 * ms_ns + 1;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_false(s.request.by_error);
    assert_false(s.request.decision.allowed);
    assert_int_equal(s.request.decision.limit, 5);
    assert_int_equal(s.request.decision.retry_after_ns, 501 * ms_ns);
    assert_int_equal(s.request.decision.reset_after_ns, 1501 * ms_ns);
    assert_true(ask(&w, &s, WEIR_VERB_PEEK, "a", 1));
    assert_true(ask(&w, &s, WEIR_VERB_GRANT, "a", 3));
    assert_int_equal(s.request.granted, 0);
    assert_int_equal(port_load_relaxed(&w.stats.deny_hits), 3);

    /* Another cost, key, text or name is not known. */
    assert_false(ask(&w, &s, WEIR_VERB_PEEK, "a", 0));
    allow(&w, 0);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "ab", 1));
    allow(&w, 0);

    /* Never later than the truth: that is a second after it was sent, or more. */
    w.now_ns = start_ns + s_ns - s_ns / 512 - us_ns - 1;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    w.now_ns++;
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    allow(&w, 0);
    end(&w);
}

static void a_reset_or_refund_forgets_it(void **state)
{
    (void)state;
    static const weir_verb verbs[] = {WEIR_VERB_RESET, WEIR_VERB_REFUND};
    for (size_t i = 0; i < 2; i++) {
        world w;
        single s = {0};
        begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
        assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        assert_false(ask(&w, &s, verbs[i], "a", 1));
        allow(&w, 1);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));

        /* A denial of before the reset that is heard of afterwards is not believed. */
        single r = {0};
        assert_false(ask(&w, &r, verbs[i], "a", 1));
        r.request.status = WEIR_OK;
        end_call(&w, 1, WEIR_REDIS_ANSWERED);
        deny(&w, 0, s_ns);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);

        /* One that may have been done counts as one. */
        assert_false(ask(&w, &r, verbs[i], "a", 1));
        end_call(&w, 0, WEIR_REDIS_LATE);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        allow(&w, 0);
        end(&w);
    }
}

/* In a round too: what comes after a reset is not denied by what was before it. */
static void a_reset_goes_before_what_follows(void **state)
{
    (void)state;
    world w;
    single s = {0};
    several r;
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, s_ns);
    memset(&r, 0, sizeof r);
    r.request[0] = request(&w, WEIR_VERB_TAKE, "a", 1);
    r.request[1] = request(&w, WEIR_VERB_RESET, "a", 0);
    r.request[2] = request(&w, WEIR_VERB_TAKE, "a", 1);
    r.round = (weir_engine_batch){.request = r.request, .len = 3, .done = several_done};
    assert_false(w.engine->calls->submit(w.engine, &r.round, w.now_ns));
    assert_int_equal(client.calls, 2);
    assert_ptr_equal(client.call[0]->request, &r.request[1]);
    assert_ptr_equal(client.call[1]->request, &r.request[2]);
    allow(&w, 5);
    allow(&w, 4);
    assert_int_equal(r.done, 1);
    assert_false(r.request[0].decision.allowed);
    assert_true(r.request[2].decision.allowed);

    /* As it is at a gate, with one that asks first. */
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "b", 1));
    deny(&w, 0, s_ns);
    w.now_ns += s_ns;
    for (int i = 0; i < 3; i++)
        r.request[i].key.at = "b";
    assert_false(w.engine->calls->submit(w.engine, &r.round, w.now_ns));
    assert_int_equal(client.calls, 1);
    allow(&w, 0);
    assert_int_equal(client.calls, 2);
    assert_ptr_equal(client.call[0]->request, &r.request[1]);
    assert_ptr_equal(client.call[1]->request, &r.request[2]);
    end(&w);
    assert_int_equal(r.done, 2);
}

/* Without memory for a gate it is sent all the same. */
static void a_gate_may_find_no_memory(void **state)
{
    (void)state;
    world w;
    single s[2] = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, s_ns);
    w.now_ns += s_ns;
    no_memory_from = 1;
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    no_memory_from = -1;
    assert_false(ask(&w, &s[1], WEIR_VERB_TAKE, "a", 1)); /* at a gate of its own */
    assert_int_equal(client.calls, 1);
    allow(&w, 3);
    to(&w, w.now_ns + ms_ns);
    allow(&w, 2);
    assert_int_equal(s[0].done + s[1].done, 2);
    end(&w);
}

static void counted_denials_are_all_sent(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "sliding-log 5/s count-denied", (weir_redis_options){0});
    for (int i = 0; i < 3; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
    }
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 0);
    end(&w);
}

static void it_may_be_turned_off(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){.deny_cache_bytes = SIZE_MAX});
    for (int i = 0; i < 3; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
    }
    end(&w);
}

/* ---- gates ----------------------------------------------------------------------------------- */

/* One that asks for a hot key when its denial has ended is enough. */
static void a_crowd_waits_for_one(void **state)
{
    (void)state;
    world w;
    single s[5] = {0}, last = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){0});
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, 10 * ms_ns);
    w.now_ns += 10 * ms_ns;
    for (int i = 0; i < 5; i++)
        assert_false(ask(&w, &s[i], WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.sent, 2);

    /* It is allowed, with nothing left: the next asks, and is denied, for all. */
    allow(&w, 0);
    assert_int_equal(s[0].done, 1);
    assert_int_equal(client.sent, 3);
    assert_int_equal(s[1].done, 0);
    deny(&w, 0, 10 * ms_ns);
    for (int i = 0; i < 5; i++)
        assert_int_equal(s[i].done, 1);
    for (int i = 1; i < 5; i++)
        assert_false(s[i].request.decision.allowed);
    assert_int_equal(client.sent, 3);
    assert_int_equal(client.calls, 0);

    /* As many go at once as there are units left, and one more. */
    w.now_ns += 10 * ms_ns;
    for (int i = 0; i < 5; i++)
        assert_false(ask(&w, &s[i], WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.calls, 1);
    allow(&w, 2);
    assert_int_equal(client.calls, 3);
    allow(&w, 1);
    allow(&w, 0);
    assert_int_equal(client.calls, 1);
    allow(&w, 5);
    assert_int_equal(client.calls, 1);
    allow(&w, 4);
    assert_false(ask(&w, &last, WEIR_VERB_TAKE, "a", 1));
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.calls, 2);
    end(&w);
    assert_int_equal(last.done, 1);
}

/* What one thread has heard, another need not ask; and of all threads one asks when it ends. */
static void threads_ask_as_one(void **state)
{
    (void)state;
    world a, b;
    single s = {0}, t[3] = {0};
    begin(&a, "gcra 100/s burst 1", (weir_redis_options){0});
    begin_beside(&b, &a, "gcra 100/s burst 1", (weir_redis_options){0});
    assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
    deny(&a, 0, 10 * ms_ns);
    assert_int_equal(port_load_relaxed(&a.stats.deny_keys), 1);
    assert_true(ask(&b, &t[0], WEIR_VERB_TAKE, "a", 1));
    assert_false(t[0].request.decision.allowed);
    assert_int_equal(client.sent, 1);

    /* It ends: one of them asks, and the other looks at the board each ms. */
    a.now_ns += 10 * ms_ns;
    b.now_ns += 10 * ms_ns;
    assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
    for (int i = 0; i < 3; i++)
        assert_false(ask(&b, &t[i], WEIR_VERB_TAKE, "a", 1));
    to(&b, b.now_ns + ms_ns);
    assert_int_equal(client.sent, 2);
    to(&a, b.now_ns);
    deny(&a, 0, 10 * ms_ns);
    assert_int_equal(t[0].done, 0);
    to(&b, b.now_ns + ms_ns);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t[i].done, 1);
    assert_int_equal(client.sent, 2);

    /* It is allowed: what is left is for whoever comes first. */
    to(&a, a.now_ns + 10 * ms_ns);
    to(&b, a.now_ns);
    assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
    for (int i = 0; i < 3; i++)
        assert_false(ask(&b, &t[i], WEIR_VERB_TAKE, "a", 1));
    allow(&a, 1);
    to(&b, b.now_ns + ms_ns);
    assert_int_equal(client.calls, 2);
    allow(&b, 0);
    deny(&b, 0, 10 * ms_ns);
    assert_int_equal(t[0].done + t[1].done + t[2].done, 3);

    /* A reset by one is known to the other. */
    assert_true(ask(&b, &t[0], WEIR_VERB_TAKE, "a", 1));
    assert_false(ask(&a, &s, WEIR_VERB_RESET, "a", 0));
    assert_false(ask(&b, &t[0], WEIR_VERB_TAKE, "a", 1));
    allow(&a, 1);
    allow(&b, 0);
    end(&b);
    end(&a);
}

/* Whoever asks for all may be late, abandoned or closed. */
static void another_takes_its_place(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        world a, b;
        single s = {0}, t[2] = {0};
        begin(&a, "gcra 100/s burst 1", (weir_redis_options){0});
        begin_beside(&b, &a, "gcra 100/s burst 1", (weir_redis_options){0});
        assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&a, 0, 10 * ms_ns);
        a.now_ns += 10 * ms_ns;
        b.now_ns += 10 * ms_ns;
        assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
        assert_false(ask(&b, &t[0], WEIR_VERB_TAKE, "a", 1));
        assert_false(ask(&b, &t[1], WEIR_VERB_TAKE, "a", 1));
        if (how == 0)
            end_call(&a, 0, WEIR_REDIS_LATE);
        if (how == 1)
            a.engine->calls->abandon(a.engine, &s.round);
        if (how == 2) { /* those who wait go */
            b.engine->calls->abandon(b.engine, &t[0].round);
            b.engine->calls->abandon(b.engine, &t[1].round);
            to(&b, b.now_ns + ms_ns);
            assert_int_equal(client.calls, 1);
            allow(&a, 0);
        } else if (how == 3) { /* nobody hears: each has its deadline */
            to(&b, b.now_ns + 50 * ms_ns);
            assert_int_equal(t[0].done + t[1].done, 2);
            assert_true(t[0].request.by_error);
            allow(&a, 0);
        } else {
            to(&b, b.now_ns + ms_ns);
            assert_int_equal(client.calls, 1);
            assert_ptr_equal(client.call[0]->request, &t[0].request);
            allow(&b, 0);
            allow(&b, 0);
            assert_int_equal(t[0].done + t[1].done, 2);
        }
        assert_int_equal(client.calls, 0);

        /* Closed while it waits for another. */
        to(&a, b.now_ns);
        assert_false(ask(&a, &s, WEIR_VERB_TAKE, "a", 1));
        assert_false(ask(&b, &t[0], WEIR_VERB_TAKE, "a", 1));
        weir_redis_call *call = client.call[0];
        client.calls = 0; /* of the other's client */
        end(&b);
        assert_int_equal(t[0].done, 1);
        client.call[client.calls++] = call;
        end(&a);
        assert_int_equal(s.done, 1);
    }
}

static void who_waits_has_a_deadline(void **state)
{
    (void)state;
    world w;
    single s[3] = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, 10 * ms_ns);
    to(&w, start_ns + 10 * ms_ns);
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    to(&w, start_ns + 20 * ms_ns);
    assert_false(ask(&w, &s[1], WEIR_VERB_TAKE, "a", 1));
    to(&w, start_ns + 69 * ms_ns);
    assert_int_equal(s[1].done, 0);
    to(&w, start_ns + 70 * ms_ns);
    assert_int_equal(s[1].done, 1);
    assert_int_equal(s[1].done_ns, start_ns + 70 * ms_ns);
    assert_true(s[1].request.by_error);

    /* The probe fails: the next asks. It goes: the one after it does. */
    assert_false(ask(&w, &s[1], WEIR_VERB_TAKE, "a", 1));
    assert_false(ask(&w, &s[2], WEIR_VERB_TAKE, "a", 1));
    end_call(&w, 0, WEIR_REDIS_LATE);
    assert_int_equal(client.calls, 1);
    w.engine->calls->abandon(w.engine, &s[1].round);
    assert_int_equal(client.calls, 1);
    assert_ptr_equal(client.call[0]->request, &s[2].request);
    w.engine->calls->abandon(w.engine, &s[2].round);
    assert_int_equal(client.calls, 0);
    end(&w);
}

/* Who has waited at a gate for most of his time and is late then says nothing about the node. */
static void waiting_opens_no_breaker(void **state)
{
    (void)state;
    world w;
    single s[20] = {0}, next = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){0});
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, 10 * ms_ns);
    to(&w, start_ns + 10 * ms_ns);
    for (int i = 0; i < 20; i++)
        assert_false(ask(&w, &s[i], WEIR_VERB_TAKE, "a", 1));
    w.now_ns += 30 * ms_ns; /* one after the other, each with what is left of its time */
    allow(&w, 0);
    w.now_ns += 20 * ms_ns;
    for (int i = 1; i < 20; i++)
        end_call(&w, 0, WEIR_REDIS_LATE);
    assert_int_equal(w.lines, 0);
    assert_false(ask(&w, &next, WEIR_VERB_TAKE, "b", 1));
    end(&w);
}

static void abandoned_at_any_time(void **state)
{
    (void)state;
    world w;
    several s;
    single hot[3] = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){0});
    assert_false(ask_several(&w, &s, 4, false));
    allow(&w, 0);
    w.engine->calls->abandon(w.engine, &s.round);
    assert_int_equal(client.calls, 0);
    assert_int_equal(s.done, 0);

    assert_false(ask(&w, &hot[0], WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, 10 * ms_ns);
    w.now_ns += 10 * ms_ns;
    for (int i = 0; i < 3; i++)
        assert_false(ask(&w, &hot[i], WEIR_VERB_TAKE, "a", 1));
    w.engine->calls->abandon(w.engine, &hot[1].round);
    /* Where nobody may be asked, those who waited are answered, but not from within this. */
    client.is_down = true;
    client.next_ns = w.now_ns + s_ns;
    w.engine->calls->abandon(w.engine, &hot[0].round);
    assert_int_equal(hot[2].done, 0);
    to(&w, w.now_ns);
    assert_int_equal(hot[2].done, 1);
    assert_int_equal(hot[0].done + hot[1].done, 0);

    /* Also between its answer and its telling. */
    client.is_down = false;
    for (int i = 0; i < 3; i++)
        assert_false(ask(&w, &hot[i], WEIR_VERB_TAKE, "a", 1));
    client.is_down = true;
    client.next_ns = w.now_ns + s_ns;
    w.engine->calls->abandon(w.engine, &hot[0].round);
    w.engine->calls->abandon(w.engine, &hot[2].round);
    to(&w, w.now_ns);
    assert_int_equal(hot[1].done, 1);
    assert_int_equal(hot[2].done, 0);
    end(&w);
}

/* ---- a hot key, against the core ------------------------------------------------------------- */

/* A server that decides by the core, `delay` after it was sent; requests come every `gap`. No key
 * is denied that the server would allow, and each denial of the server has its own time to itself.
 */
static void a_hot_key_is_asked_once_a_denial(void **state)
{
    (void)state;
    static const char *const policies[] = {"gcra 100/s burst 1", "gcra 100/s burst 20",
                                           "fixed-window 10/s", "sliding-log 10/s"};
    enum { ASKS = 20000 };
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
        world w;
        static single s[ASKS];
        begin(&w, policies[k], (weir_redis_options){0});
        const int64_t gap_ns = 100 * us_ns, delay_ns = 300 * us_ns;
        int64_t denied_ns = INT64_MIN, retry_ns = 0, sent_ns[CALLS_MAX] = {0};
        size_t seen = 0, early = 0, denials = 0;
        for (size_t i = 0; i < ASKS; i++) {
            to(&w, start_ns + (int64_t)i * gap_ns);
            while (client.calls > 0 && sent_ns[0] + delay_ns <= w.now_ns) {
                weir_engine_request *q = client.call[0]->request;
                q->status =
                    weir_store_check(w.store, q->policy, q->policy_id, q->key.at, q->key.len,
                                     w.now_ns - delay_ns / 2, q->cost, &q->decision);
                if (!q->decision.allowed) {
                    /* The first burst may be on its way already; later each has its time. */
                    early += i > 100 && w.now_ns - delay_ns / 2 <
                                            denied_ns + retry_ns - retry_ns / 256 - 10 * us_ns;
                    denied_ns = w.now_ns - delay_ns / 2;
                    retry_ns = q->decision.retry_after_ns;
                    denials++;
                }
                size_t before = client.sent;
                memmove(&sent_ns[0], &sent_ns[1], sizeof sent_ns - sizeof sent_ns[0]);
                end_call(&w, 0, WEIR_REDIS_ANSWERED);
                for (size_t n = client.calls - (client.sent - before); n < client.calls; n++)
                    sent_ns[n] = w.now_ns;
                seen = client.sent;
            }
            (void)ask(&w, &s[i], WEIR_VERB_TAKE, "hot", 1);
            for (; seen < client.sent; seen++)
                sent_ns[client.calls - 1] = w.now_ns;
        }
        size_t allowed = 0;
        for (size_t i = 0; i < ASKS; i++)
            allowed += s[i].request.status == WEIR_OK && s[i].request.decision.allowed;
        assert_int_equal(early, 0);
        assert_true(denials > 5);
        assert_int_equal(by(&w, WEIR_ON_ERROR_OPEN), 0);
        /* 2 s: what the policy has, but for what is lost by asking a little late. */
        assert_true(allowed >= (k < 2 ? 185 : 20));
        assert_true(client.sent <= allowed + denials + 1);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denial_is_known_until_its_time),
        cmocka_unit_test(a_reset_or_refund_forgets_it),
        cmocka_unit_test(a_reset_goes_before_what_follows),
        cmocka_unit_test(a_gate_may_find_no_memory),
        cmocka_unit_test(counted_denials_are_all_sent),
        cmocka_unit_test(it_may_be_turned_off),
        cmocka_unit_test(a_crowd_waits_for_one),
        cmocka_unit_test(threads_ask_as_one),
        cmocka_unit_test(another_takes_its_place),
        cmocka_unit_test(who_waits_has_a_deadline),
        cmocka_unit_test(waiting_opens_no_breaker),
        cmocka_unit_test(abandoned_at_any_time),
        cmocka_unit_test(a_hot_key_is_asked_once_a_denial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
