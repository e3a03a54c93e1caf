/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The data type of the values: callbacks of the server for RDB, AOF, DUMP, COPY, DEBUG DIGEST and
 * MEMORY USAGE; and WEIR.STATE, the command that replicates a state. */

#include "module.h"

#include "port/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ENCODING = 1 };

static void serialise(weir_value v, weir_buffer *out)
{
    weir_buffer_init(out, WEIR_SERIALISED_MAX);
    if (v)
        weir_serialise_value(out, v);
}

static void rdb_save(redis_io *io, void *value)
{
    weir_buffer out;
    serialise((weir_value)value, &out);
    redis.SaveStringBuffer(io, (const char *)weir_buffer_data(&out), weir_buffer_len(&out));
    weir_buffer_free(&out);
}

static void *rdb_load(redis_io *io, int encver)
{
    size_t len = 0;
    weir_value v = 0;
    if (encver != ENCODING) {
        redis.LogIOError(
            io, "warning",
            "expected a weir state of encoding 1, found %d: written by a later version of weir",
            encver);
        return NULL;
    }
    char *bytes = redis.LoadStringBuffer(io, &len);
    if (!bytes)
        return NULL;
    weir_status st = weir_deserialise((const uint8_t *)bytes, len, &v);
    redis.Free(bytes);
    if (st != WEIR_OK)
        redis.LogIOError(io, "warning", "a weir state cannot be loaded: %s", weir_status_str(st));
    return (void *)v;
}

static void aof_rewrite(redis_io *io, redis_string *key, void *value)
{
    weir_buffer out;
    serialise((weir_value)value, &out);
    redis.EmitAOF(io, "WEIR.STATE", "slb", key, 0LL, (const char *)weir_buffer_data(&out),
                  weir_buffer_len(&out));
    weir_buffer_free(&out);
}

static void digest(redis_digest *d, void *value)
{
    weir_buffer out;
    serialise((weir_value)value, &out);
    redis.DigestAddStringBuffer(d, (const char *)weir_buffer_data(&out), weir_buffer_len(&out));
    redis.DigestEndSequence(d);
    weir_buffer_free(&out);
}

enum { OBJECT_BYTES = 32 }; /* two allocations of the server for each value of a module */

static size_t mem_usage(const void *value)
{
    return OBJECT_BYTES + weir_value_bytes((weir_value)value);
}

static void free_value(void *value)
{
    weir_value_free((weir_value)value);
}

/* The number of allocations to free. With many, UNLINK frees in the background. */
static size_t free_effort(redis_string *key, const void *value)
{
    (void)key;
    return weir_value_len((weir_value)value);
}

static void *copy(redis_string *from, redis_string *to, const void *value)
{
    (void)from;
    (void)to;
    return (void *)weir_value_copy((weir_value)value);
}

/* ---- generations and named policies, saved beside the keys ----------------------------------- */

/* A pair of strings for each generation: '?' and the policy, and the number. They come first, and
 * builds that do not know them refuse them as the names of policies. */
static void save_generations(redis_io *io, const weir_generation *g, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char name[1 + WEIR_POLICY_TEXT_MAX], number[24];
        WEIR_ASSERT(g[i].len < WEIR_POLICY_TEXT_MAX);
        name[0] = '?';
        memcpy(name + 1, g[i].policy, g[i].len);
        redis.SaveStringBuffer(io, name, 1 + g[i].len);
        redis.SaveStringBuffer(io, number,
                               (size_t)snprintf(number, sizeof number, "%" PRIu64, g[i].n));
    }
}

static void aux_save(redis_io *io, int when)
{
    const weir_named *named;
    const weir_generation *generations;
    size_t len = weir_named_all(&named), generations_len = weir_generations_all(&generations);
    (void)when;
    redis.SaveUnsigned(io, generations_len + len);
    save_generations(io, generations, generations_len);
    for (size_t i = 0; i < len; i++) {
        redis.SaveStringBuffer(io, named[i].name, named[i].name_len);
        redis.SaveStringBuffer(io, named[i].limit, strlen(named[i].limit));
    }
}

