/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy registry, the clock, weir_robust_try_lock(), and reservations. */

#include "scenes.h"

#include "core/check.h"
#include "store/clock.h"
#include "store/image/policy_registry.h"
#include "store/reserve.h"

#include <string.h>

/* ---- the policy registry --------------------------------------------------------------------- */

static struct noted {
    bool done[MODEL_THREADS];
} * noted;
static weir_policy_registry *registry, handle;

enum {
    ID = 5,
    OTHER_ID = ID + WEIR_POLICY_REGISTRY_ENTRIES
}; /* both searches begin at one entry */

static void prepare_registry(void)
{
    handle = weir_policy_registry_at(model_alloc(WEIR_POLICY_REGISTRY_BYTES),
                                     WEIR_POLICY_REGISTRY_BYTES);
    registry = &handle;
    noted = model_alloc(sizeof *noted);
}

static void note_id(uint64_t id)
{
    const char *text = id == ID ? "gcra 1/s" : "gcra 2/s";
    noted->done[model_self()] = weir_policy_registry_note(registry, id, text, 8, true);
}

static void note_first(void)
{
    note_id(ID);
}

static void note_other(void)
{
    note_id(OTHER_ID);
}

/* Returns whether the text is registered. If it is, checks that it is right. */
static bool read_id(uint64_t id)
{
    char buf[32];
    const char *text = id == ID ? "gcra 1/s" : "gcra 2/s";
    size_t len = weir_policy_registry_text(registry, id, buf, sizeof buf);
    MODEL_CHECK(len == 0 || (len == strlen(text) && memcmp(buf, text, len) == 0));
    return len > 0;
}

static void read_first(void)
{
    bool is_there = read_id(ID);
    MODEL_CHECK(read_id(ID) || !is_there);
}

/* The number of changes says that the text is there. */
static void read_changed(void)
{
    if (weir_policy_registry_changes(registry) > 0)
        MODEL_CHECK(read_id(ID));
}

static void note_and_read(void)
{
    note_first();
    MODEL_CHECK(read_id(ID));
}

static void check_noted(void)
{
    bool done = noted->done[0] || noted->done[1];
    MODEL_CHECK(read_id(ID) || !done);
    weir_policy_registry_repair(registry);
    MODEL_CHECK(read_id(ID) || !done);
}

static void check_noted_both(void)
{
    MODEL_CHECK(noted->done[0] && noted->done[1]);
    MODEL_CHECK(read_id(ID) && read_id(OTHER_ID));
}

static void note_other_and_read(void)
{
    note_other();
    MODEL_CHECK(read_id(OTHER_ID));
}

/* The first text is there. */
static void prepare_replacing(void)
{
    prepare_registry();
    note_first();
    noted->done[model_self()] = false;
}

/* The other text gets the memory of the first. */
static void replace(void)
{
    weir_policy_registry_forget(registry, ID);
    note_other_and_read();
}

static void read_both(void)
{
    bool is_there = read_id(OTHER_ID);
    (void)read_id(ID);
    MODEL_CHECK(read_id(OTHER_ID) || !is_there);
}

static void check_replaced(void)
{
    MODEL_CHECK(read_id(OTHER_ID) || !noted->done[0]);
    weir_policy_registry_repair(registry);
    MODEL_CHECK(read_id(OTHER_ID) || !noted->done[0]);
    note_first();
    note_other();
    MODEL_CHECK(read_id(ID) && read_id(OTHER_ID));
}

const model_scene model_registry_replace = {
    "registry: a text is replaced", prepare_replacing, {replace, read_both}, check_replaced, 0};
const model_scene model_registry_replace_note = {
    "registry: a text is replaced, and two note the new one",
    prepare_replacing,
    {replace, note_other_and_read},
    check_replaced,
    0};
const model_scene model_registry_replace_death = {"registry: the replacement of a text is killed",
                                                  prepare_replacing,
                                                  {replace, note_other},
                                                  check_replaced,
                                                  1};
const model_scene model_registry_read = {
    "registry: a note and a look-up", prepare_registry, {note_first, read_first}, check_noted, 0};
