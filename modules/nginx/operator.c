/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Handlers for operators: weir_status shows zones and counters, weir_reset gives a key its full
 * quota. Names of zones and limits and policy texts need no escaping, see weir_ngx_is_name(). */

#include "module.h"

#include "port/buffer.h"

#include <inttypes.h>
#include <string.h>

enum { STATUS_LEN_MAX = 16 << 20 };

static ngx_int_t send_text(ngx_http_request_t *r, ngx_uint_t status, const char *type,
                           const void *text, size_t len)
{
    ngx_buf_t *b = ngx_create_temp_buf(r->pool, len + 1);
    if (!b)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    b->last = ngx_cpymem(b->pos, text, len);
    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    r->headers_out.status = status;
    r->headers_out.content_length_n = (off_t)len;
    r->headers_out.content_type = (ngx_str_t){strlen(type), (u_char *)type};
    r->headers_out.content_type_len = strlen(type);
    ngx_int_t rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only)
        return rc;
    ngx_chain_t out = {.buf = b};
    return ngx_http_output_filter(r, &out);
}

/* ---- weir_status ----------------------------------------------------------------------------- */

typedef enum status_format { JSON = 1, PROMETHEUS } status_format;

static const struct {
    const char *name;
    size_t at; /* in weir_ngx_counts */
} results[] = {
    {"passed", offsetof(weir_ngx_counts, passed)},
    {"delayed", offsetof(weir_ngx_counts, delayed)},
    {"rejected", offsetof(weir_ngx_counts, rejected)},
    {"delayed_shadow", offsetof(weir_ngx_counts, delayed_shadow)},
    {"rejected_shadow", offsetof(weir_ngx_counts, rejected_shadow)},
    {"failed", offsetof(weir_ngx_counts, failed)},
};

enum { RESULTS = sizeof results / sizeof results[0] };

static uint64_t result_of(const weir_ngx_counts *c, size_t i)
{
    return *(const ngx_atomic_t *)((const char *)c + results[i].at);
}

/* Calls put() for each row of a zone's counters that has a label and, once all rows have one, for
 * the last row, which counts for all other labels. */
static void each_count(weir_buffer *out, const weir_ngx_zone *zone,
                       void (*put)(weir_buffer *out, const weir_ngx_zone *zone, bool first,
                                   const char *label, int len, const weir_ngx_counts *c))
{
    ngx_uint_t n = zone->shared->counts_len;
    for (ngx_uint_t i = 0; i < n; i++) {
        const weir_ngx_counts *c = &zone->shared->counts[i];
        put(out, zone, i == 0, (const char *)c->label, c->label_len, c);
    }
    if (n == WEIR_NGX_COUNTS_OTHERS)
        put(out, zone, false, "(others)", 8, &zone->shared->counts[n]);
}

static void put_json_count(weir_buffer *out, const weir_ngx_zone *zone, bool first,
                           const char *label, int len, const weir_ngx_counts *c)
{
    (void)zone;
    weir_buffer_printf(out, "%s{\"policy\":\"%.*s\"", first ? "" : ",", len, label);
    for (size_t i = 0; i < RESULTS; i++)
        weir_buffer_printf(out, ",\"%s\":%" PRIu64, results[i].name, result_of(c, i));
    weir_buffer_printf(out, "}");
}

/* Statistics of a zone; all zero if it has no store. */
static weir_store_stats stats_of(const weir_ngx_zone *zone)
{
    return zone->store ? weir_store_stats_get(zone->store) : (weir_store_stats){0};
}

static void put_json(weir_buffer *out, const weir_ngx_main_conf *conf)
{
    weir_ngx_zone **zones = conf->zones.elts;
    weir_buffer_printf(out, "{\"zones\":[");
    for (ngx_uint_t i = 0; i < conf->zones.nelts; i++) {
        weir_store_stats s = stats_of(zones[i]);
        weir_buffer_printf(
            out,
            "%s{\"zone\":\"%.*s\",\"open\":%s,\"keys\":%" PRIu64 ",\"memory_bytes\":%" PRIu64
            ",\"memory_max_bytes\":%" PRIu64 ",\"evicted\":%" PRIu64 ",\"limits\":[",
            i > 0 ? "," : "", (int)zones[i]->name.len, zones[i]->name.data,
            zones[i]->store ? "true" : "false", s.keys, s.memory_bytes, s.memory_max, s.evicted);
        each_count(out, zones[i], put_json_count);
        weir_buffer_printf(out, "]}");
    }
    weir_buffer_printf(out, "]}\n");
}

static void put_metric_count(weir_buffer *out, const weir_ngx_zone *zone, bool first,
                             const char *label, int len, const weir_ngx_counts *c)
{
    (void)first;
    for (size_t i = 0; i < RESULTS; i++)
        weir_buffer_printf(out,
                           "weir_nginx_decisions_total{zone=\"%.*s\",policy=\"%.*s\","
                           "result=\"%s\"} %" PRIu64 "\n",
                           (int)zone->name.len, zone->name.data, len, label, results[i].name,
                           result_of(c, i));
}

