/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The session: requests by name to the functions that answer them, each with exactly one reply.
 * Takes and checks that stand in a row are decided as one batch, so that the store can fetch their
 * states together. */

#include "codec/resp_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_resp_put_errorf(weir_resp_call *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t most = sizeof text - 1;
    weir_resp_put_error(c->out, text, len < 0 ? 0 : (size_t)len < most ? (size_t)len : most);
}

/* ---- what every client may send -------------------------------------------------------------- */

static void ping(weir_resp_call *c)
{
    if (c->args == 2)
        weir_resp_put_bulk(c->out, c->arg[1].at, c->arg[1].len);
    else
        weir_resp_put_simple(c->out, "PONG");
}

static void echo(weir_resp_call *c)
{
    weir_resp_put_bulk(c->out, c->arg[1].at, c->arg[1].len);
}

static void quit(weir_resp_call *c)
{
    weir_resp_put_simple(c->out, "OK");
    c->session->closing = true;
}

/* There are no transactions. A client that begins one sends what belongs to it without waiting for
 * an answer, and must not be charged for it. */
static void multi(weir_resp_call *c)
{
    c->session->multi = true;
    weir_resp_put_errorf(c, "ERR there are no transactions: send the commands in a pipeline "
                            "without MULTI");
}

static void exec(weir_resp_call *c)
{
    const char *name = weir_resp_call_is(c, 0, "EXEC") ? "EXEC" : "DISCARD";
    if (!c->session->multi)
        weir_resp_put_errorf(c, "ERR %s without MULTI", name);
    else if (name[0] == 'E')
        weir_resp_put_errorf(c, "EXECABORT Transaction discarded because of previous errors.");
    else
        weir_resp_put_simple(c->out, "OK");
    c->session->multi = false;
}

/* As if the connection were new. */
static void reset(weir_resp_call *c)
{
    weir_resp_session *s = c->session;
    s->proto = 2;
    s->authenticated = s->options->password == NULL;
    s->name_len = 0;
    s->multi = false;
    weir_resp_put_simple(c->out, "RESET");
}

static void command(weir_resp_call *c);
static void help(weir_resp_call *c);

/* Whether the reply is a decision, which WITHNAMES turns into a map. */
enum { PLAIN = false, NAMES = true };

static const weir_resp_command commands[] = {
    {"WEIR.TAKE", NULL, 3, 5, 2, NAMES, "WEIR.TAKE policy key [COST n] [WITHNAMES]"},
    {"WEIR.CHECK", NULL, 3, 5, 2, NAMES, "WEIR.CHECK policy-text key [COST n] [WITHNAMES]"},
    {"WEIR.TAKEALL", weir_resp_take_all, 5, 0, 3, NAMES,
     "WEIR.TAKEALL n policy key cost [policy key cost ...] [WITHNAMES]"},
    {"WEIR.RESERVE", weir_resp_reserve, 6, 6, 2, NAMES,
     "WEIR.RESERVE policy key n TTL time [WITHNAMES]"},
    {"WEIR.COMMIT", weir_resp_commit, 3, 3, 0, NAMES, "WEIR.COMMIT id actual [WITHNAMES]"},
    {"WEIR.CANCEL", weir_resp_cancel, 2, 2, 0, NAMES, "WEIR.CANCEL id [WITHNAMES]"},
    {"WEIR.PEEK", weir_resp_peek, 3, 5, 2, NAMES, "WEIR.PEEK policy key [COST n] [WITHNAMES]"},
    {"WEIR.REFUND", weir_resp_refund, 4, 4, 2, NAMES, "WEIR.REFUND policy key n [WITHNAMES]"},
    {"WEIR.RESET", weir_resp_reset, 3, 3, 2, PLAIN, "WEIR.RESET policy key"},
    {"WEIR.EXPLAIN", weir_resp_explain, 3, 3, 2, PLAIN, "WEIR.EXPLAIN policy key"},
    {"WEIR.POLICY", weir_resp_policy, 2, 0, 0, PLAIN,
     "WEIR.POLICY LIST | GET name | SET name policy-text | DEL name"},
    {"WEIR.TOP", weir_resp_top, 2, 4, 0, PLAIN, "WEIR.TOP policy [denied|allowed] [k]"},
    {"WEIR.HELP", help, 1, 1, 0, PLAIN, "WEIR.HELP"},
    {"CL.THROTTLE", weir_resp_throttle, 1, 0, 1, PLAIN,
     "CL.THROTTLE key max_burst count period [quantity]"},
    {"PING", ping, 1, 2, 0, PLAIN, "PING [text]"},
    {"ECHO", echo, 2, 2, 0, PLAIN, "ECHO text"},
    {"HELLO", weir_resp_hello, 1, 0, 0, PLAIN,
     "HELLO [2|3 [AUTH default password] [SETNAME name]]"},
    {"AUTH", weir_resp_auth, 2, 3, 0, PLAIN, "AUTH [default] password"},
    {"SELECT", weir_resp_select, 2, 2, 0, PLAIN, "SELECT 0"},
    {"CLIENT", weir_resp_client, 2, 0, 0, PLAIN, "CLIENT ID | GETNAME | SETNAME name | INFO"},
    {"INFO", weir_resp_info, 1, 0, 0, PLAIN, "INFO"},
    {"CONFIG", weir_resp_config, 2, 0, 0, PLAIN, "CONFIG GET name"},
    {"COMMAND", command, 1, 0, 0, PLAIN, "COMMAND [COUNT | LIST | INFO name ...]"},
    {"RESET", reset, 1, 1, 0, PLAIN, "RESET"},
    {"MULTI", multi, 1, 1, 0, PLAIN, "MULTI (not supported; commands up to EXEC are rejected)"},
    {"EXEC", exec, 1, 1, 0, PLAIN, "EXEC"},
    {"DISCARD", exec, 1, 1, 0, PLAIN, "DISCARD"},
    {"QUIT", quit, 1, 0, 0, PLAIN, "QUIT"},
};

