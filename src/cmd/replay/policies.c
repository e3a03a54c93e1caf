/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses policies, opens a service for them, and decides requests. All state is in a local store:
 * the `engine` of a named policy is ignored. */

#include "cmd/replay/policies.h"

#include "accesslog/messages.h"
#include "cmd/config/config.h"
#include "cmd/kit/caret.h"
#include "port/assert.h"
#include "port/port.h"
#include "service/zone_cache.h"
#include "store/iterate.h"

#include <stdio.h>
#include <string.h>

/* ---- parsing --------------------------------------------------------------------------------- */

/* A policy text contains a blank; a name does not. */
static bool is_name(const char *given)
{
    return !strpbrk(given, " \t\r\n");
}

static int complain_text(const replay_policies *p, const char *text, const weir_policy_error *error)
{
    caret_policy_error("weir replay: --policy", text, error);
    if (!p->named && *text && is_name(text))
        accesslog_note("hint: to use a named policy, pass its configuration with --config FILE");
    return ACCESSLOG_USAGE;
}

static int open_policy(replay_policies *p, replay_policy *which, const weir_policy *policy)
{
    weir_policy_print(policy, which->text, sizeof which->text);
    weir_status st = replay_counts_open(&which->counts, &p->stats, policy);
    return st == WEIR_OK ? 0 : accesslog_complain_memory();
}

static int read_text(replay_policies *p, replay_policy *which, const weir_zones *zones)
{
    weir_policy policy;
    weir_policy_error error;
    if (weir_policy_parse(&policy, which->given, strlen(which->given), zones, &error) != WEIR_OK)
        return complain_text(p, which->given, &error);
    return open_policy(p, which, &policy);
}

static int complain_absent(const replay_policies *p, const char *path, const char *name)
{
    enum { NAMES_SHOWN = 10 };
    const weir_config *c = p->config;
    if (c->rules_len == 0) {
        fprintf(stderr, "weir replay: --policy: %s defines no policies\n", path);
        return ACCESSLOG_USAGE;
    }
    fprintf(stderr, "weir replay: --policy: %s has no policy '%s', expected one of", path, name);
    for (size_t i = 0; i < c->rules_len && i < NAMES_SHOWN; i++)
        fprintf(stderr, " %s", c->rules[i].name);
    fputs(c->rules_len > NAMES_SHOWN ? " ...\n" : "\n", stderr);
    return ACCESSLOG_USAGE;
}

static const weir_rule_spec *find_spec(const replay_policies *p, const char *name)
{
    for (size_t i = 0; i < p->config->rules_len; i++) {
        if (strcmp(p->config->rules[i].name, name) == 0)
            return &p->config->rules[i];
    }
    return NULL;
}

static int read_name(replay_policies *p, replay_policy *which, const replay_options *o)
{
    const weir_rule_spec *spec = find_spec(p, which->given);
    if (!spec)
        return complain_absent(p, o->config, which->given);
    which->by_name = true;
    which->shadow = spec->shadow;
    return open_policy(p, which, spec->policy);
}

/* Whether two policies would share their state. A named policy and an inline policy never do, even
 * with the same text. */
static bool same_policy(const replay_policy *a, const replay_policy *b)
{
    return a->by_name == b->by_name &&
           strcmp(a->by_name ? a->given : a->text, b->by_name ? b->given : b->text) == 0;
}

static int read_policy(replay_policies *p, const replay_options *o, const weir_zones *zones)
{
    replay_policy *which = &p->policy[p->len];
    which->given = o->policy[p->len];
    bool by_name = p->named && is_name(which->given);
    int status = by_name ? read_name(p, which, o) : read_text(p, which, zones);
    for (size_t i = 0; i < p->len && status == 0; i++) {
        if (same_policy(&p->policy[i], which))
            status = accesslog_complain(ACCESSLOG_USAGE, "--policy: '%s' is given twice",
                                        by_name ? which->given : which->text);
    }
    p->len += status == 0;
    return status;
}

/* ---- groups of policies by key normalisation ------------------------------------------------- */

/* The specification of a named policy; the default one for an inline policy. */
static weir_rule_spec spec_of(const replay_policies *p, size_t i)
{
    const weir_rule_spec *spec = p->policy[i].by_name ? find_spec(p, p->policy[i].given) : NULL;
    return spec ? *spec : WEIR_RULE_SPEC_DEFAULT;
}

static bool same_normalisation(const replay_policies *p, size_t a, size_t b)
{
    weir_rule_spec x = spec_of(p, a), y = spec_of(p, b);
    return x.plain_keys == y.plain_keys &&
           (x.plain_keys || (x.v4_bits == y.v4_bits && x.v6_bits == y.v6_bits));
}

/* Puts policies that normalise keys alike into one group, with one key table. */
static bool open_keys(replay_policies *p)
{
    size_t members[REPLAY_POLICIES_MAX] = {0};
    for (size_t i = 0; i < p->len; i++) {
        size_t g = 0;
        while (g < p->groups && !same_normalisation(p, p->first[g], i))
            g++;
        if (g == p->groups)
            p->first[p->groups++] = i;
        p->policy[i].group = g;
        p->policy[i].index = members[g]++;
    }
    for (size_t g = 0; g < p->groups; g++) {
        p->keys[g] = accesslog_key_table_open(replay_key_bytes(members[g]));
        if (!p->keys[g])
            return false;
    }
    return true;
}

/* ---- the service ----------------------------------------------------------------------------- */

/* The smallest store, unless the options ask for less. It holds some 200,000 keys of gcra. In a
 * store of 8 MiB or more, weir_store_each() knows the whole hash of each key. */
#define STORE_BYTES_MIN ((size_t)8 << 20)

static weir_status open_store(weir_store **ret, const replay_policies *p, unsigned doublings)
{
    const weir_store_options o = {.memory_bytes = p->memory_max >> doublings,
                                  .secret = p->secret,
                                  .when_full = doublings > 0 ? WEIR_REFUSE : WEIR_EVICT};
    return weir_store_open(ret, &o);
}

static weir_status set_rules(replay_policies *p, const weir_zones *zones)
{
    weir_rule_spec specs[REPLAY_POLICIES_MAX];
    weir_rules *rules;
    size_t n = 0;
    for (size_t i = 0; i < p->len; i++) {
        if (!p->policy[i].by_name)
            continue;
        specs[n] = spec_of(p, i);
        specs[n].candidate = NULL; /* changes no answer */
        specs[n++].engine = WEIR_ENGINE_LOCAL;
    }
    weir_status st = weir_rules_build(&rules, p->store, zones, specs, n);
    if (st == WEIR_OK)
        weir_limiter_set_rules(p->limiter, rules);
    return st;
}

static weir_status open_service(replay_policies *p)
{
    weir_zones zones = weir_zone_cache_zones(p->zones);
    weir_status st = weir_limiter_open(&p->limiter, p->store, &zones);
    if (st == WEIR_OK)
        st = set_rules(p, &zones);
    return st == WEIR_OK ? weir_service_open(&p->service, p->limiter) : st;
}

static void close_service(replay_policies *p)
{
    weir_service_close(p->service);
    weir_limiter_close(p->limiter);
    p->service = NULL;
    p->limiter = NULL;
}

static weir_status open_first(replay_policies *p, size_t memory_max)
{
    p->memory_max = memory_max;
    while (memory_max >> p->doublings >= 2 * STORE_BYTES_MIN)
        p->doublings++;
    weir_status st = port_random(p->secret, sizeof p->secret);
    if (st == WEIR_OK)
        st = open_store(&p->store, p, p->doublings);
    return st == WEIR_OK ? open_service(p) : st;
}

typedef struct copy {
    weir_store *to;
    weir_status status;
} copy;

static bool copy_state(void *ctx, const weir_key_state *stored)
{
    copy *c = ctx;
    c->status = weir_store_put(c->to, stored);
    return c->status == WEIR_OK;
}

/* Moves all states to a store of twice the size, or to a larger one if the hashes are such that
 * a key has no space there. If none can be opened or filled, the old one stays. If the service
 * cannot be reopened, *p can only be closed. */
static weir_status grow(replay_policies *p)
{
    copy c = {.status = WEIR_E_FULL};
    WEIR_ASSERT(p->doublings > 0);
    for (unsigned doublings = p->doublings; c.status != WEIR_OK; doublings--) {
        if (doublings == 0)
            return c.status;
        weir_status st = open_store(&c.to, p, doublings - 1);
        if (st != WEIR_OK)
            return st;
        c.status = WEIR_OK;
        weir_store_each(p->store, copy_state, &c);
        if (c.status == WEIR_OK)
            p->doublings = doublings - 1;
        else
            weir_store_close(c.to);
    }
    close_service(p);
    weir_store_close(p->store);
    p->store = c.to;
    return open_service(p);
}

