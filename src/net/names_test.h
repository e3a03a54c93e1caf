/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_NAMES_TEST_H
#define WEIR_NET_NAMES_TEST_H
/* Host names that tests look up on any machine, even without /etc/hosts. For a program that is
 * linked with --wrap=getaddrinfo. */

#include <netdb.h>
#include <string.h>

#define NAME_OF_LOOPBACK "server.test"       /* 127.0.0.1 */
#define NAME_OF_BOTH     "both.server.test"  /* ::1, then 127.0.0.1 */
#define NAME_OF_THREE    "three.server.test" /* 127.0.0.3, 127.0.0.1, 127.0.0.2 */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    static const struct {
        const char *name, *address[4];
    } known[] = {{NAME_OF_LOOPBACK, {"127.0.0.1"}},
                 {NAME_OF_BOTH, {"::1", "127.0.0.1"}},
                 {NAME_OF_THREE, {"127.0.0.3", "127.0.0.1", "127.0.0.2"}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int error = 0;
        if (strcmp(host, known[i].name) != 0)
            continue;
        for (const char *const *at = known[i].address; error == 0 && *at; at++) {
            error = __real_getaddrinfo(*at, port, hints, ret);
            ret = error == 0 ? &(*ret)->ai_next : ret;
        }
        return error;
    }
    return __real_getaddrinfo(host, port, hints, ret);
}

#endif
