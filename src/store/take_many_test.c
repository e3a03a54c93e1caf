/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Transactions on small and large states, against a model: private states and the core. Also a
 * batch of requests with one hash, and prepared keys. */

#include <weir/weir_store.h>

#include "core/algorithm.h"
#include "core/check.h"
#include "store/table/table_kit_test.h"

#include <stdio.h>

enum { KEYS = 5, POLICIES = 8, WORDS = 64, STEPS = 4000, MOST = WEIR_TAKE_MANY_MAX };

static const char *const texts[POLICIES] = {
    "gcra 1/s burst 9",
    "gcra 7/s burst 9",
    "sliding-counter 9/m",
    "sliding-log 9/m",
    "sliding-slices 9/m slices 60",
    "fixed-window 9/m & sliding-log 20/h count-denied",
    "gcra 1/s burst 9 & block 3s",
    "sliding-log 9/m & block 2s doubling 9s",
};

typedef uint64_t states[POLICIES][KEYS][WORDS];

/* The same transaction on private states. */
typedef struct model {
    weir_policy p[POLICIES];
    states kept;
    weir_decision decision[MOST];
    size_t blocking;
} model;

/* Each policy that denies its request begins its block, and nothing else is written. */
static void begin_blocks(model *m, const weir_store_request *r, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *state = m->kept[r[i].policy - m->p][*(const char *)r[i].key - 'a'];
        weir_decision d;
        if (m->decision[i].allowed || !weir_policy_blocks(r[i].policy))
            continue;
        assert_int_equal(weir_block_if_denied(r[i].policy, state, WEIR_LEVEL_MAX, now_ns, r[i].cost,
                                              r[i].keep, &d),
                         WEIR_OK);
        if (weir_outranks(&d, &m->decision[i]))
            m->decision[i] = d;
    }
}

static size_t first_in_rank(const model *m, size_t n)
{
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        const weir_decision *d = &m->decision[i];
        if (!d->allowed && (first == n || weir_outranks(d, &m->decision[first])))
            first = i;
    }
    return first;
}

/* The costs of requests 0 to i that are for the state of request i. */
static int64_t sum_of(const weir_store_request *r, size_t i)
{
    int64_t sum = 0;
    for (size_t k = 0; k <= i; k++) {
        if (r[k].policy == r[i].policy && r[k].key == r[i].key)
            sum += r[k].cost;
    }
    return sum;
}

static void decide(model *m, const weir_store_request *r, size_t n, int64_t now_ns)
{
    weir_decision single[MOST];
    for (size_t i = 0; i < n; i++) {
        const uint64_t *state = m->kept[r[i].policy - m->p][*(const char *)r[i].key - 'a'];
        assert_int_equal(weir_peek_keep(r[i].policy, state, WEIR_LEVEL_MAX, now_ns, r[i].cost,
                                        r[i].keep, &single[i]),
                         WEIR_OK);
        assert_int_equal(weir_peek_keep(r[i].policy, state, WEIR_LEVEL_MAX, now_ns, sum_of(r, i),
                                        r[i].keep, &m->decision[i]),
                         WEIR_OK);
    }
    if (first_in_rank(m, n) < n)
        begin_blocks(m, r, n, now_ns);
    m->blocking = first_in_rank(m, n);
    for (size_t i = 0; i < n && m->blocking < n; i++) {
        if (m->decision[i].allowed)
            m->decision[i] = single[i];
    }
    for (size_t i = 0; i < n && m->blocking == n; i++) {
        uint64_t *state = m->kept[r[i].policy - m->p][*(const char *)r[i].key - 'a'];
        assert_int_equal(weir_check_keep(r[i].policy, state, WEIR_LEVEL_MAX, now_ns, r[i].cost,
                                         r[i].keep, &m->decision[i]),
                         WEIR_OK);
        assert_true(m->decision[i].allowed); /* as their sum is */
    }
}

static void assert_same(const weir_decision *a, const weir_decision *b, int step)
{
    bool same = a->limit == b->limit && a->remaining == b->remaining &&
                a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
                a->allowed == b->allowed && a->never == b->never && a->layer == b->layer;
    if (!same)
        fail_msg("step %d: the decisions differ", step);
}

/* Most requests keep nothing. */
static int64_t random_keep(uint64_t *x)
{
    static const int64_t keeps[] = {0, 0, 0, 0, 1, 4, WEIR_KEEP_PERCENT(30), WEIR_KEEP_PERCENT(0)};
    return keeps[next_random(x) % (sizeof keeps / sizeof keeps[0])];
}

