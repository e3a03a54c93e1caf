/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Transactions on keys of several stores: against a model, with stores that refuse, and from
 * several processes that name the stores in different orders. */

#define _GNU_SOURCE /* mremap */

#include "core/check.h"
#include "store/iterate.h"
#include "store/kill_kit_test.h"
#include "store/kit_test.h"
#include "store/take_many.h"
#include "tests/store/check.h"

enum { MIB = 1 << 20, STORES = 3, KEYS = 4, POLICIES = 5, WORDS = 64, MOST = WEIR_TAKE_MANY_MAX };

static const char *const texts[POLICIES] = {
    "gcra 1/s burst 9",
    "sliding-counter 9/m",
    "sliding-log 9/m",
    "sliding-slices 9/m slices 60",
    "fixed-window 9/m & sliding-log 20/h count-denied",
};

static uint64_t next_random(uint64_t *x)
{
    *x = *x * 6364136223846793005 + 1442695040888963407;
    return *x >> 33;
}

/* ---- against a model ------------------------------------------------------------------------- */

typedef uint64_t states[STORES][POLICIES][KEYS][WORDS];

/* The same transaction on private states, each store with a time of its own. */
typedef struct model {
    weir_policy p[POLICIES];
    states kept;
    int64_t time_ns[STORES];
    weir_decision decision[MOST];
    size_t blocking;
} model;

typedef struct asked {
    size_t store, policy, key;
} asked;

/* The costs of requests 0 to i that are for the state of request i. */
static int64_t sum_of(const asked *a, const weir_store_request *r, size_t i)
{
    int64_t sum = 0;
    for (size_t k = 0; k <= i; k++) {
        if (a[k].store == a[i].store && a[k].policy == a[i].policy && a[k].key == a[i].key)
            sum += r[k].cost;
    }
    return sum;
}

