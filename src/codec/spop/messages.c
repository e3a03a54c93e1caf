/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sets of messages, sorted by name, and the activation of a set for all event loops. */

#include "codec/spop/messages.h"

#include "codec/answer/metrics.h"
#include "port/assert.h"
#include "port/port.h"

#include <stdlib.h>

/* ---- messages -------------------------------------------------------------------------------- */

struct weir_spop_messages {
    port_word references;
    uint32_t variables;
    size_t len;
    weir_spop_message at[]; /* sorted by name */
};

static bool copy_text(weir_slice *ret, const char *text, size_t max)
{
    size_t len = strlen(text);
    char *copy = len <= max ? port_zalloc(1, len + 1) : NULL;
    if (!copy)
        return false;
    memcpy(copy, text, len);
    *ret = (weir_slice){copy, len};
    return true;
}

static weir_status parse_template(weir_key_template **ret, const char *text)
{
    char error[256];
    size_t at;
    return weir_key_template_parse(ret, text, strlen(text), error, sizeof error, &at);
}

static weir_status build_cost(weir_spop_message *m, const char *text)
{
    uint64_t cost = 1;
    if (text && strchr(text, '$'))
        return parse_template(&m->cost, text);
    if (text && !weir_decimal_read(text, strlen(text), WEIR_COST_MAX, &cost))
        return WEIR_E_RANGE;
    m->fixed_cost = (int64_t)cost;
    return WEIR_OK;
}

static weir_status build_message(weir_spop_message *m, const weir_spop_spec *spec)
{
    if (strlen(spec->name) > WEIR_SPOP_NAME_MAX || spec->keep < WEIR_KEEP_PERCENT(100) ||
        spec->keep > WEIR_COST_MAX)
        return WEIR_E_RANGE;
    m->keep = spec->keep;
    if (!copy_text(&m->name, spec->name, WEIR_SPOP_NAME_MAX))
        return WEIR_E_NOMEM;
    weir_status st = WEIR_OK;
    if (strchr(spec->policy, '$'))
        st = parse_template(&m->policy, spec->policy);
    else if (strlen(spec->policy) > WEIR_RULE_NAME_MAX)
        st = WEIR_E_RANGE;
    else if (!copy_text(&m->policy_name, spec->policy, WEIR_RULE_NAME_MAX))
        st = WEIR_E_NOMEM;
    if (st == WEIR_OK && spec->key)
        st = parse_template(&m->key, spec->key);
    return st == WEIR_OK ? build_cost(m, spec->cost) : st;
}

