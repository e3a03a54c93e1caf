/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Key patterns: one hash table with linear probing for whole keys, prefixes and networks, and the
 * list of lengths that occur of each kind. Clients choose the keys of lookups, so the hash is
 * keyed. */

#include "service/rules/key_patterns.h"

#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"
#include "store/siphash.h"

#include <weir/weir_store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { WHOLE, PREFIX, NET4, NET6, KINDS };

typedef struct slot {
    char *bytes; /* NULL: free */
    size_t len;
    enum kind kind;
    uint32_t value;
} slot;

typedef struct lengths { /* in bytes of a prefix, or bits of a network; longest first */
    unsigned *at;
    size_t len, capacity;
} lengths;

struct weir_key_patterns {
    weir_secret secret;
    size_t slots_len; /* a power of two, at least twice the entries: a pattern has one or two */
    slot *slots;
    lengths lengths[KINDS];
};

weir_key_patterns *weir_key_patterns_new(size_t n)
{
    weir_key_patterns *p = port_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->slots_len = 4;
    while (p->slots_len < 4 * n)
        p->slots_len *= 2;
    p->slots = port_zalloc(p->slots_len, sizeof *p->slots);
    if (!p->slots || port_random(&p->secret, sizeof p->secret) != WEIR_OK) {
        weir_key_patterns_free(p);
        return NULL;
    }
    return p;
}

void weir_key_patterns_free(weir_key_patterns *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->slots && i < p->slots_len; i++)
        port_free(p->slots[i].bytes);
    for (int kind = 0; kind < KINDS; kind++)
        free(p->lengths[kind].at);
    port_free(p->slots);
    port_free(p);
}

/* Returns the slot of an entry, or the free slot where it would be inserted. */
static slot *find_slot(const weir_key_patterns *p, enum kind kind, const void *bytes, size_t len)
{
    WEIR_ASSERT((p->slots_len & (p->slots_len - 1)) == 0);
    weir_secret secret = {p->secret.k0 + kind, p->secret.k1};
    size_t i = weir_siphash(secret, bytes, len) & (p->slots_len - 1);
    for (;; i = (i + 1) & (p->slots_len - 1)) {
        slot *s = &p->slots[i];
        if (!s->bytes || (s->kind == kind && s->len == len && memcmp(s->bytes, bytes, len) == 0))
            return s;
    }
}

static bool add_length(lengths *l, unsigned length)
{
    size_t at = 0;
    while (at < l->len && l->at[at] > length)
        at++;
    if (at < l->len && l->at[at] == length)
        return true;
    if (l->len == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 4;
        unsigned *wider = realloc(l->at, capacity * sizeof *wider);
        if (!wider)
            return false;
        l->at = wider;
        l->capacity = capacity;
    }
    WEIR_ASSERT(l->len < l->capacity);
    memmove(&l->at[at + 1], &l->at[at], (l->len - at) * sizeof *l->at);
    l->at[at] = length;
    l->len++;
    WEIR_ASSERT((at == 0 || l->at[at - 1] > length) &&
                (at + 1 == l->len || length > l->at[at + 1]));
    return true;
}

/*  length  the length with which a search finds the entry. */
static weir_status add_entry(weir_key_patterns *p, enum kind kind, const void *bytes, size_t len,
                             unsigned length, uint32_t value)
{
    slot *s = find_slot(p, kind, bytes, len);
    if (s->bytes)
        return s->value == value ? WEIR_OK : WEIR_E_SYNTAX;
    char *copy = port_zalloc(1, len + 1);
    if (!copy || !add_length(&p->lengths[kind], length)) {
        port_free(copy);
        return WEIR_E_NOMEM;
    }
    memcpy(copy, bytes, len);
    *s = (slot){copy, len, kind, value};
    return WEIR_OK;
}

/* Writes the key of a network in the table: the address, and the number of bits. */
static size_t net_bytes(const weir_address *a, unsigned bits, uint8_t *ret)
{
    WEIR_ASSERT(bits <= weir_address_bits(a));
    size_t n = weir_address_bits(a) / 8;
    memcpy(ret, a->bytes, n);
    ret[n] = (uint8_t)bits;
    return n + 1;
}

static weir_status add_net(weir_key_patterns *p, weir_address a, unsigned bits, uint32_t value)
{
    uint8_t bytes[17];
    return add_entry(p, a.v6 ? NET6 : NET4, bytes, net_bytes(&a, bits, bytes), bits, value);
}

