/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The request parser and the reply writer of RESP. The parser steps from length to length, and does
 * not examine the arguments. Every decision depends only on the bytes before it, never on how many
 * bytes have arrived. Otherwise the same request could succeed or fail, depending on how TCP splits
 * it. */

#include "codec/resp/resp.h"

#include "port/assert.h"

#include <stdio.h>

/* ---- requests -------------------------------------------------------------------------------- */

typedef enum step { STEP_MORE, STEP_REQUEST, STEP_ERROR, STEP_GUARD, STEP_EMPTY } step;

typedef enum line { LINE_OK, LINE_MORE, LINE_BAD, LINE_LONG } line;

static const weir_resp_limits default_limits = {
    .args_max = WEIR_RESP_ARGS_MAX,
    .arg_len_max = WEIR_RESP_ARG_LEN_MAX,
    .inline_len_max = WEIR_RESP_INLINE_LEN_MAX,
    .request_len_max = WEIR_RESP_REQUEST_LEN_MAX,
};

void weir_resp_init(weir_resp_parser *p, const weir_resp_limits *limits)
{
    *p = (weir_resp_parser){.limits = limits ? limits : &default_limits};
    limits = p->limits;
    WEIR_ASSERT(limits->args_max >= 1 && limits->args_max <= SIZE_MAX / 8);
    WEIR_ASSERT(limits->arg_len_max >= 1 && limits->arg_len_max <= SIZE_MAX / 8);
    WEIR_ASSERT(limits->inline_len_max >= 1 && limits->inline_len_max <= SIZE_MAX / 8);
    WEIR_ASSERT(limits->request_len_max >= 1 && limits->request_len_max <= SIZE_MAX / 8);
}

static void restart(weir_resp_parser *p)
{
    p->pos = p->want = p->first = p->count = p->found = 0;
}

static step error(weir_resp_request *ret, const char *text)
{
    ret->error = text;
    return STEP_ERROR;
}

static step error_not_a_bulk(weir_resp_request *ret, uint8_t got)
{
    static const char start[] = "Protocol error: expected '$', got";
    if (got >= 0x20 && got < 0x7f)
        snprintf(ret->text, sizeof ret->text, "%s '%c'", start, got);
    else
        snprintf(ret->text, sizeof ret->text, "%s '\\x%02x'", start, (unsigned)got);
    return error(ret, ret->text);
}

/* read_length() for any number of digits. */
static line read_any_length(const uint8_t *at, size_t len, int64_t *ret, size_t *ret_used)
{
    const uint8_t *lf = NULL;
    if (len > 0)
        lf = memchr(at, '\n', len < WEIR_RESP_LINE_LEN_MAX ? len : WEIR_RESP_LINE_LEN_MAX);
    if (!lf)
        return len < WEIR_RESP_LINE_LEN_MAX ? LINE_MORE : LINE_LONG;
    if (lf == at || lf[-1] != '\r' || !weir_i64_read((const char *)at, (size_t)(lf - 1 - at), ret))
        return LINE_BAD;
    *ret_used = (size_t)(lf + 1 - at);
    return LINE_OK;
}

/* Reads a length and its CR LF.
 *  ret, ret_used  written on LINE_OK: the number, and the bytes read. */
static inline line read_length(const uint8_t *at, size_t len, int64_t *ret, size_t *ret_used)
{
    if (len >= 4) { /* one or two digits, the common case */
        unsigned a = (unsigned)at[0] - '0', b = (unsigned)at[1] - '0';
        if (a <= 9 && at[1] == '\r' && at[2] == '\n') {
            *ret = a;
            *ret_used = 3;
            return LINE_OK;
        }
        if (a - 1 <= 8 && b <= 9 && at[2] == '\r' && at[3] == '\n') {
            *ret = a * 10 + b;
            *ret_used = 4;
            return LINE_OK;
        }
    }
    return read_any_length(at, len, ret, ret_used);
}

static step read_count(weir_resp_parser *p, const uint8_t *at, size_t len, weir_resp_request *ret)
{
    int64_t count;
    size_t used;
    switch (read_length(at + 1, len - 1, &count, &used)) {
    case LINE_MORE:
        return STEP_MORE;
    case LINE_LONG:
        return error(ret, "Protocol error: too big mbulk count string");
    case LINE_BAD:
        return error(ret, "Protocol error: invalid multibulk length");
    case LINE_OK:
        break;
    }
    if (count > 0 && (uint64_t)count > p->limits->args_max)
        return error(ret, "Protocol error: invalid multibulk length");
    if (count <= 0) {
        ret->used += 1 + used;
        return STEP_EMPTY;
    }
    p->count = (size_t)count;
    p->first = p->pos = 1 + used;
    return STEP_REQUEST;
}

