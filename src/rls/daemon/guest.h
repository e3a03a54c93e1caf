/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_DAEMON_GUEST_H
#define WEIR_RLS_DAEMON_GUEST_H
/* Envoy's Rate Limit Service as a guest of the daemon: its section in weir.yaml, the files with its
 * limits, and the environment variables of envoyproxy/ratelimit. */

#include "cmd/config/keys.h"
#include "cmd/serve/feature.h"
#include "rls/config.h"
#include "rls/daemon/statsd.h"

/* The section `envoy`. */
typedef struct envoy_settings {
    const char *directory; /* of configuration files; NULL: none */
    bool merge_domains;
    weir_rls_options options;
    const char *statsd; /* as statsd_address_read(); NULL: off */
    int64_t statsd_flush_ns;
    statsd_tags statsd_tags;

    const weir_rls_domain_spec *domains; /* of the files */
    size_t domains_len;
    struct envoy_origin *origins; /* of the domains and their descriptors */
    const weir_zones *zones;      /* that the limits were built with */
    weir_rls_config *rls; /* with one reference; never NULL in a configuration that was read */
} envoy_settings;

extern const config_guest envoy_guest;

/* l->part[feature_index(&rls_feature)] of a loop is a weir_rls_door, which other guests may use. */
extern const feature rls_feature;

static inline envoy_settings *envoy_settings_of(const weir_config *c)
{
    return config_options(c, &envoy_guest);
}

/* ---- a file with limits (descriptors.c) ------------------------------------------------------ */

/* A configuration file of envoyproxy/ratelimit has a domain with its descriptors. It has the
 * meaning that the reference gives it, and two keys more: `weir` and `atomic`. */

/* Where a domain or a descriptor was read, for errors that are found later. */
typedef struct envoy_origin {
    struct envoy_origin *next;
    const weir_rls_domain_spec *domain; /* NULL: a descriptor */
    const weir_rls_spec *descriptor;    /* NULL: a domain */
    config_errors *errors;
    const config_place *place; /* of its map */
} envoy_origin;

/* Reads a file, which errors->text holds, and reports its errors. Everything is in the arena.
 *  origins  a list; receives the domain and its descriptors.
 *  ret      written as far as the file is valid. */
void envoy_read_descriptors(weir_arena *arena, config_errors *errors, envoy_origin **origins,
                            weir_rls_domain_spec *ret);

/* Reports an error of weir_rls_config_build() at its place. */
void envoy_report_descriptor(const envoy_origin *origin, uint32_t column, const char *text);

/* ---- a directory with such files (directory.c) ----------------------------------------------- */

enum {
    ENVOY_FILES_MAX = 1024, /* of a directory */
    ENVOY_LEVELS_MAX = 8,   /* of directories in it */
};

/* Reads every file of `envoy.config` and of the directories in it, sorted by path, except those
 * whose names begin with '.', into the domains of the settings. Links to files are followed, links
 * to directories are not: they and all that is no file, such as a FIFO, get a warning. The errors
 * of each file are added to the chain of r->errors.
 *  place  the key that names the directory.
 * Returns false if memory is exhausted, or the directory or a file could not be read: it may be
 * replaced just now. */
bool envoy_read_directory(config_reader *r, const config_place *place);

/* Builds `rls` of the settings from their domains, and replaces the one before. Returns false if
 * memory is exhausted or a descriptor is invalid.
 *  r  receives the errors; NULL: they were checked before. */
bool envoy_build(weir_config *c, config_reader *r);

/* effects.c: warns of descriptors and of their keys that have no effect.
 *  r  has read and built the limits without an error. */
void envoy_check_effects(config_reader *r);

/* ---- environment variables (environment.c) --------------------------------------------------- */

/* For `weir serve --envoy`; docs/envoy.md has the same table. */

/* One variable. */
typedef struct environment_row {
    const char *name; /* "GRPC_PORT"; "REDIS_*": every variable with this prefix */
    const char *key;  /* of weir.yaml, such as "listen.grpc"; NULL: weir has no such key */
    const char *why;  /* without a key: why it is not needed, or what is not supported */
    enum {
        ENVIRONMENT_SET,        /* stored */
        ENVIRONMENT_NOT_NEEDED, /* the log mentions it */
        ENVIRONMENT_WARN,       /* not supported: the log warns if it is set to something that is
                                   neither empty nor false */
        ENVIRONMENT_REFUSE      /* not supported: such a value is an error */
    } use;
    enum {
        ENVIRONMENT_TEXT,
        ENVIRONMENT_BOOL,     /* 1, t, true, 0, f, false in any case */
        ENVIRONMENT_PORT,     /* 1..65535 */
        ENVIRONMENT_DURATION, /* "24h", "1h30m", "1.5h", "0" */
        ENVIRONMENT_RATIO     /* 0..1 */
    } kind;
    size_t offset; /* of the member of struct environment */
} environment_row;

extern const environment_row environment_rows[];
extern const size_t environment_rows_len;

/* Stores the values of the variables in a configuration that has the defaults of weir.yaml, as if
 * that file had them; where a variable is not set, the reference's default applies.
 *  env        as `environ`. Later entries with the same name are ignored.
 *  ret_error  CONFIG_ENVIRONMENT_ERROR_MAX bytes; written if the result is false, unless memory is
 *             exhausted: the variable, what was found and expected.
 * Returns false if a variable is invalid, or asks for what weir cannot do, or if memory is
 * exhausted. */
bool environment_apply(weir_config *c, char *const *env, char *ret_error);

/* Calls note() for each reason why variables that are set have no effect, and for each variable
 * that is not in the table but begins as those of the reference.
 *  warning  they ask for something that weir cannot do.
 *  names    "REDIS_URL,REDIS_TYPE". */
void environment_explain(char *const *env,
                         void (*note)(void *ctx, bool warning, const char *names, const char *why),
                         void *ctx);

#endif