/* Reads the number of bits after the slash. Those of an IPv4-mapped network count from the start of
 * the IPv6 address. */
static bool read_bits(const char *text, const weir_address *a, bool mapped, unsigned *ret)
{
    uint64_t n;
    size_t len = strlen(text);
    if ((len > 1 && text[0] == '0') ||
        !weir_decimal_read(text, len, mapped ? 128 : weir_address_bits(a), &n) ||
        (mapped && n < 96))
        return false;
    *ret = (unsigned)(mapped ? n - 96 : n);
    return true;
}

static weir_status parse_net(weir_key_patterns *p, const char *pattern, const char *slash,
                             weir_address a, uint32_t value, char *ret_why, size_t size)
{
    bool mapped = !a.v6 && memchr(pattern, ':', (size_t)(slash - pattern));
    unsigned bits;
    if (!read_bits(slash + 1, &a, mapped, &bits)) {
        snprintf(ret_why, size, "'%s' is not a network: expected /%d to /%u after the address",
                 pattern, mapped ? 96 : 0, mapped ? 128 : weir_address_bits(&a));
        return WEIR_E_SYNTAX;
    }
    if (weir_address_mask(&a, bits)) {
        char net[WEIR_ADDRESS_TEXT_MAX];
        int len = (int)weir_address_print(&a, bits, net);
        snprintf(ret_why, size, "'%s' has bits set after its /%s, expected %.*s", pattern,
                 slash + 1, len, net);
        return WEIR_E_SYNTAX;
    }
    return add_net(p, a, bits, value);
}

/* Reads a prefix of whole octets, such as "192.0.2.*", as a network. */
static bool read_octets(const char *pattern, size_t len, weir_address *ret, unsigned *ret_bits)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    unsigned octets = 0;
    for (size_t i = 0; i < len; i++)
        octets += pattern[i] == '.';
    if (octets < 1 || octets > 3 || len < 4 || len > 14 || strcmp(pattern + len - 2, ".*") != 0)
        return false;
    int n = snprintf(text, sizeof text, "%.*s%s", (int)len - 1, pattern, &"0.0.0"[2 * octets - 2]);
    *ret_bits = 8 * octets;
    return weir_address_parse(ret, text, (size_t)n);
}

/* Adds a pattern of addresses.
 *  ret_done  whether it is one, and nothing else. */
static weir_status add_addresses(weir_key_patterns *p, const char *pattern, size_t len, bool plain,
                                 uint32_t value, bool *ret_done, char *ret_why, size_t size)
{
    const char *slash = strchr(pattern, '/');
    weir_address a;
    unsigned bits;
    *ret_done = false;
    if (read_octets(pattern, len, &a, &bits))
        return add_net(p, a, bits, value);
    if (!weir_address_parse(&a, pattern, slash ? (size_t)(slash - pattern) : len))
        return WEIR_OK;
    if (slash && slash[1] != '\0' && (slash[1] < '0' || slash[1] > '9'))
        return WEIR_OK; /* an address and more, as in a key of several parts */
    *ret_done = !plain;
    return slash ? parse_net(p, pattern, slash, a, value, ret_why, size)
                 : add_net(p, a, weir_address_bits(&a), value);
}

static weir_status add_text(weir_key_patterns *p, const char *pattern, size_t len, uint32_t value,
                            char *ret_why, size_t size)
{
    if (memchr(pattern, '*', len - 1)) {
        snprintf(ret_why, size,
                 "'%.100s' has a '*' before its end: expected a whole key, or a "
                 "prefix and '*'",
                 pattern);
        return WEIR_E_SYNTAX;
    }
    if (pattern[len - 1] == '*')
        return add_entry(p, PREFIX, pattern, len - 1, (unsigned)len - 1, value);
    return add_entry(p, WHOLE, pattern, len, 0, value);
}

weir_status weir_key_patterns_add(weir_key_patterns *p, const char *pattern, bool plain,
                                  uint32_t value, char *ret_why, size_t size)
{
    size_t len = strlen(pattern);
    bool done;
    if (len == 0 || len > WEIR_KEY_MAX) {
        snprintf(ret_why, size, "a pattern has 1 to %d bytes, this one has %zu", WEIR_KEY_MAX, len);
        return WEIR_E_SYNTAX;
    }
    /* The message for an error of add_entry(), which does not know the pattern. Other errors
     * overwrite it. */
    snprintf(ret_why, size, "'%.100s' matches the same keys as another entry", pattern);
    weir_status st = add_addresses(p, pattern, len, plain, value, &done, ret_why, size);
    return st != WEIR_OK || done ? st : add_text(p, pattern, len, value, ret_why, size);
}

