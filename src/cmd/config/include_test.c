/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Variables, included files, and the whole configuration as weir check --print shows it. */

#include "cmd/config/kit_test.h"
#include "cmd/kit/commands.h"

#include <sys/stat.h>

/* ---- variables ------------------------------------------------------------------------------- */

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* The password of a configuration; for free(). */
static char *password_of(const char *value)
{
    char yaml[200];
    snprintf(yaml, sizeof yaml, "password: %s\n", value);
    weir_config *c = valid(yaml);
    char *password = strdup(c->password);
    config_free(c);
    return password;
}

static void variables(void **unused)
{
    (void)unused;
    static const struct {
        const char *value, *password;
    } cases[] = {
        {"${WEIR_A}", "one"},
        {"x${WEIR_A}y${WEIR_A}z", "xoneyonez"},
        {"\"${WEIR_A}\"", "one"},
        {"'${WEIR_A}'", "${WEIR_A}"},
        {"|-\n  ${WEIR_A}", "one"},
        {"${WEIR_A:-two}", "one"},
        {"${WEIR_UNSET:-two}", "two"},
        {"${WEIR_EMPTY:-two}", "two"},
        {"${WEIR_UNSET:-}z", "z"},
        {"${WEIR_UNSET:-a:-b c}", "a:-b c"},
        {"${WEIR_Q}", "# {a}: [\" '${WEIR_A}"}, /* no YAML, and no variables in variables */
        {"$${WEIR_A}", "$${WEIR_A}"},
        {"$$${WEIR_A}", "$$one"},
        {"${weir_a}", "${weir_a}"},
        {"${9}${}${WEIR_A", "${9}${}${WEIR_A"},
        {"${WEIR_A-x}${WEIR_A:x}", "${WEIR_A-x}${WEIR_A:x}"},
        {"$WEIR_A", "$WEIR_A"},
    };
    set("WEIR_A", "one");
    set("WEIR_EMPTY", "");
    set("WEIR_UNSET", NULL);
    set("WEIR_Q", "# {a}: [\" '${WEIR_A}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *password = password_of(cases[i].value);
        assert_string_equal(password, cases[i].password);
        free(password);
    }
    free(password_of("$WEIR_A"));
    assert_non_null(strstr(errors, "variables are written as in ${NAME}"));
}

static void variables_of_other_types(void **unused)
{
    (void)unused;
    set("WEIR_A", "7");
    weir_config *c = valid("threads: ${WEIR_A}\nlimits:\n  connections: ${WEIR_A}${WEIR_A}\n"
                           "policies:\n  api: {limit: \"gcra ${WEIR_A}/s\", key: \"${client}\"}\n");
    assert_int_equal(c->threads, 7);
    assert_int_equal(c->connections, 77);
    assert_string_equal(c->rules[0].key, "${client}");
    config_free(c);
    invalid("limits:\n  connections: ${WEIR_UNSET:-}\n", "found nothing");
}

static void bad_variables(void **unused)
{
    (void)unused;
    char *longest = repeated("password: ${", "A", 255, ":-x}"), *longer;
    config_free(valid(longest));
    free(longest);
    longer = repeated("password: ${", "A", 256, ":-x}");
    invalid(longer, "t.yaml:1:11: error: password: the name of a variable has 256 bytes, expected "
                    "at most 255\n");
    free(longer);
    set("WEIR_A", NULL);
    invalid("threads: 1\npassword: a${WEIR_A}\n",
            "t.yaml:2:11: error: password: the environment variable WEIR_A is not set; expected a "
            "value, or a default, as in ${WEIR_A:-TEXT}\n");
    set("WEIR_A", "");
    invalid("listen:\n  resp: [\"${WEIR_A}\"]",
            "t.yaml:2:10: error: listen.resp[0]: the environment variable WEIR_A is empty;");
    set("WEIR_A", "a\x01");
    invalid("password: ${WEIR_A:-x}", "is not UTF-8 text without control characters");
    set("WEIR_A", "\xff");
    invalid("password: ${WEIR_A}", "is not UTF-8 text without control characters");
    set("WEIR_A", "x");
    invalid("policies: {\"${WEIR_A}\": gcra 1/s}",
            "t.yaml:1:12: error: policies.\"${WEIR_A}\": variables are replaced in values only, "
            "found ${WEIR_A} in a key\n");
    invalid("threads: ${WEIR_A}", "t.yaml:1:10: error: threads: expected a number");
}

