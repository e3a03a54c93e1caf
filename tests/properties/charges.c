/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* P12: charges of what was used already. */

#include "cell.h"

static bool has(const weir_policy *p, weir_algorithm algorithm)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].algorithm == algorithm)
            return true;
    }
    return false;
}

/* Whether a charge counts in any layer. A policy has at most one block and one concurrent layer. */
static bool counts(const weir_policy *p)
{
    return p->layers > (uint32_t)has(p, WEIR_BLOCK) + (uint32_t)has(p, WEIR_CONCURRENT);
}

static weir_decision charge(cell *c, const step *s, int64_t *ret_over)
{
    weir_decision d;
    weir_status st;
    while ((st = weir_charge(c->policy, c->state, c->level, s->t_ns, s->cost, &d, ret_over)) ==
           WEIR_E_ROOM)
        cell_grow(c);
    if (st != WEIR_OK)
        abort();
    return d;
}

/* A charge that fits is a take, which holds no units. */
static const char *wrong_small_charge(cell *c, cell *copy, const step *s)
{
    (void)cell_take(copy, s->t_ns, s->cost);
    bool same = copy->level == c->level && memcmp(copy->state, c->state, cell_bytes(c)) == 0;
    return same || has(c->policy, WEIR_CONCURRENT) ? NULL : "a charge that fits is not a take";
}

static const char *wrong_debt(const cell *c, const step *s, const weir_decision *d)
{
    int64_t paid_ns = s->t_ns + d->retry_after_ns;
    if (d->remaining != 0)
        return "units remain in debt";
    if (!cell_try(c, paid_ns, 0).allowed || cell_try(c, paid_ns - 1, 0).allowed)
        return "the debt is not paid off after retry_after";
    if (s->t_ns > 0 && cell_try(c, s->t_ns - 1, 0).allowed)
        return "a clock that steps back reduces the debt";
    return NULL;
}

static const char *wrong_charge(cell *c, const step *s)
{
    weir_decision before = cell_try(c, s->t_ns, s->cost);
    cell copy = cell_copy(c);
    int64_t over = -1;
    weir_decision d = charge(c, s, &over);
    const char *wrong = NULL;
    if (over < 0 || over > s->cost || (before.allowed && over > 0))
        wrong = "the units over";
    else if (before.allowed)
        wrong = wrong_small_charge(c, &copy, s);
    else if (s->cost > 0 && c->policy->layers == 1 && cell_try(c, s->t_ns, 1).allowed)
        wrong = "a cost of 1 is allowed after a charge that did not fit";
    if (!wrong && !d.allowed && d.retry_after_ns <= WEIR_NOW_NS_MAX - s->t_ns)
        wrong = wrong_debt(c, s, &d);
    free(copy.state);
    return wrong;
}

bool p12_charge(const input *in)
{
    if (!counts(&in->policy))
        return true;
    cell c = cell_new(&in->policy);
    const char *wrong = NULL;
    size_t i = 0;
    for (; i < in->steps && !wrong; i++) {
        if (i % 3 == 2)
            (void)cell_take(&c, in->step[i].t_ns, in->step[i].cost);
        else
            wrong = wrong_charge(&c, &in->step[i]);
    }
    free(c.state);
    return wrong ? fail(in, "P12", i - 1, wrong) : true;
}
