/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The functions of the backend: replies, decisions on one key, and named policies. */

#include "module.h"

#include "core/algorithm.h"
#include "core/decision.h"
#include "port/assert.h"
#include "service/explain_text.h"

#include <stdio.h>
#include <string.h>

static redis_ctx *ctx_of(weir_call *c)
{
    return ((weir_module_call *)c)->ctx;
}

weir_module_call weir_module_call_make(redis_ctx *ctx, redis_string **argv, int argc, int key,
                                       weir_slice arg[WEIR_MODULE_ARGS_MAX])
{
    arg[0] = (weir_slice){0};
    for (int i = 1; i < argc && i < WEIR_MODULE_ARGS_MAX; i++)
        arg[i].at = redis.StringPtrLen(argv[i], &arg[i].len);
    return (weir_module_call){
        .call = {.backend = &weir_module_backend, .arg = arg, .args = (size_t)argc},
        .ctx = ctx,
        .argv = argv,
        .key = key > 0 && key < argc ? argv[key] : NULL,
    };
}

/* ---- replies --------------------------------------------------------------------------------- */

/* A client that speaks RESP2, and a server before Redis 7.0, have no maps. */
static bool has_maps(weir_call *c)
{
    return redis.ReplyWithMap && redis.ReplyWithBool &&
           (redis.GetContextFlags(ctx_of(c)) & REDIS_CONTEXT_RESP3);
}

static void put_array(weir_call *c, size_t n)
{
    redis.ReplyWithArray(ctx_of(c), (long)n);
}

static void put_map(weir_call *c, size_t pairs)
{
    if (has_maps(c))
        redis.ReplyWithMap(ctx_of(c), (long)pairs);
    else
        redis.ReplyWithArray(ctx_of(c), 2 * (long)pairs);
}

static void put_integers(weir_call *c, const int64_t *v, size_t n, size_t more)
{
    redis_ctx *ctx = ctx_of(c);
    redis.ReplyWithArray(ctx, (long)(n + more));
    for (size_t i = 0; i < n; i++)
        redis.ReplyWithLongLong(ctx, v[i]);
}

static void put_integer(weir_call *c, int64_t v)
{
    redis.ReplyWithLongLong(ctx_of(c), v);
}

static void put_bulk(weir_call *c, const void *bytes, size_t len)
{
    redis.ReplyWithStringBuffer(ctx_of(c), bytes, len);
}

static void put_simple(weir_call *c, const char *text)
{
    redis.ReplyWithSimpleString(ctx_of(c), text);
}

