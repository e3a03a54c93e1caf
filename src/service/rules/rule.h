/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_RULE_H
#define WEIR_SERVICE_RULES_RULE_H
/* The fields of rules and of sets of rules, and how a key is matched against a rule: its override,
 * its list, and the network of an IP address. Private to src/service. Rules have reference counts,
 * since sets share rules and rules share options; the lock of the limiter guards the counts once
 * the limiter has the set. */

#include "service/rules/address.h"
#include "service/rules/key_patterns.h"
#include "service/rules/key_template.h"
#include "service/rules/rules.h"

/* A limit: of the rule itself, of an override, or a candidate. */
typedef struct weir_rule_limit {
    weir_policy policy;
    uint64_t id;     /* the store keeps the states under this id */
    char *text;      /* the policy text as it was given */
    char *canonical; /* the policy text as weir_policy_print() writes it */
    size_t canonical_len;
    char *pattern; /* of the override; NULL: the rule's own limit, or its candidate */
} weir_rule_limit;

/* What a change of a single rule never changes. */
typedef struct weir_rule_options {
    size_t refs; /* rules that share them */
    weir_rule_limit *overrides;
    size_t overrides_len, allow_len, deny_len;
    weir_key_patterns *by_pattern;   /* pattern -> index of the override; NULL: no overrides */
    weir_key_patterns *allow, *deny; /* NULL: an empty list */
    bool plain_keys;
    weir_key_template *key; /* NULL: none */
    weir_no_key no_key;
    weir_answer answer; /* owns its strings */
    weir_engine_kind engine;
    weir_on_error on_error;
    unsigned v4_bits, v6_bits;
} weir_rule_options;

typedef struct weir_rule {
    size_t refs; /* sets that share it */
    char name[WEIR_RULE_NAME_MAX + 1];
    size_t name_len;
    weir_rule_limit limit;
    weir_rule_limit candidate; /* `text` is NULL: none */
    bool shadow;
    weir_rule_options *options; /* holds one reference */
    uint64_t reset_id;          /* of all its limits, for weir_store_reset_policy() */
    uint32_t counts;            /* index of its counters; assigned by the limiter, 0 before */
} weir_rule;

struct weir_rules {
    size_t refs;
    size_t len;
    bool remote;         /* a rule has another engine than the local one */
    bool candidates;     /* a rule has a candidate */
    weir_routes *routes; /* holds one reference; NULL: none */
    /* The names of the headers in key templates. They point into the rules. */
    weir_slice header[WEIR_RULE_HEADERS_MAX];
    size_t headers;
    weir_rule *rule[]; /* sorted by name */
};

/* Builds one rule with one reference.
 *  store  NULL: only check the spec; the limits have no ids.
 *  ret_error  written for a bad name or limit; may be NULL.
 * Returns as weir_rules_build(). */
WEIR_NODISCARD weir_status weir_rule_new(weir_rule **ret, const weir_store *store,
                                         const weir_zones *zones, const weir_rule_spec *spec,
                                         weir_rule_error *ret_error);

/* Replaces everything of a new rule, which no set has yet, by that of `of`, but the name and the
 * limit. Returns WEIR_OK, or WEIR_E_NOMEM with the rule in any state: drop it. */
WEIR_NODISCARD weir_status weir_rule_share_options(weir_rule *rule, const weir_rule *of);

/* Copies a rule, with one reference, so that the copy can be changed. Returns WEIR_OK or
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_rule_copy(weir_rule **ret, const weir_rule *of);

/* Builds a candidate, for weir_rule_give_candidate() or weir_rule_limit_free().
 *  text       a policy text.
 *  parsed     its policy; NULL: it is parsed here.
 *  ret        its `text` is NULL on failure.
 *  ret_error  written for a bad text; may be NULL.
 * Returns as weir_rules_build(). */
WEIR_NODISCARD weir_status weir_rule_candidate_build(weir_rule_limit *ret, const weir_store *store,
                                                     const weir_zones *zones, const char *name,
                                                     const char *text, const weir_policy *parsed,
                                                     weir_rule_error *ret_error);

/* Replaces the candidate of a rule that no set has yet. Takes over what the limit holds.
 *  candidate  `text` is NULL: none. */
void weir_rule_give_candidate(weir_rule *rule, const weir_rule_limit *candidate);

/* Frees what a limit holds. Accepts zeros. */
void weir_rule_limit_free(weir_rule_limit *limit);

/* Drop one reference; the last one frees. Accept NULL. */
void weir_rule_drop(weir_rule *r);
void weir_rules_drop(weir_rules *rules);

/* Returns a copy of `old`, with `rule` in place of the rule `name`, or without that rule if `rule`
 * is NULL. Takes over the caller's reference to `rule`. Returns NULL, with nothing changed, if
 * memory is exhausted.
 *  old  NULL: the empty set. */
weir_rules *weir_rules_with(const weir_rules *old, const char *name, size_t len, weir_rule *rule);

/* Whether a key template of the set reads a header. The case of the name does not matter. */
bool weir_rules_want_header(const weir_rules *rules, weir_slice name);

/* Returns the rule with a name, or NULL. */
const weir_rule *weir_rules_find(const weir_rules *rules, const char *name, size_t len);

/* One enum and not two flags: it is read right after it was written, and two stores cannot be
 * forwarded to one load. */
typedef enum weir_on_list { WEIR_ON_NO_LIST, WEIR_ON_ALLOW_LIST, WEIR_ON_DENY_LIST } weir_on_list;

/* How a rule treats a key. */
typedef struct weir_key_match {
    const char *at; /* the key of the state: the request's key, or the network in `text` */
    size_t len;
    const weir_rule_limit *limit; /* the best override, or the rule's own limit */
    weir_on_list list;            /* the deny list wins over the allow list */
    char text[WEIR_ADDRESS_TEXT_MAX];
} weir_key_match;

/* Matches a key against a rule. *ret may point into itself: do not copy it. Any thread.
 *  client  patterns also match its address; NULL: none. An allow list never matches a trusted
 *          proxy, whose address may stand for any client that it does not report. */
void weir_rule_match(const weir_rule *r, const char *key, size_t len, const weir_client *client,
                     weir_key_match *ret);

/* The same for an inline policy, with WEIR_RULE_SPEC_DEFAULT. Writes only at, len and text. */
void weir_inline_policy_match(const char *key, size_t len, weir_key_match *ret);

#endif
