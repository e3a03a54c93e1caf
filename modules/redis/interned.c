/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash table of interned policies, and a set-associative cache in front of it that maps names and
 * texts as clients write them. Both hash with SipHash under a secret, since clients choose the
 * keys. */

#include "interned.h"

#include "abi.h"
#include "core/algorithm.h"
#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"
#include "service/zone_cache.h"
#include "store/siphash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WAYS = 4, SETS = 256 };              /* of the cache */
enum { TABLE_MIN = 256, SWEEP_MIN = 1024 }; /* policies */
enum { CHUNK = 256, CHUNKS = WEIR_BASES_MAX / CHUNK };

static const char throttle_format[] = "gcra 1/ns"; /* any policy with an 8-byte TAT */
static const char throttle_text[] = "cl.throttle"; /* not a policy text */

typedef struct cache_entry { /* a name or a text as a client wrote it, and its policy */
    char *at;
    size_t len;
    uint64_t hash;
    weir_interned *interned; /* a reference */
} cache_entry;

static struct {
    weir_secret secret;
    weir_zone_cache *zone_cache;
    weir_zones zones;
    weir_interned **table;
    size_t buckets, len, sweep_at; /* sweep_at: at this len, free policies without references */
    cache_entry cache[SETS][WAYS]; /* each set in LRU order */
    cache_entry *recent;           /* the set that was used last */
    weir_interned *throttle;
    weir_named *named; /* by name */
    size_t named_len;
    weir_base *chunk[CHUNKS];
    uint32_t bases, next_base;
} all;

unsigned weir_interned_holds;

/* ---- the table ------------------------------------------------------------------------------- */

weir_status weir_interned_open(void)
{
    all.zone_cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    all.recent = all.cache[0];
    all.table = redis.Calloc(TABLE_MIN, sizeof *all.table);
    all.buckets = TABLE_MIN;
    all.sweep_at = SWEEP_MIN;
    if (!all.zone_cache)
        return WEIR_E_NOMEM;
    all.zones = weir_zone_cache_zones(all.zone_cache);
    return port_random(&all.secret, sizeof all.secret);
}

static uint64_t hash_of(const char *name, size_t name_len, const char *text, size_t len)
{
    weir_secret secret = {all.secret.k0 ^ weir_siphash(all.secret, name, name_len), all.secret.k1};
    return weir_siphash(secret, text, len);
}

static void free_base(uint32_t base);

enum { BASES = 2 }; /* of a policy */

/* Whether no state refers to the policy or to its delta bases. Each base itself holds one reference
 * to the policy. */
static bool is_dead(const weir_interned *s)
{
    uint64_t bases = 0;
    for (int i = 0; i < BASES; i++) {
        bases += s->base[i] > 0;
        if (s->base[i] > 0 && port_word_load_acquire(&weir_base_at(s->base[i])->refs) > 0)
            return false;
    }
    return port_word_load_acquire(&s->refs) == bases;
}

/* Frees the dead policies. */
static void sweep(void)
{
    for (size_t i = 0; i < all.buckets; i++) {
        for (weir_interned **at = &all.table[i], *s; (s = *at);) {
            if (is_dead(s)) {
                *at = s->next;
                for (int k = 0; k < BASES; k++) {
                    if (s->base[k] > 0)
                        free_base(s->base[k]);
                }
                redis.Free(s);
                all.len--;
            } else {
                at = &s->next;
            }
        }
    }
    all.sweep_at = all.len * 2 > SWEEP_MIN ? all.len * 2 : SWEEP_MIN;
}

static void grow_table(void)
{
    size_t buckets = all.buckets * 2;
    weir_interned **table = redis.Calloc(buckets, sizeof *table);
    for (size_t i = 0; i < all.buckets; i++) {
        for (weir_interned *s = all.table[i], *next; s; s = next) {
            next = s->next;
            s->next = table[s->hash % buckets];
            table[s->hash % buckets] = s;
        }
    }
    redis.Free(all.table);
    all.table = table;
    all.buckets = buckets;
}

