/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The redis engine: a request is answered from what is known to be denied, or by a server, or, if
 * that cannot be, as on_error says; always, and by its deadline. How a server is reached is the
 * client's; what is known, gates', breakers' and fallbacks' arithmetic have files of their own, and
 * this one puts them together.
 *
 * A round becomes an `asked`, with a part for each of its requests (or one part, if they are
 * decided as one). A part is answered within ask(), or is with the client, or waits at a gate. */

#include "engine/engine.h"
#include "core/algorithm.h"
#include "engine/redis/board.h"
#include "engine/redis/breaker.h"
#include "engine/redis/deny.h"
#include "engine/redis/fallback.h"
#include "engine/redis/gate.h"

#include "port/port.h"

#include <stddef.h>

static const int64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

enum { IN_FLIGHT = 16384, DENY_BYTES = 1 << 20 };

typedef struct redis_engine redis_engine;
struct asked;

typedef struct part {
    weir_redis_call call; /* while it is with the client */
    weir_gate_place place;
    struct asked *of;
    weir_deny_id id; /* if `holds` */
    int64_t sent_ns;
    uint32_t epoch;
    uint32_t node;
    bool holds;   /* what it learns may be kept, and what was learned is for it */
    bool sent;    /* it is with the client */
    bool probe;   /* of its node's breaker */
    bool claimed; /* it asks for all threads, of a key whose denial has ended */
} part;

typedef struct asked {
    redis_engine *engine;
    weir_engine_batch *round;
    struct asked *next, *before; /* of those that are answered and not told yet */
    size_t parts, left;
    bool later;  /* ask() has returned false */
    bool queued; /* to be told */
    part part[];
} asked;

typedef struct node {
    weir_breaker breaker;
    bool told; /* that it is being probed */
} node;

struct redis_engine {
    weir_engine face; /* first */
    weir_redis_setup setup;
    weir_redis_client *client;
    port_timer *alarm;
    int64_t alarm_ns; /* what it is set to */
    weir_fallback fallback;
    weir_deny *deny;   /* NULL: none, and no board */
    weir_board *board; /* what all threads know */
    weir_gates gates;
    asked *first_answered, *last_answered;
    int64_t deadline_ns;
    size_t in_flight, in_flight_max; /* parts that are not answered */
    int64_t sweep_ns;                /* when the denials are swept next */
    int64_t watch_ns;                /* when those who wait for another thread look again */
    uint64_t random;
    bool closing;
    node node[WEIR_REDIS_NODES_MAX + 1]; /* the last: whichever it is, it is not known yet */
};

