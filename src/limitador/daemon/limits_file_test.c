/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Limits files: limitador's example, every kind of value, and errors with their places. */

#include "cmd/kit/commands.h"
#include "limitador/daemon/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

typedef struct output {
    char text[2048];
} output;

static void report(void *ctx, const config_problem *p)
{
    output *o = ctx;
    size_t at = strlen(o->text);
    assert_true(at < sizeof o->text);
    snprintf(o->text + at, sizeof o->text - at, "%s:%zu:%zu: %s: %s%s%s\n", p->file, p->line,
             p->column, p->warning ? "warning" : "error", p->path, p->path[0] ? ": " : "", p->text);
}

/* Expects a configuration, or NULL if the file is invalid; and problems as text. */
static weir_limitador_config *parse(const char *yaml, bool valid, const char *problems)
{
    output o = {{0}};
    const config_sink sink = {report, &o};
    weir_arena arena = {0};
    config_errors other = {.arena = &arena, .file = "other.yaml"};
    config_errors errors = {.arena = &arena, .file = "weir.yaml", .next = &other};
    limitador_settings to = {.file = NULL};
    config_reader r = {.arena = &arena, .errors = &errors, .files = true};
    limits_file_parse(&r, &to, "l.yaml", yaml, strlen(yaml));
    assert_false(arena.failed);
    config_errors_report(&errors, &sink);
    assert_string_equal(o.text, problems);
    assert_int_equal(config_errors_in(&errors) == 0, valid);
    assert_int_equal(to.limits != NULL, valid);
    weir_arena_free(&arena);
    return to.limits;
}

static void check_rules(const char *yaml, const char *const *limits, size_t n)
{
    size_t len;
    weir_limitador_config *c =
        parse(yaml, true,
              n > 0 ? "" : "l.yaml:1:1: warning: there is no limit: every request is allowed\n");
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &len);
    assert_int_equal(len, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(rules[i].limit, limits[i]);
    weir_limitador_config_drop(c);
}

/* limitador-server/examples/limits.yaml has these limits. */
static void test_example(void **unused)
{
    const char *const limits[] = {"fixed-window 1000000/60s from-first",
                                  "fixed-window 5/60s from-first"};
    (void)unused;
    check_rules("---\n"
                "- namespace: test_namespace\n"
                "  max_value: 1000000\n"
                "  seconds: 60\n"
                "  conditions:\n"
                "  variables:\n"
                "- namespace: test_namespace\n"
                "  max_value: 5\n"
                "  seconds: 60\n"
                "  conditions:\n"
                "    - \"descriptors[0]['req.method'] == 'POST'\"\n"
                "  variables:\n"
                "    - descriptors[0]['user_id']\n",
                limits, 2);
}

static void see(void *ctx, const weir_limitador_view *view)
{
    int *seen = ctx;
    const weir_limitador_limit *l = &view->limit;
    assert_string_equal(l->id, "i");
    assert_string_equal(l->name_space, "n s");
    assert_string_equal(l->name, "7");
    assert_int_equal(l->max_value, 3);
    assert_int_equal(l->seconds, 2);
    assert_int_equal(l->conditions_len, 2);
    assert_string_equal(l->conditions[0], "descriptors[0].a == 'a'");
    assert_string_equal(l->conditions[1], "true");
    assert_int_equal(l->variables_len, 0);
    (*seen)++;
}

static void test_all_keys(void **unused)
{
    int seen = 0;
    (void)unused;
    weir_limitador_config *c =
        parse("[{id: i, namespace: 'n s', max_value: 3, seconds: 2, name: 7, conditions: [true, "
              "\"descriptors[0].a == 'a'\", true], variables: null}]",
              true,
              "l.yaml:1:76: warning: [0].conditions[0]: this has no effect, because it is always "
              "true\n"
              "l.yaml:1:109: warning: [0].conditions[2]: this has no effect, because the list has "
              "it before\n");
    weir_limitador_config_limits(c, (weir_slice){"n s", 3}, see, &seen);
    weir_limitador_config_limits(c, (weir_slice){"n", 1}, see, &seen);
    assert_int_equal(seen, 1);
    weir_limitador_config_drop(c);
}

static void see_nulls(void *ctx, const weir_limitador_view *view)
{
    const weir_limitador_limit *l = &view->limit;
    assert_true(!l->id && !l->name && l->conditions_len == 0 && l->variables_len == 0);
    *(uint64_t *)ctx = l->max_value;
}

static void test_nulls_and_large_numbers(void **unused)
{
    uint64_t max = 0;
    (void)unused;
    weir_limitador_config *c =
        parse("- {id: null, name: ~, namespace: a, seconds: 1, conditions: ~, variables: null,\n"
              "   max_value: 18446744073709551615}",
              true, "");
    weir_limitador_config_limits(c, (weir_slice){"a", 1}, see_nulls, &max);
    assert_true(max == UINT64_MAX);
    weir_limitador_config_drop(c);
}

