/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Standard input and output are a pseudoterminal here, and the test is the person in front of it.
 * write() and ppoll() are fakes that call the real ones (see meson.build). */

#define _GNU_SOURCE /* ppoll(), posix_openpt() */

#include "cmd/kit/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char entered[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char left[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    ssize_t writes[4]; /* results of the next calls of write(): bytes, or -errno; 0: all bytes */
    size_t calls;
    struct timespec timeout; /* of the last ppoll() */
} fake;

ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    ssize_t result = fake.calls < COUNT(fake.writes) ? fake.writes[fake.calls++] : 0;
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return __real_write(fd, bytes, result > 0 ? (size_t)result : len);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    fake.timeout = *timeout;
    return __real_ppoll(fds, n, &(struct timespec){0, 0}, mask);
}

/* ---- the pseudoterminal ---------------------------------------------------------------------- */

enum { PATIENCE_MS = 20000 };

static int person;            /* the other end of the terminal */
static int terminal, nothing; /* the terminal, and /dev/null */
static int saved_in, saved_out;

/* Makes these the standard input and output, until end_use(). */
static void use(int in, int out)
{
    fflush(stdout);
    assert_true(dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0);
}

static int end_use(void **unused)
{
    (void)unused;
    terminal_close();
    return dup2(saved_in, STDIN_FILENO) >= 0 && dup2(saved_out, STDOUT_FILENO) >= 0 ? 0 : -1;
}

static int begin_use(void **unused)
{
    (void)unused;
    char rest[300];
    memset(&fake, 0, sizeof fake);
    setenv("TERM", "xterm", 1);
    while (read(person, rest, sizeof rest) > 0) {
    }
    use(terminal, terminal);
    return ioctl(terminal, TIOCSWINSZ, &(struct winsize){.ws_col = 100, .ws_row = 50});
}

static void set_size(unsigned short cols, unsigned short rows)
{
    const struct winsize w = {.ws_col = cols, .ws_row = rows};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &w), 0);
}

/* Expects that exactly this was written to the terminal since the last call. */
static void expect_shown(const char *expected)
{
    char got[300] = "";
    size_t len = 0, all = strlen(expected);
    do {
        struct pollfd readable = {.fd = person, .events = POLLIN};
        ssize_t n = read(person, got + len, sizeof got - 1 - len);
        if (n <= 0 && (len >= all || poll(&readable, 1, PATIENCE_MS) <= 0))
            break;
        len += n > 0 ? (size_t)n : 0;
    } while (len < sizeof got - 1);
    assert_string_equal(got, expected);
}

/* A pseudoterminal passes bytes on in the kernel's own time. */
static void type(const char *text)
{
    int before, now, len = (int)strlen(text);
    assert_int_equal(ioctl(terminal, FIONREAD, &before), 0);
    assert_int_equal(__real_write(person, text, (size_t)len), len);
    for (int i = 0; i < 10000000 && ioctl(terminal, FIONREAD, &now) == 0 && now < before + len; i++)
        sched_yield();
    assert_int_equal(now, before + len);
}

/* ---- the style ------------------------------------------------------------------------------- */

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void columns(void **unused)
{
    (void)unused;
    static const struct {
        const char *variable;
        int cols;
    } rows[] = {{NULL, 80}, {"", 80},   {"0", 80},        {"1", 1},     {"x", 80},
                {"33", 33}, {"5x", 80}, {"10000", 10000}, {"10001", 80}};
    setenv("COLUMNS", "33", 1);
    assert_int_equal(terminal_style_get().cols, 100);
    set_size(1, 50);
    assert_int_equal(terminal_style_get().cols, 1);
    set_size(0, 50);
    for (size_t i = 0; i < COUNT(rows); i++) {
        set_variable("COLUMNS", rows[i].variable);
        assert_int_equal(terminal_style_get().cols, rows[i].cols);
    }
    set_size(7, 50);
    setenv("COLUMNS", "33", 1);
    use(terminal, nothing);
    assert_int_equal(terminal_style_get().cols, 33);
    unsetenv("COLUMNS");
}

