/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Requests of proxies: /v1/forward-auth. */

#include "codec/http/forward_kit_test.h"
#include "service/fake_engine_test.h"

/* ---- routes ---------------------------------------------------------------------------------- */

static void check_envoy(void **state)
{
    fixture *f = *state;
    const char *answer = below(f, "POST", "/login?denied=403&route=free", "");
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "RateLimit: \"login\";r=1;t=3600");
    has_member(answer, "\"policy\":\"login\"");
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 200);
    answer = below(f, "POST", "/login?denied=403", ""); /* the query is the client's */
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Retry-After: 3600");
    /* The headers of the other ways are not read. */
    answer = below(f, "POST", "/login", "X-Forwarded-Uri: /free\r\nX-Original-URI: /free\r\n");
    assert_int_equal(status_of(answer), 429);
    answer = below(f, "GET", "/login", "X-Forwarded-Method: POST\r\n");
    assert_string_equal(body_of(answer), "{\"allowed\":true,\"route\":null}\n");
    has_no_line(answer, "RateLimit");
    assert_string_equal(body_of(below(f, "DELETE", "/free/x", "")),
                        "{\"allowed\":true,\"route\":\"free\"}\n");
    assert_string_equal(body_of(below(f, "OPTIONS", "/",
                                      "Origin: http://x\r\n"
                                      "Access-Control-Request-Method: GET\r\n")),
                        "{\"allowed\":true,\"route\":null}\n");
    is_problem(with(f, "GET /v1/forward-authx", ""), 404,
               "unknown path \"/v1/forward-authx\"; GET / lists the endpoints");
}

/* Every spelling of the path has the limit of /login. */
static void check_spellings(void **state)
{
    fixture *f = *state;
    static const char *const paths[] = {"/login",      "/%6cogin", "//login",    "/login/",
                                        "/login;x=1",  "/./login", "/%2e/login", "/login/%01",
                                        "/login/\xFF", "/login?x"};
    static const char *const others[] = {"/LOGIN", "/loginx", "/%256cogin"};
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 200);
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 200);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char lines[256];
        snprintf(lines, sizeof lines, "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: %s\r\n",
                 paths[i]);
        assert_int_equal(status_of(described(f, "", lines)), 429);
        if (!strchr(paths[i], 0xFF)) /* not in a request target */
            assert_int_equal(status_of(below(f, "POST", paths[i], "")), 429);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(status_of(below(f, "POST", others[i], "")), 200);
}

/* Servers resolve ".." differently, so a client could choose the route with it. */
static void check_dot_dot(void **state)
{
    fixture *f = *state;
    static const char *const paths[] = {"/x/../login",     "/%2e%2e/login",    "/free//../login",
                                        "/free/..;/login", "/free/..%2flogin", "/login/.."};
    static const char detail[] = "the path of the original request has a segment \"..\", which "
                                 "servers resolve differently; the client must resolve it";
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char lines[256];
        snprintf(lines, sizeof lines, "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: %s\r\n",
                 paths[i]);
        is_problem(described(f, "", lines), 400, detail);
        is_problem(below(f, "POST", paths[i], ""), 400, detail);
    }
    assert_int_equal(status_of(below(f, "POST", "/login?next=/../x", "")), 200);
}

/* Some servers end a path at a NUL, so that this is /login. */
static void check_nul(void **state)
{
    fixture *f = *state;
    is_problem(below(f, "POST", "/login%00x", ""), 400,
               "the path of the original request has a NUL (%00), at which some servers end it");
    assert_int_equal(status_of(below(f, "POST", "/login?next=%00", "")), 200);
}

