/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* /v1/takeall, /v1/resetall, /v1/charge and reservations over HTTP: exact responses, and every
 * error. */

#include "codec/http/kit_test.h"
#include "service/rules/keep.h"

#define JSON_HEAD "Content-Type: application/json\r\n"

static void add_rules(fixture *f)
{
    assert_int_equal(weir_limiter_set_limit(f->limiter, "user", "fixed-window 3/h", NULL), WEIR_OK);
    assert_int_equal(weir_limiter_set_limit(f->limiter, "org", "gcra 1/s burst 9", NULL), WEIR_OK);
    assert_int_equal(weir_limiter_set_limit(f->limiter, "jobs", "leaky-queue 2/s depth 5", NULL),
                     WEIR_OK);
}

static void check_take_all(void **state)
{
    fixture *f = *state;
    add_rules(f);
    const char *both = "{\"requests\":[{\"policy\":\"org\",\"key\":\"acme\",\"cost\":2},"
                       "{\"policy\":\"user\",\"key\":\"al \\\"x\\\"\",\"cost\":2}]}";
    const char *answer = post(f, "/v1/takeall", both);
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "RateLimit-Policy: \"user\";q=3;w=3600, \"org\";q=9;w=9");
    has_line(answer, "RateLimit: \"user\";r=1;t=3600, \"org\";r=7;t=2");
    has_line(answer, "Cache-Control: no-store");
    assert_string_equal(body_of(answer),
                        "{\"allowed\":true,\"limit\":3,\"remaining\":1,\"retry_after_ms\":0,"
                        "\"reset_after_ms\":3600000,\"delay_ms\":0,\"next_ms\":0,"
                        "\"policy\":\"user\",\"layer\":0,\"reason\":\"limit\",\"index\":1,\"key\":"
                        "\"al \\\"x\\\"\"}\n");
    answer = post(f, "/v1/takeall", both);
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Content-Type: application/problem+json");
    has_line(answer, "RateLimit: \"user\";r=1;t=3600, \"org\";r=7;t=2");
    has_line(answer, "X-RateLimit-Remaining: 1");
    has_line(answer, "Retry-After: 3600");
    assert_non_null(strstr(body_of(answer), "\"violated-policies\":[\"user\"],\"allowed\":false,"));
    assert_non_null(strstr(body_of(answer), "\"index\":1,\"key\":\"al \\\"x\\\"\"}\n"));
    assert_non_null(strstr(body_of(get(f, "/v1/peek?policy=org&key=acme")), "\"remaining\":7,"));
    answer = post(f, "/v1/takeall?denied=503",
                  "{\"requests\":[{\"limit\":\"gcra 1/s burst 2\",\"key\":\"k\",\"cost\":3}]}");
    assert_int_equal(status_of(answer), 503);
    has_no_line(answer, "Retry-After");
    answer = post(f, "/v1/takeall", /* the default cost is 1 */
                  "{\"denied\":403,\"requests\":[{\"policy\":\"user\",\"key\":\"b\"}]}");
    assert_non_null(strstr(body_of(answer), "\"remaining\":2,"));
    assert_int_equal(status_of(with(f, "GET /v1/takeall", "")), 405);
    has_line(with(f, "GET /v1/takeall", ""), "Allow: POST, OPTIONS");
}

/* The response of a leaky queue is delayed, or reports the delay. */
static void check_delay(void **state)
{
    fixture *f = *state;
    add_rules(f);
    const char *queued = "{\"requests\":[{\"policy\":\"jobs\",\"key\":\"a\"},"
                         "{\"policy\":\"user\",\"key\":\"a\"}]}";
    post(f, "/v1/takeall", queued);
    assert_int_equal(f->waited_ns, 0);
    assert_non_null(strstr(body_of(post(f, "/v1/takeall", queued)), "\"delay_ms\":500,"));
    assert_int_equal(f->waited_ns, 500000000);
    assert_non_null(
        strstr(body_of(post(f, "/v1/takeall?delay=report", queued)), "\"delay_ms\":500,"));
    assert_int_equal(f->waited_ns, 500000000);
    assert_int_equal(status_of(post(f, "/v1/takeall", queued)), 429);
    assert_int_equal(f->waited_ns, 500000000);
}

