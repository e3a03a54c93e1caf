/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir replay`: runs the requests of a log through policies, at the log's timestamps, with the
 * service and the store of the daemon. This file reads the lines, passes them to the policies, and
 * reports lines that could not be read. */

#include "cmd/cmd.h"

#include "cmd/config/keys.h"
#include "cmd/duration.h"
#include "cmd/replay/format.h"
#include "cmd/replay/input.h"
#include "cmd/replay/messages.h"
#include "cmd/replay/options.h"
#include "cmd/replay/policies.h"
#include "cmd/replay/print.h"
#include "codec/logline.h"
#include "port/port.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BAD_LINES_SHOWN = 5,
    PROGRESS_LINES = 4096, /* lines between two updates of the progress bar */
};

#define AHEAD_NS_MAX INT64_C(3600000000000) /* warn if the log is out of order by more than this */

typedef struct replay {
    replay_options options;
    replay_policies policies;
    replay_input in;
    replay_format format;
    weir_log_record record;
    out_stream *out;
    replay_progress progress;
    int64_t latest_ns, back_ns_max;
    uint64_t latest_number; /* the line that set latest_ns */
    uint64_t back_number;   /* the line that had set latest_ns when back_ns_max was found */
    uint64_t requests, went_back, bad, over_cost; /* over_cost: above WEIR_COST_MAX */
} replay;

/* ---- the run --------------------------------------------------------------------------------- */

/* Counts a line that cannot be read, and shows the first few. */
static int bad_line(replay *r, const weir_logline_error *error)
{
    if (r->bad++ < BAD_LINES_SHOWN) {
        char text[256];
        weir_logline_error_text(error, text, sizeof text);
        replay_progress_erase(&r->progress);
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", r->in.name, r->in.number, text);
    }
    if (!r->options.strict)
        return 0;
    return replay_complain(REPLAY_FAILED,
                           "stopped at the first line that cannot be read (--strict)");
}

/* Returns the time at which the line is decided: its own, or the latest one so far if that is
 * later. Time never goes back, as in the daemon. */
static int64_t decision_time(replay *r)
{
    int64_t back_ns = r->latest_ns - r->record.t_ns;
    if (back_ns <= 0) {
        r->latest_number = back_ns < 0 ? r->in.number : r->latest_number;
        r->latest_ns = r->record.t_ns;
        return r->latest_ns;
    }
    r->went_back++;
    if (back_ns > r->back_ns_max) {
        r->back_ns_max = back_ns;
        r->back_number = r->latest_number;
    }
    return r->latest_ns;
}

static int complain_decision(const replay *r, const replay_policy *which, weir_status st)
{
    char size[24];
    if (st == WEIR_E_NOMEM && !replay_policies_at_max(&r->policies))
        return replay_complain_memory();
    if (st == WEIR_E_NOMEM)
        return replay_complain(REPLAY_FAILED,
                               "%s:%" PRIu64 ": out of memory: the state of this key under the "
                               "policy %s does not fit into %s; raise --memory",
                               r->in.name, r->in.number, which->text,
                               config_size_text(r->options.memory_bytes, size, sizeof size));
    return replay_complain(REPLAY_FAILED, "%s:%" PRIu64 ": %s", r->in.name, r->in.number,
                           weir_status_str(st));
}

static void print_decision(replay *r, const replay_policy *which, const weir_request *req)
{
    const weir_log_record *line = &r->record;
    const char *name = which->by_name ? which->given : which->text;
    replay_answer a = {.t_ns = line->t_ns,
                       .key = line->key,
                       .key_len = line->key_len,
                       .cost = line->cost,
                       .policy = r->policies.len > 1 ? name : NULL,
                       .reason = r->policies.named ? weir_reason_word(req->reason) : NULL,
                       .decision = req->decision};
    replay_print_decision(r->out, &a);
}

static int decide(replay *r)
{
    replay_policies *p = &r->policies;
    int64_t now_ns = decision_time(r);
    if (replay_policies_see(p, &r->record) != WEIR_OK)
        return replay_complain_memory();
    r->requests++;
    r->over_cost += r->record.cost > WEIR_COST_MAX;
    for (size_t i = 0; i < p->len; i++) {
        weir_request req;
        weir_status st = replay_policies_decide(p, i, &r->record, now_ns, &req);
        if (st != WEIR_OK)
            return complain_decision(r, &p->policy[i], st);
        if (r->options.decisions)
            print_decision(r, &p->policy[i], &req);
    }
    return 0;
}

static int run_line(replay *r, const char *line, size_t len)
{
    weir_logline_error error = {.column = 1,
                                .expected = "a line in one of the formats " REPLAY_FORMAT_LIST};
    if (!r->format.known) {
        const char *name = replay_format_guess(line, len, &r->record);
        int status = name ? replay_format_set(&r->format, &r->options, name) : bad_line(r, &error);
        if (!name || status != 0)
            return status;
    }
    weir_status st = weir_logline_read(&r->format.format, line, len, &r->record, &error);
    if (st == WEIR_OK)
        return decide(r);
    if (st == WEIR_E_NOMEM)
        return replay_complain_memory();
    replay_format_doubt(&r->format, &r->options, line, len, r->in.number, &error, &r->record);
    return bad_line(r, &error);
}

static int run_lines(replay *r)
{
    static const weir_logline_error too_long = {
        .column = REPLAY_LINE_MAX + 1, .expected = "the end of the line: a line has at most 1 MiB"};
    const char *line = NULL;
    size_t len = 0;
    int status = 0;
    replay_input_status got;
    while ((got = replay_input_next(&r->in, &line, &len)) <= REPLAY_INPUT_LINE_TOO_LONG) {
        if (r->progress.wanted && r->in.number % PROGRESS_LINES == 0)
            replay_progress_show(&r->progress, &r->in);
        if (got == REPLAY_INPUT_LINE_TOO_LONG)
            status = bad_line(r, &too_long);
        else if (len > 0 && !(len == 1 && *line == '\r'))
            status = run_line(r, line, len);
        if (status != 0 || r->out->error != 0)
            return status;
    }
    if (got == REPLAY_INPUT_FAILED)
        return replay_complain(REPLAY_FAILED, "%s: %s", r->in.name, r->in.error);
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Reports that no line could be read, with a guess at the reason. */
static int complain_nothing(const replay *r)
{
    const char *name = r->in.name;
    if (r->in.empty)
        return replay_complain(REPLAY_FAILED, "%s: the log is empty", name);
    if (r->bad == 0)
        return replay_complain(REPLAY_FAILED, "%s: the log has only empty lines", name);
    replay_note("%s: no line could be read (%" PRIu64 " tried)", name, r->bad);
    replay_format_hint(&r->format, &r->options);
    return REPLAY_FAILED;
}

static int complain_output(const out_stream *out)
{
    return replay_complain(REPLAY_FAILED, "standard %s: %s",
                           out->fd == STDERR_FILENO ? "error" : "output", strerror(out->error));
}

static int print_tables(replay *r)
{
    if (r->options.decisions) {
        if (out_flush(r->out) != 0)
            return complain_output(r->out);
        r->out->fd = STDERR_FILENO;
    }
    for (size_t i = 0; i < r->policies.len; i++) {
        replay_summary s = {.policy = &r->policies.policy[i],
                            .keys = r->policies.keys[r->policies.policy[i].group],
                            .requests = r->requests,
                            .top = r->options.top};
        if (i > 0)
            out_text(r->out, "\n");
        if (replay_print_table(r->out, &s) != WEIR_OK)
            return replay_complain_memory();
    }
    if (out_flush(r->out) != 0)
        return complain_output(r->out);
    return 0;
}

/* Reports lines that were out of order. A little disorder is common in logs. A line dated far ahead
 * is a problem, because time stands still for all lines that follow it. */
static void note_back(const replay *r)
{
    char span[DURATION_TEXT_MAX], ahead[80] = "";
    bool far = r->back_ns_max > AHEAD_NS_MAX, one = r->went_back == 1;
    duration_text(r->back_ns_max, span);
    if (far)
        snprintf(ahead, sizeof ahead, "; is the time of line %" PRIu64 " right?", r->back_number);
    replay_note("%s%" PRIu64 " line%s went back in time, by up to %s; %s was decided at the "
                "latest time seen%s",
                far ? "WARNING: " : "", r->went_back, one ? "" : "s", span, one ? "it" : "each",
                ahead);
}

/* Prints what a reader must know to trust the tables. */
static void print_notes(const replay *r)
{
    if (r->bad > 0)
        replay_note("%" PRIu64 " line%s could not be read and %s left out", r->bad,
                    r->bad == 1 ? "" : "s", r->bad == 1 ? "was" : "were");
    replay_format_note(&r->format);
    if (r->over_cost > 0)
        replay_note("%" PRIu64 " request%s cost more than %d and %s denied; the daemon rejects "
                    "such requests with an error",
                    r->over_cost, r->over_cost == 1 ? "" : "s", WEIR_COST_MAX,
                    r->over_cost == 1 ? "was" : "were");
    if (r->went_back > 0)
        note_back(r);
    uint64_t evicted = replay_policies_evicted(&r->policies);
    char size[24];
    if (evicted > 0)
        replay_note("WARNING: the tables show too few denials: the memory of %s was full, and "
                    "%" PRIu64 " %s evicted without a full quota; raise --memory",
                    config_size_text(r->options.memory_bytes, size, sizeof size), evicted,
                    evicted == 1 ? "key was" : "keys were");
}

static int run(replay *r)
{
    bool mixed = r->options.decisions && isatty(STDOUT_FILENO); /* bar and decisions would mix */
    replay_progress_begin(&r->progress, !r->options.no_progress && r->in.size > 0 &&
                                            isatty(STDERR_FILENO) && !mixed);
    int status = run_lines(r);
    replay_progress_erase(&r->progress);
    if (status == 0 && r->out->error == 0 && r->requests == 0)
        status = complain_nothing(r);
    if (status == 0 && r->out->error == 0)
        status = print_tables(r);
    else if (out_flush(r->out) != 0)
        status = complain_output(r->out);
    if (status == 0)
        print_notes(r);
    return status;
}

static void replay_close(replay *r)
{
    weir_log_record_free(&r->record);
    replay_input_close(&r->in);
    replay_policies_close(&r->policies);
    port_free(r->out);
}

/* Opens the policies, the format and the log. */
static int replay_open(replay *r)
{
    int status = replay_policies_open(&r->policies, &r->options);
    if (status == 0 && r->options.format)
        status = replay_format_set(&r->format, &r->options, r->options.format);
    if (status == 0 && !replay_input_open(&r->in, r->options.path))
        status = replay_complain(REPLAY_FAILED, "%s: %s",
                                 strcmp(r->options.path, "-") == 0 ? "<stdin>" : r->options.path,
                                 strerror(errno));
    return status;
}

static int print_help(out_stream *out)
{
    out_text(out, replay_help);
    return out_flush(out) == 0 ? 0 : complain_output(out);
}

int weir_cmd_replay(int argc, char **argv)
{
    replay r = {0};
    int status = replay_options_read(&r.options, argc, argv);
    if (status != 0)
        return status;
    signal(SIGPIPE, SIG_IGN); /* so that write() fails with EPIPE, which is reported */
    r.out = port_zalloc(1, sizeof *r.out);
    if (!r.out)
        return replay_complain_memory();
    out_init(r.out, STDOUT_FILENO);
    if (r.options.help)
        status = print_help(r.out);
    else if ((status = replay_open(&r)) == 0)
        status = run(&r);
    replay_close(&r);
    return status;
}
