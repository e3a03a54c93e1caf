/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The endpoints about the daemon itself: its policies and changes of them, its top keys, its
 * health, its metrics, and the front page. */

#include "codec/answer/json.h"
#include "codec/answer/metrics.h"
#include "codec/http/call.h"
#include "codec/http/live.h"
#include "codec/http/pages.h"
#include "service/top/top.h"

#include <inttypes.h>

typedef weir_http_call call;

/* Sets of methods and parameters, for the table at the end of the file. GET includes HEAD. */
enum {
    GET = WEIR_HTTP_GET | WEIR_HTTP_HEAD,
    POST = WEIR_HTTP_POST,
    NAME = WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY),
    TEXT = WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT),
    OF = WEIR_HTTP_BIT(WEIR_HTTP_P_OF),
    K = WEIR_HTTP_BIT(WEIR_HTTP_P_K),
    SHADOW = WEIR_HTTP_BIT(WEIR_HTTP_P_SHADOW)
};

/* ---- changes of a policy --------------------------------------------------------------------- */

/* Makes the response to a change that failed. */
static void refuse_change(call *c, weir_status st, const weir_rule_error *error)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    if (error->column > 0)
        weir_http_problem(c->response, 400, "column %u: %s", error->column, error->text);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(c->response, 404, "unknown policy \"%.*s\"; GET /v1/policies lists all",
                          weir_http_shown(policy.len), policy.at);
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

/* Returns false with an error response unless both parameters are given, and the user may change
 * the policy, for all keys. */
static bool has_both(call *c, unsigned param, const char *name)
{
    const weir_request r = {.rule = c->params.text[WEIR_HTTP_P_POLICY]};
    bool policy = c->params.given & NAME, both = policy && c->params.given & param;
    if (!both)
        weir_http_problem(c->response, 400, "missing parameter \"%s\"", policy ? name : "policy");
    return both && weir_http_may_use(c, &r, "");
}

