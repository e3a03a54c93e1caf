/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The engines of each event loop: what they are opened with, what their log events become, when
 * they count as down, and their metrics. The engines, the service, TLS, the allocator, the clock
 * and the random numbers are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/serve/parts.h"
#include "net/tls/client.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    weir_redis_setup redis;                      /* as it was passed */
    weir_hybrid_setup hybrid;                    /* the same */
    weir_status redis_status, hybrid_status;     /* what opening an engine returns */
    bool no_memory, no_random, tls_fails;        /* no_memory: allocations fail */
    bool would_probe;                            /* what the redis engine says */
    weir_engine *engine[WEIR_ENGINE_HYBRID + 1]; /* of the service */
    char closed[8];                              /* engines that were closed: r, h */
    int tls_opened, tls_closed;
    int64_t steady_ns, probe_ns;
    int64_t allocated; /* blocks */
    /* Of waits: how many there were, how long the last might have lasted, how long each lasts, and
     * in which of them a server is connected, and one fails. */
    int waits, up_at, down_at;
    int64_t wait_ns, lasts_ns;
} fake;

weir_status __wrap_weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup);
weir_status __wrap_weir_hybrid_engine_open(weir_engine **ret, const weir_hybrid_setup *setup);
bool __wrap_weir_redis_engine_would_probe(weir_engine *e, int64_t now_ns);
void __wrap_weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine);
weir_status __wrap_net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                                bool insecure, char *ret_error, size_t size);
void __wrap_net_tls_close(port_tls *tls);
int64_t __wrap_port_now_ns(void);
int64_t __wrap_port_steady_ns(void);
weir_status __wrap_port_random(void *ret, size_t len);
void *__wrap_port_zalloc(size_t n, size_t size);
void *__real_port_zalloc(size_t n, size_t size);
void __wrap_port_free(void *p);
void __real_port_free(void *p);
port_mutex *__wrap_port_mutex_new(void);
port_mutex *__real_port_mutex_new(void);
void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);

static void close_redis(weir_engine *e)
{
    (void)e;
    strcat(fake.closed, "r");
}

static void close_hybrid(weir_engine *e)
{
    (void)e;
    strcat(fake.closed, "h");
}

static const weir_engine_calls redis_calls = {.close = close_redis},
                               hybrid_calls = {.close = close_hybrid};
static weir_engine redis = {&redis_calls}, hybrid = {&hybrid_calls};
static port_dialer *const dialer = (port_dialer *)&redis;
static weir_service *const service = (weir_service *)&hybrid;
static weir_store *const store = (weir_store *)&fake;
static port_tls *const tls = (port_tls *)&fake;

weir_status __wrap_weir_redis_engine_open(weir_engine **ret, const weir_redis_setup *setup)
{
    fake.redis = *setup;
    *ret = fake.redis_status == WEIR_OK ? &redis : NULL;
    return fake.redis_status;
}

weir_status __wrap_weir_hybrid_engine_open(weir_engine **ret, const weir_hybrid_setup *setup)
{
    fake.hybrid = *setup;
    *ret = fake.hybrid_status == WEIR_OK ? &hybrid : NULL;
    return fake.hybrid_status;
}

bool __wrap_weir_redis_engine_would_probe(weir_engine *e, int64_t now_ns)
{
    assert_ptr_equal(e, &redis);
    fake.probe_ns = now_ns;
    return fake.would_probe;
}

void __wrap_weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine)
{
    assert_ptr_equal(s, service);
    fake.engine[kind] = engine;
}

weir_status __wrap_net_tls_open(port_tls **ret, const char *ca, const char *cert, const char *key,
                                bool insecure, char *ret_error, size_t size)
{
    assert_string_equal(ca, "/ca");
    assert_string_equal(cert, "/cert");
    assert_string_equal(key, "/key");
    assert_false(insecure);
    fake.tls_opened++;
    if (fake.tls_fails) {
        snprintf(ret_error, size, "no such file");
        return WEIR_E_IO;
    }
    *ret = tls;
    return WEIR_OK;
}

void __wrap_net_tls_close(port_tls *t)
{
    fake.tls_closed += t == tls;
}

int64_t __wrap_port_now_ns(void)
{
    return INT64_C(1763715600123999999);
}

int64_t __wrap_port_steady_ns(void)
{
    return fake.steady_ns;
}

