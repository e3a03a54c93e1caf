/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H
/* The public API of the rate limiter's core: parse a policy text, then check requests against it.
 *
 *     weir_policy p;
 *     if (weir_policy_parse(&p, "gcra 100/s burst 20", 19, NULL, NULL) != WEIR_OK) ...
 *     uint64_t state[2] = {0};                                  // one new key
 *     weir_decision d;
 *     if (weir_check(&p, state, 0, now_ns, 1, &d) != WEIR_OK) ... // d.allowed, d.retry_after_ns
 *
 * These functions do not allocate, read a clock, or keep state of their own. The caller passes the
 * time in, as int64_t nanoseconds since the Unix epoch. docs/algorithms.md defines what each
 * algorithm decides. */

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

/* The values never change. */
typedef enum weir_status {
    WEIR_OK = 0,
    WEIR_E_RANGE = 1,       /* a number is outside its documented range */
    WEIR_E_SYNTAX = 2,      /* a text or a byte stream has a syntax error */
    WEIR_E_ROOM = 3,        /* the state is too small: weir_state_grow() enlarges it */
    WEIR_E_UNSUPPORTED = 4, /* the policy does not support this operation */
    WEIR_E_NOMEM = 5,       /* out of memory, or a fixed memory budget is used up */
    WEIR_E_ZONE = 6,        /* unknown time zone, or invalid time zone data */
    WEIR_E_FULL = 7,        /* a bounded queue or table is full */
    WEIR_E_IO = 8,          /* a system call failed */
    WEIR_E_BUSY = 9,        /* busy or too much contention; nothing was written */
    WEIR_E_ABSENT = 10      /* not found */
} weir_status;

/* Returns a short English text for `st`, in static memory. Threads: pure. */
const char *weir_status_str(weir_status st);

#define WEIR_NOW_NS_MAX  ((int64_t)7 << 60)       /* the year 2225 */
#define WEIR_SPAN_NS_MAX (((int64_t)1 << 60) - 1) /* the longest period or refill: 36.5 years */
#define WEIR_COST_MAX    INT32_MAX
#define WEIR_LIMIT_MAX   INT32_MAX
#define WEIR_RATE_MAX    ((int64_t)1 << 40) /* units per period, for the rate of a bucket */
#define WEIR_SLICES_MAX  65536
#define WEIR_LAYERS_MAX  8

/* ---- the decision ---------------------------------------------------------------------------- */

typedef struct weir_decision {
    int64_t limit;          /* the largest cost that full quota allows at once */
    int64_t remaining;      /* the largest cost that would be allowed now, after this decision */
    int64_t retry_after_ns; /* allowed: 0. Denied: the shortest wait after which the same cost is
                               allowed. INT64_MAX: no wait helps */
    int64_t reset_after_ns; /* the time until `layer` has full quota; 0 if it has */
    int64_t delay_ns;       /* leaky-queue: delay the request by this time, then serve it */
    uint32_t layer;         /* index of the layer that limit, remaining, retry_after_ns and
                               reset_after_ns describe. Denied: the layer with the longest wait.
                               Allowed: the layer with the smallest remaining. On a tie, the layer
                               that resets last */
    bool allowed;
    bool never; /* the cost exceeds the limit: no wait helps */
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
    WEIR_SLIDING_SLICES,
    WEIR_BLOCK,
    WEIR_CONCURRENT
} weir_algorithm;

/* Where the windows of a fixed-window layer begin. */
typedef enum weir_calendar {
    WEIR_ALIGNED,    /* at multiples of the period since the epoch */
    WEIR_FROM_FIRST, /* at the key's first charge */
    WEIR_DAY,        /* here and below: at the layer's anchor, on the calendar of a time zone */
    WEIR_WEEK,
    WEIR_MONTH,
    WEIR_YEAR
} weir_calendar;

typedef struct weir_zone weir_zone; /* a time zone; see weir_zone.h */

typedef struct weir_span { /* start_ns <= t < end_ns */
    int64_t start_ns;
    int64_t end_ns;
} weir_span;

