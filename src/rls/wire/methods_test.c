/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The methods of the Rate Limit Service: batches, invalid messages among valid ones, and engines
 * that are pending. A fake takes the place of the service. */

#include "rls/wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CALLS_MAX = 200 };

static struct fake {
    size_t at_most; /* requests that one call decides; 0: an engine is pending */
    weir_rls_response response;
    weir_rls_verb verb; /* of the last requests */
    const weir_rls_wait *wait;
    size_t calls, requests, cancelled;
    char domains[CALLS_MAX + 1]; /* the first byte of each domain that was decided */
} fake;

size_t weir_rls_decide(weir_rls_loop *l, weir_rls_wait *wait, const weir_rls_request *requests,
                       size_t n, weir_rls_response *responses, int64_t now_ns)
{
    assert_ptr_equal(l, &fake);
    assert_int_equal(now_ns, 7);
    assert_true(n > 0);
    fake.calls++;
    fake.requests = n;
    fake.wait = wait;
    fake.verb = requests[0].verb;
    size_t decided = n < fake.at_most ? n : fake.at_most;
    for (size_t i = 0; i < decided; i++) {
        size_t len = strlen(fake.domains);
        assert_true(len < CALLS_MAX && requests[i].domain.len == 1);
        assert_int_equal(requests[i].verb, fake.verb);
        fake.domains[len] = requests[i].domain.at[0];
        responses[i] = fake.response;
    }
    return decided;
}

void weir_rls_wait_cancel(weir_rls_wait *wait)
{
    (void)wait;
    fake.cancelled++;
}

/* ---- fixtures -------------------------------------------------------------------------------- */

typedef struct rig {
    weir_rls_door door;
    void *app;
    weir_buffer reply;
    weir_grpc_call calls[CALLS_MAX];
    char messages[CALLS_MAX][8];
} rig;

static void wake(void *ctx)
{
    (void)ctx;
}

static int setup(void **state)
{
    rig *r = calloc(1, sizeof *r);
    fake = (struct fake){.at_most = CALLS_MAX,
                         .response = {.failure = WEIR_RLS_ANSWERED, .code = WEIR_RLS_OK}};
    r->door.loop = (weir_rls_loop *)&fake;
    assert_true(weir_rls_arena_open(&r->door.arena));
    r->app = calloc(1, weir_rls_app_size);
    weir_rls_app_open(&r->door, r->app, wake, r);
    weir_buffer_init(&r->reply, 1 << 20);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    rig *r = *state;
    weir_rls_app_close(&r->door, r->app);
    weir_rls_arena_close(&r->door.arena);
    weir_buffer_free(&r->reply);
    free(r->app);
    free(r);
    return 0;
}

/* Makes a call for each letter, with a domain of that letter; '!' is an invalid message. */
static weir_grpc_call *calls_of(rig *r, const char *letters)
{
    for (size_t i = 0; letters[i]; i++) {
        int len = letters[i] == '!' ? snprintf(r->messages[i], 8, "\n")
                                    : snprintf(r->messages[i], 8, "\n\1%c", letters[i]);
        r->calls[i] =
            (weir_grpc_call){.message = {r->messages[i], (size_t)len}, .reply = &r->reply};
    }
    return r->calls;
}

static const weir_grpc_method *method(const char *path)
{
    for (size_t i = 0; i < weir_rls_methods_len; i++) {
        if (strcmp(weir_rls_methods[i].path, path) == 0)
            return &weir_rls_methods[i];
    }
    fail_msg("no method %s", path);
    return NULL;
}

#define ENVOY    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
#define KUADRANT "/kuadrant.service.ratelimit.v1.RateLimitService/"

static const weir_grpc_method *should_rate_limit(void)
{
    return method(ENVOY);
}

