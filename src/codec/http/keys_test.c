/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Keys that templates make of headers, cookies and queries. */

#include "codec/http/forward_kit_test.h"

static void check_header_keys(void **state)
{
    fixture *f = *state;
    static const char *const rows[][2] = {
        {"X-Api-Key: a\r\n", "10.0.0.1/a"},
        {"x-api-KEY: a\r\nX-Other: b\r\nX-API-Key:  b \r\n", "10.0.0.1/a, b"},
        {"X-Api-Key: 1\r\nX-Api-Key: 2\r\nX-Api-Key: 3\r\n", "10.0.0.1/1, 2, 3"},
        {"X-Forwarded-For: 198.51.100.9\r\nX-Api-Key: 4\r\nX-Forwarded-For: 10.0.0.9\r\n"
         "X-Api-Key: 5\r\n",
         "198.51.100.9/4, 5"},
        {"", "10.0.0.1/"},
        {"X-Api-Key: x/y%\r\n", "10.0.0.1/x/y%25"},
        {"X-Api-Key: 10.0.0.1\r\nX-Forwarded-For: 2001:db8::7\r\n", "2001:db8::%2F64/10.0.0.1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *body = json_pack("{s:s,s:s}", "policy", "api", "key", rows[i][1]);
        char *text = json_dumps(body, 0);
        assert_int_equal(status_of(with(f, "GET /v1/take?policy=api", rows[i][0])), 200);
        has_member(post(f, "/v1/peek", text), "\"remaining\":2");
        has_member(with(f, "GET /v1/peek?policy=api", rows[i][0]), "\"remaining\":2");
        free(text);
        json_decref(body);
    }
    is_problem(get(f, "/v1/take?policy=token"), 400,
               "the key of policy \"token\" is empty: the request has no value for a variable of "
               "its key template");
    is_problem(get(f, "/v1/take?policy=see"), 400, "missing key, expected the parameter \"key\"");
    /* A parameter wins; a header is used only without a template. */
    f->options.key_header = "X-User";
    has_member(with(f, "GET /v1/take?policy=api&key=mine", "X-User: u\r\n"), "\"remaining\":2");
    has_member(with(f, "GET /v1/take?policy=api", "X-User: u\r\n"), "\"remaining\":1");
    assert_int_equal(status_of(with(f, "GET /v1/take?policy=login", "X-User: u\r\n")), 200);
}

static void charges(fixture *f, const char *policy, const char *key)
{
    static int taken; /* by this key */
    static char last[64];
    char path[128], member[32];
    taken = strcmp(last, key) == 0 ? taken + 1 : 1;
    snprintf(last, sizeof last, "%s", key);
    snprintf(path, sizeof path, "/v1/peek?policy=%s&key=%s", policy, key);
    snprintf(member, sizeof member, "\"remaining\":%d", 9 - taken);
    has_member(get(f, path), member);
}

#define SESSION "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /session\r\n"

static void check_cookies(void **state)
{
    fixture *f = *state;
    static const char *const rows[][2] = {
        {"sid=abc", "abc"},        {"a=1; sid=abc; b=2", "abc"},      {"sida=1;sid=abc", "abc"},
        {" sid=abc ;a", "abc"},    {"a=1\r\nCookie: sid=abc", "abc"}, {"sid=abc; sid=abc", "abc"},
        {"SID=x; sid=d=e", "d=e"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lines[200];
        snprintf(lines, sizeof lines, SESSION "cookie: %s\r\n", rows[i][0]);
        assert_int_equal(status_of(with(f, "GET /v1/forward-auth", lines)), 200);
        charges(f, "session", rows[i][1]);
    }
    static const char *const empty[] = {"", "Cookie: a=sid\r\n", "Cookie: sid=\r\n",
                                        "Cookie: sid\r\n", "Cookie: xsid=1;;=;\r\n"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        char lines[200];
        snprintf(lines, sizeof lines, SESSION "%s", empty[i]);
        is_problem(with(f, "GET /v1/forward-auth", lines), 400,
                   "the key of policy \"session\" is empty: the request has no value for a "
                   "variable of its key template");
    }
    is_problem(with(f, "GET /v1/forward-auth", SESSION "Cookie: sid=a; sid=b\r\n"), 400,
               "the request has several values of \"sid\", expected one: it is part of the key of "
               "policy \"session\"");
    has_member(with(f, "GET /v1/take?policy=session", "Cookie: sid=t\r\n"), "\"remaining\":8");
}

#define NO_QUERY                                                                                   \
    "the key of policy \"query\" is empty: the request has no value for a variable of its key "    \
    "template"
#define SEVERAL(name)                                                                              \
    "the request has several values of \"" name "\", expected one: it is part of the key of "      \
    "policy \"query\""

static void check_queries(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *query, *key, *error;
    } rows[] = {
        {"user=ann&k=1", "ann/1", NULL},
        {"k=1&user=Ann", "ann/1", NULL},
        {"x=2&user=+%41nn%20&k=%31#k=7", "ann/1", NULL},
        {"us%65r=ANN&k=1&k=1", "ann/1", NULL},
        {"user=a%2Fb&k=c%2Fd", "a%252Fb/c/d", NULL},
        {"user=%zz%4&k=%", "%2525zz%25254/%2525", NULL},
        {"k=only", "/only", NULL},
        {"user", NULL, NO_QUERY},
        {"", NULL, NO_QUERY},
        {"user=a&user=b&k=1", NULL, SEVERAL("user")},
        {"user=a&user=%61&k=1&k=2", NULL, SEVERAL("k")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lines[300], path[300];
        snprintf(lines, sizeof lines, "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /query?%s\r\n",
                 rows[i].query);
        snprintf(path, sizeof path, "GET /v1/forward-auth/query?%s", rows[i].query);
        bool hash = strchr(rows[i].query, '#'); /* in no request target */
        for (int below = 0; below < 2 - hash; below++) {
            const char *answer = below ? with(f, path, "") : with(f, "GET /v1/forward-auth", lines);
            if (rows[i].error) {
                is_problem(answer, 400, rows[i].error);
                continue;
            }
            assert_int_equal(status_of(answer), 200);
            charges(f, "query", rows[i].key);
        }
    }
    is_problem(get(f, "/v1/take?policy=query"), 400, NO_QUERY);
}

/* A name and its value are decoded to the room of a request target. */
static void check_long_queries(void **state)
{
    fixture *f = *state;
    static char request[WEIR_HTTP_TARGET_MAX + 300];
    for (size_t more = 0; more < 2; more++) {
        size_t len = (size_t)snprintf(request, sizeof request,
                                      "GET /v1/forward-auth HTTP/1.1\r\n" HOST
                                      "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /query?k=");
        memset(request + len, 'u', WEIR_HTTP_TARGET_MAX + more);
        len += WEIR_HTTP_TARGET_MAX + more;
        len += (size_t)snprintf(request + len, 10, "\r\n\r\n");
        if (more)
            is_problem(speak(f, request, len), 400,
                       "the key of policy \"query\" exceeds 16384 bytes");
        else
            assert_int_equal(status_of(speak(f, request, len)), 200);
    }
}

#define NO_KEY(policy)                                                                             \
    "the key of policy \"" policy                                                                  \
    "\" is empty: the request has no value for a variable of its key "                             \
    "template"

static void check_no_key(void **state)
{
    fixture *f = *state;
    static const char user[] = "X-User: u\r\n";
    for (int i = 0; i < 3; i++)
        assert_string_equal(body_of(below(f, "GET", "/skip", "")),
                            "{\"allowed\":true,\"route\":\"skip\"}\n");
    has_member(below(f, "GET", "/skip", user), "\"remaining\":8");
    /* The other policy alone decides. */
    const char *answer = below(f, "GET", "/both", "");
    has_member(answer, "\"policy\":\"login\"");
    has_member(answer, "\"remaining\":1");
    assert_int_equal(status_of(below(f, "GET", "/both", "")), 200);
    assert_int_equal(status_of(below(f, "GET", "/both", "")), 429);
    has_member(get(f, "/v1/peek?policy=skipped&key=u"), "\"remaining\":8");
    has_member(below(f, "GET", "/client", ""), "\"remaining\":8");
    has_member(below(f, "GET", "/client", ""), "\"remaining\":7");
    has_member(get(f, "/v1/peek?policy=addressed&key=10.0.0.1"), "\"remaining\":7");
    has_member(below(f, "GET", "/client", user), "\"remaining\":8");
    has_member(get(f, "/v1/take?policy=addressed"), "\"remaining\":6");
    is_problem(below(f, "GET", "/deny", ""), 403, NO_KEY("denied"));
    assert_int_equal(status_of(below(f, "GET", "/deny", user)), 200);
    is_problem(get(f, "/v1/take?policy=denied"), 403, NO_KEY("denied"));
    is_problem(get(f, "/v1/take?policy=skipped"), 400,
               "missing key, expected the parameter \"key\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROXIED(check_header_keys),  PROXIED(check_cookies), PROXIED(check_queries),
        PROXIED(check_long_queries), PROXIED(check_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
