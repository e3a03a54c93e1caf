/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The locking protocol of state files. The process that holds the OPENING lock of the file at PATH
 * may replace that file, and may change which processes use it. */

#include "store/image/state_file.h"

#include "port/port.h"
#include "store/image/file_header.h"

#include <string.h>

#define OPENING UINT64_C(0)
#define IN_USE  UINT64_C(1)
#define PROCESS (UINT64_C(1) << 40) /* beyond the end of any file, where locks work as well */

static const char suffix[] = ".new", lock_suffix[] = ".lock";

bool weir_state_file_is_used(int fd)
{
    return port_file_is_locked(fd, IN_USE);
}

weir_status weir_state_file_used_error(const weir_store_options *options, int fd, const char *what)
{
    return weir_file_error_in_use(options, fd, IN_USE, "the state file is in use by", what);
}

/* ---- the OPENING lock ------------------------------------------------------------------------ */

/* Waits for the OPENING lock of an open file. *ret_is_at: whether the file is still at `path`. */
static port_file_error wait_opening(int fd, const char *path, bool *ret_is_at)
{
    port_file_error error = port_file_wait_lock(fd, OPENING, PORT_FILE_OWN);
    *ret_is_at = error == PORT_FILE_OK && port_file_is_at(fd, path);
    return error;
}

/* Whether weir may remove the file at PATH.new. A killed process leaves a file that is empty or
 * begins with the magic number. */
static bool is_leftover(int fd)
{
    uint64_t bytes;
    int64_t written_ns;
    uint8_t first[WEIR_FILE_HEADER_MAGIC];
    if (port_file_info(fd, &bytes, &written_ns) != PORT_FILE_OK)
        return false;
    return bytes == 0 || (port_file_read(fd, first, sizeof first) &&
                          memcmp(first, weir_file_header_magic, sizeof first) == 0);
}

/* Whether the file at PATH.new may be removed. Needs its OPENING lock. */
static weir_status check_leftover(int fd, const weir_store_options *options)
{
    if (weir_state_file_is_used(fd)) {
        return weir_file_error(
            WEIR_E_BUSY, options, suffix,
            "it is in use as a state file, but weir uses this name for creating a state "
            "file; move that file away");
    }
    if (is_leftover(fd))
        return WEIR_OK;
    return weir_file_error(
        WEIR_E_IO, options, suffix,
        "it is not a state file of weir, but weir uses this name for creating a state "
        "file; move that file away");
}

/* The message is about the directory if the directory does not allow the new file. */
static weir_status failed_to_make(const weir_store_options *options, port_file_error error)
{
    bool about_directory = error == PORT_FILE_NO_DIR || error == PORT_FILE_DENIED;
    return weir_file_error_system(options, about_directory ? "" : suffix, error);
}

/* Creates a file at PATH.new with its OPENING and IN_USE locks and the magic number. Sets
 * *ret_again to true if another file was there, which is removed now. */
static weir_status create_once(const char *path, int *ret_fd, const weir_store_options *options,
                               bool *ret_again)
{
    bool is_at;
    *ret_again = true;
    port_file_error error = port_file_open(path, PORT_FILE_MAKE, ret_fd);
    bool made = error == PORT_FILE_OK;
    if (error == PORT_FILE_EXISTS)
        error = port_file_open(path, PORT_FILE_WRITE, ret_fd);
    if (error == PORT_FILE_ABSENT)
        return WEIR_OK; /* it was removed meanwhile */
    if (error == PORT_FILE_OK)
        error = wait_opening(*ret_fd, path, &is_at);
    if (error != PORT_FILE_OK)
        return failed_to_make(options, error);
    if (!is_at)
        return WEIR_OK;
    weir_status st = made ? WEIR_OK : check_leftover(*ret_fd, options);
    if (st != WEIR_OK)
        return st;
    *ret_again = !made;
    if (made)
        error = port_file_try_lock(*ret_fd, IN_USE, PORT_FILE_OWN, NULL);
    if (made && error == PORT_FILE_OK)
        error = port_file_begin(*ret_fd, weir_file_header_magic, WEIR_FILE_HEADER_MAGIC);
    if (!made || error != PORT_FILE_OK) {
        port_file_error removed = port_file_remove(path);
        error = error == PORT_FILE_OK ? removed : error;
    }
    return error == PORT_FILE_OK ? WEIR_OK : failed_to_make(options, error);
}

