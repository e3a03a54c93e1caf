/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What users may do over HTTP: each endpoint with each right, and policies and keys. */

#include "codec/http/call.h"
#include "codec/http/kit_test.h"

static const char *const policies[] = {"api", "two"};
static const char *const keys[] = {"user:*"};

static void guest(weir_http_call *c)
{
    weir_http_put_text(c, 200, "guest\n");
}

static void no_metrics(void *app, weir_buffer *out)
{
    (void)app;
    weir_buffer_printf(out, "guest_metric 1\n");
}

static const weir_http_endpoint guest_endpoints[] = {
    {"/guest/take", WEIR_MAY_TAKE_OTHERS, WEIR_HTTP_GET | WEIR_HTTP_HEAD, 0, guest, NULL},
    {"/guest/stats", WEIR_MAY_METRICS_OTHERS, WEIR_HTTP_GET | WEIR_HTTP_HEAD, 0, guest, NULL},
};
static const weir_http_guest guests[] = {{guest_endpoints, 2, NULL, NULL, no_metrics}};

static void set_user(fixture *f, unsigned may, bool bound)
{
    weir_user_spec spec = {.name = "u", .password = {"p:q"}, .may = may};
    if (bound) {
        spec.policies = (weir_user_texts){policies, 2};
        spec.keys = (weir_user_texts){keys, 1};
    }
    f->options.guests = guests;
    f->options.guests_len = 1;
    users_kit_set(&f->users, &spec, 1, false);
}

#define LOGIN "Authorization: Bearer u:p:q\r\n"

/* Opens a stream. Its first output is valid until the next call. */
static const char *open_stream(fixture *f, const char *target)
{
    char request[256];
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST LOGIN "\r\n", target);
    reopen(f);
    weir_buffer_append(&f->in, request, (size_t)len);
    weir_buffer_clear(&f->output);
    for (int i = 0; i < 4; i++) {
        f->last = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns).next;
        weir_buffer_append(&f->output, weir_buffer_data(&f->out), weir_buffer_len(&f->out));
        weir_buffer_clear(&f->out);
    }
    return output_of(f);
}

static const char *ask(fixture *f, const char *method, const char *target, const char *json)
{
    char request[1024];
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\n" HOST LOGIN "Content-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             method, target, strlen(json), json);
    return speak(f, request, strlen(request));
}

/* Sends a request to an endpoint with a method that it has. */
static int status_for(fixture *f, const weir_http_endpoint *e)
{
    const char *method = e->methods & WEIR_HTTP_HEAD   ? "HEAD" /* no stream */
                         : e->methods & WEIR_HTTP_POST ? "POST"
                                                       : "OPTIONS";
    return status_of(ask(f, method, e->path, ""));
}

static void check_endpoint(fixture *f, const weir_http_endpoint *e)
{
    char start[128];
    assert_int_not_equal(e->right, 0);
    for (unsigned bit = 0; bit <= WEIR_RIGHTS; bit++) {
        unsigned may = bit < WEIR_RIGHTS ? 1U << bit : 0;
        unsigned others = (may & WEIR_MAY_TAKE ? WEIR_MAY_TAKE_OTHERS : 0) |
                          (may & WEIR_MAY_METRICS ? WEIR_MAY_METRICS_OTHERS : 0);
        bool has = e->right & (may | others | WEIR_MAY_ENTER | WEIR_MAY_ANYONE);
        set_user(f, may, false);
        f->users.denied = 0;
        int status = status_for(f, e);
        bool is_forward = strcmp(e->path, WEIR_HTTP_FORWARD_PATH) == 0; /* no proxy: 403 */
        if ((status == 403) != (!has || is_forward) || status == 401)
            fail_msg("%s with %s: %d", e->path, bit < WEIR_RIGHTS ? weir_right_words[bit] : "none",
                     status);
        assert_int_equal(f->users.denied, !has);
    }
    snprintf(start, sizeof start, "%s %s", e->methods & WEIR_HTTP_GET ? "GET" : "POST", e->path);
    int status = status_of(with(f, start, ""));
    if ((status == 401) == !!(e->right & WEIR_MAY_ANYONE))
        fail_msg("%s of nobody: %d", e->path, status);
}

