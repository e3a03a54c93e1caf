/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Warnings of patterns in `overrides`, `allow` and `deny` that match no key, or fewer or more keys
 * than they seem to. */

#include "cmd/config/keys.h"
#include "service/rules/key_patterns.h"

#include <string.h>

/* What the keys of a policy are made of. */
typedef struct keys {
    const weir_rule_spec *spec;
    bool has_client;         /* $client is a part of them, or all of them */
    bool may_be_address;     /* the template is a variable that may be an address */
    bool begins_with_client; /* and with the text "/" after it */
} keys;

static keys keys_of(const weir_rule_spec *spec)
{
    weir_key_template *t = NULL;
    char why[128];
    size_t at;
    keys k = {spec, true, true, false};
    if (!spec->key ||
        weir_key_template_parse(&t, spec->key, strlen(spec->key), why, sizeof why, &at) != WEIR_OK)
        return k;
    const char *first = weir_key_template_name(t, 0).at;
    size_t text = strlen(spec->key) - strlen(first);
    bool single = text == 1 || (text == 3 && strncmp(spec->key, "${", 2) == 0);
    k.has_client = false;
    for (size_t i = 0; i < weir_key_template_len(t); i++)
        k.has_client |= strcmp(weir_key_template_name(t, i).at, "client") == 0;
    k.may_be_address =
        single &&
        (k.has_client || strncmp(first, WEIR_KEY_HEADER, sizeof WEIR_KEY_HEADER - 1) == 0 ||
         strcmp(first, "host") == 0);
    k.begins_with_client = strncmp(spec->key, "$client/", 8) == 0;
    weir_key_template_free(t);
    return k;
}

/* ---- patterns of addresses ------------------------------------------------------------------- */

static bool overlap(const weir_network *a, const weir_address *b, unsigned bits)
{
    weir_address x = a->address, y = *b;
    unsigned common = a->bits < bits ? a->bits : bits;
    if (x.v6 != y.v6)
        return false;
    weir_address_mask(&x, common);
    weir_address_mask(&y, common);
    return memcmp(x.bytes, y.bytes, sizeof x.bytes) == 0;
}

/* The first trusted proxy with an address of a network; NULL if there is none. */
static const weir_network *proxy_in(const config_reader *r, const weir_address *address,
                                    unsigned bits)
{
    const weir_trusted_proxies *t = &r->config->trusted_proxies;
    size_t i = 0;
    while (i < t->len && !overlap(&t->at[i], address, bits))
        i++;
    return i < t->len ? &t->at[i] : NULL;
}

/* Warns of an entry of `allow` that covers a trusted proxy. */
static void check_proxies(config_reader *r, const config_place *entry, const weir_address *address,
                          unsigned bits)
{
    const weir_network *proxy = proxy_in(r, address, bits);
    char text[WEIR_ADDRESS_TEXT_MAX];
    if (!proxy)
        return;
    int len = (int)weir_address_print(&proxy->address, proxy->bits, text);
    config_warn(r->errors, entry,
                "this covers the trusted proxy %.*s, but allow never matches a trusted proxy: "
                "its address may stand for any client that it does not report",
                len, text);
}

static void check_network(config_reader *r, const config_place *entry, const keys *k,
                          const weir_address *address, unsigned bits)
{
    bool only_clients = k->spec->plain_keys && bits != weir_address_bits(address);
    if (only_clients && k->has_client)
        config_warn(r->errors, entry,
                    "with ip: false, this matches only the address in $client, and no whole key");
    else if (!k->has_client && (only_clients || !k->may_be_address))
        config_warn(r->errors, entry,
                    "this matches no key that the template of the policy makes, because it has no "
                    "$client");
}

/* Warns of a prefix such as "2001:DB8:*" that is the beginning of an IPv6 address, but not of each
 * address that it seems to match. */
static void check_v6_prefix(config_reader *r, const config_place *entry, const char *pattern)
{
    char text[WEIR_ADDRESS_TEXT_MAX], net[WEIR_ADDRESS_TEXT_MAX];
    size_t len = strlen(pattern), groups = 0;
    weir_address a;
    if (len < 4 || len >= sizeof text || strcmp(pattern + len - 2, ":*") != 0)
        return;
    memcpy(text, pattern, len - 1);
    text[len - 1] = ':';
    for (size_t i = 0; i < len; i++)
        groups += pattern[i] == ':';
    if (groups < 2 || groups > 7 || !weir_address_parse(&a, text, len) || !a.v6)
        return;
    size_t printed = weir_address_print(&a, 128, net);
    if (printed >= len - 1 && memcmp(net, pattern, len - 1) == 0 && !strstr(pattern, ":0:0:") &&
        !strstr(pattern, "::"))
        return;
    config_warn(r->errors, entry,
                "this misses some spellings of the addresses that it means: write the network %.*s",
                (int)weir_address_print(&a, (unsigned)groups * 16, net), net);
}

