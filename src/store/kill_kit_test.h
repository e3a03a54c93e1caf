/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KILL_KIT_TEST_H
#define WEIR_STORE_KILL_KIT_TEST_H
/* The kit of all tests that kill processes: fork a child, kill it, wait for it; kill one of several
 * children again and again; or single-step a child with ptrace, to stop it after each instruction.
 * The functions report failures to their caller, which may use any test framework. */

#include "port/atomic.h"
#include "store/robust_lock.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a function in a child process, which exits with the function's result. The child is killed
 * when its parent ends. Returns the child's pid, or -1. */
static inline pid_t fork_child(int (*run)(void *ctx), void *ctx)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent ? run(ctx) : 0);
}

/* Waits until a child ends. Returns its wait status, or -1. */
static inline int wait_child(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static inline bool was_killed(int status)
{
    return status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Kills a child and waits for it. Returns false if it had ended in another way before. */
static inline bool kill_child(pid_t pid)
{
    return kill(pid, SIGKILL) == 0 && was_killed(wait_child(pid));
}

/* Runs a function in a child process. Returns the function's result, 0..255, or -1 if the child
 * crashed. */
static inline int run_in_child(int (*run)(void *ctx), void *ctx)
{
    pid_t pid = fork_child(run, ctx);
    int status = pid > 0 ? wait_child(pid) : -1;
    return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- children that are killed while they work ------------------------------------------------ */

enum { CHILDREN = 3, KILLS = 300 };

/* In memory that the children share. */
typedef struct kill_shared {
    port_counter rounds; /* that all processes have made */
    port_word alive[KILLS + 2 * CHILDREN + 8];
} kill_shared;

typedef struct kill_run {
    kill_shared *shared;
    void (*work)(void *ctx, const weir_processes *processes, uint64_t rounds);
    void *ctx;
    uint64_t gap_max; /* rounds between two kills, at most */
    uint64_t id;      /* of the child that is started */
} kill_run;

static inline bool kill_is_alive(const void *ctx, uint64_t id)
{
    const kill_shared *s = ctx;
    return id < sizeof s->alive / sizeof s->alive[0] && port_word_load_relaxed(&s->alive[id]);
}

static inline weir_processes kill_processes(kill_shared *s, uint64_t id)
{
    port_word_store_relaxed(&s->alive[id], 1);
    return (weir_processes){.self = id, .alive = kill_is_alive, .ctx = s};
}

static inline int kill_work(void *ctx)
{
    const kill_run *r = ctx;
    weir_processes p = kill_processes(r->shared, r->id);
    r->work(r->ctx, &p, UINT64_MAX);
    return 0;
}

static inline pid_t kill_start(kill_run *r)
{
    kill_processes(r->shared, ++r->id);
    return fork_child(kill_work, r);
}

/* Starts CHILDREN processes that work, and kills them in turn, KILLS times, each after a random
 * number of rounds. The ids of the children begin at 2. This process, with id 1, works too. Returns
 * false if a child could not be started, or ended in another way. */
static inline bool kill_many(kill_run *r)
{
    pid_t pids[CHILDREN];
    uint64_t ids[CHILDREN], x = 1;
    weir_processes self = kill_processes(r->shared, r->id = 1);
    bool good = true;
    for (size_t i = 0; i < CHILDREN; i++) {
        pids[i] = kill_start(r);
        ids[i] = r->id;
    }
    for (unsigned n = 0; n < KILLS + CHILDREN; n++) {
        size_t i = n % CHILDREN;
        x = x * 6364136223846793005 + 1442695040888963407;
        uint64_t until = port_load_relaxed(&r->shared->rounds) + (x >> 40) % r->gap_max;
        while (n < KILLS && port_load_relaxed(&r->shared->rounds) < until)
            r->work(r->ctx, &self, 1 + (x >> 33) % 7);
        good = good && pids[i] > 0 && kill_child(pids[i]);
        port_word_store_relaxed(&r->shared->alive[ids[i]], 0);
        if (n < KILLS) {
            pids[i] = kill_start(r);
            ids[i] = r->id;
        }
    }
    return good;
}

/* ---- a child that is stopped after each instruction ------------------------------------------ */

/* A part of a store, what it held before the last instruction, and a copy for the test to open. */
typedef struct stepped_memory {
    unsigned char *part, *last, *copy;
    size_t bytes;
    int steps; /* instructions so far */
} stepped_memory;

/* In the child: lets the parent trace it, and stops. False if the system does not allow tracing. */
static inline bool step_begin(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0;
}

/* Stepping takes a third of the time if this process and its child are on one processor. */
static inline void stay_on_cpu(void)
{
    enum { BITS = 64 };
    unsigned cpu = 0;
    uint64_t mask[1024 / BITS] = {0};
    if (syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 && cpu < 1024) {
        mask[cpu / BITS] = 1ULL << cpu % BITS;
        (void)syscall(SYS_sched_setaffinity, 0, sizeof mask, mask);
    }
}

/* Runs `act` in a child, instruction by instruction, and calls check after each instruction that
 * has changed the part, with the number of changes so far. m->copy then holds what a kill would
 * have left behind. `act` calls step_begin() and returns 1 if that is false, else 0. Returns the
 * number of changes; -1 if the system does not allow tracing; -2 if the child failed. */
static inline int step_child(int (*act)(void *ctx), stepped_memory *m,
                             void (*check)(void *ctx, int changes), void *ctx)
{
    int status, changes = 0;
    stay_on_cpu();
    pid_t pid = fork_child(act, ctx);
    m->steps = 0;
    memcpy(m->last, m->part, m->bytes);
    m->last[0] ^= 1; /* so that the memory before the first instruction is checked as well */
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
            return -2;
        if (memcmp(m->last, m->part, m->bytes) != 0) {
            memcpy(m->copy, m->part, m->bytes);
            check(ctx, changes++);
            memcpy(m->last, m->part, m->bytes);
        }
        m->steps++;
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
            break;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        return -2;
    return WEXITSTATUS(status) == 1 ? -1 : changes;
}

/* Runs `act` in a child, and `rival` in this process once the child has executed `steps`
 * instructions. Then the child goes on to its end. Returns false if the child failed. */
static inline bool interrupt_child(int (*act)(void *ctx), int steps, void (*rival)(void *ctx),
                                   void *ctx)
{
    int status;
    stay_on_cpu();
    pid_t pid = fork_child(act, ctx);
    for (int n = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); n++) {
        if (n == steps)
            rival(ctx);
        if (ptrace(n < steps ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, NULL) != 0)
            break;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif
