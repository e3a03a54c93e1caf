/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Interned policies: their cache, compared with a plain model of it; texts of serialised states;
 * and states up to their largest size. The secret is fixed, so each run does the same. */

#include "module_server.h"

#include "core/check.h"
#include "modules/redis/interned.h"
#include "modules/redis/keyspace.h"
#include "store/siphash.h"
#include "tests/kit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const weir_secret secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

weir_status __wrap_port_random(void *buf, size_t len);

weir_status __wrap_port_random(void *buf, size_t len)
{
    CHECK(len == sizeof secret);
    memcpy(buf, &secret, len);
    return WEIR_OK;
}

static uint64_t below(uint64_t n)
{
    static uint64_t x = 1;
    x = x * 6364136223846793005 + 1442695040888963407;
    return (x >> 33) % n;
}

/* ---- the cache ------------------------------------------------------------------------------- */

enum { SETS = 256, WAYS = 4, SPELLINGS = 1500, NAMES = 40 };

/* Each set has the numbers of spellings, the one used last first. */
static int model[SETS][WAYS], last;

/* Returns whether spelling i, with this hash, was in the cache, and puts it there. */
static bool use(int i, uint64_t hash)
{
    int *set = model[hash % SETS], way = 0;
    while (way < WAYS - 1 && set[way] != i)
        way++;
    bool found = set[way] == i;
    memmove(set + 1, set, (size_t)way * sizeof set[0]);
    set[0] = i;
    last = i;
    return found;
}

/* All spellings are of one policy, so only the cache allocates memory: one block for each entry. */
static void the_cache_keeps_what_was_used_last(void)
{
    weir_interned *first = NULL, *s;
    weir_policy_error e;
    char text[64];
    unsigned hits = 0;
    for (int step = 0; step < 20000; step++) {
        int i = below(4) == 0 ? last : (int)below(below(2) ? SPELLINGS : SPELLINGS / 20);
        i = i > 0 ? i : 1;
        int len = snprintf(text, sizeof text, "gcra 1/%04ds burst 00007", 1);
        for (int bit = 0; bit < 11; bit++)
            text[len++] = i >> bit & 1 ? '\t' : ' ';
        bool known = use(i, weir_siphash(secret, text, (size_t)len));
        unsigned long before = module_server_allocations();
        CHECK(weir_intern_text(text, (size_t)len, &s, &e) == WEIR_OK);
        CHECK(module_server_allocations() == before + !known + !first);
        first = first ? first : s;
        CHECK(s == first);
        hits += known;
    }
    CHECK(hits > 5000 && hits < 19000);
    CHECK(weir_interned_sound());
}

/* A text without a space is no policy: it is not cached. A name is, until a policy changes. */
static void names_in_the_cache(void)
{
    weir_interned *s, *other;
    weir_policy_error e;
    CHECK(weir_named_set("api", 3, "gcra 2/s", 8, &e) == WEIR_OK);
    CHECK(weir_named_set("abi", 3, "gcra 3/s", 8, &e) == WEIR_OK);
    CHECK(weir_intern_name("none", 4, &s) == WEIR_E_ABSENT);
    unsigned long before = module_server_allocations();
    CHECK(weir_intern_name("api", 3, &s) == WEIR_OK && s->name_len == 3);
    CHECK(module_server_allocations() == before + 1);
    CHECK(weir_intern_name("api", 3, &other) == WEIR_OK && other == s);
    CHECK(module_server_allocations() == before + 1);
    CHECK(weir_intern_name("abi", 3, &other) == WEIR_OK && other != s);
    CHECK(weir_intern_text("api", 3, &other, &e) == WEIR_E_SYNTAX);
    CHECK(weir_named_set("api", 3, "gcra 4/s", 8, &e) == WEIR_OK);
    CHECK(weir_intern_name("api", 3, &other) == WEIR_OK && other != s);
    CHECK(weir_named_drop("api", 3) && !weir_named_drop("api", 3));
    CHECK(weir_intern_name("api", 3, &other) == WEIR_E_ABSENT);
    weir_named_drop_all();
    CHECK(weir_intern_name("abi", 3, &other) == WEIR_E_ABSENT);
    e.column = 5;
    CHECK(weir_named_set("a b", 3, "gcra 4/s", 8, &e) == WEIR_E_SYNTAX && e.column == 0);
    CHECK(strstr(e.text, "byte 2 of a policy's name"));
    CHECK(weir_named_set("ab", 2, "gcra 4/x", 8, &e) == WEIR_E_SYNTAX && e.column == 8);
}

/* ---- texts of states ------------------------------------------------------------------------- */

