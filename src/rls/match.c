/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Matches the entries of a descriptor against the tree of a configuration, level by level: first
 * the text "KEY_VALUE", then the patterns in the order of the file, then "KEY". */

#define _GNU_SOURCE /* memmem */

#include "port/assert.h"
#include "rls/config_internal.h"
#include "store/siphash.h"

#include <string.h>

/* ---- the hash table -------------------------------------------------------------------------- */

/* Not keyed: only the operator's files add entries to the table. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash(uint32_t parent, const char *text, size_t len)
{
    uint64_t h = mix(len, parent);
    for (; len >= 8; text += 8, len -= 8)
        h = mix(h, weir_read8((const uint8_t *)text));
    uint64_t tail = 0;
    for (size_t i = 0; i < len; i++)
        tail = tail << 8 | (uint8_t)text[i];
    return mix(h, tail);
}

/* The slot of a child, or the empty slot where it belongs. */
static size_t slot_of(const weir_rls_config *c, uint32_t parent, const char *text, size_t len)
{
    size_t at = hash(parent, text, len) & c->slots_mask;
    for (; c->slots[at] != 0; at = (at + 1) & c->slots_mask) {
        const rls_node *n = &c->nodes[c->slots[at]];
        if (n->parent == parent && n->text.len == len && memcmp(n->text.at, text, len) == 0)
            break;
    }
    return at;
}

uint32_t rls_child(const weir_rls_config *c, uint32_t parent, const char *text, size_t len)
{
    if (len == 0 || len > c->nodes[parent].child_len_max)
        return 0;
    return c->slots[slot_of(c, parent, text, len)];
}

