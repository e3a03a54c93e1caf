/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_SUGGEST_H
#define WEIR_CMD_SUGGEST_SUGGEST_H
/* `weir suggest`: the steps from its command line to its output. */

#include <weir/weir.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accesslog/accesslog.h"
#include "accesslog/options.h"
#include "cmd/kit/key_state.h"
#include "cmd/kit/terminal.h"
#include "port/buffer.h"

/* ---- the command line ------------------------------------------------------------------------ */

#define SUGGEST_PERCENT ((int64_t)1000000) /* one percent: percentages have six decimals */

/* How much may be denied. */
typedef struct suggest_target {
    bool requests;        /* of requests; else of keys */
    bool relative;        /* `percent` is given; else `count` */
    int64_t percent;      /* 0..100 * SUGGEST_PERCENT */
    uint64_t count;       /* at most so many keys or requests */
    const char *argument; /* as given, for messages */
} suggest_target;

/* An algorithm, and how its policy texts are written. */
typedef struct suggest_algorithm {
    const char *name;
    bool bucket;                         /* it has a burst */
    const char *before, *middle, *after; /* of the text: before, number, middle, number, after */
    bool burst_first;                    /* the first number is the burst, else the limit */
} suggest_algorithm;

/* An argument of the log: an option with its value, or a file. */
typedef struct suggest_word {
    const char *option; /* its name without "--"; NULL: `value` is a file */
    const char *value;  /* NULL if the option has none */
} suggest_word;

typedef struct suggest_options {
    suggest_target target;
    const suggest_algorithm *algorithm;
    const char *per;  /* a period of the policy language: "1m", "day tz Europe/Berlin" */
    int64_t hold_out; /* 0..90 * SUGGEST_PERCENT of the log's time */
    size_t memory_bytes;
    bool round, json;
    accesslog_options log;
    suggest_word *words; /* for a command that reads the same requests again */
    size_t words_len;
} suggest_options;

/* Parses the command line. *ret points into argv.
 *  ret    unspecified after an error. With log.help, its files are missing.
 *  words  room for argc words, which becomes ret->words.
 * Returns 0, or the exit status after printing an error. */
int suggest_options_read(suggest_options *ret, suggest_word *words, int argc, char **argv);

/* Returns how many of `total` keys or requests may be denied. */
uint64_t suggest_target_allows(const suggest_target *t, uint64_t total);

#define SUGGEST_POLICY_MAX 512 /* bytes of a policy text, with its terminator */

/* Writes a policy text.
 *  limit, burst  1 or more; `burst` is unused by an algorithm without one.
 * Returns false if the text does not fit. */
bool suggest_policy_text(const suggest_options *o, int64_t limit, int64_t burst,
                         char ret[SUGGEST_POLICY_MAX]);

/* ---- the requests ---------------------------------------------------------------------------- */
/* All requests of a log in memory, sorted by key and then by time, in 16 bytes a request. It must
 * not know policies. */

#define SUGGEST_COST_ABOVE UINT32_MAX /* a cost above WEIR_COST_MAX, which every policy denies */

typedef struct suggest_request {
    int64_t now_ns;
    uint32_t cost; /* 0..WEIR_COST_MAX, or SUGGEST_COST_ABOVE */
    uint32_t key;  /* while the trace is read; later private */
} suggest_request;

/* Callers may read all fields. */
typedef struct suggest_trace {
    suggest_request *request; /* those of key k are begin[k]..begin[k + 1] - 1, in order of time */
    size_t len;               /* 1 or more once it is read */
    size_t *begin;            /* keys + 1 of them */
    uint32_t keys;
    int64_t first_ns, last_ns;
    int64_t split_ns;   /* requests from here on are held out; INT64_MAX: none */
    uint64_t cost;      /* of all requests; UINT64_MAX: that or more */
    uint64_t over_cost; /* requests that cost more than WEIR_COST_MAX */
    bool mixed_costs;   /* two requests have different costs above 0 */
    size_t map_bytes;   /* of the memory at `request` */
    uint32_t some_cost; /* private: a cost above 0 */
} suggest_trace;

/* Reads a log to its end and sorts its requests. Keys are counted as the daemon counts them: an
 * IPv6 address is its /64.
 *  ret           zeroed by the caller; free it with suggest_trace_free(), also after a failure.
 *  memory_bytes  the limit of the memory of the requests. A log with more requests fails.
 *  hold_out      the part of the log's time that is held out, 0..90 * SUGGEST_PERCENT.
 * Returns 0, or the exit status after printing an error. */
int suggest_trace_read(suggest_trace *ret, accesslog *log, size_t memory_bytes, int64_t hold_out);

