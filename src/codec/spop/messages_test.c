/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sets of messages and their activation: limits, exhausted memory, and that the memory of a set is
 * freed with its last user. */

#include "codec/spop/session_kit_test.h"

#include "port/memory_kit_test.h"

static const weir_spop_spec three[] = {
    {.name = "plain", .policy = "api"},
    {.name = "named", .policy = "$policy", .key = "$key/$src", .cost = "$cost"},
    {.name = "fixed", .policy = "api", .cost = "7"},
};

enum { SPECS = sizeof three / sizeof three[0] };

static weir_slice slice(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static uint64_t blocks(void)
{
    return port_load_relaxed(&memory.blocks);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void check_set(void **unused)
{
    (void)unused;
    weir_spop_messages *m;
    assert_int_equal(weir_spop_messages_build(&m, three, SPECS, 5), WEIR_OK);
    assert_int_equal(weir_spop_messages_variables(m), 5);
    assert_int_equal(weir_spop_messages_variables(NULL), 0);
    const weir_spop_message *plain = weir_spop_messages_find(m, slice("plain"));
    assert_true(plain && !plain->policy && !plain->key && !plain->cost);
    assert_true(plain->policy_name.len == 3 && memcmp(plain->policy_name.at, "api", 4) == 0);
    assert_true(plain->fixed_cost == 1);
    const weir_spop_message *named = weir_spop_messages_find(m, slice("named"));
    assert_true(named && named->policy && named->key && named->cost);
    assert_int_equal(weir_key_template_len(named->key), 2);
    assert_true(weir_spop_messages_find(m, slice("fixed"))->fixed_cost == 7);
    assert_null(weir_spop_messages_find(NULL, slice("plain")));
    weir_spop_messages_drop(m);
    weir_spop_messages_drop(NULL);
}

/* Names are found by their bytes, among any number of others. */
static void check_find(void **unused)
{
    (void)unused;
    static const char *const names[] = {"b", "bb", "a", "ba", "d", "c", "abc"}, *const absent[] = {
                                                                                    "",    "aa",
                                                                                    "ab",  "abcd",
                                                                                    "bbb", "e",
                                                                                    "A"};
    enum { N = sizeof names / sizeof names[0] };
    weir_spop_spec all[N];
    for (size_t n = 0; n <= N; n++) {
        weir_spop_messages *m;
        for (size_t i = 0; i < n; i++)
            all[i] = (weir_spop_spec){.name = names[i], .policy = "api"};
        assert_int_equal(weir_spop_messages_build(&m, all, n, 0), WEIR_OK);
        for (size_t i = 0; i < N; i++) {
            char longer[8]; /* the name, followed by other bytes */
            snprintf(longer, sizeof longer, "%szz", names[i]);
            const weir_spop_message *found =
                weir_spop_messages_find(m, (weir_slice){longer, strlen(names[i])});
            assert_int_equal(found != NULL, i < n);
            if (found)
                assert_memory_equal(found->name.at, names[i], strlen(names[i]) + 1);
            assert_null(weir_spop_messages_find(m, slice(absent[i])));
        }
        weir_spop_messages_drop(m);
    }
}

static void check_limits(void **unused)
{
    (void)unused;
    static weir_spop_spec many[WEIR_SPOP_MESSAGES_MAX + 1];
    static char names[WEIR_SPOP_MESSAGES_MAX + 1][8];
    for (size_t i = 0; i <= WEIR_SPOP_MESSAGES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "m%u", (unsigned)i % 10000);
        many[i] = (weir_spop_spec){.name = names[i], .policy = "api"};
    }
    weir_spop_messages *m;
    assert_int_equal(weir_spop_messages_build(&m, many, WEIR_SPOP_MESSAGES_MAX, 0), WEIR_OK);
    weir_spop_messages_drop(m);
    assert_int_equal(weir_spop_messages_build(&m, many, WEIR_SPOP_MESSAGES_MAX + 1, 0),
                     WEIR_E_RANGE);
    char text[WEIR_SPOP_NAME_MAX + 2];
    memset(text, 'n', sizeof text);
    static const struct {
        size_t name, policy;
        const char *cost;
        weir_status status;
    } rows[] = {
        {WEIR_SPOP_NAME_MAX, WEIR_RULE_NAME_MAX, "0", WEIR_OK},
        {WEIR_SPOP_NAME_MAX, WEIR_RULE_NAME_MAX, "2147483647", WEIR_OK},
        {WEIR_SPOP_NAME_MAX, WEIR_RULE_NAME_MAX, "2147483648", WEIR_E_RANGE},
        {WEIR_SPOP_NAME_MAX + 1, 1, "1", WEIR_E_RANGE},
        {1, WEIR_RULE_NAME_MAX + 1, "1", WEIR_E_RANGE},
    };
    static const int64_t keeps[] = {-101, -100, WEIR_COST_MAX, (int64_t)WEIR_COST_MAX + 1};
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++) {
        const weir_spop_spec spec = {.name = "n", .policy = "p", .keep = keeps[i]};
        bool good = i == 1 || i == 2;
        assert_int_equal(weir_spop_messages_build(&m, &spec, 1, 0), good ? WEIR_OK : WEIR_E_RANGE);
        if (good)
            weir_spop_messages_drop(m);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *end = text + sizeof text - 1;
        text[sizeof text - 1] = '\0';
        const weir_spop_spec spec = {
            .name = end - rows[i].name, .policy = end - rows[i].policy, .cost = rows[i].cost};
        weir_status st = weir_spop_messages_build(&m, &spec, 1, 0);
        assert_int_equal(st, rows[i].status);
        if (st == WEIR_OK)
            weir_spop_messages_drop(m);
    }
}