/* Creates a file at PATH.new. Removes what a killed process left there. Waits for another process
 * that creates a file there. */
static weir_status create_beside(const char *path, int *ret_fd, const weir_store_options *options)
{
    for (;;) {
        int fd = -1;
        bool again;
        weir_status st = create_once(path, &fd, options, &again);
        if (st == WEIR_OK && !again) {
            *ret_fd = fd;
            return WEIR_OK;
        }
        port_file_close(fd);
        if (st != WEIR_OK)
            return st;
    }
}

/* Removes what a killed process left at PATH.new, unless a process is creating a file there. */
static weir_status drop_leftover(const char *path, const weir_store_options *options)
{
    int fd;
    bool locked;
    weir_status st = WEIR_OK;
    port_file_error error = port_file_open(path, PORT_FILE_WRITE, &fd);
    if (error == PORT_FILE_ABSENT)
        return WEIR_OK;
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, suffix, error);
    if (port_file_try_lock(fd, OPENING, PORT_FILE_OWN, &locked) == PORT_FILE_OK && locked &&
        port_file_is_at(fd, path)) {
        st = check_leftover(fd, options);
        if (st == WEIR_OK)
            (void)port_file_remove(path); /* if that fails, the next new file removes it */
    }
    port_file_close(fd);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

static char *join(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    char *joined = port_zalloc(len + end_len + 1, 1);
    if (joined) {
        memcpy(joined, path, len);
        memcpy(joined + len, end, end_len);
    }
    return joined;
}

static weir_status set_paths(weir_state_file *f, const weir_store_options *options)
{
    f->path = join(options->file, "");
    f->beside = join(options->file, suffix);
    f->lock = join(options->file, lock_suffix);
    return f->path && f->beside && f->lock
               ? WEIR_OK
               : weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
}

static bool ends_in(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

/* PATH.new and PATH.lock of one store must not be the state file of another. */
static weir_status check_name(const weir_store_options *options)
{
    if (options->read_only ||
        (!ends_in(options->file, suffix) && !ends_in(options->file, lock_suffix)))
        return WEIR_OK;
    return weir_file_error(
        WEIR_E_IO, options, "",
        "the name of a state file cannot end in %s or %s, which weir uses for files "
        "beside it",
        suffix, lock_suffix);
}

static weir_status create(weir_state_file *f, const weir_store_options *options)
{
    weir_status st = create_beside(f->beside, &f->fd, options);
    f->is_new = f->is_first = st == WEIR_OK;
    return st;
}

/* Takes the IN_USE lock. Needs the OPENING lock. */
static weir_status take_in_use(weir_state_file *f, const weir_store_options *options)
{
    bool locked = false;
    port_file_error error = port_file_try_lock(f->fd, IN_USE, PORT_FILE_OWN, &f->is_first);
    if (error == PORT_FILE_OK && !f->is_first && f->shared && !options->reset)
        error = port_file_try_lock(f->fd, IN_USE, PORT_FILE_SHARE, &locked);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "", error);
    if (f->is_first || locked)
        return WEIR_OK;
    return weir_state_file_used_error(options, f->fd,
                                      options->reset ? "; stop it first"
                                      : f->shared    ? ", which does not set 'shared'"
                                                  : "; use another file, or set 'shared' in both");
}

/* Creates the file, which is absent. */
static weir_status open_new(weir_state_file *f, const weir_store_options *options, bool *ret_again)
{
    int other;
    weir_status st = create(f, options);
    if (st == WEIR_OK && port_file_open(f->path, PORT_FILE_READ, &other) == PORT_FILE_OK) {
        port_file_close(other); /* another process created it first */
        *ret_again = true;
        return WEIR_OK;
    }
    return st == WEIR_OK ? weir_lock_file_take(&f->claim, f->lock, f->fd, options) : st;
}

