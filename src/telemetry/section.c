/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `telemetry` of weir.yaml. */

#include "cmd/kit/input.h"
#include "net/tls/client.h"
#include "port/assert.h"
#include "port/buffer.h"
#include "telemetry/guest.h"
#include "telemetry/otlp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OPTION(member) CONFIG_MEMBER(telemetry_settings, member)

enum { HEADERS_MAX = 64 << 10, ATTRIBUTES_MAX = 64 << 10 };

/* Copies the text of a buffer to the arena, and frees the buffer. NULL if memory is exhausted. */
static const char *keep(config_reader *r, weir_buffer *b)
{
    const char *text = b->failed ? NULL
                                 : weir_arena_copy(r->arena, (const char *)weir_buffer_data(b),
                                                   weir_buffer_len(b));
    r->arena->failed |= !text;
    weir_buffer_free(b);
    return text;
}

static bool same_text(const config_key *key, const void *a, const void *b)
{
    const char *x, *y;
    memcpy(&x, (const char *)a + key->offset, sizeof x);
    memcpy(&y, (const char *)b + key->offset, sizeof y);
    return x == y || (x && y && strcmp(x, y) == 0);
}

/* ---- headers_file ---------------------------------------------------------------------------- */

/* Whether weir writes a header itself. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"Host",         "User-Agent",     "Connection",
                                      "Content-Type", "Content-Length", "Transfer-Encoding"};
    for (size_t i = 0; i < CONFIG_LENGTH(own); i++) {
        if (strcasecmp(name, own[i]) == 0)
            return true;
    }
    return false;
}

/* Returns what is wrong with a line "NAME: VALUE", which is cut behind the name; NULL: nothing. */
static const char *check_header(char *line)
{
    char *colon = strchr(line, ':');
    for (const char *c = line; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return "has a control character";
    }
    if (!colon || colon[1 + strspn(colon + 1, " ")] == '\0')
        return "is no header, expected NAME: VALUE";
    *colon = '\0';
    bool is_name = config_is_header(line), own = is_own(line);
    *colon = ':';
    return !is_name ? "has no valid name of a header, expected NAME: VALUE"
           : own    ? "has a header that weir writes itself"
                    : NULL;
}

