/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each command frees its memory and closes its files, also if it fails, and also if any of its
 * allocations fails. The allocator is a fake (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "tests/kit/kit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the allocator --------------------------------------------------------------------------- */

static struct {
    _Atomic int64_t blocks; /* allocated and not freed */
    size_t left;            /* how many allocations succeed from now on */
    bool failed;            /* one has failed */
    bool leaked_secret;
} heap;

#define ALL    ((size_t)-1)
#define SECRET "hunter2hunter2"

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__real_realloc(void *p, size_t size);
void __wrap_free(void *p);
void __real_free(void *p);
ssize_t __wrap_getline(char **text, size_t *size, FILE *f);
ssize_t __real_getline(char **text, size_t *size, FILE *f);

static bool may_allocate(void)
{
    heap.failed |= heap.left == 0;
    heap.left -= heap.left > 0 && heap.left != ALL;
    return !heap.failed;
}

/* Zeroes the block from `used` on: it may hold what a library has freed. */
static void *cleared(void *p, size_t used)
{
    if (p && malloc_usable_size(p) > used)
        memset((char *)p + used, 0, malloc_usable_size(p) - used);
    return p;
}

static void *counted(void *p)
{
    heap.blocks += p != NULL;
    return cleared(p, 0);
}

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? counted(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? counted(__real_calloc(n, size)) : NULL;
}

/* No block that is freed may hold a password. */
static void check_freed(void *p)
{
    if (p && memmem(p, malloc_usable_size(p), SECRET, sizeof SECRET - 1))
        heap.leaked_secret = true;
}

void *__wrap_realloc(void *p, size_t size)
{
    if (!may_allocate())
        return NULL;
    check_freed(p); /* it may move */
    size_t before = p ? malloc_usable_size(p) : 0;
    void *more = __real_realloc(p, size);
    return p ? cleared(more, before) : counted(more);
}

void __wrap_free(void *p)
{
    check_freed(p);
    heap.blocks -= p != NULL;
    __real_free(p);
}

/* The C library allocates the line, and the caller frees it. */
ssize_t __wrap_getline(char **text, size_t *size, FILE *f)
{
    bool is_new = *text == NULL;
    ssize_t len = __real_getline(text, size, f);
    heap.blocks += is_new && *text;
    return len;
}

/* ---- the commands ---------------------------------------------------------------------------- */

enum { WORDS_MAX = 8 };

typedef struct row {
    int (*run)(int argc, char **argv);
    int status;
    const char *words[WORDS_MAX];
} row;

/* A store of 8 MiB holds 7 states of this policy, so that the store grows for the 8th. */
#define LARGE "sliding-slices 1/h slices 65536"

static const row rows[] = {
    {weir_cmd_policy, 0, {"policy", "gcra 1/s", "gcra 2/s"}},
    {weir_cmd_policy, 2, {"policy", "gcra 1/q"}},
    {weir_cmd_policy, 0, {"policy", "fixed-window 1/day tz Europe/Berlin"}},
    {weir_cmd_demo, 0, {"demo"}},
    {weir_cmd_demo, 0, {"demo", "--burst", "3", "--policy", "sliding-log 2/d"}},
    {weir_cmd_demo, 2, {"demo", "--policy", "gcra 1/q"}},
    {weir_cmd_check, 0, {"check", "good.yaml"}},
    {weir_cmd_check, 0, {"check", "--syntax", "good.yaml"}},
    {weir_cmd_check, 1, {"check", "bad.yaml"}},
    {weir_cmd_check, 1, {"check", "redis.yaml"}},
    {weir_cmd_check, 1, {"check", "secret.yaml"}},
    {weir_cmd_check, 0, {"check", "--syntax", "sentinel.yaml"}},
    {weir_cmd_check, 0, {"check", "--syntax", "long.yaml"}},
    {weir_cmd_check, 1, {"check", "long_secret.yaml"}},
    {weir_cmd_check, 1, {"check", "none.yaml"}},
    {weir_cmd_serve, 1, {"serve", "bad.yaml"}},
    {weir_cmd_serve, 1, {"serve", "--redis", "x"}},
    {weir_cmd_serve, 1, {"serve", "redis.yaml"}},
    {weir_cmd_serve, 1, {"serve", "good.yaml", "--redis", "x"}},
    {weir_cmd_serve, 2, {"serve", "plain.yaml", "--reset-state"}},
    {weir_cmd_state, 0, {"state", "new", "--import", "full.jsonl"}},
    {weir_cmd_state, 0, {"state", "new"}},
    {weir_cmd_state, 0, {"state", "new", "--export", "--with-secret"}},
    {weir_cmd_state, 0, {"state", "new", "--set-clock"}},
    {weir_cmd_state, 0, {"state", "new", "--import", "full.jsonl"}},
    {weir_cmd_state, 0, {"state", "ahead", "--set-clock"}},
    {weir_cmd_state, 1, {"state", "new", "--import", "wrong.jsonl"}},
    {weir_cmd_state, 1, {"state", "new", "--import", "none.jsonl"}},
    {weir_cmd_state, 1, {"state", "none"}},
    {weir_cmd_state, 1, {"state", "good.yaml"}},
    {weir_cmd_replay, 0, {"replay", "--policy", "gcra 1/s", "--policy", "gcra 2/s", "log.tsv"}},
    {weir_cmd_replay, 0, {"replay", "--config", "plain.yaml", "--policy", "a", "log.tsv"}},
    {weir_cmd_replay, 0, {"replay", "--decisions", "jsonl", "--policy", "gcra 1/s", "log.tsv"}},
    {weir_cmd_replay, 0, {"replay", "--policy", "gcra 1/s", "--key", "user", "quotes.csv"}},
    {weir_cmd_replay, 0, {"replay", "--policy", "gcra 1/s", "log.gz"}},
    {weir_cmd_replay, 1, {"replay", "--policy", "gcra 1/s", "half.gz"}},
    {weir_cmd_replay, 0, {"replay", "--memory", "16m", "--policy", LARGE, "keys.tsv"}},
    {weir_cmd_replay, 1, {"replay", "--policy", "gcra 1/s", "none.tsv"}},
    {weir_cmd_replay, 1, {"replay", "--policy", "gcra 1/s", "."}},
    {weir_cmd_replay, 1, {"replay", "--policy", "gcra 1/s", "-"}}, /* it is empty */
    {weir_cmd_replay, 1, {"replay", "--policy", "gcra 1/s", "--strict", "bad.yaml"}},
    {weir_cmd_replay, 1, {"replay", "--config", "bad.yaml", "--policy", "a", "log.tsv"}},
};

#define HEAD(time_ns)                                                                              \
    "{\"weir_state\":3,\"time_ns\":" time_ns ",\"wall_ns\":1795377343327627102,"                   \
    "\"memory_bytes\":8388608,\"large_bytes\":2097152,\"fingerprint\":\"658b070407a29c39\","       \
    "\"secret\":\"00112233445566778899aabbccddeeff\"}\n"

static const struct {
    const char *name, *text;
} files[] = {
    {"good.yaml", "listen: {resp: '127.0.0.1:0', http: '127.0.0.1:0'}\nmemory: {file: state}\n"
                  "password: " SECRET "\nredis: {url: 'redis://h', user: u, password: " SECRET "}\n"
                  "policies: {a: gcra 1/s, b: {limit: fixed-window 1/day tz Europe/Berlin,\n"
                  "  overrides: {'x*': gcra 2/s}, allow: [y]}}\n"},
    {"plain.yaml", "policies: {a: gcra 1/s}\n"},
    {"bad.yaml", "threads: 0\nx: *y\npolices: [1\n"},
    {"secret.yaml", "password: 'a" SECRET "'\nthreads: 0\n"},
    {"sentinel.yaml", "redis: {url: 'redis://h', sentinel: {name: m, password: \"" SECRET "\"}}\n"},
    {"long.yaml", "password: '" SECRET "'\n"},
    {"long_secret.yaml", "password_file: long_secret\n"},
    {"long_secret", SECRET "\n"},
    {"redis.yaml", "redis: {url: 'rediss://127.0.0.1', tls: {ca: none.pem}}\n"},
    {"log.tsv", "1000000000\ta\n2000000000\tb\nx\n2000000001\ta\n1\ta\n"},
    {"quotes.csv", "time,user\n1,\"a\"\"b\"\n"},
    {"keys.tsv", "1\ta\n1\tb\n1\tc\n1\td\n1\te\n1\tf\n1\tg\n1\th\n"},
    {"full.jsonl",
     HEAD("1795377343327627252") "{\"policy\":\"gcra 5/h burst 5\",\"id\":\"38962c7ef3936cfd\"}\n"
                                 "{\"hash\":\"1e83d10eed7a2859\",\"fresh_at_ns\":1,\"form\":1,"
                                 "\"level\":0,\"words\":\"\"}\n"},
    {"ahead.jsonl", HEAD("4000000000000000000")},
    {"wrong.jsonl", "{}\n"},
};

/* "1000000000\ta\n", three times */
static const char packed[] = "\037\213\010\000\000\000\000\000\002\377\063\064\200\001\316\104\056"
                             "\103\234\034\000\045\176\354\166\047\000\000\000";

static char dir[] = "/tmp/weir-leaks-XXXXXX";

static size_t open_files(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static char errors[8192];

/* Runs a command without its output, and keeps its errors. Returns the exit status. Nothing may
 * leak. */
static int run(const row *r, size_t allocations)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    int argc = 0, saved[2] = {dup(1), dup(2)}, err = memfd_create("err", 0),
        null = open("/dev/null", O_WRONLY);
    size_t before = open_files();
    for (; argc < WORDS_MAX && r->words[argc]; argc++)
        argv[argc] = (char *)r->words[argc];
    fflush(NULL);
    dup2(null, 1);
    dup2(err, 2);
    heap.blocks = 0;
    heap.failed = false;
    heap.left = allocations;
    int status = r->run(argc, argv);
    heap.left = ALL;
    fflush(NULL);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    if (heap.leaked_secret)
        fail_msg("weir %s %s: freed memory holds a password", argv[0], argv[1]);
    if (heap.blocks != 0)
        fail_msg("weir %s %s: %d blocks leak", argv[0], argv[1], (int)heap.blocks);
    ssize_t len = pread(err, errors, sizeof errors - 1, 0);
    errors[len > 0 ? len : 0] = '\0';
    if (strstr(errors, "hunter2"))
        fail_msg("weir %s %s: an error shows a password: %s", argv[0], argv[1], errors);
    close(err);
    close(null);
    if (open_files() != before - 4)
        fail_msg("weir %s %s: a file leaks", argv[0], argv[1]);
    return status;
}

/* Makes a state file whose clock --set-clock sets back. */
static void make_ahead(void)
{
    static const row r = {weir_cmd_state, 0, {"state", "ahead", "--import", "ahead.jsonl"}};
    (void)unlink("ahead");
    assert_int_equal(run(&r, ALL), 0);
}

static void no_leaks(void **unused)
{
    (void)unused;
    make_ahead();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (run(&rows[i], ALL) != rows[i].status)
            fail_msg("row %zu, weir %s: the exit status is wrong", i, rows[i].words[0]);
    }
}

