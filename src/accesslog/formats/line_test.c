/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The parts of lines that several formats have in common, and times at the ends of their ranges. */

#include "accesslog/formats/formats.h"
#include "accesslog/formats/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define NS  INT64_C(1000000000)
#define MAX WEIR_NOW_NS_MAX

#define LENGTH(rows) (sizeof rows / sizeof rows[0])

static weir_slice slice_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

/* Checks a field; NULL: the field is absent. */
static void expect(const char *what, weir_slice got, const char *want)
{
    bool same =
        want ? got.at && got.len == strlen(want) && memcmp(got.at, want, got.len) == 0 : !got.at;
    if (!same)
        fail_msg("%s: '%.*s', expected %s", what, (int)got.len, got.at ? got.at : "",
                 want ? want : "none");
}

static void requests_are_split(void **unused)
{
    (void)unused;
    static const struct {
        const char *request, *method, *uri, *path, *query, *protocol;
    } rows[] = {
        {"GET /a?b HTTP/1.1", "GET", "/a?b", "/a", "b", "HTTP/1.1"},
        {"AZaz /", "AZaz", "/", "/", NULL, NULL},
        {"M-SEARCH * HTTP/1.1", "M-SEARCH", "*", "*", NULL, "HTTP/1.1"},
        {"M_9 *", "M_9", "*", "*", NULL, NULL},
        {"-X /", NULL, "/", "/", NULL, NULL},
        {"_ /", NULL, "/", "/", NULL, NULL},
        {"G@T /", NULL, "/", "/", NULL, NULL},
        {"G[T /", NULL, "/", "/", NULL, NULL},
        {"G`T /", NULL, "/", "/", NULL, NULL},
        {"G{T /", NULL, "/", "/", NULL, NULL},
        {"@ /", NULL, "/", "/", NULL, NULL},
        {"GET", "GET", NULL, NULL, NULL, NULL},
        {"", "", NULL, NULL, NULL, NULL},
        {"GET ", "GET", "", "", NULL, NULL},
        {"GET HTTP/1.1", "GET", "", "", NULL, "HTTP/1.1"},
        {"GET  HTTP/1.1", "GET", "", "", NULL, "HTTP/1.1"},
        {"GET /a HTTP/", "GET", "/a HTTP/", "/a HTTP/", NULL, NULL},
        {"GET /a HTTP/2", "GET", "/a", "/a", NULL, "HTTP/2"},
        {"GET /a HTTPS/2", "GET", "/a HTTPS/2", "/a HTTPS/2", NULL, NULL},
        {"GET /a b HTTP/2", "GET", "/a b", "/a b", NULL, "HTTP/2"},
        {"GET /a?b?c ", "GET", "/a?b?c ", "/a", "b?c ", NULL},
        {"GET /? HTTP/2", "GET", "/?", "/", "", "HTTP/2"},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        weir_slice field[LOG_FIELDS] = {0};
        log_split_request(slice_of(rows[i].request), field);
        expect(rows[i].request, field[LOG_METHOD], rows[i].method);
        expect(rows[i].request, field[LOG_URI], rows[i].uri);
        expect(rows[i].request, field[LOG_PATH], rows[i].path);
        expect(rows[i].request, field[LOG_QUERY], rows[i].query);
        expect(rows[i].request, field[LOG_PROTOCOL], rows[i].protocol);
    }
}

static void ports_are_removed(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"1.2.3.4:80", "1.2.3.4"},
        {"h:09", "h"},
        {"h:", "h:"},
        {"h", "h"},
        {"80", "80"},
        {":80", ""},
        {"", ""},
        {"h80", "h80"},
        {"h:/9", "h:/9"},
        {"h:0;", "h:0;"},
        {"h:;0", "h:;0"},
        {"[::1]:3", "::1"},
        {"[]:3", ""},
        {"[:3", "["},
        {"[::1]", "[::1]"},
        {"]:3", "]"},
        {"[a:3", "[a"},
        {"a]:3", "a]"},
        {"2001:db8::7:3", "2001:db8::7"},
    };
    for (size_t i = 0; i < LENGTH(rows); i++)
        expect(rows[i][0], log_without_port(slice_of(rows[i][0])), rows[i][1]);
}

