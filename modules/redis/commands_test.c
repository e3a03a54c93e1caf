/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Errors and texts of the module's commands in a fake server, which checks that an error changes
 * nothing and that all memory is freed at the end; and that replication changes no state. */

#include "module_server.h"
#include "tests/kit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 14, POLICIES_MAX = 1024 };

#define LIMIT "gcra 1/h burst 5"
#define LONG  "0123456789012345678901234567890123456789012345678901234567890123456789"

static char long_key[65538];

typedef struct row {
    const char *words[WORDS];
    const char *error; /* NULL: no error */
} row;

static const module_reply *run(const char *const *words)
{
    module_bytes args[WORDS];
    size_t n = 0;
    for (; n < WORDS && words[n]; n++)
        args[n] = (module_bytes){words[n], strlen(words[n])};
    return module_server_run(args, n);
}

static void check_rows(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const module_reply *r = run(rows[i].words);
        if (r->failed != (rows[i].error != NULL) ||
            (rows[i].error && strcmp(r->error, rows[i].error) != 0)) {
            fprintf(stderr, "%s %s: expected %s, got %s\n", rows[i].words[0], rows[i].words[1],
                    rows[i].error ? rows[i].error : "no error", r->failed ? r->error : "none");
            abort();
        }
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(rows)[0])

static void keys_of_another_type(void)
{
    static const char wrong[] = "WRONGTYPE Operation against a key holding the wrong kind of value";
    static const row rows[] = {
        {{"WEIR.TAKE", LIMIT, "foreign"}, wrong},
        {{"WEIR.CHECK", LIMIT, "foreign"}, wrong},
        {{"WEIR.PEEK", LIMIT, "foreign"}, wrong},
        {{"WEIR.REFUND", LIMIT, "foreign", "1"}, wrong},
        {{"WEIR.CHARGE", LIMIT, "foreign"}, wrong},
        {{"WEIR.RESET", LIMIT, "foreign"}, wrong},
        {{"WEIR.EXPLAIN", LIMIT, "foreign"}, wrong},
        {{"CL.THROTTLE", "foreign", "1", "1", "1"}, wrong},
        {{"WEIR.ASK", "TAKE", LIMIT, "foreign", "1"}, wrong},
        {{"WEIR.TAKEALL", "2", LIMIT, "k", "1", LIMIT, "foreign", "1"}, wrong},
        {{"WEIR.ASKALL", "2", LIMIT, "foreign", "1", LIMIT, "k", "1"}, wrong},
        {{"WEIR.STATE", "foreign", "0", "x"}, wrong},
        {{"WEIR.PEEK", LIMIT, "k"}, NULL},
    };
    CHECK_ROWS(rows);
    CHECK(module_server_saved("k").len == 0);
}

static void keys_and_costs(void)
{
    static const char empty[] = "ERR the key has 0 bytes, expected 1 to 65536",
                      large[] = "ERR the key has 65537 bytes, expected 1 to 65536",
                      cost[] = "ERR the cost: expected a whole number from 0 to 2147483647";
    static const row rows[] = {
        {{"WEIR.TAKE", LIMIT, ""}, empty},
        {{"WEIR.TAKE", LIMIT, long_key}, large},
        {{"WEIR.EXPLAIN", LIMIT, ""}, empty},
        {{"WEIR.EXPLAIN", LIMIT, long_key}, large},
        {{"CL.THROTTLE", "", "1", "1", "1"}, empty},
        {{"CL.THROTTLE", long_key, "1", "1", "1"}, large},
        {{"WEIR.ASK", "TAKE", LIMIT, "", "1"}, empty},
        {{"WEIR.TAKEALL", "2", LIMIT, "k", "1", LIMIT, "", "1"},
         "ERR request 1: the key has 0 bytes, expected 1 to 65536"},
        {{"WEIR.TAKE", LIMIT, "k", "COST", "-1"}, cost},
        {{"WEIR.ASK", "TAKE", LIMIT, "k", "2147483648"}, cost},
        {{"WEIR.ASK", "TAKE", LIMIT, "k", "x"}, cost},
        {{"WEIR.ASKALL", "1", LIMIT, "k", "x"},
         "ERR request 0: the cost: expected a whole number from 0 to 2147483647"},
        {{"WEIR.ASK", "TOOK", LIMIT, "k", "1"},
         "ERR expected TAKE, PEEK, REFUND, CHARGE, GRANT or RESET, found 'TOOK'"},
        {{"WEIR.ASK", LONG, LIMIT, "k", "1"},
         "ERR expected TAKE, PEEK, REFUND, CHARGE, GRANT or RESET, found "
         "'0123456789012345678901234567890123456789012345678901234567890123'"},
    };
    CHECK_ROWS(rows);
    CHECK(module_server_saved("k").len == 0);
}