/* For many applications, these paths are /login. */
static void check_encoded_slashes(void **state)
{
    fixture *f = *state;
    static const char *const paths[] = {"/login%2F", "/%2flogin", "/login%5C", "/%5clogin"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        is_problem(below(f, "POST", paths[i], ""), 400,
                   "the path of the original request has an encoded slash (%2F) or a backslash "
                   "(%5C), which servers read differently; http.encoded_slash in weir.yaml can "
                   "allow it");
    assert_int_equal(status_of(below(f, "POST", "/login?next=%2F", "")), 200);
    encoded_slash = WEIR_SLASH_SEPARATE;
    set_routes(f, NULL, 0);
    assert_int_equal(status_of(below(f, "POST", paths[0], "")), 200);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(status_of(below(f, "POST", paths[i], "")), 429);
    encoded_slash = WEIR_SLASH_KEEP;
    set_routes(f, NULL, 0);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        has_member(below(f, "POST", paths[i], ""), "\"route\":null");
}

/* A host that a route cannot compare must not evade the route of "*.example.com". */
static void check_long_host(void **state)
{
    fixture *f = *state;
    enum { LABELS = 244 };
    static const char forwarded[] =
        "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /see\r\nX-Forwarded-Host: ";
    for (int extra = 0; extra < 2; extra++) {
        char host[256 + 8] = "", lines[512];
        memset(host, 'a', LABELS + (size_t)extra);
        strcat(host, ".b.example:8443"); /* 254 or 255 bytes and a port; one more is too long */
        snprintf(lines, sizeof lines, "%s%s\r\n", forwarded, host);
        assert_int_equal(status_of(described(f, "", lines)), 200);
        memmove(host + 2, host, strlen(host) + 1);
        snprintf(lines, sizeof lines, "%s%s\r\n", forwarded, host);
        is_problem(described(f, "", lines), 400,
                   "the host of the original request exceeds 255 bytes");
        is_problem(described(f, "?route=see", lines), 400,
                   "the host of the original request exceeds 255 bytes");
    }
}

/* Sends a description with a header whose value consists of n bytes after `begin`. */
static const char *with_long(fixture *f, const char *name, const char *begin, char byte, size_t n)
{
    static char request[16000], value[9000];
    memset(value, byte, n);
    value[n] = '\0';
    int len = snprintf(request, sizeof request,
                       "GET /v1/forward-auth HTTP/1.1\r\n" HOST "X-Forwarded-Method: GET\r\n"
                       "%s%s%s%s\r\n\r\n",
                       strcmp(name, "X-Forwarded-Uri") == 0 ? "" : "X-Forwarded-Uri: /v1\r\n", name,
                       begin, value);
    return speak(f, request, (size_t)len);
}

static void check_long_path(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(with_long(f, "X-Forwarded-Uri", ": /", 'a', 8191)), 200);
    is_problem(with_long(f, "X-Forwarded-Uri", ": /", 'a', 8192), 414,
               "the path of the original request exceeds 8192 bytes");
}

/* '%' has three bytes in a key of several parts. */
static void check_long_key(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(with_long(f, "X-Api-Key", ": a", '%', 5458)), 200); /* 16384 */
    is_problem(with_long(f, "X-Api-Key", ": aa", '%', 5458), 400,
               "the key of policy \"api\" exceeds 16384 bytes");
}

static void check_described(void **state)
{
    fixture *f = *state;
    static const char *const forms[] = {
        "X-Forwarded-Method: GET\r\nX-Forwarded-Host: A.example:80\r\nX-Forwarded-Uri: /see?q\r\n",
        "X-Original-Method: PUT\r\nX-Original-URL: https://b.example:8443/see?q\r\n",
        "X-Original-Method: POST\r\nX-Original-URI: //see\r\nX-Forwarded-Host: ignored\r\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_int_equal(status_of(described(f, "", forms[i])), 200);
        assert_int_equal(status_of(described(f, "?denied=403", forms[i])), 403);
    }
    static const char *const keys[] = {"GET|a.example|/see|see|described",
                                       "PUT|b.example|/see|see|described",
                                       "POST|weir|/see|see|described"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char target[128];
        snprintf(target, sizeof target, "/v1/peek?policy=described&key=%s", keys[i]);
        assert_int_equal(status_of(get(f, target)), 429);
    }
    /* Without X-Forwarded-Host, the Host header counts. The shortest paths are paths. */
    static const char host[] = "X-Forwarded-Method: PATCH\r\nX-Forwarded-Uri: /see\r\n";
    assert_int_equal(status_of(described(f, "", host)), 200);
    assert_int_equal(
        status_of(get(f, "/v1/peek?policy=described&key=PATCH|weir|/see|see|described")), 429);
    const char *answer = described(f, "", "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n");
    assert_string_equal(body_of(answer), "{\"allowed\":true,\"route\":null}\n");
    has_line(answer, "Content-Length: 30");
    is_problem(described(f, "", "X-Original-URI: /\r\nX-Original-URL: /\r\n"), 400,
               "both X-Original-URI and X-Original-URL are given, expected one; "
               "configure the proxy to remove the one that its client sent");
    /* The proxy may name the route. */
    assert_int_equal(status_of(described(f, "?route=login", "")), 200);
    assert_int_equal(status_of(described(f, "?route=login", "X-Forwarded-Uri: /free\r\n")), 200);
    assert_int_equal(status_of(described(f, "?route=login", "")), 429);
}

