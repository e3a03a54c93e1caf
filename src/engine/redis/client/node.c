/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Replies come in the order of the requests, so each belongs to the oldest entry of the pipeline.
 * The connection is closed if the server violates the protocol or is silent for too long. A call
 * whose connection broke may have been charged, so it is never sent again. */

#include "engine/redis/client/node.h"

#include "codec/resp/resp.h"
#include "engine/redis/client/resets.h"
#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define REPLY_NS          (3000 * WEIR_REDIS_MS) /* the longest wait for the oldest reply */
#define SENTINEL_NS       (1000 * WEIR_REDIS_MS) /* the same for a Sentinel: there are others */
#define STEADY_NS         (2000 * WEIR_REDIS_MS) /* after being up for so long, failures is 0 */
#define BACKOFF_NS        (10 * WEIR_REDIS_MS)   /* the first pause */
#define BACKOFF_DOUBLINGS 7
#define BACKOFF_MAX       (1000 * WEIR_REDIS_MS)
#define RETIRE_NS         (1000 * WEIR_REDIS_MS) /* the least time between two retirements */
#define DRAIN_NS          (50 * WEIR_REDIS_MS)   /* the longest wait for the replies to its calls */
#define DOUBT_NS          (10000 * WEIR_REDIS_MS) /* a node without refusals for so long is up */
#define LOG_NS            (5000 * WEIR_REDIS_MS)  /* at most two reasons are logged in this time */

enum {
    OUT_MAX = 8 << 20, /* bytes that a connection may have still to send; beyond it: OVERLOADED */
    REFUSALS_MAX = 5   /* so many in a row retire a connection */
};

static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

static void set_timer(weir_redis_node *n, int64_t at_ns)
{
    n->context->dialer->calls->set_timer(n->timer, at_ns);
}

/* ---- the log --------------------------------------------------------------------------------- */

void weir_redis_node_log(const weir_redis_node *n, const char *event, const char *text)
{
    const weir_redis_log *log = &n->context->log;
    if (log->write)
        log->write(log->ctx, event, n->name, text);
}

void weir_redis_node_log_up(weir_redis_node *n)
{
    static const char *const by[] = {"", "the module", "functions", "a script"};
    if (!n->logged_up || n->logged_by != n->by)
        weir_redis_node_log(n, "redis-up", n->is_sentinel ? "a Sentinel" : by[n->by]);
    n->logged_up = true;
    n->logged_down = false;
    n->logged_by = n->by;
}

static void log_down(weir_redis_node *n, const char *why, int64_t now_ns)
{
    bool is_new = strcmp(n->logged, why) != 0 && now_ns - n->logged_before_ns >= LOG_NS;
    if (n->context->closing || (n->logged_down && !is_new))
        return;
    (void)snprintf(n->logged, sizeof n->logged, "%s", why);
    n->logged_before_ns = n->logged_ns;
    n->logged_ns = now_ns;
    n->logged_down = true;
    n->logged_up = false;
    weir_redis_node_log(n, "redis-down", n->logged);
}

const char *weir_redis_copy_text(char *ret, size_t size, const char *text, size_t len)
{
    static const char nothing[] = "an error without a text";
    if (len == 0)
        return weir_redis_copy_text(ret, size, nothing, sizeof nothing - 1);
    size_t n = len < size - 1 ? len : size - 1;
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint8_t)text[i] < ' ' || (uint8_t)text[i] >= 0x7f ? ' ' : text[i];
    ret[n] = 0;
    return ret;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool has_space(weir_redis_node *n, size_t bytes)
{
    const weir_buffer *out = n->out;
    size_t len = weir_buffer_len(out);
    size_t max = out->len_max < OUT_MAX ? out->len_max : OUT_MAX;
    return len <= max && bytes <= max - len &&
           weir_redis_pipeline_len(&n->pipeline) < 4 * n->context->in_flight_max &&
           weir_redis_pipeline_reserve(&n->pipeline, 2);
}

