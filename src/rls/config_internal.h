/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_CONFIG_INTERNAL_H
#define WEIR_RLS_CONFIG_INTERNAL_H
/* A configuration of the Rate Limit Service: a tree of descriptors with one hash table over all of
 * its nodes, and how the entries of a request are matched against it. Private to src/rls. */

#include "port/arena.h"
#include "port/atomic.h"
#include "rls/rls.h"

#define RLS_DEPTH_MAX 64 /* levels of descriptors */

/* The bytes of the keys and values of a descriptor, with two for each entry. A longer one is
 * refused. */
#define RLS_DESCRIPTOR_MAX 65535

/* ---- limits ---------------------------------------------------------------------------------- */

/* Requests of several hits that a limit denied without a charge, since they were last reported.
 * Relaxed: numbers for a log. */
typedef struct rls_not_charged {
    port_word requests;
    port_word last; /* of the latest: the hits, and what was left, in 32 bits each */
} rls_not_charged;

typedef struct rls_limit {
    weir_slice rule;     /* the name of the rule, or with by_text an inline policy. len 0: no state:
                             the limit is unlimited, or 0 */
    weir_slice name;     /* of current_limit and `replaces`; len 0: none */
    weir_slice full_key; /* "DOMAIN.KEY_VALUE.KEY" */
    uint32_t domain_len; /* of full_key */
    uint32_t name_id;    /* equal names have equal ids; 0: none */
    const uint32_t *replaces; /* ids */
    size_t replaces_len;
    uint32_t requests_per_unit;
    weir_rls_unit unit;
    uint64_t near;      /* hits from which a request counts as near the limit; 0: of `policy` */
    const char *policy; /* the policy text of the file; NULL: none */
    const weir_policy *parsed;      /* with options.flavours, if the limit has a rule; else NULL */
    const weir_rls_value *metadata; /* a map; NULL: none, or options.metadata is false */
    int64_t keep;                   /* of takes and peeks; 0 if counts_denied */
    rls_not_charged *not_charged;   /* NULL with by_text */
    uint32_t stat; /* the index of its statistics, set before the configuration is active */
    /* Where the windows of a fixed-window begin, to know their end without a state. */
    int64_t window_ns; /* 0: no fixed window. Not used with `window` */
    weir_calendar calendar;
    weir_window_fn window; /* NULL: not of the calendar */
    const weir_zone *zone;
    int32_t anchor;
    bool by_text, unlimited, shadow, quota, detailed, atomic, late;
    bool counts_denied; /* a denied hit counts: nothing can be given back */
    bool marks_over;    /* its policy has a layer more: see rls_policy_text() */
    bool shows_policy;  /* current_limit is the decision's limit, with the unit UNKNOWN */
} rls_limit;

/* Writes what follows from the number, the unit and the options, for a limit without a policy of
 * its own: near, counts_denied, and its windows. Hits that are denied do not count with
 * stop_when_over, nor towards an atomic limit: a denied request charges nothing then. */
void rls_limit_derive(rls_limit *limit, const weir_rls_options *options);

/* Writes the policy text of such a limit, such as "fixed-window 10/s count-denied". Its number is 1
 * or more. Returns the length.
 * A count never exceeds its limit, so it does not tell whether there were more hits. With
 * marks_over, the text begins with "fixed-window 11/s count-denied & ": the decision on a peek
 * describes this first layer once both are full, and the second one before. */
#define RLS_TEXT_MAX 128
size_t rls_policy_text(const rls_limit *limit, const weir_rls_options *options,
                       char ret[static RLS_TEXT_MAX]);

/* The hits from which a request counts as near a limit of n hits. */
uint64_t rls_near(const weir_rls_options *options, uint64_t n);

/* Copies a value with its members and texts. Returns NULL if memory is exhausted. */
weir_rls_value *rls_value_copy(weir_arena *a, const weir_rls_value *from);

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct rls_node {
    weir_slice text; /* "KEY" or "KEY_VALUE"; of a domain its name */
    uint32_t parent;
    uint32_t wildcard_first, wildcard_last,
        wildcard_next;    /* children with '*', in order; 0: none */
    size_t child_len_max; /* of the children's texts */
    rls_limit *limit;     /* NULL: none */
    bool has_children, is_wildcard, share_threshold, value_to_metric, atomic;
} rls_node;

struct weir_rls_config {
    port_word refs;
    weir_rls_options options;
    rls_node *nodes; /* [0] is the root, whose children are the domains */
    size_t nodes_len;
    uint32_t *slots; /* open addressing by parent and text: the index of a node, 0: empty */
    size_t slots_mask;
    rls_limit *limits; /* in the order of the files */
    size_t limits_len;
    rls_not_charged *not_charged; /* by limit; all else is immutable */
    weir_rule_spec *rules;
    size_t rules_len;
    weir_arena arena; /* owns all but the configuration itself */
};

/* Adds a node to the hash table. */
void rls_table_add(weir_rls_config *c, uint32_t node);

/* Returns the child of a node with a text; 0 if there is none. */
uint32_t rls_child(const weir_rls_config *c, uint32_t parent, const char *text, size_t len);

/* Returns the node of a domain; 0 if there is none. */
static inline uint32_t rls_domain(const weir_rls_config *c, weir_slice domain)
{
    return rls_child(c, 0, domain.at, domain.len);
}

/* ---- the names of rules (rule_names.c) ------------------------------------------------------- */

/* Writes a different name for each of n limits: its full key, if that is a valid name which no
 * other limit has; else a valid name made from it, with '-' and 8 hexadecimal digits of its hash.
 * Sets the limits' `rule`, which points into names.
 * Returns false if memory is exhausted. */
bool rls_name_rules(rls_limit *const *limits, size_t n, char (*names)[WEIR_RULE_NAME_MAX + 1]);

/* ---- matching -------------------------------------------------------------------------------- */

typedef enum rls_how { RLS_EXACT, RLS_WILDCARD, RLS_DEFAULT } rls_how;

/* The nodes that the entries of a descriptor matched. */
typedef struct rls_path {
    size_t len;
    const rls_node *node[RLS_DEPTH_MAX];
    rls_how how[RLS_DEPTH_MAX];
    bool shares;  /* share_threshold: a pattern stands for the value of an entry */
    bool renamed; /* the statistics have another name than the limit */
} rls_path;

/* Matches a descriptor.
 *  domain   not 0.
 *  scratch  RLS_DESCRIPTOR_MAX bytes.
 *  path     written for all entries if the result is not NULL.
 * Returns the limit, or NULL if none applies. */
const rls_limit *rls_match(const weir_rls_config *c, uint32_t domain,
                           const weir_rls_descriptor *descriptor, char *scratch, rls_path *path);

/* The value of an entry in the key of the state: the pattern, if its threshold is shared. */
weir_slice rls_shared_value(const rls_path *path, size_t i, const weir_rls_entry *entry);

/* Writes the name of the statistics of a matched descriptor, if path->renamed or limit->detailed.
 * Returns its length; 0 if it does not fit. */
size_t rls_stat_name(const weir_rls_options *options, const rls_limit *limit, const rls_path *path,
                     const weir_rls_descriptor *descriptor, char *ret, size_t size);

/* Replaces the dots of a key and value, a part of such a name, if options->dots_replaced. */
void rls_replace_dots(const weir_rls_options *options, char *part, size_t len);

#endif
