/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_FILE_H
#define WEIR_STORE_STATE_FILE_H
/* Opening and creating state files: finding the file, locking it against other processes, and
 * replacing it atomically. Of the contents it knows only the magic number.
 *
 * There are three kinds of locks, each on one byte of the file:
 *   OPENING       held exclusively while a process opens, closes or replaces the file
 *   IN_USE        held as long as the file is open: exclusively, or shared by many processes
 *   PROCESS + id  held by the opening with that id, so that others can check whether it is alive
 * A new file is created at PATH.new, with its OPENING lock held, and then renamed to PATH. After
 * waiting for an OPENING lock, a process therefore checks that its file is still the one at
 * PATH. */

#include "store/image/lock_file.h"

typedef struct weir_state_file {
    int fd; /* -1: none */
    bool shared;
    bool is_new; /* created by this opening; at PATH.new until weir_state_file_install() */
    bool is_installed;
    bool is_first; /* no other process had it open */
    int replaces;  /* the file at PATH, while this one is at PATH.new; -1: none */
    weir_lock_file claim;
    char *path, *beside, *lock; /* PATH, PATH.new, PATH.lock */
} weir_state_file;

#define WEIR_STATE_FILE_NONE                                                                       \
    ((weir_state_file){.fd = -1, .replaces = -1, .claim = WEIR_LOCK_FILE_NONE})

/* Whether another opening uses the file. weir_state_file_used_error() writes the message that names
 * the other process, and returns WEIR_E_BUSY. */
bool weir_state_file_is_used(int fd);
weir_status weir_state_file_used_error(const weir_store_options *options, int fd, const char *what);

/* Opens the file, or creates a new one, with its OPENING and IN_USE locks. Call
 * weir_state_file_end_opening() or weir_state_file_close() next.
 *  f  also written on failure, for weir_state_file_close(). */
weir_status weir_state_file_open(weir_state_file *f, const weir_store_options *options);

/* Creates a new file beside `old`, with the OPENING locks of both. */
weir_status weir_state_file_open_beside(weir_state_file *f, weir_state_file *old,
                                        const weir_store_options *options);

/* Renames a new file to PATH, once it is complete. */
weir_status weir_state_file_install(weir_state_file *f, const weir_store_options *options);

/* Releases the OPENING lock. Shares the IN_USE lock if the file is shared. */
weir_status weir_state_file_end_opening(weir_state_file *f, const weir_store_options *options);

/* Reports where the file is now. Takes the lock on PATH.lock again if it was lost. Only one thread
 * at a time may call it.
 *  bytes    the size of the mapping.
 *  options  file and trust_others are read. */
weir_file weir_state_file_watch(weir_state_file *f, uint64_t bytes,
                                const weir_store_options *options);

/* Takes the OPENING lock again, so that no process opens the file meanwhile. */
void weir_state_file_begin_closing(weir_state_file *f);

/* Takes the lock of an opening's id. Sets *ret_taken to false if another opening has it. */
weir_status weir_state_file_take_process_id(weir_state_file *f, uint64_t id, bool *ret_taken,
                                            const weir_store_options *options);
bool weir_state_file_has_process(const weir_state_file *f, uint64_t id); /* any thread */

/* Closes the file and releases its locks. A new file that was not installed is removed. */
void weir_state_file_close(weir_state_file *f);

#endif
