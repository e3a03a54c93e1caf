/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The errors of `weir state --import`, and what it accepts at most. outputs_test.txt has whole
 * outputs of the command. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/output_kit_test.h"

/* The first line of an export. */
static const char head[] =
    "{\"weir_state\":3,\"time_ns\":1763715500000000000,\"wall_ns\":1763715600000000000,"
    "\"memory_bytes\":8388608,\"large_bytes\":2097152,\"fingerprint\":\"658b070407a29c39\","
    "\"secret\":\"00112233445566778899aabbccddeeff\"}\n";

/* Imports lines into the new file "state". Returns the output. */
static const char *import(const char *lines)
{
    static char *output;
    char *argv[] = {"state", "state", "--import", "lines", NULL};
    (void)unlink("state");
    write_file("lines", lines, strlen(lines));
    free(output);
    output = output_of(weir_cmd_state, 4, argv);
    return output;
}

/* Expects the error in line `line`; "": the import succeeds. Returns the output. */
static const char *expect_import(const char *lines, int line, const char *error)
{
    char expected[400];
    const char *found = import(lines);
    if (error[0] == '\0') {
        assert_memory_equal(found, "state: ", 7);
        assert_null(strstr(found, "exit status"));
        return found;
    }
    snprintf(expected, sizeof expected, "weir state: lines:%d: %s\n%s", line, error,
             line == 1 ? "exit status 1\n" : "state: ");
    bool same =
        line == 1 ? strcmp(found, expected) == 0 : strncmp(found, expected, strlen(expected)) == 0;
    if (!same || !strstr(found, "\nexit status 1\n"))
        fail_msg("%s\nexpected: %s\nfound: %s", lines, expected, found);
    return found;
}

#define TIMES "time_ns, wall_ns: expected 0 to 8070450532247928832"
#define SIZES                                                                                      \
    "memory_bytes, large_bytes: expected 0 to 1 PiB, with large_bytes at most memory_bytes"
#define SECRET      "secret: expected 32 hexadecimal digits"
#define FINGERPRINT "fingerprint: expected 16 hexadecimal digits"
#define LIST        "partitions: expected a list of at most 15"
#define PARTITION   "partitions: expected names of at most 64 bytes, and sizes from 0 to 1 PiB"

static void heads(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to; /* a part of the head, and its replacement */
        const char *error;
    } rows[] = {
        {"", "", ""},
        {"state\":3", "state\":2", ""},
        {"state\":3", "state\":1",
         "weir_state: expected version 2 to 4, found 1"
         ": its keys do not say which policy they belong to, and cannot be converted; "
         "start with an empty file"},
        {"state\":3", "state\":0", "weir_state: expected version 2 to 4, found 0"},
        {"state\":3", "state\":4", ""},
        {"state\":3", "state\":5", "weir_state: expected version 2 to 4, found 5"},
        {"1763715500000000000", "-1", TIMES},
        {"1763715500000000000", "0", ""},
        {"1763715500000000000", "8070450532247928832", ""},
        {"1763715500000000000", "8070450532247928833", TIMES},
        {"1763715600000000000", "-1", TIMES},
        {"1763715600000000000", "0", ""},
        {"1763715600000000000", "8070450532247928832", ""},
        {"1763715600000000000", "8070450532247928833", TIMES},
        {"8388608", "-1", SIZES},
        {"8388608", "2097151", SIZES},
        {"8388608", "1125899906842625", SIZES},
        {"2097152", "-1", SIZES},
        {"2097152", "8388609", SIZES},
        {"00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeef", SECRET},
        {"00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff0", SECRET},
        {"00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeefg", SECRET},
        {"00112233445566778899aabbccddeeff", "00112233445566778899AABBCCDDEEFF", SECRET},
        {"658b070407a29c39", "658b070407a29c3", FINGERPRINT},
        {"658b070407a29c39", "658b070407a29c399", FINGERPRINT},
        {"\"}\n", "\",\"partitions\":{}}\n", LIST},
        {"\"}\n", "\",\"partitions\":[]}\n", ""},
        {"\"}\n", "\",\"partitions\":[{\"name\":\"a\",\"table_bytes\":-1,\"large_bytes\":0}]}\n",
         PARTITION},
        {"\"}\n", "\",\"partitions\":[{\"name\":\"a\",\"table_bytes\":0,\"large_bytes\":-1}]}\n",
         PARTITION},
        {"\"}\n",
         "\",\"partitions\":[{\"name\":\"a\",\"table_bytes\":1125899906842625,\"large_bytes\":0}]}"
         "\n",
         PARTITION},
        {"\"}\n",
         "\",\"partitions\":[{\"name\":\"a\",\"table_bytes\":0,\"large_bytes\":1125899906842625}]}"
         "\n",
         PARTITION},
        {"\"}\n",
         "\",\"partitions\":[{\"name\":"
         "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
         "\"table_bytes\":0,\"large_bytes\":0}]}\n",
         PARTITION},
        {",\"secret\":\"00112233445566778899aabbccddeeff\"", "",
         "expected an export with its secret, because state is a new file; use weir state --export "
         "--with-secret"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lines[1000];
        const char *at = strstr(head, rows[i].from);
        assert_non_null(at);
        snprintf(lines, sizeof lines, "%.*s%s%s", (int)(at - head), head, rows[i].to,
                 at + strlen(rows[i].from));
        expect_import(lines, 1, rows[i].error);
    }
}