static void each_endpoint_with_each_right(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < weir_http_decisions_len; i++)
        check_endpoint(f, &weir_http_decisions[i]);
    for (size_t i = 0; i < weir_http_information_len; i++)
        check_endpoint(f, &weir_http_information[i]);
    for (size_t i = 0; i < 2; i++)
        check_endpoint(f, &guest_endpoints[i]);
}

static void reasons(void **state)
{
    fixture *f = *state;
    set_user(f, WEIR_MAY_TAKE | WEIR_MAY_METRICS, true);
    is_problem(ask(f, "POST", "/v1/reset", ""), 403,
               "the user \"u\" lacks the right \"reset\" for /v1/reset");
    is_problem(ask(f, "GET", "/guest/take", ""), 403,
               "the user \"u\" may use only some policies or keys, and the limits of "
               "/guest/take are not among them");
    is_problem(ask(f, "GET", "/guest/stats", ""), 403,
               "the user \"u\" may use only some policies or keys, and the limits of "
               "/guest/stats are not among them");
    is_problem(get(f, "/v1/policies"), 401,
               "missing password, expected Authorization: Bearer NAME:PASSWORD");
    set_user(f, WEIR_MAY_PEEK, true);
    is_problem(ask(f, "GET", "/guest/take", ""), 403,
               "the user \"u\" lacks the right \"take\" for /guest/take");
}

static void policies_and_keys(void **state)
{
    static const struct {
        const char *path, *json, *detail; /* NULL: it may */
    } rows[] = {
#define PAIR(policy, key) "{\"policy\":\"" policy "\",\"key\":\"" key "\"}"
#define OF_POLICY         "the user \"u\" may not use the policy \"slow\""
#define OF_TEXTS          "the user \"u\" may not use the policy \"(texts)\""
#define OF_KEY            "the user \"u\" may not use this key"
#define OF_KEYS           "the user \"u\" may not use all keys"
        {"/v1/take", PAIR("api", "user:1"), NULL},
        {"/v1/take", PAIR("slow", "user:1"), OF_POLICY},
        {"/v1/take", PAIR("api", "bob"), OF_KEY},
        {"/v1/check", "{\"limit\":\"gcra 1/s\",\"key\":\"user:1\"}", OF_TEXTS},
        {"/v1/peek", PAIR("api", "user:1"), NULL},
        {"/v1/peek", PAIR("slow", "user:1"), OF_POLICY},
        {"/v1/peek", "{\"limit\":\"gcra 1/s\",\"key\":\"user:1\"}", OF_TEXTS},
        {"/v1/explain", PAIR("api", "user:1"), NULL},
        {"/v1/explain", PAIR("slow", "user:1"), OF_POLICY},
        {"/v1/refund", PAIR("api", "user:1"), NULL},
        {"/v1/refund", PAIR("api", "bob"), OF_KEY},
        {"/v1/charge", PAIR("api", "user:1"), NULL},
        {"/v1/charge", PAIR("slow", "user:1"), OF_POLICY},
        {"/v1/reserve", "{\"policy\":\"api\",\"key\":\"user:1\",\"ttl\":\"1s\"}", NULL},
        {"/v1/reserve", "{\"policy\":\"api\",\"key\":\"bob\",\"ttl\":\"1s\"}", OF_KEY},
        {"/v1/reset", PAIR("api", "user:1"), NULL},
        {"/v1/reset", PAIR("slow", "user:1"), OF_POLICY},
        {"/v1/resetall", "{\"policy\":\"slow\"}", OF_POLICY},
        {"/v1/resetall", "{\"policy\":\"api\"}", OF_KEYS},
        {"/v1/resetall", "{\"limit\":\"gcra 1/s\"}", OF_TEXTS},
        {"/v1/takeall", "{\"requests\":[" PAIR("api", "user:1") "," PAIR("two", "user:1") "]}",
         NULL},
        {"/v1/takeall", "{\"requests\":[" PAIR("api", "user:1") "," PAIR("slow", "user:1") "]}",
         "requests[1]: " OF_POLICY},
        {"/v1/takeall", "{\"requests\":[" PAIR("api", "bob") "]}", "requests[0]: " OF_KEY},
        {"/v1/shadow", "{\"policy\":\"slow\",\"shadow\":true}", OF_POLICY},
        {"/v1/shadow", "{\"policy\":\"api\",\"shadow\":true}", OF_KEYS},
        {"/v1/candidate", "{\"policy\":\"api\",\"limit\":\"gcra 9/s\"}", OF_KEYS},
    };
    fixture *f = *state;
    set_user(f, WEIR_MAY_ALL, true);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        f->users.denied = 0;
        const char *answer = ask(f, "POST", rows[i].path, rows[i].json);
        if (rows[i].detail)
            is_problem(answer, 403, rows[i].detail);
        else if (status_of(answer) != 200)
            fail_msg("%s %s: %s", rows[i].path, rows[i].json, answer);
        assert_int_equal(f->users.denied, rows[i].detail != NULL);
    }
    is_problem(ask(f, "GET", "/v1/top?policy=slow", ""), 403, OF_POLICY);
    assert_int_equal(status_of(ask(f, "GET", "/v1/top?policy=api", "")), 200);
}

