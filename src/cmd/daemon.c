/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Starts and stops the parts of the daemon, reloads its configuration, and reports its metrics, its
 * readiness and the events of its clock and state file. */

#include "cmd/daemon.h"

#include "cmd/auth_failures.h"
#include "cmd/engines.h"
#include "cmd/envoy/statsd.h"
#include "cmd/protocols.h"
#include "cmd/sigbus.h"
#include "cmd/state/state.h"
#include "cmd/store_events.h"
#include "cmd/tls_listeners.h"
#include "codec/metrics.h"
#include "net/server.h"
#include "port/atomic.h"
#include "port/port.h"
#include "service/top/top.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    REQUEST_MAX = 1 << 21, /* bytes; above the limits of every protocol */
    LOST_TICKS = 2,        /* without its directory; one that is replaced is not lost */
};

typedef struct daemon {
    const daemon_options *options;
    weir_store *store;
    weir_limiter *limiter;
    engines *engines; /* NULL: only the local store decides */
    auth_failures *failures;
    tls_listeners *tls;
    weir_rls *rls;
    statsd *statsd;            /* NULL: off */
    weir_limitador *limitador; /* NULL: not configured at the start */
    weir_spop *spop;           /* NULL: no listener has the protocol spoe */
    weir_server *server;
    protocol_loop loops[WEIR_LOOPS_MAX];
    void *contexts[WEIR_LOOPS_MAX];
    unsigned loops_len;
    int64_t started_ns;
    store_events events;
    char *directory;   /* of limits for Envoy; NULL: none */
    unsigned lost_for; /* ticks without it, up to LOST_TICKS */
    bool unreadable;   /* the last attempt to read the configuration failed */
    port_counter reloads, reloads_refused;
    port_counter streams; /* open streams of /v1/live */
} daemon;

/* How many replies to wrong passwords may be delayed per second. A delay takes a second, so at most
 * twice as many are delayed at once: a quarter of the connections. */
static uint64_t held_max(const weir_config *c)
{
    return (uint64_t)c->connections / 8 + 1;
}

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
         (uint64_t)d->options->config->connections},
        {"weir_connections_accepted_total", "counter", "Connections accepted.", s.accepted},
        {"weir_connections_refused_total", "counter",
         "Connections refused because too many were open.", s.refused},
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
    auth_failures_put_metrics(d->failures, out);
    tls_listeners_put_metrics(d->tls, d->server, out);
    statsd_put_metrics(d->statsd, out);
    weir_spop_put_metrics(d->spop, out);
    engines_put_metrics(d->engines, out);
}

static void describe_server(void *ctx, weir_resp_server *ret)
{
    const protocol_loop *l = ctx;
    const daemon *d = l->daemon;
    int64_t up_ns = port_now_ns() - d->started_ns;
    *ret = (weir_resp_server){
        .uptime_s = up_ns > 0 ? up_ns / 1000000000 : 0,
        .connections = weir_server_stats_get(d->server).connected,
        .connections_max = (uint64_t)d->options->config->connections,
    };
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
    engines_put_live(d->engines, l->i, d->loops_len, now_ns, out);
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
    need n = {d, ""};
    weir_service_rules(l->service, find_need, &n);
    bool texts = n.name[0] == '\0' &&
                 needs_engine(d, weir_limiter_default_engine(d->limiter), WEIR_ON_ERROR_DEFAULT);
    if ((n.name[0] == '\0' && !texts) ||
        !engines_are_down(d->engines, l->i, d->loops_len, weir_limiter_now(d->limiter)))
        return false;
    weir_buffer_printf(out,
                       "%s\"a thread has no usable connection to Redis, so %s%s%s all requests "
                       "(on_error: closed)\"",
                       before, texts ? "inline policies" : "policy ", n.name,
                       texts ? " deny" : " denies");
    return true;
}

static bool not_ready(void *ctx, weir_buffer *out)
{
    const protocol_loop *l = ctx;
    bool stopping = weir_server_stopping(l->daemon->server);
    if (stopping)
        weir_buffer_printf(out, "\"the daemon is stopping\"");
    return lacks_engine(l, stopping ? "," : "", out) || stopping;
}

/* ---- reload ---------------------------------------------------------------------------------- */

/* What activate_rules() activates. */
typedef struct rules_change {
    weir_limiter *limiter;
    weir_rules *rules;
    weir_engine_kind engine;
} rules_change;

static void activate_rules(void *ctx)
{
    const rules_change *c = ctx;
    weir_limiter_configure(c->limiter, c->rules, c->engine);
}

/* Activates the policies and the limits of a configuration: their rules first, because the limits
 * refer to them. */
static weir_status put_rules(daemon *d, const weir_config *config)
{
    weir_rules *rules;
    size_t limits_len = 0, others_len = 0, n = config->rules_len;
    weir_rls_config *rls = config->envoy.rls;
    weir_limitador_config *limitador = d->limitador ? config->limitador.limits : NULL;
    const weir_rule_spec *limits = rls ? weir_rls_config_rules(rls, &limits_len) : NULL;
    const weir_rule_spec *others =
        limitador ? weir_limitador_config_rules(limitador, &others_len) : NULL;
    weir_rule_spec *specs = port_zalloc(n + limits_len + others_len + 1, sizeof *specs);
    if (!specs)
        return WEIR_E_NOMEM;
    if (n > 0)
        memcpy(specs, config->rules, n * sizeof *specs);
    if (limits_len > 0)
        memcpy(specs + n, limits, limits_len * sizeof *specs);
    if (others_len > 0)
        memcpy(specs + n + limits_len, others, others_len * sizeof *specs);
    weir_status st =
        weir_rules_build(&rules, d->store, d->options->zones, specs, n + limits_len + others_len);
    port_free(specs);
    if (st != WEIR_OK)
        return st;
    st = weir_rules_set_routes(rules, config->routes, config->routes_len);
    if (st != WEIR_OK) {
        weir_rules_discard(rules);
        return st;
    }
    rules_change change = {d->limiter, rules, config->engine};
    if (d->spop)
        weir_spop_activate(d->spop, config->spoe, activate_rules, &change);
    else
        activate_rules(&change);
    if (rls) {
        weir_rls_config_hold(rls);
        weir_rls_activate(d->rls, rls);
    }
    if (limitador) {
        weir_limitador_config_hold(limitador);
        weir_limitador_activate(d->limitador, limitador);
    }
    return st;
}

void daemon_log_problem(const log_target *log, const config_problem *p)
{
    bool placed = p->line > 0;
    weir_log_level level = p->warning ? WEIR_LOG_WARNING : WEIR_LOG_ERROR;
    log_event(log, level, p->warning ? "config-warning" : "config-error",
              placed ? LOG(log_text("file", p->file), log_integer("line", (int64_t)p->line),
                           log_integer("column", (int64_t)p->column), log_text("path", p->path),
                           log_text("error", p->text))
                     : LOG(log_text("file", p->file), log_text("error", p->text)));
}

static void log_problem(void *ctx, const config_problem *p)
{
    const daemon *d = ctx;
    daemon_log_problem(d->options->log, p);
}

static void log_restart(void *ctx, const char *key)
{
    const daemon *d = ctx;
    log_event(d->options->log, WEIR_LOG_WARNING, "restart-needed",
              LOG(log_text("key", key),
                  log_text("text", "the new value takes effect when weir is restarted")));
}

/* Returns whether the configuration can run without new engines: they are opened only at the
 * start. */
static bool has_its_engines(const daemon *d, const weir_config *config)
{
    bool needs = config->engine != WEIR_ENGINE_LOCAL ||
                 config->envoy.options.engine != WEIR_ENGINE_LOCAL ||
                 config->limitador.options.engine != WEIR_ENGINE_LOCAL;
    for (size_t i = 0; i < config->rules_len; i++)
        needs |= config->rules[i].engine != WEIR_ENGINE_LOCAL;
    return d->engines || !needs;
}

static void ignore_problem(void *ctx, const config_problem *p)
{
    (void)ctx;
    (void)p;
}

static weir_status load_to(const daemon *d, const config_sink *sink, weir_config **ret)
{
    const daemon_options *o = d->options;
    return o->env ? config_load_environment(o->path, o->env, o->zones, sink, ret)
                  : config_load(o->path, true, o->zones, sink, ret);
}

/* Loads the configuration and logs its errors. If the file is unreadable in several attempts, only
 * the first error is logged. */
static weir_status load(daemon *d, weir_config **ret)
{
    const config_sink loud = {log_problem, d}, quiet = {ignore_problem, d};
    if (d->unreadable && load_to(d, &quiet, ret) == WEIR_E_IO)
        return WEIR_E_IO;
    config_free(*ret);
    *ret = NULL;
    return load_to(d, &loud, ret);
}

