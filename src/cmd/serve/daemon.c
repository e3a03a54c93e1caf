/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Starts and stops the parts of the daemon, reloads its configuration, and logs its events. */

#include "cmd/serve/running.h"

#include "cmd/config/keys.h"
#include "cmd/kit/sigbus.h"
#include "port/assert.h"
#include "port/atomic.h"
#include "port/limits.h"
#include "port/port.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How long a start waits for the connections to Redis. */
#define CONNECT_NS INT64_C(2000000000)

enum {
    CHANGES_MAX = 20, /* changes of single policies that are logged between two ticks */
    EDITS_MAX = 20,   /* keys that the event `reloaded` names */
};

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

/* Builds the policies of a configuration and the rules of its features, n in total. */
static weir_status build_rules(const daemon *d, const weir_config *config, size_t n,
                               weir_rules **ret)
{
    size_t len = 0, more;
    weir_rule_spec *specs = port_zalloc(n + 1, sizeof *specs);
    if (!specs)
        return WEIR_E_NOMEM;
    for (; len < config->rules_len; len++)
        specs[len] = config->rules[len];
    FOR_FEATURES (d, rules) {
        const weir_rule_spec *rules = feature_at(i)->rules(config, &more);
        for (size_t k = 0; rules && k < more; k++)
            specs[len++] = rules[k];
    }
    WEIR_ASSERT(len == n);
    weir_status st = weir_rules_build(ret, d->store, d->options->zones, specs, len);
    port_free(specs);
    if (st != WEIR_OK)
        return st;
    st = weir_rules_set_routes(*ret, config->routes, config->routes_len, config->encoded_slash);
    if (st != WEIR_OK)
        weir_rules_discard(*ret);
    return st;
}

static size_t count_rules(const daemon *d, const weir_config *config)
{
    size_t n = config->rules_len, more;
    FOR_FEATURES (d, rules) {
        if (feature_at(i)->rules(config, &more))
            n += more;
    }
    return n;
}

static void log_limit(void *ctx, const weir_limit_change *c)
{
    const daemon *d = ctx;
    log_event(d->options->log, WEIR_LOG_INFO, weir_kept_word(c->kept),
              LOG(log_text("policy", c->name), log_text("from", c->from), log_text("to", c->to)));
}

static weir_status adopt(const daemon *d, const weir_config *config)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; feature_at(i) && st == WEIR_OK; i++) {
        if (d->part[i] && feature_at(i)->adopt)
            st = feature_at(i)->adopt(d->part[i], config);
    }
    return st;
}

/* Activates the policies, the users and the features of a configuration, or nothing: the rules
 * before the features, which refer to them. */
static weir_status activate(daemon *d, const weir_config *config)
{
    rules_change change = {.limiter = d->limiter, .engine = config->engine};
    weir_status st = build_rules(d, config, count_rules(d, config), &change.rules);
    if (st != WEIR_OK)
        return st;
    st = adopt(d, config);
    if (st != WEIR_OK) {
        weir_rules_discard(change.rules);
        return st;
    }
    weir_limiter_compare(d->limiter, change.rules, log_limit, d);
    bool activated = false;
    FOR_FEATURES (d, activate_with) {
        feature_at(i)->activate_with(d->part[i], config, activate_rules, &change);
        activated = true;
    }
    if (!activated)
        activate_rules(&change);
    FOR_FEATURES (d, activate)
        feature_at(i)->activate(d->part[i], config);
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
    return part_of(d, &engines_feature) || !(config_uses_engine(config, WEIR_ENGINE_REDIS) ||
                                             config_uses_engine(config, WEIR_ENGINE_HYBRID));
}

/* Guests with limits start and stop only with the daemon. If a running guest would lose its limits
 * with the configuration, returns the key that named them, such as limitador.limits; else NULL. */