static bool build(uint64_t n, bool later)
{
    weir_spop_messages *m = NULL;
    memory_fail(n, later);
    weir_status st = weir_spop_messages_build(&m, three, SPECS, 0);
    bool failed = memory_stop();
    assert_int_equal(st, failed ? WEIR_E_NOMEM : WEIR_OK);
    assert_int_equal(m == NULL, failed);
    weir_spop_messages_drop(m);
    return failed;
}

static bool open_all(uint64_t n, bool later)
{
    memory_fail(n, later);
    weir_spop *s = weir_spop_open();
    weir_spop_loop *l = s ? weir_spop_loop_open(s) : NULL;
    bool failed = memory_stop();
    assert_int_equal(l == NULL, failed);
    weir_spop_loop_close(l);
    weir_spop_close(s);
    return failed;
}

static void check_no_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(build);
    fail_each_allocation(open_all);
}

/* A bad message frees those before it. */
static void check_bad_message(void **unused)
{
    (void)unused;
    uint64_t before = blocks();
    const weir_spop_spec bad[] = {three[1],
                                  {.name = "a", .policy = "$p", .key = "$k", .cost = "x"}};
    weir_spop_messages *m;
    assert_int_equal(weir_spop_messages_build(&m, bad, 2, 0), WEIR_E_RANGE);
    assert_int_equal(blocks(), before);
}

/* ---- activation ------------------------------------------------------------------------------ */

static void activate(weir_spop *s, const weir_spop_spec *at, size_t n)
{
    weir_spop_messages *m;
    assert_int_equal(weir_spop_messages_build(&m, at, n, 0), WEIR_OK);
    weir_spop_activate(s, m, NULL, NULL);
    weir_spop_messages_drop(m);
}

/* A loop keeps the set that it found until it asks again. A set is freed with its last user. */
static void check_activation(void **unused)
{
    (void)unused;
    uint64_t before = blocks();
    weir_spop *s = weir_spop_open();
    assert_true(weir_spop_take_unknown(s, WEIR_SPOP_MESSAGE, NULL) == 0);
    weir_spop_loop *early = weir_spop_loop_open(s);
    assert_true(weir_spop_loop_is_current(early));
    assert_null(weir_spop_loop_messages(early));
    uint64_t opened = blocks();
    activate(s, &three[0], 1);
    uint64_t one = blocks() - opened; /* blocks of a set of one message */
    assert_true(one > 0);
    assert_false(weir_spop_loop_is_current(early));
    weir_spop_loop *late = weir_spop_loop_open(s);
    assert_true(weir_spop_loop_is_current(late));
    uint64_t loop = blocks() - opened - one;
    weir_spop_messages *first = weir_spop_loop_messages(late);
    assert_non_null(weir_spop_messages_find(first, slice("plain")));
    activate(s, &three[2], 1);
    assert_false(weir_spop_loop_is_current(late));
    assert_int_equal(blocks(), opened + loop + 2 * one);
    weir_spop_messages *second = weir_spop_loop_messages(late); /* the last user of `first` */
    assert_true(weir_spop_loop_is_current(late));
    assert_non_null(weir_spop_messages_find(second, slice("fixed")));
    assert_null(weir_spop_messages_find(second, slice("plain")));
    assert_int_equal(blocks(), opened + loop + one);
    activate(s, &three[0], 1);
    activate(s, &three[0], 1); /* nobody has used the set before */
    assert_int_equal(blocks(), opened + loop + 2 * one);
    assert_non_null(weir_spop_loop_messages(early));
    weir_spop_activate(s, NULL, NULL, NULL);
    assert_null(weir_spop_loop_messages(early));
    assert_int_equal(blocks(), opened + loop + one);
    weir_spop_loop_close(late);
    activate(s, &three[0], 1);
    assert_non_null(weir_spop_loop_messages(early));
    weir_spop_loop_close(early);
    weir_spop_close(s);
    assert_int_equal(blocks(), before);
    weir_spop_close(NULL);
    weir_spop_loop_close(NULL);
}

