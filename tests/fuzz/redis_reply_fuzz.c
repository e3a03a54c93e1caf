/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: replies of Redis, as the redis engine reads them. The values are the same
 * whether the reply comes whole or byte by byte. Each value lies within its bytes. The fast reader
 * of integers returns what the general reader returns. */

#include "fuzz.h"

#include "codec/resp/reply_reader.h"

enum { VALUES_MAX = 512, INTEGERS = 3 };

typedef struct reading {
    weir_resp_reading end;
    size_t used, values, replies;
    weir_resp_value value[VALUES_MAX];
} reading;

/* Continues to read at the end of the last value. Each read has a copy of exactly the bytes
 * left. */
static void read_on(reading *r, weir_resp_stream *reader, const uint8_t *data, size_t len)
{
    while (r->end != WEIR_RESP_READ_ERROR && r->values < VALUES_MAX) {
        size_t left = len - r->used, used = 0;
        uint8_t *copy = exact_copy(data + r->used, left);
        weir_resp_value *v = &r->value[r->values];
        r->end = weir_resp_stream_read(reader, copy, left, v, &used);
        if (r->end == WEIR_RESP_READ) {
            CHECK(used >= 1 && used <= left && v->depth <= WEIR_RESP_STREAM_DEPTH_MAX);
            bool text = v->type == WEIR_RESP_SIMPLE || v->type == WEIR_RESP_ERROR_REPLY ||
                        v->type == WEIR_RESP_BULK;
            CHECK(!text || (v->text >= (char *)copy && v->text + v->len <= (char *)copy + used));
            CHECK(v->last == (reader->depth == 0));
            v->text = NULL;
            r->used += used;
            r->values++;
            r->replies += v->last;
        }
        free(copy);
        if (r->end == WEIR_RESP_READ_MORE)
            return;
    }
}

/* Reads a reply that is an array of integers with both readers. */
static void compare_integers(const uint8_t *data, size_t size)
{
    int64_t at_once[INTEGERS];
    uint8_t *copy = exact_copy(data, size);
    size_t used = weir_resp_read_integers(copy, size, at_once, INTEGERS);
    if (used > 0) {
        weir_resp_stream reader = {0};
        size_t at = 0;
        for (size_t i = 0; i <= INTEGERS; i++) {
            weir_resp_value v;
            size_t n = 0;
            CHECK(weir_resp_stream_read(&reader, copy + at, size - at, &v, &n) == WEIR_RESP_READ);
            CHECK(i == 0 ? v.type == WEIR_RESP_ARRAY && v.len == INTEGERS
                         : v.type == WEIR_RESP_INTEGER && v.integer == at_once[i - 1]);
            CHECK(v.last == (i == INTEGERS));
            at += n;
        }
        CHECK(at == used);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reading whole, cut;
    if (size > 2048)
        return 0;
    memset(&whole, 0, sizeof whole);
    memset(&cut, 0, sizeof cut);
    weir_resp_stream a = {0}, b = {0};
    read_on(&whole, &a, data, size);
    for (size_t len = 0; len <= size; len++)
        read_on(&cut, &b, data, len);
    CHECK(memcmp(&a, &b, sizeof a) == 0 || whole.values == VALUES_MAX);
    CHECK(whole.values == cut.values && whole.used == cut.used && whole.replies == cut.replies);
    for (size_t i = 0; i < whole.values; i++) {
        const weir_resp_value *v = &whole.value[i], *w = &cut.value[i];
        CHECK(v->type == w->type && v->integer == w->integer && v->len == w->len &&
              v->depth == w->depth && v->last == w->last);
    }
    compare_integers(data, size);
    return 0;
}
