/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_MODULE_H
#define WEIR_MODULES_NGINX_MODULE_H
/* What the files of the nginx module share: its configuration, and the decision on a request.
 * nginx runs each worker in one thread, so nothing here needs a lock. */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <weir/weir_store.h>

#include "daemon.h"
#include "service/rules/answer.h"
#include "zone.h"

extern ngx_module_t ngx_http_weir_module;

/* ---- configuration --------------------------------------------------------------------------- */

/* One `weir` directive. */
typedef struct weir_ngx_limit {
    weir_ngx_zone *zone;
    weir_policy policy;
    ngx_str_t text;   /* the canonical text of the policy */
    ngx_str_t label;  /* the name, or else the canonical text */
    ngx_str_t name;   /* empty: no name */
    ngx_str_t states; /* limits with the same text here and the same policy share their states */
    ngx_http_complex_value_t key, *cost; /* cost is NULL: 1 */
    ngx_uint_t status;                   /* of a denial: 400..599 */
    ngx_uint_t log_level;                /* of a denial; a delay is logged one level lower */
    weir_quota_unit unit;
    bool shadow;
    const weir_layer *queue; /* the first leaky-queue of the policy; NULL: there is none */
    int64_t undelayed_ns;    /* delay=: subtracted from each delay */
    bool open;               /* whether weir_ngx_limit_open() has found the store, in this worker */
    uint64_t id;             /* of the policy in the store */
    weir_ngx_counts *counts;
} weir_ngx_limit;

typedef struct weir_ngx_main_conf {
    ngx_array_t zones;  /* of weir_ngx_zone * */
    ngx_array_t limits; /* of weir_ngx_limit * */
    ngx_array_t resets; /* of struct weir_ngx_reset * */
    struct weir_zone_cache *zone_cache;
    weir_zones time_zones;
} weir_ngx_main_conf;

typedef struct weir_ngx_loc_conf {
    ngx_array_t *limits;                      /* of weir_ngx_limit *; NULL: not set at this level */
    ngx_uint_t shadows;                       /* how many of them are shadow limits */
    weir_ngx_daemon *daemon;                  /* NULL: the zone decides */
    ngx_uint_t headers;                       /* a set of weir_header_flavour */
    struct weir_ngx_denied_body *denied_body; /* NULL: nginx's own error page */
    ngx_uint_t status_format;
    struct weir_ngx_reset *reset;
} weir_ngx_loc_conf;

/* ---- the decision on a request --------------------------------------------------------------- */

/* The values of $weir_status. Of several limits, the one with the highest value is shown. */
typedef enum weir_ngx_status {
    WEIR_NGX_PASSED,
    WEIR_NGX_DELAYED_SHADOW,
    WEIR_NGX_REJECTED_SHADOW,
    WEIR_NGX_DELAYED,
    WEIR_NGX_REJECTED,
    WEIR_NGX_STATUSES
} weir_ngx_status;

/* What a limit decided. */
typedef struct weir_ngx_outcome {
    weir_ngx_limit *limit; /* NULL: no limit was checked */
    weir_decision decision;
    int64_t cost;
} weir_ngx_outcome;

/* The decision on a main request. It is made once, and kept over internal redirects. */
typedef struct weir_ngx_ctx {
    weir_ngx_status status;
    weir_ngx_outcome shown; /* for the variables */
    bool by_error;          /* neither the store nor the daemon decided: `shown` has no numbers */
    int64_t delay_ns;
    int64_t now_ns;     /* the time of the decision */
    ngx_uint_t headers; /* a set of weir_header_flavour, of the location that decided */
    const struct weir_ngx_denied_body *denied_body; /* of that location */
    size_t enforced_len;                            /* 0: no decision */
    size_t enforced_shown;       /* the one that denies, or has the least remaining */
    weir_ngx_outcome enforced[]; /* for the headers: no shadow limits */
} weir_ngx_ctx;

/* The decision on r's main request; NULL if there is none yet. */
weir_ngx_ctx *weir_ngx_ctx_of(ngx_http_request_t *r);

/* ---- the parts ------------------------------------------------------------------------------- */

/* limit.c: the directive `weir`. */
char *weir_ngx_limit_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Parses a policy text, or logs a configuration error with its column. */
bool weir_ngx_policy_conf(ngx_conf_t *cf, const ngx_str_t *text, weir_policy *ret);

/* Finds the counters and the id of a limit, and opens its zone if that is not open. For workers. */
void weir_ngx_limit_open(weir_ngx_limit *limit, ngx_log_t *log);

/* handler.c: the handler of the preaccess phase. */
ngx_int_t weir_ngx_handler(ngx_http_request_t *r);

/* daemon_ask.c: the directive `weir_daemon`. */
char *weir_ngx_daemon_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* report.c: the variables $weir_*. */
ngx_int_t weir_ngx_add_variables(ngx_conf_t *cf);

/* answer.c: the directives `weir_headers` and `weir_denied_body`, and the header filter. */
char *weir_ngx_headers_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *weir_ngx_denied_body_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
void weir_ngx_add_header_filter(void);

/* Sends the body of a denial, if the location that decided has one.
 *  status  of the denial.
 * Returns the argument of ngx_http_finalize_request(): without a body it is the status. */
ngx_int_t weir_ngx_deny(ngx_http_request_t *r, const weir_ngx_ctx *ctx, ngx_int_t status);

/* operator.c: the directives `weir_status` and `weir_reset`. */
char *weir_ngx_status_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *weir_ngx_reset_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Checks that a directive `weir_reset` names a limit; logs a configuration error if not. Call it
 * after all limits were read. */
bool weir_ngx_reset_check(ngx_conf_t *cf, const struct weir_ngx_reset *reset);

#endif
