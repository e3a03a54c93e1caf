/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the parser of log lines: tables of lines and errors, every prefix of a line, every byte of
 * a line changed, and times compared with the C library's calendar. */

#define _DEFAULT_SOURCE /* timegm() */

#include "accesslog/formats/kit_test.h"
#include "port/random_kit_test.h"

#include <time.h>

/* ---- common and combined --------------------------------------------------------------------- */

#define TIME  "[01/Aug/1995:02:00:04 -0400]"
#define HEAD  "h.example - joe " TIME
#define T0_NS (807256804 * S)
#define GET   HEAD " \"GET /a?b=1 HTTP/1.0\" 200 1713"
#define FULL  GET " \"http://r/ x\" \"Mozilla \\\"5\\\" (x)\""

#define EXPECT_TIME "expected '[' and a time like [01/Aug/1995:02:00:04 -0400]"
#define EXPECT_COST "expected a cost: a whole number from 0"
#define EXPECT_SPAN "expected a time from 1970 to 2225-09-28T23:48:52Z"

static void clf_fields(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"common", NULL, NULL, GET, T0_NS, "h.example", 1},
        {"common", "host", "bytes", GET, T0_NS, "h.example", 1713},
        {"common", "ident", "status", GET, T0_NS, "-", 200},
        {"common", "user", NULL, GET, T0_NS, "joe", 1},
        {"common", "method", NULL, GET, T0_NS, "GET", 1},
        {"common", "path", NULL, GET, T0_NS, "/a", 1},
        {"common", "uri", NULL, GET, T0_NS, "/a?b=1", 1},
        {"common", "protocol", NULL, GET, T0_NS, "HTTP/1.0", 1},
        {"common", "status", NULL, GET, T0_NS, "200", 1},
        {"common", "bytes", NULL, GET, T0_NS, "1713", 1},
        {"common", "host", "bytes", HEAD " \"GET / HTTP/1.0\" 304 -", T0_NS, "h.example", 0},
        {"common", "host", "bytes", HEAD " \"GET / HTTP/1.0\" 200 5000000000", T0_NS, "h.example",
         5000000000},
        {"combined", "bytes", NULL, FULL, T0_NS, "1713", 1},
        {"combined", "referer", "bytes", FULL, T0_NS, "http://r/ x", 1713},
        {"combined", "agent", NULL, FULL, T0_NS, "Mozilla \\\"5\\\" (x)", 1},
        {"combined", "agent", NULL, FULL " \"-\" 0.003", T0_NS, "Mozilla \\\"5\\\" (x)", 1},
        {"combined", "path", NULL, GET, T0_NS, "/a", 1},
        {"combined", "agent", NULL, GET " \"r\\\"\" \"a\"b c\"", T0_NS, "a\"b c", 1},
        {"common", "user", NULL, "::1 - john q [x] " TIME, T0_NS, "john q [x]", 1},
        {"common", "host", NULL, HEAD, T0_NS, "h.example", 1},
        {"common", "host", NULL, HEAD "garbage", T0_NS, "h.example", 1},
    };
    CHECK(rows, true);
}

#define VHOST  "example.org:443 "
#define FORGED "[01/Jan/2030:00:00:00 +0000]"
#define OTHER  "h.example - x " FORGED " "
#define TWICE  "expected one time before the request in quotes, found two; the line is ambiguous"

