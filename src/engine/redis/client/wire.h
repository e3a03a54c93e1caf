/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_WIRE_H
#define WEIR_ENGINE_REDIS_WIRE_H
/* The wire format of calls: encodes a call for the module, for functions or for a script, and
 * decodes the reply. Knows no connections, nodes or errors. Pure, but for the cache of bounds. */

#include "engine/redis/client/client.h"

#define WEIR_REDIS_FIELDS     8 /* integers in the reply to one request */
#define WEIR_REDIS_FIELDS_MAX (1 + WEIR_REDIS_FIELDS * WEIR_TAKE_MANY_MAX)
#define WEIR_REDIS_SHA_LEN    40
#define WEIR_REDIS_ZONES      8

/* The calendar windows around a time, in us since the epoch: [0] to [1], [1] to [2], [2] to [3].
 * Servers know no time zones, so requests to functions and scripts carry these bounds. */
typedef struct weir_redis_bounds {
    const weir_zone *zone; /* NULL: empty */
    int64_t at_us[4];
} weir_redis_bounds;

/* How calls to a node are encoded. */
typedef struct weir_redis_encoder {
    weir_redis_by by; /* not WEIR_REDIS_BY_ANY */
    const char *prefix;
    size_t prefix_len;
    const char *sha;           /* of the script, WEIR_REDIS_SHA_LEN bytes; only for scripts */
    weir_redis_bounds *bounds; /* a cache of WEIR_REDIS_ZONES entries; all zero at first */
    int64_t now_ns;
} weir_redis_encoder;

/* An upper bound of the encoded length in bytes. */
size_t weir_redis_wire_size(const weir_redis_call *c, size_t prefix_len);

/* Whether a call can be encoded; if not, *ret_why is the reason. */
bool weir_redis_wire_can(const weir_redis_call *c, weir_redis_by by, const char **ret_why);

/* Encodes a call at `at`, where weir_redis_wire_size() bytes are free. Returns its end. */
uint8_t *weir_redis_wire_put(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s);

/* How many integers the reply has, 1..WEIR_REDIS_FIELDS_MAX. */
size_t weir_redis_wire_fields(const weir_redis_call *c);

/* Answers the call's requests from the integers of a reply. False: weir never sends these integers;
 * then the call is to be ended as failed. */
bool weir_redis_wire_answer(weir_redis_call *c, const int64_t *field);

#endif
