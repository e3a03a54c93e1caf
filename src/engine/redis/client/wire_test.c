/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The encoding of calls, byte by byte and within its bound; keys and slots; calendar windows; and
 * the check of replies. */

#include "engine/redis/client/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weir_policy policy;
static weir_redis_bounds bounds[WEIR_REDIS_ZONES];

static weir_slice bytes_of(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static weir_engine_request make_request(weir_verb verb, const char *key, int64_t cost)
{
    static const char text[] = "gcra 100/s burst 20";
    assert_int_equal(weir_policy_parse(&policy, text, strlen(text), NULL, NULL), WEIR_OK);
    return (weir_engine_request){.verb = verb,
                                 .policy = &policy,
                                 .text = bytes_of(text),
                                 .name = bytes_of("api"),
                                 .key = bytes_of(key),
                                 .cost = cost};
}

static bool sends_time; /* of encoded() */

/* The encoding, in a block that ends at the upper bound of its size. */
static char *encoded(const weir_redis_call *c, weir_redis_by by, int64_t now_ns)
{
    const weir_redis_encoder s = {.by = by,
                                  .prefix = "weir:",
                                  .prefix_len = 5,
                                  .sha = "0123456789012345678901234567890123456789",
                                  .bounds = bounds,
                                  .now_ns = now_ns,
                                  .sends_time = sends_time};
    size_t room = weir_redis_wire_size(c, 5);
    uint8_t *at = malloc(room);
    size_t len = (size_t)(weir_redis_wire_put(at, c, &s) - at);
    assert_true(len <= room);
    char *ret = calloc(1, len + 1);
    memcpy(ret, at, len);
    free(at);
    return ret;
}

static void says(const weir_redis_call *c, weir_redis_by by, const char *expected)
{
    char *text = encoded(c, by, 0);
    assert_string_equal(text, expected);
    free(text);
}

static void encodes_requests(void **state)
{
    (void)state;
    weir_engine_request q = make_request(WEIR_VERB_TAKE, "alice", 1);
    weir_redis_call c = {.request = &q, .len = 1};
    says(&c, WEIR_REDIS_BY_MODULE,
         "*5\r\n$8\r\nWEIR.ASK\r\n$4\r\nTAKE\r\n$19\r\ngcra 100/s burst 20\r\n"
         "$16\r\nweir:{alice}:api\r\n$1\r\n1\r\n");
    q.verb = WEIR_VERB_GRANT;
    q.cost = 2147483647;
    char expected[512], name[64];
    size_t len = weir_redis_key("weir:", &q, false, 0, name, sizeof name);
    assert_int_equal(len, 17);
    assert_memory_equal(name, "weir:{alice}:api#", 17);
    snprintf(expected, sizeof expected,
             "*7\r\n$5\r\nFCALL\r\n$8\r\nweir_ask\r\n$1\r\n1\r\n$17\r\n%.17s\r\n$5\r\nGRANT\r\n"
             "$19\r\ngcra 100/s burst 20\r\n$10\r\n2147483647\r\n",
             name);
    says(&c, WEIR_REDIS_BY_FUNCTIONS, expected);
    q.verb = WEIR_VERB_RESET;
    snprintf(expected, sizeof expected,
             "*8\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789012345678901234567890123456789\r\n$1\r\n1\r\n"
             "$17\r\n%.17s\r\n$8\r\nweir_ask\r\n$5\r\nRESET\r\n$19\r\ngcra 100/s burst 20\r\n"
             "$1\r\n0\r\n",
             name);
    says(&c, WEIR_REDIS_BY_SCRIPT, expected);
    static const char *const verbs[] = {
        [WEIR_VERB_PEEK] = "PEEK", [WEIR_VERB_REFUND] = "REFUND", [WEIR_VERB_CHARGE] = "CHARGE"};
    static const weir_verb others[] = {WEIR_VERB_PEEK, WEIR_VERB_REFUND, WEIR_VERB_CHARGE};
    for (int i = 0; i < 3; i++) {
        const char *verb = verbs[others[i]];
        q.verb = others[i];
        q.cost = -10;
        snprintf(expected, sizeof expected,
                 "*5\r\n$8\r\nWEIR.ASK\r\n$%zu\r\n%s\r\n$19\r\ngcra 100/s burst 20\r\n"
                 "$16\r\nweir:{alice}:api\r\n$3\r\n-10\r\n",
                 strlen(verb), verb);
        says(&c, WEIR_REDIS_BY_MODULE, expected);
    }
}

static void encodes_the_wish_for_figures(void **state)
{
    (void)state;
    static const char last[] = "$1\r\n1\r\n$7\r\nFIGURES\r\n";
    static const struct {
        weir_redis_by by;
        bool all;
        const char *begin;
    } rows[] = {{WEIR_REDIS_BY_MODULE, false, "*6\r\n$8\r\nWEIR.ASK\r\n"},
                {WEIR_REDIS_BY_MODULE, true, "*9\r\n$11\r\nWEIR.ASKALL\r\n"},
                {WEIR_REDIS_BY_FUNCTIONS, false, "*8\r\n$5\r\nFCALL\r\n$8\r\nweir_ask\r\n"},
                {WEIR_REDIS_BY_FUNCTIONS, true, "*10\r\n$5\r\nFCALL\r\n$12\r\nweir_ask_all\r\n"},
                {WEIR_REDIS_BY_SCRIPT, true, "*11\r\n$7\r\nEVALSHA\r\n"}};
    weir_engine_request q[2] = {make_request(WEIR_VERB_TAKE, "a", 1),
                                make_request(WEIR_VERB_TAKE, "b", 1)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_redis_call c = {
            .request = q, .len = rows[i].all ? 2 : 1, .all = rows[i].all, .figures = true};
        char *text = encoded(&c, rows[i].by, 0);
        assert_memory_equal(text, rows[i].begin, strlen(rows[i].begin));
        assert_string_equal(text + strlen(text) - strlen(last), last);
        assert_int_equal(weir_redis_wire_fields(&c), rows[i].all ? 25 : 12);
        free(text);
    }
    weir_redis_call c = {.request = q, .len = 2, .all = true};
    assert_int_equal(weir_redis_wire_fields(&c), 17);
    assert_false(weir_redis_wire_wants_figures(&c));
    q[1].with_figures = true;
    assert_true(weir_redis_wire_wants_figures(&c));
    q[0].with_figures = true;
    c = (weir_redis_call){.request = q, .len = 1};
    q[0].verb = WEIR_VERB_THROTTLE;
    assert_false(weir_redis_wire_wants_figures(&c));
    q[0].verb = WEIR_VERB_RESET_ALL;
    assert_false(weir_redis_wire_wants_figures(&c));
    q[0].verb = WEIR_VERB_PEEK;
    assert_true(weir_redis_wire_wants_figures(&c));
}

static void encodes_what_is_kept(void **state)
{
    (void)state;
    static const struct {
        int64_t cost, keep;
        const char *units;
    } rows[] = {{1, 20, "$4\r\n1+20"},
                {0, WEIR_KEEP_PERCENT(100), "$6\r\n0+100%"},
                {WEIR_COST_MAX, WEIR_COST_MAX, "$21\r\n2147483647+2147483647"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_engine_request q[2] = {make_request(WEIR_VERB_PEEK, "a", rows[i].cost),
                                    make_request(WEIR_VERB_TAKE, "b", rows[i].cost)};
        weir_redis_call c = {.request = q, .len = 1};
        char expected[256];
        q[0].keep = q[1].keep = rows[i].keep;
        snprintf(expected, sizeof expected,
                 "*5\r\n$8\r\nWEIR.ASK\r\n$4\r\nPEEK\r\n$19\r\ngcra 100/s burst 20\r\n"
                 "$12\r\nweir:{a}:api\r\n%s\r\n",
                 rows[i].units);
        says(&c, WEIR_REDIS_BY_MODULE, expected);
        c = (weir_redis_call){.request = q, .len = 2, .all = true};
        static const weir_redis_by by[] = {WEIR_REDIS_BY_MODULE, WEIR_REDIS_BY_FUNCTIONS};
        for (size_t k = 0; k < 2; k++) {
            char *text = encoded(&c, by[k], 0);
            const char *first = strstr(text, rows[i].units);
            assert_non_null(first);
            assert_non_null(strstr(first + 1, rows[i].units));
            free(text);
        }
    }
}

static void encodes_several_as_one(void **state)
{
    (void)state;
    weir_engine_request q[2] = {make_request(WEIR_VERB_TAKE, "a", 1),
                                make_request(WEIR_VERB_TAKE, "b", 22)};
    q[1].name = bytes_of("");
    weir_redis_call c = {.request = q, .len = 2, .all = true};
    says(&c, WEIR_REDIS_BY_MODULE,
         "*8\r\n$11\r\nWEIR.ASKALL\r\n$1\r\n2\r\n$19\r\ngcra 100/s burst 20\r\n"
         "$12\r\nweir:{a}:api\r\n$1\r\n1\r\n$19\r\ngcra 100/s burst 20\r\n$9\r\nweir:{b}:\r\n"
         "$2\r\n22\r\n");
    char expected[512], name[2][64];
    for (int i = 0; i < 2; i++)
        name[i][weir_redis_key("weir:", &q[i], false, 0, name[i], sizeof *name)] = 0;
    snprintf(expected, sizeof expected,
             "*9\r\n$5\r\nFCALL\r\n$12\r\nweir_ask_all\r\n$1\r\n2\r\n$13\r\n%s\r\n$26\r\n%s\r\n"
             "$19\r\ngcra 100/s burst 20\r\n$1\r\n1\r\n$19\r\ngcra 100/s burst 20\r\n$2\r\n22\r\n",
             name[0], name[1]);
    says(&c, WEIR_REDIS_BY_FUNCTIONS, expected);
    c.len =
        1; /* one request with `all` set is encoded like several: its reply has one more integer */
    char *text = encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 0);
    assert_memory_equal(text, "*6\r\n", 4);
    free(text);
    assert_int_equal(weir_redis_wire_fields(&c), 9);
}

/* For servers that refuse TIME: whole microseconds. The module has a clock. */
static void encodes_the_time(void **state)
{
    (void)state;
    static const struct {
        weir_redis_by by;
        bool all;
        const char *begin, *time;
    } rows[] = {
        {WEIR_REDIS_BY_FUNCTIONS, false, "*9\r\n",
         "$2\r\nAT\r\n$16\r\n1767225600000001\r\n$4\r\nTAKE\r\n"},
        {WEIR_REDIS_BY_SCRIPT, false, "*10\r\n",
         "$8\r\nweir_ask\r\n$2\r\nAT\r\n$16\r\n1767225600000001\r\n$4\r\nTAKE\r\n"},
        {WEIR_REDIS_BY_SCRIPT, true, "*9\r\n",
         "$12\r\nweir_ask_all\r\n$2\r\nAT\r\n$16\r\n1767225600000001\r\n$19\r\ngcra"},
        {WEIR_REDIS_BY_MODULE, false, "*5\r\n$8\r\nWEIR.ASK\r\n$4\r\nTAKE\r\n", ""},
    };
    weir_engine_request q = make_request(WEIR_VERB_TAKE, "alice", 1);
    sends_time = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_redis_call c = {.request = &q, .len = 1, .all = rows[i].all};
        char *text = encoded(&c, rows[i].by, 1767225600000001999);
        assert_memory_equal(text, rows[i].begin, strlen(rows[i].begin));
        assert_non_null(strstr(text, rows[i].time));
        free(text);
    }
    sends_time = false;
}

