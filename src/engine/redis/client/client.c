/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The client routes each call to the node that serves its key, and follows redirects. It is the top
 * of this folder: the files below it call back only through weir_redis_node_events. */

#include "engine/redis/client/client.h"

#include "engine/redis/client/node.h"
#include "engine/redis/client/resets.h"
#include "engine/redis/client/topology.h"
#include "engine/redis/client/wire.h"

#include "port/assert.h"
#include "port/port.h"

#include <string.h>

#define REDIRECTS_MAX 8
#define PAUSE_NS      (5 * WEIR_REDIS_MS)     /* before a call is sent again */
#define LOG_ERROR_NS  (10000 * WEIR_REDIS_MS) /* between two logs of a node's error replies */

enum { REASONS_MAX = 32 };

#define CROSS_SLOT                                                                                 \
    "the keys are in different hash slots of the Cluster: give them the same {tag} to take them "  \
    "together"

struct weir_redis_client {
    weir_redis_context context; /* first */
    weir_redis_topology topology;
    weir_redis_resets_reader resets;
    weir_redis_call unrouted; /* a list: calls that wait until a node or the resets are known */
    weir_redis_call paused;   /* a list: calls that wait until resume_ns */
    int64_t resume_ns;
    port_timer *maintenance_timer;
    char error[WEIR_REDIS_WHY_MAX]; /* the latest error reply; a call's `why` points to it */
    char *reason[REASONS_MAX];      /* distinct errors; the requests' `reason` points to them */
    size_t reasons;
};

static void maintain(weir_redis_client *c, int64_t now_ns);

static weir_redis_client *client_of(const weir_redis_node *n)
{
    return (weir_redis_client *)n->context;
}

/* ---- routing --------------------------------------------------------------------------------- */

static void end(weir_redis_client *c, weir_redis_call *call, weir_redis_outcome outcome,
                const char *why, int64_t now_ns)
{
    weir_redis_calls_end(&c->context.calls, call, outcome, why, now_ns);
}

static void unsupported(weir_redis_client *c, weir_redis_call *call, const char *reason,
                        int64_t now_ns)
{
    weir_redis_calls_unsupported(&c->context.calls, call, reason, now_ns);
}

/* Sends a call to a node, or lets it wait there, or ends it if the wait would be too long. */
static void send_to(weir_redis_client *c, weir_redis_node *n, weir_redis_call *call, int64_t now_ns)
{
    const char *why;
    WEIR_ASSERT(!n->is_sentinel && call->next && !call->ended);
    switch (n->state) {
    case WEIR_REDIS_UP:
        if (!weir_redis_wire_can(call, n->by, &why))
            unsupported(c, call, why, now_ns);
        else if (!weir_redis_node_send(n, call, now_ns))
            end(c, call, WEIR_REDIS_OVERLOADED, "too many bytes are waiting to be sent to the node",
                now_ns);
        return;
    case WEIR_REDIS_BACKOFF:
        if (n->next_ns < call->deadline_ns)
            break;
        end(c, call, WEIR_REDIS_UNREACHABLE, "no connection to the node before the deadline",
            now_ns);
        return;
    case WEIR_REDIS_IDLE:
        weir_redis_node_connect(n, now_ns);
        break;
    case WEIR_REDIS_CONNECTING:
    case WEIR_REDIS_HANDSHAKE:
        break;
    }
    weir_redis_list_add(&n->waiting, call);
}

static uint32_t slot_of(const weir_redis_client *c, const weir_engine_request *q)
{
    const weir_redis_topology *t = &c->topology;
    return t->mode == WEIR_REDIS_CLUSTER ? weir_redis_topology_slot(t, q) : 0;
}

static bool may_connect(const weir_redis_node *n, int64_t deadline_ns)
{
    return n->state != WEIR_REDIS_BACKOFF || n->next_ns < deadline_ns;
}

/* Whether the topology may become known before the deadline, by the reply of a server. */
static bool may_be_found(const weir_redis_topology *t, int64_t deadline_ns)
{
    for (size_t i = 0; i < t->seeds; i++) {
        if (may_connect(t->node[i], deadline_ns))
            return true;
    }
    return false;
}

static bool knows_resets(const weir_redis_client *c)
{
    const weir_redis_resets *r = c->context.counts->resets;
    return !r || port_word_load_acquire(&r->known) != 0;
}

/* Lets a call wait until the resets are known: they are a part of its key. Ends it if their node
 * cannot be reached in time. */
