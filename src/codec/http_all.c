/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several asks from a list in a body, and reservations by their ids. */

#include "codec/http_all.h"

#include "codec/id.h"
#include "codec/json.h"
#include "codec/round.h"
#include "codec/span.h"

#include <stdio.h>

/* ---- /v1/takeall ----------------------------------------------------------------------------- */

enum { WHERE_MAX = 24 }; /* bytes of "requests[15]: " */

static void where_of(char buf[WHERE_MAX], size_t i, const char *behind)
{
    snprintf(buf, WHERE_MAX, "requests[%zu]%s", i, behind);
}

/* The texts of *ret lie in `object`. */
static bool read_one(json_t *object, size_t i, weir_request *ret, weir_http_answer *a)
{
    char where[WHERE_MAX];
    weir_http_params p;
    where_of(where, i, "");
    if (!weir_http_params_read_object(&p, object, where, a))
        return false;
    where_of(where, i, ": ");
    if (p.given & WEIR_HTTP_BIT(WEIR_HTTP_P_KEY))
        return weir_http_params_ask(&p, p.text[WEIR_HTTP_P_KEY], where, WEIR_HTTP_EITHER, ret, a);
    weir_http_problem(a, 400, "%sthe parameter \"key\" is missing", where);
    return false;
}

/* How many asks there are; 0, and the answer, if they are wrong. */
static size_t read_all(const weir_http_params *p, weir_request *asks, weir_http_answer *a)
{
    size_t n = json_array_size(p->requests);
    if (!p->requests) {
        weir_http_problem(a, 400, "\"requests\" is missing, expected a JSON body as %s",
                          WEIR_HTTP_REQUESTS_EXPECTED);
        return 0;
    }
    if (n < 1 || n > WEIR_ALL_MAX) {
        weir_http_problem(a, 400, "\"requests\" has %zu of them, expected 1 to %d", n,
                          WEIR_ALL_MAX);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (!read_one(json_array_get(p->requests, i), i, &asks[i], a))
            return 0;
    }
    return n;
}

static void put_first_failure(const weir_request *asks, size_t n, weir_http_answer *a)
{
    char where[WHERE_MAX];
    size_t i = 0;
    while (i + 1 < n && asks[i].status == WEIR_OK)
        i++;
    where_of(where, i, ": ");
    (void)weir_http_was_done(a, &asks[i], where);
}

bool weir_http_take_all(const weir_http_options *o, weir_completion *completion,
                        const weir_http_params *p, int64_t now_ns, weir_http_answer *a)
{
    weir_request asks[WEIR_ALL_MAX];
    weir_all_result all;
    size_t n = read_all(p, asks, a);
    if (n == 0)
        return true;
    if (!weir_service_take_all(o->service, completion, asks, n, now_ns, &all))
        return false;
    if (all.status != WEIR_OK) {
        put_first_failure(asks, n, a);
        return true;
    }
    weir_request *ask = &asks[all.index];
    const weir_http_more more = {.of_all = true, .index = all.index};
    ask->decision.allowed = all.allowed;
    ask->decision.delay_ns = all.delay_ns;
    weir_http_decision(a, ask, (int)p->number[WEIR_HTTP_P_DENIED], &more);
    if (all.allowed && !(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_DELAY)))
        a->delay_ns = all.delay_ns;
    return true;
}

/* ---- reservations ---------------------------------------------------------------------------- */

void weir_http_reserve(const weir_http_options *o, const weir_http_params *p, weir_request *ask,
                       int64_t now_ns, weir_http_answer *a)
{
    uint64_t id = WEIR_ID_NONE;
    char text[WEIR_HEX64_LEN];
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_TTL))) {
        weir_http_problem(a, 400, "the parameter \"ttl\" is missing, expected " WEIR_SPAN_EXPECTED);
        return;
    }
    weir_service_reserve(o->service, ask, p->number[WEIR_HTTP_P_TTL], now_ns, &id);
    if (ask->status == WEIR_E_FULL) {
        weir_http_problem(a, 503, WEIR_RESERVE_FULL);
        return;
    }
    if (!weir_http_was_done(a, ask, ""))
        return;
    weir_hex64_print(id, text);
    const weir_http_more more = {.id = ask->decision.allowed ? text : NULL};
    weir_http_decision(a, ask, (int)p->number[WEIR_HTTP_P_DENIED], &more);
}

static void put_settled(weir_http_answer *a, const weir_decision *d, int64_t over)
{
    a->status = 200;
    a->type = "application/json";
    weir_http_add_field(a, "Cache-Control: no-store\r\n");
    weir_buffer_put(a->body, "{\"settled\":true,\"over\":", over);
    weir_buffer_put(a->body, ",\"limit\":", d->limit);
    weir_buffer_put(a->body, ",\"remaining\":", d->remaining);
    weir_buffer_put(a->body, ",\"reset_after_ms\":", weir_ms_ceil(d->reset_after_ns));
    weir_buffer_put(a->body, ",\"layer\":", d->layer);
    weir_buffer_append(a->body, "}\n", 2);
}

void weir_http_commit(const weir_http_options *o, const weir_http_params *p, bool has_actual,
                      int64_t now_ns, weir_http_answer *a)
{
    weir_slice text = p->text[WEIR_HTTP_P_ID];
    uint64_t id;
    weir_decision d;
    int64_t over;
    if (!text.at || (has_actual && !(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_ACTUAL)))) {
        weir_http_problem(a, 400, "the parameter \"%s\" is missing", text.at ? "actual" : "id");
        return;
    }
    if (!weir_hex64_read(text.at, text.len, &id)) {
        weir_http_problem(a, 400, "\"id\" is not " WEIR_ID_EXPECTED);
        return;
    }
    int64_t actual = has_actual ? p->number[WEIR_HTTP_P_ACTUAL] : 0;
    weir_status st = weir_service_commit(o->service, id, actual, now_ns, &d, &over);
    if (st == WEIR_OK)
        put_settled(a, &d, over);
    else if (st == WEIR_E_ABSENT)
        weir_http_problem(a, 404, "there is no reservation %.*s: it was settled, or has run out",
                          WEIR_HEX64_LEN, text.at);
    else
        weir_http_problem(a, st == WEIR_E_NOMEM ? 503 : 500, "%s", weir_status_str(st));
}
