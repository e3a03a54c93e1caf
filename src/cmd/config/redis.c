/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Engines beside the daemon's own memory. What is right is for weir_redis_options_check() to say,
 * which is asked about each URL by itself, so that its answer finds its place. It must not know how
 * a server is spoken to. */

#include "cmd/config/redis.h"

#include "cmd/input.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define MS_NS         ((int64_t)1000000)
#define S_NS          ((int64_t)1000000000)
#define KIB           ((int64_t)1 << 10)
#define MIB           ((int64_t)1 << 20)

static const char url_expected[] =
    "a URL, such as redis://127.0.0.1:6379, rediss://HOST:6379 (TLS) or "
    "unix:///run/redis/redis.sock";

/* The section while it is read: the options, and numbers that they have in other types. */
typedef struct draft {
    weir_redis_options o;
    int in_flight;
    uint64_t deny_cache_bytes;
    const char **urls;
    size_t urls_len;
} draft;

/* ---- which engine ---------------------------------------------------------------------------- */

static const char *const engine_words[] = {
    [WEIR_ENGINE_LOCAL] = "local", [WEIR_ENGINE_REDIS] = "redis", [WEIR_ENGINE_HYBRID] = "hybrid"};

void config_look_for_engines(config_reader *r)
{
    const config_node *engine = config_get(r->root, "engine"),
                      *redis = config_get(r->root, "redis");
    r->has_redis = redis && !config_is_empty(redis);
    if (engine && !config_is_empty(engine))
        r->engine = WEIR_ENGINE_REDIS; /* also for a word that is none, which is told once */
    for (size_t i = 0; engine && i < LENGTH(engine_words); i++) {
        if (strcmp(engine->text, engine_words[i]) == 0)
            r->engine = (weir_engine_kind)i;
    }
}

bool config_read_engine(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    int word =
        config_read_word(r, place, engine_words, LENGTH(engine_words), "local, redis or hybrid");
    if (word < 0)
        return false;
    if (word != WEIR_ENGINE_LOCAL && !r->has_redis) {
        config_complain(r->errors, place,
                        "the engine %s needs a server, expected also redis: {url: "
                        "redis://127.0.0.1:6379}",
                        engine_words[word]);
        return false;
    }
    *(weir_engine_kind *)((char *)base + field->offset) = (weir_engine_kind)word;
    return true;
}

bool config_read_on_error(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    static const char *const words[] = {"open", "closed", "local"};
    static const weir_on_error values[] = {WEIR_ON_ERROR_OPEN, WEIR_ON_ERROR_CLOSED,
                                           WEIR_ON_ERROR_LOCAL};
    int word = config_read_word(r, place, words, LENGTH(words), "open, closed or local");
    if (word >= 0)
        *(weir_on_error *)((char *)base + field->offset) = values[word];
    return word >= 0;
}

/* ---- values of the section ------------------------------------------------------------------- */

/* A const char *. */
static bool read_text(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    if (!config_want_text(r, place, "a text"))
        return false;
    *(const char **)((char *)base + field->offset) = place->node->text;
    return true;
}

/* The same, of a file that can be read; a relative path begins where the configuration lies. */
static bool read_path(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    if (!config_want_text(r, place, "the path of a file"))
        return false;
    const char *path = config_beside(r, place->node->text);
    int fd = -1;
    const char *why = r->files && path ? input_open(path, &fd) : NULL;
    if (why) {
        config_complain(r->errors, place, "%.200s cannot be read: %s", path, why);
        return false;
    }
    if (fd >= 0)
        close(fd);
    *(const char **)((char *)base + field->offset) = path;
    return true;
}

static bool read_prefix(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    const config_node *n = place->node;
    if (n->kind != CONFIG_TEXT || n->len > WEIR_REDIS_PREFIX_MAX) {
        config_complain(r->errors, place, "expected a text of at most %d bytes, as \"weir:\"",
                        WEIR_REDIS_PREFIX_MAX);
        return false;
    }
    *(const char **)((char *)base + field->offset) = n->text;
    return true;
}

static bool is_password(config_reader *r, const config_place *place, size_t len)
{
    if (len >= 1 && len < CONFIG_PASSWORD_MAX)
        return true;
    config_complain(r->errors, place, "a password of %zu bytes, expected 1 to %d", len,
                    CONFIG_PASSWORD_MAX - 1);
    return false;
}

