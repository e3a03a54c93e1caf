/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The daemon frees its memory, also if any of its allocations fails: at the start, and in a reload.
 * The allocator, the server and the clock are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon_kit_test.h"
#include "port/memory_kit_test.h"

/* Runs the daemon and checks that nothing leaks. */
static int run_and_count(const char *path, const char *yaml, void (*serve)(void))
{
    uint64_t blocks = port_load_relaxed(&memory.blocks);
    int status = run(path, yaml, serve);
    (void)memory_stop();
    assert_int_equal(port_load_relaxed(&memory.blocks), blocks);
    return status;
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define WITH_REDIS CONFIG "redis: {url: 'redis://127.0.0.1:1'}\n"

static size_t allowed; /* allocations of the start */

static void limit_start(void)
{
    memory_fail(allowed, true);
}

/* Each allocation of the start fails in turn. */
static void start_without_memory(void **unused)
{
    (void)unused;
    int status = 1;
    fake.starting = limit_start;
    for (allowed = 0; status != 0 && allowed < 1000; allowed++) {
        status = run_and_count(NULL, WITH_REDIS, NULL);
        assert_int_equal(status, port_load_relaxed(&memory.failed) > 0);
        if (allowed > 0 && status != 0)
            failed_to_start("out of memory\"\n");
        else if (allowed == 0)
            logged("");
    }
    assert_int_equal(status, 0);
}

/* Each allocation of a reload fails in turn; the old configuration stays active. */
static void fail_reloads(void)
{
    int64_t refused = 0;
    bool failed;
    write_file("weir.yaml", WITH_REDIS);
    do {
        memory_fail((uint64_t)refused, true);
        (void)fake.server.reload(fake.server.ctx, "SIGHUP");
        failed = memory_stop();
        refused += failed;
        assert_int_equal(metric("weir_reloads_refused_total"), refused);
        assert_int_equal(metric("weir_reloads_total"), !failed);
    } while (failed && refused < 1000);
    assert_true(refused > 10);
    unlink("weir.yaml");
}

static void reload_without_memory(void **unused)
{
    (void)unused;
    assert_int_equal(run_and_count("weir.yaml", WITH_REDIS, fail_reloads), 0);
}

static void send_wrong_password(void)
{
    auth_failures_add(fake.loop->failures, PROTOCOL_HTTP, "unix", 1000000000);
    fake.server.tick(fake.server.ctx);
}

/* Nothing leaks with any feature, nor when the server cannot be opened. */
static void all_is_freed(void **unused)
{
    (void)unused;
    static const char *const rows[] = {
        CONFIG, CONFIG "top: {keys: 7, memory: 2m}\n", WITH_REDIS "engine: hybrid\n",
        CONFIG_WITHOUT_MEMORY "memory: {size: 8m, file: state}\n", CONFIG "envoy: {config: .}\n"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(run_and_count(NULL, rows[i], send_wrong_password), 0);
        fake.open_status = WEIR_E_IO;
        assert_int_equal(run_and_count(NULL, rows[i], NULL), 1);
        fake.open_status = WEIR_OK;
    }
}

int main(void)
{
    weir_use_guests();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(start_without_memory, reset),
        cmocka_unit_test_setup(reload_without_memory, reset),
        cmocka_unit_test_setup(all_is_freed, reset),
    };
    return cmocka_run_group_tests(tests, open_log, close_log);
}
