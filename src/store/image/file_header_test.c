/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Headers of state files and of memory: layouts, partitions, and what is wrong with a damaged
 * one. */

#include "store/image/file_header.h"

#include "store/image/policy_registry.h"
#include "store/image/shared_memory.h"
#include "store/kit_test.h"
#include "store/siphash.h"

#include <stdio.h>

enum { PAGE = 4096, KIB = 1 << 10, MIB = 1 << 20, REGISTRY = WEIR_POLICY_REGISTRY_BYTES };

static const uint8_t secret[16] = "sixteen letters";

/* ---- layouts --------------------------------------------------------------------------------- */

static void parts_follow_each_other(void **unused)
{
    (void)unused;
    const uint64_t huge = 2 * MIB, most = UINT64_C(1) << 56;
    const struct {
        uint64_t processes, bytes[WEIR_PARTS], at[WEIR_PARTS], all;
    } cases[] = {
        {0, {1, 1, 1, 1}, {PAGE, 2 * PAGE, 3 * PAGE, 4 * PAGE}, 5 * PAGE},
        {0, {PAGE, PAGE + 1, 1, 1}, {PAGE, 2 * PAGE, 4 * PAGE, 5 * PAGE}, 6 * PAGE},
        {0, {1, 1, huge - 1, huge}, {PAGE, 2 * PAGE, 3 * PAGE, 2 * huge}, 3 * huge},
        {0, {1, 1, huge, huge + 1}, {PAGE, 2 * PAGE, huge, 2 * huge}, 3 * huge + PAGE},
        {PAGE, {1, 1, huge, huge}, {2 * PAGE, 3 * PAGE, 4 * PAGE, 4 * PAGE + huge}, 0},
        {1, {1, 1, 1, 1}, {2 * PAGE, 3 * PAGE, 4 * PAGE, 5 * PAGE}, 6 * PAGE},
        {0, {1, 1, 1, most}, {PAGE, 2 * PAGE, 3 * PAGE, huge}, most + huge},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_file_header h = {.processes.bytes = cases[i].processes};
        assert_true(weir_file_header_lay_out(&h, cases[i].bytes));
        for (size_t k = 0; k < WEIR_PARTS; k++) {
            assert_int_equal(h.parts[k].at, cases[i].at[k]);
            assert_int_equal(h.parts[k].bytes, cases[i].bytes[k]);
        }
        assert_int_equal(h.bytes, cases[i].all ? cases[i].all : 4 * PAGE + 2 * huge);
        assert_int_equal(h.processes.at, cases[i].processes ? PAGE : 0);
    }
    for (size_t i = 0; i < WEIR_PARTS; i++) {
        weir_file_header h = {.bytes = 0};
        uint64_t none[WEIR_PARTS] = {1, 1, 1, 1}, more[WEIR_PARTS] = {1, 1, 1, 1};
        none[i] = 0;
        more[i] = most + 1;
        assert_false(weir_file_header_lay_out(&h, none));
        assert_false(weir_file_header_lay_out(&h, more));
    }
}

/* ---- a header -------------------------------------------------------------------------------- */

static const weir_store_partition three[] = {
    {"b", 3 * PAGE + 4095, 0}, {"ab", PAGE, 2 * PAGE + 1}, {"a", 0, 5 * PAGE}};

/* A sound header of a file or of memory. */
static weir_file_header header(size_t partitions, bool in_memory)
{
    weir_file_header h = {.processes.bytes = in_memory ? 8 * PAGE : 0};
    const uint64_t bytes[WEIR_PARTS] = {REGISTRY, PAGE, PAGE, 3 * PAGE};
    const weir_store_options options = {.partitions = three, .partitions_len = partitions};
    weir_partitions_set(&h, &options);
    assert_true(weir_file_header_lay_out(&h, bytes));
    weir_file_header_init(&h, secret, 77);
    port_word_store_relaxed(&h.openings, 1);
    return h;
}

static void seal(weir_file_header *h)
{
    const weir_secret none = {0, 0};
    h->checksum = weir_siphash(none, h, WEIR_FILE_HEADER_FIXED);
}

static void must_refuse(const weir_file_header *h, uint64_t file_bytes, const char *text)
{
    char what[128] = "unwritten";
    bool is_file = h->format != WEIR_MEMORY_FORMAT;
    assert_false(is_file ? weir_file_header_check(h, file_bytes, false, what, sizeof what)
                         : weir_memory_header_check(h, what, sizeof what));
    assert_string_equal(what, text);
}

