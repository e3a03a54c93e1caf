/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Builds the tree from libyaml's events, and refuses the YAML features that weir does not support.
 * libyaml's own tree (yaml_document_t) has no anchors, resolves aliases and accepts duplicate keys,
 * so that they could not be reported. This file must not know any key. */

#include "cmd/config/tree.h"

#include "cmd/config/errors.h"
#include "port/assert.h"
#include "port/text.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct frame { /* a map or a list that is still open */
    config_node *node, *last, *key;
    config_place place;
} frame;

typedef struct builder {
    config_arena *arena;
    config_errors *errors;
    const char *text;
    size_t len;
    size_t cursor_index, cursor; /* one position, counted in characters and in bytes */
    config_node *root;
    frame frames[CONFIG_DEPTH_MAX];
    size_t depth, nodes, documents;
    bool stopped; /* after an error that ends parsing */
} builder;

/* ---- positions ------------------------------------------------------------------------------- */

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80; /* of a UTF-8 sequence */
}

/* Converts a libyaml mark, which counts characters, to a byte offset. No mark is before the
 * previous one, so the search continues there. */
static size_t byte_of(builder *b, const yaml_mark_t *mark)
{
    WEIR_ASSERT(mark->index >= b->cursor_index);
    while (b->cursor_index < mark->index && b->cursor < b->len) {
        b->cursor++;
        while (b->cursor < b->len && is_continuation(b->text[b->cursor]))
            b->cursor++;
        b->cursor_index++;
    }
    return b->cursor;
}

static frame *top(builder *b)
{
    return b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
}

static const config_place *here(builder *b)
{
    return b->depth > 0 ? &top(b)->place : NULL;
}

static void stop(builder *b, const yaml_mark_t *at, const char *why)
{
    config_error_at(b->errors, byte_of(b, at), here(b), "%s", why);
    b->stopped = true;
}

/* A value that was not written gets the position of its key. */
static void set_position(builder *b, config_node *n, const yaml_event_t *event)
{
    n->begin = byte_of(b, &event->start_mark);
    n->end = byte_of(b, &event->end_mark);
    n->line = event->start_mark.line + 1;
    n->absent = event->type == YAML_SCALAR_EVENT && event->data.scalar.length == 0 &&
                event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const frame *f = top(b);
    if (n->absent && f && f->key)
        n->begin = f->key->begin;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Refuses an anchor or a tag before a value. The node's position is that of the first of them. */
static void refuse_extras(builder *b, const yaml_event_t *event, config_node *n,
                          const config_place *place)
{
    bool anchor = false, tag = false;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor != NULL;
        tag = event->data.scalar.tag != NULL;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor != NULL;
        tag = event->data.mapping_start.tag != NULL;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor != NULL;
        tag = event->data.sequence_start.tag != NULL;
    }
    if (!anchor && !tag)
        return;
    config_error_at(b->errors, n->begin, place, "%s",
                    anchor ? "anchors (&) are not supported; repeat the value, or quote it if it "
                             "begins with '&'"
                           : "tags (!) are not supported; quote the value if it begins with '!'");
    n->bad = true;
}

static void append_child(frame *f, config_node *n)
{
    *(f->last ? &f->last->next : &f->node->first) = n;
    f->last = n;
    f->node->children++;
}

static void add_key(builder *b, frame *f, config_node *n)
{
    const config_place place = {.up = &f->place, .key = n, .node = n};
    bool merge = n->style == CONFIG_PLAIN && strcmp(n->text, "<<") == 0;
    if (n->kind != CONFIG_SCALAR) {
        config_error_at(b->errors, n->begin, &f->place,
                        "found a map or a list as a key, expected a name");
        b->stopped = true;
    } else if (n->absent) {
        config_error_at(b->errors, n->begin, &f->place, "expected a key before ':'");
    } else if (merge) {
        config_error_at(b->errors, n->begin, &place,
                        "merge keys (<<) are not supported; repeat the keys instead");
    }
    n->bad = n->bad || n->absent || merge;
    f->key = n;
    append_child(f, n);
}

/* Adds a node to the innermost open map or list. Writes its place to *ret_place. */
static void add(builder *b, config_node *n, const yaml_event_t *event, config_place *ret_place)
{
    frame *f = top(b);
    *ret_place = (config_place){.node = n};
    if (!f) {
        b->root = n;
    } else if (f->node->kind == CONFIG_LIST) {
        *ret_place = (config_place){&f->place, NULL, f->node->children, n};
        append_child(f, n);
    } else if (!f->key) {
        *ret_place = (config_place){.up = &f->place, .key = n, .node = n};
        add_key(b, f, n);
    } else {
        *ret_place = (config_place){.up = &f->place, .key = f->key, .node = n};
        n->bad = n->bad || f->key->bad;
        f->key->value = n;
        f->key = NULL;
    }
    refuse_extras(b, event, n, ret_place);
}