/* Control bytes become spaces, since an error is one line. */
static void put_error(weir_call *c, const char *text, size_t len)
{
    char line[512];
    size_t n = len < sizeof line ? len : sizeof line - 1;
    for (size_t i = 0; i < n; i++)
        line[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    line[n] = '\0';
    redis.ReplyWithError(ctx_of(c), line);
}

static void put_bool(weir_call *c, bool v)
{
    if (has_maps(c))
        redis.ReplyWithBool(ctx_of(c), v);
    else
        put_integer(c, v);
}

/* Whether PREFIX{KEY}:NAME has a name. It does not in PREFIX{KEY}: and PREFIX{KEY}:?TOKEN, which
 * hold the states of inline policies. */
static bool has_policy_name(redis_string *key)
{
    size_t len;
    const char *at = redis.StringPtrLen(key, &len);
    for (size_t i = len; i-- > 1;) {
        if (at[i - 1] == '}' && at[i] == ':')
            return i + 1 < len && at[i + 1] != '?';
    }
    return false;
}

bool weir_module_open_key(weir_module_call *c, weir_open_key *k, redis_string *name, int mode)
{
    if (weir_key_open(k, c->ctx, name, mode)) {
        k->of_one_policy = c->of_daemon && k->exists && has_policy_name(name);
        return true;
    }
    redis.ReplyWithError(c->ctx,
                         "WRONGTYPE Operation against a key holding the wrong kind of value");
    return false;
}

/* ---- decisions on one key -------------------------------------------------------------------- */

/* Does the same as weir_request_intern(), but without a reference. */
static weir_status find_policy(weir_request *r, weir_interned **ret)
{
    weir_status st = r->by_text ? weir_intern_text(r->rule.at, r->rule.len, ret, &r->error)
                                : weir_intern_name(r->rule.at, r->rule.len, ret);
    if (st != WEIR_OK)
        return st;
    return r->key.len >= 1 && r->key.len <= WEIR_KEY_MAX ? WEIR_OK : WEIR_E_RANGE;
}

weir_status weir_request_intern(weir_request *r, weir_interned **ret)
{
    weir_status st = find_policy(r, ret);
    if (st == WEIR_OK)
        weir_interned_ref(*ret);
    return st;
}

/* The keyspace event of a change; NULL for verbs that change nothing. */
static const char *event_of(weir_verb verb)
{
    switch (verb) {
    case WEIR_VERB_TAKE:
    case WEIR_VERB_GRANT:
        return "weir.take";
    case WEIR_VERB_REFUND:
        return "weir.refund";
    case WEIR_VERB_CHARGE:
        return "weir.charge";
    case WEIR_VERB_RESET:
        return "weir.reset";
    case WEIR_VERB_PEEK:
    case WEIR_VERB_THROTTLE:
    case WEIR_VERB_RESET_ALL:
        break;
    }
    return NULL;
}

/* Decides under a policy, as weir_module_decide() does. */
static bool decide_under(weir_interned *s, weir_module_call *c, weir_verb verb, weir_request *r,
                         int64_t *ret_granted)
{
    weir_open_key key;
    weir_cell cell;
    const char *event = event_of(verb);
    if (!weir_module_open_key(c, &key, c->key, event ? REDIS_READ | REDIS_WRITE : REDIS_READ))
        return false;
    weir_moment at = weir_moment_now();
    weir_status st = weir_cell_open(&cell, &key, s, at.now_ns);
    if (st == WEIR_OK)
        st = weir_cell_decide(&cell, verb, at.now_ns, r->cost, r->keep, &r->decision, ret_granted);
    if (st == WEIR_OK && event)
        weir_cells_write(c->ctx, &cell, 1, at, event);
    if (st == WEIR_OK && c->call.with_names)
        r->next_ns = weir_cell_next(&cell, at.now_ns, r->keep, &r->decision);
    if (st == WEIR_OK && c->call.with_names && verb == WEIR_VERB_PEEK)
        (void)weir_figures_of(&s->policy, cell.state, cell.level, at.now_ns, r->decision.layer,
                              &r->figures);
    weir_cell_close(&cell);
    weir_key_close(&key);
    r->status = st;
    if (st == WEIR_E_UNSUPPORTED && verb == WEIR_VERB_CHARGE)
        r->why = WEIR_NO_CHARGES;
    r->policy = &s->policy; /* valid until the next policy is interned */
    return true;
}

bool weir_module_decide(weir_module_call *c, weir_verb verb, weir_request *r, int64_t *ret_granted)
{
    weir_interned *s;
    WEIR_ASSERT(c->key && verb != WEIR_VERB_THROTTLE);
    r->status = find_policy(r, &s);
    if (r->status != WEIR_OK)
        return true;
    weir_interned_hold(); /* cheaper than an atomic reference */
    bool decided = decide_under(s, c, verb, r, ret_granted);
    weir_interned_release();
    return decided;
}

static bool decide(weir_call *c, weir_verb verb, weir_request *r)
{
    int64_t granted;
    bool done = weir_module_decide((weir_module_call *)c, verb, r, &granted);
    if (done && r->status == WEIR_OK)
        r->over = r->cost - granted; /* read after a charge only */
    return done;
}

static void explain_key(const weir_request *r, const weir_interned *s, weir_cell *cell,
                        int64_t now_ns, weir_buffer *out)
{
    weir_decision d;
    int64_t unused;
    weir_status st = weir_cell_decide(cell, WEIR_VERB_PEEK, now_ns, 1, 0, &d, &unused);
    WEIR_ASSERT(st == WEIR_OK);
    if (weir_interned_base_len(s) > 0)
        weir_buffer_printf(out, "policy   %.*s\n", (int)weir_interned_base_len(s),
                           weir_interned_name(s));
    weir_explain_key(out, r->key.at, r->key.len);
    weir_buffer_printf(out, "limit    %s\n", weir_interned_text(s));
    weir_explain_state(out, &s->policy, &d, false, now_ns);
}

static bool explain(weir_call *call, weir_request *r, weir_buffer *out)
{
    weir_module_call *c = (weir_module_call *)call;
    weir_interned *s;
    weir_open_key key;
    weir_cell cell;
    r->status = weir_request_intern(r, &s);
    if (r->status != WEIR_OK)
        return true;
    bool opened = weir_module_open_key(c, &key, c->key, REDIS_READ);
    if (opened) {
        int64_t now_ns = weir_moment_now().now_ns;
        r->status = weir_cell_open(&cell, &key, s, now_ns);
        if (r->status == WEIR_OK)
            explain_key(r, s, &cell, now_ns, out);
        weir_cell_close(&cell);
        weir_key_close(&key);
    }
    weir_interned_unref(s);
    return opened;
}

static bool throttle(weir_call *call, const weir_throttle *t, weir_slice name,
                     weir_throttle_result *ret)
{
    weir_module_call *c = (weir_module_call *)call;
    weir_open_key key;
    weir_cell cell;
    weir_interned *s = weir_intern_throttle();
    *ret = (weir_throttle_result){.status = WEIR_E_RANGE};
    if (name.len < 1 || name.len > WEIR_KEY_MAX)
        return true;
    if (!weir_module_open_key(c, &key, c->key, REDIS_READ | REDIS_WRITE))
        return false;
    weir_moment at = weir_moment_now();
    ret->status = weir_cell_open(&cell, &key, s, at.now_ns);
    if (ret->status == WEIR_OK) {
        ret->numbers = weir_throttle_check(t, cell.state, at.now_ns, &ret->answer);
        if (ret->numbers == WEIR_THROTTLE_OK)
            weir_cells_write(c->ctx, &cell, 1, at, "cl.throttle");
        else
            ret->status = WEIR_E_RANGE;
    }
    weir_cell_close(&cell);
    weir_key_close(&key);
    return true;
}

/* ---- named policies -------------------------------------------------------------------------- */
/* Changes are replicated as commands: their effect does not depend on the time. */

static void put_named(weir_call *c, const weir_named *n)
{
    const weir_rule_view view = {.name = n->name, .limit = n->limit};
    weir_call_put_rule(c, &view);
}

static void list_policies(weir_call *c)
{
    const weir_named *named;
    size_t len = weir_named_all(&named);
    put_array(c, len);
    for (size_t i = 0; i < len; i++)
        put_named(c, &named[i]);
}

static void get_policy(weir_call *c, weir_slice name)
{
    const weir_named *n = weir_named_find(name.at, name.len);
    if (n)
        put_named(c, n);
    else
        redis.ReplyWithNull(ctx_of(c));
}

/* Redis has users of its own. */
static bool may_change(weir_call *c, weir_slice name)
{
    (void)c, (void)name;
    return true;
}

static weir_status set_policy(weir_call *c, const char *name, const char *limit,
                              weir_policy_error *ret)
{
    weir_status st = weir_named_set(name, strlen(name), limit, strlen(limit), ret);
    if (st == WEIR_OK)
        redis.ReplicateVerbatim(ctx_of(c));
    else if (st == WEIR_E_FULL)
        snprintf(ret->text, sizeof ret->text,
                 "there are %d policies, the maximum: delete one first", WEIR_NAMED_MAX);
    return st;
}

static weir_status drop_policy(weir_call *c, weir_slice name)
{
    if (!weir_named_drop(name.at, name.len))
        return WEIR_E_ABSENT;
    redis.ReplicateVerbatim(ctx_of(c));
    return WEIR_OK;
}

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

static bool reset_policy(weir_call *c, weir_request *r)
{
    r->status = r->by_text ? weir_text_reset(r->rule.at, r->rule.len, &r->error)
                           : weir_named_reset(r->rule.at, r->rule.len);
    if (r->status == WEIR_OK)
        redis.ReplicateVerbatim(ctx_of(c));
    else if (r->status == WEIR_E_FULL)
        r->why = "the module remembers the resets of " STRING(
            WEIR_GENERATIONS_MAX) " policies, and cannot reset another one; reset keys one by one";
    return true;
}

const weir_backend weir_module_backend = {
    .array = put_array,
    .map = put_map,
    .integers = put_integers,
    .integer = put_integer,
    .bulk = put_bulk,
    .simple = put_simple,
    .error = put_error,
    .boolean = put_bool,
    .decide = decide,
    .reset_policy = reset_policy,
    .take_all = weir_module_take_all,
    .explain = explain,
    .throttle = throttle,
    .list_policies = list_policies,
    .get_policy = get_policy,
    .may_change = may_change,
    .set_policy = set_policy,
    .drop_policy = drop_policy,
    .no_memory = "the state of the key would exceed 16777216 bytes",
    .full = "the key has states under too many policies",
};
_Static_assert(WEIR_STATE_WORDS_MAX * sizeof(uint64_t) == 16777216, "no_memory quotes it");
