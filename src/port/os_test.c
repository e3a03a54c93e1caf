/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests what the port does when the operating system fails, is interrupted or does only a part.
 * Wrappers of system calls behave as `os` says; the linker options are in meson.build. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "port/file.h"
#include "port/port.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* What the next calls do. Each error is returned once. */
static struct {
    int open_error, write_error, sync_error, allocate_error, truncate_error, lock_error,
        random_error;
    int read_error, chown_error, thread_error, errors; /* errors: how many were returned */
    size_t part;                                       /* the most bytes that a call transfers */
    int lock_calls, syncs, chowns, random_calls;
    char opened[64];              /* the path of the last open */
    bool user_kept;               /* the last chown left the user */
    uint64_t free_blocks;         /* if not 0 */
    struct timespec clock, until; /* until: the end of the last wait */
    bool clock_fails, clock_set;
    int64_t step_ns[8], clock_reads; /* the time that passes before each reading */
} os;

static int begin(void **state)
{
    (void)state;
    memset(&os, 0, sizeof os);
    os.part = SIZE_MAX;
    return 0;
}

/* Returns whether a call fails now, with errno set. */
static bool fails(int *error)
{
    if (*error == 0)
        return false;
    errno = *error;
    *error = 0;
    os.errors++;
    return true;
}

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode)
{
    assert_true(flags & O_CLOEXEC);
    snprintf(os.opened, sizeof os.opened, "%s", path);
    return fails(&os.open_error) ? -1 : __real_open64(path, flags, mode);
}

ssize_t __real_pread64(int fd, void *buf, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t at)
{
    if (fails(&os.read_error))
        return -1;
    return __real_pread64(fd, buf, len < os.part ? len : os.part, at);
}

ssize_t __real_pwrite64(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t at)
{
    if (fails(&os.write_error))
        return -1;
    return __real_pwrite64(fd, buf, len < os.part ? len : os.part, at);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    assert_true(fd >= 0);
    os.syncs++;
    return fails(&os.sync_error) ? -1 : 0;
}

int __real_ftruncate64(int fd, off_t len);
int __wrap_ftruncate64(int fd, off_t len);
int __wrap_ftruncate64(int fd, off_t len)
{
    return fails(&os.truncate_error) ? -1 : __real_ftruncate64(fd, len);
}

int __real_posix_fallocate64(int fd, off_t at, off_t len);
int __wrap_posix_fallocate64(int fd, off_t at, off_t len);
int __wrap_posix_fallocate64(int fd, off_t at, off_t len)
{
    return fails(&os.allocate_error) ? errno : __real_posix_fallocate64(fd, at, len);
}

int __real_fstatvfs64(int fd, struct statvfs *ret);
int __wrap_fstatvfs64(int fd, struct statvfs *ret);
int __wrap_fstatvfs64(int fd, struct statvfs *ret)
{
    int result = __real_fstatvfs64(fd, ret);
    if (os.free_blocks > 0) {
        ret->f_frsize = 4096;
        ret->f_bavail = os.free_blocks;
    }
    return result;
}

int __real_fcntl64(int fd, int command, struct flock *lock);
int __wrap_fcntl64(int fd, int command, struct flock *lock);
int __wrap_fcntl64(int fd, int command, struct flock *lock)
{
    os.lock_calls++;
    return fails(&os.lock_error) ? -1 : __real_fcntl64(fd, command, lock);
}

int __wrap_fchown(int fd, uid_t user, gid_t group);
int __wrap_fchown(int fd, uid_t user, gid_t group)
{
    (void)fd;
    assert_int_equal(group, getgid());
    os.chowns++;
    os.user_kept = user == (uid_t)-1;
    return fails(&os.chown_error) ? -1 : 0;
}

int __wrap_getentropy(void *buf, size_t len);
int __wrap_getentropy(void *buf, size_t len)
{
    assert_in_range(len, 1, 256); /* more is an error */
    if (fails(&os.random_error))
        return -1;
    memset(buf, 0xe0 + (int)os.random_calls++, len);
    return 0;
}

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (os.clock_fails)
        return -1;
    if (!os.clock_set)
        return __real_clock_gettime(clock, ret);
    int64_t step_ns = os.step_ns[os.clock_reads % (int64_t)COUNT(os.step_ns)];
    if (clock == CLOCK_BOOTTIME) {
        os.clock.tv_nsec += step_ns;
        os.clock_reads++;
    }
    *ret = os.clock;
    return 0;
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg)
{
    return fails(&os.thread_error) ? errno : __real_pthread_create(ret, attributes, fn, arg);
}

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
    if (!os.clock_set)
        return __real_pthread_cond_timedwait(c, m, t);
    os.until = *t;
    return ETIMEDOUT;
}

