/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Partitions: they decide as a store without them, keys of one never displace keys of another, and
 * files keep them. */

#include "store/iterate.h"
#include "store/kit_test.h"
#include "store/store.h"
#include "tests/store/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, POLICIES = 4 };

static const uint8_t secret[16] = "sixteen letters";

/* Two policies with small states and two with large ones, of which the second of each is in a
 * partition. */
static const char *const texts[POLICIES] = {"gcra 10/h burst 100", "sliding-counter 100/h",
                                            "sliding-log 100/h", "sliding-log 100/d"};
static const char *const names[POLICIES] = {NULL, "counter", NULL, "log"};
enum { GCRA, COUNTER, LOG, DAY_LOG };

static const weir_store_partition both[] = {{"counter", 6 * MIB, 0}, {"log", 0, MIB}};

typedef struct rig {
    weir_store *s;
    weir_policy p[POLICIES];
    uint64_t id[POLICIES];
    weir_store_error error;
    weir_store_options options;
} rig;

static void open_rig(rig *r)
{
    r->options.secret = secret;
    r->options.ret_error = &r->error;
    r->error.text[0] = '\0';
    weir_status st = weir_store_open(&r->s, &r->options);
    assert_string_equal(r->error.text, "");
    assert_int_equal(st, WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        r->p[i] = policy_of(texts[i]);
        r->id[i] = weir_store_policy_id(r->s, &r->p[i]);
        if (names[i])
            r->id[i] = weir_store_partition_id(r->s, r->id[i], names[i]);
    }
}

static void close_rig(rig *r)
{
    WEIR_CHECK(weir_store_check_all(r->s, false));
    weir_store_close(r->s);
}

static weir_decision take(rig *r, size_t policy, uint64_t key, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(
        weir_store_check(r->s, &r->p[policy], r->id[policy], &key, sizeof key, now_ns, cost, &d),
        WEIR_OK);
    return d;
}

static int64_t left(rig *r, size_t policy, uint64_t key, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(
        weir_store_peek(r->s, &r->p[policy], r->id[policy], &key, sizeof key, now_ns, 1, &d),
        WEIR_OK);
    return d.remaining;
}

static weir_partition_stats stats_of(rig *r, const char *name)
{
    weir_partition_stats all[WEIR_PARTITIONS_MAX];
    size_t n = weir_store_partitions(r->s, all, WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0)
            return all[i];
    }
    fail_msg("no partition '%s'", name);
    return all[0];
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return *seed >> 33;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static weir_status add_word(void *ctx, uint64_t *state, int64_t now_ns)
{
    (void)now_ns;
    *(uint64_t *)ctx = state[0];
    return WEIR_OK;
}

/* Makes one call, chosen by `seed`. Returns a digest of all that it returned. */
static uint64_t call(rig *r, uint64_t seed, int64_t now_ns, uint64_t ids[2])
{
    size_t i = next_random(&seed) % POLICIES;
    uint64_t key = next_random(&seed) % 50, digest = 0;
    int64_t cost = (int64_t)(next_random(&seed) % 30), over = 0;
    const weir_policy *p = &r->p[i];
    weir_decision d[WEIR_TAKE_MANY_MAX] = {0};
    uint64_t keys[WEIR_TAKE_MANY_MAX];
    weir_store_request requests[WEIR_TAKE_MANY_MAX];
    size_t n = 2 + next_random(&seed) % (WEIR_TAKE_MANY_MAX - 1), blocking = 99;
    weir_status st = WEIR_OK;
    weir_key prepared;
    for (size_t k = 0; k < n; k++) {
        size_t of = next_random(&seed) % POLICIES;
        keys[k] = next_random(&seed) % 50;
        requests[k] = (weir_store_request){.policy = &r->p[of],
                                           .policy_id = r->id[of],
                                           .key = &keys[k],
                                           .key_len = sizeof keys[k],
                                           .cost = cost / 4};
    }
    switch (next_random(&seed) % 10) {
    case 0:
        st = weir_store_peek(r->s, p, r->id[i], &key, sizeof key, now_ns, cost, d);
        break;
    case 1:
        st = weir_store_refund(r->s, p, r->id[i], &key, sizeof key, now_ns, cost, d);
        break;
    case 2:
        st = weir_store_reset(r->s, r->id[i], &key, sizeof key);
        break;
    case 3:
        assert_int_equal(weir_store_key(r->s, r->id[i], &key, sizeof key, &prepared), WEIR_OK);
        weir_store_prefetch(r->s, prepared);
        st = weir_store_check_key(r->s, p, prepared, now_ns, cost, d);
        break;
    case 4:
        weir_store_check_batch(r->s, requests, n, now_ns);
        break;
    case 5:
        st = weir_store_take_many(r->s, requests, n, now_ns, &blocking);
        break;
    case 6:
        ids[1] = ids[0];
        st = weir_store_reserve(r->s, p, r->id[i], &key, sizeof key, now_ns, cost,
                                1 + cost * s_ns / 10, d, &ids[0]);
        break;
    case 7:
        st = weir_store_commit(r->s, ids[cost % 2], now_ns, cost, d, &over);
        break;
    case 8:
        st = weir_store_apply(r->s, p, r->id[i], &key, sizeof key, now_ns, add_word, &digest);
        break;
    default:
        d[0] = take(r, i, key, now_ns, cost);
    }
    for (size_t k = 0; k < n && blocking != 99; k++)
        digest = digest * 31 + (uint64_t)requests[k].decision.remaining;
    return digest * 31 + (uint64_t)st + (uint64_t)over + blocking * 7 +
           (uint64_t)(d[0].remaining * 3 + d[0].retry_after_ns + d[0].reset_after_ns);
}

