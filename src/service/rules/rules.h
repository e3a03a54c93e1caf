/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_RULES_H
#define WEIR_SERVICE_RULES_RULES_H
/* Rules: the named policies, each with its overrides, its lists and how it reads its keys. A set of
 * them is built once and then only read, by any number of threads; a change builds another. */

#include "service/engine.h"

#define WEIR_RULES_MAX         1024  /* named policies */
#define WEIR_RULE_NAME_MAX     64    /* bytes: letters, digits, and - _ . : / */
#define WEIR_RULE_PATTERNS_MAX 65536 /* overrides, or entries of a list, of one rule */

/* An override: keys that match `pattern` are held to `limit` instead. */
typedef struct weir_override_spec {
    const char *pattern; /* a whole key, or a prefix and '*': "trial-*" */
    const char *limit;   /* a policy text */
} weir_override_spec;

/* What a configuration says of one named policy. Nothing is kept by reference. */
typedef struct weir_rule_spec {
    const char *name;
    const char *limit; /* a policy text */
    const weir_override_spec *overrides;
    size_t overrides_len;
    const char *const *allow; /* keys never counted nor denied: whole, prefix and '*', or CIDR */
    size_t allow_len;
    const char *const *deny; /* keys always denied; a key on both lists is denied */
    size_t deny_len;
    bool shadow;             /* decide and count, but deny nobody */
    bool plain_keys;         /* keys are bytes even where they look like an address */
    weir_engine_kind engine; /* that has the states */
    weir_on_error on_error;  /* of that engine; not WEIR_ON_ERROR_REPORT */
    unsigned v4_bits;        /* 0..32: an address is one key with all others of its /v4_bits ... */
    unsigned v6_bits;        /* 0..128 */
} weir_rule_spec;

/* All but name and limit as a configuration has it that says nothing of them. A policy that is
 * given as text has this, too. */
#define WEIR_RULE_SPEC_DEFAULT ((weir_rule_spec){.v4_bits = 32, .v6_bits = 64})

/* Why a rule was refused: in which of its parts, and what is wrong there. */
typedef enum weir_rule_part {
    WEIR_RULE_NAME,
    WEIR_RULE_LIMIT,
    WEIR_RULE_OVERRIDE, /* the pattern */
    WEIR_RULE_OVERRIDE_LIMIT,
    WEIR_RULE_ALLOW,
    WEIR_RULE_DENY,
    WEIR_RULE_BITS
} weir_rule_part;

typedef struct weir_rule_error {
    weir_rule_part part;
    size_t index;    /* of the override or the entry */
    uint32_t column; /* of a policy text, from 1; else 0 */
    char text[256];  /* for a reader, without the column */
} weir_rule_error;

/* Checks one rule, alone. Returns WEIR_OK; WEIR_E_SYNTAX, WEIR_E_RANGE or WEIR_E_ZONE with
 * *ret_error written: the first thing that is wrong; WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_rule_check(const weir_rule_spec *spec, const weir_zones *zones,
                                           weir_rule_error *ret_error);

typedef struct weir_rules weir_rules;

/* Builds a set of rules for keys in `store`, with one reference.
 *  specs      n of them, each one weir_rule_check() accepts, names apart.
 *  ret_error  may be NULL; written if a spec is refused, and *ret_index says which.
 * Returns WEIR_OK; WEIR_E_RANGE for too many; WEIR_E_NOMEM; or as weir_rule_check(). */
WEIR_NODISCARD weir_status weir_rules_build(weir_rules **ret, const weir_store *store,
                                            const weir_zones *zones, const weir_rule_spec *specs,
                                            size_t n, size_t *ret_index,
                                            weir_rule_error *ret_error);

#endif
