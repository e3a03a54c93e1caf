/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sends batches of requests, and reads the clock of this machine before and after each batch. The
 * daemon has decided between the two. */

#include "cmd/replay/against.h"

#include "cmd/accesslog/messages.h"
#include "cmd/replay/against_wire.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS_MAX = 256,      /* sent in a batch, over all policies */
    KEY_BYTES_MAX = 1 << 17, /* of the keys of a batch, before the last one */
    SHOWN_MAX = 10           /* differences that are printed */
};

#define WAIT_NS INT64_C(1000000000) /* the longest wait at once */

/* How far the daemon's clock may be from that of this machine: it is slewed, not stepped. */
#define SLACK_NS INT64_C(1000000)

typedef struct item {
    accesslog_request request; /* without the key */
    size_t key_at;             /* in `keys` */
} item;

struct replay_against {
    replay_policies *p;
    accesslog *log;
    against_wire wire;
    double speed; /* 0: as fast as possible */
    bool begun;
    int64_t first_ns, begun_ns; /* the first request: in the log, and on the steady clock */
    against_bounds *bounds[REPLAY_POLICIES_MAX];
    size_t items_max, len;
    item item[REQUESTS_MAX];
    against_answer answer[REQUESTS_MAX];
    weir_buffer keys;
    uint64_t batch;
    int64_t early_ns, late_ns; /* of the batch */
    uint64_t verdicts[AGAINST_NO_MEMORY];
    uint64_t unsent, first_differ;
};

/* ---- opening --------------------------------------------------------------------------------- */

bool replay_speed_read(const char *text, double *ret)
{
    if (strcmp(text, "max") == 0) {
        *ret = 0;
        return true;
    }
    char *end;
    double speed = strtod(text, &end);
    if (strspn(text, "0123456789.") != strlen(text) || *end || speed < 0.001 || speed > 1e6)
        return false;
    *ret = speed;
    return true;
}

int replay_against_open(replay_against **ret, const char *url, double speed, replay_policies *p)
{
    replay_against *a = port_zalloc(1, sizeof *a);
    if (!a)
        return accesslog_complain_memory();
    *ret = a;
    a->p = p;
    a->speed = speed;
    a->items_max = REQUESTS_MAX / p->len;
    weir_buffer_init(&a->keys, (size_t)KEY_BYTES_MAX + WEIR_LOGLINE_KEY_LEN_MAX);
    for (size_t i = 0; i < p->len; i++) {
        a->bounds[i] = against_bounds_open();
        if (!a->bounds[i])
            return accesslog_complain_memory();
    }
    const char *password = getenv("WEIR_PASSWORD");
    return against_wire_open(&a->wire, url, password && *password ? password : NULL);
}

void replay_against_close(replay_against *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->p->len; i++)
        against_bounds_close(a->bounds[i]);
    weir_buffer_free(&a->keys);
    against_wire_close(&a->wire);
    port_free(a);
}

/* ---- a batch: sending ------------------------------------------------------------------------ */

static accesslog_request request_at(const replay_against *a, size_t i)
{
    accesslog_request r = a->item[i].request;
    r.key.at = (const char *)weir_buffer_data(&a->keys) + a->item[i].key_at;
    r.now_ns = a->early_ns + SLACK_NS;
    return r;
}

/* Adds a request to the batch. The daemon refuses a cost above WEIR_COST_MAX. */
static int add(replay_against *a, const accesslog_request *request)
{
    if (request->cost > WEIR_COST_MAX) {
        a->unsent++;
        return 0;
    }
    a->item[a->len].request = *request;
    a->item[a->len++].key_at = weir_buffer_len(&a->keys);
    weir_buffer_append(&a->keys, request->key.at, request->key.len);
    return a->keys.failed ? accesslog_complain_memory() : 0;
}

static bool is_full(const replay_against *a)
{
    return a->len == a->items_max || weir_buffer_len(&a->keys) >= KEY_BYTES_MAX;
}

