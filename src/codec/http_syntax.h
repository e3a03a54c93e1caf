/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_SYNTAX_H
#define WEIR_CODEC_HTTP_SYNTAX_H
/* The lines of an HTTP head or of trailers, checked before llhttp parses them. Versions of llhttp
 * differ in what they tolerate, and what one reader tolerates another may read as a second request
 * (request smuggling). These rules of RFC 9112 hold here whatever llhttp does:
 *
 *     every line ends in CR LF, and no CR stands anywhere else (2.2);
 *     no line begins with a blank, which would continue the line before it (5.2, obs-fold);
 *     no header has an empty name (5.1);
 *     a request line has one blank on each side of its target (3);
 *     no other blank stands in the request line;
 *     a request line ends in HTTP/1.0 or HTTP/1.1 (2.3), not in RTSP/1.0 or ICE/1.0.
 *
 * It must not know any header. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_http_line {
    WEIR_HTTP_REQUEST_LINE, /* or an empty line before it, which is skipped */
    WEIR_HTTP_FIELD_LINE,
    WEIR_HTTP_NO_LINE /* the empty line came: the head or the trailers are over */
} weir_http_line;

typedef struct weir_http_syntax {
    weir_http_line line; /* the kind of line that is arriving */
    uint8_t blanks;      /* in the request line so far */
    uint8_t version;     /* bytes of the version in the request line so far, at most 9 */
    uint8_t len;         /* bytes of the line so far: 0, 1, or 2 for more */
    char last;           /* the byte before the next one, if len > 0 */
    uint16_t status;     /* once a rule is broken: the status of the answer, 400 or 505 */
} weir_http_syntax;

/* Readies `l` for the first byte of a head, or of trailers. */
static inline void weir_http_syntax_init(weir_http_syntax *l, weir_http_line first)
{
    *l = (weir_http_syntax){.line = first};
}

/* Checks the next `len` bytes, up to the empty line that ends the head or the trailers.
 *  ret_good  written always: how many bytes are good. They end with the empty line, or before the
 *            first byte that breaks a rule, or are all there are.
 * Returns NULL, or which rule is broken: a static text. Then l->status is the status of the answer:
 * 505 for an HTTP version other than 1.0 and 1.1, else 400. The answers do not depend on how the
 * bytes were cut. After a broken rule `l` is not to be used again. */
const char *weir_http_syntax_check(weir_http_syntax *l, const char *at, size_t len,
                                   size_t *ret_good);

#endif
