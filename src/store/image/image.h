/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_IMAGE_H
#define WEIR_STORE_IMAGE_H
/* The memory of a store: anonymous, or a mapped file with a header that says what it is. It hands
 * out parts and must not know what lies in them. docs/internals/state.md has the file's layout. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/robust_lock.h"

/* Of what lies in the parts, that is of every layout that the code of table, large and reserved
 * parts and the core's states have. To be raised with each change of one: a file of another version
 * is refused. */
#define WEIR_STATE_VERSION 1

typedef struct weir_image weir_image;

typedef struct weir_part {
    void *at; /* begins on a page, and if it is large enough on a large page */
    size_t bytes;
} weir_part;

/* What the parts hold, as long as the image is open. All zero in a new one. */
typedef struct weir_image_parts {
    weir_part table, large, reserved;
} weir_image_parts;

/* Opens or creates, by options->file (NULL: anonymous memory), with the parts' sizes as given; an
 * image that exists keeps its own. Takes the same time whatever the size, but for the room that a
 * new file is given on the disk. The parts' sizes are any but 0. Where nobody else has the file
 * open and it has other sizes, all others wait until weir_image_open_beside() fails,
 * weir_image_replace() has come to an end, or it is closed.
 * Returns WEIR_OK; WEIR_E_BUSY if somebody else has the file open; WEIR_E_SYNTAX for a file that is
 * not ours, or damaged, or of another version; WEIR_E_RANGE for sizes that no file can have, or a
 * secret that is not the file's; WEIR_E_IO; WEIR_E_NOMEM. Then there is a text in
 * *options->ret_error, if that is not NULL. */
WEIR_NODISCARD weir_status weir_image_open(weir_image **ret, const weir_store_options *options,
                                           size_t table_bytes, size_t large_bytes,
                                           size_t reserved_bytes);

/* Writes what has changed to the disk, and notes that it was closed. Accepts NULL. A second image
 * of one that was not put in its place yet is removed with its file. */
void weir_image_close(weir_image *m);

bool weir_image_is_new(const weir_image *m); /* this opening made it */
weir_image_parts weir_image_parts_get(const weir_image *m);
const weir_processes *weir_image_processes(const weir_image *m);
const uint8_t *weir_image_secret(const weir_image *m); /* 16 bytes */

weir_clock_slots *weir_image_clock_slots(weir_image *m); /* what it remembers of the time */

/* Writes to the disk what has changed, and returns when it is there. WEIR_E_IO if the system could
 * not; WEIR_OK for anonymous memory. Any thread. */
weir_status weir_image_sync(weir_image *m);

typedef struct weir_image_stats {
    uint64_t syncs_failed;     /* of those that nobody waited for, as well */
    uint64_t policies;         /* whose texts are noted, of WEIR_POLICY_REGISTRY_ENTRIES */
    uint64_t policies_refused; /* texts that found no room */
} weir_image_stats;

weir_image_stats weir_image_stats_get(const weir_image *m); /* any thread */

/* Says where the file is now, see weir_store_watch(). One thread at a time. */
weir_file weir_image_watch(weir_image *m);

/* The mapped file, for those who must tell a fault there from others. */
typedef struct weir_mapping {
    const void *at;
    size_t bytes;
    int fd; /* -1: anonymous memory, and the rest is zero */
} weir_mapping;

weir_mapping weir_image_mapping(const weir_image *m);

/* ---- other sizes ----------------------------------------------------------------------------- */

/* Whether the file's parts are not of the sizes that were asked for. */
bool weir_image_other_size(const weir_image *m);

/* Makes an image of the sizes that opening `old` was asked for, empty but for the secret, the
 * policies' texts and what it remembers of the time, in a file beside that of `old`, which is left
 * alone. Nobody else can open `old` from here on.
 *  old  opened with the same options.
 * Returns as weir_image_open(); WEIR_E_BUSY if others have it open. */
WEIR_NODISCARD weir_status weir_image_open_beside(weir_image **ret, weir_image *old,
                                                  const weir_store_options *options);

/* Puts `m` in the place of `old`, of which it was opened beside, and closes `old`: from here on the
 * file at options->file is that of `m`. On any other answer than WEIR_OK both are as before. */
WEIR_NODISCARD weir_status weir_image_replace(weir_image *m, weir_image *old,
                                              const weir_store_options *options);

/* ---- policies -------------------------------------------------------------------------------- */

/* Notes the text that belongs to a policy's id, once. False if there is no room. Any thread. */
bool weir_image_note_policy(weir_image *m, uint64_t policy_id, const char *text, size_t len);

/* The text of a policy's id, with its terminator. Returns its length; 0 if the id is not known. Any
 * thread. */
size_t weir_image_policy_text(const weir_image *m, uint64_t policy_id,
                              char buf[WEIR_POLICY_TEXT_MAX]);

/* Calls fn for every text that is noted, until it returns false; the text is not terminated. Any
 * thread. */
void weir_image_policies(const weir_image *m,
                         bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                         void *ctx);

#endif