/* The time is the one before the request, whatever the user and the texts in quotes contain. */
static void forged_times(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"combined", NULL, NULL, OTHER TIME " \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"", T0_NS,
         "h.example", 1},
        {"combined", "user", NULL, OTHER TIME " \"GET / HTTP/1.1\" 200 1", T0_NS, "x " FORGED, 1},
        {"combined", NULL, NULL, OTHER FORGED "\\\" " TIME " \"\" 400 0", T0_NS, "h.example", 1},
        {"combined", NULL, NULL, "h - x [99/Jan/2030:00:00:00 +0000] [01/ " TIME " \"GET /\" 200 1",
         T0_NS, "h", 1},
        {"vhost_combined", NULL, NULL, VHOST OTHER TIME " \"GET / HTTP/1.1\" 200 1", T0_NS,
         "h.example", 1},
        {"combined", "agent", NULL, GET " \"r " FORGED " \" \"a " FORGED "\"", T0_NS, "a " FORGED,
         1},
        {"combined", "uri", NULL, HEAD " \"GET /a " FORGED " \" 200 1", T0_NS, "/a " FORGED " ", 1},
        {"combined", NULL, NULL, GET " \"r\" \"a " FORGED " \"", T0_NS, "h.example", 1},
        {"combined", NULL, NULL, GET " \"r\" \"a " FORGED " \\\"GET", T0_NS, "h.example", 1},
        {"common", NULL, NULL, HEAD " 200", T0_NS, "h.example", 1},
    };
    static const line_row errors[] = {
        {"common", NULL, NULL, OTHER TIME, BAD, "column 15: " TWICE, 0},
        {"common", NULL, NULL, OTHER TIME " GET / 200", BAD, "column 15: " TWICE, 0},
        {"common", NULL, NULL, OTHER "\"GET / HTTP/1.1\" 200 1 " TIME " \"GET / HTTP/1.1\" 401 1",
         BAD, "column 15: " TWICE, 0},
        {"combined", NULL, NULL, OTHER "\" " TIME " \"GET / HTTP/1.1\" 401 1", BAD,
         "column 15: " TWICE, 0},
        {"traefik", NULL, NULL,
         OTHER "\"GET / HTTP/1.1\" 200 1 " TIME
               " \"GET / HTTP/1.1\" 401 1 \"-\" \"-\" 17 \"r\" \"s\" 3ms",
         BAD, "column 15: " TWICE, 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

/* Texts that stand for no client, or for several. */
static void clients_that_are_none(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"combined", "path", NULL, "- - - " TIME " \"GET /a HTTP/1.0\" 200 1", T0_NS, "/a", 1},
    };
    static const line_row errors[] = {
        {"combined", NULL, NULL, "- - - " TIME, BAD, "column 1: expected a client, found '-'", 0},
        {"combined", NULL, NULL, "\"1.1.1.1\" - - " TIME, BAD,
         "column 1: expected a host without quotes", 0},
        {"common", NULL, NULL, "1.1.1.1,2.2.2.2 - - " TIME, BAD,
         "column 1: expected one host, found a list", 0},
        {"vhost_common", NULL, NULL, "v \"1.1.1.1\" - - " TIME, BAD,
         "column 3: expected a host without quotes", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

#define CLIENT "1.2.3.4 - - " TIME
#define NOT_IDENT                                                                                  \
    "expected an ident or '-'; if the line starts with a virtual host, use --format "              \
    "vhost_combined or vhost_common"

/* The vhost kinds find the client behind the virtual host. They refuse lines of other kinds, and
 * other kinds refuse theirs. */
static void virtual_hosts(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"vhost_common", NULL, NULL, VHOST CLIENT, T0_NS, "1.2.3.4", 1},
        {"vhost_common", "vhost", NULL, VHOST CLIENT, T0_NS, "example.org:443", 1},
        {"vhost_common", "vhost", NULL, "example.org " CLIENT, T0_NS, "example.org", 1},
        {"vhost_common", "host", NULL, "[::1]:443 2001:db8::1 - - " TIME, T0_NS, "2001:db8::1", 1},
        {"vhost_common", "user", NULL, "a b - john q " TIME, T0_NS, "john q", 1},
        {"vhost_combined", "path", "bytes", VHOST FULL, T0_NS, "/a", 1713},
        {"vhost_combined", "agent", NULL, VHOST FULL, T0_NS, "Mozilla \\\"5\\\" (x)", 1},
        {"vhost_combined", "host", NULL, VHOST FULL, T0_NS, "h.example", 1},
        {"combined", "user", NULL, "1.2.3.4 - - joe " TIME, T0_NS, "- joe", 1},
        {"combined", "user", NULL, "h ident john q " TIME, T0_NS, "john q", 1},
        {"combined", "ident", NULL, "h john.doe joe " TIME, T0_NS, "john.doe", 1},
        {"combined", "user", NULL, "h ident -x y " TIME, T0_NS, "-x y", 1},
        {"combined", "user", NULL, "h ident x y " TIME, T0_NS, "x y", 1},
        {"combined", "host", NULL, "a: ident john q " TIME, T0_NS, "a:", 1},
        {"combined", "host", NULL, "a:x ident john q " TIME, T0_NS, "a:x", 1},
        {"combined", "host", NULL, "80 ident john q " TIME, T0_NS, "80", 1},
        {"vhost_common", NULL, NULL, "v -x - - " TIME, T0_NS, "-x", 1},
        {"combined", "host", NULL, "1.2.3.4:5678 - john q " TIME, T0_NS, "1.2.3.4:5678", 1},
    };
    static const line_row errors[] = {
        {"combined", NULL, NULL, VHOST CLIENT, BAD, "column 17: " NOT_IDENT, 0},
        {"common", NULL, NULL, "example.org " CLIENT, BAD, "column 13: " NOT_IDENT, 0},
        {"common", NULL, NULL, "example.org 1.2.3.4 - joe " TIME, BAD, "column 13: " NOT_IDENT, 0},
        {"common", NULL, NULL, "example.org localhost - joe " TIME, BAD, "column 13: " NOT_IDENT,
         0},
        {"common", NULL, NULL, "example.org client.example x joe " TIME, BAD,
         "column 13: " NOT_IDENT, 0},
        {"common", NULL, NULL, "a:80 localhost ident joe " TIME, BAD, "column 6: " NOT_IDENT, 0},
        {"common", NULL, NULL, "a:909 localhost ident joe " TIME, BAD, "column 7: " NOT_IDENT, 0},
        {"common", NULL, NULL, "example.org 2001:db8::1 - " TIME, BAD, "column 13: " NOT_IDENT, 0},
        {"combined", "agent", NULL, VHOST FULL, BAD, "column 17: " NOT_IDENT, 0},
        {"common", NULL, NULL, "9.9.9.9, 1.2.3.4 - - " TIME, BAD,
         "column 1: expected one host, found a list", 0},
        {"vhost_common", NULL, NULL, "v 9.9.9.9, 1.2.3.4 - - " TIME, BAD,
         "column 3: expected one host, found a list", 0},
        {"vhost_common", NULL, NULL, "9.9.9.9, 1.2.3.4 - - " TIME, BAD,
         "column 1: expected one host, found a list", 0},
        {"vhost_combined", NULL, NULL, CLIENT, BAD,
         "column 9: expected the client's host behind the virtual host, found '-'; if the line "
         "starts with the client, use --format combined or common",
         0},
        {"vhost_combined", NULL, NULL, "v - ", BAD,
         "column 3: expected the client's host behind the virtual host, found '-'; if the line "
         "starts with the client, use --format combined or common",
         0},
        {"vhost_common", NULL, NULL, "v 1.2.3.4 5.6.7.8 - - " TIME, BAD,
         "column 11: expected an ident or '-'", 0},
        {"vhost_common", NULL, NULL, "example.org", BAD, "column 12: " EXPECT_TIME, 0},
        {"vhost_common", NULL, NULL, "9.9.9.9, x", BAD, "column 11: " EXPECT_TIME, 0},
        {"vhost_common", "vhost", NULL, " 1.2.3.4 - - " TIME, BAD,
         "column 1: expected a virtual host", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

static void clf_garbage_requests(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"common", "path", NULL, HEAD " \"GET /a\" 200 1", T0_NS, "/a", 1},
        {"common", "path", "bytes", HEAD " \"GET /a\"b\" c HTTP/1.0\" 404 7", T0_NS, "/a\"b\" c",
         7},
        {"common", "uri", NULL, HEAD " \"GET /a\\\" 200 1 HTTP/1.0\" 404 7", T0_NS, "/a\\\" 200 1",
         1},
        {"common", "path", NULL, HEAD " \"GET /a\\\\\" 404 7", T0_NS, "/a\\\\", 1},
        {"common", "method", NULL, HEAD " \"M-SEARCH * HTTP/1.1\" 400 0", T0_NS, "M-SEARCH", 1},
        {"common", "method", NULL, HEAD " \"QUIT\" 400 0", T0_NS, "QUIT", 1},
        {"common", "method", NULL, HEAD " \"AZaz / HTTP/1.1\" 400 0", T0_NS, "AZaz", 1},
        {"common", "method", NULL, HEAD " \"A_1 / HTTP/1.1\" 400 0", T0_NS, "A_1", 1},
        {"common", "uri", NULL, HEAD " \"GET /a\" 20x\" 200 1", T0_NS, "/a\" 20x", 1},
        {"common", "uri", NULL, HEAD " \"GET /a\" 20x b\" 200 1", T0_NS, "/a\" 20x b", 1},
        {"common", "path", NULL, HEAD " \"GET /a HTTPX1.0\" 200 1", T0_NS, "/a HTTPX1.0", 1},
        {"common", "uri", NULL, HEAD " \"GET /a\" 2000\" 200 1", T0_NS, "/a\" 2000", 1},
        {"common", "uri", NULL, HEAD " \"GET /a\" -x\" 200 1", T0_NS, "/a\" -x", 1},
        {"common", "uri", NULL, HEAD " \"GET /a HTTP/\" 200 1", T0_NS, "/a HTTP/", 1},
        {"common", "protocol", NULL, HEAD " \"GET /a HTTP/2\" 200 1", T0_NS, "HTTP/2", 1},
        {"common", "status", NULL, HEAD " \"\" -", T0_NS, "-", 1},
        {"common", "status", "bytes", HEAD " \"\" 400 0", T0_NS, "400", 0},
        {"common", "status", "bytes", HEAD " \"-\" - 0", T0_NS, "-", 0},
        {"common", "status", NULL, HEAD " \"\\x16\\x03\\x01\" 400", T0_NS, "400", 1},
        {"common", "uri", NULL, HEAD " \"\x16 /x\" 400 0", T0_NS, "/x", 1},
        {"common", "protocol", NULL, HEAD " \"GET HTTP/1.0\" 400 0", T0_NS, "HTTP/1.0", 1},
    };
    CHECK(rows, true);
}

static void clf_errors(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"common", NULL, NULL, "h", BAD, "column 2: " EXPECT_TIME, 0},
        {"common", NULL, NULL, "h - - nope", BAD, "column 7: " EXPECT_TIME, 0},
        {"common", NULL, NULL, "h - - [", BAD, "column 7: " EXPECT_TIME, 0},
        {"common", NULL, NULL, " - - " TIME, BAD, "column 1: expected a client", 0},
        {"common", "path", NULL, HEAD, BAD,
         "column 45: expected a request in quotes that has a path", 0},
        {"common", "protocol", NULL, HEAD " \"GET /a\" 200 1", BAD,
         "column 47: expected a request in quotes that has a protocol", 0},
        {"common", "method", NULL, HEAD " \"-\" 400 0", BAD,
         "column 47: expected a request in quotes that has a method", 0},
        {"common", "uri", NULL, HEAD " \"GET /a", BAD,
         "column 47: expected a request in quotes that has a uri", 0},
        {"common", "path", NULL, HEAD " \"GET ?q HTTP/1.0\" 200 1", BAD,
         "column 51: expected a request in quotes that has a path", 0},
        {"common", "uri", NULL, HEAD " \"GET HTTP/1.0\" 400 0", BAD,
         "column 51: expected a request in quotes that has a uri", 0},
        {"common", "method", NULL, HEAD " \"1A / HTTP/1.0\" 400 0", BAD,
         "column 47: expected a request in quotes that has a method", 0},
        {"common", "path", NULL, HEAD " \"", BAD,
         "column 47: expected a request in quotes that has a path", 0},
        {"common", "path", NULL, HEAD "\"GET /a\" 200 1", BAD,
         "column 45: expected a request in quotes that has a path", 0},
        {"common", "user", NULL, "h -  " TIME, BAD, "column 5: expected a user", 0},
        {"common", NULL, NULL, "h - a b [01/", BAD, "column 9: " EXPECT_TIME, 0},
        {"common", NULL, NULL, "h - a b [01", BAD, "column 7: " EXPECT_TIME, 0},
        {"common", "host", "bytes", HEAD " \"GET /a\" 200", BAD,
         "column 58: expected a request in quotes, then a status and bytes", 0},
        {"common", "host", "bytes", HEAD " \"GET /a\" 200 x", BAD, "column 59: " EXPECT_COST, 0},
        {"common", "host", "bytes", HEAD " \"GET /a\" 200 -1", BAD, "column 59: " EXPECT_COST, 0},
        {"combined", "referer", NULL, GET, BAD, "column 76: expected a referer in quotes", 0},
        {"combined", "agent", NULL, GET " \"r\"", BAD, "column 80: expected an agent in quotes", 0},
        {"combined", "agent", NULL, GET " \"r\" \"a", BAD, "column 81: expected an agent in quotes",
         0},
        {"combined", "referer", NULL, GET " \"\" \"a\"", BAD,
         "column 78: expected a referer in quotes", 0},
        {"combined", "referer", NULL, GET " - \"a\"", BAD,
         "column 77: expected a referer in quotes", 0},
        {"combined", "agent", NULL, GET " - \"a\"", BAD, "column 77: expected an agent in quotes",
         0},
        {"combined", "agent", NULL, GET " \"r\" a \"b\"", BAD,
         "column 81: expected an agent in quotes", 0},
        {"combined", "referer", NULL, GET " ", BAD, "column 77: expected a referer in quotes", 0},
    };
    CHECK(rows, false);
}

