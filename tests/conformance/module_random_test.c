/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the module with the core, in a fake server: random operations on a few keys with a few
 * policies each, while nanoseconds, hours, weeks or years pass and keys expire. The core keeps
 * every state unchanged. The module expires, replaces and packs states, and must give the same
 * decisions. While replication is on, the replica must equal the master byte by byte.
 *
 *   module_random_test [seeds [first]] */

#include "module_server.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "port/random_kit_test.h"
#include "service/throttle.h"

#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 5, POLICIES = 22, STEPS = 1500, WORDS_MAX = 1024, ALL_MAX = 6 };
#define FIRST_NS (INT64_C(1767225600) * 1000000000)

static const char *const texts[POLICIES] = {
    "gcra 10/s burst 5",
    "gcra 3/7s burst 2",
    "gcra 1/d burst 6",
    "gcra 1/2d burst 4",
    "token-bucket 30 refill 7/h",
    "token-bucket 9 refill 4 every 5s",
    "leaky-queue 5/s depth 3",
    "leaky-queue 3/s depth 6 nodelay 2",
    "fixed-window 5/m",
    "fixed-window 9/d count-denied",
    "fixed-window 4/h from-first",
    "sliding-log 40/h",
    "sliding-counter 12/m",
    "sliding-slices 40/m slices 6",
    "gcra 10/s burst 5 & sliding-log 20/h",
    "gcra 10/s burst 5 & block 2s",
    "sliding-log 5/m & block 3s doubling 1m",
    "gcra 997/1001s burst 50",
    "gcra 100/h burst 1000",
    /* States of many words, which are written in place. */
    "sliding-slices 9/m slices 40",
    "sliding-slices 30/h slices 100",
    "sliding-slices 50/h slices 30 & gcra 10/s burst 5",
};

typedef struct model {
    unsigned level;
    uint64_t state[WORDS_MAX];
} model;

static weir_policy policy[POLICIES];
static model models[KEYS][POLICIES], kept[ALL_MAX];
static uint64_t seed, throttle_tat;
static int64_t ahead_ns; /* of the wall clock */

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
    return next_random(&x);
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

static int64_t fresh_after(int k, int i, int64_t now_ns)
{
    return weir_fresh_after(&policy[i], models[k][i].state, models[k][i].level, now_ns);
}

/* How long a key may stay after its quota is full: a quarter of the time in which the bucket
 * refills, or 1.1 seconds. */
static int64_t late_ns(int i)
{
    int64_t most_ns = 1100000000;
    for (uint32_t n = 0; n < policy[i].layers; n++) {
        const weir_layer *l = &policy[i].layer[n];
        if (l->num == 0) /* a window */
            continue;
        int64_t quarter_ns = (int64_t)((double)l->limit * (double)l->den / (double)l->num / 4);
        most_ns = quarter_ns > most_ns ? quarter_ns : most_ns;
    }
    return most_ns;
}

/* No key expires before all its states have full quota. A key that was just charged does not expire
 * much later either. */
static void check_expiry(int k, int64_t now_ns, bool charged)
{
    const char key[] = {(char)('a' + k), '\0'};
    int64_t longest_ns = 0, latest_ns = 0;
    for (int i = 0; i < POLICIES; i++) {
        int64_t after_ns = fresh_after(k, i, now_ns);
        longest_ns = after_ns > longest_ns ? after_ns : longest_ns;
        int64_t most_ns = after_ns > 0 ? late_ns(i) : 0;
        latest_ns = most_ns > latest_ns ? most_ns : latest_ns;
    }
    int64_t expiry_ms = module_server_expiry_ms(key), wall_ns = now_ns + ahead_ns;
    CHECK(longest_ns == 0 || expiry_ms * 1000000 >= wall_ns + longest_ns);
    CHECK(!charged || expiry_ms * 1000000 <= wall_ns + longest_ns + latest_ns + 1000000);
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
    if (st == WEIR_OK && strcmp(verb, "TAKE") == 0 && d.allowed && n > 0)
        check_expiry(k, now_ns, true);
}

/* The policy of a request for key k. The first keys have one policy each, so their values are
 * small. */
static int policy_of(int k)
{
    return k < KEYS - 1 ? (int)((seed + (uint64_t)k * 3) % POLICIES) : (int)below(POLICIES);
}

