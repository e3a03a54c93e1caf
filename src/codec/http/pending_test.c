/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* HTTP requests that wait for an engine. However the input is split and whenever the engine
 * answers, the output equals that of a daemon whose own store has all states. */

#include "codec/http/kit_test.h"
#include "service/fake_engine_test.h"
#include "tests/kit/kit.h"

typedef struct rig {
    fixture *f;
    fake_engine *engine;
    int ready;
} rig;

static void rig_open(rig *r, weir_engine_kind kind)
{
    kit_engine = kind;
    *r = (rig){.f = fixture_new(), .engine = fake_open()};
    weir_service_set_engine(r->f->service, WEIR_ENGINE_REDIS, &r->engine->engine);
    r->f->options.key_header = "X-Forwarded-For";
}

static void rig_close(rig *r)
{
    weir_http_session_close(&r->f->session);
    r->engine->engine.calls->close(&r->engine->engine);
    weir_http_session_init(&r->f->session, &r->f->options);
    fixture_free(r->f);
    kit_engine = WEIR_ENGINE_LOCAL;
}

/* Runs the session once, and appends its output to `output`. */
static weir_session_next step(rig *r, size_t out_pause)
{
    fixture *f = r->f;
    f->session.completion.ready = count_ready;
    f->session.completion.ctx = &r->ready;
    weir_session_step s = weir_http_session_run(&f->session, &f->in, &f->out, out_pause, f->now_ns);
    if (s.next == WEIR_SESSION_WAIT)
        f->now_ns = s.until_ns;
    weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
    weir_buffer_clear(&f->out);
    return s.next;
}

/* Sends bytes in pieces. The engine answers after all available input was read or, if `eager`, at
 * once. */
static void send(rig *r, const char *bytes, size_t len, size_t piece, size_t out_pause)
{
    fixture *f = r->f;
    weir_session_next next = WEIR_SESSION_READ;
    for (size_t at = 0; at < len || next != WEIR_SESSION_READ;) {
        size_t n = len - at < piece ? len - at : piece;
        weir_buffer_append(&f->in, bytes + at, n);
        at += n;
        if (next == WEIR_SESSION_PENDING && at % 3 > 0 && at < len) { /* called too early */
            assert_int_equal(step(r, out_pause), WEIR_SESSION_PENDING);
            continue;
        }
        if (next == WEIR_SESSION_PENDING) {
            assert_false(weir_http_session_usage(&f->session).mid_request);
            fake_reply(r->engine, 0, f->now_ns);
        }
        next = step(r, out_pause);
        if (next == WEIR_SESSION_CLOSE)
            return;
    }
}

#define POST(path, len, body)                                                                      \
    "POST " path " HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: " len     \
    "\r\n\r\n" body

static const char pipeline[] =
    "GET /v1/take?policy=api&key=a%2520b%20c HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=api&key=a%2520b+c HTTP/1.1\r\n" HOST "\r\n"
    "POST /v1/take HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nExpect: 100-continue\r\n"
    "Content-Length: 26\r\n\r\n{\"policy\":\"api\",\"key\":\"a\"}"
    "HEAD /v1/take?policy=api&key=a&cost=3 HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/peek?policy=api HTTP/1.1\r\n" HOST "X-Forwarded-For: a\r\n\r\n"
    "POST /v1/take HTTP/1.1\r\n" HOST "content-type:application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "1\r\n{\r\n19;q=\"x\"\r\n\"policy\":\"two\",\"key\":\"a\"}\r\n0\r\nA: b\r\n\r\n"
    "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/check?limit=gcra+1/s+burst+2&key=a&cost=2 HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/check?limit=gcra+1/s+burst+2&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=look&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=look&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=api&key=evil HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=none&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=api&cots=a HTTP/1.1\r\n" HOST
    "\r\n" POST("/v1/refund", "35", "{\"policy\":\"api\",\"key\":\"a\",\"cost\":2}")
        POST("/v1/refund", "28", "{\"policy\":\"queue\",\"key\":\"a\"}")
            POST("/v1/reset", "26", "{\"policy\":\"two\",\"key\":\"a\"}") POST(
                "/v1/takeall", "80",
                "{\"requests\":[{\"policy\":\"api\",\"key\":\"a\",\"cost\":1},"
                "{\"policy\":\"look\",\"key\":\"a\"}]}\n ") "GET /v1/policies HTTP/1.1\r\n" HOST
                                                            "\r\n"
                                                            "GET /v1/take?policy=two&key=a&cost=9 "
                                                            "HTTP/1.1\r\n" HOST
                                                            "Connection: close\r\n\r\n"
                                                            "GET /healthz HTTP/1.1\r\n" HOST "\r\n";

static void check_cuts(void **unused)
{
    (void)unused;
    size_t len = sizeof pipeline - 1;
    rig local, far;
    rig_open(&local, WEIR_ENGINE_LOCAL);
    send(&local, pipeline, len, len, OUT_PAUSE);
    assert_int_equal(local.engine->submitted, 0);
    for (size_t piece = 1; piece <= len; piece += piece < 100 ? 1 : 97) {
        rig_open(&far, WEIR_ENGINE_REDIS);
        far.engine->reports_next = true;
        send(&far, pipeline, len, piece, piece % 2 ? OUT_PAUSE : 300);
        assert_int_equal(weir_buffer_len(&far.f->output), weir_buffer_len(&local.f->output));
        assert_memory_equal(weir_buffer_data(&far.f->output), weir_buffer_data(&local.f->output),
                            weir_buffer_len(&local.f->output));
        assert_int_equal(far.ready, 18);
        rig_close(&far);
    }
    rig_close(&local);
}

/* While a request waits, earlier responses are sent, and later requests wait. */
static void check_waits(void **unused)
{
    (void)unused;
    static const char three[] = "GET /healthz HTTP/1.1\r\n" HOST "\r\n"
                                "GET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n"
                                "GET /healthz HTTP/1.1\r\n" HOST "\r\n";
    rig r;
    rig_open(&r, WEIR_ENGINE_REDIS);
    weir_buffer_append(&r.f->in, three, sizeof three - 1);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING);
    const char *text = output_of(r.f);
    assert_int_equal(status_of(text), 200);
    assert_null(strstr(text, "remaining"));
    size_t len = weir_buffer_len(&r.f->output);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING);
    assert_int_equal(weir_buffer_len(&r.f->output), len);
    fake_reply(r.engine, 0, NOW_NS);
    assert_int_equal(r.ready, 1);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_READ);
    text = output_of(r.f) + len;
    assert_non_null(strstr(text, "\"remaining\":4"));
    assert_non_null(strstr(strstr(text, "remaining\""), "\r\n\r\nok\n"));
    rig_close(&r);
}

