/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A node and its line. Replies come in the order of what was sent, so each belongs to the oldest
 * place of the ring; a line that says something else, or nothing for too long, is hung up. What was
 * sent over a line that broke may have been decided: it is never sent again. */

#include "engine/redis/client/client_inside.h"

#include "codec/resp.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define HUNG_NS      (3000 * WEIR_REDIS_MS) /* the oldest reply is not waited for any longer */
#define SENTINEL_NS  (1000 * WEIR_REDIS_MS) /* the same, of a Sentinel: there are others */
#define STEADY_NS    (2000 * WEIR_REDIS_MS) /* a line that was up so long had worked */
#define BACKOFF_NS   (10 * WEIR_REDIS_MS)
#define BACKOFF_LAST 8                      /* 2^8 times as long, and no longer than ... */
#define BACKOFF_MAX  (2000 * WEIR_REDIS_MS) /* ... this */
#define SAY_NS                                                                                     \
    (5000 * WEIR_REDIS_MS) /* at most two reasons are logged in this time while it is down */

static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

/* ---- what is to be answered ------------------------------------------------------------------ */

/* Makes room for n more places. */
static bool reserve(weir_redis_ring *r, uint32_t n)
{
    uint32_t len = weir_redis_ring_len(r);
    if (len + n <= r->room)
        return true;
    weir_redis_ring bigger = {.room = r->room ? 2 * r->room : 64, .head = r->head, .tail = r->tail};
    bigger.place = port_zalloc(bigger.room, sizeof *bigger.place);
    if (!bigger.place)
        return false;
    for (uint32_t at = r->head; at != r->tail; at++)
        *weir_redis_ring_at(&bigger, at) = *weir_redis_ring_at(r, at);
    port_free(r->place);
    *r = bigger;
    return true;
}

