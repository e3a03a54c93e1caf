/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of variables: values are first stored in a struct environment, by their kind, and then
 * applied to the configuration. */

#include "rls/daemon/guest.h"

#include "port/text.h"

#include <float.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VALUE_SHOWN = 60, NAMES_SIZE = 400 };

/* The values of all variables that have an effect, with the reference's defaults. */
typedef struct environment {
    const char *host, *grpc_host, *debug_host, *grpc_uds;
    const char *root, *subdirectory, *app_directory;
    const char *limit_header, *remaining_header, *reset_header;
    const char *log_level, *log_format;
    const char *cert, *cert_key, *client_ca;
    const char *statsd_host, *statsd_protocol, *extra_tags;
    const char *prometheus_addr, *prometheus_path;
    const char *config_type;
    double near_limit_ratio;
    int64_t max_age_ns, max_age_grace_ns, flush_ns;
    unsigned port, grpc_port, debug_port, statsd_port;
    bool headers, shadow_mode, quota_mode, stop_when_over, merge_domains;
    bool dots_replaced, metadata;
    bool tls, statsd, dog_statsd, no_stats, prometheus;
} environment;

static const environment defaults = {
    .host = "0.0.0.0",
    .grpc_host = "0.0.0.0",
    .debug_host = "0.0.0.0",
    .grpc_uds = "",
    .port = 8080,
    .grpc_port = 8081,
    .debug_port = 6070,
    .root = "/srv/runtime_data/current",
    .subdirectory = "",
    .app_directory = "config",
    .near_limit_ratio = 0.8,
    .log_level = "info",
    .log_format = "text",
    .cert = "",
    .cert_key = "",
    .client_ca = "",
    .max_age_ns = 86400 * CONFIG_S_NS,
    .max_age_grace_ns = 3600 * CONFIG_S_NS,
    .statsd_host = "localhost",
    .statsd_protocol = "tcp",
    .extra_tags = "",
    .statsd_port = 8125,
    .flush_ns = 10 * CONFIG_S_NS,
    .prometheus_addr = ":9090",
    .prometheus_path = "/metrics",
    .config_type = "FILE",
};

/* ---- the table ------------------------------------------------------------------------------- */

#define SET(name, key, kind, member)                                                               \
    {                                                                                              \
        name, key, NULL, ENVIRONMENT_SET, ENVIRONMENT_##kind, offsetof(environment, member)        \
    }
#define NOT_NEEDED(name, why)                                                                      \
    {                                                                                              \
        name, NULL, why, ENVIRONMENT_NOT_NEEDED, ENVIRONMENT_TEXT, 0                               \
    }
#define WARN(name, why)                                                                            \
    {                                                                                              \
        name, NULL, why, ENVIRONMENT_WARN, ENVIRONMENT_TEXT, 0                                     \
    }
#define REFUSE(name, why)                                                                          \
    {                                                                                              \
        name, NULL, why, ENVIRONMENT_REFUSE, ENVIRONMENT_TEXT, 0                                   \
    }

#define REDIS                                                                                      \
    "the counts are in weir's memory. To share them through Redis, write redis: {url: URL} and "   \
    "engine: redis in a configuration file"
#define MOGRIFIERS "weir sends the names of statistics unchanged"
#define XDS        "weir reads its limits from files"

