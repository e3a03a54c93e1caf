/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The directive `weir_daemon`: asks a daemon about a request, and applies its answers. */

#include "decide.h"

#include "core/decision.h"
#include "port/assert.h"

/* One question to the daemon: all enforced limits, or one shadow limit. */
typedef struct part {
    weir_ngx_ask ask;
    struct asked *of; /* NULL: not sent yet */
    weir_ngx_question question;
} part;

/* All questions about a request. */
typedef struct asked {
    ngx_http_request_t *r;
    weir_ngx_ctx *ctx;
    weir_ngx_daemon *daemon;
    size_t left; /* questions without an answer */
    size_t len;
    part parts[]; /* the first one may be that of the enforced limits */
} asked;

/* ---- answers --------------------------------------------------------------------------------- */

/* The daemon reports the decision of one limit, which outranks those of the others, and the longest
 * delay of all limits. If several have a queue, the smallest delay= is subtracted.
 * Returns the index of the limit that denies, or q->len. */
static size_t put_decisions(weir_ngx_question *q, const weir_ngx_ask *ask)
{
    int64_t delay_ns = 0;
    WEIR_ASSERT(ask->answer == WEIR_NGX_ANSWERED && ask->index < q->len);
    for (size_t i = 0; i < q->len; i++) {
        q->requests[i].decision = (weir_decision){.allowed = true, .remaining = INT64_MAX};
        q->next_ns[i] = WEIR_NEXT_UNKNOWN;
        if (q->limits[i]->queue)
            delay_ns = ngx_max(delay_ns, weir_ngx_delay(q->limits[i], ask->decision.delay_ns));
    }
    q->requests[ask->index].decision = ask->decision;
    q->requests[ask->index].decision.delay_ns = delay_ns;
    if (weir_next_is_now(&q->limits[ask->index]->policy, &ask->decision))
        q->next_ns[ask->index] = 0;
    else if (!ask->decision.allowed && q->requests[ask->index].cost == 1)
        q->next_ns[ask->index] = ask->decision.retry_after_ns;
    if (q->limits[ask->index]->policy.layers > 1)
        q->requests[ask->index].decision.layer = WEIR_LAYERS_MAX; /* unknown */
    return ask->decision.allowed ? q->len : ask->index;
}

static ngx_int_t enforce(const asked *a, part *p)
{
    weir_ngx_question *q = &p->question;
    if (p->ask.answer == WEIR_NGX_ANSWERED)
        return weir_ngx_apply(a->r, a->ctx, q, put_decisions(q, &p->ask));
    for (size_t i = 0; i < q->len; i++)
        weir_ngx_count(q->limits[i], WEIR_NGX_FAILED);
    weir_ngx_on_error on_error = weir_ngx_daemon_on_error(a->daemon);
    if (on_error == WEIR_NGX_ON_ERROR_LOCAL)
        return weir_ngx_enforce(a->r, a->ctx, q);
    return weir_ngx_by_error(a->ctx, q->limits[0], on_error == WEIR_NGX_ON_ERROR_CLOSED);
}

static void shadow(const asked *a, part *p)
{
    weir_ngx_question *q = &p->question;
    if (p->ask.answer == WEIR_NGX_ANSWERED) {
        (void)put_decisions(q, &p->ask);
        const weir_ngx_outcome outcome = weir_ngx_outcome_of(q, 0);
        weir_ngx_note(a->r, a->ctx, &outcome);
    } else {
        weir_ngx_count(q->limits[0], WEIR_NGX_FAILED);
    }
}

static void on_answer(weir_ngx_ask *ask)
{
    part *answered = ask->data;
    asked *a = answered->of;
    ngx_int_t rc = NGX_DECLINED;
    WEIR_ASSERT(a->left > 0);
    if (--a->left > 0)
        return;
    for (size_t i = 0; i < a->len; i++) {
        part *p = &a->parts[i];
        if (p->question.limits[0]->shadow)
            shadow(a, p);
        else
            rc = enforce(a, p);
    }
    weir_ngx_resume(a->r, a->ctx, rc);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void cancel(void *data)
{
    asked *a = data;
    for (size_t i = 0; i < a->len && a->parts[i].of; i++)
        weir_ngx_daemon_cancel(&a->parts[i].ask);
}

static ngx_int_t send_part(asked *a, part *p)
{
    const weir_ngx_question *q = &p->question;
    weir_ngx_ask_limit limits[WEIR_TAKE_MANY_MAX];
    for (size_t i = 0; i < q->len; i++) {
        const ngx_str_t *text = &q->limits[i]->text;
        const weir_store_request *one = &q->requests[i];
        limits[i] = (weir_ngx_ask_limit){.text = {(const char *)text->data, text->len},
                                         .key = {one->key, one->key_len},
                                         .cost = one->cost,
                                         .keep = one->keep};
    }
    p->of = a;
    p->ask = (weir_ngx_ask){.done = on_answer, .data = p};
    return weir_ngx_daemon_ask(a->daemon, &p->ask, limits, q->len, a->r->connection->log);
}

ngx_int_t weir_ngx_ask_daemon(ngx_http_request_t *r, weir_ngx_ctx *ctx, weir_ngx_daemon *daemon,
                              const weir_ngx_question *enforced, const weir_ngx_question *shadows)
{
    size_t len = shadows->len + (enforced->len > 0);
    asked *a = ngx_pcalloc(r->pool, sizeof *a + len * sizeof(part));
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, 0);
    if (!a || !cleanup)
        return NGX_ERROR;
    *a = (asked){.r = r, .ctx = ctx, .daemon = daemon, .left = len};
    cleanup->handler = cancel;
    cleanup->data = a;
    if (enforced->len > 0)
        a->parts[a->len++].question = *enforced;
    for (size_t i = 0; i < shadows->len; i++)
        a->parts[a->len++].question = (weir_ngx_question){
            .len = 1, .limits = {shadows->limits[i]}, .requests = {shadows->requests[i]}};
    for (size_t i = 0; i < a->len; i++) {
        if (send_part(a, &a->parts[i]) != NGX_OK)
            return NGX_ERROR;
    }
    return NGX_OK;
}

/* ---- configuration --------------------------------------------------------------------------- */

char *weir_ngx_daemon_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    bool off = weir_ngx_is_off(cf);
    (void)cmd;
    if (loc->daemon != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    if (!weir_ngx_note_setting(cf, loc, WEIR_NGX_SETTING_DAEMON, off))
        return NGX_CONF_ERROR;
    loc->daemon = off ? NULL : weir_ngx_daemon_conf(cf);
    return off || loc->daemon ? NGX_CONF_OK : NGX_CONF_ERROR;
}
