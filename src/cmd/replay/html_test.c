/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The page of a report: its JSON, and a file that appears whole or not at all. */

#include "cmd/replay/report.h"

#include "accesslog/messages.h"
#include "codec/http/pages.h"
#include "port/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PAGE_BEGIN "<!doctype html>\n<!-- a report of weir replay -->\n"
#define OLD        PAGE_BEGIN "the old page"

/* A test runs in a directory of its own, and reads standard error from a file outside of it. */
typedef struct scene {
    char dir[64];
    int err, saved_err;
} scene;

static int setup(void **state)
{
    scene *s = port_zalloc(1, sizeof *s);
    assert_non_null(s);
    strcpy(s->dir, "/tmp/weir-html-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(chdir(s->dir), 0);
    s->saved_err = dup(STDERR_FILENO);
    FILE *err = tmpfile();
    assert_non_null(err);
    s->err = dup(fileno(err));
    fclose(err);
    dup2(s->err, STDERR_FILENO);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene *s = *state;
    dup2(s->saved_err, STDERR_FILENO);
    close(s->saved_err);
    close(s->err);
    DIR *dir = opendir(".");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        (void)remove(e->d_name); /* fails for "." and ".." */
    closedir(dir);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(s->dir), 0);
    port_free(s);
    return 0;
}

/* Returns the contents as a string; free it with port_free(). */
static char *contents(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t len = (size_t)ftell(f);
    rewind(f);
    char *text = port_zalloc(len + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, len, f), len);
    fclose(f);
    return text;
}

