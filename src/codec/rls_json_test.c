/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service in JSON: the texts that Go's protojson makes, and what the JSON mapping of
 * proto3 accepts and refuses. */

#include "codec/rls_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Decodes a request. Returns whether it is valid, and the request or the error as text in `b`. */
static bool decode(const char *json, size_t len, weir_buffer *b)
{
    weir_rls_arena arena;
    weir_rls_request r;
    char error[256];
    char *copy = malloc(len > 0 ? len : 1); /* so that ASan detects reads beyond the end */
    memcpy(copy, json, len);
    assert_true(weir_rls_arena_open(&arena));
    bool ok = weir_rls_decode_json(&arena, (weir_slice){copy, len}, &r, error);
    free(copy);
    weir_buffer_clear(b);
    if (ok)
        put_request(b, &r);
    else
        weir_buffer_append(b, error, strlen(error) + 1);
    assert_true(ok || arena.len == 0);
    weir_rls_arena_close(&arena);
    return ok;
}

static void check(const char *json, bool want_ok, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 20);
    bool ok = decode(json, strlen(json), &b);
    const char *found = (const char *)weir_buffer_data(&b);
    if (ok != want_ok || (ok ? strcmp(found, want) != 0 : !strstr(found, want)))
        fail_msg("%s\nexpected: %s\nfound: %s", json, want, found);
    weir_buffer_free(&b);
}

static void decodes_what_go_encodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < REQUEST_VECTORS; i++)
        check(request_vectors[i].json, true, request_vectors[i].text);
}

static void encodes_as_go_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESPONSE_VECTORS; i++) {
        weir_buffer b;
        weir_buffer_init(&b, 1 << 20);
        weir_rls_encode_json(response_vectors[i].response, &b);
        weir_buffer_append(&b, "", 1);
        const char *want = response_vectors[i].json, *found = (const char *)weir_buffer_data(&b);
        /* Go writes the newline of a name as \n. */
        const char *n = strstr(found, "\\u000a");
        if (n) {
            assert_memory_equal(found, want, (size_t)(n - found));
            assert_memory_equal(want + (n - found), "\\n", 2);
            assert_string_equal(n + 6, want + (n - found) + 2);
        } else {
            assert_string_equal(found, want);
        }
        weir_buffer_free(&b);
    }
}

static void accepts(void **state)
{
    (void)state;
    check(" {\"domain\" : \"d\", \"hits_addend\": 3} ", true, "d 3:");
    check("{\"hitsAddend\":\"7\"}", true, " 7:");
    check("{\"hitsAddend\":1.5e1}", true, " 15:");
    check("{\"hitsAddend\":\"2e2\"}", true, " 200:");
    check("{\"hitsAddend\":4294967295.0}", true, " 4294967295:");
    check("{\"domain\":null,\"descriptors\":null,\"hitsAddend\":null}", true, " 0:");
    check("{\"descriptors\":[{\"entries\":null,\"limit\":null,\"hits_addend\":null,"
          "\"isNegativeHits\":null}]}",
          true, " 0: []");
    check("{\"descriptors\":[{\"limit\":{\"unit\":2,\"requests_per_unit\":\"9\"},"
          "\"hits_addend\":5,\"is_negative_hits\":false}]}",
          true, " 0: [ limit 9/2 hits 5]");
    check("{\"descriptors\":[{\"limit\":{\"unit\":77}}]}", true, " 0: [ limit 0/0]");
    check("{\"descriptors\":[{\"hitsAddend\":\"18446744073709551615\"}]}", true,
          " 0: [ hits 18446744073709551615]");
    check("{\"descriptors\":[{\"hitsAddend\":18446744073709551615}]}", true,
          " 0: [ hits 18446744073709551615]");
    check("{\"descriptors\":[{\"entries\":[{\"key\":\"a\\u0000\",\"value\":\"\\ud83d\\ude00\"}]}]}",
          true, " 0: [a<0>=\xf0\x9f\x98\x80]");
}

