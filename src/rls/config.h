/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_CONFIG_H
#define WEIR_RLS_CONFIG_H
/* The limits of the Rate Limit Service: domains with trees of descriptors, as the configuration
 * files of envoyproxy/ratelimit describe them. A configuration is immutable and has reference
 * counts. */

#include "port/buffer.h"
#include "service/rules/rules.h"

/* The units of a limit, by the numbers of the protocol. */
typedef enum weir_rls_unit {
    WEIR_RLS_UNIT_UNKNOWN,
    WEIR_RLS_SECOND,
    WEIR_RLS_MINUTE,
    WEIR_RLS_HOUR,
    WEIR_RLS_DAY,
    WEIR_RLS_MONTH, /* 30 days, unless options.calendar */
    WEIR_RLS_YEAR,  /* 365 days, unless options.calendar */
    WEIR_RLS_WEEK,
    WEIR_RLS_UNITS
} weir_rls_unit;

/* "SECOND", "MINUTE", ... ; "UNKNOWN". */
const char *weir_rls_unit_word(weir_rls_unit unit);

/* Reads a unit; letters are case-insensitive. Returns WEIR_RLS_UNIT_UNKNOWN for any other text. */
weir_rls_unit weir_rls_unit_read(const char *text);

/* A value of metadata, as google.protobuf.Value has it. All zero: null. */
typedef struct weir_rls_value {
    enum {
        WEIR_RLS_NULL,
        WEIR_RLS_BOOL,
        WEIR_RLS_NUMBER,
        WEIR_RLS_TEXT,
        WEIR_RLS_LIST,
        WEIR_RLS_MAP
    } kind;
    bool truth;
    double number; /* finite */
    weir_slice text;
    weir_slice name;                     /* in a map; len 0 in a list */
    struct weir_rls_value *first, *next; /* the members, and the next one of the same list or map */
} weir_rls_value;

/* A descriptor of a configuration file. */
typedef struct weir_rls_spec {
    const char *key;
    const char *value; /* NULL or "": every value; may have '*' */
    bool has_limit;    /* `rate_limit` or `policy` is given */
    uint32_t requests_per_unit;
    weir_rls_unit unit;
    bool unlimited;
    const char *name; /* NULL or "": none */
    const char *const *replaces;
    size_t replaces_len;
    const char *policy; /* weir: a policy text; it decides instead of requests_per_unit and unit.
                                NULL: none */
    bool shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold;
    bool atomic;                    /* it and the descriptors below: all or nothing */
    bool late;                      /* its hits were used already: they are charged in any case */
    int64_t keep;                   /* what its requests keep for others: see weir_check_keep() */
    const weir_rls_value *metadata; /* a map; NULL: none */
    const struct weir_rls_spec *descriptors;
    size_t descriptors_len;
} weir_rls_spec;

typedef struct weir_rls_domain_spec {
    const char *domain;
    bool atomic; /* of all its descriptors */
    const weir_rls_spec *descriptors;
    size_t descriptors_len;
} weir_rls_domain_spec;

/* When a peek, which has 0 hits, is over a limit of N. */
typedef enum weir_rls_peeks {
    WEIR_RLS_PEEKS_DENY, /* if N hits were counted: the next hit is denied */
    WEIR_RLS_PEEKS_ALLOW /* if more than N hits were counted, as with the reference */
} weir_rls_peeks;

typedef struct weir_rls_options {
    bool headers;      /* LIMIT_RESPONSE_HEADERS_ENABLED: the response has the three headers */
    unsigned flavours; /* a set of weir_header_flavour, instead of the three headers; 0: none */
    int retry_spread;  /* of the waits in headers of flavours: 0..100 percent */
    const char *limit_header, *remaining_header, *reset_header; /* NULL: RateLimit-Limit, ... */
    double near_limit_ratio;                                    /* 0..1; 0 means 0.8 */
    bool shadow_mode;    /* SHADOW_MODE: the overall code is always OK */
    bool quota_mode;     /* QUOTA_MODE: every limit has quota_mode */
    bool stop_when_over; /* STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: denied hits are not counted,
                                 and every domain is atomic */
    weir_rls_peeks peeks;
    bool metadata;      /* RESPONSE_DYNAMIC_METADATA: the response has dynamic_metadata */
    bool dots_replaced; /* SANITIZE_DESCRIPTOR_METRIC_DOTS: the names of statistics have '_' for
                                each '.' in a key or value */
    bool calendar;      /* MONTH and YEAR are those of the calendar, in UTC */
    bool exact_reset;   /* duration_until_reset in nanoseconds; if not, whole seconds, up */
    weir_engine_kind engine; /* of all limits */
    weir_on_error on_error;
} weir_rls_options;

typedef struct weir_rls_config weir_rls_config;

/* The most limits of a configuration. */
#define WEIR_RLS_LIMITS_MAX 8192

/* An error, and the descriptor that it is about. */
typedef struct weir_rls_config_error {
    const weir_rls_domain_spec *domain; /* never NULL */
    const weir_rls_spec *descriptor;    /* NULL: the domain */
    uint32_t column;                    /* in the policy text, from 1; 0: not about the text */
    char text[512];
} weir_rls_config_error;

/* Builds a configuration with one reference; copies what it needs.
 *  zones      for policy texts; NULL knows UTC only.
 *  ret_error  written on every failure but WEIR_E_NOMEM.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX, with the meaning that the reference's errors have
 * (an empty key, a duplicate composite key, ...); or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_rls_config_build(weir_rls_config **ret, const weir_zones *zones,
                                                 const weir_rls_options *options,
                                                 const weir_rls_domain_spec *domains, size_t n,
                                                 weir_rls_config_error *ret_error);

/* Whether a text matches a pattern, which has at least one '*'. Pure. */
bool weir_rls_pattern_matches(weir_slice pattern, weir_slice text);

/* How many limits there are, also those without a rule: unlimited ones, and those of 0 requests. */
size_t weir_rls_config_limits(const weir_rls_config *c);

/* The rules of the limits, for weir_rules_build() together with those of weir.yaml. Valid as long
 * as the configuration. A rule's name is DOMAIN.KEY_VALUE.KEY..., or if that is no valid rule name,
 * a valid one made from it, ending in '-' and 8 hexadecimal digits of its hash. */
const weir_rule_spec *weir_rls_config_rules(const weir_rls_config *c, size_t *ret_len);

/* Appends the limits as text, for /rlconfig: one line for each, as the reference prints them. */
void weir_rls_config_print(const weir_rls_config *c, weir_buffer *out);

/* Any thread. */
void weir_rls_config_hold(weir_rls_config *c);
void weir_rls_config_drop(weir_rls_config *c); /* accepts NULL */

#endif