/* `why` is the same string for variables that are explained together. */
const environment_row environment_rows[] = {
    SET("HOST", "listen.http", TEXT, host),
    SET("PORT", "listen.http", PORT, port),
    SET("GRPC_HOST", "listen.grpc", TEXT, grpc_host),
    SET("GRPC_PORT", "listen.grpc", PORT, grpc_port),
    SET("GRPC_UDS", "listen.grpc", TEXT, grpc_uds),
    SET("DEBUG_HOST", "listen.http", TEXT, debug_host),
    SET("DEBUG_PORT", "listen.http", PORT, debug_port),
    SET("RUNTIME_ROOT", "envoy.config", TEXT, root),
    SET("RUNTIME_SUBDIRECTORY", "envoy.config", TEXT, subdirectory),
    SET("RUNTIME_APPDIRECTORY", "envoy.config", TEXT, app_directory),
    SET("NEAR_LIMIT_RATIO", "envoy.near_limit_ratio", RATIO, near_limit_ratio),
    SET("LIMIT_RESPONSE_HEADERS_ENABLED", "envoy.headers.enabled", BOOL, headers),
    SET("LIMIT_LIMIT_HEADER", "envoy.headers.limit", TEXT, limit_header),
    SET("LIMIT_REMAINING_HEADER", "envoy.headers.remaining", TEXT, remaining_header),
    SET("LIMIT_RESET_HEADER", "envoy.headers.reset", TEXT, reset_header),
    SET("SHADOW_MODE", "envoy.shadow_mode", BOOL, shadow_mode),
    SET("QUOTA_MODE", "envoy.quota_mode", BOOL, quota_mode),
    SET("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "envoy.stop_when_over", BOOL, stop_when_over),
    SET("MERGE_DOMAIN_CONFIG", "envoy.merge_domains", BOOL, merge_domains),
    SET("RESPONSE_DYNAMIC_METADATA", "envoy.dynamic_metadata", BOOL, metadata),
    SET("SANITIZE_DESCRIPTOR_METRIC_DOTS", "envoy.replace_metric_dots", BOOL, dots_replaced),
    SET("LOG_LEVEL", "log.level", TEXT, log_level),
    SET("LOG_FORMAT", "log.format", TEXT, log_format),
    SET("GRPC_SERVER_USE_TLS", "tls", BOOL, tls),
    SET("GRPC_SERVER_TLS_CERT", "tls.cert", TEXT, cert),
    SET("GRPC_SERVER_TLS_KEY", "tls.key", TEXT, cert_key),
    SET("GRPC_CLIENT_TLS_CACERT", "tls.client_ca", TEXT, client_ca),
    SET("GRPC_MAX_CONNECTION_AGE", "grpc.max_connection_age", DURATION, max_age_ns),
    SET("GRPC_MAX_CONNECTION_AGE_GRACE", "grpc.max_connection_age_grace", DURATION,
        max_age_grace_ns),
    SET("USE_STATSD", "envoy.statsd", BOOL, statsd),
    SET("USE_DOG_STATSD", "envoy.statsd", BOOL, dog_statsd),
    SET("STATSD_HOST", "envoy.statsd", TEXT, statsd_host),
    SET("STATSD_PORT", "envoy.statsd", PORT, statsd_port),
    SET("STATSD_PROTOCOL", "envoy.statsd", TEXT, statsd_protocol),
    SET("DISABLE_STATS", "envoy.statsd", BOOL, no_stats),
    SET("STATS_FLUSH_INTERVAL", "envoy.statsd_flush", DURATION, flush_ns),
    SET("EXTRA_TAGS", "envoy.statsd_tags", TEXT, extra_tags),
    SET("USE_PROMETHEUS", "listen.http", BOOL, prometheus),
    SET("PROMETHEUS_ADDR", "listen.http", TEXT, prometheus_addr),
    SET("PROMETHEUS_PATH", NULL, TEXT, prometheus_path),
    SET("CONFIG_TYPE", NULL, TEXT, config_type),

    NOT_NEEDED("RUNTIME_WATCH_ROOT", "weir notices both a changed file and a replaced directory"),
    NOT_NEEDED("RUNTIME_IGNOREDOTFILES", "weir reads no file whose name begins with '.'"),
    NOT_NEEDED("REDIS_*", REDIS),
    NOT_NEEDED("BACKEND_TYPE", REDIS),
    NOT_NEEDED("CACHE_KEY_PREFIX", REDIS),
    NOT_NEEDED("LOCAL_CACHE_SIZE_IN_BYTES",
               "every count is in memory already, so there are no statistics of a local cache"),
    NOT_NEEDED("EXPIRATION_JITTER_MAX_SECONDS", "weir does not make many keys expire at once"),
    NOT_NEEDED("MEMCACHE_*", "weir needs no Memcached"),
    NOT_NEEDED("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
               "weir does not start without a valid configuration"),
    NOT_NEEDED("FORCE_START_WITHOUT_INITIAL_CONFIG", XDS),
    NOT_NEEDED("CONFIG_GRPC_XDS_*", XDS),
    NOT_NEEDED("XDS_*", XDS),
    WARN("TRACING_*", "weir sends traces only with telemetry in a configuration file"),
    NOT_NEEDED("OTEL_*",
               "to send traces, write telemetry: {endpoint: URL} in a configuration file"),
    WARN("GOSTATS_*", "weir sends each statistic in a line of its own; see STATS_FLUSH_INTERVAL"),
    WARN("USE_DOG_STATSD_MOGRIFIERS", MOGRIFIERS),
    WARN("DOG_STATSD_MOGRIFIERS_*", MOGRIFIERS),
    WARN("PROMETHEUS_MAPPER_YAML", "metrics have the names of the reference's default mapping"),
    WARN("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "weir does not measure response times"),
    REFUSE("GRPC_CLIENT_TLS_SAN",
           "weir does not check the names in client certificates; use a CA that signs only these "
           "clients, or unset the variable to accept every client with a certificate of the CA"),
};

const size_t environment_rows_len = CONFIG_LENGTH(environment_rows);

/* Writes an error. Returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(char *ret_error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret_error, CONFIG_ENVIRONMENT_ERROR_MAX, format, args);
    va_end(args);
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns the value of NAME if `entry` is "NAME=VALUE" and the row has that name; if not, NULL. */
static const char *value_of(const environment_row *row, const char *entry)
{
    size_t len = strlen(row->name), name = strcspn(entry, "=");
    bool prefix = row->name[len - 1] == '*';
    if (entry[name] == '\0' || (prefix ? name < len : name != len) ||
        strncmp(entry, row->name, len - prefix) != 0)
        return NULL;
    return entry + name + 1;
}

static const char *find(char *const *env, const environment_row *row)
{
    const char *value = NULL;
    for (; *env && !value; env++)
        value = value_of(row, *env);
    return value;
}

/* Reads a truth value as Go's strconv.ParseBool() does. */
static bool read_bool(const char *text, bool *ret)
{
    static const char *const words[] = {"0", "f", "F", "FALSE", "false", "False",
                                        "1", "t", "T", "TRUE",  "true",  "True"};
    for (size_t i = 0; i < CONFIG_LENGTH(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret = i >= CONFIG_LENGTH(words) / 2;
            return true;
        }
    }
    return false;
}

static bool read_port(const char *text, unsigned *ret)
{
    uint64_t port;
    bool valid = weir_decimal_read(text, strlen(text), 65535, &port);
    if (valid)
        *ret = (unsigned)port;
    return valid;
}

/* Adds a number with its unit to a duration: "90s", "1.5h". Returns what follows; NULL if it is
 * invalid. Digits below a nanosecond are dropped. */
static const char *add_duration(const char *text, int64_t *ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"h", 3600 * CONFIG_S_NS}, {"ms", 1000000}, {"m", 60 * CONFIG_S_NS},
                 {"s", CONFIG_S_NS},        {"us", 1000},    {"ns", 1}};
    uint64_t whole = 0;
    size_t digits = weir_digits_read(text, strlen(text), &whole);
    const char *fraction = text + digits;
    size_t decimals = *fraction == '.' ? strspn(fraction + 1, "0123456789") : 0;
    const char *unit = fraction + (*fraction == '.') + decimals;
    size_t i = 0;
    while (i < CONFIG_LENGTH(units) && strncmp(unit, units[i].name, strlen(units[i].name)) != 0)
        i++;
    if (digits + decimals == 0 || i == CONFIG_LENGTH(units) ||
        whole > (uint64_t)(INT64_MAX - *ns) / 2 / (uint64_t)units[i].ns)
        return NULL;
    *ns += (int64_t)whole * units[i].ns;
    int64_t part = units[i].ns;
    for (size_t k = 1; k <= decimals; k++) {
        part /= 10;
        *ns += (fraction[k] - '0') * part;
    }
    return unit + strlen(units[i].name);
}

