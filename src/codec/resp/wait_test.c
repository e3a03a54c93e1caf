/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of requests that wait for an engine. However the input is cut, and whenever the engines
 * reply, the replies are those of a daemon with local states. */

#include "codec/resp/session.h"
#include "service/fake_engine_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { OUT_PAUSE = 1 << 16 };

static const int64_t now_ns = 1767225600000000000;

typedef struct rig {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    fake_engine *redis, *hybrid;
    weir_resp_options options;
    weir_resp_session session;
    weir_buffer in, out, replies;
    int ready;
    uint32_t random;
} rig;

static void is_ready(void *ctx)
{
    rig *r = ctx;
    r->ready++;
}

/*  remote  whether engines hold the states; else all policies are local */
static void set_rules(rig *r, bool remote)
{
    static const char *const evil = "evil", *const root = "root";
    static const weir_override_spec vip = {.pattern = "vip-*", .limit = "gcra 1/s burst 40"};
    weir_rule_spec specs[5] = {WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT,
                               WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT,
                               WEIR_RULE_SPEC_DEFAULT};
    static const char *const texts[][2] = {{"near", "fixed-window 3/m"},
                                           {"far", "gcra 1/s burst 4"},
                                           {"mixed", "sliding-log 5/m"},
                                           {"look", "fixed-window 1/m"},
                                           {"queue", "leaky-queue 10/s depth 2"}};
    for (int i = 0; i < 5; i++) {
        specs[i].name = texts[i][0];
        specs[i].limit = texts[i][1];
        if (remote && i > 0)
            specs[i].engine = i == 2 ? WEIR_ENGINE_HYBRID : WEIR_ENGINE_REDIS;
    }
    specs[1].overrides = &vip;
    specs[1].deny = &evil;
    specs[1].allow = &root;
    specs[1].overrides_len = specs[1].deny_len = specs[1].allow_len = 1;
    specs[3].shadow = true;
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, r->store, NULL, specs, 5), WEIR_OK);
    weir_limiter_configure(r->limiter, rules, remote ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL);
}

static void rig_open(rig *r, bool remote)
{
    static const uint8_t secret[16] = {3};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    *r = (rig){.random = 1};
    assert_int_equal(weir_store_open(&r->store, &options), WEIR_OK);
    assert_int_equal(weir_limiter_open(&r->limiter, r->store, NULL), WEIR_OK);
    assert_int_equal(weir_service_open(&r->service, r->limiter), WEIR_OK);
    set_rules(r, remote);
    r->redis = fake_open();
    r->hybrid = fake_open();
    weir_service_set_engine(r->service, WEIR_ENGINE_REDIS, &r->redis->engine);
    weir_service_set_engine(r->service, WEIR_ENGINE_HYBRID, &r->hybrid->engine);
    r->options.service = r->service;
    r->options.version = "1.2.3";
    weir_buffer_init(&r->in, 1 << 21);
    weir_buffer_init(&r->out, 1 << 21);
    weir_buffer_init(&r->replies, 1 << 21);
    weir_resp_session_init(&r->session, &r->options);
    r->session.completion.ready = is_ready;
    r->session.completion.ctx = r;
}

static void rig_close(rig *r)
{
    weir_resp_session_close(&r->session);
    weir_service_close(r->service);
    r->redis->engine.calls->close(&r->redis->engine);
    r->hybrid->engine.calls->close(&r->hybrid->engine);
    weir_limiter_close(r->limiter);
    weir_store_close(r->store);
    weir_buffer_free(&r->in);
    weir_buffer_free(&r->out);
    weir_buffer_free(&r->replies);
}

static uint32_t pick(rig *r, uint32_t n)
{
    r->random = r->random * 1664525 + 1013904223;
    return (r->random >> 8) % n;
}

