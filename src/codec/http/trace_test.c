/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The spans of HTTP requests whose client traces them. */

#include "codec/http/kit_test.h"
#include "service/fake_engine_test.h"
#include "tests/kit/kit.h"

#define SPAN   "b7ad6b7169203331"
#define HEADER "traceparent: 00-0af7651916cd43dd8448eb211c80319c-" SPAN "-01\r\n"

static struct spans {
    size_t n;
    weir_trace_span last;
} spans;

static void end_span(void *ctx, const weir_trace_span *span)
{
    assert_ptr_equal(ctx, &spans);
    spans.n++;
    spans.last = *span;
}

static const weir_tracer tracer = {end_span, &spans};

static int setup_traced(void **state)
{
    fixture *f = fixture_new();
    spans = (struct spans){0};
    f->options.tracer = &tracer;
    *state = f;
    return 0;
}

#define TRACED(name) cmocka_unit_test_setup_teardown(name, setup_traced, teardown)

/* Sends a traced request, and expects a span, or none if the policy is NULL. */
static void trace(fixture *f, const char *start, const char *lines, const char *policy,
                  const char *name, int status)
{
    char all[512];
    size_t before = spans.n;
    snprintf(all, sizeof all, HEADER "%s", lines);
    int found = status_of(with(f, start, all));
    if (found != status)
        fail_msg("%s: %d", start, found);
    assert_int_equal(spans.n, before + (policy != NULL));
    if (!policy)
        return;
    assert_string_equal(spans.last.policy, policy);
    assert_string_equal(spans.last.name, name);
    assert_int_equal(spans.last.status, status);
    assert_int_equal(spans.last.allowed, status == 200);
}

static void test_decisions(void **state)
{
    static const uint8_t parent[8] = {0xB7, 0xAD, 0x6B, 0x71, 0x69, 0x20, 0x33, 0x31};
    fixture *f = *state;
    trace(f, "GET /v1/take?policy=api&key=a", "", "api", "/v1/take", 200);
    assert_int_equal(spans.last.begun_ns, NOW_NS);
    assert_string_equal(spans.last.method, "GET");
    assert_string_equal(spans.last.reason, "limit");
    assert_string_equal(spans.last.context_name, "");
    assert_memory_equal(spans.last.parent.span_id, parent, sizeof parent);
    assert_int_equal(spans.last.parent.trace_id[0], 0x0A);
    trace(f, "GET /v1/take?policy=api&key=a&cost=5", "", "api", "/v1/take", 429);
    trace(f, "GET /v1/take?policy=api&key=evil", "", "api", "/v1/take", 429);
    assert_string_equal(spans.last.reason, "deny-list");
    trace(f, "HEAD /v1/peek?policy=two&key=a", "", "two", "/v1/peek", 200);
    assert_string_equal(spans.last.method, "HEAD");
    trace(f, "GET /v1/check?limit=gcra+1/s&key=a", "", "(texts)", "/v1/check", 200);
    trace(f, "GET /v1/take?policy=api&key=evil&denied=503", "", "api", "/v1/take", 503);
}

/* Sends a traced POST with a body. */
static void trace_post(fixture *f, const char *path, const char *body, const char *policy,
                       int status)
{
    char request[1024];
    size_t before = spans.n;
    int len = snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\n" HOST HEADER
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       path, strlen(body), body);
    assert_int_equal(status_of(speak(f, request, (size_t)len)), status);
    assert_int_equal(spans.n, before + (policy != NULL));
    if (policy)
        assert_string_equal(spans.last.policy, policy);
}

static void test_posts(void **state)
{
    fixture *f = *state;
    trace_post(f, "/v1/takeall",
               "{\"requests\":[{\"policy\":\"api\",\"key\":\"a\"},{\"policy\":\"two\",\"key\":"
               "\"a\",\"cost\":3}]}",
               "two", 429);
    assert_string_equal(spans.last.method, "POST");
    trace_post(f, "/v1/reserve", "{\"policy\":\"api\",\"key\":\"a\",\"ttl\":\"1s\"}", "api", 200);
    /* They ask for nothing. */
    trace_post(f, "/v1/refund", "{\"policy\":\"api\",\"key\":\"a\"}", NULL, 200);
    trace_post(f, "/v1/charge", "{\"policy\":\"api\",\"key\":\"a\"}", NULL, 200);
    trace_post(f, "/v1/reset", "{\"policy\":\"api\",\"key\":\"a\"}", NULL, 200);
}