static weir_status stored(const char *name, const char *text, weir_interned **ret)
{
    return weir_intern_stored(name, strlen(name), text, strlen(text), ret);
}

static void texts_of_states(void)
{
    static const char *const wrong[] = {
        "gcra 1/s", "gcra\t1/s burst 5",   "gcra 1/s burst 05",  "gcra 1/x",
        "",         "gcra 60/60s burst 5", "gcra 2/2s burst 9 ", "cl.throttlf"};
    weir_interned *s = NULL, *again = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(stored("", wrong[i], &s) == WEIR_E_SYNTAX && !s);
    CHECK(stored("", "gcra 1/s burst 5", &s) == WEIR_OK && !s->throttle && s->name_len == 0);
    CHECK(stored("", "gcra 1/s burst 5", &again) == WEIR_OK && again == s);
    CHECK(stored("n", "gcra 1/s burst 5", &again) == WEIR_OK && again != s && again->name_len == 1);
    CHECK(strcmp(weir_interned_name(again), "n") == 0);
    const weir_secret of_name = {secret.k0 ^ weir_siphash(secret, "n", 1), secret.k1};
    CHECK(again->hash == weir_siphash(of_name, "gcra 1/s burst 5", 16));
    CHECK(stored("a b", "gcra 1/s burst 5", &s) == WEIR_E_SYNTAX);
    CHECK(stored("", "cl.throttle", &s) == WEIR_OK && s->throttle && s == weir_intern_throttle());
    CHECK(stored("n", "cl.throttle", &s) == WEIR_E_SYNTAX);
    char text[WEIR_POLICY_TEXT_MAX + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, "gcra 1/s burst 5", 16);
    CHECK(weir_intern_stored("", 0, text, WEIR_POLICY_TEXT_MAX, &s) == WEIR_E_SYNTAX);
    CHECK(weir_interned_sound());
}

/* ---- generations ----------------------------------------------------------------------------- */

static weir_interned *named(const char *name)
{
    weir_interned *s;
    CHECK(weir_intern_name(name, strlen(name), &s) == WEIR_OK);
    return s;
}

static weir_interned *text_of(const char *text)
{
    weir_interned *s;
    weir_policy_error e;
    CHECK(weir_intern_text(text, strlen(text), &s, &e) == WEIR_OK);
    return s;
}

/* Expects the name with which the states of a policy are stored. */
static void is_stored_as(const weir_interned *s, const char *name, bool former)
{
    CHECK(strcmp(weir_interned_name(s), name) == 0 && s->name_len == strlen(name));
    CHECK(weir_interned_base_len(s) == strcspn(name, "?") && s->former == former);
}

static void generations(void)
{
    weir_policy_error e;
    weir_interned *s, *text = text_of("gcra 1/s burst 5"), *other = text_of("gcra 1/s burst 6");
    CHECK(weir_named_set("api", 3, "gcra 1/s burst 5", 16, &e) == WEIR_OK);
    CHECK(weir_named_set("apis", 4, "gcra 1/s burst 5", 16, &e) == WEIR_OK);
    weir_interned *first = named("api"), *apis = named("apis");
    weir_interned_ref(first);
    weir_interned_ref(text);
    CHECK(weir_named_reset("none", 4) == WEIR_E_ABSENT);
    CHECK(weir_named_reset("api", 3) == WEIR_OK);
    is_stored_as(named("api"), "api?1", false);
    is_stored_as(first, "api", true);
    is_stored_as(named("apis"), "apis", false);
    CHECK(named("apis") == apis && text_of("gcra 1/s burst 5") == text && !text->former);
    CHECK(weir_named_reset("api", 3) == WEIR_OK);
    is_stored_as(named("api"), "api?2", false);
    CHECK(stored("api?1", "gcra 1/s burst 5", &s) == WEIR_OK);
    is_stored_as(s, "api?1", true);
    /* Under another text, the policy has the same generation. */
    CHECK(weir_named_set("api", 3, "gcra 1/s burst 7", 16, &e) == WEIR_OK);
    is_stored_as(named("api"), "api?2", false);
    CHECK(weir_text_reset("gcra 1/x", 8, &e) == WEIR_E_SYNTAX && e.column == 8);
    CHECK(weir_text_reset("gcra  1/1s burst 5", 18, &e) == WEIR_OK); /* the same canonical text */
    CHECK(text->former && !other->former);
    s = text_of("gcra 1/s burst 5");
    is_stored_as(s, "?1", false);
    CHECK(text_of("gcra 1/s burst 5") == s && text_of("gcra  1/s burst 5") == s);
    CHECK(text_of("gcra 1/s burst 6") == other && named("apis") == apis);
    CHECK(weir_interned_sound());
    weir_interned_unref(first);
    weir_interned_unref(text);
}

