/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: replies of a daemon, as the nginx module reads them. The first byte chooses the
 * number of limits in the question. The result for a prefix is final, or asks for more bytes. A
 * decision is one that the module can use. */

#include "fuzz.h"

#include "daemon_wire.h"

static void check_reply(const uint8_t *copy, size_t len, size_t limits, weir_ngx_reading r,
                        const weir_ngx_reply *reply)
{
    if (r == WEIR_NGX_READ_MORE || r == WEIR_NGX_READ_BAD)
        return;
    CHECK(reply->used >= 1 && reply->used <= len);
    if (r == WEIR_NGX_READ_DECISION) {
        const weir_decision *d = &reply->decision;
        CHECK(limits > 0 && reply->index < limits && d->remaining <= d->limit);
        CHECK(d->remaining >= 0 && d->retry_after_ns >= 0 && d->reset_after_ns >= 0);
        CHECK(d->delay_ns >= 0 && !(d->allowed && d->retry_after_ns > 0));
        return;
    }
    CHECK(r == WEIR_NGX_READ_ERROR || limits == 0);
    CHECK((const uint8_t *)reply->error.at + reply->error.len <= copy + len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    size_t limits = data[0] % (WEIR_NGX_ASK_MAX + 1);
    weir_ngx_reading last = WEIR_NGX_READ_MORE;
    for (size_t len = 0; len < size; len++) {
        uint8_t *copy = exact_copy(data + 1, len);
        weir_ngx_reply reply;
        weir_ngx_reading r = weir_ngx_wire_read(copy, len, limits, &reply);
        check_reply(copy, len, limits, r, &reply);
        CHECK(last == WEIR_NGX_READ_MORE || r == last);
        last = r;
        free(copy);
    }
    return 0;
}
