/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Files by POSIX, with two features of Linux: open-file-description locks, and huge pages. */

#define _GNU_SOURCE /* F_OFD_SETLK, MADV_HUGEPAGE */

#include "port/file.h"

#include "port/assert.h"
#include "port/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "port/system.h"

#define HUGE_PAGE ((size_t)2 << 20)

static port_file_error error_of(int err)
{
    switch (err) {
    case 0:
        return PORT_FILE_OK;
    case ENOENT:
        return PORT_FILE_ABSENT;
    case ENOTDIR:
        return PORT_FILE_NO_DIR;
    case EEXIST:
        return PORT_FILE_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return PORT_FILE_DENIED;
    case ELOOP:
        return PORT_FILE_LINK;
    case EISDIR:
    case ENXIO: /* a socket */
    case ENODEV:
        return PORT_FILE_KIND;
    case ENOSPC:
    case EDQUOT:
        return PORT_FILE_FULL;
    case EFBIG:
        return PORT_FILE_LIMIT;
    case ENOLCK:
    case EOPNOTSUPP:
        return PORT_FILE_NO_LOCK;
    default:
        return PORT_FILE_FAILED;
    }
}

const char *port_file_error_text(port_file_error error)
{
    static const char *const texts[] = {
        [PORT_FILE_OK] = "no error",
        [PORT_FILE_ABSENT] = "there is no such file",
        [PORT_FILE_EXISTS] = "the file exists already",
        [PORT_FILE_NO_DIR] = "there is no such directory",
        [PORT_FILE_DENIED] = "writing there is not allowed",
        [PORT_FILE_UNREADABLE] = "permission denied: the file is not readable",
        [PORT_FILE_LINK] = "it is a symbolic link",
        [PORT_FILE_KIND] = "it is not a regular file",
        [PORT_FILE_FULL] = "no space is left on the disk",
        [PORT_FILE_LIMIT] = "the file would exceed a limit on file sizes",
        [PORT_FILE_NO_LOCK] = "the file system has no locks",
        [PORT_FILE_SYSTEM] = "files are supported on Linux only",
        [PORT_FILE_FAILED] = "the operation failed",
    };
    return texts[error];
}

/* ---- files ----------------------------------------------------------------------------------- */

/* O_NONBLOCK: opening a named pipe must not wait for its other end. */
enum { OPEN_FLAGS = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

port_file_error port_file_open(const char *path, port_file_mode mode, int *ret_fd)
{
    static const int flags[] = {[PORT_FILE_WRITE] = O_RDWR,
                                [PORT_FILE_MAKE] = O_RDWR | O_CREAT | O_EXCL,
                                [PORT_FILE_READ] = O_RDONLY};
    if (!PORT_LINUX)
        return PORT_FILE_SYSTEM;
    int fd = open(path, OPEN_FLAGS | flags[mode], 0600);
    if (fd < 0) {
        port_file_error error = error_of(errno);
        return mode == PORT_FILE_MAKE && error == PORT_FILE_ABSENT ? PORT_FILE_NO_DIR : error;
    }
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        close(fd);
        return PORT_FILE_KIND;
    }
    *ret_fd = fd;
    return PORT_FILE_OK;
}

void port_file_close(int fd)
{
    close(fd); /* -1 does nothing */
}

port_file_place port_file_look(int fd, const char *path)
{
    port_file_place ret = {0};
    struct stat open_one, there;
    if (fstat(fd, &open_one) != 0)
        return ret;
    ret.bytes = (uint64_t)open_one.st_size;
    ret.has_name = open_one.st_nlink > 0;
    bool taken = lstat(path, &there) == 0;
    ret.is_at = taken && open_one.st_dev == there.st_dev && open_one.st_ino == there.st_ino;
    ret.has_other = taken && !ret.is_at;
    return ret;
}

bool port_file_is_at(int fd, const char *path)
{
    return port_file_look(fd, path).is_at;
}

uint64_t port_file_number(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 ? (uint64_t)s.st_ino : 0;
}

port_file_error port_file_rights_get(int fd, port_file_rights *ret)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return PORT_FILE_FAILED;
    *ret = (port_file_rights){.is_ours = s.st_uid == geteuid(),
                              .others_write = (s.st_mode & (S_IWGRP | S_IWOTH)) != 0,
                              .user = s.st_uid,
                              .our_user = geteuid(),
                              .mode = s.st_mode & 07777};
    return PORT_FILE_OK;
}

void port_file_take_rights(int fd, int like)
{
    struct stat s;
    if (fstat(like, &s) != 0)
        return;
    if (fchown(fd, s.st_uid, s.st_gid) != 0)
        (void)!fchown(fd, (uid_t)-1, s.st_gid);
    (void)!fchmod(fd, s.st_mode & 0666);
}