/* Returns an empty file without a name. */
static int new_file(void)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    int fd = dup(fileno(f));
    fclose(f);
    assert_true(fd >= 0);
    return fd;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void each_error_has_a_name(void **state)
{
    static const struct {
        int number;
        port_file_error error;
        const char *text;
    } errors[] = {
        {ENOENT, PORT_FILE_ABSENT, "there is no such file"},
        {ENOTDIR, PORT_FILE_NO_DIR, "there is no such directory"},
        {EEXIST, PORT_FILE_EXISTS, "the file exists already"},
        {EACCES, PORT_FILE_DENIED, "writing there is not allowed"},
        {EPERM, PORT_FILE_DENIED, "writing there is not allowed"},
        {EROFS, PORT_FILE_DENIED, "writing there is not allowed"},
        {ELOOP, PORT_FILE_LINK, "it is a symbolic link"},
        {EISDIR, PORT_FILE_KIND, "it is not a regular file"},
        {ENXIO, PORT_FILE_KIND, "it is not a regular file"},
        {ENODEV, PORT_FILE_KIND, "it is not a regular file"},
        {ENOSPC, PORT_FILE_FULL, "no space is left on the disk"},
        {EDQUOT, PORT_FILE_FULL, "no space is left on the disk"},
        {EFBIG, PORT_FILE_LIMIT, "the file would exceed a limit on file sizes"},
        {ENOLCK, PORT_FILE_NO_LOCK, "the file system has no locks"},
        {EOPNOTSUPP, PORT_FILE_NO_LOCK, "the file system has no locks"},
        {EMFILE, PORT_FILE_FAILED, "the operation failed"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        int fd = -7;
        os.open_error = errors[i].number;
        port_file_error error = port_file_open("x", PORT_FILE_WRITE, &fd);
        assert_int_equal(error, errors[i].error);
        assert_string_equal(port_file_error_text(error), errors[i].text);
        assert_int_equal(fd, -7);
    }
    int fd;
    os.open_error = ENOENT;
    assert_int_equal(port_file_open("x", PORT_FILE_MAKE, &fd), PORT_FILE_NO_DIR);
    os.open_error = EACCES;
    assert_int_equal(port_file_open("x", PORT_FILE_MAKE, &fd), PORT_FILE_DENIED);
    assert_int_equal(port_file_open("/dev/null", PORT_FILE_WRITE, &fd), PORT_FILE_KIND);
    assert_int_equal(port_file_open("/", PORT_FILE_READ, &fd), PORT_FILE_KIND);
    assert_string_equal(port_file_error_text(PORT_FILE_SYSTEM),
                        "files are supported on Linux only");
    assert_int_equal(port_file_remove("no/such/file"), PORT_FILE_OK);
    assert_int_equal(port_file_remove("/dev/null/x"), PORT_FILE_NO_DIR);
    assert_int_equal(port_file_replace("no/such/file", "x"), PORT_FILE_ABSENT);
}

static void calls_without_a_file_fail(void **state)
{
    (void)state;
    uint64_t bytes;
    int64_t written_ns;
    port_file_rights rights;
    port_file_place place = port_file_look(-1, "/dev/null");
    assert_false(place.has_name || place.is_at || place.has_other || place.bytes > 0);
    assert_int_equal(port_file_number(-1), 0);
    assert_int_equal(port_file_rights_get(-1, &rights), PORT_FILE_FAILED);
    assert_int_equal(port_file_info(-1, &bytes, &written_ns), PORT_FILE_FAILED);
    port_file_take_rights(-1, -1);
    assert_int_equal(os.chowns, 0);
    port_file_close(-1);
}

static void begin_and_read_report_errors(void **state)
{
    (void)state;
    int fd = new_file();
    char text[] = "0123456789", got[sizeof text] = "";
    os.write_error = EINTR;
    assert_int_equal(port_file_begin(fd, text, sizeof text), PORT_FILE_OK);
    assert_int_equal(os.syncs, 1);
    os.part = 4;
    os.read_error = EINTR;
    assert_true(port_file_read(fd, got, sizeof got));
    assert_string_equal(got, text);
    assert_int_equal(os.errors, 2);
    os.read_error = EIO;
    assert_false(port_file_read(fd, got, sizeof got));
    char longer[sizeof text + 1];
    errno = EINTR; /* of an earlier call */
    assert_false(port_file_read(fd, longer, sizeof longer));

    os.syncs = 0;
    assert_int_equal(port_file_begin(fd, text, sizeof text), PORT_FILE_FULL);
    os.write_error = ENOSPC;
    assert_int_equal(port_file_begin(fd, text, sizeof text), PORT_FILE_FULL);
    assert_int_equal(os.syncs, 0);
    os.part = SIZE_MAX;
    os.sync_error = EIO;
    assert_int_equal(port_file_begin(fd, text, sizeof text), PORT_FILE_FAILED);
    os.sync_error = EDQUOT;
    assert_int_equal(port_file_begin(fd, text, sizeof text), PORT_FILE_FULL);
    close(fd);
}

static uint64_t size_of(int fd)
{
    uint64_t bytes;
    int64_t written_ns;
    assert_int_equal(port_file_info(fd, &bytes, &written_ns), PORT_FILE_OK);
    assert_true(written_ns > 0);
    return bytes;
}

static void allocate_reports_lack_of_space(void **state)
{
    (void)state;
    int fd = new_file();
    struct rlimit before, most; /* at first without a limit on file sizes, if possible */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    most = (struct rlimit){.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
    os.allocate_error = EINTR;
    assert_int_equal(port_file_allocate(fd, 10000), PORT_FILE_OK);
    assert_int_equal(size_of(fd), 10000);
    os.allocate_error = ENOSPC;
    assert_int_equal(port_file_allocate(fd, 20000), PORT_FILE_FULL);
    os.truncate_error = EFBIG;
    assert_int_equal(port_file_allocate(fd, 30000), PORT_FILE_LIMIT);
    assert_int_equal(port_file_allocate(fd, UINT64_MAX), PORT_FILE_LIMIT);
    assert_int_equal(port_file_allocate(fd, (uint64_t)INT64_MAX + 1), PORT_FILE_LIMIT);
    assert_int_equal(size_of(fd), 20000);
    os.free_blocks = 10;
    assert_int_equal(port_file_allocate(fd, INT64_MAX), PORT_FILE_FULL);
    assert_int_equal(port_file_allocate(fd, 11 * 4096), PORT_FILE_FULL);
    assert_int_equal(size_of(fd), 20000);
    assert_int_equal(port_file_allocate(fd, 10 * 4096), PORT_FILE_OK);

    most.rlim_cur = 5000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
    assert_int_equal(port_file_allocate(fd, 5001), PORT_FILE_LIMIT);
    assert_int_equal(port_file_allocate(fd, 5000), PORT_FILE_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(size_of(fd), 5000);
    close(fd);
}

static void written_time_is_at_least_0(void **state)
{
    (void)state;
    static const struct {
        struct timespec at;
        int64_t expected_ns;
    } times[] = {{{1, 5}, 1000000005},
                 {{0, 5}, 0},
                 {{-1, 5}, 0},
                 {{1700000000, 999999999}, 1700000000999999999}};
    int fd = new_file();
    for (size_t i = 0; i < COUNT(times); i++) {
        uint64_t bytes;
        int64_t written_ns = -1;
        assert_int_equal(futimens(fd, (struct timespec[]){times[i].at, times[i].at}), 0);
        assert_int_equal(port_file_info(fd, &bytes, &written_ns), PORT_FILE_OK);
        assert_int_equal(written_ns, times[i].expected_ns);
    }
    close(fd);
}

static void rights_are_taken_from_a_file(void **state)
{
    (void)state;
    int like = new_file(), fd = new_file();
    port_file_rights got;
    assert_int_equal(fchmod(like, 0764), 0);
    port_file_take_rights(fd, like);
    assert_int_equal(os.chowns, 1);
    assert_false(os.user_kept);
    assert_int_equal(port_file_rights_get(fd, &got), PORT_FILE_OK);
    assert_int_equal(got.mode, 0664);
    assert_true(got.others_write);
    assert_true(got.is_ours);
    os.chown_error = EPERM; /* only root may give a file away */
    assert_int_equal(fchmod(like, 0640), 0);
    port_file_take_rights(fd, like);
    assert_int_equal(os.chowns, 3);
    assert_true(os.user_kept);
    assert_int_equal(port_file_rights_get(fd, &got), PORT_FILE_OK);
    assert_int_equal(got.mode, 0640);
    assert_false(got.others_write);
    close(like);
    close(fd);
}

static void locks_that_fail(void **state)
{
    (void)state;
    static const struct {
        int number;
        port_file_error error;
    } errors[] = {
        {EINVAL, PORT_FILE_NO_LOCK}, {ENOLCK, PORT_FILE_NO_LOCK}, {EIO, PORT_FILE_FAILED}};
    int fd = new_file();
    for (size_t i = 0; i < COUNT(errors); i++) {
        os.lock_error = errors[i].number;
        assert_int_equal(port_file_try_lock(fd, 0, PORT_FILE_OWN, NULL), errors[i].error);
        os.lock_error = errors[i].number;
        assert_int_equal(port_file_wait_lock(fd, 0, PORT_FILE_OWN), errors[i].error);
    }
    static const int taken[] = {EAGAIN, EACCES};
    for (size_t i = 0; i < COUNT(taken); i++) {
        bool locked = true;
        os.lock_error = taken[i];
        assert_int_equal(port_file_try_lock(fd, 0, PORT_FILE_OWN, &locked), PORT_FILE_OK);
        assert_false(locked);
    }
    os.lock_calls = 0;
    os.lock_error = EINTR;
    assert_int_equal(port_file_wait_lock(fd, 0, PORT_FILE_OWN), PORT_FILE_OK);
    assert_int_equal(os.lock_calls, 2);
    os.lock_error = EAGAIN;
    assert_false(port_file_try_lock_all(fd));
    assert_true(port_file_try_lock_all(fd));
    os.lock_error = EIO;
    assert_false(port_file_is_locked(fd, 0));
    close(fd);
}

/* A lock on bytes 3 and 7, as another open file of the same name sees it. */
static void locks_of_others(void **state)
{
    (void)state;
    char path[] = "weir_port_XXXXXX";
    int owner = mkstemp(path), other;
    assert_true(owner >= 0);
    assert_int_equal(port_file_open(path, PORT_FILE_WRITE, &other), PORT_FILE_OK);
    assert_int_equal(port_file_try_lock(owner, 3, PORT_FILE_OWN, NULL), PORT_FILE_OK);
    assert_int_equal(port_file_try_lock(owner, 7, PORT_FILE_SHARE, NULL), PORT_FILE_OK);
    for (uint64_t at = 0; at < 10; at++)
        assert_int_equal(port_file_is_locked(other, at), at == 3 || at == 7);
    uint64_t at = 0;
    assert_true(port_file_find_lock(other, 0, 9, &at));
    assert_int_equal(at, 3);
    assert_true(port_file_find_lock(other, 4, 7, &at));
    assert_int_equal(at, 7);
    assert_false(port_file_find_lock(other, 4, 6, &at));
    assert_false(port_file_is_locked(owner, 3));
    bool locked = true;
    assert_int_equal(port_file_try_lock(other, 7, PORT_FILE_OWN, &locked), PORT_FILE_OK);
    assert_false(locked);
    assert_int_equal(port_file_try_lock(other, 7, PORT_FILE_SHARE, &locked), PORT_FILE_OK);
    assert_true(locked);
    int holders[PORT_FILE_HOLDERS_MAX], free_before = dup(0);
    close(free_before);
    assert_int_equal(port_file_holders(other, 3, holders), 1);
    assert_int_equal(holders[0], getpid());
    assert_int_equal(port_file_holders(owner, 3, holders), 0); /* its own lock does not count */
    assert_int_equal(port_file_holders(other, 4, holders), 0);
    int free_after = dup(0);
    close(free_after);
    assert_int_equal(free_after, free_before); /* all directories are closed */
    close(owner);
    assert_int_equal(port_file_holders(other, 3, holders), 0);
    close(other);
    unlink(path);
}

static void look_compares_file_and_path(void **state)
{
    (void)state;
    char path[] = "weir_port_XXXXXX";
    int fd = mkstemp(path), other = new_file();
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "123", 3), 3);
    port_file_place place = port_file_look(fd, path);
    assert_true(place.has_name && place.is_at && !place.has_other);
    assert_int_equal(place.bytes, 3);
    assert_true(port_file_number(fd) > 0 && port_file_number(fd) != port_file_number(other));
    place = port_file_look(other, path);
    assert_true(!place.has_name && !place.is_at && place.has_other);
    assert_int_equal(place.bytes, 0);
    assert_true(port_file_is_at(fd, path));
    assert_false(port_file_is_at(other, path));
    unlink(path);
    place = port_file_look(fd, path);
    assert_true(!place.has_name && !place.is_at && !place.has_other);
    close(other);
    close(fd);
}

static void replace_syncs_the_directory(void **state)
{
    (void)state;
    static const char *const targets[] = {"weir_port_to", "./weir_port_to"};
    static const char *const directories[] = {".", "./"};
    for (size_t i = 0; i < COUNT(targets); i++) {
        char path[] = "weir_port_XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        os.syncs = 0;
        assert_int_equal(port_file_replace(path, targets[i]), PORT_FILE_OK);
        assert_string_equal(os.opened, directories[i]);
        assert_int_equal(os.syncs, 1);
        assert_true(port_file_is_at(fd, "weir_port_to"));
        os.open_error = EACCES; /* a directory that cannot be opened is not synced */
        os.syncs = 0;
        assert_int_equal(port_file_replace(targets[i], path), PORT_FILE_OK);
        assert_int_equal(os.syncs, 0);
        close(fd);
        unlink(path);
    }
}

/* A process without standard input gets descriptor 0. It is free again after each call. */
static void descriptor_0(void **state)
{
    (void)state;
    char path[] = "weir_port_XXXXXX";
    close(mkstemp(path));
    int input = dup(0);
    close(0);
    int fd = -1;
    port_file_error opened = port_file_open(path, PORT_FILE_READ, &fd);
    port_file_close(0);
    port_file_error replaced = port_file_replace(path, "weir_port_to");
    int taken = dup(0);
    dup2(input, 0);
    close(input);
    assert_int_equal(opened, PORT_FILE_OK);
    assert_int_equal(fd, 0);
    assert_int_equal(replaced, PORT_FILE_OK);
    unlink("weir_port_to");
    assert_int_equal(os.syncs, 1);
    assert_int_equal(taken, -1);
}

/* The pages of the process's address space. */
static size_t pages(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtoull(text, NULL, 10);
}

/* Mappings begin at a huge page, have the bytes that were asked for, and are freed around that. */
static void mappings_begin_at_huge_pages(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4096, 5000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t before = pages(), page = (size_t)sysconf(_SC_PAGESIZE);
        char *p = port_map_aligned(sizes[i]);
        assert_non_null(p);
        assert_int_equal(pages() - before, (sizes[i] + page - 1) / page);
        assert_int_equal((uintptr_t)p % (2 << 20), 0);
        p[0] = p[sizes[i] - 1] = 1;
        port_unmap(p, sizes[i]);
    }
    unsigned char resident;
    char *area = port_map_aligned(4 << 20);
    area[2 << 20] = 7;
    port_use_huge_pages(area, 2 << 20);
    port_use_huge_pages(area + (2 << 20), 2 << 20);
    assert_int_equal(area[2 << 20], 7); /* the contents stay */
    assert_int_equal(area[0], 0);
    port_unmap(area, 4 << 20);
    void *p = port_map(4096);
    assert_int_equal(mincore(p, 4096, &resident), 0);
    port_unmap(p, 4096);
    assert_int_equal(mincore(p, 4096, &resident), -1);
    assert_null(port_map_aligned(SIZE_MAX));
    assert_null(port_map_aligned(SIZE_MAX - (2 << 20)));
    size_t before = pages();
    assert_true(!port_file_map(-1, 4096) && !port_memory_map(-1, 4096));
    assert_int_equal(pages(), before);
    assert_null(port_map(SIZE_MAX));
    port_unmap(NULL, 1);
}

