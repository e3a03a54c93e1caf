/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Common Log Format and its descendants: combined, both with a virtual host in front, and the
 * common format of Traefik. */

#include "accesslog/formats/formats.h"
#include "accesslog/formats/time.h"
#include "service/rules/address.h"

static const char expect_clf_time[] = "'[' and a time like [01/Aug/1995:02:00:04 -0400]";
static const char expect_ident[] = "an ident or '-'";
static const char expect_plain[] =
    "an ident or '-'; if the line starts with a virtual host, use --format vhost_combined or "
    "vhost_common";
static const char expect_vhost[] =
    "the client's host behind the virtual host, found '-'; if the line starts with the client, use "
    "--format combined or common";
static const char expect_one_host[] = "one host, found a list";
static const char expect_bare_host[] = "a host without quotes";
static const char expect_client[] = "a client, found '-'";
static const char expect_one_time[] =
    "one time before the request in quotes, found two; the line is ambiguous";

#define HEAD_FIELDS                                                                                \
    (LOG_BIT(LOG_CLIENT) | LOG_BIT(LOG_IDENT) | LOG_BIT(LOG_USER) | LOG_BIT(LOG_VHOST))

/* ---- before the time ------------------------------------------------------------------------- */

/* A time in brackets, as far as it was found. */
typedef struct stamp {
    const char *at;    /* its '[', or where it should begin */
    const char *after; /* behind its ']' */
    int64_t t_ns;
    weir_status status; /* of weir_logtime_clf() */
} stamp;

/* Whether a text like " [01/" begins before `at`. */
static inline bool is_bracket(const char *at, const char *end)
{
    return end - at >= 4 && at[0] == '[' && at[-1] == ' ' && at[3] == '/';
}

/* Finds the next text like " [01/", whose '[' is at `at` or behind it. Returns the '['; NULL if
 * there is none. */
static const char *find_bracket(const char *at, const char *end)
{
    while ((at = log_find(at, end, '[')) && !is_bracket(at, end))
        at++;
    return at;
}

/* Reads the time at `at`. Returns whether it is one, and a quote follows. */
static inline bool read_stamp(const char *at, const char *end, stamp *ret)
{
    ret->at = at;
    ret->status = weir_logtime_clf(at, end, &ret->t_ns, &ret->after);
    return ret->status != WEIR_E_SYNTAX && end - ret->after >= 2 && ret->after[0] == ' ' &&
           ret->after[1] == '"';
}

/* Finds another time, before an opening quote. A closing quote is followed by a space or by the end
 * of the line. Returns NULL if there is none. */
static inline const char *find_second(const char *at, const char *end)
{
    stamp s;
    while ((at = find_bracket(at, end))) {
        if (read_stamp(at, end, &s) && end - s.after > 2 && s.after[2] != ' ')
            return at;
        at++;
    }
    return NULL;
}

/* Finds the time of the line behind its first text like one, which is no time before a quote.
 *  s  in/out. */
static bool find_later_stamp(const char *end, stamp *s)
{
    stamp next;
    unsigned times = s->status != WEIR_E_SYNTAX;
    for (const char *at = s->at; (at = find_bracket(at + 1, end));) {
        if (read_stamp(at, end, &next)) {
            *s = next;
            return !find_second(next.after, end);
        }
        if (next.status != WEIR_E_SYNTAX && times++ == 0)
            *s = next;
    }
    return times <= 1;
}

/* Finds the time of the line: the one before the request. Clients choose the user and the texts in
 * quotes, which may contain other times. A server that escapes quotes writes no opening quote
 * behind these; for other servers, a second time before such a quote makes the line ambiguous. In a
 * line without a request, the time must be the only one.
 *  at   a text like "[01/".
 *  ret  written: the time, or one of several.
 * Returns false if the line is ambiguous. */
static inline bool find_stamp(const char *at, const char *end, stamp *ret)
{
    return read_stamp(at, end, ret) ? !find_second(ret->after, end) : find_later_stamp(end, ret);
}

/* Finds the end of an ident or a user, which is usually the byte '-'. */
static inline const char *find_space(const char *at, const char *end)
{
    return end - at >= 2 && at[0] != ' ' && at[1] == ' ' ? at + 1 : log_find(at, end, ' ');
}

/* Finds client, ident, user and time. The user may contain spaces and brackets.
 *  ret  written: the time, or where it should begin.
 * Returns false if more than one time could be that of the line. */
static bool find_client(const char *line, const char *end, weir_slice *field, stamp *ret)
{
    const char *host_end = log_find(line, end, ' ');
    const char *ident_end = host_end ? find_space(host_end + 1, end) : NULL;
    const char *first = ident_end ? find_space(ident_end + 1, end) : NULL;
    const char *at = first ? first + 1 : NULL;
    *ret = (stamp){.at = at ? at : end, .status = WEIR_E_SYNTAX};
    if (at && !is_bracket(at, end))
        at = find_bracket(at, end);
    if (!at)
        return true;
    bool one = find_stamp(at, end, ret);
    field[LOG_CLIENT] = log_between(line, host_end);
    field[LOG_IDENT] = log_between(host_end + 1, ident_end);
    field[LOG_USER] = log_between(ident_end + 1, ret->at - 1);
    return one;
}