/* Reads a duration as Go's time.ParseDuration() does, without a sign. */
static bool read_duration(const char *text, int64_t *ret)
{
    int64_t ns = 0;
    const char *at = text;
    if (strcmp(text, "0") != 0) {
        do {
            at = add_duration(at, &ns);
        } while (at && *at);
    }
    if (at)
        *ret = ns;
    return at != NULL;
}

static bool read_ratio(const char *text, double *ret)
{
    char *end;
    double ratio = strtod(text, &end);
    bool valid = *text && !*end && ratio >= 0 && ratio <= 1;
    if (valid)
        *ret = ratio > 0 ? ratio : DBL_MIN; /* 0 stands for the default */
    return valid;
}

/* Stores a value. An empty one is as if the variable was not set. */
static bool store(environment *e, const environment_row *row, const char *text, char *ret_error)
{
    static const char *const expected[] = {
        [ENVIRONMENT_BOOL] = "true or false",
        [ENVIRONMENT_PORT] = "a port number",
        [ENVIRONMENT_DURATION] = "a duration, such as 24h or 1m30s",
        [ENVIRONMENT_RATIO] = "a number from 0 to 1, such as 0.8"};
    void *at = (char *)e + row->offset;
    bool valid = true;
    if (row->kind == ENVIRONMENT_TEXT)
        *(const char **)at = text;
    else if (row->kind == ENVIRONMENT_BOOL)
        valid = read_bool(text, at);
    else if (row->kind == ENVIRONMENT_PORT)
        valid = read_port(text, at);
    else if (row->kind == ENVIRONMENT_DURATION)
        valid = read_duration(text, at);
    else
        valid = read_ratio(text, at);
    return valid || refuse(ret_error, "%s: expected %s, found '%.*s'", row->name,
                           expected[row->kind], VALUE_SHOWN, text);
}

