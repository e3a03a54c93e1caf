/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CEL expressions: results, errors with columns, and precedence. The expected results are those of
 * limitador on the same expressions, except of "!!" and "--", which its parser takes for "!" and
 * "-". */

#include "limitador/cel.h"

#include "rls/entry_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const weir_rls_entry entries[] = {
    ENTRY("req.method", "GET"), ENTRY("user", "old"), ENTRY("user", "alice"), ENTRY("n", "7"),
    ENTRY("none", ""),
};
static const weir_rls_entry others[] = {ENTRY("path", "/a/b")};
static const weir_rls_descriptor descriptors[] = {{.entries = entries, .entries_len = 5},
                                                  {.entries = others, .entries_len = 1}};

static struct {
    char before[32], scratch[64], after[32];
} memory;

/* What follows an expression in memory does not matter. */
static const char *const rests[] = {"", "a", "'", "\"", " ", "1", ")", "\x82\xAC", "//", ".5"};
static const char *rest = "";

static weir_status parse(const char *text, weir_cel **ret, weir_cel_error *ret_error)
{
    static char buf[WEIR_CEL_TEXT_MAX + 16];
    snprintf(buf, sizeof buf, "%s%s", text, rest);
    return weir_cel_parse(ret, (weir_slice){buf, strlen(text)}, ret_error);
}

static weir_cel *parsed(const char *text)
{
    weir_cel *c = NULL;
    weir_cel_error error;
    weir_status st = parse(text, &c, &error);
    if (st != WEIR_OK)
        fail_msg("%s: column %u: %s", text, error.column, error.text);
    return c;
}

static weir_cel_input input_of(void)
{
    return (weir_cel_input){.descriptors = descriptors,
                            .descriptors_len = 2,
                            .limit_name = {"gold", 4},
                            .scratch = memory.scratch,
                            .scratch_len = sizeof memory.scratch};
}

/* The value as text; "!" for an error, "?" for an absent key. */
static const char *value_of(const char *text)
{
    static char buf[128];
    weir_cel *c = parsed(text);
    weir_cel_input in = input_of();
    weir_slice found = {"", 0};
    weir_cel_result r = weir_cel_text(c, &in, &found);
    snprintf(buf, sizeof buf, "%.*s", (int)found.len, found.at);
    assert_int_equal(found.len, strlen(buf));
    if (r != WEIR_CEL_OK)
        snprintf(buf, sizeof buf, "%s", r == WEIR_CEL_ABSENT ? "?" : "!");
    for (size_t i = 0; i < sizeof memory.before; i++)
        assert_true(memory.before[i] == 0 && memory.after[i] == 0);
    weir_cel_free(c);
    return buf;
}

typedef struct scene {
    const char *text, *value;
} scene;

static void check(const scene *s, size_t n)
{
    for (size_t i = 0; i < n * (sizeof rests / sizeof rests[0]); i++) {
        const scene *at = &s[i % n];
        rest = rests[i / n];
        if (strcmp(value_of(at->text), at->value) != 0)
            fail_msg("%s: expected %s, found %s", at->text, at->value, value_of(at->text));
    }
    rest = "";
}

#define CHECK(scenes) check(scenes, sizeof(scenes) / sizeof(scenes)[0])

static void test_values(void **unused)
{
    static const scene scenes[] = {
        {"1", "1"},
        {" 0x1F // a comment", "31"},
        {"0x10", "16"},
        {"0x7fffffffffffffff", "9223372036854775807"},
        {"1 // a comment\n + // another one\n\t\r\f2//", "3"},
        {"-5", "-5"},
        {"--5", "5"},
        {"true", "true"},
        {"null", "null"},
        {"'a'", "a"},
        {"\"it's\"", "it's"},
        {"'\\x41\\u00e9\\n'", "A\xC3\xA9\n"},
        {"'\\x7f\\x80'", "\x7F\xC2\x80"},
        {"'\\u07ff\\u0800\\U0000ffff\\U00010000'",
         "\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80"},
        {"'\\U0001f600\\U0010ffff'", "\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF"},
        {"'\\\\\\'\\\"\\`\\?\\a\\b\\f\\n\\r\\t\\v'", "\\'\"`?\a\b\f\n\r\t\v"},
        {"r'\\n'", "\\n"},
        {"R\"\\\"", "\\"},
        {"descriptors[0]['user']", "alice"},
        {"descriptors[0][\"req.method\"]", "GET"},
        {"descriptors[0].user", "alice"},
        {"descriptors[1].path", "/a/b"},
        {"descriptors[0].none", ""},
        {"limit.name", "gold"},
        {"limit.id", "null"},
        {"[1, 2, 'x',][2]", "x"},
    };
    (void)unused;
    CHECK(scenes);
}

