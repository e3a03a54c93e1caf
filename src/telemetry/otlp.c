/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */

#include "telemetry/otlp.h"

#include "codec/answer/json.h"

#include <inttypes.h>
#include <string.h>

/* ---- the address ----------------------------------------------------------------------------- */

/* Splits "HOST:PORT", "HOST" or "[::1]:PORT". */
static bool read_authority(const char *at, size_t len, otlp_endpoint *ret)
{
    uint64_t port = ret->tls ? 443 : 80;
    bool brackets = len > 0 && at[0] == '[';
    const char *end = memchr(at, brackets ? ']' : ':', len);
    size_t host = end ? (size_t)(end - at) : len, rest = host + brackets;
    if ((brackets && !end) || rest > len || len >= sizeof ret->authority)
        return false;
    if (rest < len &&
        (at[rest] != ':' || !weir_decimal_read(at + rest + 1, len - rest - 1, UINT16_MAX, &port)))
        return false;
    host -= brackets;
    if (host == 0 || host >= sizeof ret->host || port == 0)
        return false;
    memcpy(ret->host, at + brackets, host);
    memcpy(ret->authority, at, len);
    ret->port = (uint16_t)port;
    return true;
}

bool otlp_endpoint_read(const char *text, otlp_endpoint *ret)
{
    *ret = (otlp_endpoint){.tls = strncmp(text, "https://", 8) == 0};
    if (!ret->tls && strncmp(text, "http://", 7) != 0)
        return false;
    text += ret->tls ? 8 : 7;
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c > '~' || strchr("@?#\"<>\\", *c))
            return false;
    }
    size_t authority = strcspn(text, "/"), base = strlen(text + authority);
    while (base > 0 && text[authority + base - 1] == '/')
        base--;
    if (base >= sizeof ret->base || !read_authority(text, authority, ret))
        return false;
    memcpy(ret->base, text + authority, base);
    return true;
}

/* ---- parts of a request ---------------------------------------------------------------------- */

static void put_slice(weir_buffer *out, weir_slice text)
{
    weir_buffer_append(out, text.at, text.len);
}

static weir_slice slice_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

/* Appends an attribute up to its value. */
static void begin_attribute(weir_buffer *out, const char *name)
{
    weir_buffer_text(out, "{\"key\":");
    weir_json_put_string(out, name, strlen(name));
    weir_buffer_text(out, ",\"value\":{");
}

void otlp_put_attribute(weir_buffer *out, const char *name, weir_slice value)
{
    begin_attribute(out, name);
    weir_buffer_text(out, "\"stringValue\":");
    weir_json_put_string(out, value.at, value.len);
    weir_buffer_text(out, "}}");
}

/* Appends the begin of a request.
 *  signal  "Metrics" or "Spans", in the names of its members.
 *  list    the name of the list. */
static void begin_request(weir_buffer *out, const otlp_sender *s, const char *signal,
                          const char *list)
{
    weir_buffer_printf(out, "{\"resource%s\":[{\"resource\":{\"attributes\":[", signal);
    weir_buffer_text(out, s->attributes);
    weir_buffer_printf(out, "]},\"scope%s\":[{\"scope\":{\"name\":\"weir\",\"version\":\"%s\"},",
                       signal, s->version);
    weir_buffer_printf(out, "\"%s\":[", list);
}

