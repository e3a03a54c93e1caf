/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LISTEN_H
#define WEIR_NET_LISTEN_H
/* Listening sockets, TCP and Unix, and their addresses. It must not know any event loop or
 * connection. */

#include "net/clients.h"
#include "port/session.h"

#include <sys/types.h>

#define WEIR_LISTENERS_MAX 24
#define WEIR_SOCKETS_MAX   256 /* of a listener: one for each event loop */

typedef struct weir_listen_address {
    /* "127.0.0.1:6380", "localhost:6380" (which is the same), "[::1]:0", or the path of a Unix
     * socket, which begins with '/'. Port 0 chooses a free port. "[::]:6380" accepts only IPv6. */
    const char *address;
    const weir_protocol *protocol; /* kept by reference */
    struct net_tls_server *tls;    /* NULL: plain text; kept by reference. Not for Unix sockets */
    bool proxy_protocol; /* each connection begins with a PROXY header, before TLS. The address in
                            it is that of the client in every respect */
} weir_listen_address;

#define WEIR_LISTEN_ADDRESS_MAX 128 /* bytes with the NUL; a socket path has at most 107 */

typedef struct weir_listen_socket {
    char text[WEIR_LISTEN_ADDRESS_MAX]; /* the actual address, with the port that was chosen */
    bool is_tcp;
    dev_t device;  /* of the socket file that was created ... */
    ino_t inode;   /* ... 0: none */
    bool inherits; /* that file belongs to the process that has passed the socket, until
                      weir_listen_inherit() */
} weir_listen_socket;

/* Listens on `address` with n sockets. For TCP, the kernel distributes connections among them
 * (SO_REUSEPORT); for a Unix socket, they are duplicates of one.
 *  ret_fds    n non-blocking sockets; written on WEIR_OK.
 *  ret_error  as in weir_server_open().
 * Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_listen_open(weir_listen_socket *ret, const char *address,
                                            int *ret_fds, unsigned n, char *ret_error, size_t size);

/* Listens at a path, which may be relative, for processes of the same user, with messages
 * instead of bytes (SOCK_SEQPACKET). Otherwise as weir_listen_open(). */
WEIR_NODISCARD weir_status weir_listen_packets(weir_listen_socket *ret, const char *path,
                                               int *ret_fd, char *ret_error, size_t size);

/* Makes a socket that already listens, and that another process has opened, one of this server:
 * non-blocking, with the options of weir_listen_open(). Its socket file, if it has one, is not
 * removed by weir_listen_remove().
 *  ret  *ret->text of an abstract Unix socket begins with '@'; written on success.
 * Returns false if it is no listening TCP or Unix stream socket. */
bool weir_listen_adopt(int fd, weir_listen_socket *ret);

/* Writes an address as weir_listen_socket.text has it. Returns false if it is malformed. */
bool weir_listen_normalize(const char *address, char ret[static WEIR_LISTEN_ADDRESS_MAX]);

/* Finds the address of the client of an accepted socket. Returns false for a Unix socket and for a
 * socket that is not connected any more: *ret is then unchanged. */
bool weir_listen_peer(int fd, weir_peer_address *ret);

/* Prints "192.0.2.7:51234" or "[2001:db8::7]:51234". */
void weir_listen_print_peer(const weir_peer_address *a, char ret[static WEIR_PEER_TEXT_MAX]);

typedef enum weir_listen_trial {
    WEIR_LISTEN_FREE,
    WEIR_LISTEN_IN_USE,    /* another server listens on it */
    WEIR_LISTEN_IMPOSSIBLE /* weir_listen_open() would fail for another reason */
} weir_listen_trial;

/* Checks whether weir_listen_open() would succeed now. It does not listen, and does not change a
 * socket file.
 *  ret_error  as in weir_listen_open(); written on WEIR_LISTEN_IMPOSSIBLE. */
weir_listen_trial weir_listen_try(const char *address, char *ret_error, size_t size);

/* The same for weir_listen_packets(). */
weir_listen_trial weir_listen_try_packets(const char *path, char *ret_error, size_t size);

/* Takes over the socket file of a socket that another process has passed, if it created one. */
void weir_listen_inherit(weir_listen_socket *l);

/* Removes the socket file unless another one has replaced it. Does not close the sockets. */
void weir_listen_remove(const weir_listen_socket *l);

#endif
