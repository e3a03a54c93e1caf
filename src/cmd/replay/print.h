/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_PRINT_H
#define WEIR_CMD_REPLAY_PRINT_H
/* The output of `weir replay`: a JSON line for each decision, and a table for each policy. */

#include "cmd/out.h"
#include "cmd/replay/policies.h"

/* A request and its decision. */
typedef struct replay_answer {
    int64_t t_ns; /* of the line */
    const char *key;
    size_t key_len;
    int64_t cost;
    const char *policy; /* its name or canonical text; NULL omits the member */
    const char *reason; /* NULL omits the member */
    weir_decision decision;
} replay_answer;

/* Prints one valid JSON object and an LF. */
void replay_print_decision(out_stream *out, const replay_answer *answer);

/* The results of one policy. */
typedef struct replay_summary {
    const replay_policy *policy;
    const replay_key_table *keys; /* of its group */
    uint64_t requests;
    size_t top; /* how many keys to list at the most */
} replay_summary;

/* Prints a table of at most 80 columns; only the line with the policy may be longer. In keys, bytes
 * outside printable ASCII are printed as \xNN and '\' as '\\'. "..." replaces the middle of a long
 * key. For a policy in shadow mode, the table lists the keys that it would have denied.
 * Returns WEIR_OK, or WEIR_E_NOMEM without printing anything. */
WEIR_NODISCARD weir_status replay_print_table(out_stream *out, const replay_summary *s);

#endif
