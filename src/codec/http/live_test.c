/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* /v1/live: the events, their times, the limit on streams, and requests that are no stream.
 * /v1/history: the lists of the last hour. */

#include "codec/http/kit_test.h"
#include "codec/http/live.h"

#include "port/memory_kit_test.h"

static port_counter streams;

static int setup_live(void **state)
{
    fixture *f = *state = fixture_new();
    port_store_relaxed(&streams, 0);
    f->options.streams = &streams;
    f->options.started_ns = NOW_NS - 5 * SECOND_NS;
    return 0;
}

static int teardown_live(void **state)
{
    fixture_free(*state);
    assert_int_equal(port_load_relaxed(&streams), 0);
    return 0;
}

#define LIVE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_live, teardown_live)

/* Runs the session until it waits, and returns its output. */
static const char *until_wait(fixture *f, weir_session_step *ret)
{
    weir_buffer_clear(&f->output);
    do {
        *ret = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
        if (ret->next == WEIR_SESSION_WAIT) /* a pause: no output is held */
            assert_int_equal(weir_buffer_len(&f->out), 0);
        weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
        weir_buffer_clear(&f->out);
    } while (ret->next == WEIR_SESSION_AGAIN);
    return output_of(f);
}

static const char *send_text(fixture *f, const char *text)
{
    weir_session_step step;
    weir_buffer_append(&f->in, text, strlen(text));
    const char *out = until_wait(f, &step);
    f->last = step.next;
    return out;
}

static const char *open_stream(fixture *f)
{
    reopen(f);
    return send_text(f, "GET /v1/live HTTP/1.1\r\n" HOST "\r\n");
}

/* Lets a second pass. Returns what the stream has sent. */
static const char *next_second(fixture *f)
{
    weir_session_step step;
    f->now_ns += SECOND_NS;
    const char *out = until_wait(f, &step);
    assert_int_equal(step.next, WEIR_SESSION_WAIT);
    assert_true(step.until_ns > f->now_ns && step.until_ns <= f->now_ns + SECOND_NS);
    return out;
}

/* Parses the data of the event with this name, which must be in the output once. */
static json_t *event_of(const char *out, const char *name)
{
    char head[64];
    snprintf(head, sizeof head, "event: %s\ndata: ", name);
    const char *at = strstr(out, head);
    if (!at)
        fail_msg("no event %s in\n%s", name, out);
    at += strlen(head);
    assert_null(strstr(at, head));
    const char *end = strstr(at, "\n\n");
    assert_non_null(end);
    json_t *json = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static void expect_json(json_t *json, const char *expected)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, expected);
    free(text);
}

/* Expects a member of the tick. */
static void expect_tick(const char *out, const char *member, const char *expected)
{
    json_t *tick = event_of(out, "tick");
    expect_json(json_object_get(tick, member), expected);
    json_decref(tick);
}

