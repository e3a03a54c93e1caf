/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_CLOCK_H
#define WEIR_STORE_CLOCK_H
/* The store's clock, for callers that do not pass in a time of their own. It is CLOCK_BOOTTIME,
 * which is never stepped, plus an offset, the base. A new store starts at the wall clock's time.
 * From then on the base is slewed towards the wall clock, so that states see no step. If the wall
 * clock is far ahead, because the machine booted without the time or a virtual machine was paused,
 * the base jumps forward to it instead. It never jumps back: then time would stand still for the
 * states, which contain later times. Clock readings are passed in. */

#include "port/atomic.h"
#include "port/port.h"

/* ---- readings that survive a restart --------------------------------------------------------- */

/* Three clocks, read at the same moment. */
typedef struct weir_clock_reading {
    int64_t time_ns;  /* the store's clock */
    int64_t wall_ns;  /* the wall clock */
    int64_t boot_ns;  /* CLOCK_BOOTTIME */
    uint64_t boot_id; /* of the boot that boot_ns belongs to; 0: unknown */
} weir_clock_reading;

/* Two slots in memory that may be a file, all zero at first. Each has a number, the four words of a
 * reading, and a checksum. Writes alternate between the slots, so that a killed process damages at
 * most one of them. Two processes that write at once may damage both; each of them writes again
 * within a second. */
enum { WEIR_CLOCK_SLOT_WORDS = 6 };

typedef struct weir_clock_slots {
    port_word slot[2][WEIR_CLOCK_SLOT_WORDS];
} weir_clock_slots;

/* Stores a reading. Only one thread of a process may call this at a time. */
void weir_clock_slots_write(weir_clock_slots *s, const weir_clock_reading *e);

/* Reads the latest reading. Returns false if no slot is valid. */
bool weir_clock_slots_read(const weir_clock_slots *s, weir_clock_reading *ret);

/* ---- the clock ------------------------------------------------------------------------------- */

#define WEIR_CLOCK_TICK_NS  1000000000 /* between two readings of the wall clock */
#define WEIR_CLOCK_SLEW_PPM 500        /* the fastest slew */
#define WEIR_CLOCK_STEP_NS  1000000000 /* a larger change between two ticks is a step */

#define WEIR_CLOCK_JUMP_ABOVE_NS INT64_C(3600000000000) /* the default of a store */

typedef struct weir_clock {
    /* Relaxed: each word is independent of the others. Signed numbers are stored in two's
     * complement. */
    port_word base;   /* the store's time minus boot_ns */
    port_word due;    /* boot_ns of the next tick */
    port_word offset; /* the wall clock minus the store's time, at the last tick */
    port_word steps;  /* how often the wall clock was stepped */
    port_word step;   /* the size of the last step */
    port_word jumps;  /* how often the store's clock jumped to the wall clock */
    port_word jump;   /* the size of the last jump */
    /* If the wall clock is ahead by more, a tick jumps to it. INT64_MAX, as weir_clock_start() sets
     * it: never. */
    port_word jump_above;
    port_word ticking; /* a lock: its holder may tick and use the members below */

    port_clocks last; /* at the last tick */
    uint64_t boot_id;
    weir_clock_slots *slots; /* NULL: readings are not stored */
} weir_clock;

/* Starts a clock.
 *  at       the current clock readings.
 *  boot_id  the boot that at.boot_ns belongs to; 0: unknown.
 *  slots    where readings are stored from the first tick on; may be NULL. If there is a reading,
 *           the clock continues from it. The time since the reading is measured by
 *           CLOCK_BOOTTIME if the reading is from the same boot, otherwise by the wall clock; it is
 *           at least 0.
 *  seen_ns  the latest time of a decision in the store; the clock does not start before it. */
void weir_clock_start(weir_clock *c, port_clocks at, uint64_t boot_id, weir_clock_slots *slots,
                      int64_t seen_ns);

/* Returns the time, 0..WEIR_NOW_NS_MAX. It never goes back by more than half a millisecond. Any
 * thread. */
static inline int64_t weir_clock_time(const weir_clock *c, int64_t boot_ns)
{
    int64_t now_ns = boot_ns + (int64_t)port_word_load_relaxed(&c->base);
    if (now_ns < 0)
        return 0;
    return now_ns < WEIR_NOW_NS_MAX ? now_ns : WEIR_NOW_NS_MAX;
}

/* Whether a tick is due. Any thread. */
static inline bool weir_clock_is_due(const weir_clock *c, int64_t boot_ns)
{
    return (uint64_t)boot_ns >= port_word_load_relaxed(&c->due);
}

/* Slews the clock towards the wall clock, or jumps to it, and stores a reading. Does nothing if
 * another thread is ticking. Any thread. */
void weir_clock_tick(weir_clock *c, port_clocks at);

/* Sets the clock to time_ns and stores a reading. No other thread may use the clock. */
void weir_clock_set(weir_clock *c, port_clocks at, int64_t time_ns);

typedef struct weir_clock_view {
    int64_t offset_ns; /* the wall clock minus the store's clock */
    uint64_t steps;    /* how often the wall clock was stepped since the start */
    int64_t step_ns;   /* the size of the last step */
    uint64_t jumps;    /* how often the store's clock jumped since the start */
    int64_t jump_ns;   /* the size of the last jump */
} weir_clock_view;

/* Returns the values of the last tick. Any thread. */
weir_clock_view weir_clock_look(const weir_clock *c);

#endif
