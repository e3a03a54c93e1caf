/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_KIT_TEST_H
#define WEIR_CODEC_RESP_KIT_TEST_H
/* The fixture of the tests of RESP commands: a daemon without sockets. */

#include "codec/resp/session.h"
#include "service/top/top.h"
#include "service/users/kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUT_PAUSE = 1 << 16 };

static const int64_t now_ns = 1767225600000000000;

typedef struct fixture {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    users_kit users;
    weir_resp_options options;
    weir_resp_session session;
    weir_buffer in, out;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(weir_store_open(&f->store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&f->limiter, f->store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_enable_top(f->limiter, &(weir_top_options){20, 1 << 20}),
                     WEIR_OK);
    assert_int_equal(weir_service_open(&f->service, f->limiter), WEIR_OK);
    weir_buffer_init(&f->in, 1 << 21);
    weir_buffer_init(&f->out, 1 << 20);
    f->options = (weir_resp_options){.service = f->service,
                                     .access = &f->users.access,
                                     .version = "1.2.3",
                                     .first_id = 7,
                                     .id_step = 1};
    weir_resp_session_init(&f->session, &f->options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    weir_resp_session_close(&f->session);
    users_kit_close(&f->users);
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    weir_service_close(f->service);
    weir_limiter_close(f->limiter);
    weir_store_close(f->store);
    free(f);
    return 0;
}

/* Runs an inline request, and expects exactly this reply. */
__attribute__((unused)) static void expect(fixture *f, const char *request, const char *reply)
{
    weir_buffer_append(&f->in, request, strlen(request));
    weir_buffer_append(&f->in, "\r\n", 2);
    weir_session_step step = weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    assert_int_equal(step.next, f->session.closing ? WEIR_SESSION_CLOSE : WEIR_SESSION_READ);
    weir_buffer_append(&f->out, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&f->out), reply);
    weir_buffer_clear(&f->out);
}

/* Runs inline requests, each with its line feed. The reply is valid until the next call. */
__attribute__((unused)) static const char *reply_to(fixture *f, const char *requests)
{
    weir_buffer_clear(&f->out);
    weir_buffer_append(&f->in, requests, strlen(requests));
    weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    weir_buffer_append(&f->out, "", 1);
    return (const char *)weir_buffer_data(&f->out);
}

__attribute__((unused)) static void set_rule(fixture *f, const char *name, const char *limit)
{
    assert_int_equal(weir_limiter_set_limit(f->limiter, name, limit, NULL), WEIR_OK);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
