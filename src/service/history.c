/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The history of a limiter: how many requests of the last hour were allowed and denied, in steps of
 * ten seconds. It reads the counters at the end of a step, so a decision does nothing for it. The
 * limiter's lock guards it. */

#include "service/limiter.h"

#include "service/service_internal.h"

#include <string.h>

enum { FADE = 64 }; /* a weight loses 1/64 each step: half in 7 minutes */

static size_t slot_of(int64_t step)
{
    return (size_t)(step % WEIR_HISTORY_STEPS);
}

static weir_history_row *find_row(weir_history *h, size_t name)
{
    for (size_t i = 0; i < h->rows; i++) {
        if (h->row[i].name == name)
            return &h->row[i];
    }
    return NULL;
}

/* Gives a name a row: a new one, or else that of the name with the least weight, if that is less
 * than half of its own. Then what the name had so far is not counted, so its row begins with the
 * next step. Returns NULL if the name gets none. */
static weir_history_row *add_row(weir_history *h, size_t name,
                                 const uint32_t counts[WEIR_HISTORY_GROUPS])
{
    weir_history_row *row = &h->row[0];
    if (h->rows < WEIR_HISTORY_NAMES) {
        row = &h->row[h->rows++];
        row->name = (uint32_t)name;
        return row;
    }
    for (size_t i = 1; i < h->rows; i++) {
        if (h->of[h->row[i].name].weight < h->of[row->name].weight)
            row = &h->row[i];
    }
    if (2 * (uint64_t)h->of[row->name].weight >= h->of[name].weight)
        return NULL;
    *row = (weir_history_row){.name = (uint32_t)name, .first = h->step + 1};
    memcpy(row->seen, counts, sizeof row->seen);
    return row;
}

/* Adds to the current step what a row has not seen. */
static void add_counts(weir_history_row *row, int64_t step,
                       const uint32_t counts[WEIR_HISTORY_GROUPS])
{
    for (int g = 0; g < WEIR_HISTORY_GROUPS; g++) {
        row->count[slot_of(step)][g] += counts[g] - row->seen[g];
        row->seen[g] = counts[g];
    }
}

/* Counts the requests since the last call. */
static void count(weir_limiter *l)
{
    weir_history *h = &l->history;
    uint32_t all[WEIR_HISTORY_GROUPS] = {0};
    for (size_t name = 0; name < l->names; name++) {
        const weir_counts c = weir_counts_of(l, name);
        const uint32_t counts[WEIR_HISTORY_GROUPS] = {
            [WEIR_HISTORY_ALLOWED] = (uint32_t)(c.allowed + c.allow_listed),
            [WEIR_HISTORY_DENIED] = (uint32_t)(c.denied + c.deny_listed),
            [WEIR_HISTORY_SHADOWED] = (uint32_t)c.shadowed,
            [WEIR_HISTORY_FAILED] = (uint32_t)(c.failed + c.unreached),
        };
        uint32_t sum = 0;
        for (int g = 0; g < WEIR_HISTORY_GROUPS; g++) {
            all[g] += counts[g];
            sum += counts[g];
        }
        uint32_t more = sum - h->of[name].sum;
        if (more == 0)
            continue;
        h->of[name].sum = sum;
        h->of[name].weight +=
            more < UINT32_MAX - h->of[name].weight ? more : UINT32_MAX - h->of[name].weight;
        weir_history_row *row = find_row(h, name);
        if (!row)
            row = add_row(h, name, counts);
        if (row)
            add_counts(row, h->step, counts);
    }
    add_counts(&h->all, h->step, all);
}

/* Begins the steps up to now. */
static void advance(weir_limiter *l, int64_t now_ns)
{
    weir_history *h = &l->history;
    int64_t step = (now_ns - h->start_ns) / WEIR_HISTORY_STEP_NS;
    if (step <= h->step)
        return;
    if (step - h->step > WEIR_HISTORY_STEPS)
        h->step = step - WEIR_HISTORY_STEPS;
    while (h->step < step) {
        h->step++;
        memset(h->all.count[slot_of(h->step)], 0, sizeof h->all.count[0]);
        for (size_t i = 0; i < h->rows; i++)
            memset(h->row[i].count[slot_of(h->step)], 0, sizeof h->row[i].count[0]);
    }
    for (size_t name = 0; name < l->names; name++)
        h->of[name].weight -= (h->of[name].weight + FADE - 1) / FADE;
}

/* Counts the requests until now: they belong to the step that was current. Under the lock. */
static void record(weir_limiter *l, int64_t now_ns)
{
    count(l);
    advance(l, now_ns);
}

void weir_limiter_history_tick(weir_limiter *l, int64_t now_ns)
{
    WEIR_ASSERT(now_ns > 0);
    port_mutex_lock(l->lock);
    weir_history *h = &l->history;
    if (h->start_ns == 0)
        h->start_ns = now_ns;
    if (now_ns - h->start_ns >= (h->step + 1) * WEIR_HISTORY_STEP_NS)
        record(l, now_ns);
    port_mutex_unlock(l->lock);
}

static void show(const weir_history *h, const weir_history_row *row, const char *name,
                 void (*fn)(void *ctx, const weir_history_series *series), void *ctx)
{
    int64_t oldest = h->step - WEIR_HISTORY_STEPS + 1;
    int64_t first = row->first > oldest ? row->first : oldest;
    if (first > h->step)
        return;
    fn(ctx, &(weir_history_series){.name = name,
                                   .first_ns = h->start_ns + first * WEIR_HISTORY_STEP_NS,
                                   .first = first,
                                   .len = (size_t)(h->step - first + 1),
                                   .count = row->count});
}

void weir_limiter_history(weir_limiter *l, int64_t now_ns,
                          void (*fn)(void *ctx, const weir_history_series *series), void *ctx)
{
    weir_limiter_history_tick(l, now_ns);
    port_mutex_lock(l->lock);
    const weir_history *h = &l->history;
    record(l, now_ns);
    show(h, &h->all, NULL, fn, ctx);
    for (size_t i = 0; i < h->rows; i++)
        show(h, &h->row[i], l->name[h->row[i].name], fn, ctx);
    port_mutex_unlock(l->lock);
}
