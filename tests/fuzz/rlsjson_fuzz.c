/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: requests of the Rate Limit Service in JSON. What is accepted is UTF-8, and
 * equals the same request in the members' other names. */

#include "fuzz.h"

#include "port/text.h"
#include "rls/wire/message.h"

static bool is_utf8(weir_slice text)
{
    bool valid = true;
    for (size_t i = 0; i < text.len && valid;)
        i += weir_utf8_len(text.at + i, text.len - i, &valid);
    return valid;
}

static void check_request(const weir_rls_request *r)
{
    CHECK(is_utf8(r->domain) && r->descriptors_len <= WEIR_RLS_DESCRIPTORS_KEPT);
    for (size_t i = 0; i < r->descriptors_len; i++) {
        const weir_rls_descriptor *d = &r->descriptors[i];
        CHECK(d->override.unit < WEIR_RLS_UNITS && (d->has_hits || d->hits == 0));
        for (size_t k = 0; k < d->entries_len; k++)
            CHECK(is_utf8(d->entries[k].key) && is_utf8(d->entries[k].value));
    }
}

static bool same(weir_slice a, weir_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void check_same(const weir_rls_request *a, const weir_rls_request *b)
{
    CHECK(same(a->domain, b->domain) && a->hits_addend == b->hits_addend);
    CHECK(a->descriptors_len == b->descriptors_len);
    for (size_t i = 0; i < a->descriptors_len; i++) {
        const weir_rls_descriptor *x = &a->descriptors[i], *y = &b->descriptors[i];
        CHECK(x->entries_len == y->entries_len && x->has_override == y->has_override);
        CHECK(x->override.requests_per_unit == y->override.requests_per_unit);
        CHECK(x->override.unit == y->override.unit && x->negative == y->negative);
        CHECK(x->has_hits == y->has_hits && x->hits == y->hits);
        for (size_t k = 0; k < x->entries_len; k++)
            CHECK(same(x->entries[k].key, y->entries[k].key) &&
                  same(x->entries[k].value, y->entries[k].value));
    }
}

static void put(weir_buffer *b, const char *text)
{
    weir_buffer_append(b, text, strlen(text));
}

/* Copies a text with `from` replaced by `to`. */
static void replace(weir_buffer *out, const char *at, size_t len, const char *from, const char *to)
{
    size_t n = strlen(from);
    for (size_t i = 0; i < len;) {
        if (len - i >= n && memcmp(at + i, from, n) == 0) {
            put(out, to);
            i += n;
        } else {
            weir_buffer_append_byte(out, (uint8_t)at[i++]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weir_rls_arena arena, again; /* for all inputs, because they are large */
    weir_rls_request r, other;
    char error[256] = "";
    char *body = exact_copy(data, size);
    CHECK(arena.bytes || (weir_rls_arena_open(&arena) && weir_rls_arena_open(&again)));
    arena.len = again.len = 0;
    if (weir_rls_decode_json(&arena, (weir_slice){body, size}, &r, error)) {
        weir_buffer renamed;
        weir_buffer_init(&renamed, 1 << 24);
        check_request(&r);
        replace(&renamed, body, size, "\"hitsAddend\"", "\"hits_addend\"");
        CHECK(weir_rls_decode_json(
            &again,
            (weir_slice){(const char *)weir_buffer_data(&renamed), weir_buffer_len(&renamed)},
            &other, error));
        if (weir_buffer_len(&renamed) == size)
            check_same(&r, &other);
        weir_buffer_free(&renamed);
    } else {
        CHECK(error[0] && strlen(error) < sizeof error && arena.len == 0);
    }
    free(body);
    return 0;
}
