/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The configuration as a whole: bytes -> tree -> weir_config. Which keys there are stands in tables
 * here and in http.c, listen.c, policies.c and redis.c. It must not know what the daemon does with
 * them. */

#include "cmd/config/config.h"

#include "cmd/config/fields.h"
#include "cmd/config/file.h"
#include "cmd/config/http.h"
#include "cmd/config/listen.h"
#include "cmd/config/policies.h"
#include "cmd/config/redis.h"
#include "cmd/config/trial.h"
#include "port/text.h"
#include "service/top/top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define S_NS          ((int64_t)1000000000)
#define MIB           ((int64_t)1 << 20)
#define LARGE_EDGE    ((int64_t)64 << 10) /* what weir_store_open() wants on either side */

/* ---- passwords ------------------------------------------------------------------------------- */

/* It goes over the wire in HTTP header lines, too, which is what it must not break. */
static bool set_password(config_reader *r, const config_place *place, const char *text, size_t len)
{
    weir_config *c = r->config;
    if (len < 1 || len > CONFIG_PASSWORD_MAX) {
        config_complain(r->errors, place, "a password of %zu bytes, expected 1 to %d", len,
                        CONFIG_PASSWORD_MAX);
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) {
            config_complain(r->errors, place,
                            "a control character or a line end in the password, which no HTTP "
                            "client could send");
            return false;
        }
    }
    if (text[0] == ' ' || text[len - 1] == ' ') {
        config_complain(r->errors, place,
                        "a space at an end of the password, which no HTTP client "
                        "could send");
        return false;
    }
    memcpy(c->password, text, len);
    c->password[len] = '\0';
    c->password_len = len;
    return true;
}

static bool read_password(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    (void)field;
    (void)base;
    if (!config_want_text(r, place, "a password in quotes"))
        return false;
    config_warn_variable(r, place);
    return set_password(r, place, place->node->text, place->node->len);
}

static bool read_password_file(config_reader *r, const config_place *place,
                               const config_field *field, void *base)
{
    (void)field;
    (void)base;
    if (config_get(r->root, "password")) {
        config_complain_at(r->errors, place->key->begin, place,
                           "there is a password already, expected one of password and "
                           "password_file");
        return false;
    }
    const char *text = NULL;
    size_t len = 0;
    return config_read_secret(r, place, &text, &len) && set_password(r, place, text, len);
}

/* ---- sections -------------------------------------------------------------------------------- */

static bool read_file_path(config_reader *r, const config_place *place, const config_field *field,
                           void *base)
{
    (void)field;
    if (!config_want_text(r, place, "the path of a file"))
        return false;
    ((weir_config *)base)->state_file = config_beside(r, place->node->text);
    return true;
}

static bool read_sync(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    static const char *const words[] = {
        [WEIR_SYNC_NEVER] = "never", [WEIR_SYNC_SECOND] = "1s", [WEIR_SYNC_ALWAYS] = "always"};
    (void)field;
    int word = config_read_word(r, place, words, LENGTH(words), "never, 1s or always");
    if (word >= 0)
        ((weir_config *)base)->sync = (weir_sync)word;
    return word >= 0;
}

static bool read_when_full(config_reader *r, const config_place *place, const config_field *field,
                           void *base)
{
    static const char *const words[] = {[WEIR_EVICT] = "evict", [WEIR_REFUSE] = "refuse"};
    (void)field;
    int word = config_read_word(r, place, words, LENGTH(words), "evict or refuse");
    if (word >= 0)
        ((weir_config *)base)->when_full = (weir_when_full)word;
    return word >= 0;
}

/* Whether keys that say something of a file stand beside one. */
static bool check_file_keys(config_reader *r, const config_place *place)
{
    static const char *const keys[] = {"sync", "shared", "trust_others"};
    for (size_t i = 0; i < LENGTH(keys) && !config_get(place->node, "file"); i++) {
        const config_node *value = config_get(place->node, keys[i]);
        if (value) {
            config_complain_at(r->errors, value->begin, place,
                               "%s is of a file, expected file: PATH beside it", keys[i]);
            return false;
        }
    }
    return true;
}

