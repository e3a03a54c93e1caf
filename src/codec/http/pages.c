/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The web pages. They contain no data of the daemon: what they show, they request from the
 * endpoints. */

#define ZLIB_CONST

#include "codec/http/pages.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* Scripts and styles come from this server only, and none is inline. There is no script-src or
 * default-src, because with these WebAssembly needs an `unsafe` keyword; trusted types forbid
 * eval() instead. */
#define CONTENT_SECURITY_POLICY                                                                    \
    "script-src-elem 'self'; script-src-attr 'none'; worker-src 'none'; style-src 'self'; "        \
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'none'; media-src 'none'; "          \
    "object-src 'none'; frame-src 'none'; manifest-src 'none'; base-uri 'none'; "                  \
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "             \
    "trusted-types 'none'"

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static bool is_at(const weir_http_page *page, weir_slice path)
{
    size_t len = strlen(page->name);
    if (path.len == 0 || path.at[0] != '/')
        return false;
    size_t given = path.len - 1;
    if (given != len && !(ends_in(page->name, ".html") && given == len - strlen(".html")))
        return false;
    return given > 0 && memcmp(path.at + 1, page->name, given) == 0;
}

const weir_http_page *weir_http_find_page(const weir_http_options *o, weir_slice path)
{
    for (size_t i = 0; i < o->pages.len; i++) {
        if (is_at(&o->pages.at[i], path))
            return &o->pages.at[i];
    }
    return NULL;
}

bool weir_http_names_page(weir_slice path)
{
    static const weir_http_page pages[] = {
        {.name = "playground.html"}, {.name = "guide.html"}, {.name = "dashboard.html"}};
    return is_at(&pages[0], path) || is_at(&pages[1], path) || is_at(&pages[2], path);
}

static const char *type_of(const char *name)
{
    return ends_in(name, ".html")  ? "text/html; charset=utf-8"
           : ends_in(name, ".js")  ? "text/javascript; charset=utf-8"
           : ends_in(name, ".css") ? "text/css; charset=utf-8"
                                   : "application/octet-stream";
}

/* An element of If-None-Match (RFC 9110, 13.1.2): an entity tag, compared weakly. */
static bool is_tag(weir_slice element, const void *ctx)
{
    const char *tag = ctx;
    if (element.len >= 2 && memcmp(element.at, "W/", 2) == 0)
        element = (weir_slice){element.at + 2, element.len - 2};
    return (element.len == strlen(tag) && memcmp(element.at, tag, element.len) == 0) ||
           (element.len == 1 && element.at[0] == '*');
}

bool weir_http_unpack_page(weir_buffer *out, const weir_http_page *page)
{
    z_stream z = {.next_in = page->gzip, .avail_in = (uInt)page->gzip_len};
    if (!weir_buffer_reserve(out, page->len) || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return false;
    z.next_out = weir_buffer_tail(out);
    z.avail_out = (uInt)page->len;
    int status = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (status != Z_STREAM_END || z.avail_out != 0)
        return false;
    weir_buffer_added(out, page->len);
    return true;
}

void weir_http_send_page(const weir_http_page *page, const weir_http_request *r,
                         weir_http_response *a)
{
    char tag[80];
    bool html = ends_in(page->name, ".html"), gzip = weir_http_accepts_gzip(r);
    snprintf(tag, sizeof tag, "\"%.70s%s\"", page->tag, gzip ? "-gzip" : "");
    bool unchanged = weir_http_any_element(r->header[WEIR_HTTP_IF_NONE_MATCH], is_tag, tag);
    a->type = type_of(page->name);
    if (!unchanged && !gzip && !weir_http_unpack_page(a->body, page)) {
        weir_http_problem(a, 503, "out of memory for the page");
        return;
    }
    if (!unchanged && gzip)
        weir_buffer_append(a->body, page->gzip, page->gzip_len);
    a->status = unchanged ? 304 : 200;
    a->has_cache_fields = true;
    weir_http_add_field(a, "%sETag: %s\r\nVary: Accept-Encoding\r\nCache-Control: no-cache\r\n",
                        gzip && !unchanged ? "Content-Encoding: gzip\r\n" : "", tag);
    weir_http_add_field(a, "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                           "Cross-Origin-Resource-Policy: same-origin\r\n");
    if (html)
        weir_http_add_field(a, "Content-Security-Policy: " CONTENT_SECURITY_POLICY "\r\n"
                               "Cross-Origin-Opener-Policy: same-origin\r\n");
}