int replay_policies_open(replay_policies *ret, const replay_options *o)
{
    ret->zones = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!ret->zones)
        return accesslog_complain_memory();
    weir_zones zones = weir_zone_cache_zones(ret->zones);
    config_sink sink = config_print_to(stderr);
    if (o->config && config_load(o->config, false, &zones, &sink, &ret->config) != WEIR_OK)
        return ACCESSLOG_FAILED; /* already reported */
    ret->named = o->config != NULL;
    if (replay_stats_open(&ret->stats) != WEIR_OK)
        return accesslog_complain_memory();
    for (size_t i = 0; i < o->policies; i++) {
        int status = read_policy(ret, o, &zones);
        if (status != 0)
            return status;
    }
    if (!open_keys(ret) || open_first(ret, o->memory_bytes) != WEIR_OK)
        return accesslog_complain_memory();
    return 0;
}

void replay_policies_close(replay_policies *p)
{
    close_service(p);
    weir_store_close(p->store);
    for (size_t g = 0; g < p->groups; g++)
        accesslog_key_table_close(p->keys[g]);
    replay_stats_close(&p->stats);
    config_free(p->config);
    weir_zone_cache_close(p->zones);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Fills in the request. Leaves the rest of *ret, which is large, uninitialised. */
static void fill_request(const replay_policy *which, const accesslog_request *request,
                         weir_request *ret)
{
    const char *rule = which->by_name ? which->given : which->text;
    ret->rule = (weir_slice){rule, strlen(rule)};
    ret->by_text = !which->by_name;
    ret->key = request->key;
    ret->client = NULL;
    ret->keep = 0;
    ret->cost = request->cost > WEIR_COST_MAX ? WEIR_COST_MAX : request->cost;
}

void replay_policies_expect(const replay_policies *p, const accesslog_request *request,
                            replay_upcoming *ret)
{
    weir_request req;
    weir_slice key;
    fill_request(&p->policy[p->first[0]], request, &req);
    ret->known = weir_service_key(p->service, &req, &key) == WEIR_OK &&
                 (key.at == request->key.at || key.len <= sizeof ret->text);
    if (!ret->known)
        return;
    ret->hash = accesslog_key_table_hash(p->keys[0], key.at, key.len);
    if (key.at != request->key.at)
        key.at = memcpy(ret->text, key.at, key.len); /* it is overwritten by the next call */
    ret->key = key;
}

void replay_policies_prefetch(const replay_policies *p, replay_upcoming *upcoming)
{
    WEIR_ASSERT(p->groups > 0);
    upcoming->likely = NULL;
    if (upcoming->known)
        upcoming->likely = replay_key_of(accesslog_key_table_prefetch(p->keys[0], upcoming->hash));
}

void replay_policies_prefetch_series(const replay_policies *p, const replay_upcoming *upcoming)
{
    if (upcoming->likely)
        replay_series_prefetch(&upcoming->likely->over_time, &p->stats.timeline);
}

/* Finds the key of a request in group `g`, or adds it. */
static weir_status find_key(replay_policies *p, size_t g, const accesslog_request *request)
{
    weir_request req;
    weir_slice key;
    fill_request(&p->policy[p->first[g]], request, &req);
    weir_status found = weir_service_key(p->service, &req, &key);
    if (found != WEIR_OK)
        return found;
    p->seen[g] = replay_key_of(accesslog_key_table_at(p->keys[g], key.at, key.len));
    return WEIR_OK;
}

weir_status replay_policies_see(replay_policies *p, const accesslog_request *request,
                                const replay_upcoming *upcoming)
{
    replay_stats_request(&p->stats, request->now_ns, request->cost);
    for (size_t g = 0; g < p->groups; g++) {
        weir_status found = WEIR_OK;
        if (g == 0 && upcoming->known)
            p->seen[g] = replay_key_of(accesslog_key_table_at_hash(
                p->keys[g], upcoming->hash, upcoming->key.at, upcoming->key.len));
        else
            found = find_key(p, g, request);
        if (found != WEIR_OK)
            return found;
        if (!p->seen[g])
            return WEIR_E_NOMEM;
        replay_stats_key(&p->stats, p->seen[g], request->cost);
    }
    return WEIR_OK;
}

/* Takes from the local store, which decides at once. */
static void take(const replay_policies *p, weir_request *req, int64_t now_ns)
{
    bool answered = weir_service_take(p->service, NULL, req, 1, now_ns);
    WEIR_ASSERT(answered);
}

static int64_t lowest_limit(const weir_policy *p)
{
    int64_t lowest = WEIR_LIMIT_MAX;
    for (uint32_t i = 0; i < p->layers; i++)
        lowest = p->layer[i].limit < lowest ? p->layer[i].limit : lowest;
    return lowest;
}

/* Decides on a cost above WEIR_COST_MAX, which the service does not accept. A cost of WEIR_COST_MAX
 * is taken instead: it is above the limit, so it is denied, and counted if the policy counts
 * denials. If the limit is WEIR_COST_MAX, that cost could be allowed, so a cost of 0 is taken. In
 * both cases the decision becomes that of a cost above the limit. */
static void take_above(const replay_policies *p, const replay_policy *which, int64_t now_ns,
                       weir_request *req)
{
    weir_decision *d = &req->decision;
    bool answered =
        weir_service_peek(p->service, NULL, req, now_ns); /* finds the policy, checks the lists */
    WEIR_ASSERT(answered);
    if (req->status != WEIR_OK || req->reason == WEIR_BY_ALLOW_LIST ||
        req->reason == WEIR_BY_DENY_LIST)
        return;
    if (lowest_limit(req->policy) == WEIR_COST_MAX)
        req->cost = 0;
    take(p, req, now_ns);
    if (req->status != WEIR_OK)
        return;
    req->reason = which->shadow ? WEIR_BY_SHADOW : WEIR_BY_LIMIT;
    d->allowed = which->shadow;
    d->never = !which->shadow;
    d->retry_after_ns = which->shadow ? 0 : INT64_MAX;
    d->delay_ns = 0;
}

/* Marks the keys of a request that the baseline denied. */
static void mark_keys(const replay_policies *p)
{
    for (size_t g = 0; g < p->groups; g++)
        p->seen[g]->baseline_denied = true;
}

static weir_status count(replay_policies *p, size_t i, const weir_request *req)
{
    replay_policy *which = &p->policy[i];
    replay_counts *c = &which->counts;
    replay_key *key = p->seen[which->group];
    replay_tally *tally = &key->policy[which->index];
    bool shadowed = req->reason == WEIR_BY_SHADOW, denied = !req->decision.allowed || shadowed;
    bool allow_listed = req->reason == WEIR_BY_ALLOW_LIST;
    bool deny_listed = req->reason == WEIR_BY_DENY_LIST;
    if (denied && !tally->denials) {
        tally->denials = accesslog_key_table_alloc(p->keys[which->group], sizeof *tally->denials);
        if (!tally->denials)
            return WEIR_E_NOMEM;
    }
    if (i == 0)
        p->baseline_denied = denied;
    if (i == 0 && denied)
        mark_keys(p);
    c->denied += !req->decision.allowed;
    c->shadowed += shadowed;
    c->allow_listed += allow_listed;
    c->deny_listed += deny_listed;
    const replay_outcome outcome = {.denied = denied,
                                    .baseline = p->baseline_denied,
                                    .policy = allow_listed || deny_listed ? NULL : req->policy,
                                    .cost = req->cost,
                                    .wait_ns =
                                        req->decision.never ? 0 : req->decision.retry_after_ns};
    replay_counts_add(c, &p->stats, key, tally, &outcome);
    return WEIR_OK;
}

static void decide(const replay_policies *p, const replay_policy *which,
                   const accesslog_request *request, weir_request *ret)
{
    fill_request(which, request, ret);
    if (request->cost > WEIR_COST_MAX)
        take_above(p, which, request->now_ns, ret);
    else
        take(p, ret, request->now_ns);
}

weir_status replay_policies_decide(replay_policies *p, size_t i, const accesslog_request *request,
                                   weir_request *ret)
{
    WEIR_ASSERT(i < p->len && p->seen[p->policy[i].group]); /* replay_policies_see() was called */
    replay_policy *which = &p->policy[i];
    decide(p, which, request, ret);
    /* A request that finds no space charges nothing, so it can be repeated. */
    while ((ret->status == WEIR_E_FULL || ret->status == WEIR_E_NOMEM) && p->doublings > 0) {
        if (grow(p) != WEIR_OK)
            return WEIR_E_NOMEM;
        decide(p, which, request, ret);
    }
    return ret->status == WEIR_OK ? count(p, i, ret) : ret->status;
}

bool replay_policies_at_max(const replay_policies *p)
{
    return p->doublings == 0;
}

uint64_t replay_policies_evicted(const replay_policies *p)
{
    return weir_store_stats_get(p->store).evicted;
}