static void push(weir_redis_node *n, weir_redis_call *call, weir_redis_kind kind, int64_t now_ns)
{
    weir_redis_place *p = weir_redis_ring_at(&n->ring, n->ring.tail);
    p->call = call;
    p->sent_ns = now_ns;
    p->kind = kind;
    n->ring.tail++;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool has_room(weir_redis_node *n, size_t bytes)
{
    const weir_buffer *out = n->out;
    size_t len = weir_buffer_len(out);
    size_t max = out->len_max < WEIR_REDIS_OUT_MAX ? out->len_max : WEIR_REDIS_OUT_MAX;
    return len <= max && bytes <= max - len &&
           weir_redis_ring_len(&n->ring) < 4 * n->client->in_flight_max && reserve(&n->ring, 2);
}

bool weir_redis_node_send(weir_redis_node *n, weir_redis_call *call, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    size_t room = weir_redis_wire_room(call, c->prefix_len) + sizeof asking;
    if (!has_room(n, room))
        return false;
    if (!weir_buffer_reserve(n->out, room)) { /* nothing can be added any more */
        c->dialer->calls->set_timer(n->alarm, now_ns);
        return false;
    }
    const weir_redis_speech speech = {n->by, c->prefix, c->prefix_len, n->sha, c->bounds, now_ns};
    uint8_t *begin = weir_buffer_tail(n->out), *at = begin;
    if (call->asking) {
        memcpy(at, asking, sizeof asking - 1);
        at += sizeof asking - 1;
        push(n, NULL, WEIR_REDIS_FOR_NOBODY, now_ns);
    }
    at = weir_redis_wire_put(at, call, &speech);
    weir_buffer_added(n->out, (size_t)(at - begin));
    n->used_ns = now_ns;
    call->node = n;
    call->ticket = n->ring.tail;
    call->sent = true;
    push(n, call, WEIR_REDIS_FOR_CALL, now_ns);
    port_add_relaxed(&c->counts->sent, 1);
    c->dialer->calls->send(n->line);
    return true;
}

bool weir_redis_node_ask(weir_redis_node *n, weir_redis_kind kind, size_t words, int64_t now_ns)
{
    port_dialer *d = n->client->dialer;
    if (!reserve(&n->ring, 1)) {
        n->out->failed = true;
        d->calls->set_timer(n->alarm, now_ns);
        return false;
    }
    push(n, NULL, kind, now_ns);
    weir_resp_put_array(n->out, words);
    d->calls->send(n->line);
    return true;
}

void weir_redis_node_bulk(weir_redis_node *n, const char *bytes, size_t len)
{
    weir_resp_put_bulk(n->out, bytes, len);
    if (n->out->failed)
        n->client->dialer->calls->set_timer(n->alarm, n->since_ns); /* which is past: soon */
}

void weir_redis_node_word(weir_redis_node *n, const char *word)
{
    weir_redis_node_bulk(n, word, strlen(word));
}

/* ---- hearing --------------------------------------------------------------------------------- */

static void nonsense(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_node_fail(n, "what it says makes no sense", now_ns);
}

/* False if the figures make no sense. */
static bool answer(weir_redis_node *n, weir_redis_call *call, const int64_t *figure, int64_t now_ns)
{
    if (!weir_redis_wire_answer(call, figure))
        return false;
    n->ring.head++;
    call->sent = false;
    weir_redis_call_end(n->client, call, WEIR_REDIS_ANSWERED, NULL, now_ns);
    return true;
}

/* A value of a reply to a call. False if it is none that could answer it. */
static bool hear_call(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_call *call = weir_redis_ring_at(&n->ring, n->ring.head)->call;
    if (v->depth == 0)
        n->figures = 0;
    if (!call) {
        n->ring.head += v->last;
        return true;
    }
    if (v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY) {
        n->ring.head++;
        call->sent = false;
        weir_redis_refused(n, call, v->text, v->len, now_ns);
        return true;
    }
    size_t wanted = weir_redis_wire_figures(call);
    if (v->depth == 0)
        return v->type == WEIR_RESP_ARRAY && v->len == wanted;
    if (v->depth != 1 || v->type != WEIR_RESP_INTEGER || n->figures == wanted)
        return false;
    n->figure[n->figures++] = v->integer;
    return !v->last || (n->figures == wanted && answer(n, call, n->figure, now_ns));
}

static void hear(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_kind kind = weir_redis_ring_at(&n->ring, n->ring.head)->kind;
    if (kind == WEIR_REDIS_FOR_CALL) {
        if (!hear_call(n, v, now_ns))
            nonsense(n, now_ns);
        return;
    }
    n->ring.head += v->last;
    if (kind == WEIR_REDIS_FOR_SLOTS)
        weir_redis_slots_hear(n, v, now_ns);
    else if (kind == WEIR_REDIS_FOR_MASTER)
        weir_redis_sentinel_hear(n, v, now_ns);
    else if (kind != WEIR_REDIS_FOR_NOBODY)
        weir_redis_shake_hear(n, kind, v, now_ns);
}

/* The whole of a decision's figures, as it mostly comes: returns its bytes, or 0. */
static size_t hear_at_once(weir_redis_node *n, const weir_buffer *in, int64_t now_ns)
{
    weir_redis_call *call = weir_redis_ring_at(&n->ring, n->ring.head)->call;
    if (!call || n->reader.depth > 0)
        return 0;
    size_t used = weir_resp_read_integers(weir_buffer_data(in), weir_buffer_len(in), n->figure,
                                          weir_redis_wire_figures(call));
    return used > 0 && answer(n, call, n->figure, now_ns) ? used : 0;
}

/* A value: returns its bytes, or 0 if it is not all there. */
static size_t hear_value(weir_redis_node *n, const weir_buffer *in, int64_t now_ns)
{
    weir_resp_value v;
    size_t used = 0;
    weir_resp_reading r =
        weir_resp_stream_read(&n->reader, weir_buffer_data(in), weir_buffer_len(in), &v, &used);
    if (r == WEIR_RESP_READ)
        hear(n, &v, now_ns);
    else if (r == WEIR_RESP_READ_ERROR)
        nonsense(n, now_ns);
    return used;
}

static void on_heard(void *ctx, weir_buffer *in, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    uint32_t line = n->lines;
    while (weir_buffer_len(in) > 0) {
        if (weir_redis_ring_len(&n->ring) == 0) {
            nonsense(n, now_ns); /* nobody asked */
            return;
        }
        size_t used = hear_at_once(n, in, now_ns);
        if (used == 0)
            used = hear_value(n, in, now_ns);
        if (used == 0 || !n->line || n->lines != line)
            return; /* if the line is gone, so is `in` */
        weir_buffer_consume(in, used);
    }
}

/* ---- up and down ----------------------------------------------------------------------------- */

static int64_t patience_ns(const weir_redis_node *n)
{
    return n->is_sentinel ? SENTINEL_NS : HUNG_NS;
}

static void turn_to(weir_redis_node *n, weir_redis_state state, int64_t now_ns)
{
    if ((n->state == WEIR_REDIS_UP) != (state == WEIR_REDIS_UP)) {
        if (state == WEIR_REDIS_UP)
            port_add_relaxed(&n->client->counts->connected, 1);
        else
            port_sub_relaxed(&n->client->counts->connected, 1);
    }
    n->state = state;
    n->since_ns = now_ns;
}

static void set_alarm(weir_redis_node *n, int64_t at_ns)
{
    n->client->dialer->calls->set_timer(n->alarm, at_ns);
}

void weir_redis_node_say_up(weir_redis_node *n)
{
    static const char *const by[] = {"", "the module", "functions", "a script"};
    if (!n->said_up || n->said_by != n->by)
        weir_redis_say(n->client, "redis-up", n, n->is_sentinel ? "a Sentinel" : by[n->by]);
    n->said_up = true;
    n->said_down = false;
    n->said_by = n->by;
}

void weir_redis_node_up(weir_redis_node *n, int64_t now_ns)
{
    turn_to(n, WEIR_REDIS_UP, now_ns);
    if (!n->is_replica && !n->is_ignorant)
        weir_redis_node_say_up(n);
    weir_redis_route_all(n->client, &n->waiting, now_ns);
    weir_redis_tend(n->client, now_ns);
}

/* ---- the end of a line ----------------------------------------------------------------------- */

static void say_down(weir_redis_node *n, const char *why, int64_t now_ns)
{
    bool another = strcmp(n->said, why) != 0 && now_ns - n->said_before_ns >= SAY_NS;
    if (n->client->closing || (n->said_down && !another))
        return;
    (void)snprintf(n->said, sizeof n->said, "%s", why);
    n->said_before_ns = n->said_ns;
    n->said_ns = now_ns;
    n->said_down = true;
    n->said_up = false;
    weir_redis_say(n->client, "redis-down", n, n->said);
}

/* What was sent and is not answered, as a ring of those who wait. */
static void take_sent(weir_redis_node *n, weir_redis_call *ret)
{
    ret->wait_next = ret->wait_before = ret;
    for (uint32_t at = n->ring.head; at != n->ring.tail; at++) {
        weir_redis_call *call = weir_redis_ring_at(&n->ring, at)->call;
        if (!call)
            continue;
        call->sent = false;
        weir_redis_wait(ret, call);
    }
    port_free(n->ring.place);
    n->ring = (weir_redis_ring){0};
}

static void pause_line(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    if (n->state == WEIR_REDIS_UP && now_ns - n->since_ns >= STEADY_NS)
        n->failures = 0;
    unsigned doublings = n->failures < BACKOFF_LAST ? n->failures : BACKOFF_LAST;
    n->failures++;
    int64_t most_ns = BACKOFF_NS << doublings;
    if (most_ns > BACKOFF_MAX)
        most_ns = BACKOFF_MAX;
    uint64_t half = (uint64_t)most_ns / 2;
    n->next_ns = now_ns + (int64_t)(half + weir_redis_random(c) % (half + 1));
    turn_to(n, WEIR_REDIS_PAUSED, now_ns);
    set_alarm(n, c->closing ? INT64_MAX : n->next_ns);
}

static void hang_up(weir_redis_node *n)
{
    if (n->line)
        n->client->dialer->calls->close(n->line);
    n->line = NULL;
    n->out = NULL;
}

void weir_redis_node_fail(weir_redis_node *n, const char *why, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    char text[WEIR_REDIS_WHY_MAX];
    weir_redis_copy(text, sizeof text, why, strlen(why));
    hang_up(n);
    pause_line(n, now_ns);
    say_down(n, text, now_ns);
    weir_redis_slots_lost(n);
    weir_redis_sentinel_lost(n);
    weir_redis_call sent, *call;
    take_sent(n, &sent);
    while ((call = weir_redis_wait_first(&sent)))
        weir_redis_call_end(c, call, WEIR_REDIS_BROKEN, text, now_ns);
    weir_redis_route_all(c, &n->waiting, now_ns);
    if (!c->closing)
        weir_redis_tend(c, now_ns);
}

void weir_redis_node_leave(weir_redis_node *n, int64_t now_ns)
{
    hang_up(n);
    port_free(n->ring.place);
    n->ring = (weir_redis_ring){0};
    turn_to(n, WEIR_REDIS_IDLE, now_ns);
    set_alarm(n, INT64_MAX);
    n->said_up = n->said_down = false;
    weir_redis_slots_lost(n);
    weir_redis_sentinel_lost(n);
}

void weir_redis_node_again(weir_redis_node *n, int64_t now_ns)
{
    turn_to(n, WEIR_REDIS_SHAKING, now_ns);
    weir_redis_choose(n, now_ns);
}

void weir_redis_node_hurry(weir_redis_node *n, int64_t now_ns)
{
    if (n->state != WEIR_REDIS_PAUSED)
        return;
    n->failures = 0;
    turn_to(n, WEIR_REDIS_IDLE, now_ns);
    set_alarm(n, INT64_MAX);
}

/* ---- dialling -------------------------------------------------------------------------------- */

static void on_up(void *ctx, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    turn_to(n, WEIR_REDIS_SHAKING, now_ns);
    set_alarm(n, now_ns + patience_ns(n));
    weir_redis_shake(n, now_ns);
}

static void on_down(void *ctx, const char *why, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    n->line = NULL;
    weir_redis_node_fail(n, why, now_ns);
}

void weir_redis_node_dial(weir_redis_node *n, int64_t now_ns)
{
    static const port_connection_events events = {on_up, on_heard, on_down};
    weir_redis_client *c = n->client;
    const port_endpoint to = {
        .host = n->host,
        .port = n->port,
        .tls = c->uses_tls ? c->tls : NULL,
        .tls_name = c->options->tls_name,
    };
    port_add_relaxed(&c->counts->dialed, 1);
    n->lines++;
    n->line = c->dialer->calls->connect(c->dialer, &to, &events, n);
    if (!n->line) {
        pause_line(n, now_ns);
        say_down(n, "there is no memory for a line", now_ns);
        return;
    }
    n->out = c->dialer->calls->out(n->line);
    n->reader = (weir_resp_stream){0};
    n->figures = 0;
    turn_to(n, WEIR_REDIS_DIALING, now_ns);
    set_alarm(n, now_ns + patience_ns(n));
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Nothing is under way over the line, nor was since then. */
static bool is_unused(const weir_redis_node *n, int64_t since_ns)
{
    return weir_redis_ring_len(&n->ring) == 0 && n->waiting.wait_next == &n->waiting &&
           n->used_ns <= since_ns && n->since_ns <= since_ns;
}

static void look_at_line(weir_redis_node *n, int64_t now_ns)
{
    int64_t patience = patience_ns(n);
    int64_t since_ns = now_ns;
    if (n->state != WEIR_REDIS_UP)
        since_ns = n->since_ns;
    else if (weir_redis_ring_len(&n->ring) > 0)
        since_ns = weir_redis_ring_at(&n->ring, n->ring.head)->sent_ns;
    if (n->out->failed)
        weir_redis_node_fail(n, "there is no memory for what it is to be sent", now_ns);
    else if (now_ns - since_ns >= patience)
        weir_redis_node_fail(n,
                             n->state == WEIR_REDIS_DIALING ? "it cannot be connected to in time"
                                                            : "it does not answer",
                             now_ns);
    else if (!weir_redis_is_wanted(n) && is_unused(n, now_ns - patience))
        weir_redis_node_leave(n, now_ns);
    else
        set_alarm(n, since_ns + patience);
}

static void on_alarm(void *ctx, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    if (n->line) {
        look_at_line(n, now_ns);
    } else if (n->state == WEIR_REDIS_PAUSED) {
        turn_to(n, WEIR_REDIS_IDLE, now_ns);
        weir_redis_tend(n->client, now_ns);
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

weir_redis_node *weir_redis_node_new(weir_redis_client *c, const char *host, uint16_t port)
{
    weir_redis_node *n = port_zalloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->alarm = c->dialer->calls->new_timer(c->dialer, on_alarm, n);
    if (!n->alarm) {
        port_free(n);
        return NULL;
    }
    n->client = c;
    n->port = port;
    (void)snprintf(n->host, sizeof n->host, "%s", host);
    bool is_v6 = strchr(host, ':') != NULL;
    if (host[0] == '/')
        (void)snprintf(n->name, sizeof n->name, "%s", host);
    else
        (void)snprintf(n->name, sizeof n->name, is_v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
    n->waiting.wait_next = n->waiting.wait_before = &n->waiting;
    return n;
}

void weir_redis_node_free(weir_redis_node *n)
{
    n->client->dialer->calls->free_timer(n->alarm);
    hang_up(n);
    port_free(n->ring.place);
    port_free(n);
}
