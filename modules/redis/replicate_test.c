/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Whether the module replicates, and what it does to the expiry of keys. The fake server itself
 * compares a replica with its master after each command. */

#include "server_kit_test.h"

static const module_reply *run(const char *a, const char *b, const char *c)
{
    const module_bytes args[] = {{a, strlen(a)}, {b, strlen(b)}, {c, strlen(c)}};
    const module_reply *r = module_server_run(args, 3);
    assert_true(r && !r->failed);
    return r;
}

/* ---- whether to replicate -------------------------------------------------------------------- */

static struct {
    int flags;
    unsigned long long backlog;
    int error;        /* of the field of the backlog */
    unsigned queries; /* of the server */
    bool has_no_events;
    redis_event_fn on_event;
} server;

static int context_flags(redis_ctx *ctx)
{
    (void)ctx;
    server.queries++;
    return server.flags;
}

static redis_info *server_info(redis_ctx *ctx, const char *section)
{
    (void)ctx;
    assert_string_equal(section, "replication");
    return (redis_info *)&server;
}

static unsigned long long info_field(redis_info *info, const char *field, int *error)
{
    assert_true(info == (redis_info *)&server);
    assert_string_equal(field, "repl_backlog_active");
    *error = server.error;
    return server.backlog;
}

static void free_info(redis_ctx *ctx, redis_info *info)
{
    (void)ctx;
    assert_true(info == (redis_info *)&server);
}

static int subscribe(redis_ctx *ctx, redis_event event, redis_event_fn fn)
{
    (void)ctx;
    server.on_event = fn;
    return server.has_no_events && event.id == REDIS_EVENT_FORK ? REDIS_ERR : REDIS_OK;
}

/* A server with this state, from which the module has loaded. */
static void start(int flags, unsigned long long backlog, int error)
{
    server.flags = flags;
    server.backlog = backlog;
    server.error = error;
    server.queries = 0;
    redis.GetContextFlags = context_flags;
    redis.GetServerInfo = server_info;
    redis.ServerInfoGetFieldUnsigned = info_field;
    redis.FreeServerInfo = free_info;
    redis.SubscribeToServerEvent = subscribe;
    weir_replicate_start(NULL);
}

static void reasons(void **unused)
{
    (void)unused;
    static const struct {
        int flags;
        unsigned long long backlog;
        int error;
        bool replicates;
    } rows[] = {
        {0, 0, REDIS_OK, false},
        {REDIS_CONTEXT_RESP3, 0, REDIS_OK, false},
        {REDIS_CONTEXT_AOF, 0, REDIS_OK, true},
        {REDIS_CONTEXT_CLUSTER, 0, REDIS_OK, true},
        {0, 1, REDIS_OK, true},
        {0, 0, REDIS_ERR, true}, /* the server does not say */
    };
    redis_api real = redis;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(rows[i].flags, rows[i].backlog, rows[i].error);
        assert_int_equal(weir_must_replicate(NULL), rows[i].replicates);
        assert_int_equal(weir_must_replicate(NULL), rows[i].replicates);
        assert_int_equal(server.queries, 1);
    }
    redis = real;
}

/* The answer is kept until an event may have changed it. */
static void events(void **unused)
{
    (void)unused;
    static const uint64_t all[] = {REDIS_EVENT_ROLE, REDIS_EVENT_FORK, REDIS_EVENT_FILE};
    redis_api real = redis;
    start(0, 0, REDIS_OK);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool before = weir_must_replicate(NULL);
        server.flags ^= REDIS_CONTEXT_AOF;
        assert_int_equal(weir_must_replicate(NULL), before);
        server.on_event(NULL, (redis_event){all[i], REDIS_EVENT_VERSION}, 0, NULL);
        assert_int_equal(weir_must_replicate(NULL), !before);
    }
    assert_int_equal(server.queries, 4);
    redis = real;
}

