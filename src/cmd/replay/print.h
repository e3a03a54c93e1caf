/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_PRINT_H
#define WEIR_CMD_REPLAY_PRINT_H
/* What `weir replay` prints: a JSON line for each decision, and a table for each policy. It must
 * not know where requests come from. */

#include "cmd/out.h"
#include "cmd/replay/policies.h"

/* One request, as it was asked and answered. */
typedef struct replay_answer {
    int64_t t_ns; /* of the line */
    const char *key;
    size_t key_len;
    int64_t cost;
    const char *policy; /* its name or canonical text; NULL leaves the member out */
    const char *reason; /* NULL leaves the member out */
    weir_decision decision;
} replay_answer;

/* One JSON object and a LF, always valid. */
void replay_print_decision(out_stream *out, const replay_answer *answer);

/* What became of all requests under one policy. */
typedef struct replay_summary {
    const replay_policy *policy;
    const replay_key_table *keys; /* of its group */
    uint64_t requests;
    size_t top; /* how many keys to list at the most */
} replay_summary;

/* A table of at most 80 columns, but for a longer policy. In keys, bytes outside printable ASCII
 * are printed as \xNN and '\' as '\\'; a long key loses its middle. Of a policy in shadow, the keys
 * are those that it would have denied.
 * Returns WEIR_OK, or WEIR_E_NOMEM: then nothing was printed. */
WEIR_NODISCARD weir_status replay_print_table(out_stream *out, const replay_summary *s);

#endif
