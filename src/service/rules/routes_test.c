/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Routes: the normal forms of paths and hosts, which route matches, and which can never match. */

#define _GNU_SOURCE /* memmem */

#include "service/rules/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static weir_slice text_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static const char *read_path(weir_slice path, weir_encoded_slash slash)
{
    static char buf[WEIR_PATH_ROOM + 1];
    buf[weir_path_normalise(path, slash, buf)] = '\0';
    return buf;
}

static const char *path_of(weir_slice path)
{
    return read_path(path, WEIR_SLASH_REFUSE);
}

/* ---- normal forms ---------------------------------------------------------------------------- */

static void check_paths(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"/login", "/login"},
        {"", "/"},
        {"/", "/"},
        {"login", "/login"},
        {"*", "/*"},
        {"/%6cogin", "/login"},
        {"/%6Cogin", "/login"},
        {"/%256cogin", "/%256cogin"}, /* decoded once */
        {"//login", "/login"},
        {"///a//b//", "/a/b/"},
        {"/%2e/login", "/login"},
        {"/login/.", "/login/"},
        {"/.;x/login", "/login"},
        {"/..a/a../.../a..b", "/..a/a../.../a..b"},
        {"/a;../b;..", "/a/b"},
        {"/%252e%252e/a", "/%252e%252e/a"},
        {"/login/", "/login/"},
        {"/LOGIN", "/LOGIN"},
        {"/login;x=1", "/login"},
        {"/x;y/login;z", "/x/login"},
        {"/;/login", "/login"},
        {"/login%3Bx", "/login%3Bx"},
        {"/login%252F", "/login%252F"},
        {"/...", "/..."},
        {"/.x/..y", "/.x/..y"},
        {"/%", "/%25"},
        {"/%4", "/%254"},
        {"/%zz", "/%25zz"},
        {"/a b", "/a%20b"},
        {"/a%20b", "/a%20b"},
        {"/\xC3\xA9", "/%C3%A9"},
        {"/%c3%a9", "/%C3%A9"},
        {"/\xFF\x01", "/%FF%01"}, /* not UTF-8 */
        {"/%40me", "/@me"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(path_of(text_of(rows[i][0])), rows[i][1]);
    assert_string_equal(path_of((weir_slice){"/a\0b", 4}), "");
}

/* A slash that is encoded, and a backslash. */
static void check_encoded_slashes(void **unused)
{
    (void)unused;
    static const struct {
        const char *path, *separate, *keep;
    } rows[] = {
        {"/login%2F", "/login/", "/login%2F"},
        {"/login%2f", "/login/", "/login%2F"},
        {"/%2flogin", "/login", "/%2Flogin"},
        {"/login%5C", "/login/", "/login\\"},
        {"/login%5c", "/login/", "/login\\"},
        {"/login\\", "/login/", "/login\\"},
        {"%2Flogin", "/login", "/%2Flogin"},
        {"/a%2F%5C/\\b", "/a/b", "/a%2F\\/\\b"},
        {"/a%2F.%2Fb", "/a/b", "/a%2F.%2Fb"},
        {"/a;x%2Fb", "/a/b", "/a"}, /* some servers decode before they read parameters */
        {"/a;x\\b", "/a/b", "/a"},
        {"/%2F", "/", "/%2F"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_slice path = text_of(rows[i].path);
        assert_string_equal(read_path(path, WEIR_SLASH_REFUSE), "");
        assert_string_equal(read_path(path, WEIR_SLASH_SEPARATE), rows[i].separate);
        assert_string_equal(read_path(path, WEIR_SLASH_KEEP), rows[i].keep);
        assert_int_equal(weir_path_refused(path), WEIR_PATH_SLASH);
    }
}

static void check_dot_dot(void **unused)
{
    (void)unused;
    static const char *const rows[] = {"..",
                                       "/..",
                                       "/../",
                                       "/x/../login",
                                       "/x//../login",
                                       "/login/..",
                                       "/x/%2e%2e/y",
                                       "/x/.%2E",
                                       "/x/..;/y",
                                       "/x/..;a=1/y",
                                       "/x/..%3Ba/y",
                                       "/x%2f..%2Flogin",
                                       "/x/..%2flogin",
                                       "/x/..%5Cy",
                                       "/x\\..\\y",
                                       "/x;%2f..%2flogin",
                                       "/;/.%2e;"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (weir_encoded_slash slash = WEIR_SLASH_REFUSE; slash <= WEIR_SLASH_KEEP; slash++)
            assert_string_equal(read_path(text_of(rows[i]), slash), "");
        assert_int_equal(weir_path_refused(text_of(rows[i])), WEIR_PATH_DOT_DOT);
    }
}

static void check_nul(void **unused)
{
    (void)unused;
    static const char *const rows[] = {"/login%00", "%00", "/login;%00", "/x/../%00/y",
                                       "/%00%2F.."};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (weir_encoded_slash slash = WEIR_SLASH_REFUSE; slash <= WEIR_SLASH_KEEP; slash++)
            assert_string_equal(read_path(text_of(rows[i]), slash), "");
        assert_int_equal(weir_path_refused(text_of(rows[i])), WEIR_PATH_NUL);
    }
    assert_int_equal(weir_path_refused((weir_slice){"/a\0b", 4}), WEIR_PATH_NUL);
    assert_int_equal(weir_path_refused(text_of("/%2500")), WEIR_PATH_GOOD);
}

