/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_CALL_H
#define WEIR_CODEC_RESP_CALL_H
/* One RESP request under way: what the files of commands share. For them only. */

#include "codec/resp_session.h"

typedef struct weir_resp_call {
    weir_resp_session *session;
    const weir_resp_arg *arg;
    size_t args;
    weir_buffer *out;
    int64_t now_ns;
    bool with_names; /* the request ended with WITHNAMES: a decision is answered as a map */
    bool waits;      /* an engine is asked: there is no reply, and the request is to be run again */
    /* Why the session stops behind the last request: READ, it does not; AGAIN, `out` must be sent
     * before that request is run; WAIT, its reply is held until held_ns. */
    weir_session_next stop;
    int64_t held_ns;
} weir_resp_call;

typedef struct weir_resp_command {
    const char *name;               /* in upper case */
    void (*run)(weir_resp_call *c); /* writes exactly one reply, or sets `waits` */
    int args_min, args_max;         /* with the name; args_max 0: any number */
    int key;                        /* arg[key] is one; 0: none is */
    bool names; /* WITHNAMES may follow all other arguments; it is removed before `run` */
    const char *usage;
} weir_resp_command;

/* "-..." of a format, cut at 500 bytes. */
__attribute__((format(printf, 2, 3))) void weir_resp_put_errorf(weir_resp_call *c,
                                                                const char *format, ...);

/* Whether arg[i] is `word`, in any case. */
static inline bool weir_resp_call_is(const weir_resp_call *c, size_t i, const char *word)
{
    return weir_resp_word_is(c->arg[i], word);
}

static inline weir_slice weir_resp_call_text(const weir_resp_call *c, size_t i)
{
    return (weir_slice){(const char *)c->arg[i].at, c->arg[i].len};
}

/* What a connection says about itself (resp_connection.c). */
void weir_resp_auth(weir_resp_call *c);
void weir_resp_hello(weir_resp_call *c);
void weir_resp_client(weir_resp_call *c);
void weir_resp_select(weir_resp_call *c);
void weir_resp_config(weir_resp_call *c);
void weir_resp_info(weir_resp_call *c);

/* Decisions (resp_take.c). The first reads "name policy key [COST n]" of 3 to 5 words into what an
 * ask wants to know; returns NULL, or what is wrong. weir_resp_put_ask_error() answers with that.
 * The last writes an answer. */
const char *weir_resp_read_ask(const weir_resp_call *c, bool by_text, weir_request *ret);
void weir_resp_put_ask_error(weir_resp_call *c, const char *error);
void weir_resp_put_answer(weir_resp_call *c, const weir_request *ask);

/* The pieces of these two: arg[i] and arg[i + 1] as policy and key; a cost; an error, with `where`
 * it is. */
weir_request weir_resp_ask_about(const weir_resp_call *c, size_t i);
const char *weir_resp_read_cost(const weir_resp_call *c, size_t i, int64_t *ret);
void weir_resp_put_status(weir_resp_call *c, weir_status st, size_t key_len, const char *where);
void weir_resp_put_failure(weir_resp_call *c, const weir_request *ask, const char *where);

/* A decision is an array in RESP2 and in RESP3, and a map only if c->with_names. The head and the
 * six figures; the caller adds `more_in_map` pairs or `more_in_array` values. */
void weir_resp_put_figures(weir_resp_call *c, const weir_decision *d, size_t more_in_map,
                           size_t more_in_array);
/* The name of the value that the caller adds next; nothing in an array. */
void weir_resp_put_name(weir_resp_call *c, const char *name);
/* The pairs "policy" and "layer"; nothing in an array. */
void weir_resp_put_policy(weir_resp_call *c, const weir_request *ask);
void weir_resp_put_layer(weir_resp_call *c, const weir_decision *d);

void weir_resp_peek(weir_resp_call *c);
void weir_resp_refund(weir_resp_call *c);
void weir_resp_reset(weir_resp_call *c);
void weir_resp_explain(weir_resp_call *c);
void weir_resp_policy(weir_resp_call *c);
void weir_resp_throttle(weir_resp_call *c);

/* Several at once, and for the time being (resp_all.c). */
void weir_resp_take_all(weir_resp_call *c);
void weir_resp_reserve(weir_resp_call *c);
void weir_resp_commit(weir_resp_call *c);
void weir_resp_cancel(weir_resp_call *c);
void weir_resp_top(weir_resp_call *c); /* resp_top.c */

#endif
