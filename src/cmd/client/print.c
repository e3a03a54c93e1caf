/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each kind of reply is parsed into a struct, which validates it, and then printed. */

#include "cmd/client/print.h"

#include "cmd/client/connection.h"
#include "cmd/kit/out.h"
#include "core/check.h"
#include "core/decision.h"
#include "core/figures.h"
#include "port/assert.h"
#include "port/duration.h"
#include "port/text.h"
#include "service/rules/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 4096 }; /* bytes of a printed string, with the terminator */

/* ---- members of a map ------------------------------------------------------------------------ */

/* An integer or boolean member that a map must have. */
typedef struct member {
    const char *name;
    int64_t *ret;
    int64_t low, high;
} member;

/* Reads an integer or boolean member. Returns false if the map has none of this name. */
static bool read_number(const weir_resp_value *map, const char *name, int64_t *ret)
{
    const weir_resp_value *v = weir_resp_value_member(map, name);
    bool number = v && (v->type == WEIR_RESP_INTEGER || v->type == WEIR_RESP_BOOL);
    if (number)
        *ret = v->integer;
    return number;
}

static bool read_members(const weir_resp_value *map, const member *members, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const member *m = &members[i];
        if (!read_number(map, m->name, m->ret) || *m->ret < m->low || *m->ret > m->high)
            return false;
    }
    return true;
}

static const weir_resp_value *text_member(const weir_resp_value *map, const char *name)
{
    const weir_resp_value *v = weir_resp_value_member(map, name);
    return v && v->type == WEIR_RESP_BULK ? v : NULL;
}

