/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service in protobuf: the bytes that Go's types make, and what proto3 says of
 * unknown fields, repeated fields, wire types and invalid messages. */

#include "rls/wire/kit_test.h"

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
    memset(arena.bytes, 0xa5, arena.capacity); /* earlier requests have used it */
    const char *error = weir_rls_decode(&arena, message, &r);
    weir_buffer_clear(b);
    if (!error)
        put_request(b, &r);
    else
        assert_int_equal(arena.len, 0);
    weir_rls_arena_close(&arena);
    assert_true(!arena.bytes && arena.len == 0 && arena.capacity == 0);
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
    check_request("8d0100000000"
                  "0a0161",
                  "a 0:");
    check_request("91010000000000000000"
                  "0a0161",
                  "a 0:");
    check_request("f8ffffff0f01" /* the greatest number */
                  "0a0161",
                  "a 0:");
    check_request("180a" /* a value that looks like the tag of a string */
                  "0a0161"
                  "1200120012001200",
                  "a 10: [] [] [] []");
    check_request("1206"
                  "1a04"
                  "08011002",
                  " 0: [ hits 1]");
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
    check_error("0a04c3a9c328", "not UTF-8");
    check_error("1203120108", "cut off");
    check_error("12031a0108", "cut off");
}

/* Of two errors, the first one is reported. */
static void first_errors(void **state)
{
    (void)state;
#define LONG "ffffffffffffffffff02"
    check_error(LONG "0e", "more than 64 bits");
    check_error("0a" LONG "0e", "more than 64 bits");
    check_error("18" LONG "0e", "more than 64 bits");
    check_error("23000e", "number is out of range");
    check_error("23" LONG "00", "more than 64 bits");
    check_error("230a" LONG "00", "more than 64 bits");
    check_error("23340e", "a group ends that did not begin");
    check_error("0a01ff0e", "not UTF-8");
    check_error("12060a040a01ff0e", "not UTF-8");
    check_error("12060a041201ff0e", "not UTF-8");
    check_error("1205120208800e", "cut off");
}

/* A string is checked wherever its bytes are. */
static void all_bytes_are_checked(void **state)
{
    (void)state;
    for (size_t len = 1; len < 26; len++) {
        for (size_t at = 0; at < len; at++) {
            char hex[128];
            size_t n = (size_t)snprintf(hex, sizeof hex, "0a%02zx", len);
            for (size_t i = 0; i < len; i++)
                n += (size_t)snprintf(hex + n, sizeof hex - n, "%s", i == at ? "ff" : "61");
            check_error(hex, "not UTF-8");
        }
    }
}

/* Groups may be nested 32 times. */
static void nested_groups(void **state)
{
    (void)state;
    for (size_t depth = 32; depth <= 33; depth++) {
        char hex[256] = "";
        for (size_t i = 0; i < 2 * depth; i++)
            snprintf(hex + 2 * i, sizeof hex - 2 * i, i < depth ? "23" : "24");
        snprintf(hex + 4 * depth, sizeof hex - 4 * depth, "0a0161");
        if (depth == 32)
            check_request(hex, "a 0:");
        else
            check_error(hex, "groups are nested too deeply");
    }
}

/* Descriptors above the maximum are checked, and take no memory. */
static void many_descriptors(void **state)
{
    (void)state;
    enum { MOST = WEIR_RLS_DESCRIPTORS_MAX + 1, ALL = 60000 };
    static const char one[] = "12050a030a016b"; /* an entry with the key "k" */
    static const char text[] = " [k=]";
    char *hex = malloc(ALL * strlen(one) + 16), *want = malloc(MOST * strlen(text) + 16);
    for (size_t n = MOST - 1; n <= ALL; n = n <= MOST ? n + 1 : 2 * n + ALL / 2) {
        size_t kept = n < MOST ? n : MOST;
        for (size_t i = 0; i < n; i++)
            memcpy(hex + i * strlen(one), one, sizeof one);
        size_t len = (size_t)sprintf(want, " 0:");
        for (size_t i = 0; i < kept; i++)
            len += (size_t)sprintf(want + len, "%s", text);
        check_request(hex, want);
        if (n > MOST) {
            strcpy(hex + n * strlen(one), "12060a040a02c328");
            check_error(hex, "not UTF-8");
        }
    }
    free(hex);
    free(want);
}

