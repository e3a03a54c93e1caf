/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_KEY_TABLE_H
#define WEIR_CMD_REPLAY_KEY_TABLE_H
/* The keys of a log by their text, each with what happened to it: the store forgets texts, and
 * fresh keys altogether. It must not know what a policy is, only how many there are. */

#include <stddef.h>
#include <stdint.h>

typedef struct replay_key {
    struct replay_key *next; /* in the order in which they were first seen */
    uint64_t requests;
    size_t len;
    uint64_t denied[]; /* one for each policy; the text follows */
} replay_key;

typedef struct replay_key_table replay_key_table;

/* NULL if there is no memory.
 *  policies  how many counts of denials each key has. */
replay_key_table *replay_key_table_open(size_t policies);

/* Accepts NULL. */
void replay_key_table_close(replay_key_table *k);

/* The key of `len` bytes at `text`, made with all counts 0 if it is new; NULL if there is no memory
 * for it. It stays where it is until replay_key_table_close(). */
replay_key *replay_key_table_at(replay_key_table *k, const char *text, size_t len);

/* The bytes of the key, `len` of them. */
const char *replay_key_text(const replay_key_table *k, const replay_key *key);

/* How many keys there are; the first of them, NULL if there is none. */
uint64_t replay_key_table_count(const replay_key_table *k);
replay_key *replay_key_table_first(const replay_key_table *k);

#endif