enum { TAKE, CHECK, COMMANDS = sizeof commands / sizeof commands[0] };

static void help(weir_resp_call *c)
{
    weir_resp_put_array(c->out, COMMANDS);
    for (int i = 0; i < COMMANDS; i++)
        weir_resp_put_text(c->out, commands[i].usage);
}

enum { NAME_ROOM = 32 };

/* A command's name in lower case, with its end. Returns the length. */
static size_t lower(const char *name, char buf[NAME_ROOM])
{
    size_t len = 0;
    for (; name[len]; len++)
        buf[len] = (char)(name[len] >= 'A' && name[len] <= 'Z' ? name[len] - 'A' + 'a' : name[len]);
    buf[len] = '\0';
    return len;
}

static void put_lower(weir_resp_call *c, const char *name)
{
    char text[NAME_ROOM];
    weir_resp_put_bulk(c->out, text, lower(name, text));
}

/* As COMMAND INFO of Redis: name, arity, flags, first key, last key, step. */
static void put_command(weir_resp_call *c, const weir_resp_command *cmd)
{
    int key = cmd->key;
    /* Its last key is the second argument from the end, or the third with WITHNAMES. The step is 3,
     * so -2 finds it in both cases. */
    bool many = cmd->run == weir_resp_take_all;
    bool fixed = cmd->args_min == cmd->args_max && !cmd->names;
    weir_resp_put_array(c->out, 6);
    put_lower(c, cmd->name);
    weir_resp_put_i64(c->out, fixed ? cmd->args_min : -cmd->args_min);
    weir_resp_put_array(c->out, key > 0);
    if (key > 0)
        weir_resp_put_simple(c->out, "write");
    weir_resp_put_i64(c->out, key);
    weir_resp_put_i64(c->out, many ? -2 : key);
    weir_resp_put_i64(c->out, many ? 3 : key > 0);
}

static const weir_resp_command *find_command(weir_resp_arg name)
{
    if (weir_resp_word_is(name, "WEIR.TAKE")) /* nearly all there are; with no call */
        return &commands[TAKE];
    for (int i = 0; i < COMMANDS; i++) {
        if (weir_resp_word_is(name, commands[i].name))
            return &commands[i];
    }
    return NULL;
}

static void put_command_info(weir_resp_call *c)
{
    weir_resp_put_array(c->out, c->args - 2);
    for (size_t i = 2; i < c->args; i++) {
        const weir_resp_command *cmd = find_command(c->arg[i]);
        if (cmd)
            put_command(c, cmd);
        else
            weir_resp_put_null(c->out, c->session->proto);
    }
}