static void too_many_partitions(void **unused)
{
    (void)unused;
    static char lines[20000];
    for (int n = WEIR_PARTITIONS_MAX; n <= WEIR_PARTITIONS_MAX + 1; n++) {
        size_t len = strlen(head) - 2;
        memcpy(lines, head, len);
        len += (size_t)sprintf(lines + len, ",\"partitions\":[");
        for (int i = 0; i < n; i++)
            len += (size_t)sprintf(lines + len,
                                   "%s{\"name\":\"p%d\",\"table_bytes\":1,\"large_bytes\":0}",
                                   i > 0 ? "," : "", i);
        sprintf(lines + len, "]}\n");
        const char *found = import(lines); /* the sizes are refused later, without a line */
        assert_int_equal(strstr(found, "lines:1: " LIST) != NULL, n > WEIR_PARTITIONS_MAX);
        assert_non_null(strstr(found, "exit status 1\n"));
    }
}

#define ID    "id: expected 16 hexadecimal digits, not all of them 0"
#define HASH  "hash: expected 16 hexadecimal digits"
#define FORM  "form, level: expected 0 to 2^32 - 1"
#define WORDS "words: expected groups of 16 hexadecimal digits"
#define RESET "reset: expected 16 hexadecimal digits of an export"
#define STATE "expected a valid state: number out of range"
#define KEY(HASH, FORM, LEVEL, WORDS)                                                              \
    "{\"hash\":\"" HASH "\",\"fresh_at_ns\":1,\"form\":" FORM ",\"level\":" LEVEL                  \
    ",\"words\":\"" WORDS "\"}\n"
#define KEY_IN(PARTITION)                                                                          \
    "{\"hash\":\"1e83d10eed7a2859\",\"fresh_at_ns\":1,\"form\":1,\"level\":0,\"words\":\"\","      \
    "\"partition\":\"" PARTITION "\"}\n"

static void lines(void **unused)
{
    (void)unused;
    static const struct {
        const char *line, *error;
    } rows[] = {
        {"{\"policy\":\"gcra 1/s\",\"id\":\"0000000000000001\"}\n", ""},
        {"{\"policy\":\"gcra 1/s\",\"id\":\"0000000000000000\"}\n", ID},
        {"{\"policy\":\"gcra 1/s\",\"id\":\"000000000000001\"}\n", ID},
        {"{\"policy\":\"gcra 1/s\",\"id\":\"00000000000000001\"}\n", ID},
        {"{\"policy\":\"gcra 1/s\",\"id\":\"000000000000000g\"}\n", ID},
        {KEY("1e83d10eed7a2859", "1", "0", ""), ""},
        {KEY("1e83d10eed7a285", "1", "0", ""), HASH},
        {KEY("1e83d10eed7a28599", "1", "0", ""), HASH},
        {KEY("1e83d10eed7a2859", "-1", "0", ""), FORM},
        {KEY("1e83d10eed7a2859", "4294967295", "0", ""), STATE},
        {KEY("1e83d10eed7a2859", "4294967296", "0", ""), FORM},
        {KEY("1e83d10eed7a2859", "1", "-1", ""), FORM},
        {KEY("1e83d10eed7a2859", "1", "4294967295", ""), STATE},
        {KEY("1e83d10eed7a2859", "1", "4294967296", ""), FORM},
        {KEY("1e83d10eed7a2859", "1", "0", "0"), WORDS},
        {KEY("1e83d10eed7a2859", "1", "0", "000000000000000g"), WORDS},
        {"{\"reset\":\"0000000001000001\"}\n", ""},
        {"{\"reset\":\"0000000001000000\"}\n", RESET},
        {"{\"reset\":\"0000000000000001\"}\n", RESET},
        {"{\"reset\":\"000000000100000g\"}\n", RESET},
        {"{\"reset\":\"000000000100001\"}\n", RESET},
        {KEY_IN("1"), "partition: expected 16 hexadecimal digits"},
        {KEY_IN("0000000000000000"), ""},
        {KEY_IN("0000000000000001"), "partition: state has no partition with this hash; import "
                                     "into a new file, or set `memory` "
                                     "for its policy and start weir once"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1000];
        bool two = rows[i].error[0] == '\0' && rows[i].line[2] == 'h'; /* keys */
        snprintf(text, sizeof text, "%s" KEY("0000000000000007", "1", "0", "") "%s", head,
                 rows[i].line);
        const char *found = expect_import(text, 3, rows[i].error);
        assert_non_null(
            strstr(found, two ? "state: 2 keys and 0 policies imported\n" : "state: 1 keys and "));
    }
}

/* The text of a policy may have one byte less than WEIR_POLICY_TEXT_MAX. */
static void long_texts(void **unused)
{
    (void)unused;
    char text[WEIR_POLICY_TEXT_MAX + 1], lines[sizeof head + sizeof text + 100];
    for (size_t len = WEIR_POLICY_TEXT_MAX - 1; len <= WEIR_POLICY_TEXT_MAX; len++) {
        memset(text, 'x', len);
        text[len] = '\0';
        snprintf(lines, sizeof lines, "%s{\"policy\":\"%s\",\"id\":\"0000000000000001\"}\n", head,
                 text);
        expect_import(lines, 2,
                      len < WEIR_POLICY_TEXT_MAX ? "" : "policy: expected fewer than 1024 bytes");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads),
                                       cmocka_unit_test(too_many_partitions),
                                       cmocka_unit_test(lines), cmocka_unit_test(long_texts)};
    return cmocka_run_group_tests_name("state", tests, make_dir, remove_dir);
}
