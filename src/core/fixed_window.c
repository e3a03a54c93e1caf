/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* fixed-window. The callback weir_layer.window computes the bounds of calendar windows. */

#include "core/windows.h"

#include "core/spec.h"
#include "core/wide.h"

_Static_assert(WEIR_NOW_NS_MAX <= INT64_MAX - WEIR_SPAN_NS_MAX,
               "a window's end must fit in int64_t");

/*@ lemma aligned: \forall integer t, u, p; 0 <= t && 0 <= u && p >= 1 &&
  @     t / p * p <= u < t / p * p + p ==> u / p == t / p;
  @ lemma within: \forall weir_layer *w, integer t; window_layer(w) && time_ok(t) &&
  @     w->calendar != WEIR_FROM_FIRST ==> 0 <= start_at(w, t) <= t < end_at(w, t) <= INT64_MAX;
  @ lemma parted: \forall weir_layer *w, integer t, u; window_layer(w) && time_ok(t) &&
  @     time_ok(u) && w->calendar != WEIR_FROM_FIRST && start_at(w, t) <= u < end_at(w, t) ==>
  @     start_at(w, u) == start_at(w, t) && end_at(w, u) == end_at(w, t);
  @ lemma later: \forall weir_layer *w, integer t, u; window_layer(w) && time_ok(t) &&
  @     time_ok(u) && w->calendar != WEIR_FROM_FIRST && u >= end_at(w, t) ==>
  @     start_at(w, u) >= end_at(w, t);
  @ lemma room: \forall weir_layer *w, integer t; window_layer(w) && time_ok(t) && is_word(w) ==>
  @     end_at(w, t) - start_at(w, t) > w->limit;
  @
  @ // The window and count that a word represents do not change until that window ends.
  @ lemma word_steady: \forall weir_layer *w, integer x, t, u; window_layer(w) && is_word(w) &&
  @     time_ok(t) && time_ok(u) && x <= INT64_MAX && u < word_end(w, x, t) &&
  @     (u >= t || x >= word_start(w, x, t)) ==>
  @     word_start(w, x, u) == word_start(w, x, t) && word_end(w, x, u) == word_end(w, x, t);
  @ lemma word_over: \forall weir_layer *w, integer x, t; window_layer(w) && is_word(w) &&
  @     time_ok(t) && time_ok(word_end(w, x, t)) ==> word_count(w, x, word_end(w, x, t)) == 0;
  @ // A word that is written is read back as the same window and count.
  @ lemma word_written: \forall weir_layer *w, integer x, t, n; window_layer(w) && is_word(w) &&
  @     time_ok(t) && 0 <= n <= max_of(w->limit, word_count(w, x, t)) && x <= INT64_MAX ==>
  @     word_start(w, word_start(w, x, t) + n, t) == word_start(w, x, t) &&
  @     word_end(w, word_start(w, x, t) + n, t) == word_end(w, x, t);
  @
  @ lemma pair_steady: \forall weir_layer *w, integer x, n, t, u; window_layer(w) && !is_word(w) &&
  @     time_ok(t) && time_ok(u) && u < pair_end(w, x, n, t) && pair_count(w, x, n, t) > 0 ==>
  @     pair_count(w, x, n, u) == n && pair_end(w, x, n, u) == pair_end(w, x, n, t);
  @ lemma pair_over: \forall weir_layer *w, integer x, n, t; window_layer(w) && !is_word(w) &&
  @     time_ok(t) && time_ok(pair_end(w, x, n, t)) ==>
  @     pair_count(w, x, n, pair_end(w, x, n, t)) == 0;
  @ lemma pair_written: \forall weir_layer *w, integer x, n, t, m; window_layer(w) &&
  @     !is_word(w) && time_ok(t) && m > 0 ==>
  @     pair_start(w, pair_start(w, x, n, t), m, t) == pair_start(w, x, n, t) &&
  @     pair_end(w, pair_start(w, x, n, t), m, t) == pair_end(w, x, n, t) &&
  @     pair_count(w, pair_start(w, x, n, t), m, t) == m; */

typedef struct view { /* the current window and its count */
    weir_span span;
    int64_t count;
} view;

/*@ assigns \nothing;
  @ ensures \result == min_of(a, b); */
static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Calls the layer's callback. The proof assumes its contract. */
/*@ requires window_layer(w) && calendar(w) && time_ok(t_ns);
  @ assigns \nothing;
  @ ensures \result.start_ns == start_at(w, t_ns) && \result.end_ns == end_at(w, t_ns); */
