/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens the engines of each event loop, logs the events of their servers, and reports their
 * metrics. It must not know the protocol of a server. */

#include "cmd/serve/parts.h"

#include "cmd/serve/event_filter.h"
#include "codec/answer/json.h"
#include "codec/answer/metrics.h"
#include "net/tls/client.h"
#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOOPS_MAX = EVENT_FILTER_LOOPS_MAX };

typedef struct engine_log { /* the context of an engine's log callback */
    engines *engines;
    unsigned loop;
} engine_log;

struct engines {
    const weir_config *config;
    weir_store *store;
    const log_target *log;
    port_tls *tls; /* NULL: no server uses TLS */
    weir_redis_stats redis_stats;
    weir_redis_resets resets;
    weir_hybrid_stats hybrid_stats;
    weir_engine *redis[LOOPS_MAX], *hybrid[LOOPS_MAX]; /* used by the loop's thread only */
    engine_log logs[LOOPS_MAX];
    port_mutex *lock; /* guards `events` */
    port_cond *changed;
    event_filter events;
};

/* ---- the log --------------------------------------------------------------------------------- */

static weir_log_level level_of(const char *event, const char *text)
{
    bool bad = strcmp(event, "redis-down") == 0 || strcmp(event, "redis-refuses") == 0 ||
               strcmp(event, "redis-alone") == 0 || strcmp(event, "redis-clock") == 0 ||
               (strcmp(event, "redis-breaker") == 0 && strcmp(text, "open") == 0);
    return bad ? WEIR_LOG_WARNING : WEIR_LOG_INFO;
}

/* The name of the field with an event's text. */
static const char *name_of(const char *event)
{
    bool up = strcmp(event, "redis-up") == 0, down = strcmp(event, "redis-down") == 0;
    bool breaker = strcmp(event, "redis-breaker") == 0;
    return up ? "by" : down ? "why" : breaker ? "state" : "text";
}

static void log_engine_event(void *ctx, const char *event, const char *node, const char *text)
{
    const engine_log *t = ctx;
    engines *e = t->engines;
    port_mutex_lock(e->lock);
    bool passes = event_filter_passes(&e->events, t->loop, event, node, text, port_steady_ns());
    port_cond_wake(e->changed);
    port_mutex_unlock(e->lock);
    if (passes)
        log_event(e->log, level_of(event, text), event,
                  LOG(log_text("node", node[0] ? node : NULL), log_text(name_of(event), text)));
}

/* ---- the engines of a loop ------------------------------------------------------------------- */

static uint64_t new_seed(unsigned loop)
{
    uint64_t seed = 0;
    if (port_random(&seed, sizeof seed) != WEIR_OK)
        seed = (uint64_t)port_steady_ns();
    return seed ^ loop;
}

static weir_status open_loop(engines *e, unsigned loop, port_dialer *dialer)
{
    const weir_redis_setup redis = {.options = &e->config->redis,
                                    .tls = e->tls,
                                    .dialer = dialer,
                                    .store = e->store,
                                    .stats = &e->redis_stats,
                                    .log = {log_engine_event, &e->logs[loop]},
                                    .seed = new_seed(loop)};
    weir_status st = weir_redis_engine_open(&e->redis[loop], &redis);
    if (st != WEIR_OK)
        return st;
    const weir_hybrid_setup hybrid = {.options = &e->config->hybrid,
                                      .upstream = e->redis[loop],
                                      .dialer = dialer,
                                      .stats = &e->hybrid_stats,
                                      .resets = &e->resets};
    return weir_hybrid_engine_open(&e->hybrid[loop], &hybrid);
}

void engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer)
{
    if (!e)
        return;
    WEIR_ASSERT(loop < sizeof e->logs / sizeof e->logs[0]);
    e->logs[loop] = (engine_log){e, loop};
    weir_status st = open_loop(e, loop, dialer);
    if (st != WEIR_OK)
        log_event(e->log, WEIR_LOG_ERROR, "engine-failed",
                  LOG(log_text("error", weir_status_str(st)),
                      log_text("text", "one thread could not start its Redis client; it fails all "
                                       "requests for policies with the engine redis or hybrid")));
    if (e->redis[loop])
        weir_service_set_engine(service, WEIR_ENGINE_REDIS, e->redis[loop]);
    if (e->hybrid[loop])
        weir_service_set_engine(service, WEIR_ENGINE_HYBRID, e->hybrid[loop]);
}

static void close_engine(weir_engine **engine)
{
    if (*engine)
        (*engine)->calls->close(*engine);
    *engine = NULL;
}

