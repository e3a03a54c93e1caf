/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reloads: what they apply without a restart, what the event loops read before and after one, and
 * that a reload that is refused changes nothing. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon_kit_test.h"

#define LISTEN "threads: 2\nlisten: {http: ['127.0.0.1:1', '127.0.0.1:2']}\nmemory: {size: 8m}\n"
#define OTHER                                                                                      \
    "limits: {connections: 50, per_address: 7, buffers: 40m, idle: 5s, request: 6s, write: 7s, "   \
    "grace: 8s, drain: 9s}\n"                                                                      \
    "log: {level: debug, format: json}\n"                                                          \
    "clock: {step_above: 2h}\n"                                                                    \
    "http: {key: {header: X-Key, hops: 2}, hosts: [a.example, b.example], "                        \
    "origins: 'https://c.example', client_header: Forwarded}\n"                                    \
    "trusted_proxies: 10.0.0.0/8\n"                                                                \
    "headers: github\nretry_spread: 10%\ndenied: {status: 403, body: no}\n"                        \
    "grpc: {max_connection_age: 2h, max_connection_age_grace: 3h}\n"                               \
    "top: {metrics: true}\n"

static int freed; /* calls of config_free() */

void __real_config_free(weir_config *c);
void __wrap_config_free(weir_config *c);

void __wrap_config_free(weir_config *c)
{
    freed += c != NULL;
    __real_config_free(c);
}

static void write_config(const char *text)
{
    write_file("weir.yaml", text);
}

static bool reload(void)
{
    int64_t before = metric("weir_reloads_total");
    (void)fake.server.reload(fake.server.ctx, "SIGHUP");
    return metric("weir_reloads_total") > before;
}

static void skip_log(void)
{
    log_read = lseek(log_fd, 0, SEEK_END);
}

/* Expects that the lines since skip_log() contain this. */
static void expect_in_log(const char *part)
{
    char buf[4096] = "";
    assert_true(pread(log_fd, buf, sizeof buf - 1, log_read) > 0);
    if (!strstr(buf, part))
        fail_msg("'%s' is not in: %s", part, buf);
    skip_log();
}

static protocol_loop *loop_at(unsigned i)
{
    return fake.server.contexts[i];
}

/* How many replies to wrong passwords may be delayed in a second: an eighth of the connections, and
 * one. */
static void expect_held(int most)
{
    static int64_t now_ns;
    now_ns += INT64_C(10000000000);
    for (int i = 0; i < most; i++)
        assert_true(auth_failures_add(fake.loop->failures, PROTOCOL_HTTP, "peer", now_ns));
    assert_false(auth_failures_add(fake.loop->failures, PROTOCOL_HTTP, "peer", now_ns));
}

static void expect_defaults(void)
{
    const weir_server_limits *limits = &fake.server.limits;
    assert_int_equal(limits->connections, 10000);
    assert_int_equal(limits->per_address, 1000);
    assert_int_equal(limits->idle_ns, 0);
    assert_int_equal(limits->grace_ns, 0); /* no other machine can connect */
    assert_true(limits->any_proxy);
    for (unsigned i = 0; i < 2; i++) {
        const protocol_loop *l = loop_at(i);
        assert_null(l->http.key_header);
        assert_int_equal(l->http.hosts.len, 0);
        assert_int_equal(l->http.trusted.len, 0);
        assert_null(l->http.client_header);
        assert_false(l->http.metrics_top);
        assert_int_equal(l->answers[1].headers, 0);
        assert_int_equal(l->grpc.max_age_ns, INT64_C(86400000000000));
    }
    assert_int_equal(fake.jump_above_ns, INT64_C(3600000000000));
    assert_int_equal(metric("weir_connections_max"), 10000);
    expect_held(1251);
}