static void check_bad_descriptions(void **state)
{
    fixture *f = *state;
    static const char *const rows[][3] = {
        {"", "",
         "missing X-Forwarded-Uri, X-Original-URI or X-Original-URL: let the proxy send "
         "the path of the original request, or add route=NAME"},
        {"", "X-Forwarded-Uri: /free\r\n", "missing X-Forwarded-Method beside X-Forwarded-Uri"},
        {"", "X-Original-URI: /free\r\nX-Forwarded-Method: GET\r\n",
         "missing X-Original-Method beside X-Original-URI"},
        {"", "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /free\r\nX-Original-URL: /login\r\n",
         "both X-Forwarded-Uri and X-Original-URI or X-Original-URL are given, expected one; "
         "configure the proxy to remove the one that its client sent"},
        {"", "X-Original-Method: GET\r\nX-Original-URI: /free\r\nX-Original-URL: /login\r\n",
         "both X-Original-URI and X-Original-URL are given, expected one; configure the proxy "
         "to remove the one that its client sent"},
        {"", "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /free\r\nX-Forwarded-Uri: /login\r\n",
         "the header X-Forwarded-Uri occurs twice; configure the proxy to remove the one that "
         "its client sent"},
        {"?route=none", "", "unknown route \"none\"; the routes are in weir.yaml (routes)"},
        {"?policy=login", "", "unknown parameter \"policy\", expected denied, route"},
        {"?denied=200", "", "\"denied\": expected 403, 429 or 503, found \"200\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        is_problem(described(f, rows[i][0], rows[i][1]), 400, rows[i][2]);
    assert_int_equal(status_of(below(f, "GET", "/lost", "")), 404);
}

/* A route with several policies charges all or none. */
static void check_several_policies(void **state)
{
    fixture *f = *state;
    const char *answer = below(f, "GET", "/all", "");
    assert_int_equal(status_of(answer), 200);
    has_member(answer, "\"policy\":\"p15\"");
    answer = below(f, "GET", "/all", "");
    assert_int_equal(status_of(answer), 429);
    has_member(answer, "\"violated-policies\":[\"p15\"]");
    has_member(get(f, "/v1/peek?policy=p3&key=10.0.0.1"), "\"remaining\":8");
}

/* The responses are as the listener is configured, and as those of /v1/take. */
static void check_configured_answers(void **state)
{
    fixture *f = *state;
    f->answer =
        (weir_answer){.headers = WEIR_HEADERS_GITHUB, .denied_status = 403, .denied_body = "wait"};
    const char *answer = below(f, "POST", "/login", "");
    has_line(answer, "X-RateLimit-Reset: 1767229200"); /* an hour after NOW_NS */
    has_line(answer, "X-RateLimit-Used: 1");
    has_no_line(answer, "\nRateLimit");
    has_line(below(f, "GET", "/v1", ""), "X-RateLimit-Reset: 1767229200");
    below(f, "POST", "/login", "");
    answer = below(f, "POST", "/login", "");
    assert_int_equal(status_of(answer), 403);
    assert_string_equal(body_of(answer), "wait");
}

static void check_delays(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(below(f, "GET", "/queue", "")), 200);
    assert_int_equal(f->waited_ns, 0);
    assert_int_equal(status_of(below(f, "GET", "/queue", "")), 200);
    assert_int_equal(f->waited_ns, SECOND_NS / 10);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void check_clients(void **state)
{
    fixture *f = *state;
    static const char forged[] = "X-Forwarded-For: %s, 192.0.2.7\r\n";
    char lines[128];
    for (int i = 0; i < 4; i++) {
        static const char *const left[] = {"1.1.1.1", "2.2.2.2", "10.9.9.9", "x"};
        snprintf(lines, sizeof lines, forged, left[i]);
        assert_int_equal(status_of(below(f, "POST", "/login", lines)), i < 2 ? 200 : 429);
    }
    assert_int_equal(status_of(below(f, "POST", "/login", "X-Forwarded-For: 192.0.2.8\r\n")), 200);
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 200);
    peer = "192.0.2.1";
    is_problem(below(f, "POST", "/login", ""), 403,
               "192.0.2.1 is not in trusted_proxies; if it is your proxy, add it in weir.yaml");
    peer = NULL;
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 403);
}

