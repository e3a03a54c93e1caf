/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the reorder buffer, and the merge of several files, with models that sort lists. The
 * files are random: lines out of order, equal times, far-ahead times, short and long keys, lines
 * without a request, and any mix of plain and compressed files. WEIR_SEED repeats a run. */

#include "accesslog/accesslog.h"
#include "accesslog/reader.h"
#include "tests/kit/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINES_MAX = 400, FILES_MAX = 5, KEY_MAX = 200 };

#define NS_PER_S INT64_C(1000000000)
#define HOUR_NS  (3600 * NS_PER_S)

/* ---- random numbers -------------------------------------------------------------------------- */

static uint64_t seed = 20260101;

static uint64_t below(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct item {
    int64_t t_ns;
    uint64_t line;
    int file;
    char key[KEY_MAX];
} item;

typedef struct list {
    size_t len;
    item items[LINES_MAX * FILES_MAX];
} list;

static void push(list *l, const item *i)
{
    assert_true(l->len < sizeof l->items / sizeof l->items[0]);
    l->items[l->len++] = *i;
}

/* Takes the first of the earliest items out of the list. */
static item pop_earliest(list *l)
{
    size_t at = 0;
    for (size_t i = 1; i < l->len; i++)
        at = l->items[i].t_ns < l->items[at].t_ns ? i : at;
    item ret = l->items[at];
    memmove(&l->items[at], &l->items[at + 1], (--l->len - at) * sizeof ret);
    return ret;
}

static int64_t earliest_ns(const list *l)
{
    int64_t ret = INT64_MAX;
    for (size_t i = 0; i < l->len; i++)
        ret = l->items[i].t_ns < ret ? l->items[i].t_ns : ret;
    return ret;
}

static bool is_far(int64_t t_ns, int64_t latest_ns, bool ahead)
{
    return ahead ? t_ns > latest_ns + HOUR_NS : t_ns < latest_ns - HOUR_NS;
}

/* The log's time after the first n items, if it was `latest_ns` before the last of them. */
static int64_t model_time(const list *file, size_t n, int64_t latest_ns)
{
    int64_t t_ns = file->items[n - 1].t_ns, nearest_ns = t_ns;
    bool ahead = t_ns > latest_ns;
    if (n == 1 || (n == 2 && is_far(t_ns, latest_ns, false)))
        return t_ns;
    if (!is_far(t_ns, latest_ns, ahead))
        return ahead ? t_ns : latest_ns;
    for (size_t i = n; i + 100 > n; i--) {
        if (i == 0 || !is_far(file->items[i - 1].t_ns, latest_ns, ahead))
            return latest_ns;
        t_ns = file->items[i - 1].t_ns;
        nearest_ns = (t_ns < nearest_ns) == ahead ? t_ns : nearest_ns;
    }
    return nearest_ns;
}

/* The items of one file in the order in which a buffer returns them. */
static void model_reorder(const list *file, int64_t delay_ns, size_t len_max, list *ret)
{
    static list held;
    int64_t latest_ns = 0;
    held.len = ret->len = 0;
    for (size_t i = 0; i < file->len; i++) {
        push(&held, &file->items[i]);
        latest_ns = model_time(file, i + 1, latest_ns);
        while (held.len > 0 &&
               (latest_ns - earliest_ns(&held) >= delay_ns || held.len >= len_max)) {
            item next = pop_earliest(&held);
            push(ret, &next);
        }
    }
    while (held.len > 0) {
        item next = pop_earliest(&held);
        push(ret, &next);
    }
}

/* Merges the files: always the earliest of their first items, and of the first such file. */
static void model_merge(const list *files, size_t len, list *ret)
{
    size_t at[FILES_MAX] = {0};
    ret->len = 0;
    for (;;) {
        const item *first = NULL;
        for (size_t i = 0; i < len; i++) {
            const item *head = at[i] < files[i].len ? &files[i].items[at[i]] : NULL;
            first = head && (!first || head->t_ns < first->t_ns) ? head : first;
        }
        if (!first)
            return;
        push(ret, first);
        at[first->file]++;
    }
}

/* ---- random files ---------------------------------------------------------------------------- */

static void random_items(list *ret, int file, size_t len)
{
    int64_t now_ns = (int64_t)below(3) * 10 * NS_PER_S;
    uint64_t disorder_s = below(4) * 5, line = 0;
    ret->len = 0;
    while (ret->len < len) {
        item i = {.file = file};
        now_ns += (int64_t)below(3) * NS_PER_S;
        int64_t back_ns = (int64_t)below(disorder_s + 1) * NS_PER_S;
        i.t_ns = now_ns > back_ns ? now_ns - back_ns : 0;
        if (below(100) == 0)
            i.t_ns += 100000 * NS_PER_S;
        i.line = ++line + below(2); /* sometimes an empty line is before it */
        line = i.line;
        int end = snprintf(i.key, sizeof i.key, "%d-%" PRIu64 "-", file, i.line);
        size_t more = below(4) == 0 ? below(KEY_MAX - 40) : below(40);
        memset(i.key + end, 'k', more);
        push(ret, &i);
    }
}

/* Writes the items as tsv lines. */
static void write_log(const list *l, const char *name, bool packed)
{
    char command[64];
    snprintf(command, sizeof command, "gzip -c >%s", name);
    FILE *f = packed ? popen(command, "w") : fopen(name, "w");
    uint64_t line = 1;
    assert_non_null(f);
    for (size_t i = 0; i < l->len; i++) {
        for (; line < l->items[i].line; line++)
            fputs("\n", f);
        fprintf(f, "%" PRId64 "\t%s\t%" PRIu64 "\n", l->items[i].t_ns, l->items[i].key, line++);
    }
    assert_int_equal(packed ? pclose(f) : fclose(f), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void expect_held(const accesslog_held *held, const item *expected)
{
    weir_slice key = accesslog_held_key(held);
    assert_int_equal(held->t_ns, expected->t_ns);
    assert_int_equal(held->line, expected->line);
    assert_int_equal(key.len, strlen(expected->key));
    assert_memory_equal(key.at, expected->key, key.len);
}

static void check_reorder(void **unused)
{
    (void)unused;
    static list in, expected;
    for (int round = 0; round < 300; round++) {
        accesslog_reorder r;
        const accesslog_held *held;
        int64_t delay_ns = (int64_t)below(30) * NS_PER_S;
        size_t len_max = 1 + below(below(2) ? 8 : LINES_MAX), out = 0;
        random_items(&in, 0, below(LINES_MAX));
        model_reorder(&in, delay_ns, len_max, &expected);
        accesslog_reorder_init(&r, delay_ns, len_max, SIZE_MAX);
        for (size_t i = 0; i <= in.len; i++) {
            const item *next = &in.items[i];
            weir_log_record record = {next->t_ns, next->key, strlen(next->key), 1};
            if (i == in.len)
                accesslog_reorder_end(&r);
            else
                assert_int_equal(accesslog_reorder_add(&r, &record, next->line), WEIR_OK);
            while ((held = accesslog_reorder_ready(&r))) {
                expect_held(held, &expected.items[out++]);
                accesslog_reorder_remove(&r);
            }
            assert_true(accesslog_reorder_len(&r) < len_max || i == in.len);
        }
        assert_int_equal(out, in.len);
        assert_int_equal(r.bytes, 0);
        accesslog_reorder_free(&r);
    }
}

/* The bytes of long keys are limited, too, and those that are still held are freed. */
static void check_reorder_bytes(void **unused)
{
    (void)unused;
    accesslog_reorder r;
    char key[KEY_MAX];
    memset(key, 'k', sizeof key);
    weir_log_record record = {.t_ns = 5, .key = key, .key_len = sizeof key};
    accesslog_reorder_init(&r, INT64_MAX, 1000, 3 * sizeof key);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_null(accesslog_reorder_ready(&r));
        assert_int_equal(accesslog_reorder_add(&r, &record, i), WEIR_OK);
    }
    assert_int_equal(accesslog_reorder_ready(&r)->line, 1);
    accesslog_reorder_remove(&r);
    assert_null(accesslog_reorder_ready(&r));
    accesslog_reorder_free(&r);
    accesslog_reorder_free(&r); /* zeros */
}

static void add(accesslog_reorder *r, int64_t t_s, uint64_t line)
{
    weir_log_record record = {.t_ns = t_s * NS_PER_S, .key = "k", .key_len = 1, .cost = 1};
    assert_int_equal(accesslog_reorder_add(r, &record, line), WEIR_OK);
}

/* Removes the requests that are ready. Returns how many were earlier than one before. */
static size_t drain(accesslog_reorder *r, int64_t *last_ns)
{
    const accesslog_held *held;
    size_t back = 0;
    while ((held = accesslog_reorder_ready(r))) {
        back += held->t_ns < *last_ns;
        *last_ns = held->t_ns;
        accesslog_reorder_remove(r);
    }
    return back;
}

/* Reads 400 lines, which are up to 9 s out of order, and before line `first` some whose times are
 * wrong. Line 300 is the first of another day. */
static void with_wrong_times(int64_t ahead_s, int run, int first)
{
    accesslog_reorder r;
    int64_t last_ns = 0;
    uint64_t line = 0;
    accesslog_reorder_init(&r, 10 * NS_PER_S, SIZE_MAX, SIZE_MAX);
    for (int i = 0; i < 400; i++) {
        int64_t t_s = 200000 + 100000 * (i >= 300) + i / 10 * 10 + 9 - i % 10;
        for (int n = 0; i == first && n < run; n++) {
            add(&r, t_s + ahead_s, ++line);
            (void)drain(&r, &last_ns);
        }
        last_ns = i == first ? 0 : last_ns;
        add(&r, t_s, ++line);
        if (drain(&r, &last_ns) > 0)
            fail_msg("%d lines %" PRId64 " s ahead before line %d: line %d", run, ahead_s, first,
                     i);
    }
    assert_true(accesslog_reorder_len(&r) < 200); /* it is not held until the end of the log */
    accesslog_reorder_free(&r);
}

/* Lines with wrong times change nothing for the others. */
static void check_wrong_times(void **unused)
{
    (void)unused;
    static const int64_t ahead_s[] = {300000000, -50000, 7210};
    for (size_t i = 0; i < 3; i++) {
        with_wrong_times(ahead_s[i], 1, 0);
        for (int run = 1; run < 100; run += 49)
            for (int first = 67; first < 300; first += 67)
                with_wrong_times(ahead_s[i], run, first);
    }
}

/* A log in reverse order takes O(n log n): a million lines, as many as may be held. */
static void check_reverse_order(void **unused)
{
    (void)unused;
    accesslog_reorder r;
    const accesslog_held *held;
    int64_t t_s = 0;
    enum { LINES = 1000000 };
    accesslog_reorder_init(&r, INT64_MAX, SIZE_MAX, SIZE_MAX);
    for (int i = 0; i < LINES; i++)
        add(&r, LINES - i / 2, (uint64_t)i + 1);
    accesslog_reorder_end(&r);
    for (uint64_t line = 0; (held = accesslog_reorder_ready(&r));) {
        assert_true(held->t_ns > t_s * NS_PER_S || held->line > line);
        t_s = held->t_ns / NS_PER_S;
        line = held->line;
        accesslog_reorder_remove(&r);
    }
    assert_int_equal(t_s, LINES);
    accesslog_reorder_free(&r);
}

/* Reads all requests, and compares them with the model. */
static void expect_source(accesslog *a, const list *expected)
{
    accesslog_request r;
    int64_t latest_ns = 0;
    uint64_t late = 0;
    for (size_t i = 0; i < expected->len; i++) {
        const item *e = &expected->items[i];
        char name[16];
        snprintf(name, sizeof name, "log%d", e->file);
        assert_int_equal(accesslog_next(a, &r), ACCESSLOG_REQUEST);
        latest_ns = e->t_ns > latest_ns ? e->t_ns : latest_ns;
        late += e->t_ns < latest_ns;
        assert_int_equal(r.t_ns, e->t_ns);
        assert_int_equal(r.now_ns, latest_ns);
        assert_int_equal(r.line, e->line);
        assert_int_equal(r.cost, e->line);
        assert_string_equal(r.file, name);
        assert_int_equal(r.key.len, strlen(e->key));
        assert_memory_equal(r.key.at, e->key, r.key.len);
        assert_int_equal(accesslog_counts_get(a).requests, i + 1);
    }
    assert_int_equal(accesslog_next(a, &r), ACCESSLOG_END);
    assert_int_equal(accesslog_counts_get(a).late, late);
    assert_int_equal(accesslog_counts_get(a).bad, 0);
}

static void check_merge(void **unused)
{
    (void)unused;
    static list in[FILES_MAX], ordered[FILES_MAX], expected;
    static char names[FILES_MAX][16];
    char *paths[FILES_MAX];
    for (int round = 0; round < 60; round++) {
        size_t files = 1 + below(FILES_MAX);
        int64_t delay_ns = below(3) ? (int64_t)below(20) * NS_PER_S : 0;
        accesslog_options o = {.paths = paths, .paths_len = files, .reorder_ns = delay_ns};
        accesslog *a = NULL;
        for (size_t i = 0; i < files; i++) {
            snprintf(names[i], sizeof names[i], "log%zu", i);
            paths[i] = names[i];
            random_items(&in[i], (int)i, i == 0 ? 1 + below(LINES_MAX) : below(LINES_MAX));
            write_log(&in[i], names[i], below(2) == 0);
            if (delay_ns > 0)
                model_reorder(&in[i], delay_ns, SIZE_MAX, &ordered[i]);
            else
                ordered[i] = in[i];
        }
        model_merge(ordered, files, &expected);
        assert_int_equal(accesslog_open(&a, &o), 0);
        expect_source(a, &expected);
        assert_int_equal(accesslog_files(a), files);
        for (size_t i = 0; i < files; i++) {
            accesslog_file f = accesslog_file_get(a, i);
            assert_string_equal(f.name, names[i]);
            assert_int_equal(f.requests, in[i].len);
            assert_int_equal(f.lines, in[i].len ? in[i].items[in[i].len - 1].line : 0);
        }
        accesslog_close(a);
    }
}

/* Closing in the middle ends the processes that decompress. */
static void check_close_early(void **unused)
{
    (void)unused;
    static list in;
    char *paths[] = {"log0", "log1"};
    accesslog_options o = {.paths = paths, .paths_len = 2, .reorder_ns = NS_PER_S};
    accesslog_request r;
    for (size_t n = 0; n < 20; n++) {
        accesslog *a = NULL;
        for (int i = 0; i < 2; i++) {
            random_items(&in, i, LINES_MAX);
            write_log(&in, paths[i], true);
        }
        assert_int_equal(accesslog_open(&a, &o), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(accesslog_next(a, &r), ACCESSLOG_REQUEST);
        accesslog_close(a);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
        assert_int_equal(errno, ECHILD);
    }
}

/* ---- slow input, and the end of the programs ------------------------------------------------- */

/* The bytes that a slow writer has left. It writes one byte at each call of poll(), and all the
 * rest at call number `waits`. */
static struct {
    int fd; /* -1: there is no writer */
    const uint8_t *bytes;
    size_t len, waits;
} writer = {.fd = -1};

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

static void write_next(size_t n)
{
    assert_true(n <= writer.len);
    if (n > 0)
        assert_int_equal(write(writer.fd, writer.bytes, n), n);
    writer.bytes += n;
    writer.len -= n;
    if (writer.len == 0) {
        close(writer.fd);
        writer.fd = -1;
    }
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (writer.fd >= 0)
        write_next(--writer.waits > 0 ? 1 : writer.len);
    return __real_poll(fds, n, timeout_ms);
}

/* Makes a pipe or a socket the standard input, which begins with one byte. The others follow. */
static void begin_slowly(bool is_socket, const void *bytes, size_t len, size_t waits)
{
    int fds[2];
    assert_int_equal(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    close(fds[0]);
    writer.fd = fds[1];
    writer.bytes = bytes;
    writer.len = len;
    writer.waits = waits;
    write_next(1);
}

/* Bytes that may begin a magic number are awaited, and no others. */
static void check_slow_input(void **unused)
{
    static const uint8_t gzip[] = {0x1F, 0x8B, 8, 0,    0,    0,    0,    0, 0, 3, 0x33,
                                   0xE4, 2,    0, 0x53, 0xFC, 0x51, 0x67, 2, 0, 0, 0};
    static const struct {
        const void *bytes;
        size_t len, waits; /* before the first line */
        const char *line;
    } rows[] = {
        {gzip, sizeof gzip, 1, "1"},  {"\x1F", 1, 0, "\x1F"},         {"\x1Fx\n", 3, 1, "\x1Fx"},
        {"(\xB5/\n", 4, 3, "(\xB5/"}, {"PROXY a\n", 8, 1, "PROXY a"}, {"abc\n", 4, 0, "abc"},
    };
    (void)unused;
    alarm(60); /* the input would wait forever */
    int input = dup(STDIN_FILENO);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        accesslog_input in;
        const char *line;
        size_t len, n = i / 2;
        begin_slowly(i % 2 == 1, rows[n].bytes, rows[n].len, rows[n].waits);
        assert_true(accesslog_input_open(&in, "-"));
        if (rows[n].waits == 0 && writer.fd >= 0)
            write_next(writer.len);
        assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_LINE);
        assert_int_equal(len, strlen(rows[n].line));
        assert_memory_equal(line, rows[n].line, len);
        assert_int_equal(writer.fd, -1);
        accesslog_input_close(&in);
    }
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    alarm(0);
}

/* Makes `script` the program gzip. Returns the former PATH; for free(). */
static char *replace_gzip(const char *script)
{
    char path[4096], *before = strdup(getenv("PATH"));
    write_file("gzip", script);
    assert_int_equal(chmod("gzip", 0700), 0);
    snprintf(path, sizeof path, ".:%s", before);
    assert_int_equal(setenv("PATH", path, 1), 0);
    return before;
}

static void restore_gzip(char *path)
{
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
    unlink("gzip");
}

/* A log is not whole if a signal has ended the program that decompresses it. */
static void check_killed_program(void **unused)
{
    static const char prefix[] = "gzip was ended by signal 9 (";
    static const char suffix[] = ") after line 1: the rest of the log is missing";
    (void)unused;
    accesslog_input in;
    const char *line;
    size_t len;
    write_file("log", "\x1F\x8B");
    char *path = replace_gzip("#!/bin/sh\nprintf 'one\\ntw'\nkill -KILL $$\n");
    assert_true(accesslog_input_open(&in, "log"));
    assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_LINE);
    assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_FAILED);
    assert_memory_equal(in.error, prefix, sizeof prefix - 1);
    assert_non_null(strstr(in.error, suffix));
    accesslog_input_close(&in);
    restore_gzip(path);
    unlink("log");
}

