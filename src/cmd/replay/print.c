/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints decisions as JSON lines. Millions of them may be printed, so they are formatted without
 * printf(). */

#include "cmd/replay/print.h"

#include <string.h>

#define NUMBER_MAX 20  /* digits of a number */
#define PIECE_MAX  320 /* bytes of a line without its key and policy */

static char *literal(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

/* v >= 0, as are all numbers of a decision. */
static char *number(char *at, int64_t v)
{
    char digits[NUMBER_MAX];
    char *first = digits + sizeof digits;
    uint64_t rest = (uint64_t)v;
    do {
        *--first = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    size_t len = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, len);
    return at + len;
}

void replay_print_decision(out_stream *out, const replay_answer *answer)
{
    const weir_decision *d = &answer->decision;
    char *at = literal(out_reserve(out, PIECE_MAX), "{\"t_ns\":");
    at = literal(number(at, answer->t_ns), ",\"key\":\"");
    out_commit(out, at);
    out_json(out, answer->key, answer->key_len);
    at = literal(out_reserve(out, PIECE_MAX), "\",\"cost\":");
    at = literal(number(at, answer->cost), ",\"allowed\":");
    at = literal(at, d->allowed ? "true" : "false");
    at = number(literal(at, ",\"limit\":"), d->limit);
    at = number(literal(at, ",\"remaining\":"), d->remaining);
    at = literal(at, ",\"retry_after_ns\":");
    at = d->never ? literal(at, "null") : number(at, d->retry_after_ns);
    at = number(literal(at, ",\"reset_after_ns\":"), d->reset_after_ns);
    at = number(literal(at, ",\"delay_ns\":"), d->delay_ns);
    at = number(literal(at, ",\"layer\":"), d->layer);
    if (answer->policy) {
        out_commit(out, literal(at, ",\"policy\":\""));
        out_json(out, answer->policy, strlen(answer->policy));
        at = literal(out_reserve(out, PIECE_MAX), "\"");
    }
    if (answer->reason)
        at = literal(literal(literal(at, ",\"reason\":\""), answer->reason), "\"");
    out_commit(out, literal(at, "}\n"));
}
