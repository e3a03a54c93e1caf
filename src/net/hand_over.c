/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The messages of a hand-over, and its steps in the old process. Each message is one packet of the
 * same size, with descriptors or without:
 *
 *     old  SOCKETS...  listening sockets of one address
 *     old  MEMORY      what prepare() returns, if it returns a descriptor
 *     old  ALL         the new process has all that it needs to start
 *     old  REFUSED     instead of these, or after them: the reason
 *     new  SERVING     the new process serves
 *     old  LEAVING     the old process stops; the socket files are those of the new
 *
 * The end of the connection before SERVING is the end of the attempt. It must not know what the
 * processes serve. */

#define _GNU_SOURCE /* accept4, struct ucred, environ */

#include "net/hand_over.h"

#include "net/server.h"
#include "port/file.h"
#include "port/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    FDS_MAX = 200,    /* in a message; Linux allows 253 */
    CHILD_FD = 3,     /* the descriptor of the connection in the new process */
    START_MS = 60000, /* in which the new process must serve */
    START_S = START_MS / 1000,
    LEAVE_S = 10,   /* in which the old process must answer that it stops */
    RETRY_MS = 100, /* after it could not accept a connection */
};

typedef enum message_kind { SOCKETS = 1, MEMORY, ALL, REFUSED, SERVING, LEAVING } message_kind;

/* Other versions of weir read it: a change needs another magic text. */
typedef struct message {
    char magic[20];
    uint32_t kind;
    uint32_t inherits;                        /* SOCKETS: see net_passed_add() */
    char configured[WEIR_LISTEN_ADDRESS_MAX]; /* the same */
    char text[256];                           /* REFUSED: the reason */
} message;

static const char magic[20] = "weir hand-over 1";

/* ---- messages -------------------------------------------------------------------------------- */

typedef union control {
    struct cmsghdr head; /* aligns the bytes */
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
} control;

static message message_of(message_kind kind)
{
    message m = {.kind = kind};
    memcpy(m.magic, magic, sizeof m.magic);
    return m;
}

static bool send_message(int fd, const message *m, const int *fds, size_t n)
{
    control c = {.bytes = {0}};
    struct iovec part = {(void *)m, sizeof *m};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (n > 0) {
        packet.msg_control = c.bytes;
        packet.msg_controllen = CMSG_SPACE(n * sizeof *fds);
        c.head.cmsg_level = SOL_SOCKET;
        c.head.cmsg_type = SCM_RIGHTS;
        c.head.cmsg_len = CMSG_LEN(n * sizeof *fds);
        memcpy(CMSG_DATA(&c.head), fds, n * sizeof *fds);
    }
    return sendmsg(fd, &packet, MSG_NOSIGNAL) == (ssize_t)sizeof *m;
}

static bool send_plain(int fd, message_kind kind)
{
    const message m = message_of(kind);
    return send_message(fd, &m, NULL, 0);
}

static void send_refusal(int fd, const char *why)
{
    message m = message_of(REFUSED);
    snprintf(m.text, sizeof m.text, "%s", why);
    (void)send_message(fd, &m, NULL, 0);
}

/* Receives a message.
 *  ret_fds  FDS_MAX descriptors at most, which the caller closes.
 * Returns 1; 0 at the end of the connection, also if the message is none of this version; -1 with
 * errno. */
static int receive(int fd, message *ret, int *ret_fds, size_t *ret_len)
{
    control c;
    struct iovec part = {ret, sizeof *ret};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = c.bytes,
                            .msg_controllen = sizeof c.bytes};
    ssize_t got;
    while ((got = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        continue; /* with SO_RCVTIMEO, a signal interrupts it in any case */
    *ret_len = 0;
    if (got < 0)
        return errno == ECONNRESET ? 0 : -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *ret_len = (head->cmsg_len - CMSG_LEN(0)) / sizeof *ret_fds;
        memcpy(ret_fds, CMSG_DATA(head), *ret_len * sizeof *ret_fds);
    }
    if (got != (ssize_t)sizeof *ret || memcmp(ret->magic, magic, sizeof magic) != 0)
        return 0;
    ret->configured[sizeof ret->configured - 1] = '\0';
    ret->text[sizeof ret->text - 1] = '\0';
    return 1;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

/* Whether the process at the other end has the same user. Sets *ret_pid. */
static bool has_our_user(int fd, int *ret_pid)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;
    *ret_pid = (int)peer.pid;
    return known && peer.uid == geteuid();
}