static uint64_t next_random(redis_engine *e)
{
    e->random += 0x9e3779b97f4a7c15U; /* splitmix64 */
    uint64_t x = e->random;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static part *part_of_call(weir_redis_call *c)
{
    return (part *)(void *)((char *)c - offsetof(part, call));
}

static part *part_of_place(weir_gate_place *p)
{
    return (part *)(void *)((char *)p - offsetof(part, place));
}

static weir_engine_request *question_of(const part *p)
{
    return p->of->round->all ? p->of->round->request : &p->of->round->request[p - p->of->part];
}

/* ---- what is told, and when ------------------------------------------------------------------ */

/* The alarm goes off for whatever is next. */
static void set_alarm(redis_engine *e, int64_t now_ns)
{
    int64_t at_ns = INT64_MAX;
    if (e->gates.first_due)
        at_ns = e->gates.first_due->deadline_ns;
    if (e->board && weir_board_holds(e->board) && e->sweep_ns < at_ns)
        at_ns = e->sweep_ns;
    if (e->gates.watched && e->watch_ns < at_ns)
        at_ns = e->watch_ns;
    if (e->first_answered)
        at_ns = now_ns;
    if (at_ns != e->alarm_ns)
        e->setup.dialer->calls->set_timer(e->alarm, at_ns);
    e->alarm_ns = at_ns;
}

static void queue(redis_engine *e, asked *a)
{
    a->queued = true;
    a->before = e->last_answered;
    a->next = NULL;
    *(e->last_answered ? &e->last_answered->next : &e->first_answered) = a;
    e->last_answered = a;
}

static void unqueue(redis_engine *e, asked *a)
{
    *(a->before ? &a->before->next : &e->first_answered) = a->next;
    *(a->next ? &a->next->before : &e->last_answered) = a->before;
    a->queued = false;
}

/* Tells all whose rounds are answered; each may ask or abandon others from there. */
static void tell(redis_engine *e, int64_t now_ns)
{
    while (e->first_answered) {
        asked *a = e->first_answered;
        weir_engine_batch *r = a->round;
        unqueue(e, a);
        r->inside = NULL;
        port_free(a);
        r->done(r, now_ns);
    }
}

static void answered(redis_engine *e, part *p)
{
    asked *a = p->of;
    e->in_flight--;
    a->left--;
    if (a->left == 0 && a->later)
        queue(e, a);
}

/* Somebody else may ask now. */
static void unclaim(redis_engine *e, part *p, int64_t left)
{
    if (p->claimed)
        weir_board_unclaim(e->board, p->id, left);
    p->claimed = false;
}

/* ---- without a server ------------------------------------------------------------------------ */

static void fall_back(redis_engine *e, part *p, int64_t now_ns, int64_t wait_ns, const char *why)
{
    weir_engine_batch *r = p->of->round;
    bool all = r->all;
    if (wait_ns < ns_per_ms)
        wait_ns = ns_per_ms;
    weir_on_error by =
        all ? weir_fallback_answer_all(&e->fallback, r, now_ns, wait_ns, why)
            : weir_fallback_answer(&e->fallback, question_of(p), now_ns, wait_ns, why);
    port_add_relaxed(&e->setup.stats->by_error[by], all ? r->len : 1);
    unclaim(e, p, -1);
    answered(e, p);
}

/* When a node may be asked again that does not answer. */
static int64_t wait_for(const redis_engine *e, const part *p, int64_t now_ns)
{
    const weir_breaker *b = &e->node[p->node].breaker;
    if (b->state == WEIR_BREAKER_CLOSED)
        return ns_per_s;
    return b->state == WEIR_BREAKER_OPEN ? b->until_ns - now_ns : e->deadline_ns;
}

static const char *why_of(weir_redis_outcome outcome)
{
    switch (outcome) {
    case WEIR_REDIS_LATE:
        return "Redis did not answer in time";
    case WEIR_REDIS_BROKEN:
        return "the connection to Redis broke before the answer";
    case WEIR_REDIS_UNREACHABLE:
        return "there is no connection to Redis";
    case WEIR_REDIS_CROWDED:
        return "too many decisions wait for Redis";
    case WEIR_REDIS_REFUSED:
        return "Redis refused";
    case WEIR_REDIS_ANSWERED:
        break;
    }
    return "";
}

/* ---- breakers -------------------------------------------------------------------------------- */

static void say(redis_engine *e, const part *p, const char *text)
{
    const char *name = "";
    if (!e->setup.log.say)
        return;
    (void)weir_redis_client_node(e->client, question_of(p), &name);
    e->setup.log.say(e->setup.log.ctx, "redis-breaker", name, text);
}

static bool breaker_admits(redis_engine *e, part *p, int64_t now_ns)
{
    node *n = &e->node[p->node];
    weir_breaker_state was = n->breaker.state;
    if (!weir_breaker_admits(&n->breaker, now_ns))
        return false;
    p->probe = was == WEIR_BREAKER_OPEN;
    if (p->probe && !n->told) {
        say(e, p, "probing");
        n->told = true;
    }
    return true;
}

/* Whether the end of a call says something about its node: not if it never came that far, nor if it
 * was sent when most of its time was over already. */
static bool is_telling(const redis_engine *e, const part *p, weir_redis_outcome outcome)
{
    int64_t given_ns = p->call.deadline_ns - p->sent_ns;
    return outcome != WEIR_REDIS_CROWDED &&
           (outcome != WEIR_REDIS_LATE || given_ns >= e->deadline_ns / 2);
}

/* A refusal is an answer: the node lives, and costs no time. */
static void breaker_hears(redis_engine *e, part *p, weir_redis_outcome outcome, int64_t now_ns)
{
    node *n = &e->node[p->node];
    weir_breaker_state was = n->breaker.state;
    if (e->closing)
        return;
    if (!is_telling(e, p, outcome)) {
        if (p->probe)
            weir_breaker_forget(&n->breaker);
        return;
    }
    bool good = outcome == WEIR_REDIS_ANSWERED || outcome == WEIR_REDIS_REFUSED;
    if (!weir_breaker_end(&n->breaker, p->probe, good, now_ns, next_random(e)))
        return;
    if (n->breaker.state == WEIR_BREAKER_CLOSED) {
        n->told = false;
        say(e, p, "closed");
    } else if (was == WEIR_BREAKER_CLOSED) {
        port_add_relaxed(&e->setup.stats->breaks, 1);
        say(e, p, "open");
    }
}

/* ---- what is known to be denied -------------------------------------------------------------- */

static port_counter *epoch_of(const redis_engine *e, const weir_engine_request *q)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    for (size_t i = 0; i < q->key.len; i++)
        hash = (hash ^ (uint8_t)q->key.at[i]) * 0x100000001b3U;
    return &e->setup.stats->deny_epoch[(hash ^ hash >> 32) % WEIR_DENY_EPOCHS];
}

