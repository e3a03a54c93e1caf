/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A library in the place of weir's, for tests of what speaks to servers: it lets each key have ten
 * units for ever. As functions and as a script. */

#include "engine/redis/library.h"

#define ASK                                                                                        \
    "local function ask(keys, args)\n"                                                             \
    "  local n = tonumber(args[3])\n"                                                              \
    "  local had = tonumber(redis.call('GET', keys[1]) or '0')\n"                                  \
    "  local ok = had + n <= 10\n"                                                                 \
    "  if ok and n > 0 and args[1] == 'TAKE' then had = redis.call('INCRBY', keys[1], n) end\n"    \
    "  return {ok and 1 or 0, 10, 10 - had, ok and 0 or 1000, had, 0, 0, 0}\n"                     \
    "end\n"

const char weir_lua_functions[] =
    "#!lua name=weir\n" ASK "redis.register_function('weir_ask', ask)\n"
    "redis.register_function{function_name='weir_version', callback=function() return 1 end,\n"
    "  flags={'no-writes'}}\n";
const size_t weir_lua_functions_len = sizeof weir_lua_functions - 1;

const char weir_lua_script[] = ASK "table.remove(ARGV, 1)\nreturn ask(KEYS, ARGV)\n";
const size_t weir_lua_script_len = sizeof weir_lua_script - 1;
