/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations: WEIR.RESERVE, WEIR.RENEW, WEIR.COMMIT and WEIR.CANCEL. */

#include "codec/resp/kit_test.h"

/* Reserves, expects a reply with this beginning, and returns the id at its end. */
static void reserve(fixture *f, const char *request, const char *begins, char ret_id[17])
{
    weir_buffer_append(&f->in, request, strlen(request));
    weir_buffer_append(&f->in, "\r\n", 2);
    weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    weir_buffer_append(&f->out, "", 1);
    const char *out = (const char *)weir_buffer_data(&f->out), *id = strstr(out, "$16\r\n");
    assert_memory_equal(out, begins, strlen(begins));
    assert_non_null(id);
    snprintf(ret_id, 17, "%.16s", id + 5);
    weir_buffer_clear(&f->out);
}

static void check_reserve(void **state)
{
    fixture *f = *state;
    char id[17], request[64], reply[128];
    set_rule(f, "tokens", "fixed-window 100/h");
    reserve(f, "WEIR.RESERVE tokens alice 60 TTL 30s",
            "*7\r\n:1\r\n:100\r\n:40\r\n:0\r\n:3600000\r\n:0\r\n$16\r\n", id);
    expect(f, "WEIR.RESERVE tokens alice 60 TTL 30s",
           "*7\r\n:0\r\n:100\r\n:40\r\n:3600000\r\n:3600000\r\n:0\r\n$-1\r\n");
    snprintf(request, sizeof request, "WEIR.COMMIT %s 25", id);
    expect(f, request, "*7\r\n:1\r\n:100\r\n:75\r\n:0\r\n:3600000\r\n:0\r\n:0\r\n");
    snprintf(reply, sizeof reply,
             "-ERR no open reservation %s: it was committed, was cancelled or has expired\r\n", id);
    expect(f, request, reply);
    reserve(f, "weir.reserve tokens alice 70 ttl 500ms", "*7\r\n:1\r\n:100\r\n:5\r\n", id);
    snprintf(request, sizeof request, "weir.commit %s 80", id);
    expect(f, request, "*7\r\n:0\r\n:100\r\n:0\r\n:3600000\r\n:3600000\r\n:0\r\n:0\r\n");
    reserve(f, "WEIR.RESERVE 'gcra 1/s burst 9' bob 9 TTL 1h30m", "*7\r\n:1\r\n:9\r\n:0\r\n", id);
    for (char *c = id; *c; c++)
        *c = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
    snprintf(request, sizeof request, "WEIR.CANCEL %s", id);
    expect(f, request, "*7\r\n:1\r\n:9\r\n:9\r\n:0\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.COMMIT 0000000000000000 7", /* of a key on an allow list */
           "*7\r\n:1\r\n:2147483647\r\n:2147483647\r\n:0\r\n:0\r\n:0\r\n:0\r\n");
    f->session.proto = 3;
    reserve(f, "WEIR.RESERVE tokens carol 1 TTL 5",
            "*7\r\n:1\r\n:100\r\n:99\r\n:0\r\n:3600000\r\n:0\r\n$16\r\n", id);
    expect(f, "WEIR.RESERVE tokens carol 100 TTL 5",
           "*7\r\n:0\r\n:100\r\n:99\r\n:3600000\r\n:3600000\r\n:0\r\n_\r\n");
    snprintf(request, sizeof request, "WEIR.COMMIT %s 2", id);
    expect(f, request, "*7\r\n:1\r\n:100\r\n:98\r\n:0\r\n:3600000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.REFUND tokens carol 2 withnames",
           "%9\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:100\r\n$9\r\nremaining\r\n:100\r\n"
           "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n$8\r\ndelay_ms\r\n:0\r\n"
           "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$6\r\ntokens\r\n$5\r\nlayer\r\n:0\r\n");
    reserve(f, "WEIR.RESERVE tokens carol 1 TTL 5 WITHNAMES", "%10\r\n$7\r\nallowed\r\n:1\r\n", id);
    expect(f, "WEIR.RESERVE tokens carol 101 TTL 5 WITHNAMES",
           "%10\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:100\r\n$9\r\nremaining\r\n:99\r\n"
           "$14\r\nretry_after_ms\r\n:-1\r\n$14\r\nreset_after_ms\r\n:3600000\r\n$8\r\ndelay_ms\r\n"
           ":0\r\n$7\r\nnext_ms\r\n:0\r\n$2\r\nid\r\n_\r\n$6\r\npolicy\r\n$6\r\ntokens\r\n$"
           "5\r\nlayer\r\n:0\r\n");
    snprintf(request, sizeof request, "WEIR.CANCEL %s WITHNAMES", id);
    expect(f, request,
           "%9\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:100\r\n$9\r\nremaining\r\n:100\r\n"
           "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n$8\r\ndelay_ms\r\n:0\r\n"
           "$7\r\nnext_ms\r\n:0\r\n$4\r\nover\r\n:0\r\n$5\r\nlayer\r\n:0\r\n");
    reserve(f, "WEIR.RESERVE tokens carol 100 TTL 5",
            "*7\r\n:1\r\n:100\r\n:0\r\n:0\r\n:3600000\r\n:0\r\n$16\r\n", id);
    snprintf(request, sizeof request, "WEIR.COMMIT %s 100 WITHNAMES", id);
    expect(f, request,
           "%9\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:100\r\n$9\r\nremaining\r\n:0\r\n"
           "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:3600000\r\n$8\r\ndelay_ms\r\n"
           ":0\r\n$7\r\nnext_ms\r\n:3600000\r\n$4\r\nover\r\n:0\r\n$5\r\nlayer\r\n:0\r\n");
    expect(f, "WEIR.CANCEL 0000000000000000 WITHNAMES",
           "%9\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:2147483647\r\n$9\r\nremaining\r\n"
           ":2147483647\r\n$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n$8\r\n"
           "delay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:0\r\n$4\r\nover\r\n:0\r\n$5\r\nlayer\r\n:0\r\n");
}

