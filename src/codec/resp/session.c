/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A session: dispatches each request to its command, in order, with one reply each. Consecutive
 * TAKE and CHECK requests are decided as one batch, so that the store can prefetch their states. */

#include "codec/resp/session.h"

#include "codec/resp/call.h"

#include "port/assert.h"

static const weir_command *const take = &weir_commands[WEIR_COMMAND_TAKE];
static const weir_command *const check = &weir_commands[WEIR_COMMAND_CHECK];

static const weir_command *find_command(weir_slice name)
{
    if (weir_resp_word_is(name, "WEIR.TAKE")) /* the common case, without a call */
        return take;
    return weir_resp_find_command(name);
}

/* TAKE and CHECK requests that will be decided together. */
typedef struct batch {
    size_t len;
    size_t max;   /* a batch that waited for an engine is repeated with the same requests */
    size_t bytes; /* length of these requests, at the front of `in` */
    weir_buffer *in;
    weir_request request[WEIR_BATCH_MAX];
    bool with_names[WEIR_BATCH_MAX]; /* of each request */
} batch;

static bool decide_batch(weir_resp_call *c, batch *b)
{
    weir_resp_session *s = c->session;
    if (!weir_service_take(s->options->service, &s->completion, b->request, b->len, c->now_ns)) {
        c->waits = true;
        return false;
    }
    bool with_names = c->call.with_names; /* of the command after the batch */
    for (size_t i = 0; i < b->len; i++) {
        c->call.with_names = b->with_names[i];
        if (b->with_names[i])
            weir_service_next(s->options->service, &b->request[i], 1, c->now_ns);
        weir_call_put_decision(&c->call, &b->request[i]);
    }
    c->call.with_names = with_names;
    weir_buffer_consume(b->in, b->bytes);
    b->len = b->bytes = 0;
    b->max = WEIR_BATCH_MAX;
    return true;
}

/* Decides and replies to the batch, and drops its requests from `in`. Returns false and changes
 * nothing if an engine needs time. */
static inline bool flush(weir_resp_call *c, batch *b)
{
    return b->len == 0 || decide_batch(c, b);
}

static bool may_run(weir_resp_call *c, const weir_command *cmd)
{
    if (!cmd) {
        weir_call_error(&c->call, "ERR unknown command '%.*s'; WEIR.HELP lists the commands",
                        c->call.arg[0].len < 64 ? (int)c->call.arg[0].len : 64, c->call.arg[0].at);
        return false;
    }
    if (!weir_command_arity_is_good(cmd, c->call.args)) {
        char name[WEIR_COMMAND_NAME_MAX];
        weir_command_lower(cmd, name);
        weir_call_error(&c->call, "ERR wrong number of arguments for '%s' command", name);
        return false;
    }
    const weir_login *l = &c->session->login;
    if (l->everything || cmd->right & WEIR_MAY_ANYONE)
        return true;
    if (!l->user)
        weir_call_error(&c->call, "NOAUTH Authentication required.");
    else if (!weir_user_may(l->user, cmd->right))
        weir_resp_refuse_right(c, cmd->name, cmd->right);
    else
        return true;
    return false;
}

/* Refuses a request, and so the transaction that it belongs to. */
static void refuse(weir_resp_session *s, const weir_command *cmd, const weir_resp_request *r)
{
    if (s->transaction == WEIR_RESP_QUEUING)
        s->transaction = WEIR_RESP_BROKEN;
    if (!cmd && r->is_inline && weir_resp_has_control(r))
        s->closing = true; /* not a Redis client: close as after a protocol error */
}

/* Adds a TAKE or CHECK to the batch. If its arguments are wrong, flushes the batch and replies with
 * the error. */
static void add_to_batch(weir_resp_call *c, bool by_text, batch *b, const weir_resp_request *r)
{
    if (b->len == b->max && !flush(c, b))
        return;
    WEIR_ASSERT(b->len < b->max);
    const char *error = weir_call_read_take(&c->call, by_text, &b->request[b->len]);
    if (!error) {
        b->with_names[b->len++] = c->call.with_names;
        b->bytes += r->used;
        if (r->decoded) /* the next request will overwrite the decoded words */
            flush(c, b);
    } else if (flush(c, b)) {
        weir_call_syntax_error(&c->call, error);
        weir_buffer_consume(b->in, r->used);
    }
}

/* Removes WITHNAMES from the end of the arguments, but never from the required ones: a key may have
 * that name. */
static inline void read_with_names(weir_resp_call *c, const weir_command *cmd)
{
    c->call.with_names = false;
    if (cmd && c->call.args > (size_t)cmd->args_min && cmd->names &&
        weir_resp_word_is(c->call.arg[c->call.args - 1], "WITHNAMES")) {
        c->call.with_names = true;
        c->call.args--;
    }
}

/* Whether the command may contain a password. The reply to a wrong one is delayed, so earlier
 * replies must be sent first. */
