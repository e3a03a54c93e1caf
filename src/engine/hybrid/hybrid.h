/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_HYBRID_H
#define WEIR_ENGINE_HYBRID_HYBRID_H
/* The hybrid engine from within: what is under way, and who of its files does what. hybrid.c
 * decides; forward.c carries requests to the engine below and their answers back; sync.c settles
 * leases, by the alarm and when they are low. */

#include "engine/engine.h"
#include "engine/hybrid/lease_table.h"

typedef struct hybrid hybrid;
typedef struct forward forward;

/* One request of a round that waits for the answer to another, about the same key. */
typedef struct wait {
    struct wait *next; /* of the same slot */
    forward *forward;
    weir_lease_slot *slot; /* NULL: it does not wait */
    uint32_t index;        /* in the round */
} wait;

/* Requests of one forward that the engine below is asked together. */
typedef struct below_ask {
    struct below_ask *next; /* of the same forward */
    weir_engine_batch round;
    forward *forward;
    int64_t sent_ns;
    struct below_from {
        weir_lease_slot *slot; /* NULL: nothing is learned from the answer */
        uint32_t uses;         /* the slot's, to know whether it is still that key's */
        uint32_t index;        /* in the asker's round */
        bool probe;            /* others wait for it */
    } * from;                  /* of each; NULL: they are the asker's own, and nothing is learned */
    weir_engine_request *request; /* copies; NULL: they are the asker's own */
} below_ask;

/* A round that is not answered yet. */
struct forward {
    hybrid *engine;
    forward *next; /* among those that are answered */
    weir_engine_batch *round;
    below_ask *asks;
    size_t left; /* requests without an answer */
    bool asking; /* its asker is still in ask() */
    size_t to_ask;
    struct below_from *from; /* [round->len]: to be asked below, to_ask of them */
    wait wait[];             /* [round->len] */
};

/* A sync_request that is under way, or a lease that goes back. */
typedef struct sync_request {
    struct sync_request *before, *next;
    weir_engine_batch round;
    weir_engine_request request; /* its texts are the slot's, which stays as long as share.asking */
    hybrid *engine;
    weir_lease_slot *slot;
    uint32_t epoch; /* the share's, when it was sent */
    int64_t sent_ns;
} sync_request;

struct hybrid {
    weir_engine face;
    weir_engine *below;
    port_dialer *dialer;
    port_timer *alarm;
    int64_t alarm_ns; /* when it is set to; INT64_MAX: it is not */
    int64_t interval_ns, idle_ns;
    weir_hybrid_stats *stats;
    weir_lease_table table;
    sync_request *syncs;
    forward *done;                       /* answered, but not yet said */
    unsigned inside;                     /* calls of ask() and abandon() that are running */
    uint64_t asked, here, keys;          /* not yet in stats; keys: as it stands there */
    int64_t over_at_ns, over, over_told; /* the largest overshoot of this interval, since when; and
                                            what stats have of the one before */
};

/* ---- hybrid.c -------------------------------------------------------------------------------- */

typedef enum outcome {
    OUTCOME_HERE,  /* answered */
    OUTCOME_BELOW, /* to be asked below */
    OUTCOME_WAIT   /* for the answer to another */
} outcome;

/* Answers a take from what its slot has, or says what has to be done. */
outcome hybrid_decide(hybrid *h, weir_lease_slot *s, weir_engine_request *q, int64_t now_ns);

/* Says `done` to all whose rounds are answered; from within a call by an asker, soon. */
void hybrid_deliver(hybrid *h, int64_t now_ns);

/* Sees to it that the alarm happens at at_ns at the latest. */
void hybrid_wake_by(hybrid *h, int64_t at_ns);

/* ---- forward.c ---------------------------------------------------------------------------------- */

/* NULL if there is no memory. */
forward *forward_new(hybrid *h, weir_engine_batch *r);

/* The request with this index is to be asked below, at forward_send(), or waits.
 *  s  what has its share, or NULL; to wait, not NULL. */
void forward_add(forward *p, uint32_t index, weir_lease_slot *s);
void forward_wait(forward *p, uint32_t index, weir_lease_slot *s);
void forward_send(forward *p, int64_t now_ns);

/* Something about the key of `s` was learned: who waits there is answered, or asked below. */
void forward_release(hybrid *h, weir_lease_slot *s, int64_t now_ns);

/* Its asker has gone. */
void forward_abandon(forward *p, int64_t now_ns);

/* ---- sync.c -------------------------------------------------------------------------------- */

/* Asks below to charge what is owed, or to lease what is missing, if there is anything and nothing
 * is under way. */
void sync(hybrid *h, weir_lease_slot *s, int64_t now_ns);

/* The alarm: looks at all slots whose interval is over. */
void sync_due(hybrid *h, int64_t now_ns);

/* Settles all, and gives all leases back, as well as that can be without waiting for answers. */
void sync_all(hybrid *h, int64_t now_ns);

/* Brings the stats up to date. */
void sync_stats(hybrid *h, int64_t now_ns);

#endif
