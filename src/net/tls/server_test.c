/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Certificates of TLS listeners: files that cannot be used, and files that change. A server with
 * TLS and plain listeners, its timeouts, and a certificate that is replaced under load. */

#include "net/tls/server_kit_test.h"

#include <fcntl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <time.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes a key with a passphrase. */
static void write_encrypted(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_int_equal(
        PEM_write_PKCS8PrivateKey(file, k.ours.key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL), 1);
    fclose(file);
}

/* A certificate and a key of RSA; those of the kit are of P-256. */
static void write_rsa(const char *path)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    X509 *cert = make_cert(&k.ours, key, "someone", "DNS:weir.test");
    write_pem(path, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void check_bad_files(void **unused)
{
    (void)unused;
    char nowhere[96], encrypted[96], rsa[96];
    name_file(nowhere, "nowhere");
    name_file(encrypted, "encrypted");
    name_file(rsa, "rsa");
    write_encrypted(encrypted);
    write_rsa(rsa);
    const struct {
        net_tls_server_files files;
        net_tls_file file;
        const char *error;
    } bad[] = {
        {{nowhere, k.server, NULL}, NET_TLS_CERT, "cannot load the certificate %s: No such file"},
        {{k.bad, k.server, NULL}, NET_TLS_CERT, "cannot load the certificate %s: it is not in PEM"},
        {{k.server, nowhere, NULL}, NET_TLS_KEY, "cannot load the private key %s: No such file"},
        {{k.server, k.bad, NULL}, NET_TLS_KEY, "cannot load the private key %s: it is not in PEM"},
        {{k.server, k.server2, NULL},
         NET_TLS_KEY,
         "cannot load the private key %s: it does not belong to the certificate"},
        {{k.server, rsa, NULL},
         NET_TLS_KEY,
         "cannot load the private key %s: it does not belong to the certificate"},
        {{rsa, k.server, NULL},
         NET_TLS_KEY,
         "cannot load the private key %s: it does not belong to the certificate"},
        {{k.server, encrypted, NULL},
         NET_TLS_KEY,
         "cannot load the private key %s: it has a passphrase; expected a key without one"},
        {{k.server, k.server, nowhere},
         NET_TLS_CA,
         "cannot load the trusted certificates %s: No such file"},
        {{k.server, k.server, k.bad}, NET_TLS_CA, "cannot load the trusted certificates %s: no "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const net_tls_server_files *f = &bad[i].files;
        const char *path = bad[i].file == NET_TLS_CERT  ? f->cert
                           : bad[i].file == NET_TLS_KEY ? f->key
                                                        : f->client_ca;
        char expected[256];
        net_tls_server *s = NULL;
        net_tls_failure why = {.text = ""};
        snprintf(expected, sizeof expected, bad[i].error, path);
        ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR); /* of an earlier failure elsewhere */
        assert_int_equal(net_tls_server_open(&s, f, NULL, &why), WEIR_E_IO);
        assert_int_equal(ERR_peek_error(), 0);
        assert_null(s);
        assert_int_equal(why.file, bad[i].file);
        why.text[strlen(expected)] = '\0';
        assert_string_equal(why.text, expected);
    }
    unlink(encrypted);
    unlink(rsa);
}

static void copy_file(const char *from, const char *to)
{
    char text[8192];
    FILE *file = fopen(from, "r");
    size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    write_file(to, text);
}

/* Sets the time of a file, so that a second version within one tick of the clock differs. */
static void date_file(const char *path, time_t seconds)
{
    const struct timespec times[] = {{seconds, 0}, {seconds, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The server's certificate as a new client sees it. */
static X509 *presented(net_tls_server *server)
{
    weir_tls_protocol protocol;
    pair p;
    loop_context context = {0};
    assert_int_equal(weir_tls_protocol_init(&protocol, server, &lines, &context, REQUEST_MAX),
                     WEIR_OK);
    open_pair(&p, &protocol, &(client_options){0});
    assert_true(shake_hands(&p));
    X509 *cert = SSL_get1_peer_certificate(p.ssl);
    close_pair(&p);
    weir_tls_protocol_free(&protocol);
    return cert;
}

static bool presents(net_tls_server *server, const char *path)
{
    FILE *file = fopen(path, "r");
    X509 *expected = PEM_read_X509(file, NULL, NULL, NULL), *got = presented(server);
    fclose(file);
    bool same = X509_cmp(expected, got) == 0;
    X509_free(expected);
    X509_free(got);
    return same;
}

static void check_changed_files(void **unused)
{
    (void)unused;
    char live[96], next[96], link_path[96];
    name_file(live, "live");
    name_file(next, "next");
    name_file(link_path, "link");
    copy_file(k.server, live);
    date_file(live, 1000);
    assert_int_equal(symlink("live.pem", link_path), 0);
    net_tls_server *s = NULL;
    net_tls_failure why = {.text = ""};
    const net_tls_server_files files = {link_path, link_path, k.ca}, others = {live, live, NULL};
    assert_int_equal(net_tls_server_open(&s, &files, NULL, &why), WEIR_OK);
    assert_true(net_tls_server_has(s, &files));
    assert_false(net_tls_server_has(s, &others));
    assert_false(net_tls_server_is_stale(s));

    copy_file(k.bad, live); /* rewritten: invalid */
    date_file(live, 2000);
    assert_true(net_tls_server_is_stale(s));
    assert_int_equal(net_tls_server_reload(s, NULL, &why), WEIR_E_IO);
    assert_false(net_tls_server_is_stale(s)); /* it is not loaded again until it changes */

    copy_file(k.server2, next); /* renamed */
    date_file(next, 2000);
    assert_int_equal(rename(next, live), 0);
    assert_true(net_tls_server_is_stale(s));
    assert_int_equal(net_tls_server_reload(s, &others, &why), WEIR_OK);
    assert_true(presents(s, k.server2));
    assert_int_equal(net_tls_server_reload(s, &files, &why), WEIR_OK);

    copy_file(k.server, next); /* the link was changed */
    unlink(link_path);
    assert_int_equal(symlink("next.pem", link_path), 0);
    assert_true(net_tls_server_is_stale(s));
    unlink(link_path);
    assert_true(net_tls_server_is_stale(s)); /* absent */
    assert_int_equal(net_tls_server_reload(s, NULL, &why), WEIR_E_IO);
    assert_int_equal(net_tls_server_reload(s, &(net_tls_server_files){next, next, NULL}, &why),
                     WEIR_OK);
    assert_true(presents(s, k.server));
    net_tls_server_close(s);
    unlink(live);
    unlink(next);
}

static void check_expiry(void **unused)
{
    (void)unused;
    net_tls_server *s = open_tls_server(NULL, NULL);
    int64_t left_s = net_tls_server_stats_get(s).not_after_s - port_now_ns() / s_ns;
    assert_in_range(left_s, 86400 - 120, 86400); /* make_cert() gives it a day */
    X509 *cert = presented(s);
    struct tm tm;
    assert_int_equal(ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm), 1);
    assert_int_equal(net_tls_server_stats_get(s).not_after_s, timegm(&tm));
    X509_free(cert);
    net_tls_server_close(s);
    net_tls_server_close(NULL);
}

/* What a session cannot do, and what it prefers. */
static void check_configuration(void **unused)
{
    static const uint64_t options = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA;
    (void)unused;
    net_tls_server *s = open_tls_server(NULL, NULL);
    SSL *ssl = net_tls_server_accept(s);
    assert_true((SSL_get_options(ssl) & options) == options);
    assert_true(SSL_get_mode(ssl) & SSL_MODE_RELEASE_BUFFERS);
    assert_int_equal(SSL_CTX_get_session_cache_mode(SSL_get_SSL_CTX(ssl)), SSL_SESS_CACHE_OFF);
    assert_int_equal(SSL_get_min_proto_version(ssl), TLS1_2_VERSION);
    assert_int_equal(SSL_get_verify_mode(ssl), SSL_VERIFY_NONE);
    SSL_free(ssl);
    net_tls_server_close(s);
}

/* ---- a server -------------------------------------------------------------------------------- */

/* A client of OpenSSL on a socket. */
typedef struct caller {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} caller;

static void call(caller *c, const char *address, const client_options *o)
{
    c->ctx = client_context(o);
    c->fd = connect_to(address);
    c->ssl = SSL_new(c->ctx);
    SSL_set_fd(c->ssl, c->fd);
    SSL_set_options(c->ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static void hang_up(caller *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    close(c->fd);
    ERR_clear_error();
}

static void ask_tls(caller *c, const char *text)
{
    char got[256] = "";
    size_t len = strlen(text), have = 0;
    assert_int_equal(SSL_write(c->ssl, text, (int)len), len);
    for (int n; have < len && (n = SSL_read(c->ssl, got + have, (int)(len - have))) > 0;)
        have += (size_t)n;
    assert_string_equal(got, text);
}

/* Prepares a server whose first listener is plain, and whose second uses TLS. */
static net_tls_server *prepare_tls(fixture *f, unsigned loops)
{
    net_tls_server *tls = open_tls_server(NULL, NULL);
    prepare(f, loops);
    f->listens[1] = (weir_listen_address){.address = "127.0.0.1:0", .protocol = &lines, .tls = tls};
    f->options.listens_len = 2;
    return tls;
}

static const char *tls_address(const fixture *f)
{
    return weir_server_address(f->server, 1);
}

static void check_server(void **unused)
{
    (void)unused;
    fixture f;
    net_tls_server *tls = prepare_tls(&f, 2);
    start(&f);
    int plain = client(&f);
    ask(plain, "plain\n");
    caller c;
    call(&c, tls_address(&f), &(client_options){0});
    assert_int_equal(SSL_connect(c.ssl), 1);
    ask_tls(&c, "one\ntwo\n");
    assert_true(weir_server_stats_get(f.server).buffered > 0); /* the TLS session */
    assert_int_equal(SSL_write(c.ssl, "big 5000000\n", 12), 12);
    char got[16384];
    size_t have = 0;
    for (int n; have < 5000001 && (n = SSL_read(c.ssl, got, sizeof got)) > 0;)
        have += (size_t)n;
    assert_int_equal(have, 5000001);
    assert_int_equal(SSL_write(c.ssl, "close\n", 6), 6);
    assert_int_equal(SSL_read(c.ssl, got, sizeof got), 4);
    assert_int_equal(SSL_get_error(c.ssl, SSL_read(c.ssl, got, sizeof got)), SSL_ERROR_ZERO_RETURN);
    hang_up(&c);
    close(plain);
    stop(&f);
    net_tls_server_close(tls);
}

/* Plain text on the TLS port gets no reply: the client could take it for the reply to a request. */
static void check_wrong_port(void **unused)
{
    (void)unused;
    fixture f;
    net_tls_server *tls = prepare_tls(&f, 1);
    start(&f);
    int fd = connect_to(tls_address(&f));
    say(fd, "GET / HTTP/1.1\r\n\r\n");
    expect_end(fd);
    stop(&f);
    assert_int_equal(net_tls_server_stats_get(tls).failures, 1);
    net_tls_server_close(tls);
}

/* A handshake that does not end, also without a single byte, is closed by limits.request, and sends
 * nothing in plain text. */
static void check_slow_handshake(void **unused)
{
    (void)unused;
    fixture f;
    net_tls_server *tls = prepare_tls(&f, 1);
    f.options.limits.request_ns = 200 * ms_ns;
    start(&f);
    int silent = connect_to(tls_address(&f)), slow = connect_to(tls_address(&f));
    say(slow, "\x16\x03\x01");
    expect_end(silent);
    expect_end(slow);
    expect_event(&f, 't');
    caller c; /* a connection whose handshake is complete may idle */
    call(&c, tls_address(&f), &(client_options){0});
    assert_int_equal(SSL_connect(c.ssl), 1);
    ask_tls(&c, "one\n");
    int other = connect_to(tls_address(&f));
    expect_end(other); /* at least one sweep later */
    ask_tls(&c, "two\n");
    assert_int_equal(SSL_write(c.ssl, "half a line", 11), 11);
    char byte;
    assert_true(SSL_read(c.ssl, &byte, 1) <= 0); /* closed, too */
    hang_up(&c);
    stop(&f);
    net_tls_server_close(tls);
}

static void check_refused(void **unused)
{
    (void)unused;
    fixture f;
    net_tls_server *tls = prepare_tls(&f, 1);
    f.options.limits.connections = 1;
    start(&f);
    int plain = client(&f);
    ask(plain, "one\n");
    int fd = connect_to(tls_address(&f));
    expect_end(fd); /* without the text of the protocol */
    close(plain);
    stop(&f);
    net_tls_server_close(tls);
}

/* ---- load ------------------------------------------------------------------------------------ */

enum { CALLERS = 4, CALLS = 40 };

typedef struct load {
    const char *address;
    SSL_CTX *ctx;
    port_counter done, failed;
} load;

static bool one_call(const load *l)
{
    char got[8] = "";
    int fd = connect_to(l->address);
    SSL *ssl = SSL_new(l->ctx);
    SSL_set_fd(ssl, fd);
    bool good = SSL_connect(ssl) == 1;
    for (int i = 0; i < 3 && good; i++)
        good = SSL_write(ssl, "hello\n", 6) == 6 && SSL_read(ssl, got, 6) == 6 &&
               strcmp(got, "hello\n") == 0;
    SSL_free(ssl);
    close(fd);
    ERR_clear_error();
    return good;
}

static void *call_often(void *arg)
{
    load *l = arg;
    for (int i = 0; i < CALLS; i++)
        port_add_relaxed(one_call(l) ? &l->done : &l->failed, 1);
    return NULL;
}

/* The certificate is replaced again and again; no client notices. */
static void check_reload_under_load(void **unused)
{
    (void)unused;
    fixture f;
    net_tls_server *tls = prepare_tls(&f, 2);
    start(&f);
    load l = {.address = tls_address(&f), .ctx = client_context(&(client_options){0})};
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &l), 0);
    net_tls_failure why;
    int reloads = 0;
    while (port_load_relaxed(&l.done) + port_load_relaxed(&l.failed) < CALLERS * CALLS) {
        const char *path = reloads++ % 2 ? k.server : k.server2;
        const net_tls_server_files files = {path, path, NULL};
        assert_int_equal(net_tls_server_reload(tls, &files, &why), WEIR_OK);
        const net_tls_server_files bad = {k.bad, path, NULL};
        assert_int_equal(net_tls_server_reload(tls, &bad, &why), WEIR_E_IO);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(port_load_relaxed(&l.failed), 0);
    assert_true(reloads > 1);
    SSL_CTX_free(l.ctx);
    stop(&f);
    net_tls_server_stats stats = net_tls_server_stats_get(tls);
    assert_int_equal(stats.handshakes, CALLERS * CALLS);
    assert_int_equal(stats.failures, 0);
    net_tls_server_close(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_bad_files),
        cmocka_unit_test(check_changed_files),
        cmocka_unit_test(check_expiry),
        cmocka_unit_test(check_configuration),
        cmocka_unit_test(check_server),
        cmocka_unit_test(check_wrong_port),
        cmocka_unit_test(check_slow_handshake),
        cmocka_unit_test(check_refused),
        cmocka_unit_test(check_reload_under_load),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
