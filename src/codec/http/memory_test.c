/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each allocation of an HTTP session fails in turn: the client gets the usual response or a whole
 * 503 or 500. So does a reservation. */

#include "codec/http/kit_test.h"

#include "port/memory_kit_test.h"
#include "service/reservation_kit_test.h"

enum { OUT_ROOM = 1 << 17 };

/* Expects whole responses, one after the other. Returns the status of the last. */
static int last_status(const char *at)
{
    int status = 0;
    while (*at) {
        status = status_of(at);
        const char *length = strstr(at, "\r\nContent-Length: "), *body = body_of(at);
        size_t len = length && length < body ? strtoul(length + 18, NULL, 10) : 0;
        assert_true(strlen(body) >= len);
        at = body + len;
    }
    return status;
}

static bool try_request(const char *request, const char *usual, uint64_t n, bool later)
{
    fixture *f = fixture_new();
    f->options.key_header = "X-Client";
    weir_buffer_append(&f->in, request, strlen(request));
    assert_true(weir_buffer_reserve(&f->out, OUT_ROOM));
    memory_fail(n, later);
    weir_session_step step =
        weir_http_session_run(&f->session, &f->in, &f->out, OUT_ROOM / 2, f->now_ns);
    bool failed = memory_stop();
    weir_buffer_append(&f->out, "", 1);
    const char *got = (const char *)weir_buffer_data(&f->out);
    int status = last_status(got);
    if (strcmp(got, usual) != 0 && !(failed && (status == 503 || status == 500)))
        fail_msg("%s: expected an error or\n%s\ngot\n%s", request, usual, got);
    assert_int_equal(step.next,
                     strstr(got, "Connection: close") ? WEIR_SESSION_CLOSE : WEIR_SESSION_READ);
    fixture_free(f);
    return failed;
}

static char *usual_response(const char *request)
{
    fixture *f = fixture_new();
    f->options.key_header = "X-Client";
    weir_buffer_append(&f->in, request, strlen(request));
    run(f, OUT_PAUSE);
    char *text = strdup(output_of(f));
    fixture_free(f);
    return text;
}

static void each_allocation_fails(void **state)
{
    static char long_target[6000], long_body[12000], long_lines[6000];
    const char *const requests[] = {
        "GET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/take?policy=api HTTP/1.1\r\n" HOST "X-Client: a\r\nX-Client: b\r\n\r\n",
        "GET /v1/check?limit=gcra+3/s&key=a HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/explain?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/policies HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/top?policy=api HTTP/1.1\r\n" HOST "\r\n",
        "GET /readyz HTTP/1.1\r\n" HOST "\r\n",
        "GET / HTTP/1.1\r\n" HOST "\r\n",
        "DELETE / HTTP/1.1\r\n" HOST "\r\n",
        long_target,
        long_body,
        long_lines,
    };
    (void)state;
    snprintf(long_target, sizeof long_target,
             "GET /v1/take?policy=api&key=%05000d HTTP/1.1\r\n" HOST "\r\n", 1);
    snprintf(long_body, sizeof long_body,
             "POST /v1/take HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
             "Expect: 100-continue\r\nContent-Length: 10025\r\n\r\n"
             "{\"policy\":\"api\",\"key\":\"%010000d\"}",
             1);
    snprintf(long_lines, sizeof long_lines,
             "GET /v1/take?policy=api HTTP/1.1\r\n" HOST "X-Client: %02000d\r\n"
             "X-Client: %02000d\r\n\r\n",
             1, 2);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char *usual = usual_response(requests[i]);
        for (int later = 0; later <= 1; later++) {
            uint64_t n = 0;
            while (try_request(requests[i], usual, n, later))
                assert_in_range(++n, 1, 1000);
            assert_true(n > 0);
        }
        free(usual);
    }
}

static void reservations_that_fail(void **state)
{
    fixture *f = *state;
    const char *reserve = "{\"limit\":\"gcra 1/s\",\"key\":\"k\",\"ttl\":1}",
               *cancel = "{\"id\":\"0123456789abcdef\"}";
    failure = WEIR_E_FULL;
    is_problem(post(f, "/v1/reserve", reserve), 503,
               "too many open reservations, or the store is full and refuses new keys "
               "(memory.when_full), or it knows too many limits");
    failure = WEIR_E_NOMEM;
    is_problem(post(f, "/v1/reserve", reserve), 503,
               "the store is out of memory; raise memory.size");
    is_problem(post(f, "/v1/cancel", cancel), 503, weir_status_str(WEIR_E_NOMEM));
    failure = WEIR_E_IO;
    is_problem(post(f, "/v1/cancel", cancel), 500, weir_status_str(WEIR_E_IO));
    failure = WEIR_OK;
}

/* ---- what a session keeps -------------------------------------------------------------------- */

static weir_session_usage after(fixture *f, const char *bytes, size_t len)
{
    f->last = WEIR_SESSION_READ;
    feed(f, bytes, len, len);
    weir_buffer_clear(&f->output);
    return weir_http_session_usage(&f->session);
}

/* A part of a request counts as such. Much memory is freed as soon as it is not needed. */
static void memory_between_requests(void **state)
{
    fixture *f = *state;
    static const char get[] = "GET /healthz HTTP/1.1\r\n" HOST "\r\n",
                      metrics[] = "GET /metrics HTTP/1.1\r\n" HOST "\r\n",
                      wait[] = "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n";
    static char post[12000];
    size_t len = (size_t)snprintf(post, sizeof post,
                                  "POST /v1/take HTTP/1.1\r\n" HOST
                                  "Content-Type: application/json\r\nContent-Length: 10025\r\n\r\n"
                                  "{\"policy\":\"api\",\"key\":\"%010000d\"}",
                                  1);
    weir_session_usage u = weir_http_session_usage(&f->session);
    assert_true(u.bytes == 0 && !u.mid_request);
    for (size_t n = 1; n < sizeof get - 1; n++) {
        u = after(f, get, n);
        assert_true(u.mid_request && u.bytes < 2048);
        u = after(f, get + n, sizeof get - 1 - n);
        assert_true(!u.mid_request && u.bytes < 2048);
    }
    for (int i = 0; i < 3; i++) {
        u = after(f, post, len - 1);
        assert_true(u.mid_request && u.bytes >= 10000);
        u = after(f, post + len - 1, 1);
        assert_true(!u.mid_request && u.bytes < 2048);
        u = after(f, metrics, sizeof metrics - 1);
        assert_true(!u.mid_request && u.bytes < 2048);
        size_t idle = u.bytes;
        u = after(f, wait, sizeof wait - 1);
        assert_true(!u.mid_request && u.bytes < 2048);
        assert_int_equal(f->waited_ns > 0, i > 0);
        if (i > 0) /* the response was delayed */
            assert_int_equal(u.bytes, idle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails),
                                       TEST(memory_between_requests), TEST(reservations_that_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
