/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The first request of each of a million keys after their limit was raised, which moves and
 * converts the state, compared with the next request of the same keys. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include "store/iterate.h"

#include <string.h>

enum { KEYS = 1 << 20, ROUNDS = 5 };

/* Makes a text the limit of the subject's policy. */
static void set_limit(subject *s, const char *text)
{
    if (weir_policy_parse(&s->policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        die("a policy is invalid");
    s->policy_id = weir_store_named_id(s->store, &s->policy, "q", 1);
    if (weir_store_note_limit(s->store, s->policy_id, &s->policy, "q", 1) != WEIR_OK)
        die("a limit cannot be noted");
    weir_store_keep(s->store);
}

/* Returns the keys a second of a pass over all keys. */
static double pass(const subject *s)
{
    double began = kit_cpu_seconds();
    if (subject_sweep(s, KEYS, NOW_NS, 1) != KEYS)
        die("a key was denied");
    return KEYS / (kit_cpu_seconds() - began);
}

void reload_run(report *r)
{
    double first[ROUNDS], plain[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        subject s;
        subject_open(&s, "gcra 1000/h burst 1000", (size_t)64 << 20, LARGE_BYTES_MIN);
        set_limit(&s, "gcra 1000/h burst 1000");
        pass(&s);
        set_limit(&s, "gcra 2000/h burst 2000");
        first[i] = pass(&s);
        plain[i] = pass(&s);
        subject_close(&s);
    }
    double value = kit_median(first, ROUNDS), baseline = kit_median(plain, ROUNDS);
    report_add(r, &(report_row){.name = "lib.reload.first_touch_vs_plain",
                                .value = value,
                                .unit = "keys/s",
                                .baseline_name = "the next pass",
                                .baseline = baseline,
                                .ratio = value / baseline});
}
