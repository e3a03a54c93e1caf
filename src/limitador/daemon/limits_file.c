/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* From the YAML of a limits file to limits of limitador. As limitador does, it ignores keys that it
 * does not know, but with a warning. */

#include "cmd/kit/input.h"
#include "limitador/daemon/guest.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    weir_arena *arena;
    config_errors *errors;
    config_place root;
    weir_limitador_limit *limits;
    size_t len;
} reader;

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_null(const config_node *n)
{
    return config_is_empty(n) || (n->kind == CONFIG_SCALAR && n->style == CONFIG_PLAIN &&
                                  (strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0));
}

/* A string, or NULL. */
static const char *read_text(reader *r, const config_place *place)
{
    const config_node *n = place->node;
    if (is_null(n))
        return NULL;
    if (n->kind != CONFIG_SCALAR)
        config_error(r->errors, place, "expected a string, found a %s",
                     n->kind == CONFIG_MAP ? "map" : "list");
    return n->text;
}

/*  greatest  the maximum that the error names; weir_limitador_config_build() checks that of
 *            `seconds` */
static uint64_t read_number(reader *r, const config_place *place, uint64_t greatest)
{
    const config_node *n = place->node;
    uint64_t v = 0;
    bool plain = n->kind == CONFIG_SCALAR && n->style == CONFIG_PLAIN;
    if (!plain || !weir_decimal_read(n->text, n->len, UINT64_MAX, &v))
        config_error(r->errors, place,
                     "expected a whole number from 0 to %" PRIu64 ", found %s%s%s", greatest,
                     n->kind != CONFIG_SCALAR ? "a map or a list" : "\"",
                     n->kind != CONFIG_SCALAR ? "" : n->text, n->kind != CONFIG_SCALAR ? "" : "\"");
    return v;
}

/* Reads a list of expressions.
 *  ret_len  0 before; written unless the list is null or invalid. */
