/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the commands that read logs print, to the letter: replay, suggest and accuracy. The cases
 * are in the commands_test.txt beside each command, whose lines begin with:
 *
 *   #       a comment
 *   @ NAME  creates a file, whose lines follow
 *   |       a line of the file; \t and \xNN are escapes
 *   +       N START STEP REST: N lines, with the times START, START + STEP and so on before REST
 *   $       [NAME=VALUE]... COMMAND ARGUMENT...; 'quotes' join words, and "< NAME" is the input
 *   =       the exit status
 *   >       a line of standard output
 *   !       a line of standard error
 *
 *   log_commands_test src/cmd/replay/commands_test.txt
 *
 * With WEIR_WRITE=1 it replaces what is expected in the file by what is printed. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/kit/input.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS_MAX = 160 };

static const char *cases_path;
static char dir[] = "/tmp/weir-commands-XXXXXX";

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes a line, and the bytes that its escapes stand for. */
static void put_unescaped(FILE *f, const char *at)
{
    for (; *at; at++) {
        if (at[0] == '\\' && at[1] == 't') {
            fputc('\t', f);
            at++;
        } else if (at[0] == '\\' && at[1] == 'x') {
            const char hex[] = {at[2], at[3], 0};
            fputc((int)strtol(hex, NULL, 16), f);
            at += 3;
        } else {
            fputc(*at, f);
        }
    }
    fputc('\n', f);
}

static void put_repeated(FILE *f, const char *at)
{
    char *rest;
    long long n = strtoll(at, &rest, 10), t = strtoll(rest, &rest, 10);
    long long step = strtoll(rest, &rest, 10);
    for (; n > 0; n--, t += step) {
        fprintf(f, "%lld", t);
        put_unescaped(f, rest + 1);
    }
}

/* Adds a line of the cases to the file that is being created. */
static FILE *write_file(FILE *f, const char *line)
{
    if (*line == '@' && f)
        fclose(f);
    if (*line == '@')
        f = fopen(line + 2, "w");
    assert_non_null(f);
    if (*line == '|')
        put_unescaped(f, line + 1);
    if (*line == '+')
        put_repeated(f, line + 1);
    fflush(f);
    return f;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Splits a command in place as a shell does. Returns the number of words. */
static int split(char *at, char **words)
{
    int n = 0;
    while (*(at += strspn(at, " "))) {
        char *to = at;
        bool quoted = false;
        assert_true(n < WORDS_MAX - 1);
        words[n++] = at;
        for (; *at && (quoted || *at != ' '); at++) {
            if (*at == '\'')
                quoted = !quoted;
            else
                *to++ = *at;
        }
        at += *at != '\0';
        *to = '\0';
    }
    words[n] = NULL;
    return n;
}

/* Takes the variables before a command into the environment, or out of it. */
static int take_variables(char **words, bool set)
{
    int n = 0;
    for (char *value; (value = strchr(words[n], '=')); n++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(value - words[n]), words[n]);
        if (set)
            setenv(name, value + 1, 1);
        else
            unsetenv(name);
    }
    return n;
}

static int call(int argc, char **argv)
{
    if (strcmp(argv[0], "replay") == 0)
        return weir_cmd_replay(argc, argv);
    if (strcmp(argv[0], "suggest") == 0)
        return weir_cmd_suggest(argc, argv);
    assert_string_equal(argv[0], "accuracy");
    return weir_cmd_accuracy(argc, argv);
}

/* Replaces a file descriptor by a new file. Returns it, and a copy of the old one. */
static int redirect(int fd, const char *path, int *ret_saved)
{
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : memfd_create("output", MFD_CLOEXEC);
    assert_true(file >= 0);
    *ret_saved = dup(fd);
    dup2(file, fd);
    return file;
}