static weir_session_next run(rig *r)
{
    weir_session_step step = weir_resp_session_run(&r->session, &r->in, &r->out, OUT_PAUSE, now_ns);
    assert_false(r->out.failed);
    weir_buffer_append(&r->replies, weir_buffer_data(&r->out), weir_buffer_len(&r->out));
    weir_buffer_clear(&r->out);
    return step.next;
}

/* Completes all requests in flight, in random order. */
static void complete_all(rig *r)
{
    while (r->redis->batches + r->hybrid->batches > 0) {
        fake_engine *f = pick(r, 2) ? r->redis : r->hybrid;
        if (f->batches > 0)
            fake_reply(f, pick(r, (uint32_t)f->batches), now_ns);
    }
}

/* Sends bytes in pieces of at most `most`, while the engines reply at random times. */
static void speak(rig *r, const char *bytes, size_t len, uint32_t most)
{
    size_t at = 0;
    weir_session_next next = WEIR_SESSION_READ;
    while (at < len || next == WEIR_SESSION_PENDING || next == WEIR_SESSION_AGAIN) {
        bool reads = next == WEIR_SESSION_READ || pick(r, 3) == 0;
        size_t n = reads && at < len ? 1 + pick(r, most) : 0;
        n = n < len - at ? n : len - at;
        weir_buffer_append(&r->in, bytes + at, n);
        at += n;
        if (next == WEIR_SESSION_PENDING && pick(r, 3) > 0) {
            int ready = r->ready;
            complete_all(r);
            assert_int_equal(r->ready, ready + 1);
        } else if (next == WEIR_SESSION_PENDING) { /* called too early */
            size_t left = weir_buffer_len(&r->in), replies = weir_buffer_len(&r->replies);
            assert_int_equal(run(r), WEIR_SESSION_PENDING);
            assert_int_equal(weir_buffer_len(&r->in), left);
            assert_int_equal(weir_buffer_len(&r->replies), replies);
            continue;
        }
        next = run(r);
        assert_int_not_equal(next, WEIR_SESSION_WAIT);
        if (next == WEIR_SESSION_CLOSE)
            return;
    }
}

static void add(weir_buffer *b, const char *request)
{
    weir_buffer_append(b, request, strlen(request));
    weir_buffer_append(b, "\r\n", 2);
}

/* Appends a TAKE of a key of `len` bytes as clients send it. */
static void add_take(weir_buffer *b, const char *policy, char key, int len)
{
    char text[256];
    int n = snprintf(text, sizeof text, "*3\r\n$9\r\nWEIR.TAKE\r\n$%zu\r\n%s\r\n$%d\r\n",
                     strlen(policy), policy, len);
    weir_buffer_append(b, text, (size_t)n);
    for (int i = 0; i < len; i++)
        weir_buffer_append_byte(b, (uint8_t)key);
    weir_buffer_append(b, "\r\n", 2);
}

