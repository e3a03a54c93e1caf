/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opening a store that cannot be opened: bad options, parts that are too small, and no random
 * numbers. */

#include <weir/weir_store.h>

#include "store/image/image_kit_test.h"
#include "store/iterate.h"
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

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { OWN, IN_FILE, CALLERS }; /* whose memory it is */

static weir_store_options options_of(int whose, size_t memory, size_t large)
{
    return (weir_store_options){.memory_bytes = memory,
                                .large_bytes = large,
                                .file = whose == IN_FILE ? "state" : NULL,
                                .memory = whose == CALLERS ? (void *)(uintptr_t)4096 : NULL};
}

/* Checks the sizes. `text` is the message; NULL: they are good. */
static void expect_sizes(weir_store_options o, const char *text)
{
    weir_store_error error = {""};
    o.ret_error = &error;
    weir_status st = weir_store_check_sizes(&o);
    assert_string_equal(error.text, text ? text : "");
    assert_int_equal(st, text ? WEIR_E_RANGE : WEIR_OK);
}

/* Each limit, and one byte beyond it. */
static void limits_of_sizes(void **state)
{
    (void)state;
    static const struct {
        int whose;
        size_t memory, large;
        const char *text;
    } cases[] = {
        {OWN, 0, 0, NULL},
        {OWN, 0, (256 << 20) - 65536, NULL},
        {OWN, 0, (256 << 20) - 65535,
         "the memory for large states has 268369921 bytes, expected at least 64 KiB, and at least "
         "64 KiB less than the whole memory of 268435456 bytes"},
        {OWN, MIB, 65536, NULL},
        {OWN, MIB, MIB - 65536, NULL},
        {OWN, MIB, MIB - 65535,
         "the memory for large states has 983041 bytes, expected at least 64 KiB, and at least 64 "
         "KiB less than the whole memory of 1048576 bytes"},
        {IN_FILE, 8 * MIB, 0, NULL},
        {IN_FILE, 9 * MIB, 3846144, NULL},
        {IN_FILE, 9 * MIB, 3846145,
         "without the memory for large states there are 5591039 bytes, expected at least 6 MiB for "
         "a file"},
        {CALLERS, MIB, 352256, NULL},
        {CALLERS, MIB + 4095, 352256 + 4095, NULL}, /* both are rounded down */
        {CALLERS, MIB, 356352,
         "the memory for large states leaves 585728 of 1048576 bytes for the hash table, expected "
         "at least 576 KiB"},
        {CALLERS, MIB, 978944,
         "the memory for large states leaves 0 of 1048576 bytes for the hash table, expected at "
         "least 576 KiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_sizes(options_of(cases[i].whose, cases[i].memory, cases[i].large), cases[i].text);
}

/* What partitions must leave, and their smallest sizes. */
static void limits_of_partitions(void **state)
{
    (void)state;
    static const char small[] = "the partitions leave too little of the %zu bytes for small "
                                "states, expected 10 %% of them and at least %zu bytes";
    static const char large[] = "the partitions leave too little of the %zu bytes for large "
                                "states, expected 10 %% of them and at least 68 KiB";
    static const struct {
        int whose;
        size_t memory, large, n;
        weir_store_partition good[2]; /* of which the last size cannot be one byte larger */
        const char *text;             /* that says so */
        size_t area, least;           /* in the text */
    } cases[] = {
        {OWN, 16 * MIB, 0, 1, {{"a", 11324622, 0}}, small, 12 * MIB, 835584},
        {OWN, 16 * MIB, 0, 2, {{"b", 6000000, 0}, {"a", 5324622, 0}}, small, 12 * MIB, 835584},
        {OWN, 16 * MIB, 0, 1, {{"a", 0, 3774874}}, large, 4 * MIB, 0},
        {OWN, 16 * MIB, 0, 2, {{"a", 65536, 70000}, {"b", 0, 3704874}}, large, 4 * MIB, 0},
        {OWN, 16 * MIB, 200000, 1, {{"a", 0, 130368}}, large, 200000, 0},
        {OWN, MIB, 69632, 1, {{"a", 872448, 0}}, small, 978944, 106496},
        {IN_FILE, 18 * MIB, 4718592, 1, {{"a", 8028160, 0}}, small, 14155776, 6127616},
        {CALLERS, 2 * MIB, 0, 1, {{"a", 761856, 0}}, small, 1437696, 675840},
        {CALLERS, 2 * MIB, 4095 + 512 * KIB, 1, {{"a", 761856, 0}}, small, 1437696, 675840},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        weir_store_partition of[2] = {cases[i].good[0], cases[i].good[1]};
        weir_store_options o = options_of(cases[i].whose, cases[i].memory, cases[i].large);
        o.partitions = of;
        o.partitions_len = cases[i].n;
        expect_sizes(o, NULL);
        weir_store_partition *last = &of[cases[i].n - 1];
        *(last->large_bytes > 0 ? &last->large_bytes : &last->table_bytes) += 1;
        snprintf(text, sizeof text, cases[i].text, cases[i].area, cases[i].least);
        expect_sizes(o, text);
    }
    /* The rest for large states is too small, even if no partition has any. */
    weir_store_options o = options_of(OWN, MIB, 69631);
    o.partitions = &(weir_store_partition){"a", 65536, 0};
    o.partitions_len = 1;
    expect_sizes(o, "the partitions leave too little of the 69631 bytes for large states, expected "
                    "10 % of them and at least 68 KiB");
}

static void smallest_partitions(void **state)
{
    (void)state;
    static const char text[] = "the partition 'a' has %zu bytes%s, expected at least %s";
    static const struct {
        int whose;
        size_t table, large;
        const char *least;
    } cases[] = {
        {OWN, 65536, 0, "64 KiB"},
        {IN_FILE, 5 * MIB, 0, "5 MiB for a file"},
        {CALLERS, 576 * KIB, 0, "576 KiB in memory of the caller"},
        {OWN, 0, 65536, "64 KiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t least = cases[i].table + cases[i].large, tried[] = {least - 1, 1};
        bool large = cases[i].large > 0;
        char expected[128];
        weir_store_partition a = {"a", cases[i].table, cases[i].large};
        weir_store_options o = options_of(cases[i].whose, 32 * MIB, 0);
        o.partitions = &a;
        o.partitions_len = 1;
        expect_sizes(o, NULL);
        for (size_t k = 0; k < 2; k++) {
            *(large ? &a.large_bytes : &a.table_bytes) = tried[k];
            snprintf(expected, sizeof expected, text, tried[k], large ? " for large states" : "",
                     cases[i].least);
            expect_sizes(o, expected);
        }
        a.table_bytes = a.large_bytes = 0;
        expect_sizes(o, "the partition 'a' has no memory");
    }
}

static void names_of_partitions(void **state)
{
    (void)state;
    static const char bad[] = "partition 1: expected a name of 1 to 64 printable ASCII characters "
                              "without space, quote and backslash";
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"!", NULL},    {"~", NULL},
        {NULL, bad},    {"", bad},
        {"b ", bad},    {" b", bad},
        {"b\x7F", bad}, {"\"", bad},
        {"b\\", bad},   {"first", "two partitions have the name 'first'"},
        {"firs", NULL}, {"first2", NULL},
    };
    weir_store_partition of[2] = {{"first", 65536, 0}, {"", 65536, 0}};
    weir_store_options o = options_of(OWN, 16 * MIB, 0);
    o.partitions = of;
    o.partitions_len = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        of[1].name = cases[i].name;
        expect_sizes(o, cases[i].text);
    }
    char name[66];
    memset(name, 'n', sizeof name);
    for (size_t len = 1; len < sizeof name; len++) {
        name[len] = '\0';
        of[1].name = name;
        expect_sizes(o, len <= 64 ? NULL : bad);
        name[len] = 'n';
    }
    of[0].name = "p6803"; /* equal in 24 bits of their hashes */
    of[1].name = "p7566";
    expect_sizes(o, "the partitions 'p7566' and 'p6803' have colliding names; rename one");
}

