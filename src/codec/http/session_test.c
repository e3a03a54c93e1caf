/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* HTTP sessions: malformed and too long messages, limits at the exact byte, and input that is split
 * anywhere. */

#include "codec/http/kit_test.h"
#include "codec/http/syntax.h"

/* ---- messages -------------------------------------------------------------------------------- */

/* Runs the session without input. */
static weir_session_next run_once(fixture *f)
{
    weir_buffer_clear(&f->out);
    return weir_http_session_run(&f->session, &f->in, &f->out, 1 << 20, f->now_ns).next;
}

static void check_connection(void **state)
{
    fixture *f = *state;
    with(f, "GET /healthz", "");
    assert_int_equal(f->last, WEIR_SESSION_READ);
    has_line(with(f, "GET /healthz", "Connection: close\r\n"), "Connection: close");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    const char *old = "GET /healthz HTTP/1.0\r\n\r\n";
    has_line(speak(f, old, strlen(old)), "Connection: close");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    old = "GET /healthz HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    has_line(speak(f, old, strlen(old)), "Connection: keep-alive");
    assert_int_equal(f->last, WEIR_SESSION_READ);
    /* Upgrade is ignored. */
    has_no_line(with(f, "GET /healthz",
                     "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                     "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"),
                "Connection");
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_int_equal(status_of(with(f, "CONNECT weir:80", "")), 404);
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
}

/* A server that stops closes with the next response, or after a second without a request. */
static void check_stopping(void **state)
{
    fixture *f = *state;
    const char *request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    has_no_line(speak(f, request, strlen(request)), "Connection");
    int64_t at_ns = f->now_ns;
    assert_false(weir_http_session_poll(&f->session, at_ns + 5000000000, false));
    assert_false(weir_http_session_poll(&f->session, at_ns + 5000000000, true)); /* not read yet */
    weir_buffer_clear(&f->output);
    feed(f, request, strlen(request), strlen(request));
    has_line(output_of(f), "Connection: close");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);

    speak(f, request, strlen(request));
    at_ns = f->now_ns;
    assert_false(weir_http_session_poll(&f->session, at_ns, true));
    assert_false(weir_http_session_poll(&f->session, at_ns + 1000000000, true));
    assert_int_equal(run_once(f), WEIR_SESSION_READ);
    assert_true(weir_http_session_poll(&f->session, at_ns + 1000000001, true));
    assert_int_equal(run_once(f), WEIR_SESSION_CLOSE);

    speak(f, "GET /", 5); /* a request that has begun */
    assert_false(weir_http_session_poll(&f->session, at_ns, true));
    assert_false(weir_http_session_poll(&f->session, at_ns + 9000000000, true));
}

#define CHUNKED_TO_HEALTHZ(coding)                                                                 \
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " coding "\r\n\r\n"

/* Details of problems. */
static const char bad_request[] = WEIR_HTTP_BAD_REQUEST_LINE;
static const char bad_method[] = "unknown method, expected GET, HEAD, POST or OPTIONS";
static const char bad_header[] = WEIR_HTTP_BAD_HEADER_LINE;
static const char version[] = WEIR_HTTP_BAD_VERSION;
static const char one_blank[] =
    "malformed request line, expected one space before and one after the target";
static const char bare_cr[] = "expected LF after CR, found another byte";
static const char bare_lf[] = "expected CR LF at the end of each line, found LF alone";
static const char folded[] = "folded header line, expected each header on one line";
static const char one_host[] = "expected exactly one Host header";
static const char authorization[] = "expected at most one Authorization header";
static const char bad_target[] =
    "malformed request target, expected one such as /healthz or http://HOST/healthz";
static const char target_host[] =
    "malformed host in the request target, expected HOST or HOST:PORT without a user";
static const char length[] =
    "malformed body length, expected one Content-Length of digits, or Transfer-Encoding: chunked";