/* The headers of a web page's request are those of the proxy's client. */
static void check_other_sites(void **state)
{
    fixture *f = *state;
    static const char other[] =
        "GET /v1/forward-auth/v1 HTTP/1.1\r\nHost: other.example\r\n"
        "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n\r\n";
    static const char take[] =
        "GET /v1/take?policy=api%s HTTP/1.1\r\nHost: other.example\r\n%s\r\n";
    static const char site[] = "Sec-Fetch-Site: cross-site\r\n";
    char request[256];
    assert_int_equal(status_of(speak(f, other, sizeof other - 1)), 200);
    peer = "192.0.2.1";
    is_problem(speak(f, other, sizeof other - 1), 403,
               "192.0.2.1 is not in trusted_proxies; if it is your proxy, add it in weir.yaml");
    int len = snprintf(request, sizeof request, take, "", site);
    assert_int_equal(status_of(speak(f, request, (size_t)len)), 421);
    peer = "10.0.0.1";
    assert_int_equal(status_of(speak(f, request, (size_t)len)), 200);
    len = snprintf(request, sizeof request, take, "&key=a", "");
    assert_int_equal(status_of(speak(f, request, (size_t)len)), 421);
    assert_int_equal(status_of(with(f, "GET /v1/take?policy=api&key=a", site)), 403);
}

static void check_password(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "secret");
    assert_int_equal(status_of(below(f, "GET", "/free", "")), 401);
    assert_int_equal(status_of(below(f, "GET", "/free", "Authorization: Bearer theirs\r\n")), 401);
    assert_int_equal(status_of(below(f, "GET", "/free", "Authorization: Bearer secret\r\n")), 200);
    assert_int_equal(status_of(below(f, "GET", "/token",
                                     "Authorization: Bearer theirs\r\n"
                                     "X-Weir-Password: secret\r\n")),
                     200);
    assert_int_equal(status_of(below(f, "GET", "/token",
                                     "Authorization: Bearer other\r\n"
                                     "X-Weir-Password: secret\r\n")),
                     200);
    assert_int_equal(status_of(below(f, "GET", "/token",
                                     "Authorization: Bearer theirs\r\n"
                                     "X-Weir-Password: secret\r\n")),
                     429);
    /* X-Weir-Password wins, and a second one is none. */
    static const char *const wrong[] = {
        "Authorization: Bearer secret\r\nX-Weir-Password: wrong\r\n",
        "X-Weir-Password: secret\r\nX-Weir-Password: secret\r\n", "X-Weir-Password: \r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(status_of(with(f, "GET /v1/policies", wrong[i])), 401);
    assert_int_equal(status_of(with(f, "GET /metrics", "X-Weir-Password: secret\r\n")), 200);
}

