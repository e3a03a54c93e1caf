/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_PRINT_H
#define WEIR_CMD_REPLAY_PRINT_H
/* The decisions of `weir replay`, as lines of JSON. */

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

#endif
