/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A template is checked when it is configured, and read again for every denial: a denial needs no
 * parsed form. The nginx module compiles this file without the rest of the codec. */

#include "codec/answer/fields.h"

#include "core/decision.h"
#include "core/wide.h"
#include "port/assert.h"

#include <string.h>

typedef enum placeholder {
    POLICY,
    LIMIT,
    REMAINING,
    COST,
    RETRY_AFTER,
    RETRY_AFTER_MS,
    RESET_AFTER,
    RESET_AT,
    PLACEHOLDERS /* not a placeholder */
} placeholder;

static const char *const names[PLACEHOLDERS] = {"policy",      "limit",       "remaining",
                                                "cost",        "retry_after", "retry_after_ms",
                                                "reset_after", "reset_at"};

/* The length of the name between the braces at the front of a text: lower-case letters and '_'.
 * Returns 0 if the text does not begin with a placeholder. */
static size_t name_len(const char *text, size_t len)
{
    size_t n = 1;
    while (n < len && ((text[n] >= 'a' && text[n] <= 'z') || text[n] == '_'))
        n++;
    return len > 0 && text[0] == '{' && n < len && text[n] == '}' ? n - 1 : 0;
}

static placeholder find(const char *name, size_t len)
{
    size_t i = 0;
    while (i < PLACEHOLDERS && (strlen(names[i]) != len || memcmp(names[i], name, len) != 0))
        i++;
    return (placeholder)i;
}

const char *weir_denial_body_placeholder(size_t i)
{
    return i < PLACEHOLDERS ? names[i] : NULL;
}

const char *weir_denial_body_check(const char *text, size_t len, size_t *ret_at)
{
    if (len > WEIR_DENIAL_BODY_MAX) {
        *ret_at = 0;
        return "longer than 16384 bytes";
    }
    for (size_t i = 0; i < len; i++) {
        size_t n = name_len(text + i, len - i);
        if (text[i] != '\0' && (n == 0 || find(text + i + 1, n) != PLACEHOLDERS))
            continue;
        *ret_at = i;
        return text[i] == '\0' ? "a NUL byte" : "unknown placeholder";
    }
    return NULL;
}

static void put_number(weir_buffer *out, int64_t v)
{
    char digits[WEIR_I64_MAX_LEN];
    weir_buffer_append(out, digits, weir_i64_print(digits, v));
}

/* The number that a placeholder stands for; not of POLICY. */
static int64_t number_of(placeholder p, const weir_answered *a, int64_t cost, int64_t now_ns)
{
    const weir_decision *d = a->decision;
    bool resets = a->resets && !d->never;
    int64_t retry_ns = resets ? d->retry_after_ns : 0, reset_ns = resets ? d->reset_after_ns : 0;
    switch (p) {
    case LIMIT:
        return d->limit;
    case REMAINING:
        return d->remaining;
    case COST:
        return cost;
    case RETRY_AFTER:
        return weir_answer_wait_s(a, retry_ns);
    case RETRY_AFTER_MS:
        return weir_ms_ceil(retry_ns);
    case RESET_AFTER:
        return weir_answer_wait_s(a, reset_ns);
    case RESET_AT:
        if (!resets)
            return 0;
        return weir_answer_spread_s(a, reset_ns) + weir_s_ceil(weir_ns_add(now_ns, reset_ns));
    case POLICY:
    case PLACEHOLDERS:
        break;
    }
    return 0;
}

void weir_denial_body_put(weir_buffer *out, const char *text, const weir_answered *a, int64_t cost,
                          int64_t now_ns)
{
    size_t rest = strlen(text);
    WEIR_ASSERT(rest <= WEIR_DENIAL_BODY_MAX);
    while (rest > 0) {
        const char *brace = memchr(text, '{', rest);
        size_t before = brace ? (size_t)(brace - text) : rest;
        weir_buffer_append(out, text, before);
        text += before;
        rest -= before;
        if (rest == 0)
            return;
        size_t n = name_len(text, rest);
        placeholder p = n > 0 ? find(text + 1, n) : PLACEHOLDERS;
        size_t used = p == PLACEHOLDERS ? 1 : n + 2;
        if (p == PLACEHOLDERS)
            weir_buffer_append_byte(out, '{');
        else if (p != POLICY)
            put_number(out, number_of(p, a, cost, now_ns));
        else if (a->name.len == 0)
            weir_buffer_append(out, "limit", 5);
        else
            weir_buffer_append(out, a->name.at, a->name.len);
        text += used;
        rest -= used;
    }
}