static void private_mappings(void **state)
{
    (void)state;
    int fd = new_file();
    assert_int_equal(write(fd, "a", 1), 1);
    char *p = port_file_map_private(fd, 4096), in_file = 0;
    assert_non_null(p);
    assert_int_equal(p[0], 'a');
    p[0] = 'b'; /* not written to the file */
    assert_true(port_file_read(fd, &in_file, 1));
    assert_int_equal(in_file, 'a');
    char *shared = port_memory_map(fd, 4096);
    shared[0] = 'c';
    assert_true(port_file_read(fd, &in_file, 1) && in_file == 'c');
    port_unmap(shared, 4096);
    port_unmap(p, 4096);
    close(fd);
}

static void boot_id_is_that_of_the_kernel(void **state)
{
    (void)state;
    uint8_t id[16], again[16];
    static const uint8_t none[16];
    port_boot_id(id);
    port_boot_id(again);
    assert_memory_equal(id, again, 16);
    char text[40] = "", expected[40] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f) {
        assert_non_null(fgets(expected, sizeof expected, f));
        fclose(f);
        size_t n = 0;
        for (int i = 0; i < 16; i++) {
            bool dash = i == 4 || i == 6 || i == 8 || i == 10;
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%02x", dash ? "-" : "", id[i]);
        }
        assert_memory_equal(text, expected, 36);
    }
    os.open_error = ENOENT;
    port_boot_id(id);
    assert_memory_equal(id, none, 16);
}

