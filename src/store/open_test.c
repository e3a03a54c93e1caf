/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opening a store that cannot be opened: bad options, parts that are too small, and no random
 * numbers. */

#include <weir/weir_store.h>

#include "store/image/image_kit_test.h"
#include "store/reserve.h"
#include "store/store.h"

static bool no_random;

weir_status __real_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len)
{
    return no_random ? WEIR_E_IO : __real_port_random(buf, len);
}

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* Opening must fail, with this message after the path, if there is one. */
static void must_not_open(fixture *f, weir_status expected, const char *text)
{
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, &f->options), expected);
    assert_null(s);
    size_t skip = expected == WEIR_E_RANGE ? 0 : strlen(f->path) + 2;
    assert_string_equal(f->error.text + skip, text);
}

static void must_open_store(fixture *f)
{
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, &f->options), WEIR_OK);
    weir_store_close(s);
}

static void bad_options(void **state)
{
    fixture *f = *state;
    static const char read_only[] =
        "'read_only' requires 'file', and cannot be combined with 'reset'";
    weir_store_options *o = &f->options, good = *o;
    o->read_only = true;
    o->reset = true;
    must_not_open(f, WEIR_E_RANGE, read_only);
    o->reset = false;
    o->file = NULL;
    must_not_open(f, WEIR_E_RANGE, read_only);
    *o = good;
    o->file = NULL;
    *o = good;
    o->prefault = true;
    must_not_open(f, WEIR_E_RANGE, "'prefault' cannot be combined with 'file'");
    *o = good;
    o->file = NULL;
    o->memory_bytes = MIB - 1;
    must_not_open(f, WEIR_E_RANGE, "the memory has 1048575 bytes, expected at least 1 MiB");
    o->memory_bytes = MIB;
    must_open_store(f);
    o->large_bytes = 64 * KIB - 1;
    must_not_open(f, WEIR_E_RANGE,
                  "the memory for large states has 65535 bytes, expected at least 64 KiB, and at "
                  "least 64 KiB less than the whole memory of 1048576 bytes");
    *o = good;
    o->memory_bytes = 8 * MIB - 1;
    must_not_open(f, WEIR_E_RANGE,
                  "the memory has 8388607 bytes, expected at least 8 MiB for a file");
    o->memory_bytes = 9 * MIB;
    o->large_bytes = 4 * MIB;
    must_not_open(f, WEIR_E_RANGE,
                  "without the memory for large states there are 5242880 bytes, expected at least "
                  "6 MiB for a file");
    o->ret_error = NULL;
    assert_int_equal(count_files(f), 0);
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, o), WEIR_E_RANGE);
    o->memory_bytes = 8 * MIB;
    o->large_bytes = 0;
    must_open_store(f);
}

/* A file with a valid header and a part that is too small. It can be reset. */
static void small_parts(void **state)
{
    fixture *f = *state;
    static const size_t sizes[][3] = {
        {WEIR_TABLE_BYTES_MIN - 1, LARGE, RESERVED},
        {TABLE, WEIR_LARGE_BYTES_MIN - 1, RESERVED},
        {TABLE, LARGE, WEIR_RESERVE_BYTES_MIN - 1},
    };
    f->options.memory_bytes = 8 * MIB;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weir_image *m = NULL;
        assert_int_equal(weir_image_open(&m, &f->options, sizes[i][0], sizes[i][1], sizes[i][2]),
                         WEIR_OK);
        weir_image_close(m);
        must_not_open(f, WEIR_E_SYNTAX,
                      "the sizes in its header are inconsistent; --reset-state replaces it with an "
                      "empty file");
        assert_int_equal(access(f->lock, F_OK), -1);
        f->options.reset = true;
        must_open_store(f);
        f->options.reset = false;
        must_open_store(f);
        unlink(f->path);
    }
}

/* A new store needs random numbers, and so does a known one, for the ids of reservations. */
static void no_random_numbers(void **state)
{
    fixture *f = *state;
    static const char text[] = "the system returned no random numbers";
    f->options.memory_bytes = 8 * MIB;
    no_random = true;
    must_not_open(f, WEIR_E_IO, text);
    assert_int_equal(count_files(f), 0);
    no_random = false;
    must_open_store(f);
    no_random = true;
    must_not_open(f, WEIR_E_IO, text);
    no_random = false;
    must_open_store(f);
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
}

static size_t memory_max(const fixture *f, size_t *ret_large)
{
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, &f->options), WEIR_OK);
    weir_store_stats stats = weir_store_stats_get(s);
    *ret_large = stats.large_max;
    weir_store_close(s);
    return stats.memory_max;
}

/* With keep_size, the first opening of a file and later ones leave its size as it is. */
static void kept_sizes(void **state)
{
    fixture *f = *state;
    static const weir_store_partition one[] = {{"a", 0, 64 * KIB}};
    size_t large;
    weir_store_options *o = &f->options;
    for (int shared = 0; shared <= 1; shared++) {
        o->shared = shared;
        o->keep_size = true;
        o->reset = true;
        o->memory_bytes = 8 * MIB;
        o->large_bytes = MIB;
        assert_int_equal(memory_max(f, &large), 8 * MIB); /* a new file has the requested sizes */
        o->reset = false;
        o->memory_bytes = 16 * MIB;
        o->large_bytes = 2 * MIB;
        o->partitions = one;
        o->partitions_len = 1;
        assert_int_equal(memory_max(f, &large), 8 * MIB);
        assert_int_equal(large, MIB);
        if (shared) {
            weir_store *first = NULL;
            assert_int_equal(weir_store_open(&first, o), WEIR_OK);
            assert_int_equal(memory_max(f, &large), 8 * MIB);
            assert_int_equal(weir_store_partitions(first, NULL, 0), 0);
            weir_store_close(first);
        }
        o->keep_size = false;
        assert_int_equal(memory_max(f, &large), 16 * MIB);
        assert_int_equal(large, 2 * MIB);
        o->partitions_len = 0;
    }
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        IN_DIR(bad_options),
        IN_DIR(small_parts),
        IN_DIR(no_random_numbers),
        IN_DIR(kept_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
