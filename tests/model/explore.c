/* SPDX-License-Identifier: BSD-2-Clause */
/* Depth-first search over all choices. An execution is repeated from its beginning up to the first
 * choice that differs. Threads run on stacks of their own. */

#include "memory.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    CHOICES = 1 << 14,
    STACK = 1 << 17,
    SPINS =
        300, /* loads of a thread that waits for a lock, until it must see that the owner died */
    OPERATIONS = 20000,
    NONE = MODEL_THREADS,
};

/* ---- orders in the sources ------------------------------------------------------------------- */

static struct {
    char name[160];
    int line;
    model_order order;
    bool used;
} sites[MODEL_SITES];
static unsigned sites_len = 1, weakened;

unsigned model_site(const char *file, int line, const char *function, const char *text,
                    model_order order)
{
    char name[sizeof sites->name];
    const char *slash = strrchr(file, '/');
    snprintf(name, sizeof name, "%s:%s %s", slash ? slash + 1 : file, function, text);
    for (unsigned i = 1; i < sites_len; i++) {
        if (sites[i].line == line && strcmp(sites[i].name, name) == 0)
            return i;
    }
    if (sites_len == MODEL_SITES)
        abort();
    memcpy(sites[sites_len].name, name, sizeof name);
    sites[sites_len].line = line;
    sites[sites_len].order = order;
    return sites_len++;
}

void model_weaken(unsigned site)
{
    weakened = site;
}

model_site_info model_site_at(unsigned site)
{
    if (site >= sites_len)
        return (model_site_info){0};
    return (model_site_info){sites[site].name, sites[site].line, sites[site].order,
                             sites[site].used};
}

void model_forget_use(void)
{
    for (unsigned i = 0; i < sites_len; i++)
        sites[i].used = false;
}

static model_order order_of(unsigned site)
{
    sites[site].used = true;
    return site == weakened ? MODEL_RELAXED : sites[site].order;
}

/* ---- choices --------------------------------------------------------------------------------- */

static struct {
    unsigned chosen, of;
} path[CHOICES];
static unsigned path_len, path_at;
static uint64_t dice; /* not 0: choices are random */

static jmp_buf scheduler;
static unsigned self = NONE; /* the running thread */
static bool checking;        /* the scene's check runs */
static model_result result;

enum { RUN_ON = 1, GIVE_UP };

void model_fail(const char *what, const char *file, int line)
{
    static char text[256];
    const char *slash = strrchr(file, '/');
    snprintf(text, sizeof text, "%s (%s:%d)", what, slash ? slash + 1 : file, line);
    result.failure = text;
    if (self != NONE || checking)
        _longjmp(scheduler, GIVE_UP);
}

unsigned memory_choose(unsigned n)
{
    if (n <= 1)
        return 0;
    if (dice != 0) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        return (unsigned)((dice >> 20) % n);
    }
    if (path_at == CHOICES)
        abort();
    if (path_at == path_len) {
        path[path_len].chosen = 0;
        path[path_len++].of = n;
    }
    if (path[path_at].of != n) {
        fprintf(stderr, "model: an execution was not repeated: the scene is not deterministic\n");
        abort();
    }
    return path[path_at++].chosen;
}