/* Warns of "ADDRESS/..." if the template writes the client of this address in another form. */
static void check_first_part(config_reader *r, const config_place *entry, const keys *k,
                             const char *pattern)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    const char *slash = strchr(pattern, '/');
    weir_address a;
    if (!slash || !k->begins_with_client ||
        !weir_address_parse(&a, pattern, (size_t)(slash - pattern)))
        return;
    unsigned bits = a.v6 ? k->spec->v6_bits : k->spec->v4_bits;
    bool plain = k->spec->plain_keys || bits == weir_address_bits(&a);
    size_t len = weir_address_print(&a, weir_address_bits(&a), text);
    if (!plain || len != (size_t)(slash - pattern) || memcmp(text, pattern, len) != 0)
        config_warn(r->errors, entry,
                    "no key begins like this, because the key template writes this address in "
                    "another form: write the address alone, which matches all keys of that client");
}

/* ---- patterns within others ------------------------------------------------------------------ */

typedef enum list_kind { OVERRIDES, ALLOW, DENY } list_kind;

/* The patterns of a policy. A set is NULL if its list is empty. */
typedef struct lists {
    weir_key_patterns *allow, *deny;
    weir_key_patterns *before; /* those of the list that is checked, before the entry */
} lists;

/* Makes a set for n patterns, and adds those of a list.
 *  list  NULL: none. */
static weir_key_patterns *new_set(config_reader *r, const char *const *list, size_t n, bool plain)
{
    weir_key_patterns *p = n > 0 ? weir_key_patterns_new(n) : NULL;
    r->arena->failed |= n > 0 && !p;
    for (size_t i = 0; p && list && i < n && !r->arena->failed; i++)
        r->arena->failed = weir_key_patterns_add(p, list[i], plain, 0, NULL, 0) != WEIR_OK;
    return p;
}

static bool is_in(const weir_key_patterns *set, const char *pattern, const keys *k, bool strict)
{
    return set && weir_key_patterns_cover(set, pattern, k->spec->plain_keys, strict);
}

/* Warns of a pattern whose keys other patterns decide, and of one that decides all keys.
 *  may_be_proxy  it has addresses of trusted proxies, which no list allows. */
static void check_others(config_reader *r, const config_place *entry, const keys *k, list_kind list,
                         const char *pattern, const lists *l, bool may_be_proxy)
{
    const weir_key_patterns *own = list == ALLOW ? l->allow : list == DENY ? l->deny : NULL;
    if (list != DENY && is_in(l->deny, pattern, k, false))
        config_warn(r->errors, entry, "this has no effect, because deny matches it too");
    else if (list == OVERRIDES && !may_be_proxy && is_in(l->allow, pattern, k, false))
        config_warn(r->errors, entry, "this has no effect, because allow matches it too");
    else if (is_in(l->before, pattern, k, false) || is_in(own, pattern, k, true))
        config_warn(r->errors, entry,
                    "this has no effect, because another entry of the list matches the same keys");
    else if (strcmp(pattern, "*") == 0)
        config_warn(r->errors, entry, "limit has no effect, because this matches every key");
}

/* ---- each pattern ---------------------------------------------------------------------------- */

static void check_pattern(config_reader *r, const config_place *entry, const keys *k,
                          list_kind list, const char *pattern, const lists *l)
{
    weir_address address;
    unsigned bits;
    bool is_net = weir_key_pattern_net(pattern, &address, &bits);
    if (is_net)
        check_network(r, entry, k, &address, bits);
    if (is_net && list == ALLOW && k->has_client)
        check_proxies(r, entry, &address, bits);
    if (!is_net && !k->spec->plain_keys)
        check_v6_prefix(r, entry, pattern);
    if (!is_net)
        check_first_part(r, entry, k, pattern);
    check_others(r, entry, k, list, pattern, l, is_net && proxy_in(r, &address, bits));
}

static void check_list(config_reader *r, const config_place *place, const keys *k, list_kind list,
                       size_t n, lists *l)
{
    bool plain = k->spec->plain_keys;
    l->before = new_set(r, NULL, n, plain);
    for (config_place entry = {0}; n > 0 && config_next_entry(place, &entry);) {
        check_pattern(r, &entry, k, list, entry.node->text, l);
        r->arena->failed |= l->before && weir_key_patterns_add(l->before, entry.node->text, plain,
                                                               0, NULL, 0) != WEIR_OK;
    }
    weir_key_patterns_free(l->before);
    l->before = NULL;
}

void config_check_patterns(config_reader *r, const config_place *policy, const weir_rule_spec *spec)
{
    const config_place overrides = config_below(policy, "overrides");
    const config_place allow = config_below(policy, "allow"), deny = config_below(policy, "deny");
    const keys k = keys_of(spec);
    lists l = {new_set(r, spec->allow, spec->allow_len, spec->plain_keys),
               new_set(r, spec->deny, spec->deny_len, spec->plain_keys), NULL};
    for (const config_node *n = spec->overrides_len > 0 ? overrides.node->first : NULL; n;
         n = n->next) {
        const config_place entry = {.up = &overrides, .key = n, .node = n->value};
        check_pattern(r, &entry, &k, OVERRIDES, n->text, &l);
    }
    check_list(r, &allow, &k, ALLOW, spec->allow_len, &l);
    check_list(r, &deny, &k, DENY, spec->deny_len, &l);
    weir_key_patterns_free(l.allow);
    weir_key_patterns_free(l.deny);
}