static void colours(void **unused)
{
    (void)unused;
    static const struct {
        const char *term, *no_color;
        bool colour;
    } rows[] = {{"xterm", NULL, true},
                {NULL, NULL, true},
                {"dumb", NULL, false},
                {"xterm", "", true},
                {"xterm", "0", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        set_variable("TERM", rows[i].term);
        set_variable("NO_COLOR", rows[i].no_color);
        assert_int_equal(terminal_style_get().colour, rows[i].colour);
    }
    set_variable("TERM", "xterm");
    unsetenv("NO_COLOR");
    use(terminal, nothing);
    assert_false(terminal_style_get().colour);
}

static void encodings(void **unused)
{
    (void)unused;
    setenv("LC_ALL", "C.UTF-8", 1);
    assert_true(terminal_style_get().utf8);
    setenv("LC_ALL", "C", 1);
    assert_false(terminal_style_get().utf8);
    unsetenv("LC_ALL");
}

static void full_screens_need_a_terminal(void **unused)
{
    (void)unused;
    static const struct {
        const char *term;
        bool can;
    } rows[] = {{"xterm", true}, {NULL, false}, {"", false}, {"dumb", false}, {"vt100", true}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        set_variable("TERM", rows[i].term);
        assert_int_equal(terminal_can_fill(), rows[i].can);
    }
    use(nothing, terminal);
    assert_false(terminal_can_fill());
    use(terminal, nothing);
    assert_false(terminal_can_fill());
}

static void sizes(void **unused)
{
    (void)unused;
    static const int rows[][4] = {
        {100, 50, 100, 50}, {1, 1, 1, 1}, {0, 50, 80, 24}, {100, 0, 80, 24}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        set_size((unsigned short)rows[i][0], (unsigned short)rows[i][1]);
        assert_int_equal(terminal_size_get().cols, rows[i][2]);
        assert_int_equal(terminal_size_get().rows, rows[i][3]);
    }
    set_size(100, 50);
    use(terminal, nothing);
    assert_int_equal(terminal_size_get().cols, 80);
    assert_int_equal(terminal_size_get().rows, 24);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

static int received[COUNT(signals)]; /* by count_signal() */
static bool received_cooked;         /* whether the terminal had its modes then */

static bool is_cooked(void)
{
    struct termios t;
    assert_int_equal(tcgetattr(terminal, &t), 0);
    return (t.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO) &&
           (t.c_iflag & (IXON | ICRNL)) == (IXON | ICRNL);
}

static void count_signal(int signal)
{
    for (size_t i = 0; i < COUNT(signals); i++)
        received[i] += signals[i] == signal;
    received_cooked = is_cooked();
}

/* Whether the signals are those of the test: not blocked, and with count_signal(). */
static bool has_own_signals(bool own)
{
    sigset_t mask;
    size_t same = 0;
    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct sigaction action;
        sigaction(signals[i], NULL, &action);
        same += (sigismember(&mask, signals[i]) == 0) == own &&
                (action.sa_handler == count_signal) == own;
    }
    return same == COUNT(signals);
}

static void open_terminal(void)
{
    memset(received, 0, sizeof received);
    for (size_t i = 0; i < COUNT(signals); i++)
        signal(signals[i], count_signal);
    assert_true(has_own_signals(true));
    assert_true(terminal_open());
    expect_shown(entered);
}

static void opens_and_closes(void **unused)
{
    (void)unused;
    terminal_close(); /* nothing is open */
    expect_shown("");
    assert_true(is_cooked());
    struct termios before, t;
    assert_int_equal(tcgetattr(terminal, &before), 0);
    open_terminal();
    assert_int_equal(tcgetattr(terminal, &t), 0);
    assert_int_equal(t.c_lflag, before.c_lflag & ~(tcflag_t)(ICANON | ECHO));
    assert_int_equal(t.c_iflag, before.c_iflag & ~(tcflag_t)(IXON | ICRNL));
    assert_int_equal(t.c_cc[VMIN], 1);
    assert_int_equal(t.c_cc[VTIME], 0);
    assert_true(has_own_signals(false));
    terminal_close();
    expect_shown(left);
    assert_true(is_cooked());
    assert_true(has_own_signals(true));
    terminal_close();
    expect_shown("");
}

static void does_not_open(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT(signals); i++)
        signal(signals[i], count_signal);
    use(nothing, terminal);
    assert_false(terminal_open());
    use(terminal, terminal);
    fake.writes[0] = -EIO;
    assert_false(terminal_open());
    assert_true(is_cooked());
    assert_true(has_own_signals(true));
    terminal_close();
    expect_shown("");
}

