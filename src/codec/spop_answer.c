/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The variables of a decision. A variable that does not apply is unset, because an earlier message
 * of the same transaction may have set it. */

#include "codec/spop_answer.h"

#include "codec/answer_fields.h"
#include "codec/decision.h"
#include "core/check.h"
#include "port/assert.h"

#include <stdio.h>

enum { SET_VAR = 1, UNSET_VAR = 2, SET_ARGS = 3, UNSET_ARGS = 2, TXN = 2, ERROR_MAX = 120 };

/* ---- actions --------------------------------------------------------------------------------- */

static void put_set(weir_spop_writer *w, const char *name, size_t len)
{
    weir_spop_put_byte(w, SET_VAR);
    weir_spop_put_byte(w, SET_ARGS);
    weir_spop_put_byte(w, TXN);
    weir_spop_put_string(w, name, len);
}

/* For string literals: the compiler computes their length. */
#define set(w, name) put_set(w, name, sizeof(name) - 1)

static void put_unset(weir_spop_writer *w, const char *name, size_t len)
{
    weir_spop_put_byte(w, UNSET_VAR);
    weir_spop_put_byte(w, UNSET_ARGS);
    weir_spop_put_byte(w, TXN);
    weir_spop_put_string(w, name, len);
}

#define unset(w, name) put_unset(w, name, sizeof(name) - 1)

/* ---- errors ---------------------------------------------------------------------------------- */

static void describe(const weir_request *r, char *buf)
{
    int shown = r->rule.len < WEIR_RULE_NAME_MAX ? (int)r->rule.len : WEIR_RULE_NAME_MAX;
    if (r->status == WEIR_E_ABSENT)
        snprintf(buf, ERROR_MAX, "unknown policy \"%.*s\"", shown, r->rule.at);
    else if (r->why)
        snprintf(buf, ERROR_MAX, "%s", r->why);
    else if (r->status == WEIR_E_NOMEM)
        snprintf(buf, ERROR_MAX, "the store is out of memory; raise memory.size");
    else if (r->status == WEIR_E_FULL)
        snprintf(buf, ERROR_MAX, "the store is full and refuses new keys (memory.when_full)");
    else
        snprintf(buf, ERROR_MAX, "%s", weir_status_str(r->status));
}

static void put_error(weir_spop_writer *w, const weir_spop_answer *a, const weir_request *failed)
{
    char text[ERROR_MAX] = "";
    if (a->error)
        snprintf(text, sizeof text, "%s", a->error);
    else
        describe(failed, text);
    if (a->refused) {
        set(w, "allowed");
        weir_spop_put_bool(w, false);
    } else {
        unset(w, "allowed");
    }
    set(w, "error");
    weir_spop_put_text(w, text, strlen(text));
    if (!a->refused)
        return;
    unset(w, "retry_after");
    unset(w, "reset");
    unset(w, "remaining");
    unset(w, "limit");
    unset(w, "policy");
    unset(w, "reason");
    unset(w, "delay");
}

/* ---- which decision represents a frame ------------------------------------------------------- */

static bool is_enforced(const weir_request *r)
{
    return r->reason != WEIR_BY_SHADOW && r->reason != WEIR_BY_ALLOW_LIST;
}

/* Whether the decision of `a` represents the frame rather than that of `b`: a denial does, and then
 * an enforced one, as in weir_service_take_all(). */
static bool represents(const weir_request *a, const weir_request *b)
{
    if (a->decision.allowed != b->decision.allowed)
        return !a->decision.allowed;
    if (a->decision.allowed && is_enforced(a) != is_enforced(b))
        return is_enforced(a);
    return weir_outranks(&a->decision, &b->decision);
}

/* Finds the request that represents the frame. Returns NULL if none was decided.
 *  ret_failed  a request that was not decided; NULL: none. */
static const weir_request *find_shown(const weir_spop_answer *a, const weir_request **ret_failed)
{
    const weir_request *shown = NULL;
    *ret_failed = NULL;
    for (size_t i = 0; i < a->len; i++) {
        const weir_request *r = &a->requests[i];
        if (r->status != WEIR_OK)
            *ret_failed = *ret_failed ? *ret_failed : r;
        else if (!shown || represents(r, shown))
            shown = r;
    }
    return shown;
}

