/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats log lines. Values may come from clients, so they are escaped: a value cannot end the
 * line, start another field, or send control characters to a terminal. */

#include "cmd/kit/log.h"

#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    TAIL = 8, /* bytes kept free to close a truncated value and the line */
    NUMBER_MAX = 32
};

typedef struct line {
    char *buf;
    size_t len;
    bool cut;
} line;

/* Adds bytes if all of them fit. After the first that do not, nothing more is added. */
static void add(line *l, const char *bytes, size_t len)
{
    l->cut = l->cut || l->len + len > WEIR_LOG_LINE_MAX - TAIL;
    if (l->cut)
        return;
    memcpy(l->buf + l->len, bytes, len);
    l->len += len;
}

static void add_text(line *l, const char *text)
{
    add(l, text, strlen(text));
}

/* Adds the end of a value or of the line, for which TAIL bytes are kept free. */
static void end(line *l, const char *text)
{
    size_t len = strlen(text);
    WEIR_ASSERT(l->len + len <= WEIR_LOG_LINE_MAX);
    memcpy(l->buf + l->len, text, len);
    l->len += len;
}

/* Adds a piece of a value. A run of ASCII may be cut anywhere, but an escape or a character is
 * added as a whole. */
static void add_piece(void *ctx, const char *at, size_t len)
{
    bool whole = *at == '\\' || (unsigned char)*at >= 0x80;
    for (size_t part = whole ? len : 1; len > 0; at += part, len -= part)
        add(ctx, at, part);
}

/* Adds a quoted string, truncated if need be. Returns false if not even the quote fits. */
static bool add_quoted(line *l, const char *value)
{
    add(l, "\"", 1);
    if (l->cut)
        return false;
    weir_text_escape(value, strlen(value), WEIR_JSON_LOG, add_piece, l);
    end(l, l->cut ? "...\"" : "\"");
    return true;
}

/* Whether a value needs no quotes in a text line. */
static bool is_plain(const char *value)
{
    const char *at = value;
    while (*at > ' ' && *at < 0x7F && *at != '"' && *at != '=' && *at != '\\')
        at++;
    return at > value && *at == '\0';
}

/* Prints a number in the form that both JSON and text use: "-12", "-1.500". */
static void print_number(const log_pair *pair, char text[static NUMBER_MAX])
{
    uint64_t n = pair->number < 0 ? 0 - (uint64_t)pair->number : (uint64_t)pair->number;
    const char *minus = pair->number < 0 ? "-" : "";
    if (pair->kind == LOG_SECONDS)
        snprintf(text, NUMBER_MAX, "%s%" PRIu64 ".%03u", minus, n / 1000, (unsigned)(n % 1000));
    else
        snprintf(text, NUMBER_MAX, "%s%" PRIu64, minus, n);
}

static void add_pair(line *l, bool json, const log_pair *pair)
{
    char number[NUMBER_MAX];
    size_t before = l->len;
    const char *value = pair->text;
    bool is_text = pair->kind == LOG_TEXT;
    if (!is_text) {
        print_number(pair, number);
        value = number;
    }
    add_text(l, json ? ",\"" : " ");
    add_text(l, pair->name);
    add_text(l, json ? "\":" : "=");
    bool fits = l->len + strlen(value) <= WEIR_LOG_LINE_MAX - TAIL;
    if (is_text && (json || !fits || !is_plain(value)))
        fits = add_quoted(l, value);
    else
        add_text(l, value);
    if (!fits || (!is_text && l->cut))
        l->len = before;
}

void log_time_text(int64_t ns, char ret[LOG_TIME_MAX])
{
    struct tm t;
    time_t s = (time_t)(ns / 1000000000);
    gmtime_r(&s, &t); /* cannot fail: the year is 1677 to 2262 */
    size_t n = strftime(ret, LOG_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(ret + n, LOG_TIME_MAX - n, ".%03dZ", (int)(ns / 1000000 % 1000));
}

size_t log_line(bool json, int64_t now_ns, weir_log_level level, const char *event,
                const log_pair *pairs, char *buf)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    line l = {.buf = buf};
    char time[LOG_TIME_MAX];
    add_text(&l, json ? "{\"time\":\"" : "");
    log_time_text(now_ns, time);
    add_text(&l, time);
    add_text(&l, json ? "\",\"level\":\"" : " ");
    add_text(&l, levels[level]);
    add_text(&l, json ? "\",\"event\":\"" : " ");
    add_text(&l, event);
    add_text(&l, json ? "\"" : "");
    for (; pairs->name && !l.cut; pairs++) {
        if (pairs->text || pairs->kind != LOG_TEXT)
            add_pair(&l, json, pairs);
    }
    end(&l, json ? "}\n" : "\n");
    return l.len;
}

void log_configure(log_target *log, weir_log_level least, bool json)
{
    port_store_relaxed(&log->json, json);
    port_store_relaxed(&log->least, least);
}

void log_event(const log_target *log, weir_log_level level, const char *event,
               const log_pair *pairs)
{
    char buf[WEIR_LOG_LINE_MAX];
    if (level < port_load_relaxed(&log->least))
        return;
    size_t len = log_line(log_is_json(log), port_now_ns(), level, event, pairs, buf);
    ssize_t written;
    do
        written = write(log->fd, buf, len);
    while (written < 0 && errno == EINTR);
}
