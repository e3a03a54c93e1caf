/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A signal handler may call only async-signal-safe functions. All possible log lines are therefore
 * formatted in advance; the handler only chooses one and fills in the time. */

#include "cmd/kit/sigbus.h"

#include "port/atomic.h"
#include "port/port.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum fault_reason { SHORTENED, UNREADABLE, REASONS } fault_reason;

static struct {
    weir_mapping file;
    const log_target *log;
    struct {
        size_t len;
        char text[WEIR_LOG_LINE_MAX];
    } line[REASONS][2];  /* as text and as JSON */
    port_counter faults; /* several threads may fault at once */
} watched;

/* ---- the time -------------------------------------------------------------------------------- */

static void put_digits(char *to, unsigned n, int64_t value)
{
    for (; n > 0; n--, value /= 10)
        to[n - 1] = (char)('0' + value % 10);
}

/* Writes the digits of "2026-11-21T09:00:00.123Z"; the other characters are in the line already.
 * Years begin in March here, so that a leap day is the last day of a year. */
static void put_time(char *to, int64_t now_ns)
{
    int64_t ms = now_ns / 1000000, s = ms / 1000;
    int64_t days = s / 86400 + 719468; /* since 0000-03-01 */
    int64_t era = days / 146097, day = days % 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t in_year = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* 0 is March */
    put_digits(to, 4, year + era * 400 + (month >= 10));
    put_digits(to + 5, 2, month < 10 ? month + 3 : month - 9);
    put_digits(to + 8, 2, in_year - (153 * month + 2) / 5 + 1);
    put_digits(to + 11, 2, s / 3600 % 24);
    put_digits(to + 14, 2, s / 60 % 60);
    put_digits(to + 17, 2, s % 60);
    put_digits(to + 20, 3, ms % 1000);
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Determines the reason from the size of the file. */
static fault_reason reason_of(const char *at)
{
    struct stat s;
    uint64_t offset = (uint64_t)(at - (const char *)watched.file.at);
    bool beyond = fstat(watched.file.fd, &s) == 0 && (uint64_t)s.st_size <= offset;
    return beyond ? SHORTENED : UNREADABLE;
}

static void on_fault(int signum, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr, *begin = watched.file.at;
    signal(signum, SIG_DFL);
    if (info->si_code <= 0) { /* sent by kill() */
        raise(signum);
        return;
    }
    if (at >= begin && at < begin + watched.file.bytes &&
        port_add_relaxed(&watched.faults, 1) == 0) {
        bool json = log_is_json(watched.log);
        fault_reason reason = reason_of(at);
        char *text = watched.line[reason][json].text;
        put_time(text + (json ? strlen("{\"time\":\"") : 0), port_now_ns());
        (void)!write(watched.log->fd, text, watched.line[reason][json].len);
    }
    /* The instruction runs again and faults again, which terminates the process. */
}

/* ---- installing ------------------------------------------------------------------------------ */

static void make_lines(const log_target *log, const char *path)
{
    static const char *const texts[] = {
        [SHORTENED] =
            "the state file was truncated while in use; weir is terminating. Restore the file "
            "from a copy, or start with --reset-state",
        [UNREADABLE] = "the system could not read or write a page of the state file: the disk is "
                       "full or has an error; weir is terminating"};
    for (int i = 0; i < REASONS; i++) {
        for (int json = 0; json < 2; json++)
            watched.line[i][json].len =
                log_line(json, 0, WEIR_LOG_ERROR, "state-file-fault",
                         LOG(log_text("file", path), log_text("text", texts[i])),
                         watched.line[i][json].text);
    }
    watched.log = log;
}

void sigbus_watch(const log_target *log, const char *path, const weir_store *store)
{
    weir_mapping file = weir_store_mapping(store);
    if (file.fd < 0)
        return;
    make_lines(log, path);
    watched.file = file;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

void sigbus_unwatch(void)
{
    signal(SIGBUS, SIG_DFL);
}

const char *state_found_text(weir_found found)
{
    switch (found) {
    case WEIR_FOUND_NOTHING:
        return "nothing, the file is new";
    case WEIR_FOUND_CLOSED:
        return "closed cleanly";
    case WEIR_FOUND_KILLED:
        return "left by a process that was killed; no state is lost";
    case WEIR_FOUND_POWER_LOSS:
        return "left by a machine that crashed; what is lost depends on memory.sync";
    case WEIR_FOUND_OPEN:
        return "open in other processes";
    }
    return "unknown";
}
