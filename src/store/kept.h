/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KEPT_H
#define WEIR_STORE_KEPT_H
/* What a key used stays when its limit changes. The states of a limit are stored under an id that
 * follows from its name and its text, so a changed limit has another id. The limits of one name
 * whose states can be converted to each other form a family: they have the same algorithms,
 * periods, calendars and slices. A key's state is under the id of the limit that the key was last
 * used with. If a key is absent under the id of a request, and limits have changed not long ago,
 * its state is sought under the ids of the other limits of the family. It is converted, stored
 * under the new id and removed from the old one, under the locks of all of them. So threads and
 * processes with different limits can pass a state back and forth.
 *
 * WEIR_FORMER_MAX + 1 members of a family are entries of the policy registry: the texts of the ids
 * F, F + 1, ... are the numbers and ids of the members of the family F. So all processes know them,
 * also after a restart. To make room for a new one, the oldest one that is not in use is forgotten,
 * with its text.
 *
 * Crash safety: the state is stored under the new id before it is removed from the old one. If the
 * process is killed in between, both have it. A journal in the table's header says so, and the next
 * weir_store_keep() of any process removes the old one, before a former limit is used again. */

#include "store/store.h"

enum { WEIR_FORMER_MAX = WEIR_TABLE_MANY_MAX - 1 };

typedef struct weir_kept weir_kept;

/* Returns NULL if memory is exhausted. */
weir_kept *weir_kept_new(void);
void weir_kept_free(weir_kept *k); /* accepts NULL */

/* A call on one key that returned WEIR_E_ELSEWHERE: finds the state under other ids, moves it, and
 * runs the callback, in one transaction. Returns as the call would.
 *  named  the key and the policy's id. If the key is NULL, the state is not sought. */
weir_status weir_kept_run(weir_store *s, const weir_area *at, const weir_large_call *call,
                          const weir_store_request *named);

/* A call on one key that returned WEIR_E_ELSEWHERE: runs the callback on the state where it is,
 * under the limit that it is stored with. The callback returns WEIR_E_ABSENT for any other state,
 * such as zeros.
 * Returns the status of the callback; WEIR_E_ABSENT if no state was found, or if it moved in the
 * meantime. */
weir_status weir_kept_run_there(weir_store *s, const weir_large_call *call,
                                const weir_store_request *named);

/* Moves the state of a key to its request's id, if it is under another one. For calls that know
 * only hashes afterwards. */
void weir_kept_move(weir_store *s, const weir_store_request *request, int64_t now_ns);

/* Whether a state under a limit may be under another limit of its family now.
 *  recorded_id  weir_recorded_id() of the limit. */
bool weir_kept_may_have_moved(weir_store *s, uint64_t recorded_id, int64_t now_ns);

/* Resets a key under the other ids of its family. The caller holds the lock of the
 * reservations. */
void weir_kept_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len);

#endif
