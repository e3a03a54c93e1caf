/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_HYBRID_H
#define WEIR_ENGINE_HYBRID_HYBRID_H
/* The types of the hybrid engine, for the files of this folder. hybrid.c decides requests by
 * leases; forward.c forwards the others to the upstream engine, which is a redis engine; sync.c
 * charges and fills leases at the server. */

#include "engine/engine.h"
#include "engine/hybrid/lease_table.h"

typedef struct hybrid hybrid;
typedef struct forward forward;

/* A request that waits for the reply to another one about the same key. */
typedef struct wait {
    struct wait *next; /* of the same slot */
    forward *forward;
    weir_lease_slot *slot; /* NULL: it does not wait */
    uint32_t index;        /* in the batch */
} wait;

/* Where a forwarded request comes from. */
typedef struct origin {
    weir_lease_slot *slot; /* NULL: its reply updates no lease */
    uint32_t uses;         /* the slot's: shows whether the slot still has the same key */
    uint32_t version;      /* the lease's when it was sent */
    uint32_t index;        /* in the caller's batch */
    bool probe;            /* other requests wait for its reply */
} origin;

/* Requests of one forward that are sent upstream together. */
typedef struct sub_batch {
    struct sub_batch *next; /* of the same forward */
    weir_engine_batch batch;
    forward *forward;
    int64_t sent_ns;
    origin *origin;               /* of each request */
    weir_engine_request *request; /* copies; NULL: the caller's own requests were sent */
} sub_batch;

/* A caller's batch that is not answered yet. */
struct forward {
    hybrid *engine;
    forward *next; /* in the queue of answered batches */
    weir_engine_batch *batch;
    sub_batch *subs;
    size_t left;     /* requests without an answer */
    bool submitting; /* submit() has not returned yet */
    size_t to_send;
    origin *origin; /* [batch->len]: the first to_send of them are to be sent */
    wait wait[];    /* [batch->len] */
};

/* A sync that is in flight, or units that are given back. */
typedef struct sync_request {
    struct sync_request *before, *next;
    weir_engine_batch batch;
    weir_engine_request request; /* refers to the slot's key, which stays while lease.syncing */
    hybrid *engine;
    weir_lease_slot *slot;
    uint32_t epoch, version; /* the lease's when it was sent */
    int64_t sent_ns;
} sync_request;

struct hybrid {
    weir_engine base;
    weir_engine *upstream;
    port_dialer *dialer;
    port_timer *timer;
    int64_t timer_ns; /* when it expires; INT64_MAX: it is not set */
    int64_t interval_ns, idle_ns;
    uint64_t resets_version; /* when leases were last compared with table.resets */
    weir_hybrid_stats *stats;
    weir_lease_table table;
    sync_request *syncs;
    forward *done;            /* answered, and done() is not called yet */
    unsigned inside;          /* depth of calls that may answer batches: done() is not called */
    uint64_t requests, local; /* not yet added to stats */
    uint64_t keys;            /* the number of leases that stats->keys includes */
    int64_t over_at_ns;       /* when this interval of overshoot began */
    int64_t over;             /* the largest overshoot in it */
    int64_t over_reported;    /* the overshoot that stats->overshoot_last includes */
};

/* ---- hybrid.c -------------------------------------------------------------------------------- */

typedef enum outcome {
    OUTCOME_ANSWERED,
    OUTCOME_FORWARD, /* send it upstream */
    OUTCOME_WAIT     /* wait for the reply to another request */
} outcome;

/* Answers a take by the lease of its slot, if possible. */
outcome hybrid_decide(hybrid *h, weir_lease_slot *s, weir_engine_request *q, int64_t now_ns);

/* Calls done() for all answered batches; from within a call of the engine, soon afterwards. */
void hybrid_deliver(hybrid *h, int64_t now_ns);

/* Sets the timer to at_ns, unless it expires earlier. */
void hybrid_wake_by(hybrid *h, int64_t at_ns);

/* ---- forward.c ------------------------------------------------------------------------------- */

/* NULL: no memory. */
forward *forward_new(hybrid *h, weir_engine_batch *b);

/* Adds the request at `index`: to be sent by forward_send().
 *  s  the slot with its key's lease, or NULL. */
void forward_add(forward *f, uint32_t index, weir_lease_slot *s);
/* Adds the request at `index`: it waits for the probe of `s`. */
void forward_wait(forward *f, uint32_t index, weir_lease_slot *s);
void forward_send(forward *f, int64_t now_ns);

/* A reply has updated the lease of `s`: answers or sends the requests that wait for it. */
void forward_release(hybrid *h, weir_lease_slot *s, int64_t now_ns);

/* The caller abandons the batch. */
void forward_abandon(forward *f, int64_t now_ns);

/* ---- sync.c ---------------------------------------------------------------------------------- */

/* Sends a sync for the lease of `s`, if it owes or lacks units and no sync is in flight. */
void sync(hybrid *h, weir_lease_slot *s, int64_t now_ns);

/* The timer: ends the interval of each lease whose time has come. */
void sync_due(hybrid *h, int64_t now_ns);

/* Charges what all postpaid leases owe, and gives all prepaid units back, without waiting for
 * replies. */
void sync_all(hybrid *h, int64_t now_ns);

/* Brings the shared statistics up to date. */
void sync_stats(hybrid *h, int64_t now_ns);

#endif
