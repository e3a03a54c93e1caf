/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_IMAGE_H
#define WEIR_STORE_IMAGE_H
/* The memory of a store: anonymous memory, memory of the caller, or a memory-mapped file, with a
 * header that describes it.
 * The image divides the memory into parts and does not know what they hold. docs/internals/state.md
 * describes the file format. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/image/file_header.h"
#include "store/image/policy_registry.h"
#include "store/robust_lock.h"

typedef struct weir_image weir_image;

typedef struct weir_part {
    void *at; /* begins on a page, and on a huge page if the part is large enough */
    size_t bytes;
} weir_part;

/* The parts, valid as long as the image is open. All zero in a new image. */
typedef struct weir_image_parts {
    weir_part table, large, reserved;
} weir_image_parts;

/* Creates an image, or opens the one in options->file or options->memory; both NULL: anonymous
 * memory. The sizes of the parts are not 0, and the partitions of the options fit into them. With
 * weir_shared_memory_overhead(), they fit into options->memory. An existing file keeps its own
 * sizes. Opening takes the same time for any size, except that a new file is allocated on the disk.
 * If this process is the only one with the file open, and the file does not have the requested
 * sizes or partitions, other openings wait until weir_image_open_beside() fails,
 * weir_image_replace() returns, or weir_image_close() returns.
 * Returns WEIR_OK; WEIR_E_BUSY if another process has the file open; WEIR_E_SYNTAX for a file that
 * is not a state file, is damaged, or has another version; WEIR_E_RANGE for sizes that no file can
 * have, or a secret other than the file's; WEIR_E_IO; WEIR_E_NOMEM. On failure there is a message
 * in *options->ret_error, unless that is NULL. */
WEIR_NODISCARD weir_status weir_image_open(weir_image **ret, const weir_store_options *options,
                                           size_t table_bytes, size_t large_bytes,
                                           size_t reserved_bytes);

/* Writes all changes to the disk, marks the file as cleanly closed, and frees the image. Accepts
 * NULL. If the image was opened beside another and has not replaced it, its file is removed. */
void weir_image_close(weir_image *m);

bool weir_image_is_new(const weir_image *m); /* whether this opening created it */
weir_image_parts weir_image_parts_get(const weir_image *m);

/* The number of partitions. With `ret`, writes all, WEIR_PARTITIONS_MAX at most. */
size_t weir_image_partitions(const weir_image *m, weir_image_partition *ret);
const weir_processes *weir_image_processes(const weir_image *m);
const uint8_t *weir_image_secret(const weir_image *m); /* 16 bytes */

weir_clock_slots *weir_image_clock_slots(weir_image *m); /* the stored clock readings */
weir_resets *weir_image_resets(weir_image *m);           /* the generations of policies */

/* Writes all changes to the disk. Returns WEIR_OK once they are there, and for anonymous memory;
 * WEIR_E_IO if the system could not. Any thread. */
weir_status weir_image_sync(weir_image *m);

typedef struct weir_image_stats {
    uint64_t syncs_failed;     /* failed syncs, including those in the background */
    uint64_t policies;         /* stored policy texts; WEIR_POLICY_REGISTRY_ENTRIES is the limit */
    uint64_t policies_refused; /* policy texts that did not fit */
} weir_image_stats;

weir_image_stats weir_image_stats_get(const weir_image *m); /* any thread */

/* Reports where the file is now, see weir_store_watch(). Only one thread at a time may call it. */
weir_file weir_image_watch(weir_image *m);

/* The functions of weir_store_share() and weir_store_own(). */
bool weir_image_share(weir_image *m);
bool weir_image_own(weir_image *m);

/* The mapped file, for a signal handler that must recognise faults in it. */
typedef struct weir_mapping {
    const void *at;
    size_t bytes;
    int fd; /* -1: anonymous memory, and the rest is zero */
} weir_mapping;

weir_mapping weir_image_mapping(const weir_image *m);

/* ---- resizing -------------------------------------------------------------------------------- */

/* Whether the sizes of the file's parts or its partitions differ from the requested ones. False
 * with keep_size: then no other sizes are requested. */
bool weir_image_other_size(const weir_image *m);

/* The first step of resizing: creates an image of the requested sizes in a new file beside that of
 * `old`. It has the secret and the count of openings of `old`, and is empty otherwise. `old` is
 * unchanged. From here on no other process can open `old`.
 *  old  opened with the same options.
 * Returns as weir_image_open(); WEIR_E_BUSY if other processes have `old` open. */
WEIR_NODISCARD weir_status weir_image_open_beside(weir_image **ret, weir_image *old,
                                                  const weir_store_options *options);

/* The last step of resizing: moves the file of `m` to the place of the file of `old`, and closes
 * `old`. On any other status than WEIR_OK, both images are unchanged. */
WEIR_NODISCARD weir_status weir_image_replace(weir_image *m, weir_image *old,
                                              const weir_store_options *options);

/* ---- backups --------------------------------------------------------------------------------- */

/* Opens a file as it is, whether other processes use it or not, and does not keep them from opening
 * or resizing it. The image may be read and locked. It counts as no opening that must be closed.
 * Returns as weir_image_open(); WEIR_E_IO if there is no file. */
WEIR_NODISCARD weir_status weir_image_visit(weir_image **ret, const weir_store_options *options);

/* Creates an empty image in a new file beside options->file, with the secret, the count of openings
 * and the owner of the file of `of`. weir_image_end_backup() moves it to options->file;
 * weir_image_close() before that removes it.
 *  options  `reset` is set. The sizes are those of weir_image_open().
 * Returns as weir_image_open(); WEIR_E_BUSY if a process has options->file open. */
WEIR_NODISCARD weir_status weir_image_begin_backup(weir_image **ret, const weir_image *of,
                                                   const weir_store_options *options,
                                                   size_t table_bytes, size_t large_bytes,
                                                   size_t reserved_bytes);

/* Writes the image to the disk, and puts it in the place of options->file. Returns WEIR_OK;
 * WEIR_E_IO, with options->file unchanged. */
WEIR_NODISCARD weir_status weir_image_end_backup(weir_image *m, const weir_store_options *options);

/* Copies the policy texts, the clock readings and the generations of policies of `from`, which
 * other threads and processes may use meanwhile, to `m`. */
void weir_image_copy(weir_image *m, const weir_image *from);

/* ---- policies -------------------------------------------------------------------------------- */

/* Stores the text of a policy's id, if it has none. Returns false if there is no space; see
 * weir_policy_registry_note(). Any thread. */
bool weir_image_note_policy(weir_image *m, uint64_t policy_id, const char *text, size_t len,
                            bool may_fill);

/* The texts, to read them. Any thread. */
const weir_policy_registry *weir_image_policies(const weir_image *m);

#endif
