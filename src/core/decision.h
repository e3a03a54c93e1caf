/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_DECISION_H
#define WEIR_CORE_DECISION_H
/* The list of the fields of a decision, from which every protocol takes the names, the order and
 * the units of its replies and of those that it reads. docs/HACKING.md says what else changes with
 * a new field. */

#include "core/figures.h"
#include "core/units.h"

#include <weir/weir.h>

/* X(id, kind, name) for each field, in the order of replies. The kinds:
 *  FLAG   0 or 1; the member has the same name
 *  COUNT  0 or more; the member has the same name
 *  WAIT   a time, 0 or more, of the member name_ns; -1 stands for `never`
 *  SPAN   a time, 0 or more, of the member name_ns
 * The layer is not in the list: it follows the policy's name in a map, and is not in an array. */
#define WEIR_DECISION_LIST(X)                                                                      \
    X(ALLOWED, FLAG, allowed)                                                                      \
    X(LIMIT, COUNT, limit)                                                                         \
    X(REMAINING, COUNT, remaining)                                                                 \
    X(RETRY_AFTER, WAIT, retry_after)                                                              \
    X(RESET_AFTER, SPAN, reset_after)                                                              \
    X(DELAY, SPAN, delay)

/* WEIR_FIELD_ALLOWED and so on. A protocol that has its own name for a field finds it in a `switch`
 * over these. */
#define WEIR_FIELD_ID(id, kind, name) WEIR_FIELD_##id,
typedef enum weir_field { WEIR_DECISION_LIST(WEIR_FIELD_ID) WEIR_DECISION_FIELDS } weir_field;
#undef WEIR_FIELD_ID

/* Checks that the list has each number of a decision: only the layer and two flags are left. */
#define WEIR_FIELD_SIZE_FLAG            0
#define WEIR_FIELD_SIZE_COUNT           sizeof(int64_t)
#define WEIR_FIELD_SIZE_WAIT            sizeof(int64_t)
#define WEIR_FIELD_SIZE_SPAN            sizeof(int64_t)
#define WEIR_FIELD_SIZE(id, kind, name) +WEIR_FIELD_SIZE_##kind
_Static_assert(WEIR_DECISION_LIST(WEIR_FIELD_SIZE) + sizeof(int64_t) == sizeof(weir_decision),
               "each number of a decision is in the list");
#undef WEIR_FIELD_SIZE

/* The name of a field whose times are in `unit`, as a string literal: "limit", "delay_ms". */
#define WEIR_FIELD_NAME_FLAG(name, unit)  #name
#define WEIR_FIELD_NAME_COUNT(name, unit) #name
#define WEIR_FIELD_NAME_WAIT(name, unit)  #name "_" unit
#define WEIR_FIELD_NAME_SPAN(name, unit)  #name "_" unit

/* The names of the fields in milliseconds. */
#define WEIR_FIELD_NAME(id, kind, name) [WEIR_FIELD_##id] = WEIR_FIELD_NAME_##kind(name, "ms"),
static const char *const weir_decision_field_names[] = {WEIR_DECISION_LIST(WEIR_FIELD_NAME)};
#undef WEIR_FIELD_NAME

/* ---- the next unit --------------------------------------------------------------------------- */

/* A time in units of unit_ns, rounded up; -1 for INT64_MAX, never.
 *  next_ns  not WEIR_NEXT_UNKNOWN. */
static inline int64_t weir_next_units(int64_t next_ns, int64_t unit_ns)
{
    return next_ns == INT64_MAX ? -1 : weir_units_ceil(next_ns, unit_ns);
}

/* ---- values ---------------------------------------------------------------------------------- */

#define WEIR_FIELD_GET_FLAG(d, name, unit_ns)  (d)->name
#define WEIR_FIELD_GET_COUNT(d, name, unit_ns) (d)->name
#define WEIR_FIELD_GET_WAIT(d, name, unit_ns)                                                      \
    (d)->never ? -1 : weir_units_ceil((d)->name##_ns, unit_ns)
#define WEIR_FIELD_GET_SPAN(d, name, unit_ns) weir_units_ceil((d)->name##_ns, unit_ns)

/* Writes the value of each field, with times in units of unit_ns. Pure. */
static inline void weir_decision_get_fields(const weir_decision *d, int64_t unit_ns,
                                            int64_t ret[WEIR_DECISION_FIELDS])
{
#define GET(id, kind, name) ret[WEIR_FIELD_##id] = WEIR_FIELD_GET_##kind(d, name, unit_ns);
    WEIR_DECISION_LIST(GET)
#undef GET
}

#define WEIR_FIELD_GOOD_FLAG(v, time_max)  ((v) == 0 || (v) == 1)
#define WEIR_FIELD_GOOD_COUNT(v, time_max) ((v) >= 0)
#define WEIR_FIELD_GOOD_WAIT(v, time_max)  ((v) >= -1 && (v) <= (time_max))
#define WEIR_FIELD_GOOD_SPAN(v, time_max)  ((v) >= 0 && (v) <= (time_max))

/* Whether fields can be those of a decision.
 *  time_max  the longest time, in the unit of `f`. Pure. */
static inline bool weir_decision_fields_are_good(const int64_t f[WEIR_DECISION_FIELDS],
                                                 int64_t time_max)
{
    (void)time_max;
#define GOOD(id, kind, name) &&WEIR_FIELD_GOOD_##kind(f[WEIR_FIELD_##id], time_max)
    return f[WEIR_FIELD_REMAINING] <= f[WEIR_FIELD_LIMIT] &&
           (f[WEIR_FIELD_ALLOWED] == 0 || f[WEIR_FIELD_RETRY_AFTER] == 0) WEIR_DECISION_LIST(GOOD);
#undef GOOD
}

/* A time in nanoseconds. Saturates: times are rounded up, so INT64_MAX may be exceeded. */
static inline int64_t weir_units_ns(int64_t time, int64_t unit_ns)
{
    return time > INT64_MAX / unit_ns ? INT64_MAX : time * unit_ns;
}

#define WEIR_FIELD_SET_FLAG(d, name, v, unit_ns)  (d)->name = (v) != 0
#define WEIR_FIELD_SET_COUNT(d, name, v, unit_ns) (d)->name = (v)
#define WEIR_FIELD_SET_WAIT(d, name, v, unit_ns)                                                   \
    (d)->never = (v) == -1, (d)->name##_ns = (v) == -1 ? INT64_MAX : weir_units_ns(v, unit_ns)
#define WEIR_FIELD_SET_SPAN(d, name, v, unit_ns) (d)->name##_ns = weir_units_ns(v, unit_ns)

/* The decision of fields that are good, with layer 0. Pure. */
static inline weir_decision weir_decision_of_fields(const int64_t f[WEIR_DECISION_FIELDS],
                                                    int64_t unit_ns)
{
    weir_decision d = {.layer = 0};
#define SET(id, kind, name) WEIR_FIELD_SET_##kind(&d, name, f[WEIR_FIELD_##id], unit_ns);
    WEIR_DECISION_LIST(SET)
#undef SET
    return d;
}

#endif
