/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compresses with zlib at its fastest level: the thread serves other clients meanwhile. */

#define ZLIB_CONST

#include "codec/http/message.h"

#include <string.h>
#include <zlib.h>

bool weir_http_any_element(weir_slice list, bool (*is)(weir_slice element, const void *ctx),
                           const void *ctx)
{
    for (size_t begin = 0; list.at && begin <= list.len;) {
        const char *comma = memchr(list.at + begin, ',', list.len - begin);
        size_t end = comma ? (size_t)(comma - list.at) : list.len;
        if (is(weir_slice_trim((weir_slice){list.at + begin, end - begin}), ctx))
            return true;
        begin = end + 1;
    }
    return false;
}

/* An element of Accept or Accept-Encoding (RFC 9110, 12.4.2): a name, perhaps with ";q=" and a
 * weight. */
static bool is_accepted(weir_slice element, const void *name)
{
    const char *semicolon = memchr(element.at, ';', element.len);
    weir_slice given = element, weight = {NULL, 0};
    if (semicolon) {
        given.len = (size_t)(semicolon - element.at);
        weight = weir_slice_trim((weir_slice){semicolon + 1, element.len - given.len - 1});
    }
    bool refused = weight.len >= 3 && weight.at[2] == '0';
    for (size_t i = 3; i < weight.len; i++)
        refused = refused && (weight.at[i] == '.' || weight.at[i] == '0');
    return weir_slice_is(weir_slice_trim(given), name) && !refused;
}

bool weir_http_accepts_gzip(const weir_http_request *r)
{
    return weir_http_any_element(r->header[WEIR_HTTP_ACCEPT_ENCODING], is_accepted, "gzip");
}

bool weir_http_accepts_html(const weir_http_request *r)
{
    return weir_http_any_element(r->header[WEIR_HTTP_ACCEPT], is_accepted, "text/html");
}

/* Appends `from` to an empty buffer, compressed. Returns false if there is no memory. */
static bool compress_to(weir_buffer *to, const weir_buffer *from)
{
    z_stream z = {.next_in = weir_buffer_data(from), .avail_in = (uInt)weir_buffer_len(from)};
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    uLong room = deflateBound(&z, weir_buffer_len(from));
    bool done = weir_buffer_reserve(to, room);
    if (done) {
        z.next_out = weir_buffer_tail(to);
        z.avail_out = (uInt)room;
        done = deflate(&z, Z_FINISH) == Z_STREAM_END;
        weir_buffer_added(to, done ? z.total_out : 0);
    }
    deflateEnd(&z);
    return done;
}

void weir_http_compress(const weir_http_request *r, weir_http_response *a)
{
    weir_buffer packed;
    weir_http_add_field(a, "Vary: Accept-Encoding\r\n");
    if (a->body->failed || !weir_http_accepts_gzip(r))
        return;
    weir_buffer_init(&packed, a->body->len_max);
    if (!compress_to(&packed, a->body)) {
        weir_buffer_free(&packed);
        return;
    }
    weir_buffer_free(a->body);
    *a->body = packed;
    weir_http_add_field(a, "Content-Encoding: gzip\r\n");
}
