/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of busy keys and their leases. */

#include "engine/hybrid/sound_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms = 1000000, t0 = 1767225600000000000;
static weir_lease_table table;
static weir_policy policy;

static int setup(void **unused)
{
    (void)unused;
    static const char text[] = "fixed-window 160/s";
    if (weir_policy_parse(&policy, text, sizeof text - 1, NULL, NULL) != WEIR_OK)
        return -1;
    return weir_lease_table_open(&table, 8 * 1024, 100 * ms, 1000 * ms, 1000) == WEIR_OK ? 0 : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    if (!is_sound_table(&table))
        return -1;
    weir_lease_table_close(&table);
    return 0;
}

static weir_engine_request request(const char *name, uint64_t id, const char *key)
{
    return (weir_engine_request){.policy = &policy,
                                 .text = {"text", 4},
                                 .name = {name, strlen(name)},
                                 .key = {key, strlen(key)},
                                 .policy_id = id};
}

static weir_lease_slot *count(const weir_engine_request *q, int64_t now_ns)
{
    return weir_lease_table_count(&table, q, weir_lease_table_hash(&table, q), now_ns);
}

static weir_lease_slot *find(const weir_engine_request *q)
{
    return weir_lease_table_find(&table, q, weir_lease_table_hash(&table, q));
}

static weir_lease_slot *make_busy(const weir_engine_request *q, int64_t now_ns)
{
    assert_null(count(q, now_ns));
    assert_null(count(q, now_ns));
    assert_null(find(q));
    weir_lease_slot *s = count(q, now_ns);
    assert_non_null(s);
    assert_ptr_equal(find(q), s);
    return s;
}

static void test_three_within_idle_are_busy(void **unused)
{
    (void)unused;
    weir_engine_request q = request("api", 7, "alice");
    for (int64_t t = t0; t < t0 + 10000 * ms; t += 500 * ms)
        assert_null(count(&q, t));
    weir_lease_slot *s = make_busy(&q, t0 + 20000 * ms);
    assert_int_equal(table.leases, 1);
    assert_memory_equal(s->key, "alice", 5);
    assert_memory_equal(s->policy->text.at, "text", 4);
    assert_memory_equal(s->policy->name.at, "api", 3);
    uint32_t uses = s->uses;
    s->forward_until_ns = INT64_MAX;
    s->lease.limit = 5;
    weir_lease_table_remove(&table, s);
    assert_null(find(&q));
    assert_int_equal(table.policies, 0);
    assert_ptr_equal(make_busy(&q, t0), s);
    assert_int_not_equal(s->uses, uses);
    assert_int_equal(s->forward_until_ns, 0);
    assert_int_equal(s->lease.limit, 0);
    assert_int_equal(s->lease.used_at_ns, t0);
}

/* Two keys may have the same hash. */
static void test_a_lease_is_found_by_its_key(void **unused)
{
    (void)unused;
    weir_engine_request q = request("api", 7, "alice");
    uint64_t hash = weir_lease_table_hash(&table, &q);
    weir_lease_slot *s = make_busy(&q, t0);
    static const char *const others[] = {"alic", "alicf", "alice2"};
    for (int i = 0; i < 3; i++) {
        weir_engine_request other = request("api", 7, others[i]);
        assert_null(weir_lease_table_find(&table, &other, hash));
    }
    assert_ptr_equal(weir_lease_table_find(&table, &q, hash), s);
}

/* A name, a policy and a key have a lease of their own. The hash does not include the name. */
static void test_leases_are_separate(void **unused)
{
    (void)unused;
    weir_engine_request q[] = {request("api", 7, "alice"), request("", 7, "alice"),
                               request("x", 7, "alice"),   request("y", 7, "alice"),
                               request("api", 8, "alice"), request("api", 7, "bob")};
    enum { N = sizeof q / sizeof *q };
    weir_lease_slot *s[N];
    for (int i = 0; i < N; i++) {
        s[i] = make_busy(&q[i], t0);
        for (int k = 0; k < i; k++) {
            assert_ptr_not_equal(s[i], s[k]);
            assert_ptr_equal(find(&q[k]), s[k]);
        }
    }
    assert_int_equal(table.policies, 5);
    assert_ptr_equal(s[0]->policy, s[5]->policy);
    for (int i = 0; i < N; i++)
        weir_lease_table_remove(&table, s[i]);
    assert_int_equal(table.policies, 0);
    assert_null(table.first);
}

