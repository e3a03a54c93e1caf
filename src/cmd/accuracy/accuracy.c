/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir accuracy`: counts how often each approximate algorithm decides otherwise than an exact one,
 * on a log or on generated requests. Generated requests come source by source, so that one key is
 * enough for all of them; a log needs one for each of its keys. */

#include "cmd/accesslog/key_table.h"
#include "cmd/accesslog/messages.h"
#include "cmd/accesslog/source.h"
#include "cmd/accuracy/measure.h"
#include "cmd/accuracy/options.h"
#include "cmd/accuracy/print.h"
#include "cmd/accuracy/traffic.h"
#include "cmd/cmd.h"
#include "port/port.h"
#include "service/rules/address.h"
#include "service/rules/rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PROGRESS_REQUESTS = 65536, /* between two updates of the progress bar */
    KEYS_MANY = 500000         /* a warning says that more keys may need too much memory */
};

typedef struct accuracy {
    accuracy_options options;
    accuracy_measure measure;
    traffic traffic;
    accesslog_progress_bar progress; /* of generated requests */
    accesslog *log;
    accesslog_key_table *table; /* the keys of the log; `number` is an index of `keys` */
    accuracy_key **keys;
    size_t keys_len, keys_cap;
} accuracy;

/* ---- generated requests ---------------------------------------------------------------------- */

static weir_status measure_source(accuracy *a, accuracy_key *k)
{
    int64_t t_ns;
    weir_status st = WEIR_OK;
    while (st == WEIR_OK && traffic_next(&a->traffic, &t_ns)) {
        st = accuracy_request(&a->measure, k, t_ns, 1);
        if (a->progress.wanted && a->measure.requests % PROGRESS_REQUESTS == 0)
            accesslog_progress_bar_show(&a->progress, (int64_t)a->measure.requests,
                                        a->measure.requests);
    }
    accuracy_key_end(&a->measure, k);
    return st;
}

static int run_traffic(accuracy *a)
{
    if (!traffic_init(&a->traffic, &a->options.traffic))
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "the requests would take more than ten years: expected a higher "
                                  "--rate, more --sources or fewer --requests");
    accuracy_key *k = accuracy_key_open(&a->measure);
    if (!k)
        return accesslog_complain_memory();
    accesslog_progress_bar_begin(&a->progress, !a->options.log.no_progress && isatty(STDERR_FILENO),
                                 (int64_t)a->options.traffic.requests);
    a->progress.unit = "requests";
    weir_status st = WEIR_OK;
    while (st == WEIR_OK && traffic_source(&a->traffic)) {
        st = measure_source(a, k);
        accuracy_key_reset(k, &a->measure);
    }
    accesslog_progress_bar_erase(&a->progress);
    accuracy_key_close(k, &a->measure);
    return st == WEIR_OK ? 0 : accesslog_complain_memory();
}

/* ---- a log ----------------------------------------------------------------------------------- */

static bool keys_grow(accuracy *a)
{
    size_t cap = a->keys_cap > 0 ? 2 * a->keys_cap : 1024;
    accuracy_key **wider = port_zalloc(cap, sizeof *wider);
    if (!wider)
        return false;
    if (a->keys_len > 0)
        memcpy(wider, a->keys, a->keys_len * sizeof *wider);
    port_free(a->keys);
    a->keys = wider;
    a->keys_cap = cap;
    return true;
}

static void warn_many_keys(accuracy *a)
{
    accesslog_progress_erase(a->log);
    accesslog_note("WARNING: the log has more than %d keys; each takes about 3 KiB of memory with "
                   "the usual policies; measure a part of the log with --where",
                   KEYS_MANY);
}

/* Finds a key by its text, or adds it. An IPv6 address is its network, as in the daemon. Returns
 * NULL if there is no memory. */
static accuracy_key *key_at(accuracy *a, weir_slice text)
{
    weir_address address;
    char network[WEIR_ADDRESS_TEXT_MAX];
    if (weir_address_parse(&address, text.at, text.len)) {
        unsigned bits = address.v6 ? WEIR_V6_BITS_DEFAULT : WEIR_V4_BITS_DEFAULT;
        (void)weir_address_mask(&address, bits);
        text = (weir_slice){network, weir_address_print(&address, bits, network)};
    }
    accesslog_key *found = accesslog_key_table_at(a->table, text.at, text.len);
    if (!found)
        return NULL;
    if (found->number < a->keys_len)
        return a->keys[found->number];
    if (a->keys_len == a->keys_cap && !keys_grow(a))
        return NULL;
    accuracy_key *k = accuracy_key_open(&a->measure);
    if (!k)
        return NULL;
    a->keys[a->keys_len++] = k;
    if (a->keys_len == KEYS_MANY + 1)
        warn_many_keys(a);
    return k;
}

static int measure_line(accuracy *a, const accesslog_request *r)
{
    int64_t cost = r->cost < WEIR_COST_MAX ? r->cost : WEIR_COST_MAX;
    accuracy_key *k = key_at(a, r->key);
    weir_status st = k ? accuracy_request(&a->measure, k, r->now_ns, cost) : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        return 0;
    return st == WEIR_E_NOMEM ? accesslog_complain_memory()
                              : accesslog_complain(ACCESSLOG_FAILED, "%s:%" PRIu64 ": %s", r->file,
                                                   r->line, weir_status_str(st));
}

static int run_log(accuracy *a)
{
    accesslog_request r;
    accesslog_status got;
    int status = accesslog_open(&a->log, &a->options.log);
    if (status != 0)
        return status;
    a->table = accesslog_key_table_open(sizeof(accesslog_key));
    if (!a->table)
        return accesslog_complain_memory();
    accesslog_progress(a->log);
    while (status == 0 && (got = accesslog_next(a->log, &r)) != ACCESSLOG_END)
        status = got == ACCESSLOG_ERROR ? accesslog_exit_status(a->log) : measure_line(a, &r);
    accesslog_progress_erase(a->log);
    for (size_t i = 0; i < a->keys_len; i++)
        accuracy_key_end(&a->measure, a->keys[i]);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Flushes standard output. Returns 0, or ACCESSLOG_FAILED after printing why a write failed.
 *  errno  0, or that of the failed write, since the caller cleared it. */
static int flush(void)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed)
        return 0;
    int error = errno != 0 ? errno : EIO;
    clearerr(stdout); /* main() would print the error again */
    return accesslog_complain(ACCESSLOG_FAILED, "standard output: %s", strerror(error));
}

static int print_report(const accuracy *a)
{
    const accuracy_options *o = &a->options;
    accuracy_report r = {.measure = &a->measure,
                         .limit = o->limit,
                         .traffic = o->generated ? &o->traffic : NULL,
                         .rate = o->rate ? o->rate : o->limit,
                         .log = a->log};
    errno = 0;
    if (!o->json)
        accuracy_print_table(&r);
    else if (accuracy_print_json(&r) != WEIR_OK)
        return accesslog_complain_memory();
    int status = flush();
    if (status == 0 && a->log)
        accesslog_notes(a->log);
    return status;
}

static void accuracy_close(accuracy *a)
{
    for (size_t i = 0; i < a->keys_len; i++)
        accuracy_key_close(a->keys[i], &a->measure);
    port_free(a->keys);
    accesslog_key_table_close(a->table);
    accesslog_close(a->log);
    port_free(a);
}

int weir_cmd_accuracy(int argc, char **argv)
{
    accesslog_command("weir accuracy");
    accuracy *a = port_zalloc(1, sizeof *a);
    if (!a)
        return accesslog_complain_memory();
    int status = accuracy_options_read(&a->options, argc, argv);
    if (status == 0 && a->options.help) {
        errno = 0;
        fputs(accuracy_help, stdout);
        status = flush();
    } else if (status == 0) {
        status = accuracy_measure_open(&a->measure, &a->options);
        if (status == 0)
            status = a->options.generated ? run_traffic(a) : run_log(a);
        if (status == 0)
            status = print_report(a);
    }
    accuracy_close(a);
    return status;
}
