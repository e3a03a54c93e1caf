/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides a request: finds the limits that apply, makes the key of each counter, and charges all of
 * them at once. Nothing is kept between the calls of a pending request: the repeated call matches
 * the request again. */

#include "limitador/internal.h"
#include "port/assert.h"

#include <inttypes.h>
#include <stdio.h>

/* The most limits, with and without state, that may apply to a request. */
enum { APPLYING_MAX = WEIR_BATCH_MAX };

/* A limit that applies to the request. */
typedef struct counter {
    const limitador_limit *limit;
    size_t request; /* its index in matched.requests; NO_STATE: none */
    uint64_t remaining;
    int64_t expires_ns;
} counter;

enum { NO_STATE = WEIR_LIMITADOR_COUNTERS_MAX };

typedef struct matched {
    weir_limitador_loop *loop;
    const weir_limitador_request *from;
    weir_rls_response *response;
    counter counters[APPLYING_MAX];
    size_t len;
    weir_request requests[WEIR_LIMITADOR_COUNTERS_MAX];
    size_t requests_len;
    size_t key_at[WEIR_LIMITADOR_COUNTERS_MAX +
                  1]; /* offsets in loop->keys; the last one is its end */
    bool limited;     /* by a limit without state */
} matched;

static const char no_value[] = "a condition or a variable of a limit has no value for this request",
                  too_many[] = "more than 16 limits apply to the request",
                  long_key[] = "the values of a limit's variables exceed 65536 bytes";

/* Makes the response a failure. Returns false. */
static bool fail(matched *m, weir_rls_failure failure, const char *why)
{
    m->response->failure = failure;
    m->response->why = why;
    return false;
}

static uint64_t clamp(uint64_t x)
{
    return x < WEIR_COST_MAX ? x : WEIR_COST_MAX;
}

/* ---- matching -------------------------------------------------------------------------------- */

static weir_cel_input input_of(const matched *m, const limitador_limit *l)
{
    const weir_limitador_limit *limit = &l->view.limit;
    weir_cel_input in = {.descriptors = m->from->descriptors,
                         .descriptors_len = m->from->descriptors_len,
                         .scratch = m->loop->scratch,
                         .scratch_len = sizeof m->loop->scratch};
    if (limit->name)
        in.limit_name = (weir_slice){limit->name, strlen(limit->name)};
    if (limit->id)
        in.limit_id = (weir_slice){limit->id, strlen(limit->id)};
    return in;
}

/* Whether the conditions of a limit are true. A key that no entry has makes a condition false. */
static weir_cel_result applies(const matched *m, const limitador_limit *l, bool *ret)
{
    *ret = !l->never;
    for (size_t i = 0; i < l->view.limit.conditions_len && *ret; i++) {
        weir_cel_input in = input_of(m, l);
        weir_cel_result r = weir_cel_test(l->conditions[i], &in, ret);
        if (r == WEIR_CEL_ABSENT)
            *ret = false;
        else if (r != WEIR_CEL_OK)
            return r;
    }
    return WEIR_CEL_OK;
}

/* Appends to loop->keys. Returns false if memory is exhausted. */
static bool put_bytes(limitador_keys *k, const char *bytes, size_t n)
{
    if (n > k->capacity - k->len) {
        size_t capacity = 2 * (k->len + n) + 256;
        char *at = port_zalloc(capacity, 1);
        if (!at)
            return false;
        if (k->len > 0)
            memcpy(at, k->at, k->len);
        port_free(k->at);
        k->at = at;
        k->capacity = capacity;
    }
    if (n > 0)
        memcpy(k->at + k->len, bytes, n);
    k->len += n;
    return true;
}

/* Appends a value to a key. */
static bool put_value(limitador_keys *k, weir_slice value)
{
    size_t begin = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] != '\\' && value.at[i] != '|')
            continue;
        if (!put_bytes(k, value.at + begin, i - begin) || !put_bytes(k, "\\", 1))
            return false;
        begin = i;
    }
    return put_bytes(k, value.at + begin, value.len - begin);
}

/* Appends the key of a limit's counter to loop->keys. Returns WEIR_CEL_ABSENT if a variable has no
 * value: the limit does not apply. */
