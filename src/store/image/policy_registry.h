/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_POLICY_REGISTRY_H
#define WEIR_STORE_POLICY_REGISTRY_H
/* The policy registry: the text of each policy's id, in a part of an image. Without it, the states
 * in a file could not be interpreted. Its memory may have any size from WEIR_POLICY_REGISTRY_MIN
 * on; that of a file has WEIR_POLICY_REGISTRY_BYTES. The text of an id stays until the id is
 * forgotten. There are no locks that a killed process could leave locked. Each text has its own
 * checksum, to detect one that was damaged by a power failure, or that is being replaced. The
 * registry does not know what a policy is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR_POLICY_REGISTRY_ENTRIES = 4096,
    WEIR_POLICY_REGISTRY_TEXT_BYTES = 1 << 20, /* for all texts, with 8 to 15 more bytes each */
    WEIR_POLICY_REGISTRY_BYTES =
        4096 + WEIR_POLICY_REGISTRY_ENTRIES * 16 + WEIR_POLICY_REGISTRY_TEXT_BYTES,
    WEIR_POLICY_REGISTRY_MIN = 8192,
    WEIR_POLICY_REGISTRY_TEXT_MAX = 1024 /* bytes of a text */
};

/* A handle on the memory. All members are private. */
typedef struct weir_policy_registry {
    void *part;
    uint64_t entries_len, texts_len;
} weir_policy_registry;

/* Returns a handle on a registry.
 *  part   all zero when empty, at an address that is a multiple of 8.
 *  bytes  WEIR_POLICY_REGISTRY_MIN..WEIR_POLICY_REGISTRY_BYTES, the same at each call. One byte in
 *         17 is for the index of ids: it has an entry for each 272 bytes. */
weir_policy_registry weir_policy_registry_at(void *part, size_t bytes);

/* Repairs the registry after a kill or a power failure. No other thread or process may use it. */
void weir_policy_registry_repair(const weir_policy_registry *r);

/* Stores the text of an id, if the id has no valid one.
 *  id        not 0.
 *  len       1..WEIR_POLICY_REGISTRY_TEXT_MAX.
 *  may_fill  false: a quarter of the space stays for calls with true.
 * Returns false if there is no space. Any thread of any process. */
bool weir_policy_registry_note(const weir_policy_registry *r, uint64_t id, const char *text,
                               size_t len, bool may_fill);

/* Removes the text of an id, if there is one; its space is used again. Any thread of any process,
 * but one at a time. */
void weir_policy_registry_forget(const weir_policy_registry *r, uint64_t id);

/* A number that changes when a text is stored. A thread that has the new number reads
 * the new text. Any thread of any process. */
uint64_t weir_policy_registry_changes(const weir_policy_registry *r);

/* Gets the text of an id, terminated, in at most `size` bytes. Returns its length; 0 if the id is
 * unknown or the text does not fit. Any thread of any process. */
size_t weir_policy_registry_text(const weir_policy_registry *r, uint64_t id, char *buf,
                                 size_t size);

/* Calls fn for every id with a valid text until fn returns false. The text is not terminated. Any
 * thread of any process. */
void weir_policy_registry_each(const weir_policy_registry *r,
                               bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                               void *ctx);

/* The number of ids in the registry, without those that are forgotten. Any thread. */
size_t weir_policy_registry_len(const weir_policy_registry *r);

#endif