/* A value of 1 MiB sixteen times is 16 MiB; with anything more, the values are too long. */
static void long_variables(void **unused)
{
    (void)unused;
    size_t len = (1 << 20) - 1;
    char *value = malloc(len + 1);
    assert_non_null(value);
    memset(value, 'x', len);
    value[len] = 0;
    set("WEIR_A", value);
    char *most = repeated("routes:\n", "- {name: \" ${WEIR_A}\"}\n", 16, "");
    char *more =
        repeated("routes:\n", "- {name: \" ${WEIR_A}\"}\n", 16, "- {name: \"${WEIR_A}\"}\n");
    weir_config *c = NULL;
    assert_int_equal(parse(most, "t.yaml", false, &c), WEIR_E_SYNTAX); /* such names are too long */
    assert_null(strstr(errors, "larger than 16 MiB"));
    assert_int_equal(parse(more, "t.yaml", false, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(errors, "t.yaml:18:10: error: routes[16].name: with their variables, "
                                   "the values are larger than 16 MiB\n"));
    free(most);
    free(more);
    free(value);
    set("WEIR_A", NULL);
}

/* ---- included files -------------------------------------------------------------------------- */

/* Reads weir.yaml of the test's directory, with the files that it includes. */
static weir_config *valid_files(const char *yaml)
{
    weir_config *c = NULL;
    if (parse(yaml, "weir.yaml", true, &c) != WEIR_OK)
        fail_msg("%s\nis invalid: %s", yaml, errors);
    return c;
}

static void invalid_files(const char *yaml, const char *expected)
{
    weir_config *c = NULL;
    assert_int_equal(parse(yaml, "weir.yaml", true, &c), WEIR_E_SYNTAX);
    assert_string_equal(errors, expected);
}

static void included(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir("conf.d", 0700), 0);
    write_file("conf.d/b.yaml", "policies: {b: gcra 2/s}\nroutes: [{path: /b, policy: b}]\n");
    write_file("conf.d/a.yaml", "\xEF\xBB\xBFpolicies: {a: gcra 1/s}\nlimits: {write: 7s}\n");
    write_file("conf.d/none", "policies: {none: gcra 1/s}\n");
    write_file("one.yaml", "routes:\n- {path: /one, policy: a}\nthreads: 3\n");
    write_file("empty.yaml", "# nothing\n");
    weir_config *c = valid_files("include: [conf.d/*.yaml, one.yaml, empty.yaml, x*]\n"
                                 "policies: {api: gcra 9/s}\nlimits: {idle: 9s}\n"
                                 "routes: [{path: /, policy: api}]\n");
    assert_int_equal(c->rules_len, 3);
    assert_string_equal(c->rules[0].name, "api");
    assert_string_equal(c->rules[1].name, "a");
    assert_string_equal(c->rules[2].name, "b");
    assert_int_equal(c->routes_len, 3);
    assert_string_equal(c->routes[0].path, "/");
    assert_string_equal(c->routes[1].path, "/b");
    assert_string_equal(c->routes[2].path, "/one");
    assert_int_equal(c->idle_ns, 9000000000);
    assert_int_equal(c->write_ns, 7000000000);
    assert_int_equal(c->threads, 3);
    assert_string_equal(c->include[0], "conf.d");
    assert_string_equal(c->include[1], "one.yaml");
    assert_string_equal(c->include[2], "empty.yaml");
    assert_string_equal(c->include[3], ".");
    config_free(c);
    c = valid_files("include: one.yaml\npolicies: {a: gcra 1/s}\n");
    assert_int_equal(c->threads, 3);
    assert_null(c->include[1]);
    config_free(c);
    c = valid("include: missing.yaml\nthreads: 2\n"); /* no file is opened */
    config_free(c);
}

