/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The kit of the crash tests. */

#include "crash.h"

#include "port/random_kit_test.h"
#include "store/kill_kit_test.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS_MAX = 8,
    GROUP = 6,
    PATIENCE_MS = 30000,
    NO_STORE = 3,
    BAD_ANSWER = 4,
    SEED = 20260101
};

static const int64_t now_ns = INT64_C(1800000000000000000);

/* A state of 8 bytes, one of 16, a count, a log that grows, and a large state that does not. */
static const char *const texts[CRASH_POLICIES] = {
    "gcra 1000000/h burst 1000000", "gcra 999983/h burst 1000000",        "fixed-window 1000000/h",
    "sliding-log 4000/h",           "sliding-slices 1000000/h slices 60",
};

/* ---- helpers --------------------------------------------------------------------------------- */

uint64_t crash_random(crash *c)
{
    return next_random(&c->random);
}

uint64_t crash_below(crash *c, uint64_t n)
{
    return crash_random(c) % n;
}

int64_t crash_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void crash_fail(const crash *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", c->program);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n%s: the file is %s\n", c->program, c->file);
    va_end(args);
    printf("0 passed, 1 failed, 0 skipped\n");
    exit(1);
}

void crash_init(crash *c, int argc, char **argv, int seconds, int *ret_seconds)
{
    *c = (crash){.program = argv[0], .memory_bytes = (size_t)8 << 20};
    *ret_seconds = argc > 1 ? atoi(argv[1]) : seconds;
    c->random = argc > 2   ? (uint64_t)strtoull(argv[2], NULL, 0)
                : argc > 1 ? (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid()
                           : SEED;
    printf("%s: %d seconds, seed %" PRIu64 "\n", argv[0], *ret_seconds, c->random);
    fflush(stdout);
    /* Only processes are killed here, so a disk would only make the tests slower. */
    strcpy(c->dir, "/dev/shm/weir-crash-XXXXXX");
    if (!mkdtemp(c->dir)) {
        strcpy(c->dir, "/tmp/weir-crash-XXXXXX");
        if (!mkdtemp(c->dir))
            crash_fail(c, "cannot create a directory for the file");
    }
    snprintf(c->file, sizeof c->file, "%s/state", c->dir);
    c->record =
        mmap(NULL, sizeof *c->record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->record == MAP_FAILED)
        crash_fail(c, "cannot map shared memory");
    for (size_t i = 0; i < CRASH_POLICIES; i++) {
        if (weir_policy_parse(&c->policy[i], texts[i], strlen(texts[i]), NULL, NULL) != WEIR_OK)
            crash_fail(c, "policy: %s", texts[i]);
    }
}

void crash_end(crash *c)
{
    char lock[sizeof c->file + 8];
    snprintf(lock, sizeof lock, "%s.lock", c->file);
    unlink(lock); /* left by killed processes */
    unlink(c->file);
    rmdir(c->dir);
    munmap(c->record, sizeof *c->record);
}

weir_status crash_open(const crash *c, weir_store **ret, weir_store_error *ret_error)
{
    static const uint8_t secret[16] = "the crash tests";
    *ret_error = (weir_store_error){""};
    const weir_store_options options = {.memory_bytes = c->memory_bytes,
                                        .secret = secret,
                                        .memory = c->memory,
                                        .file = c->memory ? NULL : c->file,
                                        .shared = c->shared,
                                        .ret_error = ret_error};
    return weir_store_open(ret, &options);
}

/* ---- the processes that charge keys ---------------------------------------------------------- */

typedef struct worker {
    crash *crash;
    weir_store *store;
    port_counter *calls;
    uint64_t left; /* calls until it kills the process; 0: it does not */
    uint64_t random;
    uint64_t id[CRASH_POLICIES];
    pthread_t thread;
} worker;

/* One charge, for the record and for the store. */
typedef struct charge {
    size_t policy, key;
    char text[24];
    int64_t cost;
} charge;

static charge any_charge(worker *w)
{
    charge g = {.policy = next_random(&w->random) % CRASH_POLICIES,
                .key = next_random(&w->random) % CRASH_KEYS,
                .cost = 1 + (int64_t)(next_random(&w->random) % 3)};
    snprintf(g.text, sizeof g.text, "key %zu", g.key);
    return g;
}

static crash_sums *sums_of(worker *w, const charge *g)
{
    return &w->crash->record->sums[g->policy][g->key];
}

static void begin(worker *w, const charge *g)
{
    port_add_relaxed(&sums_of(w, g)->begun, (uint64_t)g->cost);
}

static void answered(worker *w, const charge *g, weir_status st, const weir_decision *d)
{
    if (st != WEIR_OK)
        _exit(BAD_ANSWER);
    port_add_relaxed(d->allowed ? &sums_of(w, g)->answered : &sums_of(w, g)->returned,
                     (uint64_t)g->cost);
}

static void charge_one(worker *w)
{
    charge g = any_charge(w);
    weir_decision d;
    begin(w, &g);
    weir_status st = weir_store_check(w->store, &w->crash->policy[g.policy], w->id[g.policy],
                                      g.text, strlen(g.text), now_ns, g.cost, &d);
    answered(w, &g, st, &d);
}

static weir_store_request request_of(const worker *w, const charge *g)
{
    return (weir_store_request){.policy = &w->crash->policy[g->policy],
                                .policy_id = w->id[g->policy],
                                .key = g->text,
                                .key_len = strlen(g->text),
                                .cost = g->cost};
}

static void charge_batch(worker *w)
{
    charge g[GROUP];
    weir_store_request r[GROUP];
    for (size_t i = 0; i < GROUP; i++) {
        g[i] = any_charge(w);
        r[i] = request_of(w, &g[i]);
        begin(w, &g[i]);
    }
    weir_store_check_batch(w->store, r, GROUP, now_ns);
    for (size_t i = 0; i < GROUP; i++)
        answered(w, &g[i], r[i].status, &r[i].decision);
}

/* All or none. */
static void charge_many(worker *w)
{
    enum { MANY = 3 };
    charge g[MANY];
    weir_store_request r[MANY];
    size_t blocking = 0;
    for (size_t i = 0; i < MANY; i++) {
        g[i] = any_charge(w);
        r[i] = request_of(w, &g[i]);
        begin(w, &g[i]);
    }
    weir_status st = weir_store_take_many(w->store, r, MANY, now_ns, &blocking);
    const weir_decision all = {.allowed = blocking == MANY};
    for (size_t i = 0; i < MANY; i++)
        answered(w, &g[i], st, &all);
}

/* Reserves, and commits at a lower, equal or higher cost. */
static void reserve(worker *w)
{
    charge g = any_charge(w);
    weir_decision d = {.allowed = false};
    uint64_t id = 0;
    int64_t actual = (int64_t)(next_random(&w->random) % 5), over = 0;
    crash_sums *sums = sums_of(w, &g);
    begin(w, &g);
    weir_status st =
        weir_store_reserve(w->store, &w->crash->policy[g.policy], w->id[g.policy], g.text,
                           strlen(g.text), now_ns, g.cost, INT64_C(3600000000000), &d, &id);
    bool cannot = st == WEIR_E_UNSUPPORTED || st == WEIR_E_FULL;
    answered(w, &g, cannot ? WEIR_OK : st, &d);
    if (cannot || !d.allowed)
        return;
    uint64_t less = actual < g.cost ? (uint64_t)(g.cost - actual) : 0;
    uint64_t more = actual > g.cost ? (uint64_t)(actual - g.cost) : 0;
    port_add_relaxed(&sums->released, less);
    port_add_relaxed(&sums->begun, more);
    if (weir_store_commit(w->store, id, now_ns, actual, &d, &over) != WEIR_OK)
        _exit(BAD_ANSWER);
    port_add_relaxed(&sums->returned, less + (uint64_t)over);
    port_add_relaxed(&sums->answered, more - (uint64_t)over);
}

/* Adds and removes other keys, so that buckets and chains change. */
static void use_other_key(worker *w)
{
    charge g = any_charge(w);
    weir_decision d;
    snprintf(g.text, sizeof g.text, "passing %u", (unsigned)(next_random(&w->random) % 5000));
    const weir_policy *p = &w->crash->policy[g.policy];
    if (weir_store_check(w->store, p, w->id[g.policy], g.text, strlen(g.text), now_ns, g.cost,
                         &d) != WEIR_OK ||
        weir_store_reset(w->store, w->id[g.policy], g.text, strlen(g.text)) != WEIR_OK)
        _exit(BAD_ANSWER);
}

static void *work(void *ctx)
{
    worker *w = ctx;
    for (;;) {
        uint64_t what = next_random(&w->random) % 16;
        if (what < 7)
            charge_one(w);
        else if (what < 10)
            charge_batch(w);
        else if (what < 12)
            charge_many(w);
        else if (what < 14)
            reserve(w);
        else
            use_other_key(w);
        port_add_relaxed(w->calls, 1);
        if (w->left > 0 && --w->left == 0)
            kill(getpid(), SIGKILL);
    }
    return NULL;
}

static void kill_later(uint64_t us)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec at = {.it_value = {.tv_nsec = (long)us * 1000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &at, NULL) != 0)
        _exit(BAD_ANSWER);
}

