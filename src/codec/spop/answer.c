/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The variables of a decision. A variable that does not apply is unset, because an earlier message
 * of the same transaction may have set it. */

#include "codec/spop/session.h"

#include "codec/answer/answered.h"
#include "core/check.h"
#include "core/decision.h"
#include "port/assert.h"

#include <stdio.h>

enum { SET_VAR = 1, UNSET_VAR = 2, SET_ARGS = 3, UNSET_ARGS = 2, TXN = 2, ERROR_MAX = 120 };

/* ---- variables ------------------------------------------------------------------------------- */

/* The bits of the variables; those from FIELD on are header fields. */
enum { ALLOWED, RETRY_AFTER, RESET, REMAINING, LIMIT, POLICY, REASON, DELAY, NEXT, ERROR, FIELD };
_Static_assert(
    FIELD == WEIR_DECISION_FIELDS + 4,
    "each field of a decision has a variable, and so have policy, reason, next and error");

/* For string literals: the compiler computes their length. */
#define NAME(name)                                                                                 \
    {                                                                                              \
        name, sizeof(name) - 1                                                                     \
    }

static const weir_slice names[] = {
    [ALLOWED] = NAME("allowed"),
    [RETRY_AFTER] = NAME("retry_after"),
    [RESET] = NAME("reset"),
    [REMAINING] = NAME("remaining"),
    [LIMIT] = NAME("limit"),
    [POLICY] = NAME("policy"),
    [REASON] = NAME("reason"),
    [DELAY] = NAME("delay"),
    [NEXT] = NAME("next"),
    [ERROR] = NAME("error"),
    [FIELD] = NAME("ratelimit"),
    NAME("ratelimit_policy"),
    NAME("ratelimit_limit"),
    NAME("ratelimit_remaining"),
    NAME("ratelimit_reset"),
    NAME("x_ratelimit_limit"),
    NAME("x_ratelimit_remaining"),
    NAME("x_ratelimit_reset"),
    NAME("x_ratelimit_used"),
    NAME("x_ratelimit_resource"),
    NAME("x_ratelimit_limit_requests"),
    NAME("x_ratelimit_remaining_requests"),
    NAME("x_ratelimit_reset_requests"),
    NAME("x_ratelimit_limit_tokens"),
    NAME("x_ratelimit_remaining_tokens"),
    NAME("x_ratelimit_reset_tokens"),
};

enum { NAMES = sizeof names / sizeof names[0] };
_Static_assert(NAMES <= 32, "each variable has a bit");

const char *weir_spop_variable_name(size_t i)
{
    return i < NAMES ? names[i].at : NULL;
}

uint32_t weir_spop_variable(const char *name, size_t len)
{
    for (unsigned i = 0; i < NAMES; i++) {
        if (names[i].len == len && memcmp(names[i].at, name, len) == 0)
            return UINT32_C(1) << i;
    }
    return 0;
}

/* ---- actions --------------------------------------------------------------------------------- */

/* The ACK frame that is being written. */
typedef struct writer {
    weir_spop_writer *to;
    uint32_t variables;
} writer;

static bool wants(const writer *w, unsigned variable)
{
    return w->variables >> variable & 1;
}

static void put_set(const writer *w, weir_slice name)
{
    weir_spop_put_byte(w->to, SET_VAR);
    weir_spop_put_byte(w->to, SET_ARGS);
    weir_spop_put_byte(w->to, TXN);
    weir_spop_put_string(w->to, name.at, name.len);
}

static void set_allowed(const writer *w, bool v)
{
    put_set(w, names[ALLOWED]);
    weir_spop_put_bool(w->to, v);
}

static void set_number(const writer *w, unsigned variable, int64_t v)
{
    if (!wants(w, variable))
        return;
    put_set(w, names[variable]);
    weir_spop_put_int64(w->to, v);
}

static void set_text(const writer *w, unsigned variable, const char *at, size_t len)
{
    if (!wants(w, variable))
        return;
    put_set(w, names[variable]);
    weir_spop_put_text(w->to, at, len);
}

