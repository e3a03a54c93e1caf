/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens sockets without libuv, which can neither share a port among loops nor detect a stale socket
 * file. It must not know who accepts connections. */

#include "net/listen.h"

#include "port/text.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum {
    BACKLOG = 4096,
    KEEPALIVE_S = 300, /* without traffic until TCP keepalive probes are sent */
    FILE_MODE = 0660,
};

typedef union address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct sockaddr_un path;
} address;

/* Where to write an error message. */
typedef struct report {
    const char *text; /* the address from the configuration */
    char *ret_error;
    size_t size;
} report;

static socklen_t address_len(const address *a)
{
    if (a->any.sa_family == AF_UNIX)
        return sizeof a->path;
    return a->any.sa_family == AF_INET ? sizeof a->ip4 : sizeof a->ip6;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Reads a port, 0..65535. */
static bool read_port(const char *text, int *ret)
{
    uint64_t port;
    size_t len = strlen(text);
    if (len > 5 || !weir_decimal_read(text, len, 65535, &port))
        return false;
    *ret = (int)port;
    return true;
}

static bool read_host(const char *host, bool in_brackets, int port, address *ret)
{
    if (in_brackets)
        return uv_ip6_addr(host, port, &ret->ip6) == 0;
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    return uv_ip4_addr(host, port, &ret->ip4) == 0;
}

/* Returns NULL, or why no socket can have this path. */
static const char *read_path(const char *text, address *ret)
{
    size_t len = strlen(text);
    *ret = (address){.path = {.sun_family = AF_UNIX}};
    if (len >= sizeof ret->path.sun_path)
        return "expected a socket path of at most 107 bytes";
    memcpy(ret->path.sun_path, text, len);
    return NULL;
}

/* Returns NULL, or why the address is invalid. */
static const char *read_address(const char *text, address *ret)
{
    if (text[0] == '/')
        return read_path(text, ret);
    *ret = (address){0};
    char host[64];
    const char *colon = strrchr(text, ':');
    bool in_brackets = text[0] == '[' && colon && colon > text && colon[-1] == ']';
    size_t skip = in_brackets ? 1 : 0;
    size_t len = colon ? (size_t)(colon - text) - 2 * skip : 0;
    int port;
    if (!colon || len >= sizeof host)
        return "expected ADDRESS:PORT such as 127.0.0.1:6380 or [::1]:6380, or a socket path that "
               "begins with /";
    if (!read_port(colon + 1, &port))
        return "expected a port from 0 to 65535 after the last ':'";
    memcpy(host, text + skip, len);
    host[len] = '\0';
    if (!read_host(host, in_brackets, port, ret))
        return "expected localhost, an IPv4 address such as 127.0.0.1, or an IPv6 address in "
               "brackets "
               "such as [::1], before the ':'";
    return NULL;
}

static void print_address(const address *a, char ret[WEIR_LISTEN_ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->any.sa_family == AF_INET) {
        uv_ip4_name(&a->ip4, host, sizeof host);
        snprintf(ret, WEIR_LISTEN_ADDRESS_MAX, "%s:%d", host, ntohs(a->ip4.sin_port));
    } else if (a->any.sa_family == AF_INET6) {
        uv_ip6_name(&a->ip6, host, sizeof host);
        snprintf(ret, WEIR_LISTEN_ADDRESS_MAX, "[%s]:%d", host, ntohs(a->ip6.sin6_port));
    } else {
        const char *path = a->path.sun_path;
        bool is_abstract = path[0] == '\0'; /* its name follows the NUL */
        snprintf(ret, WEIR_LISTEN_ADDRESS_MAX, "%s%.107s", is_abstract ? "@" : "",
                 path + is_abstract);
    }
}

bool weir_listen_normalize(const char *address_text, char ret[static WEIR_LISTEN_ADDRESS_MAX])
{
    address a;
    if (read_address(address_text, &a) != NULL)
        return false;
    print_address(&a, ret);
    return true;
}

bool weir_listen_peer(int fd, weir_peer_address *ret)
{
    address a = {0};
    socklen_t len = sizeof a;
    if (fd < 0 || getpeername(fd, &a.any, &len) != 0 || a.any.sa_family == AF_UNIX)
        return false;
    *ret = (weir_peer_address){0};
    if (a.any.sa_family == AF_INET6) {
        bool mapped = IN6_IS_ADDR_V4MAPPED(&a.ip6.sin6_addr);
        memcpy(ret->bytes, (const uint8_t *)&a.ip6.sin6_addr + 12 * mapped, mapped ? 4 : 16);
        ret->v6 = !mapped;
        ret->port = ntohs(a.ip6.sin6_port);
    } else {
        memcpy(ret->bytes, &a.ip4.sin_addr, 4);
        ret->port = ntohs(a.ip4.sin_port);
    }
    return true;
}

void weir_listen_print_peer(const weir_peer_address *a, char ret[static WEIR_PEER_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->bytes, host, sizeof host);
    snprintf(ret, WEIR_PEER_TEXT_MAX, a->v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)a->port);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static weir_status refuse(const report *r, const char *why)
{
    snprintf(r->ret_error, r->size, "cannot listen on %s: %s", r->text, why);
    return WEIR_E_IO;
}

static weir_status refuse_errno(const report *r, int err)
{
    const char *hint = "";
    if (err == EADDRINUSE)
        hint = ": another server uses it; stop that server or choose another address";
    else if (err == EADDRNOTAVAIL)
        hint = ": this machine does not have that address";
    else if (err == EACCES && r->text[0] != '/')
        hint = ": ports below 1024 need privileges; choose another";
    else if (err == ENOENT)
        hint = ": its directory does not exist; create it";
    char why[160];
    snprintf(why, sizeof why, "%s%s", uv_strerror(uv_translate_sys_error(err)), hint);
    return refuse(r, why);
}

static void close_all(int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static int switch_on(int fd, int level, int name)
{
    const int on = 1;
    return setsockopt(fd, level, name, &on, sizeof on);
}

/* Sets the options of a TCP socket that accepted connections inherit. */
static bool set_tcp_options(int fd)
{
    const int keepalive_s = KEEPALIVE_S;
    return switch_on(fd, IPPROTO_TCP, TCP_NODELAY) == 0 &&
           switch_on(fd, SOL_SOCKET, SO_KEEPALIVE) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_s, sizeof keepalive_s) == 0;
}

/* Returns a bound socket, or -1 with errno. */
static int tcp_socket(const address *a, bool shared)
{
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    bool is_ip6 = a->any.sa_family == AF_INET6;
    if (switch_on(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
        (!shared || switch_on(fd, SOL_SOCKET, SO_REUSEPORT) == 0) &&
        (!is_ip6 || switch_on(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0) && set_tcp_options(fd) &&
        bind(fd, &a->any, address_len(a)) == 0)
        return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Opens n sockets on one port. The first is bound without SO_REUSEPORT, which fails if any other
 * process has the port. It gets SO_REUSEPORT before the others are bound, so the port is never
 * free. */
static weir_status open_tcp(const report *r, address *a, int *fds, unsigned n)
{
    unsigned made = 0;
    for (; made < n; made++) {
        fds[made] = tcp_socket(a, made > 0);
        if (fds[made] < 0)
            break;
        socklen_t len = sizeof *a;
        if (made == 0 && ((n > 1 && switch_on(fds[0], SOL_SOCKET, SO_REUSEPORT) != 0) ||
                          getsockname(fds[0], &a->any, &len) != 0))
            break;
    }
    bool good = made == n;
    for (unsigned i = 0; i < n && good; i++)
        good = listen(fds[i], BACKLOG) == 0;
    if (good)
        return WEIR_OK;
    int err = errno;
    close_all(fds, made < n && fds[made] >= 0 ? made + 1 : made);
    return refuse_errno(r, err);
}

static const char not_a_socket[] =
    "a file that is not a socket exists at this path; move it or choose another path";

/* ---- socket files ---------------------------------------------------------------------------- */

/* Returns 0 if no server listens on a Unix socket, EADDRINUSE if one does, or another errno. */
static int try_connect(const address *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int err = connect(fd, &a->any, address_len(a)) == 0 ? EADDRINUSE : errno;
    close(fd);
    /* The accept queue is full, or another kind of socket listens. */
    if (err == EAGAIN || err == EPROTOTYPE)
        err = EADDRINUSE;
    return err == ECONNREFUSED || err == ENOENT ? 0 : err;
}

/* Removes a stale socket file, on which no server listens. */
static weir_status clear_path(const report *r, const address *a)
{
    const char *path = a->path.sun_path;
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? WEIR_OK : refuse_errno(r, errno);
    if (!S_ISSOCK(st.st_mode))
        return refuse(r, not_a_socket);
    int err = try_connect(a);
    if (err == 0 && unlink(path) != 0 && errno != ENOENT)
        err = errno;
    return err == 0 ? WEIR_OK : refuse_errno(r, err);
}

static bool listen_at_path(int fd, const address *a, weir_listen_socket *ret)
{
    const char *path = a->path.sun_path;
    struct stat st;
    /* bind() creates the file with this mode: no other user can connect before chmod(). */
    (void)fchmod(fd, S_IRUSR | S_IWUSR);
    if (bind(fd, &a->any, address_len(a)) != 0)
        return false;
    if (chmod(path, FILE_MODE) == 0 && stat(path, &st) == 0 && listen(fd, BACKLOG) == 0) {
        ret->device = st.st_dev;
        ret->inode = st.st_ino;
        return true;
    }
    int err = errno;
    unlink(path);
    errno = err;
    return false;
}

static weir_status open_path(const report *r, const address *a, int type, int *fds, unsigned n,
                             weir_listen_socket *ret)
{
    weir_status st = clear_path(r, a);
    if (st != WEIR_OK)
        return st;
    fds[0] = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fds[0] < 0)
        return refuse_errno(r, errno);
    unsigned made = 1;
    bool good = listen_at_path(fds[0], a, ret);
    for (; made < n && good; made += good ? 1 : 0) {
        fds[made] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        good = fds[made] >= 0;
    }
    if (good)
        return WEIR_OK;
    int err = errno;
    close_all(fds, made);
    weir_listen_remove(ret);
    return refuse_errno(r, err);
}

/* ---- opening and checking -------------------------------------------------------------------- */

weir_status weir_listen_open(weir_listen_socket *ret, const char *text, int *ret_fds, unsigned n,
                             char *ret_error, size_t size)
{
    report r = {text, ret_error, size};
    address a;
    const char *wrong = read_address(text, &a);
    if (wrong)
        return refuse(&r, wrong);
    *ret = (weir_listen_socket){.is_tcp = a.any.sa_family != AF_UNIX};
    weir_status st = WEIR_OK;
    if (ret->is_tcp)
        st = open_tcp(&r, &a, ret_fds, n);
    print_address(&a, ret->text);
    if (!ret->is_tcp)
        st = open_path(&r, &a, SOCK_STREAM, ret_fds, n, ret);
    return st;
}

weir_status weir_listen_packets(weir_listen_socket *ret, const char *path, int *ret_fd,
                                char *ret_error, size_t size)
{
    report r = {path, ret_error, size};
    address a;
    const char *wrong = read_path(path, &a);
    if (wrong)
        return refuse(&r, wrong);
    *ret = (weir_listen_socket){.is_tcp = false};
    print_address(&a, ret->text);
    return open_path(&r, &a, SOCK_SEQPACKET, ret_fd, 1, ret);
}

static bool option_is(int fd, int name, int expected)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && value == expected;
}

bool weir_listen_adopt(int fd, weir_listen_socket *ret)
{
    address a = {0};
    socklen_t len = sizeof a;
    if (!option_is(fd, SO_TYPE, SOCK_STREAM) || !option_is(fd, SO_ACCEPTCONN, 1) ||
        getsockname(fd, &a.any, &len) != 0)
        return false;
    bool is_tcp = a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6;
    if ((!is_tcp && a.any.sa_family != AF_UNIX) || (is_tcp && !set_tcp_options(fd)) ||
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return false;
    *ret = (weir_listen_socket){.is_tcp = is_tcp};
    print_address(&a, ret->text);
    return true;
}

/* Returns 0 if a socket file can be created in the directory of a path, or an errno. */
static int try_directory(const char *path)
{
    char dir[WEIR_LISTEN_ADDRESS_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int try_path(const address *a)
{
    struct stat st;
    int err = lstat(a->path.sun_path, &st) == 0 ? try_connect(a) : errno == ENOENT ? 0 : errno;
    return err == 0 ? try_directory(a->path.sun_path) : err;
}

static int try_tcp(const address *a)
{
    int fd = tcp_socket(a, false);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/*  wrong  why the address is invalid; NULL if it is not. */
static weir_listen_trial try_address(const report *r, const address *a, const char *wrong)
{
    struct stat st;
    bool is_tcp = !wrong && a->any.sa_family != AF_UNIX;
    if (!wrong && !is_tcp && lstat(r->text, &st) == 0 && !S_ISSOCK(st.st_mode))
        wrong = not_a_socket;
    int err = wrong ? 0 : is_tcp ? try_tcp(a) : try_path(a);
    if (err == EADDRINUSE)
        return WEIR_LISTEN_IN_USE;
    if (!wrong && err == 0)
        return WEIR_LISTEN_FREE;
    (void)(wrong ? refuse(r, wrong) : refuse_errno(r, err));
    return WEIR_LISTEN_IMPOSSIBLE;
}

weir_listen_trial weir_listen_try(const char *text, char *ret_error, size_t size)
{
    address a;
    const char *wrong = read_address(text, &a);
    return try_address(&(report){text, ret_error, size}, &a, wrong);
}

weir_listen_trial weir_listen_try_packets(const char *path, char *ret_error, size_t size)
{
    address a;
    const char *wrong = read_path(path, &a);
    return try_address(&(report){path, ret_error, size}, &a, wrong);
}

void weir_listen_inherit(weir_listen_socket *l)
{
    struct stat st;
    if (l->inherits && !l->is_tcp && lstat(l->text, &st) == 0 && S_ISSOCK(st.st_mode)) {
        l->device = st.st_dev;
        l->inode = st.st_ino;
    }
    l->inherits = false;
}

void weir_listen_remove(const weir_listen_socket *l)
{
    struct stat st;
    if (l->inode != 0 && lstat(l->text, &st) == 0 && st.st_dev == l->device &&
        st.st_ino == l->inode)
        unlink(l->text);
}
