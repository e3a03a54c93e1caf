/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs a session: reads input up to the next boundary of a request, answers, sends. receive.c
 * stores the requests. This file must not know any endpoint. */

#include "codec/http/session.h"

#include "codec/answer/password.h"
#include "codec/http/call.h"
#include "codec/http/live.h"
#include "port/assert.h"

#include <stdio.h>

enum { KEPT_MAX = 1 << 20 };

#define IDLE_NS INT64_C(1000000000) /* until a stopping server closes a connection */

/* ---- the response ---------------------------------------------------------------------------- */

/* The Date of a response, formatted at most once a second. */
static const char *date_of(weir_http_session *s, int64_t now_ns)
{
    int64_t now_s = now_ns / 1000000000;
    if ((s->date[0] == '\0' || now_s != s->date_s) && weir_http_date(now_s, s->date))
        s->date_s = now_s;
    return s->date;
}

/* Delays the response to a wrong password and, after WEIR_PASSWORD_TRIES of them, closes. This
 * slows down password guessing. */
static void delay_wrong_password(weir_http_session *s, weir_http_response *a)
{
    const weir_http_options *o = s->receiver.options;
    bool hold = weir_access_wrong_password(o->access, s->completion.ctx);
    if (hold)
        a->delay_ns = WEIR_PASSWORD_DELAY_NS;
    if (++s->wrong >= WEIR_PASSWORD_TRIES || !hold)
        s->closing = true;
}

/* Sends or delays a response whose body is in `rest`. */
static void send_response(weir_http_session *s, weir_http_response *a, weir_buffer *out,
                          int64_t now_ns)
{
    WEIR_ASSERT(a->status >= 200 && a->status <= 599);
    if (a->wrong_password)
        delay_wrong_password(s, a);
    if (s->rest.failed)
        weir_http_problem(a, 500, "the response exceeds %zu bytes", WEIR_HTTP_REPLY_MAX);
    const char *connection = s->closing ? "close" : s->receiver.http11 ? NULL : "keep-alive";
    bool bodiless = s->receiver.target_done && s->receiver.parser.method == HTTP_HEAD;
    s->rest_big = weir_buffer_len(&s->rest) > WEIR_HTTP_TEXT_KEPT;
    if (a->delay_ns <= 0) {
        weir_http_put_head(out, a, connection, date_of(s, now_ns));
        if (bodiless)
            weir_buffer_clear(&s->rest);
        return;
    }
    weir_buffer whole;
    weir_buffer_init(&whole, WEIR_HTTP_REPLY_MAX + WEIR_HTTP_HEAD_ROOM);
    weir_http_put_head(&whole, a, connection, date_of(s, now_ns));
    if (!bodiless)
        weir_buffer_append(&whole, weir_buffer_data(&s->rest), weir_buffer_len(&s->rest));
    weir_buffer_free(&s->rest);
    s->rest = whole;
    s->rest_big = true;
    s->held = true;
    s->until_ns = a->delay_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + a->delay_ns;
}

/* Makes *ret the request that was received. */
static void read_request(weir_http_session *s, weir_http_request *ret)
{
    weir_http_received(&s->receiver, ret);
    ret->kept = &s->kept;
    ret->repeated = s->pending;
    ret->full = s->full;
    ret->peer = s->completion.ctx;
}

/* Abandons a pending request. */
static void abandon(weir_http_session *s)
{
    if (s->wait.cancel)
        s->wait.cancel(&s->wait);
    else
        weir_completion_cancel(&s->completion);
    s->wait.cancel = NULL;
}

/* Forgets the request, before the next one. */
static void begin_request(weir_http_session *s)
{
    weir_http_begin_request(&s->receiver);
    if (!s->pending)
        return;
    /* Its repeated call has not taken the answers if other options have refused it. */
    abandon(s);
    s->pending = false;
    weir_buffer_free(&s->kept);
}

/* Begins the span of a request that its client traces. Returns NULL for any other request. */
static weir_trace_span *begin_span(weir_http_session *s, const weir_http_request *r, int64_t now_ns,
                                   weir_trace_span *ret)
{
    weir_slice text;
    weir_trace_parent parent;
    if (!s->pending)
        s->traced_ns = now_ns;
    if (!weir_http_find_header(s->receiver.options, r,
                               (weir_slice){WEIR_HTTP_TRACE_PARENT, strlen(WEIR_HTTP_TRACE_PARENT)},
                               &text) ||
        !weir_trace_parent_read(text, &parent))
        return NULL;
    weir_trace_begin(ret, &parent, s->traced_ns);
    return ret;
}