static void command(weir_resp_call *c)
{
    if (c->args == 1) {
        weir_resp_put_array(c->out, COMMANDS);
        for (int i = 0; i < COMMANDS; i++)
            put_command(c, &commands[i]);
    } else if (weir_resp_call_is(c, 1, "COUNT")) {
        weir_resp_put_i64(c->out, COMMANDS);
    } else if (weir_resp_call_is(c, 1, "LIST")) {
        weir_resp_put_array(c->out, COMMANDS);
        for (int i = 0; i < COMMANDS; i++)
            put_lower(c, commands[i].name);
    } else if (weir_resp_call_is(c, 1, "INFO")) {
        put_command_info(c);
    } else { /* DOCS, which redis-cli asks for on a terminal: an empty map lets it go on */
        weir_resp_put_map(c->out, 0, c->session->proto);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Takes and checks that wait to be decided together. */
typedef struct batch {
    size_t len;
    size_t max;   /* if they were asked about before: as many as then */
    size_t bytes; /* of `in`, from its front, that they take */
    weir_buffer *in;
    weir_request ask[WEIR_BATCH_MAX];
    bool with_names[WEIR_BATCH_MAX]; /* of each request */
} batch;

static bool answer_batch(weir_resp_call *c, batch *b)
{
    weir_resp_session *s = c->session;
    if (!weir_service_take(s->options->service, &s->completion, b->ask, b->len, c->now_ns)) {
        c->waits = true;
        return false;
    }
    bool with_names = c->with_names; /* of the request that is being read */
    for (size_t i = 0; i < b->len; i++) {
        c->with_names = b->with_names[i];
        weir_resp_put_answer(c, &b->ask[i]);
    }
    c->with_names = with_names;
    weir_buffer_consume(b->in, b->bytes);
    b->len = b->bytes = 0;
    b->max = WEIR_BATCH_MAX;
    return true;
}

/* Answers those there are, and drops them from `in`; what they point to stays until more is read.
 * Returns false, with none of it done, if an engine must be waited for. */
static inline bool flush(weir_resp_call *c, batch *b)
{
    return b->len == 0 || answer_batch(c, b);
}

static bool good_number_of_args(const weir_resp_command *cmd, size_t args)
{
    return args >= (size_t)cmd->args_min && (cmd->args_max == 0 || args <= (size_t)cmd->args_max);
}

static bool may_run(weir_resp_call *c, const weir_resp_command *cmd)
{
    if (!cmd) {
        weir_resp_put_errorf(c, "ERR unknown command '%.*s'; WEIR.HELP lists those there are",
                             c->arg[0].len < 64 ? (int)c->arg[0].len : 64,
                             (const char *)c->arg[0].at);
        return false;
    }
    if (!good_number_of_args(cmd, c->args)) {
        char name[NAME_ROOM];
        lower(cmd->name, name);
        weir_resp_put_errorf(c, "ERR wrong number of arguments for '%s' command", name);
        return false;
    }
    if (!c->session->authenticated && cmd->run != weir_resp_auth && cmd->run != weir_resp_hello &&
        cmd->run != quit && cmd->run != reset) {
        weir_resp_put_errorf(c, "NOAUTH Authentication required.");
        return false;
    }
    if (c->session->multi && cmd->run != exec && cmd->run != reset && cmd->run != quit) {
        weir_resp_put_errorf(c, "ERR not done, since MULTI was refused");
        return false;
    }
    return true;
}

/* Puts a take or a check into the batch; or, if it is in error, answers what is there and says
 * so. */
static void add_to_batch(weir_resp_call *c, bool by_text, batch *b, const weir_resp_request *r)
{
    if (b->len == b->max && !flush(c, b))
        return;
    const char *error = weir_resp_read_ask(c, by_text, &b->ask[b->len]);
    if (!error) {
        b->with_names[b->len++] = c->with_names;
        b->bytes += r->used;
        if (r->decoded) /* the next request's words will lie where these do */
            flush(c, b);
    } else if (flush(c, b)) {
        weir_resp_put_ask_error(c, error);
        weir_buffer_consume(b->in, r->used);
    }
}

/* Removes WITHNAMES from the end of the arguments. An argument that the command needs is never read
 * as WITHNAMES, so a key may have that name. */
static inline void read_with_names(weir_resp_call *c, const weir_resp_command *cmd)
{
    c->with_names = false;
    if (cmd && c->args > (size_t)cmd->args_min && cmd->names &&
        weir_resp_call_is(c, c->args - 1, "WITHNAMES")) {
        c->with_names = true;
        c->args--;
    }
}

/* Whether the reply may have to be held back: earlier replies must not wait with it. */
static bool gives_password(const weir_resp_call *c, const weir_resp_command *cmd)
{
    return c->session->options->password && cmd &&
           (cmd->run == weir_resp_auth || cmd->run == weir_resp_hello);
}

/* Runs a request, whose bytes come behind those of the batch. */
static void run(weir_resp_call *c, batch *b, const weir_resp_request *r)
{
    const weir_resp_command *cmd = find_command(c->arg[0]);
    read_with_names(c, cmd);
    bool batched = cmd == &commands[TAKE] || cmd == &commands[CHECK];
    if (batched && good_number_of_args(cmd, c->args) && c->session->authenticated &&
        !c->session->multi) {
        add_to_batch(c, cmd == &commands[CHECK], b, r);
        return;
    }
    if (!flush(c, b))
        return;
    if (gives_password(c, cmd) && weir_buffer_len(c->out) > 0) {
        c->stop = WEIR_SESSION_AGAIN;
        return;
    }
    if (may_run(c, cmd))
        cmd->run(c);
    else if (!cmd && r->is_inline && weir_resp_has_control(r))
        c->session->closing = true; /* no client of Redis: as after a protocol error */
    if (c->waits)
        return;
    weir_buffer_consume(b->in, r->used);
    b->max = WEIR_BATCH_MAX;
}

void weir_resp_session_init(weir_resp_session *s, weir_resp_options *options)
{
    *s = (weir_resp_session){
        .options = options,
        .id = options->first_id + options->sessions++ * options->id_step,
        .proto = 2,
        .authenticated = options->password == NULL,
    };
    weir_resp_init(&s->parser, NULL);
}

void weir_resp_session_close(weir_resp_session *s)
{
    weir_completion_cancel(&s->completion);
}

/* What an engine is asked about is read again, from the front of `in`, once it has answered. */
static weir_session_step end(weir_resp_call *c, batch *b, weir_session_next next)
{
    if (c->waits || !flush(c, b)) {
        weir_resp_init(&c->session->parser, NULL);
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    }
    if (c->stop != WEIR_SESSION_READ) {
        if (c->stop == WEIR_SESSION_AGAIN) /* the request is read again, too */
            weir_resp_init(&c->session->parser, NULL);
        return (weir_session_step){c->stop, c->held_ns};
    }
    return (weir_session_step){.next = c->session->closing ? WEIR_SESSION_CLOSE : next};
}

weir_session_step weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_resp_arg arg[WEIR_RESP_ARGS_MAX];
    weir_resp_request request = {.arg = arg, .words = s->options->words};
    weir_resp_call c = {.session = s, .arg = arg, .out = out, .now_ns = now_ns};
    batch b;
    b.len = b.bytes = 0;
    b.max = WEIR_BATCH_MAX;
    b.in = in;
    if (s->completion.pending) {
        b.max = weir_completion_len(&s->completion);
        if (weir_completion_is_pending(&s->completion))
            return (weir_session_step){.next = WEIR_SESSION_PENDING};
    }
    while (!s->closing && !c.waits && c.stop == WEIR_SESSION_READ) {
        if (weir_buffer_len(out) > out_pause)
            return end(&c, &b, WEIR_SESSION_AGAIN);
        if (weir_buffer_len(in) == b.bytes)
            break;
        weir_resp_result result = weir_resp_next(&s->parser, weir_buffer_data(in) + b.bytes,
                                                 weir_buffer_len(in) - b.bytes, &request);
        c.args = request.args;
        if (result == WEIR_RESP_REQUEST) {
            run(&c, &b, &request);
            continue;
        }
        if (!flush(&c, &b))
            break;
        if (result == WEIR_RESP_ERROR)
            weir_resp_put_errorf(&c, "ERR %s", request.error);
        weir_buffer_consume(in, request.used);
        if (result == WEIR_RESP_NEED_MORE)
            break;
        s->closing = true; /* bad bytes, or a browser's */
    }
    return end(&c, &b, WEIR_SESSION_READ);
}
