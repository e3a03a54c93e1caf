/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests that do not depend on a reply are sent together. A server that has loaded the module
 * decides by the module. Any other server decides by the functions library, which is loaded if it
 * is missing or too old. A server that does not accept the library decides by the script. The last
 * request asks for a decision: a server may be up and yet refuse each of them. */

#include "engine/redis/client/node.h"

#include "engine/redis/client/wire.h"

#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION_ABSENT       0 /* the server has functions, but not weir's */
#define VERSION_NO_FUNCTIONS INT64_MIN
#define LOADS_MAX            5 /* of a handshake: others may flush what it has loaded */

static bool begins(const weir_resp_value *v, const char *word)
{
    return weir_redis_error_begins((weir_slice){v->text, v->len}, word);
}

/* Keeps the first error of a handshake, for the log. */
static void keep_error(weir_redis_node *n, const weir_resp_value *v)
{
    char *problem = n->handshake.problem;
    const char *why = begins(v, "WRONGPASS") ? "authentication failed: "
                      : begins(v, "NOAUTH")  ? "authentication required: "
                                             : "";
    size_t len = strlen(why);
    if (problem[0])
        return;
    memcpy(problem, why, len);
    weir_redis_copy_text(problem + len, sizeof n->handshake.problem - len, v->text, v->len);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Sends the words of a request up to a NULL. */
static void request(weir_redis_node *n, weir_redis_expects expects, const char *const *word,
                    int64_t now_ns)
{
    size_t words = 0;
    while (word[words])
        words++;
    weir_redis_node_request(n, expects, words, now_ns);
    n->handshake.left += expects != WEIR_REDIS_EXPECTS_IGNORED;
    for (size_t i = 0; i < words; i++)
        weir_redis_node_word(n, word[i]);
}

static void request_auth(weir_redis_node *n, const char *user, const char *password, int64_t now_ns)
{
    bool has_user = user && user[0];
    request(n, WEIR_REDIS_EXPECTS_AUTH,
            (const char *[]){"AUTH", has_user ? user : password, has_user ? password : NULL, NULL},
            now_ns);
}

static void request_database(weir_redis_node *n, int64_t now_ns)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", (unsigned)n->database);
    request(n, WEIR_REDIS_EXPECTS_SELECT, (const char *[]){"SELECT", text, NULL}, now_ns);
}

/* Whether the server has the module, and which version of the functions. */
static void request_abilities(weir_redis_node *n, int64_t now_ns)
{
    static const char *const module[] = {"COMMAND", "INFO", "WEIR.ASK", NULL};
    static const char *const version[] = {"FCALL", "weir_version", "0", NULL};
    weir_redis_by by = n->context->options->by;
    n->handshake.version = VERSION_NO_FUNCTIONS;
    if (by == WEIR_REDIS_BY_ANY || by == WEIR_REDIS_BY_MODULE)
        request(n, WEIR_REDIS_EXPECTS_MODULE, module, now_ns);
    if (by == WEIR_REDIS_BY_ANY || by == WEIR_REDIS_BY_FUNCTIONS)
        request(n, WEIR_REDIS_EXPECTS_VERSION, version, now_ns);
}

static void load_functions(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_node_request(n, WEIR_REDIS_EXPECTS_LOAD, 4, now_ns);
    n->handshake.left++;
    n->handshake.loads++;
    weir_redis_node_word(n, "FUNCTION");
    weir_redis_node_word(n, "LOAD");
    weir_redis_node_word(n, "REPLACE");
    weir_redis_node_bulk(n, weir_lua_functions, weir_lua_functions_len);
}

static void load_script(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_node_request(n, WEIR_REDIS_EXPECTS_SCRIPT, 3, now_ns);
    n->handshake.left++;
    n->handshake.loads++;
    weir_redis_node_word(n, "SCRIPT");
    weir_redis_node_word(n, "LOAD");
    weir_redis_node_bulk(n, weir_lua_script, weir_lua_script_len);
}