void rls_table_add(weir_rls_config *c, uint32_t node)
{
    const rls_node *n = &c->nodes[node];
    c->slots[slot_of(c, n->parent, n->text.at, n->text.len)] = node;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* Whether a text has a prefix and, in what is left of it, a suffix: the parts of a pattern before
 * its first '*' and after its last one. Removes both. */
static bool strip_ends(weir_slice *text, weir_slice prefix, weir_slice suffix)
{
    if (text->len < prefix.len + suffix.len || memcmp(text->at, prefix.at, prefix.len) != 0 ||
        memcmp(text->at + text->len - suffix.len, suffix.at, suffix.len) != 0)
        return false;
    text->at += prefix.len;
    text->len -= prefix.len + suffix.len;
    return true;
}

/* Each part between two '*' is found at its first place, which leaves the most text for the parts
 * after it. */
bool weir_rls_pattern_matches(weir_slice pattern, weir_slice text)
{
    const char *first = memchr(pattern.at, '*', pattern.len);
    const char *last = memrchr(pattern.at, '*', pattern.len);
    WEIR_ASSERT(first && last);
    weir_slice prefix = {pattern.at, (size_t)(first - pattern.at)};
    weir_slice suffix = {last + 1, (size_t)(pattern.at + pattern.len - last - 1)};
    if (!strip_ends(&text, prefix, suffix))
        return false;
    while (first != last) {
        const char *part = first + 1;
        first = memchr(part, '*', (size_t)(last + 1 - part));
        size_t len = (size_t)(first - part);
        const char *found = memmem(text.at, text.len, part, len);
        if (!found)
            return false;
        text.len -= (size_t)(found - text.at) + len;
        text.at = found + len;
    }
    return true;
}

static uint32_t match_wildcards(const weir_rls_config *c, uint32_t parent, weir_slice text)
{
    uint32_t at = c->nodes[parent].wildcard_first;
    while (at != 0 && !weir_rls_pattern_matches(c->nodes[at].text, text))
        at = c->nodes[at].wildcard_next;
    return at;
}

/* ---- matching -------------------------------------------------------------------------------- */

static uint32_t match_entry(const weir_rls_config *c, uint32_t parent, const weir_rls_entry *e,
                            char *scratch, rls_how *ret_how)
{
    const rls_node *n = &c->nodes[parent];
    size_t len = e->key.len + 1 + e->value.len;
    uint32_t child = 0;
    if (len <= n->child_len_max || n->wildcard_first != 0) {
        if (e->key.len > 0)
            memcpy(scratch, e->key.at, e->key.len);
        scratch[e->key.len] = '_';
        if (e->value.len > 0)
            memcpy(scratch + e->key.len + 1, e->value.at, e->value.len);
        *ret_how = RLS_EXACT;
        child = rls_child(c, parent, scratch, len);
        if (child == 0 && n->wildcard_first != 0) {
            *ret_how = RLS_WILDCARD;
            child = match_wildcards(c, parent, (weir_slice){scratch, len});
        }
    }
    if (child == 0) {
        *ret_how = RLS_DEFAULT;
        child = rls_child(c, parent, e->key.at, e->key.len);
    }
    return child;
}

/* The part of a node's text after "KEY_"; the whole text if it does not begin so. */
static weir_slice after_key(const rls_node *n, const weir_rls_entry *e)
{
    size_t len = e->key.len;
    if (n->text.len > len && n->text.at[len] == '_' &&
        (len == 0 || memcmp(n->text.at, e->key.at, len) == 0))
        return (weir_slice){n->text.at + len + 1, n->text.len - len - 1};
    return n->text;
}

static bool shares(const rls_path *path, size_t i)
{
    return path->how[i] == RLS_WILDCARD && path->node[i]->share_threshold;
}

/* The value of an entry in the name of the statistics, unless the limit has detailed_metric. */
static weir_slice metric_value(const rls_path *path, size_t i, const weir_rls_entry *e)
{
    const rls_node *n = path->node[i];
    if (shares(path, i))
        return after_key(n, e);
    if (path->how[i] == RLS_EXACT || n->value_to_metric)
        return e->value;
    return path->how[i] == RLS_WILDCARD ? after_key(n, e) : (weir_slice){NULL, 0};
}

/* Whether "KEY_VALUE", or "KEY" for an empty value, is not the node's text. */
static bool is_renamed(const rls_path *path, size_t i, const weir_rls_entry *e)
{
    weir_slice value = metric_value(path, i, e);
    size_t len = e->key.len + (value.len > 0 ? 1 + value.len : 0);
    if (path->how[i] == RLS_WILDCARD)
        return path->node[i]->text.len != len || after_key(path->node[i], e).len != value.len ||
               memcmp(after_key(path->node[i], e).at, value.at, value.len) != 0;
    return path->node[i]->text.len != len;
}

const rls_limit *rls_match(const weir_rls_config *c, uint32_t domain,
                           const weir_rls_descriptor *descriptor, char *scratch, rls_path *path)
{
    uint32_t at = domain;
    size_t n = descriptor->entries_len;
    path->shares = path->renamed = false;
    path->len = n;
    for (size_t i = 0; i < n; i++) {
        const weir_rls_entry *e = &descriptor->entries[i];
        if (i == RLS_DEPTH_MAX)
            return NULL;
        at = c->nodes[at].has_children ? match_entry(c, at, e, scratch, &path->how[i]) : 0;
        if (at == 0)
            return NULL;
        path->node[i] = &c->nodes[at];
        path->shares |= shares(path, i);
        path->renamed |= is_renamed(path, i, e);
    }
    return n > 0 ? c->nodes[at].limit : NULL;
}

weir_slice rls_shared_value(const rls_path *path, size_t i, const weir_rls_entry *entry)
{
    return shares(path, i) ? after_key(path->node[i], entry) : entry->value;
}

/* ---- names of statistics --------------------------------------------------------------------- */

typedef struct text {
    char *at;
    size_t len, size;
} text;

static void add(text *t, const char *bytes, size_t len)
{
    if (len > 0 && t->len + len <= t->size)
        memcpy(t->at + t->len, bytes, len);
    t->len += len;
}

void rls_replace_dots(const weir_rls_options *options, char *part, size_t len)
{
    for (size_t i = 0; i < len && options->dots_replaced; i++)
        part[i] = part[i] == '.' ? '_' : part[i];
}

size_t rls_stat_name(const weir_rls_options *options, const rls_limit *limit, const rls_path *path,
                     const weir_rls_descriptor *descriptor, char *ret, size_t size)
{
    text t = {ret, 0, size};
    add(&t, limit->full_key.at, limit->domain_len);
    for (size_t i = 0; i < descriptor->entries_len; i++) {
        const weir_rls_entry *e = &descriptor->entries[i];
        weir_slice value =
            limit->detailed ? rls_shared_value(path, i, e) : metric_value(path, i, e);
        add(&t, ".", 1);
        size_t begin = t.len;
        add(&t, e->key.at, e->key.len);
        if (value.len > 0 || (limit->detailed && !path->shares))
            add(&t, "_", 1);
        add(&t, value.at, value.len);
        if (t.len <= size)
            rls_replace_dots(options, ret + begin, t.len - begin);
    }
    return t.len <= size ? t.len : 0;
}
