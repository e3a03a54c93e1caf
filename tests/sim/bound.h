/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_BOUND_H
#define WEIR_TESTS_SIM_BOUND_H
/* Holds what was admitted against the definition of an algorithm in docs/algorithms.md and so many
 * units more. It counts anew, from the list alone, and shares nothing with who admitted. */

#include <weir/weir.h>

typedef struct bound_unit {
    int64_t at_ns;
    int64_t cost;
} bound_unit;

/* How many nodes are to be reckoned with that were there at some time of [from_ns, to_ns]. */
typedef int64_t (*bound_nodes)(void *ctx, int64_t from_ns, int64_t to_ns);

typedef struct bound {
    const weir_layer *layer;
    const bound_unit *unit; /* by time */
    size_t len;
    const int64_t *start; /* of the windows of WEIR_FROM_FIRST, by time */
    size_t starts;
    double per_node; /* units that a node may admit beyond the definition */
    bound_nodes nodes;
    void *ctx;
    int64_t nodes_max; /* to be reckoned with in all, for buckets */
} bound;

/* By how many units the worst window, or span, is beyond the definition and what the nodes may; not
 * above 0 if all is well.
 *  ret_over  by how many it is beyond the definition; 0 if it is not
 *  ret_room  how many the nodes may there */
double bound_excess(const bound *b, double *ret_over, double *ret_room);

#endif
