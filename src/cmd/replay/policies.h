/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_POLICIES_H
#define WEIR_CMD_REPLAY_POLICIES_H
/* The policies of a run, given as texts or as names of a configuration, and their decisions. The
 * service decides, as it does in a daemon, on a store of its own. It must not know where requests
 * come from. */

#include "cmd/replay/key_table.h"
#include "cmd/replay/options.h"
#include "codec/logline.h"
#include "service/service.h"

enum { REPLAY_STORE_MIB = 1024 };

/* What became of the requests under one policy. */
typedef struct replay_counts {
    uint64_t denied;       /* also by the deny list */
    uint64_t shadowed;     /* allowed, since the policy is in shadow */
    uint64_t allow_listed; /* allowed by the allow list */
    uint64_t deny_listed;
} replay_counts;

/* The fields may be read by anybody. */
typedef struct replay_policy {
    const char *given; /* as on the command line: a name, or a text */
    bool by_name, shadow;
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    replay_counts counts;
    size_t group; /* policies that read keys alike are a group, and share its keys */
    size_t index; /* of the policy, among the counts of a key there */
} replay_policy;

typedef struct replay_policies {
    size_t len;
    bool named; /* there is a configuration */
    replay_policy policy[REPLAY_POLICIES_MAX];
    replay_key_table *keys[REPLAY_POLICIES_MAX]; /* of each group */
    /* Private: */
    size_t groups;
    size_t first[REPLAY_POLICIES_MAX];     /* the first policy of each group */
    replay_key *seen[REPLAY_POLICIES_MAX]; /* of each group: the key of the request */
    struct weir_config *config;
    struct weir_zone_cache *zones;
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
} replay_policies;

/* Reads the policies of the options.
 *  ret  zeroed; for replay_policies_close(), also if it fails.
 * Returns 0; else the exit status, after it said what is wrong. */
int replay_policies_open(replay_policies *ret, const replay_options *o);
void replay_policies_close(replay_policies *p);

/* Finds the keys of a request, and counts it for each. To be called before the request is decided.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status replay_policies_see(replay_policies *p, const weir_log_record *request);

/* Decides on a request by policy `i`, and counts it. A cost above WEIR_COST_MAX is denied for ever,
 * as any cost above the limit is; a policy that counts denials counts as many units of it as it
 * can.
 *  ret  its status, decision and reason are written.
 * Returns ret->status: as weir_service_take(). */
WEIR_NODISCARD weir_status replay_policies_decide(replay_policies *p, size_t i,
                                                  const weir_log_record *request, int64_t now_ns,
                                                  weir_request *ret);

/* How many keys were forgotten before they were fresh. */
uint64_t replay_policies_evicted(const replay_policies *p);

#endif
