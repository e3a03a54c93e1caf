/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests libweir-redis with a real redis-server on a free port: blocking and async calls, many
 * threads, a server that stops, is killed and returns, and no server.
 *
 *   library_test [MODULE]   decides by functions and by the script, and by the module if given */

#include <weir/weir_redis.h>
#include <weir/weir_store.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000;
enum { PATIENCE_S = 60, THREADS = 8 };

static const char *module;

/* ---- a server -------------------------------------------------------------------------------- */

typedef struct server {
    pid_t pid;
    int log; /* a pipe with its output */
    int port;
    char url[64];
} server;

static struct sockaddr_in at(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static int free_port(void)
{
    struct sockaddr_in a = at(0);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

/* Reads the server's log until it accepts connections. */
static bool is_ready(int log)
{
    static char text[1 << 16];
    size_t len = 0;
    struct pollfd p = {.fd = log, .events = POLLIN};
    text[0] = 0;
    while (!strstr(text, "Ready to accept connections")) {
        ssize_t got =
            poll(&p, 1, PATIENCE_S * 1000) == 1 ? read(log, text + len, sizeof text - 1 - len) : 0;
        if (got <= 0)
            return false;
        text[len += (size_t)got] = 0;
    }
    return true;
}

/* Returns whether the server could use its port. */
static bool run(server *s)
{
    char port[16];
    int fds[2];
    (void)snprintf(port, sizeof port, "%d", s->port);
    assert_int_equal(pipe(fds), 0);
    s->log = fds[0];
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if this process crashes */
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", "--dir", "/tmp", module ? "--loadmodule" : NULL, module, NULL);
        _exit(127);
    }
    close(fds[1]);
    return is_ready(s->log);
}

static void end(server *s)
{
    (void)kill(s->pid, SIGCONT);
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    close(s->log);
}

static bool begin(server *s)
{
    for (int i = 0; i < 10; i++) { /* another process may take the port first */
        s->port = free_port();
        (void)snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d", s->port);
        if (run(s))
            return true;
        end(s);
    }
    return false;
}

static weir_redis *opened(const server *s, weir_redis_options o)
{
    weir_redis_error error = {.text = ""};
    weir_redis *r = NULL;
    char url[64], prefix[32]; /* they are copied */
    const char *urls[] = {url};
    (void)snprintf(url, sizeof url, "%s", s->url);
    (void)snprintf(prefix, sizeof prefix, "%s", o.prefix ? o.prefix : "weir:");
    o.prefix = prefix;
    o.urls = urls;
    o.urls_len = 1;
    o.ret_error = &error;
    if (!o.deadline_ns)
        o.deadline_ns = 2000 * ms_ns; /* machines may be busy */
    /* A crash of the library's thread ends the process: cmocka's handler works only in its own. */
    (void)signal(SIGSEGV, SIG_DFL);
    if (weir_redis_open(&r, &o) != WEIR_OK)
        fail_msg("%s", error.text);
    memset(url, 'x', sizeof url);
    memset(prefix, 'x', sizeof prefix);
    urls[0] = NULL;
    return r;
}

/* Sends a line, and returns the reply. */
static const char *answer_of(const server *s, const char *line)
{
    static char buf[1 << 16];
    struct sockaddr_in a = at(s->port);
    size_t len = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (ssize_t got; (got = read(fd, buf + len, sizeof buf - 1 - len)) > 0;)
        len += (size_t)got;
    buf[len] = 0;
    close(fd);
    return buf;
}

static weir_policy parsed(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

/* ---- each decision method -------------------------------------------------------------------- */

/* What was used already is counted, also if it does not fit; the key is then in debt. */
static void charges(weir_redis *r)
{
    weir_policy p = parsed("gcra 1/h burst 5");
    weir_redis_answer a = {0};
    int64_t over = -1;
    assert_int_equal(weir_redis_charge(r, &p, "carol", 5, 3, &a, &over), WEIR_OK);
    assert_int_equal(over, 0);
    assert_true(a.decision.allowed);
    assert_int_equal(a.decision.remaining, 2);
    assert_int_equal(weir_redis_charge(r, &p, "carol", 5, 4, &a, &over), WEIR_OK);
    assert_int_equal(over, 0);
    assert_false(a.decision.allowed);
    assert_in_range(a.decision.retry_after_ns, 7100000 * ms_ns, 7200000 * ms_ns);
    assert_int_equal(weir_redis_check(r, &p, "carol", 5, 1, &a), WEIR_OK);
    assert_false(a.decision.allowed);
    p = parsed("gcra 1/20w burst 5"); /* a bucket holds 36.5 years: 95 intervals */
    assert_int_equal(weir_redis_charge(r, &p, "carol", 5, 100, &a, &over), WEIR_OK);
    assert_int_equal(over, 5);
    over = -1;
    p = parsed("concurrent 5 lease 1h");
    assert_int_equal(weir_redis_charge(r, &p, "carol", 5, 1, &a, &over), WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_redis_charge(r, &p, "carol", 5, -1, &a, &over), WEIR_E_RANGE);
    assert_int_equal(over, -1);
}

static void decisions(server *s, weir_redis_by by)
{
    weir_policy p = parsed("gcra 1/h burst 5");
    weir_redis_answer a = {0};
    weir_redis *r =
        opened(s, (weir_redis_options){
                      .by = by, .prefix = by == WEIR_REDIS_BY_SCRIPT ? "script:" : "other:"});
    for (int left = 4; left >= 0; left--) {
        assert_int_equal(weir_redis_check(r, &p, "alice", 5, 1, &a), WEIR_OK);
        assert_true(a.decision.allowed);
        assert_false(a.by_error);
        assert_int_equal(a.decision.limit, 5);
        assert_int_equal(a.decision.remaining, left);
    }
    for (int i = 0; i < 3; i++) { /* the second uses what the first loaded */
        assert_int_equal(weir_redis_check(r, &p, "alice", 5, 1, &a), WEIR_OK);
        assert_false(a.decision.allowed);
        assert_in_range(a.decision.retry_after_ns, 3500000 * ms_ns, 3600000 * ms_ns);
    }
    assert_int_equal(weir_redis_peek(r, &p, "alice", 5, 0, &a), WEIR_OK);
    assert_int_equal(a.decision.remaining, 0);
    assert_int_equal(weir_redis_refund(r, &p, "alice", 5, 2, &a), WEIR_OK);
    assert_int_equal(a.decision.remaining, 2);
    assert_int_equal(weir_redis_check(r, &p, "alice", 5, 2, &a), WEIR_OK);
    assert_true(a.decision.allowed);
    assert_int_equal(weir_redis_check(r, &p, "alice", 5, 6, &a), WEIR_OK);
    assert_true(a.decision.never);
    assert_int_equal(weir_redis_reset(r, &p, "alice", 5), WEIR_OK);
    assert_int_equal(weir_redis_check(r, &p, "alice", 5, 5, &a), WEIR_OK);
    assert_true(a.decision.allowed);
    assert_int_equal(weir_redis_check(r, &p, "\0\r\n", 3, 5, &a), WEIR_OK);
    assert_true(a.decision.allowed);

    static const char key[WEIR_KEY_MAX + 1];
    assert_int_equal(weir_redis_check(r, &p, key, WEIR_KEY_MAX, 5, &a), WEIR_OK);
    assert_true(a.decision.allowed);
    assert_int_equal(weir_redis_check(r, &p, key, 1, WEIR_COST_MAX, &a), WEIR_OK);
    assert_true(a.decision.never);
    assert_int_equal(weir_redis_check(r, &p, NULL, 1, 1, &a), WEIR_E_RANGE);
    assert_int_equal(weir_redis_check(r, &p, key, 0, 1, &a), WEIR_E_RANGE);
    assert_int_equal(weir_redis_check(r, &p, key, WEIR_KEY_MAX + 1, 1, &a), WEIR_E_RANGE);
    assert_int_equal(weir_redis_check(r, &p, key, 1, -1, &a), WEIR_E_RANGE);
    assert_int_equal(weir_redis_check(r, &p, key, 1, INT64_C(1) + WEIR_COST_MAX, &a), WEIR_E_RANGE);
    assert_int_equal(weir_redis_check_async(r, &p, key, 0, 1, NULL, NULL), WEIR_E_RANGE);
    weir_policy queue = parsed("leaky-queue 1/s depth 3");
    assert_int_equal(weir_redis_refund(r, &queue, "alice", 5, 1, &a), WEIR_E_UNSUPPORTED);
    charges(r);
    weir_redis_close(r);
}

static void by_functions(void **state)
{
    decisions(*state, WEIR_REDIS_BY_FUNCTIONS);
}

static void by_script(void **state)
{
    decisions(*state, WEIR_REDIS_BY_SCRIPT);
}

static void by_module(void **state)
{
    if (!module)
        skip();
    decisions(*state, WEIR_REDIS_BY_MODULE);
}

/* A daemon with the same prefix has reset all keys of a policy. */
static void all_keys_are_reset(void **state)
{
    const weir_redis_options o = {.prefix = "reset:"};
    weir_policy p = parsed("gcra 1/h burst 5");
    weir_redis_answer a = {0};
    weir_redis *r = opened(*state, o);
    assert_int_equal(weir_redis_check(r, &p, "alice", 5, 5, &a), WEIR_OK);
    assert_true(a.decision.allowed);
    weir_redis_close(r);
    assert_string_equal(
        answer_of(*state, "HSET reset:#resets \"gcra 1/h burst 5\" 0123456789abcdef\r\n"),
        ":1\r\n");
    r = opened(*state, o);
    assert_int_equal(weir_redis_check(r, &p, "alice", 5, 5, &a), WEIR_OK);
    assert_true(a.decision.allowed);
    weir_redis_close(r);
}

/* ---- the statistics of the server----------------------------------------------------------- */

/* How often the server ran a command, named in lower case. */
static long calls_of(const server *s, const char *command)
{
    char line[64];
    const char *stats = answer_of(s, "INFO commandstats\r\n");
    (void)snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *found = strstr(stats, line);
    return found ? atol(found + strlen(line)) : 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    weir_redis *redis;
    const weir_policy *policy;
    int allowed, failed;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 200; i++) {
        weir_redis_answer a;
        if (weir_redis_check(w->redis, w->policy, "shared", 6, 1, &a) != WEIR_OK || a.by_error)
            w->failed++;
        else
            w->allowed += a.decision.allowed;
    }
    return NULL;
}

static void admits_exactly_the_limit(void **state)
{
    server *s = *state;
    static const char *const policies[] = {"gcra 1/h burst 700", "token-bucket 700 refill 1/h",
                                           "sliding-log 700/h"};
    for (size_t k = 0; k < 3; k++) {
        weir_policy p = parsed(policies[k]);
        weir_redis *r =
            opened(s, (weir_redis_options){.prefix = policies[k], .by = WEIR_REDIS_BY_FUNCTIONS});
        long before = calls_of(s, "fcall");
        pthread_t threads[THREADS];
        worker workers[THREADS];
        int allowed = 0, failed = 0;
        for (int t = 0; t < THREADS; t++) {
            workers[t] = (worker){r, &p, 0, 0};
            assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            allowed += workers[t].allowed;
            failed += workers[t].failed;
        }
        assert_int_equal(failed, 0);
        assert_int_equal(allowed, 700);
        /* Those that were allowed; those that each thread sent before the first denial; and
         * what the library itself asks. */
        assert_in_range(calls_of(s, "fcall") - before, 700, 700 + 2 * THREADS);
        weir_redis_close(r);
    }
}

/* ---- async ----------------------------------------------------------------------------------- */

typedef struct tally {
    weir_redis *redis;
    const weir_policy *policy;
    atomic_int called, allowed, bad, again, refused;
    int awaited; /* calls; 0: none */
    sem_t all;   /* posted when all of them were made */
} tally;

static void on_answer(void *ctx, weir_status status, const weir_redis_answer *a)
{
    tally *t = ctx;
    if (status != WEIR_OK || !a)
        t->bad++;
    else
        t->allowed += a->decision.allowed && !a->by_error;
    if (t->again > 0) {
        t->again--;
        weir_status st = weir_redis_check_async(t->redis, t->policy, "bob", 3, 1, on_answer, t);
        if (st == WEIR_E_IO)
            t->refused++;
        else if (st != WEIR_OK)
            t->bad++;
    }
    if (++t->called == t->awaited)
        sem_post(&t->all);
}

static void async_calls(void **state)
{
    weir_policy p = parsed("gcra 1/h burst 300");
    weir_redis *r = opened(*state, (weir_redis_options){.prefix = "async:"});
    tally t = {.redis = r, .policy = &p, .again = 100, .awaited = 500};
    char key[] = "bob"; /* may change after the call */
    assert_int_equal(sem_init(&t.all, 0, 0), 0);
    for (int i = 0; i < 400; i++)
        assert_int_equal(weir_redis_check_async(r, &p, key, 3, 1, on_answer, &t), WEIR_OK);
    key[0] = 'x';
    assert_int_equal(sem_wait(&t.all), 0);
    assert_int_equal(t.called, 500);
    assert_int_equal(t.allowed, 300);
    assert_int_equal(t.bad, 0);
    weir_redis_answer a; /* the key was "bob" */
    assert_int_equal(weir_redis_peek(r, &p, "bob", 3, 0, &a), WEIR_OK);
    assert_int_equal(a.decision.remaining, 0);
    assert_int_equal(weir_redis_peek(r, &p, "xob", 3, 0, &a), WEIR_OK);
    assert_int_equal(a.decision.remaining, 300);
    weir_redis_close(r);
}

static void closing_completes_all_calls(void **state)
{
    server *s = *state;
    weir_policy p = parsed("gcra 1/h burst 300");
    for (int i = 0; i < 20; i++) {
        weir_redis *r = opened(s, (weir_redis_options){.deadline_ns = 60000 * ms_ns});
        tally t = {.redis = r, .policy = &p, .again = 100};
        for (int k = 0; k < 100; k++)
            assert_int_equal(weir_redis_check_async(r, &p, "bob", 3, 1, on_answer, &t), WEIR_OK);
        weir_redis_close(r);
        assert_int_equal(t.bad, 0);
        assert_int_equal(t.called, 200 - t.again - t.refused);
    }
}

/* The answers come from within weir_redis_close(), which refuses further calls. */
static void closing_refuses_calls(void **state)
{
    server *s = *state;
    weir_policy p = parsed("gcra 1/h burst 300");
    assert_int_equal(kill(s->pid, SIGSTOP), 0);
    weir_redis *r = opened(s, (weir_redis_options){.deadline_ns = 60000 * ms_ns});
    tally t = {.redis = r, .policy = &p, .again = 5};
    for (int k = 0; k < 10; k++)
        assert_int_equal(weir_redis_check_async(r, &p, "bob", 3, 1, on_answer, &t), WEIR_OK);
    weir_redis_close(r);
    assert_int_equal(kill(s->pid, SIGCONT), 0);
    assert_int_equal(t.called, 10);
    assert_int_equal(t.refused, 5);
    assert_int_equal(t.bad, 0);
}

/* ---- without a server ------------------------------------------------------------------------ */

static void without_a_server(void **state)
{
    (void)state;
    server none = {.port = free_port()};
    weir_policy p = parsed("gcra 1/h burst 2");
    weir_redis_answer a;
    (void)snprintf(none.url, sizeof none.url, "redis://127.0.0.1:%d", none.port);
    for (int how = WEIR_REDIS_OPEN; how <= WEIR_REDIS_LOCAL; how++) {
        weir_redis *r = opened(&none, (weir_redis_options){.on_error = (weir_redis_on_error)how,
                                                           .deadline_ns = 20 * ms_ns});
        for (int i = 0; i < 4; i++) {
            bool want = how == WEIR_REDIS_OPEN || (how == WEIR_REDIS_LOCAL && i < 2);
            assert_int_equal(weir_redis_check(r, &p, "a", 1, 1, &a), WEIR_OK);
            assert_true(a.by_error);
            assert_int_equal(a.decision.allowed, want);
            if (!want)
                assert_true(a.decision.retry_after_ns > 0);
        }
        weir_policy other = parsed("gcra 1/h burst 7"); /* has states of its own */
        assert_int_equal(weir_redis_check(r, &other, "a", 1, 3, &a), WEIR_OK);
        if (how == WEIR_REDIS_LOCAL)
            assert_int_equal(a.decision.remaining, 4);
        weir_status st = weir_redis_refund(r, &p, "a", 1, 1, &a);
        assert_int_equal(st, how == WEIR_REDIS_LOCAL ? WEIR_OK : WEIR_E_IO);
        int64_t over = -1;
        st = weir_redis_charge(r, &p, "a", 1, 1, &a, &over);
        assert_int_equal(st, how == WEIR_REDIS_LOCAL ? WEIR_OK : WEIR_E_IO);
        assert_int_equal(over, how == WEIR_REDIS_LOCAL ? 0 : -1);
        weir_redis_close(r);
    }
}

/* Sends requests until the expected decision method replies, one after the other. Each key is new,
 * so nothing is cached. */
static bool comes_from(weir_redis *r, bool server_answers)
{
    static int n;
    weir_policy p = parsed("gcra 1/h burst 2");
    for (time_t end = time(NULL) + PATIENCE_S; time(NULL) < end; sched_yield()) {
        char key[32];
        weir_redis_answer a;
        (void)snprintf(key, sizeof key, "key%d", n++);
        assert_int_equal(weir_redis_check(r, &p, key, strlen(key), 1, &a), WEIR_OK);
        assert_true(a.decision.allowed);
        if (a.by_error != server_answers)
            return true;
    }
    return false;
}

static void a_server_that_hangs_and_continues(void **state)
{
    server *s = *state;
    weir_redis *r = opened(s, (weir_redis_options){.deadline_ns = 50 * ms_ns});
    assert_true(comes_from(r, true));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(s->pid, SIGSTOP), 0);
        assert_true(comes_from(r, false));
        for (int k = 0; k < 20; k++)
            assert_true(comes_from(r, false));
        assert_int_equal(kill(s->pid, SIGCONT), 0);
        assert_true(comes_from(r, true));
    }
    weir_redis_close(r);
}

