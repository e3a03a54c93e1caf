/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the system refuses: each call of src/port fails once, while a file is created, opened,
 * resized or watched. The failure is reported, and leaves no descriptor, lock or file behind. */

#include "port/file.h"
#include "port/port.h"
#include "store/image/image_kit_test.h"
#include "store/image/state_file.h"

#include <sys/stat.h>

/* ---- calls that fail ------------------------------------------------------------------------- */

static unsigned calls_left; /* until one fails; 0: none fails */
static const char *failed;  /* the one that failed */

static int threads_started, threads_woken;

static bool fails(const char *call)
{
    if (calls_left == 0 || --calls_left > 0)
        return false;
    failed = call;
    return true;
}

#define FAKE(type, name, parameters, arguments, failure)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails(#name) ? (failure) : __real_##name arguments;                                 \
    }

#define BAD PORT_FILE_FAILED

FAKE(port_file_error, port_file_open, (const char *path, port_file_mode mode, int *ret),
     (path, mode, ret), BAD)
FAKE(port_file_error, port_file_info, (int fd, uint64_t *bytes, int64_t *ns), (fd, bytes, ns), BAD)
FAKE(port_file_error, port_file_rights_get, (int fd, port_file_rights *ret), (fd, ret), BAD)
FAKE(bool, port_file_read, (int fd, void *buf, size_t len), (fd, buf, len), false)
FAKE(port_file_error, port_file_begin, (int fd, const void *buf, size_t len), (fd, buf, len), BAD)
FAKE(port_file_error, port_file_allocate, (int fd, uint64_t bytes), (fd, bytes), BAD)
FAKE(port_file_error, port_file_replace, (const char *from, const char *to), (from, to), BAD)
FAKE(port_file_error, port_file_try_lock, (int fd, uint64_t at, port_file_lock lock, bool *ret),
     (fd, at, lock, ret), BAD)
FAKE(port_file_error, port_file_wait_lock, (int fd, uint64_t at, port_file_lock lock),
     (fd, at, lock), BAD)
FAKE(void *, port_file_map, (int fd, size_t bytes), (fd, bytes), NULL)
FAKE(void *, port_file_map_private, (int fd, size_t bytes), (fd, bytes), NULL)
FAKE(void *, port_map_aligned, (size_t bytes), (bytes), NULL)
FAKE(weir_status, port_random, (void *buf, size_t len), (buf, len), WEIR_E_IO)
FAKE(void *, port_zalloc, (size_t n, size_t size), (n, size), NULL)
FAKE(port_mutex *, port_mutex_new, (void), (), NULL)
FAKE(port_cond *, port_cond_new, (void), (), NULL)
FAKE(port_thread *, port_thread_start, (void (*fn)(void *arg), void *arg),
     (fn, (threads_started++, arg)), NULL)

void __real_port_cond_wake(port_cond *c);
void __wrap_port_cond_wake(port_cond *c);
void __wrap_port_cond_wake(port_cond *c)
{
    threads_woken++;
    __real_port_cond_wake(c);
}

#define OPENING 0 /* the lock of a process that opens or closes a state file */

static int look_fd = -1;        /* the state file */
static int syncs, syncs_locked; /* while it was set; with the OPENING lock */

bool __wrap_port_file_sync(void *p, size_t bytes);
bool __wrap_port_file_sync(void *p, size_t bytes)
{
    syncs += look_fd >= 0;
    syncs_locked += look_fd >= 0 && port_file_is_locked(look_fd, OPENING);
    return p && bytes > 0 && !fails("port_file_sync");
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd; /* there is nothing to wait for */
    return 0;
}

#define NO_THREAD "cannot start the thread that writes the file to the disk"
#define FOREIGN   "it is not a state file of weir, but weir uses this name"

