/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Benchmarks the library in process: decisions a second compared with a bare loop, bytes a key, and
 * the longest call.
 *
 *     bench_lib [FILE [PART...]]    prints a table; writes a JSON list to FILE
 *
 * The parts are speed, algos, memory, longest, state, attack, flood, reload, pace and long-flood.
 * By default all of them run but the last two: pace is for bench/peers/run, and long-flood takes
 * half an hour. */

#include "parts.h"

#include <string.h>

static const struct part {
    const char *name;
    void (*run)(report *r);
} parts[] = {
    {"speed", speed_run},           {"algos", algos_run},   {"memory", memory_run},
    {"longest", longest_run},       {"state", state_run},   {"attack", attack_run},
    {"flood", flood_run},           {"reload", reload_run}, {"pace", pace_run},
    {"long-flood", long_flood_run},
};
enum { PARTS = sizeof parts / sizeof parts[0], USUAL = PARTS - 2 };

static const struct part *find_part(const char *name)
{
    for (int i = 0; i < PARTS; i++) {
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    }
    fprintf(stderr,
            "bench_lib: unknown part '%s', expected speed, algos, memory, longest, state, "
            "attack, flood, reload, pace or long-flood\n",
            name);
    return NULL;
}

/* Warns if the machine has no huge pages: page-table walks then dominate every figure. */
static void warn_of_small_pages(void)
{
    char enabled[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!f || !fgets(enabled, sizeof enabled, f) || strstr(enabled, "[never]"))
        printf("this machine has no huge pages: with many keys, page-table walks dominate\n");
    if (f)
        fclose(f);
}

int main(int argc, char **argv)
{
    report r = {0};
    for (int i = 2; i < argc; i++) {
        if (!find_part(argv[i]))
            return 2;
    }
    if (argc > 1 && !(r.json = fopen(argv[1], "w")))
        die("cannot write the file");
    if (r.json)
        fprintf(r.json, "[");
    warn_of_small_pages();
    for (int i = 2; i < argc; i++)
        find_part(argv[i])->run(&r);
    for (int i = 0; i < USUAL && argc < 3; i++)
        parts[i].run(&r);
    if (r.json) {
        fprintf(r.json, "\n]\n");
        if (fclose(r.json) != 0)
            die("cannot write the file");
    }
    return 0;
}
