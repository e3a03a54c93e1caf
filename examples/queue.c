/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A leaky bucket as a queue: five jobs arrive at once and are served at ten a second. This example
 * moves its clock to the next deadline; an event loop would set a timer. */

#include <weir/weir_queue.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char text[] = "leaky-queue 10/s depth 3";
    weir_policy policy;
    weir_queue queue;
    weir_queue_item items[4], item;
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK ||
        weir_queue_init(&queue, &policy, items, 4) != WEIR_OK)
        return 1;
    for (uint64_t job = 1; job <= 5; job++) {
        weir_decision d;
        if (weir_queue_push(&queue, 0, 1, job, &d) == WEIR_E_FULL || !d.allowed)
            printf("job %" PRIu64 ": the queue is full\n", job);
    }
    int64_t now_ns;
    while (weir_queue_next(&queue, &now_ns)) {
        while (weir_queue_pop(&queue, now_ns, &item))
            printf("%3" PRId64 " ms: job %" PRIu64 "\n", now_ns / 1000000, item.id);
    }
    return 0;
}