static const char *find_lost_limits(const daemon *d, const weir_config *config)
{
    const config_guest *g;
    for (size_t i = 0; (g = config_guest_at(i)) != NULL; i++) {
        if (g->feature && g->feature->is_wanted && g->has_limits && part_of(d, g->feature) &&
            !g->has_limits(config_options(config, g)))
            return g->limits_key;
    }
    return NULL;
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
    FOR_FEATURES (d, refused)
        feature_at(i)->refused(d->part[i]);
    if (!again)
        log_event(d->options->log, WEIR_LOG_ERROR, "reload-refused",
                  LOG(log_text("why", why), log_text("text", text)));
}

/* Watches the files that a configuration includes, and those of its features. */
static weir_status watch_files(daemon *d, const weir_config *c)
{
    size_t watch = 0;
    weir_status st = WEIR_OK;
    for (size_t i = 0; feature_at(i) && st == WEIR_OK; i++) {
        if (d->part[i] && feature_at(i)->watched)
            st = weir_server_watch(d->server, watch++, feature_at(i)->watched(c));
    }
    for (size_t i = 0; i < CONFIG_INCLUDES_MAX && st == WEIR_OK; i++)
        st = weir_server_watch(d->server, watch++, c->include[i]);
    return st;
}

/* Appends what the features say of a configuration. Returns how many pairs that are. */
static size_t describe(const daemon *d, const weir_config *c, log_pair *ret)
{
    size_t n = 0;
    FOR_FEATURES (d, describe)
        ret[n++] = feature_at(i)->describe(c);
    WEIR_ASSERT(n <= FEATURES_MAX);
    return n;
}

static void reloaded(daemon *d, const weir_config *c)
{
    FOR_FEATURES (d, reloaded)
        feature_at(i)->reloaded(d->part[i], c);
}

/* The keys that a reload has changed, separated by commas, and how many others there are. */
typedef struct edited {
    char text[1024];
    size_t len, named;
    int64_t more;
} edited;

static void note_edit(void *ctx, const char *key)
{
    edited *e = ctx;
    size_t left = sizeof e->text - e->len;
    if (e->named == EDITS_MAX || strlen(key) + 2 > left) {
        e->more++;
        return;
    }
    e->named++;
    e->len += (size_t)snprintf(e->text + e->len, left, "%s%s", e->len > 0 ? "," : "", key);
}

static void log_reloaded(daemon *d, const char *why, const weir_config *config)
{
    edited e = {.len = 0};
    config_each_edit(d->config, config, note_edit, &e);
    log_pair pairs[FEATURES_MAX + 5] = {log_text("why", why),
                                        log_integer("policies", (int64_t)config->rules_len)};
    size_t n = 2 + describe(d, config, pairs + 2);
    pairs[n++] = log_text("changed", e.named > 0 ? e.text : NULL);
    pairs[n] = e.more > 0 ? log_integer("more", e.more) : log_text("more", NULL);
    log_event(d->options->log, WEIR_LOG_INFO, "reloaded", pairs);
    config_each_change(d->options->config, config, log_restart, d);
}

/* Returns why only a restart can activate the configuration; NULL if a reload can. */
static const char *find_obstacle(const daemon *d, const weir_config *config, char *buf, size_t size)
{
    const char *lost = find_lost_limits(d, config);
    if (!has_its_engines(d, config))
        return "the new policies need the engine redis or hybrid, but weir was started without "
               "redis; the old configuration stays active. Restart weir to use the new one";
    if (!lost)
        return NULL;
    snprintf(buf, size,
             "%s is no longer set, but weir serves its limits until it is restarted; the old "
             "configuration stays active. Restart weir to use the new one",
             lost);
    return buf;
}

/* Uses a configuration whose policies are active. */
static void use(daemon *d, const char *why, weir_config *config)
{
    port_add_relaxed(&d->reloads, 1);
    log_configure(d->options->log, config->log_level, config->log_json);
    log_reloaded(d, why, config);
    reloaded(d, config);
    in_use_replace(d, config);
}