/* The messages that may report a failed call. That of other calls is "the operation failed". */
static const struct {
    const char *call;
    weir_status st;
    const char *text; /* how it begins */
} reports[] = {
    {"port_file_map", WEIR_E_NOMEM, "out of memory: cannot map its "},
    {"port_file_map_private", WEIR_E_NOMEM, "out of memory: cannot map its 5 MiB"},
    {"port_map_aligned", WEIR_E_NOMEM, "out of memory"},
    {"port_zalloc", WEIR_E_NOMEM, "out of memory"},
    {"port_mutex_new", WEIR_E_NOMEM, NO_THREAD},
    {"port_cond_new", WEIR_E_NOMEM, NO_THREAD},
    {"port_thread_start", WEIR_E_NOMEM, NO_THREAD},
    {"port_file_info", WEIR_E_IO, "cannot read the file"},
    {"port_file_info", WEIR_E_IO, FOREIGN},
    {"port_file_info", WEIR_E_IO, "the operation failed"}, /* of FILE.lock */
    {"port_file_read", WEIR_E_IO, "cannot read the file"},
    {"port_file_read", WEIR_E_IO, FOREIGN},
    {"port_file_sync", WEIR_E_IO, "cannot write the file to the disk"},
    {"port_random", WEIR_E_IO, "the system returned no random numbers"},
};

/* A new file that cannot be locked stays at PATH.new, and is empty. The next opening removes it. */
static bool is_left(void)
{
    return strcmp(failed, "port_file_wait_lock") == 0;
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* The failed call is reported, in one line about the file or about one beside it. */
static void check_report(const fixture *f, weir_status st)
{
    bool is_listed = false, good = false;
    const char *path = f->options.file ? f->options.file : "memory";
    assert_memory_equal(f->error.text, path, strlen(path));
    const char *text = strstr(f->error.text, ": ");
    assert_non_null(text);
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        if (strcmp(reports[i].call, failed) != 0)
            continue;
        is_listed = true;
        good = good || (st == reports[i].st &&
                        strncmp(text + 2, reports[i].text, strlen(reports[i].text)) == 0);
    }
    if (!is_listed)
        good = st == WEIR_E_IO && strncmp(text, ": the operation failed", 22) == 0;
    if (!good)
        fail_msg("%s: status %d, %s", failed, st, f->error.text);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What is there before the opening. */
typedef struct scene {
    const char *name;
    bool is_there, left_beside, is_open;
    weir_store_options options;
    int spared; /* calls whose failure does not prevent the opening */
} scene;

static void prepare(fixture *f, const scene *s, weir_image **ret_other)
{
    f->options = (weir_store_options){
        .file = f->path, .ret_error = &f->error, .ret_opened = &f->opened, .shared = s->is_open};
    unlink(f->path);
    if (s->is_there) {
        weir_image *m = must_open(f);
        memset(weir_image_parts_get(m).large.at, 9, LARGE);
        weir_image_close(m);
    }
    *ret_other = s->is_open ? must_open(f) : NULL;
    if (s->left_beside)
        write_file(f->beside, "\x89weir\r\n\x1A");
    f->options = s->options;
    f->options.file = s->options.file ? f->path : NULL;
    f->options.ret_error = &f->error;
    f->options.ret_opened = &f->opened;
}

static void check_after_failure(fixture *f, const scene *s, weir_status st)
{
    check_report(f, st);
    assert_true(access(f->path, F_OK) == 0 || !s->is_there);
    assert_true(access(f->beside, F_OK) != 0 || s->left_beside || is_left());
    int fd;
    if (!s->is_open && port_file_open(f->lock, PORT_FILE_WRITE, &fd) == PORT_FILE_OK) {
        assert_true(port_file_try_lock_all(fd)); /* it may stay, but is not locked */
        port_file_close(fd);
    }
}

/* What the failed opening left does not disturb the next one. */
static void check_next(fixture *f, const scene *s)
{
    f->options.reset = false;
    weir_image *m = must_open(f);
    if (s->is_there && !s->options.reset)
        assert_true(is_all(weir_image_parts_get(m).large, 9));
    weir_image_close(m);
}

/* Opens the file; the nth call fails. Sets *ret_all if there are fewer calls. Returns whether the
 * failure was reported. */
static bool open_once(fixture *f, const scene *s, unsigned nth, bool *ret_all)
{
    weir_image *m = NULL, *other;
    prepare(f, s, &other);
    int before = descriptors();
    calls_left = nth;
    weir_status st = weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED);
    *ret_all = calls_left > 0;
    calls_left = 0;
    assert_int_equal(st == WEIR_OK, m != NULL);
    if (st != WEIR_OK) {
        assert_int_equal(descriptors(), before);
        check_after_failure(f, s, st);
    }
    weir_image_close(m);
    check_next(f, s);
    weir_image_close(other);
    return st != WEIR_OK;
}

