/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A timer begins with the first line of a period, and logs the sum at its end. */

#include "lines.h"

#include "port/assert.h"

void weir_ngx_lines_end(weir_ngx_lines *l)
{
    if (l->more > 0)
        ngx_log_error(l->level, l->log, 0, "%ui more %s \"%V\" within %d s", l->more, l->what,
                      l->whose, WEIR_NGX_LINES_MS / 1000);
    l->more = 0;
}

static void on_period_over(ngx_event_t *timer)
{
    weir_ngx_lines_end(timer->data);
}

bool weir_ngx_lines_may_log(weir_ngx_lines *l, ngx_uint_t level, ngx_log_t *log, const char *what,
                            const ngx_str_t *whose)
{
    if (log->log_level < level)
        return false;
    if (!l->timer.timer_set) {
        l->logged = 0;
        l->timer.handler = on_period_over;
        l->timer.data = l;
        l->timer.log = log;
        l->timer.cancelable = 1; /* a worker that shuts down does not wait for it */
        ngx_add_timer(&l->timer, WEIR_NGX_LINES_MS);
    }
    if (l->logged < WEIR_NGX_LINES_MAX) {
        l->logged++;
        return true;
    }
    WEIR_ASSERT(l->logged == WEIR_NGX_LINES_MAX && l->timer.timer_set);
    l->more++;
    l->log = log;
    l->level = level;
    l->what = what;
    l->whose = whose;
    return false;
}
