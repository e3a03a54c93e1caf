/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* MULTI, EXEC, DISCARD, WATCH and UNWATCH. The commands between MULTI and EXEC are kept as they
 * were sent. EXEC writes the head of an array, and the session then runs them as if they had
 * arrived together: each reply is an element. Commands of other clients may be decided between
 * them. */

#include "codec/resp/call.h"
#include "codec/resp/session.h"

enum { QUEUE_MAX = 65536 };

static weir_resp_session *session_of(weir_call *c)
{
    return weir_resp_call_of(c)->session;
}

void weir_resp_end_transaction(weir_resp_session *s)
{
    s->transaction = WEIR_RESP_NO_TRANSACTION;
    s->queued = 0;
    weir_buffer_free(&s->queue);
}

void weir_resp_multi(weir_call *c)
{
    weir_resp_session *s = session_of(c);
    if (weir_resp_is_queuing(s)) {
        weir_call_error(c, "ERR MULTI calls can not be nested");
        return;
    }
    s->transaction = WEIR_RESP_QUEUING;
    weir_buffer_init(&s->queue, QUEUE_MAX);
    c->backend->simple(c, "OK");
}

void weir_resp_exec(weir_call *c)
{
    weir_resp_session *s = session_of(c);
    if (s->transaction == WEIR_RESP_QUEUING) {
        c->backend->array(c, s->queued);
        s->transaction = WEIR_RESP_RUNNING;
        return;
    }
    weir_call_error(c, s->transaction == WEIR_RESP_BROKEN
                           ? "EXECABORT Transaction discarded because of previous errors."
                           : "ERR EXEC without MULTI");
    weir_resp_end_transaction(s);
}

void weir_resp_discard(weir_call *c)
{
    weir_resp_session *s = session_of(c);
    if (weir_resp_is_queuing(s))
        c->backend->simple(c, "OK");
    else
        weir_call_error(c, "ERR DISCARD without MULTI");
    weir_resp_end_transaction(s);
}

/* A decision is one step, and none depends on what the client has read before. So EXEC need not
 * fail if another client has used the key since. */
void weir_resp_watch(weir_call *c)
{
    if (weir_resp_is_queuing(session_of(c)))
        weir_call_error(c, "ERR WATCH inside MULTI is not allowed");
    else
        c->backend->simple(c, "OK");
}

void weir_resp_unwatch(weir_call *c)
{
    c->backend->simple(c, "OK");
}

/* Whether the command is run and not queued. */
static bool is_immediate(const weir_command *cmd)
{
    return cmd->run == weir_resp_multi || cmd->run == weir_resp_exec ||
           cmd->run == weir_resp_discard || cmd->run == weir_resp_watch ||
           cmd->run == weir_resp_reset || cmd->run == weir_resp_quit;
}

bool weir_resp_queue(weir_call *c, const weir_command *cmd, const void *request, size_t len)
{
    weir_resp_session *s = session_of(c);
    if (!weir_resp_is_queuing(s) || is_immediate(cmd))
        return false;
    bool changes_connection = cmd->run == weir_resp_auth || cmd->run == weir_resp_hello ||
                              cmd->run == weir_resp_subscribe || cmd->run == weir_resp_unsubscribe;
    if (!changes_connection)
        weir_buffer_append(&s->queue, request, len);
    if (changes_connection || s->queue.failed) {
        weir_call_error(c,
                        changes_connection
                            ? "ERR AUTH, HELLO and subscriptions are not allowed in a transaction"
                            : "ERR the commands of a transaction exceed 65536 bytes, or memory "
                              "is exhausted");
        s->transaction = WEIR_RESP_BROKEN;
        return true;
    }
    s->queued++;
    c->backend->simple(c, "QUEUED");
    return true;
}
