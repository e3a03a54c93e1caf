/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_SERVER_KIT_TEST_H
#define WEIR_MODULES_REDIS_SERVER_KIT_TEST_H
/* The fake server for tests of one source of the module. */

#include "module_server.h"

#include "modules/redis/keyspace.h"
#include "tests/kit/kit.h"

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1767225600) * SECOND)

/* Interns the policy of a text, without a reference. */
static inline weir_interned *intern(const char *text)
{
    weir_interned *s;
    weir_policy_error e;
    assert_int_equal(weir_intern_text(text, strlen(text), &s, &e), WEIR_OK);
    return s;
}

/* For setup. */
static inline int open_server(void **unused)
{
    (void)unused;
    module_server_open();
    module_server_set_time(NOW);
    return 0;
}

/* For teardown: checks that all memory was freed. */
static inline int close_server(void **unused)
{
    (void)unused;
    module_server_close();
    return 0;
}

#endif
