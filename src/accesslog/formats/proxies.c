/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The text formats of HAProxy, AWS Application Load Balancers and Envoy.
 * Sources: HAProxy Configuration Manual 8.2.3 "HTTP log format"; Elastic Load Balancing, "Access
 * log entries"; Envoy, "Access logging", "Default format string". */

#include "accesslog/formats/formats.h"
#include "accesslog/formats/time.h"

/* Whether the text is a number, such as a status, or what a proxy writes for none: "-", "-1". */
static bool is_number(weir_slice text)
{
    uint64_t unused;
    size_t sign = text.len > 0 && (*text.at == '-' || *text.at == '+');
    size_t digits = weir_digits_read(text.at + sign, text.len - sign, &unused);
    return (text.len == 1 && sign && *text.at == '-') || (digits > 0 && sign + digits == text.len);
}

/* ---- HAProxy --------------------------------------------------------------------------------- */

/* Whether the time in brackets may begin at `at`. */
static bool is_date(const char *at, const char *end)
{
    return end - at > 8 && at[0] == '[' && at[3] == '/' && at[7] == '/';
}

/* Returns where the client begins: behind the header of syslog, if there is one. That ends with the
 * name of the program and its process, "haproxy[586]: ", or as in RFC 5424 with "- - " or "- ". The
 * client is the word before the date, which no client can write. */
static const char *skip_syslog(const log_line *l, const char **ret_date)
{
    const char *word = l->begin;
    for (const char *space = log_find(word, l->end, ' '); space;
         space = log_find(word, l->end, ' ')) {
        *ret_date = space + 1;
        if (is_date(space + 1, l->end))
            return word;
        word = space + 1;
    }
    return NULL;
}

/* Splits the fields between the date and the request. */
static bool haproxy_middle(log_line *l, log_words *w)
{
    for (int i = 0; i < 3; i++) /* the frontend, the backend and its server, the times */
        log_next_word(w);
    weir_slice status = log_next_word(w), bytes = log_next_word(w);
    for (int i = 0; i < 4; i++) /* two cookies, the termination state, the connections */
        log_next_word(w);
    weir_slice queues = log_next_word(w);
    if (!queues.at || !is_number(status) || !is_number(bytes) ||
        !log_find(queues.at, queues.at + queues.len, '/'))
        return false;
    l->field[LOG_STATUS] = status;
    l->field[LOG_BYTES] =
        *bytes.at == '+' ? log_between(bytes.at + 1, bytes.at + bytes.len) : bytes;
    return true;
}

bool log_read_haproxy(log_line *l, uint32_t need, weir_logline_error *e)
{
    static const char expect_client[] =
        "an address and a port, then a time like [06/Feb/2009:12:14:14.655]";
    static const char expect_fields[] =
        "the fields of HAProxy's HTTP log ('option httplog'): frontend, "
        "backend/server, times, status, bytes and so on";
    const char *date = l->begin;
    const char *begin = skip_syslog(l, &date);
    (void)need;
    if (!begin)
        return log_fail(l->begin, l->begin, expect_client, e);
    weir_slice client = log_between(begin, date - 1);
    weir_slice host = log_without_port(client);
    if (host.len == client.len)
        return log_fail(l->begin, begin, expect_client, e);
    const char *close = log_find(date, l->end, ']');
    weir_status st = close ? weir_logtime_local(date + 1, close, &l->t_ns) : WEIR_E_SYNTAX;
    if (st != WEIR_OK)
        return log_fail(l->begin, date, st == WEIR_E_RANGE ? log_expect_time_range : expect_client,
                        e);
    const char *after = close + 1;
    log_words w = {after < l->end ? after + 1 : NULL, l->end};
    if (!haproxy_middle(l, &w))
        return log_fail(l->begin, after, expect_fields, e);
    l->field[LOG_CLIENT] = host;
    l->stop = w.at ? w.at : l->end;
    const char *quote = log_find(l->stop, l->end, '"'); /* captured headers have no quotes */
    if (quote && l->end - quote >= 2 && l->end[-1] == '"') {
        l->request = quote + 1;
        log_split_request(log_between(quote + 1, l->end - 1), l->field);
    }
    return true;
}

/* ---- AWS Application Load Balancer ----------------------------------------------------------- */

/* Splits "http://shop.example:80/a?b" into the virtual host and the URI. */
static void split_url(weir_slice *field)
{
    weir_slice url = field[LOG_URI];
    if (!url.at)
        return;
    const char *end = url.at + url.len, *at = url.at;
    while (at + 3 <= end && memcmp(at, "://", 3) != 0)
        at++;
    if (at + 3 > end)
        return;
    const char *path = log_find(at + 3, end, '/');
    path = path ? path : end;
    field[LOG_VHOST] = log_without_port(log_between(at + 3, path));
    field[LOG_URI] = log_between(path, end);
    log_split_uri(field[LOG_URI], field);
}

