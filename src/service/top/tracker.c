/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* How finely each stream is sampled, and the lists that the samples go to. Nothing here is on the
 * way of a request that is not looked at. */

#include "service/top/tracker.h"

#include "service/service_internal.h"

enum {
    STREAMS = COUNT_FAILED, /* what failed weighs nothing */
    LOOKS = 1024,           /* requests to be looked at in a second, about, by all streams ... */
    LOOKS_MIN = 16          /* ... and by each of them at least */
};

static const weir_top_of verdict[STREAMS] = {
    [COUNT_ALLOWED] = WEIR_TOP_ALLOWED,    [COUNT_DENIED] = WEIR_TOP_DENIED,
    [COUNT_SHADOWED] = WEIR_TOP_DENIED,    [COUNT_ALLOW_LISTED] = WEIR_TOP_ALLOWED,
    [COUNT_DENY_LISTED] = WEIR_TOP_DENIED,
};

typedef struct place {
    weir_sampler stream[STREAMS];
    unsigned seen[STREAMS]; /* requests looked at in this second */
    int64_t *lefts;

    /* Under the lock. */
    weir_space_saving *list[WEIR_TOP_OFS]; /* NULL: nothing to weigh, or no memory for it */
    unsigned coarsest[WEIR_TOP_OFS]; /* the highest shift that what is listed came by; what came by
                                        a higher one has faded since to no more than this */
    bool refused[WEIR_TOP_OFS];      /* for want of memory */
} place;

struct weir_top_tracker {
    weir_top_shared *scales;
    uint64_t random;
    unsigned share; /* how many requests each stream may look at in a second */
    int64_t step;   /* to which all lists have faded */
    int64_t ticked_ns;
    size_t places;
    port_mutex *lock; /* held by the owner when it writes what others read */
    place *place[];
};

weir_top_tracker *weir_top_tracker_open(weir_top_shared *scales, size_t places)
{
    weir_top_tracker *w = port_zalloc(1, sizeof *w + places * sizeof(place *));
    if (!w)
        return NULL;
    w->lock = port_mutex_new();
    if (!w->lock || port_random(&w->random, sizeof w->random) != WEIR_OK) {
        port_mutex_free(w->lock);
        port_free(w);
        return NULL;
    }
    w->random |= 1;
    w->scales = scales;
    w->share = LOOKS;
    w->places = places;
    return w;
}

void weir_top_tracker_close(weir_top_tracker *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->places; i++) {
        for (int of = 0; w->place[i] && of < WEIR_TOP_OFS; of++)
            weir_space_saving_free(w->place[i]->list[of]);
        port_free(w->place[i]);
    }
    port_mutex_free(w->lock);
    port_free(w);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void drop_list(weir_top_tracker *w, weir_space_saving **list)
{
    weir_space_saving_free(*list);
    *list = NULL;
    port_sub_relaxed(&w->scales->bytes, weir_space_saving_bytes(w->scales->keys));
}

static weir_space_saving *new_list(weir_top_tracker *w, int64_t step)
{
    weir_top_shared *s = w->scales;
    uint64_t bytes = weir_space_saving_bytes(s->keys);
    weir_space_saving *list = NULL;
    if (port_add_relaxed(&s->bytes, bytes) + bytes <= s->bytes_max)
        list = weir_space_saving_new(s->keys, step);
    if (!list)
        port_sub_relaxed(&s->bytes, bytes);
    return list;
}

static void put(weir_top_tracker *w, place *p, int which, weir_slice key, uint64_t cost,
                uint64_t requests, int64_t step)
{
    weir_top_of of = verdict[which];
    uint64_t hash = weir_siphash(w->scales->secret, key.at, key.len);
    port_mutex_lock(w->lock);
    if (!p->list[of])
        p->list[of] = new_list(w, step);
    p->refused[of] = !p->list[of];
    if (p->list[of]) {
        weir_space_saving_fade(p->list[of], step);
        weir_space_saving_add(p->list[of], hash, key.at, key.len, cost, requests);
    }
    if (p->coarsest[of] < p->stream[which].shift)
        p->coarsest[of] = p->stream[which].shift;
    port_mutex_unlock(w->lock);
}