static void read_whole_files(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 10000};
    static char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char path[] = "weir_port_XXXXXX";
        int fd = mkstemp(path);
        assert_int_equal(write(fd, bytes, sizes[i]), sizes[i]);
        close(fd);
        uint8_t *got = NULL;
        size_t len = 0;
        assert_int_equal(port_read_file(path, sizes[i], &got, &len), WEIR_OK);
        assert_int_equal(len, sizes[i]);
        assert_memory_equal(got, bytes, len);
        port_free(got);
        if (sizes[i] > 0)
            assert_int_equal(port_read_file(path, sizes[i] - 1, &got, &len), WEIR_E_RANGE);
        unlink(path);
    }
    uint8_t *got;
    size_t len;
    assert_int_equal(port_read_file("no/such/file", 1, &got, &len), WEIR_E_IO);
    assert_int_equal(port_read_file("/", 1, &got, &len), WEIR_E_IO);
}

/* ---- clocks, random numbers, threads --------------------------------------------------------- */

static void clocks_stay_in_range(void **state)
{
    (void)state;
    os.clock_set = true;
    os.clock = (struct timespec){.tv_sec = 12, .tv_nsec = 34};
    assert_int_equal(port_now_ns(), 12000000034);
    assert_int_equal(port_steady_ns(), 12000000034);
    port_mutex *m = port_mutex_new();
    port_cond *c = port_cond_new();
    port_cond_wait_for(c, m, 1500000000);
    assert_int_equal(os.until.tv_sec, 13);
    assert_int_equal(os.until.tv_nsec, 500000034);
    os.clock.tv_sec = 3000000000;
    port_cond_wait_for(c, m, 0);
    assert_int_equal(os.until.tv_sec, 3000000000);
    port_cond_free(c);
    port_mutex_free(m);
    os.clock = (struct timespec){.tv_sec = 0, .tv_nsec = 1};
    assert_int_equal(port_now_ns(), 1);
    os.clock.tv_sec = -1;
    assert_int_equal(port_now_ns(), 0);
    os.clock.tv_sec = WEIR_NOW_NS_MAX / 1000000000;
    assert_int_equal(port_now_ns(), WEIR_NOW_NS_MAX);
    os.clock.tv_sec--;
    assert_int_equal(port_now_ns(), (WEIR_NOW_NS_MAX / 1000000000 - 1) * 1000000000 + 1);
    os.clock_fails = true;
    assert_int_equal(port_now_ns(), 0);
}

