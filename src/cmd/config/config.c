/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of the keys of weir.yaml, and reading a file: bytes -> tree -> weir_config. http.c and
 * redis.c have the tables of their sections. It must not know how the daemon uses the values. */

#include "cmd/config/keys.h"
#include "cmd/envoy/environment.h"
#include "cmd/input.h"
#include "port/text.h"
#include "service/top/top.h"

#include <stdlib.h>
#include <string.h>

#define DAY_NS (86400 * CONFIG_S_NS)
#define TIB    (1024 * CONFIG_GIB)

/* The least memory for large states, and for all others; see weir_store_open(). */
#define LARGE_MIN (64 * CONFIG_KIB)

#define MEMBER(member)  CONFIG_MEMBER(weir_config, member)
#define TIMEOUT(preset) CONFIG_RANGE(CONFIG_MS_NS, 30 * DAY_NS, preset), .may_be_off = true

/* ---- memory ---------------------------------------------------------------------------------- */

/* Reports the keys that require a state file. */
static void check_file_keys(config_reader *r, const config_place *place)
{
    static const char *const keys[] = {"sync", "shared", "trust_others"};
    for (size_t i = 0; i < CONFIG_LENGTH(keys); i++) {
        const config_node *value = config_get(place->node, keys[i]);
        if (value)
            config_error_at(r->errors, value->begin, place, "%s requires file: PATH", keys[i]);
    }
}

/* Reports what weir_store_open() would refuse. */
static void check_memory(config_reader *r, const config_place *place, void *base)
{
    weir_config *c = base;
    const config_node *size = config_get(place->node, "size");
    const config_node *large = config_get(place->node, "large");
    char text[24];
    if (!large)
        c->memory_large_bytes = c->memory_bytes / 4;
    if (large && c->memory_large_bytes + LARGE_MIN > c->memory_bytes)
        config_error_at(r->errors, large->begin, place,
                        "large must be at least 64k less than size, which is %s",
                        config_size_text(c->memory_bytes, text, sizeof text));
    else if (c->state_file && (c->memory_bytes < 8 * CONFIG_MIB ||
                               c->memory_bytes - c->memory_large_bytes < 6 * CONFIG_MIB))
        config_error_at(r->errors, (large ? large : size)->begin, place,
                        "with file, size must be at least 8m, and at least 6m more than large");
    if (!config_get(place->node, "file"))
        check_file_keys(r, place);
    if (c->state_file && c->prefault)
        config_error_at(r->errors, config_get(place->node, "prefault")->begin, place,
                        "prefault cannot be combined with file; remove one of them");
}

static const char *const sync_words[] = {
    [WEIR_SYNC_NEVER] = "never", [WEIR_SYNC_SECOND] = "1s", [WEIR_SYNC_ALWAYS] = "always"};
static const char *const full_words[] = {[WEIR_EVICT] = "evict", [WEIR_REFUSE] = "refuse"};

static const config_key memory_keys[] = {
    {"size", CONFIG_SIZE, MEMBER(memory_bytes), CONFIG_RANGE(CONFIG_MIB, TIB, 256 * CONFIG_MIB)},
    {"large", CONFIG_SIZE, MEMBER(memory_large_bytes),
     CONFIG_RANGE(LARGE_MIN, TIB, 64 * CONFIG_MIB)},
    {"file", CONFIG_PATH, MEMBER(state_file)},
    {"sync", CONFIG_WORD, MEMBER(sync), CONFIG_WORDS(sync_words, WEIR_SYNC_SECOND)},
    {"when_full", CONFIG_WORD, MEMBER(when_full), CONFIG_WORDS(full_words, WEIR_EVICT)},
    {"shared", CONFIG_BOOL, MEMBER(shared)},
    {"trust_others", CONFIG_BOOL, MEMBER(trust_others)},
    {"prefault", CONFIG_BOOL, MEMBER(prefault)},
};

/* ---- limits ---------------------------------------------------------------------------------- */