/* Moves on to the next execution. Returns false after the last one. */
static bool next_path(void)
{
    while (path_len > 0 && path[path_len - 1].chosen + 1 == path[path_len - 1].of)
        path_len--;
    if (path_len > 0)
        path[path_len - 1].chosen++;
    return path_len > 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct fiber {
    ucontext_t context;
    jmp_buf resume;
    bool started, ended, dead, asleep;
    bool waits;      /* since model_pause() */
    unsigned spins;  /* loads since then that saw nothing new */
    unsigned place;  /* of the load that it is about to do */
    unsigned option; /* the store that it reads */
    memory_limits limits;
} fiber;

static const model_scene *scene;
static fiber fibers[MODEL_THREADS];
static alignas(64) unsigned char stacks[MODEL_THREADS][STACK];
static unsigned deaths;

static struct {
    unsigned thread, site;
    uint64_t value;
} trace[OPERATIONS];
static unsigned trace_len;

unsigned model_self(void)
{
    return self;
}

static void log_operation(unsigned site, uint64_t value)
{
    if (trace_len == OPERATIONS)
        model_fail("the threads do not end", __FILE__, __LINE__);
    trace[trace_len].thread = self;
    trace[trace_len].site = site;
    trace[trace_len++].value = value;
}

void model_print_trace(void)
{
    for (unsigned i = 0; i < trace_len; i++) {
        if (i > 0 && memcmp(&trace[i], &trace[i - 1], sizeof trace[i]) == 0)
            continue; /* it spins */
        printf("    %u %s = %#llx\n", trace[i].thread,
               trace[i].site ? sites[trace[i].site].name : "is killed",
               (unsigned long long)trace[i].value);
    }
}

void model_die(void)
{
    log_operation(0, 0);
    memory_kill(self);
    fibers[self].ended = fibers[self].dead = true;
    for (unsigned t = 0; t < MODEL_THREADS; t++)
        fibers[t].spins = 0;
    deaths++;
    _longjmp(scheduler, RUN_ON);
}

/* Kills the thread here, if that is chosen. */
static void may_die(void)
{
    if (scene->mortal >> self & 1 && memory_choose(dice ? 16 : 2) == 1)
        model_die();
}

static void run_fiber(void)
{
    scene->thread[self]();
    may_die();
    fibers[self].ended = true;
    _longjmp(scheduler, RUN_ON);
}

bool model_is_dead(unsigned thread)
{
    if (thread >= MODEL_THREADS || !fibers[thread].dead)
        return false;
    if (self != NONE)
        memory_learn(self, thread);
    return true;
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static unsigned options_of(unsigned t, unsigned ret[MEMORY_OPTIONS])
{
    fiber *f = &fibers[t];
    memory_limits m = f->limits;
    if (f->ended)
        return 0;
    m.unseen = f->waits;
    unsigned n = memory_options(t, f->place, &m, ret);
    if (n > 0 || !f->waits || deaths == 0 || f->spins >= SPINS)
        return n;
    m = (memory_limits){.last = true};
    return memory_options(t, f->place, &m, ret);
}

static bool others_can_run(unsigned t)
{
    unsigned ignored[MEMORY_OPTIONS];
    for (unsigned u = 0; u < MODEL_THREADS; u++) {
        if (u != t && options_of(u, ignored) > 0)
            return true;
    }
    return false;
}

/* Chooses one of n stores to read, or n to postpone the load. At random, that is seldom. */
static unsigned choose_load(unsigned n, bool may_postpone)
{
    if (dice == 0)
        return memory_choose(n + may_postpone);
    return may_postpone && memory_choose(8) == 0 ? n : memory_choose(n);
}

/* Chooses the thread that runs next, and what it reads. Returns NONE if none can run. */
static unsigned pick(void)
{
    for (unsigned t = 0; t < MODEL_THREADS; t++) {
        fiber *f = &fibers[t];
        unsigned option[MEMORY_OPTIONS], n = options_of(t, option);
        if (n == 0)
            continue;
        bool spins = f->waits && f->spins < SPINS && deaths > 0;
        f->spins += spins;
        unsigned choice = choose_load(n, !spins && others_can_run(t));
        if (choice < n) {
            f->option = option[choice];
            f->limits.newer_than = 0;
            f->asleep = f->waits = false;
            return t;
        }
        f->asleep = true;
        f->limits.newer_than = memory_serial();
    }
    return NONE;
}

/* Waits for the thread's turn to load a word. Returns the store that it reads. */
static unsigned wait_turn(unsigned place, bool is_cas, uint64_t expected)
{
    fiber *f = &fibers[self];
    f->place = place;
    f->limits = (memory_limits){.is_cas = is_cas, .expected = expected};
    if (_setjmp(f->resume) == 0)
        _longjmp(scheduler, RUN_ON);
    return f->option;
}

static void start(unsigned t)
{
    fiber *f = &fibers[t];
    f->started = true;
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stacks[t];
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = NULL;
    makecontext(&f->context, run_fiber, 0);
    setcontext(&f->context);
}

/* Runs threads until none can run. Returns false if the execution was given up. */
static bool run_threads(void)
{
    for (;;) {
        int why = _setjmp(scheduler);
        if (why == GIVE_UP) {
            self = NONE;
            return false;
        }
        for (unsigned t = 0; t < MODEL_THREADS && scene->thread[t]; t++) {
            if (!fibers[t].started) {
                self = t;
                start(t);
            }
        }
        self = NONE;
        unsigned t = pick();
        if (t == NONE)
            return true;
        self = t;
        _longjmp(fibers[t].resume, 1);
    }
}

static void run_once(void)
{
    memory_restore();
    memory_begin(scene->mortal);
    memset(fibers, 0, sizeof fibers);
    for (unsigned t = 0; t < MODEL_THREADS; t++)
        fibers[t].ended = !scene->thread[t] || (t > 0 && fibers[t - 1].ended);
    path_at = trace_len = 0;
    deaths = (scene->mortal & MODEL_DIED_BEFORE) != 0;
    if (!run_threads())
        return;
    bool ended = true, asleep = false;
    for (unsigned t = 0; t < MODEL_THREADS; t++) {
        ended &= fibers[t].ended;
        asleep |= fibers[t].asleep;
    }
    if (ended) {
        result.executions++;
        checking = scene->check && _setjmp(scheduler) == 0;
        if (checking)
            scene->check();
        checking = false;
    } else if (asleep) {
        result.redundant++;
    } else {
        model_fail("a thread waits for ever", __FILE__, __LINE__);
    }
}

static void prepare(const model_scene *s)
{
    scene = s;
    result = (model_result){0};
    path_len = 0;
    memory_free_all();
    s->prepare();
    memory_save();
}

model_result model_sample(const model_scene *s, uint64_t n)
{
    prepare(s);
    for (dice = 88172645463325252; n > 0 && !result.failure; n--)
        run_once();
    dice = 0;
    return result;
}

model_result model_explore(const model_scene *s, uint64_t max)
{
    prepare(s);
    do
        run_once();
    while (!result.failure && result.executions + result.redundant < max && next_path());
    result.complete = !result.failure && path_len == 0;
    return result;
}

void *model_alloc(size_t bytes)
{
    return memory_alloc(bytes);
}

/* ---- what the sources call ------------------------------------------------------------------- */

static void plain(const void *p, size_t n, bool is_store)
{
    if (self == NONE || !memory_is_shared(p))
        return;
    if (is_store)
        may_die();
    memory_plain(self, p, n, is_store);
}

uint64_t model_load(unsigned site, const struct port_word *w)
{
    if (self == NONE)
        return *(const uint64_t *)w;
    if (memory_was_plain(w)) {
        plain(w, 8, false);
        return *(const uint64_t *)w;
    }
    unsigned place = memory_place(w), option = wait_turn(place, false, 0);
    uint64_t x = memory_load(self, place, option, order_of(site) == MODEL_ACQUIRE);
    log_operation(site, x);
    return x;
}

void model_store(unsigned site, struct port_word *w, uint64_t x)
{
    if (self == NONE || memory_was_plain(w)) {
        plain(w, 8, true);
        *(uint64_t *)w = x;
        return;
    }
    may_die();
    log_operation(site, x);
    memory_store(self, memory_place(w), x, order_of(site) == MODEL_RELEASE);
}

uint64_t model_add(unsigned site, struct port_word *w, uint64_t n)
{
    if (self == NONE) {
        *(uint64_t *)w += n;
        return *(uint64_t *)w - n;
    }
    may_die();
    unsigned place = memory_place(w), option = wait_turn(place, false, 0);
    uint64_t x = memory_load(self, place, option, false);
    log_operation(site, x + n);
    memory_swap(self, place, option, x + n, order_of(site), false);
    return x;
}

bool model_cas(unsigned site, struct port_word *w, uint64_t *from, uint64_t to)
{
    uint64_t x = *(uint64_t *)w;
    bool equal = x == *from;
    if (self == NONE) {
        *(uint64_t *)w = equal ? to : x;
        *from = equal ? *from : x;
        return equal;
    }
    may_die();
    model_order order = order_of(site);
    unsigned place = memory_place(w), option = wait_turn(place, true, *from);
    x = memory_load(self, place, option, false);
    log_operation(site, x);
    if (x != *from) {
        *from = x;
        return false;
    }
    if (order == MODEL_ACQUIRE)
        memory_load(self, place, option, true);
    memory_swap(self, place, option, to, order, true);
    return true;
}

void model_release_fence(unsigned site)
{
    if (self != NONE && order_of(site) == MODEL_RELEASE)
        memory_fence(self);
}

void model_pause(void)
{
    if (self != NONE)
        fibers[self].waits = true;
}

uint64_t model_count(struct port_counter *c, uint64_t n)
{
    uint64_t old = *(uint64_t *)c;
    *(uint64_t *)c = old + n;
    return old;
}

void model_set_count(struct port_counter *c, uint64_t x)
{
    *(uint64_t *)c = x;
}

void *model_copy(void *to, const void *from, size_t n)
{
    plain(from, n, false);
    plain(to, n, true);
    return memcpy(to, from, n);
}

/* ---- plain accesses, which the compiler reports with -fsanitize=thread ----------------------- */

#define ACCESS(bytes)                                                                              \
    void __tsan_read##bytes(const void *p);                                                        \
    void __tsan_write##bytes(const void *p);                                                       \
    void __tsan_unaligned_read##bytes(const void *p);                                              \
    void __tsan_unaligned_write##bytes(const void *p);                                             \
    void __tsan_read##bytes(const void *p)                                                         \
    {                                                                                              \
        plain(p, bytes, false);                                                                    \
    }                                                                                              \
    void __tsan_write##bytes(const void *p)                                                        \
    {                                                                                              \
        plain(p, bytes, true);                                                                     \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(const void *p)                                               \
    {                                                                                              \
        plain(p, bytes, false);                                                                    \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(const void *p)                                              \
    {                                                                                              \
        plain(p, bytes, true);                                                                     \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_init(void);
void __tsan_func_entry(const void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(const void *p, size_t n);
void __tsan_write_range(const void *p, size_t n);

void __tsan_init(void)
{
}

void __tsan_func_entry(const void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(const void *p, size_t n)
{
    plain(p, n, false);
}

void __tsan_write_range(const void *p, size_t n)
{
    plain(p, n, true);
}