weir_status __wrap_port_random(void *ret, size_t len)
{
    if (fake.no_random)
        return WEIR_E_IO;
    assert_int_equal(len, sizeof(uint64_t));
    memcpy(ret, &(uint64_t){0x100}, len);
    return WEIR_OK;
}

void *__wrap_port_zalloc(size_t n, size_t size)
{
    void *p = fake.no_memory ? NULL : __real_port_zalloc(n, size);
    fake.allocated += p != NULL;
    return p;
}

void __wrap_port_free(void *p)
{
    fake.allocated -= p != NULL;
    __real_port_free(p);
}

static int mutexes_left; /* -1: no limit */

port_mutex *__wrap_port_mutex_new(void)
{
    return mutexes_left == 0 ? NULL : __real_port_mutex_new();
}

/* ---- the fixture ----------------------------------------------------------------------------- */

static int log_fd;
static log_target target;
static weir_config config;
static engines *all;
static const char *url = "redis://h";

/* Expects these new lines of the log, without their times. */
static void logged(const char *expected)
{
    char buf[2048], text[2048] = "";
    ssize_t len = pread(log_fd, buf, sizeof buf - 1, 0);
    assert_true(len >= 0);
    buf[len] = '\0';
    assert_int_equal(ftruncate(log_fd, 0), 0);
    assert_int_equal(lseek(log_fd, 0, SEEK_SET), 0);
    for (char *rest = buf, *one; (one = strsep(&rest, "\n")) && *one;) {
        assert_memory_equal(one, "2025-11-21T09:00:00.123Z ", 25);
        strcat(strcat(text, one + 25), "\n");
    }
    assert_string_equal(text, expected);
}

static int setup(void **unused)
{
    (void)unused;
    char error[64] = "";
    memset(&fake, 0, sizeof fake);
    mutexes_left = -1;
    fake.steady_ns = INT64_C(100000000000);
    memset(&config, 0, sizeof config);
    config.has_redis = true;
    config.redis.urls = &url;
    config.redis.urls_len = 1;
    log_fd = memfd_create("log", 0);
    target = (log_target){.fd = log_fd, .least = {WEIR_LOG_INFO}};
    assert_int_equal(engines_open(&all, &config, store, &target, error, sizeof error), WEIR_OK);
    assert_non_null(all);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    engines_close(all);
    close(log_fd);
    return fake.allocated == 0 ? 0 : -1;
}

static void report(const weir_redis_log *log, const char *event, const char *node, const char *text)
{
    log->write(log->ctx, event, node, text);
}

void __wrap_port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    assert_non_null(c);
    fake.wait_ns = ns;
    fake.steady_ns += fake.lasts_ns;
    port_mutex_unlock(m);
    if (++fake.waits == fake.up_at)
        report(&fake.redis.log, "redis-up", "a:1", "functions");
    if (fake.waits == fake.down_at)
        report(&fake.redis.log, "redis-down", "b:1", "connection refused");
    port_mutex_lock(m);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void begin_and_end(void **unused)
{
    (void)unused;
    engines_begin(all, 5, service, dialer);
    assert_ptr_equal(fake.redis.options, &config.redis);
    assert_ptr_equal(fake.redis.dialer, dialer);
    assert_ptr_equal(fake.redis.store, store);
    assert_null(fake.redis.tls);
    assert_int_equal(fake.redis.seed, 0x105);
    assert_ptr_equal(fake.hybrid.options, &config.hybrid);
    assert_ptr_equal(fake.hybrid.upstream, &redis);
    assert_ptr_equal(fake.hybrid.dialer, dialer);
    assert_ptr_equal(fake.engine[WEIR_ENGINE_REDIS], &redis);
    assert_ptr_equal(fake.engine[WEIR_ENGINE_HYBRID], &hybrid);
    engines_end(all, 5, service);
    assert_null(fake.engine[WEIR_ENGINE_REDIS]);
    assert_null(fake.engine[WEIR_ENGINE_HYBRID]);
    assert_string_equal(fake.closed, "hr");
    engines_end(all, 5, service);
    assert_string_equal(fake.closed, "hr");
    fake.no_random = true;
    engines_begin(all, 3, service, dialer);
    assert_int_equal(fake.redis.seed, (uint64_t)fake.steady_ns ^ 3);
    engines_end(all, 3, service);
    logged("");
}