const model_scene model_registry_changes = {"registry: a note, and a look at the changes",
                                            prepare_registry,
                                            {note_first, read_changed},
                                            check_noted,
                                            0};
const model_scene model_registry_same = {"registry: two note the same policy",
                                         prepare_registry,
                                         {note_and_read, note_and_read},
                                         check_noted,
                                         0};
const model_scene model_registry_both = {"registry: two note different policies",
                                         prepare_registry,
                                         {note_first, note_other},
                                         check_noted_both,
                                         0};
const model_scene model_registry_death = {
    "registry: a note is killed", prepare_registry, {note_first, note_and_read}, check_noted, 1};

/* ---- the clock ------------------------------------------------------------------------------- */

static struct clock_shared {
    weir_clock clock;
    weir_clock_slots slots;
    bool noted[MODEL_THREADS];
} * clocks;

enum { SECOND = 1000000000 };

static const int64_t boot_ns = 5 * (int64_t)SECOND, wall_ns = 1000 * (int64_t)SECOND;

static void prepare_clock(void)
{
    clocks = model_alloc(sizeof *clocks);
    weir_clock_start(&clocks->clock, (port_clocks){boot_ns, wall_ns}, 77, &clocks->slots, 0);
}

/* The wall clock is stepped by 10 s, once by each thread's tick. */
static void tick(void)
{
    int64_t n = 1 + model_self();
    weir_clock_tick(&clocks->clock, (port_clocks){boot_ns + n * SECOND, wall_ns + n * 11 * SECOND});
}

/* If a step is counted, its size is known. The time is never wrong by more than the slew. */
static void look(void)
{
    weir_clock_view v = weir_clock_look(&clocks->clock);
    MODEL_CHECK(v.steps == 0 || v.step_ns >= 10 * (int64_t)SECOND || v.step_ns < 0);
    int64_t now_ns = weir_clock_time(&clocks->clock, boot_ns);
    MODEL_CHECK(now_ns >= wall_ns - SECOND / 1000 && now_ns <= wall_ns + SECOND / 1000);
}

/* The clock follows these steps at once. */
static void prepare_jumps(void)
{
    prepare_clock();
    port_word_store_relaxed(&clocks->clock.jump_above, (uint64_t)5 * SECOND);
}

static void look_at_jumps(void)
{
    weir_clock_view v = weir_clock_look(&clocks->clock);
    MODEL_CHECK(v.jumps == 0 || v.jump_ns >= 10 * (int64_t)SECOND);
}

static void read_slots(void)
{
    weir_clock_reading r;
    if (weir_clock_slots_read(&clocks->slots, &r))
        MODEL_CHECK(r.boot_id == 77 && r.boot_ns % SECOND == 0 && r.time_ns - r.boot_ns < wall_ns);
}

static void check_clock(void)
{
    weir_clock_reading r;
    if (!model_is_dead(0))
        MODEL_CHECK(weir_clock_slots_read(&clocks->slots, &r));
    read_slots();
    look();
}

/* Two readings were stored before. A killed writer leaves one of these or the new one valid. */
static void prepare_slots(void)
{
    prepare_clock();
    for (int64_t n = 1; n <= 2; n++)
        weir_clock_set(&clocks->clock, (port_clocks){boot_ns + n * SECOND, wall_ns + n * SECOND},
                       wall_ns + n * SECOND);
}

static void write_slot(void)
{
    const weir_clock_reading r = {wall_ns + 3 * (int64_t)SECOND, wall_ns + 3 * (int64_t)SECOND,
                                  boot_ns + 3 * (int64_t)SECOND, 77};
    weir_clock_slots_write(&clocks->slots, &r);
}

static void check_slots(void)
{
    weir_clock_reading r;
    MODEL_CHECK(weir_clock_slots_read(&clocks->slots, &r));
    MODEL_CHECK(r.time_ns >= wall_ns + SECOND && r.time_ns <= wall_ns + 3 * (int64_t)SECOND);
    MODEL_CHECK(r.wall_ns == r.time_ns && r.time_ns - r.boot_ns == wall_ns - boot_ns);
}

