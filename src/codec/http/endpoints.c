/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The endpoints that decide. A handler makes exactly one response. It must not know how a request
 * was parsed. */

#include "codec/answer/json.h"
#include "codec/answer/reservation.h"
#include "codec/http/call.h"
#include "core/decision.h"
#include "port/assert.h"

typedef weir_http_call call;

/* Sets of methods and parameters, for the table at the end of the file. */
enum {
    POST = WEIR_HTTP_POST,
    GET_OR_POST = WEIR_HTTP_GET | WEIR_HTTP_HEAD | POST,
    NAME = WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY),
    TEXT = WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT),
    KEY = WEIR_HTTP_BIT(WEIR_HTTP_P_KEY) | WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE),
    COST = WEIR_HTTP_BIT(WEIR_HTTP_P_COST),
    KEEP = WEIR_HTTP_BIT(WEIR_HTTP_P_KEEP),
    DENIED = WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED),
    DELAY = WEIR_HTTP_BIT(WEIR_HTTP_P_DELAY),
    TTL = WEIR_HTTP_BIT(WEIR_HTTP_P_TTL),
    ID = WEIR_HTTP_BIT(WEIR_HTTP_P_ID),
    ACTUAL = WEIR_HTTP_BIT(WEIR_HTTP_P_ACTUAL),
    MANY = WEIR_HTTP_BIT(WEIR_HTTP_P_REQUESTS)
};

/* Returns false with an error response if the service could not handle the request. */
static bool succeeded(call *c)
{
    return weir_http_succeeded(c->response, &c->request, "");
}

/* ---- /v1/takeall ----------------------------------------------------------------------------- */

enum { WHERE_MAX = 40 }; /* bytes of "requests[15]: ", and of any size_t */

static void where_of(char buf[WHERE_MAX], size_t i, const char *suffix)
{
    snprintf(buf, WHERE_MAX, "requests[%zu]%s", i, suffix);
}

/* Reads element i of `requests`. The slices of *ret point into `object`. */
static bool read_one(json_t *object, size_t i, weir_request *ret, weir_http_response *a)
{
    char where[WHERE_MAX];
    weir_http_params p;
    where_of(where, i, "");
    if (!weir_http_params_read_object(&p, object, where, a))
        return false;
    where_of(where, i, ": ");
    if (p.given & WEIR_HTTP_BIT(WEIR_HTTP_P_KEY))
        return weir_http_params_request(&p, p.text[WEIR_HTTP_P_KEY], where, WEIR_HTTP_EITHER, ret,
                                        a);
    weir_http_problem(a, 400, "%smissing key, expected the parameter \"key\"", where);
    return false;
}

/* Returns the number of requests, or 0 with an error response if they are invalid. */
static size_t read_all(call *c, weir_request *requests)
{
    const weir_http_params *p = &c->params;
    weir_http_response *a = c->response;
    char where[WHERE_MAX];
    size_t n = json_array_size(p->requests);
    if (!p->requests) {
        weir_http_problem(a, 400, "missing \"requests\", expected a JSON body such as %s",
                          WEIR_HTTP_REQUESTS_EXPECTED);
        return 0;
    }
    if (n < 1 || n > WEIR_ALL_MAX) {
        weir_http_problem(a, 400, "\"requests\" has %zu elements, expected 1 to %d", n,
                          WEIR_ALL_MAX);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        where_of(where, i, ": ");
        if (!read_one(json_array_get(p->requests, i), i, &requests[i], a) ||
            !weir_http_may_use(c, &requests[i], where))
            return 0;
    }
    return n;
}

static void put_first_failure(const weir_request *requests, size_t n, weir_http_response *a)
{
    char where[WHERE_MAX];
    size_t i = 0;
    WEIR_ASSERT(n > 0);
    while (i + 1 < n && requests[i].status == WEIR_OK)
        i++;
    where_of(where, i, ": ");
    (void)weir_http_succeeded(a, &requests[i], where);
}