static void names_redis_keys(void **state)
{
    (void)state;
    weir_engine_request q = make_request(WEIR_VERB_TAKE, "{org1}:alice", 1);
    char name[64];
    size_t len = weir_redis_key("weir:", &q, true, 0, name, sizeof name);
    assert_int_equal(len, 23);
    assert_memory_equal(name, "weir:{{org1}:alice}:api", 23);
    len = weir_redis_key("weir:", &q, true, 0x0123456789abcdef, name, sizeof name);
    assert_int_equal(len, 40);
    assert_memory_equal(name, "weir:{{org1}:alice}:api?0123456789abcdef", 40);
    len = weir_redis_key("weir:", &q, false, 1, name, sizeof name);
    assert_int_equal(len, 41);
    assert_memory_equal(name, "weir:{{org1}:alice}:api?0000000000000001#", 41);
    weir_engine_request all = {.verb = WEIR_VERB_RESET_ALL};
    len = weir_redis_key("p", &all, false, 7, name, sizeof name);
    assert_int_equal(len, 8);
    assert_memory_equal(name, "p#resets", 8);
    /* FNV-1a, 64 bits, by its published vectors. */
    q.name = bytes_of("");
    q.text = bytes_of("foobar");
    len = weir_redis_key("p", &q, false, 0, name, sizeof name);
    assert_memory_equal(name + len - 17, "#85944171f73967e8", 17);
    q.text = bytes_of("");
    len = weir_redis_key("p", &q, false, 0, name, sizeof name);
    assert_memory_equal(name + len - 17, "#cbf29ce484222325", 17);
    /* Writes only what fits. */
    memset(name, '!', sizeof name);
    assert_int_equal(weir_redis_key("p", &q, false, 0, name, 5), len);
    assert_memory_equal(name, "p{{or!!", 7);
}