static void policies(void)
{
    static const char unit[] = "unknown unit 'x', expected one of ns us ms s m h d w",
                      none[] = "no policy 'none'; WEIR.POLICY LIST shows all policies",
                      refund[] = "leaky-queue and count-denied policies do not support refunds";
    char policy[128], plain[128], weir[128], second[128];
    snprintf(policy, sizeof policy, "ERR policy: column 8: %s", unit);
    snprintf(plain, sizeof plain, "ERR %s", none);
    snprintf(weir, sizeof weir, "ERR weir: %s", refund);
    snprintf(second, sizeof second, "ERR request 1: %s", none);
    const row rows[] = {
        {{"WEIR.TAKE", "gcra 1/x", "k"}, policy},
        {{"WEIR.EXPLAIN", "gcra 1/x", "k"}, policy},
        {{"WEIR.EXPLAIN", "none", "k"}, plain},
        {{"WEIR.TAKE", "none", "k"}, plain},
        {{"WEIR.TAKEALL", "2", LIMIT, "k", "1", "none", "k", "1"}, second},
        {{"WEIR.ASK", "TAKE", "gcra 1/x", "k", "1"}, policy},
        {{"WEIR.ASKALL", "2", LIMIT, "k", "1", "gcra 1/x", "k", "1"}, policy},
        {{"WEIR.ASK", "REFUND", "leaky-queue 1/h depth 3", "k", "1"}, weir},
        {{"WEIR.POLICY", "SET", "a b", LIMIT},
         "ERR byte 2 of a policy's name: expected a letter, a digit or one of - _ . : /"},
        {{"WEIR.POLICY", "SET", "a", "gcra 1/x"}, policy},
        {{"WEIR.POLICY", "GET", "a"}, NULL},
    };
    CHECK_ROWS(rows);
    CHECK(run((const char *[WORDS]){"WEIR.POLICY", "DEL", "a"})->integer[0] == 0);
    CHECK(module_server_saved("k").len == 0);
}

/* The commands of programs take texts alone, even if there is a policy of that name. */
static void names_are_no_texts(void)
{
    static const row set = {{"WEIR.POLICY", "SET", "api", LIMIT}, NULL};
    static const row all = {{"WEIR.ASKALL", "2", LIMIT, "k", "1", "api", "k", "1"}, NULL};
    char error[512];
    check_rows(&set, 1);
    const module_reply *r = run((const char *[WORDS]){"WEIR.ASK", "TAKE", "api", "k", "1"});
    CHECK(r->failed && strncmp(r->error, "ERR policy: column 1: ", 22) == 0);
    snprintf(error, sizeof error, "%s", r->error);
    r = run(all.words);
    CHECK(r->failed && strcmp(r->error, error) == 0);
    module_server_flush();
}

#define START_US INT64_C(1767225600000000)