static void lists_end_with_the_last(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {{"a", "a"},       {"a,b", "b"}, {"a, b", "b"},
                                          {"a,  b ", "b "}, {"a,", ""},   {"a, ", ""},
                                          {"", ""},         {" a", "a"},  {",a,b,c", "c"}};
    for (size_t i = 0; i < LENGTH(rows); i++)
        expect(rows[i][0], log_last_of_list(slice_of(rows[i][0])), rows[i][1]);
}

/* A quote behind an odd number of backslashes is escaped. */
static void quotes_are_found(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int at; /* -1: none */
    } rows[] = {{"\"", 0},         {"a\"b\"", 1},      {"\\\"\"", 2}, {"\\\\\"", 2},
                {"\\\\\\\"", -1},  {"a\\\\\\\"\"", 5}, {"", -1},      {"a", -1},
                {"\\\"\\\"\"", 4}, {"x\\\\\"\"", 3}};
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const char *text = rows[i].text, *at = log_find_quote(text, text + strlen(text));
        if ((at ? at - text : -1) != rows[i].at)
            fail_msg("%s: %d", text, at ? (int)(at - text) : -1);
    }
    assert_int_equal(*log_find_quote("\\\"" + 1, "\\\"" + 2), '"'); /* not what is before it */
}

static void words_are_split(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *words[4];
    } rows[] = {
        {"a b c", {"a", "b", "c", NULL}},       {"a  b", {"a", "", "b", NULL}},
        {"a ", {"a", "", NULL, NULL}},          {"\"a b\" c", {"a b", "c", NULL, NULL}},
        {"\"a\\\" b\" c", {"a\\\" b", "c"}},    {"\"\" \"\"", {"", "", NULL, NULL}},
        {"\"a\"b c", {NULL, NULL, NULL, NULL}}, {"\"a", {NULL, NULL, NULL, NULL}},
        {"a\"b c\"", {"a\"b", "c\"", NULL}},    {"", {"", NULL, NULL, NULL}},
        {"\"a\"", {"a", NULL, NULL, NULL}},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        log_words w = {rows[i].text, rows[i].text + strlen(rows[i].text)};
        for (size_t k = 0; k < 4; k++)
            expect(rows[i].text, log_next_word(&w), rows[i].words[k]);
    }
}

static void numbers_saturate(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t want; /* -1: no number */
    } rows[] = {{"0", 0},
                {"9223372036854775806", INT64_MAX - 1},
                {"9223372036854775807", INT64_MAX},
                {"9223372036854775808", INT64_MAX},
                {"18446744073709551616", INT64_MAX},
                {"", -1},
                {"-1", -1},
                {"1 ", -1}};
    for (size_t i = 0; i < LENGTH(rows); i++) {
        int64_t n = -1;
        assert_int_equal(log_read_saturated(slice_of(rows[i].text), &n), rows[i].want >= 0);
        assert_int_equal(n, rows[i].want);
    }
}

static void errors_name_the_column(void **unused)
{
    (void)unused;
    static const char line[] = "line";
    weir_logline_error e;
    memset(&e, 1, sizeof e);
    assert_false(log_fail(line, line + 2, "x", &e));
    assert_null(e.option);
    assert_int_equal(e.column, 3);
    assert_string_equal(e.expected, "x");
    assert_string_equal(e.detail, "");
    assert_false(e.key_absent);
}

/* ---- times ----------------------------------------------------------------------------------- */

enum { SYNTAX = -1, RANGE = -2 };

static int64_t result_of(weir_status st, int64_t t_ns)
{
    assert_true(st == WEIR_OK || t_ns == -9); /* not written */
    return st == WEIR_OK ? t_ns : st == WEIR_E_RANGE ? RANGE : SYNTAX;
}