/* ---- what the old process sends -------------------------------------------------------------- */

typedef struct batch {
    message m;
    int to;
    int fds[FDS_MAX];
    size_t len;
} batch;

static bool flush(batch *b)
{
    bool sent = b->len == 0 || send_message(b->to, &b->m, b->fds, b->len);
    b->len = 0;
    return sent;
}

static bool add_socket(void *ctx, int fd, const char *configured, bool inherits)
{
    batch *b = ctx;
    if ((b->len == FDS_MAX || strcmp(b->m.configured, configured) != 0 ||
         b->m.inherits != inherits) &&
        !flush(b))
        return false;
    snprintf(b->m.configured, sizeof b->m.configured, "%s", configured);
    b->m.inherits = inherits;
    b->fds[b->len++] = fd;
    return true;
}

/* Sends what the new process needs. Returns false, with the reason, if that fails. */
static bool send_all(net_hand_over *h, int to, char *ret_error, size_t size)
{
    batch b = {.m = message_of(SOCKETS), .to = to};
    int shared = -1;
    const net_hand_over_options *o = &h->options;
    if (o->prepare && !o->prepare(h->server_ctx, &shared, ret_error, size))
        return false;
    bool sent = weir_server_each_socket(h->server, add_socket, &b) && flush(&b);
    const message with = message_of(MEMORY);
    if (sent && shared >= 0)
        sent = send_message(to, &with, &shared, 1);
    sent = sent && send_plain(to, ALL);
    if (!sent)
        snprintf(ret_error, size, "cannot pass the sockets to the new process: %s",
                 strerror(errno));
    return sent;
}

/* ---- the end of an attempt ------------------------------------------------------------------- */

static void on_channel_closed(uv_handle_t *channel)
{
    net_hand_over *h = channel->data;
    h->polling = false;
}

static void close_channel(net_hand_over *h)
{
    if (h->fd < 0)
        return;
    uv_timer_stop(&h->timer);
    uv_close((uv_handle_t *)&h->channel, on_channel_closed);
    close(h->fd);
    h->fd = -1;
}

static void failed(net_hand_over *h, const char *why)
{
    char text[400];
    snprintf(text, sizeof text, "%s; this process goes on", why);
    if (h->options.failed)
        h->options.failed(h->server_ctx);
    weir_server_report(h->server, "hand-over-failed", text);
}

/* Gives up. A process that was started is killed, and on_child_exit() reports. */
static void give_up(net_hand_over *h, const char *why)
{
    if (h->fd < 0)
        return;
    send_refusal(h->fd, why);
    close_channel(h);
    if (h->spawned) {
        h->why = why;
        (void)uv_process_kill(&h->child, SIGKILL);
    } else {
        failed(h, why);
    }
}

static void on_child_closed(uv_handle_t *child)
{
    net_hand_over *h = child->data;
    h->spawned = false;
}

static void on_child_exit(uv_process_t *child, int64_t status, int signum)
{
    net_hand_over *h = child->data;
    char text[128];
    bool done = h->done;
    close_channel(h);
    uv_close((uv_handle_t *)child, on_child_closed);
    if (done)
        return;
    if (signum != 0)
        snprintf(text, sizeof text, "the new process was killed by signal %d before it served",
                 signum);
    else
        snprintf(text, sizeof text,
                 "the new process ended with status %d before it served; its log says why",
                 (int)status);
    failed(h, h->why ? h->why : text);
    h->why = NULL;
}

