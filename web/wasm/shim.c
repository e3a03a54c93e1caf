/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The WebAssembly bindings: the core and the policy language as a wasm32 module without imports.
 * Policies, keys and their states are in linear memory. weir.mjs has their addresses, and passes
 * only addresses that it received from here and has not freed. Texts, the last error and the last
 * decision each have a fixed buffer. The host loads time zone data. The module is single-threaded.
 */

#include "shim.h"

#include <weir/weir_zone.h>

/* ---- memory ---------------------------------------------------------------------------------- */

/* The allocator has one free list for each size of 2^order bytes. An allocation fails if the memory
 * of the module is at its maximum (tools/build-wasm), or if the host does not grow it. */

enum { ORDER_MIN = 5, ORDER_MAX = 28, PAGE = 65536 };

typedef struct block { /* the header of an allocation, which keeps it aligned to 8 bytes */
    struct block *next;
    unsigned order;
} block;

_Static_assert(sizeof(block) == 8, "blocks keep 64-bit words aligned");

extern unsigned char __heap_base; /* set by the linker: the first byte after all objects */

static block *spare[ORDER_MAX + 1]; /* the free lists */
static uintptr_t top;               /* the end of all blocks; 0: there are none */

static bool memory_reaches(uintptr_t end)
{
    size_t have = __builtin_wasm_memory_size(0), need = (end + PAGE - 1) / PAGE;
    return need <= have || __builtin_wasm_memory_grow(0, need - have) != SIZE_MAX;
}

