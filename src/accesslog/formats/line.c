/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The parts of lines that several formats have in common. */

#include "accesslog/formats/formats.h"

#include "port/assert.h"

const char log_expect_time_range[] = "a time from 1970 to 2225-09-28T23:48:52Z";
const char log_expect_key[] = "a key of 1 to 65536 bytes";
const char log_expect_cost[] = "a cost: a whole number from 0";

bool log_fail(const char *line, const char *at, const char *expected, weir_logline_error *e)
{
    WEIR_ASSERT(at >= line);
    e->option = NULL;
    e->column = (size_t)(at - line) + 1;
    e->expected = expected;
    e->detail[0] = '\0';
    e->key_absent = false;
    return false;
}

const char *log_find_quote(const char *at, const char *end)
{
    const char *quote = at;
    for (;;) {
        quote = log_find(quote, end, '"');
        if (!quote)
            return NULL;
        const char *slash = quote;
        while (slash > at && slash[-1] == '\\')
            slash--;
        if ((quote - slash) % 2 == 0)
            return quote;
        quote++;
    }
}

void log_split_uri(weir_slice uri, weir_slice *field)
{
    const char *end = uri.at + uri.len;
    const char *query = log_find(uri.at, end, '?');
    field[LOG_PATH] = log_between(uri.at, query ? query : end);
    if (query)
        field[LOG_QUERY] = log_between(query + 1, end);
}

void log_split_request(weir_slice request, weir_slice *field)
{
    const char *at = request.at, *end = at + request.len;
    const char *space = log_find(at, end, ' ');
    const char *method_end = space ? space : end;
    const char *c = at;
    while (c < method_end && ((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z')))
        c++;
    if (c == method_end || (c > at && (*c == '-' || *c == '_')))
        field[LOG_METHOD] = log_between(at, method_end);
    if (!space)
        return;
    const char *last = end;
    while (last > space + 1 && last[-1] != ' ')
        last--;
    if (end - last > 5 && memcmp(last, "HTTP/", 5) == 0) {
        field[LOG_PROTOCOL] = log_between(last, end);
        end = last > space + 1 ? last - 1 : last;
    }
    field[LOG_URI] = log_between(space + 1, end);
    log_split_uri(field[LOG_URI], field);
}

weir_slice log_without_port(weir_slice text)
{
    const char *end = text.at + text.len, *colon = end;
    while (colon > text.at && colon[-1] >= '0' && colon[-1] <= '9')
        colon--;
    if (colon == end || colon == text.at || colon[-1] != ':')
        return text;
    colon--;
    if (colon - text.at >= 2 && *text.at == '[' && colon[-1] == ']')
        return log_between(text.at + 1, colon - 1);
    return log_between(text.at, colon);
}

weir_slice log_last_of_list(weir_slice list)
{
    const char *at = list.at + list.len;
    while (at > list.at && at[-1] != ',')
        at--;
    while (at < list.at + list.len && *at == ' ')
        at++;
    return log_between(at, list.at + list.len);
}

bool log_read_saturated(weir_slice text, int64_t *ret)
{
    uint64_t v;
    if (text.len == 0 || weir_digits_read(text.at, text.len, &v) != text.len)
        return false;
    *ret = v < INT64_MAX ? (int64_t)v : INT64_MAX;
    return true;
}

weir_slice log_next_word(log_words *w)
{
    weir_slice word = {0};
    if (!w->at)
        return word;
    bool quoted = w->at < w->end && *w->at == '"';
    const char *begin = w->at + quoted;
    const char *end = quoted ? log_find_quote(begin, w->end) : log_find(begin, w->end, ' ');
    if (!end && quoted)
        return word;
    if (!end)
        end = w->end;
    word = log_between(begin, end);
    const char *after = end + quoted;
    if (after < w->end && *after != ' ')
        return (weir_slice){0};
    w->at = after < w->end ? after + 1 : NULL;
    return word;
}