void engines_end(engines *e, unsigned loop, weir_service *service)
{
    if (!e)
        return;
    weir_service_set_engine(service, WEIR_ENGINE_HYBRID, NULL);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, NULL);
    close_engine(&e->hybrid[loop]);
    close_engine(&e->redis[loop]);
}

/* Whether any of the first `loops` loops is not connected. */
static bool lacks_server(const engines *e, unsigned loops)
{
    bool lacks = false;
    for (unsigned i = 0; i < loops; i++)
        lacks |= !event_filter_reaches(&e->events, i, false);
    return lacks;
}

void engines_await(engines *e, unsigned loops, bool gives_up, int64_t patience_ns)
{
    if (!e)
        return;
    int64_t end_ns = port_steady_ns() + patience_ns, left_ns = patience_ns;
    port_mutex_lock(e->lock);
    while (lacks_server(e, loops) && left_ns > 0 &&
           !(gives_up && event_filter_failed(&e->events) >= e->config->redis.urls_len)) {
        port_cond_wait_for(e->changed, e->lock, left_ns);
        left_ns = end_ns - port_steady_ns();
    }
    port_mutex_unlock(e->lock);
}

/* A circuit breaker stays open until a probe is answered. When the next probe is due, the engine
 * counts as reachable: a daemon that is not ready may receive no request that could be the
 * probe. */
bool engines_are_down(engines *e, unsigned loop, unsigned loops, int64_t now_ns)
{
    port_mutex_lock(e->lock);
    bool down = lacks_server(e, loops);
    bool admitted = event_filter_reaches(&e->events, loop, true);
    port_mutex_unlock(e->lock);
    return down || (!admitted &&
                    !(e->redis[loop] && weir_redis_engine_would_probe(e->redis[loop], now_ns)));
}

void engines_put_why(engines *e, unsigned loops, weir_buffer *out)
{
    char text[EVENT_FILTER_NAME_SIZE + 256];
    const char *why;
    port_mutex_lock(e->lock);
    const char *node = event_filter_why(&e->events, loops, &why);
    if (node)
        (void)snprintf(text, sizeof text, "%s: %s", node, why);
    port_mutex_unlock(e->lock);
    if (!node)
        return;
    weir_buffer quoted;
    weir_buffer_init(&quoted, 8 * sizeof text);
    weir_json_put_string(&quoted, text, strlen(text));
    size_t len = weir_buffer_len(&quoted);
    if (len > 2) /* without its quotes */
        weir_buffer_printf(out, " (%.*s)", (int)len - 2,
                           (const char *)weir_buffer_data(&quoted) + 1);
    weir_buffer_free(&quoted);
}

/* ---- metrics --------------------------------------------------------------------------------- */

typedef struct row {
    const char *name, *type, *help;
    const port_counter *value;
} row;

static void put_rows(weir_buffer *out, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        weir_metrics_put_one(out, rows[i].name, rows[i].type, rows[i].help,
                             port_load_relaxed(rows[i].value));
}

/* Appends a metric with several labelled values. */
static void put_labelled(weir_buffer *out, const char *name, const char *help, const char *label,
                         const row *rows, size_t n)
{
    weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (size_t i = 0; i < n; i++)
        weir_buffer_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, rows[i].name,
                           port_load_relaxed(rows[i].value));
}

static void put_redis(weir_buffer *out, const weir_redis_stats *s)
{
    const weir_redis_counts *c = &s->client;
    const row rows[] = {
        {"weir_redis_requests_total", "counter", "Requests to the redis engine.", &s->requests},
        {"weir_redis_commands_total", "counter", "Commands sent to servers, including retries.",
         &c->sent},
        {"weir_redis_answers_total", "counter",
         "Requests answered in time: by a server, or with an error by weir's Redis client.",
         &c->answered},
        {"weir_redis_redirects_total", "counter",
         "MOVED and ASK redirections of a Cluster that were followed.", &c->redirected},
        {"weir_redis_library_loads_total", "counter",
         "Times the Lua library was loaded into a server that had lost it.", &c->reloaded},
        {"weir_redis_connections", "gauge", "Open connections to servers.", &c->connected},
        {"weir_redis_connection_attempts_total", "counter", "Attempts to connect to servers.",
         &c->attempts},
        {"weir_redis_breaker_opened_total", "counter",
         "Times a circuit breaker opened, over all threads.", &s->opened},
        {"weir_redis_deny_cache_lookups_total", "counter", "Lookups in the deny cache.",
         &s->deny_lookups},
        {"weir_redis_deny_cache_hits_total", "counter",
         "Lookups in the deny cache that were answered from it.", &s->deny_hits},
        {"weir_redis_deny_cache_keys", "gauge", "Keys in the deny cache.", &s->deny_keys},
    };
    const row failures[] = {
        {.name = "timeout", .value = &c->timeout},
        {.name = "connection_lost", .value = &c->lost},
        {.name = "unreachable", .value = &c->unreachable},
        {.name = "overloaded", .value = &c->overloaded},
        {.name = "refused", .value = &c->refused},
    };
    const row by_error[] = {
        {.name = "open", .value = &s->by_error[WEIR_ON_ERROR_OPEN]},
        {.name = "closed", .value = &s->by_error[WEIR_ON_ERROR_CLOSED]},
        {.name = "local", .value = &s->by_error[WEIR_ON_ERROR_LOCAL]},
    };
    put_rows(out, rows, sizeof rows / sizeof rows[0]);
    put_labelled(out, "weir_redis_failures_total", "Requests that no server answered in time.",
                 "reason", failures, sizeof failures / sizeof failures[0]);
    put_labelled(out, "weir_redis_by_error_total",
                 "Requests that were answered by on_error without a server.", "on_error", by_error,
                 sizeof by_error / sizeof by_error[0]);
}

