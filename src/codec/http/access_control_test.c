/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Access control over HTTP: passwords, host names, and the origins of web pages. */

#include "codec/answer/password.h"
#include "codec/http/kit_test.h"

static void check_password(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "s3cret:x");
    const char *target = "GET /v1/take?policy=api&key=a&cost=0";
    const char *answer = with(f, target, "");
    is_problem(answer, 401, "missing password, expected Authorization: Bearer PASSWORD");
    has_line(answer, "WWW-Authenticate: Bearer realm=\"weir\"");
    has_line(answer, "WWW-Authenticate: Basic realm=\"weir\"");
    static const char *const wrong[] = {"Bearer s3cret:",
                                        "Bearer s3cret:xy",
                                        "Bearer S3cret:x",
                                        "Bearer",
                                        "s3cret:x",
                                        "Bearers3cret:x",
                                        "Basic czNjcmV0Ong=",
                                        "Basic dTpzM2NyZXQ6",
                                        "Basic dTpzM2NyZXQ6e!==",
                                        "Digest s3cret:x",
                                        "Bearer "};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "Authorization: %s\r\n", wrong[i]);
        if (status_of(with(f, target, line)) != 401)
            fail_msg("%s is let in", wrong[i]);
    }
    is_problem(
        with(f, target, "Authorization: Bearer s3cret:x\r\nAuthorization: Bearer s3cret:x\r\n"),
        400, "expected at most one Authorization header");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(status_of(with(f, target, "authorization: bearer  s3cret:x\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Authorization: Basic dTpzM2NyZXQ6eA==\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Authorization: Basic OnMzY3JldDp4\r\n")), 200);
    assert_int_equal(status_of(get(f, "/v1/none")), 401);
    assert_int_equal(status_of(get(f, "/metrics")), 401);
    assert_int_equal(status_of(get(f, "/healthz")), 200);
}

static bool count_wrong(void *ctx, const void *peer)
{
    assert_ptr_equal(peer, ctx);
    ++*(int *)ctx;
    return true;
}

/* The limit on delayed replies is reached. */
static bool hold_no_more(void *ctx, const void *peer)
{
    (void)ctx;
    (void)peer;
    return false;
}

/* Pipelined wrong passwords, split at every byte: each response is delayed, the third closes the
 * connection, and the correct password after them is not checked. */
static void check_wrong_passwords(void **state)
{
    fixture *f = *state;
    static const char pipeline[] =
        "GET /v1/policies HTTP/1.1\r\n" HOST "\r\n"
        "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: Bearer a\r\n\r\n"
        "GET /healthz HTTP/1.1\r\n" HOST "Authorization: Bearer b\r\n\r\n"
        "POST /v1/take HTTP/1.1\r\n" HOST "Authorization: Basic OmM=\r\n"
        "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"
        "GET /none HTTP/1.1\r\n" HOST "Authorization: Bearer c\r\n\r\n"
        "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: Bearer secret\r\n\r\n";
    int wrong = 0;
    users_kit_set_password(&f->users, "secret");
    f->users.wrong_password = count_wrong;
    f->users.wrong_password_ctx = &wrong;
    for (size_t step = 1; step < sizeof pipeline; step++) {
        reopen(f);
        weir_buffer_clear(&f->output);
        f->session.completion.ctx = &wrong;
        f->last = WEIR_SESSION_READ;
        wrong = 0;
        f->waited_ns = 0;
        feed(f, pipeline, sizeof pipeline - 1, step);
        const char *at = output_of(f);
        unsigned answers = 0, refused = 0;
        for (; (at = strstr(at, "HTTP/1.1 ")); at++, answers++)
            refused += status_of(at) == 401;
        assert_int_equal(f->last, WEIR_SESSION_CLOSE);
        assert_int_equal(answers, 5);
        assert_int_equal(refused, 4);
        assert_int_equal(wrong, WEIR_PASSWORD_TRIES);
        assert_int_equal(f->waited_ns, WEIR_PASSWORD_TRIES * WEIR_PASSWORD_DELAY_NS);
    }
    f->users.wrong_password = hold_no_more;
    reopen(f);
    weir_buffer_clear(&f->output);
    f->waited_ns = 0;
    feed(f, pipeline, sizeof pipeline - 1, sizeof pipeline - 1);
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(f->waited_ns, 0);
    assert_null(strstr(output_of(f), "HTTP/1.1 200"));
    f->users.wrong_password = NULL;
    f->users.wrong_password_ctx = NULL;
    users_kit_set_password(&f->users, NULL);
}

