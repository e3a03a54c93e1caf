/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_INTERNAL_H
#define WEIR_RLS_INTERNAL_H
/* The fields of weir_rls and of its loops, their statistics, and the requests that a loop decides
 * together. Private to src/rls. */

#include "port/assert.h"
#include "port/port.h"
#include "rls/config_internal.h"

/* ---- statistics ------------------------------------------------------------------------------ */
/* Counters belong to a name, which keeps its index for ever. Each loop has counters of its own. */

enum { /* the counters of a name; of an unknown domain only the first */
       RLS_TOTAL_HITS,
       RLS_OVER_LIMIT,
       RLS_NEAR_LIMIT,
       RLS_WITHIN_LIMIT,
       RLS_SHADOW_MODE,
       RLS_COUNTS
};

enum { /* the counters of a loop itself */
       RLS_ENGINE_ERRORS,
       RLS_SERVICE_ERRORS,
       RLS_GLOBAL_SHADOW,
       RLS_NOT_STORED, /* hits that were counted at another name, since no more names are stored */
       RLS_REQUESTS,   /* with the verb CHECK_AND_REPORT */
       RLS_LOOP_COUNTS
};

typedef struct rls_counters {
    port_counter count[RLS_COUNTS];
} rls_counters;

#define RLS_NAMES_MAX   65536 /* names, those of limits of earlier configurations too */
#define RLS_DYNAMIC_MAX 10000 /* of them, names that come from requests */
#define RLS_STAT_MAX    1024  /* bytes of a name */
#define RLS_CHUNK       256   /* names whose counters are allocated together */
#define RLS_CHUNKS      (RLS_NAMES_MAX / RLS_CHUNK)

/* The first names: for unknown domains, and for limits, after RLS_NAMES_MAX names. */
enum { RLS_OTHER_DOMAINS, RLS_OTHER_LIMITS };

#define RLS_NO_NAME UINT32_MAX

typedef struct rls_name rls_name;

/* The counters of all names, in chunks that are allocated when they are needed. */
typedef struct rls_table {
    rls_counters *chunk[RLS_CHUNKS];
} rls_table;

/* All names, in a hash table that grows only. Threads look names up without a lock. */
typedef struct rls_names {
    rls_name **name;
    size_t len, dynamic; /* guarded by the lock of weir_rls */
    port_counter full;   /* 1: no more dynamic names are added. Relaxed: a hint */
    port_word *slots;    /* 1 + the index of a name; 0: empty. Released after the name is written */
    port_mutex *readers; /* of weir_rls_each_stat(); guards the fields below */
    struct rls_row *rows; /* all statistics of the first rows_names names, sorted */
    size_t rows_len, rows_names;
} rls_names;

/* Writes a name as the reference sanitises it, in place, and without control characters: in /stats
 * and for statsd, a line break would begin another statistic. */
void rls_sanitise(char *text, size_t len);

bool rls_names_open(rls_names *n);
void rls_names_close(rls_names *n);

/* Returns the index of a sanitised name; RLS_NO_NAME if it is not stored. Any thread.
 *  domain_len  of the name; equal to len: the name is that of an unknown domain. */
uint32_t rls_names_find(const rls_names *n, const char *text, size_t len, size_t domain_len);

/* Adds a sanitised name, unless it is stored already. The caller holds the lock of weir_rls.
 * Returns its index; RLS_NO_NAME if it is not stored. */
uint32_t rls_names_add(rls_names *n, const char *text, size_t len, size_t domain_len, bool dynamic);

/* Sets the index of each limit's statistics. The caller holds the lock. */
void rls_names_add_config(rls_names *n, weir_rls_config *c);

/* ---- the shared part ------------------------------------------------------------------------- */

struct weir_rls {
    port_counter generation; /* changes with the configuration */
    port_mutex *lock;        /* guards the fields below */
    weir_rls_config *config; /* NULL: none yet. Holds one reference */
    weir_rls_loop *loops;
    rls_names names;
    rls_table closed; /* the sums of closed loops */
    uint64_t closed_own[RLS_LOOP_COUNTS];
    port_counter loaded, refused;
};

/* ---- the requests of a loop ------------------------------------------------------------------ */

#define RLS_GROUP_MAX     64  /* requests that are decided together */
#define RLS_ITEMS_MAX     256 /* their descriptors */
#define RLS_TAKES_MAX     (2 * WEIR_BATCH_MAX)
#define RLS_OVERRIDES_MAX WEIR_RLS_DESCRIPTORS_MAX
#define RLS_KEYS_MAX      ((size_t)1 << 20) /* bytes of the keys of their states */

#define RLS_NO_TAKE UINT16_MAX

/* A descriptor of a request. */
typedef struct rls_item {
    const rls_limit *limit; /* NULL: none applies */
    weir_slice key;         /* of the state */
    uint64_t hits;
    uint32_t stat;
    uint16_t take;   /* its request to the service; RLS_NO_TAKE: none */
    uint16_t before; /* a request of cost 0 before it, which tells the count; RLS_NO_TAKE: none */
    bool unlimited, negative, replaced;
    bool late;      /* its hits are charged in any case. `before` is a peek before the charge */
    bool probes;    /* its request has the cost 0: what is left decides */
    bool uncharged; /* it was decided, but an atomic request was denied as a whole */
} rls_item;