static weir_interned *find(uint64_t hash, const char *name, size_t name_len, const char *text,
                           size_t len)
{
    for (weir_interned *s = all.table[hash % all.buckets]; s; s = s->next) {
        if (s->hash == hash && s->name_len == name_len && s->text_len == len &&
            memcmp(weir_interned_name(s), name, name_len) == 0 &&
            memcmp(weir_interned_text(s), text, len) == 0)
            return s;
    }
    return NULL;
}

/* Words of a state that can be stored inline, or 0. A base should stay usable for days. A TAT is
 * therefore stored inline only if it is ahead of the clock by at most half of WEIR_DELTA_MAX; the
 * clock takes days to advance by the other half. The window words of different keys are close to
 * each other, since their windows are aligned. */
static uint8_t small_words(const weir_policy *p)
{
    enum { NUM_MAX = 64 };
    const weir_layer *l = &p->layer[0];
    bool near = l->cap_hi == 0 && l->cap_lo <= WEIR_DELTA_MAX / 2;
    if (p->layers != 1)
        return 0;
    switch (l->format) {
    case WEIR_STATE_WINDOW_WORD:
        return 1;
    case WEIR_STATE_TAT_NS:
        return near ? 1 : 0;
    case WEIR_STATE_TAT_TICKS:
        return near && l->num <= NUM_MAX ? 2 : 0;
    case WEIR_STATE_TAT_STEPS: /* it counts units, so it is always near */
        return 2;
    case WEIR_STATE_WINDOW_PAIR:
    case WEIR_STATE_LOG:
    case WEIR_STATE_COUNTER:
    case WEIR_STATE_SLICES:
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
    case WEIR_STATE_LEASES:
        break;
    }
    return 0;
}

/* Expiries are rounded up to a multiple of a power of two of nanoseconds, at least half a second:
 * the time in which a bucket refills 2 to 4 units, or up to an eighth of a smaller bucket. A longer
 * one would keep a key that has used one unit much longer than necessary. Other algorithms need no
 * more: their windows do not move with each charge. */
static uint8_t grid_of(const weir_policy *p)
{
    enum { GRID_MIN = 29, GRID_MAX = 50, UNITS = 4, PART = 8 };
    uint8_t grid = GRID_MIN; /* half a second */
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        if (!weir_layer_is_bucket(l))
            continue;
        uint64_t part = (uint64_t)l->limit / PART, units = part < UNITS ? part : UNITS;
        uint64_t most = UINT64_C(1) << GRID_MAX, interval_ns = l->den / l->num;
        interval_ns = interval_ns < most ? interval_ns : most;
        while (grid < GRID_MAX && interval_ns * units >= UINT64_C(2) << grid)
            grid++;
    }
    return grid;
}

enum { STORED_NAME_MAX = WEIR_RULE_NAME_MAX + 24 }; /* of a name, '?', a number and a NUL */

/* Writes the name that new states of a policy have: that of its current generation. */
static size_t current_name(const char *name, size_t len, const char *text, size_t text_len,
                           char ret[STORED_NAME_MAX])
{
    uint64_t n = len > 0 ? weir_generation_of(name, len) : weir_generation_of(text, text_len);
    WEIR_ASSERT(len <= WEIR_RULE_NAME_MAX);
    return n == 0 ? (size_t)snprintf(ret, STORED_NAME_MAX, "%.*s", (int)len, name)
                  : (size_t)snprintf(ret, STORED_NAME_MAX, "%.*s?%" PRIu64, (int)len, name, n);
}

static bool is_former(const weir_interned *s)
{
    char now[STORED_NAME_MAX];
    (void)current_name(weir_interned_name(s), weir_interned_base_len(s), weir_interned_text(s),
                       s->text_len, now);
    return strcmp(now, weir_interned_name(s)) != 0;
}

