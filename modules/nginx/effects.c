/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Warnings of directives and parameters that are valid and have no effect. The merge of the levels
 * notes what requests use; the warnings follow once the whole configuration is known. */

#include "module.h"

#include "core/check.h"
#include "port/text.h"

#include <inttypes.h>
#include <string.h>

/* Logs a warning about a place, as nginx does about the line that it reads. */
#define warn_at(cf, place, format, ...)                                                            \
    do {                                                                                           \
        ngx_log_error(NGX_LOG_WARN, (cf)->log, 0, format " in %V:%ui", __VA_ARGS__,                \
                      &(place)->file, (place)->line);                                              \
    } while (0)

static weir_ngx_main_conf *main_conf(ngx_conf_t *cf)
{
    return ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
}

/* ---- settings -------------------------------------------------------------------------------- */

static const char *const directives[WEIR_NGX_SETTINGS] = {
    [WEIR_NGX_SETTING_DAEMON] = "weir_daemon",
    [WEIR_NGX_SETTING_HEADERS] = "weir_headers",
    [WEIR_NGX_SETTING_SPREAD] = "weir_retry_spread",
    [WEIR_NGX_SETTING_BODY] = "weir_denied_body"};

struct weir_ngx_setting {
    weir_ngx_setting_kind kind;
    weir_ngx_place at;
    bool used; /* by a limit */
};

bool weir_ngx_note_setting(ngx_conf_t *cf, weir_ngx_loc_conf *loc, weir_ngx_setting_kind kind,
                           bool off)
{
    struct weir_ngx_setting **place = ngx_array_push(&main_conf(cf)->settings);
    struct weir_ngx_setting *s = ngx_palloc(cf->pool, sizeof *s);
    if (!place || !s)
        return false;
    *s = (struct weir_ngx_setting){kind, weir_ngx_place_of(cf), off};
    *place = loc->settings[kind] = s;
    return true;
}

void weir_ngx_note_use(const weir_ngx_loc_conf *before, weir_ngx_loc_conf *conf)
{
    weir_ngx_limit **limits = conf->limits ? conf->limits->elts : NULL;
    ngx_uint_t n = conf->limits ? conf->limits->nelts : 0;
    for (int kind = 0; kind < WEIR_NGX_SETTINGS; kind++) {
        bool uses = n > (kind == WEIR_NGX_SETTING_DAEMON ? 0 : conf->shadows);
        if (!conf->settings[kind])
            conf->settings[kind] = before->settings[kind];
        if (uses && conf->settings[kind])
            conf->settings[kind]->used = true;
    }
    for (ngx_uint_t i = 0; i < n; i++) {
        weir_ngx_limit *limit = limits[i];
        limit->used = true;
        limit->in_zone |=
            !conf->daemon || weir_ngx_daemon_on_error(conf->daemon) == WEIR_NGX_ON_ERROR_LOCAL;
        limit->by_daemon |= conf->daemon != NULL;
        limit->shown |= limit->shadow ? 0 : conf->headers;
    }
}