/* Resets the keys of call(): no other is left. */
static void reset_keys(rig *r)
{
    for (size_t i = 0; i < POLICIES; i++) {
        for (uint64_t key = 0; key < 50; key++)
            (void)!weir_store_reset(r->s, r->id[i], &key, sizeof key);
    }
    assert_int_equal(weir_store_stats_get(r->s).keys, 0);
}

/* Every function answers as on a store without partitions, also if time goes back. */
static void decides_as_without(void **state)
{
    (void)state;
    rig with = {.options = {.memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2}};
    rig without = {.options = {.memory_bytes = 64 * MIB}};
    open_rig(&with);
    open_rig(&without);
    uint64_t seed = 7, ids[2] = {0}, others[2] = {0};
    int64_t now_ns = 1000 * s_ns;
    for (size_t i = 0; i < 60000; i++) {
        uint64_t of = next_random(&seed);
        now_ns += (int64_t)(of % 7) * s_ns / 5;
        int64_t at_ns = of % 11 == 0 ? now_ns - 20 * s_ns : now_ns;
        assert_int_equal(call(&with, of, at_ns, ids), call(&without, of, at_ns, others));
        assert_true((ids[0] == 0) == (others[0] == 0));
    }
    assert_true(stats_of(&with, "counter").keys > 0 && stats_of(&with, "log").keys > 0);
    reset_keys(&with);
    reset_keys(&without);
    assert_int_equal(weir_store_stats_get(with.s).memory_bytes,
                     weir_store_stats_get(without.s).memory_bytes);
    assert_int_equal(weir_store_partitions(without.s, NULL, 0), 0);
    close_rig(&with);
    close_rig(&without);
}

/* ---- floods ---------------------------------------------------------------------------------- */

enum { FEW = 100 };

/* Fills the memory of one policy with new keys: keys of the other policies stay, even those that
 * have used less. */
static void flood(size_t flooded, weir_when_full when_full)
{
    const weir_store_partition small[] = {{"counter", 200000, 0}, {"log", 0, 150000}};
    rig r = {
        .options = {
            .memory_bytes = MIB, .when_full = when_full, .partitions = small, .partitions_len = 2}};
    open_rig(&r);
    for (uint64_t key = 0; key < FEW; key++) {
        for (size_t i = 0; i < POLICIES; i++)
            take(&r, i, key, s_ns, 1);
    }
    uint64_t lost = 0;
    for (uint64_t key = FEW; key < 60000; key++) {
        weir_decision d;
        weir_status st =
            weir_store_check(r.s, &r.p[flooded], r.id[flooded], &key, sizeof key, s_ns, 50, &d);
        assert_true(st == WEIR_OK || (st == WEIR_E_FULL && when_full == WEIR_REFUSE));
        lost += st != WEIR_OK;
    }
    for (uint64_t key = 0; key < FEW; key++) {
        for (size_t i = 0; i < POLICIES; i++)
            assert_true(left(&r, i, key, s_ns) == 99 || i == flooded);
    }
    weir_store_stats all = weir_store_stats_get(r.s);
    lost = when_full == WEIR_REFUSE ? all.refused : all.evicted;
    assert_true(lost > 10000);
    for (size_t i = 0; i < POLICIES; i++) {
        if (!names[i])
            continue;
        weir_partition_stats s = stats_of(&r, names[i]);
        assert_int_equal(when_full == WEIR_REFUSE ? s.refused : s.evicted, i == flooded ? lost : 0);
        assert_true(i == flooded ? s.memory_bytes > s.memory_max / 2 : s.keys == FEW);
        assert_true(s.memory_bytes < s.memory_max);
    }
    close_rig(&r);
}