/* Finds or adds a policy.
 *  name  with the generation
 *  text  canonical */
static weir_interned *intern(const weir_policy *p, const char *name, size_t name_len,
                             const char *text, size_t len)
{
    WEIR_ASSERT(name_len < STORED_NAME_MAX && len > 0 && len < WEIR_POLICY_TEXT_MAX);
    uint64_t hash = hash_of(name, name_len, text, len);
    weir_interned *s = find(hash, name, name_len, text, len);
    if (s)
        return s;
    if (all.len >= all.sweep_at && weir_interned_holds == 0)
        sweep();
    if (all.len >= all.buckets)
        grow_table();
    s = redis.Calloc(1, sizeof *s + name_len + len + 2);
    s->hash = hash;
    s->small = small_words(p);
    s->grid = grid_of(p);
    s->name_len = (uint8_t)name_len;
    s->text_len = (uint16_t)len;
    s->policy = *p;
    memcpy(s->strings, name, name_len);
    memcpy(s->strings + name_len + 1, text, len);
    s->former = is_former(s);
    s->next = all.table[hash % all.buckets];
    all.table[hash % all.buckets] = s;
    all.len++;
    return s;
}

/* Interns the policy of a text.
 *  stored  the name is that of a stored state, with its generation; else the current one is
 *          added */
static weir_status parse(const char *name, size_t name_len, bool stored, const char *text,
                         size_t len, weir_interned **ret, weir_policy_error *ret_error)
{
    weir_policy p;
    char canonical[WEIR_POLICY_TEXT_MAX], current[STORED_NAME_MAX];
    weir_status st = weir_policy_parse(&p, text, len, &all.zones, ret_error);
    if (st != WEIR_OK)
        return st;
    size_t canonical_len = weir_policy_print(&p, canonical, sizeof canonical);
    if (!stored) {
        name_len = current_name(name, name_len, canonical, canonical_len, current);
        name = current;
    }
    *ret = intern(&p, name, name_len, canonical, canonical_len);
    return WEIR_OK;
}

weir_interned *weir_intern_throttle(void)
{
    weir_policy p;
    if (all.throttle)
        return all.throttle;
    weir_status st = weir_policy_parse(&p, throttle_format, sizeof throttle_format - 1, NULL, NULL);
    WEIR_ASSERT(st == WEIR_OK);
    all.throttle = intern(&p, "", 0, throttle_text, sizeof throttle_text - 1);
    all.throttle->throttle = true;
    weir_interned_ref(all.throttle);
    return all.throttle;
}

/* Whether a name is one of current_name(). */
static bool is_stored_name(const char *name, size_t len)
{
    const char *mark = len > 0 ? memchr(name, '?', len) : NULL;
    size_t base = mark ? (size_t)(mark - name) : len;
    uint64_t n = 1;
    bool good = base == 0 || weir_rule_name_check(name, base, NULL) == WEIR_OK;
    if (mark)
        good =
            good && mark[1] != '0' && weir_decimal_read(mark + 1, len - base - 1, UINT64_MAX, &n);
    return good;
}