/* Reads the length at `pos`, and checks it against the limits.
 *  ret_arg  the argument, which may not have arrived yet; written on STEP_REQUEST. */
static step read_bulk_length(const weir_resp_parser *p, const uint8_t *at, size_t len, size_t pos,
                             weir_slice *ret_arg, weir_resp_request *ret)
{
    int64_t n;
    size_t used;
    if (pos >= len)
        return STEP_MORE;
    if (at[pos] != '$')
        return error_not_a_bulk(ret, at[pos]);
    switch (read_length(at + pos + 1, len - pos - 1, &n, &used)) {
    case LINE_MORE:
        return STEP_MORE;
    case LINE_LONG:
        return error(ret, "Protocol error: too big bulk count string");
    case LINE_BAD:
        return error(ret, "Protocol error: invalid bulk length");
    case LINE_OK:
        break;
    }
    if (n < 0 || (uint64_t)n > p->limits->arg_len_max)
        return error(ret, "Protocol error: invalid bulk length");
    pos += 1 + used;
    if (pos + (size_t)n + 2 > p->limits->request_len_max)
        return error(ret, "Protocol error: too big request");
    *ret_arg = (weir_slice){(const char *)at + pos, (size_t)n};
    return STEP_REQUEST;
}

/* Parses the arguments from p->pos on into ret->arg, from index p->found on. */
static step read_bulks(weir_resp_parser *p, const uint8_t *at, size_t len, weir_resp_request *ret)
{
    size_t pos = p->pos, i = p->found, want = 0;
    WEIR_ASSERT(i <= p->count && p->count <= p->limits->args_max && pos >= p->first);
    step s = STEP_REQUEST;
    for (; i < p->count; i++) {
        weir_slice arg = {0};
        s = read_bulk_length(p, at, len, pos, &arg, ret);
        if (s != STEP_REQUEST)
            break;
        size_t end = (size_t)((const uint8_t *)arg.at - at) + arg.len;
        if (len < end + 2) {
            want = end + 2;
            s = STEP_MORE;
            break;
        }
        if (at[end] != '\r' || at[end + 1] != '\n')
            return error(ret, "Protocol error: expected CR LF after a bulk string");
        ret->arg[i] = arg;
        pos = end + 2;
    }
    p->pos = pos;
    p->found = i;
    p->want = want > len ? want : len + 1;
    return s;
}

static bool is_http(weir_slice word)
{
    return weir_resp_word_is(word, "POST") || weir_resp_word_is(word, "HOST:");
}

static step read_multibulk(weir_resp_parser *p, const uint8_t *at, size_t len,
                           weir_resp_request *ret)
{
    step s = STEP_REQUEST;
    if (p->pos == 0)
        s = read_count(p, at, len, ret);
    if (s != STEP_REQUEST)
        return s;
    bool in_pieces = p->found > 0;
    s = read_bulks(p, at, len, ret);
    if (s != STEP_REQUEST)
        return s;
    size_t used = p->pos;
    if (in_pieces) {
        p->pos = p->first;
        p->found = 0;
        s = read_bulks(p, at, len, ret);
        WEIR_ASSERT(s == STEP_REQUEST && p->pos == used);
    }
    if (is_http(ret->arg[0]))
        return STEP_GUARD;
    ret->args = p->count;
    ret->is_inline = ret->decoded = false;
    ret->used += used;
    return STEP_REQUEST;
}

