/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Limits that change often, and a full policy registry. */

#include "store/kept_kit_test.h"

#include <stdio.h>
#include <unistd.h>

static size_t texts_of(const weir_store *s)
{
    return weir_policy_registry_len(weir_image_policies(s->image));
}

/* If the registry has no space for a limit, or only for a part, keys do not keep what they use. */
static void full_registry(void **unused)
{
    (void)unused;
    for (int left_over = 0; left_over < 4; left_over++) {
        weir_store *s = store_with_key(NULL);
        size_t before = texts_of(s);
        limit a = limit_of(s, "q", "fixed-window 10/d");
        assert_true(weir_store_keeps_limit(s, a.id));
        assert_false(weir_store_keeps_limit(s, a.id + 1));
        size_t len = texts_of(s);
        assert_int_equal(len, before + 3);
        for (uint64_t id = 1; len++ < WEIR_POLICY_REGISTRY_ENTRIES - (size_t)left_over; id++)
            assert_true(weir_image_note_policy(s->image, id, "x", 1, true));
        limit b = limit_of(s, "q", "fixed-window 20/d");
        assert_true(weir_store_keeps_limit(s, a.id));
        assert_int_equal(weir_store_keeps_limit(s, b.id), left_over >= 2);
        weir_store_close(s);
    }
}

/* A limit may change any number of times: only the last 16 limits are in the registry. */
static void many_changes(void **unused)
{
    (void)unused;
    enum { CHANGES = 5000 };
    weir_store *s = store_with_key(NULL);
    size_t before = texts_of(s);
    for (int i = 0; i < CHANGES; i++) {
        char text[32];
        snprintf(text, sizeof text, "fixed-window %d/d", 2 * CHANGES - i);
        limit l = limit_of(s, "q", text);
        assert_true(weir_store_keeps_limit(s, l.id));
        weir_store_keep(s);
        assert_int_equal(take(s, &l, "k", start_ns, 1).remaining, 2 * CHANGES - 2 * i - 1);
    }
    assert_int_equal(texts_of(s) - before, 3 * (WEIR_FORMER_MAX + 1));
    assert_int_equal(weir_image_stats_get(s->image).policies_refused, 0);
    assert_int_equal(keys_of(s), 2);
    weir_store_close(s);
}

static weir_status reserve(weir_store *s, const limit *l, const char *key, int64_t cost,
                           uint64_t *ret_id)
{
    weir_decision d;
    weir_status st = weir_store_reserve(s, &l->policy, l->id, key, strlen(key), start_ns, cost,
                                        60 * s_ns, &d, ret_id);
    assert_true(d.allowed);
    return st;
}

