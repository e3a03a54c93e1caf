/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each flavour is a function that appends its lines. Times are rounded up, so that a client that
 * waits is not denied again. The nginx module compiles this file without the rest of the codec. */

#include "codec/answer/fields.h"

#include "core/check.h"
#include "core/units.h"
#include "port/assert.h"
#include "port/duration.h"

#include <string.h>

#define SECOND_NS INT64_C(1000000000)

_Static_assert(WEIR_ANSWER_ROOM >= WEIR_ANSWER_POLICY_MAX + WEIR_RATELIMIT_POLICY_ROOM +
                                       WEIR_LAYERS_MAX * WEIR_RATELIMIT_UNIT_ROOM +
                                       WEIR_ANSWERED_MAX * (WEIR_RATELIMIT_FIELD_ROOM + 2) +
                                       WEIR_ANSWER_FIELDS_MAX * 64 + WEIR_RATELIMIT_NAME_MAX,
               "all header lines fit: no name with a number is longer than 64 bytes");

/* The decisions of an answer, and the end of what is written. */
typedef struct writer {
    const weir_answered *a;
    size_t n, shown;
    int64_t now_ns;
    char *at;
    weir_answer_field *fields; /* NULL: only the lines are wanted */
    size_t len;
} writer;

/* ---- lines ----------------------------------------------------------------------------------- */

/* Copies a string literal: the compiler computes its length. */
#define put(w, text) ((w)->at = (char *)memcpy((w)->at, text, sizeof(text) - 1) + sizeof(text) - 1)

static void put_number(writer *w, int64_t v)
{
    w->at += weir_i64_print(w->at, v);
}

static void note_field(writer *w, const char *name)
{
    if (w->fields)
        w->fields[w->len++] = (weir_answer_field){name, {w->at, 0}};
}

/* Begins a line; `name` is a string literal. */
#define begin(w, name) (put(w, name ": "), note_field(w, name))

static void end(writer *w)
{
    if (w->fields) {
        weir_slice *value = &w->fields[w->len - 1].value;
        value->len = (size_t)(w->at - value->at);
    }
    put(w, "\r\n");
}

#define add_number(w, name, v) (begin(w, name), put_number(w, v), end(w))

/* ---- which decision -------------------------------------------------------------------------- */

/* Whether decision i comes before decision j: the shown one is the first, then denials, then the
 * order in which one decision represents several. */
static bool comes_before(const writer *w, size_t i, size_t j)
{
    const weir_decision *a = w->a[i].decision, *b = w->a[j].decision;
    if (i == w->shown || j == w->shown)
        return i == w->shown;
    return a->allowed != b->allowed ? b->allowed : weir_outranks(a, b);
}

static bool same_name(const weir_answered *a, const weir_answered *b)
{
    return a->name.len == b->name.len &&
           (a->name.len == 0 || memcmp(a->name.at, b->name.at, a->name.len) == 0);
}

/* Whether a decision is written by the fields that list policies. A name occurs once in a list: of
 * several decisions on one policy, the one that comes before the others is written. */
static bool is_listed(const writer *w, size_t i)
{
    if (w->n == 1)
        return true;
    for (size_t j = 0; j < w->n; j++) {
        if (j == i || !same_name(&w->a[i], &w->a[j]))
            continue;
        if (comes_before(w, j, i) || (j < i && !comes_before(w, i, j)))
            return false;
    }
    return true;
}

/* The decision at place k of a list: the shown one is the first, the others keep their order. */
static size_t at_place(const writer *w, size_t k)
{
    return k == 0 ? w->shown : k <= w->shown ? k - 1 : k;
}

static bool knows_layer(const weir_answered *a)
{
    return a->decision->layer < a->policy->layers;
}

/* ---- flavours -------------------------------------------------------------------------------- */

/* Appends the layers of a policy to RateLimit-Policy. */
static void put_layers(writer *w, const weir_answered *a)
{
    for (uint32_t layer = 0; layer < weir_ratelimit_layers(a->policy); layer++) {
        if (layer > 0)
            put(w, ", ");
        w->at += weir_ratelimit_policy_item(w->at, a->name, a->policy, layer,
                                            a->unit == WEIR_UNIT_BYTES);
    }
}

static void add_ratelimit_policy(writer *w)
{
    begin(w, "RateLimit-Policy");
    const char *first = w->at;
    for (size_t k = 0; k < w->n; k++) {
        size_t i = at_place(w, k);
        if (!is_listed(w, i))
            continue;
        char *before = w->at;
        if (k > 0)
            put(w, ", ");
        put_layers(w, &w->a[i]);
        if (w->at - first > WEIR_ANSWER_POLICY_MAX)
            w->at = before;
    }
    end(w);
}

