/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_ITERATE_H
#define WEIR_STORE_ITERATE_H
/* Iteration over a store's contents, to copy them to another store, to back them up or to print
 * them: weir_store_each() reads all keys, weir_store_put() adds one. This header also has what
 * weir's own commands need beside the public header: the policies' texts, the clock and the mapped
 * file. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/image/image.h"
#include "store/state.h"

/* Checks the sizes and partitions of the options as weir_store_open() does. Returns WEIR_OK, or
 * WEIR_E_RANGE with a message. Pure. */
weir_status weir_store_check_sizes(const weir_store_options *options);

/* Repairs the buckets that are locked with the id of this opening or of a dead one. A lock with the
 * id of this opening is from damage, or from the opening 2^19 openings ago, which had the same id.
 * Without the repair, a thread that needs such a bucket waits two seconds. Reads the whole table.
 * No other thread may use the store. */
void weir_store_repair_locks(weir_store *s);

/* Calls fn for every key in the store, idle keys included. Each state is consistent, but they are
 * not all from the same moment. fn must not call the store. Any thread. */
void weir_store_each(weir_store *s, weir_key_state_fn fn, void *ctx);

/* Adds a state that weir_store_each() returned, on this store or on another one with the same
 * secret. It replaces the state of the same hash. Returns WEIR_OK, also for an idle key, which is
 * not stored; WEIR_E_ABSENT if the store does not have its partition; WEIR_E_RANGE for an invalid
 * state; WEIR_E_FULL; WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_store_put(weir_store *s, const weir_key_state *stored);

/* The secret of 16 bytes that keys the hash. Valid until the store is closed. */
const uint8_t *weir_store_secret(const weir_store *s);

/* Copies all that a store holds to another one: the states, the reservations, the texts of policies
 * and the time. States that do not fit, or whose partition `to` does not have, are left out.
 *  to    new, with the secret of `from` and in memory of the same kind: both of the caller, or
 *        neither. No other thread or process may use it.
 *  from  may be in use, by other processes too. Each state is copied with its reservations as of
 *        one moment, but not all states are from the same moment. No key is missed that has a state
 *        from the beginning to the end. Calls on reservations wait at the end, while the
 *        reservations are copied. If another thread or process copies `from`, the call waits.
 * Idle keys are not copied. Returns WEIR_OK; WEIR_E_FULL if states did not fit, and the rest was
 * copied; WEIR_E_BUSY if keys moved faster than the copy could follow, so some may be missing. */
WEIR_NODISCARD weir_status weir_store_copy(weir_store *to, weir_store *from);

/* Copies a state file that other processes may have open and use to a new file, in place of the
 * file at `to`, if there is one. The copy is as that of weir_store_copy(). If the process is killed
 * or the call fails, `to` is as it was before.
 *  options   `file`, `zones`, `trust_others`, `ret_error` are read; no sizes, `read_only` or
 *            `reset`.
 *  ret_keys  the number of keys in the new file; written on WEIR_OK.
 * Returns as weir_store_open(); WEIR_E_BUSY also if another process has `to` open, or as
 * weir_store_copy() returns it; WEIR_E_FULL. */
WEIR_NODISCARD weir_status weir_store_backup(const weir_store_options *options, const char *to,
                                             uint64_t *ret_keys);

/* The clock behind weir_store_now(), as of about a second ago. Any thread. */
weir_clock_view weir_store_clock(const weir_store *s);

/* Sets how far the wall clock must be ahead for the clock behind weir_store_now() to jump to it; it
 * slews otherwise. INT64_MAX: it never jumps. Any thread. */
void weir_store_set_jump(weir_store *s, int64_t above_ns);

/* Sets the clock behind weir_store_now() to time_ns. No other thread may use the store. */
void weir_store_set_time(weir_store *s, int64_t time_ns);

/* Calls fn for every policy whose text is in the store's memory, until fn returns false. Any
 * thread. */
void weir_store_policies(weir_store *s,
                         bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                         void *ctx);

/* Adds a policy's text that weir_store_policies() returned, on this store or on another one with
 * the same secret. Returns false if there is no space. Any thread. */
bool weir_store_note_text(weir_store *s, uint64_t policy_id, const char *text, size_t len);

/* As weir_store_reset_policy(), but WEIR_E_FULL if `most` others have been reset. A client may name
 * any number of policy texts, so they get WEIR_RESETS_OF_TEXTS_MAX; the other entries stay for
 * named policies. */
#define WEIR_RESETS_OF_TEXTS_MAX 96
WEIR_NODISCARD weir_status weir_store_reset_policy_of(weir_store *s, uint64_t policy, size_t most);

/* What weir_store_reset_policy() gets for all limits of a name; what follows a '?' is left out.
 * Pure. */
uint64_t weir_store_reset_id(const char *name, size_t len);

/* Writes the generations of the policies that were reset, as weir_resets_entries(). Any thread. */
size_t weir_store_resets(const weir_store *s, uint64_t ret[WEIR_RESETS_SLOTS]);

/* Adds a generation that weir_store_resets() returned, unless the store has a later one of that
 * policy. Returns WEIR_OK; WEIR_E_FULL; WEIR_E_RANGE for an invalid one. Any thread. */
WEIR_NODISCARD weir_status weir_store_put_reset(weir_store *s, uint64_t entry);

/* The mapped memory of the store's file. */
weir_mapping weir_store_mapping(const weir_store *s);

/* The store's time. No decision is made at an earlier time. */
int64_t weir_store_seen_ns(const weir_store *s);

/* Returns the id of a policy under a name. The same policy under different names has separate
 * states. Any thread. */
uint64_t weir_store_named_id(const weir_store *s, const weir_policy *p, const char *name,
                             size_t len);

/* Whether two policies can decide on the same states, under the id of either: each is a single
 * bucket of the same rate. Their bursts may differ. Pure. */
bool weir_store_can_share(const weir_policy *a, const weir_policy *b);

/* Stores the text of a policy whose id is not weir_store_policy_id(), so that `weir state` can
 * print it. Any thread. */
void weir_store_note_policy(const weir_store *s, uint64_t policy_id, const weir_policy *p);

/* ---- limits that change ---------------------------------------------------------------------- */

/* Stores the text of a policy as weir_store_note_policy() does, and that it is the limit of a name:
 * its keys then keep what they used under the other limits of that name. Any thread.
 *  id  weir_store_named_id() of the name, in the partition of its states.
 * Returns WEIR_OK, also if the registry is full: then its keys begin with full quota. Or
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_store_note_limit(const weir_store *s, uint64_t id,
                                                 const weir_policy *p, const char *name,
                                                 size_t len);

/* Whether keys keep what they use under a limit that weir_store_note_limit() has noted, when
 * another limit takes its place. Not if the registry was full. Any thread. */
bool weir_store_keeps_limit(const weir_store *s, uint64_t id);

/* To be called once limits have changed and are noted, before any thread uses them: from now on,
 * for as long as former states can matter, absent keys are sought under the other limits of their
 * name. An hour more is for processes that still use the former limits. Any thread. */
void weir_store_keep(weir_store *s);

/* The text in the registry of a member of a family begins with it: no policy does. */
#define WEIR_MEMBER_TEXT "="

/* Parses the policy of an id. Returns WEIR_OK, or WEIR_E_ABSENT. Any thread. */
weir_status weir_store_policy_find(const weir_store *s, uint64_t policy_id, weir_policy *ret);

#endif
