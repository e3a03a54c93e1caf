/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_CELLS_H
#define WEIR_ACCESSLOG_CELLS_H
/* What the cells of the report's tables contain: keys, percentages, times, sparklines. */

#include "port/buffer.h"
#include "port/text.h"

#include <stdbool.h>

/* The columns of a key that is printed in full. */
size_t accesslog_cell_key_cols(weir_slice key);

/* Appends a key in exactly `cols` columns: padded with spaces, or with "..." for its middle. Bytes
 * outside printable ASCII are printed as \xNN, and '\' as '\\'.
 *  cols  16 or more, or at least accesslog_cell_key_cols(). */
void accesslog_cell_key(weir_buffer *out, weir_slice key, size_t cols);

/* Writes a percentage of `all`, rounded to a tenth: "12.5%". "0.0%" means exactly none, and
 * "100.0%" exactly all.
 *  all  1 or more, and below 2^53. */
#define ACCESSLOG_CELL_PERCENT_MAX 16
void accesslog_cell_percent(uint64_t part, uint64_t all, char ret[ACCESSLOG_CELL_PERCENT_MAX]);

/* Writes a time: "2026-01-02 03:04:05 UTC".
 *  ns  0..WEIR_NOW_NS_MAX. */
#define ACCESSLOG_CELL_TIME_MAX 32
void accesslog_cell_time(int64_t ns, char ret[ACCESSLOG_CELL_TIME_MAX]);

/* How many counts a character of a sparkline stands for, so that `len` counts take `cols` columns
 * at the most. */
size_t accesslog_cell_spark_step(size_t len, size_t cols);

/* The largest sum of `step` consecutive counts. */
uint64_t accesslog_cell_spark_max(const uint64_t *counts, size_t len, size_t step);

/* Appends a sparkline. A character is the sum of `step` counts: a space if that is 0, else one of
 * eight heights up to `max`.
 *  utf8  whether to use U+2581 to U+2588; otherwise ".:-=+*#@".
 *  max   accesslog_cell_spark_max() or more. */
void accesslog_cell_spark(weir_buffer *out, const uint64_t *counts, size_t len, size_t step,
                          uint64_t max, bool utf8);

#endif
