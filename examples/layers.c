/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A policy with two layers, ten a second and twenty a minute: a request is charged in both or in
 * neither. Then a refund. */

#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char text[] = "gcra 10/s burst 10 & fixed-window 20/m";
    weir_policy policy;
    weir_decision d;
    uint64_t state[4] = {0};
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        return 1;
    for (int64_t s = 0; s < 3; s++) {
        if (weir_check(&policy, state, 0, s * 1000000000, 10, &d) != WEIR_OK)
            return 1;
        printf("%" PRId64 " s: ten %s by layer %u, retry after %" PRId64 " s\n", s,
               d.allowed ? "allowed" : "denied", d.layer, d.retry_after_ns / 1000000000);
    }
    if (weir_refund(&policy, state, 0, 2000000000, 4, &d) != WEIR_OK)
        return 1;
    printf("four refunded: %" PRId64 " remaining\n", d.remaining);
    return 0;
}
