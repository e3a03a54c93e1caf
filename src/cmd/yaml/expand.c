/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Variables of the environment in values. They are replaced in the tree, not in the text, so that
 * the value of a variable is never read as YAML. */

#include "cmd/yaml/yaml.h"
#include "port/text.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 255, EXPANDED_MAX = 16 << 20 /* bytes, of all values together */ };

typedef struct expansion {
    config_errors *errors;
    size_t bytes; /* of the values so far */
} expansion;

/* "${NAME}" or "${NAME:-other}" in a text. */
typedef struct variable {
    const char *name, *other; /* other: NULL if there is none */
    size_t name_len, other_len, len;
} variable;

/* The length of a name in capitals; key templates have small letters, as in "${client}". */
static size_t name_len(const char *at)
{
    size_t n = 0;
    while ((at[n] >= 'A' && at[n] <= 'Z') || at[n] == '_' ||
           (n > 0 && at[n] >= '0' && at[n] <= '9'))
        n++;
    return n;
}

/* Finds the next variable of a text, and leaves out "$$", which is a '$' of a key template. Returns
 * where it begins; NULL if there is none. */
static const char *find(const char *text, variable *ret)
{
    for (const char *at = strchr(text, '$'); at; at = strchr(at, '$')) {
        size_t n = at[1] == '{' ? name_len(at + 2) : 0;
        const char *behind = at + 2 + n, *end = n > 0 ? strchr(behind, '}') : NULL;
        bool other = end && strncmp(behind, ":-", 2) == 0;
        if (end && (end == behind || other)) {
            *ret = (variable){.name = at + 2, .name_len = n, .len = (size_t)(end - at) + 1};
            if (other) {
                ret->other = behind + 2;
                ret->other_len = (size_t)(end - ret->other);
            }
            return at;
        }
        at += at[1] == '$' ? 2 : 1;
    }
    return NULL;
}

/* Why a value cannot be used; NULL if it can. */
static const char *refuse(const char *value)
{
    for (size_t at = 0, len = strlen(value), n; at < len; at += n) {
        bool valid;
        n = weir_utf8_len(value + at, len - at, &valid);
        if (!valid || (weir_utf8_is_control(value + at, n) && !strchr("\t\n\r", value[at])))
            return "is not UTF-8 text without control characters";
    }
    return NULL;
}

/* The value of a variable, or the other text of "${NAME:-other}" if it is not set or empty. Returns
 * false after reporting an error.
 *  ret_len  of *ret, which has no terminator. */
static bool value_of(expansion *x, const config_place *place, const variable *v, const char **ret,
                     size_t *ret_len)
{
    char name[NAME_MAX_LEN + 1];
    int shown = (int)v->name_len;
    if (v->name_len > NAME_MAX_LEN) {
        config_error(x->errors, place, "the name of a variable has %zu bytes, expected at most %d",
                     v->name_len, NAME_MAX_LEN);
        return false;
    }
    memcpy(name, v->name, v->name_len);
    name[v->name_len] = 0;
    const char *value = getenv(name);
    const char *why = !value ? "is not set" : !value[0] ? "is empty" : refuse(value);
    *ret = value;
    if (v->other && (!value || !value[0])) {
        *ret = v->other;
        *ret_len = v->other_len;
        return true;
    }
    if (why)
        config_error(x->errors, place,
                     "the environment variable %.*s %s; expected a value, or a default, as in "
                     "${%.*s:-TEXT}",
                     shown, name, why, shown, name);
    else
        *ret_len = strlen(value);
    return !why;
}

/* Appends to a value. Returns false after reporting that all values together are too long. */
static bool append(expansion *x, const config_place *place, FILE *out, const char *text, size_t len)
{
    x->bytes += len;
    if (x->bytes > EXPANDED_MAX) {
        config_error(x->errors, place, "with their variables, the values are larger than 16 MiB");
        return false;
    }
    fwrite(text, 1, len, out);
    return true;
}

static bool expand_text(expansion *x, const config_place *place, FILE *out)
{
    const char *text = place->node->text;
    variable v;
    for (const char *at; (at = find(text, &v)); text = at + v.len) {
        const char *value = "";
        size_t len = 0;
        if (!append(x, place, out, text, (size_t)(at - text)) ||
            !value_of(x, place, &v, &value, &len) || !append(x, place, out, value, len))
            return false;
    }
    return append(x, place, out, text, strlen(text));
}

/* Replaces the variables of a value. */
static void expand_value(expansion *x, const config_place *place, config_node *node)
{
    variable v;
    char *text = NULL;
    size_t len = 0;
    if (node->bad || node->style == CONFIG_SINGLE_QUOTED || !find(node->text, &v))
        return;
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        x->errors->arena->failed = true;
        return;
    }
    bool valid = expand_text(x, place, out);
    if (fclose(out) != 0)
        x->errors->arena->failed = true;
    else if (valid)
        node->text = weir_arena_copy(x->errors->arena, text, len);
    if (!node->text)
        node->text = ""; /* the arena has failed */
    node->len = strlen(node->text);
    node->bad |= !valid;
    explicit_bzero(text, len);
    free(text);
}

static void expand_node(expansion *x, const config_place *place, config_node *node)
{
    size_t index = 0;
    variable v;
    if (node->kind == CONFIG_SCALAR)
        expand_value(x, place, node);
    for (config_node *child = node->first; child; child = child->next, index++) {
        config_node *value = node->kind == CONFIG_MAP ? child->value : child;
        const config_place below = {.up = place,
                                    .key = node->kind == CONFIG_MAP ? child : NULL,
                                    .index = index,
                                    .node = value};
        const config_place key = {.up = place, .key = child, .node = child};
        if (node->kind == CONFIG_MAP && !child->bad && child->style != CONFIG_SINGLE_QUOTED &&
            find(child->text, &v)) {
            config_error(x->errors, &key,
                         "variables are replaced in values only, found ${%.*s} in a key",
                         (int)v.name_len, v.name);
            child->bad = value->bad = true;
        }
        expand_node(x, &below, value);
    }
}

void config_expand(config_errors *errors, config_node *root)
{
    expansion x = {.errors = errors};
    expand_node(&x, &(config_place){.node = root}, root);
}
