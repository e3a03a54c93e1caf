/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_ERRORS_H
#define WEIR_CMD_CONFIG_ERRORS_H
/* What is wrong with a configuration: collected in any order, told in that of the file. */

#include "cmd/config/config.h"
#include "cmd/config/tree.h"

enum { CONFIG_ERRORS_KEPT = 1000 };

typedef struct config_error {
    size_t at;    /* byte of the file */
    size_t order; /* in which it was found */
    const char *path;
    const char *text;
    bool warning;
} config_error;

/* Bytes begin..end - 1 of the file are not to be shown. */
typedef struct config_hidden {
    struct config_hidden *next;
    size_t begin, end;
} config_hidden;

typedef struct config_errors {
    config_arena *arena;
    const char *file;
    const char *text;
    size_t len;
    size_t found;    /* errors and warnings */
    size_t warnings; /* of these */
    size_t kept;
    config_error list[CONFIG_ERRORS_KEPT];
    config_hidden *hidden;
} config_errors;

/* Notes an error at the byte `at` of the file.
 *  place  what it is about; NULL: the file. */
__attribute__((format(printf, 4, 5))) void
config_complain_at(config_errors *e, size_t at, const config_place *place, const char *format, ...);

/* Notes an error at the place's value, unless that has been complained of before. */
__attribute__((format(printf, 3, 4))) void
config_complain(config_errors *e, const config_place *place, const char *format, ...);

/* As config_complain(), but the configuration can be used all the same. */
__attribute__((format(printf, 3, 4))) void config_warn(config_errors *e, const config_place *place,
                                                       const char *format, ...);

/* Whether a key says, or nearly says, that its value is a secret. */
bool config_is_secret(const config_node *key);

/* Hides the passwords of a tree. */
void config_hide_secrets(config_errors *e, const config_node *root);

/* Hides the user and the password of every URL; root may be NULL. */
void config_hide_urls(config_errors *e, const config_node *root);

/* Hides what may be a password in a text of which there is no tree: too much rather than too
 * little. */
void config_hide_words(config_errors *e);

/* Tells the first CONFIG_ERRORS_MAX in the order of the file, and how many more there are. */
void config_errors_tell(config_errors *e, const config_sink *sink);

/* An ASCII letter in lower case; any other byte as it is. */
static inline char config_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* How many letters must be added, dropped, changed or swapped with their neighbour. Threads: pure.
 *  a, b  of any length; if one has more than 40 bytes, SIZE_MAX. */
size_t config_distance(const char *a, const char *b);

#endif