enum { NO = -1, OUT = -2 };

static void clf_times(void **state)
{
    (void)state;
    static const struct {
        const char *time;
        int64_t want; /* nanoseconds; NO: no time; OUT: out of range */
    } rows[] = {
        {"01/Jan/1970:00:00:00 +0000", 0},
        {"31/Dec/1969:23:30:00 -0030", 0},
        {"01/Jan/1970:00:00:00 +0001", OUT},
        {"31/Dec/1969:23:59:59 +0000", OUT},
        {"28/Sep/2225:23:48:52 +0000", 8070450532 * S},
        {"28/Sep/2225:23:48:52.247928832 +0000", WEIR_NOW_NS_MAX},
        {"28/Sep/2225:23:48:52.247928833 +0000", OUT},
        {"01/Jan/9999:00:00:00 +0000", OUT},
        {"29/Feb/2000:12:00:00 +0000", 951825600 * S},
        {"29/Feb/2024:00:00:00 +0000", 1709164800 * S},
        {"29/Feb/2100:00:00:00 +0000", NO},
        {"29/Feb/2023:00:00:00 +0000", NO},
        {"30/Feb/2024:00:00:00 +0000", NO},
        {"32/Jan/2023:00:00:00 +0000", NO},
        {"31/Apr/2023:00:00:00 +0000", NO},
        {"31/Jun/2023:00:00:00 +0000", NO},
        {"31/Sep/2023:00:00:00 +0000", NO},
        {"31/Nov/2023:00:00:00 +0000", NO},
        {"00/Apr/2023:00:00:00 +0000", NO},
        {"01/apr/2023:00:00:00 +0000", NO},
        {"01/Foo/2023:00:00:00 +0000", NO},
        {"01/Apr/2023:24:00:00 +0000", NO},
        {"01/Apr/2023:00:60:00 +0000", NO},
        {"31/Dec/2016:23:59:60 +0000", 1483228800 * S},
        {"31/Dec/2016:23:59:61 +0000", NO},
        {"01/Aug/1995:02:00:04.123 -0400", T0_NS + 123000000},
        {"01/Aug/1995:02:00:04.1234567899 -0400", T0_NS + 123456789},
        {"01/Aug/1995:02:00:04. -0400", NO},
        {"01/Aug/1995:02:00:04 -2359", T0_NS + (23 * 60 + 59 - 240) * 60 * S},
        {"01/Aug/1995:02:00:04 -2400", NO},
        {"01/Aug/1995:02:00:04 -0060", NO},
        {"01/Aug/1995:02:00:04  0400", NO},
        {"01/Aug/1995 02:00:04 -0400", NO},
        {"0 /Aug/1995:02:00:04 -0400", NO},
        {"01/Aug/+995:02:00:04 -0400", NO},
    };
    weir_logline_reader *f = open_reader("common", NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[100];
        int len = snprintf(line, sizeof line, "h - - [%s]", rows[i].time);
        weir_log_record r = {0};
        weir_logline_error e;
        weir_logline_result got = weir_logline_read(f, line, (size_t)len, &r, &e);
        int64_t found = r.t_ns;
        if (got != WEIR_LOGLINE_REQUEST)
            found = strcmp(e.expected, &EXPECT_SPAN[9]) == 0 ? OUT : NO;
        if (found == NO)
            assert_string_equal(e.expected, &EXPECT_TIME[9]);
        if (found != rows[i].want)
            fail_msg("%s: %d, %lld", rows[i].time, got, (long long)r.t_ns);
    }
    weir_logline_close(f);
}

