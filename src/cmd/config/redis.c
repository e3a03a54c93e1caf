/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The keys `engine`, `redis` and `hybrid`. weir_redis_options_check() decides what is valid; it is
 * called for each URL separately, so that an error has a position. It must not know the protocol
 * of the servers. */

#include "cmd/config/keys.h"
#include "engine/redis/client/client.h"
#include "port/assert.h"

#include <string.h>

#define S_NS           CONFIG_S_NS
#define MS_NS          CONFIG_MS_NS
#define MIB            CONFIG_MIB
#define MEMBER(member) CONFIG_MEMBER(weir_config, member)

static const char url_expected[] =
    "a URL, such as redis://127.0.0.1:6379, rediss://HOST:6379 (TLS) or "
    "unix:///run/redis/redis.sock";

/* ---- engine and on_error --------------------------------------------------------------------- */

const char *const config_engine_words[] = {
    [WEIR_ENGINE_LOCAL] = "local", [WEIR_ENGINE_REDIS] = "redis", [WEIR_ENGINE_HYBRID] = "hybrid"};

const char *const config_on_error_words[] = {[WEIR_ON_ERROR_OPEN] = "open",
                                             [WEIR_ON_ERROR_CLOSED] = "closed",
                                             [WEIR_ON_ERROR_LOCAL] = "local"};

static bool has_redis(const config_reader *r)
{
    const config_node *redis = config_get(r->root, "redis");
    return redis && !config_is_empty(redis);
}

void config_read_engine(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    const config_key word = {.type = CONFIG_WORD,
                             .offset = key->offset,
                             .size = key->size,
                             CONFIG_WORDS(config_engine_words, 0)};
    weir_engine_kind *engine = (weir_engine_kind *)((char *)base + key->offset);
    size_t before = r->errors->found;
    WEIR_ASSERT(key->size == sizeof *engine);
    config_read_value(r, place, &word, base);
    if (r->errors->found > before)
        *engine = WEIR_ENGINE_REDIS; /* prevents the error that on_error requires an engine */
    else if (*engine != WEIR_ENGINE_LOCAL && !has_redis(r))
        config_error(r->errors, place,
                     "engine %s requires a server; add redis: {url: redis://127.0.0.1:6379}",
                     config_engine_words[*engine]);
}

/* ---- redis: its values ----------------------------------------------------------------------- */

static void read_prefix(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    const config_node *n = place->node;
    (void)key;
    if (n->kind != CONFIG_SCALAR || n->len > WEIR_REDIS_PREFIX_MAX)
        config_error(r->errors, place, "expected at most %d bytes, such as \"weir:\"",
                     WEIR_REDIS_PREFIX_MAX);
    else
        ((weir_config *)base)->redis.prefix = n->text;
}

static bool check_url(config_reader *r, const config_place *place)
{
    weir_redis_error error = {""};
    const weir_redis_options one = {.urls = &place->node->text, .urls_len = 1};
    if (!config_want_scalar(r, place, url_expected))
        return false;
    if (weir_redis_options_check(&one, &error) == WEIR_OK)
        return true;
    config_error(r->errors, place, "%s", error.text);
    return false;
}

/* A URL or a list of them; both for `url` and for `urls`. */
static void read_urls(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    weir_redis_options *o = &((weir_config *)base)->redis;
    const config_node *n = place->node;
    size_t max = n->kind == CONFIG_LIST ? n->children : 1, len = 0;
    (void)key;
    if (o->urls) {
        config_error_on(r->errors, place->key, place,
                        "both url and urls are set, expected only one");
        return;
    }
    if (max < 1 || max > WEIR_REDIS_URLS_MAX) {
        config_error(r->errors, place, "%zu URLs, expected 1 to %d", max, WEIR_REDIS_URLS_MAX);
        return;
    }
    const char **urls = weir_arena_alloc(r->arena, max, sizeof *urls);
    for (config_place entry = {0}; urls && config_next_entry(place, &entry);) {
        if (check_url(r, &entry))
            urls[len++] = entry.node->text;
    }
    o->urls = (const char *const *)urls;
    o->urls_len = len;
}

static bool same_urls(const config_key *key, const void *first, const void *second)
{
    const weir_config *a = first, *b = second;
    (void)key;
    bool same = a->redis.urls_len == b->redis.urls_len;
    for (size_t i = 0; same && i < a->redis.urls_len; i++)
        same = strcmp(a->redis.urls[i], b->redis.urls[i]) == 0;
    return same;
}

