/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_ERROR_REPLY_H
#define WEIR_ENGINE_REDIS_ERROR_REPLY_H
/* What an error reply to a call means. A server that replies with an error has not executed the
 * call. To redirect it or to send it again therefore charges nothing twice. Pure. */

#include "engine/redis/client/client.h"
#include "engine/redis/client/options.h"
#include "port/text.h"

typedef enum weir_redis_error_kind {
    WEIR_REDIS_ERROR_MOVED,       /* another node serves the slot */
    WEIR_REDIS_ERROR_ASK,         /* another node has the key, while its slot migrates */
    WEIR_REDIS_ERROR_TRY_AGAIN,   /* the slot of several keys migrates */
    WEIR_REDIS_ERROR_READ_ONLY,   /* the node is no longer a master */
    WEIR_REDIS_ERROR_NOT_LOADED,  /* it has lost weir's functions or script, or the module */
    WEIR_REDIS_ERROR_CROSS_SLOT,  /* the keys are in different slots */
    WEIR_REDIS_ERROR_UNSUPPORTED, /* it cannot decide by this policy */
    WEIR_REDIS_ERROR_THROTTLE,    /* the arguments of CL.THROTTLE are out of range */
    WEIR_REDIS_ERROR_NO_CLUSTER,  /* CLUSTERDOWN */
    WEIR_REDIS_ERROR_OTHER
} weir_redis_error_kind;

bool weir_redis_error_begins(weir_slice t, const char *word);

/*  is_throttle  the call was CL.THROTTLE. */
weir_redis_error_kind weir_redis_error_kind_of(weir_slice text, bool is_throttle);

typedef struct weir_redis_target {
    uint32_t slot, port;
    char host[WEIR_REDIS_HOST_MAX];
} weir_redis_target;

/* Reads the target of MOVED or ASK.
 *  host  of the server that replied; used if the target has no host.
 * False: it is not valid. */
bool weir_redis_error_target(weir_slice text, const char *host, weir_redis_target *ret);

/* Which argument of CL.THROTTLE an error is about. */
weir_throttle_status weir_redis_error_throttle(weir_slice text);

/* Whether it may be the name or the address of a node: printable, without spaces, and not the path
 * of a socket file. */
bool weir_redis_host_is_valid(const char *host, size_t len);

#endif