static void test_failures(void **unused)
{
    static const scene scenes[] = {
        {"descriptors[0].nobody", "?"},
        {"descriptors[0]['nobody'] == 'x'", "?"},
        {"descriptors[0][1]", "?"},
        {"descriptors[0][null]", "!"},
        {"descriptors[2].user", "!"},
        {"descriptors[-1].user", "!"},
        {"descriptors.user", "?"},
        {"descriptors[0].user.first", "?"},
        {"limit.other", "?"},
        {"1 < 'a'", "!"},
        {"1 + 'a'", "!"},
        {"1 / 0", "!"},
        {"1 % 0", "!"},
        {"9223372036854775807 + 1", "!"},
        {"(-9223372036854775807 - 1) / -1", "!"},
        {"9223372036854775807 * 2", "!"},
        {"!1", "!"},
        {"-'a'", "!"},
        {"1 && true", "!"},
        {"true && 1", "!"},
        {"1 ? 2 : 3", "!"},
        {"int('x')", "!"},
        {"int('+-1')", "!"},
        {"int('+')", "!"},
        {"int('-')", "!"},
        {"int(true)", "!"},
        {"string(true)", "!"},
        {"size(1)", "!"},
        {"startsWith('a', 1)", "!"},
        {"endsWith(1, 'a')", "!"},
        {"contains(descriptors, [1])", "!"},
        {"1 - 'a'", "!"},
        {"'a' - 'b'", "!"},
        {"unknown", "!"},
        {"1 in 2", "!"},
        {"descriptors[0] in descriptors", "!"},
        {"[1] in descriptors", "!"},
        {"descriptors[0] in [descriptors[1]]", "!"},
        {"descriptors == descriptors", "!"},
        {"descriptors < descriptors", "!"},
        {"[1][-1]", "!"},
        {"[1]['a']", "!"},
        {"descriptors['a']", "!"},
        {"'abc'[0]", "?"},
        {"(1)[0]", "!"},
        {"(1)[0].user", "!"},
        {"1 in 'a'", "!"},
        {"[descriptors[0].nobody, 1][1]", "?"},
        {"descriptors[0].nobody == 'a' || true", "?"},
        {"[1, 2][2]", "!"},
    };
    static const scene without_text[] = {
        {"descriptors", "!"}, {"descriptors[0]", "!"}, {"[1]", "!"}};
    (void)unused;
    CHECK(scenes);
    CHECK(without_text);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) { /* whatever is done with it */
        char text[128];
        snprintf(text, sizeof text, "(%s) == 'x' || true", scenes[i].text);
        const scene s = {text, scenes[i].value};
        check(&s, 1);
    }
}

static void test_operators(void **unused)
{
    static const scene scenes[] = {
        {"1 + 2 * 3 - 4 / 2 % 3", "5"},
        {"(1 + 2) * 3", "9"},
        {"10 - 3 - 2", "5"},
        {"'a' + 'b' + string(12)", "ab12"},
        {"1 == 1 && 'a' != 'b'", "true"},
        {"1 == '1'", "false"},
        {"limit.id == null", "true"},
        {"'a' < 'ab' && 'b' > 'ab' && 2 >= 2 && 1 <= 2", "true"},
        {"2 < 1 || 'b' <= 'a' || 1 > 1 || 'a' >= 'b'", "false"},
        {"true || descriptors[0].nobody == 'a'", "true"},
        {"false && descriptors[0].nobody == 'a'", "false"},
        {"false || 'text'", "text"},
        {"!false == true", "true"},
        {"!!true", "true"},
        {"true ? 1 : descriptors[0].nobody", "1"},
        {"false ? 1 : true ? 2 : 3", "2"},
        {"descriptors[0].user in ['bob', 'alice']", "true"},
        {"descriptors[0].user in []", "false"},
        {"'a' + 'b' in ['ab'] && true", "true"},
        {"[1, 2 + 3][0] + size([4, 5 + 6])", "3"},
        {"'user' in descriptors[0] && !('nobody' in descriptors[0])", "true"},
        {"'name' in limit && !(1 in limit)", "true"},
        {"'lic' in descriptors[0].user", "true"},
        {"has(descriptors[0].user) && !has(descriptors[0].nobody)", "true"},
        {"has(limit.id)", "true"},
        {"2 in [1] == false", "true"},
        {"'a' in['a']", "true"},
        {"'a' < 'aB' && 'aB' > 'a'", "true"},
        {"'' < 'a' && 'a' > '' && '' <= '' && '' >= ''", "true"},
        {"'' < '' || 2 < 2 || 2 > 2 || 'a' < 'a' || 'a' > 'a'", "false"},
        {"'bob' in ['bob', 'alice']", "true"},
        {"1 in descriptors || 'a' in descriptors", "false"},
        {"1 < 2 && !(2 < 1) && 'a' < 'b' && 'a' < 'ab'", "true"},
        {"false < true && null == null", "true"},
        {"7 % 3 * 2 + -8 / 3", "0"},
        {"1 - 2 - 3 + 4", "0"},
        {"true || false && false", "true"},
    };
    (void)unused;
    CHECK(scenes);
}

