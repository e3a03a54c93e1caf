/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The tokens of resets: a hash table of atomic words, and how a client keeps it up to date. */

#include "engine/redis/client/resets.h"

#include "engine/redis/client/wire.h"
#include "port/assert.h"
#include "port/port.h"

#include <string.h>

#define POLL_NS      (1000 * WEIR_REDIS_MS)
#define RETRY_NS     (100 * WEIR_REDIS_MS)   /* while the node cannot say */
#define LOG_ERROR_NS (10000 * WEIR_REDIS_MS) /* between two logs of a node's error replies */

/* ---- the table ------------------------------------------------------------------------------- */

static uint64_t id_of(weir_slice policy)
{
    uint64_t h = weir_redis_hash(policy);
    return h != 0 ? h : 1;
}

static uint64_t id_of_request(const weir_engine_request *q)
{
    return id_of(q->name.len > 0 ? q->name : q->text);
}

/* Relaxed: a token is the whole state of a policy, and a slot keeps its policy. */
static const weir_redis_reset_slot *find(const weir_redis_resets *r, uint64_t policy)
{
    for (size_t i = 0; i < WEIR_REDIS_RESETS_SLOTS; i++) {
        const weir_redis_reset_slot *s = &r->slot[(policy + i) % WEIR_REDIS_RESETS_SLOTS];
        uint64_t at = port_word_load_relaxed(&s->policy);
        if (at == policy || at == 0)
            return at == policy ? s : NULL;
    }
    return NULL;
}

/* Does nothing if all slots are used, which takes more policies than can be reset. */
static void put(weir_redis_resets *r, uint64_t policy, uint64_t token)
{
    for (size_t i = 0; i < WEIR_REDIS_RESETS_SLOTS; i++) {
        weir_redis_reset_slot *s = &r->slot[(policy + i) % WEIR_REDIS_RESETS_SLOTS];
        uint64_t at = 0;
        if (port_word_cas_relaxed(&s->policy, &at, policy))
            port_add_relaxed(&r->used, 1);
        else if (at != policy)
            continue;
        port_word_store_relaxed(&s->token, token);
        return;
    }
}

/* Pairs with the acquire of readers, which compare versions and then read tokens. */
static void has_changed(weir_redis_resets *r)
{
    port_stores_in_order();
    port_word_add_relaxed(&r->version, 1);
}

uint64_t weir_redis_resets_token(const weir_redis_resets *r, const weir_engine_request *q)
{
    if (!r || port_load_relaxed(&r->used) == 0)
        return 0;
    const weir_redis_reset_slot *s = find(r, id_of_request(q));
    return s ? port_word_load_relaxed(&s->token) : 0;
}

bool weir_redis_resets_can(const weir_redis_resets *r, const weir_engine_request *q,
                           const char **ret_why)
{
    if (r && port_load_relaxed(&r->refused) == 0 &&
        (port_load_relaxed(&r->used) < WEIR_REDIS_RESETS_MAX || find(r, id_of_request(q))))
        return true;
    if (!r)
        *ret_why = "this program does not reset all keys of a policy";
    else if (port_load_relaxed(&r->refused) > 0)
        *ret_why = "resetting all keys needs HGETALL and HSET, and the server refuses HGETALL; "
                   "the log has its error";
    else
        *ret_why = "1024 policies were reset, and another one cannot be; reset keys one by one";
    return false;
}
_Static_assert(WEIR_REDIS_RESETS_MAX == 1024, "the error quotes it");

