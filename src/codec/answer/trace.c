/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */

#include "codec/answer/trace.h"

#include "service/limiter.h"

#include <string.h>

enum { VERSION_0_LEN = 55, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, SAMPLED = 1 };

/* Reads n bytes in hexadecimal digits, which must be lower case. Returns false for others. */
static bool read_hex(const char *at, size_t n, uint8_t *ret)
{
    for (size_t i = 0; i < 2 * n; i++) {
        int digit = at[i] >= 'A' && at[i] <= 'F' ? -1 : weir_hex_digit(at[i]);
        if (digit < 0)
            return false;
        ret[i / 2] = (uint8_t)(i % 2 ? ret[i / 2] | digit : digit << 4);
    }
    return true;
}

static bool is_zero(const uint8_t *at, size_t n)
{
    static const uint8_t zeros[16];
    return memcmp(at, zeros, n) == 0;
}

bool weir_trace_parent_read(weir_slice text, weir_trace_parent *ret)
{
    const char *at = text.at;
    uint8_t version, flags;
    if (text.len < VERSION_0_LEN || at[TRACE_AT - 1] != '-' || at[SPAN_AT - 1] != '-' ||
        at[FLAGS_AT - 1] != '-' || !read_hex(at, 1, &version) || version == 0xFF ||
        !read_hex(at + TRACE_AT, sizeof ret->trace_id, ret->trace_id) ||
        !read_hex(at + SPAN_AT, sizeof ret->span_id, ret->span_id) ||
        !read_hex(at + FLAGS_AT, 1, &flags))
        return false;
    /* Later versions may have more fields, each after a '-'. */
    if (text.len > VERSION_0_LEN && (version == 0 || at[VERSION_0_LEN] != '-'))
        return false;
    return flags & SAMPLED && !is_zero(ret->trace_id, sizeof ret->trace_id) &&
           !is_zero(ret->span_id, sizeof ret->span_id);
}

/* Copies a name, cut to WEIR_RULE_NAME_MAX bytes. */
static void copy(char *to, weir_slice name)
{
    size_t n = name.len < WEIR_RULE_NAME_MAX ? name.len : WEIR_RULE_NAME_MAX;
    if (n > 0)
        memcpy(to, name.at, n);
    to[n] = '\0';
}

void weir_trace_begin(weir_trace_span *s, const weir_trace_parent *parent, int64_t begun_ns)
{
    *s = (weir_trace_span){.parent = *parent, .begun_ns = begun_ns};
}

void weir_trace_decide(weir_trace_span *s, const weir_request *r)
{
    const weir_slice texts = {WEIR_COUNTS_TEXTS, sizeof WEIR_COUNTS_TEXTS - 1};
    s->allowed = r->decision.allowed;
    s->reason = weir_reason_word(r->reason);
    copy(s->policy, r->by_text ? texts : r->rule);
}

void weir_trace_answer(weir_trace_span *s, bool allowed)
{
    if (!s)
        return;
    s->allowed = allowed;
    s->reason = weir_reason_word(WEIR_BY_LIMIT);
}

void weir_trace_in(weir_trace_span *s, const char *context, weir_slice name)
{
    if (!s)
        return;
    s->context = context;
    copy(s->context_name, name);
}