static void test_no_span(void **state)
{
    fixture *f = *state;
    trace(f, "GET /v1/take?policy=none&key=a", "", NULL, "", 404);
    trace(f, "GET /v1/take?policy=api", "", NULL, "", 400);
    trace(f, "GET /metrics", "", NULL, "", 200);
    trace(f, "GET /v1/take?policy=api&key=a", HEADER, NULL, "", 200); /* twice */
    with(f, "GET /v1/take?policy=api&key=a", "");
    with(f, "GET /v1/take?policy=api&key=a",
         "traceparent: 00-0af7651916cd43dd8448eb211c80319c-" SPAN "-00\r\n");
    with(f, "GET /v1/take?policy=api&key=a",
         "traceparents: 00-0af7651916cd43dd8448eb211c80319c-" SPAN "-01\r\n");
    assert_int_equal(spans.n, 0);
    with(f, "GET /v1/take?policy=api&key=a",
         "TraceParent:  00-0af7651916cd43dd8448eb211c80319c-" SPAN "-01 \r\n");
    assert_int_equal(spans.n, 1);
    f->options.tracer = NULL;
    with(f, "GET /v1/take?policy=api&key=a", HEADER);
    assert_int_equal(spans.n, 1);
}

/* The time of a pending request is that of its first call. */
static void test_pending(void **state)
{
    int ready = 0;
    (void)state;
    kit_engine = WEIR_ENGINE_REDIS;
    setup_traced(state);
    kit_engine = WEIR_ENGINE_LOCAL;
    fixture *f = *state;
    fake_engine *engine = fake_open();
    weir_service_set_engine(f->service, WEIR_ENGINE_REDIS, &engine->engine);
    f->session.completion.ready = count_ready;
    f->session.completion.ctx = &ready;
    static const char request[] = "GET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST HEADER "\r\n";
    weir_buffer_append(&f->in, request, sizeof request - 1);
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_PENDING);
    assert_int_equal(spans.n, 0);
    f->now_ns += SECOND_NS;
    fake_reply(engine, 0, f->now_ns);
    run(f, OUT_PAUSE);
    assert_int_equal(spans.n, 1);
    assert_int_equal(spans.last.begun_ns, NOW_NS);
    assert_string_equal(spans.last.policy, "api");
    weir_buffer_append(&f->in, request, sizeof request - 1);
    run(f, OUT_PAUSE);
    fake_reply(engine, 0, f->now_ns);
    run(f, OUT_PAUSE);
    assert_int_equal(spans.n, 2);
    assert_int_equal(spans.last.begun_ns, NOW_NS + SECOND_NS);
    weir_http_session_close(&f->session);
    engine->engine.calls->close(&engine->engine);
    weir_http_session_init(&f->session, &f->options);
    fixture_free(f);
}

/* ---- requests of proxies --------------------------------------------------------------------- */

static bool peer_address(const void *ctx, weir_address *ret)
{
    (void)ctx;
    return weir_address_parse(ret, "10.0.0.1", 8);
}

static void test_routes(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"p"};
    const weir_route_spec routes[] = {
        {.name = "login", .path = "/login", .policies = names, .policies_len = 1, .cost = 1},
        {.name = "free", .path = "/free"}};
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    static weir_network trusted;
    weir_rules *rules;
    assert_true(weir_network_parse(&trusted, "10.0.0.0/8", 10));
    f->options.trusted = (weir_trusted_proxies){&trusted, 1};
    f->options.client_kind = WEIR_CLIENT_LIST;
    f->options.client_header = "X-Forwarded-For";
    f->options.peer_address = peer_address;
    spec.name = "p";
    spec.limit = "fixed-window 1/h";
    assert_int_equal(weir_rules_build(&rules, f->store, NULL, &spec, 1), WEIR_OK);
    assert_int_equal(weir_rules_set_routes(rules, routes, 2, WEIR_SLASH_REFUSE), WEIR_OK);
    weir_limiter_configure(f->limiter, rules, WEIR_ENGINE_LOCAL);
    static const char client[] = "X-Forwarded-For: 192.0.2.1\r\n";
    trace(f, "GET /v1/forward-auth/login", client, "p", "/v1/forward-auth", 200);
    assert_string_equal(spans.last.context, "weir.route");
    assert_string_equal(spans.last.context_name, "login");
    trace(f, "GET /v1/forward-auth/login", client, "p", "/v1/forward-auth", 429);
    assert_string_equal(spans.last.context_name, "login");
    trace(f, "GET /v1/forward-auth/free", client, "", "/v1/forward-auth", 200);
    assert_string_equal(spans.last.context_name, "free");
    trace(f, "GET /v1/forward-auth/other", client, "", "/v1/forward-auth", 200);
    assert_string_equal(spans.last.context_name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRACED(test_decisions),         TRACED(test_posts),  TRACED(test_no_span),
        cmocka_unit_test(test_pending), TRACED(test_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
