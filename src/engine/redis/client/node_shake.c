/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The first words on a line: who we are, whether it is a master, and by what it can decide: the
 * module if it is there, else the library of functions, which is loaded if it is not there or is an
 * older one, else the script. All that does not depend on an answer travels together. */

#include "engine/redis/client/client_inside.h"

#include "engine/redis/client/library.h"

#include <stdio.h>
#include <string.h>

static bool begins(const weir_resp_value *v, const char *word)
{
    size_t len = strlen(word);
    return v->len >= len && memcmp(v->text, word, len) == 0;
}

static bool contains(const weir_resp_value *v, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= v->len; i++) {
        if (memcmp(v->text + i, word, len) == 0)
            return true;
    }
    return false;
}

/* Keeps the first error of a handshake, which is logged. */
static void problem(weir_redis_node *n, const weir_resp_value *v)
{
    const char *why = begins(v, "WRONGPASS") ? "authentication failed: "
                      : begins(v, "NOAUTH")  ? "authentication required: "
                                             : "";
    size_t len = strlen(why);
    if (n->problem[0])
        return;
    memcpy(n->problem, why, len);
    weir_redis_copy(n->problem + len, sizeof n->problem - len, v->text, v->len);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool ask(weir_redis_node *n, weir_redis_kind kind, size_t words, int64_t now_ns)
{
    bool good = weir_redis_node_ask(n, kind, words, now_ns);
    n->shaking += good && kind != WEIR_REDIS_FOR_NOBODY;
    return good;
}

static void ask_auth(weir_redis_node *n, const char *user, const char *password, int64_t now_ns)
{
    bool has_user = user && user[0];
    if (!ask(n, WEIR_REDIS_FOR_AUTH, has_user ? 3 : 2, now_ns))
        return;
    weir_redis_node_word(n, "AUTH");
    if (has_user)
        weir_redis_node_word(n, user);
    weir_redis_node_word(n, password);
}

static void ask_select(weir_redis_node *n, uint32_t database, int64_t now_ns)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", (unsigned)database);
    if (!ask(n, WEIR_REDIS_FOR_SELECT, 2, now_ns))
        return;
    weir_redis_node_word(n, "SELECT");
    weir_redis_node_word(n, text);
}

/* What it decides by. */
static void ask_what(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_by by = n->client->options->by;
    n->has_module = false;
    n->version = WEIR_REDIS_VERSION_NO_FUNCTIONS;
    if ((by == WEIR_REDIS_BY_ANY || by == WEIR_REDIS_BY_MODULE) &&
        ask(n, WEIR_REDIS_FOR_MODULE, 3, now_ns)) {
        weir_redis_node_word(n, "COMMAND");
        weir_redis_node_word(n, "INFO");
        weir_redis_node_word(n, "WEIR.ASK");
    }
    if ((by == WEIR_REDIS_BY_ANY || by == WEIR_REDIS_BY_FUNCTIONS) &&
        ask(n, WEIR_REDIS_FOR_VERSION, 3, now_ns)) {
        weir_redis_node_word(n, "FCALL");
        weir_redis_node_word(n, "weir_version");
        weir_redis_node_word(n, "0");
    }
}

static void ask_load(weir_redis_node *n, int64_t now_ns)
{
    n->tried_load = true;
    if (!ask(n, WEIR_REDIS_FOR_LOAD, 4, now_ns))
        return;
    weir_redis_node_word(n, "FUNCTION");
    weir_redis_node_word(n, "LOAD");
    weir_redis_node_word(n, "REPLACE");
    weir_redis_node_bulk(n, weir_lua_functions, weir_lua_functions_len);
}

static void ask_script(weir_redis_node *n, int64_t now_ns)
{
    if (!ask(n, WEIR_REDIS_FOR_SCRIPT, 3, now_ns))
        return;
    weir_redis_node_word(n, "SCRIPT");
    weir_redis_node_word(n, "LOAD");
    weir_redis_node_bulk(n, weir_lua_script, weir_lua_script_len);
}

void weir_redis_shake(weir_redis_node *n, int64_t now_ns)
{
    const weir_redis_client *c = n->client;
    const weir_redis_options *o = c->options;
    n->shaking = 0;
    n->problem[0] = 0;
    n->is_replica = false;
    n->tried_load = false;
    n->sha[0] = 0;
    if (n->is_sentinel) {
        if (o->sentinel_password)
            ask_auth(n, o->sentinel_user, o->sentinel_password, now_ns);
    } else {
        if (c->has_password)
            ask_auth(n, c->user, c->password, now_ns);
        if (n->database != 0)
            ask_select(n, n->database, now_ns);
    }
    if (weir_redis_node_ask(n, WEIR_REDIS_FOR_NOBODY, 3, now_ns)) {
        weir_redis_node_word(n, "CLIENT");
        weir_redis_node_word(n, "SETNAME");
        weir_redis_node_word(n, "weir");
    }
    if (ask(n, WEIR_REDIS_FOR_ROLE, 1, now_ns))
        weir_redis_node_word(n, "ROLE");
    if (!n->is_sentinel)
        ask_what(n, now_ns);
}

void weir_redis_choose(weir_redis_node *n, int64_t now_ns)
{
    port_add_relaxed(&n->client->counts->reloaded, 1);
    n->shaking = 0;
    n->problem[0] = 0;
    n->tried_load = false;
    n->sha[0] = 0;
    ask_what(n, now_ns);
    if (n->client->options->by == WEIR_REDIS_BY_SCRIPT)
        ask_script(n, now_ns);
}

/* ---- what came of it ------------------------------------------------------------------------- */

