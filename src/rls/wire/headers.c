/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Appends the header fields of a RateLimitResponse: in the format of envoyproxy/ratelimit or of
 * limitador, or those of the flavours that `envoy.headers.flavour` names. */

#include "rls/wire/message.h"

#include <string.h>

enum { DECIDED_MAX = 16 }; /* decisions that weir_answer_fields() accepts */

/* Writes the decisions as weir_answer_fields() wants them: all, or the shown one and the first
 * others. Returns their number. */
static size_t list_answered(const weir_rls_response *r, weir_answered ret[static DECIDED_MAX],
                            size_t *ret_shown)
{
    size_t n = 0;
    for (size_t i = 0; i < r->decided_len; i++) {
        if (n == DECIDED_MAX - (i < r->shown) && i != r->shown)
            continue;
        const weir_rls_decided *d = &r->decided[i];
        if (i == r->shown)
            *ret_shown = n;
        ret[n++] = (weir_answered){.name = d->rule,
                                   .policy = d->policy,
                                   .decision = d->decision,
                                   .resets = !d->decision->never,
                                   .next_ns = d->next_ns,
                                   .key = d->key,
                                   .spread = r->retry_spread};
    }
    return n;
}

size_t weir_rls_fields(const weir_rls_response *r, weir_answer_field *ret, char *buf)
{
    weir_answered all[DECIDED_MAX];
    size_t n = 0, shown = 0;
    for (; n < r->headers_len; n++)
        ret[n] = (weir_answer_field){r->headers[n].name,
                                     {r->headers[n].value, strlen(r->headers[n].value)}};
    if (r->decided_len == 0)
        return n;
    size_t all_len = list_answered(r, all, &shown);
    size_t fields = weir_answer_fields(r->flavours, all, all_len, shown, r->now_ns, &ret[n], buf);
    /* Waiting does not help a request that is allowed, such as in shadow mode. */
    for (size_t i = 0; i < fields; i++) {
        if (r->code == WEIR_RLS_OVER_LIMIT ||
            strcmp(ret[r->headers_len + i].name, "Retry-After") != 0)
            ret[n++] = ret[r->headers_len + i];
    }
    return n;
}
