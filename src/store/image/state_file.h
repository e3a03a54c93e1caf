/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_FILE_H
#define WEIR_STORE_STATE_FILE_H
/* Which file an image is in, and who may have it open: finding, making, locking, swapping. Of what
 * is in the file it must know no more than the first bytes, by which it knows its own.
 *
 * Three kinds of locks, each on a byte of the file:
 *   DOOR   held by who is opening, closing or replacing the file, for as long as that takes;
 *   USE    held as long as the file is open: owned by one, or shared by many;
 *   OWNER  + id, held as long as an opening with that id is: what asks if it is alive.
 * A new file is made at PATH.new, of which its maker has the door, and then put at PATH; who waited
 * at a door looks afterwards if it is still that of PATH. */

#include "store/image/lock_file.h"

typedef struct weir_state_file {
    int fd; /* -1: none */
    bool shared;
    bool is_new; /* empty, and at PATH.new until weir_state_file_put() */
    bool is_put;
    bool is_first; /* nobody else had it open */
    int replaces;  /* the file that is at PATH as long as this is at PATH.new; -1: none */
    weir_lock_file claim;
    char *path, *beside, *lock; /* PATH, PATH.new, PATH.lock */
} weir_state_file;

#define WEIR_STATE_FILE_NONE                                                                       \
    ((weir_state_file){.fd = -1, .replaces = -1, .claim = WEIR_LOCK_FILE_NONE})

/* Whether a store has the open file in use, and the message that says which process. The latter
 * returns WEIR_E_BUSY. */
bool weir_state_file_is_used(int fd);
weir_status weir_state_file_used_error(const weir_store_options *options, int fd, const char *what);

/* Finds the file, or begins a new one; with its door and USE. To be followed by
 * weir_state_file_end_opening(), or by close.
 *  f  also on failure for weir_state_file_close(). */
weir_status weir_state_file_open(weir_state_file *f, const weir_store_options *options);

/* Begins a new file beside `old`, with the doors of both. */
weir_status weir_state_file_open_beside(weir_state_file *f, weir_state_file *old,
                                        const weir_store_options *options);

/* Puts a new file that is whole at PATH. */
weir_status weir_state_file_put(weir_state_file *f, const weir_store_options *options);

/* Lets others in at the door, and if the file is shared, also to use it. */
weir_status weir_state_file_end_opening(weir_state_file *f, const weir_store_options *options);

/* Gives the claim of `old` to a file that was put in its place. */
void weir_state_file_hand_over(weir_state_file *f, weir_state_file *old);

/* Says where the file is now, and claims PATH again if the claim was lost. One thread at a time.
 *  bytes    that are mapped.
 *  options  file and trust_others are read. */
weir_file weir_state_file_watch(weir_state_file *f, uint64_t bytes,
                                const weir_store_options *options);

/* Gets the door back, for what must not happen while others come and go. */
void weir_state_file_begin_closing(weir_state_file *f);

/* Takes an owner's id; false if somebody has it. */
weir_status weir_state_file_take_process_id(weir_state_file *f, uint64_t id, bool *ret_taken,
                                            const weir_store_options *options);
bool weir_state_file_has_process(const weir_state_file *f, uint64_t id); /* any thread */

/* Gives back all. A new file that was not put is removed. */
void weir_state_file_close(weir_state_file *f);

#endif