/* Compares each day, and random times from 1970 to 2225, with the C library: CLF and RFC 3339. */
static void times_equal_the_c_library(void **state)
{
    (void)state;
    weir_logline_reader *clf = open_reader("common", NULL, NULL);
    weir_logline_reader *json = open_reader("jsonl", NULL, NULL);
    uint64_t seed = 11;
    weir_log_record r = {0};
    weir_logline_error e;
    for (int64_t day = 0; day < WEIR_NOW_NS_MAX / S / 86400; day++) {
        time_t want = day * 86400 + (int64_t)(next_random(&seed) % 86400);
        int zone_min = (int)(next_random(&seed) % 2879) - 1439;
        time_t local = want + zone_min * 60;
        struct tm tm;
        char date[40], line[120];
        assert_non_null(gmtime_r(&local, &tm));
        strftime(date, sizeof date, "%d/%b/%Y:%H:%M:%S", &tm);
        int z = abs(zone_min), len = snprintf(line, sizeof line, "h - - [%s %c%02d%02d]", date,
                                              zone_min < 0 ? '-' : '+', z / 60, z % 60);
        assert_int_equal(weir_logline_read(clf, line, (size_t)len, &r, &e), WEIR_OK);
        assert_true(r.t_ns == want * S);
        if (day % 16)
            continue;
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
        len = snprintf(line, sizeof line, "{\"time\":\"%s.5%c%02d:%02d\",\"key\":1}", date,
                       zone_min < 0 ? '-' : '+', z / 60, z % 60);
        assert_int_equal(weir_logline_read(json, line, (size_t)len, &r, &e), WEIR_OK);
        assert_true(r.t_ns == want * S + S / 2);
    }
    weir_logline_close(clf);
    weir_logline_close(json);
}

