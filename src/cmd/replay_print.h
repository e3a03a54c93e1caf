/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_PRINT_H
#define WEIR_CMD_REPLAY_PRINT_H
/* What `weir replay` prints: a JSON line for each decision, and a table for each policy. It must
 * not know where requests come from. */

#include <weir/weir.h>

#include "cmd/replay_keys.h"

#define REPLAY_OUT_BYTES 65536

/* A buffered writer. `error` may be read by anybody; the other fields are private. */
typedef struct replay_out {
    int fd;
    int error; /* errno of the first write that failed, else 0; after it nothing is written */
    size_t len;
    char buf[REPLAY_OUT_BYTES];
} replay_out;

void replay_out_init(replay_out *ret, int fd);
void replay_out_bytes(replay_out *out, const void *bytes, size_t len);
void replay_out_text(replay_out *out, const char *text);

/* Writes what is held. Returns `error`. */
int replay_out_flush(replay_out *out);

/* One request, as it was asked and answered. */
typedef struct replay_answer {
    int64_t t_ns; /* of the line */
    const char *key;
    size_t key_len;
    int64_t cost;
    const char *policy; /* canonical text; NULL leaves the member out */
    weir_decision decision;
} replay_answer;

/* One JSON object and a LF, always valid: in the key, '"', '\' and control characters are escaped,
 * UTF-8 stays as it is, and each maximal subpart of what is not UTF-8 becomes U+FFFD (as Unicode
 * 15, section 3.9, recommends). */
void replay_print_decision(replay_out *out, const replay_answer *answer);

/* What became of all requests under one policy. */
typedef struct replay_summary {
    const char *policy; /* canonical text */
    size_t index;       /* of the policy, among the counts of a key */
    uint64_t requests, denied;
    const replay_keys *keys;
    size_t top; /* how many keys to list at the most */
} replay_summary;

/* A table of at most 80 columns, but for a longer policy. In keys, bytes outside printable ASCII
 * are printed as \xNN and '\' as '\\'; a long key loses its middle.
 * Returns WEIR_OK, or WEIR_E_NOMEM: then nothing was printed. */
WEIR_NODISCARD weir_status replay_print_table(replay_out *out, const replay_summary *s);

#endif