static weir_cel_result put_key(const matched *m, const limitador_limit *l)
{
    limitador_keys *k = &m->loop->keys;
    size_t begin = k->len;
    weir_cel_input in = input_of(m, l);
    bool simple = l->view.limit.variables_len == 0, good = true;
    for (size_t i = 0; i < l->view.limit.variables_len && good; i++) {
        weir_slice value;
        in.scratch_used = 0;
        weir_cel_result r = weir_cel_text(l->variables[i], &in, &value);
        if (r != WEIR_CEL_OK)
            return r;
        good = (i == 0 || put_bytes(k, "|", 1)) && put_value(k, value);
    }
    if (k->len == begin && good)
        good = put_bytes(k, simple ? LIMITADOR_KEY_SIMPLE : LIMITADOR_KEY_EMPTY, 1);
    return good ? WEIR_CEL_OK : WEIR_CEL_FAILED;
}

/* Adds the counter of a limit that applies. Returns false if the request cannot be decided. */
static bool add_counter(matched *m, const limitador_limit *l)
{
    if (m->len == APPLYING_MAX || (l->view.rule && m->requests_len == WEIR_LIMITADOR_COUNTERS_MAX))
        return fail(m, WEIR_RLS_UNAVAILABLE, too_many);
    counter *c = &m->counters[m->len++];
    *c = (counter){.limit = l, .request = NO_STATE};
    if (!l->view.rule) {
        bool over = m->from->delta > l->view.limit.max_value;
        m->limited |= over;
        c->remaining = over ? 0 : l->view.limit.max_value - m->from->delta;
        return true;
    }
    m->limited |= m->from->delta > WEIR_COST_MAX; /* no counter counts so much */
    c->request = m->requests_len;
    m->requests[m->requests_len++] =
        (weir_request){.rule = {l->rule, strlen(l->rule)}, .cost = (int64_t)clamp(m->from->delta)};
    m->key_at[m->requests_len] = m->loop->keys.len;
    return m->key_at[m->requests_len] - m->key_at[m->requests_len - 1] <= WEIR_KEY_MAX ||
           fail(m, WEIR_RLS_REFUSED, long_key);
}

static bool match_limit(matched *m, const limitador_limit *l)
{
    bool applying = false;
    limitador_keys *keys = &m->loop->keys;
    size_t begin = keys->len;
    weir_cel_result r = applies(m, l, &applying);
    if (r == WEIR_CEL_OK && applying)
        r = put_key(m, l);
    if (r == WEIR_CEL_FAILED)
        return fail(m, WEIR_RLS_UNAVAILABLE, no_value);
    applying &= r == WEIR_CEL_OK;
    if (!applying || !l->view.rule)
        keys->len = begin;
    return !applying || add_counter(m, l);
}

/* Finds the counters of the request. Returns false if it cannot be decided. */
static bool match(matched *m)
{
    limitador_limit *const *limits;
    size_t n = limitador_find(m->loop->config, m->from->name_space, &limits);
    m->loop->keys.len = 0;
    for (size_t i = 0; i < n; i++) {
        if (!match_limit(m, limits[i]))
            return false;
    }
    for (size_t i = 0; i < m->requests_len; i++)
        m->requests[i].key =
            (weir_slice){m->loop->keys.at + m->key_at[i], m->key_at[i + 1] - m->key_at[i]};
    return true;
}

/* Removes the counters whose rule is not active: the limiter has newer rules than the loop has
 * limits. */
