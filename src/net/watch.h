/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WATCH_H
#define WEIR_NET_WATCH_H
/* Tells when a file has become another: written to, replaced by a rename, or reached by a link
 * into a directory that was swapped. It must not know what is in the file. */

#include <weir/weir.h>

#include <uv.h>

/* Which file it is, and which state of it; all zero if there is none. */
typedef struct weir_file_state {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of its last change */
} weir_file_state;

typedef struct weir_watch {
    uv_fs_event_t events; /* of its directory: at once, but not for all of the ways above ... */
    uv_timer_t poll;      /* ... for which it is looked at from time to time */
    uv_timer_t settle;    /* what comes within a moment is one change */
    const char *path;
    weir_file_state seen;
    bool (*changed)(void *ctx);
    void *ctx;
} weir_watch;

/* Calls changed(ctx) once for every change of the file at `path` (kept by reference) that lasts;
 * not when it is gone, but when it is there again and is another; and again, from time to time,
 * while it returns false. The handles of `w` are the
 * loop's to close.
 * Returns false if the directory's events cannot be had; the file is watched all the same. */
bool weir_watch_start(weir_watch *w, uv_loop_t *loop, const char *path, bool (*changed)(void *ctx),
                      void *ctx);

#endif
