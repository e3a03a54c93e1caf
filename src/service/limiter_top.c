/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The top keys of a limiter: merges the sketches of all services into one list. */

#include "service/top/top.h"

#include "service/service_internal.h"

#include <string.h>

_Static_assert(WEIR_TOP_TEXT_MAX == WEIR_SPACE_SAVING_TEXT_MAX,
               "one constant, under its public name");

struct weir_top_rows {
    weir_space_saving **lists; /* copies; the keys' text points into them */
    size_t lists_len;
    weir_space_saving_row *row;
};

weir_status weir_limiter_enable_top(weir_limiter *l, const weir_top_options *options)
{
    if (options->keys < 1 || options->keys > WEIR_TOP_KEYS_MAX)
        return WEIR_E_RANGE;
    weir_status st = port_random(&l->top.secret, sizeof l->top.secret);
    if (st != WEIR_OK)
        return st;
    l->top.keys = options->keys;
    l->top.bytes_max = options->memory_bytes;
    return WEIR_OK;
}

size_t weir_limiter_top_keys(const weir_limiter *l)
{
    return l->top.keys;
}

const char *weir_top_of_name(weir_top_of of)
{
    return of == WEIR_TOP_DENIED ? "denied" : "allowed";
}

/* The caller holds the lock. */
static bool find_policy(const weir_limiter *l, weir_slice policy, size_t *ret)
{
    const weir_rule *rule = weir_rules_find(l->rules, policy.at, policy.len);
    if (rule) {
        *ret = rule->counts;
        return true;
    }
    for (size_t i = 0; i < NAMES_FIRST; i++) {
        if (strlen(l->name[i]) == policy.len && memcmp(l->name[i], policy.at, policy.len) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Copies the lists of all services. Under the lock. */
static weir_status read_lists(weir_limiter *l, size_t policy, weir_top_of of,
                              struct weir_top_rows *rows, weir_top_accuracy *accuracy)
{
    size_t services = 0;
    for (weir_service *s = l->services; s; s = s->next)
        services++;
    rows->lists = port_zalloc(services + 1, sizeof *rows->lists);
    if (!rows->lists)
        return WEIR_E_NOMEM;
    for (weir_service *s = l->services; s; s = s->next) {
        weir_space_saving **list = &rows->lists[rows->lists_len];
        if (!weir_top_tracker_read(s->tracker, policy, of, list, accuracy))
            return WEIR_E_NOMEM;
        rows->lists_len += *list != NULL;
    }
    return WEIR_OK;
}

static weir_status merge(struct weir_top_rows *rows, size_t k, int64_t now_ns, weir_top *ret)
{
    size_t len = 0;
    for (size_t i = 0; i < rows->lists_len; i++) {
        weir_space_saving_decay(rows->lists[i], now_ns / WEIR_TOP_HALF_NS);
        len += rows->lists[i]->len;
    }
    rows->row = port_zalloc(len + 1, sizeof *rows->row);
    ret->key = port_zalloc(k, sizeof *ret->key);
    if (!rows->row || !ret->key)
        return WEIR_E_NOMEM;
    weir_space_saving_sum sum = weir_space_saving_merge(rows->lists, rows->lists_len, rows->row);
    ret->cost = (int64_t)sum.cost;
    ret->unlisted = (int64_t)sum.unlisted;
    ret->len = sum.len < k ? sum.len : k;
    for (size_t i = 0; i < ret->len; i++) {
        const weir_space_saving_row *row = &rows->row[i];
        const weir_space_saving_key *key = row->key;
        WEIR_ASSERT(row->least <= row->cost && row->cost <= INT64_MAX);
        ret->key[i] = (weir_top_key){
            .text = key->text,
            .text_len =
                key->len < WEIR_SPACE_SAVING_TEXT_MAX ? key->len : WEIR_SPACE_SAVING_TEXT_MAX,
            .len = key->len,
            .hash = row->hash,
            .cost = (int64_t)row->cost,
            .error = (int64_t)(row->cost - row->least),
            .requests = (int64_t)row->requests,
        };
    }
    return WEIR_OK;
}

weir_status weir_limiter_top(weir_limiter *l, weir_slice policy, weir_top_of of, size_t k,
                             int64_t now_ns, weir_top *ret)
{
    size_t index;
    if (l->top.keys == 0)
        return WEIR_E_UNSUPPORTED;
    if (k < 1 || k > l->top.keys)
        return WEIR_E_RANGE;
    weir_top top = {.rows = port_zalloc(1, sizeof *top.rows)};
    if (!top.rows)
        return WEIR_E_NOMEM;
    weir_top_accuracy accuracy = {.sampling = 1, .complete = true};
    port_mutex_lock(l->lock);
    weir_status st = find_policy(l, policy, &index) ? WEIR_OK : WEIR_E_ABSENT;
    if (st == WEIR_OK)
        st = read_lists(l, index, of, top.rows, &accuracy);
    port_mutex_unlock(l->lock);
    if (st == WEIR_OK)
        st = merge(top.rows, k, now_ns, &top);
    if (st != WEIR_OK) {
        weir_top_free(&top);
        return st;
    }
    top.sampling = accuracy.sampling;
    top.complete = accuracy.complete;
    *ret = top;
    return WEIR_OK;
}

void weir_top_free(weir_top *t)
{
    for (size_t i = 0; i < t->rows->lists_len; i++)
        weir_space_saving_free(t->rows->lists[i]);
    port_free(t->rows->lists);
    port_free(t->rows->row);
    port_free(t->rows);
    port_free(t->key);
}
