/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Closes connections that take too long: a client that sends nothing, half a request or no
 * password, that does not read its replies, or that is idle. It must not know how a connection
 * reads. */

#include "net/loop.h"

static void time_out(weir_connection *c, const char *what)
{
    port_bump_relaxed(&c->loop->stats.timed_out, 1);
    weir_shared_report(c->loop->shared, WEIR_EVENT_TIMED_OUT, what);
    if (c->state == WEIR_CONNECTION_WRITE)
        weir_connection_reset(c);
    else if (weir_connection_is_mid_request(c) && !c->unproxied)
        weir_connection_close_with(c, c->protocol->timeout);
    else
        weir_connection_close(c);
}

static bool over(uint64_t since_ms, uint64_t now_ms, int64_t limit_ns)
{
    return limit_ns > 0 && now_ms - since_ms >= ((uint64_t)limit_ns + 999999) / 1000000;
}

static void sweep_write(weir_connection *c, uint64_t now_ms)
{
    size_t unsent = uv_stream_get_write_queue_size(&c->uv.stream);
    if (unsent != c->unsent) {
        c->unsent = unsent;
        c->since_ms = now_ms;
    } else if (over(c->since_ms, now_ms, c->loop->limits.write_ns)) {
        time_out(c, "closed a connection: the client does not read its replies (limits.write)");
    }
}

/* Returns why the client counts as new: it has sent nothing, or not the password. NULL if it does
 * not. */
static const char *newness(const weir_connection *c)
{
    if (!c->heard)
        return "closed a connection: its client has sent nothing (limits.request)";
    return c->in_session && c->protocol->is_new && c->protocol->is_new(c->session)
               ? "closed a connection: its client has not authenticated in time (limits.request)"
               : NULL;
}

void weir_connection_sweep(weir_connection *c, uint64_t now_ms)
{
    const weir_server_limits *limits = &c->loop->limits;
    const char *why;
    bool late =
        now_ms - c->opened_ms >= WEIR_LINGER_MS || over(c->opened_ms, now_ms, limits->request_ns);
    if (c->refused && late && c->state == WEIR_CONNECTION_READ) {
        weir_connection_refuse(c); /* it has sent no health check */
    } else if (c->refused && late && c->state != WEIR_CONNECTION_LINGER) {
        weir_connection_close(c);
    } else if (c->state == WEIR_CONNECTION_WRITE) {
        sweep_write(c, now_ms);
    } else if (c->state == WEIR_CONNECTION_LINGER && now_ms - c->since_ms >= WEIR_LINGER_MS) {
        weir_connection_close(c);
    } else if (c->state == WEIR_CONNECTION_READ && weir_connection_is_queued(c)) {
        weir_connection_poll(c); /* it has input: no timeout runs */
    } else if (c->state == WEIR_CONNECTION_READ) {
        if (weir_connection_is_mid_request(c) && over(c->begun_ms, now_ms, limits->request_ns))
            time_out(c, c->unproxied ? "closed a connection: its PROXY header was not complete in "
                                       "time (limits.request)"
                                     : "closed a connection: its request was not complete in time "
                                       "(limits.request)");
        else if (over(c->opened_ms, now_ms, limits->request_ns) && (why = newness(c)))
            time_out(c, why);
        else if (over(c->idle_since_ms, now_ms, limits->idle_ns))
            time_out(c, "closed an idle connection (limits.idle)");
        else
            weir_connection_poll(c);
    }
}