static void pages_show_own_policies(void **state)
{
    static const char *const paths[] = {"/v1/policies", "/metrics", "/v1/history", "/v1/live"};
    fixture *f = *state;
    weir_request r[] = {{.rule = {"api", 3}, .key = {"user:1", 6}, .cost = 1},
                        {.rule = {"api", 3}, .key = {"secret", 6}, .cost = 2},
                        {.rule = {"slow", 4}, .key = {"secret", 6}, .cost = 1}};
    f->options.metrics_top = true;
    weir_limiter_history_tick(f->limiter, NOW_NS - 30 * SECOND_NS);
    assert_true(weir_service_take(f->service, NULL, r, 3, NOW_NS));
    for (size_t i = 0; i < 4; i++) {
        for (int bound = 0; bound < 2; bound++) {
            set_user(f, WEIR_MAY_ALL, bound);
            const char *answer = i == 3 ? open_stream(f, paths[i]) : ask(f, "GET", paths[i], "");
            assert_int_equal(status_of(answer), 200);
            assert_non_null(strstr(answer, "\"api\""));
            assert_int_equal(strstr(answer, "\"slow\"") == NULL, bound);
            bool metrics = i == 1;
            assert_int_equal(strstr(answer, "guest_metric") != NULL, metrics && !bound);
            assert_int_equal(strstr(answer, "secret") != NULL, metrics && !bound);
            assert_int_equal(strstr(answer, "user:1") != NULL, metrics);
        }
    }
    set_user(f, WEIR_MAY_TOP, true);
    const char *top = ask(f, "GET", "/v1/top?policy=api&of=allowed", "");
    assert_non_null(strstr(top, "user:1"));
    assert_null(strstr(top, "secret"));
}

