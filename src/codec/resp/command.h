/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_COMMAND_H
#define WEIR_CODEC_RESP_COMMAND_H
/* The command set: what WEIR.TAKE and the other WEIR commands and CL.THROTTLE accept, check and
 * reply. The daemon and the module in Redis share it.
 *
 * weir_commands[] is the table for dispatch. The `run` function of a command parses the arguments,
 * calls the backend for the decision, and writes one reply through the backend. The backend of the
 * daemon (backend.c) decides with a weir_service, and appends RESP to a buffer. The backend of
 * the module (modules/redis/backend.c) decides on the keyspace of the server, and replies through
 * the module API. */

#include "codec/resp/resp.h"
#include "service/engine.h"
#include "service/service.h"
#include "service/users/users.h"

typedef struct weir_call weir_call;

/* The interface that a command runs on. All functions get the running call. A backend embeds
 * weir_call as the first member of a structure of its own. */
typedef struct weir_backend {
    /* Replies. Each function writes one reply, or the head of an array or a map. The members are
     * written after the head. */
    void (*array)(weir_call *c, size_t n);
    void (*map)(weir_call *c, size_t pairs); /* for RESP2 clients an array of 2 * pairs */
    /* An array of n integers, and of `more` replies that follow. */
    void (*integers)(weir_call *c, const int64_t *v, size_t n, size_t more);
    void (*integer)(weir_call *c, int64_t v);
    void (*bulk)(weir_call *c, const void *bytes, size_t len);
    void (*simple)(weir_call *c, const char *text);
    void (*error)(weir_call *c, const char *text, size_t len); /* begins with a code: "ERR ..." */
    void (*boolean)(weir_call *c, bool v);

    /* Decisions. If a function returns true, the result is written, with next_ns and, of a PEEK,
     * the figures if the reply has names, and the command replies with it. If it returns false, the
     * backend has replied with an error, or will run the command again later. */
    bool (*decide)(weir_call *c, weir_verb verb, weir_request *r); /* all but GRANT and THROTTLE */
    bool (*reset_policy)(weir_call *c, weir_request *r);           /* without a key */
    bool (*take_all)(weir_call *c, weir_request *r, size_t n, weir_all_result *ret);
    bool (*explain)(weir_call *c, weir_request *r, weir_buffer *out);
    bool (*throttle)(weir_call *c, const weir_throttle *t, weir_slice key,
                     weir_throttle_result *ret);

    /* Replies with all named policies as an array, or with `name` alone, or null. */
    void (*list_policies)(weir_call *c);
    void (*get_policy)(weir_call *c, weir_slice name);
    /* Whether the client may change a policy. If not, the backend has replied with an error. */
    bool (*may_change)(weir_call *c, weir_slice name);
    /* ret->text is empty unless the name or the limit is refused. */
    weir_status (*set_policy)(weir_call *c, const char *name, const char *limit,
                              weir_policy_error *ret);
    weir_status (*drop_policy)(weir_call *c, weir_slice name); /* WEIR_E_ABSENT: no such policy */

    const char *no_memory, *full; /* the messages for WEIR_E_NOMEM and WEIR_E_FULL */
} weir_backend;

/* A command that is running. */
struct weir_call {
    const weir_backend *backend;
    const weir_slice *arg; /* arg[0] is the name of the command */
    size_t args;           /* without WITHNAMES */
    bool with_names;       /* WITHNAMES was given: reply to a decision with a map */
};

typedef struct weir_command {
    const char *name; /* in upper case */
    weir_right right; /* a set of them: see weir_right */
    void (*run)(weir_call *c);
    int args_min, args_max; /* including the name; args_max 0: no maximum */
    int key;                /* the index of the first key; 0: none */
    int key_step;           /* 0: no key; 1: one key; 3: every third argument from `key` on */
    bool names;             /* WITHNAMES may follow all other arguments */
    const char *usage;
} weir_command;

typedef enum weir_command_id {
    WEIR_COMMAND_TAKE,
    WEIR_COMMAND_CHECK,
    WEIR_COMMAND_TAKEALL,
    WEIR_COMMAND_PEEK,
    WEIR_COMMAND_REFUND,
    WEIR_COMMAND_CHARGE,
    WEIR_COMMAND_RESET,
    WEIR_COMMAND_RESETALL,
    WEIR_COMMAND_EXPLAIN,
    WEIR_COMMAND_POLICY,
    WEIR_COMMAND_THROTTLE,
    WEIR_COMMANDS
} weir_command_id;

extern const weir_command weir_commands[WEIR_COMMANDS];

void weir_run_take(weir_call *c); /* command_take.c */
void weir_run_check(weir_call *c);
void weir_run_peek(weir_call *c);
void weir_run_refund(weir_call *c);
void weir_run_charge(weir_call *c);
void weir_run_reset(weir_call *c);
void weir_run_reset_all(weir_call *c);
void weir_run_explain(weir_call *c);
void weir_run_take_all(weir_call *c);
void weir_run_policy(weir_call *c); /* command_policy.c */
void weir_run_throttle(weir_call *c);

