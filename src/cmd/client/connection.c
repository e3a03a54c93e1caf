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

enum { READ_BYTES = 4096, HOST_MAX = 256, PORT_MAX = 8 };

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
    return fail(c, st, "%s: timeout: %s" TIMEOUT_HINT, c->server, what);
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
        return fail(c, CLIENT_UNREACHABLE, "cannot connect to %s: %s", c->server, strerror(error));
    return CLIENT_OK;
}

static void hang_up(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static client_status connect_unix(client *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(c->server);
    if (len >= sizeof address.sun_path)
        return fail(c, CLIENT_BAD_ADDRESS,
                    "%s: expected a socket path of at most %zu bytes, found %zu", c->server,
                    sizeof address.sun_path - 1, len);
    memcpy(address.sun_path, c->server, len + 1);
    return connect_to(c, (const struct sockaddr *)&address, sizeof address);
}

static bool read_port(const char *digits, char *port)
{
    uint64_t n = 0;
    size_t len = strlen(digits);
    if (len > 5 || !weir_decimal_read(digits, len, 65535, &n))
        return false;
    snprintf(port, PORT_MAX, "%u", (unsigned)n);
    return n >= 1;
}

/* Returns the digits of PORT or :PORT, which mean a port of 127.0.0.1, as `listen` in weir.yaml
 * does; NULL if `server` is anything else. */
static const char *port_alone(const char *server)
{
    const char *digits = server + (server[0] == ':');
    return *digits && digits[strspn(digits, "0123456789")] == '\0' ? digits : NULL;
}

/* Splits HOST:PORT, [IPV6]:PORT, HOST, [IPV6] or a bare IPv6 address. */
static bool split(const char *server, char *host, char *port)
{
    bool bracket = server[0] == '[';
    const char *begin = server + bracket, *end = strchr(server, bracket ? ']' : ':');
    if (!bracket && end && strchr(end + 1, ':')) /* two colons: an IPv6 address without a port */
        end = NULL;
    if (bracket && !end)
        return false;
    const char *rest = end ? end + bracket : "";
    size_t host_len = end ? (size_t)(end - begin) : strlen(begin);
    if (host_len == 0 || host_len >= HOST_MAX || (*rest && *rest != ':'))
        return false;
    memcpy(host, begin, host_len);
    host[host_len] = '\0';
    return read_port(*rest ? rest + 1 : CLIENT_PORT, port);
}

/* Splits c->server into host and port. A port alone gets CLIENT_HOST, also in messages. */
static bool read_server(client *c, char *host, char *port)
{
    const char *digits = port_alone(c->server);
    if (!digits)
        return split(c->server, host, port);
    if (!read_port(digits, port))
        return false;
    snprintf(host, HOST_MAX, CLIENT_HOST);
    snprintf(c->local, sizeof c->local, CLIENT_HOST ":%s", port);
    c->server = c->local;
    return true;
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
    char host[HOST_MAX], port[PORT_MAX];
    struct addrinfo *found;
    if (!read_server(c, host, port))
        return fail(c, CLIENT_BAD_ADDRESS, "'%s': expected " CLIENT_EXPECTED, c->server);
    int error = look_up(host, port, c->deadline_ns - port_steady_ns(), &found);
    if (error != 0)
        return fail(c, CLIENT_FAILED, "%s: cannot resolve the host: %s", c->server,
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
    return fail(c, CLIENT_FAILED, "%s: connection lost: %s", c->server, strerror(errno));
}

static client_status send_all(client *c)
{
    while (weir_buffer_len(&c->out) > 0) {
        ssize_t n = send(c->fd, weir_buffer_data(&c->out), weir_buffer_len(&c->out), MSG_NOSIGNAL);
        if (n >= 0) {
            weir_buffer_consume(&c->out, (size_t)n);
        } else if (errno == EAGAIN) {
            int ready = wait_for(c, POLLOUT);
            if (ready == 0)
                return fail_timeout(c, CLIENT_FAILED, "the request was not sent");
            if (ready < 0)
                return fail_broken(c);
        } else if (errno == EPIPE || errno == ECONNRESET) {
            break; /* the server may have sent a reply before it closed */
        } else if (errno != EINTR) {
            return fail_broken(c);
        }
    }
    weir_buffer_clear(&c->out);
    return CLIENT_OK;
}

/* Reads what has arrived; it may be nothing. */
static client_status receive_some(client *c)
{
    if (!weir_buffer_reserve(&c->in, READ_BYTES))
        return fail(c, CLIENT_FAILED, "out of memory");
    ssize_t n = recv(c->fd, weir_buffer_tail(&c->in), READ_BYTES, 0);
    if (n > 0)
        weir_buffer_added(&c->in, (size_t)n);
    else if (n == 0)
        return fail(c, CLIENT_FAILED, "%s: the server closed the connection without a reply",
                    c->server);
    else if (errno != EAGAIN && errno != EINTR)
        return fail_broken(c);
    return CLIENT_OK;
}

/* Waits until more bytes have arrived. */
static client_status receive(client *c)
{
    return wait_for(c, POLLIN) == 0 ? fail_timeout(c, CLIENT_FAILED, "no reply") : receive_some(c);
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

static client_status fail_not_resp(client *c)
{
    if (is_http(c))
        return fail(c, CLIENT_FAILED,
                    "%s: expected a RESP server, found an HTTP server; use the address of "
                    "listen.resp, port " CLIENT_PORT " by default",
                    c->server);
    return fail(c, CLIENT_FAILED,
                "%s: expected a reply in RESP3, found another protocol; is this a weir daemon?",
                c->server);
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

/* Sends HELLO 3. */
static client_status hello(client *c, const char *password)
{
    const weir_slice words[] = {{"HELLO", 5},
                                {"3", 1},
                                {"AUTH", 4},
                                {"default", 7},
                                {password, password ? strlen(password) : 0}};
    client_status st = client_request(c, words, password ? 5 : 2);
    const weir_resp_value *head = &c->reply.value[0];
    if (st != CLIENT_OK)
        return st;
    if (failed_with(head, "NOAUTH "))
        return fail(c, CLIENT_FAILED, "%s: the daemon requires a password: set WEIR_PASSWORD",
                    c->server);
    if (failed_with(head, "WRONGPASS "))
        return fail(c, CLIENT_FAILED, "%s: the password in WEIR_PASSWORD is wrong", c->server);
    if (head->type == WEIR_RESP_ERROR_REPLY) {
        char text[256];
        weir_text_escape_to(text, sizeof text, head->text, head->len, WEIR_MASKED);
        return fail(c, CLIENT_FAILED, "%s: %s", c->server, text);
    }
    if (head->type != WEIR_RESP_MAP)
        return fail(c, CLIENT_FAILED,
                    "%s: expected a reply in RESP3, found another protocol; is this a weir daemon?",
                    c->server);
    return st;
}

/* The length of a URL scheme with its "://", or 0 if `server` is not a URL. */
static size_t scheme_len(const char *server)
{
    size_t len = strspn(server, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return len > 0 && strncmp(server + len, "://", 3) == 0 ? len + 3 : 0;
}

static client_status fail_url(client *c, size_t scheme)
{
    const char *expected = c->server[scheme] == '/' ? "the path of the socket" : "HOST:PORT";
    return fail(c, CLIENT_BAD_ADDRESS, "'%s': expected %s, without %.*s", c->server, expected,
                (int)scheme, c->server);
}

static client_status connect_server(client *c, const char *server, int64_t timeout_ns)
{
    *c = (client){.fd = -1, .server = server, .deadline_ns = port_steady_ns() + timeout_ns};
    weir_buffer_init(&c->in, WEIR_RESP_REPLY_LEN_MAX + READ_BYTES);
    weir_buffer_init(&c->out, (size_t)4 << 20); /* more than a command line can hold */
    size_t scheme = scheme_len(server);
    if (scheme > 0)
        return fail_url(c, scheme);
    return strchr(server, '/') ? connect_unix(c) : connect_tcp(c);
}

client_status client_open(client *c, const char *server, const char *password, int64_t timeout_ns)
{
    client_status st = connect_server(c, server, timeout_ns);
    return st == CLIENT_OK ? hello(c, password) : st;
}

client_status client_reopen(client *c, const char *password, int64_t timeout_ns)
{
    hang_up(c);
    weir_buffer_clear(&c->in);
    weir_buffer_clear(&c->out);
    c->used = 0;
    client_set_timeout(c, timeout_ns);
    client_status st = connect_to(c, (const struct sockaddr *)&c->address, c->address_len);
    if (st == CLIENT_OK && c->address.ss_family != AF_UNIX)
        send_at_once(c);
    return st == CLIENT_OK ? hello(c, password) : st;
}

void client_close(client *c)
{
    hang_up(c);
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
}