static void add_ratelimit(writer *w)
{
    char *before = w->at;
    begin(w, "RateLimit");
    char *first = w->at;
    for (size_t k = 0; k < w->n; k++) {
        const weir_answered *a = &w->a[at_place(w, k)];
        if (!knows_layer(a) || !is_listed(w, at_place(w, k)))
            continue;
        if (w->at > first)
            put(w, ", ");
        w->at += weir_ratelimit_value(w->at, a);
    }
    if (w->at > first) {
        end(w);
        return;
    }
    w->at = before; /* an empty list is no field */
    w->len -= w->fields != NULL;
}

/* The window of the deciding layer in seconds; 0: it is unknown, or varies. */
static int64_t shown_window(const weir_answered *a)
{
    const weir_policy *p = a->policy;
    if (!knows_layer(a))
        return 0;
    return weir_ratelimit_window(&p->layer[weir_ratelimit_layer(p, a->decision->layer)]);
}

static void add_ietf_07(writer *w)
{
    const weir_answered *a = &w->a[w->shown];
    int64_t window_s = shown_window(a);
    begin(w, "RateLimit-Policy");
    put_number(w, a->decision->limit);
    if (window_s > 0) {
        put(w, ";w=");
        put_number(w, window_s);
    }
    end(w);
    begin(w, "RateLimit");
    put(w, "limit=");
    put_number(w, a->decision->limit);
    put(w, ", remaining=");
    put_number(w, a->decision->remaining);
    if (weir_answer_resets(a)) {
        put(w, ", reset=");
        put_number(w, weir_ratelimit_reset(a));
    }
    end(w);
}

static void add_ietf_03(writer *w)
{
    const weir_answered *a = &w->a[w->shown];
    int64_t window_s = shown_window(a);
    begin(w, "RateLimit-Limit");
    put_number(w, a->decision->limit);
    if (window_s > 0) {
        put(w, ", ");
        put_number(w, a->decision->limit);
        put(w, ";w=");
        put_number(w, window_s);
    }
    end(w);
    add_number(w, "RateLimit-Remaining", a->decision->remaining);
    if (weir_answer_resets(a))
        add_number(w, "RateLimit-Reset", weir_ratelimit_reset(a));
}

static void add_limit(writer *w)
{
    const weir_decision *d = w->a[w->shown].decision;
    add_number(w, "X-RateLimit-Limit", d->limit);
    add_number(w, "X-RateLimit-Remaining", d->remaining);
}

static void add_x_ratelimit(writer *w)
{
    const weir_answered *a = &w->a[w->shown];
    add_limit(w);
    if (weir_answer_resets(a))
        add_number(w, "X-RateLimit-Reset", weir_answer_wait_s(a, a->decision->reset_after_ns));
}

/* The sum of two times that are not negative; INT64_MAX if it is larger. */
static int64_t later(int64_t now_ns, int64_t after_ns)
{
    return now_ns > INT64_MAX - after_ns ? INT64_MAX : now_ns + after_ns;
}

static void add_github(writer *w)
{
    const weir_answered *a = &w->a[w->shown];
    const weir_decision *d = a->decision;
    add_limit(w);
    if (weir_answer_resets(a))
        add_number(w, "X-RateLimit-Reset",
                   weir_s_ceil(later(w->now_ns, d->reset_after_ns)) +
                       weir_answer_spread_s(a, d->reset_after_ns));
    add_number(w, "X-RateLimit-Used", d->limit > d->remaining ? d->limit - d->remaining : 0);
    begin(w, "X-RateLimit-Resource");
    if (a->name.len == 0) {
        put(w, "limit");
    } else {
        memcpy(w->at, a->name.at, a->name.len);
        w->at += a->name.len;
    }
    end(w);
}

/* Writes the time until the quota is full. */
static void put_duration(writer *w, const weir_answered *a)
{
    int64_t reset_ns = a->decision->reset_after_ns, most_s = (INT64_MAX - reset_ns) / SECOND_NS;
    int64_t spread_s = weir_answer_spread_s(a, reset_ns);
    reset_ns += (spread_s < most_s ? spread_s : most_s) * SECOND_NS;
    w->at += weir_duration_print(w->at, reset_ns, WEIR_DURATION_GO);
}

/* Finds the decision that comes first of those with a unit. Returns n if there is none. */
static size_t first_of_unit(const writer *w, weir_quota_unit unit)
{
    size_t first = w->n;
    for (size_t i = 0; i < w->n; i++) {
        weir_quota_unit own = w->a[i].unit == WEIR_UNIT_UNSET ? WEIR_UNIT_REQUESTS : w->a[i].unit;
        if (own == unit && (first == w->n || comes_before(w, i, first)))
            first = i;
    }
    return first;
}