static void log_refused(daemon *d, const char *why, bool again, const char *text)
{
    port_add_relaxed(&d->reloads_refused, 1);
    weir_rls_count_refused(d->rls);
    if (!again)
        log_event(d->options->log, WEIR_LOG_ERROR, "reload-refused",
                  LOG(log_text("why", why), log_text("text", text)));
}

/* Keeps the path of the directory with limits. */
static weir_status keep_directory(daemon *d, const char *path)
{
    size_t size = path ? strlen(path) + 1 : 0;
    char *copy = path ? port_zalloc(1, size) : NULL;
    if (path && !copy)
        return WEIR_E_NOMEM;
    if (copy)
        memcpy(copy, path, size);
    port_free(d->directory);
    d->directory = copy;
    return WEIR_OK;
}

/* Watches the files with limits, which a reload may have changed. */
static weir_status watch_files(daemon *d, const weir_config *c)
{
    if (keep_directory(d, c->envoy.directory) != WEIR_OK)
        return WEIR_E_NOMEM;
    weir_status st = weir_server_watch(d->server, 0, c->envoy.directory);
    return st == WEIR_OK ? weir_server_watch(d->server, 1, c->limitador.file) : st;
}

/* How many limits of envoy.config there are, if there is such a directory. */
static log_pair log_limits(const weir_config *c)
{
    size_t n = c->envoy.rls ? weir_rls_config_limits(c->envoy.rls) : 0;
    return c->envoy.directory ? log_integer("limits", (int64_t)n) : log_text("limits", NULL);
}

static void log_reloaded(daemon *d, const char *why, const weir_config *config)
{
    port_add_relaxed(&d->reloads, 1);
    log_event(d->options->log, WEIR_LOG_INFO, "reloaded",
              LOG(log_text("why", why), log_integer("policies", (int64_t)config->rules_len),
                  log_limits(config)));
    config_each_change(d->options->config, config, log_restart, d);
    tls_listeners_reload(d->tls, config);
}

static bool reload(void *ctx, const char *why)
{
    daemon *d = ctx;
    weir_config *config = NULL;
    if (!d->options->path && !d->options->env) {
        tls_listeners_reload(d->tls, NULL);
        log_event(d->options->log, WEIR_LOG_WARNING, "reload-ignored",
                  LOG(log_text("why", why),
                      log_text("text", "weir was started without a configuration file")));
        return true;
    }
    bool again = d->unreadable;
    weir_status st = load(d, &config);
    d->unreadable = st == WEIR_E_IO;
    bool adjusted = st == WEIR_OK && d->options->adjust(d->options->ctx, config);
    if (adjusted && !has_its_engines(d, config))
        log_refused(
            d, why, false,
            "the new policies need the engine redis or hybrid, but weir was started without redis; "
            "the old configuration stays active. Restart weir to use the new one");
    else if (adjusted && put_rules(d, config) == WEIR_OK && watch_files(d, config) == WEIR_OK)
        log_reloaded(d, why, config);
    else
        log_refused(d, why, again && d->unreadable, "the old configuration stays active");
    config_free(config);
    return !d->unreadable;
}

/* Logs changes of single policies: WEIR.POLICY SET and DEL, /v1/shadow, /v1/candidate. */
static void log_change(void *ctx, const weir_rule_change *change)
{
    const daemon *d = ctx;
    static const char *const events[] = {[WEIR_RULE_LIMIT] = "policy-set",
                                         [WEIR_RULE_DROPPED] = "policy-deleted",
                                         [WEIR_RULE_SHADOW] = "shadow-changed",
                                         [WEIR_RULE_CANDIDATE] = "candidate-changed"};
    log_pair value = log_text("limit", change->text);
    if (change->kind == WEIR_RULE_SHADOW)
        value = log_text("shadow", change->shadow ? "true" : "false");
    else if (change->kind == WEIR_RULE_CANDIDATE)
        value = log_text("candidate", change->text ? change->text : "none");
    log_event(d->options->log, WEIR_LOG_INFO, events[change->kind],
              LOG(log_text("policy", change->name), value));
}

