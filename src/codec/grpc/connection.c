/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Accounting for a connection, against floods. A frame costs a credit, and an answered call earns
 * several: this limits resets of streams, PING, SETTINGS, PRIORITY, WINDOW_UPDATE and almost empty
 * frames, all by the same rule. A client that cancels calls may cancel all of them. Frames of
 * unknown types are skipped at the cost of their bytes. */

#include "codec/grpc/connection.h"

#include "port/assert.h"

enum { DATA_FREE = 256 }; /* bytes of a DATA frame that costs no credit */

void weir_grpc_calm(weir_grpc_connection *c)
{
    if (!c->flooded && nghttp2_session_terminate_session(c->h2, NGHTTP2_ENHANCE_YOUR_CALM) != 0)
        c->failed = true;
    c->flooded = true;
}

void weir_grpc_charge(weir_grpc_connection *c, int64_t credits)
{
    c->credits -= credits;
    if (c->credits < 0)
        weir_grpc_calm(c);
}

void weir_grpc_earn(weir_grpc_connection *c, int64_t credits)
{
    WEIR_ASSERT(credits >= 0 && c->credits <= WEIR_GRPC_CREDITS_MAX);
    c->credits =
        c->credits > WEIR_GRPC_CREDITS_MAX - credits ? WEIR_GRPC_CREDITS_MAX : c->credits + credits;
}

void weir_grpc_earn_by_time(weir_grpc_connection *c)
{
    int64_t passed_ns = c->now_ns - c->credits_ns,
            interval_ns = 1000000000 / WEIR_GRPC_CREDITS_A_SECOND;
    if (c->credits_ns == 0 || passed_ns < 0 || passed_ns / interval_ns > WEIR_GRPC_CREDITS_MAX) {
        c->credits_ns = c->now_ns;
        weir_grpc_earn(c, passed_ns < 0 ? 0 : WEIR_GRPC_CREDITS_MAX);
    } else {
        weir_grpc_earn(c, passed_ns / interval_ns);
        c->credits_ns += passed_ns / interval_ns * interval_ns;
    }
}

int weir_grpc_on_begin_frame(nghttp2_session *h2, const nghttp2_frame_hd *head, void *user_data)
{
    weir_grpc_connection *c = user_data;
    (void)h2;
    if (head->type == NGHTTP2_DATA && head->length >= DATA_FREE)
        return 0;
    weir_grpc_charge(c, 1);
    return 0;
}