/* Reads a log from a pipe, as weir does until a signal ends it. */
static _Noreturn void read_forever(int input)
{
    accesslog_input in;
    const char *line;
    size_t len;
    if (dup2(input, STDIN_FILENO) == STDIN_FILENO && accesslog_input_open(&in, "-"))
        (void)accesslog_input_next(&in, &line, &len);
    _exit(1);
}

/* A program that waits for more of a pipe ends with its parent. */
static void check_orphan(void **unused)
{
    int input[2], alive[2];
    char script[64], byte;
    (void)unused;
    assert_int_equal(pipe(input), 0);
    assert_int_equal(pipe(alive), 0);
    snprintf(script, sizeof script, "#!/bin/sh\nprintf b >&%d\nexec cat\n", alive[1]);
    char *path = replace_gzip(script);
    pid_t reader = fork();
    if (reader == 0)
        read_forever(input[0]);
    close(alive[1]);
    assert_int_equal(write(input[1], "\x1F\x8B", 2), 2);
    assert_int_equal(read(alive[0], &byte, 1), 1); /* the program runs */
    assert_int_equal(kill(reader, SIGTERM), 0);
    assert_int_equal(waitpid(reader, NULL, 0), reader);
    struct pollfd ended = {.fd = alive[0], .events = POLLIN};
    assert_int_equal(__real_poll(&ended, 1, 20000), 1);
    assert_int_equal(read(alive[0], &byte, 1), 0);
    close(input[0]);
    close(input[1]);
    close(alive[0]);
    restore_gzip(path);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line that is too long is skipped, even if it is longer than the buffer, and the next one is
 * read. A damaged compressed file fails after its last line. */
static void check_long_lines(void **unused)
{
    (void)unused;
    static const size_t lens[] = {ACCESSLOG_LINE_MAX, ACCESSLOG_LINE_MAX + 1,
                                  5 * ACCESSLOG_LINE_MAX, 1};
    accesslog_input in;
    const char *line;
    size_t len = 0;
    FILE *f = fopen("long", "w");
    assert_non_null(f);
    for (size_t i = 0; i < 4; i++)
        fprintf(f, "%0*d\n", (int)lens[i], 0);
    assert_int_equal(fclose(f), 0);
    assert_true(accesslog_input_open(&in, "long"));
    for (size_t i = 0; i < 4; i++) {
        bool fits = lens[i] <= ACCESSLOG_LINE_MAX;
        assert_int_equal(accesslog_input_next(&in, &line, &len),
                         fits ? ACCESSLOG_INPUT_LINE : ACCESSLOG_INPUT_LINE_TOO_LONG);
        assert_int_equal(in.number, i + 1);
        assert_true(!fits || len == lens[i]);
    }
    assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_END);
    accesslog_input_close(&in);

    assert_int_equal(system("echo one | gzip -c >broken && echo two >>broken"), 0);
    assert_true(accesslog_input_open(&in, "broken"));
    assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_LINE);
    assert_int_equal(accesslog_input_next(&in, &line, &len), ACCESSLOG_INPUT_FAILED);
    assert_memory_equal(in.error, "gzip failed after line 1: ", 26);
    accesslog_input_close(&in);
}

int main(void)
{
    const char *text = getenv("WEIR_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_reorder),     cmocka_unit_test(check_reorder_bytes),
        cmocka_unit_test(check_wrong_times), cmocka_unit_test(check_reverse_order),
        cmocka_unit_test(check_merge),       cmocka_unit_test(check_close_early),
        cmocka_unit_test(check_slow_input),  cmocka_unit_test(check_killed_program),
        cmocka_unit_test(check_orphan),      cmocka_unit_test(check_long_lines),
    };
    seed = text ? strtoull(text, NULL, 10) : seed;
    printf("WEIR_SEED=%" PRIu64 "\n", seed);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