/* A request without a password, or with another scheme, is not a wrong password: no delay. */
static void check_missing_passwords(void **state)
{
    fixture *f = *state;
    static const char *const none[] = {"",       "Digest secret", "Digest x", "Bearer", "Bearer ",
                                       "secret", "Bearersecret",  "Basic",    "Basic "};
    static const char *const guesses[] = {"Bearer x", "Basic x", "Basic OnM="};
    int wrong = 0;
    users_kit_set_password(&f->users, "secret");
    f->users.wrong_password = count_wrong;
    f->users.wrong_password_ctx = &wrong;
    for (size_t i = 0; i < sizeof none / sizeof none[0] + sizeof guesses / sizeof guesses[0]; i++) {
        bool guess = i >= sizeof none / sizeof none[0];
        char request[256];
        snprintf(request, sizeof request,
                 "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: %s\r\n\r\n",
                 guess ? guesses[i - sizeof none / sizeof none[0]] : none[i]);
        for (size_t step = 1; step <= strlen(request); step++) {
            reopen(f);
            weir_buffer_clear(&f->output);
            f->session.completion.ctx = &wrong;
            f->last = WEIR_SESSION_READ;
            wrong = 0;
            f->waited_ns = 0;
            feed(f, request, strlen(request), step);
            assert_int_equal(status_of(output_of(f)), 401);
            assert_int_equal(wrong, guess ? 1 : 0);
            assert_int_equal(f->waited_ns, guess ? WEIR_PASSWORD_DELAY_NS : 0);
        }
    }
    f->users.wrong_password = NULL;
    f->users.wrong_password_ctx = NULL;
}

/* A malformed Host is refused on every path, also with a password. */
static void check_forms_of_hosts(void **state)
{
    fixture *f = *state;
    static const char *const wrong[] = {"[localhost]",
                                        "[1.2.3.4]",
                                        "[::1",
                                        "[::1]x",
                                        "[]",
                                        "[::1]:x",
                                        "[fe80::1%1]",
                                        "::1",
                                        "127.0.0.1:8080:1",
                                        "localhost:x",
                                        ":80",
                                        "localhost:65536",
                                        "localhost:000080",
                                        "weir@127.0.0.1",
                                        "a/b",
                                        "a b",
                                        "http://localhost",
                                        "localhost\\x",
                                        "local\x80host",
                                        "localhost:99999999999999999999"};
    static const char *const any = "*";
    for (int locked = 0; locked < 2; locked++) {
        users_kit_set_password(&f->users, locked ? "secret" : NULL);
        f->options.hosts = (weir_http_names){&any, 1};
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            char request[256];
            snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n",
                     wrong[i]);
            is_problem(speak(f, request, strlen(request)), 400,
                       "malformed Host header, expected HOST or HOST:PORT");
            assert_int_equal(f->last, WEIR_SESSION_CLOSE);
        }
    }
}

