/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* SUBSCRIBE, PSUBSCRIBE, UNSUBSCRIBE and PUNSUBSCRIBE. */

#include "codec/resp/kit_test.h"

#include "port/memory_kit_test.h"

#define CONFIRM(verb_len, verb, name_len, name, n)                                                 \
    "*3\r\n$" #verb_len "\r\n" verb "\r\n$" #name_len "\r\n" name "\r\n:" #n "\r\n"
#define SUBSCRIBE(name, n)    CONFIRM(9, "subscribe", 1, name, n)
#define PSUBSCRIBE(name, n)   CONFIRM(10, "psubscribe", 1, name, n)
#define UNSUBSCRIBE(name, n)  CONFIRM(11, "unsubscribe", 1, name, n)
#define PUNSUBSCRIBE(name, n) CONFIRM(12, "punsubscribe", 1, name, n)
#define NONE                  "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"

#define FULL "-ERR the names of subscriptions exceed 8192 bytes, or memory is exhausted\r\n"

static void confirms(void **state)
{
    fixture *f = *state;
    expect(f, "SUBSCRIBE a b a", SUBSCRIBE("a", 1) SUBSCRIBE("b", 2) SUBSCRIBE("a", 2));
    expect(f, "PSUBSCRIBE a", PSUBSCRIBE("a", 3));
    expect(f, "psubscribe c", PSUBSCRIBE("c", 4));
    expect(f, "UNSUBSCRIBE c a", UNSUBSCRIBE("c", 4) UNSUBSCRIBE("a", 3));
    expect(f, "UNSUBSCRIBE a", UNSUBSCRIBE("a", 3));
    expect(f, "PUNSUBSCRIBE", PUNSUBSCRIBE("a", 2) PUNSUBSCRIBE("c", 1));
    expect(f, "UNSUBSCRIBE", UNSUBSCRIBE("b", 0));
    assert_int_equal(weir_resp_session_memory(&f->session), 0);
    expect(f, "UNSUBSCRIBE\r\nUNSUBSCRIBE a", NONE UNSUBSCRIBE("a", 0));
    expect(f, "SUBSCRIBE ''", CONFIRM(9, "subscribe", 0, "", 1));
    expect(f, "UNSUBSCRIBE ''", CONFIRM(11, "unsubscribe", 0, "", 0));
}

static void pings_and_other_commands(void **state)
{
    fixture *f = *state;
    expect(f, "SUBSCRIBE a", SUBSCRIBE("a", 1));
    expect(f, "PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    expect(f, "PING b", "*2\r\n$4\r\npong\r\n$1\r\nb\r\n");
    expect(f, "ECHO b", "$1\r\nb\r\n");
    expect(f, "RESET", "+RESET\r\n");
    expect(f, "PING", "+PONG\r\n");
    assert_int_equal(weir_resp_session_memory(&f->session), 0);
}

static void pushes_with_resp3(void **state)
{
    fixture *f = *state;
    f->session.proto = 3;
    expect(f, "SUBSCRIBE a", ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    expect(f, "PING", "+PONG\r\n");
    expect(f, "UNSUBSCRIBE", ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
    expect(f, "UNSUBSCRIBE", ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n");
}

static void is_refused_in_a_transaction(void **state)
{
    fixture *f = *state;
    static const char *const commands[] = {"SUBSCRIBE a", "PSUBSCRIBE a", "UNSUBSCRIBE",
                                           "PUNSUBSCRIBE a"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        expect(f, "MULTI", "+OK\r\n");
        expect(f, commands[i],
               "-ERR AUTH, HELLO and subscriptions are not allowed in a transaction\r\n");
        expect(f, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    }
}

/* The names have 8192 bytes, 8 of them for each name. */
static void refuses_too_many_names(void **state)
{
    fixture *f = *state;
    enum { LEN = 8192 - 8 - 9 };
    char name[LEN + 1] = "", request[LEN + 16], reply[LEN + 64];
    memset(name, 'n', LEN);
    snprintf(request, sizeof request, "SUBSCRIBE %s", name);
    snprintf(reply, sizeof reply, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", LEN, name);
    expect(f, request, reply);
    expect(f, "SUBSCRIBE ab", FULL);
    expect(f, "SUBSCRIBE a", SUBSCRIBE("a", 2));
    expect(f, "PSUBSCRIBE ''", FULL);
    expect(f, "SUBSCRIBE a", SUBSCRIBE("a", 2));
    expect(f, "UNSUBSCRIBE a", UNSUBSCRIBE("a", 1));
    expect(f, "PSUBSCRIBE b", PSUBSCRIBE("b", 2));
    assert_in_range(weir_resp_session_memory(&f->session), 8192, 2 * 8192);
}

static void survives_without_memory(void **state)
{
    fixture *f = *state;
    assert_true(weir_buffer_reserve(&f->in, 1 << 10) && weir_buffer_reserve(&f->out, 1 << 10));
    memory_fail(0, true);
    expect(f, "SUBSCRIBE a", FULL);
    assert_true(memory_stop());
    expect(f, "UNSUBSCRIBE", NONE);
    expect(f, "SUBSCRIBE a", SUBSCRIBE("a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(confirms),
        TEST(pings_and_other_commands),
        TEST(pushes_with_resp3),
        TEST(is_refused_in_a_transaction),
        TEST(refuses_too_many_names),
        TEST(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
