/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses log lines in one pass, and only as far as the requested fields. Nothing is copied or
 * allocated, except for JSON lines, which jansson parses. */

#include "codec/logline.h"

#include "codec/logtime.h"
#include "port/text.h"
#include "service/rules/address.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char expect_clf_time[] = "'[' and a time like [01/Aug/1995:02:00:04 -0400]";
static const char expect_ident[] = "an ident or '-'";
static const char expect_plain[] =
    "an ident or '-'; if the line starts with a virtual host, use --format vhost_combined or "
    "vhost_common";
static const char expect_vhost[] =
    "the client's host behind the virtual host, found '-'; if the line starts with the client, use "
    "--format combined or common";
static const char expect_one_host[] = "one host, found a list";
static const char expect_time_range[] = "a time from 1970 to 2225-09-28T23:48:52Z";
static const char expect_key[] = "a key of 1 to 65536 bytes";
static const char expect_cost[] = "a cost: a whole number from 0";

static weir_slice between(const char *begin, const char *end)
{
    return (weir_slice){begin, (size_t)(end - begin)};
}

static const char *find(const char *at, const char *end, char c)
{
    return at < end ? memchr(at, c, (size_t)(end - at)) : NULL;
}

typedef struct reader {
    const char *line;
    const char *end;
    weir_log_record *record;
    weir_logline_error *error;
} reader;

static weir_status fail(const reader *r, weir_status st, const char *at, const char *expected)
{
    r->error->column = (size_t)(at - r->line) + 1;
    r->error->expected = expected;
    r->error->detail[0] = '\0';
    r->error->key_absent = false;
    return st;
}

static weir_status done(const reader *r, int64_t t_ns, weir_slice key, int64_t cost)
{
    r->record->t_ns = t_ns;
    r->record->key = key.at;
    r->record->key_len = key.len;
    r->record->cost = cost;
    return WEIR_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Reads 1 to 19 digits up to `end`. Returns false for anything else. */
static bool read_u64(const char *at, const char *end, uint64_t *ret)
{
    size_t len = (size_t)(end - at);
    return len <= 19 && weir_decimal_read(at, len, UINT64_MAX, ret);
}

/* Reads any number of digits up to `end`. Numbers above INT64_MAX become INT64_MAX. Returns false
 * unless there is at least one digit and nothing else. */
static bool read_saturated(const char *at, const char *end, int64_t *ret)
{
    uint64_t v;
    if (!weir_decimal_read(at, (size_t)(end - at), UINT64_MAX, &v))
        return false;
    *ret = v < INT64_MAX ? (int64_t)v : INT64_MAX;
    return true;
}

static weir_status read_cost(const reader *r, weir_slice text, int64_t *ret)
{
    if (!read_saturated(text.at, text.at + text.len, ret))
        return fail(r, WEIR_E_SYNTAX, text.at, expect_cost);
    return WEIR_OK;
}

/* ---- access logs ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *expected;
} fields[WEIR_LOGLINE_FIELDS] = {
    [WEIR_LOGLINE_VHOST] = {"vhost", "a virtual host"},
    [WEIR_LOGLINE_HOST] = {"host", "a host"},
    [WEIR_LOGLINE_IDENT] = {"ident", "an ident"},
    [WEIR_LOGLINE_USER] = {"user", "a user"},
    [WEIR_LOGLINE_METHOD] = {"method", "a request in quotes that has a method"},
    [WEIR_LOGLINE_PATH] = {"path", "a request in quotes that has a path"},
    [WEIR_LOGLINE_URI] = {"uri", "a request in quotes that has a uri"},
    [WEIR_LOGLINE_PROTOCOL] = {"protocol", "a request in quotes that has a protocol"},
    [WEIR_LOGLINE_STATUS] = {"status", "a request in quotes, then a status"},
    [WEIR_LOGLINE_BYTES] = {"bytes", "a request in quotes, then a status and bytes"},
    [WEIR_LOGLINE_REFERER] = {"referer", "a referer in quotes"},
    [WEIR_LOGLINE_AGENT] = {"agent", "an agent in quotes"},
};

const char *weir_logline_field_name(weir_logline_field field)
{
    return (unsigned)field < WEIR_LOGLINE_FIELDS ? fields[field].name : NULL;
}

static bool is_vhost(weir_logline_kind kind)
{
    return kind == WEIR_LOGLINE_VHOST_COMMON || kind == WEIR_LOGLINE_VHOST_COMBINED;
}

static bool is_combined(weir_logline_kind kind)
{
    return kind == WEIR_LOGLINE_COMBINED || kind == WEIR_LOGLINE_VHOST_COMBINED;
}

bool weir_logline_has(weir_logline_kind kind, weir_logline_field field)
{
    if ((unsigned)field >= WEIR_LOGLINE_FIELDS || kind > WEIR_LOGLINE_VHOST_COMBINED)
        return false;
    if (field == WEIR_LOGLINE_VHOST)
        return is_vhost(kind);
    return field < WEIR_LOGLINE_REFERER || is_combined(kind);
}

typedef struct parts {
    weir_slice field[WEIR_LOGLINE_FIELDS]; /* the request's four are filled by split_request() */
    const char *stop;                      /* where the first missing field should begin */
    const char *request;                   /* where the request begins; NULL if it is missing */
} parts;

/* Finds the next quote that is not escaped by a backslash; NULL if there is none. The byte before
 * `at` is no backslash. */
static const char *find_quote(const char *at, const char *end)
{
    const char *quote = at;
    for (;;) {
        quote = find(quote, end, '"');
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

/* Whether a status like " 200" or " -" follows, and then a space or the end of the line. */
static bool is_status(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != ' ')
        return false;
    size_t len = at[1] == '-' ? 1 : 3;
    uint64_t unused;
    if ((size_t)(end - at) < 1 + len || (len == 3 && !read_u64(at + 1, at + 4, &unused)))
        return false;
    return (size_t)(end - at) == 1 + len || at[1 + len] == ' ';
}

/* Splits a request into method, URI, path and protocol; each may be missing. Old and broken clients
 * omit the protocol, or put spaces into the URI. */
static void split_request(weir_slice request, weir_slice *field)
{
    const char *at = request.at, *end = at + request.len;
    const char *space = find(at, end, ' ');
    const char *method_end = space ? space : end;
    const char *c = at;
    while (c < method_end && ((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z')))
        c++;
    if (c == method_end || (c > at && (*c == '-' || *c == '_')))
        field[WEIR_LOGLINE_METHOD] = between(at, method_end);
    if (!space)
        return;
    const char *last = end;
    while (last > space + 1 && last[-1] != ' ')
        last--;
    if (end - last > 5 && memcmp(last, "HTTP/", 5) == 0) {
        field[WEIR_LOGLINE_PROTOCOL] = between(last, end);
        end = last > space + 1 ? last - 1 : last;
    }
    field[WEIR_LOGLINE_URI] = between(space + 1, end);
    const char *query = find(space + 1, end, '?');
    field[WEIR_LOGLINE_PATH] = between(space + 1, query ? query : end);
}

/* Finds the fields behind the time: request, status, bytes and, if `quoted`, referer and agent. */
static void find_tail(const char *at, const char *end, bool quoted, parts *p)
{
    p->stop = at;
    if (end - at < 2 || at[0] != ' ' || at[1] != '"')
        return;
    const char *begin = p->request = p->stop = at + 2;
    const char *close = find_quote(begin, end);
    while (close && !is_status(close + 1, end))
        close = find_quote(close + 1, end);
    if (!close)
        return;
    split_request(between(begin, close), p->field);
    begin = close + 2;
    at = find(begin, end, ' ');
    p->field[WEIR_LOGLINE_STATUS] = between(begin, at ? at : end);
    p->stop = at ? at + 1 : end;
    if (!at)
        return;
    begin = at + 1;
    at = find(begin, end, ' ');
    p->field[WEIR_LOGLINE_BYTES] = between(begin, at ? at : end);
    p->stop = end;
    for (unsigned f = WEIR_LOGLINE_REFERER; quoted && at && f <= WEIR_LOGLINE_AGENT; f++) {
        p->stop = at < end ? at + 1 : end;
        if (end - at < 2 || at[1] != '"')
            return;
        begin = at + 2;
        close = find_quote(begin, end);
        while (close && close + 1 < end && close[1] != ' ')
            close = find_quote(close + 1, end);
        if (!close)
            return;
        p->field[f] = between(begin, close);
        at = close + 1;
    }
}

/* Finds host, ident and user. Returns where the time should begin. The user may contain spaces and
 * brackets. */
static const char *find_client(const char *line, const char *end, parts *p)
{
    const char *host_end = find(line, end, ' ');
    const char *ident_end = host_end ? find(host_end + 1, end, ' ') : NULL;
    const char *first = ident_end ? find(ident_end + 1, end, ' ') : NULL;
    if (!first)
        return end;
    const char *user_end = first;
    while (user_end && (end - user_end < 5 || user_end[1] != '[' || user_end[4] != '/'))
        user_end = find(user_end + 1, end, ' ');
    if (!user_end)
        return first + 1;
    p->field[WEIR_LOGLINE_HOST] = between(line, host_end);
    p->field[WEIR_LOGLINE_IDENT] = between(host_end + 1, ident_end);
    p->field[WEIR_LOGLINE_USER] = between(ident_end + 1, user_end);
    return user_end + 1;
}

static bool is_dash(weir_slice text)
{
    return text.len == 1 && *text.at == '-';
}

static bool has(weir_slice text, char c)
{
    return find(text.at, text.at + text.len, c) != NULL;
}

/* Whether the text ends in a port like ":443". */
static bool has_port(weir_slice text)
{
    size_t digits = 0;
    while (digits < text.len && text.at[text.len - 1 - digits] >= '0' &&
           text.at[text.len - 1 - digits] <= '9')
        digits++;
    return digits > 0 && digits < text.len && text.at[text.len - 1 - digits] == ':';
}

/* Whether the line begins with a virtual host, so that the field found as ident is really the
 * client. That is certain if it is an address. If there is one field too many before the time,
 * either the user contains a space, or there is a virtual host. It is a virtual host if the first
 * field has a port, the second has a dot or a colon as client names have, or the third is '-' as
 * idents are. */
static bool begins_with_vhost(const parts *p)
{
    weir_address unused;
    weir_slice ident = p->field[WEIR_LOGLINE_IDENT], user = p->field[WEIR_LOGLINE_USER];
    if (is_dash(ident))
        return false;
    if (weir_address_parse(&unused, ident.at, ident.len))
        return true;
    if (!has(user, ' '))
        return false;
    return (user.at[0] == '-' && user.at[1] == ' ') || has(ident, '.') || has(ident, ':') ||
           has_port(p->field[WEIR_LOGLINE_HOST]);
}

static bool is_list(weir_slice host)
{
    return host.len > 0 && host.at[host.len - 1] == ',';
}

/* Finds the fields before the time, and refuses a line of another kind.
 *  ret_time  where the time should begin; written on WEIR_OK. */
static weir_status read_head(const reader *r, weir_logline_kind kind, parts *p,
                             const char **ret_time)
{
    const char *begin = r->line;
    if (is_vhost(kind)) {
        const char *space = find(begin, r->end, ' ');
        const char *client = space ? space + 1 : r->end;
        if (r->end - client >= 2 && client[0] == '-' && client[1] == ' ')
            return fail(r, WEIR_E_SYNTAX, client, expect_vhost);
        p->field[WEIR_LOGLINE_VHOST] = between(begin, space ? space : r->end);
        begin = client;
    }
    *ret_time = find_client(begin, r->end, p);
    if (!p->field[WEIR_LOGLINE_HOST].at)
        return WEIR_OK;
    if (is_list(p->field[WEIR_LOGLINE_VHOST]))
        return fail(r, WEIR_E_SYNTAX, r->line, expect_one_host);
    if (is_list(p->field[WEIR_LOGLINE_HOST]))
        return fail(r, WEIR_E_SYNTAX, begin, expect_one_host);
    if (begins_with_vhost(p))
        return fail(r, WEIR_E_SYNTAX, p->field[WEIR_LOGLINE_IDENT].at,
                    is_vhost(kind) ? expect_ident : expect_plain);
    return WEIR_OK;
}

/* Where a missing field should begin. */
static const char *place_of(const parts *p, weir_logline_field field)
{
    bool in_request = field >= WEIR_LOGLINE_METHOD && field <= WEIR_LOGLINE_PROTOCOL;
    return in_request && p->request ? p->request : p->stop;
}

static weir_status check_key(const reader *r, weir_slice key, const char *at, const char *expected)
{
    if (!key.at || key.len == 0)
        return fail(r, WEIR_E_SYNTAX, key.at ? key.at : at, expected);
    if (key.len > WEIR_LOGLINE_KEY_LEN_MAX)
        return fail(r, WEIR_E_RANGE, key.at, expect_key);
    return WEIR_OK;
}

static weir_status read_clf(const reader *r, const weir_logline_format *format)
{
    parts p = {0};
    const char *time = NULL, *after = NULL;
    int64_t t_ns = 0, cost = 1;
    weir_status st = read_head(r, format->kind, &p, &time);
    if (st != WEIR_OK)
        return st;
    st = weir_logtime_clf(time, r->end, &t_ns, &after);
    if (st != WEIR_OK)
        return fail(r, st, time, st == WEIR_E_RANGE ? expect_time_range : expect_clf_time);
    bool cost_asked = format->cost < WEIR_LOGLINE_FIELDS;
    if (format->key > WEIR_LOGLINE_USER || cost_asked)
        find_tail(after, r->end, is_combined(format->kind), &p);
    weir_slice key = p.field[format->key];
    st = check_key(r, key, place_of(&p, format->key), fields[format->key].expected);
    if (st == WEIR_OK && cost_asked) {
        weir_slice text = p.field[format->cost];
        if (!text.at)
            return fail(r, WEIR_E_SYNTAX, place_of(&p, format->cost),
                        fields[format->cost].expected);
        if (is_dash(text))
            cost = 0;
        else
            st = read_cost(r, text, &cost);
    }
    if (st != WEIR_OK)
        return st;
    return done(r, t_ns, key, cost);
}

/* ---- tsv ------------------------------------------------------------------------------------- */

static weir_status read_tsv(const reader *r)
{
    const char *tab = find(r->line, r->end, '\t');
    uint64_t t_ns = 0;
    int64_t cost = 1;
    if (!read_u64(r->line, tab ? tab : r->end, &t_ns))
        return fail(r, WEIR_E_SYNTAX, r->line, "t_ns, whole nanoseconds since 1970");
    if (t_ns > (uint64_t)WEIR_NOW_NS_MAX)
        return fail(r, WEIR_E_RANGE, r->line, expect_time_range);
    if (!tab)
        return fail(r, WEIR_E_SYNTAX, r->end, "a tab, then a key");
    const char *begin = tab + 1;
    tab = find(begin, r->end, '\t');
    weir_slice key = between(begin, tab ? tab : r->end);
    weir_status st = check_key(r, key, key.at, expect_key);
    if (st == WEIR_OK && tab)
        st = read_cost(r, between(tab + 1, r->end), &cost);
    if (st != WEIR_OK)
        return st;
    return done(r, (int64_t)t_ns, key, cost);
}

/* ---- JSON integers beyond int64_t ------------------------------------------------------------ */

static const char *skip_string(const char *at, const char *end)
{
    bool escaped = false;
    for (at++; at < end && (escaped || *at != '"'); at++)
        escaped = !escaped && *at == '\\';
    return at < end ? at + 1 : end;
}

static const char *skip_number(const char *at, const char *end, bool *ret_integer)
{
    *ret_integer = true;
    for (at++; at < end && ((*at >= '0' && *at <= '9') || memchr("+-.eE", *at, 5)); at++)
        *ret_integer = *ret_integer && *at >= '0' && *at <= '9';
    return at;
}

/* Whether an integer is outside -9223372036854775807..9223372036854775807. */
static bool is_beyond(const char *at, const char *end)
{
    static const char max[] = "9223372036854775807";
    at += *at == '-';
    size_t len = (size_t)(end - at);
    if (len == 0 ||
        *at == '0') /* not JSON, or small: quoting must not make an invalid number valid */
        return false;
    return len > sizeof max - 1 || (len == sizeof max - 1 && memcmp(at, max, len) > 0);
}

/* Copies JSON and puts quotes around each integer beyond int64_t, so that jansson can parse it and
 * its digits are kept. */
static void quote_integers(const char *at, const char *end, weir_buffer *ret)
{
    while (at < end) {
        const char *begin = at;
        bool quote = false;
        if (*at == '"')
            at = skip_string(at, end);
        else if (*at == '-' || (*at >= '0' && *at <= '9'))
            at = skip_number(at, end, &quote);
        else
            at++;
        quote = quote && is_beyond(begin, at);
        if (quote)
            weir_buffer_append_byte(ret, '"');
        weir_buffer_append(ret, begin, (size_t)(at - begin));
        if (quote)
            weir_buffer_append_byte(ret, '"');
    }
}

/* Parses a line that jansson refused because of an integer beyond int64_t. Such integers become
 * strings. Returns NULL on failure; *ret_nomem says whether memory was the reason. */
static json_t *load_big(const char *line, size_t len, bool *ret_nomem)
{
    weir_buffer copy;
    json_error_t error;
    weir_buffer_init(&copy, len + len / 8 + 2); /* two quotes for every 19 digits or more */
    quote_integers(line, line + len, &copy);
    json_t *root = NULL;
    *ret_nomem = copy.failed;
    if (!copy.failed) {
        root = json_loadb((const char *)weir_buffer_data(&copy), weir_buffer_len(&copy),
                          JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        *ret_nomem = !root && json_error_code(&error) == json_error_out_of_memory;
    }
    weir_buffer_free(&copy);
    return root;
}

/* ---- jsonl ----------------------------------------------------------------------------------- */

static weir_status fail_member(const reader *r, weir_status st, const char *expected,
                               const char *name)
{
    fail(r, st, r->line, expected);
    snprintf(r->error->detail, sizeof r->error->detail, "member \"%s\"", name);
    return st;
}

static weir_status json_time(const reader *r, const json_t *root, int64_t *ret)
{
    const json_t *t = json_object_get(root, "t_ns");
    const char *name = t ? "t_ns" : "time";
    weir_status st = WEIR_E_SYNTAX;
    if (json_is_integer(t)) {
        *ret = json_integer_value(t);
        st = *ret < 0 || *ret > WEIR_NOW_NS_MAX ? WEIR_E_RANGE : WEIR_OK;
    } else if (!t && json_is_string(t = json_object_get(root, "time"))) {
        const char *text = json_string_value(t);
        st = weir_logtime_rfc3339(text, text + json_string_length(t), ret);
    }
    if (st == WEIR_E_RANGE)
        return fail_member(r, st, expect_time_range, name);
    if (st != WEIR_OK)
        return fail_member(
            r, st, "t_ns, whole nanoseconds since 1970, or a time like 2026-01-02T03:04:05.678Z",
            name);
    return WEIR_OK;
}

/* Whether `text` is an integer above INT64_MAX that load_big() turned into a string. */
static bool is_big(const json_t *text, int64_t *ret)
{
    const char *at = json_string_value(text);
    return at && read_saturated(at, at + json_string_length(text), ret) && *ret == INT64_MAX;
}

/*  big  whether load_big() parsed the line. */
static weir_status json_cost(const reader *r, const json_t *root, const weir_logline_format *format,
                             bool big, int64_t *ret)
{
    const json_t *cost = json_object_get(root, format->cost_name);
    *ret = 1;
    if (!cost && format->cost_optional)
        return WEIR_OK;
    if (big && is_big(cost, ret))
        return WEIR_OK;
    if (!json_is_integer(cost))
        return fail_member(r, WEIR_E_SYNTAX, expect_cost, format->cost_name);
    *ret = json_integer_value(cost);
    if (*ret < 0)
        return fail_member(r, WEIR_E_RANGE, expect_cost, format->cost_name);
    return WEIR_OK;
}

/* Writes the shortest text that parses back as `real`. jansson alone would write 0.1 with 17
 * digits. */
static size_t real_text(const json_t *real, char *text, size_t size)
{
    size_t len = 0;
    for (size_t digits = 15; digits <= 17; digits++) {
        len = json_dumpb(real, text, size - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        text[len] = '\0';
        if (strtod(text, NULL) == json_real_value(real))
            break;
    }
    return len;
}

/* Finds the bytes of the key: in `root`, or for a number or boolean in `text`.
 *  size  of `text`: enough for any number. */
static weir_status json_key(const reader *r, const json_t *root, const char *name, char *text,
                            size_t size, weir_slice *ret)
{
    const json_t *key = json_object_get(root, name);
    if (json_is_string(key))
        *ret = (weir_slice){json_string_value(key), json_string_length(key)};
    else if (json_is_real(key))
        *ret = (weir_slice){text, real_text(key, text, size)};
    else if (json_is_integer(key) || json_is_boolean(key))
        *ret = (weir_slice){text, json_dumpb(key, text, size, JSON_ENCODE_ANY)};
    else {
        fail_member(r, WEIR_E_SYNTAX, "a key: a string, number or boolean", name);
        r->error->key_absent = !key;
        return WEIR_E_SYNTAX;
    }
    if (ret->len == 0 || ret->len > WEIR_LOGLINE_KEY_LEN_MAX)
        return fail_member(r, ret->len ? WEIR_E_RANGE : WEIR_E_SYNTAX, expect_key, name);
    return WEIR_OK;
}

/* Copies the bytes of the key into the record, because the JSON tree is freed. */
static weir_status keep_key(const reader *r, weir_slice *ret)
{
    weir_buffer *area = &r->record->area;
    if (area->len_max == 0)
        weir_buffer_init(area, WEIR_LOGLINE_KEY_LEN_MAX);
    weir_buffer_clear(area);
    weir_buffer_append(area, ret->at, ret->len);
    if (area->failed)
        return fail(r, WEIR_E_NOMEM, r->line, "enough memory for the key");
    ret->at = (const char *)weir_buffer_data(area);
    return WEIR_OK;
}

/* Parses the line as a JSON object.
 *  ret_big  whether load_big() was needed. */
static weir_status load_object(const reader *r, json_t **ret, bool *ret_big)
{
    json_error_t error;
    size_t len = (size_t)(r->end - r->line);
    json_t *root = json_loadb(r->line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    bool nomem = !root && json_error_code(&error) == json_error_out_of_memory;
    *ret_big = !root && json_error_code(&error) == json_error_numeric_overflow;
    if (*ret_big)
        root = load_big(r->line, len, &nomem);
    if (json_is_object(root)) {
        *ret = root;
        return WEIR_OK;
    }
    fail(r, WEIR_OK, r->line + (root || error.position < 1 ? 0 : error.position - 1),
         "one JSON object on the line, without duplicate members");
    if (!root)
        snprintf(r->error->detail, sizeof r->error->detail, "%.90s", error.text);
    json_decref(root);
    return nomem ? WEIR_E_NOMEM : WEIR_E_SYNTAX;
}

static weir_status read_json(const reader *r, const weir_logline_format *format)
{
    json_t *root = NULL;
    bool big = false;
    char text[64];
    weir_slice key = {0};
    int64_t t_ns = 0, cost = 1;
    weir_status st = load_object(r, &root, &big);
    if (st == WEIR_OK)
        st = json_time(r, root, &t_ns);
    if (st == WEIR_OK)
        st = json_cost(r, root, format, big, &cost);
    if (st == WEIR_OK)
        st = json_key(r, root, format->key_name, text, sizeof text, &key);
    if (st == WEIR_OK)
        st = keep_key(r, &key);
    json_decref(root);
    return st == WEIR_OK ? done(r, t_ns, key, cost) : st;
}

/* ---- the API --------------------------------------------------------------------------------- */

weir_status weir_logline_read(const weir_logline_format *format, const char *line, size_t len,
                              weir_log_record *ret, weir_logline_error *ret_error)
{
    const char *end = line + len;
    if (len > 0 && end[-1] == '\n')
        end--;
    if (end > line && end[-1] == '\r')
        end--;
    reader r = {line, end, ret, ret_error};
    switch (format->kind) {
    case WEIR_LOGLINE_TSV:
        return read_tsv(&r);
    case WEIR_LOGLINE_JSONL:
        return read_json(&r, format);
    case WEIR_LOGLINE_COMMON:
    case WEIR_LOGLINE_COMBINED:
    case WEIR_LOGLINE_VHOST_COMMON:
    case WEIR_LOGLINE_VHOST_COMBINED:
        break;
    }
    return read_clf(&r, format);
}

static weir_status field_of(const char *name, weir_logline_kind kind, weir_logline_field *ret)
{
    if (kind == WEIR_LOGLINE_TSV)
        return WEIR_E_UNSUPPORTED;
    for (unsigned i = 0; i < WEIR_LOGLINE_FIELDS; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        if (!weir_logline_has(kind, (weir_logline_field)i))
            return WEIR_E_UNSUPPORTED;
        *ret = (weir_logline_field)i;
        return WEIR_OK;
    }
    return WEIR_E_SYNTAX;
}

weir_status weir_logline_format_init(weir_logline_format *ret, const char *kind, const char *key,
                                     const char *cost)
{
    static const char *const kinds[] = {"common",         "combined", "vhost_common",
                                        "vhost_combined", "tsv",      "jsonl"};
    unsigned k = 0, n = sizeof kinds / sizeof kinds[0];
    while (k < n && strcmp(kind, kinds[k]) != 0)
        k++;
    if (k == n)
        return WEIR_E_SYNTAX;
    weir_logline_format f = {.kind = (weir_logline_kind)k,
                             .key = WEIR_LOGLINE_HOST,
                             .cost = WEIR_LOGLINE_FIELDS,
                             .key_name = key ? key : "key",
                             .cost_name = cost ? cost : "cost",
                             .cost_optional = !cost};
    weir_status st = WEIR_OK;
    if (f.kind != WEIR_LOGLINE_JSONL && key)
        st = field_of(key, f.kind, &f.key);
    if (st == WEIR_OK && f.kind != WEIR_LOGLINE_JSONL && cost)
        st = field_of(cost, f.kind, &f.cost);
    if (st == WEIR_OK)
        *ret = f;
    return st;
}

void weir_logline_error_text(const weir_logline_error *error, char *ret, size_t size)
{
    snprintf(ret, size, "column %zu: expected %s%s%s", error->column, error->expected,
             error->detail[0] ? "; " : "", error->detail);
}

void weir_log_record_free(weir_log_record *r)
{
    weir_buffer_free(&r->area);
    *r = (weir_log_record){0};
}
