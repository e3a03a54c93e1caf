/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Policies by name: set, shown and taken away. Replicas are told of every change as it was asked
 * for, since no clock has a part in it. */

#include "call.h"

static void put_pair_i64(const weir_call *c, const char *name, int64_t v)
{
    weir_call_text(c, name);
    weir_call_i64(c, v);
}

/* As the daemon shows its own, which may have what a server's have not. */
static void put_named(const weir_call *c, const weir_named *n)
{
    weir_call_map(c, 6);
    weir_call_text(c, "name");
    redis.ReplyWithStringBuffer(c->ctx, n->name, n->name_len);
    weir_call_text(c, "limit");
    weir_call_text(c, n->limit);
    put_pair_i64(c, "overrides", 0);
    put_pair_i64(c, "allow", 0);
    put_pair_i64(c, "deny", 0);
    weir_call_text(c, "shadow");
    weir_call_bool(c, false);
}

static int list(const weir_call *c)
{
    const weir_named *named;
    size_t len = weir_named_all(&named);
    redis.ReplyWithArray(c->ctx, (long)len);
    for (size_t i = 0; i < len; i++)
        put_named(c, &named[i]);
    return REDIS_OK;
}

static int get(const weir_call *c)
{
    weir_arg name = weir_call_arg(c, 2);
    const weir_named *n = weir_named_find(name.at, name.len);
    if (n)
        put_named(c, n);
    else
        redis.ReplyWithNull(c->ctx);
    return REDIS_OK;
}

static int set(const weir_call *c)
{
    weir_arg name = weir_call_arg(c, 2), limit = weir_call_arg(c, 3);
    weir_policy_error e = {0};
    size_t most = WEIR_POLICY_TEXT_MAX * 2 - 1;
    if (name.len > WEIR_POLICY_NAME_MAX + 1 || memchr(name.at, '\0', name.len))
        return weir_call_error(c, "ERR a policy's name has 1 to %d bytes, and no NUL",
                               WEIR_POLICY_NAME_MAX);
    if (limit.len > most || memchr(limit.at, '\0', limit.len))
        return weir_call_error(c, "ERR a policy text has at most %zu bytes, and no NUL", most);
    weir_status st = weir_named_set(name.at, name.len, limit.at, limit.len, &e);
    if (st == WEIR_OK) {
        redis.ReplicateVerbatim(c->ctx);
        redis.ReplyWithSimpleString(c->ctx, "OK");
    } else if (e.column > 0) {
        weir_call_error(c, "ERR policy: column %u: %s", e.column, e.text);
    } else {
        weir_call_error(c, "ERR %s", e.text);
    }
    return REDIS_OK;
}

static int del(const weir_call *c)
{
    weir_arg name = weir_call_arg(c, 2);
    bool there = weir_named_drop(name.at, name.len);
    if (there)
        redis.ReplicateVerbatim(c->ctx);
    weir_call_i64(c, there);
    return REDIS_OK;
}

int weir_policy_set_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    return argc == 4 ? set(&c) : redis.WrongArity(ctx);
}

int weir_policy_get_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    return argc == 3 ? get(&c) : redis.WrongArity(ctx);
}

int weir_policy_list_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    return argc == 2 ? list(&c) : redis.WrongArity(ctx);
}

int weir_policy_del_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    return argc == 3 ? del(&c) : redis.WrongArity(ctx);
}

int weir_policy_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    if (argc < 2)
        return redis.WrongArity(ctx);
    weir_arg what = weir_call_arg(&c, 1);
    if (argc == 2 && weir_arg_is(what, "LIST"))
        return list(&c);
    if (argc == 3 && weir_arg_is(what, "GET"))
        return get(&c);
    if (argc == 4 && weir_arg_is(what, "SET"))
        return set(&c);
    if (argc == 3 && weir_arg_is(what, "DEL"))
        return del(&c);
    return weir_call_error(&c, "ERR syntax error, expected WEIR.POLICY LIST, GET name, "
                               "SET name policy-text or DEL name");
}