static void check_take_all_errors(void **state)
{
    fixture *f = *state;
    add_rules(f);
#define EXPECTED "{\"requests\":[{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}]}"
    static const struct {
        const char *body, *detail;
    } rows[] = {
        {"{}", "missing \"requests\", expected a JSON body such as " EXPECTED},
        {"[]", "a list in the body, expected a JSON object such as " EXPECTED},
        {"{\"requests\":{}}",
         "\"requests\" in the body: expected a list of objects, found an object"},
        {"{\"requests\":[]}", "\"requests\" has 0 elements, expected 1 to 16"},
        {"{\"requests\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
         "\"requests\" has 17 elements, expected 1 to 16"},
        {"{\"requests\":[1]}", "requests[0]: expected an object, found a number"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\"},{\"key\":\"k\"}]}",
         "requests[1]: missing parameter \"policy\" or \"limit\""},
        {"{\"requests\":[{\"policy\":\"org\"}]}",
         "requests[0]: missing key, expected the parameter \"key\""},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"\"}]}",
         "requests[0]: the key has 0 bytes, expected 1 to 65536"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\",\"cots\":1}]}",
         "unknown parameter \"cots\" in requests[0], expected policy, limit, key, cost, keep"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\",\"cost\":\"1\"}]}",
         "\"cost\" in requests[0]: expected a whole number, found a string"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\"},{\"policy\":\"org\",\"key\":\"k\","
         "\"cost\":-1}]}",
         "\"cost\" in requests[1]: expected a whole number from 0 to 2147483647, found -1"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\",\"keep\":\"2.5%\"}]}",
         "\"keep\" in requests[0]: " WEIR_KEEP_EXPECTED ", found \"2.5%\""},
        {"{\"requests\":[{\"policy\":7,\"key\":\"k\"}]}",
         "\"policy\" in requests[0]: expected a string, found a number"},
        {"{\"requests\":[{\"policy\":\"org\",\"limit\":\"gcra 1/s\",\"key\":\"k\"}]}",
         "requests[0]: expected either \"policy\" or \"limit\", found both"},
        {"{\"requests\":[{\"policy\":\"org\",\"key\":\"k\"},{\"limit\":\"gcra "
         "1/x\",\"key\":\"k\"}]}",
         "requests[1]: column 8: unknown unit 'x', expected one of ns us ms s m h d w"},
        {"{\"policy\":\"org\",\"requests\":[]}",
         "unknown parameter \"policy\", expected delay, denied, requests"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        is_problem(post(f, "/v1/takeall", rows[i].body), 400, rows[i].detail);
    assert_non_null(strstr(body_of(post(f, "/v1/takeall", "{\"requests\":[")),
                           "invalid JSON in the body: line 1, column 13: "));
    is_problem(post(f, "/v1/takeall",
                    "{\"requests\":[{\"policy\":\"org\",\"key\":\"k\"},{\"policy\":\"no\",\"key\":"
                    "\"k\"}]}"),
               404, "requests[1]: unknown policy \"no\"; GET /v1/policies lists all");
    is_problem(with(f, "POST /v1/takeall?requests=1", ""), 400,
               "unsupported \"requests\" in the query, expected it in a JSON body");
    const char *good = "{\"requests\":[{\"policy\":\"user\",\"key\":\"a\"}]}";
    is_problem(post(f, "/v1/takeall?denied=200", good), 400,
               "\"denied\": expected 403, 429 or 503, found \"200\"");
    is_problem(post(f, "/v1/takeall?delay=yes", good), 400,
               "\"delay\": expected \"report\", found \"yes\"");
    is_problem(post(f, "/v1/takeall?denied=403&denied=503", good), 400,
               "duplicate parameter \"denied\"");
    is_problem(with(f, "POST /v1/takeall?key=a", ""), 400,
               "unknown parameter \"key\", expected delay, denied, requests");
    assert_non_null(
        strstr(body_of(post(f, "/v1/takeall",
                            "{\"requests\":[{\"policy\":\"org\",\"key\":\"k\",\"cost\":9,"
                            "\"keep\":\"10%\"}]}")),
               "\"allowed\":false,"));
    assert_non_null(strstr(body_of(get(f, "/v1/peek?policy=org&key=k")), "\"remaining\":9,"));
}

/* Returns the id at the end of a response. */
static void id_of(const char *answer, char ret[17])
{
    const char *id = strstr(body_of(answer), "\"id\":\"");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(id);
    snprintf(ret, 17, "%.16s", id + 6);
}

static void check_reserve(void **state)
{
    fixture *f = *state;
    char id[17], body[128], detail[128];
    add_rules(f);
    const char *answer =
        post(f, "/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"cost\":6,\"ttl\":\"30s\"}");
    id_of(answer, id);
    has_line(answer, "RateLimit: \"org\";r=3;t=6");
    assert_memory_equal(body_of(answer), "{\"allowed\":true,\"limit\":9,\"remaining\":3,", 40);
    answer = with(f, "POST /v1/reserve?policy=org&key=a&cost=6&ttl=500ms", "");
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Retry-After: 3");
    assert_null(strstr(answer, "\"id\""));
    snprintf(body, sizeof body, "{\"id\":\"%s\",\"actual\":2}", id);
    answer = post(f, "/v1/commit", body);
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "Cache-Control: no-store");
    assert_string_equal(body_of(answer), "{\"settled\":true,\"over\":0,\"limit\":9,\"remaining\":7,"
                                         "\"reset_after_ms\":2000,\"next_ms\":0,\"layer\":0}\n");
    snprintf(detail, sizeof detail,
             "no open reservation %s: it was committed, was cancelled or has expired", id);
    is_problem(post(f, "/v1/commit", body), 404, detail);
    id_of(post(f, "/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"cost\":7,\"ttl\":30}"), id);
    snprintf(body, sizeof body, "POST /v1/commit?id=%s&actual=9", id);
    assert_string_equal(body_of(with(f, body, "")),
                        "{\"settled\":true,\"over\":0,\"limit\":9,\"remaining\":0,"
                        "\"reset_after_ms\":11000,\"next_ms\":3000,\"layer\":0}\n");
    id_of(post(f, "/v1/reserve", "{\"limit\":\"gcra 1/s\",\"key\":\"a\",\"ttl\":30}"), id);
    snprintf(body, sizeof body, "POST /v1/cancel?id=%s", id);
    assert_memory_equal(body_of(with(f, body, "")),
                        "{\"settled\":true,\"over\":0,\"limit\":1,\"remaining\":1,", 49);
    id_of(post(f, "/v1/reserve", "{\"limit\":\"gcra 1/s\",\"key\":\"a\",\"ttl\":30}"), id);
    f->now_ns += 30000000000;
    snprintf(body, sizeof body, "POST /v1/commit?id=%s&actual=1", id);
    assert_memory_equal(body_of(with(f, body, "")), /* the reservation has expired */
                        "{\"settled\":true,\"over\":0,\"limit\":1,\"remaining\":0,", 49);
    assert_int_equal(status_of(with(f, body, "")), 404); /* once */
    assert_int_equal(status_of(get(f, "/v1/reserve?policy=org&key=a&ttl=1")), 405);
    assert_int_equal(status_of(get(f, "/v1/commit?id=0000000000000001&actual=1")), 405);
    assert_int_equal(status_of(get(f, "/v1/cancel?id=0000000000000001")), 405);
}