/* The next request, or the end. */
static void go_on(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    weir_redis_by by = c->options->by;
    bool functions = by != WEIR_REDIS_BY_SCRIPT && by != WEIR_REDIS_BY_MODULE;
    n->by = WEIR_REDIS_BY_ANY;
    if (n->problem[0]) {
        weir_redis_node_fail(n, n->problem, now_ns);
        return;
    }
    if (n->is_replica && (c->mode == WEIR_REDIS_SINGLE || n->in_map)) {
        c->refresh_wanted = true;
        weir_redis_node_fail(n, WEIR_REDIS_IS_REPLICA, now_ns);
        return;
    }
    if (n->has_module)
        n->by = WEIR_REDIS_BY_MODULE;
    else if (functions && n->version >= WEIR_REDIS_LIBRARY_VERSION)
        n->by = WEIR_REDIS_BY_FUNCTIONS;
    else if (n->sha[0] && by != WEIR_REDIS_BY_MODULE && by != WEIR_REDIS_BY_FUNCTIONS)
        n->by = WEIR_REDIS_BY_SCRIPT;
    if (n->is_sentinel || n->by != WEIR_REDIS_BY_ANY || n->is_replica)
        weir_redis_node_up(n, now_ns);
    else if (by == WEIR_REDIS_BY_MODULE)
        weir_redis_node_fail(n, "it has not loaded the weir module", now_ns);
    else if (functions && n->version != WEIR_REDIS_VERSION_NO_FUNCTIONS && !n->tried_load)
        ask_load(n, now_ns);
    else if (by != WEIR_REDIS_BY_FUNCTIONS)
        ask_script(n, now_ns);
    else
        weir_redis_node_fail(n, "it takes no library of functions", now_ns);
}

static void hear_role(weir_redis_node *n, const weir_resp_value *v)
{
    bool is_first = v->depth == 1 && n->reader.index[1] == 0;
    if (v->type == WEIR_RESP_ERROR_REPLY && (begins(v, "NOPERM") || begins(v, "ERR")))
        return; /* then READONLY tells */
    if (v->type == WEIR_RESP_ERROR_REPLY && v->depth == 0)
        problem(n, v);
    if (!is_first || v->type != WEIR_RESP_BULK)
        return;
    n->is_replica = begins(v, "slave") || begins(v, "replica");
    bool is_sentinel = begins(v, "sentinel");
    if (is_sentinel != n->is_sentinel && !n->problem[0])
        (void)snprintf(n->problem, sizeof n->problem, "%s",
                       is_sentinel ? "it is a Sentinel: give the master's name"
                                   : "it is no Sentinel");
}

static void hear_version(weir_redis_node *n, const weir_resp_value *v)
{
    if (v->depth != 0 || n->is_replica)
        return;
    if (v->type == WEIR_RESP_INTEGER)
        n->version = v->integer < 0 ? WEIR_REDIS_VERSION_ABSENT : v->integer;
    else if (v->type != WEIR_RESP_ERROR_REPLY)
        n->version = WEIR_REDIS_VERSION_ABSENT;
    else if (contains(v, "unction not found"))
        n->version = WEIR_REDIS_VERSION_ABSENT;
    else if (begins(v, "ERR unknown command") || begins(v, "NOPERM"))
        n->version = WEIR_REDIS_VERSION_NO_FUNCTIONS;
    else if (begins(v, "OOM") || begins(v, "MISCONF") || begins(v, "NOREPLICAS"))
        n->version = WEIR_REDIS_LIBRARY_VERSION; /* it may be there; if not, that will be said */
    else
        problem(n, v);
}

static void hear_load(weir_redis_node *n, const weir_resp_value *v)
{
    bool may_be_script = n->client->options->by == WEIR_REDIS_BY_ANY;
    if (v->type != WEIR_RESP_ERROR_REPLY) {
        n->version = WEIR_REDIS_LIBRARY_VERSION;
        weir_redis_say(n->client, "redis-library", n, "the library of functions was loaded");
    } else if (!may_be_script) {
        problem(n, v);
    } else {
        n->version = WEIR_REDIS_VERSION_NO_FUNCTIONS;
    }
}

static void hear_script(weir_redis_node *n, const weir_resp_value *v)
{
    if (v->type == WEIR_RESP_BULK && v->len == WEIR_REDIS_SHA_LEN) {
        memcpy(n->sha, v->text, WEIR_REDIS_SHA_LEN);
        weir_redis_say(n->client, "redis-library", n, "the script was loaded");
    } else if (v->type == WEIR_RESP_ERROR_REPLY) {
        problem(n, v);
    } else if (!n->problem[0]) {
        (void)snprintf(n->problem, sizeof n->problem, "what SCRIPT LOAD says makes no sense");
    }
}

void weir_redis_shake_hear(weir_redis_node *n, weir_redis_kind kind, const weir_resp_value *v,
                           int64_t now_ns)
{
    bool failed = v->type == WEIR_RESP_ERROR_REPLY && v->depth == 0;
    if (kind == WEIR_REDIS_FOR_ROLE)
        hear_role(n, v);
    else if (kind == WEIR_REDIS_FOR_MODULE)
        n->has_module |= v->depth == 1 && v->type == WEIR_RESP_ARRAY;
    else if (kind == WEIR_REDIS_FOR_VERSION)
        hear_version(n, v);
    else if (kind == WEIR_REDIS_FOR_LOAD)
        hear_load(n, v);
    else if (kind == WEIR_REDIS_FOR_SCRIPT)
        hear_script(n, v);
    else if (failed)
        problem(n, v);
    if (v->last && --n->shaking == 0)
        go_on(n, now_ns);
}
