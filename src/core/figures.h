/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_FIGURES_H
#define WEIR_CORE_FIGURES_H
/* Figures that replies have beside a decision: when the next unit comes, and, of a peek, what the
 * state of a layer counts. */

#include <weir/weir.h>

/* ---- the next unit --------------------------------------------------------------------------- */

/* The time until a cost of 1 is allowed, which replies with names have behind the fields. */
#define WEIR_NEXT_UNKNOWN (-1)

/* Whether a decision shows that a cost of 1 is allowed now. A denial by several layers describes
 * one of them, and another may have nothing left. Pure. */
static inline bool weir_next_is_now(const weir_policy *p, const weir_decision *d)
{
    return d->remaining > 0 && (d->allowed || p->layers == 1);
}

/* ---- counts ---------------------------------------------------------------------------------- */

enum { WEIR_FIGURES_MAX = 3 };

/* A member is WEIR_NO_FIGURE if the layer has none: a bucket and a block count nothing. */
#define WEIR_NO_FIGURE (-1)

typedef struct weir_figures {
    int64_t count;    /* units that count against the limit, 0..limit; sliding-counter: those of the
                         current window, more than the limit after a charge beyond it */
    int64_t previous; /* sliding-counter: the units of the window before the current one */
    int64_t start_ns; /* fixed-window, sliding-counter: the start of the current window; none of a
                         from-first window that has not begun */
} weir_figures;

#define WEIR_NO_FIGURES ((weir_figures){WEIR_NO_FIGURE, WEIR_NO_FIGURE, WEIR_NO_FIGURE})

typedef struct weir_figure {
    const char *name; /* as replies have it, static */
    int64_t value;
} weir_figure;

/* The names of all figures, in the order of replies. */
static const char *const weir_figure_names[WEIR_FIGURES_MAX] = {"count", "previous",
                                                                "window_start_ms"};

/* Reads the figures of a layer, and changes nothing. Pure.
 *  state   of the policy, at this level.
 *  now_ns  0..WEIR_NOW_NS_MAX. If the clock has stepped back, the latest time in the state counts.
 *  layer   0..p->layers - 1.
 * Returns false if the state is not sound; then *ret is WEIR_NO_FIGURES. Unused if the amalgamated
 * library is compiled as the core alone. */
__attribute__((unused)) bool weir_figures_of(const weir_policy *p, const uint64_t *state,
                                             unsigned level, int64_t now_ns, uint32_t layer,
                                             weir_figures *ret);

/* Lists the figures that there are, and returns their number. Pure. */
static inline size_t weir_figures_list(const weir_figures *f, weir_figure ret[WEIR_FIGURES_MAX])
{
    size_t n = 0;
    if (f->count != WEIR_NO_FIGURE)
        ret[n++] = (weir_figure){weir_figure_names[0], f->count};
    if (f->previous != WEIR_NO_FIGURE)
        ret[n++] = (weir_figure){weir_figure_names[1], f->previous};
    if (f->start_ns != WEIR_NO_FIGURE)
        ret[n++] = (weir_figure){weir_figure_names[2], f->start_ns / 1000000};
    return n;
}

#endif