/* A file may begin with a byte order mark, or consist of it. */
static void test_byte_order_marks(void **unused)
{
    const char *const limits[] = {"fixed-window 1/60s from-first"};
    (void)unused;
    check_rules("\xEF\xBB\xBF", NULL, 0);
    check_rules("\xEF\xBB\xBF- {namespace: a, max_value: 1, seconds: 60}", limits, 1);
    assert_null(parse("\xEF\xBB\xBF- 7", false,
                      "l.yaml:1:3: error: [0]: expected a limit: a map with namespace, max_value, "
                      "seconds\n"));
}

static void test_many_limits(void **unused)
{
    static char yaml[(WEIR_LIMITADOR_LIMITS_MAX + 1) * 64];
    static const char entry[] = "{namespace: a, max_value: 0, seconds: %zu},\n";
    size_t len = 1;
    (void)unused;
    yaml[0] = '[';
    for (size_t i = 0; i < WEIR_LIMITADOR_LIMITS_MAX; i++)
        len += (size_t)snprintf(yaml + len, sizeof yaml - len, entry, i);
    snprintf(yaml + len, sizeof yaml - len, "]");
    weir_limitador_config_drop(parse(yaml, true, ""));
    snprintf(yaml + len, sizeof yaml - len, "7]");
    assert_null(parse(yaml, false, "l.yaml:1:1: error: 8193 limits, expected at most 8192\n"));
}

static bool parse_without_memory(uint64_t n, bool later)
{
    static const char yaml[] =
        "- {namespace: a, max_value: 1, seconds: 1, variables: [\"descriptors[0].x\"]}";
    output o = {{0}};
    const config_sink sink = {report, &o};
    weir_arena arena = {0};
    config_errors errors = {.arena = &arena, .file = "weir.yaml"};
    limitador_settings to = {.file = NULL};
    config_reader r = {.arena = &arena, .errors = &errors, .files = true};
    memory_fail(n, later);
    limits_file_parse(&r, &to, "l.yaml", yaml, strlen(yaml));
    bool failed = memory_stop();
    assert_true(arena.failed || to.limits);
    assert_true(failed || !arena.failed);
    config_errors_report(&errors, &sink);
    assert_string_equal(o.text, "");
    weir_limitador_config_drop(to.limits);
    weir_arena_free(&arena);
    return failed;
}

static void test_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(parse_without_memory);
}

static void test_anchors(void **unused)
{
    const char *const limits[] = {"fixed-window 1/60s from-first", "fixed-window 1/5s from-first"};
    (void)unused;
    check_rules("- &a {namespace: a, max_value: 1, seconds: 60}\n"
                "- {<<: *a, seconds: 5}\n",
                limits, 2);
}

static void test_no_limits(void **unused)
{
    (void)unused;
    check_rules("", NULL, 0);
    check_rules("# nothing\n", NULL, 0);
    check_rules("[]", NULL, 0);
}