/* Waits until the times of this batch do not overlap with those of the last one, unless the clock
 * was stepped back. */
static int begin_batch(replay_against *a)
{
    int status = 0;
    for (int i = 0; i < 5 && status == 0 && port_now_ns() - SLACK_NS < a->late_ns; i++)
        status = against_wire_wait(&a->wire, 1);
    int64_t now_ns = port_now_ns() - SLACK_NS;
    a->early_ns = now_ns > a->late_ns ? now_ns : a->late_ns;
    a->batch++;
    return status;
}

static int put_all(replay_against *a)
{
    for (size_t i = 0; i < a->len; i++) {
        accesslog_request request = request_at(a, i);
        for (size_t j = 0; j < a->p->len; j++) {
            weir_request r;
            replay_policies_request(a->p, j, &request, &r);
            int status = against_wire_put(&a->wire, &r);
            if (status != 0)
                return status;
        }
    }
    return against_wire_send(&a->wire);
}

static int read_all(replay_against *a)
{
    for (size_t i = 0; i < a->len * a->p->len; i++) {
        const accesslog_request *request = &a->item[i / a->p->len].request;
        int status = against_wire_read(&a->wire, request->file, request->line, &a->answer[i]);
        if (status != 0)
            return status;
    }
    int64_t late_ns = port_now_ns() + SLACK_NS;
    a->late_ns = late_ns > a->early_ns ? late_ns : a->early_ns;
    return 0;
}

/* ---- a batch: comparing ---------------------------------------------------------------------- */

static const char *verb(bool allowed)
{
    return allowed ? "allowed" : "denied";
}

static void print_difference(const replay_against *a, const accesslog_request *request, size_t i,
                             const weir_decision *offline, const against_answer *answer)
{
    const replay_policy *which = &a->p->policy[i];
    char key[128];
    client_printable(request->key.at, request->key.len, key, sizeof key);
    accesslog_progress_erase(a->log);
    accesslog_note("--against: %s:%" PRIu64 ": different: key %s, policy %s: offline %s with "
                   "%" PRId64 " of %" PRId64 " left, the daemon %s with %" PRId64 " of %" PRId64
                   " left",
                   request->file, request->line, key, which->by_name ? which->given : which->text,
                   verb(offline->allowed), offline->remaining, offline->limit,
                   verb(answer->allowed && !answer->shadowed), answer->remaining, answer->limit);
}

/* Compares the decision on a key of a list, which has no state. */
static against_verdict judge_listed(const weir_request *found, const against_answer *answer,
                                    weir_decision *ret_offline)
{
    *ret_offline = found->decision;
    return answer->allowed == found->decision.allowed ? AGAINST_SAME : AGAINST_DIFFERENT;
}

static int compare(replay_against *a, const accesslog_request *request, size_t i,
                   const against_answer *answer)
{
    const replay_policy *which = &a->p->policy[i];
    weir_request found;
    weir_decision offline;
    weir_status st = replay_policies_find(a->p, i, request, &found);
    if (st != WEIR_OK)
        return accesslog_complain(ACCESSLOG_FAILED, "%s:%" PRIu64 ": %s", request->file,
                                  request->line, weir_status_str(st));
    const against_question q = {.key = a->p->seen[which->group],
                                .policy = found.policy,
                                .cost = request->cost,
                                .early_ns = a->early_ns,
                                .late_ns = a->late_ns,
                                .batch = a->batch,
                                .shadow = which->shadow};
    bool listed = found.reason == WEIR_BY_ALLOW_LIST || found.reason == WEIR_BY_DENY_LIST;
    bool first = !listed && !against_bounds_knows(a->bounds[i], &q);
    against_verdict v = listed ? judge_listed(&found, answer, &offline)
                               : against_bounds_judge(a->bounds[i], &q, answer, &offline);
    if (v == AGAINST_NO_MEMORY)
        return accesslog_complain_memory();
    a->verdicts[v]++;
    if (v == AGAINST_DIFFERENT) {
        a->first_differ += first;
        if (a->verdicts[v] <= SHOWN_MAX)
            print_difference(a, request, i, &offline, answer);
    }
    return 0;
}

