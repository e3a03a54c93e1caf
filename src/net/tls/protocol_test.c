/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sessions of the TLS protocol with a client of OpenSSL, in memory: every split of the bytes, every
 * step of an inner session, and clients that are refused. */

#include "net/tls/server_kit_test.h"

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
#define VERSIONS (sizeof versions / sizeof versions[0])

/* ---- bytes ----------------------------------------------------------------------------------- */

static void check_pieces(void **unused)
{
    (void)unused;
    static const size_t pieces[] = {1, 2, 3, 4, 5, 6, 7, 16, 64, 100, 1000, 1 << 20};
    for (size_t i = 0; i < VERSIONS * sizeof pieces / sizeof pieces[0]; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = versions[i % VERSIONS]});
        s.pair.piece = pieces[i / VERSIONS];
        assert_true(shake_hands(&s.pair));
        expect_counts(&s, 1, 0);
        send_text(&s.pair, "one\n");
        expect_text(&s.pair, "one\n");
        write_text(&s.pair, "two\nthr");
        write_text(&s.pair, "ee\n\n");
        deliver_all(&s.pair);
        expect_text(&s.pair, "two\nthree\n\n");
        close_scene(&s);
    }
}

/* The end of the client's handshake and its first requests arrive together, cut at every byte. */
static void check_every_cut(void **unused)
{
    (void)unused;
    for (size_t cut = 0, len = 1; cut <= len; cut++) {
        scene s;
        open_scene(&s, &(client_options){.version = TLS1_3_VERSION});
        assert_int_equal(SSL_do_handshake(s.pair.ssl), -1);
        deliver_all(&s.pair);
        assert_int_equal(SSL_do_handshake(s.pair.ssl), 1);
        write_text(&s.pair, "one\n");
        write_text(&s.pair, "two\n");
        char *bytes = NULL;
        len = (size_t)BIO_get_mem_data(s.pair.to, &bytes);
        deliver(&s.pair, (const uint8_t *)bytes, cut);
        deliver(&s.pair, (const uint8_t *)bytes + cut, len - cut);
        expect_text(&s.pair, "one\ntwo\n");
        assert_int_equal(weir_buffer_len(&s.pair.in), 0);
        close_scene(&s);
    }
}

static void check_big_replies(void **unused)
{
    (void)unused;
    enum { BIG = 3000000 };
    scene s;
    open_scene(&s, &(client_options){0});
    assert_true(shake_hands(&s.pair));
    send_text(&s.pair, "big 3000000\nbig 10\n");
    char *got = calloc(1, BIG + 100);
    size_t have = 0;
    for (int n; (n = SSL_read(s.pair.ssl, got + have, BIG)) > 0;)
        have += (size_t)n;
    assert_int_equal(have, BIG + 1 + 10 + 1);
    assert_int_equal(strspn(got, "x"), BIG);
    assert_true(weir_buffer_memory(&s.protocol.out) < BIG); /* not kept */
    free(got);
    close_scene(&s);

    open_scene(&s, &(client_options){0}); /* too big for a connection's output */
    assert_true(shake_hands(&s.pair));
    send_text(&s.pair, "big 16777215\n");
    assert_true(s.pair.out.failed);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
    close_scene(&s);
    open_scene(&s, &(client_options){0}); /* too big for the inner session's output */
    assert_true(shake_hands(&s.pair));
    send_text(&s.pair, "big 20000000\n");
    assert_true(s.pair.out.failed);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
    close_scene(&s);
}

/* Many records at once, with more decrypted bytes than a session holds: all are answered. */
static void check_many_records(void **unused)
{
    (void)unused;
    enum { MANY = 2000 };
    scene s;
    open_scene(&s, &(client_options){0});
    s.protocol.request_max = 100;
    assert_true(shake_hands(&s.pair));
    for (int i = 0; i < MANY; i++)
        write_text(&s.pair, "a line that is echoed\n");
    deliver_all(&s.pair);
    assert_int_equal(weir_buffer_len(&s.pair.in), 0);
    size_t have = 0;
    char got[4096];
    for (int n; (n = SSL_read(s.pair.ssl, got, sizeof got)) > 0;)
        have += (size_t)n;
    assert_int_equal(have, MANY * strlen("a line that is echoed\n"));
    close_scene(&s);
}

