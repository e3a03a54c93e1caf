/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The command table of the daemon, and the commands that list it: WEIR.HELP and COMMAND. */

#include "codec/resp/call.h"
#include "codec/resp/session.h"

static void command(weir_call *c);
static void help(weir_call *c);

/* Whether the reply is a decision, which WITHNAMES turns into a map. */
enum { PLAIN = false, NAMES = true };

#define SHARED(id) &weir_commands[WEIR_COMMAND_##id]
#define OWN(...)                                                                                   \
    &(const weir_command)                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const weir_command *const commands[] = {
    SHARED(TAKE),
    SHARED(CHECK),
    SHARED(TAKEALL),
    OWN("WEIR.RESERVE", WEIR_MAY_RESERVE, weir_resp_reserve, 4, 6, 2, 1, NAMES,
        "WEIR.RESERVE policy key n [TTL time] [WITHNAMES]"),
    OWN("WEIR.RENEW", WEIR_MAY_RESERVE, weir_resp_renew, 2, 4, 0, 0, NAMES,
        "WEIR.RENEW id [TTL time] [WITHNAMES]"),
    OWN("WEIR.COMMIT", WEIR_MAY_RESERVE, weir_resp_commit, 3, 3, 0, 0, NAMES,
        "WEIR.COMMIT id actual [WITHNAMES]"),
    OWN("WEIR.CANCEL", WEIR_MAY_RESERVE, weir_resp_cancel, 2, 2, 0, 0, NAMES,
        "WEIR.CANCEL id [WITHNAMES]"),
    SHARED(PEEK),
    SHARED(REFUND),
    SHARED(CHARGE),
    SHARED(RESET),
    SHARED(RESETALL),
    SHARED(EXPLAIN),
    SHARED(POLICY),
    OWN("WEIR.TOP", WEIR_MAY_TOP, weir_resp_top, 2, 4, 0, 0, PLAIN,
        "WEIR.TOP policy [denied|allowed] [k]"),
    OWN("WEIR.HELP", WEIR_MAY_ENTER, help, 1, 1, 0, 0, PLAIN, "WEIR.HELP"),
    SHARED(THROTTLE),
    OWN("PING", WEIR_MAY_ENTER, weir_resp_ping, 1, 2, 0, 0, PLAIN, "PING [text]"),
    OWN("ECHO", WEIR_MAY_ENTER, weir_resp_echo, 2, 2, 0, 0, PLAIN, "ECHO text"),
    OWN("HELLO", WEIR_MAY_ANYONE, weir_resp_hello, 1, 0, 0, 0, PLAIN,
        "HELLO [2|3 [AUTH name password] [SETNAME name]]"),
    OWN("AUTH", WEIR_MAY_ANYONE, weir_resp_auth, 2, 3, 0, 0, PLAIN, "AUTH [name] password"),
    OWN("ACL", WEIR_MAY_ENTER, weir_resp_acl, 2, 2, 0, 0, PLAIN, "ACL WHOAMI"),
    OWN("SELECT", WEIR_MAY_ENTER, weir_resp_select, 2, 2, 0, 0, PLAIN, "SELECT 0"),
    OWN("CLIENT", WEIR_MAY_ENTER, weir_resp_client, 2, 0, 0, 0, PLAIN,
        "CLIENT ID | GETNAME | SETNAME name | INFO"),
    OWN("INFO", WEIR_MAY_ENTER, weir_resp_info, 1, 0, 0, 0, PLAIN, "INFO"),
    OWN("CONFIG", WEIR_MAY_ENTER, weir_resp_config, 2, 0, 0, 0, PLAIN, "CONFIG GET name"),
    OWN("COMMAND", WEIR_MAY_ENTER, command, 1, 0, 0, 0, PLAIN,
        "COMMAND [COUNT | LIST | INFO name ... | GETKEYS command ...]"),
    OWN("RESET", WEIR_MAY_ANYONE, weir_resp_reset, 1, 1, 0, 0, PLAIN, "RESET"),
    OWN("MULTI", WEIR_MAY_ENTER, weir_resp_multi, 1, 1, 0, 0, PLAIN, "MULTI"),
    OWN("EXEC", WEIR_MAY_ENTER, weir_resp_exec, 1, 1, 0, 0, PLAIN, "EXEC"),
    OWN("DISCARD", WEIR_MAY_ENTER, weir_resp_discard, 1, 1, 0, 0, PLAIN, "DISCARD"),
    OWN("WATCH", WEIR_MAY_ENTER, weir_resp_watch, 2, 0, 0, 0, PLAIN, "WATCH key [key ...]"),
    OWN("UNWATCH", WEIR_MAY_ENTER, weir_resp_unwatch, 1, 1, 0, 0, PLAIN, "UNWATCH"),
    OWN("SUBSCRIBE", WEIR_MAY_ENTER, weir_resp_subscribe, 2, 0, 0, 0, PLAIN,
        "SUBSCRIBE channel [channel ...]"),
    OWN("PSUBSCRIBE", WEIR_MAY_ENTER, weir_resp_subscribe, 2, 0, 0, 0, PLAIN,
        "PSUBSCRIBE pattern [pattern ...]"),
    OWN("UNSUBSCRIBE", WEIR_MAY_ENTER, weir_resp_unsubscribe, 1, 0, 0, 0, PLAIN,
        "UNSUBSCRIBE [channel ...]"),
    OWN("PUNSUBSCRIBE", WEIR_MAY_ENTER, weir_resp_unsubscribe, 1, 0, 0, 0, PLAIN,
        "PUNSUBSCRIBE [pattern ...]"),
    OWN("QUIT", WEIR_MAY_ANYONE, weir_resp_quit, 1, 0, 0, 0, PLAIN, "QUIT"),
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

const weir_command *weir_resp_command_at(size_t i)
{
    return i < COMMANDS ? commands[i] : NULL;
}

const weir_command *weir_resp_find_command(weir_slice name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (weir_resp_word_is(name, commands[i]->name))
            return commands[i];
    }
    return NULL;
}