static block *block_cut(unsigned order)
{
    if (top == 0)
        top = ((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7;
    if (!memory_reaches(top + ((uintptr_t)1 << order)))
        return NULL;
    block *b = (block *)top;
    top += (uintptr_t)1 << order;
    b->order = order;
    return b;
}

/* Allocates uninitialised memory, aligned to 8 bytes. Returns NULL if there is none. */
EXPORT(void *, weir_web_alloc, size_t bytes)
{
    if (bytes > ((size_t)1 << ORDER_MAX) - sizeof(block))
        return NULL;
    unsigned order = ORDER_MIN;
    while ((size_t)1 << order < bytes + sizeof(block))
        order++;
    block *b = spare[order];
    if (b)
        spare[order] = b->next;
    else
        b = block_cut(order);
    return b ? b + 1 : NULL;
}

/* Frees memory from weir_web_alloc(). Accepts NULL. */
EXPORT(void, weir_web_release, void *bytes)
{
    if (!bytes)
        return;
    block *b = (block *)bytes - 1;
    b->next = spare[b->order];
    spare[b->order] = b;
}

/* ---- the fixed buffers ----------------------------------------------------------------------- */

static char text[WEIR_POLICY_REPORT_MAX]; /* texts from and to weir.mjs */
static weir_policy_error error;
static weir_decision decision;

_Static_assert(sizeof text >= WEIR_POLICY_TEXT_MAX, "a policy text fits");
_Static_assert(offsetof(weir_decision, limit) == 0 && offsetof(weir_decision, remaining) == 8 &&
                   offsetof(weir_decision, retry_after_ns) == 16 &&
                   offsetof(weir_decision, reset_after_ns) == 24 &&
                   offsetof(weir_decision, delay_ns) == 32 &&
                   offsetof(weir_decision, layer) == 40 && offsetof(weir_decision, allowed) == 44 &&
                   offsetof(weir_decision, never) == 45,
               "weir.mjs reads these offsets");
_Static_assert(WEIR_LIMIT_MAX <= INT32_MAX, "weir.mjs reads the low half of limit and remaining");

EXPORT(char *, weir_web_text_buffer, void)
{
    return text;
}

EXPORT(size_t, weir_web_text_size, void)
{
    return sizeof text;
}

EXPORT(weir_decision *, weir_web_decision_buffer, void)
{
    return &decision;
}

size_t weir_web_put_text(const char *s)
{
    size_t len = 0;
    for (; s[len] != '\0' && len < sizeof text; len++)
        text[len] = s[len];
    return len;
}

EXPORT(size_t, weir_web_status_text, weir_status st)
{
    return weir_web_put_text(weir_status_str(st));
}

/* ---- policies -------------------------------------------------------------------------------- */

typedef struct policy {
    weir_policy policy; /* the first member: view.c reads it */
    uint32_t zones;     /* at most one for each layer */
    weir_zone zone[WEIR_LAYERS_MAX];
    void *bytes[WEIR_LAYERS_MAX]; /* the zones' TZif files, from weir_web_alloc() */
    size_t missing_len;           /* 0: the last parse found every zone */
    char missing[WEIR_ZONE_NAME_MAX + 1];
} policy;

static bool same(const char *name, size_t len, const char *terminated)
{
    size_t i = 0;
    while (i < len && terminated[i] != '\0' && name[i] == terminated[i])
        i++;
    return i == len && terminated[i] == '\0';
}

/* A weir_zone_find callback. The parser passes only valid names. */
static const weir_zone *find_zone(void *ctx, const char *name, size_t len)
{
    policy *p = ctx;
    for (uint32_t i = 0; i < p->zones; i++) {
        if (same(name, len, p->zone[i].name))
            return &p->zone[i];
    }
    p->missing_len = len;
    for (size_t i = 0; i < len; i++)
        p->missing[i] = name[i];
    return NULL;
}

/* Allocates a policy. Parse it before any other use. Returns NULL if there is no memory. */
EXPORT(policy *, weir_web_policy_new, void)
{
    policy *p = weir_web_alloc(sizeof *p);
    if (p)
        p->zones = 0;
    return p;
}

EXPORT(void, weir_web_policy_free, policy *p)
{
    for (uint32_t i = 0; i < p->zones; i++)
        weir_web_release(p->bytes[i]);
    weir_web_release(p);
}

/* Parses the text buffer. On WEIR_E_ZONE, weir_web_zone_missing() may return the name of a zone to
 * add. */
EXPORT(weir_status, weir_web_policy_parse, policy *p, size_t len)
{
    weir_zones zones = {.find = find_zone, .ctx = p};
    p->missing_len = 0;
    return weir_policy_parse(&p->policy, text, len, &zones, &error);
}

/* Returns the column of the last error of any policy. */
EXPORT(uint32_t, weir_web_error_column, void)
{
    return error.column;
}

EXPORT(size_t, weir_web_error_text, void)
{
    return weir_web_put_text(error.text);
}

/* Writes the name of the zone that the last parse did not find to the text buffer. Returns its
 * length, or 0 if every zone was found. */
EXPORT(size_t, weir_web_zone_missing, const policy *p)
{
    for (size_t i = 0; i < p->missing_len; i++)
        text[i] = p->missing[i];
    return p->missing_len;
}

/* Adds the zone that the last parse did not find. On WEIR_OK the policy owns `bytes`, which are
 * from weir_web_alloc(). */
EXPORT(weir_status, weir_web_zone_add, policy *p, uint8_t *bytes, size_t len)
{
    if (p->zones == WEIR_LAYERS_MAX)
        return WEIR_E_FULL;
    weir_status st = weir_zone_read(&p->zone[p->zones], p->missing, p->missing_len, bytes, len);
    if (st == WEIR_OK)
        p->bytes[p->zones++] = bytes;
    return st;
}

/* Writes the canonical text to the text buffer. */
EXPORT(size_t, weir_web_policy_print, const policy *p)
{
    return weir_policy_print(&p->policy, text, sizeof text);
}

/* Writes the explanation of the policy to the text buffer. */
EXPORT(size_t, weir_web_policy_report, const policy *p)
{
    return weir_policy_report(&p->policy, text, sizeof text);
}

_Static_assert(offsetof(policy, policy) == 0, "view.c reads a policy at this address");

/* ---- keys ------------------------------------------------------------------------------------ */

typedef weir_web_key key;

/* A log of this level is too large to allocate. Below it, the words of 8 layers fit in 32 bits. */
enum { LEVEL_END = 23 };

_Static_assert((8ULL * 6 << LEVEL_END) > 1ULL << ORDER_MAX, "no block for a log of LEVEL_END");
_Static_assert(WEIR_LAYERS_MAX *(2 + (6ULL << LEVEL_END)) <= SIZE_MAX, "words do not wrap");

static uint64_t *state_alloc(const weir_policy *p, unsigned level)
{
    size_t words = weir_state_words(p, level);
    return words <= SIZE_MAX / sizeof(uint64_t) ? weir_web_alloc(words * sizeof(uint64_t)) : NULL;
}

EXPORT(void, weir_web_key_free, key *k)
{
    weir_web_release(k->state);
    weir_web_release(k);
}

/* Allocates a key with full quota. The policy must outlive it. Returns NULL if there is no memory.
 */
EXPORT(key *, weir_web_key_new, const policy *p)
{
    key *k = weir_web_alloc(sizeof *k);
    if (!k)
        return NULL;
    k->policy = &p->policy;
    k->level = 0;
    k->state = state_alloc(k->policy, 0);
    if (!k->state) {
        weir_web_key_free(k);
        return NULL;
    }
    size_t words = weir_state_words(k->policy, 0);
    for (size_t i = 0; i < words; i++)
        k->state[i] = 0;
    return k;
}

static weir_status key_grow(key *k)
{
    uint64_t *wider = k->level + 1 < LEVEL_END ? state_alloc(k->policy, k->level + 1) : NULL;
    if (!wider)
        return WEIR_E_NOMEM;
    weir_state_grow(k->policy, k->state, k->level, wider);
    weir_web_release(k->state);
    k->state = wider;
    k->level++;
    return WEIR_OK;
}

weir_status weir_web_decide(key *k, int64_t now_ns, int64_t cost, int64_t keep, weir_decision *ret)
{
    weir_status st = WEIR_OK;
    while (st == WEIR_OK) {
        st = weir_check_keep(k->policy, k->state, k->level, now_ns, cost, keep, ret);
        if (st != WEIR_E_ROOM)
            return st;
        st = key_grow(k);
    }
    return st;
}

/* Calls weir_check_keep() and sets the decision buffer. Returns WEIR_E_NOMEM, with nothing charged,
 * if a log cannot grow. */
EXPORT(weir_status, weir_web_key_take, key *k, int64_t now_ns, int32_t cost, int32_t keep)
{
    return weir_web_decide(k, now_ns, cost, keep, &decision);
}

/* Calls weir_refund(); otherwise like weir_web_key_take(). */
EXPORT(weir_status, weir_web_key_refund, key *k, int64_t now_ns, int32_t cost)
{
    weir_status st = WEIR_OK;
    while (st == WEIR_OK) {
        st = weir_refund(k->policy, k->state, k->level, now_ns, cost, &decision);
        if (st != WEIR_E_ROOM)
            return st;
        st = key_grow(k);
    }
    return st;
}

static int64_t over; /* of the latest charge */

EXPORT(int32_t, weir_web_over, void)
{
    return (int32_t)over;
}

/* Calls weir_charge(), and sets what weir_web_over() returns; otherwise as weir_web_key_take(). */
EXPORT(weir_status, weir_web_key_charge, key *k, int64_t now_ns, int32_t cost)
{
    weir_status st = WEIR_OK;
    while (st == WEIR_OK) {
        st = weir_charge(k->policy, k->state, k->level, now_ns, cost, &decision, &over);
        if (st != WEIR_E_ROOM)
            return st;
        st = key_grow(k);
    }
    return st;
}