static const char *const *read_list(reader *r, const config_place *place, size_t *ret_len)
{
    const config_node *n = place->node;
    if (is_null(n))
        return NULL;
    if (n->kind != CONFIG_LIST) {
        config_error(r->errors, place,
                     "expected a list of CEL expressions, such as [\"descriptors[0].user\"]");
        return NULL;
    }
    const char **texts = weir_arena_alloc(r->arena, n->children + 1, sizeof *texts);
    size_t len = 0;
    for (config_place entry = {0}; texts && config_next_entry(place, &entry);) {
        if (entry.node->kind != CONFIG_SCALAR)
            config_error(r->errors, &entry, "expected a CEL expression");
        else
            texts[len++] = entry.node->text;
    }
    *ret_len = len;
    return texts;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Reads the value of one key. Returns false if there is no such key. */
static bool read_key(reader *r, const config_place *place, weir_limitador_limit *ret)
{
    const char *key = place->key->text;
    if (strcmp(key, "id") == 0)
        ret->id = read_text(r, place);
    else if (strcmp(key, "namespace") == 0)
        ret->name_space = read_text(r, place);
    else if (strcmp(key, "name") == 0)
        ret->name = read_text(r, place);
    else if (strcmp(key, "max_value") == 0)
        ret->max_value = read_number(r, place, UINT64_MAX);
    else if (strcmp(key, "seconds") == 0)
        ret->seconds = read_number(r, place, WEIR_LIMITADOR_SECONDS_MAX);
    else if (strcmp(key, "conditions") == 0)
        ret->conditions = read_list(r, place, &ret->conditions_len);
    else if (strcmp(key, "variables") == 0)
        ret->variables = read_list(r, place, &ret->variables_len);
    else
        return false;
    return true;
}

static void read_limit(reader *r, const config_place *place, weir_limitador_limit *ret)
{
    const config_node *n = place->node;
    if (n->kind != CONFIG_MAP) {
        config_error(r->errors, place,
                     "expected a limit: a map with namespace, max_value, seconds");
        return;
    }
    for (const config_node *k = n->first; k; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (!k->bad && !read_key(r, &below, ret))
            config_warn(r->errors, &below,
                        "the key is ignored, expected id, namespace, max_value, seconds, name, "
                        "conditions or variables");
    }
    if (!ret->name_space)
        config_error(r->errors, place, "missing key namespace");
    if (!config_get(n, "seconds"))
        config_error_on(r->errors, n, place, "missing key seconds");
    if (!config_get(n, "max_value"))
        config_warn(r->errors, place,
                    "max_value is missing, so it is 0, and every request is denied");
}

static void read_limits(reader *r)
{
    const config_place *root = &r->root;
    if (is_null(root->node) || (root->node->kind == CONFIG_LIST && root->node->children == 0)) {
        config_warn(r->errors, root, "there is no limit: every request is allowed");
        return;
    }
    size_t n = root->node->children;
    if (root->node->kind != CONFIG_LIST) {
        config_error(r->errors, root, "expected a list of limits: \"- namespace: ...\"");
    } else if (n > WEIR_LIMITADOR_LIMITS_MAX) {
        config_error(r->errors, root, "%zu limits, expected at most %d", n,
                     WEIR_LIMITADOR_LIMITS_MAX);
    } else {
        r->limits = weir_arena_alloc(r->arena, n + 1, sizeof *r->limits);
        for (config_place entry = {0}; r->limits && config_next_entry(root, &entry);)
            read_limit(r, &entry, &r->limits[r->len++]);
    }
}

/* ---- problems -------------------------------------------------------------------------------- */

/* The place of entry `index` of a list. */
static config_place entry_of(const config_place *list, size_t index)
{
    config_place entry = {0};
    for (size_t i = 0; i <= index && config_next_entry(list, &entry); i++)
        continue;
    return entry;
}

static void put_problem(reader *r, const config_place *place, const weir_limitador_problem *p)
{
    size_t at;
    if (p->warning)
        config_warn(r->errors, place, "%s", p->text);
    else if (p->column > 0 && config_column(r->errors, place->node, p->column, &at))
        config_error_at(r->errors, at, place, "%s", p->text);
    else if (p->column > 0)
        config_error(r->errors, place, "column %" PRIu32 " of the expression: %s", p->column,
                     p->text);
    else
        config_error(r->errors, place, "%s", p->text);
}

/* Reports a problem that weir_limitador_config_build() has found. */
static void report(void *ctx, const weir_limitador_problem *p)
{
    static const char *const keys[] = {[WEIR_LIMITADOR_CONDITION] = "conditions",
                                       [WEIR_LIMITADOR_VARIABLE] = "variables",
                                       [WEIR_LIMITADOR_SECONDS] = "seconds"};
    reader *r = ctx;
    const config_place limit = entry_of(&r->root, p->limit);
    if (p->part == WEIR_LIMITADOR_LIMIT) {
        put_problem(r, &limit, p);
        return;
    }
    const config_place key = config_below(&limit, keys[p->part]);
    if (p->part == WEIR_LIMITADOR_SECONDS) {
        put_problem(r, &key, p);
        return;
    }
    const config_place entry = entry_of(&key, p->index);
    put_problem(r, &entry, p);
}

/* ---- files ----------------------------------------------------------------------------------- */

void limits_file_parse(config_reader *r, limitador_settings *to, const char *name,
                       const char *bytes, size_t len)
{
    char *copy = weir_arena_copy(r->arena, bytes, len);
    config_errors *e = copy ? config_errors_of(r->arena, r->errors, name, copy, len) : NULL;
    reader file = {.arena = r->arena, .errors = e};
    if (!e)
        return;
    file.root.node = config_tree_read_anchored(r->arena, e, e->text, e->len);
    e->hidden = !file.root.node || file.root.node->kind != CONFIG_LIST;
    if (file.root.node)
        read_limits(&file);
    if (!file.root.node || r->arena->failed || e->found > e->warnings)
        return;
    weir_status st = weir_limitador_config_build(&to->limits, &to->options, file.limits, file.len,
                                                 report, &file);
    r->arena->failed |= st == WEIR_E_NOMEM;
}

bool limits_file_read(config_reader *r, const config_place *place, limitador_settings *to)
{
    const char *path = to->file;
    char *bytes;
    size_t len;
    const char *why = input_read(path, CONFIG_FILE_MAX, &bytes, &len);
    if (why) {
        config_error(r->errors, place, "cannot read %.200s: %s", path, why);
        return false;
    }
    limits_file_parse(r, to, path, bytes, len);
    free(bytes);
    return true;
}