static void computes_hash_slots(void **state)
{
    (void)state;
    assert_int_equal(weir_redis_slot("123456789", 9), 12739); /* the vector of the Cluster's spec */
    assert_int_equal(weir_redis_slot("", 0), 0);
    assert_int_equal(weir_redis_slot("foo", 3), 12182);
    assert_int_equal(weir_redis_slot("a{foo}b", 7), 12182);
    assert_int_equal(weir_redis_slot("{foo}{bar}", 10), 12182);
    assert_int_equal(weir_redis_slot("{}foo", 5), weir_redis_slot_of_tag("{}foo", 5));
    assert_int_equal(weir_redis_slot("{a}", 3), weir_redis_slot_of_tag("a", 1));
    assert_int_equal(weir_redis_slot("{", 1), weir_redis_slot_of_tag("{", 1));
    assert_int_equal(weir_redis_slot("a{b}", 3), weir_redis_slot_of_tag("a{b", 3));
    assert_int_equal(weir_redis_slot("foo{{bar}}zap", 13), weir_redis_slot_of_tag("{bar", 4));
}

/* ---- calendar windows ------------------------------------------------------------------------ */

static int windows; /* that were computed */

/* Days begin at 1:00; the first one begins at 0. */
static weir_span day(const weir_zone *zone, weir_calendar unit, int32_t anchor, int64_t t_ns)
{
    (void)zone;
    (void)unit;
    (void)anchor;
    assert_true(t_ns >= 0);
    windows++;
    const int64_t h = 3600000000000;
    int64_t n = (t_ns - h) / (24 * h);
    if (t_ns < h)
        return (weir_span){0, h};
    return (weir_span){h + n * 24 * h, h + (n + 1) * 24 * h};
}

