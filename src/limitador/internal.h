/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_INTERNAL_H
#define WEIR_LIMITADOR_INTERNAL_H
/* Shared by the files of limitador. */

#include "limitador/cel.h"
#include "limitador/limitador.h"
#include "port/atomic.h"
#include "port/port.h"

/* ---- the configuration ----------------------------------------------------------------------- */

typedef struct limitador_limit {
    weir_limitador_view view;
    weir_cel **conditions, **variables; /* of view.limit, parsed */
    bool never;    /* an expression has an unknown name: the limit does not apply to any request */
    uint64_t hash; /* of the namespace, the window, the conditions and the variables */
    uint64_t rule_hash;
    char rule[WEIR_RULE_NAME_MAX + 1];
    char policy[64];
    char *text; /* owns all strings of view.limit */
} limitador_limit;

struct weir_limitador_config {
    port_mutex *mutex; /* of `refs` */
    size_t refs;
    weir_limitador_options options;
    limitador_limit **limits; /* by namespace, and within each in the order of the file */
    size_t limits_len;
    weir_rule_spec *rules;
    size_t rules_len;
};

/* Finds the limits of a namespace.
 *  ret  the first one.
 * Returns their number. */
size_t limitador_find(const weir_limitador_config *c, weir_slice name_space,
                      limitador_limit *const **ret);

/* FNV-1a of some bytes, continued from `hash`. */
#define LIMITADOR_HASH_SEED UINT64_C(0xcbf29ce484222325)
static inline uint64_t limitador_hash(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- the loops ------------------------------------------------------------------------------- */

enum {
    LIMITADOR_NAMES_MAX = 1000, /* namespaces with counts of their own */
    LIMITADOR_TABLE = 2048,     /* of them; a power of two */
    LIMITADOR_SCRATCH = 2 * WEIR_KEY_MAX,
    LIMITADOR_ANSWERS = 64 /* of which the headers stay valid */
};

/* The counts of a namespace in a loop, which alone writes them. */
typedef struct limitador_tally {
    port_counter calls, hits, limited;
    size_t len;
    char name[];
} limitador_tally;

/* The keys of counters, one after the other. */
typedef struct limitador_keys {
    char *at;
    size_t len, capacity;
} limitador_keys;

struct weir_limitador {
    port_mutex *mutex; /* of `config` and `loops` */
    weir_limitador_config *config;
    port_word generation; /* of config */
    weir_limitador_loop *loops;
};

struct weir_limitador_loop {
    weir_limitador *shared;
    weir_service *service;
    weir_limitador_loop *next;
    weir_limitador_config *config; /* holds a reference */
    uint64_t generation;           /* of `config` */

    limitador_keys keys; /* of the request being decided */
    char scratch[LIMITADOR_SCRATCH];
    weir_rls_header headers[LIMITADOR_ANSWERS][WEIR_RLS_HEADERS_MAX];
    size_t answers;

    /* Appended by this thread; entries below tallies_len never change. */
    port_word tallies_len;
    limitador_tally *tallies[LIMITADOR_NAMES_MAX + 1];
    uint16_t table[LIMITADOR_TABLE]; /* 1 + the index of a tally; 0: free */
};

/* Makes l->config the active configuration. */
void limitador_refresh(weir_limitador_loop *l);

/* The key of a counter from the values of its variables: each value with '\' before '\' and '|',
 * joined by '|'. Without variables it is "*", and for one empty value it is "\". */
#define LIMITADOR_KEY_SIMPLE "*"
#define LIMITADOR_KEY_EMPTY  "\\"

/* Returns max_value minus the hits, as limitador shows it; 0 if the counter is full. With a
 * max_value above WEIR_LIMIT_MAX the counter is full at WEIR_LIMIT_MAX hits, so the result can be
 * more than it will still accept. */
static inline uint64_t limitador_left(uint64_t max_value, const weir_decision *d)
{
    uint64_t left = (uint64_t)d->remaining, used = (uint64_t)d->limit - left;
    return left == 0 || used > max_value ? 0 : max_value - used;
}

/* Adds to the counts of a namespace. Does nothing if memory is exhausted. */
void limitador_count(weir_limitador_loop *l, weir_slice name_space, uint64_t calls, uint64_t hits,
                     uint64_t limited);

#endif
