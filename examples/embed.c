/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The smallest limiter: a policy, the state of one key, and a clock of your own. */

#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char text[] = "gcra 3/s burst 3";
    weir_policy policy;
    weir_policy_error error;
    if (weir_policy_parse(&policy, text, strlen(text), NULL, &error) != WEIR_OK) {
        fprintf(stderr, "column %u: %s\n", error.column, error.text);
        return 1;
    }
    uint64_t state[2] = {0}; /* weir_state_words(&policy, 0) words; zero: a new key */
    for (int64_t now_ns = 0; now_ns < 500000000; now_ns += 100000000) {
        weir_decision d;
        if (weir_check(&policy, state, 0, now_ns, 1, &d) != WEIR_OK)
            return 1;
        printf("%3" PRId64 " ms: %s, %" PRId64 " remaining, retry after %" PRId64 " ns\n",
               now_ns / 1000000, d.allowed ? "allowed" : "denied", d.remaining, d.retry_after_ns);
    }
    return 0;
}
