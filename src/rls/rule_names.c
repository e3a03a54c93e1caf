/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Names of rules. A limit keeps its name, and so its state, whatever other limits a file gets: only
 * limits with the same full key, such as "a.b" in the domain "x" and "b" in "x.a", depend on each
 * other. */

#include "rls/config_internal.h"

#include "port/port.h"
#include "store/siphash.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_LEN = 9 }; /* '-' and 8 digits */

/* Makes a valid name of a full key and its hash.
 *  salt  another number gives another hash. */
static void make_name(const rls_limit *limit, unsigned salt, char ret[WEIR_RULE_NAME_MAX + 1])
{
    weir_secret secret = {limit->domain_len, salt}; /* not secret: the names must stay the same */
    uint64_t hash = weir_siphash(secret, limit->full_key.at, limit->full_key.len);
    size_t len = limit->full_key.len;
    if (len > WEIR_RULE_NAME_MAX - HASH_LEN)
        len = WEIR_RULE_NAME_MAX - HASH_LEN;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)limit->full_key.at[i];
        ret[i] = c < 0x80 && (isalnum(c) || strchr("-_.:/", c)) && c != '\0' ? (char)c : '_';
    }
    snprintf(ret + len, HASH_LEN + 1, "-%08x", (unsigned)hash);
}

static int by_name(const void *a, const void *b)
{
    const rls_limit *const *x = a, *const *y = b;
    return strcmp((*x)->rule.at, (*y)->rule.at);
}

/* Renames the limits that have the same name as another one.
 *  first  rename the first of equal names too. */
static bool rename_equals(rls_limit **sorted, size_t n, bool first, unsigned salt)
{
    bool any = false;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_name(&sorted[i], &sorted[end]) == 0; end++)
            continue;
        any |= end > i + 1;
        for (size_t k = first && end > i + 1 ? i : i + 1; k < end; k++)
            make_name(sorted[k], salt + (unsigned)(k - i), (char *)sorted[k]->rule.at);
    }
    return any;
}

bool rls_name_rules(rls_limit *const *limits, size_t n, char (*names)[WEIR_RULE_NAME_MAX + 1])
{
    rls_limit **sorted = port_zalloc(n > 0 ? n : 1, sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t i = 0; i < n; i++) {
        weir_slice key = limits[i]->full_key;
        if (weir_rule_name_check(key.at, key.len, NULL) == WEIR_OK)
            memcpy(names[i], key.at, key.len + 1);
        else
            make_name(limits[i], 0, names[i]);
        limits[i]->rule.at = names[i];
        sorted[i] = limits[i];
    }
    bool any = rename_equals(sorted, n, true, 0);
    for (unsigned salt = 1; any; salt++)
        any = rename_equals(sorted, n, false, salt);
    for (size_t i = 0; i < n; i++)
        limits[i]->rule.len = strlen(names[i]);
    port_free(sorted);
    return true;
}