port_file_error port_file_info(int fd, uint64_t *ret_bytes, int64_t *ret_written_ns)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return error_of(errno);
    *ret_bytes = (uint64_t)s.st_size;
    bool known = s.st_mtim.tv_sec > 0 && s.st_mtim.tv_sec < INT64_MAX / 1000000000;
    *ret_written_ns = known ? (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec : 0;
    return PORT_FILE_OK;
}

bool port_file_read(int fd, void *buf, size_t len)
{
    char *to = buf;
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

port_file_error port_file_begin(int fd, const void *buf, size_t len)
{
    WEIR_ASSERT(len <= 4096);
    ssize_t n;
    do {
        n = pwrite(fd, buf, len, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_of(errno);
    if ((size_t)n < len)
        return PORT_FILE_FULL;
    return fsync(fd) == 0 ? PORT_FILE_OK : error_of(errno);
}

port_file_error port_file_allocate(int fd, uint64_t bytes)
{
    /* Check the limit first: exceeding it raises a signal that ends the process. */
    struct rlimit most;
    if (bytes > INT64_MAX || (getrlimit(RLIMIT_FSIZE, &most) == 0 &&
                              most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur))
        return PORT_FILE_LIMIT;
    /* Check the free space too: on a file system without fallocate, the C library writes to each
     * block, and would fail only once the disk is full. */
    struct statvfs disk;
    if (fstatvfs(fd, &disk) == 0 && bytes / disk.f_frsize > disk.f_bavail)
        return PORT_FILE_FULL;
    if (ftruncate(fd, (off_t)bytes) != 0)
        return error_of(errno);
    int err;
    do {
        err = posix_fallocate(fd, 0, (off_t)bytes);
    } while (err == EINTR);
    return error_of(err);
}

port_file_error port_file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT ? PORT_FILE_OK : error_of(errno);
}

/* Does nothing if it fails: a user may write to a directory but not open it for reading. */
static void sync_directory(const char *path)
{
    char dir[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", (int)(slash + 1 - path), path);
    int fd = open(dir, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

port_file_error port_file_replace(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return error_of(errno);
    sync_directory(to);
    return PORT_FILE_OK;
}

/* ---- mapping --------------------------------------------------------------------------------- */

/* Maps at the boundary of a huge page. The system does that by itself only for large files. */
static void *map_aligned(size_t bytes, int flags, int fd)
{
    if (bytes > SIZE_MAX - HUGE_PAGE)
        return NULL;
    char *area = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)area % HUGE_PAGE) % HUGE_PAGE;
    char *at = area + before;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(area, bytes + HUGE_PAGE);
        return NULL;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (before > 0)
        munmap(area, before);
    munmap(at + (bytes + page - 1) / page * page, HUGE_PAGE - before);
    return at;
}

static void *map_file(size_t bytes, int flags, int fd)
{
    char *at = map_aligned(bytes, flags, fd);
    if (at && bytes > HUGE_PAGE) /* a hint: small pages work too, but slower */
        (void)madvise(at + HUGE_PAGE, bytes - HUGE_PAGE, MADV_HUGEPAGE);
    return at;
}

void *port_file_map(int fd, size_t bytes)
{
    return map_file(bytes, MAP_SHARED, fd);
}

void *port_file_map_private(int fd, size_t bytes)
{
    return map_file(bytes, MAP_PRIVATE | MAP_NORESERVE, fd);
}

static void *map_small_pages(size_t bytes, int flags, int fd)
{
    void *at = map_aligned(bytes, flags, fd);
    if (at) /* fails only if the system has no huge pages */
        (void)madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

void *port_map_aligned(size_t bytes)
{
    return map_small_pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

void *port_memory_map(int fd, size_t bytes)
{
    return map_small_pages(bytes, MAP_SHARED, fd);
}

void port_use_huge_pages(void *at, size_t bytes)
{
    /* An area without resident pages becomes a huge page at once. Otherwise its small pages are
     * copied to one. Where that fails, as before Linux 6.1, the system may do it later. */
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    (void)madvise(at, bytes, MADV_POPULATE_WRITE);
    (void)madvise(at, bytes, MADV_COLLAPSE);
}

void port_prefer_huge_pages(void *at, size_t bytes)
{
    (void)madvise(at, bytes, MADV_HUGEPAGE);
}

bool port_file_sync(void *p, size_t bytes)
{
    return msync(p, bytes, MS_SYNC) == 0;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static struct flock on_byte(uint64_t at, port_file_lock lock)
{
    static const short types[] = {
        [PORT_FILE_UNLOCK] = F_UNLCK, [PORT_FILE_SHARE] = F_RDLCK, [PORT_FILE_OWN] = F_WRLCK};
    return (struct flock){
        .l_type = types[lock], .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
}

port_file_error port_file_try_lock(int fd, uint64_t at, port_file_lock lock, bool *ret_locked)
{
    struct flock l = on_byte(at, lock);
    bool locked = fcntl(fd, F_OFD_SETLK, &l) == 0;
    if (!locked && errno != EAGAIN && errno != EACCES)
        return errno == EINVAL ? PORT_FILE_NO_LOCK : error_of(errno);
    if (ret_locked)
        *ret_locked = locked;
    return PORT_FILE_OK;
}

port_file_error port_file_wait_lock(int fd, uint64_t at, port_file_lock lock)
{
    struct flock l = on_byte(at, lock);
    while (fcntl(fd, F_OFD_SETLKW, &l) != 0) {
        if (errno != EINTR)
            return errno == EINVAL ? PORT_FILE_NO_LOCK : error_of(errno);
    }
    return PORT_FILE_OK;
}

bool port_file_try_lock_all(int fd)
{
    struct flock l = on_byte(0, PORT_FILE_OWN);
    l.l_len = 0; /* up to the end of the file */
    return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

bool port_file_is_locked(int fd, uint64_t at)
{
    return port_file_find_lock(fd, at, at, &at);
}

bool port_file_find_lock(int fd, uint64_t from, uint64_t to, uint64_t *ret_at)
{
    WEIR_ASSERT(from <= to);
    struct flock l = on_byte(from, PORT_FILE_OWN);
    l.l_len = (off_t)(to - from + 1);
    if (fcntl(fd, F_OFD_GETLK, &l) != 0 || l.l_type == F_UNLCK)
        return false;
    *ret_at = (uint64_t)l.l_start > from ? (uint64_t)l.l_start : from;
    return true;
}

/* ---- the owners of a lock -------------------------------------------------------------------- */
/* F_OFD_GETLK does not report which process holds such a lock (l_pid is -1), but /proc/PID/fdinfo
 * lists the locks of each open file. */

enum { PATH_ROOM = 320 };

/* Whether a line of fdinfo describes a lock on the byte:
 * "lock:  1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 1 1", or EOF at the end. */
static bool is_lock_on(const char *line, uint64_t at)
{
    unsigned long long from, to;
    char last[24];
    if (strncmp(line, "lock:", 5) != 0 || !strstr(line, "OFDLCK") ||
        sscanf(line, "lock: %*s %*s %*s %*s %*s %*s %llu %23s", &from, last) != 2)
        return false;
    to = strcmp(last, "EOF") == 0 ? UINT64_MAX : strtoull(last, NULL, 10);
    return at >= from && at <= to;
}

/* Whether a descriptor of a process is this file, with a lock on the byte. */
static bool holds(const char *process, const char *number, const struct stat *file, uint64_t at)
{
    char path[PATH_ROOM], line[256];
    struct stat s;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", process, number);
    if (stat(path, &s) != 0 || s.st_dev != file->st_dev || s.st_ino != file->st_ino)
        return false;
    snprintf(path, sizeof path, "/proc/%.20s/fdinfo/%.20s", process, number);
    FILE *info = fopen(path, "re");
    while (info && !found && fgets(line, sizeof line, info))
        found = is_lock_on(line, at);
    if (info)
        fclose(info);
    return found;
}

/*  but  a descriptor to ignore; -1: none. */
static bool process_holds(const char *process, const struct stat *file, uint64_t at, int but)
{
    char path[PATH_ROOM];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd", process);
    DIR *fds = opendir(path);
    for (struct dirent *e; fds && !found && (e = readdir(fds));)
        found =
            e->d_name[0] != '.' && atoi(e->d_name) != but && holds(process, e->d_name, file, at);
    if (fds)
        closedir(fds);
    return found;
}

size_t port_file_holders(int fd, uint64_t at, int ret[PORT_FILE_HOLDERS_MAX])
{
    struct stat file;
    size_t n = 0;
    DIR *processes = fstat(fd, &file) == 0 ? opendir("/proc") : NULL;
    for (struct dirent *e; processes && n < PORT_FILE_HOLDERS_MAX && (e = readdir(processes));) {
        int id = atoi(e->d_name); /* 0: not a process */
        if (id > 0 && process_holds(e->d_name, &file, at, id == port_process_id() ? fd : -1))
            ret[n++] = id;
    }
    if (processes)
        closedir(processes);
    return n;
}

int port_process_id(void)
{
    return (int)getpid();
}

/* ---- the machine ----------------------------------------------------------------------------- */

void port_boot_id(uint8_t ret[16])
{
    memset(ret, 0, 16);
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    size_t digits = 0;
    for (ssize_t i = 0; i < len && digits < 32; i++) {
        int digit = weir_hex_digit(text[i]);
        if (digit >= 0) {
            ret[digits / 2] = (uint8_t)(ret[digits / 2] << 4 | digit);
            digits++;
        }
    }
}