static void wait_for_resets(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    const weir_redis_topology *t = &c->topology;
    const weir_redis_node *n = weir_redis_topology_node(t, weir_redis_resets_slot(t));
    if (n && may_connect(n, call->deadline_ns))
        weir_redis_list_add(&c->unrouted, call);
    else
        end(c, call, WEIR_REDIS_UNREACHABLE, "the node with the resets is not reachable", now_ns);
}

/* Sends a call, which is in no list, to the node of its key, or lets it wait, or ends it. */
static void route(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    const weir_redis_topology *t = &c->topology;
    WEIR_ASSERT(!call->pipeline && !call->wait_next);
    call->asking = false;
    weir_redis_node *n = weir_redis_topology_node(t, slot_of(c, call->request));
    if (n && n->state == WEIR_REDIS_UP && !knows_resets(c))
        wait_for_resets(c, call, now_ns);
    else if (n)
        send_to(c, n, call, now_ns);
    else if (t->mode == WEIR_REDIS_CLUSTER)
        end(c, call, WEIR_REDIS_UNREACHABLE, "no node serves the key's slot", now_ns);
    else if (may_be_found(t, call->deadline_ns))
        weir_redis_list_add(&c->unrouted, call);
    else
        end(c, call, WEIR_REDIS_UNREACHABLE, "no server can be reached before the deadline",
            now_ns);
}

/* Routes all calls of a list, in order. */
static void route_all(weir_redis_client *c, weir_redis_call *list, int64_t now_ns)
{
    weir_redis_call all, *call;
    weir_redis_list_move(list, &all); /* some calls may be added to the list again */
    while ((call = weir_redis_list_pop(&all)))
        route(c, call, now_ns);
}

/* After a change of the topology: routes the calls that wait for nodes which no longer serve them,
 * and those that wait for any node. */
static void reroute(weir_redis_client *c, int64_t now_ns)
{
    weir_redis_topology *t = &c->topology;
    for (size_t i = 0; i < t->nodes_end; i++) {
        weir_redis_node *n = t->node[i];
        if (n && !(t->mode == WEIR_REDIS_CLUSTER ? n->in_map : n->at == t->master))
            route_all(c, &n->waiting, now_ns);
    }
    route_all(c, &c->unrouted, now_ns);
}

/* ---- error replies --------------------------------------------------------------------------- */

static void refuse(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    weir_redis_client *c = client_of(n);
    weir_redis_copy_text(c->error, sizeof c->error, text.at, text.len);
    if (now_ns - n->logged_refuses_ns >= LOG_ERROR_NS) {
        n->logged_refuses_ns = now_ns;
        weir_redis_node_log(n, "redis-refuses", c->error);
    }
    end(c, call, WEIR_REDIS_REFUSED, c->error, now_ns);
}

/* Handles an error that does not depend on the call. */
static void refuse_any(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    char why[WEIR_REDIS_WHY_MAX];
    weir_redis_copy_text(why, sizeof why, text.at, text.len);
    weir_redis_node_refused(n, why, now_ns);
    refuse(n, call, text, now_ns);
}

/* Leaves a server that may not decide for a long time: its name or address may lead to another. */
static void retire(weir_redis_node *n, weir_slice text, int64_t now_ns)
{
    char why[WEIR_REDIS_WHY_MAX];
    weir_redis_copy_text(why, sizeof why, text.at, text.len);
    weir_redis_node_retire(n, why, now_ns);
}

/* Whether a call may be sent once more. If not, it has ended. */
static bool may_repeat(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    if (call->redirects++ < REDIRECTS_MAX)
        return true;
    refuse(n, call, text, now_ns);
    return false;
}

/* MOVED and ASK. */
static void redirect(weir_redis_node *n, weir_redis_call *call, weir_slice text, bool asking,
                     int64_t now_ns)
{
    weir_redis_client *c = client_of(n);
    weir_redis_topology *t = &c->topology;
    weir_redis_target to;
    if (!may_repeat(n, call, text, now_ns))
        return;
    weir_redis_node *other = NULL;
    if (weir_redis_error_target(text, n->host, &to))
        other = weir_redis_topology_add(t, to.host, (uint16_t)to.port);
    if (!other || other->is_sentinel) {
        refuse(n, call, text, now_ns);
        return;
    }
    port_add_relaxed(&c->context.counts->redirected, 1);
    if (other->is_replica && other->state == WEIR_REDIS_UP)
        weir_redis_node_disconnect(other, now_ns); /* the next handshake reads its role again */
    call->asking = asking;
    send_to(c, other, call, now_ns); /* may end and free the call */
    if (asking)
        return;
    weir_redis_cluster_moved(t, to.slot, other);
    if (t->cluster.refresh_wanted)
        return; /* an earlier MOVED of many has requested the map */
    t->cluster.refresh_wanted = true;
    maintain(c, now_ns);
}