/* Tries once. Sets *ret_again, to try again, if the file at PATH has changed. */
static weir_status open_once(weir_state_file *f, const weir_store_options *options, bool *ret_again)
{
    port_file_error error = port_file_open(f->path, PORT_FILE_WRITE, &f->fd);
    if (error == PORT_FILE_ABSENT)
        return open_new(f, options, ret_again);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "", error);
    weir_status st = weir_file_check_rights(options, "", f->fd);
    if (st != WEIR_OK)
        return st;
    bool is_at;
    error = wait_opening(f->fd, f->path, &is_at);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "", error);
    *ret_again = !is_at;
    if (!is_at)
        return WEIR_OK;
    st = take_in_use(f, options);
    if (st == WEIR_OK && f->is_first)
        st = drop_leftover(f->beside, options);
    if (st == WEIR_OK && options->reset) {
        f->replaces = f->fd;
        f->fd = -1;
        st = create(f, options);
        port_file_take_rights(f->fd, f->replaces); /* ignores -1 */
    }
    return st == WEIR_OK ? weir_lock_file_take(&f->claim, f->lock, f->fd, options) : st;
}

/* Opens the file read-only, if no other opening uses it. The shared IN_USE lock excludes openings
 * that want it exclusively. */
static weir_status open_to_read(weir_state_file *f, const weir_store_options *options,
                                bool *ret_again)
{
    port_file_error error = port_file_open(f->path, PORT_FILE_READ, &f->fd);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "",
                                      error == PORT_FILE_DENIED ? PORT_FILE_UNREADABLE : error);
    weir_status st = weir_file_check_rights(options, "", f->fd);
    if (st != WEIR_OK)
        return st;
    bool locked = false;
    error = port_file_wait_lock(f->fd, OPENING, PORT_FILE_SHARE);
    if (error == PORT_FILE_OK) {
        *ret_again = !port_file_is_at(f->fd, f->path);
        f->is_first = !weir_state_file_is_used(f->fd);
    }
    if (error == PORT_FILE_OK && f->is_first)
        error = port_file_try_lock(f->fd, IN_USE, PORT_FILE_SHARE, &locked);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "", error);
    if (*ret_again || locked)
        return WEIR_OK;
    return weir_state_file_used_error(options, f->fd, "");
}

/* Closes the file, and removes it if it was not installed. Keeps the paths. */
static void close_file(weir_state_file *f)
{
    if (f->is_new && !f->is_installed)
        (void)port_file_remove(f->beside);
    weir_lock_file_drop(&f->claim, f->lock);
    port_file_close(f->fd);
    port_file_close(f->replaces);
    f->fd = f->replaces = -1;
    f->is_new = f->is_installed = f->is_first = false;
}

weir_status weir_state_file_open(weir_state_file *f, const weir_store_options *options)
{
    *f = WEIR_STATE_FILE_NONE;
    f->shared = options->shared;
    weir_status st = check_name(options);
    if (st == WEIR_OK)
        st = set_paths(f, options);
    bool again = true;
    while (st == WEIR_OK && again) {
        close_file(f);
        again = false;
        st = options->read_only ? open_to_read(f, options, &again) : open_once(f, options, &again);
    }
    return st;
}

weir_status weir_state_file_visit(weir_state_file *f, const weir_store_options *options)
{
    *f = WEIR_STATE_FILE_NONE;
    weir_status st = set_paths(f, options);
    bool is_at = false;
    while (st == WEIR_OK && !is_at) {
        close_file(f);
        port_file_error error = port_file_open(f->path, PORT_FILE_WRITE, &f->fd);
        if (error == PORT_FILE_OK)
            st = weir_file_check_rights(options, "", f->fd);
        if (error == PORT_FILE_OK && st == WEIR_OK)
            error = wait_opening(f->fd, f->path, &is_at);
        if (error != PORT_FILE_OK)
            st = weir_file_error_system(options, "", error);
    }
    return st;
}

