/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A passed socket belongs to the listener that has its address. The configuration alone says which
 * protocol is served where, and with which TLS and password. */

#include "net/passed.h"

#include "port/file.h"
#include "port/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weir_status refuse_variable(const char *name, const char *value, const char *expected,
                                   char *ret_error, size_t size)
{
    snprintf(ret_error, size, "%s='%s': expected %s", name, value, expected);
    return WEIR_E_IO;
}

/* Returns how many sockets were passed to this process; -1 with ret_error. */
static int count_sockets(char *ret_error, size_t size)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t n;
    if (!pid || !fds)
        return 0;
    if (!weir_decimal_read(pid, strlen(pid), INT32_MAX, &n)) {
        (void)refuse_variable("LISTEN_PID", pid, "the id of a process", ret_error, size);
        return -1;
    }
    if (n != (uint64_t)port_process_id())
        return 0;
    if (weir_decimal_read(fds, strlen(fds), WEIR_LISTENERS_MAX, &n))
        return (int)n;
    char expected[64];
    snprintf(expected, sizeof expected, "a number of sockets from 0 to %d", WEIR_LISTENERS_MAX);
    (void)refuse_variable("LISTEN_FDS", fds, expected, ret_error, size);
    return -1;
}

/* Copies the name at the front of a list "a:b:c". Returns the rest of the list; NULL: none. */
static const char *take_name(const char *names, net_passed_socket *ret)
{
    size_t len = strcspn(names, ":");
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)len, names);
    return names[len] == ':' ? names + len + 1 : NULL;
}

weir_status net_passed_read(net_passed *ret, int first, char *ret_error, size_t size)
{
    const char *names = getenv("LISTEN_FDNAMES");
    int n = count_sockets(ret_error, size);
    *ret = (net_passed){.len = 0};
    for (int i = 0; i < n; i++) {
        net_passed_socket *s = &ret->sockets[i];
        s->fd = first + i;
        if (names)
            names = take_name(names, s);
        if (!weir_listen_adopt(s->fd, &s->listening)) {
            snprintf(ret_error, size,
                     "descriptor %d ('%s' of LISTEN_FDNAMES): expected a listening stream socket, "
                     "TCP or Unix",
                     s->fd, s->name);
            return WEIR_E_IO;
        }
        ret->len++;
    }
    return n < 0 ? WEIR_E_IO : WEIR_OK;
}

static net_passed_socket *find(net_passed *passed, const char *address)
{
    char text[WEIR_LISTEN_ADDRESS_MAX];
    if (!weir_listen_normalize(address, text))
        return NULL;
    for (size_t i = 0; i < passed->len; i++) {
        net_passed_socket *s = &passed->sockets[i];
        if (!s->used && strcmp(s->listening.text, text) == 0)
            return s;
    }
    return NULL;
}

weir_status net_passed_use(net_passed *passed, const weir_listen_address *address,
                           weir_listen_socket *ret, int *ret_fds, unsigned n, bool *ret_found,
                           char *ret_error, size_t size)
{
    net_passed_socket *s = find(passed, address->address);
    *ret_found = s != NULL;
    if (!s)
        return WEIR_OK;
    ret_fds[0] = s->fd;
    unsigned made = 1;
    while (made < n && (ret_fds[made] = fcntl(s->fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        made++;
    if (made < n) {
        while (--made > 0)
            close(ret_fds[made]);
        snprintf(ret_error, size, "cannot listen on %s: out of file descriptors",
                 s->listening.text);
        return WEIR_E_IO;
    }
    s->used = true;
    *ret = s->listening;
    return WEIR_OK;
}

weir_status net_passed_check(const net_passed *passed, char *ret_error, size_t size)
{
    for (size_t i = 0; i < passed->len; i++) {
        const net_passed_socket *s = &passed->sockets[i];
        if (s->used)
            continue;
        snprintf(ret_error, size,
                 "socket '%s' on %s was passed (LISTEN_FDS), but no listener has this address; add "
                 "it to listen in weir.yaml, or remove it from the socket unit",
                 s->name, s->listening.text);
        return WEIR_E_IO;
    }
    return WEIR_OK;
}