/* The host in an absolute-form target replaces Host (RFC 9112, 3.2.2). */
static void check_targets_with_hosts(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *target, *rest;
        int status;
    } cases[] = {
        {"http://localhost/v1/policies", "1.1\r\nHost: localhost\r\n", 200},
        {"http://localhost/v1/policies", "1.1\r\nHost: evil\r\n", 200},
        {"HTTPS://weir.:8080/v1/policies", "1.1\r\nHost: evil\r\n", 200},
        {"http://[::1]:80/v1/policies?x=http://evil/", "1.1\r\nHost: evil\r\n", 200},
        {"http://localhost", "1.1\r\nHost: localhost\r\n", 200},
        {"/v1/policies", "1.1\r\nHost:\r\n", 421},
        {"/v1/policies", "1.1\r\nHost:\r\nOrigin:[x\r\n", 421},
        {"http://localhost?x", "1.1\r\nHost: localhost\r\n", 200},
        {"http://evil/v1/policies", "1.1\r\nHost: localhost\r\n", 421},
        {"http://evil?@localhost/v1/policies", "1.1\r\nHost: localhost\r\n", 421},
        {"http://evil/v1/policies", "1.0\r\n", 421},
        {"http://evil/healthz", "1.1\r\nHost: localhost\r\n", 200},
        {"http://localhost/v1/policies", "1.0\r\n", 200},
        {"http://localhost/v1/policies", "1.1\r\n", 400},
        {"http://localhost/v1/policies", "1.1\r\nHost: a@b\r\n", 400},
        {"http://a:b@localhost/v1/policies", "1.1\r\nHost: localhost\r\n", 400},
        {"http://localhost:99999/v1/policies", "1.1\r\nHost: localhost\r\n", 400},
        {"http:///v1/policies", "1.1\r\nHost: localhost\r\n", 400},
        {"ftp://localhost/v1/policies", "1.1\r\nHost: localhost\r\n", 400},
        {"httpx://localhost/v1/policies", "1.0\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[256];
        snprintf(request, sizeof request, "GET %s HTTP/%s\r\n", cases[i].target, cases[i].rest);
        for (size_t step = 1; step <= strlen(request); step++) {
            reopen(f);
            weir_buffer_clear(&f->output);
            f->last = WEIR_SESSION_READ;
            feed(f, request, strlen(request), step);
            if (status_of(output_of(f)) != cases[i].status)
                fail_msg("expected %d for\n%s", cases[i].status, request);
        }
    }
    /* The Origin is compared with that host. */
    const char *other = "GET http://localhost/v1/policies HTTP/1.1\r\nHost: weir\r\n"
                        "Origin: http://weir\r\n\r\n";
    assert_int_equal(status_of(speak(f, other, strlen(other))), 403);
}

/* A name in http.hosts may end in a dot, like the host of a request. */
static void check_names_with_dots(void **state)
{
    fixture *f = *state;
    static const char *const name = "a.example.";
    static const char *const hosts[] = {"a.example", "a.example.", "A.Example:80"};
    f->options.hosts = (weir_http_names){&name, 1};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char request[256];
        snprintf(request, sizeof request, "GET /v1/policies HTTP/1.1\r\nHost: %s\r\n\r\n",
                 hosts[i]);
        assert_int_equal(status_of(speak(f, request, strlen(request))), 200);
    }
}

