/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the module with the core, in a fake server: random operations on a few keys with a few
 * policies each, while nanoseconds, hours, weeks or years pass and keys expire. The core keeps
 * every state unchanged. The module expires, replaces and packs states, and must give the same
 * decisions. While replication is on, the replica must equal the master byte by byte.
 *
 *   module_random_test [seeds [first]] */

#include "module_server.h"

#include "service/throttle.h"

#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 5, POLICIES = 15, STEPS = 1500, WORDS_MAX = 1024, ALL_MAX = 6 };
#define FIRST_NS (INT64_C(1767225600) * 1000000000)

static const char *const texts[POLICIES] = {
    "gcra 10/s burst 5",
    "gcra 3/7s burst 2",
    "gcra 1/d burst 6",
    "gcra 1/2d burst 4",
    "token-bucket 30 refill 7/h",
    "token-bucket 9 refill 4 every 5s",
    "leaky-queue 5/s depth 3",
    "fixed-window 5/m",
    "fixed-window 9/d count-denied",
    "fixed-window 4/h from-first",
    "sliding-log 40/h",
    "sliding-counter 12/m",
    "sliding-slices 40/m slices 6",
    "gcra 10/s burst 5 & sliding-log 20/h",
    "gcra 997/1001s burst 50",
};

typedef struct model {
    unsigned level;
    uint64_t state[WORDS_MAX];
} model;

static weir_policy policy[POLICIES];
static model models[KEYS][POLICIES], kept[ALL_MAX];
static uint64_t seed, throttle_tat;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "seed %" PRIu64 ": not true: %s, line %d\n", seed, #x, __LINE__);      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t noise(void)
{
    static uint64_t last_seed, x;
    if (seed != last_seed)
        x = last_seed = seed;
    x += 0x9e3779b97f4a7c15;
    uint64_t z = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static int64_t below(int64_t n)
{
    return (int64_t)(noise() % (uint64_t)n);
}

static module_bytes text_of(const char *text)
{
    return (module_bytes){text, strlen(text)};
}

/* ---- the core -------------------------------------------------------------------------------- */

static weir_status take(const weir_policy *p, model *m, int64_t now_ns, int64_t cost,
                        weir_decision *ret)
{
    weir_status st;
    while ((st = weir_check(p, m->state, m->level, now_ns, cost, ret)) == WEIR_E_ROOM) {
        static uint64_t from[WORDS_MAX];
        memcpy(from, m->state, sizeof from);
        CHECK(weir_state_words(p, m->level + 1) <= WORDS_MAX);
        weir_state_grow(p, from, m->level, m->state);
        m->level++;
    }
    return st;
}

static weir_status peek(const weir_policy *p, const model *m, int64_t now_ns, int64_t cost,
                        weir_decision *ret)
{
    return weir_peek(p, m->state, m->level, now_ns, cost, ret);
}

static weir_status decide(const char *verb, const weir_policy *p, model *m, int64_t now_ns,
                          int64_t n, weir_decision *ret, int64_t *ret_granted)
{
    weir_decision d;
    weir_status st = WEIR_OK;
    *ret_granted = 0;
    switch (verb[0]) {
    case 'T':
        return take(p, m, now_ns, n, ret);
    case 'P':
        return peek(p, m, now_ns, n, ret);
    case 'G':
        st = peek(p, m, now_ns, 0, &d);
        n = st == WEIR_OK && n > d.remaining ? d.remaining : n;
        if (st == WEIR_OK && n > 0)
            st = take(p, m, now_ns, n, &d);
        *ret_granted = n;
        return st == WEIR_OK ? peek(p, m, now_ns, 1, ret) : st;
    default:
        return weir_refund(p, m->state, m->level, now_ns, n, ret);
    }
}

/* ---- the module ------------------------------------------------------------------------------ */

static int64_t us_of(int64_t ns)
{
    return ns / 1000 + (ns % 1000 > 0);
}

static void compare(const int64_t *v, const weir_decision *d, int64_t granted)
{
    CHECK(v[0] == d->allowed && v[1] == d->limit && v[2] == d->remaining);
    CHECK(v[3] == (d->never ? -1 : us_of(d->retry_after_ns)));
    CHECK(v[4] == us_of(d->reset_after_ns) && v[5] == us_of(d->delay_ns));
    CHECK(v[6] == d->layer && v[7] == granted);
}

static const module_reply *ask(const char *verb, int i, const char *key, int64_t n)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, n);
    const module_bytes args[] = {text_of("WEIR.ASK"), text_of(verb), text_of(texts[i]),
                                 text_of(key), text_of(number)};
    return module_server_run(args, 5);
}

static void one(int k, int i, int64_t now_ns, int64_t n)
{
    static const char *const verbs[] = {"TAKE", "TAKE", "TAKE", "PEEK", "GRANT", "REFUND", "RESET"};
    const char *verb = verbs[below(7)], key[] = {(char)('a' + k), '\0'};
    weir_decision d;
    int64_t granted;
    model *m = &models[k][i];
    const module_reply *r = ask(verb, i, key, n);
    if (strcmp(verb, "RESET") == 0) {
        memset(m, 0, sizeof *m);
        CHECK(!r->failed && r->integer[1] == 1);
        return;
    }
    weir_status st = decide(verb, &policy[i], m, now_ns, n, &d, &granted);
    CHECK(r->failed == (st != WEIR_OK));
    if (st == WEIR_OK)
        compare(r->integer + 1, &d, granted);
}

