/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The web pages: paths, content codings, caching, the security headers. */

#define ZLIB_CONST

#include "codec/http/kit_test.h"
#include "codec/http/pages.h"

#include <zlib.h>

static const char text[] = "<!doctype html><title>weir</title>weir weir weir weir weir weir weir";
static uint8_t packed[256];
static weir_http_page table[] = {
    {"playground.html", "abc", packed, 0, sizeof text - 1},
    {"playground.js", "def", packed, 0, sizeof text - 1},
    {"weir.css", "012", packed, 0, sizeof text - 1},
    {"index.html", "345", packed, 0, sizeof text - 1},
};

static int pages_setup(void **state)
{
    z_stream z = {.next_in = (const Bytef *)text, .avail_in = sizeof text - 1};
    z.next_out = packed;
    z.avail_out = sizeof packed;
    if (deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        return -1;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        table[i].gzip_len = z.total_out;
    deflateEnd(&z);
    fixture *f = fixture_new();
    f->options.pages = (weir_http_page_table){table, sizeof table / sizeof table[0]};
    *state = f;
    return 0;
}

/* Browsers get a page, other clients a text. */
static void front_page(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *accept;
        bool html;
    } rows[] = {{"", false},
                {"Accept: */*\r\n", false},
                {"Accept: application/json, text/plain\r\n", false},
                {"Accept: text/htm\r\n", false},
                {"Accept: text/htmlx\r\n", false},
                {"Accept: text/html;q=0\r\n", false},
                {"Accept: Text/HTML ; q=0.1\r\n", true},
                {"Accept: text/html\r\n", true},
                {"Accept: application/xml;q=0.9, text/html;q=0.8, */*;q=0.1\r\n", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *answer = with(f, "GET /", rows[i].accept);
        assert_int_equal(status_of(answer), 200);
        has_line(answer, "Vary: Accept");
        has_line(answer, rows[i].html ? "Content-Type: text/html; charset=utf-8"
                                      : "Content-Type: text/plain; charset=utf-8");
        assert_int_equal(strcmp(body_of(answer), text) == 0, rows[i].html);
    }
    f->options.pages.len = 0;
    has_line(with(f, "GET /", "Accept: text/html\r\n"), "Content-Type: text/plain; charset=utf-8");
    f->options.pages.len = sizeof table / sizeof table[0];
}

static void paths(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *target, *type;
    } found[] = {{"/playground", "Content-Type: text/html; charset=utf-8"},
                 {"/playground.html", "Content-Type: text/html; charset=utf-8"},
                 {"/playground?x#lane=1", "Content-Type: text/html; charset=utf-8"},
                 {"/playground.js", "Content-Type: text/javascript; charset=utf-8"},
                 {"/weir.css", "Content-Type: text/css; charset=utf-8"}};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        const char *answer = get(f, found[i].target);
        assert_int_equal(status_of(answer), 200);
        has_line(answer, found[i].type);
        assert_string_equal(body_of(answer), text);
    }
    static const char *const absent[] = {"/play",       "/playground.htm", "/playground/",
                                         "/weir",       "/playgroundx",    "//playground",
                                         "/Playground", "/.html",          "/playground.html.html"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_int_equal(status_of(get(f, absent[i])), 404);
    const char *answer = post(f, "/playground", "{}");
    assert_int_equal(status_of(answer), 405);
    has_line(answer, "Allow: GET, HEAD, OPTIONS");
}

static void headers(void **state)
{
    fixture *f = *state;
    const char *answer = get(f, "/playground");
    has_line(answer, "ETag: \"abc\"");
    has_line(answer, "Vary: Accept-Encoding");
    has_line(answer, "Cache-Control: no-cache");
    assert_null(strstr(answer, "no-store")); /* which is for data */
    has_line(answer, "X-Content-Type-Options: nosniff");
    const char *policy = strstr(answer, "Content-Security-Policy: ");
    assert_non_null(policy);
    assert_null(strstr(policy, "unsafe"));
    assert_non_null(strstr(policy, "script-src-elem 'self';"));
    assert_non_null(strstr(policy, "require-trusted-types-for 'script'"));
    has_no_line(get(f, "/playground.js"), "Content-Security-Policy");
    answer = with(f, "HEAD /playground", "");
    has_line(answer, "Content-Length: 68");
    assert_string_equal(body_of(answer), "");
    /* A link on a page of another site may lead here. */
    answer = with(f, "GET /playground", "Sec-Fetch-Site: cross-site\r\n");
    assert_int_equal(status_of(answer), 200);
}