#define OF_LEASE "\"ttl\": expected at most the lease of the policy, found 31s"

/* Requests in flight: the TTL is the lease of the policy, and can be renewed. */
static void check_leases(void **state)
{
    fixture *f = *state;
    char id[17], request[128];
    add_rules(f);
    const char *answer =
        post(f, "/v1/reserve", "{\"limit\":\"concurrent 1 lease 30s\",\"key\":\"a\"}");
    id_of(answer, id);
    assert_memory_equal(body_of(answer), "{\"allowed\":true,\"limit\":1,\"remaining\":0,", 40);
    f->now_ns += 29999999999;
    snprintf(request, sizeof request, "POST /v1/renew?id=%s", id);
    assert_string_equal(body_of(with(f, request, "")),
                        "{\"renewed\":true,\"limit\":1,\"remaining\":0,"
                        "\"reset_after_ms\":30000,\"next_ms\":30000,\"layer\":0}\n");
    snprintf(request, sizeof request, "{\"id\":\"%s\",\"ttl\":\"500ms\"}", id);
    assert_string_equal(body_of(post(f, "/v1/renew", request)),
                        "{\"renewed\":true,\"limit\":1,\"remaining\":0,"
                        "\"reset_after_ms\":500,\"next_ms\":500,\"layer\":0}\n");
    snprintf(request, sizeof request, "{\"id\":\"%s\",\"ttl\":31}", id);
    is_problem(post(f, "/v1/renew", request), 400, OF_LEASE);
    f->now_ns += 500000000;
    snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    assert_int_equal(status_of(post(f, "/v1/renew", request)), 404);
    assert_int_equal(status_of(get(f, "/v1/renew?id=0000000000000001")), 405);
}