static void decide(model *m, const asked *a, const weir_store_request *r, size_t n, int64_t now_ns)
{
    weir_decision single[MOST];
    m->blocking = n;
    for (size_t i = 0; i < n; i++) {
        int64_t *time_ns = &m->time_ns[a[i].store];
        *time_ns = *time_ns > now_ns ? *time_ns : now_ns;
        const uint64_t *state = m->kept[a[i].store][a[i].policy][a[i].key];
        weir_decision *d = &m->decision[i];
        assert_int_equal(
            weir_peek(r[i].policy, state, WEIR_LEVEL_MAX, *time_ns, r[i].cost, &single[i]),
            WEIR_OK);
        assert_int_equal(
            weir_peek(r[i].policy, state, WEIR_LEVEL_MAX, *time_ns, sum_of(a, r, i), d), WEIR_OK);
        if (!d->allowed && (m->blocking == n || weir_outranks(d, &m->decision[m->blocking])))
            m->blocking = i;
    }
    for (size_t i = 0; i < n && m->blocking < n; i++) {
        if (m->decision[i].allowed)
            m->decision[i] = single[i];
    }
    for (size_t i = 0; i < n && m->blocking == n; i++) {
        uint64_t *state = m->kept[a[i].store][a[i].policy][a[i].key];
        assert_int_equal(weir_check(r[i].policy, state, WEIR_LEVEL_MAX, m->time_ns[a[i].store],
                                    r[i].cost, &m->decision[i]),
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

/* A store of its own memory, one with partitions, and two in memory of the caller. */
static void open_stores(weir_store *s[STORES], void *memory)
{
    static const weir_store_partition own = {"own", 64 << 10, 64 << 10};
    const weir_store_options options[STORES] = {
        {.memory_bytes = MIB, .secret = (const uint8_t[16]){1}},
        {.memory_bytes = MIB,
         .secret = (const uint8_t[16]){2},
         .partitions = &own,
         .partitions_len = 1},
        {.memory_bytes = MIB, .secret = (const uint8_t[16]){3}, .memory = memory},
    };
    for (size_t i = 0; i < STORES; i++)
        assert_int_equal(weir_store_open(&s[i], &options[i]), WEIR_OK);
}

static void equal_to_the_model(void **unused)
{
    (void)unused;
    enum { STEPS = 4000 };
    static model m;
    void *memory = part_of(MIB);
    weir_store *s[STORES];
    uint64_t id[STORES][POLICIES], x = 7, committed = 0;
    int64_t now_ns = s_ns;
    open_stores(s, memory);
    for (size_t i = 0; i < STORES * POLICIES; i++) {
        size_t of = i / POLICIES, p = i % POLICIES;
        m.p[p] = policy_of(texts[p]);
        id[of][p] = weir_store_policy_id(s[of], &m.p[p]);
        if (p % 2)
            id[of][p] = weir_store_partition_id(s[of], id[of][p], "own");
    }
    for (int step = 0; step < STEPS; step++) {
        static const char names[] = "abcd";
        weir_store *stores[MOST];
        weir_store_request r[MOST];
        asked a[MOST];
        size_t n = 1 + next_random(&x) % (step % 2 ? 4 : MOST), blocking = MOST + 1;
        now_ns += (int64_t)(next_random(&x) % (step % 50 ? 300 : 9000)) * (s_ns / 100);
        /* Sometimes the clock of a caller is behind. */
        int64_t at_ns = step % 10 ? now_ns : now_ns - 5 * s_ns > 0 ? now_ns - 5 * s_ns : now_ns;
        for (size_t i = 0; i < n; i++) {
            a[i] = (asked){next_random(&x) % STORES, next_random(&x) % POLICIES,
                           next_random(&x) % KEYS};
            stores[i] = s[a[i].store];
            r[i] = (weir_store_request){.policy = &m.p[a[i].policy],
                                        .policy_id = id[a[i].store][a[i].policy],
                                        .key = &names[a[i].key],
                                        .key_len = 1,
                                        .cost = (int64_t)(next_random(&x) % 3)};
        }
        decide(&m, a, r, n, at_ns);
        assert_int_equal(weir_stores_take_many(stores, r, n, at_ns, &blocking, NULL), WEIR_OK);
        assert_int_equal(blocking, m.blocking);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(r[i].status, WEIR_OK);
            assert_same(&r[i].decision, &m.decision[i], step);
        }
        committed += blocking == n;
        for (size_t i = 0; i < STORES; i++)
            WEIR_CHECK(weir_store_check_all(s[i], false));
    }
    assert_true(committed > STEPS / 8 && committed < STEPS / 8 * 7);
    for (size_t i = 0; i < STORES; i++)
        weir_store_close(s[i]);
    munmap(memory, MIB);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static weir_store_request request_of(const weir_store *s, const weir_policy *p, const uint64_t *key,
                                     int64_t cost)
{
    return (weir_store_request){
        p, weir_store_policy_id(s, p), key, sizeof *key, cost, WEIR_E_BUSY, {0}, 0};
}

static int64_t charged(weir_store *s, const weir_policy *p, uint64_t key, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(
        weir_store_peek(s, p, weir_store_policy_id(s, p), &key, sizeof key, now_ns, 0, &d),
        WEIR_OK);
    return d.limit - d.remaining;
}

/* Two openings of one store, equal secrets, and bad numbers: nothing is written. */
static void equal_secrets(void **unused)
{
    (void)unused;
    void *memory = part_of(MIB);
    const weir_store_options options = {.memory_bytes = MIB, .memory = memory};
    weir_store *s[2], *copy;
    uint64_t key = 1;
    size_t blocking = 77;
    assert_int_equal(weir_store_open(&s[0], &options), WEIR_OK);
    assert_int_equal(weir_store_open(&s[1], &options), WEIR_OK);
    const weir_store_options same = {.memory_bytes = MIB, .secret = weir_store_secret(s[0])};
    assert_int_equal(weir_store_open(&copy, &same), WEIR_OK);
    weir_policy p = policy_of("gcra 1/s burst 9");
    weir_store_request r[2] = {request_of(s[0], &p, &key, 1), request_of(s[0], &p, &key, 1)};
    assert_int_equal(weir_stores_take_many(s, r, 2, s_ns, &blocking, NULL), WEIR_E_RANGE);
    weir_store *const with_copy[] = {s[0], copy}, *const twice[] = {s[1], s[1]};
    assert_int_equal(weir_stores_take_many(with_copy, r, 2, s_ns, &blocking, NULL), WEIR_E_RANGE);
    assert_int_equal(weir_stores_take_many(twice, r, 0, s_ns, &blocking, NULL), WEIR_E_RANGE);
    assert_int_equal(weir_stores_take_many(twice, r, MOST + 1, s_ns, &blocking, NULL),
                     WEIR_E_RANGE);
    assert_int_equal(r[0].status, WEIR_E_BUSY);
    assert_int_equal(r[1].status, WEIR_E_BUSY);
    assert_int_equal(blocking, 77);
    assert_int_equal(charged(s[0], &p, key, s_ns), 0);
    assert_int_equal(weir_stores_take_many(twice, r, 2, s_ns, &blocking, NULL), WEIR_OK);
    assert_int_equal(charged(s[0], &p, key, s_ns), 2);
    r[1].key_len = 0;
    assert_int_equal(weir_stores_take_many(twice, r, 2, s_ns, &blocking, NULL), WEIR_E_RANGE);
    assert_int_equal(r[0].status, WEIR_OK);
    assert_int_equal(r[1].status, WEIR_E_RANGE);
    assert_int_equal(charged(s[0], &p, key, s_ns), 2);
    weir_store_close(copy);
    weir_store_close(s[0]);
    weir_store_close(s[1]);
    munmap(memory, MIB);
}

/* One store refuses a new key: the others charge nothing. Each evicts or refuses as its own options
 * say. */
static void one_store_is_full(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"gcra 1/h burst 9", "sliding-slices 9/h slices 60"};
    for (size_t k = 0; k < 2; k++) {
        weir_store *s[2];
        weir_decision d;
        size_t blocking;
        weir_policy p = policy_of(policies[k]);
        for (int i = 0; i < 2; i++) {
            const weir_store_options options = {.memory_bytes = MIB,
                                                .when_full = i ? WEIR_REFUSE : WEIR_EVICT};
            assert_int_equal(weir_store_open(&s[i], &options), WEIR_OK);
        }
        uint64_t key = 0, id = weir_store_policy_id(s[1], &p), refused = 0;
        while (weir_store_check(s[1], &p, id, &key, sizeof key, s_ns, 1, &d) == WEIR_OK)
            key++;
        for (uint64_t n = 0; n < 50; n++) {
            uint64_t other = n, new = key + n;
            weir_store_request r[] = {request_of(s[0], &p, &other, 1),
                                      request_of(s[1], &p, &new, 1)};
            weir_status st = weir_stores_take_many(s, r, 2, s_ns, &blocking, NULL);
            assert_int_equal(charged(s[0], &p, other, s_ns), st == WEIR_OK);
            assert_int_equal(charged(s[1], &p, new, s_ns), st == WEIR_OK);
            assert_true(st == WEIR_OK || st == WEIR_E_FULL);
            assert_int_equal(r[1].status, st);
            refused += st == WEIR_E_FULL;
        }
        assert_true(refused > 0);
        WEIR_CHECK(weir_store_check_all(s[0], false));
        WEIR_CHECK(weir_store_check_all(s[1], false));
        weir_store_close(s[0]);
        weir_store_close(s[1]);
    }
}

/* The reservations of each store expire before the decision. */
static void reservations_expire(void **unused)
{
    (void)unused;
    weir_store *s[2];
    uint64_t key = 1, reserved;
    weir_decision d;
    size_t blocking;
    weir_policy p = policy_of("fixed-window 9/d");
    for (int i = 0; i < 2; i++) {
        const weir_store_options options = {.memory_bytes = MIB};
        assert_int_equal(weir_store_open(&s[i], &options), WEIR_OK);
        assert_int_equal(weir_store_reserve(s[i], &p, weir_store_policy_id(s[i], &p), &key,
                                            sizeof key, s_ns, 9, s_ns, &d, &reserved),
                         WEIR_OK);
    }
    weir_store_request r[] = {request_of(s[0], &p, &key, 5), request_of(s[1], &p, &key, 6)};
    assert_int_equal(weir_stores_take_many(s, r, 2, 2 * s_ns - 1, &blocking, NULL), WEIR_OK);
    assert_int_equal(blocking, 0);
    assert_int_equal(weir_stores_take_many(s, r, 2, 2 * s_ns, &blocking, NULL), WEIR_OK);
    assert_int_equal(blocking, 2);
    assert_int_equal(charged(s[0], &p, key, 2 * s_ns), 5);
    assert_int_equal(charged(s[1], &p, key, 2 * s_ns), 6);
    weir_store_close(s[0]);
    weir_store_close(s[1]);
}

/* ---- several processes ----------------------------------------------------------------------- */

enum { PROCESSES = 4, ZONES = 3, FEW = 6 };

/* A small state and a large one. */
static const char *const counted[2] = {"fixed-window 1000000/d",
                                       "sliding-slices 1000000/d slices 60"};

/* Charges of each key that were begun and answered. */
typedef struct sums {
    port_counter begun, answered;
} sums;

typedef struct race {
    void *memory[ZONES];
    sums (*of)[2][FEW]; /* of each zone, policy and key, in shared memory */
    port_counter *calls;
    weir_policy p[2];
    unsigned process;
    uint64_t rounds;
} race;

/* Moves the memory, so that the zones lie in the opposite order of addresses. For a child, before
 * it opens them. */
static bool reverse_addresses(race *a)
{
    char *to = part_of(ZONES * (size_t)MIB);
    bool up = a->memory[0] < a->memory[1];
    for (size_t i = 0; i < ZONES; i++) {
        void *at = to + (up ? ZONES - 1 - i : i) * MIB;
        if (mremap(a->memory[i], MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at)
            return false;
        a->memory[i] = at;
    }
    return true;
}

static bool open_zones(const race *a, weir_store *s[ZONES])
{
    for (size_t i = 0; i < ZONES; i++) {
        const weir_store_options options = {.memory = a->memory[i], .memory_bytes = MIB};
        if (weir_store_open(&s[i], &options) != WEIR_OK)
            return false;
    }
    return true;
}

/* One transaction on random keys. Half of the processes name the stores in the opposite order, and
 * have them at addresses in the opposite order. */
static bool transact(const race *a, weir_store *s[ZONES], uint64_t *x)
{
    weir_store *stores[FEW];
    weir_store_request r[FEW];
    sums *of[FEW];
    uint64_t keys[FEW];
    size_t n = 2 + next_random(x) % (FEW - 1), blocking;
    for (size_t i = 0; i < n; i++) {
        size_t zone = (i + next_random(x) % 2) % ZONES, p = next_random(x) % 2;
        zone = a->process % 2 ? ZONES - 1 - zone : zone;
        keys[i] = next_random(x) % FEW;
        stores[i] = s[zone];
        r[i] = request_of(s[zone], &a->p[p], &keys[i], 1);
        of[i] = &a->of[zone][p][keys[i]];
        port_add_relaxed(&of[i]->begun, 1);
    }
    if (weir_stores_take_many(stores, r, n, s_ns, &blocking, NULL) != WEIR_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        port_add_relaxed(&of[i]->answered, blocking == n);
    port_add_relaxed(a->calls, 1);
    return blocking == n;
}

static int transact_many(void *ctx)
{
    race *a = ctx;
    weir_store *s[ZONES];
    uint64_t x = 100 + a->process;
    if ((a->process % 2 && !reverse_addresses(a)) || !open_zones(a, s))
        return 1;
    for (uint64_t n = 0; n < a->rounds; n++) {
        if (!transact(a, s, &x))
            return 2;
    }
    return 0;
}

static void make_race(race *a, weir_store *s[ZONES])
{
    *a = (race){.of = part_of(ZONES * sizeof *a->of), .calls = part_of(sizeof *a->calls)};
    for (size_t i = 0; i < ZONES; i++)
        a->memory[i] = part_of(MIB);
    for (size_t i = 0; i < 2; i++)
        a->p[i] = policy_of(counted[i]);
    assert_true(open_zones(a, s));
}

static void drop_race(race *a, weir_store *s[ZONES])
{
    for (size_t i = 0; i < ZONES; i++) {
        WEIR_CHECK(weir_store_check_all(s[i], true));
        weir_store_close(s[i]);
        munmap(a->memory[i], MIB);
    }
    munmap(a->of, ZONES * sizeof *a->of);
    munmap(a->calls, sizeof *a->calls);
}

static void assert_between(const race *a, weir_store *s[ZONES], bool exact)
{
    for (size_t i = 0; i < ZONES * 2 * FEW; i++) {
        size_t zone = i / 2 / FEW, p = i / FEW % 2, key = i % FEW;
        const sums *of = &a->of[zone][p][key];
        uint64_t answered = port_load_relaxed(&of->answered);
        uint64_t is = (uint64_t)charged(s[zone], &a->p[p], key, s_ns);
        assert_true(is >= answered && is <= port_load_relaxed(&of->begun));
        assert_true(!exact || is == answered);
    }
}

/* No transaction waits for another one for ever, and the sums are exact. */
static void opposite_orders(void **unused)
{
    (void)unused;
    race a;
    weir_store *s[ZONES];
    pid_t pid[PROCESSES];
    make_race(&a, s);
    a.rounds = 4000;
    for (a.process = 0; a.process < PROCESSES; a.process++)
        pid[a.process] = fork_child(transact_many, &a);
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = wait_child(pid[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_between(&a, s, true);
    drop_race(&a, s);
}

/* Processes are killed during transactions. The others go on, and what was answered is charged. */
static void killed_meanwhile(void **unused)
{
    (void)unused;
    enum { ROUNDS = 60 };
    race a;
    weir_store *s[ZONES];
    pid_t pid[PROCESSES];
    uint64_t x = 5;
    make_race(&a, s);
    a.rounds = UINT64_MAX;
    for (a.process = 0; a.process < PROCESSES; a.process++)
        pid[a.process] = fork_child(transact_many, &a);
    for (unsigned n = 0; n < ROUNDS; n++) {
        uint64_t until = port_load_relaxed(a.calls) + next_random(&x) % 300;
        while (port_load_relaxed(a.calls) < until)
            port_yield();
        a.process = n % PROCESSES;
        assert_true(kill_child(pid[a.process]));
        assert_between(&a, s, false);
        pid[a.process] = fork_child(transact_many, &a);
    }
    for (size_t i = 0; i < PROCESSES; i++)
        assert_true(kill_child(pid[i]));
    assert_between(&a, s, false);
    a.process = 0;
    a.rounds = 100;
    assert_int_equal(run_in_child(transact_many, &a), 0);
    drop_race(&a, s);
}

/* All or none: with a smaller limit in one store, the others charge as often as that one. */
static int take_until_denied(void *ctx)
{
    race *a = ctx;
    weir_store *s[ZONES];
    size_t blocking = 0;
    const uint64_t key = 1;
    if ((a->process % 2 && !reverse_addresses(a)) || !open_zones(a, s))
        return 1;
    do {
        weir_store *stores[ZONES];
        weir_store_request r[ZONES];
        for (size_t i = 0; i < ZONES; i++) {
            size_t zone = a->process % 2 ? ZONES - 1 - i : i;
            stores[i] = s[zone];
            r[i] = request_of(s[zone], &a->p[zone % 2], &key, 1);
        }
        if (weir_stores_take_many(stores, r, ZONES, s_ns, &blocking, NULL) != WEIR_OK)
            return 2;
        port_add_relaxed(a->calls, blocking == ZONES);
    } while (blocking == ZONES);
    return 0;
}

static void all_or_none(void **unused)
{
    (void)unused;
    race a;
    weir_store *s[ZONES];
    pid_t pid[PROCESSES];
    make_race(&a, s);
    a.p[0] = policy_of("fixed-window 5000/d");
    a.p[1] = policy_of("sliding-slices 3000/d slices 60");
    for (a.process = 0; a.process < PROCESSES; a.process++)
        pid[a.process] = fork_child(take_until_denied, &a);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(wait_child(pid[i]), 0);
    assert_int_equal(port_load_relaxed(a.calls), 3000);
    for (size_t i = 0; i < ZONES; i++)
        assert_int_equal(charged(s[i], &a.p[i % 2], 1, s_ns), 3000);
    drop_race(&a, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_the_model), cmocka_unit_test(equal_secrets),
        cmocka_unit_test(one_store_is_full),  cmocka_unit_test(reservations_expire),
        cmocka_unit_test(opposite_orders),    cmocka_unit_test(killed_meanwhile),
        cmocka_unit_test(all_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
