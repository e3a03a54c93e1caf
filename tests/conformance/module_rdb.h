/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_MODULE_RDB_H
#define WEIR_TESTS_MODULE_RDB_H
/* RDB files of the fake server: one value that is written or read. */

#include "modules/redis/abi.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct redis_io { /* an RDB that is read or written */
    const uint8_t *at;
    size_t left;
    bool failed;
    char *written;
    size_t written_len;
};

struct redis_digest {
    size_t bytes;
};

static inline void fake_SaveStringBuffer(redis_io *io, const char *at, size_t len)
{
    io->written = realloc(io->written, io->written_len + len + 1);
    assert(io->written);
    memcpy(io->written + io->written_len, at, len);
    io->written_len += len;
}

static inline char *fake_LoadStringBuffer(redis_io *io, size_t *ret_len)
{
    char *copy = redis.Alloc(io->left);
    memcpy(copy, io->at, io->left);
    *ret_len = io->left;
    return copy;
}

static inline void fake_SaveUnsigned(redis_io *io, uint64_t v)
{
    (void)io;
    (void)v;
}

static inline uint64_t fake_LoadUnsigned(redis_io *io)
{
    (void)io;
    return 0;
}

static inline int fake_IsIOError(redis_io *io)
{
    return io->failed;
}

static inline void fake_EmitAOF(redis_io *io, const char *command, const char *format, ...)
{
    (void)io;
    (void)command;
    (void)format;
}

static inline void fake_DigestAddStringBuffer(redis_digest *d, const char *at, size_t len)
{
    assert(at);
    d->bytes += len;
}

static inline void fake_DigestEndSequence(redis_digest *d)
{
    assert(d->bytes > 0);
}

#endif
