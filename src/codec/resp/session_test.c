/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the commands: from bytes of requests to bytes of replies, with the time passed in. */

#define _GNU_SOURCE /* memmem */

#include "codec/answer/password.h"
#include "codec/resp/kit_test.h"

/* The same for a reply with a NUL in it. */
#define TEXT(literal) literal, sizeof(literal) - 1

static void expect_bytes(fixture *f, const char *request, const char *reply, size_t len)
{
    weir_buffer_append(&f->in, request, strlen(request));
    weir_buffer_append(&f->in, "\r\n", 2);
    weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    assert_int_equal(weir_buffer_len(&f->out), len);
    assert_memory_equal(weir_buffer_data(&f->out), reply, len);
    weir_buffer_clear(&f->out);
}

static void check_check(void **state)
{
    fixture *f = *state;
    const char *take = "WEIR.CHECK 'gcra 3/s burst 2' alice";
    expect(f, take, "*6\r\n:1\r\n:2\r\n:1\r\n:0\r\n:334\r\n:0\r\n");
    expect(f, take, "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:667\r\n:0\r\n");
    expect(f, take, "*6\r\n:0\r\n:2\r\n:0\r\n:334\r\n:667\r\n:0\r\n");
    expect(f, "weir.check 'gcra   3/1s burst 02' alice cost 0", /* the same policy and key */
           "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:667\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'gcra 3/s burst 2' bob COST 3",
           "*6\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'leaky-queue 10/s depth 2' carol",
           "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:100\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'leaky-queue 10/s depth 2' carol",
           "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:200\r\n:100\r\n");
}

