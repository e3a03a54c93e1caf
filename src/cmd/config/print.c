/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The configuration as one YAML file: with the included files and the variables, with the defaults
 * as comments, and without secrets. */

#include "cmd/config/keys.h"

#include <limits.h>
#include <string.h>

static void indent(FILE *out, size_t depth, bool comment)
{
    fprintf(out, "%*s%s", (int)(2 * depth), "", comment ? "# " : "");
}

/* Whether YAML reads a text without quotes as it is. */
static bool is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
    return text[0] && strspn(text, plain) == strlen(text);
}

static void print_text(FILE *out, const char *text, size_t len)
{
    fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fprintf(out, "\\%c", text[i]);
        else if ((unsigned char)text[i] < 0x20)
            fprintf(out, "\\x%02X", (unsigned char)text[i]);
        else
            fputc(text[i], out);
    }
    fputc('"', out);
}

/* The user, the password and the query of a URL become asterisks. */
static void print_url(FILE *out, const char *text)
{
    const char *scheme = strstr(text, "://"), *host = strrchr(text, '@');
    const char *query = scheme ? strchr(host ? host : scheme, '?') : NULL;
    size_t before = scheme ? (size_t)(scheme - text) + 3 : 0;
    size_t from = host && (size_t)(host - text) >= before ? (size_t)(host - text) : before;
    size_t end = query ? (size_t)(query - text) : strlen(text);
    fprintf(out, "\"%.*s%s%.*s%s\"", (int)before, text, from > before ? "***" : "",
            (int)(end - from), text + from, query ? "?***" : "");
}

static void print_scalar(FILE *out, const config_node *n)
{
    if (is_plain(n->text))
        fputs(n->text, out);
    else if (strstr(n->text, "://"))
        print_url(out, n->text);
    else
        print_text(out, n->text, n->len);
}

/*  secrets  whether keys such as "password" have secrets; those of policies are names. */
static void print_children(FILE *out, const config_node *node, bool secrets, size_t depth);

/* Prints a value behind "key:" or "-". */
static void print_value(FILE *out, const config_node *value, bool secrets, size_t depth)
{
    if (value->kind != CONFIG_SCALAR && value->children > 0) {
        fputc('\n', out);
        print_children(out, value, secrets, depth + 1);
    } else {
        fputc(' ', out);
        if (value->kind == CONFIG_SCALAR && !config_is_empty(value))
            print_scalar(out, value);
        else if (value->kind != CONFIG_SCALAR)
            fputs(value->kind == CONFIG_MAP ? "{}" : "[]", out);
        fputc('\n', out);
    }
}

static void print_key(FILE *out, const config_node *key, bool secrets, size_t depth)
{
    indent(out, depth, false);
    if (is_plain(key->text))
        fputs(key->text, out);
    else
        print_text(out, key->text, key->len);
    fputc(':', out);
    if (secrets && config_is_password(key))
        fputs(" \"***\"\n", out);
    else
        print_value(out, key->value, secrets && (depth > 0 || strcmp(key->text, "policies") != 0),
                    depth);
}

static void print_children(FILE *out, const config_node *node, bool secrets, size_t depth)
{
    for (const config_node *child = node->first; child; child = child->next) {
        if (node->kind == CONFIG_MAP) {
            print_key(out, child, secrets, depth);
        } else {
            indent(out, depth, false);
            fputc('-', out);
            print_value(out, child, secrets, depth);
        }
    }
}

/* ---- the keys of the tables ------------------------------------------------------------------ */

/* The default of a key. NULL if none can be written: a file that is not used, a number that the
 * machine decides. */
static const char *default_text(const config_key *k, const void *base, char *buf, size_t size)
{
    bool decided = k->type == CONFIG_NUMBER && k->preset < k->low && !k->may_be_off;
    return k->type == CONFIG_PATH || decided ? NULL : config_value_text(k, base, buf, size);
}

static bool has_defaults(const config_section *section, const void *base)
{
    char text[PATH_MAX];
    bool any = false;
    for (size_t i = 0; i < section->len && !any; i++) {
        const config_key *k = &section->keys[i];
        any = k->type == CONFIG_SECTION ? has_defaults(k->section, base)
                                        : default_text(k, base, text, sizeof text) != NULL;
    }
    return any;
}

/* Prints the keys of a section in the order of the table; those that are not set, as comments.
 *  map  of the file; NULL: none of the keys is set. */
static void print_section(FILE *out, const config_section *section, const void *base,
                          const config_node *map, size_t depth)
{
    for (size_t i = 0; i < section->len; i++) {
        const config_key *k = &section->keys[i];
        const config_node *key = map ? config_key_of(map, k->name) : NULL;
        bool set = key && !config_is_empty(key->value);
        bool inside = k->type == CONFIG_SECTION &&
                      (set ? key->value->kind == CONFIG_MAP && !k->read : !k->guest);
        const void *below = k->guest ? config_options(base, k->guest) : base;
        char buf[PATH_MAX];
        const char *text = inside || set ? NULL : default_text(k, base, buf, sizeof buf);
        if (inside && (set || has_defaults(k->section, below))) {
            indent(out, depth, !set);
            fprintf(out, "%s:\n", k->name);
            print_section(out, k->section, below, set ? key->value : NULL, depth + 1);
        } else if (set) {
            print_key(out, key, true, depth);
        } else if (text) {
            indent(out, depth, true);
            fprintf(out, "%s: %s\n", k->name, text);
        }
    }
}

void config_print(const weir_config *c, FILE *out)
{
    if (!c->tree || c->tree->children == 0)
        fputs("{}\n", out); /* comments alone are no configuration */
    print_section(out, config_root(), c, c->tree, 0);
}