static void writes_all(void **unused)
{
    (void)unused;
    const ssize_t results[] = {2, -EINTR, 1, 0};
    memcpy(fake.writes, results, sizeof results);
    assert_true(terminal_write("abcdef", 6));
    assert_int_equal(fake.calls, 4);
    expect_shown("abcdef");
    fake.calls = 0;
    fake.writes[1] = -EIO;
    assert_false(terminal_write("abcdef", 6));
    expect_shown("ab");
    assert_true(terminal_write("", 0));
    assert_int_equal(fake.calls, 2);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void expect_events(int fd, bool key, bool socket, bool redraw)
{
    terminal_events e = terminal_wait(fd, 0);
    assert_int_equal(e.key, key);
    assert_int_equal(e.socket, socket);
    assert_int_equal(e.redraw, redraw);
}

static void waits_for_input(void **unused)
{
    (void)unused;
    int pipes[2], key;
    assert_int_equal(pipe(pipes), 0);
    open_terminal();
    expect_events(-1, false, false, false);
    expect_events(pipes[0], false, false, false);
    type("q");
    expect_events(-1, true, false, false);
    expect_events(pipes[0], true, false, false);
    assert_int_equal(__real_write(pipes[1], "x", 1), 1);
    expect_events(pipes[0], true, true, false);
    assert_int_equal(terminal_read(&key, 1), 1);
    expect_events(pipes[0], false, true, false);
    close(pipes[0]);
    close(pipes[1]);
}

static void waits_as_long(void **unused)
{
    (void)unused;
    static const int64_t rows[][3] = {
        {0, 0, 0}, {-1, 0, 0}, {1, 0, 1}, {999999999, 0, 999999999}, {INT64_C(61000000002), 61, 2}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)terminal_wait(-1, rows[i][0]);
        assert_int_equal(fake.timeout.tv_sec, rows[i][1]);
        assert_int_equal(fake.timeout.tv_nsec, rows[i][2]);
    }
}

/* A signal arrives in terminal_wait() only. The process gets the signals that end or stop it while
 * the terminal is restored. */
