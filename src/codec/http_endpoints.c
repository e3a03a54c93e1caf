/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The endpoints: a table from paths to handlers. A handler makes exactly one response. It must not
 * know how a request was parsed. */

#include "codec/http_endpoints.h"

#include "codec/decision.h"
#include "codec/http_access.h"
#include "codec/http_call.h"
#include "codec/http_live.h"
#include "codec/http_pages.h"
#include "codec/json.h"
#include "codec/limitador_metrics.h"
#include "codec/metrics.h"
#include "codec/password.h"
#include "codec/reservation.h"
#include "codec/rls_metrics.h"
#include "port/assert.h"
#include "service/top/top.h"

#include <inttypes.h>

typedef weir_http_call call;
typedef weir_http_endpoint endpoint;

/* Sets of methods and parameters, for the table at the end of the file. GET includes HEAD. */
enum {
    GET = WEIR_HTTP_GET | WEIR_HTTP_HEAD,
    GET_OR_POST = GET | WEIR_HTTP_POST,
    POST = WEIR_HTTP_POST,
    NAME = WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY),
    TEXT = WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT),
    KEY = WEIR_HTTP_BIT(WEIR_HTTP_P_KEY) | WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE),
    COST = WEIR_HTTP_BIT(WEIR_HTTP_P_COST),
    DENIED = WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED),
    DELAY = WEIR_HTTP_BIT(WEIR_HTTP_P_DELAY),
    OF = WEIR_HTTP_BIT(WEIR_HTTP_P_OF),
    K = WEIR_HTTP_BIT(WEIR_HTTP_P_K),
    TTL = WEIR_HTTP_BIT(WEIR_HTTP_P_TTL),
    ID = WEIR_HTTP_BIT(WEIR_HTTP_P_ID),
    ACTUAL = WEIR_HTTP_BIT(WEIR_HTTP_P_ACTUAL),
    SHADOW = WEIR_HTTP_BIT(WEIR_HTTP_P_SHADOW),
    MANY = WEIR_HTTP_BIT(WEIR_HTTP_P_REQUESTS)
};

static int shown(size_t len)
{
    return len < WEIR_RULE_NAME_MAX ? (int)len : WEIR_RULE_NAME_MAX;
}

/* ---- the key and the policy ------------------------------------------------------------------ */

/* Reads the request to the service. Returns false with an error response if it is invalid. */
static bool read_request(call *c)
{
    weir_slice key;
    const char *missing = c->accepts_policy && c->accepts_limit ? WEIR_HTTP_EITHER
                          : c->accepts_policy                   ? "\"policy\""
                                                                : "\"limit\"";
    return weir_http_find_key(c, &key) &&
           weir_http_params_request(&c->params, key, "", missing, &c->request, c->response);
}

/* Returns false with an error response if the service could not handle the request. */
static bool succeeded(call *c)
{
    return weir_http_succeeded(c->response, &c->request, "");
}

