/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Directories with configuration files of envoyproxy/ratelimit: which files are read, what is
 * refused and where, and what becomes of the limits. Single files are in descriptors_test.txt, with
 * the verdict of the reference.
 *
 *   directory_test src/cmd/config/envoy/descriptors_test.txt */

#include "cmd/kit/commands.h"
#include "cmd/kit/input.h"
#include "rls/daemon/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

static const char *cases_path;

/* ---- a directory ----------------------------------------------------------------------------- */

typedef struct fixture {
    char path[64];
    int fd;
    char *found; /* errors and warnings: "a.yaml:3:5: error: PATH: TEXT", with a LF each */
    size_t found_len;
    FILE *out;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "/tmp/weir-limits-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    char command[96];
    close(f->fd);
    snprintf(command, sizeof command, "rm -r %s", f->path);
    assert_int_equal(system(command), 0);
    free(f->found);
    free(f);
    return 0;
}

static void write_bytes(const fixture *f, const char *name, const char *text, size_t len)
{
    int fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static void write_file(const fixture *f, const char *name, const char *text)
{
    write_bytes(f, name, text, strlen(text));
}

/* Writes a file with one limit for a key. */
static void write_limit(const fixture *f, const char *name, const char *domain, const char *key)
{
    char text[256];
    snprintf(text, sizeof text,
             "domain: %s\ndescriptors:\n  - {key: %s, rate_limit: {unit: day, requests_per_unit: "
             "5}}\n",
             domain, key);
    write_file(f, name, text);
}

static void note_problem(void *ctx, const config_problem *p)
{
    fixture *f = ctx;
    size_t len = strlen(f->path);
    const char *file = strncmp(p->file, f->path, len) == 0 ? p->file + len : p->file;
    fprintf(f->out, "%s", file + (file[0] == '/'));
    if (p->line > 0)
        fprintf(f->out, ":%zu:%zu", p->line, p->column);
    fprintf(f->out, ": %s: %s%s%s\n", p->warning ? "warning" : "error", p->path,
            p->path[0] ? ": " : "", p->text);
}

static weir_status load(fixture *f, const char *directory, weir_config **ret)
{
    const config_sink sink = {note_problem, f};
    free(f->found);
    f->out = open_memstream(&f->found, &f->found_len);
    assert_non_null(f->out);
    *ret = NULL;
    weir_status st = config_load_limits(directory, NULL, &sink, ret);
    fclose(f->out);
    return st;
}

/* Loads the directory, and compares the names of its limits, joined by spaces. */
static void expect_limits(fixture *f, const char *expected)
{
    weir_config *c;
    char names[1024] = "";
    size_t n;
    assert_int_equal(load(f, f->path, &c), WEIR_OK);
    const weir_rule_spec *rules = weir_rls_config_rules(envoy_settings_of(c)->rls, &n);
    for (size_t i = 0, len = 0; i < n; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? " " : "",
                                rules[i].name);
    assert_string_equal(names, expected);
    config_free(c);
}

/* Expects that what was found has a warning that an entry is skipped. */
static void expect_warning(const fixture *f, const char *name, const char *why)
{
    char line[256];
    snprintf(line, sizeof line, ": warning: %s/%s is skipped: %s\n", f->path, name, why);
    if (!strstr(f->found, line))
        fail_msg("no '%s' in '%s'", line, f->found);
}

static void expect_refused(fixture *f, const char *expected)
{
    weir_config *c;
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_null(c);
    assert_string_equal(f->found, expected);
}

/* ---- which files are read -------------------------------------------------------------------- */

static void check_files(void **state)
{
    fixture *f = *state;
    assert_int_equal(mkdirat(f->fd, "sub", 0700) | mkdirat(f->fd, ".hidden", 0700), 0);
    write_limit(f, "b.yaml", "b", "k");
    write_limit(f, "a", "a", "k");
    write_limit(f, "sub/c.txt", "c", "k");
    write_limit(f, ".d.yaml", "d", "k");
    write_limit(f, ".hidden/e.yaml", "e", "k");
    assert_int_equal(mkfifoat(f->fd, "pipe", 0600), 0);
    int free_fd = dup(f->fd);
    close(free_fd);
    assert_int_equal(symlinkat(".", f->fd, "loop"), 0);
    expect_limits(f, "a.k b.k c.k");
    expect_warning(f, "pipe", "it is neither a file nor a directory");
    expect_warning(f, "loop", "it is a link to a directory, and may be a loop");
    assert_int_equal(unlinkat(f->fd, "pipe", 0) | unlinkat(f->fd, "loop", 0), 0);
    expect_limits(f, "a.k b.k c.k");
    assert_int_equal(f->found_len, 0);     /* hidden files are skipped without a warning */
    assert_int_equal(dup(f->fd), free_fd); /* all that was opened is closed */
    close(free_fd);
}

/* A path that is too long is refused, not cut. */
static void check_long_paths(void **state)
{
    fixture *f = *state;
    enum { LONGEST = 4095 };
    char path[LONGEST + 1], name[16];
    weir_config *c;
    write_limit(f, "a", "a", "k");
    size_t len = (size_t)snprintf(path, sizeof path, "%s", f->path);
    while (len + 2 + strlen("/a") <= LONGEST)
        len += (size_t)snprintf(path + len, sizeof path - len, "/.");
    snprintf(name, sizeof name, "%0*d", (int)(LONGEST - len - 1), 0);
    write_limit(f, name, "b", "k");
    assert_int_equal(load(f, path, &c), WEIR_OK);
    config_free(c);
    strcat(name, "0");
    write_limit(f, name, "c", "k");
    assert_int_equal(load(f, path, &c), WEIR_E_IO);
    assert_non_null(strstr(f->found, strerror(ENAMETOOLONG)));
}

/* All files together have at most 16 MiB, and so has each. */
static void check_large_files(void **state)
{
    fixture *f = *state;
    weir_config *c;
    char expected[256];
    int fd = openat(f->fd, "a.yaml", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX + 1), 0);
    close(fd);
    assert_int_equal(load(f, f->path, &c), WEIR_E_IO);
    snprintf(expected, sizeof expected, "cannot read %s/a.yaml: ", f->path);
    assert_non_null(strstr(f->found, expected));
    static const char head[] = "domain: a\n#";
    char *text = malloc(CONFIG_FILE_MAX);
    memset(text, 'x', CONFIG_FILE_MAX);
    memcpy(text, head, sizeof head - 1);
    write_bytes(f, "a.yaml", text, CONFIG_FILE_MAX - strlen("domain: b\n"));
    free(text);
    fd = openat(f->fd, "a.yaml", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX - (off_t)strlen("domain: b\n")), 0);
    close(fd);
    write_file(f, "b.yaml", "domain: b\n");
    expect_limits(f, "");
    write_file(f, "b.yaml", "domain: b\n\n");
    snprintf(expected, sizeof expected, ": error: the files in %s have more than 16 MiB\n",
             f->path);
    expect_refused(f, expected);
}

