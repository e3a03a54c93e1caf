/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Charges keys of policies of every shape in a state file, or prints what it decides about them,
 * for old_states_test.py.
 *
 *     old_states FILE              prints the decisions, and does not change the file
 *     old_states FILE write        creates the file
 *     old_states FILE partition    creates it with a partition
 *
 * Before WEIR_STATE_VERSION increases, write the files of the old version with this program. */

#include <weir/weir_store.h>

#include "store/iterate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[] = {
    "gcra 10/m burst 20",
    "gcra 3/s burst 50000",
    "gcra 1000001/d burst 70000",
    "token-bucket 500 refill 5 every 1h",
    "leaky-bucket 7/h capacity 30",
    "leaky-queue 5/h depth 9",
    "fixed-window 100/h",
    "fixed-window 2000000000/s from-first",
    "fixed-window 90/day",
    "fixed-window 40/h from-first",
    "fixed-window 70/h count-denied",
    "sliding-counter 60/h",
    "sliding-counter 3000000/h relaxed",
    "sliding-log 12/h",
    "sliding-slices 44/h slices 6",
    "gcra 10/m burst 20 & gcra 100/h burst 100",
    "gcra 10/m burst 20 & fixed-window 100/d",
    "fixed-window 10/m & fixed-window 100/d",
    "fixed-window 50/d & sliding-counter 60/h & gcra 30/h burst 40",
    "sliding-log 9/h & sliding-slices 44/h slices 6",
};
static const char *const keys[] = {
    "192.0.2.77", "a key of more than 64 bytes, which is reduced to 16 bytes before it is hashed"};
static const char *const names[] = {NULL, "api"}; /* of policies; NULL: an inline policy */

enum { TEXTS = sizeof texts / sizeof texts[0], KEYS = 2, NAMES = 2 };

static const uint8_t secret[16] = {0x5e, 0xc7, 0xe7};
static const int64_t begin_ns = INT64_C(1893456000000000000); /* 2030-01-01 */
static const int64_t s_ns = 1000000000;

static uint64_t id_of(weir_store *s, const weir_policy *p, const char *name)
{
    if (!name)
        return weir_store_policy_id(s, p);
    uint64_t id = weir_store_named_id(s, p, name, strlen(name));
    id = weir_store_partition_id(s, id, name);
    weir_store_note_policy(s, id, p);
    return id;
}

static void charge(weir_store *s, const weir_policy *p, uint64_t id, const char *key, int calls)
{
    weir_decision d;
    for (int i = 0; i < calls; i++)
        (void)!weir_store_check(s, p, id, key, strlen(key), begin_ns + i * (s_ns + 7), 1 + i % 3,
                                &d);
}

static void print(weir_store *s, const weir_policy *p, uint64_t id, const char *key)
{
    weir_decision d = {0};
    (void)!weir_store_peek(s, p, id, key, strlen(key), begin_ns + 20 * s_ns, 1, &d);
    printf("  %s, %" PRId64 " left, retry after %" PRId64 " ns, reset after %" PRId64 " ns\n",
           d.allowed ? "allowed" : "denied", d.remaining, d.retry_after_ns, d.reset_after_ns);
}

int main(int argc, char **argv)
{
    weir_store *s = NULL;
    weir_store_error error = {""};
    const weir_store_partition api = {"api", 5 << 20, 1 << 18};
    const weir_store_options options = {.file = argv[1],
                                        .memory_bytes = (size_t)16 << 20,
                                        .large_bytes = (size_t)1 << 20,
                                        .secret = secret,
                                        .read_only = argc == 2,
                                        .partitions = &api,
                                        .partitions_len = argc > 2 && argv[2][0] == 'p',
                                        .ret_error = &error};
    if (weir_store_open(&s, &options) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 0; i < TEXTS; i++) {
        weir_policy p;
        if (weir_policy_parse(&p, texts[i], strlen(texts[i]), NULL, NULL) != WEIR_OK)
            return 1;
        if (argc == 2)
            printf("%s\n", texts[i]);
        for (int n = 0; n < NAMES; n++) {
            uint64_t id = id_of(s, &p, names[n]);
            for (int k = 0; k < KEYS; k++) {
                if (argc == 2)
                    print(s, &p, id, keys[k]);
                else
                    charge(s, &p, id, keys[k], 1 + (i + 3 * n + 5 * k) % 11);
            }
        }
    }
    weir_store_close(s);
    return 0;
}
