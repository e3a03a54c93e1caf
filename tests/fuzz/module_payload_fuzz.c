/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: serialised states, as they come from an RDB file, RESTORE, a master or an AOF.
 * A state that is refused changes nothing. A state that is accepted is saved unchanged, and every
 * command can decide on it. */

#include "fuzz.h"

#include "module_server.h"

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
    run("WEIR.STATE", "k", "0", payload, NULL);
    decide(now_ns);
    module_server_flush();
    for (size_t i = 3; i < POLICIES; i++)
        run("WEIR.ASK", "TAKE", policies[i], text_of("k"), "5");
    module_bytes before = module_server_saved("k");
    char *kept = malloc(before.len + 1);
    CHECK(kept);
    memcpy(kept, before.at, before.len);
    if (run("WEIR.STATE", "k", "0", payload, NULL)->failed) {
        module_bytes after = module_server_saved("k");
        CHECK(after.len == before.len && memcmp(kept, after.at, after.len) == 0);
    }
    free(kept);
    decide(now_ns);
    module_server_flush();
    return 0;
}