static void must_accept(const weir_file_header *h)
{
    char what[128] = "unwritten";
    assert_true(h->format == WEIR_IMAGE_FORMAT
                    ? weir_file_header_check(h, h->bytes, false, what, sizeof what)
                    : weir_memory_header_check(h, what, sizeof what));
    assert_string_equal(what, "unwritten");
}

static void a_new_header_is_sound(void **unused)
{
    (void)unused;
    for (size_t partitions = 0; partitions <= 3; partitions++) {
        for (int in_memory = 0; in_memory <= 1; in_memory++) {
            weir_file_header h = header(partitions, in_memory);
            must_accept(&h);
            assert_memory_equal(h.magic, weir_file_header_magic, sizeof h.magic);
            assert_int_equal(h.format, in_memory ? 0x10001 : 1);
            assert_int_equal(h.byte_order, 0x01020304);
            assert_int_equal(h.state_version, partitions > 0 ? 4 : 3);
            assert_int_equal(weir_file_header_version(&h), partitions > 0 ? 4 : 3);
            assert_int_equal(h.head_bytes, PAGE);
            assert_int_equal(h.made_ns, 77);
            assert_memory_equal(h.secret, secret, sizeof h.secret);
        }
    }
}

static void a_file_of_another_size(void **unused)
{
    (void)unused;
    weir_file_header h = header(0, false);
    char text[128];
    must_refuse(&h, 0, "it is empty");
    must_refuse(&h, 1, "it is not a state file of weir");
    must_refuse(&h, PAGE - 1, "it is not a state file of weir");
    const uint64_t sizes[] = {PAGE, h.bytes - 1, h.bytes + 1};
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "it has %llu bytes, expected %llu as in its header",
                 (unsigned long long)sizes[i], (unsigned long long)h.bytes);
        must_refuse(&h, sizes[i], text);
    }
}

#define WORD(member, text)                                                                         \
    {                                                                                              \
        offsetof(weir_file_header, member), text                                                   \
    }
#define INCONSISTENT "the sizes in its header are inconsistent"

static void an_older_version(void **unused)
{
    (void)unused;
    char what[128] = "unwritten";
    weir_file_header h = header(0, false);
    h.state_version = 2;
    seal(&h);
    must_refuse(&h, h.bytes,
                "its states have version 2, expected 3; weir state can export them for a new file");
    assert_true(weir_file_header_check(&h, h.bytes, true, what, sizeof what));
    assert_string_equal(what, "unwritten");
    h.state_version = 1;
    seal(&h);
    must_refuse(&h, h.bytes, "its states have version 1, expected 3, and cannot be converted");
    assert_false(weir_file_header_check(&h, h.bytes, true, what, sizeof what));
    h = header(1, false);
    h.state_version = 2; /* it had no partitions */
    seal(&h);
    must_refuse(&h, h.bytes, "its states have version 2, expected 4");
    assert_false(weir_file_header_check(&h, h.bytes, true, what, sizeof what));
    h = header(0, true);
    h.state_version = 2; /* memory is never only read */
    seal(&h);
    must_refuse(&h, h.bytes,
                "its states have version 2, expected 3; weir state can export them for a new file");
}

static void a_damaged_header(void **unused)
{
    (void)unused;
    static const struct {
        size_t at;
        const char *text;
    } damage[] = {
        /* the text if the checksum is right in spite of it */
        WORD(byte_order, "its header is damaged"),
        WORD(state_version, "its states have version 5, expected 4"),
        WORD(head_bytes, INCONSISTENT),
        WORD(bytes, INCONSISTENT),
        WORD(parts[0].at, INCONSISTENT),
        WORD(parts[0].bytes, INCONSISTENT),
        WORD(parts[1].bytes, INCONSISTENT),
        WORD(parts[3].at, INCONSISTENT),
        WORD(parts[3].bytes, INCONSISTENT),
        WORD(partitions[0].name_hash, "the names of its partitions are damaged"),
        WORD(partitions[2].name_hash, "the names of its partitions are damaged"),
        WORD(partitions[3].name_hash, "the names of its partitions are damaged"),
        WORD(partitions[14].name_hash, "the names of its partitions are damaged"),
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        for (int in_memory = 0; in_memory <= 1; in_memory++) {
            weir_file_header h = header(3, in_memory);
            ((uint8_t *)&h)[damage[i].at] ^= 1;
            must_refuse(&h, h.bytes, "its header is damaged");
            seal(&h);
            must_refuse(&h, h.bytes, damage[i].text);
            ((uint8_t *)&h)[damage[i].at] ^= 1;
            seal(&h);
            must_accept(&h);
        }
    }
}

