/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_ANSWERED_H
#define WEIR_CODEC_ANSWER_ANSWERED_H
/* The decision of a request of the service, for its header fields. */

#include "codec/answer/fields.h"
#include "service/request.h"

/*  name  of the policy, as the fields show it.
 *  rest  what the listener sets; NULL: nothing. */
static inline weir_answered weir_answered_of(const weir_request *r, weir_slice name,
                                             const weir_answer *rest)
{
    return (weir_answered){.name = name,
                           .policy = r->policy,
                           .decision = &r->decision,
                           .unit = r->answer ? r->answer->unit : WEIR_UNIT_UNSET,
                           .resets = r->reason != WEIR_BY_DENY_LIST,
                           .next_ns = r->next_ns,
                           .key = r->key,
                           .spread = weir_answer_spread(r->answer, rest)};
}

#endif
