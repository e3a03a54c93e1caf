/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_KEYSPACE_H
#define WEIR_MODULES_REDIS_KEYSPACE_H
/* Opens keys of the server and decides on their states. A command opens its keys, opens a cell for
 * each state, and decides on the cells. Then it writes them, or closes them unchanged. A state is
 * idle when its quota is full again; idle states are dropped. Knows neither arguments nor replies.
 * Main thread only. */

#include "abi.h"
#include "service/engine.h"
#include "value.h"

/* ---- the time of a command (clock.c) --------------------------------------------------------- */

/* The two clocks of a command. Decisions use a clock that follows the wall clock but is never
 * stepped, as the store's does: a step of the wall clock neither blocks keys nor fills their
 * quotas. Expiry uses the wall clock, the only one that the server knows. It is computed as a time
 * of the first clock plus `ahead_ns`. That rarely changes, so most keys can keep their expiry. */
typedef struct weir_moment {
    int64_t now_ns;   /* for decisions. Since Redis 7.2 it is the same for all commands of a
                         transaction or a script */
    int64_t ahead_ns; /* at least the wall clock minus now_ns, and at least 0 */
    uint32_t epoch;   /* how often ahead_ns has changed; from 1 */
} weir_moment;

void weir_moment_start(void);
weir_moment weir_moment_now(void);

/* ---- keys and cells -------------------------------------------------------------------------- */

#define WEIR_DECIDED_MAX 16 /* keys or cells of a command */

/* The most policies under which a key can have states before a command adds its own. */
#define WEIR_POLICIES_OF_KEY (WEIR_STATES_MAX - WEIR_DECIDED_MAX)

/* A key of a command. */
typedef struct weir_open_key {
    redis_string *name;
    redis_key *key;   /* NULL: opened for reading, and the key does not exist */
    weir_value value; /* 0: the key does not exist */
    bool exists;
    bool must_drop_idle; /* the new states fit only after the idle ones are dropped */
    bool of_one_policy;  /* its states without a name are those of one named policy of daemons */
    size_t cells;        /* opened so far */
    const weir_interned *interned[WEIR_DECIDED_MAX]; /* the policy of each */
    const weir_interned *former[WEIR_DECIDED_MAX];   /* the same; see weir_cell.former */
} weir_open_key;

/* mode: REDIS_READ, or with REDIS_WRITE. Returns false if the key holds a value of another type;
 * then there is nothing to close. */
bool weir_key_open(weir_open_key *k, redis_ctx *ctx, redis_string *name, int mode);
void weir_key_close(weir_open_key *k);

/* Stores k->value, which may be 0, in the key. Does not free the previous value. */
void weir_key_put(weir_open_key *k);

/* The data type of the module's values. Set when the module is loaded. */
extern redis_type *weir_data_type;

/* A word of a long state before it was written. */
typedef struct weir_undo_word {
    uint32_t word;
    uint64_t before;
} weir_undo_word;

enum { WEIR_CELL_SMALL = 16 }; /* a state of at most so many words is decided on in a copy */

/* A state that a command decides on. A long state is written in place, with an undo log. */
typedef struct weir_cell {
    weir_open_key *key;
    weir_interned *interned;
    unsigned level, level_before;
    size_t words;
    uint64_t *state; /* in `small`, `new_state` or `in_place`; NULL after a reset */
    bool absent;     /* the key has no state under this policy */
    /* The former limit of the policy, under which the key has a state: it was converted, and is
     * replaced when the cell is written. NULL: none; if absent, the quota is full. */
    const weir_interned *former;
    int64_t opened_ns;
    weir_heap_state *new_state; /* a long state that is new or has grown; owned by the cell */
    weir_heap_state *in_place;  /* a long state of the value */
    weir_undo_word *undo;       /* the undo log of in_place */
    size_t undo_len;
    uint64_t small[WEIR_CELL_SMALL], before[WEIR_CELL_SMALL];
} weir_cell;

/* Opens the state of a key under a policy. Once for each policy of a key. The cell must be closed
 * even on failure.
 * Returns WEIR_OK. WEIR_E_FULL if the key has states of WEIR_POLICIES_OF_KEY policies already, or
 * of policies whose states may grow too long together. States that are idle at now_ns do
 * not count. WEIR_E_NOMEM if a former state does not fit under this policy. */
WEIR_NODISCARD weir_status weir_cell_open(weir_cell *c, weir_open_key *k, weir_interned *s,
                                          int64_t now_ns);

/* Closes a cell. Changes that were not written are undone. */
void weir_cell_close(weir_cell *c);

/* The time until a cost of 1 is allowed, after a decision on a request with this `keep`.
 * WEIR_NEXT_UNKNOWN: the peek failed. */
int64_t weir_cell_next(const weir_cell *c, int64_t now_ns, int64_t keep, const weir_decision *d);

/* Decides on a cell as weir_block_if_denied(). */
WEIR_NODISCARD weir_status weir_cell_block(weir_cell *c, int64_t now_ns, int64_t cost, int64_t keep,
                                           weir_decision *ret);

/* Decides on a cell. After WEIR_VERB_GRANT the decision is that of a peek with cost 1; after
 * WEIR_VERB_RESET, that of a peek with cost 0.
 *  verb         not WEIR_VERB_THROTTLE: weir_throttle_check() decides on c->state.
 *  n            0..WEIR_COST_MAX
 *  keep         of a take or a peek; see weir_check_keep()
 *  ret_granted  units that WEIR_VERB_GRANT charged; else 0.
 * Returns as weir_check_keep(), weir_peek_keep(), weir_refund() and weir_charge(), but WEIR_E_NOMEM
 * instead of WEIR_E_ROOM: the state has reached its maximum size. */
WEIR_NODISCARD weir_status weir_cell_decide(weir_cell *c, weir_verb verb, int64_t now_ns, int64_t n,
                                            int64_t keep, weir_decision *ret, int64_t *ret_granted);

/* Whether state i of a key can be dropped: it is idle at now_ns, or its policy was reset as a
 * whole, and the command has no cell on it. */
bool weir_key_can_drop(const weir_open_key *k, size_t i, int64_t now_ns);

/* ---- writing back (replicate.c) -------------------------------------------------------------- */

/* Writes decided states back to the keyspace, and replicates them. Replicas and the AOF receive
 * states (WEIR.STATE), never the command: a replica that ran the command at its own time would
 * decide otherwise. */

/* Writes back the cells that changed, of n: removes idle states, sets the expiry, deletes keys
 * without a state, replicates, and publishes `event` for each key that changed. The keys must be
 * open for writing. */
void weir_cells_write(redis_ctx *ctx, weir_cell *cells, size_t n, weir_moment at,
                      const char *event);

/* Subscribes to the events that may start replication. Once, when the module is loaded. */
void weir_replicate_start(redis_ctx *ctx);

/* Whether a replica or an AOF may need a change that is made now. If not, nothing is serialised,
 * which saves a third of the time of a decision. */
bool weir_must_replicate(redis_ctx *ctx);

#endif