typedef struct job {
    crash *crash;
    unsigned i, threads;
    crash_when when;
} job;

static int work_until_killed(void *ctx)
{
    const job *j = ctx;
    crash *c = j->crash;
    weir_store *s = NULL;
    weir_store_error error;
    worker workers[THREADS_MAX];
    if (j->when.us > 0)
        kill_later(j->when.us);
    if (crash_open(c, &s, &error) != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", c->program, error.text);
        return NO_STORE;
    }
    for (unsigned t = 0; t < j->threads; t++) {
        worker *w = &workers[t];
        *w = (worker){.crash = c, .store = s, .calls = &c->record->calls[j->i]};
        w->random = c->random + 1000 * j->i + t;
        w->left = t == 0 ? j->when.calls : 0;
        for (size_t p = 0; p < CRASH_POLICIES; p++)
            w->id[p] = weir_store_policy_id(s, &c->policy[p]);
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            return BAD_ANSWER;
    }
    for (;;)
        pause();
}

/* ---- the parent process ---------------------------------------------------------------------- */

pid_t crash_start(crash *c, unsigned i, unsigned threads, crash_when when)
{
    job j = {c, i, threads, when};
    crash_random(c); /* so that each process makes other calls */
    fflush(stdout);
    pid_t pid = fork_child(work_until_killed, &j);
    if (pid < 0)
        crash_fail(c, "cannot start a process");
    return pid;
}