/* A Redis key whose slot the node serves, if that is known and such a key is found soon. Any other
 * slot is answered with MOVED. */
static void decision_key(const weir_redis_node *n, char *ret, size_t size)
{
    int tries = n->in_map ? WEIR_REDIS_SLOTS : 1;
    do {
        (void)snprintf(ret, size, "%s{%d}:#handshake", n->context->prefix, tries);
    } while (--tries > 0 && !n->context->events->serves_slot(n, weir_redis_slot(ret, strlen(ret))));
}

/* Charges a unit of a key that expires within a second: a server may refuse only what writes. */
static void request_decision(weir_redis_node *n, int64_t now_ns)
{
    static const char policy[] = "gcra 1000/s burst 1000";
    char key[WEIR_REDIS_PREFIX_MAX + 32], sha[WEIR_REDIS_SHA_LEN + 1], now[24];
    const char *word[12] = {"WEIR.ASK", "TAKE", policy, key, "1"};
    decision_key(n, key, sizeof key);
    memcpy(sha, n->sha, WEIR_REDIS_SHA_LEN);
    sha[WEIR_REDIS_SHA_LEN] = 0;
    (void)snprintf(now, sizeof now, "%" PRId64, now_ns / 1000);
    if (n->by != WEIR_REDIS_BY_MODULE) {
        bool is_script = n->by == WEIR_REDIS_BY_SCRIPT;
        const char *const call[] = {is_script ? "EVALSHA" : "FCALL",
                                    is_script ? sha : "weir_ask",
                                    "1",
                                    key,
                                    "weir_ask",
                                    "AT",
                                    now,
                                    "TAKE",
                                    policy,
                                    "1"};
        size_t words = 0;
        for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
            if ((i == 4 && !is_script) || ((i == 5 || i == 6) && !n->sends_time))
                continue;
            word[words++] = call[i];
        }
    }
    request(n, WEIR_REDIS_EXPECTS_DECISION, word, now_ns);
}

void weir_redis_handshake_begin(weir_redis_node *n, int64_t now_ns)
{
    static const char *const name[] = {"CLIENT", "SETNAME", "weir", NULL};
    static const char *const role[] = {"ROLE", NULL};
    const weir_redis_context *x = n->context;
    const weir_redis_options *o = x->options;
    n->handshake = (weir_redis_handshake){0};
    n->is_replica = false;
    n->sends_time = n->omits_figures = false;
    if (n->is_sentinel && o->sentinel_password)
        request_auth(n, o->sentinel_user, o->sentinel_password, now_ns);
    if (!n->is_sentinel && x->has_password)
        request_auth(n, x->user, x->password, now_ns);
    if (!n->is_sentinel && n->database != 0)
        request_database(n, now_ns);
    request(n, WEIR_REDIS_EXPECTS_IGNORED, name, now_ns);
    request(n, WEIR_REDIS_EXPECTS_ROLE, role, now_ns);
    if (!n->is_sentinel)
        request_abilities(n, now_ns);
}