static void encodes_windows(void **state)
{
    (void)state;
    weir_engine_request q = make_request(WEIR_VERB_TAKE, "a", 1);
    weir_policy two = policy;
    two.layers = 2;
    two.layer[1] = policy.layer[0];
    two.layer[1].algorithm = WEIR_FIXED_WINDOW;
    two.layer[1].calendar = WEIR_DAY;
    two.layer[1].zone = (const weir_zone *)&two; /* not dereferenced */
    two.layer[1].window = day;
    q.policy = &two;
    weir_redis_call c = {.request = &q, .len = 1};
    memset(bounds, 0, sizeof bounds);
    windows = 0;
    const int64_t h = 3600000000000;
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        char *text = encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 30 * h);
        assert_memory_equal(text, "*11\r\n", 5);
        assert_non_null(strstr(text, "\r\n$1\r\n1\r\n$10\r\n3600000000\r\n$11\r\n90000000000\r\n"
                                     "$12\r\n176400000000\r\n$12\r\n262800000000\r\n"));
        free(text);
        assert_int_equal(windows, 3);
    }
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h - 1)); /* to the end of the day */
    assert_int_equal(windows, 3);
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    assert_int_equal(windows, 6);
    two.layer[1].zone =
        (const weir_zone *)(const void *)((const char *)&two + 64 * WEIR_REDIS_ZONES);
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h)); /* another zone, in the same entry */
    assert_int_equal(windows, 9);
    two.layer[1].calendar = WEIR_WEEK; /* another unit, in another entry */
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    assert_int_equal(windows, 12);
    two.layer[1].calendar = WEIR_DAY;
    two.layer[1].anchor = 1; /* another anchor, in the entry of the week */
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    assert_int_equal(windows, 15);
    two.layer[1].anchor = WEIR_REDIS_ZONES; /* in the entry of the day */
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    assert_int_equal(windows, 18);
    two.layer[1].anchor = 0;
    free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    assert_int_equal(windows, 21);
    two.layer[1].calendar = WEIR_MONTH; /* each day of a month has an entry */
    for (int i = 0; i < 2 * 31; i++) {
        two.layer[1].anchor = i % 31;
        free(encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 49 * h));
    }
    assert_int_equal(windows, 21 + 3 * 31);
    two.layer[1].anchor = 0;
    two.layer[1].calendar = WEIR_DAY;
    char *text = encoded(&c, WEIR_REDIS_BY_SCRIPT, 0); /* the first day */
    assert_memory_equal(text, "*12\r\n", 5);
    assert_non_null(strstr(text, "\r\n$1\r\n0\r\n$1\r\n0\r\n$10\r\n3600000000\r\n"
                                 "$11\r\n90000000000\r\n"));
    free(text);
    text = encoded(&c, WEIR_REDIS_BY_MODULE, 30 * h); /* the module has time zones */
    assert_memory_equal(text, "*5\r\n", 4);
    free(text);
    two.layers = 1; /* a layer beyond the last is not read, and the first may have a zone */
    two.layer[0] = two.layer[1];
    text = encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 30 * h);
    assert_memory_equal(text, "*11\r\n", 5);
    assert_non_null(strstr(text, "\r\n$1\r\n1\r\n$10\r\n3600000000\r\n"));
    assert_string_equal(text + strlen(text) - 12, "2800000000\r\n");
    assert_null(strstr(strstr(text, "\n3600000000") + 1, "\n3600000000"));
    free(text);
    two.layers = 2;
    two.layer[0] = policy.layer[0];
    two.layer[1].zone = NULL; /* UTC needs no bounds */
    text = encoded(&c, WEIR_REDIS_BY_FUNCTIONS, 30 * h);
    assert_memory_equal(text, "*7\r\n", 4);
    free(text);
}

