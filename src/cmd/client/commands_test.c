/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the client commands send, what they print, and their exit status. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/client/kit_test.h"

typedef struct dialog {
    const char *reply; /* to the request after HELLO */
    int status;
    const char *output, *sent; /* without HELLO; NULL: any */
    const char *line;          /* the command */
} dialog;

static const dialog dialogs[] = {
    {DECISION("1", "500", "499", "0", "10", "0"), 0,
     "allowed  499 of 500 remaining, full again in 10 ms\n", "WEIR.TAKE api alice WITHNAMES|",
     "take api alice"},
    {DECISION("0", "500", "0", "1250", "600000", "0"), 3, "denied   retry in 1.25 s\n",
     "WEIR.TAKE api alice COST 7 WITHNAMES|", "take api alice --cost 7"},
    {DECISION("0", "5", "5", "-1", "0", "0"), 3,
     "denied   always: the cost of 6 exceeds the limit of 5\n", NULL, "take --cost=6 api alice"},
    {DECISION("0", "5", "0", "-1", "0", "0"), 3,
     "denied   always: the key is on the policy's deny list\n", NULL, "take --cost=5 api alice"},
    {DECISION("0", "5", "0", "-1", "0", "0"), 3,
     "denied   always: the cost of 1, and 5 kept, exceed the limit of 5\n", NULL,
     "take --keep 5 api alice"},
    {DECISION("0", "5", "0", "-1", "0", "0"), 3,
     "denied   always: the key is on the policy's deny list\n", NULL, "take --keep 4 api alice"},
    {DECISION("0", "9", "0", "-1", "0", "0"), 3, /* 9.01 are more than 9, so 2 units are kept */
     "denied   always: the cost of 8, and 12% kept, exceed the limit of 9\n", NULL,
     "take --cost 8 --keep 12% api alice"},
    {DECISION("0", "9", "0", "-1", "0", "0"), 3,
     "denied   always: the key is on the policy's deny list\n", NULL,
     "take --cost 7 --keep 12% api alice"},
    {DECISION("0", "9223372036854775807", "0", "-1", "0", "0"), 3,
     "denied   always: the key is on the policy's deny list\n", NULL, "peek --keep 100% api alice"},
    {DECISION("0", "5", "0", "-1", "0", "0"), 3,
     "denied   always: the key is on the policy's deny list\n", NULL, "take --keep x api alice"},
    {DECISION("0", "5", "0", "0", "9", "0"), 3, "denied   retry in 0 ms\n", NULL, "take api a"},
    {DECISION("1", "21", "3", "0", "90061001", "200"), 0,
     "allowed  3 of 21 remaining, serve after 200 ms, full again in 1 d 2 h\n", NULL,
     "take api alice"},
    {DECISION("1", "21", "3", "0", "1", "1"), 0,
     "allowed  3 of 21 remaining, serve after 1 ms, full again in 1 ms\n", NULL, "take api alice"},
    {DECISION("1", "5", "5", "0", "0", "0"), 0, "allowed  5 of 5 remaining, full\n",
     "WEIR.PEEK api alice WITHNAMES|", "peek api alice"},
    {DECISION("0", "5", "2", "59999", "60000", "0"), 3, "denied   retry in 59.999 s\n",
     "WEIR.PEEK api -alice COST 3 WITHNAMES|", "peek --cost 3 -- api -alice"},
    {DECISION("0", "5", "2", "60000", "60000", "0"), 3, "denied   retry in 1 m\n", NULL,
     "peek api a"},
    {DECISION("0", "5", "2", "999", "60000", "0"), 3, "denied   retry in 999 ms\n", NULL,
     "peek api a"},
    {DECISION("0", "5", "2", "1000", "60000", "0"), 3, "denied   retry in 1 s\n", NULL,
     "peek api a"},
    {DECISION("0", "5", "2", "10010", "60000", "0"), 3, "denied   retry in 10.01 s\n", NULL,
     "peek api a"},
    {DECISION("0", "5", "2", "9223372036854775807", "60000", "0"), 3,
     "denied   retry in 106751 d 23 h\n", NULL, "peek api a"},
    {DECISION("1", "5", "4", "0", "60000", "0"), 0,
     "allowed  4 of 5 remaining, full again in 1 m\n",
     "WEIR.TAKE gcra 5/m burst 5 alice WITHNAMES|", "take --text ' gcra  5/60s burst 5' alice"},
    {DECISION("1", "5", "4", "0", "60000", "0"), 0,
     "allowed  4 of 5 remaining, full again in 1 m\n",
     "WEIR.TAKE fixed-window 5/day tz  Mars/Base alice WITHNAMES|",
     "take --text 'fixed-window 5/day tz  Mars/Base' alice"},
    {"+OK\r\n", 0, "reset\n", "WEIR.RESET api alice|", "reset api alice"},
    {"+OK\r\n", 0, "{\"reset\":true,\"policy\":\"a\\\"b\"}\n", NULL, "reset --json a\"b alice"},
    {"+OK\r\n", 0, "reset\n", "WEIR.RESETALL api|", "reset api --all"},
    {"+OK\r\n", 0, "{\"reset\":true,\"policy\":\"gcra 5/m burst 5\"}\n",
     "WEIR.RESETALL gcra 5/m burst 5|", "reset --json --all --text 'gcra 5/m burst 5'"},
    {"+OK\r\n", 0, "reset\n", "WEIR.RESET api *|", "reset api -- '*'"},
    {"+OK\r\n", 0, "reset\n", "WEIR.RESET api **|", "reset api -- '**'"},
    {DECISION("1", "5", "3", "0", "24000", "0"), 0,
     "refunded 3 of 5 remaining, full again in 24 s\n", "WEIR.REFUND api alice 1 WITHNAMES|",
     "refund api alice"},
    {DECISION("0", "5", "0", "12000", "60000", "0"), 0,
     "refunded 0 of 5 remaining, full again in 1 m\n",
     "WEIR.REFUND gcra 5/m burst 5 alice 7 WITHNAMES|",
     "refund --cost 7 --text 'gcra 5/m burst 5' alice"},
    {DECISION("0", "5", "0", "12000", "60000", "0"), 0,
     "{\"allowed\":false,\"limit\":5,\"remaining\":0,\"retry_after_ms\":12000,"
     "\"reset_after_ms\":60000,\"delay_ms\":0,\"policy\":\"api\",\"layer\":0}\n",
     NULL, "refund --json api alice"},
    {CHARGED("1", "5", "3", "0", "24000", "0"), 0,
     "charged  3 of 5 remaining, full again in 24 s\n", "WEIR.CHARGE api alice WITHNAMES|",
     "charge api alice"},
    {CHARGED("0", "5", "0", "24000", "84000", "0"), 0,
     "charged  in debt, paid off in 24 s, full again in 1 m 24 s\n",
     "WEIR.CHARGE gcra 5/m burst 5 alice COST 7 WITHNAMES|",
     "charge --cost 7 --text 'gcra 5/m burst 5' alice"},
    {CHARGED("0", "5", "0", "24000", "84000", "3"), 0,
     "charged  in debt, paid off in 24 s, full again in 1 m 24 s\n"
     "3 units could not be counted: the debt is at its maximum\n",
     NULL, "charge api alice"},
    {CHARGED("0", "5", "0", "-1", "0", "0"), 0,
     "denied   always: the key is on the policy's deny list\n", NULL, "charge api alice"},
    {CHARGED("0", "5", "0", "24000", "84000", "3"), 0,
     "{\"allowed\":false,\"limit\":5,\"remaining\":0,\"retry_after_ms\":24000,"
     "\"reset_after_ms\":84000,\"delay_ms\":0,\"policy\":\"api\",\"layer\":0,\"over\":3}\n",
     NULL, "charge --json api alice"},
    {CHARGED("0", "5", "0", "24000", "84000", "-1"), 1,
     "weir charge: 127.0.0.1:6380: unexpected reply to WEIR.CHARGE; is this server a weir "
     "daemon?\n",
     NULL, "charge api alice"},
    {DECISION("0", "5", "0", "24000", "84000", "0"), 1,
     "weir charge: 127.0.0.1:6380: unexpected reply to WEIR.CHARGE; is this server a weir "
     "daemon?\n",
     NULL, "charge api alice"},
    {RESERVED("1", "0", ID), 0,
     "reserved 4 of 5 remaining, full again in 10 ms\n5f0c6d2ab9e81743\n",
     "WEIR.RESERVE api alice 1 WITHNAMES|", "reserve api alice"},
    {RESERVED("0", "1250", "_"), 3, "denied   retry in 1.25 s\n",
     "WEIR.RESERVE gcra 5/m burst 5 alice 7 TTL 1h30m WITHNAMES|",
     "reserve --cost 7 --ttl 1h30m --text 'gcra 5/m burst 5' alice"},
    {RESERVED("1", "0", ID), 0,
     "{\"allowed\":true,\"limit\":5,\"remaining\":4,\"retry_after_ms\":0,\"reset_after_ms\":10,"
     "\"delay_ms\":0,\"policy\":\"api\",\"layer\":1,\"id\":\"5f0c6d2ab9e81743\"}\n",
     NULL, "reserve --json api alice"},
    {RESERVED("0", "9", "_"), 3,
     "{\"allowed\":false,\"limit\":5,\"remaining\":4,\"retry_after_ms\":9,\"reset_after_ms\":10,"
     "\"delay_ms\":0,\"policy\":\"api\",\"layer\":1}\n",
     NULL, "reserve --json api alice"},
    {ENDED("7", "1", "4", "0", "10000", "", ""), 0,
     "renewed  4 of 5 remaining, full again in 10 s\n", "WEIR.RENEW 12ab WITHNAMES|", "renew 12ab"},
    {ENDED("8", "0", "0", "12000", "60000", NEXT_OF("12000"), ""), 0,
     "renewed  0 of 5 remaining, next in 12 s, full again in 1 m\n",
     "WEIR.RENEW 12ab TTL 10s WITHNAMES|", "renew --ttl 10s 12ab"},
    {ENDED("8", "1", "4", "0", "10", NEXT_OF("0"), ""), 0,
     "{\"renewed\":true,\"limit\":5,\"remaining\":4,\"reset_after_ms\":10,\"next_ms\":0,"
     "\"layer\":1}\n",
     NULL, "renew --json 12ab"},
    {ENDED("9", "1", "3", "0", "24000", NEXT_OF("0"), OVER("0")), 0,
     "settled  3 of 5 remaining, full again in 24 s\n", "WEIR.COMMIT 12ab 2147483647 WITHNAMES|",
     "commit 12ab 2147483647"},
    {ENDED("8", "0", "0", "24000", "84000", "", OVER("3")), 0,
     "settled  in debt, paid off in 24 s, full again in 1 m 24 s\n"
     "3 units could not be counted: the debt is at its maximum\n",
     "WEIR.COMMIT 12ab 0 WITHNAMES|", "commit 12ab 0"},
    {ENDED("8", "1", "5", "0", "0", "", OVER("0")), 0, "settled  5 of 5 remaining, full\n",
     "WEIR.CANCEL 12ab WITHNAMES|", "cancel 12ab"},
    {ENDED("9", "0", "0", "24000", "84000", NEXT_OF("24000"), OVER("3")), 0,
     "{\"settled\":true,\"over\":3,\"limit\":5,\"remaining\":0,\"reset_after_ms\":84000,"
     "\"next_ms\":24000,\"layer\":1}\n",
     NULL, "cancel --json 12ab"},
    {ENDED("8", "1", "5", "0", "0", "", OVER("0")), 0,
     "{\"settled\":true,\"over\":0,\"limit\":5,\"remaining\":5,\"reset_after_ms\":0,\"layer\":1}\n",
     NULL, "commit --json 12ab 1"},
    {"*2\r\n$10\r\npolicy api\r\n$8\r\nnext\x1bnow\r\n", 0, "policy api\nnext?now\n",
     "WEIR.EXPLAIN api alice|", "explain api alice"},
    {NAMED("a\"\xff", "0", "5", "0", "1250", "7", "2", "1"), 3,
     "{\"allowed\":false,\"limit\":5,\"remaining\":0,\"retry_after_ms\":1250,\"reset_after_ms\":7,"
     "\"delay_ms\":2,\"policy\":\"a\\\"\xef\xbf\xbd\",\"layer\":1}\n",
     NULL, "take --json api alice"},
    {DECISION("1", "5", "0", "-1", "7", "0"), 0,
     "{\"allowed\":true,\"limit\":5,\"remaining\":0,\"retry_after_ms\":-1,\"reset_after_ms\":7,"
     "\"delay_ms\":0,\"policy\":\"api\",\"layer\":0}\n",
     NULL, "peek --json api alice"},
    {COUNTED, 0,
     "{\"allowed\":true,\"limit\":5,\"remaining\":2,\"retry_after_ms\":0,\"reset_after_ms\":9,"
     "\"delay_ms\":0,\"next_ms\":0,\"policy\":\"api\",\"layer\":0,\"count\":1,\"previous\":3,"
     "\"window_start_ms\":1767225600000}\n",
     NULL, "peek --json api alice"},
    {NEXT("1", "0", "0", "1001"), 0,
     "allowed  0 of 5 remaining, next in 1.001 s, full again in 1 m\n", NULL, "take api alice"},
    {NEXT("1", "0", "0", "0"), 0, "allowed  0 of 5 remaining, full again in 1 m\n", NULL,
     "take api alice"},
    {NEXT("1", "0", "0", "12000"), 0,
     "{\"allowed\":true,\"limit\":5,\"remaining\":0,\"retry_after_ms\":0,"
     "\"reset_after_ms\":60000,\"delay_ms\":0,\"next_ms\":12000,\"policy\":\"api\",\"layer\":0}\n",
     NULL, "take --json api alice"},
    {NEXT("0", "0", "-1", "-1"), 3,
     "{\"allowed\":false,\"limit\":5,\"remaining\":0,\"retry_after_ms\":-1,"
     "\"reset_after_ms\":60000,\"delay_ms\":0,\"next_ms\":-1,\"policy\":\"api\",\"layer\":0}\n",
     NULL, "take --json api alice"},
    /* errors */
    {"-ERR no policy 'apj'; there is none\r\n", 1, AT "no policy 'apj'; there is none\n", NULL,
     "take apj alice"},
    {"-ERR \x1b[31mred\xc2\x9b \xff\xc3\x84\r\n", 1, AT "?[31mred? ?\xc3\x84\n", NULL,
     "take api a"},
    {"-ERR no policy 'apj'; WEIR.POLICY LIST shows all policies\r\n", 1,
     AT "no policy 'apj'; weir policies lists them\n", NULL, "take apj alice"},
    {"-ERR k: expected a whole number from 1 to 100, the value of top.keys\r\n", 1,
     "weir top: 127.0.0.1:6380: --keys: expected a whole number from 1 to 100, the value of "
     "top.keys\n",
     NULL, "top --keys 1000 api"},
    {"-ERR the TTL: expected at most the lease of the policy\r\n", 1,
     "weir renew: 127.0.0.1:6380: --ttl: expected at most the lease of the policy\n", NULL,
     "renew --ttl 1h 12ab"},
    {"-ERR no open reservation 12ab: it was committed, was cancelled or has expired\r\n", 1,
     "weir cancel: 127.0.0.1:6380: no open reservation 12ab: it was committed, was cancelled or "
     "has expired\n",
     NULL, "cancel 12ab"},
    {"-ERR '::1/129' is not a network: expected /0\r\n", 1,
     AT "'::1/129' is not a network: expected /0\n", NULL, "take api a"},
    {"-OOM out of memory\r\n", 1, AT "OOM out of memory\n", NULL, "take api a"},
    {"-ERR \r\n", 1, AT "ERR \n", NULL, "take api a"},
    {"-ERR x\r\n", 1, AT "x\n", NULL, "take api a"},
};

