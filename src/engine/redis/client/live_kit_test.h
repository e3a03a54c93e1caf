/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_LIVE_KIT_TEST_H
#define WEIR_ENGINE_REDIS_LIVE_KIT_TEST_H
/* A kit for tests with real servers: a dialer over poll(2); and servers that run on free ports of
 * 127.0.0.1, in a directory of their own, and are stopped by their process ids. */

#include "port/dial.h"
#include "port/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIVE_CONNECTIONS = 64, LIVE_ALARMS = 256, LIVE_SERVERS = 8 };

struct port_connection {
    bool used, up;
    int fd;
    weir_buffer in, out;
    port_connection_events events;
    void *ctx;
};

struct port_timer {
    bool used;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

static struct port_connection live_connection[LIVE_CONNECTIONS];
static struct port_timer live_alarm[LIVE_ALARMS];

/* ---- the dialer ------------------------------------------------------------------------------ */

static int connect_to(const port_endpoint *to)
{
    struct sockaddr_un file = {.sun_family = AF_UNIX};
    struct sockaddr_in net = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    bool is_file = to->host[0] == '/';
    snprintf(file.sun_path, sizeof file.sun_path, "%s", to->host);
    if (!is_file && inet_pton(AF_INET, to->host, &net.sin_addr) != 1)
        net.sin_addr.s_addr = htonl(INADDR_LOOPBACK); /* a name */
    int fd = socket(is_file ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr *at = is_file ? (const void *)&file : (const void *)&net;
    if (connect(fd, at, is_file ? sizeof file : sizeof net) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static port_connection *live_dial(port_dialer *d, const port_endpoint *to,
                                  const port_connection_events *events, void *ctx)
{
    (void)d;
    for (size_t i = 0; i < LIVE_CONNECTIONS; i++) {
        port_connection *l = &live_connection[i];
        if (l->used)
            continue;
        *l = (port_connection){.used = true, .fd = connect_to(to), .events = *events, .ctx = ctx};
        weir_buffer_init(&l->in, 1 << 26);
        weir_buffer_init(&l->out, 1 << 26);
        return l;
    }
    return NULL;
}

static weir_buffer *live_out(port_connection *l)
{
    return &l->out;
}

static void live_send(port_connection *l)
{
    (void)l;
}

static void live_hang_up(port_connection *l)
{
    if (l->fd >= 0)
        close(l->fd);
    weir_buffer_free(&l->in);
    weir_buffer_free(&l->out);
    l->used = false;
}

static port_timer *live_alarm_new(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    (void)d;
    for (size_t i = 0; i < LIVE_ALARMS; i++) {
        if (live_alarm[i].used)
            continue;
        live_alarm[i] = (port_timer){true, fn, ctx, INT64_MAX};
        return &live_alarm[i];
    }
    return NULL;
}

static void live_set(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
}

static void live_drop(port_timer *a)
{
    if (a)
        a->used = false;
}

static int64_t live_now(port_dialer *d)
{
    (void)d;
    return port_now_ns();
}

static const port_dialer_calls live_calls = {live_dial,      live_out, live_send, live_hang_up,
                                             live_alarm_new, live_set, live_drop, live_now};
static port_dialer live_dialer = {&live_calls};

static void end_connection(port_connection *l, const char *why)
{
    port_connection gone = *l;
    live_hang_up(l);
    gone.events.closed(gone.ctx, why, port_now_ns());
}

static void read_connection(port_connection *l)
{
    char bytes[65536];
    ssize_t n = read(l->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        end_connection(l, n < 0 ? strerror(errno) : "it closed the connection");
        return;
    }
    weir_buffer_append(&l->in, bytes, (size_t)n);
    l->events.received(l->ctx, &l->in, port_now_ns());
}

static void write_connection(port_connection *l)
{
    if (!l->up) {
        int err = 0;
        socklen_t len = sizeof err;
        getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &err, &len);
        if (err != 0) {
            end_connection(l, strerror(err));
            return;
        }
        l->up = true;
        l->events.connected(l->ctx, port_now_ns());
        return;
    }
    ssize_t n = send(l->fd, weir_buffer_data(&l->out), weir_buffer_len(&l->out), MSG_NOSIGNAL);
    if (n > 0)
        weir_buffer_consume(&l->out, (size_t)n);
    else if (errno != EAGAIN)
        end_connection(l, strerror(errno));
}

static void ring_alarms(void)
{
    int64_t now_ns = port_now_ns();
    for (size_t i = 0; i < LIVE_ALARMS; i++) {
        port_timer *a = &live_alarm[i];
        if (!a->used || a->at_ns > now_ns)
            continue;
        a->at_ns = INT64_MAX;
        a->fn(a->ctx, now_ns);
    }
}

/* One iteration of the event loop, of at most 2 ms. */
static void iterate(void)
{
    struct pollfd p[LIVE_CONNECTIONS];
    for (size_t i = 0; i < LIVE_CONNECTIONS; i++) {
        port_connection *l = &live_connection[i];
        p[i] = (struct pollfd){l->used ? l->fd : -1, POLLIN, 0};
        if (l->used && l->fd >= 0 && (!l->up || weir_buffer_len(&l->out) > 0))
            p[i].events |= POLLOUT;
    }
    poll(p, LIVE_CONNECTIONS, 2);
    for (size_t i = 0; i < LIVE_CONNECTIONS; i++) {
        port_connection *l = &live_connection[i];
        if (l->used && l->fd < 0)
            end_connection(l, "connection refused");
        else if (l->used && l->fd == p[i].fd && (p[i].revents & POLLOUT))
            write_connection(l);
        else if (l->used && l->fd == p[i].fd && l->up && p[i].revents)
            read_connection(l);
        else if (l->used && l->fd == p[i].fd && p[i].revents)
            write_connection(l);
    }
    ring_alarms();
}

/* ---- servers --------------------------------------------------------------------------------- */

typedef struct live_server {
    int port;
    pid_t pid;
    char args[40][128];
    int args_len;
} live_server;

static char live_folder[64] = "/tmp";
static live_server live_servers[LIVE_SERVERS];
static int live_servers_len;

/* A free port; the port of the Cluster bus, 10000 above it, is free, too. */
static int free_port(void)
{
    for (int i = 0; i < 1000; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET};
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t len = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool good = bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                    getsockname(fd, (struct sockaddr *)&at, &len) == 0;
        close(fd);
        if (good && ntohs(at.sin_port) < 55000)
            return ntohs(at.sin_port);
    }
    fail_msg("no free port");
    return 0;
}

static pid_t run(char *const *argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    if (!getenv("LIVE_SAY"))
        dup2(null, 2);
    if (chdir(live_folder) == 0)
        execvp(argv[0], argv);
    _exit(127);
}

static void start(live_server *s)
{
    char port[16], file[32], conf[32];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(file, sizeof file, "%d.rdb", s->port);
    snprintf(conf, sizeof conf, "nodes-%d.conf", s->port);
    char *argv[64] = {"redis-server",
                      "--port",
                      port,
                      "--bind",
                      "127.0.0.1",
                      "--save",
                      "",
                      "--dbfilename",
                      file,
                      "--cluster-config-file",
                      conf};
    int n = 11;
    for (int i = 0; i < s->args_len; i++)
        argv[n++] = s->args[i];
    s->pid = run(argv);
}

static live_server *start_server(int args_len, const char *const *args)
{
    live_server *s = &live_servers[live_servers_len++];
    *s = (live_server){.port = free_port(), .args_len = args_len};
    for (int i = 0; i < args_len; i++)
        snprintf(s->args[i], sizeof s->args[i], "%s", args[i]);
    start(s);
    return s;
}

static void stop_server(live_server *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    s->pid = 0;
}

/* Runs a program for at most 30 s. Returns its exit status. */
static int run_to_end(char *const *argv)
{
    pid_t pid = run(argv);
    for (int64_t until_ns = port_steady_ns() + 30000000000; port_steady_ns() < until_ns;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        iterate();
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
}

static int live_setup(void **state)
{
    (void)state;
    memset(live_connection, 0, sizeof live_connection);
    memset(live_alarm, 0, sizeof live_alarm);
    live_servers_len = 0;
    strcpy(live_folder, "/tmp/weir-live-XXXXXX");
    return mkdtemp(live_folder) ? 0 : -1;
}

static int live_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < live_servers_len; i++)
        stop_server(&live_servers[i]);
    char *argv[] = {"rm", "-rf", live_folder, NULL};
    return run_to_end(argv);
}

#endif
