/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the daemon shows of itself: its metrics, /v1/live, INFO, and its readiness. */

#include "cmd/serve/running.h"
#include "codec/answer/metrics.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- metrics --------------------------------------------------------------------------------- */

static void put_metrics(void *ctx, weir_buffer *out)
{
    const protocol_loop *l = ctx;
    daemon *d = l->daemon;
    weir_server_stats s = weir_server_stats_get(d->server);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"weir_start_time_seconds", "gauge", "When weir was started, in seconds since 1970.",
         (uint64_t)(d->started_ns / 1000000000)},
        {"weir_connections", "gauge", "Open connections.", s.connected},
        {"weir_connections_max", "gauge", "Limit on open connections.",
         (uint64_t)l->config->connections},
        {"weir_connections_accepted_total", "counter", "Connections accepted.", s.accepted},
        {"weir_connections_refused_total", "counter",
         "Connections refused because too many were open, in total or from one client.", s.refused},
        {"weir_connections_refused_per_address_total", "counter",
         "Connections refused because one client had too many open.", s.refused_address},
        {"weir_connections_overloaded_total", "counter",
         "Connections closed because memory for buffers was exhausted.", s.overloaded},
        {"weir_connections_timed_out_total", "counter",
         "Connections closed: idle, slow to send or slow to read.", s.timed_out},
        {"weir_connections_bad_proxy_header_total", "counter",
         "Connections closed: PROXY header missing, malformed or from an untrusted proxy.",
         s.unproxied},
        {"weir_network_received_bytes_total", "counter", "Bytes read from clients.", s.bytes_in},
        {"weir_network_sent_bytes_total", "counter", "Bytes sent to clients.", s.bytes_out},
        {"weir_buffered_bytes", "gauge", "Bytes in the buffers of connections.", s.buffered},
        {"weir_reloads_total", "counter", "Configurations loaded since the start.",
         port_load_relaxed(&d->reloads)},
        {"weir_reloads_refused_total", "counter", "Configurations refused since the start.",
         port_load_relaxed(&d->reloads_refused)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        weir_metrics_put_one(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
    store_events_put_metrics(&d->events, out);
    FOR_FEATURES (d, put_metrics)
        feature_at(i)->put_metrics(d->part[i], out);
}

static void describe_server(void *ctx, weir_resp_server *ret)
{
    const protocol_loop *l = ctx;
    const daemon *d = l->daemon;
    int64_t up_ns = port_now_ns() - d->started_ns;
    weir_server_stats s = weir_server_stats_get(d->server);
    *ret = (weir_resp_server){.uptime_s = up_ns > 0 ? up_ns / 1000000000 : 0,
                              .connections = s.connected,
                              .connections_max = (uint64_t)l->config->connections,
                              .rejected = s.refused,
                              .rejected_address = s.refused_address,
                              .accepted = s.accepted};
}

/* ---- /v1/live -------------------------------------------------------------------------------- */

static void put_live(void *ctx, int64_t now_ns, weir_buffer *out)
{
    const protocol_loop *l = ctx;
    const daemon *d = l->daemon;
    weir_server_stats s = weir_server_stats_get(d->server);
    weir_buffer_printf(out,
                       ",\"connections\":%" PRIu64 ",\"reloads\":%" PRIu64
                       ",\"reloads_refused\":%" PRIu64 ",\"engine\":",
                       s.connected, port_load_relaxed(&d->reloads),
                       port_load_relaxed(&d->reloads_refused));
    engines_put_live(part_of(d, &engines_feature), l->i, d->loops_len, now_ns, out);
}

/* ---- readiness ------------------------------------------------------------------------------- */

/* Returns whether a rule denies all requests while its engine is unreachable. */
static bool needs_engine(const daemon *d, weir_engine_kind engine, weir_on_error on_error)
{
    bool closed = on_error == WEIR_ON_ERROR_DEFAULT
                      ? d->options->config->redis.on_error == WEIR_REDIS_CLOSED
                      : on_error == WEIR_ON_ERROR_CLOSED;
    return engine != WEIR_ENGINE_LOCAL && closed;
}

typedef struct need {
    const daemon *daemon;
    char name[WEIR_RULE_NAME_MAX + 1]; /* of the first rule that needs an engine */
} need;

static bool find_need(void *ctx, const weir_rule_view *rule)
{
    need *n = ctx;
    if (!needs_engine(n->daemon, rule->engine, rule->on_error))
        return true;
    snprintf(n->name, sizeof n->name, "%s", rule->name);
    return false;
}

/* Appends why the daemon is not ready, after `before`, if a rule needs an engine that is
 * unreachable. Returns false if no rule does. Names need no escaping in JSON. */
static bool lacks_engine(const protocol_loop *l, const char *before, weir_buffer *out)
{
    daemon *d = l->daemon;
    engines *e = part_of(d, &engines_feature);
    need n = {d, ""};
    weir_service_rules(l->service, find_need, &n);
    bool texts = n.name[0] == '\0' &&
                 needs_engine(d, weir_limiter_default_engine(d->limiter), WEIR_ON_ERROR_DEFAULT);
    if ((n.name[0] == '\0' && !texts) ||
        !engines_are_down(e, l->i, d->loops_len, weir_limiter_now(d->limiter)))
        return false;
    weir_buffer_printf(out, "%s\"a thread has no usable connection to Redis", before);
    engines_put_why(e, d->loops_len, out);
    weir_buffer_printf(out, ", so %s%s%s all requests (on_error: closed)\"",
                       texts ? "inline policies" : "policy ", n.name, texts ? " deny" : " denies");
    return true;
}

static bool not_ready(void *ctx, weir_buffer *out)
{
    const protocol_loop *l = ctx;
    bool stopping =
        weir_server_stopping(l->daemon->server) && !weir_server_handed_over(l->daemon->server);
    bool full = weir_server_is_full(l->daemon->server);
    if (stopping)
        weir_buffer_printf(out, "\"the daemon is stopping\"");
    if (full)
        weir_buffer_printf(out, "%s\"too many connections are open (limits.connections)\"",
                           stopping ? "," : "");
    return lacks_engine(l, stopping || full ? "," : "", out) || stopping || full;
}

void status_open_loop(protocol_loop *l)
{
    l->not_ready = not_ready;
    l->metrics = put_metrics;
    l->server = describe_server;
    l->live = put_live;
}
