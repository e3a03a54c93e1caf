/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: serialised states, as they come from an RDB file, RESTORE, a master or an AOF.
 * A refused payload changes nothing. An accepted payload makes its changes and no others, and every
 * command can decide on the result. */

#include "fuzz.h"

#include "module_server.h"

#include <weir/weir.h>

static module_bytes text_of(const char *text)
{
    return (module_bytes){text, strlen(text)};
}

static const module_reply *run(const char *a, const char *b, const char *c, module_bytes d,
                               const char *e)
{
    const module_bytes args[] = {text_of(a), text_of(b), text_of(c), d, text_of(e ? e : "")};
    return module_server_run(args, e ? 5 : 4);
}

static const char *const policies[] = {
    "gcra 10/s burst 5",
    "token-bucket 7 refill 3/m",
    "fixed-window 5/d count-denied",
    "sliding-log 9/h",
    "sliding-counter 5/s",
    "sliding-slices 40/m slices 6",
    "gcra 10/s burst 5 & sliding-log 100/h count-denied",
};
enum { POLICIES = sizeof policies / sizeof policies[0] };

/* Runs each command on the key under each policy, now and later. */
static void decide(int64_t now_ns)
{
    static const char *const verbs[] = {"TAKE", "PEEK", "REFUND", "GRANT", "TAKE", "RESET"};
    for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++) {
        module_server_set_time(now_ns + (int64_t)v * 1000000007);
        for (size_t i = 0; i < POLICIES; i++) {
            const module_reply *r = run("WEIR.ASK", verbs[v], policies[i], text_of("k"), "3");
            CHECK(r && (r->failed || r->len == 9));
        }
    }
}

/* ---- what a payload does: see modules/redis/value.h ------------------------------------------ */

enum { HEAD = 4, ITEM = 3, STATES = 64, WORDS_MAX = 2 << 20 };
enum { SET, PATCH, DROP };

static size_t number(const uint8_t *at, size_t bytes)
{
    size_t x = 0;
    while (bytes-- > 0)
        x = x << 8 | at[bytes];
    return x;
}

/* The length of an item, without its type and its index. */
static size_t item_len(unsigned type, const uint8_t *at)
{
    if (type == SET)
        return 8 + number(at + 1, 1) + number(at + 2, 2) + 8 * number(at + 4, 4);
    return type == PATCH ? 4 + 12 * number(at, 4) : 0;
}

typedef struct states {
    size_t len;
    uint8_t *at[STATES]; /* as in a set item, after its type and its index */
} states;

static states states_of(module_bytes saved)
{
    states s = {.len = number((const uint8_t *)saved.at + 2, 2)};
    const uint8_t *at = (const uint8_t *)saved.at + HEAD;
    for (size_t i = 0; i < s.len; i++) {
        size_t len = item_len(SET, at += ITEM);
        s.at[i] = exact_copy(at, len);
        at += len;
    }
    return s;
}

static void states_free(states *s)
{
    while (s->len > 0)
        free(s->at[--s->len]);
}

/* Whether the payload consists of its head and complete items of known types. */
static bool well_formed(module_bytes payload)
{
    const uint8_t *at = (const uint8_t *)payload.at, *end = at + payload.len;
    if (payload.len < HEAD || at[0] != 1 || at[1] > 1)
        return false;
    bool whole = at[1] == 0;
    size_t items = number(at + 2, 2), i = 0;
    for (at += HEAD; at < end; i++) {
        size_t left = (size_t)(end - at), fixed = at[0] == SET ? 8 : at[0] == PATCH ? 4 : 0;
        if (at[0] > DROP || left < ITEM + fixed || left < ITEM + item_len(at[0], at + ITEM) ||
            (whole && (at[0] != SET || number(at + 1, 2) != i)))
            return false;
        at += ITEM + item_len(at[0], at + ITEM);
    }
    return items == i && items > 0;
}

