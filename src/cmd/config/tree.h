/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_TREE_H
#define WEIR_CMD_CONFIG_TREE_H
/* A YAML text as a tree in which everything knows its place. It is YAML as people write it by hand:
 * one document of maps, lists and texts. Anchors, aliases, merge keys, tags, and a key given twice
 * are refused. */

#include "cmd/config/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CONFIG_DEPTH_MAX = 16,      /* maps and lists within each other */
    CONFIG_NODES_MAX = 2000000, /* keys and values of a file */
};

typedef enum config_kind { CONFIG_TEXT, CONFIG_MAP, CONFIG_LIST } config_kind;

typedef enum config_style { /* how a text was written */
                            CONFIG_PLAIN,
                            CONFIG_SINGLE_QUOTED,
                            CONFIG_DOUBLE_QUOTED,
                            CONFIG_BLOCK /* | or > */
} config_style;

/* A map's children are its keys, each with its value; a list's children are its entries. */
typedef struct config_node {
    config_kind kind;
    config_style style;
    bool absent;       /* no value was written: an empty text, with the place of its key */
    bool bad;          /* it has been complained of: nothing more is to be said about it */
    const char *text;  /* terminated, without NUL in it; "" for maps and lists */
    size_t len;        /* of text */
    size_t begin, end; /* bytes of the file */
    size_t line;       /* from 1 */
    size_t children;
    struct config_node *first, *next, *value;
} config_node;

/* Where a node is: below what, and under which key or as which entry. The root has no `up`. */
typedef struct config_place {
    const struct config_place *up;
    const config_node *key;  /* NULL: an entry of a list */
    size_t index;            /* of that entry, from 0 */
    const config_node *node; /* the value */
} config_place;

struct config_errors;

/* Reads a text, and complains of what is wrong with it as YAML.
 *  text  UTF-8 without control characters but tabs and line ends.
 * Returns the root, an absent one for an empty file; NULL if the tree is not whole: it was
 * complained, or there was no memory, and then arena->failed is set. */
config_node *config_tree_read(config_arena *arena, struct config_errors *errors, const char *text,
                              size_t len);

#endif