static void fail_by_status(const crash *c, int status)
{
    if (WIFSIGNALED(status))
        crash_fail(c, "a process ended by signal %d", WTERMSIG(status));
    crash_fail(c, "a process ended by itself: status %d", WEXITSTATUS(status));
}

void crash_await(crash *c, pid_t pid, unsigned i, uint64_t calls)
{
    int status;
    int64_t until_ms = crash_ms() + PATIENCE_MS;
    uint64_t from = port_load_relaxed(&c->record->calls[i]);
    while (port_load_relaxed(&c->record->calls[i]) - from < calls) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            fail_by_status(c, status);
        if (crash_ms() > until_ms)
            crash_fail(c, "process %u makes no progress", i);
        sched_yield();
    }
}

void crash_kill(crash *c, pid_t pid)
{
    kill(pid, SIGKILL);
    crash_wait(c, pid);
}

void crash_wait(crash *c, pid_t pid)
{
    int status = wait_child(pid);
    if (!was_killed(status))
        fail_by_status(c, status);
}

typedef struct apart {
    crash *crash;
    int (*fn)(crash *c);
} apart;

static int run_apart(void *ctx)
{
    const apart *a = ctx;
    alarm(PATIENCE_MS / 1000);
    return a->fn(a->crash);
}

int crash_apart(crash *c, int (*fn)(crash *c))
{
    apart a = {c, fn};
    fflush(stdout);
    pid_t pid = fork_child(run_apart, &a);
    int status = pid > 0 ? wait_child(pid) : -1;
    if (!WIFEXITED(status))
        fail_by_status(c, status);
    return WEXITSTATUS(status);
}

static void verify_key(crash *c, weir_store *s, size_t p, size_t k, bool update)
{
    char key[24];
    weir_decision d;
    snprintf(key, sizeof key, "key %zu", k);
    uint64_t id = weir_store_policy_id(s, &c->policy[p]);
    crash_sums *sums = &c->record->sums[p][k];
    uint64_t returned = port_load_relaxed(&sums->returned);
    uint64_t answered = port_load_relaxed(&sums->answered);
    weir_status st = weir_store_peek(s, &c->policy[p], id, key, strlen(key), now_ns, 0, &d);
    uint64_t released = port_load_relaxed(&sums->released);
    uint64_t most = port_load_relaxed(&sums->begun) - returned;
    uint64_t least = answered > released ? answered - released : 0;
    if (st != WEIR_OK)
        crash_fail(c, "%s, %s: %s", texts[p], key, weir_status_str(st));
    uint64_t charged = (uint64_t)(d.limit - d.remaining);
    if (charged < least && charged < (uint64_t)d.limit) /* of a debt, the peek shows the limit */
        crash_fail(c, "%s, %s: %" PRIu64 " units were admitted, %" PRIu64 " are charged", texts[p],
                   key, least, charged);
    if (charged > most)
        crash_fail(c, "%s, %s: %" PRIu64 " units were requested, %" PRIu64 " are charged", texts[p],
                   key, most, charged);
    if (!update)
        return;
    if (d.remaining < d.limit / 2) {
        if (weir_store_reset(s, id, key, strlen(key)) != WEIR_OK)
            crash_fail(c, "%s, %s cannot be reset", texts[p], key);
        charged = 0;
    }
    *sums = (crash_sums){.begun = {charged}, .answered = {charged}};
}

void crash_verify(crash *c, weir_store *s, bool update)
{
    for (size_t p = 0; p < CRASH_POLICIES; p++) {
        for (size_t k = 0; k < CRASH_KEYS; k++)
            verify_key(c, s, p, k, update);
    }
    weir_store_stats stats = weir_store_stats_get(s);
    if (stats.evicted > 0)
        crash_fail(c, "%" PRIu64 " keys were evicted although the memory is not full",
                   stats.evicted);
}

void crash_clear(crash *c)
{
    memset(c->record, 0, sizeof *c->record);
}
