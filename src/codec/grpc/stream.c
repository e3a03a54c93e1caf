/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The life of a stream: from the first header of its request, in the queue of calls, to its end. It
 * must not know what a request means. */

#include "codec/grpc/connection.h"

#include "port/assert.h"

weir_grpc_stream *weir_grpc_stream_of(weir_grpc_connection *c, int32_t id)
{
    if (!c->current || c->current->id != id)
        c->current = nghttp2_session_get_stream_user_data(c->h2, id);
    return c->current;
}

static void add_stream(weir_grpc_connection *c, weir_grpc_stream *s)
{
    s->next = c->streams;
    s->link = &c->streams;
    if (s->next)
        s->next->link = &s->next;
    c->streams = s;
    c->current = s;
    s->counted = true;
    c->incomplete_len++;
}

void weir_grpc_uncount(weir_grpc_connection *c, weir_grpc_stream *s)
{
    WEIR_ASSERT(c->incomplete_len >= s->counted);
    c->incomplete_len -= s->counted;
    s->counted = false;
}

void weir_grpc_enqueue(weir_grpc_connection *c, weir_grpc_stream *s)
{
    WEIR_ASSERT(!s->ready_link && !*c->ready_end);
    s->ready_next = NULL;
    s->ready_link = c->ready_end;
    *c->ready_end = s;
    c->ready_end = &s->ready_next;
}

void weir_grpc_unqueue(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (!s->ready_link)
        return;
    *s->ready_link = s->ready_next;
    if (s->ready_next)
        s->ready_next->ready_link = s->ready_link;
    else
        c->ready_end = s->ready_link;
    s->ready_link = NULL;
}

void weir_grpc_drop_message(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (s->owned) {
        WEIR_ASSERT(c->body_bytes >= s->message_len);
        c->body_bytes -= s->message_len;
        weir_grpc_free(&c->heap, s->owned);
        s->owned = NULL;
    } else if (s->message) {
        WEIR_ASSERT(c->borrowed_len > 0);
        c->borrowed_len--;
    }
    s->message = NULL;
    s->message_len = s->received = 0;
    s->complete = false;
}

void weir_grpc_free_stream(weir_grpc_connection *c, weir_grpc_stream *s)
{
    WEIR_ASSERT(*s->link == s);
    weir_grpc_unqueue(c, s);
    weir_grpc_drop_message(c, s);
    weir_grpc_drop_reply(c, s);
    if (s->counted)
        c->incomplete_len--;
    if (s->health)
        c->watches_len--;
    if (c->current == s)
        c->current = NULL;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    weir_grpc_free(&c->heap, s);
}

int weir_grpc_on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data)
{
    weir_grpc_connection *c = user_data;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    weir_grpc_stream *s = weir_grpc_alloc(&c->heap, sizeof *s);
    if (!s) {
        c->failed = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    *s = (weir_grpc_stream){.id = frame->hd.stream_id, .begun_ns = c->now_ns};
    add_stream(c, s);
    nghttp2_session_set_stream_user_data(h2, s->id, s);
    return 0;
}

int weir_grpc_on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user_data)
{
    weir_grpc_connection *c = user_data;
    weir_grpc_stream *s = nghttp2_session_get_stream_user_data(h2, id);
    (void)code;
    if (s && c->pending && s->ready_link)
        s->closed = true; /* the same calls must be repeated: freed then */
    else if (s)
        weir_grpc_free_stream(c, s);
    return 0;
}
