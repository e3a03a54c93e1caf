/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libfyaml's events -> a tree. Of the library nothing but its event parser is used: what it would
 * allow beyond a plain tree is refused here, where the place is known. It must not know any key. */

#include "cmd/config_tree.h"

#include "cmd/config_errors.h"

#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

typedef struct frame { /* a map or a list whose end has not come */
    config_node *node, *last, *key;
    config_place place;
} frame;

typedef struct builder {
    config_arena *arena;
    config_errors *errors;
    const char *text;
    size_t len;
    config_node *root;
    frame frames[CONFIG_DEPTH_MAX];
    size_t depth, nodes, documents;
    bool stopped; /* it makes no sense to go on */
} builder;

static size_t bounded(const builder *b, size_t at)
{
    return at < b->len ? at : b->len;
}

static void stop(builder *b, const struct fy_mark *at, const char *why)
{
    const config_place *place = b->depth > 0 ? &b->frames[b->depth - 1].place : NULL;
    config_complain_at(b->errors, at ? bounded(b, at->input_pos) : b->len, place, "%s", why);
    b->stopped = true;
}

/* ---- building -------------------------------------------------------------------------------- */

/* A node with no place for want of a value has that of its key, or of what it is in. */
static void set_place(const builder *b, config_node *n, struct fy_event *event)
{
    const struct fy_mark *begin = fy_event_start_mark(event), *end = fy_event_end_mark(event);
    const frame *f = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
    const config_node *near = !f ? NULL : f->key ? f->key : f->last ? f->last : f->node;
    if (begin) {
        n->begin = bounded(b, begin->input_pos);
        n->line = (size_t)begin->line + 1;
        n->end = end && end->input_pos > begin->input_pos ? bounded(b, end->input_pos) : n->begin;
    } else if (near) {
        n->absent = true;
        n->begin = near->begin;
        n->end = near->end;
        n->line = near->line;
    }
}

