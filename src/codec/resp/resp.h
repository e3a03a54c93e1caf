/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_RESP_H
#define WEIR_CODEC_RESP_RESP_H
/* The server's side of RESP, the protocol of Redis and Valkey: a request parser and a reply writer.
 *
 *     weir_slice arg[WEIR_RESP_ARGS_MAX];
 *     uint8_t words[WEIR_RESP_INLINE_LEN_MAX];
 *     weir_resp_request req = {.arg = arg, .words = words};
 *     do {
 *         r = weir_resp_next(&parser, weir_buffer_data(in), weir_buffer_len(in), &req);
 *         if (r == WEIR_RESP_REQUEST) answer(&req, out);     // writes with weir_resp_put_*()
 *         weir_buffer_consume(in, req.used);
 *     } while (r == WEIR_RESP_REQUEST);
 *
 * Parses requests and serialises replies. Knows no command, socket or clock, and allocates nothing
 * but the memory of the output buffer. */

#include "port/buffer.h"
#include "port/text.h"

/* ---- requests -------------------------------------------------------------------------------- */

#define WEIR_RESP_ARGS_MAX        64
#define WEIR_RESP_ARG_LEN_MAX     (65536 + 4096) /* more than the longest key and policy text */
#define WEIR_RESP_INLINE_LEN_MAX  65536
#define WEIR_RESP_REQUEST_LEN_MAX (1 << 20)
#define WEIR_RESP_LINE_LEN_MAX    32 /* of a length with its CR LF; a valid one has at most 22 */

/* Limits of one client, 1..SIZE_MAX/8. A request is refused as soon as one of its lengths is
 * greater. */
typedef struct weir_resp_limits {
    size_t args_max;        /* arguments of a request, with the name of the command */
    size_t arg_len_max;     /* bytes of one argument */
    size_t inline_len_max;  /* bytes of an inline request before its LF */
    size_t request_len_max; /* bytes of any other request, with lengths and CR LF */
} weir_resp_limits;

typedef enum weir_resp_result {
    WEIR_RESP_NEED_MORE,
    WEIR_RESP_REQUEST,
    WEIR_RESP_ERROR,     /* send the text as an error reply, then close */
    WEIR_RESP_HTTP_GUARD /* HTTP from a browser (POST, Host:): close without a reply */
} weir_resp_result;

/* The parser of a connection; private. All numbers are offsets from the first byte of the request,
 * so the input may move between calls. The arguments are not kept between calls. A request that
 * arrived in pieces is parsed once more when it is complete. */
typedef struct weir_resp_parser {
    const weir_resp_limits *limits;
    size_t pos;   /* of the next length, or where the search for the LF goes on; 0 at the start */
    size_t want;  /* with fewer bytes the answer is WEIR_RESP_NEED_MORE */
    size_t first; /* where the length of the first argument is */
    size_t count; /* the arguments announced */
    size_t found; /* the arguments before `pos` */
} weir_resp_parser;

/* A request. Valid until the next call; one for each thread is enough. */
typedef struct weir_resp_request {
    weir_slice *arg;   /* in: an array of limits->args_max. out: `at` is never NULL */
    uint8_t *words;    /* in: limits->inline_len_max bytes, for words with quotes */
    bool is_inline;    /* the request was a line of words */
    bool decoded;      /* some arguments point into `words` */
    size_t args;       /* 1..args_max on REQUEST, else 0 */
    size_t used;       /* bytes of the input to drop before the next call; see weir_resp_next() */
    const char *error; /* on ERROR: "Protocol error: ..."; static or in `text` */
    char text[48];
} weir_resp_request;

/* Initialises the parser of a connection.
 *  limits  must outlive the parser; NULL means the WEIR_RESP_*_MAX above. */
void weir_resp_init(weir_resp_parser *p, const weir_resp_limits *limits);

/* Parses one request at the front of the input.
 *  bytes  the input that was not yet used; it may have moved.
 *  ret    `used` is always written. On REQUEST it counts the request and what was skipped before it
 *         (empty lines, "*0", "*-1"); on NEED_MORE what was skipped; on ERROR and HTTP_GUARD it is
 *         0. The arguments point into `bytes`, or into `words` if they were written with quotes.
 * After NEED_MORE, call again with at least one more byte. An input of max(inline_len_max,
 * request_len_max + WEIR_RESP_LINE_LEN_MAX) + 1 bytes is always enough. After ERROR and HTTP_GUARD
 * the parser must not be used again. The result does not depend on how the input was cut. The bytes
 * of arguments are not examined, except in inline requests: a control byte in the first word is an
 * error at once. */
weir_resp_result weir_resp_next(weir_resp_parser *p, const uint8_t *bytes, size_t len,
                                weir_resp_request *ret);

/* Whether any argument has a control byte: 0x7f, or below 0x20 and not white space. Pure. */
bool weir_resp_has_control(const weir_resp_request *r);

/* Whether `arg` is `word` in any case of ASCII letters.
 *  word  in upper case. */
static inline bool weir_resp_word_is(weir_slice arg, const char *word)
{
    size_t len = strlen(word);
    if (arg.len != len)
        return false;
    if (memcmp(arg.at, word, len) == 0) /* the common case */
        return true;
    for (size_t i = 0; i < len; i++) {
        char c = arg.at[i];
        if (c != word[i] && (c < 'a' || c > 'z' || c - 32 != word[i]))
            return false;
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */
/* Each function appends one reply, or the head of one. If memory runs out it appends nothing and
 * sets b->failed. `proto` is 2 or 3, the version that the client chose with HELLO. */

/* "+text". No CR or LF in `text`. */
void weir_resp_put_simple(weir_buffer *b, const char *text);

/* "-text". By convention the first word is a code in capitals: "ERR no such policy".
 *  text  `len` bytes. Control bytes are sent as spaces, so the text may quote a client. */
void weir_resp_put_error(weir_buffer *b, const char *text, size_t len);

/* ":v". */
void weir_resp_put_i64(weir_buffer *b, int64_t v);

/* An array of the n integers, and of `more` replies that must follow; n and more 0..2^31. Reserves
 * memory for the longest integers. */
void weir_resp_put_integers(weir_buffer *b, const int64_t *v, size_t n, size_t more);

/* A bulk string of any bytes. `bytes` may be NULL if len is 0. */
void weir_resp_put_bulk(weir_buffer *b, const void *bytes, size_t len);

/* A bulk string of a NUL-terminated text. */
static inline void weir_resp_put_text(weir_buffer *b, const char *text)
{
    weir_resp_put_bulk(b, text, strlen(text));
}

/* The head of an array; `n` replies must follow. */
void weir_resp_put_array(weir_buffer *b, size_t n);

/* The head of a map; `n` pairs of replies must follow, n <= SIZE_MAX/2. With proto 2 it is an array
 * of 2 * n. */
void weir_resp_put_map(weir_buffer *b, size_t n, int proto);

/* Null: "_", or with proto 2 "$-1". */
static inline void weir_resp_put_null(weir_buffer *b, int proto)
{
    if (proto >= 3)
        weir_buffer_append(b, "_\r\n", 3);
    else
        weir_buffer_append(b, "$-1\r\n", 5);
}

/* "#t" or "#f", or with proto 2 the integers 1 and 0. */
static inline void weir_resp_put_bool(weir_buffer *b, bool v, int proto)
{
    if (proto >= 3)
        weir_buffer_append(b, v ? "#t\r\n" : "#f\r\n", 4);
    else
        weir_buffer_append(b, v ? ":1\r\n" : ":0\r\n", 4);
}

#endif
