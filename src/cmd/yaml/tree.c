/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Builds the tree from libyaml's events, and refuses the YAML features that weir does not support.
 * libyaml's own tree (yaml_document_t) has no anchors, resolves aliases and accepts duplicate keys,
 * so that they could not be reported. This file must not know any key. */

#include "cmd/yaml/yaml.h"

#include "cmd/yaml/yaml.h"
#include "port/assert.h"
#include "port/text.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct frame { /* a map or a list that is still open */
    config_node *node, *last, *key;
    config_place place;
} frame;

typedef struct anchor {
    struct anchor *next;
    const char *name;
    const config_node *node;
} anchor;

typedef struct builder {
    weir_arena *arena;
    config_errors *errors;
    bool anchored; /* anchors, aliases and merge keys are allowed */
    anchor *anchors;
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

static void add_anchor(builder *b, const yaml_char_t *name, const config_node *n)
{
    const char *text = (const char *)name;
    anchor *a = weir_arena_alloc(b->arena, 1, sizeof *a);
    char *copy = weir_arena_copy(b->arena, text, strlen(text));
    if (!a || !copy)
        return;
    *a = (anchor){b->anchors, copy, n};
    b->anchors = a;
}

/* Stores or refuses an anchor, and refuses a tag, before a value. The node's position is that of
 * the first of them. */
static void add_extras(builder *b, const yaml_event_t *event, config_node *n,
                       const config_place *place)
{
    const yaml_char_t *name = NULL;
    bool tag = false;
    if (event->type == YAML_SCALAR_EVENT) {
        name = event->data.scalar.anchor;
        tag = event->data.scalar.tag != NULL;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        name = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag != NULL;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        name = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag != NULL;
    }
    if (name && b->anchored)
        add_anchor(b, name, n);
    bool refused = name && !b->anchored;
    if (!refused && !tag)
        return;
    config_error_on(b->errors, n, place, "%s",
                    refused ? "anchors (&) are not supported; repeat the value, or quote it if it "
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

static bool is_merge(const config_node *key)
{
    return key->style == CONFIG_PLAIN && strcmp(key->text, "<<") == 0;
}

static void add_key(builder *b, frame *f, config_node *n)
{
    const config_place place = {.up = &f->place, .key = n, .node = n};
    bool merge = !b->anchored && is_merge(n);
    if (n->kind != CONFIG_SCALAR) {
        config_error_on(b->errors, n, &f->place, "found a map or a list as a key, expected a name");
        b->stopped = true;
    } else if (n->absent) {
        config_error_on(b->errors, n, &f->place, "expected a key before ':'");
    } else if (merge) {
        config_error_on(b->errors, n, &place,
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
    add_extras(b, event, n, ret_place);
}

static config_node *new_node(builder *b, const yaml_event_t *event, config_kind kind)
{
    if (++b->nodes > CONFIG_NODES_MAX) {
        stop(b, &event->start_mark, "more than 2000000 keys and values");
        return NULL;
    }
    config_node *n = weir_arena_alloc(b->arena, 1, sizeof *n);
    if (!n)
        return NULL;
    n->kind = kind;
    n->text = "";
    n->file = b->errors;
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
    char *copy = n ? weir_arena_copy(b->arena, text, event->data.scalar.length) : NULL;
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
    size_t file = (*x)->file->number, other = (*y)->file->number;
    if (order != 0 || file != other)
        return order != 0 ? order : file < other ? -1 : 1;
    return (*x)->begin < (*y)->begin ? -1 : (*x)->begin > (*y)->begin;
}

/* Sorts the keys of a map, so that duplicates are adjacent. */
void config_refuse_duplicates(config_errors *e, const config_place *map)
{
    size_t n = map->node->children, i = 0;
    config_node **keys = n > 1 ? calloc(n, sizeof *keys) : NULL;
    if (!keys) {
        e->arena->failed = e->arena->failed || n > 1;
        return;
    }
    for (config_node *key = map->node->first; key; key = key->next)
        keys[i++] = key;
    qsort(keys, n, sizeof(config_node *), by_text);
    for (size_t first = 0, k = 1; k < n; k++) {
        if (strcmp(keys[k]->text, keys[first]->text) != 0) {
            first = k;
            continue;
        }
        const config_place place = {.up = map, .key = keys[k], .node = keys[k]};
        bool other = keys[k]->file != keys[first]->file;
        config_error(e, &place, "duplicate key, first set on line %zu%s%.200s", keys[first]->line,
                     other ? " of " : "", other ? keys[first]->file->file : "");
        keys[k]->bad = true;
    }
    free(keys);
}

/* ---- merge keys ------------------------------------------------------------------------------ */

/* Appends the keys of a map that `merged` does not have yet. A key of `into` itself wins, and must
 * be behind `<<`: readers of YAML disagree about the other order. */
static void merge_map(builder *b, const frame *f, const config_node *merge, const config_node *map,
                      config_node *merged)
{
    config_node *last = merged->first;
    while (last && last->next)
        last = last->next;
    for (const config_node *key = map->first; key; key = key->next) {
        const config_node *own = config_key_of(f->node, key->text);
        if (own && own->begin < merge->begin)
            config_error_on(b->errors, own, &f->place,
                            "key '%.40s' is before << and in the merged map; write << first",
                            own->text);
        config_node *copy = own || config_key_of(merged, key->text)
                                ? NULL
                                : weir_arena_alloc(b->arena, 1, sizeof *copy);
        if (!copy)
            continue;
        *copy = *key;
        copy->next = NULL;
        *(last ? &last->next : &merged->first) = copy;
        last = copy;
        merged->children++;
        b->nodes++;
    }
}

static void read_merge(builder *b, const frame *f, const config_node *merge, config_node *merged)
{
    const config_place place = {.up = &f->place, .key = merge, .node = merge->value};
    const config_node *value = merge->value;
    bool is_list = value->kind == CONFIG_LIST;
    for (const config_node *map = is_list ? value->first : value; map;
         map = is_list ? map->next : NULL) {
        if (map->kind != CONFIG_MAP && !map->bad)
            config_error(b->errors, &place, "expected a map to merge, such as *NAME");
        merge_map(b, f, merge, map, merged);
    }
}

/* Replaces the key `<<` of a map by the keys of the maps that it names. */
static void apply_merge(builder *b, const frame *f)
{
    config_node merged = {.kind = CONFIG_MAP};
    config_node **link = &f->node->first;
    while (*link && !is_merge(*link))
        link = &(*link)->next;
    config_node *merge = *link;
    if (!merge || merge->bad)
        return;
    read_merge(b, f, merge, &merged);
    *link = merge->next;
    while (*link)
        link = &(*link)->next;
    *link = merged.first;
    f->node->children += merged.children - 1;
}

static void end_group(builder *b, const yaml_event_t *event)
{
    const frame *f = top(b);
    size_t end = byte_of(b, &event->end_mark);
    if (end > f->node->end)
        f->node->end = end;
    if (f->node->kind == CONFIG_MAP)
        config_refuse_duplicates(b->errors, &f->place);
    if (f->node->kind == CONFIG_MAP && b->anchored)
        apply_merge(b, f);
    b->depth--;
}

/* ---- aliases --------------------------------------------------------------------------------- */

/* The size of a subtree in which shared parts count each time. */
typedef struct extent {
    size_t nodes, levels;
} extent;

static extent measure(const config_node *n)
{
    extent sum = {.nodes = 1};
    for (const config_node *child = n->first; child; child = child->next) {
        extent below = measure(child->value ? child->value : child);
        sum.nodes += below.nodes + (child->value != NULL);
        sum.levels = below.levels > sum.levels ? below.levels : sum.levels;
    }
    sum.levels += n->kind != CONFIG_SCALAR;
    return sum;
}

static bool is_open(const builder *b, const config_node *n)
{
    for (size_t i = 0; i < b->depth; i++) {
        if (b->frames[i].node == n)
            return true;
    }
    return false;
}

/* Makes `n` the same as the node of an anchor. The children are shared, so that an alias costs no
 * memory; the limits on nodes and levels apply to the tree as its readers see it. Returns NULL, or
 * what is wrong. */
static const char *copy_anchor(builder *b, const char *name, config_node *n)
{
    const anchor *a = b->anchors;
    while (a && strcmp(a->name, name) != 0)
        a = a->next;
    if (!a)
        return "expected an anchor (&) with this name before the alias, found none; quote the "
               "value if it begins with '*'";
    if (is_open(b, a->node))
        return "the alias is inside the value of its own anchor, expected the alias of an earlier "
               "value";
    extent e = measure(a->node);
    b->nodes += e.nodes;
    if (b->nodes > CONFIG_NODES_MAX)
        return "more than 2000000 keys and values, with those that aliases repeat";
    if (b->depth + e.levels > CONFIG_DEPTH_MAX)
        return "maps and lists are nested more than 32 levels deep";
    n->kind = a->node->kind;
    n->style = a->node->style;
    n->text = a->node->text;
    n->len = a->node->len;
    n->bad = a->node->bad;
    n->first = a->node->first;
    n->children = a->node->children;
    return NULL;
}

static void add_alias(builder *b, const yaml_event_t *event)
{
    config_node *n = new_node(b, event, CONFIG_SCALAR);
    if (!n)
        return;
    const char *why = "aliases (*) are not supported; repeat the value, or quote it if it begins "
                      "with '*'";
    if (b->anchored)
        why = copy_anchor(b, (const char *)event->data.alias.anchor, n);
    config_place place;
    n->bad |= why != NULL;
    add(b, n, event, &place);
    if (why)
        config_error_on(b->errors, n, place.key == n ? place.up : &place, "%s", why);
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
    {"did not find expected ',' or",
     "close the bracket, and quote a value like \"${NAME}\" or \"[::]:6380\""},
    {"did not find expected node content", "quote an address like \"[::]:6380\""},
    {"did not find expected key",
     "indent all keys of a map alike, and quote an address like \"[::]:6380\""},
    {"could not find expected ':'", "write ': ' after a key"},
    {"unexpected end of stream", "close the quotes"},
    {"expected alphabetic or numeric character", "quote the value if it begins with '*' or '&'"},
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

static config_node *read(weir_arena *arena, config_errors *errors, const char *text, size_t len,
                         bool anchored)
{
    builder *b = weir_arena_alloc(arena, 1, sizeof *b);
    config_node *empty = weir_arena_alloc(arena, 1, sizeof *empty);
    yaml_parser_t parser;
    if (!b || !empty || !check_utf8(errors))
        return NULL;
    if (!yaml_parser_initialize(&parser)) {
        arena->failed = true;
        return NULL;
    }
    *b =
        (builder){.arena = arena, .errors = errors, .anchored = anchored, .text = text, .len = len};
    *empty = (config_node){.absent = true, .text = ""};
    config_node *root = parse(b, &parser) ? (b->root ? b->root : empty) : NULL;
    yaml_parser_delete(&parser);
    return root;
}

config_node *config_tree_read(weir_arena *arena, config_errors *errors, const char *text,
                              size_t len)
{
    return read(arena, errors, text, len, false);
}

config_node *config_tree_read_anchored(weir_arena *arena, config_errors *errors, const char *text,
                                       size_t len)
{
    return read(arena, errors, text, len, true);
}

/* ---- navigation ------------------------------------------------------------------------------ */

config_node *config_key_of(const config_node *map, const char *name)
{
    config_node *key = map->kind == CONFIG_MAP ? map->first : NULL;
    while (key && strcmp(key->text, name) != 0)
        key = key->next;
    return key;
}

config_place config_below(const config_place *up, const char *name)
{
    const config_node *key = up->node ? config_key_of(up->node, name) : NULL;
    return (config_place){.up = up, .key = key, .node = key ? key->value : NULL};
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