static int compare_names(weir_slice a, weir_slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare(const void *a, const void *b)
{
    const weir_spop_message *x = a, *y = b;
    return compare_names(x->name, y->name);
}

weir_status weir_spop_messages_build(weir_spop_messages **ret, const weir_spop_spec *specs,
                                     size_t n, uint32_t variables)
{
    weir_status st = WEIR_OK;
    if (n > WEIR_SPOP_MESSAGES_MAX)
        return WEIR_E_RANGE;
    weir_spop_messages *m = port_zalloc(1, sizeof *m + n * sizeof m->at[0]);
    if (!m)
        return WEIR_E_NOMEM;
    port_word_store_relaxed(&m->references, 1);
    m->variables = variables;
    for (; m->len < n && st == WEIR_OK; m->len++)
        st = build_message(&m->at[m->len], &specs[m->len]);
    if (st != WEIR_OK) {
        weir_spop_messages_drop(m);
        return st;
    }
    qsort(m->at, n, sizeof m->at[0], compare);
    *ret = m;
    return WEIR_OK;
}

uint32_t weir_spop_messages_variables(const weir_spop_messages *m)
{
    return m ? m->variables : 0;
}

void weir_spop_messages_hold(weir_spop_messages *m)
{
    if (m)
        port_word_add_relaxed(&m->references, 1);
}

void weir_spop_messages_drop(weir_spop_messages *m)
{
    if (!m || !port_word_drop(&m->references))
        return;
    for (size_t i = 0; i < m->len; i++) {
        weir_spop_message *message = &m->at[i];
        port_free((char *)message->name.at);
        port_free((char *)message->policy_name.at);
        weir_key_template_free(message->policy);
        weir_key_template_free(message->key);
        weir_key_template_free(message->cost);
    }
    port_free(m);
}

const weir_spop_message *weir_spop_messages_find(const weir_spop_messages *m, weir_slice name)
{
    size_t begin = 0, end = m ? m->len : 0;
    while (begin < end) {
        size_t middle = (begin + end) / 2;
        int order = compare_names(name, m->at[middle].name);
        if (order == 0)
            return &m->at[middle];
        if (order < 0)
            end = middle;
        else
            begin = middle + 1;
    }
    return NULL;
}

/* ---- the shared part and the part of a loop -------------------------------------------------- */

struct weir_spop {
    port_mutex *mutex; /* of the messages, the list of loops and the unknown name */
    weir_spop_messages *messages;
    port_word generation;
    weir_spop_loop *loops;
    struct {
        uint64_t n; /* since the last weir_spop_take_unknown() */
        char name[WEIR_SPOP_NAME_MAX + 1];
    } unknown[WEIR_SPOP_POLICY + 1];
    uint64_t faults; /* since the last weir_spop_take_fault() */
    weir_spop_fault fault;
};

struct weir_spop_loop {
    weir_spop *shared;
    weir_spop_loop *next;
    weir_spop_messages *messages;
    uint64_t generation; /* of messages */
    weir_spop_counts counts;
    char scratch[WEIR_SPOP_SCRATCH];
};

weir_spop *weir_spop_open(void)
{
    weir_spop *s = port_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->mutex = port_mutex_new();
    if (s->mutex)
        return s;
    port_free(s);
    return NULL;
}

void weir_spop_close(weir_spop *s)
{
    if (!s)
        return;
    WEIR_ASSERT(!s->loops);
    weir_spop_messages_drop(s->messages);
    port_mutex_free(s->mutex);
    port_free(s);
}

void weir_spop_activate(weir_spop *s, weir_spop_messages *messages,
                        void (*activate_rules)(void *ctx), void *ctx)
{
    weir_spop_messages_hold(messages);
    port_mutex_lock(s->mutex);
    weir_spop_messages *old = s->messages;
    s->messages = messages;
    /* Before the rules: a loop that has adopted them, under their lock, sees the new number, and
     * then waits for the mutex. Only a holder of the mutex writes the number. A loop that sees the
     * old number a little longer decides by the old messages and rules, so relaxed is enough. */
    port_word_store_relaxed(&s->generation, port_word_load_relaxed(&s->generation) + 1);
    if (activate_rules)
        activate_rules(ctx);
    port_mutex_unlock(s->mutex);
    weir_spop_messages_drop(old);
}

/* Takes over the active messages. The mutex is held. */
static void hold_active(weir_spop_loop *l)
{
    l->messages = l->shared->messages;
    l->generation = port_word_load_relaxed(&l->shared->generation);
    weir_spop_messages_hold(l->messages);
}

bool weir_spop_loop_is_current(const weir_spop_loop *l)
{
    return port_word_load_relaxed(&l->shared->generation) == l->generation;
}

weir_spop_messages *weir_spop_loop_messages(weir_spop_loop *l)
{
    if (weir_spop_loop_is_current(l))
        return l->messages;
    weir_spop_messages *old = l->messages;
    port_mutex_lock(l->shared->mutex);
    hold_active(l);
    port_mutex_unlock(l->shared->mutex);
    weir_spop_messages_drop(old);
    return l->messages;
}

weir_spop_loop *weir_spop_loop_open(weir_spop *s)
{
    weir_spop_loop *l = port_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->shared = s;
    port_mutex_lock(s->mutex);
    hold_active(l);
    l->next = s->loops;
    s->loops = l;
    port_mutex_unlock(s->mutex);
    return l;
}

void weir_spop_loop_close(weir_spop_loop *l)
{
    if (!l)
        return;
    port_mutex_lock(l->shared->mutex);
    weir_spop_loop **at = &l->shared->loops;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    port_mutex_unlock(l->shared->mutex);
    weir_spop_messages_drop(l->messages);
    port_free(l);
}

weir_spop_counts *weir_spop_loop_counts(weir_spop_loop *l)
{
    return &l->counts;
}

char *weir_spop_loop_scratch(weir_spop_loop *l)
{
    return l->scratch;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void keep_name(char to[WEIR_SPOP_NAME_MAX + 1], weir_slice name)
{
    size_t len = name.len < WEIR_SPOP_NAME_MAX ? name.len : WEIR_SPOP_NAME_MAX;
    if (len > 0)
        memcpy(to, name.at, len);
    to[len] = '\0';
}

void weir_spop_count_unknown(weir_spop_loop *l, weir_spop_unknown what, weir_slice name)
{
    weir_spop *s = l->shared;
    port_bump_relaxed(&l->counts.unknown, what == WEIR_SPOP_MESSAGE);
    port_mutex_lock(s->mutex);
    if (s->unknown[what].n++ == 0)
        keep_name(s->unknown[what].name, name);
    port_mutex_unlock(s->mutex);
}

void weir_spop_count_fault(weir_spop_loop *l, weir_slice message, const char *error,
                           weir_slice argument)
{
    weir_spop *s = l->shared;
    port_mutex_lock(s->mutex);
    if (s->faults++ == 0) {
        s->fault.error = error;
        keep_name(s->fault.message, message);
        keep_name(s->fault.argument, argument);
    }
    port_mutex_unlock(s->mutex);
}

uint64_t weir_spop_take_fault(weir_spop *s, weir_spop_fault *ret)
{
    port_mutex_lock(s->mutex);
    uint64_t n = s->faults;
    if (n > 0)
        *ret = s->fault;
    s->faults = 0;
    port_mutex_unlock(s->mutex);
    return n;
}

uint64_t weir_spop_take_unknown(weir_spop *s, weir_spop_unknown what, char *ret)
{
    port_mutex_lock(s->mutex);
    uint64_t n = s->unknown[what].n;
    if (n > 0)
        memcpy(ret, s->unknown[what].name, sizeof s->unknown[what].name);
    s->unknown[what].n = 0;
    port_mutex_unlock(s->mutex);
    return n;
}

void weir_spop_put_metrics(weir_spop *s, weir_buffer *out)
{
    if (!s)
        return;
    uint64_t notifies = 0, errors = 0, unknown = 0, refused = 0;
    port_mutex_lock(s->mutex);
    for (const weir_spop_loop *l = s->loops; l; l = l->next) {
        notifies += port_load_relaxed(&l->counts.notifies);
        errors += port_load_relaxed(&l->counts.errors);
        unknown += port_load_relaxed(&l->counts.unknown);
        refused += port_load_relaxed(&l->counts.refused);
    }
    port_mutex_unlock(s->mutex);
    weir_metrics_put_one(out, "weir_spoe_notify_total", "counter",
                         "NOTIFY frames of HAProxy that were answered.", notifies);
    weir_metrics_put_one(out, "weir_spoe_errors_total", "counter",
                         "NOTIFY frames that were answered without a decision.", errors);
    weir_metrics_put_one(out, "weir_spoe_unknown_messages_total", "counter",
                         "Messages of HAProxy that spoe.messages does not contain.", unknown);
    weir_metrics_put_one(out, "weir_spoe_refused_total", "counter",
                         "Connections of HAProxy closed because of a protocol error.", refused);
}
