/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's clock and the system's: only here are they looked at. */

#include "store/inside.h"
#include "store/stored.h"

#include "port/file.h"
#include "port/port.h"

#include <string.h>

/* port_boot_id() as a word. */
static uint64_t boot_word(void)
{
    uint64_t words[2];
    uint8_t id[sizeof words];
    port_boot_id(id);
    memcpy(words, id, sizeof words);
    return words[0] ^ words[1];
}

void weir_store_start_clock(weir_store *s)
{
    weir_clock_start(&s->clock, port_clocks_now(), boot_word(), weir_image_epoch(s->image),
                     weir_store_seen_ns(s));
}

int64_t weir_store_now(weir_store *s)
{
    int64_t boot_ns = port_boot_ns();
    if (weir_clock_is_due(&s->clock, boot_ns))
        weir_clock_tick(&s->clock, port_clocks_now());
    return weir_clock_time(&s->clock, boot_ns);
}

void weir_store_set_time(weir_store *s, int64_t time_ns)
{
    weir_clock_set(&s->clock, port_clocks_now(), time_ns);
}

weir_clock_view weir_store_clock(const weir_store *s)
{
    return weir_clock_look(&s->clock);
}
