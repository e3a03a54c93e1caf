/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Asks the environment and the terminal driver. https://no-color.org describes NO_COLOR. */

#define _GNU_SOURCE /* TIOCGWINSZ */

#include "cmd/terminal.h"

#include "port/text.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
    const char *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0;
    setlocale(LC_CTYPE, "");
    return (terminal_style){
        .cols = columns(),
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
        .colour = isatty(STDOUT_FILENO) && !is_set("NO_COLOR") && !dumb,
    };
}