/* Takes from another connection of the same daemon. */
static void take(fixture *f, const char *policy, int64_t cost, int times)
{
    for (int i = 0; i < times; i++) {
        weir_request r = {.rule = {policy, strlen(policy)}, .key = {"a", 1}, .cost = cost};
        assert_true(weir_service_take(f->service, NULL, &r, 1, f->now_ns));
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void test_hello(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "s3cret");
    reopen(f);
    const char *out =
        send_text(f, "GET /v1/live HTTP/1.1\r\n" HOST "Authorization: Bearer s3cret\r\n\r\n");
    assert_int_equal(status_of(out), 200);
    has_line(out, "Content-Type: text/event-stream");
    has_line(out, "Cache-Control: no-store");
    has_line(out, "X-Accel-Buffering: no");
    has_line(out, "Connection: close");
    has_no_line(out, "Content-Length");
    assert_memory_equal(body_of(out), "event: hello\n", 13);
    json_t *hello = event_of(out, "hello");
    json_t *policies = json_object_get(hello, "policies");
    assert_int_equal(json_array_size(policies), 5);
    expect_json(json_array_get(policies, 1),
                "{\"name\":\"look\",\"limit\":\"fixed-window 1/m\",\"engine\":\"local\","
                "\"shadow\":true,\"candidate\":null}");
    json_object_del(hello, "policies");
    expect_json(hello, "{\"version\":\"1.2.3\",\"start_ms\":1767225595000,"
                       "\"now_ms\":1767225600000,\"interval_ms\":1000,\"top\":true,"
                       "\"password\":true}");
    json_decref(hello);
}

static void put_members(void *ctx, int64_t now_ns, weir_buffer *out)
{
    assert_int_equal(now_ns, NOW_NS);
    weir_buffer_printf(out, ",\"connections\":%d", *(int *)ctx);
}

/* The first tick has all policies; later ones have those whose counters changed. */
static void test_ticks(void **state)
{
    fixture *f = *state;
    int connections = 7;
    f->options.live = put_members;
    f->options.live_ctx = &connections;
    take(f, "two", 1, 1);
    const char *out = open_stream(f);
    expect_tick(out, "t_ms", "1767225600000");
    expect_tick(out, "connections", "7");
    expect_tick(out, "candidates", "{}");
    expect_tick(out, "policies",
                "{\"api\":[0,0,0,0,0,0,0],\"look\":[0,0,0,0,0,0,0],\"queue\":[0,0,0,0,0,0,0],"
                "\"slow\":[0,0,0,0,0,0,0],\"two\":[1,0,0,0,0,0,0],\"(others)\":[0,0,0,0,0,0,0],"
                "\"(throttle)\":[0,0,0,0,0,0,0],\"(texts)\":[0,0,0,0,0,0,0]}");
    f->options.live = NULL;
    take(f, "api", 1, 7);
    take(f, "look", 1, 3);
    take(f, "absent", 1, 2);
    out = next_second(f);
    expect_tick(out, "t_ms", "1767225601000");
    expect_tick(out, "policies",
                "{\"api\":[5,2,0,0,0,0,0],\"look\":[1,0,2,0,0,0,0],\"(others)\":[0,0,0,0,0,0,2]}");
    expect_tick(next_second(f), "policies", "{}");
    /* Other policies keep their places when a name is added. */
    assert_int_equal(weir_limiter_set_limit(f->limiter, "new", "gcra 1/s", NULL), WEIR_OK);
    take(f, "new", 1, 1);
    expect_tick(next_second(f), "policies", "{\"new\":[1,0,0,0,0,0,0]}");
    take(f, "absent", 1, 1);
    expect_tick(next_second(f), "policies", "{\"(others)\":[0,0,0,0,0,0,3]}");
    weir_store_stats store = weir_limiter_store_stats(f->limiter);
    char expected[160];
    snprintf(expected, sizeof expected,
             "{\"keys\":4,\"bytes\":%zu,\"bytes_max\":%zu,\"evicted\":0,\"refused\":0}",
             (size_t)store.memory_bytes, (size_t)store.memory_max);
    expect_tick(next_second(f), "store", expected);
}

/* A tick has a policy if one of its counters has changed, however many policies there are. */
static void test_news_of_many(void **state)
{
    enum { MANY = 40 };
    fixture *f = *state;
    take(f, "api", 1, 5);
    open_stream(f);
    size_t bytes = weir_http_session_usage(&f->session).bytes;
    f->now_ns += SECOND_NS;
    take(f, "api", 1, 2); /* one is allowed, and one denied */
    f->now_ns -= SECOND_NS;
    expect_tick(next_second(f), "policies", "{\"api\":[6,1,0,0,0,0,0]}");
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", 10 + i);
        assert_int_equal(weir_limiter_set_limit(f->limiter, name, "gcra 1/s", NULL), WEIR_OK);
    }
    expect_tick(next_second(f), "policies", "{}"); /* nobody has used the new ones */
    assert_true(weir_http_session_usage(&f->session).bytes > bytes + MANY * sizeof(uint64_t));
    take(f, "p49", 1, 1);
    take(f, "p10", 1, 1);
    expect_tick(next_second(f), "policies", "{\"p10\":[1,0,0,0,0,0,0],\"p49\":[1,0,0,0,0,0,0]}");
    expect_tick(next_second(f), "policies", "{}");
}

