/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* OpenSSL reads from the connection's input and writes to its output through a BIO. It gets
 * complete TLS records only: a partial record stays in the input, where the connection counts it
 * and limits its time. It must not know the inner protocol. */

#include "net/tls/server.h"

#include "port/assert.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

enum {
    RECORD_HEAD = 5,
    RECORD_MAX = (16 << 10) + 2048, /* bytes of an encrypted record, without its head */
    PIECE = 16 << 10,               /* the most decrypted bytes of a record */
    IN_KEPT = 96 << 10,             /* bytes of buffer that a protocol keeps, as does a loop */
    OUT_KEPT = 256 << 10,
    OUT_MAX = 16 << 20,
    HANDSHAKE_WORK = 64 << 10,  /* see weir_session_step.work: less than a millisecond */
    SSL_BYTES = 14 << 10,       /* about what OpenSSL allocates for an idle session, and ... */
    HANDSHAKE_BYTES = 43 << 10, /* ... during a handshake, of either version */
};

typedef struct session {
    weir_tls_protocol *protocol;
    SSL *ssl;         /* NULL: memory was exhausted */
    weir_buffer rest; /* decrypted input that the inner session has not consumed */

    /* During run() only. */
    weir_buffer *wire_in, *wire_out;
    size_t readable; /* bytes of complete records in wire_in */

    bool begun; /* the handshake has begun */
    bool established;
    bool heard;    /* decrypted input has arrived */
    bool failed;   /* an alert was sent, or memory is exhausted */
    bool ended;    /* the client has sent close_notify */
    bool stopping; /* the server stops: see weir_protocol.poll */
    max_align_t inner[];
} session;

/* ---- the BIO --------------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *to, size_t size, size_t *ret)
{
    session *s = BIO_get_data(bio);
    size_t n = size < s->readable ? size : s->readable;
    BIO_clear_retry_flags(bio);
    *ret = n;
    if (n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(to, weir_buffer_data(s->wire_in), n);
    weir_buffer_consume(s->wire_in, n);
    s->readable -= n;
    return 1;
}

static int bio_write(BIO *bio, const char *from, size_t len, size_t *ret)
{
    session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    weir_buffer_append(s->wire_out, from, len);
    *ret = len; /* not read if it fails */
    return !s->wire_out->failed;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The length of the complete records at the start of the input. If the input is not TLS, that is
 * all of it: OpenSSL refuses it with the right alert. */
static size_t complete_records(const weir_buffer *in)
{
    const uint8_t *bytes = weir_buffer_data(in);
    size_t len = weir_buffer_len(in), at = 0;
    while (at < len) {
        const uint8_t *head = bytes + at;
        size_t have = len - at;
        if (head[0] < SSL3_RT_CHANGE_CIPHER_SPEC || head[0] > SSL3_RT_APPLICATION_DATA ||
            (have > 1 && head[1] != SSL3_VERSION_MAJOR))
            return len;
        if (have < RECORD_HEAD)
            break;
        size_t n = (size_t)head[3] << 8 | head[4];
        if (n > RECORD_MAX)
            return len;
        if (have - RECORD_HEAD < n)
            break;
        at += RECORD_HEAD + n;
    }
    return at;
}

/* Handles the result of a failed call of OpenSSL. Returns false if the session has failed. */
static bool waits(session *s, int result)
{
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return true;
    case SSL_ERROR_ZERO_RETURN:
        s->ended = true;
        return true;
    default:
        s->failed = true;
        ERR_clear_error();
        return false;
    }
}

static bool handshake(session *s)
{
    ERR_clear_error();
    s->begun |= s->readable > 0;
    int result = SSL_do_handshake(s->ssl);
    s->established = result == 1;
    bool good = s->established || waits(s, result);
    if (s->established || !good)
        net_tls_server_count(s->protocol->server, s->established);
    return good;
}

/* Decrypts into `plain`, up to about request_max bytes. */
static bool decrypt(session *s, weir_buffer *plain)
{
    ERR_clear_error();
    while (!s->ended && weir_buffer_len(plain) <= s->protocol->request_max) {
        size_t n;
        if (!weir_buffer_reserve(plain, PIECE)) {
            s->failed = true;
            return false;
        }
        int result = SSL_read_ex(s->ssl, weir_buffer_tail(plain), PIECE, &n);
        if (result != 1)
            return waits(s, result);
        weir_buffer_added(plain, n);
    }
    return true;
}

/* Encrypts replies. If they do not fit, wire_out->failed is set, and the connection closes. */
static bool encrypt(session *s, const weir_buffer *reply)
{
    size_t len = weir_buffer_len(reply), n;
    if (reply->failed)
        weir_buffer_grow(s->wire_out, (size_t)OUT_MAX + 1); /* sets `failed` there, too */
    if (len == 0 || s->wire_out->failed)
        return !s->wire_out->failed;
    s->failed = SSL_write_ex(s->ssl, weir_buffer_data(reply), len, &n) != 1;
    WEIR_ASSERT(s->failed || n == len);
    return !s->failed;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The buffer for decrypted input: the protocol's, after a copy of the rest; or the session's own if
 * the rest is long. */
static weir_buffer *plain_of(session *s)
{
    weir_buffer *in = &s->protocol->in;
    if (weir_buffer_len(&s->rest) > PIECE)
        return &s->rest;
    WEIR_ASSERT(weir_buffer_len(in) == 0); /* see keep_rest() */
    weir_buffer_append(in, weir_buffer_data(&s->rest), weir_buffer_len(&s->rest));
    return in;
}

static void empty(weir_buffer *b, size_t kept)
{
    if (weir_buffer_memory(b) > kept)
        weir_buffer_free(b);
    else
        weir_buffer_clear(b);
}

/* Keeps what the inner session has not consumed. */
static void keep_rest(session *s, weir_buffer *plain)
{
    if (plain != &s->rest) {
        weir_buffer_clear(&s->rest);
        weir_buffer_append(&s->rest, weir_buffer_data(plain), weir_buffer_len(plain));
        empty(plain, IN_KEPT);
    }
    if (weir_buffer_len(&s->rest) == 0)
        weir_buffer_free(&s->rest);
    s->failed |= s->rest.failed;
}

/* Whether the inner session can continue at once, before anything is sent or received. */
static bool continues(const session *s, const weir_session_step *step, bool progress,
                      const weir_buffer *plain, int64_t now_ns)
{
    if (weir_buffer_len(s->wire_out) > 0)
        return false;
    if (step->next == WEIR_SESSION_READ) /* nothing is read after close_notify */
        return !s->ended && s->readable > 0 && weir_buffer_len(plain) <= s->protocol->request_max;
    return progress && (step->next == WEIR_SESSION_AGAIN ||
                        (step->next == WEIR_SESSION_WAIT && step->until_ns <= now_ns));
}

/* Decrypts, runs the inner session and encrypts its replies, until something must be sent or
 * received. */
static weir_session_step run_inner(session *s, weir_buffer *plain, size_t out_pause, int64_t now_ns)
{
    const weir_protocol *inner = s->protocol->inner;
    weir_buffer *reply = &s->protocol->out;
    for (;;) {
        weir_session_step step = {.next = WEIR_SESSION_CLOSE};
        if (!decrypt(s, plain))
            return step;
        if (weir_buffer_len(s->wire_out) > 0) /* the end of the handshake is not delayed */
            return (weir_session_step){.next = WEIR_SESSION_AGAIN};
        size_t len = weir_buffer_len(plain);
        s->heard |= len > 0;
        step = inner->run(s->inner, plain, reply, out_pause, now_ns);
        bool progress = weir_buffer_len(plain) < len, good = encrypt(s, reply);
        empty(reply, OUT_KEPT);
        if (!good)
            return (weir_session_step){.next = WEIR_SESSION_CLOSE};
        /* READ with unread records and replies: send the replies, then decrypt the records. */
        if (step.next == WEIR_SESSION_READ && s->readable > 0 && weir_buffer_len(s->wire_out) > 0)
            step.next = WEIR_SESSION_AGAIN;
        if (!continues(s, &step, progress, plain, now_ns))
            return step;
    }
}

static weir_session_step run_established(session *s, size_t out_pause, int64_t now_ns)
{
    weir_buffer *plain = plain_of(s);
    weir_session_step step = run_inner(s, plain, out_pause, now_ns);
    keep_rest(s, plain);
    if (s->failed || (s->ended && step.next == WEIR_SESSION_READ))
        step.next = WEIR_SESSION_CLOSE;
    if (step.next == WEIR_SESSION_CLOSE && !s->failed)
        SSL_shutdown(s->ssl); /* sends close_notify */
    return step;
}

static weir_session_step tls_run(void *outer, weir_buffer *in, weir_buffer *out, size_t out_pause,
                                 int64_t now_ns)
{
    session *s = outer;
    weir_session_step step = {.next = WEIR_SESSION_CLOSE};
    if (!s->ssl || s->failed)
        return step;
    s->wire_in = in;
    s->wire_out = out;
    s->readable = complete_records(in);
    bool established = s->established;
    bool good = established || handshake(s);
    if (good && s->established)
        step = run_established(s, out_pause, now_ns);
    else if (good && !s->ended && !s->stopping)
        step.next = WEIR_SESSION_READ;
    step.work += established ? 0 : HANDSHAKE_WORK;
    s->wire_in = s->wire_out = NULL;
    s->readable = 0;
    return step;
}

/* ---- the other functions of a session -------------------------------------------------------- */

static void tls_open(void *outer, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    session *s = outer;
    weir_tls_protocol *p = ctx;
    s->protocol = p;
    weir_buffer_init(&s->rest, p->in.len_max);
    p->inner->open(s->inner, p->inner_ctx, wake, wake_ctx);
    BIO *bio = BIO_new(p->method);
    s->ssl = bio ? net_tls_server_accept(p->server) : NULL;
    if (!s->ssl) {
        BIO_free(bio);
        return;
    }
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
}

static void tls_close(void *outer)
{
    session *s = outer;
    if (s->protocol->inner->close)
        s->protocol->inner->close(s->inner);
    if (s->ssl && !s->established && !s->failed) /* the client has left during the handshake */
        net_tls_server_count(s->protocol->server, false);
    SSL_free(s->ssl); /* frees the BIO, too */
    weir_buffer_free(&s->rest);
}

static weir_session_usage tls_usage(const void *outer)
{
    const session *s = outer;
    const weir_protocol *inner = s->protocol->inner;
    weir_session_usage usage = {0};
    if (inner->usage)
        usage = inner->usage(s->inner);
    usage.bytes += s->begun && !s->established ? HANDSHAKE_BYTES : SSL_BYTES;
    usage.bytes += weir_buffer_memory(&s->rest);
    usage.mid_request |= !s->established || weir_buffer_len(&s->rest) > 0;
    return usage;
}

static bool tls_is_new(const void *outer)
{
    const session *s = outer;
    const weir_protocol *inner = s->protocol->inner;
    return !s->heard || (inner->is_new && inner->is_new(s->inner));
}

static void tls_only_health(void *outer)
{
    session *s = outer;
    s->protocol->inner->only_health(s->inner);
}

static bool tls_poll(void *outer, int64_t now_ns, bool stopping)
{
    session *s = outer;
    s->stopping = stopping;
    return s->established ? s->protocol->inner->poll(s->inner, now_ns, stopping) : stopping;
}

/* ---- the names in a client's certificate ----------------------------------------------------- */

static bool is_text(const ASN1_STRING *s, const char *name)
{
    size_t len = strlen(name);
    return s && (size_t)ASN1_STRING_length(s) == len &&
           memcmp(ASN1_STRING_get0_data(s), name, len) == 0;
}

static bool has_common_name(const X509 *cert, const char *name)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    bool found = false;
    for (int i = -1; (i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0;)
        found |= is_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)), name);
    return found;
}

static bool has_alternative_name(const X509 *cert, const char *name)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
        found |= (n->type == GEN_DNS && is_text(n->d.dNSName, name)) ||
                 (n->type == GEN_URI && is_text(n->d.uniformResourceIdentifier, name));
    }
    GENERAL_NAMES_free(names);
    return found;
}

bool weir_tls_session_has_name(const weir_protocol *protocol, const void *outer, const char *name)
{
    const session *s = outer;
    if (protocol->open != tls_open || !s->ssl || !s->established)
        return false;
    const X509 *cert = SSL_get0_peer_certificate(s->ssl);
    return cert && SSL_get_verify_result(s->ssl) == X509_V_OK &&
           (has_common_name(cert, name) || has_alternative_name(cert, name));
}

weir_status weir_tls_protocol_init(weir_tls_protocol *ret, net_tls_server *server,
                                   const weir_protocol *inner, void *inner_ctx, size_t request_max)
{
    *ret = (weir_tls_protocol){.outer = {.session_size = sizeof(session) + inner->session_size,
                                         .open = tls_open,
                                         .close = tls_close,
                                         .run = tls_run,
                                         .usage = tls_usage,
                                         .is_new = tls_is_new,
                                         .only_health = inner->only_health ? tls_only_health : NULL,
                                         .poll = inner->poll ? tls_poll : NULL},
                               .inner = inner,
                               .inner_ctx = inner_ctx,
                               .server = server,
                               .request_max = request_max};
    weir_buffer_init(&ret->in, request_max + 2 * (size_t)PIECE + 2);
    weir_buffer_init(&ret->out, OUT_MAX);
    ret->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "weir");
    if (!ret->method)
        return WEIR_E_NOMEM;
    BIO_meth_set_read_ex(ret->method, bio_read);
    BIO_meth_set_write_ex(ret->method, bio_write);
    BIO_meth_set_ctrl(ret->method, bio_ctrl);
    return WEIR_OK;
}

void weir_tls_protocol_free(weir_tls_protocol *p)
{
    BIO_meth_free(p->method);
    weir_buffer_free(&p->in);
    weir_buffer_free(&p->out);
    *p = (weir_tls_protocol){0};
}
