/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The sessions of each protocol in a daemon, and the limits of spoe. The server,
 * its connections and the state file's place are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create, memmem */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon_kit_test.h"
#include "codec/http/session.h"
#include "codec/spop/kit_test.h"
#include "tests/kit/kit.h"

#include <sys/stat.h>

/* The first protocol that a guest brings. */
#define PROTOCOL_SPOE PROTOCOLS_OWN

#define BYTES(text) text, sizeof(text) - 1

static const uint64_t second_ns = 1000000000;

/* ---- fake connections ------------------------------------------------------------------------ */

static struct {
    size_t listener;
    int woken, closed;
} connection;

size_t __wrap_weir_server_listener(const void *wake_ctx);
void __wrap_weir_server_peer(const void *wake_ctx, char ret[static WEIR_PEER_TEXT_MAX]);
bool __wrap_weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret);

size_t __wrap_weir_server_listener(const void *wake_ctx)
{
    assert_ptr_equal(wake_ctx, &connection);
    return connection.listener;
}

void __wrap_weir_server_peer(const void *wake_ctx, char ret[static WEIR_PEER_TEXT_MAX])
{
    assert_ptr_equal(wake_ctx, &connection);
    strcpy(ret, "10.1.2.3:4");
}

bool __wrap_weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret)
{
    assert_ptr_equal(wake_ctx, &connection);
    *ret = (weir_peer_address){.bytes = {10, 1, 2, 3}};
    return true;
}

void __wrap_weir_resp_session_close(weir_resp_session *s);
void __real_weir_resp_session_close(weir_resp_session *s);
void __wrap_weir_http_session_close(weir_http_session *s);
void __real_weir_http_session_close(weir_http_session *s);
void __wrap_weir_spop_session_close(weir_spop_session *s);
void __real_weir_spop_session_close(weir_spop_session *s);

void __wrap_weir_resp_session_close(weir_resp_session *s)
{
    connection.closed++;
    __real_weir_resp_session_close(s);
}

void __wrap_weir_http_session_close(weir_http_session *s)
{
    connection.closed++;
    __real_weir_http_session_close(s);
}

void __wrap_weir_spop_session_close(weir_spop_session *s)
{
    connection.closed++;
    __real_weir_spop_session_close(s);
}

static void wake(void *wake_ctx)
{
    assert_ptr_equal(wake_ctx, &connection);
    connection.woken++;
}

typedef struct session {
    const weir_protocol *protocol;
    void *at;
    weir_buffer in, out;
    weir_session_next next;
} session;

static void open_session(session *s, protocol_kind kind)
{
    *s = (session){.protocol = &protocol_of(kind)->session};
    connection.listener = kind; /* the listeners of the configuration are in this order */
    s->at = calloc(1, s->protocol->session_size);
    assert_non_null(s->at);
    weir_buffer_init(&s->in, 1 << 20);
    weir_buffer_init(&s->out, 1 << 20);
    s->protocol->open(s->at, fake.loop, wake, &connection);
}

static void close_session(session *s)
{
    s->protocol->close(s->at);
    weir_buffer_free(&s->in);
    weir_buffer_free(&s->out);
    free(s->at);
}

static int64_t now(void)
{
    return fake.server.now(fake.server.ctx);
}

/* Sends bytes, three seconds ago. Keeps the output in `out`. */
static void send_bytes(session *s, const void *bytes, size_t len)
{
    weir_buffer_clear(&s->out);
    weir_buffer_append(&s->in, bytes, len);
    s->next =
        s->protocol->run(s->at, &s->in, &s->out, 1 << 16, now() - (int64_t)(3 * second_ns)).next;
}

static void expect_output(const session *s, const void *bytes, size_t len)
{
    if (!memmem(weir_buffer_data(&s->out), weir_buffer_len(&s->out), bytes, len))
        fail_msg("found: %.*s", (int)weir_buffer_len(&s->out), weir_buffer_data(&s->out));
}

static weir_latency latency_before;