static void expect_other(void)
{
    const weir_server_limits *limits = &fake.server.limits;
    assert_int_equal(limits->connections, 50);
    assert_int_equal(limits->per_address, 7);
    assert_int_equal(limits->buffers, 40 << 20);
    assert_int_equal(limits->request, 1 << 21);
    assert_int_equal(limits->idle_ns, INT64_C(5000000000));
    assert_int_equal(limits->request_ns, INT64_C(6000000000));
    assert_int_equal(limits->write_ns, INT64_C(7000000000));
    assert_int_equal(limits->grace_ns, INT64_C(8000000000));
    assert_int_equal(limits->drain_ns, INT64_C(9000000000));
    assert_false(limits->any_proxy);
    for (unsigned i = 0; i < 2; i++) {
        const protocol_loop *l = loop_at(i);
        assert_string_equal(l->http.key_header, "X-Key");
        assert_null(l->http.key_query);
        assert_int_equal(l->http.hops, 2);
        assert_int_equal(l->http.hosts.len, 2);
        assert_string_equal(l->http.hosts.at[1], "b.example");
        assert_string_equal(l->http.origins.at[0], "https://c.example");
        assert_string_equal(l->http.client_header, "Forwarded");
        assert_int_equal(l->http.client_kind, WEIR_CLIENT_FORWARDED);
        assert_int_equal(l->http.trusted.len, 1);
        assert_true(l->http.metrics_top);
        assert_non_null(l->http.service); /* what does not depend on the configuration stays */
        for (int k = 0; k < 2; k++) {
            assert_int_equal(l->answers[k].headers, WEIR_HEADERS_GITHUB);
            assert_int_equal(l->answers[k].retry_spread, 11);
            assert_int_equal(l->answers[k].denied_status, 403);
            assert_string_equal(l->answers[k].denied_body, "no");
        }
        assert_int_equal(l->grpc.max_age_ns, INT64_C(7200000000000));
        assert_int_equal(l->grpc.max_age_grace_ns, INT64_C(10800000000000));
    }
    assert_int_equal(fake.jump_above_ns, INT64_C(7200000000000));
    assert_int_equal(metric("weir_connections_max"), 50);
    expect_held(7);
    weir_resp_server server;
    fake.loop->server(fake.loop, &server);
    assert_int_equal(server.connections_max, 50);
}

static bool trusts(uint8_t first)
{
    const weir_peer_address peer = {.bytes = {first, 1, 2, 3}};
    return fake.server.may_proxy(fake.loop, &peer);
}

static void serve_changes(void)
{
    expect_defaults();
    assert_false(trusts(10));
    skip_log();
    write_config(LISTEN OTHER);
    assert_true(reload());
    expect_in_log(",\"level\":\"info\",\"event\":\"reloaded\",\"why\":\"SIGHUP\",\"policies\":0,"
                  "\"changed\":\"limits.connections,limits.per_address,limits.buffers,limits.idle,"
                  "limits.request,limits.write,limits.grace,limits.drain,log.level,log.format,"
                  "clock.step_above,http.key,http.hosts,http.origins,http.client_header,"
                  "trusted_proxies,headers,retry_spread,denied.status,denied.body\",\"more\":3}\n");
    expect_other();
    assert_true(trusts(10));
    assert_false(trusts(11));
    write_config(LISTEN); /* a reload that is refused changes none of them, and not the log */
    adjusts = false;
    assert_false(reload());
    expect_in_log("\"event\":\"reload-refused\"");
    expect_other();
    adjusts = true;
    write_config(LISTEN "limits: {connections: 60}\npolicies: {a: gcra 1/x}\n");
    assert_false(reload());
    expect_other();
    skip_log();
    write_config(LISTEN);
    assert_true(reload());
    expect_in_log(" info reloaded why=SIGHUP policies=0 changed=limits.connections,");
    expect_defaults();
    unlink("weir.yaml");
}

static void what_needs_no_restart(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", LISTEN, serve_changes), 0);
}