bool weir_redis_node_send(weir_redis_node *n, weir_redis_call *call, int64_t now_ns)
{
    weir_redis_context *x = n->context;
    WEIR_ASSERT(n->state == WEIR_REDIS_UP && n->connection);
    size_t size = weir_redis_wire_size(call, x->prefix_len) + sizeof asking;
    if (!has_space(n, size))
        return false;
    if (!weir_buffer_reserve(n->out, size)) { /* the buffer has failed: close the connection */
        set_timer(n, now_ns);
        return false;
    }
    const weir_redis_encoder encoder = {.by = n->by,
                                        .prefix = x->prefix,
                                        .prefix_len = x->prefix_len,
                                        .sha = n->sha,
                                        .bounds = x->bounds,
                                        .resets = x->counts->resets,
                                        .now_ns = now_ns,
                                        .sends_time = n->sends_time};
    uint8_t *begin = weir_buffer_tail(n->out), *at = begin;
    if (call->asking) {
        memcpy(at, asking, sizeof asking - 1);
        at += sizeof asking - 1;
        weir_redis_pipeline_push(&n->pipeline, NULL, WEIR_REDIS_EXPECTS_IGNORED, now_ns);
    }
    call->figures = !n->omits_figures && weir_redis_wire_wants_figures(call);
    at = weir_redis_wire_put(at, call, &encoder);
    WEIR_ASSERT((size_t)(at - begin) <= size);
    weir_buffer_added(n->out, (size_t)(at - begin));
    n->used_ns = now_ns;
    call->pipeline = &n->pipeline;
    call->number = n->pipeline.tail;
    weir_redis_pipeline_push(&n->pipeline, call, WEIR_REDIS_EXPECTS_CALL, now_ns);
    port_add_relaxed(&x->counts->sent, 1);
    x->dialer->calls->send(n->connection);
    return true;
}

bool weir_redis_node_request(weir_redis_node *n, weir_redis_expects expects, size_t words,
                             int64_t now_ns)
{
    WEIR_ASSERT(n->connection);
    if (!weir_redis_pipeline_reserve(&n->pipeline, 1)) {
        n->out->failed = true;
        set_timer(n, now_ns);
        return false;
    }
    weir_redis_pipeline_push(&n->pipeline, NULL, expects, now_ns);
    weir_resp_put_array(n->out, words);
    n->context->dialer->calls->send(n->connection);
    return true;
}

void weir_redis_node_bulk(weir_redis_node *n, const char *bytes, size_t len)
{
    weir_resp_put_bulk(n->out, bytes, len);
    if (n->out->failed)
        set_timer(n, n->since_ns); /* a past time: the timer expires soon */
}

