/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs a test, and ends with its status. When this program ends, no process that the test started
 * is running, not even a daemon, and not even if the test was killed or timed out. A test that
 * succeeds but leaves a process running has failed: the process is named and killed.
 *
 *   leash COMMAND [ARGUMENT...] */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds for processes to end after the test; the variable LEASH_PATIENCE_S overrides them. */
#define PATIENCE_S 10

static pid_t test;
static int status = -1; /* of the test; -1: it runs */

/* Reaps the processes that have ended. Returns whether any is left. */
static bool reap(int flags)
{
    int ended;
    pid_t pid;
    while ((pid = waitpid(-1, &ended, flags)) > 0)
        if (pid == test)
            status = ended;
    return pid == 0;
}

/* Orphans become children of this process. Calls `act` with each child. */
static void for_children(void (*act)(pid_t))
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    int pid;
    while (file && fscanf(file, "%d", &pid) == 1)
        act(pid);
    if (file)
        fclose(file);
}

static void kill_it(pid_t pid)
{
    kill(pid, SIGKILL);
}

static void name_it(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + 1 < len; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    fprintf(stderr, "leash: the test left a process running: %d %s\n", (int)pid, text);
}

/* The children of a killed process become children of this one, so they are killed next. */
static void kill_all(void)
{
    do
        for_children(kill_it);
    while (waitpid(-1, NULL, 0) > 0);
}

int main(int argc, char **argv)
{
    static const int caught[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigset_t set, old;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        sigaddset(&set, caught[i]);
    sigprocmask(SIG_BLOCK, &set, &old);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    test = argc > 1 ? fork() : -1;
    if (test == 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(argv[1], argv + 1);
        fprintf(stderr, "leash: cannot run %s: %s\n", argv[1], strerror(errno));
        _exit(127);
    }
    if (test < 0) {
        fprintf(stderr, "usage: leash COMMAND [ARGUMENT...]\n");
        return 2;
    }
    const char *other = getenv("LEASH_PATIENCE_S");
    for (bool left = true; left;) {
        struct timespec patience = {other ? atoi(other) : PATIENCE_S, 0};
        int got = status < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &patience);
        if (got > 0 && got != SIGCHLD) {
            kill_all();
            return 128 + got;
        }
        left = reap(WNOHANG);
        if (got < 0 && errno != EINTR)
            break;
    }
    int exited = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (reap(WNOHANG)) {
        for_children(name_it);
        kill_all();
        return exited == 0 || exited == 77 ? 1 : exited;
    }
    return exited;
}
