/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connects, resolves names, and sends and receives with non-blocking sockets and poll(), so that
 * the deadline applies to every step. */

#define _GNU_SOURCE /* SOCK_NONBLOCK, AI_ADDRCONFIG */

#include "cmd/client/connection.h"

#include "codec/resp/resp.h"
#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    READ_BYTES = 4096,
    PORT_MAX = 8,
    RECORDS = 64 << 10, /* more than the decrypted bytes that one receive_some() adds */
    WIRE_MAX = 1 << 20, /* bytes of `wire`; a session stops at 64 KiB and adds its handshake */
};

#define TIMEOUT_HINT "; --timeout sets how long to wait"

__attribute__((format(printf, 3, 4))) static client_status fail(client *c, client_status st,
                                                                const char *text, ...)
{
    va_list args;
    va_start(args, text);
    vsnprintf(c->error, sizeof c->error, text, args);
    va_end(args);
    return st;
}

static client_status fail_timeout(client *c, client_status st, const char *what)
{
    return fail(c, st, "%s: timeout: %s" TIMEOUT_HINT, c->to.name, what);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Waits for the socket. Returns 0 after the deadline, else as poll() does. */
static int wait_for(const client *c, short events)
{
    struct pollfd p = {.fd = c->fd, .events = events};
    for (;;) {
        int64_t left_ns = c->deadline_ns - port_steady_ns();
        if (left_ns <= 0)
            return 0;
        int64_t ms = left_ns / 1000000 + 1;
        int n = poll(&p, 1, ms < INT32_MAX ? (int)ms : INT32_MAX);
        if (n != 0 && !(n < 0 && errno == EINTR))
            return n;
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

static client_status connect_to(client *c, const struct sockaddr *address, socklen_t len)
{
    memcpy(&c->address, address, len);
    c->address_len = len;
    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    if (c->fd < 0)
        return fail(c, CLIENT_FAILED, "cannot create a socket: %s", strerror(errno));
    if (connect(c->fd, address, len) != 0)
        error = errno;
    if (error == EINPROGRESS || error == EINTR) {
        socklen_t size = sizeof error;
        int ready = wait_for(c, POLLOUT);
        if (ready == 0)
            return fail_timeout(c, CLIENT_UNREACHABLE, "not connected");
        if (ready < 0 || getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error != 0)
        return fail(c, CLIENT_UNREACHABLE, "cannot connect to %s: %s", c->to.name, strerror(error));
    return CLIENT_OK;
}

static void hang_up(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    net_tls_session_close(c->session);
    c->session = NULL;
}

static client_status connect_unix(client *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, c->to.url.host, strlen(c->to.url.host) + 1);
    return connect_to(c, (const struct sockaddr *)&address, sizeof address);
}

static void end_lookup(int signal)
{
    static const char text[] =
        "weir: timeout: the server's name was not resolved" TIMEOUT_HINT "\n";
    (void)signal;
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n; /* the process ends anyway */
    _exit(1);
}

/* getaddrinfo() has no timeout and continues after a signal, so the SIGALRM handler ends the
 * process at the deadline. */
static int look_up(const char *host, const char *port, int64_t left_ns, struct addrinfo **ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    int error = getaddrinfo(host, port, &hints, ret);
    if (error != EAI_NONAME)
        return error;
    struct sigaction then = {.sa_handler = end_lookup}, before;
    int64_t us = left_ns > 0 ? left_ns / 1000 + 1 : 1;
    struct itimerval timer = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
    static const struct itimerval off;
    hints.ai_flags = AI_ADDRCONFIG;
    sigaction(SIGALRM, &then, &before);
    setitimer(ITIMER_REAL, &timer, NULL);
    error = getaddrinfo(host, port, &hints, ret);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &before, NULL);
    return error;
}

static void send_at_once(client *c)
{
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static client_status connect_tcp(client *c)
{
    char port[PORT_MAX];
    struct addrinfo *found;
    snprintf(port, sizeof port, "%u", (unsigned)c->to.url.port);
    int error = look_up(c->to.url.host, port, c->deadline_ns - port_steady_ns(), &found);
    if (error != 0)
        return fail(c, CLIENT_FAILED, "%s: cannot resolve the host: %s", c->to.name,
                    error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    client_status st = CLIENT_UNREACHABLE;
    for (const struct addrinfo *at = found; at && st != CLIENT_OK; at = at->ai_next) {
        hang_up(c);
        st = connect_to(c, at->ai_addr, at->ai_addrlen);
    }
    freeaddrinfo(found);
    if (st == CLIENT_OK)
        send_at_once(c);
    return st;
}

/* ---- requests and replies -------------------------------------------------------------------- */

static client_status fail_broken(client *c)
{
    return fail(c, CLIENT_FAILED, "%s: connection lost: %s", c->to.name, strerror(errno));
}

static bool is_shaking_hands(const client *c)
{
    return c->session && !c->established;
}

/* Tells why the TLS session is closed. */
static client_status fail_tls(client *c, const char *why)
{
    bool distrusts = net_tls_session_distrusts(c->session);
    return fail(c, CLIENT_FAILED, "%s: %s%s", c->to.name, why,
                distrusts ? "; --ca names the file of the authority to trust" : "");
}

/* Decrypts what was received, and encrypts what is to be sent. A session that has closed fails only
 * if nothing was decrypted: the reply may be complete. */
static client_status run_tls(client *c)
{
    char why[CLIENT_ERROR_MAX / 2];
    size_t len = weir_buffer_len(&c->in);
    if (!c->session)
        return CLIENT_OK;
    net_tls_state state =
        net_tls_session_run(c->session, &c->in, &c->out, &c->wire, why, sizeof why);
    c->established |= state == NET_TLS_ESTABLISHED;
    bool failed = state == NET_TLS_CLOSED && weir_buffer_len(&c->in) == len;
    return failed ? fail_tls(c, why) : CLIENT_OK;
}

/* Sends bytes of `b`. Returns CLIENT_WAITING if the server has closed the connection, maybe after
 * sending a reply. */
static client_status send_some(client *c, weir_buffer *b)
{
    ssize_t n = send(c->fd, weir_buffer_data(b), weir_buffer_len(b), MSG_NOSIGNAL);
    if (n >= 0) {
        weir_buffer_consume(b, (size_t)n);
    } else if (errno == EAGAIN) {
        int ready = wait_for(c, POLLOUT);
        if (ready == 0)
            return fail_timeout(c, CLIENT_FAILED, "the request was not sent");
        if (ready < 0)
            return fail_broken(c);
    } else if (errno == EPIPE || errno == ECONNRESET) {
        return CLIENT_WAITING;
    } else if (errno != EINTR) {
        return fail_broken(c);
    }
    return CLIENT_OK;
}

/* Sends all that can be sent: of a TLS session, at first only its handshake. */
static client_status send_all(client *c)
{
    weir_buffer *b = c->session ? &c->wire : &c->out;
    client_status st = run_tls(c);
    while (st == CLIENT_OK && weir_buffer_len(b) > 0) {
        st = send_some(c, b);
        if (st == CLIENT_OK && weir_buffer_len(b) == 0)
            st = run_tls(c);
    }
    weir_buffer_clear(&c->out);
    return st == CLIENT_WAITING ? CLIENT_OK : st;
}

/* The end of the connection. */
static client_status fail_closed(client *c)
{
    return fail(c, CLIENT_FAILED, "%s: the server closed the connection %s%s", c->to.name,
                is_shaking_hands(c) ? "during the TLS handshake" : "without a reply",
                c->greeted || c->tls || c->to.is_path ? "" : "; if it expects TLS, use --tls");
}

/* Keeps what was received for parse(), decrypted. */
static client_status take_bytes(client *c, const uint8_t *bytes, size_t len)
{
    if (!c->session)
        weir_buffer_append(&c->in, bytes, len);
    bool kept = c->session ? net_tls_session_feed(c->session, bytes, len) : !c->in.failed;
    return kept ? run_tls(c) : fail(c, CLIENT_FAILED, "out of memory");
}

/* Reads what has arrived; it may be nothing. */
static client_status receive_some(client *c)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        return take_bytes(c, bytes, (size_t)n);
    if (n == 0)
        return fail_closed(c);
    return errno == EAGAIN || errno == EINTR ? CLIENT_OK : fail_broken(c);
}

/* Waits until more bytes have arrived. */
static client_status receive(client *c)
{
    if (wait_for(c, POLLIN) != 0)
        return receive_some(c);
    return fail_timeout(c, CLIENT_FAILED,
                        is_shaking_hands(c)
                            ? "no reply to the TLS handshake; is this a port with TLS?"
                            : "no reply");
}

/* Completes the handshake of a connection with TLS. */
static client_status shake_hands(client *c)
{
    if (!c->tls)
        return CLIENT_OK;
    c->established = false;
    c->session = net_tls_session_open(c->tls, c->tls_name);
    client_status st = c->session ? send_all(c) : fail(c, CLIENT_FAILED, "out of memory for TLS");
    while (st == CLIENT_OK && !c->established) {
        st = receive(c);
        if (st == CLIENT_OK)
            st = send_all(c);
    }
    return st;
}

static bool is_http(client *c)
{
    static const char begin[] = {'H', 'T', 'T', 'P', '/'};
    size_t len = weir_buffer_len(&c->in);
    while (len < sizeof begin && memcmp(weir_buffer_data(&c->in), begin, len) == 0) {
        if (receive(c) != CLIENT_OK)
            return false;
        len = weir_buffer_len(&c->in);
    }
    return len >= sizeof begin && memcmp(weir_buffer_data(&c->in), begin, sizeof begin) == 0;
}

/* Whether the server has answered with an alert of TLS. */
static bool is_alert(const client *c)
{
    const uint8_t *bytes = weir_buffer_data(&c->in);
    return weir_buffer_len(&c->in) >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03;
}

static client_status fail_not_resp(client *c)
{
    if (is_alert(c))
        return fail(c, CLIENT_FAILED, "%s: the server expects TLS; use --tls", c->to.name);
    if (is_http(c))
        return fail(c, CLIENT_FAILED,
                    "%s: expected a RESP server, found an HTTP server; use the address of "
                    "listen.resp, port " CLIENT_PORT " by default",
                    c->to.name);
    return fail(c, CLIENT_FAILED,
                "%s: expected a reply in RESP3, found another protocol; is this a weir daemon?",
                c->to.name);
}

client_status client_send(client *c, const weir_slice *words, size_t n)
{
    weir_buffer_consume(&c->in, c->used);
    c->used = 0;
    weir_resp_put_array(&c->out, n);
    for (size_t i = 0; i < n; i++)
        weir_resp_put_bulk(&c->out, words[i].at, words[i].len);
    return c->out.failed ? fail(c, CLIENT_FAILED, "out of memory") : send_all(c);
}

/* Parses a reply in what was received. */
static client_status parse(client *c)
{
    weir_resp_reading r =
        weir_resp_reply_read(weir_buffer_data(&c->in), weir_buffer_len(&c->in), &c->reply);
    if (r == WEIR_RESP_READ_ERROR)
        return fail_not_resp(c);
    c->used = r == WEIR_RESP_READ ? c->reply.used : 0;
    return r == WEIR_RESP_READ ? CLIENT_OK : CLIENT_WAITING;
}

client_status client_request(client *c, const weir_slice *words, size_t n)
{
    client_status st = client_send(c, words, n);
    while (st == CLIENT_OK && (st = parse(c)) == CLIENT_WAITING)
        st = receive(c);
    return st;
}

void client_set_timeout(client *c, int64_t timeout_ns)
{
    WEIR_ASSERT(timeout_ns > 0);
    c->deadline_ns = port_steady_ns() + timeout_ns;
}

client_status client_read(client *c)
{
    client_status st = receive_some(c);
    return st == CLIENT_OK ? parse(c) : st;
}

static bool failed_with(const weir_resp_value *head, const char *code)
{
    size_t len = strlen(code);
    return head->type == WEIR_RESP_ERROR_REPLY && head->len >= len &&
           memcmp(head->text, code, len) == 0;
}

static client_status fail_wrong_password(client *c)
{
    const client_target *to = &c->to;
    if (to->user)
        return fail(c, CLIENT_FAILED, "%s: user '%s' is unknown, or the password in %s is wrong",
                    to->name, to->user, to->password_from);
    return fail(c, CLIENT_FAILED, "%s: the password in %s is wrong", to->name, to->password_from);
}

/* Sends HELLO 3. */
static client_status hello(client *c)
{
    const char *user = c->to.user ? c->to.user : "default", *password = c->to.password;
    const weir_slice words[] = {{"HELLO", 5},
                                {"3", 1},
                                {"AUTH", 4},
                                {user, strlen(user)},
                                {password, password ? strlen(password) : 0}};
    client_status st = client_request(c, words, password ? 5 : 2);
    const weir_resp_value *head = &c->reply.value[0];
    if (st != CLIENT_OK)
        return st;
    if (failed_with(head, "NOAUTH "))
        return fail(c, CLIENT_FAILED,
                    "%s: the daemon requires a password: set WEIR_PASSWORD, or use --password-file",
                    c->to.name);
    if (failed_with(head, "WRONGPASS "))
        return fail_wrong_password(c);
    if (head->type == WEIR_RESP_ERROR_REPLY) {
        char text[256];
        weir_text_escape_to(text, sizeof text, head->text, head->len, WEIR_MASKED);
        return fail(c, CLIENT_FAILED, "%s: %s", c->to.name, text);
    }
    if (head->type != WEIR_RESP_MAP)
        return fail(c, CLIENT_FAILED,
                    "%s: expected a reply in RESP3, found another protocol; is this a weir daemon?",
                    c->to.name);
    c->greeted = true;
    return st;
}

/* ---- the connection -------------------------------------------------------------------------- */

static client_status load_tls(client *c, const client_login *login)
{
    char why[CLIENT_ERROR_MAX];
    c->tls_name = login->server_name ? login->server_name : c->to.url.host;
    if (!c->to.url.tls)
        return CLIENT_OK;
    switch (net_tls_open(&c->tls, login->ca, login->cert, login->key, false, why, sizeof why)) {
    case WEIR_OK:
        return CLIENT_OK;
    case WEIR_E_IO:
        return fail(c, CLIENT_FAILED, "%s", why);
    default:
        return fail(c, CLIENT_FAILED, "out of memory for TLS");
    }
}

client_status client_open(client *c, const client_login *login, int64_t timeout_ns)
{
    *c = (client){.fd = -1, .deadline_ns = port_steady_ns() + timeout_ns};
    weir_buffer_init(&c->in, WEIR_RESP_REPLY_LEN_MAX + RECORDS);
    weir_buffer_init(&c->out, (size_t)4 << 20); /* more than a command line can hold */
    weir_buffer_init(&c->wire, WIRE_MAX);
    if (!client_target_read(login, &c->to, c->error))
        return CLIENT_USAGE;
    client_status st = load_tls(c, login);
    if (st == CLIENT_OK)
        st = c->to.is_path ? connect_unix(c) : connect_tcp(c);
    if (st == CLIENT_OK)
        st = shake_hands(c);
    return st == CLIENT_OK ? hello(c) : st;
}

client_status client_reopen(client *c, int64_t timeout_ns)
{
    hang_up(c);
    weir_buffer_clear(&c->in);
    weir_buffer_clear(&c->out);
    weir_buffer_clear(&c->wire);
    c->used = 0;
    client_set_timeout(c, timeout_ns);
    client_status st = connect_to(c, (const struct sockaddr *)&c->address, c->address_len);
    if (st == CLIENT_OK && !c->to.is_path)
        send_at_once(c);
    if (st == CLIENT_OK)
        st = shake_hands(c);
    return st == CLIENT_OK ? hello(c) : st;
}

void client_close(client *c)
{
    hang_up(c);
    net_tls_close(c->tls);
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
    weir_buffer_free(&c->wire);
}
