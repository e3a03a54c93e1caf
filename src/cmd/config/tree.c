/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libyaml's events -> a tree. What YAML allows beyond a plain tree is refused here, where the place
 * is known. It must not know any key. */

#include "cmd/config/tree.h"

#include "cmd/config/errors.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct frame { /* a map or a list whose end has not come */
    config_node *node, *last, *key;
    config_place place;
} frame;

typedef struct builder {
    config_arena *arena;
    config_errors *errors;
    const char *text;
    size_t len;
    size_t cursor_index, cursor; /* the same place in characters and in bytes */
    config_node *root;
    frame frames[CONFIG_DEPTH_MAX];
    size_t depth, nodes, documents;
    bool stopped; /* it makes no sense to go on */
} builder;

/* ---- places ---------------------------------------------------------------------------------- */

static bool goes_on(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80; /* in UTF-8 */
}

/* A mark counts characters. Those that are asked for one after the other lie close together. */
static size_t byte_of(builder *b, const yaml_mark_t *mark)
{
    while (b->cursor_index < mark->index && b->cursor < b->len) {
        b->cursor++;
        while (b->cursor < b->len && goes_on(b->text[b->cursor]))
            b->cursor++;
        b->cursor_index++;
    }
    while (b->cursor_index > mark->index && b->cursor > 0) {
        b->cursor--;
        while (b->cursor > 0 && goes_on(b->text[b->cursor]))
            b->cursor--;
        b->cursor_index--;
    }
    return b->cursor;
}

static const config_place *here(const builder *b)
{
    return b->depth > 0 ? &b->frames[b->depth - 1].place : NULL;
}

static void stop(builder *b, const yaml_mark_t *at, const char *why)
{
    config_complain_at(b->errors, byte_of(b, at), here(b), "%s", why);
    b->stopped = true;
}

/* A value that was not written has the place of its key, or of what it is in. */
static void set_place(builder *b, config_node *n, const yaml_event_t *event)
{
    n->begin = byte_of(b, &event->start_mark);
    n->end = byte_of(b, &event->end_mark);
    n->line = event->start_mark.line + 1;
    n->absent = event->type == YAML_SCALAR_EVENT && event->data.scalar.length == 0 &&
                event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const frame *f = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    if (n->absent && f && f->key) {
        n->begin = f->key->begin;
        n->line = f->key->line;
    }
}

/* ---- building -------------------------------------------------------------------------------- */

/* Complains of what may stand before a value in YAML, and not here. The place of the node is that
 * of the first such thing. */
static void refuse_extras(builder *b, const yaml_event_t *event, config_node *n,
                          const config_place *place)
{
    static const char why_anchor[] = "an anchor (&) is not allowed here; write the value where it "
                                     "is needed, and in quotes if it begins with '&'";
    static const char why_tag[] =
        "a tag (!) is not allowed here; put a text that begins with '!' in quotes";
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
    config_complain_at(b->errors, n->begin, place, "%s", anchor ? why_anchor : why_tag);
    n->bad = true;
}

static void add_key(builder *b, frame *f, config_node *n)
{
    const config_place place = {&f->place, n, 0, n};
    if (n->kind != CONFIG_TEXT) {
        config_complain_at(b->errors, n->begin, &f->place,
                           "a map or a list as a key, expected a "
                           "text");
        b->stopped = true;
        return;
    }
    if (n->absent)
        config_complain_at(b->errors, n->begin, &f->place, "a key is missing before ':'");
    else if (n->style == CONFIG_PLAIN && strcmp(n->text, "<<") == 0)
        config_complain_at(b->errors, n->begin, &place,
                           "maps cannot be merged; write the keys where they are needed");
    n->bad = n->bad || n->absent || (n->style == CONFIG_PLAIN && strcmp(n->text, "<<") == 0);
    f->key = n;
    *(f->last ? &f->last->next : &f->node->first) = n;
    f->last = n;
    f->node->children++;
}

/* Puts a node where it belongs. Its place is written to *ret_place. */
static void add(builder *b, config_node *n, const yaml_event_t *event, config_place *ret_place)
{
    frame *f = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    *ret_place = (config_place){.node = n};
    if (!f) {
        b->root = n;
    } else if (f->node->kind == CONFIG_LIST) {
        *ret_place = (config_place){&f->place, NULL, f->node->children++, n};
        *(f->last ? &f->last->next : &f->node->first) = n;
        f->last = n;
    } else if (!f->key) {
        *ret_place = (config_place){&f->place, n, 0, n};
        add_key(b, f, n);
    } else {
        *ret_place = (config_place){&f->place, f->key, 0, n};
        n->bad = n->bad || f->key->bad;
        f->key->value = n;
        f->key = NULL;
    }
    refuse_extras(b, event, n, ret_place);
}

static config_node *new_node(builder *b, const yaml_event_t *event, config_kind kind)
{
    if (++b->nodes > CONFIG_NODES_MAX) {
        stop(b, &event->start_mark, "more than 2000000 keys and values, expected fewer");
        return NULL;
    }
    config_node *n = config_alloc(b->arena, sizeof *n);
    if (!n) {
        b->stopped = true;
        return NULL;
    }
    n->kind = kind;
    n->text = "";
    set_place(b, n, event);
    return n;
}

