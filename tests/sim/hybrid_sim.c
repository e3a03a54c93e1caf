/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Simulates hybrid engines of several nodes, one server and a network with faults. Checks that no
 * more is admitted in all than docs/hybrid.md allows, and that every request is answered in time.
 *
 *     hybrid_sim [--seeds N] [--first SEED] [--seed SEED] [--tight PERCENT]
 *
 * --tight checks a tighter bound: PERCENT of what the nodes may admit beyond the policy. Below 100
 * at least one seed must fail, and the exit status is 0 if one does. Without arguments, hybrid_sim
 * runs 400 seeds, and then 60 with --tight 0. */

#include "bound.h"
#include "core/algorithm.h"
#include "engine/hybrid/sound_test.h"
#include "net.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 6, LIVES_MAX = 64, KEYS = 2, ROUND = 8, QUICK = 400, CONTROL = 60 };

static const int64_t ms = 1000000, s_ns = 1000000000;

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct life { /* of a node: from its start to its end */
    int64_t from_ns, to_ns;
} life;

typedef struct list {
    bound_unit *unit;
    size_t len, room;
} list;

typedef struct sim sim;

typedef struct node {
    sim *sim;
    unsigned index;
    world_dialer dialer;
    net_link *link;
    weir_engine *engine;
    struct sent_batch *requests; /* in flight */
    size_t life;
    int64_t gap_ns; /* the mean time between two batches */
    uint64_t incarnation;
} node;

/* A client's batch. The address of each key identifies its request. */
typedef struct sent_batch {
    struct sent_batch *next;
    node *node;
    weir_engine_batch batch;
    weir_engine_request request[ROUND];
    char key[ROUND][NET_KEY_MAX];
    int64_t decided_ns[ROUND]; /* 0: not decided yet */
    bool by_server[ROUND];
    int64_t asked_ns;
} sent_batch;

struct sim {
    world world;
    net_server server;
    uint64_t seed;
    weir_policy policy;
    uint64_t policy_id;
    char text[WEIR_POLICY_TEXT_MAX];
    weir_hybrid_options options;
    weir_hybrid_stats stats;
    unsigned nodes;
    node node[NODES_MAX];
    life life[LIVES_MAX];
    size_t lives;
    uint64_t events;
    net_link links[LIVES_MAX];
    list admitted[KEYS];
    list denied_by_server[KEYS];       /* denials of one unit, by the server */
    list charged[KEYS];                /* only for WEIR_FROM_FIRST */
    int64_t sum_charged, sum_admitted; /* less refunds */
    bool fair;                         /* no message is lost, no node dies, no batch is abandoned */
    int64_t end_ns, quiet_ns;
    unsigned abandons, costs;
    uint64_t requests, by_error, denied;
    char why[512]; /* the first failure; "" */
};

__attribute__((format(printf, 2, 3))) static void fail(sim *s, const char *format, ...)
{
    va_list args;
    if (s->why[0])
        return;
    va_start(args, format);
    (void)vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
}

static void list_add(list *l, int64_t at_ns, int64_t cost)
{
    if (l->len == l->room) {
        l->room = l->room ? 2 * l->room : 1024;
        l->unit = realloc(l->unit, l->room * sizeof *l->unit);
        if (!l->unit)
            abort();
    }
    l->unit[l->len++] = (bound_unit){at_ns, cost};
}

static unsigned key_of(const weir_engine_request *q)
{
    return (unsigned)(q->key.at[1] - '0');
}

