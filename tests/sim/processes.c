/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Coroutines switch with setjmp() and longjmp(), each on a stack of its own. The context of the
 * simulation itself is the scheduler: a process returns to it, and it chooses the next one. */

#include "processes.h"

#include "port/assert.h"
#include "port/port.h"
#include "store/kept.h"
#include "store/key_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    TABLE = WEIR_TABLE_BYTES_MIN,
    LARGE = WEIR_LARGE_BYTES_MIN,
    RESERVED = WEIR_RESERVE_BYTES_MIN,
    REGISTRY = WEIR_POLICY_REGISTRY_MIN,
    STACK = 1 << 18,
    PRIVATE = 1 << 17, /* memory of a process for its handles */
    IDS = 64,          /* ids that are known to be alive or dead at a time */
    SELF = PROCESSES,  /* the simulation's own process */
    FOREVER = 20000000 /* calls in an episode */
};

struct weir_image {
    weir_policy_registry registry;
};

typedef struct process {
    weir_processes id;
    weir_image image;
    weir_store *store; /* NULL: not open yet */
    unsigned char *heap;
    size_t heap_len, heap_last; /* used, and where the last allocation begins */
    bool running;               /* has work left in this episode */
    bool started;
    uint64_t rests; /* until so many calls were made in the episode */
    char *stack;
    ucontext_t context;
    jmp_buf begin, here;
} process;

static struct {
    uint64_t seed, random, next_id, calls;
    uint64_t gap;       /* calls between two switches, at most */
    uint64_t kill_odds; /* one of so many switches is a kill */
    unsigned kills_left, killed;
    int64_t steady_ns;
    uint64_t alive[IDS];
    jmp_buf scheduler;
    process process[PROCESSES + 1];
    weir_resets resets;
    weir_hash_keys hash; /* takes long to compute, and the secret is always the same */
    void (*work)(unsigned i, weir_store *s);
} sim;

/* Where the parts are in the shared memory, each at the beginning of a page. */
enum {
    LARGE_AT = TABLE,
    RESERVED_AT = LARGE_AT + LARGE,
    REGISTRY_AT = RESERVED_AT + RESERVED,
};
_Static_assert(REGISTRY_AT + REGISTRY <= SIM_SHARED && TABLE % 4096 == 0, "all parts fit");

static const weir_secret secret = {1, 0};

uint64_t sim_calls_left = UINT64_MAX;
unsigned char sim_process = SELF, sim_writer[SIM_SHARED / 8];
_Alignas(4096) unsigned char sim_shared[SIM_SHARED];

void violation(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("seed %llu: ", (unsigned long long)sim.seed);
    vprintf(format, args);
    printf("\nrepeat with: store_sim --seed %llu\n", (unsigned long long)sim.seed);
    va_end(args);
    exit(1);
}