/* A request that never ends: the decrypted bytes are limited, and the rest stays in the input of
 * the connection, which limits it. */
static void check_endless_request(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){0});
    s.protocol.request_max = 50000;
    assert_true(shake_hands(&s.pair));
    char *text = malloc(10001);
    memset(text, 'x', 10000);
    text[10000] = '\0';
    for (int i = 0; i < 100; i++)
        send_text(&s.pair, text);
    assert_true(usage_of(&s).bytes < 200000);
    assert_true(usage_of(&s).mid_request);
    assert_true(weir_buffer_len(&s.pair.in) > 900000);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_READ);
    free(text);
    close_scene(&s);
}

/* ---- the steps of the inner session ---------------------------------------------------------- */

static void check_wait(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){0});
    assert_true(shake_hands(&s.pair));
    s.pair.runs = 0;
    send_text(&s.pair, "one\nwait 5\ntwo\n");
    assert_int_equal(s.pair.runs, 2); /* the reply to "one" is not delayed */
    assert_int_equal(s.pair.step.next, WEIR_SESSION_WAIT);
    assert_int_equal(s.pair.step.until_ns, s.pair.now_ns + 5 * ms_ns);
    expect_text(&s.pair, "one\nwaited\n"); /* a connection would hold the second */
    s.pair.now_ns = s.pair.step.until_ns;
    run_session(&s.pair);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_READ);
    expect_text(&s.pair, "two\n");
    send_text(&s.pair, "until 1 7\nthree\n"); /* no wait: in the past */
    expect_text(&s.pair, "waited\nthree\n");
    close_scene(&s);
}

static void check_close(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = versions[i]});
        assert_true(shake_hands(&s.pair));
        send_text(&s.pair, "one\nclose\ntwo\n");
        assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
        expect_text(&s.pair, "one\nbye\n");
        assert_true(is_closed_properly(&s.pair));
        close_scene(&s);
    }
}

/* The client sends requests and close_notify at once. */
static void check_client_closes(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = versions[i]});
        assert_true(shake_hands(&s.pair));
        write_text(&s.pair, "one\nwait 5\ntwo\nhalf a line");
        assert_int_equal(SSL_shutdown(s.pair.ssl), 0);
        deliver_all(&s.pair);
        assert_int_equal(s.pair.step.next, WEIR_SESSION_WAIT);
        s.pair.now_ns = s.pair.step.until_ns;
        run_session(&s.pair);
        assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
        expect_text(&s.pair, "one\nwaited\ntwo\n");
        assert_true(is_closed_properly(&s.pair));
        close_scene(&s);
    }
}

/* What follows close_notify is not read. */
static void check_records_after_close(void **unused)
{
    static const uint8_t record[] = {SSL3_RT_APPLICATION_DATA, 3, 3, 0, 1, 0};
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = versions[i]});
        assert_true(shake_hands(&s.pair));
        assert_int_equal(SSL_shutdown(s.pair.ssl), 0);
        assert_int_equal(BIO_write(s.pair.to, record, sizeof record), sizeof record);
        deliver_all(&s.pair);
        assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
        assert_true(is_closed_properly(&s.pair));
        close_scene(&s);
    }
}

/* An inner session that waits for an engine, holds memory and is polled. */
typedef struct busy_session {
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
    bool asked, answered, polled, stopping;
} busy_session;

static busy_session *busy;

static void busy_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    assert_ptr_equal(ctx, &lines_context);
    busy = session;
    assert_false(busy->asked || busy->wake); /* zeroed */
    busy->wake = wake;
    busy->wake_ctx = wake_ctx;
}

