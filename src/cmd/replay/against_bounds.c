/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A request is stricter the less time has passed since the charges before it. So the strict answer
 * is that at the early time, with the charges of earlier batches at their late times, and those of
 * the same batch at the same time. The lenient answer is that at the late time, with all charges at
 * their early times.
 *
 * That holds for all policies whose windows begin at fixed times. A window that begins with the
 * first request, and a bucket that refills in steps, have a phase, which decides much later
 * requests. If the phase is in doubt, so is the key, until it must have its full quota again. */

#include "cmd/replay/against_bounds.h"

#include "port/port.h"

#include <string.h>

typedef struct state {
    uint64_t *words; /* NULL: a new key */
    unsigned level;
} state;

typedef struct entry {
    const void *key; /* NULL: free */
    uint64_t text;   /* a hash of the policy's text */
    uint64_t batch;  /* that `now` belongs to */
    state now;       /* strict, for questions of this batch: its charges at the early time */
    state next;      /* strict, for later batches: all charges at the late time */
    state lenient;   /* all charges at the early time */
    int64_t sure_ns; /* before, no state is a bound */
    bool lost;       /* the key is like a new one at sure_ns, unless it is used before */
} entry;

struct against_bounds {
    entry *entries;
    size_t size, used; /* size: a power of 2 */
};

/* ---- the table ------------------------------------------------------------------------------- */

enum { SIZE_FIRST = 1024 };

against_bounds *against_bounds_open(void)
{
    against_bounds *b = port_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->size = SIZE_FIRST;
    b->entries = port_zalloc(b->size, sizeof *b->entries);
    if (b->entries)
        return b;
    port_free(b);
    return NULL;
}

void against_bounds_close(against_bounds *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->size; i++) {
        port_free(b->entries[i].now.words);
        port_free(b->entries[i].next.words);
        port_free(b->entries[i].lenient.words);
    }
    port_free(b->entries);
    port_free(b);
}

/* FNV-1a of the canonical text. */
static uint64_t hash_text(const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    weir_policy_print(p, text, sizeof text);
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return hash;
}

/* Finds the entry of a key and a text, or the free one where it belongs. */
static entry *find(const against_bounds *b, const void *key, uint64_t text)
{
    uint64_t hash = ((uint64_t)(uintptr_t)key ^ text) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = (size_t)(hash >> 20);; i++) {
        entry *e = &b->entries[i & (b->size - 1)];
        if (!e->key || (e->key == key && e->text == text))
            return e;
    }
}

static bool double_size(against_bounds *b)
{
    against_bounds larger = {.size = 2 * b->size, .used = b->used};
    larger.entries = port_zalloc(larger.size, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < b->size; i++) {
        if (b->entries[i].key)
            *find(&larger, b->entries[i].key, b->entries[i].text) = b->entries[i];
    }
    port_free(b->entries);
    *b = larger;
    return true;
}

static entry *find_or_add(against_bounds *b, const against_question *q)
{
    uint64_t text = hash_text(q->policy);
    entry *e = find(b, q->key, text);
    if (e->key)
        return e;
    if (b->used >= b->size / 2) {
        if (!double_size(b))
            return NULL;
        e = find(b, q->key, text);
    }
    e->key = q->key;
    e->text = text;
    b->used++;
    return e;
}

bool against_bounds_knows(const against_bounds *b, const against_question *q)
{
    return find(b, q->key, hash_text(q->policy))->key != NULL;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool clear(const weir_policy *p, state *s)
{
    port_free(s->words);
    s->level = 0;
    s->words = port_zalloc(weir_state_words(p, 0), sizeof *s->words);
    return s->words != NULL;
}

static bool copy(const weir_policy *p, state *to, const state *from)
{
    size_t words = weir_state_words(p, from->level);
    if (to->level != from->level) {
        port_free(to->words);
        to->words = port_zalloc(words, sizeof *to->words);
        to->level = from->level;
    }
    if (to->words)
        memcpy(to->words, from->words, words * sizeof *to->words);
    return to->words != NULL;
}

/* Peeks. A time or a cost out of range is a denial. */
static weir_decision peek(const against_question *q, const state *s, int64_t now_ns, int64_t cost)
{
    weir_decision d = {0};
    if (weir_peek(q->policy, s->words, s->level, now_ns, cost, &d) != WEIR_OK)
        d = (weir_decision){.never = true};
    return d;
}

/* Decides and charges. Returns false if there is no memory. */
static bool charge(const against_question *q, state *s, int64_t now_ns)
{
    weir_decision d;
    while (weir_check(q->policy, s->words, s->level, now_ns, q->cost, &d) == WEIR_E_ROOM) {
        uint64_t *words = port_zalloc(weir_state_words(q->policy, s->level + 1), sizeof *words);
        if (!words)
            return false;
        weir_state_grow(q->policy, s->words, s->level, words);
        port_free(s->words);
        s->words = words;
        s->level++;
    }
    return true;
}

/* ---- policies -------------------------------------------------------------------------------- */

static bool counts_denied(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].count_denied)
            return true;
    }
    return false;
}

static bool has_phase(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].format == WEIR_STATE_WINDOW_PAIR ||
            p->layer[i].format == WEIR_STATE_TAT_STEPS)
            return true;
    }
    return false;
}

/* A time after which a key that is not used has its full quota; at least a little more. */
static int64_t full_after_ns(const weir_policy *p)
{
    double most_ns = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        double period_ns = l->period_ns > 0 ? (double)l->period_ns : 367 * 86400e9;
        double ns = 2 * period_ns * (1 + (double)l->limit / (double)l->rate);
        most_ns = ns > most_ns ? ns : most_ns;
    }
    const int64_t max_ns = WEIR_NOW_NS_MAX / 2;
    return most_ns < (double)max_ns ? (int64_t)most_ns : max_ns;
}