/* The directory of the configuration has characters of patterns. */
static void included_elsewhere(void **unused)
{
    (void)unused;
    weir_config *c = NULL;
    char path[300];
    const char *yaml = "include: [\"*.yaml\", /none/*]\n";
    assert_int_equal(mkdir("a[*]?\\b", 0700), 0);
    write_file("a[*]?\\b/t.yaml", "threads: 5\n");
    snprintf(path, sizeof path, "%s/a[*]?\\b/weir", test_dir);
    assert_int_equal(parse(yaml, path, true, &c), WEIR_OK);
    assert_int_equal(c->threads, 5);
    assert_int_equal(strncmp(c->include[0], path, strlen(path) - 5), 0);
    assert_int_equal(strlen(c->include[0]), strlen(path) - 5);
    assert_string_equal(c->include[1], "/none");
    config_free(c);
}

static void bad_includes(void **unused)
{
    (void)unused;
    write_file("two.yaml", "policies:\n  api: gcra 1/s\n  x: gcra 1/q\nthreads: 4\nlimits: 5\n");
    invalid_files("threads: 3\ninclude: [two.yaml]\npolicies: {api: gcra 9/s}\nlimits: {idle: 0}\n",
                  "two.yaml:2:3: error: policies.api: duplicate key, first set on line 3 of "
                  "weir.yaml\n    api: gcra 1/s\n    ^\n"
                  "two.yaml:3:13: error: policies.x: unknown unit 'q', expected one of ns us ms s "
                  "m h d w\n    x: gcra 1/q\n              ^\n"
                  "two.yaml:4:1: error: threads: duplicate key, first set on line 1 of weir.yaml\n"
                  "  threads: 4\n  ^\n"
                  "two.yaml:5:1: error: limits: duplicate key, first set on line 4 of weir.yaml\n"
                  "  limits: 5\n  ^\n");
    invalid_files("include: [none.yaml, {}, '']\n",
                  "weir.yaml:1:11: error: include[0]: cannot read none.yaml: No such file or "
                  "directory\n  include: [none.yaml, {}, '']\n            ^\n"
                  "weir.yaml:1:22: error: include[1]: expected a file, a pattern such as "
                  "conf.d/*.yaml, or a list of them, found a map\n"
                  "  include: [none.yaml, {}, '']\n                       ^\n"
                  "weir.yaml:1:26: error: include[2]: expected a file, a pattern such as "
                  "conf.d/*.yaml, or a list of them, found nothing\n"
                  "  include: [none.yaml, {}, '']\n                           ^\n");
    write_file("two.yaml", "include: two.yaml\n");
    invalid_files("include: two.yaml\n",
                  "two.yaml:1:1: error: include: an included file cannot include others\n"
                  "  include: two.yaml\n  ^\n");
    write_file("two.yaml", "[threads]\n");
    invalid_files("include: two.yaml\n",
                  "two.yaml:1:1: error: expected a map with keys of weir.yaml\n");
    write_file("two.yaml", "");
    invalid("include: [a, b, c, d, e]", "include[4]: expected at most 4 files and patterns");
    config_free(valid("include: [a, b, c, d]\nthreads: 1"));
}

/* Neither a line nor a key is shown of a file that may be any file of the machine. */
static void other_files(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {
        {"root:$6$s3cret:19000:::\nbin:*:19000\n", "two.yaml:2:12: error: invalid YAML: "},
        {"redis: {url: a, password: [s3cret\n", "two.yaml:1:34: error: invalid YAML: "},
        {"s3cret\n", "two.yaml:1:1: error: expected a map with keys of weir.yaml\n"},
        {"threads: 2\ns3cret: ${WEIR_UNSET}\nlimits: s3cret\nsecr3t: 1\n",
         "two.yaml:2:1: error: unknown key, expected only keys of weir.yaml, such as policies; no "
         "line of this file is shown\n"},
    };
    set("WEIR_UNSET", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_config *c = NULL;
        write_file("two.yaml", cases[i][0]);
        assert_int_equal(parse("include: two.yaml\n", "weir.yaml", true, &c), WEIR_E_SYNTAX);
        if (!strstr(errors, cases[i][1]))
            fail_msg("found %s\nexpected %s", errors, cases[i][1]);
        assert_null(strstr(errors, "cret"));
        assert_null(strstr(errors, "\n  "));
    }
}

