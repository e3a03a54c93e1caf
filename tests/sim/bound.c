/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One function for each family of algorithms. Each checks every window or span. */

#include "bound.h"

typedef struct worst {
    const bound *bound;
    double excess, over, room;
} worst;

/* The units in [from_ns, to_ns] exceed the definition by so many. */
static void look_with(worst *w, double over, double nodes)
{
    double room = w->bound->per_node * nodes;
    if (over > w->over)
        w->over = over;
    if (over - room > w->excess) {
        w->excess = over - room;
        w->room = room;
    }
}

static void look(worst *w, double over, int64_t from_ns, int64_t to_ns)
{
    look_with(w, over, (double)w->bound->nodes(w->bound->ctx, from_ns, to_ns));
}

/* ---- windows --------------------------------------------------------------------------------- */

static void fixed(worst *w)
{
    const bound *b = w->bound;
    const weir_layer *l = b->layer;
    for (size_t i = 0; i < b->len;) {
        int64_t start_ns = b->unit[i].at_ns / l->period_ns * l->period_ns;
        int64_t end_ns = start_ns + l->period_ns, sum = 0;
        for (; i < b->len && b->unit[i].at_ns < end_ns; i++)
            sum += b->unit[i].cost;
        look(w, (double)(sum - l->limit), start_ns, end_ns);
    }
}

static void from_first(worst *w)
{
    const bound *b = w->bound;
    const weir_layer *l = b->layer;
    size_t i = 0;
    for (size_t k = 0; k < b->starts; k++) {
        int64_t start_ns = b->start[k], end_ns = start_ns + l->period_ns, sum = 0;
        for (; i < b->len && b->unit[i].at_ns < start_ns; i++)
            continue;
        for (; i < b->len && b->unit[i].at_ns < end_ns; i++)
            sum += b->unit[i].cost;
        look(w, (double)(sum - l->limit), start_ns, end_ns);
    }
}

static void sliding_log(worst *w)
{
    const bound *b = w->bound;
    int64_t sum = 0;
    size_t first = 0;
    for (size_t i = 0; i < b->len; i++) {
        int64_t at_ns = b->unit[i].at_ns, from_ns = at_ns - b->layer->period_ns;
        sum += b->unit[i].cost;
        for (; b->unit[first].at_ns <= from_ns; first++)
            sum -= b->unit[first].cost;
        look(w, (double)(sum - b->layer->limit), from_ns, at_ns);
    }
}

static void sliding_counter(worst *w)
{
    const bound *b = w->bound;
    int64_t period_ns = b->layer->period_ns, prev = 0, cur = 0, window = -1;
    for (size_t i = 0; i < b->len; i++) {
        int64_t at_ns = b->unit[i].at_ns, k = at_ns / period_ns;
        if (k != window) {
            prev = k == window + 1 ? cur : 0;
            cur = 0;
            window = k;
        }
        cur += b->unit[i].cost;
        double overlap = (double)(period_ns - at_ns % period_ns) / (double)period_ns;
        double over = (double)prev * overlap + (double)(cur - b->layer->limit);
        look(w, b->layer->relaxed ? over - 1 : over, (k - 1) * period_ns, at_ns);
    }
}

static int64_t slice_of(const weir_layer *l, int64_t at_ns)
{
    /* The last k with ceil(k * W / S) <= t is floor(t * S / W). */
    return (int64_t)((__int128)at_ns * l->slices / l->period_ns);
}

static void slices(worst *w)
{
    const bound *b = w->bound;
    const weir_layer *l = b->layer;
    int64_t sum = 0;
    size_t first = 0;
    for (size_t i = 0; i < b->len; i++) {
        int64_t k = slice_of(l, b->unit[i].at_ns);
        sum += b->unit[i].cost;
        for (; slice_of(l, b->unit[first].at_ns) <= k - l->slices; first++)
            sum -= b->unit[first].cost;
        look(w, (double)(sum - l->limit), b->unit[i].at_ns - l->period_ns, b->unit[i].at_ns);
    }
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* The most units that drain between two times. */
static double drained(const weir_layer *l, int64_t from_ns, int64_t to_ns)
{
    if (l->stepped)
        return (double)((to_ns / l->period_ns - from_ns / l->period_ns) * l->rate);
    return (double)(to_ns - from_ns) * (double)l->rate / (double)l->period_ns;
}

/* The largest excess of all spans that end here: it extends the worst span that ended before, or
 * starts a new one. */
static void bucket(worst *w)
{
    const bound *b = w->bound;
    double most = 0;
    for (size_t i = 0; i < b->len; i++) {
        if (i > 0)
            most -= drained(b->layer, b->unit[i - 1].at_ns, b->unit[i].at_ns);
        if (most < 0)
            most = 0;
        most += (double)b->unit[i].cost;
        look_with(w, most - (double)b->layer->limit, (double)b->nodes_max);
    }
}

double bound_excess(const bound *b, double *ret_over, double *ret_room)
{
    worst w = {.bound = b, .excess = -1e18};
    switch (b->layer->algorithm) {
    case WEIR_FIXED_WINDOW:
        if (b->layer->calendar == WEIR_FROM_FIRST)
            from_first(&w);
        else
            fixed(&w);
        break;
    case WEIR_SLIDING_LOG:
    case WEIR_CONCURRENT: /* nothing is given back, and each lease is one period long */
        sliding_log(&w);
        break;
    case WEIR_SLIDING_COUNTER:
        sliding_counter(&w);
        break;
    case WEIR_SLIDING_SLICES:
        slices(&w);
        break;
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_LEAKY_QUEUE:
        bucket(&w);
        break;
    case WEIR_BLOCK: /* it admits nothing that another layer denies */
        break;
    }
    *ret_over = w.over;
    *ret_room = w.room;
    return w.excess - 1e-6; /* rounding errors of sums of doubles */
}