/* Returns whether the new configuration is active. Without a file it returns true. */
static bool try_reload(daemon *d, const char *why)
{
    weir_config *config = NULL;
    char text[256];
    if (!d->options->path && !d->options->env) {
        reloaded(d, NULL);
        log_event(d->options->log, WEIR_LOG_WARNING, "reload-ignored",
                  LOG(log_text("why", why),
                      log_text("text", "weir was started without a configuration file")));
        return true;
    }
    if (strcmp(why, "SIGHUP") == 0) /* a person has asked, so the errors are logged once more */
        d->unreadable = false;
    bool again = d->unreadable;
    weir_status st = load(d, &config);
    d->unreadable = st == WEIR_E_IO;
    bool adjusted = st == WEIR_OK && d->options->adjust(d->options->ctx, config);
    const char *reason = adjusted ? find_obstacle(d, config, text, sizeof text) : NULL;
    bool active =
        adjusted && !reason && watch_files(d, config) == WEIR_OK && activate(d, config) == WEIR_OK;
    if (active) {
        use(d, why, config);
    } else {
        log_refused(d, why, again && d->unreadable,
                    reason ? reason : "the old configuration stays active");
        config_free(config);
    }
    return active;
}

static bool reload(void *ctx, const char *why)
{
    daemon *d = ctx;
    manager_reloading(&d->manager);
    bool active = try_reload(d, why);
    manager_ready(&d->manager, d->config->rules_len, !active);
    return !d->unreadable;
}

/* Logs changes of single policies: WEIR.POLICY SET and DEL, /v1/shadow, /v1/candidate. A client can
 * make many: beyond the first ones, only their number is logged. */
static void log_change(void *ctx, const weir_rule_change *change)
{
    daemon *d = ctx;
    static const char *const events[] = {[WEIR_RULE_LIMIT] = "policy-set",
                                         [WEIR_RULE_DROPPED] = "policy-deleted",
                                         [WEIR_RULE_SHADOW] = "shadow-changed",
                                         [WEIR_RULE_CANDIDATE] = "candidate-changed"};
    if (port_add_relaxed(&d->changes, 1) >= CHANGES_MAX)
        return;
    log_pair value = log_text("limit", change->text);
    if (change->kind == WEIR_RULE_SHADOW)
        value = log_text("shadow", change->shadow ? "true" : "false");
    else if (change->kind == WEIR_RULE_CANDIDATE)
        value = log_text("candidate", change->text ? change->text : "none");
    log_event(d->options->log, WEIR_LOG_INFO, events[change->kind],
              LOG(log_text("policy", change->name), value));
}

static void log_other_changes(daemon *d)
{
    uint64_t n = port_load_relaxed(&d->changes);
    port_sub_relaxed(&d->changes, n);
    if (n > CHANGES_MAX)
        log_event(d->options->log, WEIR_LOG_WARNING, "more-changes",
                  LOG(log_integer("count", (int64_t)(n - CHANGES_MAX)),
                      log_text("text", "further changes of policies were not logged")));
}