/* Whether a variable asks for something: it is neither empty nor false. */
static bool asks(const char *value)
{
    bool on = true;
    return value && value[0] != '\0' && (!read_bool(value, &on) || on);
}

static bool read_all(environment *e, char *const *env, char *ret_error)
{
    for (size_t i = 0; i < environment_rows_len; i++) {
        const environment_row *row = &environment_rows[i];
        const char *value = find(env, row);
        if (row->use == ENVIRONMENT_SET && value && value[0] && !store(e, row, value, ret_error))
            return false;
        if (row->use == ENVIRONMENT_REFUSE && asks(value)) {
            return refuse(ret_error, "%s is not supported: %s", row->name, row->why);
        }
    }
    return true;
}

/* ---- applying: addresses --------------------------------------------------------------------- */

static bool add_listen(weir_config *c, protocol_kind protocol, const char *variable,
                       const char *host, unsigned port, char *ret_error)
{
    config_listen *l = &c->listens[c->listens_len];
    *l = (config_listen){.protocol = protocol};
    const char *at = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host[0] ? host : "0.0.0.0";
    char text[CONFIG_ADDRESS_MAX];
    bool v6 = strchr(at, ':') && at[0] != '[';
    snprintf(text, sizeof text, v6 ? "[%s]:%u" : "%s:%u", at, port);
    if (!config_address_read(text, l)) {
        return refuse(ret_error, "%s: expected an IP address or localhost, found '%.*s'", variable,
                      VALUE_SHOWN, host);
    }
    c->listens_len++;
    return true;
}

static bool add_socket(weir_config *c, const char *path, char *ret_error)
{
    config_listen *l = &c->listens[c->listens_len++];
    *l = (config_listen){.protocol = PROTOCOL_GRPC};
    bool valid = path[0] == '/' && strlen(path) < sizeof l->address;
    if (!valid)
        return refuse(ret_error, "GRPC_UDS: expected an absolute path of at most %zu bytes",
                      sizeof l->address - 1);
    memcpy(l->address, path, strlen(path));
    return true;
}

