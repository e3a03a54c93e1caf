/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_DAEMON_KIT_TEST_H
#define WEIR_CMD_SERVE_DAEMON_KIT_TEST_H
/* Runs the daemon with a fake server and clock (see meson.build), and compares its log. */

#include "cmd/serve/daemon.h"
#include "cmd/serve/feature.h"
#include "cmd/serve/log_kit_test.h"
#include "cmd/serve/parts.h"
#include "cmd/serve/protocols.h"
#include "net/server.h"
#include "port/limits.h"
#include "port/port.h"
#include "rls/daemon/guest.h"
#include "rls/wire/message.h"
#include "service/limiter.h"
#include "service/top/top.h"
#include "store/iterate.h"
#include "tests/kit/kit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    weir_server_options server; /* as the daemon passed them */
    protocol_loop *loop;        /* the first one */
    void (*serve)(void);        /* the body of weir_server_run() */
    weir_status open_status;
    bool stopping, handed_over, full;
    bool stuck; /* the loops are not woken */
    int64_t jump_above_ns;
    weir_top_options top;
    unsigned cores;                          /* 0: the true number */
    uint64_t descriptors;                    /* the limit; 0: none */
    void (*opened)(void);                    /* called while the server is opened */
    void (*starting)(void);                  /* called before the daemon starts */
    char watched_more[WEIR_WATCHES_MAX][64]; /* by weir_server_watch(); "": none */
    int servers_closed;
    struct sigaction sigbus; /* before the daemon ran */
} fake;

weir_status __wrap_weir_server_open(weir_server **ret, const weir_server_options *options,
                                    char *ret_error, size_t size);
const char *__wrap_weir_server_address(const weir_server *s, size_t i);
void __wrap_weir_server_run(weir_server *s);
void __wrap_weir_server_close(weir_server *s);
bool __wrap_weir_server_stopping(const weir_server *s);
bool __wrap_weir_server_handed_over(const weir_server *s);
bool __wrap_weir_server_is_full(const weir_server *s);
weir_status __wrap_weir_server_watch(weir_server *s, size_t i, const char *path);
weir_server_stats __wrap_weir_server_stats_get(const weir_server *s);
void __wrap_weir_server_configure(weir_server *s, const weir_server_limits *limits);
void __wrap_weir_store_set_jump(weir_store *s, int64_t above_ns);
weir_status __wrap_weir_limiter_enable_top(weir_limiter *l, const weir_top_options *options);
unsigned __wrap_port_cores(void);
unsigned __real_port_cores(void);
uint64_t __wrap_port_raise_descriptors(void);

unsigned __wrap_port_cores(void)
{
    return fake.cores > 0 ? fake.cores : __real_port_cores();
}

uint64_t __wrap_port_raise_descriptors(void)
{
    return fake.descriptors > 0 ? fake.descriptors : UINT64_MAX;
}

weir_status __wrap_weir_limiter_enable_top(weir_limiter *l, const weir_top_options *options)
{
    assert_non_null(l);
    fake.top = *options;
    return WEIR_OK;
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
    static const char *const addresses[] = {"1.1.1.1:1", "1.1.1.1:2", "/3", "/4"};
    return addresses[i];
}

void __wrap_weir_server_run(weir_server *s)
{
    (void)s;
    assert_true(fake.server.serving(fake.server.ctx));
    if (fake.serve)
        fake.serve();
}

void __wrap_weir_server_close(weir_server *s)
{
    (void)s;
    fake.servers_closed++;
}

bool __wrap_weir_server_handed_over(const weir_server *s)
{
    (void)s;
    return fake.handed_over;
}

bool __wrap_weir_server_is_full(const weir_server *s)
{
    (void)s;
    return fake.full;
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
    return (weir_server_stats){101, 102, 103, 110, 104, 105, 109, 106, 107, 108};
}

