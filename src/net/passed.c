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
        s->fds[0] = first + i;
        s->fds_len = 1;
        if (names)
            names = take_name(names, s);
        if (!weir_listen_adopt(s->fds[0], &s->listening)) {
            snprintf(ret_error, size,
                     "descriptor %d ('%s' of LISTEN_FDNAMES): expected a listening stream socket, "
                     "TCP or Unix",
                     s->fds[0], s->name);
            return WEIR_E_IO;
        }
        ret->len++;
    }
    return n < 0 ? WEIR_E_IO : WEIR_OK;
}

bool net_passed_add(net_passed *passed, int fd, const char *configured, bool inherits)
{
    weir_listen_socket listening;
    net_passed_socket *s = passed->len > 0 ? &passed->sockets[passed->len - 1] : NULL;
    bool good = weir_listen_adopt(fd, &listening);
    if (good && (!s || s->used || strcmp(s->listening.text, listening.text) != 0)) {
        good = passed->len < WEIR_LISTENERS_MAX;
        s = good ? &passed->sockets[passed->len++] : NULL;
        if (s) {
            *s = (net_passed_socket){.listening = listening};
            s->listening.inherits = inherits;
            snprintf(s->configured, sizeof s->configured, "%s", configured);
        }
    }
    good = good && s->fds_len < WEIR_SOCKETS_MAX;
    if (good)
        s->fds[s->fds_len++] = fd;
    else
        close(fd);
    return good;
}

/* A listener with port 0 gets the sockets of a listener with the same text, in their order. */
static net_passed_socket *find(net_passed *passed, const char *address)
{
    char text[WEIR_LISTEN_ADDRESS_MAX];
    if (!weir_listen_normalize(address, text))
        return NULL;
    for (size_t i = 0; i < passed->len; i++) {
        net_passed_socket *s = &passed->sockets[i];
        if (!s->used &&
            (strcmp(s->listening.text, text) == 0 || strcmp(s->configured, address) == 0))
            return s;
    }
    return NULL;
}

weir_status net_passed_use(net_passed *passed, const weir_listen_address *address,
                           weir_listen_socket *ret, int *ret_fds, unsigned n, unsigned *ret_len,
                           char *ret_error, size_t size)
{
    net_passed_socket *s = find(passed, address->address);
    *ret_len = 0;
    if (!s)
        return WEIR_OK;
    unsigned made = s->fds_len;
    memcpy(ret_fds, s->fds, made * sizeof *ret_fds);
    while (made < n && (ret_fds[made] = fcntl(s->fds[made % s->fds_len], F_DUPFD_CLOEXEC, 0)) >= 0)
        made++;
    if (made < n) {
        while (made > s->fds_len)
            close(ret_fds[--made]);
        snprintf(ret_error, size, "cannot listen on %s: out of file descriptors",
                 s->listening.text);
        return WEIR_E_IO;
    }
    s->used = true;
    *ret = s->listening;
    *ret_len = made;
    return WEIR_OK;
}

bool net_passed_is_from_daemon(const net_passed *passed)
{
    return passed && passed->len > 0 && passed->sockets[0].configured[0];
}

void net_passed_close(net_passed *passed, bool inherit)
{
    for (size_t i = 0; i < passed->len; i++) {
        net_passed_socket *s = &passed->sockets[i];
        if (s->used)
            continue;
        for (unsigned k = 0; k < s->fds_len; k++)
            close(s->fds[k]);
        s->used = true;
        if (inherit) {
            weir_listen_inherit(&s->listening);
            weir_listen_remove(&s->listening);
        }
    }
}

weir_status net_passed_check(const net_passed *passed, char *ret_error, size_t size)
{
    for (size_t i = 0; i < passed->len; i++) {
        const net_passed_socket *s = &passed->sockets[i];
        if (s->used || s->configured[0])
            continue;
        snprintf(ret_error, size,
                 "socket '%s' on %s was passed (LISTEN_FDS), but no listener has this address; add "
                 "it to listen in weir.yaml, or remove it from the socket unit",
                 s->name, s->listening.text);
        return WEIR_E_IO;
    }
    return WEIR_OK;
}
