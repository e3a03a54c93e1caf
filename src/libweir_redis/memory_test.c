/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libweir-redis when memory runs out, without a server: every allocation of an open and of each
 * call fails once, alone and with all later ones. A store and random numbers count as allocations.
 * Nothing is left after a close. */

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/tls/client.h"
#include "port/memory_kit_test.h"
#include "port/port.h"

#include <weir/weir_redis.h>
#include <weir/weir_store.h>

static weir_policy policy;
static port_counter answers; /* of calls that do not wait */
static int stores;           /* that are open */
static size_t store_bytes;   /* of the last one */
static int tls_opened;
static int seeds; /* random numbers of 8 bytes */

weir_status __real_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len);
weir_status __real_weir_store_open(weir_store **ret, const weir_store_options *options);
weir_status __wrap_weir_store_open(weir_store **ret, const weir_store_options *options);
void __real_weir_store_close(weir_store *s);
void __wrap_weir_store_close(weir_store *s);
weir_status __real_net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                                bool insecure, char *ret_error, size_t size);
weir_status __wrap_net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                                bool insecure, char *ret_error, size_t size);

weir_status __wrap_port_random(void *buf, size_t len)
{
    seeds += len == sizeof(uint64_t);
    return may_allocate() ? __real_port_random(buf, len) : WEIR_E_IO;
}

weir_status __wrap_weir_store_open(weir_store **ret, const weir_store_options *options)
{
    weir_status st = may_allocate() ? __real_weir_store_open(ret, options) : WEIR_E_NOMEM;
    stores += st == WEIR_OK;
    store_bytes = options->memory_bytes;
    return st;
}

void __wrap_weir_store_close(weir_store *s)
{
    stores -= s != NULL;
    __real_weir_store_close(s);
}

weir_status __wrap_net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                                bool insecure, char *ret_error, size_t size)
{
    tls_opened++;
    return __real_net_tls_open(ret, ca, cert, key, insecure, ret_error, size);
}

static void on_answer(void *ctx, weir_status status, const weir_redis_answer *a)
{
    (void)ctx;
    if ((status == WEIR_OK) == (a != NULL))
        port_add_relaxed(&answers, 1);
}

static void expect(weir_status st, bool failing)
{
    if (st != WEIR_OK && !(failing && st == WEIR_E_NOMEM))
        fail_msg("status %s", weir_status_str(st));
}

static weir_redis_answer unwritten(void)
{
    return (weir_redis_answer){.decision = {.limit = -1}};
}

/* An answer is written exactly if the status is WEIR_OK. */
static void expect_answer(weir_status st, bool failing, const weir_redis_answer *a)
{
    expect(st, failing);
    assert_int_equal(a->decision.limit, st == WEIR_OK ? 100 : -1);
}

static bool waits_first; /* the first call is one that waits */

static void call_and_wait(weir_redis *r, bool failing)
{
    weir_redis_answer a = unwritten(), b = unwritten();
    expect_answer(weir_redis_check(r, &policy, "a", 1, 1, &a), failing, &a);
    expect_answer(weir_redis_peek(r, &policy, "a", 1, 1, &b), failing, &b);
}

/* Returns how many calls were accepted that do not wait. */
static int call(weir_redis *r, bool failing)
{
    if (waits_first || !failing) /* then all earlier calls are answered */
        call_and_wait(r, failing);
    uint64_t before = port_load_relaxed(&answers);
    weir_status st = weir_redis_check_async(r, &policy, "a", 1, 1, on_answer, NULL);
    expect(st, failing);
    expect(weir_redis_check(r, &policy, "b", 1, 1, NULL), failing);
    if (!failing) /* the calls are answered in order */
        assert_int_equal(port_load_relaxed(&answers), before + 1);
    return st == WEIR_OK;
}