/* Expects n more decisions that took three seconds each. */
static void expect_latency(uint64_t n)
{
    weir_latency l = weir_limiter_latency(weir_service_limiter(fake.loop->service));
    uint64_t more = 0;
    for (size_t i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        more += l.count[i] - latency_before.count[i];
    assert_int_equal(more, n);
    assert_in_range(l.sum_ns - latency_before.sum_ns, n * 3 * second_ns,
                    n * 3 * second_ns + second_ns);
    latency_before = l;
}

/* ---- every protocol -------------------------------------------------------------------------- */

static void use_resp(void)
{
    session s;
    open_session(&s, PROTOCOL_RESP);
    send_bytes(&s, BYTES("AUTH wrong\r\n"));
    send_bytes(&s, BYTES("AUTH secret\r\nWEIR.CHECK a k\r\nCLIENT ID\r\n"));
    expect_output(&s, BYTES("+OK\r\n"));
    expect_output(&s, BYTES(":1\r\n"));
    expect_latency(1);
    assert_int_equal(metric("weir_wrong_passwords_total{protocol=\"resp\"}"), 1);
    weir_resp_session *resp = s.at;
    resp->completion.ready(resp->completion.ctx);
    assert_int_equal(connection.woken, 1);
    send_bytes(&s, BYTES("PING\r\n"));
    expect_latency(0);
    close_session(&s);
}

static void use_http(void)
{
    session s;
    open_session(&s, PROTOCOL_HTTP);
    send_bytes(&s, BYTES("GET /v1/take?policy=a&key=b HTTP/1.1\r\nHost: localhost\r\n"
                         "Authorization: Bearer secret\r\n\r\n"));
    expect_output(&s, BYTES("HTTP/1.1 200 OK\r\n"));
    expect_output(&s, BYTES("\r\nX-RateLimit-Limit: "));
    expect_latency(1);
    send_bytes(&s, BYTES("GET /v1/take?policy=a&key=b HTTP/1.1\r\nHost: localhost\r\n"
                         "Authorization: Bearer secret\r\n\r\n"));
    expect_output(&s, BYTES("HTTP/1.1 418 "));
    expect_latency(1);
    assert_false(s.protocol->usage(s.at).mid_request);
    send_bytes(&s, BYTES("GET /readyz HTTP/1.1\r\nHost: "));
    assert_true(s.protocol->usage(s.at).mid_request);
    fake.stopping = true;
    send_bytes(&s, BYTES("localhost\r\n\r\n"));
    expect_output(&s, BYTES("HTTP/1.1 503 "));
    fake.stopping = false;
    send_bytes(&s, BYTES("GET /v1/take?policy=a&key=b HTTP/1.1\r\nHost: localhost\r\n"
                         "Authorization: Bearer wrong\r\n\r\n"));
    expect_output(&s, BYTES("HTTP/1.1 401 "));
    assert_int_equal(metric("weir_wrong_passwords_total{protocol=\"http\"}"), 1);
    weir_http_session *http = s.at;
    http->completion.ready(http->completion.ctx);
    assert_int_equal(connection.woken, 2);
    close_session(&s);
}

/* The address of the connection is the client's, and a trusted proxy names another. */
static void use_http_with_a_proxy(void)
{
    session s;
    open_session(&s, PROTOCOL_HTTP);
    static const struct {
        const char *header, *remaining;
    } rows[] = {{"", "1"}, {"X-Client: 10.1.2.3\r\n", "0"}, {"X-Client: 10.9.9.9\r\n", "1"}};
    for (size_t i = 0; i < 3; i++) {
        char request[200], expected[100];
        snprintf(request, sizeof request,
                 "GET /v1/take?policy=client HTTP/1.1\r\nHost: localhost\r\n"
                 "Authorization: Bearer secret\r\n%s\r\n",
                 rows[i].header);
        send_bytes(&s, request, strlen(request));
        snprintf(expected, sizeof expected, "\r\nX-RateLimit-Remaining: %s\r\n", rows[i].remaining);
        expect_output(&s, expected, strlen(expected));
    }
    close_session(&s);
    expect_latency(3);
}

/* POST /grpc.health.v1.Health/Check in stream 1, with an empty message. */
#define GRPC_BEGIN "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
#define GRPC_CHECK                                                                                 \
    "\0\0\x43\x01\x04\0\0\0\x01\x83\x86\x04\x1C/grpc.health.v1.Health/Check\x01\x01h\x0F\x10\x10"  \
    "application/grpc\0\x02te\x08trailers\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0"

static void use_grpc(void)
{
    for (int serving = 1; serving <= 2; serving++) {
        session s;
        fake.stopping = serving == 2; /* NOT_SERVING */
        open_session(&s, PROTOCOL_GRPC);
        assert_false(s.protocol->usage(s.at).mid_request);
        send_bytes(&s, BYTES(GRPC_BEGIN GRPC_CHECK));
        const char reply[] = {0, 0, 0, 0, 2, 8, (char)serving};
        expect_output(&s, reply, sizeof reply);
        assert_int_equal(s.next, WEIR_SESSION_READ);
        assert_false(s.protocol->poll(s.at, now(), false));
        assert_true(s.protocol->poll(s.at, now(), true));
        close_session(&s);
    }
    fake.stopping = false;
    session s;
    open_session(&s, PROTOCOL_GRPC);
    send_bytes(&s, "PRI", 3);
    assert_true(s.protocol->usage(s.at).bytes > 0);
    close_session(&s);
    expect_latency(0);
}

static void use_spoe(void)
{
    session s;
    open_session(&s, PROTOCOL_SPOE);
    send_bytes(&s, BYTES(HELLO));
    expect_output(&s, BYTES("max-frame-size"));
    weir_buffer notify;
    weir_buffer_init(&notify, 1 << 16);
    add_notify(&notify, 1, "m", "k", "1");
    send_bytes(&s, weir_buffer_data(&notify), weir_buffer_len(&notify));
    expect_output(&s, BYTES("\x07"
                            "allowed\x11"));
    expect_latency(1);
    weir_buffer_clear(&notify);
    add_notify(&notify, 1, "other", "k", "1");
    logged("");
    for (int i = 0; i < 2; i++)
        send_bytes(&s, weir_buffer_data(&notify), weir_buffer_len(&notify));
    fake.server.tick(fake.server.ctx);
    logged("warning spoe-unknown-message message=other count=2 text=\"spoe.messages has no message "
           "of this name; such messages are not limited\"\n");
    fake.server.tick(fake.server.ctx);
    logged("");
    weir_spop_count_unknown(((weir_spop_session *)s.at)->options->loop, WEIR_SPOP_POLICY,
                            (weir_slice){"nobody", 6});
    fake.server.tick(fake.server.ctx);
    logged("warning spoe-unknown-policy policy=nobody count=1 text=\"no such policy; its "
           "requests pass\"\n");
    weir_buffer_clear(&notify);
    add_notify(&notify, 1, "m", "", "1");
    for (int i = 0; i < 2; i++)
        send_bytes(&s, weir_buffer_data(&notify), weir_buffer_len(&notify));
    fake.server.tick(fake.server.ctx);
    logged("warning spoe-invalid-message message=m error=\"the key is empty or too long\" "
           "missing_argument=\"\" count=2 text=\"such requests are denied; compare the args of the "
           "message in HAProxy with the templates in spoe\"\n");
    weir_buffer_free(&notify);
    weir_spop_session *spop = s.at;
    spop->completion.ready(spop->completion.ctx);
    assert_int_equal(connection.woken, 3);
    assert_int_equal(spop->answer->headers, WEIR_HEADERS_X_RATELIMIT); /* of the whole */
    assert_int_equal(spop->answer->denied_status, 419);                /* of the listener */
    assert_false(s.protocol->poll(s.at, now(), false));
    assert_true(s.protocol->poll(s.at, now(), true));
    close_session(&s);
}

static bool may_proxy(uint8_t last)
{
    return fake.server.may_proxy(fake.loop, &(weir_peer_address){.bytes = {10, 1, 2, last}});
}

static void use_all(void)
{
    logged("info started version=" WEIR_VERSION " resp=1.1.1.1:1 http=1.1.1.1:2 grpc=/3 spoe=/4 "
           "policies=2 memory_bytes=8388608 threads=1\n");
    assert_true(may_proxy(3) && !may_proxy(4));
    memset(&connection, 0, sizeof connection);
    memset(&latency_before, 0, sizeof latency_before);
    connection.listener = 1;
    use_resp();
    use_http();
    use_http_with_a_proxy();
    use_grpc();
    log_read = lseek(log_fd, 0, SEEK_END);
    connection.listener = 3;
    use_spoe();
    assert_int_equal(connection.closed, 4);
}

/* Where a request without a parameter `key` has its key. */
static void use_key(const char *target, const char *header, const char *status)
{
    session s;
    char request[300];
    snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: api.example\r\n%s\r\n", target,
             header);
    open_session(&s, PROTOCOL_HTTP);
    send_bytes(&s, request, strlen(request));
    expect_output(&s, status, strlen(status));
    close_session(&s);
}