/* A time is refused if any byte of it is another letter. */
static void each_byte_of_a_time_counts(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *line;
        size_t from, to; /* where the time is */
    } rows[] = {
        {"common", "h - - [01/Aug/1995:02:00:04 -0400]", 6, 34},
        {"common", "h - - [01/Aug/1995:02:00:04.5 -0400]", 6, 36},
        {"jsonl", "{\"key\":1,\"time\":\"2026-01-02T03:04:05.5Z\"}", 17, 39},
        {"jsonl", "{\"key\":1,\"time\":\"2026-01-02T03:04:05+01:00\"}", 17, 42},
    };
    weir_log_record r = {0};
    weir_logline_error e;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_reader *f = open_reader(rows[i].kind, NULL, NULL);
        size_t len = strlen(rows[i].line);
        char line[64];
        strcpy(line, rows[i].line);
        assert_int_equal(weir_logline_read(f, line, len, &r, &e), WEIR_OK);
        for (size_t at = rows[i].from; at < rows[i].to; at++) {
            strcpy(line, rows[i].line);
            line[at] = 'x';
            if (weir_logline_read(f, line, len, &r, &e) != WEIR_LOGLINE_BAD)
                fail_msg("read %s", line);
        }
        weir_logline_close(f);
    }
}

/* ---- tsv and jsonl --------------------------------------------------------------------------- */

#define EXPECT_T_NS "expected t_ns, whole nanoseconds since 1970"
#define EXPECT_KEY  "expected a key of 1 to 65536 bytes"

static void tsv_lines(void **state)
{
    (void)state;
    static const line_row good[] = {
        {"tsv", NULL, NULL, "0\tk", 0, "k", 1},
        {"tsv", NULL, NULL, "8070450532247928832\ta b\"\\\t0", WEIR_NOW_NS_MAX, "a b\"\\", 0},
        {"tsv", NULL, NULL, "0000000000000000012\tk\t2147483647", 12, "k", 2147483647},
        {"tsv", NULL, NULL, "1\tk\t2147483648", 1, "k", 2147483648},
        {"tsv", NULL, NULL, "1\tk\t9223372036854775806", 1, "k", INT64_MAX - 1},
        {"tsv", NULL, NULL, "1\tk\t9223372036854775807", 1, "k", INT64_MAX},
        {"tsv", NULL, NULL, "1\tk\t9223372036854775808", 1, "k", INT64_MAX},
        {"tsv", NULL, NULL, "1\tk\t18446744073709551617", 1, "k", INT64_MAX},
        {"tsv", NULL, NULL, "1\tk\t1000000000000000000000000000000000000000", 1, "k", INT64_MAX},
        {"tsv", NULL, NULL, "1\tk\t0000000000000000000000000000000000000007", 1, "k", 7},
    };
    static const line_row bad[] = {
        {"tsv", NULL, NULL, "-1\tk", BAD, "column 1: " EXPECT_T_NS, 0},
        {"tsv", NULL, NULL, "1.5\tk", BAD, "column 1: " EXPECT_T_NS, 0},
        {"tsv", NULL, NULL, "\tk", BAD, "column 1: " EXPECT_T_NS, 0},
        {"tsv", NULL, NULL, "00000000000000000000\tk", BAD, "column 1: " EXPECT_T_NS, 0},
        {"tsv", NULL, NULL, "8070450532247928833\tk", BAD, "column 1: " EXPECT_SPAN, 0},
        {"tsv", NULL, NULL, "17", BAD, "column 3: expected a tab, then a key", 0},
        {"tsv", NULL, NULL, "17\t", BAD, "column 4: " EXPECT_KEY, 0},
        {"tsv", NULL, NULL, "17\t\t1", BAD, "column 4: " EXPECT_KEY, 0},
        {"tsv", NULL, NULL, "17\tk\t", BAD, "column 6: " EXPECT_COST, 0},
        {"tsv", NULL, NULL, "17\tk\t-1", BAD, "column 6: " EXPECT_COST, 0},
        {"tsv", NULL, NULL, "17\tk\t99999999999999999999x", BAD, "column 6: " EXPECT_COST, 0},
        {"tsv", NULL, NULL, "17\tk\t1\tx", BAD, "column 6: " EXPECT_COST, 0},
    };
    CHECK(good, true);
    CHECK(bad, false);
}