static void test_functions(void **unused)
{
    static const scene scenes[] = {
        {"size(descriptors)", "2"},
        {"descriptors[0].size()", "4"},
        {"size('\xC3\xA9')", "2"},
        {"size([1, 2, 3])", "3"},
        {"size(limit)", "2"},
        {"descriptors[1].path.startsWith('/a/') && !descriptors[1].path.startsWith('/b')", "true"},
        {"descriptors[1].path.endsWith('/b') && !'b'.endsWith('/b')", "true"},
        {"descriptors[1].path.contains('a/') && !'a'.contains('b') && 'a'.contains('')", "true"},
        {"[1, 2].contains(2) && !1.contains(1)", "true"},
        {"descriptors[0].contains('user')", "true"},
        {"descriptors[0].contains(1) || descriptors[0].contains(true)", "false"},
        {"descriptors[0].contains(null)", "!"},
        {"int(descriptors[0].n) * 3", "21"},
        {"int('-9223372036854775808')", "-9223372036854775808"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"- 0x8000000000000000 + 1", "-9223372036854775807"},
        {"-9223372036854775808 == -9223372036854775807 - 1", "true"},
        {"--9223372036854775807 - -0", "9223372036854775807"},
        {"--9223372036854775808", "!"},
        {"-5 - -3", "-2"},
        {"int('+7') == int(7)", "true"},
        {"int('-5')", "-5"},
        {"'alice'.contains('ice') && 'a'.contains('a') && !'a'.contains('ab')", "true"},
        {"descriptors.contains('a')", "false"},
        {"'ab'.startsWith('ab') && 'ab'.endsWith('ab') && 'ab'.endsWith('')", "true"},
        {"'ab'.startsWith('b') || 'ab'.endsWith('a') || 'a'.startsWith('ab')", "false"},
        {"size(descriptors[1])", "1"},
        {"size('')", "0"},
        {"size([])", "0"},
    };
    (void)unused;
    CHECK(scenes);
}

static void test_texts_are_bounded(void **unused)
{
    (void)unused;
    assert_string_equal(value_of("size('123456789012345678901234567890' + "
                                 "'12345678901234567890123456789012')"),
                        "62");
    assert_string_equal(value_of("size('123456789012345678901234567890' + "
                                 "'123456789012345678901234567890123')"),
                        "!");
}

static void test_conditions(void **unused)
{
    bool found = false;
    weir_cel_input in = input_of();
    weir_cel *c = parsed("descriptors[0].user == 'alice'");
    (void)unused;
    assert_int_equal(weir_cel_test(c, &in, &found), WEIR_CEL_OK);
    assert_true(found);
    weir_cel_free(c);
    c = parsed("descriptors[0].user");
    assert_int_equal(weir_cel_test(c, &in, &found), WEIR_CEL_FAILED);
    weir_cel_free(c);
}