static void a_server_that_is_killed_and_restarted(void **state)
{
    server *s = *state;
    weir_redis *r = opened(s, (weir_redis_options){.deadline_ns = 50 * ms_ns});
    assert_true(comes_from(r, true));
    for (int i = 0; i < 2; i++) {
        end(s);
        assert_true(comes_from(r, false));
        assert_true(run(s)); /* the server has lost the library and the script */
        assert_true(comes_from(r, true));
    }
    weir_redis_close(r);
}

/* ---- options --------------------------------------------------------------------------------- */

static void bad_options_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"redis://127.0.0.1"}, *const bad[] = {"http://127.0.0.1"},
                             *const tls[] = {"rediss://127.0.0.1"};
    const weir_redis_options wrong[] = {
        {.urls = NULL},
        {.urls = bad, .urls_len = 1},
        {.urls = good, .urls_len = 1, .deadline_ns = 1},
        {.urls = good, .urls_len = 1, .in_flight = (size_t)1 << 30},
        {.urls = tls, .urls_len = 1, .tls_ca = "/nonexistent/ca.pem"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weir_redis_error error = {.text = ""};
        weir_redis_options o = wrong[i];
        weir_redis *r = NULL;
        o.ret_error = &error;
        assert_int_not_equal(weir_redis_open(&r, &o), WEIR_OK);
        assert_null(r);
        assert_true(strlen(error.text) > 10);
        o.ret_error = NULL;
        assert_int_not_equal(weir_redis_open(&r, &o), WEIR_OK);
    }
    weir_redis_close(NULL);
}

static int set_up(void **state)
{
    static server s;
    *state = &s;
    return begin(&s) ? 0 : -1;
}

static int tear_down(void **state)
{
    end(*state);
    return 0;
}

int main(int argc, char **argv)
{
    module = argc > 1 ? realpath(argv[1], NULL) : NULL;
    if (argc > 1 && !module)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_functions),
        cmocka_unit_test(by_script),
        cmocka_unit_test(by_module),
        cmocka_unit_test(all_keys_are_reset),
        cmocka_unit_test(admits_exactly_the_limit),
        cmocka_unit_test(async_calls),
        cmocka_unit_test(closing_completes_all_calls),
        cmocka_unit_test(closing_refuses_calls),
        cmocka_unit_test(without_a_server),
        cmocka_unit_test(a_server_that_hangs_and_continues),
        cmocka_unit_test(a_server_that_is_killed_and_restarted),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