/* All requests are charged or none, each sees the charges of those before it, and the denial that
 * ranks first is named. */
static void transactions_equal_the_model(void **unused)
{
    (void)unused;
    static model m;
    weir_store *s = NULL;
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = (const uint8_t[16]){1}};
    uint64_t id[POLICIES], x = 7, committed = 0, denied = 0;
    int64_t now_ns = s_ns;
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        assert_int_equal(weir_policy_parse(&m.p[i], texts[i], strlen(texts[i]), NULL, NULL),
                         WEIR_OK);
        assert_true(weir_state_words(&m.p[i], WEIR_LEVEL_MAX) <= WORDS);
        id[i] = weir_store_policy_id(s, &m.p[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        weir_store_request r[MOST];
        size_t n = 1 + next_random(&x) % (step % 2 ? 3 : MOST), blocking = MOST + 1;
        now_ns += (int64_t)(next_random(&x) >> 1) % (step % 50 ? 3 * s_ns : 90 * s_ns);
        for (size_t i = 0; i < n; i++) {
            uint64_t p = next_random(&x) % POLICIES;
            r[i] = (weir_store_request){.policy = &m.p[p],
                                        .policy_id = id[p],
                                        .key = &"abcde"[next_random(&x) % KEYS],
                                        .key_len = 1,
                                        .cost = (int64_t)(next_random(&x) % 3),
                                        .keep = random_keep(&x)};
        }
        decide(&m, r, n, now_ns);
        assert_int_equal(weir_store_take_many(s, r, n, now_ns, &blocking), WEIR_OK);
        assert_int_equal(blocking, m.blocking);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(r[i].status, WEIR_OK);
            assert_same(&r[i].decision, &m.decision[i], step);
        }
        committed += blocking == n;
        denied += blocking < n;
        WEIR_CHECK(weir_store_check_all(s, false));
    }
    assert_true(committed > STEPS / 8 && denied > STEPS / 8);
    assert_int_equal(weir_store_stats_get(s).evicted, 0);
    weir_store_close(s);
}

static bool keep_all(void *ctx, const weir_table_one *ones)
{
    (void)ones;
    return *(bool *)ctx;
}

static void note_written(void *ctx, bool written)
{
    assert_int_equal(written, *(bool *)ctx);
}

/* The first request adds a key whose state has another form. For that, an idle key of the bucket is
 * dropped, and the key of the second request moves within the bucket. */
static void a_key_moves_meanwhile(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        void *part = part_of(WEIR_TABLE_BYTES_MIN);
        weir_table *t = open_part(part, WEIR_TABLE_BYTES_MIN, &alone, false);
        weir_policy tat = policy_of("gcra 1/s burst 100"), ticks = policy_of("gcra 7/s burst 100");
        bool keep = i == 1;
        for (uint64_t n = 0; n < 3; n++) {
            charge c = {.cost = n == 0 ? 1 : 10};
            assert_int_equal(charge_key(t, &tat, colliding(n), s_ns, true, &c), WEIR_OK);
        }
        charge c[] = {{.cost = 30}, {.cost = 5}};
        weir_table_one ones[] = {{&ticks, colliding(9), check, &c[0], WEIR_E_BUSY, NULL},
                                 {&tat, colliding(1), check, &c[1], WEIR_E_BUSY, NULL}};
        assert_int_equal(weir_table_run_many(t, ones, 2, 3 * s_ns, keep_all, note_written, &keep),
                         WEIR_OK);
        assert_true(ones[0].status == WEIR_OK && ones[1].status == WEIR_OK);
        assert_true(c[0].decision.remaining == 70 && c[1].decision.remaining == 87);
        for (uint64_t n = 1; n < 3; n++) {
            charge_key(t, &tat, colliding(n), 3 * s_ns, true, memset(c, 0, sizeof c));
            assert_int_equal(c->decision.remaining, keep && n == 1 ? 87 : 92);
        }
        charge_key(t, &ticks, colliding(9), 3 * s_ns, true, memset(c, 0, sizeof c));
        assert_int_equal(c->decision.remaining, keep ? 70 : 100);
        check_whole(t);
        weir_table_close(t);
        munmap(part, WEIR_TABLE_BYTES_MIN);
    }
}