static void opening(void **state)
{
    fixture *f = *state;
    static const char any[] = "";
    static const scene scenes[] = {
        {"memory", false, false, false, {.file = NULL}, 0},
        {"new", false, false, false, {.file = any, .sync = WEIR_SYNC_SECOND}, 1},
        {"new, with a leftover", false, true, false, {.file = any}, 1},
        {"known", true, false, false, {.file = any, .sync = WEIR_SYNC_SECOND}, 0},
        {"known, with a leftover", true, true, false, {.file = any}, 1},
        {"reset", true, false, false, {.file = any, .reset = true}, 0},
        {"shared", true, false, false, {.file = any, .shared = true}, 0},
        {"shared and open", true, false, true, {.file = any, .shared = true}, 0},
        {"read-only", true, false, false, {.file = any, .read_only = true}, 0},
    };
    for (const scene *s = scenes; s < scenes + sizeof scenes / sizeof scenes[0]; s++) {
        int spared = 0, before = descriptors();
        unsigned nth = 0;
        for (bool all = false; !all;) {
            bool reported = open_once(f, s, ++nth, &all);
            spared += !reported && !all;
            assert_int_equal(descriptors(), before);
        }
        assert_true(nth > 3);
        if (spared != s->spared)
            fail_msg("%s: %d failed calls were not reported", s->name, spared);
        unlink(f->path);
    }
}

/* ---- resizing -------------------------------------------------------------------------------- */

static bool is_opening(const char *path)
{
    int fd;
    assert_int_equal(port_file_open(path, PORT_FILE_READ, &fd), PORT_FILE_OK);
    bool locked = port_file_is_locked(fd, 0); /* the OPENING lock */
    port_file_close(fd);
    return locked;
}

/* Makes a file of another size, which takes its place. */
static weir_status resize(fixture *f, weir_image *m, weir_image **ret_wide)
{
    weir_status st = weir_image_open_beside(ret_wide, m, &f->options);
    if (st != WEIR_OK)
        return st;
    memset(weir_image_parts_get(*ret_wide).large.at, 7, LARGE);
    return weir_image_replace(*ret_wide, m, &f->options);
}

static void check_not_resized(fixture *f, weir_image *m, weir_image *wide, weir_status st)
{
    check_report(f, st);
    weir_image_close(wide);
    assert_true(access(f->beside, F_OK) != 0 || is_left());
    assert_false(is_opening(f->path));
    assert_true(is_all(weir_image_parts_get(m).large, 9));
}

/* Resizes the file; the nth call fails. A resize that fails leaves the old file as it was, and
 * open. Returns its status. */
static weir_status resize_once(fixture *f, bool shared, unsigned nth, bool *ret_all)
{
    const scene s = {.is_there = true, .options = {.file = "", .shared = shared}};
    weir_image *m = NULL, *wide = NULL;
    prepare(f, &s, &m);
    f->options.sync = WEIR_SYNC_SECOND;
    threads_started = threads_woken = 0;
    assert_int_equal(weir_image_open(&m, &f->options, 2 * TABLE, LARGE, RESERVED), WEIR_OK);
    int before = descriptors();
    calls_left = nth;
    weir_status st = resize(f, m, &wide);
    *ret_all = calls_left > 0;
    calls_left = 0;
    if (st == WEIR_OK) {
        weir_image_close(wide);
        assert_true(threads_started == 2 && threads_woken == 2); /* none sleeps to its end */
    } else {
        check_not_resized(f, m, wide, st);
        assert_int_equal(descriptors(), before);
        weir_image_close(m);
    }
    m = must_open(f);
    assert_true(is_all(weir_image_parts_get(m).large, st == WEIR_OK ? 7 : 9));
    weir_image_close(m);
    return st;
}

static void resizing(void **state)
{
    fixture *f = *state;
    for (int shared = 0; shared <= 1; shared++) {
        int spared = 0, before = descriptors();
        unsigned nth = 0;
        for (bool all = false; !all;) {
            weir_status st = resize_once(f, shared, ++nth, &all);
            spared += st == WEIR_OK && !all;
            assert_int_equal(descriptors(), before);
            assert_int_equal(count_files(f), 1);
        }
        /* Only releasing the locks of the old file may fail. */
        assert_int_equal(spared, 2 + shared);
        assert_true(nth > 20);
    }
}

/* ---- watching -------------------------------------------------------------------------------- */