/* Writes each line of a file behind the prefix, and "~" if the last one does not end. */
static void put_lines(FILE *out, int fd, char prefix)
{
    FILE *f = fdopen(fd, "r");
    assert_non_null(f);
    rewind(f);
    int before = '\n';
    for (int c; (c = fgetc(f)) != EOF; before = c) {
        if (before == '\n')
            fputc(prefix, out);
        fputc(c, out);
    }
    if (before != '\n')
        fputs("~\n", out);
    fclose(f);
}

/* Runs a command. Writes its status and what it prints, in the form of the cases. */
static void run(const char *line, FILE *ret)
{
    char *copy = strdup(line), *words[WORDS_MAX];
    int argc = split(copy, words), saved_in, saved_out, saved_err;
    bool input = argc > 2 && strcmp(words[argc - 2], "<") == 0;
    int in = redirect(STDIN_FILENO, input ? words[argc - 1] : "/dev/null", &saved_in);
    argc -= input ? 2 : 0;
    words[argc] = NULL;
    int skip = take_variables(words, true);
    fflush(NULL);
    int out = redirect(STDOUT_FILENO, NULL, &saved_out);
    int err = redirect(STDERR_FILENO, NULL, &saved_err);
    int status = call(argc - skip, words + skip);
    fflush(NULL);
    dup2(saved_in, STDIN_FILENO);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved_in);
    close(saved_out);
    close(saved_err);
    close(in);
    take_variables(words, false);
    setenv("LC_ALL", "C", 1);
    fprintf(ret, "= %d\n", status);
    put_lines(ret, out, '>');
    put_lines(ret, err, '!');
    free(copy);
}

/* ---- the cases ------------------------------------------------------------------------------- */

/* Returns the end of the lines that say what is expected. */
static const char *end_of_expected(const char *at)
{
    while (*at && strchr("=>!", *at))
        at += strcspn(at, "\n") + 1;
    return at;
}

/* Checks what follows a command. Returns its end. */
static const char *check_command(const char *command, const char *expected, FILE *cases)
{
    char *printed = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&printed, &len);
    assert_non_null(f);
    run(command, f);
    fclose(f);
    const char *end = end_of_expected(expected);
    if (cases)
        fputs(printed, cases);
    else if (len != (size_t)(end - expected) || memcmp(printed, expected, len) != 0)
        fail_msg("$%s\n%s", command, printed);
    free(printed);
    return end;
}

static void prints_what_is_expected(void **unused)
{
    (void)unused;
    char *text = NULL, *line = NULL;
    size_t len = 0, n = 0;
    FILE *file = NULL, *cases = NULL;
    assert_null(input_read(cases_path, 1 << 22, &text, &len));
    if (getenv("WEIR_WRITE"))
        cases = fopen(cases_path, "w");
    assert_int_equal(chdir(dir), 0);
    for (const char *at = text; *at;) {
        size_t line_len = strcspn(at, "\n");
        line = strndup(at, line_len);
        if (cases)
            fprintf(cases, "%s\n", line);
        if (*line && strchr("@|+", *line))
            file = write_file(file, line);
        at += line_len + 1;
        if (*line == '$')
            at = check_command(line + 1, at, cases);
        n += *line == '$';
        free(line);
    }
    assert_true(n > 30);
    fclose(file);
    if (cases)
        fclose(cases);
    free(text);
}

static int make_dir(void **unused)
{
    (void)unused;
    unsetenv("COLUMNS");
    unsetenv("WEIR_PASSWORD");
    setenv("LC_ALL", "C", 1);
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **unused)
{
    char command[64];
    (void)unused;
    snprintf(command, sizeof command, "rm -r %s", dir);
    return chdir("/") == 0 ? system(command) : -1;
}

int main(int argc, char **argv)
{
    weir_use_guests();
    const struct CMUnitTest tests[] = {cmocka_unit_test(prints_what_is_expected)};
    char *path = argc == 2 ? realpath(argv[1], NULL) : NULL;
    if (!path)
        return 2;
    cases_path = path;
    int failed = cmocka_run_group_tests(tests, make_dir, remove_dir);
    free(path);
    return failed;
}