static uint64_t next_random(void)
{
    uint64_t x = sim.random += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t any(uint64_t n)
{
    return (next_random() >> 32) * n >> 32;
}

/* ---- the operating system -------------------------------------------------------------------- */

void *port_zalloc(size_t n, size_t size)
{
    process *p = &sim.process[sim_process];
    size_t bytes = (n * size + 63) / 64 * 64;
    if (bytes > PRIVATE - p->heap_len)
        violation("a process needs more than %d bytes", PRIVATE);
    void *at = p->heap + p->heap_len;
    p->heap_last = p->heap_len;
    p->heap_len += bytes;
    return memset(at, 0, bytes);
}

/* Only the last allocation is freed. All others are when the process ends. */
void port_free(void *at)
{
    process *p = &sim.process[sim_process];
    if (at == p->heap + p->heap_last)
        p->heap_len = p->heap_last;
}

/* Each process has one thread. */
port_mutex *port_mutex_new(void)
{
    return port_zalloc(1, 1);
}

void port_mutex_free(port_mutex *m)
{
    (void)m;
}

void port_mutex_lock(port_mutex *m)
{
    (void)m;
}

void port_mutex_unlock(port_mutex *m)
{
    (void)m;
}

void port_yield(void)
{
    sim_wait();
}

void port_nap(void)
{
    sim_wait();
}

int64_t port_steady_ns(void)
{
    return ++sim.steady_ns;
}

int64_t port_boot_ns(void)
{
    return port_steady_ns();
}

port_clocks port_clocks_now(void)
{
    return (port_clocks){port_steady_ns(), port_steady_ns()};
}

weir_status port_random(void *buf, size_t len)
{
    for (unsigned char *at = buf; len > 0; len--)
        *at++ = (unsigned char)next_random();
    return WEIR_OK;
}

void port_assert_failed(const char *expression, const char *file, int line)
{
    violation("%s:%d: %s", file, line, expression);
}

/* ---- the parts of the store that belong to a file -------------------------------------------- */

bool weir_image_note_policy(weir_image *m, uint64_t policy_id, const char *text, size_t len,
                            bool may_fill)
{
    return weir_policy_registry_note(&m->registry, policy_id, text, len, may_fill);
}

const weir_policy_registry *weir_image_policies(const weir_image *m)
{
    return &m->registry;
}

bool weir_image_is_new(const weir_image *m)
{
    (void)m;
    return false;
}

weir_status weir_image_sync(weir_image *m)
{
    (void)m;
    return WEIR_OK;
}

weir_image_stats weir_image_stats_get(const weir_image *m)
{
    (void)m;
    return (weir_image_stats){0};
}

weir_file weir_image_watch(weir_image *m)
{
    (void)m;
    return WEIR_FILE_IN_PLACE;
}

weir_mapping weir_image_mapping(const weir_image *m)
{
    (void)m;
    return (weir_mapping){.fd = -1};
}

const uint8_t *weir_image_secret(const weir_image *m)
{
    (void)m;
    static const uint8_t bytes[16] = {1};
    return bytes;
}

void weir_image_copy(weir_image *m, const weir_image *from)
{
    (void)m;
    (void)from;
}

void weir_store_start_clock(weir_store *s)
{
    (void)s;
}

/* ---- opening --------------------------------------------------------------------------------- */

static weir_status run_state(void *ctx, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                             int64_t now_ns, weir_state_fn fn, void *fn_ctx)
{
    return weir_store_run(ctx, p, policy_id, hash, now_ns, fn, fn_ctx);
}

static weir_status policy_find(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    char text[WEIR_POLICY_TEXT_MAX];
    const weir_store *s = ctx;
    size_t len =
        weir_policy_registry_text(weir_image_policies(s->image), policy_id, text, sizeof text);
    bool known = len > 0 && weir_policy_parse(ret, text, len, NULL, NULL) == WEIR_OK;
    return known ? WEIR_OK : WEIR_E_ABSENT;
}

static bool policy_known(void *ctx, uint64_t policy_id)
{
    return weir_store_knows(ctx, policy_id);
}

static void policy_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    const weir_store *s = ctx;
    weir_image_note_policy(s->image, policy_id, text, weir_policy_print(p, text, sizeof text),
                           false);
}

static bool is_alive(const void *ctx, uint64_t id)
{
    (void)ctx;
    return sim.alive[id / 2 % IDS] == id;
}

static bool may_have_moved(void *ctx, uint64_t policy_id, int64_t now_ns)
{
    (void)ctx;
    (void)policy_id;
    (void)now_ns;
    return false;
}

/* As weir_store_open() does it. */
static weir_store *open_store(process *p, bool is_new)
{
    p->heap_len = 0;
    p->id = (weir_processes){.self = weir_process_id(sim.next_id++), .alive = is_alive};
    sim.alive[p->id.self / 2 % IDS] = p->id.self;
    p->image.registry = weir_policy_registry_at(sim_shared + REGISTRY_AT, REGISTRY);
    weir_store *s = port_zalloc(1, sizeof *s);
    const weir_reserve_hooks hooks = {s,           run_state,     policy_find, policy_known,
                                      policy_note, may_have_moved};
    s->image = &p->image;
    s->resets = &sim.resets;
    s->secret = secret;
    s->hash = sim.hash;
    s->kept = weir_kept_new();
    weir_status st = weir_table_open(&s->common.table, sim_shared, TABLE, &p->id, false);
    if (st == WEIR_OK)
        st = weir_large_open(&s->common.large, sim_shared + LARGE_AT, LARGE, is_new, &p->id);
    if (st == WEIR_OK)
        st = weir_reserve_open(&s->reserved, sim_shared + RESERVED_AT, RESERVED, is_new, &p->id,
                               s->secret, &hooks);
    if (st != WEIR_OK)
        violation("opening fails: %s", weir_status_str(st));
    return s;
}

weir_store *world_store(void)
{
    return sim.process[SELF].store;
}

