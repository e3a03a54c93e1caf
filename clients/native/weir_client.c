/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Gives the packages in clients/ what the daemon and the nginx module use of the internal files. */

#include "weir_client.h"

#include "codec/answer/fields.h"
#include "core/figures.h"
#include "service/rules/address.h"
#include "service/rules/routes.h"
#include "service/zone_cache.h"
#include "store/figures.h"
#include "store/iterate.h"

#include <string.h>

_Static_assert(WEIR_CLIENT_LINES_MAX == WEIR_ANSWER_ROOM, "all lines fit");
_Static_assert(WEIR_CLIENT_KEY_MAX == WEIR_ADDRESS_TEXT_MAX, "an address fits");

weir_zones weir_client_zones(void)
{
    static weir_zone_cache *cache;
    if (!cache)
        cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    return cache ? weir_zone_cache_zones(cache) : (weir_zones){0};
}

/* ---- policies -------------------------------------------------------------------------------- */

weir_status weir_client_ids_of(weir_store *s, const weir_policy *p, const char *name,
                               size_t name_len, weir_client_ids *ret)
{
    uint64_t id = weir_store_policy_id(s, p);
    *ret = (weir_client_ids){id, id};
    if (name_len == 0)
        return WEIR_OK;
    if (weir_rule_name_check(name, name_len, NULL) != WEIR_OK)
        return WEIR_E_SYNTAX;
    ret->id = weir_store_partition_id(s, weir_store_named_id(s, p, name, name_len), name);
    ret->group = weir_store_reset_id(name, name_len);
    weir_status st = weir_store_note_limit(s, ret->id, p, name, name_len);
    if (st == WEIR_OK)
        weir_store_keep(s);
    return st;
}

/* ---- header fields --------------------------------------------------------------------------- */

unsigned weir_client_headers(const char *names, size_t len, const char **ret_error)
{
    unsigned set = 0;
    for (const char *at = names, *end = names + len; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        weir_slice name = weir_slice_trim((weir_slice){at, (size_t)(stop - at)});
        unsigned one = weir_answer_flavour(name.at, name.len);
        if (one == 0) {
            *ret_error = "expected ietf, ietf-07, ietf-03, x-ratelimit, github, openai or none";
            return 0;
        }
        set |= one;
        at = stop + 1;
    }
    *ret_error = weir_answer_check(set);
    return *ret_error ? 0 : set;
}

size_t weir_client_lines(unsigned headers, const char *name, size_t name_len, const weir_policy *p,
                         const weir_decision *d, int64_t next_ns, int64_t now_ns, char *buf)
{
    /* A month has no length, so no window is written. */
    weir_policy any = {.layers = 1};
    any.layer[0] =
        (weir_layer){.algorithm = WEIR_FIXED_WINDOW, .calendar = WEIR_MONTH, .limit = d->limit};
    weir_decision of_layer = *d;
    if (!p)
        of_layer.layer = 0;
    const weir_answered a = {.name = {name, name_len},
                             .policy = p ? p : &any,
                             .decision = &of_layer,
                             .resets = d->allowed || d->retry_after_ns != INT64_MAX,
                             .next_ns = next_ns};
    return weir_answer_lines(headers, &a, 1, 0, now_ns, buf);
}

/* ---- keys and figures ------------------------------------------------------------------------ */

size_t weir_client_key(const char *text, size_t len, unsigned v6_bits, char *buf)
{
    weir_address address;
    if (!weir_address_parse(&address, text, len))
        return 0;
    unsigned bits = address.v6 ? v6_bits : weir_address_bits(&address);
    weir_address_mask(&address, bits);
    return weir_address_print(&address, bits, buf);
}

weir_status weir_client_figures(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                const void *key, size_t key_len, int64_t now_ns, uint32_t layer,
                                int64_t ret[3])
{
    weir_figures f;
    weir_status st = weir_store_figures(s, p, policy_id, key, key_len, now_ns, layer, &f);
    if (st != WEIR_OK)
        return st;
    ret[0] = f.count;
    ret[1] = f.previous;
    ret[2] = f.start_ns;
    return WEIR_OK;
}
