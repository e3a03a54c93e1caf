/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The key `memory` of policies, a share or a size, and the partitions of the store that follow. A
 * policy has small states, large states, or with its overrides both; its share is one of the memory
 * for these. */

#include "cmd/config/keys.h"
#include "cmd/kit/units.h"

#include "port/assert.h"
#include "store/iterate.h"
#include "store/table/table.h"

#include <inttypes.h>
#include <string.h>

enum { PERCENT_MAX = 90, SHOWN = 40 };

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads "10%". */
static bool read_percent(const char *text, unsigned *ret)
{
    size_t digits = strspn(text, "0123456789");
    if (digits < 1 || digits > 3 || strcmp(text + digits, "%") != 0)
        return false;
    *ret = 0;
    for (size_t i = 0; i < digits; i++)
        *ret = *ret * 10 + (unsigned)(text[i] - '0');
    return *ret >= 1 && *ret <= PERCENT_MAX;
}

void config_read_policy_memory(config_reader *r, const config_place *place, const config_key *key,
                               void *base)
{
    static const char expected[] =
        "a share of the memory from 1% to 90%, such as 10%, or a size, such as 20m";
    weir_rule_spec *spec = base;
    const char *text = place->node->text;
    int64_t bytes;
    unsigned percent;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    if (read_percent(text, &percent))
        spec->memory_percent = percent;
    else if (size_read(text, &bytes) && bytes > 0)
        spec->memory_bytes = (uint64_t)bytes;
    else
        config_error(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN, text);
}

/* ---- partitions ------------------------------------------------------------------------------ */

typedef struct kinds {
    bool small, large;
} kinds;

static void add_kind(kinds *k, const weir_policy *p)
{
    bool small = p && weir_table_words(p) > 0;
    k->small |= small;
    k->large |= p && !small;
}

static kinds kinds_of(const weir_rule_spec *spec)
{
    kinds k = {false, false};
    add_kind(&k, spec->policy);
    for (size_t i = 0; i < spec->overrides_len; i++)
        add_kind(&k, spec->overrides[i].policy);
    return k;
}

static uint64_t percent_of(uint64_t bytes, unsigned percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

static uint64_t share_of(const weir_rule_spec *spec, uint64_t bytes)
{
    return spec->memory_bytes > 0 ? spec->memory_bytes
                                  : percent_of(bytes, spec->memory_percent) / 1024 * 1024;
}

static uint64_t small_bytes(const weir_config *c)
{
    return c->memory_bytes - c->memory_large_bytes;
}

/* Reports a partition that is too small. */
static bool check_least(config_reader *r, const config_place *place, const weir_rule_spec *spec,
                        const weir_store_partition *p)
{
    const weir_config *c = r->config;
    uint64_t small_min = c->state_file  ? 5 * CONFIG_MIB
                         : c->hand_over ? 576 * CONFIG_KIB
                                        : 64 * CONFIG_KIB;
    bool large = p->large_bytes > 0 && p->large_bytes < (uint64_t)(64 * CONFIG_KIB);
    char found[24], of[24], least[24];
    if (!large && (p->table_bytes == 0 || p->table_bytes >= small_min))
        return true;
    size_text(large ? p->large_bytes : p->table_bytes, found, sizeof found);
    size_text(large ? c->memory_large_bytes : small_bytes(c), of, sizeof of);
    size_text(large ? 64 * CONFIG_KIB : small_min, least, sizeof least);
    const char *why = large           ? ""
                      : c->state_file ? " with memory.file"
                      : c->hand_over  ? " with hand_over"
                                      : "";
    if (spec->memory_percent > 0)
        config_error(r->errors, place, "%u%% of the %s for %s states is %s, expected at least %s%s",
                     spec->memory_percent, of, large ? "large" : "small", found, least, why);
    else
        config_error(r->errors, place, "found %s, expected at least %s%s", found, least, why);
    return false;
}

/* Reports that the partitions so far take too much of the memory for one kind of states. */
static bool check_most(config_reader *r, const config_place *place, bool large)
{
    const weir_config *c = r->config;
    uint64_t bytes = large ? c->memory_large_bytes : small_bytes(c), taken = 0;
    char text[24];
    for (size_t i = 0; i < c->partitions_len; i++) {
        const weir_store_partition *p = &c->partitions[i];
        uint64_t add = large ? p->large_bytes : p->table_bytes;
        taken = add < UINT64_MAX - taken ? taken + add : UINT64_MAX;
    }
    if (taken <= percent_of(bytes, PERCENT_MAX))
        return true;
    config_error(r->errors, place,
                 "the policies with memory of their own take %" PRIu64 "%% of the %s for %s "
                 "states, expected at most %d%%, because the other policies need the rest",
                 (taken - 1) / (bytes / 100) + 1, size_text(bytes, text, sizeof text),
                 large ? "large" : "small", PERCENT_MAX);
    return false;
}

bool config_memory_fits(const weir_config *c, weir_store_error *ret_error)
{
    const weir_store_options o = {.memory_bytes = (size_t)c->memory_bytes,
                                  .large_bytes = (size_t)c->memory_large_bytes,
                                  .file = c->state_file,
                                  .memory = c->hand_over && !c->state_file ? ret_error : NULL,
                                  .partitions = c->partitions,
                                  .partitions_len = c->partitions_len,
                                  .ret_error = ret_error};
    return weir_store_check_sizes(&o) == WEIR_OK; /* it reads no memory */
}

void config_add_partition(config_reader *r, const config_place *rule, const weir_rule_spec *spec)
{
    weir_config *c = r->config;
    const config_place place = config_below(rule, "memory");
    weir_store_error error;
    WEIR_ASSERT(c->partitions_len <= WEIR_PARTITIONS_MAX);
    if (!place.node || place.node->bad || (spec->memory_bytes == 0 && spec->memory_percent == 0))
        return;
    if (spec->engine != WEIR_ENGINE_LOCAL) {
        config_error_on(r->errors, place.key, &place,
                        "memory requires engine: local, because the states of this policy are in "
                        "Redis");
        return;
    }
    if (c->partitions_len == WEIR_PARTITIONS_MAX) {
        config_error_on(r->errors, place.key, &place,
                        "expected at most %d policies with `memory`; remove it from some",
                        WEIR_PARTITIONS_MAX);
        return;
    }
    kinds k = kinds_of(spec);
    if ((!k.small && !k.large) || c->memory_large_bytes > c->memory_bytes)
        return; /* the policy or `memory` has an error */
    const weir_store_partition p = {
        .name = spec->name,
        .table_bytes = k.small ? (size_t)share_of(spec, small_bytes(c)) : 0,
        .large_bytes = k.large ? (size_t)share_of(spec, c->memory_large_bytes) : 0,
    };
    c->partitions[c->partitions_len++] = p;
    if (check_least(r, &place, spec, &p) && check_most(r, &place, false) &&
        check_most(r, &place, true) && r->errors->found == r->errors->warnings &&
        !config_memory_fits(c, &error))
        config_error(r->errors, &place, "%s", error.text);
}
