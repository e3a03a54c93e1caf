/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_INTERNED_H
#define WEIR_MODULES_REDIS_INTERNED_H
/* What states are filed under: a scope is a policy's name, which is empty for policies by text, and
 * its canonical text. There is one of each for all keys, compiled once, for as long as a state or a
 * name refers to it. It must not know keys, nor how a state lies.
 *
 * All but weir_interned_unref() and weir_base_unref() is for the server's main thread; these two are
 * also called by the thread that frees what was unlinked. */

#include "port/atomic.h"
#include "service/rules/rules.h"

#include <weir/weir.h>

typedef struct weir_interned {
    port_word refs;
    struct weir_interned *next; /* of those whose hashes share a place */
    uint64_t hash;
    uint32_t slot; /* where small states are stored inline from now on; 0: none yet */
    bool throttle; /* CL.THROTTLE's: its one word is a TAT, and `policy` only lends the format */
    uint8_t small; /* words of a state, 1 or 2, if it can be stored inline; else 0 */
    uint8_t name_len;
    uint16_t text_len;
    weir_policy policy;
    char texts[]; /* the name and a NUL, the text and a NUL */
} weir_interned;

static inline const char *weir_interned_name(const weir_interned *s)
{
    return s->texts;
}

static inline const char *weir_interned_text(const weir_interned *s)
{
    return s->texts + s->name_len + 1;
}

/* Returns WEIR_OK, WEIR_E_NOMEM or WEIR_E_IO (no random bytes). */
WEIR_NODISCARD weir_status weir_interned_open(void);
void weir_interned_close(void); /* no value may be left */

/* The scope of a policy text that a client gave, or of a name that a policy was set under. It is
 * good until the next command; who keeps it takes a reference.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_ABSENT for a name; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_intern_text(const char *text, size_t len, weir_interned **ret,
                                            weir_policy_error *ret_error);
WEIR_NODISCARD weir_status weir_intern_name(const char *name, size_t len, weir_interned **ret);
weir_interned *weir_intern_throttle(void);

/* The scope of a stored state: name and canonical text as weir_interned_name() and _text() told them.
 * Returns as above; WEIR_E_SYNTAX also for a text that is not canonical or a name that none could
 * have. */
WEIR_NODISCARD weir_status weir_intern_stored(const char *name, size_t name_len, const char *text,
                                              size_t len, weir_interned **ret);

static inline void weir_interned_ref(weir_interned *s)
{
    port_word_add_relaxed(&s->refs, 1);
}

/* Any thread. The memory goes when the main thread looks for what nobody refers to. */
static inline void weir_interned_unref(weir_interned *s)
{
    port_word_sub_release(&s->refs, 1);
}

/* ---- named policies -------------------------------------------------------------------------- */

typedef struct weir_named {
    weir_interned *scope;
    size_t name_len;
    char name[WEIR_RULE_NAME_MAX + 1];
    char *limit; /* the text as it was given */
} weir_named;

/* Returns WEIR_OK; WEIR_E_FULL; WEIR_E_NOMEM; as weir_intern_text(); WEIR_E_SYNTAX or
 * WEIR_E_RANGE with column 0 for a bad name. On failure *ret_error says why. */
WEIR_NODISCARD weir_status weir_named_set(const char *name, size_t name_len, const char *limit,
                                          size_t limit_len, weir_policy_error *ret_error);
bool weir_named_drop(const char *name, size_t len); /* false: there was none */
void weir_named_drop_all(void);

/* By name; `ret` is good until they change. Returns how many there are. */
size_t weir_named_all(const weir_named **ret);
const weir_named *weir_named_find(const char *name, size_t len); /* NULL: none */

/* ---- slots ----------------------------------------------------------------------------------- */
/* A small state is told by its distance from a base that many states of a scope share: that is a
 * slot. Slots are numbered from 1, and kept until no state is told by them. */

enum { WEIR_BASE_BITS = 12, WEIR_BASES_MAX = 1 << WEIR_BASE_BITS };

/* How far from its base a state can be told: 2^50 ns are 13 days. */
#define WEIR_DELTA_MAX (UINT64_MAX >> (2 + WEIR_BASE_BITS))

typedef struct weir_base {
    port_word refs; /* of states */
    weir_interned *scope;
    uint64_t base_hi, base_lo;
} weir_base;

/* slot: of one that somebody refers to, 1..WEIR_BASES_MAX - 1. */
weir_base *weir_base_at(uint32_t slot);

/* A new slot, to which nobody refers yet, as scope->slot. False if there is none left. */
bool weir_base_new(weir_interned *s, uint64_t base_hi, uint64_t base_lo);

static inline void weir_base_unref(uint32_t slot)
{
    port_word_sub_release(&weir_base_at(slot)->refs, 1);
}

#endif
