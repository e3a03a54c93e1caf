/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_H
#define WEIR_CODEC_RESP_H
/* RESP, the protocol of Redis and Valkey, server side: bytes -> requests, and replies -> bytes.
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
 * It must not know any command, any socket or the time. It allocates nothing but the room of `out`.
 */

#include "port/buffer.h"
#include "port/text.h"

/* ---- requests -------------------------------------------------------------------------------- */

#define WEIR_RESP_ARGS_MAX        64
#define WEIR_RESP_ARG_LEN_MAX     (65536 + 4096) /* a key of 64 KiB, and policies that are longer */
#define WEIR_RESP_INLINE_LEN_MAX  65536
#define WEIR_RESP_REQUEST_LEN_MAX (1 << 20)
#define WEIR_RESP_LINE_LEN_MAX                                                                     \
    32 /* of a length and its CR LF; the longest legal one has 22 bytes */

/* What one client may send. Each is 1..SIZE_MAX/8, and refused as soon as it is announced. */
typedef struct weir_resp_limits {
    size_t args_max;        /* arguments of a request, the command's name included */
    size_t arg_len_max;     /* bytes of one argument */
    size_t inline_len_max;  /* bytes of an inline request up to its LF */
    size_t request_len_max; /* bytes of any other request, lengths and CR LF included */
} weir_resp_limits;

typedef enum weir_resp_result {
    WEIR_RESP_NEED_MORE,
    WEIR_RESP_REQUEST,
    WEIR_RESP_ERROR,     /* send the text as an error reply, then close */
    WEIR_RESP_HTTP_GUARD /* a browser was lured here (POST, Host:): close, send nothing */
} weir_resp_result;

/* One for each connection; private. All numbers are offsets from the first byte of the request, so
 * the input may move between two calls. The arguments found so far are not kept: their lengths are,
 * in the input, so that a request which came in pieces is walked once more, from length to length,
 * when it is whole. */
typedef struct weir_resp_parser {
    const weir_resp_limits *limits;
    size_t pos;   /* the next length to read, or where to look on for the LF; 0 at the start */
    size_t want;  /* nothing can be decided with fewer bytes than these */
    size_t first; /* where the first argument's length is */
    size_t count; /* the arguments announced */
    size_t found; /* the arguments before `pos` */
} weir_resp_parser;

/* One for each thread is enough: it is good until the next call. */
typedef struct weir_resp_request {
    weir_slice
        *arg;       /* in: the caller's array, with room for limits->args_max. `at` is never NULL */
    uint8_t *words; /* in: room for limits->inline_len_max bytes, for words that have quotes */
    bool is_inline; /* a line of words */
    bool decoded;   /* words of it lie in `words` */
    size_t args;    /* 1..args_max on REQUEST, else 0 */
    size_t used;    /* bytes of the input to drop before the next call; see weir_resp_next() */
    const char *error; /* on ERROR: its text, from "Protocol error: " on; static or in `text` */
    char text[48];
} weir_resp_request;

/* Readies `p` for the first byte of a connection.
 *  limits  must outlive `p`; NULL means the WEIR_RESP_*_MAX above. */
void weir_resp_init(weir_resp_parser *p, const weir_resp_limits *limits);

/* Looks for one whole request at the front of the input.
 *  bytes  what has arrived and was not yet used, at the same place or another.
 *  ret    `used` is written always. On REQUEST it covers the request and what was skipped before
 *         it (empty lines, "*0", "*-1"); on NEED_MORE what was skipped; on ERROR and HTTP_GUARD it
 *         is 0. The arguments point into `bytes`; words of an inline request that have quotes are
 *         decoded into `words`.
 * After NEED_MORE, call again with the rest of the bytes and at least one more; an input that holds
 * max(inline_len_max, request_len_max + WEIR_RESP_LINE_LEN_MAX) + 1 bytes is always enough. After
 * ERROR or HTTP_GUARD the parser is not to be used again. The answers do not depend on how the
 * input was cut. No byte of an argument is looked at, but for the words of inline requests: a
 * control byte in the first of them is an error at once. */
weir_resp_result weir_resp_next(weir_resp_parser *p, const uint8_t *bytes, size_t len,
                                weir_resp_request *ret);

/* Whether any argument holds a control byte: below 0x20 and no white space, or 0x7f. Pure. */
bool weir_resp_has_control(const weir_resp_request *r);

/* Whether `arg` is `word`, the case of ASCII letters aside.
 *  word  in upper case. */
static inline bool weir_resp_word_is(weir_slice arg, const char *word)
{
    size_t len = strlen(word);
    if (arg.len != len)
        return false;
    if (memcmp(arg.at, word, len) == 0) /* as it mostly is */
        return true;
    for (size_t i = 0; i < len; i++) {
        char c = arg.at[i];
        if (c != word[i] && (c < 'a' || c > 'z' || c - 32 != word[i]))
            return false;
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */
/* Each adds one reply, or the head of one, to `b`; or nothing, and `b->failed` says so.
 * `proto` is 2 or 3, the version that the client asked for with HELLO. Threads: as for `b`. */

/* "+text". No CR or LF in `text`. */
void weir_resp_put_simple(weir_buffer *b, const char *text);

/* "-text"; by custom its first word is a code in capitals: "ERR no such policy".
 *  text  `len` bytes; control bytes among them are sent as spaces, so it may quote a client. */
void weir_resp_put_error(weir_buffer *b, const char *text, size_t len);

/* ":v". */
void weir_resp_put_i64(weir_buffer *b, int64_t v);

/* An array of the n integers, and of `more` replies that must follow; n and more 0..2^31. Reserves
 * memory for the longest integers. */
void weir_resp_put_integers(weir_buffer *b, const int64_t *v, size_t n, size_t more);

/* A string of any bytes. `bytes` may be NULL if len is 0. */
void weir_resp_put_bulk(weir_buffer *b, const void *bytes, size_t len);

/* A string of any bytes, up to its NUL. */
static inline void weir_resp_put_text(weir_buffer *b, const char *text)
{
    weir_resp_put_bulk(b, text, strlen(text));
}

/* The head of a list; `n` replies must follow. */
void weir_resp_put_array(weir_buffer *b, size_t n);

/* The head of a map; `n` pairs of replies must follow, n <= SIZE_MAX/2. With proto 2 a list of 2 *
 * n. */
void weir_resp_put_map(weir_buffer *b, size_t n, int proto);

/* No value: "_", or with proto 2 "$-1". */
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
