/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir suggest`: reads a log, searches the limits that meet a target, and prints them. */

#include "cmd/kit/commands.h"

#include "accesslog/messages.h"
#include "cmd/suggest/suggest.h"
#include "port/duration.h"
#include "port/port.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX ((size_t)1 << 24) /* bytes */

typedef struct suggest {
    suggest_options options;
    suggest_word *words;
    weir_zone_cache *zones;
    accesslog *log;
    suggest_trace trace;
    suggest_found found;
} suggest;

static int read_log(suggest *s)
{
    int status = accesslog_open(&s->log, &s->options.log);
    if (status != 0)
        return status;
    accesslog_progress(s->log);
    status = suggest_trace_read(&s->trace, s->log, s->options.memory_bytes, s->options.hold_out);
    accesslog_progress_erase(s->log);
    return status;
}

enum { PERIODS_MIN = 10 }; /* a note warns if the searched part has fewer periods */

/* In a log of a few periods, a burst can stand for the whole traffic of a key. */
static void note_short(const suggest *s)
{
    const suggest_trace *t = &s->trace;
    int64_t span_ns = (t->split_ns == INT64_MAX ? t->last_ns : t->split_ns) - t->first_ns;
    char span[WEIR_DURATION_MAX];
    if (s->found.period_ns == 0 || span_ns / PERIODS_MIN >= s->found.period_ns)
        return;
    weir_duration_print(span, span_ns, WEIR_DURATION_SHORT);
    accesslog_note(
        "the searched part of the log covers only %s, less than %d periods of %s: a longer "
        "log may lead to another limit",
        span, PERIODS_MIN, s->options.per);
}

/* Prints what a reader must know of the log, and whether there is a suggestion. */
static int print_notes(const suggest *s)
{
    accesslog_notes(s->log);
    if (s->options.hold_out > 0 && s->trace.split_ns == INT64_MAX)
        accesslog_note("nothing was held out: all requests have the same time");
    if (s->trace.over_cost > 0)
        accesslog_note("%" PRIu64 " request%s cost more than %d: every policy denies such requests",
                       s->trace.over_cost, s->trace.over_cost == 1 ? "" : "s", WEIR_COST_MAX);
    if (s->found.len > 0) {
        note_short(s);
        return 0;
    }
    return accesslog_complain(ACCESSLOG_FAILED,
                              "no limit meets the target '%s', which allows %" PRIu64 " %s to be "
                              "denied",
                              s->options.target.argument, s->found.allowed,
                              s->found.allowed == 1
                                  ? (s->options.target.requests ? "request" : "key")
                                  : (s->options.target.requests ? "requests" : "keys"));
}

static int run(suggest *s, const weir_zones *zones)
{
    int status = suggest_check_period(&s->options, zones);
    if (status == 0)
        status = read_log(s);
    if (status != 0)
        return status;
    weir_status st = suggest_search(&s->options, zones, &s->trace, &s->found);
    if (st == WEIR_E_NOMEM)
        return accesslog_complain_memory();
    if (st != WEIR_OK)
        return accesslog_complain(ACCESSLOG_FAILED, "%s", weir_status_str(st));
    suggest_report report = {&s->options, &s->trace, &s->found};
    weir_buffer out;
    weir_buffer_init(&out, OUTPUT_MAX);
    if (s->options.json)
        suggest_print_json(&out, &report);
    else if (s->found.len > 0)
        suggest_print_text(&out, &report, terminal_style_get());
    status = accesslog_print_buffer(STDOUT_FILENO, &out);
    return status == 0 ? print_notes(s) : status;
}

static void suggest_close(suggest *s)
{
    accesslog_close(s->log);
    suggest_trace_free(&s->trace);
    weir_zone_cache_close(s->zones);
    port_free(s->words);
    port_free(s);
}

static int run_command(suggest *s, int argc, char **argv)
{
    s->words = port_zalloc((size_t)argc, sizeof *s->words);
    s->zones = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!s->words || !s->zones)
        return accesslog_complain_memory();
    signal(SIGPIPE, SIG_IGN); /* so that write() fails with EPIPE, which is reported */
    int status = suggest_options_read(&s->options, s->words, argc, argv);
    if (status != 0 || s->options.log.help)
        return status;
    weir_zones zones = weir_zone_cache_zones(s->zones);
    return run(s, &zones);
}

int weir_cmd_suggest(int argc, char **argv)
{
    accesslog_command("weir suggest");
    suggest *s = port_zalloc(1, sizeof *s);
    if (!s)
        return accesslog_complain_memory();
    int status = run_command(s, argc, argv);
    suggest_close(s);
    return status;
}
