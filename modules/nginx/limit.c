/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The directive `weir`: reads a limit, and finds its id and its counters. */

#include "module.h"

#include "core/algorithm.h"
#include "port/assert.h"
#include "service/rules/keep.h"
#include "store/iterate.h"

#include <string.h>

enum { LEASE_NS_MIN = 100000000 };

/* ---- the policy ------------------------------------------------------------------------------ */

bool weir_ngx_policy_conf(ngx_conf_t *cf, const ngx_str_t *text, weir_policy *ret)
{
    weir_ngx_main_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    weir_policy_error error = {.text = ""};
    if (weir_policy_parse(ret, (const char *)text->data, text->len, &conf->zones.time_zones,
                          &error) == WEIR_OK)
        return true;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "policy \"%V\", column %uD: %s", text, error.column,
                       error.text);
    return false;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* The functions below return NGX_OK; NGX_DECLINED for a bad value; NGX_ERROR if that was logged. */

static ngx_int_t read_value(ngx_conf_t *cf, ngx_str_t *value, ngx_http_complex_value_t *ret)
{
    ngx_http_compile_complex_value_t compile = {.cf = cf, .value = value, .complex_value = ret};
    return value->len > 0 ? ngx_http_compile_complex_value(&compile) : NGX_DECLINED;
}

static bool bad(ngx_conf_t *cf, const ngx_str_t *parameter, const char *expected)
{
    return !weir_ngx_refuse(cf, "bad parameter \"%V\", expected %s", parameter, expected);
}

static ngx_int_t read_key(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    limit->states.len = sizeof "key=" - 1 + value->len;
    limit->states.data = value->data - (sizeof "key=" - 1);
    return read_value(cf, value, &limit->key);
}

static ngx_int_t read_cost(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    limit->cost = ngx_pcalloc(cf->pool, sizeof *limit->cost);
    return limit->cost ? read_value(cf, value, limit->cost) : NGX_ERROR;
}

static ngx_int_t read_keep(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    (void)cf;
    weir_slice text = {(const char *)value->data, value->len};
    return weir_keep_read(text, &limit->keep) ? NGX_OK : NGX_DECLINED;
}

static ngx_int_t read_name(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    (void)cf;
    if (!weir_ngx_is_name(value))
        return NGX_DECLINED;
    limit->name = *value;
    return NGX_OK;
}

static ngx_int_t read_status(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    ngx_int_t status = ngx_atoi(value->data, value->len);
    (void)cf;
    if (status < 400 || status > 599)
        return NGX_DECLINED;
    limit->status = (ngx_uint_t)status;
    return NGX_OK;
}

static ngx_int_t read_log_level(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    static const char *const levels[] = {"error", "warn", "notice", "info"};
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    _Static_assert(NGX_LOG_INFO - NGX_LOG_ERR + 1 == LEVELS, "in nginx's order");
    size_t i = weir_ngx_choice(value, levels, LEVELS);
    (void)cf;
    limit->log_level = NGX_LOG_ERR + i;
    return i < LEVELS ? NGX_OK : NGX_DECLINED;
}

static ngx_int_t read_unit(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    static const char *const units[] = {"requests", "tokens", "bytes"};
    enum { UNITS = sizeof units / sizeof units[0] };
    _Static_assert(WEIR_UNIT_BYTES - WEIR_UNIT_REQUESTS + 1 == UNITS, "in the order of the units");
    size_t i = weir_ngx_choice(value, units, UNITS);
    (void)cf;
    limit->unit = (weir_quota_unit)(WEIR_UNIT_REQUESTS + i);
    return i < UNITS ? NGX_OK : NGX_DECLINED;
}

/* delay=N: the first N queued requests are not delayed, and the others wait less, by the time of
 * N. */
static ngx_int_t read_delay(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value)
{
    const weir_layer *queue = limit->queue;
    ngx_int_t n = ngx_atoi(value->data, value->len);
    if (!queue || n < 1 || n >= queue->limit)
        return NGX_DECLINED;
    if (queue->nodelay > 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "delay= and nodelay in the policy mean the same, use one of them");
        return NGX_ERROR;
    }
    unsigned __int128 span = (unsigned __int128)n * (uint64_t)queue->period_ns;
    limit->undelayed_ns = (int64_t)((span + (uint64_t)queue->rate - 1) / (uint64_t)queue->rate);
    return NGX_OK;
}

static const weir_layer *queue_of(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].algorithm == WEIR_LEAKY_QUEUE)
            return &p->layer[i];
    }
    return NULL;
}

