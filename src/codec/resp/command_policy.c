/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs WEIR.POLICY (LIST, GET, SET and DEL of named policies) and CL.THROTTLE (redis-cell). */

#include "codec/resp/command.h"

#include <string.h>

/* ---- WEIR.POLICY ----------------------------------------------------------------------------- */

static void put_count(weir_call *c, const char *name, size_t n)
{
    weir_call_put_text(c, name);
    c->backend->integer(c, (int64_t)n);
}

void weir_call_put_rule(weir_call *c, const weir_rule_view *rule)
{
    c->backend->map(c, 6);
    weir_call_put_text(c, "name");
    weir_call_put_text(c, rule->name);
    weir_call_put_text(c, "limit");
    weir_call_put_text(c, rule->limit);
    put_count(c, "overrides", rule->overrides);
    put_count(c, "allow", rule->allow);
    put_count(c, "deny", rule->deny);
    weir_call_put_text(c, "shadow");
    c->backend->boolean(c, rule->shadow);
}

/* Terminates an argument. Returns false if it is too long or has a NUL in it. */
static bool copy_arg(weir_slice arg, char *buf, size_t size)
{
    if (arg.len >= size || memchr(arg.at, '\0', arg.len))
        return false;
    memcpy(buf, arg.at, arg.len);
    buf[arg.len] = '\0';
    return true;
}

static void set_policy(weir_call *c)
{
    char name[WEIR_RULE_NAME_MAX + 2], limit[WEIR_POLICY_TEXT_MAX * 2];
    weir_policy_error e = {0};
    if (!c->backend->may_change(c, c->arg[2]))
        return;
    if (!copy_arg(c->arg[2], name, sizeof name)) {
        weir_call_error(c, "ERR the policy's name: expected 1 to %d bytes without NUL",
                        WEIR_RULE_NAME_MAX);
        return;
    }
    if (!copy_arg(c->arg[3], limit, sizeof limit)) {
        weir_call_error(c, "ERR the policy text: expected at most %zu bytes without NUL",
                        sizeof limit - 1);
        return;
    }
    weir_status st = c->backend->set_policy(c, name, limit, &e);
    if (st == WEIR_OK)
        c->backend->simple(c, "OK");
    else if (e.column > 0)
        weir_call_error(c, "ERR policy: column %u: %s", e.column, e.text);
    else if (e.text[0])
        weir_call_error(c, "ERR %s", e.text);
    else if (st == WEIR_E_FULL)
        weir_call_error(c, "ERR there are %d policies, the maximum: delete one first",
                        WEIR_RULES_MAX);
    else
        weir_call_status_error(c, st, 1, "");
}

static void drop_policy(weir_call *c)
{
    if (!c->backend->may_change(c, c->arg[2]))
        return;
    weir_status st = c->backend->drop_policy(c, c->arg[2]);
    if (st == WEIR_OK || st == WEIR_E_ABSENT)
        c->backend->integer(c, st == WEIR_OK);
    else
        weir_call_status_error(c, st, 1, "");
}

void weir_run_policy(weir_call *c)
{
    if (c->args == 2 && weir_resp_word_is(c->arg[1], "LIST"))
        c->backend->list_policies(c);
    else if (c->args == 3 && weir_resp_word_is(c->arg[1], "GET"))
        c->backend->get_policy(c, c->arg[2]);
    else if (c->args == 4 && weir_resp_word_is(c->arg[1], "SET"))
        set_policy(c);
    else if (c->args == 3 && weir_resp_word_is(c->arg[1], "DEL"))
        drop_policy(c);
    else
        weir_call_error(c, "ERR syntax error, expected WEIR.POLICY LIST, GET name, "
                           "SET name policy-text or DEL name");
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

#define CELL_ERROR "Cell error: Store error: " /* redis-cell sends no ERR before it */

static bool read_cell_number(weir_call *c, size_t i, int64_t *ret)
{
    weir_slice a = c->arg[i];
    bool good = weir_throttle_number(a.at, a.len, ret);
    if (!good)
        weir_call_error(c, CELL_ERROR "Couldn't parse as integer: %.*s",
                        a.len < 200 ? (int)a.len : 200, a.at);
    return good;
}

static void put_throttle_result(weir_call *c, const weir_throttle_result *r, size_t key_len)
{
    const weir_throttle_answer *a = &r->answer;
    if (r->status == WEIR_OK) {
        const int64_t fields[] = {a->limited, a->limit, a->remaining, a->retry_after_s,
                                  a->reset_after_s};
        c->backend->integers(c, fields, 5, 0);
    } else if (r->numbers != WEIR_THROTTLE_OK) {
        weir_call_error(c, CELL_ERROR "%s", weir_throttle_status_text(r->numbers));
    } else if (r->why) {
        weir_call_error(c, "ERR %s", r->why);
    } else {
        weir_call_status_error(c, r->status, key_len, "");
    }
}

void weir_run_throttle(weir_call *c)
{
    if (c->args != 5 && c->args != 6) {
        weir_call_error(c, CELL_ERROR
                        "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                        "[<quantity>]");
        return;
    }
    weir_throttle t = {.quantity = 1};
    if (!read_cell_number(c, 2, &t.max_burst) || !read_cell_number(c, 3, &t.count) ||
        !read_cell_number(c, 4, &t.period_s) ||
        (c->args == 6 && !read_cell_number(c, 5, &t.quantity)))
        return;
    weir_throttle_result result;
    if (c->backend->throttle(c, &t, c->arg[1], &result))
        put_throttle_result(c, &result, c->arg[1].len);
}