static void jsonl_lines(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":\"k\"}", 5, "k", 1},
        {"jsonl", NULL, NULL, " {\"cost\": 0, \"key\": \"\\u00e9\\n\", \"t_ns\": 5, \"x\": [1]} ",
         5, "\xc3\xa9\n", 0},
        {"jsonl", "user", "n", "{\"t_ns\":5,\"user\":-17,\"n\":3,\"cost\":9}", 5, "-17", 3},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":true}", 5, "true", 1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":1.50}", 5, "1.5", 1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":0.1}", 5, "0.1", 1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":0.30000000000000004}", 5, "0.30000000000000004",
         1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":0.1234567890123456}", 5, "0.1234567890123456",
         1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":0.683915271066246}", 5, "0.683915271066246", 1},
        {"jsonl", NULL, NULL, "{\"time\":\"1970-01-01T00:00:00Z\",\"key\":\"k\"}", 0, "k", 1},
        {"jsonl", NULL, NULL, "{\"time\":\"1995-08-01 02:00:04.000000001-04:00\",\"key\":\"k\"}",
         T0_NS + 1, "k", 1},
        {"jsonl", NULL, NULL, "{\"time\":\"no\",\"t_ns\":6,\"key\":\"k\"}", 6, "k", 1},
    };
    CHECK(rows, true);
}

#define EXPECT_JSON "expected one JSON object on the line, without duplicate members"
#define EXPECT_TIME_JSON                                                                           \
    "column 1: " EXPECT_T_NS ", or a time like 2026-01-02T03:04:05.678Z; member "

static void jsonl_errors(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"jsonl", NULL, NULL, "[]", BAD, "column 1: " EXPECT_JSON, 0},
        {"jsonl", NULL, NULL, "{\"key\":1,\"key\":2}", BAD,
         "column 14: " EXPECT_JSON "; duplicate object key near '\"key\"'", 0},
        {"jsonl", NULL, NULL, "{} {}", BAD,
         "column 4: " EXPECT_JSON "; end of file expected near '{'", 0},
        {"jsonl", NULL, NULL, "{\"key\":\"k\"}", BAD, EXPECT_TIME_JSON "\"time\"", 0},
        {"jsonl", NULL, NULL, "{\"t_ns\":1.0,\"key\":\"k\"}", BAD, EXPECT_TIME_JSON "\"t_ns\"", 0},
        {"jsonl", NULL, NULL, "{\"time\":\"2026-02-30T00:00:00Z\",\"key\":\"k\"}", BAD,
         EXPECT_TIME_JSON "\"time\"", 0},
        {"jsonl", NULL, NULL, "{\"time\":\"2026-01-02T03:04:05\",\"key\":\"k\"}", BAD,
         EXPECT_TIME_JSON "\"time\"", 0},
        {"jsonl", NULL, NULL, "{\"time\":\"2026-01-02\\u000003:04:05Z\",\"key\":\"k\"}", BAD,
         EXPECT_TIME_JSON "\"time\"", 0},
        {"jsonl", NULL, NULL, "{\"time\":\"1969-01-02T03:04:05Z\",\"key\":\"k\"}", BAD,
         "column 1: " EXPECT_SPAN "; member \"time\"", 0},
        {"jsonl", NULL, NULL, "{\"t_ns\":-1,\"key\":\"k\"}", BAD, EXPECT_TIME_JSON "\"t_ns\"", 0},
        {"jsonl", NULL, NULL, "{\"t_ns\":1,\"key\":null}", BAD,
         "column 1: expected a key: a string, number or boolean; member \"key\"", 0},
        {"jsonl", "u", NULL, "{\"t_ns\":1,\"u\":\"\"}", BAD,
         "column 1: " EXPECT_KEY "; member \"u\"", 0},
        {"jsonl", NULL, NULL, "{\"t_ns\":1,\"key\":1,\"cost\":-2}", BAD,
         "column 1: " EXPECT_COST "; member \"cost\"", 0},
        {"jsonl", NULL, "n", "{\"t_ns\":1,\"key\":1}", BAD,
         "column 1: " EXPECT_COST "; member \"n\"", 0},
    };
    CHECK(rows, false);
}

#define HUGE_INT "18446744073709551616"

