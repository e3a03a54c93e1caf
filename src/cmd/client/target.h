/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_TARGET_H
#define WEIR_CMD_CLIENT_TARGET_H
/* Where a daemon is, whether the connection is encrypted, and who logs in: what the options of a
 * command line and the URL of a server say together. */

#include "engine/redis/client/client.h"

#include <stdbool.h>

#define CLIENT_PORT      "6380"
#define CLIENT_HOST      "127.0.0.1"
#define CLIENT_SERVER    CLIENT_HOST ":" CLIENT_PORT
#define CLIENT_ERROR_MAX 512
#define CLIENT_EXPECTED                                                                            \
    "HOST:PORT, PORT, HOST or [IPV6]:PORT, with a PORT of 1 to 65535, a URL such as "              \
    "rediss://HOST:PORT, or the path of a socket, with a '/'"

/* The options of a command line. The strings must outlive the connection. All but `server` may be
 * NULL. */
typedef struct client_login {
    const char *server;      /* CLIENT_EXPECTED */
    bool visible;            /* `server` is an argument, which other users can see */
    bool tls;                /* --tls */
    const char *ca;          /* PEM files; NULL: the authorities of the system */
    const char *cert, *key;  /* both or none */
    const char *server_name; /* the name in the server's certificate; NULL: the host */
    const char *user;        /* NULL: "default" */
    const char *password;
    const char *password_file; /* where `password` is from; NULL: the environment */
} client_login;

typedef struct client_target {
    char name[WEIR_REDIS_HOST_MAX + 10]; /* for messages; never has a password */
    weir_redis_url url;                  /* the host, or the path of a socket; port 0: none */
    bool is_path;
    const char *user, *password; /* NULL: none. They belong to the login or to `url` */
    const char *password_from;   /* for messages */
} client_target;

/* Reads the options.
 *  ret        always written; must stay where it is as long as its strings are used.
 *  ret_error  CLIENT_ERROR_MAX bytes; written on failure.
 * Returns false if the options are wrong: a usage error. */
bool client_target_read(const client_login *login, client_target *ret, char *ret_error);

#endif