/* ---- header fields --------------------------------------------------------------------------- */

/* Sets a variable that is a header field: its name is in lower case, with '_' instead of '-'.
 * Leaves it out if it does not fit. */
static void put_field(weir_spop_writer *w, const weir_answer_field *field)
{
    char name[64];
    size_t len = strlen(field->name);
    uint8_t *begin = w->at;
    WEIR_ASSERT(len <= sizeof name);
    for (size_t i = 0; i < len; i++) {
        char c = field->name[i];
        name[i] = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    put_set(w, name, len);
    weir_spop_put_text(w, field->value.at, field->value.len);
    if (w->full) {
        w->at = begin;
        w->full = false;
    }
}

/* Sets the variables of the header fields, but for Retry-After, which is a number. */
static void put_fields(weir_spop_writer *w, const weir_spop_answer *a, const weir_request *shown,
                       int64_t now_ns)
{
    static const char retry_after[] = "Retry-After";
    weir_answered answered[WEIR_SPOP_DECIDED_MAX];
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    size_t n = 0, at = 0;
    for (size_t i = 0; i < a->len; i++) {
        const weir_request *r = &a->requests[i];
        if (r->status != WEIR_OK)
            continue;
        if (r == shown)
            at = n;
        answered[n++] = (weir_answered){.name = r->rule,
                                        .policy = r->policy,
                                        .decision = &r->decision,
                                        .unit = r->answer ? r->answer->unit : WEIR_UNIT_UNSET,
                                        .resets = r->reason != WEIR_BY_DENY_LIST};
    }
    unsigned headers = shown->answer ? shown->answer->headers : 0; /* the policy's come first */
    if (headers == 0)
        headers = a->headers ? a->headers : WEIR_HEADERS_DEFAULT;
    n = weir_answer_fields(headers, answered, n, at, now_ns, fields, buf);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, retry_after) != 0)
            put_field(w, &fields[i]);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

static int64_t longest_delay_ns(const weir_spop_answer *a)
{
    int64_t longest = 0;
    for (size_t i = 0; i < a->len; i++) {
        const weir_request *r = &a->requests[i];
        if (r->status == WEIR_OK && r->decision.delay_ns > longest)
            longest = r->decision.delay_ns;
    }
    return longest;
}

static void put_decision(weir_spop_writer *w, const weir_spop_answer *a, const weir_request *r,
                         int64_t now_ns)
{
    const weir_decision *d = &r->decision;
    bool ends = !d->never; /* waiting helps */
    const char *reason = weir_reason_word(r->reason);
    set(w, "allowed");
    weir_spop_put_bool(w, d->allowed);
    if (ends) {
        set(w, "retry_after");
        weir_spop_put_int64(w, d->allowed ? 0 : weir_s_ceil(d->retry_after_ns));
        set(w, "reset");
        weir_spop_put_int64(w, weir_s_ceil(d->reset_after_ns));
    } else {
        unset(w, "retry_after");
        unset(w, "reset");
    }
    set(w, "remaining");
    weir_spop_put_int64(w, d->remaining);
    set(w, "limit");
    weir_spop_put_int64(w, d->limit);
    set(w, "policy");
    weir_spop_put_text(w, r->rule.at, r->rule.len);
    set(w, "reason");
    weir_spop_put_text(w, reason, strlen(reason));
    set(w, "delay");
    weir_spop_put_int64(w, d->allowed ? weir_ms_ceil(longest_delay_ns(a)) : 0);
    unset(w, "error");
    put_fields(w, a, r, now_ns);
}

bool weir_spop_put_answer(weir_buffer *out, size_t frame_max, const weir_spop_answer *a,
                          int64_t now_ns)
{
    const weir_request *failed, *shown = find_shown(a, &failed);
    unsigned flags = WEIR_SPOP_FIN | (a->aborted ? WEIR_SPOP_ABORT : 0U);
    bool errs = (a->error || failed) && (!shown || shown->decision.allowed);
    weir_spop_writer w =
        weir_spop_begin(out, frame_max, WEIR_SPOP_ACK, flags, a->stream_id, a->frame_id);
    if (errs)
        put_error(&w, a, failed);
    else if (shown)
        put_decision(&w, a, shown, now_ns);
    weir_spop_end(out, &w);
    return !errs;
}