static void test_the_list_is_by_time(void **unused)
{
    (void)unused;
    weir_engine_request a = request("api", 7, "a"), b = request("api", 7, "b"),
                        c = request("api", 7, "c");
    weir_lease_slot *x = make_busy(&a, t0), *y = make_busy(&b, t0 + 1), *z = make_busy(&c, t0 + 2);
    assert_ptr_equal(table.first, x);
    assert_ptr_equal(table.last, z);
    weir_lease_table_reschedule(&table, x, t0 + 3);
    assert_int_equal(x->check_ns, t0 + 3 + 100 * ms);
    assert_ptr_equal(table.first, y);
    assert_ptr_equal(table.last, x);
    weir_lease_table_remove(&table, z);
    assert_ptr_equal(y->after, x);
    assert_ptr_equal(x->before, y);
    assert_ptr_equal(make_busy(&c, t0 + 4), z); /* the last, again */
    assert_ptr_equal(y->after, x);
    assert_ptr_equal(x->after, z);
}

/* A key that is only counted is replaced. A key with a lease is not. */
static void test_replacement(void **unused)
{
    (void)unused;
    weir_engine_request busy = request("api", 7, "busy");
    weir_lease_slot *s = make_busy(&busy, t0);
    for (int i = 0; i < 10000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        weir_engine_request q = request("api", 7, key);
        (void)count(&q, t0 + i);
    }
    assert_ptr_equal(find(&busy), s);
    size_t before = table.leases;
    for (int i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "key %d", i);
        weir_engine_request q = request("api", 7, key);
        for (int k = 0; k < 3; k++)
            (void)count(&q, t0);
    }
    assert_int_equal(before, 1);
    assert_int_equal(table.leases, table.mask + 1);
}

/* Of the keys that are only counted, the oldest is replaced. */
static void test_the_oldest_is_replaced(void **unused)
{
    (void)unused;
    weir_lease_table one;
    char key[2] = "a";
    assert_int_equal(weir_lease_table_open(&one, 1, 100 * ms, 1000 * ms, 1000), WEIR_OK);
    assert_int_equal(one.mask, 7);
    for (int i = 0; i < 9; i++) {
        /* The third of eight is the oldest; the ninth replaces it. */
        int64_t t = i == 2 ? t0 - ms : t0 + i;
        key[0] = (char)('a' + i);
        weir_engine_request q = request("api", 7, key);
        for (int k = 0; k < 2; k++)
            assert_null(weir_lease_table_count(&one, &q, weir_lease_table_hash(&one, &q), t));
        assert_true(is_sound_table(&one));
    }
    static const int order[] = {0, 1, 3, 4, 5, 6, 7, 8, 2};
    for (int i = 0; i < 9; i++) {
        key[0] = (char)('a' + order[i]);
        weir_engine_request q = request("api", 7, key);
        weir_lease_slot *s =
            weir_lease_table_count(&one, &q, weir_lease_table_hash(&one, &q), t0 + ms);
        assert_int_equal(s != NULL, order[i] != 2);
    }
    weir_lease_table_close(&one);
}

/* The count of a new key does not begin when that of the key before it began. */
static void test_a_replacement_counts_anew(void **unused)
{
    (void)unused;
    weir_lease_table one;
    char key[2] = "a";
    assert_int_equal(weir_lease_table_open(&one, 1, 100 * ms, 1000 * ms, 1000), WEIR_OK);
    for (int i = 0; i < 11; i++) {
        int64_t t = i < 8 ? t0 : i < 10 ? t0 + 900 * ms : t0 + 1100 * ms;
        key[0] = (char)('a' + (i < 8 ? i : 8));
        weir_engine_request q = request("api", 7, key);
        weir_lease_slot *s = weir_lease_table_count(&one, &q, weir_lease_table_hash(&one, &q), t);
        assert_int_equal(s != NULL, i == 10);
    }
    weir_lease_table_close(&one);
}

/* The memory suffices for all slots and their tags. */
static void test_the_size_of_the_table(void **unused)
{
    (void)unused;
    size_t bytes = 16 * (sizeof *table.slot + sizeof *table.tag);
    for (size_t more = 0; more < 2; more++) {
        weir_lease_table t;
        assert_int_equal(weir_lease_table_open(&t, bytes - 1 + more, ms, ms, 1), WEIR_OK);
        assert_int_equal(t.mask + 1, more ? 16 : 8);
        weir_lease_table_close(&t);
    }
}

static void test_policies_are_bounded(void **unused)
{
    (void)unused;
    weir_lease_table many;
    assert_int_equal(weir_lease_table_open(&many, (size_t)8 << 20, 100 * ms, 1000 * ms, 1000),
                     WEIR_OK);
    for (uint64_t id = 0; id < 2 * WEIR_LEASE_POLICIES_MAX; id++) {
        weir_engine_request q = request("", id, "key");
        for (int k = 0; k < 3; k++)
            (void)weir_lease_table_count(&many, &q, weir_lease_table_hash(&many, &q), t0);
    }
    assert_int_equal(many.policies, WEIR_LEASE_POLICIES_MAX);
    assert_int_equal(many.leases, WEIR_LEASE_POLICIES_MAX);
    weir_lease_table_close(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_three_within_idle_are_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lease_is_found_by_its_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leases_are_separate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_list_is_by_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replacement, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_oldest_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_replacement_counts_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_size_of_the_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_policies_are_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
