/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Events and timers only trigger a stat() of the path, or of each file in a directory. Its result
 * decides whether the file has changed. */

#include "net/watch.h"

#include <stdio.h>
#include <string.h>

enum { DEBOUNCE_MS = 100, ROUNDS_MAX = 20, POLL_MS = 2000 };
enum { PATH_LEN_MAX = 4096, LEVELS_MAX = 8, FILES_MAX = 4096 };

static weir_file_state state_of(const uv_stat_t *s)
{
    return (weir_file_state){s->st_dev, s->st_ino, s->st_size, s->st_mtim.tv_sec,
                             s->st_mtim.tv_nsec};
}

static bool is_directory(const uv_stat_t *s)
{
    return (s->st_mode & 0170000) == 0040000;
}

/* Returns false if there is no such path, and then *ret is undefined. */
static bool stat_path(const char *path, uv_stat_t *ret)
{
    uv_fs_t req;
    bool exists = uv_fs_stat(NULL, &req, path, NULL) == 0;
    *ret = req.statbuf;
    uv_fs_req_cleanup(&req);
    return exists;
}

/* ---- directories ----------------------------------------------------------------------------- */

/* FNV-1a, over 64 bits at a time. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001B3;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

/* The files of a directory: how many, and a sum of their names and versions in any order. */
typedef struct contents {
    uint64_t files, sum;
} contents;

static void add_directory(contents *c, const char *path, int level);

static void add_entry(contents *c, const char *path, bool is_directory, int level)
{
    uv_stat_t found;
    if (!stat_path(path, &found) || c->files++ >= FILES_MAX)
        return;
    const weir_file_state s = state_of(&found);
    uint64_t hash = mix(mix(mix_text(0xCBF29CE484222325, path), s.device), s.inode);
    if (!is_directory)
        hash = mix(mix(mix(hash, s.size), (uint64_t)s.seconds), (uint64_t)s.nanoseconds);
    c->sum += hash;
    if (is_directory && level < LEVELS_MAX)
        add_directory(c, path, level + 1);
}

/* Adds the files of a directory and of those in it, but no names that begin with '.': editors and
 * ConfigMaps keep other versions there. */
static void add_directory(contents *c, const char *path, int level)
{
    uv_fs_t req;
    uv_dirent_t entry;
    (void)uv_fs_scandir(NULL, &req, path, 0, NULL); /* if it fails, there is no next entry */
    while (uv_fs_scandir_next(&req, &entry) == 0) {
        char below[PATH_LEN_MAX];
        int len = snprintf(below, sizeof below, "%s/%s", path, entry.name);
        if (entry.name[0] != '.' && (size_t)len < sizeof below)
            add_entry(c, below, entry.type == UV_DIRENT_DIR, level);
    }
    uv_fs_req_cleanup(&req);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* Returns the version of the file, or `before` if there is no file, because it may reappear
 * soon. */
static weir_file_state stat_file(const char *path, weir_file_state before)
{
    uv_stat_t found;
    if (!stat_path(path, &found))
        return before;
    weir_file_state now = state_of(&found);
    if (is_directory(&found)) {
        contents c = {0};
        add_directory(&c, path, 1);
        now = (weir_file_state){
            .device = now.device, .inode = now.inode, .size = c.sum, .seconds = (int64_t)c.files};
    }
    return now;
}

static bool are_equal(const weir_file_state *a, const weir_file_state *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static bool watch_directory(weir_watch *w);
static void on_debounced(uv_timer_t *timer);

/* Looks at the file again after a while. */
static void wait_on(weir_watch *w)
{
    uv_timer_start(&w->debounce, on_debounced, DEBOUNCE_MS, 0);
}

/* Most editors and `>` truncate a file before they write it. So it is read only once it has been
 * the same for a round. A directory is read after ROUNDS_MAX, too: one file in it may change all
 * the time, while each of the others is whole. */
static bool is_settled(weir_watch *w, const weir_file_state *now)
{
    bool settled = are_equal(now, &w->last) || (w->is_directory && ++w->rounds >= ROUNDS_MAX);
    w->last = *now;
    return settled;
}

/* A directory may be another one now, so its events are started again. */
static void on_debounced(uv_timer_t *timer)
{
    weir_watch *w = timer->data;
    const char *path = w->path;
    weir_file_state now = stat_file(path, w->seen);
    if (are_equal(&now, &w->seen))
        return;
    if (!is_settled(w, &now)) {
        wait_on(w);
        return;
    }
    if (!w->changed(w->ctx) || w->path != path)
        return;
    bool moved = now.device != w->seen.device || now.inode != w->seen.inode;
    w->seen = now;
    if (moved && w->is_directory) {
        uv_fs_event_stop(&w->events);
        (void)watch_directory(w); /* without events the directory is polled */
    }
}

/* A running timer is not restarted, so a directory with constant events cannot delay it forever. */
static void check_soon(weir_watch *w)
{
    if (uv_is_active((uv_handle_t *)&w->debounce))
        return;
    w->last = stat_file(w->path, w->seen);
    w->rounds = 0;
    wait_on(w);
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
    if (!are_equal(&now, &w->seen))
        check_soon(w);
}

/* Starts the events of the directory of a file, or of a directory itself. */
static bool watch_directory(weir_watch *w)
{
    char directory[PATH_LEN_MAX];
    uv_stat_t found;
    w->is_directory = stat_path(w->path, &found) && is_directory(&found);
    if (w->is_directory)
        return uv_fs_event_start(&w->events, on_event, w->path, 0) == 0;
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

bool weir_watch_move(weir_watch *w, const char *path)
{
    weir_watch_stop(w);
    w->path = path;
    w->seen = stat_file(path, (weir_file_state){0});
    uv_timer_start(&w->poll, on_poll, POLL_MS, POLL_MS);
    return watch_directory(w);
}

void weir_watch_stop(weir_watch *w)
{
    uv_fs_event_stop(&w->events);
    uv_timer_stop(&w->debounce);
    uv_timer_stop(&w->poll);
}
