/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Moments in memory. What is read was written by somebody who may be dead, or may be writing still:
 * a slot counts only with the check that belongs to its words. */

#include "store/epoch.h"

#include "store/siphash.h"

#include <weir/weir.h>

enum { NUMBER, TIME, WALL, BOOT, BOOT_ID, CHECK };

/* Against accidents, not against people: the key is no secret. Never that of a zeroed slot. */
static uint64_t check_of(const uint64_t *words)
{
    static const weir_secret key = {UINT64_C(0x7765697265706f63), 1};
    return weir_siphash(key, words, CHECK * sizeof *words);
}

static bool good(uint64_t time)
{
    return time <= (uint64_t)WEIR_NOW_NS_MAX;
}

/* Copies a slot. False if it is not whole. */
static bool read_slot(const port_word *slot, uint64_t *ret)
{
    for (int i = 0; i < WEIR_EPOCH_WORDS; i++)
        ret[i] = port_word_load_acquire(&slot[i]);
    return ret[CHECK] == check_of(ret) && good(ret[TIME]) && good(ret[WALL]) && good(ret[BOOT]);
}

/* The slot that was written last. Returns -1 if there is none. */
static int latest(const weir_epoch_slots *s, uint64_t *ret)
{
    uint64_t words[2][WEIR_EPOCH_WORDS];
    bool whole[2];
    for (int i = 0; i < 2; i++)
        whole[i] = read_slot(s->slot[i], words[i]);
    if (!whole[0] && !whole[1])
        return -1;
    int last = whole[1] && (!whole[0] || words[1][NUMBER] > words[0][NUMBER]);
    for (int i = 0; i < WEIR_EPOCH_WORDS; i++)
        ret[i] = words[last][i];
    return last;
}

void weir_epoch_put(weir_epoch_slots *s, const weir_epoch *e)
{
    uint64_t before[WEIR_EPOCH_WORDS] = {0};
    int last = latest(s, before);
    port_word *slot = s->slot[last == 0];
    uint64_t words[WEIR_EPOCH_WORDS] = {
        [NUMBER] = before[NUMBER] + 1, [TIME] = (uint64_t)e->time_ns, [WALL] = (uint64_t)e->wall_ns,
        [BOOT] = (uint64_t)e->boot_ns, [BOOT_ID] = e->boot_id,
    };
    words[CHECK] = check_of(words);
    for (int i = 0; i < WEIR_EPOCH_WORDS; i++)
        port_word_store_release(&slot[i], words[i]);
}

bool weir_epoch_get(const weir_epoch_slots *s, weir_epoch *ret)
{
    uint64_t words[WEIR_EPOCH_WORDS];
    if (latest(s, words) < 0)
        return false;
    *ret = (weir_epoch){.time_ns = (int64_t)words[TIME],
                        .wall_ns = (int64_t)words[WALL],
                        .boot_ns = (int64_t)words[BOOT],
                        .boot_id = words[BOOT_ID]};
    return true;
}
