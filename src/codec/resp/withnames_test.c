/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the type of a decision: the same array in RESP2 and RESP3, and a map with WITHNAMES. */

#include "codec/resp/kit_test.h"

/* `const [allowed] = reply` must be 0 for a denial in both protocols. */
static void check_decisions_are_arrays(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/s burst 5 & gcra 9/s burst 9");
    for (f->session.proto = 2; f->session.proto <= 3; f->session.proto++) {
        expect(f, "WEIR.TAKE api k COST 5", "*6\r\n:1\r\n:5\r\n:0\r\n:0\r\n:5000\r\n:0\r\n");
        expect(f, "WEIR.TAKE api k", "*6\r\n:0\r\n:5\r\n:0\r\n:1000\r\n:5000\r\n:0\r\n");
        expect(f, "WEIR.TAKE api k COST x",
               "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
        expect(f, "WEIR.PEEK api k COST 6", "*6\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:5000\r\n:0\r\n");
        expect(f, "WEIR.PEEK api new", "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n");
        expect(f, "WEIR.REFUND api k 1", "*6\r\n:1\r\n:5\r\n:1\r\n:0\r\n:4000\r\n:0\r\n");
        expect(f, "WEIR.CHECK 'gcra 60/m' k", "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n");
        expect(f, "WEIR.CHECK 'gcra 60/m' k", "*6\r\n:0\r\n:1\r\n:0\r\n:1000\r\n:1000\r\n:0\r\n");
        expect(f, "CL.THROTTLE u 0 1 1", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n");
        expect(f, "CL.THROTTLE u 0 1 1", "*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n");
        expect(f, "CL.THROTTLE u 0 1 1 -1", "*5\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n");
        expect(f, "WEIR.RESET api k", "+OK\r\n");
        expect(f, "WEIR.RESET 'gcra 60/m' k", "+OK\r\n");
    }
}

static void check_with_names(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 9/s burst 9 & gcra 1/s burst 5");
    expect(
        f, "WEIR.TAKE api alice WITHNAMES",
        "*18\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:1000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\nlayer\r\n:1\r\n");
    expect(f, "WEIR.PEEK api alice COST 5 withnames",
           "*18\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n"
           "$14\r\nretry_after_ms\r\n:1000\r\n$14\r\nreset_after_ms\r\n:1000\r\n"
           "$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$3\r\napi\r\n$5\r\n"
           "layer\r\n:1\r\n");
    expect(f, "WEIR.TAKE api bob COST 5", "*6\r\n:1\r\n:5\r\n:0\r\n:0\r\n:5000\r\n:0\r\n");
    expect(f, "WEIR.PEEK api bob COST 3 WITHNAMES",
           "*18\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:0\r\n"
           "$14\r\nretry_after_ms\r\n:3000\r\n$14\r\nreset_after_ms\r\n:5000\r\n"
           "$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:1000\r\n$6\r\npolicy\r\n$3\r\napi\r\n"
           "$5\r\nlayer\r\n:1\r\n");
    /* The layer with the longest wait has one left, and the other has none. */
    set_rule(f, "two", "fixed-window 3/m & fixed-window 4/h");
    expect(f, "WEIR.TAKE two eve COST 3", "*6\r\n:1\r\n:3\r\n:0\r\n:0\r\n:60000\r\n:0\r\n");
    expect(f, "WEIR.PEEK two eve COST 2 WITHNAMES",
           "*22\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:4\r\n$9\r\nremaining\r\n:1\r\n"
           "$14\r\nretry_after_ms\r\n:3600000\r\n$14\r\nreset_after_ms\r\n:3600000\r\n"
           "$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:60000\r\n$6\r\npolicy\r\n$3\r\ntwo\r\n"
           "$5\r\nlayer\r\n:1\r\n$5\r\ncount\r\n:3\r\n$15\r\nwindow_start_ms\r\n"
           ":1767225600000\r\n");
    f->session.proto = 3;
    expect(
        f, "WEIR.CHECK 'gcra   60/m' alice COST 1 WITHNAMES",
        "%9\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:1\r\n$9\r\nremaining\r\n:0\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:1000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:1000\r\n$6\r\npolicy\r\n$17\r\ngcra 60/m burst "
        "1\r\n$5\r\nlayer\r\n:0\r\n");
    expect(f, "WEIR.TAKE none alice WITHNAMES",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
}

/* WITHNAMES is an option only after the required arguments. */
static void check_with_names_place(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/s burst 5");
    expect(f, "WEIR.TAKE api WITHNAMES",
           "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n:0\r\n"); /* a key */
    expect(f, "WEIR.PEEK api WITHNAMES COST 5", "*6\r\n:0\r\n:5\r\n:4\r\n:1000\r\n:1000\r\n:0\r\n");
    const char *syntax = "-ERR syntax error, found 'WITHNAMES', expected [COST n] [KEEP m] "
                         "[WITHNAMES] after the key\r\n";
    expect(f, "WEIR.TAKE api k WITHNAMES 1", syntax);
    expect(f, "WEIR.TAKE api k WITHNAMES WITHNAMES", syntax);
    expect(f, "WEIR.TAKE api k COST WITHNAMES",
           "-ERR syntax error, found 'COST', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    const char *arity = "-ERR wrong number of arguments for 'weir.take' command\r\n";
    expect(f, "WEIR.TAKE api k WITHNAMES COST 1", syntax);
    expect(f, "WEIR.TAKE api k COST 1 WITHNAME",
           "-ERR syntax error, found 'WITHNAME', expected [COST n] [KEEP m] [WITHNAMES] after the "
           "key\r\n");
    expect(f, "WEIR.TAKE api k COST 1 KEEP 1 WITHNAME", arity);
    expect(f, "WEIR.REFUND api k WITHNAMES",
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.TAKEALL 1 api k WITHNAMES",
           "-ERR request 0: the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.COMMIT 0000000000000000 WITHNAMES",
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.CANCEL WITHNAMES",
           "-ERR the id: expected 16 hexadecimal digits, the id that reserve returned\r\n");
    expect(f, "WEIR.RESET api k WITHNAMES",
           "-ERR wrong number of arguments for 'weir.reset' command\r\n");
    expect(f, "WEIR.RESETALL api WITHNAMES",
           "-ERR wrong number of arguments for 'weir.resetall' command\r\n");
    expect(f, "CL.THROTTLE u 15 30 60 WITHNAMES",
           "-Cell error: Store error: Couldn't parse as integer: WITHNAMES\r\n");
    expect(f, "WEIR.PEEK api k", "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n");
}

/* WITHNAMES applies to one request of a batch, and to the command that ends the batch. */
static void check_with_names_batch(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/s burst 9");
    expect(
        f,
        "WEIR.TAKE a k\r\nWEIR.TAKE a k WITHNAMES\r\nWEIR.CHECK 'gcra 1/s' k\r\n"
        "WEIR.PEEK a k WITHNAMES\r\nWEIR.TAKE a k WITHNAMES\r\nWEIR.PEEK a k",
        "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:1000\r\n:0\r\n"
        "*18\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:9\r\n$9\r\nremaining\r\n:7\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:2000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$1\r\na\r\n$5\r\nlayer\r\n:0\r\n"
        "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:1000\r\n:0\r\n"
        "*18\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:9\r\n$9\r\nremaining\r\n:7\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:2000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$1\r\na\r\n$5\r\nlayer\r\n:0\r\n"
        "*18\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:9\r\n$9\r\nremaining\r\n:6\r\n"
        "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:3000\r\n$8\r\ndelay_ms\r\n:0\r\n"
        "$7\r\nnext_ms\r\n:0\r\n$6\r\npolicy\r\n$1\r\na\r\n$5\r\nlayer\r\n:0\r\n"
        "*6\r\n:1\r\n:9\r\n:6\r\n:0\r\n:3000\r\n:0\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_decisions_are_arrays),
        TEST(check_with_names),
        TEST(check_with_names_place),
        TEST(check_with_names_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
