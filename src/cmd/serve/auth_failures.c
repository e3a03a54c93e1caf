/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Counts failures by protocol. Limits the log to one event of each kind per second, and delayed
 * replies to held_max per second. */

#include "cmd/serve/parts.h"

#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_NS INT64_C(1000000000) /* between two log events, and the delay of a reply */

/* Failures of a kind. */
typedef struct failures {
    uint64_t total[PROTOCOLS_MAX];
    int64_t unlogged;
    int64_t logged_ns;      /* when the last event was logged; 0: never */
    protocol_kind protocol; /* of the last failure, as the next ones */
    char peer[64];
    char user[WEIR_USER_NAME_MAX + 1], right[20]; /* of a denial */
} failures;

struct auth_failures {
    const log_target *log;
    port_mutex *lock; /* guards the following members */
    failures wrong, denied;
    uint64_t held, held_max; /* replies delayed since second_ns, and their limit */
    int64_t second_ns;
};

weir_status auth_failures_open(auth_failures **ret, const log_target *log, uint64_t held_max)
{
    WEIR_ASSERT(held_max > 0);
    auth_failures *g = port_zalloc(1, sizeof *g);
    if (!g)
        return WEIR_E_NOMEM;
    g->log = log;
    g->held_max = held_max;
    g->lock = port_mutex_new();
    if (!g->lock) {
        port_free(g);
        return WEIR_E_NOMEM;
    }
    *ret = g;
    return WEIR_OK;
}

static void log_wrong(auth_failures *g)
{
    failures *f = &g->wrong;
    if (f->unlogged > 0)
        log_event(g->log, WEIR_LOG_WARNING, "wrong-password",
                  LOG(log_text("protocol", config_protocol(f->protocol)->name),
                      log_text("peer", f->peer), log_integer("times", f->unlogged)));
    f->unlogged = 0;
}

static void log_denied(auth_failures *g)
{
    failures *f = &g->denied;
    if (f->unlogged > 0)
        log_event(g->log, WEIR_LOG_WARNING, "right-denied",
                  LOG(log_text("protocol", config_protocol(f->protocol)->name),
                      log_text("peer", f->peer), log_text("user", f->user),
                      log_text("right", f->right), log_integer("times", f->unlogged)));
    f->unlogged = 0;
}

void auth_failures_close(auth_failures *g)
{
    if (!g)
        return;
    log_wrong(g);
    log_denied(g);
    port_mutex_free(g->lock);
    port_free(g);
}

void auth_failures_set_held_max(auth_failures *g, uint64_t held_max)
{
    WEIR_ASSERT(held_max > 0);
    port_mutex_lock(g->lock);
    g->held_max = held_max;
    port_mutex_unlock(g->lock);
}

/* Whether failures can be logged: at most once a second. The caller holds the lock. */
static bool is_due(failures *f, int64_t now_ns)
{
    if (f->unlogged == 0 || (f->logged_ns > 0 && now_ns - f->logged_ns < PAUSE_NS))
        return false;
    f->logged_ns = now_ns;
    return true;
}

/* Logs the failures that are not logged yet. The caller holds the lock. */
static void log_due(auth_failures *g, int64_t now_ns)
{
    if (is_due(&g->wrong, now_ns))
        log_wrong(g);
    if (is_due(&g->denied, now_ns))
        log_denied(g);
}

/* Counts one more delayed reply of this second. Returns false if the limit is reached. The caller
 * holds the lock. */
static bool may_hold(auth_failures *g, int64_t now_ns)
{
    if (now_ns - g->second_ns >= PAUSE_NS) {
        g->second_ns = now_ns;
        g->held = 0;
    }
    bool good = g->held < g->held_max;
    g->held += good;
    return good;
}

static void count(failures *f, protocol_kind protocol, const char *peer)
{
    WEIR_ASSERT(protocol < PROTOCOLS_MAX && strlen(peer) < sizeof f->peer);
    f->total[protocol]++;
    f->unlogged++;
    f->protocol = protocol;
    snprintf(f->peer, sizeof f->peer, "%s", peer);
}

bool auth_failures_add(auth_failures *g, protocol_kind protocol, const char *peer, int64_t now_ns)
{
    port_mutex_lock(g->lock);
    count(&g->wrong, protocol, peer);
    log_due(g, now_ns);
    bool hold = may_hold(g, now_ns);
    port_mutex_unlock(g->lock);
    return hold;
}

void auth_failures_add_denial(auth_failures *g, const auth_denial *d, int64_t now_ns)
{
    failures *f = &g->denied;
    port_mutex_lock(g->lock);
    count(f, d->protocol, d->peer);
    snprintf(f->user, sizeof f->user, "%s", d->user);
    snprintf(f->right, sizeof f->right, "%s", d->right);
    log_due(g, now_ns);
    port_mutex_unlock(g->lock);
}

void auth_failures_tick(auth_failures *g, int64_t now_ns)
{
    port_mutex_lock(g->lock);
    log_due(g, now_ns);
    port_mutex_unlock(g->lock);
}

/*  all  whether protocols without passwords are listed too. */
static void put_totals(weir_buffer *out, const char *name, const char *help, const failures *f,
                       bool all)
{
    weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (protocol_kind i = 0; config_protocol(i); i++) {
        if (all || !config_protocol(i)->without_password)
            weir_buffer_printf(out, "%s{protocol=\"%s\"} %" PRIu64 "\n", name,
                               config_protocol(i)->name, f->total[i]);
    }
}

void auth_failures_put_metrics(auth_failures *g, weir_buffer *out)
{
    port_mutex_lock(g->lock);
    const failures wrong = g->wrong, denied = g->denied;
    port_mutex_unlock(g->lock);
    put_totals(out, "weir_wrong_passwords_total", "Wrong passwords from clients.", &wrong, false);
    put_totals(out, "weir_denied_rights_total", "Requests that users had no right to.", &denied,
               true);
}
