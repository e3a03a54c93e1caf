/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads requests into one array, and sorts it in place by key. The memory of the array is mapped at
 * once and provided by the system as it is used. */

#include "cmd/suggest/suggest.h"

#include "accesslog/key_table.h"
#include "accesslog/messages.h"
#include "cmd/kit/units.h"
#include "port/assert.h"
#include "port/port.h"
#include "service/rules/rule.h"

#include <inttypes.h>

_Static_assert(sizeof(suggest_request) == 16, "the documented size of a request");

#define REQUESTS_MAX ((size_t)UINT32_MAX) /* so that a position fits into suggest_request.key */

static int complain_full(size_t requests_max, size_t memory_bytes)
{
    char size[24];
    return accesslog_complain(ACCESSLOG_FAILED,
                              "the log has more than %zu requests, which need more than %s; raise "
                              "--memory, or pass a part of the log",
                              requests_max, size_text(memory_bytes, size, sizeof size));
}

static int add(suggest_trace *t, accesslog_key_table *keys, const accesslog_request *request)
{
    weir_key_match match;
    weir_inline_policy_match(request->key.at, request->key.len, &match);
    accesslog_key *key = accesslog_key_table_at(keys, match.at, match.len);
    if (!key)
        return accesslog_complain_memory();
    if (t->len == 0)
        t->first_ns = request->now_ns;
    bool above = request->cost > WEIR_COST_MAX;
    uint64_t cost = (uint64_t)request->cost;
    t->last_ns = request->now_ns;
    t->over_cost += above;
    t->cost = t->cost > UINT64_MAX - cost ? UINT64_MAX : t->cost + cost;
    WEIR_ASSERT(request->now_ns >= t->first_ns && key->number < UINT32_MAX);
    suggest_request *r = &t->request[t->len++];
    *r = (suggest_request){.now_ns = request->now_ns,
                           .cost = above ? SUGGEST_COST_ABOVE : (uint32_t)cost,
                           .key = key->number};
    if (r->cost > 0) {
        t->mixed_costs |= t->some_cost > 0 && r->cost != t->some_cost;
        t->some_cost = r->cost;
    }
    return 0;
}

static int read_all(suggest_trace *t, accesslog *log, accesslog_key_table *keys,
                    size_t memory_bytes)
{
    accesslog_request request;
    accesslog_status got;
    size_t room = memory_bytes / sizeof *t->request;
    room = room < REQUESTS_MAX ? room : REQUESTS_MAX;
    while ((got = accesslog_next(log, &request)) == ACCESSLOG_REQUEST) {
        if (t->len == room) {
            accesslog_progress_erase(log);
            return complain_full(room, memory_bytes);
        }
        int status = add(t, keys, &request);
        if (status != 0)
            return status;
    }
    t->keys = (uint32_t)accesslog_key_table_count(keys);
    return got == ACCESSLOG_ERROR ? accesslog_exit_status(log) : 0;
}

/* Sorts the requests by key. Requests of one key stay in order, since each gets the next position
 * of its key. The array then holds a permutation, whose cycles are moved one by one. */
static int sort(suggest_trace *t)
{
    suggest_request *r = t->request;
    t->begin = port_zalloc((size_t)t->keys + 2, sizeof *t->begin);
    if (!t->begin)
        return accesslog_complain_memory();
    size_t *next = t->begin + 1; /* counts, then positions; shifted so that begin[] results */
    for (size_t i = 0; i < t->len; i++)
        next[r[i].key + 1]++;
    for (uint32_t k = 0; k < t->keys; k++)
        next[k + 1] += next[k];
    for (size_t i = 0; i < t->len; i++)
        r[i].key = (uint32_t)next[r[i].key]++;
    for (size_t i = 0; i < t->len; i++) {
        while (r[i].key != i) {
            suggest_request moved = r[i];
            r[i] = r[moved.key];
            WEIR_ASSERT(moved.key < t->len && moved.key != r[i].key);
            r[moved.key] = moved;
        }
    }
    return 0;
}

static int64_t split_time(const suggest_trace *t, int64_t hold_out)
{
    const int64_t all = 100 * SUGGEST_PERCENT;
    int64_t span_ns = t->last_ns - t->first_ns;
    int64_t held_ns = span_ns / all * hold_out + span_ns % all * hold_out / all;
    return held_ns > 0 ? t->last_ns - held_ns : INT64_MAX;
}

int suggest_trace_read(suggest_trace *ret, accesslog *log, size_t memory_bytes, int64_t hold_out)
{
    accesslog_key_table *keys = accesslog_key_table_open(sizeof(accesslog_key));
    ret->map_bytes = memory_bytes;
    ret->request = port_map(memory_bytes);
    int status =
        keys && ret->request ? read_all(ret, log, keys, memory_bytes) : accesslog_complain_memory();
    accesslog_key_table_close(keys);
    if (status == 0)
        status = sort(ret);
    if (status == 0)
        ret->split_ns = split_time(ret, hold_out);
    return status;
}

void suggest_trace_free(suggest_trace *t)
{
    port_unmap(t->request, t->map_bytes);
    port_free(t->begin);
}
