/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_MODULE_H
#define WEIR_MODULES_REDIS_MODULE_H
/* What the commands share, and what module.c registers with the server. */

#include "codec/resp/command.h"
#include "keyspace.h"

/* ---- the backend (backend.c) ----------------------------------------------------------------- */

/* The module's backend of the shared commands: replies go to the server, decisions to the
 * keyspace. */

/* A command that is running. */
typedef struct weir_module_call {
    weir_call call; /* first: the backend's functions get its address */
    redis_ctx *ctx;
    redis_string **argv;
    redis_string *key; /* the first key */
    bool of_daemon;    /* keys are named by weir's client: PREFIX{KEY}:NAME */
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

/* weir_key_open(), which replies with the error if the key holds a value of another type. Sets
 * k->of_one_policy if the key is of a daemon and has the name of a policy. */
bool weir_module_open_key(weir_module_call *c, weir_open_key *k, redis_string *name, int mode);

/* Removes `word` from the end of the arguments, but never from the first `needed`: a key may have
 * that name. Returns whether it was there. */
bool weir_module_last_is(redis_string **argv, int *argc, int needed, const char *word);

/* ---- WEIR.TAKEALL and WEIR.ASKALL (take_all.c) ----------------------------------------------- */

bool weir_module_take_all(weir_call *c, weir_request *r, size_t n, weir_all_result *ret);

int weir_ask_command(redis_ctx *ctx, redis_string **argv, int argc);
int weir_ask_all_command(redis_ctx *ctx, redis_string **argv, int argc);

/* ---- registering ----------------------------------------------------------------------------- */

/* Registers all commands (commands.c). Returns false if the server refuses one. */
bool weir_commands_create(redis_ctx *ctx);

/* Registers the data type as weir_data_type (data_type.c). Returns false if the server refuses. */
bool weir_data_type_create(redis_ctx *ctx);

int weir_state_command(redis_ctx *ctx, redis_string **argv, int argc); /* data_type.c */

#endif
