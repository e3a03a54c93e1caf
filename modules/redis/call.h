/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_CALL_H
#define WEIR_MODULES_REDIS_CALL_H
/* A command under way: its arguments and its replies, which are the daemon's to the letter. For the
 * files of commands. */

#include "keyspace.h"

#include <weir/weir_store.h>

#include <string.h>

typedef struct weir_arg { /* not terminated */
    const char *at;
    size_t len;
} weir_arg;

typedef struct weir_call {
    redis_ctx *ctx;
    redis_string **argv;
    int argc;
    bool with_names; /* it ended with WITHNAMES: a decision is answered as a map */
} weir_call;

static inline weir_arg weir_call_arg(const weir_call *c, int i)
{
    weir_arg a;
    a.at = redis.StringPtrLen(c->argv[i], &a.len);
    return a;
}

/* Whether a is `word`, which is in capitals, in any case. */
bool weir_arg_is(weir_arg a, const char *word);

/* A whole number in decimal, as RESP writes them. */
bool weir_arg_i64(weir_arg a, int64_t *ret);

/* The call of a command that decides. WITHNAMES is removed from the end, but only if there are more
 * than argc_min arguments, so a key may have that name. */
weir_call weir_call_decision(redis_ctx *ctx, redis_string **argv, int argc, int argc_min);

/* "-..." of a format, cut at 500 bytes, without control bytes. Returns REDIS_OK, as commands do. */
__attribute__((format(printf, 2, 3))) int weir_call_error(const weir_call *c, const char *format,
                                                          ...);

/* ---- a request ------------------------------------------------------------------------------- */

/* What a command wants to know of one key. */
typedef struct weir_wish {
    weir_arg policy, key;
    redis_string *key_name;
    int64_t cost;
    bool by_program;      /* errors of the policy begin as weir's programs look for them */
    weir_interned *scope; /* once found; a reference */
    weir_policy_error error;
} weir_wish;

/* argv[i] and argv[i + 1] as policy and key. */
weir_wish weir_call_wish(const weir_call *c, int i);

/* argv[i] as a cost. NULL, or what is wrong. */
const char *weir_call_cost(const weir_call *c, int i, int64_t *ret);

/* Finds the scope: of a policy's name, or of a text if `by_text` or if it looks like one. Checks
 * the key. Returns WEIR_OK, with a reference; else as weir_intern_text() and _name(), or
 * WEIR_E_RANGE for the key. */
WEIR_NODISCARD weir_status weir_wish_find(weir_wish *w, bool by_text);

/* Answers why not; `where` it is comes first. */
int weir_call_failure(const weir_call *c, const weir_wish *w, weir_status st, const char *where);
int weir_call_wrong_type(const weir_call *c);

/* The head of a map of so many pairs. It is an array of names and values for a client that speaks
 * RESP2, and before Redis 7.0, which has no maps for modules. */
void weir_call_map(const weir_call *c, int pairs);

/* True or false in RESP3, else 1 or 0. */
void weir_call_bool(const weir_call *c, bool v);

/* A decision is an array in RESP2 and in RESP3, and a map only if c->with_names. The head and the
 * six figures; the caller adds `more_in_map` pairs or `more_in_array` values. */
void weir_call_figures(const weir_call *c, const weir_decision *d, int more_in_map,
                       int more_in_array);

/* The pairs "policy" and "layer"; nothing in an array. */
void weir_call_policy(const weir_call *c, const weir_interned *s);
void weir_call_layer(const weir_call *c, const weir_decision *d);

/* The eight integers of WEIR.ASK. */
void weir_call_eight(const weir_call *c, const weir_decision *d, int64_t granted);

static inline void weir_call_text(const weir_call *c, const char *text)
{
    redis.ReplyWithStringBuffer(c->ctx, text, strlen(text));
}

static inline void weir_call_i64(const weir_call *c, int64_t v)
{
    redis.ReplyWithLongLong(c->ctx, v);
}

/* ---- the commands; see commands.c for what they are ------------------------------------------ */

int weir_take_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_check_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_peek_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_refund_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_reset_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_explain_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_take_all_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_ask_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_ask_all_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_policy_set_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_policy_get_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_policy_list_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_policy_del_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_policy_command(redis_ctx *ctx, redis_string **argv, int argc); /* before 7.0: all four */
int weir_throttle_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_help_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_state_command(redis_ctx *ctx, redis_string **argv, int argc);

#endif
