/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads the vectors, runs them through an adapter, and compares the decisions. */

#include "vectors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MIN = 50 }; /* of a file */

typedef struct tally {
    size_t passed, failed, unsupported, steps;
} tally;

static const struct {
    const char *name;
    weir_status refused;
} operations[] = {
    [TAKE] = {"take", WEIR_OK},
    [REFUND] = {"refund", WEIR_E_UNSUPPORTED},
    [CHARGE] = {"charge", WEIR_E_UNSUPPORTED},
    [RESERVE] = {"reserve", WEIR_E_UNSUPPORTED},
    [RENEW] = {"renew", WEIR_E_ABSENT},
    [COMMIT] = {"commit", WEIR_E_ABSENT},
    [CANCEL] = {"cancel", WEIR_E_ABSENT},
};

static operation operation_of(const json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "op"));
    for (operation op = TAKE; name && op <= CANCEL; op++) {
        if (strcmp(name, operations[op].name) == 0)
            return op;
    }
    fprintf(stderr, "a step has the unknown operation \"%s\"\n", name ? name : "");
    exit(2);
}

static int64_t integer(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_integer(v)) {
        fprintf(stderr, "a step has no integer \"%s\"\n", name);
        exit(2);
    }
    return json_integer_value(v);
}

static bool truth(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_boolean(v)) {
        fprintf(stderr, "a step has no boolean \"%s\"\n", name);
        exit(2);
    }
    return json_is_true(v);
}

static void read_keep(const json_t *v, char *ret, size_t size)
{
    if (json_is_integer(v))
        snprintf(ret, size, "%" PRId64, (int64_t)json_integer_value(v));
    else if (v)
        snprintf(ret, size, "%s", json_string_value(v));
}

static step read_step(const json_t *o)
{
    step s = {0};
    read_keep(json_object_get(o, "keep"), s.keep, sizeof s.keep);
    s.op = operation_of(o);
    s.t_ns = integer(o, "t_ns");
    s.cost = integer(o, "cost");
    s.id = s.op >= RESERVE ? integer(o, "id") : 0;
    s.ttl_ns = json_object_get(o, "ttl_ns") ? integer(o, "ttl_ns") : 0;
    if (s.id < 0 || s.id >= RESERVATIONS_MAX) {
        fprintf(stderr, "a step has the \"id\" %" PRId64 "\n", s.id);
        exit(2);
    }
    s.refused = s.op == TAKE || truth(o, "ok") ? WEIR_OK : operations[s.op].refused;
    if (s.refused)
        return s;
    s.over = has_over(&s) ? integer(o, "over") : 0;
    s.want.allowed = s.op == REFUND || truth(o, "allowed");
    s.want.limit = integer(o, "limit");
    s.want.remaining = integer(o, "remaining");
    s.want.never = json_is_null(json_object_get(o, "retry_after_ns"));
    s.want.retry_after_ns = s.want.never ? INT64_MAX : integer(o, "retry_after_ns");
    s.want.reset_after_ns = integer(o, "reset_after_ns");
    s.want.delay_ns = integer(o, "delay_ns");
    s.want.layer = (uint32_t)integer(o, "layer");
    return s;
}

static void print_decision(const char *label, const weir_decision *d)
{
    fprintf(stderr,
            "    %s: allowed %d limit %" PRId64 " remaining %" PRId64 " retry_after_ns %" PRId64
            "%s reset_after_ns %" PRId64 " delay_ns %" PRId64 " layer %u\n",
            label, d->allowed, d->limit, d->remaining, d->retry_after_ns,
            d->never ? " (never)" : "", d->reset_after_ns, d->delay_ns, d->layer);
}

static bool equal(const weir_decision *a, const weir_decision *b)
{
    return a->allowed == b->allowed && a->limit == b->limit && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->never == b->never &&
           a->reset_after_ns == b->reset_after_ns && a->delay_ns == b->delay_ns &&
           a->layer == b->layer;
}

static bool run_step(const adapter *d, const step *s)
{
    weir_decision got = {0}, want = s->want;
    int64_t over = 0;
    weir_status st = d->decide(d->ctx, s, &got, &over);
    if (st != s->refused)
        fprintf(stderr, "    status: %s\n", weir_status_str(st));
    if (st != WEIR_OK || s->refused)
        return st == s->refused;
    if (s->op == REFUND) /* a refund has no verdict */
        got.allowed = want.allowed;
    if (d->round) {
        d->round(&got);
        d->round(&want);
    }
    if (equal(&got, &want) && over == s->over)
        return true;
    if (has_over(s))
        fprintf(stderr, "    want: over %" PRId64 ", got: %" PRId64 "\n", s->over, over);
    print_decision("want", &want);
    print_decision("got ", &got);
    return false;
}

static bool has_reservations(const json_t *steps)
{
    size_t i;
    const json_t *o;
    json_array_foreach(steps, i, o)
    {
        if (operation_of(o) >= RESERVE)
            return true;
    }
    return false;
}

static void run_case(const adapter *d, const char *path, const json_t *c, tally *t)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *policy = json_string_value(json_object_get(c, "policy"));
    const json_t *steps = json_object_get(c, "steps"), *o;
    size_t i;
    if (!d->reserves && has_reservations(steps)) {
        t->unsupported++;
        return;
    }
    bool good = d->begin(d->ctx, policy) && json_array_size(steps) > 0;
    json_array_foreach(steps, i, o)
    {
        step s = read_step(o);
        good = good && run_step(d, &s);
        if (!good) {
            fprintf(stderr,
                    "%s: case %s (%s), step %zu: %s t_ns %" PRId64 " cost %" PRId64
                    " keep %s id %" PRId64 " ttl_ns %" PRId64 "\n",
                    path, name, policy, i, operations[s.op].name, s.t_ns, s.cost, s.keep, s.id,
                    s.ttl_ns);
            break;
        }
        t->steps++;
    }
    if (d->end)
        d->end(d->ctx);
    t->passed += good;
    t->failed += !good;
}

static void run_file(const adapter *d, const char *path, tally *total)
{
    json_error_t e;
    json_t *doc = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    const json_t *cases = json_object_get(doc, "cases"), *c;
    if (!json_is_array(cases)) {
        fprintf(stderr, "%s:%d: %s\n", path, e.line, doc ? "no \"cases\"" : e.text);
        exit(2);
    }
    tally t = {0};
    size_t i;
    json_array_foreach(cases, i, c) run_case(d, path, c, &t);
    printf("%-8s %5zu cases, %6zu steps, %4zu unsupported  %s\n", d->name, t.passed + t.failed,
           t.steps, t.unsupported, path);
    if (t.passed + t.failed + t.unsupported < CASES_MIN) {
        fprintf(stderr, "%s: too few cases, expected %d or more\n", path, CASES_MIN);
        t.failed++;
    }
    total->passed += t.passed;
    total->failed += t.failed;
    json_decref(doc);
}

int vectors_run(const adapter *d, int files, char **paths)
{
    tally total = {0};
    for (int i = 0; i < files; i++)
        run_file(d, paths[i], &total);
    printf("%zu cases, %zu failed\n", total.passed + total.failed, total.failed);
    return total.failed > 0 || total.passed == 0;
}