/* Port 1 refuses connections, and the library then decides locally. */
static bool open_and_call(uint64_t n, bool later)
{
    static const char *const urls[] = {"redis://127.0.0.1:1"};
    weir_redis_error error = {.text = ""};
    const weir_redis_options options = {.urls = urls,
                                        .urls_len = 1,
                                        .user = "u",
                                        .password = "p",
                                        .on_error = WEIR_REDIS_LOCAL,
                                        .deadline_ns = 2000000,
                                        .ret_error = &error};
    weir_redis *r = NULL;
    int accepted = 0;
    port_store_relaxed(&answers, 0);
    memory_fail(n, later);
    weir_status st = weir_redis_open(&r, &options);
    if (st == WEIR_OK) {
        accepted += call(r, true);
        accepted += call(r, true);
    } else if (st == WEIR_E_IO) { /* no thread or no random numbers */
        assert_string_equal(error.text, "no threads or file descriptors are left");
    } else {
        expect(st, true);
        assert_string_equal(error.text, "out of memory");
    }
    assert_true((st == WEIR_OK) == (r != NULL));
    bool failed = memory_stop();
    if (st == WEIR_OK)
        accepted += call(r, false); /* memory is back */
    weir_redis_close(r);
    assert_int_equal(port_load_relaxed(&answers), accepted);
    assert_int_equal(stores, 0);
    return failed;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    assert_int_equal(weir_policy_parse(&policy, "gcra 1/h burst 100", 18, NULL, NULL), WEIR_OK);
    fail_each_allocation(open_and_call);
    waits_first = true;
    fail_each_allocation(open_and_call);
}

/* ---- closing --------------------------------------------------------------------------------- */

static weir_redis *opened(const char *url, weir_redis_on_error on_error)
{
    weir_redis *r = NULL;
    const weir_redis_options options = {
        .urls = &url, .urls_len = 1, .on_error = on_error, .deadline_ns = 200000000};
    assert_int_equal(weir_redis_open(&r, &options), WEIR_OK);
    return r;
}

static void *wait_for_answer(void *r)
{
    weir_redis_answer a;
    return weir_redis_check(r, &policy, "a", 1, 1, &a) == WEIR_OK ? r : NULL;
}

/* Several calls wait at once, for a server that never replies. */
static void all_waiters_are_freed(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    pthread_t threads[THREADS];
    void *good;
    char url[64];
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(silent, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(silent, 8), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&a, &len), 0);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(a.sin_port));
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    weir_redis *r = opened(url, WEIR_REDIS_OPEN);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_answer, r), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_ptr_equal(good, r);
    }
    weir_redis_close(r);
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    close(silent);
}

static void tls_is_opened_if_needed_and_closed(void **state)
{
    (void)state;
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    tls_opened = 0;
    weir_redis_close(opened("redis://127.0.0.1:1", WEIR_REDIS_OPEN));
    assert_int_equal(tls_opened, 0);
    weir_redis_close(opened("rediss://127.0.0.1:1", WEIR_REDIS_OPEN));
    assert_int_equal(tls_opened, 1);
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
}

static void only_local_decisions_need_a_large_store(void **state)
{
    (void)state;
    static const char url[] = "redis://127.0.0.1:1";
    weir_redis_close(opened(url, WEIR_REDIS_LOCAL));
    assert_int_equal(store_bytes, 64 << 20);
    weir_redis_close(opened(url, WEIR_REDIS_CLOSED));
    assert_int_equal(store_bytes, 1 << 20);
}

/* It spreads the times at which processes reconnect to the same server. */
static void each_client_has_a_random_seed(void **state)
{
    (void)state;
    seeds = 0;
    for (int i = 1; i <= 2; i++) {
        weir_redis_close(opened("redis://127.0.0.1:1", WEIR_REDIS_OPEN));
        assert_int_equal(seeds, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(all_waiters_are_freed),
        cmocka_unit_test(tls_is_opened_if_needed_and_closed),
        cmocka_unit_test(only_local_decisions_need_a_large_store),
        cmocka_unit_test(each_client_has_a_random_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