weir_status weir_state_file_open_beside(weir_state_file *f, weir_state_file *old,
                                        const weir_store_options *options)
{
    bool alone = false;
    *f = WEIR_STATE_FILE_NONE;
    f->shared = old->shared;
    port_file_error error = port_file_wait_lock(old->fd, OPENING, PORT_FILE_OWN);
    if (error == PORT_FILE_OK)
        error = port_file_try_lock(old->fd, IN_USE, PORT_FILE_OWN, &alone);
    weir_status st = set_paths(f, options);
    if (error != PORT_FILE_OK)
        st = weir_file_error_system(options, "", error);
    if (st == WEIR_OK && !alone)
        st = weir_state_file_used_error(
            options, old->fd,
            "; to change memory.size, memory.large or a policy's memory, stop it first");
    if (st == WEIR_OK)
        st = create(f, options);
    if (st == WEIR_OK) {
        port_file_take_rights(f->fd, old->fd);
        st = weir_lock_file_take_beside(&f->claim, &old->claim, f->fd, options);
    }
    if (st != WEIR_OK)
        (void)weir_state_file_end_opening(old, options);
    return st;
}

weir_status weir_state_file_install(weir_state_file *f, const weir_store_options *options)
{
    port_file_error error = port_file_replace(f->beside, f->path);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, "", error);
    f->is_installed = true;
    port_file_close(f->replaces);
    f->replaces = -1;
    return WEIR_OK;
}

weir_status weir_state_file_end_opening(weir_state_file *f, const weir_store_options *options)
{
    port_file_error error = PORT_FILE_OK;
    if (f->shared)
        error = port_file_try_lock(f->fd, IN_USE, PORT_FILE_SHARE, NULL);
    if (error == PORT_FILE_OK)
        error = port_file_try_lock(f->fd, OPENING, PORT_FILE_UNLOCK, NULL);
    return error == PORT_FILE_OK ? WEIR_OK : weir_file_error_system(options, "", error);
}

bool weir_state_file_share(weir_state_file *f)
{
    bool locked = false;
    (void)port_file_try_lock(f->fd, IN_USE, PORT_FILE_SHARE, &locked);
    f->shared = f->shared || locked;
    return locked;
}

bool weir_state_file_own(weir_state_file *f)
{
    bool locked = false;
    (void)port_file_try_lock(f->fd, IN_USE, PORT_FILE_OWN, &locked);
    f->shared = f->shared && !locked;
    return locked;
}

weir_file weir_state_file_watch(weir_state_file *f, uint64_t bytes,
                                const weir_store_options *options)
{
    port_file_place place = port_file_look(f->fd, f->path);
    if (!options->read_only)
        weir_lock_file_renew(&f->claim, f->lock, f->fd, options);
    if (place.bytes < bytes)
        return WEIR_FILE_SHORTENED;
    if (place.has_other)
        return WEIR_FILE_REPLACED;
    if (place.is_at)
        return WEIR_FILE_IN_PLACE;
    return place.has_name ? WEIR_FILE_MOVED : WEIR_FILE_REMOVED;
}

void weir_state_file_begin_closing(weir_state_file *f)
{
    (void)port_file_wait_lock(f->fd, OPENING, PORT_FILE_OWN);
}

/* ---- ids of processes ------------------------------------------------------------------------ */

weir_status weir_state_file_take_process_id(weir_state_file *f, uint64_t id, bool *ret_taken,
                                            const weir_store_options *options)
{
    port_file_error error = port_file_try_lock(f->fd, PROCESS + id, PORT_FILE_OWN, ret_taken);
    return error == PORT_FILE_OK ? WEIR_OK : weir_file_error_system(options, "", error);
}

bool weir_state_file_has_process(const weir_state_file *f, uint64_t id)
{
    return port_file_is_locked(f->fd, PROCESS + id);
}

void weir_state_file_close(weir_state_file *f)
{
    close_file(f);
    port_free(f->path);
    port_free(f->beside);
    port_free(f->lock);
    f->path = f->beside = f->lock = NULL;
}
