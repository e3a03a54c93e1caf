/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Key templates: which texts are templates, which keys they give, and that different values never
 * give the same key. */

#include "service/rules/key_template.h"

#include "port/port.h"
#include "service/rules/address.h"

#include <weir/weir_store.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weir_key_template *parse(const char *text)
{
    weir_key_template *t = NULL;
    char why[200] = "";
    size_t at = 0;
    weir_status st = weir_key_template_parse(&t, text, strlen(text), why, sizeof why, &at);
    if (st != WEIR_OK)
        fail_msg("%s: %s at %zu", text, why, at);
    return t;
}

/* Values by name; a name that begins with "ip" is that of an address. */
typedef struct values {
    const char *name[4], *text[4];
} values;

static bool value_of(void *ctx, weir_slice name, weir_slice *ret, bool *is_address)
{
    const values *v = ctx;
    assert_false(*is_address);
    assert_int_equal(name.at[name.len], '\0');
    for (int i = 0; i < 4 && v->name[i]; i++) {
        if (strcmp(v->name[i], name.at) != 0)
            continue;
        *ret = (weir_slice){v->text[i], strlen(v->text[i])};
        *is_address = strncmp(name.at, "ip", 2) == 0;
        return true;
    }
    return false;
}

/* The key of a template; "-" if there is none. */
static const char *key_of(const char *text, const values *v)
{
    static char buf[WEIR_KEY_MAX + 1];
    weir_key_template *t = parse(text);
    size_t len = weir_key_template_write(t, (weir_key_template_bits){24, 64}, value_of,
                                         (void *)(uintptr_t)v, buf, WEIR_KEY_MAX);
    weir_key_template_free(t);
    buf[len] = '\0';
    return len > 0 ? buf : "-";
}

static void check_names(void **unused)
{
    (void)unused;
    static const char *const rows[][3] = {
        {"$client", "client", NULL},
        {"${client}", "client", NULL},
        {"$client/$header.x-api-key", "client", "header.x-api-key"},
        {"$a-$b", "a", "b"},        /* '-' is no end of a name */
        {"$a.-/$b.", "a", "b"},     /* nor is '.' */
        {"$a_1:${b}c", "a_1", "b"}, /* braces end a name */
        {"$$$a x$$y $b", "a", "b"}, /* two dollar signs are one */
        {"${a}2/A${b}", "a", "b"},  /* '/' separates */
        {"user:$a", "a", NULL},
        {"${a|lower}", "a", NULL},
        {"${a|trim|lower}|$b", "a", "b"}, /* outside of braces, '|' is a text */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_key_template *t = parse(rows[i][0]);
        assert_int_equal(weir_key_template_len(t), rows[i][2] ? 2 : 1);
        for (size_t k = 0; k < weir_key_template_len(t); k++) {
            weir_slice name = weir_key_template_name(t, k);
            assert_string_equal(name.at, rows[i][k + 1]);
            assert_int_equal(name.len, strlen(rows[i][k + 1]));
        }
        weir_key_template_free(t);
    }
}

static void check_syntax_errors(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        size_t at;
        const char *error;
    } rows[] = {
        {"", 0, "expected a variable such as $client"},
        {"client", 0, "expected a variable such as $client"},
        {"$$client", 0, "expected a variable such as $client"},
        {"a/$", 2, "expected the name of a variable after '$'"},
        {"a/$-x", 2, "expected the name of a variable after '$'"},
        {"$.", 0, "expected the name of a variable after '$'"},
        {"${}", 0, "expected the name of a variable after '$'"},
        {"x${a", 1, "expected ${NAME} or ${NAME|FILTER}, found no '}'"},
        {"${a-}", 0, "expected ${NAME} or ${NAME|FILTER}, found no '}'"},
        {"x${a|lower", 1, "expected ${NAME} or ${NAME|FILTER}, found no '}'"},
        {"x${a|upper}", 5, "expected the filter lower or trim after '|'"},
        {"${a|}", 4, "expected the filter lower or trim after '|'"},
        {"${a|lower|Trim}", 10, "expected the filter lower or trim after '|'"},
        {"${a|lower}$b", 10, "expected a separator such as '/' between two variables"},
        {"$a$b", 2, "expected a separator such as '/' between two variables"},
        {"${a}2F%${b}", 7, "expected a separator between two variables that has a character other"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_key_template *t = NULL;
        char why[200];
        size_t at = SIZE_MAX, len = strlen(rows[i].text);
        assert_int_equal(weir_key_template_parse(&t, rows[i].text, len, why, sizeof why, &at),
                         WEIR_E_SYNTAX);
        assert_null(t);
        assert_int_equal(at, rows[i].at);
        assert_memory_equal(why, rows[i].error, strlen(rows[i].error));
    }
    char why[200];
    size_t at;
    weir_key_template *t = NULL;
    assert_int_equal(weir_key_template_parse(&t, "$a\0", 3, why, sizeof why, &at), WEIR_E_SYNTAX);
    assert_int_equal(at, 2);
}