/* What was decoded stays, until the arena is emptied. */
static void two_requests(void **state)
{
    (void)state;
    weir_rls_arena arena;
    weir_rls_request r[2];
    weir_buffer b;
    weir_slice message = bytes_of_hex("12050a030a016b");
    assert_true(weir_rls_arena_open(&arena));
    weir_buffer_init(&b, 1 << 10);
    for (int i = 0; i < 2; i++)
        assert_null(weir_rls_decode(&arena, message, &r[i]));
    assert_true(r[0].descriptors != r[1].descriptors);
    put_request(&b, &r[0]);
    assert_string_equal((char *)weir_buffer_data(&b), " 0: [k=]");
    weir_buffer_free(&b);
    weir_rls_arena_close(&arena);
    free((char *)message.at);
}

/* A response that does not fit is not written beyond the buffer. */
static void full_buffers(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESPONSE_VECTORS; i++) {
        size_t whole = strlen(response_vectors[i].hex) / 2;
        for (size_t room = 1; room < whole; room++) {
            weir_buffer b;
            weir_buffer_init(&b, room);
            weir_rls_encode(response_vectors[i].response, &b);
            assert_true(b.failed);
            assert_true(weir_buffer_len(&b) <= room);
            weir_buffer_free(&b);
        }
    }
}

/* One header field, with a value of any length. */
static void one_header(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof((weir_rls_header *)0)->value; len += 51) {
        weir_rls_header header = {.name = "n"};
        memset(header.value, 'x', len);
        const weir_rls_response response = {.headers = &header, .headers_len = 1};
        weir_buffer b;
        weir_buffer_init(&b, 1 << 12);
        weir_rls_encode(&response, &b);
        size_t value = len == 0 ? 0 : len < 128 ? len + 2 : len + 3;
        assert_int_equal(weir_buffer_len(&b), 2U + (3 + value >= 128) + 3 + value);
        weir_buffer_free(&b);
    }
}

/* ---- header fields --------------------------------------------------------------------------- */

enum { MANY = 20 }; /* more decisions than the header fields can show */

/* Writes the header fields of a response with `len` of MANY decisions, of which one denies. */
static size_t fields_of_some(weir_rls_code code, size_t len, size_t shown, unsigned flavours,
                             weir_answer_field *ret, char *buf)
{
    static const char names[] = "d.ad.bd.cd.dd.ed.fd.gd.hd.id.jd.kd.ld.md.nd.od.pd.qd.rd.sd.t";
    static weir_policy policy;
    weir_decision decisions[MANY];
    weir_rls_decided decided[MANY];
    weir_policy_error error;
    assert_int_equal(weir_policy_parse(&policy, "fixed-window 9/m", 16, NULL, &error), WEIR_OK);
    for (size_t i = 0; i < MANY; i++) {
        decisions[i] = (weir_decision){.limit = 9,
                                       .remaining = (int64_t)i % 9,
                                       .allowed = i != shown,
                                       .retry_after_ns = i == shown ? INT64_C(41000000000) : 0,
                                       .reset_after_ns = INT64_C(41000000000)};
        decided[i] = (weir_rls_decided){
            .rule = {names + 3 * i, 3}, .policy = &policy, .decision = &decisions[i]};
    }
    return weir_rls_fields(&(weir_rls_response){.code = code,
                                                .flavours = flavours,
                                                .decided = decided,
                                                .decided_len = len,
                                                .shown = shown},
                           ret, buf);
}

static size_t fields_of(weir_rls_code code, size_t shown, unsigned flavours, weir_answer_field *ret,
                        char *buf)
{
    return fields_of_some(code, MANY, shown, flavours, ret, buf);
}

