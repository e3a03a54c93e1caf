/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_SYNTAX_H
#define WEIR_CODEC_HTTP_SYNTAX_H
/* Strict syntax checks of the lines of an HTTP head and of trailers, before llhttp parses them.
 * They prevent request smuggling: a line that one parser tolerates may be a second request to
 * another, and versions of llhttp tolerate different lines. The rules are those of RFC 9112:
 *
 *     every line ends in CR LF, and CR appears nowhere else (2.2);
 *     no line begins with a space or a tab, which would continue the line before (5.2, obs-fold);
 *     no header has an empty name (5.1);
 *     a request line has exactly one space on each side of its target, and no other space (3);
 *     a request line ends in HTTP/1.0 or HTTP/1.1 (2.3), not in RTSP/1.0 or ICE/1.0.
 *
 * It must not know any header. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Errors that the session reports too. */
#define WEIR_HTTP_BAD_REQUEST_LINE                                                                 \
    "malformed request line, expected one such as GET /healthz HTTP/1.1"
#define WEIR_HTTP_BAD_HEADER_LINE "malformed header line, expected NAME: VALUE"
#define WEIR_HTTP_BAD_VERSION     "unsupported protocol version, expected HTTP/1.1 or HTTP/1.0"

typedef enum weir_http_line {
    WEIR_HTTP_REQUEST_LINE, /* or an empty line before it, which is skipped */
    WEIR_HTTP_FIELD_LINE,   /* a header or a trailer */
    WEIR_HTTP_NO_LINE       /* the empty line that ends the head or the trailers was read */
} weir_http_line;

typedef struct weir_http_syntax {
    weir_http_line line; /* the kind of the current line */
    uint8_t blanks;      /* spaces in the request line so far */
    uint8_t version;     /* bytes of the version in the request line so far, at most 9 */
    uint8_t len;         /* bytes of the line so far: 0, 1, or 2 for any more */
    char last;           /* the previous byte, if len > 0 */
    uint16_t status;     /* of the response to a broken rule: 400 or 505 */
} weir_http_syntax;

/* Prepares `l` for the first byte of a head or of trailers. */
static inline void weir_http_syntax_init(weir_http_syntax *l, weir_http_line first)
{
    *l = (weir_http_syntax){.line = first};
}

/* Checks the next `len` bytes, up to the empty line that ends the head or the trailers.
 *  ret_good  always written: the number of valid bytes. It ends after the empty line, before the
 *            first byte that breaks a rule, or at `len`.
 * Returns NULL, or a static message that names the broken rule. Then l->status is the status of the
 * response: 505 for an HTTP version other than 1.0 and 1.1, otherwise 400. The result does not
 * depend on how the input was split. Do not use `l` after a broken rule. */
const char *weir_http_syntax_check(weir_http_syntax *l, const char *at, size_t len,
                                   size_t *ret_good);

#endif
