/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the service does for requests that a proxy describes: keys of templates, and routes. */

#include "service/kit_test.h"

#include <stdio.h>
#include <strings.h>

/* A request whose client is 10.1.2.3, with one header. */
static bool proxied_value(void *ctx, weir_slice name, weir_slice *ret, bool *is_address)
{
    *is_address = strcmp(name.at, "client") == 0;
    *ret = *is_address ? text_of("10.1.2.3") : text_of(ctx);
    return *is_address || strcasecmp(name.at, "header.x-api-key") == 0;
}

static const char *key_by(const char *rule, const char *preset, const char *header, size_t size)
{
    static char buf[64];
    size_t len = SIZE_MAX;
    weir_status st = weir_service_make_key(service, text_of(rule), preset, proxied_value,
                                           (void *)(uintptr_t)header, buf, size, &len);
    if (st != WEIR_OK)
        return weir_status_str(st);
    assert_true(len <= size);
    buf[len] = '\0';
    return buf;
}

static void check_keys_of_templates(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/s"), spec_of("plain", "gcra 1/s")};
    specs[0].key = "$client/$header.X-Api-Key";
    specs[0].v4_bits = 24;
    assert_false(weir_service_wants_header(service, text_of("x-api-key")));
    set_rules(specs, 2);
    assert_true(weir_service_wants_header(service, text_of("x-API-key")));
    assert_false(weir_service_wants_header(service, text_of("x-api")));
    assert_string_equal(key_by("api", NULL, "a", 60), "10.1.2.0%2F24/a");
    assert_string_equal(key_by("api", "client", "b", 60), "10.1.2.0%2F24/b");
    assert_string_equal(key_by("api", NULL, "a", 14), "");
    assert_string_equal(key_by("plain", "client", "a", 60), "10.1.2.3"); /* the rule masks it */
    assert_string_equal(key_by("plain", "client", "a", 7), "");
    assert_string_equal(key_by("plain", "none", "a", 60), "");
    assert_string_equal(key_by("plain", NULL, "a", 60), weir_status_str(WEIR_E_UNSUPPORTED));
    assert_string_equal(key_by("none", "client", "a", 60), weir_status_str(WEIR_E_ABSENT));
    /* A change of the limit keeps the template. */
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 2/s", NULL), WEIR_OK);
    assert_true(weir_service_wants_header(service, text_of("x-api-key")));
    assert_string_equal(key_by("api", NULL, "a", 60), "10.1.2.0%2F24/a");
    assert_int_equal(weir_limiter_drop_rule(limiter, "api", 3), WEIR_OK);
    assert_false(weir_service_wants_header(service, text_of("x-api-key")));
}

static void check_bad_templates(void **unused)
{
    (void)unused;
    enum { N = WEIR_RULE_HEADERS_MAX + 1 };
    weir_rule_spec specs[N];
    char name[N][16], key[N][32];
    weir_rules *rules = NULL;
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "r%d", i);
        snprintf(key[i], sizeof key[i], "$header.h%d", i);
        specs[i] = spec_of(name[i], "gcra 1/s");
        specs[i].key = key[i];
    }
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, N), WEIR_E_RANGE);
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, N - 1), WEIR_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(weir_rules_want_header(rules, text_of(key[i] + strlen("$header."))),
                         i < N - 1);
    weir_rules_drop(rules);
    specs[N - 1].key = "$header.H0"; /* the same header as $header.h0 */
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, N), WEIR_OK);
    weir_rules_drop(rules);
    specs[0].key = "no variable";
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, 1), WEIR_E_SYNTAX);
}

/* Routes are activated with the rules, and a change of a single rule keeps them. */
static void check_routes(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"api"};
    const weir_route_spec routes[] = {
        {.name = "v1", .path = "/v1", .policies = policies, .policies_len = 1, .cost = 2},
        {.name = "rest"}};
    const weir_route_request v1 = {text_of("GET"), {NULL, 0}, text_of("/v1/x")};
    const weir_route_request other = {text_of("GET"), {NULL, 0}, text_of("/v2")};
    const weir_slice none = {NULL, 0};
    weir_rule_spec spec = spec_of("api", "gcra 1/s");
    weir_rules *rules = NULL;
    set_rules(&spec, 1);
    assert_null(weir_service_route(service, &v1, none));
    assert_int_equal(weir_rules_build(&rules, store, NULL, &spec, 1), WEIR_OK);
    assert_int_equal(weir_rules_set_routes(rules, routes, 2, WEIR_SLASH_REFUSE), WEIR_OK);
    assert_int_equal(weir_rules_set_routes(rules, routes, 1, WEIR_SLASH_REFUSE),
                     WEIR_OK); /* replaces them */
    weir_limiter_set_rules(limiter, rules);
    assert_string_equal(weir_service_route(service, &v1, none)->policies[0].at, "api");
    assert_int_equal(weir_limiter_set_limit(limiter, "api", "gcra 2/s", NULL), WEIR_OK);
    assert_int_equal(weir_service_route(service, &v1, none)->cost, 2);
    assert_null(weir_service_route(service, &other, none));
    assert_string_equal(weir_service_route(service, &other, text_of("v1"))->name.at, "v1");
    assert_null(weir_service_route(service, &v1, text_of("rest")));
    set_rules(&spec, 1);
    assert_null(weir_service_route(service, &v1, none));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_keys_of_templates),
        TEST(check_bad_templates),
        TEST(check_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
