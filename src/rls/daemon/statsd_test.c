/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Statistics over UDP and TCP, to a server on the loopback interface. The time is the test's own. A
 * fake has the counters. */

#define _GNU_SOURCE

#include "rls/daemon/statsd.h"

#include "net/names_test.h"
#include "port/buffer.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS INT64_C(1000000000)

static weir_rls_stat stats[4096];
static size_t stats_len;

void weir_rls_each_stat(weir_rls *r, void (*fn)(void *ctx, const weir_rls_stat *stat), void *ctx)
{
    assert_ptr_equal(r, stats);
    for (size_t i = 0; i < stats_len; i++)
        fn(ctx, &stats[i]);
}

/* ---- a server -------------------------------------------------------------------------------- */

typedef struct server {
    int fd, client; /* -1: none */
    bool tcp;
    uint16_t port;
} server;

static server serve(bool tcp, uint16_t port)
{
    server s = {.client = -1, .tcp = tcp};
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    socklen_t len = sizeof a;
    int one = 1;
    s.fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    assert_int_equal(setsockopt(s.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(s.fd, (struct sockaddr *)&a, len), 0);
    if (tcp)
        assert_int_equal(listen(s.fd, 4), 0);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&a, &len), 0);
    s.port = ntohs(a.sin_port);
    return s;
}

static void stop(server *s)
{
    if (s->client >= 0)
        close(s->client);
    close(s->fd);
    s->fd = s->client = -1;
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* Receives what arrives next: a datagram, or bytes of the connection. */
static const char *receive(server *s)
{
    static char text[65536];
    if (s->tcp && s->client < 0) {
        assert_true(readable(s->fd, 10000));
        s->client = accept(s->fd, NULL, NULL);
        assert_true(s->client >= 0);
    }
    int fd = s->tcp ? s->client : s->fd;
    assert_true(readable(fd, 10000));
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return text;
}

static bool is_silent(const server *s)
{
    return !readable(s->client >= 0 ? s->client : s->fd, 0);
}

/* ---- the sender ------------------------------------------------------------------------------ */

static statsd *open_to(const server *to, const char *host)
{
    statsd_options o = {.flush_ns = 10 * SECOND_NS, .rls = (weir_rls *)stats};
    char address[64];
    snprintf(address, sizeof address, "%s://%s:%u", to->tcp ? "tcp" : "udp", host,
             (unsigned)to->port);
    assert_true(statsd_address_read(address, &o.address));
    statsd *s = statsd_open(&o);
    assert_non_null(s);
    return s;
}

static void set_two(uint64_t a, uint64_t b)
{
    stats[0] = (weir_rls_stat){.name = "ratelimit.a.total_hits", .value = a};
    stats[1] = (weir_rls_stat){.name = "ratelimit.b:1|x.total_hits", .value = b};
    stats_len = 2;
}

/* Tags are sorted, and what has a meaning in the protocol is replaced. */
static void tags_of_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {"ratelimit.a.total_hits.__build=1_2_3.__zone=x_y:3|c\n",
                                        "ratelimit.a.total_hits:3|c|#build:1_2_3,zone:x_y\n"};
    statsd_tags tags = {.len = 0};
    assert_null(statsd_add_tag(&tags, (weir_slice){"zone", 4}, (weir_slice){"x|y", 3}));
    assert_null(statsd_add_tag(&tags, (weir_slice){"build", 5}, (weir_slice){"1.2,3", 5}));
    assert_non_null(statsd_add_tag(&tags, (weir_slice){"build", 5}, (weir_slice){"2", 1}));
    assert_non_null(statsd_add_tag(&tags, (weir_slice){"", 0}, (weir_slice){"2", 1}));
    assert_non_null(statsd_add_tag(&tags, (weir_slice){"k", 1}, (weir_slice){"", 0}));
    for (int dog = 0; dog < 2; dog++) {
        server to = serve(false, 0);
        statsd_options o = {.flush_ns = SECOND_NS, .rls = (weir_rls *)stats, .tags = &tags};
        char address[64];
        snprintf(address, sizeof address, "%s://127.0.0.1:%u", dog ? "dogstatsd" : "udp",
                 (unsigned)to.port);
        assert_true(statsd_address_read(address, &o.address));
        statsd *s = statsd_open(&o);
        stats[0] = (weir_rls_stat){.name = "ratelimit.a.total_hits", .value = 3};
        stats_len = 1;
        statsd_tick(s, SECOND_NS);
        statsd_close(s); /* sends the line */
        assert_string_equal(receive(&to), lines[dog]);
        stop(&to);
    }
}

