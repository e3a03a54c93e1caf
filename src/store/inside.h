/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_INSIDE_H
#define WEIR_STORE_INSIDE_H
/* What of a store its own files share, and nobody else may see: how keys become hashes, and how a
 * state is reached by its hash. */

#include <weir/weir_store.h>

#include "store/reserve.h"

/* ---- what store.c has ------------------------------------------------------------------------ */

/* What a key's state is filed under. The key is 1..WEIR_KEY_MAX bytes. Any thread. */
uint64_t weir_store_hash(const weir_store *s, uint64_t policy_id, const void *key, size_t key_len);

/* Runs fn on the state of a hash, at now_ns or, if that is later, the store's time. It looks for no
 * reservation that has run out. Any thread. */
weir_status weir_store_run(weir_store *s, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx);

/* As weir_image_note_policy() and weir_image_policy_text() of the store's image. */
void weir_store_note_policy(weir_store *s, uint64_t policy_id, const char *text, size_t len);
size_t weir_store_policy_text(weir_store *s, uint64_t policy_id, char buf[WEIR_POLICY_TEXT_MAX]);

const weir_zones *weir_store_zones(const weir_store *s); /* of its options */
weir_reserve *weir_store_reserved(weir_store *s);

/* ---- what store_reserve.c has ---------------------------------------------------------------- */

/* Opens the part for reservations; see weir_reserve_open(). The rest of the store is open. */
WEIR_NODISCARD weir_status weir_store_reserved_open(weir_store *s, weir_reserve **ret, void *part,
                                                    size_t bytes, bool is_new,
                                                    const weir_owners *owners, weir_secret secret);

#endif
