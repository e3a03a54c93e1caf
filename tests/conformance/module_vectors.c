/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the Redis module: commands of a fake server at the times of the
 * vectors, with a replica that must stay equal byte by byte. Replies are in whole microseconds. A
 * peek before each step must have the same verdict. The peeks alternate between RESP2 and RESP3,
 * and between replies without and with WITHNAMES. */

#include "vectors.h"

#include "module_server.h"

#include "core/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct module_ctx {
    const char *policy;
    unsigned peeks;
} module_ctx;

static module_bytes text_of(const char *text)
{
    return (module_bytes){text, strlen(text)};
}

static bool begin(void *ctx, const char *policy)
{
    module_ctx *m = ctx;
    m->policy = policy;
    module_server_open();
    return true;
}

static void end(void *ctx)
{
    (void)ctx;
    module_server_close();
}

/* Returns whether WEIR.PEEK replies with the requested type. */
static bool peek(module_ctx *m, const char *cost, const char *keep, bool *ret_allowed)
{
    const module_bytes args[] = {text_of("WEIR.PEEK"), text_of(m->policy),  text_of("k"),
                                 text_of("COST"),      text_of(cost),       text_of("KEEP"),
                                 text_of(keep),        text_of("WITHNAMES")};
    bool names = m->peeks & 1, resp3 = m->peeks & 2;
    m->peeks++;
    module_server_speak(resp3 ? 3 : 2);
    const module_reply *r = module_server_run(args, names ? 8 : 7);
    module_server_speak(2);
    if (!r || r->failed)
        return false;
    *ret_allowed = r->integer[names ? 2 : 1] == 1;
    if (!names)
        return r->maps == 0 && r->integer[0] == 6 && r->len == 7;
    bool next = strcmp(cost, "1") != 0 || r->integer[14] == r->integer[8]; /* retry_after_ms */
    size_t pairs = (r->len - 1) / 2, figures = pairs - 9;
    return r->maps == resp3 && r->integer[0] == (int64_t)(resp3 ? pairs : 2 * pairs) &&
           r->len == 1 + 2 * pairs && figures <= WEIR_FIGURES_MAX && next;
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    module_ctx *m = ctx;
    bool peeked;
    char cost[24], units[48];
    snprintf(cost, sizeof cost, "%" PRId64, s->cost);
    const char *verb = s->op == REFUND ? "refund" : s->op == CHARGE ? "charge" : "take";
    snprintf(units, sizeof units, "%s%s%s", cost, s->keep[0] ? "+" : "", s->keep);
    const module_bytes args[] = {text_of("WEIR.ASK"), text_of(verb), text_of(m->policy),
                                 text_of("k"), text_of(units)};
    module_server_set_time(s->t_ns);
    if (!peek(m, cost, s->keep[0] ? s->keep : "0", &peeked)) {
        fprintf(stderr,
                "    expected a decision from WEIR.PEEK before the step, in the requested type\n");
        return WEIR_E_SYNTAX;
    }
    const module_reply *r = module_server_run(args, 5);
    if (!r || r->failed) {
        bool refused = r && strstr(r->error, " do not support ");
        if (!refused)
            fprintf(stderr, "    replied: %s\n", r ? r->error : "nothing");
        return refused ? WEIR_E_UNSUPPORTED : WEIR_E_SYNTAX;
    }
    const int64_t *v = r->integer + 1;
    *ret = (weir_decision){
        .allowed = v[0] == 1,
        .limit = v[1],
        .remaining = v[2],
        .never = v[3] == -1,
        .retry_after_ns = v[3] == -1 ? INT64_MAX : v[3] * 1000,
        .reset_after_ns = v[4] * 1000,
        .delay_ns = v[5] * 1000,
        .layer = (uint32_t)v[6],
    };
    *ret_over = s->op == CHARGE ? s->cost - v[7] : 0;
    return r->len == 9 && (s->op != TAKE || ret->allowed == peeked) ? WEIR_OK : WEIR_E_SYNTAX;
}

static int64_t to_us(int64_t ns)
{
    return ns == INT64_MAX ? ns : (ns / 1000 + (ns % 1000 > 0)) * 1000;
}

static void round_up(weir_decision *d)
{
    d->retry_after_ns = to_us(d->retry_after_ns);
    d->reset_after_ns = to_us(d->reset_after_ns);
    d->delay_ns = to_us(d->delay_ns);
}

int main(int argc, char **argv)
{
    module_ctx m = {0};
    adapter d = {.name = "module",
                 .begin = begin,
                 .decide = decide,
                 .round = round_up,
                 .end = end,
                 .ctx = &m};
    return vectors_run(&d, argc - 1, argv + 1);
}