static bool is_claimed(const fixture *f)
{
    int fd;
    assert_int_equal(port_file_open(f->lock, PORT_FILE_WRITE, &fd), PORT_FILE_OK);
    bool alone = port_file_try_lock_all(fd);
    port_file_close(fd);
    return !alone;
}

/* FILE.lock was removed and cannot be locked again: the next try does. */
static void watching(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    int before = descriptors();
    unsigned nth = 0;
    for (bool all = false; !all;) {
        assert_int_equal(unlink(f->lock), 0);
        calls_left = ++nth;
        assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
        all = calls_left > 0;
        calls_left = 0;
        assert_int_equal(weir_image_watch(m), WEIR_FILE_IN_PLACE);
        assert_true(is_claimed(f));
        assert_int_equal(descriptors(), before);
    }
    assert_true(nth > 4);
    weir_image_close(m);
    assert_int_equal(access(f->lock, F_OK), -1);
}

/* Whether a FILE.lock that others may write is used depends on the options. */
static void watching_among_others(void **state)
{
    fixture *f = *state;
    for (int trust = 0; trust <= 1; trust++) {
        f->options.trust_others = trust;
        weir_image_close(must_open(f));
        weir_image *m = NULL, *wide = NULL;
        assert_int_equal(weir_image_open(&m, &f->options, 2 * TABLE, LARGE, RESERVED), WEIR_OK);
        for (int resized = 0; resized <= 1; resized++) {
            unlink(f->lock);
            write_file(f->lock, "");
            assert_int_equal(chmod(f->lock, 0666), 0);
            assert_int_equal(weir_image_watch(resized ? wide : m), WEIR_FILE_IN_PLACE);
            assert_int_equal(is_claimed(f), trust);
            if (!resized)
                assert_int_equal(resize(f, m, &wide), WEIR_OK);
        }
        weir_image_close(wide);
        unlink(f->path);
        unlink(f->lock);
    }
}

/* An image is written and marked as closed before another process can open it. */
static void closing(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    assert_int_equal(port_file_open(f->path, PORT_FILE_READ, &look_fd), PORT_FILE_OK);
    assert_false(port_file_is_locked(look_fd, OPENING));
    weir_image_close(m);
    assert_int_equal(syncs_locked, syncs);
    assert_true(syncs > 1);
    assert_false(port_file_is_locked(look_fd, OPENING));
    port_file_close(look_fd);
    look_fd = -1;
}

/* Closing an image closes no descriptor that was opened since. */
static void other_descriptors(void **state)
{
    fixture *f = *state;
    weir_image_close(must_open(f));
    for (int reset = 0; reset <= 1; reset++) {
        f->options.reset = reset;
        weir_image *m = must_open(f);
        int fd[8];
        for (int i = 0; i < 8; i++)
            fd[i] = dup(0);
        weir_image_close(m);
        for (int i = 0; i < 8; i++)
            assert_int_equal(close(fd[i]), 0);
    }
    weir_state_file file;
    assert_int_equal(weir_state_file_open(&file, &f->options), WEIR_OK);
    weir_state_file_close(&file);
    assert_true(file.fd == -1 && file.replaces == -1 && file.claim.fd == -1);
    assert_false(file.is_new || file.is_first || file.is_installed);
}

/* The lock of a second file ends without that of the first one. With `zero`, the lock file has
 * descriptor 0. */
static void check_claims(fixture *f, bool zero)
{
    weir_lock_file a, b;
    int first, second, look, standard = dup(0);
    assert_int_equal(port_file_open(f->path, PORT_FILE_MAKE, &first), PORT_FILE_OK);
    assert_int_equal(port_file_open(f->beside, PORT_FILE_MAKE, &second), PORT_FILE_OK);
    if (zero)
        close(0);
    assert_int_equal(weir_lock_file_take(&a, f->lock, first, &f->options), WEIR_OK);
    assert_int_equal(a.fd == 0, zero);
    assert_int_equal(weir_lock_file_take_beside(&b, &a, second, &f->options), WEIR_OK);
    assert_int_equal(port_file_open(f->lock, PORT_FILE_READ, &look), PORT_FILE_OK);
    uint64_t at = b.at;
    assert_true(port_file_is_locked(look, a.at) && port_file_is_locked(look, at));
    weir_lock_file_drop(&b, f->lock);
    assert_true(port_file_is_locked(look, a.at) && !port_file_is_locked(look, at));
    assert_int_equal(weir_lock_file_take_beside(&b, &a, second, &f->options), WEIR_OK);
    at = a.at;
    weir_lock_file_hand_over(&b, &a);
    assert_true(!port_file_is_locked(look, at) && port_file_is_locked(look, b.at));
    weir_lock_file_renew(&b, f->lock, second, &f->options);
    assert_int_equal(b.fd == 0, zero);
    weir_lock_file_drop(&a, f->lock);
    assert_int_equal(access(f->lock, F_OK), 0);
    weir_lock_file_drop(&b, f->lock);
    assert_int_equal(access(f->lock, F_OK), -1);
    assert_true(a.fd == -1 && b.fd == -1);
    if (zero)
        assert_int_equal(dup2(standard, 0), 0);
    close(standard);
    port_file_close(first);
    port_file_close(second);
    port_file_close(look);
    unlink(f->path);
    unlink(f->beside);
}