static bool read_password(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    if (!config_want_text(r, place, "a password in quotes"))
        return false;
    config_warn_variable(r, place);
    return is_password(r, place, place->node->len) && read_text(r, place, field, base);
}

static bool read_password_file(config_reader *r, const config_place *place,
                               const config_field *field, void *base)
{
    const char *text = NULL;
    size_t len = 0;
    if (config_get(place->up->node, "password")) {
        config_complain_at(r->errors, place->key->begin, place,
                           "there is a password already, expected one of password and "
                           "password_file");
        return false;
    }
    if (!config_read_secret(r, place, &text, &len) || !is_password(r, place, len))
        return false;
    *(const char **)((char *)base + field->offset) = text;
    return true;
}

static bool read_by(config_reader *r, const config_place *place, const config_field *field,
                    void *base)
{
    static const char *const words[] = {[WEIR_REDIS_BY_ANY] = "any",
                                        [WEIR_REDIS_BY_MODULE] = "module",
                                        [WEIR_REDIS_BY_FUNCTIONS] = "functions",
                                        [WEIR_REDIS_BY_SCRIPT] = "script"};
    (void)field;
    int word = config_read_word(r, place, words, LENGTH(words), "any, module, functions or script");
    if (word >= 0)
        ((draft *)base)->o.by = (weir_redis_by)word;
    return word >= 0;
}

/* What holds for policies that say nothing of it. */
static bool read_default_on_error(config_reader *r, const config_place *place,
                                  const config_field *field, void *base)
{
    static const weir_redis_on_error of[] = {[WEIR_ON_ERROR_OPEN] = WEIR_REDIS_OPEN,
                                             [WEIR_ON_ERROR_CLOSED] = WEIR_REDIS_CLOSED,
                                             [WEIR_ON_ERROR_LOCAL] = WEIR_REDIS_LOCAL};
    const config_field whole = {.name = field->name};
    weir_on_error on_error;
    if (!config_read_on_error(r, place, &whole, &on_error))
        return false;
    ((draft *)base)->o.on_error = of[on_error];
    return true;
}

static bool read_deny_cache(config_reader *r, const config_place *place, const config_field *field,
                            void *base)
{
    const config_node *n = place->node;
    if (strcmp(n->text, "0") != 0 && strcmp(n->text, "off") != 0)
        return config_read_size(r, place, field, base);
    ((draft *)base)->deny_cache_bytes = SIZE_MAX; /* none */
    return true;
}

static bool read_tls(config_reader *r, const config_place *place, const config_field *field,
                     void *base)
{
    static const config_field fields[] = {
        {.name = "ca", .read = read_path, .offset = offsetof(draft, o.tls_ca)},
        {.name = "cert", .read = read_path, .offset = offsetof(draft, o.tls_cert)},
        {.name = "key", .read = read_path, .offset = offsetof(draft, o.tls_key)},
        {.name = "name", .read = read_text, .offset = offsetof(draft, o.tls_name)},
        {.name = "insecure", .read = config_read_bool, .offset = offsetof(draft, o.tls_insecure)},
    };
    (void)field;
    const config_node *cert = config_get(place->node, "cert"),
                      *key = config_get(place->node, "key");
    if (!config_read_map(r, place, fields, LENGTH(fields), base))
        return false;
    if (!cert == !key)
        return true;
    config_complain_at(r->errors, (cert ? cert : key)->begin, place,
                       "expected cert and key together, the certificate and its private key");
    return false;
}

/* A master's name, or a map with it. */
static bool read_sentinel(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    static const config_field fields[] = {
        {.name = "name", .read = read_text, .offset = offsetof(draft, o.sentinel)},
        {.name = "user", .read = read_text, .offset = offsetof(draft, o.sentinel_user)},
        {.name = "password", .read = read_password, .offset = offsetof(draft, o.sentinel_password)},
        {.name = "password_file",
         .read = read_password_file,
         .offset = offsetof(draft, o.sentinel_password)},
    };
    (void)field;
    draft *d = base;
    if (place->node->kind == CONFIG_TEXT && place->node->len > 0) {
        d->o.sentinel = place->node->text;
        return true;
    }
    size_t before = r->errors->found;
    if (!config_read_map(r, place, fields, LENGTH(fields), base) || r->errors->found > before)
        return false;
    const config_node *user = config_get(place->node, "user");
    if (!d->o.sentinel)
        config_complain(r->errors, place,
                        "expected the name that the Sentinels have for the master, such as {name: "
                        "mymaster}");
    else if (user && !d->o.sentinel_password)
        config_complain_at(r->errors, user->begin, place, "a user without a password");
    return d->o.sentinel != NULL;
}

