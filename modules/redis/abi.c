/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the server's functions. */

#include "abi.h"

redis_api redis;

typedef int (*get_api)(const char *name, void *ret);

const char *redis_api_find(redis_api *ret, redis_ctx *ctx)
{
    get_api get = *(get_api *)ctx;
    const char *missing = NULL;
    *ret = (redis_api){0};
#define FIND(type, name, args)                                                                     \
    if (get("RedisModule_" #name, &ret->name) != REDIS_OK)                                         \
        ret->name = NULL;
#define FIND_NEEDED(type, name, args)                                                              \
    FIND(type, name, args)                                                                         \
    if (!ret->name && !missing)                                                                    \
        missing = #name;
    REDIS_NEEDED(FIND_NEEDED)
    REDIS_WANTED(FIND)
    return missing;
}