static bool gives_password(const weir_resp_call *c, const weir_command *cmd)
{
    return weir_access_is_limited(c->session->options->access) && cmd &&
           (cmd->run == weir_resp_auth || cmd->run == weir_resp_hello);
}

/* Whether a user who may not do everything may run a TAKE or CHECK. A request that an engine
 * decides was checked before. */
static bool may_batch(weir_resp_call *c, const weir_command *cmd)
{
    const weir_user *user = c->session->login.user;
    weir_request r;
    if (c->session->completion.pending)
        return true;
    if (!user || !weir_user_may(user, cmd->right))
        return false;
    return weir_call_read_take(&c->call, cmd == check, &r) ||
           (weir_user_sees(user, weir_resp_policy_of(&r)) && weir_user_has_key(user, r.key, NULL));
}

/* Runs the request after the batch. */
static void run(weir_resp_call *c, batch *b, const weir_resp_request *r)
{
    const weir_command *cmd = find_command(c->call.arg[0]);
    read_with_names(c, cmd);
    bool batched = cmd == take || cmd == check;
    if (batched && weir_command_arity_is_good(cmd, c->call.args) &&
        !weir_resp_is_queuing(c->session) && (c->session->login.everything || may_batch(c, cmd))) {
        add_to_batch(c, cmd == check, b, r);
        return;
    }
    if (!flush(c, b))
        return;
    if (gives_password(c, cmd) && weir_buffer_len(c->out) > 0) {
        c->stop = WEIR_SESSION_AGAIN;
        return;
    }
    if (!may_run(c, cmd))
        refuse(c->session, cmd, r);
    else if (!weir_resp_queue(&c->call, cmd, weir_buffer_data(b->in), r->used))
        cmd->run(&c->call);
    if (c->waits)
        return;
    weir_buffer_consume(b->in, r->used);
    if (c->session->transaction == WEIR_RESP_RUNNING)
        b->in = &c->session->queue;
    b->max = WEIR_BATCH_MAX;
}

void weir_resp_session_init(weir_resp_session *s, weir_resp_options *options)
{
    *s = (weir_resp_session){
        .options = options,
        .id = options->first_id + options->sessions++ * options->id_step,
        .proto = 2,
        .login = weir_login_begin(options->access),
    };
    weir_resp_init(&s->parser, NULL);
}

void weir_resp_session_close(weir_resp_session *s)
{
    weir_completion_cancel(&s->completion);
    weir_resp_end_transaction(s);
    weir_resp_end_subscriptions(s);
}

size_t weir_resp_session_memory(const weir_resp_session *s)
{
    return weir_buffer_memory(&s->queue) + weir_buffer_memory(&s->names);
}

/* Ends a run. Requests that wait for an engine will be parsed again from the front of `in`. */
static weir_session_step end(weir_resp_call *c, batch *b, weir_session_next next)
{
    if (c->waits || !flush(c, b)) {
        weir_resp_init(&c->session->parser, NULL);
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    }
    if (c->stop != WEIR_SESSION_READ)
        return (weir_session_step){.next = c->stop, .until_ns = c->held_ns};
    return (weir_session_step){.next = c->session->closing ? WEIR_SESSION_CLOSE : next};
}

weir_session_step weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_slice arg[WEIR_RESP_ARGS_MAX];
    weir_resp_request request = {.arg = arg, .words = s->options->words};
    weir_resp_call c = {.call = {.backend = &weir_resp_backend, .arg = arg},
                        .session = s,
                        .out = out,
                        .now_ns = now_ns};
    batch b;
    if (s->completion.pending && weir_completion_is_pending(&s->completion))
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    weir_access_refresh(s->options->access);
    weir_login_refresh(&s->login, s->options->access, s->completion.ctx);
    b.len = b.bytes = 0;
    b.max = s->completion.pending ? weir_completion_len(&s->completion) : WEIR_BATCH_MAX;
    b.in = s->transaction == WEIR_RESP_RUNNING ? &s->queue : in;
    while (!s->closing && !c.waits && c.stop == WEIR_SESSION_READ) {
        if (weir_buffer_len(out) > out_pause)
            return end(&c, &b, WEIR_SESSION_AGAIN);
        if (weir_buffer_len(b.in) == b.bytes) {
            if (b.in == in || !flush(&c, &b))
                break;
            weir_resp_end_transaction(s);
            b.in = in;
            continue;
        }
        weir_resp_result result = weir_resp_next(&s->parser, weir_buffer_data(b.in) + b.bytes,
                                                 weir_buffer_len(b.in) - b.bytes, &request);
        c.call.args = request.args;
        if (result == WEIR_RESP_REQUEST) {
            run(&c, &b, &request);
            continue;
        }
        if (!flush(&c, &b))
            break;
        weir_buffer_consume(b.in, request.used);
        if (result == WEIR_RESP_NEED_MORE)
            break;
        if (result == WEIR_RESP_ERROR)
            weir_call_error(&c.call, "ERR %s", request.error);
        s->closing = true;
    }
    return end(&c, &b, WEIR_SESSION_READ);
}
