/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_POLICY_REGISTRY_H
#define WEIR_STORE_POLICY_REGISTRY_H
/* Which text belongs to which policy's id, in a part of an image: without it a file would hold
 * states that nobody can read. Entries are added and never changed or dropped. There is no lock
 * that a killed process could leave behind, and each entry has a checksum of its own, so that what
 * a power loss has torn is not taken for a text. It must not know what a policy is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR_POLICY_REGISTRY_ENTRIES = 4096,
    WEIR_POLICY_REGISTRY_TEXT_BYTES = 1 << 20, /* of all texts, with 8 to 15 bytes more for each */
    WEIR_POLICY_REGISTRY_BYTES =
        4096 + WEIR_POLICY_REGISTRY_ENTRIES * 16 + WEIR_POLICY_REGISTRY_TEXT_BYTES
};

typedef struct weir_policy_registry
    weir_policy_registry; /* WEIR_POLICY_REGISTRY_BYTES, all zero when empty */

/* Looks at what a process, or the machine, left when it ended. Nobody else may use it meanwhile. */
void weir_policy_registry_repair(weir_policy_registry *r);

/* Notes a text, if the id has none that is whole.
 *  id   not 0: that is no id.
 *  len  1..text_max.
 * Returns false if there is no room. Any thread, of any process. */
bool weir_policy_registry_note(weir_policy_registry *r, uint64_t id, const char *text, size_t len);

/* The text of an id, with a terminator, at most size - 1 bytes. Returns its length; 0 if it is not
 * known, or does not fit. Any thread, of any process. */
size_t weir_policy_registry_text(const weir_policy_registry *r, uint64_t id, char *buf,
                                 size_t size);

/* Calls fn for every id that has a whole text, until it returns false; the text is not terminated.
 * Any thread, of any process. */
void weir_policy_registry_each(const weir_policy_registry *r,
                               bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                               void *ctx);

/* How many ids have a place. Any thread. */
size_t weir_policy_registry_len(const weir_policy_registry *r);

#endif