/* Ends the span of a request that was decided. */
static void end_span(const weir_tracer *tracer, const weir_http_request *r,
                     const weir_http_route *route, const weir_http_response *a)
{
    if (!a->span || !a->span->reason)
        return;
    WEIR_ASSERT(tracer && route->endpoint); /* only they begin a span, and decide */
    a->span->method = r->method_name.at;
    a->span->name = route->endpoint->path;
    a->span->status = a->status;
    tracer->end(tracer->ctx, a->span);
}

static void answer_request(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    weir_trace_span span;
    const weir_tracer *tracer = s->receiver.options->tracer;
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    a.answer = s->answer;
    a.now_ns = now_ns;
    weir_http_request r;
    read_request(s, &r);
    if (tracer)
        a.span = begin_span(s, &r, now_ns, &span);
    weir_http_route route =
        weir_http_route_of(s->receiver.options, &r, &s->login, r.body.len > 0, &a);
    if (route.endpoint &&
        !weir_http_dispatch(s->receiver.options, route, &s->wait, &r, now_ns, &a)) {
        weir_buffer_clear(&s->rest);
        s->pending = true;
        return;
    }
    s->known |= a.right_password;
    s->closing = !s->receiver.keep_alive || a.endless || s->full || s->stopping;
    s->last_ns = now_ns;
    s->live = a.live;
    send_response(s, &a, out, now_ns);
    end_span(tracer, &r, &route, &a);
    begin_request(s);
}

static void answer_refused(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    s->closing = true;
    weir_http_problem(&a, s->receiver.refused, "%s", s->receiver.refusal);
    send_response(s, &a, out, now_ns);
}

/* Handles a complete head. A request with "Expect: 100-continue" gets 100 Continue or, if its head
 * is refused, its final response. Then the connection closes: a body may follow or not. */
static void answer_head(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    weir_http_join_lines(&s->receiver);
    s->receiver.body_begin = weir_buffer_len(&s->receiver.text);
    if (s->receiver.text.failed) {
        weir_http_refuse(&s->receiver, 503, "out of memory for the request");
        return;
    }
    if (!s->receiver.http11 || s->receiver.count[WEIR_HTTP_EXPECT] == 0)
        return;
    weir_http_request r;
    read_request(s, &r);
    if (!weir_slice_is(r.header[WEIR_HTTP_EXPECT], "100-continue")) {
        weir_http_refuse(&s->receiver, 417, "unsupported Expect header, expected 100-continue");
        return;
    }
    if (!s->receiver.has_body)
        return;
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    a.now_ns = now_ns;
    if (weir_http_route_of(s->receiver.options, &r, &s->login, true, &a).endpoint) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        weir_buffer_append(out, go_on, sizeof go_on - 1);
        return;
    }
    s->closing = true;
    send_response(s, &a, out, now_ns);
}

/* ---- the session ----------------------------------------------------------------------------- */

/* Continues after the parser has paused: at the end of the head, of the last chunk or of the
 * request. */
static void resume(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    if (s->receiver.done) {
        answer_request(s, out, now_ns);
    } else if (!s->receiver.in_trailers) {
        s->resumed = true;
        answer_head(s, out, now_ns);
    }
}

/* Reads input up to the end of a head, of the last chunk or of a request. */
static void read_on(weir_http_session *s, weir_buffer *in, weir_buffer *out, int64_t now_ns)
{
    s->resumed = false;
    if (weir_http_receive(&s->receiver, in))
        resume(s, out, now_ns);
    if (s->receiver.refused && !s->closing)
        answer_refused(s, out, now_ns);
}

/* Moves bytes from `rest` to `out`, up to out_pause. Returns true if the session can continue;
 * otherwise *ret is its next step. */