static const config_key limits_keys[] = {
    {"connections", CONFIG_NUMBER, MEMBER(connections), CONFIG_RANGE(1, 1000000, 10000)},
    {"buffers", CONFIG_SIZE, MEMBER(buffers_bytes),
     CONFIG_RANGE(CONFIG_MIB, TIB, 256 * CONFIG_MIB)},
    {"idle", CONFIG_DURATION, MEMBER(idle_ns), TIMEOUT(0)},
    {"request", CONFIG_DURATION, MEMBER(request_ns), TIMEOUT(10 * CONFIG_S_NS)},
    {"write", CONFIG_DURATION, MEMBER(write_ns), TIMEOUT(30 * CONFIG_S_NS)},
    {"drain", CONFIG_DURATION, MEMBER(drain_ns), TIMEOUT(5 * CONFIG_S_NS)},
};

/* ---- top ------------------------------------------------------------------------------------- */

static const config_key top_keys[] = {
    {"keys", CONFIG_NUMBER, MEMBER(top_keys), CONFIG_RANGE(0, WEIR_TOP_KEYS_MAX, 100)},
    {"memory", CONFIG_SIZE, MEMBER(top_memory_bytes),
     CONFIG_RANGE(CONFIG_MIB, CONFIG_GIB, 16 * CONFIG_MIB)},
    {"metrics", CONFIG_BOOL, MEMBER(top_metrics)},
};

/* "top: off" is short for "top: {keys: 0}". */
static void read_top(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    const char *text = place->node->text;
    if (strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
        ((weir_config *)base)->top_keys = 0;
    else
        config_read_section(r, place, key->section, base);
}

/* ---- all keys -------------------------------------------------------------------------------- */

/* A client sends the password in the HTTP header Authorization. */
static const char *refuse_password(const char *text)
{
    for (size_t i = 0; text[i]; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return "the password contains a control character or a line break, which an HTTP "
                   "header cannot carry";
    }
    if (text[0] == ' ' || text[strlen(text) - 1] == ' ')
        return "the password begins or ends with a space, which an HTTP header cannot carry";
    return NULL;
}

#define PASSWORD                                                                                   \
    MEMBER(password), CONFIG_RANGE(1, CONFIG_PASSWORD_MAX, 0), .refuse = refuse_password

static const char *const level_words[] = {[WEIR_LOG_DEBUG] = "debug",
                                          [WEIR_LOG_INFO] = "info",
                                          [WEIR_LOG_WARNING] = "warning",
                                          [WEIR_LOG_ERROR] = "error"};
static const char *const format_words[] = {"text", "json"};

static const config_key log_keys[] = {
    {"level", CONFIG_WORD, MEMBER(log_level), CONFIG_WORDS(level_words, WEIR_LOG_INFO)},
    {"format", CONFIG_WORD, MEMBER(log_json), CONFIG_WORDS(format_words, 0)},
};

static const config_section log_section = {CONFIG_KEYS(log_keys)};
static const config_section memory_section = {CONFIG_KEYS(memory_keys), .check = check_memory};
static const config_section limits_section = {CONFIG_KEYS(limits_keys)};
static const config_section top_section = {
    CONFIG_KEYS(top_keys), .expected = "expected {keys: 100, metrics: false} or off"};

static const config_key root_keys[] = {
    /* Before `listen`, which depends on it. */
    {"tls", CONFIG_SECTION, MEMBER(tls), .section = &config_tls_section, .read = config_read_tls},
    {"trusted_proxies", CONFIG_OTHER, .read = config_read_trusted_proxies,
     .same = config_same_trusted_proxies},
    {"headers", CONFIG_OTHER, MEMBER(answer.headers), .read = config_read_headers,
     .same = config_same_headers},
    {"denied", CONFIG_SECTION, MEMBER(answer), .section = &config_denied_section,
     .read = config_read_denied},
    {"listen", CONFIG_OTHER, .read = config_read_listen, .same = config_same_listen},
    {"password", CONFIG_PASSWORD, PASSWORD},
    {"password_file", CONFIG_PASSWORD_FILE, PASSWORD},
    {"insecure", CONFIG_BOOL, MEMBER(insecure)},
    {"threads", CONFIG_NUMBER, MEMBER(threads), CONFIG_RANGE(1, 256, 0)},
    {"memory", CONFIG_SECTION, .section = &memory_section},
    {"limits", CONFIG_SECTION, .section = &limits_section},
    {"http", CONFIG_SECTION, .section = &config_http_section},
    {"log", CONFIG_SECTION, .section = &log_section},
    {"top", CONFIG_SECTION, .section = &top_section, .read = read_top},
    {"engine", CONFIG_OTHER, MEMBER(engine), .read = config_read_engine},
    {"redis", CONFIG_SECTION, .section = &config_redis_section},
    {"hybrid", CONFIG_SECTION, .section = &config_hybrid_section},
    {"grpc", CONFIG_SECTION, .section = &config_grpc_section},
    {"envoy", CONFIG_SECTION, .section = &config_envoy_section, .read = config_read_envoy},
    {"limitador", CONFIG_SECTION, .section = &config_limitador_section,
     .read = config_read_limitador},
    {"policies", CONFIG_OTHER, .read = config_read_policies},
    {"routes", CONFIG_OTHER, .read = config_read_routes},
    {"spoe", CONFIG_SECTION, .section = &config_spoe_section},
};

const config_section config_root = {CONFIG_KEYS(root_keys)};

static const weir_store_partition *find_partition(const weir_config *c, const char *name)
{
    for (size_t i = 0; i < c->partitions_len; i++) {
        if (strcmp(c->partitions[i].name, name) == 0)
            return &c->partitions[i];
    }
    return NULL;
}

/* Reports the policies of `a` whose own memory is another in `b`, or with `only_absent` those that
 * have none there. */
static void each_other_memory(const weir_config *a, const weir_config *b, bool only_absent,
                              void (*changed)(void *ctx, const char *key), void *ctx)
{
    for (size_t i = 0; i < a->partitions_len; i++) {
        const weir_store_partition *p = &a->partitions[i], *q = find_partition(b, p->name);
        bool same = q && (only_absent ||
                          (p->table_bytes == q->table_bytes && p->large_bytes == q->large_bytes));
        char key[WEIR_RULE_NAME_MAX + 32];
        snprintf(key, sizeof key, "policies.%s.memory", p->name);
        if (!same)
            changed(ctx, key);
    }
}

void config_each_change(const weir_config *a, const weir_config *b,
                        void (*changed)(void *ctx, const char *key), void *ctx)
{
    for (size_t i = 0; i < CONFIG_LENGTH(root_keys); i++) {
        if (!config_same(&root_keys[i], a, b))
            changed(ctx, root_keys[i].name);
    }
    each_other_memory(a, b, false, changed, ctx);
    each_other_memory(b, a, true, changed, ctx);
}

/* ---- creating and freeing -------------------------------------------------------------------- */

weir_config *config_default(void)
{
    weir_config *c = calloc(1, sizeof *c);
    config_arena *arena = c ? calloc(1, sizeof *arena) : NULL;
    if (!arena) {
        free(c);
        return NULL;
    }
    c->arena = arena;
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        config_listen *l = &c->listens[c->listens_len];
        l->protocol = kind;
        if (protocols[kind].default_address)
            snprintf(l->address, sizeof l->address, "%s", protocols[kind].default_address);
        c->listens_len += protocols[kind].default_address != NULL;
    }
    config_set_defaults(&config_root, c);
    return c;
}

