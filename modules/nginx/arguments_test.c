/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Texts of the configuration: words, names and parameters. */

#include "fake.h"

#include "modules/nginx/arguments.h"

#define TEXT(t) (&(ngx_str_t)ngx_string(t))

static void words(void **unused)
{
    (void)unused;
    static const char *const all[] = {"open", "closed", "local"};
    assert_true(weir_ngx_is(TEXT("off"), "off"));
    assert_false(weir_ngx_is(TEXT("of"), "off"));
    assert_false(weir_ngx_is(TEXT("offs"), "off"));
    assert_false(weir_ngx_is(TEXT("OFF"), "off"));
    assert_true(weir_ngx_is_same(TEXT("a"), TEXT("a")));
    assert_true(weir_ngx_is_same(TEXT(""), TEXT("")));
    assert_false(weir_ngx_is_same(TEXT("a"), TEXT("b")));
    assert_false(weir_ngx_is_same(TEXT("a"), TEXT("aa")));
    assert_int_equal(weir_ngx_choice(TEXT("open"), all, 3), 0);
    assert_int_equal(weir_ngx_choice(TEXT("local"), all, 3), 2);
    assert_int_equal(weir_ngx_choice(TEXT("local"), all, 2), 2);
    assert_int_equal(weir_ngx_choice(TEXT("loca"), all, 3), 3);
    assert_int_equal(weir_ngx_choice(TEXT(""), all, 3), 3);
}

static void names(void **unused)
{
    (void)unused;
    static const char digits[] = "0123456789012345678901234567890123456789012345678901234567890123";
    static const char *const good[] = {"a", "Z", "9", "api/v1:GET-x_y.z", digits};
    static const char *const bad[] = {"", " ", "a b", "\xc3\xa9", "a\"", "a,b", "a=b"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(weir_ngx_is_name(&(ngx_str_t){strlen(good[i]), (u_char *)good[i]}));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_ngx_is_name(&(ngx_str_t){strlen(bad[i]), (u_char *)bad[i]}));
    assert_false(weir_ngx_is_name(TEXT("a\0b")));
    assert_false(weir_ngx_is_name(
        TEXT("0123456789012345678901234567890123456789012345678901234567890123x")));
}

static void parameters(void **unused)
{
    (void)unused;
    ngx_str_t value = ngx_null_string;
    assert_true(weir_ngx_is_parameter(TEXT("key=$a"), "key=", &value));
    assert_true(weir_ngx_is(&value, "$a"));
    assert_true(weir_ngx_is_parameter(TEXT("key="), "key=", &value));
    assert_int_equal(value.len, 0);
    assert_true(weir_ngx_is_parameter(TEXT("key=a=b"), "key=", &value));
    assert_true(weir_ngx_is(&value, "a=b"));
    assert_false(weir_ngx_is_parameter(TEXT("key"), "key=", &value));
    assert_false(weir_ngx_is_parameter(TEXT("keys=a"), "key=", &value));
    value = weir_ngx_parameter_name(TEXT("password=secret=1"));
    assert_true(weir_ngx_is(&value, "password"));
    value = weir_ngx_parameter_name(TEXT("shadow"));
    assert_true(weir_ngx_is(&value, "shadow"));
    value = weir_ngx_parameter_name(TEXT(""));
    assert_int_equal(value.len, 0);
}

static ngx_array_t args_of(ngx_str_t *args, size_t n)
{
    return (ngx_array_t){.elts = args, .nelts = n, .size = sizeof *args};
}

static void duplicates(void **unused)
{
    (void)unused;
    ngx_str_t args[] = {ngx_string("weir"),   ngx_string("zone"),   ngx_string("key=1"),
                        ngx_string("cost=1"), ngx_string("shadow"), ngx_string("shadow=1"),
                        ngx_string("keys=1"), ngx_string("key=2"),  ngx_string("shadow")};
    ngx_array_t all = args_of(args, sizeof args / sizeof args[0]);
    fake.cf.args = &all;
    for (ngx_uint_t i = 2; i < 7; i++)
        assert_true(weir_ngx_is_first(&fake.cf, 2, i));
    assert_string_equal(fake_logged(), "");
    assert_false(weir_ngx_is_first(&fake.cf, 2, 7));
    assert_string_equal(fake_logged(), "emerg duplicate parameter \"key=\"\n");
    assert_true(weir_ngx_is_first(&fake.cf, 3, 7));
    assert_false(weir_ngx_is_first(&fake.cf, 2, 8));
    assert_string_equal(fake_logged(), "emerg duplicate parameter \"shadow\"\n");
}

static void off(void **unused)
{
    (void)unused;
    ngx_str_t args[] = {ngx_string("weir"), ngx_string("off"), ngx_string("x")};
    for (size_t n = 1; n <= 3; n++) {
        ngx_array_t all = args_of(args, n);
        fake.cf.args = &all;
        assert_int_equal(weir_ngx_is_off(&fake.cf), n == 2);
    }
}

static void copies(void **unused)
{
    (void)unused;
    ngx_str_t copy;
    assert_true(weir_ngx_copy(&fake.cf, "abc", 2, &copy));
    assert_true(weir_ngx_is(&copy, "ab"));
    fake.allocations = 0;
    assert_false(weir_ngx_copy(&fake.cf, "abc", 2, &copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(words, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(names, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(parameters, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(duplicates, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(off, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(copies, fake_open, fake_close)};
    return cmocka_run_group_tests_name("arguments", tests, NULL, NULL);
}