static void check_replies(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof dialogs / sizeof dialogs[0]; i++) {
        const dialog *d = &dialogs[i];
        char sent[sizeof net.sent];
        for (size_t piece = 0; piece < 2; piece++) { /* whole, and byte by byte */
            SERVER(HELLO, d->reply);
            net.piece = piece;
            expect(d->status, d->output, "%s", d->line);
            snprintf(sent, sizeof sent, "HELLO 3|%s", d->sent ? d->sent : "");
            if (d->sent)
                assert_string_equal(net.sent, sent);
            assert_string_equal(net.at, "127.0.0.1:6380");
            assert_true(net.no_delay);
        }
    }
}

/* ---- top and policies ------------------------------------------------------------------------ */

#define TOP_KEY(key, cost, error, requests, bytes)                                                 \
    "%5\r\n$3\r\nkey\r\n$3\r\n" key "\r\n$4\r\ncost\r\n:" cost "\r\n$5\r\nerror\r\n:" error        \
    "\r\n$8\r\nrequests\r\n:" requests "\r\n$9\r\nkey_bytes\r\n:" bytes "\r\n"
#define TOP(unlisted, sampling, half_life, complete, keys)                                         \
    "%8\r\n$6\r\npolicy\r\n$3\r\napi\r\n$2\r\nof\r\n$6\r\ndenied\r\n$4\r\ncost\r\n:5120\r\n"       \
    "$12\r\nunlisted_max\r\n:" unlisted "\r\n$8\r\nsampling\r\n:" sampling                         \
    "\r\n$12\r\nhalf_life_ms\r\n:" half_life "\r\n$8\r\ncomplete\r\n#" complete                    \
    "\r\n$4\r\nkeys\r\n*" keys