static const char coding[] = "unsupported Transfer-Encoding, expected chunked";
static const char old_coding[] =
    "Transfer-Encoding in an HTTP/1.0 request, expected Content-Length";
static const char earlier_coding[] =
    "unsupported Transfer-Encoding before chunked, expected chunked alone";
static const char expect[] = "unsupported Expect header, expected 100-continue";
static const char bad_chunk[] =
    "malformed chunk, expected its size in hexadecimal digits, CR LF, its bytes, CR LF";
static const char long_body[] = "the body exceeds 131072 bytes";

static const struct {
    const char *bytes;
    int status;
    const char *detail;
} malformed[] = {
    {"\x16\x03\x01\x02", 400, bad_request},
    {"*1\r\n$4\r\nPING\r\n", 400, bad_request},
    {"FOO / HTTP/1.1\r\n\r\n", 501, bad_method},
    {"GETX / HTTP/1.1\r\n\r\n", 501, bad_method},
    {"get / HTTP/1.1\r\n\r\n", 501, bad_method},
    {"GET/ HTTP/1.1\r\n\r\n", 400, bad_request},
    {"DESCRIBE / HTTP/1.1\r\nHost: a\r\n\r\n", 501, bad_method},
    {"GET / HTTP/1.1\r\n\r\n", 400, one_host},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, one_host},
    {"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400, one_host},
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, bad_header},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400, bare_cr},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400, bad_header},
    {"GET / HTTP/1.1\nHost: a\n\n", 400, bare_lf},
    {"GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400, bad_request},
    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, version},
    {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505, version},
    {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, version},
    {"GET /\r\n\r\n", 505, version},
    {"GET /healthz RTSP/1.0\r\nHost: a\r\n\r\n", 400, bad_request},
    {"SOURCE /healthz ICE/1.0\r\nHost: a\r\n\r\n", 400, bad_request},
    {"\rGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400, bare_cr},
    {"\r\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400, bare_cr},
    {"PRI * HTTP/1.1\r\n\r\n", 505, version},
    {"GET http://a@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, target_host},
    {"GET http://localhost:65536/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, target_host},
    {"GET http:///healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, target_host},
    {"GET ftp://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bad_target},
    {"GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n", 400,
     authorization},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, version},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, length},
    {"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, folded},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n", 400, folded},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, length},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400, length},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
     length},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400,
     length},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400, coding},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400, length},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400, coding},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400, bad_chunk},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n", 400, bad_chunk},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", 400, bad_chunk},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, old_coding},
    {"POST / HTTP/1.1\r\nHost: a\r\nExpect: gold\r\n\r\n", 417, expect},
    {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", 400, bare_lf},
    {"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400, bare_lf},
    {"\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bare_lf},
    {"GET /healthz  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, one_blank},
    {"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, one_blank},
    {"GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400, one_blank},
    {"QUERY /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, bad_method},
    {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", 400, bad_header},
    {" GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bad_request},
    {CHUNKED_TO_HEALTHZ("gzip, chunked") "0\r\n\r\n", 501, earlier_coding},
    {CHUNKED_TO_HEALTHZ("gzip\r\nTransfer-Encoding: chunked") "0\r\n\r\n", 501, earlier_coding},
    {CHUNKED_TO_HEALTHZ("chunked, chunked") "0\r\n\r\n", 400, length},
    {CHUNKED_TO_HEALTHZ("") "0\r\n\r\n", 400, coding},
    {CHUNKED_TO_HEALTHZ("identity") "0\r\n\r\n", 400, coding},
    {CHUNKED_TO_HEALTHZ("chunked") "0\r\nA: b\r\n c\r\n\r\n", 400, folded},
    {CHUNKED_TO_HEALTHZ("chunked") "0\r\n A: b\r\n\r\n", 400, folded},
    {CHUNKED_TO_HEALTHZ("chunked") "0\r\nA: b\n\r\n", 400, bare_lf},
    {CHUNKED_TO_HEALTHZ("chunked") "0\r\nA: b\r\n\n", 400, bare_lf},
    {CHUNKED_TO_HEALTHZ("chunked") "0\n\r\n", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") "2\r\n{}\n0\r\n\r\n", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") "20001\r\n", 413, long_body},
    {CHUNKED_TO_HEALTHZ("chunked") "1\r\nx\r\n20000\r\n", 413, long_body},
    {CHUNKED_TO_HEALTHZ("chunked") "fffffffffffffffff", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") "-1\r\n", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") " 1\r\n", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") "1 \r\n", 400, bad_chunk},
    {CHUNKED_TO_HEALTHZ("chunked") "0x1\r\n", 400, bad_chunk},
};

static void check_malformed(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        const char *answer = speak(f, malformed[i].bytes, strlen(malformed[i].bytes));
        if (weir_buffer_len(&f->output) == 1)
            fail_msg("no response to\n%s", malformed[i].bytes);
        is_problem(answer, malformed[i].status, malformed[i].detail);
        has_line(answer, "Connection: close");
        assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    }
}

/* Empty lines between requests are skipped; a bare CR is refused. */
static void check_between_requests(void **state)
{
    fixture *f = *state;
    static const char *const between[] = {"\r\n", "\r\n\r\n", "\r", "\r\r\n", "\r\n\r"};
    static const int expected[] = {200, 200, 400, 400, 400};
    for (size_t i = 0; i < sizeof between / sizeof between[0]; i++) {
        char bytes[256];
        snprintf(bytes, sizeof bytes,
                 "GET /healthz HTTP/1.1\r\n" HOST "\r\n%sGET /healthz HTTP/1.1\r\n" HOST "\r\n",
                 between[i]);
        const char *answer = speak(f, bytes, strlen(bytes));
        assert_int_equal(status_of(answer), 200);
        answer = strstr(body_of(answer), "HTTP/1.1 ");
        assert_non_null(answer);
        assert_int_equal(status_of(answer), expected[i]);
    }
}

static void check_bodies(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(with(f, "POST /v1/take",
                                    "Content-Type: application/json\r\n"
                                    "Transfer-Encoding: chunked\r\n\r\n"
                                    "5;x=y\r\n{\"pol\r\n1c\r\nicy\":\"api\",\"key\":\"a\",\"cost\":"
                                    "\r\n2\r\n5}\r\n0\r\nContent-Type: text/x\r\n")),
                     200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a")), 429);
    const char *answer = with(f, "POST /v1/take", "Content-Length: 2\r\n\r\n{}");
    is_problem(answer, 415, "missing Content-Type, expected application/json");
    is_problem(with(f, "POST /v1/take", "Content-Type: text/json\r\nContent-Length: 2\r\n\r\n{}"),
               415, "unsupported Content-Type 'text/json', expected application/json");
    /* Without a body, no Content-Type is needed. */
    assert_int_equal(status_of(with(f, "POST /v1/take?policy=api&key=b", "Content-Length: 0\r\n")),
                     200);
}

static void check_expect(void **state)
{
    fixture *f = *state;
    const char *lines = "Content-Type: application/json\r\nExpect: 100-Continue\r\n"
                        "Content-Length: 26\r\n\r\n{\"policy\":\"api\",\"key\":\"a\"}";
    const char *answer = with(f, "POST /v1/take", lines);
    assert_memory_equal(answer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", 42);
    /* The response does not depend on the body, which may not arrive: the connection is closed. */
    answer = with(f, "POST /v1/none", lines);
    assert_int_equal(status_of(answer), 404);
    has_line(answer, "Connection: close");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(status_of(with(f, "GET /healthz", "Expect: 100-continue\r\n")), 200);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Makes "GET /healthz?xxx... HTTP/1.1" with a target of `target` bytes and a head of `head`
 * bytes. */
static const char *sized(fixture *f, size_t target, size_t head)
{
    char *request = malloc(head + 64);
    memset(request, 'x', head + 64);
    memcpy(request, "GET /healthz?", 13);
    static const char rest[] = " HTTP/1.1\r\n" HOST "X: ";
    memcpy(request + 4 + target, rest, sizeof rest - 1);
    memcpy(request + head - 4, "\r\n\r\n", 4);
    const char *answer = speak(f, request, head);
    free(request);
    return answer;
}

static void check_limits(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(sized(f, WEIR_HTTP_TARGET_MAX, 9000)), 200);
    is_problem(sized(f, WEIR_HTTP_TARGET_MAX + 1, 9000), 414,
               "the request target exceeds 8192 bytes; send a long key in a JSON body");
    assert_int_equal(status_of(sized(f, 2 * WEIR_HTTP_TARGET_MAX, 20000)), 414);
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(status_of(sized(f, 20, WEIR_HTTP_HEAD_MAX)), 200);
    is_problem(sized(f, 20, WEIR_HTTP_HEAD_MAX + 1), 431,
               "the request line and headers exceed 65536 bytes");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);

    char lines[2048] = "";
    for (int i = 1; i < WEIR_HTTP_LINES_MAX; i++)
        strcat(lines, "Expect: 100-continue\r\n");
    assert_int_equal(status_of(with(f, "GET /healthz", lines)), 417);
    strcat(lines, "Origin: x\r\n");
    is_problem(with(f, "GET /healthz", lines), 431,
               "too many header lines, expected at most 32 of the headers that weir reads");
    char name[200] = "";
    memset(name, 'n', 150);
    strcpy(name + 150, ": 1\r\n");
    assert_int_equal(status_of(with(f, "GET /healthz", name)), 200);
}

/* Sends a body of "{}" and spaces, `len` bytes, with Content-Length or in chunks. */
static const char *with_body(fixture *f, size_t len, bool chunked, size_t chunk)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 22);
    char line[160];
    static char blanks[1 << 18];
    memset(blanks, ' ', sizeof blanks);
    memcpy(blanks, "{}", 2);
    size_t n = (size_t)snprintf(
        line, sizeof line, "POST /v1/take HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n");
    weir_buffer_append(&b, line, n);
    n = chunked ? (size_t)snprintf(line, sizeof line, "Transfer-Encoding: chunked\r\n\r\n")
                : (size_t)snprintf(line, sizeof line, "Content-Length: %zu\r\n\r\n", len);
    weir_buffer_append(&b, line, n);
    for (size_t at = 0; chunked && at < len; at += chunk) {
        size_t now = len - at < chunk ? len - at : chunk;
        n = (size_t)snprintf(line, sizeof line, "%zx\r\n", now);
        weir_buffer_append(&b, line, n);
        weir_buffer_append(&b, blanks + at, now);
        weir_buffer_append(&b, "\r\n", 2);
    }
    if (chunked)
        weir_buffer_append(&b, "0\r\n\r\n", 5);
    else
        weir_buffer_append(&b, blanks, len);
    const char *answer = speak(f, (char *)weir_buffer_data(&b), weir_buffer_len(&b));
    weir_buffer_free(&b);
    return answer;
}

static void check_body_limits(void **state)
{
    fixture *f = *state;
    const char *missing = "missing key, expected the parameter \"key\"";
    is_problem(with_body(f, WEIR_HTTP_BODY_MAX, false, 0), 400, missing);
    is_problem(with_body(f, WEIR_HTTP_BODY_MAX + 1, false, 0), 413, long_body);
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    is_problem(with_body(f, WEIR_HTTP_BODY_MAX, true, 1000), 400, missing);
    is_problem(with_body(f, WEIR_HTTP_BODY_MAX + 1, true, 1000), 413, long_body);
    is_problem(with_body(f, WEIR_HTTP_BODY_MAX, true, 1), 400, missing);
    assert_int_equal(f->last, WEIR_SESSION_READ);
}

/* Sends a chunked body of one byte with `len` bytes of framing. */
static const char *framed(fixture *f, size_t len)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 22);
    const char *head = "POST /v1/take HTTP/1.1\r\n" HOST
                       "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    const char *end = "\r\n1\r\n0\r\n\r\n";
    weir_buffer_append(&b, head, strlen(head));
    for (size_t i = 2; i < len - strlen(end); i++)
        weir_buffer_append_byte(&b, 'x');
    weir_buffer_append(&b, end, strlen(end));
    const char *answer = speak(f, (char *)weir_buffer_data(&b), weir_buffer_len(&b));
    weir_buffer_free(&b);
    return answer;
}

static void check_framing_limits(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(framed(f, 100)), 400);
    assert_int_equal(status_of(framed(f, WEIR_HTTP_RAW_MAX)), 400);
    is_problem(framed(f, WEIR_HTTP_RAW_MAX + 1), 413,
               "the chunked body with its framing exceeds 1048576 bytes");
}

/* A header whose name is longer than any that weir reads is ignored. */
static void check_long_names(void **state)
{
    fixture *f = *state;
    char request[256];
    users_kit_set_password(&f->users, "p");
    for (int len = 63; len <= 130; len++) {
        snprintf(request, sizeof request,
                 "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: Bearer p\r\n%0*d: x\r\n\r\n",
                 len, 0);
        assert_int_equal(status_of(speak(f, request, strlen(request))), 200);
    }
}

/* SOURCE, the last of the methods of llhttp 8, is a method like any other. */
static void check_last_method(void **state)
{
    static const char request[] = "SOURCE /healthz HTTP/1.1\r\n" HOST "\r\n";
    assert_int_equal(status_of(speak(*state, request, sizeof request - 1)), 405);
}

/* A request must not inherit anything from the one before. */
static void check_next_request(void **state)
{
    fixture *f = *state;
    f->options.key_header = "X-Client";
    const char *two = "GET /v1/take?policy=api HTTP/1.1\r\n" HOST
                      "X-Client: a\r\nX-Client: b\r\nContent-Type: x\r\n\r\n"
                      "POST /v1/take?policy=api HTTP/1.1\r\n" HOST "\r\n"
                      "POST /v1/take?policy=api HTTP/1.1\r\n" HOST "X-Client: c\r\n\r\n";
    const char *answer = speak(f, two, strlen(two));
    assert_int_equal(status_of(answer), 200);
    answer = strstr(body_of(answer), "HTTP/1.1");
    assert_int_equal(status_of(answer), 400);
    answer = strstr(body_of(answer), "HTTP/1.1");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=c"), "\"remaining\":4"));
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=a,+b"), "\"remaining\":4"));
}