static void begin_block(const weir_policy *p, model *m, int64_t now_ns, int64_t cost,
                        weir_decision *ret)
{
    weir_decision d;
    if (ret->allowed || !weir_policy_blocks(p))
        return;
    CHECK(weir_block_if_denied(p, m->state, m->level, now_ns, cost, 0, &d) == WEIR_OK);
    if (weir_outranks(&d, ret))
        *ret = d;
}

/* Sends a request for several states, some of which may be the same. Most are states of the last
 * key, which has states under many policies. */
static void all(int64_t now_ns)
{
    module_bytes args[2 + 3 * ALL_MAX] = {text_of("WEIR.ASKALL")};
    char count[16], number[ALL_MAX][24], key[ALL_MAX][2];
    int len = 1 + (int)below(ALL_MAX), policy_at[ALL_MAX];
    model *m[ALL_MAX];
    int64_t cost[ALL_MAX];
    weir_decision alone[ALL_MAX], together[ALL_MAX];
    bool allowed = true, good = true;
    snprintf(count, sizeof count, "%d", len);
    args[1] = text_of(count);
    for (int i = 0; i < len; i++) {
        int k = below(3) ? KEYS - 1 : (int)below(KEYS);
        policy_at[i] =
            i > 0 && k == KEYS - 1 && below(4) ? (policy_at[i - 1] + 1) % POLICIES : policy_of(k);
        m[i] = &models[k][policy_at[i]];
        key[i][0] = (char)('a' + k);
        key[i][1] = '\0';
        cost[i] = below(4);
        snprintf(number[i], sizeof number[i], "%" PRId64, cost[i]);
        args[2 + 3 * i] = text_of(texts[policy_at[i]]);
        args[3 + 3 * i] = text_of(key[i]);
        args[4 + 3 * i] = text_of(number[i]);
        kept[i] = *m[i];
    }
    const module_reply *r = module_server_run(args, 2 + 3 * (size_t)len);
    for (int i = 0; i < len; i++) {
        int64_t sum = 0;
        for (int k = 0; k <= i; k++)
            sum += m[k] == m[i] ? cost[k] : 0;
        CHECK(peek(&policy[policy_at[i]], m[i], now_ns, cost[i], &alone[i]) == WEIR_OK);
        CHECK(peek(&policy[policy_at[i]], m[i], now_ns, sum, &together[i]) == WEIR_OK);
        allowed = allowed && together[i].allowed;
    }
    for (int i = 0; i < len && good && allowed; i++) {
        good = take(&policy[policy_at[i]], m[i], now_ns, cost[i], &together[i]) == WEIR_OK;
        CHECK(!good || together[i].allowed); /* as their sum is */
    }
    CHECK(r->failed == !good && (!good || (r->integer[1] == len) == allowed));
    for (int i = 0; i < len && !good; i++)
        *m[i] = kept[i];
    for (int i = 0; i < len && good; i++) {
        if (!allowed)
            begin_block(&policy[policy_at[i]], m[i], now_ns, cost[i], &together[i]);
        bool told_alone = !allowed && together[i].allowed;
        compare(r->integer + 2 + 8 * i, told_alone ? &alone[i] : &together[i], 0);
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
    bool is_ahead = throttle_tat > (uint64_t)now_ns;
    CHECK(!is_ahead || module_server_expiry_ms("throttled") >= (int64_t)(throttle_tat / 1000000));
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Names of policies. Some begin with another name. burst[i] is 0 if policy i does not exist. */
enum { NAMES = 24, TEXTS = 3000 };
static const char *const name[NAMES] = {"a", "aa", "aaa", "ab", "aba", "abb", "b",   "ba",
                                        "c", "ca", "cz",  "m",  "ma",  "mb",  "mba", "mbb",
                                        "n", "na", "nb",  "x",  "xy",  "z",   "za",  "zz"};
static int burst[NAMES];

static const module_reply *run_text(const char *const *word, size_t words)
{
    module_bytes args[MODULE_SERVER_ARGS];
    for (size_t i = 0; i < words; i++)
        args[i] = text_of(word[i]);
    return module_server_run(args, words);
}

static void name_one(int i)
{
    char text[40];
    int64_t limits = 1 + below(1000);
    snprintf(text, sizeof text, "gcra 1/s burst %d", (int)limits);
    switch (below(4)) {
    case 0:
        CHECK(!run_text((const char *[]){"WEIR.POLICY", "SET", name[i], text}, 4)->failed);
        burst[i] = (int)limits;
        break;
    case 1:
        CHECK(run_text((const char *[]){"WEIR.POLICY", "DEL", name[i]}, 3)->integer[0] ==
              (burst[i] > 0));
        burst[i] = 0;
        break;
    default: {
        const module_reply *r = run_text((const char *[]){"WEIR.TAKE", name[i], "named"}, 3);
        CHECK(r->failed == !burst[i]);
        CHECK(r->failed || (r->integer[2] == burst[i] && r->integer[3] < burst[i]));
    }
    }
    /* A name is not a text, even if the same bytes were just found as a name. */
    CHECK(run_text((const char *[]){"WEIR.ASK", "PEEK", name[i], "named", "1"}, 5)->failed);
    const module_reply *r = run_text((const char *[]){"WEIR.POLICY", "LIST"}, 2);
    int64_t policies = 0;
    for (int k = 0; k < NAMES; k++)
        policies += burst[k] > 0;
    CHECK(r->integer[0] == policies);
}

/* Sends one of many texts, some of them more often than others. Most requests leave no state. */
static void ask_some_text(void)
{
    static int last = 1;
    char text[40], key[8];
    int limit = below(2) ? last : below(2) ? 1 + (int)below(600) : 1 + (int)below(TEXTS);
    const char *verb = below(8) ? "WEIR.PEEK" : "WEIR.TAKE";
    snprintf(text, sizeof text, below(2) ? "gcra 1/s burst %d" : "gcra  1/1s burst %d", limit);
    snprintf(key, sizeof key, "k%d", limit % 7);
    last = limit;
    const module_reply *r = run_text((const char *[]){verb, text, key}, 3);
    CHECK(!r->failed && r->integer[2] == limit);
}

/* Names and texts come and go: each finds its own policy. */
static void policies(void)
{
    int64_t now_ns = FIRST_NS;
    seed = 1;
    memset(burst, 0, sizeof burst);
    for (int step = 0; step < 30000; step++) {
        now_ns += below(20000000);
        module_server_set_time(now_ns);
        if (below(8) == 0)
            module_server_expire();
        /* A new name empties the cache of texts, which fills up while there is none. */
        if (step / 5000 % 2 == 0 && below(4) == 0)
            name_one((int)below(NAMES));
        else
            ask_some_text();
    }
    module_server_flush();
}

/* A key has states under at most 48 policies. Idle states make room for others. */
static void full_key(void)
{
    enum { MOST = 48 };
    const int64_t day_ns = INT64_C(86400) * 1000000000;
    char text[MOST + 3][24];
    module_server_set_time(FIRST_NS);
    for (int i = 1; i <= MOST + 2; i++) {
        snprintf(text[i], sizeof text[i], "gcra 1/d burst %d", i);
        const module_reply *r = run_text((const char *[]){"WEIR.TAKE", text[i], "k"}, 3);
        CHECK(r->failed == (i > MOST) && (!r->failed || strstr(r->error, "too many policies")));
    }
    CHECK(!run_text((const char *[]){"WEIR.TAKE", text[5], "k"}, 3)->failed);
    module_server_set_time(FIRST_NS + day_ns + 1); /* all but one are idle */
    const char *const both[] = {"WEIR.ASKALL", "2", text[3], "k", "1", text[MOST + 1], "k", "1"};
    CHECK(run_text(both, 8)->integer[1] == 2);
    CHECK(run_text((const char *[]){"WEIR.PEEK", text[5], "k"}, 3)->integer[3] == 4);
    CHECK(run_text((const char *[]){"WEIR.PEEK", text[3], "k"}, 3)->integer[3] == 2);
    module_server_flush();
}

/* Of a state of more than 64 words, only the words that changed are replicated. */
static void long_states(void)
{
    size_t patched = 0;
    module_server_set_time(FIRST_NS);
    for (int slices = 110; slices < 140; slices++) {
        char text[48];
        size_t head = 4 + 3 + 8 +
                      (size_t)snprintf(text, sizeof text, "sliding-slices 99/h slices %d", slices);
        for (int i = 0; i < 2; i++)
            CHECK(!run_text((const char *[]){"WEIR.TAKE", text, "k"}, 3)->failed);
        size_t whole = module_server_saved("k").len, sent = module_server_payloads();
        bool is_long = (whole - head) / 8 > 64;
        CHECK(is_long ? sent < 100 : sent == whole);
        patched += is_long;
        module_server_flush();
    }
    CHECK(patched > 5 && patched < 25);
}

/* The server checks the number of arguments only since 7.0, so the commands do. */
static void arities(void)
{
    static const struct {
        const char *name;
        size_t least, most;
    } all[] = {{"WEIR.TAKE", 3, 7},   {"WEIR.CHECK", 3, 7},   {"WEIR.PEEK", 3, 7},
               {"WEIR.REFUND", 4, 4}, {"WEIR.RESET", 3, 3},   {"WEIR.EXPLAIN", 3, 3},
               {"WEIR.POLICY", 2, 9}, {"WEIR.TAKEALL", 5, 9}, {"WEIR.HELP", 1, 1},
               {"WEIR.ASK", 5, 5},    {"WEIR.ASKALL", 5, 9},  {"WEIR.STATE", 4, 4},
               {"CL.THROTTLE", 1, 9}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *words[] = {all[i].name, "1", "1", "1", "1", "1", "1", "1", "1"};
        for (size_t n = 1; n <= 9; n++) {
            const module_reply *r = run_text(words, n);
            bool wrong = r->failed && strstr(r->error, "wrong number of arguments");
            CHECK(wrong == (n < all[i].least || n > all[i].most));
        }
    }
}

/* WEIR.TAKEALL reports the longest delay of an allowed request, wherever it is; none if denied. */
static void delays(void)
{
    enum { DELAY = 6 };
    const char *const slow = "leaky-queue 1/s depth 9", *const quick = "leaky-queue 2/s depth 9";
    module_server_set_time(FIRST_NS);
    CHECK(run_text((const char *[]){"WEIR.TAKE", slow, "a"}, 3)->integer[DELAY] == 0);
    CHECK(run_text((const char *[]){"WEIR.TAKE", quick, "b"}, 3)->integer[DELAY] == 0);
    const char *all[] = {"WEIR.TAKEALL", "3", slow, "a", "1", quick, "b", "1", quick, "c", "1"};
    CHECK(run_text(all, 11)->integer[DELAY] == 1000);
    all[2] = all[8] = quick;
    all[3] = "c";
    all[5] = slow;
    all[6] = "a";
    all[9] = "b";
    CHECK(run_text(all, 11)->integer[DELAY] == 2000);
    all[10] = "11";
    const module_reply *r = run_text(all, 11);
    CHECK(r->integer[1] == 0 && r->integer[DELAY] == 0 && r->integer[DELAY + 1] == 2);
    CHECK(run_text((const char *[]){"WEIR.EXPLAIN", slow, "a"}, 3)->integer[0] == 4);
    CHECK(run_text((const char *[]){"WEIR.EXPLAIN", slow, "none"}, 3)->integer[0] == 4);
    module_server_flush();
}

/* Without events, the module does not notice a new replica, so it always replicates everything. */
static void without_events(void)
{
    module_server_open_without_events();
    module_server_set_time(FIRST_NS);
    for (int i = 0; i < 10; i++) {
        if (i == 3)
            module_server_replicate(false);
        CHECK(!ask("TAKE", i % POLICIES, "k", 1)->failed);
    }
    module_server_close();
}

/* ---- expiry ---------------------------------------------------------------------------------- */

/* Charges one unit, and checks the decision and the expiry. */
static void charge(int i, int64_t now_ns)
{
    weir_decision d;
    module_server_set_time(now_ns);
    const module_reply *r = ask("TAKE", i, "a", 1);
    CHECK(take(&policy[i], &models[0][i], now_ns, 1, &d) == WEIR_OK);
    compare(r->integer + 1, &d, 0);
    check_expiry(0, now_ns, false);
}

static void begin_expiry(void)
{
    module_server_flush();
    memset(models, 0, sizeof models);
}

static int find_text(const char *text)
{
    int i = 0;
    while (strcmp(texts[i], text) != 0)
        i++;
    return i;
}

/* A charge moves the expiry only if the key would expire too early. */
static void expiry_is_set_ahead(void)
{
    static const struct {
        const char *text;
        int64_t pause_ns;
        unsigned long most; /* times, in 320 charges */
    } cases[] = {
        {"gcra 100/h burst 1000", INT64_C(30) * 1000000000, 90},
        {"gcra 997/1001s burst 50", 900000000, 165},
        {"fixed-window 9/d count-denied", 1000000, 1},
        {"sliding-counter 12/m", 1000, 1},
        {"gcra 10/s burst 5", 95000000, 80},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        begin_expiry();
        int i = find_text(cases[c].text);
        unsigned long before = module_server_expiries();
        for (int n = 0; n < 320; n++)
            charge(i, FIRST_NS + n * cases[c].pause_ns);
        unsigned long moved = module_server_expiries() - before;
        CHECK(moved >= 1 && moved <= cases[c].most);
    }
}

/* A key is there until its quota is full, even if the clock went back between two charges. */
static void expiry_is_never_early(void)
{
    static const int64_t back_ns[] = {0, 1, 999999, INT64_C(2) * 1000000000,
                                      INT64_C(7200) * 1000000000};
    for (int i = 0; i < POLICIES; i++) {
        for (size_t b = 0; b < sizeof back_ns / sizeof back_ns[0]; b++) {
            begin_expiry();
            for (int n = 0; n < 40; n++)
                charge(i, FIRST_NS + n * INT64_C(70000000) - (n % 3) * back_ns[b]);
            int64_t now_ns = FIRST_NS + 39 * INT64_C(70000000);
            int64_t full_ns = now_ns + fresh_after(0, i, now_ns);
            module_server_set_time(full_ns - 1);
            module_server_expire();
            CHECK(module_server_saved("a").len > 0 || full_ns == now_ns);
            module_server_set_time(full_ns + late_ns(i) + 2000000);
            module_server_expire();
            CHECK(module_server_saved("a").len == 0);
        }
    }
}

/* After a step of the wall clock, or with a state that the module did not write itself, the next
 * charge sets the expiry. */
static void expiry_is_set_again(void)
{
    for (int i = 0; i < POLICIES; i++) {
        char at[24], payload[1 << 14];
        begin_expiry();
        charge(i, FIRST_NS);
        ahead_ns = INT64_C(3600) * 1000000000;
        module_server_step_wall_clock(ahead_ns);
        charge(i, FIRST_NS);
        ahead_ns = 0;
        module_server_step_wall_clock(0);
        charge(i, FIRST_NS);
        module_bytes saved = module_server_saved("a");
        CHECK(saved.len <= sizeof payload);
        memcpy(payload, saved.at, saved.len);
        snprintf(at, sizeof at, "%" PRId64, FIRST_NS / 1000000 + 1);
        const module_bytes state[] = {
            text_of("WEIR.STATE"), text_of("a"), text_of(at), {payload, saved.len}};
        CHECK(!module_server_run(state, 4)->failed);
        CHECK(module_server_expiry_ms("a") == FIRST_NS / 1000000 + 1);
        weir_decision d; /* make room for one more, which a policy without refunds still has */
        weir_status st =
            weir_refund(&policy[i], models[0][i].state, models[0][i].level, FIRST_NS, 2, &d);
        CHECK(ask("REFUND", i, "a", 2)->failed == (st != WEIR_OK));
        charge(i, FIRST_NS);
    }
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
    ahead_ns = below(2) ? below(INT64_C(5000000000)) : 0;
    module_server_step_wall_clock(ahead_ns);
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
        for (int k = 0; k < KEYS; k++)
            check_expiry(k, now_ns, false);
        int k = (int)below(KEYS);
        if (k == KEYS - 1 && below(3) == 0)
            all(now_ns);
        else
            one(k, policy_of(k), now_ns, below(8) ? below(4) : below(60));
    }
    module_server_flush();
    ahead_ns = 0;
    module_server_step_wall_clock(0);
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
    module_server_replicate(true);
    policies();
    full_key();
    long_states();
    arities();
    delays();
    expiry_is_set_ahead();
    expiry_is_never_early();
    expiry_is_set_again();
    module_server_close();
    without_events();
    printf("%" PRIu64 " seeds from %" PRIu64 "\n", seeds, first);
    return 0;
}