static const struct {
    const char *name, *type, *help;
    size_t at; /* in weir_store_stats */
} metrics[] = {
    {"weir_nginx_zone_keys", "gauge",
     "Keys stored, including keys with full quota that were not yet removed.",
     offsetof(weir_store_stats, keys)},
    {"weir_nginx_zone_memory_bytes", "gauge", "Memory used by the states of keys.",
     offsetof(weir_store_stats, memory_bytes)},
    {"weir_nginx_zone_memory_max_bytes", "gauge", "Memory that the states of keys may use.",
     offsetof(weir_store_stats, memory_max)},
    {"weir_nginx_zone_evicted_total", "counter",
     "Keys without full quota that were evicted because the memory was full.",
     offsetof(weir_store_stats, evicted)},
};

static void put_prometheus(weir_buffer *out, const weir_ngx_main_conf *conf)
{
    weir_ngx_zone **zones = conf->zones.elts;
    weir_buffer_printf(out, "# HELP weir_nginx_decisions_total Requests, by limit and "
                            "result.\n# TYPE weir_nginx_decisions_total counter\n");
    for (ngx_uint_t i = 0; i < conf->zones.nelts; i++)
        each_count(out, zones[i], put_metric_count);
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help,
                           metrics[m].name, metrics[m].type);
        for (ngx_uint_t i = 0; i < conf->zones.nelts; i++) {
            uint64_t value;
            weir_store_stats s = stats_of(zones[i]);
            memcpy(&value, (const char *)&s + metrics[m].at, sizeof value);
            weir_buffer_printf(out, "%s{zone=\"%.*s\"} %" PRIu64 "\n", metrics[m].name,
                               (int)zones[i]->name.len, zones[i]->name.data, value);
        }
    }
}

static ngx_int_t status_handler(ngx_http_request_t *r)
{
    const weir_ngx_loc_conf *loc = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    weir_ngx_main_conf *conf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);
    weir_ngx_zone **zones = conf->zones.elts;
    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)))
        return NGX_HTTP_NOT_ALLOWED;
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    for (ngx_uint_t i = 0; i < conf->zones.nelts; i++)
        weir_ngx_zone_open(zones[i], r->connection->log);
    weir_buffer out;
    weir_buffer_init(&out, STATUS_LEN_MAX);
    bool json = loc->status_format == JSON;
    if (json)
        put_json(&out, conf);
    else
        put_prometheus(&out, conf);
    rc = out.failed
             ? NGX_HTTP_INTERNAL_SERVER_ERROR
             : send_text(r, NGX_HTTP_OK, json ? "application/json" : "text/plain; version=0.0.4",
                         weir_buffer_data(&out), weir_buffer_len(&out));
    weir_buffer_free(&out);
    return rc;
}

/* Makes `handler` answer the requests of a location. */
static void set_handler(ngx_conf_t *cf, ngx_http_handler_pt handler)
{
    ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    core->handler = handler;
}

char *weir_ngx_status_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    ngx_str_t *args = cf->args->elts;
    (void)cmd;
    if (loc->status_format != 0 || loc->reset)
        return "is duplicate: a location has one weir_status or weir_reset";
    if (cf->args->nelts == 1 || (args[1].len == 4 && ngx_strncmp(args[1].data, "json", 4) == 0)) {
        loc->status_format = JSON;
    } else if (args[1].len == 10 && ngx_strncmp(args[1].data, "prometheus", 10) == 0) {
        loc->status_format = PROMETHEUS;
    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "bad format \"%V\", expected json or prometheus",
                           &args[1]);
        return NGX_CONF_ERROR;
    }
    set_handler(cf, status_handler);
    return NGX_CONF_OK;
}

/* ---- weir_reset ------------------------------------------------------------------------------ */

struct weir_ngx_reset {
    weir_ngx_zone *zone;
    ngx_str_t label; /* of the limits whose states are reset */
    ngx_http_complex_value_t key;
    bool is_address;
    weir_ngx_place at; /* of the directive */
};

static ngx_int_t refuse(ngx_http_request_t *r, const char *why)
{
    char text[160];
    int len = snprintf(text, sizeof text, "{\"reset\":false,\"detail\":\"%s\"}\n", why);
    return send_text(r, NGX_HTTP_BAD_REQUEST, "application/json", text, (size_t)len);
}

/* Replaces the text of an address with the bytes that $binary_remote_addr has for it. */
static bool read_address(ngx_http_request_t *r, ngx_str_t *key)
{
    ngx_addr_t addr;
    if (ngx_parse_addr(r->pool, &addr, key->data, key->len) != NGX_OK)
        return false;
    if (addr.sockaddr->sa_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)addr.sockaddr;
        *key = (ngx_str_t){sizeof in->sin_addr, (u_char *)&in->sin_addr};
        return true;
    }
#if (NGX_HAVE_INET6)
    if (addr.sockaddr->sa_family == AF_INET6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)addr.sockaddr;
        *key = (ngx_str_t){sizeof in->sin6_addr, (u_char *)&in->sin6_addr};
        return true;
    }
