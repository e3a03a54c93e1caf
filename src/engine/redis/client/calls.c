/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One timer serves all deadlines: it is set to the earliest one. */

#include "engine/redis/client/calls.h"

#include "port/port.h"

/* ---- pipelines ------------------------------------------------------------------------------- */

bool weir_redis_pipeline_grow(weir_redis_pipeline *p)
{
    weir_redis_pipeline bigger = {
        .size = p->size ? 2 * p->size : 64, .head = p->head, .tail = p->tail};
    bigger.reply = port_zalloc(bigger.size, sizeof *bigger.reply);
    if (!bigger.reply)
        return false;
    for (uint32_t at = p->head; at != p->tail; at++)
        *weir_redis_pipeline_at(&bigger, at) = *weir_redis_pipeline_at(p, at);
    port_free(p->reply);
    *p = bigger;
    return true;
}

void weir_redis_pipeline_close(weir_redis_pipeline *p, weir_redis_call *ret_list)
{
    weir_redis_list_init(ret_list);
    for (uint32_t at = p->head; at != p->tail; at++) {
        weir_redis_call *call = weir_redis_pipeline_at(p, at)->call;
        if (!call)
            continue;
        call->pipeline = NULL;
        weir_redis_list_add(ret_list, call);
    }
    port_free(p->reply);
    *p = (weir_redis_pipeline){0};
}

/* ---- lists of waiting calls ------------------------------------------------------------------ */

void weir_redis_list_add(weir_redis_call *list, weir_redis_call *call)
{
    WEIR_ASSERT(!call->wait_next && !call->pipeline);
    call->wait_next = list;
    call->wait_before = list->wait_before;
    list->wait_before->wait_next = call;
    list->wait_before = call;
}

static void list_remove(weir_redis_call *call)
{
    if (!call->wait_next)
        return;
    call->wait_next->wait_before = call->wait_before;
    call->wait_before->wait_next = call->wait_next;
    call->wait_next = call->wait_before = NULL;
}

weir_redis_call *weir_redis_list_pop(weir_redis_call *list)
{
    weir_redis_call *call = list->wait_next;
    if (call == list)
        return NULL;
    list_remove(call);
    return call;
}

