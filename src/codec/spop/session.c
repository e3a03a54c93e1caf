/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A session: HELLO, then NOTIFY frames until one side disconnects. The requests of consecutive
 * NOTIFY frames are decided as one batch. Nothing is kept of a frame that waits for an engine: it
 * is read again from the front of `in`. */

#include "codec/spop/session.h"

#include "port/assert.h"

#include <stdlib.h>

/* A session without a frame for this long is idle. Before its HELLO frame, a connection is new. */
#define IDLE_NS INT64_C(100000000)

enum { COST_MAX = 24, ROOM = WEIR_SPOP_SCRATCH };

/* ---- batches --------------------------------------------------------------------------------- */

/* A NOTIFY frame of the batch. */
typedef struct notify {
    uint64_t stream_id, frame_id;
    const char *error;   /* static; NULL: none */
    weir_slice unknown;  /* the name of a message that is not in the configuration; absent: none */
    weir_slice faulty;   /* the name of a message with a fault: `error`, or `argument` */
    weir_slice argument; /* that the message lacks; absent: none */
    uint16_t first, len; /* its requests */
    uint16_t unknowns;
    bool refused; /* `error` is the fault of the request */
    bool aborted;
} notify;

/* NOTIFY frames that will be decided together. */
typedef struct batch {
    size_t len;
    size_t max;   /* a batch that waited for an engine is repeated with the same requests */
    size_t bytes; /* length of these frames, at the front of `in` */
    size_t notifies_len;
    char
        *scratch; /* keys, names and costs that templates make, and addresses as text: ROOM bytes */
    size_t used;
    bool is_full; /* a text did not fit into the scratch memory */
    weir_request request[WEIR_BATCH_MAX];
    weir_client client[WEIR_BATCH_MAX]; /* of the requests */
    notify notify[WEIR_BATCH_MAX];
} batch;

/* A run of a session. */
typedef struct run {
    weir_spop_session *session;
    weir_spop_messages *messages;
    weir_buffer *in, *out;
    int64_t now_ns;
    bool greeted, acknowledged; /* in this run */
    batch *batch;
} run;

static void answer(run *r, const notify *n)
{
    weir_spop_session *s = r->session;
    weir_spop_counts *counts = weir_spop_loop_counts(s->options->loop);
    weir_service_next(s->options->service, r->batch->request + n->first, n->len, r->now_ns);
    const weir_spop_answer a = {.stream_id = n->stream_id,
                                .frame_id = n->frame_id,
                                .requests = r->batch->request + n->first,
                                .len = n->len,
                                .error = n->error,
                                .refused = n->refused,
                                .aborted = n->aborted,
                                .answer = *s->answer,
                                .variables = weir_spop_messages_variables(r->messages)};
    port_bump_relaxed(&counts->notifies, 1);
    for (unsigned i = 0; i < n->unknowns; i++)
        weir_spop_count_unknown(s->options->loop, WEIR_SPOP_MESSAGE, n->unknown);
    for (unsigned i = 0; i < n->len; i++) {
        if (a.requests[i].status == WEIR_E_ABSENT)
            weir_spop_count_unknown(s->options->loop, WEIR_SPOP_POLICY, a.requests[i].rule);
    }
    if (n->faulty.at)
        weir_spop_count_fault(s->options->loop, n->faulty, n->error, n->argument);
    if (!weir_spop_put_answer(r->out, s->frame_max, &a, r->now_ns))
        port_bump_relaxed(&counts->errors, 1);
    r->acknowledged = true;
}

static void drop_messages(weir_spop_session *s)
{
    weir_spop_messages_drop(s->held);
    s->held = NULL;
}

/* Makes the service use the active rules until the run ends, so that they always belong to the
 * messages. Returns the active messages. */
static weir_spop_messages *pin_active(const weir_spop_session *s)
{
    weir_spop_messages *messages;
    do {
        messages = weir_spop_loop_messages(s->options->loop);
        weir_service_pin(s->options->service);
    } while (!weir_spop_loop_is_current(s->options->loop));
    return messages;
}

/* Decides and answers the batch, and drops its frames from `in`. Returns false and changes nothing
 * if an engine needs time. */