/* Checks that all states have different policies, and may grow to what one payload can hold. */
static void require_sound(const states *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->len; i++) {
        const uint8_t *at = s->at[i];
        size_t name_len = at[1], text_len = number(at + 2, 2);
        const char *text = (const char *)at + 8 + name_len;
        weir_policy p;
        if (weir_policy_parse(&p, text, text_len, NULL, NULL) == WEIR_OK) {
            size_t words = weir_state_words(&p, WEIR_LEVEL_MAX);
            bytes += 8 * (words < WORDS_MAX ? words : WORDS_MAX);
        }
        for (size_t k = 0; k < i; k++)
            CHECK(s->at[k][1] != name_len || memcmp(s->at[k] + 2, at + 2, 2) != 0 ||
                  memcmp(s->at[k] + 8, at + 8, name_len + text_len) != 0);
    }
    CHECK(bytes <= 64 << 20);
}

/* Applies an item of an accepted payload. Returns its length. */
static size_t apply(states *s, const uint8_t *item)
{
    unsigned type = item[0];
    size_t i = number(item + 1, 2), len = item_len(type, item + ITEM);
    const uint8_t *at = item + ITEM;
    CHECK(i < s->len + (type == SET));
    if (type == SET) {
        if (i == s->len)
            s->at[s->len++] = NULL;
        free(s->at[i]);
        s->at[i] = exact_copy(at, len);
    } else if (type == PATCH) {
        uint8_t *words = s->at[i] + item_len(SET, s->at[i]) - 8 * number(s->at[i] + 4, 4);
        for (size_t k = 0; k < number(at, 4); k++) {
            size_t word = number(at + 4 + 12 * k, 4);
            CHECK(word < number(s->at[i] + 4, 4));
            memcpy(words + 8 * word, at + 8 + 12 * k, 8);
        }
    } else {
        free(s->at[i]);
        memmove(&s->at[i], &s->at[i + 1], (--s->len - i) * sizeof s->at[0]);
    }
    return ITEM + len;
}

static void require_same(const states *want, module_bytes saved)
{
    CHECK((saved.len == 0) == (want->len == 0));
    if (saved.len == 0)
        return;
    states now = states_of(saved);
    CHECK(now.len == want->len);
    for (size_t i = 0; i < now.len; i++) {
        size_t len = item_len(SET, now.at[i]);
        CHECK(len == item_len(SET, want->at[i]) && memcmp(now.at[i], want->at[i], len) == 0);
    }
    states_free(&now);
}

/* A state may be replaced by itself. */
static void set_again(const states *s)
{
    static const uint8_t front[HEAD + ITEM] = {1, 1, 1, 0, SET};
    if (s->len == 0)
        return;
    size_t len = item_len(SET, s->at[0]);
    uint8_t *bytes = malloc(sizeof front + len);
    CHECK(bytes);
    memcpy(bytes, front, sizeof front);
    memcpy(bytes + sizeof front, s->at[0], len);
    module_bytes payload = {(const char *)bytes, sizeof front + len};
    CHECK(!run("WEIR.STATE", "k", "0", payload, NULL)->failed);
    free(bytes);
}

/* Sends a payload to the key, and checks what it changed. Returns whether it was accepted. */
static bool change(module_bytes payload)
{
    states s = {0};
    module_bytes before = module_server_saved("k");
    if (before.len > 0)
        s = states_of(before);
    bool accepted = !run("WEIR.STATE", "k", "0", payload, NULL)->failed;
    CHECK(!accepted || well_formed(payload));
    const uint8_t *at = (const uint8_t *)payload.at;
    size_t items = accepted ? number(at + 2, 2) : 0;
    if (accepted && at[1] == 0)
        states_free(&s);
    for (at += HEAD; items > 0; items--)
        at += apply(&s, at);
    require_sound(&s);
    if (accepted)
        set_again(&s);
    require_same(&s, module_server_saved("k"));
    states_free(&s);
    return accepted;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool open;
    const int64_t now_ns = 1767225600123456789;
    module_bytes payload = {data, size};
    if (!open)
        module_server_open();
    open = true;
    if (size > 1 << 16)
        return 0;
    module_server_set_time(now_ns);
    module_server_load(data, size);
    /* First for a key that does not exist, then as a change of one that does. */
    if (change(payload))
        decide(now_ns);
    module_server_flush();
    for (size_t i = 3; i < POLICIES; i++)
        run("WEIR.ASK", "TAKE", policies[i], text_of("k"), "5");
    if (change(payload))
        decide(now_ns);
    module_server_flush();
    return 0;
}