/* The normal form of each short path of some bytes is its own normal form, and has no empty segment
 * and none that means another one. */
static void check_stable(weir_encoded_slash slash)
{
    static const char alphabet[] = "/.%2eF\\;";
    enum { LETTERS = sizeof alphabet - 1, LEN = 6 };
    size_t all = 1;
    for (int i = 0; i < LEN; i++)
        all *= LETTERS;
    for (size_t i = 0; i < all; i++) {
        char text[LEN], once[WEIR_PATH_ROOM], twice[WEIR_PATH_ROOM];
        size_t rest = i;
        for (int k = 0; k < LEN; k++, rest /= LETTERS)
            text[k] = alphabet[rest % LETTERS];
        size_t len = weir_path_normalise((weir_slice){text, LEN}, slash, once);
        if (len == 0)
            continue;
        assert_int_equal(once[0], '/');
        assert_null(memmem(once, len, "//", 2));
        assert_null(memmem(once, len, "/../", 4));
        assert_false(len >= 3 && memcmp(once + len - 3, "/..", 3) == 0);
        assert_null(memmem(once, len, "/./", 3));
        assert_null(memmem(once, len, ";", 1));
        assert_int_equal(weir_path_normalise((weir_slice){once, len}, slash, twice), len);
        assert_memory_equal(once, twice, len);
        assert_true(slash == WEIR_SLASH_KEEP ||
                    (!memmem(once, len, "%2F", 3) && !memmem(once, len, "\\", 1)));
    }
}

static void check_normal_forms_are_stable(void **unused)
{
    (void)unused;
    for (weir_encoded_slash slash = WEIR_SLASH_REFUSE; slash <= WEIR_SLASH_KEEP; slash++)
        check_stable(slash);
}

static void check_long_paths(void **unused)
{
    (void)unused;
    static char text[WEIR_ROUTE_PATH_MAX + 1], buf[WEIR_PATH_ROOM];
    memset(text, 0xFF, sizeof text);
    assert_int_equal(
        weir_path_normalise((weir_slice){text, WEIR_ROUTE_PATH_MAX}, WEIR_SLASH_KEEP, buf),
        WEIR_PATH_ROOM);
    assert_int_equal(weir_path_normalise((weir_slice){text, sizeof text}, WEIR_SLASH_KEEP, buf), 0);
}

static void check_hosts(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"API.Example.com", "api.example.com"},
        {"api.example.com:8443", "api.example.com"},
        {"api.example.com.", "api.example.com"},
        {"api.example.com.:80", "api.example.com"},
        {"[2001:DB8::1]:80", "[2001:db8::1]"},
        {"[::1]", "[::1]"},
        {"[0:0:0::0:1]:80", "[::1]"},
        {"[zz]", "[zz]"},
        {"10.0.0.1:80", "10.0.0.1"},
        {"", ""},
        {":80", ""},
    };
    char buf[WEIR_ROUTE_HOST_MAX + 1], host[WEIR_ROUTE_HOST_MAX + 2];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf[weir_host_normalise(text_of(rows[i][0]), buf)] = '\0';
        assert_string_equal(buf, rows[i][1]);
    }
    assert_int_equal(weir_host_normalise((weir_slice){NULL, 0}, buf), 0);
    memset(host, 'A', sizeof host);
    assert_int_equal(weir_host_normalise((weir_slice){host, WEIR_ROUTE_HOST_MAX}, buf),
                     WEIR_ROUTE_HOST_MAX);
    assert_int_equal(weir_host_normalise((weir_slice){host, WEIR_ROUTE_HOST_MAX + 1}, buf), 0);
}