void world_begin(uint64_t seed)
{
    memset(sim_shared, 0, sizeof sim_shared);
    memset(sim_writer, 0, sizeof sim_writer);
    memset(sim.alive, 0, sizeof sim.alive);
    sim.seed = sim.random = seed;
    sim.next_id = 0;
    sim.steady_ns = 0;
    sim_process = SELF;
    sim_calls_left = UINT64_MAX;
    sim.process[SELF].store = open_store(&sim.process[SELF], true);
    for (unsigned i = 0; i < PROCESSES; i++)
        sim.process[i].store = NULL;
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static void to_scheduler(void)
{
    process *p = &sim.process[sim_process];
    if (_setjmp(p->here) == 0)
        _longjmp(sim.scheduler, 1);
}

/* The process never goes on from where it is. If it is started again, it begins again. */
static void kill_current(void)
{
    process *p = &sim.process[sim_process];
    sim.kills_left--;
    sim.killed |= 1u << sim_process;
    sim.alive[p->id.self / 2 % IDS] = 0;
    p->running = false;
    p->store = NULL;
    memcpy(p->here, p->begin, sizeof p->here);
    _longjmp(sim.scheduler, 1);
}

void sim_switch(void)
{
    if (sim_process == SELF)
        violation("waits for ever between episodes");
    if (sim.kills_left > 0 && any(sim.kill_odds) == 0)
        kill_current();
    to_scheduler();
}

void sim_wait(void)
{
    /* Nobody else runs: each turn counts, so that a wait for ever ends. */
    if (sim_process == SELF && ++sim.calls > FOREVER)
        violation("the store waits for ever after a kill");
    if (sim_process != SELF)
        to_scheduler();
}

void sim_meet(void)
{
    enum { MEETINGS = 16, REST = 3000 };
    if (sim_process == SELF || any(MEETINGS) > 0)
        return;
    sim.process[sim_process].rests = sim.calls + any(REST);
    to_scheduler();
}

/* The life of a process: this function never returns. */
static void live(void)
{
    (void)_setjmp(sim.process[sim_process].begin); /* a killed process begins here again */
    for (;;) {
        process *p = &sim.process[sim_process];
        if (!p->store)
            p->store = open_store(p, false);
        sim.work(sim_process, p->store);
        p->running = false;
        to_scheduler();
    }
}

void processes_init(void (*work)(unsigned i, weir_store *s))
{
    sim.work = work;
    weir_hash_init(&sim.hash, secret);
    for (unsigned i = 0; i <= PROCESSES; i++) {
        process *p = &sim.process[i];
        p->heap = malloc(PRIVATE);
        p->stack = malloc(STACK);
        if (!p->heap || !p->stack)
            abort();
        if (i == SELF)
            continue;
        getcontext(&p->context);
        p->context.uc_stack = (stack_t){.ss_sp = p->stack, .ss_size = STACK};
        makecontext(&p->context, live, 0);
    }
}

/* Chooses a process that has work left. Returns false if there is none. */
static bool choose(void)
{
    unsigned char running[PROCESSES], n = 0, awake = 0;
    for (unsigned char i = 0; i < PROCESSES; i++) {
        if (!sim.process[i].running)
            continue;
        running[n++] = i;
        if (sim.process[i].rests <= sim.calls) { /* those that rest are at the end */
            running[n - 1] = running[awake];
            running[awake++] = i;
        }
    }
    if (n > 0)
        sim_process = running[any(awake > 0 ? awake : n)];
    return n > 0;
}

unsigned episode_run(unsigned kills_max)
{
    enum { GAPS = 6, ODDS = 4 };
    static const uint64_t gaps[GAPS] = {1, 3, 10, 60, 400, 4000}, odds[ODDS] = {2, 4, 16, 100};
    sim.kills_left = kills_max;
    sim.kill_odds = odds[any(ODDS)];
    sim.gap = any(2) == 0 ? gaps[any(GAPS)] : 0;
    sim.killed = 0;
    sim.calls = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
        sim.process[i].running = true;
        sim.process[i].rests = 0;
    }
    (void)_setjmp(sim.scheduler); /* a process that is interrupted returns here */
    if (choose()) {
        process *p = &sim.process[sim_process];
        sim_calls_left = 1 + any(sim.gap > 0 ? sim.gap : gaps[any(GAPS)]);
        sim.calls += 1 + sim_calls_left;
        if (sim.calls > FOREVER)
            violation("process %u waits for ever", sim_process);
        if (p->started)
            _longjmp(p->here, 1);
        p->started = true;
        setcontext(&p->context);
    }
    sim_process = SELF;
    sim.calls = 0;
    sim_calls_left = UINT64_MAX;
    return sim.killed;
}
