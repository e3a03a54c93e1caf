/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The configuration in use. The thread that runs the server writes it under the lock, and reads it
 * without; a loop reads and writes its own pointer in the same way. */

#include "cmd/serve/running.h"
#include "port/limits.h"
#include "port/port.h"
#include "store/iterate.h"

enum {
    REQUEST_MAX = 1 << 21, /* bytes; above the limits of every protocol */
    LOOP_FILES = 16,       /* descriptors of an event loop, without connections and listeners */
    OTHER_FILES = 64,      /* of the rest of the daemon */
};

weir_server_limits in_use_limits(const daemon *d)
{
    const weir_config *c = d->config;
    return (weir_server_limits){.connections = c->connections,
                                .per_address = c->per_address,
                                .any_proxy = c->trusted_proxies.len == 0,
                                .buffers = (size_t)c->buffers_bytes,
                                .request = REQUEST_MAX,
                                .idle_ns = c->idle_ns,
                                .request_ns = c->request_ns,
                                .write_ns = c->write_ns,
                                .grace_ns = config_grace_ns(c),
                                .drain_ns = c->drain_ns};
}

void in_use_raise_descriptors(const daemon *d)
{
    const weir_config *c = d->config;
    uint64_t limit = port_raise_descriptors();
    uint64_t wanted = (uint64_t)c->connections + d->loops_len * (c->listens_len + LOOP_FILES) +
                      OTHER_FILES; /* below 2^31 */
    if (limit < wanted)
        log_event(d->options->log, WEIR_LOG_WARNING, "few-descriptors",
                  LOG(log_integer("connections", c->connections),
                      log_integer("wanted", (int64_t)wanted),
                      log_integer("available", (int64_t)limit),
                      log_text("text", "limits.connections does not fit the limit on open files; "
                                       "raise the hard limit (LimitNOFILE=, ulimit -Hn) or lower "
                                       "limits.connections")));
}

void in_use_refresh(void *context)
{
    protocol_loop *l = context;
    daemon *d = l->daemon;
    port_mutex_lock(d->lock);
    l->config = d->config;
    port_mutex_unlock(d->lock);
    protocols_configure(l);
}

/* The caller holds the lock. */
static bool is_used(const daemon *d, const weir_config *c)
{
    bool used = false;
    for (unsigned i = 0; i < d->loops_len && !used; i++)
        used = d->loops[i].config == c;
    return used;
}

void in_use_collect(daemon *d)
{
    weir_config *unused = NULL;
    port_mutex_lock(d->lock);
    for (weir_config **at = &d->replaced, *c; (c = *at);) {
        if (is_used(d, c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        c->next = unused;
        unused = c;
    }
    port_mutex_unlock(d->lock);
    for (weir_config *c; (c = unused);) {
        unused = c->next;
        config_free(c);
    }
}

void in_use_replace(daemon *d, weir_config *c)
{
    weir_config *old = d->config;
    config_keep_listens(c, d->options->config);
    port_mutex_lock(d->lock);
    d->config = c;
    port_mutex_unlock(d->lock);
    if (old != d->options->config) {
        old->next = d->replaced;
        d->replaced = old;
    }
    const weir_server_limits limits = in_use_limits(d);
    weir_server_configure(d->server, &limits);
    weir_store_set_jump(d->store, c->clock_step_above_ns);
    if (c->connections != old->connections)
        in_use_raise_descriptors(d);
    in_use_collect(d);
}

void in_use_close(daemon *d)
{
    d->loops_len = 0;
    if (d->config != d->options->config) {
        d->config->next = d->replaced;
        d->replaced = d->config;
    }
    if (d->lock)
        in_use_collect(d);
    port_mutex_free(d->lock);
}