static void names_of_generations(void)
{
    weir_interned *s = NULL;
    static const char *const wrong[] = {
        "?",   "?0",  "?01", "?x", "a?", "a?0", "a b?1", "?1?2", "a?18446744073709551616",
        "?-1", "a?1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(stored(wrong[i], "gcra 1/s burst 5", &s) == WEIR_E_SYNTAX && !s);
    CHECK(stored("a?18446744073709551615", "gcra 1/s burst 5", &s) == WEIR_OK);
    is_stored_as(s, "a?18446744073709551615", true);
    CHECK(stored("a?1", "gcra 1/s burst 5", &s) == WEIR_OK && s->former);
}

static void too_many_generations(void)
{
    char name[16];
    weir_policy_error e;
    const weir_generation *g;
    module_server_close();
    module_server_open();
    CHECK(weir_generations_all(&g) == 0);
    CHECK(weir_named_set("api", 3, "gcra 1/s", 8, &e) == WEIR_OK);
    for (int i = 1; i <= WEIR_GENERATIONS_MAX; i++) {
        int len = snprintf(name, sizeof name, "p%d", i);
        CHECK(weir_generation_set(name, (size_t)len, (uint64_t)i) == WEIR_OK);
        CHECK(weir_generations_all(&g) == (size_t)i);
    }
    CHECK(weir_generation_of("p7", 2) == 7 && weir_generation_of("p", 1) == 0);
    CHECK(weir_generation_set("p7", 2, 9) == WEIR_OK && weir_generation_of("p7", 2) == 9);
    CHECK(weir_named_reset("api", 3) == WEIR_E_FULL);
    CHECK(weir_text_reset("gcra 1/s", 8, &e) == WEIR_E_FULL);
    is_stored_as(named("api"), "api", false);
    weir_generations_drop_all();
    CHECK(weir_generations_all(&g) == 0 && weir_generation_of("p7", 2) == 0);
    CHECK(weir_named_reset("api", 3) == WEIR_OK);
    weir_interned *s = named("api");
    weir_generations_drop_all();
    weir_generations_loaded();
    CHECK(s->former);
}

/* A policy stays as long as a state refers to it, however many others come. */
static void policies_in_use(void)
{
    enum { USED = 1100 };
    static weir_value v[USED];
    weir_policy_error e;
    weir_state_view at;
    for (uint64_t i = 0; i < 3 * USED; i++) {
        char text[40];
        weir_interned *s;
        uint64_t state = 1 + i;
        int len = snprintf(text, sizeof text, "gcra 1/s burst %d", 10000 + (int)i);
        CHECK(weir_intern_text(text, (size_t)len, &s, &e) == WEIR_OK);
        if (i < USED)
            v[i] = weir_value_put(0, 0, s, 0, &state, 1, 0);
    }
    CHECK(weir_interned_sound());
    for (uint64_t i = 0; i < USED; i++) {
        weir_value_at(v[i], 0, &at);
        CHECK(at.state[0] == 1 + i && at.interned->policy.layer[0].limit == 10000 + (int64_t)i);
        weir_value_free(v[i]);
    }
}

/* Interns a policy that the cache does not see, and no state refers to. */
static weir_interned *policy_number(int i)
{
    char text[40];
    weir_interned *s;
    snprintf(text, sizeof text, "gcra 1/s burst %d", 20000 + i);
    CHECK(stored("", text, &s) == WEIR_OK);
    return s;
}

/* The table doubles when it has as many policies as buckets. Policies without references are freed
 * when there are 1024, or later twice as many as were in use. */
enum { BUCKETS = 256, SWEPT = 1024, MORE = 500 };

static void the_table(void)
{
    static weir_interned *s[SWEPT];
    for (int has_states = 0; has_states < 2; has_states++) {
        uint64_t state = 5;
        module_server_close();
        module_server_open();
        for (int i = 0; i < SWEPT; i++) {
            unsigned long before = module_server_allocations();
            s[i] = policy_number(i);
            CHECK(module_server_allocations() - before ==
                  (i == BUCKETS || i == 2 * BUCKETS ? 2 : 1));
            weir_interned_ref(s[i]);
        }
        long blocks = module_server_blocks();
        for (int i = 0; i < MORE; i++)
            policy_number(SWEPT + i); /* the first sweeps and makes the table double */
        CHECK(module_server_blocks() == blocks + MORE);
        for (int i = 0; i < SWEPT; i++) {
            if (has_states)
                weir_value_free(weir_value_put(0, 0, s[i], 0, &state, 1, 0));
            weir_interned_unref(s[i]);
        }
        blocks = module_server_blocks();
        for (int i = SWEPT + MORE; i < 2 * SWEPT; i++)
            policy_number(i);
        CHECK(module_server_blocks() == blocks + SWEPT - MORE);
        policy_number(2 * SWEPT); /* sweeps all others */
        CHECK(module_server_blocks() == blocks - SWEPT - MORE + 1);
        CHECK(weir_interned_sound());
    }
}

/* Which states are inline, and with how many words. */
static void small_states(void)
{
    static const struct {
        const char *text;
        int words;
    } each[] = {
        {"fixed-window 5/m", 1},
        {"gcra 1/s burst 5", 1},
        {"gcra 3/s burst 5", 2},
        {"gcra 32768/s burst 1", 2},     /* 64 ticks */
        {"gcra 634765625/m burst 1", 0}, /* 65 ticks */
        {"token-bucket 9 refill 4 every 5s", 2},
        {"gcra 1/h burst 1000", 0},
        {"gcra 3/h burst 3000", 0},
        {"token-bucket 70000 refill 7 every 1h", 2},
        {"sliding-counter 12/m", 0},
        {"sliding-log 12/m", 0},
        {"sliding-slices 12/m slices 4", 0},
        {"gcra 1/s burst 5 & gcra 1/m burst 9", 0},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        weir_interned *s;
        weir_policy_error e;
        CHECK(weir_intern_text(each[i].text, strlen(each[i].text), &s, &e) == WEIR_OK);
        CHECK(s->small == each[i].words);
    }
}

/* ---- the largest state ----------------------------------------------------------------------- */

/* A log that is full to the last entry is an error, and keeps its charges. */
static void the_largest_state(void)
{
    weir_open_key key = {0};
    weir_cell cell;
    weir_interned *s;
    weir_policy_error e;
    weir_decision d;
    int64_t granted, now_ns = 0;
    weir_status st;
    CHECK(weir_intern_text("sliding-log 2000000000/d", 24, &s, &e) == WEIR_OK);
    weir_interned_ref(s);
    CHECK(weir_cell_open(&cell, &key, s, now_ns) == WEIR_OK);
    do {
        st = weir_cell_decide(&cell, WEIR_VERB_TAKE, ++now_ns, 1, 0, &d, &granted);
    } while (st == WEIR_OK && now_ns < 3000000);
    CHECK(st == WEIR_E_NOMEM && now_ns > 500000);
    CHECK(cell.words <= WEIR_STATE_WORDS_MAX);
    CHECK(weir_state_words(&s->policy, cell.level + 1) > WEIR_STATE_WORDS_MAX);
    CHECK(weir_cell_decide(&cell, WEIR_VERB_PEEK, now_ns, 1, 0, &d, &granted) == WEIR_OK);
    CHECK(d.remaining == 2000000000 - (now_ns - 1));
    weir_cell_close(&cell);
    weir_interned_unref(s);
}

/* More policies than the table sweeps at. None is freed meanwhile. */
static void intern_many(void)
{
    long blocks = module_server_blocks();
    for (int i = 0; i < SWEPT + MORE; i++)
        policy_number(i);
    CHECK(module_server_blocks() == blocks + SWEPT + MORE);
}

/* Another module may run commands when it receives an event of the first. These free no policy. */
static void commands_inside_a_command(void)
{
    static const char *const words[] = {"WEIR.TAKE", "gcra 1/s burst 5", "key"};
    module_bytes args[3];
    for (size_t i = 0; i < 3; i++)
        args[i] = (module_bytes){words[i], strlen(words[i])};
    module_server_close();
    module_server_open();
    module_server_on_notice(intern_many);
    const module_reply *reply = module_server_run(args, 3);
    CHECK(reply && !reply->failed && reply->integer[3] == 4);
    module_server_on_notice(NULL);
    long blocks = module_server_blocks();
    policy_number(SWEPT + MORE); /* frees the others */
    CHECK(module_server_blocks() == blocks - SWEPT - MORE + 1);
    CHECK(weir_interned_sound());
}

int main(void)
{
    module_server_open();
    the_cache_keeps_what_was_used_last();
    names_in_the_cache();
    texts_of_states();
    generations();
    names_of_generations();
    too_many_generations();
    policies_in_use();
    small_states();
    the_table();
    the_largest_state();
    commands_inside_a_command();
    module_server_close();
    printf("11 passed, 0 failed\n");
    return 0;
}
