/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calls: that each ends, once and in time, and goes to the node that has its key. It must not know
 * what is said on a line. */

#include "engine/redis/client/client_inside.h"

#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define PREFIX_DEFAULT    "weir:"
#define IN_FLIGHT_DEFAULT 16384
#define PAUSE_NS          (5 * WEIR_REDIS_MS) /* of TRYAGAIN */

/* ---- rings of calls -------------------------------------------------------------------------- */

static void empty_waiting(weir_redis_call *ring)
{
    ring->wait_next = ring->wait_before = ring;
}

void weir_redis_wait(weir_redis_call *ring, weir_redis_call *call)
{
    call->wait_next = ring;
    call->wait_before = ring->wait_before;
    ring->wait_before->wait_next = call;
    ring->wait_before = call;
}

static void unwait(weir_redis_call *call)
{
    if (!call->wait_next)
        return;
    call->wait_next->wait_before = call->wait_before;
    call->wait_before->wait_next = call->wait_next;
    call->wait_next = call->wait_before = NULL;
}

weir_redis_call *weir_redis_wait_first(weir_redis_call *ring)
{
    weir_redis_call *call = ring->wait_next;
    if (call == ring)
        return NULL;
    unwait(call);
    return call;
}

void weir_redis_wait_elsewhere(weir_redis_call *from, weir_redis_call *to)
{
    empty_waiting(to);
    if (from->wait_next == from)
        return;
    to->wait_next = from->wait_next;
    to->wait_before = from->wait_before;
    to->wait_next->wait_before = to->wait_before->wait_next = to;
    empty_waiting(from);
}

void weir_redis_route_all(weir_redis_client *c, weir_redis_call *ring, int64_t now_ns)
{
    weir_redis_call all, *call;
    weir_redis_wait_elsewhere(ring, &all); /* some will come back */
    while ((call = weir_redis_wait_first(&all)))
        weir_redis_call_route(c, call, now_ns);
}

static void insert_after(weir_redis_call *at, weir_redis_call *call)
{
    call->before = at;
    call->next = at->next;
    at->next->before = call;
    at->next = call;
}

static void take_out(weir_redis_call *call)
{
    call->next->before = call->before;
    call->before->next = call->next;
    call->next = call->before = NULL;
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static void set_alarm(weir_redis_client *c, int64_t at_ns)
{
    if (at_ns >= c->alarm_ns)
        return;
    c->alarm_ns = at_ns;
    c->dialer->calls->set_timer(c->alarm, at_ns);
}

static port_counter *counter_of(weir_redis_counts *n, weir_redis_outcome outcome)
{
    switch (outcome) {
    case WEIR_REDIS_LATE:
        return &n->late;
    case WEIR_REDIS_BROKEN:
        return &n->broken;
    case WEIR_REDIS_UNREACHABLE:
        return &n->unreachable;
    case WEIR_REDIS_CROWDED:
        return &n->crowded;
    case WEIR_REDIS_REFUSED:
        return &n->refused;
    case WEIR_REDIS_ANSWERED:
        break;
    }
    return &n->answered;
}

/* Nothing of the client points to it afterwards. */
static void let_go(weir_redis_client *c, weir_redis_call *call)
{
    if (call->sent)
        weir_redis_ring_at(&call->node->ring, call->ticket)->call = NULL;
    call->sent = false;
    unwait(call);
    if (call->next) {
        take_out(call);
        c->in_flight -= !call->ended;
    }
}

void weir_redis_call_end(weir_redis_client *c, weir_redis_call *call, weir_redis_outcome outcome,
                         const char *why, int64_t now_ns)
{
    let_go(c, call);
    call->outcome = outcome;
    call->why = why;
    port_add_relaxed(counter_of(c->counts, outcome), 1);
    if (!c->sending) {
        call->done(call, now_ns);
        return;
    }
    call->ended = true;
    insert_after(c->ended.before, call);
    set_alarm(c, now_ns);
}

void weir_redis_call_unsupported(weir_redis_client *c, weir_redis_call *call, const char *reason,
                                 int64_t now_ns)
{
    for (size_t i = 0; i < call->len; i++) {
        call->request[i].status = WEIR_E_UNSUPPORTED;
        call->request[i].reason = reason;
        call->request[i].by_error = false;
    }
    weir_redis_call_end(c, call, WEIR_REDIS_ANSWERED, reason, now_ns);
}

static void end_those_ended(weir_redis_client *c, int64_t now_ns)
{
    weir_redis_call all = c->ended; /* those that end meanwhile have the next turn */
    if (c->ended.next == &c->ended)
        return;
    all.next->before = all.before->next = &all;
    c->ended.next = c->ended.before = &c->ended;
    while (all.next != &all) {
        weir_redis_call *call = all.next;
        take_out(call);
        call->done(call, now_ns);
    }
}

/* It was not sent, or not executed: then why is known. */
static void end_late(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    if (call->sent)
        weir_redis_call_end(c, call, WEIR_REDIS_LATE, "it did not answer in time", now_ns);
    else if (call->why)
        weir_redis_call_end(c, call, WEIR_REDIS_REFUSED, call->why, now_ns);
    else
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "there was no line to it in time",
                            now_ns);
}

