/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The arguments of weir_daemon, the choice of a connection, and the delivery of failures. */

#include "daemon.h"

#include "arguments.h"
#include "lines.h"
#include "port/assert.h"

enum { PORT_DEFAULT = 6380, CONNECTIONS_MAX = 64, WAIT_MAX_MS = 60000 };

struct weir_ngx_daemon {
    weir_ngx_peer peer; /* first: the callbacks of a connection get its address */
    weir_ngx_on_error on_error;

    /* Of this worker. */
    weir_ngx_connection *connection;
    ngx_uint_t connections;
    ngx_uint_t turn;                    /* the connection that gets the next question */
    weir_ngx_lines refusals, overflows; /* the lines of errors, and of a full queue */
    ngx_queue_t failed;                 /* questions whose done() is due */
    ngx_event_t deliver;
    ngx_connection_t stand_in; /* nginx's debug log reads ->fd of an event's data */
};

/* ---- callbacks ------------------------------------------------------------------------------- */

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

/* Lets done() be called later in this iteration of the event loop. */
static void fail(weir_ngx_daemon *d, weir_ngx_ask *ask, weir_ngx_answer why)
{
    WEIR_ASSERT(!ask->is_failed && why != WEIR_NGX_ANSWERED);
    ask->answer = why;
    ask->is_failed = 1;
    ngx_queue_insert_tail(&d->failed, &ask->failed);
    d->deliver.log = ngx_cycle->log;
    ngx_post_event(&d->deliver, &ngx_posted_events);
}

static void on_fail(weir_ngx_peer *peer, weir_ngx_waiting *question, weir_ngx_answer why)
{
    fail((weir_ngx_daemon *)peer, (weir_ngx_ask *)question, why);
}

static void on_reply(weir_ngx_waiting *question, const weir_ngx_reply *reply)
{
    weir_ngx_ask *ask = (weir_ngx_ask *)question;
    ask->answer = reply ? WEIR_NGX_ANSWERED : WEIR_NGX_ASK_REFUSED;
    if (reply) {
        ask->decision = reply->decision;
        ask->index = reply->index;
    }
    ask->done(ask);
}

static bool may_warn(weir_ngx_peer *peer)
{
    return weir_ngx_lines_may_log(&((weir_ngx_daemon *)peer)->refusals, NGX_LOG_ERR, ngx_cycle->log,
                                  "questions got an error from weir daemon", &peer->name);
}

/* ---- the directive --------------------------------------------------------------------------- */

/* The functions below return NULL, or what is expected. */

static const char *read_number(ngx_int_t n, ngx_int_t max, ngx_uint_t *ret, const char *expected)
{
    if (n < 1 || n > max)
        return expected;
    *ret = (ngx_uint_t)n;
    return NULL;
}

static const char *read_wait(ngx_str_t *value, ngx_msec_t *ret)
{
    return read_number(ngx_parse_time(value, 0), WAIT_MAX_MS, ret,
                       "expected a time from 1ms to 60s");
}

static const char *read_on_error(const ngx_str_t *value, weir_ngx_on_error *ret)
{
    static const char *const names[] = {[WEIR_NGX_ON_ERROR_OPEN] = "open",
                                        [WEIR_NGX_ON_ERROR_CLOSED] = "closed",
                                        [WEIR_NGX_ON_ERROR_LOCAL] = "local"};
    enum { NAMES = sizeof names / sizeof *names };
    size_t i = weir_ngx_choice(value, names, NAMES);
    if (i == NAMES)
        return "expected open, closed or local";
    *ret = (weir_ngx_on_error)i;
    return NULL;
}

static const char *read_password(const ngx_str_t *value, weir_slice *ret)
{
    if (value->len < 1 || value->len > 512)
        return "expected 1 to 512 bytes";
    *ret = (weir_slice){(const char *)value->data, value->len};
    return NULL;
}

static const char *read_option(weir_ngx_daemon *d, const ngx_str_t *argument)
{
    ngx_str_t value;
    if (weir_ngx_is_parameter(argument, "timeout=", &value))
        return read_wait(&value, &d->peer.timeout);
    if (weir_ngx_is_parameter(argument, "connect_timeout=", &value))
        return read_wait(&value, &d->peer.connect_timeout);
    if (weir_ngx_is_parameter(argument, "on_error=", &value))
        return read_on_error(&value, &d->on_error);
    if (weir_ngx_is_parameter(argument, "connections=", &value))
        return read_number(ngx_atoi(value.data, value.len), CONNECTIONS_MAX, &d->connections,
                           "expected a number from 1 to 64");
    if (weir_ngx_is_parameter(argument, "password=", &value))
        return read_password(&value, &d->peer.password);
    return "expected timeout=, connect_timeout=, on_error=, connections= or password=";
}

static bool read_options(ngx_conf_t *cf, weir_ngx_daemon *d)
{
    const ngx_str_t *argument = cf->args->elts;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        if (!weir_ngx_is_first(cf, 2, i))
            return false;
        const char *error = read_option(d, &argument[i]);
        if (error) {
            ngx_str_t name = weir_ngx_parameter_name(&argument[i]); /* without the password */
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "weir_daemon: parameter \"%V\": %s", &name,
                               error);
            return false;
        }
    }
    return true;
}

static bool read_address(ngx_conf_t *cf, weir_ngx_peer *d)
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
    d->peer = (weir_ngx_peer){.name = ((const ngx_str_t *)cf->args->elts)[1],
                              .timeout = 50,
                              .connect_timeout = 2000,
                              .on_reply = on_reply,
                              .on_fail = on_fail,
                              .may_warn = may_warn};
    d->connections = 1;
    if (!read_address(cf, &d->peer) || !read_options(cf, d))
        return NULL;
    d->connection = ngx_pcalloc(cf->pool, d->connections * sizeof *d->connection);
    if (!d->connection)
        return NULL;
    for (ngx_uint_t i = 0; i < d->connections; i++)
        weir_ngx_connection_init(&d->connection[i], &d->peer);
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

/* ---- questions ------------------------------------------------------------------------------- */

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
    ask->waiting.connection = NULL;
    ask->is_failed = 0;
    if (limits < 1 || limits > WEIR_NGX_ASK_MAX)
        return NGX_ERROR;
    weir_ngx_connection *k = choose(d);
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, log, 0, "weir daemon \"%V\": %uz limits, %s", &d->peer.name,
                   limits, k ? "asked" : "down");
    if (!k) {
        fail(d, ask, WEIR_NGX_ASK_DOWN);
        return NGX_OK;
    }
    if (weir_ngx_wire_size(limit, limits) <= WEIR_NGX_QUESTION_LEN_MAX &&
        weir_ngx_connection_ask(k, &ask->waiting, limit, limits))
        return NGX_OK;
    if (weir_ngx_lines_may_log(&d->overflows, NGX_LOG_ERR, ngx_cycle->log,
                               "commands were too long or too many for weir daemon", &d->peer.name))
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "weir daemon \"%V\": a command is too long, or too many commands wait",
                      &d->peer.name);
    fail(d, ask, WEIR_NGX_ASK_FULL);
    return NGX_OK;
}

void weir_ngx_daemon_cancel(weir_ngx_ask *ask)
{
    if (ask->is_failed) {
        ngx_queue_remove(&ask->failed);
        ask->is_failed = 0;
        return;
    }
    if (ask->waiting.connection)
        weir_ngx_connection_cancel(&ask->waiting);
}
