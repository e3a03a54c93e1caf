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
#include "cmd/config/guests_kit_test.h"
#include "cmd/kit/input.h"
#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yaml.h>

static const char *cases_path;
static weir_zone_cache *cache;

/* Returns the errors of an invalid configuration, and why it was refused; for free(). */
static char *errors_of(const char *yaml, size_t len, weir_status *ret_status)
{
    weir_zones zones = weir_zone_cache_zones(cache);
    char *errors = NULL;
    size_t errors_len = 0;
    FILE *out = open_memstream(&errors, &errors_len);
    assert_non_null(out);
    config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    *ret_status = config_parse(yaml, len, "t.yaml", false, &zones, &sink, &c);
    fclose(out);
    assert_null(c);
    return errors;
}

static char *syntax_errors_of(const char *yaml, size_t len)
{
    weir_status st;
    char *errors = errors_of(yaml, len, &st);
    if (st != WEIR_E_SYNTAX)
        fail_msg("%.*s\nreturned %s", (int)len, yaml, weir_status_str(st));
    return errors;
}

static void check_errors(const char *yaml, const char *expected)
{
    char *errors = syntax_errors_of(yaml, strlen(yaml));
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
        char *input = strndup(yaml, (size_t)(middle + 1 - yaml));
        char *copy = strndup(expected, (size_t)(end + 1 - expected));
        assert_true(input && copy);
        bool absent = names_absent_guest(input, copy);
        char *errors = absent ? strdup(copy) : syntax_errors_of(input, strlen(input));
        fprintf(out, "%.*s%s%s", (int)(expected - at), at, errors, end_errors + 1);
        if (!write)
            assert_string_equal(errors, copy);
        free(input);
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
    char *errors = syntax_errors_of(nul, sizeof nul - 1);
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
        char *errors = syntax_errors_of(yaml, len);
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
    char *errors = syntax_errors_of(yaml, strlen(yaml));
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
    char *errors = syntax_errors_of(yaml, strlen(yaml));
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
        char *errors = syntax_errors_of(files[i], strlen(files[i]));
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

/* ---- libyaml without memory ------------------------------------------------------------------ */

int __real_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);
int __wrap_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);

static size_t events_left = SIZE_MAX;

int __wrap_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event)
{
    if (events_left == SIZE_MAX || events_left-- > 0)
        return __real_yaml_parser_parse(parser, event);
    parser->error = YAML_MEMORY_ERROR;
    return 0;
}

/* libyaml lacks memory at its n-th event. */
static void check_failing_parser(void **unused)
{
    (void)unused;
    static const char yaml[] = "policies: {a: {limit: gcra 1/q}}\n";
    weir_status st = WEIR_E_NOMEM;
    for (size_t n = 0; st == WEIR_E_NOMEM; n++) {
        events_left = n;
        char *errors = errors_of(yaml, strlen(yaml), &st);
        if (events_left == SIZE_MAX) /* it was reached */
            assert_string_equal(errors, "t.yaml: error: out of memory\n");
        events_left = SIZE_MAX;
        free(errors);
        assert_in_range(n, 0, 100);
    }
    assert_int_equal(st, WEIR_E_SYNTAX);
}

/* A full list keeps the first errors. It keeps warnings only if there is room. */
static void check_full_list(void **unused)
{
    (void)unused;
    static config_errors e;
    weir_arena arena = {0};
    e = (config_errors){.arena = &arena, .file = "t.yaml"};
    for (size_t i = 0; i < CONFIG_ERRORS_MAX; i++) {
        const config_node node = {.begin = 10 * i};
        config_warn(&e, &(config_place){.node = &node}, "useless");
    }
    const config_node late = {.begin = 1000};
    config_warn(&e, &(config_place){.node = &late}, "useless");
    for (size_t i = 0; i < CONFIG_ERRORS_MAX; i++) {
        config_error_at(&e, 5 + 10 * i, NULL, "wrong");
        assert_int_equal(e.kept, CONFIG_ERRORS_MAX);
        size_t errors = 0;
        for (size_t k = 0; k < e.kept; k++) {
            assert_true(k == 0 || e.list[k - 1].at <= e.list[k].at);
            assert_int_equal(e.list[k].at % 10, e.list[k].warning ? 0 : 5);
            errors += !e.list[k].warning;
        }
        assert_int_equal(errors, i + 1);
    }
    config_warn(&e, &(config_place){.node = &(config_node){.begin = 0}}, "useless");
    config_error_at(&e, 10 * CONFIG_ERRORS_MAX, NULL, "wrong");
    assert_int_equal(e.list[0].at, 5);
    assert_int_equal(e.list[CONFIG_ERRORS_MAX - 1].at, 10 * CONFIG_ERRORS_MAX - 5);
    config_error_at(&e, 4, NULL, "wrong");
    assert_int_equal(e.list[0].at, 4);
    assert_int_equal(e.list[CONFIG_ERRORS_MAX - 1].at, 10 * CONFIG_ERRORS_MAX - 15);
    assert_int_equal(e.found, 2 * CONFIG_ERRORS_MAX + 4);
    assert_int_equal(e.warnings, CONFIG_ERRORS_MAX + 2);
    weir_arena_free(&arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_cases),       cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_many_nodes),  cmocka_unit_test(check_lengths),
        cmocka_unit_test(check_no_password), cmocka_unit_test(check_failing_parser),
        cmocka_unit_test(check_full_list),
    };
    weir_use_guests();
    cases_path = argc == 2 ? argv[1] : "";
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
