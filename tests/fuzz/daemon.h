/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_FUZZ_DAEMON_H
#define WEIR_TESTS_FUZZ_DAEMON_H
/* The parts of a daemon behind a session: a store, a fake engine, a limiter and a service. Opening
 * them takes longer than most inputs run, so they are opened once, and are reset after each use: an
 * input gives the same replies whatever ran before it. */

#include "store.h"

#include "service/fake_engine_test.h"
#include "service/service_internal.h"
#include "service/top/tracker.h"

typedef struct fuzz_daemon {
    weir_store *store;
    fake_engine *fake;
    weir_limiter *limiter; /* NULL: to be opened */
    weir_service *service;
    uint64_t generation; /* of the limiter when it was opened */
} fuzz_daemon;

static inline void fuzz_limiter_open(fuzz_daemon *d, bool engine, bool top, weir_rule_spec *specs,
                                     size_t n)
{
    weir_engine_kind kind = engine ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL;
    weir_rules *rules;
    for (size_t i = 0; i < n; i++)
        specs[i].engine = kind;
    CHECK(weir_limiter_open(&d->limiter, d->store, NULL) == WEIR_OK);
    CHECK(!top || weir_limiter_enable_top(d->limiter, &(weir_top_options){4, 1 << 20}) == 0);
    CHECK(weir_rules_build(&rules, d->store, NULL, specs, n) == WEIR_OK);
    static const char *const names[] = {"a", "q"};
    const weir_route_spec routes[] = {
        {.name = "one", .path = "/one", .policies = names, .policies_len = 1, .cost = 1},
        {.path = "/two/", .policies = names, .policies_len = 2, .cost = 1},
        {.path = "/none"}};
    CHECK(weir_rules_set_routes(rules, routes, sizeof routes / sizeof routes[0],
                                WEIR_SLASH_REFUSE) == WEIR_OK);
    weir_limiter_configure(d->limiter, rules, kind);
    CHECK(weir_service_open(&d->service, d->limiter) == WEIR_OK);
    weir_service_set_engine(d->service, WEIR_ENGINE_REDIS, &d->fake->engine);
    d->generation = port_load_relaxed(&d->limiter->generation);
}

/* Returns a daemon in its initial state.
 *  engine  the states are in an engine.
 *  top     the daemon tracks top keys, which takes longer.
 *  specs   its rules, the same at each call. */
static inline fuzz_daemon *fuzz_daemon_begin(bool engine, bool top, weir_rule_spec *specs, size_t n)
{
    static fuzz_daemon daemons[2][2];
    fuzz_daemon *d = &daemons[engine][top];
    if (!d->store) {
        static const uint8_t secret[16] = {1};
        const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
        CHECK(weir_store_open(&d->store, &options) == WEIR_OK);
        d->fake = fake_open();
        d->fake->uses_store_ids = true;
        d->fake->reports_next = true;
    }
    if (!d->limiter)
        fuzz_limiter_open(d, engine, top, specs, n);
    return d;
}

/* Resets the counters and the top keys. */
static inline void fuzz_counters_clear(fuzz_daemon *d)
{
    weir_service *s = d->service;
    weir_counter_table *counters = s->counters;
    memset(counters->of, 0, d->limiter->names * sizeof counters->of[0]);
    memset(counters->latency, 0, sizeof counters->latency);
    port_store_relaxed(&counters->latency_sum_ns, 0);
    s->ticked_ns = 0;
    s->decided = 0;
    if (!s->tracker)
        return;
    weir_top_tracker_close(s->tracker);
    port_store_relaxed(&d->limiter->top.bytes, 0);
    s->tracker = weir_top_tracker_open(&d->limiter->top, NAMES_MAX);
    CHECK(s->tracker);
}

/* Ends the use of a daemon whose sessions are closed. */
static inline void fuzz_daemon_end(fuzz_daemon *d)
{
    CHECK(d->fake->batches == 0);
    fuzz_store_clear(d->store);
    fuzz_store_clear(d->fake->store);
    if (port_load_relaxed(&d->limiter->generation) == d->generation) {
        fuzz_counters_clear(d);
        return;
    }
    weir_service_close(d->service); /* its rules have changed */
    weir_limiter_close(d->limiter);
    d->limiter = NULL;
}

#endif
