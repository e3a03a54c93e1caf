/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The services of gRPC sessions themselves: grpc.health.v1.Health and server reflection. The
 * messages are compared with those of the code that protoc-c generates. */

#include "codec/grpc/kit_test.h"
#include "rls/wire/message.h"

#include "health.pb-c.h"
#include "reflection.pb-c.h"

#define CHECK      "/grpc.health.v1.Health/Check"
#define WATCH      "/grpc.health.v1.Health/Watch"
#define REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

/* ---- messages -------------------------------------------------------------------------------- */

/* The number of complete messages that a stream has received. */
static size_t messages_len(fixture *f, int32_t id)
{
    const response *r = response_of(f, id);
    size_t n = 0, at = 0;
    while (at < r->body_len) {
        assert_true(at + 5 <= r->body_len && r->body[at] == 0);
        at += 5 + ((size_t)r->body[at + 1] << 24 | (size_t)r->body[at + 2] << 16 |
                   (size_t)r->body[at + 3] << 8 | r->body[at + 4]);
        n++;
    }
    assert_int_equal(at, r->body_len);
    return n;
}

/* The message at an index. */
static weir_slice message_at(fixture *f, int32_t id, size_t index)
{
    const response *r = response_of(f, id);
    size_t at = 0;
    assert_true(index < messages_len(f, id));
    for (;; index--) {
        size_t len = (size_t)r->body[at + 1] << 24 | (size_t)r->body[at + 2] << 16 |
                     (size_t)r->body[at + 3] << 8 | r->body[at + 4];
        if (index == 0)
            return (weir_slice){(const char *)r->body + at + 5, len};
        at += 5 + len;
    }
}

/* ---- health ---------------------------------------------------------------------------------- */

static bool is_ready;

static bool on_ready(void *ctx)
{
    (void)ctx;
    return is_ready;
}

static int32_t submit_health(fixture *f, const char *path, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    uint8_t packed[256], body[256];
    request.service = (char *)service;
    size_t len = grpc__health__v1__health_check_request__pack(&request, packed);
    return submit_body(f, path, body, frame_message(body, packed, len));
}

static void expect_health(fixture *f, int32_t id, size_t index, int status)
{
    weir_slice message = message_at(f, id, index);
    Grpc__Health__V1__HealthCheckResponse *r = grpc__health__v1__health_check_response__unpack(
        NULL, message.len, (const uint8_t *)message.at);
    assert_non_null(r);
    assert_int_equal(r->status, status);
    grpc__health__v1__health_check_response__free_unpacked(r, NULL);
}

enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static void check_answers_the_status(void **state)
{
    fixture *f = *state;
    f->options.ready = on_ready;
    is_ready = true;
    int32_t all = submit_health(f, CHECK, ""), named = submit_health(f, CHECK, "ratelimit");
    int32_t other = submit_health(f, CHECK, "ratelimi");
    int32_t invalid = submit_call(f, CHECK,
                                  "\x0a\x05"
                                  "x");
    exchange(f);
    expect_health(f, all, 0, SERVING);
    expect_health(f, named, 0, SERVING);
    assert_string_equal(response_of(f, named)->status, "0");
    expect_status(f, other, "200", "5", "unknown service");
    expect_status(f, invalid, "200", "13", "invalid protobuf");
    is_ready = false;
    all = submit_health(f, CHECK, "");
    exchange(f);
    expect_health(f, all, 0, NOT_SERVING);
}

static void check_needs_no_password(void **state)
{
    fixture *f = *state;
    users_kit_set_password(&f->users, "secret");
    int32_t check = submit_health(f, CHECK, ""), call = submit_call(f, "/test.Service/Echo", "x");
    exchange(f);
    expect_health(f, check, 0, SERVING);
    expect_status(f, call, "200", "16", "expected the metadata authorization: Bearer PASSWORD");
}

