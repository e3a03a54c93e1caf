/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_WIRE_H
#define WEIR_ENGINE_REDIS_WIRE_H
/* What is said to a server for a call, and what its figures mean: the module's commands, and the
 * library's functions as such or as a script. It must not know lines, nodes or errors. */

#include "engine/redis/client/client.h"

#define WEIR_REDIS_FIELDS     8 /* of a request */
#define WEIR_REDIS_FIELDS_MAX (1 + WEIR_REDIS_FIELDS * WEIR_TAKE_MANY_MAX)
#define WEIR_REDIS_SHA_LEN    40
#define WEIR_REDIS_ZONES      8

/* The calendar windows around a moment, in us since the epoch: [b0,b1) [b1,b2) [b2,b3). */
typedef struct weir_redis_bounds {
    const weir_zone *zone; /* NULL: nothing is here yet */
    weir_calendar unit;
    int64_t at_us[4];
} weir_redis_bounds;

/* How a node is spoken to. */
typedef struct weir_redis_encoder {
    weir_redis_by by; /* not WEIR_REDIS_BY_ANY */
    const char *prefix;
    size_t prefix_len;
    const char *sha;           /* WEIR_REDIS_SHA_LEN bytes, of the script; else not read */
    weir_redis_bounds *bounds; /* WEIR_REDIS_ZONES that were worked out before; zero at first */
    int64_t now_ns;
} weir_redis_encoder;

/* How many bytes a call takes at most. Pure. */
size_t weir_redis_wire_size(const weir_redis_call *c, size_t prefix_len);

/* Whether it can be said at all so; if not, *ret_why says why. */
bool weir_redis_wire_can(const weir_redis_call *c, weir_redis_by by, const char **ret_why);

/* Writes a call to `at`, where there is room for it. Returns where it ends. */
uint8_t *weir_redis_wire_put(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s);

/* How many integers answer the call, 1..WEIR_REDIS_FIELDS_MAX. Pure. */
size_t weir_redis_wire_fields(const weir_redis_call *c);

/* Answers the call's requests by as many figures; false, with nothing written but what is unread
 * then, if they make no sense. */
bool weir_redis_wire_answer(weir_redis_call *c, const int64_t *figure);

#endif