static bool drain(weir_http_session *s, weir_buffer *out, size_t out_pause, weir_session_step *ret)
{
    size_t len = weir_buffer_len(&s->rest), full = weir_buffer_len(out);
    *ret = (weir_session_step){.next = WEIR_SESSION_AGAIN};
    if (s->held && full > 0)
        return false; /* earlier responses must not be delayed */
    size_t room = out_pause > full ? out_pause - full : 0;
    size_t n = s->held || len < room ? len : room;
    weir_buffer_append(out, weir_buffer_data(&s->rest), n);
    weir_buffer_consume(&s->rest, n);
    if (n < len)
        return false;
    if (s->rest_big)
        weir_buffer_free(&s->rest);
    s->rest_big = false;
    if (s->held)
        *ret = (weir_session_step){.next = WEIR_SESSION_WAIT, .until_ns = s->until_ns};
    bool held = s->held;
    s->held = false;
    return !held && full <= out_pause;
}

void weir_http_session_init(weir_http_session *s, const weir_http_options *options)
{
    *s = (weir_http_session){.login = weir_login_begin(options->access)};
    weir_http_receiver_init(&s->receiver, options);
    weir_buffer_init(&s->rest, WEIR_HTTP_REPLY_MAX);
    weir_buffer_init(&s->kept, KEPT_MAX);
}

void weir_http_session_close(weir_http_session *s)
{
    abandon(s);
    weir_http_live_close(s->live);
    weir_buffer_free(&s->receiver.text);
    weir_buffer_free(&s->rest);
    weir_buffer_free(&s->kept);
}

weir_session_usage weir_http_session_usage(const weir_http_session *s)
{
    size_t bytes = s->live ? weir_http_live_memory(s->live) : 0;
    bytes += weir_buffer_memory(&s->receiver.text) + weir_buffer_memory(&s->rest);
    return (weir_session_usage){bytes + weir_buffer_memory(&s->kept),
                                !s->pending &&
                                    (s->receiver.phase_len > 0 || s->receiver.target_done)};
}

/* At the first call, a request may have arrived that was not read yet. */
bool weir_http_session_poll(weir_http_session *s, int64_t now_ns, bool stopping)
{
    s->idle =
        s->stopping && now_ns - s->last_ns > IDLE_NS && !weir_http_session_usage(s).mid_request;
    s->stopping |= stopping;
    return s->idle;
}

/* Puts the event of a stream that is due into `rest`. Returns false if there is none, or no memory
 * for it: *ret is then the session's next step. */
static bool stream(weir_http_session *s, weir_buffer *in, const weir_buffer *out, int64_t now_ns,
                   weir_session_step *ret)
{
    int64_t next_ns = weir_http_live_next_ns(s->live);
    weir_buffer_consume(in, weir_buffer_len(in));
    *ret = (weir_session_step){.next = WEIR_SESSION_CLOSE};
    if (!weir_http_live_may_go_on(s->live, s->completion.ctx))
        return false;
    *ret = (weir_session_step){.next = WEIR_SESSION_AGAIN};
    if (weir_buffer_len(out) > 0)
        return false;
    *ret = (weir_session_step){.next = WEIR_SESSION_WAIT, .until_ns = next_ns};
    if (next_ns > now_ns)
        return false;
    weir_http_live_put(s->live, now_ns, &s->rest);
    s->rest_big = weir_buffer_len(&s->rest) > WEIR_HTTP_TEXT_KEPT;
    *ret = (weir_session_step){.next = WEIR_SESSION_CLOSE};
    return !s->rest.failed;
}

weir_session_step weir_http_session_run(weir_http_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_session_step step;
    weir_access *access = s->receiver.options->access;
    if (s->pending && weir_completion_is_pending(&s->completion))
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    weir_access_refresh(access);
    weir_login_refresh(&s->login, access, s->completion.ctx);
    s->receiver.any_host = weir_access_is_limited(access) && !s->login.is_fixed;
    while (drain(s, out, out_pause, &step)) {
        if (s->live) {
            if (!stream(s, in, out, now_ns, &step))
                return step;
            continue;
        }
        if (s->closing) {
            weir_buffer_consume(in, weir_buffer_len(in));
            return (weir_session_step){.next = WEIR_SESSION_CLOSE};
        }
        if (weir_buffer_len(in) == 0 && !s->resumed && !s->pending)
            return (weir_session_step){.next = s->idle ? WEIR_SESSION_CLOSE : WEIR_SESSION_READ};
        if (s->pending)
            answer_request(s, out, now_ns);
        else
            read_on(s, in, out, now_ns);
        if (s->pending)
            return (weir_session_step){.next = WEIR_SESSION_PENDING};
    }
    return step;
}