/* What all threads know of a key is from before its reset or refund. So it is when that is asked,
 * for those who ask after it, and when it ends, for those who asked before; it may have been done
 * even if no answer came. */
static void forget_changed(redis_engine *e, const weir_engine_request *q)
{
    if (q->verb == WEIR_VERB_RESET || q->verb == WEIR_VERB_REFUND)
        port_add_relaxed(epoch_of(e, q), 1);
}

static void learn(redis_engine *e, part *p, int64_t now_ns)
{
    if (!p->holds || !weir_deny_holds(question_of(p)))
        return;
    weir_deny_learn(e->deny, p->id, p->epoch, p->sent_ns, now_ns, question_of(p));
    weir_board_learn(e->board, p->id, p->epoch, p->sent_ns, now_ns, question_of(p));
}

/* Looks at what this thread knows. */
static bool is_known(redis_engine *e, part *p, int64_t now_ns)
{
    weir_engine_request *q = question_of(p);
    if (!p->holds || !weir_deny_holds(q))
        return false;
    p->epoch = (uint32_t)port_load_relaxed(epoch_of(e, q));
    port_add_relaxed(&e->setup.stats->deny_looks, 1);
    if (weir_deny_look(e->deny, p->id, p->epoch, now_ns, q) != WEIR_DENY_DENIED)
        return false;
    port_add_relaxed(&e->setup.stats->deny_hits, 1);
    return true;
}

