/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A client without memory, and what it frees. */

#include "engine/redis/client/client_kit_test.h"

static long allocations_left = -1;  /* before one fails; -1: none fails */
static size_t bytes_max = SIZE_MAX; /* a larger allocation fails */
static int allocated;               /* blocks that were not freed */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __real_free(void *p);
void __wrap_free(void *p);

static bool fails(size_t size)
{
    if (size > bytes_max)
        return true;
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails(n * size) ? NULL : __real_calloc(n, size);
    allocated += p != NULL;
    return p;
}

void *__wrap_realloc(void *p, size_t size)
{
    void *bigger = fails(size) ? NULL : __real_realloc(p, size);
    allocated += !p && bigger;
    return bigger;
}

void __wrap_free(void *p)
{
    allocated -= p != NULL;
    __real_free(p);
}

/* The client's calls, a timer of its own, and one for each URL. */
static void any_timer_may_fail(void **state)
{
    (void)state;
    const weir_redis_log log = {on_log, NULL};
    int before = allocated;
    for (size_t n = 0; n < 3; n++) {
        kit.timers_left = n;
        assert_int_equal(weir_redis_client_open(&kit.client, &kit.options, NULL, &kit.port,
                                                &kit.counts, &log, 1),
                         WEIR_E_NOMEM);
        assert_int_equal(timers_in_use(), 0);
        assert_int_equal(allocated, before);
    }
    assert_null(kit.client);
    open_client();
    run_due_events();
    assert_string_equal(kit.log, "redis-down a:7000: connection refused\n");
}

/* A bad URL was not found by weir_redis_options_check(). */
static void a_bad_url_is_refused(void **state)
{
    (void)state;
    int before = allocated;
    kit.url[0] = "nonsense";
    assert_int_equal(
        weir_redis_client_open(&kit.client, &kit.options, NULL, &kit.port, &kit.counts, NULL, 1),
        WEIR_E_SYNTAX);
    assert_int_equal(allocated, before);
}

/* Without memory for a map, it is requested again after a pause. */
static void no_memory_for_a_map(void **state)
{
    (void)state;
    server *s = add_server(7000);
    open_client();
    bytes_max = 32000;
    test_call t;
    call_of(&t, WEIR_VERB_TAKE, "alice", 1, 500 * MS);
    send_call(&t);
    pass(350 * MS);
    assert_int_equal(s->map_requests, 0);
    bytes_max = SIZE_MAX;
    pass(100 * MS);
    assert_answered(&t);
    assert_int_equal(s->map_requests, 1);
}

/* The slot of a long key is not known without memory. MOVED names the right node. */
static void no_memory_for_a_slot(void **state)
{
    (void)state;
    static char key[600] = "}";
    memset(key + 1, 'x', sizeof key - 1);
    static weir_redis_topology t;
    weir_redis_context context = {.prefix = "weir:", .counts = &kit.counts};
    t.context = &context;
    weir_engine_request q = {.key = {key, sizeof key}, .name = bytes_of("n")};
    assert_int_not_equal(weir_redis_topology_slot(&t, &q), 0);
    allocations_left = 0;
    assert_int_equal(weir_redis_topology_slot(&t, &q), 0);
    allocations_left = -1;
}

/* Texts of errors are kept as long as the client. */
static void reasons_are_freed(void **state)
{
    (void)state;
    int before = allocated;
    server *s = add_server(7000);
    s->no_decision = DECISION;
    open_client();
    static const char *const errors[] = {"-ERR policy: 0\r\n", "-ERR policy: 1\r\n",
                                         "-ERR policy: 2\r\n"};
    for (int i = 0; i < 3; i++) {
        s->error = errors[i];
        test_call a;
        take(&a, "alice", 1);
        run_due_events();
        assert_ended(&a, WEIR_REDIS_ANSWERED);
    }
    assert_true(allocated > before + 3);
    weir_redis_client_close(kit.client);
    kit.client = NULL;
    assert_int_equal(allocated, before);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    const weir_redis_log log = {on_log, NULL};
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = true;
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7000\r\n";
    enum { CALLS = 100 };
    static test_call t[CALLS];
    int opened = 0;
    int before = allocated;
    for (long n = 0; n < 60; n++) {
        s->has_library = false;
        assert_int_equal(allocated, before);
        allocations_left = n;
        weir_status st = weir_redis_client_open(&kit.client, &kit.options, NULL, &kit.port,
                                                &kit.counts, &log, 1);
        assert_true(st == WEIR_OK || st == WEIR_E_NOMEM);
        if (st != WEIR_OK)
            continue;
        opened++;
        for (int i = 0; i < CALLS; i++)
            take(&t[i], "alice", i);
        pass(60 * MS);
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(t[i].done, 1);
        allocations_left = -1;
        pass(1000 * MS); /* the client recovers */
        take_answered(&t[0], "alice", 1);
        weir_redis_client_close(kit.client);
    }
    kit.client = NULL;
    assert_in_range(opened, 10, 59);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_timer_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_url_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_a_map, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_a_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(reasons_are_freed, setup, teardown),
        cmocka_unit_test_setup_teardown(any_allocation_may_fail, setup, teardown),
    };
    RUN_BOTH_WAYS(tests);
}
