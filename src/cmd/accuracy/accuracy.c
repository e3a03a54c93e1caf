/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir accuracy`: counts how often each approximate algorithm decides otherwise than an exact one,
 * on the requests of a log. */

#include "cmd/accuracy/accuracy.h"

#include "accesslog/key_table.h"
#include "accesslog/messages.h"
#include "cmd/kit/commands.h"
#include "port/port.h"
#include "service/rules/rule.h"

#include <inttypes.h>
#include <unistd.h>

enum { KEYS_MANY = 500000 }; /* a warning says that more keys may need too much memory */

#define OUTPUT_MAX ((size_t)1 << 28) /* bytes */

typedef struct record {
    accesslog_key base;
    accuracy_key *key; /* NULL: new, or there was no memory */
} record;

typedef struct accuracy {
    accuracy_options options;
    accuracy_measure measure;
    accesslog *log;
    accesslog_key_table *keys; /* of the log: a record for each */
} accuracy;

static record *record_of(accesslog_key *key)
{
    return (record *)(void *)key;
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
    weir_key_match match;
    weir_inline_policy_match(text.at, text.len, &match);
    record *found = record_of(accesslog_key_table_at(a->keys, match.at, match.len));
    if (!found || found->key)
        return found ? found->key : NULL;
    if (found->base.number == KEYS_MANY)
        warn_many_keys(a);
    found->key = accuracy_key_open(&a->measure);
    return found->key;
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

static int measure_log(accuracy *a)
{
    accesslog_request r;
    accesslog_status got;
    int status = accesslog_open(&a->log, &a->options.log);
    if (status != 0)
        return status;
    a->keys = accesslog_key_table_open(sizeof(record));
    if (!a->keys)
        return accesslog_complain_memory();
    accesslog_progress(a->log);
    while (status == 0 && (got = accesslog_next(a->log, &r)) != ACCESSLOG_END)
        status = got == ACCESSLOG_ERROR ? accesslog_exit_status(a->log) : measure_line(a, &r);
    accesslog_progress_erase(a->log);
    for (accesslog_key *k = accesslog_key_table_first(a->keys); k && status == 0; k = k->next)
        accuracy_key_end(&a->measure, record_of(k)->key);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int report(const accuracy *a)
{
    weir_buffer b;
    weir_buffer_init(&b, OUTPUT_MAX);
    if (a->options.json)
        accuracy_put_json(&b, &a->measure, a->log);
    else
        accuracy_put_table(&b, &a->measure, a->log, a->options.limit);
    int status = accesslog_print_buffer(STDOUT_FILENO, &b);
    if (status == 0)
        accesslog_notes(a->log);
    return status;
}

static void accuracy_close(accuracy *a)
{
    for (accesslog_key *k = a->keys ? accesslog_key_table_first(a->keys) : NULL; k; k = k->next)
        accuracy_key_close(record_of(k)->key, &a->measure);
    accesslog_key_table_close(a->keys);
    accesslog_close(a->log);
    port_free(a);
}

static int run(accuracy *a)
{
    int status = accuracy_measure_open(&a->measure, &a->options);
    if (status == 0)
        status = measure_log(a);
    return status == 0 ? report(a) : status;
}

int weir_cmd_accuracy(int argc, char **argv)
{
    accesslog_command("weir accuracy");
    accuracy *a = port_zalloc(1, sizeof *a);
    if (!a)
        return accesslog_complain_memory();
    int status = accuracy_options_read(&a->options, argc, argv);
    if (status == 0 && !a->options.log.help)
        status = run(a);
    accuracy_close(a);
    return status;
}