static void use_key_header(void)
{
    use_key("/v1/take?policy=a", "X-Key: x, y, z\r\n", "HTTP/1.1 200 ");
    use_key("/v1/take?policy=a&key=y", "", "HTTP/1.1 429 "); /* the second one from the right */
    use_key("/v1/take?policy=a&user=y", "", "HTTP/1.1 400 ");
    use_key("/v1/take?policy=a&key=o", "Origin: http://other.example\r\n", "HTTP/1.1 403 ");
    use_key("/v1/take?policy=a&key=p", "Origin: http://app.example\r\n", "HTTP/1.1 200 ");
}

static void use_key_query(void)
{
    use_key("/v1/take?policy=a&user=x", "", "HTTP/1.1 200 ");
    use_key("/v1/take?policy=a&key=x", "", "HTTP/1.1 429 ");
    use_key("/v1/take?policy=a", "X-Key: x\r\n", "HTTP/1.1 400 ");
}

static void keys_of_requests(void **unused)
{
    (void)unused;
    connection.listener = 1;
    assert_int_equal(run(NULL,
                         CONFIG "http: {key: {header: X-Key, hops: 2}, hosts: [api.example], "
                                "origins: 'http://app.example'}\n",
                         use_key_header),
                     0);
    assert_int_equal(
        run(NULL, CONFIG "http: {key: {query: user}, hosts: [api.example]}\n", use_key_query), 0);
}