static void help(weir_call *c)
{
    c->backend->array(c, COMMANDS);
    for (int i = 0; i < COMMANDS; i++)
        weir_call_put_text(c, commands[i]->usage);
}

static void put_lower(weir_call *c, const weir_command *cmd)
{
    char text[WEIR_COMMAND_NAME_MAX];
    c->backend->bulk(c, text, weir_command_lower(cmd, text));
}

/* As COMMAND INFO of Redis: name, arity, flags, first key, last key, step. */
static void put_command(weir_call *c, const weir_command *cmd)
{
    c->backend->array(c, 6);
    put_lower(c, cmd);
    c->backend->integer(c, weir_command_arity(cmd));
    c->backend->array(c, cmd->key > 0);
    if (cmd->key > 0)
        c->backend->simple(c, "write");
    c->backend->integer(c, cmd->key);
    c->backend->integer(c, weir_command_last_key(cmd));
    c->backend->integer(c, cmd->key_step);
}

static void put_command_info(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    call->backend->array(call, call->args - 2);
    for (size_t i = 2; i < call->args; i++) {
        const weir_command *cmd = weir_resp_find_command(call->arg[i]);
        if (cmd)
            put_command(call, cmd);
        else
            weir_resp_put_null(c->out, c->session->proto);
    }
}

/* The keys of a request, which follows GETKEYS. */
static void put_keys(weir_call *c)
{
    const weir_command *cmd = c->args > 2 ? weir_resp_find_command(c->arg[2]) : NULL;
    size_t args = c->args - 2, n = 0;
    if (!cmd) {
        weir_call_error(c, "ERR Invalid command specified");
        return;
    }
    if (cmd->key == 0) {
        weir_call_error(c, "ERR The command has no key arguments");
        return;
    }
    if (!weir_command_arity_is_good(cmd, args)) {
        weir_call_error(c, "ERR Invalid number of arguments specified for command");
        return;
    }
    for (size_t i = (size_t)cmd->key; cmd->key_step == 3 ? i + 1 < args : n == 0; i += 3)
        n++;
    c->backend->array(c, n);
    for (size_t i = 0; i < n; i++) {
        weir_slice key = c->arg[2 + (size_t)cmd->key + 3 * i];
        c->backend->bulk(c, key.at, key.len);
    }
}

static void command(weir_call *c)
{
    if (c->args == 1) {
        c->backend->array(c, COMMANDS);
        for (int i = 0; i < COMMANDS; i++)
            put_command(c, commands[i]);
    } else if (weir_resp_word_is(c->arg[1], "COUNT")) {
        c->backend->integer(c, COMMANDS);
    } else if (weir_resp_word_is(c->arg[1], "LIST")) {
        c->backend->array(c, COMMANDS);
        for (int i = 0; i < COMMANDS; i++)
            put_lower(c, commands[i]);
    } else if (weir_resp_word_is(c->arg[1], "INFO")) {
        put_command_info(c);
    } else if (weir_resp_word_is(c->arg[1], "GETKEYS")) {
        put_keys(c);
    } else { /* DOCS, which redis-cli requests on a terminal: it accepts an empty map */
        c->backend->map(c, 0);
    }
}
