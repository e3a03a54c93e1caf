/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_TOP_H
#define WEIR_SERVICE_TOP_TOP_H
/* Top keys: for each policy, the keys with the highest recent cost, among the allowed and among the
 * denied requests. A key's cost is the units of its requests; it decays by half each minute.
 *
 * Every service tracks its own keys (tracker.h), and a query merges what all services have. In each
 * second a service counts about the first thousand requests exactly, and samples the others. So on
 * a busy server a request costs one more subtraction. */

#include "port/text.h"
#include "service/limiter.h"

#define WEIR_TOP_KEYS_MAX 1000
#define WEIR_TOP_K        10  /* how many keys are shown by default */
#define WEIR_TOP_TEXT_MAX 128 /* bytes kept of a key */
#define WEIR_TOP_HALF_NS  (INT64_C(60) * 1000000000)

typedef struct weir_top_options {
    size_t keys;         /* of each list, 1..WEIR_TOP_KEYS_MAX */
    size_t memory_bytes; /* of all lists of all services */
} weir_top_options;

/* Enables the tracking of top keys. To be called before a service is opened. Returns WEIR_OK;
 * WEIR_E_RANGE for a bad number of keys; WEIR_E_IO if the system has no random numbers. */
WEIR_NODISCARD weir_status weir_limiter_enable_top(weir_limiter *l,
                                                   const weir_top_options *options);

/* The number of keys in a list; 0: top keys are not tracked. Any thread. */
size_t weir_limiter_top_keys(const weir_limiter *l);

typedef enum weir_top_of {
    WEIR_TOP_ALLOWED, /* by the limit or the allow list */
    WEIR_TOP_DENIED,  /* by the limit or the deny list, or only by a limit in shadow */
    WEIR_TOP_OFS
} weir_top_of;

/* "allowed" or "denied". */
const char *weir_top_of_name(weir_top_of of);

/* A key. An IP address is shown as the network that it counts with. Its true cost is between
 * cost - error and cost, apart from errors of sampling. */
typedef struct weir_top_key {
    const char *text; /* the first text_len bytes of the key */
    size_t text_len;  /* at most WEIR_TOP_TEXT_MAX */
    size_t len;       /* of the whole key */
    uint64_t hash;    /* distinguishes keys with the same beginning, until weir restarts */
    int64_t cost;     /* in units */
    int64_t error;    /* the part of the cost that may belong to other keys */
    int64_t requests; /* approximate, since the key entered the list */
} weir_top_key;

typedef struct weir_top {
    int64_t cost;     /* of all keys */
    int64_t unlisted; /* upper bound of the cost of a key that is not listed */
    int64_t sampling; /* one unit in so many was sampled; 1: all requests were counted */
    bool complete;    /* false: some lists are missing, because memory_bytes is used up */
    size_t len;
    struct weir_top_rows *rows; /* private */
    weir_top_key *key;          /* highest cost first */
} weir_top;

/* Lists the top k keys of a policy. Any thread.
 *  policy  the name of an active rule, or WEIR_COUNTS_TEXTS, _THROTTLE or _OTHERS.
 *  k       1..weir_limiter_top_keys().
 *  ret     written on WEIR_OK only; to be freed by weir_top_free().
 * Returns WEIR_OK; WEIR_E_ABSENT if there is no such policy; WEIR_E_RANGE for a bad k;
 * WEIR_E_UNSUPPORTED if top keys are not tracked; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_limiter_top(weir_limiter *l, weir_slice policy, weir_top_of of,
                                            size_t k, int64_t now_ns, weir_top *ret);

void weir_top_free(weir_top *t);

#endif
