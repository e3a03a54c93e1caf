/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_KEY_TABLE_H
#define WEIR_CMD_REPLAY_KEY_TABLE_H
/* A hash table of the keys of a log, with what is counted for each key. The store cannot provide
 * them: it keeps only hashes of keys, and it drops keys that have their full quota again. */

#include "cmd/replay/stats.h"

typedef struct replay_key_table replay_key_table;

/* Returns NULL if there is no memory.
 *  policies  the number of policies, and so of the entries in replay_key.policy. */
replay_key_table *replay_key_table_open(size_t policies);

/* Accepts NULL. */
void replay_key_table_close(replay_key_table *k);

/* Finds a key, or adds it, with all else 0. Returns NULL if there is no memory. The pointer is
 * valid until replay_key_table_close(). */
replay_key *replay_key_table_at(replay_key_table *k, const char *text, size_t len);

/* The same in three steps, which load several keys into the cache at once: call the first for each
 * key, then the second for each, then the third. The second returns a key of the same hash, or
 * NULL.
 *  hash  what the first returned. */
uint64_t replay_key_table_hash(const replay_key_table *k, const char *text, size_t len);
const replay_key *replay_key_table_prefetch(const replay_key_table *k, uint64_t hash);
replay_key *replay_key_table_at_hash(replay_key_table *k, uint64_t hash, const char *text,
                                     size_t len);

/* Allocates the denials of a key, all 0. They are valid until replay_key_table_close(). Returns
 * NULL if there is no memory. */
replay_denials *replay_key_table_denials(replay_key_table *k);

/* The key->len bytes of the key. */
const char *replay_key_text(const replay_key *key);

/* The number of keys, and the first key to appear (NULL if there is none). */
uint64_t replay_key_table_count(const replay_key_table *k);
replay_key *replay_key_table_first(const replay_key_table *k);

#endif
