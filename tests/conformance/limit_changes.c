/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the store with the model on keys whose limit changes (reference/limit_changes.py). */

#include "limit_changes.h"

#include "store/iterate.h"
#include "store/store.h"

enum { LIMITS_MAX = 8 };

typedef struct limit {
    weir_policy policy;
    uint64_t id;
} limit;

static weir_store *store; /* one for each case: their times go back */
static limit limits[LIMITS_MAX];

static bool same(const json_t *o, const weir_decision *d)
{
    return json_is_true(json_object_get(o, "allowed")) == d->allowed &&
           changes_integer(o, "limit") == d->limit &&
           changes_integer(o, "remaining") == d->remaining &&
           changes_integer(o, "retry_after_ns") == d->retry_after_ns &&
           changes_integer(o, "reset_after_ns") == d->reset_after_ns &&
           changes_integer(o, "delay_ns") == d->delay_ns && changes_integer(o, "layer") == d->layer;
}

static void note(const char *name, const char *text, limit *ret)
{
    weir_policy_error e;
    if (weir_policy_parse(&ret->policy, text, strlen(text), NULL, &e) != WEIR_OK)
        changes_stop(text, e.text);
    ret->id = weir_store_named_id(store, &ret->policy, name, strlen(name));
    if (weir_store_note_limit(store, ret->id, &ret->policy, name, strlen(name)) != WEIR_OK)
        changes_stop(text, "no memory");
}

static void begin(const json_t *c)
{
    size_t i;
    const json_t *text;
    if (weir_store_open(&store, &(weir_store_options){.memory_bytes = (size_t)4 << 20}) != WEIR_OK)
        changes_stop("no store", "");
    weir_table_keep_until(store->common.table, INT64_MAX);
    json_array_foreach(json_object_get(c, "limits"), i, text)
        note(json_string_value(json_object_get(c, "name")), json_string_value(text), &limits[i]);
}

static bool step(const json_t *step, const char *text)
{
    const limit *l = &limits[changes_integer(step, "index")];
    int64_t now_ns = changes_integer(step, "t_ns"), cost = changes_integer(step, "cost");
    weir_decision d;
    weir_status st = (changes_is_refund(step) ? weir_store_refund : weir_store_check)(
        store, &l->policy, l->id, "key", 3, now_ns, cost, &d);
    if (st == WEIR_OK && same(step, &d))
        return true;
    fprintf(stderr,
            "%s: %s, allowed %d, remaining %" PRId64 ", retry %" PRId64 ", reset %" PRId64 "\n",
            text, weir_status_str(st), d.allowed, d.remaining, d.retry_after_ns, d.reset_after_ns);
    return false;
}

static void end(void)
{
    weir_store_close(store);
}

int main(int argc, char **argv)
{
    return changes_main(argc, argv, &(changes_player){begin, step, end});
}
