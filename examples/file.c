/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A store in a file: charges survive a restart of the program, and a crash. */

#define _POSIX_C_SOURCE 200809L /* mkdtemp() */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One run of a program: charges alice twice. */
static int run(const char *file, const weir_policy *policy, int64_t now_ns)
{
    weir_store *store;
    weir_store_error error;
    weir_store_opened opened;
    const weir_store_options options = {.memory_bytes = 8 << 20,
                                        .file = file,
                                        .sync = WEIR_SYNC_SECOND,
                                        .ret_error = &error,
                                        .ret_opened = &opened};
    if (weir_store_open(&store, &options) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s\n", opened.found == WEIR_FOUND_NOTHING ? "a new file" : "the existing file");
    uint64_t id = weir_store_policy_id(store, policy);
    for (int i = 0; i < 2; i++) {
        weir_decision d;
        if (weir_store_check(store, policy, id, "alice", 5, now_ns, 1, &d) == WEIR_OK)
            printf("alice: %s, %" PRId64 " remaining\n", d.allowed ? "allowed" : "denied",
                   d.remaining);
    }
    weir_store_close(store); /* exiting without it loses only the clean-shutdown mark */
    return 0;
}

int main(void)
{
    char dir[] = "/tmp/weir-XXXXXX", file[sizeof dir + 8];
    weir_policy policy;
    if (weir_policy_parse(&policy, "gcra 1/h burst 3", 16, NULL, NULL) != WEIR_OK || !mkdtemp(dir))
        return 1;
    snprintf(file, sizeof file, "%s/state", dir);
    int64_t now_ns =
        INT64_C(1000000000); /* a real program uses weir_store_now() or its own clock */
    int failed = run(file, &policy, now_ns) || run(file, &policy, now_ns + 1);
    unlink(file);
    rmdir(dir);
    return failed;
}
