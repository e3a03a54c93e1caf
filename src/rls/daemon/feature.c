/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Envoy's Rate Limit Service: its part of the daemon. It logs when the directory of limits
 * disappears, which changes no limit, and when it is back. */

#include "port/port.h"
#include "rls/daemon/guest.h"
#include "rls/wire/http.h"

#include <string.h>
#include <sys/stat.h>

enum {
    LOST_TICKS = 2,         /* without the directory; one that is replaced is not lost */
    NOT_CHARGED_TICKS = 60, /* between two logs of requests that were not charged */
    NOT_CHARGED_LINES = 16  /* of such a log */
};

typedef struct rls_part {
    weir_rls *rls;
    statsd *statsd; /* NULL: off */
    const log_target *log;
    const char *directory; /* of limits; NULL: none */
    unsigned lost_for;     /* ticks without it, up to LOST_TICKS */
    unsigned quiet;        /* ticks until the next log of requests that were not charged */
} rls_part;

static weir_status open_statsd(rls_part *p, const envoy_settings *envoy)
{
    statsd_options o = {.flush_ns = envoy->statsd_flush_ns,
                        .rls = p->rls,
                        .tags = &envoy->statsd_tags,
                        .log = p->log};
    if (!envoy->statsd || !statsd_address_read(envoy->statsd, &o.address))
        return WEIR_OK;
    p->statsd = statsd_open(&o);
    return p->statsd ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status rls_open(void **ret_self, const feature_setup *s)
{
    rls_part *p = port_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_E_NOMEM;
    *ret_self = p;
    p->log = s->log;
    p->rls = weir_rls_open();
    return p->rls ? open_statsd(p, envoy_settings_of(s->config)) : WEIR_E_NOMEM;
}

/* The statistics get what the loops have counted. */
static void rls_stop(void *self)
{
    rls_part *p = self;
    statsd_close(p->statsd);
    p->statsd = NULL;
}

static void rls_close(void *self)
{
    rls_part *p = self;
    rls_stop(p);
    weir_rls_close(p->rls);
    port_free(p);
}

static weir_status rls_open_loop(void *self, protocol_loop *l)
{
    rls_part *p = self;
    weir_rls_door *door = port_zalloc(1, sizeof *door);
    if (!door)
        return WEIR_E_NOMEM;
    l->part[feature_index(&rls_feature)] = door;
    door->rls = p->rls;
    door->loop = weir_rls_loop_open(p->rls, l->service);
    if (!door->loop || !weir_rls_arena_open(&door->arena))
        return WEIR_E_NOMEM;
    l->guests[l->guests_len++] = weir_rls_http(door);
    l->grpc = (weir_grpc_options){.methods = weir_rls_methods,
                                  .methods_len = weir_rls_methods_len,
                                  .ctx = door,
                                  .app_size = weir_rls_app_size,
                                  .open = weir_rls_app_open,
                                  .close = weir_rls_app_close,
                                  .descriptors = weir_rls_file_descriptors};
    return WEIR_OK;
}

static void rls_close_loop(void *self, protocol_loop *l)
{
    weir_rls_door *door = l->part[feature_index(&rls_feature)];
    (void)self;
    if (!door)
        return;
    weir_rls_arena_close(&door->arena);
    weir_rls_loop_close(door->loop);
    port_free(door);
}

static const weir_rule_spec *rls_rules(const weir_config *c, size_t *ret_len)
{
    return envoy_settings_of(c)->rls ? weir_rls_config_rules(envoy_settings_of(c)->rls, ret_len)
                                     : NULL;
}

static void rls_activate(void *self, const weir_config *c)
{
    rls_part *p = self;
    p->directory = envoy_settings_of(c)->directory;
    if (!envoy_settings_of(c)->rls)
        return;
    weir_rls_config_hold(envoy_settings_of(c)->rls);
    weir_rls_activate(p->rls, envoy_settings_of(c)->rls);
}

static const char *rls_watched(const weir_config *c)
{
    return envoy_settings_of(c)->directory;
}

static void rls_refused(void *self)
{
    const rls_part *p = self;
    weir_rls_count_refused(p->rls);
}

static void log_directory(rls_part *p)
{
    struct stat ignored;
    bool lost = stat(p->directory, &ignored) != 0, was_lost = p->lost_for == LOST_TICKS;
    p->lost_for = !lost ? 0 : was_lost ? LOST_TICKS : p->lost_for + 1;
    bool is_lost = p->lost_for == LOST_TICKS;
    if (is_lost == was_lost)
        return;
    if (is_lost)
        weir_rls_count_refused(p->rls);
    log_event(p->log, is_lost ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
              is_lost ? "limits-lost" : "limits-back",
              LOG(log_text("directory", p->directory),
                  log_text("text", is_lost ? "the directory does not exist; its limits stay active"
                                           : "the directory exists again; its files are read if "
                                             "they have changed")));
}

static void log_limit_not_charged(void *ctx, const weir_rls_not_charged *of)
{
    const rls_part *p = ctx;
    char policy[WEIR_RULE_NAME_MAX + 1];
    memcpy(policy, of->policy.at, of->policy.len);
    policy[of->policy.len] = '\0';
    log_event(p->log, WEIR_LOG_INFO, "not-charged",
              LOG(log_text("policy", policy), log_integer("times", (int64_t)of->requests),
                  log_integer("hits", of->hits), log_integer("left", of->left),
                  log_text("text", "requests of several hits were denied and charged nothing; if "
                                   "they report what was used already, set late: true")));
}

/* Once a minute, one line for each policy. */
static void log_not_charged(rls_part *p)
{
    if (p->quiet > 0)
        p->quiet--;
    else if (weir_rls_each_not_charged(p->rls, NOT_CHARGED_LINES, log_limit_not_charged, p) > 0)
        p->quiet = NOT_CHARGED_TICKS - 1;
}

static void rls_tick(void *self, int64_t now_ns)
{
    rls_part *p = self;
    log_not_charged(p);
    if (p->statsd)
        statsd_tick(p->statsd, now_ns);
    if (p->directory)
        log_directory(p);
}

static void rls_put_metrics(void *self, weir_buffer *out)
{
    const rls_part *p = self;
    statsd_put_metrics(p->statsd, out);
}

/* How many limits of envoy.config there are, if there is such a directory. */
static log_pair rls_describe(const weir_config *c)
{
    size_t n = envoy_settings_of(c)->rls ? weir_rls_config_limits(envoy_settings_of(c)->rls) : 0;
    return envoy_settings_of(c)->directory ? log_integer("limits", (int64_t)n)
                                           : log_text("limits", NULL);
}

const feature rls_feature = {.open = rls_open,
                             .close = rls_close,
                             .open_loop = rls_open_loop,
                             .close_loop = rls_close_loop,
                             .stop = rls_stop,
                             .rules = rls_rules,
                             .activate = rls_activate,
                             .watched = rls_watched,
                             .refused = rls_refused,
                             .tick = rls_tick,
                             .put_metrics = rls_put_metrics,
                             .describe = rls_describe};
