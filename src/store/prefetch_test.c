/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Which keys of a batch a store prefetches, before it decides on them. */

#include "store/kit_test.h"
#include "store/store.h"

enum { MIB = 1 << 20, NOTES_MAX = 200, POLICIES = 4 };

/* A call of a prefetch: of a key in a table, of its alternate bucket, or of a large state. */
typedef struct note {
    char kind; /* 't', 'a' or 'l' */
    const void *at;
    uint64_t hash;
} note;

static note found[NOTES_MAX], expected[NOTES_MAX];
static size_t found_len, expected_len;

void __wrap_weir_table_prefetch(const weir_table *t, uint64_t hash);
void __wrap_weir_table_prefetch_alternate(const weir_table *t, uint64_t hash);
void __wrap_weir_large_prefetch(const weir_large_hint *keys, size_t n);

void __wrap_weir_table_prefetch(const weir_table *t, uint64_t hash)
{
    found[found_len++] = (note){'t', t, hash};
}

void __wrap_weir_table_prefetch_alternate(const weir_table *t, uint64_t hash)
{
    found[found_len++] = (note){'a', t, hash};
}

void __wrap_weir_large_prefetch(const weir_large_hint *keys, size_t n)
{
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(keys[i].policy);
        found[found_len++] = (note){'l', keys[i].large, keys[i].hash};
    }
}

static void expect(char kind, const void *at, uint64_t hash)
{
    expected[expected_len++] = (note){kind, at, hash};
}

static void must_be_as_expected(void)
{
    assert_int_equal(found_len, expected_len);
    for (size_t i = 0; i < found_len; i++) {
        assert_int_equal(found[i].kind, expected[i].kind);
        assert_ptr_equal(found[i].at, expected[i].at);
        assert_int_equal(found[i].hash, expected[i].hash);
    }
    found_len = expected_len = 0;
}

/* A policy of each kind of state: in the fast path, in another form of the table, and large. */
static const char *const texts[POLICIES] = {"gcra 10/h burst 100", "gcra 17/s burst 100",
                                            "sliding-log 100/h", "sliding-log 100/d"};

typedef struct rig {
    weir_store *s;
    weir_policy p[POLICIES];
    uint64_t id[POLICIES];
} rig;

static void open_rig(rig *r, bool divided)
{
    static const weir_store_partition of[] = {{"small", MIB, 0}, {"large", 0, MIB}};
    const weir_store_options o = {
        .memory_bytes = 12 * MIB, .partitions = of, .partitions_len = divided ? 2 : 0};
    assert_int_equal(weir_store_open(&r->s, &o), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        r->p[i] = policy_of(texts[i]);
        r->id[i] = weir_store_policy_id(r->s, &r->p[i]);
        if (i % 2 == 1)
            r->id[i] = weir_store_partition_id(r->s, r->id[i], i == 1 ? "small" : "large");
    }
}

/* Requests of these policies, a digit each, on the keys of these letters. */
static size_t requests_of(const rig *r, const char *policies, const char *keys,
                          weir_store_request *ret)
{
    size_t n = strlen(policies);
    for (size_t i = 0; i < n; i++) {
        size_t p = (size_t)(policies[i] - '0');
        ret[i] = (weir_store_request){.policy = &r->p[p],
                                      .policy_id = r->id[p],
                                      .key = &keys[i],
                                      .key_len = keys[i] != '-',
                                      .cost = 1};
    }
    return n;
}

/* What a group of requests that are decided together should prefetch. */
static void expect_group(const rig *r, const weir_store_request *q, size_t n)
{
    uint64_t hash[32];
    size_t large = 0;
    for (size_t i = 0; i < n; i++) {
        hash[i] = q[i].key_len > 0 ? weir_store_hash(r->s, q[i].policy_id, q[i].key, 1) : 0;
        if (q[i].policy >= &r->p[2]) {
            expect('l', weir_area_of(r->s, q[i].policy_id)->large, hash[i]);
            large++;
        }
    }
    for (size_t i = 0; i < n && large < n; i++)
        expect('t', weir_area_of(r->s, q[i].policy_id)->table, hash[i]);
    for (size_t i = 0; i < n && large < n; i++) {
        if (i == 0 || hash[i] != hash[i - 1])
            expect('a', weir_area_of(r->s, q[i].policy_id)->table, hash[i]);
    }
}

static void batches(void **state)
{
    (void)state;
    static const struct {
        const char *policies, *keys;
    } cases[] = {
        {"0", "a"},
        {"2", "a"},
        {"00", "ab"},
        {"000", "aab"},
        {"0123", "abcd"},
        {"2233", "abcd"},
        {"2230", "abca"},
        {"0022", "aaaa"},
        {"11", "-a"},
        {"01230123012301230123012301230123", "abcdefghijklmnopqrstuvwxyzABCDEF"},
        {"012301230123012301230123012301230", "abcdefghijklmnopqrstuvwxyzABCDEFF"},
        {"22222222222222222222222222222222233", "abcdefghijklmnopqrstuvwxyzABCDEFGHI"},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        rig r;
        weir_store_request q[40];
        open_rig(&r, i % 2);
        size_t n = requests_of(&r, cases[i / 2].policies, cases[i / 2].keys, q);
        for (size_t at = 0; at < n; at += 32)
            expect_group(&r, q + at, n - at < 32 ? n - at : 32);
        weir_store_check_batch(r.s, q, n, s_ns);
        must_be_as_expected();
        for (size_t k = 0; k < n; k++)
            assert_int_equal(q[k].status, q[k].key_len > 0 ? WEIR_OK : WEIR_E_RANGE);
        weir_store_close(r.s);
    }
}

static void prepared_keys(void **state)
{
    (void)state;
    rig r;
    weir_key key = {0};
    open_rig(&r, true);
    weir_store_prefetch(r.s, key); /* never prepared */
    must_be_as_expected();
    for (size_t i = 0; i < POLICIES; i++) {
        assert_int_equal(weir_store_key(r.s, r.id[i], "k", 1, &key), WEIR_OK);
        weir_store_prefetch(r.s, key);
        expect('t', weir_area_of(r.s, r.id[i])->table, weir_store_hash(r.s, r.id[i], "k", 1));
        must_be_as_expected();
    }
    weir_store_close(r.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(prepared_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
