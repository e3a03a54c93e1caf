/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several processes share a state file, and one of them is killed at any moment, again and again.
 * The others go on, and every returned charge is there. Then the same with memory in the place of
 * the file.
 *
 *     shared_test [SECONDS [SEED]] */

#include "crash.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 2 };

/* While the others are running. */
static int look(crash *c)
{
    weir_store *s = NULL;
    weir_store_error error;
    if (crash_open(c, &s, &error) != WEIR_OK)
        crash_fail(c, "the store does not open: %s", error.text);
    crash_verify(c, s, false);
    weir_store_close(s);
    return 0;
}

/* After all have ended. */
static int look_at_rest(crash *c)
{
    weir_store *s = NULL;
    weir_store_error error;
    if (crash_open(c, &s, &error) != WEIR_OK)
        crash_fail(c, "the store does not open: %s", error.text);
    crash_verify(c, s, true);
    return 0;
}

/* Usually during its calls, and sometimes while it opens the file. */
static crash_when any_moment(crash *c)
{
    if (crash_below(c, 4) == 0)
        return (crash_when){.us = 1 + crash_below(c, 4000)};
    return (crash_when){.calls = 1 + crash_below(c, 300)};
}

/* Returns how many processes were killed. */
static unsigned run_some(crash *c, unsigned kills, pid_t pid[PROCESSES])
{
    enum { KILLS = 20 };
    for (unsigned i = 0; i < PROCESSES; i++)
        pid[i] = crash_start(c, i, THREADS, (crash_when){0});
    for (unsigned i = 0; i < PROCESSES; i++)
        crash_await(c, pid[i], i, 1);
    for (unsigned n = 0; n < KILLS; n++) {
        unsigned victim = (unsigned)crash_below(c, PROCESSES);
        crash_kill(c, pid[victim]);
        crash_wait(c, crash_start(c, victim, THREADS, any_moment(c)));
        for (unsigned i = 0; i < PROCESSES; i++) {
            if (i != victim)
                crash_await(c, pid[i], i, 20);
        }
        if (crash_apart(c, look) != 0)
            crash_fail(c, "after %u kills", kills + n + 1);
        pid[victim] = crash_start(c, victim, THREADS, (crash_when){0});
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        crash_kill(c, pid[i]);
    if (crash_apart(c, look_at_rest) != 0)
        crash_fail(c, "when all had gone");
    return 2 * KILLS + PROCESSES;
}

/* Returns how many processes were killed. */
static unsigned run_for(crash *c, int64_t ms)
{
    pid_t pid[PROCESSES];
    unsigned kills = 0;
    for (int64_t until_ms = crash_ms() + ms; crash_ms() < until_ms;)
        kills += run_some(c, kills, pid);
    return kills;
}

/* The first opening of the memory ends before the others begin. */
static void use_memory(crash *c)
{
    crash_clear(c);
    c->memory =
        mmap(NULL, c->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->memory == MAP_FAILED)
        crash_fail(c, "cannot map shared memory");
    if (crash_apart(c, look) != 0)
        crash_fail(c, "the store is not created");
}

int main(int argc, char **argv)
{
    crash c;
    int seconds;
    crash_init(&c, argc, argv, 5, &seconds);
    c.shared = true;
    unsigned in_file = run_for(&c, (int64_t)seconds * 500);
    use_memory(&c);
    unsigned in_memory = run_for(&c, (int64_t)seconds * 500);
    munmap(c.memory, c.memory_bytes);
    crash_end(&c);
    printf("%u kills with a file, %u with memory\n2 passed, 0 failed, 0 skipped\n", in_file,
           in_memory);
    return 0;
}