/* The second of three tries takes the shortest time. */
static void two_clocks_at_once(void **state)
{
    (void)state;
    os.clock_set = true;
    os.clock = (struct timespec){.tv_sec = 1};
    const int64_t steps_ns[] = {0, 90, 0, 10, 0, 50};
    memcpy(os.step_ns, steps_ns, sizeof steps_ns);
    port_clocks got = port_clocks_now();
    assert_int_equal(os.clock_reads, 6);
    assert_int_equal(got.boot_ns, 1000000000 + 90 + 5);
    assert_int_equal(got.wall_ns, 1000000000 + 90);
}

static void random_bytes(void **state)
{
    (void)state;
    unsigned char got[516] = {0}, expected[516] = {0};
    memset(expected, 0xe0, 256);
    assert_int_equal(port_random(got, 256), WEIR_OK);
    assert_memory_equal(got, expected, sizeof got);
    memset(expected, 0xe1, 256);
    memset(expected + 256, 0xe2, 256);
    memset(expected + 512, 0xe3, 3);
    assert_int_equal(port_random(got, 515), WEIR_OK);
    assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(os.random_calls, 4);
    os.random_error = EIO;
    assert_int_equal(port_random(got, 1), WEIR_E_IO);
    assert_memory_equal(got, expected, sizeof got);
}