/* Each loop changes over at once. */
void __wrap_weir_server_configure(weir_server *s, const weir_server_limits *limits)
{
    (void)s;
    fake.server.limits = *limits;
    for (unsigned i = 0; i < fake.server.loops && !fake.stuck; i++)
        fake.server.refresh(fake.server.contexts[i]);
}

void __wrap_weir_store_set_jump(weir_store *s, int64_t above_ns)
{
    (void)s;
    fake.jump_above_ns = above_ns;
}

/* ---- running it ------------------------------------------------------------------------------ */

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

#define CONFIG_WITHOUT_POLICIES                                                                    \
    "threads: 2\nlisten: {resp: ['127.0.0.1:1', '127.0.0.1:2'], http: off}\n"                      \
    "limits: {connections: 99, buffers: 33m, idle: 1s, request: 2s, write: 3s, drain: 4s}\n"
#define CONFIG_WITHOUT_MEMORY CONFIG_WITHOUT_POLICIES "policies: {a: gcra 1/s}\n"
#define CONFIG                CONFIG_WITHOUT_MEMORY "memory: {size: 8m}\n"
#define START                                                                                      \
    "info started version=" WEIR_VERSION " resp=1.1.1.1:1,1.1.1.1:2 policies=1 "                   \
    "memory_bytes=8388608 threads=2"
#define STARTED              START "\n"
#define STARTED_WITH(ENGINE) START " engine=" ENGINE "\n"

/* Runs the daemon; the server's run() is `serve`. Returns the exit status.
 *  files  whether the files that the configuration names are read. */
static int run_with(const char *path, const char *yaml, bool files, void (*serve)(void))
{
    const config_sink sink = config_print_to(stderr);
    log_target log = {.fd = log_fd, .least = {WEIR_LOG_INFO}};
    weir_config *c = NULL;
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", files, NULL, &sink, &c), WEIR_OK);
    fake.serve = serve;
    const daemon_options options = {
        .path = path, .config = c, .log = &log, .adjust = adjust, .ready = ready};
    struct sigaction after;
    fake.servers_closed = 0;
    assert_int_equal(sigaction(SIGBUS, NULL, &fake.sigbus), 0);
    if (fake.starting)
        fake.starting();
    int status = daemon_run(&options);
    assert_int_equal(sigaction(SIGBUS, NULL, &after), 0);
    assert_true(fake.servers_closed == 0 || after.sa_handler == SIG_DFL);
    config_free(c);
    return status;
}

static inline int run(const char *path, const char *yaml, void (*serve)(void))
{
    return run_with(path, yaml, false, serve);
}

/* Whether the daemon has a handler of SIGBUS, which explains the loss of a state file. */
static inline bool sigbus_is_watched(void)
{
    struct sigaction now;
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    return now.sa_sigaction != fake.sigbus.sa_sigaction;
}

static int reset(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    adjusts = true;
    log_read = lseek(log_fd, 0, SEEK_END);
    return 0;
}

/* Expects that the log says so, with this part of the reason. */
static inline void failed_to_start(const char *part)
{
    char buf[300] = "";
    ssize_t len = pread(log_fd, buf, sizeof buf - 1, log_read);
    assert_true(len > 0);
    assert_memory_equal(buf + 24, " error not-started error=\"", 26);
    assert_non_null(strstr(buf, part));
    log_read += len;
}

/* What the loop has of the rate limit service. */
static inline weir_rls_door *door_of(const protocol_loop *l)
{
    return l->part[feature_index(&rls_feature)];
}

static inline void add_load_errors(void *ctx, const weir_rls_stat *stat)
{
    if (strcmp(stat->name, "ratelimit.service.config_load_error") == 0)
        *(int64_t *)ctx += (int64_t)stat->value;
}

/* How many errors of its limits the rate limit service has counted. */
static inline int64_t load_errors(void)
{
    int64_t n = 0;
    weir_rls_each_stat(door_of(fake.loop)->rls, add_load_errors, &n);
    return n;
}

/* Returns the value of a metric; -1 if it is absent. */
static inline int64_t metric(const char *name)
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
