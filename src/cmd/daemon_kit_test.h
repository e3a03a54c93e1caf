/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_DAEMON_KIT_TEST_H
#define WEIR_CMD_DAEMON_KIT_TEST_H
/* Runs the daemon with a fake server, clock, allocator and place of the state file (see
 * meson.build), and compares its log. Included once, by daemon_test.c. */

#include "cmd/auth_failures.h"
#include "cmd/daemon.h"
#include "cmd/engines.h"
#include "cmd/protocols.h"
#include "cmd/sigbus.h"
#include "net/server.h"
#include "port/port.h"
#include "service/limiter.h"
#include "service/top/top.h"
#include "store/iterate.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    weir_server_options server; /* as the daemon passed them */
    protocol_loop *loop;        /* the first one */
    void (*serve)(void);        /* the body of weir_server_run() */
    weir_status open_status, rules_status;
    bool stopping;
    weir_clock_view clock;
    weir_file place;
    weir_found found;
    int64_t written_ns;
    weir_limiter_changed changed;
    void *changed_ctx;
    weir_top_options top;
    unsigned cores;       /* 0: the true number */
    void (*opened)(void); /* called while the server is opened */
    struct {
        engines *engines;
        unsigned loop;
        weir_service *service;
        port_dialer *dialer;
    } begun, ended;
    char watched_more[WEIR_WATCHES_MAX][64]; /* by weir_server_watch(); "": none */
    int servers_closed, nows, unwatched;
    const char *watched; /* by sigbus_watch() */
    size_t blocks;       /* allocated and not freed */
    size_t blocks_left;
    bool fills;   /* while the daemon runs, blocks_left allocations succeed, and then none */
    bool is_full; /* it does so now */
    bool failed;  /* one has failed */
} fake;

static const int64_t now_ns = INT64_C(1763715600123999999);

int64_t __wrap_port_now_ns(void);
weir_status __wrap_weir_server_open(weir_server **ret, const weir_server_options *options,
                                    char *ret_error, size_t size);
const char *__wrap_weir_server_address(const weir_server *s, size_t i);
void __wrap_weir_server_run(weir_server *s);
void __wrap_weir_server_close(weir_server *s);
bool __wrap_weir_server_stopping(const weir_server *s);
weir_status __wrap_weir_server_watch(weir_server *s, size_t i, const char *path);
weir_server_stats __wrap_weir_server_stats_get(const weir_server *s);
weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l);
weir_file __wrap_weir_store_watch(weir_store *s);
weir_status __wrap_weir_store_open(weir_store **ret, const weir_store_options *options);
weir_status __real_weir_store_open(weir_store **ret, const weir_store_options *options);
void __wrap_weir_limiter_on_change(weir_limiter *l, weir_limiter_changed fn, void *ctx);
weir_status __wrap_weir_rules_build(weir_rules **ret, const weir_store *store,
                                    const weir_zones *zones, const weir_rule_spec *specs, size_t n);
weir_status __real_weir_rules_build(weir_rules **ret, const weir_store *store,
                                    const weir_zones *zones, const weir_rule_spec *specs, size_t n);

void __wrap_sigbus_watch(const log_target *log, const char *path, const weir_store *s);
void __wrap_sigbus_unwatch(void);
void __wrap_engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer);
void __wrap_engines_end(engines *e, unsigned loop, weir_service *service);
weir_status __wrap_weir_limiter_enable_top(weir_limiter *l, const weir_top_options *options);
int64_t __wrap_weir_limiter_now(weir_limiter *l);
int64_t __real_weir_limiter_now(weir_limiter *l);
unsigned __wrap_port_cores(void);
unsigned __real_port_cores(void);
void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__real_realloc(void *p, size_t size);
void __wrap_free(void *p);
void __real_free(void *p);

void __wrap_sigbus_watch(const log_target *log, const char *path, const weir_store *s)
{
    assert_true(log && s);
    fake.watched = path ? path : "no file";
}

void __wrap_sigbus_unwatch(void)
{
    fake.unwatched++;
}

unsigned __wrap_port_cores(void)
{
    return fake.cores > 0 ? fake.cores : __real_port_cores();
}

static bool may_allocate(void)
{
    bool may = !fake.is_full || fake.blocks_left > 0;
    fake.blocks_left -= fake.is_full && may;
    fake.failed |= !may;
    return may;
}

static void *counted(void *p)
{
    fake.blocks += p != NULL;
    return p;
}

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? counted(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? counted(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *p, size_t size)
{
    if (!may_allocate())
        return NULL;
    return p ? __real_realloc(p, size) : counted(__real_realloc(p, size));
}

void __wrap_free(void *p)
{
    fake.blocks -= p != NULL;
    __real_free(p);
}

int64_t __wrap_port_now_ns(void)
{
    return now_ns;
}

void __wrap_engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer)
{
    fake.begun.engines = e;
    fake.begun.loop = loop;
    fake.begun.service = service;
    fake.begun.dialer = dialer;
}

void __wrap_engines_end(engines *e, unsigned loop, weir_service *service)
{
    fake.ended.engines = e;
    fake.ended.loop = loop;
    fake.ended.service = service;
}

weir_status __wrap_weir_limiter_enable_top(weir_limiter *l, const weir_top_options *options)
{
    assert_non_null(l);
    fake.top = *options;
    return WEIR_OK;
}

int64_t __wrap_weir_limiter_now(weir_limiter *l)
{
    fake.nows++;
    return __real_weir_limiter_now(l);
}

weir_status __wrap_weir_server_open(weir_server **ret, const weir_server_options *options,
                                    char *ret_error, size_t size)
{
    fake.server = *options;
    fake.loop = options->contexts[0];
    *ret = NULL;
    if (fake.opened)
        fake.opened();
    if (fake.open_status != WEIR_OK)
        snprintf(ret_error, size, "no port");
    return fake.open_status;
}