static void the_most_partitions(void **state)
{
    (void)state;
    weir_store_partition of[16];
    char names[16][4];
    weir_store_options o = options_of(OWN, 16 * MIB, 0);
    for (size_t i = 0; i < 16; i++) {
        snprintf(names[i], sizeof names[i], "%d", (int)i);
        of[i] = (weir_store_partition){names[i], 65536, 0};
    }
    o.partitions = of;
    o.partitions_len = 15;
    expect_sizes(o, NULL);
    of[14].table_bytes = 65535;
    expect_sizes(o, "the partition '14' has 65535 bytes, expected at least 64 KiB");
    o.partitions_len = 16;
    expect_sizes(o, "16 partitions, expected at most 15");
}

/* How the memory is divided: one sixteenth of what is not for large states is reserved. */
static void parts_of_the_memory(void **state)
{
    (void)state;
    static const struct {
        size_t memory, large_bytes, table, large, reserved;
    } cases[] = {
        {MIB, 196624, 802800, 196624, 49152},
        {16 * MIB, 0, 11796480, 4 * MIB, 786432},
        {256 * MIB, 0, 192 * MIB - 4718720, 64 * MIB, 4718720},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_store *s = NULL;
        weir_store_options o = options_of(OWN, cases[i].memory, cases[i].large_bytes);
        assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
        weir_image_parts parts = weir_image_parts_get(s->image);
        assert_int_equal(parts.table.bytes, cases[i].table);
        assert_int_equal(parts.large.bytes, cases[i].large);
        assert_int_equal(parts.reserved.bytes, cases[i].reserved);
        assert_int_equal(weir_store_stats_get(s).memory_max, cases[i].memory);
        assert_int_equal(weir_store_stats_get(s).large_max, cases[i].large);
        assert_false(s->hash.folded); /* only in memory of the caller */
        weir_store_close(s);
    }
}

