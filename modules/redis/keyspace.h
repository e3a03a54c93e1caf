/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_KEYSPACE_H
#define WEIR_MODULES_REDIS_KEYSPACE_H
/* Decisions on the states of keys. A command opens its keys, decides on cells, which are states
 * that may yet become what they were, and then keeps them or not: what is kept is written to the
 * keys, with their expiry, and told to replicas and the AOF as what it is now. It must not know
 * arguments or replies. All of it is for the server's main thread. */

#include "abi.h"
#include "clock.h"
#include "service/engine.h"
#include "value.h"

#define WEIR_DECIDED_MAX 16 /* keys, or cells, of a command */

#define WEIR_POLICIES_OF_KEY (WEIR_STATES_MAX - WEIR_DECIDED_MAX)

/* A key of a command. */
typedef struct weir_open_key {
    redis_string *name;
    redis_key *key;   /* NULL: opened for reading, and not there */
    weir_value value; /* 0: not there */
    bool there;
    bool crowded; /* there is room only if what is as good as fresh goes first */
    size_t opened;
    const weir_interned *scope[WEIR_DECIDED_MAX]; /* of the cells that were opened */
} weir_open_key;

/* mode: REDIS_READ, or with REDIS_WRITE. False if the key holds something else; then there is
 * nothing to close. */
bool weir_key_open(weir_open_key *t, redis_ctx *ctx, redis_string *name, int mode);
void weir_key_close(weir_open_key *t);

/* Makes t->value, which may be 0, the value of the key. What it was is not freed. */
void weir_key_put(weir_open_key *t);

/* The type of our values, once it was made. */
extern redis_type *weir_data_type;

/* A state under decision. What the core may write to a long state where it lies is noted first. */
enum { WEIR_CELL_SMALL = 16 }; /* words that are decided on in a copy */
typedef struct weir_note {
    uint32_t word;
    uint64_t before;
} weir_note;

typedef struct weir_cell {
    weir_open_key *target;
    weir_interned *scope;
    unsigned level, level_before;
    size_t words;
    uint64_t *state;        /* small, or of `made`, or of `there`; NULL: it is to go */
    bool fresh;             /* nothing was there */
    weir_heap_state *made;  /* a long state that is new, or grew; ours */
    weir_heap_state *there; /* a long state, decided on where it lies */
    weir_note *notes;       /* of `there` */
    size_t notes_len;
    uint64_t small[WEIR_CELL_SMALL], before[WEIR_CELL_SMALL];
} weir_cell;

/* Once for each scope of a target.
 * Returns WEIR_OK; WEIR_E_FULL if the key has states of WEIR_POLICIES_OF_KEY policies already, or
 * of such as may grow too long; those that are as good as fresh at now_ns do not count. To be
 * closed in either case. */
WEIR_NODISCARD weir_status weir_cell_open(weir_cell *c, weir_open_key *t, weir_interned *s,
                                          int64_t now_ns);
void weir_cell_close(weir_cell *c); /* what was not kept is as it was */

/* Decides on a cell. Of WEIR_VERB_GRANT and WEIR_VERB_RESET the figures are those of a peek afterwards, with
 * the cost 1 and 0.
 *  n            0..WEIR_COST_MAX
 *  ret_granted  units that WEIR_VERB_GRANT charged; else 0.
 * Returns as weir_check(), weir_peek() and weir_refund(); WEIR_E_NOMEM in the place of WEIR_E_ROOM
 * if the state has grown as far as it may. */
WEIR_NODISCARD weir_status weir_cell_decide(weir_cell *c, weir_verb verb, int64_t now_ns, int64_t n,
                                            weir_decision *ret, int64_t *ret_granted);

/* Writes back the cells that changed, of n. States that are fresh again are removed, and keys
 * without a state are deleted. Keyspace subscribers get `event` for each key that changed. The
 * targets must be open for writing. */
void weir_cells_write(redis_ctx *ctx, weir_cell *cells, size_t n, weir_moment at,
                      const char *event);

#endif
