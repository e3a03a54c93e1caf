/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Asks the environment and the terminal driver. https://no-color.org describes NO_COLOR.
 *
 * The control sequences are those of ECMA-48 and of xterm (the alternate screen), which all
 * terminals of today have. While a screen is open, the signals that end or stop the process are
 * blocked, except in ppoll(). So a handler only sets a flag, and nothing interrupts the drawing. */

#define _GNU_SOURCE /* TIOCGWINSZ, ppoll() */

#include "cmd/kit/terminal.h"

#include "port/text.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { COLS_DEFAULT = 80, COLS_MAX = 10000 };

static int columns(void)
{
    struct winsize w;
    const char *text = getenv("COLUMNS");
    uint64_t n;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    if (text && weir_decimal_read(text, strlen(text), COLS_MAX, &n) && n > 0)
        return (int)n;
    return COLS_DEFAULT;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

terminal_style terminal_style_get(void)
{
    const char *name = getenv("TERM");
    bool dumb = name && strcmp(name, "dumb") == 0;
    setlocale(LC_CTYPE, "");
    return (terminal_style){
        .cols = columns(),
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
        .colour = isatty(STDOUT_FILENO) && !is_set("NO_COLOR") && !dumb,
    };
}

/* ---- full screens ---------------------------------------------------------------------------- */

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
enum { HANDLED = sizeof handled / sizeof *handled };

/* The one terminal of the process, because signals have one handler. */
static struct {
    bool open;
    struct termios saved;
    sigset_t saved_mask;
    struct sigaction saved_action[HANDLED];
    volatile sig_atomic_t seen[HANDLED];
} term;

static bool is_dumb(void)
{
    const char *name = getenv("TERM");
    return !name || !*name || strcmp(name, "dumb") == 0;
}

bool terminal_can_fill(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !is_dumb();
}

bool terminal_write(const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, at, len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* Alternate screen, no cursor, no wrapping at the right margin, cleared. */
static bool enter(void)
{
    static const char text[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
    struct termios raw = term.saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0 && terminal_write(text, sizeof text - 1);
}

static void leave(void)
{
    static const char text[] = "\033[0m\033[?7h\033[?25h\033[?1049l";
    terminal_write(text, sizeof text - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &term.saved);
}

static void on_signal(int signal)
{
    for (int i = 0; i < HANDLED; i++) {
        if (handled[i] == signal)
            term.seen[i] = 1;
    }
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t mask;
    sigemptyset(&mask);
    for (int i = 0; i < HANDLED; i++)
        sigaddset(&mask, handled[i]);
    sigprocmask(SIG_BLOCK, &mask, &term.saved_mask);
    for (int i = 0; i < HANDLED; i++) {
        term.seen[i] = 0;
        sigaction(handled[i], &action, &term.saved_action[i]);
    }
}

static void restore_signals(void)
{
    for (int i = 0; i < HANDLED; i++)
        sigaction(handled[i], &term.saved_action[i], NULL);
    sigprocmask(SIG_SETMASK, &term.saved_mask, NULL);
}

bool terminal_open(void)
{
    if (tcgetattr(STDIN_FILENO, &term.saved) != 0)
        return false;
    handle_signals();
    term.open = enter();
    if (!term.open) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &term.saved);
        restore_signals();
    }
    return term.open;
}

void terminal_close(void)
{
    if (!term.open)
        return;
    leave();
    restore_signals();
    term.open = false;
}

terminal_size terminal_size_get(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_row == 0)
        return (terminal_size){80, 24};
    return (terminal_size){w.ws_col, w.ws_row};
}

/* Does with the default action what the signal asks for, in a restored terminal. Returns only if
 * the process was stopped and continues, or if its parent ignores the signal. */
static void obey(int signal)
{
    leave();
    restore_signals();
    raise(signal);
    handle_signals();
    enter();
}

static bool take_signals(void)
{
    bool any = false;
    for (int i = 0; i < HANDLED; i++) {
        if (!term.seen[i])
            continue;
        term.seen[i] = 0;
        any = true;
        if (handled[i] == SIGCONT) /* also after a SIGSTOP, before which nothing was restored */
            enter();
        else if (handled[i] != SIGWINCH)
            obey(handled[i]);
    }
    return any;
}

terminal_events terminal_wait(int fd, int64_t timeout_ns)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int64_t wait_ns = timeout_ns > 0 ? timeout_ns : 0;
    struct timespec timeout = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    int n = ppoll(fds, 2, &timeout, &term.saved_mask);
    terminal_events e = {.redraw = take_signals()};
    e.key = n > 0 && fds[0].revents != 0;
    e.socket = n > 0 && fds[1].revents != 0;
    return e;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The key of the control sequence at the front of `at`, and its length. */
static int read_sequence(const char *at, size_t len, size_t *ret_len)
{
    static const struct {
        const char *text; /* after ESC [ or ESC O */
        int key;
    } known[] = {{"A", TERMINAL_UP},         {"B", TERMINAL_DOWN}, {"5~", TERMINAL_PAGE_UP},
                 {"6~", TERMINAL_PAGE_DOWN}, {"H", TERMINAL_HOME}, {"F", TERMINAL_END},
                 {"1~", TERMINAL_HOME},      {"4~", TERMINAL_END}, {"7~", TERMINAL_HOME},
                 {"8~", TERMINAL_END}};
    *ret_len = 1;
    if (len < 3 || (at[1] != '[' && at[1] != 'O'))
        return TERMINAL_ESCAPE;
    size_t end = 2;
    while (end < len && !(at[end] >= 0x40 && at[end] <= 0x7E)) /* the final byte of ECMA-48 */
        end++;
    *ret_len = end < len ? end + 1 : len;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].text);
        if (*ret_len == n + 2 && memcmp(at + 2, known[i].text, n) == 0)
            return known[i].key;
    }
    return TERMINAL_UNKNOWN;
}

size_t terminal_read(int *keys, size_t max)
{
    char bytes[256];
    ssize_t got = read(STDIN_FILENO, bytes, max < sizeof bytes ? max : sizeof bytes);
    size_t len = got > 0 ? (size_t)got : 0, n = 0;
    for (size_t at = 0; at < len;) {
        size_t used = 1;
        bool sequence = bytes[at] == TERMINAL_ESCAPE;
        keys[n++] =
            sequence ? read_sequence(bytes + at, len - at, &used) : (int)(unsigned char)bytes[at];
        at += used;
    }
    return n;
}