static weir_session_step busy_run(void *session, weir_buffer *in, weir_buffer *out,
                                  size_t out_pause, int64_t now_ns)
{
    busy_session *b = session;
    (void)out_pause;
    (void)now_ns;
    b->asked |= weir_buffer_len(in) > 0;
    weir_buffer_consume(in, weir_buffer_len(in));
    if (b->stopping) {
        put(out, "stopped\n");
        return (weir_session_step){.next = WEIR_SESSION_CLOSE};
    }
    if (b->asked && !b->answered)
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    if (b->asked)
        put(out, "answer\n");
    b->asked = b->answered = false;
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static weir_session_usage busy_usage(const void *session)
{
    const busy_session *b = session;
    return (weir_session_usage){.bytes = 12345, .mid_request = b->asked};
}

static bool busy_poll(void *session, int64_t now_ns, bool stopping)
{
    busy_session *b = session;
    assert_int_equal(now_ns, 77);
    b->polled = true;
    b->stopping = stopping;
    return stopping;
}

static const weir_protocol busy_protocol = {.session_size = sizeof(busy_session),
                                            .open = busy_open,
                                            .run = busy_run,
                                            .usage = busy_usage,
                                            .poll = busy_poll};

static void check_pending(void **unused)
{
    (void)unused;
    scene s;
    open_scene_for(&s, &busy_protocol, NULL, NULL, &(client_options){0});
    assert_true(shake_hands(&s.pair));
    size_t idle = usage_of(&s).bytes;
    assert_true(idle > 12345);
    assert_false(usage_of(&s).mid_request);
    send_text(&s.pair, "x");
    assert_int_equal(s.pair.step.next, WEIR_SESSION_PENDING);
    assert_true(usage_of(&s).mid_request);
    expect_text(&s.pair, "");
    run_session(&s.pair);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_PENDING);
    busy->answered = true;
    busy->wake(busy->wake_ctx);
    assert_int_equal(s.pair.wakes, 1);
    run_session(&s.pair);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_READ);
    expect_text(&s.pair, "answer\n");
    assert_int_equal(usage_of(&s).bytes, idle);
    close_scene(&s);
}

static void check_poll(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){0});
    assert_null(s.protocol.outer.poll); /* as of the inner protocol */
    close_scene(&s);

    open_scene_for(&s, &busy_protocol, NULL, NULL, &(client_options){0});
    bool (*poll_outer)(void *, int64_t, bool) = s.protocol.outer.poll;
    assert_false(poll_outer(s.pair.session, 77, false)); /* the handshake is incomplete */
    assert_false(busy->polled);
    assert_true(shake_hands(&s.pair));
    assert_false(poll_outer(s.pair.session, 77, false));
    assert_true(busy->polled);
    assert_true(poll_outer(s.pair.session, 77, true));
    run_session(&s.pair);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
    expect_text(&s.pair, "stopped\n");
    assert_true(is_closed_properly(&s.pair));
    close_scene(&s);

    open_scene_for(&s, &busy_protocol, NULL, NULL, &(client_options){0});
    assert_true(s.protocol.outer.poll(s.pair.session, 77, true));
    run_session(&s.pair);
    assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
    assert_false(busy->polled);
    close_scene(&s);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* A handshake is a request that is incomplete from the beginning. */
