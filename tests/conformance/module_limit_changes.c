/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the module in Redis with the model on keys whose limit changes
 * (reference/limit_changes.py): a daemon sends another text for the same key, or a named policy
 * gets another text. A fake replica must stay equal byte by byte. */

#include "module_server.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static module_bytes bytes_of(const char *text)
{
    return (module_bytes){text, strlen(text)};
}

static int64_t integer(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_integer(v) ? json_integer_value(v) : INT64_MAX;
}

/* A time in units of a reply, rounded up; -1: never. */
static int64_t time_of(const json_t *step, const char *name, int64_t unit_ns)
{
    int64_t ns = integer(step, name);
    return ns == INT64_MAX ? -1 : ns / unit_ns + (ns % unit_ns > 0);
}

static bool same(const json_t *step, const int64_t *v, int64_t unit_ns)
{
    return v[0] == json_is_true(json_object_get(step, "allowed")) &&
           v[1] == integer(step, "limit") && v[2] == integer(step, "remaining") &&
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

/* Takes as a daemon does; the layer follows the six numbers. */
static bool ask(const json_t *step, const char *text, const char *cost)
{
    const module_reply *r =
        run((const char *[]){"WEIR.ASK", "TAKE", text, "weir:{k}:api", cost}, 5);
    return r && !r->failed && same(step, r->integer + 1, 1000) &&
           r->integer[7] == integer(step, "layer");
}

/* Takes under a named policy, which gets the text first. */
static bool take(const json_t *step, const char *text, const char *cost)
{
    const module_reply *r = run((const char *[]){"WEIR.POLICY", "SET", "api", text}, 4);
    if (!r || r->failed)
        return false;
    r = run((const char *[]){"WEIR.TAKE", "api", "named", "COST", cost}, 5);
    return r && !r->failed && same(step, r->integer + 1, 1000000);
}

static size_t run_case(const json_t *c)
{
    size_t i;
    const json_t *step, *limits = json_object_get(c, "limits");
    json_array_foreach(json_object_get(c, "steps"), i, step)
    {
        const char *text =
            json_string_value(json_array_get(limits, (size_t)integer(step, "index")));
        char cost[24];
        snprintf(cost, sizeof cost, "%" PRId64, integer(step, "cost"));
        module_server_set_time(integer(step, "t_ns"));
        if (ask(step, text, cost) && take(step, text, cost))
            continue;
        char *expected = json_dumps(step, 0);
        fprintf(stderr, "%s, step %zu, %s: expected %s\n",
                json_string_value(json_object_get(c, "name")), i, text, expected);
        free(expected);
        return 0;
    }
    return i;
}

int main(int argc, char **argv)
{
    size_t i, steps = 0, failed = 0, cases = 0;
    json_t *root = json_load_file(argc == 2 ? argv[1] : "", 0, NULL), *c;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        module_server_open();
        size_t n = run_case(c);
        module_server_close();
        steps += n;
        failed += n == 0;
        cases++;
    }
    json_decref(root);
    printf("%zu steps compared\n%zu passed, %zu failed, 0 skipped\n", steps, cases - failed,
           failed);
    return failed > 0 || cases == 0;
}