/* Errors do not show a line: it may have a secret. */
static void read_headers(config_reader *r, const config_place *place, const config_key *key,
                         void *base)
{
    char *bytes = NULL;
    size_t len = 0, number = 0;
    weir_buffer lines;
    if (!config_want_scalar(r, place, "the path of a file") || !r->files)
        return;
    const char *path = config_resolve_path(r, place->node->text);
    const char *why = path ? input_read(path, HEADERS_MAX, &bytes, &len) : "out of memory";
    if (why) {
        config_error(r->errors, place, "cannot read %.200s: %s", path ? path : "", why);
        return;
    }
    WEIR_ASSERT(bytes);
    weir_buffer_init(&lines, 2 * HEADERS_MAX);
    for (char *rest = bytes, *line; (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        why = line[0] ? check_header(line) : NULL;
        if (why)
            config_error(r->errors, place, "line %zu of the file %s", number, why);
        if (line[0])
            weir_buffer_printf(&lines, "%s\r\n", line);
    }
    explicit_bzero(bytes, len);
    free(bytes);
    *(const char **)((char *)base + key->offset) = keep(r, &lines);
}

/* ---- resource -------------------------------------------------------------------------------- */

static void read_resource(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    telemetry_settings *s = base;
    weir_buffer b;
    (void)key;
    if (place->node->kind != CONFIG_MAP) {
        config_error(r->errors, place, "expected a map, such as {service.name: weir-eu}");
        return;
    }
    weir_buffer_init(&b, ATTRIBUTES_MAX);
    for (const config_node *n = place->node->first; n; n = n->next) {
        const config_place below = {.up = place, .key = n, .node = n->value};
        if (n->bad || !config_want_scalar(r, &below, "a value, such as weir-eu"))
            continue;
        s->has_name |= strcmp(n->text, "service.name") == 0;
        s->has_instance |= strcmp(n->text, "service.instance.id") == 0;
        otlp_put_attribute(&b, n->text, (weir_slice){n->value->text, n->value->len});
        weir_buffer_text(&b, ",");
    }
    s->attributes = keep(r, &b);
}

/* ---- the section ----------------------------------------------------------------------------- */

static const config_key tls_keys[] = {
    {"ca", CONFIG_READABLE_PATH, OPTION(ca)},
    {"cert", CONFIG_READABLE_PATH, OPTION(cert)},
    {"key", CONFIG_READABLE_PATH, OPTION(key)},
};

static const config_section tls_section = {CONFIG_KEYS(tls_keys), .check = config_check_client_tls};

static const config_key keys[] = {
    {"endpoint", CONFIG_STRING, OPTION(endpoint)},
    {"headers_file", CONFIG_OTHER, OPTION(headers), .schema = CONFIG_TEXT, .read = read_headers,
     .same = same_text},
    {"resource", CONFIG_OTHER, OPTION(attributes), .schema = CONFIG_MAP_OF(CONFIG_TEXT),
     .read = read_resource, .same = same_text},
    {"metrics", CONFIG_BOOL, OPTION(metrics), .preset = true},
    {"interval", CONFIG_DURATION, OPTION(interval_ns),
     CONFIG_RANGE(CONFIG_S_NS, 3600 * CONFIG_S_NS, 60 * CONFIG_S_NS)},
    {"traces", CONFIG_BOOL, OPTION(traces), .preset = true},
    {"timeout", CONFIG_DURATION, OPTION(timeout_ns),
     CONFIG_RANGE(CONFIG_S_NS, 60 * CONFIG_S_NS, 10 * CONFIG_S_NS)},
    {"tls", CONFIG_SECTION, .section = &tls_section},
};

/* Loads the files of TLS, as the daemon will do. */
static void check_files(config_reader *r, const config_place *place, const telemetry_settings *s)
{
    char error[320];
    port_tls *tls = NULL;
    if (net_tls_open(&tls, s->ca, s->cert, s->key, false, error, sizeof error) == WEIR_E_IO)
        config_error(r->errors, place, "%s", error);
    net_tls_close(tls);
}

static void check_section(config_reader *r, const config_place *place, void *base)
{
    const telemetry_settings *s = base;
    const config_place endpoint = config_below(place, "endpoint"), tls = config_below(place, "tls");
    otlp_endpoint parsed;
    if (config_is_empty(place->node))
        return;
    if (!endpoint.node)
        config_error_on(r->errors, place->key, place,
                        "missing key endpoint, expected " OTLP_ENDPOINT_EXPECTED);
    else if (!otlp_endpoint_read(s->endpoint, &parsed))
        config_error(r->errors, &endpoint, /* not what was found: it may have a password */
                     "expected " OTLP_ENDPOINT_EXPECTED ", and without a user or a query");
    else if (tls.node && !parsed.tls)
        config_error_on(r->errors, tls.key, &tls, "expected an endpoint that begins with https://");
    else if (tls.node && r->files)
        check_files(r, &tls, s);
}

static const config_section section = {
    CONFIG_KEYS(keys), .check = check_section,
    .expected = "expected a map, such as {endpoint: http://127.0.0.1:4318}"};

/* ---- the guest ------------------------------------------------------------------------------- */

static void check_effects(config_reader *r, const void *self)
{
    const telemetry_settings *s = self;
    const config_place place = config_below(&(config_place){.node = r->root}, "telemetry");
    bool spans =
        config_listens(r->config, PROTOCOL_HTTP) || config_listens(r->config, PROTOCOL_GRPC);
    if (!s->endpoint)
        return;
    config_check_useless(r, &place, "endpoint", !s->metrics && !s->traces,
                         "metrics and traces are false");
    config_check_useless(r, &place, "interval", !s->metrics, "metrics is false");
    config_check_useless(r, &place, "traces", s->traces && !spans,
                         "there is no listen.http and no listen.grpc");
}

static bool is_active(const void *self)
{
    const telemetry_settings *s = self;
    return s->endpoint && (s->metrics || s->traces);
}

const config_guest telemetry_guest = {
    .key = {"telemetry", CONFIG_SECTION, .section = &section},
    .size = sizeof(telemetry_settings),
    .feature = &telemetry_feature,
    .check = check_effects,
    .is_active = is_active,
};