/* ---- where the servers are ------------------------------------------------------------------- */

/* One URL by itself. What is wrong is told without any of its text. */
static bool check_url(config_reader *r, const config_place *place)
{
    weir_redis_error error = {""};
    const char *url = place->node->text;
    const weir_redis_options one = {.urls = &url, .urls_len = 1};
    if (!config_want_text(r, place, url_expected))
        return false;
    if (weir_redis_options_check(&one, &error) == WEIR_OK)
        return true;
    config_complain(r->errors, place, "%s", error.text);
    return false;
}

static bool add_urls(config_reader *r, const config_place *place, draft *d)
{
    const config_node *n = place->node;
    bool is_list = n->kind == CONFIG_LIST;
    size_t len = is_list ? n->children : 1, i = 0;
    if (d->urls) {
        config_complain_at(r->errors, place->key->begin, place, "expected one of url and urls");
        return false;
    }
    if (len < 1 || len > WEIR_REDIS_URLS_MAX) {
        config_complain(r->errors, place, "%zu URLs, expected 1 to %d", len, WEIR_REDIS_URLS_MAX);
        return false;
    }
    d->urls = config_alloc_array(r->arena, len, sizeof *d->urls);
    if (!d->urls)
        return false;
    for (const config_node *one = is_list ? n->first : n; i < len; one = one->next, i++) {
        const config_place entry = {place, NULL, i, one};
        if (check_url(r, is_list ? &entry : place))
            d->urls[d->urls_len++] = one->text;
    }
    return d->urls_len == len;
}

static bool read_urls(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    (void)field;
    return add_urls(r, place, base);
}

/* ---- the section ----------------------------------------------------------------------------- */

static const config_field redis_fields[] = {
    {.name = "url", .read = read_urls},
    {.name = "urls", .read = read_urls},
    {.name = "user", .read = read_text, .offset = offsetof(draft, o.user)},
    {.name = "password", .read = read_password, .offset = offsetof(draft, o.password)},
    {.name = "password_file", .read = read_password_file, .offset = offsetof(draft, o.password)},
    {.name = "sentinel", .read = read_sentinel},
    {.name = "prefix", .read = read_prefix, .offset = offsetof(draft, o.prefix)},
    {.name = "by", .read = read_by},
    {.name = "deadline",
     .read = config_read_interval,
     .offset = offsetof(draft, o.deadline_ns),
     .low = MS_NS,
     .high = 60 * S_NS},
    {.name = "in_flight",
     .read = config_read_int,
     .offset = offsetof(draft, in_flight),
     .low = 1,
     .high = 1 << 20},
    {.name = "on_error", .read = read_default_on_error},
    {.name = "deny_cache",
     .read = read_deny_cache,
     .offset = offsetof(draft, deny_cache_bytes),
     .low = 64 * KIB,
     .high = 1024 * MIB},
    {.name = "tls", .read = read_tls},
};

bool config_read_redis(config_reader *r, const config_place *place, const config_field *field,
                       void *base)
{
    (void)field;
    draft d = {.in_flight = 16384, .deny_cache_bytes = (uint64_t)MIB, .o.deadline_ns = 50 * MS_NS};
    weir_redis_error error = {""};
    weir_config *c = base;
    size_t before = r->errors->found;
    if (config_is_empty(place->node))
        return true;
    if (!config_read_map(r, place, redis_fields, LENGTH(redis_fields), &d) ||
        r->errors->found > before)
        return false;
    const config_node *user = config_get(place->node, "user");
    d.o.urls = (const char *const *)d.urls;
    d.o.urls_len = d.urls_len;
    d.o.in_flight = (size_t)d.in_flight;
    d.o.deny_cache_bytes = (size_t)d.deny_cache_bytes;
    d.o.zones = r->zones;
    if (d.urls_len == 0)
        config_complain_at(r->errors, place->key->begin, place,
                           "the key url is missing, expected %s", url_expected);
    else if (user && !d.o.password)
        config_complain_at(r->errors, user->begin, place, "a user without a password");
    else if (weir_redis_options_check(&d.o, &error) != WEIR_OK)
        config_complain_at(r->errors, place->key->begin, place, "%s", error.text);
    else
        c->redis = d.o;
    c->has_redis = r->errors->found == before;
    return c->has_redis;
}

