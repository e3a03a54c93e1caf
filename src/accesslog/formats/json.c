/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses JSON lines with jansson, and finds members by name, by path, or by the flavour's table. */

#include "accesslog/formats/formats.h"

#include "port/buffer.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- integers beyond int64_t ----------------------------------------------------------------- */

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

/* ---- the line -------------------------------------------------------------------------------- */

weir_status log_json_load(log_json *j, const char *line, const char *end, weir_logline_error *e)
{
    json_error_t error;
    size_t len = (size_t)(end - line);
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    bool nomem = !root && json_error_code(&error) == json_error_out_of_memory;
    if (!root && json_error_code(&error) == json_error_numeric_overflow)
        root = load_big(line, len, &nomem);
    if (json_is_object(root)) {
        j->line = line;
        j->root = root;
        return WEIR_OK;
    }
    log_fail(line, line + (root || error.position < 1 ? 0 : error.position - 1),
             "one JSON object on the line, without duplicate members", e);
    if (!root)
        snprintf(e->detail, sizeof e->detail, "%.90s", error.text);
    json_decref(root);
    return nomem ? WEIR_E_NOMEM : WEIR_E_SYNTAX;
}

void log_json_unload(log_json *j)
{
    json_decref(j->root);
    j->root = NULL;
}

bool log_json_fail(const log_json *j, const char *expected, weir_slice name, weir_logline_error *e)
{
    log_fail(j->line, j->line, expected, e);
    snprintf(e->detail, sizeof e->detail, "member \"%.*s\"", (int)(name.len < 256 ? name.len : 256),
             name.at);
    return false;
}

/* ---- members --------------------------------------------------------------------------------- */

/* The member of a name, or of a path like "request.uri". */
static json_t *member_of(json_t *object, const char *name, size_t len)
{
    json_t *found = json_object_getn(object, name, len);
    const char *dot = found ? NULL : memchr(name, '.', len);
    if (!dot)
        return found;
    size_t first = (size_t)(dot - name);
    return member_of(json_object_getn(object, name, first), dot + 1, len - first - 1);
}

