/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_KEY_STATE_H
#define WEIR_CMD_KIT_KEY_STATE_H
/* The state of one key under one policy, which grows with a sliding log, for commands that decide
 * with weir_check() in their own process. It must not know keys or stores. */

#include <weir/weir.h>

/* Zeroed by the caller: a key with full quota. Free it with key_state_free(). All fields are
 * private. A state belongs to one thread at a time. */
typedef struct key_state {
    uint64_t *words; /* NULL: as if they were all 0 */
    size_t room;     /* how many words are allocated */
    unsigned level;
} key_state;

/* Decides as weir_check(), and allocates or enlarges the state if necessary. Returns WEIR_E_NOMEM
 * instead of WEIR_E_ROOM: nothing is charged then, and *ret is not written. */
WEIR_NODISCARD weir_status key_state_check(key_state *s, const weir_policy *p, int64_t now_ns,
                                           int64_t cost, weir_decision *ret);

/* Gives the key its full quota again, and keeps the memory for the next key.
 *  p  the policy of the next call of key_state_check(), which may be another one than before. */
void key_state_reset(key_state *s, const weir_policy *p);

/* Frees the memory. *s is a key with full quota again. */
void key_state_free(key_state *s);

#endif
