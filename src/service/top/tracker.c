/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tracks top keys: chooses the sampling interval of each stream, and adds samples to sketches. A
 * stream is the requests of one policy with one verdict. Requests that are not sampled run none of
 * this code. */

#include "service/top/tracker.h"

#include "port/assert.h"
#include "port/port.h"
#include "service/counters.h"

/* ---- sampling -------------------------------------------------------------------------------- */

uint64_t weir_sampler_random(uint64_t *state)
{
    WEIR_ASSERT(*state != 0);
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static uint64_t draw(weir_sampler *s, uint64_t *random)
{
    return s->at = weir_sampler_random(random) & ((UINT64_C(1) << s->shift) - 1);
}

void weir_sampler_begin(weir_sampler *s, int64_t *left, uint64_t *random)
{
    WEIR_ASSERT(s->next <= WEIR_SAMPLER_SHIFT_MAX);
    s->shift = s->next;
    *left = (int64_t)draw(s, random) + 1;
}

uint64_t weir_sampler_hit(weir_sampler *s, int64_t *left, uint64_t *random)
{
    unsigned shift = s->shift;
    uint64_t interval = UINT64_C(1) << shift;
    WEIR_ASSERT(*left <= 0 && s->at < interval);
    /* The units from the start of the interval to the end of the request. The request ends -*left
     * units after the drawn unit. */
    uint64_t done = s->at + 1 + (uint64_t) - *left;
    uint64_t hits = 1, intervals = done >> shift;
    done &= interval - 1;
    if (intervals > 0)
        hits += intervals - 1; /* intervals entirely within the request */
    if (intervals > 0 && done > 0) {
        uint64_t at = draw(s, random);
        if (at >= done) {
            *left = (int64_t)(at - done) + 1;
            return hits << shift;
        }
        hits++;
    }
    weir_sampler_begin(s, left, random);
    if (done > 0)
        *left += (int64_t)(interval - done); /* skip the rest of this interval */
    return hits << shift;
}

/* ---- streams --------------------------------------------------------------------------------- */

enum {
    STREAMS = COUNT_FAILED, /* verdicts that are tracked */
    SAMPLES = 1024,  /* about how many requests are sampled in a second, in all streams together */
    SAMPLES_MIN = 16 /* the minimum for each stream */
};

static const weir_top_of verdict[STREAMS] = {
    [COUNT_ALLOWED] = WEIR_TOP_ALLOWED,    [COUNT_DENIED] = WEIR_TOP_DENIED,
    [COUNT_SHADOWED] = WEIR_TOP_DENIED,    [COUNT_ALLOW_LISTED] = WEIR_TOP_ALLOWED,
    [COUNT_DENY_LISTED] = WEIR_TOP_DENIED,
};

typedef struct policy_streams {
    weir_sampler stream[STREAMS];
    unsigned seen[STREAMS]; /* samples in this second */
    int64_t *lefts;

    /* Under the lock. */
    weir_space_saving *list[WEIR_TOP_OFS]; /* NULL: no samples, or no memory */
    unsigned coarsest[WEIR_TOP_OFS]; /* the highest shift among the listed samples; lower by one
                                        with each decay, as the samples lose that much weight */
    bool refused[WEIR_TOP_OFS];      /* there was no memory for the list */
} policy_streams;

struct weir_top_tracker {
    weir_top_shared *shared;
    uint64_t random;
    unsigned budget; /* samples of each stream in a second */
    int64_t step;    /* of the last decay of all lists */
    int64_t ticked_ns;
    size_t policies;
    port_mutex *lock;         /* the owner holds it when it writes what other threads read */
    policy_streams *policy[]; /* NULL: no request yet */
};

weir_top_tracker *weir_top_tracker_open(weir_top_shared *shared, size_t policies)
{
    weir_top_tracker *w = port_zalloc(1, sizeof *w + policies * sizeof(policy_streams *));
    if (!w)
        return NULL;
    w->lock = port_mutex_new();
    if (!w->lock || port_random(&w->random, sizeof w->random) != WEIR_OK) {
        port_mutex_free(w->lock);
        port_free(w);
        return NULL;
    }
    w->random |= 1;
    w->shared = shared;
    w->budget = SAMPLES;
    w->policies = policies;
    return w;
}

/* Frees a list, which may be NULL. */
static void drop_list(weir_top_tracker *w, weir_space_saving **list)
{
    if (!*list)
        return;
    weir_space_saving_free(*list);
    *list = NULL;
    size_t bytes = weir_space_saving_bytes(w->shared->keys);
    WEIR_ASSERT(port_load_relaxed(&w->shared->bytes) >= bytes);
    port_sub_relaxed(&w->shared->bytes, bytes);
}

void weir_top_tracker_close(weir_top_tracker *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->policies; i++) {
        for (int of = 0; w->policy[i] && of < WEIR_TOP_OFS; of++)
            drop_list(w, &w->policy[i]->list[of]);
        port_free(w->policy[i]);
    }
    port_mutex_free(w->lock);
    port_free(w);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static weir_space_saving *new_list(weir_top_tracker *w, int64_t step)
{
    weir_top_shared *s = w->shared;
    uint64_t bytes = weir_space_saving_bytes(s->keys);
    weir_space_saving *list = NULL;
    if (port_add_relaxed(&s->bytes, bytes) + bytes <= s->bytes_max)
        list = weir_space_saving_new(s->keys, step);
    if (!list)
        port_sub_relaxed(&s->bytes, bytes);
    return list;
}

static void put(weir_top_tracker *w, policy_streams *p, int which, weir_slice key, uint64_t cost,
                uint64_t requests, int64_t step)
{
    weir_top_of of = verdict[which];
    uint64_t hash = weir_siphash(w->shared->secret, key.at, key.len);
    port_mutex_lock(w->lock);
    if (!p->list[of])
        p->list[of] = new_list(w, step);
    p->refused[of] = !p->list[of];
    if (p->list[of]) {
        weir_space_saving_decay(p->list[of], step);
        weir_space_saving_add(p->list[of], hash, key.at, key.len, cost, requests);
    }
    if (p->coarsest[of] < p->stream[which].shift)
        p->coarsest[of] = p->stream[which].shift;
    port_mutex_unlock(w->lock);
}

/* Decays the lists of a policy. Frees the empty ones, so that other policies can use the memory. */
static void decay(weir_top_tracker *w, policy_streams *p, int64_t step)
{
    uint64_t steps = step > w->step ? (uint64_t)(step - w->step) : 0;
    for (int of = 0; of < WEIR_TOP_OFS; of++) {
        p->coarsest[of] -= p->coarsest[of] < steps ? p->coarsest[of] : (unsigned)steps;
        if (!p->list[of])
            continue;
        weir_space_saving_decay(p->list[of], step);
        if (p->list[of]->len == 0)
            drop_list(w, &p->list[of]);
    }
}

bool weir_top_tracker_read(weir_top_tracker *w, size_t at, weir_top_of of,
                           weir_space_saving **ret_list, weir_top_accuracy *accuracy)
{
    weir_space_saving *copy = weir_space_saving_new(w->shared->keys, 0);
    bool good = copy != NULL, listed = false;
    port_mutex_lock(w->lock);
    const policy_streams *p = w->policy[at];
    if (good && p) {
        int64_t sampling = INT64_C(1) << p->coarsest[of];
        accuracy->sampling = sampling > accuracy->sampling ? sampling : accuracy->sampling;
        accuracy->complete = accuracy->complete && !p->refused[of];
        listed = p->list[of] != NULL;
        if (listed)
            weir_space_saving_copy(copy, p->list[of]);
    }
    port_mutex_unlock(w->lock);
    if (!listed)
        weir_space_saving_free(copy);
    *ret_list = listed ? copy : NULL;
    return good;
}

/* ---- samples --------------------------------------------------------------------------------- */

static policy_streams *new_policy(weir_top_tracker *w, size_t at, int64_t *lefts)
{
    policy_streams *p = port_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->lefts = lefts;
    for (int i = 0; i < STREAMS; i++)
        weir_sampler_begin(&p->stream[i], &lefts[i], &w->random);
    port_mutex_lock(w->lock);
    w->policy[at] = p;
    port_mutex_unlock(w->lock);
    return p;
}

void weir_top_tracker_hit(weir_top_tracker *w, size_t at, int which, int64_t *lefts, weir_slice key,
                          int64_t cost, int64_t now_ns)
{
    WEIR_ASSERT(which >= 0 && which < STREAMS && cost >= 1 && lefts[which] <= 0);
    if (!w) {
        lefts[which] = INT64_MAX;
        return;
    }
    WEIR_ASSERT(at < w->policies);
    policy_streams *p = w->policy[at];
    if (!p) {
        p = new_policy(w, at, lefts);
        lefts[which] = p ? lefts[which] - cost : INT64_C(1) << 20; /* no memory: retry later */
    }
    if (!p)
        return;
    weir_sampler *s = &p->stream[which];
    if (++p->seen[which] > w->budget) {
        /* Over the budget: the following intervals are twice as long, so half as many samples. */
        s->next += s->next < WEIR_SAMPLER_SHIFT_MAX;
        p->seen[which] = w->budget / 2;
    }
    uint64_t units = weir_sampler_hit(s, &lefts[which], &w->random), c = (uint64_t)cost;
    uint64_t requests = (units + c / 2) / c;
    put(w, p, which, key, units, requests > 0 ? requests : 1, now_ns / WEIR_TOP_HALF_NS);
}

/* Shortens the sampling interval of a stream that used less than a quarter of its budget in the
 * last second. After an idle time the stream is counted exactly again. */
static void refine(weir_top_tracker *w, policy_streams *p, int which, bool idle)
{
    weir_sampler *s = &p->stream[which];
    unsigned seen = idle ? 0 : p->seen[which], next = s->next;
    p->seen[which] = 0;
    for (; next > 0 && seen < w->budget / 4; next--)
        seen *= 2;
    if (next == s->next)
        return;
    s->next = next;
    weir_sampler_begin(s, &p->lefts[which], &w->random);
}

void weir_top_tracker_tick(weir_top_tracker *w, int64_t now_ns)
{
    if (!w)
        return;
    unsigned active = 0;
    bool idle = now_ns - w->ticked_ns > 2 * (int64_t)1000000000;
    int64_t step = now_ns / WEIR_TOP_HALF_NS;
    for (size_t i = 0; i < w->policies; i++) {
        for (int which = 0; w->policy[i] && which < STREAMS; which++)
            active += w->policy[i]->seen[which] > 0;
    }
    w->budget = active > SAMPLES / SAMPLES_MIN ? SAMPLES_MIN : SAMPLES / (active > 0 ? active : 1);
    port_mutex_lock(w->lock);
    for (size_t i = 0; i < w->policies; i++) {
        policy_streams *p = w->policy[i];
        if (!p)
            continue;
        for (int which = 0; which < STREAMS; which++)
            refine(w, p, which, idle);
        decay(w, p, step);
    }
    w->step = step;
    w->ticked_ns = now_ns;
    port_mutex_unlock(w->lock);
}
