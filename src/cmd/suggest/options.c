/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses the options with getopt_long(), and holds the help text. */

#include "cmd/suggest/suggest.h"

#include "accesslog/messages.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MEMORY_DEFAULT ((size_t)1 << 30)
#define TARGET_DEFAULT "0.1% of keys denied"

enum { HOLD_OUT_MAX = 90 };

static const char help[] =
    "Usage: weir suggest [OPTION]... FILE...\n"
    "\n"
    "Reads access logs and finds the tightest limit and burst that deny no more than\n"
    "the target. The last part of the log is held out: it is not used for the search,\n"
    "and shows how the suggestion would have done on requests that it has not seen.\n"
    "\n"
    "  --target TEXT      how much may be denied (default '0.1% of keys denied'):\n"
    "                     'P% of keys denied', 'P% of requests denied',\n"
    "                     'N keys denied', 'N requests denied', 'no key denied'\n"
    "  --algorithm NAME   gcra (default), token-bucket, leaky-bucket, fixed-window,\n"
    "                     sliding-log, sliding-counter or sliding-slices\n"
    "  --per PERIOD       the period of the rate, or the window: 1m (default), 1h, or\n"
    "                     for fixed-window 'day tz Europe/Berlin'\n"
    "  --hold-out P%      how much of the log's time to hold out, 0% to 90% (default\n"
    "                     25%)\n"
    "  --round            round the limit and the burst up to 1, 1.5, 2, 3, 5 or 8\n"
    "                     times a power of ten\n"
    "  --json             print the result as one JSON object\n"
    "  --memory SIZE      limit of the memory of requests, like 256m (default 1g).\n"
    "                     A request takes 16 bytes\n"
    "  --format FORMAT    the format of the lines; detected if not given\n"
    "  --key FIELD        the field or template that is the key\n"
    "  --time FIELD       the member or column of JSON, csv or tsv that is the time\n"
    "  --cost FIELD       the field that is the cost of a request; without it, 1\n"
    "  --where FILTER     read only the requests for which the filter holds, like\n"
    "                     'path=/login* status=401'; may be repeated: all must hold\n"
    "  --reorder DURATION put lines in order that are up to this far out of order\n"
    "                     (default 10s)\n"
    "  --strict           stop at the first line that cannot be read\n"
    "  --no-progress      do not show a progress bar\n"
    "  --help             print this text\n"
    "\n"
    "weir help replay explains the formats, fields and filters.\n"
    "Exit status: 0 success, 1 failure or no limit meets the target, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir suggest access.log\n"
    "  weir suggest --target 'no key denied' --per 1h access.log.*.gz\n"
    "  weir suggest --algorithm sliding-log --per 10m --where 'path=/login*' \\\n"
    "               access.log\n";

/* ---- the target ------------------------------------------------------------------------------ */

/* Reads a percentage with at most six decimals, as a multiple of SUGGEST_PERCENT. A '%' may follow.
 *  max  in percent. */
static bool read_percent(const char *text, size_t len, int64_t max, int64_t *ret)
{
    uint64_t whole, part = 0;
    len -= len > 0 && text[len - 1] == '%';
    size_t at = weir_digits_read(text, len, &whole);
    if (at == 0 || whole > (uint64_t)max)
        return false;
    if (at < len) {
        size_t digits = weir_digits_read(text + at + 1, len - at - 1, &part);
        if (text[at] != '.' || digits == 0 || digits > 6 || at + 1 + digits != len)
            return false;
        for (; digits < 6; digits++)
            part *= 10;
    }
    int64_t v = (int64_t)whole * SUGGEST_PERCENT + (int64_t)part;
    if (v > max * SUGGEST_PERCENT)
        return false;
    *ret = v;
    return true;
}

/* Takes the next word of a text; an empty slice at its end. */
static weir_slice next_word(const char **at)
{
    *at += strspn(*at, " \t");
    weir_slice word = {*at, strcspn(*at, " \t")};
    *at += word.len;
    return word;
}

