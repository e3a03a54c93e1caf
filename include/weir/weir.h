/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H
/* The public API of the core and the policy language: read a policy text, then decide.
 *
 *     weir_policy p;
 *     if (weir_policy_parse(&p, "gcra 100/s burst 20", 19, NULL, NULL) != WEIR_OK) ...
 *     uint64_t state[2] = {0};                                  // one key, fresh
 *     weir_decision d;
 *     if (weir_check(&p, state, 0, now_ns, 1, &d) != WEIR_OK) ... // d.allowed, d.retry_after_ns
 *
 * Nothing here allocates, reads a clock, or keeps state of its own. Time is int64_t nanoseconds
 * since the Unix epoch and is passed in. What each algorithm answers is defined in
 * docs/algorithms.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

#define WEIR_VERSION "0.1.0"

#if defined(__GNUC__)
#define WEIR_NODISCARD __attribute__((warn_unused_result))
#else
#define WEIR_NODISCARD
#endif

/* The values are pinned for ever. */
typedef enum weir_status {
    WEIR_OK = 0,
    WEIR_E_RANGE = 1,       /* a number is outside the range its declaration gives */
    WEIR_E_SYNTAX = 2,      /* a text or a byte stream is not what was expected */
    WEIR_E_ROOM = 3,        /* the state must grow first: weir_state_grow() */
    WEIR_E_UNSUPPORTED = 4, /* the policy cannot do this; docs/algorithms.md says why */
    WEIR_E_NOMEM = 5,       /* no memory, or a fixed budget is used up */
    WEIR_E_ZONE = 6,        /* a time zone that is not known, or bytes that are not one */
    WEIR_E_FULL = 7,        /* a bounded queue or table has no place left */
    WEIR_E_IO = 8,          /* the operating system refused */
    WEIR_E_BUSY = 9,        /* too much contention; nothing was written */
    WEIR_E_ABSENT = 10      /* there is nothing of that name */
} weir_status;

/* A short English text for `st`, static. Threads: pure. */
const char *weir_status_str(weir_status st);

#define WEIR_NOW_NS_MAX  ((int64_t)7 << 60)       /* the year 2225 */
#define WEIR_SPAN_NS_MAX (((int64_t)1 << 60) - 1) /* of a period, and to refill: 36.5 years */
#define WEIR_COST_MAX    INT32_MAX
#define WEIR_LIMIT_MAX   INT32_MAX
#define WEIR_RATE_MAX    ((int64_t)1 << 40) /* units a period, for the rate of a bucket */
#define WEIR_SLICES_MAX  65536
#define WEIR_LAYERS_MAX  8

/* ---- the decision ---------------------------------------------------------------------------- */

typedef struct weir_decision {
    int64_t limit;          /* the largest cost a fresh key could be allowed at once */
    int64_t remaining;      /* the largest cost that would be allowed now, after this decision */
    int64_t retry_after_ns; /* 0 if allowed, else the smallest wait that helps; INT64_MAX: never */
    int64_t reset_after_ns; /* until `layer` is full again and `limit` units remain; 0 if it is
                               full now */
    int64_t delay_ns;       /* leaky-queue: hold the request this long, then serve it */
    uint32_t layer;         /* index of the layer that limit, remaining, retry_after_ns and
                               reset_after_ns describe. Denied: the layer with the longest wait;
                               allowed: the one with the least remaining. Ties go to the latest
                               reset */
    bool allowed;
    bool never; /* cost > limit: no wait helps */
} weir_decision;

/* ---- policies -------------------------------------------------------------------------------- */

typedef enum weir_algorithm {
    WEIR_GCRA,
    WEIR_TOKEN_BUCKET,
    WEIR_LEAKY_BUCKET,
    WEIR_LEAKY_QUEUE,
    WEIR_FIXED_WINDOW,
    WEIR_SLIDING_LOG,
    WEIR_SLIDING_COUNTER,
    WEIR_SLIDING_SLICES
} weir_algorithm;

/* Which windows a fixed-window layer has. */
typedef enum weir_calendar {
    WEIR_ALIGNED,    /* multiples of the period since the epoch */
    WEIR_FROM_FIRST, /* from the key's first charge */
    WEIR_DAY,
    WEIR_WEEK,
    WEIR_MONTH,
    WEIR_YEAR
} weir_calendar;

