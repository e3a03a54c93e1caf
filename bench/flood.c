/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A thousand keys use up their limit. Then new keys with one request each flood the store. This is
 * repeated for each pair of algorithms; time is held still. Reports how many units the thousand are
 * allowed afterwards: each of them was forgiven by an eviction. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include <string.h>

enum { VICTIMS = 1024, SOME = 8192 }; /* multiples of KEY_BATCH */

/* The victims take at most a sixteenth of the memory for their states. */
#define MEMORY ((size_t)8 << 20)
#define LARGE  ((size_t)4 << 20)

/* One for each algorithm; sliding slices in the table and as large states. */
static const struct {
    const char *text;
    int64_t limit;
} all[] = {
    {"gcra 10/m burst 5", 5},
    {"token-bucket 10 refill 10/h", 10},
    {"leaky-bucket 3/s capacity 6", 6},
    {"leaky-queue 1/s depth 4", 5},
    {"fixed-window 100/d", 100},
    {"sliding-counter 100/m", 100},
    {"sliding-log 5/m", 5},
    {"sliding-slices 60/m slices 6", 60},
    {"sliding-slices 60/h slices 12", 60},
};
enum { ALL = sizeof all / sizeof all[0] };

/* Returns the units that the victims are allowed after the flood. */
static uint64_t flood_pair(int victim, int attacker, uint64_t keys, uint64_t *ret_evicted)
{
    static request_key some[SOME];
    subject v, a;
    subject_open(&v, all[victim].text, MEMORY, LARGE);
    a = v;
    if (weir_policy_parse(&a.policy, all[attacker].text, strlen(all[attacker].text), NULL, NULL) !=
        WEIR_OK)
        die("a policy is invalid");
    a.policy_id = weir_store_policy_id(a.store, &a.policy);
    keys_write(some, 0, VICTIMS);
    if (subject_batch(&v, some, VICTIMS, NOW_NS, all[victim].limit) != VICTIMS)
        die("a victim was denied its limit");
    for (uint64_t at = 0; at < keys; at += SOME) {
        keys_write(some, VICTIMS + at, SOME);
        subject_batch(&a, some, SOME, NOW_NS, 1);
    }
    keys_write(some, 0, VICTIMS);
    uint64_t again = 0;
    for (int64_t i = 0; i < all[victim].limit; i++)
        again += subject_batch(&v, some, VICTIMS, NOW_NS, 1);
    *ret_evicted += weir_store_stats_get(v.store).evicted;
    subject_close(&v);
    return again;
}

static void flood_all(report *r, const char *name, uint64_t keys)
{
    uint64_t again = 0, units = 0, evicted = 0;
    for (int v = 0; v < ALL; v++) {
        for (int a = 0; a < ALL; a++) {
            uint64_t forgiven = flood_pair(v, a, keys, &evicted);
            if (forgiven > 0)
                printf("%s, flooded with %s: %llu units again\n", all[v].text, all[a].text,
                       (unsigned long long)forgiven);
            again += forgiven;
            units += VICTIMS * (uint64_t)all[v].limit;
        }
    }
    report_add(r, &(report_row){.name = name,
                                .value = (double)again,
                                .unit = "units",
                                .baseline_name = "their limit",
                                .baseline = (double)units,
                                .ratio = (double)again / (double)units});
    printf("%-34s %d pairs, %llu new keys each, %llu keys evicted\n", "", ALL * ALL,
           (unsigned long long)keys, (unsigned long long)evicted);
}

void flood_run(report *r)
{
    flood_all(r, "lib.flood.admitted_again", 64 * SOME);
}

void long_flood_run(report *r)
{
    flood_all(r, "lib.long_flood.admitted_again", (uint64_t)2442 * SOME); /* 20 million */
}
