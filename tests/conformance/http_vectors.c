/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the HTTP API without sockets: a JSON body to the codec, the service and
 * the store, and the JSON of the response, with the time of the vector passed in. */

#include "daemon_parts.h"
#include "vectors.h"

#include "codec/http/session.h"
#include "core/algorithm.h"
#include "port/text.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct http_ctx {
    weir_zones zones;
    daemon_parts parts;
    weir_http_options options;
    weir_http_session session;
    const char *policy;
    char id[RESERVATIONS_MAX][WEIR_HEX64_LEN + 1]; /* of reservations */
} http_ctx;

static bool begin(void *ctx, const char *policy)
{
    http_ctx *h = ctx;
    h->policy = policy;
    if (!daemon_parts_open(&h->parts, &h->zones))
        return false;
    h->options = (weir_http_options){.service = h->parts.service, .version = ""};
    weir_http_session_init(&h->session, &h->options);
    return true;
}

static void end(void *ctx)
{
    http_ctx *h = ctx;
    weir_http_session_close(&h->session);
    daemon_parts_close(&h->parts);
}

static void add_number(json_t *body, const char *name, int64_t n)
{
    json_object_set_new(body, name, json_integer(n));
}

static json_t *body_of(const http_ctx *h, const step *s)
{
    char ttl[24];
    json_t *body = json_object();
    if (s->op >= RENEW) {
        json_object_set_new(body, "id", json_string(h->id[s->id]));
    } else {
        json_object_set_new(body, "limit", json_string(h->policy));
        json_object_set_new(body, "key", json_string("key"));
        add_number(body, "cost", s->cost);
    }
    if (s->op == TAKE)
        json_object_set_new(body, "delay", json_string("report"));
    if (s->op == COMMIT)
        add_number(body, "actual", s->cost);
    if (s->keep[0] && s->keep[strlen(s->keep) - 1] == '%')
        json_object_set_new(body, "keep", json_string(s->keep));
    else if (s->keep[0])
        add_number(body, "keep", strtoll(s->keep, NULL, 10));
    snprintf(ttl, sizeof ttl, "%" PRId64 "ns", s->ttl_ns);
    if (s->ttl_ns > 0)
        json_object_set_new(body, "ttl", json_string(ttl));
    return body;
}

/* Sends a request. Returns the status of the response, with its body in *ret. */
static int call(http_ctx *h, const step *s, json_t **ret)
{
    static const char *const paths[] = {
        [TAKE] = "check",  [REFUND] = "refund", [CHARGE] = "charge", [RESERVE] = "reserve",
        [RENEW] = "renew", [COMMIT] = "commit", [CANCEL] = "cancel"};
    json_t *json = body_of(h, s);
    char *body = json_dumps(json, 0);
    weir_buffer_printf(&h->parts.in,
                       "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                       "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       paths[s->op], strlen(body), body);
    free(body);
    json_decref(json);
    weir_http_session_run(&h->session, &h->parts.in, &h->parts.out, 1 << 15, s->t_ns);
    weir_buffer_append(&h->parts.out, "", 1);
    const char *text = (const char *)weir_buffer_data(&h->parts.out);
    const char *blank = strstr(text, "\r\n\r\n");
    int status = strncmp(text, "HTTP/1.1 ", 9) == 0 ? atoi(text + 9) : 0;
    *ret = blank ? json_loads(blank, 0, NULL) : NULL;
    if (!*ret)
        fprintf(stderr, "    replied: %s\n", text);
    return status;
}

/* Reads a member of the response. Without it, *ret stays as it is. */
static bool read_number(const json_t *o, const char *name, int64_t unit, int64_t *ret)
{
    const json_t *v = json_object_get(o, name);
    if (json_is_integer(v))
        *ret = json_integer_value(v) * unit;
    return json_is_integer(v);
}

/* A response to the end of a reservation has no verdict, and so neither a wait nor a delay. */
static bool read_decision(const step *s, const json_t *o, weir_decision *ret)
{
    int64_t layer, ms = 1000000;
    *ret = s->want;
    bool good = read_number(o, "limit", 1, &ret->limit) &&
                read_number(o, "remaining", 1, &ret->remaining) &&
                read_number(o, "reset_after_ms", ms, &ret->reset_after_ns) &&
                read_number(o, "layer", 1, &layer);
    ret->layer = good ? (uint32_t)layer : 0;
    if (s->op >= RENEW)
        return good && json_is_true(json_object_get(o, s->op == RENEW ? "renewed" : "settled"));
    ret->allowed = json_is_true(json_object_get(o, "allowed"));
    good = good && read_number(o, "retry_after_ms", ms, &ret->retry_after_ns) &&
           read_number(o, "delay_ms", ms, &ret->delay_ns);
    ret->never = ret->retry_after_ns == -ms;
    if (ret->never)
        ret->retry_after_ns = INT64_MAX;
    return good;
}

static weir_status read_response(http_ctx *h, const step *s, int status, const json_t *o,
                                 weir_decision *ret, int64_t *ret_over)
{
    const char *error = json_string_value(json_object_get(o, "detail"));
    if (status == 404 && s->op >= RENEW)
        return WEIR_E_ABSENT;
    if (status == 400 && error &&
        (strstr(error, WEIR_NO_REFUNDS) || strstr(error, WEIR_NO_CHARGES)))
        return WEIR_E_UNSUPPORTED;
    const char *id = json_string_value(json_object_get(o, "id"));
    bool good =
        read_decision(s, o, ret) && (!has_over(s) || read_number(o, "over", 1, ret_over)) &&
        (id != NULL) == (s->op == RESERVE && ret->allowed) &&
        status ==
            (s->op >= RENEW || s->op == REFUND || s->op == CHARGE || ret->allowed ? 200 : 429);
    if (id)
        snprintf(h->id[s->id], sizeof h->id[s->id], "%s", id);
    return good ? WEIR_OK : WEIR_E_SYNTAX;
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    http_ctx *h = ctx;
    json_t *o;
    int status = call(h, s, &o);
    weir_status st = read_response(h, s, status, o, ret, ret_over);
    if (st == WEIR_E_SYNTAX)
        fprintf(stderr, "    replied: %s\n", (const char *)weir_buffer_data(&h->parts.out));
    weir_buffer_clear(&h->parts.out);
    json_decref(o);
    return st;
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    http_ctx h = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {.name = "http",
                 .reserves = true,
                 .begin = begin,
                 .decide = decide,
                 .round = round_up,
                 .end = end,
                 .ctx = &h};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