#define TWO                                                                                        \
    TOP("7", "16", "60000", "f",                                                                   \
        "2\r\n" TOP_KEY("ali", "4100", "0", "820", "3")                                            \
            TOP_KEY("b\xffq", "1020", "1021", "204", "300"))
#define RULE(limit, overrides, allow, deny, shadow)                                                \
    RULE_OF("3\r\napi", limit, overrides, allow, deny, shadow)
#define RULE_OF(name, limit, overrides, allow, deny, shadow)                                       \
    "%6\r\n$4\r\nname\r\n$" name "\r\n$5\r\nlimit\r\n$8\r\n" limit                                 \
    "\r\n$9\r\noverrides\r\n:" overrides "\r\n$5\r\nallow\r\n:" allow "\r\n$4\r\ndeny\r\n:" deny   \
    "\r\n$6\r\nshadow\r\n#" shadow "\r\n"

static const dialog lists[] = {
    {TOP("0", "1", "60000", "t", "0\r\n"), 0,
     "denied by api recently: 5120 units (half-life 1 m)\n", "WEIR.TOP api denied|", "top api"},
    {TOP("1", "2", "1", "t", "0\r\n"), 0,
     "denied by api recently: 5120 units (half-life 1 ms)\n"
     "a key that is not listed has at most 1 units\n"
     "estimated from a sample: one of every 2 units was counted\n",
     "WEIR.TOP api denied 1000|", "top --keys 1000 api"},
    {TWO, 0,
     "denied by api recently: 5120 units (half-life 1 m)\n"
     "       units    at least    requests  key\n"
     "        4100        4100         820  ali\n"
     "        1020           0         204  b?q...\n"
     "a key that is not listed has at most 7 units\n"
     "estimated from a sample: one of every 16 units was counted\n"
     "incomplete: some threads did not count this policy, because top.memory is full\n",
     "WEIR.TOP api allowed 2|", "top --allowed --keys 2 api"},
    {TWO, 0,
     "{\"policy\":\"api\",\"of\":\"denied\",\"cost\":5120,\"unlisted_max\":7,\"sampling\":16,"
     "\"half_life_ms\":60000,\"complete\":false,\"keys\":[{\"key\":\"ali\",\"cost\":4100,"
     "\"error\":0,\"requests\":820,\"key_bytes\":3},{\"key\":\"b\xef\xbf\xbdq\",\"cost\":1020,"
     "\"error\":1021,\"requests\":204,\"key_bytes\":300}]}\n",
     NULL, "top --json api"},
    {"+PONG\r\n", 0, "PONG\n", "PING|", "ping"},
    {"*0\r\n", 0, "no named policies\n", "WEIR.POLICY LIST|", "policies"},
    {"*0\r\n", 0, "{\"policies\":[]}\n", NULL, "policies --json"},
    {"*2\r\n" RULE("gcra 1/s", "0", "0", "0", "f") RULE("gcra\x1b"
                                                        "9/s",
                                                        "1", "2", "3", "t"),
     0,
     "api  gcra 1/s\n"
     "api  gcra?9/s; overrides: 1; always allowed: 2; always denied: 3; shadow\n",
     NULL, "policies"},
    {"*3\r\n" RULE_OF("1\r\na", "gcra 1/s", "0", "0", "0", "f")
         RULE_OF("5\r\nlogin", "gcra 2/s", "0", "0", "0", "f")
             RULE_OF("2\r\nbc", "gcra 3/s", "0", "0", "0", "f"),
     0, "a      gcra 1/s\nlogin  gcra 2/s\nbc     gcra 3/s\n", NULL, "policies"},
    {"*1\r\n" RULE("gcra 1/s", "1", "0", "0", "t"), 0,
     "{\"policies\":[{\"name\":\"api\",\"limit\":\"gcra 1/s\",\"overrides\":1,\"allow\":0,"
     "\"deny\":0,\"shadow\":true}]}\n",
     NULL, "policies --json"},
    {"*1\r\n%5\r\n$4\r\nname\r\n$1\r\na\r\n$5\r\nlimit\r\n$1\r\nb\r\n$9\r\noverrides\r\n:0\r\n"
     "$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n",
     1,
     "weir policies: 127.0.0.1:6380: unexpected reply to WEIR.POLICY; is this server a weir "
     "daemon?\n",
     NULL, "policies"},
    /* members of a later version */
    {"*1\r\n%8\r\n$1\r\nx\r\n_\r\n$1\r\ny\r\n*2\r\n:-1\r\n*0\r\n$4\r\nname\r\n$1\r\na\r\n"
     "$5\r\nlimit\r\n$1\r\nb\r\n$9\r\noverrides\r\n:0\r\n$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n"
     "$6\r\nshadow\r\n#f\r\n",
     0,
     "{\"policies\":[{\"x\":null,\"y\":[-1,[]],\"name\":\"a\",\"limit\":\"b\",\"overrides\":0,"
     "\"allow\":0,\"deny\":0,\"shadow\":false}]}\n",
     NULL, "policies --json"},
};