static bool load_generation(weir_slice policy, weir_slice number)
{
    uint64_t n;
    return policy.len > 0 && policy.len < WEIR_POLICY_TEXT_MAX &&
           weir_decimal_read(number.at, number.len, UINT64_MAX, &n) && n > 0 &&
           weir_generation_set(policy.at, policy.len, n) == WEIR_OK;
}

/* Loads a named policy or a generation. */
static bool load_pair(redis_io *io)
{
    weir_policy_error e = {.text = "expected the generation of a policy"};
    size_t name_len = 0, limit_len = 0;
    char *name = redis.LoadStringBuffer(io, &name_len);
    char *limit = name ? redis.LoadStringBuffer(io, &limit_len) : NULL;
    bool generation = limit && name_len > 0 && name[0] == '?';
    bool good =
        generation
            ? load_generation((weir_slice){name + 1, name_len - 1}, (weir_slice){limit, limit_len})
            : limit && weir_named_set(name, name_len, limit, limit_len, &e) == WEIR_OK;
    if (limit && !good)
        redis.LogIOError(io, "warning", "the policy '%.*s' cannot be loaded: %s",
                         name_len < 64 ? (int)name_len : 64, name, e.text);
    if (limit)
        redis.Free(limit);
    if (name)
        redis.Free(name);
    return good;
}

static int aux_load(redis_io *io, int encver, int when)
{
    (void)when;
    if (encver != ENCODING)
        return REDIS_ERR;
    uint64_t len = redis.LoadUnsigned(io);
    if (redis.IsIOError(io) || len > WEIR_NAMED_MAX + WEIR_GENERATIONS_MAX)
        return REDIS_ERR;
    weir_named_drop_all();
    weir_generations_drop_all();
    bool good = true;
    for (uint64_t i = 0; i < len && good; i++)
        good = load_pair(io);
    weir_generations_loaded();
    return good ? REDIS_OK : REDIS_ERR;
}

bool weir_data_type_create(redis_ctx *ctx)
{
    redis_type_methods methods = {
        .version = REDIS_TYPE_METHODS,
        .rdb_load = rdb_load,
        .rdb_save = rdb_save,
        .aof_rewrite = aof_rewrite,
        .mem_usage = mem_usage,
        .digest = digest,
        .free = free_value,
        .aux_load = aux_load,
        .aux_save = aux_save,
        .aux_save_triggers = REDIS_AUX_BEFORE,
        .free_effort = free_effort,
        .copy = copy,
    };
    weir_data_type = redis.CreateDataType(ctx, "weirstate", ENCODING, &methods);
    return weir_data_type != NULL;
}

/* ---- WEIR.STATE ------------------------------------------------------------------------------ */

/* WEIR.STATE key unix-time-ms payload: applies the payload to the value of the key, and sets its
 * expiry unless the time is 0. */
int weir_state_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_slice arg[WEIR_MODULE_ARGS_MAX];
    weir_open_key key;
    int64_t at_ms;
    if (argc != 4)
        return redis.WrongArity(ctx);
    weir_module_call c = weir_module_call_make(ctx, argv, argc, 1, arg);
    if (!weir_i64_read(arg[2].at, arg[2].len, &at_ms) || at_ms < 0) {
        weir_call_error(&c.call, "ERR expected a time in whole milliseconds, found '%.*s'",
                        (int)(arg[2].len < 64 ? arg[2].len : 64), arg[2].at);
        return REDIS_OK;
    }
    if (!weir_module_open_key(&c, &key, c.key, REDIS_READ | REDIS_WRITE))
        return REDIS_OK;
    weir_status st = weir_deserialise((const uint8_t *)arg[3].at, arg[3].len, &key.value);
    if (st == WEIR_OK) {
        weir_key_put(&key);
        if (key.value && at_ms > 0)
            redis.SetAbsExpire(key.key, at_ms);
        redis.SignalModifiedKey(ctx, c.key);
        redis.ReplicateVerbatim(ctx);
    }
    weir_key_close(&key);
    if (st == WEIR_OK)
        redis.ReplyWithSimpleString(ctx, "OK");
    else
        weir_call_error(&c.call, "ERR weir: the payload is not a state: %s", weir_status_str(st));
    return REDIS_OK;
}