/* Without a count of the streams, there is no limit on them. */
static void test_uncounted(void **state)
{
    fixture *f = *state;
    f->options.streams = NULL;
    expect_tick(open_stream(f), "candidates", "{}");
}

static void test_candidates(void **state)
{
    fixture *f = *state;
    assert_int_equal(weir_limiter_set_candidate(f->limiter, "two", 3, "gcra 1/h", NULL), WEIR_OK);
    json_t *hello = event_of(open_stream(f), "hello");
    expect_json(json_object_get(json_array_get(json_object_get(hello, "policies"), 4), "candidate"),
                "\"gcra 1/h\"");
    json_decref(hello);
    expect_tick(open_stream(f), "candidates", "{\"two\":[0,0,0,0,0]}");
    take(f, "two", 1, 3);
    expect_tick(next_second(f), "candidates", "{\"two\":[1,1,0,1,0]}");
    expect_tick(next_second(f), "candidates", "{}");
    assert_int_equal(weir_limiter_set_candidate(f->limiter, "two", 3, NULL, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_set_candidate(f->limiter, "api", 3, "fixed-window 9/h & gcra 1/s", NULL),
        WEIR_OK);
    take(f, "two", 1, 1);
    take(f, "api", 1, 1);
    expect_tick(next_second(f), "candidates", "{\"api\":[1,0,0,0,0]}");
    expect_tick(open_stream(f), "candidates", "{\"api\":[1,0,0,0,0],\"two\":[1,1,0,1,0]}");
}

/* A change of the policies is announced once, before the tick. */
static void test_policies(void **state)
{
    fixture *f = *state;
    assert_null(strstr(open_stream(f), "event: policies"));
    assert_int_equal(weir_limiter_set_limit(f->limiter, "api", "gcra 2/s", NULL), WEIR_OK);
    const char *out = next_second(f);
    json_t *changed = event_of(out, "policies");
    assert_int_equal(json_object_size(changed), 1);
    json_t *policies = json_object_get(changed, "policies");
    assert_int_equal(json_array_size(policies), 5);
    expect_json(json_object_get(json_array_get(policies, 0), "limit"), "\"gcra 2/s\"");
    json_decref(changed);
    assert_true(strstr(out, "event: policies") < strstr(out, "event: tick"));
    assert_null(strstr(next_second(f), "event: policies"));
}

/* ---- history --------------------------------------------------------------------------------- */

static void test_history(void **state)
{
    fixture *f = *state;
    const char *out = get(f, "/v1/history");
    assert_int_equal(status_of(out), 200);
    has_line(out, "Content-Type: application/json");
    has_line(out, "Cache-Control: no-store");
    assert_string_equal(body_of(out), "{\"now_ms\":1767225600000,\"step_ms\":10000,"
                                      "\"first_ms\":1767225600000,\"all\":{},\"policies\":{}}\n");
    take(f, "api", 1, 7);
    take(f, "absent", 1, 1);
    f->now_ns += 13 * SECOND_NS;
    weir_limiter_history_tick(f->limiter, f->now_ns);
    take(f, "look", 1, 3);
    take(f, "api", 1, 1);
    f->now_ns += 2 * SECOND_NS;
    assert_string_equal(body_of(get(f, "/v1/history")),
                        "{\"now_ms\":1767225615000,\"step_ms\":10000,"
                        "\"first_ms\":1767225600000,\"all\":{\"allowed\":[5,2],"
                        "\"denied\":[2,0],\"shadowed\":[0,2],\"failed\":[1,0]},\"policies\":{\n"
                        "\"(others)\":{\"failed\":[1,0]},\n"
                        "\"api\":{\"allowed\":[5,1],\"denied\":[2,0]},\n"
                        "\"look\":{\"allowed\":[0,1],\"shadowed\":[0,2]}}}\n");
    has_line(get(f, "/v1/history"), "Vary: Accept-Encoding");
    assert_int_equal(status_of(with(f, "GET /v1/history", "Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_int_equal(status_of(with(f, "POST /v1/history", "")), 405);
    users_kit_set_password(&f->users, "s3cret");
    assert_int_equal(status_of(get(f, "/v1/history")), 401);
}

/* ---- latencies ------------------------------------------------------------------------------- */

static void test_latency(void **state)
{
    fixture *f = *state;
    take(f, "api", 1, 1);
    weir_service_latency(f->service, 100000000); /* before the stream: not in any tick */
    expect_tick(open_stream(f), "latency_us", "null");
    expect_tick(next_second(f), "latency_us", "null");
    for (int i = 0; i < 200; i++) {
        take(f, "api", 1, 1);
        weir_service_latency(f->service, i < 100 ? 1000 : i < 198 ? 4000 : 60000);
    }
    /* 512..1024 ns: 100 of them; 2048..4096: 98; 32768..65536: 2. */
    const char *out = next_second(f);
    assert_non_null(strstr(out, "\"latency_us\":{\"p50\":1.024,\"p90\":3.719,\"p99\":4.096,"
                                "\"max\":65.536}"));
    expect_tick(next_second(f), "latency_us", "null");
    take(f, "api", 1, 1);
    weir_service_latency(f->service, 50);
    assert_non_null(strstr(next_second(f), "\"latency_us\":{\"p50\":0.128,\"p90\":0.128,"));
}

static void test_latency_bounds(void **state)
{
    (void)state;
    weir_latency none = {0}, some = {0};
    some.count[0] = 4;
    some.count[WEIR_LATENCY_BUCKETS - 1] = 1;
    assert_int_equal(weir_http_live_latency_ns(&none, &some, 1), 32);
    assert_int_equal(weir_http_live_latency_ns(&none, &some, 4), 128);
    assert_int_equal(weir_http_live_latency_ns(&none, &some, 5), INT64_C(1) << 29);
    assert_int_equal(weir_http_live_latency_ns(&none, &some, 6), 0);
    weir_latency more = some;
    more.count[0] += 2;
    assert_int_equal(weir_http_live_latency_ns(&some, &more, 1), 64);
    assert_int_equal(weir_http_live_latency_ns(&some, &more, 3), 0);
}

/* ---- the connection -------------------------------------------------------------------------- */

/* Ticks keep their rhythm, and those that are overdue are skipped. */
static void test_rhythm(void **state)
{
    fixture *f = *state;
    weir_session_step step;
    open_stream(f);
    f->now_ns = NOW_NS + SECOND_NS + 300000000;
    assert_non_null(strstr(until_wait(f, &step), "event: tick"));
    assert_int_equal(step.until_ns, NOW_NS + 2 * SECOND_NS);
    assert_string_equal(until_wait(f, &step), ""); /* called too early: no tick */
    assert_int_equal(step.until_ns, NOW_NS + 2 * SECOND_NS);
    f->now_ns = NOW_NS + 60 * SECOND_NS;
    expect_tick(until_wait(f, &step), "t_ms", "1767225660000"); /* one tick, not 59 */
    assert_int_equal(step.until_ns, NOW_NS + 61 * SECOND_NS);
}

/* The stream does not need a large buffer: it is sent in parts. */
static void test_small_output(void **state)
{
    fixture *f = *state;
    char whole[8192];
    snprintf(whole, sizeof whole, "%s", open_stream(f));
    reopen(f);
    weir_buffer_clear(&f->output);
    const char *text = "GET /v1/live HTTP/1.1\r\n" HOST "\r\n";
    weir_buffer_append(&f->in, text, strlen(text));
    for (weir_session_next next = WEIR_SESSION_AGAIN; next == WEIR_SESSION_AGAIN;) {
        next = weir_http_session_run(&f->session, &f->in, &f->out, 16, f->now_ns).next;
        weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
        weir_buffer_clear(&f->out);
    }
    assert_string_equal(output_of(f), whole);
}

/* Requests before the stream are answered, and input after its head is discarded. */
static void test_pipelined(void **state)
{
    fixture *f = *state;
    reopen(f);
    const char *out =
        send_text(f, "GET /healthz HTTP/1.1\r\n" HOST "\r\nGET /v1/live HTTP/1.1\r\n" HOST
                     "\r\nGET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(status_of(out), 200);
    assert_non_null(strstr(out, "ok\nHTTP/1.1 200 OK"));
    assert_null(strstr(out, "application/json"));
    assert_int_equal(f->last, WEIR_SESSION_WAIT);
    assert_string_equal(send_text(f, "\x01 not HTTP"), "");
    assert_int_equal(f->last, WEIR_SESSION_WAIT);
    assert_int_equal(weir_buffer_len(&f->in), 0);
    assert_false(weir_http_session_usage(&f->session).mid_request);
    assert_non_null(strstr(next_second(f), "event: tick"));
}

static void test_head(void **state)
{
    fixture *f = *state;
    reopen(f);
    const char *out = send_text(f, "HEAD /v1/live HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(status_of(out), 200);
    has_line(out, "Content-Type: text/event-stream");
    has_no_line(out, "Content-Length");
    assert_string_equal(body_of(out), "");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(port_load_relaxed(&streams), 0);
    reopen(f);
    has_line(send_text(f, "GET /v1/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
             "Connection: close");
    assert_int_equal(f->last, WEIR_SESSION_WAIT);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    reopen(f);
    assert_int_equal(status_of(send_text(f, "GET /v1/live HTTP/1.1\r\n" HOST
                                            "Sec-Fetch-Site: cross-site\r\n\r\n")),
                     403);
    reopen(f);
    assert_int_equal(status_of(send_text(f, "POST /v1/live HTTP/1.1\r\n" HOST "\r\n")), 405);
    users_kit_set_password(&f->users, "s3cret");
    assert_int_equal(status_of(open_stream(f)), 401);
    assert_int_equal(port_load_relaxed(&streams), 0);
}

static void test_limit(void **state)
{
    fixture *f = *state;
    port_store_relaxed(&streams, 63);
    assert_int_equal(status_of(open_stream(f)), 200);
    assert_int_equal(port_load_relaxed(&streams), 64);
    fixture *other = fixture_new();
    other->options.streams = &streams;
    is_problem(open_stream(other), 503, "64 streams are open, which is the maximum; close one");
    assert_int_equal(other->last, WEIR_SESSION_READ); /* the connection can be used */
    weir_http_session_close(&f->session);
    weir_http_session_init(&f->session, &f->options);
    assert_int_equal(status_of(open_stream(other)), 200);
    fixture_free(other);
    assert_int_equal(port_load_relaxed(&streams), 63);
    port_store_relaxed(&streams, 0);
}

/* Each allocation fails once: the stream is refused, or it ends, or it sends all policies. */
static void test_memory(void **state)
{
    fixture *f = *state;
    bool done = false;
    for (size_t n = 0; !done; n++) {
        weir_session_step step;
        reopen(f);
        const char *text = "GET /v1/live HTTP/1.1\r\n" HOST "\r\n";
        weir_buffer_append(&f->in, text, strlen(text));
        weir_buffer_clear(&f->output);
        assert_true(weir_buffer_reserve(&f->output, 1 << 16));
        assert_true(weir_buffer_reserve(&f->out, 1 << 16));
        memory_fail(n, false);
        const char *out = until_wait(f, &step);
        done = !memory_stop();
        if (step.next == WEIR_SESSION_WAIT)
            assert_non_null(strstr(out, "\"api\":[0,0,0,0,0,0,0]"));
        else if (status_of(out) == 200)
            assert_int_equal(step.next, WEIR_SESSION_CLOSE);
        else
            assert_int_equal(status_of(out), 503);
        weir_http_session_close(&f->session);
        weir_http_session_init(&f->session, &f->options);
        assert_int_equal(port_load_relaxed(&streams), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE_TEST(test_candidates), LIVE_TEST(test_news_of_many),   LIVE_TEST(test_uncounted),
        LIVE_TEST(test_hello),      LIVE_TEST(test_ticks),          LIVE_TEST(test_policies),
        LIVE_TEST(test_latency),    LIVE_TEST(test_latency_bounds), LIVE_TEST(test_rhythm),
        LIVE_TEST(test_pipelined),  LIVE_TEST(test_small_output),   LIVE_TEST(test_head),
        LIVE_TEST(test_refused),    LIVE_TEST(test_limit),          LIVE_TEST(test_memory),
        LIVE_TEST(test_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
