/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* During a hand-over two daemons use one state file. If the configuration does not share it, the
 * old one lends it: its lock admits openings with `shared` until no other process uses the file. */

#include "cmd/serve/parts.h"
#include "net/server.h"
#include "store/store.h"

#include <stdio.h>

/* ---- the new process ------------------------------------------------------------------------- */

weir_status take_over_open(take_over *t, const char *path, char *ret_error, size_t size)
{
    weir_status st = net_take_over_begin(&t->from, &t->manager->passed, path, ret_error, size);
    t->from_pid = t->from.pid;
    return st;
}

bool take_over_end(take_over *t, struct weir_server *server)
{
    char error[256];
    if (!take_over_is_on(t))
        return true;
    if (!net_take_over_end(&t->from)) {
        log_event(t->log, WEIR_LOG_ERROR, "not-taken-over",
                  LOG(log_integer("from", t->from_pid),
                      log_text("text", "the running daemon goes on, because this process took too "
                                       "long to start, or because it was stopped")));
        return false;
    }
    log_event(t->log, WEIR_LOG_INFO, "taken-over", LOG(log_integer("from", t->from_pid)));
    if (weir_server_inherit(server, error, sizeof error) != WEIR_OK)
        log_event(t->log, WEIR_LOG_ERROR, "no-hand-over-socket", LOG(log_text("error", error)));
    if (!t->has_file)
        log_event(t->log, WEIR_LOG_WARNING, "state-not-taken-over",
                  LOG(log_text("text", "without memory.file, keys begin with their full quota")));
    t->has_lent = t->has_file && !t->is_shared;
    return true;
}

/* ---- the old process ------------------------------------------------------------------------- */

bool take_over_prepare(take_over *t, int *ret_memory, char *ret_error, size_t size)
{
    *ret_memory = -1;
    if (t->has_file && !t->is_shared && !weir_store_share(t->store)) {
        snprintf(ret_error, size, "the state file cannot be shared");
        return false;
    }
    t->is_lending = true;
    t->has_lent = t->has_file && !t->is_shared;
    return true;
}

void take_over_failed(take_over *t)
{
    t->is_lending = false;
}

void take_over_done(take_over *t, int pid)
{
    manager_handed_over(t->manager, pid);
}

void take_over_tick(take_over *t)
{
    if (t->has_lent && !t->is_lending && weir_store_own(t->store))
        t->has_lent = false;
}
