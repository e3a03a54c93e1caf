/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the store with the model on keys whose limit changes (reference/limit_changes.py). */

#include "store/iterate.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMITS_MAX = 8 };

typedef struct limit {
    weir_policy policy;
    uint64_t id;
} limit;

static _Noreturn void stop(const char *what, const char *of)
{
    fprintf(stderr, "limit_changes: %s: %s\n", what, of);
    exit(2);
}

static int64_t integer(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_integer(v) && !json_is_null(v))
        stop("a step has no integer", name);
    return json_is_null(v) ? INT64_MAX : json_integer_value(v);
}

static bool same(const json_t *o, const weir_decision *d)
{
    return json_is_true(json_object_get(o, "allowed")) == d->allowed &&
           integer(o, "limit") == d->limit && integer(o, "remaining") == d->remaining &&
           integer(o, "retry_after_ns") == d->retry_after_ns &&
           integer(o, "reset_after_ns") == d->reset_after_ns &&
           integer(o, "delay_ns") == d->delay_ns && integer(o, "layer") == d->layer;
}

static void note(weir_store *s, const char *name, const char *text, limit *ret)
{
    weir_policy_error e;
    if (weir_policy_parse(&ret->policy, text, strlen(text), NULL, &e) != WEIR_OK)
        stop(text, e.text);
    ret->id = weir_store_named_id(s, &ret->policy, name, strlen(name));
    if (weir_store_note_limit(s, ret->id, &ret->policy, name, strlen(name)) != WEIR_OK)
        stop(text, "no memory");
}

/* Returns the number of steps; 0 if one differs. */
static size_t run(weir_store *s, const json_t *c)
{
    limit limits[LIMITS_MAX];
    size_t i;
    const json_t *v;
    const char *name = json_string_value(json_object_get(c, "name"));
    json_array_foreach(json_object_get(c, "limits"), i, v)
        note(s, name, json_string_value(v), &limits[i]);
    json_array_foreach(json_object_get(c, "steps"), i, v)
    {
        const limit *l = &limits[integer(v, "index")];
        weir_decision d;
        if (weir_store_check(s, &l->policy, l->id, "key", 3, integer(v, "t_ns"), integer(v, "cost"),
                             &d) == WEIR_OK &&
            same(v, &d))
            continue;
        char *expected = json_dumps(v, 0), text[WEIR_POLICY_TEXT_MAX];
        weir_policy_print(&l->policy, text, sizeof text);
        fprintf(stderr,
                "%s, step %zu, %s: expected %s, found allowed %d, remaining %" PRId64
                ", retry %" PRId64 ", reset %" PRId64 "\n",
                name, i, text, expected, d.allowed, d.remaining, d.retry_after_ns,
                d.reset_after_ns);
        free(expected);
        return 0;
    }
    return i;
}

int main(int argc, char **argv)
{
    size_t i, steps = 0, failed = 0, cases = 0;
    json_t *root = json_load_file(argc == 2 ? argv[1] : "", 0, NULL), *c;
    if (!root)
        stop("expected a file of cases", argc == 2 ? argv[1] : "");
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        weir_store *s; /* one for each case: their times go back */
        if (weir_store_open(&s, &(weir_store_options){.memory_bytes = (size_t)4 << 20}) != WEIR_OK)
            stop("no store", "");
        weir_table_keep_until(s->common.table, INT64_MAX);
        size_t n = run(s, c);
        steps += n;
        failed += n == 0;
        cases++;
        weir_store_close(s);
    }
    json_decref(root);
    printf("%zu steps compared\n%zu passed, %zu failed, 0 skipped\n", steps, cases - failed,
           failed);
    return failed > 0 || cases == 0;
}