static void handles_signals(void **unused)
{
    (void)unused;
    open_terminal();
    for (size_t i = 0; i < COUNT(signals); i++) {
        bool obeyed = signals[i] != SIGCONT && signals[i] != SIGWINCH;
        char shown[100];
        raise(signals[i]);
        expect_shown("");
        expect_events(-1, false, false, true);
        snprintf(shown, sizeof shown, "%s%s", obeyed ? left : "",
                 signals[i] != SIGWINCH ? entered : "");
        expect_shown(shown);
        assert_int_equal(received[i], obeyed);
        assert_true(!obeyed || received_cooked);
        assert_true(has_own_signals(false));
        assert_false(is_cooked());
        expect_events(-1, false, false, false);
    }
    terminal_close();
    expect_shown(left);
    assert_true(has_own_signals(true));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void reads_keys(void **unused)
{
    (void)unused;
    static const struct {
        const char *typed;
        int keys[4]; /* 0: no more */
    } rows[] = {
        {"a", {'a'}},
        {"\r\n", {'\r', '\n'}},
        {"\xC3\xBC", {0xC3, 0xBC}},
        {"\033", {TERMINAL_ESCAPE}},
        {"\033x", {TERMINAL_ESCAPE, 'x'}},
        {"\033xy", {TERMINAL_ESCAPE, 'x', 'y'}},
        {"\033[", {TERMINAL_ESCAPE, '['}},
        {"\033[A", {TERMINAL_UP}},
        {"\033OA", {TERMINAL_UP}},
        {"\033[B", {TERMINAL_DOWN}},
        {"\033[5~", {TERMINAL_PAGE_UP}},
        {"\033[6~", {TERMINAL_PAGE_DOWN}},
        {"\033[H", {TERMINAL_HOME}},
        {"\033[1~", {TERMINAL_HOME}},
        {"\033[7~", {TERMINAL_HOME}},
        {"\033[F", {TERMINAL_END}},
        {"\033[4~", {TERMINAL_END}},
        {"\033[8~", {TERMINAL_END}},
        {"\033[9~", {TERMINAL_UNKNOWN}},
        {"\033[C", {TERMINAL_UNKNOWN}},
        {"\033[1;5A", {TERMINAL_UNKNOWN}},
        {"\033[5", {TERMINAL_UNKNOWN}}, /* cut off */
        {"\033[@a", {TERMINAL_UNKNOWN, 'a'}},
        {"\033[~a", {TERMINAL_UNKNOWN, 'a'}},
        {"\033[?a", {TERMINAL_UNKNOWN}},
        {"\033[\177a", {TERMINAL_UNKNOWN}},
        {"\033[Ab\033[B", {TERMINAL_UP, 'b', TERMINAL_DOWN}},
        {"\033\033[A", {TERMINAL_ESCAPE, TERMINAL_UP}},
    };
    open_terminal();
    for (size_t i = 0; i < COUNT(rows); i++) {
        int keys[16] = {0};
        size_t expected = 0;
        while (expected < 4 && rows[i].keys[expected] != 0)
            expected++;
        type(rows[i].typed);
        assert_int_equal(terminal_read(keys, COUNT(keys)), expected);
        for (size_t k = 0; k < expected; k++)
            assert_int_equal(keys[k], rows[i].keys[k]);
    }
}

static void reads_at_most(void **unused)
{
    (void)unused;
    static int keys[1000];
    open_terminal();
    type("abc");
    assert_int_equal(terminal_read(keys, 2), 2);
    assert_int_equal(keys[1], 'b');
    assert_int_equal(terminal_read(keys, 2), 1);
    assert_int_equal(keys[0], 'c');
    for (int i = 0; i < 300; i++)
        type("x");
    assert_int_equal(terminal_read(keys, COUNT(keys)), 256);
    assert_int_equal(terminal_read(keys, COUNT(keys)), 44);
    use(nothing, terminal);
    assert_int_equal(terminal_read(keys, 1), 0);
}

static int open_pseudoterminal(void **unused)
{
    (void)unused;
    person = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (person < 0 || grantpt(person) != 0 || unlockpt(person) != 0)
        return -1;
    terminal = open(ptsname(person), O_RDWR | O_NOCTTY);
    nothing = open("/dev/null", O_RDWR);
    saved_in = dup(STDIN_FILENO);
    saved_out = dup(STDOUT_FILENO);
    return terminal >= 0 && nothing >= 0 && saved_in >= 0 && saved_out >= 0 ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin_use, end_use)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(columns),         TEST(colours),
        TEST(encodings),       TEST(full_screens_need_a_terminal),
        TEST(sizes),           TEST(opens_and_closes),
        TEST(does_not_open),   TEST(writes_all),
        TEST(waits_for_input), TEST(waits_as_long),
        TEST(handles_signals), TEST(reads_keys),
        TEST(reads_at_most),
    };
    return cmocka_run_group_tests_name("terminal", tests, open_pseudoterminal, NULL);
}