static bool check_large(config_reader *r, const config_place *place, weir_config *c)
{
    const config_node *large = config_get(place->node, "large");
    if (!large)
        c->memory_large_bytes = c->memory_bytes / 4;
    if (!large || c->memory_large_bytes <= c->memory_bytes - LARGE_EDGE)
        return true;
    char size[24];
    config_complain_at(
        r->errors, large->begin, place,
        "large is a part of the memory, expected at least 64k less than its size, %s",
        config_size_text(c->memory_bytes, size, sizeof size));
    return false;
}

/* What weir_store_open() refuses: a file's table must be able to tell whole hashes. */
static bool check_file_size(config_reader *r, const config_place *place, const weir_config *c)
{
    const config_node *file = config_get(place->node, "file");
    const config_node *size = config_get(place->node, "size");
    const config_node *large = config_get(place->node, "large");
    if (!file || (c->memory_bytes >= 8 * MIB && c->memory_bytes - c->memory_large_bytes >= 6 * MIB))
        return true;
    config_complain_at(r->errors, (large ? large : size)->begin, place,
                       "with a file expected a size of 8m at least, and 6m that is not for large");
    return false;
}

static bool read_memory(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    static const config_field fields[] = {
        {.name = "size",
         .read = config_read_size,
         .offset = offsetof(weir_config, memory_bytes),
         .low = MIB,
         .high = MIB << 20},
        {.name = "large",
         .read = config_read_size,
         .offset = offsetof(weir_config, memory_large_bytes),
         .low = LARGE_EDGE,
         .high = MIB << 20},
        {.name = "file", .read = read_file_path},
        {.name = "sync", .read = read_sync},
        {.name = "when_full", .read = read_when_full},
        {.name = "shared", .read = config_read_bool, .offset = offsetof(weir_config, shared)},
        {.name = "trust_others",
         .read = config_read_bool,
         .offset = offsetof(weir_config, trust_others)},
    };
    (void)field;
    size_t before = r->errors->found;
    if (!config_read_map(r, place, fields, LENGTH(fields), base) || r->errors->found > before)
        return false;
    return check_large(r, place, base) && check_file_keys(r, place) &&
           check_file_size(r, place, base);
}

#define LIMIT_NS(text, member)                                                                     \
    {                                                                                              \
        .name = (text), .read = config_read_ns, .offset = offsetof(weir_config, member),           \
        .low = S_NS / 1000, .high = 30 * 86400 * S_NS                                              \
    }

static bool read_limits(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    static const config_field fields[] = {
        {.name = "connections",
         .read = config_read_int,
         .offset = offsetof(weir_config, connections),
         .low = 1,
         .high = 1000000},
        {.name = "buffers",
         .read = config_read_size,
         .offset = offsetof(weir_config, buffers_bytes),
         .low = MIB,
         .high = MIB << 20},
        LIMIT_NS("idle", idle_ns),
        LIMIT_NS("request", request_ns),
        LIMIT_NS("write", write_ns),
        LIMIT_NS("drain", drain_ns),
    };
    (void)field;
    return config_read_map(r, place, fields, LENGTH(fields), base);
}

/* "off", or what there is to say of it. */
static bool read_top(config_reader *r, const config_place *place, const config_field *field,
                     void *base)
{
    static const config_field fields[] = {
        {.name = "keys",
         .read = config_read_int,
         .offset = offsetof(weir_config, top_keys),
         .low = 0,
         .high = WEIR_TOP_KEYS_MAX},
        {.name = "memory",
         .read = config_read_size,
         .offset = offsetof(weir_config, top_memory_bytes),
         .low = MIB,
         .high = MIB << 10},
        {.name = "metrics", .read = config_read_bool, .offset = offsetof(weir_config, top_metrics)},
    };
    (void)field;
    const config_node *n = place->node;
    if (n->kind == CONFIG_TEXT && (strcmp(n->text, "off") == 0 || strcmp(n->text, "0") == 0)) {
        ((weir_config *)base)->top_keys = 0;
        return true;
    }
    if (n->kind != CONFIG_MAP && !config_is_empty(n)) {
        config_complain(r->errors, place, "expected {keys: 100, metrics: false} or off");
        return false;
    }
    return config_read_map(r, place, fields, LENGTH(fields), base);
}