static void report_event(void *ctx, const char *event, const char *text)
{
    daemon *d = ctx;
    bool stopping = strcmp(event, "stopping") == 0;
    bool stop = stopping || strcmp(event, "stopped") == 0 || strcmp(event, "hand-over") == 0 ||
                strcmp(event, "handed-over") == 0;
    if (stopping)
        manager_stopping(&d->manager, config_grace_ns(d->config) + d->config->drain_ns);
    log_event(d->options->log, stop ? WEIR_LOG_INFO : WEIR_LOG_WARNING, event,
              LOG(log_text("text", text)));
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t now(void *ctx)
{
    daemon *d = ctx;
    return weir_limiter_now(d->limiter);
}

/* Called about once a second. */
static void tick(void *ctx)
{
    daemon *d = ctx;
    store_events_tick(&d->events);
    log_other_changes(d);
    take_over_tick(&d->take_over);
    in_use_collect(d);
    weir_limiter_history_tick(d->limiter, weir_limiter_now(d->limiter));
    FOR_FEATURES (d, tick)
        feature_at(i)->tick(d->part[i], port_steady_ns());
}

/* ---- start ----------------------------------------------------------------------------------- */

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
                                        .shared = c->shared || take_over_is_on(&d->take_over),
                                        .trust_others = c->trust_others,
                                        .prefault = c->prefault,
                                        .reset = d->options->reset_state &&
                                                 !take_over_is_on(&d->take_over),
                                        .partitions = c->partitions,
                                        .partitions_len = c->partitions_len,
                                        .zones = d->options->zones,
                                        .ret_error = &error,
                                        .ret_opened = &opened};
    weir_status st = take_over_open_store(&d->take_over, &options);
    d->store = d->take_over.store;
    if (st != WEIR_OK)
        snprintf(ret_error, size, "%s", error.text);
    else if (c->state_file)
        store_events_log_opened(d->options->log, c->state_file, &opened, d->started_ns);
    if (st == WEIR_OK)
        weir_store_set_jump(d->store, c->clock_step_above_ns);
    if (st == WEIR_OK)
        sigbus_watch(d->options->log, c->state_file, d->store);
    return st;
}

static weir_status open_features(daemon *d, char *ret_error, size_t size)
{
    const feature_setup setup = {.config = d->options->config,
                                 .log = d->options->log,
                                 .store = d->store,
                                 .limiter = d->limiter,
                                 .server = &d->server,
                                 .ret_error = ret_error,
                                 .error_size = size};
    weir_status st = WEIR_OK;
    for (size_t i = 0; feature_at(i) && st == WEIR_OK; i++) {
        if (!feature_at(i)->is_wanted || feature_at(i)->is_wanted(setup.config))
            st = feature_at(i)->open(&d->part[i], &setup);
    }
    return st;
}

/* Opens what a loop decides with. */
static weir_status open_loop(daemon *d, protocol_loop *l)
{
    weir_status st = weir_service_open(&l->service, d->limiter);
    for (size_t i = 0; feature_at(i) && st == WEIR_OK; i++) {
        if (d->part[i] && feature_at(i)->open_loop)
            st = feature_at(i)->open_loop(d->part[i], l);
    }
    return st;
}

static void close_loop(daemon *d, protocol_loop *l)
{
    for (size_t i = FEATURES_MAX; i-- > 0;) {
        if (d->part[i] && feature_at(i)->close_loop)
            feature_at(i)->close_loop(d->part[i], l);
    }
    weir_service_close(l->service);
}

static weir_status open_loops(daemon *d)
{
    const weir_config *c = d->options->config;
    d->loops_len = c->threads > 0 ? c->threads : port_cores();
    if (d->loops_len > WEIR_LOOPS_MAX)
        d->loops_len = WEIR_LOOPS_MAX;
    WEIR_ASSERT(d->loops_len > 0);
    for (unsigned i = 0; i < d->loops_len; i++) {
        protocol_loop *l = &d->loops[i];
        d->contexts[i] = l;
        l->daemon = d;
        l->config = c;
        l->i = i;
        l->loops = d->loops_len;
        status_open_loop(l);
        l->streams = &d->streams;
        l->started_ns = d->started_ns;
        weir_status st = open_loop(d, l);
        if (st != WEIR_OK)
            return st;
        protocols_open_loop(l);
    }
    return WEIR_OK;
}

static weir_status start_features(daemon *d)
{
    weir_status st = WEIR_OK;
    for (size_t i = 0; feature_at(i) && st == WEIR_OK; i++) {
        if (d->part[i] && feature_at(i)->start)
            st = feature_at(i)->start(d->part[i]);
    }
    return st;
}

static void begin(void *context, port_dialer *dialer)
{
    protocol_loop *l = context;
    FOR_FEATURES (l->daemon, begin)
        feature_at(i)->begin(l->daemon->part[i], l, dialer);
}