static void on_alarm(void *ctx, int64_t now_ns)
{
    weir_redis_client *c = ctx;
    c->alarm_ns = INT64_MAX;
    end_those_ended(c, now_ns);
    while (c->deadlines.next != &c->deadlines && c->deadlines.next->deadline_ns <= now_ns)
        end_late(c, c->deadlines.next, now_ns);
    if (c->deadlines.next != &c->deadlines)
        set_alarm(c, c->deadlines.next->deadline_ns);
    if (c->ended.next != &c->ended)
        set_alarm(c, now_ns);
}

/* ---- where it goes --------------------------------------------------------------------------- */

void weir_redis_call_hand(weir_redis_client *c, weir_redis_node *n, weir_redis_call *call,
                          int64_t now_ns)
{
    const char *why;
    switch (n->state) {
    case WEIR_REDIS_UP:
        if (!weir_redis_wire_can(call, n->by, &why))
            weir_redis_call_unsupported(c, call, why, now_ns);
        else if (!weir_redis_node_send(n, call, now_ns))
            weir_redis_call_end(c, call, WEIR_REDIS_CROWDED, "too much waits for it", now_ns);
        return;
    case WEIR_REDIS_PAUSED:
        if (n->next_ns < call->deadline_ns)
            break;
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "its node cannot be reached", now_ns);
        return;
    case WEIR_REDIS_IDLE:
        weir_redis_node_dial(n, now_ns);
        break;
    case WEIR_REDIS_DIALING:
    case WEIR_REDIS_SHAKING:
        break;
    }
    call->node = n;
    weir_redis_wait(&n->waiting, call);
}

/* Whether it may become known, before the deadline, who is to be asked. */
static bool may_be_found(const weir_redis_client *c, int64_t deadline_ns)
{
    for (size_t i = 0; i < c->seeds; i++) {
        const weir_redis_node *n = c->node[i];
        if (n->state != WEIR_REDIS_PAUSED || n->next_ns < deadline_ns)
            return true;
    }
    return false;
}

void weir_redis_call_route(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    if (c->closing) {
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "the client is closed", now_ns);
        return;
    }
    call->node = NULL;
    call->sent = call->asking = false;
    if (c->mode == WEIR_REDIS_CLUSTER)
        call->slot = weir_redis_slot_of(c, call->request);
    weir_redis_node *n = weir_redis_node_for(c, call->slot);
    if (n) {
        weir_redis_call_hand(c, n, call, now_ns);
        return;
    }
    if (c->mode == WEIR_REDIS_CLUSTER) {
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "no node has its slot", now_ns);
        return;
    }
    if (may_be_found(c, call->deadline_ns))
        weir_redis_wait(&c->unmapped, call);
    else
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "no server can be reached", now_ns);
}

void weir_redis_call_pause(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    bool first = c->paused.wait_next == &c->paused;
    weir_redis_wait(&c->paused, call);
    if (!first)
        return;
    c->resume_ns = now_ns + PAUSE_NS;
    weir_redis_tend(c, now_ns);
}