weir_status weir_intern_stored(const char *name, size_t name_len, const char *text, size_t len,
                               weir_interned **ret)
{
    weir_policy_error unused;
    if (len >= WEIR_POLICY_TEXT_MAX || !is_stored_name(name, name_len))
        return WEIR_E_SYNTAX;
    if (name_len == 0 && len == sizeof throttle_text - 1 && memcmp(text, throttle_text, len) == 0) {
        *ret = weir_intern_throttle();
        return WEIR_OK;
    }
    weir_interned *s = find(hash_of(name, name_len, text, len), name, name_len, text, len);
    weir_status st = s ? WEIR_OK : parse(name, name_len, true, text, len, &s, &unused);
    if (st != WEIR_OK)
        return st;
    if (s->text_len != len || memcmp(weir_interned_text(s), text, len) != 0)
        return WEIR_E_SYNTAX;
    *ret = s;
    return WEIR_OK;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void cache_drop(cache_entry *k)
{
    if (!k->at)
        return;
    redis.Free(k->at);
    weir_interned_unref(k->interned);
    *k = (cache_entry){0};
}

static void cache_clear(void)
{
    for (size_t i = 0; i < SETS; i++) {
        for (size_t way = 0; way < WAYS; way++)
            cache_drop(&all.cache[i][way]);
    }
}

/* Moves set[way] to the front. */
static void move_to_front(cache_entry *set, size_t way)
{
    cache_entry k = set[way];
    for (; way > 0; way--)
        set[way] = set[way - 1];
    set[0] = k;
}

static bool matches(const cache_entry *k, const char *at, size_t len)
{
    return k->len == len && k->at && memcmp(k->at, at, len) == 0;
}

/* Looks up the cache. The entry used last needs no hash: most clients use the same policy again.
 *  ret_hash  written if NULL is returned */
static weir_interned *cache_find(const char *at, size_t len, uint64_t *ret_hash)
{
    if (matches(all.recent, at, len))
        return all.recent->interned;
    *ret_hash = weir_siphash(all.secret, at, len);
    cache_entry *set = all.recent = all.cache[*ret_hash % SETS];
    for (size_t way = 0; way < WAYS; way++) {
        if (set[way].hash != *ret_hash || !matches(&set[way], at, len))
            continue;
        if (way > 0)
            move_to_front(set, way);
        return set[0].interned;
    }
    return NULL;
}

static void cache_add(uint64_t hash, const char *at, size_t len, weir_interned *s)
{
    cache_entry *set = all.cache[hash % SETS];
    cache_drop(&set[WAYS - 1]);
    set[WAYS - 1] = (cache_entry){redis.Alloc(len > 0 ? len : 1), len, hash, s};
    memcpy(set[WAYS - 1].at, at, len);
    weir_interned_ref(s);
    move_to_front(set, WAYS - 1);
}

/* One cache holds names and texts: a text contains a space, a name does not. */
weir_status weir_intern_text(const char *text, size_t len, weir_interned **ret,
                             weir_policy_error *ret_error)
{
    uint64_t hash = 0;
    weir_interned *s = cache_find(text, len, &hash);
    if (!s || weir_interned_base_len(s) > 0) {
        weir_status st = parse("", 0, false, text, len, &s, ret_error);
        if (st != WEIR_OK)
            return st;
        if (memchr(text, ' ', len))
            cache_add(hash, text, len, s);
    }
    *ret = s;
    return WEIR_OK;
}

weir_status weir_intern_name(const char *name, size_t len, weir_interned **ret)
{
    uint64_t hash = 0;
    weir_interned *s = cache_find(name, len, &hash);
    if (!s) {
        const weir_named *n = weir_named_find(name, len);
        if (!n)
            return WEIR_E_ABSENT;
        s = n->interned;
        cache_add(hash, name, len, s);
    }
    *ret = s;
    return WEIR_OK;
}

/* ---- named policies -------------------------------------------------------------------------- */

/* Binary search: the index of a name, or where it belongs. */
static size_t search(const char *name, size_t len, bool *ret_there)
{
    size_t low = 0, high = all.named_len;
    *ret_there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const weir_named *n = &all.named[mid];
        int order = memcmp(name, n->name, len < n->name_len ? len : n->name_len);
        if (order == 0 && len == n->name_len) {
            *ret_there = true;
            return mid;
        }
        if (order < 0 || (order == 0 && len < n->name_len))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void free_named(weir_named *n)
{
    weir_interned_unref(n->interned);
    redis.Free(n->limit);
}

weir_status weir_named_set(const char *name, size_t name_len, const char *limit, size_t limit_len,
                           weir_policy_error *ret_error)
{
    weir_interned *s;
    bool there;
    weir_rule_error e;
    weir_status st = weir_rule_name_check(name, name_len, &e);
    if (st != WEIR_OK) {
        ret_error->column = 0;
        snprintf(ret_error->text, sizeof ret_error->text, "%.199s", e.text);
        return st;
    }
    st = parse(name, name_len, false, limit, limit_len, &s, ret_error);
    if (st != WEIR_OK)
        return st;
    size_t at = search(name, name_len, &there);
    if (!there && all.named_len == WEIR_NAMED_MAX) {
        ret_error->text[0] = '\0';
        return WEIR_E_FULL;
    }
    weir_interned_ref(s);
    if (there) {
        free_named(&all.named[at]);
    } else {
        all.named = redis.Realloc(all.named, (all.named_len + 1) * sizeof *all.named);
        memmove(all.named + at + 1, all.named + at, (all.named_len++ - at) * sizeof *all.named);
    }
    weir_named *n = &all.named[at];
    WEIR_ASSERT(all.named_len <= WEIR_NAMED_MAX);
    *n = (weir_named){.interned = s, .name_len = name_len, .limit = redis.Alloc(limit_len + 1)};
    memcpy(n->name, name, name_len);
    memcpy(n->limit, limit, limit_len);
    n->limit[limit_len] = '\0';
    cache_clear();
    return WEIR_OK;
}

bool weir_named_drop(const char *name, size_t len)
{
    bool there;
    size_t at = search(name, len, &there);
    if (!there)
        return false;
    free_named(&all.named[at]);
    memmove(all.named + at, all.named + at + 1, (--all.named_len - at) * sizeof *all.named);
    cache_clear();
    return true;
}

void weir_named_drop_all(void)
{
    while (all.named_len > 0)
        free_named(&all.named[--all.named_len]);
    cache_clear();
}

size_t weir_named_all(const weir_named **ret)
{
    *ret = all.named;
    return all.named_len;
}

const weir_named *weir_named_find(const char *name, size_t len)
{
    bool there;
    size_t at = search(name, len, &there);
    return there ? &all.named[at] : NULL;
}

/* ---- resets of all keys of a policy ---------------------------------------------------------- */

void weir_generations_loaded(void)
{
    for (size_t i = 0; i < all.buckets; i++) {
        for (weir_interned *s = all.table[i]; s; s = s->next)
            s->former = is_former(s);
    }
    cache_clear();
}

/* Begins a new generation. */
static weir_status begin_generation(const char *policy, size_t len)
{
    weir_status st = weir_generation_set(policy, len, weir_generation_of(policy, len) + 1);
    if (st == WEIR_OK)
        weir_generations_loaded();
    return st;
}

weir_status weir_text_reset(const char *text, size_t len, weir_policy_error *ret_error)
{
    weir_policy p;
    char canonical[WEIR_POLICY_TEXT_MAX];
    weir_status st = weir_policy_parse(&p, text, len, &all.zones, ret_error);
    return st == WEIR_OK
               ? begin_generation(canonical, weir_policy_print(&p, canonical, sizeof canonical))
               : st;
}

weir_status weir_named_reset(const char *name, size_t len)
{
    bool there;
    char current[STORED_NAME_MAX];
    size_t at = search(name, len, &there);
    weir_status st = there ? begin_generation(name, len) : WEIR_E_ABSENT;
    if (st != WEIR_OK)
        return st;
    weir_interned *before = all.named[at].interned;
    const char *text = weir_interned_text(before);
    size_t current_len = current_name(name, len, text, before->text_len, current);
    weir_interned *s = intern(&before->policy, current, current_len, text, before->text_len);
    weir_interned_ref(s);
    all.named[at].interned = s;
    weir_interned_unref(before);
    return WEIR_OK;
}

/* ---- delta bases ----------------------------------------------------------------------------- */

weir_base *weir_base_at(uint32_t base)
{
    WEIR_ASSERT(base > 0 && base <= all.bases && base < WEIR_BASES_MAX);
    return &all.chunk[base / CHUNK][base % CHUNK];
}

/* Frees a base without references. Its policy stays. */
static void free_base(uint32_t base)
{
    weir_base *s = weir_base_at(base);
    WEIR_ASSERT(s->interned && port_word_load_acquire(&s->refs) == 0);
    if (*weir_base_of(s->interned, s->epoch) == base)
        *weir_base_of(s->interned, s->epoch) = 0;
    weir_interned_unref(s->interned);
    s->interned = NULL;
}

/* Finds a base without references: one that was never used, else one of the next TRIES. Returns 0
 * if it finds none; the next call continues the search from there. */
static uint32_t find_base(void)
{
    enum { TRIES = 64 };
    if (all.bases + 1 < WEIR_BASES_MAX) {
        uint32_t base = ++all.bases;
        if (!all.chunk[base / CHUNK])
            all.chunk[base / CHUNK] = redis.Calloc(CHUNK, sizeof(weir_base));
        return base;
    }
    for (int i = 0; i < TRIES; i++) {
        all.next_base = all.next_base % all.bases + 1;
        weir_base *s = weir_base_at(all.next_base);
        if (port_word_load_acquire(&s->refs) > 0)
            continue;
        if (s->interned)
            free_base(all.next_base);
        return all.next_base;
    }
    return 0;
}

bool weir_base_new(weir_interned *s, uint32_t epoch, uint64_t hi, uint64_t lo)
{
    uint32_t base = find_base();
    if (base == 0)
        return false;
    weir_base *at = weir_base_at(base);
    WEIR_ASSERT(!at->interned && port_word_load_acquire(&at->refs) == 0);
    weir_interned_ref(s);
    at->interned = s;
    at->hi = hi;
    at->lo = lo;
    at->epoch = epoch;
    *weir_base_of(s, epoch) = base;
    return true;
}

void weir_interned_close(void)
{
    weir_named_drop_all();
    weir_generations_drop_all();
    redis.Free(all.named);
    if (all.throttle)
        weir_interned_unref(all.throttle);
    for (uint32_t base = 1; base <= all.bases; base++) {
        if (weir_base_at(base)->interned)
            free_base(base);
    }
    sweep();
    WEIR_ASSERT(all.len == 0);
    redis.Free(all.table);
    for (size_t i = 0; i < CHUNKS; i++)
        redis.Free(all.chunk[i]);
    weir_zone_cache_close(all.zone_cache);
    memset(&all, 0, sizeof all);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool is_sound_table(void)
{
    size_t len = 0;
    bool sound = true;
    for (size_t i = 0; i < all.buckets; i++) {
        for (const weir_interned *s = all.table[i]; s; s = s->next) {
            len++;
            sound = sound && s->hash % all.buckets == i;
            for (int k = 0; k < BASES && sound; k++)
                sound = s->base[k] <= all.bases &&
                        (s->base[k] == 0 || weir_base_at(s->base[k])->interned == s);
        }
    }
    return sound && len == all.len;
}

static bool is_sound_set(const cache_entry *set, size_t i)
{
    for (size_t way = 0; way < WAYS; way++) {
        const cache_entry *k = &set[way];
        if (k->at && (k->hash % SETS != i || port_word_load_acquire(&k->interned->refs) == 0))
            return false;
    }
    return true;
}

bool weir_interned_sound(void)
{
    bool sound = is_sound_table() && weir_interned_holds == 0;
    for (size_t i = 0; i < SETS; i++)
        sound = sound && is_sound_set(all.cache[i], i);
    for (size_t i = 0; i < all.named_len; i++) {
        bool there;
        sound = sound && search(all.named[i].name, all.named[i].name_len, &there) == i && there;
    }
    for (uint32_t base = 1; base <= all.bases; base++) {
        const weir_base *b = weir_base_at(base);
        sound = sound && (b->interned || port_word_load_acquire(&b->refs) == 0);
    }
    return sound;
}