/* A key without a value is not a second value. */
static void empty_keys(void **unused)
{
    (void)unused;
    write_file("two.yaml", "policies: {a: gcra 1/s}\nthreads:\nroutes:\n");
    weir_config *c = valid_files("policies:\n  # none\nroutes:\ninclude: two.yaml\nthreads: 3\n");
    assert_int_equal(c->rules_len, 1);
    assert_int_equal(c->threads, 3);
    config_free(c);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* What is printed of a configuration, without the comments; for free(). */
static char *printed(const weir_config *c, bool comments)
{
    char *text = NULL, *line;
    size_t len = 0, kept = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    config_print(c, out);
    fclose(out);
    char *copy = strdup(text), *rest = copy;
    assert_non_null(copy);
    while (!comments && (line = strsep(&rest, "\n"))) {
        if (line[strspn(line, " ")] != '#' && line[0])
            kept += (size_t)sprintf(text + kept, "%s\n", line);
        text[kept] = 0;
    }
    free(copy);
    return text;
}

static void printed_whole(void **unused)
{
    (void)unused;
    set("WEIR_A", "hunter2");
    write_file("two.yaml",
               "policies:\n  password: {limit: gcra 1/s, overrides: {\"a*\": gcra 2/s}}\n"
               "redis:\n  url: redis://u:pw@127.0.0.1:6379/1\n  password_file: secret\n"
               "limits: {write: 7s}\n");
    write_file("secret", "x\n");
    weir_config *c = valid_files("include: two.yaml\npassword: ${WEIR_A}\nlimits: {idle: 5s}\n"
                                 "listen: {resp: [6390, {address: \"[::1]:1\", tls: off}]}\n"
                                 "denied: {body: \"a\\n\\\"b\\\\\"}\nhttp: {}\nlog:\n"
                                 "routes: []\n");
    char *text = printed(c, false);
    assert_string_equal(text, "denied:\n"
                              "  body: \"a\\x0A\\\"b\\\\\"\n"
                              "listen:\n"
                              "  resp:\n"
                              "    - 6390\n"
                              "    -\n"
                              "      address: \"[::1]:1\"\n"
                              "      tls: off\n"
                              "password: \"***\"\n"
                              "limits:\n"
                              "  idle: 5s\n"
                              "  write: 7s\n"
                              "http:\n"
                              "redis:\n"
                              "  url: \"redis://***@127.0.0.1:6379/1\"\n"
                              "  password_file: secret\n"
                              "policies:\n"
                              "  password:\n"
                              "    limit: \"gcra 1/s\"\n"
                              "    overrides:\n"
                              "      \"a*\": \"gcra 2/s\"\n"
                              "routes: []\n");
    free(text);
    config_free(c);
}

/* The output is a configuration again, with the same output. */
static void printed_again(void **unused)
{
    (void)unused;
    static const char *const yaml[] = {"{}", "threads: 2",
                                       "memory: {size: 8m, file: /x}\npolicies: {a: gcra 1/s}\n"};
    for (size_t i = 0; i < sizeof yaml / sizeof yaml[0]; i++) {
        weir_config *c = valid(yaml[i]);
        char *text = printed(c, true);
        weir_config *again = valid(text);
        char *same = printed(again, true);
        assert_string_equal(text, same);
        assert_non_null(strstr(text, "# log:\n  # level: info\n"));
        assert_null(strstr(text, "none"));
        free(text);
        free(same);
        config_free(c);
        config_free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables),     cmocka_unit_test(variables_of_other_types),
        cmocka_unit_test(bad_variables), cmocka_unit_test(long_variables),
        cmocka_unit_test(included),      cmocka_unit_test(included_elsewhere),
        cmocka_unit_test(bad_includes),  cmocka_unit_test(other_files),
        cmocka_unit_test(empty_keys),    cmocka_unit_test(printed_whole),
        cmocka_unit_test(printed_again),
    };
    weir_use_guests();
    int failed = cmocka_run_group_tests(tests, make_dir, remove_dir);
    free(errors);
    return failed;
}