/* Each request of a batch charges its own key. */
static void batch_of_keys(void **unused)
{
    (void)unused;
    enum { LEN = 6 };
    const weir_store_options options = {.memory_bytes = 1 << 20};
    weir_store *s;
    weir_decision d;
    weir_store_request r[LEN];
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    for (size_t k = 0; k < POLICIES; k++) {
        weir_policy p = policy_of(texts[k]);
        uint64_t id = weir_store_policy_id(s, &p);
        for (int i = 0; i < LEN; i++) /* the last two have one key */
            r[i] = (weir_store_request){&p, id, &"abcdee"[i], 1, 1 + i % 4, WEIR_E_BUSY, {0}, 0};
        weir_store_check_batch(s, r, LEN, s_ns);
        for (int i = 0; i < LEN - 1; i++) {
            assert_int_equal(weir_store_peek(s, &p, id, r[i].key, 1, s_ns, 0, &d), WEIR_OK);
            assert_int_equal(d.remaining, i < 4 ? 9 - 1 - i : 9 - 1 - 2);
        }
    }
    weir_store_close(s);
}

/* Each request of a batch is decided by its own policy, even under the same id, and none behind the
 * end. */
static void batch_of_one_id(void **unused)
{
    (void)unused;
    enum { LEN = 66 }; /* two groups and two requests */
    const char *const policies[] = {"gcra 1/s burst 500", "gcra 1/s burst 300"};
    const weir_store_options options = {.memory_bytes = 1 << 20};
    weir_policy p[2];
    weir_store *s;
    weir_store_request r[LEN + 1];
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_policy_parse(&p[i], policies[i], strlen(policies[i]), NULL, NULL),
                         WEIR_OK);
    for (int i = 0; i <= LEN; i++)
        r[i] = (weir_store_request){&p[i == 1], 7, "k", 1, 1, WEIR_E_BUSY, {0}, 0};
    weir_store_check_batch(s, r, LEN, s_ns);
    for (int i = 0; i < LEN; i++)
        assert_int_equal(r[i].decision.remaining, (i == 1 ? 300 : 500) - i - 1);
    assert_int_equal(r[LEN].status, WEIR_E_BUSY);
    weir_store_close(s);
}

/* A batch of requests on small and large states decides as its requests would alone, one after the
 * other. */
static void batches_equal_the_model(void **unused)
{
    (void)unused;
    enum { LEN = 70 }; /* three groups */
    static model m;
    const weir_store_options options = {.memory_bytes = 1 << 20};
    uint64_t id[POLICIES], x = 3;
    int64_t now_ns = s_ns;
    weir_store *s;
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        m.p[i] = policy_of(texts[i]);
        id[i] = weir_store_policy_id(s, &m.p[i]);
    }
    for (int step = 0; step < STEPS / 8; step++) {
        weir_store_request r[LEN];
        size_t n = 1 + next_random(&x) % LEN;
        now_ns += (int64_t)(next_random(&x) >> 1) % (step % 50 ? 9 * s_ns : 90 * s_ns);
        for (size_t i = 0; i < n; i++) {
            uint64_t p = step % 8 ? next_random(&x) % POLICIES : 3 + (uint64_t)step / 8 % 3;
            r[i] = (weir_store_request){.policy = &m.p[p],
                                        .policy_id = id[p],
                                        .key = &"abcde"[next_random(&x) % KEYS],
                                        .key_len = 1,
                                        .cost = (int64_t)(next_random(&x) % 3),
                                        .keep = random_keep(&x),
                                        .status = WEIR_E_BUSY};
        }
        weir_store_check_batch(s, r, n, now_ns);
        for (size_t i = 0; i < n; i++) {
            weir_decision d;
            uint64_t *state = m.kept[r[i].policy - m.p][*(const char *)r[i].key - 'a'];
            assert_int_equal(weir_check_keep(r[i].policy, state, WEIR_LEVEL_MAX, now_ns, r[i].cost,
                                             r[i].keep, &d),
                             WEIR_OK);
            assert_int_equal(r[i].status, WEIR_OK);
            assert_same(&r[i].decision, &d, step);
        }
        WEIR_CHECK(weir_store_check_all(s, false));
    }
    weir_store_close(s);
}

/* A prepared key is the same key: what is charged under one is charged under the other, also what a
 * reservation has returned. A bad argument changes nothing. */
