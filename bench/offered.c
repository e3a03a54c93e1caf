/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* An open-loop load generator: it sends requests at a fixed rate, whether or not the server keeps
 * up, and measures latencies from the time at which each request was due. So it counts the time
 * that a request waits behind others. redis-benchmark is a closed loop: it sends only after a
 * reply, and misses that time (coordinated omission).
 *
 *     offered PORT take|incr RATE SECONDS    prints the 50th, 99th and 99.9th percentile, in us
 *
 * The server speaks RESP on 127.0.0.1. 50 connections send in turn, with random keys. The program
 * polls without sleeping, so it needs a core of its own. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS = 50,
    KEYS = 1000000,
    WAITING_MAX = 4096, /* unanswered requests of a connection; a power of two */
    REQUESTS_MAX = 1 << 24,
    GRACE_NS = 1000000000, /* to wait for the last replies */
};

typedef struct connection {
    int fd;
    int64_t due_ns[WAITING_MAX]; /* of the requests first .. last - 1, indexed modulo WAITING_MAX */
    size_t first, last;
    unsigned lines; /* lines received of the current reply */
} connection;

typedef struct load {
    connection connections[CONNECTIONS];
    int epoll;
    bool take;
    unsigned reply_lines;
    uint32_t *took_ns; /* the latency of each reply */
    size_t sent, answered;
    uint64_t seed;
} load;

static void die(const char *what)
{
    fprintf(stderr, "offered: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void open_connection(load *l, size_t i, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        die("connect");
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) != 0)
        die("epoll_ctl");
    l->connections[i].fd = fd;
}

/* Source: Numerical Recipes, a 64-bit linear congruential generator. */
static unsigned random_key(load *l)
{
    l->seed = l->seed * 6364136223846793005 + 1442695040888963407;
    return (unsigned)((l->seed >> 33) % KEYS);
}

static void send_request(load *l, int64_t due_ns)
{
    connection *c = &l->connections[l->sent++ % CONNECTIONS];
    char text[128];
    int len = snprintf(text, sizeof text,
                       l->take ? "*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$16\r\nkey:%012u\r\n"
                               : "*2\r\n$4\r\nINCR\r\n$16\r\nkey:%012u\r\n",
                       random_key(l));
    if (c->last - c->first == WAITING_MAX) {
        fprintf(stderr, "offered: the server is too slow for this rate\n");
        exit(1);
    }
    c->due_ns[c->last++ % WAITING_MAX] = due_ns;
    if (send(c->fd, text, (size_t)len, 0) != len)
        die("send");
}

static void receive(load *l, connection *c)
{
    char text[65536];
    ssize_t n = recv(c->fd, text, sizeof text, MSG_DONTWAIT);
    if (n <= 0)
        die("recv");
    int64_t received_ns = now_ns();
    const char *at = text, *end = text + n;
    for (const char *lf; (lf = memchr(at, '\n', (size_t)(end - at))); at = lf + 1) {
        if (++c->lines < l->reply_lines)
            continue;
        c->lines = 0;
        int64_t took = received_ns - c->due_ns[c->first++ % WAITING_MAX];
        l->took_ns[l->answered++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    }
}

static void receive_all(load *l)
{
    struct epoll_event events[CONNECTIONS];
    int n = epoll_wait(l->epoll, events, CONNECTIONS, 0);
    for (int i = 0; i < n; i++)
        receive(l, &l->connections[events[i].data.u64]);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const load *l, double part)
{
    return l->took_ns[(size_t)((double)(l->answered - 1) * part)] / 1e3;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: offered PORT take|incr RATE SECONDS\n");
        return 2;
    }
    double rate = atof(argv[3]), seconds = atof(argv[4]);
    size_t requests = (size_t)(rate * seconds);
    load *l = calloc(1, sizeof *l);
    if (!l || requests < 1 || requests > REQUESTS_MAX)
        die("bad arguments");
    l->took_ns = calloc(requests, sizeof *l->took_ns);
    l->epoll = epoll_create1(0);
    l->take = strcmp(argv[2], "take") == 0;
    l->reply_lines = l->take ? 7 : 1;
    l->seed = 1;
    if (!l->took_ns || l->epoll < 0)
        die("cannot start");
    for (size_t i = 0; i < CONNECTIONS; i++)
        open_connection(l, i, (uint16_t)atoi(argv[1]));
    int64_t begin_ns = now_ns(), end_ns = begin_ns + (int64_t)(seconds * 1e9) + GRACE_NS;
    while (l->answered < requests) {
        int64_t t = now_ns();
        while (l->sent < requests) {
            int64_t due_ns = begin_ns + (int64_t)((double)l->sent / rate * 1e9);
            if (due_ns > t)
                break;
            send_request(l, due_ns);
        }
        receive_all(l);
        if (t > end_ns)
            die("some replies did not arrive");
    }
    qsort(l->took_ns, l->answered, sizeof *l->took_ns, by_size);
    printf("%.1f %.1f %.1f\n", percentile_us(l, 0.5), percentile_us(l, 0.99),
           percentile_us(l, 0.999));
    return 0;
}
