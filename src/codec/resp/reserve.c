/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs WEIR.RESERVE, which charges a cost provisionally, and WEIR.COMMIT and WEIR.CANCEL, which end
 * the reservation. Their replies begin as the reply of WEIR.TAKE does. */

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

void weir_resp_reserve(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_request r = weir_call_request(call, 1);
    int64_t ttl_ns;
    uint64_t id = WEIR_ID_NONE;
    const char *error = weir_call_read_cost(call, 3, &r.cost);
    if (!error && !weir_resp_word_is(call->arg[4], "TTL"))
        error = "syntax error, expected policy key n TTL time [WITHNAMES] after the command";
    else if (!error && !weir_ttl_read(call->arg[5].at, call->arg[5].len, &ttl_ns))
        error = "the TTL: expected " WEIR_TTL_EXPECTED;
    if (error) {
        weir_call_error(call, "ERR %s", error);
        return;
    }
    weir_service_reserve(c->session->options->service, &r, ttl_ns, c->now_ns, &id);
    if (r.status == WEIR_E_FULL) {
        weir_call_error(call, "OOM " WEIR_RESERVE_FULL);
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

static void end_reservation(weir_call *call, int64_t actual)
{
    weir_resp_call *c = weir_resp_call_of(call);
    const weir_slice text = call->arg[1];
    uint64_t id;
    weir_decision d;
    int64_t over;
    if (!weir_hex64_read(text.at, text.len, &id)) {
        weir_call_error(call, "ERR the id: expected " WEIR_ID_EXPECTED);
        return;
    }
    weir_status st =
        weir_service_commit(c->session->options->service, id, actual, c->now_ns, &d, &over);
    if (st == WEIR_E_ABSENT) {
        weir_call_error(call, "ERR " WEIR_NO_RESERVATION, WEIR_HEX64_LEN, text.at);
        return;
    }
    if (st != WEIR_OK) {
        weir_call_status_error(call, st, 1, "");
        return;
    }
    weir_call_put_fields(call, &d, WEIR_NEXT_UNKNOWN, 2, 1);
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