static void flags_of_memory(void **state)
{
    (void)state;
    static const char together[] =
        "'memory' cannot be combined with 'file', 'reset', 'read_only' or 'prefault'";
    weir_store_error error = {""};
    for (int i = 0; i < 5; i++) {
        weir_store *s = NULL;
        weir_store_options o = options_of(CALLERS, 0, 0);
        o.ret_error = &error;
        o.file = i == 0 ? "state" : NULL;
        o.reset = i == 1;
        o.prefault = i == 2;
        o.memory = i == 3 ? (void *)(uintptr_t)4097 : o.memory;
        o.memory_bytes = i == 3 ? MIB : 0;
        assert_int_equal(weir_store_open(&s, &o), WEIR_E_RANGE);
        assert_null(s);
        assert_string_equal(error.text, i < 3    ? together
                                        : i == 3 ? "'memory' does not begin on a page of 4096 bytes"
                                                 : "'memory' requires 'memory_bytes'");
    }
}

/* Reservations have one sixty-fourth of three quarters of the memory, if more fit there. */
static void room_for_reservations(void **unused)
{
    (void)unused;
    const size_t page = 4096, enough = (WEIR_RESERVE_BYTES_CHAINED + page - 1) / page * page;
    const struct {
        size_t bytes;
        bool many;
    } rows[] = {{enough / 3 * 256 + 128 * page, true}, {enough / 3 * 256 - 64 * page, false}};
    for (size_t i = 0; i < 2; i++) {
        weir_store *s = NULL;
        const weir_store_options o = {.memory_bytes = rows[i].bytes};
        assert_int_equal(weir_store_open(&s, &o), WEIR_OK);
        uint64_t max = weir_reserve_stats_get(s->reserved).max;
        assert_int_equal(max > WEIR_RESERVE_UNCHAINED_MAX, rows[i].many);
        assert_true(max >= WEIR_RESERVE_UNCHAINED_MAX);
        weir_store_close(s);
    }
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_fixture, drop_fixture)
    const struct CMUnitTest tests[] = {
        IN_DIR(bad_options),
        IN_DIR(small_parts),
        IN_DIR(no_random_numbers),
        IN_DIR(kept_sizes),
        cmocka_unit_test(limits_of_sizes),
        cmocka_unit_test(limits_of_partitions),
        cmocka_unit_test(smallest_partitions),
        cmocka_unit_test(names_of_partitions),
        cmocka_unit_test(the_most_partitions),
        cmocka_unit_test(parts_of_the_memory),
        cmocka_unit_test(flags_of_memory),
        cmocka_unit_test(room_for_reservations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
