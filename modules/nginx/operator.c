/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Handlers for operators: weir_status shows zones and counters, weir_reset gives a key its full
 * quota. Names of zones and limits and policy texts need no escaping, see weir_ngx_is_name(). */

#include "module.h"

#include "port/buffer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
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
    weir_ngx_status counter;
} results[] = {
    {"passed", WEIR_NGX_PASSED},
    {"delayed", WEIR_NGX_DELAYED},
    {"rejected", WEIR_NGX_REJECTED},
    {"delayed_shadow", WEIR_NGX_DELAYED_SHADOW},
    {"rejected_shadow", WEIR_NGX_REJECTED_SHADOW},
    {"failed", WEIR_NGX_FAILED},
};
_Static_assert(sizeof results / sizeof results[0] == WEIR_NGX_COUNTERS, "each counter is shown");

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
    for (size_t i = 0; i < WEIR_NGX_COUNTERS; i++)
        weir_buffer_printf(out, ",\"%s\":%" PRIu64, results[i].name,
                           (uint64_t)c->of[results[i].counter]);
    weir_buffer_printf(out, "}");
}

/* Statistics of a zone; all zero if it has no store. */
static weir_store_stats stats_of(const weir_ngx_zone *zone)
{
    return zone->store ? weir_store_stats_get(zone->store) : (weir_store_stats){0};
}

static void put_json(weir_buffer *out, const weir_ngx_main_conf *conf)
{
    weir_ngx_zone **zones = conf->zones.all.elts;
    weir_buffer_printf(out, "{\"zones\":[");
    for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++) {
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
    for (size_t i = 0; i < WEIR_NGX_COUNTERS; i++)
        weir_buffer_printf(out,
                           "weir_nginx_decisions_total{zone=\"%.*s\",policy=\"%.*s\","
                           "result=\"%s\"} %" PRIu64 "\n",
                           (int)zone->name.len, zone->name.data, len, label, results[i].name,
                           (uint64_t)c->of[results[i].counter]);
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
    weir_ngx_zone **zones = conf->zones.all.elts;
    weir_buffer_printf(out, "# HELP weir_nginx_decisions_total Requests, by limit and "
                            "result.\n# TYPE weir_nginx_decisions_total counter\n");
    for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++)
        each_count(out, zones[i], put_metric_count);
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help,
                           metrics[m].name, metrics[m].type);
        for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++) {
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
    weir_ngx_zone **zones = conf->zones.all.elts;
    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)))
        return NGX_HTTP_NOT_ALLOWED;
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++)
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

char *weir_ngx_status_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    ngx_str_t *args = cf->args->elts;
    (void)cmd;
    if (loc->status_format != 0 || loc->reset)
        return "is duplicate: a location has one weir_status or weir_reset";
    if (cf->args->nelts == 1 || weir_ngx_is(&args[1], "json")) {
        loc->status_format = JSON;
    } else if (weir_ngx_is(&args[1], "prometheus")) {
        loc->status_format = PROMETHEUS;
    } else {
        return weir_ngx_refuse(cf, "bad format \"%V\", expected json or prometheus", &args[1]);
    }
    return weir_ngx_note_operator(cf, "weir_status", status_handler) ? NGX_CONF_OK : NGX_CONF_ERROR;
}

/* ---- weir_reset ------------------------------------------------------------------------------ */

struct weir_ngx_reset {
    weir_ngx_zone *zone;
    ngx_str_t label; /* of the limits whose states are reset */
    ngx_http_complex_value_t key;
    bool is_address, all; /* all: every key; there is none in `key` */
    weir_ngx_place at;    /* of the directive */
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
    return limit->zone == reset->zone && weir_ngx_is_same(&limit->label, &reset->label);
}

/* Resets a key of every limit or, if key is NULL, all keys. */
static weir_status reset_limits(ngx_http_request_t *r, const struct weir_ngx_reset *reset,
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
        if (!limits[i]->open)
            return WEIR_E_IO;
        if (!key) /* limits of one name have one generation */
            return weir_store_reset_policy(reset->zone->store, limits[i]->reset_id);
        st =
            weir_store_reset(reset->zone->store, weir_ngx_limit_id(limits[i]), key->data, key->len);
    }
    return st;
}

