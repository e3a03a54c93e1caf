/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The protocol of doors: whoever has the door of the file that is at PATH may change what is there,
 * and who else has it open. */

#include "store/image/image_file.h"

#include "port/file.h"
#include "port/port.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DOOR  UINT64_C(0)
#define USE   UINT64_C(1)
#define OWNER (UINT64_C(1) << 40) /* beyond the end of any file: such locks are as good */

static const char suffix[] = ".new";

/* ---- what is wrong --------------------------------------------------------------------------- */

void weir_image_say(const weir_store_options *options, const char *format, ...)
{
    if (!options->ret_error)
        return;
    enum { SHOWN = 96 };
    char what[150];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *path = options->file ? options->file : "memory";
    size_t len = strlen(path);
    bool cut = len > SHOWN;
    snprintf(options->ret_error->text, sizeof options->ret_error->text, "%s%s: %s",
             cut ? "..." : "", cut ? path + len - SHOWN : path, what);
}

/* Says that a call of the system went wrong, on which file. */
static weir_status failed(const weir_store_options *options, bool beside, port_file_error error)
{
    weir_image_say(options, "%s%s", beside ? "the new file beside it, .new: " : "",
                   port_file_error_text(error));
    return WEIR_E_IO;
}

/* ---- doors ----------------------------------------------------------------------------------- */

/* Waits at the door of the file that was opened; *ret_is_at says if it still is the one at
 * `path`. */
static port_file_error enter(int fd, const char *path, bool *ret_is_at)
{
    port_file_error error = port_file_wait_lock(fd, DOOR, PORT_FILE_OWN);
    *ret_is_at = error == PORT_FILE_OK && port_file_is_at(fd, path);
    return error;
}

/* Makes an empty file at PATH.new and has its door and use. What a killed process left there goes;
 * on what somebody is about to make it waits. */
static port_file_error make_beside(const char *path, int *ret_fd)
{
    for (;;) {
        int fd = -1;
        bool is_at = false;
        port_file_error error = port_file_open(path, true, &fd);
        bool made = error == PORT_FILE_OK;
        if (error == PORT_FILE_EXISTS)
            error = port_file_open(path, false, &fd);
        if (error == PORT_FILE_ABSENT)
            continue; /* it is gone by now */
        if (error == PORT_FILE_OK)
            error = enter(fd, path, &is_at);
        if (error == PORT_FILE_OK && made && is_at)
            error = port_file_try_lock(fd, USE, PORT_FILE_OWN, NULL);
        if (error == PORT_FILE_OK && made && is_at) {
            *ret_fd = fd;
            return PORT_FILE_OK;
        }
        if (is_at) {
            port_file_error removed = port_file_remove(path);
            error = error == PORT_FILE_OK ? removed : error;
        }
        port_file_close(fd);
        if (error != PORT_FILE_OK)
            return error;
    }
}

/* Removes what a killed process left at PATH.new, unless somebody is at work there. */
static void drop_leftover(const char *path)
{
    int fd;
    bool locked;
    if (port_file_open(path, false, &fd) != PORT_FILE_OK)
        return;
    if (port_file_try_lock(fd, DOOR, PORT_FILE_OWN, &locked) == PORT_FILE_OK && locked &&
        port_file_is_at(fd, path))
        (void)port_file_remove(path); /* it is in nobody's way until a new one is to be made */
    port_file_close(fd);
}

/* ---- open ------------------------------------------------------------------------------------ */

static weir_status set_paths(weir_image_file *f, const weir_store_options *options)
{
    size_t len = strlen(options->file);
    f->path = port_zalloc(len + 1, 1);
    f->beside = port_zalloc(len + sizeof suffix, 1);
    if (!f->path || !f->beside) {
        weir_image_say(options, "out of memory");
        return WEIR_E_NOMEM;
    }
    memcpy(f->path, options->file, len);
    memcpy(f->beside, options->file, len);
    memcpy(f->beside + len, suffix, sizeof suffix);
    return WEIR_OK;
}

static weir_status make(weir_image_file *f, const weir_store_options *options)
{
    port_file_error error = make_beside(f->beside, &f->fd);
    if (error != PORT_FILE_OK)
        return failed(options, error != PORT_FILE_NO_DIR && error != PORT_FILE_DENIED, error);
    f->is_new = f->is_first = true;
    return WEIR_OK;
}

/* At the door of a file that is there: may we use it? */
static weir_status take_use(weir_image_file *f, const weir_store_options *options)
{
    bool locked = false;
    port_file_error error = port_file_try_lock(f->fd, USE, PORT_FILE_OWN, &f->is_first);
    if (error == PORT_FILE_OK && !f->is_first && f->shared && !options->reset)
        error = port_file_try_lock(f->fd, USE, PORT_FILE_SHARE, &locked);
    if (error != PORT_FILE_OK)
        return failed(options, false, error);
    if (f->is_first || locked)
        return WEIR_OK;
    if (options->reset)
        weir_image_say(options, "somebody has it open, so that it cannot be reset");
    else if (f->shared)
        weir_image_say(options, "somebody has it open who does not share it");
    else
        weir_image_say(options, "somebody has it open; expected another file, or that all who use "
                                "it say 'shared'");
    return WEIR_E_BUSY;
}

