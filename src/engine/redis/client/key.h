/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_KEY_H
#define WEIR_ENGINE_REDIS_KEY_H
/* The Redis key that holds the state of a weir key, and the hash slot of a Redis key. Pure. */

#include "service/engine.h"

#define WEIR_REDIS_SLOTS 16384

/* Writes the Redis key of a request. For the module it is PREFIX{KEY}:NAME; NAME is empty for an
 * inline policy. The module keeps the states of different policy texts apart. For functions and
 * scripts the key is PREFIX{KEY}:NAME#HASH, with 16 hexadecimal digits of the policy text's hash.
 *
 * A KEY with a "{tag}" of its own keeps it: "weir:{{org1}:alice}:api" is in the slot of "{org1".
 * Returns the length of the Redis key. Writes at most `size` bytes of it, without a terminator. */
size_t weir_redis_key(const char *prefix, const weir_engine_request *q, bool for_module, char *buf,
                      size_t size);

/* The hash slot of a Redis key: CRC16 of its hash tag, or of all of it, modulo 16384. */
uint32_t weir_redis_slot(const char *key, size_t len);
/* The hash slot of a hash tag. */
uint32_t weir_redis_slot_of_tag(const char *tag, size_t len);

#endif
