/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_PRINT_H
#define WEIR_CMD_CLIENT_PRINT_H
/* Prints a daemon's reply to standard output, as text or as JSON. */

#include "codec/resp/reply_reader.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum client_reply_kind {
    CLIENT_REPLY_DECISION, /* WEIR.TAKE, WEIR.PEEK: the fields of a decision */
    CLIENT_REPLY_REFUND,   /* WEIR.REFUND: the same fields, after the refund */
    CLIENT_REPLY_CHARGE,   /* WEIR.CHARGE: the same fields, after the charge, and the units over */
    CLIENT_REPLY_RESERVE,  /* WEIR.RESERVE: the same fields, and the id of the reservation */
    CLIENT_REPLY_RENEW,    /* WEIR.RENEW: as WEIR.REFUND, without the policy */
    CLIENT_REPLY_SETTLE,   /* WEIR.COMMIT, WEIR.CANCEL: as WEIR.CHARGE, without the policy */
    CLIENT_REPLY_RESET,    /* WEIR.RESET: OK */
    CLIENT_REPLY_LINES,    /* WEIR.EXPLAIN: a list of lines */
    CLIENT_REPLY_TOP,      /* WEIR.TOP */
    CLIENT_REPLY_POLICIES, /* WEIR.POLICY LIST */
    CLIENT_REPLY_PONG      /* PING: PONG */
} client_reply_kind;

typedef enum client_print_status {
    CLIENT_PRINT_OK,
    CLIENT_PRINT_DENIED,     /* printed; the decision is a denial */
    CLIENT_PRINT_UNEXPECTED, /* the reply does not have the form of its kind; nothing was printed */
    CLIENT_PRINT_NOT_WRITTEN /* writing to standard output failed; errno says why */
} client_print_status;

/* Prints one reply.
 *  policy  as the user wrote it, for replies that do not repeat it.
 *  cost    of the request.
 *  keep    what it keeps, as text; NULL: nothing.
 *  json    print one JSON object on one line, with the members of the daemon's HTTP reply; ignored
 *          for CLIENT_REPLY_LINES. */
client_print_status client_print(client_reply_kind kind, const weir_resp_reply *reply,
                                 const char *policy, int64_t cost, const char *keep, bool json);

#endif
