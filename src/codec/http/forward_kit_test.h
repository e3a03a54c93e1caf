/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_FORWARD_KIT_TEST_H
#define WEIR_CODEC_HTTP_FORWARD_KIT_TEST_H
/* A kit for the tests of requests of proxies: policies with key templates, routes, and a client
 * behind a proxy. */

#include "codec/http/kit_test.h"
#include "tests/kit/kit.h"

/* The address of every connection; NULL: none. */
static const char *peer;

UNUSED static bool peer_address(const void *ctx, weir_address *ret)
{
    (void)ctx;
    return peer && weir_address_parse(ret, peer, strlen(peer));
}

#define LIST(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static weir_encoded_slash encoded_slash;

UNUSED static void set_routes(fixture *f, const weir_route_spec *routes, size_t routes_len)
{
    static const char *const sixteen[] = {"p0", "p1", "p2",  "p3",  "p4",  "p5",  "p6",  "p7",
                                          "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"};
    weir_rule_spec specs[31];
    size_t n = 0;
    for (; n < 16; n++) {
        specs[n] = WEIR_RULE_SPEC_DEFAULT;
        specs[n].name = sixteen[n];
        specs[n].limit = n == 15 ? "fixed-window 1/h" : "fixed-window 9/h";
    }
    static const char *const rest[][3] = {
        {"login", "fixed-window 2/h", NULL},
        {"api", "fixed-window 3/h", "$client/$header.x-api-key"},
        {"host", "fixed-window 2/h", "$host"},
        {"described", "fixed-window 1/h", "$method|$host|$path|$route|$policy"},
        {"token", "fixed-window 1/h", "$header.authorization"},
        {"queue", "leaky-queue 10/s depth 2", NULL},
        {"listed", "fixed-window 1/h", "$header.x-api-key/$client"},
        {"direct", "fixed-window 1/h", NULL},
        {"session", "fixed-window 9/h", "$cookie.sid"},
        {"query", "fixed-window 9/h", "${query.user|lower|trim}/$query.k"},
        {"skipped", "fixed-window 9/h", "$header.x-user"},
        {"addressed", "fixed-window 9/h", "$header.x-user"},
        {"denied", "fixed-window 9/h", "$header.x-user"},
    };
    static const weir_no_key no_keys[] = {WEIR_NO_KEY_SKIP, WEIR_NO_KEY_CLIENT, WEIR_NO_KEY_DENY};
    static const char *const allow[] = {"10.0.0.0/8", "203.0.113.7"};
    static const char *const deny[] = {"192.0.2.*", "2001:db8::/32"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++, n++) {
        specs[n] = WEIR_RULE_SPEC_DEFAULT;
        specs[n].name = rest[i][0];
        specs[n].limit = rest[i][1];
        specs[n].key = rest[i][2];
        if (strcmp(rest[i][0], "listed") == 0 || strcmp(rest[i][0], "direct") == 0) {
            specs[n].allow = allow;
            specs[n].deny = deny;
            specs[n].allow_len = specs[n].deny_len = 2;
        }
    }
    for (size_t i = 0; i < 3; i++)
        specs[n - 3 + i].no_key = no_keys[i];
    for (size_t i = 0; i < n; i++)
        specs[i].engine = kit_engine;
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, f->store, NULL, specs, n), WEIR_OK);
    const weir_route_spec preset[] = {
        {.name = "login",
         .path = "/login",
         .methods = LIST("POST"),
         .methods_len = 1,
         .policies = LIST("login"),
         .policies_len = 1,
         .cost = 1},
        {.path = "/v1", .policies = LIST("api", "host"), .policies_len = 2, .cost = 1},
        {.name = "all", .path = "/all", .policies = sixteen, .policies_len = 16, .cost = 1},
        {.name = "free", .path = "/free"},
        {.name = "see",
         .path = "/see",
         .policies = LIST("described"),
         .policies_len = 1,
         .cost = 1},
        {.name = "token",
         .path = "/token",
         .policies = LIST("token"),
         .policies_len = 1,
         .cost = 1},
        {.name = "queue",
         .path = "/queue",
         .policies = LIST("queue"),
         .policies_len = 1,
         .cost = 1},
        {.path = "/listed", .policies = LIST("listed"), .policies_len = 1, .cost = 1},
        {.path = "/direct", .policies = LIST("direct"), .policies_len = 1, .cost = 1},
        {.path = "/session", .policies = LIST("session"), .policies_len = 1, .cost = 1},
        {.path = "/query", .policies = LIST("query"), .policies_len = 1, .cost = 1},
        {.name = "skip",
         .path = "/skip",
         .policies = LIST("skipped"),
         .policies_len = 1,
         .cost = 1},
        {.path = "/both",
         .policies = LIST("skipped", "login", "skipped"),
         .policies_len = 3,
         .cost = 1},
        {.path = "/client", .policies = LIST("addressed"), .policies_len = 1, .cost = 1},
        {.path = "/deny", .policies = LIST("denied"), .policies_len = 1, .cost = 1},
        {.name = "lost", .path = "/lost", .policies = LIST("gone"), .policies_len = 1, .cost = 1},
        {.name = "kept",
         .path = "/kept",
         .policies = LIST("login"),
         .policies_len = 1,
         .cost = 1,
         .keep = WEIR_KEEP_PERCENT(50)},
        {.name = "dear", .path = "/dear", .policies = LIST("login"), .policies_len = 1, .cost = 2},
    };
    if (!routes) {
        routes = preset;
        routes_len = sizeof preset / sizeof preset[0];
    }
    assert_int_equal(weir_rules_set_routes(rules, routes, routes_len, encoded_slash), WEIR_OK);
    weir_limiter_configure(f->limiter, rules, kit_engine);
}

UNUSED static fixture *open_proxied(void)
{
    encoded_slash = WEIR_SLASH_REFUSE;
    static weir_network trusted;
    fixture *f = fixture_new();
    assert_true(weir_network_parse(&trusted, "10.0.0.0/8", 10));
    f->options.trusted = (weir_trusted_proxies){&trusted, 1};
    f->options.client_kind = WEIR_CLIENT_LIST;
    f->options.client_header = "X-Forwarded-For";
    f->options.peer_address = peer_address;
    peer = "10.0.0.1";
    set_routes(f, NULL, 0);
    return f;
}

UNUSED static int setup_proxied(void **state)
{
    *state = open_proxied();
    return 0;
}

#define PROXIED(name) cmocka_unit_test_setup_teardown(name, setup_proxied, teardown)

/* Sends a request below /v1/forward-auth, as Envoy does. */
UNUSED static const char *below(fixture *f, const char *method, const char *path, const char *lines)
{
    char start[1024];
    snprintf(start, sizeof start, "%s /v1/forward-auth%s", method, path);
    return with(f, start, lines);
}

/* Sends a request that headers describe. */
UNUSED static const char *described(fixture *f, const char *query, const char *lines)
{
    char start[1024];
    snprintf(start, sizeof start, "GET /v1/forward-auth%s", query);
    return with(f, start, lines);
}

UNUSED static void has_member(const char *answer, const char *member)
{
    if (!strstr(body_of(answer), member))
        fail_msg("no %s in\n%s", member, answer);
}

#endif