bool log_read_alb(log_line *l, uint32_t need, weir_logline_error *e)
{
    static const char expect_front[] =
        "the type, a time like 2026-01-02T03:04:05.678901Z, the name of "
        "the load balancer, and the client with its port";
    static const char expect_fields[] =
        "the fields of a load balancer of AWS: target, three times, two statuses, two numbers of "
        "bytes, and the request in quotes";
    log_words w = {l->begin, l->end};
    weir_slice word[14];
    (void)need;
    for (int i = 0; i < 14; i++)
        word[i] = log_next_word(&w);
    weir_slice host = word[3].at ? log_without_port(word[3]) : word[3];
    if (host.len == word[3].len)
        return log_fail(l->begin, l->begin, expect_front, e);
    weir_status st = weir_logtime_rfc3339(word[1].at, word[1].at + word[1].len, &l->t_ns);
    if (st != WEIR_OK)
        return log_fail(l->begin, word[1].at,
                        st == WEIR_E_RANGE ? log_expect_time_range : expect_front, e);
    if (!word[12].at || !is_number(word[8]) || !is_number(word[9]) || !is_number(word[10]) ||
        !is_number(word[11]) || word[12].at[-1] != '"')
        return log_fail(l->begin, word[3].at + word[3].len, expect_fields, e);
    l->field[LOG_CLIENT] = host;
    l->field[LOG_DURATION] = word[6];
    l->field[LOG_STATUS] = word[8];
    l->field[LOG_BYTES] = word[11];
    l->field[LOG_AGENT] = word[13];
    l->request = word[12].at;
    l->stop = word[12].at + word[12].len;
    log_split_request(word[12], l->field);
    split_url(l->field);
    return true;
}

/* ---- Envoy ----------------------------------------------------------------------------------- */

static const char expect_envoy[] =
    "the default format of Envoy: [2026-01-02T03:04:05.678Z] \"METHOD PATH PROTOCOL\" 200 - 0 18 1 "
    "0 "
    "\"X-FORWARDED-FOR\" \"USER-AGENT\" \"REQUEST-ID\" \"AUTHORITY\" \"UPSTREAM\"";

/* Whether the status, the flags, two numbers of bytes and two durations follow, and a quote.
 *  ret  the six words; written on success.
 *  ret_after  behind the quote; written on success. */
static bool envoy_numbers(const char *at, const char *end, weir_slice *ret, const char **ret_after)
{
    weir_slice word[6];
    log_words w = {at + 1, end};
    if (end - at < 2 || *at != ' ')
        return false;
    for (int i = 0; i < 6; i++) {
        word[i] = w.at && w.at < end && *w.at != '"' ? log_next_word(&w) : (weir_slice){0};
        if (!word[i].at || (i != 1 && !is_number(word[i])))
            return false;
    }
    if (!w.at || w.at == end || *w.at != '"')
        return false;
    memcpy(ret, word, sizeof word);
    *ret_after = w.at + 1;
    return true;
}

/* Finds the quote that closes the request. Envoy does not escape quotes, so a client may write text
 * into the log that looks like the fields behind the request. Such a line is refused.
 * Returns NULL if there is none, or more than one. */
static const char *envoy_request_end(const char *at, const char *end, weir_slice *ret,
                                     const char **ret_after)
{
    const char *found = NULL;
    while ((at = log_find(at, end, '"'))) {
        if (envoy_numbers(at + 1, end, ret, ret_after)) {
            if (found)
                return NULL;
            found = at;
        }
        at++;
    }
    return found;
}

/* Splits the five texts in quotes that end the line, which begin at `at`. None of them may contain
 * the separator '" "', since quotes are not escaped. */
static bool envoy_texts(const char *at, const char *end, weir_slice *ret)
{
    const char *begin = at;
    size_t n = 0;
    if (end == at || end[-1] != '"')
        return false;
    for (end--; at < end; at++) {
        if (end - at < 3 || memcmp(at, "\" \"", 3) != 0)
            continue;
        if (n == 4)
            return false;
        ret[n++] = log_between(begin, at);
        begin = at + 3;
        at += 2;
    }
    ret[n] = log_between(begin, end);
    return n == 4;
}

bool log_read_envoy(log_line *l, uint32_t need, weir_logline_error *e)
{
    weir_slice number[6], text[5];
    const char *texts = NULL;
    const char *close = log_find(l->begin, l->end, ']');
    (void)need;
    if (!close || *l->begin != '[' || l->end - close < 4 || memcmp(close, "] \"", 3) != 0)
        return log_fail(l->begin, l->begin, expect_envoy, e);
    weir_status st = weir_logtime_rfc3339(l->begin + 1, close, &l->t_ns);
    if (st != WEIR_OK)
        return log_fail(l->begin, l->begin,
                        st == WEIR_E_RANGE ? log_expect_time_range : expect_envoy, e);
    l->request = close + 3;
    const char *end = envoy_request_end(l->request, l->end, number, &texts);
    if (!end)
        return log_fail(l->begin, l->request, expect_envoy, e);
    if (!envoy_texts(texts, l->end, text))
        return log_fail(l->begin, texts, expect_envoy, e);
    log_split_request(log_between(l->request, end), l->field);
    l->stop = texts;
    l->field[LOG_STATUS] = number[0];
    l->field[LOG_BYTES] = number[3];
    l->field[LOG_DURATION] = number[4];
    l->field[LOG_FORWARDED] = text[0];
    l->field[LOG_AGENT] = text[1];
    l->field[LOG_REQUEST_ID] = text[2];
    l->field[LOG_VHOST] = text[3];
    weir_slice client = log_last_of_list(text[0]);
    if (!log_is_dash(client))
        l->field[LOG_CLIENT] = client;
    return true;
}
