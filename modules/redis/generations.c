/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* How often all keys of a policy were reset. A list: it is read only when a policy is interned. */

#include "interned.h"

#include "abi.h"
#include "port/assert.h"

#include <string.h>

static weir_generation *list;
static size_t list_len;

static weir_generation *find(const char *policy, size_t len)
{
    for (size_t i = 0; i < list_len; i++) {
        if (list[i].len == len && memcmp(list[i].policy, policy, len) == 0)
            return &list[i];
    }
    return NULL;
}

uint64_t weir_generation_of(const char *policy, size_t len)
{
    const weir_generation *g = find(policy, len);
    return g ? g->n : 0;
}

weir_status weir_generation_set(const char *policy, size_t len, uint64_t n)
{
    weir_generation *g = find(policy, len);
    WEIR_ASSERT(n > 0);
    if (!g && list_len == WEIR_GENERATIONS_MAX)
        return WEIR_E_FULL;
    if (!g) {
        list = redis.Realloc(list, (list_len + 1) * sizeof *list);
        g = &list[list_len++];
        *g = (weir_generation){.policy = redis.Alloc(len), .len = len};
        memcpy(g->policy, policy, len);
    }
    g->n = n;
    return WEIR_OK;
}

size_t weir_generations_all(const weir_generation **ret)
{
    *ret = list;
    return list_len;
}

void weir_generations_drop_all(void)
{
    while (list_len > 0)
        redis.Free(list[--list_len].policy);
    redis.Free(list);
    list = NULL;
}