void config_free(weir_config *c)
{
    if (!c)
        return;
    weir_rls_config_drop(c->envoy.rls);
    weir_limitador_config_drop(c->limitador.limits);
    weir_spop_messages_drop(c->spoe);
    config_arena_free(c->arena);
    free(c->arena);
    free(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_tree(config_reader *r)
{
    config_errors *e = r->errors;
    r->root = e->text ? config_tree_read(r->arena, e, e->text, e->len) : NULL;
    if (e->text)
        config_redact(e, r->root);
    if (r->root)
        config_read_section(r, &(config_place){.node = r->root}, &config_root, r->config);
}

static weir_status fail_whole(const config_sink *sink, const char *name, const char *text,
                              weir_status st)
{
    const config_problem p = {.file = name, .path = "", .text = text};
    sink->report(sink->ctx, &p);
    return st;
}

/* What is read or checked: the text only, also the files that it names, or also this machine. */
typedef enum config_reach { TEXT_ONLY, WITH_FILES, WITH_PREFLIGHT } config_reach;

/* What a configuration is read from, besides its file. */
typedef struct config_source {
    config_reach reach;
    const weir_zones *zones;
    char *const *env;      /* variables that set defaults; NULL: none */
    const char *directory; /* the default of envoy.config; NULL: none */
} config_source;

/* Stores the defaults of a source. Returns false after reporting an error. */
static bool set_source(weir_config *c, const config_source *source, const config_sink *sink)
{
    char why[400] = "out of memory";
    c->envoy.directory = source->directory;
    if (!source->env || environment_apply(c, source->env, why))
        return true;
    (void)fail_whole(sink, "environment", why, WEIR_E_SYNTAX);
    return false;
}

static weir_status read_all(config_reader *r, config_reach reach, const config_sink *sink)
{
    config_errors *e = r->errors;
    read_tree(r);
    bool read = config_errors_in(e) > 0 || (config_read_limits(r) && config_read_limits_file(r));
    if (reach == WITH_PREFLIGHT && config_errors_in(e) == 0 && !r->arena->failed)
        config_preflight(r);
    if (!r->arena->failed) /* else a redaction may be missing */
        config_errors_report(e, sink);
    else
        return fail_whole(sink, e->file, "out of memory", WEIR_E_NOMEM);
    return !read ? WEIR_E_IO : config_errors_in(e) > 0 ? WEIR_E_SYNTAX : WEIR_OK;
}

/*  bytes  NULL: there is no file, and `name` is for messages only. */
static weir_status parse(const char *bytes, size_t len, const char *name,
                         const config_source *source, const config_sink *sink, weir_config **ret)
{
    if (len > CONFIG_FILE_MAX)
        return fail_whole(sink, name, "larger than 16 MiB", WEIR_E_SYNTAX);
    weir_config *c = config_default();
    config_errors *e = c ? config_alloc(c->arena, 1, sizeof *e) : NULL;
    if (!e) {
        config_free(c);
        return fail_whole(sink, name, "out of memory", WEIR_E_NOMEM);
    }
    size_t mark = len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of byte order */
    *e = (config_errors){
        .arena = c->arena, .file = name, .text = bytes ? bytes + mark : NULL, .len = len - mark};
    config_reader r = {.arena = c->arena,
                       .errors = e,
                       .config = c,
                       .zones = source->zones,
                       .files = source->reach != TEXT_ONLY};
    weir_status st = WEIR_E_SYNTAX;
    if (set_source(c, source, sink))
        st = read_all(&r, source->reach, sink);
    if (st == WEIR_OK)
        *ret = c;
    else
        config_free(c);
    return st;
}

weir_status config_parse(const char *bytes, size_t len, const char *name, bool files,
                         const weir_zones *zones, const config_sink *sink, weir_config **ret)
{
    const config_source source = {.reach = files ? WITH_FILES : TEXT_ONLY, .zones = zones};
    return parse(bytes, len, name, &source, sink, ret);
}

static weir_status load(const char *path, const config_source *source, const config_sink *sink,
                        weir_config **ret)
{
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    char *bytes;
    size_t len;
    const char *why = input_read(path, CONFIG_FILE_MAX, &bytes, &len);
    if (why) {
        char text[200];
        snprintf(text, sizeof text, "cannot be read: %s", why);
        return fail_whole(sink, name, text, WEIR_E_IO);
    }
    weir_status st = parse(bytes, len, name, source, sink, ret);
    explicit_bzero(bytes, len);
    free(bytes);
    return st;
}

weir_status config_load(const char *path, bool files, const weir_zones *zones,
                        const config_sink *sink, weir_config **ret)
{
    const config_source source = {.reach = files ? WITH_FILES : TEXT_ONLY, .zones = zones};
    return load(path, &source, sink, ret);
}

weir_status config_load_and_preflight(const char *path, const weir_zones *zones,
                                      const config_sink *sink, weir_config **ret)
{
    const config_source source = {.reach = WITH_PREFLIGHT, .zones = zones};
    return load(path, &source, sink, ret);
}

weir_status config_load_environment(const char *path, char *const *env, const weir_zones *zones,
                                    const config_sink *sink, weir_config **ret)
{
    const config_source source = {.reach = WITH_FILES, .zones = zones, .env = env};
    return path ? load(path, &source, sink, ret)
                : parse(NULL, 0, "environment", &source, sink, ret);
}

weir_status config_load_limits(const char *directory, const weir_zones *zones,
                               const config_sink *sink, weir_config **ret)
{
    const config_source source = {.reach = WITH_FILES, .zones = zones, .directory = directory};
    return parse(NULL, 0, directory, &source, sink, ret);
}