static bool word_is(weir_slice word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

/* Parses "0.1% of keys denied", "3 keys denied", "no key denied", and the same with requests. */
static bool parse_target(suggest_target *ret, const char *text)
{
    suggest_target t = {.argument = text};
    weir_slice amount = next_word(&text), unit = next_word(&text);
    if (amount.len > 0 && amount.at[amount.len - 1] == '%') {
        t.relative = true;
        if (!read_percent(amount.at, amount.len, 100, &t.percent))
            return false;
    } else if (!word_is(amount, "no") &&
               !weir_decimal_read(amount.at, amount.len, UINT32_MAX, &t.count)) {
        return false;
    }
    if (word_is(unit, "of"))
        unit = next_word(&text);
    t.requests = word_is(unit, "request") || word_is(unit, "requests");
    if (!t.requests && !word_is(unit, "key") && !word_is(unit, "keys"))
        return false;
    weir_slice verb = next_word(&text);
    if ((verb.len > 0 && !word_is(verb, "denied")) || next_word(&text).len > 0)
        return false;
    *ret = t;
    return true;
}

static int set_target(suggest_options *o, const char *text)
{
    if (parse_target(&o->target, text))
        return 0;
    return accesslog_complain(ACCESSLOG_USAGE,
                              "--target: expected 'P%% of keys denied', 'P%% of requests denied', "
                              "'N keys denied', 'N requests denied' or 'no key denied', found '%s'",
                              text);
}

uint64_t suggest_target_allows(const suggest_target *t, uint64_t total)
{
    /* total is below 2^32 and percent at most 10^8, so that the product is below 2^59 */
    return t->relative ? total * (uint64_t)t->percent / (100 * (uint64_t)SUGGEST_PERCENT)
                       : t->count;
}

/* ---- the policy text ------------------------------------------------------------------------- */

static const suggest_algorithm algorithms[] = {
    {"gcra", true, "gcra ", " burst ", "", false},
    {"token-bucket", true, "token-bucket ", " refill ", "", true},
    {"leaky-bucket", true, "leaky-bucket ", " capacity ", "", false},
    {"fixed-window", false, "fixed-window ", "", "", false},
    {"sliding-log", false, "sliding-log ", "", "", false},
    {"sliding-counter", false, "sliding-counter ", "", "", false},
    {"sliding-slices", false, "sliding-slices ", " slices 60", "", false},
};

static int set_algorithm(suggest_options *o, const char *name)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (strcmp(algorithms[i].name, name) == 0) {
            o->algorithm = &algorithms[i];
            return 0;
        }
    }
    return accesslog_complain(ACCESSLOG_USAGE,
                              "--algorithm: expected gcra, token-bucket, leaky-bucket, "
                              "fixed-window, sliding-log, sliding-counter or sliding-slices, "
                              "found '%s'",
                              name);
}

bool suggest_policy_text(const suggest_options *o, int64_t limit, int64_t burst,
                         char ret[SUGGEST_POLICY_MAX])
{
    const suggest_algorithm *a = o->algorithm;
    int len;
    if (!a->bucket)
        len = snprintf(ret, SUGGEST_POLICY_MAX, "%s%" PRId64 "/%s%s", a->before, limit, o->per,
                       a->middle);
    else if (a->burst_first)
        len = snprintf(ret, SUGGEST_POLICY_MAX, "%s%" PRId64 "%s%" PRId64 "/%s", a->before, burst,
                       a->middle, limit, o->per);
    else
        len = snprintf(ret, SUGGEST_POLICY_MAX, "%s%" PRId64 "/%s%s%" PRId64, a->before, limit,
                       o->per, a->middle, burst);
    return len > 0 && len < SUGGEST_POLICY_MAX;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int set_hold_out(suggest_options *o, const char *text)
{
    if (read_percent(text, strlen(text), HOLD_OUT_MAX, &o->hold_out))
        return 0;
    return accesslog_complain(ACCESSLOG_USAGE,
                              "--hold-out: expected 0%% to %d%% of the log's time, found '%s'",
                              HOLD_OUT_MAX, text);
}

enum { OPT_TARGET = 256, OPT_ALGORITHM, OPT_PER, OPT_HOLD_OUT, OPT_ROUND, OPT_JSON, OPT_MEMORY };

static const struct option known[] = {
    {"target", required_argument, NULL, OPT_TARGET},
    {"algorithm", required_argument, NULL, OPT_ALGORITHM},
    {"per", required_argument, NULL, OPT_PER},
    {"hold-out", required_argument, NULL, OPT_HOLD_OUT},
    {"round", no_argument, NULL, OPT_ROUND},
    {"json", no_argument, NULL, OPT_JSON},
    {"memory", required_argument, NULL, OPT_MEMORY},
    ACCESSLOG_OPTIONS,
};

/* Sets an option of the log, and keeps its words for the command that reads the log again. */
static int set_log_option(suggest_options *o, int c, const char *value)
{
    for (const struct option *k = known; k->name; k++) {
        if (k->val == c && c != ACCESSLOG_OPT_NO_PROGRESS)
            o->words[o->words_len++] = (suggest_word){k->name, k->has_arg ? value : NULL};
    }
    return accesslog_options_set(&o->log, c, value);
}

static int set_option(void *options, int c, const char *value)
{
    suggest_options *o = options;
    if (c >= ACCESSLOG_OPT_FORMAT)
        return set_log_option(o, c, value);
    switch (c) {
    case OPT_TARGET:
        return set_target(o, value);
    case OPT_ALGORITHM:
        return set_algorithm(o, value);
    case OPT_PER:
        o->per = value;
        return 0;
    case OPT_HOLD_OUT:
        return set_hold_out(o, value);
    case OPT_ROUND:
        o->round = true;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    default: /* OPT_MEMORY */
        return accesslog_options_memory(&o->memory_bytes, value);
    }
}

int suggest_options_read(suggest_options *ret, suggest_word *words, int argc, char **argv)
{
    static const accesslog_syntax syntax = {known, set_option, help};
    *ret = (suggest_options){.per = "1m",
                             .algorithm = &algorithms[0],
                             .hold_out = 25 * SUGGEST_PERCENT,
                             .memory_bytes = MEMORY_DEFAULT,
                             .words = words};
    int status = set_target(ret, TARGET_DEFAULT);
    if (status == 0)
        status = accesslog_options_read(&ret->log, &syntax, ret, argc, argv);
    if (status != 0 || ret->log.help)
        return status;
    for (int i = optind; i < argc; i++)
        words[ret->words_len++] = (suggest_word){NULL, argv[i]};
    return accesslog_options_files(&ret->log, argc, argv);
}
