/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ANSWER_H
#define WEIR_CMD_ANSWER_H
/* Prints a daemon's reply on standard output, as words or as JSON. It must not know how the reply
 * was obtained. */

#include "codec/resp_reply.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum answer_kind {
    ANSWER_DECISION, /* WEIR.TAKE, WEIR.PEEK: the figures of a decision */
    ANSWER_REFUND,   /* WEIR.REFUND: the figures afterwards */
    ANSWER_RESET,    /* WEIR.RESET: OK */
    ANSWER_LINES,    /* WEIR.EXPLAIN: a list of lines */
    ANSWER_TOP,      /* WEIR.TOP */
    ANSWER_POLICIES  /* WEIR.POLICY LIST */
} answer_kind;

typedef enum answer_status {
    ANSWER_OK,
    ANSWER_DENIED,     /* printed; an ANSWER_DECISION says that the request is denied */
    ANSWER_UNEXPECTED, /* the reply does not have the form of this kind; nothing was printed */
    ANSWER_NOT_WRITTEN /* errno says why standard output did not take it */
} answer_status;

/* Prints one reply.
 *  policy  as the user named it, for a reply that does not repeat it.
 *  cost    that was asked about.
 *  json    one JSON object on one line, with the members of the daemon's HTTP answer; not for
 *          ANSWER_LINES. */
answer_status answer_print(answer_kind kind, const weir_resp_reply *reply, const char *policy,
                           int64_t cost, bool json);

#endif
