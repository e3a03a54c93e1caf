/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats the cells of tables. */

#include "accesslog/cells.h"

#include "port/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- keys ------------------------------------------------------------------------------------ */

/* The columns of a byte of a key: printed as it is, as "\\", or as "\xNN". */
static size_t byte_cols(char c)
{
    return c == '\\' ? 2 : c >= 0x20 && c < 0x7F ? 1 : 4;
}

size_t accesslog_cell_key_cols(weir_slice key)
{
    size_t cols = 0;
    for (size_t i = 0; i < key.len; i++)
        cols += byte_cols(key.at[i]);
    return cols;
}

static void put_bytes(weir_buffer *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t cols = byte_cols(text[i]);
        if (cols == 1)
            weir_buffer_append_byte(out, (uint8_t)text[i]);
        else if (cols == 2)
            weir_buffer_append(out, "\\\\", 2);
        else
            weir_buffer_printf(out, "\\x%02x", (unsigned)(unsigned char)text[i]);
    }
}

void accesslog_cell_key(weir_buffer *out, weir_slice key, size_t cols)
{
    size_t used = accesslog_cell_key_cols(key);
    WEIR_ASSERT(cols >= 16 || cols >= used);
    if (used <= cols) {
        put_bytes(out, key.at, key.len);
    } else {
        size_t head = 0, tail = key.len, tail_max = (cols - 3) / 3, head_max = cols - 3 - tail_max;
        size_t head_cols = 0, tail_cols = 0;
        while (head_cols + byte_cols(key.at[head]) <= head_max)
            head_cols += byte_cols(key.at[head++]);
        while (tail_cols + byte_cols(key.at[tail - 1]) <= tail_max)
            tail_cols += byte_cols(key.at[--tail]);
        put_bytes(out, key.at, head);
        weir_buffer_append(out, "...", 3);
        put_bytes(out, key.at + tail, key.len - tail);
        used = head_cols + 3 + tail_cols;
    }
    for (; used < cols; used++)
        weir_buffer_append_byte(out, ' ');
}

/* ---- numbers --------------------------------------------------------------------------------- */

void accesslog_cell_percent(uint64_t part, uint64_t all, char ret[ACCESSLOG_CELL_PERCENT_MAX])
{
    WEIR_ASSERT(all > 0 && part <= all);
    uint64_t tenths = (part * 2000 + all) / (2 * all);
    if (tenths == 0 && part > 0)
        snprintf(ret, ACCESSLOG_CELL_PERCENT_MAX, "<0.1%%");
    else if (tenths == 1000 && part < all)
        snprintf(ret, ACCESSLOG_CELL_PERCENT_MAX, ">99.9%%");
    else
        snprintf(ret, ACCESSLOG_CELL_PERCENT_MAX, "%u.%u%%", (unsigned)(tenths / 10),
                 (unsigned)(tenths % 10));
}

void accesslog_cell_time(int64_t ns, char ret[ACCESSLOG_CELL_TIME_MAX])
{
    WEIR_ASSERT(ns >= 0);
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm t;
    gmtime_r(&seconds, &t);
    strftime(ret, ACCESSLOG_CELL_TIME_MAX, "%Y-%m-%d %H:%M:%S UTC", &t);
}

/* ---- sparklines ------------------------------------------------------------------------------ */

static uint64_t sum_at(const uint64_t *counts, size_t len, size_t at, size_t step)
{
    uint64_t sum = 0;
    for (size_t i = at; i < len && i < at + step; i++)
        sum += counts[i];
    return sum;
}

size_t accesslog_cell_spark_step(size_t len, size_t cols)
{
    WEIR_ASSERT(cols > 0);
    return len > 0 ? (len + cols - 1) / cols : 1;
}

uint64_t accesslog_cell_spark_max(const uint64_t *counts, size_t len, size_t step)
{
    uint64_t max = 0;
    for (size_t i = 0; i < len; i += step) {
        uint64_t sum = sum_at(counts, len, i, step);
        max = sum > max ? sum : max;
    }
    return max;
}

void accesslog_cell_spark(weir_buffer *out, const uint64_t *counts, size_t len, size_t step,
                          uint64_t max, bool utf8)
{
    static const char ascii[] = ".:-=+*#@";
    for (size_t i = 0; i < len; i += step) {
        uint64_t sum = sum_at(counts, len, i, step);
        unsigned height = sum == 0 ? 0 : (unsigned)((sum * 8 + max - 1) / max); /* 1..8 */
        WEIR_ASSERT(height <= 8);
        if (height == 0)
            weir_buffer_append_byte(out, ' ');
        else if (utf8)
            weir_buffer_append(out, (const uint8_t[]){0xE2, 0x96, (uint8_t)(0x80 + height)}, 3);
        else
            weir_buffer_append_byte(out, (uint8_t)ascii[height - 1]);
    }
}