void weir_redis_node_word(weir_redis_node *n, const char *word)
{
    weir_redis_node_bulk(n, word, strlen(word));
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void protocol_error(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_node_fail(n, "the server's reply violates the protocol", now_ns);
}

static void end_doubt(weir_redis_node *n)
{
    n->is_doubted = false;
    if (n->state == WEIR_REDIS_UP)
        weir_redis_node_log_up(n);
}

/* False: weir could not have sent these fields. */
static bool answer(weir_redis_node *n, weir_redis_call *call, int64_t now_ns)
{
    if (!weir_redis_wire_answer(call, n->field))
        return false;
    if (call->request->verb == WEIR_VERB_RESET_ALL)
        weir_redis_resets_set(n->context->counts->resets, call->request, call->token);
    n->pipeline.head++;
    n->refusals = 0;
    if (n->is_doubted)
        end_doubt(n);
    call->pipeline = NULL;
    weir_redis_calls_end(&n->context->calls, call, WEIR_REDIS_ANSWERED, NULL, now_ns);
    return true;
}

/* Takes one value of the reply to a call. False: it cannot be part of such a reply. */
static bool receive_for_call(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_call *call = weir_redis_pipeline_first(&n->pipeline)->call;
    if (v->depth == 0)
        n->fields = 0;
    if (!call) {
        n->pipeline.head += v->last;
        return true;
    }
    if (v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY) {
        n->pipeline.head++;
        call->pipeline = NULL;
        n->context->events->error(n, call, (weir_slice){v->text, v->len}, now_ns);
        return true;
    }
    size_t wanted = weir_redis_wire_fields(call);
    if (wanted == 0) {
        n->field[0] = v->integer;
        return v->type == WEIR_RESP_INTEGER && answer(n, call, now_ns);
    }
    if (v->depth == 0)
        return v->type == WEIR_RESP_ARRAY && v->len == wanted;
    if (v->depth != 1 || v->type != WEIR_RESP_INTEGER || n->fields == wanted)
        return false;
    WEIR_ASSERT(n->fields < WEIR_REDIS_FIELDS_MAX);
    n->field[n->fields++] = v->integer;
    return !v->last || (n->fields == wanted && answer(n, call, now_ns));
}

static void receive(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_expects expects = weir_redis_pipeline_first(&n->pipeline)->expects;
    if (expects == WEIR_REDIS_EXPECTS_CALL) {
        if (!receive_for_call(n, v, now_ns))
            protocol_error(n, now_ns);
        return;
    }
    n->pipeline.head += v->last;
    if (expects != WEIR_REDIS_EXPECTS_IGNORED)
        n->context->events->reply(n, expects, v, now_ns);
}

/* Fast path: a complete decision. Returns its length in bytes; 0: it is anything else. */
static size_t receive_decision(weir_redis_node *n, const weir_buffer *in, int64_t now_ns)
{
    weir_redis_call *call = weir_redis_pipeline_first(&n->pipeline)->call;
    size_t fields = call && n->stream.depth == 0 ? weir_redis_wire_fields(call) : 0;
    if (fields == 0)
        return 0;
    size_t used =
        weir_resp_read_integers(weir_buffer_data(in), weir_buffer_len(in), n->field, fields);
    return used > 0 && answer(n, call, now_ns) ? used : 0;
}

/* Returns the length of one value in bytes; 0: it is incomplete. */
static size_t receive_value(weir_redis_node *n, const weir_buffer *in, int64_t now_ns)
{
    weir_resp_value v;
    size_t used = 0;
    weir_resp_reading r =
        weir_resp_stream_read(&n->stream, weir_buffer_data(in), weir_buffer_len(in), &v, &used);
    if (r == WEIR_RESP_READ)
        receive(n, &v, now_ns);
    else if (r == WEIR_RESP_READ_ERROR)
        protocol_error(n, now_ns);
    return used;
}

static void on_received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    uint32_t connection = n->connections;
    while (weir_buffer_len(in) > 0) {
        if (weir_redis_pipeline_len(&n->pipeline) == 0) {
            protocol_error(n, now_ns); /* a reply without a request */
            return;
        }
        size_t used = receive_decision(n, in, now_ns);
        if (used == 0)
            used = receive_value(n, in, now_ns);
        if (used == 0 || !n->connection || n->connections != connection)
            return; /* `in` is gone with its connection */
        weir_buffer_consume(in, used);
    }
    if (n->retiring[0] && weir_redis_pipeline_len(&n->pipeline) == 0)
        weir_redis_node_fail(n, n->retiring, now_ns);
}

/* ---- states ---------------------------------------------------------------------------------- */

static int64_t reply_ns(const weir_redis_node *n)
{
    return n->is_sentinel ? SENTINEL_NS : REPLY_NS;
}

static void set_state(weir_redis_node *n, weir_redis_node_state state, int64_t now_ns)
{
    if ((n->state == WEIR_REDIS_UP) != (state == WEIR_REDIS_UP)) {
        if (state == WEIR_REDIS_UP)
            port_add_relaxed(&n->context->counts->connected, 1);
        else
            port_sub_relaxed(&n->context->counts->connected, 1);
    }
    n->state = state;
    n->since_ns = now_ns;
}

void weir_redis_node_up(weir_redis_node *n, int64_t now_ns)
{
    WEIR_ASSERT(n->state == WEIR_REDIS_HANDSHAKE);
    set_state(n, WEIR_REDIS_UP, now_ns);
    if (!n->is_replica && !n->lacks_master && !n->is_doubted)
        weir_redis_node_log_up(n);
    n->context->events->changed(n, now_ns);
}

void weir_redis_node_renegotiate(weir_redis_node *n, int64_t now_ns)
{
    WEIR_ASSERT(n->state == WEIR_REDIS_UP);
    set_state(n, WEIR_REDIS_HANDSHAKE, now_ns);
}

