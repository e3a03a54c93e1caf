/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Charges a key in a state file COST times, one unit each, and prints the remaining quota, for
 * state_test.sh.
 *
 *     state_keeper FILE POLICY KEY COST [hold]
 *
 * With `hold`, it keeps the file open until the end of its standard input. */

#include <weir/weir_store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    weir_policy p;
    weir_store *s = NULL;
    weir_decision d;
    weir_store_error error = {""};
    if (argc < 5 || weir_policy_parse(&p, argv[2], strlen(argv[2]), NULL, NULL) != WEIR_OK)
        return 2;
    const weir_store_options options = {
        .file = argv[1], .memory_bytes = (size_t)8 << 20, .ret_error = &error};
    if (weir_store_open(&s, &options) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    uint64_t id = weir_store_policy_id(s, &p);
    weir_status st = weir_store_check(s, &p, id, argv[3], strlen(argv[3]), weir_store_now(s),
                                      atoll(argv[4]), &d);
    if (st == WEIR_OK)
        printf("%s %lld\n", d.allowed ? "allowed" : "denied", (long long)d.remaining);
    fflush(stdout);
    while (argc > 5 && getchar() != EOF) {
    }
    weir_store_close(s);
    return st == WEIR_OK ? 0 : 1;
}