weir_buffer *weir_http_begin_json(call *c)
{
    c->response->status = 200;
    c->response->type = "application/json";
    weir_http_add_field(c->response, "Cache-Control: no-store\r\n");
    return c->response->body;
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
static size_t read_all(const weir_http_params *p, weir_request *requests, weir_http_response *a)
{
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
        if (!read_one(json_array_get(p->requests, i), i, &requests[i], a))
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
    weir_http_decision(a, r, (int)c->params.number[WEIR_HTTP_P_DENIED], &more);
    if (all->allowed && !(c->params.given & DELAY))
        a->delay_ns = all->delay_ns;
}

static void take_all(call *c)
{
    weir_request requests[WEIR_ALL_MAX];
    weir_all_result all;
    size_t n = read_all(&c->params, requests, c->response);
    if (n == 0)
        return;
    c->pending = !weir_service_take_all(c->options->service, &c->wait->completion, requests, n,
                                        c->now_ns, &all);
    if (!c->pending)
        weir_http_put_all(c, requests, n, &all);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static void reserve(call *c)
{
    uint64_t id = WEIR_ID_NONE;
    char text[WEIR_HEX64_LEN];
    weir_http_response *a = c->response;
    if (!(c->params.given & TTL)) {
        weir_http_problem(a, 400, "missing parameter \"ttl\", expected " WEIR_TTL_EXPECTED);
        return;
    }
    weir_service_reserve(c->options->service, &c->request, c->params.number[WEIR_HTTP_P_TTL],
                         c->now_ns, &id);
    if (c->request.status == WEIR_E_FULL) {
        weir_http_problem(a, 503, WEIR_RESERVE_FULL);
        return;
    }
    if (!succeeded(c))
        return;
    weir_hex64_print(id, text);
    const weir_http_more more = {.id = c->request.decision.allowed ? text : NULL};
    weir_http_decision(a, &c->request, (int)c->params.number[WEIR_HTTP_P_DENIED], &more);
}

static void put_settled(call *c, const weir_decision *d, int64_t over)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_put(b, "{\"settled\":true,\"over\":", over);
    weir_buffer_put(b, ",\"limit\":", d->limit);
    weir_buffer_put(b, ",\"remaining\":", d->remaining);
    weir_buffer_put(b, ",\"reset_after_ms\":", weir_ms_ceil(d->reset_after_ns));
    weir_buffer_put(b, ",\"layer\":", d->layer);
    weir_buffer_append(b, "}\n", 2);
}

static void end_reservation(call *c, int64_t actual)
{
    weir_slice text = c->params.text[WEIR_HTTP_P_ID];
    weir_http_response *a = c->response;
    uint64_t id;
    weir_decision d;
    int64_t over;
    if (!weir_hex64_read(text.at, text.len, &id)) {
        weir_http_problem(a, 400, "\"id\": expected " WEIR_ID_EXPECTED ", found \"%.*s\"",
                          shown(text.len), text.at);
        return;
    }
    weir_status st = weir_service_commit(c->options->service, id, actual, c->now_ns, &d, &over);
    if (st == WEIR_OK)
        put_settled(c, &d, over);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(a, 404, WEIR_NO_RESERVATION, WEIR_HEX64_LEN, text.at);
    else
        weir_http_problem(a, st == WEIR_E_NOMEM ? 503 : 500, "%s", weir_status_str(st));
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

static void put_decision(call *c)
{
    if (succeeded(c))
        weir_http_decision(c->response, &c->request, (int)c->params.number[WEIR_HTTP_P_DENIED],
                           NULL);
}

static void take(call *c)
{
    c->pending =
        !weir_service_take(c->options->service, &c->wait->completion, &c->request, 1, c->now_ns);
    if (c->pending)
        return;
    put_decision(c);
    bool report = c->params.given & WEIR_HTTP_BIT(WEIR_HTTP_P_DELAY);
    if (c->response->status == 200 && !report)
        c->response->delay_ns = c->request.decision.delay_ns;
}

static void peek(call *c)
{
    c->pending =
        !weir_service_peek(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (!c->pending)
        put_decision(c);
}

static void refund(call *c)
{
    c->pending =
        !weir_service_refund(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (!c->pending)
        put_decision(c);
}

static void reset(call *c)
{
    c->pending =
        !weir_service_reset(c->options->service, &c->wait->completion, &c->request, c->now_ns);
    if (c->pending || !succeeded(c))
        return;
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_printf(b, "{\"reset\":true,\"policy\":");
    weir_json_put_string(b, c->request.rule.at, c->request.rule.len);
    weir_buffer_append(b, "}\n", 2);
}

static void explain(call *c)
{
    c->pending = !weir_service_explain(c->options->service, &c->wait->completion, &c->request,
                                       c->now_ns, c->response->body);
    if (c->pending || !succeeded(c))
        return;
    c->response->status = 200;
    c->response->type = "text/plain; charset=utf-8";
    weir_http_add_field(c->response, "Cache-Control: no-store\r\n");
}

/* ---- changes of a policy --------------------------------------------------------------------- */

/* Makes the response to a change that failed. */
static void refuse_change(call *c, weir_status st, const weir_rule_error *error)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    if (error->column > 0)
        weir_http_problem(c->response, 400, "column %u: %s", error->column, error->text);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(c->response, 404, "unknown policy \"%.*s\"; GET /v1/policies lists all",
                          shown(policy.len), policy.at);
    else if (st == WEIR_E_UNSUPPORTED)
        weir_http_problem(c->response, 501, "a candidate requires a policy with engine: local");
    else
        weir_http_problem(c->response, st == WEIR_E_NOMEM ? 503 : 500, "%s", weir_status_str(st));
}

/* Begins the response to a change: the name of the policy. */
static weir_buffer *begin_changed(call *c)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_printf(b, "{\"policy\":");
    weir_json_put_string(b, c->params.text[WEIR_HTTP_P_POLICY].at,
                         c->params.text[WEIR_HTTP_P_POLICY].len);
    return b;
}

/* Returns false with an error response unless both parameters are given. */
static bool has_both(call *c, unsigned param, const char *name)
{
    bool policy = c->params.given & NAME, both = policy && c->params.given & param;
    if (!both)
        weir_http_problem(c->response, 400, "missing parameter \"%s\"", policy ? name : "policy");
    return both;
}

static void shadow(call *c)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    weir_slice text = c->params.text[WEIR_HTTP_P_SHADOW];
    bool on = text.at && weir_http_is(text, "true");
    if (!has_both(c, SHADOW, "shadow"))
        return;
    if (!on && !weir_http_is(text, "false")) {
        weir_http_problem(c->response, 400, "\"shadow\": expected true or false, found \"%.*s\"",
                          shown(text.len), text.at);
        return;
    }
    weir_status st = weir_limiter_set_shadow(weir_service_limiter(c->options->service), policy.at,
                                             policy.len, on);
    if (st == WEIR_OK)
        weir_buffer_printf(begin_changed(c), ",\"shadow\":%s}\n", on ? "true" : "false");
    else
        refuse_change(c, st, &(weir_rule_error){0});
}

static void candidate(call *c)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    weir_slice text = c->params.text[WEIR_HTTP_P_LIMIT];
    char limit[2 * WEIR_POLICY_TEXT_MAX];
    weir_rule_error error = {0};
    if (!has_both(c, TEXT, "limit"))
        return;
    if (text.len >= sizeof limit || memchr(text.at, '\0', text.len)) {
        weir_http_problem(c->response, 400, "\"limit\": expected at most %zu bytes without NUL",
                          sizeof limit - 1);
        return;
    }
    memcpy(limit, text.at, text.len);
    limit[text.len] = '\0';
    weir_status st =
        weir_limiter_set_candidate(weir_service_limiter(c->options->service), policy.at, policy.len,
                                   text.len > 0 ? limit : NULL, &error);
    if (st != WEIR_OK) {
        refuse_change(c, st, &error);
        return;
    }
    weir_buffer *b = begin_changed(c);
    weir_buffer_printf(b, ",\"candidate\":");
    if (text.len > 0)
        weir_json_put_string(b, text.at, text.len);
    else
        weir_buffer_printf(b, "null");
    weir_buffer_append(b, "}\n", 2);
}

