/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The requests are in a ring, sorted by time. A short key is stored in its entry; a longer one is
 * allocated. */

#include "cmd/accesslog/reorder.h"

#include "port/assert.h"
#include "port/port.h"

#include <string.h>

enum { CAPACITY_MIN = 256 };

void accesslog_reorder_init(accesslog_reorder *r, int64_t delay_ns, size_t len_max,
                            size_t bytes_max)
{
    *r = (accesslog_reorder){.delay_ns = delay_ns, .len_max = len_max, .bytes_max = bytes_max};
}

static accesslog_held *at(const accesslog_reorder *r, size_t i)
{
    return &r->ring[(r->first + i) & (r->capacity - 1)];
}

/* ---- keys ------------------------------------------------------------------------------------ */

static char *long_key(const accesslog_held *held)
{
    char *ret;
    memcpy(&ret, held->key, sizeof ret);
    return ret;
}

weir_slice accesslog_held_key(const accesslog_held *held)
{
    const char *key = held->key_len > ACCESSLOG_HELD_INLINE ? long_key(held) : held->key;
    return (weir_slice){key, held->key_len};
}

static weir_status set_key(accesslog_held *held, const char *key, size_t len)
{
    held->key_len = (uint32_t)len;
    if (len <= ACCESSLOG_HELD_INLINE) {
        memcpy(held->key, key, len);
        return WEIR_OK;
    }
    char *copy = port_zalloc(1, len);
    if (!copy)
        return WEIR_E_NOMEM;
    memcpy(copy, key, len);
    memcpy(held->key, &copy, sizeof copy);
    return WEIR_OK;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static weir_status grow(accesslog_reorder *r)
{
    size_t wider = r->capacity ? 2 * r->capacity : CAPACITY_MIN;
    accesslog_held *ring = port_zalloc(wider, sizeof *ring);
    if (!ring)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < r->len; i++)
        ring[i] = *at(r, i);
    port_free(r->ring);
    r->ring = ring;
    r->capacity = wider;
    r->first = 0;
    return WEIR_OK;
}

weir_status accesslog_reorder_add(accesslog_reorder *r, const weir_log_record *record,
                                  uint64_t line)
{
    accesslog_held held = {.t_ns = record->t_ns, .cost = record->cost, .line = line};
    WEIR_ASSERT(!accesslog_reorder_ready(r) && !r->ended);
    if (r->len == r->capacity && grow(r) != WEIR_OK)
        return WEIR_E_NOMEM;
    if (set_key(&held, record->key, record->key_len) != WEIR_OK)
        return WEIR_E_NOMEM;
    size_t i = r->len++;
    for (; i > 0 && at(r, i - 1)->t_ns > held.t_ns; i--)
        *at(r, i) = *at(r, i - 1);
    *at(r, i) = held;
    r->bytes += held.key_len > ACCESSLOG_HELD_INLINE ? held.key_len : 0;
    r->latest_ns = held.t_ns > r->latest_ns ? held.t_ns : r->latest_ns;
    return WEIR_OK;
}

void accesslog_reorder_end(accesslog_reorder *r)
{
    r->ended = true;
}

const accesslog_held *accesslog_reorder_ready(const accesslog_reorder *r)
{
    if (r->len == 0)
        return NULL;
    const accesslog_held *first = at(r, 0);
    bool ready = r->latest_ns - first->t_ns >= r->delay_ns || r->len >= r->len_max ||
                 r->bytes >= r->bytes_max || r->ended;
    return ready ? first : NULL;
}

void accesslog_reorder_remove(accesslog_reorder *r)
{
    WEIR_ASSERT(r->len > 0);
    accesslog_held *held = at(r, 0);
    if (held->key_len > ACCESSLOG_HELD_INLINE) {
        r->bytes -= held->key_len;
        port_free(long_key(held));
    }
    r->first = (r->first + 1) & (r->capacity - 1);
    r->len--;
}

void accesslog_reorder_free(accesslog_reorder *r)
{
    while (r->len > 0)
        accesslog_reorder_remove(r);
    port_free(r->ring);
    *r = (accesslog_reorder){0};
}
