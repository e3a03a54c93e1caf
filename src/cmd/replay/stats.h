/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_STATS_H
#define WEIR_CMD_REPLAY_STATS_H
/* What is counted while a log is replayed: for the whole log, for each key, for each policy, and
 * for each key under each policy. Memory grows with the keys, not with the requests. Times are
 * those of the decisions, so they never go back.
 *
 * A request is called denied here if its policy denied it, or would have without its shadow
 * mode. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "accesslog/key_table.h"
#include "cmd/replay/timeline.h"

/* ---- keys ------------------------------------------------------------------------------------ */

/* The periods of the peak rates. They begin at multiples of their length since the Unix epoch. */
typedef enum replay_period {
    REPLAY_SECOND,
    REPLAY_MINUTE,
    REPLAY_HOUR,
    REPLAY_PERIODS
} replay_period;

/* The denials of a key under a policy. A lock-out begins with the first of consecutive denied
 * requests. It ends when the last of them to become possible could have been allowed, whether or
 * not the key came again then. A request that no wait helps could have been allowed at once, and so
 * could all in shadow mode. Requests that a deny list denied neither begin nor end a lock-out. */
typedef struct replay_denials {
    uint64_t count; /* 1 or more */
    int64_t first_ns, last_ns;
    int64_t since_ns, until_ns; /* the lock-out that an allowed request has not ended; -1: none */
    int64_t lockout_ns, lockout_from_ns; /* the longest: the first of equals; from -1: none began */
    replay_series over_time;
} replay_denials;

enum { REPLAY_SLICES = 8 };

/* A key under a policy. */
typedef struct replay_tally {
    replay_denials *denials;          /* NULL: never denied */
    int64_t slice;                    /* the number of the latest slice of the window */
    uint64_t admitted[REPLAY_SLICES]; /* units; that of slice n is at n % REPLAY_SLICES */
} replay_tally;

/* The record of a key in the key table. The members that every request uses come first, next to the
 * bytes of the key. */
typedef struct replay_key {
    accesslog_key base;
    bool baseline_denied; /* the first policy denied a request of this key */
    uint64_t requests;
    int64_t last_ns;               /* of its last request */
    int64_t units[REPLAY_PERIODS]; /* in the period of last_ns; at most INT64_MAX */
    int64_t peak[REPLAY_PERIODS];  /* the most units in a period */
    replay_series over_time;       /* of the requests */
    replay_tally policy[];         /* one for each policy */
} replay_key;

/* The size of a record with `policies` tallies. */
static inline size_t replay_key_bytes(size_t policies)
{
    return sizeof(replay_key) + policies * sizeof(replay_tally);
}

/* The record that begins with *key. Accepts NULL. */
static inline replay_key *replay_key_of(accesslog_key *key)
{
    return (replay_key *)(void *)key;
}

/* The first key to appear, and the one after `key`; NULL if there is none. */
static inline const replay_key *replay_key_first(const accesslog_key_table *keys)
{
    return replay_key_of(accesslog_key_table_first(keys));
}

static inline const replay_key *replay_key_next(const replay_key *key)
{
    return replay_key_of(key->base.next);
}

/* Writes the longest lock-out of a key and its start. The first one of equals; 0 and -1 if there
 * is none, because lists denied all requests. */
void replay_lockout(const replay_denials *d, int64_t *ret_ns, int64_t *ret_from_ns);

/* ---- the log --------------------------------------------------------------------------------- */

typedef struct replay_stats {
    uint64_t requests;
    int64_t cost; /* the sum; at most INT64_MAX */
    int64_t last_ns;
    int64_t period_ns[REPLAY_PERIODS]; /* the start of the current second, minute and hour */
    replay_timeline timeline;          /* its first_ns is the first time */
    replay_series over_time;           /* of the requests */
} replay_stats;

/* Opens the statistics.
 *  ret  zeroed by the caller; free it with replay_stats_close(), also after a failure.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status replay_stats_open(replay_stats *ret);
void replay_stats_close(replay_stats *s);

/* Counts a request. Then call replay_stats_key() for its key.
 *  now_ns  not before that of the last call.
 *  cost    0..INT64_MAX. */
void replay_stats_request(replay_stats *s, int64_t now_ns, int64_t cost);
void replay_stats_key(replay_stats *s, replay_key *key, int64_t cost);

/* ---- a policy -------------------------------------------------------------------------------- */

typedef struct replay_peak {
    uint64_t units; /* 0: none */
    int64_t at_ns;
    const replay_key *key;
} replay_peak;

/* The counts of a policy. */
typedef struct replay_counts {
    uint64_t denied;       /* including those of the deny list, but not of shadow mode */
    uint64_t shadowed;     /* allowed only because the policy is in shadow mode */
    uint64_t allow_listed; /* allowed by the allow list */
    uint64_t deny_listed;
    uint64_t newly_denied, newly_allowed; /* requests that the first policy decided otherwise */
    replay_series over_time;              /* of the denied requests */

    /* The most units of a key that were admitted within the window of the policy: the period of
     * its layer with the longest period. Keys that have an override with another window or limit
     * are left out, and so are keys on the allow list. The window is divided into slices, so the
     * figure is at most the true one. */
    replay_peak peak;
    uint32_t layer; /* of the policy, that has the window */
    int64_t window_ns, limit;
    int64_t slice_ns, slices; /* the slices of the window: REPLAY_SLICES; fewer below 8 ns */
    int64_t slice, end_ns;    /* the current slice, and its end */
} replay_counts;

/* Opens the counts of a policy. Returns WEIR_OK or WEIR_E_NOMEM.
 *  ret  zeroed by the caller. */
WEIR_NODISCARD weir_status replay_counts_open(replay_counts *ret, replay_stats *s,
                                              const weir_policy *policy);

/* A decision. */
typedef struct replay_outcome {
    bool denied;               /* or would have been, without shadow mode */
    bool baseline;             /* whether the first policy denied the request */
    const weir_policy *policy; /* that decided; NULL: a list did */
    int64_t cost;              /* 0..WEIR_COST_MAX */
    int64_t wait_ns;           /* denied: until the same cost is allowed; 0 if no wait helps */
} replay_outcome;

/* Counts a decision at the time of the last replay_stats_request(). The caller counts those by
 * lists and by shadow mode.
 *  tally  of `key` under this policy. If the request is denied, tally->denials must not be NULL;
 *         the first time it is zeroed. */
void replay_counts_add(replay_counts *c, replay_stats *s, const replay_key *key,
                       replay_tally *tally, const replay_outcome *outcome);

#endif