const char *__wrap_weir_server_address(const weir_server *s, size_t i)
{
    (void)s;
    static const char *const addresses[] = {"1.1.1.1:1", "1.1.1.1:2", "/3"};
    return addresses[i];
}

void __wrap_weir_server_run(weir_server *s)
{
    (void)s;
    if (fake.serve)
        fake.serve();
}

void __wrap_weir_server_close(weir_server *s)
{
    (void)s;
    fake.servers_closed++;
}

bool __wrap_weir_server_stopping(const weir_server *s)
{
    (void)s;
    return fake.stopping;
}

weir_status __wrap_weir_server_watch(weir_server *s, size_t i, const char *path)
{
    (void)s;
    assert_true(i < WEIR_WATCHES_MAX);
    snprintf(fake.watched_more[i], sizeof fake.watched_more[i], "%s", path ? path : "");
    return WEIR_OK;
}

weir_server_stats __wrap_weir_server_stats_get(const weir_server *s)
{
    (void)s;
    return (weir_server_stats){101, 102, 103, 104, 105, 109, 106, 107, 108};
}

weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l)
{
    (void)l;
    return fake.clock;
}

weir_file __wrap_weir_store_watch(weir_store *s)
{
    (void)s;
    return fake.place;
}

weir_status __wrap_weir_store_open(weir_store **ret, const weir_store_options *options)
{
    weir_status st = __real_weir_store_open(ret, options);
    if (options->ret_opened)
        *options->ret_opened = (weir_store_opened){fake.found, fake.written_ns};
    return st;
}

void __wrap_weir_limiter_on_change(weir_limiter *l, weir_limiter_changed fn, void *ctx)
{
    (void)l;
    fake.changed = fn;
    fake.changed_ctx = ctx;
}

weir_status __wrap_weir_rules_build(weir_rules **ret, const weir_store *store,
                                    const weir_zones *zones, const weir_rule_spec *specs, size_t n)
{
    return fake.rules_status != WEIR_OK ? fake.rules_status
                                        : __real_weir_rules_build(ret, store, zones, specs, n);
}

/* ---- running it ------------------------------------------------------------------------------ */

static char dir[] = "/tmp/weir-daemon-XXXXXX";
static int log_fd;
static off_t log_read; /* bytes of the log that were expected before */
static bool adjusts;
static char ready_addresses[100];

static bool adjust(void *ctx, weir_config *config)
{
    (void)ctx;
    (void)config;
    return adjusts;
}

static void ready(void *ctx, char (*addresses)[DAEMON_ADDRESSES_MAX])
{
    (void)ctx;
    snprintf(ready_addresses, sizeof ready_addresses, "%s %s", addresses[PROTOCOL_RESP],
             addresses[PROTOCOL_HTTP]);
}

/* Expects these new lines of the log, without their times. */
static void logged(const char *expected)
{
    char buf[8192], text[8192] = "";
    ssize_t len = pread(log_fd, buf, sizeof buf - 1, log_read);
    assert_true(len >= 0);
    buf[len] = '\0';
    log_read += len;
    for (char *rest = buf, *one; (one = strsep(&rest, "\n")) && *one;) {
        assert_memory_equal(one, "2025-11-21T09:00:00.123Z ", 25);
        strcat(strcat(text, one + 25), "\n");
    }
    assert_string_equal(text, expected);
}

#define CONFIG_WITHOUT_MEMORY                                                                      \
    "threads: 2\nlisten: {resp: ['127.0.0.1:1', '127.0.0.1:2'], http: off}\n"                      \
    "limits: {connections: 99, buffers: 33m, idle: 1s, request: 2s, write: 3s, drain: 4s}\n"       \
    "policies: {a: gcra 1/s}\n"
#define CONFIG CONFIG_WITHOUT_MEMORY "memory: {size: 8m}\n"
#define START                                                                                      \
    "info started version=" WEIR_VERSION " resp=1.1.1.1:1,1.1.1.1:2 policies=1 "                   \
    "memory_bytes=8388608 threads=2"
#define STARTED              START "\n"
#define STARTED_WITH(ENGINE) START " engine=" ENGINE "\n"

/* Runs the daemon; the server's run() is `serve`. Returns the exit status. */
static int run(const char *path, const char *yaml, void (*serve)(void))
{
    const config_sink sink = config_print_to(stderr);
    const log_target log = {.fd = log_fd, .least = WEIR_LOG_INFO};
    weir_config *c = NULL;
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c), WEIR_OK);
    fake.serve = serve;
    const daemon_options options = {
        .path = path, .config = c, .log = &log, .adjust = adjust, .ready = ready};
    size_t blocks = fake.blocks;
    fake.is_full = fake.fills;
    fake.servers_closed = fake.unwatched = 0;
    fake.watched = NULL;
    int status = daemon_run(&options);
    fake.is_full = false;
    assert_int_equal(fake.blocks, blocks); /* nothing leaks */
    assert_int_equal(fake.unwatched, fake.servers_closed);
    config_free(c);
    return status;
}

static int reset(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    adjusts = true;
    log_read = lseek(log_fd, 0, SEEK_END);
    return 0;
}

/* Returns the value of a metric; -1 if it is absent. */
static int64_t metric(const char *name)
{
    weir_buffer out;
    char line[100];
    weir_buffer_init(&out, 1 << 20);
    fake.loop->metrics(fake.loop, &out);
    weir_buffer_append_byte(&out, '\0');
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr((const char *)weir_buffer_data(&out), line);
    int64_t value = at ? strtoll(at + strlen(line), NULL, 10) : -1;
    weir_buffer_free(&out);
    return value;
}

#endif