bool log_json_has(const log_json *j, weir_slice name)
{
    return member_of(j->root, name.at, name.len) != NULL;
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

/* The text of a string, number or boolean; of an array, that of its first element. */
static weir_slice text_of(const json_t *value, char *number, size_t size)
{
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (json_is_string(value))
        return (weir_slice){json_string_value(value), json_string_length(value)};
    if (json_is_real(value))
        return (weir_slice){number, real_text(value, number, size)};
    if (json_is_integer(value) || json_is_boolean(value))
        return (weir_slice){number, json_dumpb(value, number, size, JSON_ENCODE_ANY)};
    return (weir_slice){0};
}

/* ---- flavours -------------------------------------------------------------------------------- */

/* The part of a member that is the field. */
typedef enum part { WHOLE, NO_PORT, LAST, URI, REQUEST } part;

typedef struct member {
    log_field field;
    part part;
    const char *path;
} member;

struct log_flavour {
    const char *format;
    const char *sign[3];  /* members that tell this flavour from others */
    const char *headers;  /* the object that has the request headers, or the prefix of their names;
                             NULL: none */
    const member *member; /* ends with a NULL path; the first that the line has counts */
};

static const member caddy[] = {{LOG_CLIENT, WHOLE, "request.client_ip"},
                               {LOG_CLIENT, WHOLE, "request.remote_ip"},
                               {LOG_CLIENT, NO_PORT, "request.remote_addr"},
                               {LOG_USER, WHOLE, "user_id"},
                               {LOG_METHOD, WHOLE, "request.method"},
                               {LOG_PATH, URI, "request.uri"},
                               {LOG_URI, WHOLE, "request.uri"},
                               {LOG_QUERY, URI, "request.uri"},
                               {LOG_PROTOCOL, WHOLE, "request.proto"},
                               {LOG_STATUS, WHOLE, "status"},
                               {LOG_BYTES, WHOLE, "size"},
                               {LOG_REFERER, WHOLE, "request.headers.Referer"},
                               {LOG_AGENT, WHOLE, "request.headers.User-Agent"},
                               {LOG_VHOST, WHOLE, "request.host"},
                               {LOG_DURATION, WHOLE, "duration"},
                               {LOG_FIELDS, WHOLE, NULL}};

static const member traefik[] = {{LOG_CLIENT, WHOLE, "ClientHost"},
                                 {LOG_CLIENT, NO_PORT, "ClientAddr"},
                                 {LOG_USER, WHOLE, "ClientUsername"},
                                 {LOG_METHOD, WHOLE, "RequestMethod"},
                                 {LOG_PATH, URI, "RequestPath"},
                                 {LOG_URI, WHOLE, "RequestPath"},
                                 {LOG_QUERY, URI, "RequestPath"},
                                 {LOG_PROTOCOL, WHOLE, "RequestProtocol"},
                                 {LOG_STATUS, WHOLE, "DownstreamStatus"},
                                 {LOG_BYTES, WHOLE, "DownstreamContentSize"},
                                 {LOG_REFERER, WHOLE, "request_Referer"},
                                 {LOG_AGENT, WHOLE, "request_User-Agent"},
                                 {LOG_VHOST, WHOLE, "RequestHost"},
                                 {LOG_DURATION, WHOLE, "Duration"},
                                 {LOG_FIELDS, WHOLE, NULL}};

static const member envoy[] = {{LOG_CLIENT, NO_PORT, "downstream_remote_address"},
                               {LOG_CLIENT, LAST, "x_forwarded_for"},
                               {LOG_METHOD, WHOLE, "method"},
                               {LOG_PATH, URI, "path"},
                               {LOG_URI, WHOLE, "path"},
                               {LOG_QUERY, URI, "path"},
                               {LOG_PROTOCOL, WHOLE, "protocol"},
                               {LOG_STATUS, WHOLE, "response_code"},
                               {LOG_BYTES, WHOLE, "bytes_sent"},
                               {LOG_AGENT, WHOLE, "user_agent"},
                               {LOG_VHOST, WHOLE, "authority"},
                               {LOG_DURATION, WHOLE, "duration"},
                               {LOG_FORWARDED, WHOLE, "x_forwarded_for"},
                               {LOG_REQUEST_ID, WHOLE, "request_id"},
                               {LOG_FIELDS, WHOLE, NULL}};

static const member nginx[] = {{LOG_CLIENT, WHOLE, "remote_addr"},
                               {LOG_USER, WHOLE, "remote_user"},
                               {LOG_METHOD, WHOLE, "request_method"},
                               {LOG_METHOD, REQUEST, "request"},
                               {LOG_PATH, URI, "request_uri"},
                               {LOG_PATH, REQUEST, "request"},
                               {LOG_URI, WHOLE, "request_uri"},
                               {LOG_URI, REQUEST, "request"},
                               {LOG_QUERY, URI, "request_uri"},
                               {LOG_QUERY, REQUEST, "request"},
                               {LOG_PROTOCOL, WHOLE, "server_protocol"},
                               {LOG_PROTOCOL, REQUEST, "request"},
                               {LOG_STATUS, WHOLE, "status"},
                               {LOG_BYTES, WHOLE, "body_bytes_sent"},
                               {LOG_BYTES, WHOLE, "bytes_sent"},
                               {LOG_REFERER, WHOLE, "http_referer"},
                               {LOG_AGENT, WHOLE, "http_user_agent"},
                               {LOG_VHOST, WHOLE, "host"},
                               {LOG_VHOST, WHOLE, "http_host"},
                               {LOG_VHOST, WHOLE, "server_name"},
                               {LOG_DURATION, WHOLE, "request_time"},
                               {LOG_FIELDS, WHOLE, NULL}};

/* In the order of detection. */
static const log_flavour flavours[] = {
    {"caddy", {"request.method", "request.uri"}, "request.headers", caddy},
    {"traefik", {"RequestMethod", "DownstreamStatus"}, "request_", traefik},
    {"envoy", {"start_time", "response_code"}, NULL, envoy},
    {"nginx-json", {"remote_addr"}, "http_", nginx},
    {"jsonl", {NULL}, "http_", nginx},
};
enum { FLAVOURS = sizeof flavours / sizeof flavours[0] };

const log_flavour *log_flavour_find(const char *format)
{
    for (size_t i = 0; i < FLAVOURS; i++)
        if (strcmp(flavours[i].format, format) == 0)
            return &flavours[i];
    return NULL;
}

static weir_slice slice_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

/* Returns the first member that is a time, and its row of the names; NULL if there is none. */
static json_t *time_of(const log_json *j, const weir_logtime_name **ret)
{
    json_t *found = NULL;
    for (*ret = j->times; (*ret)->name; ++*ret) {
        found = member_of(j->root, (*ret)->name, strlen((*ret)->name));
        if (found)
            break;
    }
    return found;
}

const char *log_json_detect(const log_json *j)
{
    const weir_logtime_name *name;
    if (!time_of(j, &name))
        return NULL;
    if (json_object_get(j->root, "key"))
        return "jsonl";
    for (size_t i = 0; i < FLAVOURS; i++) {
        bool all = true;
        for (size_t k = 0; k < 3 && flavours[i].sign[k]; k++)
            all = all && log_json_has(j, slice_of(flavours[i].sign[k]));
        if (all)
            return flavours[i].format;
    }
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The address of "1.2.3.4:80" or "[::1]:80". These servers write brackets before a port, so the end
 * of "2001:db8::7" is none. */
static weir_slice without_port(weir_slice text)
{
    const char *end = text.at + text.len;
    const char *colon = log_find(text.at, end, ':');
    bool bare = text.len > 0 && *text.at != '[' && colon && log_find(colon + 1, end, ':');
    return bare ? text : log_without_port(text);
}

static weir_slice part_of(weir_slice text, part which, log_field field)
{
    weir_slice found[LOG_FIELDS] = {0};
    switch (which) {
    case WHOLE:
        return text;
    case NO_PORT:
        return without_port(text);
    case LAST:
        return log_last_of_list(text);
    case URI:
        log_split_uri(text, found);
        return found[field];
    case REQUEST:
        log_split_request(text, found);
        return found[field];
    }
    return text;
}

/* Whether the name of a header, as Go or a server writes it, is that of http_NAME: without regard
 * to case, and with '_' for '-'. */
static bool is_header(const char *header, size_t len, weir_slice name)
{
    if (len != name.len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char a = header[i], b = name.at[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a | 0x20) : a == '-' ? '_' : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b | 0x20) : b == '-' ? '_' : b;
        if (a != b)
            return false;
    }
    return true;
}

/* Finds a request header, in an object of its own or by the prefix of its name. */
static json_t *header_of(const log_json *j, const log_flavour *f, weir_slice name)
{
    json_t *object = f->headers ? member_of(j->root, f->headers, strlen(f->headers)) : NULL;
    const char *prefix = f->headers && !object ? f->headers : "";
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        object = j->root;
    json_object_foreach(object, key, value)
    {
        size_t len = strlen(key), skip = strlen(prefix);
        if (len > skip && memcmp(key, prefix, skip) == 0 && is_header(key + skip, len - skip, name))
            return value;
    }
    return NULL;
}

/* The first member for a field that has a text. A client '-' is missing. */
static weir_slice field_of(log_json *j, const log_flavour *f, log_field field)
{
    weir_slice last = {0};
    for (const member *m = f->member; m->path; m++) {
        const json_t *found =
            m->field == field ? member_of(j->root, m->path, strlen(m->path)) : NULL;
        weir_slice text = text_of(found, j->number, sizeof j->number);
        if (text.at)
            text = part_of(text, m->part, field);
        if (text.at && text.len > 0 && !log_is_dash(text))
            return text;
        if (text.at && field != LOG_CLIENT)
            last = text;
    }
    return last;
}

weir_slice log_json_value(log_json *j, const log_flavour *f, const log_name *name)
{
    static const char http[] = "http_";
    weir_slice text = name->text;
    json_t *found = member_of(j->root, text.at, text.len);
    if (found)
        return text_of(found, j->number, sizeof j->number);
    if (name->field < LOG_FIELDS)
        text = field_of(j, f, name->field);
    else if (text.len >= sizeof http && memcmp(text.at, http, sizeof http - 1) == 0)
        text = text_of(header_of(j, f, log_between(text.at + sizeof http - 1, text.at + text.len)),
                       j->number, sizeof j->number);
    else
        text = (weir_slice){0};
    return text;
}

bool log_json_time(const log_json *j, int64_t *ret, weir_logline_error *e)
{
    const weir_logtime_name *name;
    char number[64];
    const json_t *t = time_of(j, &name);
    weir_slice text = t ? text_of(t, number, sizeof number) : (weir_slice){0};
    weir_status st = WEIR_E_SYNTAX;
    if (text.at)
        st = weir_logtime_any(text.at, text.at + text.len, name->unit_ns, ret);
    if (st == WEIR_OK)
        return true;
    return log_json_fail(j, st == WEIR_E_RANGE ? log_expect_time_range : weir_logtime_expected,
                         slice_of(t                                ? name->name
                                  : j->times == weir_logtime_names ? "time"
                                                                   : j->times->name),
                         e);
}
