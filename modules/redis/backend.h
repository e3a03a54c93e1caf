/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_BACKEND_H
#define WEIR_MODULES_REDIS_BACKEND_H
/* The module's backend of commands (codec/command.h): replies go to the server, decisions to the
 * keyspace. */

#include "codec/command.h"
#include "keyspace.h"

/* A command that is running. */
typedef struct weir_module_call {
    weir_call call; /* first: the backend's functions get its address */
    redis_ctx *ctx;
    redis_string **argv;
    redis_string *key; /* the first key */
} weir_module_call;

extern const weir_backend weir_module_backend;

enum { WEIR_MODULE_ARGS_MAX = 64 }; /* no command reads more arguments */

/* Makes a call of argc arguments. The first WEIR_MODULE_ARGS_MAX are decoded into `arg`, except
 * arg[0], the name of the command, which is empty.
 *  key  the index of the first key; 0: none */
weir_module_call weir_module_call_make(redis_ctx *ctx, redis_string **argv, int argc, int key,
                                       weir_slice arg[WEIR_MODULE_ARGS_MAX]);

/* Interns the policy of a request, and checks the key. Returns WEIR_OK with a reference that the
 * caller drops; WEIR_E_ABSENT for an unknown name; WEIR_E_RANGE for the key; or as
 * weir_policy_parse(), with r->error written. */
WEIR_NODISCARD weir_status weir_request_intern(weir_request *r, weir_interned **ret);

/* Decides a request on the first key of a call, and writes the state back. Writes r->status, and on
 * WEIR_OK r->decision and r->policy. Returns false if it has replied with an error itself.
 *  ret_granted  units that WEIR_VERB_GRANT charged; else 0. */
bool weir_module_decide(weir_module_call *c, weir_verb verb, weir_request *r, int64_t *ret_granted);

/* Replies that a key holds a value of another type. */
void weir_module_wrong_type(redis_ctx *ctx);

/* ---- WEIR.TAKEALL and WEIR.ASKALL (take_all.c) ----------------------------------------------- */

bool weir_module_take_all(weir_call *c, weir_request *r, size_t n, weir_all_result *ret);

int weir_ask_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_ask_all_command(redis_ctx *ctx, redis_string **argv, int argc);

#endif