/* A server without these events may get a replica at any time. */
static void a_server_without_events(void **unused)
{
    (void)unused;
    redis_api real = redis;
    server.has_no_events = true;
    start(0, 0, REDIS_OK);
    assert_true(weir_must_replicate(NULL));
    assert_int_equal(server.queries, 0);
    server.has_no_events = false;
    weir_replicate_start(NULL);
    redis = real;
}

/* ---- expiry ---------------------------------------------------------------------------------- */

/* A key expires when its last state is idle, and at most two intervals of the grid later: one to
 * round it up, and one to spread the keys. */
static void expiry_of_a_key(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t idle_s;
    } rows[] = {{"gcra 1/s", 1},
                {"gcra 1/h burst 9", 3600},
                {"fixed-window 5/d", 86400},
                {"sliding-log 5/m", 60},
                {"gcra 1/s & gcra 1/h", 3600}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run("WEIR.TAKE", rows[i].policy, "k");
        const weir_interned *s = intern(rows[i].policy);
        int64_t after_ms = module_server_expiry_ms("k") - NOW / 1000000;
        int64_t grid_ms = (INT64_C(1) << s->grid) / 1000000 + 1;
        assert_in_range(after_ms, rows[i].idle_s * 1000, rows[i].idle_s * 1000 + 2 * grid_ms);
        module_server_flush();
    }
}

/* The latest state of a key counts, and a key without any is deleted. */
static void expiry_of_several_states(void **unused)
{
    (void)unused;
    run("WEIR.TAKE", "gcra 1/h", "k");
    int64_t hour_ms = module_server_expiry_ms("k");
    run("WEIR.TAKE", "gcra 1/s", "k");
    assert_in_range(module_server_expiry_ms("k"), NOW / 1000000 + 3600000, hour_ms + 1000);
    run("WEIR.RESET", "gcra 1/h", "k");
    assert_in_range(module_server_expiry_ms("k"), NOW / 1000000 + 1000, NOW / 1000000 + 60000);
    run("WEIR.RESET", "gcra 1/s", "k");
    assert_int_equal(module_server_expiry_ms("k"), 0);
}

/* Keys that are idle at the same time do not expire at the same time. */
static void keys_are_spread(void **unused)
{
    (void)unused;
    int64_t first_ms = 0, last_ms = 0;
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        run("WEIR.TAKE", "gcra 1/d", key);
        int64_t at_ms = module_server_expiry_ms(key);
        first_ms = i == 0 || at_ms < first_ms ? at_ms : first_ms;
        last_ms = at_ms > last_ms ? at_ms : last_ms;
    }
    assert_in_range(last_ms - first_ms, 200, 537); /* the grid of this policy: 2^29 ns */
    module_server_flush();
}

/* ---- what is replicated ---------------------------------------------------------------------- */

/* Of a long state the words that changed, of others the whole value; of a denial nothing. */
static void payloads(void **unused)
{
    (void)unused;
    static const char *const slices = "sliding-slices 5/d slices 200";
    run("WEIR.TAKE", slices, "long");
    size_t whole = module_server_payloads();
    run("WEIR.TAKE", slices, "long");
    assert_in_range(module_server_payloads(), 1, whole / 4);
    run("WEIR.TAKE", "gcra 1/h burst 2", "short");
    whole = module_server_payloads();
    run("WEIR.TAKE", "gcra 1/h burst 2", "short");
    assert_int_equal(module_server_payloads(), whole);
    run("WEIR.TAKE", "gcra 1/h burst 2", "short");
    assert_int_equal(module_server_payloads(), 0);
    module_server_replicate(false);
    run("WEIR.TAKE", slices, "long");
    assert_int_equal(module_server_payloads(), 0);
    module_server_flush();
    module_server_replicate(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expiry_of_a_key),
                                       cmocka_unit_test(expiry_of_several_states),
                                       cmocka_unit_test(keys_are_spread),
                                       cmocka_unit_test(payloads),
                                       cmocka_unit_test(reasons),
                                       cmocka_unit_test(events),
                                       cmocka_unit_test(a_server_without_events)};
    return cmocka_run_group_tests_name("replicate", tests, open_server, close_server);
}
