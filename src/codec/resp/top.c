/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs WEIR.TOP: the keys of a policy ranked by cost. */

#include "service/top/top.h"
#include "codec/answer/metrics.h"
#include "codec/resp/call.h"
#include "codec/resp/session.h"

static const char usage[] = "ERR syntax error, expected WEIR.TOP policy [denied|allowed] [k]";

static void put_key(weir_resp_call *c, const weir_top_key *key)
{
    weir_buffer *out = c->out;
    weir_resp_put_map(out, 5, c->session->proto);
    weir_resp_put_text(out, "key");
    weir_resp_put_bulk(out, key->text, key->text_len);
    weir_resp_put_text(out, "cost");
    weir_resp_put_i64(out, key->cost);
    weir_resp_put_text(out, "error");
    weir_resp_put_i64(out, key->error);
    weir_resp_put_text(out, "requests");
    weir_resp_put_i64(out, key->requests);
    weir_resp_put_text(out, "key_bytes");
    weir_resp_put_i64(out, (int64_t)key->len);
}

static void put_top(weir_resp_call *c, weir_top_of of, const weir_top *top)
{
    weir_buffer *out = c->out;
    weir_resp_put_map(out, 8, c->session->proto);
    weir_resp_put_text(out, "policy");
    weir_resp_put_bulk(out, c->call.arg[1].at, c->call.arg[1].len);
    weir_resp_put_text(out, "of");
    weir_resp_put_text(out, weir_top_of_name(of));
    weir_resp_put_text(out, "cost");
    weir_resp_put_i64(out, top->cost);
    weir_resp_put_text(out, "unlisted_max");
    weir_resp_put_i64(out, top->unlisted);
    weir_resp_put_text(out, "sampling");
    weir_resp_put_i64(out, top->sampling);
    weir_resp_put_text(out, "half_life_ms");
    weir_resp_put_i64(out, WEIR_TOP_HALF_NS / 1000000);
    weir_resp_put_text(out, "complete");
    weir_resp_put_bool(out, top->complete, c->session->proto);
    weir_resp_put_text(out, "keys");
    weir_resp_put_array(out, top->len);
    for (size_t i = 0; i < top->len; i++)
        put_key(c, &top->key[i]);
}

static void put_top_error(weir_call *c, weir_status st, size_t keys)
{
    const weir_request r = {.rule = c->arg[1], .status = st};
    if (st == WEIR_E_UNSUPPORTED)
        weir_call_error(c, "ERR WEIR.TOP is disabled: the configuration has top: off");
    else if (st == WEIR_E_RANGE)
        weir_call_error(c, "ERR k: expected a whole number from 1 to %zu, the value of top.keys",
                        keys);
    else if (st == WEIR_E_ABSENT)
        weir_call_request_error(c, &r, "");
    else
        weir_call_error(c, "OOM out of memory");
}

void weir_resp_top(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_limiter *limiter = weir_service_limiter(c->session->options->service);
    size_t keys = weir_limiter_top_keys(limiter), i = 2;
    weir_top_of of = WEIR_TOP_DENIED;
    if (call->args > i && weir_resp_word_is(call->arg[i], "ALLOWED"))
        of = WEIR_TOP_ALLOWED;
    if (call->args > i && (of == WEIR_TOP_ALLOWED || weir_resp_word_is(call->arg[i], "DENIED")))
        i++;
    int64_t k = keys < WEIR_TOP_K ? (int64_t)keys : WEIR_TOP_K;
    if (call->args > i + 1 ||
        (call->args > i && !weir_i64_read(call->arg[i].at, call->arg[i].len, &k))) {
        weir_call_error(&c->call, "%s", usage);
        return;
    }
    if (!weir_resp_may_see(c, call->arg[1], ""))
        return;
    weir_top top;
    weir_status st =
        weir_limiter_top(limiter, c->call.arg[1], of, k > 0 ? (size_t)k : 0, c->now_ns, &top);
    if (st != WEIR_OK) {
        put_top_error(call, st, keys);
        return;
    }
    weir_top_hide_keys(&top, weir_login_bounds(&c->session->login));
    put_top(c, of, &top);
    weir_top_free(&top);
}
