/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_FILE_H
#define WEIR_PORT_FILE_H
/* Files: opening, locking, allocating, mapping, replacing. It must not know what files contain. It
 * hides errno: errors are a port_file_error. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum port_file_error {
    PORT_FILE_OK = 0,
    PORT_FILE_ABSENT,     /* the file does not exist */
    PORT_FILE_EXISTS,     /* the file exists already */
    PORT_FILE_NO_DIR,     /* the directory does not exist */
    PORT_FILE_DENIED,     /* no permission, or a read-only file system */
    PORT_FILE_UNREADABLE, /* no permission to read */
    PORT_FILE_LINK,       /* a symbolic link */
    PORT_FILE_KIND,       /* a directory, a device, a socket ... */
    PORT_FILE_FULL,       /* no space left on the disk, or in the user's quota */
    PORT_FILE_LIMIT,      /* beyond the file size limit of the process or the file system */
    PORT_FILE_NO_LOCK,    /* the file system has no locks, or too many are held */
    PORT_FILE_SYSTEM,     /* the operating system is not Linux */
    PORT_FILE_FAILED      /* another error: of the disk, no descriptors left ... */
} port_file_error;

/* A description for messages: "no space is left on the disk". */
const char *port_file_error_text(port_file_error error);

typedef enum port_file_mode {
    PORT_FILE_WRITE, /* read and write an existing file */
    PORT_FILE_MAKE,  /* create an empty file, which only its owner can access; it must not exist */
    PORT_FILE_READ   /* read an existing file; the file system may be read-only */
} port_file_mode;

/* Opens a regular file. Never follows a symbolic link, and never blocks on a named pipe.
 *  ret_fd  written on PORT_FILE_OK only; to be closed by port_file_close().
 * Returns PORT_FILE_OK, ABSENT (not for PORT_FILE_MAKE), EXISTS (only for PORT_FILE_MAKE), NO_DIR,
 * DENIED, LINK, KIND, SYSTEM or FAILED. */
port_file_error port_file_open(const char *path, port_file_mode mode, int *ret_fd);

void port_file_close(int fd); /* releases its locks; accepts -1 */

/* Whether an open file is the one at `path`. */
bool port_file_is_at(int fd, const char *path);

/* The size in bytes, and the time of the last write in ns since the epoch. */
port_file_error port_file_info(int fd, uint64_t *ret_bytes, int64_t *ret_written_ns);

/* The inode number, which is unique in a file system among the files that exist or are open. 0 if
 * it cannot be read. */
uint64_t port_file_number(int fd);

/* Where an open file is now. */
typedef struct port_file_place {
    bool is_at;     /* the file is at the path */
    bool has_other; /* another file is at the path */
    bool has_name;  /* the file has a name in some directory */
    uint64_t bytes;
} port_file_place;

/* Any thread. */
port_file_place port_file_look(int fd, const char *path);

/* Who may change an open file. */
typedef struct port_file_rights {
    bool is_ours;      /* its owner is this process's effective user */
    bool others_write; /* its mode lets the group or all users write */
    unsigned user, our_user, mode;
} port_file_rights;

/* Returns PORT_FILE_OK, or PORT_FILE_FAILED with nothing written. */
port_file_error port_file_rights_get(int fd, port_file_rights *ret);

/* Gives `fd` the owner, the group and the mode of `like`, as far as the process has permission.
 * -1 does nothing. */
void port_file_take_rights(int fd, int like);

/* Reads the first `len` bytes. Returns false if the file is shorter. */
bool port_file_read(int fd, void *buf, size_t len);

/* Writes the first `len` bytes, at most 4096, in one call, and returns once they are durable.
 * Returns also FULL, LIMIT. */
port_file_error port_file_begin(int fd, const void *buf, size_t len);

/* Extends a file to `bytes` bytes with zeros, and reserves their disk space, so that writing to
 * them cannot fail on a full disk. Returns also FULL, LIMIT. */
port_file_error port_file_allocate(int fd, uint64_t bytes);

/* Removes a file. An absent file is not an error. */
port_file_error port_file_remove(const char *path);

/* Renames `from` to `to`, which is replaced if it exists, and syncs the directory. Both are in the
 * same directory. */
port_file_error port_file_replace(const char *from, const char *to);

/* ---- mapping --------------------------------------------------------------------------------- */

/* Maps the first `bytes` bytes as shared memory, aligned to a huge page (2 MiB). Uses huge pages if
 * the file system has them, except for the first 2 MiB, where little is used. Returns NULL if the
 * mapping fails. */
void *port_file_map(int fd, size_t bytes);

/* The same, but writes stay private to the process. The file may be open for reading only. */
void *port_file_map_private(int fd, size_t bytes);

/* The same without a file: zeroed memory, which the system provides in small pages as it is
 * used. */
void *port_map_aligned(size_t bytes);

/* The same for a file in memory, which processes share. Returns NULL if the mapping fails. */
void *port_memory_map(int fd, size_t bytes);

/* Makes a part of a mapping resident, in huge pages if possible. Other threads may use the memory.
 * The part begins on a page. */
void port_use_huge_pages(void *at, size_t bytes);

/* A hint to use huge pages for what is not resident yet. */
void port_prefer_huge_pages(void *at, size_t bytes);

/* Returns once the bytes of a mapped file are durable; false if that failed. */
bool port_file_sync(void *p, size_t bytes);

/* ---- locks ----------------------------------------------------------------------------------- */

/* A lock is on one byte of a file, which may be beyond its end. It belongs to the open file
 * description, not to the process or thread: two openings by one process exclude each other. It is
 * released when the last copy of the descriptor is closed, at the latest when the process and its
 * forks have ended. */
typedef enum port_file_lock {
    PORT_FILE_UNLOCK,
    PORT_FILE_SHARE, /* a shared lock */
    PORT_FILE_OWN    /* an exclusive lock */
} port_file_lock;

/* Takes, changes or releases a lock without waiting.
 *  ret_locked  false if another opening holds it; may be NULL. */
port_file_error port_file_try_lock(int fd, uint64_t at, port_file_lock lock, bool *ret_locked);

/* Waits for a lock. A file that is open for reading only can take shared locks only. */
port_file_error port_file_wait_lock(int fd, uint64_t at, port_file_lock lock);

/* Takes an exclusive lock on all bytes without waiting. */
bool port_file_try_lock_all(int fd);

/* Whether another opening has a lock on the byte. Any thread. */
bool port_file_is_locked(int fd, uint64_t at);

/* Whether another opening has a lock on a byte of from..to.
 *  ret_at  one such byte. */
bool port_file_find_lock(int fd, uint64_t from, uint64_t to, uint64_t *ret_at);

enum { PORT_FILE_HOLDERS_MAX = 4 };

/* Lists the ids of processes that have a lock on the byte by another opening. It is slow, since it
 * searches /proc: only for messages. Processes of other users may be missing.
 * Returns how many were found, at most PORT_FILE_HOLDERS_MAX. */
size_t port_file_holders(int fd, uint64_t at, int ret[PORT_FILE_HOLDERS_MAX]);

/* The id of this process. */
int port_process_id(void);

/* ---- the machine ----------------------------------------------------------------------------- */

/* An id that is different after each boot of the machine; all zero if it cannot be read. */
void port_boot_id(uint8_t ret[16]);

#endif
