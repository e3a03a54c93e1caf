/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The watched file or directory, with a fake clock: which changes are noticed, and when. */

#include "net/watch.h"

#include "net/fixture_test.h"
#include "net/timers_kit_test.h"

#include <sys/stat.h>

static int events_started;

int __real_uv_fs_event_start(uv_fs_event_t *handle, uv_fs_event_cb fn, const char *path,
                             unsigned flags);
int __wrap_uv_fs_event_start(uv_fs_event_t *handle, uv_fs_event_cb fn, const char *path,
                             unsigned flags);

int __wrap_uv_fs_event_start(uv_fs_event_t *handle, uv_fs_event_cb fn, const char *path,
                             unsigned flags)
{
    events_started++;
    assert_int_equal(flags, 0);
    return __real_uv_fs_event_start(handle, fn, path, flags);
}

typedef struct watched {
    int changes;
    bool unreadable;
} watched;

static bool on_changed(void *ctx)
{
    watched *f = ctx;
    f->changes++;
    return !f->unreadable;
}

static void open_loop(uv_loop_t *uv)
{
    reset_timers();
    events_started = 0;
    assert_int_equal(uv_loop_init(uv), 0);
}

static void close_watch(weir_watch *w, uv_loop_t *uv)
{
    uv_close((uv_handle_t *)&w->events, NULL);
    uv_close((uv_handle_t *)&w->poll, NULL);
    uv_close((uv_handle_t *)&w->debounce, NULL);
    uv_run(uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(uv), 0);
}

/* Events within 100 ms are one change. It is read once it has been the same for 100 ms. A file that
 * could not be read is tried again within 2 s. */
static void test_watch(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", path[64], other[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/weir.yaml", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    write_file(path, "1");
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, path, on_changed, &f));
    assert_int_equal(due_in(&w.poll), 2000);
    assert_int_equal(timer_of(&w.poll)->repeat_ms, 2000);
    assert_false(w.is_directory);
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 0);
    assert_int_equal(due_in(&w.debounce), -1); /* nothing to wait for */
    write_file(path, "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    assert_int_equal(due_in(&w.debounce), 100);
    assert_int_equal(timer_of(&w.debounce)->repeat_ms, 0);
    let_pass(&uv, 99);
    write_file(path, "333");
    uv_run(&uv, UV_RUN_NOWAIT);
    assert_int_equal(f.changes, 0);
    f.unreadable = true;
    let_pass(&uv, 1); /* it has changed since the first event */
    assert_int_equal(due_in(&w.debounce), 100);
    let_pass(&uv, 99);
    assert_int_equal(f.changes, 0);
    let_pass(&uv, 1);
    assert_int_equal(f.changes, 1);
    f.unreadable = false;
    let_pass(&uv, 2100); /* without an event */
    assert_int_equal(f.changes, 2);
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    assert_int_equal(unlink(path), 0);
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    write_file(path, "4444");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    write_file(other, "4444");
    assert_int_equal(rename(other, path), 0);
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 4);
    assert_int_equal(events_started, 1); /* of the directory, which is the same */
    close_watch(&w, &uv);
    unlink(path);
    rmdir(dir);
}

/* A file that is empty while it is written is not read then, and one that takes long to write is
 * not read before its end. */
static void test_half_written(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char path[] = "/tmp/weir-watch-XXXXXX", text[64] = "";
    close(mkstemp(path));
    write_file(path, "1");
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, path, on_changed, &f));
    uv_fs_event_stop(&w.events);
    write_file(path, "22");
    let_pass(&uv, 2000);
    assert_int_equal(due_in(&w.debounce), 100);
    let_pass(&uv, 99);
    write_file(path, "");
    let_pass(&uv, 1);
    assert_int_equal(f.changes, 0);
    write_file(path, "333");
    let_pass(&uv, 199);
    assert_int_equal(f.changes, 0);
    let_pass(&uv, 1);
    assert_int_equal(f.changes, 1);
    for (int i = 0; i < 60; i++) {
        text[i] = 'x';
        write_file(path, text);
        let_pass(&uv, 100);
    }
    assert_int_equal(f.changes, 1);
    let_pass(&uv, 200);
    assert_int_equal(f.changes, 2);
    close_watch(&w, &uv);
    unlink(path);
}

/* The file is also polled. The paths: in a directory that does not exist, so that there are no
 * events; without a slash; and in the root directory. */