static void refuses(void **state)
{
    (void)state;
    check("", false, "line");
    check("null", false, "line");
    check("[]", false, "expected an object, found an array");
    check("{} x", false, "line 1");
    check("{\"domain\":\"a\",\"domain\":\"b\"}", false, "duplicate");
    check("{\"hitsAddend\":1,\"hits_addend\":1}", false, "given twice");
    check("{\"foo\":null}", false, "unknown member \"foo\" in the request");
    check("{\"domain\":5}", false, "\"domain\": expected a string, found a number");
    check("{\"domain\":\"\\ud800\"}", false, "line 1");
    check("{\"domain\":\"\xff\"}", false, "line");
    check("{\"hitsAddend\":-1}", false, "expected a whole number from 0 to 4294967295");
    check("{\"hitsAddend\":1.5}", false, "expected a whole number");
    check("{\"hitsAddend\":4294967296}", false, "expected a whole number");
    check("{\"hitsAddend\":\" 1\"}", false, "expected a whole number");
    check("{\"hitsAddend\":\"01\"}", false, "expected a whole number");
    check("{\"hitsAddend\":\"\"}", false, "expected a whole number");
    check("{\"hitsAddend\":true}", false, "expected a whole number");
    check("{\"descriptors\":{}}", false, "expected an array, found an object");
    check("{\"descriptors\":[null]}", false, "expected an object, found null");
    check("{\"descriptors\":[{\"entries\":{}}]}", false, "expected an array");
    check("{\"descriptors\":[{\"entries\":[{\"k\":\"\"}]}]}", false, "unknown member \"k\"");
    check("{\"descriptors\":[{\"entries\":[{\"key\":true}]}]}", false, "found a boolean");
    check("{\"descriptors\":[{\"limit\":{\"unit\":\"second\"}}]}", false, "a unit such as SECOND");
    check("{\"descriptors\":[{\"limit\":{\"unit\":\"DAY\\u0000\"}}]}", false, "a unit");
    check("{\"descriptors\":[{\"limit\":[]}]}", false, "expected an object");
    check("{\"descriptors\":[{\"isNegativeHits\":\"true\"}]}", false, "expected true or false");
}

/* The service sees that a request has more descriptors than it accepts. */
static void too_many_descriptors(void **state)
{
    (void)state;
    weir_buffer b, text;
    weir_buffer_init(&b, 1 << 20);
    weir_buffer_init(&text, 1 << 20);
    weir_buffer_printf(&b, "{\"descriptors\":[{}");
    for (int i = 1; i < 1000; i++)
        weir_buffer_printf(&b, ",{}");
    weir_buffer_printf(&b, "]}");
    assert_true(decode((char *)weir_buffer_data(&b), weir_buffer_len(&b), &text));
    assert_int_equal(weir_buffer_len(&text), 4 + 3 * (WEIR_RLS_DESCRIPTORS_MAX + 1));
    weir_buffer_free(&b);
    weir_buffer_free(&text);
}

static void a_full_arena(void **state)
{
    (void)state;
    weir_buffer b, text;
    weir_buffer_init(&b, 1 << 20);
    weir_buffer_init(&text, 1 << 20);
    weir_buffer_printf(&b, "{\"descriptors\":[{\"entries\":[{}");
    for (int i = 1; i < 40000; i++)
        weir_buffer_printf(&b, ",{}");
    weir_buffer_printf(&b, "]}]}");
    assert_false(decode((char *)weir_buffer_data(&b), weir_buffer_len(&b), &text));
    assert_string_equal((char *)weir_buffer_data(&text), WEIR_RLS_ARENA_FULL);
    weir_buffer_free(&b);
    weir_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_what_go_encodes),
        cmocka_unit_test(encodes_as_go_does),
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(too_many_descriptors),
        cmocka_unit_test(a_full_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