static void unset(const writer *w, unsigned variable)
{
    if (!wants(w, variable))
        return;
    weir_spop_put_byte(w->to, UNSET_VAR);
    weir_spop_put_byte(w->to, UNSET_ARGS);
    weir_spop_put_byte(w->to, TXN);
    weir_spop_put_string(w->to, names[variable].at, names[variable].len);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void describe(const weir_request *r, char *buf)
{
    if (r->status == WEIR_E_ABSENT)
        snprintf(buf, ERROR_MAX, "unknown policy \"%.*s\"", (int)r->rule.len, r->rule.at);
    else if (r->why)
        snprintf(buf, ERROR_MAX, "%s", r->why);
    else if (r->status == WEIR_E_NOMEM)
        snprintf(buf, ERROR_MAX, "the store is out of memory; raise memory.size");
    else if (r->status == WEIR_E_FULL)
        snprintf(buf, ERROR_MAX, "the store is full and refuses new keys (memory.when_full)");
    else
        snprintf(buf, ERROR_MAX, "%s", weir_status_str(r->status));
}

static void put_error(const writer *w, const weir_spop_answer *a, const weir_request *failed)
{
    char text[ERROR_MAX] = "";
    if (a->error)
        snprintf(text, sizeof text, "%s", a->error);
    else
        describe(failed, text);
    for (char *c = text; *c; c++) { /* the name of a policy may be from the client */
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = ' ';
    }
    if (a->refused)
        set_allowed(w, false);
    else
        unset(w, ALLOWED);
    set_text(w, ERROR, text, strlen(text));
    for (unsigned variable = RETRY_AFTER; a->refused && variable < ERROR; variable++)
        unset(w, variable);
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
static void put_field(const writer *w, const weir_answer_field *field)
{
    char name[64];
    size_t len = strlen(field->name);
    uint8_t *begin = w->to->at;
    WEIR_ASSERT(len <= sizeof name);
    for (size_t i = 0; i < len; i++) {
        char c = field->name[i];
        name[i] = c == '-' ? '_' : weir_lower(c);
    }
    if (!(w->variables & weir_spop_variable(name, len)))
        return;
    put_set(w, (weir_slice){name, len});
    weir_spop_put_text(w->to, field->value.at, field->value.len);
    if (w->to->full) {
        w->to->at = begin;
        w->to->full = false;
    }
}

/* Sets the variables of the header fields, but for Retry-After, which is a number. */
static void put_fields(const writer *w, const weir_spop_answer *a, const weir_request *shown,
                       int64_t now_ns)
{
    static const char retry_after[] = "Retry-After";
    weir_answered answered[WEIR_SPOP_DECIDED_MAX];
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    size_t n = 0, at = 0;
    if (w->variables >> FIELD == 0)
        return;
    for (size_t i = 0; i < a->len; i++) {
        const weir_request *r = &a->requests[i];
        if (r->status != WEIR_OK)
            continue;
        if (r == shown)
            at = n;
        answered[n++] = weir_answered_of(r, r->rule, &a->answer);
    }
    unsigned headers = shown->answer ? shown->answer->headers : 0; /* the policy's come first */
    if (headers == 0)
        headers = a->answer.headers ? a->answer.headers : WEIR_HEADERS_DEFAULT;
    n = weir_answer_fields(headers, answered, n, at, now_ns, fields, buf);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, retry_after) != 0)
            put_field(w, &fields[i]);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* All requests are allowed. */
static int64_t longest_delay_ns(const weir_spop_answer *a)
{
    int64_t longest = 0;
    for (size_t i = 0; i < a->len; i++) {
        if (a->requests[i].decision.delay_ns > longest)
            longest = a->requests[i].decision.delay_ns;
    }
    return longest;
}

static void put_decision(const writer *w, const weir_spop_answer *a, const weir_request *r,
                         int64_t now_ns)
{
    const weir_decision *d = &r->decision;
    const weir_answered answered = weir_answered_of(r, r->rule, &a->answer);
    bool ends = !d->never; /* waiting helps */
    const char *reason = weir_reason_word(r->reason);
    set_allowed(w, d->allowed);
    if (ends) {
        set_number(w, RETRY_AFTER,
                   d->allowed ? 0 : weir_answer_wait_s(&answered, d->retry_after_ns));
        set_number(w, RESET, weir_s_ceil(d->reset_after_ns));
    } else {
        unset(w, RETRY_AFTER);
        unset(w, RESET);
    }
    set_number(w, REMAINING, d->remaining);
    set_number(w, LIMIT, d->limit);
    set_text(w, POLICY, r->rule.at, r->rule.len);
    set_text(w, REASON, reason, strlen(reason));
    set_number(w, DELAY, d->allowed ? weir_ms_ceil(longest_delay_ns(a)) : 0);
    if (r->next_ns != WEIR_NEXT_UNKNOWN && r->next_ns < INT64_MAX)
        set_number(w, NEXT, weir_s_ceil(r->next_ns));
    else
        unset(w, NEXT);
    unset(w, ERROR);
    put_fields(w, a, r, now_ns);
}

bool weir_spop_put_answer(weir_buffer *out, size_t frame_max, const weir_spop_answer *a,
                          int64_t now_ns)
{
    WEIR_ASSERT(frame_max >= WEIR_SPOP_FRAME_MIN && a->len <= WEIR_SPOP_DECIDED_MAX);
    const weir_request *failed, *shown = find_shown(a, &failed);
    unsigned flags = WEIR_SPOP_FIN | (a->aborted ? WEIR_SPOP_ABORT : 0U);
    bool errs = (a->error || failed) && (!shown || shown->decision.allowed);
    weir_spop_writer to =
        weir_spop_begin(out, frame_max, WEIR_SPOP_ACK, flags, a->stream_id, a->frame_id);
    const writer w = {&to, a->variables | UINT32_C(1) << ALLOWED};
    if (errs)
        put_error(&w, a, failed);
    else if (shown)
        put_decision(&w, a, shown, now_ns);
    weir_spop_end(out, &to);
    return !errs;
}
