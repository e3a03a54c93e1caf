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
    PORT_FILE_ABSENT,     /* no such file */
    PORT_FILE_EXISTS,     /* there is one already */
    PORT_FILE_NO_DIR,     /* no such directory */
    PORT_FILE_DENIED,     /* permissions, or a file system that is read-only */
    PORT_FILE_UNREADABLE, /* permissions, of a file that is only read */
    PORT_FILE_LINK,       /* a symbolic link */
    PORT_FILE_KIND,       /* a directory, a device, a socket ... */
    PORT_FILE_FULL,       /* no room on the disk, or beyond what the user may take of it */
    PORT_FILE_LIMIT,      /* larger than the process, or the file system, may make files */
    PORT_FILE_NO_LOCK,    /* a file system without locks, or too many of them */
    PORT_FILE_FAILED      /* anything else: the disk, no descriptors left ... */
} port_file_error;

/* What it is, in a few words of English: "there is no room on the disk". */
const char *port_file_error_text(port_file_error error);

typedef enum port_file_mode {
    PORT_FILE_WRITE, /* read and write a file that exists */
    PORT_FILE_MAKE,  /* make it, empty, for its owner alone; it must not exist */
    PORT_FILE_READ   /* read a file that exists; it may be on a read-only file system */
} port_file_mode;

/* Opens a regular file; never a symbolic link. It does not block on a named pipe.
 *  ret_fd  written on PORT_FILE_OK only; for port_file_close().
 * Returns also PORT_FILE_ABSENT (never for PORT_FILE_MAKE), EXISTS (only for that), NO_DIR, DENIED,
 * LINK, KIND, FAILED. */
port_file_error port_file_open(const char *path, port_file_mode mode, int *ret_fd);

void port_file_close(int fd); /* with its locks; accepts -1 */

/* Whether the file that is at `path` now is this one. */
bool port_file_is_at(int fd, const char *path);

/* Size in bytes, and when it was last written, in ns since the epoch. */
port_file_error port_file_info(int fd, uint64_t *ret_bytes, int64_t *ret_written_ns);

/* The inode number: no two files of a file system that exist, or are open, have the same. 0 if the
 * system does not say. */
uint64_t port_file_number(int fd);

/* Where an open file is now. Any thread. */
typedef struct port_file_place {
    bool is_at;     /* it is the file at the path */
    bool has_other; /* something else is at the path */
    bool has_name;  /* it has a name in some directory */
    uint64_t bytes;
} port_file_place;

port_file_place port_file_look(int fd, const char *path);

/* Who may change an open file. */
typedef struct port_file_rights {
    bool is_ours;      /* it belongs to the user that this process acts as */
    bool others_write; /* its mode lets the group or everybody write */
    unsigned user, our_user, mode;
} port_file_rights;

/* Returns PORT_FILE_OK, or PORT_FILE_FAILED with nothing written. */
port_file_error port_file_rights_get(int fd, port_file_rights *ret);

/* Gives `fd` the owner, the group and the mode of `like`, as far as the system lets us. */
void port_file_take_rights(int fd, int like);

/* Reads the first `len` bytes; false if there are not as many. */
bool port_file_read(int fd, void *buf, size_t len);

/* Writes the first `len` bytes, 4096 at most, in one step, and returns when they are on the disk.
 * Returns also FULL, LIMIT. */
port_file_error port_file_begin(int fd, const void *buf, size_t len);

/* Extends a file to `bytes` bytes that have their room on the disk, so that writing to them cannot
 * fail for want of it. What is new is zero. Returns also FULL, LIMIT. */
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

/* The same, but what is written stays in this process. The file may be open for reading alone. */
void *port_file_map_private(int fd, size_t bytes);

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

/* Waits for it. A file that is open for reading alone can only be shared. */
port_file_error port_file_wait_lock(int fd, uint64_t at, port_file_lock lock);

/* Owns the whole file, at once or not at all: no other opening has a lock on any byte. */
bool port_file_try_lock_all(int fd);

/* Whether another opening has a lock on the byte. Any thread. */
bool port_file_is_locked(int fd, uint64_t at);

/* Whether another opening has a lock on any byte of from..to, and on which: one of them. */
bool port_file_find_lock(int fd, uint64_t from, uint64_t to, uint64_t *ret_at);

enum { PORT_FILE_HOLDERS_MAX = 4 };

/* The processes that have a lock on the byte by another opening, by their ids as this process sees
 * them. It searches all processes: for a message. The system hides the files of other users'
 * processes, so not all may be found.
 * Returns how many were found, PORT_FILE_HOLDERS_MAX at most. */
size_t port_file_holders(int fd, uint64_t at, int ret[PORT_FILE_HOLDERS_MAX]);

/* This process's own id. */
int port_process_id(void);

/* ---- the machine ----------------------------------------------------------------------------- */

/* What differs from one start of the machine to the next; all zero if the system does not say. */
void port_boot_id(uint8_t ret[16]);

#endif