/* The longest values stay within the size. */
static void the_size_is_an_upper_bound(void **state)
{
    (void)state;
    static char key[65536], name[256], text[1024];
    memset(key, 'k', sizeof key);
    memset(name, 'n', sizeof name);
    memset(text, 't', sizeof text);
    weir_policy zoned;
    (void)make_request(WEIR_VERB_TAKE, "a", 1);
    zoned = policy;
    zoned.layers = WEIR_LAYERS_MAX;
    for (int i = 0; i < WEIR_LAYERS_MAX; i++) {
        zoned.layer[i] = policy.layer[0];
        zoned.layer[i].calendar = WEIR_DAY;
        zoned.layer[i].zone = (const weir_zone *)&zoned;
        zoned.layer[i].window = day;
    }
    weir_engine_request q[WEIR_TAKE_MANY_MAX];
    for (int i = 0; i < WEIR_TAKE_MANY_MAX; i++)
        q[i] = (weir_engine_request){.policy = &zoned,
                                     .text = {text, sizeof text},
                                     .name = {name, sizeof name},
                                     .key = {key, sizeof key},
                                     .cost = INT64_MIN};
    for (int by = WEIR_REDIS_BY_MODULE; by <= WEIR_REDIS_BY_SCRIPT; by++) {
        weir_redis_call all = {.request = q, .len = WEIR_TAKE_MANY_MAX, .all = true};
        weir_redis_call one = {.request = q, .len = 1};
        all.figures = one.figures = true;
        free(encoded(&all, (weir_redis_by)by, WEIR_NOW_NS_MAX));
        free(encoded(&one, (weir_redis_by)by, WEIR_NOW_NS_MAX));
    }
    q[0].verb = WEIR_VERB_THROTTLE;
    q[0].throttle = (weir_throttle){INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    weir_redis_call throttle = {.request = q, .len = 1};
    free(encoded(&throttle, WEIR_REDIS_BY_MODULE, 0));
}

/* ---- replies --------------------------------------------------------------------------------- */

static void refuses_out_of_range_replies(void **state)
{
    (void)state;
    weir_engine_request q = make_request(WEIR_VERB_GRANT, "a", 9);
    weir_redis_call c = {.request = &q, .len = 1};
    const int64_t denied[8] = {0, 20, 0, 1500, 200000, 0, 0, 9};
    assert_true(weir_redis_wire_answer(&c, denied));
    assert_int_equal(q.decision.retry_after_ns, 1500000);
    assert_int_equal(q.decision.reset_after_ns, 200000000);
    assert_int_equal(q.granted, 9);
    assert_false(q.decision.allowed || q.decision.never);
    /* One invalid integer at a time. */
    static const int64_t wrong[8][3] = {{-1, 2, 7},
                                        {-1, (int64_t)WEIR_LIMIT_MAX + 1, INT64_MIN},
                                        {-1, 21, INT64_MAX},
                                        {-2, INT64_MAX, INT64_MIN},
                                        {-1, INT64_MAX, INT64_MIN},
                                        {-1, INT64_MAX, INT64_MIN},
                                        {-1, 1, INT64_MAX},
                                        {-1, 10, INT64_MAX}};
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 3; j++) {
            int64_t f[8];
            memcpy(f, denied, sizeof f);
            f[i] = wrong[i][j];
            assert_false(weir_redis_wire_answer(&c, f));
        }
    }
    const int64_t allowed_later[8] = {1, 20, 0, 1500, 200000, 0, 0, 0};
    assert_false(weir_redis_wire_answer(&c, allowed_later));
    c.all = true;
    const int64_t all[9] = {1, 1, 20, 19, 0, 50, 0, 0, 0};
    assert_true(weir_redis_wire_answer(&c, all));
    assert_int_equal(c.blocking, 1);
    const int64_t first[9] = {0, 0, 20, 0, 1500, 50, 0, 0, 0}; /* the first one blocks */
    assert_true(weir_redis_wire_answer(&c, first));
    assert_int_equal(c.blocking, 0);
    const int64_t before[9] = {-1, 0, 20, 0, 1500, 50, 0, 0, 0};
    assert_false(weir_redis_wire_answer(&c, before));
    const int64_t wrong_one[9] = {1, 2, 20, 19, 0, 50, 0, 0, 0};
    assert_false(weir_redis_wire_answer(&c, wrong_one));
    const int64_t none[9] = {2, 1, 20, 19, 0, 50, 0, 0, 0};
    assert_false(weir_redis_wire_answer(&c, none));
}

