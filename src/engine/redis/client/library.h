/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_LIBRARY_H
#define WEIR_ENGINE_REDIS_LIBRARY_H
/* modules/lua/weir.lua as bytes, made by the build: as a library of functions, and as a script for
 * servers that know no functions. */

#include <stddef.h>

extern const char weir_lua_functions[];
extern const size_t weir_lua_functions_len;
extern const char weir_lua_script[];
extern const size_t weir_lua_script_len;

#endif