static void a_flood_evicts_only_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        flood(i, WEIR_EVICT);
        flood(i, WEIR_REFUSE);
    }
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* Charges one key of each policy, in one transaction or in none. */
static void transactions_across_partitions(void **state)
{
    (void)state;
    rig r = {.options = {.memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2}};
    open_rig(&r);
    for (uint64_t round = 0; round < 200; round++) {
        weir_store_request requests[3 * POLICIES];
        uint64_t keys[3 * POLICIES];
        size_t blocking, denied = round % (3 * POLICIES + 1);
        for (size_t i = 0; i < 3 * POLICIES; i++) {
            size_t of = (i + round) % POLICIES;
            keys[i] = 1000 * round + i;
            requests[i] = (weir_store_request){.policy = &r.p[of],
                                               .policy_id = r.id[of],
                                               .key = &keys[i],
                                               .key_len = sizeof keys[i],
                                               .cost = i == denied ? 101 : 40};
        }
        assert_int_equal(weir_store_take_many(r.s, requests, 3 * POLICIES, s_ns, &blocking),
                         WEIR_OK);
        assert_int_equal(blocking, denied);
        for (size_t i = 0; i < 3 * POLICIES; i++)
            assert_int_equal(left(&r, (i + round) % POLICIES, keys[i], s_ns),
                             denied < 3 * POLICIES ? 100 : 60);
    }
    close_rig(&r);
}

enum { THREADS = 4, ROUNDS = 3000, SHARED_KEYS = 3 };

typedef struct worker {
    pthread_t thread;
    rig *r;
    uint64_t seed, allowed[POLICIES][SHARED_KEYS];
    bool failed;
} worker;

static void *take_in_any_order(void *arg)
{
    worker *w = arg;
    for (int round = 0; round < ROUNDS; round++) {
        weir_store_request requests[5];
        uint64_t keys[5];
        size_t policies[5], blocking = 5;
        for (size_t i = 0; i < 5; i++) {
            policies[i] = next_random(&w->seed) % POLICIES;
            keys[i] = next_random(&w->seed) % SHARED_KEYS;
            requests[i] = (weir_store_request){.policy = &w->r->p[policies[i]],
                                               .policy_id = w->r->id[policies[i]],
                                               .key = &keys[i],
                                               .key_len = sizeof keys[i],
                                               .cost = round % 50 == 0};
        }
        w->failed |= weir_store_take_many(w->r->s, requests, 5, s_ns, &blocking) != WEIR_OK;
        for (size_t i = 0; i < 5 && blocking == 5; i++)
            w->allowed[policies[i]][keys[i]] += (uint64_t)requests[i].cost;
    }
    return NULL;
}

/* Transactions of several threads that name the partitions in different orders neither wait for
 * each other for ever nor lose a charge. */