void weir_http_put_all(call *c, weir_request *requests, size_t n, const weir_all_result *all)
{
    weir_http_response *a = c->response;
    if (all->status != WEIR_OK) {
        put_first_failure(requests, n, a);
        return;
    }
    weir_request *r = &requests[all->index];
    const weir_http_more more = {.all = requests, .n = n, .index = all->index};
    WEIR_ASSERT(r->decision.allowed == all->allowed);
    r->decision.delay_ns = all->delay_ns;
    weir_service_next(c->options->service, requests, n, c->now_ns);
    weir_http_decision(a, r, (int)c->params.number[WEIR_HTTP_P_DENIED], &more);
    if (all->allowed && !(c->params.given & DELAY))
        a->delay_ns = all->delay_ns;
}

static void take_all(call *c)
{
    weir_request requests[WEIR_ALL_MAX];
    weir_all_result all;
    size_t n = read_all(c, requests);
    if (n == 0)
        return;
    c->pending = !weir_service_take_all(c->options->service, &c->wait->completion, requests, n,
                                        c->now_ns, &all);
    if (!c->pending)
        weir_http_put_all(c, requests, n, &all);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* 0 without the parameter: the lease of the policy. */
static int64_t ttl_of(const call *c)
{
    return c->params.given & TTL ? c->params.number[WEIR_HTTP_P_TTL] : 0;
}

/* Responds that the policy does not accept the TTL. */
static void refuse_ttl(call *c)
{
    char text[WEIR_TTL_REFUSAL_MAX];
    weir_ttl_refusal(text, "\"ttl\"", ttl_of(c));
    weir_http_problem(c->response, 400, "%s", text);
}

static void reserve(call *c)
{
    uint64_t id = WEIR_ID_NONE;
    char text[WEIR_HEX64_LEN];
    weir_http_response *a = c->response;
    weir_service_reserve(c->options->service, &c->request, ttl_of(c), c->now_ns, &id);
    if (c->request.status == WEIR_E_FULL) {
        weir_http_problem(a, 503, WEIR_RESERVE_FULL);
        return;
    }
    if (c->request.status == WEIR_E_RANGE && c->request.why) {
        refuse_ttl(c);
        return;
    }
    if (!succeeded(c))
        return;
    weir_hex64_print(id, text);
    weir_service_next(c->options->service, &c->request, 1, c->now_ns);
    const weir_http_more more = {.id = c->request.decision.allowed ? text : NULL};
    weir_http_decision(a, &c->request, (int)c->params.number[WEIR_HTTP_P_DENIED], &more);
}

static void put_quota(weir_buffer *b, const weir_decision *d, int64_t next_ns)
{
    weir_buffer_put(b, ",\"limit\":", d->limit);
    weir_buffer_put(b, ",\"remaining\":", d->remaining);
    weir_buffer_put(b, ",\"reset_after_ms\":", weir_ms_ceil(d->reset_after_ns));
    if (next_ns != WEIR_NEXT_UNKNOWN)
        weir_buffer_put(b, ",\"next_ms\":", weir_next_units(next_ns, 1000000));
    weir_buffer_put(b, ",\"layer\":", d->layer);
    weir_buffer_append(b, "}\n", 2);
}

/* Reads the id of a reservation. Returns false after an error response. */
static bool read_id(call *c, uint64_t *ret)
{
    weir_slice text = c->params.text[WEIR_HTTP_P_ID];
    bool good = weir_hex64_read(text.at, text.len, ret);
    if (!good)
        weir_http_problem(c->response, 400, "\"id\": expected " WEIR_ID_EXPECTED ", found \"%.*s\"",
                          weir_http_shown(text.len), text.at);
    return good;
}

/* Responds with an error unless the status is WEIR_OK. Returns whether it is. */
static bool found(call *c, weir_status st)
{
    weir_http_response *a = c->response;
    if (st == WEIR_E_ABSENT)
        weir_http_problem(a, 404, WEIR_NO_RESERVATION, WEIR_HEX64_LEN,
                          c->params.text[WEIR_HTTP_P_ID].at);
    else if (st != WEIR_OK)
        weir_http_problem(a, st == WEIR_E_NOMEM ? 503 : 500, "%s", weir_status_str(st));
    return st == WEIR_OK;
}

static void end_reservation(call *c, int64_t actual)
{
    uint64_t id;
    weir_decision d;
    int64_t over, next_ns;
    if (!read_id(c, &id) || !found(c, weir_service_commit(c->options->service, id, actual,
                                                          c->now_ns, &d, &over, &next_ns)))
        return;
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_put(b, "{\"settled\":true,\"over\":", over);
    put_quota(b, &d, next_ns);
}

static void renew(call *c)
{
    uint64_t id;
    weir_decision d;
    int64_t next_ns;
    if (!(c->params.given & ID)) {
        weir_http_problem(c->response, 400, "missing parameter \"id\"");
        return;
    }
    if (!read_id(c, &id))
        return;
    weir_status st =
        weir_service_renew(c->options->service, id, ttl_of(c), c->now_ns, &d, &next_ns);
    if (st == WEIR_E_RANGE) {
        refuse_ttl(c);
    } else if (found(c, st)) {
        weir_buffer *b = weir_http_begin_json(c);
        weir_buffer_printf(b, "{\"renewed\":true");
        put_quota(b, &d, next_ns);
    }
}

static void commit(call *c)
{
    bool has_id = c->params.given & ID;
    if (has_id && c->params.given & ACTUAL)
        end_reservation(c, c->params.number[WEIR_HTTP_P_ACTUAL]);
    else
        weir_http_problem(c->response, 400, "missing parameter \"%s\"", has_id ? "actual" : "id");
}

static void cancel(call *c)
{
    if (c->params.given & ID)
        end_reservation(c, 0);
    else
        weir_http_problem(c->response, 400, "missing parameter \"id\"");
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void put_decision(call *c, const weir_http_more *more)
{
    if (!succeeded(c))
        return;
    weir_service_next(c->options->service, &c->request, 1, c->now_ns);
    weir_http_decision(c->response, &c->request, (int)c->params.number[WEIR_HTTP_P_DENIED], more);
}

static void take(call *c)
{
    c->pending =
        !weir_service_take(c->options->service, &c->wait->completion, &c->request, 1, c->now_ns);
    if (c->pending)
        return;
    put_decision(c, NULL);
    bool report = c->params.given & WEIR_HTTP_BIT(WEIR_HTTP_P_DELAY);
    if (c->response->status == 200 && !report)
        c->response->delay_ns = c->request.decision.delay_ns;
}

static void peek(call *c)
{
    c->pending =
        !weir_service_peek(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (c->pending)
        return;
    const weir_http_more more = {.figures = &c->request.figures};
    weir_service_figures(c->options->service, &c->request, c->now_ns);
    put_decision(c, &more);
}

/* The response to a call that asks for nothing. */
static void put_result(call *c, bool charged)
{
    const weir_http_more more = {.settled = true, .charged = charged};
    if (!succeeded(c))
        return;
    weir_service_next(c->options->service, &c->request, 1, c->now_ns);
    weir_http_decision(c->response, &c->request, 0, &more);
}

static void refund(call *c)
{
    c->pending =
        !weir_service_refund(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (!c->pending)
        put_result(c, false);
}

static void charge(call *c)
{
    c->pending =
        !weir_service_charge(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (!c->pending)
        put_result(c, true);
}

static void put_reset(call *c)
{
    if (!succeeded(c))
        return;
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_printf(b, "{\"reset\":true,\"policy\":");
    weir_json_put_string(b, c->request.rule.at, c->request.rule.len);
    weir_buffer_append(b, "}\n", 2);
}

static void reset(call *c)
{
    c->pending =
        !weir_service_reset(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (!c->pending)
        put_reset(c);
}

static void reset_all(call *c)
{
    if (!weir_http_params_policy(&c->params, "", WEIR_HTTP_EITHER, &c->request, c->response) ||
        !weir_http_may_use(c, &c->request, ""))
        return;
    c->pending = !weir_service_reset_policy(c->options->service, &c->wait->completion, &c->request,
                                            c->now_ns);
    if (!c->pending)
        put_reset(c);
}

static void explain(call *c)
{
    c->pending = !weir_service_explain(c->options->service, &c->wait->completion, &c->request,
                                       c->now_ns, c->response->body);
    if (c->pending || !succeeded(c))
        return;
    c->response->status = 200;
    c->response->type = "text/plain; charset=utf-8";
}

/* ---- the table ------------------------------------------------------------------------------- */

const weir_http_endpoint weir_http_decisions[] = {
    {"/v1/take", WEIR_MAY_TAKE, GET_OR_POST | WEIR_HTTP_FORWARD,
     NAME | KEY | COST | KEEP | DELAY | DENIED, take,
     "policy, key, cost, keep: decides, and charges the cost if allowed"},
    {WEIR_HTTP_FORWARD_PATH, WEIR_MAY_TAKE,
     WEIR_HTTP_ANY_METHOD | WEIR_HTTP_FORWARD | WEIR_HTTP_BELOW, 0, weir_http_forward,
     " decides a request that a proxy describes, by the routes of weir.yaml"},
    {"/v1/peek", WEIR_MAY_PEEK, GET_OR_POST, NAME | TEXT | KEY | COST | KEEP | DENIED, peek,
     "policy, key, cost, keep: decides without charging"},
    {"/v1/check", WEIR_MAY_TAKE, GET_OR_POST, TEXT | KEY | COST | KEEP | DELAY | DENIED, take,
     "limit, key, cost, keep: take with a policy text instead of a name"},
    {"/v1/takeall", WEIR_MAY_TAKE, POST, MANY | DELAY | DENIED, take_all,
     "requests (a list): allows all of them or none (POST)"},
    {"/v1/reserve", WEIR_MAY_RESERVE, POST, NAME | TEXT | KEY | COST | TTL | DENIED, reserve,
     "policy, key, cost, ttl: reserves units for at most ttl (POST)"},
    {"/v1/renew", WEIR_MAY_RESERVE, POST, ID | TTL, renew, "id, ttl: extends a reservation (POST)"},
    {"/v1/commit", WEIR_MAY_RESERVE, POST, ID | ACTUAL, commit,
     "id, actual: charges a reservation's actual cost (POST)"},
    {"/v1/cancel", WEIR_MAY_RESERVE, POST, ID, cancel, "id: cancels a reservation (POST)"},
    {"/v1/refund", WEIR_MAY_REFUND, POST, NAME | TEXT | KEY | COST, refund,
     "policy, key, cost: refunds units (POST)"},
    {"/v1/charge", WEIR_MAY_TAKE, POST, NAME | TEXT | KEY | COST, charge,
     "policy, key, cost: charges units that were used, whether they fit or not (POST)"},
    {"/v1/reset", WEIR_MAY_RESET, POST, NAME | TEXT | KEY, reset,
     "policy, key: restores the key's full quota (POST)"},
    {"/v1/resetall", WEIR_MAY_RESET, POST, NAME | TEXT, reset_all,
     "policy: restores the full quota of all its keys (POST)"},
    {"/v1/explain", WEIR_MAY_PEEK, GET_OR_POST, NAME | TEXT | KEY, explain,
     "policy, key: describes the key's limit and state"},
};
const size_t weir_http_decisions_len = sizeof weir_http_decisions / sizeof weir_http_decisions[0];