static bool apply_tls(const environment *e, config_listen *l, char *ret_error)
{
    if (!e->tls)
        return true;
    if (!e->cert[0] || !e->cert_key[0]) {
        return refuse(ret_error,
                      "GRPC_SERVER_USE_TLS requires GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY");
    }
    l->tls_choice = CONFIG_TLS_OWN;
    l->tls = (config_tls){e->cert, e->cert_key, e->client_ca[0] ? e->client_ca : NULL};
    return true;
}

/* Adds the address for metrics, "HOST:PORT" or ":PORT". It has the other endpoints as well. */
static bool add_metrics(weir_config *c, const environment *e, char *ret_error)
{
    const char *addr = e->prometheus_addr, *colon = strrchr(addr, ':');
    char host[CONFIG_ADDRESS_MAX];
    size_t len = colon ? (size_t)(colon - addr) : sizeof host;
    unsigned port;
    if (strcmp(e->prometheus_path, "/metrics") != 0) {
        return refuse(ret_error, "PROMETHEUS_PATH: expected /metrics, found '%.*s'", VALUE_SHOWN,
                      e->prometheus_path);
    }
    if (len >= sizeof host || !read_port(colon + 1, &port)) {
        return refuse(ret_error, "PROMETHEUS_ADDR: expected HOST:PORT or :PORT, found '%.*s'",
                      VALUE_SHOWN, addr);
    }
    memcpy(host, addr, len);
    host[len] = '\0';
    return add_listen(c, PROTOCOL_HTTP, "PROMETHEUS_ADDR", host, port, ret_error);
}

/* HTTP and debugging are two addresses for the same endpoints. As with the reference, every client
 * is served, under any host name, such as that of a Kubernetes Service. */
static bool apply_listen(weir_config *c, const environment *e, char *ret_error)
{
    static const char *const every_host[] = {"*"};
    c->listens_len = 0;
    c->insecure = true;
    c->http_hosts = (weir_http_names){every_host, 1};
    if (!(e->grpc_uds[0]
              ? add_socket(c, e->grpc_uds, ret_error)
              : add_listen(c, PROTOCOL_GRPC, "GRPC_HOST", e->grpc_host, e->grpc_port, ret_error)) ||
        !apply_tls(e, &c->listens[0], ret_error) ||
        !add_listen(c, PROTOCOL_HTTP, "HOST", e->host, e->port, ret_error))
        return false;
    bool same = e->debug_port == e->port && e->port > 0 && strcmp(e->debug_host, e->host) == 0;
    if (!same &&
        !add_listen(c, PROTOCOL_HTTP, "DEBUG_HOST", e->debug_host, e->debug_port, ret_error))
        return false;
    return !e->prometheus || e->no_stats || add_metrics(c, e, ret_error);
}

/* ---- applying: the rest ---------------------------------------------------------------------- */

/* ROOT/SUBDIRECTORY/APPDIRECTORY. */
static bool apply_directory(weir_config *c, const environment *e)
{
    size_t size = strlen(e->root) + strlen(e->subdirectory) + strlen(e->app_directory) + 3;
    char *path = weir_arena_alloc(c->arena, size, 1);
    if (path)
        snprintf(path, size, "%s%s%s/%s", e->root, e->subdirectory[0] ? "/" : "", e->subdirectory,
                 e->app_directory);
    envoy_settings_of(c)->directory = path;
    return path != NULL;
}

static bool apply_log(weir_config *c, const environment *e, char *ret_error)
{
    static const struct {
        const char *name;
        weir_log_level level;
    } levels[] = {{"trace", WEIR_LOG_DEBUG},     {"debug", WEIR_LOG_DEBUG},
                  {"info", WEIR_LOG_INFO},       {"warn", WEIR_LOG_WARNING},
                  {"warning", WEIR_LOG_WARNING}, {"error", WEIR_LOG_ERROR},
                  {"fatal", WEIR_LOG_ERROR},     {"panic", WEIR_LOG_ERROR}};
    size_t i = 0;
    while (i < CONFIG_LENGTH(levels) && strcasecmp(levels[i].name, e->log_level) != 0)
        i++;
    c->log_json = strcasecmp(e->log_format, "json") == 0;
    if (i == CONFIG_LENGTH(levels))
        return refuse(ret_error, "LOG_LEVEL: expected debug, info, warn or error, found '%.*s'",
                      VALUE_SHOWN, e->log_level);
    if (!c->log_json && strcasecmp(e->log_format, "text") != 0)
        return refuse(ret_error, "LOG_FORMAT: expected text or json, found '%.*s'", VALUE_SHOWN,
                      e->log_format);
    c->log_level = levels[i].level;
    return true;
}

