/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's limits in a daemon, and their reloads. The server and the clock are fakes (see
 * meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon_kit_test.h"
#include "limitador/daemon/guest.h"
#include "tests/kit/kit.h"

size_t __wrap_weir_server_listener(const void *wake_ctx);
bool __wrap_weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret);

size_t __wrap_weir_server_listener(const void *wake_ctx)
{
    (void)wake_ctx;
    return 0;
}

bool __wrap_weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret)
{
    (void)wake_ctx;
    *ret = (weir_peer_address){.bytes = {10, 1, 2, 3}};
    return true;
}

#define LIMITADOR CONFIG "limitador: {limits: limits.yaml}\n"
#define LIMIT(MAX, SECONDS)                                                                        \
    "- {namespace: n, max_value: " MAX ", seconds: " SECONDS ", conditions: [], variables: []}\n"

/* Sends a request to the HTTP API. */
static void ask(const char *request, char *ret_reply, size_t size)
{
    const weir_protocol *http = &protocol_of(PROTOCOL_HTTP)->session;
    weir_buffer in, out;
    void *s = calloc(1, http->session_size);
    assert_non_null(s);
    weir_buffer_init(&in, 1 << 20);
    weir_buffer_init(&out, 1 << 20);
    http->open(s, fake.loop, NULL, NULL);
    weir_buffer_append(&in, request, strlen(request));
    (void)http->run(s, &in, &out, 1 << 16, fake.server.now(fake.server.ctx));
    weir_buffer_append_byte(&out, '\0');
    snprintf(ret_reply, size, "%s", (const char *)weir_buffer_data(&out));
    http->close(s);
    weir_buffer_free(&in);
    weir_buffer_free(&out);
    free(s);
}

static size_t limits_active(void)
{
    char reply[4096];
    size_t n = 0;
    ask("GET /limits/n HTTP/1.1\r\nHost: localhost\r\n\r\n", reply, sizeof reply);
    const char *at = reply;
    assert_non_null(strstr(at, "HTTP/1.1 200 OK\r\n"));
    while ((at = strstr(at, "\"max_value\"")) != NULL) {
        at++;
        n++;
    }
    return n;
}

/* The status of a check of 1 hit. */
static int checked(void)
{
    static const char request[] = "POST /check_and_report HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Type: application/json\r\nContent-Length: 39\r\n\r\n"
                                  "{\"namespace\":\"n\",\"values\":{},\"delta\":1}";
    char reply[4096];
    int status = 0;
    ask(request, reply, sizeof reply);
    assert_int_equal(sscanf(reply, "HTTP/1.1 %d ", &status), 1);
    return status;
}

/* A file without the section would end the limits: it is refused. */
static void refuse_removal(void)
{
    write_file("weir.yaml", CONFIG);
    assert_true(fake.server.reload(fake.server.ctx, "changed"));
    logged("error reload-refused why=changed text=\"limitador.limits is no longer set, but weir "
           "serves its limits until it is restarted; the old configuration stays active. "
           "Restart weir to use the new one\"\n");
    assert_int_equal(limits_active(), 2);
    assert_int_equal(checked(), 429);
}

static void reload_limitador(void)
{
    logged("info started version=" WEIR_VERSION " resp=1.1.1.1:1,1.1.1.1:2 policies=1 "
           "limitador_limits=1 memory_bytes=8388608 threads=2\n");
    assert_non_null(fake.loop->part[feature_index(limitador_guest.feature)]);
    assert_string_equal(fake.watched_more[0], "");
    assert_string_equal(fake.watched_more[1], "limits.yaml");
    assert_int_equal(limits_active(), 1);
    write_file("limits.yaml", LIMIT("1", "60") LIMIT("2", "61"));
    write_file("weir.yaml", LIMITADOR);
    assert_true(fake.server.reload(fake.server.ctx, "changed"));
    logged("info reloaded why=changed policies=1 limitador_limits=2\n");
    assert_int_equal(limits_active(), 2);
    assert_int_equal(checked(), 200);
    assert_int_equal(checked(), 429);
    refuse_removal();
    write_file("weir.yaml", CONFIG
               "redis: {url: 'redis://h'}\nlimitador: {limits: limits.yaml, engine: redis}\n");
    assert_true(fake.server.reload(fake.server.ctx, "changed"));
    logged(
        "error reload-refused why=changed text=\"the new policies need the engine redis or hybrid, "
        "but weir was started without redis; the old configuration stays active. Restart weir to "
        "use the new one\"\n");
    write_file("weir.yaml", LIMITADOR);
    unlink("limits.yaml");
    assert_false(fake.server.reload(fake.server.ctx, "changed"));
    assert_int_equal(limits_active(), 2);
    unlink("weir.yaml");
}

static void limitador(void **unused)
{
    (void)unused;
    write_file("limits.yaml", LIMIT("1", "60"));
    assert_int_equal(run_with("weir.yaml", LIMITADOR, true, reload_limitador), 0);
    (void)unlink("limits.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(limitador, reset),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("limitador-daemon", tests, open_log, close_log);
}