static void drop_absent(matched *m)
{
    size_t len = 0, requests = 0;
    for (size_t i = 0; i < m->len; i++) {
        counter c = m->counters[i];
        weir_slice key;
        if (c.request != NO_STATE) {
            const weir_request *r = &m->requests[c.request];
            if (weir_service_key(m->loop->service, r, &key) == WEIR_E_ABSENT)
                continue;
            m->requests[requests] = *r;
            c.request = requests++;
        }
        m->counters[len++] = c;
    }
    m->len = len;
    m->requests_len = requests;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Sorts the counters by what they have left; equal ones stay in the order of the file. */
static void sort_counters(matched *m)
{
    for (size_t i = 1; i < m->len; i++) {
        counter c = m->counters[i];
        size_t at = i;
        for (; at > 0 && m->counters[at - 1].remaining > c.remaining; at--)
            m->counters[at] = m->counters[at - 1];
        m->counters[at] = c;
    }
}

/* Copies a name, without characters that a quoted string may not contain. */
static void copy_name(char *to, size_t size, const char *name)
{
    size_t n = 0;
    for (; n < size - 1 && name[n]; n++) {
        unsigned char c = (unsigned char)name[n];
        to[n] = c == '"' ? '\'' : c < 0x20 || c == 0x7F ? ' ' : name[n];
    }
    to[n] = '\0';
}

/* Appends a limit to the value of X-RateLimit-Limit, unless that becomes too long. Returns the new
 * length. */
static size_t put_limit(char *buf, size_t size, size_t at, const weir_limitador_limit *l)
{
    char name[160];
    copy_name(name, sizeof name, l->name ? l->name : "");
    int n = snprintf(buf + at, size - at, ", %" PRIu64 ";w=%" PRIu64 "%s%s%s", l->max_value,
                     l->seconds, l->name ? ";name=\"" : "", name, l->name ? "\"" : "");
    if (at + (size_t)n < size)
        return at + (size_t)n;
    buf[at] = '\0';
    return at;
}

/* https://datatracker.ietf.org/doc/html/draft-polli-ratelimit-headers-03: the scarcest counter, and
 * a list of all. */
static void put_headers(matched *m)
{
    weir_rls_header *h = m->loop->headers[m->loop->answers++ % LIMITADOR_ANSWERS];
    sort_counters(m);
    const counter *first = &m->counters[0];
    h[0].name = "X-RateLimit-Limit";
    h[1].name = "X-RateLimit-Remaining";
    h[2].name = "X-RateLimit-Reset";
    int n = snprintf(h[0].value, sizeof h[0].value, "%" PRIu64, first->limit->view.limit.max_value);
    size_t at = (size_t)n;
    for (size_t i = 0; i < m->len; i++)
        at = put_limit(h[0].value, sizeof h[0].value, at, &m->counters[i].limit->view.limit);
    snprintf(h[1].value, sizeof h[1].value, "%" PRIu64, first->remaining);
    snprintf(h[2].value, sizeof h[2].value, "%" PRId64,
             first->expires_ns / 1000000000 + (first->expires_ns % 1000000000 > 0));
    m->response->headers = h;
    m->response->headers_len = WEIR_RLS_HEADERS_MAX;
}

/* What a counter has left. limitador shows denied requests as if they had been charged.
 *  denied  nothing was charged. */
static void read_counter(counter *c, const weir_request *r, uint64_t delta, bool denied)
{
    uint64_t left = (uint64_t)r->decision.remaining;
    uint64_t whole = limitador_left(c->limit->view.limit.max_value, &r->decision);
    if (denied)
        whole = r->decision.allowed && delta < left ? whole - delta : 0;
    c->remaining = whole;
    c->expires_ns = r->decision.reset_after_ns;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(matched *m, bool limited)
{
    const weir_limitador_request *from = m->from;
    m->response->code = limited ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK;
    if (from->headers && m->len > 0) {
        for (size_t i = 0; i < m->len; i++) {
            counter *c = &m->counters[i];
            if (c->request != NO_STATE)
                read_counter(c, &m->requests[c->request], clamp(from->delta), limited);
        }
        put_headers(m);
    }
    if (!from->counted)
        return;
    bool calls = from->verb != WEIR_RLS_REPORT, hits = from->verb != WEIR_RLS_CHECK;
    limitador_count(m->loop, from->name_space, calls && !limited,
                    hits && !limited ? from->delta : 0, calls && limited);
}

/* Answers a request that an engine, or the store, could not decide. */
static void answer_failure(matched *m, weir_status st)
{
    const char *why = weir_status_str(st);
    for (size_t i = 0; i < m->requests_len; i++) {
        if (m->requests[i].status == st && m->requests[i].why)
            why = m->requests[i].why;
    }
    (void)fail(m, WEIR_RLS_UNAVAILABLE, why);
}

static weir_status first_failure(const matched *m)
{
    size_t i = 0;
    while (i < m->requests_len && m->requests[i].status == WEIR_OK)
        i++;
    return i < m->requests_len ? m->requests[i].status : WEIR_OK;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

/* Takes, from all counters in one batch. Returns false if an engine is pending. */
static bool take_batch(matched *m, weir_completion *completion, int64_t now_ns)
{
    return weir_service_take(m->loop->service, completion, m->requests, m->requests_len, now_ns);
}

/* Looks at all counters. */
static bool check(matched *m, weir_completion *completion, int64_t now_ns)
{
    bool limited = m->limited;
    for (size_t i = 0; i < m->requests_len; i++)
        m->requests[i].cost = 0;
    if (!take_batch(m, completion, now_ns))
        return false;
    weir_status st = first_failure(m);
    for (size_t i = 0; i < m->requests_len && st == WEIR_OK; i++)
        limited |= !m->requests[i].decision.allowed || /* in debt */
                   (uint64_t)m->requests[i].decision.remaining < clamp(m->from->delta);
    if (st == WEIR_OK)
        answer(m, limited);
    else if (st != WEIR_E_ABSENT)
        answer_failure(m, st);
    return true;
}

/* Charges the hits, whether they fit or not: they are of requests that were served already. */
static bool report(matched *m, weir_completion *completion, int64_t now_ns)
{
    if (!weir_service_charge_all(m->loop->service, completion, m->requests, m->requests_len,
                                 now_ns))
        return false;
    weir_status st = first_failure(m);
    if (st == WEIR_OK)
        answer(m, false);
    else if (st != WEIR_E_ABSENT)
        answer_failure(m, st);
    return true;
}

static bool check_and_report(matched *m, weir_completion *completion, int64_t now_ns)
{
    weir_all_result all = {.status = WEIR_OK, .allowed = true};
    for (size_t i = 0; i < m->requests_len && m->limited; i++)
        m->requests[i].cost = 0; /* nothing is charged, but the headers show what is left */
    if (m->requests_len > 0 && !weir_service_take_all(m->loop->service, completion, m->requests,
                                                      m->requests_len, now_ns, &all))
        return false;
    if (all.status == WEIR_OK)
        answer(m, m->limited || !all.allowed);
    else if (all.status != WEIR_E_ABSENT)
        answer_failure(m, all.status);
    return true;
}

static bool decide(matched *m, weir_completion *completion, int64_t now_ns)
{
    switch (m->from->verb) {
    case WEIR_RLS_CHECK:
        return check(m, completion, now_ns);
    case WEIR_RLS_REPORT:
        return report(m, completion, now_ns);
    default:
        return check_and_report(m, completion, now_ns);
    }
}

bool weir_limitador_take(weir_limitador_loop *l, weir_completion *completion,
                         const weir_limitador_request *request, weir_rls_response *ret,
                         int64_t now_ns)
{
    matched m = {.loop = l, .from = request, .response = ret};
    size_t pending = completion ? weir_completion_len(completion) : 0;
    limitador_refresh(l);
    *ret = (weir_rls_response){.failure = WEIR_RLS_ANSWERED, .code = WEIR_RLS_OK};
    bool found = match(&m);
    if (found && pending > 0 && pending != m.requests_len)
        drop_absent(&m);
    if (pending > 0 && (!found || pending != m.requests_len))
        weir_completion_cancel(completion); /* the limits have changed: it is decided again */
    if (!found)
        return true;
    if (!decide(&m, completion, now_ns))
        return false;
    if (first_failure(&m) == WEIR_E_ABSENT && ret->failure == WEIR_RLS_ANSWERED) {
        drop_absent(&m);
        return decide(&m, completion, now_ns);
    }
    return true;
}

bool weir_limitador_decide(weir_limitador_loop *l, weir_completion *completion,
                           const weir_rls_request *request, weir_rls_response *ret, int64_t now_ns)
{
    bool one = request->hits_addend == 0 || request->verb == WEIR_RLS_CHECK;
    if (request->domain.len == 0) {
        *ret = (weir_rls_response){.failure = WEIR_RLS_ANSWERED, .code = WEIR_RLS_UNKNOWN};
        return true;
    }
    limitador_refresh(l);
    const weir_limitador_request r = {.verb = request->verb,
                                      .name_space = request->domain,
                                      .descriptors = request->descriptors,
                                      .descriptors_len = request->descriptors_len,
                                      .delta = one ? 1 : request->hits_addend,
                                      .headers = request->verb == WEIR_RLS_CHECK_AND_REPORT &&
                                                 l->config->options.headers,
                                      .counted = true};
    return weir_limitador_take(l, completion, &r, ret, now_ns);
}

static bool fallback_has(void *ctx, weir_slice domain)
{
    return weir_limitador_has(ctx, domain);
}

static bool fallback_decide(void *ctx, weir_completion *completion, const weir_rls_request *request,
                            weir_rls_response *ret, int64_t now_ns)
{
    return weir_limitador_decide(ctx, completion, request, ret, now_ns);
}

weir_rls_fallback weir_limitador_fallback(weir_limitador_loop *l)
{
    return (weir_rls_fallback){.ctx = l, .has = fallback_has, .decide = fallback_decide};
}