/* A function that returns the calendar window containing t_ns, such as weir_calendar_window().
 * Pure. */
typedef weir_span (*weir_window_fn)(const weir_zone *zone, weir_calendar unit, int32_t anchor,
                                    int64_t t_ns);

/* How a layer stores the state of a key. The header of each algorithm in src/core defines its
 * formats. TAT is the theoretical arrival time of GCRA. */
typedef enum weir_state_format {
    WEIR_STATE_TAT_NS,      /*  8 bytes: buckets whose interval is a whole number of ns */
    WEIR_STATE_TAT_TICKS,   /* 16 bytes: buckets with any other interval, such as 3/s */
    WEIR_STATE_TAT_STEPS,   /* 16 bytes: token-bucket that refills in steps */
    WEIR_STATE_WINDOW_WORD, /*  8 bytes: fixed-window */
    WEIR_STATE_WINDOW_PAIR, /* 16 bytes: fixed-window from-first, or limit >= period_ns */
    WEIR_STATE_LOG,         /* grows with the number of charges in the window */
    WEIR_STATE_COUNTER,     /* 16 bytes: sliding-counter */
    WEIR_STATE_SLICES,      /* 16 bytes, and 4 for each slice */
    WEIR_STATE_BLOCK,       /*  8 bytes: block */
    WEIR_STATE_BLOCK_PAIR,  /* 16 bytes: block with longest_ns */
    WEIR_STATE_LEASES       /* grows with the number of instants at which leases end */
} weir_state_format;

/* One layer of a policy. The fields before `format` are what the policy text says.
 * weir_layer_init() derives the rest from them. */
typedef struct weir_layer {
    weir_algorithm algorithm;
    weir_calendar calendar; /* fixed-window: where windows begin */
    bool count_denied;      /* fixed-window, sliding-log: denied requests count too */
    bool relaxed;           /* sliding-counter: round the estimate down */
    bool stepped;           /* token-bucket: "refill N every P" */
    int32_t nodelay;        /* leaky-queue: the first `nodelay` queued requests are served at once;
                               the others wait less, by the time of `nodelay` requests:
                               0..limit - 1; else 0 */
    int64_t limit;         /* burst, capacity, depth + 1, or the limit of a window or of concurrent:
                          1..WEIR_LIMIT_MAX. block: the lowest limit of the other layers */
    int64_t rate;          /* units per period: 1..WEIR_RATE_MAX; for windows, concurrent and blocks
                          the limit again */
    int64_t period_ns;     /* 1..WEIR_SPAN_NS_MAX; 0 for a calendar window; the lease of
                          concurrent; block: the length of the first block */
    int64_t slices;        /* sliding-slices: 1..WEIR_SLICES_MAX; else 0 */
    int64_t longest_ns;    /* block: the longest block if repeated ones double, above period_ns, at
                           most WEIR_SPAN_NS_MAX; else 0 */
    const weir_zone *zone; /* calendar windows: the time zone, NULL for UTC; outlives the layer */
    weir_window_fn window; /* calendar windows: returns their bounds; else NULL */
    int32_t anchor; /* calendar windows: where in its unit each begins. Day: minutes after midnight,
                       0..1439. Week: days after Monday, 0..6. Month: days after the 1st, 0..30; a
                       shorter month uses its last day. Year: days after January 1st of a leap year,
                       0..365; 59 is February's last day. Else 0 */

    weir_state_format format;
    uint64_t num, den;       /* rate / period_ns (slices / period_ns for slices) in lowest terms;
                                concurrent: only den, the length of a new lease */
    uint64_t cap_hi, cap_lo; /* limit * den: the capacity in ticks of 1/num ns */
} weir_layer;

typedef struct weir_policy {
    uint32_t layers; /* 1..WEIR_LAYERS_MAX. A block is the last one, and not the only one */
    weir_layer layer[WEIR_LAYERS_MAX];
} weir_policy;

/* Validates the fields before `format` and derives the rest.
 *  ret_limit_max  may be NULL. Set on WEIR_E_RANGE: the largest `limit` that would be valid, or 0
 *                 if another field is wrong.
 * Returns WEIR_OK, or WEIR_E_RANGE with the derived fields undefined. Threads: the caller owns
 * *layer. */