static void test_unknown_names(void **unused)
{
    static const struct {
        const char *text, *with, *without;
    } scenes[] = {
        {"descriptors[0].user == limit.name", NULL, "limit"},
        {"req.method == 'GET'", "req", "req"},
        {"user_id", "user_id", "user_id"},
        {"'x' in [1, other]", "other", "other"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        weir_cel *c = parsed(scenes[i].text);
        for (int with = 0; with < 2; with++) {
            const char *expected = with ? scenes[i].with : scenes[i].without;
            weir_slice found = weir_cel_unknown(c, with);
            assert_true(expected || found.len == 0);
            assert_int_equal(found.at != NULL, expected != NULL);
            if (expected) {
                assert_int_equal(found.len, strlen(expected));
                assert_memory_equal(found.at, expected, found.len);
            }
        }
        weir_cel_free(c);
    }
}

#define SIXTY "123456789_123456789_123456789_123456789_123456789_123456789_"

static void test_syntax_errors(void **unused)
{
    static const struct {
        const char *text;
        uint32_t column;
        const char *error;
    } scenes[] = {
        {"", 1, "expected a CEL expression of 1 to 4096 bytes"},
        {" ", 2, "expected a value, found the end of the expression"},
        {"1 +", 4, "expected a value, found the end of the expression"},
        {"1 1", 3, "expected an operator or the end of the expression, found '1'"},
        {"(1", 3, "expected ')', found the end of the expression"},
        {"[1, 2", 6, "expected ',' or ']', found the end of the expression"},
        {"descriptors[0", 14, "expected ']', found the end of the expression"},
        {"descriptors[0].", 16, "expected the name of a field, found the end of the expression"},
        {"true ? 1", 9, "expected ':', found the end of the expression"},
        {"'abc", 1, "the string has no closing '"},
        {"'a\\q'", 3, "unsupported escape, expected one such as \\n or \\u0041"},
        {"'\\x4'", 2, "expected 2 hexadecimal digits in the escape"},
        {"(true ? '\\", 10, "unsupported escape, expected one such as \\n or \\u0041"},
        {"'\\ud800'", 2, "the escape is not a character"},
        {"'''a'''", 1, "unsupported triple quotes, expected one quote"},
        {"b'a'", 1, "unsupported string prefix 'b'"},
        {"1.5", 1, "unsupported number, expected an int such as 10"},
        {"1u", 1, "unsupported number, expected an int such as 10"},
        {"9223372036854775808", 1,
         "the number is out of range, expected at most 9223372036854775807"},
        {"-9223372036854775809", 2,
         "the number is out of range, expected at least -9223372036854775808"},
        {"-(9223372036854775808)", 3,
         "the number is out of range, expected at most 9223372036854775807"},
        {"1 -9223372036854775808", 4,
         "the number is out of range, expected at most 9223372036854775807"},
        {"{'a': 1}", 1, "unsupported map, expected a value"},
        {"a = 1", 3, "expected an operator or the end of the expression, found '='"},
        {"'a'.matches('b')", 5,
         "unsupported function 'matches'; has, size, startsWith, endsWith, contains, int and "
         "string are supported"},
        {"size()", 1, "missing argument for size()"},
        {"size(1, 2)", 1, "too many arguments for size()"},
        {"has(1)", 1, "has() requires a field, such as has(descriptors[0].user)"},
        {"if == 1", 1, "expected a value, found the reserved word 'if'"},
        {"1 == \xE2\x82\xAC", 6, "expected a value, found '\xE2\x82\xAC'"},
        {"1 == \xE2", 6, "expected a value, found '\xE2'"},
        {"[1 2]", 4, "expected ',' or ']', found '2'"},
        {"[1, $]", 5, "expected a value, found '$'"},
        {"size(1 2)", 8, "expected ',' or ')', found '2'"},
        {"size($)", 6, "expected a value, found '$'"},
        {"startsWith('a', $", 17, "expected a value, found '$'"},
        {"has(", 5, "expected a value, found the end of the expression"},
        {"has($)", 5, "expected a value, found '$'"},
        {"has(a.b", 8, "expected ')', found the end of the expression"},
        {"0x", 3, "expected a hexadecimal digit, found the end of the expression"},
        {"0xg", 3, "expected a hexadecimal digit, found 'g'"},
        {"0x10000000000000000", 19, "expected an operator or the end of the expression, found '0'"},
        {"1.", 3, "expected the name of a field, found the end of the expression"},
        {"a.5", 3, "expected the name of a field, found '5'"},
        {"1.$", 3, "expected the name of a field, found '$'"},
        {"'a\n'", 1, "the string has no closing '"},
        {"('\\U4", 3, "expected 8 hexadecimal digits in the escape"},
        {"'\\u0000'", 2, "the escape is not a character"},
        {"'\\udfff'", 2, "the escape is not a character"},
        {"'\\U00110000'", 2, "the escape is not a character"},
        {"'\\u12", 2, "expected 4 hexadecimal digits in the escape"},
        {"true ? $ : 2", 8, "expected a value, found '$'"},
        {"!", 2, "expected a value, found the end of the expression"},
        {"f" SIXTY "abcd()", 1,
         "unsupported function 'f" SIXTY "abc'; has, size, startsWith, endsWith, contains, int and "
         "string are supported"},
        {"f" SIXTY "ab'x'", 1, "unsupported string prefix 'f" SIXTY "ab'"},
    };
    (void)unused;
    const size_t n = sizeof scenes / sizeof scenes[0];
    for (size_t i = 0; i < n * (sizeof rests / sizeof rests[0]); i++) {
        weir_cel *c = NULL;
        weir_cel_error error = {0};
        rest = rests[i / n];
        assert_int_equal(parse(scenes[i % n].text, &c, &error), WEIR_E_SYNTAX);
        assert_string_equal(error.text, scenes[i % n].error);
        assert_int_equal(error.column, scenes[i % n].column);
        assert_null(c);
    }
    rest = "";
}

/* Writes a chain of n operands, whose tree has the depth n, after a text and before another. */
static const char *chain(const char *before, size_t n, const char *after)
{
    static char text[WEIR_CEL_TEXT_MAX + 1];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", before);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s1", i ? "+" : "");
    snprintf(text + at, sizeof text - at, "%s", after);
    return text;
}

