/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_ARENA_H
#define WEIR_CMD_CONFIG_ARENA_H
/* Memory that is given back all at once. */

#include <stdbool.h>
#include <stddef.h>

typedef struct config_arena { /* all zero when empty */
    struct config_block *blocks;
    size_t used, size; /* of the first block */
    bool failed;       /* there was no memory, once */
} config_arena;

/* What a configuration points into. */
struct config_memory {
    config_arena arena;
};

/* `size` zeroed bytes for anything; NULL, and `failed` is set, if there are none. */
void *config_alloc(config_arena *a, size_t size);

/* `n` elements of `size` bytes; as config_alloc(). */
void *config_alloc_array(config_arena *a, size_t n, size_t size);

/* A terminated copy; as config_alloc(). */
char *config_copy(config_arena *a, const char *text, size_t len);

/* Gives all of it back; `a` is empty then. */
void config_arena_free(config_arena *a);

#endif
