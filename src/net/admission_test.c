/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The connections of each client: the table against a model, and a server that is full. */

#include "net/fixture_test.h"

#include "net/clients.h"

enum { CLIENTS = 300, MAX = 3 };

static net_client client_number(unsigned i)
{
    weir_peer_address a = {.v6 = i % 2 == 1, .bytes = {10, 1, (uint8_t)(i >> 8), (uint8_t)i}};
    return net_client_of(&a);
}

static void test_table(void **unused)
{
    (void)unused;
    net_admission a;
    int model[CLIENTS] = {0};
    uint64_t random = 1;
    assert_int_equal(net_admission_open(&a), WEIR_OK);
    for (int i = 0; i < 200000; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        unsigned k = (unsigned)(random >> 40) % CLIENTS;
        const net_client c = client_number(k);
        bool leave = random >> 33 & 1 && (i / 20000 % 2 || random >> 34 & 1);
        if (leave && model[k] > 0) {
            net_admission_leave(&a, &c);
            model[k]--;
        } else if (!leave) {
            assert_int_equal(net_admission_enter(&a, &c, MAX),
                             model[k] < MAX ? WEIR_OK : WEIR_E_BUSY);
            model[k] += model[k] < MAX;
        }
    }
    size_t used = 0;
    for (unsigned k = 0; k < CLIENTS; k++) {
        const net_client c = client_number(k);
        used += model[k] > 0;
        for (; model[k] > 0; model[k]--)
            net_admission_leave(&a, &c);
    }
    assert_true(used > 0);
    assert_int_equal(a.used, 0);
    net_admission_close(&a);
}

static void enter_all(void *ctx)
{
    for (unsigned i = 0; i < 10 * CLIENTS; i++) {
        const net_client c = client_number(i % CLIENTS);
        expect_in_thread(net_admission_enter(ctx, &c, 10 * CLIENTS) == WEIR_OK);
    }
}

/* Threads count while the table grows. */
static void test_threads(void **unused)
{
    enum { THREADS = 4 };
    (void)unused;
    net_admission a;
    port_thread *threads[THREADS];
    assert_int_equal(net_admission_open(&a), WEIR_OK);
    for (int i = 0; i < THREADS; i++)
        assert_non_null(threads[i] = port_thread_start(enter_all, &a));
    for (int i = 0; i < THREADS; i++)
        port_thread_join(threads[i]);
    for (unsigned i = 0; i < 10 * THREADS * CLIENTS; i++) {
        const net_client c = client_number(i % CLIENTS);
        net_admission_leave(&a, &c);
    }
    assert_int_equal(a.used, 0);
    net_admission_close(&a);
}

static bool are_equal(const net_client *a, const net_client *b)
{
    return a->address == b->address && a->family == b->family;
}

/* An IPv4 address is a client, and so is an IPv6 /64; loopback addresses are none. */
static void test_clients(void **unused)
{
    (void)unused;
    weir_peer_address v4 = {.bytes = {192, 0, 2, 7}, .port = 1}, other = v4;
    other.port = 2;
    net_client a = net_client_of(&v4), b = net_client_of(&other);
    assert_true(are_equal(&a, &b));
    other.bytes[3] = 8;
    b = net_client_of(&other);
    assert_false(are_equal(&a, &b));
    weir_peer_address v6 = {.v6 = true, .bytes = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 5}}, near = v6;
    near.bytes[15] = 1;
    a = net_client_of(&v6);
    b = net_client_of(&near);
    assert_true(are_equal(&a, &b));
    near.bytes[7] = 2;
    b = net_client_of(&near);
    assert_false(are_equal(&a, &b));
    const weir_peer_address local[] = {
        {.bytes = {127, 0, 0, 1}}, {.bytes = {127, 9, 9, 9}}, {.v6 = true, .bytes = {[15] = 1}}};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        assert_int_equal(net_client_of(&local[i]).family, 0);
    assert_int_equal(net_admission_reserved(31), 0);
    assert_int_equal(net_admission_reserved(32), 1);
    assert_int_equal(net_admission_reserved(10000), 32);
}

/* ---- a server -------------------------------------------------------------------------------- */

/* Lines, with a session for clients that are refused: they get "HEALTH" for "health". */
typedef struct health_session {
    line_session lines;
    bool only_health;
} health_session;

static void only_health(void *session)
{
    ((health_session *)session)->only_health = true;
}

static weir_session_step run_health(void *session, weir_buffer *in, weir_buffer *out,
                                    size_t out_pause, int64_t now_ns)
{
    const health_session *s = session;
    if (!s->only_health)
        return line_run(session, in, out, out_pause, now_ns);
    if (weir_buffer_len(in) == 0)
        return (weir_session_step){.next = WEIR_SESSION_READ};
    bool asked = weir_buffer_len(in) == 7 && memcmp(weir_buffer_data(in), "health\n", 7) == 0;
    put(out, asked ? "HEALTH\n" : "BUSY\n");
    weir_buffer_consume(in, weir_buffer_len(in));
    return (weir_session_step){.next = WEIR_SESSION_CLOSE};
}

