/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reading a file: bytes -> tree -> weir_config. */

#include "cmd/config/keys.h"
#include "cmd/kit/input.h"
#include "port/assert.h"

#include <stdlib.h>
#include <string.h>

/* ---- creating and freeing -------------------------------------------------------------------- */

weir_config *config_default(void)
{
    weir_config *c = calloc(1, sizeof *c);
    weir_arena *arena = c ? calloc(1, sizeof *arena) : NULL;
    if (!arena) {
        free(c);
        return NULL;
    }
    c->arena = arena;
    for (size_t i = 0; config_guest_at(i); i++)
        c->guest[i] = weir_arena_alloc(arena, 1, config_guest_at(i)->size);
    if (arena->failed) {
        config_free(c);
        return NULL;
    }
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        config_listen *l = &c->listens[c->listens_len];
        l->protocol = kind;
        if (config_protocol(kind)->default_address)
            snprintf(l->address, sizeof l->address, "%s", config_protocol(kind)->default_address);
        c->listens_len += config_protocol(kind)->default_address != NULL;
    }
    config_set_defaults(config_root(), c);
    return c;
}

void config_free(weir_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; config_guest_at(i); i++) {
        if (config_guest_at(i)->free && c->guest[i])
            config_guest_at(i)->free(c->guest[i]);
    }
    weir_arena_free(c->arena);
    free(c->arena);
    free(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

config_node *config_read_tree(weir_arena *arena, config_errors *e)
{
    config_node *root = config_tree_read(arena, e, e->text, e->len);
    config_redact(e, root);
    if (root)
        config_expand(e, root);
    return root;
}

static void read_tree(config_reader *r)
{
    r->root = r->errors->text ? config_read_tree(r->arena, r->errors) : NULL;
    if (r->root)
        config_include(r);
    r->config->tree = r->root;
    if (r->root)
        config_read_section(r, &(config_place){.node = r->root}, config_root(), r->config);
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
    const char *directory; /* of limits; NULL: none */
} config_source;

/* Stores the defaults of a source. Returns false after reporting an error. */
static bool set_source(weir_config *c, const config_source *source, const config_sink *sink)
{
    char why[CONFIG_ENVIRONMENT_ERROR_MAX] = "out of memory";
    bool valid = true;
    for (size_t i = 0; config_guest_at(i); i++) {
        const config_guest *g = config_guest_at(i);
        if (source->directory && g->set_directory)
            g->set_directory(c->guest[i], source->directory);
        if (source->env && g->apply_environment && valid)
            valid = g->apply_environment(c, source->env, why);
    }
    if (!valid)
        (void)fail_whole(sink, "environment", why, WEIR_E_SYNTAX);
    return valid;
}

/* Reads the files of the guests. Returns false if they cannot be read now. */
static bool load_guests(config_reader *r)
{
    bool read = true;
    for (size_t i = 0; config_guest_at(i) && read; i++) {
        const config_guest *g = config_guest_at(i);
        read = !g->load || g->load(r, r->config->guest[i]);
    }
    return read;
}

static weir_status read_all(config_reader *r, config_reach reach, const config_sink *sink)
{
    config_errors *e = r->errors;
    read_tree(r);
    /* Comments alone are the beginning of a file that is being written, or that a full disk cut
     * off: they would end all limits. */
    if (r->root && config_is_empty(r->root))
        return fail_whole(sink, e->file, "empty; expected a configuration, or {} for the defaults",
                          WEIR_E_SYNTAX);
    if (config_errors_in(e) == 0)
        config_fit_limits(r);
    if (config_errors_in(e) == 0)
        config_fit_users(r);
    bool read = config_errors_in(e) > 0 || load_guests(r);
    if (config_errors_in(e) == 0 && !r->arena->failed)
        config_check_effects(r);
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
    config_errors *e = c ? config_errors_of(c->arena, NULL, name, bytes, len) : NULL;
    if (!e) {
        config_free(c);
        return fail_whole(sink, name, "out of memory", WEIR_E_NOMEM);
    }
    config_reader r = {.arena = c->arena,
                       .errors = e,
                       .config = c,
                       .zones = source->zones,
                       .files = source->reach != TEXT_ONLY};
    weir_status st = WEIR_E_SYNTAX;
    if (set_source(c, source, sink))
        st = read_all(&r, source->reach, sink);
    config_free_included(&r); /* before the arena */
    WEIR_ASSERT(st != WEIR_OK || (c->listens_len >= 1 && c->listens_len <= CONFIG_LISTENS_MAX));
    WEIR_ASSERT(st != WEIR_OK || c->memory_large_bytes < c->memory_bytes);
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
