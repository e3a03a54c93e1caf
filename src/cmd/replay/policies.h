/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_POLICIES_H
#define WEIR_CMD_REPLAY_POLICIES_H
/* The policies of a run, each given as a policy text or as a name in a configuration, and their
 * decisions. They run on a weir_service, as in the daemon, with a store in memory. The store begins
 * small and doubles when it is full, so that memory grows with the keys. */

#include "accesslog/accesslog.h"
#include "accesslog/key_table.h"
#include "cmd/replay/options.h"
#include "cmd/replay/stats.h"
#include "service/service.h"

/* Callers may read all fields. */
typedef struct replay_policy {
    const char *given; /* as on the command line: a name or a policy text */
    bool by_name, shadow;
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    replay_counts counts;
    size_t group; /* policies that normalise keys alike form a group and share its key table */
    size_t index; /* of this policy in replay_key.policy */
} replay_policy;

typedef struct replay_policies {
    size_t len;
    bool named;                                /* a configuration was given */
    replay_policy policy[REPLAY_POLICIES_MAX]; /* the first is the baseline */
    replay_stats stats;
    accesslog_key_table *keys[REPLAY_POLICIES_MAX]; /* of each group */
    /* Private: */
    size_t groups;
    size_t first[REPLAY_POLICIES_MAX];     /* the first policy of each group */
    replay_key *seen[REPLAY_POLICIES_MAX]; /* of each group: the key of the request */
    bool baseline_denied;                  /* the request: by the first policy */
    struct weir_config *config;
    struct weir_zone_cache *zones;
    weir_store *store;
    uint8_t secret[16]; /* the hash key of every store */
    size_t memory_max;  /* the size of the largest store */
    unsigned doublings; /* left until the store has that size */
    weir_limiter *limiter;
    weir_service *service;
} replay_policies;

/* Parses the policies of the options and opens a service for them.
 *  ret  zeroed by the caller; free it with replay_policies_close(), also after a failure.
 * Returns 0, or the exit status after printing an error. */
int replay_policies_open(replay_policies *ret, const replay_options *o);
void replay_policies_close(replay_policies *p);

/* A request whose key is being loaded into the cache. It must not be copied:
 * `key` may point into `text`. */
typedef struct replay_upcoming {
    bool known;     /* the other fields are those of the first group of policies */
    uint64_t hash;  /* of the key as normalised */
    weir_slice key; /* in the request, or in `text` */
    char text[48];
    const replay_key *likely; /* the key in the table; NULL: none, or a new one */
} replay_upcoming;

/* Three steps that load the keys of several requests into the cache at once: call the first for
 * each of them, then the second for each, then the third. They change no count.
 *  ret  valid as long as the bytes of request->key. */
void replay_policies_expect(const replay_policies *p, const accesslog_request *request,
                            replay_upcoming *ret);
void replay_policies_prefetch(const replay_policies *p, replay_upcoming *upcoming);
void replay_policies_prefetch_series(const replay_policies *p, const replay_upcoming *upcoming);

/* Counts a request and its keys. Then call replay_policies_decide() for each policy, in order.
 *  upcoming  of replay_policies_expect(), or with `known` false.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status replay_policies_see(replay_policies *p, const accesslog_request *request,
                                               const replay_upcoming *upcoming);

/* Decides on a request by policy `i` and counts the result. A cost above WEIR_COST_MAX is always
 * denied, like any cost above the limit. A policy that counts denials counts WEIR_COST_MAX units
 * for it, or none if it could have allowed as many.
 *  ret  `status`, `decision` and `reason` are written.
 * Returns ret->status, as weir_service_take(). After WEIR_E_NOMEM,
 * replay_policies_at_max() returns true if --memory was too small, and false if the machine has no
 * memory left. */
WEIR_NODISCARD weir_status replay_policies_decide(replay_policies *p, size_t i,
                                                  const accesslog_request *request,
                                                  weir_request *ret);

/* Whether the store has its largest size. Only such a store evicts keys. */
bool replay_policies_at_max(const replay_policies *p);

/* How many keys were evicted before they had their full quota again. */
uint64_t replay_policies_evicted(const replay_policies *p);

#endif