typedef struct weir_zone weir_zone; /* a time zone; see weir_zone.h */

typedef struct weir_span { /* start_ns <= t < end_ns */
    int64_t start_ns;
    int64_t end_ns;
} weir_span;

/* The calendar window that holds t_ns; weir_calendar_window() is one. Pure. */
typedef weir_span (*weir_window_fn)(const weir_zone *zone, weir_calendar unit, int64_t t_ns);

/* How a layer keeps a key's state; each format is defined beside its algorithm in src/core. */
typedef enum weir_state_format {
    WEIR_STATE_TAT_NS,      /*  8 bytes: rates whose interval is whole ns */
    WEIR_STATE_TAT_TICKS,   /* 16 bytes: every other rate */
    WEIR_STATE_TAT_STEPS,   /* 16 bytes: token-bucket that refills in steps */
    WEIR_STATE_WINDOW_WORD, /*  8 bytes: fixed-window */
    WEIR_STATE_WINDOW_PAIR, /* 16 bytes: fixed-window from-first, or more than one unit a ns */
    WEIR_STATE_LOG,         /* grows with what it holds */
    WEIR_STATE_COUNTER,     /* 16 bytes */
    WEIR_STATE_SLICES       /* 16 bytes and 4 a slice */
} weir_state_format;

/* One layer: what its text says, and what follows from it for the hot path (filled by
 * weir_layer_init()). */
typedef struct weir_layer {
    weir_algorithm algorithm;
    weir_calendar calendar; /* fixed-window: which windows */
    bool count_denied;      /* fixed-window, sliding-log */
    bool relaxed;           /* sliding-counter */
    bool stepped;           /* token-bucket: refill N every P */
    int64_t limit;     /* burst, capacity, depth + 1, or the limit of a window: 1..WEIR_LIMIT_MAX */
    int64_t rate;      /* units a period: 1..WEIR_RATE_MAX; for windows the limit again */
    int64_t period_ns; /* 1..WEIR_SPAN_NS_MAX; 0 for a calendar window */
    int64_t slices;    /* sliding-slices: 1..WEIR_SLICES_MAX; else 0 */
    const weir_zone *zone; /* calendar windows: NULL is UTC; must outlive the layer */
    weir_window_fn window; /* calendar windows: where they begin and end; else NULL */

    weir_state_format format;
    uint64_t num, den;       /* rate / period_ns (slices / period_ns for slices) in lowest terms */
    uint64_t cap_hi, cap_lo; /* limit * den: the capacity in ticks of 1/num ns */
} weir_layer;

typedef struct weir_policy {
    uint32_t layers; /* 1..WEIR_LAYERS_MAX */
    weir_layer layer[WEIR_LAYERS_MAX];
} weir_policy;

/* Checks a layer's meaning (all fields before `format`) and derives the rest.
 *  ret_limit_max  may be NULL; written on WEIR_E_RANGE if a smaller `limit` would do: the largest
 *                 that would, else 0.
 * Returns WEIR_OK, or WEIR_E_RANGE: then the derived fields mean nothing. Threads: the caller owns
 * *layer. */
WEIR_NODISCARD weir_status weir_layer_init(weir_layer *layer, int64_t *ret_limit_max);

/* ---- deciding -------------------------------------------------------------------------------- */

/* The state of one key under one policy is an array of 64-bit words, all zero when fresh. Most
 * policies need a fixed number of them. A sliding-log grows by `level`: start at 0, and on
 * WEIR_E_ROOM move the state to level + 1. */
#define WEIR_LEVEL_MAX 29

/* The words a state of `p` takes at `level` (0..WEIR_LEVEL_MAX). Threads: pure. */
size_t weir_state_words(const weir_policy *p, unsigned level);

/* Moves a state from `level` to `level + 1`.
 *  from   weir_state_words(p, level) words, left as they are.
 *  to     weir_state_words(p, level + 1) words, all written.
 * Threads: pure; the caller owns both. */
void weir_state_grow(const weir_policy *p, const uint64_t *from, unsigned level, uint64_t *to);