static void watch_sends_each_change(void **state)
{
    fixture *f = *state;
    f->options.ready = on_ready;
    is_ready = true;
    int32_t watch = submit_health(f, WATCH, ""), other = submit_health(f, WATCH, "other");
    assert_int_equal(exchange(f), WEIR_SESSION_READ);
    assert_int_equal(messages_len(f, watch), 1);
    expect_health(f, watch, 0, SERVING);
    expect_health(f, other, 0, SERVICE_UNKNOWN);
    assert_false(weir_grpc_session_usage(&f->session).mid_request);
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    is_ready = false;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    exchange(f);
    assert_int_equal(messages_len(f, watch), 2);
    expect_health(f, watch, 1, NOT_SERVING);
    assert_false(weir_grpc_session_poll(&f->session, f->now_ns, false));
    is_ready = true;
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, false));
    exchange(f);
    expect_health(f, watch, 2, SERVING);
    assert_int_equal(messages_len(f, other), 1);
    assert_false(response_of(f, watch)->closed);
}

/* A stopping server says so, and ends the streams, so that the connection can end. */
static void watch_ends_with_the_server(void **state)
{
    fixture *f = *state;
    int32_t watch = submit_health(f, WATCH, "");
    exchange(f);
    assert_true(weir_grpc_session_poll(&f->session, f->now_ns, true));
    assert_int_equal(exchange(f), WEIR_SESSION_CLOSE);
    assert_int_equal(messages_len(f, watch), 2);
    expect_health(f, watch, 1, NOT_SERVING);
    assert_string_equal(response_of(f, watch)->status, "14");
    assert_true(f->goaway);
    assert_int_equal(f->goaway_code, NGHTTP2_NO_ERROR);
}

static void watches_of_a_connection_are_limited(void **state)
{
    fixture *f = *state;
    int32_t last = 0;
    exchange(f);
    for (int i = 0; i < 100; i++)
        last = submit_health(f, WATCH, "");
    exchange(f);
    expect_health(f, last, 0, SERVING);
    int32_t more = submit_health(f, WATCH, "");
    exchange(f);
    expect_status(f, more, "200", "8", "too many calls of Watch on this connection");
    nghttp2_submit_rst_stream(f->client, 0, last, NGHTTP2_CANCEL);
    more = submit_health(f, WATCH, "");
    exchange(f);
    expect_health(f, more, 0, SERVING);
}

/* ---- reflection ------------------------------------------------------------------------------ */

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

/* Adds a request to a body. Returns the new length. */
static size_t add_request(uint8_t *body, size_t len, int which, const char *text)
{
    reflection_request request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    uint8_t packed[512];
    request.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)which;
    request.list_services = (char *)text; /* a member of a union of texts */
    size_t packed_len = grpc__reflection__v1__server_reflection_request__pack(&request, packed);
    return len + frame_message(body + len, packed, packed_len);
}

static reflection_response *response_at(fixture *f, int32_t id, size_t index)
{
    weir_slice message = message_at(f, id, index);
    reflection_response *r = grpc__reflection__v1__server_reflection_response__unpack(
        NULL, message.len, (const uint8_t *)message.at);
    assert_non_null(r);
    assert_non_null(r->original_request);
    return r;
}

static void free_response(reflection_response *r)
{
    grpc__reflection__v1__server_reflection_response__free_unpacked(r, NULL);
}

static bool has(const ProtobufCBinaryData *bytes, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= bytes->len; i++) {
        if (memcmp(bytes->data + i, text, len) == 0)
            return true;
    }
    return false;
}