static void check_reserve_errors(void **state)
{
    fixture *f = *state;
    add_rules(f);
#define TTL "a duration from 1ns to 36.5 years, such as 30s or 1h30m, or a number of seconds"
    static const struct {
        const char *path, *body, *detail;
    } rows[] = {
        {"/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\"}",
         "\"ttl\": expected a duration, because the policy has no concurrent layer, found none"},
        {"/v1/reserve", "{\"limit\":\"concurrent 2 lease 30s\",\"key\":\"a\",\"ttl\":31}",
         OF_LEASE},
        {"/v1/renew", "{\"ttl\":1}", "missing parameter \"id\""},
        {"/v1/renew", "{\"id\":\"1\"}",
         "\"id\": expected 16 hexadecimal digits, the id that reserve returned, found \"1\""},
        {"/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"ttl\":0}",
         "\"ttl\": expected " TTL ", found 0"},
        {"/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"ttl\":-5}",
         "\"ttl\": expected " TTL ", found -5"},
        {"/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"ttl\":\"1 s\"}",
         "\"ttl\": expected " TTL ", found \"1 s\""},
        {"/v1/reserve", "{\"policy\":\"org\",\"key\":\"a\",\"ttl\":1.5}",
         "\"ttl\" in the body: expected a whole number of seconds or a string, found a fraction"},
        {"/v1/reserve", "{\"policy\":\"jobs\",\"key\":\"a\",\"ttl\":1}",
         "leaky-queue and count-denied policies do not support refunds"},
        {"/v1/reserve", "{\"ttl\":1,\"key\":\"a\"}", "missing parameter \"policy\" or \"limit\""},
        {"/v1/commit", "{\"actual\":1}", "missing parameter \"id\""},
        {"/v1/commit", "{\"id\":\"0000000000000001\"}", "missing parameter \"actual\""},
        {"/v1/commit", "{\"id\":\"1\",\"actual\":1}",
         "\"id\": expected 16 hexadecimal digits, the id that reserve returned, found \"1\""},
        {"/v1/commit", "{\"id\":1,\"actual\":1}",
         "\"id\" in the body: expected a string, found a number"},
        {"/v1/commit", "{\"id\":\"0000000000000001\",\"actual\":-1}",
         "\"actual\": expected a whole number from 0 to 2147483647, found -1"},
        {"/v1/commit", "[]",
         "a list in the body, expected a JSON object such as {\"id\":\"16 hexadecimal digits\"}"},
        {"/v1/cancel", "{\"id\":\"0000000000000001\",\"actual\":1}",
         "unknown parameter \"actual\", expected id"},
        {"/v1/cancel", "{}", "missing parameter \"id\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        is_problem(post(f, rows[i].path, rows[i].body), 400, rows[i].detail);
    is_problem(with(f, "POST /v1/cancel?id=0000000000000001", ""), 404,
               "no open reservation 0000000000000001: it was committed, was cancelled or has "
               "expired");
}

/* Cross-site requests, and requests without the password, are refused. */
static void check_access(void **state)
{
    fixture *f = *state;
    static const char *const targets[] = {
        "POST /v1/takeall", "POST /v1/reserve?policy=org&key=a&ttl=1",
        "POST /v1/commit?id=0000000000000000&actual=1", "POST /v1/cancel?id=0000000000000000"};
    static const char body[] = "{\"requests\":[{\"policy\":\"org\",\"key\":\"a\"}]}";
    add_rules(f);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        for (int other = 0; other < 2; other++) {
            char lines[256];
            snprintf(lines, sizeof lines,
                     "Sec-Fetch-Site: %s\r\n" JSON_HEAD "Content-Length: %zu\r\n\r\n%s",
                     other ? "cross-site" : "same-origin", i ? 0 : sizeof body - 1, i ? "" : body);
            assert_int_equal(status_of(with(f, targets[i], lines)), other ? 403 : 200);
        }
    }
    users_kit_set_password(&f->users, "open sesame");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        assert_int_equal(status_of(with(f, targets[i], "")), 401);
    users_kit_set_password(&f->users, NULL);
    assert_int_equal(status_of(with(f, "POST /v1/takeall",
                                    "Content-Type: text/plain\r\n"
                                    "Content-Length: 2\r\n\r\n{}")),
                     415);
}

/* A full store that refuses new keys: existing keys still work, and the error names the store. */
static void check_refused(void **state)
{
    (void)state;
    enum { KEYS = 200000 };
    static const char text[] = "gcra 1/h burst 5";
    fixture *f = fixture_of(WEIR_REFUSE);
    weir_policy p;
    weir_decision d;
    weir_status st = WEIR_OK;
    assert_int_equal(weir_policy_parse(&p, text, sizeof text - 1, NULL, NULL), WEIR_OK);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=old")), 200);
    for (int key = 0; key < KEYS; key++)
        st = weir_store_check(f->store, &p, 1, &key, sizeof key, NOW_NS, 1, &d);
    assert_int_equal(st, WEIR_E_FULL);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=old")), 200);
    is_problem(get(f, "/v1/take?policy=api&key=new"), 503,
               "the store is full and refuses new keys (memory.when_full)");
    is_problem(post(f, "/v1/takeall", "{\"requests\":[{\"policy\":\"api\",\"key\":\"new\"}]}"), 503,
               "requests[0]: the store is full and refuses new keys (memory.when_full)");
    is_problem(post(f, "/v1/reserve", "{\"policy\":\"api\",\"key\":\"new\",\"ttl\":1}"), 503,
               "too many open reservations, or the store is full and refuses new keys "
               "(memory.when_full), or it knows too many limits");
    fixture_free(f);
}

/* Units and shares, in the query and in the body. */
static void check_keep(void **state)
{
    fixture *f = *state;
    static const char check[] = "/v1/check?limit=fixed-window+5/year&key=k";
    static const char peek[] =
        "{\"limit\":\"fixed-window 5/year\",\"key\":\"k\",\"cost\":0,\"keep\":%s}";
    static const struct {
        const char *more, *expected;
    } takes[] = {{"&keep=2", "\"remaining\":2,"},
                 {"&cost=2&keep=41%25", "\"allowed\":false,"}, /* 2.05 is 3 */
                 {"&cost=2&keep=40%25", "\"allowed\":true,"},
                 {"&cost=0&keep=2147483647", "\"allowed\":false,"}};
    static const struct {
        const char *keep, *expected;
    } peeks[] = {{"\"60%\"", "\"allowed\":false,"}, {"\"40%\"", "\"allowed\":true,"},
                 {"3", "\"allowed\":false,"},       {"2147483647", "\"allowed\":false,"},
                 {"0", "\"allowed\":true,"},        {"2", "\"allowed\":true,"}};
    char text[160];
    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++) {
        snprintf(text, sizeof text, "%s%s", check, takes[i].more);
        assert_non_null(strstr(body_of(get(f, text)), takes[i].expected));
    }
    for (size_t i = 0; i < sizeof peeks / sizeof peeks[0]; i++) {
        snprintf(text, sizeof text, peek, peeks[i].keep);
        assert_non_null(strstr(body_of(post(f, "/v1/peek", text)), peeks[i].expected));
    }
}

