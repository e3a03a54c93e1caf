/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_TERMINAL_H
#define WEIR_CMD_TERMINAL_H
/* What the terminal at standard output can show. */

#include <stdbool.h>

typedef struct terminal_style {
    int cols;    /* 1 or more: of the terminal, else $COLUMNS, else 80 */
    bool utf8;   /* the locale's encoding is UTF-8 */
    bool colour; /* a terminal, and NO_COLOR is unset or empty, and TERM is not dumb */
} terminal_style;

/* Sets the process's LC_CTYPE from the environment. Main thread. */
terminal_style terminal_style_get(void);

#endif