const model_scene model_clock_look = {
    "clock: a tick and a look", prepare_clock, {tick, look}, check_clock, 0};
const model_scene model_clock_jump = {
    "clock: a jump and a look", prepare_jumps, {tick, look_at_jumps}, look_at_jumps, 0};
const model_scene model_clock_ticks = {
    "clock: two ticks and a look", prepare_clock, {tick, tick, look}, check_clock, 0};
const model_scene model_clock_slots = {"clock: a reading is stored and read",
                                       prepare_slots,
                                       {write_slot, check_slots},
                                       check_slots,
                                       0};
const model_scene model_clock_death = {
    "clock: storing a reading is killed", prepare_slots, {write_slot}, check_slots, 1};

/* ---- weir_robust_try_lock() ------------------------------------------------------------------ */

static struct locked {
    port_word lock;
    uint64_t count;
    bool taken[MODEL_THREADS];
} * locked;

static void prepare_lock(void)
{
    locked = model_alloc(sizeof *locked);
}

static void try_lock(void)
{
    uint64_t n;
    if (weir_robust_try_lock(&locked->lock, &processes[model_self()]) != WEIR_LOCK_TAKEN)
        return;
    model_copy(&n, &locked->count, sizeof n);
    n++;
    model_copy(&locked->count, &n, sizeof n);
    weir_robust_unlock(&locked->lock);
    locked->taken[model_self()] = true;
}

static void check_lock(void)
{
    MODEL_CHECK(locked->count == (uint64_t)locked->taken[0] + locked->taken[1]);
    MODEL_CHECK(locked->count > 0);
}

const model_scene model_lock_try = {
    "lock: two try it", prepare_lock, {try_lock, try_lock}, check_lock, 0};

/* ---- reservations ---------------------------------------------------------------------------- */

static struct reserved {
    port_word state; /* of the only key: a GCRA state of one word */
    weir_policy policy;
    weir_reserve *of[MODEL_THREADS + 1];
    uint64_t id;
    bool committed[MODEL_THREADS], made[MODEL_THREADS];
} * reserved;

static const int64_t s_ns = SECOND;

static weir_status run_state(void *ctx, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                             int64_t now_ns, weir_state_fn fn, void *fn_ctx)
{
    (void)policy_id;
    (void)ctx;
    (void)hash;
    for (;;) {
        weir_usage usage = WEIR_USAGE_UNKNOWN;
        uint64_t old = port_word_load_relaxed(&reserved->state), state = old;
        weir_status st = fn(fn_ctx, p, &state, 0, now_ns, &usage);
        if (st != WEIR_OK || state == old || port_word_cas_relaxed(&reserved->state, &old, state))
            return st;
    }
}

static weir_status find_policy(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    (void)ctx;
    (void)policy_id;
    *ret = reserved->policy;
    return WEIR_OK;
}

static void note_policy(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    (void)ctx;
    (void)policy_id;
    (void)p;
}

static int64_t left_at(int64_t now_ns)
{
    weir_decision d;
    uint64_t state = port_word_load_relaxed(&reserved->state);
    MODEL_CHECK(weir_check(&reserved->policy, &state, 0, now_ns, 0, &d) == WEIR_OK);
    return d.remaining;
}

static bool make_one(unsigned process, int64_t cost, uint64_t *ret_id)
{
    weir_store_request request = {.policy = &reserved->policy, .policy_id = 9, .cost = cost};
    MODEL_CHECK(weir_reserve_make(reserved->of[process], &request, 1, s_ns, 2 * s_ns, ret_id) ==
                WEIR_OK);
    return request.decision.allowed;
}

static bool policy_known(void *ctx, uint64_t id)
{
    (void)ctx;
    (void)id;
    return true;
}

static bool has_moved(void *ctx, uint64_t id, int64_t at_ns)
{
    (void)ctx;
    (void)id;
    (void)at_ns;
    return false;
}

static const weir_reserve_hooks hooks = {NULL,         run_state,   find_policy,
                                         policy_known, note_policy, has_moved};