#define FAILED(WHY)                                                                                \
    "error engine-failed error=\"" WHY "\" text=\"one thread could not start its Redis client; "   \
    "it fails all requests for policies with the engine redis or hybrid\"\n"

static void begin_fails(void **unused)
{
    (void)unused;
    fake.redis_status = WEIR_E_NOMEM;
    engines_begin(all, 0, service, dialer);
    logged(FAILED("out of memory"));
    assert_true(!fake.engine[WEIR_ENGINE_REDIS] && !fake.engine[WEIR_ENGINE_HYBRID]);
    assert_null(fake.hybrid.dialer); /* was not opened */
    assert_true(engines_are_down(all, 0, 1, 9));
    fake.redis_status = WEIR_OK;
    fake.hybrid_status = WEIR_E_NOMEM;
    engines_begin(all, 0, service, dialer);
    logged(FAILED("out of memory"));
    assert_ptr_equal(fake.engine[WEIR_ENGINE_REDIS], &redis);
    assert_null(fake.engine[WEIR_ENGINE_HYBRID]);
    engines_end(all, 0, service);
    assert_string_equal(fake.closed, "r");
}

static void without_redis(void **unused)
{
    (void)unused;
    weir_config none = {.has_redis = false};
    engines *e = all;
    char error[8];
    weir_buffer out;
    weir_buffer_init(&out, 1024);
    assert_int_equal(engines_open(&e, &none, store, &target, error, sizeof error), WEIR_OK);
    assert_null(e);
    engines_begin(e, 0, service, dialer);
    engines_end(e, 0, service);
    engines_put_metrics(e, &out);
    assert_int_equal(weir_buffer_len(&out), 0);
    engines_put_live(e, 0, 1, 9, &out);
    weir_buffer_append_byte(&out, '\0');
    assert_string_equal((const char *)weir_buffer_data(&out), "null");
    engines_close(e);
    weir_buffer_free(&out);
}

static void open_fails(void **unused)
{
    (void)unused;
    const char *tls_url = "rediss://h";
    char error[64] = "";
    int64_t before = fake.allocated;
    weir_config c = {.has_redis = true};
    c.redis.tls_ca = "/ca";
    c.redis.tls_cert = "/cert";
    c.redis.tls_key = "/key";
    c.redis.urls = &tls_url;
    c.redis.urls_len = 1;
    engines *e = all;
    fake.no_memory = true;
    assert_int_equal(engines_open(&e, &c, store, &target, error, sizeof error), WEIR_E_NOMEM);
    assert_null(e);
    fake.no_memory = false;
    mutexes_left = 0;
    assert_int_equal(engines_open(&e, &c, store, &target, error, sizeof error), WEIR_E_NOMEM);
    assert_null(e);
    assert_int_equal(fake.tls_opened, 0);
    mutexes_left = -1;
    fake.tls_fails = true;
    assert_int_equal(engines_open(&e, &c, store, &target, error, sizeof error), WEIR_E_IO);
    assert_null(e);
    assert_string_equal(error, "no such file");
    assert_int_equal(fake.tls_closed, 0);
    assert_int_equal(fake.allocated, before);
    fake.tls_fails = false;
    assert_int_equal(engines_open(&e, &c, store, &target, error, sizeof error), WEIR_OK);
    engines_begin(e, 0, service, dialer);
    assert_ptr_equal(fake.redis.tls, tls);
    engines_end(e, 0, service);
    engines_close(e);
    assert_int_equal(fake.tls_closed, 1);
    assert_int_equal(fake.allocated, before);
}

static void events(void **unused)
{
    (void)unused;
    static const struct {
        const char *event, *node, *text, *expected;
    } rows[] = {
        {"redis-down", "a:1", "no", "warning redis-down node=a:1 why=no\n"},
        {"redis-down", "a:1", "no", ""},
        {"redis-up", "a:1", "functions", "info redis-up node=a:1 by=functions\n"},
        {"redis-breaker", "a:1", "open", "warning redis-breaker node=a:1 state=open\n"},
        {"redis-breaker", "a:1", "closed", "info redis-breaker node=a:1 state=closed\n"},
        {"redis-refuses", "a:1", "x", "warning redis-refuses node=a:1 text=x\n"},
        {"redis-refuses", "a:1", "x", ""},
        {"redis-alone", "", "open", "warning redis-alone text=open\n"},
        {"redis-slots", "a:1", "open", "info redis-slots node=a:1 text=open\n"},
    };
    engines_begin(all, 2, service, dialer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        report(&fake.redis.log, rows[i].event, rows[i].node, rows[i].text);
        logged(rows[i].expected);
    }
    fake.steady_ns += INT64_C(10000000000); /* then it is logged again */
    report(&fake.redis.log, "redis-refuses", "a:1", "x");
    logged("warning redis-refuses node=a:1 text=x\n");
    engines_end(all, 2, service);
}