static const weir_protocol healthy = {.session_size = sizeof(health_session),
                                      .open = line_open,
                                      .close = line_close,
                                      .run = run_health,
                                      .only_health = only_health,
                                      .refusal = "REFUSED\n"};

enum { PLACES = 64, KEPT = 2 };

/* Loopback clients cannot take the connections that are reserved for Unix sockets. The next ones
 * may still ask for the health, however many others have not. */
static void test_kept_connections(void **unused)
{
    (void)unused;
    fixture f;
    char path[128];
    prepare(&f, 1);
    snprintf(path, sizeof path, "%s/s", f.dir);
    f.options.limits.connections = PLACES;
    f.listens[0].protocol = &healthy;
    f.listens[1] = (weir_listen_address){.address = path, .protocol = &lines};
    f.options.listens_len = 2;
    start(&f);
    int fds[PLACES], silent[200];
    for (int i = 0; i < PLACES - KEPT; i++) {
        fds[i] = client(&f);
        ask(fds[i], "in\n");
    }
    assert_true(weir_server_is_full(f.server));
    for (int i = 0; i < 200; i++)
        silent[i] = client(&f);
    int asks = client(&f), takes = client(&f);
    say(takes, "take\n");
    expect(takes, "BUSY\n");
    expect_end(takes);
    say(asks, "health\n");
    expect(asks, "HEALTH\n");
    expect_end(asks);
    for (int i = PLACES - KEPT; i < PLACES; i++) {
        fds[i] = connect_to(path);
        ask(fds[i], "in\n");
    }
    int last = connect_to(path);
    expect(last, "REFUSED\n");
    expect_end(last);
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.connected, PLACES);
    assert_int_equal(stats.refused, 203);
    assert_int_equal(stats.refused_address, 0);
    for (int i = 0; i < PLACES; i++)
        close(fds[i]);
    for (int i = 0; i < 200; i++)
        close(silent[i]);
    stop(&f);
}

/* Connects to a listener with proxy_protocol as the client with this address. */
static int proxied(const fixture *f, const char *address)
{
    char head[128];
    int fd = client(f);
    snprintf(head, sizeof head, "PROXY %s %s %s 1 2\r\n", strchr(address, ':') ? "TCP6" : "TCP4",
             address, address);
    say(fd, head);
    return fd;
}

static bool trusts(void *ctx, const weir_peer_address *proxy)
{
    (void)ctx;
    return proxy->bytes[0] == 127 || proxy->bytes[0] == 10;
}

/* Each client has its own number of connections, and gets them back. */
static void test_per_address(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    f.options.limits.per_address = MAX;
    f.options.may_proxy = trusts;
    f.listens[0].proxy_protocol = true;
    start(&f);
    static const struct {
        const char *first, *next, *other;
    } clients[] = {{"192.0.2.7", "192.0.2.7", "192.0.2.8"},
                   {"2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"}};
    for (int i = 0; i < 2; i++) {
        int fds[MAX], other = proxied(&f, clients[i].other);
        for (int k = 0; k < MAX; k++) {
            fds[k] = proxied(&f, clients[i].first);
            ask(fds[k], "in\n");
        }
        int refused = proxied(&f, clients[i].next);
        expect(refused, "REFUSED\n");
        expect_end(refused);
        ask(other, "in\n");
        shutdown(fds[0], SHUT_WR);
        expect_end(fds[0]);
        fds[0] = proxied(&f, clients[i].next);
        ask(fds[0], "in\n");
        for (int k = 0; k < MAX; k++)
            close(fds[k]);
        close(other);
    }
    for (int i = 0; i < 2; i++) { /* a proxy, and a loopback address */
        int fds[2 * MAX];
        for (int k = 0; k < 2 * MAX; k++) {
            fds[k] = proxied(&f, i == 0 ? "10.0.0.1" : "127.0.0.1");
            ask(fds[k], "in\n");
        }
        for (int k = 0; k < 2 * MAX; k++)
            close(fds[k]);
    }
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.refused_address, 2);
    stop(&f);
}

static bool from_afar; /* clients seem to have another address than a loopback one */

bool __real_weir_listen_peer(int fd, weir_peer_address *ret);
bool __wrap_weir_listen_peer(int fd, weir_peer_address *ret);

bool __wrap_weir_listen_peer(int fd, weir_peer_address *ret)
{
    bool known = __real_weir_listen_peer(fd, ret);
    if (known && from_afar)
        *ret = (weir_peer_address){.bytes = {192, 0, 2, 7}, .port = ret->port};
    return known;
}

/* A client that connects itself, and not from this machine. It cannot take the connections that are
 * reserved for loopback clients and for Unix sockets. */