/* A list in which nothing is left makes room for others. */
static void fade(weir_top_tracker *w, place *p, int64_t step)
{
    uint64_t steps = step > w->step ? (uint64_t)(step - w->step) : 0;
    for (int of = 0; of < WEIR_TOP_OFS; of++) {
        p->coarsest[of] -= p->coarsest[of] < steps ? p->coarsest[of] : (unsigned)steps;
        if (!p->list[of])
            continue;
        weir_space_saving_fade(p->list[of], step);
        if (p->list[of]->len == 0)
            drop_list(w, &p->list[of]);
    }
}

bool weir_top_tracker_read(weir_top_tracker *w, size_t at, weir_top_of of,
                           weir_space_saving **ret_list, weir_top_accuracy *told)
{
    weir_space_saving *copy = weir_space_saving_new(w->scales->keys, 0);
    bool good = copy != NULL, listed = false;
    port_mutex_lock(w->lock);
    const place *p = w->place[at];
    if (good && p) {
        int64_t sampling = INT64_C(1) << p->coarsest[of];
        told->sampling = sampling > told->sampling ? sampling : told->sampling;
        told->complete = told->complete && !p->refused[of];
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

static place *new_place(weir_top_tracker *w, size_t at, int64_t *lefts)
{
    place *p = port_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->lefts = lefts;
    for (int i = 0; i < STREAMS; i++)
        weir_sampler_begin(&p->stream[i], &lefts[i], &w->random);
    port_mutex_lock(w->lock);
    w->place[at] = p;
    port_mutex_unlock(w->lock);
    return p;
}

void weir_top_tracker_hit(weir_top_tracker *w, size_t at, int which, int64_t *lefts, weir_slice key,
                          int64_t cost, int64_t now_ns)
{
    if (!w) {
        lefts[which] = INT64_MAX;
        return;
    }
    place *p = w->place[at];
    if (!p) {
        p = new_place(w, at, lefts);
        lefts[which] = p ? lefts[which] - cost : INT64_C(1) << 20; /* of memory, ask less often */
    }
    if (!p)
        return;
    weir_sampler *s = &p->stream[which];
    if (++p->seen[which] > w->share) {
        /* Too many: from the next stride on half as many, which is half a second's share. */
        s->next += s->next < WEIR_SAMPLER_SHIFT_MAX;
        p->seen[which] = w->share / 2;
    }
    uint64_t units = weir_sampler_hit(s, &lefts[which], &w->random), c = (uint64_t)cost;
    uint64_t requests = (units + c / 2) / c;
    put(w, p, which, key, units, requests > 0 ? requests : 1, now_ns / WEIR_TOP_HALF_NS);
}

/* What a stream has looked at in the last second says how finely it may be sampled in the next. If
 * the service has slept since, it begins anew. */
static void refine(weir_top_tracker *w, place *p, int which, bool slept)
{
    weir_sampler *s = &p->stream[which];
    unsigned seen = slept ? 0 : p->seen[which], next = s->next;
    p->seen[which] = 0;
    for (; next > 0 && seen < w->share / 4; next--)
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
    bool slept = now_ns - w->ticked_ns > 2 * (int64_t)1000000000;
    int64_t step = now_ns / WEIR_TOP_HALF_NS;
    for (size_t i = 0; i < w->places; i++) {
        for (int which = 0; w->place[i] && which < STREAMS; which++)
            active += w->place[i]->seen[which] > 0;
    }
    w->share = active > LOOKS / LOOKS_MIN ? LOOKS_MIN : LOOKS / (active > 0 ? active : 1);
    port_mutex_lock(w->lock);
    for (size_t i = 0; i < w->places; i++) {
        place *p = w->place[i];
        if (!p)
            continue;
        for (int which = 0; which < STREAMS; which++)
            refine(w, p, which, slept);
        if (step > w->step)
            fade(w, p, step);
    }
    w->step = step;
    w->ticked_ns = now_ns;
    port_mutex_unlock(w->lock);
}