static void test_watch_by_polling(void **unused)
{
    (void)unused;
    static char long_path[9000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = long_path[8000] = '/';
    const struct {
        const char *path;
        bool has_events;
    } rows[] = {{"/nowhere/weir.yaml", false},
                {long_path, false},
                {"weir-no-such-file", true},
                {"/no-such-file", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uv_loop_t uv;
        weir_watch w;
        watched f = {0};
        open_loop(&uv);
        assert_int_equal(weir_watch_start(&w, &uv, rows[i].path, on_changed, &f),
                         rows[i].has_events);
        assert_int_equal(due_in(&w.poll), 2000);
        w.seen.size++; /* as if it had been another file */
        let_pass(&uv, 2100);
        assert_int_equal(f.changes, 0); /* there is no file */
        w.path = "/dev/null";
        let_pass(&uv, 1999);
        assert_int_equal(f.changes, 0);
        let_pass(&uv, 101);
        assert_int_equal(f.changes, 1);
        close_watch(&w, &uv);
    }
}

static void in_directory(const char *dir, const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%.64s/%.20s", dir, name);
    if (text)
        write_file(path, text);
    else
        assert_int_equal(unlink(path), 0);
}

/* One file of a directory may change all the time: the others are read 2 s after a change. */
static void test_busy_directory(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", text[64] = "";
    int rounds = 0;
    assert_non_null(mkdtemp(dir));
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, dir, on_changed, &f));
    while (f.changes == 0 && rounds < 60) {
        text[rounds++] = 'x';
        in_directory(dir, "a", text);
        let_pass(&uv, 100);
    }
    assert_in_range(rounds, 20, 40);
    close_watch(&w, &uv);
    in_directory(dir, "a", NULL);
    assert_int_equal(rmdir(dir), 0);
}

/* Each change in a directory is one change, with its events or by polling: a file that is added,
 * rewritten, renamed or removed, also below. Names that begin with '.' are no change. */
static void test_watch_directory(void **unused)
{
    (void)unused;
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", sub[64], from[96], to[96];
    assert_non_null(mkdtemp(dir));
    snprintf(sub, sizeof sub, "%s/sub", dir);
    snprintf(from, sizeof from, "%s/a", dir);
    snprintf(to, sizeof to, "%s/b", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    in_directory(dir, "a", "1");
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, dir, on_changed, &f));
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 0);
    in_directory(dir, "a", "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    let_pass(&uv, 100); /* by an event */
    assert_int_equal(f.changes, 1);
    in_directory(dir, "new", "1");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 2);
    assert_int_equal(rename(from, to), 0);
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    in_directory(sub, "below", "1");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 4);
    in_directory(sub, "below", "22");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 5);
    in_directory(dir, ".hidden", "1");
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 5);
    f.unreadable = true;
    in_directory(dir, "new", NULL);
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 6);
    f.unreadable = false;
    let_pass(&uv, 2100); /* again, because it was not accepted */
    assert_int_equal(f.changes, 7);
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 7);
    in_directory(sub, "below", NULL);
    in_directory(dir, "b", NULL);
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 8); /* without files is a version too */
    assert_int_equal(events_started, 1);
    in_directory(dir, ".hidden", NULL);
    close_watch(&w, &uv);
    rmdir(sub);
    rmdir(dir);
}

/* A link to a directory that is swapped, and a link in the directory to a file behind it, are
 * changes; events of the new directory are seen. */
static void test_watch_swapped_directory(void **unused)
{
    (void)unused;
    char dir[] = "/tmp/weir-watch-XXXXXX", one[64], two[64], current[64], next[64];
    assert_non_null(mkdtemp(dir));
    snprintf(one, sizeof one, "%s/one", dir);
    snprintf(two, sizeof two, "%s/two", dir);
    snprintf(current, sizeof current, "%s/current", dir);
    snprintf(next, sizeof next, "%s/next", dir);
    assert_int_equal(mkdir(one, 0700) | mkdir(two, 0700), 0);
    in_directory(one, "a", "1");
    in_directory(two, "a", "1");
    assert_int_equal(symlink("one", current), 0);
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, current, on_changed, &f));
    assert_int_equal(symlink("two", next), 0);
    assert_int_equal(rename(next, current), 0);
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 1);
    assert_int_equal(events_started, 2);
    in_directory(two, "a", "22");
    uv_run(&uv, UV_RUN_NOWAIT);
    let_pass(&uv, 100);
    assert_int_equal(f.changes, 2);
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 2);
    assert_true(weir_watch_move(&w, one));
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 2); /* another path is no change */
    in_directory(one, "a", "22");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 3);
    weir_watch_stop(&w);
    in_directory(one, "a", "333");
    let_pass(&uv, 10000);
    assert_int_equal(f.changes, 3);
    close_watch(&w, &uv);
    in_directory(one, "a", NULL);
    in_directory(two, "a", NULL);
    unlink(current);
    rmdir(one);
    rmdir(two);
    rmdir(dir);
}

