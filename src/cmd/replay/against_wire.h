/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_AGAINST_WIRE_H
#define WEIR_CMD_REPLAY_AGAINST_WIRE_H
/* A connection to a running daemon, over RESP or HTTP: takes in batches, and their answers. */

#include "cmd/client/connection.h"
#include "cmd/replay/against_bounds.h"
#include "service/service.h"

#define AGAINST_URL_EXPECTED "resp://HOST:PORT, redis://HOST:PORT, http://HOST:PORT or unix:///PATH"

/* Callers may read `url`. */
typedef struct against_wire {
    const char *url;
    /* Private: */
    client c;
    bool http;
    char server[256];        /* the address without its scheme */
    char authorization[700]; /* the HTTP header with its CR LF; "" without a password */
} against_wire;

/* Connects.
 *  ret       zeroed by the caller; free it with against_wire_close(), also after a failure.
 *  password  NULL for none.
 * Returns 0, or the exit status after printing an error. */
int against_wire_open(against_wire *ret, const char *url, const char *password);
void against_wire_close(against_wire *w);

/* The functions below return 0, or the exit status after printing an error. */

/* Waits, while no answers are due. A lost connection is an error at once.
 *  ms  1..INT_MAX. */
int against_wire_wait(against_wire *w, int ms);

/* Appends a request to the batch: `rule`, `by_text`, `key` and `cost` of *r. */
int against_wire_put(against_wire *w, const weir_request *r);

/* Sends the batch. From then on there are five seconds for its answers. */
int against_wire_send(against_wire *w);

/* Reads the answer to the next request of the batch. An error reply is printed, with the place of
 * the request.
 *  file, line  the place. */
int against_wire_read(against_wire *w, const char *file, uint64_t line, against_answer *ret);

#endif
