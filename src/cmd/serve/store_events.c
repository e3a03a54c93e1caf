/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Logs each event once: the last state of what is watched is kept. */

#include "cmd/serve/parts.h"

#include "cmd/kit/sigbus.h"
#include "codec/answer/metrics.h"

/* ---- time ------------------------------------------------------------------------------------ */

void store_events_log_offset(store_events *e)
{
    weir_clock_view clock = weir_limiter_clock(e->limiter);
    if (clock.offset_ns <= WEIR_CLOCK_STEP_NS && clock.offset_ns >= -WEIR_CLOCK_STEP_NS)
        return;
    log_event(
        e->log, WEIR_LOG_WARNING, "clock-offset",
        LOG(log_seconds("seconds", clock.offset_ns / 1000000),
            log_text("text", "the wall clock differs from the state file's time; weir continues "
                             "from the file's time and slews towards the wall clock")));
}

static void log_clock_jump(store_events *e, const weir_clock_view *clock)
{
    if (clock->jumps == e->clock_jumps)
        return;
    e->clock_jumps = clock->jumps;
    log_event(e->log, WEIR_LOG_WARNING, "clock-set",
              LOG(log_seconds("by_seconds", clock->jump_ns / 1000000),
                  log_text("text", "the wall clock was ahead by more than clock.step_above; weir's "
                                   "clock has stepped to it, and keys regain the quota of that "
                                   "time")));
}

/* Logs each step of the wall clock and of weir's, also without requests. */
static void log_clock_step(store_events *e)
{
    (void)weir_limiter_now(e->limiter);
    weir_clock_view clock = weir_limiter_clock(e->limiter);
    log_clock_jump(e, &clock);
    if (clock.steps == e->clock_steps)
        return;
    e->clock_steps = clock.steps;
    log_event(
        e->log, WEIR_LOG_WARNING, "clock-stepped",
        LOG(log_seconds("by_seconds", clock.step_ns / 1000000),
            log_seconds("offset_seconds", clock.offset_ns / 1000000),
            log_text("text", clock.offset_ns == 0
                                 ? "the wall clock stepped, and weir's clock follows"
                                 : "the wall clock stepped; limits are unaffected, and weir's "
                                   "clock slews towards it")));
}

/* ---- the state file -------------------------------------------------------------------------- */

void store_events_log_opened(const log_target *log, const char *state_file,
                             const weir_store_opened *opened, int64_t now_ns)
{
    int64_t ago_ns = now_ns > opened->written_ns ? now_ns - opened->written_ns : 0;
    bool lost = opened->found == WEIR_FOUND_POWER_LOSS;
    log_event(log, lost ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "state",
              LOG(log_text("file", state_file), log_text("found", state_found_text(opened->found)),
                  opened->written_ns > 0 ? log_integer("written_seconds_ago", ago_ns / 1000000000)
                                         : log_text("written_seconds_ago", NULL)));
}

/* Logs when the state file at its path is lost, and when it is back. */
static void log_state_file(store_events *e)
{
    static const char *const why[] = {[WEIR_FILE_IN_PLACE] = NULL,
                                      [WEIR_FILE_REMOVED] = "removed",
                                      [WEIR_FILE_MOVED] = "moved",
                                      [WEIR_FILE_REPLACED] = "replaced",
                                      [WEIR_FILE_SHORTENED] = "shortened"};
    static const char *const texts[] = {
        [WEIR_FILE_IN_PLACE] = "the state file is at its path again",
        [WEIR_FILE_REMOVED] =
            "the state file was removed; weir keeps its state until it stops, and "
            "the next start begins with an empty file",
        [WEIR_FILE_MOVED] =
            "the state file was moved; weir keeps using it. Move it back before the "
            "next start, which would begin with an empty file",
        [WEIR_FILE_REPLACED] = "another file has replaced the state file; weir keeps using the old "
                               "one, and the next start uses the new one",
        [WEIR_FILE_SHORTENED] =
            "the state file was truncated; weir will be killed by SIGBUS when it "
            "accesses the missing part"};
    weir_file now = weir_store_watch(e->store);
    if (now == (weir_file)port_load_relaxed(&e->place))
        return;
    port_store_relaxed(&e->place, now);
    bool lost = now != WEIR_FILE_IN_PLACE;
    log_event(e->log, lost ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
              lost ? "state-file-lost" : "state-file-back",
              LOG(log_text("file", e->state_file), log_text("why", why[now]),
                  log_text("text", texts[now])));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void note_partitions(store_events *e)
{
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_limiter_partitions(e->limiter, stats, WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < n; i++)
        e->lost[i] = stats[i].evicted + stats[i].refused;
}

/* Logs once for each policy with memory of its own that this memory is full. */
static void log_full_partitions(store_events *e)
{
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_limiter_partitions(e->limiter, stats, WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        const weir_partition_stats *p = &stats[i];
        if (e->lost[i] == UINT64_MAX || p->evicted + p->refused <= e->lost[i])
            continue;
        e->lost[i] = UINT64_MAX;
        log_event(e->log, WEIR_LOG_WARNING, "policy-memory-full",
                  LOG(log_text("policy", p->name), log_integer("keys", (int64_t)p->keys),
                      log_integer("memory_bytes", (int64_t)p->memory_max),
                      log_text("text", p->refused > 0
                                           ? "the policy's own memory is full, and new keys are "
                                             "refused; raise its memory and restart weir"
                                           : "the policy's own memory is full, and keys without "
                                             "full quota are evicted; raise its memory and "
                                             "restart weir")));
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

void store_events_begin(store_events *ret, const log_target *log, weir_store *store,
                        weir_limiter *limiter, const char *state_file)
{
    *ret = (store_events){.log = log, .store = store, .limiter = limiter, .state_file = state_file};
    note_partitions(ret);
}

void store_events_tick(store_events *e)
{
    log_clock_step(e);
    log_full_partitions(e);
    if (e->state_file)
        log_state_file(e);
}

void store_events_put_metrics(const store_events *e, weir_buffer *out)
{
    if (e->state_file)
        weir_metrics_put_one(out, "weir_store_file_lost", "gauge",
                             "1 if the state file at the path was moved, removed, replaced or "
                             "truncated.",
                             port_load_relaxed(&e->place) != WEIR_FILE_IN_PLACE);
}