static void check_top_and_policies(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char sent[sizeof net.sent];
        SERVER(HELLO, lists[i].reply);
        expect(lists[i].status, lists[i].output, "%s", lists[i].line);
        snprintf(sent, sizeof sent, "HELLO 3|%s", lists[i].sent ? lists[i].sent : "");
        if (lists[i].sent)
            assert_string_equal(net.sent, sent);
    }
}

/* A reply with another name instead of policy, of or keys. */
#define TOP_PART(policy, of, keys)                                                                 \
    "%8\r\n$6\r\n" policy "$1\r\na\r\n" of "$4\r\ncost\r\n:5\r\n$12\r\nunlisted_max\r\n:0\r\n"     \
    "$8\r\nsampling\r\n:1\r\n$12\r\nhalf_life_ms\r\n:1\r\n$8\r\ncomplete\r\n#t\r\n$4\r\n" keys     \
    "\r\n*0\r\n"

/* ---- replies that a daemon does not send ----------------------------------------------------- */

static void expect_unexpected(const char *reply, const char *resp, const char *command)
{
    char text[200];
    snprintf(text, sizeof text,
             "weir %.*s: 127.0.0.1:6380: unexpected reply to %s; is this server a weir daemon?\n",
             (int)strcspn(command, " "), command, resp);
    SERVER(HELLO, reply);
    expect(1, text, "%s", command);
}

