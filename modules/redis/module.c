/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Where the server begins: finds its functions, and tells it of the type and the commands. */

#include "clock.h"
#include "commands.h"
#include "data_type.h"
#include "interned.h"
#include "replicate.h"

enum { VERSION = 1 }; /* of the module, as MODULE LIST shows it */

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
    const char *missing = redis_api_find(&redis, ctx);
    if (redis.SetModuleAttribs) /* the log line begins with the name */
        redis.SetModuleAttribs(ctx, "weir", VERSION, REDIS_API_VERSION);
    if (missing) {
        if (redis.Log)
            redis.Log(ctx, "warning",
                      "weir cannot be loaded: this server has no RedisModule_%s, which Redis has "
                      "since 6.2 and Valkey always",
                      missing);
        return REDIS_ERR;
    }
    if (redis.IsModuleNameBusy("weir")) /* the same file again has the same variables, in use */
        return refuse(ctx, "it is there already");
    if (argc > 0)
        return refuse(ctx, "it takes no arguments");
    if (weir_interned_open() != WEIR_OK)
        return refuse(ctx, "no memory, or no random bytes");
    weir_moment_start();
    redis.SetModuleOptions(ctx, REDIS_HANDLES_IO_ERRORS | REDIS_SIGNALS_ITSELF);
    if (!weir_data_type_create(ctx))
        return refuse(ctx, "another module has a type of that name");
    if (!weir_commands_create(ctx))
        return refuse(ctx, "a command of that name is there, perhaps of another module");
    weir_replicate_start(ctx); /* last: a server tells of events also a module that was refused */
    redis.Log(ctx, "notice", "weir " WEIR_VERSION);
    return REDIS_OK;
}
