/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Plans a group of requests: finds the limit of each descriptor, the key of its state and the name
 * of its statistics, and adds the requests to the service. The same requests and the same
 * configuration give the same plan. */

#include "rls/internal.h"

#include <string.h>

typedef enum planned { PLANNED, FULL } planned;

/* ---- refusals -------------------------------------------------------------------------------- */

static const char TOO_LONG[] = "a descriptor has more than 65535 bytes";

static size_t descriptor_len(const weir_rls_descriptor *d)
{
    size_t len = 0;
    for (size_t i = 0; i < d->entries_len; i++)
        len += d->entries[i].key.len + d->entries[i].value.len + 2;
    return len;
}

/* Returns why a request is refused; NULL if it is not. */
static const char *refusal(const weir_rls_config *c, const weir_rls_request *r)
{
    if (r->domain.len == 0)
        return "rate limit domain must not be empty";
    if (r->descriptors_len == 0)
        return "rate limit descriptor list must not be empty";
    if (!c)
        return "no rate limit configuration loaded";
    if (r->descriptors_len > WEIR_RLS_DESCRIPTORS_MAX)
        return "the request has more than 64 descriptors";
    for (size_t i = 0; i < r->descriptors_len; i++) {
        const weir_rls_descriptor *d = &r->descriptors[i];
        if (descriptor_len(d) > RLS_DESCRIPTOR_MAX)
            return TOO_LONG;
        if (d->has_override &&
            (d->override.unit <= WEIR_RLS_UNIT_UNKNOWN || d->override.unit >= WEIR_RLS_UNITS))
            return "the limit of a descriptor has no known unit";
    }
    return NULL;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Whether 8 bytes contain one that equals that of `pattern`, which has it 8 times. */
static bool has_byte(uint64_t bytes, uint64_t pattern)
{
    uint64_t x = bytes ^ pattern;
    return ((x - UINT64_C(0x0101010101010101)) & ~x & UINT64_C(0x8080808080808080)) != 0;
}

/* Whether any of 8 bytes is '|', '\\' or `also`. */
static bool has_special(const char *at, char also)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return has_byte(bytes, UINT64_C(0x7c7c7c7c7c7c7c7c)) ||
           has_byte(bytes, UINT64_C(0x5c5c5c5c5c5c5c5c)) ||
           has_byte(bytes, UINT64_C(0x0101010101010101) * (unsigned char)also);
}

static inline bool is_special(char c, char also)
{
    return c == '|' || c == '\\' || c == also;
}

static bool needs_escape(const char *at, size_t len, char also)
{
    if (len >= 8) {
        const char *last = at + len - 8; /* these 8 bytes may overlap those before */
        for (; at < last; at += 8) {
            if (has_special(at, also))
                return true;
        }
        return has_special(last, also);
    }
    for (; len > 0; at++, len--) {
        if (is_special(*at, also))
            return true;
    }
    return false;
}

/* Adds a text to the keys, with '\' before each '|', '\' and `also`. The caller has reserved twice
 * its length. */
static void add_text(weir_rls_loop *l, weir_slice text, char also)
{
    char *to = l->keys + l->keys_len;
    if (text.len == 0)
        return;
    if (!needs_escape(text.at, text.len, also)) {
        memcpy(to, text.at, text.len);
        l->keys_len += text.len;
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (is_special(text.at[i], also))
            *to++ = '\\';
        *to++ = text.at[i];
    }
    l->keys_len = (size_t)(to - l->keys);
}

/* Makes the key of an item's state.
 *  domain  of an override; len 0: the limit is a rule, whose name has the domain. */
static planned add_key(weir_rls_loop *l, weir_slice domain, const weir_rls_descriptor *d,
                       rls_item *item)
{
    size_t begin = l->keys_len, need = descriptor_len(d) + domain.len + 1;
    if (item->limit->rule.len == 0)
        return PLANNED;
    for (size_t i = 0; i < d->entries_len && l->path.shares && domain.len == 0; i++)
        need += rls_shared_value(&l->path, i, &d->entries[i]).len;
    if (2 * need > RLS_KEYS_MAX - l->keys_len)
        return FULL;
    if (domain.len > 0) {
        add_text(l, domain, '|');
        l->keys[l->keys_len++] = '|';
    }
    for (size_t i = 0; i < d->entries_len; i++) {
        const weir_rls_entry *e = &d->entries[i];
        bool shares = l->path.shares && domain.len == 0;
        if (i > 0)
            l->keys[l->keys_len++] = '|';
        add_text(l, e->key, '='); /* a=b and c differ from a and b=c */
        l->keys[l->keys_len++] = '=';
        add_text(l, shares ? rls_shared_value(&l->path, i, e) : e->value, '|');
    }
    item->key = (weir_slice){l->keys + begin, l->keys_len - begin};
    return PLANNED;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* The name of the statistics of an override: "DOMAIN.KEY_VALUE.KEY". Returns its length; 0 if it is
 * too long. */
static size_t override_name(const weir_rls_options *options, weir_slice domain,
                            const weir_rls_descriptor *d, char *ret)
{
    size_t len = domain.len + 1 + descriptor_len(d);
    if (len > RLS_STAT_MAX)
        return 0;
    memcpy(ret, domain.at, domain.len);
    len = domain.len;
    for (size_t i = 0; i < d->entries_len || i == 0; i++) {
        ret[len++] = '.';
        if (i == d->entries_len)
            break;
        const weir_rls_entry *e = &d->entries[i];
        size_t begin = len;
        if (e->key.len > 0)
            memcpy(ret + len, e->key.at, e->key.len);
        len += e->key.len;
        if (e->value.len > 0) {
            ret[len++] = '_';
            memcpy(ret + len, e->value.at, e->value.len);
            len += e->value.len;
        }
        rls_replace_dots(options, ret + begin, len - begin);
    }
    return len;
}

static planned plan_override(weir_rls_loop *l, const weir_rls_config *c, weir_slice domain,
                             const weir_rls_descriptor *d, rls_item *item)
{
    if (l->overrides_len == RLS_OVERRIDES_MAX)
        return FULL;
    rls_limit *limit = &l->override_limit[l->overrides_len];
    char *text = l->override_text[l->overrides_len++];
    const weir_rls_override *o = &d->override;
    *limit = (rls_limit){
        .by_text = true,
        .atomic = c->options.stop_when_over,
        .requests_per_unit = o->requests_per_unit,
        .unit = o->unit,
    };
    rls_limit_derive(limit, &c->options);
    limit->marks_over &= c->options.flavours == 0; /* headers list all layers of its policy */
    if (o->requests_per_unit > 0) {
        size_t len = rls_policy_text(limit, &c->options, text);
        limit->rule = (weir_slice){text, len};
    }
    item->limit = limit;
    size_t len = override_name(&c->options, domain, d, l->scratch);
    item->stat = rls_dynamic_name(l, l->scratch, len, domain.len, RLS_OTHER_LIMITS);
    return add_key(l, domain, d, item);
}

static planned plan_item(weir_rls_loop *l, const weir_rls_config *c, uint32_t domain,
                         const weir_rls_request *r, const weir_rls_descriptor *d, rls_item *item)
{
    *item = (rls_item){.take = RLS_NO_TAKE, .before = RLS_NO_TAKE};
    item->hits = d->has_hits ? d->hits : r->hits_addend == 0 ? 1 : r->hits_addend;
    item->negative = d->negative;
    if (d->has_override)
        return plan_override(l, c, r->domain, d, item);
    const rls_limit *limit = rls_match(c, domain, d, l->scratch, &l->path);
    item->limit = limit;
    if (!limit)
        return PLANNED;
    item->unlimited = limit->unlimited;
    item->stat = limit->stat;
    if (limit->unlimited)
        return PLANNED;
    if (limit->detailed || l->path.renamed) {
        size_t len = rls_stat_name(&c->options, limit, &l->path, d, l->scratch, RLS_STAT_MAX);
        item->stat = rls_dynamic_name(l, l->scratch, len, limit->domain_len, limit->stat);
    }
    return add_key(l, (weir_slice){NULL, 0}, d, item);
}

/* Takes the limits away that another limit of the request replaces. */
static void replace(rls_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const rls_limit *by = items[i].limit;
        for (size_t k = 0; by && k < by->replaces_len; k++) {
            for (size_t at = 0; at < n; at++)
                items[at].replaced |= items[at].limit && !items[at].unlimited &&
                                      items[at].limit->name_id == by->replaces[k];
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i].replaced)
            items[i].limit = NULL;
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

void rls_add_take(weir_rls_loop *l, rls_item *item, int64_t cost, int64_t keep)
{
    WEIR_ASSERT(rls_has_state(item) && l->takes_len < RLS_TAKES_MAX);
    weir_request *take = &l->take[l->takes_len];
    take->rule = item->limit->rule;
    take->by_text = item->limit->by_text;
    take->key = item->key;
    take->cost = cost;
    take->keep = keep;
    take->with_figures = l->config && l->config->options.flavours != 0; /* for header fields */
    take->client = NULL;
    item->take = (uint16_t)l->takes_len++;
}

/* Whether a request of cost 0 must tell the count before an item is decided: a denial by a limit
 * that counts denied hits does not tell it. */
static bool needs_before(const weir_rls_config *c, const rls_item *item, weir_rls_verb verb)
{
    return item->hits > 1 && item->limit->counts_denied && !item->negative &&
           c->options.engine == WEIR_ENGINE_LOCAL && verb != WEIR_RLS_CHECK;
}

/* Adds the requests of a plan's items to the service. */
static planned add_takes(weir_rls_loop *l, const weir_rls_config *c, const rls_plan *p,
                         weir_rls_verb verb)
{
    size_t states = 0, before = 0;
    for (size_t i = p->first; i < p->first + p->len; i++) {
        states += rls_has_state(&l->item[i]);
        before += rls_has_state(&l->item[i]) && needs_before(c, &l->item[i], verb);
    }
    if (l->takes_len + states + before > WEIR_BATCH_MAX && l->plans_len > 0)
        return FULL;
    if (states + before > WEIR_BATCH_MAX)
        before = 0;
    for (size_t i = p->first; i < p->first + p->len; i++) {
        rls_item *item = &l->item[i];
        if (!rls_has_state(item))
            continue;
        if (before > 0 && needs_before(c, item, verb)) {
            rls_add_take(l, item, 0, item->limit->keep);
            item->before = item->take;
        }
        item->probes = verb == WEIR_RLS_CHECK || item->negative;
        rls_add_take(l, item, item->probes ? 0 : rls_cost_of(item), item->limit->keep);
    }
    return PLANNED;
}

/* Whether the hits of an item were used already. A report of hits that all count needs no charge:
 * a denied hit counts as a charged one does. But its denial could begin a block. */
static bool is_late(const rls_item *item, weir_rls_verb verb)
{
    bool reports = verb == WEIR_RLS_REPORT && (!item->limit->counts_denied || item->limit->policy);
    bool late = verb == WEIR_RLS_CHECK_AND_REPORT && item->limit->late;
    return (reports || late) && item->hits > 0 && !item->negative;
}

/* Finds out whether one call of the service can decide a plan's items. Returns why they are
 * refused; NULL if they are not. */
static const char *classify(weir_rls_loop *l, rls_plan *p, weir_rls_verb verb)
{
    size_t atomic = 0, states = 0;
    for (size_t i = p->first; i < p->first + p->len; i++) {
        rls_item *item = &l->item[i];
        if (!rls_has_state(item))
            continue;
        if (item->key.len > WEIR_KEY_MAX)
            return TOO_LONG;
        if (item->negative && item->limit->counts_denied && verb != WEIR_RLS_CHECK)
            return "is_negative_hits needs a limit that does not count denied hits: set "
                   "stop_when_over, or a policy without count-denied";
        p->special |= item->negative && verb != WEIR_RLS_CHECK;
        item->late = is_late(item, verb);
        p->special |= item->late;
        atomic += item->limit->atomic;
        states += !item->negative;
    }
    if (atomic == 0 || verb != WEIR_RLS_CHECK_AND_REPORT)
        return NULL;
    if (states > WEIR_ALL_MAX)
        return "the request has more than 16 limits, which cannot be decided atomically";
    for (size_t i = p->first; i < p->first + p->len; i++)
        p->special |= states > 1 || (l->item[i].limit && !l->item[i].unlimited &&
                                     l->item[i].limit->rule.len == 0);
    return NULL;
}

/* Plans the items of a request that is not refused. */
static planned plan_items(weir_rls_loop *l, const weir_rls_config *c, const weir_rls_request *r,
                          rls_plan *p)
{
    uint32_t domain = rls_domain(c, r->domain);
    bool replaces = false;
    p->unknown_domain = domain == 0;
    if (l->items_len + r->descriptors_len > RLS_ITEMS_MAX)
        return FULL;
    for (size_t i = 0; i < r->descriptors_len; i++) {
        rls_item *item = &l->item[l->items_len++];
        if (domain == 0)
            *item = (rls_item){.take = RLS_NO_TAKE, .before = RLS_NO_TAKE};
        else if (plan_item(l, c, domain, r, &r->descriptors[i], item) != PLANNED)
            return FULL;
        replaces |= item->limit && item->limit->replaces_len > 0;
    }
    p->len = r->descriptors_len;
    if (replaces)
        replace(&l->item[p->first], p->len);
    p->refused = classify(l, p, r->verb);
    if (p->special && l->plans_len > 0)
        return FULL;
    return p->refused || p->special ? PLANNED : add_takes(l, c, p, r->verb);
}

/* Plans one more request, or changes nothing if it does not fit. */
static planned plan_request(weir_rls_loop *l, const weir_rls_config *c, const weir_rls_request *r)
{
    size_t items = l->items_len, takes = l->takes_len, overrides = l->overrides_len,
           keys = l->keys_len;
    rls_plan *p = &l->plan[l->plans_len];
    *p = (rls_plan){.first = items, .refused = refusal(c, r)};
    planned result = p->refused ? PLANNED : plan_items(l, c, r, p);
    if (result != PLANNED && l->plans_len == 0) {
        p->refused = "the descriptors of the request are too long";
        result = PLANNED;
    }
    if (result == PLANNED)
        l->plans_len++;
    if (result == PLANNED && !p->refused)
        return PLANNED;
    p->len = 0;
    l->items_len = items;
    l->takes_len = takes;
    l->overrides_len = overrides;
    l->keys_len = keys;
    return result;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Whether a request is one of another API, or of a domain that only the fallback knows. */
static bool is_for_fallback(const weir_rls_loop *l, const weir_rls_config *c,
                            const weir_rls_request *r)
{
    if (!l->has_fallback)
        return false;
    if (r->verb != WEIR_RLS_CHECK_AND_REPORT || !c || !c->nodes[0].has_children)
        return true;
    return r->domain.len > 0 && rls_domain(c, r->domain) == 0 &&
           l->fallback.has(l->fallback.ctx, r->domain);
}

size_t rls_plan_group(weir_rls_loop *l, const weir_rls_config *c, const weir_rls_request *requests,
                      size_t n, bool resumes)
{
    l->plans_len = l->items_len = l->takes_len = l->overrides_len = l->keys_len = 0;
    while (l->plans_len < n && l->plans_len < RLS_GROUP_MAX) {
        const weir_rls_request *r = &requests[l->plans_len];
        if (!resumes && is_for_fallback(l, c, r))
            break;
        if (plan_request(l, c, r) != PLANNED || l->plan[l->plans_len - 1].special)
            break;
    }
    return l->plans_len;
}
