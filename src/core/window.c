/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* fixed-window. Where a calendar window begins is asked of the layer's window function; this file
 * knows no calendar. */

#include "core/window.h"

#include "core/wide.h"

_Static_assert(WEIR_NOW_NS_MAX <= INT64_MAX - WEIR_SPAN_NS_MAX, "a window's end must fit in int64_t");

typedef struct view { /* the present window and what is counted in it */
    weir_span span;
    int64_t count;
} view;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static weir_span span_at(const weir_layer *w, int64_t t_ns)
{
    if (w->window)
        return w->window(w->zone, w->calendar, t_ns);
    int64_t start_ns = t_ns - t_ns % w->period_ns;
    return (weir_span){start_ns, start_ns + w->period_ns};
}

static view view_of_word(const weir_layer *w, int64_t word, int64_t now_ns)
{
    weir_span span = span_at(w, now_ns);
    if (word >= span.end_ns) /* written in a later window: that one stands for now */
        span = span_at(w, min64(word, WEIR_NOW_NS_MAX));
    return (view){span, word > span.start_ns ? word - span.start_ns : 0};
}

static view view_of_pair(const weir_layer *w, const uint64_t *state, int64_t now_ns)
{
    int64_t start_ns = (int64_t)state[0], count = (int64_t)state[1];
    if (start_ns < 0 || start_ns > WEIR_NOW_NS_MAX || count < 0)
        start_ns = count = 0; /* damaged: as if never charged */
    int64_t at_ns = start_ns > now_ns ? start_ns : now_ns;
    if (w->calendar != WEIR_FROM_FIRST) {
        weir_span span = span_at(w, at_ns);
        return (view){span, start_ns == span.start_ns ? count : 0};
    }
    if (count == 0 || at_ns - start_ns >= w->period_ns)
        return (view){{now_ns, now_ns + w->period_ns}, 0};
    return (view){{start_ns, start_ns + w->period_ns}, count};
}

static view view_at(const weir_layer *w, const uint64_t *state, int64_t now_ns)
{
    if (w->format == WEIR_STATE_WINDOW_WORD)
        return view_of_word(w, (int64_t)state[0], now_ns);
    return view_of_pair(w, state, now_ns);
}

static void write(const weir_layer *w, uint64_t *state, const view *v)
{
    if (w->format == WEIR_STATE_WINDOW_WORD) {
        state[0] = (uint64_t)(v->span.start_ns + v->count);
        return;
    }
    bool fresh = v->count == 0; /* an empty from-first window has not begun */
    state[0] = fresh && w->calendar == WEIR_FROM_FIRST ? 0 : (uint64_t)v->span.start_ns;
    state[1] = (uint64_t)v->count;
}

bool weir_window_allows(const weir_layer *w, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    return cost <= w->limit - view_at(w, state, now_ns).count;
}

void weir_window_check(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost,
                       bool count_denied, weir_decision *ret)
{
    view v = view_at(w, state, now_ns);
    ret->limit = w->limit;
    ret->allowed = cost <= w->limit - v.count;
    ret->never = cost > w->limit;
    ret->delay_ns = 0;
    if (cost > 0 && (ret->allowed || count_denied)) {
        v.count = ret->allowed ? v.count + cost : w->limit;
        write(w, state, &v);
    }
    int64_t left_ns = v.span.end_ns - now_ns;
    ret->retry_after_ns = ret->never ? INT64_MAX : ret->allowed ? 0 : left_ns;
    ret->reset_after_ns = v.count > 0 ? left_ns : 0;
    ret->remaining = v.count < w->limit ? w->limit - v.count : 0;
}

void weir_window_refund(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost)
{
    view v = view_at(w, state, now_ns);
    if (v.count == 0)
        return;
    v.count = v.count > cost ? v.count - cost : 0;
    write(w, state, &v);
}