static size_t answer(rig *r, weir_grpc_call *calls, size_t n)
{
    return should_rate_limit()->answer(&r->door, r->app, calls, n, 7);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void replies(void **state)
{
    rig *r = *state;
    weir_grpc_call *c = calls_of(r, "abc");
    weir_buffer_append(&r->reply, "before", 6);
    assert_int_equal(answer(r, c, 3), 3);
    assert_string_equal(fake.domains, "abc");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(c[i].status, WEIR_GRPC_OK);
        assert_int_equal(c[i].reply_begin, 6 + 2 * i);
        assert_int_equal(c[i].reply_len, 2);
        assert_memory_equal(weir_buffer_data(&r->reply) + c[i].reply_begin, "\x08\x01", 2);
    }
}

static void verbs(void **state)
{
    rig *r = *state;
    static const struct {
        const char *path;
        weir_rls_verb verb;
    } rows[] = {
        {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", WEIR_RLS_CHECK_AND_REPORT},
        {"/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit", WEIR_RLS_CHECK},
        {"/kuadrant.service.ratelimit.v1.RateLimitService/Report", WEIR_RLS_REPORT},
    };
    const weir_rls_wait *wait[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(method(rows[i].path)->answer(&r->door, r->app, calls_of(r, "a"), 1, 7), 1);
        assert_int_equal(fake.verb, rows[i].verb);
        wait[i] = fake.wait;
        assert_ptr_equal(wait[i]->completion.ready, wake);
        assert_ptr_equal(wait[i]->completion.ctx, r);
    }
    assert_true(wait[0] != wait[1] && wait[1] != wait[2] && wait[0] != wait[2]);
    assert_int_equal(weir_rls_methods_len, 3);
}

static void failures(void **state)
{
    rig *r = *state;
    weir_grpc_call *c = calls_of(r, "a");
    fake.response = (weir_rls_response){.failure = WEIR_RLS_REFUSED, .why = "no domain"};
    assert_int_equal(answer(r, c, 1), 1);
    assert_int_equal(c->status, WEIR_GRPC_UNKNOWN);
    assert_string_equal(c->why, "no domain");
    fake.response = (weir_rls_response){.failure = WEIR_RLS_UNAVAILABLE, .why = "no engine"};
    assert_int_equal(answer(r, c, 1), 1);
    assert_int_equal(c->status, WEIR_GRPC_UNAVAILABLE);
    assert_string_equal(c->why, "no engine");
    assert_int_equal(weir_buffer_len(&r->reply), 0);
}

/* All calls are answered in their order, whatever is invalid, and however many are decided at
 * once. */
static void invalid_messages(void **state)
{
    rig *r = *state;
    static const char *const cases[] = {"!", "!a", "a!", "a!!b", "!!!", "ab!cd!e"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i]), done = 0, valid = 0;
        weir_grpc_call *c = calls_of(r, cases[i]);
        fake.at_most = i % 2 + 1;
        fake.domains[0] = '\0';
        memset(fake.domains, 0, sizeof fake.domains);
        while (done < n) {
            size_t answered = answer(r, c + done, n - done);
            assert_true(answered > 0 && answered <= n - done);
            done += answered;
        }
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(c[k].status, cases[i][k] == '!' ? WEIR_GRPC_INTERNAL : WEIR_GRPC_OK);
            if (cases[i][k] != '!')
                assert_int_equal(fake.domains[valid++], cases[i][k]);
            else
                assert_non_null(strstr(c[k].why, "protobuf"));
        }
        assert_int_equal(strlen(fake.domains), valid);
    }
}

/* While an engine is pending, nothing is answered, and the repeated call may have more behind
 * it. */
static void pending(void **state)
{
    rig *r = *state;
    weir_grpc_call *c = calls_of(r, "ab!");
    fake.at_most = 0;
    assert_int_equal(answer(r, c, 2), 0);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(answer(r, c, 3), 0);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(weir_buffer_len(&r->reply), 0);
    fake.at_most = 2;
    assert_int_equal(answer(r, c, 3), 2);
    assert_string_equal(fake.domains, "ab");
    assert_int_equal(answer(r, c + 2, 1), 1);
    assert_int_equal(c[2].status, WEIR_GRPC_INTERNAL);
}