void weir_redis_handshake_repeat(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_node_renegotiate(n, now_ns);
    port_add_relaxed(&n->context->counts->reloaded, 1);
    n->handshake = (weir_redis_handshake){0};
    n->sha[0] = 0;
    n->sends_time = n->omits_figures = false;
    request_abilities(n, now_ns);
    if (n->context->options->by == WEIR_REDIS_BY_SCRIPT)
        load_script(n, now_ns);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* By what the option `by` let the handshake ask for. */
static weir_redis_by choose(const weir_redis_node *n)
{
    if (n->handshake.has_module)
        return WEIR_REDIS_BY_MODULE;
    if (n->handshake.version >= WEIR_REDIS_LIBRARY_VERSION)
        return WEIR_REDIS_BY_FUNCTIONS;
    bool may_be_script = n->handshake.version == VERSION_NO_FUNCTIONS && n->sha[0];
    return may_be_script ? WEIR_REDIS_BY_SCRIPT : WEIR_REDIS_BY_ANY;
}

/* All replies have come: ends the handshake, or sends the next request. */
static void proceed(weir_redis_node *n, int64_t now_ns)
{
    const weir_redis_handshake *h = &n->handshake;
    weir_redis_by by = n->context->options->by;
    if (h->problem[0]) {
        weir_redis_node_fail(n, h->problem, now_ns);
        return;
    }
    if (n->is_replica && n->context->events->serves(n)) {
        weir_redis_node_fail(n, WEIR_REDIS_IS_REPLICA, now_ns);
        return;
    }
    n->by = choose(n);
    if (n->is_sentinel || n->is_replica || h->has_decided)
        weir_redis_node_up(n, now_ns);
    else if (n->by != WEIR_REDIS_BY_ANY)
        request_decision(n, now_ns);
    else if (by == WEIR_REDIS_BY_MODULE)
        weir_redis_node_fail(n, "the server has not loaded the weir module", now_ns);
    else if (h->version != VERSION_NO_FUNCTIONS)
        load_functions(n, now_ns);
    else if (by != WEIR_REDIS_BY_FUNCTIONS)
        load_script(n, now_ns);
    else
        weir_redis_node_fail(n, "the server does not accept the functions library", now_ns);
}

static void receive_role(weir_redis_node *n, const weir_resp_value *v)
{
    bool is_first = v->depth == 1 && n->stream.index[1] == 0;
    char *problem = n->handshake.problem;
    if (v->type == WEIR_RESP_ERROR_REPLY && (begins(v, "NOPERM") || begins(v, "ERR")))
        return; /* treated as a master; a replica will reply READONLY to a call */
    if (v->type == WEIR_RESP_ERROR_REPLY && v->depth == 0)
        keep_error(n, v);
    if (!is_first || v->type != WEIR_RESP_BULK)
        return;
    n->is_replica = begins(v, "slave") || begins(v, "replica");
    bool is_sentinel = begins(v, "sentinel");
    if (is_sentinel != n->is_sentinel && !problem[0])
        (void)snprintf(problem, sizeof n->handshake.problem, "%s",
                       is_sentinel ? "the server is a Sentinel: give the master's name (sentinel)"
                                   : "the server is not a Sentinel");
}

static void receive_version(weir_redis_node *n, const weir_resp_value *v)
{
    weir_redis_handshake *h = &n->handshake;
    if (v->depth != 0 || n->is_replica)
        return;
    if (v->type == WEIR_RESP_INTEGER)
        h->version = v->integer;
    else if (v->type != WEIR_RESP_ERROR_REPLY ||
             weir_redis_error_contains((weir_slice){v->text, v->len}, "unction not found"))
        h->version = VERSION_ABSENT;
    else if (begins(v, "OOM") || begins(v, "MISCONF") || begins(v, "NOREPLICAS"))
        h->version =
            WEIR_REDIS_LIBRARY_VERSION; /* assumed: a call will fail if the library is missing */
    else if (!begins(v, "ERR unknown command") && !begins(v, "NOPERM"))
        keep_error(n, v);
}

static void receive_load(weir_redis_node *n, const weir_resp_value *v)
{
    bool may_be_script = n->context->options->by == WEIR_REDIS_BY_ANY;
    if (v->type != WEIR_RESP_ERROR_REPLY) {
        n->handshake.version = WEIR_REDIS_LIBRARY_VERSION;
        weir_redis_node_log(n, "redis-library", "the functions library was loaded");
    } else if (!may_be_script) {
        keep_error(n, v);
    } else {
        n->handshake.version = VERSION_NO_FUNCTIONS;
    }
}

static void receive_script(weir_redis_node *n, const weir_resp_value *v)
{
    if (v->type == WEIR_RESP_BULK && v->len == WEIR_REDIS_SHA_LEN) {
        memcpy(n->sha, v->text, WEIR_REDIS_SHA_LEN);
        weir_redis_node_log(n, "redis-library", "the script was loaded");
    } else if (v->type == WEIR_RESP_ERROR_REPLY) {
        keep_error(n, v);
    } else {
        (void)snprintf(n->handshake.problem, sizeof n->handshake.problem,
                       "the reply to SCRIPT LOAD is not a SHA-1");
    }
}

/* Whether an error only means that the key is not on this node. A node that may not be in the slot
 * map yet, or serves only some slots, is up: it knows the map. */
static bool is_elsewhere(const weir_redis_node *n, weir_slice error)
{
    switch (weir_redis_error_kind_of(error, false)) {
    case WEIR_REDIS_ERROR_MOVED:
    case WEIR_REDIS_ERROR_ASK:
    case WEIR_REDIS_ERROR_TRY_AGAIN:
        return true;
    default:
        return !n->in_map && weir_redis_error_begins(error, "CLUSTERDOWN Hash slot");
    }
}

static void log_time(weir_redis_node *n, const weir_resp_value *v)
{
    char text[WEIR_REDIS_WHY_MAX];
    if (!n->logged_time)
        weir_redis_node_log(n, "redis-clock",
                            weir_redis_copy_text(text, sizeof text, v->text, v->len));
    n->logged_time = true;
}

static void refuse_decision(weir_redis_node *n, const weir_resp_value *v)
{
    weir_redis_handshake *h = &n->handshake;
    weir_slice error = {v->text, v->len};
    bool is_lost = weir_redis_error_kind_of(error, false) == WEIR_REDIS_ERROR_NOT_LOADED;
    if (weir_redis_error_begins(error, "NOTIME") && !n->sends_time) {
        h->has_decided = false;
        n->sends_time = true;
        log_time(n, v);
    } else if (is_lost && h->loads < LOADS_MAX && n->by != WEIR_REDIS_BY_MODULE) {
        h->has_decided = false;
        h->version = n->by == WEIR_REDIS_BY_FUNCTIONS ? VERSION_ABSENT : VERSION_NO_FUNCTIONS;
        n->sha[0] = 0;
    } else if (!is_elsewhere(n, error)) {
        keep_error(n, v);
    }
}

static void receive_decision(weir_redis_node *n, const weir_resp_value *v)
{
    if (v->depth > 0)
        return;
    n->handshake.has_decided = true;
    if (v->type == WEIR_RESP_ERROR_REPLY)
        refuse_decision(n, v);
    else if (v->type != WEIR_RESP_ARRAY || v->len != WEIR_REDIS_FIELDS)
        (void)snprintf(n->handshake.problem, sizeof n->handshake.problem,
                       "the server's reply is not a decision");
}

void weir_redis_handshake_receive(weir_redis_node *n, weir_redis_expects expects,
                                  const weir_resp_value *v, int64_t now_ns)
{
    bool is_error = v->type == WEIR_RESP_ERROR_REPLY && v->depth == 0;
    if (expects == WEIR_REDIS_EXPECTS_ROLE)
        receive_role(n, v);
    else if (expects == WEIR_REDIS_EXPECTS_MODULE)
        n->handshake.has_module |= v->depth == 1 && v->type == WEIR_RESP_ARRAY;
    else if (expects == WEIR_REDIS_EXPECTS_VERSION)
        receive_version(n, v);
    else if (expects == WEIR_REDIS_EXPECTS_LOAD)
        receive_load(n, v);
    else if (expects == WEIR_REDIS_EXPECTS_SCRIPT)
        receive_script(n, v);
    else if (expects == WEIR_REDIS_EXPECTS_DECISION)
        receive_decision(n, v);
    else if (is_error)
        keep_error(n, v);
    WEIR_ASSERT(n->handshake.left > 0);
    if (v->last && --n->handshake.left == 0)
        proceed(n, now_ns);
}