static void check_settings(ngx_conf_t *cf)
{
    struct weir_ngx_setting **s = main_conf(cf)->settings.elts;
    for (ngx_uint_t i = 0; i < main_conf(cf)->settings.nelts; i++) {
        if (!s[i]->used)
            warn_at(cf, &s[i]->at, "\"%s\" has no effect, because no weir%s is here or below",
                    directives[s[i]->kind],
                    s[i]->kind == WEIR_NGX_SETTING_DAEMON ? "" : " without shadow");
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Whether a text is the name of a variable. */
static bool is_variable(ngx_conf_t *cf, const ngx_str_t *text)
{
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    const ngx_hash_key_t *known = core->variables_keys->keys.elts;
    bool found = false;
    for (ngx_uint_t i = 0; i < core->variables_keys->keys.nelts && !found; i++)
        found = known[i].key.len == text->len &&
                ngx_strncasecmp(known[i].key.data, text->data, text->len) == 0;
    return found;
}

/* Returns a variable in a text that has no value yet when limits are checked; NULL if none. */
static const char *find_late(const ngx_str_t *text)
{
    static const char *const late[] = {"weir_", "upstream_", "sent_http_", "limit_req_status",
                                       "bytes_sent"};
    for (size_t at = 0; at + 1 < text->len; at++) {
        size_t name = at + 1 + (text->data[at + 1] == '{');
        for (size_t i = 0; text->data[at] == '$' && i < sizeof late / sizeof late[0]; i++) {
            size_t len = strlen(late[i]);
            if (name + len <= text->len && ngx_strncmp(text->data + name, late[i], len) == 0)
                return late[i];
        }
    }
    return NULL;
}

static void check_key(ngx_conf_t *cf, const weir_ngx_limit *limit)
{
    const ngx_str_t *key = &limit->key.value;
    const char *late = find_late(key);
    if (!limit->key.lengths && is_variable(cf, key))
        warn_at(cf, &limit->at,
                "the key \"%V\" is the same for all requests, did you mean \"$%V\"?", key, key);
    if (!late && limit->cost)
        late = find_late(&limit->cost->value);
    if (late)
        warn_at(cf, &limit->at, "the variable $%s%s has no value yet when limits are checked", late,
                late[strlen(late) - 1] == '_' ? "..." : "");
}

static void check_limit(ngx_conf_t *cf, const weir_ngx_limit *limit)
{
    if (!limit->used)
        warn_at(cf, &limit->at, "\"%s\" has no effect, because each server has one of its own",
                "weir");
    else if (limit->unit == WEIR_UNIT_BYTES && !(limit->shown & WEIR_HEADERS_IETF))
        warn_at(cf, &limit->at, "\"unit=bytes\" has no effect without %s", "weir_headers ietf");
    else if (limit->unit == WEIR_UNIT_TOKENS && !(limit->shown & WEIR_HEADERS_OPENAI))
        warn_at(cf, &limit->at, "\"unit=tokens\" has no effect without %s", "weir_headers openai");
    check_key(cf, limit);
}

bool weir_ngx_check_cost(ngx_conf_t *cf, const weir_ngx_limit *limit)
{
    uint64_t cost = 1;
    if (limit->cost ? limit->cost->lengths != NULL : limit->keep == 0)
        return true;
    const ngx_str_t *text = limit->cost ? &limit->cost->value : NULL;
    if (text && weir_digits_read((const char *)text->data, text->len, &cost) < text->len)
        return !weir_ngx_refuse(
            cf, "bad parameter \"cost=%V\", expected a whole number or a variable", text);
    int64_t most = weir_keep_most(&limit->policy, limit->keep);
    if (cost == 0)
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0, "a cost of 0 charges nothing");
    else if ((most < 0 || cost > (uint64_t)most) && !limit->shadow)
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "no request is allowed, because the policy allows a cost of at most "
                           "%L%s",
                           ngx_max(most, 0), limit->keep ? " with what the request keeps" : "");
    return true;
}

/* ---- zones and locations of operators -------------------------------------------------------- */

static void check_zone(ngx_conf_t *cf, const weir_ngx_zone *zone)
{
    weir_ngx_limit **limits = main_conf(cf)->limits.elts;
    bool used = false;
    for (ngx_uint_t i = 0; i < main_conf(cf)->limits.nelts; i++)
        used |= limits[i]->zone == zone && (limits[i]->in_zone || !limits[i]->used);
    if (zone->labels.nelts == 0)
        warn_at(cf, &zone->at, "no weir uses the zone \"%V\"", &zone->name);
    else if (!used && zone->file.len > 0)
        warn_at(cf, &zone->at, "the file of zone \"%V\" has no effect, because a daemon decides",
                &zone->name);
}

bool weir_ngx_note_operator(ngx_conf_t *cf, const char *directive, ngx_http_handler_pt handler)
{
    weir_ngx_operator *o = ngx_array_push(&main_conf(cf)->operators);
    ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    if (!o)
        return false;
    *o = (weir_ngx_operator){directive, core, handler, weir_ngx_place_of(cf)};
    if (core->handler)
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0, "\"%s\" replaces another handler of the location",
                           directive);
    core->handler = handler;
    return true;
}

void weir_ngx_check_effects(ngx_conf_t *cf)
{
    weir_ngx_main_conf *conf = main_conf(cf);
    weir_ngx_limit **limits = conf->limits.elts;
    weir_ngx_zone **zones = conf->zones.all.elts;
    weir_ngx_operator *operators = conf->operators.elts;
    check_settings(cf);
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++)
        check_limit(cf, limits[i]);
    for (ngx_uint_t i = 0; i < conf->zones.all.nelts; i++)
        check_zone(cf, zones[i]);
    for (ngx_uint_t i = 0; i < conf->operators.nelts; i++) {
        if (operators[i].core->handler != operators[i].handler)
            warn_at(cf, &operators[i].at,
                    "\"%s\" has no effect, because another handler of the location replaces it",
                    operators[i].directive);
    }
}