static config_node *new_node(builder *b, const yaml_event_t *event, config_kind kind)
{
    if (++b->nodes > CONFIG_NODES_MAX) {
        stop(b, &event->start_mark, "more than 2000000 keys and values");
        return NULL;
    }
    config_node *n = config_alloc(b->arena, 1, sizeof *n);
    if (!n)
        return NULL;
    n->kind = kind;
    n->text = "";
    set_position(b, n, event);
    return n;
}

static config_style style_of(yaml_scalar_style_t style)
{
    if (style == YAML_SINGLE_QUOTED_SCALAR_STYLE)
        return CONFIG_SINGLE_QUOTED;
    if (style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
        return CONFIG_DOUBLE_QUOTED;
    bool block = style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE;
    return block ? CONFIG_BLOCK : CONFIG_PLAIN;
}

static void add_scalar(builder *b, const yaml_event_t *event)
{
    config_node *n = new_node(b, event, CONFIG_SCALAR);
    const char *text = (const char *)event->data.scalar.value;
    char *copy = n ? config_copy(b->arena, text, event->data.scalar.length) : NULL;
    if (!copy)
        return;
    n->style = style_of(event->data.scalar.style);
    n->text = copy;
    n->len = strlen(copy);
    config_place place;
    add(b, n, event, &place);
    if (n->len < event->data.scalar.length) {
        config_error(b->errors, &place, "values must not contain a NUL character (\\0)");
        n->bad = true;
    }
}

static void begin_group(builder *b, const yaml_event_t *event, config_kind kind)
{
    if (b->depth == CONFIG_DEPTH_MAX) {
        stop(b, &event->start_mark, "maps and lists are nested more than 32 levels deep");
        return;
    }
    config_node *n = new_node(b, event, kind);
    if (!n)
        return;
    config_place place;
    add(b, n, event, &place);
    b->frames[b->depth++] = (frame){.node = n, .place = place};
}

static int by_text(const void *a, const void *b)
{
    const config_node *const *x = a, *const *y = b;
    int order = strcmp((*x)->text, (*y)->text);
    if (order != 0)
        return order;
    return (*x)->begin < (*y)->begin ? -1 : (*x)->begin > (*y)->begin;
}

/* Sorts the keys of a map, so that duplicates are adjacent. */
static void refuse_duplicates(builder *b, const frame *f)
{
    size_t n = f->node->children, i = 0;
    config_node **keys = n > 1 ? calloc(n, sizeof *keys) : NULL;
    if (!keys) {
        b->arena->failed = b->arena->failed || n > 1;
        return;
    }
    for (config_node *key = f->node->first; key; key = key->next)
        keys[i++] = key;
    qsort(keys, n, sizeof(config_node *), by_text);
    for (size_t first = 0, k = 1; k < n; k++) {
        if (strcmp(keys[k]->text, keys[first]->text) != 0) {
            first = k;
            continue;
        }
        const config_place place = {.up = &f->place, .key = keys[k], .node = keys[k]};
        config_error(b->errors, &place, "duplicate key, first set on line %zu", keys[first]->line);
        keys[k]->bad = true;
    }
    free(keys);
}

static void end_group(builder *b, const yaml_event_t *event)
{
    const frame *f = top(b);
    size_t end = byte_of(b, &event->end_mark);
    if (end > f->node->end)
        f->node->end = end;
    if (f->node->kind == CONFIG_MAP)
        refuse_duplicates(b, f);
    b->depth--;
}

static void add_alias(builder *b, const yaml_event_t *event)
{
    config_node *n = new_node(b, event, CONFIG_SCALAR);
    if (!n)
        return;
    config_place place;
    n->bad = true;
    add(b, n, event, &place);
    config_error_at(b->errors, n->begin, place.key == n ? place.up : &place,
                    "aliases (*) are not supported; repeat the value, or quote it if it begins "
                    "with '*'");
}

static void add_event(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1)
            stop(b, &event->start_mark, "found a second YAML document, expected only one");
        break;
    case YAML_MAPPING_START_EVENT:
        begin_group(b, event, CONFIG_MAP);
        break;
    case YAML_SEQUENCE_START_EVENT:
        begin_group(b, event, CONFIG_LIST);
        break;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        end_group(b, event);
        break;
    case YAML_SCALAR_EVENT:
        add_scalar(b, event);
        break;
    case YAML_ALIAS_EVENT:
        add_alias(b, event);
        break;
    default:
        break;
    }
}

/* ---- characters ----------------------------------------------------------------------------- */