/* A session frees its messages, whether it has waited for an engine once, again, or still does. */
static void check_sessions_free_messages(void **unused)
{
    (void)unused;
    for (int replies = 0; replies <= 2; replies++) {
        uint64_t before = blocks();
        fixture *f = fixture_new(WEIR_ENGINE_REDIS);
        greet(f);
        for (unsigned i = 0; i < WEIR_BATCH_MAX + 1; i++) /* two batches */
            add_notify(&f->in, i, "narrow", "a", "");
        assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
        set_messages(f, specs, sizeof specs / sizeof specs[0]);
        for (int i = 0; i < replies; i++) {
            fake_reply(f->engine, 0, f->now_ns);
            (void)step(f, OUT_PAUSE);
        }
        fixture_free(f);
        assert_int_equal(blocks(), before);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void expect_metrics(weir_spop *s, unsigned notifies, unsigned errors, unsigned unknown,
                           unsigned refused)
{
    const struct {
        const char *name;
        unsigned value;
    } rows[] = {{"notify", notifies},
                {"errors", errors},
                {"unknown_messages", unknown},
                {"refused", refused}};
    weir_buffer text;
    weir_buffer_init(&text, 1 << 16);
    weir_spop_put_metrics(s, &text);
    weir_buffer_append_byte(&text, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[80];
        snprintf(line, sizeof line, "\nweir_spoe_%s_total %u\n", rows[i].name, rows[i].value);
        assert_non_null(strstr((const char *)weir_buffer_data(&text), line));
    }
    weir_buffer_free(&text);
}

/* The metrics are the sums of the loops that are open, which may close in any order. */
static void check_metrics(void **unused)
{
    (void)unused;
    enum { LOOPS = 3 };
    static const unsigned digit[LOOPS] = {1, 10, 100};
    unsigned sum = 111;
    weir_spop *s = weir_spop_open();
    weir_spop_loop *loops[LOOPS];
    for (int i = 0; i < LOOPS; i++) {
        loops[i] = weir_spop_loop_open(s);
        weir_spop_counts *counts = weir_spop_loop_counts(loops[i]);
        port_bump_relaxed(&counts->notifies, digit[i]);
        port_bump_relaxed(&counts->errors, 2 * digit[i]);
        port_bump_relaxed(&counts->unknown, 3 * digit[i]);
        port_bump_relaxed(&counts->refused, 4 * digit[i]);
    }
    for (int i = 0; i < LOOPS; i++) { /* the first is the last of the list */
        expect_metrics(s, sum, 2 * sum, 3 * sum, 4 * sum);
        weir_spop_loop_close(loops[i]);
        sum -= digit[i];
    }
    expect_metrics(s, 0, 0, 0, 0);
    weir_spop_close(s);
}

/* The first unknown name since the last call is reported, cut to 128 bytes. */
static void check_unknown(void **unused)
{
    (void)unused;
    weir_spop *s = weir_spop_open();
    weir_spop_loop *l = weir_spop_loop_open(s);
    char text[WEIR_SPOP_NAME_MAX + 2], name[WEIR_SPOP_NAME_MAX + 1];
    memset(text, 'n', sizeof text);
    for (size_t len = WEIR_SPOP_NAME_MAX + 1; len + 2 > WEIR_SPOP_NAME_MAX; len--) {
        weir_spop_count_unknown(l, WEIR_SPOP_MESSAGE, (weir_slice){text, len});
        weir_spop_count_unknown(l, WEIR_SPOP_MESSAGE, slice("other"));
        assert_true(weir_spop_take_unknown(s, WEIR_SPOP_MESSAGE, name) == 2);
        assert_int_equal(strlen(name), len < WEIR_SPOP_NAME_MAX ? len : WEIR_SPOP_NAME_MAX);
    }
    weir_spop_count_unknown(l, WEIR_SPOP_MESSAGE, slice("x"));
    assert_true(weir_spop_take_unknown(s, WEIR_SPOP_MESSAGE, name) == 1);
    assert_string_equal(name, "x");
    weir_spop_count_unknown(l, WEIR_SPOP_MESSAGE, (weir_slice){NULL, 0});
    assert_true(weir_spop_take_unknown(s, WEIR_SPOP_MESSAGE, name) == 1);
    assert_string_equal(name, "");
    assert_true(weir_spop_take_unknown(s, WEIR_SPOP_MESSAGE, name) == 0);
    expect_metrics(s, 0, 0, 8, 0);
    weir_spop_loop_close(l);
    weir_spop_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_set),
        cmocka_unit_test(check_find),
        cmocka_unit_test(check_limits),
        cmocka_unit_test(check_no_memory),
        cmocka_unit_test(check_bad_message),
        cmocka_unit_test(check_activation),
        cmocka_unit_test(check_sessions_free_messages),
        cmocka_unit_test(check_metrics),
        cmocka_unit_test(check_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
