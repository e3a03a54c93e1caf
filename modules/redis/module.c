/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The entry point: the server calls RedisModule_OnLoad(), which looks up the functions of the
 * server by name and registers the data type and the commands. */

#include "module.h"

enum { VERSION = 1 }; /* of the module, as MODULE LIST shows it */

redis_api redis;

/* The first pointer that a context points to: looks up a function by name. */
typedef int (*get_api)(const char *name, void *ret);

/* Looks up all functions; those that the server lacks become NULL. Returns NULL, or the name of the
 * first missing function of REDIS_NEEDED. */
static const char *find_functions(redis_api *ret, redis_ctx *ctx)
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

__attribute__((visibility("default"))) int RedisModule_OnLoad(redis_ctx *ctx, redis_string **argv,
                                                              int argc);

static int refuse(redis_ctx *ctx, const char *why)
{
    redis.Log(ctx, "warning", "weir cannot be loaded: %s", why);
    return REDIS_ERR;
}

int RedisModule_OnLoad(redis_ctx *ctx, redis_string **argv, int argc)
{
    (void)argv;
    const char *missing = find_functions(&redis, ctx);
    if (redis.SetModuleAttribs) /* log lines begin with the name */
        redis.SetModuleAttribs(ctx, "weir", VERSION, REDIS_API_VERSION);
    if (missing) {
        if (redis.Log)
            redis.Log(
                ctx, "warning",
                "weir cannot be loaded: this server has no RedisModule_%s; Redis 6.2 or later "
                "or Valkey is required",
                missing);
        return REDIS_ERR;
    }
    if (redis.IsModuleNameBusy(
            "weir")) /* loading the file again would reset the variables in use */
        return refuse(ctx, "it is loaded already");
    if (argc > 0)
        return refuse(ctx, "expected no arguments after the path of the module");
    if (weir_interned_open() != WEIR_OK)
        return refuse(ctx, "out of memory, or no random bytes from the system");
    weir_moment_start();
    /* A key of weir carries its policy, so a slot can move with its keys alone. */
    redis.SetModuleOptions(ctx, REDIS_HANDLES_IO_ERRORS | REDIS_SIGNALS_ITSELF |
                                    REDIS_ALLOWS_SLOT_MIGRATION);
    if (!weir_data_type_create(ctx))
        return refuse(ctx, "another module has registered the data type weirstate");
    if (!weir_commands_create(ctx))
        return refuse(ctx, "another module has registered one of weir's commands");
    weir_replicate_start(ctx); /* last: a server sends events even to a module that was refused */
    redis.Log(ctx, "notice", "weir " WEIR_VERSION);
    return REDIS_OK;
}
