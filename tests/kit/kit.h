/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_KIT_H
#define WEIR_TESTS_KIT_H
/* What many unit tests need: policies from their texts, a directory of the test's own with files in
 * it, and a completion that counts. */

#include <weir/weir.h>

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static inline weir_policy policy_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

/* ---- completions ----------------------------------------------------------------------------- */

/* The `ready` of a weir_completion whose `ctx` is an int. */
static inline void count_ready(void *ctx)
{
    ++*(int *)ctx;
}

/* ---- files ----------------------------------------------------------------------------------- */

static inline void write_bytes(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

static inline void write_file(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static char test_dir[] = "/tmp/weir-test-XXXXXX";

/* For setup: makes a directory, and it the current one. */
static inline int make_dir(void **unused)
{
    (void)unused;
    return mkdtemp(test_dir) && chdir(test_dir) == 0 ? 0 : -1;
}

static inline void remove_all(const char *path)
{
    char below[512];
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        bool itself = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (!itself && remove(below) != 0)
            remove_all(below);
    }
    if (d)
        closedir(d);
    (void)rmdir(path);
}

/* For teardown: removes the directory and what the tests left in it. */
static inline int remove_dir(void **unused)
{
    (void)unused;
    remove_all(test_dir);
    return chdir("/") == 0 && access(test_dir, F_OK) != 0 ? 0 : -1;
}

#endif
