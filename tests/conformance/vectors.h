/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_VECTORS_H
#define WEIR_TESTS_VECTORS_H
/* Reads the shared vectors and judges a adapter by them. A adapter is a way to ask weir: it answers one
 * step of one case, and this file compares the answer with what the vector says. */

#include <weir/weir.h>

typedef struct step {
    bool refund;
    int64_t t_ns, cost;
    bool refused;       /* a refund that the vector says is refused */
    weir_decision want; /* if not refused */
} step;

typedef struct adapter {
    const char *name;
    /* A new, fresh key under the policy. False: the policy was refused; says why on stderr. */
    bool (*begin)(void *ctx, const char *policy);
    /* Answers a step. WEIR_E_UNSUPPORTED: the refund was refused. */
    weir_status (*ask)(void *ctx, const step *s, weir_decision *ret);
    /* May be NULL. What is to be compared, if the adapter rounds: both sides pass through it. */
    void (*round)(weir_decision *d);
    void (*end)(void *ctx);
    void *ctx;
} adapter;

/* Runs the vector files named on the command line: those that the adapter can be asked, so no refunds
 * and no clock that steps back where it has neither. Prints a line a file, every difference, and
 * `N passed, N failed` (cases). Returns the exit status. */
int vectors_run(const adapter *d, int files, char **paths);

#endif
