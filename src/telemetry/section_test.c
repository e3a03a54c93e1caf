/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a valid section `telemetry` stores, which headers a file may have, and what weir check
 * says. */

#include "cmd/config/kit_test.h"
#include "cmd/kit/commands.h"
#include "telemetry/guest.h"

static const telemetry_settings *settings_of(const weir_config *c)
{
    return config_options(c, &telemetry_guest);
}

#define ENDPOINT "telemetry: {endpoint: \"http://c:4318\""

static void test_defaults(void **unused)
{
    (void)unused;
    weir_config *c = valid(API);
    assert_null(settings_of(c)->endpoint);
    config_free(c);
    c = valid(API "telemetry:\n");
    assert_null(settings_of(c)->endpoint);
    config_free(c);
    c = valid(API ENDPOINT "}\n");
    const telemetry_settings *s = settings_of(c);
    assert_string_equal(s->endpoint, "http://c:4318");
    assert_true(s->metrics && s->traces);
    assert_int_equal(s->interval_ns, 60 * CONFIG_S_NS);
    assert_int_equal(s->timeout_ns, 10 * CONFIG_S_NS);
    assert_null(s->headers);
    assert_null(s->attributes);
    assert_false(s->has_name || s->has_instance);
    config_free(c);
}

#define TEXT(name, value) "{\"key\":\"" name "\",\"value\":{\"stringValue\":\"" value "\"}},"

static void test_resource(void **unused)
{
    (void)unused;
    weir_config *c = valid(API ENDPOINT ", resource: {a: 1, \"b\\\"\": 'c \"d\"'}}\n");
    assert_string_equal(settings_of(c)->attributes, TEXT("a", "1") TEXT("b\\\"", "c \\\"d\\\""));
    assert_false(settings_of(c)->has_name || settings_of(c)->has_instance);
    config_free(c);
    c = valid(API ENDPOINT ", resource: {service.name: x}}\n");
    assert_true(settings_of(c)->has_name && !settings_of(c)->has_instance);
    config_free(c);
    c = valid(API ENDPOINT ", resource: {service.instance.id: x}}\n");
    assert_true(!settings_of(c)->has_name && settings_of(c)->has_instance);
    config_free(c);
}

/* Reads a configuration with this file of headers. */
static weir_status parse_headers(const char *text, weir_config **ret)
{
    write_file("headers", text);
    *ret = NULL;
    return parse(API ENDPOINT ", headers_file: headers}\n", "t.yaml", true, ret);
}

static void test_headers(void **unused)
{
    (void)unused;
    weir_config *c;
    assert_int_equal(parse_headers("Authorization: Bearer a:b\r\n\nX-A:  c ", &c), WEIR_OK);
    assert_string_equal(settings_of(c)->headers, "Authorization: Bearer a:b\r\nX-A:  c \r\n");
    config_free(c);
    assert_int_equal(parse_headers("\n", &c), WEIR_OK);
    assert_string_equal(settings_of(c)->headers, "");
    config_free(c);
    c = valid(API ENDPOINT ", headers_file: none}\n"); /* no file is opened */
    assert_null(settings_of(c)->headers);
    config_free(c);
}

static void test_bad_headers(void **unused)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"A: b\nsecret", "line 2 of the file is no header, expected NAME: VALUE"},
        {"A:", "line 1 of the file is no header, expected NAME: VALUE"},
        {"A:  \n", "line 1 of the file is no header, expected NAME: VALUE"},
        {"se cret: b", "line 1 of the file has no valid name of a header, expected NAME: VALUE"},
        {": secret", "line 1 of the file has no valid name of a header, expected NAME: VALUE"},
        {"A: secret\tb", "line 1 of the file has a control character"},
        {"A: secret\x7F", "line 1 of the file has a control character"},
        {"host: secret", "line 1 of the file has a header that weir writes itself"},
        {"User-Agent: secret", "has a header that weir writes itself"},
        {"Connection: secret", "has a header that weir writes itself"},
        {"Content-Type: secret", "has a header that weir writes itself"},
        {"Content-Length: 1", "has a header that weir writes itself"},
        {"TRANSFER-ENCODING: secret", "has a header that weir writes itself"},
    };
    weir_config *c;
    (void)unused;
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        assert_int_equal(parse_headers(rows[i].text, &c), WEIR_E_SYNTAX);
        if (!strstr(errors, rows[i].error) || strstr(errors, "secret"))
            fail_msg("expected '%s', found: %s", rows[i].error, errors);
    }
    assert_int_equal(parse(API ENDPOINT ", headers_file: absent}\n", "t.yaml", true, &c),
                     WEIR_E_SYNTAX);
    assert_non_null(strstr(errors, "telemetry.headers_file: cannot read absent: "));
    char *big = calloc(1, (64 << 10) + 2);
    memset(big, 'a', (64 << 10) + 1);
    assert_int_equal(parse_headers(big, &c), WEIR_E_SYNTAX);
    free(big);
}

/* weir check loads the files of TLS, unless it checks the syntax only. */
static void test_tls_files(void **unused)
{
    static const char yaml[] = API "telemetry: {endpoint: \"https://c\", tls: {ca: ca.pem}}\n";
    (void)unused;
    weir_config *c = NULL;
    write_file("ca.pem", "no certificate");
    assert_int_equal(parse(yaml, "t.yaml", true, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(errors, "error: telemetry.tls: "));
    assert_non_null(strstr(errors, "ca.pem"));
    c = valid(yaml);
    assert_string_equal(settings_of(c)->ca, "ca.pem");
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_resource),
        cmocka_unit_test(test_headers),   cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_tls_files),
    };
    weir_use_guests();
    int failed = cmocka_run_group_tests(tests, make_dir, remove_dir);
    free(errors);
    return failed;
}
