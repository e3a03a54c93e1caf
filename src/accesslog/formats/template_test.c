/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the templates of keys and the filters of lines: tables of texts, keys and errors. */

#include "accesslog/formats/kit_test.h"

#include "accesslog/formats/formats.h"

#define LINE(client)                                                                               \
    client " - joe [01/Aug/1995:02:00:04 -0400] \"GET /a/b/c.html?d=/e HTTP/1.0\" 401 1713 \"r\" " \
           "\"Mozilla 5 | x\""
#define V4    LINE("192.0.2.7")
#define V6    LINE("2001:DB8:1:2:3::4")
#define T0_NS (807256804 * S)

static void templates(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"combined", "$client", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "$remote_addr", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "client", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "host", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "$client $uri[1]", NULL, V4, T0_NS, "192.0.2.7 a", 1},
        {"combined", "$uri[2]-$path[3]", NULL, V4, T0_NS, "b-c.html", 1},
        {"combined", "x$uri[4]", NULL, V4, T0_NS, "x", 1},
        {"combined", "${uri[1]}${status}x", NULL, V4, T0_NS, "a401x", 1},
        {"combined", "$$$status$$ $ident", NULL, V4, T0_NS, "$401$ -", 1},
        {"combined", "$$", NULL, V4, T0_NS, "$", 1},
        {"combined", "$query", "bytes", V4, T0_NS, "d=/e", 1713},
        {"combined", "$http_user_agent", NULL, V4, T0_NS, "Mozilla 5 | x", 1},
        {"combined", "$client/48", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "$client/48", NULL, V6, T0_NS, "2001:db8:1::/48", 1},
        {"combined", "${client/24/64}!", NULL, V4, T0_NS, "192.0.2.0/24!", 1},
        {"combined", "${client/24/64}!", NULL, V6, T0_NS, "2001:db8:1:2::/64!", 1},
        {"combined", "$client/128", NULL, V6, T0_NS, "2001:db8:1:2:3::4", 1},
        {"combined", "$client/x", NULL, V4, T0_NS, "192.0.2.7/x", 1},
        {"combined", "$client/48", NULL, LINE("::ffff:192.0.2.7"), T0_NS, "192.0.2.7", 1},
        {"combined", "$client/48", NULL, LINE("host.example"), T0_NS, "host.example", 1},
        {"combined", "$client $user", NULL, V6, T0_NS, "2001:DB8:1:2:3::4 joe", 1},
        {"jsonl", "${a.b[1]}/$c", NULL, "{\"t_ns\":1,\"a\":{\"b\":\"/x/y\"},\"c\":1.50}", 1,
         "x/1.5", 1},
        {"combined", "$client $status $status", NULL, V4, T0_NS, "192.0.2.7 401 401", 1},
        {"combined", "$uri[1000]x", NULL, V4, T0_NS, "x", 1},
        {"combined", "$client/1", NULL, V6, T0_NS, "::/1", 1},
        {"combined", "$client/32/128", NULL, V4, T0_NS, "192.0.2.7", 1},
        {"combined", "$client/1/128", NULL, V4, T0_NS, "128.0.0.0/1", 1},
        {"combined", "$client/24/x", NULL, V6, T0_NS, "2001:d00::/24/x", 1},
        {"combined", "$status/", NULL, V4, T0_NS, "401/", 1},
        {"jsonl", "$a9_Z@-", NULL, "{\"t_ns\":1,\"a9_Z@\":\"d\"}", 1, "d-", 1},
        {"jsonl", "$Az[1]", NULL, "{\"t_ns\":1,\"Az\":\"/a?b/c\"}", 1, "a", 1},
        {"jsonl", "$z[2]", NULL, "{\"t_ns\":1,\"z\":\"a/b/\"}", 1, "b", 1},
        {"jsonl", "$z[3]x", NULL, "{\"t_ns\":1,\"z\":\"a/b/\"}", 1, "x", 1},
        {"jsonl", "$z[1]x", NULL, "{\"t_ns\":1,\"z\":\"?/a\"}", 1, "x", 1},
        {"jsonl", "$z[1]x", NULL, "{\"t_ns\":1,\"z\":\"\"}", 1, "x", 1},
        {"jsonl", "$@c", NULL, "{\"t_ns\":1,\"@c\":\"d\"}", 1, "d", 1},
        {"csv", "$a$b", NULL, "t_ns,a,b\n1,\"x\"\"\",\"\"\"y\"", 1, "x\"\"y", 1},
    };
    static const line_row errors[] = {
        {"common", "x$path", NULL, "h - - [01/Aug/1995:02:00:04 -0400] \"-\" 400 0", BAD,
         "column 37: expected a request in quotes that has a path", 0},
        {"common", "$uri[9]", NULL, V4, BAD,
         "column 1: expected a key of 1 to 65536 bytes; --key gives an empty text", 0},
        {"jsonl", "$a $b", NULL, "{\"t_ns\":1,\"a\":1}", BAD,
         "column 1: expected a key: a string, number or boolean; member \"b\"", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

/* The key of several parts has the maximum length of any key. */
static void long_keys(void **state)
{
    (void)state;
    static char line[WEIR_LOGLINE_KEY_LEN_MAX + 100];
    for (size_t over = 0; over < 2; over++) {
        weir_logline_reader *r = open_reader("csv", "$a$a$a.", NULL);
        weir_log_record record;
        weir_logline_error e;
        size_t third = WEIR_LOGLINE_KEY_LEN_MAX / 3 + over; /* 3 * 21845 + 1 = 65536 */
        memcpy(line, "1,", 2);
        memset(line + 2, 'k', third);
        assert_int_equal(weir_logline_read(r, "t_ns,a", 6, &record, &e), WEIR_LOGLINE_HEADER);
        assert_int_equal(weir_logline_read(r, line, third + 2, &record, &e),
                         over ? WEIR_LOGLINE_BAD : WEIR_LOGLINE_REQUEST);
        if (!over)
            assert_int_equal(record.key_len, WEIR_LOGLINE_KEY_LEN_MAX);
        weir_logline_close(r);
    }
}

/* Checks the text of the error of an option. */
static void check_option(const char *key, const char *where, const char *want)
{
    weir_logline_options o = {.key = key, .where = &where, .wheres = where != NULL};
    weir_logline_reader *r = NULL;
    weir_logline_error e;
    char text[500] = "";
    assert_int_equal(weir_logline_open(&r, &o, &e), WEIR_E_SYNTAX);
    assert_null(r);
    weir_logline_error_text(&e, text, sizeof text);
    assert_string_equal(text, want);
}

static void template_errors(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "column 1: expected the name of a field, or a template like '$client $uri[1]'"},
        {"$uri[", "column 5: expected the part of a path: [1] to [1000]"},
        {"$uri[1)", "column 5: expected the part of a path: [1] to [1000]"},
        {"$9", "column 2: expected the name of a field; '$$' is a '$'"},
        {"${client/0}", "column 9: expected the prefix of an IPv6 address: /1 to /128, or those of "
                        "IPv4 and IPv6, like /24/64"},
        {"$client/24/129", "column 8: expected the prefix of an IPv6 address: /1 to /128, or those "
                           "of IPv4 and IPv6, like /24/64"},
        {"$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a.",
         "column 65: expected at most 32 parts"},
        {"a$", "column 3: expected the name of a field; '$$' is a '$'"},
        {"$-", "column 2: expected the name of a field; '$$' is a '$'"},
        {"${}", "column 3: expected the name of a field; '$$' is a '$'"},
        {"$uri[0]", "column 5: expected the part of a path: [1] to [1000]"},
        {"$uri[x]", "column 5: expected the part of a path: [1] to [1000]"},
        {"$uri[1", "column 5: expected the part of a path: [1] to [1000]"},
        {"$uri[1001]", "column 5: expected the part of a path: [1] to [1000]"},
        {"${uri[1]", "column 9: expected '}' after the name of the field"},
        {"${uri", "column 6: expected '}' after the name of the field"},
        {"${client/}", "column 9: expected the prefix of an IPv6 address: /1 to /128, or those of "
                       "IPv4 and IPv6, like /24/64"},
        {"$client/129", "column 8: expected the prefix of an IPv6 address: /1 to /128, or those of "
                        "IPv4 and IPv6, like /24/64"},
        {"$client/33/64", "column 8: expected the prefix of an IPv6 address: /1 to /128, or those "
                          "of IPv4 and IPv6, like /24/64"},
        {"$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a",
         "column 66: expected at most 32 parts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char want[300];
        snprintf(want, sizeof want, "--key: %s", rows[i][1]);
        check_option(rows[i][0], NULL, want);
    }
}

/* ---- filters --------------------------------------------------------------------------------- */

static void filters(void **state)
{
    (void)state;
    static const struct {
        const char *where;
        bool holds;
    } rows[] = {
        {"status=401", true},
        {"status=40", false},
        {"status=4011", false},
        {"status=200|401|500", true},
        {"status=200|500", false},
        {"status!=401", false},
        {"status!=200|500", true},
        {"path=/a/*", true},
        {"path=/a*l", true},
        {"path=*c.html", true},
        {"path=*b*h*", true},
        {"path=/a*x", false},
        {"path=*", true},
        {"path=/a/b/c.html*", true},
        {"path=/a/b/c.htm", false},
        {"path=*/*/*/*/*", false},
        {"agent=Mozilla*5*x", true},
        {"agent=*bot*", false},
        {"agent!=*bot*", true},
        {"bytes>1712", true},
        {"bytes>1713", false},
        {"bytes>=1713", true},
        {"bytes>=1713.5", false},
        {"bytes<1713.5", true},
        {"bytes<1713", false},
        {"bytes<=1713", true},
        {"bytes<=-1", false},
        {"agent<5", false},
        {"agent>=0", false},
        {"status=401 path=/a* bytes>1", true},
        {"  status=401\tpath=/b* ", false},
        {"user=", false},
        {"user!=", true},
        {"query=d=/e", true},
        {"client=192.0.2.*|10.*", true},
        {"bytes>1712.", true},
        {"bytes<1713.0", false},
        {"bytes<=1712.99", false},
        {"bytes=1713|", true},
        {"query!=|x", true},
        {"user=|x", false},
        {"agent=*5*|", true},
        {"status=4*1*", true},
        {"status=**1", true},
        {"status=*0", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_options o = {.where = &rows[i].where, .wheres = 1};
        weir_logline_reader *r = NULL;
        weir_log_record record;
        weir_logline_error e;
        assert_int_equal(weir_logline_open(&r, &o, &e), WEIR_OK);
        weir_logline_result got = weir_logline_read(r, V4, strlen(V4), &record, &e);
        if (got != (rows[i].holds ? WEIR_LOGLINE_REQUEST : WEIR_LOGLINE_LEFT_OUT))
            fail_msg("%s: %d", rows[i].where, got);
        weir_logline_close(r);
    }
}

/* Numbers are compared with all their digits. */
static void filters_of_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *where, *number;
        bool holds;
    } rows[] = {
        {"x<=5", "\"05\"", true},    {"x<0.26", "0.25", true},    {"x<0.25", "0.25", false},
        {"x<=0.25", "0.25", true},   {"x>0.24", "0.25", true},    {"x>0.25", "0.25", false},
        {"x>=0.25", "0.25", true},   {"x>=0.251", "0.25", false}, {"x<-0.24", "-0.25", true},
        {"x<-0.25", "-0.25", false}, {"x>-1", "0", true},         {"x<1", "-9", true},
        {"x>89.98", "89.99", true},  {"x<90", "89.99", true},     {"x>0", "\"1,5\"", false},
        {"x>0", "\"1x\"", false},    {"x>0", "\"1.5x\"", false},  {"x>0", "\".5\"", false},
        {"x>0", "\"1.\"", true},     {"x>0", "\"\"", false},      {"x<0", "\"-\"", false},
        {"x>0", "\"+1\"", false},    {"x>0", "\"0:\"", false},    {"x>0", "\"0./\"", false},
        {"x>=0", "null", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_options o = {.format = "jsonl", .where = &rows[i].where, .wheres = 1};
        weir_logline_reader *r = NULL;
        weir_log_record record;
        weir_logline_error e;
        char line[100];
        int len = snprintf(line, sizeof line, "{\"t_ns\":1,\"key\":2,\"x\":%s}", rows[i].number);
        assert_int_equal(weir_logline_open(&r, &o, &e), WEIR_OK);
        weir_logline_result got = weir_logline_read(r, line, (size_t)len, &record, &e);
        if (got != (rows[i].holds ? WEIR_LOGLINE_REQUEST : WEIR_LOGLINE_LEFT_OUT))
            fail_msg("%s: %s: %d", rows[i].where, rows[i].number, got);
        weir_logline_close(r);
    }
}

/* All filters must hold. A line that is left out needs no key and no cost, but a time. A name that
 * no JSON line has is found. */
static void filters_of_json(void **state)
{
    (void)state;
    static const char *const where[] = {"a=", "stauts!=5"};
    weir_logline_options o = {.format = "jsonl", .key = "k", .where = where, .wheres = 2};
    weir_logline_reader *r = NULL;
    weir_log_record record;
    weir_logline_error e;
    const char *name = NULL;
    size_t len = 0;
    static const struct {
        const char *line;
        weir_logline_result want;
    } rows[] = {
        {"{\"t_ns\":1,\"a\":2}", WEIR_LOGLINE_LEFT_OUT},
        {"{\"a\":2}", WEIR_LOGLINE_BAD},
        {"{\"t_ns\":1,\"a\":\"\"}", WEIR_LOGLINE_BAD},
        {"{\"t_ns\":1,\"k\":2}", WEIR_LOGLINE_REQUEST},
    };
    assert_int_equal(weir_logline_open(&r, &o, &e), WEIR_OK);
    assert_false(weir_logline_absent(r, &name, &len));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(weir_logline_read(r, rows[i].line, strlen(rows[i].line), &record, &e),
                         rows[i].want);
    assert_true(weir_logline_absent(r, &name, &len));
    assert_int_equal(len, 6);
    assert_memory_equal(name, "stauts", 6);
    weir_logline_close(r);
}

static void filter_errors(void **state)
{
    (void)state;
    static const char form[] =
        "expected a field, one of = != < <= > >=, and a pattern or a number, like status=401";
    static const struct {
        const char *where, *place;
        const char *expected; /* NULL: form */
    } rows[] = {
        {"", "column 1: ", "expected a condition like status=401"},
        {"  ", "column 3: ", "expected a condition like status=401"},
        {"status", "column 7: ", NULL},
        {"=5", "column 1: ", NULL},
        {"a=1 b!5", "column 6: ", NULL},
        {"a<x", "column 3: ", "expected a number"},
        {"a>=", "column 4: ", "expected a number"},
        {"a>1.5.5", "column 3: ", "expected a number"},
        {"a>-", "column 3: ", "expected a number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char want[300];
        snprintf(want, sizeof want, "--where: %s%s", rows[i].place,
                 rows[i].expected ? rows[i].expected : form);
        check_option(NULL, rows[i].where, want);
    }
}

/* Opens a reader with a key and n conditions on different fields. Checks the error. */
static void open_many(const char *key, unsigned n, const char *want)
{
    char text[400] = "";
    size_t at = 0;
    for (unsigned k = 0; k < n; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "f%u!=x ", k);
    check_option(key, text, want);
}

static void limits_of_options(void **state)
{
    (void)state;
    open_many("k", 32, "--where: column 213: expected at most 32 different fields");
    open_many(NULL, 33, "--where: column 220: expected at most 32 conditions");
}

/* 32 conditions on 30 fields fit beside the names of the defaults; one more does not. */
static void limits(void **state)
{
    (void)state;
    static const struct {
        unsigned conditions, fields;
        weir_status want;
    } rows[] = {{32, 31, WEIR_OK}, {33, 1, WEIR_E_SYNTAX}, {32, 32, WEIR_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[400] = "";
        const char *where = text;
        size_t at = 0;
        for (unsigned k = 0; k < rows[i].conditions; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "f%u!=x ", k % rows[i].fields);
        weir_logline_options o = {.format = "jsonl", .where = &where, .wheres = 1};
        weir_logline_reader *r = NULL;
        weir_log_record record;
        weir_logline_error e;
        assert_int_equal(weir_logline_open(&r, &o, &e), rows[i].want);
        if (r)
            assert_int_equal(weir_logline_read(r, "{\"t_ns\":1,\"key\":2}", 18, &record, &e),
                             rows[i].fields < 31 ? WEIR_LOGLINE_REQUEST : WEIR_LOGLINE_USAGE);
        weir_logline_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates),
        cmocka_unit_test(long_keys),
        cmocka_unit_test(template_errors),
        cmocka_unit_test(filters),
        cmocka_unit_test(filters_of_json),
        cmocka_unit_test(filter_errors),
        cmocka_unit_test(limits),
        cmocka_unit_test(limits_of_options),
        cmocka_unit_test(filters_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
