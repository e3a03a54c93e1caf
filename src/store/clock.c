/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's clock. All times and clock readings are 0..WEIR_NOW_NS_MAX, so that their differences
 * fit in int64_t. Their sums may not. */

#include "store/clock.h"

#include "port/assert.h"
#include "store/siphash.h"

#include <weir/weir.h>

/* ---- readings that survive a restart --------------------------------------------------------- */

enum { NUMBER, TIME, WALL, BOOT, BOOT_ID, CHECK };

/* A checksum against accidents, not against attackers: its key is no secret. It never matches a
 * slot that is all zero. */
static uint64_t check_of(const uint64_t *words)
{
    static const weir_secret key = {UINT64_C(0x7765697265706f63), 1};
    return weir_siphash(key, words, CHECK * sizeof *words);
}

static bool in_range(uint64_t time)
{
    return time <= (uint64_t)WEIR_NOW_NS_MAX;
}

/* Copies a slot. Returns false if its checksum is wrong. Relaxed: the checksum is also wrong if the
 * words are from two readings. */
static bool read_slot(const port_word *slot, uint64_t *ret)
{
    for (int i = 0; i < WEIR_CLOCK_SLOT_WORDS; i++)
        ret[i] = port_word_load_relaxed(&slot[i]);
    return ret[CHECK] == check_of(ret) && in_range(ret[TIME]) && in_range(ret[WALL]) &&
           in_range(ret[BOOT]);
}

/* Finds the slot that was written last. Returns -1 if no slot is valid. */
static int latest(const weir_clock_slots *s, uint64_t *ret)
{
    uint64_t words[2][WEIR_CLOCK_SLOT_WORDS];
    bool whole[2];
    for (int i = 0; i < 2; i++)
        whole[i] = read_slot(s->slot[i], words[i]);
    if (!whole[0] && !whole[1])
        return -1;
    int last = whole[1] && (!whole[0] || words[1][NUMBER] > words[0][NUMBER]);
    for (int i = 0; i < WEIR_CLOCK_SLOT_WORDS; i++)
        ret[i] = words[last][i];
    return last;
}

void weir_clock_slots_write(weir_clock_slots *s, const weir_clock_reading *e)
{
    uint64_t before[WEIR_CLOCK_SLOT_WORDS] = {0};
    int last = latest(s, before);
    port_word *slot = s->slot[last == 0];
    uint64_t words[WEIR_CLOCK_SLOT_WORDS] = {
        [NUMBER] = before[NUMBER] + 1, [TIME] = (uint64_t)e->time_ns, [WALL] = (uint64_t)e->wall_ns,
        [BOOT] = (uint64_t)e->boot_ns, [BOOT_ID] = e->boot_id,
    };
    words[CHECK] = check_of(words);
    for (int i = 0; i < WEIR_CLOCK_SLOT_WORDS; i++)
        port_word_store_relaxed(&slot[i], words[i]);
}