static weir_span calendar_at(const weir_layer *w, int64_t t_ns)
{
    return w->window(w->zone, w->calendar, w->anchor, t_ns);
}

/*@ requires window_layer(w) && w->calendar != WEIR_FROM_FIRST && time_ok(t_ns);
  @ assigns \nothing;
  @ ensures \result.start_ns == start_at(w, t_ns) && \result.end_ns == end_at(w, t_ns); */
static weir_span span_at(const weir_layer *w, int64_t t_ns)
{
    if (w->window)
        return calendar_at(w, t_ns);
    int64_t start_ns = t_ns - t_ns % w->period_ns;
    return (weir_span){start_ns, start_ns + w->period_ns};
}

/*@ requires window_layer(w) && is_word(w) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures \result.span.start_ns == word_start(w, word, now_ns);
  @ ensures \result.span.end_ns == word_end(w, word, now_ns);
  @ ensures \result.count == word_count(w, word, now_ns); */
static view view_of_word(const weir_layer *w, int64_t word, int64_t now_ns)
{
    weir_span span = span_at(w, now_ns);
    if (word >= span.end_ns) /* the clock stepped back: the stored, later window is current */
        span = span_at(w, min64(word, WEIR_NOW_NS_MAX));
    return (view){span, word > span.start_ns ? word - span.start_ns : 0};
}

/*@ requires window_layer(w) && !is_word(w) && time_ok(now_ns) && \valid_read(state + (0 .. 1));
  @ assigns \nothing;
  @ ensures \result.span.start_ns == pair_start(w, tat_of(state), second_of(state), now_ns);
  @ ensures \result.span.end_ns == pair_end(w, tat_of(state), second_of(state), now_ns);
  @ ensures \result.count == pair_count(w, tat_of(state), second_of(state), now_ns); */
static view view_of_pair(const weir_layer *w, const uint64_t *state, int64_t now_ns)
{
    int64_t start_ns = (int64_t)state[0], count = (int64_t)state[1];
    if (start_ns < 0 || start_ns > WEIR_NOW_NS_MAX || count < 0)
        start_ns = count = 0; /* damaged: treat as never charged */
    int64_t at_ns = start_ns > now_ns ? start_ns : now_ns;
    if (w->calendar != WEIR_FROM_FIRST) {
        weir_span span = span_at(w, at_ns);
        return (view){span, start_ns == span.start_ns ? count : 0};
    }
    if (count == 0 || at_ns - start_ns >= w->period_ns)
        return (view){{now_ns, now_ns + w->period_ns}, 0};
    return (view){{start_ns, start_ns + w->period_ns}, count};
}

/*@ requires window_layer(w) && window_state(w, state) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures 0 <= \result.span.start_ns == window_start(w, state, now_ns) <= WEIR_NOW_NS_MAX;
  @ ensures now_ns < \result.span.end_ns == window_end(w, state, now_ns);
  @ ensures 0 <= \result.count == counted(w, state, now_ns); */
static view view_at(const weir_layer *w, const uint64_t *state, int64_t now_ns)
{
    if (w->format == WEIR_STATE_WINDOW_WORD)
        return view_of_word(w, (int64_t)state[0], now_ns);
    return view_of_pair(w, state, now_ns);
}

/* Stores a count for the current window. */
/*@ requires window_layer(w) && \valid(state) && (is_word(w) || \valid(state + (0 .. 1)));
  @ requires \separated(w, state + (0 .. 1)) && time_ok(now_ns);
  @ requires v.span.start_ns == window_start(w, state, now_ns);
  @ requires v.span.end_ns == window_end(w, state, now_ns);
  @ requires 0 <= v.count <= max_of(w->limit, counted(w, state, now_ns));
  @ assigns state[0 .. 1];
  @ ensures word: is_word(w) ==>
  @     tat_of(state) == v.span.start_ns + v.count && state[1] == \old(state[1]);
  @ ensures counted: counted(w, state, now_ns) == v.count;
  @ ensures ends: v.count > 0 ==> window_end(w, state, now_ns) == v.span.end_ns; */
