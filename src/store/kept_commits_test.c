/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations that are committed under a limit that has changed. */

#include "store/kept_kit_test.h"

/* A commit that is too late begins no state under a limit that its key has left: it would hide the
 * state of the key. */
static void late_commits(void **unused)
{
    (void)unused;
    weir_store *s = store_with_key(NULL);
    limit a = limit_of(s, "q", "fixed-window 100/d"), b = limit_of(s, "q", "fixed-window 50/d");
    weir_decision d;
    uint64_t id;
    int64_t over;
    assert_int_equal(weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns, 10, s_ns, &d, &id),
                     WEIR_OK);
    const int64_t later_ns = start_ns + 2 * s_ns;
    weir_store_keep(s);
    assert_int_equal(weir_store_charge(s, &b.policy, b.id, "k", 1, later_ns, 5000, &d, &over),
                     WEIR_OK);
    assert_int_equal(weir_store_commit(s, id, later_ns, 30, &d, &over), WEIR_OK);
    assert_true(d.allowed && d.remaining == 100 && over == 30);
    assert_false(take(s, &a, "k", later_ns, 0).allowed);
    assert_int_equal(keys_of(s), 2);
    weir_store_close(s);
    s = store_with_key(NULL); /* a key that stayed is charged, and without a change, any key */
    for (int i = 0; i < 2; i++) {
        a = limit_of(s, "q", "fixed-window 100/d");
        assert_int_equal(
            weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns, 10, s_ns, &d, &id), WEIR_OK);
        if (i > 0) {
            (void)limit_of(s, "q", "fixed-window 50/d");
            weir_store_keep(s);
        }
        assert_int_equal(weir_store_commit(s, id, later_ns, 30, &d, &over), WEIR_OK);
        assert_true(d.remaining == 70 - 30 * i && over == 0);
    }
    weir_store_close(s);
}

/* An open reservation follows its key to another limit also if none of its units count any more, so
 * that the key has no state to move: it had none, its bucket is full again, or it was reset. */
static void commits_without_state(void **unused)
{
    (void)unused;
    static const struct {
        int64_t reserved, after_ns;
        bool is_reset, by_reserving;
    } rows[] = {{0, 0, false, false},
                {0, 0, false, true},
                {5, 9 * s_ns, false, false},
                {5, 0, true, false},
                {5, 0, true, true}};
    static const char *const texts[][2] = {{"gcra 1/s burst 50", "gcra 1/s burst 60"},
                                           {"sliding-log 50/9s", "sliding-log 60/9s"}};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        size_t row = i / 2;
        weir_store *s = store_with_key(NULL);
        limit a = limit_of(s, "q", texts[i % 2][0]), b = limit_of(s, "q", texts[i % 2][1]);
        weir_decision d;
        uint64_t id, other;
        int64_t over, now_ns = start_ns + rows[row].after_ns;
        assert_int_equal(weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns,
                                            rows[row].reserved, s_ns * 60, &d, &id),
                         WEIR_OK);
        if (rows[row].is_reset)
            assert_int_equal(weir_store_reset(s, a.id, "k", 1), WEIR_OK);
        weir_store_keep(s);
        if (rows[row].by_reserving)
            assert_int_equal(
                weir_store_reserve(s, &b.policy, b.id, "k", 1, now_ns, 1, s_ns * 60, &d, &other),
                WEIR_OK);
        else
            assert_int_equal(take(s, &b, "k", now_ns, 1).remaining, 59);
        assert_int_equal(weir_store_commit(s, id, now_ns, 7, &d, &over), WEIR_OK);
        int64_t more = rows[row].is_reset ? 7 : 7 - rows[row].reserved;
        assert_int_equal(over, 0);
        assert_int_equal(d.limit, 60);
        assert_int_equal(left(s, &b, now_ns), 59 - more);
        weir_store_close(s);
    }
}

/* A change of another policy's limit does not matter to a commit that is too late, also after a
 * reset of the policy. */
static void late_commits_of_others(void **unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        bool is_changed = i & 1, is_reset = i & 2, is_text = i & 4;
        weir_store *s = store_with_key(NULL);
        limit a = limit_of(s, "q", "fixed-window 100/d");
        weir_decision d;
        uint64_t id;
        int64_t over;
        (void)limit_of(s, "r", "fixed-window 10/d");
        (void)limit_of(s, "r", "fixed-window 20/d");
        if (is_changed)
            (void)limit_of(s, "q", "fixed-window 50/d");
        assert_true(take(s, &a, "other", start_ns, 1).allowed);
        weir_store_keep(s);
        if (is_reset) {
            uint64_t q = weir_store_reset_id("q", 1);
            assert_int_equal(weir_store_reset_policy(s, q), WEIR_OK);
            a.id = weir_store_current_id(s, a.id, q);
        }
        if (is_text)
            a.id = weir_store_policy_id(s, &a.policy);
        assert_int_equal(
            weir_store_reserve(s, &a.policy, a.id, "k", 1, start_ns, 10, s_ns, &d, &id), WEIR_OK);
        assert_int_equal(weir_store_reset(s, a.id, "k", 1), WEIR_OK);
        assert_int_equal(weir_store_commit(s, id, start_ns + 2 * s_ns, 30, &d, &over), WEIR_OK);
        assert_int_equal(over, is_changed ? 30 : 0);
        assert_int_equal(d.remaining, is_changed ? 100 : 70);
        weir_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_commits),
        cmocka_unit_test(commits_without_state),
        cmocka_unit_test(late_commits_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
