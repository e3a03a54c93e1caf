/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Space-Saving, with a linear search: lists are short and only samples are added, so a scan is
 * cheaper than keeping an order. */

#include "service/top/space_saving.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

/* Adds n to a sum, up to INT64_MAX. */
static void add(uint64_t *sum, uint64_t n)
{
    WEIR_ASSERT(*sum <= INT64_MAX);
    *sum = n > INT64_MAX - *sum ? INT64_MAX : *sum + n;
}

size_t weir_space_saving_bytes(size_t max)
{
    return sizeof(weir_space_saving) +
           max * (sizeof(weir_space_saving_weight) + sizeof(weir_space_saving_key));
}

weir_space_saving *weir_space_saving_new(size_t max, int64_t step)
{
    WEIR_ASSERT(max >= 1);
    weir_space_saving *h = port_zalloc(1, weir_space_saving_bytes(max));
    if (!h)
        return NULL;
    h->step = step;
    h->max = max;
    h->weight = (weir_space_saving_weight *)(h + 1);
    h->key = (weir_space_saving_key *)(h->weight + max);
    return h;
}

void weir_space_saving_free(weir_space_saving *h)
{
    port_free(h);
}

void weir_space_saving_copy(weir_space_saving *to, const weir_space_saving *from)
{
    WEIR_ASSERT(to->max == from->max && from->len <= from->max);
    to->cost = from->cost;
    to->step = from->step;
    to->len = from->len;
    memcpy(to->weight, from->weight, from->len * sizeof *from->weight);
    memcpy(to->key, from->key, from->len * sizeof *from->key);
}

void weir_space_saving_decay(weir_space_saving *h, int64_t step)
{
    if (step <= h->step)
        return;
    unsigned halvings = step - h->step < 63 ? (unsigned)(step - h->step) : 63;
    h->step = step;
    h->cost >>= halvings;
    size_t len = 0;
    for (size_t i = 0; i < h->len; i++) {
        h->weight[i].cost >>= halvings;
        if (h->weight[i].cost == 0)
            continue;
        h->key[i].least >>= halvings;
        h->key[i].requests >>= halvings;
        if (len != i) {
            h->weight[len] = h->weight[i];
            h->key[len] = h->key[i];
        }
        len++;
    }
    h->len = len;
}

/* Returns the index of the key, or of the key with the lowest cost if it is not listed. h->len is 1
 * or more. */
static size_t find(const weir_space_saving *h, uint64_t hash)
{
    size_t least = 0;
    for (size_t i = 0; i < h->len; i++) {
        if (h->weight[i].hash == hash)
            return i;
        if (h->weight[i].cost < h->weight[least].cost)
            least = i;
    }
    return least;
}

void weir_space_saving_add(weir_space_saving *h, uint64_t hash, const void *key, size_t len,
                           uint64_t cost, uint64_t requests)
{
    WEIR_ASSERT(cost >= 1);
    size_t at = h->len > 0 ? find(h, hash) : 0;
    bool listed = h->len > 0 && h->weight[at].hash == hash;
    if (!listed && h->len < h->max) {
        at = h->len++;
        h->weight[at].cost = 0;
    }
    weir_space_saving_weight *w = &h->weight[at];
    weir_space_saving_key *k = &h->key[at];
    if (!listed) {
        /* The new key inherits the cost of the evicted one: it may have had it before. */
        w->hash = hash;
        k->least = 0;
        k->requests = 0;
        k->len = (uint32_t)len;
        memcpy(k->text, key, len < WEIR_SPACE_SAVING_TEXT_MAX ? len : WEIR_SPACE_SAVING_TEXT_MAX);
    }
    add(&w->cost, cost);
    add(&k->least, cost);
    add(&k->requests, requests);
    add(&h->cost, cost);
    WEIR_ASSERT(h->len <= h->max && k->least <= w->cost);
}

uint64_t weir_space_saving_unlisted(const weir_space_saving *h)
{
    if (h->len < h->max)
        return 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < h->len; i++)
        least = h->weight[i].cost < least ? h->weight[i].cost : least;
    return least;
}

/* ---- merging --------------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const weir_space_saving_row *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* The highest cost first. Equal costs are ordered by the key, so that the order is stable. */
static int by_cost(const void *a, const void *b)
{
    const weir_space_saving_row *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    uint32_t len = x->key->len < y->key->len ? x->key->len : y->key->len;
    int order = memcmp(x->key->text, y->key->text,
                       len < WEIR_SPACE_SAVING_TEXT_MAX ? len : WEIR_SPACE_SAVING_TEXT_MAX);
    return order ? order : (x->key->len > y->key->len) - (x->key->len < y->key->len);
}

weir_space_saving_sum weir_space_saving_merge(weir_space_saving *const *lists, size_t n,
                                              weir_space_saving_row *ret_rows)
{
    weir_space_saving_sum sum = {0};
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        /* A key that is missing in a list costs at most `unlisted` there. The sum of these bounds
         * is added to every row below, so this list's bound is subtracted from its own keys. */
        const weir_space_saving *h = lists[i];
        uint64_t unlisted = weir_space_saving_unlisted(h);
        add(&sum.cost, h->cost);
        add(&sum.unlisted, unlisted);
        for (size_t k = 0; k < h->len; k++) {
            WEIR_ASSERT(h->weight[k].cost >= unlisted);
            ret_rows[rows++] =
                (weir_space_saving_row){h->weight[k].hash, h->weight[k].cost - unlisted,
                                        h->key[k].least, h->key[k].requests, &h->key[k]};
        }
    }
    qsort(ret_rows, rows, sizeof *ret_rows, by_hash);
    for (size_t i = 0; i < rows; i++) {
        weir_space_saving_row *last = sum.len > 0 ? &ret_rows[sum.len - 1] : NULL;
        if (last && last->hash == ret_rows[i].hash) {
            add(&last->cost, ret_rows[i].cost);
            add(&last->least, ret_rows[i].least);
            add(&last->requests, ret_rows[i].requests);
        } else {
            ret_rows[sum.len++] = ret_rows[i];
        }
    }
    for (size_t i = 0; i < sum.len; i++)
        add(&ret_rows[i].cost, sum.unlisted);
    qsort(ret_rows, sum.len, sizeof *ret_rows, by_cost);
    return sum;
}
