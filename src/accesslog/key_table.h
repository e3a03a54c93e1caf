/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_KEY_TABLE_H
#define WEIR_ACCESSLOG_KEY_TABLE_H
/* A hash table of the keys of a log, with a record for each key. Commands that count keys with it
 * decide what else a record contains. The store cannot provide the keys: it keeps only hashes of
 * them, and it drops keys that have their full quota again. */

#include <stddef.h>
#include <stdint.h>

/* The first member of a record. */
typedef struct accesslog_key {
    uint32_t len;               /* of the key in bytes; they are before the record */
    uint32_t number;            /* in order of first appearance, from 0; modulo 2^32 */
    struct accesslog_key *next; /* in order of first appearance */
} accesslog_key;

typedef struct accesslog_key_table accesslog_key_table;

/* Returns NULL if there is no memory.
 *  record_bytes  the size of a record, at least that of accesslog_key. */
accesslog_key_table *accesslog_key_table_open(size_t record_bytes);

/* Accepts NULL. */
void accesslog_key_table_close(accesslog_key_table *k);

/* Finds a key, or adds it, with all else 0. Returns its record, aligned to 8 bytes, or NULL if
 * there is no memory. The pointer is valid until accesslog_key_table_close(). */
accesslog_key *accesslog_key_table_at(accesslog_key_table *k, const char *text, size_t len);

/* The same in three steps, which load several keys into the cache at once: call the first for each
 * key, then the second for each, then the third. The second returns a key of the same hash, or
 * NULL.
 *  hash  what the first returned. */
uint64_t accesslog_key_table_hash(const accesslog_key_table *k, const char *text, size_t len);
accesslog_key *accesslog_key_table_prefetch(const accesslog_key_table *k, uint64_t hash);
accesslog_key *accesslog_key_table_at_hash(accesslog_key_table *k, uint64_t hash, const char *text,
                                           size_t len);

/* Allocates zeroed memory beside the keys, aligned to 8 bytes. It is valid until
 * accesslog_key_table_close(). Returns NULL if there is no memory. */
void *accesslog_key_table_alloc(accesslog_key_table *k, size_t bytes);

/* The key->len bytes of the key. */
const char *accesslog_key_text(const accesslog_key *key);

/* The number of keys, and the first key to appear (NULL if there is none). */
uint64_t accesslog_key_table_count(const accesslog_key_table *k);
accesslog_key *accesslog_key_table_first(const accesslog_key_table *k);

#endif
