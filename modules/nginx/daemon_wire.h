/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NGINX_DAEMON_WIRE_H
#define WEIR_NGINX_DAEMON_WIRE_H
/* Questions to a daemon and its replies, in RESP2: WEIR.CHECK for one limit, WEIR.TAKEALL for
 * several. It knows neither nginx nor sockets, so that it is tested and fuzzed alone. All functions
 * are pure but for the buffer. */

#include "port/buffer.h"
#include "port/text.h"

#include <weir/weir.h>

#define WEIR_NGX_ASK_MAX 16 /* limits in a question */

/* The longest question in bytes: longer ones are refused by the daemon's parser. */
#define WEIR_NGX_QUESTION_LEN_MAX (1u << 20)

typedef struct weir_ngx_ask_limit {
    weir_slice text; /* the canonical text of a policy */
    weir_slice key;  /* 1..65536 bytes */
    int64_t cost;    /* 0..WEIR_COST_MAX */
    int64_t keep;    /* see weir_check_keep() */
} weir_ngx_ask_limit;

/* An upper bound of the bytes that weir_ngx_wire_put() appends. */
size_t weir_ngx_wire_size(const weir_ngx_ask_limit *limit, size_t limits);

/* Appends a question: all limits are charged together, or none is.
 *  limits  1..WEIR_NGX_ASK_MAX
 * If memory runs out, out->failed is set. */
void weir_ngx_wire_put(weir_buffer *out, const weir_ngx_ask_limit *limit, size_t limits);

/* Appends the first command on a connection: AUTH, or PING without a password. */
void weir_ngx_wire_put_greeting(weir_buffer *out, weir_slice password);

typedef enum weir_ngx_reading {
    WEIR_NGX_READ_DECISION,
    WEIR_NGX_READ_GREETING, /* a simple string, the reply to AUTH and PING */
    WEIR_NGX_READ_ERROR,    /* an error reply */
    WEIR_NGX_READ_MORE,     /* incomplete: call again with more bytes */
    WEIR_NGX_READ_BAD       /* not a reply of a daemon: close the connection */
} weir_ngx_reading;

typedef struct weir_ngx_reply {
    size_t used;            /* bytes of the reply; written unless the result is MORE or BAD */
    weir_decision decision; /* times are whole milliseconds, `layer` is 0 */
    size_t index;           /* the limit that the decision describes */
    weir_slice error;       /* of an error reply; points into the input */
} weir_ngx_reply;

/* Parses the reply at the front of the input.
 *  limits  how many the question had; 0: the reply to the greeting
 *  ret     only the members that the result needs are written. */
weir_ngx_reading weir_ngx_wire_read(const uint8_t *bytes, size_t len, size_t limits,
                                    weir_ngx_reply *ret);

#endif