static void check_malformed_replies(void **unused)
{
    (void)unused;
    static const char *const decisions[] = {
        "+OK\r\n",
        "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:10\r\n:0\r\n",
        "%1\r\n$7\r\nallowed\r\n:1\r\n",
        DECISION("2", "5", "4", "0", "10", "0"),
        DECISION("-1", "5", "4", "0", "10", "0"),
        DECISION("1", "-1", "4", "0", "10", "0"),
        DECISION("1", "5", "-1", "0", "10", "0"),
        DECISION("1", "5", "4", "-2", "10", "0"),
        DECISION("1", "5", "4", "0", "-1", "0"),
        DECISION("1", "5", "4", "0", "10", "-1"),
        NAMED("api", "1", "5", "4", "0", "10", "0", "-1"),
        "%1\r\n$6\r\npolicy\r\n:1\r\n",
        "%8\r\n$7\r\nallowed\r\n$1\r\n1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:5\r\n$14\r\n"
        "retry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n$8\r\ndelay_ms\r\n:0\r\n$"
        "6\r\npolicy"
        "\r\n$1\r\na\r\n$5\r\nlayer\r\n:0\r\n",
    };
    static const char *const tops[] = {
        "*0\r\n",
        TOP("-1", "1", "1", "t", "0\r\n"),
        TOP("0", "0", "1", "t", "0\r\n"),
        TOP("0", "1", "0", "t", "0\r\n"),
        TOP("0", "1", "1", "t", "1\r\n*0\r\n"),
        TOP_PART("pilocy\r\n", "$2\r\nof\r\n$1\r\nd\r\n", "keys"),
        TOP_PART("policy\r\n", "$2\r\nno\r\n$1\r\nd\r\n", "keys"),
        TOP_PART("policy\r\n", "$2\r\nof\r\n$1\r\nd\r\n", "yeks"),
        TOP("0", "1", "1", "t", "1\r\n" TOP_KEY("ali", "-1", "0", "1", "1")),
        TOP("0", "1", "1", "t", "1\r\n" TOP_KEY("ali", "1", "-1", "1", "1")),
        TOP("0", "1", "1", "t", "1\r\n" TOP_KEY("ali", "1", "0", "-1", "1")),
        TOP("0", "1", "1", "t",
            "2\r\n" TOP_KEY("ali", "1", "0", "1", "1") TOP_KEY("bob", "1", "0", "1", "-1")),
    };
    static const char *const rules[] = {
        ":1\r\n",
        "+OK\r\n",
        "*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n",
        "*1\r\n" RULE("gcra 1/s", "-1", "0", "0", "f"),
        "*1\r\n" RULE("gcra 1/s", "0", "-1", "0", "f"),
        "*1\r\n" RULE("gcra 1/s", "0", "0", "-1", "f"),
    };
    static const char *const lines[] = {"_\r\n", "+OK\r\n", "*1\r\n:1\r\n",
                                        "*1\r\n*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n:1\r\n"};
    static const char *const ends[] = {
        "+OK\r\n",
        ENDED("7", "1", "4", "0", "10", "", ""),
        ENDED("8", "1", "4", "0", "10", "", OVER("-1")),
        ENDED("8", "1", "4", "-2", "10", "", OVER("0")),
    };
    static const char *const reserved[] = {
        RESERVED("1", "0", "_"),
        RESERVED("0", "0", ID),
        RESERVED("1", "0", ":16"),
        DECISION("1", "5", "4", "0", "10", "0"),
        ENDED("8", "1", "4", "0", "10", "", "\r\n$2\r\nid\r\n" ID),
    };
    static const char *const resets[] = {":1\r\n", "+OK!\r\n", "+KO\r\n", "$2\r\nOK\r\n"};
    static const char *const pongs[] = {":1\r\n", "+OK\r\n", "+PONG!\r\n", "+PINK\r\n",
                                        "$4\r\nPONG\r\n"};
    for (size_t i = 0; i < sizeof pongs / sizeof pongs[0]; i++)
        expect_unexpected(pongs[i], "PING", "ping");
    for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++)
        expect_unexpected(decisions[i], "WEIR.TAKE", "take api a");
    for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++)
        expect_unexpected(tops[i], "WEIR.TOP", "top api");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        expect_unexpected(rules[i], "WEIR.POLICY", "policies");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_unexpected(lines[i], "WEIR.EXPLAIN", "explain api a");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        expect_unexpected(ends[i], "WEIR.CANCEL", "cancel 12ab");
        expect_unexpected(ends[i], "WEIR.COMMIT", "commit 12ab 1");
    }
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        expect_unexpected(reserved[i], "WEIR.RESERVE", "reserve api a");
    expect_unexpected(ENDED("7", "1", "4", "0", "-1", "", ""), "WEIR.RENEW", "renew 12ab");
    for (size_t i = 0; i < sizeof resets / sizeof resets[0]; i++)
        expect_unexpected(resets[i], "WEIR.RESET", "reset api a");
    expect_unexpected(":1\r\n", "WEIR.RESETALL", "reset api --all");
}

