/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the commands of the module. Each line is a command with its words separated by
 * tabs. A line "@n" advances the clock by n milliseconds, and a line "#3" switches the client to
 * RESP3. Nothing crashes, every command gets one complete reply, and the replica's keys equal the
 * master's byte by byte. */

#include "fuzz.h"

#include "module_server.h"

static int64_t now_ns;

static void run(const char *line, size_t len)
{
    module_bytes words[MODULE_SERVER_ARGS];
    size_t n = 0;
    if (len > 0 && line[0] == '@') {
        int64_t ms = 0;
        for (size_t i = 1; i < len && i < 12 && line[i] >= '0' && line[i] <= '9'; i++)
            ms = ms * 10 + (line[i] - '0');
        now_ns += ms * 1000000;
        module_server_set_time(now_ns);
        return;
    }
    if (len > 1 && line[0] == '#') {
        module_server_speak(line[1] - '0');
        return;
    }
    const char *end = line + len;
    while (n < MODULE_SERVER_ARGS && line <= end) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        const char *stop = tab ? tab : end;
        words[n++] = (module_bytes){line, (size_t)(stop - line)};
        line = stop + 1;
    }
    module_server_run(words, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool open;
    if (!open)
        module_server_open();
    open = true;
    if (size > 4096)
        return 0;
    now_ns = 1767225600123456789;
    module_server_set_time(now_ns);
    module_server_speak(2);
    const char *at = (const char *)data, *end = at + size;
    for (int lines = 0; at < end && lines < 48; lines++) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const char *stop = lf ? lf : end;
        run(at, (size_t)(stop - at));
        at = stop + 1;
    }
    module_server_flush();
    return 0;
}