static void put_hybrid(weir_buffer *out, const weir_hybrid_stats *s)
{
    const row rows[] = {
        {"weir_hybrid_requests_total", "counter", "Requests to the hybrid engine.", &s->requests},
        {"weir_hybrid_local_decisions_total", "counter",
         "Requests to the hybrid engine that were answered without waiting for a server.",
         &s->local},
        {"weir_hybrid_syncs_total", "counter", "Synchronisations of a key with a server.",
         &s->syncs},
        {"weir_hybrid_leased_units_returned_total", "counter", "Leased units that were returned.",
         &s->given_back},
        {"weir_hybrid_overshoot_total", "counter",
         "Admitted units that exceeded the limit when they were synchronised.", &s->overshoot},
        {"weir_hybrid_overshoot_last", "gauge",
         "The largest overshoot of a key in the latest interval, summed over threads.",
         &s->overshoot_last},
        {"weir_hybrid_keys", "gauge", "Keys with a quota lease.", &s->keys},
    };
    put_rows(out, rows, sizeof rows / sizeof rows[0]);
}

void engines_put_metrics(const engines *e, weir_buffer *out)
{
    if (!e)
        return;
    put_redis(out, &e->redis_stats);
    put_hybrid(out, &e->hybrid_stats);
}

static uint64_t sum(const port_counter *const *counters, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += port_load_relaxed(counters[i]);
    return total;
}

void engines_put_live(engines *e, unsigned loop, unsigned loops, int64_t now_ns, weir_buffer *out)
{
    if (!e) {
        weir_buffer_printf(out, "null");
        return;
    }
    const weir_redis_counts *c = &e->redis_stats.client;
    const port_counter *by_error = e->redis_stats.by_error;
    const port_counter *const failures[] = {&c->timeout, &c->lost, &c->unreachable, &c->overloaded,
                                            &c->refused};
    const port_counter *const answers[] = {&by_error[WEIR_ON_ERROR_OPEN],
                                           &by_error[WEIR_ON_ERROR_CLOSED],
                                           &by_error[WEIR_ON_ERROR_LOCAL]};
    weir_buffer_printf(
        out, "{\"name\":\"%s\",\"up\":%s,\"failures\":%" PRIu64 ",\"by_error\":%" PRIu64 "}",
        e->config->engine == WEIR_ENGINE_HYBRID ? "hybrid" : "redis",
        engines_are_down(e, loop, loops, now_ns) ? "false" : "true",
        sum(failures, sizeof failures / sizeof failures[0]),
        sum(answers, sizeof answers / sizeof answers[0]));
}

/* ---- open and close -------------------------------------------------------------------------- */

weir_status engines_open(engines **ret, const weir_config *config, weir_store *store,
                         const log_target *log, char *ret_error, size_t size)
{
    const weir_redis_options *o = &config->redis;
    *ret = NULL;
    if (!config->has_redis)
        return WEIR_OK;
    engines *e = port_zalloc(1, sizeof *e);
    if (!e)
        return WEIR_E_NOMEM;
    e->config = config;
    e->store = store;
    e->log = log;
    e->redis_stats.client.resets = &e->resets;
    e->lock = port_mutex_new();
    e->changed = port_cond_new();
    weir_status st = e->lock && e->changed ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK && config_wants_tls(config))
        st = net_tls_open(&e->tls, o->tls_ca, o->tls_cert, o->tls_key, o->tls_insecure, ret_error,
                          size);
    if (st == WEIR_OK)
        *ret = e;
    else
        engines_close(e);
    return st;
}

void engines_close(engines *e)
{
    if (!e)
        return;
    net_tls_close(e->tls);
    port_cond_free(e->changed);
    port_mutex_free(e->lock);
    port_free(e);
}
