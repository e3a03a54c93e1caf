/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_INTERNED_H
#define WEIR_MODULES_REDIS_INTERNED_H
/* Interned policies, named policies, and generations. States refer to an interned policy: a pair of
 * a name, which is empty for a policy given as text, and a canonical text. After all keys of a
 * policy were reset n times, the name ends with "?n": so the former states are those of another
 * policy, and the generation is a part of each serialised state. Each pair is compiled once for
 * all keys, and kept while its reference count is above 0. Knows neither keys nor the layout of
 * states.
 *
 * Main thread only, except weir_interned_unref() and weir_base_unref(). The server frees unlinked
 * values in a thread of its own, which calls these two. */

#include "port/atomic.h"
#include "service/rules/rules.h"

#include <weir/weir.h>

#include <string.h>

typedef struct weir_interned {
    port_word refs;
    struct weir_interned *next; /* in its chain of the hash table */
    uint64_t hash;
    uint32_t base[2]; /* the delta bases of new inline states: [1] of those whose expiry is known,
                         [0] of the others; 0: none yet */
    bool former;      /* of a generation before the last reset: its states can be dropped */
    bool throttle;    /* for CL.THROTTLE: the state is a TAT, and `policy` only has its format */
    uint8_t small;    /* the words of a state, 1 or 2, if it can be stored inline; else 0 */
    uint8_t grid;     /* an expiry is rounded up to a multiple of 2^grid ns, before it is spread */
    uint8_t name_len;
    uint16_t text_len;
    weir_policy policy;
    char strings[]; /* the name and a NUL, the text and a NUL */
} weir_interned;

static inline const char *weir_interned_name(const weir_interned *s)
{
    return s->strings;
}

/* The length of the name without the generation; 0: a policy given as text. */
static inline size_t weir_interned_base_len(const weir_interned *s)
{
    return strcspn(s->strings, "?");
}

static inline const char *weir_interned_text(const weir_interned *s)
{
    return s->strings + s->name_len + 1;
}

/* Returns WEIR_OK, WEIR_E_NOMEM or WEIR_E_IO (no random bytes). */
WEIR_NODISCARD weir_status weir_interned_open(void);
void weir_interned_close(void); /* no value may be left */

/* For tests: whether the table, the cache, the named policies and the delta bases agree. Not while
 * policies are held. */
bool weir_interned_sound(void);

/* Interns the policy of a text, or finds the one of a name. The result is valid until the next
 * policy is interned, unless the caller takes a reference.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_ABSENT for an unknown name; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_intern_text(const char *text, size_t len, weir_interned **ret,
                                            weir_policy_error *ret_error);
WEIR_NODISCARD weir_status weir_intern_name(const char *name, size_t len, weir_interned **ret);
weir_interned *weir_intern_throttle(void);

/* Interns the policy of a serialised state.
 *  name, text  as weir_interned_name() and weir_interned_text() returned them.
 * Returns as above. WEIR_E_SYNTAX also if the text is not canonical or the name is invalid. */
WEIR_NODISCARD weir_status weir_intern_stored(const char *name, size_t name_len, const char *text,
                                              size_t len, weir_interned **ret);

static inline void weir_interned_ref(weir_interned *s)
{
    port_word_add_relaxed(&s->refs, 1);
}

/* Any thread. The main thread frees policies without references later. */
static inline void weir_interned_unref(weir_interned *s)
{
    port_word_sub_release(&s->refs, 1);
}

/* From hold to release no policy is freed. The server may run other commands of the module
 * meanwhile: publishing an event calls the modules that subscribed to it. May be nested. A command
 * that holds before it interns would never free policies. */
extern unsigned weir_interned_holds;

static inline void weir_interned_hold(void)
{
    weir_interned_holds++;
}

static inline void weir_interned_release(void)
{
    weir_interned_holds--;
}

/* ---- named policies -------------------------------------------------------------------------- */

typedef struct weir_named {
    weir_interned *interned;
    size_t name_len;
    char name[WEIR_RULE_NAME_MAX + 1];
    char *limit; /* the text as the client wrote it */
} weir_named;

