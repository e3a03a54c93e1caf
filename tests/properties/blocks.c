/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* P11: blocks, once more in wide integers. */

#include "cell.h"

typedef struct last_block { /* in wide integers */
    i128 end_ns, length_ns;
} last_block;

static void begin_again(const weir_layer *l, last_block *b, int64_t now_ns)
{
    bool soon = l->longest_ns > 0 && now_ns < b->end_ns + b->length_ns;
    i128 twice_ns = 2 * b->length_ns;
    b->length_ns = !soon ? l->period_ns : twice_ns < l->longest_ns ? twice_ns : l->longest_ns;
    b->end_ns = now_ns + b->length_ns;
}

static const char *wrong_block(const weir_layer *l, last_block *b, const step *s,
                               const weir_decision *d, bool same_state)
{
    bool running = s->t_ns < b->end_ns;
    if (running && (d->allowed || !same_state))
        return "allowed or written during a block";
    if (!running && !d->allowed && s->cost > 0)
        begin_again(l, b, s->t_ns);
    if (!d->allowed && !d->never && d->retry_after_ns < b->end_ns - s->t_ns)
        return "a wait that ends before the block";
    return NULL;
}

bool p11_block_ends(const input *in)
{
    const weir_layer *l = &in->policy.layer[in->policy.layers - 1];
    if (l->algorithm != WEIR_BLOCK)
        return true;
    weir_policy without = in->policy;
    without.layers--;
    cell c = cell_new(&in->policy);
    last_block b = {0, 0};
    const char *wrong = NULL;
    size_t i = 0;
    for (; i < in->steps && !wrong; i++) {
        const step *s = &in->step[i];
        weir_decision others;
        bool running = s->t_ns < b.end_ns;
        cell before = cell_copy(&c);
        if (weir_peek(&without, c.state, c.level, s->t_ns, s->cost, &others) != WEIR_OK)
            wrong = "the other layers have no state";
        weir_decision d = cell_take(&c, s->t_ns, s->cost);
        if (!wrong && d.allowed != (!running && others.allowed))
            wrong = "not the decision of the other layers after a block";
        bool same = before.level == c.level && !memcmp(before.state, c.state, cell_bytes(&c));
        if (!wrong)
            wrong = wrong_block(l, &b, s, &d, same);
        free(before.state);
    }
    free(c.state);
    return wrong ? fail(in, "P11", i - 1, wrong) : true;
}