static const config_key tls_keys[] = {
    {"ca", CONFIG_READABLE_PATH, MEMBER(redis.tls_ca)},
    {"cert", CONFIG_READABLE_PATH, MEMBER(redis.tls_cert)},
    {"key", CONFIG_READABLE_PATH, MEMBER(redis.tls_key)},
    {"name", CONFIG_STRING, MEMBER(redis.tls_name)},
    {"insecure", CONFIG_BOOL, MEMBER(redis.tls_insecure)},
};

static const config_section tls_section = {CONFIG_KEYS(tls_keys), .check = config_check_client_tls};

static void check_user(config_reader *r, const config_place *place, const char *password)
{
    const config_node *user = config_get(place->node, "user");
    if (user && !password)
        config_error_on(r->errors, user, place, "user requires password or password_file");
}

/* "sentinel: NAME" is short for "sentinel: {name: NAME}". */
static void read_sentinel(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    if (place->node->kind == CONFIG_SCALAR && place->node->len > 0)
        ((weir_config *)base)->redis.sentinel = place->node->text;
    else
        config_read_section(r, place, key->section, base);
}

static void check_sentinel(config_reader *r, const config_place *place, void *base)
{
    const weir_redis_options *o = &((weir_config *)base)->redis;
    if (!o->sentinel)
        config_error(r->errors, place, "expected the master's name, such as {name: mymaster}");
    else
        check_user(r, place, o->sentinel_password);
}

#define PASSWORD(member) MEMBER(member), CONFIG_RANGE(1, CONFIG_PASSWORD_MAX - 1, 0)

static const config_key sentinel_keys[] = {
    {"name", CONFIG_STRING, MEMBER(redis.sentinel)},
    {"user", CONFIG_STRING, MEMBER(redis.sentinel_user)},
    {"password", CONFIG_PASSWORD, PASSWORD(redis.sentinel_password)},
    {"password_file", CONFIG_PASSWORD_FILE, PASSWORD(redis.sentinel_password)},
};

static const config_section sentinel_section = {CONFIG_KEYS(sentinel_keys),
                                                .check = check_sentinel};

/* ---- redis: the section ---------------------------------------------------------------------- */

static const char *const by_words[] = {[WEIR_REDIS_BY_ANY] = "any",
                                       [WEIR_REDIS_BY_MODULE] = "module",
                                       [WEIR_REDIS_BY_FUNCTIONS] = "functions",
                                       [WEIR_REDIS_BY_SCRIPT] = "script"};

static const char *const default_on_error_words[] = {
    [WEIR_REDIS_OPEN] = "open", [WEIR_REDIS_CLOSED] = "closed", [WEIR_REDIS_LOCAL] = "local"};

static void check_redis(config_reader *r, const config_place *place, void *base)
{
    weir_config *c = base;
    weir_redis_options *o = &c->redis;
    weir_redis_error error = {""};
    size_t before = r->errors->found;
    if (config_is_empty(place->node))
        return;
    if (!o->urls)
        config_error_on(r->errors, place->key, place, "missing key url, expected %s", url_expected);
    else
        check_user(r, place, o->password);
    if (r->errors->found == before && weir_redis_options_check(o, &error) != WEIR_OK)
        config_error_on(r->errors, place->key, place, "%s", error.text);
    c->has_redis = r->errors->found == before;
}

static const config_key redis_keys[] = {
    {"url", CONFIG_OTHER, .schema = CONFIG_TEXTS, .read = read_urls, .same = same_urls},
    {"urls", CONFIG_OTHER, .schema = CONFIG_TEXTS, .read = read_urls},
    {"user", CONFIG_STRING, MEMBER(redis.user)},
    {"password", CONFIG_PASSWORD, PASSWORD(redis.password)},
    {"password_file", CONFIG_PASSWORD_FILE, PASSWORD(redis.password)},
    {"sentinel", CONFIG_SECTION, .section = &sentinel_section, .read = read_sentinel},
    {"prefix", CONFIG_STRING, MEMBER(redis.prefix), .read = read_prefix},
    {"by", CONFIG_WORD, MEMBER(redis.by), CONFIG_WORDS(by_words, WEIR_REDIS_BY_ANY)},
    {"deadline", CONFIG_DURATION, MEMBER(redis.deadline_ns),
     CONFIG_RANGE(MS_NS, 60 * S_NS, WEIR_REDIS_DEADLINE_NS_DEFAULT)},
    {"in_flight", CONFIG_NUMBER, MEMBER(redis.in_flight),
     CONFIG_RANGE(1, 1 << 20, WEIR_REDIS_IN_FLIGHT_DEFAULT)},
    {"on_error", CONFIG_WORD, MEMBER(redis.on_error),
     CONFIG_WORDS(default_on_error_words, WEIR_REDIS_OPEN)},
    {"deny_cache", CONFIG_SIZE, MEMBER(redis.deny_cache_bytes),
     CONFIG_RANGE(64 * CONFIG_KIB, CONFIG_GIB, WEIR_REDIS_DENY_CACHE_BYTES_DEFAULT),
     .may_be_off = true, .off = -1},
    {"tls", CONFIG_SECTION, .section = &tls_section},
};

