/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The arguments of weir_daemon, the choice of a connection, and the delivery of failures. */

#include "daemon_connection.h"
#include "zone.h"

enum { PORT_DEFAULT = 6380, CONNECTIONS_MAX = 64, WAIT_MAX_MS = 60000 };

/* ---- the directive --------------------------------------------------------------------------- */

static const char *read_wait(ngx_str_t *value, ngx_msec_t *ret)
{
    ngx_int_t ms = ngx_parse_time(value, 0);
    if (ms < 1 || ms > WAIT_MAX_MS)
        return "expected a time from 1ms to 60s";
    *ret = (ngx_msec_t)ms;
    return NULL;
}

static const char *read_connections(ngx_str_t *value, ngx_uint_t *ret)
{
    ngx_int_t n = ngx_atoi(value->data, value->len);
    if (n < 1 || n > CONNECTIONS_MAX)
        return "expected a number from 1 to 64";
    *ret = (ngx_uint_t)n;
    return NULL;
}

static const char *read_on_error(const ngx_str_t *value, weir_ngx_on_error *ret)
{
    static const char *const names[] = {"open", "closed", "local"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (value->len == ngx_strlen(names[i]) &&
            ngx_strncmp(value->data, names[i], value->len) == 0) {
            *ret = (weir_ngx_on_error)i;
            return NULL;
        }
    }
    return "expected open, closed or local";
}

static const char *read_password(const ngx_str_t *value, weir_slice *ret)
{
    if (value->len < 1 || value->len > 512)
        return "expected 1 to 512 bytes";
    *ret = (weir_slice){(const char *)value->data, value->len};
    return NULL;
}

/* Returns NULL, or what is wrong. */
static const char *read_option(weir_ngx_daemon *d, const ngx_str_t *argument)
{
    ngx_str_t value;
    if (weir_ngx_is_parameter(argument, "timeout=", &value))
        return read_wait(&value, &d->timeout);
    if (weir_ngx_is_parameter(argument, "connect_timeout=", &value))
        return read_wait(&value, &d->connect_timeout);
    if (weir_ngx_is_parameter(argument, "on_error=", &value))
        return read_on_error(&value, &d->on_error);
    if (weir_ngx_is_parameter(argument, "connections=", &value))
        return read_connections(&value, &d->connections);
    if (weir_ngx_is_parameter(argument, "password=", &value))
        return read_password(&value, &d->password);
    return "expected timeout=, connect_timeout=, on_error=, connections= or password=";
}

/* "password=secret" must not be logged. */
static ngx_str_t name_of(const ngx_str_t *argument)
{
    ngx_str_t name = *argument;
    u_char *end = ngx_strlchr(name.data, name.data + name.len, '=');
    if (end)
        name.len = (size_t)(end - name.data);
    return name;
}

static bool read_options(ngx_conf_t *cf, weir_ngx_daemon *d)
{
    const ngx_str_t *argument = cf->args->elts;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        if (!weir_ngx_is_first(cf, 2, i))
            return false;
        const char *error = read_option(d, &argument[i]);
        if (error) {
            ngx_str_t name = name_of(&argument[i]);
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "weir_daemon: parameter \"%V\": %s", &name,
                               error);
            return false;
        }
    }
    return true;
}

static bool read_address(ngx_conf_t *cf, weir_ngx_daemon *d)
{
    ngx_url_t url;
    ngx_memzero(&url, sizeof url);
    url.url = d->name;
    url.default_port = PORT_DEFAULT;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK || url.uri.len > 0 || url.naddrs == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "weir_daemon: address \"%V\": %s", &d->name,
                           url.err ? url.err : "expected host:port or unix:/path");
        return false;
    }
    d->address = url.addrs;
    d->addresses = url.naddrs;
    return true;
}

static void on_deliver(ngx_event_t *event);

/* Runs when the configuration is freed: when a worker ends, or after a reload without workers. */
static void free_daemon(void *data)
{
    weir_ngx_daemon *d = data;
    for (ngx_uint_t i = 0; i < d->connections; i++)
        weir_ngx_connection_free(&d->connection[i]);
    if (d->deliver.posted) {
        ngx_delete_posted_event(&d->deliver); /* a macro of two statements */
    }
}

