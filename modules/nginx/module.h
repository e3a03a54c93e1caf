/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_MODULE_H
#define WEIR_MODULES_NGINX_MODULE_H
/* What the files of the nginx module share: its configuration. context.h has the rest.
 * nginx runs each worker in one thread, so nothing here needs a lock. */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <weir/weir_store.h>

#include "arguments.h"
#include "daemon.h"
#include "lines.h"
#include "service/rules/answer.h"
#include "zone.h"

/* ---- configuration --------------------------------------------------------------------------- */

/* The kinds of lines that clients can provoke. */
typedef enum weir_ngx_line {
    WEIR_NGX_LINE_DENIAL,
    WEIR_NGX_LINE_DELAY,
    WEIR_NGX_LINE_FAILURE,
    WEIR_NGX_LINE_COST,
    WEIR_NGX_LINE_KEY,
    WEIR_NGX_LINE_LEASE,
    WEIR_NGX_LINES
} weir_ngx_line;

/* One `weir` directive. */
typedef struct weir_ngx_limit {
    weir_ngx_zone *zone;
    weir_policy policy;
    ngx_str_t text;   /* the canonical text of the policy */
    ngx_str_t label;  /* the name, or else the canonical text */
    ngx_str_t name;   /* empty: no name */
    ngx_str_t states; /* limits with the same text here may share states: see limit.c */
    const struct weir_ngx_limit *widest; /* of those that share states, the one with the largest
                                            burst; often this one. Its policy has the id */
    bool mixed; /* another limit has the same `states` and does not share them: what a changed
                   one of them was before is unknown */
    ngx_http_complex_value_t key, *cost; /* cost is NULL: 1 */
    int64_t keep;                        /* what a request leaves for others; weir_check_keep() */
    ngx_uint_t status;                   /* of a denial: 400..599 */
    ngx_uint_t log_level;                /* of a denial; a delay is logged one level lower */
    weir_quota_unit unit;
    bool shadow;
    const weir_layer *queue; /* the first leaky-queue of the policy; NULL: there is none */
    int64_t undelayed_ns;    /* delay=: subtracted from each delay */
    const weir_layer *hold;  /* the concurrent layer of the policy; NULL: there is none */
    bool open;               /* whether weir_ngx_limit_open() has found the store, in this worker */
    uint64_t id;             /* of the policy in the store, in the first generation of its keys */
    uint64_t reset_id;       /* for weir_store_current_id() */
    weir_ngx_counts *counts;
    weir_ngx_place at;  /* of the directive */
    bool used, in_zone; /* whether requests use it; whether the zone decides on any of them */
    bool by_daemon;     /* whether a daemon decides on any of them */
    ngx_uint_t shown;   /* a set of weir_header_flavour that may describe it */
    weir_ngx_lines lines[WEIR_NGX_LINES]; /* of this worker */
} weir_ngx_limit;

/* A location that answers an operator. */
typedef struct weir_ngx_operator {
    const char *directive;
    ngx_http_core_loc_conf_t *core; /* of the location */
    ngx_http_handler_pt handler;
    weir_ngx_place at;
} weir_ngx_operator;

typedef struct weir_ngx_main_conf {
    weir_ngx_zones zones;
    ngx_array_t limits;    /* of weir_ngx_limit * */
    ngx_array_t resets;    /* of struct weir_ngx_reset * */
    ngx_array_t settings;  /* of struct weir_ngx_setting * */
    ngx_array_t operators; /* of weir_ngx_operator */
    struct weir_zone_cache *zone_cache;
} weir_ngx_main_conf;

/* Directives that change what the limits of a level do. */
typedef enum weir_ngx_setting_kind {
    WEIR_NGX_SETTING_DAEMON,
    WEIR_NGX_SETTING_HEADERS,
    WEIR_NGX_SETTING_SPREAD,
    WEIR_NGX_SETTING_BODY,
    WEIR_NGX_SETTINGS
} weir_ngx_setting_kind;

typedef struct weir_ngx_loc_conf {
    ngx_array_t *limits;                      /* of weir_ngx_limit *; NULL: not set at this level */
    ngx_uint_t shadows;                       /* how many of them are shadow limits */
    weir_ngx_daemon *daemon;                  /* NULL: the zone decides */
    ngx_uint_t headers;                       /* a set of weir_header_flavour */
    ngx_uint_t retry_spread;                  /* of the waits of a denial: 0..100 percent */
    struct weir_ngx_denied_body *denied_body; /* NULL: nginx's own error page */
    ngx_uint_t status_format;
    struct weir_ngx_reset *reset;
    struct weir_ngx_setting *settings[WEIR_NGX_SETTINGS]; /* where they are set; NULL: nowhere */
} weir_ngx_loc_conf;

/* ---- the parts ------------------------------------------------------------------------------- */

/* limit.c: the directive `weir`. */
char *weir_ngx_limit_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Parses a policy text, or logs a configuration error with its column. */
bool weir_ngx_policy_conf(ngx_conf_t *cf, const ngx_str_t *text, weir_policy *ret);

/* Checks that the zone decides on a limit whose units are held; logs a configuration error if not.
 * Call it after all levels were merged. */
bool weir_ngx_limit_check(ngx_conf_t *cf, const weir_ngx_limit *limit);

/* Returns the id of a limit in the current generation of its keys. Its store is open. */
uint64_t weir_ngx_limit_id(const weir_ngx_limit *limit);

/* Finds the counters and the id of a limit, and opens its zone if that is not open. For workers. */
void weir_ngx_limit_open(weir_ngx_limit *limit, ngx_log_t *log);

/* handler.c: the handler of the preaccess phase. */
ngx_int_t weir_ngx_handler(ngx_http_request_t *r);

/* daemon_ask.c: the directive `weir_daemon`. */
char *weir_ngx_daemon_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* report.c: the variables $weir_*. */
ngx_int_t weir_ngx_add_variables(ngx_conf_t *cf);

/* answer.c: the directives `weir_headers`, `weir_retry_spread` and `weir_denied_body`, and the
 * header filter. */
char *weir_ngx_headers_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *weir_ngx_retry_spread_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *weir_ngx_denied_body_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void weir_ngx_add_header_filter(void);

/* operator.c: the directives `weir_status` and `weir_reset`. */
char *weir_ngx_status_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *weir_ngx_reset_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Checks that a directive `weir_reset` names a limit; logs a configuration error if not, and a
 * warning if it resets nothing. Call it after all levels were merged. */
bool weir_ngx_reset_check(ngx_conf_t *cf, const struct weir_ngx_reset *reset);

/* effects.c: warnings of what has no effect. */

/* Notes a directive of a level.
 *  off  it turns the setting off, which may be without effect.
 * Returns false if memory is exhausted. */
bool weir_ngx_note_setting(ngx_conf_t *cf, weir_ngx_loc_conf *loc, weir_ngx_setting_kind kind,
                           bool off);

/* Notes what the requests of a level use. Call it once the level is merged with the one before. */
void weir_ngx_note_use(const weir_ngx_loc_conf *before, weir_ngx_loc_conf *conf);

/* Makes `handler` answer the requests of a location. Returns false if memory is exhausted. */
bool weir_ngx_note_operator(ngx_conf_t *cf, const char *directive, ngx_http_handler_pt handler);

/* Checks a cost without variables; logs a configuration error, or a warning. */
bool weir_ngx_check_cost(ngx_conf_t *cf, const weir_ngx_limit *limit);

/* Logs the warnings. Call it after all levels were merged. */
void weir_ngx_check_effects(ngx_conf_t *cf);

#endif