static void end(void *context)
{
    protocol_loop *l = context;
    FOR_FEATURES (l->daemon, end)
        feature_at(i)->end(l->daemon->part[i], l);
}

/* Whether the configuration trusts a proxy that reports a client in a PROXY header. */
static bool may_proxy(void *context, const weir_peer_address *proxy)
{
    const protocol_loop *l = context;
    const weir_address a = protocols_address(proxy);
    return weir_trusted_proxies_have(&l->config->trusted_proxies, &a);
}

static bool prepare_hand_over(void *ctx, int *ret_memory, char *ret_error, size_t size)
{
    daemon *d = ctx;
    return take_over_prepare(&d->take_over, ret_memory, ret_error, size);
}

static void hand_over_failed(void *ctx)
{
    daemon *d = ctx;
    take_over_failed(&d->take_over);
}

static void handed_over(void *ctx, int pid)
{
    daemon *d = ctx;
    take_over_done(&d->take_over, pid);
}

/* The manager listens to this process once the other has stopped. */
static bool serving(void *ctx)
{
    daemon *d = ctx;
    if (!take_over_end(&d->take_over, d->server))
        return false;
    manager_ready(&d->manager, d->config->rules_len, false);
    return true;
}

static void beat(void *ctx)
{
    daemon *d = ctx;
    manager_beat(&d->manager);
}

static weir_status open_server(daemon *d, char *ret_error, size_t size)
{
    const weir_config *c = d->options->config;
    weir_listen_address listens[CONFIG_LISTENS_MAX];
    static_assert(CONFIG_LISTENS_MAX <= WEIR_LISTENERS_MAX, "the server accepts all of them");
    for (size_t i = 0; i < c->listens_len; i++)
        listens[i] =
            (weir_listen_address){.address = c->listens[i].address,
                                  .protocol = &protocol_of(c->listens[i].protocol)->session,
                                  .tls = tls_listeners_get(part_of(d, &tls_feature), i),
                                  .proxy_protocol = c->listens[i].proxy_protocol};
    const weir_server_options options = {
        .listens = listens,
        .listens_len = c->listens_len,
        .passed = &d->manager.passed,
        .loops = d->loops_len,
        .contexts = d->contexts,
        .limits = in_use_limits(d),
        .ctx = d,
        .now = now,
        .may_proxy = may_proxy,
        .refresh = in_use_refresh,
        .begin = part_of(d, &engines_feature) ? begin : NULL,
        .end = end,
        .tick = tick,
        .beat = beat,
        .beat_ns = manager_beat_ns(&d->manager),
        .reload = reload,
        .serving = serving,
        .hand_over = {.argv = d->options->argv,
                      .path = c->hand_over,
                      .prepare = prepare_hand_over,
                      .failed = hand_over_failed,
                      .done = handed_over},
        .report = report_event,
        .watch = d->options->path,
    };
    in_use_raise_descriptors(d);
    return weir_server_open(&d->server, &options, ret_error, size);
}

static void log_started(daemon *d)
{
    const weir_config *c = d->options->config;
    char addresses[PROTOCOLS_MAX][DAEMON_ADDRESSES_MAX] = {""};
    for (size_t i = 0; i < c->listens_len; i++) {
        char *at = addresses[c->listens[i].protocol];
        size_t len = strlen(at);
        snprintf(at + len, DAEMON_ADDRESSES_MAX - len, "%s%s", len > 0 ? "," : "",
                 weir_server_address(d->server, i));
        manager_add_address(&d->manager, config_protocol(c->listens[i].protocol)->name,
                            weir_server_address(d->server, i));
    }
    const char *engine = NULL;
    if (c->has_redis)
        engine = c->engine == WEIR_ENGINE_LOCAL    ? "local,redis"
                 : c->engine == WEIR_ENGINE_HYBRID ? "hybrid"
                                                   : "redis";
    log_pair pairs[PROTOCOLS_MAX + FEATURES_MAX + 6] = {log_text("version", WEIR_VERSION)};
    size_t n = 1;
    for (protocol_kind kind = 0; config_protocol(kind); kind++)
        pairs[n++] =
            log_text(config_protocol(kind)->name, addresses[kind][0] ? addresses[kind] : NULL);
    pairs[n++] = log_integer("policies", (int64_t)c->rules_len);
    n += describe(d, c, pairs + n);
    pairs[n++] = log_integer("memory_bytes", (int64_t)c->memory_bytes);
    pairs[n++] = log_integer("threads", d->loops_len);
    pairs[n++] = log_text("engine", engine);
    log_event(d->options->log, WEIR_LOG_INFO, "started", pairs);
    d->options->ready(d->options->ctx, addresses);
}