/* ---- charging -------------------------------------------------------------------------------- */

static void lose(const against_question *q, entry *e)
{
    e->lost = true;
    e->sure_ns = q->late_ns + full_after_ns(q->policy);
}

/* A state that denies what the daemon allowed is charged a little later, once it allows that. */
#define WAIT_NS_MAX INT64_C(1000000000)

static bool charge_strict(const against_question *q, entry *e)
{
    int64_t at_ns = q->late_ns > e->sure_ns ? q->late_ns : e->sure_ns;
    weir_decision d = peek(q, &e->next, at_ns, q->cost);
    if (!d.allowed && (d.never || d.retry_after_ns > WAIT_NS_MAX)) {
        lose(q, e);
        return true;
    }
    if (!d.allowed) {
        at_ns += d.retry_after_ns;
        e->sure_ns = at_ns;
    }
    if (peek(q, &e->now, q->early_ns, q->cost).allowed)
        return charge(q, &e->now, q->early_ns) && charge(q, &e->next, at_ns);
    e->sure_ns = at_ns > q->late_ns ? at_ns : q->late_ns; /* `now` is no bound any longer */
    return charge(q, &e->next, at_ns);
}

/* Leaves out a charge that is not possible between the two times. */
static bool charge_lenient(const against_question *q, entry *e)
{
    int64_t at_ns = q->early_ns;
    weir_decision d = peek(q, &e->lenient, at_ns, q->cost);
    if (!d.allowed && (d.never || d.retry_after_ns > q->late_ns - at_ns))
        return true;
    if (!d.allowed)
        at_ns += d.retry_after_ns;
    return !peek(q, &e->lenient, at_ns, q->cost).allowed || charge(q, &e->lenient, at_ns);
}

/* A denial is charged if the policy counts denials. A strict state may be charged more than the
 * daemon's, a lenient one less. */
static bool charge_denial(const against_question *q, entry *e)
{
    if (!counts_denied(q->policy))
        return true;
    if (!peek(q, &e->lenient, q->early_ns, q->cost).allowed && !charge(q, &e->lenient, q->early_ns))
        return false;
    return charge(q, &e->now, q->early_ns) && charge(q, &e->next, q->late_ns);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Makes the states ready for a question. Returns false if there is no memory. */
static bool prepare(const against_question *q, entry *e)
{
    bool fresh = !e->next.words || (e->lost && q->early_ns >= e->sure_ns);
    if (fresh) {
        e->lost = false;
        e->batch = q->batch;
        return clear(q->policy, &e->now) && clear(q->policy, &e->next) &&
               clear(q->policy, &e->lenient);
    }
    if (e->batch == q->batch)
        return true;
    e->batch = q->batch;
    return copy(q->policy, &e->now, &e->next);
}

/* Whether `limit` and `remaining` are possible. In a policy of several layers, they may be those of
 * any layer. */
static bool is_possible(const against_question *q, const entry *e, const against_answer *answer)
{
    if (q->policy->layers > 1)
        return true;
    weir_decision least = peek(q, &e->now, q->early_ns, 0);
    weir_decision most = peek(q, &e->lenient, q->late_ns, 0);
    return answer->limit == least.limit && answer->remaining >= least.remaining &&
           answer->remaining <= most.remaining;
}

/* Whether the limit allowed the request, as far as the answer says so. */
static bool limit_allowed(const against_question *q, const against_answer *answer, bool if_unknown)
{
    if (!q->shadow)
        return answer->allowed;
    return answer->reasoned ? answer->allowed && !answer->shadowed : if_unknown;
}

static against_verdict judge(const against_question *q, entry *e, const against_answer *answer,
                             const weir_decision *strict, const weir_decision *lenient)
{
    bool sure = q->early_ns >= e->sure_ns, agreed = strict->allowed == lenient->allowed;
    if (has_phase(q->policy) && strict->remaining != lenient->remaining)
        e->lost = true;
    if (e->lost || (q->shadow && !answer->reasoned && !(agreed && sure))) {
        lose(q, e);
        return AGAINST_UNDECIDED;
    }
    bool certain = agreed && sure;
    bool allowed = certain ? strict->allowed : limit_allowed(q, answer, strict->allowed);
    bool charged = allowed ? charge_strict(q, e) && charge_lenient(q, e) : charge_denial(q, e);
    if (!charged)
        return AGAINST_NO_MEMORY;
    if (!certain)
        return AGAINST_UNDECIDED;
    bool same = limit_allowed(q, answer, allowed) == allowed && (!q->shadow || answer->allowed);
    return same && is_possible(q, e, answer) ? AGAINST_SAME : AGAINST_DIFFERENT;
}

against_verdict against_bounds_judge(against_bounds *b, const against_question *q,
                                     const against_answer *answer, weir_decision *ret_offline)
{
    entry *e = find_or_add(b, q);
    if (!e || !prepare(q, e))
        return AGAINST_NO_MEMORY;
    weir_decision strict = peek(q, &e->now, q->early_ns, q->cost);
    weir_decision lenient = peek(q, &e->lenient, q->late_ns, q->cost);
    against_verdict v = judge(q, e, answer, &strict, &lenient);
    if (v != AGAINST_NO_MEMORY) {
        weir_decision after = peek(q, &e->now, q->early_ns, 0);
        *ret_offline = strict;
        ret_offline->limit = after.limit;
        ret_offline->remaining = after.remaining;
    }
    return v;
}