static void write(const weir_layer *w, uint64_t *state, view v) /*@ ghost (int64_t now_ns) */
{
    if (w->format == WEIR_STATE_WINDOW_WORD) {
        state[0] = (uint64_t)(v.span.start_ns + v.count);
        //@ assert stored: tat_of(state) == v.span.start_ns + v.count;
        //@ assert end: word_end(w, tat_of(state), now_ns) == v.span.end_ns;
        //@ assert start: word_start(w, tat_of(state), now_ns) == v.span.start_ns;
        return;
    }
    bool empty = v.count == 0; /* an empty from-first window has not begun */
    state[0] = empty && w->calendar == WEIR_FROM_FIRST ? 0 : (uint64_t)v.span.start_ns;
    state[1] = (uint64_t)v.count;
    //@ assert count: pair_count(w, tat_of(state), second_of(state), now_ns) == v.count;
    /*@ assert end: v.count > 0 ==>
      @     pair_end(w, tat_of(state), second_of(state), now_ns) == v.span.end_ns; */
}

/*@ requires window_layer(w) && window_state(w, state) && time_ok(now_ns) && cost_ok(cost);
  @ assigns \nothing;
  @ ensures \result <==> window_allows(w, state, now_ns, cost); */
bool weir_window_allows(const weir_layer *w, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    return cost <= w->limit - view_at(w, state, now_ns).count;
}

/*@ requires window_layer(w) && \valid(state) && (is_word(w) || \valid(state + (0 .. 1)));
  @ requires \separated(w, state + (0 .. 1), ret) && \valid(ret);
  @ requires time_ok(now_ns) && cost_ok(cost);
  @ assigns state[0 .. 1], *ret;
  @ ensures kept: cost == 0 || (!ret->allowed && !count_denied) ==>
  @     state[0] == \old(state[0]) && state[1] == \old(state[1]);
  @ ensures limit: ret->limit == \old(w->limit);
  @ ensures delay: ret->delay_ns == 0; */
void weir_window_check(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost,
                       bool count_denied, weir_decision *ret)
{
    view v = view_at(w, state, now_ns);
    int64_t limit = w->limit;
    bool allowed = cost <= limit - v.count, never = cost > limit;
    bool counts = cost > 0 && (allowed || count_denied);
    //@ assert verdict: allowed <==> window_allows(w, state, now_ns, cost);
    if (counts) {
        v.count = allowed ? v.count + cost : v.count < limit ? limit : v.count;
        write(w, state, v) /*@ ghost (now_ns) */;
    }
    int64_t left_ns = v.span.end_ns - now_ns;
    /*@ assert counted: v.count == counted(w, state, now_ns) == (!counts ?
      @     counted{Pre}(w, state, now_ns) : !allowed ?
      @     max_of(limit, counted{Pre}(w, state, now_ns)) :
      @     counted{Pre}(w, state, now_ns) + cost); */
    //@ assert bounded: counts ==> 0 < v.count <= max_of(limit, counted{Pre}(w, state, now_ns));
    //@ assert ends: now_ns + left_ns == window_end{Pre}(w, state, now_ns);
    //@ assert ends: now_ns + left_ns == window_end(w, state, now_ns);
    /*@ assert monotone: is_word(w) && counted{Pre}(w, state, now_ns) <= limit ==>
      @     tat_of(state) >= tat_of{Pre}(state); */
    //@ assert wait: !allowed && !never ==> left_ns > 0 && v.count > 0;
    ret->allowed = allowed;
    ret->never = never;
    ret->retry_after_ns = never ? INT64_MAX : allowed ? 0 : left_ns;
    ret->reset_after_ns = v.count > 0 ? left_ns : 0;
    ret->remaining = v.count < limit ? limit - v.count : 0;
    ret->limit = limit;
    ret->delay_ns = 0;
}

/*@ requires window_layer(w) && window_state(w, state) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures 0 <= \result == window_start(w, state, now_ns) <= WEIR_NOW_NS_MAX; */
int64_t weir_window_start(const weir_layer *w, const uint64_t *state, int64_t now_ns)
{
    return view_at(w, state, now_ns).span.start_ns;
}

/*@ requires window_layer(w) && \valid(state) && (is_word(w) || \valid(state + (0 .. 1)));
  @ requires \separated(w, state + (0 .. 1)) && time_ok(now_ns) && cost_ok(cost);
  @ assigns state[0 .. 1];
  @ ensures kept: \old(counted(w, state, now_ns)) == 0 ==>
  @     state[0] == \old(state[0]) && state[1] == \old(state[1]);
  @ ensures lowered: counted(w, state, now_ns) ==
  @     max_of(0, \old(counted(w, state, now_ns)) - cost); */
void weir_window_refund(const weir_layer *w, uint64_t *state, int64_t now_ns, int64_t cost)
{
    view v = view_at(w, state, now_ns);
    if (v.count == 0)
        return;
    v.count = v.count > cost ? v.count - cost : 0;
    write(w, state, v) /*@ ghost (now_ns) */;
}