static void pause_call(weir_redis_client *c, weir_redis_call *call, const char *why, int64_t now_ns)
{
    bool is_first = weir_redis_list_is_empty(&c->paused);
    call->why = why;
    weir_redis_list_add(&c->paused, call);
    if (!is_first)
        return;
    c->resume_ns = now_ns + PAUSE_NS;
    maintain(c, now_ns);
}

/* READONLY and MASTERDOWN: the call is sent again while the new master is being found. A single
 * server may have one behind its name. */
static void find_master(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    weir_redis_client *c = client_of(n);
    weir_redis_topology *t = &c->topology;
    retire(n, text, now_ns);
    if (n->state == WEIR_REDIS_UP && t->mode == WEIR_REDIS_SINGLE &&
        !c->context.options->sentinel) {
        refuse_any(n, call, text, now_ns); /* it was retired a moment ago */
        return;
    }
    if (!may_repeat(n, call, text, now_ns))
        return;
    t->cluster.refresh_wanted = true;
    t->sentinel.next_ns = 0;
    pause_call(c, call, "READONLY: the node is no longer a master", now_ns);
}

/* NOSCRIPT, for example after SCRIPT FLUSH or a restart of the server. */
static void reload_library(weir_redis_node *n, weir_redis_call *call, weir_slice text,
                           int64_t now_ns)
{
    if (!may_repeat(n, call, text, now_ns))
        return;
    call->why = "the server has lost weir's functions";
    if (n->state == WEIR_REDIS_UP)
        weir_redis_handshake_repeat(n, now_ns);
    send_to(client_of(n), n, call, now_ns);
}

/* The call is sent again without FIGURES, as all calls over this connection from now on. */
static void omit_figures(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    if (!call->figures) {
        refuse(n, call, text, now_ns);
        return;
    }
    n->omits_figures = true;
    if (may_repeat(n, call, text, now_ns))
        send_to(client_of(n), n, call, now_ns);
}

/* A copy of a server's text that lives as long as the client. */
static const char *keep(weir_redis_client *c, weir_slice text)
{
    char copy[WEIR_REDIS_WHY_MAX];
    weir_redis_copy_text(copy, sizeof copy, text.at, text.len);
    for (size_t i = 0; i < c->reasons; i++) {
        if (strcmp(c->reason[i], copy) == 0)
            return c->reason[i];
    }
    char *kept = c->reasons < REASONS_MAX ? port_zalloc(1, sizeof copy) : NULL;
    if (!kept)
        return "the server does not support this policy";
    memcpy(kept, copy, sizeof copy);
    c->reason[c->reasons++] = kept;
    return kept;
}

static void refuse_throttle(weir_redis_client *c, weir_redis_call *call, weir_slice text,
                            int64_t now_ns)
{
    weir_engine_request *q = call->request;
    q->status = WEIR_E_RANGE;
    q->reason = NULL;
    q->by_error = false;
    q->throttle_status = weir_redis_error_throttle(text);
    end(c, call, WEIR_REDIS_ANSWERED, NULL, now_ns);
}

