/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_NOTIFY_H
#define WEIR_NET_NOTIFY_H
/* Tells the service manager about the state of the daemon: the protocol of sd_notify(3), without
 * libsystemd. */

#include <weir/weir.h>

#include <sys/socket.h>
#include <sys/un.h>

typedef struct net_notifier {
    struct sockaddr_un to;
    socklen_t to_len;    /* 0: no service manager has asked for notifications */
    int64_t watchdog_ns; /* how long it waits for WATCHDOG=1; 0: for ever */
} net_notifier;

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. WATCHDOG_USEC has no effect without
 * NOTIFY_SOCKET, or if WATCHDOG_PID is another process.
 *  ret_error  on WEIR_E_IO the reason; `size` bytes.
 * Returns WEIR_OK; WEIR_E_IO if a variable is malformed. */
WEIR_NODISCARD weir_status net_notifier_read(net_notifier *ret, char *ret_error, size_t size);

/* Sends assignments such as "READY=1\nSTATUS=serving", in one datagram. It does not wait. Returns
 * false if that failed; true also if there is no service manager. */
bool net_notify(const net_notifier *n, const char *text);

#endif