static void concurrent_transactions(void **state)
{
    (void)state;
    rig r = {.options = {.memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2}};
    worker w[THREADS] = {{.failed = false}};
    open_rig(&r);
    for (size_t i = 0; i < THREADS; i++) {
        w[i].r = &r;
        w[i].seed = i + 1;
        assert_int_equal(pthread_create(&w[i].thread, NULL, take_in_any_order, &w[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        assert_false(w[i].failed);
    }
    for (size_t of = 0; of < POLICIES; of++) {
        for (uint64_t key = 0; key < SHARED_KEYS; key++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < THREADS; i++)
                sum += w[i].allowed[of][key];
            assert_true(sum > 0);
            assert_int_equal(left(&r, of, key, s_ns), 100 - (int64_t)sum);
        }
    }
    close_rig(&r);
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct place {
    char dir[64], path[80];
} place;

static place make_place(void)
{
    place p;
    const char *tmp = getenv("TMPDIR");
    snprintf(p.dir, sizeof p.dir, "%.40s/weir-part-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.path, sizeof p.path, "%s/state", p.dir);
    return p;
}

static void drop_place(const place *p)
{
    unlink(p->path);
    assert_int_equal(rmdir(p->dir), 0);
}

static rig in_file(const place *p, const weir_store_partition *partitions, size_t n)
{
    rig r = {.options = {.memory_bytes = 40 * MIB,
                         .file = p->path,
                         .partitions = partitions,
                         .partitions_len = n}};
    open_rig(&r);
    return r;
}

static void charge_keys(rig *r, size_t policy)
{
    for (uint64_t key = 0; key < FEW; key++)
        take(r, policy, key, s_ns, (int64_t)key % 50);
}

static void charge_all(rig *r)
{
    for (size_t i = 0; i < POLICIES; i++)
        charge_keys(r, i);
}

/* Whether all keys of a policy have what charge_all() left; if not, all are new. */
static bool keeps(rig *r, size_t policy)
{
    uint64_t kept = 0;
    for (uint64_t key = 1; key < FEW; key++)
        kept += left(r, policy, key, s_ns) == 100 - (int64_t)key % 50;
    assert_true(kept == FEW - 1 || kept == (FEW - 1) / 50);
    return kept == FEW - 1;
}

/* Partitions may come, go and change their sizes from one opening to the next. */
static void changed_partitions(void **state)
{
    (void)state;
    static const weir_store_partition swapped[] = {{"log", 0, MIB}, {"counter", 6 * MIB, 0}};
    static const weir_store_partition wider[] = {{"counter", 9 * MIB + 999, 0}, {"log", 0, 200000}};
    static const weir_store_partition third[] = {
        {"a", 5 * MIB, 70000}, {"counter", 5 * MIB, 70000}, {"log", 5 * MIB, 2 * MIB}};
    place p = make_place();
    rig r = in_file(&p, NULL, 0);
    charge_keys(&r, GCRA);
    charge_keys(&r, LOG);
    charge_keys(&r, COUNTER);
    close_rig(&r);
    r = in_file(&p, both, 2); /* a policy that gets a partition starts anew */
    assert_true(keeps(&r, GCRA) && keeps(&r, LOG) && !keeps(&r, COUNTER) && !keeps(&r, DAY_LOG));
    charge_keys(&r, COUNTER);
    charge_keys(&r, DAY_LOG);
    close_rig(&r);
    static const struct {
        const weir_store_partition *of;
        size_t n;
    } steps[] = {{both, 2}, {swapped, 2}, {wider, 2}, {third, 3}, {both, 2}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        r = in_file(&p, steps[i].of, steps[i].n);
        assert_int_equal(weir_store_partitions(r.s, NULL, 0), steps[i].n);
        for (size_t k = 0; k < POLICIES; k++)
            assert_true(keeps(&r, k));
        close_rig(&r);
    }
    r = in_file(&p, both, 1); /* "log" goes */
    assert_true(keeps(&r, GCRA) && keeps(&r, LOG) && keeps(&r, COUNTER) && !keeps(&r, DAY_LOG));
    close_rig(&r);
    r = in_file(&p, NULL, 0);
    assert_true(keeps(&r, GCRA) && keeps(&r, LOG) && !keeps(&r, DAY_LOG));
    close_rig(&r);
    drop_place(&p);
}

/* A file without partitions has the version that programs without them know. */
static void the_version_of_a_file(void **state)
{
    (void)state;
    place p = make_place();
    for (size_t n = 0; n <= 2; n++) {
        rig r = in_file(&p, both, n);
        close_rig(&r);
        weir_file_header head;
        FILE *in = fopen(p.path, "r+");
        assert_non_null(in);
        assert_int_equal(fread(&head, sizeof head, 1, in), 1);
        assert_int_equal(head.state_version, n > 0 ? 4 : 3);
        if (n == 2) { /* a damaged name */
            head.partition_names[1][2] ^= 1;
            rewind(in);
            assert_int_equal(fwrite(&head, sizeof head, 1, in), 1);
        }
        fclose(in);
    }
    weir_store *s;
    weir_store_error error;
    const weir_store_options o = {.file = p.path, .ret_error = &error};
    assert_int_equal(weir_store_open(&s, &o), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.text, "the names of its partitions are damaged"));
    drop_place(&p);
}

/* A process that is killed loses no decision that it returned, in any partition. */
static void killed(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    place p = make_place();
    uint64_t *shared = part_of(4096);
    rig r = in_file(&p, both, 2);
    close_rig(&r);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            r = in_file(&p, both, 2);
            for (uint64_t n = 0;; n++) {
                size_t policy = n % POLICIES;
                uint64_t key = 1000 * (uint64_t)round + n / POLICIES % KEYS;
                weir_decision d;
                if (weir_store_check(r.s, &r.p[policy], r.id[policy], &key, sizeof key, s_ns, 1,
                                     &d) != WEIR_OK)
                    _exit(1);
                __atomic_store_n(shared, n + 1, __ATOMIC_SEQ_CST);
            }
        }
        uint64_t until = 500 + 977 * (uint64_t)round;
        while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) < until &&
               waitpid(child, NULL, WNOHANG) == 0)
            continue;
        int status = 0;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        uint64_t done = __atomic_exchange_n(shared, 0, __ATOMIC_SEQ_CST);
        r = in_file(&p, both, 2);
        WEIR_CHECK(weir_store_check_all(r.s, true));
        for (uint64_t n = 0; n < (done < KEYS * POLICIES ? done : KEYS * POLICIES); n++) {
            uint64_t key = 1000 * (uint64_t)round + n / POLICIES;
            int64_t times = (int64_t)((done - n - 1) / (KEYS * POLICIES)) + 1;
            int64_t remaining = left(&r, n % POLICIES, key, s_ns);
            assert_true(remaining <= 100 - times || times > 99);
            assert_true(remaining >= 100 - times - 1);
        }
        weir_store_close(r.s);
    }
    munmap(shared, 4096);
    drop_place(&p);
}

