/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_FUZZ_STORE_H
#define WEIR_TESTS_FUZZ_STORE_H
/* Stores for fuzz targets. Opening one takes longer than most inputs run. */

#include "fuzz.h"

#include "store/store.h"

#include <sys/mman.h>

/* Empties a store in memory. A part that is all zero is an empty one. */
static inline void fuzz_store_clear(weir_store *s)
{
    weir_part last = weir_image_parts_get(s->image).table;
    uint8_t *begin = weir_image_policies(s->image)->part;
    uint8_t *end = (uint8_t *)last.at + last.bytes;
    CHECK(madvise(begin, (size_t)(end - begin), MADV_DONTNEED) == 0);
}

#endif
