/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* During a hand-over two daemons use one state file. If the configuration does not share it, the
 * old one lends it: its lock admits openings with `shared` until no other process uses the file.
 * Without a file, they use the same memory, if the configuration of the old one has `hand_over`. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/serve/parts.h"
#include "net/server.h"
#include "port/file.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* glibc has it from version 2.38 on */
#endif

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
    t->has_lent = t->has_file && !t->is_shared;
    return true;
}

/* ---- the memory of the store ----------------------------------------------------------------- */

/* Creates memory that processes can share, all zero. Returns its descriptor, or -1. */
static int create_memory(size_t bytes)
{
    int fd = memfd_create("weir", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("weir", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Opens the store in the memory of t->memory_fd. */
static weir_status open_shared(take_over *t, const weir_store_options *options)
{
    weir_store_options o = *options;
    o.prefault = false; /* the mapping is not the store's; its thread works all the same */
    o.memory = t->memory = port_memory_map(t->memory_fd, o.memory_bytes);
    t->memory_bytes = o.memory_bytes;
    if (!o.memory) {
        snprintf(o.ret_error->text, sizeof o.ret_error->text, "memory: out of memory");
        return WEIR_E_NOMEM;
    }
    weir_status st = weir_store_open(&t->store, &o);
    return st == WEIR_OK ? weir_huge_pages_start(&t->store->huge_pages, t->store, options->prefault)
                         : st;
}

/* Opens the store of the old process. Returns WEIR_OK, or another status with ret_error. */
static weir_status open_passed(take_over *t, const weir_store_options *options)
{
    char *why = options->ret_error->text;
    uint64_t bytes = 0;
    int64_t written_ns;
    (void)!port_file_info(t->memory_fd, &bytes, &written_ns); /* fails for -1 */
    if (t->has_file)
        snprintf(why, sizeof options->ret_error->text, "memory.file is new");
    else if (t->memory_fd < 0)
        snprintf(why, sizeof options->ret_error->text, "no memory.file, and no hand_over before");
    else if (bytes != options->memory_bytes)
        snprintf(why, sizeof options->ret_error->text,
                 "memory.size was %" PRIu64 " bytes, and is %zu", bytes, options->memory_bytes);
    else
        return open_shared(t, options);
    return WEIR_E_RANGE;
}

weir_status take_over_open_store(take_over *t, const weir_store_options *options)
{
    t->memory_fd = t->from.memory;
    if (take_over_is_on(t) && (!t->has_file || t->memory_fd >= 0)) {
        if (open_passed(t, options) == WEIR_OK)
            return WEIR_OK;
        log_event(t->log, WEIR_LOG_WARNING, "state-not-taken-over",
                  LOG(log_text("why", options->ret_error->text),
                      log_text("text", "keys begin with their full quota")));
        take_over_close_store(t);
    }
    if (t->has_file || !t->has_socket)
        return weir_store_open(&t->store, options);
    t->memory_fd = create_memory(options->memory_bytes);
    return open_shared(t, options);
}

void take_over_close_store(take_over *t)
{
    weir_store_close(t->store);
    port_unmap(t->memory, t->memory_bytes);
    port_file_close(t->memory_fd);
    t->store = NULL;
    t->memory = NULL;
    t->memory_fd = -1;
}

/* ---- the old process ------------------------------------------------------------------------- */

bool take_over_prepare(take_over *t, int *ret_memory, char *ret_error, size_t size)
{
    *ret_memory = t->memory_fd;
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
