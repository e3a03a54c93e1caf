/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_SHAPE_H
#define WEIR_STORE_SHAPE_H
/* What policies must have in common so that a key keeps what it used when its limit changes from
 * one to the other. Pure. */

#include <weir/weir.h>

/* Whether a key keeps what it used when the limit of its name changes from one policy to the other:
 * layer by layer, the algorithm, the period, the calendar, the time zone, the slices and `relaxed`
 * are the same. */
bool weir_store_keeps(const weir_policy *a, const weir_policy *b);

/* Writes the shape of a policy: it is equal for policies that are kept.
 *  size  at least WEIR_POLICY_TEXT_MAX. */
size_t weir_policy_shape(const weir_policy *p, char *buf, size_t size);

#endif
