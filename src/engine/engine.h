/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H
/* The engines there are beside a service's own store: `redis` asks a server for every decision that
 * it does not know already; `hybrid` decides here, from what it has of a server, and settles with
 * it in batches. Each is opened for one thread, and closed by engine->calls->close(). */

#include "engine/redis/client/client.h"
#include "service/engine.h"

/* ---- redis ----------------------------------------------------------------------------------- */

#define WEIR_DENY_EPOCHS 256

/* Counted by all engines of a process, relaxed; and what they share beside. All zero at first; it
 * stays until the last of them is closed. */
typedef struct weir_redis_stats {
    weir_redis_counts client;
    port_counter asked;      /* requests */
    port_counter deny_hits;  /* of them, answered from what was known to be denied ... */
    port_counter deny_looks; /* ... of those that were looked up there */
    port_counter deny_keys;  /* known to be denied now */
    port_counter
        by_error[WEIR_ON_ERROR_REPORT + 1]; /* of them, answered without a server, by what */
    port_counter breaks;                    /* of the breaker, from closed to open */
    /* By which all of them learn that a key was reset or refunded: [FNV-1a of the key, modulo]. */
    port_counter deny_epoch[WEIR_DENY_EPOCHS];
} weir_redis_stats;

typedef struct weir_redis_setup {
    const weir_redis_options *options; /* good; kept by reference, as all else is */
    const port_tls *tls;
    port_dialer *dialer;
    weir_store *store; /* for WEIR_ON_ERROR_LOCAL */
    weir_redis_stats *stats;
    weir_redis_log log; /* also "redis-breaker" (open, probing, closed) */
    uint64_t seed;
} weir_redis_setup;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup);

/* Whether the pause of some node's breaker is over, so that the next request to it is a probe. `e`
 * is of weir_redis_engine_open(). By its thread. */
bool weir_redis_engine_would_probe(const weir_engine *e, int64_t now_ns);

/* ---- hybrid ---------------------------------------------------------------------------------- */

typedef struct weir_hybrid_options {
    int64_t interval_ns; /* between two settlements of a key, 1 ms to 60 s; 0: 100 ms */
    int64_t count;       /* units that a key may take in between; more settle it at once, 1 or more;
                            0: 1000 */
    int64_t idle_ns;     /* a share that is not used for so long goes back; 0: 1 s */
    size_t
        memory_bytes; /* for keys that are being taken from, of a thread; 0: 4 MiB. Keys that find
                            no room are asked about one by one */
} weir_hybrid_options;

/* Counted by all engines of a process. Relaxed. */
typedef struct weir_hybrid_stats {
    port_counter asked, here; /* requests; of them, answered without waiting for a server */
    port_counter settled;     /* settlements: requests to the engine below */
    port_counter shares_back; /* units that were leased and given back */
    port_counter overshoot; /* units that were admitted and found no room in the settlement, ever */
    port_counter
        overshoot_last; /* of the window or interval that ended last, the largest of any key */
    port_counter keys;  /* that have shares now */
} weir_hybrid_stats;

typedef struct weir_hybrid_setup {
    const weir_hybrid_options *options; /* kept by reference, as all else is */
    weir_engine
        *below; /* decides what is settled: a redis engine. Closed by its owner, after this */
    port_dialer *dialer; /* for its alarms and its clock */
    weir_hybrid_stats *stats;
} weir_hybrid_setup;

/* Returns WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_hybrid_engine_open(weir_engine **ret,
                                                   const weir_hybrid_setup *setup);

#endif