/* A lease is renewed by a timer of nginx while the request lives. */
static bool check_lease(ngx_conf_t *cf, const weir_ngx_limit *limit)
{
    return !limit->hold || limit->hold->period_ns >= LEASE_NS_MIN ||
           !weir_ngx_refuse(cf, "the lease in the policy is too short, expected at least %d ms",
                            LEASE_NS_MIN / 1000000);
}

typedef struct parameter {
    const char *name; /* with its '=' */
    ngx_int_t (*read)(ngx_conf_t *cf, weir_ngx_limit *limit, ngx_str_t *value);
    const char *expected; /* for the error about a bad value */
} parameter;

static bool read_parameter(ngx_conf_t *cf, weir_ngx_limit *limit, const ngx_str_t *arg)
{
    static const parameter all[] = {
        {"key=", read_key, "key=EXPRESSION"},
        {"cost=", read_cost, "cost=EXPRESSION"},
        {"keep=", read_keep, "keep= with a number of units, or a share from 0% to 100%"},
        {"name=", read_name, "name= with 1 to 64 letters, digits and - _ . : /"},
        {"status=", read_status, "status= from 400 to 599"},
        {"unit=", read_unit, "unit= requests, tokens or bytes"},
        {"log_level=", read_log_level, "log_level= info, notice, warn or error"},
        {"delay=", read_delay, "delay= from 1 to the depth of the leaky-queue in the policy"}};
    if (weir_ngx_is(arg, "shadow")) {
        limit->shadow = true;
        return true;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ngx_str_t value;
        if (weir_ngx_is_parameter(arg, all[i].name, &value)) {
            ngx_int_t rc = all[i].read(cf, limit, &value);
            return rc == NGX_OK || (rc == NGX_DECLINED && bad(cf, arg, all[i].expected));
        }
    }
    return bad(cf, arg, "key=, cost=, keep=, name=, status=, delay=, unit=, log_level= or shadow");
}

/* ---- the directive --------------------------------------------------------------------------- */

static weir_ngx_limit *read_limit(ngx_conf_t *cf)
{
    ngx_str_t *args = cf->args->elts;
    weir_ngx_limit *limit = ngx_pcalloc(cf->pool, sizeof *limit);
    if (!limit || !weir_ngx_policy_conf(cf, &args[2], &limit->policy))
        return NULL;
    limit->queue = queue_of(&limit->policy);
    limit->hold = weir_policy_hold(&limit->policy);
    limit->at = weir_ngx_place_of(cf);
    limit->log_level = NGX_LOG_ERR;
    for (ngx_uint_t i = 3; i < cf->args->nelts; i++) {
        if (!weir_ngx_is_first(cf, 3, i) || !read_parameter(cf, limit, &args[i]))
            return NULL;
    }
    if (!weir_ngx_check_cost(cf, limit) || !check_lease(cf, limit))
        return NULL;
    if (limit->shadow && limit->status > 0)
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"status=%ui\" has no effect, because a limit with shadow denies "
                           "nothing",
                           limit->status);
    if (limit->status == 0)
        limit->status = NGX_HTTP_TOO_MANY_REQUESTS;
    if (limit->states.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no key, expected a parameter such as key=$binary_remote_addr");
        return NULL;
    }
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(&limit->policy, text, sizeof text);
    if (!weir_ngx_copy(cf, text, len, &limit->text))
        return NULL;
    if (limit->name.len > 0)
        limit->states = limit->name;
    limit->label = limit->name.len > 0 ? limit->name : limit->text;
    weir_ngx_main_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    limit->zone = weir_ngx_zone_named(cf, &conf->zones, &args[1]);
    return limit->zone && weir_ngx_zone_add_label(limit->zone, &limit->label) ? limit : NULL;
}

/* Whether two limits have one count for each key. With a name, their bursts may differ. */
static bool share(const weir_ngx_limit *a, const weir_ngx_limit *b)
{
    return a->zone == b->zone && weir_ngx_is_same(&a->states, &b->states) &&
           (weir_ngx_is_same(&a->text, &b->text) ||
            (a->name.len > 0 && weir_store_can_share(&a->policy, &b->policy)));
}

/* Of two limits that share states, the one with the larger burst. If the bursts are equal, the
 * choice must not depend on the order of the directives. */
static const weir_ngx_limit *wider(const weir_ngx_limit *a, const weir_ngx_limit *b)
{
    int64_t more = a->policy.layer[0].limit - b->policy.layer[0].limit;
    if (more == 0)
        more = ngx_memn2cmp(a->text.data, b->text.data, a->text.len, b->text.len);
    return more >= 0 ? a : b;
}