static void numbers_are_times(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t unit_ns, want;
    } rows[] = {
        {"0", 1, 0},
        {"8070450532247928831", 1, MAX - 1},
        {"8070450532247928832", 1, MAX},
        {"8070450532247928833", 1, RANGE},
        {"9999999999999999999", 1, RANGE},
        {"00000000000000000009", 1, SYNTAX}, /* 20 digits */
        {"0000000000000000009", 1, 9},
        {"5.0", 1, SYNTAX},
        {"5x", 1, SYNTAX},
        {"", 1, SYNTAX},
        {"x", 1, SYNTAX},
        {"8070450532", NS, 8070450532 * NS},
        {"8070450532.247928832", NS, MAX},
        {"8070450532.247928833", NS, RANGE},
        {"8070450533", NS, RANGE},
        {"5.000000001", NS, 5 * NS + 1},
        {"5.0000000019", NS, 5 * NS + 1},
        {"5.", NS, SYNTAX},
        {"5.x", NS, SYNTAX},
        {"5.5x", NS, SYNTAX},
        {"5.9", 1000, 5900},
        {"5.0019", 1000, 5001},
        {"5.25", 1000000, 5250000},
        {"99999999999", 0, RANGE}, /* the largest number of seconds */
        {"9999999999", 0, RANGE},
        {"100000000000", 0, 100000000 * NS},
        {"99999999999999", 0, RANGE},
        {"100000000000000", 0, 100000000 * NS},
        {"8070450532247928", 0, 8070450532247928 * 1000},
        {"99999999999999999", 0, RANGE},
        {"100000000000000000", 0, 100000000000000000},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        int64_t t_ns = -9;
        const char *text = rows[i].text, *end = text + strlen(text);
        weir_status st = weir_logtime_number(text, end, rows[i].unit_ns, &t_ns);
        int64_t got = result_of(st, t_ns);
        if (got != rows[i].want)
            fail_msg("%s in %d: %lld", text, (int)rows[i].unit_ns, (long long)got);
    }
}

static void dates_are_times(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01_00:00:00Z", SYNTAX},
        {"1970/01-01T00:00:00Z", SYNTAX},
        {"1970-01/01T00:00:00Z", SYNTAX},
        {"1970-01-01T00.00:00Z", SYNTAX},
        {"1970-01-01T00:00.00Z", SYNTAX},
        {"1970-01-01T00:00:00", SYNTAX},
        {"1970-01-01T00:00:00ZZ", SYNTAX},
        {"1970-01-01T00:00:00Y", SYNTAX},
        {"1970-01-01T00:00:00.Z", SYNTAX},
        {"1970-01-01T00:00:00.5", SYNTAX},
        {"1970-01-01T00:00:00.000000001Z", 1},
        {"1970-01-01T00:00:00-00:01", 60 * NS},
        {"1970-01-01T00:00:00-0001", 60 * NS},
        {"1970-01-01T00:00:00-01:00", 3600 * NS},
        {"1970-01-02T00:00:00+23:59", 60 * NS},
        {"1970-01-02T00:00:00+24:00", SYNTAX},
        {"1970-01-02T00:00:00+23:60", SYNTAX},
        {"1970-01-01T00:00:00+00:01", RANGE},
        {"1970-01-01T00:00:00 00:00", SYNTAX},
        {"1970-01-01T00:00:00-00.00", SYNTAX},
        {"1970-01-01T00:00:00-00:0", SYNTAX},
        {"1970-01-01T00:00:00-000", SYNTAX},
        {"1970-01-01T00:00:00-00000", SYNTAX},
        {"1969-12-31T23:59:59Z", RANGE},
        {"1969-12-31T23:59:59-01:00", 3599 * NS},
        {"1968-12-31T23:59:59Z", RANGE},
        {"0000-01-01T00:00:00Z", RANGE},
        {"9999-12-31T00:00:00Z", RANGE},
        {"1970-00-01T00:00:00Z", SYNTAX},
        {"1970-13-01T00:00:00Z", SYNTAX},
        {"1970-12-31T00:00:00Z", 364 * 86400 * NS},
        {"1970-01-00T00:00:00Z", SYNTAX},
        {"1970-01-32T00:00:00Z", SYNTAX},
        {"1970-04-31T00:00:00Z", SYNTAX},
        {"1970-06-31T00:00:00Z", SYNTAX},
        {"1970-09-31T00:00:00Z", SYNTAX},
        {"1970-11-31T00:00:00Z", SYNTAX},
        {"1970-02-29T00:00:00Z", SYNTAX},
        {"1972-02-29T00:00:00Z", (730 + 59) * 86400 * NS},
        {"1972-02-30T00:00:00Z", SYNTAX},
        {"2000-02-29T00:00:00Z", 951782400 * NS},
        {"2100-02-29T00:00:00Z", SYNTAX},
        {"2100-03-01T00:00:00Z", 4107542400 * NS},
        {"1970-01-01T24:00:00Z", SYNTAX},
        {"1970-01-01T23:59:59Z", 86399 * NS},
        {"1970-01-01T00:60:00Z", SYNTAX},
        {"1970-01-01T00:00:60Z", 60 * NS},
        {"1970-01-01T00:00:61Z", SYNTAX},
        {"2225-09-28T23:48:52.247928832Z", MAX},
        {"2225-09-28T23:48:52.247928833Z", RANGE},
        {"2226-12-31T23:59:59Z", RANGE},
        {"2560-01-01T00:00:00Z", RANGE}, /* would overflow to a valid time */
        {"2227-01-01T00:00:00Z", RANGE},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        int64_t t_ns = -9;
        const char *text = rows[i].text, *end = text + strlen(text);
        weir_status st = weir_logtime_rfc3339(text, end, &t_ns);
        int64_t got = result_of(st, t_ns);
        if (got != rows[i].want)
            fail_msg("%s: %lld", text, (long long)got);
    }
}