static void on_late(uv_timer_t *timer)
{
    give_up(timer->data, "the new process did not serve within 60 s");
}

/* ---- the steps of the old process ------------------------------------------------------------ */

static void on_serving(net_hand_over *h)
{
    h->done = true;
    net_hand_over_close(h);
    weir_server_hand_over(h->server, h->pid);
    (void)send_plain(h->fd, LEAVING);
    close_channel(h);
}

/* Makes sure that the new process has ended; on_child_exit() reports. */
static void end_child(net_hand_over *h)
{
    close_channel(h);
    (void)uv_process_kill(&h->child, SIGKILL);
}

static void on_message(uv_poll_t *channel, int status, int events)
{
    net_hand_over *h = channel->data;
    message m;
    int fds[FDS_MAX];
    size_t n;
    (void)events;
    int got = status < 0 ? 0 : receive(h->fd, &m, fds, &n);
    if (got < 0)
        return; /* nothing has arrived */
    if (status >= 0)
        close_all(fds, n);
    if (got > 0 && m.kind == SERVING)
        on_serving(h);
    else if (h->spawned)
        end_child(h);
    else
        give_up(h, "the new process ended before it served; its log says why");
}

/* Why no hand-over can begin; NULL if one can. */
static const char *find_obstacle(const net_hand_over *h)
{
    if (weir_server_stopping(h->server))
        return "weir is stopping";
    return h->fd >= 0 || h->polling || h->spawned ? "a hand-over is in progress" : NULL;
}

/* Begins to listen to a process that was sent everything. Takes the descriptor. */
static void await(net_hand_over *h, int fd, int pid)
{
    char text[64];
    h->fd = fd;
    h->pid = pid;
    h->polling = uv_poll_init(h->uv, &h->channel, fd) == 0;
    h->channel.data = h;
    snprintf(text, sizeof text, "process %d takes over", pid);
    weir_server_report(h->server, "hand-over", text);
    uv_poll_start(&h->channel, UV_READABLE, on_message);
    uv_timer_start(&h->timer, on_late, START_MS, 0);
}

/* The environment of the new process, as an array to be freed. Without the variables that a service
 * manager has set for this process alone. */
static char **environment_of(char *variable)
{
    static const char *const ours[] = {
        "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", NET_TAKE_OVER_VARIABLE "="};
    char watchdog[32];
    size_t n = 0, len = 0;
    snprintf(watchdog, sizeof watchdog, "WATCHDOG_PID=%d", port_process_id());
    while (environ[n])
        n++;
    char **env = port_zalloc(n + 2, sizeof *env);
    for (size_t i = 0; env && i < n; i++) {
        bool keep = strcmp(environ[i], watchdog) != 0;
        for (size_t k = 0; k < sizeof ours / sizeof ours[0]; k++)
            keep = keep && strncmp(environ[i], ours[k], strlen(ours[k])) != 0;
        if (keep)
            env[len++] = environ[i];
    }
    if (env)
        env[len] = variable;
    return env;
}

static int spawn(net_hand_over *h, int fd)
{
    char variable[32];
    uv_stdio_container_t stdio[CHILD_FD + 1];
    snprintf(variable, sizeof variable, "%s=%d", NET_TAKE_OVER_VARIABLE, CHILD_FD);
    for (int i = 0; i <= CHILD_FD; i++)
        stdio[i] =
            (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = i == CHILD_FD ? fd : i};
    char **env = environment_of(variable);
    if (!env)
        return UV_ENOMEM;
    const uv_process_options_t options = {.exit_cb = on_child_exit,
                                          .file = h->options.argv[0],
                                          .args = (char **)h->options.argv,
                                          .env = env,
                                          .stdio = stdio,
                                          .stdio_count = CHILD_FD + 1};
    h->child.data = h;
    int err = uv_spawn(h->uv, &h->child, &options);
    port_free(env);
    h->spawned = true; /* libuv has opened the handle in any case */
    if (err != 0)
        uv_close((uv_handle_t *)&h->child, on_child_closed);
    return err;
}