static void check_usage(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){0});
    assert_true(usage_of(&s).mid_request);
    assert_int_equal(usage_of(&s).bytes, 14 << 10);
    assert_true(SSL_do_handshake(s.pair.ssl) < 1);
    deliver_all(&s.pair);
    assert_true(usage_of(&s).mid_request);
    assert_int_equal(usage_of(&s).bytes, 43 << 10); /* half a handshake */
    assert_true(shake_hands(&s.pair));
    assert_true(s.protocol.outer.is_new(s.pair.session)); /* no request has begun */
    size_t idle = usage_of(&s).bytes;
    assert_int_equal(idle, 14 << 10);
    assert_true(weir_buffer_memory(&s.protocol.in) > 0); /* kept for other sessions */
    assert_false(usage_of(&s).mid_request);
    send_text(&s.pair, "h");
    assert_false(s.protocol.outer.is_new(s.pair.session));
    assert_true(usage_of(&s).mid_request);
    send_text(&s.pair, "alf a ");
    assert_true(usage_of(&s).mid_request);
    assert_true(usage_of(&s).bytes > idle);
    send_text(&s.pair, "line\n");
    expect_text(&s.pair, "half a line\n");
    assert_false(usage_of(&s).mid_request);
    assert_false(s.protocol.outer.is_new(s.pair.session));
    assert_int_equal(usage_of(&s).bytes, idle);
    write_text(&s.pair, "a record in two parts\n");
    char *bytes = NULL;
    long len = BIO_get_mem_data(s.pair.to, &bytes);
    deliver(&s.pair, (const uint8_t *)bytes, (size_t)len - 1);
    assert_int_equal(weir_buffer_len(&s.pair.in), len - 1); /* the connection sees it */
    assert_null(s.protocol.outer.refusal);                  /* these would be plain text */
    assert_null(s.protocol.outer.overload);
    assert_null(s.protocol.outer.timeout);
    close_scene(&s);
}

static void check_client_leaves(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){0});
    net_tls_server *server = s.server;
    SSL_do_handshake(s.pair.ssl);
    deliver_all(&s.pair);
    close_pair(&s.pair);
    assert_int_equal(net_tls_server_stats_get(server).failures, 1);
    weir_tls_protocol_free(&s.protocol);
    net_tls_server_close(server);
}

/* ---- clients that are refused ---------------------------------------------------------------- */

static void check_plain_text(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n",
                                        "*1\r\n$4\r\nPING\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "\x16\x02\x01",
                                        "\x16\x02",
                                        "\x16",
                                        "\x16\x03\x01\xff\xff",
                                        "\x17\x03\x03\x48\x01"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        scene s;
        open_scene(&s, &(client_options){0});
        deliver(&s.pair, (const uint8_t *)texts[i], strlen(texts[i]));
        bool partial = strlen(texts[i]) == 1;
        if (!s.pair.closed)
            assert_int_equal(weir_buffer_len(&s.pair.in), partial);
        if (!partial && !s.pair.closed) /* OpenSSL reads the head of a record first */
            deliver(&s.pair, (const uint8_t *)"\1\1\1\1\1\1", 6);
        assert_int_equal(s.pair.closed, !partial);
        expect_counts(&s, 0, !partial);
        char *sent = NULL;
        long len = BIO_get_mem_data(s.pair.from, &sent);
        assert_true(len == 0 || sent[0] == SSL3_RT_ALERT);
        run_session(&s.pair);
        assert_int_equal(s.pair.step.next, partial ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE);
        close_scene(&s);
    }
}

/* A record of an unknown type is left to OpenSSL at once. */
static void check_unknown_records(void **unused)
{
    (void)unused;
    static const uint8_t types[] = {0, SSL3_RT_CHANGE_CIPHER_SPEC - 1,
                                    SSL3_RT_APPLICATION_DATA + 1};
    for (size_t i = 0; i < sizeof types; i++) {
        scene s;
        open_scene(&s, &(client_options){0});
        deliver(&s.pair, (const uint8_t[]){types[i], SSL3_VERSION_MAJOR}, 2);
        assert_int_equal(weir_buffer_len(&s.pair.in), 0);
        close_scene(&s);
    }
}

static void check_corrupt_record(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = versions[i]});
        assert_true(shake_hands(&s.pair));
        write_text(&s.pair, "one\n");
        char *bytes = NULL;
        long len = BIO_get_mem_data(s.pair.to, &bytes);
        bytes[len - 1] ^= 1;
        deliver_all(&s.pair);
        assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
        assert_int_equal(received_alert(&s.pair), SSL_AD_BAD_RECORD_MAC);
        run_session(&s.pair);
        assert_int_equal(s.pair.step.next, WEIR_SESSION_CLOSE);
        close_scene(&s);
    }
}