/* The form of the time decides how it is read, unless its name has a unit. */
static void any_time_is_read(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t unit_ns, want;
    } rows[] = {
        {"5", 0, 5 * NS},
        {"5", 1, 5},
        {"1970-01-01T00:00:05Z", 0, 5 * NS},
        {"1970-01-01T00:00:05Z", 1, SYNTAX},
        {"1970-0", 0, SYNTAX},
        {"1970-", 0, SYNTAX},
        {"01/Jan/1970:00:00:05 +0000", 0, 5 * NS},
        {"[01/Jan/1970:00:00:05 +0000]", 0, 5 * NS},
        {"[01/Jan/1970:00:00:05 +0000", 0, SYNTAX},
        {"01/Jan/1970:00:00:05 +0000]", 0, SYNTAX},
        {"01/Jan/1970:00:00:05 +0000x", 0, SYNTAX},
        {"01/Jan/1970:00:00:05.5 -0001", 0, 65 * NS + NS / 2},
        {"01/Jan/1970:00:00:05 0000", 0, SYNTAX},
        {"01/Jan/1970:00:00:05 +000", 0, SYNTAX},
        {"01/Jan/1970:00:00:05", 0, SYNTAX},
        {"01/Jan/1969:00:00:05 +0000", 0, RANGE},
        {"01/Jan/1970:00:00:05 +0000", 1, SYNTAX},
        {"", 0, SYNTAX},
        {"/", 0, SYNTAX},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        int64_t t_ns = -9;
        const char *text = rows[i].text, *end = text + strlen(text);
        weir_status st = weir_logtime_any(text, end, rows[i].unit_ns, &t_ns);
        int64_t got = result_of(st, t_ns);
        if (got != rows[i].want)
            fail_msg("%s in %d: %lld", text, (int)rows[i].unit_ns, (long long)got);
    }
}

static void local_times_are_read(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {"01-Jan/1970:00:00:05", "01/Jan-1970:00:00:05",
                                        "01/Jan/1970 00:00:05", "01/Jan/1970:00.00:05",
                                        "01/Jan/1970:00:00.05", "01/Jan/1970:00:00:05 ",
                                        "01/Jan/1970:00:00:0",  "01/Jam/1970:00:00:05",
                                        "01/jan/1970:00:00:05", "01/Jan/1970:00:00:05."};
    static const char right[] = "02/Feb/1970:03:04:05.25";
    int64_t t_ns = -9;
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_int_equal(weir_logtime_local(wrong[i], wrong[i] + strlen(wrong[i]), &t_ns),
                         WEIR_E_SYNTAX);
    assert_int_equal(t_ns, -9);
    assert_int_equal(weir_logtime_local(right, right + strlen(right), &t_ns), WEIR_OK);
    assert_int_equal(t_ns, ((31 + 1) * 86400 + 3 * 3600 + 4 * 60 + 5) * NS + NS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_split),      cmocka_unit_test(ports_are_removed),
        cmocka_unit_test(lists_end_with_the_last), cmocka_unit_test(quotes_are_found),
        cmocka_unit_test(words_are_split),         cmocka_unit_test(numbers_saturate),
        cmocka_unit_test(errors_name_the_column),  cmocka_unit_test(numbers_are_times),
        cmocka_unit_test(dates_are_times),         cmocka_unit_test(any_time_is_read),
        cmocka_unit_test(local_times_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