/* A reservation returns its units to its partition, also if it expires after the next opening and
 * before any id was asked for. */
static void reservations_find_their_partition(void **state)
{
    (void)state;
    place p = make_place();
    rig r = in_file(&p, both, 2);
    uint64_t key = 5, ids[POLICIES], reservation;
    for (size_t i = 0; i < POLICIES; i++) {
        weir_decision d;
        take(&r, i, key, s_ns, 1);
        assert_int_equal(weir_store_reserve(r.s, &r.p[i], r.id[i], &key, sizeof key, s_ns, 40, s_ns,
                                            &d, &reservation),
                         WEIR_OK);
        assert_int_equal(left(&r, i, key, s_ns), 59);
        ids[i] = r.id[i];
    }
    close_rig(&r);
    const weir_store_options o = {
        .memory_bytes = 40 * MIB, .file = p.path, .partitions = both, .partitions_len = 2};
    assert_int_equal(weir_store_open(&r.s, &o), WEIR_OK);
    for (size_t i = 0; i < POLICIES; i++) {
        r.id[i] = ids[i];
        assert_int_equal(left(&r, i, key, 2 * s_ns), 99);
    }
    assert_int_equal(weir_store_stats_get(r.s).reserved, 0);
    close_rig(&r);
    drop_place(&p);
}

/* ---- ids, iteration, errors ------------------------------------------------------------------ */

static void ids(void **state)
{
    (void)state;
    rig r = {.options = {.memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2}};
    open_rig(&r);
    uint64_t id = weir_store_policy_id(r.s, &r.p[GCRA]);
    uint64_t a = weir_store_partition_id(r.s, id, "counter");
    uint64_t b = weir_store_partition_id(r.s, id, "log");
    assert_true(a != id && b != id && a != b);
    assert_int_equal(weir_store_partition_id(r.s, id, "other"), id);
    assert_int_equal(weir_store_partition_id(r.s, a, "log"), b);
    assert_int_equal((a ^ id) & WEIR_POLICY_CLASS, 0);
    assert_ptr_equal(weir_area_of(r.s, id), &r.s->common);
    assert_ptr_equal(weir_area_of(r.s, a), &r.s->partitions[0].area);
    assert_ptr_equal(weir_area_of(r.s, b), &r.s->partitions[1].area);
    close_rig(&r);
}

static bool copy(void *ctx, const weir_key_state *stored)
{
    assert_int_equal(weir_store_put(ctx, stored), WEIR_OK);
    return true;
}

static bool copy_common(void *ctx, const weir_key_state *stored)
{
    assert_int_equal(weir_store_put(ctx, stored), stored->partition ? WEIR_E_ABSENT : WEIR_OK);
    return true;
}

static bool only_first(void *ctx, const weir_key_state *stored)
{
    (void)stored;
    ++*(uint64_t *)ctx;
    return false;
}