/* DNS rebinding: without a password, an unknown host name is refused. */
static void check_hosts(void **state)
{
    fixture *f = *state;
    static const char *const good[] = {"127.0.0.1",        "127.0.0.1:8080",
                                       "192.0.2.7",        "[::1]",
                                       "[::1]:8080",       "localhost",
                                       "LocalHost:8080",   "weir",
                                       "WEIR:1",           "[::ffff:1.2.3.4]",
                                       "127.0.0.1:",       "localhost.",
                                       "localhost.:65535", "weir."};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:8080",
                                      "127.0.0.1.evil.example",
                                      "localhost.evil",
                                      "weir.evil",
                                      "xweir",
                                      "localhost..",
                                      "localhost.evil.",
                                      "",
                                      ".",
                                      "1"};
    char request[256];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(request, sizeof request, "GET /v1/policies HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        assert_int_equal(status_of(speak(f, request, strlen(request))), 200);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        static const char *const paths[] = {"/v1/policies", "/metrics", "/none",
                                            "/v1/take?policy=api&key=a"};
        for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
            snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", paths[p],
                     bad[i]);
            assert_int_equal(status_of(speak(f, request, strlen(request))), 421);
        }
        snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", bad[i]);
        assert_int_equal(status_of(speak(f, request, strlen(request))), 200);
    }
    const char *rebound = "GET /v1/policies HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n";
    is_problem(speak(f, rebound, strlen(rebound)), 421,
               "unknown host 'evil.example:8080', expected an IP address, localhost or a name "
               "listed in http.hosts; add it there, or set a password");
    users_kit_set_password(&f->users, "secret"); /* no web page knows the password */
    assert_int_equal(status_of(speak(f, rebound, strlen(rebound))), 401);
    users_kit_set_password(&f->users, NULL);
    static const char *const two[] = {"weir", "evil.example"}, *const any = "*";
    f->options.hosts = (weir_http_names){two, 2};
    assert_int_equal(status_of(speak(f, rebound, strlen(rebound))), 200);
    f->options.hosts = (weir_http_names){&any, 1};
    assert_int_equal(status_of(speak(f, rebound, strlen(rebound))), 200);
    const char *old = "GET /v1/policies HTTP/1.0\r\n\r\n"; /* every browser sends Host */
    assert_int_equal(status_of(speak(f, old, strlen(old))), 200);
}

/* The host of each request of a connection is checked. */
static void check_hosts_of_each_request(void **state)
{
    fixture *f = *state;
    static const char after[] =
        "GET /v1/policies HTTP/1.1\r\nHost: weir\r\n\r\nGET /healthz HTTP/1.1\r\nHost: evil\r\n\r\n"
        "GET /v1/policies HTTP/1.1\r\nHost: weir\r\n\r\nGET /v1/policies HTTP/1.1\r\nHost: "
        "evil\r\n\r\n"
        "GET /v1/policies HTTP/1.1\r\nHost: evil\r\n\r\n";
    const char *at = speak(f, after, sizeof after - 1);
    static const int expected[] = {200, 200, 200, 421, 421};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++, at++) {
        at = strstr(at, "HTTP/1.1 ");
        assert_non_null(at);
        assert_int_equal(status_of(at), expected[i]);
    }
}

/* Credentials that are not base64 are wrong. */
static void check_bad_base64(void **state)
{
    fixture *f = *state;
    static const char request[] =
        "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: Basic Onx8!A==\r\n\r\n";
    users_kit_set_password(&f->users, "||");
    assert_int_equal(status_of(speak(f, request, sizeof request - 1)), 401);
    static const char good[] =
        "GET /v1/policies HTTP/1.1\r\n" HOST "Authorization: Basic Onx8\r\n\r\n";
    assert_int_equal(status_of(speak(f, good, sizeof good - 1)), 200);
}

/* A parameter of an endpoint that takes a key cannot carry an API key. */
static void check_key_parameters(void **unused)
{
    static const char *const taken[] = {"policy", "limit", "key", "cost", "delay", "denied", "ttl"};
    (void)unused;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        assert_true(weir_http_is_param(taken[i], strlen(taken[i])));
    assert_false(weir_http_is_param("api_key", 7));
    assert_false(weir_http_is_param("id", 2));
}

/* A header that every browser or proxy sends cannot carry an API key. */
static void check_key_headers(void **unused)
{
    static const char *const refused[] = {
        "authorization", "cache-control", "connection", "cookie",       "date",
        "dnt",           "expect",        "host",       "origin",       "pragma",
        "range",         "referer",       "te",         "via",          "user-agent",
        "upgrade",       "Accept",        "accept-x",   "Content-Type", "If-Match",
        "Proxy-Authx",   "sec-fetch-to",  "upgrade-",   "HOST",         "transfer-encoding"};
    static const char *const allowed[] = {"x-api-key", "hos", "hosts", "accep", "sec", "if"};
    (void)unused;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_false(weir_http_may_be_key(refused[i], strlen(refused[i])));
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        assert_true(weir_http_may_be_key(allowed[i], strlen(allowed[i])));
}

