/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_TERMINAL_H
#define WEIR_CMD_KIT_TERMINAL_H
/* What the terminal at standard output can show, and full screens on it: the alternate screen,
 * keys without echo, and signals, so that the terminal is restored whenever the process stops or
 * ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct terminal_style {
    int cols;    /* 1 or more: of the terminal, else $COLUMNS, else 80 */
    bool utf8;   /* the locale's encoding is UTF-8 */
    bool colour; /* a terminal, and NO_COLOR is unset or empty, and TERM is not dumb */
} terminal_style;

/* Sets the process's LC_CTYPE from the environment. Main thread. */
terminal_style terminal_style_get(void);

/* ---- full screens ---------------------------------------------------------------------------- */

/* Whether standard output and standard input are a terminal that can show a full screen. */
bool terminal_can_fill(void);

/* Switches to the alternate screen, and standard input to single keys without echo. From now on,
 * signals are handled in terminal_wait() only. Main thread, once at a time.
 * Returns false if the terminal cannot be changed. */
bool terminal_open(void);

/* Restores the terminal. Without terminal_open(), does nothing. */
void terminal_close(void);

typedef struct terminal_size {
    int cols, rows; /* 1 or more */
} terminal_size;

terminal_size terminal_size_get(void);

/* What happened; several at once are possible. */
typedef struct terminal_events {
    bool key;    /* standard input can be read */
    bool socket; /* so can `fd` */
    bool redraw; /* the size changed, or the process was stopped and continues */
} terminal_events;

/* Waits for a key, a signal or the socket. SIGINT, SIGTERM, SIGHUP and SIGQUIT restore the terminal
 * and end the process; SIGTSTP restores it and stops the process.
 *  fd          -1 for none.
 *  timeout_ns  0 or less: does not wait. */
terminal_events terminal_wait(int fd, int64_t timeout_ns);

/* Writes bytes to the terminal. Returns false if it is gone. */
bool terminal_write(const void *bytes, size_t len);

/* Reads keys: letters as they are, the others as TERMINAL_*. Bytes of a character above ASCII come
 * one by one.
 * Returns how many there are, 0..max; 0 if standard input has ended. */
enum {
    TERMINAL_ESCAPE = 27,
    TERMINAL_UP = 256,
    TERMINAL_DOWN,
    TERMINAL_PAGE_UP,
    TERMINAL_PAGE_DOWN,
    TERMINAL_HOME,
    TERMINAL_END,
    TERMINAL_UNKNOWN
};
size_t terminal_read(int *keys, size_t max);

#endif