static void reflection_lists_services(void **state)
{
    fixture *f = *state;
    uint8_t body[256];
    f->options.descriptors = weir_rls_file_descriptors;
    int32_t id = submit_body(f, REFLECTION, body, add_request(body, 0, 7, "*"));
    int32_t alpha = submit_body(f, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                body, add_request(body, 0, 7, ""));
    exchange(f);
    for (int i = 0; i < 2; i++) {
        reflection_response *r = response_at(f, i == 0 ? id : alpha, 0);
        static const char *const expected[] = {
            "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
            "kuadrant.service.ratelimit.v1.RateLimitService"};
        assert_int_equal(r->message_response_case, 6);
        for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++) {
            size_t found = 0;
            for (size_t s = 0; s < r->list_services_response->n_service; s++)
                found += strcmp(r->list_services_response->service[s]->name, expected[e]) == 0;
            assert_int_equal(found, 1);
        }
        assert_int_equal(r->list_services_response->n_service, 5);
        free_response(r);
    }
    assert_string_equal(response_of(f, id)->status, "0");
    assert_true(response_of(f, id)->closed);
}

static void reflection_finds_files(void **state)
{
    static const struct {
        int which;
        const char *text;
        const char *file; /* NULL: not found */
    } cases[] = {
        {3, "grpc/health/v1/health.proto", "grpc/health/v1/health.proto"},
        {3, "grpc/health/v1/health", NULL},
        {4, "grpc.health.v1.Health", "grpc/health/v1/health.proto"},
        {4, "grpc.health.v1.Health.Check", "grpc/health/v1/health.proto"},
        {4, "grpc.health.v1.Health.Chec", NULL},
        {4, "grpc.health.v1.HealthCheckRequest.service", "grpc/health/v1/health.proto"},
        {4, "grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {4, "grpc.health.v1", NULL},
        {4, "grpc.health.v", NULL},
        {4, "", NULL},
        {4, "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
         "envoy/service/ratelimit/v3/rls.proto"},
        {4, "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
         "envoy/service/ratelimit/v3/rls.proto"},
        {4, "google.protobuf.Duration", "google/protobuf/duration.proto"},
        {6, "grpc.health.v1.HealthCheckRequest", NULL},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    fixture *f = *state;
    static uint8_t body[CASES * 256];
    size_t len = 0;
    f->options.descriptors = weir_rls_file_descriptors;
    for (size_t i = 0; i < CASES; i++)
        len = add_request(body, len, cases[i].which, cases[i].text);
    int32_t id = submit_body(f, REFLECTION, body, len);
    exchange(f);
    assert_int_equal(messages_len(f, id), CASES);
    for (size_t i = 0; i < CASES; i++) {
        reflection_response *r = response_at(f, id, i);
        assert_int_equal((int)r->original_request->message_request_case, cases[i].which);
        assert_string_equal(r->original_request->list_services, cases[i].text);
        if (cases[i].file) {
            assert_int_equal(r->message_response_case, 4);
            assert_int_equal(r->file_descriptor_response->n_file_descriptor_proto, 1);
            assert_true(has(&r->file_descriptor_response->file_descriptor_proto[0], cases[i].file));
        } else {
            assert_int_equal(r->message_response_case, 7);
            assert_int_equal(r->error_response->error_code, 5);
        }
        free_response(r);
    }
}

/* A stream stays open between two requests. A part of a message, or an invalid one, is an error. */
static void reflection_is_a_stream(void **state)
{
    fixture *f = *state;
    uint8_t body[64];
    f->options.descriptors = weir_rls_file_descriptors;
    size_t len = add_request(body, 0, 7, "");
    memcpy(body + len, "\0\0\0\0\2\x22\xff", 7); /* a field that is cut off */
    int32_t id = submit_body(f, REFLECTION, body, len + 7);
    exchange(f);
    assert_int_equal(messages_len(f, id), 1);
    assert_string_equal(response_of(f, id)->status, "13");
    assert_string_equal(response_of(f, id)->message, "invalid protobuf");
    id = submit_body(f, REFLECTION, body, len + 3); /* half a prefix */
    exchange(f);
    assert_int_equal(messages_len(f, id), 1);
    assert_string_equal(response_of(f, id)->status, "13");
    int32_t empty = submit_body(f, REFLECTION, "", 0);
    exchange(f);
    assert_string_equal(response_of(f, empty)->status, "0");
    assert_int_equal(messages_len(f, empty), 0);
}

/* An open stream ends with the next message after its user is gone. */
static void reflection_ends_with_the_user(void **state)
{
    fixture *f = *state;
    static uint8_t body[64];
    nghttp2_data_provider data = {.read_callback = read_body_part};
    weir_user_spec specs[] = {{.name = "v", .password = {"p"}, .may = WEIR_MAY_PEEK},
                              {.name = "u", .password = {"p"}, .may = WEIR_MAY_PEEK}};
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"),
                                 MAKE_FIELD(":path", REFLECTION),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD("authorization", "Bearer u:p")};
    f->options.descriptors = weir_rls_file_descriptors;
    users_kit_set(&f->users, specs, 2, false);
    int32_t id = nghttp2_submit_request(f->client, NULL, fields, 6, &data, NULL);
    for (size_t sent = 1; sent <= 3; sent++) {
        f->sending_len = add_request(body, 0, 7, "");
        f->sending = body;
        (void)nghttp2_session_resume_data(f->client, id);
        exchange(f);
        assert_int_equal(messages_len(f, id), sent < 3 ? sent : 2);
        assert_string_equal(response_of(f, id)->status, sent < 3 ? "" : "16");
        users_kit_set(&f->users, specs, sent == 1 ? 2 : 1, false);
    }
    assert_string_equal(response_of(f, id)->message,
                        "expected the metadata authorization: Bearer NAME:PASSWORD");
}

/* A client that does not read the responses cannot make the server keep many. */
static void unread_responses_end_the_stream(void **state)
{
    fixture *f = *state;
    static uint8_t body[60000];
    size_t len = 0;
    f->options.descriptors = weir_rls_file_descriptors;
    while (len + 64 < sizeof body)
        len = add_request(body, len, 3, "envoy/service/ratelimit/v3/rls.proto");
    int32_t id = submit_body(f, REFLECTION, body, len);
    client_sends(f);
    run_once(f);
    assert_true(weir_grpc_session_usage(&f->session).bytes < 1 << 20);
    exchange(f);
    assert_string_equal(response_of(f, id)->status, "8");
}

/* Many requests in few bytes: each costs more credits than a frame. */
static void reflection_is_limited(void **state)
{
    fixture *f = *state;
    static uint8_t body[64];
    f->options.descriptors = weir_rls_file_descriptors;
    size_t len = add_request(body, 0, 4, "x"), streams = 0;
    exchange(f);
    for (; !f->goaway && streams < 1000; streams++) {
        submit_body(f, REFLECTION, body, len);
        exchange(f);
    }
    assert_true(f->goaway);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_in_range(streams, 400, 500);
    static uint8_t flood[60000];
    for (len = 0; len + 64 < sizeof flood;)
        len = add_request(flood, len, 4, "x");
    close_session(f);
    open_session(f);
    submit_body(f, REFLECTION, flood, len);
    exchange(f);
    assert_true(f->goaway);
    assert_int_equal(f->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void reflection_needs_descriptors(void **state)
{
    fixture *f = *state;
    int32_t id = submit_body(f, REFLECTION, "", 0);
    exchange(f);
    expect_status(f, id, "200", "12", "unknown service or method");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_answers_the_status),
        TEST(check_needs_no_password),
        TEST(watch_sends_each_change),
        TEST(watch_ends_with_the_server),
        TEST(watches_of_a_connection_are_limited),
        TEST(reflection_lists_services),
        TEST(reflection_finds_files),
        TEST(reflection_is_a_stream),
        TEST(unread_responses_end_the_stream),
        TEST(reflection_ends_with_the_user),
        TEST(reflection_is_limited),
        TEST(reflection_needs_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
