/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Events and timers only trigger a stat() of the path. Its result decides whether the file has
 * changed. */

#include "net/watch.h"

#include <stdio.h>
#include <string.h>

enum { DEBOUNCE_MS = 100, POLL_MS = 2000, PATH_LEN_MAX = 4096 };

/* Returns the version of the file, or `before` if there is no file, because it may reappear
 * soon. */
static weir_file_state stat_file(const char *path, weir_file_state before)
{
    uv_fs_t req;
    weir_file_state now = before;
    if (uv_fs_stat(NULL, &req, path, NULL) == 0)
        now = (weir_file_state){req.statbuf.st_dev, req.statbuf.st_ino, req.statbuf.st_size,
                                req.statbuf.st_mtim.tv_sec, req.statbuf.st_mtim.tv_nsec};
    uv_fs_req_cleanup(&req);
    return now;
}

static bool same(const weir_file_state *a, const weir_file_state *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static void on_debounced(uv_timer_t *timer)
{
    weir_watch *w = timer->data;
    weir_file_state now = stat_file(w->path, w->seen);
    if (same(&now, &w->seen))
        return;
    if (w->changed(w->ctx))
        w->seen = now;
}

/* A running timer is not restarted, so a directory with constant events cannot delay it forever. */
static void check_soon(weir_watch *w)
{
    if (!uv_is_active((uv_handle_t *)&w->debounce))
        uv_timer_start(&w->debounce, on_debounced, DEBOUNCE_MS, 0);
}

static void on_event(uv_fs_event_t *handle, const char *name, int events, int status)
{
    (void)name; /* a change of a link's target directory has another name */
    (void)events;
    (void)status;
    check_soon(handle->data);
}

static void on_poll(uv_timer_t *timer)
{
    weir_watch *w = timer->data;
    weir_file_state now = stat_file(w->path, w->seen);
    if (!same(&now, &w->seen))
        check_soon(w);
}

static bool watch_directory(weir_watch *w)
{
    char directory[PATH_LEN_MAX];
    const char *slash = strrchr(w->path, '/');
    size_t len = slash ? (size_t)(slash - w->path) : 0;
    if (len >= sizeof directory)
        return false;
    memcpy(directory, w->path, len);
    directory[len] = '\0';
    const char *name = directory;
    if (len == 0)
        name = slash ? "/" : ".";
    return uv_fs_event_start(&w->events, on_event, name, 0) == 0;
}

bool weir_watch_start(weir_watch *w, uv_loop_t *loop, const char *path, bool (*changed)(void *ctx),
                      void *ctx)
{
    *w = (weir_watch){.path = path, .changed = changed, .ctx = ctx};
    uv_timer_init(loop, &w->poll);
    uv_timer_init(loop, &w->debounce);
    w->poll.data = w->debounce.data = w;
    w->seen = stat_file(path, w->seen);
    uv_timer_start(&w->poll, on_poll, POLL_MS, POLL_MS);
    bool good = uv_fs_event_init(loop, &w->events) == 0;
    w->events.data = w;
    return good && watch_directory(w);
}
