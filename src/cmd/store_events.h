/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_STORE_EVENTS_H
#define WEIR_CMD_STORE_EVENTS_H
/* Logs the events of the store while the daemon runs: steps of the wall clock, a state file that is
 * lost, and policies whose own memory is full. */

#include "cmd/log.h"
#include "port/atomic.h"
#include "port/buffer.h"
#include "service/limiter.h"

typedef struct store_events {
    const log_target *log;
    weir_store *store;
    weir_limiter *limiter;
    const char *state_file; /* NULL: in memory only */
    uint64_t clock_steps;   /* already logged */
    /* The keys that each partition had evicted or refused at the start; UINT64_MAX: logged. */
    uint64_t lost[WEIR_PARTITIONS_MAX];
    port_counter place; /* a weir_file: the state file at the last check */
} store_events;

/* Begins to watch. What the arguments refer to must outlive *ret. */
void store_events_begin(store_events *ret, const log_target *log, weir_store *store,
                        weir_limiter *limiter, const char *state_file);

/* Logs at the start if the state file's time differs from the wall clock. */
void store_events_log_offset(store_events *e);

/* To be called about once a second. */
void store_events_tick(store_events *e);

/* Appends whether the state file is lost, if there is one. Any thread. */
void store_events_put_metrics(const store_events *e, weir_buffer *out);

#endif
