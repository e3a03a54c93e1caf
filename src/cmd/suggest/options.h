/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_OPTIONS_H
#define WEIR_CMD_SUGGEST_OPTIONS_H
/* The command line of `weir suggest`: the target, the algorithm, the period, and which log. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/options.h"

extern const char suggest_help[];

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
    bool round, json, help;
    accesslog_options log;
    suggest_word *words; /* for a command that reads the same requests again */
    size_t words_len;
} suggest_options;

/* Parses the command line. *ret points into argv.
 *  ret    written only on success. If `help` is set, the other fields are unspecified.
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

#endif
