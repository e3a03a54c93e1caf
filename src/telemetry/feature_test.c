/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The exporter as a part of the daemon, without memory for one or for all allocations, and without
 * a collector. */

#include "cmd/config/kit_test.h"
#include "cmd/kit/commands.h"
#include "cmd/serve/feature.h"
#include "port/memory_kit_test.h"
#include "port/port.h"
#include "telemetry/guest.h"

#include <fcntl.h>
#include <unistd.h>

static log_target no_log;
static weir_config *config;
static weir_store *store;
static weir_limiter *limiter;
static char error[256];

static int open_all(void **unused)
{
    const weir_store_options options = {.memory_bytes = 1 << 20};
    (void)unused;
    no_log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(weir_store_open(&store, &options), WEIR_OK);
    assert_int_equal(weir_limiter_open(&limiter, store, NULL), WEIR_OK);
    return 0;
}

static int close_all(void **unused)
{
    (void)unused;
    weir_limiter_close(limiter);
    weir_store_close(store);
    close(no_log.fd);
    return 0;
}

/* The metrics are read on the exporter's thread. */
static void count_metrics(void *ctx, weir_buffer *out)
{
    (void)out;
    port_add_relaxed(ctx, 1);
}

static port_counter scrapes;

static weir_status begin_loop(void *self, protocol_loop *l)
{
    weir_status st = weir_service_open(&l->service, limiter);
    l->http =
        (weir_http_options){.version = "1", .metrics = count_metrics, .metrics_ctx = &scrapes};
    l->http.service = l->service;
    return st == WEIR_OK ? telemetry_feature.open_loop(self, l) : st;
}

static void end_loop(void *self, protocol_loop *l)
{
    telemetry_feature.close_loop(self, l);
    weir_service_close(l->service);
}

/* Opens the feature with two loops, ends a span on each, and ends as the daemon does. */
static weir_status live(void)
{
    const feature *f = &telemetry_feature;
    const feature_setup setup = {.config = config,
                                 .log = &no_log,
                                 .store = store,
                                 .limiter = limiter,
                                 .ret_error = error,
                                 .error_size = sizeof error};
    static protocol_loop loops[2];
    void *self = NULL;
    memset(loops, 0, sizeof loops);
    loops[1].i = 1;
    weir_status st = f->open(&self, &setup);
    for (int i = 0; i < 2 && st == WEIR_OK; i++)
        st = begin_loop(self, &loops[i]);
    if (st == WEIR_OK)
        st = f->start(self);
    for (int i = 0; i < 2 && st == WEIR_OK && loops[i].tracer; i++) {
        const weir_trace_span span = {.name = "S/M", .reason = "limit"};
        loops[i].tracer->end(loops[i].tracer->ctx, &span);
    }
    if (st == WEIR_OK)
        f->ended(self);
    if (self)
        f->stop(self);
    for (int i = 0; i < 2 && self; i++)
        end_loop(self, &loops[i]);
    if (self)
        f->close(self);
    return st;
}

/* Port 1 of the loopback refuses connections. */
#define ENDPOINT API "telemetry: {endpoint: \"http://127.0.0.1:1\""

static void test_wanted(void **unused)
{
    static const struct {
        const char *yaml;
        bool wanted;
    } rows[] = {{API, false},
                {ENDPOINT "}", true},
                {ENDPOINT ", metrics: false}", true},
                {ENDPOINT ", traces: false}", true},
                {ENDPOINT ", metrics: false, traces: false}", false}};
    (void)unused;
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        weir_config *c = valid(rows[i].yaml);
        assert_int_equal(telemetry_feature.is_wanted(c), rows[i].wanted);
        config_free(c);
    }
}

static void test_life(void **unused)
{
    (void)unused;
    config = valid(ENDPOINT "}");
    port_store_relaxed(&scrapes, 0);
    assert_int_equal(live(), WEIR_OK);
    assert_int_equal(port_load_relaxed(&scrapes), 1); /* the last totals */
    config_free(config);
    config = valid(ENDPOINT ", traces: false}");
    assert_int_equal(live(), WEIR_OK);
    assert_int_equal(port_load_relaxed(&scrapes), 2);
    config_free(config);
}

static void test_tls(void **unused)
{
    (void)unused;
    write_file("ca.pem", "no certificate");
    config = valid(API "telemetry: {endpoint: \"https://127.0.0.1:1\", tls: {ca: ca.pem}}");
    assert_int_equal(live(), WEIR_E_IO);
    assert_non_null(strstr(error, "ca.pem"));
    config_free(config);
}

static bool attempt(uint64_t n, bool later)
{
    memory_fail(n, later);
    weir_status st = live();
    bool failed = memory_stop();
    assert_true(st == WEIR_OK || (failed && (st == WEIR_E_NOMEM || st == WEIR_E_IO)));
    return failed;
}

static void test_no_memory(void **unused)
{
    (void)unused;
    config = valid(ENDPOINT "}");
    fail_each_remembered(attempt);
    config_free(config);
}

static int set_up_group(void **state)
{
    return make_dir(state) || open_all(state);
}

static int tear_down_group(void **state)
{
    return close_all(state) || remove_dir(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_no_memory),
    };
    weir_use_guests();
    int failed = cmocka_run_group_tests(tests, set_up_group, tear_down_group);
    free(errors);
    return failed;
}