/* ---- matching -------------------------------------------------------------------------------- */

static const char *const get[] = {"GET"}, *const head[] = {"HEAD"}, *const post[] = {"POST", "PUT"};
static const char *const api[] = {"API.example.com"}, *const below[] = {"*.example.com"};
static const char *const deep[] = {"x.api.example.com", "*.api.example.com"};
static const char *const limits[] = {"a", "b"};

#define METHODS(list) .methods = (list), .methods_len = sizeof(list) / sizeof((list)[0])
#define HOSTS(list)   .hosts = (list), .hosts_len = sizeof(list) / sizeof((list)[0])

/* The name of the route of a request; "-" if there is none. */
static const char *find(const weir_routes *r, const char *method, const char *host,
                        const char *path)
{
    char host_buf[WEIR_ROUTE_HOST_MAX], path_buf[WEIR_PATH_ROOM];
    const weir_route_request request = {
        .method = text_of(method),
        .host = {host_buf, weir_host_normalise(text_of(host), host_buf)},
        .path = {path_buf, weir_path_normalise(text_of(path), WEIR_SLASH_KEEP, path_buf)},
    };
    const weir_route *found = weir_routes_find(r, &request);
    return found ? found->name.at : "-";
}

static void check_matching(void **unused)
{
    (void)unused;
    static const weir_route_spec specs[] = {
        {.name = "login", METHODS(post), .path = "/login"},
        {.name = "host", HOSTS(api), .path = "/host"},
        {.name = "wild", HOSTS(below), .path = "/wild"},
        {.path = "/v1", .policies = limits, .policies_len = 2, .cost = 3},
        {.name = "below", .path = "/dir/"},
        {.name = "read", METHODS(get), .path = "/%72ead"},
        {.name = "orders", .path = "/users/*/orders"},
        {.name = "user", .path = "/users/*/"},
        {.name = "files", .path = "/files/*"},
        {.name = "rest", METHODS(head)},
    };
    weir_routes *r = NULL;
    assert_int_equal(weir_routes_build(&r, specs, sizeof specs / sizeof specs[0], WEIR_SLASH_KEEP),
                     WEIR_OK);
    static const char *const rows[][4] = {
        {"POST", "", "/login", "login"},
        {"PUT", "", "/%6cogin", "login"},
        {"PUT", "", "//login/", "login"},
        {"POST", "", "/login/x", "login"},
        {"POST", "", "/.//login;y", "login"},
        {"post", "", "/login", "-"},
        {"GET", "", "/login", "-"},
        {"POST", "", "/LOGIN", "-"},
        {"POST", "", "/loginx", "-"},
        {"GET", "api.example.com", "/host", "host"},
        {"GET", "API.EXAMPLE.COM.:443", "/host", "host"},
        {"GET", "", "/host", "-"},
        {"GET", "xapi.example.com", "/host", "-"},
        {"GET", "api.example.com", "/wild", "wild"},
        {"GET", "a.b.example.com", "/wild", "wild"},
        {"GET", "example.com", "/wild", "-"},
        {"GET", "badexample.com", "/wild", "-"},
        {"GET", "", "/v1", "/v1"},
        {"GET", "", "/v1/x", "/v1"},
        {"GET", "", "/v10", "-"},
        {"GET", "", "/dir/", "below"},
        {"GET", "", "/dir/x", "below"},
        {"GET", "", "/dir", "-"},
        {"GET", "", "/read", "read"},
        {"HEAD", "", "/read", "read"}, /* the server does the work of a GET */
        {"POST", "", "/read", "-"},
        {"GET", "", "/users/7/orders", "orders"},
        {"GET", "", "/users/*/orders/9", "orders"},
        {"GET", "", "/users//7/./orders", "orders"},
        {"GET", "", "/users/7/ordersx", "user"},
        {"GET", "", "/users/7/", "user"},
        {"GET", "", "/users/7", "-"},
        {"GET", "", "/users/orders", "-"},
        {"GET", "", "/users/", "-"},
        {"GET", "", "/files/a", "files"},
        {"GET", "", "/files/a/b", "files"},
        {"GET", "", "/files/", "-"}, /* no segment */
        {"GET", "", "/files", "-"},
        {"HEAD", "", "/anything", "rest"},
        {"GET", "", "/anything", "-"}, /* a route for HEAD does not match GET */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const *row = rows[i], *found = find(r, row[0], row[1], row[2]);
        if (strcmp(found, row[3]) != 0)
            fail_msg("%s %s%s: %s instead of %s", row[0], row[1], row[2], found, row[3]);
    }
    const weir_route *v1 = weir_routes_named(r, "/v1", 3);
    assert_non_null(v1);
    assert_int_equal(v1->policies_len, 2);
    assert_string_equal(v1->policies[1].at, "b");
    assert_int_equal(v1->cost, 3);
    assert_null(weir_routes_named(r, "/v", 2));
    assert_null(weir_routes_named(NULL, "/v1", 3));
    assert_string_equal(find(NULL, "GET", "", "/"), "-");
    assert_ptr_equal(weir_routes_share(r), r);
    weir_routes_drop(r);
    assert_string_equal(find(r, "GET", "", "/v1"), "/v1"); /* one reference is left */
    weir_routes_drop(r);
    weir_routes_drop(NULL);
    assert_null(weir_routes_share(NULL));
}