static void open_reservations(unsigned t, void *part, bool is_new)
{
    const weir_processes *p = t < MODEL_THREADS ? &processes[t] : &last_process;
    MODEL_CHECK(weir_reserve_open(&reserved->of[t], part, WEIR_RESERVE_BYTES_MIN, is_new, p,
                                  (weir_secret){1, 2}, &hooks) == WEIR_OK);
}

/* A reservation of 4 of 10 units, which expires two seconds later. */
static void prepare_reserved(void)
{
    reserved = model_alloc(sizeof *reserved);
    const char *text = "gcra 1/m burst 10";
    MODEL_CHECK(weir_policy_parse(&reserved->policy, text, strlen(text), NULL, NULL) == WEIR_OK);
    void *part = model_alloc(WEIR_RESERVE_BYTES_MIN);
    for (unsigned t = 0; t <= MODEL_THREADS; t++)
        open_reservations(t, part, t == 0);
    MODEL_CHECK(make_one(0, 4, &reserved->id));
}

static void commit_one(void)
{
    weir_decision d;
    int64_t over;
    weir_status st =
        weir_reserve_commit(reserved->of[model_self()], reserved->id, s_ns, 1, &d, &over);
    MODEL_CHECK(st == WEIR_OK || st == WEIR_E_ABSENT);
    reserved->committed[model_self()] = st == WEIR_OK;
}

static void make_another(void)
{
    uint64_t id;
    reserved->made[model_self()] = make_one(model_self(), 2, &id);
}

/* After the expiry, a thread that finds nothing due sees the returned units. */
static void expire_and_look(void)
{
    weir_reserve *r = reserved->of[model_self()];
    if (weir_reserve_due(r, 3 * s_ns))
        weir_reserve_expire(r, 3 * s_ns);
    MODEL_CHECK(left_at(3 * s_ns) == 10);
}

static void check_left_10(void)
{
    MODEL_CHECK(left_at(3 * s_ns) == 10);
}

/* One of the two commits has returned three units. A killed thread may have lost them. */
static void check_committed(void)
{
    bool dead = model_is_dead(0), once = reserved->committed[0] != reserved->committed[1];
    MODEL_CHECK(once || (dead && !reserved->committed[0] && !reserved->committed[1]));
    int64_t left = left_at(s_ns);
    MODEL_CHECK(left == 9 || (dead && left == 6));
    MODEL_CHECK(weir_reserve_stats_get(reserved->of[MODEL_THREADS]).open == 0 || dead);
}

/* No reservation is damaged, and all that are open can be counted. */
static void check_made(void)
{
    bool dead = model_is_dead(0);
    weir_reserve_stats stats = weir_reserve_stats_get(reserved->of[MODEL_THREADS]);
    uint64_t open = 1 + (uint64_t)reserved->made[0] + reserved->made[1];
    MODEL_CHECK(stats.damaged == 0 && stats.lost == 0);
    MODEL_CHECK(stats.open == open || (dead && stats.open == open + 1));
    int64_t left = left_at(s_ns), least = 8 - 2 * (int64_t)open - (dead ? 2 : 0);
    MODEL_CHECK(left <= 8 - 2 * (int64_t)open && left >= least);
    weir_reserve_expire(reserved->of[MODEL_THREADS], 3 * s_ns);
    MODEL_CHECK(left_at(3 * s_ns) == 10 || (dead && left_at(3 * s_ns) == 8));
}

const model_scene model_reserve_expire = {"reservations: two expire them",
                                          prepare_reserved,
                                          {expire_and_look, expire_and_look},
                                          check_left_10,
                                          0};
const model_scene model_reserve_commit = {
    "reservations: two commit one", prepare_reserved, {commit_one, commit_one}, check_committed, 0};
const model_scene model_reserve_commit_death = {"reservations: a commit is killed",
                                                prepare_reserved,
                                                {commit_one, commit_one},
                                                check_committed,
                                                1};
const model_scene model_reserve_make = {
    "reservations: two make one", prepare_reserved, {make_another, make_another}, check_made, 0};
const model_scene model_reserve_make_death = {"reservations: making one is killed",
                                              prepare_reserved,
                                              {make_another, make_another},
                                              check_made,
                                              1};
