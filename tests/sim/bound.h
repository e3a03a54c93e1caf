/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_BOUND_H
#define WEIR_TESTS_SIM_BOUND_H
/* Checks admitted units against the definition of an algorithm in docs/algorithms.md, plus a number
 * of units for each node. It counts from the list of units alone, and shares no code with the
 * engines. */

#include <weir/weir.h>

typedef struct bound_unit {
    int64_t at_ns;
    int64_t cost;
} bound_unit;

/* Counts the nodes that ran at some time in [from_ns, to_ns]. */
typedef int64_t (*bound_nodes)(void *ctx, int64_t from_ns, int64_t to_ns);

typedef struct bound {
    const weir_layer *layer;
    const bound_unit *unit; /* by time */
    size_t len;
    const int64_t *start; /* of WEIR_FROM_FIRST: when the windows start, in order */
    size_t starts;
    double per_node; /* units that a node may admit beyond the definition */
    bound_nodes nodes;
    void *ctx;
    int64_t nodes_max; /* the largest number of nodes, for buckets */
} bound;

/* Returns by how many units the worst window or span exceeds the bound: 0 or less if the bound
 * holds.
 *  ret_over  by how many units it exceeds the definition; 0 if it does not.
 *  ret_room  how many units the nodes may admit there beyond the definition. */
double bound_excess(const bound *b, double *ret_over, double *ret_room);

#endif