/* Integers beyond int64_t: a cost saturates, a key keeps its digits, other members are ignored. */
static void jsonl_big_integers(void **state)
{
    (void)state;
    static const line_row good[] = {
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":1,\"cost\":2147483648}", 5, "1", 2147483648},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":1,\"cost\":9223372036854775807}", 5, "1",
         INT64_MAX},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":1,\"cost\":9223372036854775808}", 5, "1",
         INT64_MAX},
        {"jsonl", NULL, NULL,
         "{\"t_ns\":8070450532247928831,\"cost\": " HUGE_INT " ,\"key\":\"a\\\"\"}",
         WEIR_NOW_NS_MAX - 1, "a\"", INT64_MAX},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":" HUGE_INT "}", 5, HUGE_INT, 1},
        {"jsonl", NULL, NULL, "{\"x\":\"\\\" a " HUGE_INT "\",\"t_ns\":5,\"key\":" HUGE_INT "}", 5,
         HUGE_INT, 1},
        {"jsonl", NULL, NULL, "{\"x\":\"\\\\\",\"t_ns\":5,\"key\":" HUGE_INT "}", 5, HUGE_INT, 1},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":" HUGE_INT ".5}", 5,
         "1.8446744073709552e19", 1},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":0." HUGE_INT "}", 5,
         "0.1844674407370955", 1},
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":-" HUGE_INT ",\"cost\":3}", 5, "-" HUGE_INT, 3},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":0}", 5, "0", 1},
        {"jsonl", NULL, NULL,
         "{\"x\":[-" HUGE_INT "," HUGE_INT "],\"t_ns\":5,\"key\":\"" HUGE_INT "\"}", 5, HUGE_INT,
         1},
    };
    static const line_row bad[] = {
        {"jsonl", NULL, NULL, "{\"t_ns\":5,\"key\":1,\"cost\":-" HUGE_INT "}", BAD,
         "column 1: " EXPECT_COST "; member \"cost\"", 0},
        {"jsonl", NULL, NULL, "{\"t_ns\":" HUGE_INT ",\"key\":1}", BAD, EXPECT_TIME_JSON "\"t_ns\"",
         0},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":1,\"key\":2}", BAD,
         "column 25: " EXPECT_JSON "; too big integer near '" HUGE_INT "'", 0},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",}", BAD,
         "column 25: " EXPECT_JSON "; too big integer near '" HUGE_INT "'", 0},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":0" HUGE_INT "}", BAD,
         "column 25: " EXPECT_JSON "; too big integer near '" HUGE_INT "'", 0},
        {"jsonl", NULL, NULL, "{\"x\":" HUGE_INT ",\"t_ns\":5,\"key\":-}", BAD,
         "column 25: " EXPECT_JSON "; too big integer near '" HUGE_INT "'", 0},
    };
    CHECK(good, true);
    CHECK(bad, false);
}

static void jsonl_missing_key(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool want;
    } rows[] = {
        {"{\"t_ns\":1}", true},
        {"{\"t_ns\":1,\"key\":null}", false},
        {"{\"t_ns\":1,\"cost\":-1}", false},
        {"{}", false},
        {"{\"t_ns\":1", false},
        {"[]", false},
    };
    weir_logline_reader *f = open_reader("jsonl", NULL, NULL);
    weir_log_record r = {0};
    weir_logline_error e;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        e.key_absent = !rows[i].want;
        weir_logline_result got = weir_logline_read(f, rows[i].line, strlen(rows[i].line), &r, &e);
        assert_int_equal(got, WEIR_LOGLINE_BAD);
        if (e.key_absent != rows[i].want)
            fail_msg("%s", rows[i].line);
    }
    weir_logline_close(f);
}

/* ---- all kinds ------------------------------------------------------------------------------- */

static void keys_have_a_maximum_length(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tsv", "jsonl", "common"};
    static const char *const heads[] = {"1\t", "{\"t_ns\":1,\"key\":\"", ""};
    static const char *const tails[] = {"\t1", "\"}", (" - - " TIME)};
    static char line[WEIR_LOGLINE_KEY_LEN_MAX + 100];
    weir_log_record r = {0};
    weir_logline_error e;
    for (size_t k = 0; k < 3; k++) {
        weir_logline_reader *f = open_reader(kinds[k], NULL, NULL);
        for (size_t over = 0; over < 2; over++) {
            size_t head = strlen(heads[k]), tail = strlen(tails[k]);
            size_t key = WEIR_LOGLINE_KEY_LEN_MAX + over;
            memcpy(line, heads[k], head);
            memset(line + head, 'k', key);
            memcpy(line + head + key, tails[k], tail);
            weir_logline_result got = weir_logline_read(f, line, head + key + tail, &r, &e);
            assert_int_equal(got, over ? WEIR_LOGLINE_BAD : WEIR_LOGLINE_REQUEST);
            assert_int_equal(r.key_len, WEIR_LOGLINE_KEY_LEN_MAX);
        }
        weir_logline_close(f);
    }
}

/* Any prefix of a line, and a line with any byte changed, is read or refused without an access
 * beyond its end. */
static void damaged_lines_are_refused_or_read(void **state)
{
    (void)state;
    static const char *const lines[] = {FULL, "17\tkey\t5",
                                        "{\"time\":\"2026-01-02T03:04:05.5Z\",\"key\":1}"};
    static const char *const kinds[] = {"combined", "tsv", "jsonl"};
    weir_log_record r = {0};
    weir_logline_error e;
    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(lines[i]);
        for (size_t at = 0; at < len; at++) {
            for (size_t c = 0; c < 9 + (i == 0) * 8; c++) {
                weir_logline_reader *f = open_reader(kinds[i],
                                                     i > 0   ? NULL
                                                     : c % 2 ? "agent"
                                                             : "path",
                                                     i > 0 || c % 3 ? NULL : "bytes");
                char line[200], *copy = NULL;
                strcpy(line, lines[i]);
                if (c > 0)
                    line[at] = " \"\\[\t0\r{\xff"[c % 9];
                weir_logline_result got = read_copy(f, line, c > 0 ? len : at, &r, &e, &copy);
                if (got == WEIR_LOGLINE_BAD && (e.column < 1 || e.column > len + 1))
                    fail_msg("%s: column %zu", line, e.column);
                if (got == WEIR_LOGLINE_REQUEST && i < 2)
                    assert_true(r.key >= copy && r.key + r.key_len <= copy + len);
                weir_logline_close(f);
                free(copy);
            }
        }
    }
}

