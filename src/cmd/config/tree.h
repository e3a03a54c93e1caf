/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_TREE_H
#define WEIR_CMD_CONFIG_TREE_H
/* A YAML document as a tree in which every node knows its position in the file. Only plain YAML is
 * accepted: one document of maps, lists and scalars. Anchors, aliases, merge keys, tags and
 * duplicate keys are errors. */

#include "cmd/config/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CONFIG_DEPTH_MAX = 32,      /* levels of maps and lists */
    CONFIG_NODES_MAX = 2000000, /* keys and values of a file */
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
} config_node;

/* The path to a node: its parent, and its key or its index there. The root has no parent. */
typedef struct config_place {
    const struct config_place *up;
    const config_node *key;  /* NULL for an entry of a list */
    size_t index;            /* of that entry, from 0 */
    const config_node *node; /* the value */
} config_place;

struct config_errors;

/* Parses YAML into a tree and reports what is wrong with it.
 *  text  errors->text. Other bytes than UTF-8 and control characters, except tabs and line breaks,
 *        are errors.
 * Returns the root, which is absent for an empty file. Returns NULL if the tree is incomplete: an
 * error was reported, or memory is exhausted and arena->failed is set. */
config_node *config_tree_read(config_arena *arena, struct config_errors *errors, const char *text,
                              size_t len);

/* The same with anchors, aliases and merge keys. Nodes below an alias are those of its anchor. */
config_node *config_tree_read_anchored(config_arena *arena, struct config_errors *errors,
                                       const char *text, size_t len);

/* The value of a key; NULL if `map` has no such key or is no map. */
const config_node *config_get(const config_node *map, const char *key);

/* The place of a key below `up`. Its node is NULL if there is no such key. */
config_place config_below(const config_place *up, const char *key);

/* Iterates over the entries of a list, or over a single value as if it were a list of one. Start
 * with an `entry` that is all zero. Returns false after the last entry. */
bool config_next_entry(const config_place *place, config_place *entry);

/* Whether a value was left empty, such as a section whose lines are all comments. */
bool config_is_empty(const config_node *node);

#endif
