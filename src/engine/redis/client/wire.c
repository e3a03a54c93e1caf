/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A call is encoded directly into the output buffer. The integers of a reply are checked: a value
 * that weir never sends is a protocol error. */

#include "engine/redis/client/wire.h"

#include "core/algorithm.h"
#include "port/text.h"

#include <string.h>

#define US_NS 1000

enum {
    HEAD_MAX = 24,      /* type, digits, CR LF */
    NUMBER_MAX = 48,    /* a number as a bulk string */
    FIXED_MAX = 256,    /* the words that do not depend on the request */
    KEY_EXTRA_MAX = 40, /* of a Redis key, besides prefix, key and name */
    BOUNDS = 4
};

/* ---- words ----------------------------------------------------------------------------------- */

static uint8_t *put_head(uint8_t *at, char type, uint64_t v)
{
    *at++ = (uint8_t)type;
    if (v < 10) {
        *at++ = (uint8_t)('0' + v);
    } else {
        at += weir_decimal_len(v);
        (void)weir_decimal_before(at, v);
    }
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static uint8_t *put_bytes(uint8_t *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_bulk(uint8_t *at, const char *bytes, size_t len)
{
    at = put_head(at, '$', len);
    at = put_bytes(at, bytes, len);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static uint8_t *put_word(uint8_t *at, const char *word)
{
    return put_bulk(at, word, strlen(word));
}

static uint8_t *put_number(uint8_t *at, int64_t v)
{
    uint64_t digits = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned len = weir_decimal_len(digits) + (v < 0);
    at = put_head(at, '$', len);
    *at = '-'; /* the first digit of a number that is not negative replaces it */
    at += len;
    (void)weir_decimal_before(at, digits);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* ---- keys and policies ----------------------------------------------------------------------- */

static uint8_t *put_key(uint8_t *at, const weir_engine_request *q, const weir_redis_encoder *s)
{
    bool for_module = s->by == WEIR_REDIS_BY_MODULE;
    size_t size = s->prefix_len + q->key.len + q->name.len + KEY_EXTRA_MAX;
    /* The length precedes the key: write the key behind the longest head, then move it. */
    char *key = (char *)at + HEAD_MAX;
    uint64_t token = weir_redis_resets_token(s->resets, q);
    size_t len = weir_redis_key(s->prefix, q, for_module, token, key, size);
    at = put_head(at, '$', len);
    memmove(at, key, len);
    at += len;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static bool has_zone(const weir_layer *l)
{
    return l->zone && weir_layer_has_calendar(l);
}

static size_t zones_of(const weir_engine_request *q)
{
    size_t n = 0;
    for (uint32_t i = 0; i < q->policy->layers; i++)
        n += has_zone(&q->policy->layer[i]);
    return n;
}

static void find_windows(weir_redis_bounds *b, const weir_layer *l, int64_t now_ns)
{
    weir_span here = l->window(l->zone, l->calendar, l->anchor, now_ns);
    weir_span next = l->window(l->zone, l->calendar, l->anchor, here.end_ns);
    int64_t before_ns = here.start_ns;
    if (before_ns > 0)
        before_ns = l->window(l->zone, l->calendar, l->anchor, before_ns - 1).start_ns;
    *b = (weir_redis_bounds){
        l->zone,
        l->calendar,
        l->anchor,
        {before_ns / US_NS, here.start_ns / US_NS, here.end_ns / US_NS, next.end_ns / US_NS}};
}

/* Direct-mapped: a zone, a unit and an anchor have one entry, which others may replace. The months
 * of a zone have different entries. */
static const weir_redis_bounds *bounds_of(const weir_layer *l, const weir_redis_encoder *s)
{
    size_t i = (uintptr_t)l->zone / 64 + (size_t)l->calendar + (size_t)l->anchor;
    weir_redis_bounds *b = &s->bounds[i % WEIR_REDIS_ZONES];
    int64_t now_us = s->now_ns / US_NS;
    bool good = b->zone == l->zone && b->unit == l->calendar && b->anchor == l->anchor &&
                b->at_us[1] <= now_us && now_us < b->at_us[2];
    if (!good)
        find_windows(b, l, s->now_ns);
    return b;
}

static uint8_t *put_bounds(uint8_t *at, const weir_engine_request *q, const weir_redis_encoder *s)
{
    for (uint32_t i = 0; i < q->policy->layers; i++) {
        if (!has_zone(&q->policy->layer[i]))
            continue;
        const weir_redis_bounds *b = bounds_of(&q->policy->layer[i], s);
        for (int j = 0; j < BOUNDS; j++)
            at = put_number(at, b->at_us[j]);
    }
    return at;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const char *verb_word(weir_verb v)
{
    switch (v) {
    case WEIR_VERB_PEEK:
        return "PEEK";
    case WEIR_VERB_REFUND:
        return "REFUND";
    case WEIR_VERB_CHARGE:
        return "CHARGE";
    case WEIR_VERB_RESET:
        return "RESET";
    case WEIR_VERB_GRANT:
        return "GRANT";
    case WEIR_VERB_TAKE:
    case WEIR_VERB_THROTTLE:
    case WEIR_VERB_RESET_ALL:
        break;
    }
    return "TAKE";
}

static int64_t units_of(const weir_engine_request *q)
{
    return q->verb == WEIR_VERB_RESET ? 0 : q->cost;
}

/* Writes the cost of a request, with what it keeps: "3", "3+20" or "3+20%". */
static uint8_t *put_cost(uint8_t *at, const weir_engine_request *q)
{
    char text[2 * WEIR_I64_MAX_LEN + 2];
    if (q->keep == 0)
        return put_number(at, units_of(q));
    size_t len = weir_i64_print(text, units_of(q));
    text[len++] = '+';
    len += weir_i64_print(text + len, q->keep < 0 ? -q->keep : q->keep);
    if (q->keep < 0)
        text[len++] = '%';
    return put_bulk(at, text, len);
}

size_t weir_redis_wire_size(const weir_redis_call *c, size_t prefix_len)
{
    size_t size = FIXED_MAX;
    for (size_t i = 0; i < c->len; i++) {
        const weir_engine_request *q = &c->request[i];
        size += prefix_len + q->key.len + q->name.len + KEY_EXTRA_MAX + q->text.len + 3 * HEAD_MAX +
                4 * NUMBER_MAX;
        if (q->verb != WEIR_VERB_THROTTLE)
            size += zones_of(q) * BOUNDS * NUMBER_MAX;
    }
    return size;
}

bool weir_redis_wire_can(const weir_redis_call *c, weir_redis_by by, const char **ret_why)
{
    if (c->request->verb != WEIR_VERB_THROTTLE || by == WEIR_REDIS_BY_MODULE)
        return true;
    *ret_why = "CL.THROTTLE needs the weir module, which the server has not loaded";
    return false;
}

static uint8_t *put_throttle(uint8_t *at, const weir_engine_request *q, const weir_redis_encoder *s)
{
    at = put_bytes(at, "*6\r\n$11\r\nCL.THROTTLE\r\n", 22);
    at = put_key(at, q, s);
    at = put_number(at, q->throttle.max_burst);
    at = put_number(at, q->throttle.count);
    at = put_number(at, q->throttle.period_s);
    return put_number(at, q->throttle.quantity);
}

bool weir_redis_wire_wants_figures(const weir_redis_call *c)
{
    bool decides =
        c->request->verb != WEIR_VERB_THROTTLE && c->request->verb != WEIR_VERB_RESET_ALL;
    for (size_t i = 0; i < c->len && decides; i++) {
        if (c->request[i].with_figures)
            return true;
    }
    return false;
}

/* The last word of a call. */
static uint8_t *put_figures_word(uint8_t *at, const weir_redis_call *c)
{
    return c->figures ? put_word(at, "FIGURES") : at;
}

static uint8_t *put_to_module(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s)
{
    if (!c->all) {
        const weir_engine_request *q = c->request;
        at = put_head(at, '*', 5u + c->figures);
        at = put_bytes(at, "$8\r\nWEIR.ASK\r\n", 14);
        at = put_word(at, verb_word(q->verb));
        at = put_bulk(at, q->text.at, q->text.len);
        at = put_key(at, q, s);
        return put_figures_word(put_cost(at, q), c);
    }
    at = put_head(at, '*', 2u + 3 * c->len + c->figures);
    at = put_word(at, "WEIR.ASKALL");
    at = put_number(at, (int64_t)c->len);
    for (size_t i = 0; i < c->len; i++) {
        const weir_engine_request *q = &c->request[i];
        at = put_bulk(at, q->text.at, q->text.len);
        at = put_key(at, q, s);
        at = put_cost(at, q);
    }
    return put_figures_word(at, c);
}

/* "FCALL function keys", or "EVALSHA sha keys ... function". */
static uint8_t *put_to_library(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s)
{
    bool is_script = s->by == WEIR_REDIS_BY_SCRIPT;
    const char *function = c->all ? "weir_ask_all" : "weir_ask";
    size_t words = 3u + is_script + 2u * s->sends_time + c->figures;
    for (size_t i = 0; i < c->len; i++)
        words += (c->all ? 3 : 4) + BOUNDS * zones_of(&c->request[i]);
    at = put_head(at, '*', words);
    at = put_word(at, is_script ? "EVALSHA" : "FCALL");
    at = is_script ? put_bulk(at, s->sha, WEIR_REDIS_SHA_LEN) : put_word(at, function);
    at = put_number(at, (int64_t)c->len);
    for (size_t i = 0; i < c->len; i++)
        at = put_key(at, &c->request[i], s);
    if (is_script)
        at = put_word(at, function);
    if (s->sends_time)
        at = put_number(put_word(at, "AT"), s->now_ns / US_NS);
    for (size_t i = 0; i < c->len; i++) {
        const weir_engine_request *q = &c->request[i];
        if (!c->all)
            at = put_word(at, verb_word(q->verb));
        at = put_bulk(at, q->text.at, q->text.len);
        at = put_cost(at, q);
        at = put_bounds(at, q, s);
    }
    return put_figures_word(at, c);
}

/* HSET PREFIX#resets policy token. The policy is a name, or a text, which has a space. */
static uint8_t *put_reset_all(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s)
{
    const weir_engine_request *q = c->request;
    weir_slice policy = q->name.len > 0 ? q->name : q->text;
    char token[16];
    weir_hex64_print(c->token, token);
    at = put_bytes(at, "*4\r\n$4\r\nHSET\r\n", 14);
    at = put_key(at, q, s);
    at = put_bulk(at, policy.at, policy.len);
    return put_bulk(at, token, sizeof token);
}

uint8_t *weir_redis_wire_put(uint8_t *at, const weir_redis_call *c, const weir_redis_encoder *s)
{
    if (c->request->verb == WEIR_VERB_RESET_ALL)
        return put_reset_all(at, c, s);
    if (c->request->verb == WEIR_VERB_THROTTLE)
        return put_throttle(at, c->request, s);
    return s->by == WEIR_REDIS_BY_MODULE ? put_to_module(at, c, s) : put_to_library(at, c, s);
}

/* ---- replies --------------------------------------------------------------------------------- */

enum { LAYER = WEIR_DECISION_FIELDS, GRANTED, NEXT, COUNT, PREVIOUS, START, THROTTLE_FIELDS = 5 };
_Static_assert(START + 1 == WEIR_REDIS_FIELDS + WEIR_REDIS_FIGURES, "each figure is an integer");

/* How many integers the reply has for each request. */
static size_t fields_of_one(const weir_redis_call *c)
{
    return WEIR_REDIS_FIELDS + (c->figures ? WEIR_REDIS_FIGURES : 0);
}

size_t weir_redis_wire_fields(const weir_redis_call *c)
{
    if (c->all)
        return 1 + fields_of_one(c) * c->len;
    if (c->request->verb == WEIR_VERB_RESET_ALL)
        return 0;
    return c->request->verb == WEIR_VERB_THROTTLE ? THROTTLE_FIELDS : fields_of_one(c);
}

static bool is_bit(int64_t v)
{
    return v == 0 || v == 1;
}

/* The wait for the next unit, in microseconds, -1: never; the counts of a peek and the start of the
 * window, in microseconds, -1: none. */
static bool read_figures(weir_engine_request *q, const int64_t *f)
{
    const int64_t us_max = INT64_MAX / US_NS;
    if (f[NEXT] < -1 || f[NEXT] > us_max || f[COUNT] < -1 || f[PREVIOUS] < -1 || f[START] < -1 ||
        f[START] > us_max)
        return false;
    q->next_ns = f[NEXT] < 0 ? INT64_MAX : f[NEXT] * US_NS;
    q->figures =
        (weir_figures){f[COUNT], f[PREVIOUS], f[START] < 0 ? WEIR_NO_FIGURE : f[START] * US_NS};
    return true;
}

/* The fields of a decision in microseconds, layer, granted. */
static bool answer_one(const weir_redis_call *c, weir_engine_request *q, const int64_t *f)
{
    int64_t layer = f[LAYER], granted = f[GRANTED];
    bool good = weir_decision_fields_are_good(f, INT64_MAX / US_NS) &&
                f[WEIR_FIELD_LIMIT] <= WEIR_LIMIT_MAX && layer >= 0 && layer < q->policy->layers &&
                granted >= 0 && granted <= units_of(q);
    if (!good || (c->figures && !read_figures(q, f)))
        return false;
    q->decision = weir_decision_of_fields(f, US_NS);
    q->decision.layer = (uint32_t)layer;
    q->granted = granted;
    q->status = WEIR_OK;
    return true;
}

/* limited, limit, remaining, retry_after_s, reset_after_s. */
static bool answer_throttle(weir_engine_request *q, const int64_t *f)
{
    bool good = is_bit(f[0]) && f[2] >= 0 && f[2] <= f[1] && f[3] >= -1 &&
                !(f[0] == 0 && f[3] != -1) && f[4] >= 0;
    if (!good)
        return false;
    q->answer = (weir_throttle_answer){f[0] == 1, f[1], f[2], f[3], f[4]};
    q->throttle_status = WEIR_THROTTLE_OK;
    q->status = WEIR_OK;
    return true;
}

bool weir_redis_wire_answer(weir_redis_call *c, const int64_t *f)
{
    for (size_t i = 0; i < c->len; i++) {
        c->request[i].by_error = false;
        c->request[i].reason = NULL;
    }
    if (!c->all && c->request->verb == WEIR_VERB_THROTTLE)
        return answer_throttle(c->request, f);
    if (c->request->verb == WEIR_VERB_RESET_ALL) {
        c->request->decision = (weir_decision){.allowed = true};
        c->request->status = WEIR_OK;
        return is_bit(f[0]); /* whether the policy is reset for the first time */
    }
    if (!c->all)
        return answer_one(c, c->request, f);
    if (f[0] < 0 || f[0] > (int64_t)c->len)
        return false;
    c->blocking = (size_t)f[0];
    for (size_t i = 0; i < c->len; i++) {
        if (!answer_one(c, &c->request[i], f + 1 + fields_of_one(c) * i))
            return false;
    }
    return true;
}
