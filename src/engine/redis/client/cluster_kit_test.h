/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLUSTER_KIT_TEST_H
#define WEIR_ENGINE_REDIS_CLUSTER_KIT_TEST_H
/* For the tests of a Cluster: three masters, and their slot map. */

#include "engine/redis/client/client_kit_test.h"

static char map[2][512]; /* space for replies */

/* A range of slots with its master, and a replica that is never connected to. */
static inline int put_range(char *at, size_t size, int from, int to, const char *host, int port)
{
    return snprintf(at, size,
                    "*4\r\n:%d\r\n:%d\r\n*4\r\n$%zu\r\n%s\r\n:%d\r\n$2\r\nid\r\n*0\r\n"
                    "*3\r\n$3\r\nrep\r\n:7999\r\n$2\r\nid\r\n",
                    from, to, strlen(host), host, port);
}

static inline const char *thirds(char *at, const char *host, int a, int b, int c)
{
    size_t len = (size_t)snprintf(at, 512, "*3\r\n");
    len += (size_t)put_range(at + len, 512 - len, 0, 5460, host, a);
    len += (size_t)put_range(at + len, 512 - len, 5461, 10922, host, b);
    put_range(at + len, 512 - len, 10923, 16383, host, c);
    return at;
}

/* A key of each third of the slots. */
static const char *const in_third[3] = {"hello", "user:6", "foo"};

static inline void find_keys(void)
{
    assert_in_range(weir_redis_slot("hello", 5), 0, 5460);
    assert_in_range(weir_redis_slot("user:6", 6), 5461, 10922);
    assert_in_range(weir_redis_slot("foo", 3), 10923, 16383);
}

static server *srv[3];

static inline void open_cluster(void)
{
    find_keys();
    const char *slots = thirds(map[0], "a", 7000, 7001, 7002);
    for (int i = 0; i < 3; i++) {
        srv[i] = add_server((uint16_t)(7000 + i));
        srv[i]->slots = slots;
    }
    open_client();
    run_due_events();
}

static inline size_t map_requests(void)
{
    return srv[0]->map_requests + srv[1]->map_requests + srv[2]->map_requests;
}

#endif
