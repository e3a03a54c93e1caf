/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_MESSAGES_H
#define WEIR_CODEC_SPOP_MESSAGES_H
/* The messages that HAProxy may send, and which policy, key and cost each of them has. A set of
 * messages is immutable; a reload of the configuration activates another one. This file also counts
 * frames. It must not know frames or sockets. */

#include "port/atomic.h"
#include "port/buffer.h"
#include "port/text.h"
#include "service/rules/key_template.h"
#include "service/rules/rules.h"

#define WEIR_SPOP_MESSAGES_MAX 1024 /* messages in a set */
#define WEIR_SPOP_NAME_MAX     128  /* bytes of a message's name */

/* ---- messages -------------------------------------------------------------------------------- */

/* A message in the configuration. A text with '$' is a key template, whose variables are the names
 * of the message's arguments. */
typedef struct weir_spop_spec {
    const char *name;
    const char *policy; /* the name of a policy, or a template that gives one */
    const char *key;    /* a template; NULL: the argument `key`, or else the argument `src` */
    const char *cost;   /* a number, or a template that gives one; NULL: 1 */
    int64_t keep;       /* see weir_check_keep() */
} weir_spop_spec;

typedef struct weir_spop_message {
    weir_slice name;
    weir_key_template *policy; /* NULL: policy_name */
    weir_slice policy_name;
    weir_key_template *key;  /* NULL: the arguments `key` and `src` */
    weir_key_template *cost; /* NULL: fixed_cost */
    int64_t fixed_cost, keep;
} weir_spop_message;

/* An immutable set of messages with a reference count. */
typedef struct weir_spop_messages weir_spop_messages;

/* Builds a set with one reference. It copies the specs.
 *  specs      n specs with different names.
 *  variables  that ACK frames set: bits of weir_spop_variable().
 * Returns WEIR_OK; WEIR_E_RANGE for a value outside its range; WEIR_E_SYNTAX for a bad template;
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_spop_messages_build(weir_spop_messages **ret,
                                                    const weir_spop_spec *specs, size_t n,
                                                    uint32_t variables);

/* Returns the variables of the set; 0 for NULL. */
uint32_t weir_spop_messages_variables(const weir_spop_messages *m);

/* Any thread. Both accept NULL. */
void weir_spop_messages_hold(weir_spop_messages *m);
void weir_spop_messages_drop(weir_spop_messages *m);

/* Returns NULL if there is no message of this name. */
const weir_spop_message *weir_spop_messages_find(const weir_spop_messages *m, weir_slice name);

/* ---- the shared part and the part of a loop -------------------------------------------------- */

/* What all event loops share: the active messages. */
typedef struct weir_spop weir_spop;

/* Returns NULL if memory is exhausted. There are no messages yet. */
weir_spop *weir_spop_open(void);
void weir_spop_close(weir_spop *s); /* accepts NULL; its loops must be closed */

/* Activates a set, and takes a reference of its own. Any thread.
 *  messages        NULL: no messages.
 *  activate_rules  activates the rules that the messages refer to; NULL: they stay. A loop that
 *                  sees those rules also sees these messages: see weir_spop_loop_is_current(). */
void weir_spop_activate(weir_spop *s, weir_spop_messages *messages,
                        void (*activate_rules)(void *ctx), void *ctx);

/* What is counted since the start. */
typedef struct weir_spop_counts {
    port_counter notifies; /* NOTIFY frames that were answered */
    port_counter errors;   /* of these, those that were answered without a decision */
    port_counter unknown;  /* messages that are not in the configuration */
    port_counter refused;  /* connections that weir ended because of a protocol error */
} weir_spop_counts;

/* The part of one event loop; used by its thread only. */
typedef struct weir_spop_loop weir_spop_loop;

/* Returns NULL if memory is exhausted. */
weir_spop_loop *weir_spop_loop_open(weir_spop *s);
void weir_spop_loop_close(weir_spop_loop *l); /* accepts NULL */

/* The active messages, valid until the next call on the loop unless the caller holds them; NULL:
 * none. */
weir_spop_messages *weir_spop_loop_messages(weir_spop_loop *l);

/* Whether the last weir_spop_loop_messages() returned the messages that belong to the rules that
 * the loop's service has adopted since. */
bool weir_spop_loop_is_current(const weir_spop_loop *l);

/* The counts of this loop, for port_bump_relaxed(). */
weir_spop_counts *weir_spop_loop_counts(weir_spop_loop *l);

/* Memory for the texts of a batch, which the sessions of the loop share. A single request needs at
 * most WEIR_KEY_MAX of it, and a batch of usual requests a few KiB. */
#define WEIR_SPOP_SCRATCH (2 * WEIR_KEY_MAX)
char *weir_spop_loop_scratch(weir_spop_loop *l);

/* What HAProxy names and the configuration lacks. Such requests are not limited. */
typedef enum weir_spop_unknown { WEIR_SPOP_MESSAGE, WEIR_SPOP_POLICY } weir_spop_unknown;

/* Counts a name that is not in the configuration, and keeps it for weir_spop_take_unknown(). */
void weir_spop_count_unknown(weir_spop_loop *l, weir_spop_unknown what, weir_slice name);

/* Takes the first name since the last call that was not in the configuration. Returns how many
 * there were; 0: none, and nothing is written. Any thread.
 *  ret  WEIR_SPOP_NAME_MAX + 1 bytes; longer names are cut off. */
uint64_t weir_spop_take_unknown(weir_spop *s, weir_spop_unknown what, char *ret);

/* A message that is invalid, or lacks an argument. */
typedef struct weir_spop_fault {
    const char *error;                    /* static; NULL: the message was decided nevertheless */
    char message[WEIR_SPOP_NAME_MAX + 1]; /* longer names are cut off */
    char argument[WEIR_SPOP_NAME_MAX +
                  1]; /* that a template names and the message lacks; "": none */
} weir_spop_fault;

/* Counts a fault of a message, and keeps it for weir_spop_take_fault().
 *  argument  absent: none. */
void weir_spop_count_fault(weir_spop_loop *l, weir_slice message, const char *error,
                           weir_slice argument);

/* Takes the first fault since the last call. Returns how many there were; 0: none, and nothing is
 * written. Any thread. */
uint64_t weir_spop_take_fault(weir_spop *s, weir_spop_fault *ret);

/* Appends the sums of all loops as metrics. Any thread. Accepts NULL. */
void weir_spop_put_metrics(weir_spop *s, weir_buffer *out);

#endif