/* ---- hybrid ---------------------------------------------------------------------------------- */

bool config_read_hybrid(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    struct numbers {
        int64_t interval_ns, idle_ns;
        uint64_t memory_bytes;
        int count;
    } n = {.interval_ns = 100 * MS_NS, .idle_ns = S_NS, .memory_bytes = 4 * MIB, .count = 1000};
    static const config_field fields[] = {
        {.name = "interval",
         .read = config_read_interval,
         .offset = offsetof(struct numbers, interval_ns),
         .low = MS_NS,
         .high = 60 * S_NS},
        {.name = "count",
         .read = config_read_int,
         .offset = offsetof(struct numbers, count),
         .low = 1,
         .high = INT32_MAX},
        {.name = "idle",
         .read = config_read_interval,
         .offset = offsetof(struct numbers, idle_ns),
         .low = MS_NS,
         .high = 3600 * S_NS},
        {.name = "memory",
         .read = config_read_size,
         .offset = offsetof(struct numbers, memory_bytes),
         .low = 64 * KIB,
         .high = 1024 * MIB},
    };
    (void)field;
    if (config_is_empty(place->node))
        return true;
    if (!r->has_redis) {
        config_complain_at(r->errors, place->key->begin, place,
                           "the engine hybrid settles with a server, expected also redis: {url: "
                           "redis://127.0.0.1:6379}");
        return false;
    }
    if (!config_read_map(r, place, fields, LENGTH(fields), &n))
        return false;
    ((weir_config *)base)->hybrid =
        (weir_hybrid_options){n.interval_ns, n.count, n.idle_ns, (size_t)n.memory_bytes};
    return true;
}

bool config_wants_tls(const weir_config *c)
{
    return c->has_redis && strncmp(c->redis.urls[0], "rediss://", 9) == 0; /* all do, or none */
}

/* ---- the command line ------------------------------------------------------------------------ */

bool config_use_redis(weir_config *c, const char *url, weir_redis_error *ret_error)
{
    const char **urls = config_alloc(&c->memory->arena, sizeof *urls);
    char *copy = config_copy(&c->memory->arena, url, strlen(url));
    weir_rule_spec *rules = config_alloc_array(&c->memory->arena, c->rules_len + 1, sizeof *rules);
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
    }
    c->rules = rules;
    c->redis = o;
    c->has_redis = true;
    if (c->engine == WEIR_ENGINE_LOCAL)
        c->engine = WEIR_ENGINE_REDIS;
    return true;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* NULL is another than "". */
static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_urls(const weir_redis_options *a, const weir_redis_options *b)
{
    bool same = a->urls_len == b->urls_len;
    for (size_t i = 0; same && i < a->urls_len; i++)
        same = strcmp(a->urls[i], b->urls[i]) == 0;
    return same;
}

bool config_same_redis(const weir_config *x, const weir_config *y)
{
    const weir_redis_options *a = &x->redis, *b = &y->redis;
    return x->has_redis == y->has_redis && same_urls(a, b) && same_text(a->user, b->user) &&
           same_text(a->password, b->password) && same_text(a->sentinel, b->sentinel) &&
           same_text(a->sentinel_user, b->sentinel_user) &&
           same_text(a->sentinel_password, b->sentinel_password) &&
           same_text(a->prefix, b->prefix) && a->by == b->by && a->deadline_ns == b->deadline_ns &&
           a->in_flight == b->in_flight && a->on_error == b->on_error &&
           a->deny_cache_bytes == b->deny_cache_bytes && same_text(a->tls_ca, b->tls_ca) &&
           same_text(a->tls_cert, b->tls_cert) && same_text(a->tls_key, b->tls_key) &&
           same_text(a->tls_name, b->tls_name) && a->tls_insecure == b->tls_insecure;
}
