/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_OPTIONS_H
#define WEIR_ENGINE_REDIS_OPTIONS_H
/* Where a server is, as a text: "redis://user:password@host:port/database". It must not know what
 * is done with it. */

#include <weir/weir_redis.h>

#define WEIR_REDIS_HOST_MAX     256 /* bytes of a host or of a socket's path, with a NUL */
#define WEIR_REDIS_SECRET_MAX   512 /* of a user or a password, with a NUL */
#define WEIR_REDIS_PORT_DEFAULT 6379
#define WEIR_SENTINEL_PORT      26379

typedef struct weir_redis_url {
    char host[WEIR_REDIS_HOST_MAX]; /* a name or an address without brackets; a path if the first
                                       byte is '/' */
    uint16_t port;                  /* 0: the text has none */
    bool tls;
    bool has_password;
    char user[WEIR_REDIS_SECRET_MAX]; /* "": none */
    char password[WEIR_REDIS_SECRET_MAX];
    uint32_t database;
} weir_redis_url;

/* Reads one.
 *  ret        written on WEIR_OK only.
 *  ret_error  may be NULL; written on failure. Has no part of a password.
 * Returns WEIR_OK or WEIR_E_SYNTAX. Pure. */
WEIR_NODISCARD weir_status weir_redis_url_read(const char *text, weir_redis_url *ret,
                                               weir_redis_error *ret_error);

#endif