/* Statistics are sent if USE_STATSD or USE_DOG_STATSD is true, or if USE_STATSD is not set and
 * STATSD_HOST is. */
static bool sends_stats(const environment *e, char *const *env)
{
    bool on = e->statsd;
    for (bool is_said = false; *env && !is_said; env++) {
        is_said = strncmp(*env, "USE_STATSD=", 11) == 0 && (*env)[11] != '\0';
        on = is_said ? e->statsd : on || strncmp(*env, "STATSD_HOST=", 12) == 0;
    }
    return !e->no_stats && (on || e->dog_statsd);
}

static bool apply_statsd(weir_config *c, const environment *e, char *const *env, char *ret_error)
{
    envoy_settings_of(c)->statsd_flush_ns = e->flush_ns > 0 ? e->flush_ns : defaults.flush_ns;
    if (!sends_stats(e, env))
        return true;
    bool udp = strcmp(e->statsd_protocol, "udp") == 0;
    if (!e->dog_statsd && !udp && strcmp(e->statsd_protocol, "tcp") != 0) {
        return refuse(ret_error, "STATSD_PROTOCOL: expected tcp or udp, found '%.*s'", VALUE_SHOWN,
                      e->statsd_protocol);
    }
    size_t size = strlen(e->statsd_host) + 32;
    char *url = weir_arena_alloc(c->arena, size, 1);
    if (url)
        snprintf(url, size, "%s://%s:%u",
                 e->dog_statsd ? "dogstatsd"
                 : udp         ? "udp"
                               : "tcp",
                 e->statsd_host, e->statsd_port);
    envoy_settings_of(c)->statsd = url;
    return url != NULL;
}

/* "KEY:VALUE,KEY:VALUE". */
static bool apply_tags(weir_config *c, const environment *e, char *ret_error)
{
    const char *at = e->extra_tags;
    while (*at) {
        size_t len = strcspn(at, ","), key = strcspn(at, ":,");
        size_t value = key < len ? key + 1 : len;
        const char *why = statsd_add_tag(&envoy_settings_of(c)->statsd_tags, (weir_slice){at, key},
                                         (weir_slice){at + value, len - value});
        if (why) {
            return refuse(ret_error, "EXTRA_TAGS: %s at '%.*s'", why,
                          (int)(len < VALUE_SHOWN ? len : VALUE_SHOWN), at);
        }
        at += len + (at[len] == ',');
    }
    return true;
}

static bool apply_headers(weir_config *c, const environment *e, char *ret_error)
{
    weir_rls_options *o = &envoy_settings_of(c)->options;
    const struct {
        const char *variable, *value, **ret;
    } rows[] = {{"LIMIT_LIMIT_HEADER", e->limit_header, &o->limit_header},
                {"LIMIT_REMAINING_HEADER", e->remaining_header, &o->remaining_header},
                {"LIMIT_RESET_HEADER", e->reset_header, &o->reset_header}};
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        if (rows[i].value && !config_is_header(rows[i].value)) {
            return refuse(ret_error, "%s: expected the name of a header, found '%.*s'",
                          rows[i].variable, VALUE_SHOWN, rows[i].value);
        }
        *rows[i].ret = rows[i].value;
    }
    return true;
}

