/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: decompression of gzip and zstd. The output and the final status do not depend
 * on how the input and the output are split. */

#include "fuzz.h"

#include "codec/decompress.h"

enum { OUT_MAX = 1 << 16 };

typedef struct result {
    weir_status st;
    bool full; /* the output reached OUT_MAX */
    size_t len;
    weir_decompress_error error;
    uint8_t out[OUT_MAX];
} result;

static void decompress(const uint8_t *data, size_t size, size_t in_step, size_t out_step,
                       result *ret)
{
    weir_decompressor *u;
    CHECK(weir_decompress_open(&u) == WEIR_OK);
    *ret = (result){0};
    size_t pos = 0;
    while (ret->st == WEIR_OK && !ret->full) {
        size_t len = size - pos < in_step ? size - pos : in_step, used, made;
        size_t out_size = OUT_MAX - ret->len < out_step ? OUT_MAX - ret->len : out_step;
        uint8_t *in = exact_copy(data + pos, len);
        ret->st = weir_decompress_run(u, in, len, &used, ret->out + ret->len, out_size, &made,
                                      &ret->error);
        free(in);
        CHECK(used <= len && made <= out_size);
        CHECK(ret->st != WEIR_OK || made == out_size || used == len);
        pos += used;
        ret->len += made;
        ret->full = ret->len == OUT_MAX;
        if (ret->st == WEIR_OK && made < out_size && pos == size)
            break;
    }
    if (ret->st == WEIR_OK && !ret->full)
        ret->st = weir_decompress_end(u, &ret->error);
    CHECK(ret->st == WEIR_OK || ret->st == WEIR_E_SYNTAX || ret->st == WEIR_E_NOMEM);
    CHECK(ret->st == WEIR_OK || (ret->error.offset <= size && ret->error.text[0]));
    weir_decompress_close(u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static result whole, pieces;
    if (size < 1 || size > 4096)
        return 0;
    size_t in_step = data[0] % 16 + 1u, out_step = data[0] / 16 + 1u;
    decompress(data + 1, size - 1, size, OUT_MAX, &whole);
    decompress(data + 1, size - 1, in_step, out_step * 61, &pieces);
    size_t len = whole.len < pieces.len ? whole.len : pieces.len;
    CHECK(memcmp(whole.out, pieces.out, len) == 0);
    if (whole.full || pieces.full)
        return 0;
    CHECK(whole.st == pieces.st && (whole.st != WEIR_OK || whole.len == pieces.len));
    return 0;
}
