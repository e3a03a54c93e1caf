/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CL.THROTTLE, as redis-cell has it: its arithmetic, its figures and its errors. */

#include "call.h"

#include "service/throttle.h"

#define CELL_ERROR "Cell error: Store error: " /* with no ERR before it */

static bool read_number(const weir_call *c, int i, int64_t *ret)
{
    weir_arg a = weir_call_arg(c, i);
    bool good = weir_throttle_number(a.at, a.len, ret);
    if (!good)
        weir_call_error(c, CELL_ERROR "Couldn't parse as integer: %.*s",
                        a.len < 200 ? (int)a.len : 200, a.at);
    return good;
}

static int answer(const weir_call *c, const weir_throttle_answer *a)
{
    redis.ReplyWithArray(c->ctx, 5);
    weir_call_i64(c, a->limited);
    weir_call_i64(c, a->limit);
    weir_call_i64(c, a->remaining);
    weir_call_i64(c, a->retry_after_s);
    weir_call_i64(c, a->reset_after_s);
    return REDIS_OK;
}

static int throttle(const weir_call *c, const weir_throttle *t)
{
    weir_open_key target;
    weir_cell cell;
    weir_throttle_answer a;
    weir_throttle_status why = WEIR_THROTTLE_OK;
    weir_interned *s = weir_intern_throttle();
    if (!s)
        return weir_call_error(c, "ERR %s", weir_status_str(WEIR_E_NOMEM));
    if (!weir_key_open(&target, c->ctx, c->argv[1], REDIS_READ | REDIS_WRITE))
        return weir_call_wrong_type(c);
    weir_moment at = weir_moment_now();
    weir_status st = weir_cell_open(&cell, &target, s, at.now_ns);
    if (st == WEIR_OK)
        why = weir_throttle_check(t, cell.state, at.now_ns, &a);
    if (st == WEIR_OK && why == WEIR_THROTTLE_OK)
        weir_cells_write(c->ctx, &cell, 1, at, "cl.throttle");
    weir_cell_close(&cell);
    weir_key_close(&target);
    if (st != WEIR_OK)
        return weir_call_error(c, "OOM the key has states of too many policies");
    if (why == WEIR_THROTTLE_OK)
        return answer(c, &a);
    return weir_call_error(c, CELL_ERROR "%s", weir_throttle_status_text(why));
}

/* CL.THROTTLE key max_burst count period [quantity] */
int weir_throttle_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    weir_throttle t = {.quantity = 1};
    if (argc != 5 && argc != 6)
        return weir_call_error(&c, CELL_ERROR
                               "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                               "[<quantity>]");
    if (!read_number(&c, 2, &t.max_burst) || !read_number(&c, 3, &t.count) ||
        !read_number(&c, 4, &t.period_s) || (argc == 6 && !read_number(&c, 5, &t.quantity)))
        return REDIS_OK;
    weir_arg key = weir_call_arg(&c, 1);
    if (key.len < 1 || key.len > WEIR_KEY_MAX)
        return weir_call_error(&c, "ERR the key has %zu bytes, expected 1 to %d", key.len,
                               WEIR_KEY_MAX);
    return throttle(&c, &t);
}