static const char *memory_directory;

static void ignore_problem(void *ctx, const config_problem *p)
{
    (void)ctx;
    (void)p;
}

static bool load_without_memory(uint64_t n, bool later)
{
    const config_sink sink = {ignore_problem, NULL};
    weir_config *c = NULL;
    memory_fail(n, later);
    weir_status st = config_load_limits(memory_directory, NULL, &sink, &c);
    bool failed = memory_stop();
    assert_true(st == WEIR_OK || (failed && !c));
    assert_true(!failed || st != WEIR_OK || weir_rls_config_limits(envoy_settings_of(c)->rls) == 2);
    config_free(c);
    return failed;
}

static void check_memory(void **state)
{
    fixture *f = *state;
    write_limit(f, "a.yaml", "a", "k");
    write_limit(f, "b.yaml", "b", "k");
    memory_directory = f->path;
    fail_each_allocation(load_without_memory);
}

/* As Kubernetes mounts a ConfigMap: links to files in a directory behind the link `..data`. */
static void check_config_map(void **state)
{
    fixture *f = *state;
    assert_int_equal(mkdirat(f->fd, "..1", 0700) | mkdirat(f->fd, "..2", 0700), 0);
    write_limit(f, "..1/a.yaml", "one", "k");
    write_limit(f, "..2/a.yaml", "two", "k");
    assert_int_equal(symlinkat("..1", f->fd, "..data"), 0);
    assert_int_equal(symlinkat("..data/a.yaml", f->fd, "a.yaml"), 0);
    expect_limits(f, "one.k");
    assert_int_equal(unlinkat(f->fd, "..data", 0), 0);
    assert_int_equal(symlinkat("..2", f->fd, "..data"), 0);
    expect_limits(f, "two.k");
    assert_int_equal(symlinkat("..1", f->fd, "linked"), 0); /* a directory: not followed */
    expect_limits(f, "two.k");
}