/* Resets the limits, and answers the request. */
static ngx_int_t reset_and_answer(ngx_http_request_t *r, const struct weir_ngx_reset *reset,
                                  const ngx_str_t *key)
{
    static const char done[] = "{\"reset\":true}\n";
    weir_status st = reset_limits(r, reset, key);
    if (st == WEIR_OK && key && reset->is_address && key->len == 4) {
        /* As a socket for IPv6 sees it. */
        u_char mapped[16] = {[10] = 0xff, [11] = 0xff};
        ngx_memcpy(mapped + 12, key->data, key->len);
        st = reset_limits(r, reset, &(ngx_str_t){sizeof mapped, mapped});
    }
    if (st == WEIR_OK)
        return send_text(r, NGX_HTTP_OK, "application/json", done, sizeof done - 1);
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "cannot reset \"%V\", zone \"%V\": %s",
                  &reset->label, &reset->zone->name, weir_status_str(st));
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

static ngx_int_t reset_handler(ngx_http_request_t *r)
{
    const weir_ngx_loc_conf *loc = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    ngx_str_t key;
    if (!(r->method & (NGX_HTTP_POST | NGX_HTTP_DELETE)))
        return NGX_HTTP_NOT_ALLOWED;
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    if (loc->reset->all)
        return reset_and_answer(r, loc->reset, NULL);
    if (ngx_http_complex_value(r, &loc->reset->key, &key) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (key.len == 0 || key.len > WEIR_KEY_MAX)
        return refuse(r, "expected a key of 1 to 65536 bytes");
    if (loc->reset->is_address && !read_address(r, &key))
        return refuse(r, "expected an IP address");
    return reset_and_answer(r, loc->reset, &key);
}

/* Whether a key may be the bytes of an address: it is a variable alone, but not the text. */
static bool may_be_bytes(const ngx_str_t *key)
{
    size_t len = 0;
    while (len < key->len && (isalnum(key->data[len]) || strchr("${}_", key->data[len])))
        len++;
    return key->len > 1 && key->data[0] == '$' && len == key->len &&
           !strchr((char *)key->data + 1, '$');
}

bool weir_ngx_reset_check(ngx_conf_t *cf, const struct weir_ngx_reset *reset)
{
    weir_ngx_main_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    weir_ngx_limit **limits = conf->limits.elts;
    bool found = false, in_zone = false, bytes = !reset->is_address;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++) {
        if (!is_of(limits[i], reset))
            continue;
        found = true;
        in_zone |= limits[i]->in_zone;
        bytes |= may_be_bytes(&limits[i]->key.value);
    }
    if (!found) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "weir_reset: no limit \"%V\" in zone \"%V\", expected the name of a limit "
                      "or, if it has none, its policy in %V:%ui",
                      &reset->label, &reset->zone->name, &reset->at.file, reset->at.line);
    } else if (!in_zone || !bytes) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0, "weir_reset resets nothing, because %s in %V:%ui",
                      in_zone ? "the key of the limit is not $binary_remote_addr: use key="
                              : "a daemon decides: use weir reset",
                      &reset->at.file, reset->at.line);
    }
    return found;
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
    return weir_ngx_copy(cf, text, weir_policy_print(&policy, text, sizeof text), ret);
}

/* Reads which keys are reset. */
static bool read_reset_keys(ngx_conf_t *cf, struct weir_ngx_reset *reset)
{
    ngx_str_t *args = cf->args->elts, value = ngx_null_string;
    reset->all = weir_ngx_is(&args[3], "all");
    if (reset->all)
        return weir_ngx_is_name(&args[2]) ||
               !weir_ngx_refuse(cf, "expected the name of a limit with \"%V\"", &args[3]);
    reset->is_address = weir_ngx_is_parameter(&args[3], "addr=", &value);
    if ((!reset->is_address && !weir_ngx_is_parameter(&args[3], "key=", &value)) || value.len == 0)
        return !weir_ngx_refuse(
            cf, "bad parameter \"%V\", expected key=EXPRESSION, addr=EXPRESSION or all", &args[3]);
    ngx_http_compile_complex_value_t compile = {
        .cf = cf, .value = &value, .complex_value = &reset->key};
    return ngx_http_compile_complex_value(&compile) == NGX_OK;
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
    reset->zone = weir_ngx_zone_named(cf, &all->zones, &args[1]);
    if (!reset->zone || !read_reset_keys(cf, reset))
        return NGX_CONF_ERROR;
    return weir_ngx_note_operator(cf, "weir_reset", reset_handler) ? NGX_CONF_OK : NGX_CONF_ERROR;
}