/* ---- information ----------------------------------------------------------------------------- */

static bool put_rule(void *ctx, const weir_rule_view *rule)
{
    weir_buffer *b = ctx;
    weir_buffer_printf(
        b, "%s\n{\"name\":", weir_buffer_data(b)[weir_buffer_len(b) - 1] == '}' ? "," : "");
    weir_json_put_string(b, rule->name, strlen(rule->name));
    weir_buffer_printf(b, ",\"limit\":");
    weir_json_put_string(b, rule->limit, strlen(rule->limit));
    weir_buffer_printf(b, ",\"overrides\":%zu,\"allow\":%zu,\"deny\":%zu,\"shadow\":%s}",
                       rule->overrides, rule->allow, rule->deny, rule->shadow ? "true" : "false");
    return !b->failed;
}

static void policies(call *c)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_printf(b, "{\"policies\":[");
    if (!b->failed)
        weir_service_rules(c->options->service, put_rule, b);
    weir_buffer_printf(b, "]}\n");
}

static void put_top(call *c, weir_top_of of, const weir_top *top)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    weir_buffer_printf(b, "{\"policy\":");
    weir_json_put_string(b, policy.at, policy.len);
    weir_buffer_printf(b,
                       ",\"of\":\"%s\",\"cost\":%" PRId64 ",\"unlisted_max\":%" PRId64
                       ",\"sampling\":%" PRId64 ",\"half_life_ms\":%" PRId64
                       ",\"complete\":%s,\"keys\":[",
                       weir_top_of_name(of), top->cost, top->unlisted, top->sampling,
                       WEIR_TOP_HALF_NS / 1000000, top->complete ? "true" : "false");
    for (size_t i = 0; i < top->len; i++) {
        const weir_top_key *key = &top->key[i];
        weir_buffer_printf(b, "%s\n{\"key\":", i > 0 ? "," : "");
        weir_json_put_string(b, key->text, key->text_len);
        weir_buffer_printf(b,
                           ",\"cost\":%" PRId64 ",\"error\":%" PRId64 ",\"requests\":%" PRId64
                           ",\"key_bytes\":%zu}",
                           key->cost, key->error, key->requests, key->len);
    }
    weir_buffer_printf(b, "]}\n");
}