static void reads_figures(void **state)
{
    (void)state;
    const int64_t max = INT64_MAX / 1000;
    weir_engine_request q = make_request(WEIR_VERB_PEEK, "a", 9);
    weir_redis_call c = {.request = &q, .len = 1, .figures = true};
    const int64_t all[12] = {0, 20, 0, 1500, 200000, 0, 0, 0, 7, 3, 2, 1767225600000001};
    assert_true(weir_redis_wire_answer(&c, all));
    assert_int_equal(q.next_ns, 7000);
    assert_int_equal(q.figures.count, 3);
    assert_int_equal(q.figures.previous, 2);
    assert_int_equal(q.figures.start_ns, 1767225600000001000);
    const int64_t none[12] = {0, 20, 0, 1500, 200000, 0, 0, 0, -1, -1, -1, -1};
    assert_true(weir_redis_wire_answer(&c, none));
    assert_int_equal(q.next_ns, INT64_MAX);
    assert_int_equal(q.figures.count, WEIR_NO_FIGURE);
    assert_int_equal(q.figures.previous, WEIR_NO_FIGURE);
    assert_int_equal(q.figures.start_ns, WEIR_NO_FIGURE);
    for (int i = 8; i < 12; i++) {
        int64_t f[12];
        memcpy(f, all, sizeof f);
        f[i] = 0;
        assert_true(weir_redis_wire_answer(&c, f));
        f[i] = max;
        assert_true(weir_redis_wire_answer(&c, f));
        f[i] = max + 1; /* a count has no unit */
        assert_int_equal(weir_redis_wire_answer(&c, f), i == 9 || i == 10);
        f[i] = -2;
        assert_false(weir_redis_wire_answer(&c, f));
    }
    assert_int_equal(q.figures.start_ns, max * 1000);
    q.next_ns = 5;
    c.figures = false; /* what follows the granted units is not read */
    assert_true(weir_redis_wire_answer(&c, all));
    assert_int_equal(q.next_ns, 5);
    weir_engine_request two[2] = {q, q};
    c = (weir_redis_call){.request = two, .len = 2, .all = true, .figures = true};
    const int64_t both[25] = {2, 1,  20, 3, 0, 4, 5, 0, 0, 0,  -1, -1, -1,
                              1, 20, 3,  0, 4, 5, 0, 0, 9, -1, -1, -1};
    assert_true(weir_redis_wire_answer(&c, both));
    assert_int_equal(two[0].next_ns, 0);
    assert_int_equal(two[1].next_ns, 9000);
}