static bool has(const weir_answer_field *f, const char *name, const char *value)
{
    return strcmp(f->name, name) == 0 && strlen(value) == f->value.len &&
           memcmp(f->value.at, value, f->value.len) == 0;
}

static size_t count_items(weir_slice value)
{
    size_t items = 1;
    for (size_t at = 0; at < value.len; at++)
        items += value.at[at] == ',';
    return items;
}

/* The shown decision is among those that are written, wherever it is. */
static void fields_of_many_decisions(void **state)
{
    (void)state;
    static const size_t shown[] = {0, 15, 16, 19};
    weir_answer_field f[WEIR_RLS_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM], policy[32];
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        size_t n = fields_of(WEIR_RLS_OVER_LIMIT, shown[i], WEIR_HEADERS_IETF, f, buf);
        assert_int_equal(n, 3);
        snprintf(policy, sizeof policy, "\"d.%c\";r=%d;t=41,", (char)('a' + shown[i]),
                 (int)shown[i] % 9);
        assert_memory_equal(f[1].value.at, policy, strlen(policy));
        assert_int_equal(count_items(f[1].value), 16);
        assert_true(has(&f[2], "Retry-After", "41"));
    }
}

/* No more decisions are written than there are. */
static void fields_of_few_decisions(void **state)
{
    (void)state;
    weir_answer_field f[WEIR_RLS_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    for (size_t len = 1; len <= 17; len++) {
        assert_int_equal(
            fields_of_some(WEIR_RLS_OVER_LIMIT, len, len - 1, WEIR_HEADERS_IETF, f, buf), 3);
        assert_int_equal(count_items(f[1].value), len < 16 ? len : 16);
    }
}

/* A request that is allowed, such as in shadow mode, has no Retry-After. */
static void fields_of_an_allowed_request(void **state)
{
    (void)state;
    weir_answer_field f[WEIR_RLS_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    assert_int_equal(fields_of(WEIR_RLS_OK, 2, WEIR_HEADERS_IETF_03, f, buf), 3);
    assert_true(has(&f[0], "RateLimit-Limit", "9, 9;w=60"));
    assert_true(has(&f[1], "RateLimit-Remaining", "2"));
    assert_true(has(&f[2], "RateLimit-Reset", "41"));
    assert_int_equal(fields_of(WEIR_RLS_OK, 2, WEIR_HEADERS_NONE, f, buf), 0);
    assert_int_equal(fields_of(WEIR_RLS_OVER_LIMIT, 2, WEIR_HEADERS_NONE, f, buf), 1);
}

/* The waits of a denial have the spread of its key. */
static void fields_with_a_spread(void **state)
{
    (void)state;
    weir_answer_field f[WEIR_RLS_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    const weir_decision denied = {.limit = 9, .retry_after_ns = INT64_C(41000000000)};
    weir_policy policy;
    weir_policy_error error;
    assert_int_equal(weir_policy_parse(&policy, "fixed-window 9/m", 16, NULL, &error), WEIR_OK);
    const weir_rls_decided decided = {{"d.a", 3}, &policy, &denied, 0, {"k", 1}};
    const weir_rls_response response = {.code = WEIR_RLS_OVER_LIMIT,
                                        .flavours = WEIR_HEADERS_NONE,
                                        .retry_spread = 10,
                                        .decided = &decided,
                                        .decided_len = 1};
    assert_int_equal(weir_rls_fields(&response, f, buf), 1);
    assert_true(has(&f[0], "Retry-After", "43"));
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
        cmocka_unit_test(first_errors),
        cmocka_unit_test(all_bytes_are_checked),
        cmocka_unit_test(nested_groups),
        cmocka_unit_test(many_descriptors),
        cmocka_unit_test(two_requests),
        cmocka_unit_test(full_buffers),
        cmocka_unit_test(one_header),
        cmocka_unit_test(fields_of_many_decisions),
        cmocka_unit_test(fields_of_few_decisions),
        cmocka_unit_test(fields_of_an_allowed_request),
        cmocka_unit_test(fields_with_a_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