bool weir_key_pattern_net(const char *pattern, weir_address *ret, unsigned *ret_bits)
{
    size_t len = strlen(pattern);
    const char *slash = strchr(pattern, '/');
    size_t address_len = slash ? (size_t)(slash - pattern) : len;
    weir_address a;
    if (read_octets(pattern, len, ret, ret_bits))
        return true;
    if (!weir_address_parse(&a, pattern, address_len))
        return false;
    bool mapped = !a.v6 && memchr(pattern, ':', address_len);
    unsigned bits = weir_address_bits(&a);
    if (slash && !read_bits(slash + 1, &a, mapped, &bits))
        return false;
    *ret = a;
    *ret_bits = bits;
    return true;
}

static bool find_prefix(const weir_key_patterns *p, const char *key, size_t len, uint32_t *ret)
{
    const lengths *l = &p->lengths[PREFIX];
    for (size_t i = 0; i < l->len; i++) {
        const slot *s = l->at[i] <= len ? find_slot(p, PREFIX, key, l->at[i]) : NULL;
        if (s && s->bytes) {
            *ret = s->value;
            return true;
        }
    }
    return false;
}

static bool find_net(const weir_key_patterns *p, weir_address a, uint32_t *ret)
{
    const lengths *l = &p->lengths[a.v6 ? NET6 : NET4];
    for (size_t i = 0; i < l->len; i++) {
        uint8_t bytes[17];
        weir_address_mask(&a, l->at[i]);
        const slot *s = find_slot(p, a.v6 ? NET6 : NET4, bytes, net_bytes(&a, l->at[i], bytes));
        if (s->bytes) {
            *ret = s->value;
            return true;
        }
    }
    return false;
}

bool weir_key_patterns_find(const weir_key_patterns *p, const char *key, size_t len,
                            const weir_address *address, uint32_t *ret)
{
    if (p->lengths[WHOLE].len > 0) {
        const slot *s = find_slot(p, WHOLE, key, len);
        if (s->bytes) {
            *ret = s->value;
            return true;
        }
    }
    return find_prefix(p, key, len, ret) || (address && find_net(p, *address, ret));
}

/* ---- patterns within others ------------------------------------------------------------------ */

/* Whether the set has an entry of a length up to `most` that is the beginning of a text. */
static bool has_prefix(const weir_key_patterns *p, const char *text, size_t most)
{
    const lengths *l = &p->lengths[PREFIX];
    bool found = false;
    for (size_t i = 0; i < l->len && !found; i++)
        found = l->at[i] <= most && find_slot(p, PREFIX, text, l->at[i])->bytes;
    return found;
}

/* Whether the set has a network of at most `most` bits with this address. */
static bool has_net(const weir_key_patterns *p, weir_address a, unsigned most)
{
    const lengths *l = &p->lengths[a.v6 ? NET6 : NET4];
    bool found = false;
    for (size_t i = 0; i < l->len && !found; i++) {
        uint8_t bytes[17];
        weir_address_mask(&a, l->at[i]);
        found = l->at[i] <= most &&
                find_slot(p, a.v6 ? NET6 : NET4, bytes, net_bytes(&a, l->at[i], bytes))->bytes;
    }
    return found;
}

static bool covers_text(const weir_key_patterns *p, const char *pattern, bool strict)
{
    size_t len = strlen(pattern);
    if (pattern[len - 1] == '*')
        return strict ? len > 1 && has_prefix(p, pattern, len - 2)
                      : has_prefix(p, pattern, len - 1);
    return has_prefix(p, pattern, len) || (!strict && find_slot(p, WHOLE, pattern, len)->bytes);
}

static bool covers_net(const weir_key_patterns *p, const weir_address *a, unsigned bits, bool plain,
                       bool strict)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    size_t len = weir_address_print(a, weir_address_bits(a), text);
    bool single = !plain && bits == weir_address_bits(a);
    return (!(strict && bits == 0) && has_net(p, *a, bits - strict)) ||
           has_prefix(p, text, single ? len : 0);
}

bool weir_key_patterns_cover(const weir_key_patterns *p, const char *pattern, bool plain,
                             bool strict)
{
    weir_address a;
    unsigned bits;
    bool is_net = weir_key_pattern_net(pattern, &a, &bits);
    return (!is_net || covers_net(p, &a, bits, plain, strict)) &&
           ((is_net && !plain) || covers_text(p, pattern, strict));
}
