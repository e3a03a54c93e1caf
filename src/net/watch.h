/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WATCH_H
#define WEIR_NET_WATCH_H
/* Watches a file or a directory for changes (inotify and polling). It detects writes, a replacement
 * by a rename, and a symbolic link into a directory that is swapped. Of a directory it watches
 * every file, also in the directories below, except names that begin with '.'. It must not know the
 * content of the files. */

#include <weir/weir.h>

#include <uv.h>

/* Identifies a file and its version; all zero if there is no file. Of a directory: a sum over its
 * files in `size`, and their number in `seconds`. */
typedef struct weir_file_state {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of the last modification */
} weir_file_state;

typedef struct weir_watch {
    uv_fs_event_t events; /* of the directory; not every change makes an event ... */
    uv_timer_t poll;      /* ... so the file is also checked periodically */
    uv_timer_t debounce;  /* several events within 100 ms are one change */
    unsigned rounds;      /* timeouts of `debounce` in a row at which the file had changed again */
    const char *path;
    bool is_directory;    /* when the file was last checked */
    weir_file_state last; /* the version at the latest timeout of `debounce` */
    weir_file_state seen; /* the version at the last call of changed() */
    bool (*changed)(void *ctx);
    void *ctx;
} weir_watch;

/* Calls changed(ctx) once after each change of the file at `path`: 100 ms after the last write, so
 * that no half-written file is read, however long the writer takes. A directory is read at most 2 s
 * after the first write. `path` is kept by reference. If changed() returns false, it is called
 * again later. A removed file is no change; a different file that appears there is one. The loop's
 * owner closes the handles of `w`.
 * Returns false if events for the directory are unavailable; the file is then only polled. */
bool weir_watch_start(weir_watch *w, uv_loop_t *loop, const char *path, bool (*changed)(void *ctx),
                      void *ctx);

/* Watches another path from now on, which is kept by reference; returns as weir_watch_start(). May
 * be called by changed(). */
bool weir_watch_move(weir_watch *w, const char *path);

/* Watches nothing, until weir_watch_move(). May be called by changed(). */
void weir_watch_stop(weir_watch *w);

#endif
