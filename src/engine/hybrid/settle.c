/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Settlements: what was admitted is charged below, what will be is leased there, and what is not
 * used goes back. One at a time for a key. One whose outcome is not known is sent again: it may be
 * charged twice then, but never not at all. */

#include "engine/hybrid/hybrid.h"

#include "port/port.h"

/* ---- what a settlement says ------------------------------------------------------------------ */

static void count_overshoot(hybrid *h, int64_t units)
{
    if (units == 0)
        return;
    (void)port_add_relaxed(&h->stats->overshoot, (uint64_t)units);
    if (units > h->over)
        h->over = units;
}

static void settled(hybrid *h, const settlement *j, int64_t now_ns)
{
    weir_slot *s = j->slot;
    const weir_engine_request *q = &j->request;
    s->share.asking = false;
    if (q->status != WEIR_OK || q->by_error) {
        s->share.low = INT64_MIN; /* until the next interval */
        s->below_until_ns = now_ns + (q->status == WEIR_E_IO ? h->interval_ns : h->idle_ns);
    } else if (q->verb == WEIR_VERB_GRANT) {
        const weir_share_plan *plan = &s->policy->plan;
        count_overshoot(h, weir_share_granted(&s->share, plan, j->epoch, q->cost, q->granted));
        weir_share_learn(&s->share, plan, &q->decision, 1, j->sent_ns, now_ns);
    }
    if (s->waits)
        pass_release(h, s, now_ns);
}

static void unlink_settlement(settlement *j)
{
    if (j->before)
        j->before->next = j->next;
    else
        j->engine->settlements = j->next;
    if (j->next)
        j->next->before = j->before;
}

static void came_back(weir_engine_batch *r, int64_t now_ns)
{
    settlement *j = (settlement *)(void *)((char *)r - offsetof(settlement, round));
    hybrid *h = j->engine;
    unlink_settlement(j);
    h->inside++;
    settled(h, j, now_ns);
    h->inside--;
    port_free(j);
    hybrid_deliver(h, now_ns);
}

/* ---- sending one ----------------------------------------------------------------------------- */

/* Returns false if there is no memory. */
static bool send(hybrid *h, weir_slot *s, weir_verb verb, int64_t n, int64_t now_ns)
{
    settlement *j = port_zalloc(1, sizeof *j);
    if (!j)
        return false;
    const weir_slot_policy *p = s->policy;
    *j = (settlement){.engine = h, .slot = s, .epoch = s->share.epoch, .sent_ns = now_ns};
    j->request = (weir_engine_request){.verb = verb,
                                       .policy = &p->policy,
                                       .text = p->text,
                                       .name = p->name,
                                       .key = {s->key, s->key_len},
                                       .policy_id = p->id,
                                       .cost = n < WEIR_COST_MAX ? n : WEIR_COST_MAX,
                                       .on_error = WEIR_ON_ERROR_REPORT};
    j->round = (weir_engine_batch){.request = &j->request, .len = 1, .done = came_back};
    j->next = h->settlements;
    if (j->next)
        j->next->before = j;
    h->settlements = j;
    s->share.asking = true;
    (void)port_add_relaxed(&h->stats->settled, 1);
    if (h->below->calls->submit(h->below, &j->round, now_ns)) {
        h->inside++;
        came_back(&j->round, now_ns);
        h->inside--;
    }
    return true;
}

void settle(hybrid *h, weir_slot *s, int64_t now_ns)
{
    if (s->share.asking)
        return;
    weir_share_turn(&s->share, &s->policy->plan, now_ns);
    int64_t n = weir_share_want(&s->share, &s->policy->plan);
    if (n > 0 && !send(h, s, WEIR_VERB_GRANT, n, now_ns))
        s->share.low = INT64_MIN; /* the next interval tries again */
}

static void give_back(hybrid *h, weir_slot *s, int64_t n, int64_t now_ns)
{
    if (n > 0 && send(h, s, WEIR_VERB_REFUND, n, now_ns))
        (void)port_add_relaxed(&h->stats->shares_back, (uint64_t)n);
}

/* ---- the alarm ------------------------------------------------------------------------------- */

static void look_at(hybrid *h, weir_slot *s, int64_t now_ns)
{
    const weir_share_plan *plan = &s->policy->plan;
    weir_share_turn(&s->share, plan, now_ns);
    int64_t back = weir_share_tick(&s->share, plan, now_ns);
    if (back > 0)
        give_back(h, s, back, now_ns);
    else if (plan->kind == WEIR_SHARE_COUNTED)
        settle(h, s, now_ns);
    if (!s->waits && s->probes == 0 && now_ns - s->seen_ns >= h->idle_ns &&
        weir_share_is_idle(&s->share, plan, now_ns))
        weir_slots_drop(&h->slots, s);
    else
        weir_slots_later(&h->slots, s, now_ns);
}

void settle_tick(hybrid *h, int64_t now_ns)
{
    h->inside++;
    while (h->slots.first && h->slots.first->check_ns <= now_ns)
        look_at(h, h->slots.first, now_ns);
    h->inside--;
}

void settle_stats(hybrid *h, int64_t now_ns)
{
    weir_hybrid_stats *to = h->stats;
    (void)port_add_relaxed(&to->asked, h->asked);
    (void)port_add_relaxed(&to->here, h->here);
    (void)port_add_relaxed(&to->keys, h->slots.shares - h->keys);
    h->asked = 0;
    h->here = 0;
    h->keys = h->slots.shares;
    if (now_ns - h->over_at_ns < h->interval_ns)
        return;
    (void)port_add_relaxed(&to->overshoot_last, (uint64_t)(h->over - h->over_told));
    h->over_told = h->over;
    h->over = 0;
    h->over_at_ns = now_ns;
}

void settle_close(hybrid *h, int64_t now_ns)
{
    while (h->settlements) {
        settlement *j = h->settlements;
        h->below->calls->abandon(h->below, &j->round);
        unlink_settlement(j);
        j->slot->share.asking = false;
        port_free(j);
    }
    for (weir_slot *s = h->slots.first; s; s = s->after) {
        if (s->policy->plan.kind == WEIR_SHARE_LEASED) {
            int64_t n = s->share.balance;
            s->share.balance = 0;
            give_back(h, s, n, now_ns);
        } else {
            settle(h, s, now_ns);
        }
    }
    while (h->settlements) {
        settlement *j = h->settlements;
        h->below->calls->abandon(h->below, &j->round);
        unlink_settlement(j);
        port_free(j);
    }
}