static void keep_in_order(weir_redis_client *c, weir_redis_call *call)
{
    weir_redis_call *at = c->deadlines.before;
    while (at != &c->deadlines && at->deadline_ns > call->deadline_ns)
        at = at->before;
    insert_after(at, call);
    c->in_flight++;
    if (at == &c->deadlines)
        set_alarm(c, call->deadline_ns);
}

/* Several keys are decided as one by one node alone. */
static bool is_in_one_slot(const weir_redis_client *c, const weir_redis_call *call)
{
    if (c->mode != WEIR_REDIS_CLUSTER)
        return true;
    uint32_t slot = weir_redis_slot_of(c, call->request);
    for (size_t i = 1; i < call->len; i++) {
        if (weir_redis_slot_of(c, &call->request[i]) != slot)
            return false;
    }
    return true;
}

void weir_redis_client_send(weir_redis_client *c, weir_redis_call *call, int64_t now_ns)
{
    call->next = call->before = call->wait_next = call->wait_before = NULL;
    call->node = NULL;
    call->why = NULL;
    call->slot = 0;
    call->redirects = 0;
    call->sent = call->asking = call->ended = false;
    c->sending = true;
    if (call->deadline_ns <= now_ns) {
        weir_redis_call_end(c, call, WEIR_REDIS_UNREACHABLE, "its deadline is over", now_ns);
    } else if (c->in_flight >= c->in_flight_max) {
        weir_redis_call_end(c, call, WEIR_REDIS_CROWDED, "too many wait for an answer", now_ns);
    } else {
        keep_in_order(c, call);
        if (call->len > 1 && !is_in_one_slot(c, call))
            weir_redis_call_unsupported(c, call, WEIR_REDIS_CROSSSLOT, now_ns);
        else
            weir_redis_call_route(c, call, now_ns);
    }
    c->sending = false;
}

void weir_redis_client_abandon(weir_redis_client *c, weir_redis_call *call)
{
    let_go(c, call);
}