static void refuse_top(call *c, weir_status st, size_t keys)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    if (st == WEIR_E_UNSUPPORTED)
        weir_http_problem(c->response, 501,
                          "top keys are disabled: the configuration has top: off");
    else if (st == WEIR_E_RANGE)
        weir_http_problem(c->response, 400,
                          "\"k\": expected a whole number from 1 to %zu (top.keys), found \"%.*s\"",
                          keys, shown(c->params.text[WEIR_HTTP_P_K].len),
                          c->params.text[WEIR_HTTP_P_K].at);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(c->response, 404, "unknown policy \"%.*s\"; GET /v1/policies lists all",
                          shown(policy.len), policy.at);
    else
        weir_http_problem(c->response, 503, "out of memory for the response");
}

static void top(call *c)
{
    const weir_http_params *p = &c->params;
    weir_limiter *limiter = weir_service_limiter(c->options->service);
    size_t keys = weir_limiter_top_keys(limiter);
    weir_slice of_text = p->text[WEIR_HTTP_P_OF];
    bool denied = !of_text.at || weir_http_is(of_text, "denied");
    if (!(p->given & NAME)) {
        weir_http_problem(c->response, 400, "missing parameter \"policy\"");
        return;
    }
    if (!denied && !weir_http_is(of_text, "allowed")) {
        weir_http_problem(c->response, 400,
                          "\"of\": expected \"denied\" or \"allowed\", found \"%.*s\"",
                          shown(of_text.len), of_text.at);
        return;
    }
    int64_t k = keys < WEIR_TOP_K ? (int64_t)keys : WEIR_TOP_K;
    if (p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_K))
        k = p->number[WEIR_HTTP_P_K];
    weir_top_of of = denied ? WEIR_TOP_DENIED : WEIR_TOP_ALLOWED;
    weir_top t;
    weir_status st = weir_limiter_top(limiter, p->text[WEIR_HTTP_P_POLICY], of,
                                      k > 0 ? (size_t)k : 0, c->now_ns, &t);
    if (st != WEIR_OK) {
        refuse_top(c, st, keys);
        return;
    }
    put_top(c, of, &t);
    weir_top_free(&t);
}

