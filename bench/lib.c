/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The library at the machine's limit: how fast it decides beside a bare loop that keeps nothing of
 * what a store promises, how many bytes a key takes, and how long a call may take.
 *
 *     bench_lib [FILE [PART...]]    prints a table; writes a JSON list to FILE
 *
 * The parts are speed, algos, memory, longest, state and attack, and all of them are run if none is
 * named; and pace, which bench/peers/run asks for. */

#include "parts.h"

#include <string.h>

static const struct part {
    const char *name;
    void (*run)(report *r);
} parts[] = {
    {"speed", speed_run}, {"algos", algos_run},   {"memory", memory_run}, {"longest", longest_run},
    {"state", state_run}, {"attack", attack_run}, {"pace", pace_run},
};
enum { PARTS = sizeof parts / sizeof parts[0], USUAL = PARTS - 1 };

static const struct part *find_part(const char *name)
{
    for (int i = 0; i < PARTS; i++) {
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    }
    fprintf(stderr,
            "bench_lib: unknown part '%s', expected speed, algos, memory, longest, state, "
            "attack or pace\n",
            name);
    return NULL;
}

/* Where there are no large pages at all, every figure says more of the page tables than of weir. */
static void say_machine(void)
{
    char enabled[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!f || !fgets(enabled, sizeof enabled, f) || strstr(enabled, "[never]"))
        printf("no large pages on this machine: figures of many keys are those of small ones\n");
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
        die("the file cannot be written");
    if (r.json)
        fprintf(r.json, "[");
    say_machine();
    for (int i = 2; i < argc; i++)
        find_part(argv[i])->run(&r);
    for (int i = 0; i < USUAL && argc < 3; i++)
        parts[i].run(&r);
    if (r.json) {
        fprintf(r.json, "\n]\n");
        if (fclose(r.json) != 0)
            die("the file cannot be written");
    }
    return 0;
}