/* Complains of what may stand before a value in YAML, and not here. */
static void refuse_extras(builder *b, struct fy_event *event, config_node *n,
                          const config_place *place)
{
    struct fy_token *anchor = fy_event_get_anchor_token(event);
    struct fy_token *tag = fy_event_get_tag_token(event);
    struct fy_token *extra = anchor ? anchor : tag;
    if (!extra)
        return;
    const struct fy_mark *at = fy_token_start_mark(extra);
    size_t where = at ? bounded(b, at->input_pos) : n->begin;
    if (anchor && where > 0)
        where--; /* its mark is behind the '&' */
    config_complain_at(b->errors, where, place,
                       anchor ? "an anchor (&) is not allowed here; write the value where it is "
                                "needed, and in quotes if it begins with '&'"
                              : "a tag (!) is not allowed here; put a text that begins with '!' in "
                                "quotes");
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
static void add(builder *b, config_node *n, struct fy_event *event, config_place *ret_place)
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

static config_node *new_node(builder *b, struct fy_event *event, config_kind kind)
{
    if (++b->nodes > CONFIG_NODES_MAX) {
        stop(b, fy_event_start_mark(event), "more than 2000000 keys and values, expected fewer");
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

static config_style style_of(struct fy_token *value)
{
    switch (value ? fy_token_scalar_style(value) : FYSS_PLAIN) {
    case FYSS_SINGLE_QUOTED:
        return CONFIG_SINGLE_QUOTED;
    case FYSS_DOUBLE_QUOTED:
        return CONFIG_DOUBLE_QUOTED;
    case FYSS_LITERAL:
    case FYSS_FOLDED:
        return CONFIG_BLOCK;
    default:
        return CONFIG_PLAIN;
    }
}

/* The library's mark is behind an opening quote, and in front of the blanks of a block. */
static void move_to_start(const builder *b, config_node *n)
{
    bool quoted = n->style == CONFIG_SINGLE_QUOTED || n->style == CONFIG_DOUBLE_QUOTED;
    if (n->absent)
        return;
    if (quoted && n->begin > 0)
        n->begin--;
    while (n->style == CONFIG_BLOCK && n->begin < n->end && b->text[n->begin] == ' ')
        n->begin++;
}

static void add_text(builder *b, struct fy_event *event)
{
    config_node *n = new_node(b, event, CONFIG_TEXT);
    if (!n)
        return;
    struct fy_token *value = event->scalar.value;
    size_t len = 0;
    const char *text = value ? fy_token_get_text(value, &len) : "";
    char *copy = text ? config_copy(b->arena, text, len) : NULL;
    if (!copy) {
        b->arena->failed = true;
        b->stopped = true;
        return;
    }
    n->style = style_of(value);
    n->text = copy;
    n->len = len;
    move_to_start(b, n);
    config_place place;
    add(b, n, event, &place);
    if (memchr(copy, '\0', len)) {
        config_complain(b->errors, &place, "a NUL character (\\0), which no value may have");
        n->len = strlen(copy);
        n->bad = true;
    }
}

static void begin_group(builder *b, struct fy_event *event, config_kind kind)
{
    if (b->depth == CONFIG_DEPTH_MAX) {
        stop(b, fy_event_start_mark(event), "maps and lists lie too deep in each other");
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

static void end_group(builder *b, struct fy_event *event)
{
    const struct fy_mark *end = fy_event_end_mark(event);
    const frame *f = &b->frames[b->depth - 1];
    if (end && bounded(b, end->input_pos) > f->node->end)
        f->node->end = bounded(b, end->input_pos);
    if (f->node->kind == CONFIG_MAP)
        refuse_duplicates(b, f);
    b->depth--;
}

static void add_alias(builder *b, struct fy_event *event)
{
    config_node *n = new_node(b, event, CONFIG_TEXT);
    if (!n)
        return;
    config_place place;
    n->begin -= n->begin > 0; /* the mark is behind the '*' */
    add(b, n, event, &place);
    config_complain(b->errors, &place,
                    "an alias (*) is not allowed here; write the value itself, and in quotes if it "
                    "begins with '*'");
    n->bad = true;
    if (b->depth > 0 && b->frames[b->depth - 1].key == n)
        b->stopped = true; /* as a key it would be an empty one */
}

static void take(builder *b, struct fy_event *event)
{
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (++b->documents > 1)
            stop(b, fy_event_start_mark(event), "a second document, expected one in a file");
        break;
    case FYET_MAPPING_START:
        begin_group(b, event, CONFIG_MAP);
        break;
    case FYET_SEQUENCE_START:
        begin_group(b, event, CONFIG_LIST);
        break;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        end_group(b, event);
        break;
    case FYET_SCALAR:
        add_text(b, event);
        break;
    case FYET_ALIAS:
        add_alias(b, event);
        break;
    default:
        break;
    }
}

/* ---- what is not even YAML ------------------------------------------------------------------- */

/* What the library says, and what people most often meant. */
static const struct {
    const char *begins, *hint;
} hints[] = {
    {"invalid multiline plain key", "the lines below are indented deeper than this value allows"},
    {"plain scalar cannot start", "put the text in quotes"},
    {"invalid value after mapping", "put an address like \"[::]:6380\" in quotes"},
    {"invalid nested block mapping", "a text with ': ' in it needs quotes"},
    {"missing comma in flow", "or the closing bracket is missing"},
    {"wrongly indented", "or the closing quote is missing"},
};

static void complain_of_syntax(builder *b, struct fy_diag *diag)
{
    void *at = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &at);
    if (!error || !error->msg) {
        stop(b, NULL, "this is not YAML");
        return;
    }
    const struct fy_mark *mark = error->fyt ? fy_token_start_mark(error->fyt) : NULL;
    const char *hint = NULL;
    for (size_t i = 0; i < sizeof hints / sizeof hints[0] && !hint; i++) {
        if (strncmp(error->msg, hints[i].begins, strlen(hints[i].begins)) == 0)
            hint = hints[i].hint;
    }
    const config_place *place = b->depth > 0 ? &b->frames[b->depth - 1].place : NULL;
    config_complain_at(b->errors, mark ? bounded(b, mark->input_pos) : b->len, place,
                       "not YAML: %s%s%s", error->msg, hint ? "; " : "", hint ? hint : "");
    b->stopped = true;
}

static bool parse(builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    if (fy_parser_set_string(parser, b->text, b->len) != 0) {
        b->arena->failed = true;
        return false;
    }
    while (!b->stopped && !b->arena->failed) {
        struct fy_event *event = fy_parser_parse(parser);
        if (!event) {
            if (fy_parser_get_stream_error(parser))
                complain_of_syntax(b, diag);
            break;
        }
        take(b, event);
        fy_parser_event_free(parser, event);
    }
    return !b->stopped && !b->arena->failed;
}

config_node *config_tree_read(config_arena *arena, config_errors *errors, const char *text,
                              size_t len)
{
    builder *b = config_alloc(arena, sizeof *b);
    struct fy_diag *diag = fy_diag_create(NULL);
    config_node *root = NULL;
    if (b && diag) {
        fy_diag_set_collect_errors(diag, true);
        const struct fy_parse_cfg options = {
            .flags = FYPCF_QUIET | FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2, .diag = diag};
        struct fy_parser *parser = fy_parser_create(&options);
        *b = (builder){.arena = arena, .errors = errors, .text = text, .len = len};
        if (!parser)
            arena->failed = true;
        else if (parse(b, parser, diag))
            root = b->root ? b->root : config_alloc(arena, sizeof *root);
        fy_parser_destroy(parser);
    } else {
        arena->failed = true;
    }
    fy_diag_destroy(diag);
    if (root && !b->root)
        *root = (config_node){.absent = true, .text = "", .line = 1};
    return root;
}
