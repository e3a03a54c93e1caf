/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A process first locks its own byte and then looks for other locked bytes. So, of two processes
 * that come at once with different state files, at least one sees the other. */

#include "store/image/state_file.h"

#include "port/assert.h"

#define LAST ((UINT64_C(1) << 62) - 1) /* the last byte that the system can lock */

static const char suffix[] = ".lock";

static uint64_t byte_of(int file)
{
    uint64_t at = port_file_number(file) & LAST;
    return at > 0 ? at : 1;
}

/* Opens or creates FILE.lock. *ret_fd is -1 if it does not exist and cannot be created. */
static weir_status open_lock(const char *path, int file, const weir_store_options *options,
                             int *ret_fd)
{
    port_file_error error;
    bool made = false;
    *ret_fd = -1;
    do {
        error = port_file_open(path, PORT_FILE_WRITE, ret_fd);
        if (error == PORT_FILE_ABSENT) {
            error = port_file_open(path, PORT_FILE_MAKE, ret_fd);
            made = error == PORT_FILE_OK;
            if (error == PORT_FILE_DENIED || error == PORT_FILE_FULL)
                return WEIR_OK;
        }
    } while (error == PORT_FILE_EXISTS);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, suffix, error);
    /* Users who may write the state file may lock FILE.lock too. */
    if (made && options->trust_others)
        port_file_take_rights(*ret_fd, file);
    return WEIR_OK;
}

static weir_status check_lock(int fd, const weir_store_options *options)
{
    uint64_t bytes;
    int64_t written_ns;
    weir_status st = weir_file_check_rights(options, suffix, fd);
    if (st != WEIR_OK)
        return st;
    port_file_error error = port_file_info(fd, &bytes, &written_ns);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, suffix, error);
    if (bytes == 0)
        return WEIR_OK;
    return weir_file_error(
        WEIR_E_IO, options, suffix,
        "it has %llu bytes, expected an empty file: weir uses this name for a lock; "
        "move that file away",
        (unsigned long long)bytes);
}

/* Opens FILE.lock and locks the byte. c->fd is -1 if there is no lock file. */
static weir_status lock_byte(weir_lock_file *c, const char *lock_path, int file,
                             const weir_store_options *options)
{
    for (;;) {
        weir_status st = open_lock(lock_path, file, options, &c->fd);
        if (st != WEIR_OK || c->fd < 0)
            return st;
        st = check_lock(c->fd, options);
        port_file_error error = PORT_FILE_OK;
        if (st == WEIR_OK)
            error = port_file_wait_lock(c->fd, c->at, PORT_FILE_SHARE);
        if (error != PORT_FILE_OK)
            st = weir_file_error_system(options, suffix, error);
        if (st == WEIR_OK && port_file_is_at(c->fd, lock_path))
            return WEIR_OK;
        port_file_close(c->fd);
        if (st != WEIR_OK)
            return st;
    } /* FILE.lock was removed between open and lock: try again */
}

static bool find_other(const weir_lock_file *c, uint64_t *ret_at)
{
    WEIR_ASSERT(c->at > 0 && c->at <= LAST);
    return port_file_find_lock(c->fd, 0, c->at - 1, ret_at) ||
           port_file_find_lock(c->fd, c->at + 1, LAST, ret_at);
}

weir_status weir_lock_file_take(weir_lock_file *ret, const char *lock_path, int file,
                                const weir_store_options *options)
{
    uint64_t other;
    weir_lock_file c = {.at = byte_of(file)};
    weir_status st = lock_byte(&c, lock_path, file, options);
    if (st == WEIR_OK && c.fd >= 0 && find_other(&c, &other)) {
        st = weir_file_error_in_use(
            options, c.fd, other,
            "a state file that was moved or deleted from this path is still in use by",
            "; stop it first");
        weir_lock_file_drop(&c, lock_path);
    }
    if (st == WEIR_OK)
        *ret = c;
    return st;
}

weir_status weir_lock_file_take_beside(weir_lock_file *ret, const weir_lock_file *old, int file,
                                       const weir_store_options *options)
{
    weir_lock_file c = {.fd = old->fd, .at = byte_of(file), .borrowed = true};
    if (c.fd >= 0) {
        port_file_error error = port_file_wait_lock(c.fd, c.at, PORT_FILE_SHARE);
        if (error != PORT_FILE_OK)
            return weir_file_error_system(options, suffix, error);
    }
    *ret = c;
    return WEIR_OK;
}

void weir_lock_file_hand_over(weir_lock_file *second, weir_lock_file *old)
{
    if (old->fd >= 0)
        (void)port_file_try_lock(old->fd, old->at, PORT_FILE_UNLOCK, NULL);
    second->borrowed = false;
    old->fd = -1;
}

void weir_lock_file_renew(weir_lock_file *c, const char *lock_path, int file,
                          const weir_store_options *options)
{
    weir_lock_file again = {.at = byte_of(file)};
    if (c->fd >= 0 && port_file_is_at(c->fd, lock_path))
        return;
    if (lock_byte(&again, lock_path, file, options) != WEIR_OK || again.fd < 0)
        return;
    port_file_close(c->fd);
    *c = again;
}

void weir_lock_file_drop(weir_lock_file *c, const char *lock_path)
{
    if (c->fd >= 0) {
        (void)port_file_try_lock(c->fd, c->at, PORT_FILE_UNLOCK, NULL);
        if (!c->borrowed && port_file_try_lock_all(c->fd) && port_file_is_at(c->fd, lock_path))
            (void)port_file_remove(lock_path);
        if (!c->borrowed)
            port_file_close(c->fd);
    }
    *c = WEIR_LOCK_FILE_NONE;
}