void weir_redis_list_move(weir_redis_call *from, weir_redis_call *ret_to)
{
    weir_redis_list_init(ret_to);
    if (weir_redis_list_is_empty(from))
        return;
    ret_to->wait_next = from->wait_next;
    ret_to->wait_before = from->wait_before;
    ret_to->wait_next->wait_before = ret_to->wait_before->wait_next = ret_to;
    weir_redis_list_init(from);
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static void insert_after(weir_redis_call *at, weir_redis_call *call)
{
    WEIR_ASSERT(!call->next && !call->before);
    call->before = at;
    call->next = at->next;
    at->next->before = call;
    at->next = call;
}

static void unlink_call(weir_redis_call *call)
{
    WEIR_ASSERT(call->next->before == call && call->before->next == call);
    call->next->before = call->before;
    call->before->next = call->next;
    call->next = call->before = NULL;
}

static void set_timer(weir_redis_calls *c, int64_t at_ns)
{
    if (at_ns >= c->timer_ns)
        return;
    c->timer_ns = at_ns;
    c->dialer->calls->set_timer(c->timer, at_ns);
}

static port_counter *counter_of(weir_redis_counts *n, weir_redis_outcome outcome)
{
    switch (outcome) {
    case WEIR_REDIS_TIMEOUT:
        return &n->timeout;
    case WEIR_REDIS_CONNECTION_LOST:
        return &n->lost;
    case WEIR_REDIS_UNREACHABLE:
        return &n->unreachable;
    case WEIR_REDIS_OVERLOADED:
        return &n->overloaded;
    case WEIR_REDIS_REFUSED:
        return &n->refused;
    case WEIR_REDIS_ANSWERED:
        break;
    }
    return &n->answered;
}

void weir_redis_calls_remove(weir_redis_calls *c, weir_redis_call *call)
{
    WEIR_ASSERT(!call->pipeline || !call->wait_next);
    if (call->pipeline)
        weir_redis_pipeline_at(call->pipeline, call->number)->call = NULL;
    call->pipeline = NULL;
    list_remove(call);
    if (call->next) {
        unlink_call(call);
        WEIR_ASSERT(call->ended || c->in_flight > 0);
        c->in_flight -= !call->ended;
    }
}

void weir_redis_calls_end(weir_redis_calls *c, weir_redis_call *call, weir_redis_outcome outcome,
                          const char *why, int64_t now_ns)
{
    weir_redis_calls_remove(c, call);
    call->outcome = outcome;
    call->why = why;
    port_add_relaxed(counter_of(c->counts, outcome), 1);
    if (!c->sending) {
        call->done(call, now_ns);
        return;
    }
    call->ended = true;
    insert_after(c->ended.before, call);
    set_timer(c, now_ns);
}

void weir_redis_calls_unsupported(weir_redis_calls *c, weir_redis_call *call, const char *reason,
                                  int64_t now_ns)
{
    for (size_t i = 0; i < call->len; i++) {
        call->request[i].status = WEIR_E_UNSUPPORTED;
        call->request[i].reason = reason;
        call->request[i].by_error = false;
    }
    weir_redis_calls_end(c, call, WEIR_REDIS_ANSWERED, reason, now_ns);
}

/* Calls that end while this runs are left for the next run. */
static void report_ended(weir_redis_calls *c, int64_t now_ns)
{
    weir_redis_call all = c->ended;
    if (c->ended.next == &c->ended)
        return;
    all.next->before = all.before->next = &all;
    c->ended.next = c->ended.before = &c->ended;
    while (all.next != &all) {
        weir_redis_call *call = all.next;
        unlink_call(call);
        call->done(call, now_ns);
    }
}

/* A call that was not sent, or was answered by a temporary error, was not charged: its outcome says
 * so. */
static void end_at_deadline(weir_redis_calls *c, weir_redis_call *call, int64_t now_ns)
{
    if (call->pipeline)
        weir_redis_calls_end(c, call, WEIR_REDIS_TIMEOUT, "no reply before the deadline", now_ns);
    else if (call->why)
        weir_redis_calls_end(c, call, WEIR_REDIS_REFUSED, call->why, now_ns);
    else
        weir_redis_calls_end(c, call, WEIR_REDIS_UNREACHABLE, "no connection before the deadline",
                             now_ns);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    weir_redis_calls *c = ctx;
    WEIR_ASSERT(!c->sending);
    c->timer_ns = INT64_MAX;
    report_ended(c, now_ns);
    while (c->deadlines.next != &c->deadlines && c->deadlines.next->deadline_ns <= now_ns)
        end_at_deadline(c, c->deadlines.next, now_ns);
    if (c->deadlines.next != &c->deadlines)
        set_timer(c, c->deadlines.next->deadline_ns);
}

void weir_redis_calls_add(weir_redis_calls *c, weir_redis_call *call)
{
    weir_redis_call *at = c->deadlines.before;
    while (at != &c->deadlines && at->deadline_ns > call->deadline_ns)
        at = at->before;
    insert_after(at, call);
    c->in_flight++;
    if (at == &c->deadlines)
        set_timer(c, call->deadline_ns);
}

weir_status weir_redis_calls_init(weir_redis_calls *ret, port_dialer *dialer,
                                  weir_redis_counts *counts)
{
    ret->dialer = dialer;
    ret->counts = counts;
    ret->deadlines.next = ret->deadlines.before = &ret->deadlines;
    ret->ended.next = ret->ended.before = &ret->ended;
    ret->timer_ns = INT64_MAX;
    ret->timer = dialer->calls->new_timer(dialer, on_timer, ret);
    return ret->timer ? WEIR_OK : WEIR_E_NOMEM;
}

void weir_redis_calls_close(weir_redis_calls *c, int64_t now_ns)
{
    while (c->deadlines.next != &c->deadlines)
        weir_redis_calls_end(c, c->deadlines.next, WEIR_REDIS_UNREACHABLE, "the client was closed",
                             now_ns);
    while (c->ended.next != &c->ended)
        report_ended(c, now_ns);
    WEIR_ASSERT(c->in_flight == 0);
    c->dialer->calls->free_timer(c->timer);
}