static void daemon_close(daemon *d)
{
    weir_server_close(d->server);
    FOR_FEATURES (d, stop)
        feature_at(i)->stop(d->part[i]);
    for (unsigned i = 0; i < d->loops_len; i++)
        close_loop(d, &d->loops[i]);
    for (size_t i = FEATURES_MAX; i-- > 0;) {
        if (d->part[i] && feature_at(i)->close)
            feature_at(i)->close(d->part[i]);
    }
    weir_limiter_close(d->limiter);
    take_over_close_store(&d->take_over);
    sigbus_unwatch();
    in_use_close(d);
    port_free(d);
}

/* Opens everything, in this order: each part uses those before it. */
static weir_status daemon_open(daemon *d, char *ret_error, size_t size)
{
    const weir_config *c = d->options->config;
    d->lock = port_mutex_new();
    weir_status st = d->lock ? open_store(d, ret_error, size) : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = weir_limiter_open(&d->limiter, d->store, d->options->zones);
    if (st != WEIR_OK)
        return st;
    weir_limiter_history_tick(d->limiter, weir_limiter_now(d->limiter));
    weir_limiter_on_change(d->limiter, log_change, d);
    store_events_begin(&d->events, d->options->log, d->store, d->limiter, c->state_file);
    st = open_features(d, ret_error, size);
    if (st == WEIR_OK)
        st = activate(d, c);
    if (st == WEIR_OK)
        st = open_loops(d);
    if (st == WEIR_OK)
        st = open_server(d, ret_error, size);
    if (st == WEIR_OK)
        st = watch_files(d, c);
    return st == WEIR_OK ? start_features(d) : st;
}

int daemon_run(const daemon_options *options)
{
    char error[512] = "";
    daemon *d = port_zalloc(1, sizeof *d);
    if (!d)
        return 1;
    d->options = options;
    d->started_ns = port_now_ns();
    d->config = options->config;
    d->take_over = (take_over){.log = options->log,
                               .manager = &d->manager,
                               .has_file = options->config->state_file,
                               .is_shared = options->config->shared,
                               .has_socket = options->config->hand_over,
                               .memory_fd = -1,
                               .from = NET_TAKE_OVER_NONE};
    weir_status st = manager_open(&d->manager, options->log, error, sizeof error);
    if (st == WEIR_OK)
        st = take_over_open(&d->take_over, options->take_over ? options->config->hand_over : NULL,
                            error, sizeof error);
    if (st == WEIR_OK)
        st = daemon_open(d, error, sizeof error);
    if (st == WEIR_OK) {
        store_events_log_offset(&d->events);
        engines_await(part_of(d, &engines_feature), d->loops_len, !take_over_is_on(&d->take_over),
                      CONNECT_NS);
        log_started(d);
        weir_server_run(d->server);
        FOR_FEATURES (d, ended)
            feature_at(i)->ended(d->part[i]);
        log_other_changes(d);
    } else {
        const char *why = error[0] ? error : weir_status_str(st);
        log_event(options->log, WEIR_LOG_ERROR, "not-started", LOG(log_text("error", why)));
        manager_failed(&d->manager, why);
    }
    daemon_close(d);
    return st == WEIR_OK ? 0 : 1;
}