static void shadow(call *c)
{
    weir_slice policy = c->params.text[WEIR_HTTP_P_POLICY];
    weir_slice text = c->params.text[WEIR_HTTP_P_SHADOW];
    bool on = text.at && weir_slice_is(text, "true");
    if (!has_both(c, SHADOW, "shadow"))
        return;
    if (!on && !weir_slice_is(text, "false")) {
        weir_http_problem(c->response, 400, "\"shadow\": expected true or false, found \"%.*s\"",
                          weir_http_shown(text.len), text.at);
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

/* A list for the user of a call, who sees only some policies. */
static bool sees(const call *c, const char *policy)
{
    return weir_user_sees(weir_http_user(c), (weir_slice){policy, strlen(policy)});
}

static bool put_rule(void *ctx, const weir_rule_view *rule)
{
    const call *c = ctx;
    weir_buffer *b = c->response->body;
    if (!sees(c, rule->name))
        return true;
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
        weir_service_rules(c->options->service, put_rule, c);
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
                          keys, weir_http_shown(c->params.text[WEIR_HTTP_P_K].len),
                          c->params.text[WEIR_HTTP_P_K].at);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(c->response, 404, "unknown policy \"%.*s\"; GET /v1/policies lists all",
                          weir_http_shown(policy.len), policy.at);
    else
        weir_http_problem(c->response, 503, "out of memory for the response");
}

static void top(call *c)
{
    const weir_http_params *p = &c->params;
    weir_limiter *limiter = weir_service_limiter(c->options->service);
    size_t keys = weir_limiter_top_keys(limiter);
    weir_slice of_text = p->text[WEIR_HTTP_P_OF];
    bool denied = !of_text.at || weir_slice_is(of_text, "denied");
    if (!(p->given & NAME)) {
        weir_http_problem(c->response, 400, "missing parameter \"policy\"");
        return;
    }
    if (!denied && !weir_slice_is(of_text, "allowed")) {
        weir_http_problem(c->response, 400,
                          "\"of\": expected \"denied\" or \"allowed\", found \"%.*s\"",
                          weir_http_shown(of_text.len), of_text.at);
        return;
    }
    if (!weir_http_may_see(c, p->text[WEIR_HTTP_P_POLICY], ""))
        return;
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
    weir_top_hide_keys(&t, weir_http_user(c));
    put_top(c, of, &t);
    weir_top_free(&t);
}

static void live(call *c)
{
    weir_http_response *a = c->response;
    weir_status st = WEIR_OK;
    if (c->http->method != WEIR_HTTP_HEAD)
        st = weir_http_live_open(&a->live, c->options, c->login, c->now_ns, a->body);
    if (st != WEIR_OK) {
        weir_http_problem(a, 503, "%s",
                          st == WEIR_E_FULL ? "64 streams are open, which is the maximum; close one"
                                            : "out of memory for the stream");
        return;
    }
    a->status = 200;
    a->type = "text/event-stream";
    a->endless = true;
    /* X-Accel-Buffering: nginx passes each event on at once. */
    weir_http_add_field(a, "X-Accel-Buffering: no\r\n");
}

/* Appends a list for each verdict that has requests. */
static void put_series(weir_buffer *b, const weir_history_series *s)
{
    static const char *const names[WEIR_HISTORY_GROUPS] = {"allowed", "denied", "shadowed",
                                                           "failed"};
    const char *comma = "";
    weir_buffer_append_byte(b, '{');
    for (size_t g = 0; g < WEIR_HISTORY_GROUPS; g++) {
        uint32_t any = 0;
        for (size_t i = 0; i < s->len; i++)
            any |= s->count[(s->first + (int64_t)i) % WEIR_HISTORY_STEPS][g];
        if (any == 0)
            continue;
        weir_buffer_printf(b, "%s\"%s\":", comma, names[g]);
        for (size_t i = 0; i < s->len; i++)
            weir_buffer_put(b, i == 0 ? "[" : ",",
                            s->count[(s->first + (int64_t)i) % WEIR_HISTORY_STEPS][g]);
        weir_buffer_append_byte(b, ']');
        comma = ",";
    }
    weir_buffer_append_byte(b, '}');
}

static void put_history(void *ctx, const weir_history_series *s)
{
    const call *c = ctx;
    weir_buffer *b = c->response->body;
    if (s->name && !sees(c, s->name))
        return;
    if (!s->name) {
        weir_buffer_put(b, ",\"first_ms\":", s->first_ns / 1000000);
        weir_buffer_printf(b, ",\"all\":");
        put_series(b, s);
        weir_buffer_printf(b, ",\"policies\":{");
        return;
    }
    weir_buffer_printf(b, "%s\n", weir_buffer_data(b)[weir_buffer_len(b) - 1] == '{' ? "" : ",");
    weir_json_put_string(b, s->name, strlen(s->name));
    weir_buffer_append_byte(b, ':');
    put_series(b, s);
}

static void history(call *c)
{
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_put(b, "{\"now_ms\":", c->now_ns / 1000000);
    weir_buffer_put(b, ",\"step_ms\":", WEIR_HISTORY_STEP_NS / 1000000);
    if (!b->failed)
        weir_limiter_history(weir_service_limiter(c->options->service), c->now_ns, put_history, c);
    weir_buffer_printf(b, "}}\n");
    weir_http_compress(c->http, c->response);
}

static void openapi(call *c)
{
    c->response->status = 200;
    c->response->type = "application/yaml";
    weir_buffer_append(c->response->body, weir_openapi, weir_openapi_len);
    weir_http_compress(c->http, c->response);
}

static bool is_shown(const weir_http_guest *g)
{
    return !g->is_shown || g->is_shown(g->app);
}

void weir_http_put_metrics(const weir_http_options *o, const weir_user *user, weir_buffer *out)
{
    weir_metrics_put(out, weir_service_limiter(o->service), o->version, user);
    for (size_t i = 0; i < o->guests_len; i++) {
        if (is_shown(&o->guests[i]) && !weir_user_is_bound(user))
            o->guests[i].put_metrics(o->guests[i].app, out);
    }
    if (o->metrics)
        o->metrics(o->metrics_ctx, out);
}

static void metrics(call *c)
{
    const weir_http_options *o = c->options;
    weir_http_response *a = c->response;
    a->status = 200;
    a->type = "text/plain; version=0.0.4";
    weir_http_put_metrics(o, weir_http_user(c), a->body);
    if (o->metrics_top)
        weir_metrics_put_top(a->body, o->service, c->now_ns, weir_http_user(c));
    weir_http_compress(c->http, a);
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

/* Answers OPTIONS * with the methods of all endpoints. */
static void server_options(call *c)
{
    c->response->status = 204;
    weir_http_add_field(c->response, "Allow: GET, HEAD, POST, OPTIONS\r\n");
}

/* ---- the front page and the table ------------------------------------------------------------ */

static void front_page(call *c);

const weir_http_endpoint weir_http_information[] = {
    {"/v1/policies", WEIR_MAY_PEEK | WEIR_MAY_POLICY | WEIR_MAY_TOP, GET | WEIR_HTTP_SAME_SITE, 0,
     policies, "lists the active policies"},
    {"/v1/shadow", WEIR_MAY_OVERRIDE, POST, NAME | SHADOW, shadow,
     "policy, shadow: puts a policy into shadow mode, or out of it (POST)"},
    {"/v1/candidate", WEIR_MAY_OVERRIDE, POST, NAME | TEXT, candidate,
     "policy, limit: compares another limit with a policy's own (POST)"},
    {"/v1/top", WEIR_MAY_TOP, GET, NAME | OF | K, top,
     "policy, of, k: lists the keys with the highest recent cost"},
    {"/v1/live", WEIR_MAY_TOP, GET | WEIR_HTTP_SAME_SITE, 0, live,
     "sends the counters once a second, as server-sent events"},
    {"/v1/history", WEIR_MAY_TOP, GET | WEIR_HTTP_SAME_SITE, 0, history,
     "the requests of the last hour, in steps of ten seconds"},
    {"/v1/openapi.yaml", WEIR_MAY_ENTER, GET | WEIR_HTTP_SAME_SITE, 0, openapi,
     "describes these endpoints to other programs (OpenAPI 3.1)"},
    {"/healthz", WEIR_MAY_ANYONE, GET | WEIR_HTTP_PROBE, 0, healthz,
     "answers ok while the process runs"},
    {"/readyz", WEIR_MAY_ANYONE, GET | WEIR_HTTP_PROBE, 0, readyz,
     "answers 200 if the daemon can take requests; if not, 503 and why"},
    {"/metrics", WEIR_MAY_METRICS, GET, 0, metrics, "metrics for Prometheus"},
    {"/", WEIR_MAY_ENTER, GET, 0, front_page, NULL},
    {"*", WEIR_MAY_ENTER, WEIR_HTTP_OPTIONS, 0, server_options, NULL},
};
const size_t weir_http_information_len =
    sizeof weir_http_information / sizeof weir_http_information[0];

static void add_help(call *c, const weir_http_endpoint *at, size_t n)
{
    weir_buffer *b = c->response->body;
    for (const weir_http_endpoint *e = at; e < at + n; e++) {
        if (e->help && e->help[0] == '/')
            weir_buffer_printf(b, "  %s\n", e->help);
        else if (e->help)
            weir_buffer_printf(b, "  %-13s %s\n", e->path, e->help);
    }
}

/* A page for browsers; for other clients, a text that lists the endpoints. */
static void front_page(call *c)
{
    const weir_http_options *o = c->options;
    const weir_http_page *index = weir_http_find_page(o, (weir_slice){"/index.html", 11});
    weir_http_add_field(c->response, "Vary: Accept\r\n");
    if (index && weir_http_accepts_html(c->http)) {
        weir_http_send_page(index, c->http, c->response);
        return;
    }
    weir_http_put_text(c, 200, "weir, a rate limiter\n\n");
    add_help(c, weir_http_decisions, weir_http_decisions_len);
    add_help(c, weir_http_information, weir_http_information_len);
    weir_http_add_text(
        c, "  /playground   a page that compares policies; /guide explains the algorithms\n"
           "  /dashboard    a page that shows what this daemon decides\n");
    for (size_t i = 0; i < o->guests_len; i++) {
        if (is_shown(&o->guests[i]))
            add_help(c, o->guests[i].at, o->guests[i].len);
    }
    weir_http_add_text(
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