static void assert_contents(const char *path, const char *expected)
{
    char *text = contents(path);
    assert_string_equal(text, expected);
    port_free(text);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void write_old(const char *path, mode_t mode)
{
    write_text(path, OLD);
    assert_int_equal(chmod(path, mode), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static size_t files(void)
{
    size_t n = 0;
    DIR *dir = opendir(".");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

/* Checks what was printed since the last call. */
static void assert_printed(const scene *s, const char *expected)
{
    char text[512];
    fflush(stderr);
    ssize_t n = pread(s->err, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, expected);
    assert_int_equal(ftruncate(s->err, 0), 0);
    lseek(s->err, 0, SEEK_SET);
}

static int write_page(const char *path, const char *json)
{
    return replay_html_write(path, json, strlen(json));
}

/* A program without pages says so; there is nothing else to test in it. */
static bool has_page(void)
{
    if (replay_html_available())
        return true;
    assert_int_equal(replay_html_check("report.html"), ACCESSLOG_USAGE);
    assert_int_equal(write_page("report.html", "{}"), ACCESSLOG_USAGE);
    assert_int_equal(files(), 0);
    skip();
    return false;
}

/* The JSON lies between the two parts of the page, and no '<' of it is left. */
static void inserts_json(void **state)
{
    if (!has_page())
        return;
    assert_int_equal(write_page("report.html", "{\"key\":\"</script><img onerror=x>\"}"), 0);
    char *page = contents("report.html");
    size_t head = weir_report_page.data_at;
    const char *json = "{\"key\":\"\\u003c/script>\\u003cimg onerror=x>\"}";
    assert_int_equal(strlen(page), weir_report_page.page.len + strlen(json));
    assert_memory_equal(page, PAGE_BEGIN, strlen(PAGE_BEGIN));
    assert_memory_equal(page + head - 1, ">", 1);
    assert_memory_equal(page + head, json, strlen(json));
    assert_memory_equal(page + head + strlen(json), "</script>", strlen("</script>"));
    port_free(page);
    assert_printed(*state, "");
}

/* JSON that is larger than the buffers, with an escape at every place. */
static void inserts_long_json(void **unused)
{
    (void)unused;
    if (!has_page())
        return;
    enum { LEN = 300000 };
    char *json = port_zalloc(LEN, 1);
    assert_non_null(json);
    memset(json, '<', LEN);
    assert_int_equal(replay_html_write("report.html", json, LEN), 0);
    port_free(json);
    char *page = contents("report.html");
    for (size_t i = 0; i < LEN; i++)
        assert_memory_equal(page + weir_report_page.data_at + 6 * i, "\\u003c", 6);
    port_free(page);
}

/* A new file has the mode that the umask leaves; an old one keeps its own. */
static void keeps_mode(void **unused)
{
    (void)unused;
    if (!has_page())
        return;
    mode_t mask = umask(027);
    assert_int_equal(write_page("new.html", "1"), 0);
    umask(mask);
    assert_int_equal(mode_of("new.html"), 0640);
    write_old("old.html", 0604);
    assert_int_equal(write_page("old.html", "1"), 0);
    assert_int_equal(mode_of("old.html"), 0604);
    assert_int_equal(files(), 2);
}

static void follows_link(void **unused)
{
    (void)unused;
    if (!has_page())
        return;
    assert_int_equal(mkdir("sub", 0700), 0);
    write_old("sub/page.html", 0600);
    assert_int_equal(symlink("sub/page.html", "link"), 0);
    assert_int_equal(write_page("link", "1"), 0);
    char target[64];
    assert_int_equal(readlink("link", target, sizeof target), strlen("sub/page.html"));
    char *page = contents("sub/page.html");
    assert_memory_equal(page, PAGE_BEGIN, strlen(PAGE_BEGIN));
    port_free(page);
    assert_int_equal(unlink("sub/page.html"), 0);
}

/* Wrong paths are errors before the log is read, and after. */
static void refuses_paths(void **state)
{
    if (!has_page())
        return;
    static const struct {
        const char *path;
        int error;
    } wrong[] = {
        {".", EISDIR}, {"absent/report.html", ENOENT}, {"", ENOENT}, {"file/report.html", ENOTDIR}};
    write_old("file", 0600);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[128];
        snprintf(text, sizeof text, "weir replay: --html: %s: %s\n", wrong[i].path,
                 strerror(wrong[i].error));
        assert_int_equal(replay_html_check(wrong[i].path), ACCESSLOG_FAILED);
        assert_printed(*state, text);
        assert_int_equal(write_page(wrong[i].path, "1"), ACCESSLOG_FAILED);
        assert_printed(*state, text);
    }
    assert_int_equal(write_page("-", "1"), ACCESSLOG_USAGE);
    assert_printed(*state, "weir replay: --html: expected the name of a file, found '-'; "
                           "/dev/stdout is standard output\n");
    assert_contents("file", OLD);
    assert_int_equal(files(), 1);
}

/* A file that is not a page stays as it is, such as a log whose name follows --html. */
static void refuses_other_files(void **state)
{
    if (!has_page())
        return;
    static const char *const other[] = {
        "1.2.3.4 - - [23/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\"", "\n", "<!doctype html>\n",
        "<!doctype html>\n<html>" OLD, "\xEF\xBB\xBF" OLD};
    static const char message[] =
        "weir replay: --html: log exists and is not a page of weir replay; pass another name, or "
        "remove the file\n";
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        write_text("log", other[i]);
        assert_int_equal(replay_html_check("log"), ACCESSLOG_FAILED);
        assert_printed(*state, message);
        assert_int_equal(write_page("log", "1"), ACCESSLOG_FAILED);
        assert_printed(*state, message);
        assert_contents("log", other[i]);
    }
    assert_int_equal(symlink("log", "link"), 0);
    assert_int_equal(write_page("link", "1"), ACCESSLOG_FAILED);
    assert_int_equal(files(), 2);
}

/* An empty file, as mktemp makes it, and a page of an earlier run are replaced. */
static void replaces_pages(void **state)
{
    if (!has_page())
        return;
    write_text("page", "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(replay_html_check("page"), 0);
        assert_int_equal(write_page("page", i == 0 ? "1" : "2"), 0);
        char *page = contents("page");
        assert_int_equal(page[weir_report_page.data_at], '1' + i);
        port_free(page);
    }
    assert_printed(*state, "");
}

/* A path in another directory, with a name of the greatest length. */
static void writes_elsewhere(void **unused)
{
    (void)unused;
    if (!has_page())
        return;
    char path[4 + 255 + 1] = "sub/";
    memset(path + 4, 'x', 255);
    assert_int_equal(mkdir("sub", 0700), 0);
    assert_int_equal(write_page(path, "1"), 0);
    assert_int_equal(files(), 1);
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir("sub"), 0); /* no temporary file is left */
}

static void check_writes_nothing(void **state)
{
    if (!has_page())
        return;
    write_old("old.html", 0600);
    assert_int_equal(replay_html_check("old.html"), 0);
    assert_int_equal(replay_html_check("new.html"), 0);
    assert_contents("old.html", OLD);
    assert_int_equal(files(), 1);
    assert_printed(*state, "");
}

/* A write that fails leaves the old file, and no temporary file. */
static void keeps_old_file(void **state)
{
    if (!has_page())
        return;
    struct rlimit before, small = {1000, 1000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    write_old("old.html", 0600);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = write_page("old.html", "1");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, ACCESSLOG_FAILED);
    assert_printed(*state, "weir replay: --html: old.html: File too large\n");
    assert_contents("old.html", OLD);
    assert_int_equal(files(), 1);
}

/* A named pipe stays one. The reader gets the page, which fits into the pipe. */
static void writes_to_pipe(void **unused)
{
    (void)unused;
    if (!has_page())
        return;
    assert_true(weir_report_page.page.len < 65536);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(write_page("pipe", "1"), 0);
    struct stat info;
    assert_int_equal(lstat("pipe", &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    size_t len = 0;
    char piece[4096];
    for (ssize_t n; (n = read(reader, piece, sizeof piece)) > 0;)
        len += (size_t)n;
    close(reader);
    assert_int_equal(len, weir_report_page.page.len + 1);
    assert_int_equal(files(), 1);
}

int main(void)
{
    accesslog_command("weir replay");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inserts_json, setup, teardown),
        cmocka_unit_test_setup_teardown(inserts_long_json, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_mode, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_link, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(replaces_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(check_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_old_file, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_to_pipe, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