static void other_damage(void **unused)
{
    (void)unused;
    weir_file_header h = header(0, false), good = h;
    h.byte_order = 0x04030201;
    must_refuse(&h, h.bytes, "it was created on a machine with another byte order");
    h = good;
    h.format = 7;
    must_refuse(&h, h.bytes, "it has format 7, expected 1");
    h = good;
    weir_file_header_complete(&h, false);
    must_refuse(&h, h.bytes, "it is an unfinished copy");
    weir_file_header_complete(&h, true);
    assert_memory_equal(&h, &good, sizeof h);
    h.checksum = 1;
    must_refuse(&h, h.bytes, "its header is damaged");
    h = good;
    port_word_store_relaxed(&h.openings, 0);
    must_refuse(&h, h.bytes, "its header is damaged");
    h = good;
    h.magic[7] ^= 1;
    must_refuse(&h, h.bytes, "it is not a state file of weir");
    h = header(0, true);
    h.magic[7] ^= 1;
    must_refuse(&h, 0, "it is not all zero, and has no store of weir; pass zeroed memory");
}

/* Sizes that a layout accepts, and a header does not. */
static void sizes_of_a_header(void **unused)
{
    (void)unused;
    const uint64_t most = UINT64_C(1) << 56;
    const struct {
        uint64_t processes, registry;
        bool good;
    } cases[] = {
        {0, REGISTRY - 1, false},    {0, REGISTRY, true},
        {0, REGISTRY + 1, false},    {PAGE, REGISTRY, true},
        {PAGE, REGISTRY + 1, false}, {PAGE, WEIR_POLICY_REGISTRY_MIN, true},
        {most, REGISTRY, true},      {PAGE, WEIR_POLICY_REGISTRY_MIN - 1, false},
        {most + 1, REGISTRY, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_file_header h = {.processes.bytes = cases[i].processes};
        const uint64_t bytes[WEIR_PARTS] = {cases[i].registry, PAGE, PAGE, PAGE};
        assert_true(weir_file_header_lay_out(&h, bytes));
        weir_file_header_init(&h, secret, 0);
        port_word_store_relaxed(&h.openings, 1);
        if (cases[i].good)
            must_accept(&h);
        else
            must_refuse(&h, h.bytes, INCONSISTENT);
    }
    /* The format and the process slots must agree. */
    weir_file_header h = header(0, true);
    h.format = WEIR_IMAGE_FORMAT;
    seal(&h);
    must_refuse(&h, h.bytes, INCONSISTENT);
    h = header(0, false);
    h.format = WEIR_MEMORY_FORMAT;
    seal(&h);
    must_refuse(&h, h.bytes, INCONSISTENT);
}

/* ---- partitions ------------------------------------------------------------------------------ */

/* Sorted by name in any order of the options, and rounded down to pages. */
static void partitions_are_sorted(void **unused)
{
    (void)unused;
    static const size_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        weir_store_partition of[3];
        weir_image_partition got[WEIR_PARTITIONS_MAX];
        weir_file_header h = {.bytes = 0};
        for (size_t k = 0; k < 3; k++)
            of[k] = three[orders[i][k]];
        const weir_store_options options = {.partitions = of, .partitions_len = 3};
        memset(got, 0, sizeof got);
        weir_partitions_set(&h, &options);
        assert_true(weir_partitions_sound(&h));
        assert_int_equal(weir_partitions_get(&h, NULL), 3);
        assert_int_equal(weir_partitions_get(&h, got), 3);
        for (size_t k = 0; k < 3; k++) {
            const weir_store_partition *p = &three[2 - k];
            assert_string_equal(got[k].name, p->name);
            assert_int_equal(got[k].table_bytes, p->table_bytes / PAGE * PAGE);
            assert_int_equal(got[k].large_bytes, p->large_bytes / PAGE * PAGE);
            assert_int_equal(got[k].name_hash, weir_partition_name_hash(p->name));
            for (size_t n = strlen(p->name); n < sizeof h.partition_names[k]; n++)
                assert_int_equal(h.partition_names[k][n], 0);
        }
        for (size_t k = 3; k < WEIR_PARTITIONS_MAX; k++)
            assert_int_equal(h.partitions[k].name_hash, 0);
    }
}

