/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_PASSED_H
#define WEIR_NET_PASSED_H
/* Listening sockets that the parent process has opened: the socket activation of systemd, which
 * sd_listen_fds(3) describes. */

#include "net/listen.h"

typedef struct net_passed_socket {
    int fd;
    weir_listen_socket listening;
    char name[64]; /* from LISTEN_FDNAMES; "" without */
    bool used;
} net_passed_socket;

typedef struct net_passed {
    net_passed_socket sockets[WEIR_LISTENERS_MAX];
    size_t len;
} net_passed;

/* Adopts the sockets that LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES describe. There are none if
 * LISTEN_PID is another process.
 *  first      the descriptor of the first socket: NET_PASSED_FIRST.
 *  ret_error  on WEIR_E_IO the reason; `size` bytes.
 * Returns WEIR_OK; WEIR_E_IO if a variable is malformed or a descriptor is no listening socket. */
#define NET_PASSED_FIRST 3
WEIR_NODISCARD weir_status net_passed_read(net_passed *ret, int first, char *ret_error,
                                           size_t size);

/* Uses the socket with the address of a listener, if there is one, and takes its descriptor.
 *  ret, ret_fds, n, ret_error, size  as in weir_listen_open(); the n sockets are duplicates.
 *  ret_found  whether there is one; if not, nothing else is written.
 * Returns WEIR_OK; WEIR_E_IO. */
WEIR_NODISCARD weir_status net_passed_use(net_passed *passed, const weir_listen_address *address,
                                          weir_listen_socket *ret, int *ret_fds, unsigned n,
                                          bool *ret_found, char *ret_error, size_t size);

/* Returns WEIR_OK if all sockets are used; else WEIR_E_IO, with the name and the address of one
 * that is not in ret_error. */
WEIR_NODISCARD weir_status net_passed_check(const net_passed *passed, char *ret_error, size_t size);

#endif
