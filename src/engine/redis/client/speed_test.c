/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints the CPU time of a call from send() to done(), in batches over a simulated connection. It
 * checks no limit. REDIS_CALLS=N changes the number of calls. */

#include "engine/redis/client/client_kit_test.h"

#include <time.h>

enum { BATCH = 64 };

static test_call batch[BATCH];

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Sends a batch of calls, then answers all of them. */
static void round_trip(port_connection *l, const weir_buffer *replies)
{
    for (int i = 0; i < BATCH; i++)
        weir_redis_client_send(kit.client, &batch[i].call, kit.now_ns);
    weir_buffer_clear(&l->out);
    weir_buffer_append(&l->in, weir_buffer_data(replies), weir_buffer_len(replies));
    l->events.received(l->ctx, &l->in, kit.now_ns);
}

static void measure(const char *what)
{
    const char *given = getenv("REDIS_CALLS");
    int64_t rounds = (given ? atoll(given) : 200000) / BATCH;
    server *s = &kit.server[0];
    open_client();
    run_due_events();
    port_connection *l = connection_to(s->port);
    weir_buffer replies;
    weir_buffer_init(&replies, 1 << 20);
    for (int i = 0; i < BATCH; i++) {
        call_of(&batch[i], WEIR_VERB_TAKE, "user:123456789", 1, 50 * MS);
        put_figures(&replies, 1, false);
    }
    int64_t begin_ns = cpu_ns();
    for (int64_t i = 0; i < rounds; i++)
        round_trip(l, &replies);
    int64_t each_ns = (cpu_ns() - begin_ns) / (rounds * BATCH);
    print_message("%s: %lld ns a call\n", what, (long long)each_ns);
    assert_int_equal(batch[BATCH - 1].done, rounds);
    weir_buffer_free(&replies);
}

static void by_the_module(void **state)
{
    (void)state;
    add_server(7000);
    measure("the module");
}

static void by_functions(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->has_module = false;
    s->has_functions = true;
    measure("functions");
}

static void by_the_module_of_a_cluster(void **state)
{
    (void)state;
    server *s = add_server(7000);
    s->slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    measure("the module of a Cluster");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_the_module, setup, teardown),
        cmocka_unit_test_setup_teardown(by_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(by_the_module_of_a_cluster, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