/*  alert  0: any. */
static void expect_refused(const char *ca, const char *alpn, const client_options *o, int alert)
{
    scene s;
    open_scene_for(&s, &lines, ca, alpn, o);
    if (shake_hands(&s.pair)) /* with TLS 1.3 the client completes it before the server */
        send_text(&s.pair, "one\n");
    assert_true(s.pair.closed);
    expect_counts(&s, 0, 1);
    int received = received_alert(&s.pair);
    assert_true(received > 0);
    if (alert > 0)
        assert_int_equal(received, alert);
    close_scene(&s);
}

static void expect_accepted(const char *ca, const char *alpn, const client_options *o,
                            const char *chosen)
{
    scene s;
    const unsigned char *name = NULL;
    unsigned len = 0;
    open_scene_for(&s, &lines, ca, alpn, o);
    assert_true(shake_hands(&s.pair));
    send_text(&s.pair, "one\n");
    expect_text(&s.pair, "one\n");
    SSL_get0_alpn_selected(s.pair.ssl, &name, &len);
    assert_int_equal(len, strlen(chosen));
    assert_memory_equal(len > 0 ? (const char *)name : "", chosen, len);
    close_scene(&s);
}

static void check_versions(void **unused)
{
    (void)unused;
    expect_refused(NULL, NULL, &(client_options){.version = TLS1_1_VERSION},
                   SSL_AD_PROTOCOL_VERSION);
}

/* Keys are exchanged in three groups, whatever else a client offers. */
static void check_groups(void **unused)
{
    (void)unused;
    static const struct {
        const char *groups;
        bool good;
    } rows[] = {{"X25519", true},     {"P-256", true}, {"P-384", true},
                {"P-521", false},     {"X448", false}, {"P-521:X448:P-384", true},
                {"P-521:X448", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scene s;
        open_scene(&s, &(client_options){.version = TLS1_3_VERSION});
        assert_int_equal(SSL_set1_groups_list(s.pair.ssl, rows[i].groups), 1);
        assert_int_equal(shake_hands(&s.pair), rows[i].good);
        expect_counts(&s, rows[i].good, !rows[i].good);
        close_scene(&s);
    }
}

static void check_alpn(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        int version = versions[i];
        client_options both = {.version = version, .alpn = "\2h2\10http/1.1"};
        client_options http = {.version = version, .alpn = "\10http/1.1"};
        client_options none = {.version = version};
        expect_accepted(NULL, "h2", &both, "h2");
        expect_accepted(NULL, "http/1.1", &both, "http/1.1");
        expect_accepted(NULL, "h2", &none, "");
        expect_accepted(NULL, NULL, &both, "");
        expect_refused(NULL, "h2", &http, SSL_AD_NO_APPLICATION_PROTOCOL);
    }
}

static void check_client_certificates(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        int version = versions[i];
        int missing = version == TLS1_3_VERSION ? 116 : SSL_AD_HANDSHAKE_FAILURE;
        expect_accepted(k.ca, NULL, &(client_options){.version = version, .pair = k.client}, "");
        expect_accepted(NULL, NULL, &(client_options){.version = version, .pair = k.client}, "");
        expect_refused(k.ca, NULL, &(client_options){.version = version}, missing);
        expect_refused(k.ca, NULL, &(client_options){.version = version, .pair = k.stranger}, 0);
    }
}

/* ---- sessions that continue ------------------------------------------------------------------ */

static SSL_SESSION *ticket_of(scene *s)
{
    assert_true(shake_hands(&s->pair));
    send_text(&s->pair, "one\n");
    expect_text(&s->pair, "one\n");
    SSL_SESSION *session = SSL_get1_session(s->pair.ssl);
    assert_true(SSL_SESSION_is_resumable(session));
    SSL_shutdown(s->pair.ssl);
    return session;
}

static bool resumes(scene *s, SSL_SESSION *session)
{
    pair p;
    weir_tls_protocol other_loop;
    assert_int_equal(
        weir_tls_protocol_init(&other_loop, s->server, &lines, &lines_context, REQUEST_MAX),
        WEIR_OK);
    const client_options same = {
        .version = SSL_version(s->pair.ssl), .resumes = session, .pair = k.client};
    open_pair(&p, &other_loop, &same);
    assert_true(shake_hands(&p));
    send_text(&p, "two\n");
    expect_text(&p, "two\n");
    bool resumed = SSL_session_reused(p.ssl);
    close_pair(&p);
    weir_tls_protocol_free(&other_loop);
    return resumed;
}