/* A datagram has room for as many tags as are possible. */
static void the_most_tags(void **state)
{
    (void)state;
    for (size_t size = 1; size <= STATSD_TAG_MAX + 1; size += STATSD_TAG_MAX / 2) {
        char key[STATSD_TAG_MAX + 1], address[64];
        statsd_tags tags = {.len = 0};
        size_t n = 0;
        memset(key, 'k', sizeof key);
        key[0] = 'a';
        while (!statsd_add_tag(&tags, (weir_slice){key, size}, (weir_slice){key, size})) {
            key[0]++;
            n++;
        }
        assert_int_equal(n, size == 1 ? STATSD_TAGS_MAX : size <= STATSD_TAG_MAX ? 7 : 0);
        server to = serve(false, 0);
        statsd_options o = {.flush_ns = SECOND_NS, .rls = (weir_rls *)stats, .tags = &tags};
        snprintf(address, sizeof address, "dogstatsd://127.0.0.1:%u", (unsigned)to.port);
        assert_true(statsd_address_read(address, &o.address));
        statsd *s = statsd_open(&o);
        stats[0] = (weir_rls_stat){.name = "n", .value = 1};
        stats_len = 1;
        statsd_tick(s, SECOND_NS);
        statsd_close(s);
        assert_int_equal(strlen(receive(&to)), strlen("n:1|c\n") + (n > 0) + n * (2 * size + 2));
        stop(&to);
    }
}

static void addresses(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",           "statsd:8125",   "udp://",       "udp://:1",       "udp://h",
        "udp://h:0",  "udp://h:65536", "udp://h:8x",   "udp://::1:8125", "udp://h/x:1",
        "http://h:1", "udp://[::1:1",  "udp://[]:1",   "tcp://h:",       "udp://u@h:1",
        "tcp:/hh:1",  "udp:/hh:1",     "udp://::1]:1",
    };
    statsd_address a = {0};
    assert_true(statsd_address_read("udp://127.0.0.1:8125", &a));
    assert_false(a.tcp);
    assert_string_equal(a.host, "127.0.0.1");
    assert_int_equal(a.port, 8125);
    assert_true(statsd_address_read("tcp://[::1]:65535", &a));
    assert_true(a.tcp);
    assert_string_equal(a.host, "::1");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (statsd_address_read(wrong[i], &a))
            fail_msg("accepted: %s", wrong[i]);
    }
    assert_int_equal(a.port, 65535);
}

/* Only increments are sent, when they are due. */
static void udp(void **state)
{
    (void)state;
    server to = serve(false, 0);
    statsd *s = open_to(&to, "127.0.0.1");
    set_two(3, 0);
    statsd_tick(s, 1 * SECOND_NS);
    statsd_tick(s, 10 * SECOND_NS);
    assert_true(is_silent(&to));
    statsd_tick(s, 11 * SECOND_NS);
    assert_string_equal(receive(&to), "ratelimit.a.total_hits:3|c\n");
    set_two(3, 7);
    statsd_tick(s, 20 * SECOND_NS);
    assert_true(is_silent(&to));
    statsd_tick(s, 21 * SECOND_NS);
    assert_string_equal(receive(&to), "ratelimit.b_1_x.total_hits:7|c\n");
    statsd_tick(s, 31 * SECOND_NS);
    assert_true(is_silent(&to));
    set_two(UINT64_MAX, 8);
    statsd_close(s); /* sends the rest */
    assert_string_equal(receive(&to), "ratelimit.a.total_hits:18446744073709551612|c\n"
                                      "ratelimit.b_1_x.total_hits:1|c\n");
    stop(&to);
}

