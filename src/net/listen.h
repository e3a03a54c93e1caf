/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_LISTEN_H
#define WEIR_NET_LISTEN_H
/* Addresses, and the sockets that listen on them. It must not know any loop or connection. */

#include <weir/weir.h>

#include <sys/types.h>

#define WEIR_ADDRESS_TEXT_MAX 128 /* the path of a socket file has 107 bytes at most */

typedef struct weir_listening {
    char text[WEIR_ADDRESS_TEXT_MAX]; /* where it really listens */
    bool is_tcp;
    dev_t device; /* of the socket file that was made ... */
    ino_t inode;  /* ... 0: none */
} weir_listening;

/* Listens on `address` with n sockets, among which the system shares the connections (TCP), or
 * which are the same (a socket file).
 *  ret_fds    n of them, not blocking; written on WEIR_OK.
 *  ret_error  as weir_server_open().
 * Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_listening_open(weir_listening *ret, const char *address,
                                               int *ret_fds, unsigned n, char *ret_error,
                                               size_t size);

/* Prints who is at the other end of an accepted socket, as weir_server_peer(). */
void weir_listening_peer(int fd, char *ret, size_t size);

typedef enum weir_listening_trial {
    WEIR_LISTENING_FREE,
    WEIR_LISTENING_IN_USE,    /* another server listens there */
    WEIR_LISTENING_IMPOSSIBLE /* for this process, or on this machine */
} weir_listening_trial;

/* Says what weir_listening_open() would find at an address now. It listens on nothing, and leaves a
 * socket file as it is.
 *  ret_error  as weir_listening_open(); written on WEIR_LISTENING_IMPOSSIBLE. */
weir_listening_trial weir_listening_try(const char *address, char *ret_error, size_t size);

/* Removes the socket file, if it is still the one that was made. The sockets are the caller's. */
void weir_listening_remove(weir_listening *l);

#endif