static void expect_why(const char *expected)
{
    weir_buffer out;
    weir_buffer_init(&out, 1024);
    engines_put_why(all, 2, &out);
    weir_buffer_append_byte(&out, '\0');
    assert_string_equal((const char *)weir_buffer_data(&out), expected);
    weir_buffer_free(&out);
}

static void down(void **unused)
{
    (void)unused;
    weir_redis_log log[2];
    for (unsigned i = 0; i < 2; i++) {
        engines_begin(all, i, service, dialer);
        log[i] = fake.redis.log;
    }
    assert_true(engines_are_down(all, 0, 2, 9));
    report(&log[0], "redis-up", "a:1", "functions");
    assert_false(engines_are_down(all, 0, 1, 9));
    assert_true(engines_are_down(all, 0, 2, 9)); /* the other loop is not connected */
    report(&log[1], "redis-up", "a:1", "functions");
    assert_false(engines_are_down(all, 0, 2, 9));
    assert_int_equal(fake.probe_ns, 0); /* nothing asked for a probe */
    expect_why("");
    report(&log[1], "redis-down", "a:1", "OOM \"x\" \\");
    expect_why(" (a:1: OOM \\\"x\\\" \\\\)");
    report(&log[1], "redis-up", "a:1", "functions");
    report(&log[1], "redis-breaker", "a:1", "open");
    expect_why("");
    assert_false(engines_are_down(all, 0, 2, 9));
    assert_true(engines_are_down(all, 1, 2, 9));
    assert_int_equal(fake.probe_ns, 9);
    fake.would_probe = true;
    assert_false(engines_are_down(all, 1, 2, 9));
    for (unsigned i = 0; i < 2; i++)
        engines_end(all, i, service);
    assert_true(engines_are_down(all, 1, 2, 9));
}

static void expect_waits(unsigned loops, bool gives_up, int waits, int64_t last_ns)
{
    fake.waits = 0;
    engines_await(all, loops, gives_up, 100);
    assert_int_equal(fake.waits, waits);
    assert_int_equal(fake.wait_ns, last_ns);
}

/* A wait ends when each loop is connected, or when the time is over. */
static void await(void **unused)
{
    (void)unused;
    engines_await(NULL, 2, false, 100);
    engines_begin(all, 0, service, dialer);
    fake.lasts_ns = 100;
    expect_waits(1, true, 1, 100);
    fake.lasts_ns = 99;
    expect_waits(1, true, 2, 1);
    fake.up_at = 1;
    expect_waits(1, true, 1, 100);
    expect_waits(1, true, 0, 100);
    engines_begin(all, 1, service, dialer);
    fake.lasts_ns = 30;
    fake.up_at = 3;
    expect_waits(2, false, 3, 40);
    expect_waits(2, false, 0, 40);
    engines_end(all, 0, service);
    engines_end(all, 1, service);
}

/* A start does not wait for servers that are known to fail; a hand-over does. */
static void await_failures(void **unused)
{
    (void)unused;
    static const char *const urls[] = {"redis://a", "redis://b"};
    engines_begin(all, 0, service, dialer);
    config.redis.urls = urls;
    fake.lasts_ns = 30;
    fake.down_at = 2;
    config.redis.urls_len = 2;
    expect_waits(1, true, 4, 10); /* nothing is known of the other server */
    config.redis.urls_len = 1;
    expect_waits(1, true, 0, 10);
    expect_waits(1, false, 4, 10);
    engines_end(all, 0, service);
    config.redis.urls = &url;
}

