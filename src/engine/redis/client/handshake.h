/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_HANDSHAKE_H
#define WEIR_ENGINE_REDIS_HANDSHAKE_H
/* The handshake: the requests over a new connection before its first call. They log in, find out
 * whether the server is a master, and choose how it decides: by the module, by functions or by a
 * script. If necessary, they load weir's functions or script into the server. */

#include "engine/redis/client/node.h"

enum {
    WEIR_REDIS_LIBRARY_VERSION = 2 /* the least that `FCALL weir_version 0` has to return */
};

/* Sends the handshake over a new connection. It ends with weir_redis_node_up() or
 * weir_redis_node_fail(). */
void weir_redis_handshake_begin(weir_redis_node *n, int64_t now_ns);

/* The server has lost its functions or its script: chooses again over the same connection, and
 * loads them again. */
void weir_redis_handshake_repeat(weir_redis_node *n, int64_t now_ns);

/* Takes one value of a reply to a handshake request. */
void weir_redis_handshake_receive(weir_redis_node *n, weir_redis_expects expects,
                                  const weir_resp_value *v, int64_t now_ns);

/* modules/lua/weir.lua, embedded by the build: as a library of functions, and as a script for
 * servers that have no functions. tools/embed-lua makes them. */
extern const char weir_lua_functions[];
extern const size_t weir_lua_functions_len;
extern const char weir_lua_script[];
extern const size_t weir_lua_script_len;

#endif
