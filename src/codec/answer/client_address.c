/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The address of a client behind trusted proxies. A list is read element by element from its right
 * end, and only as far as trusted proxies wrote it. What a client sent is on the left of what the
 * first proxy appended, so it cannot change how that part is split: the scan for the beginning of
 * an element starts outside quotes, at the end of text that a proxy wrote. */

#include "codec/answer/client_address.h"

#include "port/assert.h"

#include <string.h>
#include <strings.h>

enum { PORT_MAX = 65535, HOPS_MAX = 64 }; /* elements that are read of one header */

/* ---- networks -------------------------------------------------------------------------------- */

bool weir_network_parse(weir_network *ret, const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    size_t address_len = slash ? (size_t)(slash - text) : len;
    weir_network n;
    if (!weir_address_parse(&n.address, text, address_len))
        return false;
    uint64_t most = weir_address_bits(&n.address), bits = most;
    if (slash && memchr(text, ':', address_len))
        most = bits = 128; /* an IPv4-mapped address has the bits of IPv6 */
    if (slash && !weir_decimal_read(slash + 1, len - address_len - 1, most, &bits))
        return false;
    if (most > weir_address_bits(&n.address)) {
        if (bits < 96)
            return false;
        bits -= 96;
    }
    n.bits = (unsigned)bits;
    if (weir_address_mask(&n.address, n.bits))
        return false;
    *ret = n;
    return true;
}

static bool network_has(const weir_network *n, const weir_address *a)
{
    size_t bytes = n->bits / 8;
    unsigned rest = n->bits % 8;
    WEIR_ASSERT(n->bits <= weir_address_bits(&n->address));
    if (n->address.v6 != a->v6 || memcmp(n->address.bytes, a->bytes, bytes) != 0)
        return false;
    return rest == 0 || ((n->address.bytes[bytes] ^ a->bytes[bytes]) >> (8 - rest)) == 0;
}

bool weir_trusted_proxies_have(const weir_trusted_proxies *t, const weir_address *a)
{
    for (size_t i = 0; i < t->len; i++) {
        if (network_has(&t->at[i], a))
            return true;
    }
    return false;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* ":4711", or an obfuscated port such as ":_x" (RFC 7239, 6). */
static bool is_port(const char *at, size_t len)
{
    static const char obfuscated[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-";
    uint64_t port;
    if (len < 2 || at[0] != ':')
        return false;
    if (at[1] != '_')
        return len <= 6 && weir_decimal_read(at + 1, len - 1, PORT_MAX, &port);
    for (size_t i = 2; i < len; i++) {
        if (at[i] == '\0' || !strchr(obfuscated, at[i]))
            return false;
    }
    return len > 2;
}

/* Reads "192.0.2.7", "2001:db8::7" or "[2001:db8::7]", the first and the last also with a port. */
static bool read_node(weir_slice s, weir_address *ret)
{
    if (s.len > 0 && s.at[0] == '[') {
        const char *end = memchr(s.at, ']', s.len);
        size_t len = end ? (size_t)(end - s.at) : 0, rest = end ? s.len - len - 1 : 0;
        return end && memchr(s.at, ':', len) && (rest == 0 || is_port(end + 1, rest)) &&
               weir_address_parse(ret, s.at + 1, len - 1);
    }
    const char *colon = memchr(s.at, ':', s.len);
    if (!colon || memchr(colon + 1, ':', s.len - (size_t)(colon - s.at) - 1))
        return weir_address_parse(ret, s.at, s.len);
    size_t len = (size_t)(colon - s.at);
    return is_port(colon, s.len - len) && weir_address_parse(ret, s.at, len);
}

/* ---- Forwarded ------------------------------------------------------------------------------- */

/* The number of backslashes before position i. */
static size_t backslashes(const char *at, size_t i)
{
    size_t n = 0;
    while (n < i && at[i - n - 1] == '\\')
        n++;
    return n;
}

/* Returns the offset of the quote that opens the string whose closing quote is at `close`; SIZE_MAX
 * if there is none. In a quoted string, a quote has a backslash before it, and a backslash too, so
 * an odd number of backslashes escapes a quote. */
static size_t opening_quote(const char *at, size_t close)
{
    for (size_t i = close; i-- > 0;) {
        if (at[i] == '"' && backslashes(at, i) % 2 == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Returns the offset of the last element of a list of `len` bytes, after its comma; 0: the list has
 * one element; SIZE_MAX: its quotes are unbalanced. */
static size_t last_element(weir_client_header kind, const char *at, size_t len)
{
    for (size_t i = len; i-- > 0;) {
        if (at[i] == ',')
            return i + 1;
        if (kind == WEIR_CLIENT_FORWARDED && at[i] == '"') {
            i = opening_quote(at, i);
            if (i == SIZE_MAX)
                return SIZE_MAX;
        }
    }
    return 0;
}

/* Removes "token=value" and the ';' after it from an element.
 *  ret_value  a quoted value is with its quotes.
 * Returns false if the element does not begin so. */
static bool take_pair(weir_slice *s, weir_slice *ret_name, weir_slice *ret_value)
{
    size_t name = 0, at, end;
    while (name < s->len && !strchr("=;\" \t", s->at[name]))
        name++;
    if (name == 0 || name == s->len || s->at[name] != '=')
        return false;
    at = end = name + 1;
    if (at < s->len && s->at[at] == '"') {
        for (end++; end < s->len && s->at[end] != '"'; end++)
            end += s->at[end] == '\\';
        if (end++ >= s->len)
            return false;
    } else {
        while (end < s->len && !strchr(";\" \t", s->at[end]))
            end++;
    }
    *ret_name = (weir_slice){s->at, name};
    *ret_value = (weir_slice){s->at + at, end - at};
    *s = weir_slice_trim((weir_slice){s->at + end, s->len - end});
    if (s->len > 0 && s->at[0] != ';')
        return false;
    if (s->len > 0)
        *s = weir_slice_trim((weir_slice){s->at + 1, s->len - 1});
    return true;
}

/* Reads the parameter `for` of an element. */
static bool read_for(weir_slice s, weir_address *ret)
{
    weir_slice node = {NULL, 0}, name, value;
    while (s.len > 0) {
        if (!take_pair(&s, &name, &value))
            return false;
        if (name.len != 3 || strncasecmp(name.at, "for", 3) != 0)
            continue;
        if (node.at)
            return false;
        node = value;
    }
    if (!node.at)
        return false;
    if (node.len >= 2 && node.at[0] == '"')
        node = (weir_slice){node.at + 1, node.len - 2};
    return read_node(node, ret);
}

/* ---- the client ------------------------------------------------------------------------------ */

weir_address weir_client_address(const weir_trusted_proxies *t, const weir_address *peer,
                                 weir_client_header kind, weir_slice header)
{
    weir_address client = *peer;
    size_t len = header.at ? header.len : 0;
    for (int hops = 0; len > 0 && hops < HOPS_MAX && weir_trusted_proxies_have(t, &client);) {
        size_t begin = last_element(kind, header.at, len);
        if (begin == SIZE_MAX)
            break;
        weir_slice element = weir_slice_trim((weir_slice){header.at + begin, len - begin});
        len = begin > 0 ? begin - 1 : 0;
        if (element.len == 0) /* RFC 9110, 5.6.1.2 */
            continue;
        hops++;
        if (!(kind == WEIR_CLIENT_FORWARDED ? read_for : read_node)(element, &client))
            break;
    }
    return client;
}