/* The numbers behind the granted units: the wait for the next unit, and what a peek counts. */
static void figures(void)
{
    static const struct {
        const char *words[WORDS];
        size_t len;
        int64_t last[4];
    } rows[] = {
        {{"WEIR.ASK", "TAKE", "fixed-window 3/h", "f", "3", "FIGURES"},
         12,
         {3600000000, -1, -1, -1}},
        {{"WEIR.ASK", "PEEK", "fixed-window 3/h", "f", "1", "figures"},
         12,
         {3600000000, 3, -1, START_US}},
        {{"WEIR.ASK", "PEEK", "fixed-window 3/h", "f", "4", "FIGURES"},
         12,
         {3600000000, 3, -1, START_US}},
        {{"WEIR.ASK", "PEEK", "sliding-counter 3/h", "f", "1", "FIGURES"}, 12, {0, 0, 0, START_US}},
        {{"WEIR.ASK", "PEEK", "gcra 1/s", "f", "1", "FIGURES"}, 12, {0, -1, -1, -1}},
        {{"WEIR.ASK", "PEEK", "gcra 1/s", "f", "1+1", "FIGURES"}, 12, {-1, -1, -1, -1}},
        {{"WEIR.ASK", "CHARGE", "fixed-window 3/h", "f", "1", "FIGURES"},
         12,
         {3600000000, -1, -1, -1}},
        {{"WEIR.ASK", "PEEK", "fixed-window 3/h", "f", "1"}, 8, {0, 0, 0, 0}},
        {{"WEIR.ASKALL", "2", "fixed-window 3/h", "f", "1", "gcra 1/s", "f", "1", "FIGURES"},
         25,
         {0, -1, -1, -1}},
        {{"WEIR.ASKALL", "1", "gcra 1/s", "f", "1", "FIGURES"}, 13, {1000000, -1, -1, -1}},
        {{"WEIR.ASKALL", "1", "gcra 1/s", "f", "1"}, 9, {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const module_reply *r = run(rows[i].words);
        const int64_t *at = r->integer + rows[i].len - 3; /* behind the length */
        CHECK(!r->failed && r->integer[0] == (int64_t)rows[i].len);
        for (size_t k = 0; k < 4 && rows[i].len > 9; k++)
            CHECK(at[k] == rows[i].last[k]);
    }
    static const row wrong[] = {
        {{"WEIR.ASK", "TAKE", LIMIT, "FIGURES"}, "ERR wrong number of arguments"},
        {{"WEIR.ASK", "TAKE", LIMIT, "k", "1", "WITHNAMES"}, "ERR wrong number of arguments"},
        {{"WEIR.ASK", "TAKE", LIMIT, "k", "1", "FIGURES", "FIGURES"},
         "ERR wrong number of arguments"},
        {{"WEIR.ASKALL", "1", LIMIT, "k", "FIGURES"},
         "ERR request 0: the cost: expected a whole number from 0 to 2147483647"},
    };
    CHECK_ROWS(wrong);
    module_server_flush();
}

static void too_many_policies(void)
{
    char name[16];
    for (int i = 0; i < POLICIES_MAX; i++) {
        snprintf(name, sizeof name, "p%d", i);
        CHECK(!run((const char *[WORDS]){"WEIR.POLICY", "SET", name, LIMIT})->failed);
    }
    static const row rows[] = {
        {{"WEIR.POLICY", "SET", "more", LIMIT},
         "ERR there are 1024 policies, the maximum: delete one first"},
        {{"WEIR.POLICY", "SET", "p7", "gcra 2/s"}, NULL},
        {{"WEIR.POLICY", "DEL", "p9"}, NULL},
        {{"WEIR.POLICY", "SET", "more", LIMIT}, NULL},
    };
    CHECK_ROWS(rows);
    CHECK(run((const char *[WORDS]){"WEIR.POLICY", "LIST"})->integer[0] == POLICIES_MAX);
    module_server_flush();
}

/* A key with as many states as possible: the error says which request is one too many. */
static void a_full_key(void)
{
    static const row rows[] = {
        {{"WEIR.TAKEALL", "2", LIMIT, "x", "1", LIMIT, "k", "1"},
         "OOM request 1: the key has states under too many policies"},
        {{"WEIR.TAKE", LIMIT, "k"}, "OOM the key has states under too many policies"},
        {{"WEIR.REFUND", LIMIT, "k", "1"}, "OOM the key has states under too many policies"},
        {{"WEIR.EXPLAIN", LIMIT, "k"}, "OOM the key has states under too many policies"},
        {{"CL.THROTTLE", "k", "4", "1", "60"}, "OOM the key has states under too many policies"},
    };
    char text[32];
    for (int i = 1; i <= 48; i++) {
        snprintf(text, sizeof text, "gcra 1/d burst %d", i);
        CHECK(!run((const char *[WORDS]){"WEIR.TAKE", text, "k"})->failed);
    }
    CHECK_ROWS(rows);
    CHECK(module_server_saved("x").len == 0);
    module_server_flush();
}

/* ---- resets of all keys ---------------------------------------------------------------------- */

static void resets_of_all_keys(void)
{
    static const row rows[] = {
        {{"WEIR.RESETALL", "none"}, "ERR no policy 'none'; WEIR.POLICY LIST shows all policies"},
        {{"WEIR.RESETALL", "gcra 1/x"},
         "ERR policy: column 8: unknown unit 'x', expected one of ns us ms s m h d w"},
        {{"WEIR.RESETALL", "api", "k"}, "ERR wrong number of arguments"},
    };
    static const struct {
        const char *words[WORDS];
        int64_t remaining; /* -1: not a decision */
    } steps[] = {
        {{"WEIR.POLICY", "SET", "api", LIMIT}, -1},
        {{"WEIR.TAKE", "api", "k", "COST", "5"}, 0},
        {{"WEIR.TAKE", "api", "l", "COST", "2"}, 3},
        {{"WEIR.TAKE", LIMIT, "k", "COST", "4"}, 1},
        {{"WEIR.RESETALL", "api"}, -1},
        {{"WEIR.PEEK", "api", "k"}, 5},
        {{"WEIR.PEEK", LIMIT, "k"}, 1},
        {{"WEIR.TAKE", "api", "k", "COST", "1"}, 4},
        {{"WEIR.TAKE", "api", "k", "COST", "1"}, 3},
        {{"WEIR.PEEK", "api", "l"}, 5},
        {{"WEIR.RESETALL", LIMIT}, -1},
        {{"WEIR.PEEK", "api", "k"}, 3},
        {{"WEIR.PEEK", LIMIT, "k"}, 5},
        {{"WEIR.REFUND", LIMIT, "k", "3"}, 5},
        {{"WEIR.TAKEALL", "2", LIMIT, "k", "2", "api", "k", "1"}, 2},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const module_reply *r = run(steps[i].words);
        CHECK(!r->failed);
        CHECK(steps[i].remaining < 0 || r->integer[3] == steps[i].remaining);
    }
    CHECK(strcmp(run((const char *[WORDS]){"WEIR.EXPLAIN", "api", "l"})->text,
                 "policy   api|key      l|limit    gcra 1/h burst 5|state    5 of 5 free; full|"
                 "next     now|") == 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(run(rows[i].words)->failed);
    check_rows(rows, 2);
    module_server_flush();
}

/* The states of former generations are dropped by the next charge, so a key never fills up with
 * them. */
static void resets_again_and_again(void)
{
    CHECK(!run((const char *[WORDS]){"WEIR.POLICY", "SET", "api", LIMIT})->failed);
    CHECK(run((const char *[WORDS]){"WEIR.TAKE", "api", "k"})->integer[3] == 4);
    size_t once = module_server_saved("k").len;
    for (int i = 0; i < 100; i++) {
        CHECK(!run((const char *[WORDS]){"WEIR.RESETALL", "api"})->failed);
        CHECK(run((const char *[WORDS]){"WEIR.TAKE", "api", "k"})->integer[3] == 4);
        CHECK(module_server_saved("k").len <= once + 4); /* the digits of the generation */
    }
    module_server_flush();
}

/* ---- replies --------------------------------------------------------------------------------- */

#define API "name|api|limit|gcra 1/h burst 5|overrides|allow|deny|shadow|"

static void texts(void)
{
    static const struct {
        const char *words[WORDS];
        const char *text;
    } each[] = {
        {{"WEIR.POLICY", "SET", "api", LIMIT}, "OK|"},
        {{"WEIR.POLICY", "SET", "b", "fixed-window 7/1h & gcra 9/s"}, "OK|"},
        {{"WEIR.POLICY", "GET", "api"}, API},
        {{"WEIR.POLICY", "LIST"},
         API "name|b|limit|fixed-window 7/1h & gcra 9/s|overrides|allow|deny|shadow|"},
        {{"WEIR.EXPLAIN", "api", "k"},
         "policy   api|key      k|limit    gcra 1/h burst 5|state    5 of 5 free; full|"
         "next     now|"},
        {{"WEIR.TAKE", "api", "k", "COST", "5"}, ""},
        {{"WEIR.EXPLAIN", "api", "k"},
         "policy   api|key      k|limit    gcra 1/h burst 5|"
         "state    0 of 5 free; full again in 5 h|"
         "next     in 1 h, at 2026-01-01 01:00:00.000 UTC|"},
        {{"WEIR.EXPLAIN", "fixed-window 7/1h & gcra 9/s", "10.0.0.1"},
         "key      10.0.0.1|limit    fixed-window 7/h & gcra 9/s burst 1|"
         "state    1 of 1 free under gcra 9/s burst 1; full|next     now|"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const module_reply *r = run(each[i].words);
        if (r->failed || strcmp(r->text, each[i].text) != 0) {
            fprintf(stderr, "%s %s: expected %s, got %s\n", each[i].words[0], each[i].words[1],
                    each[i].text, r->failed ? r->error : r->text);
            abort();
        }
    }
    module_server_flush();
}

/* Which request of several a reply describes: of those denied the one with the longest wait, of
 * those allowed the one with the least quota left, and the first among equals. */
static void described_requests(void)
{
    static const struct {
        const char *words[WORDS];
        int64_t allowed, index, remaining;
    } each[] = {
        {{"WEIR.TAKEALL", "2", "gcra 1/h burst 5", "a", "1", "gcra 1/h burst 4", "b", "1"},
         1,
         1,
         3},
        {{"WEIR.TAKEALL", "2", "gcra 1/h burst 4", "b", "1", "gcra 1/h burst 5", "a", "1"},
         1,
         0,
         2},
        {{"WEIR.TAKEALL", "2", "gcra 1/h burst 9", "c", "1", "gcra 1/h burst 9", "d", "1"},
         1,
         0,
         8},
        {{"WEIR.TAKEALL", "3", "gcra 1/h burst 9", "e", "1", "gcra 1/h burst 4", "b", "3",
          "gcra 1/h burst 5", "a", "5"},
         0,
         2,
         3},
        {{"WEIR.TAKEALL", "3", "gcra 1/h burst 5", "a", "5", "gcra 1/h burst 4", "b", "3",
          "gcra 1/h burst 9", "e", "1"},
         0,
         0,
         3},
        {{"WEIR.TAKEALL", "3", "gcra 1/h burst 5", "a", "4", "gcra 1/h burst 4", "b", "3",
          "gcra 1/h burst 9", "e", "1"},
         0,
         0,
         3},
        {{"WEIR.TAKEALL", "3", "gcra 1/h burst 9", "e", "1", "gcra 1/h burst 4", "b", "3",
          "gcra 1/h burst 4", "b", "5"},
         0,
         2,
         2},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const module_reply *r = run(each[i].words);
        CHECK(!r->failed && r->integer[1] == each[i].allowed);
        CHECK(r->integer[7] == each[i].index && r->integer[3] == each[i].remaining);
    }
    module_server_flush();
}

static void states(void)
{
    static const row rows[] = {
        {{"WEIR.STATE", "k", "x", "x"}, "ERR expected a time in whole milliseconds, found 'x'"},
        {{"WEIR.STATE", "k", "-1", "x"}, "ERR expected a time in whole milliseconds, found '-1'"},
        {{"WEIR.STATE", "k", LONG, "x"},
         "ERR expected a time in whole milliseconds, found "
         "'0123456789012345678901234567890123456789012345678901234567890123'"},
        {{"WEIR.STATE", "k", "0", "x"}, "ERR weir: the payload is not a state: syntax error"},
    };
    CHECK_ROWS(rows);
    CHECK(module_server_saved("k").len == 0);
}

/* The state and the expiry of a key are the same whether changes are replicated or not. A refund
 * that fills the quota deletes the key. */
static void with_and_without_replication(void)
{
    enum { STEPS = 6 };
    static const char *const steps[STEPS][WORDS] = {
        {"WEIR.TAKE", LIMIT, "k", "COST", "1"}, {"WEIR.TAKE", LIMIT, "k", "COST", "2"},
        {"WEIR.REFUND", LIMIT, "k", "1"},       {"WEIR.TAKE", "fixed-window 9/d", "w"},
        {"WEIR.TAKE", "sliding-log 9/d", "l"},  {"WEIR.REFUND", LIMIT, "k", "2"},
    };
    static struct {
        uint8_t bytes[256];
        size_t len;
        int64_t expiry_ms;
    } seen[STEPS];
    for (int replicates = 1; replicates >= 0; replicates--) {
        module_server_replicate(replicates);
        for (size_t i = 0; i < STEPS; i++) {
            CHECK(!run(steps[i])->failed);
            module_bytes saved = module_server_saved(steps[i][2]);
            int64_t expiry_ms = module_server_expiry_ms(steps[i][2]);
            CHECK(saved.len <= sizeof seen[i].bytes && (saved.len > 0) == (i < STEPS - 1));
            if (replicates) {
                seen[i].len = saved.len;
                seen[i].expiry_ms = expiry_ms;
                if (saved.len > 0)
                    memcpy(seen[i].bytes, saved.at, saved.len);
            }
            CHECK(saved.len == seen[i].len && expiry_ms == seen[i].expiry_ms);
            CHECK(saved.len == 0 || memcmp(saved.at, seen[i].bytes, saved.len) == 0);
        }
        module_server_flush();
    }
    module_server_replicate(true);
}

int main(void)
{
    memset(long_key, 'k', sizeof long_key - 1);
    module_server_open();
    module_server_set_time(START_US * 1000);
    keys_of_another_type();
    keys_and_costs();
    policies();
    names_are_no_texts();
    a_full_key();
    resets_of_all_keys();
    resets_again_and_again();
    states();
    texts();
    described_requests();
    figures();
    too_many_policies();
    with_and_without_replication();
    module_server_close();
    printf("12 passed, 0 failed\n");
    return 0;
}