/* Sets each counter to another value, and expects them in the text. */
static void metrics(void **unused)
{
    (void)unused;
    static const char *const lines[] = {"weir_redis_requests_total 1",
                                        "weir_redis_commands_total 2",
                                        "weir_redis_answers_total 3",
                                        "weir_redis_redirects_total 4",
                                        "weir_redis_library_loads_total 5",
                                        "weir_redis_connections 6",
                                        "weir_redis_connection_attempts_total 7",
                                        "weir_redis_breaker_opened_total 8",
                                        "weir_redis_deny_cache_lookups_total 9",
                                        "weir_redis_deny_cache_hits_total 10",
                                        "weir_redis_deny_cache_keys 11",
                                        "weir_redis_failures_total{reason=\"timeout\"} 12",
                                        "weir_redis_failures_total{reason=\"connection_lost\"} 13",
                                        "weir_redis_failures_total{reason=\"unreachable\"} 14",
                                        "weir_redis_failures_total{reason=\"overloaded\"} 15",
                                        "weir_redis_failures_total{reason=\"refused\"} 16",
                                        "weir_redis_by_error_total{on_error=\"open\"} 17",
                                        "weir_redis_by_error_total{on_error=\"closed\"} 18",
                                        "weir_redis_by_error_total{on_error=\"local\"} 19",
                                        "weir_hybrid_requests_total 20",
                                        "weir_hybrid_local_decisions_total 21",
                                        "weir_hybrid_syncs_total 22",
                                        "weir_hybrid_leased_units_returned_total 23",
                                        "weir_hybrid_overshoot_total 24",
                                        "weir_hybrid_overshoot_last 25",
                                        "weir_hybrid_keys 26"};
    engines_begin(all, 0, service, dialer);
    weir_redis_stats *r = fake.redis.stats;
    weir_redis_counts *c = &r->client;
    weir_hybrid_stats *h = fake.hybrid.stats;
    port_counter *const counters[] = {&r->requests,
                                      &c->sent,
                                      &c->answered,
                                      &c->redirected,
                                      &c->reloaded,
                                      &c->connected,
                                      &c->attempts,
                                      &r->opened,
                                      &r->deny_lookups,
                                      &r->deny_hits,
                                      &r->deny_keys,
                                      &c->timeout,
                                      &c->lost,
                                      &c->unreachable,
                                      &c->overloaded,
                                      &c->refused,
                                      &r->by_error[WEIR_ON_ERROR_OPEN],
                                      &r->by_error[WEIR_ON_ERROR_CLOSED],
                                      &r->by_error[WEIR_ON_ERROR_LOCAL],
                                      &h->requests,
                                      &h->local,
                                      &h->syncs,
                                      &h->given_back,
                                      &h->overshoot,
                                      &h->overshoot_last,
                                      &h->keys};
    weir_buffer out;
    weir_buffer_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        port_store_relaxed(counters[i], i + 1);
    engines_put_metrics(all, &out);
    weir_buffer_append_byte(&out, '\0');
    const char *text = (const char *)weir_buffer_data(&out), *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        at = strstr(at, lines[i]);
        assert_non_null(at);
        assert_true(at[-1] == '\n' && at[strlen(lines[i])] == '\n');
    }
    assert_string_equal(at, "weir_hybrid_keys 26\n");
    static const char head[] = "# HELP weir_redis_by_error_total Requests that were answered by "
                               "on_error without a server.\n# TYPE weir_redis_by_error_total "
                               "counter\nweir_redis_by_error_total{on_error=\"open\"} 17\n";
    assert_non_null(strstr(text, head));
    weir_buffer_clear(&out);
    engines_put_live(all, 0, 1, 9, &out); /* the sums of the counters 12..16 and 17..19 */
    weir_buffer_append_byte(&out, '\0');
    assert_string_equal((const char *)weir_buffer_data(&out),
                        "{\"name\":\"redis\",\"up\":false,\"failures\":70,\"by_error\":54}");
    weir_buffer_free(&out);
    engines_end(all, 0, service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(begin_and_end, setup, teardown),
        cmocka_unit_test_setup_teardown(begin_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(without_redis, setup, teardown),
        cmocka_unit_test_setup_teardown(open_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(events, setup, teardown),
        cmocka_unit_test_setup_teardown(down, setup, teardown),
        cmocka_unit_test_setup_teardown(await, setup, teardown),
        cmocka_unit_test_setup_teardown(await_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