weir_ngx_daemon *weir_ngx_daemon_conf(ngx_conf_t *cf)
{
    weir_ngx_daemon *d = ngx_pcalloc(cf->pool, sizeof *d);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    if (!d || !cleanup)
        return NULL;
    d->name = ((const ngx_str_t *)cf->args->elts)[1];
    d->timeout = 50;
    d->connect_timeout = 2000;
    d->connections = 1;
    if (!read_address(cf, d) || !read_options(cf, d))
        return NULL;
    d->connection = ngx_pcalloc(cf->pool, d->connections * sizeof *d->connection);
    if (!d->connection)
        return NULL;
    for (ngx_uint_t i = 0; i < d->connections; i++)
        weir_ngx_connection_init(&d->connection[i], d);
    ngx_queue_init(&d->failed);
    d->stand_in.fd = (ngx_socket_t)-1;
    d->stand_in.data = d;
    d->deliver.handler = on_deliver;
    d->deliver.data = &d->stand_in;
    cleanup->handler = free_daemon;
    cleanup->data = d;
    return d;
}

weir_ngx_on_error weir_ngx_daemon_on_error(const weir_ngx_daemon *d)
{
    return d->on_error;
}

bool weir_ngx_daemon_may_warn(weir_ngx_daemon *d)
{
    time_t now = ngx_time();
    if (now == d->warned)
        return false;
    d->warned = now;
    return true;
}

/* ---- questions ------------------------------------------------------------------------------- */

static void on_deliver(ngx_event_t *event)
{
    weir_ngx_daemon *d = ((ngx_connection_t *)event->data)->data;
    while (!ngx_queue_empty(&d->failed)) {
        ngx_queue_t *first = ngx_queue_head(&d->failed);
        weir_ngx_ask *ask = ngx_queue_data(first, weir_ngx_ask, failed);
        ngx_queue_remove(first);
        ask->is_failed = 0;
        ask->done(ask);
    }
}

void weir_ngx_daemon_fail(weir_ngx_daemon *d, weir_ngx_ask *ask, weir_ngx_answer why)
{
    ask->answer = why;
    ask->is_failed = 1;
    ngx_queue_insert_tail(&d->failed, &ask->failed);
    d->deliver.log = ngx_cycle->log;
    ngx_post_event(&d->deliver, &ngx_posted_events);
}

/* Chooses a connection round-robin, without those that are down. Returns NULL if all are. */
static weir_ngx_connection *choose(weir_ngx_daemon *d)
{
    for (ngx_uint_t i = 0; i < d->connections; i++) {
        weir_ngx_connection *k = &d->connection[d->turn];
        d->turn = (d->turn + 1) % d->connections;
        if (!k->down)
            return k;
    }
    return NULL;
}

ngx_int_t weir_ngx_daemon_ask(weir_ngx_daemon *d, weir_ngx_ask *ask,
                              const weir_ngx_ask_limit *limit, size_t limits, ngx_log_t *log)
{
    ask->connection = NULL;
    ask->is_failed = 0;
    if (limits < 1 || limits > WEIR_NGX_ASK_MAX)
        return NGX_ERROR;
    weir_ngx_connection *k = choose(d);
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, log, 0, "weir daemon \"%V\": %uz limits, %s", &d->name,
                   limits, k ? "asked" : "down");
    if (!k) {
        weir_ngx_daemon_fail(d, ask, WEIR_NGX_ASK_DOWN);
        return NGX_OK;
    }
    if (weir_ngx_wire_size(limit, limits) <= WEIR_NGX_QUESTION_LEN_MAX &&
        weir_ngx_connection_ask(k, ask, limit, limits))
        return NGX_OK;
    if (weir_ngx_daemon_may_warn(d))
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "weir daemon \"%V\": a command is too long, or too many commands wait",
                      &d->name);
    weir_ngx_daemon_fail(d, ask, WEIR_NGX_ASK_FULL);
    return NGX_OK;
}

void weir_ngx_daemon_cancel(weir_ngx_ask *ask)
{
    if (ask->is_failed) {
        ngx_queue_remove(&ask->failed);
        ask->is_failed = 0;
        return;
    }
    if (ask->connection)
        weir_ngx_connection_cancel(ask->connection, ask);
}
