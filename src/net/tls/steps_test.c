/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs of a TLS session, one by one: how often the inner session runs in each, what stays in the
 * buffers, and failures inside of OpenSSL and of memory. */

#include "net/tls/server_kit_test.h"

/* An inner session that consumes some bytes in each run and returns the next step of a script. */
static struct {
    weir_session_step step;
    size_t bytes; /* that a run consumes */
    const char *reply;
    int runs;
} script;

static void scripted_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    (void)session;
    (void)ctx;
    (void)wake;
    (void)wake_ctx;
    script.runs = 0;
}

static weir_session_step scripted_run(void *session, weir_buffer *in, weir_buffer *out,
                                      size_t out_pause, int64_t now_ns)
{
    (void)session;
    (void)out_pause;
    (void)now_ns;
    size_t len = weir_buffer_len(in);
    script.runs++;
    weir_buffer_consume(in, script.bytes < len ? script.bytes : len);
    if (script.reply && len > 0)
        put(out, script.reply);
    return len > 0 ? script.step : (weir_session_step){.next = WEIR_SESSION_READ};
}

static const weir_protocol scripted = {
    .session_size = 8, .open = scripted_open, .run = scripted_run};

/* Puts what the client has written into the input, and runs the session once. */
static weir_session_next run_once(pair *p)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(p->to, &bytes);
    weir_buffer_append(&p->in, bytes, (size_t)len);
    (void)BIO_reset(p->to);
    script.runs = 0;
    p->step = p->protocol->outer.run(p->session, &p->in, &p->out, OUT_PAUSE, p->now_ns);
    return p->step.next;
}

/* Without output, the inner session runs again at once if it can continue. */
static void check_inner_runs(void **unused)
{
    (void)unused;
    static const struct {
        weir_session_next step;
        int64_t wait_ns; /* from now on */
        size_t bytes;    /* of three, in a run */
        const char *reply;
        int runs;
        weir_session_next result;
    } rows[] = {
        {WEIR_SESSION_AGAIN, 0, 1, NULL, 4, WEIR_SESSION_READ},
        {WEIR_SESSION_AGAIN, 0, 0, NULL, 1, WEIR_SESSION_AGAIN},
        {WEIR_SESSION_AGAIN, 0, 1, "x", 1, WEIR_SESSION_AGAIN},
        {WEIR_SESSION_WAIT, 0, 1, NULL, 4, WEIR_SESSION_READ},
        {WEIR_SESSION_WAIT, -1, 1, NULL, 4, WEIR_SESSION_READ},
        {WEIR_SESSION_WAIT, 1, 1, NULL, 1, WEIR_SESSION_WAIT},
        {WEIR_SESSION_WAIT, 0, 0, NULL, 1, WEIR_SESSION_WAIT},
        {WEIR_SESSION_READ, 0, 1, NULL, 1, WEIR_SESSION_READ},
        {WEIR_SESSION_PENDING, 0, 1, NULL, 1, WEIR_SESSION_PENDING},
        {WEIR_SESSION_CLOSE, 0, 1, NULL, 1, WEIR_SESSION_CLOSE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scene s;
        open_scene_for(&s, &scripted, NULL, NULL, &(client_options){0});
        assert_true(shake_hands(&s.pair));
        script.step =
            (weir_session_step){.next = rows[i].step, .until_ns = s.pair.now_ns + rows[i].wait_ns};
        script.bytes = rows[i].bytes;
        script.reply = rows[i].reply;
        write_text(&s.pair, "xyz");
        assert_int_equal(run_once(&s.pair), rows[i].result);
        assert_int_equal(script.runs, rows[i].runs);
        assert_int_equal(weir_buffer_len(&s.pair.out) > 0,
                         rows[i].reply || rows[i].step == WEIR_SESSION_CLOSE);
        close_scene(&s);
    }
}

/* Of many records, those are decrypted that a session may hold. Without replies, the others follow
 * in the same run; with replies, in the next one. */
static void check_records_of_a_run(void **unused)
{
    (void)unused;
    enum { RECORDS = 10 };
    for (int replies = 0; replies <= 1; replies++) {
        scene s;
        open_scene_for(&s, &scripted, NULL, NULL, &(client_options){0});
        assert_true(shake_hands(&s.pair));
        s.protocol.request_max = 7; /* two records of four bytes exceed it */
        script.step = (weir_session_step){.next = WEIR_SESSION_READ};
        script.bytes = 100;
        script.reply = replies ? "x" : NULL;
        for (int i = 0; i < RECORDS; i++)
            write_text(&s.pair, "1234");
        assert_int_equal(run_once(&s.pair), replies ? WEIR_SESSION_AGAIN : WEIR_SESSION_READ);
        assert_int_equal(script.runs, replies ? 1 : RECORDS / 2);
        assert_int_equal(weir_buffer_len(&s.pair.in) == 0, !replies);
        close_scene(&s);
    }
}

/* The last bytes of the server's handshake are sent before the first request is decided. The work
 * of the handshake counts once. */
static void check_end_of_handshake(void **unused)
{
    (void)unused;
    scene s;
    open_scene_for(&s, &scripted, NULL, NULL, &(client_options){.version = TLS1_3_VERSION});
    assert_int_equal(SSL_do_handshake(s.pair.ssl), -1);
    deliver_all(&s.pair);
    assert_int_equal(SSL_do_handshake(s.pair.ssl), 1);
    script.step = (weir_session_step){.next = WEIR_SESSION_READ};
    script.bytes = 100;
    script.reply = NULL;
    write_text(&s.pair, "x");
    assert_int_equal(run_once(&s.pair), WEIR_SESSION_AGAIN);
    assert_int_equal(script.runs, 0);
    assert_int_equal(s.pair.step.work, 65536);
    assert_true(weir_buffer_len(&s.pair.out) > 0); /* tickets */
    weir_buffer_clear(&s.pair.out);
    assert_int_equal(run_once(&s.pair), WEIR_SESSION_READ);
    assert_int_equal(script.runs, 1);
    assert_int_equal(s.pair.step.work, 0);
    close_scene(&s);
}

/* A partial record stays in the connection's input, also after complete ones. */
static void check_partial_records(void **unused)
{
    (void)unused;
    for (long missing = 1; missing < 25; missing++) {
        scene s;
        open_scene(&s, &(client_options){.version = TLS1_3_VERSION});
        assert_true(shake_hands(&s.pair));
        write_text(&s.pair, "one\n");
        char *bytes = NULL;
        long one = BIO_get_mem_data(s.pair.to, &bytes);
        write_text(&s.pair, "two\n");
        write_text(&s.pair, "thr\n");
        long len = BIO_get_mem_data(s.pair.to, &bytes);
        assert_int_equal(len, 3 * one);
        assert_true(missing < one);
        deliver(&s.pair, (const uint8_t *)bytes, (size_t)(len - missing));
        assert_int_equal(weir_buffer_len(&s.pair.in), one - missing);
        expect_text(&s.pair, "one\ntwo\n");
        close_scene(&s);
    }
}

/* Errors that are left in OpenSSL's queue by others do no harm, and a session leaves none. */
static void check_error_queue(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){.version = TLS1_2_VERSION});
    for (int i = 0; i < 3; i++) {
        int result = SSL_do_handshake(s.pair.ssl);
        assert_int_equal(result, i < 2 ? -1 : 1);
        if (i == 2)
            write_text(&s.pair, "one\n");
        ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
        deliver_all(&s.pair);
        assert_false(s.pair.closed);
        ERR_clear_error();
    }
    expect_text(&s.pair, "one\n");
    char *bytes = NULL;
    write_text(&s.pair, "two\n");
    long len = BIO_get_mem_data(s.pair.to, &bytes);
    bytes[len - 1] ^= 1;
    deliver_all(&s.pair);
    assert_true(s.pair.closed);
    assert_int_equal(ERR_peek_error(), 0);
    close_scene(&s);
}