/* Each of the five fields of a file's state tells two versions apart. */
static void test_versions_of_a_file(void **unused)
{
    (void)unused;
    for (int field = 0; field < 6; field++) {
        uv_loop_t uv;
        weir_watch w;
        watched f = {0};
        open_loop(&uv);
        assert_true(weir_watch_start(&w, &uv, "/dev/null", on_changed, &f));
        uint64_t *const unsigned_fields[] = {&w.seen.device, &w.seen.inode, &w.seen.size};
        if (field < 3)
            ++*unsigned_fields[field];
        else if (field < 5)
            ++*(field == 3 ? &w.seen.seconds : &w.seen.nanoseconds);
        let_pass(&uv, 2100);
        assert_int_equal(f.changes, field < 5);
        let_pass(&uv, 10000);
        assert_int_equal(f.changes, field < 5);
        close_watch(&w, &uv);
    }
}

/* The directory itself and the seven levels below it are watched. */
static void test_levels_of_directories(void **unused)
{
    (void)unused;
    enum { LEVELS = 8 };
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dirs[LEVELS + 1][64] = {"/tmp/weir-watch-XXXXXX"};
    assert_non_null(mkdtemp(dirs[0]));
    for (int i = 1; i <= LEVELS; i++) {
        snprintf(dirs[i], sizeof dirs[i], "%.50s/%d", dirs[i - 1], i);
        assert_int_equal(mkdir(dirs[i], 0700), 0);
    }
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, dirs[0], on_changed, &f));
    in_directory(dirs[LEVELS - 1], "a", "1");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 1);
    in_directory(dirs[LEVELS], "a", "1");
    let_pass(&uv, 2100);
    assert_int_equal(f.changes, 1);
    close_watch(&w, &uv);
    in_directory(dirs[LEVELS], "a", NULL);
    in_directory(dirs[LEVELS - 1], "a", NULL);
    for (int i = LEVELS; i >= 0; i--)
        assert_int_equal(rmdir(dirs[i]), 0);
}

/* Of a directory with more than 4096 files, the first ones are watched, and how many there are. */
static void test_many_files(void **unused)
{
    (void)unused;
    enum { FILES = 4096 };
    uv_loop_t uv;
    weir_watch w;
    watched f = {0};
    char dir[] = "/tmp/weir-watch-XXXXXX", names[FILES + 1][8], first[64], path[64];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i <= FILES; i++)
        snprintf(names[i], sizeof names[i], "%d", 10000 + i);
    in_directory(dir, names[0], "1");
    snprintf(first, sizeof first, "%s/%s", dir, names[0]);
    for (int i = 1; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%.7s", dir, names[i]);
        assert_int_equal(link(first, path), 0);
    }
    open_loop(&uv);
    assert_true(weir_watch_start(&w, &uv, dir, on_changed, &f));
    static const struct {
        int i;
        const char *text;
        int changes;
    } steps[] = {{FILES, "1", 1},           {FILES, "22", 1},       {FILES - 1, NULL, 2},
                 {FILES - 1, "another", 3}, {FILES - 1, "text", 4}, {FILES, "22", 4}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        in_directory(dir, names[steps[i].i], steps[i].text);
        let_pass(&uv, 2100);
        assert_int_equal(f.changes, steps[i].changes);
    }
    close_watch(&w, &uv);
    for (int i = 0; i <= FILES; i++)
        in_directory(dir, names[i], NULL);
    assert_int_equal(rmdir(dir), 0);
}

/* A change that was noticed is not reported any more after the watch has stopped, or watches
 * another path. */
static void test_stop_after_an_event(void **unused)
{
    (void)unused;
    for (int move = 0; move <= 1; move++) {
        uv_loop_t uv;
        weir_watch w;
        watched f = {0};
        char dir[] = "/tmp/weir-watch-XXXXXX", path[64];
        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof path, "%s/a", dir);
        write_file(path, "1");
        open_loop(&uv);
        assert_true(weir_watch_start(&w, &uv, path, on_changed, &f));
        write_file(path, "22");
        uv_run(&uv, UV_RUN_NOWAIT);
        assert_int_equal(due_in(&w.debounce), 100);
        if (move)
            assert_true(weir_watch_move(&w, "/dev/null"));
        else
            weir_watch_stop(&w);
        assert_int_equal(due_in(&w.debounce), -1);
        assert_int_equal(due_in(&w.poll), move ? 2000 : -1);
        let_pass(&uv, 10000);
        assert_int_equal(f.changes, 0);
        close_watch(&w, &uv);
        unlink(path);
        rmdir(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_half_written),
        cmocka_unit_test(test_watch_by_polling),
        cmocka_unit_test(test_busy_directory),
        cmocka_unit_test(test_watch_directory),
        cmocka_unit_test(test_watch_swapped_directory),
        cmocka_unit_test(test_versions_of_a_file),
        cmocka_unit_test(test_levels_of_directories),
        cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_stop_after_an_event),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
