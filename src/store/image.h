/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_IMAGE_H
#define WEIR_STORE_IMAGE_H
/* The memory of a store: anonymous, or a mapped file with a header that says what it is. It hands
 * out parts and must not know what lies in them. */

#include <weir/weir_store.h>

#include "store/owner.h"

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
 * image that exists keeps its own. Returns WEIR_OK, else as weir_store_open(), with a text in
 * *options->ret_error if that is not NULL. */
WEIR_NODISCARD weir_status weir_image_open(weir_image **ret, const weir_store_options *options,
                                           size_t table_bytes, size_t large_bytes,
                                           size_t reserved_bytes);
void weir_image_close(weir_image *m); /* accepts NULL */

bool weir_image_is_new(const weir_image *m); /* this opening made it */
weir_image_parts weir_image_parts_get(const weir_image *m);
const weir_owners *weir_image_owners(const weir_image *m);
const uint8_t *weir_image_secret(const weir_image *m); /* 16 bytes */

/* Writes to the disk what has changed, and returns when it is there. WEIR_E_IO if the system could
 * not; WEIR_OK for anonymous memory. Any thread. */
weir_status weir_image_sync(weir_image *m);

/* Notes the text that belongs to a policy's id, once. Any thread. */
void weir_image_note_policy(weir_image *m, uint64_t policy_id, const char *text, size_t len);

/* The text of a policy's id, with its terminator. Returns its length; 0 if the id is not known. Any
 * thread. */
size_t weir_image_policy_text(const weir_image *m, uint64_t policy_id,
                              char buf[WEIR_POLICY_TEXT_MAX]);

#endif