/* A prefix of a line is read as if nothing followed, whatever follows it in memory. */
static void bytes_beyond_the_end_do_not_matter(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *key, *line;
    } rows[] = {
        {"combined", "agent", FULL},
        {"common", "path", HEAD " \"GET /a\" - -"},
        {"vhost_common", "user", "v - john q [x] " TIME},
        {"vhost_common", "host", "[::1]:443 client.example x joe " TIME},
        {"common", "host", "a:80 localhost ident joe [01/Aug/1995:02:00:04.5 -0400] "},
        {"tsv", NULL, "17\tkey\t5"},
        {"jsonl", NULL, "{\"t_ns\":" HUGE_INT ",\"time\":\"2026-01-02T03:04:05.5Z\",\"key\":-1}"},
    };
    weir_log_record r = {0}, r_alone = {0};
    weir_logline_error e = {0}, e_alone = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_reader *f = open_reader(rows[i].kind, rows[i].key, NULL);
        weir_logline_reader *f_alone = open_reader(rows[i].kind, rows[i].key, NULL);
        for (size_t len = 0; len <= strlen(rows[i].line); len++) {
            char *alone, line[200];
            weir_logline_result got =
                read_copy(f_alone, rows[i].line, len, &r_alone, &e_alone, &alone);
            for (const char *next = "\" -0/:.[,'\\\t\n"; *next; next++) {
                memset(line, *next, sizeof line);
                memcpy(line, rows[i].line, len);
                assert_int_equal(weir_logline_read(f, line, len, &r, &e), got);
                if (got == WEIR_LOGLINE_REQUEST) {
                    assert_true(r.t_ns == r_alone.t_ns && r.cost == r_alone.cost);
                    assert_int_equal(r.key_len, r_alone.key_len);
                    assert_memory_equal(r.key, r_alone.key, r.key_len);
                } else if (got == WEIR_LOGLINE_BAD) {
                    assert_int_equal(e.column, e_alone.column);
                    assert_string_equal(e.expected, e_alone.expected);
                }
            }
            free(alone);
        }
        weir_logline_close(f);
        weir_logline_close(f_alone);
    }
}

/* A number does not depend on the digits of the one before. */
static void a_number_ends_after_its_digits(void **state)
{
    (void)state;
    static const char longer[] = "{\"t_ns\":5,\"key\":0.30000000000000004}";
    static const char shorter[] = "{\"t_ns\":5,\"key\":0.1}";
    weir_logline_reader *f = open_reader("jsonl", NULL, NULL);
    weir_log_record r = {0};
    weir_logline_error e;
    weir_logline_result first = weir_logline_read(f, longer, sizeof longer - 1, &r, &e);
    weir_logline_result second = weir_logline_read(f, shorter, sizeof shorter - 1, &r, &e);
    assert_true(first == WEIR_LOGLINE_REQUEST && second == WEIR_LOGLINE_REQUEST);
    assert_int_equal(r.key_len, 3);
    weir_logline_close(f);
}

/* Opens a reader that must fail. */
static void check_option(const char *format, const char *key, const char *cost, const char *where,
                         weir_status want, const char *want_text)
{
    weir_logline_options o = {.format = format, .key = key, .cost = cost, .where = &where};
    weir_logline_reader *r = NULL;
    weir_logline_error e;
    char text[500] = "";
    o.wheres = where != NULL;
    weir_status got = weir_logline_open(&r, &o, &e);
    assert_null(r);
    assert_int_equal(got, want);
    weir_logline_error_text(&e, text, sizeof text);
    if (strncmp(text, want_text, strlen(want_text)) != 0)
        fail_msg("%s, expected %s", text, want_text);
}

static void options_that_are_wrong(void **state)
{
    (void)state;
    check_option("clf", NULL, NULL, NULL, WEIR_E_SYNTAX, "--format: expected combined, common, ");
    check_option("common", "ip", NULL, NULL, WEIR_E_UNSUPPORTED,
                 "--key: a common line has no field 'ip', expected one of client ident user ");
    check_option("common", NULL, "size", NULL, WEIR_E_UNSUPPORTED, "--cost: a common line has no");
    check_option("common", "referer", NULL, NULL, WEIR_E_UNSUPPORTED, "--key: a common line");
    check_option("common", NULL, NULL, "agent=x", WEIR_E_UNSUPPORTED, "--where: a common line");
    check_option("common", NULL, NULL, "status==200", WEIR_E_SYNTAX,
                 "--where: column 8: expected a pattern, not another '=', like status=401");
    check_option("common", NULL, NULL, "status!==200", WEIR_E_SYNTAX, "--where: column 9: ");
    check_option("common", "$host", NULL, NULL, WEIR_E_UNSUPPORTED,
                 "--key: $host is ambiguous: $client is the client, $vhost the virtual host");
    check_option("common", "host", NULL, "host=a", WEIR_E_UNSUPPORTED, "--where: $host is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clf_fields),
        cmocka_unit_test(forged_times),
        cmocka_unit_test(clients_that_are_none),
        cmocka_unit_test(virtual_hosts),
        cmocka_unit_test(clf_garbage_requests),
        cmocka_unit_test(clf_errors),
        cmocka_unit_test(clf_times),
        cmocka_unit_test(tsv_lines),
        cmocka_unit_test(times_equal_the_c_library),
        cmocka_unit_test(each_byte_of_a_time_counts),
        cmocka_unit_test(jsonl_lines),
        cmocka_unit_test(jsonl_errors),
        cmocka_unit_test(jsonl_big_integers),
        cmocka_unit_test(jsonl_missing_key),
        cmocka_unit_test(bytes_beyond_the_end_do_not_matter),
        cmocka_unit_test(a_number_ends_after_its_digits),
        cmocka_unit_test(options_that_are_wrong),
        cmocka_unit_test(keys_have_a_maximum_length),
        cmocka_unit_test(damaged_lines_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
