/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_RULE_H
#define WEIR_SERVICE_RULES_RULE_H
/* Rules from within: one rule as a decision uses it, and sets of them. For this room only. */

#include "service/rules/address.h"
#include "service/rules/key_patterns.h"
#include "service/rules/rules.h"

/* A policy with what its states are filed under. */
typedef struct weir_rule_limit {
    weir_policy policy;
    uint64_t id;
    char *text;      /* as it was given */
    char *canonical; /* the same as weir_policy_print() has it */
    size_t canonical_len;
    char *pattern; /* of the override it belongs to; NULL: the rule's own limit */
} weir_rule_limit;

/* All of a rule but its name and limit. */
typedef struct weir_rule_options {
    size_t refs; /* rules it is of; the limiter's lock guards it */
    weir_rule_limit *overrides;
    size_t overrides_len, allow_len, deny_len;
    weir_key_patterns *by_pattern, *allow, *deny; /* NULL: no such thing */
    bool shadow, plain_keys;
    weir_engine_kind engine;
    weir_on_error on_error;
    unsigned v4_bits, v6_bits;
} weir_rule_options;

typedef struct weir_rule {
    size_t refs; /* sets it is in; the limiter's lock guards it */
    char name[WEIR_RULE_NAME_MAX + 1];
    size_t name_len;
    weir_rule_limit own;
    weir_rule_options *rest; /* one reference */
    uint32_t counts;         /* where its counters are; set by the limiter */
} weir_rule;

struct weir_rules {
    size_t refs; /* the limiter's lock guards it, once the limiter has it */
    size_t len;
    bool remote;       /* some rule's engine is not the local one */
    weir_rule *rule[]; /* by name */
};

/* Builds one rule with one reference. As weir_rules_build(). */
WEIR_NODISCARD weir_status weir_rule_new(weir_rule **ret, const weir_store *store,
                                         const weir_zones *zones, const weir_rule_spec *spec,
                                         weir_rule_error *ret_error);

/* Gives `rule`, which nobody else knows yet, the rest of `of` in the place of its own. */
void weir_rule_share_options(weir_rule *rule, const weir_rule *of);

/* Each drops one reference, and frees what nobody refers to any more. Accepts NULL. */
void weir_rule_drop(weir_rule *r);
void weir_rules_drop(weir_rules *rules);

/* A set like `old` (NULL: the empty one) but with `rule` in the place of the one of its name, or,
 * if rule is NULL, without that of `name`. Takes over the caller's reference to `rule` if it
 * succeeds. NULL if there is no memory. */
weir_rules *weir_rules_with(const weir_rules *old, const char *name, size_t len, weir_rule *rule);

/* NULL if there is none of that name. */
const weir_rule *weir_rules_find(const weir_rules *rules, const char *name, size_t len);

/* One word rather than two flags, for it is read at once after it was written. */
typedef enum weir_on_list { WEIR_ON_NO_LIST, WEIR_ON_ALLOW_LIST, WEIR_ON_DENY_LIST } weir_on_list;

/* A key as a rule sees it. */
typedef struct weir_key_match {
    const char *at; /* what the state is filed under: the caller's bytes, or `text` */
    size_t len;
    const weir_rule_limit *held; /* the policy it is held to */
    weir_on_list list;           /* deny comes first */
    char text[WEIR_ADDRESS_TEXT_MAX];
} weir_key_match;

/* Finds out how `r` sees a key. *ret must not be moved afterwards. Any thread. */
void weir_rule_match(const weir_rule *r, const char *key, size_t len, weir_key_match *ret);

/* The same for a policy that is given as text: it reads addresses as WEIR_RULE_SPEC_DEFAULT says,
 * and has no lists. Writes only `at`, `len` and `text` of *ret. */
void weir_inline_match(const char *key, size_t len, weir_key_match *ret);

#endif
