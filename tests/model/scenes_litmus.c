/* SPDX-License-Identifier: BSD-2-Clause */
/* Litmus tests of the checker itself. The check of each test fails for one outcome. C11 either
 * allows this outcome (`can_fail`) or forbids it. */

#include "scenes.h"

static struct shared {
    port_word x, y;
    uint64_t plain;
    uint64_t seen[4];
} * shared;

static void prepare(void)
{
    shared = model_alloc(sizeof *shared);
}

/* ---- message passing ------------------------------------------------------------------------- */

static void write_relaxed(void)
{
    port_word_store_relaxed(&shared->x, 1);
    port_word_store_relaxed(&shared->y, 1);
}

static void write_release(void)
{
    port_word_store_relaxed(&shared->x, 1);
    port_word_store_release(&shared->y, 1);
}

static void write_fence(void)
{
    port_word_store_relaxed(&shared->x, 1);
    port_stores_in_order();
    port_word_store_relaxed(&shared->y, 1);
}

static void write_plain(void)
{
    model_copy(&shared->plain, &(uint64_t){1}, 8);
    port_word_store_release(&shared->y, 1);
}

static void swap_on(void)
{
    uint64_t one = 1;
    port_word_cas_relaxed(&shared->y, &one, 2);
}

static void read_acquire(void)
{
    shared->seen[0] = port_word_load_acquire(&shared->y);
    shared->seen[1] = port_word_load_relaxed(&shared->x);
}

static void read_relaxed(void)
{
    shared->seen[0] = port_word_load_relaxed(&shared->y);
    shared->seen[1] = port_word_load_relaxed(&shared->x);
}

static void read_plain(void)
{
    if (port_word_load_acquire(&shared->y) == 1)
        model_copy(&shared->seen[1], &shared->plain, 8);
}

static void read_plain_relaxed(void)
{
    if (port_word_load_relaxed(&shared->y) == 1)
        model_copy(&shared->seen[1], &shared->plain, 8);
}

static void not_stale(void)
{
    MODEL_CHECK(shared->seen[0] == 0 || shared->seen[1] == 1);
}

static void not_stale_after_swap(void)
{
    MODEL_CHECK(shared->seen[0] != 2 || shared->seen[1] == 1);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void store_x_load_y(void)
{
    port_word_store_release(&shared->x, 1);
    shared->seen[0] = port_word_load_acquire(&shared->y);
}

static void store_y_load_x(void)
{
    port_word_store_release(&shared->y, 1);
    shared->seen[1] = port_word_load_acquire(&shared->x);
}

static void not_both_old(void)
{
    MODEL_CHECK(shared->seen[0] == 1 || shared->seen[1] == 1);
}

static void load_y_store_x(void)
{
    shared->seen[0] = port_word_load_relaxed(&shared->y);
    port_word_store_relaxed(&shared->x, 1);
}

static void load_x_store_y(void)
{
    shared->seen[1] = port_word_load_relaxed(&shared->x);
    port_word_store_relaxed(&shared->y, 1);
}

static void not_both_new(void)
{
    MODEL_CHECK(shared->seen[0] == 0 || shared->seen[1] == 0);
}

static void write_x_y(void)
{
    port_word_store_relaxed(&shared->x, 1);
    port_word_store_relaxed(&shared->y, 2);
}

static void write_y_x(void)
{
    port_word_store_relaxed(&shared->y, 1);
    port_word_store_relaxed(&shared->x, 2);
}

static void not_both_first(void)
{
    MODEL_CHECK(port_word_load_relaxed(&shared->x) == 2 || port_word_load_relaxed(&shared->y) == 2);
}

static void write_x(void)
{
    port_word_store_relaxed(&shared->x, 1);
}

static void write_y(void)
{
    port_word_store_relaxed(&shared->y, 1);
}

static void read_x_y(void)
{
    shared->seen[0] = port_word_load_acquire(&shared->x);
    shared->seen[1] = port_word_load_acquire(&shared->y);
}

static void read_y_x(void)
{
    shared->seen[2] = port_word_load_acquire(&shared->y);
    shared->seen[3] = port_word_load_acquire(&shared->x);
}

static void one_order(void)
{
    const uint64_t *s = shared->seen;
    MODEL_CHECK(!(s[0] == 1 && s[1] == 0 && s[2] == 1 && s[3] == 0));
}

static void write_twice(void)
{
    port_word_store_relaxed(&shared->x, 1);
    port_word_store_relaxed(&shared->x, 2);
}

static void read_twice(void)
{
    shared->seen[0] = port_word_load_relaxed(&shared->x);
    shared->seen[1] = port_word_load_relaxed(&shared->x);
}

static void not_back(void)
{
    MODEL_CHECK(shared->seen[1] >= shared->seen[0]);
}

static void swap_once(void)
{
    uint64_t zero = 0;
    shared->seen[model_self()] = port_word_cas_relaxed(&shared->x, &zero, 1);
}

static void not_both_swapped(void)
{
    MODEL_CHECK(shared->seen[0] + shared->seen[1] == 1);
}

static void not_y_alone(void)
{
    MODEL_CHECK(port_word_load_relaxed(&shared->x) == 1 || port_word_load_relaxed(&shared->y) == 0);
}

static void nothing(void)
{
}

#define LITMUS(name, check, mortal, ...)                                                           \
    {                                                                                              \
        name, prepare, {__VA_ARGS__}, check, mortal                                                \
    }

const model_litmus model_litmus_tests[] = {
    {LITMUS("MP relaxed", not_stale, 0, write_relaxed, read_relaxed), true},
    {LITMUS("MP relaxed, acquire", not_stale, 0, write_relaxed, read_acquire), true},
    {LITMUS("MP release, relaxed", not_stale, 0, write_release, read_relaxed), true},
    {LITMUS("MP release, acquire", not_stale, 0, write_release, read_acquire), false},
    {LITMUS("MP fence, acquire", not_stale, 0, write_fence, read_acquire), false},
    {LITMUS("MP release sequence", not_stale_after_swap, 0, write_release, swap_on, read_acquire),
     false},
    {LITMUS("MP relaxed sequence", not_stale_after_swap, 0, write_relaxed, swap_on, read_acquire),
     true},
    {LITMUS("race, release and acquire", NULL, 0, write_plain, read_plain), false},
    {LITMUS("race, relaxed", NULL, 0, write_plain, read_plain_relaxed), true},
    {LITMUS("SB", not_both_old, 0, store_x_load_y, store_y_load_x), true},
    {LITMUS("LB, which the model excludes", not_both_new, 0, load_y_store_x, load_x_store_y),
     false},
    {LITMUS("2+2W", not_both_first, 0, write_x_y, write_y_x), true},
    {LITMUS("IRIW acquire", one_order, 0, write_x, write_y, read_x_y, read_y_x), true},
    {LITMUS("CoRR", not_back, 0, write_twice, read_twice), false},
    {LITMUS("CAS", not_both_swapped, 0, swap_once, swap_once), false},
    {LITMUS("killed, relaxed", not_y_alone, 1, write_relaxed, nothing), true},
    {LITMUS("killed, release", not_y_alone, 1, write_release, nothing), false},
    {LITMUS("killed, fence", not_y_alone, 1, write_fence, nothing), false},
    {{0}, false},
};