#define WEIR_NAMED_MAX 1024

/* Returns WEIR_OK; WEIR_E_FULL, with an empty error text, at WEIR_NAMED_MAX policies; WEIR_E_NOMEM;
 * as weir_intern_text(); WEIR_E_SYNTAX with column 0 for a bad name. */
WEIR_NODISCARD weir_status weir_named_set(const char *name, size_t name_len, const char *limit,
                                          size_t limit_len, weir_policy_error *ret_error);
bool weir_named_drop(const char *name, size_t len); /* false: there is no such policy */
void weir_named_drop_all(void);

/* All named policies, sorted by name. `ret` is valid until one changes. Returns their number. */
size_t weir_named_all(const weir_named **ret);
const weir_named *weir_named_find(const char *name, size_t len); /* NULL: there is no such policy */

/* ---- resets of all keys of a policy ---------------------------------------------------------- */

/* Begins a new generation of a named policy, or of a text: all keys have their full quota.
 *  ret_error  written if the text is not a policy.
 * Return WEIR_OK; WEIR_E_ABSENT for an unknown name; WEIR_E_FULL if WEIR_GENERATIONS_MAX others
 * were reset; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_named_reset(const char *name, size_t len);
WEIR_NODISCARD weir_status weir_text_reset(const char *text, size_t len,
                                           weir_policy_error *ret_error);

/* The generation of a policy that was reset (generations.c). */
typedef struct weir_generation {
    char *policy; /* its name, or its canonical text, which has a space; not terminated */
    size_t len;
    uint64_t n; /* from 1 */
} weir_generation;

#define WEIR_GENERATIONS_MAX 1024

uint64_t weir_generation_of(const char *policy, size_t len); /* 0: it was never reset */

/* Sets a generation without effect on interned policies: before weir_generations_loaded().
 *  n  1 or more.
 * Returns WEIR_OK or WEIR_E_FULL. */
WEIR_NODISCARD weir_status weir_generation_set(const char *policy, size_t len, uint64_t n);

size_t weir_generations_all(const weir_generation **ret); /* valid until one changes */
void weir_generations_drop_all(void);

/* Call it after generations were set or dropped. The named policies must be set again, too. */
void weir_generations_loaded(void);

/* ---- delta bases ----------------------------------------------------------------------------- */
/* Delta encoding: an inline state is stored as its distance from a base. Many states under one
 * policy share a base. Bases are numbered from 1, and reused when no state refers to them. */

/* The epoch (weir_moment.epoch) of the last command that set the expiry of a key with one state.
 * If that is the current epoch, the key expires at the time that is computed from the state, or
 * later. */
#define WEIR_EPOCH_UNKNOWN 0u /* as after loading a file */

enum { WEIR_BASE_BITS = 12, WEIR_BASES_MAX = 1 << WEIR_BASE_BITS };

/* The largest distance: 2^50 ns are 13 days. */
#define WEIR_DELTA_MAX (UINT64_MAX >> (2 + WEIR_BASE_BITS))

typedef struct weir_base {
    port_word refs; /* of states */
    weir_interned *interned;
    uint64_t hi, lo;
    uint32_t epoch; /* of all its states */
} weir_base;

/* base: 1..WEIR_BASES_MAX - 1, with a reference to it. */
weir_base *weir_base_at(uint32_t base);

/* The base of new states in an epoch; 0: none. */
static inline uint32_t *weir_base_of(weir_interned *s, uint32_t epoch)
{
    return &s->base[epoch != WEIR_EPOCH_UNKNOWN];
}

/* Makes a base without references, and sets *weir_base_of(s, epoch) to it. Returns false if all are
 * in use. */
bool weir_base_new(weir_interned *s, uint32_t epoch, uint64_t hi, uint64_t lo);

static inline void weir_base_unref(uint32_t base)
{
    port_word_sub_release(&weir_base_at(base)->refs, 1);
}

#endif