/* Lines of one header are joined, wherever they are; other headers stay as they are. */
static void check_joined_lines(void **state)
{
    fixture *f = *state;
    static const char request[] = "GET /v1/take?policy=api HTTP/1.1\r\nX-Client: a\r\n"
                                  "Content-Type: x\r\nAuthorization: Bearer p\r\n" HOST
                                  "Content-Type: y\r\nX-Client: b\r\n\r\n";
    f->options.key_header = "X-Client";
    users_kit_set_password(&f->users, "p");
    assert_int_equal(status_of(speak(f, request, sizeof request - 1)), 200);
    users_kit_set_password(&f->users, NULL);
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=a,+b"), "\"remaining\":4"));
}

/* HTTP/1.0 requires no Host. The host of an earlier request must not count for it. */
static void check_host_of_next(void **state)
{
    static const char two[] =
        "GET /healthz HTTP/1.1\r\nContent-Type: x\r\nHost: unknown\r\n\r\n"
        "GET /v1/policies HTTP/1.0\r\nContent-Type: x\r\nConnection: keep-alive\r\n\r\n";
    const char *answer = speak(*state, two, sizeof two - 1);
    assert_int_equal(status_of(answer), 200);
    answer = strstr(body_of(answer), "HTTP/1.1");
    assert_non_null(answer);
    assert_int_equal(status_of(answer), 200);
}

