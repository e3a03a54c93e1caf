/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_CONNECTION_H
#define WEIR_CMD_CLIENT_CONNECTION_H
/* One connection to a daemon, over TCP or a Unix socket: a request out, its reply back, in RESP3,
 * until a deadline. It blocks. It must not know what any request means but HELLO. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/resp_reply_reader.h"
#include "port/buffer.h"

#define CLIENT_PORT       "6380"
#define CLIENT_HOST       "127.0.0.1"
#define CLIENT_SERVER     CLIENT_HOST ":" CLIENT_PORT
#define CLIENT_ERROR_MAX  512
#define CLIENT_EXPECTED   "HOST:PORT, PORT, HOST, [IPV6]:PORT or the path of a socket, with a '/'"
#define CLIENT_TIMEOUT_NS INT64_C(5000000000)

typedef enum client_status {
    CLIENT_OK,
    CLIENT_BAD_ADDRESS, /* `server` is none: the caller was called wrongly */
    CLIENT_UNREACHABLE, /* nobody answers there: perhaps no daemon runs */
    CLIENT_FAILED       /* somebody is there, but it went wrong */
} client_status;

/* `reply` and `error` may be read by anybody; the other fields are private. */
typedef struct client {
    int fd; /* -1: none */
    int64_t deadline_ns;
    const char *server;
    char local[32]; /* HOST:PORT, if `server` was a port alone */
    weir_buffer in, out;
    size_t used;                  /* bytes of `in` that the last reply was */
    weir_resp_reply reply;        /* good until the next call */
    char error[CLIENT_ERROR_MAX]; /* unless CLIENT_OK: what is wrong, with no newline */
} client;

/* Connects, and says HELLO 3.
 *  c           written always; client_close() gives it back.
 *  server      CLIENT_EXPECTED; kept by reference.
 *  password    NULL: none.
 *  timeout_ns  above 0: all that is done with the connection must be done by then. */
client_status client_open(client *c, const char *server, const char *password, int64_t timeout_ns);

typedef struct client_word {
    const char *at;
    size_t len;
} client_word;

/* Sends a request of n words and reads its reply. A reply that says it failed is CLIENT_OK too. */
client_status client_request(client *c, const client_word *words, size_t n);

/* Copies text that came from elsewhere, with '?' for what a terminal would obey, and its NUL; cut
 * to `size` bytes, size >= 1. */
void client_printable(const char *text, size_t len, char *ret, size_t size);

/* Accepts one that could not be opened. */
void client_close(client *c);

#endif
