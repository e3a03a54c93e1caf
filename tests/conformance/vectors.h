/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_VECTORS_H
#define WEIR_TESTS_VECTORS_H
/* Runs the shared vectors through an adapter. An adapter connects one interface of weir: it
 * decides on a step of a case, and vectors_run() compares the decision with the vector. */

#include <weir/weir.h>

typedef struct step {
    bool refund, charge; /* else a take */
    int64_t t_ns, cost;
    char keep[16];      /* what a take keeps: "20" or "20%"; "": nothing */
    bool refused;       /* the vector expects that the refund or the charge is not supported */
    weir_decision want; /* if not refused */
    int64_t over;       /* of a charge */
} step;

typedef struct adapter {
    const char *name;
    /* Starts a case: a key with its full quota under the policy. Returns false if the policy was
     * refused, after printing the reason to stderr. */
    bool (*begin)(void *ctx, const char *policy);
    /* Decides on a step. Returns WEIR_E_UNSUPPORTED if it is not supported.
     *  ret_over  written for a charge. */
    weir_status (*decide)(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over);
    /* May be NULL. Rounds a decision as the interface does; it is applied to both decisions before
     * they are compared. */
    void (*round)(weir_decision *d);
    void (*end)(void *ctx);
    void *ctx;
} adapter;

/* Runs the vector files. The caller leaves out the files that the interface does not support: those
 * with refunds, or with a clock that steps back. A file with few cases, or a case without steps, is
 * a failure. Prints a line for each file, every difference, and `N cases, N failed`. Returns the
 * exit status. */
int vectors_run(const adapter *d, int files, char **paths);

#endif