static void test_direct_clients(void **unused)
{
    (void)unused;
    for (int per_address = 0; per_address <= MAX; per_address += MAX) {
        int most = per_address > 0 ? MAX : PLACES - 2 * KEPT;
        int fds[PLACES];
        fixture f;
        prepare(&f, 1);
        f.options.limits.connections = PLACES;
        f.options.limits.per_address = per_address;
        start(&f);
        from_afar = true;
        for (int i = 0; i < most; i++) {
            fds[i] = client(&f);
            ask(fds[i], "in\n");
        }
        for (int i = 0; i < 2; i++) {
            int refused = client(&f);
            expect(refused, "REFUSED\n");
            expect_end(refused);
            close(refused);
        }
        weir_server_stats stats = weir_server_stats_get(f.server);
        assert_int_equal(stats.connected, most);
        assert_int_equal(stats.refused, 2);
        assert_int_equal(stats.refused_address, per_address > 0 ? 2 : 0);
        shutdown(fds[0], SHUT_WR);
        expect_end(fds[0]);
        close(fds[0]);
        fds[0] = client(&f);
        ask(fds[0], "in\n");
        from_afar = false;
        int local = client(&f);
        ask(local, "in\n");
        close(local);
        for (int i = 0; i < most; i++)
            close(fds[i]);
        stop(&f);
    }
}

/* The limit on a client can be set, changed and removed. Connections that were opened without one
 * are not counted. */
static void test_other_limit_per_address(void **unused)
{
    (void)unused;
    int fds[3];
    fixture f;
    prepare(&f, 2);
    start(&f);
    from_afar = true;
    fds[0] = client(&f);
    ask(fds[0], "in\n");
    f.options.limits.per_address = 1;
    change_limits(&f);
    fds[1] = client(&f);
    ask(fds[1], "in\n");
    int refused = client(&f);
    expect(refused, "REFUSED\n");
    expect_end(refused);
    f.options.limits.per_address = 0;
    change_limits(&f);
    fds[2] = client(&f);
    ask(fds[2], "in\n");
    f.options.limits.per_address = 2;
    change_limits(&f);
    shutdown(fds[1], SHUT_WR);
    expect_end(fds[1]);
    for (int i = 1; i <= 2; i++) {
        close(fds[i]);
        fds[i] = client(&f);
        ask(fds[i], "in\n");
    }
    from_afar = false;
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    assert_int_equal(weir_server_stats_get(f.server).refused_address, 1);
    stop(&f);
}

/* A client that a PROXY header names and that has too many connections takes no place of others
 * while it is refused, and may ask for the health. */
static void test_refused_behind_a_proxy(void **unused)
{
    enum { REFUSED = 100 };
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.connections = 4;
    f.options.limits.per_address = 1;
    f.options.may_proxy = trusts;
    f.listens[0].proxy_protocol = true;
    f.listens[0].protocol = &healthy;
    start(&f);
    int first = proxied(&f, "192.0.2.7"), other = proxied(&f, "192.0.2.8"), fds[REFUSED];
    ask(first, "in\n");
    ask(other, "in\n");
    for (int i = 0; i < REFUSED; i++) {
        fds[i] = proxied(&f, "192.0.2.7");
        while (weir_server_stats_get(f.server).refused_address <= (uint64_t)i)
            sched_yield(); /* until then, it has a place */
    }
    int asks = proxied(&f, "192.0.2.7");
    say(asks, "health\n");
    expect(asks, "HEALTH\n");
    expect_end(asks);
    int takes = proxied(&f, "192.0.2.7");
    say(takes, "take\n");
    expect(takes, "BUSY\n");
    expect_end(takes);
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.connected, 2);
    assert_int_equal(stats.refused_address, REFUSED + 2);
    int third = proxied(&f, "192.0.2.9"), fourth = proxied(&f, "192.0.2.10");
    ask(third, "in\n");
    ask(fourth, "in\n");
    int full = proxied(&f, "192.0.2.7"); /* there is no place, so its client is not counted */
    say(full, "health\n");
    expect(full, "HEALTH\n");
    expect_end(full);
    stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.connected, 4);
    assert_int_equal(stats.refused, REFUSED + 3);
    assert_int_equal(stats.refused_address, REFUSED + 2);
    const int all[] = {first, other, asks, takes, third, fourth, full};
    for (int i = 0; i < 7; i++)
        close(all[i]);
    for (int i = 0; i < REFUSED; i++)
        close(fds[i]);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),          cmocka_unit_test(test_threads),
        cmocka_unit_test(test_clients),        cmocka_unit_test(test_kept_connections),
        cmocka_unit_test(test_per_address),    cmocka_unit_test(test_refused_behind_a_proxy),
        cmocka_unit_test(test_direct_clients), cmocka_unit_test(test_other_limit_per_address),
    };
    return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
