/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One buffer: a block is read behind what is left of the last one, which is first moved to the
 * front. What is left is less than a line, so that little is moved. It must not know what a line
 * means. */

#include "cmd/replay/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK    ((size_t)256 << 10) /* stays in the second-level cache until it is looked at */
#define BUF_SIZE (REPLAY_LINE_MAX + 1 + BLOCK)

bool replay_lines_open(replay_lines *ret, const char *path)
{
    replay_lines in = {.empty = true, .buf = malloc(BUF_SIZE)};
    if (!in.buf) {
        errno = ENOMEM;
        return false;
    }
    if (!replay_input_open(&in.input, path)) {
        int error = errno; /* free() may change it */
        free(in.buf);
        errno = error;
        return false;
    }
    *ret = in;
    return true;
}

static bool fill(replay_lines *in)
{
    size_t held = in->end - in->begin;
    if (in->begin > 0 && held > 0)
        memmove(in->buf, in->buf + in->begin, held);
    in->begin = 0;
    in->end = held;
    ptrdiff_t n = replay_input_read(&in->input, in->buf + held, BLOCK);
    if (n < 0)
        return false;
    in->eof = n == 0;
    in->end += (size_t)n;
    in->empty = in->empty && n == 0;
    return true;
}

static replay_line_kind take(replay_lines *in, size_t len, size_t lf, const char **ret,
                             size_t *ret_len)
{
    bool too_long = in->skipping || len > REPLAY_LINE_MAX;
    const char *line = in->buf + in->begin;
    in->begin += len + lf;
    in->number++;
    in->skipping = false;
    if (too_long)
        return REPLAY_LINE_TOO_LONG;
    *ret = line;
    *ret_len = len;
    return REPLAY_LINE;
}

replay_line_kind replay_lines_next(replay_lines *in, const char **ret, size_t *ret_len)
{
    for (;;) {
        size_t held = in->end - in->begin;
        const char *at = in->buf + in->begin, *lf = memchr(at, '\n', held);
        if (lf)
            return take(in, (size_t)(lf - at), 1, ret, ret_len);
        if (in->eof)
            return held > 0 || in->skipping ? take(in, held, 0, ret, ret_len) : REPLAY_LINES_END;
        if (held > REPLAY_LINE_MAX || in->skipping) { /* nobody will look at it */
            in->skipping = true;
            in->begin = in->end;
        }
        if (!fill(in))
            return REPLAY_LINES_FAILED;
    }
}

void replay_lines_close(replay_lines *in)
{
    replay_input_close(&in->input);
    free(in->buf);
    in->buf = NULL;
}
