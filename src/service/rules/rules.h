/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_RULES_H
#define WEIR_SERVICE_RULES_RULES_H
/* Rules: the named policies of a configuration. A rule has a limit, overrides of it for some keys,
 * an allow list, a deny list, and options. A set of rules is immutable: any number of threads may
 * read it, and a change makes a new set. */

#include "service/engine.h"
#include "service/rules/address.h"
#include "service/rules/answer.h"
#include "service/rules/routes.h"

#define WEIR_RULES_MAX         8192  /* rules in a set */
#define WEIR_RULE_HEADERS_MAX  32    /* different headers in the key templates of a set */
#define WEIR_RULE_PATTERNS_MAX 65536 /* overrides of a rule, and entries of each of its lists */

/* The client of a request whose key contains the client's address. */
typedef struct weir_client {
    weir_address address;
    bool is_proxy; /* the address is that of a trusted proxy, so it may be anyone's */
} weir_client;

/* An override: another limit for the keys that match a pattern. */
typedef struct weir_override_spec {
    const char *pattern;       /* as for weir_key_patterns_add(); no two match the same keys */
    const char *limit;         /* a policy text */
    const weir_policy *policy; /* the policy of `limit`; NULL: weir_rules_build() parses it */
} weir_override_spec;

/* What happens to a request without a key, whose key template has no value. */
typedef enum weir_no_key {
    WEIR_NO_KEY_FAIL,   /* it is an error */
    WEIR_NO_KEY_CLIENT, /* its key is the address of the client */
    WEIR_NO_KEY_DENY,   /* it is denied */
    WEIR_NO_KEY_SKIP    /* the rule does not limit it */
} weir_no_key;

/* The description of a rule. The functions below copy what they need. */
typedef struct weir_rule_spec {
    const char *name;
    const char *limit;         /* a policy text */
    const weir_policy *policy; /* the policy of `limit`; NULL: weir_rules_build() parses it */
    const weir_override_spec *overrides;
    size_t overrides_len;
    const char *const *allow; /* patterns of keys that are always allowed, and not counted */
    size_t allow_len;
    const char *const *deny; /* patterns of keys that are always denied; wins over `allow` */
    size_t deny_len;
    /* A policy text that is tried out: it also decides the requests that `limit` decides, in states
     * of its own, and changes no answer. NULL: none. Only with WEIR_ENGINE_LOCAL. */
    const char *candidate;
    const weir_policy *candidate_policy; /* as `policy` */
    bool shadow;                         /* decide and count, but allow every request */
    bool plain_keys;                     /* do not read keys as IP addresses; patterns of addresses
                                            match only the client of a request */
    const char *key; /* a key template, for requests without a key; NULL: none */
    weir_no_key no_key;
    weir_engine_kind engine; /* the engine that keeps the states */
    weir_on_error on_error;  /* its answer when it fails; not WEIR_ON_ERROR_REPORT */
    unsigned v4_bits;        /* 0..32: IPv4 addresses count as one key per /v4_bits network */
    unsigned v6_bits;        /* 0..128: the same for IPv6 */
    weir_answer answer;      /* what responses to its decisions carry */
    /* The memory of its own that the configuration gives the rule, as a size or as a share; both 0:
     * none. Rules do not read it: a rule's states are in the partition of its name, if the store
     * has one. */
    uint64_t memory_bytes;
    unsigned memory_percent;
} weir_rule_spec;

/* By default an IPv6 address counts as its /64, since one client usually has a whole /64. */
enum { WEIR_V4_BITS_DEFAULT = 32, WEIR_V6_BITS_DEFAULT = 64 };

/* The defaults, without a name and a limit. They also apply to inline policies. */
#define WEIR_RULE_SPEC_DEFAULT                                                                     \
    ((weir_rule_spec){.v4_bits = WEIR_V4_BITS_DEFAULT, .v6_bits = WEIR_V6_BITS_DEFAULT})

typedef struct weir_rules weir_rules;

/* Builds a set of rules for a store. The set has one reference, which weir_limiter_set_rules()
 * takes over.
 *  specs  n specs with different names.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_RANGE if a number is out of its range; WEIR_E_UNSUPPORTED
 * for a candidate with another engine than the local one; or WEIR_E_SYNTAX, WEIR_E_RANGE or
 * WEIR_E_ZONE for a bad name, policy text, key template or pattern. It returns no message: for
 * messages, check the specs before with weir_rule_name_check(), weir_policy_parse() and
 * weir_key_patterns_add(). */
WEIR_NODISCARD weir_status weir_rules_build(weir_rules **ret, const weir_store *store,
                                            const weir_zones *zones, const weir_rule_spec *specs,
                                            size_t n);

/* Frees a set that no limiter has. Accepts NULL. */
void weir_rules_discard(weir_rules *rules);

/* Gives routes to a set that no limiter has yet. A route may name rules that the set lacks: its
 * requests then fail with WEIR_E_ABSENT. Returns as weir_routes_build(). */
WEIR_NODISCARD weir_status weir_rules_set_routes(weir_rules *rules, const weir_route_spec *specs,
                                                 size_t n, weir_encoded_slash slash);

#endif