WEIR_NODISCARD weir_status weir_layer_init(weir_layer *layer, int64_t *ret_limit_max);

/* ---- deciding -------------------------------------------------------------------------------- */

/* The state of one key under one policy is an array of 64-bit words. A new key has full quota, and
 * its words are all zero. Most policies need a fixed number of words. A sliding-log and leases grow
 * in levels: start at level 0, and on WEIR_E_ROOM move the state to level + 1. */
#define WEIR_LEVEL_MAX 29

/* Returns the number of words of a state at `level` (0..WEIR_LEVEL_MAX). Threads: pure. */
size_t weir_state_words(const weir_policy *p, unsigned level);

/* Copies a state of `level` into a larger one of `level + 1`.
 *  from   weir_state_words(p, level) words, not changed.
 *  to     weir_state_words(p, level + 1) words, all written.
 * Threads: pure; the caller owns both. */
void weir_state_grow(const weir_policy *p, const uint64_t *from, unsigned level, uint64_t *to);

/* Decides whether `cost` units are allowed at `now_ns`. If so, charges them to every layer.
 *  state    weir_state_words(p, level) words. Written if the request is allowed and cost > 0, if a
 *           count-denied layer counts the denial, or if the denial begins a block; otherwise not
 *           changed.
 *  now_ns   0..WEIR_NOW_NS_MAX. Use one clock per state. If it steps back, decisions are stricter,
 *           never looser.
 *  cost     0..WEIR_COST_MAX. A cost of 0 charges nothing.
 *  ret      written only on WEIR_OK. A denial also returns WEIR_OK.
 * Returns WEIR_OK; WEIR_E_RANGE for a time or cost out of range, or for a damaged log; WEIR_E_ROOM
 * if a log must grow first.
 * Threads: pure; the caller owns state. */
WEIR_NODISCARD weir_status weir_check(const weir_policy *p, uint64_t *state, unsigned level,
                                      int64_t now_ns, int64_t cost, weir_decision *ret);

/* Reports what weir_check() would decide, and writes nothing. In *ret, allowed, retry_after_ns and
 * never are the decision on `cost`. The other fields describe the state as it is: nothing is
 * charged, a count-denied layer does not count a denial, and a denial does not begin a block.
 * Parameters, ranges and threads as weir_check().
 * Returns as weir_check(), but never WEIR_E_ROOM. */
WEIR_NODISCARD weir_status weir_peek(const weir_policy *p, const uint64_t *state, unsigned level,
                                     int64_t now_ns, int64_t cost, weir_decision *ret);

/* Like weir_check() and weir_peek(), but leaves units for other requests: `cost` is allowed only if
 * the cost and what it keeps fit together, and only `cost` is charged. *ret describes requests with
 * the same `keep`: `remaining` is the largest cost that would be allowed, and `never` means that
 * cost and keep exceed the limit together. If a request is denied, a count-denied layer counts only
 * its `cost`.
 *  keep  units that must remain in every layer after the charge, 0..WEIR_COST_MAX; or a share of
 *        the limit of each layer, rounded up: WEIR_KEEP_PERCENT(n) with n in 0..100.
 * Returns and threads as weir_check() and weir_peek(). */
#define WEIR_KEEP_PERCENT(n) (-(int64_t)(n))
WEIR_NODISCARD weir_status weir_check_keep(const weir_policy *p, uint64_t *state, unsigned level,
                                           int64_t now_ns, int64_t cost, int64_t keep,
                                           weir_decision *ret);
WEIR_NODISCARD weir_status weir_peek_keep(const weir_policy *p, const uint64_t *state,
                                          unsigned level, int64_t now_ns, int64_t cost,
                                          int64_t keep, weir_decision *ret);

/* Refunds `cost` units that were charged but not used. A key never exceeds its full quota.
 * Parameters and threads as weir_check(). *ret is the decision on a cost of 0 after the refund.
 * Returns as weir_check(), or WEIR_E_UNSUPPORTED with nothing written if a layer is a leaky-queue
 * or count-denied. */
