/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_PAGES_H
#define WEIR_CODEC_HTTP_PAGES_H
/* The web pages: files that the program contains, compressed with gzip. tools/build-web makes the
 * table. */

#include "codec/http_message.h"

/* Finds the page of a path: /NAME, or /NAME without ".html". Returns NULL if there is none. */
const weir_http_page *weir_http_find_page(const weir_http_options *o, weir_slice path);

/* Returns whether the path is that of a page, even if this program has none. */
bool weir_http_names_page(weir_slice path);

/* Appends the file to `out`, uncompressed: page->len bytes. Returns false if there is no memory. */
bool weir_http_unpack_page(weir_buffer *out, const weir_http_page *page);

/* Makes *a the response to GET for a page: 200, or 304 if the client has this version. A client
 * that does not accept gzip gets the file uncompressed. */
void weir_http_send_page(const weir_http_page *page, const weir_http_request *r,
                         weir_http_response *a);

#endif