/* A request. */
typedef struct rls_plan {
    size_t first, len;   /* its items */
    const char *refused; /* why it is refused; NULL: it is not */
    bool unknown_domain;
    bool special; /* needs more than one call of the service */
} rls_plan;

struct weir_rls_loop {
    weir_rls *shared;
    weir_rls_loop *next;
    weir_service *service;
    weir_rls_config *config; /* the active one; NULL: none. Holds one reference */
    uint64_t generation;
    weir_rls_config *held; /* of the last answers, if it is not the active one */
    weir_rls_fallback fallback;
    bool has_fallback;
    weir_arena metadata; /* of the last answers */
    rls_table counters;
    rls_counters lost; /* used if memory for counters is exhausted */
    port_counter own[RLS_LOOP_COUNTS];

    /* The requests that are decided now. */
    size_t plans_len, items_len, takes_len, overrides_len, keys_len;
    rls_plan plan[RLS_GROUP_MAX];
    rls_item item[RLS_ITEMS_MAX];
    weir_request take[RLS_TAKES_MAX];
    weir_rls_status status[RLS_ITEMS_MAX]; /* of the items */
    weir_rls_header header[RLS_GROUP_MAX][WEIR_RLS_HEADERS_MAX];
    weir_rls_decided decided[RLS_ITEMS_MAX]; /* with options.flavours */
    rls_limit override_limit[RLS_OVERRIDES_MAX];
    char override_text[RLS_OVERRIDES_MAX][RLS_TEXT_MAX];
    rls_path path;
    char scratch[RLS_DESCRIPTOR_MAX];
    char keys[RLS_KEYS_MAX];
};

/* The slow path of rls_counters_of(). */
rls_counters *rls_counters_add(weir_rls_loop *l, uint32_t name);

/* The loop's counters of a name. */
static inline rls_counters *rls_counters_of(weir_rls_loop *l, uint32_t name)
{
    rls_counters *chunk = l->counters.chunk[name / RLS_CHUNK];
    return __builtin_expect(chunk != NULL, 1) ? &chunk[name % RLS_CHUNK]
                                              : rls_counters_add(l, name);
}

/* Returns the index of a name from a request, which is added if there is room; else `otherwise`.
 *  text  changed: it is sanitised. */
uint32_t rls_dynamic_name(weir_rls_loop *l, char *text, size_t len, size_t domain_len,
                          uint32_t otherwise);

/* Counts n descriptors of a domain that the configuration does not have. */
void rls_count_unknown_domain(weir_rls_loop *l, weir_slice domain, size_t n);

/* Adopts the active configuration, and drops what the last answers needed. */
void rls_loop_refresh(weir_rls_loop *l);

/* Clears the state of a wait that has ended. */
void rls_wait_clear(weir_rls_wait *wait);

/* Plans the first requests that can be decided together, and adds the requests to the service.
 *  c        NULL: no configuration is active.
 *  resumes  the same n requests were planned before.
 * Returns how many are planned; 0 if the first is one for the fallback. */
size_t rls_plan_group(weir_rls_loop *l, const weir_rls_config *c, const weir_rls_request *requests,
                      size_t n, bool resumes);

/* Adds the request of an item to the service.
 *  cost  0..WEIR_COST_MAX.
 *  keep  of the item's limit; 0 for a charge or a refund, which keep nothing. */
void rls_add_take(weir_rls_loop *l, rls_item *item, int64_t cost, int64_t keep);

/* The cost of an item's hits. */
static inline int64_t rls_cost_of(const rls_item *item)
{
    return item->hits < WEIR_COST_MAX ? (int64_t)item->hits : WEIR_COST_MAX;
}

/* Whether a peek finds its limit over: in debt, or if nothing is left. A limit that does not mark
 * it counts no hits above it. */
static inline bool rls_denies_peek(const weir_rls_config *c, const rls_limit *limit,
                                   const weir_decision *d)
{
    return !d->allowed || (d->remaining <= 0 && (c->options.peeks == WEIR_RLS_PEEKS_DENY ||
                                                 (limit->marks_over && d->layer == 0)));
}

/* Whether the service decides an item. */
static inline bool rls_has_state(const rls_item *item)
{
    return item->limit && !item->unlimited && item->limit->rule.len > 0;
}

/* Runs the calls that a special request needs. Returns false if an engine is pending. */
bool rls_run_special(weir_rls_loop *l, weir_rls_wait *wait, const rls_plan *p, weir_rls_verb verb,
                     int64_t now_ns);

/* Makes the dynamic metadata of a response to n descriptors. Returns NULL if memory is
 * exhausted. */
const weir_rls_value *rls_metadata(weir_arena *a, const weir_rls_request *r, const rls_item *items,
                                   const weir_rls_status *statuses, size_t n);

/* Writes the response to a planned request whose items are decided, and counts it. */
void rls_respond(weir_rls_loop *l, const weir_rls_config *c, size_t plan,
                 const weir_rls_request *request, weir_rls_response *ret, int64_t now_ns);

#endif
