/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_LINES_H
#define WEIR_MODULES_NGINX_LINES_H
/* Throttles lines of the error log that clients can provoke, such as denials, so that an attack
 * does not fill the disk. Of each kind, a worker logs at most WEIR_NGX_LINES_MAX lines in
 * WEIR_NGX_LINES_MS, and then one line with the number of the others. */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <stdbool.h>

enum { WEIR_NGX_LINES_MAX = 20, WEIR_NGX_LINES_MS = 10000 };

/* Lines of one kind; all zero at first. Private. */
typedef struct weir_ngx_lines {
    ngx_event_t timer;
    ngx_log_t *log;
    ngx_uint_t level, logged, more;
    const char *what;
    const ngx_str_t *whose;
} weir_ngx_lines;

/* Whether a line may be logged now. If not, it is counted, unless its level is not logged at all.
 *  log    the log for the line with the number; it must live as long as the worker.
 *  what   a part of that line, such as "requests were limited by"; kept by reference.
 *  whose  the name of the limit or the daemon; kept by reference. */
bool weir_ngx_lines_may_log(weir_ngx_lines *l, ngx_uint_t level, ngx_log_t *log, const char *what,
                            const ngx_str_t *whose);

/* Logs the line with the number now. Call it when the worker ends. */
void weir_ngx_lines_end(weir_ngx_lines *l);

#endif