/* A loop that has not been woken reads the old configuration, whatever is loaded meanwhile. */
static void serve_slow_loops(void)
{
    protocol_loop *first = loop_at(0), *second = loop_at(1);
    const weir_config *start = first->config;
    write_config(LISTEN "denied: {body: one}\n");
    assert_true(reload());
    const weir_config *one = first->config;
    assert_true(one != start && second->config == one);
    freed = 0;
    fake.stuck = true;
    write_config(LISTEN "denied: {body: two}\n");
    assert_true(reload());
    fake.server.tick(fake.server.ctx);
    assert_ptr_equal(first->config, one);
    assert_int_equal(freed, 0);
    assert_string_equal(first->answers[0].denied_body, "one");
    fake.server.refresh(first);
    assert_string_equal(first->answers[0].denied_body, "two");
    write_config(LISTEN "denied: {body: three}\n");
    assert_true(reload());
    fake.server.tick(fake.server.ctx);
    assert_string_equal(first->answers[1].denied_body, "two");
    assert_string_equal(second->answers[1].denied_body, "one");
    assert_int_equal(freed, 0);
    fake.server.refresh(second);
    fake.server.tick(fake.server.ctx);
    assert_int_equal(freed, 1);
    fake.server.refresh(first);
    fake.server.tick(fake.server.ctx);
    assert_int_equal(freed, 2);
    assert_ptr_equal(first->config, second->config);
    assert_string_equal(first->answers[0].denied_body, "three");
    assert_string_equal(second->answers[0].denied_body, "three");
    write_config(LISTEN "denied: {body: four}\n"); /* the daemon stops before the loops have it */
    assert_true(reload());
    assert_string_equal(first->answers[0].denied_body, "three");
    unlink("weir.yaml");
}

static void loops_keep_their_configuration(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", LISTEN, serve_slow_loops), 0);
    assert_int_equal(freed, 5); /* with the last two, and that of the start */
}

/* Addresses need a restart. The answers of those that stay do not. */
static void serve_other_addresses(void)
{
    skip_log();
    write_config("threads: 2\nmemory: {size: 8m}\nheaders: openai\ninsecure: true\n"
                 "listen: {http: [0.0.0.0:7, {address: '127.0.0.1:2', headers: ietf}]}\n");
    assert_true(reload());
    expect_in_log(" info reloaded why=SIGHUP policies=0 changed=headers,insecure,listen.http\n");
    assert_int_equal(fake.loop->answers[0].headers, WEIR_HEADERS_OPENAI);
    assert_int_equal(fake.loop->answers[1].headers, WEIR_HEADERS_IETF);
    assert_int_equal(fake.loop->config->listens_len, 2);
    assert_string_equal(fake.loop->config->listens[0].address, "127.0.0.1:1");
    assert_int_equal(fake.server.limits.grace_ns, 0); /* no other machine can connect yet */
    assert_true(reload());
    logged("info reloaded why=SIGHUP policies=0\n"
           "warning restart-needed key=listen text=\"the new value takes effect when weir is "
           "restarted\"\n");
    unlink("weir.yaml");
}

static void addresses_stay(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", LISTEN, serve_other_addresses), 0);
}

/* More connections may need more file descriptors. */
static void serve_more_connections(void)
{
    skip_log();
    fake.descriptors = 150;
    write_config(LISTEN "limits: {connections: 100}\n");
    assert_true(reload());
    logged("info reloaded why=SIGHUP policies=0 changed=limits.connections\n"
           "warning few-descriptors connections=100 wanted=200 available=150 "
           "text=\"limits.connections does not fit the limit on open files; raise the hard limit "
           "(LimitNOFILE=, ulimit -Hn) or lower limits.connections\"\n");
    write_config(LISTEN "limits: {connections: 100, idle: 1s}\n");
    assert_true(reload());
    logged("info reloaded why=SIGHUP policies=0 changed=limits.idle\n");
    unlink("weir.yaml");
}

static void descriptors_are_checked_again(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", LISTEN, serve_more_connections), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_needs_no_restart, reset),
        cmocka_unit_test_setup(loops_keep_their_configuration, reset),
        cmocka_unit_test_setup(addresses_stay, reset),
        cmocka_unit_test_setup(descriptors_are_checked_again, reset),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("in-use", tests, open_log, close_log);
}
