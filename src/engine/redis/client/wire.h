/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_WIRE_H
#define WEIR_ENGINE_REDIS_WIRE_H
/* The wire format of calls: the keys in Redis; encodes a call for the module, for functions or for
 * a script, decodes the reply, and classifies error replies. Knows no connections or nodes. Pure,
 * except for the cache of calendar windows. */

#include "core/decision.h"
#include "engine/redis/client/client.h"
#include "port/text.h"

/* ---- keys (key.c) ---------------------------------------------------------------------------- */

/* The Redis key that holds the state of a weir key, and the hash slot of a Redis key. Pure. */

#define WEIR_REDIS_SLOTS 16384

/* Writes the Redis key of a request. For the module it is PREFIX{KEY}:NAME; NAME is empty for an
 * inline policy. The module keeps the states of different policy texts apart. For functions and
 * scripts the key is PREFIX{KEY}:NAME#, and PREFIX{KEY}:#HASH for an inline policy, with 16
 * hexadecimal digits of the policy text's hash.
 * After all keys of the policy were reset, NAME is followed by '?' and 16 digits of the token.
 * The key of WEIR_VERB_RESET_ALL is PREFIX#resets, the hash with all tokens.
 *
 * A KEY with a "{tag}" of its own keeps it: "weir:{{org1}:alice}:api" is in the slot of "{org1".
 * Returns the length of the Redis key. Writes at most `size` bytes of it, without a terminator. */
size_t weir_redis_key(const char *prefix, const weir_engine_request *q, bool for_module,
                      uint64_t token, char *buf, size_t size);

/* FNV-1a, 64 bits. */
uint64_t weir_redis_hash(weir_slice text);

/* The hash slot of a Redis key: CRC16 of its hash tag, or of all of it, modulo 16384. */
uint32_t weir_redis_slot(const char *key, size_t len);
/* The hash slot of a hash tag. */
uint32_t weir_redis_slot_of_tag(const char *tag, size_t len);

/* ---- calls (wire.c) -------------------------------------------------------------------------- */

/* Integers in the reply to one request: the fields of a decision, its layer, the granted units; if
 * it was sent with FIGURES, also the wait for the next unit and the figures. */
#define WEIR_REDIS_FIELDS     (WEIR_DECISION_FIELDS + 2)
#define WEIR_REDIS_FIGURES    (1 + WEIR_FIGURES_MAX)
#define WEIR_REDIS_FIELDS_MAX (1 + (WEIR_REDIS_FIELDS + WEIR_REDIS_FIGURES) * WEIR_TAKE_MANY_MAX)
#define WEIR_REDIS_SHA_LEN    40
#define WEIR_REDIS_ZONES      32

/* The calendar windows around a time, in us since the epoch: [0] to [1], [1] to [2], [2] to [3].
 * Servers know no time zones, so requests to functions and scripts carry these bounds. */
typedef struct weir_redis_bounds {
    const weir_zone *zone; /* NULL: empty */
    weir_calendar unit;
    int32_t anchor;
    int64_t at_us[4];
} weir_redis_bounds;

/* How calls to a node are encoded. */
typedef struct weir_redis_encoder {
    weir_redis_by by; /* not WEIR_REDIS_BY_ANY */
    const char *prefix;
    size_t prefix_len;
    const char *sha;                 /* of the script, WEIR_REDIS_SHA_LEN bytes; only for scripts */
    weir_redis_bounds *bounds;       /* a cache of WEIR_REDIS_ZONES entries; all zero at first */
    const weir_redis_resets *resets; /* may be NULL */
    int64_t now_ns;
    bool sends_time; /* for a server that refuses TIME; not for the module */
} weir_redis_encoder;

/* An upper bound of the encoded length in bytes. */
size_t weir_redis_wire_size(const weir_redis_call *c, size_t prefix_len);

/* Whether a call can be encoded; if not, *ret_why is the reason. */
bool weir_redis_wire_can(const weir_redis_call *c, weir_redis_by by, const char **ret_why);

/* Whether a request of the call wants figures. */
bool weir_redis_wire_wants_figures(const weir_redis_call *c);

/* Encodes a call at `at`, where weir_redis_wire_size() bytes are free. Returns its end. */
uint8_t *weir_redis_wire_put(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s);

/* How many integers the reply has, 1..WEIR_REDIS_FIELDS_MAX. 0: it is one integer, not an array. */
size_t weir_redis_wire_fields(const weir_redis_call *c);

/* Answers the call's requests from the integers of a reply. False: weir never sends these integers;
 * then the call is to be ended as failed. */
bool weir_redis_wire_answer(weir_redis_call *c, const int64_t *field);

/* ---- error replies (error_reply.c) ----------------------------------------------------------- */

/* What an error reply to a call means. A server that replies with an error has not executed the
 * call. To redirect it or to send it again therefore charges nothing twice. Pure. */

typedef enum weir_redis_error_kind {
    WEIR_REDIS_ERROR_MOVED,       /* another node serves the slot */
    WEIR_REDIS_ERROR_ASK,         /* another node has the key, while its slot migrates */
    WEIR_REDIS_ERROR_TRY_AGAIN,   /* the slot of several keys migrates */
    WEIR_REDIS_ERROR_READ_ONLY,   /* the node is no longer a master */
    WEIR_REDIS_ERROR_NOT_LOADED,  /* it has lost weir's functions or script, the module or TIME */
    WEIR_REDIS_ERROR_NO_FIGURES,  /* an older module does not know FIGURES, if the call has it */
    WEIR_REDIS_ERROR_CROSS_SLOT,  /* the keys are in different slots */
    WEIR_REDIS_ERROR_UNSUPPORTED, /* it cannot decide by this policy */
    WEIR_REDIS_ERROR_THROTTLE,    /* the arguments of CL.THROTTLE are out of range */
    WEIR_REDIS_ERROR_NO_CLUSTER,  /* CLUSTERDOWN */
    WEIR_REDIS_ERROR_LOADING,     /* the server has not loaded its data yet */
    WEIR_REDIS_ERROR_OF_KEY,      /* it depends on the key: other calls may succeed */
    WEIR_REDIS_ERROR_OTHER
} weir_redis_error_kind;

bool weir_redis_error_begins(weir_slice t, const char *word);
bool weir_redis_error_contains(weir_slice t, const char *word);

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