#define NO_TTL                                                                                     \
    "-ERR the TTL: expected a duration, because the policy has no concurrent layer, found "        \
    "none\r\n"

/* Requests in flight: a reservation holds a slot until its lease ends, or it is given back. */
static void check_leases(void **state)
{
    fixture *f = *state;
    char id[20], request[80];
    const char *of_lease = "-ERR the TTL: expected at most the lease of the policy, found 31s\r\n";
    set_rule(f, "jobs", "concurrent 2 lease 30s");
    set_rule(f, "a", "gcra 1/s burst 3");
    expect(f, "WEIR.TAKE jobs k", "*6\r\n:1\r\n:2\r\n:1\r\n:0\r\n:30000\r\n:0\r\n");
    reserve(f, "WEIR.RESERVE jobs k 1", "*7\r\n:1\r\n:2\r\n:0\r\n:0\r\n:30000\r\n:0\r\n$16\r\n",
            id);
    snprintf(request, sizeof request, "WEIR.RENEW %s TTL 20", id);
    expect(f, request, "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:30000\r\n:0\r\n");
    expect(f, "WEIR.TAKE jobs k", "*6\r\n:0\r\n:2\r\n:0\r\n:20000\r\n:30000\r\n:0\r\n");
    expect(f, "WEIR.RESERVE jobs k 1 TTL 31s", of_lease);
    snprintf(request, sizeof request, "WEIR.RENEW %s", id);
    expect(f, request, "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:30000\r\n:0\r\n");
    expect(f, "WEIR.TAKE jobs k", "*6\r\n:0\r\n:2\r\n:0\r\n:30000\r\n:30000\r\n:0\r\n");
    snprintf(request, sizeof request, "WEIR.RENEW %s TTL 5s WITHNAMES", id);
    expect(f, request,
           "*16\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:0\r\n"
           "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:30000\r\n$8\r\ndelay_ms\r\n"
           ":0\r\n$7\r\nnext_ms\r\n:5000\r\n$5\r\nlayer\r\n:0\r\n");
    expect(f, "WEIR.RENEW 0000000000000000 WITHNAMES",
           "*16\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:2147483647\r\n$9\r\nremaining\r\n"
           ":2147483647\r\n$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n$8\r\n"
           "delay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:0\r\n$5\r\nlayer\r\n:0\r\n");
    snprintf(request, sizeof request, "WEIR.RENEW %s TTL 31s", id);
    expect(f, request, of_lease);
    snprintf(request, sizeof request, "WEIR.CANCEL %s", id);
    expect(f, request, "*7\r\n:1\r\n:2\r\n:1\r\n:0\r\n:30000\r\n:0\r\n:0\r\n");
    char gone[160];
    snprintf(gone, sizeof gone,
             "-ERR no open reservation %s: it was committed, was cancelled or has expired\r\n", id);
    expect(f, request, gone); /* only once */
    reserve(f, "WEIR.RESERVE a k 2 TTL 3s", "*7\r\n:1\r\n:3\r\n:1\r\n:0\r\n:2000\r\n:0\r\n$16\r\n",
            id);
    snprintf(request, sizeof request, "WEIR.RENEW %s", id);
    expect(f, request, NO_TTL);
    snprintf(request, sizeof request, "WEIR.RENEW %s TTL 1h", id);
    expect(f, request, "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:2000\r\n:0\r\n");
    expect(f, "WEIR.RENEW 0000000000000000",
           "*6\r\n:1\r\n:2147483647\r\n:2147483647\r\n:0\r\n:0\r\n:0\r\n");
}