static bool has(weir_slice text, char c)
{
    return log_find(text.at, text.at + text.len, c) != NULL;
}

/* Whether the text ends in a port like ":443". */
static bool has_port(weir_slice text)
{
    return log_without_port(text).len < text.len;
}

/* Whether the line begins with a virtual host, so that the field found as ident is really the
 * client. That is certain if it is an address. If there is one field too many before the time,
 * either the user contains a space, or there is a virtual host. It is a virtual host if the first
 * field has a port, the second has a dot or a colon as client names have, or the third is '-' as
 * idents are. */
static bool begins_with_vhost(const weir_slice *field)
{
    weir_address unused;
    weir_slice ident = field[LOG_IDENT], user = field[LOG_USER];
    if (log_is_dash(ident))
        return false;
    if (weir_address_parse(&unused, ident.at, ident.len))
        return true;
    if (!has(user, ' '))
        return false;
    return (user.at[0] == '-' && user.at[1] == ' ') || has(ident, '.') || has(ident, ':') ||
           has_port(field[LOG_CLIENT]);
}

/* Refuses a client that is none, and texts that other servers write there. */
static inline bool check_host(const log_line *l, weir_slice host, bool wanted,
                              weir_logline_error *e)
{
    if (wanted && log_is_dash(host))
        return log_fail(l->begin, host.at, expect_client, e);
    if (host.len > 0 && *host.at == '"')
        return log_fail(l->begin, host.at, expect_bare_host, e);
    return !has(host, ',') || log_fail(l->begin, host.at, expect_one_host, e);
}

/* Finds the fields before the time, and refuses a line of another kind.
 *  ret  the time, or where it should begin; written on success. */
static bool read_head(log_line *l, bool vhost, uint32_t need, stamp *ret, weir_logline_error *e)
{
    const char *begin = l->begin;
    if (vhost) {
        const char *space = log_find(begin, l->end, ' ');
        const char *client = space ? space + 1 : l->end;
        if (l->end - client >= 2 && client[0] == '-' && client[1] == ' ')
            return log_fail(l->begin, client, expect_vhost, e);
        l->field[LOG_VHOST] = log_between(begin, space ? space : l->end);
        begin = client;
    }
    bool one = find_client(begin, l->end, l->field, ret);
    if (!l->field[LOG_CLIENT].at)
        return true;
    if (vhost && !check_host(l, l->field[LOG_VHOST], false, e))
        return false;
    if (!check_host(l, l->field[LOG_CLIENT], need & LOG_BIT(LOG_CLIENT), e))
        return false;
    if (begins_with_vhost(l->field))
        return log_fail(l->begin, l->field[LOG_IDENT].at, vhost ? expect_ident : expect_plain, e);
    return one || log_fail(l->begin, ret->at, expect_one_time, e);
}

/* ---- behind the time ------------------------------------------------------------------------- */

/* Whether a status like " 200" or " -" follows, and then a space or the end of the line. */
static bool is_status(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != ' ')
        return false;
    size_t len = at[1] == '-' ? 1 : 3;
    uint64_t unused;
    if ((size_t)(end - at) < 1 + len ||
        (len == 3 && !weir_decimal_read(at + 1, 3, UINT64_MAX, &unused)))
        return false;
    return (size_t)(end - at) == 1 + len || at[1 + len] == ' ';
}

/* Finds a text in quotes that begins one byte behind `at`.
 *  ret  written on success.
 * Returns the end, behind the closing quote, or NULL; then l->stop is where it should begin. */
static const char *find_quoted(log_line *l, const char *at, weir_slice *ret)
{
    const char *end = l->end;
    l->stop = at < end ? at + 1 : end;
    if (end - at < 2 || at[1] != '"')
        return NULL;
    const char *begin = at + 2;
    const char *close = log_find_quote(begin, end);
    while (close && close + 1 < end && close[1] != ' ')
        close = log_find_quote(close + 1, end);
    if (!close)
        return NULL;
    *ret = log_between(begin, close);
    return close + 1;
}

/* Finds the fields behind the time: request, status, bytes and, if `quoted`, referer and agent.
 * Returns where more fields may follow; NULL if one of these is missing. */
static const char *find_tail(log_line *l, const char *at, bool quoted)
{
    const char *end = l->end;
    l->stop = at;
    if (end - at < 2 || at[0] != ' ' || at[1] != '"')
        return NULL;
    const char *begin = l->request = l->stop = at + 2;
    const char *close = log_find_quote(begin, end);
    while (close && !is_status(close + 1, end))
        close = log_find_quote(close + 1, end);
    if (!close)
        return NULL;
    log_split_request(log_between(begin, close), l->field);
    begin = close + 2;
    at = log_find(begin, end, ' ');
    l->field[LOG_STATUS] = log_between(begin, at ? at : end);
    l->stop = at ? at + 1 : end;
    if (!at)
        return NULL;
    begin = at + 1;
    at = log_find(begin, end, ' ');
    l->field[LOG_BYTES] = log_between(begin, at ? at : end);
    l->stop = end;
    for (unsigned f = LOG_REFERER; quoted && at && f <= LOG_AGENT; f++)
        at = find_quoted(l, at, &l->field[f]);
    return at;
}

