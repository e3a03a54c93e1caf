/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Images in files: what survives, what is refused, who may have one open. Other processes are
 * forked before they open anything, so that no lock is theirs by inheritance. */

#include "store/image.h"

#include "port/file.h"
#include "store/image_head.h"
#include "store/registry.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TABLE = 3 << 20, LARGE = 100000, RESERVED = 4096 };

typedef struct fixture {
    char dir[64], path[80], beside[96];
    weir_store_error error;
    weir_store_opened opened;
    weir_store_options options;
} fixture;

static int make_dir(void **state)
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
    f->options =
        (weir_store_options){.file = f->path, .ret_error = &f->error, .ret_opened = &f->opened};
    *state = f;
    return 0;
}

static int drop_dir(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    unlink(f->beside);
    rmdir(f->dir);
    free(f);
    return 0;
}

static weir_image *must_open(fixture *f)
{
    weir_image *m = NULL;
    f->error.text[0] = '\0';
    weir_status st = weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED);
    if (st != WEIR_OK)
        print_error("%s\n", f->error.text);
    assert_int_equal(st, WEIR_OK);
    return m;
}

static void survives(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    assert_true(weir_image_is_new(m));
    weir_image_parts p = weir_image_parts_get(m);
    memset(p.table.at, 0x5A, p.table.bytes);
    weir_image_close(m);
    m = must_open(f);
    assert_false(weir_image_is_new(m));
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
    p = weir_image_parts_get(m);
    assert_int_equal(((uint8_t *)p.table.at)[p.table.bytes - 1], 0x5A);
    weir_image_close(m);
}

static void a_second_is_refused(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f), *second = NULL;
    assert_int_equal(weir_image_open(&second, &f->options, TABLE, LARGE, RESERVED), WEIR_E_BUSY);
    print_message("%s\n", f->error.text);
    weir_image_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(survives, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_second_is_refused, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