/* A request with several policies of one key, each once. */
static void all(int k, int64_t now_ns)
{
    const char key[] = {(char)('a' + k), '\0'};
    module_bytes args[2 + 3 * ALL_MAX] = {text_of("WEIR.ASKALL")};
    char count[8], number[ALL_MAX][24];
    int len = 1 + (int)below(ALL_MAX), first = (int)below(POLICIES);
    int64_t cost[ALL_MAX];
    weir_decision alone, together[ALL_MAX];
    bool allowed = true, good = true;
    snprintf(count, sizeof count, "%d", len);
    args[1] = text_of(count);
    for (int i = 0; i < len; i++) {
        int at = (first + i) % POLICIES;
        cost[i] = below(4);
        snprintf(number[i], sizeof number[i], "%" PRId64, cost[i]);
        args[2 + 3 * i] = text_of(texts[at]);
        args[3 + 3 * i] = text_of(key);
        args[4 + 3 * i] = text_of(number[i]);
        kept[i] = models[k][at];
    }
    const module_reply *r = module_server_run(args, 2 + 3 * (size_t)len);
    for (int i = 0; i < len && good; i++) {
        int at = (first + i) % POLICIES;
        good = take(&policy[at], &models[k][at], now_ns, cost[i], &together[i]) == WEIR_OK;
        allowed = allowed && good && together[i].allowed;
    }
    CHECK(r->failed == !good && (!good || (r->integer[1] == len) == allowed));
    for (int i = 0; i < len; i++) {
        int at = (first + i) % POLICIES;
        if (!good || !allowed)
            models[k][at] = kept[i];
        if (!good)
            continue;
        bool told_alone = !allowed && together[i].allowed;
        if (told_alone)
            CHECK(peek(&policy[at], &kept[i], now_ns, cost[i], &alone) == WEIR_OK);
        compare(r->integer + 2 + 8 * i, told_alone ? &alone : &together[i], 0);
    }
}

/* An argument of CL.THROTTLE: mostly small, sometimes extreme. */
static int64_t throttle_number(void)
{
    static const int64_t edges[] = {INT64_MIN,  -1999,      -2,         -1,         0,
                                    1000000001, 1999999999, 9223372036, 9223372037, INT64_MAX};
    if (below(8) == 0)
        return edges[below(sizeof edges / sizeof edges[0])];
    return below(64) - (below(8) == 0 ? 32 : 0);
}

/* CL.THROTTLE with changing arguments on one key. `throttle_tat` keeps the TAT of the key forever.
 * The module, which drops a TAT in the past, must give the same decision within its bounds. */
static void throttle(int64_t now_ns)
{
    weir_throttle t = {throttle_number(), throttle_number(), throttle_number(), throttle_number()};
    char number[4][24];
    const int64_t values[] = {t.max_burst, t.count, t.period_s, t.quantity};
    module_bytes args[6] = {text_of("CL.THROTTLE"), text_of("throttled")};
    for (int i = 0; i < 4; i++) {
        snprintf(number[i], sizeof number[i], "%" PRId64, values[i]);
        args[2 + i] = text_of(number[i]);
    }
    const module_reply *r = module_server_run(args, 6);
    weir_throttle_answer a;
    weir_throttle_status st = weir_throttle_check(&t, &throttle_tat, now_ns, &a);
    CHECK(r->failed == (st != WEIR_THROTTLE_OK));
    if (r->failed) {
        CHECK(strstr(r->error, weir_throttle_status_text(st)) != NULL);
        return;
    }
    const int64_t *v = r->integer + 1;
    CHECK(v[0] == a.limited && v[1] == a.limit && v[2] == a.remaining);
    CHECK(v[3] == a.retry_after_s && v[4] == a.reset_after_s);
    CHECK(v[2] >= 0 && v[2] <= v[1] && v[3] >= -1 && v[4] >= 0);
}

static int64_t pause_ns(void)
{
    static const int64_t most[] = {1,
                                   1000,
                                   1000000,
                                   INT64_C(1000000000),
                                   INT64_C(60) * 1000000000,
                                   INT64_C(3600) * 1000000000,
                                   INT64_C(86400) * 1000000000,
                                   INT64_C(15) * 86400 * 1000000000};
    int64_t how = below(1000);
    if (how == 0)
        return below(INT64_C(400) * 86400 * 1000000000);
    return below(1 + most[how < 30 ? 7 : how < 100 ? 6 : how < 400 ? below(6) : below(3)]);
}

static void run(void)
{
    int64_t now_ns = below(4) ? FIRST_NS + below(FIRST_NS / 8) : below(FIRST_NS);
    memset(models, 0, sizeof models);
    throttle_tat = 0;
    for (int step = 0; step < STEPS; step++) {
        now_ns += pause_ns();
        if (now_ns > WEIR_NOW_NS_MAX)
            break;
        module_server_set_time(now_ns);
        if (below(2))
            module_server_expire();
        if (below(200) == 0)
            module_server_replicate(below(2));
        if (below(8) == 0)
            throttle(now_ns);
        int k = (int)below(KEYS);
        /* The first keys have one policy each, so their values are small. */
        int i = k < KEYS - 1 ? (int)((seed + (uint64_t)k * 3) % POLICIES) : (int)below(POLICIES);
        if (k == KEYS - 1 && below(3) == 0)
            all(k, now_ns);
        else
            one(k, i, now_ns, below(8) ? below(4) : below(60));
    }
    module_server_flush();
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    module_server_open();
    for (int i = 0; i < POLICIES; i++) {
        weir_policy_error e;
        weir_status st = weir_policy_parse(&policy[i], texts[i], strlen(texts[i]), NULL, &e);
        if (st != WEIR_OK)
            fprintf(stderr, "%s: column %u: %s\n", texts[i], e.column, e.text);
        CHECK(st == WEIR_OK);
    }
    for (seed = first; seed < first + seeds; seed++)
        run();
    module_server_close();
    printf("%" PRIu64 " seeds from %" PRIu64 "\n", seeds, first);
    return 0;
}