static void a_reply_sets_all_outputs(void **state)
{
    (void)state;
    weir_engine_request q[2];
    weir_policy two = policy;
    two.layers = 2;
    for (int i = 0; i < 2; i++) {
        q[i] = make_request(WEIR_VERB_GRANT, "a", 9);
        q[i].policy = &two;
        q[i].status = WEIR_E_BUSY;
        q[i].by_error = true;
        q[i].reason = "not answered";
    }
    weir_redis_call c = {.request = q, .len = 2, .all = true, .blocking = 7};
    const int64_t f[17] = {1, 1, 20, 3, 0, 4, 5, 1, 2, 0, 30, 6, -1, 7, 8, 0, 9};
    assert_true(weir_redis_wire_answer(&c, f));
    assert_int_equal(c.blocking, 1);
    for (int i = 0; i < 2; i++) {
        const weir_decision *d = &q[i].decision;
        assert_int_equal(q[i].status, WEIR_OK);
        assert_false(q[i].by_error);
        assert_null(q[i].reason);
        assert_int_equal(d->allowed, i == 0);
        assert_int_equal(d->limit, i ? 30 : 20);
        assert_int_equal(d->remaining, i ? 6 : 3);
        assert_int_equal(d->retry_after_ns, i ? INT64_MAX : 0);
        assert_int_equal(d->never, i == 1);
        assert_int_equal(d->reset_after_ns, i ? 7000 : 4000);
        assert_int_equal(d->delay_ns, i ? 8000 : 5000);
        assert_int_equal(d->layer, i ? 0 : 1);
        assert_int_equal(q[i].granted, i ? 9 : 2);
    }
    q[0].verb = WEIR_VERB_THROTTLE;
    q[0].status = WEIR_E_BUSY;
    q[0].throttle_status = WEIR_THROTTLE_RANGE;
    c = (weir_redis_call){.request = q, .len = 1};
    const int64_t limited[5] = {1, 4, 3, 2, 5};
    assert_true(weir_redis_wire_answer(&c, limited));
    assert_int_equal(q[0].status, WEIR_OK);
    assert_int_equal(q[0].throttle_status, WEIR_THROTTLE_OK);
    assert_true(q[0].answer.limited);
    assert_int_equal(q[0].answer.limit, 4);
    assert_int_equal(q[0].answer.remaining, 3);
    assert_int_equal(q[0].answer.retry_after_s, 2);
    assert_int_equal(q[0].answer.reset_after_s, 5);
}