static void live(call *c)
{
    weir_http_response *a = c->response;
    weir_status st = WEIR_OK;
    if (c->http->method != WEIR_HTTP_HEAD)
        st = weir_http_live_open(&a->live, c->options, c->now_ns, a->body);
    if (st != WEIR_OK) {
        weir_http_problem(a, 503, "%s",
                          st == WEIR_E_FULL ? "64 streams are open already, the most; close one"
                                            : "out of memory for the stream");
        return;
    }
    a->status = 200;
    a->type = "text/event-stream";
    a->endless = true;
    /* X-Accel-Buffering: nginx passes each event on at once. */
    weir_http_add_field(a, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
}

static void metrics(call *c)
{
    const weir_http_options *o = c->options;
    weir_http_response *a = c->response;
    a->status = 200;
    a->type = "text/plain; version=0.0.4";
    weir_metrics_put(a->body, weir_service_limiter(o->service), o->version);
    if (o->metrics_top)
        weir_metrics_put_top(a->body, o->service, c->now_ns);
    if (weir_rls_http_has_limits(o))
        weir_rls_metrics_put(a->body, o->rls);
    if (o->limitador)
        weir_limitador_metrics_put(a->body, weir_limitador_of(o->limitador));
    if (o->metrics)
        o->metrics(o->metrics_ctx, a->body);
}

static void add_text(call *c, const char *text)
{
    weir_buffer_append(c->response->body, text, strlen(text));
}

void weir_http_put_text(call *c, int status, const char *text)
{
    c->response->status = status;
    c->response->type = "text/plain; charset=utf-8";
    add_text(c, text);
}

static void healthz(call *c)
{
    weir_http_put_text(c, 200, "ok\n");
}

/* Answers whether a load balancer should send requests to this daemon. */
static void readyz(call *c)
{
    const weir_http_options *o = c->options;
    weir_http_response *a = c->response;
    weir_buffer_printf(weir_http_begin_json(c), "{\"ready\":");
    weir_buffer reasons;
    weir_buffer_init(&reasons, 1 << 16);
    if (o->not_ready && o->not_ready(o->not_ready_ctx, &reasons))
        a->status = 503;
    weir_buffer_printf(a->body, "%s,\"reasons\":[", a->status == 200 ? "true" : "false");
    weir_buffer_append(a->body, weir_buffer_data(&reasons), weir_buffer_len(&reasons));
    weir_buffer_printf(a->body, "]}\n");
    weir_buffer_free(&reasons);
}

static void front_page(call *c)
{
    weir_http_put_text(
        c, 200,
        "weir, a rate limiter\n"
        "\n"
        "  /v1/take      policy, key, cost: decides, and charges the cost if allowed\n"
        "  /v1/forward-auth  decides a request that a proxy describes, by the routes of weir.yaml\n"
        "  /v1/peek      policy, key, cost: decides without charging\n"
        "  /v1/check     limit, key, cost: take with a policy text instead of a name\n"
        "  /v1/takeall   requests (a list): allows all of them or none (POST)\n"
        "  /v1/reserve   policy, key, cost, ttl: reserves units for at most ttl (POST)\n"
        "  /v1/commit    id, actual: charges a reservation's actual cost (POST)\n"
        "  /v1/cancel    id: cancels a reservation (POST)\n"
        "  /v1/refund    policy, key, cost: refunds units (POST)\n"
        "  /v1/reset     policy, key: restores the key's full quota (POST)\n"
        "  /v1/explain   policy, key: describes the key's limit and state\n"
        "  /v1/policies  lists the active policies\n"
        "  /v1/shadow    policy, shadow: puts a policy into shadow mode, or out of it (POST)\n"
        "  /v1/candidate policy, limit: compares another limit with a policy's own (POST)\n"
        "  /v1/top       policy, of, k: lists the keys with the highest recent cost\n"
        "  /v1/live      sends the counters once a second, as server-sent events\n"
        "  /healthz      answers ok while the process runs\n"
        "  /readyz       answers 200 if the daemon can take requests; if not, 503 and why\n"
        "  /metrics      metrics for Prometheus\n"
        "  /playground   a page that compares policies; /guide explains the algorithms\n"
        "  /dashboard    a page that shows what this daemon decides\n");
    if (weir_rls_http_has_limits(c->options))
        add_text(c, weir_rls_http_help);
    if (c->options->limitador)
        add_text(c, weir_limitador_http_help);
    add_text(
        c,
        "\n"
        "Send parameters in the query or as a JSON object in the body:\n"
        "\n"
        "  curl 'http://HOST/v1/take?policy=api&key=alice&cost=5'\n"
        "  curl -H 'Content-Type: application/json' \\\n"
        "       -d '{\"policy\":\"api\",\"key\":\"alice\",\"cost\":5}' http://HOST/v1/take\n"
        "  curl -G --data-urlencode 'limit=gcra 100/s burst 20' -d key=alice \\\n"
        "       http://HOST/v1/check\n"
        "\n"
        "200 is allowed, 429 is denied. RateLimit, Retry-After and the body have the details.\n");
}

static void page(call *c)
{
    weir_http_send_page(weir_http_find_page(c->options, c->http->path), c->http, c->response);
}

/* Answers OPTIONS * with the methods of all endpoints. */
static void server_options(call *c)
{
    c->response->status = 204;
    weir_http_add_field(c->response, "Allow: GET, HEAD, POST, OPTIONS\r\n");
}

/* ---- the table ------------------------------------------------------------------------------- */

static const endpoint endpoints[] = {
    {"/v1/take", GET_OR_POST | WEIR_HTTP_FORWARD, NAME | KEY | COST | DELAY | DENIED, take},
    {"/v1/check", GET_OR_POST, TEXT | KEY | COST | DELAY | DENIED, take},
    {"/v1/peek", GET_OR_POST, NAME | TEXT | KEY | COST | DENIED, peek},
    {"/v1/takeall", POST, MANY | DELAY | DENIED, take_all},
    {"/v1/reserve", POST, NAME | TEXT | KEY | COST | TTL | DENIED, reserve},
    {"/v1/commit", POST, ID | ACTUAL, commit},
    {"/v1/cancel", POST, ID, cancel},
    {"/v1/refund", POST, NAME | TEXT | KEY | COST, refund},
    {"/v1/reset", POST, NAME | TEXT | KEY, reset},
    {"/v1/explain", GET_OR_POST, NAME | TEXT | KEY, explain},
    {"/v1/policies", GET | WEIR_HTTP_SAME_SITE, 0, policies},
    {"/v1/shadow", POST, NAME | SHADOW, shadow},
    {"/v1/candidate", POST, NAME | TEXT, candidate},
    {"/v1/top", GET, NAME | OF | K, top},
    {"/v1/live", GET | WEIR_HTTP_SAME_SITE, 0, live},
    {"/healthz", GET | WEIR_HTTP_PROBE, 0, healthz},
    {"/readyz", GET | WEIR_HTTP_PROBE, 0, readyz},
    {"/metrics", GET, 0, metrics},
    {"/", GET, 0, front_page},
    {"*", WEIR_HTTP_OPTIONS, 0, server_options},
};

static const endpoint *find_endpoint(const weir_http_options *o, weir_slice path)
{
    static const endpoint any_page = {"a page", GET, 0, page};
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        const endpoint *e = &endpoints[i];
        if (path.len == strlen(e->path) && memcmp(path.at, e->path, path.len) == 0)
            return e;
    }
    const endpoint *e = weir_http_forward_find(path);
    if (e)
        return e;
    if (weir_http_find_page(o, path))
        return &any_page;
    e = weir_rls_http_find(o, path);
    return e ? e : weir_limitador_http_find(o, path);
}

