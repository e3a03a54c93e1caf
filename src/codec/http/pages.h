/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_PAGES_H
#define WEIR_CODEC_HTTP_PAGES_H
/* The web pages: files that the program contains, compressed with gzip. tools/build-web makes the
 * table. */

#include "codec/http/message.h"

/* Finds the page of a path: /NAME, or /NAME without ".html". Returns NULL if there is none. */
const weir_http_page *weir_http_find_page(const weir_http_options *o, weir_slice path);

/* Returns whether the path is that of a page, even if this program has none. */
bool weir_http_names_page(weir_slice path);

/* Appends the file to `out`, uncompressed: page->len bytes. Returns false if there is no memory. */
bool weir_http_unpack_page(weir_buffer *out, const weir_http_page *page);

/* Makes *a the response to GET for a page: 200, or 304 if the client has this version. A client
 * that does not accept gzip gets the file uncompressed, under an entity tag of its own. */
void weir_http_send_page(const weir_http_page *page, const weir_http_request *r,
                         weir_http_response *a);

/* ---- the pages in the program ---------------------------------------------------------------- */

/* tools/build-web generates the definitions from the files in web/. They are empty if weir was
 * built without clang, lld and esbuild. */
extern const weir_http_page_table weir_web_pages; /* those of the daemon */

/* The page of `weir replay --html`. */
typedef struct weir_report_template {
    weir_http_page page;
    size_t data_at; /* where in the uncompressed page the report's JSON is inserted */
} weir_report_template;

extern const weir_report_template weir_report_page;

#endif