void weir_redis_resets_set(weir_redis_resets *r, const weir_engine_request *q, uint64_t token)
{
    put(r, id_of_request(q), token);
    has_changed(r);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const weir_engine_request of_all = {.verb = WEIR_VERB_RESET_ALL};

void weir_redis_resets_close(weir_redis_resets_reader *p)
{
    port_free(p->draft);
}

uint32_t weir_redis_resets_slot(const weir_redis_topology *t)
{
    return t->mode == WEIR_REDIS_CLUSTER ? weir_redis_topology_slot(t, &of_all) : 0;
}

void weir_redis_resets_poll(weir_redis_resets_reader *p, weir_redis_topology *t, int64_t now_ns,
                            int64_t *wake_ns)
{
    char key[WEIR_REDIS_SECRET_MAX];
    const weir_redis_resets *r = t->context->counts->resets;
    weir_redis_node *n = weir_redis_topology_node(t, weir_redis_resets_slot(t));
    if (p->asked || !n || n->state != WEIR_REDIS_UP)
        return; /* the next change of its state calls this again */
    if (p->next_ns > now_ns) {
        *wake_ns = p->next_ns < *wake_ns ? p->next_ns : *wake_ns;
        return;
    }
    size_t len = weir_redis_key(t->context->prefix, &of_all, true, 0, key, sizeof key);
    WEIR_ASSERT(len <= sizeof key);
    if (!weir_redis_node_request(n, WEIR_REDIS_EXPECTS_RESETS, 2, now_ns))
        return;
    weir_redis_node_word(n, "HGETALL");
    weir_redis_node_bulk(n, key, len);
    p->asked = n;
    p->len = 0;
    p->version = port_word_load_acquire(&r->version);
}

static uint64_t token_in(const weir_redis_resets_reader *p, uint64_t policy)
{
    for (size_t i = 0; i < p->len; i++) {
        if (p->draft[i].policy == policy)
            return p->draft[i].token;
    }
    return 0;
}

/* Makes the table equal to the draft. A policy that is not in the draft has no token any more, as
 * after FLUSHALL. */
static void apply(const weir_redis_resets_reader *p, weir_redis_resets *r)
{
    bool changed = false;
    for (size_t i = 0; i < p->len; i++) {
        const weir_redis_reset_slot *s = find(r, p->draft[i].policy);
        if (s && port_word_load_relaxed(&s->token) == p->draft[i].token)
            continue;
        put(r, p->draft[i].policy, p->draft[i].token);
        changed = true;
    }
    for (size_t i = 0; i < WEIR_REDIS_RESETS_SLOTS && port_load_relaxed(&r->used) > p->len; i++) {
        uint64_t token = port_word_load_relaxed(&r->slot[i].token);
        if (token == 0 || token_in(p, port_word_load_relaxed(&r->slot[i].policy)) != 0)
            continue;
        port_word_store_relaxed(&r->slot[i].token, 0);
        changed = true;
    }
    if (changed)
        has_changed(r);
}

/* Reads a value of the reply: policy, token, policy, token and so on. Leaves out what is not from
 * weir. */
static void read_value(weir_redis_resets_reader *p, uint32_t index, const weir_resp_value *v)
{
    uint64_t token;
    if (index % 2 == 0) {
        p->policy = id_of((weir_slice){v->text, v->len});
        return;
    }
    if (!p->draft)
        p->draft = port_zalloc(WEIR_REDIS_RESETS_MAX, sizeof *p->draft);
    if (p->draft && p->len < WEIR_REDIS_RESETS_MAX && weir_hex64_read(v->text, v->len, &token) &&
        token != 0)
        p->draft[p->len++] = (weir_redis_resets_draft){p->policy, token};
}

/* An error that may pass is no answer; any other means that nothing can be reset. */
static void refused(weir_redis_resets_reader *p, weir_redis_topology *t, weir_redis_node *n,
                    weir_slice text, int64_t now_ns)
{
    weir_redis_resets *r = t->context->counts->resets;
    char why[WEIR_REDIS_WHY_MAX];
    weir_redis_error_kind kind = weir_redis_error_kind_of(text, false);
    p->asked = NULL;
    p->next_ns = now_ns + RETRY_NS;
    if (kind == WEIR_REDIS_ERROR_MOVED)
        t->cluster.refresh_wanted = true;
    if (kind != WEIR_REDIS_ERROR_OTHER && kind != WEIR_REDIS_ERROR_OF_KEY &&
        kind != WEIR_REDIS_ERROR_NOT_LOADED)
        return;
    p->next_ns = now_ns + POLL_NS;
    port_store_relaxed(&r->refused, 1);
    port_word_store_release(&r->known, 1);
    if (now_ns - n->logged_refuses_ns < LOG_ERROR_NS)
        return;
    n->logged_refuses_ns = now_ns;
    weir_redis_node_log(n, "redis-refuses",
                        weir_redis_copy_text(why, sizeof why, text.at, text.len));
}

void weir_redis_resets_receive(weir_redis_resets_reader *p, weir_redis_topology *t,
                               weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_resets *r = t->context->counts->resets;
    if (v->type == WEIR_RESP_ERROR_REPLY && v->depth == 0) {
        refused(p, t, n, (weir_slice){v->text, v->len}, now_ns);
        return;
    }
    if (v->depth == 1 && v->type == WEIR_RESP_BULK)
        read_value(p, n->stream.index[1], v);
    if (!v->last)
        return;
    p->asked = NULL;
    p->next_ns = now_ns;
    if (port_word_load_acquire(&r->version) != p->version)
        return;
    apply(p, r);
    port_store_relaxed(&r->refused, 0);
    port_word_store_release(&r->known, 1);
    p->next_ns = now_ns + POLL_NS;
}

void weir_redis_resets_lost(weir_redis_resets_reader *p, const weir_redis_node *n)
{
    if (p->asked == n)
        p->asked = NULL; /* next_ns has passed: it is asked again at once */
}
