/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The parts of `weir state` one by one: the head of a file, its fingerprint, what is printed and
 * exported of odd contents, and imports that do not fit. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/output_kit_test.h"
#include "cmd/state/state.h"
#include "store/image/image.h"

static const uint8_t secret[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

/* Opens the file "state", or creates it with these sizes. */
static state_file open_file(uint64_t table_bytes, uint64_t large_bytes)
{
    static const weir_zones no_zones;
    weir_file_header head = {0};
    state_file f;
    weir_store_error error = {.text = ""};
    memcpy(head.secret, secret, sizeof secret);
    head.parts[WEIR_PART_TABLE].bytes = table_bytes;
    head.parts[WEIR_PART_LARGE].bytes = large_bytes;
    const weir_store_options how = {.zones = &no_zones, .when_full = WEIR_REFUSE};
    if (state_open("state", &head, how, &f, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return f;
}

static state_file new_file(void)
{
    (void)unlink("state");
    return open_file(6 << 20, 2 << 20);
}

/* ---- the head -------------------------------------------------------------------------------- */

static int read_head(int argc, char **argv)
{
    weir_file_header head;
    bool absent;
    return state_read_head(argv[0], true, &head, argc > 1 ? &absent : NULL) ? 0 : 2 + absent;
}

static void expect_head(const char *path, bool may_be_absent, const char *output)
{
    char *argv[] = {(char *)path, "absent", NULL};
    bool absent = true;
    weir_file_header head;
    if (may_be_absent) {
        (void)state_read_head(path, true, &head, &absent);
        assert_int_equal(absent, access(path, F_OK) != 0);
    }
    char *found = output_of(read_head, 1 + may_be_absent, argv);
    found[strcspn(found, "\n") + (strchr(found, '\n') != NULL)] = '\0'; /* without the status */
    assert_string_equal(found, output);
    free(found);
}

static void heads_of_files(void **unused)
{
    (void)unused;
    static const char zeros[65536];
    state_file f = new_file();
    weir_store_close(f.store);
    expect_head("state", false, "");
    expect_head("state", true, "");
    expect_head("absent", false, "weir state: absent: there is no such file\n");
    expect_head("absent", true, "exit status 3\n"); /* nothing is printed */
    expect_head(".", true, "weir state: .: it is not a regular file\n");
    write_file("short", "x", 1);
    expect_head("short", true, "weir state: short: it is not a state file of weir\n");
    write_file("zeros", zeros, sizeof zeros);
    expect_head("zeros", true, "weir state: zeros: it is not a state file of weir\n");
}

static void sizes_of_a_head(void **unused)
{
    (void)unused;
    weir_file_header head = {0};
    assert_int_equal(state_memory_bytes(&head), 0);
    head.parts[WEIR_PART_TABLE].bytes = 1000;
    head.parts[WEIR_PART_LARGE].bytes = 200;
    head.parts[WEIR_PART_RESERVED].bytes = 30;
    assert_int_equal(state_memory_bytes(&head), 1230);
}

/* Files of one secret have one fingerprint, which says nothing else of it. */
static void fingerprints(void **unused)
{
    (void)unused;
    char first[STATE_FINGERPRINT_MAX], other[STATE_FINGERPRINT_MAX];
    uint8_t changed[16];
    state_fingerprint(secret, first);
    assert_string_equal(first, "658b070407a29c39");
    for (size_t i = 0; i < sizeof changed; i++) {
        memcpy(changed, secret, sizeof changed);
        changed[i] ^= 1;
        state_fingerprint(changed, other);
        assert_string_not_equal(first, other);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static int print_a_head(int argc, char **argv)
{
    weir_file_header head = {.format = 1, .state_version = 3, .bytes = strtoull(argv[0], NULL, 10)};
    (void)argc;
    state_print_head("path", &head);
    return 0;
}

static void sizes(void **unused)
{
    (void)unused;
    static const struct {
        char *bytes;
        const char *text;
    } rows[] = {{"0", "size        0 bytes (table 0 bytes, large states 0 bytes)\n"},
                {"10239", "size        10239 bytes (table "},
                {"10240", "size        10 KiB (table "},
                {"10485759", "size        10239 KiB (table "},
                {"10485760", "size        10 MiB (table "},
                {"1125899906842624", "size        1073741824 MiB (table "}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *found = output_of(print_a_head, 1, (char *[]){rows[i].bytes, NULL});
        assert_memory_equal(found, "path\nformat      1, state version 3\n", 36);
        assert_non_null(strstr(found, rows[i].text));
        free(found);
    }
}

/* Each text is printed once, under the ids of all policies that have it. */
static int print_policies(int argc, char **argv)
{
    state_file f = new_file();
    for (int i = 0; i < argc; i++)
        weir_store_note_text(f.store, (uint64_t)i + 1, argv[i], strlen(argv[i]));
    state_print(&f);
    weir_store_close(f.store);
    return 0;
}

static void policies(void **unused)
{
    (void)unused;
    char *found = output_of(print_policies, 3, (char *[]){"gcra 1/s", "gcra 1/h", "gcra 1/s"});
    const char *first = strstr(found, "gcra 1/s\n");
    assert_non_null(first);
    assert_null(strstr(first + 1, "gcra 1/s\n"));
    assert_non_null(strstr(found, "            gcra 1/h\n"));
    free(found);
    found = output_of(print_policies, 0, NULL);
    assert_non_null(strstr(found, "policies    none\n"));
    free(found);
}

/* ---- exporting ------------------------------------------------------------------------------- */

/* Exports a file with one policy, whose text is argv[0]. */
static int export_policy(int argc, char **argv)
{
    state_file f = new_file();
    weir_store_note_text(f.store, 0xfedcba9876543210, argv[0], strlen(argv[0]));
    int status = state_export(&f, argc > 1);
    weir_store_close(f.store);
    return status;
}

static void exported_texts(void **unused)
{
    (void)unused;
    static const struct {
        char *text;
        const char *line;
    } rows[] = {
        {"gcra 1/s burst 5", "{\"policy\":\"gcra 1/s burst 5\",\"id\":\"fedcba9876543210\"}\n"},
        {"a\"b\\c", "{\"policy\":\"a\\\"b\\\\c\",\"id\":\"fedcba9876543210\"}\n"},
        {"\x01 \x1f ~ \x7f \xff",
         "{\"policy\":\"\\u0001 \\u001f ~ \\u007f \\ufffd\",\"id\":\"fedcba9876543210\"}\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *found = output_of(export_policy, 1, (char *[]){rows[i].text, NULL});
        assert_null(strstr(found, "secret"));
        assert_string_equal(strchr(found, '\n') + 1, rows[i].line);
        free(found);
    }
    char *found = output_of(export_policy, 2, (char *[]){"gcra 1/s", "", NULL});
    assert_non_null(strstr(found, ",\"secret\":\"00112233445566778899aabbccddeeff\"}\n"));
    free(found);
}

static int export_to_a_full_disk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    state_file f = new_file();
    assert_non_null(freopen("/dev/full", "w", stdout));
    int status = state_export(&f, false);
    weir_store_close(f.store);
    return status;
}

static void an_output_that_fails(void **unused)
{
    (void)unused;
    char *found = output_of(export_to_a_full_disk, 0, NULL);
    assert_string_equal(found, "weir state: cannot write to standard output: No space left on "
                               "device\nexit status 1\n");
    free(found);
}

/* ---- resets of whole policies ---------------------------------------------------------------- */

/* Resets n policies and exports the file. */
static int export_resets(int argc, char **argv)
{
    state_file f = new_file();
    (void)argc;
    for (uint64_t i = 0; i < strtoull(argv[0], NULL, 10); i++)
        assert_int_equal(weir_store_reset_policy(f.store, i), WEIR_OK);
    assert_int_equal(weir_store_reset_policy(f.store, 0), WEIR_OK);
    state_print(&f);
    assert_true(state_read_head("state", true, &f.head, NULL));
    int status = state_export(&f, true);
    weir_store_close(f.store);
    return status;
}

/* The ids of the policies 0 and 1 in the file "state" differ from those of a new file. */
static void expect_resets(bool first, bool second)
{
    state_file f = open_file(6 << 20, 2 << 20);
    assert_int_equal(weir_store_current_id(f.store, 99, 0) != 99, first);
    assert_int_equal(weir_store_current_id(f.store, 99, 1) != 99, second);
    weir_store_close(f.store);
}

static void resets(void **unused)
{
    (void)unused;
    char *argv[] = {"state", "state", "--import", "lines", NULL};
    static const struct {
        char *policies;
        const char *printed;
    } rows[] = {{"1", "resets      of all keys of 1 policy\n"},
                {"2", "resets      of all keys of 2 policies\n"}};
    for (size_t i = 0; i < 2; i++) {
        char *found = output_of(export_resets, 1, (char *[]){rows[i].policies, NULL});
        assert_non_null(strstr(found, rows[i].printed));
        const char *lines = strstr(found, "{\"weir_state\"");
        assert_non_null(lines);
        assert_non_null(strstr(lines, "}\n{\"reset\":\"0000000001000002\"}\n"));
        write_file("lines", lines, strlen(lines));
        free(found);
        (void)unlink("state");
        found = output_of(weir_cmd_state, 4, argv);
        assert_string_equal(found, "state: 0 keys and 0 policies imported\n");
        free(found);
        expect_resets(true, i == 1);
    }
}

/* A file that has not been reset has no line about resets. */
static void no_resets(void **unused)
{
    (void)unused;
    char *found = output_of(print_policies, 0, NULL);
    assert_null(strstr(found, "resets"));
    free(found);
}

static void too_many_resets(void **unused)
{
    (void)unused;
    char *argv[] = {"state", "state", "--import", "lines", NULL};
    char *found = output_of(export_resets, 1, (char *[]){"2", NULL});
    const char *lines = strstr(found, "{\"weir_state\"");
    write_file("lines", lines, strlen(lines));
    free(found);
    state_file f = new_file();
    for (uint64_t i = 0; i < WEIR_RESETS_MAX; i++)
        assert_int_equal(weir_store_reset_policy(f.store, 1000 + i), WEIR_OK);
    weir_store_close(f.store);
    found = output_of(weir_cmd_state, 4, argv);
    assert_string_equal(found, "weir state: lines:2: reset: state has the resets of 192 policies, "
                               "the maximum\nstate: 0 keys and 0 policies imported\n"
                               "exit status 1\n");
    free(found);
}

/* ---- imports that do not fit ----------------------------------------------------------------- */

/* The summary counts what did not fit, and the exit status says so. */
static void a_full_file(void **unused)
{
    (void)unused;
    enum { POLICIES = 6000, ROOM = POLICIES * 64 };
    char *lines = calloc(1, ROOM), *at = lines;
    (void)unlink("state");
    at += sprintf(at, "{\"weir_state\":3,\"time_ns\":1,\"wall_ns\":1,\"memory_bytes\":8388608,"
                      "\"large_bytes\":2097152,\"fingerprint\":\"658b070407a29c39\",\"secret\":"
                      "\"00112233445566778899aabbccddeeff\"}\n");
    for (int i = 1; i <= POLICIES; i++)
        at += sprintf(at, "{\"policy\":\"gcra %d/s\",\"id\":\"%016x\"}\n", i, (unsigned)i);
    write_file("lines", lines, strlen(lines));
    free(lines);
    char *found =
        output_of(weir_cmd_state, 4, (char *[]){"state", "state", "--import", "lines", NULL});
    unsigned fit = 0, refused = 0;
    assert_int_equal(sscanf(strstr(found, "state: 0 keys"), "state: 0 keys and %u policies", &fit),
                     1);
    const char *full = strstr(found, "the file is full: ");
    assert_non_null(full);
    assert_int_equal(sscanf(full, "the file is full: %u policies were not imported", &refused), 1);
    assert_int_equal(fit + refused, POLICIES);
    assert_non_null(strstr(found, "exit status 1\n"));
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_of_files),
                                       cmocka_unit_test(sizes_of_a_head),
                                       cmocka_unit_test(fingerprints),
                                       cmocka_unit_test(sizes),
                                       cmocka_unit_test(policies),
                                       cmocka_unit_test(exported_texts),
                                       cmocka_unit_test(an_output_that_fails),
                                       cmocka_unit_test(resets),
                                       cmocka_unit_test(no_resets),
                                       cmocka_unit_test(too_many_resets),
                                       cmocka_unit_test(a_full_file)};
    return cmocka_run_group_tests_name("state parts", tests, make_dir, remove_dir);
}
