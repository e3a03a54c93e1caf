/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_RECEIVE_H
#define WEIR_CODEC_HTTP_RECEIVE_H
/* The part of a session that receives a request: the callbacks of llhttp store the parts that the
 * endpoints need. Private to codec/http. */

#include "codec/http/message.h"
#include "codec/http/syntax.h"

#include <llhttp.h>

#define WEIR_HTTP_TEXT_KEPT    4096 /* bytes of buffer that a session keeps between requests */
#define WEIR_HTTP_TRACE_PARENT "traceparent" /* a header that is stored if there is a tracer */

/* A request being received. */
typedef struct weir_http_receiver {
    const weir_http_options *options;
    llhttp_t parser;

    weir_buffer text;  /* its target, then the stored header values, then its body */
    size_t phase_len;  /* bytes read of its head, or of its body with framing */
    size_t target_len; /* of the target, which begins at offset 0 of `text` */
    size_t body_begin; /* offset of the body in `text` */
    unsigned lines;    /* stored header lines: value[0..lines - 1] */
    uint8_t count[WEIR_HTTP_HEADERS + 1]; /* stored lines of each header */
    unsigned joined; /* headers with several lines, joined with ", ": value[lines..] */
    weir_http_value value[WEIR_HTTP_LINES_MAX + WEIR_HTTP_LINES_MAX / 2];
    bool is_front; /* the path is /, whose answer depends on Accept */
    bool in_api;   /* the path begins with /v1, so that key templates may read headers */
    bool forwards; /* it begins with /v1/forward-auth */
    char name[WEIR_HTTP_NAME_MAX]; /* of the header being received */
    size_t name_len;               /* WEIR_HTTP_NAME_MAX + 1: longer than every stored header */
    weir_http_syntax syntax;       /* of the head or the trailers being received */
    bool in_trailers;              /* the last chunk has arrived */
    bool keeps_line;               /* the header line being received is stored */
    bool target_done, head_done, done;
    bool keep_alive, http11, has_body;
    bool any_host;       /* a client needs a password, so that no web page can be one */
    bool own_host;       /* as in weir_http_request */
    int refused;         /* the status that refuses the request; 0: not refused */
    const char *refusal; /* why */
    uint8_t host_len;    /* of `host`; 0: none */
    char host[64];       /* the last host that check_host() accepted */
} weir_http_receiver;

/* Makes *r a receiver without a request. Do not move it afterwards: llhttp has its address.
 *  options  kept by reference. */
void weir_http_receiver_init(weir_http_receiver *r, const weir_http_options *options);

/* Parses input up to the end of a head, of the last chunk or of a request, and consumes it. At the
 * first byte that breaks a rule of syntax.h or a limit, `refused` is set. Returns whether an end
 * was reached. `done` is set at the end of a request, `in_trailers` at the last chunk; if neither
 * is set, it is the end of a head. */
bool weir_http_receive(weir_http_receiver *r, weir_buffer *in);

/* Refuses the request. Only the first reason counts. Returns -1, which makes llhttp stop. */
int weir_http_refuse(weir_http_receiver *r, int status, const char *why);

/* For each header with several lines, appends their values to `text`, joined with ", ". */
void weir_http_join_lines(weir_http_receiver *r);

/* Makes *ret the request as far as it was received; valid until `text` changes. The caller sets
 * `full`, `kept` and `peer`. */
void weir_http_received(const weir_http_receiver *r, weir_http_request *ret);

/* Forgets the request, before the next one. */
void weir_http_begin_request(weir_http_receiver *r);

#endif
