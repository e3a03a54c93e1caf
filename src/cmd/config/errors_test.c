/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The errors of invalid configurations, to the letter and to the caret. Most cases are in
 * errors_test.txt. Cases with control characters, tabs or invalid UTF-8 are here. No error shows a
 * password.
 *
 *   errors_test src/cmd/config/errors_test.txt
 *
 * With WEIR_WRITE=1 it replaces the expected errors in the file by the actual ones. */

#include "cmd/config/config.h"
#include "cmd/input.h"
#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *cases_path;
static weir_zone_cache *cache;

/* Returns the errors of an invalid configuration; for free(). */
static char *errors_of(const char *yaml, size_t len)
{
    weir_zones zones = weir_zone_cache_zones(cache);
    char *errors = NULL;
    size_t errors_len = 0;
    FILE *out = open_memstream(&errors, &errors_len);
    assert_non_null(out);
    config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    weir_status st = config_parse(yaml, len, "t.yaml", false, &zones, &sink, &c);
    fclose(out);
    if (st != WEIR_E_SYNTAX)
        fail_msg("%.*s\nreturned %s", (int)len, yaml, weir_status_str(st));
    assert_null(c);
    return errors;
}

static void check_errors(const char *yaml, const char *expected)
{
    char *errors = errors_of(yaml, strlen(yaml));
    assert_string_equal(errors, expected);
    free(errors);
}

/* ---- errors_test.txt ------------------------------------------------------------------------- */

static const char begin_errors[] = "\n---- errors\n", end_errors[] = "\n----\n";

/* Skips comments, group headings and empty lines before a case. */
static const char *skip_comments(const char *at)
{
    while (*at == '#' || *at == '\n')
        at += strcspn(at, "\n") + 1;
    return at;
}

static void check_cases(void **unused)
{
    (void)unused;
    char *text = NULL;
    size_t len = 0, n = 0;
    bool write = getenv("WEIR_WRITE") != NULL;
    assert_null(input_read(cases_path, 1 << 20, &text, &len));
    FILE *out = fopen(write ? cases_path : "/dev/null", "w");
    assert_non_null(out);
    for (const char *at = text; *at; n++) {
        const char *yaml = skip_comments(at), *middle = strstr(yaml, begin_errors);
        assert_non_null(middle);
        const char *expected = middle + strlen(begin_errors), *end = strstr(expected, end_errors);
        assert_non_null(end);
        char *errors = errors_of(yaml, (size_t)(middle + 1 - yaml));
        char *copy = strndup(expected, (size_t)(end + 1 - expected));
        fprintf(out, "%.*s%s%s", (int)(expected - at), at, errors, end_errors + 1);
        if (!write)
            assert_string_equal(errors, copy);
        free(copy);
        free(errors);
        at = end + strlen(end_errors);
    }
    assert_true(n > 80);
    fclose(out);
    free(text);
}

/* ---- bytes that a text file cannot show ------------------------------------------------------ */

static void check_bytes(void **unused)
{
    (void)unused;
    static const char nul[] = "a: \0\n";
    char *errors = errors_of(nul, sizeof nul - 1);
    assert_string_equal(errors,
                        "t.yaml:1:4: error: found a control character, expected UTF-8 text\n"
                        "  a:  \n"
                        "     ^\n");
    free(errors);
    check_errors("policies:\n"
                 "\ta: gcra 1/q\n",
                 "t.yaml:2:1: error: invalid YAML: while scanning for the next token: found "
                 "character that cannot start any token; quote the value, and indent with spaces\n"
                 "   a: gcra 1/q\n"
                 "  ^\n");
    check_errors("threads: 1\n"
                 "\tlimits: 2\n",
                 "t.yaml:2:1: error: invalid YAML: while scanning a plain scalar that begins on "
                 "line 1: found a tab character that violates indentation\n"
                 "   limits: 2\n"
                 "  ^\n");
    check_errors("threads: \007\n",
                 "t.yaml:1:10: error: found a control character, expected UTF-8 text\n"
                 "  threads:  \n"
                 "           ^\n");
    check_errors("\001\n", "t.yaml:1:1: error: found a control character, expected UTF-8 text\n"
                           "   \n"
                           "  ^\n");
    check_errors("listen: {http: \"\302\23331m\"}\n",
                 "t.yaml:1:17: error: found a control character, expected UTF-8 text\n"
                 "  listen: {http: \" 31m\"}\n"
                 "                  ^\n");
    check_errors("a: \"\377\"\n", "t.yaml:1:5: error: found byte 0xFF, expected UTF-8 text\n"
                                  "  a: \"?\"\n"
                                  "      ^\n");
    check_errors("? q:\t?", "t.yaml:1:3: error: found a map or a list as a key, expected a name\n"
                            "  ? q: ?\n"
                            "    ^\n");
    check_errors("threads:\t\t0\r\n",
                 "t.yaml:1:11: error: threads: expected a number from 1 to 256, found '0'\n"
                 "  threads:  0\n"
                 "            ^\n");
    check_errors("\357\273\277threads: 0\n",
                 "t.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'\n"
                 "  threads: 0\n"
                 "           ^\n");
    check_errors("policies:\n  a: gcra 1/s burst", /* the error is at the end of the file */
                 "t.yaml:2:20: error: policies.a: found the end, expected a burst, from 1 to "
                 "2147483647\n"
                 "    a: gcra 1/s burst\n"
                 "                     ^\n");
}