/* A client resumes its session on another loop, with its certificate; after a reload it does a full
 * handshake. */
static void check_tickets(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < VERSIONS; i++) {
        scene s;
        net_tls_failure why;
        open_scene_for(&s, &lines, k.ca, NULL,
                       &(client_options){.version = versions[i], .pair = k.client});
        SSL_SESSION *session = ticket_of(&s);
        assert_true(resumes(&s, session));
        assert_int_equal(net_tls_server_reload(s.server, NULL, &why), WEIR_OK);
        assert_false(resumes(&s, session));
        SSL_SESSION_free(session);
        close_scene(&s);
    }
}

/* A client changes its key, and asks the server to do so, too. */
static void check_key_update(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){.version = TLS1_3_VERSION});
    assert_true(shake_hands(&s.pair));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(SSL_key_update(s.pair.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        send_text(&s.pair, "one\n");
        expect_text(&s.pair, "one\n");
    }
    close_scene(&s);
}

static void check_renegotiation(void **unused)
{
    (void)unused;
    scene s;
    open_scene(&s, &(client_options){.version = TLS1_2_VERSION});
    assert_true(shake_hands(&s.pair));
    assert_int_equal(SSL_renegotiate(s.pair.ssl), 1);
    SSL_do_handshake(s.pair.ssl);
    deliver_all(&s.pair);
    expect_counts(&s, 1, 0);
    assert_int_equal(received_alert(&s.pair) == 0 || s.pair.closed, 1);
    assert_int_equal(SSL_do_handshake(s.pair.ssl) == 1, 0);
    close_scene(&s);
}

/* A certificate is replaced: the open session continues, and a new one has the new certificate. */
static void check_replaced_certificate(void **unused)
{
    (void)unused;
    scene s;
    pair late;
    net_tls_failure why = {.text = ""};
    const net_tls_server_files second = {k.server2, k.server2, NULL};
    open_scene(&s, &(client_options){0});
    assert_true(shake_hands(&s.pair));
    assert_int_equal(net_tls_server_reload(s.server, &second, &why), WEIR_OK);
    open_pair(&late, &s.protocol, &(client_options){0});
    assert_true(shake_hands(&late));
    X509 *first = SSL_get1_peer_certificate(s.pair.ssl), *now = SSL_get1_peer_certificate(late.ssl);
    assert_int_not_equal(X509_cmp(first, now), 0);
    X509_free(first);
    X509_free(now);
    send_text(&s.pair, "one\n");
    send_text(&late, "two\n");
    expect_text(&s.pair, "one\n");
    expect_text(&late, "two\n");
    close_pair(&late);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_pieces),
        cmocka_unit_test(check_every_cut),
        cmocka_unit_test(check_big_replies),
        cmocka_unit_test(check_many_records),
        cmocka_unit_test(check_endless_request),
        cmocka_unit_test(check_wait),
        cmocka_unit_test(check_close),
        cmocka_unit_test(check_client_closes),
        cmocka_unit_test(check_records_after_close),
        cmocka_unit_test(check_pending),
        cmocka_unit_test(check_poll),
        cmocka_unit_test(check_usage),
        cmocka_unit_test(check_client_leaves),
        cmocka_unit_test(check_plain_text),
        cmocka_unit_test(check_unknown_records),
        cmocka_unit_test(check_corrupt_record),
        cmocka_unit_test(check_versions),
        cmocka_unit_test(check_groups),
        cmocka_unit_test(check_alpn),
        cmocka_unit_test(check_client_certificates),
        cmocka_unit_test(check_tickets),
        cmocka_unit_test(check_key_update),
        cmocka_unit_test(check_renegotiation),
        cmocka_unit_test(check_replaced_certificate),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
