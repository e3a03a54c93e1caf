/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Once a second, the thread compares what each part holds with its size. The table is moved as a
 * whole, and the large states as far as they are resident, in steps of one huge page. A step
 * usually blocks accesses to the page for about a millisecond, and a pause between steps lets the
 * accesses that waited proceed. */

#include "store/store.h"

#include "port/file.h"
#include "port/port.h"

enum { SMALL_PAGE = 4096 };

#define HUGE_PAGE ((size_t)2 << 20)
#define SECOND_NS INT64_C(1000000000)
#define PAUSE_NS  INT64_C(1000000)

/* The huge pages of a part that are left to move. The rest of the part stays in small pages. */
typedef struct remaining {
    char *at;
    size_t pages;
    bool begun; /* move them all */
} remaining;

struct weir_huge_pages {
    weir_store *store;
    remaining table, large;
    const char *large_from; /* the beginning of the part */
    port_mutex *lock;
    port_cond *wake;
    port_thread *thread;
    bool stop; /* under the lock */
};

/* Whether the table is full enough to move. With a key for every fourth page, nearly a quarter of
 * its pages are resident. With more keys, TLB misses make lookups slow. */
static bool table_is_used(const weir_huge_pages *h)
{
    size_t bytes = weir_image_parts_get(h->store->image).table.bytes;
    weir_store_stats stats = weir_store_stats_get(h->store);
    return stats.keys - stats.large_keys >= bytes / (4 * SMALL_PAGE);
}

/* Whether the next huge page of the large states is resident. Their index is at the beginning of
 * the part, in a sixteenth of it at most, and their blocks are adjacent. Keys that fill another
 * sixteenth have touched all pages of the index. */
static bool large_is_used(const weir_huge_pages *h)
{
    size_t index = h->store->large_max / 16, used = weir_store_stats_get(h->store).large_bytes;
    return used >= index && (size_t)(h->large.at - h->large_from) + HUGE_PAGE <= index + used;
}

/* Moves one huge page, if it is used. Returns whether it did. */
static bool move(remaining *r, bool is_used)
{
    if (!is_used || r->pages == 0)
        return false;
    port_use_huge_pages(r->at, HUGE_PAGE);
    r->at += HUGE_PAGE;
    r->pages--;
    return true;
}

static bool move_next(weir_huge_pages *h)
{
    h->table.begun = h->table.begun || table_is_used(h);
    return move(&h->table, h->table.begun) || move(&h->large, h->large.begun || large_is_used(h));
}

static void move_all(void *arg)
{
    weir_huge_pages *h = arg;
    port_mutex_lock(h->lock);
    while (!h->stop && h->table.pages + h->large.pages > 0) {
        port_mutex_unlock(h->lock);
        bool moved = move_next(h);
        port_mutex_lock(h->lock);
        if (!h->stop)
            port_cond_wait_for(h->wake, h->lock, moved ? PAUSE_NS : SECOND_NS);
    }
    port_mutex_unlock(h->lock);
}

static remaining remaining_of(weir_part part, bool prefault)
{
    size_t before = (HUGE_PAGE - (uintptr_t)part.at % HUGE_PAGE) % HUGE_PAGE;
    size_t pages = part.bytes > before ? (part.bytes - before) / HUGE_PAGE : 0;
    return (remaining){.at = (char *)part.at + before, .pages = pages, .begun = prefault};
}

/* Where the system refuses a thread, nothing could move the memory later. So it is moved now with
 * prefault, and is in huge pages from the first access without. Frees `h`. */
static void start_without_thread(weir_huge_pages *h)
{
    while (h->table.begun && move_next(h))
        continue;
    port_prefer_huge_pages(h->large.at, h->large.pages * HUGE_PAGE);
    port_prefer_huge_pages(h->table.at, h->table.pages * HUGE_PAGE);
    weir_huge_pages_stop(h);
}

weir_status weir_huge_pages_start(weir_huge_pages **ret, weir_store *s, bool prefault)
{
    weir_image_parts parts = weir_image_parts_get(s->image);
    *ret = NULL;
    if (s->memory_max < WEIR_SMALL_PAGES_BYTES_MIN && !prefault) {
        port_prefer_huge_pages(parts.large.at, parts.large.bytes);
        port_prefer_huge_pages(parts.table.at, parts.table.bytes);
        return WEIR_OK;
    }
    weir_huge_pages *h = port_zalloc(1, sizeof *h);
    if (!h)
        return WEIR_E_NOMEM;
    h->store = s;
    h->table = remaining_of(parts.table, prefault);
    h->large = remaining_of(parts.large, prefault);
    h->large_from = parts.large.at;
    h->lock = port_mutex_new();
    h->wake = port_cond_new();
    h->thread = h->lock && h->wake ? port_thread_start(move_all, h) : NULL;
    if (h->thread)
        *ret = h;
    else
        start_without_thread(h);
    return WEIR_OK;
}

void weir_huge_pages_stop(weir_huge_pages *h)
{
    if (!h)
        return;
    if (h->thread) {
        port_mutex_lock(h->lock);
        h->stop = true;
        port_cond_wake(h->wake);
        port_mutex_unlock(h->lock);
        port_thread_join(h->thread);
    }
    port_cond_free(h->wake);
    port_mutex_free(h->lock);
    port_free(h);
}
