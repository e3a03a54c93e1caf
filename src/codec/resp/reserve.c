/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs WEIR.RESERVE, which charges a cost provisionally, WEIR.RENEW, which extends the reservation,
 * and WEIR.COMMIT and WEIR.CANCEL, which end it. Their replies begin as the reply of WEIR.TAKE
 * does. */

#include "codec/answer/reservation.h"
#include "codec/resp/call.h"
#include "codec/resp/session.h"
#include "core/decision.h"

static void put_id(weir_call *c, uint64_t id)
{
    char text[WEIR_HEX64_LEN];
    weir_hex64_print(id, text);
    c->backend->bulk(c, text, sizeof text);
}

/* Reads `TTL time` at the end of the arguments, from `at` on; 0 without it. Returns false after an
 * error reply. */
static bool read_ttl(weir_call *call, size_t at, const char *syntax, int64_t *ret)
{
    *ret = 0;
    if (call->args == at)
        return true;
    if (call->args != at + 2 || !weir_resp_word_is(call->arg[at], "TTL")) {
        weir_call_error(call, "ERR syntax error, expected %s after the command", syntax);
        return false;
    }
    const weir_slice text = call->arg[at + 1];
    bool good = weir_ttl_read(text.at, text.len, ret);
    if (!good)
        weir_call_error(call, "ERR the TTL: expected " WEIR_TTL_EXPECTED ", found '%.*s'",
                        weir_call_quoted_len(text), text.at);
    return good;
}

/* Replies that the policy does not accept a TTL. */
static void refuse_ttl(weir_call *call, int64_t ttl_ns)
{
    char text[WEIR_TTL_REFUSAL_MAX];
    weir_ttl_refusal(text, "the TTL", ttl_ns);
    weir_call_error(call, "ERR %s", text);
}

void weir_resp_reserve(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_request r = weir_call_request(call, 1);
    int64_t ttl_ns;
    uint64_t id = WEIR_ID_NONE;
    const char *error = weir_call_read_cost(call, 3, &r.cost);
    if (error) {
        weir_call_error(call, "ERR %s", error);
        return;
    }
    if (!read_ttl(call, 4, "policy key n [TTL time] [WITHNAMES]", &ttl_ns) ||
        !weir_resp_may_use(c, weir_resp_policy_of(&r), r.key, ""))
        return;
    weir_service_reserve(c->session->options->service, &r, ttl_ns, c->now_ns, &id);
    if (r.status == WEIR_E_FULL) {
        weir_call_error(call, "OOM " WEIR_RESERVE_FULL);
        return;
    }
    if (r.status == WEIR_E_RANGE && r.why) {
        refuse_ttl(call, ttl_ns);
        return;
    }
    if (r.status != WEIR_OK) {
        weir_call_request_error(call, &r, "");
        return;
    }
    weir_service_next(c->session->options->service, &r, 1, c->now_ns);
    weir_call_put_fields(call, &r.decision, r.next_ns, 3, 1);
    weir_call_put_name(call, "id");
    if (r.decision.allowed)
        put_id(call, id);
    else
        weir_resp_put_null(c->out, c->session->proto);
    weir_call_put_policy(call, &r);
    weir_call_put_layer(call, &r.decision);
}

/* Reads the id of a reservation. Returns false after an error reply. */
static bool read_id(weir_call *call, uint64_t *ret)
{
    const weir_slice text = call->arg[1];
    bool good = weir_hex64_read(text.at, text.len, ret);
    if (!good)
        weir_call_error(call, "ERR the id: expected " WEIR_ID_EXPECTED);
    return good;
}

/* Replies with an error unless the status is WEIR_OK. Returns whether it is. */
static bool succeeded(weir_call *call, weir_status st)
{
    if (st == WEIR_E_ABSENT)
        weir_call_error(call, "ERR " WEIR_NO_RESERVATION, WEIR_HEX64_LEN, call->arg[1].at);
    else if (st != WEIR_OK)
        weir_call_status_error(call, st, 1, "");
    return st == WEIR_OK;
}

void weir_resp_renew(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    uint64_t id;
    int64_t ttl_ns;
    weir_decision d;
    int64_t next_ns = WEIR_NEXT_UNKNOWN;
    if (!read_id(call, &id) || !read_ttl(call, 2, "id [TTL time] [WITHNAMES]", &ttl_ns))
        return;
    weir_status st = weir_service_renew(c->session->options->service, id, ttl_ns, c->now_ns, &d,
                                        call->with_names ? &next_ns : NULL);
    if (st == WEIR_E_RANGE) {
        refuse_ttl(call, ttl_ns);
    } else if (succeeded(call, st)) {
        weir_call_put_fields(call, &d, next_ns, 1, 0);
        weir_call_put_layer(call, &d);
    }
}

static void end_reservation(weir_call *call, int64_t actual)
{
    weir_resp_call *c = weir_resp_call_of(call);
    uint64_t id;
    weir_decision d;
    int64_t over, next_ns = WEIR_NEXT_UNKNOWN;
    if (!read_id(call, &id) ||
        !succeeded(call, weir_service_commit(c->session->options->service, id, actual, c->now_ns,
                                             &d, &over, call->with_names ? &next_ns : NULL)))
        return;
    weir_call_put_fields(call, &d, next_ns, 2, 1);
    weir_call_put_name(call, "over");
    call->backend->integer(call, over);
    weir_call_put_layer(call, &d);
}

void weir_resp_commit(weir_call *call)
{
    int64_t actual;
    const char *error = weir_call_read_cost(call, 2, &actual);
    if (error)
        weir_call_error(call, "ERR %s", error);
    else
        end_reservation(call, actual);
}

void weir_resp_cancel(weir_call *call)
{
    end_reservation(call, 0);
}