/* Once around: *ret_again if the file is no more what it was. */
static weir_status open_once(weir_image_file *f, const weir_store_options *options, bool *ret_again)
{
    port_file_error error = port_file_open(f->path, false, &f->fd);
    if (error == PORT_FILE_ABSENT) {
        weir_status st = make(f, options);
        int other;
        if (st == WEIR_OK && port_file_open(f->path, false, &other) == PORT_FILE_OK) {
            port_file_close(other); /* somebody was faster */
            *ret_again = true;
        }
        return st;
    }
    if (error != PORT_FILE_OK)
        return failed(options, false, error);
    bool is_at;
    error = enter(f->fd, f->path, &is_at);
    if (error != PORT_FILE_OK)
        return failed(options, false, error);
    *ret_again = !is_at;
    if (!is_at)
        return WEIR_OK;
    weir_status st = take_use(f, options);
    if (st != WEIR_OK || !f->is_first)
        return st;
    drop_leftover(f->beside);
    if (!options->reset)
        return WEIR_OK;
    f->replaces = f->fd;
    f->fd = -1;
    return make(f, options);
}

/* Closes, and removes if it was never put. The paths stay. */
static void let_go(weir_image_file *f)
{
    if (f->is_new && !f->is_put)
        (void)port_file_remove(f->beside);
    port_file_close(f->fd);
    port_file_close(f->replaces);
    f->fd = f->replaces = -1;
    f->is_new = f->is_put = f->is_first = false;
}

weir_status weir_image_file_open(weir_image_file *f, const weir_store_options *options)
{
    *f = (weir_image_file){.fd = -1, .replaces = -1, .shared = options->shared};
    weir_status st = set_paths(f, options);
    bool again = true;
    while (st == WEIR_OK && again) {
        let_go(f);
        again = false;
        st = open_once(f, options, &again);
    }
    return st;
}

weir_status weir_image_file_open_beside(weir_image_file *f, weir_image_file *old,
                                        const weir_store_options *options)
{
    bool alone = true;
    *f = (weir_image_file){.fd = -1, .replaces = -1, .shared = old->shared};
    weir_status st = set_paths(f, options);
    if (st != WEIR_OK)
        return st;
    port_file_error error = port_file_wait_lock(old->fd, DOOR, PORT_FILE_OWN);
    if (error == PORT_FILE_OK)
        error = port_file_try_lock(old->fd, USE, PORT_FILE_OWN, &alone);
    if (error != PORT_FILE_OK)
        st = failed(options, false, error);
    if (st == WEIR_OK && !alone) {
        weir_image_say(options, "others have it open, so that its size cannot be changed");
        st = WEIR_E_BUSY;
    }
    if (st == WEIR_OK)
        st = make(f, options);
    if (st != WEIR_OK)
        (void)weir_image_file_settle(old, options);
    return st;
}

weir_status weir_image_file_put(weir_image_file *f, const weir_store_options *options)
{
    port_file_error error = port_file_replace(f->beside, f->path);
    if (error != PORT_FILE_OK)
        return failed(options, false, error);
    f->is_put = true;
    port_file_close(f->replaces);
    f->replaces = -1;
    return WEIR_OK;
}

weir_status weir_image_file_settle(weir_image_file *f, const weir_store_options *options)
{
    port_file_error error = PORT_FILE_OK;
    if (f->shared)
        error = port_file_try_lock(f->fd, USE, PORT_FILE_SHARE, NULL);
    if (error == PORT_FILE_OK)
        error = port_file_try_lock(f->fd, DOOR, PORT_FILE_UNLOCK, NULL);
    return error == PORT_FILE_OK ? WEIR_OK : failed(options, false, error);
}

void weir_image_file_stop_door(weir_image_file *f)
{
    (void)port_file_wait_lock(f->fd, DOOR, PORT_FILE_OWN);
}

/* ---- owners ---------------------------------------------------------------------------------- */

weir_status weir_image_file_take_owner(weir_image_file *f, uint64_t id, bool *ret_taken,
                                       const weir_store_options *options)
{
    port_file_error error = port_file_try_lock(f->fd, OWNER + id, PORT_FILE_OWN, ret_taken);
    return error == PORT_FILE_OK ? WEIR_OK : failed(options, false, error);
}

bool weir_image_file_has_owner(const weir_image_file *f, uint64_t id)
{
    return port_file_is_locked(f->fd, OWNER + id);
}

void weir_image_file_close(weir_image_file *f)
{
    let_go(f);
    port_free(f->path);
    port_free(f->beside);
    f->path = f->beside = NULL;
}