/* A chain of operators is deep, brackets are nested: both are bounded. */
static void test_depth(void **unused)
{
    static const struct {
        const char *before, *after;
        size_t most; /* operands */
        const char *value;
    } rows[] = {
        {"", "", 200, "200"},          {"1 + (", ")", 199, "200"},    {"(", ") + 1", 199, "200"},
        {"true ? 1 : ", "", 199, "1"}, {"false ? ", ": 1", 199, "1"}, {"[1, ", "][0]", 198, "1"},
        {"[", ", 1][0]", 198, "198"},  {"int(", ")", 199, "199"},
    };
    char brackets[WEIR_CEL_TEXT_MAX + 1];
    weir_cel *c = NULL;
    weir_cel_error error;
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(value_of(chain(rows[i].before, rows[i].most, rows[i].after)),
                            rows[i].value);
        assert_int_equal(parse(chain(rows[i].before, rows[i].most + 1, rows[i].after), &c, &error),
                         WEIR_E_SYNTAX);
        assert_string_equal(error.text, "the expression has more than 200 nested operations");
    }
    memset(brackets, '(', sizeof brackets);
    assert_int_equal(weir_cel_parse(&c, (weir_slice){brackets, WEIR_CEL_TEXT_MAX}, &error),
                     WEIR_E_SYNTAX);
    assert_string_equal(error.text, "the expression has more than 32 nested brackets");
    assert_int_equal(error.column, 34);
    assert_int_equal(weir_cel_parse(&c, (weir_slice){brackets, WEIR_CEL_TEXT_MAX + 1}, &error),
                     WEIR_E_SYNTAX);
    assert_string_equal(error.text, "the expression exceeds 4096 bytes");
    brackets[7] = '\0';
    assert_int_equal(weir_cel_parse(&c, (weir_slice){brackets, WEIR_CEL_TEXT_MAX}, &error),
                     WEIR_E_SYNTAX);
    assert_string_equal(error.text, "expected a CEL expression of 1 to 4096 bytes");
    memset(brackets, '(', 32);
    brackets[32] = '1';
    memset(brackets + 33, ')', 32);
    brackets[65] = '\0';
    assert_string_equal(value_of(brackets), "1");
    char row[40 * 4 + 1] = ""; /* brackets beside each other are not nested */
    for (size_t i = 0; i < 40; i++)
        memcpy(row + 4 * i, i < 39 ? "(1)+" : "(1)\0", 4);
    assert_string_equal(value_of(row), "40");
}

/* Counting different keys takes quadratic time, so their number is bounded. */
static void test_many_entries(void **unused)
{
    static weir_rls_entry many[1025];
    weir_rls_descriptor d = {.entries = many};
    weir_cel_input in = {.descriptors = &d, .descriptors_len = 1};
    weir_cel *c = parsed("size(descriptors[0]) == 1");
    bool found = false;
    (void)unused;
    for (size_t i = 0; i < 1025; i++)
        many[i] = (weir_rls_entry)ENTRY("k", "v");
    d.entries_len = 1024;
    assert_int_equal(weir_cel_test(c, &in, &found), WEIR_CEL_OK);
    assert_true(found);
    d.entries_len = 1025;
    assert_int_equal(weir_cel_test(c, &in, &found), WEIR_CEL_FAILED);
    weir_cel_free(c);
    weir_cel_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_texts_are_bounded),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_syntax_errors),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_many_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
