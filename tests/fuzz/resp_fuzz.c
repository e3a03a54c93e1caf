/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: RESP requests. The first byte selects the limits, the second seeds the splits,
 * and the rest is the input. Whole and split input give the same requests and the same result. All
 * arguments lie within the bytes that were used. A request that is encoded as RESP is parsed to
 * itself. */

#include "fuzz.h"

#include "codec/resp/resp.h"

static const weir_resp_limits small_limits = {
    .args_max = 3, .arg_len_max = 6, .inline_len_max = 16, .request_len_max = 40};

/* Appends the request to the log as a multibulk request, and parses that again. */
static void log_request(const weir_resp_limits *limits, const weir_resp_request *req,
                        weir_buffer *log)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 22);
    weir_resp_put_array(&b, req->args);
    for (size_t i = 0; i < req->args; i++)
        weir_resp_put_bulk(&b, req->arg[i].at, req->arg[i].len);
    CHECK(!b.failed);
    weir_slice arg[WEIR_RESP_ARGS_MAX];
    weir_resp_request again = {.arg = arg}; /* without `words`, which only inline requests need */
    weir_resp_parser p;
    weir_resp_init(&p, limits);
    weir_resp_result r = weir_resp_next(&p, weir_buffer_data(&b), weir_buffer_len(&b), &again);
    if (r == WEIR_RESP_REQUEST) {
        CHECK(again.used == weir_buffer_len(&b) && again.args == req->args);
        for (size_t i = 0; i < req->args; i++)
            CHECK(arg[i].len == req->arg[i].len &&
                  memcmp(arg[i].at, req->arg[i].at, arg[i].len) == 0);
    } else { /* an inline request can exceed the limit of a multibulk one, or contain "POST" */
        CHECK(r == WEIR_RESP_HTTP_GUARD || weir_buffer_len(&b) > 40);
    }
    weir_buffer_append(log, weir_buffer_data(&b), weir_buffer_len(&b));
    weir_buffer_free(&b);
}

static bool lies_in(const weir_slice *arg, const uint8_t *at, size_t len)
{
    const uint8_t *begin = (const uint8_t *)arg->at;
    return begin >= at && begin + arg->len < at + len;
}

/* Parses the input in pieces, each in an allocation of exactly its size.
 *  seed  of the lengths of the pieces; 0: one piece. */
static void run(const weir_resp_limits *limits, const uint8_t *data, size_t size, uint32_t seed,
                weir_buffer *log)
{
    weir_slice arg[WEIR_RESP_ARGS_MAX];
    weir_resp_parser p;
    weir_resp_result r = WEIR_RESP_NEED_MORE;
    weir_resp_init(&p, limits);
    size_t words_size = p.limits->inline_len_max;
    uint8_t *words = malloc(words_size);
    weir_resp_request req = {.arg = arg, .words = words};
    for (size_t begin = 0, arrived = 0; arrived < size && r == WEIR_RESP_NEED_MORE;) {
        seed = seed * 1664525 + (seed ? 1013904223 : 0);
        size_t n = seed ? 1 + (seed >> 24) % (seed >> 20 & 1 ? 4 : 40) : size;
        arrived = n < size - arrived ? arrived + n : size;
        size_t begun = begin, len = arrived - begun;
        uint8_t *in = exact_copy(data + begun, len);
        do {
            size_t at = begin - begun;
            r = weir_resp_next(&p, in + at, len - at, &req);
            CHECK(req.used <= len - at);
            CHECK(r != WEIR_RESP_REQUEST || (req.args >= 1 && req.args <= p.limits->args_max));
            for (size_t i = 0; i < req.args; i++)
                CHECK(arg[i].len <= p.limits->arg_len_max &&
                      (lies_in(&arg[i], in + at, req.used) || lies_in(&arg[i], words, words_size)));
            begin += req.used;
            if (r == WEIR_RESP_REQUEST)
                log_request(limits, &req, log);
        } while (r == WEIR_RESP_REQUEST);
        CHECK(r != WEIR_RESP_NEED_MORE || limits == NULL || arrived - begin <= 40 + 33);
        if (r == WEIR_RESP_ERROR)
            weir_buffer_append(log, req.error, strlen(req.error) + 1);
        free(in);
    }
    free(words);
    weir_buffer_append_byte(log, (uint8_t)r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const weir_resp_limits *limits = data[0] & 1 ? &small_limits : NULL;
    weir_buffer whole, cut;
    weir_buffer_init(&whole, 1 << 24);
    weir_buffer_init(&cut, 1 << 24);
    run(limits, data + 2, size - 2, 0, &whole);
    run(limits, data + 2, size - 2, data[1] + 1u, &cut);
    check_same_bytes(&whole, &cut);
    weir_buffer_free(&whole);
    weir_buffer_free(&cut);
    return 0;
}