WEIR_NODISCARD weir_status weir_refund(const weir_policy *p, uint64_t *state, unsigned level,
                                       int64_t now_ns, int64_t cost, weir_decision *ret);

/* Charges `cost` units that were used already, whether they fit or not: no layer denies them. The
 * key may then be in debt: a layer has used more than its limit, and denies even a cost of 0 until
 * its algorithm has returned enough units to pay the debt off. A layer counts at most as many
 * units as the largest limit that the policy language allows at its rate: see docs/algorithms.md.
 * A charge begins no block. Parameters and threads as weir_check().
 *  ret       the decision on a cost of 0 after the charge: `allowed` is false if the key is in
 *            debt, and retry_after_ns is then the time until the debt is paid off.
 *  ret_over  the units that a layer could not count, of the layer with the most; 0 in practice.
 * Returns as weir_check(). */
WEIR_NODISCARD weir_status weir_charge(const weir_policy *p, uint64_t *state, unsigned level,
                                       int64_t now_ns, int64_t cost, weir_decision *ret,
                                       int64_t *ret_over);

/* Returns the nanoseconds from now_ns until every layer has full quota again. If that is 0, the
 * state decides like that of a new key and can be deleted.
 *  now_ns  0..WEIR_NOW_NS_MAX. For any other time, and for a damaged state, the result is 0.
 * Threads: pure. */
int64_t weir_fresh_after(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns);

/* ---- the policy language --------------------------------------------------------------------- */

/* The error in a policy text. `column` is its position in bytes, from 1. `text` is a message for
 * users, without the column: "unknown unit 'x', expected one of ns us ms s m h d w". */
typedef struct weir_policy_error {
    uint32_t column;
    char text[200];
} weir_policy_error;

/* A callback that returns the time zone for `tz NAME`, or NULL if the name is unknown. If memory is
 * exhausted, it returns a zone with an empty name. `name` is not terminated. */
typedef const weir_zone *(*weir_zone_find)(void *ctx, const char *name, size_t len);

/* A callback that is called for a name that `find` does not know. It writes a text of at most
 * `size` bytes, terminated, that completes "found 'x', expected ...", or leaves it empty. */
typedef void (*weir_zone_expected)(void *ctx, const char *name, size_t len, char *ret, size_t size);

typedef struct weir_zones {
    weir_zone_find find;
    void *ctx;
    weir_zone_expected expected; /* may be NULL */
} weir_zones;

#define WEIR_POLICY_TEXT_MAX 1024 /* bytes of the longest policy text, with its terminator */

/* Parses a policy text of `len` bytes. docs/policy.md has the grammar.
 *  zones      looks up the time zone of `tz NAME`; a zone must outlive the policy. NULL: only UTC
 *             is known.
 *  ret        written only on WEIR_OK.
 *  ret_error  may be NULL; written on failure.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_RANGE if a number is out of range; WEIR_E_ZONE if the zone
 * is unknown; WEIR_E_NOMEM if `zones` has no memory for it. Threads: pure. */
WEIR_NODISCARD weir_status weir_policy_parse(weir_policy *ret, const char *text, size_t len,
                                             const weir_zones *zones, weir_policy_error *ret_error);

/* Prints the canonical text of a policy. Equal policies have the same text, and parsing it yields
 * the same policy.
 *  size  of buf in bytes. WEIR_POLICY_TEXT_MAX is always enough; a longer text is truncated.
 * Returns the length of the text in buf, without its terminator; 0 if size is 0. Threads: pure. */
size_t weir_policy_print(const weir_policy *p, char *buf, size_t size);

/* Prints an explanation of the policy in plain English: for each layer the sustained rate, the
 * largest burst and the worst case within one period, and the size of the state. `size` and the
 * result are as for weir_policy_print(); WEIR_POLICY_REPORT_MAX is always enough. */
#define WEIR_POLICY_REPORT_MAX 5120
size_t weir_policy_report(const weir_policy *p, char *buf, size_t size);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