static void check_no_files(void **state)
{
    fixture *f = *state;
    weir_config *c;
    char path[128], expected[256];
    expect_limits(f, "");
    snprintf(expected, sizeof expected, ": warning: no file in %s: every request is allowed\n",
             f->path);
    assert_string_equal(f->found, expected);
    snprintf(path, sizeof path, "%s/none", f->path);
    assert_int_equal(load(f, path, &c), WEIR_E_IO);
    snprintf(expected, sizeof expected, "none: error: cannot read %s: No such file or directory\n",
             path);
    assert_string_equal(f->found, expected);
    assert_int_equal(symlinkat("nowhere", f->fd, "a.yaml"), 0);
    assert_int_equal(load(f, f->path, &c), WEIR_E_IO); /* replaced just now: tried again */
}

static void check_limits_of_directories(void **state)
{
    fixture *f = *state;
    char name[32], deep[64] = "";
    for (int i = 0; i < 9; i++) {
        strcat(deep, i > 0 ? "/d" : "d");
        assert_int_equal(mkdirat(f->fd, deep, 0700), 0);
    }
    weir_config *c;
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(f->found, "more than 8 levels of directories in "));
    assert_int_equal(unlinkat(f->fd, deep, AT_REMOVEDIR), 0);
    for (int i = 0; i < 16; i++) { /* whatever is read after it */
        snprintf(name, sizeof name, "other%d", i);
        assert_int_equal(mkdirat(f->fd, name, 0700), 0);
    }
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(f->found, "more than 8 levels of directories in "));
    assert_int_equal(unlinkat(f->fd, "d/d/d/d/d/d/d/d", AT_REMOVEDIR), 0);
    expect_limits(f, "");
    for (int i = 0; i <= 1024; i++) {
        snprintf(name, sizeof name, "%d", i);
        write_file(f, name, "");
    }
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(f->found, "more than 1024 files in "));
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void check_errors_of_files(void **state)
{
    fixture *f = *state;
    write_file(f, "a.yaml", "domain: a\ndescriptors: 1\n");
    write_limit(f, "b.yaml", "b", "k");
    write_file(f, "c.yaml",
               "\xEF\xBB\xBF"
               "domain: c\ndomian: d\n");
    write_bytes(f, "d.yaml", "domain: \xFF", 9);
    expect_refused(f, "a.yaml:2:14: error: descriptors: expected a list of descriptors, found a "
                      "value\n"
                      "c.yaml:2:1: error: unknown key 'domian', did you mean 'domain'?\n"
                      "d.yaml:1:9: error: found byte 0xFF, expected UTF-8 text\n");
}

static void check_duplicate_domains(void **state)
{
    fixture *f = *state;
    weir_config *c;
    char expected[512];
    write_limit(f, "a.yaml", "d", "one");
    write_limit(f, "b.yaml", "a", "two");
    write_limit(f, "c.yaml", "d", "two");
    snprintf(expected, sizeof expected,
             "c.yaml:1:9: error: duplicate domain 'd' in config file, also in %s/a.yaml; "
             "merge_domains: true merges them\n",
             f->path);
    expect_refused(f, expected);

    char yaml[256];
    const config_sink sink = {note_problem, f};
    snprintf(yaml, sizeof yaml, "envoy: {config: %s, merge_domains: true}", f->path);
    f->out = stderr;
    assert_int_equal(config_parse(yaml, strlen(yaml), "w.yaml", true, NULL, &sink, &c), WEIR_OK);
    size_t n;
    (void)weir_rls_config_rules(envoy_settings_of(c)->rls, &n);
    assert_int_equal(n, 3);
    config_free(c);
}

/* A policy and a limit are both rules, whose names are unique. */
static void check_names_of_policies(void **state)
{
    fixture *f = *state;
    weir_config *c;
    char yaml[256];
    const config_sink sink = {note_problem, f};
    write_limit(f, "a.yaml", "d", "k");
    snprintf(yaml, sizeof yaml, "envoy: {config: %s}\npolicies: {d.k: gcra 1/s}\n", f->path);
    f->out = open_memstream(&f->found, &f->found_len);
    assert_int_equal(config_parse(yaml, strlen(yaml), "w.yaml", true, NULL, &sink, &c),
                     WEIR_E_SYNTAX);
    fclose(f->out);
    assert_string_equal(f->found, "w.yaml:2:12: error: policies.\"d.k\": a limit of envoy.config "
                                  "has the same name; rename the policy\n");
}

