/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service in protobuf: the bytes that Go's types make, and what proto3 says of
 * unknown fields, repeated fields, wire types and invalid messages. */

#include "codec/rls_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Decodes a message. Returns the error or NULL, and the request as text in `b`. */
static const char *decode(const char *hex, weir_buffer *b)
{
    weir_rls_arena arena;
    weir_rls_request r;
    weir_slice message = bytes_of_hex(hex);
    assert_true(weir_rls_arena_open(&arena));
    const char *error = weir_rls_decode(&arena, message, &r);
    weir_buffer_clear(b);
    if (!error)
        put_request(b, &r);
    else
        assert_int_equal(arena.len, 0);
    weir_rls_arena_close(&arena);
    free((char *)message.at);
    return error;
}

static void check_request(const char *hex, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 20);
    const char *error = decode(hex, &b);
    if (error)
        fail_msg("%s: %s", hex, error);
    assert_string_equal((char *)weir_buffer_data(&b), want);
    weir_buffer_free(&b);
}

static void check_error(const char *hex, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 20);
    const char *error = decode(hex, &b);
    if (!error)
        fail_msg("%s: expected %s, found %s", hex, want, (char *)weir_buffer_data(&b));
    assert_non_null(strstr(error, want));
    weir_buffer_free(&b);
}

static void decodes_what_go_encodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < REQUEST_VECTORS; i++)
        check_request(request_vectors[i].hex, request_vectors[i].text);
}

static void encodes_as_go_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESPONSE_VECTORS; i++) {
        weir_slice want = bytes_of_hex(response_vectors[i].hex);
        weir_buffer b;
        weir_buffer_init(&b, 1 << 20);
        weir_rls_encode(response_vectors[i].response, &b);
        assert_int_equal(weir_buffer_len(&b), want.len);
        if (want.len > 0)
            assert_memory_equal(weir_buffer_data(&b), want.at, want.len);
        weir_buffer_free(&b);
        free((char *)want.at);
    }
}

/* A prefix of a message is an error or ends between two fields; it never reads beyond its end. */
static void prefixes(void **state)
{
    (void)state;
    char hex[1024];
    weir_buffer b;
    weir_buffer_init(&b, 1 << 20);
    for (size_t i = 0; i < REQUEST_VECTORS; i++) {
        snprintf(hex, sizeof hex, "%s", request_vectors[i].hex);
        for (size_t len = strlen(hex); len > 0; len -= 2) {
            hex[len] = '\0';
            (void)decode(hex, &b);
        }
    }
    weir_buffer_free(&b);
}

static void rules_of_proto3(void **state)
{
    (void)state;
    /* The last value counts, in any order of fields; messages that are not repeated are merged. */
    check_request("0a01610a0162", "b 0:");
    check_request("18050a0161", "a 5:");
    check_request("1208120208051202"
                  "1006",
                  " 0: [ limit 5/6]");
}

static void unknown_fields(void **state)
{
    (void)state;
    check_request("0a0161"
                  "7801"
                  "82010161"
                  "8d0100000000"
                  "91010000000000000000",
                  "a 0:");
    check_request("0801"
                  "1a0161"
                  "0a0161",
                  "a 0:"); /* known numbers, other wire types */
    check_request("23"
                  "0a00"
                  "2b"
                  "2c"
                  "24"
                  "0a0161",
                  "a 0:"); /* groups */
}

static void invalid_messages(void **state)
{
    (void)state;
    check_error("0a", "cut off");
    check_error("0a0261", "longer than its message");
    check_error("18ffffffffffffffffff02", "more than 64 bits");
    check_error("18ffffffffffffffffffff01", "more than 64 bits");
    check_error("0001", "number is out of range");
    check_error("8080808010"
                "01",
                "number is out of range");
    check_error("0e", "unknown wire type");
    check_error("0c", "unknown wire type"); /* the end of a group that did not begin */
    check_error("2334", "a group ends that did not begin");
    check_error("23", "cut off");
    check_error("0a01ff", "not UTF-8");
    check_error("0a03eda080", "not UTF-8");
    check_error("12060a040a02c328", "not UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_what_go_encodes),
        cmocka_unit_test(encodes_as_go_does),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(rules_of_proto3),
        cmocka_unit_test(unknown_fields),
        cmocka_unit_test(invalid_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