static void add_all_kinds(weir_buffer *b)
{
    static const char *const requests[] = {
        "WEIR.TAKE far alice",
        "WEIR.TAKE near alice",
        "WEIR.TAKE \"far\" 'al ice' COST 2",
        "WEIR.TAKE far \"\\x61lice\"",
        "WEIR.TAKE mixed alice COST 2",
        "WEIR.TAKE far alice COST x",
        "WEIR.TAKE far evil",
        "WEIR.TAKE far root",
        "WEIR.TAKE nobody alice",
        "WEIR.TAKE far vip-1 COST 20",
        "WEIR.TAKE look bob",
        "WEIR.TAKE look bob",
        "WEIR.TAKE far 192.0.2.1",
        "WEIR.CHECK 'gcra 3/s burst 2' alice",
        "WEIR.CHECK 'gcra   3/1s burst 02' alice",
        "WEIR.CHECK 'gcra 3/x' alice",
        "WEIR.TAKE queue q",
        "WEIR.TAKE queue q",
        "WEIR.PEEK far alice",
        "WEIR.PEEK 'gcra 3/s burst 2' alice COST 2",
        "PING",
        "WEIR.REFUND far alice 1",
        "WEIR.REFUND queue q 1",
        "WEIR.RESET mixed alice",
        "WEIR.PEEK mixed alice",
        "WEIR.TAKEALL 3 far alice 1 far bob 2 look bob 1",
        "WEIR.TAKEALL 2 far alice 1 far evil 1",
        "WEIR.TAKEALL 2 far alice 9 far root 1",
        "WEIR.TAKEALL 1 look carol 1",
        "WEIR.TAKEALL 2 near alice 1 near bob 1",
        "WEIR.TAKEALL 2 far alice 1 nobody bob 1",
        "CL.THROTTLE k 2 1 60",
        "CL.THROTTLE k 2 1 60 3",
        "CL.THROTTLE k 2 0 60",
        "MULTI",
        "WEIR.TAKE far alice",
        "WEIR.TAKE near alice",
        "PING",
        "WEIR.TAKE mixed alice",
        "WEIR.TAKEALL 2 far alice 1 far bob 2",
        "WEIR.TAKE far vip-1",
        "WEIR.TAKE far vip-1 WITHNAMES",
        "EXEC",
        "WEIR.TAKE far alice",
        "MULTI",
        "WEIR.TAKE far alice",
        "NOSUCH",
        "EXEC",
        "MULTI",
        "WEIR.TAKE far alice",
        "DISCARD",
        "MULTI",
        "EXEC",
        "WEIR.TAKE far alice",
        "HELLO 3",
        "WEIR.TAKE far alice",
        "WEIR.CHECK 'gcra   3/1s burst 02' carol",
        "WEIR.TAKEALL 2 far dave 1 far erin 2",
        "WEIR.TAKE far alice WITHNAMES",
        "WEIR.TAKEALL 2 far dave 1 far erin 2 WITHNAMES",
        "WEIR.PEEK far alice COST 2 WITHNAMES",
        "WEIR.TAKE mixed alice COST 2 WITHNAMES",
        "HELLO 2",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        add(b, requests[i]);
}

/* A long pipeline: more requests than a batch holds, with equal keys, then each command. */
static void make_requests(weir_buffer *b)
{
    static const char *const policies[] = {"far", "near", "mixed", "look", "gcra 1/s burst 3"};
    weir_buffer_init(b, 1 << 20);
    add_all_kinds(b);
    for (int i = 0; i < 150; i++)
        add_take(b, policies[i % 5], (char)('a' + i % 7), 1 + i % 3);
    add_take(b, "far", 'z', 3000);
    add_all_kinds(b);
    add(b, "QUIT");
}

static void replies_are_those_of_a_local_daemon(void **unused)
{
    (void)unused;
    static rig local, remote;
    weir_buffer requests;
    make_requests(&requests);
    const char *bytes = (const char *)weir_buffer_data(&requests);
    size_t len = weir_buffer_len(&requests);
    rig_open(&local, false);
    speak(&local, bytes, len, (uint32_t)len);
    assert_int_equal(local.ready, 0);
    static const uint32_t most[] = {1, 2, 7, 40, 300, 1 << 20};
    for (uint32_t i = 0; i < 30; i++) {
        rig_open(&remote, true);
        remote.random = i + 1;
        remote.redis->reports_next = remote.hybrid->reports_next = true;
        remote.redis->immediate = i == 20;
        remote.hybrid->immediate = i % 10 == 0;
        speak(&remote, bytes, len, most[i % 6]);
        assert_int_equal(weir_buffer_len(&remote.replies), weir_buffer_len(&local.replies));
        assert_memory_equal(weir_buffer_data(&remote.replies), weir_buffer_data(&local.replies),
                            weir_buffer_len(&local.replies));
        assert_true(remote.redis->submitted > 0 && remote.hybrid->submitted > 0);
        rig_close(&remote);
    }
    rig_close(&local);
    weir_buffer_free(&requests);
}

/* ---- single cases ---------------------------------------------------------------------------- */

static void send(rig *r, const char *request)
{
    weir_buffer_append(&r->in, request, strlen(request));
    weir_buffer_append(&r->in, "\r\n", 2);
}

static void expect(rig *r, const char *replies)
{
    weir_buffer_append(&r->replies, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&r->replies), replies);
    weir_buffer_clear(&r->replies);
}

