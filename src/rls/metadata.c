/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The dynamic metadata of a response: what was requested, and the metadata of the limits that were
 * not exceeded. */

#include "rls/internal.h"

#include <stdio.h>
#include <string.h>

weir_rls_value *rls_value_copy(weir_arena *a, const weir_rls_value *from)
{
    weir_rls_value *v = weir_arena_alloc(a, 1, sizeof *v);
    if (!v)
        return NULL;
    *v = *from;
    v->next = v->first = NULL;
    v->name.at = weir_arena_copy(a, from->name.at ? from->name.at : "", from->name.len);
    v->text.at = weir_arena_copy(a, from->text.at ? from->text.at : "", from->text.len);
    weir_rls_value **end = &v->first;
    for (const weir_rls_value *member = from->first; member; member = member->next) {
        *end = rls_value_copy(a, member);
        if (!*end)
            return NULL;
        end = &(*end)->next;
    }
    return v->name.at && v->text.at ? v : NULL;
}

/* Adds a copy of a value to a map or a list. Returns the copy; NULL if memory is exhausted. */
static weir_rls_value *add(weir_arena *a, weir_rls_value *to, const weir_rls_value *value)
{
    weir_rls_value **end = &to->first;
    while (*end)
        end = &(*end)->next;
    return *end = rls_value_copy(a, value);
}

static weir_rls_value *add_as(weir_arena *a, weir_rls_value *to, const char *name,
                              weir_rls_value value)
{
    value.name = (weir_slice){name, strlen(name)};
    return add(a, to, &value);
}

/* Adds the members of a map to another one. Of two members with the same name that are not both
 * maps, the first stays. Returns false if memory is exhausted. */
static bool merge(weir_arena *a, weir_rls_value *to, const weir_rls_value *from)
{
    for (const weir_rls_value *v = from->first; v; v = v->next) {
        weir_rls_value *same = to->first;
        while (same && (same->name.len != v->name.len ||
                        memcmp(same->name.at, v->name.at, v->name.len) != 0))
            same = same->next;
        bool maps = same && same->kind == WEIR_RLS_MAP && v->kind == WEIR_RLS_MAP;
        if (maps ? !merge(a, same, v) : !same && !add(a, to, v))
            return false;
    }
    return true;
}

/* ---- what was requested ---------------------------------------------------------------------- */

/* "KEY=VALUE" of each entry. */
static bool add_entries(weir_arena *a, weir_rls_value *to, const weir_rls_descriptor *d)
{
    weir_rls_value *list = add_as(a, to, "entries", (weir_rls_value){.kind = WEIR_RLS_LIST});
    weir_rls_value **end = list ? &list->first : NULL;
    for (size_t i = 0; i < d->entries_len && end; i++) {
        const weir_rls_entry *e = &d->entries[i];
        size_t len = e->key.len + 1 + e->value.len;
        weir_rls_value *v = weir_arena_alloc(a, 1, sizeof *v);
        char *text = weir_arena_alloc(a, len, 1);
        if (!v || !text)
            return false;
        memcpy(text, e->key.at, e->key.len);
        text[e->key.len] = '=';
        memcpy(text + e->key.len + 1, e->value.at, e->value.len);
        *v = (weir_rls_value){.kind = WEIR_RLS_TEXT, .text = {text, len}};
        *end = v;
        end = &v->next;
    }
    return list != NULL;
}

/* The limit of a descriptor as the text format of protobuf has it. */
static bool add_limit(weir_arena *a, weir_rls_value *to, const weir_rls_override *o)
{
    char text[64];
    int len = 0;
    if (o->requests_per_unit > 0)
        len = snprintf(text, sizeof text, "requests_per_unit:%u ", (unsigned)o->requests_per_unit);
    len += snprintf(text + len, sizeof text - (size_t)len, "unit:%s", weir_rls_unit_word(o->unit));
    return add_as(a, to, "limit",
                  (weir_rls_value){.kind = WEIR_RLS_TEXT, .text = {text, (size_t)len}}) != NULL;
}

static bool add_hits(weir_arena *a, weir_rls_value *to, uint64_t hits)
{
    return add_as(a, to, "hitsAddend",
                  (weir_rls_value){.kind = WEIR_RLS_NUMBER, .number = (double)hits}) != NULL;
}

static bool add_descriptors(weir_arena *a, weir_rls_value *to, const weir_rls_request *r)
{
    static const weir_rls_value map = {.kind = WEIR_RLS_MAP};
    weir_rls_value *list = add_as(a, to, "descriptors", (weir_rls_value){.kind = WEIR_RLS_LIST});
    for (size_t i = 0; i < r->descriptors_len && list; i++) {
        const weir_rls_descriptor *d = &r->descriptors[i];
        weir_rls_value *one = add(a, list, &map);
        if (!one || !add_entries(a, one, d) ||
            (d->has_override && !add_limit(a, one, &d->override)) ||
            (d->has_hits && !add_hits(a, one, d->hits)))
            return false;
    }
    return list != NULL;
}

const weir_rls_value *rls_metadata(weir_arena *a, const weir_rls_request *r, const rls_item *items,
                                   const weir_rls_status *statuses, size_t n)
{
    weir_rls_value *all = weir_arena_alloc(a, 1, sizeof *all);
    weir_rls_value limits = {.kind = WEIR_RLS_MAP};
    if (!all)
        return NULL;
    *all = (weir_rls_value){.kind = WEIR_RLS_MAP};
    if (!add_as(a, all, "domain", (weir_rls_value){.kind = WEIR_RLS_TEXT, .text = r->domain}) ||
        !add_descriptors(a, all, r) || (r->hits_addend > 0 && !add_hits(a, all, r->hits_addend)))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        bool passes = !items[i].unlimited && statuses[i].code != WEIR_RLS_OVER_LIMIT;
        if (passes && items[i].limit && items[i].limit->metadata &&
            !merge(a, &limits, items[i].limit->metadata))
            return NULL;
    }
    return limits.first && !add_as(a, all, "metadata", limits) ? NULL : all;
}