/* Looks at what all threads know. On WEIR_DENY_ENDED the part has to ask for all of them. */
static weir_deny_known look(redis_engine *e, part *p, int64_t now_ns)
{
    weir_engine_request *q = question_of(p);
    if (!p->holds || !weir_deny_holds(q))
        return WEIR_DENY_NOTHING;
    p->epoch = (uint32_t)port_load_relaxed(epoch_of(e, q));
    weir_deny_known known =
        weir_board_look(e->board, e->deny, p->id, p->epoch, now_ns, now_ns + e->deadline_ns, q);
    if (known == WEIR_DENY_DENIED)
        port_add_relaxed(&e->setup.stats->deny_hits, 1);
    p->claimed = known == WEIR_DENY_ENDED;
    return known;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void call_done(weir_redis_call *c, int64_t now_ns);

/* Hands a part to the client, or answers it without one. Returns whether it was handed over. */
static bool try_send(redis_engine *e, part *p, int64_t now_ns)
{
    weir_engine_request *q = question_of(p);
    const char *name;
    int64_t next_ns = 0;
    if (e->closing) {
        fall_back(e, p, now_ns, ns_per_s, "it is being closed");
        return false;
    }
    p->node = weir_redis_client_node(e->client, q, &name);
    if (p->node > WEIR_REDIS_NODES_MAX)
        p->node = WEIR_REDIS_NODES_MAX;
    if (!weir_redis_client_is_up(e->client, q, &next_ns) && next_ns > now_ns) {
        port_add_relaxed(&e->setup.stats->client.unreachable, 1);
        fall_back(e, p, now_ns, next_ns - now_ns, why_of(WEIR_REDIS_UNREACHABLE));
        return false;
    }
    if (!breaker_admits(e, p, now_ns)) {
        fall_back(e, p, now_ns, wait_for(e, p, now_ns), "Redis does not answer, and is left alone");
        return false;
    }
    p->sent = true;
    p->sent_ns = now_ns;
    p->call.request = q;
    p->call.len = p->of->round->all ? p->of->round->len : 1;
    p->call.all = p->of->round->all;
    p->call.deadline_ns = p->place.deadline_ns;
    p->call.done = call_done;
    weir_redis_client_send(e->client, &p->call, now_ns);
    return true;
}

/* The part asks, and those who come wait at its gate. */
static void ask_first(redis_engine *e, weir_gate *gate, part *p, int64_t now_ns)
{
    if (!try_send(e, p, now_ns)) {
        weir_gate_close(&e->gates, gate);
        return;
    }
    gate->probe = &p->place;
    p->place.gate = gate;
}

/* Another thread asks. It tells nobody when it has heard: so the board is looked at each ms. */
static void watch(redis_engine *e, weir_gate *gate, int64_t now_ns)
{
    if (!e->gates.watched)
        e->watch_ns = now_ns + ns_per_ms;
    weir_gate_watch(&e->gates, gate);
}

static void wait_for_another(redis_engine *e, weir_gate *gate, part *p, int64_t now_ns)
{
    weir_gate_wait(&e->gates, gate, &p->place);
    watch(e, gate, now_ns);
}

/* As weir_refund() says; no server need be asked. */
static bool can_be_done(weir_engine_request *q)
{
    if (q->verb != WEIR_VERB_REFUND)
        return true;
    if (!weir_policy_can(q->policy, WEIR_CAN_REFUND)) {
        q->status = WEIR_E_UNSUPPORTED;
        q->reason = "leaky-queue and count-denied policies do not support refunds";
        return false;
    }
    return true;
}

/* Where a part goes when it has just been asked. */
static void admit(redis_engine *e, part *p, int64_t now_ns)
{
    e->in_flight++;
    forget_changed(e, question_of(p));
    if (!can_be_done(question_of(p))) {
        answered(e, p);
        return;
    }
    if (e->closing) {
        (void)try_send(e, p, now_ns);
        return;
    }
    if (is_known(e, p, now_ns)) {
        answered(e, p);
        return;
    }
    if (e->in_flight > e->in_flight_max) {
        fall_back(e, p, now_ns, e->deadline_ns, why_of(WEIR_REDIS_CROWDED));
        return;
    }
    weir_gate *gate = p->holds ? weir_gate_find(&e->gates, p->id) : NULL;
    if (gate) {
        weir_gate_wait(&e->gates, gate, &p->place);
        return;
    }
    weir_deny_known known = look(e, p, now_ns);
    if (known == WEIR_DENY_DENIED) {
        answered(e, p);
        return;
    }
    if (known == WEIR_DENY_ENDED || known == WEIR_DENY_CLAIMED)
        gate = weir_gate_open(&e->gates, p->id);
    if (!gate)
        (void)try_send(e, p, now_ns);
    else if (known == WEIR_DENY_ENDED)
        ask_first(e, gate, p, now_ns);
    else
        wait_for_another(e, gate, p, now_ns);
}

/* ---- gates ----------------------------------------------------------------------------------- */

/* The probe of a gate has been heard, or is gone. Those who wait are answered by what it has
 * learned, or go if there are units for them; of the others one asks. */
static void turn_gate(redis_engine *e, weir_gate *gate, int64_t now_ns)
{
    gate->probe = NULL;
    while (gate->first) {
        part *p = part_of_place(gate->first);
        weir_deny_known known = e->closing ? WEIR_DENY_NOTHING : look(e, p, now_ns);
        if (known == WEIR_DENY_CLAIMED) {
            watch(e, gate, now_ns);
            return;
        }
        weir_gate_leave(&e->gates, &p->place);
        if (known == WEIR_DENY_DENIED) {
            answered(e, p);
        } else if (try_send(e, p, now_ns) && known == WEIR_DENY_ENDED) {
            gate->probe = &p->place;
            p->place.gate = gate;
            return;
        }
    }
    weir_gate_close(&e->gates, gate);
}

/* Those who wait for another thread look whether it has heard. */
static void turn_watched(redis_engine *e, int64_t now_ns)
{
    weir_gates *g = &e->gates;
    weir_gate *gates = g->watched;
    g->watched = NULL; /* each may come to be watched again */
    while (gates) {
        weir_gate *gate = gates;
        gates = gate->next_watched;
        gate->watched = false;
        turn_gate(e, gate, now_ns);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void call_done(weir_redis_call *c, int64_t now_ns)
{
    part *p = part_of_call(c);
    redis_engine *e = p->of->engine;
    weir_engine_request *q = question_of(p);
    weir_gate *gate = p->place.gate;
    weir_redis_outcome outcome = c->outcome;
    p->sent = false;
    p->place.gate = NULL;
    breaker_hears(e, p, outcome, now_ns);
    forget_changed(e, q);
    if (outcome == WEIR_REDIS_ANSWERED) {
        if (c->all)
            p->of->round->blocking = c->blocking;
        learn(e, p, now_ns);
        unclaim(e, p, q->status == WEIR_OK && q->decision.allowed ? q->decision.remaining : -1);
        answered(e, p);
    } else {
        fall_back(e, p, now_ns, wait_for(e, p, now_ns), why_of(outcome));
    }
    if (gate)
        turn_gate(e, gate, now_ns);
    tell(e, now_ns);
    set_alarm(e, now_ns);
}

static void on_alarm(void *ctx, int64_t now_ns)
{
    redis_engine *e = ctx;
    e->alarm_ns = INT64_MAX;
    while (e->gates.first_due && e->gates.first_due->deadline_ns <= now_ns) {
        part *p = part_of_place(e->gates.first_due);
        weir_gate_leave(&e->gates, &p->place);
        fall_back(e, p, now_ns, wait_for(e, p, now_ns), why_of(WEIR_REDIS_LATE));
    }
    if (e->gates.watched && now_ns >= e->watch_ns)
        turn_watched(e, now_ns);
    if (e->board && now_ns >= e->sweep_ns) {
        weir_board_sweep(e->board, now_ns);
        e->sweep_ns = now_ns + ns_per_s;
    }
    tell(e, now_ns);
    set_alarm(e, now_ns);
}

/* ---- the engine ------------------------------------------------------------------------------ */

/* Nothing is known and nothing can be: no memory. */
static void answer_at_once(redis_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    static const char why[] = "there is no memory";
    if (r->all) {
        weir_on_error by = weir_fallback_answer_all(&e->fallback, r, now_ns, e->deadline_ns, why);
        port_add_relaxed(&e->setup.stats->by_error[by], r->len);
        return;
    }
    for (size_t i = 0; i < r->len; i++) {
        weir_on_error by =
            weir_fallback_answer(&e->fallback, &r->request[i], now_ns, e->deadline_ns, why);
        port_add_relaxed(&e->setup.stats->by_error[by], 1);
    }
}

static void part_init(redis_engine *e, asked *a, part *p, int64_t now_ns)
{
    p->of = a;
    p->place.deadline_ns = now_ns + e->deadline_ns;
    p->node = WEIR_REDIS_NODES_MAX;
    weir_engine_request *q = question_of(p);
    if (e->deny && !a->round->all && q->verb != WEIR_VERB_THROTTLE) {
        p->holds = true;
        p->id = weir_deny_id_of(e->deny, q);
    }
}

static bool engine_ask(weir_engine *face, weir_engine_batch *r, int64_t now_ns)
{
    redis_engine *e = (redis_engine *)face;
    size_t parts = r->all ? 1 : r->len;
    port_add_relaxed(&e->setup.stats->asked, r->len);
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].by_error = false;
        r->request[i].reason = NULL;
    }
    asked *a = port_zalloc(1, sizeof *a + parts * sizeof(part));
    if (!a) {
        answer_at_once(e, r, now_ns);
        return true;
    }
    a->engine = e;
    a->round = r;
    a->parts = a->left = parts;
    for (size_t i = 0; i < parts; i++) {
        part_init(e, a, &a->part[i], now_ns);
        admit(e, &a->part[i], now_ns);
    }
    set_alarm(e, now_ns);
    if (a->left == 0) {
        port_free(a);
        return true;
    }
    a->later = true;
    r->inside = a;
    return false;
}

/* What was sent is left to its own; whoever waited for it at a gate has another ask. */
static void abandon_part(redis_engine *e, part *p, int64_t now_ns)
{
    weir_gate *gate = p->place.gate;
    if (p->sent) {
        weir_redis_client_abandon(e->client, &p->call);
        forget_changed(e, question_of(p));
        if (p->probe)
            weir_breaker_forget(&e->node[p->node].breaker);
        unclaim(e, p, -1);
        e->in_flight--;
        if (gate)
            turn_gate(e, gate, now_ns);
    } else if (gate) {
        weir_gate_leave(&e->gates, &p->place);
        e->in_flight--;
    }
}

static void engine_abandon(weir_engine *face, weir_engine_batch *r)
{
    redis_engine *e = (redis_engine *)face;
    asked *a = r->inside;
    int64_t now_ns = e->setup.dialer->calls->now(e->setup.dialer);
    if (a->queued)
        unqueue(e, a);
    /* From the end: so that none of its own is let through its gate for one that goes. */
    for (size_t i = a->parts; i-- > 0;)
        abandon_part(e, &a->part[i], now_ns);
    r->inside = NULL;
    port_free(a);
    set_alarm(e, now_ns);
}

static void free_all(redis_engine *e)
{
    e->setup.dialer->calls->free_timer(e->alarm);
    weir_deny_close(e->deny);
    if (e->board)
        weir_board_leave(e->setup.stats);
    port_free(e);
}

static void engine_close(weir_engine *face)
{
    redis_engine *e = (redis_engine *)face;
    int64_t now_ns = e->setup.dialer->calls->now(e->setup.dialer);
    e->closing = true;
    weir_redis_client_close(e->client);
    turn_watched(e, now_ns);
    tell(e, now_ns);
    free_all(e);
}

static const weir_engine_calls calls = {engine_ask, engine_abandon, engine_close};

static weir_status open_deny(redis_engine *e, size_t bytes)
{
    if (bytes == SIZE_MAX)
        return WEIR_OK;
    if (bytes == 0)
        bytes = DENY_BYTES;
    weir_status st = weir_board_join(&e->board, e->setup.stats, bytes, next_random(e));
    return st == WEIR_OK ? weir_deny_open(&e->deny, bytes, weir_board_secret(e->board)) : st;
}

static weir_on_error on_error_of(weir_redis_on_error how)
{
    return how == WEIR_REDIS_CLOSED  ? WEIR_ON_ERROR_CLOSED
           : how == WEIR_REDIS_LOCAL ? WEIR_ON_ERROR_LOCAL
                                     : WEIR_ON_ERROR_OPEN;
}

bool weir_redis_engine_would_probe(const weir_engine *engine, int64_t now_ns)
{
    const redis_engine *e = (const redis_engine *)(const void *)engine;
    for (size_t i = 0; i < sizeof e->node / sizeof e->node[0]; i++) {
        const weir_breaker *b = &e->node[i].breaker;
        if (b->state == WEIR_BREAKER_OPEN && now_ns >= b->until_ns)
            return true;
    }
    return false;
}

weir_status weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup)
{
    const weir_redis_options *o = setup->options;
    redis_engine *e = port_zalloc(1, sizeof *e);
    if (!e)
        return WEIR_E_NOMEM;
    e->face.calls = &calls;
    e->setup = *setup;
    e->alarm_ns = INT64_MAX;
    e->random = setup->seed;
    e->deadline_ns = o->deadline_ns ? o->deadline_ns : 50 * ns_per_ms;
    e->in_flight_max = o->in_flight ? o->in_flight : IN_FLIGHT;
    weir_fallback_init(&e->fallback, setup->store, on_error_of(o->on_error));
    weir_status st = open_deny(e, o->deny_cache_bytes);
    if (st != WEIR_OK)
        goto fail;
    st = WEIR_E_NOMEM;
    e->alarm = setup->dialer->calls->new_timer(setup->dialer, on_alarm, e);
    if (!e->alarm)
        goto fail;
    st = weir_redis_client_open(&e->client, o, setup->tls, setup->dialer, &setup->stats->client,
                                &e->setup.log, next_random(e));
    if (st != WEIR_OK)
        goto fail;
    *ret = &e->face;
    return WEIR_OK;
fail:
    free_all(e);
    return st;
}
