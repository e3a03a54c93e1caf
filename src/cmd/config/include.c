/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The key `include`: other files, whose keys become keys of weir.yaml. Two maps of the same name
 * are joined, and so are two lists; any other key is in one file only. */

#include "cmd/config/keys.h"
#include "cmd/kit/input.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 1000 };

#define EXPECTED "a file, a pattern such as conf.d/*.yaml, or a list of them"

/* The text of a file, which errors show. */
struct config_included {
    struct config_included *next;
    char *bytes;
    size_t len;
};

void config_free_included(config_reader *r)
{
    for (struct config_included *f = r->included; f; f = f->next) {
        explicit_bzero(f->bytes, f->len);
        free(f->bytes);
    }
    r->included = NULL;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Moves the keys or entries of a node to the end of another. */
static void append_children(config_node *to, config_node *from)
{
    config_node **end = &to->first;
    while (*end)
        end = &(*end)->next;
    *end = from->first;
    to->children += from->children;
}

/* Adds a key of a file to the whole. A second value of another kind becomes a duplicate key, unless
 * one of them is empty, such as a map whose lines are all comments. */
static void join_key(config_node *root, config_node *key)
{
    config_node *own = config_key_of(root, key->text);
    bool both = own && !own->bad && !key->bad;
    if (both && config_is_empty(key->value))
        return;
    if (both && config_is_empty(own->value)) {
        key->next = own->next;
        *own = *key;
    } else if (both && own->value->kind == key->value->kind && own->value->kind != CONFIG_SCALAR) {
        append_children(own->value, key->value);
    } else {
        key->next = NULL;
        append_children(root, &(config_node){.first = key, .children = 1});
    }
}

/* The first key of a file that weir.yaml does not have; NULL if there is none. */
static const config_node *foreign_key(const config_node *file)
{
    const config_node *key = file->first;
    while (key && config_row_of(config_root(), key->text))
        key = key->next;
    return key;
}

/* Adds the keys of a file, unless it is another kind of file. */
static void join(config_reader *r, config_node *file)
{
    const config_place root = {.node = file};
    const config_node *foreign = file->kind == CONFIG_MAP ? foreign_key(file) : file;
    file->file->hidden = foreign != NULL;
    if (foreign) {
        config_error_on(r->errors, foreign, &root, "%s",
                        foreign == file ? "expected a map with keys of weir.yaml"
                                        : "unknown key, expected only keys of weir.yaml, such as "
                                          "policies; no line of this file is shown");
        return;
    }
    for (config_node *key = file->first, *next; key; key = next) {
        const config_place place = {.up = &root, .key = key, .node = key};
        next = key->next;
        if (strcmp(key->text, "include") == 0)
            config_error(r->errors, &place, "an included file cannot include others");
        else
            join_key(r->root, key);
    }
}

static void refuse_duplicates(config_reader *r)
{
    const config_place root = {.node = r->root};
    config_refuse_duplicates(r->errors, &root);
    for (const config_node *key = r->root->first; key; key = key->next) {
        const config_place below = {.up = &root, .key = key, .node = key->value};
        if (!key->bad && key->value->kind == CONFIG_MAP)
            config_refuse_duplicates(r->errors, &below);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void read_file(config_reader *r, const config_place *place, const char *path)
{
    struct config_included *f = weir_arena_alloc(r->arena, 1, sizeof *f);
    char *name = weir_arena_copy(r->arena, path, strlen(path));
    const char *why = f && name ? input_read(path, CONFIG_FILE_MAX, &f->bytes, &f->len) : NULL;
    if (why)
        config_error(r->errors, place, "cannot read %.200s: %s", path, why);
    if (why || !f || !name)
        return;
    f->next = r->included;
    r->included = f;
    config_errors *e = config_errors_of(r->arena, r->errors, name, f->bytes, f->len);
    config_node *root = e ? config_read_tree(r->arena, e) : NULL;
    if (e)
        e->hidden = !root;
    if (root && !config_is_empty(root))
        join(r, root);
}

/* The directory of the configuration and a pattern below it. The directory's own '*' and '?' are no
 * patterns. NULL if memory is exhausted. */
static char *whole_pattern(config_reader *r, const char *pattern)
{
    const char *path = config_resolve_path(r, pattern);
    size_t dir = path ? strlen(path) - strlen(pattern) : 0, len = 0;
    char *whole = path ? weir_arena_alloc(r->arena, 2 * dir + strlen(pattern) + 1, 1) : NULL;
    if (!whole)
        return NULL;
    for (size_t i = 0; i < dir; i++) {
        if (strchr("*?[\\", path[i]))
            whole[len++] = '\\';
        whole[len++] = path[i];
    }
    memcpy(whole + len, pattern, strlen(pattern) + 1);
    return whole;
}

/* What to watch: a file, or the directory of a pattern. */
static const char *watched_path(config_reader *r, const char *text)
{
    const char *path = config_resolve_path(r, text), *wild = strpbrk(text, "*?["), *slash = NULL;
    if (!path || !wild)
        return path;
    size_t before = strlen(path) - strlen(text) + (size_t)(wild - text);
    for (const char *at = path; at < path + before; at++)
        slash = *at == '/' ? at : slash;
    return slash ? weir_arena_copy(r->arena, path, slash == path ? 1 : (size_t)(slash - path))
                 : ".";
}

/* Reads the files of a pattern, in the order of their names. A pattern may match none. */
static void read_pattern(config_reader *r, const config_place *place, size_t *files)
{
    glob_t found = {0};
    const char *text = place->node->text;
    const char *pattern = whole_pattern(r, text);
    bool is_pattern = strpbrk(text, "*?[") != NULL;
    int status =
        pattern ? glob(pattern, is_pattern ? 0 : GLOB_NOCHECK, NULL, &found) : GLOB_NOSPACE;
    if (status == GLOB_NOSPACE)
        r->arena->failed = true;
    else if (status == GLOB_ABORTED)
        config_error(r->errors, place, "cannot read the directory");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (++*files > FILES_MAX) {
            config_error(r->errors, place, "more than %d files", FILES_MAX);
            break;
        }
        read_file(r, place, is_pattern ? found.gl_pathv[i] : config_resolve_path(r, text));
    }
    globfree(&found);
}

/* Removes a key, if the map has it. */
static void remove_key(config_node *root, const char *name)
{
    config_node **link = &root->first;
    while (*link && strcmp((*link)->text, name) != 0)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = (*link)->next;
    root->children--;
}

void config_include(config_reader *r)
{
    const config_place place = config_below(&(config_place){.node = r->root}, "include");
    config_place entry = {0};
    size_t files = 0, patterns = 0;
    if (!place.node || place.node->bad)
        return;
    while (config_next_entry(&place, &entry)) {
        if (++patterns > CONFIG_INCLUDES_MAX) {
            config_error(r->errors, &entry, "expected at most %d files and patterns",
                         CONFIG_INCLUDES_MAX);
            break;
        }
        if (!config_want_scalar(r, &entry, EXPECTED))
            continue;
        r->config->include[patterns - 1] = watched_path(r, entry.node->text);
        if (r->files)
            read_pattern(r, &entry, &files);
    }
    if (!r->arena->failed)
        refuse_duplicates(r);
    remove_key(r->root, "include"); /* what it stands for is in the tree */
}