void net_hand_over_start(net_hand_over *h)
{
    int fds[2];
    char text[400] = "";
    const char *obstacle = find_obstacle(h);
    if (!obstacle && port_process_id() == 1)
        obstacle = "weir is the first process of its container, which ends with it";
    if (!obstacle && !h->options.argv)
        obstacle = "the program is not known";
    if (obstacle) {
        weir_server_report(h->server, "hand-over-refused", obstacle);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        failed(h, "out of file descriptors");
        return;
    }
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK); /* the other end waits */
    int err = 0;
    bool sent = send_all(h, fds[0], text, sizeof text);
    if (sent)
        err = spawn(h, fds[1]);
    if (err != 0)
        snprintf(text, sizeof text, "cannot start %s: %s", h->options.argv[0], uv_strerror(err));
    close(fds[1]);
    if (sent && err == 0) {
        await(h, fds[0], uv_process_get_pid(&h->child));
    } else {
        close(fds[0]);
        failed(h, text);
    }
}

/* ---- the socket that a new process connects to ----------------------------------------------- */

static void on_connect(uv_poll_t *listener, int status, int events);

static void on_retry(uv_timer_t *retry)
{
    net_hand_over *h = retry->data;
    if (h->listen_fd >= 0)
        uv_poll_start(&h->listener, UV_READABLE, on_connect);
}

/* Waits before it accepts again: the connection is still there, and the loop would spin. */
static void pause_listener(net_hand_over *h)
{
    uv_poll_stop(&h->listener);
    uv_timer_start(&h->retry, on_retry, RETRY_MS, 0);
}

static void on_connect(uv_poll_t *listener, int status, int events)
{
    net_hand_over *h = listener->data;
    char text[400] = "";
    int pid;
    (void)status;
    (void)events;
    int fd = accept4(h->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        pause_listener(h);
        return;
    }
    const char *obstacle = find_obstacle(h);
    if (!has_our_user(fd, &pid))
        obstacle = "the new process has another user";
    if (obstacle) {
        send_refusal(fd, obstacle);
        close(fd);
        weir_server_report(h->server, "hand-over-refused", obstacle);
    } else if (send_all(h, fd, text, sizeof text)) {
        await(h, fd, pid);
    } else {
        send_refusal(fd, text);
        close(fd);
        failed(h, text);
    }
}

weir_status net_hand_over_listen(net_hand_over *h, char *ret_error, size_t size)
{
    if (!h->options.path)
        return WEIR_OK;
    weir_status st =
        weir_listen_packets(&h->socket_file, h->options.path, &h->listen_fd, ret_error, size);
    if (st == WEIR_OK && uv_poll_init(h->uv, &h->listener, h->listen_fd) != 0)
        st = WEIR_E_IO;
    if (st != WEIR_OK)
        return st;
    h->listener.data = h;
    uv_poll_start(&h->listener, UV_READABLE, on_connect);
    return st;
}

/* ---- open and close -------------------------------------------------------------------------- */

void net_hand_over_open(net_hand_over *h, struct weir_server *server, void *server_ctx,
                        uv_loop_t *uv, const net_hand_over_options *options)
{
    *h = (net_hand_over){.server = server,
                         .server_ctx = server_ctx,
                         .options = *options,
                         .uv = uv,
                         .listen_fd = -1,
                         .fd = -1};
    uv_timer_init(uv, &h->timer);
    uv_timer_init(uv, &h->retry);
    h->timer.data = h->retry.data = h;
}

void net_hand_over_cancel(net_hand_over *h)
{
    if (!h->done)
        give_up(h, "weir is stopping");
}

