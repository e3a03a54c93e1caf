/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_CONNECTION_H
#define WEIR_CMD_CLIENT_CONNECTION_H
/* A RESP3 connection to a daemon, over TCP, TLS or a Unix socket, with a deadline for all of its
 * work. It sends requests and reads their replies. The only request that it knows is HELLO. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/client/target.h"
#include "codec/resp/reply_reader.h"
#include "net/tls/client.h"
#include "port/buffer.h"
#include "port/text.h"

#include <sys/socket.h>

#define CLIENT_TIMEOUT_NS INT64_C(5000000000)

typedef enum client_status {
    CLIENT_OK,
    CLIENT_USAGE,       /* the options are wrong */
    CLIENT_UNREACHABLE, /* no connection was possible: perhaps no daemon runs there */
    CLIENT_FAILED,      /* another failure, for example a timeout or a wrong password */
    CLIENT_WAITING      /* client_read() only: the reply is not complete */
} client_status;

/* Callers may read `fd`, `deadline_ns`, `reply`, `error` and `to.name`. The other fields are
 * private. */
typedef struct client {
    int fd;              /* -1 if there is none */
    int64_t deadline_ns; /* on the steady clock */
    client_target to;
    struct sockaddr_storage address; /* the last one that was tried */
    socklen_t address_len;
    port_tls *tls;            /* NULL: not encrypted */
    net_tls_session *session; /* with `tls`, NULL only before the handshake */
    bool established;         /* the handshake is complete */
    bool greeted;             /* HELLO was answered once */
    const char *tls_name;     /* the name that the server's certificate must have */
    weir_buffer in, out;
    weir_buffer wire;             /* `out`, encrypted */
    size_t used;                  /* bytes of `in` that the last reply takes */
    weir_resp_reply reply;        /* valid until the next request */
    char error[CLIENT_ERROR_MAX]; /* why the last call failed, without a newline */
} client;

/* Connects and sends HELLO 3.
 *  c           always written; free it with client_close().
 *  login       not used after the call, but its strings are.
 *  timeout_ns  above 0; for everything that is done with the connection until it is closed. */
client_status client_open(client *c, const client_login *login, int64_t timeout_ns);

/* Sends a request of n words and reads its reply. Returns CLIENT_OK for an error reply, too. */
client_status client_request(client *c, const weir_slice *words, size_t n);

/* Connects again, to the address that the first connection had, without resolving a name.
 *  c  opened with client_open(), which returned CLIENT_OK, and not closed. */
client_status client_reopen(client *c, int64_t timeout_ns);

/* Sets the deadline for what is done from now on.
 *  timeout_ns  above 0. */
void client_set_timeout(client *c, int64_t timeout_ns);

/* Sends a request without waiting for the reply, which client_read() reads. */
client_status client_send(client *c, const weir_slice *words, size_t n);

/* Reads what has arrived of a reply, without waiting. Returns CLIENT_WAITING if the rest of it is
 * still missing: poll `fd` then. */
client_status client_read(client *c);

/* Accepts a client that could not be opened. */
void client_close(client *c);

#endif