static void large_batches(void **state)
{
    rig *r = *state;
    char letters[CALLS_MAX + 1] = {0};
    for (size_t i = 0; i < CALLS_MAX; i++)
        letters[i] = (char)('a' + i % 26);
    weir_grpc_call *c = calls_of(r, letters);
    for (size_t done = 0; done < CALLS_MAX;)
        done += answer(r, c + done, CALLS_MAX - done);
    assert_string_equal(fake.domains, letters);
    assert_true(fake.calls < 10);
}

/* A message whose entries fill the arena begins a new batch; it is never refused. */
static void full_arena(void **state)
{
    rig *r = *state;
    enum { ENTRIES = 30000 };
    static uint8_t large[2 * ENTRIES + 16];
    size_t len = 0, body = 2 * ENTRIES;
    memcpy(large, "\n\1z\x12", 4);
    len = 4;
    large[len++] = (uint8_t)(body | 0x80);
    large[len++] = (uint8_t)(body >> 7 | 0x80);
    large[len++] = (uint8_t)(body >> 14);
    for (int i = 0; i < ENTRIES; i++) {
        large[len++] = '\n';
        large[len++] = 0;
    }
    weir_grpc_call *c = calls_of(r, "abc");
    c[1].message = c[2].message = (weir_slice){(const char *)large, len};
    assert_int_equal(answer(r, c, 3), 2);
    assert_int_equal(answer(r, c + 2, 1), 1);
    assert_string_equal(fake.domains, "azz");
    assert_int_equal(c[2].status, WEIR_GRPC_OK);
}

static void close_cancels(void **state)
{
    rig *r = *state;
    weir_rls_app_close(&r->door, r->app);
    assert_int_equal(fake.cancelled, weir_rls_methods_len);
}

/* The descriptors for reflection name every file and service. */
static void descriptors(void **state)
{
    (void)state;
    static const char *const names[] = {
        "envoy/service/ratelimit/v3/rls.proto",
        "envoy.service.ratelimit.v3",
        "google/protobuf/duration.proto",
        "kuadrant.service.ratelimit.v1",
        "grpc.health.v1",
        "grpc.reflection.v1",
        "grpc.reflection.v1alpha",
        "ShouldRateLimit",
    };
    weir_slice all = weir_rls_file_descriptors;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = strlen(names[i]);
        bool found = false;
        for (size_t at = 0; at + len <= all.len && !found; at++)
            found = memcmp(all.at + at, names[i], len) == 0;
        if (!found)
            fail_msg("no %s", names[i]);
    }
}

/* Which calls note a decision in their spans. */
static void spans(void **state)
{
    static const struct {
        const char *path;
        weir_rls_failure failure;
        weir_rls_code code;
        bool noted, allowed;
    } rows[] = {
        {ENVOY, WEIR_RLS_ANSWERED, WEIR_RLS_OK, true, true},
        {ENVOY, WEIR_RLS_ANSWERED, WEIR_RLS_OVER_LIMIT, true, false},
        {ENVOY, WEIR_RLS_ANSWERED, WEIR_RLS_UNKNOWN, false, false},
        {ENVOY, WEIR_RLS_UNAVAILABLE, WEIR_RLS_OK, false, false},
        {KUADRANT "CheckRateLimit", WEIR_RLS_ANSWERED, WEIR_RLS_OK, true, true},
        {KUADRANT "Report", WEIR_RLS_ANSWERED, WEIR_RLS_OK, false, false},
    };
    rig *r = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_grpc_call *c = calls_of(r, "ab");
        weir_trace_span span = {.reason = NULL};
        c[1].span = &span;
        fake.response = (weir_rls_response){.failure = rows[i].failure, .code = rows[i].code};
        assert_int_equal(method(rows[i].path)->answer(&r->door, r->app, c, 2, 7), 2);
        assert_int_equal(span.reason != NULL, rows[i].noted);
        assert_int_equal(span.allowed, rows[i].allowed);
        assert_string_equal(span.context_name, rows[i].noted ? "b" : "");
        if (rows[i].noted)
            assert_string_equal(span.context, "weir.domain");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replies),     TEST(verbs),         TEST(failures),   TEST(invalid_messages),
        TEST(pending),     TEST(large_batches), TEST(full_arena), TEST(close_cancels),
        TEST(descriptors), TEST(spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