static void apply_options(weir_config *c, const environment *e)
{
    weir_rls_options *o = &envoy_settings_of(c)->options;
    o->near_limit_ratio = e->near_limit_ratio;
    o->headers = e->headers;
    o->shadow_mode = e->shadow_mode;
    o->quota_mode = e->quota_mode;
    o->stop_when_over = e->stop_when_over;
    o->dots_replaced = e->dots_replaced;
    o->metadata = e->metadata;
    o->peeks = WEIR_RLS_PEEKS_ALLOW;
    envoy_settings_of(c)->merge_domains = e->merge_domains;
    c->grpc_max_age_ns = e->max_age_ns;
    c->grpc_max_age_grace_ns = e->max_age_grace_ns;
}

bool environment_apply(weir_config *c, char *const *env, char *ret_error)
{
    environment e = defaults;
    if (!read_all(&e, env, ret_error))
        return false;
    if (strcmp(e.config_type, "FILE") != 0) {
        return refuse(ret_error, "CONFIG_TYPE: expected FILE, found '%.*s'; %s", VALUE_SHOWN,
                      e.config_type, XDS);
    }
    apply_options(c, &e);
    return apply_headers(c, &e, ret_error) && apply_listen(c, &e, ret_error) &&
           apply_log(c, &e, ret_error) && apply_statsd(c, &e, env, ret_error) &&
           apply_tags(c, &e, ret_error) && apply_directory(c, &e);
}
/* ---- explaining ------------------------------------------------------------------------------ */

/* Appends the names of the variables of a row that are set. */
static void append_names(char *const *env, const environment_row *row, char *names)
{
    for (size_t len = strlen(names); *env; env++, len = strlen(names)) {
        const char *value = value_of(row, *env);
        if (value && (row->use == ENVIRONMENT_NOT_NEEDED || asks(value)))
            snprintf(names + len, NAMES_SIZE - len, "%s%.*s", len > 0 ? "," : "",
                     (int)strcspn(*env, "="), *env);
    }
}

/* Whether a variable begins as those of the reference, but is not in the table. Variables that
 * Kubernetes sets for a Service, such as STATSD_SERVICE_HOST and STATSD_PORT_8125_UDP, do not
 * count. */
static bool is_unknown(const char *entry)
{
    static const char *const families[] = {"RUNTIME_",    "LIMIT_",       "STATSD_",
                                           "PROMETHEUS_", "GRPC_SERVER_", "GRPC_CLIENT_",
                                           "GRPC_MAX_"};
    const char *end = strchr(entry, '='), *service = strstr(entry, "_SERVICE_"),
               *port = strstr(entry, "_PORT");
    bool found = false, known = !end || (service && service < end) || (port && port < end);
    for (size_t i = 0; i < CONFIG_LENGTH(families); i++)
        found |= strncmp(entry, families[i], strlen(families[i])) == 0;
    for (size_t i = 0; i < environment_rows_len; i++)
        known |= value_of(&environment_rows[i], entry) != NULL;
    return found && !known;
}

void environment_explain(char *const *env,
                         void (*note)(void *ctx, bool warning, const char *names, const char *why),
                         void *ctx)
{
    environment e = defaults;
    char error[CONFIG_ENVIRONMENT_ERROR_MAX];
    if (read_all(&e, env, error) && e.extra_tags[0] && !sends_stats(&e, env))
        note(ctx, true, "EXTRA_TAGS",
             "tags are sent only to statsd, which is off; set USE_STATSD=true");
    for (size_t i = 0; env[i]; i++) {
        char name[VALUE_SHOWN + 1];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(env[i], "="), env[i]);
        if (is_unknown(env[i]))
            note(ctx, true, name, "weir does not know this variable; is it misspelt?");
    }
    for (size_t i = 0, next; i < environment_rows_len; i = next) {
        char names[NAMES_SIZE] = "";
        const environment_row *row = &environment_rows[i];
        for (next = i; next < environment_rows_len && environment_rows[next].why && row->why &&
                       strcmp(environment_rows[next].why, row->why) == 0;
             next++)
            append_names(env, &environment_rows[next], names);
        next += next == i;
        if (names[0])
            note(ctx, row->use == ENVIRONMENT_WARN, names, row->why);
    }
}
