/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the daemon without sockets: RESP bytes to the codec, the service and the
 * store, and the bytes of the reply, with the time of the vector passed in. Replies are in whole
 * milliseconds. The steps alternate between RESP2 and RESP3, and between replies without and with
 * WITHNAMES. Only a reply with names has the layer. */

#include "daemon_parts.h"
#include "vectors.h"

#include "codec/answer/reservation.h"
#include "codec/resp/reply_reader.h"
#include "codec/resp/session.h"
#include "core/algorithm.h"
#include "core/decision.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct daemon_ctx {
    weir_zones zones;
    daemon_parts parts;
    weir_resp_options options;
    weir_resp_session session;
    const char *policy;
    char id[RESERVATIONS_MAX][WEIR_HEX64_LEN]; /* of reservations */
    unsigned steps;
} daemon_ctx;

static bool begin(void *ctx, const char *policy)
{
    daemon_ctx *d = ctx;
    d->policy = policy;
    if (!daemon_parts_open(&d->parts, &d->zones))
        return false;
    d->options = (weir_resp_options){.service = d->parts.service, .version = ""};
    weir_resp_session_init(&d->session, &d->options);
    return true;
}

static void end(void *ctx)
{
    daemon_ctx *d = ctx;
    daemon_parts_close(&d->parts);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* The name of what follows the fields in the reply to a step; NULL: nothing. */
static const char *more_of(const step *s)
{
    return has_over(s) ? "over" : s->op == RESERVE ? "id" : NULL;
}

/* Reads what follows the fields. An id is null if the request was denied. */
static bool read_more(daemon_ctx *d, const step *s, const weir_resp_value *v, bool allowed,
                      int64_t *ret_over)
{
    *ret_over = v->integer;
    if (s->op != RESERVE)
        return v->type == WEIR_RESP_INTEGER;
    *ret_over = 0;
    if (!allowed)
        return v->type == WEIR_RESP_NULL;
    memcpy(d->id[s->id], v->text, v->len == WEIR_HEX64_LEN ? v->len : 0);
    return v->type == WEIR_RESP_BULK && v->len == WEIR_HEX64_LEN;
}

/* Reads a decision as an array. */
static bool read_array(daemon_ctx *d, const step *s, const weir_resp_reply *reply,
                       int64_t ret[WEIR_DECISION_FIELDS], int64_t *ret_over)
{
    const weir_resp_value *v = reply->value;
    bool more = more_of(s) != NULL;
    if (reply->values != 1 + WEIR_DECISION_FIELDS + (size_t)more || v[0].type != WEIR_RESP_ARRAY)
        return false;
    for (size_t i = 0; i < WEIR_DECISION_FIELDS; i++) {
        if (v[1 + i].type != WEIR_RESP_INTEGER)
            return false;
        ret[i] = v[1 + i].integer;
    }
    return !more || read_more(d, s, &v[1 + WEIR_DECISION_FIELDS], ret[0] != 0, ret_over);
}

static bool is_name(const weir_resp_value *v, const char *name)
{
    return v->type == WEIR_RESP_BULK && v->len == strlen(name) &&
           memcmp(v->text, name, v->len) == 0;
}

/* Reads the pair of `name` and an integer. */
static bool read_pair(const weir_resp_value *v, const char *name, int64_t *ret)
{
    *ret = v[1].integer;
    return is_name(v, name) && v[1].type == WEIR_RESP_INTEGER;
}

/* Reads a decision with names: six fields, next_ms, what more_of() says, the policy, which the
 * reply to the end of a reservation does not have, and the layer, in this order. */
static bool read_names(daemon_ctx *d, const step *s, const weir_resp_reply *reply,
                       int64_t ret[WEIR_DECISION_FIELDS], uint32_t *ret_layer, int64_t *ret_over)
{
    int64_t layer, next_ms;
    const char *more = more_of(s);
    size_t pairs = WEIR_DECISION_FIELDS + 2u + (more != NULL) + (s->op <= RESERVE);
    const weir_resp_value *v = reply->value;
    if (reply->values != 1 + 2 * pairs ||
        v[0].type != (d->session.proto >= 3 ? WEIR_RESP_MAP : WEIR_RESP_ARRAY))
        return false;
    const weir_resp_value *last = &v[reply->values - 2];
    v++;
    for (size_t i = 0; i < WEIR_DECISION_FIELDS; i++, v += 2) {
        if (!read_pair(v, weir_decision_field_names[i], &ret[i]))
            return false;
    }
    if (!read_pair(v, "next_ms", &next_ms) || !read_pair(last, "layer", &layer))
        return false;
    *ret_layer = (uint32_t)layer;
    return !more || (is_name(v + 2, more) && read_more(d, s, v + 3, ret[0] != 0, ret_over));
}

/* Returns the status that an error reply stands for. */
static weir_status status_of(const daemon_ctx *d, const step *s)
{
    char absent[128], want[192];
    snprintf(absent, sizeof absent, WEIR_NO_RESERVATION, WEIR_HEX64_LEN, d->id[s->id]);
    const char *const texts[] = {
        [REFUND] = WEIR_NO_REFUNDS, [CHARGE] = WEIR_NO_CHARGES, [RESERVE] = WEIR_NO_REFUNDS,
        [RENEW] = absent,           [COMMIT] = absent,          [CANCEL] = absent,
    };
    snprintf(want, sizeof want, "-ERR %s\r\n", s->op == TAKE ? "" : texts[s->op]);
    const char *got = (const char *)weir_buffer_data(&d->parts.out);
    size_t len = weir_buffer_len(&d->parts.out);
    if (len == strlen(want) && memcmp(got, want, len) == 0)
        return s->op >= RENEW ? WEIR_E_ABSENT : WEIR_E_UNSUPPORTED;
    fprintf(stderr, "    replied: %.*s\n", (int)len, got);
    return WEIR_E_SYNTAX;
}

static weir_status read_reply(daemon_ctx *d, const step *s, bool names, weir_decision *ret,
                              int64_t *ret_over)
{
    static weir_resp_reply reply; /* it is large */
    int64_t v[WEIR_DECISION_FIELDS];
    uint32_t layer = s->want.layer; /* an array does not have the layer */
    if (weir_resp_reply_read(weir_buffer_data(&d->parts.out), weir_buffer_len(&d->parts.out),
                             &reply) != WEIR_RESP_READ ||
        reply.used != weir_buffer_len(&d->parts.out) ||
        !(names ? read_names(d, s, &reply, v, &layer, ret_over)
                : read_array(d, s, &reply, v, ret_over)))
        return status_of(d, s);
    *ret = weir_decision_of_fields(v, 1000000);
    ret->layer = layer;
    return WEIR_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct words {
    weir_slice word[8];
    size_t n;
} words;

static void add_word(words *w, const char *word, size_t len)
{
    w->word[w->n++] = (weir_slice){word, len};
}

static void add_option(words *w, const char *name, const char *value)
{
    if (!value[0])
        return;
    add_word(w, name, strlen(name));
    add_word(w, value, strlen(value));
}

static void add_request(daemon_ctx *d, const step *s, bool names)
{
    static const char *const commands[] = {
        [TAKE] = "WEIR.CHECK",      [REFUND] = "WEIR.REFUND", [CHARGE] = "WEIR.CHARGE",
        [RESERVE] = "WEIR.RESERVE", [RENEW] = "WEIR.RENEW",   [COMMIT] = "WEIR.COMMIT",
        [CANCEL] = "WEIR.CANCEL"};
    char cost[24], ttl[24] = "";
    words w = {.n = 0};
    snprintf(cost, sizeof cost, "%" PRId64, s->cost);
    if (s->ttl_ns > 0)
        snprintf(ttl, sizeof ttl, "%" PRId64 "ns", s->ttl_ns);
    add_word(&w, commands[s->op], strlen(commands[s->op]));
    if (s->op >= RENEW) {
        add_word(&w, d->id[s->id], WEIR_HEX64_LEN);
    } else {
        add_word(&w, d->policy, strlen(d->policy));
        add_word(&w, "key", 3);
    }
    if (s->op == TAKE || s->op == CHARGE)
        add_option(&w, "COST", cost);
    else if (s->op != RENEW && s->op != CANCEL)
        add_word(&w, cost, strlen(cost));
    add_option(&w, "KEEP", s->keep);
    add_option(&w, "TTL", ttl);
    if (names)
        add_word(&w, "WITHNAMES", 9);
    weir_resp_put_array(&d->parts.in, w.n);
    for (size_t i = 0; i < w.n; i++)
        weir_resp_put_bulk(&d->parts.in, w.word[i].at, w.word[i].len);
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    daemon_ctx *d = ctx;
    bool names = d->steps & 1;
    d->session.proto = d->steps & 2 ? 3 : 2;
    d->steps++;
    add_request(d, s, names);
    weir_resp_session_run(&d->session, &d->parts.in, &d->parts.out, 1 << 15, s->t_ns);
    weir_status st = read_reply(d, s, names, ret, ret_over);
    weir_buffer_clear(&d->parts.out);
    return st;
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    daemon_ctx ctx = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {.name = "daemon",
                 .reserves = true,
                 .begin = begin,
                 .decide = decide,
                 .round = round_up,
                 .end = end,
                 .ctx = &ctx};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