/* Returns whether a Content-Type is application/json, with or without parameters. */
static bool is_json(weir_slice type)
{
    const char *end = type.at ? memchr(type.at, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.at);
    return type.at && weir_http_is(weir_http_trim(type), "application/json");
}

static void refuse_method(weir_http_response *a, const endpoint *e)
{
    unsigned methods = e->methods & (GET_OR_POST | WEIR_HTTP_OPTIONS);
    const char *allow = methods == GET_OR_POST         ? "GET, HEAD, POST"
                        : methods == GET               ? "GET, HEAD"
                        : methods == WEIR_HTTP_OPTIONS ? "OPTIONS"
                                                       : "POST";
    weir_http_problem(a, 405, "unsupported method for %s, expected %s", e->path, allow);
    weir_http_add_field(a, "Allow: %s\r\n", allow);
}

static void refuse_host(const weir_http_request *r, weir_http_response *a)
{
    weir_http_problem(a, 421,
                      "unknown host '%.*s', expected an IP address, localhost or a name listed in "
                      "http.hosts; add it there, or set a password",
                      r->host.len < 256 ? (int)r->host.len : 256, r->host.at);
}

/* Whether the Host may be that of a proxy's client. /v1/forward-auth refuses all other peers. */
static bool may_have_any_host(const weir_http_options *o, const weir_http_request *r,
                              const endpoint *e)
{
    return e && (e->methods & WEIR_HTTP_ANY_METHOD ||
                 (e->methods & WEIR_HTTP_FORWARD && weir_http_from_trusted(o, r)));
}

/* Checks the password. X-Weir-Password wins: behind a proxy, Authorization may be the client's. */
static weir_http_password password_of(const weir_http_options *o, const weir_http_request *r)
{
    weir_slice own = r->header[WEIR_HTTP_PASSWORD];
    if (!own.at)
        return weir_http_check_password(r->header[WEIR_HTTP_AUTHORIZATION], o->password);
    return weir_password_is(own.at, own.len, o->password) ? WEIR_HTTP_RIGHT_PASSWORD
                                                          : WEIR_HTTP_WRONG_PASSWORD;
}

