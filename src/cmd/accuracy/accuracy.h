/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCURACY_ACCURACY_H
#define WEIR_CMD_ACCURACY_ACCURACY_H
/* `weir accuracy`: its command line, its results, and between them the comparison: the requests of
 * a key are decided with several algorithms, and each decision is compared with the exact one at
 * the same limit, which is `limit` units in any window (t - period, t]. Keys are independent of
 * each other. The comparison must not know where requests are from. */

#include <weir/weir.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accesslog/accesslog.h"
#include "accesslog/options.h"
#include "port/buffer.h"

/* ---- the comparison -------------------------------------------------------------------------- */

/* What a decision is compared with. */
typedef enum accuracy_against {
    ACCURACY_OWN, /* the limit, given what the algorithm itself allowed in the window */
    ACCURACY_LOG, /* the decision of a sliding log that sees the same requests */
    ACCURACY_RATE /* the limit, given all requests in the window; the algorithm counts all, too */
} accuracy_against;

enum { ACCURACY_AGAINST = ACCURACY_RATE + 1, ACCURACY_POLICIES_MAX = 16 };

/* "own", "log" or "rate". */
const char *accuracy_against_name(accuracy_against against);

/* The result of one algorithm. */
typedef struct accuracy_tally {
    uint64_t allowed, denied;
    uint64_t wrongly_allowed, wrongly_denied; /* requests; parts of `allowed` and `denied` */
    uint64_t keys_missed;         /* keys that were never denied, but should have been */
    uint64_t keys_wrongly_denied; /* keys that were denied, but never should have been */
    int64_t peak;                 /* ACCURACY_OWN: the most units allowed in one window, else 0 */
    uint64_t estimates;           /* requests with an estimated and a true rate above 0 */
    double difference_sum;        /* the sum of |estimated - true| / true */
    double difference_max;        /* the largest of them */
} accuracy_tally;

typedef struct accuracy_policy {
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    weir_policy policy;              /* with ACCURACY_RATE, its limit is WEIR_LIMIT_MAX */
    accuracy_tally tally;
} accuracy_policy;

/* Set `against`, `limit` and `period_ns`, then add policies. The rest is private or a result. */
typedef struct accuracy_measure {
    accuracy_against against;
    int64_t limit, period_ns;
    weir_policy log; /* the exact sliding log */
    accuracy_policy policy[ACCURACY_POLICIES_MAX];
    size_t len;
    uint64_t keys, requests;
    uint64_t exact_denied; /* requests denied by the exact decision; 0 with ACCURACY_OWN, where each
                              policy has an exact decision of its own */
} accuracy_measure;

/* Initialises *ret.
 *  limit      1..WEIR_LIMIT_MAX.
 *  period_ns  1..WEIR_SPAN_NS_MAX.
 * Returns WEIR_OK or WEIR_E_RANGE. */
WEIR_NODISCARD weir_status accuracy_measure_init(accuracy_measure *ret, accuracy_against against,
                                                 int64_t limit, int64_t period_ns);

/* Adds a policy of one layer. Returns WEIR_E_UNSUPPORTED if the comparison has no meaning for it:
 * a leaky-queue delays requests, and only windows have a count to compare with ACCURACY_RATE;
 * WEIR_E_FULL after ACCURACY_POLICIES_MAX. */
WEIR_NODISCARD weir_status accuracy_measure_add(accuracy_measure *m, const weir_policy *p);

/* Whether the algorithm estimates a rate. Buckets do not. */
bool accuracy_estimates(const accuracy_policy *p);

typedef struct accuracy_key accuracy_key;

/* Returns a key without requests; NULL if there is no memory. */
accuracy_key *accuracy_key_open(const accuracy_measure *m);
void accuracy_key_close(accuracy_key *k, const accuracy_measure *m); /* accepts NULL */

/* Decides a request of the key and counts the results.
 *  now_ns  0..WEIR_NOW_NS_MAX, never before the key's last request.
 *  cost    0..WEIR_COST_MAX. A cost of 0 is decided, and has no estimate.
 * Returns WEIR_OK, WEIR_E_RANGE or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status accuracy_request(accuracy_measure *m, accuracy_key *k, int64_t now_ns,
                                            int64_t cost);

/* Counts the key itself, after its last request. */
void accuracy_key_end(accuracy_measure *m, const accuracy_key *k);

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct accuracy_options {
    const char *limit;                         /* as given, or the default */
    const char *policy[ACCURACY_POLICIES_MAX]; /* those of --policy */
    size_t policies;
    accuracy_against against;
    accesslog_options log;
    bool json;
} accuracy_options;

/* Parses the command line. *ret points into argv.
 *  ret  unspecified after an error. With log.help, its files may be missing.
 * Returns 0, or the exit status after printing an error. */
int accuracy_options_read(accuracy_options *ret, int argc, char **argv);

/* Parses the limit and the policies.
 *  ret  initialised.
 * Returns 0, or the exit status after printing an error. */
int accuracy_measure_open(accuracy_measure *ret, const accuracy_options *o);

/* ---- the results ----------------------------------------------------------------------------- */

/* Appends the results as a table of at most 80 columns.
 *  limit  as given. */
void accuracy_put_table(weir_buffer *b, const accuracy_measure *m, const accesslog *log,
                        const char *limit);

/* Appends the results as one JSON object and an LF. */
void accuracy_put_json(weir_buffer *b, const accuracy_measure *m, const accesslog *log);

#endif