bool weir_redis_client_is_up(const weir_redis_client *c, const weir_engine_request *q,
                             int64_t *ret_next_ns)
{
    uint32_t slot = c->mode == WEIR_REDIS_CLUSTER ? weir_redis_slot_of(c, q) : 0;
    const weir_redis_node *n = weir_redis_node_for(c, slot);
    if (n && n->state == WEIR_REDIS_UP)
        return true;
    *ret_next_ns = n && n->state == WEIR_REDIS_PAUSED ? n->next_ns : 0;
    if (n)
        return false;
    for (size_t i = 0; i < c->seeds; i++) {
        n = c->node[i];
        if (n->state != WEIR_REDIS_PAUSED) {
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
    uint32_t slot = c->mode == WEIR_REDIS_CLUSTER ? weir_redis_slot_of(c, q) : 0;
    const weir_redis_node *n = weir_redis_node_for(c, slot);
    *ret_name = n ? n->name : "";
    return n ? n->at : WEIR_REDIS_NODES_MAX;
}

/* ---- odds and ends --------------------------------------------------------------------------- */

void weir_redis_say(weir_redis_client *c, const char *event, const weir_redis_node *n,
                    const char *text)
{
    if (c->log.say)
        c->log.say(c->log.ctx, event, n->name, text);
}

/* splitmix64. */
uint64_t weir_redis_random(weir_redis_client *c)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

const char *weir_redis_copy(char *ret, size_t size, const char *text, size_t len)
{
    size_t n = len < size - 1 ? len : size - 1;
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint8_t)text[i] < ' ' || (uint8_t)text[i] >= 0x7f ? ' ' : text[i];
    ret[n] = 0;
    return ret;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void set_secrets(weir_redis_client *c, const weir_redis_url *u)
{
    const weir_redis_options *o = c->options;
    const char *user = o->password ? o->user : u->user;
    const char *password = o->password ? o->password : u->password;
    c->has_password = o->password || u->has_password;
    (void)snprintf(c->user, sizeof c->user, "%s", user ? user : "");
    (void)snprintf(c->password, sizeof c->password, "%s", password);
}

/* The nodes of the URLs. */
static weir_status plant(weir_redis_client *c)
{
    for (size_t i = 0; i < c->options->urls_len; i++) {
        weir_redis_url u;
        weir_status st = weir_redis_url_read(c->options->urls[i], &u, NULL);
        if (st != WEIR_OK)
            return st;
        if (i == 0) {
            c->uses_tls = u.tls;
            c->database = u.database;
            set_secrets(c, &u);
        }
        uint16_t port = c->options->sentinel ? WEIR_SENTINEL_PORT : WEIR_REDIS_PORT_DEFAULT;
        if (u.host[0] == '/')
            port = 0;
        else if (u.port != 0)
            port = u.port;
        size_t before = c->nodes_end;
        weir_redis_node *n = weir_redis_node_of(c, u.host, port);
        if (!n)
            return WEIR_E_NOMEM;
        if (c->nodes_end == before)
            continue; /* the same again */
        n->is_seed = true;
        n->is_sentinel = c->options->sentinel != NULL;
        n->database = u.database;
        c->seeds++;
    }
    return WEIR_OK;
}

static void begin(weir_redis_client *c)
{
    const weir_redis_options *o = c->options;
    c->prefix = o->prefix ? o->prefix : PREFIX_DEFAULT;
    c->prefix_len = strlen(c->prefix);
    c->prefix_is_plain = !strchr(c->prefix, '{');
    c->in_flight_max = o->in_flight > 0 ? o->in_flight : IN_FLIGHT_DEFAULT;
    c->deadlines.next = c->deadlines.before = &c->deadlines;
    c->ended.next = c->ended.before = &c->ended;
    empty_waiting(&c->unmapped);
    empty_waiting(&c->paused);
    c->alarm_ns = INT64_MAX;
    c->mode = o->sentinel ? WEIR_REDIS_SINGLE : WEIR_REDIS_UNKNOWN;
    c->master = WEIR_REDIS_NO_NODE;
    memset(c->of_slot, 0xff, sizeof c->of_slot);
}

static void on_tending(void *ctx, int64_t now_ns)
{
    weir_redis_tend(ctx, now_ns);
}

weir_status weir_redis_client_open(weir_redis_client **ret, const weir_redis_options *options,
                                   const port_tls *tls, port_dialer *dialer,
                                   weir_redis_counts *counts, const weir_redis_log *log,
                                   uint64_t seed)
{
    weir_redis_client *c = port_zalloc(1, sizeof *c);
    if (!c)
        return WEIR_E_NOMEM;
    c->options = options;
    c->tls = tls;
    c->dialer = dialer;
    c->counts = counts;
    c->log = log ? *log : (weir_redis_log){0};
    c->random = seed;
    begin(c);
    c->alarm = dialer->calls->new_timer(dialer, on_alarm, c);
    c->tending = dialer->calls->new_timer(dialer, on_tending, c);
    weir_status st = c->alarm && c->tending ? plant(c) : WEIR_E_NOMEM;
    if (st != WEIR_OK) {
        weir_redis_client_close(c);
        return st;
    }
    weir_redis_tend(c, dialer->calls->now(dialer));
    *ret = c;
    return WEIR_OK;
}

void weir_redis_client_close(weir_redis_client *c)
{
    if (!c)
        return;
    c->closing = true;
    int64_t now_ns = c->dialer->calls->now(c->dialer);
    for (size_t i = 0; i < c->nodes_end; i++) {
        if (c->node[i])
            weir_redis_node_fail(c->node[i], "the client is closed", now_ns);
    }
    while (c->deadlines.next != &c->deadlines)
        weir_redis_call_end(c, c->deadlines.next, WEIR_REDIS_UNREACHABLE, "the client is closed",
                            now_ns);
    while (c->ended.next != &c->ended)
        end_those_ended(c, now_ns);
    for (size_t i = 0; i < c->nodes_end; i++) {
        if (c->node[i])
            weir_redis_node_free(c->node[i]);
    }
    c->dialer->calls->free_timer(c->alarm);
    c->dialer->calls->free_timer(c->tending);
    for (size_t i = 0; i < c->reasons; i++)
        port_free(c->reason[i]);
    port_free(c->draft);
    port_free(c);
}