/* Decides whether `cost` units may pass at `now_ns`, and charges every layer if so.
 *  state    weir_state_words(p, level) words; written only if the answer is "allowed" and cost > 0,
 *           or by count-denied.
 *  now_ns   0..WEIR_NOW_NS_MAX, one clock per state. Going back makes the answer stricter, never
 *           looser.
 *  cost     0..WEIR_COST_MAX; 0 is a peek.
 *  ret      written only on WEIR_OK. A denial is an answer, not an error.
 * Returns WEIR_OK; WEIR_E_RANGE for a bad time or cost, or a damaged log; WEIR_E_ROOM if a log must
 * grow first.
 * Threads: pure; the caller owns state. */
WEIR_NODISCARD weir_status weir_check(const weir_policy *p, uint64_t *state, unsigned level,
                                      int64_t now_ns, int64_t cost, weir_decision *ret);

/* Says what weir_check() would decide, and writes nothing: allowed, retry_after_ns and never are
 * its answer to `cost` (in which a denial has not been counted, where a layer counts them); if that
 * is "allowed", the other figures are those of the state as it is, nothing charged. Parameters,
 * range and threads as weir_check(); never WEIR_E_ROOM. */
WEIR_NODISCARD weir_status weir_peek(const weir_policy *p, const uint64_t *state, unsigned level,
                                     int64_t now_ns, int64_t cost, weir_decision *ret);

/* Gives back `cost` units that were charged and not used; a key never becomes better than fresh.
 * Parameters as weir_check(); ret holds the figures of a peek afterwards.
 * Returns also WEIR_E_UNSUPPORTED, with nothing written, if a layer is leaky-queue or
 * count-denied. */
WEIR_NODISCARD weir_status weir_refund(const weir_policy *p, uint64_t *state, unsigned level,
                                       int64_t now_ns, int64_t cost, weir_decision *ret);

/* Nanoseconds from now_ns until the key is as good as fresh in every layer: 0 if it is, and then
 * its state may be dropped.
 *  now_ns  0..WEIR_NOW_NS_MAX; at another time every state counts as fresh, as a damaged one does.
 * Threads: pure. */
int64_t weir_fresh_after(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns);

/* ---- the language ---------------------------------------------------------------------------- */

/* Where and why a policy text was refused. `column` counts bytes from 1. `text` is what a user
 * reads, without the column: "unknown unit 'x', expected one of ns us ms s m h d w". */
typedef struct weir_policy_error {
    uint32_t column;
    char text[200];
} weir_policy_error;

/* Finds the zone of a name for `tz NAME`. Returns NULL if there is none. `name` is not
 * terminated. */
typedef const weir_zone *(*weir_zone_find)(void *ctx, const char *name, size_t len);

typedef struct weir_zones {
    weir_zone_find find;
    void *ctx;
} weir_zones;

#define WEIR_POLICY_TEXT_MAX                                                                       \
    1024 /* bytes of the longest text read or printed, with its terminator */

/* Reads a policy text of `len` bytes (docs/policy.md has the grammar).
 *  zones      where `tz NAME` is looked up; NULL knows UTC alone. What it returns must outlive the
 *             policy.
 *  ret        written only on WEIR_OK.
 *  ret_error  may be NULL; written on failure.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_RANGE if a number is out of bounds; WEIR_E_ZONE. Threads:
 * pure. */
WEIR_NODISCARD weir_status weir_policy_parse(weir_policy *ret, const char *text, size_t len,
                                             const weir_zones *zones, weir_policy_error *ret_error);

/* Prints the canonical text: equal policies print alike, and parsing it gives the policy again.
 *  size  of buf in bytes; WEIR_POLICY_TEXT_MAX is always enough.
 * Returns the length without the terminator, as much as fits is written; 0 if size is 0. Threads:
 * pure. */
size_t weir_policy_print(const weir_policy *p, char *buf, size_t size);

/* Says in plain words what the policy admits: a line a layer, with the sustained rate, the most at
 * once, and the worst case over any span. Returns and size as weir_policy_print();
 * WEIR_POLICY_REPORT_MAX is always enough. */
#define WEIR_POLICY_REPORT_MAX 4096
size_t weir_policy_report(const weir_policy *p, char *buf, size_t size);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