void net_hand_over_close(net_hand_over *h)
{
    if (!h->server || h->listen_fd < 0)
        return;
    if (h->listener.data)
        uv_close((uv_handle_t *)&h->listener, NULL);
    weir_listen_remove(&h->socket_file);
    close(h->listen_fd);
    h->listen_fd = -1;
}

/* ---- the new process ------------------------------------------------------------------------- */

static weir_status fail(net_take_over *t, char *ret_error, size_t size, const char *why)
{
    snprintf(ret_error, size, "cannot take over from the running daemon: %s", why);
    close_all(&t->fd, t->fd >= 0);
    close_all(&t->memory, t->memory >= 0);
    *t = NET_TAKE_OVER_NONE;
    return WEIR_E_IO;
}

/* The connection that the old process has left open; -1 if there is none. */
static int inherited(void)
{
    const char *text = getenv(NET_TAKE_OVER_VARIABLE);
    uint64_t fd;
    bool good = text && weir_decimal_read(text, strlen(text), INT32_MAX, &fd);
    unsetenv(NET_TAKE_OVER_VARIABLE);
    return good && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0 ? (int)fd : -1;
}

static void set_patience(int fd, int seconds)
{
    const struct timeval patience = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Keeps what a message has brought. Returns NULL, or what is wrong. */
static const char *keep(net_take_over *t, net_passed *passed, const message *m, const int *fds,
                        size_t n)
{
    const char *wrong = NULL;
    size_t kept = 0;
    if (m->kind == SOCKETS) {
        for (; kept < n && !wrong; kept++) {
            if (!net_passed_add(passed, fds[kept], m->configured, m->inherits != 0))
                wrong = "it has passed a descriptor that is not a listening socket, or too many";
        }
    } else if (m->kind == MEMORY && n == 1 && t->memory < 0) {
        t->memory = fds[0];
        kept = 1;
    } else if (m->kind != ALL) {
        wrong = "it has sent a message that this version of weir does not know";
    }
    close_all(fds + kept, n - kept);
    return wrong;
}

/* Why receive() has returned 0 or -1. */
static const char *why_no_message(int got)
{
    if (got == 0)
        return "it has ended, or has another version";
    return errno == EAGAIN ? "it has sent nothing for 60 s" : strerror(errno);
}

weir_status net_take_over_begin(net_take_over *ret, net_passed *passed, const char *path,
                                char *ret_error, size_t size)
{
    net_take_over t = NET_TAKE_OVER_NONE;
    message m = {.kind = 0};
    const char *wrong = NULL;
    char text[320];
    *ret = t;
    t.fd = inherited();
    if (t.fd < 0 && !path)
        return WEIR_OK;
    if (t.fd < 0) {
        t.fd = connect_to(path);
        snprintf(text, sizeof text, "%s: %s", path, strerror(errno));
        wrong = t.fd < 0 ? text : NULL;
    }
    if (!wrong && !has_our_user(t.fd, &t.pid))
        wrong = "it has another user";
    if (!wrong)
        set_patience(t.fd, START_S);
    while (!wrong && m.kind != ALL) {
        int fds[FDS_MAX];
        size_t n;
        int got = receive(t.fd, &m, fds, &n);
        if (got > 0 && m.kind != REFUSED) {
            wrong = keep(&t, passed, &m, fds, n);
            continue;
        }
        close_all(fds, n);
        wrong = got > 0 ? m.text : why_no_message(got);
    }
    if (wrong)
        return fail(&t, ret_error, size, wrong);
    *ret = t;
    return WEIR_OK;
}

bool net_take_over_end(net_take_over *t)
{
    message m;
    int fds[FDS_MAX];
    size_t n;
    if (t->fd < 0)
        return true;
    set_patience(t->fd, LEAVE_S);
    (void)send_plain(t->fd, SERVING);
    int got = receive(t->fd, &m, fds, &n);
    close_all(fds, n);
    close(t->fd);
    t->fd = -1;
    return !(got > 0 && m.kind == REFUSED);
}