static void note_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
}

/* A thread blocks all signals but faults. The mask of the thread that starts it stays. */
static void threads_block_signals(void **state)
{
    (void)state;
    sigset_t before, after, inside;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    port_thread *t = port_thread_start(note_mask, &inside);
    assert_non_null(t);
    port_thread_join(t);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    static const int open_signals[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1};
    for (size_t i = 0; i < COUNT(open_signals); i++)
        assert_int_equal(sigismember(&inside, open_signals[i]), 0);
    for (size_t i = 0; i < COUNT(blocked); i++) {
        assert_int_equal(sigismember(&inside, blocked[i]), 1);
        assert_int_equal(sigismember(&after, blocked[i]), sigismember(&before, blocked[i]));
    }
    os.thread_error = EAGAIN;
    assert_null(port_thread_start(note_mask, &inside));
    os.thread_error = EAGAIN;
    assert_false(port_thread_run(note_mask, &inside));
    port_thread_join(NULL);
}

static void wake(void *arg)
{
    port_cond **c = arg;
    port_mutex_lock((port_mutex *)c[1]);
    c[2] = NULL;
    port_cond_wake(c[0]);
    port_mutex_unlock((port_mutex *)c[1]);
}

static void conditions_wake_and_time_out(void **state)
{
    (void)state;
    port_mutex *m = port_mutex_new();
    port_cond *c = port_cond_new();
    void *shared[] = {c, m, c};
    port_mutex_lock(m);
    assert_true(port_thread_run(wake, shared));
    while (shared[2])
        port_cond_wait(c, m);
    shared[2] = c;
    assert_true(port_thread_run(wake, shared));
    while (shared[2])
        port_cond_wait_for(c, m, 1000000000000);
    int64_t from_ns = port_steady_ns();
    port_cond_wait_for(c, m, 2000000);
    port_cond_wait_for(c, m, 0);
    assert_true(port_steady_ns() >= from_ns);
    port_mutex_unlock(m);
    port_cond_free(c);
    port_mutex_free(m);
    port_cond_free(NULL);
    port_mutex_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_error_has_a_name, begin),
        cmocka_unit_test_setup(calls_without_a_file_fail, begin),
        cmocka_unit_test_setup(begin_and_read_report_errors, begin),
        cmocka_unit_test_setup(allocate_reports_lack_of_space, begin),
        cmocka_unit_test_setup(written_time_is_at_least_0, begin),
        cmocka_unit_test_setup(rights_are_taken_from_a_file, begin),
        cmocka_unit_test_setup(locks_that_fail, begin),
        cmocka_unit_test_setup(locks_of_others, begin),
        cmocka_unit_test_setup(look_compares_file_and_path, begin),
        cmocka_unit_test_setup(replace_syncs_the_directory, begin),
        cmocka_unit_test_setup(descriptor_0, begin),
        cmocka_unit_test_setup(mappings_begin_at_huge_pages, begin),
        cmocka_unit_test_setup(private_mappings, begin),
        cmocka_unit_test_setup(boot_id_is_that_of_the_kernel, begin),
        cmocka_unit_test_setup(read_whole_files, begin),
        cmocka_unit_test_setup(clocks_stay_in_range, begin),
        cmocka_unit_test_setup(two_clocks_at_once, begin),
        cmocka_unit_test_setup(random_bytes, begin),
        cmocka_unit_test_setup(threads_block_signals, begin),
        cmocka_unit_test_setup(conditions_wake_and_time_out, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
