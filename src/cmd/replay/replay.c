/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir replay`: runs the requests of a log through policies, at the log's timestamps, with the
 * service and the store of the daemon. This file passes the requests to the policies, and the
 * results to the report. */

#include "cmd/kit/commands.h"

#include "accesslog/accesslog.h"
#include "accesslog/messages.h"
#include "cmd/kit/out.h"
#include "cmd/kit/units.h"
#include "cmd/replay/options.h"
#include "cmd/replay/policies.h"
#include "cmd/replay/report.h"
#include "core/decision.h"
#include "port/port.h"
#include "port/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REPORT_MAX ((size_t)1 << 32) /* bytes */

enum { BATCH = 16 }; /* requests whose keys are prefetched together */

typedef struct batched {
    accesslog_request request; /* its key is in `key`, if it fits */
    replay_upcoming upcoming;
    char key[48];
} batched;

typedef struct replay {
    replay_options options;
    replay_policies policies;
    accesslog *log;
    batched batch[BATCH];
    size_t batch_len;
    accesslog_request request; /* the current one */
    out_stream *out;
    uint64_t over_cost; /* requests that cost more than WEIR_COST_MAX */
} replay;

/* ---- decisions as lines of JSON -------------------------------------------------------------- */

/* Millions of them may be printed, so they are formatted without printf(). */

enum { PIECE_MAX = 320 }; /* bytes of a line without its key and policy */

static char *literal(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

static char *number(char *at, int64_t v)
{
    return at + weir_i64_print(at, v);
}

#define PUT_FLAG(at, v)  literal(at, (v) ? "true" : "false")
#define PUT_COUNT(at, v) number(at, v)
#define PUT_SPAN(at, v)  number(at, v)
#define PUT_WAIT(at, v)  ((v) == -1 ? literal(at, "null") : number(at, v))

static char *put_fields(char *at, const weir_decision *d)
{
    int64_t f[WEIR_DECISION_FIELDS];
    weir_decision_get_fields(d, 1, f);
#define PUT(id, kind, name)                                                                        \
    at = literal(at, ",\"" WEIR_FIELD_NAME_##kind(name, "ns") "\":");                              \
    at = PUT_##kind(at, f[WEIR_FIELD_##id]);
    WEIR_DECISION_LIST(PUT)
#undef PUT
    return at;
}

static void print_decision(replay *r, const replay_policy *which, const weir_request *req)
{
    const weir_decision *d = &req->decision;
    out_stream *out = r->out;
    char *at = literal(out_reserve(out, PIECE_MAX), "{\"t_ns\":");
    at = literal(number(at, r->request.t_ns), ",\"key\":\"");
    out_commit(out, at);
    out_json(out, r->request.key.at, r->request.key.len);
    at = literal(out_reserve(out, PIECE_MAX), "\",\"cost\":");
    at = put_fields(number(at, r->request.cost), d);
    at = number(literal(at, ",\"layer\":"), d->layer);
    if (r->policies.len > 1) {
        const char *policy = which->by_name ? which->given : which->text;
        out_commit(out, literal(at, ",\"policy\":\""));
        out_json(out, policy, strlen(policy));
        at = literal(out_reserve(out, PIECE_MAX), "\"");
    }
    if (r->policies.named)
        at = literal(literal(literal(at, ",\"reason\":\""), weir_reason_word(req->reason)), "\"");
    out_commit(out, literal(at, "}\n"));
}

/* ---- the run --------------------------------------------------------------------------------- */

static int complain_decision(const replay *r, const replay_policy *which, weir_status st)
{
    char size[24];
    if (st == WEIR_E_NOMEM && !replay_policies_at_max(&r->policies))
        return accesslog_complain_memory();
    if (st == WEIR_E_NOMEM)
        return accesslog_complain(ACCESSLOG_FAILED,
                                  "%s:%" PRIu64 ": out of memory: the state of this key under the "
                                  "policy %s does not fit into %s; raise --memory",
                                  r->request.file, r->request.line, which->text,
                                  size_text(r->options.memory_bytes, size, sizeof size));
    return accesslog_complain(ACCESSLOG_FAILED, "%s:%" PRIu64 ": %s", r->request.file,
                              r->request.line, weir_status_str(st));
}

static int decide(replay *r, const replay_upcoming *upcoming)
{
    replay_policies *p = &r->policies;
    if (replay_policies_see(p, &r->request, upcoming) != WEIR_OK)
        return accesslog_complain_memory();
    r->over_cost += r->request.cost > WEIR_COST_MAX;
    for (size_t i = 0; i < p->len; i++) {
        weir_request req;
        weir_status st = replay_policies_decide(p, i, &r->request, &req);
        if (st != WEIR_OK)
            return complain_decision(r, &p->policy[i], st);
        if (r->options.decisions)
            print_decision(r, &p->policy[i], &req);
    }
    return 0;
}

/* Reads requests into the batch. A key that does not fit is valid until the next read, so it ends
 * the batch. Returns the answer of the last accesslog_next(). */
static accesslog_status read_batch(replay *r)
{
    accesslog_status got = ACCESSLOG_REQUEST;
    bool fits = true;
    r->batch_len = 0;
    while (fits && r->batch_len < BATCH) {
        batched *b = &r->batch[r->batch_len];
        got = accesslog_next(r->log, &b->request);
        if (got != ACCESSLOG_REQUEST)
            break;
        r->batch_len++;
        fits = b->request.key.len <= sizeof b->key;
        if (fits)
            b->request.key.at = memcpy(b->key, b->request.key.at, b->request.key.len);
    }
    return got;
}

static int decide_batch(replay *r)
{
    int status = 0;
    for (size_t i = 0; i < r->batch_len; i++)
        replay_policies_expect(&r->policies, &r->batch[i].request, &r->batch[i].upcoming);
    for (size_t i = 0; i < r->batch_len; i++)
        replay_policies_prefetch(&r->policies, &r->batch[i].upcoming);
    for (size_t i = 0; i < r->batch_len; i++)
        replay_policies_prefetch_series(&r->policies, &r->batch[i].upcoming);
    for (size_t i = 0; i < r->batch_len && status == 0 && r->out->error == 0; i++) {
        r->request = r->batch[i].request;
        status = decide(r, &r->batch[i].upcoming);
    }
    return status;
}

static int decide_all(replay *r)
{
    accesslog_status got;
    int status;
    do {
        got = read_batch(r);
        status = decide_batch(r);
    } while (got == ACCESSLOG_REQUEST && status == 0 && r->out->error == 0);
    return got == ACCESSLOG_ERROR && status == 0 ? accesslog_exit_status(r->log) : status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int print_report(replay *r, const replay_report *report)
{
    weir_buffer b;
    weir_buffer_init(&b, REPORT_MAX);
    if (r->options.json)
        replay_report_json(&b, report, SIZE_MAX);
    else
        replay_report_text(&b, report, terminal_style_get());
    return accesslog_print_buffer(r->options.decisions ? STDERR_FILENO : STDOUT_FILENO, &b);
}

enum { PAGE_WORST_MAX = 1000 }; /* denied keys of a policy; browsers are slow with many more */

static int write_page(const replay *r, const replay_report *report)
{
    weir_buffer json;
    weir_buffer_init(&json, REPORT_MAX);
    replay_report_json(&json, report, PAGE_WORST_MAX);
    int status = json.failed
                     ? accesslog_complain_memory()
                     : replay_html_write(r->options.html, (const char *)weir_buffer_data(&json),
                                         weir_buffer_len(&json));
    weir_buffer_free(&json);
    return status;
}

/* Prints the report, and writes the page. */
static int print_results(replay *r, const replay_report *report)
{
    int status = print_report(r, report);
    return status == 0 && r->options.html ? write_page(r, report) : status;
}

enum { NOTES_MAX = 3, NOTE_MAX = 200 };

static bool any_holds(const replay_policies *p)
{
    for (size_t i = 0; i < p->len; i++) {
        if (strstr(p->policy[i].text, "concurrent "))
            return true;
    }
    return false;
}

/* Writes what a reader must know to trust the figures. Returns how many notes there are. */
static size_t write_notes(const replay *r, char ret[NOTES_MAX][NOTE_MAX])
{
    size_t n = 0;
    char size[24];
    uint64_t evicted = replay_policies_evicted(&r->policies);
    if (r->over_cost > 0)
        snprintf(ret[n++], NOTE_MAX,
                 "%" PRIu64 " request%s cost more than %d and %s denied; the daemon rejects such "
                 "requests with an error",
                 r->over_cost, r->over_cost == 1 ? "" : "s", WEIR_COST_MAX,
                 r->over_cost == 1 ? "was" : "were");
    if (evicted > 0)
        snprintf(ret[n++], NOTE_MAX,
                 "WARNING: the report shows too few denials: the memory of %s was full, and "
                 "%" PRIu64 " %s evicted before their quota was full; raise --memory",
                 size_text(r->options.memory_bytes, size, sizeof size), evicted,
                 evicted == 1 ? "key was" : "keys were");
    if (any_holds(&r->policies))
        snprintf(ret[n++], NOTE_MAX,
                 "under 'concurrent', each request holds its units for the whole lease, because a "
                 "log does not say when it gave them back; the daemon may deny fewer");
    return n;
}

/* The counts of each file, accesslog_files() of them. Returns NULL if there is no memory. */
static accesslog_file *files_of(const accesslog *log)
{
    accesslog_file *ret = port_zalloc(accesslog_files(log), sizeof *ret);
    for (size_t i = 0; ret && i < accesslog_files(log); i++)
        ret[i] = accesslog_file_get(log, i);
    return ret;
}

/* Prints the report: to standard error if the decisions are on standard output. */
static int report(replay *r)
{
    char notes[NOTES_MAX][NOTE_MAX];
    const char *const lines[NOTES_MAX] = {notes[0], notes[1], notes[2]};
    accesslog_file *logs = files_of(r->log);
    replay_report data = {.logs = logs,
                          .logs_len = accesslog_files(r->log),
                          .late = accesslog_counts_get(r->log).late,
                          .notes = lines};
    data.notes_len = write_notes(r, notes);
    weir_status st = logs ? replay_report_fill(&data, &r->policies, r->options.top) : WEIR_E_NOMEM;
    int status = st == WEIR_OK ? print_results(r, &data) : accesslog_complain_memory();
    replay_report_free(&data);
    port_free(logs);
    if (status == 0) {
        accesslog_notes(r->log);
        for (size_t i = 0; i < data.notes_len; i++)
            accesslog_note("%s", notes[i]);
    }
    return status;
}

static int run(replay *r)
{
    bool mixed = r->options.decisions && isatty(STDOUT_FILENO); /* bar and decisions would mix */
    if (!mixed)
        accesslog_progress(r->log);
    int status = decide_all(r);
    accesslog_progress_erase(r->log);
    if (out_flush(r->out) != 0)
        return accesslog_complain_output(STDOUT_FILENO, r->out->error);
    return status == 0 ? report(r) : status;
}

static void replay_close(replay *r)
{
    accesslog_close(r->log);
    replay_policies_close(&r->policies);
    port_free(r->out);
}

/* Opens the policies and the log. */
static int replay_open(replay *r)
{
    int status = r->options.html ? replay_html_check(r->options.html) : 0;
    if (status == 0)
        status = replay_policies_open(&r->policies, &r->options);
    if (status == 0)
        status = accesslog_open(&r->log, &r->options.log);
    return status;
}

int weir_cmd_replay(int argc, char **argv)
{
    replay r = {0};
    accesslog_command("weir replay");
    signal(SIGPIPE, SIG_IGN); /* so that write() fails with EPIPE, which is reported */
    int status = replay_options_read(&r.options, argc, argv);
    if (status != 0 || r.options.log.help)
        return status;
    r.out = port_zalloc(1, sizeof *r.out);
    if (!r.out)
        return accesslog_complain_memory();
    out_init(r.out, STDOUT_FILENO);
    status = replay_open(&r);
    if (status == 0)
        status = run(&r);
    replay_close(&r);
    return status;
}
