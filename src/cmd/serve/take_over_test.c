/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The memory of a store that can be passed to another process, on kernels of all ages.
 * memfd_create() is a fake (see meson.build); tests/e2e/hand_over_test.py hands over. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/serve/parts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { BYTES = 4 << 20, NOEXEC_SEAL = 8 };

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

static struct {
    int fails;        /* with this errno */
    unsigned refused; /* calls with any of these flags fail; UINT32_MAX: all calls */
    unsigned calls, flags;
} fake;

int __wrap_memfd_create(const char *name, unsigned flags)
{
    assert_string_equal(name, "weir");
    fake.calls++;
    fake.flags = flags;
    if (fake.refused & flags) {
        errno = fake.fails;
        return -1;
    }
    return __real_memfd_create(name, flags & ~(unsigned)NOEXEC_SEAL); /* this kernel may be old */
}

static weir_status open_store(take_over *t, weir_store_error *error)
{
    fake.calls = 0;
    *t = (take_over){.has_socket = true, .memory_fd = -1, .from = NET_TAKE_OVER_NONE};
    return take_over_open_store(t,
                                &(weir_store_options){.memory_bytes = BYTES, .ret_error = error});
}

static void memory_for_a_hand_over(void **unused)
{
    (void)unused;
    static const struct {
        unsigned refused, calls, flags;
    } rows[] = {{0, 1, MFD_CLOEXEC | NOEXEC_SEAL}, {NOEXEC_SEAL, 2, MFD_CLOEXEC}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        take_over t;
        weir_store_error error = {""};
        struct stat st;
        fake.refused = rows[i].refused;
        fake.fails = EINVAL; /* before Linux 6.3 */
        assert_int_equal(open_store(&t, &error), WEIR_OK);
        assert_int_equal(fake.calls, rows[i].calls);
        assert_int_equal(fake.flags, rows[i].flags);
        assert_int_equal(fstat(t.memory_fd, &st), 0);
        assert_int_equal(st.st_size, BYTES);
        assert_non_null(t.store);
        take_over_close_store(&t);
        assert_int_equal(t.memory_fd, -1);
    }
}

static void no_memory_for_a_hand_over(void **unused)
{
    (void)unused;
    static const struct {
        unsigned refused;
        int fails;
        unsigned calls;
    } rows[] = {{NOEXEC_SEAL, EMFILE, 1}, {UINT32_MAX, EINVAL, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        take_over t;
        weir_store_error error = {""};
        fake.refused = rows[i].refused;
        fake.fails = rows[i].fails;
        assert_int_equal(open_store(&t, &error), WEIR_E_NOMEM);
        assert_int_equal(fake.calls, rows[i].calls);
        assert_string_equal(error.text, "memory: out of memory");
        take_over_close_store(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_for_a_hand_over),
        cmocka_unit_test(no_memory_for_a_hand_over),
    };
    return cmocka_run_group_tests_name("take_over", tests, NULL, NULL);
}
