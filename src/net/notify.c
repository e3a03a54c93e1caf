/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A datagram to a Unix socket, by its path or its abstract name. */

#define _GNU_SOURCE /* SOCK_CLOEXEC */

#include "net/notify.h"

#include "port/file.h"
#include "port/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weir_status refuse(const char *name, const char *value, const char *expected,
                          char *ret_error, size_t size)
{
    snprintf(ret_error, size, "%s='%s': expected %s", name, value, expected);
    return WEIR_E_IO;
}

/* Reads a path "/run/x", or an abstract name "@x". */
static bool read_socket(const char *text, net_notifier *ret)
{
    size_t len = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || len < 2 || len >= sizeof ret->to.sun_path)
        return false;
    ret->to.sun_family = AF_UNIX;
    memcpy(ret->to.sun_path, text, len);
    if (text[0] == '@')
        ret->to.sun_path[0] = '\0';
    ret->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return true;
}

static weir_status read_watchdog(net_notifier *ret, char *ret_error, size_t size)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t n, id;
    if (!usec)
        return WEIR_OK;
    if (pid && !weir_decimal_read(pid, strlen(pid), INT32_MAX, &id))
        return refuse("WATCHDOG_PID", pid, "the id of a process", ret_error, size);
    if (!weir_decimal_read(usec, strlen(usec), WEIR_NOW_NS_MAX / 1000, &n) || n == 0)
        return refuse("WATCHDOG_USEC", usec, "a number of microseconds, 1 or more", ret_error,
                      size);
    if (!pid || id == (uint64_t)port_process_id())
        ret->watchdog_ns = (int64_t)n * 1000;
    return WEIR_OK;
}

weir_status net_notifier_read(net_notifier *ret, char *ret_error, size_t size)
{
    const char *text = getenv("NOTIFY_SOCKET");
    *ret = (net_notifier){.to_len = 0};
    if (!text)
        return WEIR_OK;
    if (!read_socket(text, ret))
        return refuse("NOTIFY_SOCKET", text,
                      "a path that begins with / or an abstract name that begins with @, of at "
                      "most 107 bytes",
                      ret_error, size);
    return read_watchdog(ret, ret_error, size);
}

bool net_notify(const net_notifier *n, const char *text)
{
    if (n->to_len == 0)
        return true;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    size_t len = strlen(text);
    bool sent = sendto(fd, text, len, MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_len) ==
                (ssize_t)len;
    close(fd);
    return sent;
}
