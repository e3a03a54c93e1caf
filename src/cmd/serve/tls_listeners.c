/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each listener with TLS has a certificate of its own, also if several name the same files: their
 * sessions speak different protocols. */

#include "cmd/serve/parts.h"

#include "cmd/serve/feature.h"
#include "codec/answer/metrics.h"
#include "net/server.h"
#include "net/tls/server.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_NS ((int64_t)86400 * 1000000000)

typedef struct entry {
    net_tls_server *server; /* NULL: plain text */
    bool failed;            /* the last attempt to load the files */
} entry;

struct tls_listeners {
    const weir_config *config;
    const log_target *log;
    weir_server *const *server; /* of the daemon */
    int64_t renewed_ns;         /* the last renewal of the ticket keys; 0: none */
    size_t len;
    entry at[CONFIG_LISTENS_MAX];
};

static net_tls_server_files files_of(const config_tls *tls)
{
    return (net_tls_server_files){tls->cert, tls->key, tls->client_ca};
}

/* ---- log ------------------------------------------------------------------------------------- */

static void log_expired(const tls_listeners *t, size_t i, const char *cert)
{
    int64_t not_after_s = net_tls_server_stats_get(t->at[i].server).not_after_s;
    if (not_after_s > port_now_ns() / 1000000000)
        return;
    log_event(t->log, WEIR_LOG_WARNING, "tls-certificate-expired",
              LOG(log_text("listener", t->config->listens[i].address), log_text("file", cert),
                  log_text("text", "the certificate has expired; clients will refuse it")));
}

static void log_refused(const tls_listeners *t, size_t i, const char *why)
{
    log_event(t->log, WEIR_LOG_ERROR, "tls-reload-refused",
              LOG(log_text("listener", t->config->listens[i].address), log_text("error", why),
                  log_text("text", "the old certificate stays in use")));
}

static void log_reloaded(const tls_listeners *t, size_t i)
{
    int64_t not_after_s = net_tls_server_stats_get(t->at[i].server).not_after_s;
    log_event(t->log, WEIR_LOG_INFO, "tls-reloaded",
              LOG(log_text("listener", t->config->listens[i].address),
                  log_integer("expires", not_after_s)));
}

/* ---- opening --------------------------------------------------------------------------------- */

static weir_status open_entry(tls_listeners *t, size_t i, char *ret_error, size_t size)
{
    const config_listen *l = &t->config->listens[i];
    const config_tls *tls = config_listen_tls(t->config, l);
    if (!tls)
        return WEIR_OK;
    const net_tls_server_files files = files_of(tls);
    net_tls_failure why = {NET_TLS_CERT, "out of memory"};
    weir_status st =
        net_tls_server_open(&t->at[i].server, &files, protocol_of(l->protocol)->alpn, &why);
    if (st == WEIR_OK)
        log_expired(t, i, tls->cert);
    else
        snprintf(ret_error, size, "%s", why.text);
    return st;
}

weir_status tls_listeners_open(tls_listeners **ret, const weir_config *config,
                               const log_target *log, char *ret_error, size_t size)
{
    tls_listeners *t = port_zalloc(1, sizeof *t);
    weir_status st = t ? WEIR_OK : WEIR_E_NOMEM;
    if (!t)
        return st;
    t->config = config;
    t->log = log;
    for (; t->len < config->listens_len && st == WEIR_OK; t->len++)
        st = open_entry(t, t->len, ret_error, size);
    if (st == WEIR_OK)
        *ret = t;
    else
        tls_listeners_close(t);
    return st;
}

void tls_listeners_close(tls_listeners *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->len; i++)
        net_tls_server_close(t->at[i].server);
    port_free(t);
}

net_tls_server *tls_listeners_get(const tls_listeners *t, size_t i)
{
    return t->at[i].server;
}

/* ---- reloading ------------------------------------------------------------------------------- */

/*  files  NULL: the same as before. */
static void load(tls_listeners *t, size_t i, const net_tls_server_files *files)
{
    net_tls_failure why = {NET_TLS_CERT, "out of memory"};
    t->at[i].failed = net_tls_server_reload(t->at[i].server, files, &why) != WEIR_OK;
    if (t->at[i].failed)
        log_refused(t, i, why.text);
    else
        log_reloaded(t, i);
}

/* Finds listener i, which uses TLS, in another configuration, and its files there. NULL: it is not
 * there, or files were added or removed, which takes effect at the next start only. */
static const config_tls *find(const tls_listeners *t, size_t i, const weir_config *config)
{
    const config_listen *l = &t->config->listens[i];
    const config_tls *now = config_listen_tls(t->config, l);
    for (size_t j = 0; j < config->listens_len; j++) {
        const config_listen *other = &config->listens[j];
        if (other->protocol != l->protocol || strcmp(other->address, l->address) != 0)
            continue;
        const config_tls *tls = config_listen_tls(config, other);
        return tls && config_same_tls(tls, now) ? tls : NULL;
    }
    return NULL;
}

void tls_listeners_reload(tls_listeners *t, const weir_config *config)
{
    for (size_t i = 0; i < t->len; i++) {
        const entry *e = &t->at[i];
        const config_tls *tls = e->server && config ? find(t, i, config) : NULL;
        net_tls_server_files files = {0};
        if (tls)
            files = files_of(tls);
        bool moved = tls && !net_tls_server_has(e->server, &files);
        if (e->server && (moved || e->failed || net_tls_server_is_stale(e->server)))
            load(t, i, tls ? &files : NULL);
    }
}

/* Loads unchanged files, which creates new ticket keys. On failure the old ones stay in use. */
static void renew_tickets(net_tls_server *server)
{
    net_tls_failure why;
    (void)!net_tls_server_reload(server, NULL, &why);
}

void tls_listeners_tick(tls_listeners *t, int64_t now_ns)
{
    if (t->renewed_ns == 0)
        t->renewed_ns = now_ns;
    bool renews = now_ns - t->renewed_ns >= DAY_NS;
    if (renews)
        t->renewed_ns = now_ns;
    for (size_t i = 0; i < t->len; i++) {
        net_tls_server *server = t->at[i].server;
        if (server && net_tls_server_is_stale(server))
            load(t, i, NULL);
        else if (server && renews && !t->at[i].failed)
            renew_tickets(server);
    }
}

/* ---- metrics --------------------------------------------------------------------------------- */

static uint64_t value_of(const net_tls_server *server, int row)
{
    const net_tls_server_stats s = net_tls_server_stats_get(server);
    return row == 0 ? (uint64_t)s.not_after_s : row == 1 ? s.handshakes : s.failures;
}

void tls_listeners_put_metrics(const tls_listeners *t, const weir_server *server, weir_buffer *out)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
        {"weir_tls_certificate_expiry_time_seconds", "gauge",
         "When the certificate of a listener expires, in seconds since 1970."},
        {"weir_tls_handshakes_total", "counter", "TLS handshakes completed."},
        {"weir_tls_handshake_failures_total", "counter",
         "Connections that ended before their TLS handshake was complete."},
    };
    for (int row = 0; row < 3; row++) {
        bool any = false;
        for (size_t i = 0; i < t->len; i++) {
            if (!t->at[i].server)
                continue;
            if (!any)
                weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[row].name,
                                   rows[row].help, rows[row].name, rows[row].type);
            any = true;
            weir_buffer_printf(out, "%s{listener=", rows[row].name);
            weir_metrics_put_label(out, weir_server_address(server, i));
            weir_buffer_printf(out, "} %" PRIu64 "\n", value_of(t->at[i].server, row));
        }
    }
}

/* ---- the part of the daemon ------------------------------------------------------------------ */

static weir_status open_part(void **ret_self, const feature_setup *s)
{
    tls_listeners *t = NULL;
    weir_status st = tls_listeners_open(&t, s->config, s->log, s->ret_error, s->error_size);
    if (t)
        t->server = s->server;
    *ret_self = t;
    return st;
}

static void close_part(void *self)
{
    tls_listeners_close(self);
}

static void reloaded(void *self, const weir_config *c)
{
    tls_listeners_reload(self, c);
}

static void tick(void *self, int64_t now_ns)
{
    tls_listeners_tick(self, now_ns);
}

static void put_metrics(void *self, weir_buffer *out)
{
    const tls_listeners *t = self;
    tls_listeners_put_metrics(t, *t->server, out);
}

const feature tls_feature = {.open = open_part,
                             .close = close_part,
                             .reloaded = reloaded,
                             .tick = tick,
                             .put_metrics = put_metrics};