/* The arity, as COMMAND INFO shows it: -n means n or more. */
static inline int weir_command_arity(const weir_command *cmd)
{
    return cmd->args_min == cmd->args_max && !cmd->names ? cmd->args_min : -cmd->args_min;
}

/* The last key, as COMMAND INFO shows it. With a step of 3 it is the second argument from the end,
 * or the third with WITHNAMES: -2 finds it in both cases. */
static inline int weir_command_last_key(const weir_command *cmd)
{
    return cmd->key_step == 3 ? -2 : cmd->key;
}

#define WEIR_COMMAND_NAME_MAX 32 /* bytes of a name, with its NUL */

/* Writes the name in lower case, terminated. Returns its length. */
size_t weir_command_lower(const weir_command *cmd, char buf[WEIR_COMMAND_NAME_MAX]);

/* Whether `args` arguments are neither too few nor too many. */
static inline bool weir_command_arity_is_good(const weir_command *cmd, size_t args)
{
    return args >= (size_t)cmd->args_min && (cmd->args_max == 0 || args <= (size_t)cmd->args_max);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Parses "policy key [COST n] [KEEP m]", 3 to 7 arguments with the name of the command. Returns
 * NULL, or what is wrong, for weir_call_syntax_error().
 *  by_text  the policy is a text even if it looks like a name
 *  ret      only rule, by_text, key, cost, keep and client are written */
const char *weir_call_read_take(const weir_call *c, bool by_text, weir_request *ret);
void weir_call_syntax_error(weir_call *c, const char *error);

/* Parses arg[i] as a cost. Returns NULL, or what is wrong. */
const char *weir_call_read_cost(const weir_call *c, size_t i, int64_t *ret);

/* Parses a cost, and what it keeps behind a '+': "3", "3+20" or "3+20%". Returns NULL, or what is
 * wrong.
 *  ret  cost and keep are written. */
const char *weir_call_read_units(weir_slice text, weir_request *ret);

/* The request for arg[i], a policy, without a key. */
weir_request weir_call_policy(const weir_call *c, size_t i);

/* The request for arg[i] and arg[i + 1], a policy and a key. */
weir_request weir_call_request(const weir_call *c, size_t i);

/* Parses the requests of WEIR.TAKEALL: "n policy key cost[+keep] [policy key cost[+keep] ...]".
 *  ret  an array of WEIR_ALL_MAX requests.
 * Returns n; 0 after an error reply. */
size_t weir_call_read_all(weir_call *c, weir_request *ret);

/* "request 2: ", the prefix of errors about one request of several. */
typedef struct weir_where {
    char text[24];
} weir_where;

weir_where weir_where_request(size_t i);

/* ---- replies --------------------------------------------------------------------------------- */

/* Replies with an error, formatted as by printf() and cut at 511 bytes. */
__attribute__((format(printf, 2, 3))) void weir_call_error(weir_call *c, const char *format, ...);

/* Bytes of an argument that an error quotes. */
static inline int weir_call_quoted_len(weir_slice arg)
{
    return arg.len < 100 ? (int)arg.len : 100;
}

/* Replies with the error of a request whose status is not WEIR_OK.
 *  where  begins the message; "" or as weir_where_request(). */
void weir_call_request_error(weir_call *c, const weir_request *r, const char *where);
void weir_call_status_error(weir_call *c, weir_status st, size_t key_len, const char *where);

/* Replies with the decision of a request, or its error. */
void weir_call_put_decision(weir_call *c, const weir_request *r);

/* Does the same for a peek, whose map also has the request's figures. */
void weir_call_put_peek(weir_call *c, const weir_request *r);

/* Writes the head of a decision and its six fields. The caller adds `more_in_map` pairs if
 * c->with_names, else `more_in_array` values.
 *  next_ns  the time until a cost of 1 is allowed, as weir_request.next_ns; only for a map. */
void weir_call_put_fields(weir_call *c, const weir_decision *d, int64_t next_ns, size_t more_in_map,
                          size_t more_in_array);

/* Write parts of a decision. weir_call_put_name() writes the name of a member if the decision is a
 * map. The other two write a member with its name if it is a map, otherwise nothing. */
void weir_call_put_name(weir_call *c, const char *name);
void weir_call_put_policy(weir_call *c, const weir_request *r);
void weir_call_put_layer(weir_call *c, const weir_decision *d);

/* Writes a named policy, as WEIR.POLICY GET and LIST show it. */
void weir_call_put_rule(weir_call *c, const weir_rule_view *rule);

static inline void weir_call_put_text(weir_call *c, const char *text)
{
    c->backend->bulk(c, text, strlen(text));
}

#endif
