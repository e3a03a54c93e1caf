/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_REPORT_H
#define WEIR_CMD_REPLAY_REPORT_H
/* The report of a run. It is computed once, at the end, and printed as tables or as JSON,
 * which the HTML page contains. docs/replay.md defines every figure. */

#include "cmd/kit/terminal.h"
#include "cmd/replay/policies.h"
#include "port/buffer.h"

/* The units that keys used in one period: their peaks, sorted, by the nearest rank. */
typedef struct replay_percentiles {
    int64_t p50, p90, p99, max;
} replay_percentiles;

/* A denied key. */
typedef struct replay_worst {
    weir_slice text; /* the key */
    const replay_key *key;
    const replay_denials *denials;
} replay_worst;

typedef struct replay_lockouts {
    int64_t longest_ns, from_ns;
    weir_slice key; /* absent: no key was denied, or only by lists */
} replay_lockouts;

typedef struct replay_policy_report {
    const replay_policy *policy;
    uint64_t allowed, keys, keys_denied;
    replay_lockouts lockout; /* the longest one of all keys, and among equals the earliest */
    weir_slice peak_key;     /* absent: no units were admitted */
    uint64_t denied_over_time[REPLAY_BUCKETS_MAX];
    replay_worst *worst; /* by denied requests, then by requests, then by the key's bytes */
    size_t worst_len;    /* at most `top` */

    /* Compared with the baseline: keys that it denied no request of, and keys of this policy that
     * were not denied although the baseline denied a request of theirs. */
    uint64_t keys_newly_denied, keys_no_longer_denied;
} replay_policy_report;

typedef struct replay_report {
    const replay_stats *stats;
    const accesslog_file *logs;
    size_t logs_len;
    uint64_t keys, late; /* keys: of the baseline's key rule */
    uint64_t requests_over_time[REPLAY_BUCKETS_MAX];
    replay_percentiles peaks[REPLAY_PERIODS];
    const char *const *notes; /* what a reader must know to trust the figures */
    size_t notes_len;
    size_t policies;
    replay_policy_report policy[REPLAY_POLICIES_MAX];
} replay_report;

/* Computes the report.
 *  ret   zeroed by the caller, with the logs, `late` and the notes. It refers to `p`. Free it with
 *        replay_report_free(), also after a failure.
 *  top   how many denied keys to list of each policy at the most.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status replay_report_fill(replay_report *ret, const replay_policies *p,
                                              size_t top);
void replay_report_free(replay_report *r);

/* Appends the report as one JSON object and an LF. Sets out->failed if memory is exhausted.
 *  worst_max  how many denied keys to list of each policy, if the report has more. */
void replay_report_json(weir_buffer *out, const replay_report *r, size_t worst_max);

/* Appends the report: for one policy a table of its figures, for several a table with a column for
 * each; then the figures of the log, and the worst keys. Only lines that contain a policy text may
 * exceed the width. Sets out->failed if memory is exhausted.
 *  style  `cols` is limited to 80..120. */
void replay_report_text(weir_buffer *out, const replay_report *r, terminal_style style);

/* ---- as a web page --------------------------------------------------------------------------- */
/* The report as a web page in one file. The page is built from web/report and contains its script
 * and its style; this module inserts the report's JSON. It must not know what the JSON means. */

/* Whether this program contains the page: it needs clang, lld and esbuild when weir is built. */
bool replay_html_available(void);

/* Checks that the page can be written, before the log is read: that the program contains it, and
 * that `path` is not a directory and may be created or replaced. Only an empty file or another page
 * is replaced, so that a log whose name was given by mistake is not lost. Writes nothing.
 * Returns 0, or an exit status after printing an error: ACCESSLOG_USAGE if the program has no page
 * or `path` is "-", ACCESSLOG_FAILED otherwise. */
int replay_html_check(const char *path);

/* Writes the page. The file appears whole or not at all: the page is written to a temporary file in
 * the same directory, which then replaces `path`. An existing file keeps its mode, and a symbolic
 * link its target. A device or a named pipe is written directly.
 *  json  one JSON value in UTF-8 of `len` bytes
 * Returns 0, or an exit status after printing an error, as replay_html_check(). */
int replay_html_write(const char *path, const char *json, size_t len);

#endif