/* Aliases repeat a part of a file without limit only within the limits on the tree. */
static void check_bombs(void **state)
{
    fixture *f = *state;
    char text[2048];
    size_t len = (size_t)snprintf(text, sizeof text, "domain: d\nmetadata:\n  a0: &a0 [x, x, x]\n");
    for (int i = 1; i < 20; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "  a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            len +=
                (size_t)snprintf(text + len, sizeof text - len, "%s*a%d", k > 0 ? ", " : "", i - 1);
        len += (size_t)snprintf(text + len, sizeof text - len, "]\n");
    }
    write_file(f, "a.yaml", text);
    weir_config *c;
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(f->found, "more than 2000000 keys and values, with those that aliases "
                                     "repeat\n"));
    len = (size_t)snprintf(text, sizeof text, "domain: d\nmetadata:\n  a0: &a0 [x]\n");
    for (int i = 1; i < 40; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "  a%d: &a%d [*a%d]\n", i, i, i - 1);
    write_file(f, "a.yaml", text);
    assert_int_equal(load(f, f->path, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(f->found, "nested more than 32 levels deep\n"));
}

/* ---- descriptors_test.txt -------------------------------------------------------------------- */

/* The problems of the only file, or the limits if it is accepted, as the table has them. */
static char *describe(fixture *f, const char *yaml, bool *ret_accepted)
{
    weir_config *c;
    char *text = NULL;
    size_t len = 0;
    weir_buffer limits;
    write_file(f, "t.yaml", yaml);
    *ret_accepted = load(f, f->path, &c) == WEIR_OK;
    FILE *out = open_memstream(&text, &len);
    for (const char *at = f->found; *at; at += strcspn(at, "\n") + 1) {
        assert_memory_equal(at, "t.yaml:", 7);
        fprintf(out, "%.*s\n", (int)strcspn(at + 7, "\n"), at + 7);
    }
    weir_buffer_init(&limits, 1 << 20);
    if (*ret_accepted)
        weir_rls_config_print(envoy_settings_of(c)->rls, &limits);
    if (weir_buffer_len(&limits) > 0)
        fprintf(out, "%.*s", (int)weir_buffer_len(&limits), (char *)weir_buffer_data(&limits));
    weir_buffer_free(&limits);
    config_free(c);
    fclose(out);
    return text;
}

/* A case: YAML, a line with the verdicts, what weir says. */
static void check_case(fixture *f, char *text)
{
    char *head = strstr(text, "---- "), *body = strchr(head, '\n') + 1;
    bool accepted;
    char *yaml = strndup(text, (size_t)(head - text));
    char *said = describe(f, yaml, &accepted);
    if (accepted != (strncmp(head, "---- accepted", 13) == 0))
        fail_msg("%s%s: %s", yaml, accepted ? "accepted" : "refused", said);
    if (strcmp(said, body) != 0)
        fail_msg("%sexpected:\n%sfound:\n%s", yaml, body, said);
    free(said);
    free(yaml);
}

static void check_cases(void **state)
{
    static const char end[] = "====\n";
    fixture *f = *state;
    char *text = NULL;
    size_t len, n = 0;
    assert_null(input_read(cases_path, 1 << 20, &text, &len));
    for (char *at = text, *stop; *at; at = stop + strlen(end), n++) {
        stop = strstr(at, end);
        assert_non_null(stop);
        *stop = '\0';
        check_case(f, at);
    }
    assert_true(n > 80);
    free(text);
}

#define TEST(check) cmocka_unit_test_setup_teardown(check, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(check_files),
        TEST(check_long_paths),
        TEST(check_large_files),
        TEST(check_memory),
        TEST(check_config_map),
        TEST(check_no_files),
        TEST(check_limits_of_directories),
        TEST(check_errors_of_files),
        TEST(check_duplicate_domains),
        TEST(check_names_of_policies),
        TEST(check_bombs),
        TEST(check_cases),
    };
    weir_use_guests();
    cases_path = argc == 2 ? argv[1] : "src/cmd/config/envoy/descriptors_test.txt";
    return cmocka_run_group_tests_name("directory", tests, NULL, NULL);
}
