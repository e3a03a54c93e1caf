/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_CALL_H
#define WEIR_CODEC_RESP_CALL_H
/* A command that a RESP session is running. Private to the files that run commands of the
 * daemon. */

#include "codec/resp/command.h"
#include "codec/resp/session.h"
#include "port/session.h"

typedef struct weir_resp_call {
    weir_call call; /* first: the backend's functions get its address */
    weir_resp_session *session;
    weir_buffer *out;
    int64_t now_ns;
    bool waits; /* an engine needs time: no reply was written, the command will be run again */
    /* Why the session stops after this command. READ: it does not. AGAIN: `out` must be sent before
     * the command can run. WAIT: the reply is held back until held_ns. */
    weir_session_next stop;
    int64_t held_ns;
} weir_resp_call;

static inline weir_resp_call *weir_resp_call_of(weir_call *c)
{
    return (weir_resp_call *)c;
}

extern const weir_backend weir_resp_backend; /* backend.c */

/* The command table (daemon_commands.c). */
const weir_command *weir_resp_find_command(weir_slice name); /* NULL: unknown */
const weir_command *weir_resp_command_at(size_t i);          /* NULL after the last one */

/* Connection commands (connection_commands.c). */
void weir_resp_ping(weir_call *c);
void weir_resp_echo(weir_call *c);
void weir_resp_auth(weir_call *c);
void weir_resp_acl(weir_call *c);
void weir_resp_hello(weir_call *c);
void weir_resp_select(weir_call *c);
void weir_resp_client(weir_call *c);
void weir_resp_reset(weir_call *c);
void weir_resp_quit(weir_call *c);

/* Transactions (transaction.c). */
void weir_resp_multi(weir_call *c);
void weir_resp_exec(weir_call *c);
void weir_resp_discard(weir_call *c);
void weir_resp_watch(weir_call *c);
void weir_resp_unwatch(weir_call *c);

static inline bool weir_resp_is_queuing(const weir_resp_session *s)
{
    return s->transaction >= WEIR_RESP_QUEUING;
}

/* Queues a command that may run, and replies. Returns false if the command is to be run now.
 *  request, len  its bytes, as the client sent them. */
bool weir_resp_queue(weir_call *c, const weir_command *cmd, const void *request, size_t len);

void weir_resp_end_transaction(weir_resp_session *s);

/* Subscriptions (subscribe.c). */
void weir_resp_subscribe(weir_call *c);
void weir_resp_unsubscribe(weir_call *c);
void weir_resp_end_subscriptions(weir_resp_session *s);

/* Replies that the user has none of these rights. */
void weir_resp_refuse_right(weir_resp_call *c, const char *command, unsigned rights);

/* Whether the user may use a policy, or a policy and a key. If not, they reply with an error. A
 * call that is repeated for an engine was checked before.
 *  key    without bytes (at NULL): all keys.
 *  where  begins the message; "" or as weir_where_request(). */
bool weir_resp_may_see(weir_resp_call *c, weir_slice policy, const char *where);
bool weir_resp_may_use(weir_resp_call *c, weir_slice policy, weir_slice key, const char *where);

/* The policy of a request, for weir_resp_may_use(). */
weir_slice weir_resp_policy_of(const weir_request *r);

/* Server commands (connection_commands.c). */
void weir_resp_config(weir_call *c);
void weir_resp_info(weir_call *c);

/* Decisions that the module does not offer (reserve.c). */
void weir_resp_reserve(weir_call *c);
void weir_resp_renew(weir_call *c);
void weir_resp_commit(weir_call *c);
void weir_resp_cancel(weir_call *c);
void weir_resp_top(weir_call *c);

#endif