/* Without memory for the decrypted bytes, the session closes without a close_notify. */
static void check_no_memory_for_input(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){.version = TLS1_2_VERSION});
    assert_true(shake_hands(&s.pair));
    weir_buffer_free(&s.protocol.in);
    weir_buffer_init(&s.protocol.in, 100);
    write_text(&s.pair, "one\n");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_once(&s.pair), WEIR_SESSION_CLOSE);
        assert_int_equal(weir_buffer_len(&s.pair.out), 0);
    }
    close_scene(&s);
}

/* A session may hold request_max bytes, and those of a record more. */
static void check_room_for_a_request(void **unused)
{
    (void)unused;
    enum { ROOM = 40000, RECORD = 16 << 10 };
    scene s;
    static char text[RECORD];
    open_scene_for(&s, &scripted, NULL, NULL, &(client_options){0});
    assert_true(shake_hands(&s.pair));
    weir_tls_protocol_free(&s.protocol);
    assert_int_equal(weir_tls_protocol_init(&s.protocol, s.server, &scripted, NULL, ROOM), WEIR_OK);
    script.step = (weir_session_step){.next = WEIR_SESSION_READ};
    script.bytes = 0;
    script.reply = NULL;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(SSL_write(s.pair.ssl, text, sizeof text), sizeof text);
        assert_int_equal(run_once(&s.pair), WEIR_SESSION_READ);
        /* two records are fewer bytes, three are more, and the fourth is not decrypted */
        assert_int_equal(weir_buffer_len(&s.pair.in) > 0, i == 3);
    }
    close_scene(&s);
}

/* Without memory for the rest of a request, the session closes without a close_notify. */
static void check_no_memory_for_rest(void **unused)
{
    (void)unused;
    enum { RECORD = 16 << 10 };
    static char text[RECORD];
    scene s;
    s.server = open_tls_server(NULL, NULL);
    assert_int_equal(weir_tls_protocol_init(&s.protocol, s.server, &scripted, NULL, 100), WEIR_OK);
    open_pair(&s.pair, &s.protocol, &(client_options){0}); /* the rest has room for two records */
    weir_buffer_init(&s.protocol.in, 1 << 20);
    s.protocol.request_max = 1 << 18;
    assert_true(shake_hands(&s.pair));
    script.step = (weir_session_step){.next = WEIR_SESSION_READ};
    script.bytes = 0;
    script.reply = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_write(s.pair.ssl, text, sizeof text), sizeof text);
        assert_int_equal(run_once(&s.pair), i < 2 ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE);
    }
    assert_int_equal(weir_buffer_len(&s.pair.out), 0);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_inner_runs),         cmocka_unit_test(check_records_of_a_run),
        cmocka_unit_test(check_end_of_handshake),   cmocka_unit_test(check_partial_records),
        cmocka_unit_test(check_error_queue),        cmocka_unit_test(check_no_memory_for_input),
        cmocka_unit_test(check_room_for_a_request), cmocka_unit_test(check_no_memory_for_rest),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
