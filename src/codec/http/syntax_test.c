/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The syntax rules: each is broken at the exact byte, however the input is split. */

#include "codec/http/syntax.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Checks `text` in a piece of `first` bytes and then byte by byte. Returns the number of valid
 * bytes. */
static size_t good_bytes(weir_http_line begin, const char *text, size_t first, const char **ret)
{
    weir_http_syntax l;
    size_t len = strlen(text), at = 0;
    weir_http_syntax_init(&l, begin);
    *ret = NULL;
    for (size_t n = first; at < len && !*ret && l.line != WEIR_HTTP_NO_LINE; n = 1) {
        size_t good = 0;
        n = n < len - at ? n : len - at;
        *ret = weir_http_syntax_check(&l, text + at, n, &good);
        assert_true(good <= n);
        assert_true(good == n || *ret || l.line == WEIR_HTTP_NO_LINE);
        at += good;
    }
    return at;
}

/*  good   the number of valid bytes.
 *  error  the beginning of the message; NULL: no error. */
static void expect(weir_http_line begin, const char *text, size_t good, const char *error)
{
    for (size_t first = 1; first <= strlen(text); first++) {
        const char *found = NULL;
        assert_int_equal(good_bytes(begin, text, first, &found), good);
        assert_true((found == NULL) == (error == NULL));
        if (error)
            assert_memory_equal(found, error, strlen(error));
    }
}

#define HEAD(text, good, error) expect(WEIR_HTTP_REQUEST_LINE, text, good, error)

static const char lf[] = "expected CR LF", folded[] = "folded header line",
                  blank[] = "malformed request line, expected one space";

static void check_heads(void **unused)
{
    (void)unused;
    HEAD("GET / HTTP/1.1\r\n\r\n", 18, NULL);
    HEAD("GET / HTTP/1.1\r\n\r\nGET  / \n", 18, NULL);
    HEAD("\r\n\r\nGET / HTTP/1.1\r\nA: b c\r\n\r\nx", 30, NULL);
    HEAD("GET / HTTP/1.1\n", 14, lf);
    HEAD("\nGET / HTTP/1.1\r\n", 0, lf);
    HEAD("GET / HTTP/1.1\r\n\n", 16, lf);
    HEAD("GET / HTTP/1.1\r\nA: b\n\r\n", 20, lf);
    HEAD("GET  / HTTP/1.1\r\n", 4, blank);
    HEAD("GET /  HTTP/1.1\r\n", 6, blank);
    HEAD("GET / HTTP/1.1 \r\n", 14, blank);
    HEAD("GET / HTTP/1.1 x\r\n", 14, blank);
    HEAD("GET / HTTP/1.1\r\n A: b\r\n", 16, folded);
    HEAD("GET / HTTP/1.1\r\nA: b\r\n\tc\r\n", 22, folded);
    HEAD("GET / HTTP/1.1\r\n: b\r\n", 16, "malformed header line");
    HEAD("GET / HTTP/1.1\r\nA:  b \r\nc:\t\r\n\r\n", 31, NULL);
}

/* A request line must end in HTTP/1.0 or HTTP/1.1. */
static void check_versions(void **unused)
{
    static const char line[] = WEIR_HTTP_BAD_REQUEST_LINE, http[] = WEIR_HTTP_BAD_VERSION;
    (void)unused;
    HEAD("GET / HTTP/1.0\r\n\r\n", 18, NULL);
    HEAD("GET / RTSP/1.0\r\n\r\n", 6, line);
    HEAD("SOURCE / ICE/1.0\r\n\r\n", 9, line);
    HEAD("GET / HTTPS/1.1\r\n\r\n", 10, line);
    HEAD("GET / http/1.1\r\n\r\n", 6, line);
    HEAD("GET / HTTP1.1\r\n\r\n", 10, line);
    HEAD("GET / HTTP/1.\r\n\r\n", 13, line);
    HEAD("GET / HTTP/1.x\r\n\r\n", 13, line);
    HEAD("GET / HTTP/1.11\r\n\r\n", 14, line);
    HEAD("GET / HTTP/1.1\t\r\n\r\n", 14, line);
    HEAD("GET / \r\n\r\n", 6, line);
    HEAD("GET / a b\r\n", 6, line);
    HEAD("GET\r\n\r\n", 4, line);
    HEAD("GET / HTTP/2.0\r\n\r\n", 11, http);
    HEAD("GET / HTTP/0.9\r\n\r\n", 11, http);
    HEAD("GET / HTTP/1.2\r\n\r\n", 13, http);
    HEAD("GET /\r\n\r\n", 6, http);
}

/* CR may appear only before LF. */
static void check_bare_cr(void **unused)
{
    static const char cr[] = "expected LF after CR";
    (void)unused;
    HEAD("\rGET / HTTP/1.1\r\n\r\n", 1, cr);
    HEAD("\r\r\nGET / HTTP/1.1\r\n\r\n", 1, cr);
    HEAD("\r\n\rGET / HTTP/1.1\r\n\r\n", 3, cr);
    HEAD("GET /\ra HTTP/1.1\r\n\r\n", 6, cr);
    HEAD("GET / HTTP/1.1\r\r\n\r\n", 15, cr);
    HEAD("GET / HTTP/1.1\rA: b\r\n\r\n", 15, cr);
    HEAD("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", 21, cr);
    HEAD("GET / HTTP/1.1\r\nA: b\r\r\n\r\n", 21, cr);
    HEAD("GET / HTTP/1.1\r\n\rA: b\r\n\r\n", 17, cr);
    HEAD("GET / HTTP/1.1\r\n\r\r\n", 17, cr);
    expect(WEIR_HTTP_FIELD_LINE, "A: b\rc\r\n", 5, cr);
    expect(WEIR_HTTP_FIELD_LINE, "\r\r\n", 1, cr);
}

static void check_trailers(void **unused)
{
    (void)unused;
    expect(WEIR_HTTP_FIELD_LINE, "\r\nGET", 2, NULL);
    expect(WEIR_HTTP_FIELD_LINE, "A: b\r\n\r\n", 8, NULL);
    expect(WEIR_HTTP_FIELD_LINE, " A: b\r\n", 0, folded);
    expect(WEIR_HTTP_FIELD_LINE, "A: b\r\n c\r\n", 6, folded);
    expect(WEIR_HTTP_FIELD_LINE, "A: b\r\n\n", 6, lf);
    expect(WEIR_HTTP_FIELD_LINE, "\n", 0, lf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_heads),
        cmocka_unit_test(check_versions),
        cmocka_unit_test(check_bare_cr),
        cmocka_unit_test(check_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