/* The map, its key, the list, and `entries` entries: at most 2000000 together. */
static void check_many_nodes(void **unused)
{
    (void)unused;
    for (size_t entries = 1999997; entries <= 1999998; entries++) {
        size_t len = 4 + 2 * entries;
        char *yaml = malloc(len);
        assert_non_null(yaml);
        for (size_t i = 0; i < len; i++)
            yaml[i] = i % 2 == 0 ? '1' : ',';
        memcpy(yaml, "a: [", 4);
        yaml[len - 1] = ']';
        char *errors = errors_of(yaml, len);
        assert_non_null(strstr(errors, entries == 1999997
                                           ? "error: unknown key 'a'"
                                           : "error: a: more than 2000000 keys and values\n"));
        free(errors);
        free(yaml);
    }
}

/* A number of `most` digits is valid, and a longer one is not. */
static void check_longest(const char *format, int most, const char *expected)
{
    char yaml[400];
    const config_sink sink = config_print_to(stderr);
    weir_config *c = NULL;
    snprintf(yaml, sizeof yaml, format, most, 1);
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c), WEIR_OK);
    config_free(c);
    snprintf(yaml, sizeof yaml, format, most + 1, 1);
    char *errors = errors_of(yaml, strlen(yaml));
    assert_non_null(strstr(errors, expected));
    free(errors);
}

static void check_lengths(void **unused)
{
    (void)unused;
    check_longest("limits: {idle: %0*ds}\n", 63, "idle: expected a duration from 1ms to 30d");
    check_longest("http: {hosts: %0*d}\n", CONFIG_HOST_MAX, "expected a host name");
    check_longest("http: {origins: http://%0*d}\n", CONFIG_HOST_MAX - 7, "expected an origin");
    check_longest("http: {key: {header: %0*d}}\n", CONFIG_NAME_MAX, "bytes, found '000");
    check_longest("http: {key: {query: %0*d}}\n", CONFIG_NAME_MAX, "bytes, found '000");
    char yaml[20 + 3 * (CONFIG_NAMES_MAX + 1)] = "http: {hosts: [";
    for (int i = 0; i <= CONFIG_NAMES_MAX; i++)
        strcat(yaml, "a, ");
    strcat(yaml, "]}");
    char *errors = errors_of(yaml, strlen(yaml));
    assert_non_null(strstr(errors, "http.hosts: 257 entries, expected at most 256\n"));
    free(errors);
    memcpy(strstr(yaml, "a, "), "   ", 3);
    weir_config *c = NULL;
    const config_sink sink = config_print_to(stderr);
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c), WEIR_OK);
    assert_int_equal(c->http_hosts.len, CONFIG_NAMES_MAX);
    config_free(c);
}

/* ---- passwords ------------------------------------------------------------------------------- */

/* The password is never shown, whatever else is wrong, and however it is written. */
static void check_no_password(void **unused)
{
    (void)unused;
    static const char *const files[] = {
        "password: hunter2\n\001",
        "password: hunter2\n\xFF",
        "password: hunter2\n  hunter2: [\n",
        "password:\n  - hunter2\n  - {hunter2: [hunter2\n",
        "threads: 0\npassword: |\n  hunter2\n   hunter2\n\n  hunter2\n",
        "{\"password\":\"hunter2\", x",
        "? password\n: hunter2\n? [\n",
        "password:\n  hunter2: hunter2\n  hunter2: !hunter2 x\n",
        "password: &hunter2\n",
        "password: hunter2 # hunter2\npassword: hunter2\nthreads: 0\n",
        "passwort: hunter2\nlimits: {password: hunter2}\n",
        "password: \"hunter2\\x7f\"\nlisten: {password: {hunter2: hunter2}}\n",
        "redis: {url: redis://weir:hunter2@h:x}\n",
        "redis: {url: redis://weir:hunter2@h, by: x}\n",
        "redis: {redis://weir:hunter2@h: 1}\n",
        "redis: {redis://weir:hunter2@h}\n",
        "redis: redis://weir:hunter2@h\n",
        "redis://weir:hunter2@h\n",
        "redis: [redis://weir:hunter2@h]\n",
        "redis:\n  urls:\n  - redis://weir:hunter2@h\n  - redis://weir:hunter2\n",
        "redis:\n  url: redis://:hunter2\n",
        "redis:\n  url: redis://weir:hunter2 @h:x\n",
        "redis:\n  url: |\n    redis://weir:hunter2@h\n",
        "redis:\n  url: \"redis:\\/\\/weir:hunter2@h:x\"\n",
        "redis:\n  url: 'redis://weir:hunter2@h\n",
        "redis: {url: redis://weir:hunter2@h, url: x}\n",
        "redis: {url: &a redis://weir:hunter2@h}\n",
        "redis: {url: redis://h, password: [hunter2]}\n",
        "redis: {url: redis://h, sentinel: {name: m, password: {hunter2: x}}}\n",
        "redis: {url: redis://weir:hunter2@h}\n\001",
        "redis: {url: redis://h, password: hunter2, by: x\n",
        "policies: {redis: {url: redis://weir:hunter2@h}}\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *errors = errors_of(files[i], strlen(files[i]));
        assert_true(strlen(errors) > 0);
        if (strstr(errors, "hunter"))
            fail_msg("file %zu: %s", i, errors);
        free(errors);
    }
}

static int open_cache(void **unused)
{
    (void)unused;
    cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    return cache ? 0 : -1;
}

static int close_cache(void **unused)
{
    (void)unused;
    weir_zone_cache_close(cache);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_cases),       cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_many_nodes),  cmocka_unit_test(check_lengths),
        cmocka_unit_test(check_no_password),
    };
    cases_path = argc == 2 ? argv[1] : "";
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