/* Heads of 64 KiB are read; only the lines that weir reads are limited to 16 KiB. */
static void check_big_heads(void **state)
{
    fixture *f = *state;
    static char request[WEIR_HTTP_HEAD_MAX + 8], value[WEIR_HTTP_VALUES_MAX];
    static const char start[] = "GET /v1/forward-auth/v1 HTTP/1.1\r\n" HOST;
    memset(value, 'c', sizeof value - 1);
    size_t len = (size_t)snprintf(request, sizeof request, "%s", start);
    for (int i = 0; i < 2; i++)
        len += (size_t)snprintf(request + len, sizeof request - len, "X-Unread: %s\r\n", value);
    size_t unread = len;
    len += (size_t)snprintf(request + len, sizeof request - len, "X-Api-Key: k\r\n\r\n");
    assert_int_equal(status_of(speak(f, request, len)), 200);
    has_member(get(f, "/v1/peek?policy=api&key=10.0.0.1/k"), "\"remaining\":2");
    len = unread + (size_t)snprintf(request + unread, sizeof request - unread,
                                    "X-Api-Key: %s\r\n\r\n", value + 100);
    assert_int_equal(status_of(speak(f, request, len)), 200);
    len = unread + (size_t)snprintf(request + unread, sizeof request - unread,
                                    "X-Api-Key: %s\r\n\r\n", value);
    is_problem(speak(f, request, len), 431, "the header lines that weir reads exceed 16384 bytes");
}

/* The headers that describe a request are read for /v1/forward-auth only: elsewhere they do not
 * count as lines that weir reads. */
static void check_headers_of_proxies(void **state)
{
    enum { LINES = 33 };
    static const char *const names[] = {"X-Forwarded-Host", "X-Forwarded-Method",
                                        "X-Forwarded-Uri",  "X-Original-Method",
                                        "X-Original-URI",   "X-Original-URL"};
    static const struct {
        const char *target;
        bool reads;
    } rows[] = {{"/v1/forward-auth", true},
                {"/v1/forward-auth/free", true},
                {"/v1/forward-auth?a", true},
                {"http://weir/v1/forward-auth", true},
                {"http://weir/v1/forward-auth#a", true},
                {"/v1/forward-authx", false},
                {"/v1/forward-aut", false},
                {"/v2/forward-auth", false},
                {"http://weir/v1/policies", false},
                {"/healthz", false}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            char start[64], lines[LINES * 32] = "";
            snprintf(start, sizeof start, "GET %s", rows[i].target);
            for (int n = 0; n < LINES; n++)
                sprintf(lines + strlen(lines), "%s: /a\r\n", names[k]);
            assert_int_equal(status_of(with(f, start, lines)) == 431, rows[i].reads);
        }
    }
}

static void check_bodies(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(below(f, "PUT", "/free",
                                     "Content-Type: text/plain\r\nContent-Length: 5\r\n"
                                     "Expect: 100-continue\r\n\r\nhello")),
                     100);
    assert_non_null(strstr((const char *)weir_buffer_data(&f->output), "HTTP/1.1 200 OK"));
    assert_int_equal(
        status_of(below(f, "GET", "/free", "Connection: Upgrade\r\nUpgrade: websocket\r\n")), 200);
    const char *answer = below(f, "HEAD", "/free", "");
    assert_int_equal(status_of(answer), 200);
    assert_string_equal(body_of(answer), "");
}

/* ---- lists of addresses ---------------------------------------------------------------------- */

/* Patterns of addresses match the client, whatever the key is made of. A client whose address the
 * proxy does not report is on no allow list, although the proxy's own address is. */
