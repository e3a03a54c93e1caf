/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_SESSION_H
#define WEIR_CODEC_SPOP_SESSION_H
/* A server session of SPOP 2.0, the protocol of HAProxy's stream processing offload engine (SPOE):
 * HAProxy sends the messages of a request, and weir answers with variables. docs/haproxy.md
 * documents messages and variables. All messages that one run() finds are decided as one batch. A
 * session reads and writes buffers; it opens no socket and reads no clock. */

#include "codec/spop/frame.h"
#include "codec/spop/messages.h"
#include "port/buffer.h"
#include "port/session.h"
#include "service/rules/answer.h"
#include "service/service.h"
#include "service/users/users.h"

#define WEIR_SPOP_ARGS_MAX 64 /* arguments of a message */

/* Shared by the sessions of one thread. */
typedef struct weir_spop_options {
    weir_service *service;
    weir_spop_loop *loop;
    weir_access *access; /* of the thread; NULL: no users. A peer is the `ctx` of the session's
                            completion */
} weir_spop_options;

typedef struct weir_spop_session {
    const weir_spop_options *options;
    /* `ready` and `ctx` belong to the owner of the session. Set them after init; without them only
     * the local engine can be used. */
    weir_completion completion;
    weir_login login;          /* by the listener or a certificate: SPOP has no passwords */
    const weir_answer *answer; /* of the listener, for the variables that are header fields; its
                                  owner may set it after init */
    weir_spop_messages *held;  /* of the pending batch; NULL: nothing is pending */
    size_t frame_max;          /* bytes of a frame: as announced, and then as negotiated */
    int64_t last_ns;           /* when the last HELLO or NOTIFY frame arrived */
    bool greeted;              /* the HELLO frames were exchanged */
    bool closing;              /* send the output, then close */
    bool stopping;             /* the server stops: disconnect when no reply is due */
    bool idle;                 /* of a stopping server: disconnect at the next run */
} weir_spop_session;

/* options must outlive the session, and belong to the same thread. The session must not move. */
void weir_spop_session_init(weir_spop_session *s, const weir_spop_options *options);

/* Cancels requests that are in flight to an engine. */
void weir_spop_session_close(weir_spop_session *s);

/* Answers every complete frame in `in`, in their order, and drops it from there. All are decided at
 * now_ns. Stops early when `out` holds more than out_pause bytes. Frames that wait for an engine
 * stay in `in` until it has replied, and so do all frames after them. */
weir_session_step weir_spop_session_run(weir_spop_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns);

/* See weir_protocol.poll(). When the server stops, the session sends a DISCONNECT frame with the
 * status "normal": after its next replies, so that HAProxy does not wait for one, or at once if it
 * has been idle. */
bool weir_spop_session_poll(weir_spop_session *s, int64_t now_ns, bool stopping);

/* ---- answers (answer.c) ---------------------------------------------------------------------- */

/* The ACK frame that answers a NOTIFY frame: its decisions as variables of HAProxy. */

#define WEIR_SPOP_DECIDED_MAX 16 /* messages of a frame that have a policy */

/* The variables that an ACK frame sets, as bits: `allowed`, `retry_after` and so on, and one for
 * each header field. */
#define WEIR_SPOP_ALL_VARIABLES UINT32_MAX

/* Returns the bit of a variable; 0: there is none of this name. Pure. */
uint32_t weir_spop_variable(const char *name, size_t len);

/* Returns the name of variable i, counted from 0; NULL after the last. Pure. */
const char *weir_spop_variable_name(size_t i);

/* A NOTIFY frame whose requests are decided. */
typedef struct weir_spop_answer {
    uint64_t stream_id, frame_id;
    const weir_request *requests;
    size_t len;         /* 0..WEIR_SPOP_DECIDED_MAX; 0: the frame has no message with a policy */
    const char *error;  /* why a message has no decision; NULL: none */
    bool refused;       /* the message is invalid: the request is denied */
    bool aborted;       /* HAProxy has cancelled it */
    weir_answer answer; /* of the listener */
    uint32_t variables; /* to set or unset; `allowed` always is */
} weir_spop_answer;

/* Appends an ACK frame. Its variables have the scope `txn`. Variables that are header fields are
 * left out if they do not fit; the others always fit.
 *  frame_max  bytes of a frame, WEIR_SPOP_FRAME_MIN or more.
 * Returns false if the frame has an error and no decision. */
bool weir_spop_put_answer(weir_buffer *out, size_t frame_max, const weir_spop_answer *a,
                          int64_t now_ns);

#endif
