/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* How much disk space a new state file needs. The file system is a fake (see meson.build);
 * check_test.sh has the other checks of the machine. */

#include "cmd/config/config.h"
#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    fsblkcnt_t free; /* blocks of 4096 bytes */
    bool fails;
    char dir[64]; /* that was asked about */
} disk;

int __wrap_statvfs64(const char *path, struct statvfs *ret);

int __wrap_statvfs64(const char *path, struct statvfs *ret)
{
    snprintf(disk.dir, sizeof disk.dir, "%s", path);
    *ret = (struct statvfs){.f_bavail = disk.free, .f_frsize = 4096};
    return disk.fails ? -1 : 0;
}

static char dir[] = "/tmp/weir-preflight-XXXXXX";

static void expect(const char *file, const char *expected)
{
    char *errors = NULL;
    size_t len = 0;
    FILE *f = fopen("weir.yaml", "w"), *out = open_memstream(&errors, &len);
    assert_true(f && out);
    fprintf(f, "listen: {resp: '127.0.0.1:0'}\nmemory: {size: 64m, file: %s}\n", file);
    fclose(f);
    const config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    weir_status st = config_load_and_preflight("weir.yaml", NULL, &sink, &c);
    fclose(out);
    errors[strcspn(errors, "\n")] = '\0';
    assert_string_equal(errors, expected);
    assert_int_equal(st, expected[0] ? WEIR_E_SYNTAX : WEIR_OK);
    config_free(c);
    free(errors);
}

#define NEEDS                                                                                      \
    "weir.yaml:2:27: error: memory.file: not enough disk space: the state file needs 64m, and "

static void check_space(void **unused)
{
    (void)unused;
    char text[200], path[64];
    disk.free = (64 << 20) / 4096;
    expect("state", "");
    assert_string_equal(disk.dir, ".");
    disk.free--;
    expect("state", NEEDS ". has 63m free");
    if (access("/", W_OK) == 0)
        expect("/state", NEEDS "/ has 63m free");
    snprintf(text, sizeof text, NEEDS "%s has 63m free", dir);
    snprintf(path, sizeof path, "%s/state", dir);
    expect(path, text);
    disk.free = 0;
    expect("state", NEEDS ". has 0 free");
    disk.fails = true; /* unknown */
    expect("state", "");
}

static int make_dir(void **unused)
{
    (void)unused;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int remove_dir(void **unused)
{
    (void)unused;
    (void)unlink("weir.yaml");
    return chdir("/") == 0 && rmdir(dir) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_space),
    };
    return cmocka_run_group_tests_name("config-preflight", tests, make_dir, remove_dir);
}