/* Control characters, and characters that libyaml would silently accept as a line break. */
static bool is_forbidden(const char *at, size_t len)
{
    static const char *const others[] = {"\xEF\xBB\xBF",                  /* a byte order mark */
                                         "\xE2\x80\xA8", "\xE2\x80\xA9",  /* line separators */
                                         "\xEF\xBF\xBE", "\xEF\xBF\xBF"}; /* noncharacters */
    for (size_t i = 0; i < sizeof others / sizeof others[0] && len == 3; i++) {
        if (memcmp(at, others[i], 3) == 0)
            return true;
    }
    return weir_utf8_is_control(at, len) && *at != '\t' && *at != '\n' && *at != '\r';
}

/* Reports the first byte that is not UTF-8 text; returns false if there is one. */
static bool check_utf8(config_errors *e)
{
    for (size_t at = 0, n; at < e->len; at += n) {
        bool valid;
        n = weir_utf8_len(e->text + at, e->len - at, &valid);
        if (!valid)
            config_error_at(e, at, NULL, "found byte 0x%02X, expected UTF-8 text",
                            (unsigned char)e->text[at]);
        else if (is_forbidden(e->text + at, n))
            config_error_at(e, at, NULL, "found a control character, expected UTF-8 text");
        if (!valid || is_forbidden(e->text + at, n))
            return false;
    }
    return true;
}

/* ---- syntax errors --------------------------------------------------------------------------- */

/* A part of libyaml's message, and the most likely remedy. */
static const struct {
    const char *message, *hint;
} hints[] = {
    {"mapping values are not allowed",
     "quote a value that contains ': ', and indent all keys of a map alike"},
    {"cannot start any token", "quote the value, and indent with spaces"},
    {"did not find expected ',' or", "close the bracket, and quote an address like \"[::]:6380\""},
    {"did not find expected node content", "quote an address like \"[::]:6380\""},
    {"did not find expected key",
     "indent all keys of a map alike, and quote an address like \"[::]:6380\""},
    {"could not find expected ':'", "write ': ' after a key"},
    {"unexpected end of stream", "close the quotes"},
    {"unknown escape", "write \\\\ for a backslash, or use single quotes"},
};

static void report_syntax(builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        b->arena->failed = true;
        return;
    }
    const char *problem = parser->problem ? parser->problem : "unreadable", *hint = NULL;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0] && !hint; i++) {
        if (strstr(problem, hints[i].message))
            hint = hints[i].hint;
    }
    char since[64] = "";
    if (parser->context && parser->context_mark.line < parser->problem_mark.line)
        snprintf(since, sizeof since, " that begins on line %zu", parser->context_mark.line + 1);
    config_error_at(b->errors, byte_of(b, &parser->problem_mark), here(b),
                    "invalid YAML: %s%s%s%s%s%s", parser->context ? parser->context : "", since,
                    parser->context ? ": " : "", problem, hint ? "; " : "", hint ? hint : "");
    b->stopped = true;
}

static bool parse(builder *b, yaml_parser_t *parser)
{
    bool end = false;
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)b->text, b->len);
    while (!end && !b->stopped && !b->arena->failed) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            report_syntax(b, parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        add_event(b, &event);
        yaml_event_delete(&event);
    }
    return end && !b->stopped && !b->arena->failed;
}

config_node *config_tree_read(config_arena *arena, config_errors *errors, const char *text,
                              size_t len)
{
    builder *b = config_alloc(arena, 1, sizeof *b);
    config_node *empty = config_alloc(arena, 1, sizeof *empty);
    yaml_parser_t parser;
    if (!b || !empty || !check_utf8(errors))
        return NULL;
    if (!yaml_parser_initialize(&parser)) {
        arena->failed = true;
        return NULL;
    }
    *b = (builder){.arena = arena, .errors = errors, .text = text, .len = len};
    *empty = (config_node){.absent = true, .text = ""};
    config_node *root = parse(b, &parser) ? (b->root ? b->root : empty) : NULL;
    yaml_parser_delete(&parser);
    return root;
}

/* ---- navigation ------------------------------------------------------------------------------ */

config_place config_below(const config_place *up, const char *name)
{
    bool is_map = up->node && up->node->kind == CONFIG_MAP;
    for (const config_node *key = is_map ? up->node->first : NULL; key; key = key->next) {
        if (strcmp(key->text, name) == 0)
            return (config_place){.up = up, .key = key, .node = key->value};
    }
    return (config_place){.up = up};
}

const config_node *config_get(const config_node *map, const char *key)
{
    return config_below(&(config_place){.node = map}, key).node;
}

bool config_next_entry(const config_place *place, config_place *entry)
{
    if (place->node->kind != CONFIG_LIST)
        *entry = entry->node ? (config_place){0} : *place;
    else if (!entry->node)
        *entry = (config_place){.up = place, .node = place->node->first};
    else
        *entry = (config_place){place, NULL, entry->index + 1, entry->node->next};
    return entry->node != NULL;
}

bool config_is_empty(const config_node *node)
{
    return node->kind == CONFIG_SCALAR && node->style == CONFIG_PLAIN && node->len == 0;
}
