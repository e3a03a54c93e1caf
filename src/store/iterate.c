/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Forwards to the parts of the store. */

#include "store/iterate.h"

#include "core/algorithm.h"
#include "port/assert.h"
#include "port/port.h"
#include "store/store.h"
#include "store/table/word.h"

#include <string.h>

void weir_store_repair_locks(weir_store *s)
{
    weir_table_repair_locks(s->common.table);
}

/* An iteration over the keys of a partition. */
typedef struct iteration {
    weir_key_state_fn fn;
    void *ctx;
    const uint64_t *hash; /* of the keys; NULL: all keys */
    uint64_t partition;
    bool stopped;
} iteration;

static bool with_partition(void *ctx, const weir_key_state *stored)
{
    iteration *i = ctx;
    weir_key_state copy = *stored;
    copy.partition = i->partition;
    i->stopped = !i->fn(i->ctx, &copy);
    return !i->stopped;
}

static void each_small(weir_table *t, iteration *i)
{
    if (i->hash)
        weir_table_get(t, *i->hash, with_partition, i);
    else
        weir_table_each(t, with_partition, i);
}

static void each_large(weir_large *l, iteration *i)
{
    if (i->hash)
        weir_large_get(l, *i->hash, with_partition, i);
    else
        weir_large_each(l, with_partition, i);
}

static void each_in(const weir_store *s, const weir_partition *p, iteration *i)
{
    i->partition = p ? p->is.name_hash : 0;
    if (!i->stopped && (!p || p->area.table != s->common.table))
        each_small(p ? p->area.table : s->common.table, i);
    if (!i->stopped && (!p || p->area.large != s->common.large))
        each_large(p ? p->area.large : s->common.large, i);
}

static void each(const weir_store *s, iteration i)
{
    each_in(s, NULL, &i);
    for (size_t n = 0; n < s->partitions_len; n++)
        each_in(s, &s->partitions[n], &i);
}

void weir_store_each(weir_store *s, weir_key_state_fn fn, void *ctx)
{
    each(s, (iteration){.fn = fn, .ctx = ctx});
}

weir_status weir_store_put(weir_store *s, const weir_key_state *stored)
{
    const weir_area *at = &s->common;
    size_t n = 0;
    while (n < s->partitions_len && s->partitions[n].is.name_hash != stored->partition)
        n++;
    if (stored->partition != 0 && n == s->partitions_len)
        return WEIR_E_ABSENT;
    if (stored->partition != 0)
        at = &s->partitions[n].area;
    return stored->form == WEIR_LARGE_FORM ? weir_large_put(at->large, stored)
                                           : weir_table_put(at->table, stored);
}

const uint8_t *weir_store_secret(const weir_store *s)
{
    return weir_image_secret(s->image);
}

/* ---- copying --------------------------------------------------------------------------------- */

/* How often a copy begins again because hashes were lost, and the hashes that are taken at once. */
enum { PASSES_MAX = 16, NOTES_TAKEN = WEIR_TABLE_NOTES / 8 };

typedef struct copying {
    weir_store *to, *from;
    uint64_t *hash; /* that changed place, or whose reservations changed */
    size_t len, max;
    uint64_t notes; /* when they were taken last */
    bool lost;      /* a hash was lost */
    bool left_out;  /* a state that did not fit */
} copying;

static void add_hash(void *ctx, uint64_t hash)
{
    copying *c = ctx;
    if (c->len == c->max) {
        size_t max = c->max > 0 ? 2 * c->max : NOTES_TAKEN;
        uint64_t *wider = port_zalloc(max, sizeof *wider);
        c->lost |= !wider;
        if (!wider)
            return;
        if (c->len > 0)
            memcpy(wider, c->hash, c->len * sizeof *wider);
        port_free(c->hash);
        c->hash = wider;
        c->max = max;
    }
    c->hash[c->len++] = hash;
}

static void take_notes(copying *c)
{
    c->notes = weir_table_notes(c->from->common.table);
    c->lost |= !weir_table_noted(c->from->common.table, add_hash, c);
}

/* A state of a partition that is gone is left out: its policies have other ids now, see
 * weir_store_partition_id(). */
static bool copy_state(void *ctx, const weir_key_state *stored)
{
    copying *c = ctx;
    weir_status st = weir_store_put(c->to, stored);
    c->left_out |= st == WEIR_E_FULL || st == WEIR_E_NOMEM;
    if (weir_table_notes(c->from->common.table) - c->notes >= NOTES_TAKEN)
        take_notes(c);
    return true;
}

static void drop_hash(weir_store *s, uint64_t hash)
{
    weir_table_reset(s->common.table, hash);
    weir_large_reset(s->common.large, hash);
    for (size_t i = 0; i < s->partitions_len; i++) {
        weir_table_reset(s->partitions[i].area.table, hash);
        weir_large_reset(s->partitions[i].area.large, hash);
    }
}

/* Copies all keys. Then no reservation can change: copies the keys that were noted once more, and
 * the reservations that belong to these states. */