static const config_field root_fields[] = {
    {.name = "listen", .read = config_read_listen},
    {.name = "password", .read = read_password},
    {.name = "password_file", .read = read_password_file},
    {.name = "insecure", .read = config_read_bool, .offset = offsetof(weir_config, insecure)},
    {.name = "threads",
     .read = config_read_int,
     .offset = offsetof(weir_config, threads),
     .low = 1,
     .high = 256},
    {.name = "memory", .read = read_memory},
    {.name = "limits", .read = read_limits},
    {.name = "http", .read = config_read_http},
    {.name = "top", .read = read_top},
    {.name = "engine", .read = config_read_engine, .offset = offsetof(weir_config, engine)},
    {.name = "redis", .read = config_read_redis},
    {.name = "hybrid", .read = config_read_hybrid},
    {.name = "policies", .read = config_read_policies},
};

/* ---- the whole ------------------------------------------------------------------------------- */

weir_config *config_default(void)
{
    weir_config *c = calloc(1, sizeof *c);
    struct config_memory *memory = c ? calloc(1, sizeof *memory) : NULL;
    if (!memory) {
        free(c);
        return NULL;
    }
    *c = (weir_config){
        .memory_bytes = 256 * MIB,
        .memory_large_bytes = 64 * MIB,
        .sync = WEIR_SYNC_SECOND,
        .connections = 10000,
        .buffers_bytes = 256 * MIB,
        .request_ns = 10 * S_NS,
        .write_ns = 30 * S_NS,
        .drain_ns = 5 * S_NS,
        .top_keys = 100,
        .top_memory_bytes = 16 * MIB,
        .redis = {.deadline_ns = S_NS / 20, .in_flight = 16384, .deny_cache_bytes = (size_t)MIB},
        .hybrid = {.interval_ns = S_NS / 10,
                   .count = 1000,
                   .idle_ns = S_NS,
                   .memory_bytes = (size_t)(4 * MIB)},
        .memory = memory,
    };
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        const char *address = protocols[kind].default_address;
        if (!address)
            continue;
        config_listen *l = &c->listens[c->listens_len++];
        l->protocol = kind;
        snprintf(l->address, sizeof l->address, "%s", address);
    }
    return c;
}

/* The arena's, which is about to go. */
static void wipe(const char *secret)
{
    if (secret)
        explicit_bzero((char *)secret, strlen(secret));
}

void config_free(weir_config *c)
{
    if (!c)
        return;
    wipe(c->redis.password);
    wipe(c->redis.sentinel_password);
    config_arena_free(&c->memory->arena);
    free(c->memory);
    explicit_bzero(c, sizeof *c);
    free(c);
}

/* What libyaml would take for no text, or for a line end that nobody sees. */
static bool is_control(const unsigned char *at, size_t len)
{
    if (len == 1)
        return (*at < 0x20 && *at != '\t' && *at != '\n' && *at != '\r') || *at == 0x7F;
    if (len == 2)
        return *at == 0xC2 && at[1] < 0xA0;
    return len == 3 && (memcmp(at, "\xEF\xBB\xBF", 3) == 0 || /* a byte order mark */
                        memcmp(at, "\xE2\x80\xA8", 3) == 0 || /* U+2028, U+2029: line ends */
                        memcmp(at, "\xE2\x80\xA9", 3) == 0 ||
                        (*at == 0xEF && at[1] == 0xBF && at[2] >= 0xBE)); /* U+FFFE, U+FFFF */
}

/* Complains of the first thing that no text has; false if there is one. */
static bool is_text(config_errors *e)
{
    const unsigned char *begin = (const unsigned char *)e->text, *end = begin + e->len;
    const unsigned char *at = begin;
    while (at < end) {
        bool valid;
        size_t n = weir_utf8_len((const char *)at, (size_t)(end - at), &valid);
        if (!valid)
            config_complain_at(e, (size_t)(at - begin), NULL,
                               "byte 0x%02X, expected a text in UTF-8", *at);
        else if (is_control(at, n))
            config_complain_at(e, (size_t)(at - begin), NULL,
                               "a control character, expected a text in UTF-8");
        if (!valid || is_control(at, n))
            return false;
        at += n;
    }
    return true;
}

