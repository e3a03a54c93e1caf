/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_CLOCK_H
#define WEIR_STORE_CLOCK_H
/* The time that a store goes by when nobody hands it one: it runs at the rate of a clock that
 * nobody sets, plus a base. A new store's base makes it the wall clock's time; from then on the
 * base only creeps towards the wall clock, so that no state ever sees a step. What the clocks say
 * is passed in. */

#include "port/atomic.h"
#include "port/port.h"

/* ---- readings that survive a restart --------------------------------------------------------- */

/* One moment, as three clocks told it. */
typedef struct weir_clock_reading {
    int64_t time_ns;  /* the store's */
    int64_t wall_ns;  /* the wall's */
    int64_t boot_ns;  /* since the machine was started ... */
    uint64_t boot_id; /* ... and which start that was; 0 if it is not known */
} weir_clock_reading;

/* As it lies in memory that may be a file, all zero at first. There are two places, each with its
 * number, the four words and a check: one is written while the other stays as it was, so that who
 * is killed in between spoils one at most. Processes that share the memory may spoil both by
 * writing at once; in a second they write again. */
enum { WEIR_CLOCK_SLOT_WORDS = 6 };

typedef struct weir_clock_slots {
    port_word slot[2][WEIR_CLOCK_SLOT_WORDS];
} weir_clock_slots;

/* Notes a moment. One thread of a process at a time. */
void weir_clock_slots_write(weir_clock_slots *s, const weir_clock_reading *e);

/* The moment that was noted last. False if there is none that is whole and in range. */
bool weir_clock_slots_read(const weir_clock_slots *s, weir_clock_reading *ret);

/* ---- the clock ------------------------------------------------------------------------------- */

#define WEIR_CLOCK_TICK_NS  1000000000 /* about so often it looks at the wall clock */
#define WEIR_CLOCK_SLEW_PPM 500        /* as fast as it creeps, in millionths of the time gone by */
#define WEIR_CLOCK_STEP_NS  1000000000 /* a wall clock that moves by more at once was set */

typedef struct weir_clock {
    /* Relaxed, each stands by itself. Signed numbers are held in two's complement. */
    port_word base;    /* the time less boot_ns */
    port_word due;     /* the boot_ns from which on it wants a tick */
    port_word offset;  /* the wall clock less the time, at the last tick */
    port_word steps;   /* how often the wall clock was set */
    port_word step;    /* by how much, the last time */
    port_word ticking; /* held by the thread that ticks, to which the rest belongs */

    port_clocks last; /* at the last tick */
    uint64_t boot_id;
    weir_clock_slots *slots; /* NULL: nothing is to be remembered */
} weir_clock;

/* Sets a clock to go.
 *  at       what the clocks say now.
 *  boot_id  which start of which machine boot_ns is of, 0 if that is not known.
 *  slots    where moments are remembered and noted from the first tick on; may be NULL. If there is
 *           one, the time goes on from it: by what boot_ns says has gone by since, if it is of the
 *           same start of the machine, else by what the wall clock says, which may be nothing.
 *  seen_ns  the store's time, which this does not begin before; 0 if it has none. */
void weir_clock_start(weir_clock *c, port_clocks at, uint64_t boot_id, weir_clock_slots *slots,
                      int64_t seen_ns);

/* The time, 0..WEIR_NOW_NS_MAX. It never goes back by more than half a millisecond. Any thread. */
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

/* Creeps towards the wall clock, and notes the moment. Nothing happens if another thread is at it.
 * Any thread. */
void weir_clock_tick(weir_clock *c, port_clocks at);

/* Makes it time_ns at this moment, and notes that. No other thread may use the clock. */
void weir_clock_set(weir_clock *c, port_clocks at, int64_t time_ns);

typedef struct weir_clock_view {
    int64_t offset_ns; /* by how much the wall clock is ahead; less than 0: behind */
    uint64_t steps;    /* how often it was set since the start ... */
    int64_t step_ns;   /* ... and by how much the last time */
} weir_clock_view;

/* As of the last tick. Any thread. */
weir_clock_view weir_clock_look(const weir_clock *c);

#endif