#define PREFLIGHT "Access-Control-Request-Method: POST\r\n"

/* Pages of listed origins may send requests and read the responses. */
static void check_origins(void **state)
{
    fixture *f = *state;
    static const char *const origins[] = {"https://app.example", "http://localhost:3000"};
    static const char take[] = "GET /v1/take?policy=api&key=a&cost=4";
    const char *answer = with(f, take, "Origin: https://app.example\r\n");
    assert_int_equal(status_of(answer), 403);
    has_no_line(answer, "Access-Control");
    has_no_line(answer, "Vary");
    answer = with(f, "OPTIONS /v1/take", "Origin: http://localhost:3000\r\n" PREFLIGHT);
    assert_int_equal(status_of(answer), 204);
    has_no_line(answer, "Access-Control");
    f->options.origins = (weir_http_names){origins, 2};
    users_kit_set_password(&f->users, "secret");
    answer = with(f, "OPTIONS /v1/take", "Origin: http://localhost:3000\r\n" PREFLIGHT);
    assert_int_equal(status_of(answer), 204);
    has_line(answer, "Access-Control-Allow-Origin: http://localhost:3000");
    has_line(answer, "Access-Control-Allow-Methods: GET, HEAD, POST");
    has_line(answer, "Access-Control-Allow-Headers: Authorization, Content-Type");
    has_line(answer, "Access-Control-Max-Age: 7200");
    has_line(answer, "Vary: Origin");
    has_no_line(answer, "\nContent-");
    assert_string_equal(body_of(answer), "");
    answer = with(f, take, "Origin: https://app.example\r\n"); /* the page can read the error */
    assert_int_equal(status_of(answer), 401);
    has_line(answer, "Access-Control-Allow-Origin: https://app.example");
    users_kit_set_password(&f->users, NULL);
    for (int i = 0; i < 2; i++) {
        answer = with(f, take, "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n");
        assert_int_equal(status_of(answer), i == 0 ? 200 : 429);
        has_line(answer, "Access-Control-Allow-Origin: https://app.example");
        has_line(answer, "Access-Control-Allow-Credentials: true");
        has_line(answer, "Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, "
                         "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "
                         "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
                         "X-RateLimit-Used, X-RateLimit-Resource, "
                         "X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, "
                         "X-RateLimit-Reset-Requests, X-RateLimit-Limit-Tokens, "
                         "X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens, "
                         "Retry-After");
        has_line(answer, "Vary: Origin");
    }
    static const char *const others[] = {"https://evil.example", "null", "https://app.example:8443",
                                         "http://app.example", "https://app.example.evil"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char lines[160];
        snprintf(lines, sizeof lines, "Origin: %s\r\n", others[i]);
        answer = with(f, take, lines);
        assert_int_equal(status_of(answer), 403);
        has_no_line(answer, "Access-Control");
        has_line(answer, "Vary: Origin");
        snprintf(lines, sizeof lines, "Origin: %s\r\n" PREFLIGHT, others[i]);
        answer = with(f, "OPTIONS /v1/take", lines);
        has_line(answer, "Allow: GET, HEAD, POST, OPTIONS");
        has_no_line(answer, "Access-Control");
    }
    /* Not a preflight request, or one for an unknown path. */
    has_line(with(f, "OPTIONS /v1/take", "Origin: https://app.example\r\n"),
             "Allow: GET, HEAD, POST, OPTIONS");
    assert_int_equal(
        status_of(with(f, "OPTIONS /none", "Origin: https://app.example\r\n" PREFLIGHT)), 404);
    has_line(get(f, "/v1/policies"), "Vary: Origin");
}