static config_style style_of(yaml_scalar_style_t style)
{
    switch (style) {
    case YAML_SINGLE_QUOTED_SCALAR_STYLE:
        return CONFIG_SINGLE_QUOTED;
    case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
        return CONFIG_DOUBLE_QUOTED;
    case YAML_LITERAL_SCALAR_STYLE:
    case YAML_FOLDED_SCALAR_STYLE:
        return CONFIG_BLOCK;
    default:
        return CONFIG_PLAIN;
    }
}

static void add_text(builder *b, const yaml_event_t *event)
{
    config_node *n = new_node(b, event, CONFIG_TEXT);
    const char *text = (const char *)event->data.scalar.value;
    char *copy = n ? config_copy(b->arena, text, event->data.scalar.length) : NULL;
    if (!copy) {
        b->stopped = true;
        return;
    }
    n->style = style_of(event->data.scalar.style);
    n->text = copy;
    n->len = strlen(copy);
    config_place place;
    add(b, n, event, &place);
    if (n->len < event->data.scalar.length) {
        config_complain(b->errors, &place, "a NUL character (\\0), which no value may have");
        n->bad = true;
    }
}

static void begin_group(builder *b, const yaml_event_t *event, config_kind kind)
{
    if (b->depth == CONFIG_DEPTH_MAX) {
        stop(b, &event->start_mark, "maps and lists lie too deep in each other");
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
        const config_place place = {&f->place, keys[k], 0, keys[k]};
        config_complain(b->errors, &place, "a key that was there before, on line %zu",
                        keys[first]->line);
        keys[k]->bad = true;
        if (keys[k]->value)
            keys[k]->value->bad = true;
    }
    free(keys);
}

static void end_group(builder *b, const yaml_event_t *event)
{
    const frame *f = &b->frames[b->depth - 1];
    size_t end = byte_of(b, &event->end_mark);
    if (end > f->node->end)
        f->node->end = end;
    if (f->node->kind == CONFIG_MAP)
        refuse_duplicates(b, f);
    b->depth--;
}

static void add_alias(builder *b, const yaml_event_t *event)
{
    config_node *n = new_node(b, event, CONFIG_TEXT);
    if (!n)
        return;
    config_place place;
    n->bad = true;
    add(b, n, event, &place);
    config_complain_at(b->errors, n->begin, place.key == n ? place.up : &place,
                       "an alias (*) is not allowed here; write the value itself, and in quotes if "
                       "it begins with '*'");
}

static void take(builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1)
            stop(b, &event->start_mark, "a second document, expected one in a file");
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
        add_text(b, event);
        break;
    case YAML_ALIAS_EVENT:
        add_alias(b, event);
        break;
    default:
        break;
    }
}

/* ---- what is not even YAML ------------------------------------------------------------------- */

/* What the library says, and what people most often meant. */
static const struct {
    const char *says, *hint;
} hints[] = {
    {"mapping values are not allowed", "a text with ': ' in it needs quotes, and keys of one map "
                                       "the same indentation"},
    {"cannot start any token", "put the text in quotes, and indent with spaces"},
    {"did not find expected ',' or", "a bracket is not closed, or an address like \"[::]:6380\" "
                                     "has no quotes"},
    {"did not find expected node content", "put an address like \"[::]:6380\" in quotes"},
    {"did not find expected key", "keys of one map need the same indentation, and an address like "
                                  "\"[::]:6380\" needs quotes"},
    {"could not find expected ':'", "a key needs ': ' behind it"},
    {"unexpected end of stream", "a quote is not closed"},
    {"unknown escape", "write \\\\ for a backslash, or use single quotes"},
};

static void complain_of_syntax(builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        b->arena->failed = true;
        return;
    }
    const char *problem = parser->problem ? parser->problem : "it cannot be read", *hint = NULL;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0] && !hint; i++) {
        if (strstr(problem, hints[i].says))
            hint = hints[i].hint;
    }
    char since[64] = "";
    if (parser->context && parser->context_mark.line < parser->problem_mark.line)
        snprintf(since, sizeof since, " from line %zu on", parser->context_mark.line + 1);
    config_complain_at(b->errors, byte_of(b, &parser->problem_mark), here(b),
                       "not YAML: %s%s%s%s%s%s", parser->context ? parser->context : "", since,
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
            complain_of_syntax(b, parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        take(b, &event);
        yaml_event_delete(&event);
    }
    return end && !b->stopped && !b->arena->failed;
}

config_node *config_tree_read(config_arena *arena, config_errors *errors, const char *text,
                              size_t len)
{
    builder *b = config_alloc(arena, sizeof *b);
    config_node *empty = config_alloc(arena, sizeof *empty);
    yaml_parser_t parser;
    if (!b || !empty)
        return NULL;
    if (!yaml_parser_initialize(&parser)) {
        arena->failed = true;
        return NULL;
    }
    *b = (builder){.arena = arena, .errors = errors, .text = text, .len = len};
    *empty = (config_node){.absent = true, .text = "", .line = 1};
    config_node *root = parse(b, &parser) ? (b->root ? b->root : empty) : NULL;
    yaml_parser_delete(&parser);
    return root;
}
