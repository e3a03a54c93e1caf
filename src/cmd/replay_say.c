/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Messages and the progress bar. It must not know what a policy or a key is. */

#include "cmd/replay_say.h"

#include "port/port.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { PROGRESS_NS = 100000000 }; /* between two bars */

/* ---- messages -------------------------------------------------------------------------------- */

int replay_complain(int status, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    fputs("weir replay: ", stderr);
    vfprintf(stderr, text, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}

int replay_complain_memory(void)
{
    return replay_complain(REPLAY_FAILED, "the memory is full");
}

/* ---- progress -------------------------------------------------------------------------------- */

void replay_progress_begin(replay_progress *p, bool wanted)
{
    int64_t now_ns = wanted ? port_now_ns() : 0;
    *p = (replay_progress){.wanted = wanted, .begun_ns = now_ns, .last_ns = now_ns};
}

void replay_progress_erase(replay_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

void replay_progress_show(replay_progress *p, const replay_lines *in)
{
    enum { BAR_COLS = 40 };
    int64_t now_ns = port_now_ns();
    if (now_ns >= p->last_ns && now_ns - p->last_ns < PROGRESS_NS)
        return;
    p->last_ns = now_ns;
    int64_t elapsed_ns = now_ns > p->begun_ns ? now_ns - p->begun_ns : 1;
    int64_t done = in->bytes_read < in->size ? in->bytes_read : in->size;
    char bar[BAR_COLS + 1];
    for (int64_t i = 0; i < BAR_COLS; i++)
        bar[i] = (i + 1) * in->size <= done * BAR_COLS ? '#' : '.';
    bar[BAR_COLS] = '\0';
    fprintf(stderr, "\r[%s] %3" PRId64 "%%  %" PRId64 " MB/s\033[K", bar, done * 100 / in->size,
            in->bytes_read * 1000 / elapsed_ns);
    p->shown = true;
}
