/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares how long it takes to open a state file with ten million keys and one with a hundred.
 * Opening reads no keys, so both should take the same time. Then decisions of a thread while
 * another makes backups of the file, compared with those without. The files are created in the
 * working directory. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include "port/atomic.h"
#include "port/port.h"
#include "store/iterate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 9, BACKED_UP = 1 << 20 };

static weir_store *open_at(const char *path, size_t memory_bytes)
{
    weir_store *s;
    const weir_store_options options = {
        .memory_bytes = memory_bytes, .file = path, .sync = WEIR_SYNC_NEVER};
    if (weir_store_open(&s, &options) != WEIR_OK)
        die("cannot open a state file in the working directory");
    return s;
}

static subject subject_at(const char *path, size_t memory_bytes, const char *text)
{
    subject s = {.store = open_at(path, memory_bytes)};
    if (weir_policy_parse(&s.policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        die("a policy is invalid");
    s.policy_id = weir_store_policy_id(s.store, &s.policy);
    return s;
}

/* The median time, in milliseconds, to open a file with this many keys. */
static double open_ms(uint64_t keys, size_t memory_bytes)
{
    char path[64];
    double took[ROUNDS];
    snprintf(path, sizeof path, "bench-state.%ld", (long)getpid());
    subject s = subject_at(path, memory_bytes, "gcra 1/h");
    if (subject_sweep(&s, keys, NOW_NS, 1) != keys)
        die("a new key was denied");
    weir_store_close(s.store);
    for (int i = 0; i < ROUNDS; i++) {
        double began = kit_seconds();
        s.store = open_at(path, memory_bytes);
        took[i] = (kit_seconds() - began) * 1e3;
        if (weir_store_stats_get(s.store).keys != keys)
            die("keys were lost");
        weir_store_close(s.store);
    }
    unlink(path);
    return kit_median(took, ROUNDS);
}

/* ---- backups --------------------------------------------------------------------------------- */

typedef struct job {
    char from[64], to[64];
    double seconds; /* of CPU time, of the last backup */
    port_counter done;
} job;

static void back_up(void *arg)
{
    job *j = arg;
    uint64_t keys = 0;
    const weir_store_options options = {.file = j->from};
    double began = kit_cpu_seconds();
    if (weir_store_backup(&options, j->to, &keys) != WEIR_OK || keys != BACKED_UP)
        die("a backup failed");
    j->seconds = kit_cpu_seconds() - began;
    port_store_relaxed(&j->done, 1);
}

/* Returns the decisions a second of CPU time of passes over all keys: of one, or of those that are
 * made until the job is done. */
static double pass(const subject *s, const job *j)
{
    unsigned passes = 0;
    double began = kit_cpu_seconds();
    do {
        if (subject_sweep(s, BACKED_UP, NOW_NS, 1) != BACKED_UP)
            die("a key was denied");
        passes++;
    } while (j && port_load_relaxed(&j->done) == 0);
    return passes * (double)BACKED_UP / (kit_cpu_seconds() - began);
}

static void backups_run(report *r)
{
    double during[ROUNDS], plain[ROUNDS], speed[ROUNDS];
    job j = {.seconds = 0};
    snprintf(j.from, sizeof j.from, "bench-state.%ld", (long)getpid());
    snprintf(j.to, sizeof j.to, "bench-backup.%ld", (long)getpid());
    subject s = subject_at(j.from, (size_t)64 << 20, "fixed-window 2000000000/d");
    pass(&s, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = pass(&s, NULL);
        port_store_relaxed(&j.done, 0);
        port_thread *t = port_thread_start(back_up, &j);
        if (!t)
            die("cannot start a thread");
        during[i] = pass(&s, &j);
        port_thread_join(t);
        speed[i] = BACKED_UP / j.seconds;
    }
    weir_store_close(s.store);
    unlink(j.from);
    unlink(j.to);
    double value = kit_median(during, ROUNDS), baseline = kit_median(plain, ROUNDS);
    report_add(r, &(report_row){.name = "state.backup.decisions",
                                .value = value,
                                .unit = "decisions/s",
                                .baseline_name = "without a backup",
                                .baseline = baseline,
                                .ratio = value / baseline});
    value = kit_median(speed, ROUNDS);
    report_add(r, &(report_row){.name = "state.backup.copied",
                                .value = value,
                                .unit = "keys/s",
                                .baseline_name = "decisions/s",
                                .baseline = baseline,
                                .ratio = value / baseline});
}

void state_run(report *r)
{
    backups_run(r);
    double few = open_ms(100, (size_t)16 << 20), many = open_ms(10000000, (size_t)384 << 20);
    report_add(r, &(report_row){.name = "state.open_ms.10M",
                                .value = many,
                                .unit = "ms",
                                .baseline_name = "100 keys",
                                .baseline = few,
                                .ratio = many / few});
}
