/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Files -> domains -> weir_rls_config. A directory may be replaced while it is read, so a file that
 * has vanished is a failure that can be repeated, and no error of the configuration. */

#include "rls/daemon/guest.h"

#include "cmd/kit/input.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_LEN_MAX = 4096 };

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct listing {
    config_reader *reader;
    const config_place *place; /* of the warnings */
    const char **paths;
    size_t len;
    bool too_many, too_deep;
    char why[200]; /* the directory cannot be read; "": it can */
} listing;

static void add_path(listing *l, const char *path)
{
    l->too_many = l->len == ENVOY_FILES_MAX;
    const char *copy = l->too_many ? NULL : weir_arena_copy(l->reader->arena, path, strlen(path));
    if (copy)
        l->paths[l->len++] = copy;
}

static void list_directory(listing *l, const char *directory, int level);

static void list_entry(listing *l, const char *path, int level)
{
    struct stat link, target;
    if (lstat(path, &link) != 0 || stat(path, &target) != 0) {
        snprintf(l->why, sizeof l->why, "%.150s: %s", path, strerror(errno));
    } else if (S_ISDIR(link.st_mode)) {
        l->too_deep |= level == ENVOY_LEVELS_MAX;
        if (!l->too_deep)
            list_directory(l, path, level + 1);
    } else if (S_ISREG(target.st_mode)) {
        add_path(l, path);
    } else {
        config_warn(l->reader->errors, l->place, "%.200s is skipped: it is %s", path,
                    S_ISDIR(target.st_mode) ? "a link to a directory, and may be a loop"
                                            : "neither a file nor a directory");
    }
}