static void codings(void **state)
{
    fixture *f = *state;
    static const char *const accepting[] = {"gzip",
                                            "GZIP",
                                            "br, gzip",
                                            "gzip;q=0.5",
                                            "gzip ; q=1",
                                            "deflate,gzip;q=0.001",
                                            "identity;q=0, gzip"};
    static const char *const refusing[] = {"",      "br",    "gzip;q=0",    "gzip;q=0.000",
                                           "xgzip", "gzipx", "gzip ;q=0.0", "identity"};
    char line[128];
    for (size_t i = 0; i < sizeof accepting / sizeof accepting[0]; i++) {
        snprintf(line, sizeof line, "Accept-Encoding: %s\r\n", accepting[i]);
        const char *answer = with(f, "GET /playground.js", line);
        assert_int_equal(status_of(answer), 200);
        has_line(answer, "Content-Encoding: gzip");
        has_line(answer, "ETag: \"def-gzip\"");
        assert_memory_equal(body_of(answer), packed, table[1].gzip_len);
    }
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++) {
        snprintf(line, sizeof line, "Accept-Encoding: %s\r\n", refusing[i]);
        const char *answer = with(f, "GET /playground.js", line);
        has_no_line(answer, "Content-Encoding");
        has_line(answer, "ETag: \"def\"");
        assert_string_equal(body_of(answer), text);
    }
}

static void unchanged(void **state)
{
    fixture *f = *state;
    static const char *const same[] = {"\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*"};
    static const char *const other[] = {"\"abd\"", "abc", "\"abcd\"", "\"\"", "W/abc", "\"ABC\""};
    char line[128];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        snprintf(line, sizeof line, "If-None-Match: %s\r\n", same[i]);
        const char *answer = with(f, "GET /playground", line);
        assert_int_equal(status_of(answer), 304);
        has_line(answer, "ETag: \"abc\"");
        has_no_line(answer, "Content-Length");
        assert_string_equal(body_of(answer), "");
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        snprintf(line, sizeof line, "If-None-Match: %s\r\n", other[i]);
        assert_int_equal(status_of(with(f, "GET /playground", line)), 200);
    }
    /* The compressed page is another representation, with a tag of its own. */
    static const char gzip[] = "Accept-Encoding: gzip\r\nIf-None-Match: ";
    snprintf(line, sizeof line, "%s\"abc-gzip\"\r\n", gzip);
    const char *answer = with(f, "GET /playground", line);
    assert_int_equal(status_of(answer), 304);
    has_line(answer, "ETag: \"abc-gzip\"");
    has_no_line(answer, "Content-Encoding");
    snprintf(line, sizeof line, "%s\"abc\"\r\n", gzip);
    assert_int_equal(status_of(with(f, "GET /playground", line)), 200);
    assert_int_equal(status_of(with(f, "GET /playground", "If-None-Match: \"abc-gzip\"\r\n")), 200);
}

static void passwords(void **state)
{
    fixture *f = *state;
    static const char strange[] = "GET /playground HTTP/1.1\r\nHost: evil\r\n\r\n";
    assert_int_equal(status_of(speak(f, strange, sizeof strange - 1)), 421);
    users_kit_set_password(&f->users, "s3cret:x");
    const char *answer = get(f, "/playground");
    assert_int_equal(status_of(answer), 401);
    has_line(answer, "WWW-Authenticate: Bearer realm=\"weir\"");
    has_line(answer, "WWW-Authenticate: Basic realm=\"weir\"");
    assert_int_equal(status_of(with(f, "GET /playground", "Authorization: Bearer s3cret:x\r\n")),
                     200);
}

/* A page that is not what its length says, or that does not fit, is not unpacked. */
static void broken_pages(void **state)
{
    static const struct {
        int len, gzip_len; /* more than right */
        size_t room;
        bool good;
    } rows[] = {{0, 0, sizeof text - 1, true},
                {1, 0, 1000, false},
                {-1, 0, 1000, false},
                {0, -1, 1000, false},
                {0, 0, 10, false}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_buffer out;
        weir_http_page page = table[0];
        page.len += (size_t)rows[i].len;
        page.gzip_len += (size_t)rows[i].gzip_len;
        weir_buffer_init(&out, rows[i].room);
        assert_int_equal(weir_http_unpack_page(&out, &page), rows[i].good);
        assert_int_equal(weir_buffer_len(&out), rows[i].good ? sizeof text - 1 : 0);
        weir_buffer_free(&out);
    }
    weir_http_page broken = table[1];
    broken.len++;
    f->options.pages = (weir_http_page_table){&broken, 1};
    is_problem(get(f, "/playground.js"), 503, "out of memory for the page");
}

static void without_pages(void **state)
{
    fixture *f = *state;
    f->options.pages.len = 0;
    is_problem(get(f, "/guide"), 404,
               "this weir was built without its web pages; install clang, lld and esbuild, and "
               "build it again");
    is_problem(get(f, "/guides"), 404, "unknown path \"/guides\"; GET / lists the endpoints");
}

int main(void)
{
#define PAGES_TEST(name) cmocka_unit_test_setup_teardown(name, pages_setup, teardown)
    const struct CMUnitTest tests[] = {
        PAGES_TEST(front_page),   PAGES_TEST(paths),         PAGES_TEST(headers),
        PAGES_TEST(codings),      PAGES_TEST(unchanged),     PAGES_TEST(passwords),
        PAGES_TEST(broken_pages), PAGES_TEST(without_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
