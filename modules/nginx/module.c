/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The nginx module: its directives, and what it does when a worker starts. */

#include "module.h"

#include "service/zone_cache.h"

/* ---- configuration --------------------------------------------------------------------------- */

static void close_zone_cache(void *data)
{
    weir_zone_cache_close(data);
}

static void *create_main_conf(ngx_conf_t *cf)
{
    weir_ngx_main_conf *conf = ngx_pcalloc(cf->pool, sizeof *conf);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    if (!conf || !cleanup ||
        ngx_array_init(&conf->zones.all, cf->pool, 4, sizeof(weir_ngx_zone *)) != NGX_OK ||
        ngx_array_init(&conf->limits, cf->pool, 8, sizeof(weir_ngx_limit *)) != NGX_OK ||
        ngx_array_init(&conf->resets, cf->pool, 1, sizeof(struct weir_ngx_reset *)) != NGX_OK ||
        ngx_array_init(&conf->settings, cf->pool, 4, sizeof(struct weir_ngx_setting *)) != NGX_OK ||
        ngx_array_init(&conf->operators, cf->pool, 1, sizeof(weir_ngx_operator)) != NGX_OK)
        return NULL;
    conf->zone_cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!conf->zone_cache)
        return NULL;
    conf->zones.time_zones = weir_zone_cache_zones(conf->zone_cache);
    cleanup->handler = close_zone_cache;
    cleanup->data = conf->zone_cache;
    return conf;
}

static void *create_loc_conf(ngx_conf_t *cf)
{
    weir_ngx_loc_conf *conf = ngx_pcalloc(cf->pool, sizeof *conf);
    if (conf) {
        conf->daemon = NGX_CONF_UNSET_PTR;
        conf->headers = NGX_CONF_UNSET_UINT;
        conf->retry_spread = NGX_CONF_UNSET_UINT;
        conf->denied_body = NGX_CONF_UNSET_PTR;
    }
    return conf;
}

static char *merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    weir_ngx_loc_conf *before = parent, *conf = child;
    (void)cf;
    if (!conf->limits) {
        conf->limits = before->limits;
        conf->shadows = before->shadows;
    }
    ngx_conf_merge_ptr_value(conf->daemon, before->daemon, NULL);
    ngx_conf_merge_uint_value(conf->headers, before->headers, WEIR_HEADERS_NONE);
    ngx_conf_merge_uint_value(conf->retry_spread, before->retry_spread, 0);
    ngx_conf_merge_ptr_value(conf->denied_body, before->denied_body, NULL);
    weir_ngx_note_use(before, conf);
    return NGX_CONF_OK;
}

static ngx_int_t postconfiguration(ngx_conf_t *cf)
{
    weir_ngx_main_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    weir_ngx_zone **zones = conf->zones.all.elts;
    for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++) {
        if (!weir_ngx_zone_is_declared(cf, zones[i]))
            return NGX_ERROR;
    }
    weir_ngx_limit **limits = conf->limits.elts;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++) {
        if (!weir_ngx_limit_check(cf, limits[i]))
            return NGX_ERROR;
    }
    struct weir_ngx_reset **resets = conf->resets.elts;
    for (ngx_uint_t i = 0; i < conf->resets.nelts; i++) {
        if (!weir_ngx_reset_check(cf, resets[i]))
            return NGX_ERROR;
    }
    weir_ngx_check_effects(cf);
    ngx_http_handler_pt *handler = ngx_array_push(&core->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (!handler)
        return NGX_ERROR;
    *handler = weir_ngx_handler;
    weir_ngx_add_header_filter();
    return NGX_OK;
}

#define ANYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)

static ngx_command_t directives[] = {
    {ngx_string("weir_zone"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, weir_ngx_zone_conf,
     NGX_HTTP_MAIN_CONF_OFFSET, offsetof(weir_ngx_main_conf, zones), NULL},
    {ngx_string("weir"), ANYWHERE | NGX_CONF_1MORE, weir_ngx_limit_conf, NGX_HTTP_LOC_CONF_OFFSET,
     0, NULL},
    {ngx_string("weir_daemon"), ANYWHERE | NGX_CONF_1MORE, weir_ngx_daemon_directive,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("weir_headers"), ANYWHERE | NGX_CONF_1MORE, weir_ngx_headers_conf,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("weir_retry_spread"), ANYWHERE | NGX_CONF_TAKE1, weir_ngx_retry_spread_conf,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("weir_denied_body"), ANYWHERE | NGX_CONF_TAKE12, weir_ngx_denied_body_conf,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("weir_status"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1,
     weir_ngx_status_conf, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("weir_reset"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE3, weir_ngx_reset_conf,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    ngx_null_command};

/* ---- a worker starts and ends ---------------------------------------------------------------- */

static bool serves_requests(void)
{
    return ngx_process == NGX_PROCESS_WORKER || ngx_process == NGX_PROCESS_SINGLE;
}

static ngx_int_t init_process(ngx_cycle_t *cycle)
{
    weir_ngx_main_conf *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);
    if (!conf || !serves_requests())
        return NGX_OK;
    weir_ngx_limit **limits = conf->limits.elts;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++)
        weir_ngx_limit_open(limits[i], cycle->log);
    return NGX_OK;
}

static void exit_process(ngx_cycle_t *cycle)
{
    weir_ngx_main_conf *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);
    if (!conf || !serves_requests())
        return;
    weir_ngx_limit **limits = conf->limits.elts;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++) {
        for (int line = 0; line < WEIR_NGX_LINES; line++)
            weir_ngx_lines_end(&limits[i]->lines[line]);
    }
}

/* ---- the module ------------------------------------------------------------------------------ */

static ngx_http_module_t context = {
    .preconfiguration = weir_ngx_add_variables,
    .postconfiguration = postconfiguration,
    .create_main_conf = create_main_conf,
    .create_loc_conf = create_loc_conf,
    .merge_loc_conf = merge_loc_conf,
};

ngx_module_t ngx_http_weir_module = {
    NGX_MODULE_V1,
    .ctx = &context,
    .commands = directives,
    .type = NGX_HTTP_MODULE,
    .init_process = init_process,
    .exit_process = exit_process,
    NGX_MODULE_V1_PADDING,
};