/* Templates at their limits, and one byte or part above. */
static void check_limits(void **unused)
{
    (void)unused;
    char text[WEIR_KEY_TEMPLATE_MAX + 2], why[200];
    size_t at;
    weir_key_template *t = NULL;
    memset(text, 'x', sizeof text);
    memcpy(text, "$a/", 3);
    assert_int_equal(weir_key_template_parse(&t, text, WEIR_KEY_TEMPLATE_MAX, why, sizeof why, &at),
                     WEIR_OK);
    weir_key_template_free(t);
    assert_int_equal(
        weir_key_template_parse(&t, text, WEIR_KEY_TEMPLATE_MAX + 1, why, sizeof why, &at),
        WEIR_E_SYNTAX);
    text[0] = '$';
    memset(text + 1, 'x', WEIR_KEY_TEMPLATE_NAME_MAX + 1);
    size_t len = WEIR_KEY_TEMPLATE_NAME_MAX + 1;
    assert_int_equal(weir_key_template_parse(&t, text, len, why, sizeof why, &at), WEIR_OK);
    weir_key_template_free(t);
    assert_int_equal(weir_key_template_parse(&t, text, len + 1, why, sizeof why, &at),
                     WEIR_E_SYNTAX);
    for (size_t i = 0; i < 9; i++)
        memcpy(text + 3 * i, "$a/", 3);
    len = 3 * (WEIR_KEY_TEMPLATE_PARTS_MAX / 2);
    assert_int_equal(weir_key_template_parse(&t, text, len, why, sizeof why, &at), WEIR_OK);
    weir_key_template_free(t);
    assert_int_equal(weir_key_template_parse(&t, text, len + 2, why, sizeof why, &at),
                     WEIR_E_SYNTAX);
}