/* ---- policies with memory of their own ------------------------------------------------------- */

static weir_partition_stats partitions[2];

size_t __wrap_weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t max);

size_t __wrap_weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t max)
{
    assert_non_null(l);
    assert_true(max >= 2);
    memcpy(ret, partitions, sizeof partitions);
    return partitions[0].name ? 2 : 0;
}

#define FULL(NAME) "warning policy-memory-full policy=" NAME " keys=7 memory_bytes=65536 text="
#define EVICTED                                                                                    \
    "\"the policy's own memory is full, and keys without full quota are evicted; raise its "       \
    "memory "                                                                                      \
    "and restart weir\"\n"
#define KEYS_REFUSED                                                                               \
    "\"the policy's own memory is full, and new keys are refused; raise its memory and restart "   \
    "weir\"\n"

static void fill_partitions(void)
{
    logged(STARTED);
    fake.server.tick(fake.server.ctx);
    logged(""); /* what was lost before the start does not count */
    partitions[1].evicted++;
    fake.server.tick(fake.server.ctx);
    logged(FULL("q") EVICTED);
    partitions[1].evicted++;
    fake.server.tick(fake.server.ctx);
    logged("");
    partitions[0].refused++;
    partitions[1].refused++;
    fake.server.tick(fake.server.ctx);
    logged(FULL("p") KEYS_REFUSED);
    fake.server.tick(fake.server.ctx);
    logged("");
}

