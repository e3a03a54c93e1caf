/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands: a table from names to functions, each of which writes exactly one reply. */

#include "codec/resp_commands.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct call {
    weir_resp_session *session;
    const weir_resp_arg *arg;
    size_t args;
    weir_buffer *out;
    int64_t now_ns;
} call;

/* ---- errors ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void put_errorf(call *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t most = sizeof text - 1;
    weir_resp_put_error(c->out, text, len < 0 ? 0 : (size_t)len < most ? (size_t)len : most);
}

static void put_wrong_args(call *c)
{
    char name[32];
    size_t len = c->arg[0].len < sizeof name - 1 ? c->arg[0].len : sizeof name - 1;
    for (size_t i = 0; i < len; i++) {
        char ch = (char)c->arg[0].at[i];
        name[i] = ch >= 'A' && ch <= 'Z' ? (char)(ch - 'A' + 'a') : ch;
    }
    put_errorf(c, "ERR wrong number of arguments for '%.*s' command", (int)len, name);
}

static void put_status(call *c, weir_status st, size_t key_len)
{
    if (st == WEIR_E_RANGE && (key_len == 0 || key_len > WEIR_KEY_MAX))
        put_errorf(c, "ERR the key has %zu bytes, expected 1 to %d", key_len, WEIR_KEY_MAX);
    else if (st == WEIR_E_NOMEM)
        put_errorf(c, "OOM the store is full and nothing could make room");
    else
        put_errorf(c, "ERR %s", weir_status_str(st));
}

/* ---- WEIR.CHECK ------------------------------------------------------------------------------ */

/* ns as ms, rounded up. */
static int64_t ms_ceil(int64_t ns)
{
    return ns / 1000000 + (ns % 1000000 > 0);
}

static void put_decision(weir_buffer *out, const weir_decision *d)
{
    weir_resp_put_array(out, 6);
    weir_resp_put_i64(out, d->allowed);
    weir_resp_put_i64(out, d->limit);
    weir_resp_put_i64(out, d->remaining);
    weir_resp_put_i64(out, d->never ? -1 : ms_ceil(d->retry_after_ns));
    weir_resp_put_i64(out, ms_ceil(d->reset_after_ns));
    weir_resp_put_i64(out, ms_ceil(d->delay_ns));
}

/* "COST n" at arg[3], or 1. Writes the error if it is neither. */
static bool read_cost(call *c, int64_t *ret)
{
    *ret = 1;
    if (c->args == 3)
        return true;
    if (!weir_resp_word_is(c->arg[3], "COST")) {
        put_errorf(c, "ERR syntax error, expected WEIR.CHECK policy-text key [COST n]");
        return false;
    }
    if (!weir_resp_i64(c->arg[4].at, c->arg[4].len, ret) || *ret < 0 || *ret > WEIR_COST_MAX) {
        put_errorf(c, "ERR the cost is not a whole number from 0 to %d", (int)WEIR_COST_MAX);
        return false;
    }
    return true;
}