static void read_tree(config_reader *r)
{
    config_errors *e = r->errors;
    if (!is_text(e)) {
        config_hide_words(e);
        return;
    }
    r->root = config_tree_read(r->arena, e, e->text, e->len);
    if (!r->root) {
        config_hide_words(e);
        return;
    }
    config_hide_secrets(e, r->root);
    config_hide_urls(e, r->root);
    const config_place place = {.node = r->root};
    const config_node *insecure = config_get(r->root, "insecure");
    r->guarded = config_get(r->root, "password") || config_get(r->root, "password_file") ||
                 (insecure && strcmp(insecure->text, "false") != 0);
    config_look_for_engines(r);
    config_read_map(r, &place, root_fields, LENGTH(root_fields), r->config);
}

static weir_status fail_whole(const config_sink *sink, const char *name, const char *text,
                              weir_status st)
{
    const config_problem p = {.file = name, .path = "", .text = text};
    sink->tell(sink->ctx, &p);
    return st;
}

/* What is looked at: the text alone, other files that it names too, or also what the daemon would
 * find when it starts here. */
typedef enum config_reach { TEXT_ALONE, WITH_FILES, THIS_MACHINE } config_reach;

static weir_status parse(const char *bytes, size_t len, const char *name, config_reach reach,
                         const weir_zones *zones, const config_sink *sink, weir_config **ret)
{
    if (len > CONFIG_FILE_MAX)
        return fail_whole(sink, name, "larger than 16 MiB", WEIR_E_SYNTAX);
    weir_config *c = config_default();
    config_errors *e = c ? config_alloc(&c->memory->arena, sizeof *e) : NULL;
    if (!e) {
        config_free(c);
        return fail_whole(sink, name, "out of memory", WEIR_E_NOMEM);
    }
    config_arena *arena = &c->memory->arena;
    size_t mark = len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of byte order */
    *e = (config_errors){.arena = arena, .file = name, .text = bytes + mark, .len = len - mark};
    config_reader r = {
        .arena = arena, .errors = e, .config = c, .zones = zones, .files = reach != TEXT_ALONE};
    read_tree(&r);
    if (reach == THIS_MACHINE && e->found == e->warnings && !arena->failed)
        config_try(&r);
    config_errors_tell(e, sink);
    weir_status st = arena->failed            ? WEIR_E_NOMEM
                     : e->found > e->warnings ? WEIR_E_SYNTAX
                                              : WEIR_OK;
    if (st == WEIR_E_NOMEM)
        fail_whole(sink, name, "out of memory", st);
    if (st == WEIR_OK)
        *ret = c;
    else
        config_free(c);
    return st;
}

weir_status config_parse(const char *bytes, size_t len, const char *name, bool files,
                         const weir_zones *zones, const config_sink *sink, weir_config **ret)
{
    return parse(bytes, len, name, files ? WITH_FILES : TEXT_ALONE, zones, sink, ret);
}

static weir_status load(const char *path, config_reach reach, const weir_zones *zones,
                        const config_sink *sink, weir_config **ret)
{
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    char *bytes;
    size_t len;
    const char *why = config_file_read(path, CONFIG_FILE_MAX, &bytes, &len);
    if (why) {
        char text[200];
        snprintf(text, sizeof text, "cannot be read: %s", why);
        return fail_whole(sink, name, text, WEIR_E_IO);
    }
    weir_status st = parse(bytes, len, name, reach, zones, sink, ret);
    explicit_bzero(bytes, len);
    free(bytes);
    return st;
}

weir_status config_load(const char *path, bool files, const weir_zones *zones,
                        const config_sink *sink, weir_config **ret)
{
    return load(path, files ? WITH_FILES : TEXT_ALONE, zones, sink, ret);
}

weir_status config_load_and_try(const char *path, const weir_zones *zones, const config_sink *sink,
                                weir_config **ret)
{
    return load(path, THIS_MACHINE, zones, sink, ret);
}