/* CL.THROTTLE answers any arguments of a client. Its replies must be accepted: a reply that is
 * refused closes the connection, and breaks all calls in flight. */
static void accepts_all_throttle_replies(void **state)
{
    (void)state;
    static const int64_t numbers[] = {INT64_MIN, -1000000000000, -5,       -1, 0, 1, 2,
                                      10,        1000000000000,  INT64_MAX};
    enum { N = sizeof numbers / sizeof numbers[0] };
    const int64_t now_ns = 1700000000000000000;
    weir_engine_request q = make_request(WEIR_VERB_THROTTLE, "a", 1);
    weir_redis_call c = {.request = &q, .len = 1};
    for (int i = 0; i < N * N * N * N; i++) {
        const weir_throttle t = {numbers[i % N], numbers[i / N % N], numbers[i / (N * N) % N],
                                 numbers[i / (N * N * N)]};
        uint64_t tat = 0;
        for (int again = 0; again < 3; again++) {
            weir_throttle_answer a;
            if (weir_throttle_check(&t, &tat, now_ns, &a) != WEIR_THROTTLE_OK)
                break;
            const int64_t f[5] = {a.limited, a.limit, a.remaining, a.retry_after_s,
                                  a.reset_after_s};
            assert_true(weir_redis_wire_answer(&c, f));
            assert_int_equal(q.answer.remaining, a.remaining);
            assert_int_equal(q.answer.reset_after_s, a.reset_after_s);
        }
    }
    static const int64_t wrong[][5] = {{2, 1, 0, -1, 0}, {-1, 1, 0, -1, 0}, {1, 1, 0, -2, 0},
                                       {0, 1, 0, 0, 0},  {0, 1, 2, -1, 0},  {0, 1, -1, -1, 0},
                                       {0, 1, 1, -1, -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(weir_redis_wire_answer(&c, wrong[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_requests),
        cmocka_unit_test(encodes_the_wish_for_figures),
        cmocka_unit_test(encodes_what_is_kept),
        cmocka_unit_test(encodes_several_as_one),
        cmocka_unit_test(encodes_the_time),
        cmocka_unit_test(names_redis_keys),
        cmocka_unit_test(computes_hash_slots),
        cmocka_unit_test(encodes_windows),
        cmocka_unit_test(the_size_is_an_upper_bound),
        cmocka_unit_test(refuses_out_of_range_replies),
        cmocka_unit_test(reads_figures),
        cmocka_unit_test(a_reply_sets_all_outputs),
        cmocka_unit_test(accepts_all_throttle_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