static void prepared_keys(void **unused)
{
    (void)unused;
    const weir_store_options options = {.memory_bytes = 1 << 20};
    char longest[WEIR_KEY_MAX + 1] = {0};
    weir_store *s;
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        weir_policy p = policy_of(texts[i]);
        uint64_t id = weir_store_policy_id(s, &p), reserved = 0;
        weir_key a, b, before;
        weir_decision d = {0}, same = {0};
        int64_t now_ns = (90 + (int64_t)i) * s_ns; /* the store's time does not step back */
        assert_int_equal(weir_store_key(s, id, "a", 1, &a), WEIR_OK);
        assert_int_equal(weir_store_key(s, id, longest, WEIR_KEY_MAX, &before), WEIR_OK);
        b = before;
        assert_int_equal(weir_store_key(s, id, longest, WEIR_KEY_MAX + 1, &b), WEIR_E_RANGE);
        assert_int_equal(weir_store_key(s, id, "a", 0, &b), WEIR_E_RANGE);
        assert_int_equal(weir_store_key(s, id, NULL, 1, &b), WEIR_E_RANGE);
        assert_memory_equal(&b, &before, sizeof b);

        weir_store_prefetch(s, a);
        assert_int_equal(weir_store_check_key(s, &p, a, now_ns, 2, &d), WEIR_OK);
        assert_true(d.allowed && d.remaining == 7);
        assert_int_equal(weir_store_check(s, &p, id, "a", 1, now_ns, 3, &same), WEIR_OK);
        assert_true(same.allowed && same.remaining == 4);
        assert_int_equal(weir_store_check_key(s, &p, a, now_ns, 5, &d), WEIR_OK);
        assert_int_equal(weir_store_check(s, &p, id, "a", 1, now_ns, 5, &same), WEIR_OK);
        assert_false(d.allowed);
        assert_same(&d, &same, (int)i);

        weir_decision kept = d;
        assert_int_equal(weir_store_check_key(s, &p, a, -1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_store_check_key(s, &p, a, WEIR_NOW_NS_MAX + 1, 1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_store_check_key(s, &p, a, now_ns, -1, &d), WEIR_E_RANGE);
        assert_int_equal(weir_store_check_key(s, &p, a, now_ns, WEIR_COST_MAX + INT64_C(1), &d),
                         WEIR_E_RANGE);
        assert_same(&d, &kept, (int)i);

        assert_int_equal(weir_store_reserve(s, &p, id, "b", 1, now_ns, 6, 1, &d, &reserved),
                         i == 5 ? WEIR_E_UNSUPPORTED : WEIR_OK);
        if (i == 5) /* count-denied cannot be refunded */
            continue;
        assert_int_equal(weir_store_key(s, id, "b", 1, &b), WEIR_OK);
        assert_int_equal(weir_store_check_key(s, &p, b, now_ns, 1, &d), WEIR_OK);
        assert_int_equal(d.remaining, 2);
        assert_int_equal(weir_store_check_key(s, &p, b, now_ns + 1, 0, &d), WEIR_OK);
        assert_int_equal(d.remaining, 8);
    }
    weir_store_close(s);
}

static weir_status count_call(void *ctx, uint64_t *state, int64_t now_ns)
{
    (void)state;
    (void)now_ns;
    ++*(int *)ctx;
    return WEIR_OK;
}

/* A request out of range is refused by every function, and changes nothing: the reservation of
 * another key does not expire. At the ends of the ranges, requests are decided. */
static void out_of_range(void **unused)
{
    (void)unused;
    static const char key[WEIR_KEY_MAX + 1] = "k";
    static const struct {
        size_t key_len;
        int64_t now_ns, cost;
        weir_status st;
    } rows[] = {
        {0, 9, 1, WEIR_E_RANGE},          {WEIR_KEY_MAX + 1, 9, 1, WEIR_E_RANGE},
        {1, -1, 1, WEIR_E_RANGE},         {1, WEIR_NOW_NS_MAX + 1, 1, WEIR_E_RANGE},
        {1, 9, -1, WEIR_E_RANGE},         {1, 9, (int64_t)WEIR_COST_MAX + 1, WEIR_E_RANGE},
        {WEIR_KEY_MAX, 0, 0, WEIR_OK},    {1, 9, WEIR_COST_MAX, WEIR_OK},
        {1, WEIR_NOW_NS_MAX, 1, WEIR_OK},
    };
    static const char *const policies[] = {"gcra 1/s burst 9", "fixed-window 9/m",
                                           "sliding-slices 9/m slices 60"};
    for (size_t k = 0; k < sizeof policies / sizeof policies[0]; k++) {
        weir_policy p = policy_of(policies[k]);
        const weir_store_options options = {.memory_bytes = 1 << 20};
        weir_store *s = NULL;
        weir_decision d;
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        uint64_t id, held, pid = weir_store_policy_id(s, &p);
        assert_int_equal(weir_store_reserve(s, &p, pid, "held", 4, 5, 1, s_ns, &d, &held), WEIR_OK);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            size_t len = rows[i].key_len, blocking;
            int64_t now_ns = rows[i].now_ns, cost = rows[i].cost, over;
            weir_status st = rows[i].st;
            weir_store_request r = {&p, pid, key, len, cost, WEIR_E_BUSY, {0}, 0};
            bool good_cost = cost >= 0 && cost <= WEIR_COST_MAX;
            int calls = 0;
            assert_int_equal(weir_store_peek(s, &p, pid, key, len, now_ns, cost, &d), st);
            assert_int_equal(weir_store_check(s, &p, pid, key, len, now_ns, cost, &d), st);
            assert_int_equal(weir_store_refund(s, &p, pid, key, len, now_ns, cost, &d), st);
            weir_store_check_batch(s, &r, 1, now_ns);
            assert_int_equal(r.status, st);
            r.status = WEIR_E_BUSY;
            assert_int_equal(weir_store_take_many(s, &r, 1, now_ns, &blocking), st);
            assert_int_equal(r.status, st);
            assert_int_equal(weir_store_reserve(s, &p, pid, key, len, now_ns, cost, 1, &d, &id),
                             st);
            if (good_cost) {
                assert_int_equal(weir_store_apply(s, &p, pid, key, len, now_ns, count_call, &calls),
                                 st);
                assert_int_equal(calls > 0, st == WEIR_OK);
            }
            if (len == 1)
                assert_int_equal(weir_store_commit(s, 1, now_ns, cost, &d, &over),
                                 st == WEIR_OK ? WEIR_E_ABSENT : st);
            if (st != WEIR_OK)
                assert_int_equal(weir_store_stats_get(s).reserved, 1);
        }
        weir_store_close(s);
    }
}