static void check_lists(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *header, *list; /* "": none */
    } rows[] = {
        {"192.0.2.7", "deny-list"},
        {"::FFFF:192.0.2.7", "deny-list"},
        {"2001:DB8:0:0::1", "deny-list"},
        {"203.0.113.7", "allow-list"},
        {"1.1.1.1, ::ffff:203.0.113.7, 10.0.0.9", "allow-list"},
        {"", ""},
        {"unknown", ""},
        {"203.0.113.7, unknown", ""},
        {"203.0.113.9:abc", ""},
        {"203.0.113.7:abc", ""},
        {"10.0.0.9", ""}, /* another proxy, which reported nobody */
    };
    static const char *const targets[] = {"/v1/forward-auth/listed", "/v1/forward-auth/direct",
                                          "/v1/take?policy=listed"};
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char lines[256], start[128];
            snprintf(lines, sizeof lines, "X-Api-Key: %zu-%zu\r\nX-Forwarded-For: %s\r\n", t, i,
                     rows[i].header);
            snprintf(start, sizeof start, "GET %s", targets[t]);
            const char *answer = with(f, start, lines);
            bool on_list = strstr(answer, "allow-list") || strstr(answer, "deny-list");
            if (rows[i].list[0] ? !strstr(answer, rows[i].list) : on_list)
                fail_msg("%s, X-Forwarded-For: %s: no '%s' in %s", targets[t], rows[i].header,
                         rows[i].list, answer);
        }
    }
}

/* A route that keeps a half of the limit of 2 leaves 1 to the others. */
static void check_keep(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(below(f, "GET", "/kept", "")), 200);
    has_member(below(f, "GET", "/kept", ""), "\"allowed\":false");
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 200);
    assert_int_equal(status_of(below(f, "POST", "/login", "")), 429);
}

/* ---- reloads and engines --------------------------------------------------------------------- */

static void check_reload(void **state)
{
    fixture *f = *state;
    const weir_route_spec other = {
        .name = "other", .path = "/free", .policies = LIST("login"), .policies_len = 1, .cost = 2};
    assert_int_equal(status_of(below(f, "GET", "/free", "")), 200);
    set_routes(f, &other, 1);
    assert_int_equal(status_of(below(f, "GET", "/free", "")), 200);
    assert_int_equal(status_of(below(f, "GET", "/free", "")), 429);
    has_member(below(f, "GET", "/v1", ""), "\"route\":null");
}

/* A page of a listed origin can read what the proxy passes on, denials above all; its preflights
 * are for the application. */
static void check_origins(void **state)
{
    static const char *const origins[] = {"https://app.example"};
    static const char listed[] = "Origin: https://app.example\r\n";
    fixture *f = *state;
    f->options.origins = (weir_http_names){origins, 1};
    static const int expected[] = {200, 200, 429};
    for (size_t i = 0; i < 3; i++) {
        const char *answer = below(f, "POST", "/login", listed);
        assert_int_equal(status_of(answer), expected[i]);
        has_line(answer, "Vary: Origin");
        has_line(answer, "Access-Control-Allow-Origin: https://app.example");
        if (!strstr(answer, "\r\nAccess-Control-Expose-Headers: RateLimit, RateLimit-Policy, "))
            fail_msg("no exposed headers in\n%s", answer);
    }
    has_line(below(f, "GET", "/lost", listed), "Access-Control-Allow-Origin: https://app.example");
    has_line(described(f, "", listed),
             "Access-Control-Allow-Origin: https://app.example"); /* 400 */
    const char *answer = below(f, "POST", "/login", "Origin: https://other.example\r\n");
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Vary: Origin");
    has_no_line(answer, "Access-Control-");
    answer = below(f, "OPTIONS", "/free",
                   "Origin: https://app.example\r\nAccess-Control-Request-Method: GET\r\n");
    assert_string_equal(body_of(answer), "{\"allowed\":true,\"route\":\"free\"}\n");
    has_no_line(answer, "Access-Control-Allow-Methods");
    f->options.origins.len = 0;
}

/* Overwrites the stack below, so that a later call finds none of the values of an earlier one. */
static __attribute__((noinline)) void scribble(void)
{
    volatile char bytes[1 << 17];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)0xA5;
}

static void check_absent_policy(void **state)
{
    fixture *f = *state;
    scribble();
    is_problem(below(f, "GET", "/lost", ""), 404,
               "unknown policy \"gone\"; GET /v1/policies lists all");
}