static void on_error(weir_redis_node *n, weir_redis_call *call, weir_slice text, int64_t now_ns)
{
    weir_redis_client *c = client_of(n);
    bool is_throttle = call->request->verb == WEIR_VERB_THROTTLE;
    switch (weir_redis_error_kind_of(text, is_throttle)) {
    case WEIR_REDIS_ERROR_MOVED:
        redirect(n, call, text, false, now_ns);
        return;
    case WEIR_REDIS_ERROR_ASK:
        redirect(n, call, text, true, now_ns);
        return;
    case WEIR_REDIS_ERROR_TRY_AGAIN:
        pause_call(c, call, "TRYAGAIN: the hash slot of the keys is migrating", now_ns);
        return;
    case WEIR_REDIS_ERROR_READ_ONLY:
        find_master(n, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_NOT_LOADED:
        reload_library(n, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_NO_FIGURES:
        omit_figures(n, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_CROSS_SLOT:
        unsupported(c, call, CROSS_SLOT, now_ns);
        return;
    case WEIR_REDIS_ERROR_UNSUPPORTED: /* "ERR policy: ..." without "ERR " */
        unsupported(c, call, keep(c, (weir_slice){text.at + 4, text.len - 4}), now_ns);
        return;
    case WEIR_REDIS_ERROR_THROTTLE:
        refuse_throttle(c, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_NO_CLUSTER:
        c->topology.cluster.refresh_wanted = true;
        retire(n, text, now_ns);
        refuse_any(n, call, text, now_ns);
        maintain(c, now_ns);
        return;
    case WEIR_REDIS_ERROR_LOADING:
        retire(n, text, now_ns);
        refuse_any(n, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_OTHER:
        refuse_any(n, call, text, now_ns);
        return;
    case WEIR_REDIS_ERROR_OF_KEY:
        refuse(n, call, text, now_ns);
        return;
    }
}

/* ---- events of nodes ------------------------------------------------------------------------- */

static void on_reply(weir_redis_node *n, weir_redis_expects expects, const weir_resp_value *v,
                     int64_t now_ns)
{
    weir_redis_client *c = client_of(n);
    if (expects == WEIR_REDIS_EXPECTS_SLOTS) {
        weir_redis_cluster_receive(&c->topology, n, v, now_ns);
    } else if (expects == WEIR_REDIS_EXPECTS_MASTER) {
        weir_redis_sentinel_receive(&c->topology, n, v, now_ns);
    } else if (expects == WEIR_REDIS_EXPECTS_RESETS) {
        weir_redis_resets_receive(&c->resets, &c->topology, n, v, now_ns);
    } else {
        weir_redis_handshake_receive(n, expects, v, now_ns);
        return;
    }
    if (v->last) {
        reroute(c, now_ns);
        maintain(c, now_ns);
    }
}

static void on_lost(weir_redis_node *n)
{
    weir_redis_cluster_lost(&client_of(n)->topology, n);
    weir_redis_sentinel_lost(&client_of(n)->topology, n);
    weir_redis_resets_lost(&client_of(n)->resets, n);
}

static void on_changed(weir_redis_node *n, int64_t now_ns)
{
    route_all(client_of(n), &n->waiting, now_ns);
    maintain(client_of(n), now_ns);
}

static void on_backoff_end(weir_redis_node *n, int64_t now_ns)
{
    maintain(client_of(n), now_ns);
}

static bool is_wanted(const weir_redis_node *n)
{
    return weir_redis_topology_wants(&client_of(n)->topology, n);
}

static bool serves(const weir_redis_node *n)
{
    return weir_redis_topology_serves(&client_of(n)->topology, n);
}

static bool serves_slot(const weir_redis_node *n, uint32_t slot)
{
    return weir_redis_topology_node(&client_of(n)->topology, slot) == n;
}

static const weir_redis_node_events node_events = {
    .connected = weir_redis_handshake_begin,
    .reply = on_reply,
    .error = on_error,
    .lost = on_lost,
    .changed = on_changed,
    .backoff_ended = on_backoff_end,
    .is_wanted = is_wanted,
    .serves = serves,
    .serves_slot = serves_slot,
};

/* Called after every change: connects to the nodes that are wanted, asks for the topology if that
 * is due, and sends paused calls whose pause has ended. */
static void maintain(weir_redis_client *c, int64_t now_ns)
{
    weir_redis_topology *t = &c->topology;
    bool has_sentinels = c->context.options->sentinel != NULL;
    int64_t wake_ns = INT64_MAX;
    if (c->context.closing)
        return;
    if (has_sentinels)
        weir_redis_sentinel_poll(t, now_ns, &wake_ns);
    if (!has_sentinels || t->mode == WEIR_REDIS_CLUSTER)
        weir_redis_cluster_poll(t, now_ns, &wake_ns);
    for (size_t i = 0; i < t->nodes_end; i++) {
        weir_redis_node *n = t->node[i];
        if (n && n->state == WEIR_REDIS_IDLE && weir_redis_topology_wants(t, n))
            weir_redis_node_connect(n, now_ns);
    }
    if (c->context.counts->resets)
        weir_redis_resets_poll(&c->resets, t, now_ns, &wake_ns);
    if (!weir_redis_list_is_empty(&c->paused)) {
        if (c->resume_ns <= now_ns)
            route_all(c, &c->paused, now_ns);
        else if (c->resume_ns < wake_ns)
            wake_ns = c->resume_ns;
    }
    c->context.dialer->calls->set_timer(c->maintenance_timer, wake_ns);
}

static void on_maintenance_timer(void *ctx, int64_t now_ns)
{
    maintain(ctx, now_ns);
}

/* ---- the interface --------------------------------------------------------------------------- */

static bool is_in_one_slot(const weir_redis_client *c, const weir_redis_call *call)
{
    uint32_t slot = slot_of(c, call->request);
    for (size_t i = 1; i < call->len; i++) {
        if (slot_of(c, &call->request[i]) != slot)
            return false;
    }
    return true;
}

void weir_redis_client_send(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    weir_redis_calls *calls = &c->context.calls;
    WEIR_ASSERT(call->len > 0 && !calls->sending);
    call->next = call->before = call->wait_next = call->wait_before = NULL;
    call->pipeline = NULL;
    call->why = NULL;
    call->redirects = 0;
    call->asking = call->ended = false;
    calls->sending = true;
    if (call->deadline_ns <= now_ns) {
        end(c, call, WEIR_REDIS_UNREACHABLE, "the deadline has passed", now_ns);
    } else if (calls->in_flight >= c->context.in_flight_max) {
        end(c, call, WEIR_REDIS_OVERLOADED, "too many requests are in flight", now_ns);
    } else {
        weir_redis_calls_add(calls, call);
        if (call->len > 1 && !is_in_one_slot(c, call))
            unsupported(c, call, CROSS_SLOT, now_ns);
        else
            route(c, call, now_ns);
    }
    calls->sending = false;
}

void weir_redis_client_abandon(weir_redis_client *c, weir_redis_call *call)
{
    weir_redis_calls_remove(&c->context.calls, call);
}

bool weir_redis_client_is_up(const weir_redis_client *c, const weir_engine_request *q,
                             int64_t *ret_next_ns)
{
    const weir_redis_topology *t = &c->topology;
    const weir_redis_node *n = weir_redis_topology_node(t, slot_of(c, q));
    if (n && n->state == WEIR_REDIS_UP)
        return true;
    *ret_next_ns = n && n->state == WEIR_REDIS_BACKOFF ? n->next_ns : 0;
    if (n)
        return false;
    for (size_t i = 0; i < t->seeds; i++) {
        n = t->node[i];
        if (n->state != WEIR_REDIS_BACKOFF) {
            *ret_next_ns = 0;
            break;
        }
        if (i == 0 || n->next_ns < *ret_next_ns)
            *ret_next_ns = n->next_ns;
    }
    return false;
}

uint32_t weir_redis_client_node(const weir_redis_client *c, const weir_engine_request *q,
                                const char **ret_name)
{
    const weir_redis_node *n = weir_redis_topology_node(&c->topology, slot_of(c, q));
    *ret_name = n ? n->name : "";
    return n ? n->at : WEIR_REDIS_NODES_MAX;
}

weir_status weir_redis_client_open(weir_redis_client **ret, const weir_redis_options *options,
                                   const port_tls *tls, port_dialer *dialer,
                                   weir_redis_counts *counts, const weir_redis_log *log,
                                   uint64_t seed)
{
    weir_redis_client *c = port_zalloc(1, sizeof *c);
    if (!c)
        return WEIR_E_NOMEM;
    const char *prefix = options->prefix ? options->prefix : WEIR_REDIS_PREFIX_DEFAULT;
    c->context = (weir_redis_context){
        .events = &node_events,
        .options = options,
        .tls = tls,
        .dialer = dialer,
        .counts = counts,
        .log = log ? *log : (weir_redis_log){0},
        .random = seed,
        .prefix = prefix,
        .prefix_len = strlen(prefix),
        .in_flight_max = options->in_flight > 0 ? options->in_flight : WEIR_REDIS_IN_FLIGHT_DEFAULT,
    };
    weir_redis_list_init(&c->unrouted);
    weir_redis_list_init(&c->paused);
    weir_status st = weir_redis_calls_init(&c->context.calls, dialer, counts);
    c->maintenance_timer = dialer->calls->new_timer(dialer, on_maintenance_timer, c);
    if (!c->maintenance_timer)
        st = WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = weir_redis_topology_init(&c->topology, &c->context);
    if (st != WEIR_OK) {
        weir_redis_client_close(c);
        return st;
    }
    maintain(c, dialer->calls->now(dialer));
    *ret = c;
    return WEIR_OK;
}

void weir_redis_client_close(weir_redis_client *c)
{
    if (!c)
        return;
    weir_redis_topology *t = &c->topology;
    port_dialer *dialer = c->context.dialer;
    int64_t now_ns = dialer->calls->now(dialer);
    c->context.closing = true;
    for (size_t i = 0; i < t->nodes_end; i++) {
        if (t->node[i])
            weir_redis_node_fail(t->node[i], "the client was closed", now_ns);
    }
    weir_redis_calls_close(&c->context.calls, now_ns);
    weir_redis_topology_free(t);
    weir_redis_resets_close(&c->resets);
    dialer->calls->free_timer(c->maintenance_timer);
    for (size_t i = 0; i < c->reasons; i++)
        port_free(c->reason[i]);
    port_free(c);
}
