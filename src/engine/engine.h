/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H
/* The engines besides a service's own store. The redis engine has each request decided by a server,
 * unless the deny cache knows the answer. The hybrid engine decides by quota leases, which it syncs
 * with a server. An engine belongs to one thread; engine->calls->close() closes it. */

#include "engine/redis/client/client.h"
#include "service/engine.h"

/* ---- redis ----------------------------------------------------------------------------------- */

#define WEIR_DENY_EPOCHS 256

/* The statistics of all redis engines of a process, and the epochs that they share. All zero at
 * first. It must outlive the engines. Relaxed counters. */
typedef struct weir_redis_stats {
    weir_redis_counts client;
    port_counter requests;
    port_counter deny_lookups; /* requests that were looked up in the deny cache */
    port_counter deny_hits;    /* of these, answered from it */
    port_counter deny_keys;    /* denials in the deny caches now */
    port_counter by_error[WEIR_ON_ERROR_REPORT + 1]; /* requests answered by each on_error */
    port_counter opened; /* circuit breakers that went from closed to open */
    /* Increased when a key is reset or refunded: invalidates cached denials. The index is the key's
     * FNV-1a hash modulo WEIR_DENY_EPOCHS. */
    port_counter deny_epoch[WEIR_DENY_EPOCHS];
} weir_redis_stats;

typedef struct weir_redis_setup {
    const weir_redis_options *options; /* valid; referenced, as everything else here */
    const port_tls *tls;
    port_dialer *dialer;
    weir_store *store; /* for WEIR_ON_ERROR_LOCAL */
    weir_redis_stats *stats;
    weir_redis_log log; /* also "redis-breaker" with the text open, probing or closed */
    uint64_t seed;
} weir_redis_setup;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup);

/* Whether the pause of an open circuit breaker is over, so that the next request to its node is a
 * probe. Call it on the engine's thread.
 *  e  from weir_redis_engine_open(). */
bool weir_redis_engine_would_probe(const weir_engine *e, int64_t now_ns);

/* ---- hybrid ---------------------------------------------------------------------------------- */

typedef struct weir_hybrid_options {
    int64_t interval_ns; /* between two syncs of a key, 1 ms to 60 s; 0: 100 ms */
    int64_t count;       /* the largest lease in units, 1 or more; 0: 1000 */
    int64_t idle_ns;     /* a lease that is not used for so long is given back; 0: 1 s */
    size_t memory_bytes; /* for the busy keys of a thread; 0: 4 MiB. Requests for keys beyond it are
                            forwarded one by one */
} weir_hybrid_options;

/* The statistics of all hybrid engines of a process. Relaxed. */
typedef struct weir_hybrid_stats {
    port_counter requests;
    port_counter local;      /* of these, answered without a round trip */
    port_counter syncs;      /* syncs: requests of the engine itself */
    port_counter given_back; /* prepaid units that were given back */
    port_counter overshoot;  /* admitted units that could not be charged, in total */
    /* The largest overshoot of a key in the latest interval, summed over the threads. */
    port_counter overshoot_last;
    port_counter keys; /* keys with leases now */
} weir_hybrid_stats;

typedef struct weir_hybrid_setup {
    const weir_hybrid_options *options; /* referenced, as everything else here */
    weir_engine *upstream;              /* a redis engine; close it after this one */
    port_dialer *dialer;                /* for its timers and its clock */
    weir_hybrid_stats *stats;
    const weir_redis_resets *resets; /* those of the upstream engine; NULL: none */
} weir_hybrid_setup;

/* Returns WEIR_OK; WEIR_E_RANGE for an option; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_hybrid_engine_open(weir_engine **ret,
                                                   const weir_hybrid_setup *setup);

#endif
