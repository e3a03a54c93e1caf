/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a key keeps when its limit changes, in a fake server with a replica: with other states in
 * the key, long states, and states that are not converted. */

#include "module_server.h"
#include "tests/kit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1767225600) * SECOND)

enum { WORDS = 14 };

static const module_reply *run(const char *const *words)
{
    module_bytes args[WORDS];
    size_t n = 0;
    for (; n < WORDS && words[n]; n++)
        args[n] = (module_bytes){words[n], strlen(words[n])};
    const module_reply *r = module_server_run(args, n);
    CHECK(r && !r->failed);
    return r;
}

static void set(const char *text)
{
    (void)run((const char *[WORDS]){"WEIR.POLICY", "SET", "api", text});
}

/* What remains after a take. */
static int64_t take(const char *key, const char *cost)
{
    return run((const char *[WORDS]){"WEIR.TAKE", "api", key, "COST", cost})->integer[3];
}

static int64_t left(const char *key)
{
    return run((const char *[WORDS]){"WEIR.PEEK", "api", key, "COST", "0"})->integer[3];
}

static int64_t ask(const char *verb, const char *text, const char *key, const char *n)
{
    return run((const char *[WORDS]){"WEIR.ASK", verb, text, key, n})->integer[3];
}

static void every_command_finds_it(void)
{
    set("fixed-window 10/w");
    CHECK(take("k", "4") == 6);
    module_bytes before = module_server_saved("k");
    size_t len = before.len;
    set("fixed-window 20/w");
    CHECK(left("k") == 16);
    CHECK(module_server_saved("k").len == len); /* a peek writes nothing */
    set("fixed-window 3/w");
    CHECK(take("k", "1") == 0); /* denied, and converted */
    set("fixed-window 12/w");
    CHECK(run((const char *[WORDS]){"WEIR.REFUND", "api", "k", "1"})->integer[3] == 9);
    set("fixed-window 30/w");
    CHECK(run((const char *[WORDS]){"WEIR.TAKEALL", "2", "api", "k", "2", "api", "l", "5"})
              ->integer[3] == 25);
    CHECK(left("k") == 25);
    set("fixed-window 31/w");
    (void)run((const char *[WORDS]){"WEIR.RESET", "api", "k"});
    CHECK(module_server_saved("k").len == 0);
    CHECK(left("k") == 31);
    CHECK(left("l") == 26);
}

/* A transaction that is denied leaves the former state as it was. */
static void a_denied_transaction_converts_nothing(void)
{
    set("fixed-window 10/w");
    CHECK(take("k", "4") == 6);
    set("fixed-window 20/w");
    CHECK(run((const char *[WORDS]){"WEIR.TAKEALL", "2", "api", "k", "2", "api", "l", "25"})
              ->integer[1] == 0);
    set("fixed-window 10/w");
    CHECK(left("k") == 6);
}

static void another_shape_begins_anew(void)
{
    set("fixed-window 10/w");
    CHECK(take("k", "4") == 6);
    set("fixed-window 10/d");
    CHECK(take("k", "1") == 9);
    set("gcra 10/w burst 10");
    CHECK(take("k", "2") == 8);
    set("fixed-window 20/w");
    CHECK(left("k") == 16); /* its state is still there, beside the others */
    set("fixed-window 20/d");
    CHECK(take("k", "1") == 18);
    set("gcra 20/w burst 20");
    CHECK(take("k", "1") == 17);
}

static void what_is_not_one_policy_is_not_converted(void)
{
    static const char small[] = "fixed-window 10/w", large[] = "fixed-window 20/w";
    static const char *const inline_keys[] = {
        "weir:{k}:", "weir:{k}:?0123456789abcdef", "k", "{a}", "weir:{k}", "a}b"};
    for (size_t i = 0; i < sizeof inline_keys / sizeof inline_keys[0]; i++) {
        CHECK(ask("TAKE", small, inline_keys[i], "4") == 6);
        CHECK(ask("TAKE", large, inline_keys[i], "1") == 19);
        CHECK(ask("PEEK", small, inline_keys[i], "0") == 6);
    }
    CHECK(ask("TAKE", small, "weir:{k}:api", "4") == 6);
    CHECK(ask("PEEK", large, "weir:{k}:api", "0") == 16);
    CHECK(ask("TAKE", small, "weir:{k}:api?0123456789abcdef", "4") == 6);
    CHECK(ask("PEEK", large, "weir:{k}:api?0123456789abcdef", "0") == 16);
    /* Clients with texts, also under the key of a daemon, and a named policy of the same key. */
    CHECK(run((const char *[WORDS]){"WEIR.TAKE", large, "weir:{k}:api"})->integer[3] == 19);
    set(small);
    CHECK(take("weir:{k}:api", "3") == 7);
    CHECK(ask("PEEK", "fixed-window 30/w", "weir:{k}:api", "0") == 29); /* of the latest text */
    set("fixed-window 40/w");
    CHECK(left("weir:{k}:api") == 37);
    (void)run((const char *[WORDS]){"WEIR.RESETALL", "api"});
    set("fixed-window 50/w");
    CHECK(left("weir:{k}:api") == 50);
}

/* A log of more than 64 words, which is replicated by its changes, beside another state. */
static void long_states(void)
{
    char text[64];
    set("sliding-log 200/w");
    (void)run((const char *[WORDS]){"WEIR.TAKE", "fixed-window 5/w", "k"});
    for (int i = 0; i < 150; i++) {
        module_server_set_time(NOW + i * SECOND);
        CHECK(take("k", "1") == 199 - i);
    }
    set("sliding-log 300/w");
    CHECK(left("k") == 150);
    CHECK(take("k", "1") == 149);
    set("sliding-log 160/w"); /* the ring is smaller than before */
    CHECK(take("k", "2") == 7);
    set("sliding-log 20/w");
    CHECK(take("k", "1") == 0);
    for (int i = 0; i < 3; i++) { /* and back */
        snprintf(text, sizeof text, "sliding-log %d/w", 400 + i);
        set(text);
        CHECK(take("k", "1") == 246); /* 153 units, and one more for each unit of the limit */
    }
    (void)run((const char *[WORDS]){"WEIR.RESET", "api", "k"});
    CHECK(left("k") == 402);
    CHECK(
        run((const char *[WORDS]){"WEIR.PEEK", "fixed-window 5/w", "k", "COST", "0"})->integer[3] ==
        4);
}

static void without_replication(void)
{
    module_server_replicate(false);
    every_command_finds_it();
    set("gcra 10/w burst 10");
    CHECK(take("g", "10") == 0);
    int64_t expiry_ms = module_server_expiry_ms("g");
    set("gcra 5/w burst 20");
    CHECK(take("g", "1") == 9);
    CHECK(module_server_expiry_ms("g") > expiry_ms);
    module_server_replicate(true);
    CHECK(left("g") == 9);
}

int main(void)
{
    static void (*const tests[])(void) = {
        every_command_finds_it,
        a_denied_transaction_converts_nothing,
        another_shape_begins_anew,
        what_is_not_one_policy_is_not_converted,
        long_states,
        without_replication,
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        module_server_open();
        module_server_set_time(NOW);
        tests[i]();
        module_server_close();
    }
    printf("%zu passed, 0 failed\n", sizeof tests / sizeof tests[0]);
    return 0;
}