/* What leaves the registry is noted again when it is needed, and what is needed stays. */
static void forgotten_limits(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    weir_decision d;
    uint64_t id, other, expired;
    int64_t over;
    weir_policy p;
    limit first = limit_of(s, "q", "fixed-window 100/d"),
          twin = limit_of(s, "twin", "fixed-window 100/d"),
          second = limit_of(s, "q", "fixed-window 101/d"),
          third = limit_of(s, "q", "fixed-window 102/d");
    uint64_t text_id = weir_store_policy_id(s, &first.policy);
    assert_int_equal(reserve(s, &third, "y", 5, &expired), WEIR_OK);
    take(s, &third, "z", start_ns + 61 * s_ns, 0);
    assert_int_equal(reserve(s, &second, "k", 5, &id), WEIR_OK);
    assert_int_equal(reserve(s, &first, "x", 7, &other), WEIR_OK);
    assert_int_equal(weir_store_cancel(s, other, start_ns, &d), WEIR_OK);
    for (int i = 3; i < 30; i++) {
        char text[32];
        snprintf(text, sizeof text, "fixed-window %d/d", 100 + i);
        (void)limit_of(s, "q", text);
    }
    assert_false(weir_store_keeps_limit(s, first.id));
    assert_int_equal(weir_store_policy_find(s, first.id, &p), WEIR_E_ABSENT);
    assert_int_equal(weir_store_policy_find(s, second.id, &p), WEIR_OK); /* for the reservation */
    assert_int_equal(weir_store_policy_find(s, third.id, &p), WEIR_OK);  /* for a late commit */
    assert_true(weir_store_keeps_limit(s, twin.id));
    assert_int_equal(weir_store_policy_find(s, text_id, &p), WEIR_OK); /* of the twin */
    assert_int_equal(reserve(s, &first, "x", 7, &other), WEIR_OK);
    assert_int_equal(weir_store_policy_find(s, first.id, &p), WEIR_OK);
    assert_int_equal(weir_store_cancel(s, id, start_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 101);
    assert_int_equal(weir_store_cancel(s, other, start_ns, &d), WEIR_OK);
    assert_int_equal(d.remaining, 100);
    assert_int_equal(weir_store_commit(s, expired, start_ns + 62 * s_ns, 9, &d, &over), WEIR_OK);
    assert_int_equal(d.remaining, 93);
    weir_store_keep(s);
    (void)limit_of(s, "q", "fixed-window 150/d");
    weir_store_keep(s);
    limit again = limit_of(s, "q", "fixed-window 100/d");
    assert_true(weir_store_keeps_limit(s, again.id));
    weir_store_close(s);
}

static limit numbered(const weir_store *s, int n)
{
    char text[32];
    snprintf(text, sizeof text, "fixed-window %d/d", n);
    return limit_of(s, "q", text);
}

/* A limit that is in use stays, however often the others change; once it is not in use, it goes. */
static void limits_in_use(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit l = numbered(s, 1000);
    for (int i = 1; i < 100; i++) {
        (void)numbered(s, i);
        l = numbered(s, 1000);
        assert_true(weir_store_keeps_limit(s, l.id));
        weir_store_keep(s);
        assert_true(take(s, &l, "k", start_ns, 1).allowed);
    }
    limit other = numbered(s, 2000);
    assert_int_equal(take(s, &other, "k", start_ns, 1).remaining, 2000 - 100);
    for (int i = 0; i < WEIR_FORMER_MAX + 2; i++) {
        assert_int_equal(weir_store_keeps_limit(s, l.id), i < WEIR_FORMER_MAX - 1);
        (void)numbered(s, 3000 + i);
        weir_store_keep(s);
    }
    l = numbered(s, 1000); /* it returns */
    assert_true(weir_store_keeps_limit(s, l.id));
    weir_store_close(s);
}

/* A process that opens the file later does not forget the limit that was in use all the time. */
static void in_use_before(void **unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-kept-many-%d.state", (int)getpid());
    weir_store *s = store_with_key(path);
    for (int i = 1; i < 60; i++) {
        limit l = numbered(s, 1000);
        (void)numbered(s, i);
        weir_store_keep(s);
        assert_int_equal(take(s, &l, "k", start_ns, 1).remaining, 1000 - i);
    }
    weir_store_close(s);
    s = store_with_key(path);
    for (int i = 0; i < 3; i++) {
        limit l = numbered(s, 2000 + i);
        weir_store_keep(s);
        assert_int_equal(take(s, &l, "k", start_ns, 0).remaining, 2000 + i - 59);
    }
    weir_store_close(s);
    unlink(path);
    snprintf(path, sizeof path, "/tmp/weir-kept-many-%d.state.lock", (int)getpid());
    unlink(path);
}

/* The limits of 20 overrides and of the policy itself, which is noted last and changes. */
static void many_in_use(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    size_t before = texts_of(s);
    for (int turn = 0; turn < 30; turn++) {
        limit override = {.id = 0};
        for (int i = 20; i-- > 0;)
            override = numbered(s, 100 + i);
        limit own = numbered(s, 1000 + turn / 3);
        assert_true(weir_store_keeps_limit(s, own.id));
        weir_store_keep(s);
        assert_int_equal(take(s, &own, "k", start_ns, 1).remaining, 999 + turn / 3 - turn);
        assert_int_equal(take(s, &override, "x", start_ns, 1).remaining, 99 - turn);
    }
    assert_in_range(texts_of(s) - before, 2 * (WEIR_FORMER_MAX + 1), 3 * 30);
    weir_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_registry),    cmocka_unit_test(many_changes),
        cmocka_unit_test(forgotten_limits), cmocka_unit_test(limits_in_use),
        cmocka_unit_test(in_use_before),    cmocka_unit_test(many_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