/* Sends the batch, reads the answers, and compares them with the offline decisions. */
static int exchange(replay_against *a, int (*decide)(void *, const accesslog_request *), void *ctx)
{
    int status = begin_batch(a);
    if (status == 0)
        status = put_all(a);
    if (status == 0)
        status = read_all(a);
    for (size_t i = 0; i < a->len && status == 0; i++) {
        accesslog_request request = request_at(a, i);
        status = decide(ctx, &request);
        for (size_t j = 0; j < a->p->len && status == 0; j++)
            status = compare(a, &request, j, &a->answer[i * a->p->len + j]);
    }
    a->len = 0;
    weir_buffer_clear(&a->keys);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* How long to wait until a request is due; 0 or less: it is. */
static int64_t due_after_ns(replay_against *a, const accesslog_request *request)
{
    if (!a->begun) {
        a->begun = true;
        a->first_ns = request->now_ns;
        a->begun_ns = port_steady_ns();
    }
    if (a->speed <= 0)
        return 0;
    double after_ns = (double)(request->now_ns - a->first_ns) / a->speed;
    return (int64_t)(after_ns < 1e18 ? after_ns : 1e18) - (port_steady_ns() - a->begun_ns);
}

static int wait_until_due(replay_against *a, const accesslog_request *request)
{
    int64_t left_ns;
    int status = 0;
    while (status == 0 && (left_ns = due_after_ns(a, request)) > 0)
        status =
            against_wire_wait(&a->wire, left_ns < WAIT_NS ? (int)(left_ns / 1000000) + 1 : 1000);
    return status;
}

int replay_against_run(replay_against *a, accesslog *log,
                       int (*decide)(void *ctx, const accesslog_request *request), void *ctx)
{
    accesslog_request request;
    accesslog_status got;
    int status = 0;
    a->log = log;
    while (status == 0 && (got = accesslog_next(log, &request)) == ACCESSLOG_REQUEST) {
        if (a->len > 0 && (is_full(a) || due_after_ns(a, &request) > 0))
            status = exchange(a, decide, ctx);
        if (status == 0)
            status = wait_until_due(a, &request);
        if (status == 0)
            status = add(a, &request);
    }
    if (status == 0 && a->len > 0)
        status = exchange(a, decide, ctx);
    if (status == 0 && got == ACCESSLOG_ERROR)
        status = accesslog_exit_status(log);
    if (status != 0)
        accesslog_note("--against: stopped after %" PRIu64 " decisions that are the same, %" PRIu64
                       " undecided, %" PRIu64 " different",
                       a->verdicts[AGAINST_SAME], a->verdicts[AGAINST_UNDECIDED],
                       a->verdicts[AGAINST_DIFFERENT]);
    return status;
}

int replay_against_finish(const replay_against *a)
{
    uint64_t different = a->verdicts[AGAINST_DIFFERENT];
    if (a->unsent > 0)
        accesslog_note("--against: %" PRIu64 " request%s cost more than %d and %s not sent",
                       a->unsent, a->unsent == 1 ? "" : "s", WEIR_COST_MAX,
                       a->unsent == 1 ? "was" : "were");
    accesslog_note("--against %s: %" PRIu64 " decision%s the same, %" PRIu64 " undecided, %" PRIu64
                   " different",
                   a->wire.url, a->verdicts[AGAINST_SAME],
                   a->verdicts[AGAINST_SAME] == 1 ? "" : "s", a->verdicts[AGAINST_UNDECIDED],
                   different);
    if (a->first_differ > 0)
        accesslog_note("hint: %" PRIu64 " of the differences %s the first decision on a key: "
                       "perhaps the daemon had a state of the key before, or has another policy",
                       a->first_differ, a->first_differ == 1 ? "is" : "are");
    return different > 0 ? ACCESSLOG_FAILED : 0;
}
