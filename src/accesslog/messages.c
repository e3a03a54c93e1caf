/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints messages, and draws the progress bar with the rate and the time left. */

#include "accesslog/messages.h"

#include "cmd/kit/out.h"
#include "port/assert.h"
#include "port/duration.h"
#include "port/port.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    PROGRESS_NS = 100000000, /* between two updates */
    BAR_COLS_MIN = 5,
    BAR_COLS_MAX = 40
};

/* ---- messages -------------------------------------------------------------------------------- */

static const char *command = "weir";

const char *accesslog_command(const char *name)
{
    command = name ? name : command;
    return command;
}

static void print_line(const char *text, va_list args)
{
    fprintf(stderr, "%s: ", command);
    vfprintf(stderr, text, args);
    fputs("\n", stderr);
}

void accesslog_note(const char *text, ...)
{
    va_list args;
    va_start(args, text);
    print_line(text, args);
    va_end(args);
}

int accesslog_complain(int status, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    print_line(text, args);
    va_end(args);
    return status;
}

int accesslog_complain_memory(void)
{
    return accesslog_complain(ACCESSLOG_FAILED, "out of memory");
}

/* ---- results --------------------------------------------------------------------------------- */

int accesslog_complain_output(int fd, int error)
{
    return accesslog_complain(ACCESSLOG_FAILED, "standard %s: %s",
                              fd == STDERR_FILENO ? "error" : "output", strerror(error));
}

int accesslog_print(int fd, const void *bytes, size_t len)
{
    out_stream out;
    out_init(&out, fd);
    out_bytes(&out, bytes, len);
    return out_flush(&out) == 0 ? 0 : accesslog_complain_output(fd, out.error);
}

int accesslog_print_buffer(int fd, weir_buffer *b)
{
    int status = b->failed ? accesslog_complain_memory()
                           : accesslog_print(fd, weir_buffer_data(b), weir_buffer_len(b));
    weir_buffer_free(b);
    return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

#define ERASE "\r\033[K"

static volatile sig_atomic_t bar_shown; /* the handler runs in the thread that writes it */

/* Erases the bar and lets the signal end the process: SA_RESETHAND has restored its default. */
static void on_signal(int number)
{
    if (bar_shown && write(STDERR_FILENO, ERASE, sizeof ERASE - 1) < 0) {
        /* nobody sees the bar */
    }
    (void)raise(number);
}

static void handle(int number)
{
    struct sigaction old,
        act = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    if (sigaction(number, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
        old.sa_handler == SIG_DFL)
        (void)sigaction(number, &act, NULL);
}

static void set_shown(accesslog_progress_bar *p, bool shown)
{
    p->shown = shown;
    bar_shown = shown;
}

void accesslog_progress_bar_begin(accesslog_progress_bar *p, bool wanted, int64_t size)
{
    int64_t now_ns = wanted ? port_steady_ns() : 0;
    WEIR_ASSERT(!wanted || size > 0);
    *p = (accesslog_progress_bar){
        .wanted = wanted, .size = size, .begun_ns = now_ns, .last_ns = now_ns};
    if (!wanted)
        return;
    handle(SIGINT);
    handle(SIGTERM);
}

void accesslog_progress_bar_erase(accesslog_progress_bar *p)
{
    if (p->shown)
        fputs(ERASE, stderr);
    set_shown(p, false);
}

static int columns(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* Formats a rate with three significant digits: "2.71 M", "830 k", "12 ". */
static void rate_text(double rate, char *ret, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t i = 0;
    for (; rate >= 999.5 && i < 4; i++)
        rate /= 1000;
    snprintf(ret, size, "%.*f %s",
             i == 0 || rate >= 99.95 ? 0
             : rate >= 9.995         ? 1
                                     : 2,
             rate, units[i]);
}

void accesslog_progress_bar_show(accesslog_progress_bar *p, int64_t bytes, uint64_t lines)
{
    int64_t now_ns = port_steady_ns();
    if (now_ns - p->last_ns < PROGRESS_NS)
        return;
    p->last_ns = now_ns;
    double done = bytes < p->size ? (double)bytes / (double)p->size : 1;
    double elapsed_s = (double)(now_ns - p->begun_ns) / 1e9;
    double left_s = done > 0 ? elapsed_s / done - elapsed_s : 0;
    char rate[24], left[WEIR_DURATION_MAX], numbers[120], bar[BAR_COLS_MAX + 1] = "";
    rate_text((double)lines / elapsed_s, rate, sizeof rate);
    weir_duration_print(left, left_s < 1e8 ? ((int64_t)left_s + 1) * 1000000000 : INT64_MAX,
                        WEIR_DURATION_SHORT);
    int len = snprintf(numbers, sizeof numbers, "%3d%%  %slines/s  ETA %s", (int)(done * 100), rate,
                       left);
    int bar_cols = columns() - 1 - len - 3; /* "[", "] "; the last column would wrap */
    bar_cols = bar_cols < BAR_COLS_MAX ? bar_cols : BAR_COLS_MAX;
    for (int i = 0; i < bar_cols; i++)
        bar[i] = i + 1 <= done * bar_cols ? '#' : '.';
    set_shown(p, true);
    if (bar_cols >= BAR_COLS_MIN)
        fprintf(stderr, "\r[%.*s] %s\033[K", bar_cols, bar, numbers);
    else
        fprintf(stderr, "\r%.*s\033[K", columns() - 1, numbers);
}