/* Splitmix64. */
static uint64_t next_random(weir_redis_context *x)
{
    uint64_t z = x->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void forget_failures(weir_redis_node *n, int64_t now_ns)
{
    if (n->state == WEIR_REDIS_UP && now_ns - n->since_ns >= STEADY_NS)
        n->failures = 0;
}

/* Exponential backoff with jitter: a pause is 1/2 to 1 of its nominal length. */
static void back_off(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_context *x = n->context;
    forget_failures(n, now_ns);
    unsigned doublings = n->failures < BACKOFF_DOUBLINGS ? n->failures : BACKOFF_DOUBLINGS;
    n->failures++;
    int64_t most_ns = BACKOFF_NS << doublings;
    if (most_ns > BACKOFF_MAX)
        most_ns = BACKOFF_MAX;
    uint64_t half = (uint64_t)most_ns / 2;
    n->next_ns = now_ns + (int64_t)(half + next_random(x) % (half + 1));
    set_state(n, WEIR_REDIS_BACKOFF, now_ns);
    set_timer(n, x->closing ? INT64_MAX : n->next_ns);
}

static void close_connection(weir_redis_node *n)
{
    if (n->connection)
        n->context->dialer->calls->close(n->connection);
    n->connection = NULL;
}

void weir_redis_node_fail(weir_redis_node *n, const char *why, int64_t now_ns)
{
    weir_redis_context *x = n->context;
    char text[WEIR_REDIS_WHY_MAX];
    weir_redis_copy_text(text, sizeof text, why, strlen(why));
    close_connection(n);
    n->skip += n->state >= WEIR_REDIS_HANDSHAKE; /* a server of its name was reached, in vain */
    n->retiring[0] = 0;
    n->refusals = 0;
    back_off(n, now_ns);
    log_down(n, text, now_ns);
    x->events->lost(n);
    weir_redis_call sent, *call;
    weir_redis_pipeline_close(&n->pipeline, &sent);
    while ((call = weir_redis_list_pop(&sent)))
        weir_redis_calls_end(&x->calls, call, WEIR_REDIS_CONNECTION_LOST, text, now_ns);
    x->events->changed(n, now_ns);
}

void weir_redis_node_retire(weir_redis_node *n, const char *why, int64_t now_ns)
{
    if (n->state != WEIR_REDIS_UP || (n->retired_ns != 0 && now_ns - n->retired_ns < RETIRE_NS))
        return;
    forget_failures(n, now_ns);
    n->retired_ns = now_ns;
    (void)snprintf(n->retiring, sizeof n->retiring, "%s", why);
    set_state(n, WEIR_REDIS_HANDSHAKE, now_ns);
    set_timer(n, weir_redis_pipeline_len(&n->pipeline) == 0 ? now_ns : now_ns + DRAIN_NS);
}

void weir_redis_node_refused(weir_redis_node *n, const char *why, int64_t now_ns)
{
    if (++n->refusals < REFUSALS_MAX)
        return;
    n->is_doubted = true;
    weir_redis_node_retire(n, why, now_ns);
}

void weir_redis_node_disconnect(weir_redis_node *n, int64_t now_ns)
{
    close_connection(n);
    n->retiring[0] = 0;
    n->refusals = 0;
    n->is_doubted = false;
    port_free(n->pipeline.reply);
    n->pipeline = (weir_redis_pipeline){0};
    set_state(n, WEIR_REDIS_IDLE, now_ns);
    set_timer(n, INT64_MAX);
    n->logged_up = n->logged_down = false;
    n->context->events->lost(n);
}

void weir_redis_node_end_backoff(weir_redis_node *n, int64_t now_ns)
{
    if (n->state > WEIR_REDIS_BACKOFF)
        return;
    n->failures = 0;
    set_state(n, WEIR_REDIS_IDLE, now_ns);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void on_connected(void *ctx, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    set_state(n, WEIR_REDIS_HANDSHAKE, now_ns); /* the timer is set: it checks this as well */
    n->context->events->connected(n, now_ns);
}

static void on_closed(void *ctx, const char *why, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    n->connection = NULL;
    weir_redis_node_fail(n, why, now_ns);
}

void weir_redis_node_connect(weir_redis_node *n, int64_t now_ns)
{
    static const port_connection_events events = {on_connected, on_received, on_closed};
    weir_redis_context *x = n->context;
    WEIR_ASSERT(n->state == WEIR_REDIS_IDLE && !n->connection);
    const port_endpoint to = {
        .host = n->host,
        .port = n->port,
        .skip = n->skip,
        .tls = x->uses_tls ? x->tls : NULL,
        .tls_name = x->options->tls_name,
    };
    port_add_relaxed(&x->counts->attempts, 1);
    n->connections++;
    n->connection = x->dialer->calls->connect(x->dialer, &to, &events, n);
    if (!n->connection) {
        back_off(n, now_ns);
        log_down(n, "no memory for a connection", now_ns);
        return;
    }
    n->out = x->dialer->calls->out(n->connection);
    n->stream = (weir_resp_stream){0};
    set_state(n, WEIR_REDIS_CONNECTING, now_ns);
    set_timer(n, now_ns + reply_ns(n));
}

/* ---- timeouts -------------------------------------------------------------------------------- */

/* Whether the connection has had nothing to do since `since_ns`. */
static bool is_unused(const weir_redis_node *n, int64_t since_ns)
{
    return weir_redis_pipeline_len(&n->pipeline) == 0 && weir_redis_list_is_empty(&n->waiting) &&
           n->used_ns <= since_ns && n->since_ns <= since_ns;
}

static void check_connection(weir_redis_node *n, int64_t now_ns)
{
    int64_t timeout_ns = reply_ns(n);
    int64_t since_ns = now_ns;
    if (n->state != WEIR_REDIS_UP)
        since_ns = n->since_ns;
    else if (weir_redis_pipeline_len(&n->pipeline) > 0)
        since_ns = weir_redis_pipeline_first(&n->pipeline)->sent_ns;
    if (n->out->failed)
        weir_redis_node_fail(n, "no memory for requests", now_ns);
    else if (n->retiring[0])
        weir_redis_node_fail(n, n->retiring, now_ns);
    else if (now_ns - since_ns >= timeout_ns)
        weir_redis_node_fail(n,
                             n->state == WEIR_REDIS_CONNECTING ? "connecting timed out"
                                                               : "the server does not reply",
                             now_ns);
    else if (!n->context->events->is_wanted(n) && is_unused(n, now_ns - timeout_ns))
        weir_redis_node_disconnect(n, now_ns);
    else
        set_timer(n, since_ns + timeout_ns);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    weir_redis_node *n = ctx;
    if (n->connection) {
        if (n->is_doubted && n->state == WEIR_REDIS_UP && n->refusals == 0 &&
            now_ns - n->since_ns >= DOUBT_NS)
            end_doubt(n);
        check_connection(n, now_ns);
    } else { /* the pause has ended, or was ended earlier */
        set_state(n, WEIR_REDIS_IDLE, now_ns);
        n->context->events->backoff_ended(n, now_ns);
    }
}

/* ---- making and freeing ---------------------------------------------------------------------- */

weir_redis_node *weir_redis_node_new(weir_redis_context *x, const char *host, uint16_t port)
{
    weir_redis_node *n = port_zalloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->timer = x->dialer->calls->new_timer(x->dialer, on_timer, n);
    if (!n->timer) {
        port_free(n);
        return NULL;
    }
    n->context = x;
    n->port = port;
    (void)snprintf(n->host, sizeof n->host, "%s", host);
    bool is_v6 = strchr(host, ':') != NULL;
    if (host[0] == '/')
        (void)snprintf(n->name, sizeof n->name, "%s", host);
    else
        (void)snprintf(n->name, sizeof n->name, is_v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
    weir_redis_list_init(&n->waiting);
    return n;
}

void weir_redis_node_free(weir_redis_node *n)
{
    WEIR_ASSERT(weir_redis_list_is_empty(&n->waiting));
    n->context->dialer->calls->free_timer(n->timer);
    close_connection(n);
    port_free(n->pipeline.reply);
    port_free(n);
}
