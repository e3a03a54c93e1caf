/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Image files in one process: what survives, what is refused, what is left behind.
 * state_file_test.c has the tests with several processes. */

#include "store/image/image.h"

#include "port/file.h"
#include "port/port.h"
#include "store/image/file_header.h"
#include "store/image/image_kit_test.h"
#include "store/siphash.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

/* ---- a fake disk and clock ------------------------------------------------------------------- */

static _Atomic int syncs, syncs_to_fail, waits;
static _Atomic bool clock_is_ours;
static _Atomic int64_t our_ns;

int __real_msync(void *p, size_t len, int flags);
int __wrap_msync(void *p, size_t len, int flags);
int __wrap_msync(void *p, size_t len, int flags)
{
    syncs++;
    if (syncs_to_fail == 0)
        return __real_msync(p, len, flags);
    syncs_to_fail--;
    return -1;
}

int64_t __real_port_steady_ns(void);
int64_t __wrap_port_steady_ns(void);
int64_t __wrap_port_steady_ns(void)
{
    return clock_is_ours ? our_ns : __real_port_steady_ns();
}

void __real_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    waits++;
    if (!clock_is_ours) {
        __real_port_cond_wait_for(c, m, ns);
        return;
    }
    our_ns += ns / 2 + 1; /* the thread may wake early */
    port_mutex_unlock(m);
    sched_yield();
    port_mutex_lock(m);
}

/* ---- contents -------------------------------------------------------------------------------- */

static void check_anonymous(void **state)
{
    fixture *f = *state;
    f->options.file = NULL;
    weir_image *m = must_open(f);
    weir_image_parts p = weir_image_parts_get(m);
    assert_true(weir_image_is_new(m));
    assert_false(weir_image_other_size(m));
    assert_int_equal(p.table.bytes, TABLE);
    assert_int_equal(p.large.bytes, LARGE);
    assert_int_equal(p.reserved.bytes, RESERVED);
    assert_int_equal((uintptr_t)p.table.at % (2 << 20), 0);
    assert_int_equal((uintptr_t)p.large.at % 4096, 0);
    assert_int_equal((uintptr_t)p.reserved.at % 4096, 0);
    assert_true(is_zero(p.table) && is_zero(p.large) && is_zero(p.reserved));
    assert_int_equal(weir_image_processes(m)->self, 1);
    assert_null(weir_image_processes(m)->alive);
    assert_int_equal(weir_image_sync(m), WEIR_OK);
    weir_image_note_policy(m, 7, "gcra 1/s", 8, true);
    char text[WEIR_POLICY_TEXT_MAX];
    assert_int_equal(weir_policy_registry_text(weir_image_policies(m), 7, text, sizeof text), 8);
    static const char longest[WEIR_POLICY_TEXT_MAX] = {'g'};
    assert_false(
        weir_image_note_policy(m, 8, longest, sizeof longest, true)); /* with 0 at its end */
    assert_int_equal(weir_image_stats_get(m).policies_refused, 1);
    assert_true(weir_image_note_policy(m, 8, longest, sizeof longest - 1, true));
    assert_int_equal(f->opened.found, WEIR_FOUND_NOTHING);
    weir_image_close(m);
    weir_image_close(NULL);
}