static void check_reserve_errors(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/s burst 3");
    set_rule(f, "q", "leaky-queue 1/s depth 3");
#define TTL_FOUND(found)                                                                           \
    "-ERR the TTL: expected a duration from 1ns to 36.5 years, such as 30s or 1h30m, or a number " \
    "of seconds, found '" found "'\r\n"
    const char *id =
        "-ERR the id: expected 16 hexadecimal digits, the id that reserve returned\r\n";
    const char *cost = "-ERR the cost: expected a whole number from 0 to 2147483647\r\n";
    expect(f, "WEIR.RESERVE a k 1", NO_TTL);
    expect(f, "WEIR.RESERVE a k", "-ERR wrong number of arguments for 'weir.reserve' command\r\n");
    expect(f, "WEIR.RESERVE a k 1 TTL",
           "-ERR syntax error, expected policy key n [TTL time] [WITHNAMES] after the command\r\n");
    expect(f, "WEIR.RENEW 1", id);
    expect(f, "WEIR.RENEW 0000000000000001 EX 1",
           "-ERR syntax error, expected id [TTL time] [WITHNAMES] after the command\r\n");
    expect(f, "WEIR.RENEW 0000000000000001 TTL 0", TTL_FOUND("0"));
    expect(f, "WEIR.RENEW 0000000000000001",
           "-ERR no open reservation 0000000000000001: it was committed, was cancelled or has "
           "expired\r\n");
    expect(f, "WEIR.RESERVE a k x TTL 1", cost);
    expect(f, "WEIR.RESERVE a k 1 EX 1",
           "-ERR syntax error, expected policy key n [TTL time] [WITHNAMES] after the command\r\n");
    expect(f, "WEIR.RESERVE a k 1 TTL 0", TTL_FOUND("0"));
    expect(f, "WEIR.RESERVE a k 1 TTL -1", TTL_FOUND("-1"));
    expect(f, "WEIR.RESERVE a k 1 TTL 1.5", TTL_FOUND("1.5"));
    expect(f, "WEIR.RESERVE a k 1 TTL 1day", TTL_FOUND("1day"));
    expect(f, "WEIR.RESERVE a k 1 TTL 37000000000", TTL_FOUND("37000000000"));
    expect(f, "WEIR.RESERVE b k 1 TTL 1",
           "-ERR no policy 'b'; WEIR.POLICY LIST shows all policies\r\n");
    expect(f, "WEIR.RESERVE q k 1 TTL 1",
           "-ERR leaky-queue and count-denied policies do not support refunds\r\n");
    expect(f, "WEIR.RESERVE a '' 1 TTL 1", "-ERR the key has 0 bytes, expected 1 to 65536\r\n");
    expect(f, "WEIR.COMMIT 1 1", id);
    expect(f, "WEIR.COMMIT 000000000000000g 1", id);
    expect(f, "WEIR.COMMIT 00000000000000001 1", id);
    expect(f, "WEIR.COMMIT 0000000000000001 -1", cost);
    expect(f, "WEIR.COMMIT 0000000000000001 1",
           "-ERR no open reservation 0000000000000001: it was committed, was cancelled or has "
           "expired\r\n");
    expect(f, "WEIR.CANCEL ''", id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_reserve),
        TEST(check_leases),
        TEST(check_reserve_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