/* Finds the limits that share states with a new one. */
static void find_widest(weir_ngx_main_conf *conf, weir_ngx_limit *limit)
{
    weir_ngx_limit **all = conf->limits.elts;
    limit->widest = limit;
    for (ngx_uint_t i = 0; i < conf->limits.nelts; i++) {
        if (share(all[i], limit))
            all[i]->widest = limit->widest = wider(all[i]->widest, limit->widest);
        else if (all[i]->zone == limit->zone && weir_ngx_is_same(&all[i]->states, &limit->states))
            all[i]->mixed = limit->mixed = true;
    }
}

/* Whether two limits charge the same state of each request, with the same cost. */
static bool is_same(const weir_ngx_limit *a, const weir_ngx_limit *b)
{
    static const ngx_str_t one = ngx_string("1");
    return share(a, b) && weir_ngx_is_same(&a->key.value, &b->key.value) &&
           weir_ngx_is_same(a->cost ? &a->cost->value : &one, b->cost ? &b->cost->value : &one);
}

char *weir_ngx_limit_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    weir_ngx_main_conf *all = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);
    bool off = weir_ngx_is_off(cf);
    (void)cmd;
    if (cf->args->nelts < 4 && !off)
        return weir_ngx_refuse(cf, "expected weir ZONE \"POLICY\" key=EXPRESSION ..., or weir off");
    if (loc->limits && (off || loc->limits->nelts == 0))
        return weir_ngx_refuse(cf, "\"weir off\" excludes other limits here");
    if (!loc->limits)
        loc->limits = ngx_array_create(cf->pool, 2, sizeof(weir_ngx_limit *));
    if (!loc->limits)
        return NGX_CONF_ERROR;
    if (off)
        return NGX_CONF_OK;
    if (loc->limits->nelts == WEIR_TAKE_MANY_MAX)
        return weir_ngx_refuse(cf, "too many limits, expected at most %d", WEIR_TAKE_MANY_MAX);
    weir_ngx_limit *limit = read_limit(cf);
    if (limit)
        find_widest(all, limit);
    weir_ngx_limit **here = limit ? ngx_array_push(loc->limits) : NULL;
    weir_ngx_limit **there = limit ? ngx_array_push(&all->limits) : NULL;
    if (!here || !there)
        return NGX_CONF_ERROR;
    *here = *there = limit;
    for (weir_ngx_limit **other = loc->limits->elts; other < here; other++) {
        if (is_same(*other, limit))
            return "is duplicate: it would charge each request twice";
    }
    loc->shadows += limit->shadow;
    return NGX_CONF_OK;
}

bool weir_ngx_limit_check(ngx_conf_t *cf, const weir_ngx_limit *limit)
{
    if (!limit->hold || !limit->by_daemon)
        return true;
    ngx_log_error(
        NGX_LOG_EMERG, cf->log, 0,
        "weir_daemon cannot decide on the policy \"%V\", because nothing would be given "
        "back when a request ends: expected \"weir_daemon off\" with concurrent in %V:%ui",
        &limit->text, &limit->at.file, limit->at.line);
    return false;
}

/* Keys keep what they used under another limit of the same name, or of the same key without a name,
 * that the configuration had before. */
static void keep_usage(const weir_ngx_limit *limit, ngx_log_t *log)
{
    if (limit->mixed)
        return;
    if (weir_store_note_limit(limit->zone->store, limit->id, &limit->widest->policy,
                              (const char *)limit->states.data, limit->states.len) != WEIR_OK)
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "weir: no memory: keys of \"%V\" begin with full quota if its limit changed",
                      &limit->label);
    weir_store_keep(limit->zone->store);
}

/* ---- in a worker ----------------------------------------------------------------------------- */

void weir_ngx_limit_open(weir_ngx_limit *limit, ngx_log_t *log)
{
    WEIR_ASSERT(limit->zone && limit->label.len > 0 && limit->states.len > 0);
    limit->counts = weir_ngx_zone_counts(limit->zone, &limit->label);
    weir_ngx_zone_open(limit->zone, log);
    if (!limit->zone->store)
        return;
    limit->id = weir_store_named_id(limit->zone->store, &limit->widest->policy,
                                    (const char *)limit->states.data, limit->states.len);
    limit->reset_id = weir_store_reset_id((const char *)limit->states.data, limit->states.len);
    keep_usage(limit, log);
    limit->open = true;
}

uint64_t weir_ngx_limit_id(const weir_ngx_limit *limit)
{
    return weir_store_current_id(limit->zone->store, limit->id, limit->reset_id);
}