/* WEIR.CHECK policy-text key [COST n] */
static void weir_check_command(call *c)
{
    if (c->args != 3 && c->args != 5) {
        put_wrong_args(c);
        return;
    }
    int64_t cost;
    if (!read_cost(c, &cost))
        return;
    weir_decision d;
    weir_policy_error e;
    weir_resp_arg text = c->arg[1], key = c->arg[2];
    weir_status st = weir_service_check(c->session->service, (const char *)text.at, text.len,
                                        key.at, key.len, c->now_ns, cost, &d, &e);
    if (st == WEIR_OK)
        put_decision(c->out, &d);
    else if (e.column > 0)
        put_errorf(c, "ERR policy: column %u: %s", e.column, e.text);
    else
        put_status(c, st, key.len);
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

#define CELL_ERROR "Cell error: Store error: " /* with no ERR before it, as redis-cell has it */

static bool read_cell_number(call *c, size_t i, int64_t *ret)
{
    const weir_resp_arg a = c->arg[i];
    size_t digits_at = a.len > 0 && (a.at[0] == '-' || a.at[0] == '+');
    int64_t n = 0;
    bool good = a.len > digits_at;
    for (size_t k = digits_at; k < a.len && good; k++) {
        int digit = a.at[k] - '0';
        good = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(n, 10, &n) &&
               !(a.at[0] == '-' ? __builtin_sub_overflow(n, digit, &n)
                                : __builtin_add_overflow(n, digit, &n));
    }
    if (good)
        *ret = n;
    else
        put_errorf(c, CELL_ERROR "Couldn't parse as integer: %.*s", a.len < 200 ? (int)a.len : 200,
                   (const char *)a.at);
    return good;
}

/* CL.THROTTLE key max_burst count period [quantity] */
static void throttle_command(call *c)
{
    if (c->args != 5 && c->args != 6) {
        put_errorf(c, CELL_ERROR "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                                 "[<quantity>]");
        return;
    }
    weir_throttle t = {.quantity = 1};
    if (!read_cell_number(c, 2, &t.max_burst) || !read_cell_number(c, 3, &t.count) ||
        !read_cell_number(c, 4, &t.period_s) ||
        (c->args == 6 && !read_cell_number(c, 5, &t.quantity)))
        return;
    weir_throttle_answer a;
    weir_throttle_status why;
    weir_resp_arg key = c->arg[1];
    weir_status st =
        weir_service_throttle(c->session->service, &t, key.at, key.len, c->now_ns, &a, &why);
    if (st == WEIR_OK) {
        weir_resp_put_array(c->out, 5);
        weir_resp_put_i64(c->out, a.limited);
        weir_resp_put_i64(c->out, a.limit);
        weir_resp_put_i64(c->out, a.remaining);
        weir_resp_put_i64(c->out, a.retry_after_s);
        weir_resp_put_i64(c->out, a.reset_after_s);
    } else if (why == WEIR_THROTTLE_ZERO_RATE) {
        put_errorf(c, CELL_ERROR "Zero rates are not supported");
    } else if (why == WEIR_THROTTLE_RANGE) {
        put_errorf(c, CELL_ERROR "The rate, burst or quantity does not fit in 64 bits of "
                                 "nanoseconds");
    } else {
        put_status(c, st, key.len);
    }
}

/* ---- what every client may send -------------------------------------------------------------- */

static void ping_command(call *c)
{
    if (c->args > 2)
        put_wrong_args(c);
    else if (c->args == 2)
        weir_resp_put_bulk(c->out, c->arg[1].at, c->arg[1].len);
    else
        weir_resp_put_simple(c->out, "PONG");
}

static void quit_command(call *c)
{
    weir_resp_put_simple(c->out, "OK");
    c->session->closing = true;
}

/* redis-cli asks for COMMAND DOCS when it starts on a terminal; an empty list makes it go on. */
static void command_command(call *c)
{
    weir_resp_put_array(c->out, 0);
}

typedef struct command {
    const char *name; /* in upper case */
    void (*run)(call *c);
} command;

static const command commands[] = {
    {"WEIR.CHECK", weir_check_command},
    {"CL.THROTTLE", throttle_command},
    {"PING", ping_command},
    {"QUIT", quit_command},
    {"COMMAND", command_command},
};

static void run_command(call *c)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (weir_resp_word_is(c->arg[0], commands[i].name)) {
            commands[i].run(c);
            return;
        }
    }
    size_t len = c->arg[0].len < 64 ? c->arg[0].len : 64;
    put_errorf(c, "ERR unknown command '%.*s', expected WEIR.CHECK, CL.THROTTLE, PING or QUIT",
               (int)len, (const char *)c->arg[0].at);
}

/* ---- the session ----------------------------------------------------------------------------- */

void weir_resp_session_init(weir_resp_session *s, weir_service *service)
{
    *s = (weir_resp_session){.service = service};
    weir_resp_init(&s->parser, NULL);
}

bool weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                           size_t out_pause, int64_t now_ns)
{
    weir_resp_arg arg[WEIR_RESP_ARGS_MAX];
    weir_resp_request request = {.arg = arg};
    while (!s->closing) {
        if (weir_buffer_len(out) > out_pause)
            return true;
        weir_resp_result result =
            weir_resp_next(&s->parser, weir_buffer_data(in), weir_buffer_len(in), &request);
        if (result == WEIR_RESP_REQUEST) {
            call c = {s, arg, request.args, out, now_ns};
            run_command(&c);
        } else if (result == WEIR_RESP_ERROR) {
            call c = {s, arg, 0, out, now_ns};
            put_errorf(&c, "ERR %s", request.error);
            s->closing = true;
        } else if (result == WEIR_RESP_HTTP_GUARD) {
            s->closing = true;
        }
        weir_buffer_consume(in, request.used);
        if (result == WEIR_RESP_NEED_MORE)
            break;
    }
    return false;
}