static void full_partitions(void **unused)
{
    (void)unused;
    partitions[0] = (weir_partition_stats){
        .name = "p", .keys = 7, .memory_bytes = 1, .memory_max = 65536, .evicted = 5};
    partitions[1] = (weir_partition_stats){
        .name = "q", .keys = 7, .memory_bytes = 1, .memory_max = 65536, .evicted = 3};
    assert_int_equal(run(NULL, CONFIG, fill_partitions), 0);
    memset(partitions, 0, sizeof partitions);
}

static void sessions(void **unused)
{
    (void)unused;
    assert_int_equal(
        run(NULL,
            "threads: 1\nmemory: {size: 8m}\npassword: secret\n"
            "headers: x-ratelimit\ndenied: {status: 418}\n"
            "listen: {resp: 1, http: 2, grpc: 3, spoe: {address: 4, denied: {status: "
            "419}}}\n"
            "trusted_proxies: 10.1.2.3\nhttp: {client_header: X-Client}\n"
            "policies: {a: gcra 1/h, client: {limit: fixed-window 2/h, key: $client}}\n"
            "spoe: {messages: {m: {policy: a, key: $key}}}\n",
            use_all),
        0);
}

/* ---- the examples ---------------------------------------------------------------------------- */

/* The commands that `weir serve` prints for a daemon started by hand. */
static void examples(void **unused)
{
    (void)unused;
    static const char *const expected[] = {
        [PROTOCOL_RESP] = "  redis-cli -p 1 WEIR.CHECK 'gcra 100/s burst 20' alice\n"
                          "  redis-cli -p 1 CL.THROTTLE alice 15 30 60\n",
        [PROTOCOL_HTTP] = "  curl 'http://h:1/v1/check?limit=gcra+100/s+burst+20&key=alice'\n"
                          "or open http://h:1/playground, /guide or /dashboard in a browser\n",
        [PROTOCOL_GRPC] = "  grpcurl -plaintext h:1 list\n",
        [PROTOCOL_SPOE] = "  haproxy.cfg: server weir h:1 in the backend of a spoe-agent; see "
                          "docs/haproxy.md\n"};
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        char got[300] = "";
        FILE *f = tmpfile();
        assert_non_null(f);
        fflush(stdout);
        int saved = dup(STDOUT_FILENO);
        dup2(fileno(f), STDOUT_FILENO);
        protocol_of(kind)->print_example("h:1", NULL);
        fflush(stdout);
        dup2(saved, STDOUT_FILENO);
        close(saved);
        assert_true(pread(fileno(f), got, sizeof got - 1, 0) > 0);
        fclose(f);
        assert_string_equal(got, expected[kind]);
    }
}

/* ---- the directory of limits ----------------------------------------------------------------- */

static void lose_directory(void)
{
    static const char lost[] = "error limits-lost directory=limits text=\"the directory does not "
                               "exist; its limits stay active\"\n";
    static const char back[] = "info limits-back directory=limits text=\"the directory exists "
                               "again; its files are read if they have changed\"\n";
    log_read = lseek(log_fd, 0, SEEK_END);
    const struct {
        bool exists;
        const char *log;
    } ticks[] = {{true, ""},  {false, ""},  {true, ""}, {false, ""}, {false, lost},
                 {false, ""}, {true, back}, {true, ""}, {false, ""}, {false, lost}};
    for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++) {
        if (ticks[i].exists)
            (void)rename("elsewhere", "limits");
        else
            (void)rename("limits", "elsewhere");
        fake.server.tick(fake.server.ctx);
        logged(ticks[i].log);
    }
    assert_int_equal(load_errors(), 2);
}

static void directory(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir("limits", 0700), 0);
    write_file("limits/a.yaml", "domain: d\n");
    assert_int_equal(run_with(NULL, CONFIG "envoy: {config: limits}\n", true, lose_directory), 0);
    (void)unlink("elsewhere/a.yaml");
    (void)rmdir("elsewhere");
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sessions, reset),
        cmocka_unit_test_setup(keys_of_requests, reset),
        cmocka_unit_test_setup(full_partitions, reset),
        cmocka_unit_test_setup(examples, reset),
        cmocka_unit_test_setup(directory, reset),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, open_log, close_log);
}