static void check_check_errors(void **state)
{
    fixture *f = *state;
    expect(f, "WEIR.CHECK 'gcra 100/x' alice",
           "-ERR policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w\r\n");
    expect(f, "WEIR.CHECK 'fixed-window 5/day tz Mars/Base' alice",
           "-ERR policy: column 23: found 'Mars/Base', expected the name of a time zone, as in tz "
           "Europe/Berlin\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s'",
           "-ERR wrong number of arguments for 'weir.check' command\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s' a PRICE 3",
           "-ERR syntax error, found 'PRICE', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s' a COST",
           "-ERR syntax error, found 'COST', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    const char *cost = "-ERR the cost: expected a whole number from 0 to 2147483647\r\n";
    expect(f, "WEIR.CHECK 'gcra 1/s' a COST x", cost);
    expect(f, "WEIR.CHECK 'gcra 1/s' a COST -1", cost);
    expect(f, "WEIR.CHECK 'gcra 1/s' a COST 2147483648", cost);
    expect(f, "WEIR.CHECK 'gcra 1/s' a COST 99999999999999999999", cost);
    expect(f, "WEIR.CHECK 'gcra 1/s' ''", "-ERR the key has 0 bytes, expected 1 to 65536\r\n");
}

static void check_long_key(void **state)
{
    fixture *f = *state;
    static const char head[] = "*3\r\n$10\r\nWEIR.CHECK\r\n$8\r\ngcra 1/s\r\n";
    for (size_t len = WEIR_KEY_MAX; len <= WEIR_KEY_MAX + 1; len++) {
        char *key = malloc(len);
        memset(key, 'k', len);
        weir_buffer_append(&f->in, head, sizeof head - 1);
        weir_resp_put_bulk(&f->in, key, len);
        free(key);
        expect(f, "",
               len == WEIR_KEY_MAX ? "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n"
                                   : "-ERR the key has 65537 bytes, expected 1 to 65536\r\n");
    }
}

static void check_throttle(void **state)
{
    fixture *f = *state;
    expect(f, "CL.THROTTLE u 15 30 60", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
    expect(f, "cl.throttle u 15 30 60 15", "*5\r\n:0\r\n:16\r\n:0\r\n:-1\r\n:32\r\n");
    expect(f, "CL.THROTTLE u 15 30 60 1", "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n");
    expect(f, "CL.THROTTLE u 15 30 60 17", "*5\r\n:1\r\n:16\r\n:0\r\n:-1\r\n:32\r\n");
    expect(f, "CL.THROTTLE u 15 30 60 -16", "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n");
    expect(f, "CL.THROTTLE v 15 30 60 -3", "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n");
    /* The state belongs to the key, under any limit. */
    expect(f, "CL.THROTTLE u 0 1 100", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:100\r\n");
    expect(f, "CL.THROTTLE u 0 1 1", "*5\r\n:1\r\n:1\r\n:0\r\n:100\r\n:100\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/ns' u", "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0\r\n");
}

static void check_throttle_errors(void **state)
{
    fixture *f = *state;
    const char *usage = "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per "
                        "period> <period> [<quantity>]\r\n";
    const char *zero = "-Cell error: Store error: Zero rates are not supported\r\n";
    expect(f, "CL.THROTTLE", usage);
    expect(f, "CL.THROTTLE u 1 1", usage);
    expect(f, "CL.THROTTLE u 1 1 1 1 1", usage);
    expect(f, "CL.THROTTLE u abc 1 1",
           "-Cell error: Store error: Couldn't parse as integer: abc\r\n");
    expect(f, "CL.THROTTLE u 1 1 1 1.5",
           "-Cell error: Store error: Couldn't parse as integer: 1.5\r\n");
    expect(f, "CL.THROTTLE u 1 1 ''", "-Cell error: Store error: Couldn't parse as integer: \r\n");
    expect(f, "CL.THROTTLE u 1 1 -", "-Cell error: Store error: Couldn't parse as integer: -\r\n");
    expect(f, "CL.THROTTLE u 9223372036854775808 1 1",
           "-Cell error: Store error: Couldn't parse as integer: 9223372036854775808\r\n");
    expect(f, "CL.THROTTLE u 1 0 60", zero);
    expect(f, "CL.THROTTLE u 1 60 0", zero);
    expect(f, "CL.THROTTLE u 1 2000000000 1", zero);
    expect(f, "CL.THROTTLE u -5 1 1",
           "-Cell error: Store error: max_burst is less than -1, expected -1 or more\r\n");
    expect(f, "CL.THROTTLE u 9223372036854775807 1 1",
           "-Cell error: Store error: The rate, burst or quantity does not fit in 64 bits of "
           "nanoseconds\r\n");
    expect(f, "CL.THROTTLE u +1 +1 +60", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n");
}

static void check_others(void **state)
{
    fixture *f = *state;
    expect(f, "PING", "+PONG\r\n");
    expect(f, "ping hello", "$5\r\nhello\r\n");
    expect(f, "PING a b", "-ERR wrong number of arguments for 'ping' command\r\n");
    expect(f, "COMMAND DOCS", "*0\r\n");
    expect(f, "FLUSHALL", "-ERR unknown command 'FLUSHALL'; WEIR.HELP lists the commands\r\n");
    expect(f, "QUIT", "+OK\r\n");
    assert_true(f->session.closing);
    expect(f, "PING", ""); /* after QUIT there are no replies */
}

static void check_take(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/s burst 5");
    set_rule(f, "q", "leaky-queue 10/s depth 1");
    expect(f, "WEIR.TAKE api alice", "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n");
    expect(f, "weir.take api alice cost 3", "*6\r\n:1\r\n:5\r\n:1\r\n:0\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.PEEK api alice COST 2", "*6\r\n:0\r\n:5\r\n:1\r\n:1000\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.PEEK api alice", "*6\r\n:1\r\n:5\r\n:1\r\n:0\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.PEEK api alice COST 6", "*6\r\n:0\r\n:5\r\n:1\r\n:-1\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.REFUND api alice 2", "*6\r\n:1\r\n:5\r\n:3\r\n:0\r\n:2000\r\n:0\r\n");
    expect(f, "WEIR.RESET api alice", "+OK\r\n");
    expect(f, "WEIR.PEEK api alice", "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKE none alice",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
    expect(f, "WEIR.TAKE api", "-ERR wrong number of arguments for 'weir.take' command\r\n");
    expect(f, "WEIR.TAKE api a COST",
           "-ERR syntax error, found 'COST', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    expect(
        f, "WEIR.TAKE api a 2",
        "-ERR syntax error, found '2', expected [COST n] [KEEP m] [WITHNAMES] after the key\r\n");
    expect(
        f, "WEIR.PEEK api a 'x y'",
        "-ERR syntax error, found 'x y', expected [COST n] [KEEP m] [WITHNAMES] after the key\r\n");
    expect(f, "WEIR.TAKE api ''", "-ERR the key has 0 bytes, expected 1 to 65536\r\n");
    expect(f, "WEIR.REFUND api a", "-ERR wrong number of arguments for 'weir.refund' command\r\n");
    expect(f, "WEIR.REFUND api a -1",
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.REFUND q a 1",
           "-ERR leaky-queue and count-denied policies do not support refunds\r\n");
    expect(f, "WEIR.RESET none a",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
    expect(
        f, "WEIR.EXPLAIN api alice",
        "*5\r\n$12\r\npolicy   api\r\n$14\r\nkey      alice\r\n$25\r\nlimit    gcra 1/s burst 5\r\n"
        "$26\r\nstate    5 of 5 free; full\r\n$12\r\nnext     now\r\n");
    expect(f, "WEIR.EXPLAIN none a",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
}

static void check_keep(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/s burst 5");
    expect(f, "WEIR.TAKE api a KEEP 2", "*6\r\n:1\r\n:5\r\n:2\r\n:0\r\n:1000\r\n:0\r\n");
    expect(f, "WEIR.PEEK api a COST 2 KEEP 3", "*6\r\n:0\r\n:5\r\n:1\r\n:1000\r\n:1000\r\n:0\r\n");
    expect(f, "weir.take api a cost 2 keep 2", "*6\r\n:1\r\n:5\r\n:0\r\n:0\r\n:3000\r\n:0\r\n");
    expect(f, "WEIR.TAKE api a KEEP 2", "*6\r\n:0\r\n:5\r\n:0\r\n:1000\r\n:3000\r\n:0\r\n");
    expect(f, "WEIR.TAKE api a KEEP 21%",
           "*6\r\n:0\r\n:5\r\n:0\r\n:1000\r\n:3000\r\n:0\r\n"); /* 1.05 is 2 */
    expect(f, "WEIR.TAKE api a KEEP 20%", "*6\r\n:1\r\n:5\r\n:0\r\n:0\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.TAKE api a KEEP 5", "*6\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:4000\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s burst 5' a KEEP 0%",
           "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n");
    const char *keep =
        "-ERR what to keep: expected a whole number from 0 to 2147483647, or a share of "
        "the limit from 0% to 100%\r\n";
    static const char *const bad[] = {"-1", "2147483648", "101%", "-1%", "%", "2.5%", "x", "1%%"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "WEIR.TAKE api a KEEP %s", bad[i]);
        expect(f, line, keep);
    }
    expect(f, "WEIR.TAKE api z KEEP 2147483647", "*6\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKE api a KEEP",
           "-ERR syntax error, found 'KEEP', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    expect(f, "WEIR.TAKE api a KEEP 1 COST 1",
           "-ERR syntax error, found 'COST', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
}

static void check_take_all_keep(void **state)
{
    fixture *f = *state;
    set_rule(f, "user", "gcra 1/s burst 5");
    expect(f, "WEIR.TAKEALL 2 user a 1+2 user b 2+40%",
           "*7\r\n:1\r\n:5\r\n:1\r\n:0\r\n:2000\r\n:0\r\n:1\r\n");
    expect(f, "WEIR.TAKEALL 2 user a 1 user b 2+2",
           "*7\r\n:0\r\n:5\r\n:1\r\n:1000\r\n:2000\r\n:0\r\n:1\r\n");
    expect(f, "WEIR.PEEK user a", "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n");
    expect(
        f, "WEIR.TAKEALL 1 user a 1+",
        "-ERR request 0: what to keep: expected a whole number from 0 to 2147483647, or a share of "
        "the limit from 0% to 100%\r\n");
    expect(f, "WEIR.TAKEALL 1 user a +1",
           "-ERR request 0: the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.TAKEALL 1 user a 0", "*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKEALL 1 user a 2147483647",
           "*7\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKEALL 1 user a 2147483648",
           "-ERR request 0: the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.REFUND user a 1+1",
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
}

static void check_take_all(void **state)
{
    fixture *f = *state;
    set_rule(f, "user", "gcra 1/s burst 3");
    set_rule(f, "org", "fixed-window 5/h");
    set_rule(f, "q", "leaky-queue 10/s depth 2");
    const char *both = "WEIR.TAKEALL 2 user alice 2 org acme 2";
    expect(f, both, "*7\r\n:1\r\n:3\r\n:1\r\n:0\r\n:2000\r\n:0\r\n:0\r\n");
    expect(f, both, "*7\r\n:0\r\n:3\r\n:1\r\n:1000\r\n:2000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.PEEK org acme", "*6\r\n:1\r\n:5\r\n:3\r\n:0\r\n:3600000\r\n:0\r\n");
    expect(f, "weir.takeall 3 user bob 1 org acme 4 'gcra 1/s burst 9' x 1",
           "*7\r\n:0\r\n:5\r\n:3\r\n:3600000\r\n:3600000\r\n:0\r\n:1\r\n");
    expect(f, "WEIR.TAKEALL 1 org other 6", "*7\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKE q k", "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:100\r\n:0\r\n");
    expect(f, "WEIR.TAKEALL 2 org q 1 q k 1", /* the request with the longest wait denies */
           "*7\r\n:1\r\n:3\r\n:1\r\n:0\r\n:200\r\n:100\r\n:1\r\n");
    f->session.proto = 3;
    expect(f, both, "*7\r\n:0\r\n:3\r\n:1\r\n:1000\r\n:2000\r\n:0\r\n:0\r\n");
    expect(
        f, "WEIR.TAKEALL 2 org z 1 'gcra 1/s burst 2' x 1 WITHNAMES",
        "%11\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:1\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:1000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:0\r\n$5\r\nindex\r\n:1\r\n$6\r\npolicy\r\n$16\r\ngcra 1/s burst "
        "2\r\n$3\r\nkey\r\n$1\r\nx\r\n"
        "$5\r\nlayer\r\n:0\r\n");
}

static void check_take_all_errors(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/s burst 3");
    expect(f, "WEIR.TAKEALL 1 a k",
           "-ERR wrong number of arguments for 'weir.takeall' command\r\n");
    expect(f, "WEIR.TAKEALL 0 a k 1", "-ERR expected 1 to 16 requests, found '0'\r\n");
    expect(f, "WEIR.TAKEALL 17 a k 1", "-ERR expected 1 to 16 requests, found '17'\r\n");
    expect(f, "WEIR.TAKEALL x a k 1", "-ERR expected 1 to 16 requests, found 'x'\r\n");
    expect(f, "WEIR.TAKEALL 2 a k 1",
           "-ERR expected 'policy key cost' 2 times after the number, found 3 arguments\r\n");
    expect(f, "WEIR.TAKEALL 1 a k 1 a",
           "-ERR expected 'policy key cost' 1 times after the number, found 4 arguments\r\n");
    expect(f, "WEIR.TAKEALL 2 a k 1 a j -1",
           "-ERR request 1: the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.TAKEALL 2 a k 1 b k 1",
           "-ERR request 1: no policy 'b'; WEIR.POLICY LIST shows all policies\r\n");
    expect(f, "WEIR.TAKEALL 2 a '' 1 b k 1",
           "-ERR request 0: the key has 0 bytes, expected 1 to 65536\r\n");
    expect(f, "WEIR.TAKEALL 2 a k 1 'gcra 1/x' k 1",
           "-ERR request 1: policy: column 8: unknown unit 'x', expected one of ns us ms s m h d w"
           "\r\n");
    expect(f, "WEIR.PEEK a k", "*6\r\n:1\r\n:3\r\n:3\r\n:0\r\n:0\r\n:0\r\n");
    expect(f,
           "WEIR.TAKEALL 16 a 0 1 a 1 1 a 2 1 a 3 1 a 4 1 a 5 1 a 6 1 a 7 1 a 8 1 a 9 1 a 10 1 "
           "a 11 1 a 12 1 a 13 1 a 14 1 a 15 4",
           "*7\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n:0\r\n:15\r\n");
    expect(f, "COMMAND INFO weir.takeall weir.reserve weir.commit cl.throttle",
           "*4\r\n*6\r\n$12\r\nweir.takeall\r\n:-5\r\n*1\r\n+write\r\n:3\r\n:-2\r\n:3\r\n"
           "*6\r\n$12\r\nweir.reserve\r\n:-4\r\n*1\r\n+write\r\n:2\r\n:2\r\n:1\r\n"
           "*6\r\n$11\r\nweir.commit\r\n:-3\r\n*0\r\n:0\r\n:0\r\n:0\r\n"
           "*6\r\n$11\r\ncl.throttle\r\n:-1\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n");
}

/* An error within a batch is replied in its place, and the other requests of the batch are
 * decided. */
static void check_order(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/s burst 9");
    const char *request = "WEIR.TAKE a k\r\nWEIR.TAKE a k COST x\r\nWEIR.TAKE a k\r\nPING\r\n"
                          "WEIR.TAKE b k\r\nWEIR.TAKE a\r\nWEIR.CHECK 'gcra 1/s' k\r\nNO\r\n"
                          "WEIR.TAKE a k\r\n*1\r\n:1";
    expect(f, request,
           "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:1000\r\n:0\r\n"
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n"
           "*6\r\n:1\r\n:9\r\n:7\r\n:0\r\n:2000\r\n:0\r\n"
           "+PONG\r\n"
           "-ERR no policy 'b'; WEIR.POLICY LIST shows all policies\r\n"
           "-ERR wrong number of arguments for 'weir.take' command\r\n"
           "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n"
           "-ERR unknown command 'NO'; WEIR.HELP lists the commands\r\n"
           "*6\r\n:1\r\n:9\r\n:6\r\n:0\r\n:3000\r\n:0\r\n"
           "-ERR Protocol error: expected '$', got ':'\r\n");
}

/* Every command accepts a policy text instead of a name. */
static void check_texts(void **state)
{
    fixture *f = *state;
    expect(f, "WEIR.TAKE 'gcra 1/s burst 5' k", "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s burst 5' k", "*6\r\n:1\r\n:5\r\n:3\r\n:0\r\n:2000\r\n:0\r\n");
    expect(f, "WEIR.REFUND 'gcra 1/s burst 5' k 1",
           "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n");
    expect(f, "WEIR.RESET 'gcra 1/s burst 5' k", "+OK\r\n");
    expect(f, "WEIR.PEEK 'gcra 1/s burst 5' k", "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.RESET 'gcra 1/ burst' k",
           "-ERR policy: column 8: found a space, expected a period such as s, 90s or 1h30m\r\n");
}

static void check_long_batch(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/s burst 1000000");
    enum { N = 5 * WEIR_BATCH_MAX + 3 };
    for (int i = 0; i < N; i++)
        weir_buffer_append(&f->in, "WEIR.TAKE a k\r\n", 15);
    assert_int_equal(weir_resp_session_run(&f->session, &f->in, &f->out, 1 << 20, now_ns).next,
                     WEIR_SESSION_READ);
    weir_buffer_append(&f->out, "", 1);
    const char *at = (const char *)weir_buffer_data(&f->out);
    for (int i = 1; i <= N; i++) {
        char want[80];
        int len = snprintf(want, sizeof want, "*6\r\n:1\r\n:1000000\r\n:%d\r\n:0\r\n:%d\r\n:0\r\n",
                           1000000 - i, i * 1000);
        assert_memory_equal(at, want, (size_t)len);
        at += len;
    }
    assert_string_equal(at, "");
}

static void check_hello(void **state)
{
    fixture *f = *state;
    expect(
        f, "HELLO 3",
        "%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:3\r\n"
        "$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n");
    expect(f, "WEIR.POLICY GET none", "_\r\n");
    expect(f, "CLIENT GETNAME", "_\r\n");
    expect(f, "HELLO 4", "-NOPROTO unsupported protocol version\r\n");
    expect(f, "HELLO 1", "-NOPROTO unsupported protocol version\r\n");
    expect(f, "HELLO x", "-ERR Protocol version is not an integer or out of range\r\n");
    expect(
        f, "HELLO 2 SETNAME me",
        "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:2\r\n"
        "$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n");
    expect(f, "CLIENT GETNAME", "$2\r\nme\r\n");
    expect(f, "HELLO 3 NONSENSE", "-ERR Syntax error in HELLO option 'NONSENSE'\r\n");
    expect(f, "WEIR.POLICY GET none", "$-1\r\n");
    expect(f, "RESET", "+RESET\r\n");
    expect(f, "CLIENT GETNAME", "$-1\r\n");
}

static void check_policy(void **state)
{
    fixture *f = *state;
    expect(f, "WEIR.POLICY LIST", "*0\r\n");
    expect(f, "WEIR.POLICY SET login 'sliding-log 5/m'", "+OK\r\n");
    expect(f, "WEIR.POLICY SET api 'gcra 1/s'", "+OK\r\n");
    expect(f, "WEIR.POLICY LIST",
           "*2\r\n*12\r\n$4\r\nname\r\n$3\r\napi\r\n$5\r\nlimit\r\n$8\r\ngcra 1/s\r\n"
           "$9\r\noverrides\r\n:0\r\n$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n"
           "$6\r\nshadow\r\n:0\r\n"
           "*12\r\n$4\r\nname\r\n$5\r\nlogin\r\n$5\r\nlimit\r\n$15\r\nsliding-log 5/m\r\n"
           "$9\r\noverrides\r\n:0\r\n$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n"
           "$6\r\nshadow\r\n:0\r\n");
    expect(
        f, "WEIR.POLICY GET login",
        "*12\r\n$4\r\nname\r\n$5\r\nlogin\r\n$5\r\nlimit\r\n$15\r\nsliding-log 5/m\r\n"
        "$9\r\noverrides\r\n:0\r\n$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n$6\r\nshadow\r\n:0\r\n");
    expect(f, "WEIR.TAKE login bob", "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:60000\r\n:0\r\n");
    expect(f, "WEIR.POLICY DEL login", ":1\r\n");
    expect(f, "WEIR.POLICY DEL login", ":0\r\n");
    expect(f, "WEIR.POLICY SET a 'gcra 1/x'",
           "-ERR policy: column 8: unknown unit 'x', expected one of ns us ms s m h d w\r\n");
    expect(f, "WEIR.POLICY SET 'a b' 'gcra 1/s'",
           "-ERR byte 2 of a policy's name: expected a letter, a digit or one of - _ . : /\r\n");
    expect(f, "WEIR.POLICY SET \"a\\x00b\" 'gcra 1/s'",
           "-ERR the policy's name: expected 1 to 64 bytes without NUL\r\n");
    expect(f, "WEIR.POLICY SET a \"gcra 1/s\\x00\"",
           "-ERR the policy text: expected at most 2047 bytes without NUL\r\n");
    const char *usage = "-ERR syntax error, expected WEIR.POLICY LIST, GET name, SET name "
                        "policy-text or DEL name\r\n";
    expect(f, "WEIR.POLICY LIST x", usage);
    expect(f, "WEIR.POLICY GET", usage);
    expect(f, "WEIR.POLICY SET x", usage);
    expect(f, "WEIR.POLICY DROP x", usage);
    for (int i = 1; i < WEIR_RULES_MAX; i++) {
        char request[64];
        snprintf(request, sizeof request, "WEIR.POLICY SET p%d 'gcra 1/s'", i);
        expect(f, request, "+OK\r\n");
    }
    expect(f, "WEIR.POLICY SET more 'gcra 1/s'",
           "-ERR there are 8192 policies, the maximum: delete one first\r\n");
    expect(f, "WEIR.POLICY SET p1 'gcra 2/s'", "+OK\r\n");
}

/* Sends a request whose reply is delayed. */
static void expect_delayed(fixture *f, const char *request, const char *reply, int64_t until_ns)
{
    weir_buffer_append(&f->in, request, strlen(request));
    weir_buffer_append(&f->in, "\r\n", 2);
    weir_session_step step = weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    assert_int_equal(step.next, WEIR_SESSION_WAIT);
    assert_int_equal(step.until_ns, until_ns);
    weir_buffer_append(&f->out, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&f->out), reply);
    weir_buffer_clear(&f->out);
}

static bool count_wrong(void *ctx, const void *peer)
{
    assert_ptr_equal(peer, ctx);
    ++*(int *)ctx;
    return true;
}

/* The limit of delayed replies is reached. */
static bool hold_no_more(void *ctx, const void *peer)
{
    (void)ctx;
    (void)peer;
    return false;
}

/* Wrong passwords in a pipeline: each reply is delayed, and the third closes the connection.
 * Earlier requests are answered at once. */
static void check_wrong_passwords(void **state)
{
    fixture *f = *state;
    static const char pipeline[] = "QUERY\r\nAUTH a\r\nPING\r\nHELLO 2 AUTH default b\r\nAUTH c\r\n"
                                   "AUTH secret\r\n";
    static const char *const replies[] = {
        "-ERR unknown command 'QUERY'; WEIR.HELP lists the commands\r\n", "-WRONG",
        "-NOAUTH Authentication required.\r\n", "-WRONG", "-WRONG"};
    int wrong = 0, waits = 0;
    users_kit_set_password(&f->users, "secret");
    f->users.wrong_password = count_wrong;
    f->users.wrong_password_ctx = &wrong;
    for (size_t step = 1; step <= sizeof pipeline; step++) {
        int64_t at_ns = now_ns;
        size_t replied = 0;
        weir_resp_session_init(&f->session, &f->options);
        f->session.completion.ctx = &wrong;
        wrong = waits = 0;
        weir_session_step next = {.next = WEIR_SESSION_READ};
        for (size_t at = 0; at < sizeof pipeline - 1 && next.next != WEIR_SESSION_CLOSE;
             at += step) {
            size_t left = sizeof pipeline - 1 - at;
            weir_buffer_append(&f->in, pipeline + at, left < step ? left : step);
            do {
                next = weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, at_ns);
                waits += next.next == WEIR_SESSION_WAIT;
                if (next.next == WEIR_SESSION_WAIT) {
                    assert_int_equal(next.until_ns, at_ns + WEIR_PASSWORD_DELAY_NS);
                    assert_int_equal(wrong, waits);
                    assert_memory_equal(weir_buffer_data(&f->out), "-WRONGPASS ", 11);
                    at_ns = next.until_ns;
                }
                weir_buffer_append(&f->out, "", weir_buffer_len(&f->out) > 0);
                if (weir_buffer_len(&f->out) > 0)
                    assert_memory_equal(weir_buffer_data(&f->out), replies[replied],
                                        strlen(replies[replied]));
                replied += weir_buffer_len(&f->out) > 0;
                weir_buffer_clear(&f->out);
            } while (next.next == WEIR_SESSION_WAIT || next.next == WEIR_SESSION_AGAIN);
        }
        assert_int_equal(next.next, WEIR_SESSION_CLOSE);
        assert_int_equal(waits, WEIR_PASSWORD_TRIES);
        assert_int_equal(replied, 5);
        assert_false(f->session.login.everything);
        weir_buffer_clear(&f->in);
    }
    f->users.wrong_password = hold_no_more;
    weir_resp_session_init(&f->session, &f->options);
    weir_buffer_append(&f->in, pipeline, sizeof pipeline - 1);
    weir_session_step last = {.next = WEIR_SESSION_AGAIN};
    while (last.next == WEIR_SESSION_AGAIN) {
        weir_buffer_clear(&f->out);
        last = weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    }
    assert_int_equal(last.next, WEIR_SESSION_CLOSE);
    assert_false(f->session.login.everything);
    weir_buffer_clear(&f->in);
    weir_buffer_clear(&f->out);
    f->users.wrong_password = NULL;
    f->users.wrong_password_ctx = NULL;
}

static void check_password(void **state)
{
    fixture *f = *state;
    expect(f, "AUTH secret",
           "-ERR AUTH <password> called without any password configured for the default user. Are "
           "you sure your configuration is correct?\r\n");
    users_kit_set_password(&f->users, "secret");
    weir_resp_session_init(&f->session, &f->options);
    const char *no = "-NOAUTH Authentication required.\r\n";
    const char *wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    expect(f, "PING", no);
    expect(f, "WEIR.CHECK 'gcra 1/s' k", no);
    expect(f, "WEIR.CHECK 'gcra 1/s' k COST 2", no);
    expect(f, "CL.THROTTLE u 15 30 60", no);
    expect(f, "INFO", no);
    expect(
        f, "HELLO 3",
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time\r\n");
    static const char *const guesses[] = {"AUTH secre",        "AUTH secrets",
                                          "AUTH ''",           "AUTH secretsecret",
                                          "AUTH alice secret", "HELLO 3 AUTH default wrong"};
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        expect_delayed(f, guesses[i], wrong, now_ns + WEIR_PASSWORD_DELAY_NS);
        expect(f, "PING", no);
        weir_resp_session_init(&f->session, &f->options);
    }
    expect(f, "AUTH secret", "+OK\r\n");
    expect(f, "PING", "+PONG\r\n");
    expect(f, "RESET", "+RESET\r\n");
    expect(f, "PING", no);
    expect(f, "AUTH default secret", "+OK\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/s' k", "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n");
    expect(f, "RESET", "+RESET\r\n");
    expect(f, "HELLO 3 AUTH default secret NONSENSE",
           "-ERR Syntax error in HELLO option 'NONSENSE'\r\n");
    expect(f, "PING", no);
    expect(f, "HELLO 3 AUTH default secret SETNAME 'a b'",
           "-ERR Client names cannot contain spaces, newlines or special characters, and have at "
           "most 64 bytes.\r\n");
    expect(f, "PING", "+PONG\r\n"); /* as in Redis */
}

static void check_protocol_error(void **state)
{
    fixture *f = *state;
    expect(f, "PING\r\n*1\r\n:5", "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    assert_true(f->session.closing);
}

/* Bytes that no Redis client sends: an error, then the connection closes. */
static void check_binary(void **state)
{
    fixture *f = *state;
    static const char *const junk[] = {"\x16\x03\x01", "PING\x01", "WHAT \x7f", "WHAT \"\\x00\""};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        weir_resp_session_init(&f->session, &f->options);
        weir_buffer_append(&f->in, junk[i], strlen(junk[i]));
        weir_buffer_append(&f->in, "\r\nPING\r\n", 8);
        assert_int_equal(
            weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns).next,
            WEIR_SESSION_CLOSE);
        assert_memory_equal(weir_buffer_data(&f->out), "-ERR ", 5);
        assert_null(memmem(weir_buffer_data(&f->out), weir_buffer_len(&f->out), "PONG", 4));
        weir_buffer_clear(&f->out);
        weir_buffer_clear(&f->in);
    }
    /* Arguments of known commands, and bulk strings, may contain any byte. */
    weir_resp_session_init(&f->session, &f->options);
    expect(f, "ECHO \x01", "$1\r\n\x01\r\n");
    expect(f, "*1\r\n$4\r\nWH\x01T",
           "-ERR unknown command 'WH T'; WEIR.HELP lists the commands\r\n");
    assert_false(f->session.closing);
}

static void check_http_guard(void **state)
{
    fixture *f = *state;
    expect(f, "POST / HTTP/1.1\r\nPING", "");
    assert_true(f->session.closing);
}

/* Pipelined requests are answered in order. When the output is full, the others wait. */
static void check_pipeline(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 1000; i++)
        weir_buffer_append(&f->in, "PING\r\n", 6);
    assert_int_equal(weir_resp_session_run(&f->session, &f->in, &f->out, 70, now_ns).next,
                     WEIR_SESSION_AGAIN);
    assert_int_equal(weir_buffer_len(&f->out), 77);
    weir_buffer_clear(&f->out);
    assert_int_equal(weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns).next,
                     WEIR_SESSION_READ);
    assert_int_equal(weir_buffer_len(&f->out), 7000 - 77);
    assert_int_equal(weir_buffer_len(&f->in), 0);
}

/* More policy texts than the cache holds: an old text is compiled again, and finds its keys. */
static void check_many_policies(void **state)
{
    fixture *f = *state;
    char text[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= 3 * WEIR_SERVICE_POLICIES_MAX; i++) {
            snprintf(text, sizeof text, "WEIR.CHECK 'fixed-window 1/%dd' k", i);
            weir_buffer_append(&f->in, text, strlen(text));
            weir_buffer_append(&f->in, "\r\n", 2);
            weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
            assert_memory_equal(weir_buffer_data(&f->out), round == 0 ? "*6\r\n:1" : "*6\r\n:0", 6);
            weir_buffer_clear(&f->out);
        }
    }
}

static void check_top(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/h burst 2");
    expect(f, "WEIR.TOP api",
           "*16\r\n$6\r\npolicy\r\n$3\r\napi\r\n$2\r\nof\r\n$6\r\ndenied\r\n$4\r\ncost\r\n:0\r\n"
           "$12\r\nunlisted_max\r\n:0\r\n$8\r\nsampling\r\n:1\r\n$12\r\nhalf_life_ms\r\n:60000\r\n"
           "$8\r\ncomplete\r\n:1\r\n$4\r\nkeys\r\n*0\r\n");
    expect(f, "WEIR.TAKE api alice COST 2", "*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:7200000\r\n:0\r\n");
    expect(f, "WEIR.TAKE api alice COST 2",
           "*6\r\n:0\r\n:2\r\n:0\r\n:7200000\r\n:7200000\r\n:0\r\n");
    expect(f, "WEIR.TAKE api \"\\x00\\xff\\n\" COST 3",
           "*6\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:0\r\n:0\r\n");
    f->session.proto = 3;
    expect_bytes(
        f, "WEIR.TOP api",
        TEXT("%8\r\n$6\r\npolicy\r\n$3\r\napi\r\n$2\r\nof\r\n$6\r\ndenied\r\n$4\r\ncost\r\n"
             ":5\r\n$12\r\nunlisted_max\r\n:0\r\n$8\r\nsampling\r\n:1\r\n$12\r\n"
             "half_life_ms\r\n:60000\r\n$8\r\ncomplete\r\n#t\r\n$4\r\nkeys\r\n*2\r\n%5\r\n"
             "$3\r\nkey\r\n$3\r\n\0\xff\n\r\n$4\r\ncost\r\n:3\r\n$5\r\nerror\r\n:0\r\n$8\r\n"
             "requests\r\n:1\r\n$9\r\nkey_bytes\r\n:3\r\n%5\r\n$3\r\nkey\r\n$5\r\nalice\r\n"
             "$4\r\ncost\r\n:2\r\n$5\r\nerror\r\n:0\r\n$8\r\nrequests\r\n:1\r\n$9\r\n"
             "key_bytes\r\n:5\r\n"));
    f->session.proto = 2;
    const char *one =
        "*16\r\n$6\r\npolicy\r\n$3\r\napi\r\n$2\r\nof\r\n$7\r\nallowed\r\n$4\r\ncost\r\n"
        ":2\r\n$12\r\nunlisted_max\r\n:0\r\n$8\r\nsampling\r\n:1\r\n$12\r\n"
        "half_life_ms\r\n:60000\r\n$8\r\ncomplete\r\n:1\r\n$4\r\nkeys\r\n*1\r\n*10\r\n$3\r\n"
        "key\r\n$5\r\nalice\r\n$4\r\ncost\r\n:2\r\n$5\r\nerror\r\n:0\r\n$8\r\nrequests\r\n:1"
        "\r\n$9\r\nkey_bytes\r\n:5\r\n";
    expect(f, "weir.top api allowed", one);
    expect(f, "WEIR.TOP api ALLOWED 1", one);
    expect(f, "WEIR.TOP none", "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
    const char *range = "-ERR k: expected a whole number from 1 to 20, the value of top.keys\r\n";
    expect(f, "WEIR.TOP api 0", range);
    expect(f, "WEIR.TOP api denied -1", range);
    expect(f, "WEIR.TOP api denied 21", range);
    const char *usage = "-ERR syntax error, expected WEIR.TOP policy [denied|allowed] [k]\r\n";
    expect(f, "WEIR.TOP api both", usage);
    expect(f, "WEIR.TOP api denied x", usage);
    expect(f, "WEIR.TOP api 5 5", usage);
    expect(f, "WEIR.TOP", "-ERR wrong number of arguments for 'weir.top' command\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_check),
        TEST(check_check_errors),
        TEST(check_long_key),
        TEST(check_throttle),
        TEST(check_throttle_errors),
        TEST(check_others),
        TEST(check_pipeline),
        TEST(check_protocol_error),
        TEST(check_http_guard),
        TEST(check_many_policies),
        TEST(check_take),
        TEST(check_take_all),
        TEST(check_keep),
        TEST(check_take_all_keep),
        TEST(check_take_all_errors),
        TEST(check_top),
        TEST(check_texts),
        TEST(check_order),
        TEST(check_long_batch),
        TEST(check_hello),
        TEST(check_policy),
        TEST(check_password),
        TEST(check_wrong_passwords),
        TEST(check_binary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