/* ---- wrong usage ----------------------------------------------------------------------------- */

typedef struct mistake {
    const char *text;
    const char *line;
} mistake;

#define OF_TAKE "expected --text, --cost, --keep, " CONNECTION ", --json or --help"
#define CONNECTION                                                                                 \
    "--server, --tls, --ca, --cert, --key, --server-name, --user, --password-file, --timeout"
#define OF_REFUND "expected --text, --cost, " CONNECTION ", --json or --help"
#define OF_RESET  "expected --all, --text, " CONNECTION ", --json or --help"

static const mistake mistakes[] = {
    {"weir take: POLICY and KEY are missing; see weir take --help\n", "take"},
    {"weir peek: KEY is missing; see weir peek --help\n", "peek api"},
    {"weir reset: expected only POLICY and KEY, also found 'x'; see weir reset --help\n",
     "reset api a x y"},
    {"weir reset: expected only POLICY, also found 'x'; see weir reset --help\n",
     "reset --all api x"},
    {"weir reset: POLICY is missing; see weir reset --help\n", "reset --all"},
    {"weir reset: KEY is '*', which is not a pattern; to reset all keys: weir reset api --all; for "
     "the key of that name: weir reset api -- '*'\n",
     "reset api '*'"},
    {"weir reset: KEY is 'trial-*', which is not a pattern; to reset all keys: weir reset api "
     "--all; for the key of that name: weir reset api -- 'trial-*'\n",
     "reset api 'trial-*'"},
    {"weir reset: KEY is '*', which is not a pattern; to reset all keys: weir reset --text "
     "'gcra 1/s' --all; for the key of that name: weir reset --text 'gcra 1/s' -- '*'\n",
     "reset --text 'gcra 1/s' '*'"},
    {"weir take: unknown option '--all', " OF_TAKE "; see weir take --help\n", "take --all api"},
    {"weir renew: ID is missing; see weir renew --help\n", "renew"},
    {"weir cancel: ID is empty\n", "cancel ''"},
    {"weir cancel: expected only ID, also found '1'; see weir cancel --help\n", "cancel 12ab 1"},
    {"weir commit: ID and N are missing; see weir commit --help\n", "commit"},
    {"weir commit: N is missing; see weir commit --help\n", "commit 12ab"},
    {"weir commit: expected only ID and N, also found 'x'; see weir commit --help\n",
     "commit 12ab 1 x"},
    {"weir commit: N is empty\n", "commit 12ab ''"},
    {"weir commit: N: expected a number from 0 to 2147483647, found '2147483648'\n",
     "commit 12ab 2147483648"},
    {"weir commit: N: expected a number from 0 to 2147483647, found '-1'\n", "commit 12ab -- -1"},
    {"weir reserve: KEY is missing; see weir reserve --help\n", "reserve api"},
    {"weir take: KEY is empty\n", "take api ''"},
    {"weir take: POLICY is empty\n", "take '' a"},
    {"weir top: POLICY is empty\n", "top ''"},
    {"weir commit: unknown option '-1'; to pass it as an argument, write -- before it\n",
     "commit 7 -1"},
    {"weir take: unknown option '--coast', " OF_TAKE "; see weir take --help\n",
     "take --coast 1 api a"},
    {"weir peek: unknown option '--keys', " OF_TAKE "; see weir peek --help\n",
     "peek --keys 5 api a"},
    {"weir reset: unknown option '--cost', " OF_RESET "; see weir reset --help\n",
     "reset --cost 1 api a"},
    {"weir refund: unknown option '--allowed', " OF_REFUND "; see weir refund --help\n",
     "refund --allowed api a"},
    {"weir take: unknown option '-q', " OF_TAKE "; see weir take --help\n", "take -q api a"},
    {"weir take: unknown option '-q', " OF_TAKE "; see weir take --help\n", "take -qz api a"},
    {"weir take: --cost needs a value\n", "take api a --cost"},
    {"weir take: --json=1: the option takes no value\n", "take --json=1 api a"},
    {"weir take: --j=1: the option takes no value\n", "take --j=1 api a"},
    {"weir take: unknown option '--t=1', " OF_TAKE "; see weir take --help\n", "take --t=1 api a"},
    {"weir take: unknown option '--t', " OF_TAKE "; see weir take --help\n", "take --t api a"},
    {"weir take: --help=1: the option takes no value\n", "take --help=1"},
    {"weir take: unknown option '--=1', " OF_TAKE "; see weir take --help\n", "take --=1"},
    {"weir top: --json: expected a POLICY, without --live; see weir top --help\n", "top --json"},
    {"weir top: --keys: expected a POLICY, without --live; see weir top --help\n",
     "top --keys 3 --live api"},
    {"weir top: --interval: expected --live, or no POLICY; see weir top --help\n",
     "top --interval 1s api"},
    {"weir top: --count: expected --live, or no POLICY; see weir top --help\n",
     "top --count 1 api"},
    {"weir top: --count: expected a number from 1 to 1000000000, found '0'\n", "top --count 0"},
    {"weir top: --interval: expected a time from 100ms to 86400s, like 5s, found '99ms'\n",
     "top --interval 99ms"},
    {"weir top: --interval: expected a time from 100ms to 86400s, like 5s, found '1m'\n",
     "top --interval 1m"},
    {"weir top: expected only POLICY, also found 'a'; see weir top --help\n", "top api a"},
    {"weir policies: expected no arguments, also found 'api'; see weir policies --help\n",
     "policies api"},
    {"weir ping: expected no arguments, also found 'api'; see weir ping --help\n", "ping api"},
    {"weir ping: unknown option '--json', expected " CONNECTION
     " or --help; see weir ping --help\n",
     "ping --json"},
    {"weir policies: unknown option '--text', expected " CONNECTION ", --json or --help; see "
     "weir policies --help\n",
     "policies --text"},
    {"weir explain: unknown option '--json', expected --text, " CONNECTION " or --help; see "
     "weir explain --help\n",
     "explain --json api a"},
    {"weir top: unknown option '--cost', expected --allowed, --keys, --live, --interval, "
     "--count, " CONNECTION ", --json or --help; see weir top --help\n",
     "top --cost 5 api"},
    {"weir take: --server: expected HOST:PORT, PORT, HOST or [IPV6]:PORT, with a PORT of 1 to "
     "65535, a URL such as rediss://HOST:PORT, or the path of a socket, with a '/', found ''\n",
     "take --server '' api a"},
};