static bool flush(run *r)
{
    weir_spop_session *s = r->session;
    batch *b = r->batch;
    if (b->notifies_len == 0)
        return true;
    /* A reload may have made the addresses in keys longer, so that fewer frames fit. Those that do
     * are charged again. */
    if (s->completion.pending && weir_completion_len(&s->completion) != b->len)
        weir_completion_cancel(&s->completion);
    if (b->len > 0 &&
        !weir_service_take(s->options->service, &s->completion, b->request, b->len, r->now_ns))
        return false;
    for (size_t i = 0; i < b->notifies_len; i++)
        answer(r, &b->notify[i]);
    weir_buffer_consume(r->in, b->bytes);
    b->len = b->bytes = b->notifies_len = b->used = 0;
    b->max = WEIR_BATCH_MAX;
    if (s->held) { /* later frames get the active messages */
        drop_messages(s);
        r->messages = pin_active(s);
    }
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

typedef struct argument {
    weir_slice name;
    weir_spop_value value;
} argument;

typedef struct arguments {
    argument at[WEIR_SPOP_ARGS_MAX];
    size_t len;
    bool too_many;
    weir_slice client; /* the client's address in the latest text: src, or else the first address */
    weir_slice missing; /* an argument that a template names and the message lacks; absent: none */
    size_t texts_len;
    char texts[WEIR_KEY_TEMPLATE_PARTS_MAX][WEIR_SPOP_TEXT_MAX]; /* of values */
} arguments;

static bool read_arguments(weir_spop_reader *r, arguments *ret)
{
    ret->len = ret->client.len = 0;
    ret->missing = (weir_slice){NULL, 0};
    ret->too_many = false;
    if (r->at == r->end)
        return false;
    for (unsigned left = *r->at++; left > 0; left--) {
        argument extra, *a = ret->len < WEIR_SPOP_ARGS_MAX ? &ret->at[ret->len] : &extra;
        if (!weir_spop_read_string(r, &a->name) || !weir_spop_read_value(r, &a->value))
            return false;
        ret->too_many |= a == &extra;
        ret->len += a != &extra;
    }
    return true;
}

/* The value of an argument. See weir_key_value. */
static bool argument_value(void *ctx, weir_slice name, weir_slice *ret, bool *is_address)
{
    arguments *args = ctx;
    for (size_t i = 0; i < args->len; i++) {
        const argument *a = &args->at[i];
        if (a->name.len != name.len || memcmp(a->name.at, name.at, name.len) != 0)
            continue;
        WEIR_ASSERT(args->texts_len < WEIR_KEY_TEMPLATE_PARTS_MAX);
        bool found = weir_spop_text(&a->value, args->texts[args->texts_len++], ret, is_address);
        bool is_src = name.len == 3 && memcmp(name.at, "src", 3) == 0;
        if (found && *is_address && (is_src || args->client.len == 0))
            args->client = *ret;
        return found;
    }
    args->missing = name;
    return false;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Whether a template gives a text that is not empty. */
static bool has_text(const weir_key_template *t, arguments *args)
{
    args->texts_len = 0;
    for (size_t i = 0; i < weir_key_template_len(t); i++) {
        weir_slice value;
        bool is_address = false;
        if (argument_value(args, weir_key_template_name(t, i), &value, &is_address) &&
            value.len > 0)
            return true;
    }
    return false;
}

/* Writes what a template gives into the scratch memory of the batch. Its length is 0 if it is empty
 * or longer than `max`, or if the memory is full. */
static weir_slice expand(batch *b, const weir_key_template *t, weir_key_template_bits bits,
                         arguments *args, size_t max)
{
    size_t room = ROOM - b->used;
    char *at = b->scratch + b->used;
    args->texts_len = 0;
    args->client.len = 0;
    size_t len =
        weir_key_template_write(t, bits, argument_value, args, at, room < max ? room : max);
    b->used += len;
    b->is_full |= len == 0 && room < max && has_text(t, args);
    return (weir_slice){at, len};
}

/* The argument `key`, or else `src`. */
static weir_slice default_key(batch *b, arguments *args)
{
    weir_slice value;
    bool is_address = false;
    args->texts_len = 0;
    if (!argument_value(args, (weir_slice){"key", 3}, &value, &is_address) &&
        !argument_value(args, (weir_slice){"src", 3}, &value, &is_address))
        return (weir_slice){NULL, 0};
    args->missing = (weir_slice){NULL, 0}; /* `key` may be absent */
    const char *text = args->texts[args->texts_len - 1];
    if (value.at != text)
        return value; /* in `in` */
    if (ROOM - b->used < value.len) {
        b->is_full = true;
        return (weir_slice){NULL, 0};
    }
    memcpy(b->scratch + b->used, text, value.len);
    value.at = b->scratch + b->used;
    b->used += value.len;
    return value;
}

/* Makes the key of a message. In a key of several parts, an address counts as the network that the
 * policy says; an address alone is left to the policy. */
static weir_slice make_key(const run *r, const weir_spop_message *m, weir_slice rule,
                           arguments *args)
{
    weir_key_template_bits bits = {0, 0};
    if (!m->key)
        return default_key(r->batch, args);
    if (weir_key_template_len(m->key) > 1)
        bits = weir_service_key_bits(r->session->options->service, rule);
    return expand(r->batch, m->key, bits, args, WEIR_KEY_MAX);
}

/* Makes a request of a message. Returns NULL, or what is wrong; static. */
static const char *make_request(const run *r, const weir_spop_message *m, arguments *args,
                                weir_request *ret)
{
    static const weir_key_template_bits all = {0, 0};
    batch *b = r->batch;
    weir_slice rule = m->policy_name;
    uint64_t cost = (uint64_t)m->fixed_cost;
    if (args->too_many)
        return "a message has more than 64 arguments";
    if (m->policy)
        rule = expand(b, m->policy, all, args, WEIR_RULE_NAME_MAX);
    if (rule.len == 0)
        return "the name of the policy is empty or too long";
    if (m->cost) {
        weir_slice text = expand(b, m->cost, all, args, COST_MAX);
        if (!weir_decimal_read(text.at, text.len, WEIR_COST_MAX, &cost))
            return "the cost is not a number from 0 to 2147483647";
    }
    weir_slice key = make_key(r, m, rule, args);
    if (key.len == 0)
        return "the key is empty or too long";
    *ret = (weir_request){
        .rule = rule, .key = key, .cost = (int64_t)cost, .keep = m->keep, .with_figures = true};
    return NULL;
}

/* Adds a request to the batch. If its key has several parts, also the client in it. */
static void add_request(batch *b, size_t i, const weir_spop_message *m, const arguments *args,
                        const weir_request *request)
{
    WEIR_ASSERT(i < WEIR_BATCH_MAX);
    b->request[i] = *request;
    if (m->key && weir_key_template_len(m->key) > 1 && args->client.len > 0 &&
        weir_address_parse(&b->client[i].address, args->client.at, args->client.len)) {
        b->client[i].is_proxy = false;
        b->request[i].client = &b->client[i];
    }
}

/* Why the client may not send a request, which is then neither allowed nor denied; NULL: it may.
 * Requests that wait for an engine were checked before. A password without users is none for
 * SPOP. */
static const char *find_denial(const run *r, const weir_request *request)
{
    const weir_spop_session *s = r->session;
    const weir_login *l = &s->login;
    const char *why = NULL;
    bool single = s->options->access && weir_access_is_single(s->options->access);
    if (s->completion.pending || l->everything || single)
        return NULL;
    if (!l->user)
        why = "the client is not logged in: give the address of listen.spoe a user";
    else if (!weir_user_may(l->user, WEIR_MAY_TAKE))
        why = "the user lacks the right \"take\"";
    else if (!weir_user_sees(l->user, request->rule))
        why = "the user may not use the policy";
    else if (!weir_user_has_key(l->user, request->key, request->client))
        why = "the user may not use the key";
    if (why)
        weir_access_denied(s->options->access, s->completion.ctx, l, WEIR_MAY_TAKE);
    return why;
}

/* What became of a NOTIFY frame. */
typedef enum added { ADDED, FULL, MALFORMED } added;

/* Adds the requests of a message to the batch. */
static added add_message(run *r, notify *n, weir_spop_reader *payload)
{
    batch *b = r->batch;
    arguments args;
    weir_slice name;
    if (!weir_spop_read_string(payload, &name) || !read_arguments(payload, &args))
        return MALFORMED;
    const weir_spop_message *m = weir_spop_messages_find(r->messages, name);
    if (!m) {
        n->unknown = name;
        n->unknowns++; /* at most a third of the bytes of a frame */
        return ADDED;
    }
    if (n->error || n->aborted)
        return ADDED;
    if (n->len == WEIR_SPOP_DECIDED_MAX) {
        n->error = "a frame has more than 16 messages with a policy";
        return ADDED;
    }
    weir_request request;
    b->is_full = false;
    n->error = make_request(r, m, &args, &request);
    if (b->is_full && b->notifies_len > 0)
        return FULL; /* the frame may fit into an empty batch */
    if (b->is_full)
        n->error = "the keys of a frame exceed 128 KiB together";
    n->refused = n->error != NULL;
    if (n->error || args.missing.at) {
        n->faulty = name;
        n->argument = args.missing;
    }
    if (n->error)
        return ADDED;
    if (b->len + n->len == b->max) {
        WEIR_ASSERT(b->len > 0);
        return FULL;
    }
    add_request(b, b->len + n->len, m, &args, &request);
    n->error = find_denial(r, &b->request[b->len + n->len]);
    n->len = (uint16_t)(n->len + !n->error);
    return ADDED;
}

/* Adds a NOTIFY frame to the batch, or nothing.
 *  len  of the frame with its prefix. */
static added add_notify(run *r, const weir_spop_frame *f, size_t len)
{
    batch *b = r->batch;
    size_t used = b->used;
    weir_spop_reader payload = f->payload;
    notify n = {.stream_id = f->stream_id,
                .frame_id = f->frame_id,
                .first = (uint16_t)b->len,
                .aborted = (f->flags & WEIR_SPOP_ABORT) != 0};
    added result = ADDED;
    if (b->notifies_len == WEIR_BATCH_MAX || (b->notifies_len > 0 && ROOM - used < WEIR_KEY_MAX))
        return FULL;
    while (payload.at < payload.end && result == ADDED)
        result = add_message(r, &n, &payload);
    if (result != ADDED) {
        b->used = used;
        return result;
    }
    b->notify[b->notifies_len++] = n;
    b->len += n.len;
    b->bytes += len;
    return ADDED;
}

/* ---- HELLO and DISCONNECT -------------------------------------------------------------------- */

/* Sends a DISCONNECT frame and ends the session. */
static void disconnect(run *r, weir_spop_status status)
{
    weir_spop_session *s = r->session;
    const char *text = weir_spop_status_text(status);
    weir_spop_writer w = weir_spop_begin(r->out, WEIR_SPOP_FRAME_MIN, WEIR_SPOP_AGENT_DISCONNECT,
                                         WEIR_SPOP_FIN, 0, 0);
    weir_spop_put_string(&w, "status-code", 11);
    weir_spop_put_uint32(&w, status);
    weir_spop_put_string(&w, "message", 7);
    weir_spop_put_text(&w, text, strlen(text));
    weir_spop_end(r->out, &w);
    s->closing = true;
    if (status != WEIR_SPOP_NORMAL)
        port_bump_relaxed(&weir_spop_loop_counts(s->options->loop)->refused, 1);
}

/* The items of a HELLO frame. */
typedef struct hello {
    weir_spop_value versions, frame_size, capabilities;
    bool has_versions, has_frame_size, has_capabilities, healthcheck;
} hello;

static bool is(weir_slice text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

static bool is_integer(const weir_spop_value *v)
{
    return v->type >= WEIR_SPOP_INT32 && v->type <= WEIR_SPOP_UINT64;
}

static bool read_hello(weir_spop_reader payload, hello *ret)
{
    *ret = (hello){.healthcheck = false};
    while (payload.at < payload.end) {
        weir_slice name;
        weir_spop_value v;
        if (!weir_spop_read_string(&payload, &name) || !weir_spop_read_value(&payload, &v))
            return false;
        if (is(name, "supported-versions")) {
            ret->versions = v;
            ret->has_versions = v.type == WEIR_SPOP_STRING;
        } else if (is(name, "max-frame-size")) {
            ret->frame_size = v;
            ret->has_frame_size = is_integer(&v);
        } else if (is(name, "capabilities")) {
            ret->capabilities = v;
            ret->has_capabilities = v.type == WEIR_SPOP_STRING;
        } else if (is(name, "healthcheck")) {
            ret->healthcheck = v.type == WEIR_SPOP_BOOL && v.number == 1;
        }
    }
    return true;
}

/* Takes the next element of a comma-separated list, without spaces around it. Returns false at the
 * end of the list. */
static bool next_element(weir_slice *list, weir_slice *ret)
{
    if (!list->at)
        return false;
    const char *comma = list->len > 0 ? memchr(list->at, ',', list->len) : NULL;
    size_t len = comma ? (size_t)(comma - list->at) : list->len;
    *ret = (weir_slice){list->at, len};
    *list = comma ? (weir_slice){comma + 1, list->len - len - 1} : (weir_slice){NULL, 0};
    while (ret->len > 0 && ret->at[0] == ' ')
        *ret = (weir_slice){ret->at + 1, ret->len - 1};
    while (ret->len > 0 && ret->at[ret->len - 1] == ' ')
        ret->len--;
    return true;
}

/* Whether a list contains a word. */
static bool has_element(weir_slice list, const char *word)
{
    weir_slice element;
    while (next_element(&list, &element)) {
        if (is(element, word))
            return true;
    }
    return false;
}

/* Whether a list of versions has one of major version 2. It then includes 2.0. */
static bool has_version_2(weir_slice list)
{
    weir_slice element;
    while (next_element(&list, &element)) {
        uint64_t minor;
        if (element.len > 2 && element.at[0] == '2' && element.at[1] == '.' &&
            weir_decimal_read(element.at + 2, element.len - 2, UINT32_MAX, &minor))
            return true;
    }
    return false;
}

static weir_spop_status check_hello(const weir_spop_frame *f, hello *ret)
{
    if (f->stream_id != 0 || f->frame_id != 0 || !read_hello(f->payload, ret))
        return WEIR_SPOP_INVALID;
    if (!ret->has_versions)
        return WEIR_SPOP_NO_VERSION;
    if (!has_version_2(ret->versions.bytes))
        return WEIR_SPOP_BAD_VERSION;
    if (!ret->has_frame_size)
        return WEIR_SPOP_NO_FRAME_SIZE;
    if (ret->frame_size.number < WEIR_SPOP_FRAME_MIN || ret->frame_size.number > UINT32_MAX)
        return WEIR_SPOP_BAD_FRAME_SIZE;
    return ret->has_capabilities ? WEIR_SPOP_NORMAL : WEIR_SPOP_NO_CAPABILITIES;
}

static void greet(run *r, const weir_spop_frame *f)
{
    weir_spop_session *s = r->session;
    hello h;
    weir_spop_status status = check_hello(f, &h);
    if (status != WEIR_SPOP_NORMAL) {
        disconnect(r, status);
        return;
    }
    const char *capabilities = has_element(h.capabilities.bytes, "pipelining") ? "pipelining" : "";
    if (h.frame_size.number < s->frame_max)
        s->frame_max = (size_t)h.frame_size.number;
    weir_spop_writer w =
        weir_spop_begin(r->out, WEIR_SPOP_FRAME_MIN, WEIR_SPOP_AGENT_HELLO, WEIR_SPOP_FIN, 0, 0);
    weir_spop_put_string(&w, "version", 7);
    weir_spop_put_text(&w, "2.0", 3);
    weir_spop_put_string(&w, "max-frame-size", 14);
    weir_spop_put_uint32(&w, (uint32_t)s->frame_max);
    weir_spop_put_string(&w, "capabilities", 12);
    weir_spop_put_text(&w, capabilities, strlen(capabilities));
    weir_spop_end(r->out, &w);
    s->greeted = r->greeted = true;
    s->closing = h.healthcheck;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Handles a frame that is no NOTIFY. The batch is empty. */
static void handle_other(run *r, const weir_spop_frame *f)
{
    if (f->type == WEIR_SPOP_HAPROXY_DISCONNECT)
        disconnect(r, WEIR_SPOP_NORMAL);
    else if (f->type == WEIR_SPOP_UNSET || !(f->flags & WEIR_SPOP_FIN))
        disconnect(r, WEIR_SPOP_FRAGMENTED);
    else if (f->type == WEIR_SPOP_HAPROXY_HELLO && !r->session->greeted)
        greet(r, f);
    else if (f->type == WEIR_SPOP_HAPROXY_HELLO || !r->session->greeted)
        disconnect(r, WEIR_SPOP_INVALID);
    /* Frames of unknown types are skipped, as the protocol allows. */
}

/* Handles the frame after the batch. Returns false if the run must end: for an engine, or because
 * the session ends.
 *  at, len  the frame without its prefix. */
static bool handle_frame(run *r, const uint8_t *at, size_t len)
{
    weir_spop_session *s = r->session;
    weir_spop_frame f;
    weir_spop_reader reader = {at, at + len};
    bool is_frame = weir_spop_read_frame(&reader, &f);
    added result = MALFORMED;
    if (is_frame && f.type == WEIR_SPOP_NOTIFY && s->greeted && (f.flags & WEIR_SPOP_FIN)) {
        result = add_notify(r, &f, WEIR_SPOP_PREFIX + len);
        if (result != MALFORMED)
            return result == ADDED || flush(r);
        is_frame = false;
    }
    if (!flush(r))
        return false;
    if (is_frame)
        handle_other(r, &f);
    else
        disconnect(r, WEIR_SPOP_INVALID);
    weir_buffer_consume(r->in, WEIR_SPOP_PREFIX + len);
    return !s->closing;
}

static size_t read_length(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* Handles the frames in `in` until one is incomplete. Returns what the event loop must do next. */
static weir_session_next handle_frames(run *r, size_t out_pause)
{
    weir_spop_session *s = r->session;
    batch *b = r->batch;
    while (weir_buffer_len(r->out) <= out_pause) {
        size_t left = weir_buffer_len(r->in) - b->bytes;
        const uint8_t *at = left > 0 ? weir_buffer_data(r->in) + b->bytes : NULL;
        size_t len = left >= WEIR_SPOP_PREFIX ? read_length(at) : 0;
        if (left >= WEIR_SPOP_PREFIX && len > s->frame_max) {
            if (!flush(r))
                return WEIR_SESSION_PENDING;
            disconnect(r, WEIR_SPOP_TOO_BIG);
            return WEIR_SESSION_CLOSE;
        }
        if (left < WEIR_SPOP_PREFIX || left - WEIR_SPOP_PREFIX < len)
            return flush(r) ? WEIR_SESSION_READ : WEIR_SESSION_PENDING;
        if (!handle_frame(r, at + WEIR_SPOP_PREFIX, len))
            return s->closing ? WEIR_SESSION_CLOSE : WEIR_SESSION_PENDING;
    }
    return flush(r) ? WEIR_SESSION_AGAIN : WEIR_SESSION_PENDING;
}

/* ---- sessions -------------------------------------------------------------------------------- */

void weir_spop_session_init(weir_spop_session *s, const weir_spop_options *options)
{
    WEIR_ASSERT(options->service && options->loop);
    static const weir_answer defaults;
    *s = (weir_spop_session){.options = options,
                             .answer = &defaults,
                             .login = weir_login_begin(options->access),
                             .frame_max = WEIR_SPOP_FRAME_MAX};
}

void weir_spop_session_close(weir_spop_session *s)
{
    weir_completion_cancel(&s->completion);
    drop_messages(s);
}

/* Whether a session of a stopping server ends now: no reply is due. */
static bool ends(const run *r)
{
    const weir_spop_session *s = r->session;
    return s->stopping && (s->idle || (r->acknowledged && weir_buffer_len(r->in) == 0));
}

weir_session_step weir_spop_session_run(weir_spop_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    if (s->completion.pending && weir_completion_is_pending(&s->completion))
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    weir_access_refresh(s->options->access);
    weir_login_refresh(&s->login, s->options->access, s->completion.ctx);
    batch b;
    b.len = b.bytes = b.notifies_len = b.used = 0;
    b.scratch = weir_spop_loop_scratch(s->options->loop);
    b.max = s->completion.pending ? weir_completion_len(&s->completion) : WEIR_BATCH_MAX;
    run r = {.session = s,
             .messages = s->held ? s->held : pin_active(s),
             .in = in,
             .out = out,
             .now_ns = now_ns,
             .batch = &b};
    WEIR_ASSERT(b.max > 0 && b.max <= WEIR_BATCH_MAX);
    weir_session_next next = s->closing ? WEIR_SESSION_CLOSE : handle_frames(&r, out_pause);
    weir_service_unpin(s->options->service);
    if (next == WEIR_SESSION_PENDING) {
        if (!s->held)
            weir_spop_messages_hold(s->held = r.messages);
        return (weir_session_step){.next = next};
    }
    if (r.acknowledged || r.greeted)
        s->last_ns = now_ns;
    if (next == WEIR_SESSION_READ && ends(&r)) {
        disconnect(&r, WEIR_SPOP_NORMAL);
        next = WEIR_SESSION_CLOSE;
    }
    return (weir_session_step){.next = next};
}

bool weir_spop_session_poll(weir_spop_session *s, int64_t now_ns, bool stopping)
{
    if (!stopping)
        return false;
    s->idle = s->stopping || (s->greeted && now_ns - s->last_ns > IDLE_NS);
    s->stopping = true;
    return s->idle;
}