static void check_bad_specs(void **unused)
{
    (void)unused;
    static const char *const hosts[] = {"", "*", "*.", "a*.example.com", ".example.com", "*.*.com"};
    static const char *const bad[] = {"bad name"}, *const empty[] = {""};
    static char path[WEIR_ROUTE_PATH_MAX + 2] = "/", method[WEIR_ROUTE_METHOD_MAX + 2] = "G";
    static const char *many[WEIR_ROUTE_LIST_MAX + 1], *const longer[] = {method};
    weir_routes *r = NULL;
    memset(path, '/', sizeof path - 1);
    memset(method, 'G', sizeof method - 1);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = "a";
    const weir_route_spec specs[] = {
        {.path = "v1"},
        {.path = ""},
        {.path = path},
        {.path = "/a/../b"},
        {.path = "/a*"},
        {.path = "/a/*b/c"},
        {.path = "/a/**"},
        {.path = "/%2A%2A"},
        {.cost = -1},
        {.cost = (int64_t)WEIR_COST_MAX + 1},
        {.keep = -101},
        {.keep = (int64_t)WEIR_COST_MAX + 1},
        {.policies = bad, .policies_len = 1},
        {.policies = many, .policies_len = WEIR_ROUTE_POLICIES_MAX + 1},
        {.methods = empty, .methods_len = 1},
        {.methods = longer, .methods_len = 1},
        {.methods = many, .methods_len = WEIR_ROUTE_LIST_MAX + 1},
        {.hosts = many, .hosts_len = WEIR_ROUTE_LIST_MAX + 1},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        assert_int_equal(weir_routes_build(&r, &specs[i], 1, WEIR_SLASH_KEEP), WEIR_E_RANGE);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        assert_int_equal(weir_routes_build(&r,
                                           &(weir_route_spec){.hosts = &hosts[i], .hosts_len = 1},
                                           1, WEIR_SLASH_KEEP),
                         WEIR_E_RANGE);
    assert_int_equal(weir_routes_build(&r, specs, WEIR_ROUTES_MAX + 1, WEIR_SLASH_KEEP),
                     WEIR_E_RANGE);
    assert_null(r);
}

static void check_longest_specs(void **unused)
{
    (void)unused;
    static char path[WEIR_ROUTE_PATH_MAX + 1], method[WEIR_ROUTE_METHOD_MAX + 1];
    static const char *many[WEIR_ROUTE_LIST_MAX], *const longest[] = {method};
    static weir_route_spec full[WEIR_ROUTES_MAX];
    weir_routes *r = NULL;
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    memset(method, 'G', sizeof method - 1);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = "a";
    const weir_route_spec specs[] = {
        {.path = path},
        {.cost = 0},
        {.cost = WEIR_COST_MAX},
        {.keep = -100},
        {.keep = WEIR_COST_MAX},
        {.policies = many, .policies_len = WEIR_ROUTE_POLICIES_MAX},
        {.methods = longest, .methods_len = 1},
        {.methods = many, .methods_len = WEIR_ROUTE_LIST_MAX},
        {.hosts = many, .hosts_len = WEIR_ROUTE_LIST_MAX},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        assert_int_equal(weir_routes_build(&r, &specs[i], 1, WEIR_SLASH_KEEP), WEIR_OK);
        weir_routes_drop(r);
    }
    assert_int_equal(weir_routes_build(&r, full, WEIR_ROUTES_MAX, WEIR_SLASH_KEEP), WEIR_OK);
    weir_routes_drop(r);
}

static void check_covering(void **unused)
{
    (void)unused;
    static const struct {
        weir_route_spec first, second;
        bool covers;
    } rows[] = {
        {{.path = "/v1"}, {.path = "/v1"}, true},   {{.path = "/v1"}, {.path = "/v1/x"}, true},
        {{.path = "/v1"}, {.path = "/v10"}, false}, {{.path = "/v1/x"}, {.path = "/v1"}, false},
        {{.path = "/v1/"}, {.path = "/v1"}, false}, {{.path = "/v1"}, {.path = "/v1/"}, true},
        {{.path = NULL}, {.path = "/v1"}, true},    {{METHODS(get)}, {.path = "/v1"}, false},
        {{METHODS(get)}, {METHODS(head)}, true},    {{METHODS(head)}, {METHODS(get)}, false},
        {{.path = "/"}, {METHODS(post)}, true},     {{METHODS(post)}, {METHODS(get)}, false},
        {{HOSTS(api)}, {.path = "/v1"}, false},     {{HOSTS(below)}, {HOSTS(api)}, true},
        {{HOSTS(below)}, {HOSTS(deep)}, true},      {{HOSTS(deep)}, {HOSTS(below)}, false},
        {{HOSTS(api)}, {HOSTS(deep)}, false},       {{.path = "/"}, {HOSTS(deep)}, true},
        {{.path = "/*"}, {.path = "/a/*"}, true},   {{.path = "/a/*"}, {.path = "/*/b"}, false},
        {{.path = "/a"}, {.path = "/a/*/b"}, true}, {{.path = "/*/"}, {.path = "/*"}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_route_spec both[] = {rows[i].first, rows[i].second};
        weir_routes *r = NULL;
        assert_int_equal(weir_routes_build(&r, both, 2, WEIR_SLASH_KEEP), WEIR_OK);
        assert_int_equal(weir_routes_covering(r, 0), 0);
        assert_int_equal(weir_routes_covering(r, 1), rows[i].covers ? 0 : 1);
        weir_routes_drop(r);
    }
}

/* A request with another host, which no route limits. */
static void check_other_hosts(void **unused)
{
    (void)unused;
    static const struct {
        weir_route_spec first, second;
        bool misses;
    } rows[] = {
        {{HOSTS(api), .path = "/a"}, {.path = "/"}, false},
        {{HOSTS(api), .path = "/a"}, {.path = "/a"}, false},
        {{HOSTS(api), .path = "/a"}, {.path = "/a/b"}, true},
        {{HOSTS(api), .path = "/a"}, {.path = "/*"}, false},
        {{HOSTS(api), .path = "/a"}, {HOSTS(below)}, true},
        {{HOSTS(api), METHODS(post)}, {METHODS(get)}, true},
        {{HOSTS(api), METHODS(post)}, {METHODS(post)}, false},
        {{HOSTS(api)}, {METHODS(post)}, true},
        {{.path = "/a"}, {HOSTS(api)}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_route_spec both[] = {rows[i].first, rows[i].second};
        weir_routes *r = NULL;
        assert_int_equal(weir_routes_build(&r, both, 2, WEIR_SLASH_SEPARATE), WEIR_OK);
        assert_int_equal(weir_routes_miss_hosts(r, 0), rows[i].misses);
        assert_int_equal(weir_routes_slash(r), WEIR_SLASH_SEPARATE);
        weir_routes_drop(r);
    }
    assert_int_equal(weir_routes_slash(NULL), WEIR_SLASH_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_paths),
        cmocka_unit_test(check_encoded_slashes),
        cmocka_unit_test(check_nul),
        cmocka_unit_test(check_dot_dot),
        cmocka_unit_test(check_normal_forms_are_stable),
        cmocka_unit_test(check_long_paths),
        cmocka_unit_test(check_hosts),
        cmocka_unit_test(check_matching),
        cmocka_unit_test(check_bad_specs),
        cmocka_unit_test(check_longest_specs),
        cmocka_unit_test(check_covering),
        cmocka_unit_test(check_other_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