static void ways_to_log_in(void **state)
{
    static const struct {
        const char *lines;
        int status;
    } rows[] = {
        {"Authorization: Bearer u:p:q\r\n", 200},
        {"Authorization: Basic dTpwOnE=\r\n", 200}, /* u:p:q */
        {"X-Weir-Password: u:p:q\r\nAuthorization: Bearer client\r\n", 200},
        {"X-Weir-Password: u:wrong\r\n" LOGIN, 401},
        {"Authorization: Bearer p:q\r\n", 401},
        {"Authorization: Bearer U:p:q\r\n", 401},
        {"Authorization: Basic OnA6cQ==\r\n", 401}, /* :p:q is of default */
        {"Authorization: Basic dQ==\r\n", 401},     /* u */
        {"Authorization: Digest u:p:q\r\n", 401},
        {"", 401},
    };
    fixture *f = *state;
    set_user(f, WEIR_MAY_PEEK, false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(status_of(with(f, "GET /v1/policies", rows[i].lines)), rows[i].status);
    const weir_user_spec spec = {.name = "default", .password = {"p"}, .may = WEIR_MAY_PEEK};
    users_kit_set(&f->users, &spec, 1, false);
    assert_int_equal(status_of(with(f, "GET /v1/policies", "Authorization: Bearer p\r\n")), 200);
    assert_int_equal(status_of(with(f, "GET /v1/policies", "Authorization: Basic OnA=\r\n")), 200);
}

/* At the address of a user, a password is not read, and the Host still is. */
static void bound_listener(void **state)
{
    fixture *f = *state;
    f->users.bound_to = "u";
    set_user(f, WEIR_MAY_PEEK, false);
    reopen(f);
    assert_int_equal(status_of(get(f, "/v1/policies")), 200);
    assert_int_equal(status_of(with(f, "GET /v1/policies", "Authorization: Bearer x\r\n")), 200);
    assert_int_equal(status_of(with(f, "GET /metrics", LOGIN)), 403);
    static const char evil[] = "GET /v1/policies HTTP/1.1\r\nHost: evil\r\n\r\n";
    assert_int_equal(status_of(speak(f, evil, sizeof evil - 1)), 421);
    f->users.bound_to = NULL;
    set_user(f, WEIR_MAY_PEEK, false);
    static const char other[] = "GET /v1/policies HTTP/1.1\r\nHost: evil\r\n" LOGIN "\r\n";
    assert_int_equal(status_of(speak(f, other, sizeof other - 1)), 200);
    f->users.bound_to = "nobody";
    set_user(f, WEIR_MAY_PEEK, false);
    assert_int_equal(status_of(with(f, "GET /v1/policies", LOGIN)), 401);
}

/* A stream ends when its user loses the right to it. */
static void streams_end(void **state)
{
    fixture *f = *state;
    set_user(f, WEIR_MAY_TOP, false);
    assert_int_equal(status_of(open_stream(f, "/v1/live")), 200);
    assert_int_not_equal(f->last, WEIR_SESSION_CLOSE);
    f->now_ns += 2 * SECOND_NS;
    weir_session_step step =
        weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    assert_int_not_equal(step.next, WEIR_SESSION_CLOSE);
    set_user(f, WEIR_MAY_METRICS, false);
    weir_buffer_clear(&f->out);
    step = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    assert_int_equal(step.next, WEIR_SESSION_CLOSE);
    assert_int_equal(weir_buffer_len(&f->out), 0);
}

static void busy(void **state)
{
    const weir_user_spec spec = {.name = "u",
                                 .hash = {"$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"
                                          "ZO/gT8OGTuuyHxcBV+7DkfE2nXK0EIuQrBe9nC+TunU"},
                                 .may = WEIR_MAY_PEEK};
    fixture *f = *state;
    users_kit_set(&f->users, &spec, 1, false);
    for (int i = 0; i < 4; i++) {
        f->now_ns = NOW_NS; /* each delay takes a second */
        assert_int_equal(status_of(with(f, "GET /v1/policies", "Authorization: Bearer u:x\r\n")),
                         401);
    }
    f->now_ns = NOW_NS;
    const char *answer = with(f, "GET /v1/policies", "Authorization: Bearer u:s3cret\r\n");
    is_problem(answer, 503, "too many passwords are being checked, try again");
    has_line(answer, "Retry-After: 1");
    f->now_ns = NOW_NS + SECOND_NS;
    answer = with(f, "GET /v1/policies", "Authorization: Bearer u:s3cret\r\n");
    assert_int_equal(status_of(answer), 200);
}

#define TEST_OF(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(each_endpoint_with_each_right),
        TEST_OF(reasons),
        TEST_OF(policies_and_keys),
        TEST_OF(pages_show_own_policies),
        TEST_OF(ways_to_log_in),
        TEST_OF(bound_listener),
        TEST_OF(streams_end),
        TEST_OF(busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
