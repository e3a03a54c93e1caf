/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_IMAGE_KIT_TEST_H
#define WEIR_STORE_IMAGE_KIT_TEST_H
/* A kit for the tests of images: a directory for the file, and functions to open, inspect and
 * damage it. */

#include "store/image/file_header.h"
#include "store/image/image.h"
#include "tests/kit/kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TABLE = 3 << 20, LARGE = 100000, RESERVED = 4096 };

typedef struct fixture {
    char dir[64], path[80], beside[96], lock[96];
    weir_store_error error;
    weir_store_opened opened;
    weir_store_options options;
} fixture;

static int make_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%.40s/weir-image-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->path, sizeof f->path, "%s/state", f->dir);
    snprintf(f->beside, sizeof f->beside, "%s.new", f->path);
    snprintf(f->lock, sizeof f->lock, "%s.lock", f->path);
    f->options =
        (weir_store_options){.file = f->path, .ret_error = &f->error, .ret_opened = &f->opened};
    *state = f;
    return 0;
}

static int drop_fixture(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    unlink(f->beside);
    unlink(f->lock);
    rmdir(f->dir);
    free(f);
    return 0;
}

static inline weir_image *must_open(fixture *f)
{
    weir_image *m = NULL;
    f->error.text[0] = '\0';
    weir_status st = weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED);
    assert_string_equal(f->error.text, "");
    assert_int_equal(st, WEIR_OK);
    return m;
}

/* Opening must fail. `text` is the message after the path; NULL: any one-line message. */
static inline void must_refuse(fixture *f, weir_status expected, const char *text)
{
    weir_image *m = NULL;
    memset(f->error.text, 'x', sizeof f->error.text);
    assert_int_equal(weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED), expected);
    assert_null(m);
    assert_non_null(memchr(f->error.text, '\0', sizeof f->error.text));
    assert_null(strchr(f->error.text, '\n'));
    const char *behind = strstr(f->error.text, ": ");
    assert_non_null(behind);
    if (text)
        assert_string_equal(behind + 2, text);
}

/* The same for a message about a file beside the state file. */
static inline void must_refuse_beside(fixture *f, const char *suffix, const char *text)
{
    must_refuse(f, WEIR_E_IO, text);
    const char *path = strstr(f->error.text, ": ");
    size_t len = strlen(suffix);
    assert_true((size_t)(path - f->error.text) == strlen(f->path) + len);
    assert_memory_equal(path - len, suffix, len);
}

static inline bool is_all(weir_part p, uint8_t byte)
{
    const uint8_t *at = p.at;
    return at[0] == byte && memcmp(at, at + 1, p.bytes - 1) == 0;
}

static inline bool is_zero(weir_part p)
{
    return is_all(p, 0);
}

/* Counts the files in the directory, without the lock file. */
static inline int count_files(const fixture *f)
{
    int n = 0;
    DIR *d = opendir(f->dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2 - (access(f->lock, F_OK) == 0);
}

static inline void write_at(const fixture *f, size_t at, const void *bytes, size_t len)
{
    int fd = open(f->path, O_WRONLY);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
    close(fd);
}

static inline void set_word(const fixture *f, size_t at, uint64_t word)
{
    write_at(f, at, &word, sizeof word);
}

static inline void read_head(const fixture *f, uint8_t ret[WEIR_FILE_HEADER_BYTES])
{
    int fd = open(f->path, O_RDONLY);
    assert_int_equal(pread(fd, ret, WEIR_FILE_HEADER_BYTES, 0), WEIR_FILE_HEADER_BYTES);
    close(fd);
}

#endif
