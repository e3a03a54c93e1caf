/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_OPTIONS_H
#define WEIR_ENGINE_REDIS_OPTIONS_H
/* Reads the URL of a server, and checks the options of a client (weir_redis_options_check()). */

#include <weir/weir_redis.h>

#define WEIR_REDIS_HOST_MAX     256 /* bytes of a host or of a socket's path, with a NUL */
#define WEIR_REDIS_SECRET_MAX   512 /* bytes of a user or a password, with a NUL */
#define WEIR_REDIS_PORT_DEFAULT 6379
#define WEIR_SENTINEL_PORT      26379

/* The defaults of weir_redis_options. */
#define WEIR_REDIS_PREFIX_DEFAULT           "weir:"
#define WEIR_REDIS_DEADLINE_NS_DEFAULT      ((int64_t)50000000)
#define WEIR_REDIS_IN_FLIGHT_DEFAULT        16384
#define WEIR_REDIS_DENY_CACHE_BYTES_DEFAULT (1 << 20)

typedef struct weir_redis_url {
    char host[WEIR_REDIS_HOST_MAX]; /* a name, or an address without brackets, or the path of a
                                       socket file, which begins with '/' */
    uint16_t port;                  /* 0: the URL has none */
    bool tls;
    bool has_password;
    char user[WEIR_REDIS_SECRET_MAX]; /* "": none */
    char password[WEIR_REDIS_SECRET_MAX];
    uint32_t database;
} weir_redis_url;

/* Parses a URL such as "redis://user:password@host:port/database".
 *  ret        written on WEIR_OK only.
 *  ret_error  may be NULL; written on failure. Never contains a part of the URL.
 * Returns WEIR_OK or WEIR_E_SYNTAX. Pure. */
WEIR_NODISCARD weir_status weir_redis_url_read(const char *text, weir_redis_url *ret,
                                               weir_redis_error *ret_error);

#endif
