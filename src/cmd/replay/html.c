/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Writes the page with the report's JSON, and replaces the old file. */

#include "cmd/replay/report.h"

#include "accesslog/messages.h"
#include "cmd/kit/out.h"
#include "codec/http/pages.h"
#include "port/buffer.h"
#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What every page begins with, here and in web/report/report.html: a file that begins otherwise is
 * not replaced. */
#define PAGE_BEGIN "<!doctype html>\n<!-- a report of weir replay -->\n"

#define TEMPORARY_NAME ".weir-XXXXXX" /* for mkstemp() */

/* A file that is being written. */
typedef struct target {
    const char *given;                                /* the path for messages */
    char path[PATH_MAX];                              /* with symbolic links resolved */
    char temporary[PATH_MAX + sizeof TEMPORARY_NAME]; /* "" if `given` is written directly */
    mode_t mode;
    int fd;
} target;

/* Prints why the page cannot be written: EEXIST if another file has this name. */
static int fail(const char *path, int error)
{
    if (error == EEXIST)
        return accesslog_complain(ACCESSLOG_FAILED,
                                  "--html: %s exists and is not a page of weir replay; pass "
                                  "another name, or remove the file",
                                  path);
    return accesslog_complain(ACCESSLOG_FAILED, "--html: %s: %s", path, strerror(error));
}

bool replay_html_available(void)
{
    return weir_report_page.page.len > 0;
}

/* ---- where the page is written --------------------------------------------------------------- */

static mode_t default_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Whether a regular file is empty or a page. Returns 0, or an errno: EEXIST if it is neither. */
static int check_replaceable(const char *path)
{
    char begin[sizeof PAGE_BEGIN - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    ssize_t n = pread(fd, begin, sizeof begin, 0);
    int error = n < 0 ? errno : 0;
    close(fd);
    bool page = n == sizeof begin && memcmp(begin, PAGE_BEGIN, sizeof begin) == 0;
    return error != 0 || n == 0 || page ? error : EEXIST;
}

/* Finds out how the file is written: *ret is ready for open_target().
 * Returns 0, or an errno. */
static int find_target(target *ret, const char *path)
{
    struct stat info;
    *ret = (target){.given = path, .fd = -1};
    if (stat(path, &info) != 0) {
        if (errno != ENOENT)
            return errno;
        if (*path == '\0' || strlen(path) >= sizeof ret->path)
            return *path == '\0' ? ENOENT : ENAMETOOLONG;
        snprintf(ret->path, sizeof ret->path, "%s", path);
        ret->mode = default_mode();
    } else {
        if (S_ISDIR(info.st_mode))
            return EISDIR;
        if (access(path, W_OK) != 0)
            return errno;
        if (!S_ISREG(info.st_mode))
            return 0;
        int error = check_replaceable(path);
        if (error != 0)
            return error;
        if (!realpath(path, ret->path))
            return errno;
        ret->mode = info.st_mode & 07777;
    }
    const char *slash = strrchr(ret->path, '/');
    int dir_len = slash ? (int)(slash + 1 - ret->path) : 0;
    snprintf(ret->temporary, sizeof ret->temporary, "%.*s", dir_len, ret->path);
    if (access(slash ? ret->temporary : ".", W_OK | X_OK) != 0)
        return errno;
    snprintf(ret->temporary, sizeof ret->temporary, "%.*s%s", dir_len, ret->path, TEMPORARY_NAME);
    return 0;
}

int replay_html_check(const char *path)
{
    if (!replay_html_available())
        return accesslog_complain(ACCESSLOG_USAGE, "--html: this program was built without web "
                                                   "pages; build weir with clang, lld and esbuild");
    if (strcmp(path, "-") == 0)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--html: expected the name of a file, found '-'; "
                                  "/dev/stdout is standard output");
    target t;
    int error = find_target(&t, path);
    return error == 0 ? 0 : fail(path, error);
}

/* Opens the file or its temporary file. Returns 0, or an errno. */
static int open_target(target *t)
{
    if (t->temporary[0] == '\0')
        t->fd = open(t->given, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    else
        t->fd = mkstemp(t->temporary);
    return t->fd >= 0 ? 0 : errno;
}

/* Closes the file and gives it its name, or removes it after an error.
 *  error  0, or the errno of a failed write
 * Returns 0, or the errno of the first failure. */
static int close_target(target *t, int error)
{
    bool direct = t->temporary[0] == '\0';
    if (error == 0 && !direct && (fchmod(t->fd, t->mode) != 0 || fsync(t->fd) != 0))
        error = errno;
    if (close(t->fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && !direct && rename(t->temporary, t->path) != 0)
        error = errno;
    if (error != 0 && !direct)
        unlink(t->temporary);
    return error;
}

/* ---- what is written ------------------------------------------------------------------------- */

/* Writes JSON so that no text in it can end the <script> element that contains it: '<' occurs only
 * inside of strings, where it may be written as an escape. */
static void put_json(out_stream *out, const char *json, size_t len)
{
    for (const char *end = json + len; json < end;) {
        const char *less = memchr(json, '<', (size_t)(end - json));
        size_t run = (size_t)((less ? less : end) - json);
        out_bytes(out, json, run);
        if (less)
            out_text(out, "\\u003c");
        json += run + (less ? 1 : 0);
    }
}

/* Writes the page to t->fd. Returns 0, or an errno. */
static int put_page(const target *t, const weir_buffer *page, const char *json, size_t len)
{
    out_stream *out = port_zalloc(1, sizeof *out);
    if (!out)
        return ENOMEM;
    const uint8_t *bytes = weir_buffer_data(page);
    size_t head = weir_report_page.data_at;
    out_init(out, t->fd);
    out_bytes(out, bytes, head);
    put_json(out, json, len);
    out_bytes(out, bytes + head, weir_buffer_len(page) - head);
    int error = out_flush(out);
    port_free(out);
    return error;
}

int replay_html_write(const char *path, const char *json, size_t len)
{
    int status = replay_html_check(path);
    if (status != 0)
        return status;
    signal(SIGXFSZ, SIG_IGN); /* so that write() fails with EFBIG, which is reported */
    weir_buffer page;
    weir_buffer_init(&page, weir_report_page.page.len);
    target t;
    int error = weir_http_unpack_page(&page, &weir_report_page.page) ? 0 : ENOMEM;
    if (error == 0)
        error = find_target(&t, path);
    if (error == 0)
        error = open_target(&t);
    if (error == 0)
        error = close_target(&t, put_page(&t, &page, json, len));
    weir_buffer_free(&page);
    return error == 0 ? 0 : fail(path, error);
}
