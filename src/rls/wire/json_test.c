/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service in JSON: the texts that Go's protojson makes, and what the JSON mapping of
 * proto3 accepts and refuses. */

#include "rls/wire/kit_test.h"

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
    memset(arena.bytes, 0xa5, arena.capacity); /* earlier requests have used it */
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
    check("{\"hitsAddend\":0}", true, " 0:");
    check("{\"hitsAddend\":\"0\"}", true, " 0:");
    check("{\"hitsAddend\":\"0e1\"}", true, " 0:");
    check("{\"descriptors\":[{\"hitsAddend\":\"9007199254740993\"}]}", true,
          " 0: [ hits 9007199254740993]");
    check("{\"descriptors\":[{\"entries\":[{\"key\":\"k\"},{\"value\":\"v\"},{}]}]}", true,
          " 0: [k=,=v,=]");
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

/* Appends n times the same text, between others. */
static void put_list(weir_buffer *b, const char *begin, const char *one, size_t n, const char *end)
{
    weir_buffer_printf(b, "%s", begin);
    for (size_t i = 0; i < n; i++) {
        weir_buffer_append(b, ",", i > 0);
        weir_buffer_append(b, one, strlen(one));
    }
    weir_buffer_printf(b, "%s", end);
}

/* The service sees that a request has more descriptors than it accepts. */
static void too_many_descriptors(void **state)
{
    (void)state;
    for (size_t n = WEIR_RLS_DESCRIPTORS_MAX; n < 200; n += n < 67 ? 1 : 100) {
        size_t kept = n < WEIR_RLS_DESCRIPTORS_MAX + 1 ? n : WEIR_RLS_DESCRIPTORS_MAX + 1;
        weir_buffer b, text;
        weir_buffer_init(&b, 1 << 20);
        weir_buffer_init(&text, 1 << 20);
        put_list(&b, "{\"descriptors\":[", "{\"entries\":[{\"key\":\"k\"}]}", n, "]}");
        assert_true(decode((char *)weir_buffer_data(&b), weir_buffer_len(&b), &text));
        const char *at = (const char *)weir_buffer_data(&text);
        assert_memory_equal(at, " 0:", 3);
        for (size_t i = 0; i < kept; i++)
            assert_memory_equal(at + 3 + 5 * i, " [k=]", 5);
        assert_int_equal(weir_buffer_len(&text), 4 + 5 * kept);
        weir_buffer_free(&b);
        weir_buffer_free(&text);
    }
}

static void a_full_arena(void **state)
{
    (void)state;
    weir_rls_arena arena;
    assert_true(weir_rls_arena_open(&arena));
    size_t most = arena.capacity / 16; /* of 16 bytes */
    weir_rls_arena_close(&arena);
    const struct {
        const char *begin, *one, *end;
        size_t n;
    } rows[] = {
        {"{\"descriptors\":[{\"entries\":[", "{}", "]}]}", most},
        {"{\"domain\":\"", "0123456789abcde", "\"}", most + 1},
        {"{\"domain\":\"", "0123456789abcde", "\",\"descriptors\":[{},{}]}", most - 4},
        {"{\"descriptors\":[{\"entries\":[{\"key\":\"", "0123456789abcde", "\"}]}]}", most},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_buffer b, text;
        weir_buffer_init(&b, 1 << 22);
        weir_buffer_init(&text, 1 << 22);
        put_list(&b, rows[i].begin, rows[i].one, rows[i].n, rows[i].end);
        assert_false(decode((char *)weir_buffer_data(&b), weir_buffer_len(&b), &text));
        assert_string_equal((char *)weir_buffer_data(&text), WEIR_RLS_ARENA_FULL);
        weir_buffer_free(&b);
        weir_buffer_free(&text);
    }
}

/* What was decoded stays, until the arena is emptied. */
static void two_requests(void **state)
{
    (void)state;
    static const char *const json[] = {"{\"domain\":\"first\"}", "{\"domain\":\"other\"}"};
    weir_rls_arena arena;
    weir_rls_request r[2];
    char error[256];
    assert_true(weir_rls_arena_open(&arena));
    for (int i = 0; i < 2; i++)
        assert_true(
            weir_rls_decode_json(&arena, (weir_slice){json[i], strlen(json[i])}, &r[i], error));
    assert_int_equal(r[0].domain.len, 5);
    assert_memory_equal(r[0].domain.at, "first", 5);
    weir_rls_arena_close(&arena);
}

static void encode(const weir_rls_response *response, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 12);
    weir_rls_encode_json(response, &b);
    weir_buffer_append(&b, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&b), want);
    weir_buffer_free(&b);
}

static void durations_and_headers(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {{0, "0s"},
                {1, "0.000000001s"},
                {1000, "0.000001s"},
                {1000000, "0.001s"},
                {1500001000, "1.500001s"},
                {59000000000, "59s"},
                {INT64_C(86400999000000), "86400.999s"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_rls_status s = {.code = WEIR_RLS_OK, .has_limit = true, .reset_ns = rows[i].ns};
        char want[128];
        snprintf(want, sizeof want,
                 "{\"statuses\":[{\"code\":\"OK\",\"currentLimit\":{},"
                 "\"durationUntilReset\":\"%s\"}]}",
                 rows[i].text);
        encode(&(weir_rls_response){.statuses = &s, .statuses_len = 1}, want);
    }
    const weir_rls_header header = {.name = "n", .value = "v"};
    encode(&(weir_rls_response){.headers = &header, .headers_len = 1},
           "{\"responseHeadersToAdd\":[{\"key\":\"n\",\"value\":\"v\"}]}");
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
        cmocka_unit_test(two_requests),
        cmocka_unit_test(durations_and_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