bool weir_clock_slots_read(const weir_clock_slots *s, weir_clock_reading *ret)
{
    uint64_t words[WEIR_CLOCK_SLOT_WORDS];
    if (latest(s, words) < 0)
        return false;
    *ret = (weir_clock_reading){.time_ns = (int64_t)words[TIME],
                                .wall_ns = (int64_t)words[WALL],
                                .boot_ns = (int64_t)words[BOOT],
                                .boot_id = words[BOOT_ID]};
    return true;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void set(port_word *w, int64_t x)
{
    port_word_store_relaxed(w, (uint64_t)x);
}

/* The time that has passed since a reading. */
static int64_t elapsed_ns(const weir_clock_reading *e, port_clocks at, uint64_t boot_id)
{
    if (e->boot_id == boot_id && boot_id != 0 && at.boot_ns >= e->boot_ns)
        return at.boot_ns - e->boot_ns;
    return at.wall_ns > e->wall_ns ? at.wall_ns - e->wall_ns : 0;
}

void weir_clock_start(weir_clock *c, port_clocks at, uint64_t boot_id, weir_clock_slots *slots,
                      int64_t seen_ns)
{
    WEIR_ASSERT(in_range((uint64_t)at.wall_ns) && in_range((uint64_t)at.boot_ns));
    weir_clock_reading e;
    int64_t time_ns = at.wall_ns;
    if (slots && weir_clock_slots_read(slots, &e)) {
        int64_t gone_ns = elapsed_ns(&e, at, boot_id), left_ns = WEIR_NOW_NS_MAX - e.time_ns;
        time_ns = e.time_ns + (gone_ns < left_ns ? gone_ns : left_ns);
    }
    if (time_ns < seen_ns)
        time_ns = seen_ns;
    *c = (weir_clock){.last = at, .boot_id = boot_id, .slots = slots};
    set(&c->jump_above, INT64_MAX);
    set(&c->base, time_ns - at.boot_ns);
    set(&c->offset, at.wall_ns - time_ns);
    set(&c->due, at.boot_ns);
}

static int64_t within(int64_t x, int64_t most)
{
    if (x > most)
        return most;
    return x < -most ? -most : x;
}

static int64_t slew(weir_clock *c, port_clocks at, int64_t offset_ns)
{
    /* A long sleep counts as one tick, so that the slew is at most half a millisecond. */
    int64_t gone_ns = within(at.boot_ns - c->last.boot_ns, WEIR_CLOCK_TICK_NS);
    int64_t most_ns = gone_ns > 0 ? gone_ns / 1000000 * WEIR_CLOCK_SLEW_PPM : 0;
    int64_t slew_ns = within(offset_ns, most_ns);
    set(&c->base, (int64_t)port_word_load_relaxed(&c->base) + slew_ns);
    return slew_ns;
}

/* Jumps by offset_ns. Returns it. */
static int64_t jump(weir_clock *c, int64_t offset_ns)
{
    set(&c->base, (int64_t)port_word_load_relaxed(&c->base) + offset_ns);
    set(&c->jump, offset_ns);
    port_word_store_release(&c->jumps, port_word_load_relaxed(&c->jumps) + 1);
    return offset_ns;
}

static void note(weir_clock *c, port_clocks at)
{
    if (!c->slots)
        return;
    const weir_clock_reading e = {weir_clock_time(c, at.boot_ns), at.wall_ns, at.boot_ns,
                                  c->boot_id};
    weir_clock_slots_write(c->slots, &e);
}

void weir_clock_tick(weir_clock *c, port_clocks at)
{
    WEIR_ASSERT(in_range((uint64_t)at.wall_ns) && in_range((uint64_t)at.boot_ns));
    uint64_t unlocked = 0;
    if (!port_word_cas_acquire(&c->ticking, &unlocked, 1))
        return;
    int64_t step_ns = (at.wall_ns - at.boot_ns) - (c->last.wall_ns - c->last.boot_ns);
    if (within(step_ns, WEIR_CLOCK_STEP_NS) != step_ns) {
        set(&c->step, step_ns);
        port_word_store_release(&c->steps, port_word_load_relaxed(&c->steps) + 1);
    }
    int64_t offset_ns = at.wall_ns - weir_clock_time(c, at.boot_ns);
    bool jumps = offset_ns > (int64_t)port_word_load_relaxed(&c->jump_above);
    set(&c->offset, offset_ns - (jumps ? jump(c, offset_ns) : slew(c, at, offset_ns)));
    set(&c->due, at.boot_ns + WEIR_CLOCK_TICK_NS);
    c->last = at;
    note(c, at);
    port_word_store_release(&c->ticking, 0);
}

void weir_clock_set(weir_clock *c, port_clocks at, int64_t time_ns)
{
    c->last = at;
    set(&c->base, time_ns - at.boot_ns);
    set(&c->offset, at.wall_ns - time_ns);
    note(c, at);
}

weir_clock_view weir_clock_look(const weir_clock *c)
{
    /* Pairs with the release store in weir_clock_tick(): `step` was stored before. */
    uint64_t steps = port_word_load_acquire(&c->steps);
    uint64_t jumps = port_word_load_acquire(&c->jumps); /* the same for `jump` */
    return (weir_clock_view){.offset_ns = (int64_t)port_word_load_relaxed(&c->offset),
                             .steps = steps,
                             .step_ns = (int64_t)port_word_load_relaxed(&c->step),
                             .jumps = jumps,
                             .jump_ns = (int64_t)port_word_load_relaxed(&c->jump)};
}
