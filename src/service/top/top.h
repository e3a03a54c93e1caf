/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TOP_TOP_H
#define WEIR_SERVICE_TOP_TOP_H
/* The keys that weigh most lately, by policy and verdict: who hits the limit. A weight is the cost
 * of a key's requests, in units, and halves at every full minute.
 *
 * Every service has lists of its own (heavy.h), which are put together when somebody asks. A
 * service weighs about the first thousand requests of a second exactly, and of the rest a sample
 * (sampler.h), so that a request of a busy daemon pays for a subtraction. */

#include "service/service.h"

#define WEIR_TOP_KEYS_MAX 1000
#define WEIR_TOP_K        10  /* shown if nobody says how many, or as many as there are */
#define WEIR_TOP_TEXT_MAX 128 /* bytes of a key that are kept */
#define WEIR_TOP_HALF_NS  (INT64_C(60) * 1000000000)

typedef struct weir_top_options {
    size_t keys;         /* of a list, 1..WEIR_TOP_KEYS_MAX */
    size_t memory_bytes; /* for all lists of all services */
} weir_top_options;

/* Has the keys weighed. To be called before any service is opened. Returns WEIR_OK; WEIR_E_RANGE
 * for a bad number of keys; WEIR_E_IO if there is no random. */
WEIR_NODISCARD weir_status weir_limiter_enable_top(weir_limiter *h,
                                                   const weir_top_options *options);

/* How many keys a list has; 0: they are not weighed. Any thread. */
size_t weir_limiter_top_keys(const weir_limiter *h);

typedef enum weir_top_of {
    WEIR_TOP_ALLOWED, /* by the limit or the allow list */
    WEIR_TOP_DENIED, /* by the limit or the deny list; and what a shadow policy would have denied */
    WEIR_TOP_OFS
} weir_top_of;

/* "allowed", "denied". */
const char *weir_top_of_name(weir_top_of of);

/* A key as its rule sees it: an address is its network. It weighs cost - error to cost, but for
 * what sampling may add. */
typedef struct weir_top_key {
    const char *text; /* the first text_len bytes of it */
    size_t text_len;  /* all of it, or WEIR_TOP_TEXT_MAX if it is longer */
    size_t len;       /* of the whole key */
    uint64_t hash;    /* tells keys apart that begin alike, until weir is started anew */
    int64_t cost;     /* units */
    int64_t error;    /* of which so many may be other keys' */
    int64_t requests; /* about; since the key is in the list */
} weir_top_key;

typedef struct weir_top {
    int64_t cost;     /* of all keys */
    int64_t unlisted; /* what a key weighs at most that is in no list */
    int64_t sampling; /* one unit of so many is looked at; 1: every one */
    bool complete;    /* false: some service has no list, since the memory is taken */
    size_t len;
    struct weir_top_rows *rows; /* private */
    weir_top_key *key;          /* the heaviest first */
} weir_top;

/* Says which k keys weigh most.
 *  policy  a rule in force, or a name that counts of no rule are under, such as "(texts)".
 *  k       1..weir_limiter_top_keys().
 *  ret     written on WEIR_OK only; for weir_top_free().
 * Returns WEIR_OK; WEIR_E_ABSENT for no such policy; WEIR_E_RANGE for k; WEIR_E_UNSUPPORTED if keys
 * are not weighed; WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_limiter_top(weir_limiter *h, weir_slice policy, weir_top_of of,
                                            size_t k, int64_t now_ns, weir_top *ret);

void weir_top_free(weir_top *t);

#endif
