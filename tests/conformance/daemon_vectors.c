/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the daemon without sockets: RESP bytes to the codec, the service and the
 * store, and the bytes of the reply, with the time of the vector passed in. Replies are in whole
 * milliseconds. The steps alternate between RESP2 and RESP3, and between replies without and with
 * WITHNAMES. Only a reply with names has the layer. */

#include "vectors.h"

#include "codec/resp/reply_reader.h"
#include "codec/resp/session.h"
#include "core/algorithm.h"
#include "core/decision.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without "-ERR ". */
static const char *const refused[] = {WEIR_NO_REFUNDS "\r\n", WEIR_NO_CHARGES "\r\n"};

typedef struct daemon_ctx {
    weir_zones zones;
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    weir_resp_options options;
    weir_resp_session session;
    weir_buffer in, out;
    const char *policy;
    unsigned steps;
} daemon_ctx;

/* Each case has a store of its own, because the clock of a store never steps back. */
static bool begin(void *ctx, const char *policy)
{
    daemon_ctx *d = ctx;
    d->policy = policy;
    if (weir_store_open(&d->store, NULL) != WEIR_OK ||
        weir_limiter_open(&d->limiter, d->store, &d->zones) != WEIR_OK ||
        weir_service_open(&d->service, d->limiter) != WEIR_OK)
        return false;
    weir_buffer_init(&d->in, 1 << 16);
    weir_buffer_init(&d->out, 1 << 16);
    d->options = (weir_resp_options){.service = d->service, .version = ""};
    weir_resp_session_init(&d->session, &d->options);
    return true;
}

static void end(void *ctx)
{
    daemon_ctx *d = ctx;
    weir_buffer_free(&d->in);
    weir_buffer_free(&d->out);
    weir_service_close(d->service);
    weir_limiter_close(d->limiter);
    weir_store_close(d->store);
    d->service = NULL;
    d->limiter = NULL;
    d->store = NULL;
}

/* Reads a decision as an array, and of a charge the units over behind it. */
static bool read_array(const weir_resp_reply *reply, int64_t ret[WEIR_DECISION_FIELDS],
                       int64_t *ret_over)
{
    if (ret_over && reply->values == 2 + WEIR_DECISION_FIELDS)
        *ret_over = reply->value[1 + WEIR_DECISION_FIELDS].integer;
    if (reply->values != 1 + WEIR_DECISION_FIELDS + (ret_over ? 1 : 0) ||
        reply->value[0].type != WEIR_RESP_ARRAY)
        return false;
    for (size_t i = 0; i < WEIR_DECISION_FIELDS; i++) {
        if (reply->value[1 + i].type != WEIR_RESP_INTEGER)
            return false;
        ret[i] = reply->value[1 + i].integer;
    }
    return true;
}

/* Reads the pair of `name` and an integer at value[i]. */
static bool read_pair(const weir_resp_reply *reply, size_t i, const char *name, int64_t *ret)
{
    const weir_resp_value *key = &reply->value[i], *value = &reply->value[i + 1];
    *ret = value->integer;
    return key->type == WEIR_RESP_BULK && key->len == strlen(name) &&
           memcmp(key->text, name, key->len) == 0 && value->type == WEIR_RESP_INTEGER;
}

/* Reads a decision with names: six fields, next_ms, of a charge the units over, the policy and the
 * layer, in this order. */
static bool read_names(const weir_resp_reply *reply, int proto, int64_t ret[WEIR_DECISION_FIELDS],
                       uint32_t *ret_layer, int64_t *ret_over)
{
    int64_t layer, next_ms;
    size_t more = ret_over ? 3 : 2, at = 1 + 2 * (size_t)WEIR_DECISION_FIELDS;
    if (reply->values != at + 2 * (1 + more) ||
        (ret_over && !read_pair(reply, at + 2, "over", ret_over)) ||
        reply->value[0].type != (proto >= 3 ? WEIR_RESP_MAP : WEIR_RESP_ARRAY))
        return false;
    for (size_t i = 0; i < WEIR_DECISION_FIELDS; i++) {
        if (!read_pair(reply, 1 + 2 * i, weir_decision_field_names[i], &ret[i]))
            return false;
    }
    if (!read_pair(reply, at, "next_ms", &next_ms) ||
        !read_pair(reply, at + 2 * more, "layer", &layer))
        return false;
    *ret_layer = (uint32_t)layer;
    return true;
}

static weir_status read_reply(const weir_buffer *out, int proto, bool names, weir_decision *ret,
                              int64_t *ret_over)
{
    weir_resp_reply reply;
    int64_t v[WEIR_DECISION_FIELDS];
    uint32_t layer = ret->layer;
    if (weir_resp_reply_read(weir_buffer_data(out), weir_buffer_len(out), &reply) !=
            WEIR_RESP_READ ||
        reply.used != weir_buffer_len(out) ||
        !(names ? read_names(&reply, proto, v, &layer, ret_over)
                : read_array(&reply, v, ret_over))) {
        const char *want = refused[ret_over != NULL];
        if (weir_buffer_len(out) == 5 + strlen(want) &&
            memcmp((const char *)weir_buffer_data(out) + 5, want, strlen(want)) == 0)
            return WEIR_E_UNSUPPORTED;
        fprintf(stderr, "    replied: %.*s\n", (int)weir_buffer_len(out),
                (const char *)weir_buffer_data(out));
        return WEIR_E_SYNTAX;
    }
    *ret = weir_decision_of_fields(v, 1000000);
    ret->layer = layer;
    return WEIR_OK;
}

static void add_word(weir_buffer *b, const char *word)
{
    weir_resp_put_bulk(b, word, strlen(word));
}

static void add_request(daemon_ctx *d, const step *s, bool names)
{
    char cost[24];
    snprintf(cost, sizeof cost, "%" PRId64, s->cost);
    weir_resp_put_array(&d->in, (s->refund ? 4u : s->keep[0] ? 7u : 5u) + names);
    add_word(&d->in, s->refund ? "WEIR.REFUND" : s->charge ? "WEIR.CHARGE" : "WEIR.CHECK");
    add_word(&d->in, d->policy);
    add_word(&d->in, "key");
    if (!s->refund)
        add_word(&d->in, "COST");
    add_word(&d->in, cost);
    if (s->keep[0]) {
        add_word(&d->in, "KEEP");
        add_word(&d->in, s->keep);
    }
    if (names)
        add_word(&d->in, "WITHNAMES");
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    daemon_ctx *d = ctx;
    bool names = d->steps & 1;
    d->session.proto = d->steps & 2 ? 3 : 2;
    d->steps++;
    add_request(d, s, names);
    weir_resp_session_run(&d->session, &d->in, &d->out, 1 << 15, s->t_ns);
    ret->layer = s->want.layer; /* an array does not have the layer */
    weir_status st = read_reply(&d->out, d->session.proto, names, ret, s->charge ? ret_over : NULL);
    weir_buffer_clear(&d->out);
    return st;
}

static int64_t up_to_ms(int64_t ns)
{
    return (ns / 1000000 + (ns % 1000000 > 0)) * 1000000;
}

static void round_up(weir_decision *d)
{
    if (!d->never)
        d->retry_after_ns = up_to_ms(d->retry_after_ns);
    d->reset_after_ns = up_to_ms(d->reset_after_ns);
    d->delay_ns = up_to_ms(d->delay_ns);
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    daemon_ctx ctx = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {.name = "daemon",
                 .begin = begin,
                 .decide = decide,
                 .round = round_up,
                 .end = end,
                 .ctx = &ctx};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