/* Requests before one that waits are answered at once; requests after it wait too. */
static void order_is_kept(void **unused)
{
    (void)unused;
    static rig r;
    rig_open(&r, true);
    send(&r, "PING");
    send(&r, "WEIR.PEEK near a");
    send(&r, "WEIR.TAKE far a");
    send(&r, "WEIR.TAKE near a");
    send(&r, "ECHO x");
    assert_int_equal(run(&r), WEIR_SESSION_PENDING);
    expect(&r, "+PONG\r\n*6\r\n:1\r\n:3\r\n:3\r\n:0\r\n:0\r\n:0\r\n");
    send(&r, "WEIR.TAKE far a"); /* not part of the batch in flight */
    send(&r, "NOSUCH");
    assert_int_equal(run(&r), WEIR_SESSION_PENDING);
    complete_all(&r);
    assert_int_equal(run(&r), WEIR_SESSION_PENDING);
    expect(&r, "*6\r\n:1\r\n:4\r\n:3\r\n:0\r\n:1000\r\n:0\r\n"
               "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n:0\r\n$1\r\nx\r\n");
    complete_all(&r);
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "*6\r\n:1\r\n:4\r\n:2\r\n:0\r\n:2000\r\n:0\r\n"
               "-ERR unknown command 'NOSUCH'; WEIR.HELP lists the commands\r\n");
    assert_int_equal(weir_buffer_len(&r.in), 0);
    rig_close(&r);
}

static void errors_name_the_remedy(void **unused)
{
    (void)unused;
    static rig r;
    rig_open(&r, true);
    r.redis->immediate = r.hybrid->immediate = true;
    send(&r, "WEIR.TAKEALL 2 far a 1 near a 1");
    send(&r, "WEIR.RESERVE far a 1 TTL 1s");
    r.redis->status = WEIR_E_IO;
    r.redis->reason = "the server is gone";
    send(&r, "WEIR.TAKE far a");
    send(&r, "WEIR.REFUND far a 1");
    send(&r, "WEIR.RESET far a");
    send(&r, "WEIR.EXPLAIN far a");
    send(&r, "CL.THROTTLE k 1 1 60");
    send(&r, "WEIR.TAKEALL 2 far root 1 far a 1");
    r.hybrid->status = WEIR_E_UNSUPPORTED;
    send(&r, "WEIR.REFUND mixed a 1");
    send(&r, "WEIR.PEEK mixed a");
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "-ERR request 1: its policy has another engine than the policies before it: use one "
               "engine for all, or separate requests\r\n"
               "-ERR reservations need a policy with engine: local; with this engine, take the "
               "maximum and refund the unused part\r\n"
               "-ERR the server is gone\r\n"
               "-ERR the server is gone\r\n"
               "-ERR the server is gone\r\n"
               "-ERR the server is gone\r\n"
               "-ERR the server is gone\r\n"
               "-ERR request 1: the server is gone\r\n"
               "-ERR leaky-queue and count-denied policies do not support refunds\r\n"
               "-ERR the policy's engine does not support this policy\r\n");
    r.redis->status = WEIR_E_BUSY;
    r.redis->reason = NULL;
    send(&r, "WEIR.TAKE far a");
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "-ERR busy, try again later\r\n");
    rig_close(&r);
}