/* As many as possible, with the longest names. */
static void most_partitions(void **unused)
{
    (void)unused;
    weir_store_partition of[WEIR_PARTITIONS_MAX];
    char names[WEIR_PARTITIONS_MAX][WEIR_PARTITION_NAME_MAX + 1];
    weir_image_partition got[WEIR_PARTITIONS_MAX];
    weir_file_header h = {.bytes = 0};
    for (size_t i = 0; i < WEIR_PARTITIONS_MAX; i++) {
        memset(names[i], 'x', sizeof names[i]);
        names[i][WEIR_PARTITION_NAME_MAX - 1] = (char)('a' + i * 4 % 15);
        names[i][WEIR_PARTITION_NAME_MAX] = '\0';
        of[i] = (weir_store_partition){names[i], PAGE, PAGE};
    }
    const weir_store_options options = {.partitions = of, .partitions_len = WEIR_PARTITIONS_MAX};
    weir_partitions_set(&h, &options);
    assert_true(weir_partitions_sound(&h));
    assert_int_equal(weir_partitions_get(&h, got), WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < WEIR_PARTITIONS_MAX; i++) {
        assert_int_equal(strlen(got[i].name), WEIR_PARTITION_NAME_MAX);
        assert_int_equal(got[i].name[WEIR_PARTITION_NAME_MAX - 1], 'a' + i);
    }
    /* A name that is one byte longer, with its own hash. */
    h.partition_names[14][WEIR_PARTITION_NAME_MAX] = 'z';
    h.partitions[14].name_hash = weir_partition_name_hash(h.partition_names[14]);
    assert_false(weir_partitions_sound(&h));
}

static void set_name(weir_file_header *h, size_t i, const char *name)
{
    memset(h->partition_names[i], 0, sizeof h->partition_names[i]);
    memcpy(h->partition_names[i], name, strlen(name));
    h->partitions[i].name_hash = weir_partition_name_hash(name);
}

static void unsound_names(void **unused)
{
    (void)unused;
    weir_file_header h = header(3, false), good = h;
    set_name(&h, 1, "a"); /* twice */
    assert_false(weir_partitions_sound(&h));
    set_name(&h, 1, "c"); /* not sorted */
    assert_false(weir_partitions_sound(&h));
    set_name(&h, 1, "aa");
    assert_true(weir_partitions_sound(&h));
    h = good;
    h.partition_names[0][0] = 'A';
    assert_false(weir_partitions_sound(&h));
    h = good;
    h.partitions[1].name_hash = 0; /* a gap */
    assert_false(weir_partitions_sound(&h));
    assert_int_equal(weir_partitions_get(&h, NULL), 1);
}

/* ---- memory of the caller -------------------------------------------------------------------- */