#endif
    return false;
}

static bool is_of(const weir_ngx_limit *limit, const struct weir_ngx_reset *reset)
{
    return limit->zone == reset->zone && limit->label.len == reset->label.len &&
           ngx_memcmp(limit->label.data, reset->label.data, reset->label.len) == 0;
}

static weir_status reset_all(ngx_http_request_t *r, const struct weir_ngx_reset *reset,
                             const ngx_str_t *key)
{
    weir_ngx_main_conf *conf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);
    weir_ngx_limit **limits = conf->limits.elts;
    weir_status st = WEIR_OK;
    for (ngx_uint_t i = 0; i < conf->limits.nelts && st == WEIR_OK; i++) {
        if (!is_of(limits[i], reset))
            continue;
        if (!limits[i]->open)
            weir_ngx_limit_open(limits[i], r->connection->log);
        st = limits[i]->open
                 ? weir_store_reset(reset->zone->store, limits[i]->id, key->data, key->len)
                 : WEIR_E_IO;
    }
    return st;
}

static ngx_int_t reset_handler(ngx_http_request_t *r)
{
    static const char done[] = "{\"reset\":true}\n";
    const weir_ngx_loc_conf *loc = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    ngx_str_t key;
    if (!(r->method & (NGX_HTTP_POST | NGX_HTTP_DELETE)))
        return NGX_HTTP_NOT_ALLOWED;
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    if (ngx_http_complex_value(r, &loc->reset->key, &key) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (key.len == 0 || key.len > WEIR_KEY_MAX)
        return refuse(r, "expected a key of 1 to 65536 bytes");
    if (loc->reset->is_address && !read_address(r, &key))
        return refuse(r, "expected an IP address");
    if (reset_all(r, loc->reset, &key) != WEIR_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (loc->reset->is_address && key.len == 4) { /* as a socket for IPv6 sees the client */
        u_char mapped[16] = {[10] = 0xff, [11] = 0xff};
        ngx_memcpy(mapped + 12, key.data, key.len);
        if (reset_all(r, loc->reset, &(ngx_str_t){sizeof mapped, mapped}) != WEIR_OK)
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return send_text(r, NGX_HTTP_OK, "application/json", done, sizeof done - 1);
}

bool weir_ngx_reset_check(ngx_conf_t *cf, const struct weir_ngx_reset *reset)
{
    weir_ngx_main_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    weir_ngx_limit **limits = conf->limits.elts;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++) {
        if (is_of(limits[i], reset))
            return true;
    }
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "weir_reset: no limit \"%V\" in zone \"%V\", expected the name of a limit or, if "
                  "it has none, its policy in %V:%ui",
                  &reset->label, &reset->zone->name, &reset->at.file, reset->at.line);
    return false;
}

/* A policy's canonical text, or a name as it is. */
static bool read_label(ngx_conf_t *cf, ngx_str_t *arg, ngx_str_t *ret)
{
    weir_policy policy;
    char text[WEIR_POLICY_TEXT_MAX];
    *ret = *arg;
    if (weir_ngx_is_name(arg))
        return true;
    if (!weir_ngx_policy_conf(cf, arg, &policy))
        return false;
    size_t len = weir_policy_print(&policy, text, sizeof text);
    *ret = (ngx_str_t){len, ngx_pnalloc(cf->pool, len)};
    if (ret->data)
        ngx_memcpy(ret->data, text, len);
    return ret->data != NULL;
}

char *weir_ngx_reset_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    weir_ngx_main_conf *all = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    ngx_str_t *args = cf->args->elts;
    (void)cmd;
    if (loc->status_format != 0 || loc->reset)
        return "is duplicate: a location has one weir_status or weir_reset";
    struct weir_ngx_reset *reset = ngx_pcalloc(cf->pool, sizeof *reset);
    struct weir_ngx_reset **place = ngx_array_push(&all->resets);
    if (!reset || !place || !read_label(cf, &args[2], &reset->label))
        return NGX_CONF_ERROR;
    *place = loc->reset = reset;
    reset->at = weir_ngx_place_of(cf);
    reset->zone = weir_ngx_zone_named(cf, &args[1]);
    ngx_str_t value = ngx_null_string;
    reset->is_address = weir_ngx_is_parameter(&args[3], "addr=", &value);
    if ((!reset->is_address && !weir_ngx_is_parameter(&args[3], "key=", &value)) ||
        value.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "bad parameter \"%V\", expected key=EXPRESSION or addr=EXPRESSION",
                           &args[3]);
        return NGX_CONF_ERROR;
    }
    ngx_http_compile_complex_value_t compile = {
        .cf = cf, .value = &value, .complex_value = &reset->key};
    if (!reset->zone || ngx_http_compile_complex_value(&compile) != NGX_OK)
        return NGX_CONF_ERROR;
    set_handler(cf, reset_handler);
    return NGX_CONF_OK;
}