/* Small, fast and large states: as the core decides. Nothing is charged for a bad argument. */
static void requests_that_keep(void **unused)
{
    (void)unused;
    const weir_store_options options = {.memory_bytes = 1 << 20};
    static const char *const small_and_large[] = {
        "fixed-window 9/m", "gcra 1/s burst 9 & fixed-window 9/m", "sliding-log 9/m",
        "sliding-slices 9/m slices 60"};
    static const int64_t bad[] = {-101, (int64_t)WEIR_COST_MAX + 1};
    for (size_t i = 0; i < sizeof small_and_large / sizeof small_and_large[0]; i++) {
        weir_store *s;
        weir_policy p = policy_of(small_and_large[i]);
        assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
        uint64_t id = weir_store_policy_id(s, &p);
        weir_decision d;
        weir_store_request r = {.policy = &p, .policy_id = id, .key = "k", .key_len = 1};
        assert_int_equal(weir_store_check_keep(s, &p, id, "k", 1, 60 * s_ns, 2, 5, &d), WEIR_OK);
        assert_true(d.allowed && d.remaining == 2);
        assert_int_equal(weir_store_peek_keep(s, &p, id, "k", 1, 60 * s_ns, 3, 5, &d), WEIR_OK);
        assert_true(!d.allowed && d.remaining == 2);
        assert_int_equal(weir_store_peek_keep(s, &p, id, "k", 1, 60 * s_ns, 2, 5, &d), WEIR_OK);
        assert_true(d.allowed && d.remaining == 2);
        assert_int_equal(weir_store_check_keep(s, &p, id, "k", 1, 60 * s_ns, 7, 0, &d), WEIR_OK);
        assert_true(d.allowed && d.remaining == 0);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(weir_store_check_keep(s, &p, id, "k", 1, 60 * s_ns, 0, bad[k], &d),
                             WEIR_E_RANGE);
            assert_int_equal(weir_store_peek_keep(s, &p, id, "k", 1, 60 * s_ns, 0, bad[k], &d),
                             WEIR_E_RANGE);
            r.keep = bad[k];
            weir_store_check_batch(s, &r, 1, 60 * s_ns);
            assert_int_equal(r.status, WEIR_E_RANGE);
        }
        r.keep = WEIR_KEEP_PERCENT(100);
        weir_store_check_batch(s, &r, 1, 120 * s_ns);
        assert_int_equal(r.status, WEIR_OK);
        assert_true(r.decision.allowed && r.decision.remaining == 0);
        assert_int_equal(weir_store_check_keep(s, &p, id, "", 0, s_ns, 1, 1, &d), WEIR_E_RANGE);
        weir_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transactions_equal_the_model),
        cmocka_unit_test(a_key_moves_meanwhile),
        cmocka_unit_test(batch_of_one_id),
        cmocka_unit_test(batch_of_keys),
        cmocka_unit_test(batches_equal_the_model),
        cmocka_unit_test(requests_that_keep),
        cmocka_unit_test(prepared_keys),
        cmocka_unit_test(out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
