/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_FILE_H
#define WEIR_PORT_FILE_H
/* Files that are memory: opened, locked, given room, mapped, put in the place of another. It must
 * not know what lies in them. errno stops here: what went wrong is a port_file_error. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum port_file_error {
    PORT_FILE_OK = 0,
    PORT_FILE_ABSENT,  /* no such file */
    PORT_FILE_EXISTS,  /* there is one already */
    PORT_FILE_NO_DIR,  /* no such directory */
    PORT_FILE_DENIED,  /* permissions, or a file system that is read-only */
    PORT_FILE_LINK,    /* a symbolic link */
    PORT_FILE_KIND,    /* a directory, a device, a socket ... */
    PORT_FILE_FULL,    /* no room on the disk, or beyond what the user may take of it */
    PORT_FILE_LIMIT,   /* larger than the process, or the file system, may make files */
    PORT_FILE_NO_LOCK, /* a file system without locks, or too many of them */
    PORT_FILE_FAILED   /* anything else: the disk, no descriptors left ... */
} port_file_error;

/* What it is, in a few words of English: "there is no room on the disk". */
const char *port_file_error_text(port_file_error error);

/* Opens a regular file for reading and writing; never a symbolic link.
 *  make    makes it, empty, for its owner alone; it must not be there.
 *  ret_fd  written on PORT_FILE_OK only; for port_file_close().
 * Returns also PORT_FILE_ABSENT (never if `make`), EXISTS (only then), NO_DIR, DENIED, LINK, KIND,
 * FAILED. */
port_file_error port_file_open(const char *path, bool make, int *ret_fd);

void port_file_close(int fd); /* with its locks; accepts -1 */

/* Whether the file that is at `path` now is this one. */
bool port_file_is_at(int fd, const char *path);

/* Size in bytes, and when it was last written, in ns since the epoch. */
port_file_error port_file_info(int fd, uint64_t *ret_bytes, int64_t *ret_written_ns);

/* Reads the first `len` bytes; false if there are not as many. */
bool port_file_read(int fd, void *buf, size_t len);

/* Empties a file and gives it `bytes` zeroed bytes that have their room on the disk, so that
 * writing to them cannot fail for want of it. For its owner alone. Returns also FULL, LIMIT. */
port_file_error port_file_make_room(int fd, uint64_t bytes);

/* Removes a file; it is no error if it is not there. */
port_file_error port_file_remove(const char *path);

/* Puts the file at `from` in the place of that at `to`, if there is one, and asks the
 * system to write the directory to the disk. Both are in the same directory. */
port_file_error port_file_replace(const char *from, const char *to);

/* ---- as memory ------------------------------------------------------------------------------- */

/* Maps the first `bytes` bytes, so that other processes see what is written, in large pages where
 * the file system has them. It begins on a large page (2 MiB), but the first of them is left to
 * small ones: what is there is little and scattered. NULL: no room. */
void *port_file_map(int fd, size_t bytes);

/* Zeroed memory of no file; else as port_file_map(). It takes real memory as it is used. */
void *port_map_aligned(size_t bytes);

/* Returns when all that was written to these bytes of a mapped file is on the disk; false if the
 * system could not. */
bool port_file_sync(void *p, size_t bytes);

/* ---- locks ----------------------------------------------------------------------------------- */

/* A lock is on one byte of a file, which need not exist. It belongs to the opening, not to the
 * process or thread: two openings of one process exclude each other, and it goes when the last copy
 * of the descriptor is closed, that is at the latest with the process and those it forked. */
typedef enum port_file_lock { PORT_FILE_UNLOCK, PORT_FILE_SHARE, PORT_FILE_OWN } port_file_lock;

/* Takes, changes or gives back a lock, at once or not at all.
 *  ret_locked  whether it was had; may be NULL. */
port_file_error port_file_try_lock(int fd, uint64_t at, port_file_lock lock, bool *ret_locked);

/* Waits for it. */
port_file_error port_file_wait_lock(int fd, uint64_t at, port_file_lock lock);

/* Whether another opening has a lock on the byte. Any thread. */
bool port_file_is_locked(int fd, uint64_t at);

/* ---- the machine ----------------------------------------------------------------------------- */

/* What differs from one start of the machine to the next; all zero if the system does not say. */
void port_boot_id(uint8_t ret[16]);

#endif