static void charged(void *ctx, const weir_engine_request *q, int64_t units)
{
    sim *s = ctx;
    s->sum_charged += units;
    if (s->policy.layer[0].calendar == WEIR_FROM_FIRST)
        list_add(&s->charged[key_of(q)], s->world.now_ns, units);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* The keys of syncs have other addresses. */
static void decided(void *ctx, const char *key, int64_t decided_ns)
{
    sim *s = ctx;
    for (unsigned i = 0; i < s->nodes; i++)
        for (sent_batch *r = s->node[i].requests; r; r = r->next)
            for (size_t k = 0; k < r->batch.len; k++)
                if (r->key[k] == key) {
                    r->decided_ns[k] = decided_ns;
                    r->by_server[k] = true;
                }
}

enum { NOT_YET = 99 };        /* the status of a request without an answer */
enum { CHECK_INTERVAL = 32 }; /* events from one check of the engines to the next */

/* An answer that did not come from the server was decided now, even if its batch still waits for
 * other answers. */
static void note(sim *s, sent_batch *r)
{
    for (size_t i = 0; i < r->batch.len; i++)
        if (r->decided_ns[i] == 0 && (int)r->request[i].status != NOT_YET)
            r->decided_ns[i] = s->world.now_ns;
}

static void note_all(void *ctx)
{
    sim *s = ctx;
    bool checks = s->events++ % CHECK_INTERVAL == 0;
    for (unsigned i = 0; i < s->nodes; i++) {
        const node *n = &s->node[i];
        for (sent_batch *r = n->requests; r; r = r->next)
            note(s, r);
        if (checks && n->engine && !is_sound_hybrid((const hybrid *)n->engine))
            fail(s, "the structures of an engine do not agree");
    }
}

static void count(sim *s, sent_batch *r)
{
    note(s, r);
    for (size_t i = 0; i < r->batch.len; i++) {
        const weir_engine_request *q = &r->request[i];
        s->requests++;
        if (q->status != WEIR_OK)
            fail(s, "a request has status %d", (int)q->status);
        s->by_error += q->by_error;
        if (q->by_error || q->verb != WEIR_VERB_TAKE)
            continue;
        list *to = &s->admitted[key_of(q)];
        if (q->decision.allowed) {
            s->sum_admitted += q->cost;
            list_add(to, r->decided_ns[i], q->cost);
            continue;
        }
        s->denied++;
        if (r->by_server[i] && q->cost == 1)
            list_add(&s->denied_by_server[key_of(q)], r->decided_ns[i], 1);
        if (q->decision.retry_after_ns < 1)
            fail(s, "a denial with a wait of %lld ns", (long long)q->decision.retry_after_ns);
    }
    /* A request that waits for another may take both deadlines. */
    int64_t took_ns = s->world.now_ns - r->asked_ns;
    if (took_ns > 2 * s->server.faults.deadline_ns)
        fail(s, "an answer took %lld ms", (long long)(took_ns / ms));
}

static void drop_request(sent_batch *r)
{
    sent_batch **at = &r->node->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r);
}

static void done(weir_engine_batch *batch, int64_t now_ns)
{
    (void)now_ns;
    sent_batch *r = (sent_batch *)(void *)((char *)batch - offsetof(sent_batch, batch));
    count(r->node->sim, r);
    drop_request(r);
}

static int64_t some_cost(sim *s)
{
    world *w = &s->world;
    if (!world_chance(w, s->costs))
        return 1;
    if (world_chance(w, 20))
        return s->policy.layer[0].limit + world_between(w, 0, 2);
    return world_between(w, 1, 1 + s->policy.layer[0].limit / 10);
}

static sent_batch *some_request(node *n)
{
    sim *s = n->sim;
    world *w = &s->world;
    sent_batch *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->node = n;
    r->asked_ns = w->now_ns;
    r->batch =
        (weir_engine_batch){.request = r->request, .len = 1 + world_below(w, ROUND), .done = done};
    for (size_t i = 0; i < r->batch.len; i++) {
        (void)snprintf(r->key[i], sizeof r->key[i], "k%u", world_chance(w, 100) ? 1U : 0U);
        r->request[i] = (weir_engine_request){
            .verb = world_chance(w, 10) ? WEIR_VERB_PEEK : WEIR_VERB_TAKE,
            .policy = &s->policy,
            .text = {s->text, strlen(s->text)},
            .key = {r->key[i], 2},
            .policy_id = s->policy_id,
            .cost = some_cost(s),
            .status = (weir_status)NOT_YET,
            .on_error = world_chance(w, 500) ? WEIR_ON_ERROR_OPEN : WEIR_ON_ERROR_CLOSED};
    }
    r->next = n->requests;
    n->requests = r;
    return r;
}

