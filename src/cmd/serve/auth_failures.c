/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Counts wrong passwords by protocol. Limits the log to one event per second, and delayed replies
 * to held_max per second. */

#include "cmd/serve/parts.h"

#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_NS INT64_C(1000000000) /* between two log events, and the delay of a reply */

struct auth_failures {
    const log_target *log;
    port_mutex *lock; /* guards the following members */
    uint64_t total[PROTOCOLS_MAX];
    int64_t unlogged;
    int64_t logged_ns;       /* when the last event was logged; 0: never */
    uint64_t held, held_max; /* replies delayed since second_ns, and their limit */
    int64_t second_ns;
    protocol_kind protocol;
    char peer[64];
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

static void log_all(auth_failures *g)
{
    if (g->unlogged == 0)
        return;
    log_event(g->log, WEIR_LOG_WARNING, "wrong-password",
              LOG(log_text("protocol", config_protocol(g->protocol)->name),
                  log_text("peer", g->peer), log_integer("times", g->unlogged)));
    g->unlogged = 0;
}

void auth_failures_close(auth_failures *g)
{
    if (!g)
        return;
    log_all(g);
    port_mutex_free(g->lock);
    port_free(g);
}

/* Logs the failures that are not logged yet, at most once a second. The caller holds the lock. */
static void log_due(auth_failures *g, int64_t now_ns)
{
    if (g->unlogged == 0 || (g->logged_ns > 0 && now_ns - g->logged_ns < PAUSE_NS))
        return;
    log_all(g);
    g->logged_ns = now_ns;
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

bool auth_failures_add(auth_failures *g, protocol_kind protocol, const char *peer, int64_t now_ns)
{
    WEIR_ASSERT(protocol < PROTOCOLS_MAX && strlen(peer) < sizeof g->peer);
    port_mutex_lock(g->lock);
    g->total[protocol]++;
    g->unlogged++;
    g->protocol = protocol;
    snprintf(g->peer, sizeof g->peer, "%s", peer);
    log_due(g, now_ns);
    bool hold = may_hold(g, now_ns);
    port_mutex_unlock(g->lock);
    return hold;
}

void auth_failures_tick(auth_failures *g, int64_t now_ns)
{
    port_mutex_lock(g->lock);
    log_due(g, now_ns);
    port_mutex_unlock(g->lock);
}

void auth_failures_put_metrics(auth_failures *g, weir_buffer *out)
{
    uint64_t total[PROTOCOLS_MAX];
    port_mutex_lock(g->lock);
    memcpy(total, g->total, sizeof total);
    port_mutex_unlock(g->lock);
    weir_buffer_printf(out, "# HELP weir_wrong_passwords_total Wrong passwords from clients.\n"
                            "# TYPE weir_wrong_passwords_total counter\n");
    for (protocol_kind i = 0; config_protocol(i); i++) {
        if (config_protocol(i)->without_password)
            continue;
        weir_buffer_printf(out, "weir_wrong_passwords_total{protocol=\"%s\"} %" PRIu64 "\n",
                           config_protocol(i)->name, total[i]);
    }
}