static void check_wrong_keeps(void **state)
{
    fixture *f = *state;
    static const char *const keeps[][2] = {
        {"", ""},           {"-1", "-1"},     {"1.5", "1.5"}, {"2147483648", "2147483648"},
        {"101%25", "101%"}, {"-1%25", "-1%"}, {"%25", "%"}};
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++) {
        char target[80], detail[160];
        snprintf(target, sizeof target, "/v1/take?policy=api&key=a&keep=%s", keeps[i][0]);
        snprintf(detail, sizeof detail, "\"keep\": %s, found \"%s\"", WEIR_KEEP_EXPECTED,
                 keeps[i][1]);
        is_problem(get(f, target), 400, detail);
    }
    is_problem(post(f, "/v1/take", "{\"keep\":-1}"), 400,
               "\"keep\": " WEIR_KEEP_EXPECTED ", found -1");
    is_problem(post(f, "/v1/take", "{\"keep\":2147483648}"), 400,
               "\"keep\": " WEIR_KEEP_EXPECTED ", found 2147483648");
    is_problem(post(f, "/v1/take", "{\"keep\":true}"), 400,
               "\"keep\" in the body: expected a whole number or a string, found true");
    is_problem(post(f, "/v1/refund?policy=api&key=a&keep=1", ""), 400,
               "unknown parameter \"keep\", expected policy, limit, key, cost");
}