static void expect_usage(const char *text, const char *line);

/* Without a terminal, `weir top` prints a table once there are two samples. */
static void check_tables(void **unused)
{
    (void)unused;
#define INFO(len, uptime)                                                                          \
    "$" len "\r\n# Server\r\nweir_version:1.2.3\r\nuptime_in_seconds:" uptime                      \
    "\r\nmaxclients:9\r\n\r\n"
    setenv("COLUMNS", "60", 1);
    SERVER(HELLO, INFO("65", "7"), "*0\r\n", INFO("65", "8"));
    expect(0,
           "weir 1.2.3  127.0.0.1:6380  up 8s  connections 0 of 9\n"
           "decisions 0/s  denied 0/s\n"
           "keys 0  memory 0 B of 0 B  evicted 0  refused 0\n"
           " POLICY                                      REQ/s DENIED/s*\n"
           " no policies\n\n",
           "top --count 1 --interval 2s");
    assert_string_equal(net.sent, "HELLO 3|INFO|WEIR.POLICY LIST|INFO|");
    assert_true(net.now_ns >= 2000 * ms_ns && net.now_ns < 2100 * ms_ns);
    unsetenv("COLUMNS");
    SERVER(NULL);
    net.connect_errno[0] = ECONNREFUSED;
    expect(1,
           "weir top: cannot connect to 127.0.0.1:6380: Connection refused; start a daemon with "
           "`weir serve`, or set its address with --server or WEIR_SERVER\n",
           "top");
    SERVER("-NOAUTH x\r\n");
    expect(1,
           "weir top: 127.0.0.1:6380: the daemon requires a password: set WEIR_PASSWORD, or "
           "use --password-file\n",
           "top");
    SERVER(NULL);
    expect_usage(
        "weir top: ':': expected HOST:PORT, PORT, HOST or [IPV6]:PORT, with a PORT of 1 to "
        "65535, a URL such as rediss://HOST:PORT, or the path of a socket, with a '/'\n",
        "top --server :");
}