/* A request that waits for an engine is answered as it was sent, although its route is gone. */
static void check_pending(void **unused)
{
    (void)unused;
    static const char *const requests[] = {
        "POST /v1/forward-auth/login HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/forward-auth/v1 HTTP/1.1\r\n" HOST "X-Api-Key: k\r\n\r\n",
        "GET /v1/take?policy=api HTTP/1.1\r\n" HOST "X-Api-Key: k\r\n\r\n",
        "POST /v1/forward-auth/dear HTTP/1.1\r\n" HOST "\r\n",
        "POST /v1/forward-auth/kept HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/forward-auth/listed HTTP/1.1\r\n" HOST "X-Api-Key: k\r\n\r\n",
        "GET /v1/take?policy=listed HTTP/1.1\r\n" HOST "X-Api-Key: k\r\n\r\n",
    };
    static const char *const members[] = {
        "\"policy\":\"login\"", "\"policy\":\"host\"",   "\"policy\":\"api\"",   "\"remaining\":0",
        "\"remaining\":0",      "\"policy\":\"listed\"", "\"policy\":\"listed\""};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        int ready = 0;
        kit_engine = WEIR_ENGINE_REDIS;
        fixture *f = open_proxied();
        fake_engine *engine = fake_open();
        weir_service_set_engine(f->service, WEIR_ENGINE_REDIS, &engine->engine);
        f->session.completion.ready = count_ready;
        f->session.completion.ctx = &ready;
        weir_buffer_append(&f->in, requests[i], strlen(requests[i]));
        scribble();
        run(f, OUT_PAUSE);
        assert_int_equal(f->last, WEIR_SESSION_PENDING);
        kit_engine = WEIR_ENGINE_LOCAL;
        set_rules(f); /* without routes and templates */
        while (f->last == WEIR_SESSION_PENDING) {
            fake_reply(engine, 0, f->now_ns);
            scribble();
            run(f, OUT_PAUSE);
        }
        const char *answer = output_of(f);
        assert_int_equal(status_of(answer), 200);
        has_member(answer, members[i]);
        assert_true(ready > 0);
        weir_http_session_close(&f->session);
        engine->engine.calls->close(&engine->engine);
        weir_http_session_init(&f->session, &f->options);
        fixture_free(f);
    }
}

/* The answers do not depend on how the input is split. */
static void check_splits(void **state)
{
    fixture *f = *state;
    static const char requests[] =
        "POST /v1/forward-auth/login?x HTTP/1.1\r\n" HOST "X-Api-Key: 1\r\nX-Api-Key: 2\r\n\r\n"
        "GET /v1/forward-auth HTTP/1.1\r\nX-Forwarded-Uri: /v1?x\r\nX-Api-Key: 1\r\n" HOST
        "X-Forwarded-Method: GET\r\nX-API-Key: 2\r\n\r\n"
        "GET http://weir/v1/forward-auth?route=login HTTP/1.1\r\n" HOST "\r\n"
        "GET /v1/forward-auth/see HTTP/1.1\r\n" HOST "Cookie: a\r\n\r\n";
    char *whole = strdup(speak(f, requests, sizeof requests - 1));
    assert_non_null(strstr(whole, "\"policy\":\"described\""));
    for (size_t step = 1; step < 40; step++) {
        fixture *g = open_proxied();
        feed(g, requests, sizeof requests - 1, step);
        assert_string_equal(output_of(g), whole);
        fixture_free(g);
    }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROXIED(check_envoy),
        PROXIED(check_spellings),
        PROXIED(check_dot_dot),
        PROXIED(check_nul),
        PROXIED(check_encoded_slashes),
        PROXIED(check_long_host),
        PROXIED(check_long_path),
        PROXIED(check_long_key),
        PROXIED(check_absent_policy),
        PROXIED(check_described),
        PROXIED(check_bad_descriptions),
        PROXIED(check_several_policies),
        PROXIED(check_configured_answers),
        PROXIED(check_delays),
        PROXIED(check_clients),
        PROXIED(check_other_sites),
        PROXIED(check_origins),
        PROXIED(check_password),
        PROXIED(check_big_heads),
        PROXIED(check_bodies),
        PROXIED(check_headers_of_proxies),
        PROXIED(check_lists),
        PROXIED(check_keep),
        PROXIED(check_reload),
        cmocka_unit_test(check_pending),
        PROXIED(check_splits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