static void sizes_in_memory(void **unused)
{
    (void)unused;
    const size_t slot = sizeof(port_presence);
    static const struct {
        size_t memory, slots, registry;
    } cases[] = {
        {MIB, 512, 32 * KIB},
        {MIB + 64 * 2048, 576, 36 * KIB},
        {MIB + 64 * 2048 - 1, 512, 32 * KIB},
        {4 * MIB - 1, 1984, 124 * KIB},
        {4 * MIB, 2048, 128 * KIB},
        {5 * MIB, 2048, 160 * KIB},
        {32 * (size_t)REGISTRY - 1, 2048, REGISTRY - PAGE},
        {32 * (size_t)REGISTRY, 2048, REGISTRY},
        {64 * (size_t)REGISTRY, 2048, REGISTRY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t processes = weir_shared_memory_processes(cases[i].memory);
        uint64_t registry = weir_shared_memory_registry(cases[i].memory);
        assert_int_equal(processes, cases[i].slots * slot);
        assert_int_equal(registry, cases[i].registry);
        assert_int_equal(weir_shared_memory_overhead(cases[i].memory), PAGE + processes + registry);
    }
}

static void a_header_in_memory_is_published(void **unused)
{
    (void)unused;
    weir_file_header head = header(2, true);
    weir_file_header *h = part_of(9 * PAGE);
    uint64_t slots_len = 8 * PAGE / sizeof(port_presence);
    memset(h, 0x5A, 9 * PAGE);
    memset(h->magic, 0, sizeof h->magic);
    assert_true(weir_shared_memory_is_new(h));
    assert_true(weir_shared_memory_init(h, &head, secret));
    assert_true(weir_shared_memory_is_new(h));
    weir_process_slots slots = weir_shared_memory_slots(h);
    assert_ptr_equal(slots.slot, (char *)h + PAGE);
    assert_int_equal(slots.len, slots_len);
    for (uint64_t i = 0; i < slots_len; i++)
        assert_false(port_presence_is_held(&slots.slot[i], i));
    assert_true(port_presence_take(&slots.slot[slots_len - 1], 5));
    port_presence_release(&slots.slot[slots_len - 1]);
    weir_shared_memory_publish(h);
    assert_false(weir_shared_memory_is_new(h));
    assert_memory_equal(h, &head, sizeof head);
    assert_true(head.made_ns > 1000 * s_ns);
    must_accept(h);
    munmap(h, 9 * PAGE);
}

static void must_differ(const weir_file_header *h, const weir_file_header *wanted,
                        const uint8_t *given, weir_status expected, const char *text)
{
    weir_store_error error = {""};
    const weir_store_options options = {.ret_error = &error, .secret = given};
    assert_int_equal(weir_shared_memory_check(h, wanted, &options), expected);
    assert_string_equal(error.text, text);
}

static void memory_of_another_layout(void **unused)
{
    (void)unused;
    static const uint8_t another[16] = "sixteen letterz";
    const weir_file_header wanted = header(3, true);
    weir_file_header h = wanted;
    must_differ(&h, &wanted, NULL, WEIR_OK, "");
    must_differ(&h, &wanted, secret, WEIR_OK, "");
    must_differ(&h, &wanted, another, WEIR_E_RANGE,
                "memory: the secret of its store differs from the one given");
    h.secret[0] ^= 1;
    must_differ(&h, &wanted, NULL, WEIR_E_SYNTAX, "memory: its header is damaged");

    const uint64_t bytes[][WEIR_PARTS] = {{REGISTRY, PAGE, 2 * PAGE, 2 * PAGE},
                                          {REGISTRY, PAGE, PAGE, 4 * PAGE},
                                          {REGISTRY, 2 * PAGE, PAGE, 2 * PAGE}};
    static const char *const texts[] = {
        "memory: its store has 1175552 bytes, 8192 of them for large states, requested are 1175552 "
        "bytes, 4096 of them for large states",
        "memory: its store has 1179648 bytes, 4096 of them for large states, requested are 1175552 "
        "bytes, 4096 of them for large states",
        "memory: " INCONSISTENT};
    for (size_t i = 0; i < 3; i++) {
        h = wanted;
        assert_true(weir_file_header_lay_out(&h, bytes[i]));
        seal(&h);
        must_differ(&h, &wanted, NULL, i == 2 ? WEIR_E_SYNTAX : WEIR_E_RANGE, texts[i]);
    }
    weir_file_header other = wanted;
    other.processes.bytes += 64; /* the same parts */
    must_differ(&wanted, &other, NULL, WEIR_E_SYNTAX, texts[2]);
}

static void memory_with_other_partitions(void **unused)
{
    (void)unused;
    const weir_file_header all = header(3, true), two = header(2, true), none = header(0, true);
    must_differ(&all, &none, NULL, WEIR_E_RANGE,
                "memory: partition 0 of its store is 'a' of 0+20480 bytes, but none was requested");
    must_differ(&none, &all, NULL, WEIR_E_RANGE,
                "memory: partition 0 of its store is none, but 'a' of 0+20480 bytes was requested");
    must_differ(&two, &all, NULL, WEIR_E_RANGE,
                "memory: partition 0 of its store is 'ab' of 4096+8192 bytes, but 'a' of "
                "0+20480 bytes was requested");
    weir_file_header h = all;
    h.partitions[2].table_bytes += PAGE;
    seal(&h);
    must_differ(&h, &all, NULL, WEIR_E_RANGE,
                "memory: partition 2 of its store is 'b' of 16384+0 bytes, but 'b' of "
                "12288+0 bytes was requested");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(a_new_header_is_sound),
        cmocka_unit_test(a_file_of_another_size),
        cmocka_unit_test(an_older_version),
        cmocka_unit_test(a_damaged_header),
        cmocka_unit_test(other_damage),
        cmocka_unit_test(sizes_of_a_header),
        cmocka_unit_test(partitions_are_sorted),
        cmocka_unit_test(most_partitions),
        cmocka_unit_test(unsound_names),
        cmocka_unit_test(sizes_in_memory),
        cmocka_unit_test(a_header_in_memory_is_published),
        cmocka_unit_test(memory_of_another_layout),
        cmocka_unit_test(memory_with_other_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