static void claims(void **state)
{
    check_claims(*state, false);
    check_claims(*state, true);
}

/* A state file may have descriptor 0. */
static void descriptor_0(void **state)
{
    fixture *f = *state;
    weir_image *m = NULL, *wide = NULL;
    int standard = dup(0);
    close(0);
    weir_image_close(must_open(f));
    assert_int_equal(weir_image_open(&m, &f->options, 2 * TABLE, LARGE, RESERVED), WEIR_OK);
    assert_int_equal(weir_image_mapping(m).fd, 0);
    calls_left = 1;
    assert_int_equal(weir_image_sync(m), WEIR_E_IO);
    assert_int_equal(calls_left, 0);
    assert_int_equal(resize(f, m, &wide), WEIR_OK);
    assert_int_equal(rename(f->path, f->beside), 0);
    assert_int_equal(weir_image_watch(wide), WEIR_FILE_MOVED);
    weir_image_close(wide);
    assert_int_equal(rename(f->beside, f->path), 0);
    f->options.read_only = true;
    m = must_open(f);
    assert_int_equal(weir_image_mapping(m).fd, 0);
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
    weir_image_close(m);
    assert_int_equal(dup2(standard, 0), 0);
    close(standard);
}

/* Where the parts lie in the file. */
static void layout(void **unused)
{
    (void)unused;
    enum { PAGE = 4096, LARGE_PAGE = 2 << 20 };
    const uint64_t most = UINT64_C(1) << 56;
    const uint64_t small[WEIR_PARTS] = {1, PAGE, PAGE + 1, LARGE_PAGE - 1};
    weir_file_header h = {0};
    assert_true(weir_file_header_lay_out(&h, small));
    for (size_t i = 0; i < WEIR_PARTS; i++) {
        static const uint64_t at[WEIR_PARTS] = {PAGE, 2 * PAGE, 3 * PAGE, 5 * PAGE};
        assert_int_equal(h.parts[i].at, at[i]);
        assert_int_equal(h.parts[i].bytes, small[i]);
    }
    assert_int_equal(h.bytes, 5 * PAGE + LARGE_PAGE);
    const uint64_t large[WEIR_PARTS] = {LARGE_PAGE, 1, LARGE_PAGE, 1};
    assert_true(weir_file_header_lay_out(&h, large));
    for (size_t i = 0; i < WEIR_PARTS; i++)
        assert_int_equal(h.parts[i].at, (1 + i) * LARGE_PAGE);
    assert_int_equal(h.bytes, 4 * (uint64_t)LARGE_PAGE + PAGE);
    for (size_t i = 0; i < WEIR_PARTS; i++) {
        uint64_t bytes[WEIR_PARTS] = {1, 1, 1, 1};
        bytes[i] = 0;
        assert_false(weir_file_header_lay_out(&h, bytes));
        bytes[i] = most + 1;
        assert_false(weir_file_header_lay_out(&h, bytes));
        bytes[i] = most;
        assert_true(weir_file_header_lay_out(&h, bytes));
    }
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_fixture, drop_fixture)
    const struct CMUnitTest tests[] = {
        IN_DIR(opening),           IN_DIR(resizing), IN_DIR(watching),
        IN_DIR(other_descriptors), IN_DIR(claims),   IN_DIR(watching_among_others),
        IN_DIR(descriptor_0),      IN_DIR(closing),  cmocka_unit_test(layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