const config_section config_redis_section = {CONFIG_KEYS(redis_keys), .check = check_redis};

/* ---- hybrid ---------------------------------------------------------------------------------- */

static void check_hybrid(config_reader *r, const config_place *place, void *base)
{
    (void)base;
    if (!config_is_empty(place->node) && !has_redis(r))
        config_error_on(r->errors, place->key, place,
                        "requires a server; add redis: {url: redis://127.0.0.1:6379}");
}

static const config_key hybrid_keys[] = {
    {"interval", CONFIG_DURATION, MEMBER(hybrid.interval_ns),
     CONFIG_RANGE(MS_NS, 60 * S_NS, 100 * MS_NS)},
    {"count", CONFIG_NUMBER, MEMBER(hybrid.count), CONFIG_RANGE(1, INT32_MAX, 1000)},
    {"idle", CONFIG_DURATION, MEMBER(hybrid.idle_ns), CONFIG_RANGE(MS_NS, 3600 * S_NS, S_NS)},
    {"memory", CONFIG_SIZE, MEMBER(hybrid.memory_bytes),
     CONFIG_RANGE(64 * CONFIG_KIB, CONFIG_GIB, 4 * MIB)},
};

const config_section config_hybrid_section = {CONFIG_KEYS(hybrid_keys), .check = check_hybrid};

/* ---- use by the daemon ----------------------------------------------------------------------- */

bool config_uses_engine(const weir_config *c, weir_engine_kind engine)
{
    bool used = c->engine == engine;
    for (size_t i = 0; config_guest_at(i); i++) {
        const config_guest *g = config_guest_at(i);
        used |= g->uses_engine && g->uses_engine(c->guest[i], engine);
    }
    for (size_t i = 0; i < c->rules_len; i++)
        used |= c->rules[i].engine == engine;
    return used;
}

bool config_wants_tls(const weir_config *c)
{
    return c->has_redis && strncmp(c->redis.urls[0], "rediss://", 9) == 0; /* all URLs, or none */
}

bool config_use_redis(weir_config *c, const char *url, weir_redis_error *ret_error)
{
    const char **urls = weir_arena_alloc(c->arena, 1, sizeof *urls);
    char *copy = weir_arena_copy(c->arena, url, strlen(url));
    weir_rule_spec *rules = weir_arena_alloc(c->arena, c->rules_len, sizeof *rules);
    weir_redis_options o = c->redis;
    if (!urls || !copy || !rules) {
        snprintf(ret_error->text, sizeof ret_error->text, "out of memory");
        return false;
    }
    *urls = copy;
    o.urls = (const char *const *)urls;
    o.urls_len = 1;
    if (weir_redis_options_check(&o, ret_error) != WEIR_OK)
        return false;
    for (size_t i = 0; i < c->rules_len; i++) {
        rules[i] = c->rules[i];
        if (rules[i].engine == WEIR_ENGINE_LOCAL)
            rules[i].engine = WEIR_ENGINE_REDIS;
        rules[i].candidate = NULL; /* needs the local engine */
    }
    c->rules = rules;
    c->partitions_len = 0; /* no rule has states here any more */
    c->redis = o;
    c->has_redis = true;
    if (c->engine == WEIR_ENGINE_LOCAL)
        c->engine = WEIR_ENGINE_REDIS;
    for (size_t i = 0; config_guest_at(i); i++) {
        const config_guest *g = config_guest_at(i);
        if (g->use_redis && !g->use_redis(c, c->guest[i], ret_error))
            return false;
    }
    return true;
}
