/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What commands print, and their exit statuses. The cases are in outputs_test.txt. A line
 * "==== NAME" begins a file, and "==== $ WORDS" a command; its output follows, errors and all, and
 * its exit status unless 0. Words may be in single quotes.
 *
 *   outputs_test src/cmd/outputs_test.txt
 *
 * With WEIR_WRITE=1 it replaces the expected outputs in the file by the actual ones. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/config/guests_kit_test.h"
#include "cmd/kit/input.h"
#include "cmd/output_kit_test.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"check", weir_cmd_check},
    {"demo", weir_cmd_demo},
    {"policy", weir_cmd_policy},
    {"state", weir_cmd_state},
};

enum { WORDS_MAX = 16 };

/* Splits a command line into words, in place. */
static int split(char *line, char *argv[WORDS_MAX + 1])
{
    int argc = 0;
    for (char *at = line; *at != '\0';) {
        const char *end = *at == '\'' ? "'" : " ";
        at += *at == '\'';
        assert_true(argc < WORDS_MAX);
        argv[argc++] = at;
        at += strcspn(at, end);
        if (*at != '\0')
            *at++ = '\0';
        at += strspn(at, " ");
    }
    argv[argc] = NULL;
    return argc;
}

/* Runs a command line. Returns the output, for free(). */
static char *run(char *line)
{
    char *argv[WORDS_MAX + 1];
    int argc = split(line, argv);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, argv[0]) == 0)
            return output_of(commands[i].run, argc, argv);
    }
    fail_msg("unknown command %s", argv[0]);
    return NULL;
}

/* ---- outputs_test.txt ------------------------------------------------------------------------ */

static const char *cases_path;

static void check_command(const char *line, const char *expected, size_t len, FILE *out)
{
    char *words = strdup(line), *wanted = strndup(expected, len);
    assert_true(words && wanted);
    char *got = names_absent_guest(line, wanted) ? strdup(wanted) : run(words);
    if (out)
        fputs(got, out);
    else if (strcmp(got, wanted) != 0)
        fail_msg("weir %s\nexpected:\n%s\nfound:\n%s", line, wanted, got);
    free(got);
    free(wanted);
    free(words);
}

static void outputs(void **unused)
{
    (void)unused;
    static const char mark[] = "==== ";
    char *text, *at;
    size_t len, n = 0;
    assert_null(input_read(cases_path, 1 << 20, &text, &len));
    FILE *out = getenv("WEIR_WRITE") ? fopen(cases_path, "w") : NULL;
    at = strstr(text, mark);
    assert_non_null(at);
    if (out)
        fwrite(text, 1, (size_t)(at - text), out);
    for (; at; n++) {
        char *line = at + strlen(mark), *body = strchr(line, '\n');
        assert_non_null(body);
        *body++ = '\0';
        at = strncmp(body, mark, strlen(mark)) == 0 ? body : strstr(body, "\n==== ");
        if (at && at != body)
            at++;
        size_t body_len = at ? (size_t)(at - body) : strlen(body);
        if (out)
            fprintf(out, "%s%s\n", mark, line);
        if (line[0] == '$') {
            check_command(line + 2, body, body_len, out);
            continue;
        }
        write_file(line, body, body_len);
        if (out)
            fwrite(body, 1, body_len, out);
    }
    assert_true(n > 10);
    if (out)
        fclose(out);
    free(text);
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    weir_use_guests();
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs)};
    cases_path = argc == 2 ? argv[1] : "";
    return cmocka_run_group_tests_name("outputs", tests, make_dir, remove_dir);
}