static void copies(void **state)
{
    (void)state;
    rig from = {.options = {.memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2}};
    rig to = from, bare = {.options = {.memory_bytes = 64 * MIB}};
    uint64_t seen = 0;
    open_rig(&from);
    open_rig(&to);
    open_rig(&bare);
    charge_all(&from);
    weir_store_each(from.s, copy, to.s);
    weir_store_each(from.s, copy_common, bare.s);
    weir_store_each(from.s, only_first, &seen);
    assert_int_equal(seen, 1);
    for (size_t i = 0; i < POLICIES; i++)
        assert_true(keeps(&to, i));
    assert_true(keeps(&bare, GCRA) && keeps(&bare, LOG));
    assert_int_equal(stats_of(&to, "counter").keys, stats_of(&from, "counter").keys);
    assert_int_equal(stats_of(&to, "log").keys, stats_of(&from, "log").keys);
    close_rig(&from);
    close_rig(&to);
    close_rig(&bare);
}

static void must_refuse(const weir_store_options *options, const char *text)
{
    weir_store_error error = {""};
    weir_store_options o = *options;
    weir_store *s;
    o.ret_error = &error;
    assert_int_equal(weir_store_open(&s, &o), WEIR_E_RANGE);
    if (!strstr(error.text, text))
        fail_msg("expected '%s', found '%s'", text, error.text);
}

static void bad_options(void **state)
{
    (void)state;
    static const char long_name[] =
        "a123456789012345678901234567890123456789012345678901234567890123x";
    const struct {
        weir_store_partition of[2];
        size_t n;
        const char *text;
    } bad[] = {
        {{{NULL, MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{"", MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{long_name, MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{"a b", MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{"a\"", MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{"\xC3\xA4", MIB, 0}}, 1, "expected a name of 1 to 64 printable"},
        {{{"a", MIB, 0}, {"a", MIB, 0}}, 2, "two partitions have the name 'a'"},
        {{{"a", 0, 0}}, 1, "the partition 'a' has no memory"},
        {{{"a", 65535, 0}}, 1, "expected at least 64 KiB"},
        {{{"a", 0, 65535}}, 1, "65535 bytes for large states, expected at least 64 KiB"},
        {{{"a", 9 * MIB, 0}, {"b", 2 * MIB, 0}}, 2, "too little of the 12582912 bytes for small"},
        {{{"a", 0, 4 * MIB - 300000}}, 1, "too little of the 4194304 bytes for large states"},
        {{{"a", SIZE_MAX, 0}, {"b", MIB, 0}}, 2, "too little"},
        {{{"a", 0, SIZE_MAX}}, 1, "too little"},
        {{{"a", MIB, 0}}, 16, "16 partitions, expected at most 15"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        must_refuse(&(weir_store_options){.memory_bytes = 16 * MIB,
                                          .partitions = bad[i].of,
                                          .partitions_len = bad[i].n},
                    bad[i].text);
    const weir_store_partition few[] = {{"a", 4 * MIB, 0}}, many[] = {{"a", 10 * MIB, 0}};
    must_refuse(&(weir_store_options){.memory_bytes = 32 * MIB,
                                      .file = "/nonexistent/x",
                                      .partitions = few,
                                      .partitions_len = 1},
                "expected at least 5 MiB for a file");
    must_refuse(&(weir_store_options){.memory_bytes = 18 * MIB,
                                      .file = "/nonexistent/x",
                                      .partitions = many,
                                      .partitions_len = 1},
                "the partitions leave too little");
}

static unsigned fail_at; /* the number of the next calloc() that fails; 0: none */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fail_at > 0 && --fail_at == 0 ? NULL : __real_calloc(n, size);
}

/* Each allocation of opening is needed. */
static void without_memory(void **state)
{
    (void)state;
    const weir_store_options o = {
        .memory_bytes = 64 * MIB, .partitions = both, .partitions_len = 2};
    bool all = false;
    for (unsigned nth = 1; !all; nth++) {
        weir_store *s = NULL;
        fail_at = nth;
        weir_status st = weir_store_open(&s, &o);
        all = fail_at > 0;
        fail_at = 0;
        assert_int_equal(st, all ? WEIR_OK : WEIR_E_NOMEM);
        assert_int_equal(s != NULL, all);
        assert_true(!all || nth > 8);
        weir_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_as_without),
        cmocka_unit_test(a_flood_evicts_only_its_own),
        cmocka_unit_test(transactions_across_partitions),
        cmocka_unit_test(concurrent_transactions),
        cmocka_unit_test(changed_partitions),
        cmocka_unit_test(the_version_of_a_file),
        cmocka_unit_test(killed),
        cmocka_unit_test(reservations_find_their_partition),
        cmocka_unit_test(ids),
        cmocka_unit_test(copies),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