/* Each allocation fails in turn. */
static void no_leaks_without_memory(void **unused)
{
    (void)unused;
    make_ahead();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        heap.failed = true;
        for (size_t n = 0; heap.failed; n++) {
            int status = run(&rows[i], n);
            bool reported = strstr(errors, "memory");
            if (heap.failed && (status == 0 || !reported))
                fail_msg("row %zu, weir %s: allocation %zu fails unnoticed", i, rows[i].words[0],
                         n);
        }
    }
}

/* Appends n bytes. */
static void append(const char *name, size_t n)
{
    FILE *f = fopen(name, "a");
    assert_non_null(f);
    while (n-- > 0)
        putc('#', f);
    fclose(f);
}

static int make_files(void **unused)
{
    (void)unused;
    if (!mkdtemp(dir) || chdir(dir) != 0)
        return -1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        write_file(files[i].name, files[i].text);

    append("long.yaml", 5000);
    append("long_secret", 64 << 10);
    for (int whole = 0; whole < 2; whole++) {
        FILE *f = fopen(whole ? "log.gz" : "half.gz", "w");
        assert_non_null(f);
        fwrite(packed, 1, sizeof packed - 1 - (whole ? 0 : 9), f);
        fclose(f);
    }
    heap.left = ALL;
    return freopen("/dev/null", "r", stdin) ? 0 : -1;
}

static int remove_files(void **unused)
{
    (void)unused;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));)
        (void)unlink(e->d_name);
    closedir(d);
    return chdir("/") == 0 && rmdir(dir) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_leaks),
        cmocka_unit_test(no_leaks_without_memory),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
