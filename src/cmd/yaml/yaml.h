/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_YAML_H
#define WEIR_CMD_YAML_H
/* A YAML document as a tree in which every node knows its position in the file, and the errors that
 * are found at those positions. Only plain YAML is accepted: one document of maps, lists and
 * scalars. Anchors, aliases, merge keys, tags and duplicate keys are errors. */

#include "port/arena.h"

#include <stdio.h>

enum {
    CONFIG_DEPTH_MAX = 32,      /* levels of maps and lists */
    CONFIG_NODES_MAX = 2000000, /* keys and values of a file */
    CONFIG_ERRORS_MAX = 50,     /* reported for one file */
};

typedef enum config_kind { CONFIG_SCALAR, CONFIG_MAP, CONFIG_LIST } config_kind;

typedef enum config_style { /* how a scalar was written */
                            CONFIG_PLAIN,
                            CONFIG_SINGLE_QUOTED,
                            CONFIG_DOUBLE_QUOTED,
                            CONFIG_BLOCK /* | or > */
} config_style;

/* A map's children are its keys, each with its value. A list's children are its entries. */
typedef struct config_node {
    config_kind kind;
    config_style style;
    bool absent;       /* a key without a value: an empty scalar at the position of its key */
    bool bad;          /* an error was reported for it; further errors are suppressed */
    const char *text;  /* terminated, without NUL in it; "" for maps and lists */
    size_t len;        /* of text */
    size_t begin, end; /* byte offsets in the file */
    size_t line;       /* of a key, from 1 */
    size_t children;
    struct config_node *first, *next, *value;
    struct config_errors *file; /* that it was read from */
} config_node;

/* The path to a node: its parent, and its key or its index there. The root has no parent. */
typedef struct config_place {
    const struct config_place *up;
    const config_node *key;  /* NULL for an entry of a list */
    size_t index;            /* of that entry, from 0 */
    const config_node *node; /* the value */
} config_place;

/* A key, which is the child of a map; NULL if `map` has no such key or is no map. */
config_node *config_key_of(const config_node *map, const char *name);

/* Its value; NULL if `map` has no such key or is no map. */
const config_node *config_get(const config_node *map, const char *key);

/* The place of a key below `up`. Its node is NULL if there is no such key. */
config_place config_below(const config_place *up, const char *key);

/* Iterates over the entries of a list, or over a single value as if it were a list of one. Start
 * with an `entry` that is all zero. Returns false after the last entry. */
bool config_next_entry(const config_place *place, config_place *entry);

/* Reports each key of a map that the map has before, and marks it as bad. */
void config_refuse_duplicates(struct config_errors *e, const config_place *map);

/* Whether a value was left empty, such as a section whose lines are all comments. */
bool config_is_empty(const config_node *node);

/* ---- problems -------------------------------------------------------------------------------- */

/* An error or a warning. The strings are valid until the callback returns. They may contain any
 * bytes of the file, but no password. */
typedef struct config_problem {
    const char *file;
    size_t line, column; /* from 1, in characters; 0: about the file as a whole */
    const char *path;    /* "policies.api.limit"; "": about no key */
    const char *text;    /* what was found, and what was expected */
    const char *source;  /* the line of the file, source_len bytes; NULL: it is not shown */
    size_t source_len;
    size_t source_at; /* the position in it, 0..source_len */
    bool warning;     /* the configuration can be used in spite of it */
} config_problem;

typedef struct config_sink {
    void (*report)(void *ctx, const config_problem *problem);
    void *ctx;
} config_sink;

/* Prints "FILE:LINE:COL: error: PATH: TEXT" (or "warning"). Then prints the line, if it is shown,
 * and a caret below the position. */
void config_problem_print(FILE *out, const config_problem *problem);

/* Returns a sink that prints to `out`. */
config_sink config_print_to(FILE *out);

/* ---- errors ---------------------------------------------------------------------------------- */

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
    weir_arena *arena;
    const char *file;
    const char *text; /* NULL: there is no file, only a name for messages */
    size_t len;
    bool hidden;     /* no line and no path is shown: a link could lead to a file with secrets */
    size_t number;   /* of the file, in the chain */
    size_t found;    /* errors and warnings */
    size_t warnings; /* of these */
    size_t kept;     /* entries of list: the first in the file */
    config_found_error list[CONFIG_ERRORS_MAX]; /* sorted by position */
    config_redaction *redactions;
    struct config_errors *next; /* of the next file; NULL: this is the last one */
} config_errors;

/* Creates the errors of a file. With `first`, appends them to the chain that `first` begins. A byte
 * order mark is left out.
 *  text  NULL: there is no file. Kept, like `name`.
 * Returns NULL if memory is exhausted. */
config_errors *config_errors_of(weir_arena *arena, config_errors *first, const char *name,
                                const char *text, size_t len);

/* Adds an error at byte `at` of the file of a value.
 *  place  the key that it is about; NULL for the whole file, whose errors `e` has. */
__attribute__((format(printf, 4, 5))) void
config_error_at(config_errors *e, size_t at, const config_place *place, const char *format, ...);

/* Adds an error where another node begins, such as a key.
 *  place  the key that it is about. */
__attribute__((format(printf, 4, 5))) void config_error_on(config_errors *e,
                                                           const config_node *node,
                                                           const config_place *place,
                                                           const char *format, ...);

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

/* ---- reading --------------------------------------------------------------------------------- */

/* Parses YAML into a tree and reports what is wrong with it.
 *  text  errors->text. Other bytes than UTF-8 and control characters, except tabs and line breaks,
 *        are errors.
 * Returns the root, which is absent for an empty file. Returns NULL if the tree is incomplete: an
 * error was reported, or memory is exhausted and arena->failed is set. */
config_node *config_tree_read(weir_arena *arena, config_errors *errors, const char *text,
                              size_t len);

/* The same with anchors, aliases and merge keys. Nodes below an alias are those of its anchor. */
config_node *config_tree_read_anchored(weir_arena *arena, config_errors *errors, const char *text,
                                       size_t len);

/* Replaces ${NAME} and ${NAME:-TEXT} in the values of a tree by variables of the environment, and
 * reports those that are not set. TEXT, without '}', is for a variable that is not set or is empty.
 * NAME has capitals, digits and '_'. Single-quoted values stay as they are (expand.c). */
void config_expand(config_errors *errors, config_node *root);

/* ---- passwords (redact.c) -------------------------------------------------------------------- */

/* Whether a key is "password", or so close to it that its value may be one. */
bool config_is_password(const config_node *key);

/* Redacts all passwords, and the user and password of each URL.
 *  root  the tree; NULL if the text could not be parsed. Then anything that may be a password is
 *        redacted. */
void config_redact(config_errors *e, const config_node *root);

#endif