static void list_directory(listing *l, const char *directory, int level)
{
    DIR *d = opendir(directory);
    if (!d) {
        snprintf(l->why, sizeof l->why, "%.150s: %s", directory, strerror(errno));
        return;
    }
    for (const struct dirent *e; (e = readdir(d)) && !l->too_many && !l->why[0];) {
        char path[PATH_LEN_MAX];
        if (e->d_name[0] == '.')
            continue;
        int len = snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        if ((size_t)len >= sizeof path)
            snprintf(l->why, sizeof l->why, "%.150s: %s", directory, strerror(ENAMETOOLONG));
        else
            list_entry(l, path, level);
    }
    closedir(d);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t errors_of(const config_errors *e)
{
    return e->found - e->warnings;
}

/* Reads one file. Returns NULL, or why it cannot be read. */
static const char *read_file(config_reader *r, const char *path, size_t *bytes,
                             weir_rls_domain_spec *ret)
{
    char *text;
    size_t len;
    const char *why = input_read(path, CONFIG_FILE_MAX, &text, &len);
    if (why)
        return why;
    *bytes += len;
    char *copy = weir_arena_copy(r->arena, text, len);
    free(text);
    config_errors *e = copy ? config_errors_of(r->arena, r->errors, path, copy, len) : NULL;
    if (e && *bytes <= CONFIG_FILE_MAX)
        envoy_read_descriptors(r->arena, e, &envoy_settings_of(r->config)->origins, ret);
    return NULL;
}

static bool list_files(config_reader *r, const config_place *place, listing *l)
{
    const envoy_settings *envoy = envoy_settings_of(r->config);
    l->reader = r;
    l->place = place;
    l->paths = weir_arena_alloc(r->arena, ENVOY_FILES_MAX, sizeof *l->paths);
    if (!l->paths)
        return false;
    list_directory(l, envoy->directory, 1);
    if (l->why[0])
        config_error(r->errors, place, "cannot read %s", l->why);
    else if (l->too_many)
        config_error(r->errors, place, "more than %d files in %.200s", ENVOY_FILES_MAX,
                     envoy->directory);
    else if (l->too_deep)
        config_error(r->errors, place, "more than %d levels of directories in %.200s",
                     ENVOY_LEVELS_MAX, envoy->directory);
    else if (l->len == 0)
        config_warn(r->errors, place, "no file in %.200s: every request is allowed",
                    envoy->directory);
    qsort(l->paths, l->len, sizeof *l->paths, by_name);
    return !l->why[0];
}

bool envoy_read_directory(config_reader *r, const config_place *place)
{
    envoy_settings *envoy = envoy_settings_of(r->config);
    listing l = {0};
    size_t bytes = 0, before = errors_of(r->errors), found = 0;
    if (!list_files(r, place, &l))
        return false;
    weir_rls_domain_spec *domains = weir_arena_alloc(r->arena, l.len, sizeof *domains);
    if (errors_of(r->errors) > before || !domains)
        return domains != NULL;
    envoy->domains = domains;
    for (size_t i = 0; i < l.len && found < CONFIG_ERRORS_MAX; i++) {
        const char *why = read_file(r, l.paths[i], &bytes, &domains[envoy->domains_len++]);
        if (why)
            config_error(r->errors, place, "cannot read %.200s: %s", l.paths[i], why);
        if (why || r->arena->failed)
            return false;
        if (bytes > CONFIG_FILE_MAX) {
            config_error(r->errors, place, "the files in %.200s have more than 16 MiB",
                         envoy->directory);
            return true;
        }
        found = config_errors_in(r->errors);
    }
    return true;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Finds where the subject of an error was read. */
static const envoy_origin *find_origin(const config_reader *r, const weir_rls_domain_spec *domain,
                                       const weir_rls_spec *descriptor)
{
    const envoy_origin *o = envoy_settings_of(r->config)->origins;
    while (o && (descriptor ? o->descriptor != descriptor : o->domain != domain))
        o = o->next;
    return o;
}

static void report(config_reader *r, const weir_rls_config_error *e)
{
    const envoy_origin *o = find_origin(r, e->domain, e->descriptor);
    if (o)
        envoy_report_descriptor(o, e->column, e->text);
    else
        config_error_at(r->errors, 0, NULL, "%s", e->text);
}

static int by_domain(const void *a, const void *b)
{
    const weir_rls_domain_spec *const *x = a, *const *y = b;
    int order = strcmp((*x)->domain, (*y)->domain);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

/* Reports domains that several files have. */
static void refuse_duplicates(config_reader *r)
{
    const envoy_settings *envoy = envoy_settings_of(r->config);
    const weir_rls_domain_spec **sorted =
        weir_arena_alloc(r->arena, envoy->domains_len, sizeof *sorted);
    for (size_t i = 0; sorted && i < envoy->domains_len; i++)
        sorted[i] = &envoy->domains[i];
    if (sorted)
        qsort(sorted, envoy->domains_len, sizeof *sorted, by_domain);
    for (size_t i = 1; sorted && i < envoy->domains_len; i++) {
        if (strcmp(sorted[i]->domain, sorted[i - 1]->domain) != 0)
            continue;
        const envoy_origin *first = find_origin(r, sorted[i - 1], NULL);
        weir_rls_config_error e = {.domain = sorted[i]};
        snprintf(e.text, sizeof e.text,
                 "duplicate domain '%.100s' in config file, also in %.200s; merge_domains: true "
                 "merges them",
                 sorted[i]->domain, first ? first->errors->file : "another file");
        report(r, &e);
    }
}

bool envoy_build(weir_config *c, config_reader *r)
{
    envoy_settings *envoy = envoy_settings_of(c);
    weir_rls_config *built = NULL;
    weir_rls_config_error error = {0};
    if (r && !envoy->merge_domains)
        refuse_duplicates(r);
    if (c->arena->failed || (r && config_errors_in(r->errors) > 0))
        return false;
    weir_status st = weir_rls_config_build(&built, envoy->zones, &envoy->options, envoy->domains,
                                           envoy->domains_len, &error);
    if (st != WEIR_OK && st != WEIR_E_NOMEM && r)
        report(r, &error);
    c->arena->failed |= st == WEIR_E_NOMEM;
    if (st != WEIR_OK)
        return false;
    weir_rls_config_drop(envoy->rls);
    envoy->rls = built;
    if (r)
        envoy_check_effects(r);
    return !c->arena->failed;
}
