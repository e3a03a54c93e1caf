/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the module in Redis with the model on keys whose limit changes
 * (reference/limit_changes.py): a daemon sends another text for the same key, or a named policy
 * gets another text. A fake replica must stay equal byte by byte. */

#include "limit_changes.h"
#include "module_server.h"

static module_bytes bytes_of(const char *text)
{
    return (module_bytes){text, strlen(text)};
}

/* A time in units of a reply, rounded up; -1: never. */
static int64_t time_of(const json_t *step, const char *name, int64_t unit_ns)
{
    int64_t ns = changes_integer(step, name);
    return ns == INT64_MAX ? -1 : ns / unit_ns + (ns % unit_ns > 0);
}

static bool same(const json_t *step, const int64_t *v, int64_t unit_ns)
{
    return v[0] == json_is_true(json_object_get(step, "allowed")) &&
           v[1] == changes_integer(step, "limit") && v[2] == changes_integer(step, "remaining") &&
           v[3] == time_of(step, "retry_after_ns", unit_ns) &&
           v[4] == time_of(step, "reset_after_ns", unit_ns) &&
           v[5] == time_of(step, "delay_ns", unit_ns);
}

static const module_reply *run(const char *const *words, size_t n)
{
    module_bytes args[8];
    for (size_t i = 0; i < n; i++)
        args[i] = bytes_of(words[i]);
    return module_server_run(args, n);
}

/* Asks as a daemon does; the layer follows the six numbers. */
static bool ask(const json_t *step, const char *text, const char *cost)
{
    const char *verb = changes_is_refund(step) ? "REFUND" : "TAKE";
    const module_reply *r = run((const char *[]){"WEIR.ASK", verb, text, "weir:{k}:api", cost}, 5);
    return r && !r->failed && same(step, r->integer + 1, 1000) &&
           r->integer[7] == changes_integer(step, "layer");
}

/* Asks under a named policy, which gets the text first. */
static bool ask_by_name(const json_t *step, const char *text, const char *cost)
{
    const module_reply *r = run((const char *[]){"WEIR.POLICY", "SET", "api", text}, 4);
    if (!r || r->failed)
        return false;
    if (changes_is_refund(step))
        r = run((const char *[]){"WEIR.REFUND", "api", "named", cost}, 4);
    else
        r = run((const char *[]){"WEIR.TAKE", "api", "named", "COST", cost}, 5);
    return r && !r->failed && same(step, r->integer + 1, 1000000);
}

static void begin(const json_t *c)
{
    (void)c;
    module_server_open();
}

static bool step(const json_t *step, const char *text)
{
    char cost[24];
    snprintf(cost, sizeof cost, "%" PRId64, changes_integer(step, "cost"));
    module_server_set_time(changes_integer(step, "t_ns"));
    return ask(step, text, cost) && ask_by_name(step, text, cost);
}

int main(int argc, char **argv)
{
    return changes_main(argc, argv, &(changes_player){begin, step, module_server_close});
}