static void print_text(const weir_resp_value *text)
{
    char shown[TEXT_MAX];
    weir_text_escape_to(shown, sizeof shown, text->text, text->len, WEIR_MASKED);
    fputs(shown, stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(out_stream *out, const char *text, size_t len)
{
    out_text(out, "\"");
    out_json(out, text, len);
    out_text(out, "\"");
}

static void put_integer(out_stream *out, int64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, n);
    out_text(out, digits);
}

/* Writes a value and everything inside it. Returns the value that follows it. */
static const weir_resp_value *put_value(out_stream *out, const weir_resp_value *v)
{
    bool map = v->type == WEIR_RESP_MAP;
    size_t held = map || v->type == WEIR_RESP_ARRAY ? v->len : 0;
    const weir_resp_value *next = v + 1;
    if (v->type == WEIR_RESP_INTEGER)
        put_integer(out, v->integer);
    else if (v->type == WEIR_RESP_BOOL)
        out_text(out, v->integer ? "true" : "false");
    else if (v->type == WEIR_RESP_NULL)
        out_text(out, "null");
    else if (!map && v->type != WEIR_RESP_ARRAY)
        put_string(out, v->text, v->len);
    else
        out_text(out, map ? "{" : "[");
    for (size_t i = 0; i < held; i++) {
        if (i > 0)
            out_text(out, map && i % 2 == 1 ? ":" : ",");
        next = put_value(out, next);
    }
    if (map || v->type == WEIR_RESP_ARRAY)
        out_text(out, map ? "}" : "]");
    return next;
}

static client_print_status flushed(out_stream *out)
{
    int error = out_flush(out);
    errno = error;
    return error == 0 ? CLIENT_PRINT_OK : CLIENT_PRINT_NOT_WRITTEN;
}

static out_stream *json_out(void)
{
    static out_stream out; /* 64 KiB are too much for a stack */
    out_init(&out, STDOUT_FILENO);
    return &out;
}

static client_print_status print_reply_json(const char *before, const weir_resp_reply *reply,
                                            const char *after)
{
    out_stream *out = json_out();
    out_text(out, before);
    put_value(out, reply->value);
    out_text(out, after);
    return flushed(out);
}

/* ---- decisions ------------------------------------------------------------------------------- */

typedef struct decision {
    int64_t f[WEIR_DECISION_FIELDS], layer;
    int64_t next_ms;               /* -1: never */
    bool has_next;                 /* older servers do not send it */
    int64_t over;                  /* of a reply that has_over() */
    const weir_resp_value *policy; /* NULL: the reply has none */
    const weir_resp_value *id;     /* of a reservation; NULL if it was denied */
    const weir_resp_value *map;
} decision;

static bool has_over(client_reply_kind kind)
{
    return kind == CLIENT_REPLY_CHARGE || kind == CLIENT_REPLY_SETTLE;
}

static bool has_policy(client_reply_kind kind)
{
    return kind != CLIENT_REPLY_RENEW && kind != CLIENT_REPLY_SETTLE;
}

static bool read_decision(client_reply_kind kind, const weir_resp_value *map, decision *ret)
{
    int64_t *f = ret->f;
    bool good = !has_over(kind) || (read_number(map, "over", &ret->over) && ret->over >= 0);
#define READ(id, kind, name)                                                                       \
    good = good && read_number(map, WEIR_FIELD_NAME_##kind(name, "ms"), &f[WEIR_FIELD_##id]) &&    \
           WEIR_FIELD_GOOD_##kind(f[WEIR_FIELD_##id], INT64_MAX);
    WEIR_DECISION_LIST(READ)
#undef READ
    ret->map = map;
    ret->next_ms = 0;
    ret->has_next = read_number(map, "next_ms", &ret->next_ms) && ret->next_ms >= -1;
    ret->policy = text_member(map, "policy");
    ret->id = text_member(map, "id");
    return good && (ret->policy || !has_policy(kind)) &&
           (kind != CLIENT_REPLY_RESERVE || (ret->id != NULL) == f[WEIR_FIELD_ALLOWED]) &&
           read_number(map, "layer", &ret->layer) && ret->layer >= 0;
}

#define PUT_FLAG(out, v) out_text(out, (v) ? "true" : "false")
#define PUT_COUNT        put_integer
#define PUT_WAIT         put_integer
#define PUT_SPAN         put_integer

static void put_member(out_stream *out, const char *name, int64_t n)
{
    out_text(out, ",\"");
    out_text(out, name);
    out_text(out, "\":");
    put_integer(out, n);
}

static void put_figures(out_stream *out, const decision *d)
{
    int64_t figure;
    for (size_t i = 0; i < WEIR_FIGURES_MAX; i++) {
        if (read_number(d->map, weir_figure_names[i], &figure))
            put_member(out, weir_figure_names[i], figure);
    }
}

/* Writes the same members in the same order as the daemon's HTTP reply. */
static client_print_status print_decision_json(client_reply_kind kind, const decision *d)
{
    out_stream *out = json_out();
    out_text(out, "{");
#define PUT(id, kind, name)                                                                        \
    out_text(out, "\"" WEIR_FIELD_NAME_##kind(name, "ms") "\":");                                  \
    PUT_##kind(out, d->f[WEIR_FIELD_##id]);                                                        \
    out_text(out, ",");
    WEIR_DECISION_LIST(PUT)
#undef PUT
    if (d->has_next) {
        out_text(out, "\"next_ms\":");
        put_integer(out, d->next_ms);
        out_text(out, ",");
    }
    out_text(out, "\"policy\":");
    put_string(out, d->policy->text, d->policy->len);
    put_member(out, "layer", d->layer);
    if (has_over(kind))
        put_member(out, "over", d->over);
    if (kind == CLIENT_REPLY_RESERVE && d->id) {
        out_text(out, ",\"id\":");
        put_string(out, d->id->text, d->id->len);
    }
    put_figures(out, d);
    out_text(out, "}\n");
    return flushed(out);
}

/* As print_decision_json(), of a reservation that was renewed or settled. */
static client_print_status print_end_json(client_reply_kind kind, const decision *d)
{
    out_stream *out = json_out();
    out_text(out, kind == CLIENT_REPLY_RENEW ? "{\"renewed\":true" : "{\"settled\":true");
    if (has_over(kind))
        put_member(out, "over", d->over);
    put_member(out, "limit", d->f[WEIR_FIELD_LIMIT]);
    put_member(out, "remaining", d->f[WEIR_FIELD_REMAINING]);
    put_member(out, "reset_after_ms", d->f[WEIR_FIELD_RESET_AFTER]);
    if (d->has_next)
        put_member(out, "next_ms", d->next_ms);
    put_member(out, "layer", d->layer);
    out_text(out, "}\n");
    return flushed(out);
}

_Static_assert(WEIR_DECISION_FIELDS == 6, "the text has each field of a decision");

/*  ms  from the reply: any number */
static void span_text(int64_t ms, char ret[static WEIR_DURATION_MAX])
{
    int64_t ns = ms < 0 ? 0 : ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX;
    weir_duration_print(ret, ns, WEIR_DURATION_READ);
}

static void print_state(const char *verdict, const decision *d)
{
    char span[WEIR_DURATION_MAX];
    const int64_t *f = d->f;
    printf("%-8s %" PRId64 " of %" PRId64 " remaining", verdict, f[WEIR_FIELD_REMAINING],
           f[WEIR_FIELD_LIMIT]);
    span_text(f[WEIR_FIELD_DELAY], span);
    if (f[WEIR_FIELD_DELAY] > 0)
        printf(", serve after %s", span);
    span_text(d->next_ms, span);
    if (d->has_next && d->next_ms > 0)
        printf(", next in %s", span);
    span_text(f[WEIR_FIELD_RESET_AFTER], span);
    if (f[WEIR_FIELD_RESET_AFTER] > 0)
        printf(", full again in %s\n", span);
    else
        puts(", full");
}

/* The units that a `keep` keeps of a limit. The server has accepted its text; NULL keeps none. */
static int64_t kept_of(const char *keep, int64_t limit)
{
    int64_t n = 0;
    if (keep)
        (void)weir_keep_read((weir_slice){keep, strlen(keep)}, &n);
    return weir_kept_of_limit(limit < WEIR_LIMIT_MAX ? limit : WEIR_LIMIT_MAX, n);
}

/* The limit of a decision is that of the layer that denies the request. So the wait is -1 for this
 * reason if the request never fits in the limit, else because of the deny list. */
static void print_denial(const decision *d, int64_t cost, const char *keep)
{
    char span[WEIR_DURATION_MAX];
    int64_t retry_ms = d->f[WEIR_FIELD_RETRY_AFTER], limit = d->f[WEIR_FIELD_LIMIT];
    span_text(retry_ms, span);
    if (retry_ms >= 0)
        printf("denied   retry in %s\n", span);
    else if (cost > limit)
        printf("denied   always: the cost of %" PRId64 " exceeds the limit of %" PRId64 "\n", cost,
               limit);
    else if (cost + kept_of(keep, limit) > limit)
        printf("denied   always: the cost of %" PRId64 ", and %s kept, exceed the limit of %" PRId64
               "\n",
               cost, keep, limit);
    else
        puts("denied   always: the key is on the policy's deny list");
}

/*  verdict  "charged" or "settled" */
static void print_charge(const char *verdict, const decision *d, int64_t cost)
{
    char paid[WEIR_DURATION_MAX], full[WEIR_DURATION_MAX];
    span_text(d->f[WEIR_FIELD_RETRY_AFTER], paid);
    span_text(d->f[WEIR_FIELD_RESET_AFTER], full);
    if (d->f[WEIR_FIELD_ALLOWED])
        print_state(verdict, d);
    else if (d->f[WEIR_FIELD_RETRY_AFTER] < 0)
        print_denial(d, cost, NULL);
    else
        printf("%s  in debt, paid off in %s, full again in %s\n", verdict, paid, full);
    if (d->over > 0)
        printf("%" PRId64 " units could not be counted: the debt is at its maximum\n", d->over);
}

/* The id is on a line of its own, the last one, so that a script can read it. */
static void print_reserved(const decision *d)
{
    print_state("reserved", d);
    print_text(d->id);
    putchar('\n');
}

static client_print_status print_decision(client_reply_kind kind, const weir_resp_reply *reply,
                                          int64_t cost, const char *keep, bool json)
{
    decision d;
    if (!read_decision(kind, reply->value, &d))
        return CLIENT_PRINT_UNEXPECTED;
    client_print_status st = CLIENT_PRINT_OK;
    bool asks = kind == CLIENT_REPLY_DECISION || kind == CLIENT_REPLY_RESERVE;
    if (json)
        st = has_policy(kind) ? print_decision_json(kind, &d) : print_end_json(kind, &d);
    else if (has_over(kind))
        print_charge(has_policy(kind) ? "charged" : "settled", &d, cost);
    else if (!asks)
        print_state(kind == CLIENT_REPLY_REFUND ? "refunded" : "renewed", &d);
    else if (!d.f[WEIR_FIELD_ALLOWED])
        print_denial(&d, cost, keep);
    else if (kind == CLIENT_REPLY_RESERVE)
        print_reserved(&d);
    else
        print_state("allowed", &d);
    return st == CLIENT_PRINT_OK && asks && !d.f[WEIR_FIELD_ALLOWED] ? CLIENT_PRINT_DENIED : st;
}

/* Whether a reply is the simple string `text`. */
static bool is_simple(const weir_resp_reply *reply, const char *text)
{
    const weir_resp_value *head = reply->value;
    return head->type == WEIR_RESP_SIMPLE && head->len == strlen(text) &&
           memcmp(head->text, text, head->len) == 0;
}

static client_print_status print_pong(const weir_resp_reply *reply)
{
    if (!is_simple(reply, "PONG"))
        return CLIENT_PRINT_UNEXPECTED;
    puts("PONG");
    return CLIENT_PRINT_OK;
}

static client_print_status print_reset(const weir_resp_reply *reply, const char *policy, bool json)
{
    if (!is_simple(reply, "OK"))
        return CLIENT_PRINT_UNEXPECTED;
    if (!json) {
        puts("reset");
        return CLIENT_PRINT_OK;
    }
    out_stream *out = json_out();
    out_text(out, "{\"reset\":true,\"policy\":");
    put_string(out, policy, strlen(policy));
    out_text(out, "}\n");
    return flushed(out);
}

static client_print_status print_lines(const weir_resp_reply *reply)
{
    const weir_resp_value *head = reply->value;
    if (head->type != WEIR_RESP_ARRAY || head->len + 1 != reply->values)
        return CLIENT_PRINT_UNEXPECTED;
    for (size_t i = 1; i < reply->values; i++) {
        if (head[i].type != WEIR_RESP_BULK)
            return CLIENT_PRINT_UNEXPECTED;
    }
    for (size_t i = 1; i < reply->values; i++) {
        print_text(&head[i]);
        putchar('\n');
    }
    return CLIENT_PRINT_OK;
}

/* ---- the top keys ---------------------------------------------------------------------------- */

typedef struct top_key {
    int64_t cost, error, requests, key_bytes;
    const weir_resp_value *key;
} top_key;

static bool read_top_key(const weir_resp_value *map, top_key *ret)
{
    const member members[] = {{"cost", &ret->cost, 0, INT64_MAX},
                              {"error", &ret->error, 0, INT64_MAX},
                              {"requests", &ret->requests, 0, INT64_MAX},
                              {"key_bytes", &ret->key_bytes, 0, INT64_MAX}};
    ret->key = text_member(map, "key");
    return ret->key && read_members(map, members, sizeof members / sizeof members[0]);
}

typedef struct top {
    int64_t cost, unlisted_max, sampling, half_life_ms, complete;
    const weir_resp_value *policy, *of, *keys;
} top;

static bool read_top(const weir_resp_value *map, top *ret)
{
    const member members[] = {{"cost", &ret->cost, 0, INT64_MAX},
                              {"unlisted_max", &ret->unlisted_max, 0, INT64_MAX},
                              {"sampling", &ret->sampling, 1, INT64_MAX},
                              {"half_life_ms", &ret->half_life_ms, 1, INT64_MAX},
                              {"complete", &ret->complete, 0, 1}};
    ret->policy = text_member(map, "policy");
    ret->of = text_member(map, "of");
    ret->keys = weir_resp_value_member(map, "keys");
    if (!ret->policy || !ret->of || !ret->keys || ret->keys->type != WEIR_RESP_ARRAY ||
        !read_members(map, members, sizeof members / sizeof members[0]))
        return false;
    const weir_resp_value *at = ret->keys + 1;
    top_key key;
    for (size_t i = 0; i < ret->keys->len; i++, at = weir_resp_value_next(at)) {
        if (!read_top_key(at, &key))
            return false;
    }
    return true;
}

static void print_top_keys(const top *t)
{
    top_key key = {0};
    const weir_resp_value *at = t->keys + 1;
    if (t->keys->len > 0)
        puts("       units    at least    requests  key");
    for (size_t i = 0; i < t->keys->len; i++, at = weir_resp_value_next(at)) {
        read_top_key(at, &key); /* succeeds again: see read_top() */
        printf("%12" PRId64 "%12" PRId64 "%12" PRId64 "  ", key.cost,
               key.cost > key.error ? key.cost - key.error : 0, key.requests);
        print_text(key.key);
        puts(key.key_bytes > (int64_t)key.key->len ? "..." : "");
    }
}

static client_print_status print_top(const weir_resp_reply *reply, bool json)
{
    top t;
    char span[WEIR_DURATION_MAX];
    if (!read_top(reply->value, &t))
        return CLIENT_PRINT_UNEXPECTED;
    if (json)
        return print_reply_json("", reply, "\n");
    print_text(t.of);
    fputs(" by ", stdout);
    print_text(t.policy);
    span_text(t.half_life_ms, span);
    printf(" recently: %" PRId64 " %s (half-life %s)\n", t.cost, t.cost == 1 ? "unit" : "units",
           span);
    print_top_keys(&t);
    if (t.unlisted_max > 0)
        printf("a key that is not listed has at most %" PRId64 " units\n", t.unlisted_max);
    if (t.sampling > 1)
        printf("estimated from a sample: one of every %" PRId64 " units was counted\n", t.sampling);
    if (!t.complete)
        puts("incomplete: some threads did not count this policy, because top.memory is full");
    return CLIENT_PRINT_OK;
}

/* ---- the policies ---------------------------------------------------------------------------- */

typedef struct rule {
    int64_t overrides, allow, deny, shadow;
    const weir_resp_value *name, *limit;
} rule;

static bool read_rule(const weir_resp_value *map, rule *ret)
{
    const member members[] = {{"overrides", &ret->overrides, 0, INT64_MAX},
                              {"allow", &ret->allow, 0, INT64_MAX},
                              {"deny", &ret->deny, 0, INT64_MAX},
                              {"shadow", &ret->shadow, 0, 1}};
    ret->name = text_member(map, "name");
    ret->limit = text_member(map, "limit");
    return ret->name && ret->limit &&
           read_members(map, members, sizeof members / sizeof members[0]);
}

static void print_rule(const rule *r, int name_cols)
{
    char name[TEXT_MAX];
    weir_text_escape_to(name, sizeof name, r->name->text, r->name->len, WEIR_MASKED);
    printf("%-*s  ", name_cols, name);
    print_text(r->limit);
    if (r->overrides > 0)
        printf("; overrides: %" PRId64, r->overrides);
    if (r->allow > 0)
        printf("; always allowed: %" PRId64, r->allow);
    if (r->deny > 0)
        printf("; always denied: %" PRId64, r->deny);
    puts(r->shadow ? "; shadow" : "");
}

static client_print_status print_policies(const weir_resp_reply *reply, bool json)
{
    rule r;
    const weir_resp_value *head = reply->value, *at = head + 1;
    size_t cols = 0;
    if (head->type != WEIR_RESP_ARRAY)
        return CLIENT_PRINT_UNEXPECTED;
    for (size_t i = 0; i < head->len; i++, at = weir_resp_value_next(at)) {
        if (!read_rule(at, &r))
            return CLIENT_PRINT_UNEXPECTED;
        cols = r.name->len > cols ? r.name->len : cols;
    }
    if (json)
        return print_reply_json("{\"policies\":", reply, "}\n");
    if (head->len == 0)
        puts("no named policies");
    at = head + 1;
    for (size_t i = 0; i < head->len; i++, at = weir_resp_value_next(at)) {
        read_rule(at, &r); /* succeeds again */
        print_rule(&r, (int)cols);
    }
    return CLIENT_PRINT_OK;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

client_print_status client_print(client_reply_kind kind, const weir_resp_reply *reply,
                                 const char *policy, int64_t cost, const char *keep, bool json)
{
    WEIR_ASSERT(reply->values >= 1);
    switch (kind) {
    case CLIENT_REPLY_DECISION:
    case CLIENT_REPLY_REFUND:
    case CLIENT_REPLY_CHARGE:
    case CLIENT_REPLY_RESERVE:
    case CLIENT_REPLY_RENEW:
    case CLIENT_REPLY_SETTLE:
        return print_decision(kind, reply, cost, keep, json);
    case CLIENT_REPLY_RESET:
        return print_reset(reply, policy, json);
    case CLIENT_REPLY_LINES:
        return print_lines(reply);
    case CLIENT_REPLY_TOP:
        return print_top(reply, json);
    case CLIENT_REPLY_POLICIES:
        return print_policies(reply, json);
    case CLIENT_REPLY_PONG:
        return print_pong(reply);
    }
    return CLIENT_PRINT_UNEXPECTED;
}