static void check_survives(void **state)
{
    fixture *f = *state;
    uint8_t secret[16];
    weir_image *m = must_open(f);
    assert_true(weir_image_is_new(m));
    assert_int_equal(f->opened.found, WEIR_FOUND_NOTHING);
    weir_image_parts p = weir_image_parts_get(m);
    assert_true(is_zero(p.table) && is_zero(p.large) && is_zero(p.reserved));
    assert_int_equal((uintptr_t)p.table.at % (2 << 20), 0);
    memset(p.table.at, 1, p.table.bytes);
    memset(p.large.at, 2, p.large.bytes);
    memset(p.reserved.at, 3, p.reserved.bytes);
    memcpy(secret, weir_image_secret(m), sizeof secret);
    assert_int_equal(weir_image_processes(m)->self, 1);
    weir_image_note_policy(m, 7, "gcra 1/s", 8, true);
    weir_image_close(m);
    struct stat s;
    assert_int_equal(stat(f->path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_true((uint64_t)s.st_blocks * 512 >= (uint64_t)s.st_size);

    m = must_open(f);
    assert_false(weir_image_is_new(m));
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
    assert_true(f->opened.written_ns > 0);
    p = weir_image_parts_get(m);
    assert_true(is_all(p.table, 1) && is_all(p.large, 2) && is_all(p.reserved, 3));
    assert_memory_equal(secret, weir_image_secret(m), sizeof secret);
    assert_int_equal(weir_image_processes(m)->self, 3);
    char text[WEIR_POLICY_TEXT_MAX];
    assert_int_equal(weir_policy_registry_text(weir_image_policies(m), 7, text, sizeof text), 8);
    assert_string_equal(text, "gcra 1/s");
    assert_int_equal(weir_policy_registry_text(weir_image_policies(m), 8, text, sizeof text), 0);
    weir_image_close(m);
}

static void check_secret(void **state)
{
    fixture *f = *state;
    uint8_t secret[16] = "0123456789abcdef", other[16] = "0123456789abcdeF";
    f->options.secret = secret;
    weir_image *m = must_open(f);
    assert_memory_equal(weir_image_secret(m), secret, sizeof secret);
    weir_image_close(m);
    weir_image_close(must_open(f));
    f->options.secret = NULL;
    weir_image_close(must_open(f));
    f->options.secret = other;
    must_refuse(f, WEIR_E_RANGE,
                "its secret differs from the one given; --reset-state replaces it with an "
                "empty file");
}

static void check_owner_ids(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    set_word(f, offsetof(weir_file_header, openings), (1 << (WEIR_PROCESS_ID_BITS - 1)) - 2);
    weir_image *m = must_open(f);
    assert_int_equal(weir_image_processes(m)->self, (1 << WEIR_PROCESS_ID_BITS) - 3);
    weir_image_close(m);
    m = must_open(f);
    assert_int_equal(weir_image_processes(m)->self, (1 << WEIR_PROCESS_ID_BITS) - 1);
    weir_image_close(m);
    m = must_open(f);
    assert_int_equal(weir_image_processes(m)->self, 1);
    weir_image_close(m);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Changes the header, and corrects its checksum. */
static void forge(fixture *f, size_t at, const void *bytes, size_t len)
{
    uint8_t head[WEIR_FILE_HEADER_BYTES];
    read_head(f, head);
    memcpy(head + at, bytes, len);
    const weir_secret key = {0, 0};
    uint64_t sum = weir_siphash(key, head, WEIR_FILE_HEADER_FIXED);
    memcpy(head + WEIR_FILE_HEADER_FIXED, &sum, sizeof sum);
    write_at(f, 0, head, sizeof head);
}

static void check_flips(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    uint8_t good[WEIR_FILE_HEADER_BYTES], bad[WEIR_FILE_HEADER_BYTES],
        after[WEIR_FILE_HEADER_BYTES];
    read_head(f, good);
    for (size_t i = 0; i < WEIR_FILE_HEADER_FIXED + 8; i++) {
        memcpy(bad, good, sizeof bad);
        bad[i] ^= (uint8_t)(1 << i % 8);
        write_at(f, 0, bad, sizeof bad);
        must_refuse(f, WEIR_E_SYNTAX, NULL);
        read_head(f, after);
        assert_memory_equal(after, bad, sizeof bad); /* the file is unchanged */
    }
    /* The words that change have no checksum. The states are valid whatever these words contain. */
    for (size_t i = WEIR_FILE_HEADER_FIXED + 8; i < sizeof good; i += 8) {
        memcpy(bad, good, sizeof bad);
        memset(bad + i, 0xFF, 8);
        write_at(f, 0, bad, sizeof bad);
        weir_image_close(must_open(f));
    }
}

static void check_texts(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    uint8_t good[WEIR_FILE_HEADER_BYTES];
    read_head(f, good);
    const struct {
        size_t at;
        uint32_t word;
        bool forged;
        const char *text;
    } cases[] = {
        {0, 0, false, "it is not a state file of weir"},
        {8, 0x04030201, false, "it was created on a machine with another byte order"},
        {8, 0x01020305, true, "its header is damaged"},
        {12, 2, false, "it has format 2, expected 1"},
        {16, 0x7FFF, true, "its states have version 32767, expected 3"},
        {20, 8192, true, "the sizes in its header are inconsistent"},
        {24, 4096, true, "the sizes in its header are inconsistent"},
        {32, 8192, true, "the sizes in its header are inconsistent"},
        {40, 12, true, "the sizes in its header are inconsistent"},
        {56, 0, true, "the sizes in its header are inconsistent"},
        {68, 0xFFFFFFFF, true, "the sizes in its header are inconsistent"},
        {88, TABLE + 4096, true, "the sizes in its header are inconsistent"},
        {100, 1, false, "its header is damaged"},
        {504, 1, false, "its header is damaged"},
        {512, 0, false, "its header is damaged"}, /* never opened */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        if (cases[i].forged)
            forge(f, cases[i].at, &cases[i].word, 4);
        else
            write_at(f, cases[i].at, &cases[i].word, 4);
        snprintf(text, sizeof text, "%s; --reset-state replaces it with an empty file",
                 cases[i].text);
        must_refuse(f, WEIR_E_SYNTAX, text);
        write_at(f, 0, good, sizeof good);
    }
    weir_image_close(must_open(f));
}

static void check_lengths(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    struct stat s;
    assert_int_equal(stat(f->path, &s), 0);
    char text[200];
    for (int more = -1; more <= 1; more += 2) {
        assert_int_equal(truncate(f->path, s.st_size + more), 0);
        snprintf(
            text, sizeof text,
            "it has %lld bytes, expected %lld as in its header; --reset-state replaces it with an "
            "empty file",
            (long long)s.st_size + more, (long long)s.st_size);
        must_refuse(f, WEIR_E_SYNTAX, text);
    }
    assert_int_equal(truncate(f->path, 4096), 0);
    must_refuse(f, WEIR_E_SYNTAX, NULL);
    assert_int_equal(truncate(f->path, 4095), 0);
    must_refuse(f, WEIR_E_SYNTAX,
                "it is not a state file of weir; --reset-state replaces it with an empty file");
    assert_int_equal(truncate(f->path, 0), 0);
    must_refuse(f, WEIR_E_SYNTAX, "it is empty; --reset-state replaces it with an empty file");
    assert_int_equal(stat(f->path, &s), 0);
    assert_int_equal(s.st_size, 0);
}

static void check_reset(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f), *second = NULL;
    memset(weir_image_parts_get(m).large.at, 9, LARGE);
    f->options.reset = true;
    must_refuse(f, WEIR_E_BUSY, "the state file is in use by this process; stop it first");
    f->options.shared = true;
    must_refuse(f, WEIR_E_BUSY, "the state file is in use by this process; stop it first");
    f->options.shared = false;
    weir_image_close(m);
    m = must_open(f);
    assert_true(weir_image_is_new(m));
    assert_int_equal(f->opened.found, WEIR_FOUND_NOTHING);
    assert_true(is_zero(weir_image_parts_get(m).large));
    assert_int_equal(weir_image_open(&second, &f->options, TABLE, LARGE, RESERVED), WEIR_E_BUSY);
    weir_image_close(m);

    write_at(f, 0, "something", 9);
    m = must_open(f);
    assert_true(weir_image_is_new(m));
    weir_image_close(m);
    f->options.reset = false;
    weir_image_close(must_open(f));
    assert_int_equal(count_files(f), 1);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void check_kinds(void **state)
{
    fixture *f = *state;
    assert_int_equal(symlink("/dev/null", f->path), 0);
    f->options.reset = true; /* does not help */
    must_refuse(f, WEIR_E_IO, "it is a symbolic link");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    must_refuse(f, WEIR_E_IO, "it is not a regular file");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    must_refuse(f, WEIR_E_IO, "it is not a regular file");
    assert_int_equal(rmdir(f->path), 0);
    assert_int_equal(symlink("elsewhere", f->beside), 0);
    must_refuse_beside(f, ".new", "it is a symbolic link");
    assert_int_equal(unlink(f->beside), 0);

    static const char why[] =
        "the name of a state file cannot end in .new or .lock, which weir uses for files beside it";
    char path[200];
    f->options.file = path;
    snprintf(path, sizeof path, "%s/state.lock", f->dir); /* may belong to another store */
    must_refuse(f, WEIR_E_IO, why);
    snprintf(path, sizeof path, "%s/state.new", f->dir);
    must_refuse(f, WEIR_E_IO, why);
    snprintf(path, sizeof path, "%s/none/state", f->dir);
    f->options.file = path;
    must_refuse(f, WEIR_E_IO, "there is no such directory");
    snprintf(path, sizeof path, "/dev/null/state");
    must_refuse(f, WEIR_E_IO, "there is no such directory");
    snprintf(path, sizeof path, "/dev/null");
    must_refuse(f, WEIR_E_IO, "it is not a regular file");
    char long_path[300];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    f->options.file = long_path;
    must_refuse(f, WEIR_E_IO, NULL); /* the message is terminated for any length of the path */
}

/* A process that is killed at any instruction leaves an empty file or the magic number at
 * PATH.new. */
static void check_leftovers(void **state)
{
    fixture *f = *state;
    static const char *const left[] = {"", "\x89weir\r\n\x1A", "\x89weir\r\n\x1A and more"};
    for (int with_file = 0; with_file <= 1; with_file++) {
        for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
            write_file(f->beside, left[i]);
            weir_image_close(must_open(f));
            assert_int_equal(count_files(f), 1);
            if (!with_file)
                assert_int_equal(unlink(f->path), 0);
        }
    }
    weir_image_close(must_open(f));

    /* But a file that another process is creating is not removed. */
    int fd = -1;
    write_file(f->beside, left[1]);
    assert_int_equal(port_file_open(f->beside, PORT_FILE_WRITE, &fd), PORT_FILE_OK);
    assert_int_equal(port_file_wait_lock(fd, 0, PORT_FILE_OWN), PORT_FILE_OK);
    weir_image_close(must_open(f));
    assert_int_equal(count_files(f), 2);
    port_file_close(fd);
}

/* A file at PATH.new that is not weir's is kept, whether or not a new file must be created. */
static void check_foreign_beside(void **state)
{
    fixture *f = *state;
    static const char *const foreign[] = {"notes", "\x89weir\r\n", "\x89weir\r\n\x1B and more"};
    char back[64];
    for (int with_file = 0; with_file <= 1; with_file++) {
        for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
            write_file(f->beside, foreign[i]);
            must_refuse_beside(f, ".new",
                               "it is not a state file of weir, but weir uses this name for "
                               "creating a state file; move that file away");
            FILE *in = fopen(f->beside, "r");
            assert_non_null(in);
            size_t len = fread(back, 1, sizeof back, in);
            fclose(in);
            assert_int_equal(len, strlen(foreign[i]));
            assert_memory_equal(back, foreign[i], len);
            assert_int_equal(unlink(f->beside), 0);
        }
        weir_image_close(must_open(f));
    }
}

/* ---- where the file is ----------------------------------------------------------------------- */

static void check_watch(void **state)
{
    fixture *f = *state;
    char other[120];
    snprintf(other, sizeof other, "%s.other", f->path);
    weir_image *m = must_open(f);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
    assert_int_equal(rename(f->path, other), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_MOVED);
    write_file(f->path, "another");
    assert_int_equal(weir_image_watch(m), WEIR_FILE_REPLACED);
    assert_int_equal(rename(other, f->path), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
    struct stat s;
    assert_int_equal(stat(f->path, &s), 0);
    assert_int_equal(truncate(f->path, s.st_size - 4096), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_SHORTENED);
    assert_int_equal(truncate(f->path, s.st_size), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_REMOVED);
    weir_image_close(m);

    f->options.file = NULL;
    m = must_open(f);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
    weir_image_close(m);
}

/* The third file descriptor that is free. */
static int third_free(void)
{
    int fd[3];
    for (int i = 0; i < 3; i++)
        fd[i] = dup(0);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
    return fd[2];
}

static void check_lock_file(void **state)
{
    fixture *f = *state;
    struct stat s;
    weir_image *m = must_open(f);
    assert_int_equal(stat(f->lock, &s), 0);
    assert_int_equal(s.st_size, 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(unlink(f->lock), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
    assert_int_equal(access(f->lock, F_OK), 0); /* the file is there again */
    weir_image_close(m);
    assert_int_equal(access(f->lock, F_OK), -1);

    static const char text[] = "it has 5 bytes, expected an empty file: weir uses this name for a "
                               "lock; move that file away";
    write_file(f->lock, "notes");
    assert_int_equal(chmod(f->lock, 0600), 0);
    int before = third_free();
    must_refuse_beside(f, ".lock", text);
    assert_int_equal(unlink(f->path), 0);
    must_refuse_beside(f, ".lock", text);
    assert_int_equal(third_free(), before); /* no file was left open */
    assert_int_equal(count_files(f), 0);
    assert_int_equal(stat(f->lock, &s), 0);
    assert_int_equal(s.st_size, 5);
    assert_int_equal(unlink(f->lock), 0);
    assert_int_equal(symlink("/dev/null", f->lock), 0);
    must_refuse_beside(f, ".lock", "it is a symbolic link");
    assert_int_equal(unlink(f->lock), 0);
}

/* ---- owner and mode -------------------------------------------------------------------------- */

static weir_image *must_open_other(fixture *f);

static void check_rights(void **state)
{
    fixture *f = *state;
    char text[200];
    weir_image_close(must_open(f));
    static const mode_t loose[] = {0620, 0602, 0666};
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++) {
        assert_int_equal(chmod(f->path, loose[i]), 0);
        snprintf(text, sizeof text,
                 "writable by other users (mode %04o), expected mode 0600; run chmod 600, or set "
                 "memory.trust_others",
                 loose[i]);
        must_refuse(f, WEIR_E_IO, text);
        f->options.reset = true;
        must_refuse(f, WEIR_E_IO, text);
        f->options.reset = false;
        f->options.trust_others = true;
        weir_image_close(must_open(f));
        f->options.trust_others = false;
    }
    assert_int_equal(chmod(f->path, 0644), 0); /* other users may read it */
    weir_image_close(must_open(f));
    if (getuid() != 0) {
        print_message("skipped the owner: only root can change the owner of a file\n");
        return;
    }
    assert_int_equal(chown(f->path, 12345, (gid_t)-1), 0);
    must_refuse(f, WEIR_E_IO,
                "owned by uid 12345, expected uid 0 (this process); change the owner, or set "
                "memory.trust_others");
    f->options.trust_others = true;
    weir_image_close(must_open(f));
}

/* A file that replaces another keeps its owner and mode, even if root creates it with `weir state`,
 * or one of several users does. */
static void check_rights_stay(void **state)
{
    fixture *f = *state;
    struct stat s;
    weir_image *wide = NULL;
    uid_t owner = getuid() == 0 ? 12345 : getuid();
    f->options.trust_others = true;
    weir_image_close(must_open(f));
    assert_int_equal(chown(f->path, owner, (gid_t)-1), 0);
    assert_int_equal(chmod(f->path, 0660), 0);
    f->options.reset = true;
    weir_image *m = must_open(f);
    assert_int_equal(stat(f->path, &s), 0);
    assert_true(s.st_uid == owner && (s.st_mode & 0777) == 0660);
    assert_int_equal(stat(f->lock, &s), 0);
    assert_true(s.st_uid == owner && (s.st_mode & 0777) == 0660);
    weir_image_close(m);
    f->options.reset = false;
    m = must_open_other(f);
    assert_int_equal(weir_image_open_beside(&wide, m, &f->options), WEIR_OK);
    assert_int_equal(weir_image_replace(wide, m, &f->options), WEIR_OK);
    assert_int_equal(access(f->lock, F_OK), 0); /* the lock on FILE.lock was passed on */
    must_refuse(f, WEIR_E_BUSY, NULL);
    weir_image_close(wide);
    assert_int_equal(access(f->lock, F_OK), -1);
    assert_int_equal(stat(f->path, &s), 0);
    assert_true(s.st_uid == owner && (s.st_mode & 0777) == 0660);
}

/* ---- read-only ------------------------------------------------------------------------------- */

static void check_read_only(void **state)
{
    fixture *f = *state;
    uint8_t before[WEIR_FILE_HEADER_BYTES], after[WEIR_FILE_HEADER_BYTES];
    struct stat was, is;
    f->options.read_only = true;
    must_refuse(f, WEIR_E_IO, "there is no such file");
    f->options.read_only = false;
    weir_image *m = must_open(f);
    memset(weir_image_parts_get(m).large.at, 9, LARGE);
    f->options.read_only = true;
    must_refuse(f, WEIR_E_BUSY, "the state file is in use by this process");
    weir_image_close(m);

    assert_int_equal(chmod(f->path, 0400), 0);
    read_head(f, before);
    assert_int_equal(stat(f->path, &was), 0);
    m = must_open(f);
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
    weir_image_parts p = weir_image_parts_get(m);
    assert_true(is_all(p.large, 9));
    memset(p.large.at, 7, LARGE); /* not written to the file */
    assert_int_equal(access(f->lock, F_OK), -1);
    assert_int_equal(weir_image_sync(m), WEIR_OK);
    must_refuse(f, WEIR_E_BUSY, NULL); /* only one reader at a time, and no writer meanwhile */
    f->options.read_only = false;
    must_refuse(f, WEIR_E_BUSY, NULL);
    weir_image_close(m);
    read_head(f, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(stat(f->path, &is), 0);
    assert_true(was.st_mtim.tv_sec == is.st_mtim.tv_sec &&
                was.st_mtim.tv_nsec == is.st_mtim.tv_nsec);
    assert_int_equal(count_files(f), 1);

    assert_int_equal(chmod(f->path, 0600), 0);
    m = must_open(f);
    assert_true(is_all(weir_image_parts_get(m).large, 9));
    weir_image_close(m);
}

static void check_no_memory_for_size(void **state)
{
    fixture *f = *state;
    weir_image *m = NULL;
    const size_t huge = (size_t)1 << 60;
    assert_int_equal(weir_image_open(&m, &f->options, huge, LARGE, RESERVED), WEIR_E_RANGE);
    assert_int_equal(weir_image_open(&m, &f->options, TABLE, 0, RESERVED), WEIR_E_RANGE);
    assert_int_equal(weir_image_open(&m, &f->options, (size_t)1 << 50, LARGE, RESERVED), WEIR_E_IO);
    assert_int_equal(count_files(f), 0);
    f->options.ret_error = NULL;
    f->options.ret_opened = NULL;
    assert_int_equal(weir_image_open(&m, &f->options, huge, LARGE, RESERVED), WEIR_E_RANGE);
}

/* ---- resizing -------------------------------------------------------------------------------- */

static weir_image *must_open_other(fixture *f)
{
    weir_image *m = NULL;
    assert_int_equal(weir_image_open(&m, &f->options, 2 * TABLE, LARGE, RESERVED), WEIR_OK);
    return m;
}

static void check_other_size(void **state)
{
    fixture *f = *state;
    for (int shared = 0; shared <= 1; shared++) {
        f->options.shared = shared;
        f->options.reset = true;
        weir_image *m = must_open(f), *wide = NULL;
        f->options.reset = false;
        assert_false(weir_image_other_size(m));
        memset(weir_image_parts_get(m).table.at, 4, TABLE);
        const weir_clock_reading reading = {5 * INT64_C(1000000000), 6, 7, 8};
        weir_clock_slots_write(weir_image_clock_slots(m), &reading);
        weir_image_note_policy(m, 7, "gcra 1/s", 8, true);
        weir_image_close(m);

        m = must_open_other(f);
        assert_true(weir_image_other_size(m));
        assert_true(is_all(weir_image_parts_get(m).table, 4));
        uint8_t secret[16];
        memcpy(secret, weir_image_secret(m), sizeof secret);
        uint64_t id = weir_image_processes(m)->self;

        /* Cancel the resizing. */
        assert_int_equal(weir_image_open_beside(&wide, m, &f->options), WEIR_OK);
        assert_int_equal(count_files(f), 2);
        weir_image_close(wide);
        assert_int_equal(count_files(f), 1);
        assert_true(is_all(weir_image_parts_get(m).table, 4));

        assert_int_equal(weir_image_open_beside(&wide, m, &f->options), WEIR_OK);
        weir_image_parts p = weir_image_parts_get(wide);
        assert_true(weir_image_is_new(wide));
        assert_false(weir_image_other_size(wide));
        assert_int_equal(p.table.bytes, 2 * TABLE);
        assert_true(is_zero(p.table));
        memset(p.table.at, 5, p.table.bytes);
        assert_memory_equal(weir_image_secret(wide), secret, sizeof secret);
        assert_true(weir_image_processes(wide)->self != id);
        weir_clock_reading copied = {0};
        weir_image_copy(wide, m);
        assert_true(weir_clock_slots_read(weir_image_clock_slots(wide), &copied));
        assert_int_equal(copied.time_ns, reading.time_ns);
        assert_int_equal(weir_image_replace(wide, m, &f->options), WEIR_OK);
        char text[WEIR_POLICY_TEXT_MAX];
        assert_int_equal(weir_policy_registry_text(weir_image_policies(wide), 7, text, sizeof text),
                         8);
        assert_int_equal(count_files(f), 1);
        if (!shared)
            must_refuse(f, WEIR_E_BUSY, NULL);
        weir_image_close(wide);

        m = must_open_other(f);
        assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
        assert_false(weir_image_other_size(m));
        assert_true(is_all(weir_image_parts_get(m).table, 5));
        weir_image_close(m);
    }
}

static void check_other_size_when_shared(void **state)
{
    fixture *f = *state;
    f->options.shared = true;
    weir_image *m = must_open(f), *second = must_open_other(f), *wide = NULL;
    assert_int_equal(weir_image_open_beside(&wide, second, &f->options), WEIR_E_BUSY);
    assert_string_equal(f->error.text + strlen(f->path),
                        ": the state file is in use by this process; to change memory.size, "
                        "memory.large or a policy's memory, stop it first");
    weir_image_close(m);
    assert_int_equal(weir_image_open_beside(&wide, second, &f->options), WEIR_OK);
    assert_int_equal(weir_image_replace(wide, second, &f->options), WEIR_OK);
    weir_image *third = must_open_other(f); /* other sharers may open it again */
    assert_true(
        weir_process_is_alive(weir_image_processes(third), weir_image_processes(wide)->self));
    weir_image_close(third);
    weir_image_close(wide);
}

/* ---- syncs ----------------------------------------------------------------------------------- */

static void check_failed_sync(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    syncs_to_fail = 1;
    assert_int_equal(weir_image_sync(m), WEIR_E_IO);
    assert_int_equal(weir_image_stats_get(m).syncs_failed, 1);
    assert_int_equal(weir_image_sync(m), WEIR_OK);
    assert_int_equal(weir_image_stats_get(m).syncs_failed, 1);
    syncs_to_fail = 1;
    weir_image_close(m);
    assert_int_equal(syncs_to_fail, 0);
    m = must_open(f); /* not marked as closed, because some changes may be lost */
    assert_int_equal(f->opened.found, WEIR_FOUND_KILLED);
    weir_image_close(m);

    syncs_to_fail = 1;
    must_refuse(f, WEIR_E_IO, "cannot write the file to the disk");

    weir_image *wide = NULL;
    m = must_open_other(f);
    assert_int_equal(weir_image_open_beside(&wide, m, &f->options), WEIR_OK);
    syncs_to_fail = 1;
    assert_int_equal(weir_image_replace(wide, m, &f->options), WEIR_E_IO);
    weir_image_close(wide);
    weir_image_close(m);
    assert_int_equal(count_files(f), 1);
}

static void check_sync_each_second(void **state)
{
    fixture *f = *state;
    f->options.sync = WEIR_SYNC_SECOND;
    weir_image *m = must_open(f);
    while (waits == 0)
        sched_yield();
    int before = syncs;
    weir_image_close(m); /* wakes the thread, which does not write the file once more */
    assert_int_equal(syncs - before, 2);

    clock_is_ours = true;
    m = must_open(f);
    before = syncs;
    while (syncs < before + 3)
        sched_yield();
    syncs_to_fail = 2;
    while (weir_image_stats_get(m).syncs_failed < 2)
        sched_yield();
    weir_image_close(m);
    clock_is_ours = false;
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
}

static void check_power_loss(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    set_word(f, offsetof(weir_file_header, attached), 1);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_KILLED);
    set_word(f, offsetof(weir_file_header, attached), 1);
    set_word(f, offsetof(weir_file_header, boot), 1);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_POWER_LOSS);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
}

/* A closed file contains the time when it was last written. If it was not closed, the file system
 * may know a later time. */
static void check_when_written(void **state)
{
    fixture *f = *state;
    const size_t attached = offsetof(weir_file_header, attached),
                 written = offsetof(weir_file_header, written_ns);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.written_ns, 0); /* it is new */
    set_word(f, written, 5);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.written_ns, 5);
    set_word(f, attached, 1);
    set_word(f, written, 5);
    weir_image_close(must_open(f));
    assert_true(f->opened.written_ns > 5);
    set_word(f, attached, 1);
    set_word(f, written, INT64_MAX);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.written_ns, INT64_MAX);
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_fixture, drop_fixture)
    const struct CMUnitTest tests[] = {
        IN_DIR(check_anonymous),
        IN_DIR(check_survives),
        IN_DIR(check_secret),
        IN_DIR(check_owner_ids),
        IN_DIR(check_flips),
        IN_DIR(check_texts),
        IN_DIR(check_lengths),
        IN_DIR(check_reset),
        IN_DIR(check_kinds),
        IN_DIR(check_leftovers),
        IN_DIR(check_foreign_beside),
        IN_DIR(check_watch),
        IN_DIR(check_lock_file),
        IN_DIR(check_rights),
        IN_DIR(check_rights_stay),
        IN_DIR(check_read_only),
        IN_DIR(check_no_memory_for_size),
        IN_DIR(check_other_size),
        IN_DIR(check_other_size_when_shared),
        IN_DIR(check_failed_sync),
        IN_DIR(check_sync_each_second),
        IN_DIR(check_power_loss),
        IN_DIR(check_when_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