/* ---- inline requests ------------------------------------------------------------------------- */

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint8_t escaped(uint8_t c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* Decodes the escape sequence at a backslash inside `quote`. Returns its bytes. If it is not an
 * escape sequence, returns 1 and does not write *ret. */
static size_t read_escape(const uint8_t *at, size_t left, uint8_t quote, uint8_t *ret)
{
    if (left < 2 || (quote == '\'' && at[1] != '\''))
        return 1;
    if (quote == '\'') {
        *ret = '\'';
        return 2;
    }
    if (at[1] == 'x' && left >= 4 && weir_hex_digit((char)at[2]) >= 0 &&
        weir_hex_digit((char)at[3]) >= 0) {
        *ret = (uint8_t)(weir_hex_digit((char)at[2]) << 4 | weir_hex_digit((char)at[3]));
        return 4;
    }
    *ret = escaped(at[1]);
    return 2;
}

/* Reads the word at *pos, which is not a space. A word with quotes is decoded to *words, which is
 * advanced. Returns false if a quote is not closed, or is followed by anything but a space or the
 * end of the line. */
static bool read_word(const uint8_t *at, size_t len, size_t *pos, uint8_t **words, weir_slice *ret)
{
    size_t i = *pos;
    while (i < len && !is_space(at[i]) && at[i] != '"' && at[i] != '\'')
        i++;
    *ret = (weir_slice){(const char *)at + *pos, i - *pos};
    if (i < len && !is_space(at[i])) {
        uint8_t *word = *words, *end = word + ret->len, quote = at[i++];
        memcpy(word, ret->at, ret->len);
        while (i < len && at[i] != quote) {
            uint8_t c = at[i];
            i += c == '\\' ? read_escape(at + i, len - i, quote, &c) : 1;
            *end++ = c;
        }
        if (i >= len)
            return false;
        i++;
        if (i < len && !is_space(at[i]))
            return false;
        *ret = (weir_slice){(const char *)word, (size_t)(end - word)};
        *words = end;
    }
    *pos = i;
    return true;
}

static step read_words(const weir_resp_limits *limits, const uint8_t *at, size_t len,
                       weir_resp_request *ret)
{
    uint8_t *words = ret->words;
    static const char too_big[] = "Protocol error: too big inline request";
    size_t pos = 0, n = 0;
    for (;;) {
        while (pos < len && is_space(at[pos]))
            pos++;
        if (pos == len)
            break;
        if (n == limits->args_max)
            return error(ret, too_big);
        if (!read_word(at, len, &pos, &words, &ret->arg[n]))
            return error(ret, "Protocol error: unbalanced quotes in request");
        if (ret->arg[n].len > limits->arg_len_max)
            return error(ret, too_big);
        n++;
    }
    ret->args = n;
    ret->is_inline = true;
    ret->decoded = words > ret->words;
    return n > 0 ? STEP_REQUEST : STEP_EMPTY;
}

/* Whether the line begins like an HTTP request. This is checked before the quotes, so that a bad
 * quote cannot hide such a request. */
static bool line_is_http(const uint8_t *at, size_t len)
{
    size_t begin = 0;
    while (begin < len && is_space(at[begin]))
        begin++;
    size_t end = begin;
    while (end < len && end - begin < 6 && !is_space(at[end]))
        end++;
    return is_http((weir_slice){(const char *)at + begin, end - begin});
}

static bool is_control(uint8_t c)
{
    return (c < 0x20 && !is_space(c)) || c == 0x7f;
}

/* Whether the first word of a line has a control byte, as a TLS handshake has. Such a client may
 * never send an LF, so this is checked before the line ends. Only the first bytes are checked: else
 * a long line would cost more with each piece that arrives. */
static bool is_binary(const uint8_t *at, size_t len)
{
    enum { CHECKED = 64 };
    size_t i = 0, n = len < CHECKED ? len : CHECKED;
    while (i < n && at[i] != '\n' && is_space(at[i]))
        i++;
    while (i < n && !is_space(at[i]) && !is_control(at[i]))
        i++;
    return i < n && is_control(at[i]);
}

bool weir_resp_has_control(const weir_resp_request *r)
{
    for (size_t i = 0; i < r->args; i++) {
        for (size_t k = 0; k < r->arg[i].len; k++) {
            if (is_control((uint8_t)r->arg[i].at[k]))
                return true;
        }
    }
    return false;
}

static step read_inline(weir_resp_parser *p, const uint8_t *at, size_t len, weir_resp_request *ret)
{
    size_t window = len <= p->limits->inline_len_max ? len : p->limits->inline_len_max + 1;
    if (is_binary(at, window))
        return error(ret, "Protocol error: expected a command, found control bytes; "
                          "this port has no TLS");
    const uint8_t *lf = memchr(at + p->pos, '\n', window - p->pos);
    if (!lf) {
        if (len > p->limits->inline_len_max)
            return error(ret, "Protocol error: too big inline request");
        p->pos = len;
        p->want = len + 1;
        return STEP_MORE;
    }
    size_t line_len = (size_t)(lf - at);
    if (line_is_http(at, line_len))
        return STEP_GUARD;
    step s = read_words(p->limits, at, line_len, ret); /* a CR before the LF is a space */
    ret->used += line_len + 1;
    return s;
}

weir_resp_result weir_resp_next(weir_resp_parser *p, const uint8_t *bytes, size_t len,
                                weir_resp_request *ret)
{
    ret->args = 0;
    ret->used = 0;
    while (ret->used < len && len - ret->used >= p->want) {
        const uint8_t *at = bytes + ret->used;
        size_t left = len - ret->used;
        step s = *at == '*' ? read_multibulk(p, at, left, ret) : read_inline(p, at, left, ret);
        if (s == STEP_MORE)
            break;
        if (s == STEP_ERROR || s == STEP_GUARD) {
            ret->used = 0;
            return s == STEP_ERROR ? WEIR_RESP_ERROR : WEIR_RESP_HTTP_GUARD;
        }
        restart(p);
        if (s == STEP_REQUEST)
            return WEIR_RESP_REQUEST;
    }
    return WEIR_RESP_NEED_MORE;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* The length of a type, a number and CR LF. */
static size_t head_len(uint64_t v, bool minus)
{
    return 3u + minus + weir_decimal_len(v);
}

/* Writes a type, a number and CR LF so that they end before `end`. */
static void write_head(uint8_t *end, char type, uint64_t v, bool minus)
{
    end[-2] = '\r';
    end[-1] = '\n';
    uint8_t *at = weir_decimal_before(end - 2, v);
    if (minus)
        *--at = '-';
    *--at = (uint8_t)type;
}

static void put_number(weir_buffer *b, char type, uint64_t v, bool minus)
{
    size_t len = head_len(v, minus);
    if (!weir_buffer_reserve(b, len))
        return;
    write_head(weir_buffer_tail(b) + len, type, v, minus);
    weir_buffer_added(b, len);
}

void weir_resp_put_simple(weir_buffer *b, const char *text)
{
    size_t len = strlen(text);
    if (!weir_buffer_reserve(b, len + 3))
        return;
    weir_buffer_append_byte(b, '+');
    weir_buffer_append(b, text, len);
    weir_buffer_append(b, "\r\n", 2);
}

void weir_resp_put_error(weir_buffer *b, const char *text, size_t len)
{
    if (!weir_buffer_reserve(b, len + 3))
        return;
    weir_buffer_append_byte(b, '-');
    for (size_t i = 0; i < len; i++)
        weir_buffer_append_byte(b,
                                (uint8_t)text[i] < ' ' || text[i] == 0x7f ? ' ' : (uint8_t)text[i]);
    weir_buffer_append(b, "\r\n", 2);
}

void weir_resp_put_i64(weir_buffer *b, int64_t v)
{
    put_number(b, ':', v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

/* Writes a head from `at` on, for which there is space. Returns its end. */
static inline uint8_t *add_head(uint8_t *at, char type, int64_t v)
{
    if (v >= 0 && v <= 9) { /* the common case */
        const uint8_t text[4] = {(uint8_t)type, (uint8_t)('0' + v), '\r', '\n'};
        memcpy(at, text, sizeof text);
        return at + sizeof text;
    }
    *at++ = (uint8_t)type;
    at += weir_i64_print((char *)at, v);
    memcpy(at, "\r\n", 2);
    return at + 2;
}

void weir_resp_put_integers(weir_buffer *b, const int64_t *v, size_t n, size_t more)
{
    enum { LEN_MAX = sizeof ":-9223372036854775808\r" }; /* with LF in place of NUL */
    if (!weir_buffer_reserve(b, (n + 1) * LEN_MAX))
        return;
    uint8_t *begin = weir_buffer_tail(b), *at = add_head(begin, '*', (int64_t)(n + more));
    for (size_t i = 0; i < n; i++)
        at = add_head(at, ':', v[i]);
    weir_buffer_added(b, (size_t)(at - begin));
}

void weir_resp_put_bulk(weir_buffer *b, const void *bytes, size_t len)
{
    size_t head = head_len(len, false);
    if (!weir_buffer_reserve(b, head + len + 2))
        return;
    uint8_t *at = weir_buffer_tail(b) + head;
    write_head(at, '$', len, false);
    if (len > 0)
        memcpy(at, bytes, len);
    at[len] = '\r';
    at[len + 1] = '\n';
    weir_buffer_added(b, head + len + 2);
}

void weir_resp_put_array(weir_buffer *b, size_t n)
{
    put_number(b, '*', n, false);
}

void weir_resp_put_map(weir_buffer *b, size_t n, int proto)
{
    put_number(b, proto >= 3 ? '%' : '*', proto >= 3 ? n : 2 * n, false);
}
