/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_ERRORS_H
#define WEIR_CMD_CONFIG_ERRORS_H
/* Collects the errors of a configuration in any order, and reports them in the order of the file.
 * Redacts passwords in the lines that it shows. */

#include "cmd/config/config.h"
#include "cmd/config/tree.h"

typedef struct config_found_error {
    size_t at; /* byte offset in the file */
    const char *path, *text;
    bool warning;
} config_found_error;

/* Bytes begin..end - 1 of the file, which must not be shown. */
typedef struct config_redaction {
    struct config_redaction *next;
    size_t begin, end;
} config_redaction;

typedef struct config_errors {
    config_arena *arena;
    const char *file;
    const char *text; /* NULL: there is no file, only a name for messages */
    size_t len;
    size_t found;                               /* errors and warnings */
    size_t warnings;                            /* of these */
    size_t kept;                                /* entries of list: the first in the file */
    config_found_error list[CONFIG_ERRORS_MAX]; /* sorted by position */
    config_redaction *redactions;
    struct config_errors *next; /* of the next file; NULL: this is the last one */
} config_errors;

/* Adds an error at byte `at` of the file.
 *  place  the key that it is about; NULL for the whole file. */
__attribute__((format(printf, 4, 5))) void
config_error_at(config_errors *e, size_t at, const config_place *place, const char *format, ...);

/* Adds an error at a value, unless the value already has one. Without a value (place->node is NULL)
 * it is about the whole file. */
__attribute__((format(printf, 3, 4))) void config_error(config_errors *e, const config_place *place,
                                                        const char *format, ...);

/* Adds a warning at a value. */
__attribute__((format(printf, 3, 4))) void config_warn(config_errors *e, const config_place *place,
                                                       const char *format, ...);

/* The errors of all files from this one on, without warnings. */
size_t config_errors_in(const config_errors *e);

/* Reports the first CONFIG_ERRORS_MAX errors of each file, and how many more there are. */
void config_errors_report(const config_errors *e, const config_sink *sink);

/* The end of the line that holds byte `at` of the file, without its line break. */
size_t config_line_end(const config_errors *e, size_t at);

/* The edit distance of two strings, ignoring case: how many letters must be added, removed, changed
 * or swapped with their neighbour (Damerau-Levenshtein).
 *  a, b  of any length. Returns SIZE_MAX if one has more than 40 bytes. */
size_t config_edit_distance(const char *a, const char *b);

/* ---- redact.c -------------------------------------------------------------------------------- */

/* Whether a key is "password", or so close to it that its value may be one. */
bool config_is_password(const config_node *key);

/* Redacts all passwords, and the user and password of each URL.
 *  root  the tree; NULL if the text could not be parsed. Then anything that may be a password is
 *        redacted. */
void config_redact(config_errors *e, const config_node *root);

#endif
