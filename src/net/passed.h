/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_PASSED_H
#define WEIR_NET_PASSED_H
/* Listening sockets that another process has opened: the socket activation of systemd, which
 * sd_listen_fds(3) describes, and a daemon that hands over to this one (hand_over.h). */

#include "net/listen.h"

/* The sockets of one address. */
typedef struct net_passed_socket {
    int fds[WEIR_SOCKETS_MAX];
    unsigned fds_len;
    weir_listen_socket listening;
    char name[64]; /* from LISTEN_FDNAMES; "" without */
    /* The address as the configuration of the daemon that hands over has it: with port 0, it
     * differs from that of the socket. "" for a socket of systemd. */
    char configured[WEIR_LISTEN_ADDRESS_MAX];
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

/* Adds a socket of a daemon that hands over, and takes its descriptor in any case. Sockets of one
 * address must be added one after the other.
 *  configured  see net_passed_socket.
 *  inherits    see weir_listen_socket.
 * Returns false if it is no listening socket, or one too many. */
bool net_passed_add(net_passed *passed, int fd, const char *configured, bool inherits);

/* Uses the sockets with the address of a listener, if there are any, and takes their descriptors.
 *  ret, n, ret_error, size  as in weir_listen_open().
 *  ret_fds  n sockets, or more if more were passed, WEIR_SOCKETS_MAX at most. If fewer were passed,
 *           the others are duplicates.
 *  ret_len  how many these are; 0: none were passed, and nothing else is written.
 * Returns WEIR_OK; WEIR_E_IO. */
WEIR_NODISCARD weir_status net_passed_use(net_passed *passed, const weir_listen_address *address,
                                          weir_listen_socket *ret, int *ret_fds, unsigned n,
                                          unsigned *ret_len, char *ret_error, size_t size);

/* Whether a daemon that hands over has passed sockets. Accepts NULL. */
bool net_passed_is_from_daemon(const net_passed *passed);

/* Closes the sockets that are not used.
 *  inherit  they belong to this process now, so their socket files are removed. */
void net_passed_close(net_passed *passed, bool inherit);

/* Returns WEIR_OK if all sockets of systemd are used; else WEIR_E_IO, with the name and the address
 * of one that is not in ret_error. */
WEIR_NODISCARD weir_status net_passed_check(const net_passed *passed, char *ret_error, size_t size);

#endif
