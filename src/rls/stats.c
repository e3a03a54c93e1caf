/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The names of statistics and their counters. Loops find names without a lock, and write counters
 * of their own; readers add the counters of all loops up. */

#include "rls/internal.h"
#include "store/siphash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * RLS_NAMES_MAX };

struct rls_name {
    uint32_t len, domain_len; /* equal: the name of an unknown domain */
    char text[];
};

/* ---- sanitising ------------------------------------------------------------------------------ */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The length of an IPv4 address at the front of a text: four groups of 1 to 3 digits. 0: none. */
static size_t address_len(const char *text, size_t len)
{
    size_t at = 0;
    for (int group = 0; group < 4; group++) {
        size_t digits = 0;
        if (group > 0 && (at == len || text[at++] != '.'))
            return 0;
        while (at < len && digits < 3 && is_digit(text[at])) {
            at++;
            digits++;
        }
        if (digits == 0)
            return 0;
    }
    return at;
}

void rls_sanitise(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ':' || text[i] == '|' || (unsigned char)text[i] < ' ' || text[i] == '\x7f')
            text[i] = '_';
    }
    for (size_t i = 0; i < len;) {
        size_t n = is_digit(text[i]) ? address_len(text + i, len - i) : 0;
        for (size_t k = 0; k < n; k++) {
            if (text[i + k] == '.')
                text[i + k] = '_';
        }
        i += n > 0 ? n : 1;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t hash(const char *text, size_t len, bool is_domain)
{
    static const weir_secret secret = {0x7265697720736c72, 0x736d616e2073746f};
    return weir_siphash(secret, text, len) + is_domain;
}

/* The slot of a name, or the empty slot where it belongs. */
static size_t slot_of(const rls_names *n, const char *text, size_t len, size_t domain_len,
                      uint32_t *ret)
{
    bool is_domain = len == domain_len;
    size_t at = hash(text, len, is_domain) % SLOTS;
    *ret = RLS_NO_NAME;
    for (;; at = (at + 1) % SLOTS) {
        uint64_t slot = port_word_load_acquire(&n->slots[at]);
        const rls_name *name = slot > 0 ? n->name[slot - 1] : NULL;
        if (!name)
            break;
        if (name->len == len && (name->len == name->domain_len) == is_domain &&
            memcmp(name->text, text, len) == 0) {
            *ret = (uint32_t)slot - 1;
            break;
        }
    }
    return at;
}

uint32_t rls_names_find(const rls_names *n, const char *text, size_t len, size_t domain_len)
{
    uint32_t at;
    slot_of(n, text, len, domain_len, &at);
    return at;
}

uint32_t rls_names_add(rls_names *n, const char *text, size_t len, size_t domain_len, bool dynamic)
{
    uint32_t at;
    size_t slot = slot_of(n, text, len, domain_len, &at);
    if (at != RLS_NO_NAME)
        return at;
    if (n->len == RLS_NAMES_MAX || (dynamic && n->dynamic == RLS_DYNAMIC_MAX))
        return RLS_NO_NAME;
    rls_name *name = port_zalloc(1, sizeof *name + len);
    if (!name)
        return RLS_NO_NAME;
    name->len = (uint32_t)len;
    name->domain_len = (uint32_t)domain_len;
    memcpy(name->text, text, len);
    n->name[n->len] = name;
    n->dynamic += dynamic;
    port_store_relaxed(&n->full, n->dynamic == RLS_DYNAMIC_MAX);
    port_word_store_release(&n->slots[slot], ++n->len);
    return (uint32_t)n->len - 1;
}

void rls_names_add_config(rls_names *n, weir_rls_config *c)
{
    for (size_t i = 0; i < c->nodes_len; i++) {
        rls_limit *limit = c->nodes[i].limit;
        char text[RLS_STAT_MAX];
        if (!limit)
            continue;
        limit->stat = RLS_OTHER_LIMITS;
        if (limit->full_key.len > sizeof text)
            continue;
        memcpy(text, limit->full_key.at, limit->full_key.len);
        size_t end = limit->full_key.len;
        for (const rls_node *up = &c->nodes[i]; up->parent != 0; up = &c->nodes[up->parent]) {
            rls_replace_dots(&c->options, text + end - up->text.len, up->text.len);
            end -= up->text.len + 1; /* what is left in the end is the domain */
        }
        rls_sanitise(text, limit->full_key.len);
        uint32_t at = rls_names_add(n, text, limit->full_key.len, limit->domain_len, false);
        if (at != RLS_NO_NAME)
            limit->stat = at;
    }
}

bool rls_names_open(rls_names *n)
{
    static const char others[] = "(others)";
    n->name = port_zalloc(RLS_NAMES_MAX, sizeof(rls_name *));
    n->slots = port_zalloc(SLOTS, sizeof *n->slots);
    n->readers = port_mutex_new();
    if (!n->name || !n->slots || !n->readers)
        return false;
    return rls_names_add(n, others, 8, 8, false) == RLS_OTHER_DOMAINS &&
           rls_names_add(n, others, 8, 0, false) == RLS_OTHER_LIMITS;
}

void rls_names_close(rls_names *n)
{
    for (size_t i = 0; i < n->len; i++)
        port_free(n->name[i]);
    port_free(n->name);
    port_free(n->slots);
    port_free(n->rows);
    port_mutex_free(n->readers);
}

uint32_t rls_dynamic_name(weir_rls_loop *l, char *text, size_t len, size_t domain_len,
                          uint32_t otherwise)
{
    weir_rls *r = l->shared;
    uint32_t at = RLS_NO_NAME;
    if (len > 0 && len <= RLS_STAT_MAX) {
        rls_sanitise(text, len);
        at = rls_names_find(&r->names, text, len, domain_len);
        if (at == RLS_NO_NAME && !port_load_relaxed(&r->names.full)) {
            port_mutex_lock(r->lock);
            at = rls_names_add(&r->names, text, len, domain_len, true);
            port_mutex_unlock(r->lock);
        }
    }
    if (at != RLS_NO_NAME)
        return at;
    port_bump_relaxed(&l->own[RLS_NOT_STORED], 1);
    return otherwise;
}

/* ---- counters -------------------------------------------------------------------------------- */

rls_counters *rls_counters_add(weir_rls_loop *l, uint32_t name)
{
    rls_counters *chunk = port_zalloc(RLS_CHUNK, sizeof *chunk);
    if (!chunk)
        return &l->lost;
    port_mutex_lock(l->shared->lock);
    l->counters.chunk[name / RLS_CHUNK] = chunk;
    port_mutex_unlock(l->shared->lock);
    return &chunk[name % RLS_CHUNK];
}

void rls_count_unknown_domain(weir_rls_loop *l, weir_slice domain, size_t n)
{
    size_t len = domain.len <= RLS_STAT_MAX ? domain.len : 0;
    memcpy(l->scratch, domain.at, len);
    uint32_t at = rls_dynamic_name(l, l->scratch, len, len, RLS_OTHER_DOMAINS);
    port_bump_relaxed(&rls_counters_of(l, at)->count[0], n);
}

static uint64_t sum_of(const weir_rls *r, uint32_t name, int which)
{
    uint64_t sum = 0;
    const rls_counters *closed = r->closed.chunk[name / RLS_CHUNK];
    if (closed)
        sum = port_load_relaxed(&closed[name % RLS_CHUNK].count[which]);
    for (const weir_rls_loop *l = r->loops; l; l = l->next) {
        const rls_counters *chunk = l->counters.chunk[name / RLS_CHUNK];
        if (chunk)
            sum += port_load_relaxed(&chunk[name % RLS_CHUNK].count[which]);
    }
    return sum;
}

/* ---- reading --------------------------------------------------------------------------------- */

#define RATE_LIMIT "ratelimit.service.rate_limit."

/* A statistic of a name. */
typedef struct rls_row {
    const rls_name *name;
    uint32_t index; /* of the name */
    int which;      /* a counter; RLS_COUNTS: over_limit_with_local_cache, which is always 0 */
} rls_row;

static const char *const words[RLS_COUNTS + 1] = {
    [RLS_TOTAL_HITS] = "total_hits",   [RLS_OVER_LIMIT] = "over_limit",
    [RLS_NEAR_LIMIT] = "near_limit",   [RLS_WITHIN_LIMIT] = "within_limit",
    [RLS_SHADOW_MODE] = "shadow_mode", [RLS_COUNTS] = "over_limit_with_local_cache",
};

static const char *word_of(const rls_row *row)
{
    return row->name->len == row->name->domain_len ? "domain_not_found" : words[row->which];
}

/* The i-th byte of "NAME.WORD"; 0 after its end. */
static unsigned char byte_at(const rls_row *row, size_t i)
{
    size_t len = row->name->len;
    if (i < len)
        return (unsigned char)row->name->text[i];
    if (i == len)
        return '.';
    const char *word = word_of(row);
    return i - len - 1 < strlen(word) ? (unsigned char)word[i - len - 1] : 0;
}

static int by_name(const void *a, const void *b)
{
    const rls_row *x = a, *y = b;
    size_t i = x->name->len < y->name->len ? x->name->len : y->name->len;
    int order = memcmp(x->name->text, y->name->text, i);
    if (order != 0)
        return order;
    while (byte_at(x, i) != 0 && byte_at(x, i) == byte_at(y, i))
        i++;
    return byte_at(x, i) - byte_at(y, i);
}

/* Makes the rows of all names. The caller holds the lock for readers. */
static void make_rows(weir_rls *r)
{
    rls_names *n = &r->names;
    port_mutex_lock(r->lock);
    size_t len = n->len;
    port_mutex_unlock(r->lock);
    rls_row *rows = len == n->rows_names ? NULL : port_zalloc(len * (RLS_COUNTS + 1), sizeof *rows);
    if (!rows)
        return; /* the rows are complete, or stay as they are */
    port_free(n->rows);
    n->rows = rows;
    n->rows_len = 0;
    n->rows_names = len;
    for (uint32_t i = 0; i < len; i++) {
        int counters = n->name[i]->len == n->name[i]->domain_len ? 1 : RLS_COUNTS + 1;
        for (int which = 0; which < counters; which++)
            rows[n->rows_len++] = (rls_row){n->name[i], i, which};
    }
    qsort(rows, n->rows_len, sizeof *rows, by_name);
}

typedef struct reader {
    weir_rls *rls;
    void (*fn)(void *ctx, const weir_rls_stat *stat);
    void *ctx;
} reader;

static void report_row(const reader *to, const rls_row *row)
{
    char text[sizeof RATE_LIMIT + RLS_STAT_MAX + 64];
    const char *word = word_of(row);
    size_t begin = sizeof RATE_LIMIT - 1, len = row->name->len, domain = row->name->domain_len;
    snprintf(text, sizeof text, "%s%.*s.%s", RATE_LIMIT, (int)len, row->name->text, word);
    weir_rls_stat stat = {.name = text,
                          .domain = {text + begin, domain},
                          .what = {text + begin + len + 1, strlen(word)}};
    if (len > domain)
        stat.key = (weir_slice){text + begin + domain + 1, len - domain - 1};
    if (domain == 0)
        stat.key = (weir_slice){text + begin, len};
    if (row->which < RLS_COUNTS) {
        port_mutex_lock(to->rls->lock);
        stat.value = sum_of(to->rls, row->index, row->which);
        port_mutex_unlock(to->rls->lock);
    }
    if (row->index >= 2 || stat.value > 0) /* "(others)" only if it is needed */
        to->fn(to->ctx, &stat);
}

static void report_own(const reader *to, const char *name, uint64_t value)
{
    const char *what = strrchr(name, '.') + 1;
    weir_rls_stat stat = {.name = name, .what = {what, strlen(what)}, .value = value};
    to->fn(to->ctx, &stat);
}

static void sum_own(weir_rls *r, uint64_t ret[RLS_LOOP_COUNTS])
{
    port_mutex_lock(r->lock);
    for (int i = 0; i < RLS_LOOP_COUNTS; i++) {
        ret[i] = r->closed_own[i];
        for (const weir_rls_loop *l = r->loops; l; l = l->next)
            ret[i] += port_load_relaxed(&l->own[i]);
    }
    port_mutex_unlock(r->lock);
}

void weir_rls_each_stat(weir_rls *r, void (*fn)(void *ctx, const weir_rls_stat *stat), void *ctx)
{
    const reader to = {r, fn, ctx};
    uint64_t own[RLS_LOOP_COUNTS];
    sum_own(r, own);
#define CALL "ratelimit.service.call.should_rate_limit."
    report_own(&to, CALL "redis_error", own[RLS_ENGINE_ERRORS]);
    report_own(&to, CALL "service_error", own[RLS_SERVICE_ERRORS]);
    report_own(&to, "ratelimit.service.config_load_error", port_load_relaxed(&r->refused));
    report_own(&to, "ratelimit.service.config_load_success", port_load_relaxed(&r->loaded));
    report_own(&to, "ratelimit.service.global_shadow_mode", own[RLS_GLOBAL_SHADOW]);
    port_mutex_lock(r->names.readers);
    make_rows(r);
    for (size_t i = 0; i < r->names.rows_len; i++)
        report_row(&to, &r->names.rows[i]);
    port_mutex_unlock(r->names.readers);
    report_own(&to, "ratelimit.service.stat_names_not_stored", own[RLS_NOT_STORED]);
    report_own(&to, "ratelimit_server.ShouldRateLimit.total_requests", own[RLS_REQUESTS]);
}