static void copy_pass(copying *c)
{
    c->len = 0;
    c->lost = c->left_out = false;
    weir_store_each(c->from, copy_state, c);
    weir_reserve_lock(c->from->reserved);
    take_notes(c);
    for (size_t i = 0, len = c->len; i < len; i++) {
        uint64_t hash = c->hash[i]; /* the list may grow */
        drop_hash(c->to, hash);
        each(c->from, (iteration){.fn = copy_state, .ctx = c, .hash = &hash});
    }
    weir_image_copy(c->to->image, c->from->image);
    if (!c->lost) /* once */
        weir_reserve_copy(c->to->reserved, c->from->reserved);
    weir_reserve_unlock(c->from->reserved);
}

weir_status weir_store_copy(weir_store *to, weir_store *from)
{
    WEIR_ASSERT(memcmp(weir_store_secret(to), weir_store_secret(from), 16) == 0);
    WEIR_ASSERT(to->hash.folded == from->hash.folded);
    copying c = {.to = to, .from = from};
    weir_table *tables[1 + WEIR_PARTITIONS_MAX] = {from->common.table};
    size_t n = 1, passes = 0;
    for (size_t i = 0; i < from->partitions_len; i++) {
        if (from->partitions[i].area.table != from->common.table)
            tables[n++] = from->partitions[i].area.table;
    }
    (void)weir_table_now(to->common.table, weir_store_seen_ns(from));
    weir_table_watch(tables, n);
    weir_reserve_lock(from->reserved); /* what began before is over */
    weir_reserve_unlock(from->reserved);
    do
        copy_pass(&c);
    while (c.lost && ++passes < PASSES_MAX);
    weir_table_unwatch(tables, n);
    port_free(c.hash);
    weir_table_keep_until(to->common.table, (int64_t)port_word_load_relaxed(
                                                weir_table_kept_until(from->common.table)));
    weir_store_start_clock(to);
    return c.lost ? WEIR_E_BUSY : c.left_out ? WEIR_E_FULL : WEIR_OK;
}

int64_t weir_store_seen_ns(const weir_store *s)
{
    return weir_table_now(s->common.table, 0);
}

uint64_t weir_store_named_id(const weir_store *s, const weir_policy *p, const char *name,
                             size_t len)
{
    weir_secret secret = {weir_store_policy_id(s, p), 0x6e616d6564};
    return (weir_siphash(secret, name, len) & ~WEIR_POLICY_CLASS) | (secret.k0 & WEIR_POLICY_CLASS);
}

bool weir_store_can_share(const weir_policy *a, const weir_policy *b)
{
    const weir_layer *x = a->layer, *y = b->layer;
    return a->layers == 1 && b->layers == 1 && weir_layer_is_bucket(x) && weir_layer_is_bucket(y) &&
           x->format == y->format && x->num == y->num && x->den == y->den &&
           (!x->stepped || x->period_ns == y->period_ns) &&
           weir_word_fits(x) == weir_word_fits(y); /* otherwise their encodings differ */
}

void weir_store_note_policy(const weir_store *s, uint64_t policy_id, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    weir_image_note_policy(s->image, policy_id, text, len, true);
}

weir_status weir_store_policy_find(const weir_store *s, uint64_t policy_id, weir_policy *ret)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len =
        weir_policy_registry_text(weir_image_policies(s->image), policy_id, text, sizeof text);
    const weir_zones *zones = s->zones.find ? &s->zones : NULL;
    bool known = len > 0 && weir_policy_parse(ret, text, len, zones, NULL) == WEIR_OK;
    return known ? WEIR_OK : WEIR_E_ABSENT;
}

bool weir_store_note_text(weir_store *s, uint64_t policy_id, const char *text, size_t len)
{
    return weir_image_note_policy(s->image, policy_id, text, len, true);
}

typedef struct texts {
    bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len);
    void *ctx;
} texts;

static bool pass_policy(void *ctx, uint64_t id, const char *text, size_t len)
{
    const texts *t = ctx;
    return text[0] == WEIR_MEMBER_TEXT[0] || t->fn(t->ctx, id, text, len);
}

void weir_store_policies(weir_store *s,
                         bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                         void *ctx)
{
    texts t = {fn, ctx};
    weir_policy_registry_each(weir_image_policies(s->image), pass_policy, &t);
}

uint64_t weir_store_reset_id(const char *name, size_t len)
{
    const char *end = memchr(name, '?', len);
    return weir_siphash((weir_secret){0}, name, end ? (size_t)(end - name) : len);
}

size_t weir_store_resets(const weir_store *s, uint64_t ret[WEIR_RESETS_SLOTS])
{
    return weir_resets_entries(s->resets, ret);
}

weir_status weir_store_put_reset(weir_store *s, uint64_t entry)
{
    return weir_resets_merge(s->resets, entry);
}

void weir_store_set_time(weir_store *s, int64_t time_ns)
{
    weir_clock_set(&s->clock, port_clocks_now(), time_ns);
}

void weir_store_set_jump(weir_store *s, int64_t above_ns)
{
    port_word_store_relaxed(&s->clock.jump_above, (uint64_t)above_ns);
}

weir_clock_view weir_store_clock(const weir_store *s)
{
    return weir_clock_look(&s->clock);
}

weir_mapping weir_store_mapping(const weir_store *s)
{
    return weir_image_mapping(s->image);
}
