/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_CLIENTS_H
#define WEIR_NET_CLIENTS_H
/* The clients of a server: their addresses, the limits on them, how their connections are counted,
 * and the header with which a proxy names one. */

#include "port/port.h"

/* ---- addresses ------------------------------------------------------------------------------- */

/* The address and port of a client. */
typedef struct weir_peer_address {
    uint8_t bytes[16]; /* in network order; an IPv4 address has 4, followed by zeros */
    bool v6;           /* an IPv4-mapped address is an IPv4 address */
    uint16_t port;
} weir_peer_address;

#define WEIR_PEER_TEXT_MAX 64

/* Prints the address of a client: "192.0.2.7:51234", "[2001:db8::7]:51234", "unix", or "unknown" if
 * the connection is closed.
 *  wake_ctx  the argument of the protocol's open() for this session.
 * Call it on the loop's thread before the session is closed. */
void weir_server_peer(const void *wake_ctx, char ret[static WEIR_PEER_TEXT_MAX]);

/* The same, in binary. Returns false for a client of a Unix socket, or if the connection is closed:
 * *ret is then unchanged. */
bool weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret);

/* Whether the client has shown a certificate whose common name, or a DNS name or URI of which, is
 * this text, byte by byte. As weir_server_peer(). */
bool weir_server_peer_has_name(const void *wake_ctx, const char *name);

/* The index in options.listens of the listener that accepted the connection of a session. As
 * weir_server_peer(). */
size_t weir_server_listener(const void *wake_ctx);

/* ---- limits ---------------------------------------------------------------------------------- */

/* Limits on clients, which weir_server_configure() can replace. docs/internals/net.md documents
 * what happens at each of them. */
typedef struct weir_server_limits {
    int connections; /* open connections of all loops, 1 or more; further ones are refused. Some are
                        reserved for local clients: see net_admission_reserved() */
    int per_address; /* open connections of one client, an IPv4 address or an IPv6 /64; 0: no limit.
                        Unix sockets, loopback addresses, and addresses for which may_proxy()
                        returns true have no limit. On a listener with proxy_protocol, the client in
                        the header counts. A connection that was opened without a limit is not
                        counted */
    bool any_proxy;  /* may_proxy() is not asked: every proxy may report a client on a listener with
                        proxy_protocol, and no address is without limit as a proxy */
    size_t buffers;  /* bytes of unanswered input and unsent output, over all connections */
    size_t request;  /* bytes of one request, 1..2^30. The protocol should have a smaller limit of
                        its own, for which it can send a better error */
    /* Timeouts; 0: none. */
    int64_t idle_ns;    /* without any input */
    int64_t request_ns; /* from the first byte of a request to its last; also until a new client
                           has sent its first byte, and the password */
    int64_t write_ns;   /* without progress in sending to a client that does not read */
    /* Times of the end, 0..WEIR_NOW_NS_MAX / 8. */
    int64_t grace_ns; /* how long the server still accepts connections after SIGTERM, so that load
                         balancers can learn that it is stopping; 0: not at all */
    int64_t drain_ns; /* how long it waits for clients to read their replies after that */
} weir_server_limits;

/* ---- admission (admission.c) ----------------------------------------------------------------- */

/* Counts the open connections of each client, over all loops. A client is an IPv4 address, or the
 * /64 of an IPv6 address. It must not know any connection. */

/* A client; all zero: none, whose connections are not counted. */
typedef struct net_client {
    uint64_t address;
    uint32_t family; /* 4 or 6 */
} net_client;

typedef struct net_admission {
    port_mutex *lock; /* guards the others */
    struct net_client_count *at;
    size_t size, used;
    uint64_t secret[2]; /* so that nobody can choose addresses that collide */
} net_admission;

/* Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO without random numbers. */
WEIR_NODISCARD weir_status net_admission_open(net_admission *a);
void net_admission_close(net_admission *a); /* accepts one that is all zero */

/* The client with this address; none for a loopback address. Pure. */
net_client net_client_of(const weir_peer_address *address);

/* Counts a connection of a client.
 *  max  1 or more.
 * Returns WEIR_OK; WEIR_E_BUSY if the client has `max` open connections; WEIR_E_NOMEM. Threads:
 * any. */
WEIR_NODISCARD weir_status net_admission_enter(net_admission *a, const net_client *client, int max);

/* Ends what net_admission_enter() has counted. Threads: any. */
void net_admission_leave(net_admission *a, const net_client *client);

/* The size of each of the two reserved shares of `connections`. Only Unix sockets may use the
 * first, and only Unix sockets and loopback addresses the second. Pure. */
int net_admission_reserved(int connections);

/* ---- the PROXY protocol (proxy_protocol.c) --------------------------------------------------- */

/* The PROXY protocol, versions 1 and 2: a header with which a proxy begins a connection, to report
 * the address of its client. This file must not know connections.
 * Source: "The PROXY protocol", Willy Tarreau, revision of 2020. */

/* The longest header that is accepted, in bytes. Version 1 has at most 107. */
#define WEIR_PROXY_HEADER_MAX 4096

typedef struct weir_proxy_header {
    size_t len;       /* bytes of the header */
    bool has_address; /* false: the address of the connection counts (LOCAL, UNKNOWN, no TCP) */
    weir_peer_address client;
} weir_proxy_header;

typedef enum weir_proxy_result {
    WEIR_PROXY_MORE, /* the bytes so far are the beginning of a header */
    WEIR_PROXY_DONE,
    WEIR_PROXY_MALFORMED
} weir_proxy_result;

/* Reads the header at the front of what a connection received. The result is the same for every
 * split of the bytes: a malformed header is never DONE first. Pure.
 *  ret      written on DONE.
 *  ret_why  written on MALFORMED: what is wrong; static. */
weir_proxy_result weir_proxy_header_read(const uint8_t *bytes, size_t len, weir_proxy_header *ret,
                                         const char **ret_why);

#endif