int weir_http_check_head(const weir_http_options *o, const weir_http_request *r, bool has_body,
                         weir_http_response *a)
{
    const endpoint *e = find_endpoint(o, r->path);
    bool open = e && (e->methods & WEIR_HTTP_PROBE);
    bool any = e && (e->methods & WEIR_HTTP_ANY_METHOD);
    bool may_cross = !any && weir_http_add_cors(o, r, a);
    bool locked = o->password && !open;
    weir_http_password given = locked ? password_of(o, r) : WEIR_HTTP_NO_PASSWORD;
    if (!open && !r->own_host && !may_have_any_host(o, r, e)) {
        refuse_host(r, a);
    } else if (may_cross && e && r->method == WEIR_HTTP_OPTIONS &&
               r->header[WEIR_HTTP_REQUEST_METHOD].at) {
        weir_http_preflight(a);
    } else if (locked && given != WEIR_HTTP_RIGHT_PASSWORD) {
        weir_http_problem(a, 401, "%s password, expected Authorization: Bearer PASSWORD",
                          given == WEIR_HTTP_WRONG_PASSWORD ? "wrong" : "missing");
        /* Chrome reads one challenge in a line, and asks for a password only if it is Basic. */
        weir_http_add_field(a, "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
        weir_http_add_field(a, "WWW-Authenticate: Basic realm=\"weir\"\r\n");
        a->wrong_password = given == WEIR_HTTP_WRONG_PASSWORD;
    } else if (!e && o->pages.len == 0 && weir_http_names_page(r->path)) {
        weir_http_problem(a, 404,
                          "this weir was built without its web pages; install clang, lld and "
                          "esbuild, and build it again");
    } else if (!e) {
        weir_http_problem(a, 404, "unknown path \"%.*s\"; GET / lists the endpoints",
                          shown(r->path.len), r->path.at);
    } else if (!any && !(e->methods & r->method)) {
        refuse_method(a, e);
    } else if (e->params && has_body && !is_json(r->header[WEIR_HTTP_CONTENT_TYPE])) {
        weir_slice type = r->header[WEIR_HTTP_CONTENT_TYPE];
        if (type.at)
            weir_http_problem(a, 415, "unsupported Content-Type '%.*s', expected application/json",
                              shown(type.len), type.at);
        else
            weir_http_problem(a, 415, "missing Content-Type, expected application/json");
        weir_http_add_field(a, "Accept: application/json\r\n");
    }
    return a->status;
}

/* Refuses a cross-site browser request, so that a page of another site cannot spend units. A page
 * cannot set the header that carries the key. A request with that header therefore comes from a
 * proxy that forwards the headers of its client, and is accepted. */
static bool refuse_other_site(call *c)
{
    if (c->key_from_template && weir_http_from_trusted(c->options, c->http))
        return false;
    if (!c->http->own_host) { /* which a trusted proxy may have only without a key */
        refuse_host(c->http, c->response);
        return true;
    }
    if (c->key_from_header || !weir_http_from_other_site(c->options, c->http))
        return false;
    weir_http_problem(
        c->response, 403,
        "cross-site request refused (Sec-Fetch-Site, Origin): add the origin to http.origins, or "
        "let your proxy remove these headers");
    return true;
}

bool weir_http_dispatch(const weir_http_options *o, weir_rls_wait *wait, const weir_http_request *r,
                        int64_t now_ns, weir_http_response *a)
{
    char query[WEIR_HTTP_TARGET_MAX], keys[WEIR_HTTP_KEYS_ROOM];
    const endpoint *e = find_endpoint(o, r->path);
    call c = {.options = o,
              .http = r,
              .wait = wait,
              .keys = keys,
              .now_ns = now_ns,
              .response = a,
              .accepts_policy = e->params & NAME,
              .accepts_limit = e->params & TEXT};
    if (e->params == 0) {
        if (!(e->methods & WEIR_HTTP_SAME_SITE) || !refuse_other_site(&c))
            e->run(&c);
        return !c.pending;
    }
    if (weir_http_params_read(&c.params, r, e->params, o->key_query, query, a) &&
        (!(e->params & KEY) || read_request(&c)) && !refuse_other_site(&c))
        e->run(&c);
    if (c.pending && c.key_from_template && weir_buffer_len(r->kept) == 0)
        weir_buffer_append(r->kept, c.request.key.at, c.request.key.len);
    weir_http_params_free(&c.params);
    return !c.pending;
}