/* The limits apply to a request, not to a connection. */
static void check_many_requests(void **state)
{
    fixture *f = *state;
    weir_buffer b;
    weir_buffer_init(&b, 1 << 22);
    const char *head = "HEAD /healthz HTTP/1.1\r\n" HOST "\r\n";
    for (int i = 0; i < 2000; i++)
        weir_buffer_append(&b, head, strlen(head));
    const char *at = speak(f, (char *)weir_buffer_data(&b), weir_buffer_len(&b));
    unsigned good = 0;
    for (; (at = strstr(at, "HTTP/1.1 200 OK")); at++)
        good++;
    assert_int_equal(good, 2000);
    weir_buffer_free(&b);
}

/* ---- split input ----------------------------------------------------------------------------- */

static const char pipeline[] =
    "\r\nGET /v1/take?policy=api&key=a HTTP/1.1\r\n" HOST "\r\n"
    "POST /v1/take HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nExpect: 100-continue\r\n"
    "Content-Length: 26\r\n\r\n{\"policy\":\"api\",\"key\":\"a\"}"
    "HEAD /v1/take?policy=api&key=a&cost=3 HTTP/1.1\r\n" HOST "X-Forwarded-For: a\r\n\r\n"
    "POST /v1/take HTTP/1.1\r\n" HOST "content-type:application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "1\r\n{\r\n19;q=\"x\"\r\n\"policy\":\"two\",\"key\":\"a\"}\r\n0\r\nA: b\r\n\r\n"
    "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: x\r\n\r\n"
    "GET /v1/policies HTTP/1.1\r\n" HOST "\r\n"
    "DELETE /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
    "GET /v1/take?policy=two&key=a&cost=9 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
    "GET /healthz HTTP/1.1\r\n" HOST "\r\n";

/* Returns the output of a new fixture for input in pieces of `first`, then `step` bytes. */
static char *answers(const char *bytes, size_t len, size_t first, size_t step, size_t out_pause)
{
    fixture *f = fixture_new();
    f->options.key_header = "X-Forwarded-For";
    for (size_t at = 0, n = first; at < len && f->last != WEIR_SESSION_CLOSE; at += n, n = step) {
        weir_buffer_append(&f->in, bytes + at, len - at < n ? len - at : n);
        run(f, out_pause);
    }
    char *text = strdup(output_of(f));
    fixture_free(f);
    return text;
}

static void check_cuts(void **state)
{
    (void)state;
    size_t len = sizeof pipeline - 1;
    char *whole = answers(pipeline, len, len, len, OUT_PAUSE);
    unsigned answered = 0;
    for (const char *at = whole; (at = strstr(at, "HTTP/1.1 ")); at++)
        answered++;
    assert_int_equal(answered,
                     11); /* including 100 Continue; no response after Connection: close */
    for (size_t first = 1; first < len; first++) {
        char *cut = answers(pipeline, len, first, len, OUT_PAUSE);
        assert_string_equal(cut, whole);
        free(cut);
    }
    for (size_t step = 1; step < 8; step++) {
        char *cut = answers(pipeline, len, step, step, step);
        assert_string_equal(cut, whole);
        free(cut);
    }
    free(whole);
}

static void check_cuts_of_errors(void **state)
{
    (void)state;
    static const char *const bytes[] = {
        "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST /v1/none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET /healthz RTSP/1.0\r\nHost: a\r\n\r\n",
        "SOURCE /healthz ICE/1.0\r\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /\r\n\r\n",
        "\r\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n\rGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:b@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://evil/v1/policies HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: [localhost]\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
        CHUNKED_TO_HEALTHZ("gzip, chunked") "0\r\n\r\n",
        CHUNKED_TO_HEALTHZ("chunked\r\nTransfer-Encoding: chunked") "0\r\n\r\n",
        CHUNKED_TO_HEALTHZ("chunked") "1\r\nx\r\n0\r\nA: b\r\n c\r\n\r\n",
        CHUNKED_TO_HEALTHZ("chunked") "0\r\nA: b\r\n\n",
        CHUNKED_TO_HEALTHZ("chunked") "0\r\nA: b\n\r\n",
        CHUNKED_TO_HEALTHZ("chunked") "2\r\n{}\r\nfffff\r\n",
        CHUNKED_TO_HEALTHZ("chunked") "fffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        size_t len = strlen(bytes[i]);
        char *whole = answers(bytes[i], len, len, len, OUT_PAUSE);
        assert_true(strlen(whole) > 0);
        for (size_t first = 1; first < len; first++) {
            char *cut = answers(bytes[i], len, first, len, OUT_PAUSE);
            assert_string_equal(cut, whole);
            free(cut);
        }
        free(whole);
    }
}

static void check_back_pressure_of_heads(void **state)
{
    fixture *f = *state;
    const char *head = "HEAD /healthz HTTP/1.1\r\n" HOST "\r\n";
    for (int i = 0; i < 20; i++)
        weir_buffer_append(&f->in, head, strlen(head));
    weir_session_step step = weir_http_session_run(&f->session, &f->in, &f->out, 300, f->now_ns);
    assert_int_equal(step.next, WEIR_SESSION_AGAIN);
    assert_in_range(weir_buffer_len(&f->out), 300, 450);
}

/* A long body, a long target and a target above the limit: each is measured separately. */
static void check_limits_of_next(void **state)
{
    fixture *f = *state;
    weir_buffer b;
    weir_buffer_init(&b, 1 << 22);
    const char *head = "POST /healthz HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\n";
    weir_buffer_append(&b, head, strlen(head));
    for (int i = 0; i < 5000; i++)
        weir_buffer_append_byte(&b, 'x');
    weir_buffer_append(&b, "GET /healthz?", 13);
    for (int i = 0; i < 8000; i++)
        weir_buffer_append_byte(&b, 'x');
    weir_buffer_append(&b, " HTTP/1.1\r\n" HOST "\r\nGET /", 30);
    for (int i = 0; i < 20000; i++)
        weir_buffer_append_byte(&b, 'x');
    const char *answer = speak(f, (char *)weir_buffer_data(&b), weir_buffer_len(&b));
    assert_int_equal(status_of(answer), 405);
    answer = strstr(body_of(answer), "HTTP/1.1");
    assert_int_equal(status_of(answer), 200);
    answer = strstr(body_of(answer), "HTTP/1.1");
    assert_int_equal(status_of(answer), 414);
    weir_buffer_free(&b);
}

static void check_back_pressure(void **state)
{
    fixture *f = *state;
    const char *metrics = "GET /metrics HTTP/1.1\r\n" HOST "\r\n";
    for (int i = 0; i < 20; i++)
        weir_buffer_append(&f->in, metrics, strlen(metrics));
    for (int i = 0; i < 3; i++) {
        weir_session_step step =
            weir_http_session_run(&f->session, &f->in, &f->out, 1000, f->now_ns);
        assert_int_equal(step.next, WEIR_SESSION_AGAIN);
        assert_in_range(weir_buffer_len(&f->out), 1000, 1000 + 200);
        weir_buffer_clear(&f->out);
    }
    run(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_int_equal(weir_buffer_len(&f->in), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_connection),     TEST(check_stopping),
        TEST(check_malformed),      TEST(check_between_requests),
        TEST(check_bodies),         TEST(check_expect),
        TEST(check_limits),         TEST(check_body_limits),
        TEST(check_framing_limits), TEST(check_long_names),
        TEST(check_last_method),    TEST(check_next_request),
        TEST(check_many_requests),  TEST(check_joined_lines),
        TEST(check_host_of_next),   TEST(check_cuts),
        TEST(check_cuts_of_errors), TEST(check_back_pressure_of_heads),
        TEST(check_limits_of_next), TEST(check_back_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