static void check_keys(void **unused)
{
    (void)unused;
    static const values v = {{"a", "b", "ip", "ip6"}, {"x/y%", "1:2", "10.1.2.3", "2001:db8::7"}};
    static const char *const rows[][2] = {
        {"$a", "x/y%"}, /* a single variable gives its value */
        {"$ip6", "2001:db8::7"},
        {"$none", "-"},
        {"$none/$missing", "-"},
        {"$none/$b", "/1:2"},
        {"$b/$none", "1:2/"},
        {"user:$a", "user:x/y%25"},
        {"$a/$b", "x%2Fy%25/1:2"}, /* nothing follows the last value */
        {"$b:$a", "1%3A2:x/y%25"},
        {"$ip/$a", "10.1.2.0%2F24/x/y%25"},
        {"$a-$ip6", "x/y%25-2001:db8::/64"},
        {"$$$a", "$x/y%25"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(key_of(rows[i][0], &v), rows[i][1]);
}

static void check_filters(void **unused)
{
    (void)unused;
    static const values v = {{"a", "b", "c", "d"}, {" Alice@Example.ORG \t", "A/%Z[", " \t", "@`"}};
    static const char *const rows[][2] = {
        {"$a", " Alice@Example.ORG \t"},
        {"${a|lower}", " alice@example.org \t"},
        {"${a|trim}", "Alice@Example.ORG"},
        {"${a|trim|lower}", "alice@example.org"},
        {"${a|lower|trim}", "alice@example.org"},
        {"${b|lower}", "a/%z["},
        {"${d|lower}", "@`"},              /* beside A-Z and a-z */
        {"${b|lower}/$d", "a%2F%25z[/@`"}, /* an escape stays */
        {"${b|trim}-$d", "A/%25Z[-@`"},
        {"${b|lower}a$d", "%61/%25z[a@`"}, /* a separator is compared in lower case */
        {"${c|trim}", "-"},
        {"$c", " \t"},
        {"${c|trim}/$b", "/A/%25Z["},
        {"${c|trim}/${c|trim}", "-"},
        {"u:${a|lower|trim}", "u:alice@example.org"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(key_of(rows[i][0], &v), rows[i][1]);
}

/* A key of several parts is no address, so no rule masks it. */
static void check_no_address(void **unused)
{
    (void)unused;
    static const values v = {{"a", "b"}, {"2001", ":1"}}, w = {{"a", "b"}, {"", "1"}};
    assert_string_equal(key_of("$a:$b", &v), "%32001::1");
    assert_string_equal(key_of("10.0.0.$b", &w), "10.0.0.%31");
}

/* A buffer of the exact length is enough, and no byte behind it is written. */
static void check_sizes(void **unused)
{
    (void)unused;
    static const values v = {{"a", "b"}, {"x/y", "long"}}, w = {{"a", "b"}, {"2001", ":1"}};
    static const struct {
        const char *text;
        const values *values;
    } rows[] = {{"$a", &v}, {"$a/$b", &v}, {"user/$b", &v}, {"$a:$b", &w}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char buf[64];
        weir_key_template *t = parse(rows[i].text);
        void *ctx = (void *)(uintptr_t)rows[i].values;
        size_t len =
            weir_key_template_write(t, (weir_key_template_bits){0}, value_of, ctx, buf, 64);
        assert_true(len > 0);
        for (size_t size = 0; size <= len; size++) {
            memset(buf, '#', sizeof buf);
            assert_int_equal(
                weir_key_template_write(t, (weir_key_template_bits){0}, value_of, ctx, buf, size),
                size < len ? 0 : len);
            for (size_t at = size; at < sizeof buf; at++)
                assert_int_equal(buf[at], '#');
        }
        weir_key_template_free(t);
    }
}

/* ---- different values, different keys -------------------------------------------------------- */

enum { TEXTS = 1 + 7 + 49, KEY_SIZE = 48 };

/* All texts of up to two bytes of an alphabet: separators, and bytes of escapes. */
static size_t all_texts(char ret[TEXTS][3])
{
    static const char alphabet[] = "/:%2F-a";
    size_t n = 0;
    memset(ret, 0, TEXTS * 3);
    n++;
    for (size_t i = 0; alphabet[i]; i++) {
        ret[n++][0] = alphabet[i];
        for (size_t k = 0; alphabet[k]; k++, n++) {
            ret[n][0] = alphabet[i];
            ret[n][1] = alphabet[k];
        }
    }
    assert_int_equal(n, TEXTS);
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Whether all values of $a, $b and $c give different keys. */
static void check_injective(const char *text, size_t c_texts)
{
    char texts[TEXTS][3];
    size_t n = all_texts(texts), keys = 0;
    weir_key_template *t = parse(text);
    char(*key)[KEY_SIZE] = port_zalloc(n * n * c_texts, KEY_SIZE);
    assert_non_null(key);
    for (size_t i = 0; i < n * n * c_texts; i++) {
        values v = {{"a", "b", "c"}, {texts[i % n], texts[i / n % n], texts[i / n / n]}};
        weir_address address;
        size_t len = weir_key_template_write(t, (weir_key_template_bits){0}, value_of, &v,
                                             key[keys], KEY_SIZE - 1);
        assert_true(len > 0 || i == 0);
        assert_false(weir_address_parse(&address, key[keys], len));
        keys++;
    }
    qsort(key, keys, KEY_SIZE, by_bytes);
    for (size_t i = 1; i < keys; i++) {
        if (strcmp(key[i - 1], key[i]) == 0)
            fail_msg("%s: the key %s twice", text, key[i]);
    }
    port_free(key);
    weir_key_template_free(t);
}

static void check_all_injective(void **unused)
{
    (void)unused;
    static const char *const two[] = {"$a/$b",    "$a:$b",      "${a}2F/$b",
                                      "$a-$b",    "${a}a$b",    "${a}/%2F$b",
                                      "x$a//$b:", "$b%:%2$a/x", "2001:$a:$b"};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        check_injective(two[i], 1);
    check_injective("$a/$b/$c", TEXTS);
    check_injective("$a:$b-$c", TEXTS);
}

/* The same for addresses: no value can be mistaken for the end of one. */
static void check_address_ends(void **unused)
{
    (void)unused;
    static const char *const client[] = {"1::2", "1::2:3", "1::", "10.0.0.1", "10.0.0.0"};
    static const char *const text[] = {"3:4::5", "4::5", ":2", "64:x", "/64:x", "x"};
    char key[sizeof client / sizeof client[0] * sizeof text / sizeof text[0]][KEY_SIZE];
    size_t n = 0;
    weir_key_template *t = parse("$ip:$b");
    memset(key, 0, sizeof key);
    for (size_t i = 0; i < sizeof client / sizeof client[0]; i++) {
        for (size_t k = 0; k < sizeof text / sizeof text[0]; k++) {
            values v = {{"ip", "b"}, {client[i], text[k]}};
            assert_true(weir_key_template_write(t, (weir_key_template_bits){32, 128}, value_of, &v,
                                                key[n++], KEY_SIZE - 1) > 0);
        }
    }
    weir_key_template_free(t);
    qsort(key, n, KEY_SIZE, by_bytes);
    for (size_t i = 1; i < n; i++)
        assert_string_not_equal(key[i - 1], key[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_names),        cmocka_unit_test(check_syntax_errors),
        cmocka_unit_test(check_limits),       cmocka_unit_test(check_keys),
        cmocka_unit_test(check_filters),      cmocka_unit_test(check_no_address),
        cmocka_unit_test(check_sizes),        cmocka_unit_test(check_all_injective),
        cmocka_unit_test(check_address_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