static void check_reset_all(void **state)
{
    fixture *f = *state;
    static const char text[] = "/v1/peek?limit=gcra+1/s+burst+5&key=alice";
    get(f, "/v1/take?policy=api&key=alice&cost=3");
    get(f, "/v1/check?limit=gcra+1/s+burst+5&key=alice&cost=2");
    assert_string_equal(body_of(post(f, "/v1/resetall", "{\"policy\":\"api\"}")),
                        "{\"reset\":true,\"policy\":\"api\"}\n");
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=alice"), "\"remaining\":5,"));
    assert_non_null(strstr(get(f, text), "\"remaining\":3,"));
    assert_string_equal(body_of(post(f, "/v1/resetall?limit=gcra+1/s+burst+5", "")),
                        "{\"reset\":true,\"policy\":\"gcra 1/s burst 5\"}\n");
    assert_non_null(strstr(get(f, text), "\"remaining\":5,"));
}

static void check_reset_all_errors(void **state)
{
    fixture *f = *state;
    is_problem(post(f, "/v1/resetall?policy=none", ""), 404,
               "unknown policy \"none\"; GET /v1/policies lists all");
    is_problem(post(f, "/v1/resetall?limit=gcra+1/x", ""), 400,
               "column 8: unknown unit 'x', expected one of ns us ms s m h d w");
    is_problem(post(f, "/v1/resetall", "{}"), 400, "missing parameter \"policy\" or \"limit\"");
    is_problem(post(f, "/v1/resetall?policy=api&limit=gcra+1/s", ""), 400,
               "expected either \"policy\" or \"limit\", found both");
    assert_int_equal(status_of(post(f, "/v1/resetall?policy=api&key=alice", "")), 400);
    is_problem(get(f, "/v1/resetall?policy=api"), 405,
               "unsupported method for /v1/resetall, expected POST, OPTIONS");
    for (uint64_t i = 0; i < WEIR_RESETS_MAX; i++)
        assert_int_equal(weir_store_reset_policy(f->store, i), WEIR_OK);
    is_problem(post(f, "/v1/resetall?policy=api", ""), 503,
               "the store remembers the resets of 192 policies, and cannot reset another one; "
               "reset keys one by one");
}

static void check_charge(void **state)
{
    fixture *f = *state;
    assert_int_equal(weir_limiter_set_limit(f->limiter, "api", "gcra 1/s burst 5", NULL), WEIR_OK);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=alice")), 200);
    const char *answer = post(f, "/v1/charge", "{\"policy\":\"api\",\"key\":\"alice\",\"cost\":4}");
    assert_int_equal(status_of(answer), 200);
    assert_string_equal(
        body_of(answer),
        "{\"allowed\":true,\"limit\":5,\"remaining\":0,\"retry_after_ms\":0,"
        "\"reset_after_ms\":5000,\"delay_ms\":0,\"next_ms\":1000,\"policy\":\"api\","
        "\"layer\":0,\"reason\":\"limit\",\"over\":0}\n");
    answer = post(f, "/v1/charge?policy=api&key=alice&cost=3", "");
    assert_int_equal(status_of(answer), 200); /* nothing was asked */
    assert_string_equal(
        body_of(answer),
        "{\"allowed\":false,\"limit\":5,\"remaining\":0,\"retry_after_ms\":3000,"
        "\"reset_after_ms\":8000,\"delay_ms\":0,\"next_ms\":4000,\"policy\":\"api\","
        "\"layer\":0,\"reason\":\"limit\",\"over\":0}\n");
    assert_int_equal(status_of(get(f, "/v1/peek?policy=api&key=alice&cost=0")), 429);
    answer = post(f, "/v1/refund?policy=api&key=alice&cost=1", "");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"allowed\":false"));
    assert_null(strstr(answer, "\"over\""));
    is_problem(post(f, "/v1/charge?limit=concurrent+2+lease+1s&key=a", ""), 400,
               "policies with only concurrent and block layers do not support charges");
    is_problem(post(f, "/v1/charge?policy=none&key=a", ""), 404,
               "unknown policy \"none\"; GET /v1/policies lists all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_take_all),       TEST(check_delay),       TEST(check_take_all_errors),
        TEST(check_keep),           TEST(check_wrong_keeps), TEST(check_reserve),
        TEST(check_reserve_errors), TEST(check_access),      TEST(check_leases),
        TEST(check_refused),        TEST(check_reset_all),   TEST(check_reset_all_errors),
        TEST(check_charge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