/* Adds the fields of a unit, "requests" or "tokens". */
#define add_openai_unit(w, i, suffix)                                                              \
    do {                                                                                           \
        const weir_answered *a = &(w)->a[i];                                                       \
        add_number(w, "X-RateLimit-Limit-" suffix, a->decision->limit);                            \
        add_number(w, "X-RateLimit-Remaining-" suffix, a->decision->remaining);                    \
        if (weir_answer_resets(a)) {                                                               \
            begin(w, "X-RateLimit-Reset-" suffix);                                                 \
            put_duration(w, a);                                                                    \
            end(w);                                                                                \
        }                                                                                          \
    } while (0)

static void add_openai(writer *w)
{
    size_t requests = first_of_unit(w, WEIR_UNIT_REQUESTS), tokens;
    if (requests < w->n)
        add_openai_unit(w, requests, "Requests");
    tokens = first_of_unit(w, WEIR_UNIT_TOKENS);
    if (tokens < w->n)
        add_openai_unit(w, tokens, "Tokens");
}

static void add_all(writer *w, unsigned headers)
{
    WEIR_ASSERT(w->n >= 1 && w->n <= WEIR_ANSWERED_MAX && w->shown < w->n);
    if (headers & WEIR_HEADERS_IETF) {
        add_ratelimit_policy(w);
        add_ratelimit(w);
    }
    if (headers & WEIR_HEADERS_IETF_07)
        add_ietf_07(w);
    if (headers & WEIR_HEADERS_IETF_03)
        add_ietf_03(w);
    if (headers & WEIR_HEADERS_GITHUB)
        add_github(w);
    else if (headers & WEIR_HEADERS_X_RATELIMIT)
        add_x_ratelimit(w);
    if (headers & WEIR_HEADERS_OPENAI)
        add_openai(w);
    const weir_answered *a = &w->a[w->shown];
    if (!a->decision->allowed && weir_answer_resets(a))
        add_number(w, "Retry-After", weir_answer_wait_s(a, a->decision->retry_after_ns));
}

size_t weir_answer_fields(unsigned headers, const weir_answered *a, size_t n, size_t shown,
                          int64_t now_ns, weir_answer_field *ret, char *buf)
{
    writer w = {a, n, shown, now_ns, buf, ret, 0};
    add_all(&w, headers);
    WEIR_ASSERT(w.len <= WEIR_ANSWER_FIELDS_MAX && w.at <= buf + WEIR_ANSWER_ROOM);
    return w.len;
}

size_t weir_answer_lines(unsigned headers, const weir_answered *a, size_t n, size_t shown,
                         int64_t now_ns, char *buf)
{
    writer w = {a, n, shown, now_ns, buf, NULL, 0};
    add_all(&w, headers);
    WEIR_ASSERT(w.at <= buf + WEIR_ANSWER_ROOM);
    return (size_t)(w.at - buf);
}

/* ---- configuration --------------------------------------------------------------------------- */

void weir_answer_merge(weir_answer *a, const weir_answer *next)
{
    if (!next)
        return;
    if (a->headers == 0)
        a->headers = next->headers;
    if (a->retry_spread == 0)
        a->retry_spread = next->retry_spread;
    if (a->unit == WEIR_UNIT_UNSET)
        a->unit = next->unit;
    if (a->denied_status == 0)
        a->denied_status = next->denied_status;
    if (!a->denied_type)
        a->denied_type = next->denied_type;
    if (!a->denied_body)
        a->denied_body = next->denied_body;
}

static const char *const flavour_names[] = {"ietf",   "ietf-03", "x-ratelimit", "github",
                                            "openai", "none",    "ietf-07"};

const char *weir_answer_flavour_name(size_t i)
{
    return i < sizeof flavour_names / sizeof flavour_names[0] ? flavour_names[i] : NULL;
}

unsigned weir_answer_flavour(const char *name, size_t len)
{
    for (unsigned i = 0; i < sizeof flavour_names / sizeof flavour_names[0]; i++) {
        if (strlen(flavour_names[i]) == len && memcmp(flavour_names[i], name, len) == 0)
            return 1U << i;
    }
    return 0;
}

const char *weir_answer_check(unsigned headers)
{
    const unsigned both = WEIR_HEADERS_X_RATELIMIT | WEIR_HEADERS_GITHUB;
    if (headers & WEIR_HEADERS_NONE && headers != WEIR_HEADERS_NONE)
        return "none cannot be combined with other headers";
    const unsigned drafts = WEIR_HEADERS_IETF | WEIR_HEADERS_IETF_07;
    if ((headers & drafts) == drafts)
        return "ietf and ietf-07 give RateLimit different forms: use one of them";
    if ((headers & both) == both)
        return "x-ratelimit and github give X-RateLimit-Reset different meanings: use one of them";
    return NULL;
}