static void report_event(void *ctx, const char *event, const char *text)
{
    const daemon *d = ctx;
    bool stop = strcmp(event, "stopping") == 0 || strcmp(event, "stopped") == 0;
    log_event(d->options->log, stop ? WEIR_LOG_INFO : WEIR_LOG_WARNING, event,
              LOG(log_text("text", text)));
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t now(void *ctx)
{
    daemon *d = ctx;
    return weir_limiter_now(d->limiter);
}

/* ---- the directory of limits ----------------------------------------------------------------- */

/* Logs when the directory of limits disappears, which changes no limit, and when it is back. */
static void log_directory(daemon *d)
{
    struct stat ignored;
    bool lost = stat(d->directory, &ignored) != 0, was_lost = d->lost_for == LOST_TICKS;
    d->lost_for = !lost ? 0 : was_lost ? LOST_TICKS : d->lost_for + 1;
    bool is_lost = d->lost_for == LOST_TICKS;
    if (is_lost == was_lost)
        return;
    if (is_lost)
        weir_rls_count_refused(d->rls);
    log_event(
        d->options->log, is_lost ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
        is_lost ? "limits-lost" : "limits-back",
        LOG(log_text("directory", d->directory),
            log_text("text", is_lost ? "the directory does not exist; its limits stay active"
                                     : "the directory exists again; its files are read if they "
                                       "have changed")));
}

/* ---- HAProxy --------------------------------------------------------------------------------- */

static void log_unknown_messages(daemon *d)
{
    char name[WEIR_SPOP_NAME_MAX + 1];
    uint64_t n = d->spop ? weir_spop_take_unknown(d->spop, name) : 0;
    if (n > 0)
        log_event(d->options->log, WEIR_LOG_WARNING, "spoe-unknown-message",
                  LOG(log_text("message", name), log_integer("count", (int64_t)n),
                      log_text("text", "spoe.messages has no message of this name; such messages "
                                       "are not limited")));
}

/* Called about once a second. */
static void tick(void *ctx)
{
    daemon *d = ctx;
    store_events_tick(&d->events);
    log_unknown_messages(d);
    auth_failures_tick(d->failures, port_steady_ns());
    tls_listeners_tick(d->tls, port_steady_ns());
    if (d->statsd)
        statsd_tick(d->statsd, port_steady_ns());
    if (d->directory)
        log_directory(d);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Logs how the state file was left by the last process that used it. */
static void log_opened(const daemon *d, const weir_store_opened *opened)
{
    int64_t ago_ns = d->started_ns > opened->written_ns ? d->started_ns - opened->written_ns : 0;
    bool lost = opened->found == WEIR_FOUND_POWER_LOSS;
    log_event(d->options->log, lost ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "state",
              LOG(log_text("file", d->options->config->state_file),
                  log_text("found", state_found_text(opened->found)),
                  opened->written_ns > 0 ? log_integer("written_seconds_ago", ago_ns / 1000000000)
                                         : log_text("written_seconds_ago", NULL)));
}

static weir_status open_store(daemon *d, char *ret_error, size_t size)
{
    const weir_config *c = d->options->config;
    weir_store_error error = {""};
    weir_store_opened opened = {WEIR_FOUND_NOTHING, 0};
    const weir_store_options options = {.memory_bytes = (size_t)c->memory_bytes,
                                        .large_bytes = (size_t)c->memory_large_bytes,
                                        .file = c->state_file,
                                        .sync = c->sync,
                                        .when_full = c->when_full,
                                        .shared = c->shared,
                                        .trust_others = c->trust_others,
                                        .prefault = c->prefault,
                                        .reset = d->options->reset_state,
                                        .partitions = c->partitions,
                                        .partitions_len = c->partitions_len,
                                        .zones = d->options->zones,
                                        .ret_error = &error,
                                        .ret_opened = &opened};
    weir_status st = weir_store_open(&d->store, &options);
    if (st != WEIR_OK)
        snprintf(ret_error, size, "%s", error.text);
    else if (c->state_file)
        log_opened(d, &opened);
    if (st == WEIR_OK)
        sigbus_watch(d->options->log, c->state_file, d->store);
    return st;
}

/* Opens what a loop decides with. */
static weir_status open_loop(daemon *d, protocol_loop *l)
{
    weir_status st = weir_service_open(&l->service, d->limiter);
    if (st != WEIR_OK)
        return st;
    l->rls = d->rls;
    l->door.loop = weir_rls_loop_open(d->rls, l->service);
    if (!l->door.loop || !weir_rls_arena_open(&l->door.arena))
        return WEIR_E_NOMEM;
    if (d->spop && !(l->spop = weir_spop_loop_open(d->spop)))
        return WEIR_E_NOMEM;
    if (!d->limitador)
        return WEIR_OK;
    l->limitador = weir_limitador_loop_open(d->limitador, l->service);
    if (!l->limitador)
        return WEIR_E_NOMEM;
    const weir_rls_fallback fallback = weir_limitador_fallback(l->limitador);
    weir_rls_set_fallback(l->door.loop, &fallback);
    return WEIR_OK;
}

static void close_loop(protocol_loop *l)
{
    weir_rls_arena_close(&l->door.arena);
    weir_rls_loop_close(l->door.loop);
    weir_limitador_loop_close(l->limitador);
    weir_spop_loop_close(l->spop);
    weir_service_close(l->service);
}

static weir_status open_statsd(daemon *d)
{
    const config_envoy *envoy = &d->options->config->envoy;
    statsd_options o = {.flush_ns = envoy->statsd_flush_ns, .rls = d->rls, .log = d->options->log};
    if (!envoy->statsd || !statsd_address_read(envoy->statsd, &o.address))
        return WEIR_OK;
    d->statsd = statsd_open(&o);
    return d->statsd ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status open_loops(daemon *d)
{
    const weir_config *c = d->options->config;
    d->loops_len = c->threads > 0 ? c->threads : port_cores();
    if (d->loops_len > WEIR_LOOPS_MAX)
        d->loops_len = WEIR_LOOPS_MAX;
    for (unsigned i = 0; i < d->loops_len; i++) {
        protocol_loop *l = &d->loops[i];
        weir_status st = open_loop(d, l);
        if (st != WEIR_OK)
            return st;
        d->contexts[i] = l;
        l->daemon = d;
        l->config = c;
        l->failures = d->failures;
        l->i = i;
        l->loops = d->loops_len;
        l->not_ready = not_ready;
        l->metrics = put_metrics;
        l->server = describe_server;
        l->live = put_live;
        l->streams = &d->streams;
        l->started_ns = d->started_ns;
        protocols_open_loop(l);
    }
    return WEIR_OK;
}

static void begin(void *context, port_dialer *dialer)
{
    const protocol_loop *l = context;
    engines_begin(l->daemon->engines, l->i, l->service, dialer);
}

static void end(void *context)
{
    const protocol_loop *l = context;
    engines_end(l->daemon->engines, l->i, l->service);
}

static weir_status enable_top(daemon *d)
{
    const weir_config *c = d->options->config;
    const weir_top_options top = {(size_t)c->top_keys, (size_t)c->top_memory_bytes};
    return c->top_keys > 0 ? weir_limiter_enable_top(d->limiter, &top) : WEIR_OK;
}

/* Whether the configuration trusts a proxy that reports a client in a PROXY header. */
static bool may_proxy(void *ctx, const weir_peer_address *proxy)
{
    const daemon *d = ctx;
    const weir_address a = protocols_address(proxy);
    return weir_trusted_proxies_have(&d->options->config->trusted_proxies, &a);
}

static weir_status open_server(daemon *d, char *ret_error, size_t size)
{
    const weir_config *c = d->options->config;
    weir_listen_address listens[CONFIG_LISTENS_MAX];
    static_assert(CONFIG_LISTENS_MAX <= WEIR_LISTENERS_MAX, "the server accepts all of them");
    for (size_t i = 0; i < c->listens_len; i++)
        listens[i] = (weir_listen_address){.address = c->listens[i].address,
                                           .protocol = &protocols[c->listens[i].protocol].session,
                                           .tls = tls_listeners_get(d->tls, i),
                                           .proxy_protocol = c->listens[i].proxy_protocol};
    const weir_server_options options = {
        .listens = listens,
        .listens_len = c->listens_len,
        .loops = d->loops_len,
        .contexts = d->contexts,
        .limits = {.connections = c->connections,
                   .buffers = (size_t)c->buffers_bytes,
                   .request = REQUEST_MAX,
                   .idle_ns = c->idle_ns,
                   .request_ns = c->request_ns,
                   .write_ns = c->write_ns},
        .drain_ns = c->drain_ns,
        .ctx = d,
        .now = now,
        .may_proxy = c->trusted_proxies.len > 0 ? may_proxy : NULL,
        .begin = d->engines ? begin : NULL,
        .end = end,
        .tick = tick,
        .reload = reload,
        .report = report_event,
        .watch = d->options->path,
    };
    return weir_server_open(&d->server, &options, ret_error, size);
}

static void log_started(const daemon *d)
{
    const weir_config *c = d->options->config;
    char addresses[PROTOCOLS][DAEMON_ADDRESSES_MAX] = {""};
    for (size_t i = 0; i < c->listens_len; i++) {
        char *at = addresses[c->listens[i].protocol];
        size_t len = strlen(at);
        snprintf(at + len, DAEMON_ADDRESSES_MAX - len, "%s%s", len > 0 ? "," : "",
                 weir_server_address(d->server, i));
    }
    const char *engine = NULL;
    if (c->has_redis)
        engine = c->engine == WEIR_ENGINE_LOCAL    ? "local,redis"
                 : c->engine == WEIR_ENGINE_HYBRID ? "hybrid"
                                                   : "redis";
    log_pair pairs[PROTOCOLS + 7] = {log_text("version", WEIR_VERSION)};
    size_t n = 1;
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++)
        pairs[n++] = log_text(protocols[kind].name, addresses[kind][0] ? addresses[kind] : NULL);
    pairs[n++] = log_integer("policies", (int64_t)c->rules_len);
    pairs[n++] = log_limits(c);
    pairs[n++] = log_integer("memory_bytes", (int64_t)c->memory_bytes);
    pairs[n++] = log_integer("threads", d->loops_len);
    pairs[n++] = log_text("engine", engine);
    log_event(d->options->log, WEIR_LOG_INFO, "started", pairs);
    d->options->ready(d->options->ctx, addresses);
}

static void daemon_close(daemon *d)
{
    weir_server_close(d->server);
    statsd_close(d->statsd); /* it sends what the loops have counted */
    for (unsigned i = 0; i < d->loops_len; i++)
        close_loop(&d->loops[i]);
    weir_rls_close(d->rls);
    weir_limitador_close(d->limitador);
    weir_spop_close(d->spop);
    weir_limiter_close(d->limiter);
    engines_close(d->engines);
    tls_listeners_close(d->tls);
    auth_failures_close(d->failures);
    weir_store_close(d->store);
    sigbus_unwatch();
    port_free(d->directory);
    port_free(d);
}

static bool has_listener(const weir_config *c, protocol_kind protocol)
{
    size_t i = 0;
    while (i < c->listens_len && c->listens[i].protocol != protocol)
        i++;
    return i < c->listens_len;
}

int daemon_run(const daemon_options *options)
{
    daemon *d = port_zalloc(1, sizeof *d);
    if (!d)
        return 1;
    d->options = options;
    d->started_ns = port_now_ns();
    char error[512] = "";
    weir_status st = open_store(d, error, sizeof error);
    if (st == WEIR_OK)
        st = weir_limiter_open(&d->limiter, d->store, options->zones);
    if (st == WEIR_OK) {
        d->rls = weir_rls_open();
        st = d->rls ? open_statsd(d) : WEIR_E_NOMEM;
    }
    if (st == WEIR_OK && options->config->limitador.file) {
        d->limitador = weir_limitador_open();
        st = d->limitador ? WEIR_OK : WEIR_E_NOMEM;
    }
    if (st == WEIR_OK)
        weir_limiter_on_change(d->limiter, log_change, d);
    if (st == WEIR_OK)
        store_events_begin(&d->events, options->log, d->store, d->limiter,
                           options->config->state_file);
    if (st == WEIR_OK && has_listener(options->config, PROTOCOL_SPOE)) {
        d->spop = weir_spop_open();
        st = d->spop ? WEIR_OK : WEIR_E_NOMEM;
    }
    if (st == WEIR_OK)
        st = put_rules(d, options->config);
    if (st == WEIR_OK)
        st = enable_top(d);
    if (st == WEIR_OK)
        st = auth_failures_open(&d->failures, options->log, held_max(options->config));
    if (st == WEIR_OK)
        st =
            engines_open(&d->engines, options->config, d->store, options->log, error, sizeof error);
    if (st == WEIR_OK)
        st = open_loops(d);
    if (st == WEIR_OK)
        st = tls_listeners_open(&d->tls, options->config, options->log, error, sizeof error);
    if (st == WEIR_OK)
        st = open_server(d, error, sizeof error);
    if (st == WEIR_OK)
        st = watch_files(d, options->config);
    if (st == WEIR_OK) {
        store_events_log_offset(&d->events);
        log_started(d);
        weir_server_run(d->server);
    } else {
        log_event(options->log, WEIR_LOG_ERROR, "not-started",
                  LOG(log_text("error", error[0] ? error : weir_status_str(st))));
    }
    daemon_close(d);
    return st == WEIR_OK ? 0 : 1;
}