static void check_browsers(void **state)
{
    fixture *f = *state;
    const char *target = "GET /v1/take?policy=api&key=a&cost=0";
    const char *answer = with(f, target, "Sec-Fetch-Site: cross-site\r\n");
    is_problem(answer, 403,
               "cross-site request refused (Sec-Fetch-Site, Origin): add the origin to "
               "http.origins, or let your proxy remove these headers");
    assert_int_equal(status_of(with(f, target, "Sec-Fetch-Site: same-site\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Sec-Fetch-Site: same-origin\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Sec-Fetch-Site: none\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Origin: http://evil.example\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Origin: null\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Origin: https://weir\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Origin: http://weir\r\n")), 200);
    assert_int_equal(status_of(with(f, target, "Origin: chrome-extension://weir\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Origin: xhttp://weir\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Origin: weir\r\n")), 403);
    assert_int_equal(status_of(with(f, target, "Origin: xweir\r\n")), 403);
    assert_int_equal(status_of(with(f, "GET /v1/policies", "Origin: null\r\n")), 403);
    assert_int_equal(status_of(with(f, "GET /healthz", "Origin: null\r\n")), 200);
    /* A proxy forwards its client's headers and adds the key. */
    f->options.key_header = "X-Forwarded-For";
    target = "GET /v1/take?policy=api&cost=0";
    assert_int_equal(
        status_of(with(f, target, "X-Forwarded-For: a\r\nSec-Fetch-Site: cross-site\r\n")), 200);
}

/* ---- clients without a place, and new ones --------------------------------------------------- */

/* Sends a request on the open connection. */
static const char *get_again(fixture *f, const char *target, const char *lines)
{
    char request[512];
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "%s\r\n", target, lines);
    weir_buffer_clear(&f->output);
    f->last = WEIR_SESSION_READ;
    feed(f, request, (size_t)len, (size_t)len);
    return output_of(f);
}

/* A session of a client that is refused answers one request: a health check, or 503. */
static void check_only_health(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *path;
        int status;
    } rows[] = {{"/healthz", 200},
                {"/readyz", 200},
                {"/metrics", 503},
                {"/none", 503},
                {"/v1/take?policy=api&key=k", 503}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reopen(f);
        weir_http_session_only_health(&f->session);
        const char *answer = get_again(f, rows[i].path, "");
        assert_int_equal(status_of(answer), rows[i].status);
        has_line(answer, "Connection: close");
        assert_int_equal(f->last, WEIR_SESSION_CLOSE);
        if (rows[i].status == 503)
            has_line(answer, "Retry-After: 1");
    }
    reopen(f);
}

/* A client is new until it has given the password, if there is one. */
static void check_new_client(void **state)
{
    fixture *f = *state;
    reopen(f);
    assert_false(weir_http_session_is_new(&f->session));
    users_kit_set_password(&f->users, "secret");
    assert_true(weir_http_session_is_new(&f->session));
    assert_int_equal(status_of(get_again(f, "/healthz", "")), 200);
    assert_int_equal(status_of(get_again(f, "/v1/policies", "Authorization: Bearer wrong\r\n")),
                     401);
    assert_true(weir_http_session_is_new(&f->session));
    assert_int_equal(status_of(get_again(f, "/v1/policies", "Authorization: Bearer secret\r\n")),
                     200);
    assert_false(weir_http_session_is_new(&f->session));
    users_kit_set_password(&f->users, NULL);
    reopen(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_password),
        TEST(check_wrong_passwords),
        TEST(check_missing_passwords),
        TEST(check_names_with_dots),
        TEST(check_forms_of_hosts),
        TEST(check_targets_with_hosts),
        TEST(check_hosts),
        TEST(check_hosts_of_each_request),
        TEST(check_origins),
        cmocka_unit_test(check_key_headers),
        cmocka_unit_test(check_key_parameters),
        TEST(check_bad_base64),
        TEST(check_browsers),
        TEST(check_only_health),
        TEST(check_new_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
