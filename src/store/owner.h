/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_OWNER_H
#define WEIR_STORE_OWNER_H
/* Who holds a lock in memory that may outlive the one who took it: a mapped file, and memory that
 * processes share. A lock there holds the id of the process that took it, so that whoever waits for
 * it can tell a slow holder from one that was killed. */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_OWNER_BITS 20 /* of an id: 1..2^20 - 1; 0 is nobody */

/* Opened memory as seen by the locks in it. Ids are given at opening, one after the other, so that
 * one that a killed process held comes again only after 2^20 - 1 more openings. */
typedef struct weir_owners {
    uint64_t self;
    bool (*alive)(const void *ctx, uint64_t id); /* NULL: nobody else can be, we are alone */
    const void *ctx;
} weir_owners;

/* Whether the process of `id` still has the memory open: if not, what it has locked it will never
 * unlock. Slow: for one that has waited for a while. Any thread. */
static inline bool weir_owner_is_alive(const weir_owners *o, uint64_t id)
{
    return id == o->self || (o->alive && o->alive(o->ctx, id));
}

#endif