static void expect_usage(const char *text, const char *line)
{
    SERVER(HELLO);
    expect(2, text, "%s", line);
    assert_int_equal(net.connects, 0);
}

static void check_wrong_arguments(void **unused)
{
    (void)unused;
    static const char *const costs[] = {"",    "x",          "-1", "+1",
                                        "1.5", "2147483648", "1 ", "99999999999999999999"};
    static const char *const keys[] = {"", "x", "0", "1001", "-1"};
    static const char *const times[] = {"",
                                        "s",
                                        "5",
                                        "5m",
                                        "0s",
                                        "0ms",
                                        "-1s",
                                        "1.5s",
                                        "86401s",
                                        "86400001ms",
                                        "ms",
                                        "1S",
                                        "99999999999999999999s"};
    char text[200], line[100];
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        expect_usage(mistakes[i].text, mistakes[i].line);
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        snprintf(text, sizeof text,
                 "weir take: --cost: expected a number from 0 to 2147483647, found '%s'\n",
                 costs[i]);
        snprintf(line, sizeof line, "take --cost '%s' api a", costs[i]);
        expect_usage(text, line);
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        snprintf(text, sizeof text,
                 "weir top: --keys: expected a number from 1 to 1000, found '%s'\n", keys[i]);
        snprintf(line, sizeof line, "top --keys '%s' api", keys[i]);
        expect_usage(text, line);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        snprintf(text, sizeof text,
                 "weir take: --timeout: expected a time from 1ms to 86400s, like 5s, found '%s'\n",
                 times[i]);
        snprintf(line, sizeof line, "take --timeout '%s' api a", times[i]);
        expect_usage(text, line);
    }
}

/* A wrong policy text is shown with its position, before anything is sent. */
static void check_wrong_policy_texts(void **unused)
{
    (void)unused;
    static const char *const commands[] = {"take",    "peek",  "refund", "charge",
                                           "reserve", "reset", "explain"};
    char text[300], line[100];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        snprintf(text, sizeof text,
                 "weir %s: column 10: unknown unit 'x', expected one of ns us ms s m h d w\n"
                 "  gcra 100/x\n"
                 "           ^\n",
                 commands[i]);
        snprintf(line, sizeof line, "%s --text 'gcra 100/x' a", commands[i]);
        expect_usage(text, line);
    }
    SERVER(HELLO, "-ERR what?\r\n"); /* without --text, the daemon reads it */
    expect(1, AT "what?\n", "take 'gcra 100/x' a");
    assert_string_equal(net.sent, "HELLO 3|WEIR.TAKE gcra 100/x a WITHNAMES|");
}

static void check_help(void **unused)
{
    (void)unused;
    static const char *const commands[] = {"take",    "peek",     "refund", "reset",   "top",
                                           "explain", "policies", "charge", "reserve", "renew",
                                           "commit",  "cancel",   "ping"};
    char begin[64], line[64];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        SERVER(HELLO);
        snprintf(begin, sizeof begin, "Usage: weir %s ", commands[i]);
        snprintf(line, sizeof line, "%s --help --no-such-option", commands[i]);
        assert_int_equal(run(line), 0);
        assert_int_equal(strncmp(output, begin, strlen(begin)), 0);
        assert_int_equal(net.connects, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_replies),
        cmocka_unit_test(check_tables),
        cmocka_unit_test(check_top_and_policies),
        cmocka_unit_test(check_malformed_replies),
        cmocka_unit_test(check_wrong_arguments),
        cmocka_unit_test(check_wrong_policy_texts),
        cmocka_unit_test(check_help),
    };
    return cmocka_run_group_tests(tests, redirect, NULL);
}
