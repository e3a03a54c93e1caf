/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker of a whole store. */

#include "store/iterate.h"
#include "store/large/index.h"
#include "store/store.h"
#include "tests/store/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *weir_wrong(const char *format, ...)
{
    static _Thread_local char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

void weir_check_failed(const char *wrong, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, wrong);
    abort();
}

static bool go_on(void *ctx, const weir_key_state *state)
{
    (void)ctx;
    (void)state;
    return true;
}

/* Takes over every lock that a dead process held. */
static void recover(weir_store *s)
{
    weir_block_seen seen;
    uint64_t next;
    weir_store_each(s, go_on, NULL);
    weir_allocator_list(&s->common.large->blocks, 0, &seen, 1, &next);
    for (size_t i = 0; i < s->partitions_len; i++)
        weir_allocator_list(&s->partitions[i].area.large->blocks, 0, &seen, 1, &next);
    (void)weir_reserve_stats_get(s->reserved);
}

const char *weir_store_check_all(weir_store *s, bool killed)
{
    if (killed)
        recover(s);
    const char *wrong = weir_table_check(s->common.table, killed);
    if (!wrong)
        wrong = weir_large_check(s->common.large);
    for (size_t i = 0; i < s->partitions_len && !wrong; i++) {
        wrong = weir_table_check(s->partitions[i].area.table, killed);
        if (!wrong)
            wrong = weir_large_check(s->partitions[i].area.large);
    }
    if (!wrong)
        wrong = weir_reserve_check(s->reserved);
    if (!wrong)
        wrong = weir_policy_registry_check(weir_image_policies(s->image));
    return wrong;
}