/* ---- the grammars ---------------------------------------------------------------------------- */

/* Finds the fields up to the time.
 *  ret_after  behind the time; written on success. */
static bool read_front(log_line *l, bool vhost, uint32_t need, const char **ret_after,
                       weir_logline_error *e)
{
    stamp time = {.status = WEIR_E_SYNTAX};
    if (!read_head(l, vhost, need, &time, e))
        return false;
    if (time.status != WEIR_OK) {
        log_fail(l->begin, time.at,
                 time.status == WEIR_E_RANGE ? log_expect_time_range : expect_clf_time, e);
        return false;
    }
    l->t_ns = time.t_ns;
    *ret_after = time.after;
    return true;
}

static inline bool read_access(log_line *l, bool vhost, bool quoted, uint32_t need,
                               weir_logline_error *e)
{
    const char *after = NULL;
    if (!read_front(l, vhost, need, &after, e))
        return false;
    l->stop = after;
    if (need & ~HEAD_FIELDS)
        find_tail(l, after, quoted);
    return true;
}

bool log_read_common(log_line *l, uint32_t need, weir_logline_error *e)
{
    return read_access(l, false, false, need, e);
}

bool log_read_combined(log_line *l, uint32_t need, weir_logline_error *e)
{
    return read_access(l, false, true, need, e);
}

bool log_read_vhost_common(log_line *l, uint32_t need, weir_logline_error *e)
{
    return read_access(l, true, false, need, e);
}

bool log_read_vhost_combined(log_line *l, uint32_t need, weir_logline_error *e)
{
    return read_access(l, true, true, need, e);
}

/* ---- Traefik --------------------------------------------------------------------------------- */

/* Steps back over a text in quotes that ends at `end` and has none inside. Returns its opening
 * quote; NULL if there is none. */
static const char *before_quoted(const char *begin, const char *end)
{
    if (end == begin || *--end != '"')
        return NULL;
    while (end > begin && end[-1] != '"')
        end--;
    return end > begin ? end - 1 : NULL;
}

static const char *before_digits(const char *begin, const char *end)
{
    const char *at = end;
    while (at > begin && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at < end ? at : NULL;
}

static const char *before_space(const char *begin, const char *end)
{
    return end && end > begin && end[-1] == ' ' ? end - 1 : NULL;
}

/* Finds the end of a line: the number of requests since the start, the router and the server in
 * quotes, and the duration, 17 "router@docker" "http://10.0.0.1:80" 3ms. It is read backwards,
 * since Traefik does not escape quotes in the agent before it.
 * Returns the end of the agent; NULL if the line does not end so. */
static const char *find_traefik_end(log_line *l)
{
    const char *begin = l->begin, *end = l->end;
    if (end - begin < 4 || memcmp(end - 2, "ms", 2) != 0)
        return NULL;
    const char *at = before_digits(begin, end - 2);
    if (at)
        l->field[LOG_DURATION] = log_between(at, end - 2);
    for (int i = 0; i < 2; i++) {
        at = before_space(begin, at);
        at = at ? before_quoted(begin, at) : NULL;
    }
    at = before_space(begin, at);
    at = at ? before_digits(begin, at) : NULL;
    return before_space(begin, at);
}

/* Splits the referer and the agent, which are in quotes, unless a quote in one of them leaves more
 * than one reading. */
static void split_traefik_agent(log_line *l, const char *at, const char *end)
{
    static const char separator[] = "\" \"";
    const char *found = NULL;
    l->stop = at;
    if (end - at < 6 || at[0] != ' ' || at[1] != '"' || end[-1] != '"')
        return;
    for (const char *c = at + 2; c + 3 < end; c++) {
        if (memcmp(c, separator, 3) != 0)
            continue;
        if (found)
            return;
        found = c;
    }
    if (!found)
        return;
    l->field[LOG_REFERER] = log_between(at + 2, found);
    l->field[LOG_AGENT] = log_between(found + 3, end - 1);
}

bool log_read_traefik(log_line *l, uint32_t need, weir_logline_error *e)
{
    static const char expect_tail[] =
        "a combined line, then a number, the router and the server in "
        "quotes, and a duration like 3ms";
    const char *after = NULL;
    if (!read_front(l, false, need, &after, e))
        return false;
    const char *agent_end = find_traefik_end(l);
    if (!agent_end || agent_end < after)
        return log_fail(l->begin, l->end, expect_tail, e);
    const char *at = find_tail(l, after, false);
    if (!at || at > agent_end)
        return log_fail(l->begin, l->stop, expect_tail, e);
    split_traefik_agent(l, at, agent_end);
    return true;
}