static void client(void *ctx, uint64_t incarnation)
{
    node *n = ctx;
    sim *s = n->sim;
    world *w = &s->world;
    if (!n->engine || n->incarnation != incarnation)
        return;
    if (w->now_ns < s->quiet_ns) {
        sent_batch *r = some_request(n);
        if (n->engine->calls->submit(n->engine, &r->batch, w->now_ns + n->dialer.offset_ns)) {
            count(s, r);
            drop_request(r);
        } else if (world_chance(w, s->abandons)) {
            n->engine->calls->abandon(n->engine, &r->batch);
            drop_request(r);
        }
    }
    int64_t gap_ns = world_chance(w, 5) ? 300 * n->gap_ns : world_between(w, 0, 2 * n->gap_ns);
    world_add(w, w->now_ns + gap_ns, client, n, incarnation);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void start(node *n)
{
    sim *s = n->sim;
    world *w = &s->world;
    n->life = s->lives++;
    n->link = &s->links[n->life];
    s->life[n->life] = (life){w->now_ns, INT64_MAX};
    world_dialer_init(&n->dialer, w, world_between(w, -3600 * s_ns, 3600 * s_ns));
    net_link_init(n->link, &s->server, n->dialer.offset_ns);
    weir_hybrid_setup setup = {&s->options, &n->link->face, &n->dialer.face, &s->stats, NULL};
    if (weir_hybrid_engine_open(&n->engine, &setup) != WEIR_OK)
        abort();
    n->gap_ns = world_between(w, 1, 20) * world_between(w, 1, 10) * ms / 10;
    n->incarnation++;
    client(n, n->incarnation);
}

static void stop(node *n, bool dies)
{
    sim *s = n->sim;
    if (!n->engine)
        return;
    n->link->dead = dies;
    while (n->requests) {
        n->engine->calls->abandon(n->engine, &n->requests->batch);
        drop_request(n->requests);
    }
    n->engine->calls->close(n->engine);
    n->engine = NULL;
    s->life[n->life].to_ns = s->world.now_ns;
}

static void fate(void *ctx, uint64_t unused)
{
    (void)unused;
    node *n = ctx;
    sim *s = n->sim;
    world *w = &s->world;
    if (w->now_ns >= s->quiet_ns)
        return;
    if (!n->engine) {
        if (s->lives < LIVES_MAX)
            start(n);
    } else if (world_chance(w, 300)) {
        stop(n, world_chance(w, 700));
    } else {
        n->link->cut = !n->link->cut;
        n->link->knows_cut = world_chance(w, 500);
    }
    world_add(w, w->now_ns + world_between(w, 10 * ms, s_ns), fate, n, 0);
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static int64_t nodes_between(void *ctx, int64_t from_ns, int64_t to_ns)
{
    const sim *s = ctx;
    int64_t n = 0;
    for (size_t i = 0; i < s->lives; i++)
        n += s->life[i].from_ns <= to_ns && s->life[i].to_ns >= from_ns;
    return n;
}

static void some_policy(sim *s)
{
    static const char *const forms[] = {
        "fixed-window %lld/s",
        "fixed-window %lld/700ms",
        "fixed-window %lld/m",
        "fixed-window %lld/900ms from-first",
        "fixed-window %lld/90ms",
        "sliding-log %lld/s",
        "sliding-log %lld/150ms",
        "sliding-counter %lld/s",
        "sliding-counter %lld/s relaxed",
        "sliding-slices %lld/s slices 10",
        "gcra 300/s burst %lld",
        "gcra 7/3ms burst %lld",
        "token-bucket %lld refill 500/s",
        "token-bucket %lld refill 30 every 100ms",
        "leaky-bucket 100/s capacity %lld",
        "gcra 900/s burst %lld & gcra 400/s burst 1000",
        "gcra 900/s burst 300 & fixed-window %lld/s",
        "fixed-window 300/400ms & sliding-log %lld/s",
    };
    world *w = &s->world;
    char text[128];
    int64_t limit = world_chance(w, 300) ? world_between(w, 1, 60)
                                         : world_between(w, 16, 32 << world_below(w, 7));
    (void)snprintf(text, sizeof text, forms[world_below(w, sizeof forms / sizeof *forms)],
                   (long long)limit);
    weir_policy_error error;
    if (weir_policy_parse(&s->policy, text, strlen(text), NULL, &error) != WEIR_OK) {
        (void)fprintf(stderr, "%s: %s\n", text, error.text);
        abort();
    }
    weir_policy_print(&s->policy, s->text, sizeof s->text);
    s->policy_id = weir_store_policy_id(s->server.store, &s->policy);
}

static void some_faults(sim *s)
{
    world *w = &s->world;
    bool bad = world_chance(w, 600);
    s->server.faults = (net_faults){.delay_ns_min = 20000,
                                    .delay_ns_max = world_between(w, 30000, 3 * ms),
                                    .slow_ns_max = world_between(w, 3 * ms, 60 * ms),
                                    .slow = bad ? (unsigned)world_below(w, 100) : 0,
                                    .lost_there = bad ? (unsigned)world_below(w, 100) : 0,
                                    .lost_back = bad ? (unsigned)world_below(w, 100) : 0,
                                    .at_once = world_chance(w, 200) ? 300 : 0,
                                    .deadline_ns = 50 * ms};
}

static int by_time(const void *a, const void *b)
{
    const bound_unit *x = a, *y = b;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* When the windows started at the server, from the times of its charges. */
static size_t windows(const list *l, int64_t period_ns, int64_t *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < l->len; i++)
        if (n == 0 || l->unit[i].at_ns >= ret[n - 1] + period_ns)
            ret[n++] = l->unit[i].at_ns;
    return n;
}

static bool buckets_alone(const sim *s)
{
    for (uint32_t i = 0; i < s->policy.layers; i++)
        if (s->policy.layer[i].period_ns == 0 || !weir_layer_is_bucket(&s->policy.layer[i]))
            return false;
    return true;
}

/* How many units a node may admit beyond the policy, by docs/hybrid.md. */
static int64_t allowance_of(const sim *s)
{
    int64_t least = INT64_MAX, count_max = s->options.count ? s->options.count : 1000;
    for (uint32_t i = 0; i < s->policy.layers; i++)
        if (s->policy.layer[i].limit < least)
            least = s->policy.layer[i].limit;
    int64_t part = least / (buckets_alone(s) ? 4 : 16);
    return part < count_max ? part : count_max;
}

static int64_t sum_between(const list *l, int64_t from_ns, int64_t to_ns)
{
    int64_t sum = 0;
    for (size_t i = 0; i < l->len && l->unit[i].at_ns <= to_ns; i++)
        if (l->unit[i].at_ns > from_ns)
            sum += l->unit[i].cost;
    return sum;
}

/* Without faults no units are wasted. When the server denies a unit, all units were admitted but
 * those that the engines may hold. For buckets, exactly the charged units were admitted. */
static void check_waste(sim *s)
{
    if (s->policy.layers > 1)
        return;
    const weir_layer *l = &s->policy.layer[0];
    if (buckets_alone(s) && s->sum_charged != s->sum_admitted)
        fail(s, "%lld were charged, and %lld admitted", (long long)s->sum_charged,
             (long long)s->sum_admitted);
    bool fixed = l->algorithm == WEIR_FIXED_WINDOW && l->calendar == WEIR_ALIGNED;
    if (!fixed && l->algorithm != WEIR_SLIDING_LOG)
        return;
    for (unsigned k = 0; k < KEYS; k++) {
        const list *denied = &s->denied_by_server[k];
        for (size_t i = 0; i < denied->len && i < 100; i++) {
            int64_t at_ns = denied->unit[i].at_ns;
            int64_t from_ns =
                fixed ? at_ns / l->period_ns * l->period_ns - 1 : at_ns - l->period_ns;
            int64_t sum = sum_between(&s->admitted[k], from_ns, at_ns);
            if (sum < l->limit - s->nodes * allowance_of(s))
                fail(s, "only %lld of %lld were admitted when one was denied", (long long)sum,
                     (long long)l->limit);
        }
    }
}

static double check_bound(sim *s, unsigned percent)
{
    double closest = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        list *l = &s->admitted[k];
        if (l->len == 0)
            continue;
        qsort(l->unit, l->len, sizeof *l->unit, by_time);
        int64_t *starts = calloc(s->charged[k].len + 1, sizeof *starts);
        for (uint32_t i = 0; i < s->policy.layers; i++) {
            bound b = {.layer = &s->policy.layer[i],
                       .unit = l->unit,
                       .len = l->len,
                       .start = starts,
                       .per_node = (double)allowance_of(s) * percent / 100,
                       .nodes = nodes_between,
                       .ctx = s,
                       .nodes_max = buckets_alone(s) ? s->nodes : (int64_t)s->lives};
            b.starts = windows(&s->charged[k], b.layer->period_ns, starts);
            double over, room, excess = bound_excess(&b, &over, &room);
            if (excess > 0)
                fail(s, "layer %u of \"%s\", key %u: %.3f more than the bound", i, s->text, k,
                     excess);
            if (over > 0 && room > 0 && over / room > closest)
                closest = over / room;
        }
        free(starts);
    }
    return closest;
}

static void some_world(sim *s, uint64_t seed)
{
    *s = (sim){.seed = seed};
    world *w = &s->world;
    world_init(w, seed, 1767225600 * s_ns);
    w->after = note_all;
    w->ctx = s;
    w->now_ns += world_between(w, 0, s_ns);
    static const uint8_t secret[16] = {1};
    weir_store_options o = {.memory_bytes = (size_t)1 << 20, .secret = secret};
    s->server = (net_server){
        .world = w, .policy = &s->policy, .charged = charged, .decided = decided, .ctx = s};
    if (weir_store_open(&s->server.store, &o) != WEIR_OK)
        abort();
    some_policy(s);
    some_faults(s);
    s->options = (weir_hybrid_options){.interval_ns = world_between(w, 1, 10) * 10 * ms,
                                       .count = world_between(w, 1, 300),
                                       .idle_ns = world_between(w, 1, 10) * 100 * ms,
                                       .memory_bytes = 65536};
    s->end_ns = w->now_ns + 3 * s_ns;
    s->quiet_ns = s->end_ns - 500 * ms;
    s->abandons = world_chance(w, 300) ? 50 : 0;
    s->costs = world_chance(w, 500) ? 100 : 0;
    s->nodes = 1 + (unsigned)world_below(w, NODES_MAX);
}

/* Returns whether the seed passed. */
static bool run(uint64_t seed, unsigned percent, bool say)
{
    sim *s = malloc(sizeof *s);
    if (!s)
        abort();
    some_world(s, seed);
    world *w = &s->world;
    const net_faults *faults = &s->server.faults;
    bool fates = world_chance(w, 500);
    s->fair = !fates && s->abandons == 0 && faults->slow + faults->lost_there == 0 &&
              faults->lost_back == 0;
    for (unsigned i = 0; i < s->nodes; i++) {
        s->node[i] = (node){.sim = s, .index = i};
        start(&s->node[i]);
        if (fates)
            world_add(w, w->now_ns + world_between(w, 0, s_ns), fate, &s->node[i], 0);
    }
    world_run(w, s->end_ns);
    for (unsigned i = 0; i < s->nodes; i++) {
        if (s->node[i].requests)
            fail(s, "a request has no answer");
        stop(&s->node[i], false);
    }
    world_run(w, s->end_ns + s_ns);
    double closest = check_bound(s, percent);
    if (s->fair)
        check_waste(s);
    bool good = s->why[0] == 0;
    if (say || (!good && percent == 100))
        printf("seed %llu: \"%s\", %u nodes, %zu lives, allowance %lld: %llu requests, %llu here, "
               "%llu at "
               "the server, %llu denied, %llu by error, overshoot %llu; %.2f of the bound%s%s\n",
               (unsigned long long)seed, s->text, s->nodes, s->lives, (long long)allowance_of(s),
               (unsigned long long)s->requests,
               (unsigned long long)port_load_relaxed(&s->stats.local),
               (unsigned long long)s->server.asked, (unsigned long long)s->denied,
               (unsigned long long)s->by_error,
               (unsigned long long)port_load_relaxed(&s->stats.overshoot), closest,
               good ? "" : ": ", s->why);
    for (unsigned k = 0; k < KEYS; k++) {
        free(s->admitted[k].unit);
        free(s->charged[k].unit);
        free(s->denied_by_server[k].unit);
    }
    weir_store_close(s->server.store);
    world_free(w);
    free(s);
    return good;
}

static uint64_t runs(uint64_t first, uint64_t seeds, unsigned percent)
{
    uint64_t failed = 0;
    for (uint64_t i = first; i < first + seeds; i++)
        if (!run(i, percent, false)) {
            failed++;
            if (percent == 100)
                printf("repeat with: hybrid_sim --seed %llu\n", (unsigned long long)i);
        }
    return failed;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = QUICK;
    unsigned percent = 100;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t n = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seeds") == 0)
            seeds = n;
        else if (strcmp(argv[i], "--first") == 0)
            first = n;
        else if (strcmp(argv[i], "--tight") == 0)
            percent = (unsigned)n;
        else if (strcmp(argv[i], "--seed") == 0)
            return run(n, percent, true) ? 0 : 1;
    }
    uint64_t failed = runs(first, seeds, percent);
    printf("%llu seeds from %llu with %u %% of the bound: %llu failed\n", (unsigned long long)seeds,
           (unsigned long long)first, percent, (unsigned long long)failed);
    if (percent < 100)
        return failed > 0 ? 0 : 1;
    /* With the policy as the bound some seeds must fail, or the simulation could not detect
     * anything. */
    uint64_t seen = runs(1, CONTROL, 0);
    printf("%d seeds with 0 %% of the bound: %llu failed; at least one must fail\n", CONTROL,
           (unsigned long long)seen);
    bool good = failed == 0 && seen > 0;
    printf("%d passed, %d failed, 0 skipped\n", (failed == 0) + (seen > 0),
           2 - (failed == 0) - (seen > 0));
    return good ? 0 : 1;
}
