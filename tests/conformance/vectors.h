/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_VECTORS_H
#define WEIR_TESTS_VECTORS_H
/* Runs the shared vectors through an adapter. An adapter connects one interface of weir: it
 * decides on a step of a case, and vectors_run() compares the decision with the vector. */

#include <weir/weir.h>

typedef enum operation { TAKE, REFUND, CHARGE, RESERVE, RENEW, COMMIT, CANCEL } operation;

enum { RESERVATIONS_MAX = 256 }; /* of a case */

typedef struct step {
    operation op;
    int64_t t_ns, cost;
    char keep[16];       /* what a take keeps: "20" or "20%"; "": nothing */
    int64_t id;          /* of a reservation: its number in the case, below RESERVATIONS_MAX */
    int64_t ttl_ns;      /* of RESERVE and RENEW; 0: the lease of the policy */
    weir_status refused; /* what the vector expects instead of a decision; WEIR_OK: a decision */
    weir_decision want;  /* if not refused */
    int64_t over;        /* of CHARGE, COMMIT and CANCEL */
} step;

typedef struct adapter {
    const char *name;
    bool reserves; /* has reservations. Otherwise cases with them are counted as unsupported. */
    /* Starts a case: a key with its full quota under the policy. Returns false if the policy was
     * refused, after printing the reason to stderr. */
    bool (*begin)(void *ctx, const char *policy);
    /* Decides on a step. Returns WEIR_E_UNSUPPORTED if the policy does not support it, and
     * WEIR_E_ABSENT if there is no such reservation.
     *  ret_over  written for CHARGE, COMMIT and CANCEL. */
    weir_status (*decide)(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over);
    /* May be NULL. Rounds a decision as the interface does; it is applied to both decisions before
     * they are compared. */
    void (*round)(weir_decision *d);
    void (*end)(void *ctx);
    void *ctx;
} adapter;

/* Returns whether the units over are part of the answer. */
static inline bool has_over(const step *s)
{
    return s->op == CHARGE || s->op == COMMIT || s->op == CANCEL;
}

/* Runs the vector files. The caller leaves out the files with a clock that steps back if the
 * interface does not support them. A file with few cases, or a case without steps, is a failure.
 * Prints a line for each file, every difference, and `N cases, N failed`. Returns the exit
 * status. */
int vectors_run(const adapter *d, int files, char **paths);

#endif
