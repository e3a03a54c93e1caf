/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Errors in place of answers. A server that says an error has not executed the call, so that
 * following it elsewhere, or saying it again, charges nothing twice. */

#include "engine/redis/client/client_inside.h"

#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define SAY_NS (10000 * WEIR_REDIS_MS) /* that a node refuses is said so often */

static bool begins(weir_slice t, const char *word)
{
    size_t len = strlen(word);
    return t.len >= len && memcmp(t.at, word, len) == 0;
}

/* Removes the text up to `end`, and `end` itself, from the front. Returns the text. */
static weir_slice cut(weir_slice *t, char end)
{
    const char *at = memchr(t->at, end, t->len);
    weir_slice ret = {t->at, at ? (size_t)(at - t->at) : t->len};
    size_t used = at ? ret.len + 1 : ret.len;
    t->at += used;
    t->len -= used;
    return ret;
}

static bool number(weir_slice t, uint32_t max, uint32_t *ret)
{
    uint64_t v;
    if (t.len > 6 || !weir_decimal_read(t.at, t.len, max, &v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* ---- another node ---------------------------------------------------------------------------- */

typedef struct target {
    uint32_t slot, port;
    char host[WEIR_REDIS_HOST_MAX];
} target;

/* "MOVED 3999 127.0.0.1:6381": the port stands behind the last ':'. No host, or "?", is the host
 * of who says it. */
static bool read_target(const weir_redis_node *n, weir_slice t, target *ret)
{
    (void)cut(&t, ' ');
    weir_slice slot = cut(&t, ' ');
    size_t colon = t.len;
    while (colon > 0 && t.at[colon - 1] != ':')
        colon--;
    if (colon == 0 || !number(slot, WEIR_REDIS_SLOTS - 1, &ret->slot) ||
        !number((weir_slice){t.at + colon, t.len - colon}, 65535, &ret->port) || ret->port == 0)
        return false;
    weir_slice host = {t.at, colon - 1};
    if (host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
        host = (weir_slice){host.at + 1, host.len - 2};
    if (host.len == 0 || (host.len == 1 && host.at[0] == '?'))
        host = (weir_slice){n->host, strlen(n->host)};
    if (!weir_redis_host_ok(host.at, host.len))
        return false;
    memcpy(ret->host, host.at, host.len);
    ret->host[host.len] = 0;
    return true;
}

static void refuse(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    weir_redis_copy(c->why, sizeof c->why, t.at, t.len);
    if (n->said_refuses_ns == 0 || now_ns - n->said_refuses_ns >= SAY_NS) {
        n->said_refuses_ns = now_ns;
        weir_redis_say(c, "redis-refuses", n, c->why);
    }
    weir_redis_call_end(c, call, WEIR_REDIS_REFUSED, c->why, now_ns);
}

/* False if it was sent from here to there too often; then it has ended. */
static bool may_go_on(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    if (call->redirects++ < WEIR_REDIS_REDIRECTS_MAX)
        return true;
    refuse(n, call, t, now_ns);
    return false;
}

/* That a slot has moved; where others are, is to be asked. */
static void learn(weir_redis_client *c, uint32_t slot, weir_redis_node *n, int64_t now_ns)
{
    weir_redis_become_cluster(c);
    n->in_map = true;
    c->map_is_another |= c->of_slot[slot] != n->at;
    c->of_slot[slot] = n->at;
    if (c->refresh_wanted)
        return; /* one of many */
    c->refresh_wanted = true;
    weir_redis_tend(c, now_ns);
}

static void follow(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    target to;
    if (!may_go_on(n, call, t, now_ns))
        return;
    weir_redis_node *other = NULL;
    if (read_target(n, t, &to))
        other = weir_redis_node_of(c, to.host, (uint16_t)to.port);
    if (!other || other->is_sentinel) {
        refuse(n, call, t, now_ns);
        return;
    }
    port_add_relaxed(&c->counts->redirected, 1);
    if (other->is_replica && other->state == WEIR_REDIS_UP)
        weir_redis_node_leave(other, now_ns); /* it says what it is when it is connected to */
    bool asking = begins(t, "ASK ");
    call->asking = asking;
    weir_redis_call_hand(c, other, call, now_ns); /* from here on it may be gone */
    if (!asking)
        learn(c, to.slot, other, now_ns);
}

/* ---- the same node, or what has come in its place -------------------------------------------- */

static void again_later(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    bool is_busy = begins(t, "TRYAGAIN");
    if (!is_busy && c->mode == WEIR_REDIS_SINGLE && !c->options->sentinel) {
        refuse(n, call, t, now_ns); /* there is no other */
        return;
    }
    if (!is_busy && !may_go_on(n, call, t, now_ns))
        return;
    call->why = is_busy ? "TRYAGAIN: its keys are being moved"
                        : "READONLY: the node is not a master any more";
    if (!is_busy) {
        c->refresh_wanted = true;
        c->sentinel_next_ns = 0;
    }
    weir_redis_call_pause(c, call, now_ns);
}

/* The node has lost what it decides by. */
static void load_again(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    if (!may_go_on(n, call, t, now_ns))
        return;
    call->why = "the node has lost weir's functions";
    if (n->state == WEIR_REDIS_UP)
        weir_redis_node_again(n, now_ns);
    weir_redis_call_hand(n->client, n, call, now_ns);
}

/* ---- what is final --------------------------------------------------------------------------- */

/* A copy that stays for as long as the client does. */
static const char *keep(weir_redis_client *c, weir_slice t)
{
    char copy[WEIR_REDIS_WHY_MAX];
    weir_redis_copy(copy, sizeof copy, t.at, t.len);
    for (size_t i = 0; i < c->reasons; i++) {
        if (strcmp(c->reason[i], copy) == 0)
            return c->reason[i];
    }
    char *kept = c->reasons < WEIR_REDIS_REASONS ? port_zalloc(1, sizeof copy) : NULL;
    if (!kept)
        return "the server cannot decide by this policy";
    memcpy(kept, copy, sizeof copy);
    c->reason[c->reasons++] = kept;
    return kept;
}

/* What an error of CL.THROTTLE says of its numbers. */
static weir_throttle_status throttle_status(weir_slice t)
{
    static const char prefix[] = "Cell error: Store error: ";
    static const weir_throttle_status known[] = {WEIR_THROTTLE_ZERO_RATE,
                                                 WEIR_THROTTLE_NEGATIVE_LIMIT};
    if (!begins(t, prefix))
        return WEIR_THROTTLE_RANGE;
    t.at += sizeof prefix - 1;
    t.len -= sizeof prefix - 1;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (begins(t, weir_throttle_status_text(known[i])))
            return known[i];
    }
    return WEIR_THROTTLE_RANGE;
}

static void refuse_throttle(weir_redis_node *n, weir_redis_call *call, weir_slice t, int64_t now_ns)
{
    weir_engine_request *q = call->request;
    q->status = WEIR_E_RANGE;
    q->reason = NULL;
    q->by_error = false;
    q->throttle_status = throttle_status(t);
    weir_redis_call_end(n->client, call, WEIR_REDIS_ANSWERED, NULL, now_ns);
}

void weir_redis_refused(weir_redis_node *n, weir_redis_call *call, const char *at, size_t len,
                        int64_t now_ns)
{
    weir_redis_client *c = n->client;
    weir_slice t = {at, len};
    if (begins(t, "MOVED ") || begins(t, "ASK "))
        follow(n, call, t, now_ns);
    else if (begins(t, "TRYAGAIN") || begins(t, "READONLY") || begins(t, "MASTERDOWN"))
        again_later(n, call, t, now_ns);
    else if (begins(t, "NOSCRIPT") || begins(t, "ERR Function not found") ||
             begins(t, "ERR unknown command"))
        load_again(n, call, t, now_ns);
    else if (begins(t, "CROSSSLOT"))
        weir_redis_call_unsupported(c, call, WEIR_REDIS_CROSSSLOT, now_ns);
    else if (begins(t, "ERR policy:") || begins(t, "ERR weir:"))
        weir_redis_call_unsupported(c, call, keep(c, (weir_slice){at + 4, len - 4}), now_ns);
    else if (begins(t, "Cell error") && call->request->verb == WEIR_VERB_THROTTLE)
        refuse_throttle(n, call, t, now_ns);
    else {
        bool is_lost = begins(t, "CLUSTERDOWN");
        refuse(n, call, t, now_ns);
        c->refresh_wanted |= is_lost;
        if (is_lost)
            weir_redis_tend(c, now_ns);
    }
}
