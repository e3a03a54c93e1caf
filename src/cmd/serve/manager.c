/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The messages to the service manager. */

#include "cmd/serve/parts.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    BEATS = 4,    /* in the time that the manager waits for one */
    CLOSE_S = 30, /* to write and close the state file, after the last connection */
};

weir_status manager_open(manager *ret, const log_target *log, char *ret_error, size_t size)
{
    *ret = (manager){.log = log};
    weir_status st = net_notifier_read(&ret->notifier, ret_error, size);
    return st == WEIR_OK ? net_passed_read(&ret->passed, NET_PASSED_FIRST, ret_error, size) : st;
}

int64_t manager_beat_ns(const manager *m)
{
    int64_t ns = m->notifier.watchdog_ns;
    return ns > 0 && ns < BEATS ? 1 : ns / BEATS;
}

static void notify(manager *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void notify(manager *m, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (net_notify(&m->notifier, text) || m->failed)
        return;
    m->failed = true;
    log_event(m->log, WEIR_LOG_WARNING, "notify-failed",
              LOG(log_text("text", "the service manager does not receive notifications "
                                   "(NOTIFY_SOCKET)")));
}

void manager_beat(manager *m)
{
    notify(m, "WATCHDOG=1");
}

void manager_add_address(manager *m, const char *protocol, const char *address)
{
    size_t len = strlen(m->serving);
    snprintf(m->serving + len, sizeof m->serving - len, "%s%s %s", len > 0 ? ", " : "", protocol,
             address);
}

void manager_ready(manager *m, size_t policies, bool refused)
{
    notify(m, "READY=1\nSTATUS=%sserving %zu %s on %s",
           refused ? "configuration refused, see the log; " : "", policies,
           policies == 1 ? "policy" : "policies", m->serving);
}

/* systemd waits for READY=1 with a MONOTONIC_USEC after its own signal. */
void manager_reloading(manager *m)
{
    notify(m, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reloading the configuration",
           port_steady_ns() / 1000);
}

/* EXTEND_TIMEOUT_USEC prevents that a long limits.drain or limits.grace exceeds TimeoutStopSec. */
void manager_stopping(manager *m, int64_t stop_ns)
{
    notify(m, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=closing the connections",
           stop_ns / 1000 + CLOSE_S * INT64_C(1000000));
}

/* By default, systemd believes the main process only. */
void manager_handed_over(manager *m, int pid)
{
    notify(m, "MAINPID=%d", pid);
}

void manager_failed(manager *m, const char *error)
{
    notify(m, "STATUS=not started: %s", error);
}
