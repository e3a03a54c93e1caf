/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: replies, as the client commands of weir read them. Each value lies within its
 * bytes. A prefix of a reply needs more bytes. An error stays an error when more bytes follow. */

#include "fuzz.h"

#include "codec/resp/reply_reader.h"

static weir_resp_reading read_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = exact_copy(data, len);
    static weir_resp_reply reply;
    weir_resp_reading r = weir_resp_reply_read(copy, len, &reply);
    if (r == WEIR_RESP_READ) {
        CHECK(reply.used <= len && reply.values >= 1 && reply.values <= WEIR_RESP_VALUES_MAX);
        for (size_t i = 0; i < reply.values; i++) {
            const weir_resp_value *n = &reply.value[i];
            bool text = n->type == WEIR_RESP_SIMPLE || n->type == WEIR_RESP_ERROR_REPLY ||
                        n->type == WEIR_RESP_BULK;
            CHECK(!text || (n->text >= (char *)copy && n->text + n->len <= (char *)copy + len));
        }
        const weir_resp_value *end = reply.value + reply.values;
        CHECK(weir_resp_value_next(reply.value) == end);
        for (const weir_resp_value *at = reply.value; at < end && at < reply.value + 8; at++) {
            const weir_resp_value *n = weir_resp_value_member(at, "a");
            CHECK(!n || (n > at + 1 && n < weir_resp_value_next(at)));
        }
    }
    free(copy);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    weir_resp_reading last = WEIR_RESP_READ_MORE;
    for (size_t len = 0; len <= size; len++) {
        weir_resp_reading r = read_copy(data, len);
        CHECK(last == WEIR_RESP_READ_MORE || r == last);
        last = r;
    }
    return 0;
}