/* A new counter may come before, between and behind the known ones. */
static void new_counters(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "aa", "b", "ba", "c"};
    server to = serve(false, 0);
    statsd *s = open_to(&to, "127.0.0.1");
    statsd_tick(s, 0);
    stats_len = 0;
    for (size_t i = 1; i < 5; i += 2)
        stats[stats_len++] = (weir_rls_stat){.name = names[i], .value = 1};
    statsd_tick(s, 20 * SECOND_NS);
    assert_string_equal(receive(&to), "aa:1|c\nba:1|c\n");
    stats_len = 0;
    for (size_t i = 0; i < 5; i++)
        stats[stats_len++] = (weir_rls_stat){.name = names[i], .value = 2};
    statsd_tick(s, 40 * SECOND_NS);
    assert_string_equal(receive(&to), "a:2|c\naa:1|c\nb:2|c\nba:1|c\nc:2|c\n");
    statsd_close(s);
    stop(&to);
}

/* Datagrams have at most 1432 bytes, and no line is divided. A name that is too long is dropped. */
static void datagrams(void **state)
{
    (void)state;
    enum { NAMES = 200 };
    static char names[NAMES][64], longest[2000];
    server to = serve(false, 0);
    statsd *s = open_to(&to, "127.0.0.1");
    stats_len = 0;
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "ratelimit.service.rate_limit.d.%03zu.total_hits", i);
        stats[stats_len++] = (weir_rls_stat){.name = names[i], .value = i + 1};
    }
    memset(longest, 'z', sizeof longest - 1);
    stats[stats_len++] = (weir_rls_stat){.name = longest, .value = 1};
    statsd_tick(s, 0);
    statsd_tick(s, 10 * SECOND_NS);
    size_t next = 0;
    while (next < NAMES) {
        char *line = (char *)receive(&to), *end;
        assert_true(strlen(line) <= 1432);
        for (; *line; line = end + 1) {
            char want[96];
            end = strchr(line, '\n');
            assert_non_null(end);
            snprintf(want, sizeof want, "%s:%zu|c", names[next], next + 1);
            assert_int_equal((size_t)(end - line), strlen(want));
            assert_memory_equal(line, want, strlen(want));
            next++;
        }
    }
    assert_true(is_silent(&to));
    statsd_counts counts = statsd_count(s);
    assert_int_equal(counts.sent, NAMES);
    assert_int_equal(counts.dropped, 1);
    statsd_close(s);
    stop(&to);
}

/* Ticks until the connection is made, at times before the next transmission. */
static void connect_to(statsd *s, server *to, int64_t *now_ns)
{
    statsd_tick(s, *now_ns);
    assert_true(readable(to->fd, 10000));
    to->client = accept(to->fd, NULL, NULL);
    assert_true(to->client >= 0);
    *now_ns += SECOND_NS / 100;
    statsd_tick(s, *now_ns);
}

