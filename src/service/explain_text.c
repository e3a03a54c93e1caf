/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Writes durations, times, keys and decisions for people. */

#include "service/explain_text.h"

#include "core/decision.h"
#include "port/duration.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static void put_duration(weir_buffer *out, int64_t ns)
{
    char text[WEIR_DURATION_MAX];
    weir_buffer_append(out, text, weir_duration_print(text, ns, WEIR_DURATION_LONG));
}

/* "2026-11-21 09:30:00.123 UTC", rounded up to the millisecond. */
static void put_time(weir_buffer *out, int64_t t_ns)
{
    int64_t ms = t_ns / 1000000 + (t_ns % 1000000 > 0);
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char text[32] = "";
    gmtime_r(&s, &tm); /* cannot fail: the year is below 2300 */
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    weir_buffer_printf(out, "%s.%03d UTC", text, (int)(ms % 1000));
}

static void put_text(void *ctx, const char *at, size_t len)
{
    weir_buffer_append(ctx, at, len);
}

void weir_explain_key(weir_buffer *out, const char *key, size_t len)
{
    enum { SHOWN = 200 };
    weir_buffer_printf(out, "key      ");
    weir_text_escape(key, len < SHOWN ? len : SHOWN, WEIR_HEX_KEY, put_text, out);
    weir_buffer_printf(out, "%s\n", len > SHOWN ? "..." : "");
}

static void put_layer(weir_buffer *out, const weir_policy *p, uint32_t layer)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy one = {.layers = 1};
    one.layer[0] = p->layer[layer];
    weir_policy_print(&one, text, sizeof text);
    weir_buffer_printf(out, " under %s", text);
}

_Static_assert(WEIR_DECISION_FIELDS == 6, "the text has each field of a decision but delay_ns");

void weir_explain_state(weir_buffer *out, const weir_policy *p, const weir_decision *d,
                        bool shadowed, int64_t now_ns)
{
    weir_buffer_printf(out, "state    %" PRId64 " of %" PRId64 " free", d->remaining, d->limit);
    if (p->layers > 1)
        put_layer(out, p, d->layer);
    weir_buffer_printf(out, d->reset_after_ns > 0 ? "; full again in " : "; full\n");
    if (d->reset_after_ns > 0) {
        put_duration(out, d->reset_after_ns);
        weir_buffer_printf(out, "\n");
    }
    if (d->allowed) {
        weir_buffer_printf(
            out, "next     now%s\n",
            shadowed ? ", because the policy is in shadow mode; its limit would deny the request"
                     : "");
        return;
    }
    if (d->never || d->retry_after_ns > INT64_MAX - now_ns) {
        weir_buffer_printf(out, "next     never\n");
        return;
    }
    weir_buffer_printf(out, "next     in ");
    put_duration(out, d->retry_after_ns);
    weir_buffer_printf(out, ", at ");
    put_time(out, now_ns + d->retry_after_ns);
    weir_buffer_printf(out, "\n");
}