void suggest_trace_free(suggest_trace *t); /* accepts a zeroed trace */

/* ---- decisions ------------------------------------------------------------------------------- */
/* Decides the requests of a trace with the core, key by key, on a state that begins with full
 * quota. It must not know targets. */

/* Zeroed by the caller; free it with suggest_decider_free(). */
typedef struct suggest_decider {
    weir_policy policy; /* set by the caller */
    weir_status status; /* the first error, which the caller checks at the end, or WEIR_OK */
    key_state state;    /* private */
} suggest_decider;

/* The requests of a part of the log, and how many were denied. */
typedef struct suggest_counts {
    uint64_t requests, requests_denied;
    uint64_t keys, keys_denied; /* keys with a request, or a denied request, in this part */
} suggest_counts;

/* The same for the two parts, and for the whole log. */
typedef struct suggest_result {
    suggest_counts searched, held_out, all;
} suggest_result;

/* Decides the requests of a key that are before `end_ns`.
 *  denied_max  stops once so many requests are denied; 1 or more.
 * Returns how many were denied. */
uint64_t suggest_denied(suggest_decider *d, const suggest_trace *t, uint32_t key, int64_t end_ns,
                        uint64_t denied_max);

/* Decides all requests of a key, and adds the denied requests and keys to *ret. The other counts
 * are those of suggest_totals(). */
void suggest_decide(suggest_decider *d, const suggest_trace *t, uint32_t key, suggest_result *ret);

/* Counts the requests and keys of the parts. Nothing is denied. */
suggest_result suggest_totals(const suggest_trace *t);

void suggest_decider_free(suggest_decider *d);

/* ---- the search ------------------------------------------------------------------------------ */
/* Finds the tightest policies that meet a target on the searched part of a trace. */

/* A policy and what it does to the log. */
typedef struct suggest_choice {
    int64_t limit;
    int64_t burst;      /* 0 for an algorithm without one */
    int64_t worst_case; /* the most units of one key within the period; see weir policy */
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    suggest_result result;
} suggest_choice;

enum { SUGGEST_CHOICES_MAX = 64 }; /* the ladder of bursts has at most 58 */

/* The result. */
typedef struct suggest_found {
    /* With a burst: the smallest limit for each burst, by ascending burst and descending limit. All
     * of these meet the target. Without a burst: limits around the smallest one that meets it. */
    suggest_choice choice[SUGGEST_CHOICES_MAX];
    size_t len;        /* 0: no limit meets the target */
    size_t best;       /* the choice with the smallest worst case */
    bool complete;     /* no other limit and burst that meet the target have a smaller worst case */
    uint64_t allowed;  /* how many keys or requests of the searched part may be denied */
    int64_t period_ns; /* of the policies; 0 for a calendar window, or if len is 0 */
    suggest_result totals;
} suggest_found;

/* Parses the policy text of `limit` and `burst`. Prints an error about --per.
 * Returns 0, or the exit status after printing an error. */
int suggest_check_period(const suggest_options *o, const weir_zones *zones);

/* Searches.
 *  o    suggest_check_period() has accepted it.
 *  ret  zeroed by the caller.
 * Returns WEIR_OK, also if no limit meets the target; or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status suggest_search(const suggest_options *o, const weir_zones *zones,
                                          const suggest_trace *t, suggest_found *ret);

/* Whether the target is met in a part of the log. */
bool suggest_is_met(const suggest_target *t, const suggest_counts *part);

/* ---- the curve ------------------------------------------------------------------------------- */
/* A curve through a few points in the characters of a terminal, with logarithmic axes. It must not
 * know what the points are. */

typedef struct plot_point {
    int64_t x, y; /* 0 or more; 0 is drawn where 1 would be one step further */
} plot_point;

typedef struct plot {
    const plot_point *point; /* by ascending x */
    size_t len;              /* 1 or more */
    size_t marked;           /* the point that is drawn as a circle */
    const char *x_name, *y_name;
    int cols;  /* of the terminal */
    bool utf8; /* draw with Braille characters; else with ASCII */
} plot;

/* Draws the curve, with the largest and the smallest number at each axis. */
void plot_draw(weir_buffer *out, const plot *p);

/* ---- the output ------------------------------------------------------------------------------ */
/* Text for a terminal, or one JSON object. */

typedef struct suggest_report {
    const suggest_options *options;
    const suggest_trace *trace;
    const suggest_found *found;
} suggest_report;

/* Prints the curve, the table, the suggestion, and the result on the part that was held out. */
void suggest_print_text(weir_buffer *out, const suggest_report *r, terminal_style style);

/* Prints one JSON object and an LF. */
void suggest_print_json(weir_buffer *out, const suggest_report *r);

#endif