static void end_request(weir_buffer *out)
{
    weir_buffer_text(out, "]}]}]}");
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The text that is converted, and the request. */
typedef struct converter {
    weir_buffer *out;
    const otlp_sender *sender;
    int64_t now_ns;
    weir_slice name, help, type; /* of the metric of the last line with a TYPE */
    bool any, open;              /* metrics; the metric has a sample */
    uint64_t below;              /* of a histogram: the count of the last bucket */
    weir_buffer bounds, counts;  /* of its data point */
} converter;

/* Takes the text before `end`, or all of it, from the front of *rest, and the `end`. */
static weir_slice take_until(weir_slice *rest, char end)
{
    const char *found = rest->len > 0 ? memchr(rest->at, end, rest->len) : NULL;
    weir_slice taken = {rest->at, found ? (size_t)(found - rest->at) : rest->len};
    size_t gone = taken.len + (found != NULL);
    rest->at += gone;
    rest->len -= gone;
    return taken;
}

static bool is(weir_slice text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

static void put_part(void *ctx, const char *at, size_t len)
{
    weir_buffer_append(ctx, at, len);
}

/* Takes a label's value with its quotes from the front of *rest, and appends it: the escapes of
 * Prometheus are escapes of JSON. */
static void put_label_value(weir_buffer *out, weir_slice *rest)
{
    size_t i = 1, begin = 1;
    weir_buffer_append_byte(out, '"');
    for (; i < rest->len && rest->at[i] != '"'; i++) {
        if (rest->at[i] != '\\')
            continue;
        weir_text_escape(rest->at + begin, i - begin, WEIR_JSON_REPLY, put_part, out);
        weir_buffer_append(out, rest->at + i, 2);
        begin = ++i + 1;
    }
    weir_text_escape(rest->at + begin, i - begin, WEIR_JSON_REPLY, put_part, out);
    weir_buffer_append_byte(out, '"');
    rest->at += i + 1;
    rest->len -= i + 1;
}

/* Takes the labels of a sample from the front of *rest, and appends the member `attributes`. */
static void put_labels(weir_buffer *out, weir_slice *rest)
{
    weir_buffer_text(out, "\"attributes\":[");
    for (char before = '{'; rest->len > 0 && rest->at[0] == before; before = ',') {
        rest->at++;
        rest->len--;
        weir_slice name = take_until(rest, '=');
        weir_buffer_text(out, before == ',' ? ",{\"key\":\"" : "{\"key\":\"");
        put_slice(out, name);
        weir_buffer_text(out, "\",\"value\":{\"stringValue\":");
        put_label_value(out, rest);
        weir_buffer_text(out, "}}");
    }
    if (rest->len > 0 && rest->at[0] == '}')
        take_until(rest, '}');
    weir_buffer_text(out, "],");
}

/* Ends the metric that is open. */
static void end_metric(converter *c)
{
    if (c->open)
        weir_buffer_text(c->out, "]}}");
    c->open = false;
}

/* Begins a metric at its first sample. Further samples are separated by commas. */
static void begin_sample(converter *c)
{
    static const char *const sums = "\"aggregationTemporality\":2,";
    bool counter = is(c->type, "counter"), gauge = is(c->type, "gauge");
    if (c->open) {
        weir_buffer_append_byte(c->out, ',');
        return;
    }
    weir_buffer_text(c->out, c->any ? ",{\"name\":\"" : "{\"name\":\"");
    put_slice(c->out, c->name);
    weir_buffer_text(c->out, "\",\"description\":");
    weir_json_put_string(c->out, c->help.at, c->help.len);
    weir_buffer_printf(c->out, ",\"%s\":{%s%s\"dataPoints\":[",
                       counter ? "sum"
                       : gauge ? "gauge"
                               : "histogram",
                       gauge ? "" : sums, counter ? "\"isMonotonic\":true," : "");
    c->open = c->any = true;
}

static void put_times(const converter *c)
{
    if (!is(c->type, "gauge"))
        weir_buffer_printf(c->out, "\"startTimeUnixNano\":\"%" PRId64 "\",", c->sender->started_ns);
    weir_buffer_printf(c->out, "\"timeUnixNano\":\"%" PRId64 "\"", c->now_ns);
}

/* A sample of a counter or a gauge. Values with a fraction, and those that no int64 has, are
 * doubles. */
static void put_number(converter *c, weir_slice rest)
{
    begin_sample(c);
    weir_buffer_append_byte(c->out, '{');
    put_labels(c->out, &rest);
    put_times(c);
    take_until(&rest, ' ');
    bool is_double = memchr(rest.at, '.', rest.len) || rest.len > 18;
    weir_buffer_text(c->out, is_double ? ",\"asDouble\":" : ",\"asInt\":\"");
    put_slice(c->out, rest);
    weir_buffer_text(c->out, is_double ? "}" : "\"}");
}

/* A bucket of a histogram: counts are cumulative for Prometheus, and not for OpenTelemetry. */
static void add_bucket(converter *c, weir_slice rest)
{
    uint64_t count = 0;
    take_until(&rest, '"');
    weir_slice bound = take_until(&rest, '"');
    take_until(&rest, ' ');
    weir_decimal_read(rest.at, rest.len, UINT64_MAX, &count);
    if (weir_buffer_len(&c->counts) > 0)
        weir_buffer_append_byte(&c->counts, ',');
    weir_buffer_printf(&c->counts, "\"%" PRIu64 "\"", count - c->below);
    c->below = count;
    if (is(bound, "+Inf"))
        return;
    if (weir_buffer_len(&c->bounds) > 0)
        weir_buffer_append_byte(&c->bounds, ',');
    put_slice(&c->bounds, bound);
}

static void put_buffer(weir_buffer *out, const char *before, weir_buffer *b)
{
    weir_buffer_text(out, before);
    weir_buffer_append(out, weir_buffer_data(b), weir_buffer_len(b));
    weir_buffer_text(out, "]");
    weir_buffer_free(b);
}

/* A line of a histogram. Its buckets come first, then its sum, then its count. */
static void put_histogram(converter *c, weir_slice name, weir_slice rest)
{
    const weir_slice suffix = {name.at + c->name.len, name.len - c->name.len};
    if (is(suffix, "_bucket")) {
        add_bucket(c, rest);
        return;
    }
    take_until(&rest, ' ');
    if (is(suffix, "_sum")) {
        begin_sample(c);
        weir_buffer_append_byte(c->out, '{');
        put_times(c);
        weir_buffer_text(c->out, ",\"sum\":");
        put_slice(c->out, rest);
        return;
    }
    weir_buffer_text(c->out, ",\"count\":\"");
    put_slice(c->out, rest);
    put_buffer(c->out, "\",\"bucketCounts\":[", &c->counts);
    put_buffer(c->out, ",\"explicitBounds\":[", &c->bounds);
    weir_buffer_text(c->out, "}");
    c->below = 0;
}

/* "# HELP NAME TEXT" or "# TYPE NAME TYPE". */
static void read_comment(converter *c, weir_slice rest)
{
    take_until(&rest, ' ');
    weir_slice what = take_until(&rest, ' '), name = take_until(&rest, ' ');
    if (is(what, "HELP")) {
        c->help = rest;
        return;
    }
    end_metric(c);
    c->name = name;
    c->type = rest;
}

static void read_line(converter *c, weir_slice line)
{
    size_t name = 0;
    if (line.at[0] == '#') {
        read_comment(c, line);
        return;
    }
    while (name < line.len && line.at[name] != '{' && line.at[name] != ' ')
        name++;
    const weir_slice rest = {line.at + name, line.len - name};
    if (is(c->type, "histogram"))
        put_histogram(c, (weir_slice){line.at, name}, rest);
    else
        put_number(c, rest);
}

void otlp_put_metrics(weir_buffer *out, const otlp_sender *sender, weir_slice text, int64_t now_ns)
{
    converter c = {.out = out, .sender = sender, .now_ns = now_ns};
    weir_buffer_init(&c.bounds, 1 << 16);
    weir_buffer_init(&c.counts, 1 << 16);
    begin_request(out, sender, "Metrics", "metrics");
    while (text.len > 0) {
        weir_slice line = take_until(&text, '\n');
        if (line.len > 0)
            read_line(&c, line);
    }
    end_metric(&c);
    end_request(out);
    weir_buffer_free(&c.bounds);
    weir_buffer_free(&c.counts);
}

/* ---- spans ----------------------------------------------------------------------------------- */

enum { SERVER = 2, SAMPLED_REMOTE = 0x301 }; /* numbers of the protocol */

void otlp_begin_spans(weir_buffer *out, const otlp_sender *sender)
{
    begin_request(out, sender, "Spans", "spans");
}

void otlp_end_spans(weir_buffer *out)
{
    end_request(out);
}

static void put_hex(weir_buffer *out, const char *before, const uint8_t *at, size_t n)
{
    weir_buffer_text(out, before);
    for (size_t i = 0; i < n; i++)
        weir_buffer_printf(out, "%02x", at[i]);
}

static void put_number_attribute(weir_buffer *out, const char *name, int value)
{
    begin_attribute(out, name);
    weir_buffer_printf(out, "\"intValue\":\"%d\"}},", value);
}

/* The attributes of the request, by the semantic conventions of OpenTelemetry. */
static void put_request(weir_buffer *out, const weir_trace_span *s)
{
    if (s->method) {
        otlp_put_attribute(out, "http.request.method", slice_of(s->method));
        weir_buffer_text(out, ",");
        otlp_put_attribute(out, "http.route", slice_of(s->name));
        weir_buffer_text(out, ",");
        put_number_attribute(out, "http.response.status_code", s->status);
        return;
    }
    weir_slice method = slice_of(s->name), service = take_until(&method, '/');
    otlp_put_attribute(out, "rpc.system", slice_of("grpc"));
    weir_buffer_text(out, ",");
    otlp_put_attribute(out, "rpc.service", service);
    weir_buffer_text(out, ",");
    otlp_put_attribute(out, "rpc.method", method);
    weir_buffer_text(out, ",");
    put_number_attribute(out, "rpc.grpc.status_code", s->status);
}

static void put_decision(weir_buffer *out, const weir_trace_span *s)
{
    begin_attribute(out, "weir.allowed");
    weir_buffer_printf(out, "\"boolValue\":%s}},", s->allowed ? "true" : "false");
    otlp_put_attribute(out, "weir.reason", slice_of(s->reason));
    if (s->policy[0]) {
        weir_buffer_text(out, ",");
        otlp_put_attribute(out, "weir.policy", slice_of(s->policy));
    }
    if (s->context_name[0]) {
        weir_buffer_text(out, ",");
        otlp_put_attribute(out, s->context, slice_of(s->context_name));
    }
}

void otlp_put_span(weir_buffer *out, const otlp_span *span, uint64_t id, bool first)
{
    const weir_trace_span *s = &span->of;
    put_hex(out, first ? "{\"traceId\":\"" : ",{\"traceId\":\"", s->parent.trace_id,
            sizeof s->parent.trace_id);
    weir_buffer_printf(out, "\",\"spanId\":\"%016" PRIx64, id);
    put_hex(out, "\",\"parentSpanId\":\"", s->parent.span_id, sizeof s->parent.span_id);
    weir_buffer_printf(out, "\",\"flags\":%d,\"name\":\"%s%s%s\",\"kind\":%d,", SAMPLED_REMOTE,
                       s->method ? s->method : "", s->method ? " " : "", s->name, SERVER);
    weir_buffer_printf(out,
                       "\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64
                       "\",\"attributes\":[",
                       span->begun_ns, span->ended_ns);
    put_request(out, s);
    put_decision(out, s);
    weir_buffer_printf(out, "],\"status\":{%s}}",
                       s->method && s->status >= 500 ? "\"code\":2" : "");
}
