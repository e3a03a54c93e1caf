/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Host name lookups, with a getaddrinfo() that hangs as long as the test wants; see meson.build. */

#include "net/dial.h"

#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <netinet/in.h>

#include <cmocka.h>

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

static struct {
    port_mutex *mutex;
    port_cond *changed;
    bool over; /* lookups of hangs.example hang until it is set */
    int threads;
    int lists; /* found and not freed */
} hang;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    bool hangs = strcmp(host, "hangs.example") == 0;
    int err = __real_getaddrinfo(hangs ? "127.0.0.1" : host, port, hints, ret);
    port_mutex_lock(hang.mutex);
    hang.lists += err == 0;
    hang.threads += hangs;
    port_cond_wake(hang.changed);
    while (hangs && !hang.over)
        port_cond_wait(hang.changed, hang.mutex);
    hang.threads -= hangs;
    port_cond_wake(hang.changed);
    port_mutex_unlock(hang.mutex);
    return err;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    __real_freeaddrinfo(found);
    port_mutex_lock(hang.mutex);
    hang.lists--;
    port_cond_wake(hang.changed);
    port_mutex_unlock(hang.mutex);
}

/* Waits until a count of `hang` is n, for at most ten seconds. */
static void wait_for(const int *count, int n)
{
    port_mutex_lock(hang.mutex);
    for (int i = 0; i < 1000 && *count != n; i++)
        port_cond_wait_for(hang.changed, hang.mutex, 10000000);
    int found = *count;
    port_mutex_unlock(hang.mutex);
    assert_int_equal(found, n);
}

typedef struct asked {
    int answers;
    bool failed;
    uint16_t port;
} asked;

static void on_done(void *ctx, const char *error, struct addrinfo *found)
{
    asked *a = ctx;
    a->answers++;
    a->failed = error != NULL;
    assert_int_equal(found == NULL, a->failed);
    if (!found)
        return;
    if (found->ai_family == AF_INET)
        a->port = ntohs(((struct sockaddr_in *)found->ai_addr)->sin_port);
    freeaddrinfo(found);
}

static void run_until_answered(uv_loop_t *uv, const asked *a)
{
    while (a->answers == 0)
        uv_run(uv, UV_RUN_ONCE);
    uv_run(uv, UV_RUN_NOWAIT);
    assert_int_equal(a->answers, 1);
}

static void test_answers(void **state)
{
    (void)state;
    uv_loop_t uv;
    asked found = {0}, absent = {0}, cancelled = {0};
    char name[300];
    memset(name, 'x', sizeof name - 1); /* this label of the name is too long */
    name[sizeof name - 1] = '\0';
    assert_int_equal(uv_loop_init(&uv), 0);
    net_resolver *r = net_resolver_new(&uv);
    assert_non_null(net_lookup_start(r, "127.0.0.1", 6379, on_done, &found));
    run_until_answered(&uv, &found);
    assert_false(found.failed);
    assert_int_equal(found.port, 6379);
    assert_non_null(net_lookup_start(r, name, 1, on_done, &absent));
    run_until_answered(&uv, &absent);
    assert_true(absent.failed);
    net_lookup *l = net_lookup_start(r, "127.0.0.1", 1, on_done, &cancelled);
    assert_non_null(l);
    net_lookup_cancel(l);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(cancelled.answers, 0);
    wait_for(&hang.lists, 0);
    net_resolver_free(r);
    assert_int_equal(uv_loop_close(&uv), 0);
}

/* The loop ends while NET_LOOKUPS_MAX threads hang; they end after it. */
static void test_resolver_hangs(void **state)
{
    (void)state;
    uv_loop_t uv;
    net_lookup *hangs[NET_LOOKUPS_MAX];
    asked none = {0}, found = {0};
    assert_int_equal(uv_loop_init(&uv), 0);
    net_resolver *r = net_resolver_new(&uv);
    for (int i = 0; i < NET_LOOKUPS_MAX - 1; i++) {
        hangs[i] = net_lookup_start(r, "hangs.example", 1, on_done, &none);
        assert_non_null(hangs[i]);
    }
    assert_non_null(net_lookup_start(r, "127.0.0.1", 2, on_done, &found));
    run_until_answered(&uv, &found);
    hangs[NET_LOOKUPS_MAX - 1] = net_lookup_start(r, "hangs.example", 1, on_done, &none);
    while (!hangs[NET_LOOKUPS_MAX - 1]) { /* until the thread of the previous lookup has ended */
        port_yield();
        hangs[NET_LOOKUPS_MAX - 1] = net_lookup_start(r, "hangs.example", 1, on_done, &none);
    }
    assert_null(net_lookup_start(r, "127.0.0.1", 2, on_done, &none));
    wait_for(&hang.threads, NET_LOOKUPS_MAX);
    for (int i = 0; i < NET_LOOKUPS_MAX; i++)
        net_lookup_cancel(hangs[i]);
    net_resolver_free(r);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
    assert_int_equal(none.answers, 0);
    port_mutex_lock(hang.mutex);
    hang.over = true;
    port_cond_wake(hang.changed);
    port_mutex_unlock(hang.mutex);
    wait_for(&hang.lists, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_resolver_hangs),
    };
    hang.mutex = port_mutex_new();
    hang.changed = port_cond_new();
    return hang.mutex && hang.changed ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