/* A client disconnects while its request waits, after the rules have changed. */
static void check_client_disconnects(void **unused)
{
    (void)unused;
    static const char take[] = "GET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n";
    rig r;
    for (int settled = 0; settled < 2; settled++) {
        rig_open(&r, WEIR_ENGINE_REDIS);
        weir_buffer_append(&r.f->in, take, sizeof take - 1);
        assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING);
        set_rules(r.f);
        if (settled)
            fake_reply(r.engine, 0, NOW_NS);
        rig_close(&r);
    }
}

/* Other options, such as those of a reload, can refuse a request that waits. Its answer is then
 * dropped: the next request gets its own. */
static void check_other_options(void **unused)
{
    (void)unused;
    static const char take[] = "GET /v1/take?policy=api&user=a HTTP/1.1\r\n" HOST "\r\n"
                               "GET /v1/take?policy=api&key=b&cost=2 HTTP/1.1\r\n" HOST "\r\n";
    rig r;
    rig_open(&r, WEIR_ENGINE_REDIS);
    r.f->options.key_header = NULL;
    r.f->options.key_query = "user";
    weir_buffer_append(&r.f->in, take, sizeof take - 1);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING);
    r.f->options.key_query = NULL;
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING); /* no answer has arrived */
    fake_reply(r.engine, 0, NOW_NS);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_PENDING); /* the second request waits */
    assert_int_equal(status_of(output_of(r.f)), 400);
    size_t len = weir_buffer_len(&r.f->output);
    fake_reply(r.engine, 0, NOW_NS);
    assert_int_equal(step(&r, OUT_PAUSE), WEIR_SESSION_READ);
    assert_non_null(strstr(output_of(r.f) + len, "\"remaining\":3"));
    rig_close(&r);
}

static const char *ask(rig *r, const char *target)
{
    char request[512];
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", target);
    weir_buffer_clear(&r->f->output);
    send(r, request, (size_t)len, (size_t)len, OUT_PAUSE);
    return output_of(r->f);
}

static void check_errors(void **unused)
{
    (void)unused;
    rig r;
    rig_open(&r, WEIR_ENGINE_REDIS);
    r.engine->status = WEIR_E_IO;
    r.engine->reason = "the server is gone";
    is_problem(ask(&r, "/v1/take?policy=api&key=a"), 503, "the server is gone");
    is_problem(ask(&r, "/v1/explain?policy=api&key=a"), 503, "the server is gone");
    r.engine->status = WEIR_E_UNSUPPORTED;
    r.engine->reason = "a double cannot hold it";
    is_problem(ask(&r, "/v1/peek?policy=api&key=a"), 501, "a double cannot hold it");
    r.engine->reason = NULL;
    r.engine->status = WEIR_E_BUSY;
    is_problem(ask(&r, "/v1/take?policy=api&key=a"), 500, "busy, try again later");
    r.engine->status = WEIR_E_FULL;
    is_problem(ask(&r, "/v1/take?policy=api&key=a"), 503,
               "the store is full and refuses new keys (memory.when_full)");
    r.engine->status = WEIR_OK;
    r.engine->by_error = true;
    const char *text = ask(&r, "/v1/take?policy=api&key=a");
    assert_int_equal(status_of(text), 200);
    assert_non_null(strstr(text, "\"reason\":\"on-error\""));
    text = ask(&r, "/metrics");
    assert_non_null(strstr(text, "weir_decisions_total{policy=\"api\",verdict=\"unreached\"} 1\n"));
    assert_non_null(strstr(text, "weir_decisions_total{policy=\"api\",verdict=\"failed\"} 3\n"));
    rig_close(&r);
}

static void check_denied_by_error(void **unused)
{
    (void)unused;
    rig r;
    rig_open(&r, WEIR_ENGINE_REDIS);
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "shut";
    spec.limit = "gcra 1/s";
    spec.engine = WEIR_ENGINE_REDIS;
    spec.on_error = WEIR_ON_ERROR_CLOSED;
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, r.f->store, NULL, &spec, 1), WEIR_OK);
    weir_limiter_set_rules(r.f->limiter, rules);
    r.engine->by_error = true;
    const char *text = ask(&r, "/v1/take?policy=shut&key=a");
    assert_int_equal(status_of(text), 429);
    has_line(text, "Retry-After: 1");
    assert_non_null(strstr(text, "The server with the state of \\\"shut\\\" is unreachable; "
                                 "try again in 1.000 s."));
    assert_non_null(strstr(text, "\"reason\":\"on-error\""));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_cuts),
        cmocka_unit_test(check_waits),
        cmocka_unit_test(check_client_disconnects),
        cmocka_unit_test(check_other_options),
        cmocka_unit_test(check_errors),
        cmocka_unit_test(check_denied_by_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
