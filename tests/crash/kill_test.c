/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A process that charges keys in a state file is killed at any moment, again and again. Each time,
 * the file opens, every returned charge is there, nothing is charged that was not requested, and
 * the next process goes on.
 *
 *     kill_test [SECONDS [SEED]] */

#include "crash.h"

#include "tests/store/check.h"

#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS_OF_A_FILE = 40 };

/* Every other time the store is not closed, as if this process had been killed too. */
static int look(crash *c)
{
    weir_store *s = NULL;
    weir_store_error error;
    if (crash_open(c, &s, &error) != WEIR_OK)
        crash_fail(c, "the file does not open: %s", error.text);
    WEIR_CHECK(weir_store_check_all(s, true));
    crash_verify(c, s, true);
    if (crash_below(c, 2))
        weir_store_close(s);
    return 0;
}

/* Usually during its calls, and sometimes while it opens the file. */
static crash_when any_moment(crash *c)
{
    if (crash_below(c, 4) == 0)
        return (crash_when){.us = 1 + crash_below(c, 4000)};
    return (crash_when){.calls = 1 + crash_below(c, 1000)};
}

int main(int argc, char **argv)
{
    crash c;
    int seconds;
    unsigned kills = 0;
    crash_init(&c, argc, argv, 12, &seconds);
    for (int64_t until_ms = crash_ms() + (int64_t)seconds * 1000; crash_ms() < until_ms; kills++) {
        if (kills % ROUNDS_OF_A_FILE == 0) {
            unlink(c.file);
            crash_clear(&c);
        }
        /* Sometimes with another size, so that the states move to a new file. */
        c.memory_bytes = (size_t)(crash_below(&c, 10) == 0 ? 9 : 8) << 20;
        crash_wait(&c, crash_start(&c, 0, THREADS, any_moment(&c)));
        crash_random(&c);
        if (crash_apart(&c, look) != 0)
            crash_fail(&c, "after %u kills", kills + 1);
    }
    crash_end(&c);
    printf("%u kills\n1 passed, 0 failed, 0 skipped\n", kills);
    return 0;
}