/* An engine reports what the state counts if it can, to those who see it. */
static void engines_report_figures(void **unused)
{
    (void)unused;
    static rig r;
    rig_open(&r, true);
    r.redis->immediate = r.redis->reports_next = true;
    send(&r, "WEIR.TAKE look a");
    send(&r, "WEIR.PEEK look a");
    send(&r, "WEIR.PEEK look a WITHNAMES");
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:60000\r\n:0\r\n"
               "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:60000\r\n:0\r\n"
               "*22\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:1\r\n$9\r\nremaining\r\n:0\r\n"
               "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:60000\r\n"
               "$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:60000\r\n"
               "$6\r\npolicy\r\n$4\r\nlook\r\n$5\r\nlayer\r\n:0\r\n"
               "$5\r\ncount\r\n:1\r\n$15\r\nwindow_start_ms\r\n:1767225600000\r\n");
    r.redis->reports_next = false;
    send(&r, "WEIR.RESET look a");
    send(&r, "WEIR.PEEK look a WITHNAMES");
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "+OK\r\n"
               "*18\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:1\r\n$9\r\nremaining\r\n:1\r\n"
               "$14\r\nretry_after_ms\r\n:0\r\n$14\r\nreset_after_ms\r\n:0\r\n"
               "$8\r\ndelay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:0\r\n"
               "$6\r\npolicy\r\n$4\r\nlook\r\n$5\r\nlayer\r\n:0\r\n");
    rig_close(&r);
}

/* A client disconnects while its request is in flight, after any byte of the next request. */
static void clients_disconnect(void **unused)
{
    (void)unused;
    static rig r;
    static const char requests[] = "WEIR.TAKE far a\r\nWEIR.TAKE mixed 'b'\r\nWEIR.PEEK far a\r\n"
                                   "WEIR.TAKEALL 2 far a 1 look b 1\r\nCL.THROTTLE k 1 1 60\r\n"
                                   "WEIR.EXPLAIN far a\r\nWEIR.CHECK 'gcra 1/s' a\r\n";
    for (size_t len = 1; len < sizeof requests; len++) {
        rig_open(&r, true);
        r.random = (uint32_t)len;
        weir_buffer_append(&r.in, requests, len);
        while (run(&r) == WEIR_SESSION_PENDING && pick(&r, 6) > 0) {
            if (pick(&r, 2))
                complete_all(&r);
            if (pick(&r, 4) == 0)
                set_rules(&r, true);
        }
        rig_close(&r);
    }
}

static void rules_change_while_it_waits(void **unused)
{
    (void)unused;
    static rig r;
    rig_open(&r, true);
    send(&r, "WEIR.TAKE far a");
    send(&r, "WEIR.CHECK 'fixed-window 2/m' a");
    send(&r, "WEIR.EXPLAIN far vip-1");
    assert_int_equal(run(&r), WEIR_SESSION_PENDING);
    set_rules(&r, false);
    complete_all(&r);
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "*6\r\n:1\r\n:4\r\n:3\r\n:0\r\n:1000\r\n:0\r\n"
               "*6\r\n:1\r\n:2\r\n:1\r\n:0\r\n:60000\r\n:0\r\n"
               "*6\r\n$12\r\npolicy   far\r\n$14\r\nkey      vip-1\r\n"
               "$26\r\nlimit    gcra 1/s burst 40\r\n$38\r\n         because of the override "
               "vip-*\r\n$28\r\nstate    40 of 40 free; full\r\n"
               "$12\r\nnext     now\r\n");
    send(&r, "WEIR.TAKE far a"); /* the policy is local now */
    assert_int_equal(run(&r), WEIR_SESSION_READ);
    expect(&r, "*6\r\n:1\r\n:4\r\n:3\r\n:0\r\n:1000\r\n:0\r\n");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_those_of_a_local_daemon),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(errors_name_the_remedy),
        cmocka_unit_test(engines_report_figures),
        cmocka_unit_test(clients_disconnect),
        cmocka_unit_test(rules_change_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