/* While there is no server, increments add up. */
static void tcp_reconnects(void **state)
{
    (void)state;
    int64_t now_ns = SECOND_NS;
    server to = serve(true, 0);
    uint16_t port = to.port;
    stop(&to);
    statsd *s = open_to(&to, "127.0.0.1");
    set_two(1, 0);
    for (int i = 0; i < 30; i++, now_ns += SECOND_NS) /* refused */
        statsd_tick(s, now_ns);
    to = serve(true, port);
    set_two(5, 0);
    now_ns += 10 * SECOND_NS;
    statsd_tick(s, now_ns);
    connect_to(s, &to, &now_ns);
    now_ns += 10 * SECOND_NS;
    statsd_tick(s, now_ns);
    assert_string_equal(receive(&to), "ratelimit.a.total_hits:5|c\n");

    stop(&to); /* the server closes, and comes back */
    to = serve(true, port);
    set_two(9, 1);
    now_ns += 10 * SECOND_NS;
    statsd_tick(s, now_ns); /* notices that the connection is closed */
    now_ns += 10 * SECOND_NS;
    connect_to(s, &to, &now_ns);
    now_ns += 10 * SECOND_NS;
    statsd_tick(s, now_ns);
    assert_string_equal(receive(&to),
                        "ratelimit.a.total_hits:4|c\nratelimit.b_1_x.total_hits:1|c\n");
    assert_int_equal(statsd_count(s).dropped, 0);
    assert_int_equal(statsd_count(s).sent, 3);
    statsd_close(s);
    stop(&to);
}

/* A server that does not read delays nothing; the increments reach it later, or are counted. */
static void tcp_is_slow(void **state)
{
    (void)state;
    enum { NAMES = 4096 };
    static char names[NAMES][128];
    int64_t now_ns = SECOND_NS;
    server to = serve(true, 0);
    int small = 4096;
    assert_int_equal(setsockopt(to.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    statsd *s = open_to(&to, "127.0.0.1");
    connect_to(s, &to, &now_ns);
    stats_len = NAMES;
    uint64_t sum = 0, lines = 0;
    for (uint64_t round = 1; round <= 20; round++) {
        for (size_t i = 0; i < NAMES; i++) {
            snprintf(names[i], sizeof names[i], "%05zu%0*d", i, 100, 0);
            stats[i] = (weir_rls_stat){.name = names[i], .value = round};
        }
        now_ns += 10 * SECOND_NS;
        statsd_tick(s, now_ns);
    }
    static char text[1 << 20];
    size_t held = 0;
    while (sum < 20 * NAMES) { /* all increments arrive in the end */
        now_ns += 10 * SECOND_NS;
        statsd_tick(s, now_ns);
        assert_true(readable(to.client, 10000));
        ssize_t n = recv(to.client, text + held, sizeof text - 1 - held, 0);
        assert_true(n > 0);
        held += (size_t)n;
        text[held] = '\0';
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            sum += strtoull(strchr(line, ':') + 1, NULL, 10);
            lines++;
        }
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    assert_int_equal(sum, 20 * NAMES);
    assert_true(lines < 20 * NAMES); /* increments were added up */
    assert_int_equal(statsd_count(s).dropped, 0);
    statsd_close(s);
    stop(&to);
}

/* A name is looked up in a thread. */
static void a_name(void **state)
{
    (void)state;
    server to = serve(false, 0);
    statsd *s = open_to(&to, NAME_OF_LOOPBACK);
    set_two(1, 0);
    statsd_tick(s, 0);
    for (int64_t i = 1; statsd_count(s).sent == 0; i++) {
        assert_true(i < 10000);
        (void)readable(to.fd, 1);
        statsd_tick(s, i * 10 * SECOND_NS);
    }
    statsd_close(s);
    stop(&to);
}

/* A name that is still looked up, or does not exist, does not delay the end. */
static void no_such_name(void **state)
{
    (void)state;
    const server to = {.port = 9, .tcp = true};
    statsd *s = open_to(&to, "no-such-host.invalid");
    statsd_tick(s, 0);
    statsd_tick(s, 100 * SECOND_NS);
    assert_int_equal(statsd_count(s).sent, 0);
    statsd_close(s);
    statsd_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_of_lines),  cmocka_unit_test(the_most_tags),
        cmocka_unit_test(addresses),      cmocka_unit_test(udp),
        cmocka_unit_test(new_counters),   cmocka_unit_test(datagrams),
        cmocka_unit_test(tcp_reconnects), cmocka_unit_test(tcp_is_slow),
        cmocka_unit_test(a_name),         cmocka_unit_test(no_such_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