static void test_errors(void **unused)
{
    static const struct {
        const char *yaml, *problems;
    } scenes[] = {
        {"a: 1", "l.yaml:1:1: error: expected a list of limits: \"- namespace: ...\"\n"},
        {"- 7", "l.yaml:1:3: error: [0]: expected a limit: a map with namespace, max_value, "
                "seconds\n"},
        {"- {max_value: 1}", "l.yaml:1:3: error: [0]: missing key namespace\n"
                             "l.yaml:1:3: error: [0]: missing key seconds\n"},
        {"- {namespace: a, max_value: -1, seconds: 1.5}",
         "l.yaml:1:29: error: [0].max_value: expected a whole number from 0 to "
         "18446744073709551615, found \"-1\"\n"
         "l.yaml:1:42: error: [0].seconds: expected a whole number from 0 to 1152921504, found "
         "\"1.5\"\n"},
        {"- {namespace: [a], max_value: [], seconds: '1', conditions: a, variables: [[]]}",
         "l.yaml:1:15: error: [0].namespace: expected a string, found a list\n"
         "l.yaml:1:31: error: [0].max_value: expected a whole number from 0 to "
         "18446744073709551615, found a map or a "
         "list\n"
         "l.yaml:1:44: error: [0].seconds: expected a whole number from 0 to 1152921504, found "
         "\"1\"\n"
         "l.yaml:1:61: error: [0].conditions: expected a list of CEL expressions, such as "
         "[\"descriptors[0].user\"]\n"
         "l.yaml:1:76: error: [0].variables[0]: expected a CEL expression\n"},
        {"- {namespace: ~, max_value: 1, seconds: 1}",
         "l.yaml:1:3: error: [0]: missing key namespace\n"},
        {"- {namespace: a, max_value: 18446744073709551616, seconds: 1}",
         "l.yaml:1:29: error: [0].max_value: expected a whole number from 0 to "
         "18446744073709551615, found "
         "\"18446744073709551616\"\n"},
        {"- {<<: *x, namespace: a, max_value: 1, seconds: 1}\n"
         "- &b [*b]\n",
         "l.yaml:1:8: error: [0].\"<<\": expected an anchor (&) with this name before the alias, "
         "found none; quote the value if it begins with '*'\n"
         "l.yaml:2:3: error: [1]: expected a limit: a map with namespace, max_value, seconds\n"
         "l.yaml:2:7: error: [1][0]: the alias is inside the value of its own anchor, expected "
         "the alias of an earlier value\n"},
        {"- namespace: a\n"
         "  name: *\n",
         "l.yaml:2:10: error: invalid YAML: while scanning an alias: did not find "
         "expected alphabetic or numeric character; quote the value if it begins with '*' or "
         "'&'\n"},
        {"- namespace: a\n"
         "  max_value: 1\n"
         "  seconds: 1\n"
         "  conditions:\n"
         "    - |-\n"
         "      $\n",
         "l.yaml:5:7: error: [0].conditions[0]: column 1 of the expression: expected a value, "
         "found '$'\n"},
        {"- {namespace: a, max_value: 1, seconds: 1152921505}",
         "l.yaml:1:41: error: [0].seconds: expected at most 1152921504, found 1152921505\n"},
        {"- namespace: a\n"
         "  max_value: 1\n"
         "  seconds: 1\n"
         "  conditions: [descriptors, '1 == 2 ==']\n"
         "  variables:\n"
         "    - \"x\\x41.\"\n",
         "l.yaml:4:39: error: [0].conditions[1]: expected a value, found the end of the "
         "expression\n"
         "l.yaml:6:7: error: [0].variables[0]: column 4 of the expression: expected the name of a "
         "field, found the end of the expression\n"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        assert_null(parse(scenes[i].yaml, false, scenes[i].problems));
    assert_null(parse("- {namespace: \xFF}", false,
                      "l.yaml:1:15: error: found byte 0xFF, expected UTF-8 text\n"));
}

static void count_lines(void *ctx, const config_problem *p)
{
    *(int *)ctx += p->source != NULL;
}

/* How many lines of a file its errors show. */
static int lines_shown(const char *yaml)
{
    int n = 0;
    const config_sink sink = {count_lines, &n};
    weir_arena arena = {0};
    config_errors errors = {.arena = &arena, .file = "weir.yaml"};
    limitador_settings to = {.file = NULL};
    config_reader r = {.arena = &arena, .errors = &errors, .files = true};
    limits_file_parse(&r, &to, "l.yaml", yaml, strlen(yaml));
    assert_true(config_errors_in(&errors) > 0);
    config_errors_report(&errors, &sink);
    weir_arena_free(&arena);
    return n;
}

static void test_other_files(void **unused)
{
    (void)unused;
    assert_int_equal(lines_shown("- {}\n"), 3);
    assert_int_equal(lines_shown("user: s3cret\n"), 0);
    assert_int_equal(lines_shown("user: [s3cret\n"), 0);
}

static void test_warnings(void **unused)
{
    (void)unused;
    weir_limitador_config_drop(parse(
        "- namespace: a\n  max_value: 1\n  seconds: 0\n  id: i\n  conditions:\n"
        "  - limit.id == 'i'\n  - limit.name == 'i'\n  - '1'\n  - descriptors[0].a == 'b'\n"
        "  - descriptors[0].a == 'b'\n  variables: [\"'x'\", \"descriptors[0].a\", "
        "\"descriptors[0].a\"]\n",
        true,
        "l.yaml:3:12: warning: [0].seconds: with 0 seconds nothing is counted: the limit denies "
        "only single requests above max_value\n"
        "l.yaml:6:5: warning: [0].conditions[0]: this has no effect, because it is always true\n"
        "l.yaml:7:5: warning: [0].conditions[1]: the limit never applies, because this is always "
        "false\n"
        "l.yaml:8:5: warning: [0].conditions[2]: each request gets an error, because this is "
        "neither true nor false\n"
        "l.yaml:10:5: warning: [0].conditions[4]: this has no effect, because the list has it "
        "before\n"
        "l.yaml:11:15: warning: [0].variables[0]: this has no effect, because it has the same "
        "value for all requests\n"
        "l.yaml:11:42: warning: [0].variables[2]: this has no effect, because the list has it "
        "before\n"));
    weir_limitador_config_drop(parse(
        "- {namespace: a, max_value: 1, seconds: 1, name: n, conditions: [limit.name == 'n']}\n",
        true,
        "l.yaml:1:66: warning: [0].conditions[0]: this has no effect, because it is always "
        "true\n"));
    weir_limitador_config_drop(
        parse("[]\n", true, "l.yaml:1:1: warning: there is no limit: every request is allowed\n"));
    weir_limitador_config_drop(parse(
        "- {namespace: a, seconds: 1, policy: x}\n"
        "- {namespace: a, max_value: 1, seconds: 1, variables: [user_id]}\n"
        "- {namespace: a, max_value: 2, seconds: 1}\n",
        true,
        "l.yaml:1:3: warning: [0]: max_value is missing, so it is 0, and every request is denied\n"
        "l.yaml:1:38: warning: [0].policy: the key is ignored, expected id, namespace, max_value, "
        "seconds, name, conditions or variables\n"
        "l.yaml:2:56: warning: [1].variables[0]: the limit never applies, because requests have no "
        "'user_id'; write descriptors[0]['user_id'] for an entry of the first descriptor\n"
        "l.yaml:3:3: warning: [2]: the limit is ignored: an earlier limit has the same namespace, "
        "seconds, conditions and variables\n"));
}

/* ---- weir.yaml ------------------------------------------------------------------------------- */

static char directory[] = "/tmp/weir-limits-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void remove_file(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

static weir_config *load(const char *yaml, weir_status expected, const char *problems)
{
    output o = {{0}};
    char path[64];
    weir_config *c = NULL;
    const config_sink sink = {report, &o};
    write_file("weir.yaml", yaml);
    snprintf(path, sizeof path, "%s/weir.yaml", directory);
    assert_int_equal(config_load(path, true, NULL, &sink, &c), expected);
    if (!strstr(o.text, problems))
        fail_msg("expected %s, found %s", problems, o.text);
    assert_int_equal(o.text[0] == '\0', problems[0] == '\0');
    return c;
}

static void see_change(void *ctx, const char *key)
{
    *(const char **)ctx = key;
}

/* Another file takes effect at once, the first one at the next start. */
static void check_changes(const weir_config *with)
{
    const char *changed = NULL;
    weir_config *without = config_default(),
                *other = load("limitador: {limits: m.yaml}", WEIR_OK, "");
    config_each_change(with, other, see_change, &changed);
    assert_null(changed);
    config_each_change(without, with, see_change, &changed);
    assert_string_equal(changed, "limitador");
    config_free(without);
    config_free(other);
}

static void test_section(void **unused)
{
    size_t n;
    (void)unused;
    assert_non_null(mkdtemp(directory));
    write_file("l.yaml", "[{namespace: a, name: b, max_value: 1, seconds: 1}]");
    weir_config *c = load("limitador: {limits: l.yaml, headers: draft-03}", WEIR_OK, "");
    assert_true(limitador_settings_of(c)->options.headers);
    assert_string_equal(weir_limitador_config_rules(limitador_settings_of(c)->limits, &n)->name,
                        "a:b");
    assert_int_equal(n, 1);
    write_file("m.yaml", "[{namespace: c, max_value: 1, seconds: 1}]");
    check_changes(c);
    config_free(c);
    c = load("redis: {url: redis://127.0.0.1}\nengine: redis\nlimitador: {limits: l.yaml, "
             "on_error: open}",
             WEIR_OK, "");
    assert_int_equal(weir_limitador_config_rules(limitador_settings_of(c)->limits, &n)->engine,
                     WEIR_ENGINE_REDIS);
    assert_int_equal(weir_limitador_config_rules(limitador_settings_of(c)->limits, &n)->on_error,
                     WEIR_ON_ERROR_OPEN);
    config_free(c);
    load("limitador: {headers: none}", WEIR_E_SYNTAX,
         "limitador: missing key limits, expected the path of a limits file\n");
    load("limitador: {limits: l.yaml, on_error: open}", WEIR_E_SYNTAX,
         "on_error requires engine: redis or engine: hybrid\n");
    load("limitador: {limits: none.yaml}", WEIR_E_IO, "/none.yaml: No such file or directory\n");
    load("policies: {'a:b': gcra 1/s}\nlimitador: {limits: l.yaml}", WEIR_E_SYNTAX,
         "limitador.limits: a limit and a policy have the name 'a:b'; rename one\n");
    write_file("l.yaml", "[{namespace: a}]");
    load("limitador: {limits: l.yaml}", WEIR_E_SYNTAX,
         "/l.yaml:1:2: error: [0]: missing key seconds\n");
    remove_file("l.yaml");
    remove_file("m.yaml");
    remove_file("weir.yaml");
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_no_limits),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_nulls_and_large_numbers),
        cmocka_unit_test(test_byte_order_marks),
        cmocka_unit_test(test_many_limits),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_section),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
