/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What differs between two configurations: the keys of their files, and what takes effect at the
 * next start only. It must not know how a reload applies the others. */

#include "cmd/config/keys.h"

#include <string.h>

/* ---- the keys of the files ------------------------------------------------------------------- */

static bool same_node(const config_node *a, const config_node *b)
{
    bool same = a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0 &&
                a->children == b->children && !a->value == !b->value;
    if (same && a->value)
        same = same_node(a->value, b->value);
    for (a = a->first, b = b->first; a && b && same; a = a->next, b = b->next)
        same = same_node(a, b);
    return same;
}

/* Where differences are reported. */
typedef struct edits {
    const char *section; /* "limits"; NULL: the whole file */
    void (*changed)(void *ctx, const char *key);
    void *ctx;
} edits;

static void report(const edits *e, const config_node *key)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s%s", e->section ? e->section : "", e->section ? "." : "",
             key->text);
    e->changed(e->ctx, path);
}

static void each_edit(const edits *e, const config_node *a, const config_node *b);

/*  a, b  of the same name, one of which may be NULL. */
static void compare(const edits *e, const config_node *a, const config_node *b)
{
    static const config_node none = {.kind = CONFIG_MAP};
    const config_node *x = a ? a->value : &none, *y = b ? b->value : &none;
    const config_node *key = b ? b : a;
    if (!e->section && x->kind == CONFIG_MAP && y->kind == CONFIG_MAP)
        each_edit(&(edits){key->text, e->changed, e->ctx}, x, y);
    else if (!a || !b || !same_node(x, y))
        report(e, key);
}

/* Compares two maps. Their keys are usually in the same order. */
static void each_edit(const edits *e, const config_node *a, const config_node *b)
{
    const config_node *next = a->first;
    for (const config_node *k = b->first; k; k = k->next) {
        const config_node *old = next;
        if (!old || strcmp(old->text, k->text) != 0)
            old = config_key_of(a, k->text);
        compare(e, old, k);
        next = old ? old->next : next;
    }
    next = b->first;
    for (const config_node *k = a->first; k; k = k->next) {
        const config_node *new = next;
        if (!new || strcmp(new->text, k->text) != 0)
            new = config_key_of(b, k->text);
        if (!new)
            compare(e, k, NULL);
        next = new ? new->next : next;
    }
}

void config_each_edit(const weir_config *a, const weir_config *b,
                      void (*changed)(void *ctx, const char *key), void *ctx)
{
    if (a->tree && b->tree && a->tree->kind == CONFIG_MAP && b->tree->kind == CONFIG_MAP)
        each_edit(&(edits){NULL, changed, ctx}, a->tree, b->tree);
}

/* ---- what needs a restart -------------------------------------------------------------------- */

static const weir_store_partition *find_partition(const weir_config *c, const char *name)
{
    for (size_t i = 0; i < c->partitions_len; i++) {
        if (strcmp(c->partitions[i].name, name) == 0)
            return &c->partitions[i];
    }
    return NULL;
}

/* Reports the policies of `a` whose `memory` differs in `b`; with `only_absent`, only those that
 * have none in `b`. */
static void each_other_memory(const weir_config *a, const weir_config *b, bool only_absent,
                              void (*changed)(void *ctx, const char *key), void *ctx)
{
    for (size_t i = 0; i < a->partitions_len; i++) {
        const weir_store_partition *p = &a->partitions[i], *q = find_partition(b, p->name);
        bool same = q && (only_absent ||
                          (p->table_bytes == q->table_bytes && p->large_bytes == q->large_bytes));
        char key[WEIR_RULE_NAME_MAX + 32];
        snprintf(key, sizeof key, "policies.%s.memory", p->name);
        if (!same)
            changed(ctx, key);
    }
}

void config_each_change(const weir_config *a, const weir_config *b,
                        void (*changed)(void *ctx, const char *key), void *ctx)
{
    const config_section *root = config_root();
    for (size_t i = 0; i < root->len; i++) {
        if (!config_same(&root->keys[i], a, b))
            changed(ctx, root->keys[i].name);
    }
    each_other_memory(a, b, false, changed, ctx);
    each_other_memory(b, a, true, changed, ctx);
}
