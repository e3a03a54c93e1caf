/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints decisions as JSON lines, and tables. Millions of decisions may be printed, so they are
 * formatted without printf(). */

#include "cmd/replay/print.h"

#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decisions ------------------------------------------------------------------------------- */

#define NUMBER_MAX 20  /* digits of a number */
#define PIECE_MAX  320 /* bytes of a line without its key and policy */

static char *literal(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

/* v >= 0, as are all numbers of a decision. */
static char *number(char *at, int64_t v)
{
    char digits[NUMBER_MAX];
    char *first = digits + sizeof digits;
    uint64_t rest = (uint64_t)v;
    do {
        *--first = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    size_t len = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, len);
    return at + len;
}

void replay_print_decision(out_stream *out, const replay_answer *answer)
{
    const weir_decision *d = &answer->decision;
    char *at = literal(out_reserve(out, PIECE_MAX), "{\"t_ns\":");
    at = literal(number(at, answer->t_ns), ",\"key\":\"");
    out_commit(out, at);
    out_json(out, answer->key, answer->key_len);
    at = literal(out_reserve(out, PIECE_MAX), "\",\"cost\":");
    at = literal(number(at, answer->cost), ",\"allowed\":");
    at = literal(at, d->allowed ? "true" : "false");
    at = number(literal(at, ",\"limit\":"), d->limit);
    at = number(literal(at, ",\"remaining\":"), d->remaining);
    at = literal(at, ",\"retry_after_ns\":");
    at = d->never ? literal(at, "null") : number(at, d->retry_after_ns);
    at = number(literal(at, ",\"reset_after_ns\":"), d->reset_after_ns);
    at = number(literal(at, ",\"delay_ns\":"), d->delay_ns);
    at = number(literal(at, ",\"layer\":"), d->layer);
    if (answer->policy) {
        out_commit(out, literal(at, ",\"policy\":\""));
        out_json(out, answer->policy, strlen(answer->policy));
        at = literal(out_reserve(out, PIECE_MAX), "\"");
    }
    if (answer->reason)
        at = literal(literal(literal(at, ",\"reason\":\""), answer->reason), "\"");
    out_commit(out, literal(at, "}\n"));
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define COLUMNS      80
#define LABEL_COLS   16
#define KEY_COLS_MIN ((size_t)16) /* the width of the column heading */

static size_t digits_of(uint64_t v)
{
    size_t n = 1;
    for (; v >= 10; v /= 10)
        n++;
    return n;
}

/* Writes the percentage of `all`, rounded to a tenth: "12.5%". "0.0%" means exactly none, and
 * "100.0%" exactly all. */
static void percent_text(uint64_t part, uint64_t all, char *ret, size_t size)
{
    uint64_t tenths = (part * 2000 + all) / (2 * all); /* parts are far below 2^53 */
    if (tenths == 0 && part > 0)
        snprintf(ret, size, "<0.1%%");
    else if (tenths == 1000 && part < all)
        snprintf(ret, size, ">99.9%%");
    else
        snprintf(ret, size, "%" PRIu64 ".%" PRIu64 "%%", tenths / 10, tenths % 10);
}

/*  all  the total, for the percentage; 0 for no percentage. */
static void print_count(out_stream *out, const char *label, uint64_t n, uint64_t all, size_t cols)
{
    char line[COLUMNS + 1], percent[32] = "";
    if (all > 0)
        percent_text(n, all, percent, sizeof percent);
    snprintf(line, sizeof line, "  %-*s  %*" PRIu64 "%s%*s\n", LABEL_COLS, label, (int)cols, n,
             all > 0 ? "  " : "", all > 0 ? 6 : 0, percent);
    out_text(out, line);
}

/* The columns of a byte of a key: printed as it is, as "\\", or as "\xNN". */
static size_t byte_cols(char c)
{
    return c == '\\' ? 2 : c >= 0x20 && c < 0x7F ? 1 : 4;
}

static size_t key_cols(const char *text, size_t len)
{
    size_t cols = 0;
    for (size_t i = 0; i < len; i++)
        cols += byte_cols(text[i]);
    return cols;
}

static void print_bytes(out_stream *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char shown[8];
        size_t cols = byte_cols(text[i]);
        if (cols == 1)
            shown[0] = text[i];
        else
            snprintf(shown, sizeof shown, cols == 2 ? "\\\\" : "\\x%02x",
                     (unsigned)(unsigned char)text[i]);
        out_bytes(out, shown, cols);
    }
}

/* Prints the key in exactly `cols` columns: padded with spaces, or with "..." for its middle. */
static void print_key(out_stream *out, const char *text, size_t len, size_t cols)
{
    size_t used = key_cols(text, len);
    if (used <= cols) {
        print_bytes(out, text, len);
    } else {
        size_t head = 0, tail = len, tail_max = (cols - 3) / 3, head_max = cols - 3 - tail_max;
        size_t head_cols = 0, tail_cols = 0;
        while (head_cols + byte_cols(text[head]) <= head_max)
            head_cols += byte_cols(text[head++]);
        while (tail_cols + byte_cols(text[tail - 1]) <= tail_max)
            tail_cols += byte_cols(text[--tail]);
        print_bytes(out, text, head);
        out_text(out, "...");
        print_bytes(out, text + tail, len - tail);
        used = head_cols + 3 + tail_cols;
    }
    for (; used < cols; used++)
        out_text(out, " ");
}

/* A denied key, for sorting. */
typedef struct row {
    uint64_t denied, requests;
    const char *text;
    size_t len;
} row;

/* Sorts by denials, then by requests, then by the key's bytes, so that the order does not depend on
 * the hash. */
static int row_order(const void *left, const void *right)
{
    const row *a = left, *b = right;
    if (a->denied != b->denied)
        return a->denied > b->denied ? -1 : 1;
    if (a->requests != b->requests)
        return a->requests > b->requests ? -1 : 1;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* Returns the denied keys, most denied first. Free *ret with port_free(). */
static weir_status denied_rows(const replay_summary *s, row **ret, size_t *ret_len)
{
    size_t len = 0, i = 0;
    for (const replay_key *k = replay_key_table_first(s->keys); k; k = k->next)
        len += k->policy[s->policy->index].denials != NULL;
    row *rows = port_zalloc(len + 1, sizeof *rows);
    if (!rows)
        return WEIR_E_NOMEM;
    for (const replay_key *k = replay_key_table_first(s->keys); k; k = k->next) {
        const replay_denials *d = k->policy[s->policy->index].denials;
        if (d)
            rows[i++] = (row){d->count, k->requests, replay_key_text(s->keys, k), k->len};
    }
    qsort(rows, len, sizeof *rows, row_order);
    *ret = rows;
    *ret_len = len;
    return WEIR_OK;
}

static void print_top(out_stream *out, const row *rows, size_t len, bool shadow)
{
    size_t denied_cols = 6, requests_cols = 8, cols = KEY_COLS_MIN; /* the widths of the headings */
    for (size_t i = 0; i < len; i++) {
        size_t d = digits_of(rows[i].denied), r = digits_of(rows[i].requests);
        size_t key = key_cols(rows[i].text, rows[i].len);
        denied_cols = d > denied_cols ? d : denied_cols;
        requests_cols = r > requests_cols ? r : requests_cols;
        cols = key > cols ? key : cols;
    }
    size_t cols_max = COLUMNS - 2 - 2 - denied_cols - 2 - requests_cols;
    cols = cols < cols_max ? cols : cols_max;
    char line[COLUMNS + 3]; /* with two LFs */
    snprintf(line, sizeof line, "\n  %-*s  %*s  %*s\n", (int)cols,
             shadow ? "most over limit" : "most denied keys", (int)denied_cols,
             shadow ? "over" : "denied", (int)requests_cols, "requests");
    out_text(out, line);
    for (size_t i = 0; i < len; i++) {
        out_text(out, "  ");
        print_key(out, rows[i].text, rows[i].len, cols);
        snprintf(line, sizeof line, "  %*" PRIu64 "  %*" PRIu64 "\n", (int)denied_cols,
                 rows[i].denied, (int)requests_cols, rows[i].requests);
        out_text(out, line);
    }
}

static void print_head(out_stream *out, const replay_policy *p)
{
    if (p->by_name) {
        out_text(out, p->given);
        out_text(out, ": ");
    }
    out_text(out, p->text);
    out_text(out, p->shadow ? " (shadow mode: denies no requests)\n\n" : "\n\n");
}

/* Prints the counts that only a named policy has: lists and shadow mode. */
static void print_named(out_stream *out, const replay_policy *p, uint64_t requests, size_t cols)
{
    if (p->counts.allow_listed > 0)
        print_count(out, "on allow list", p->counts.allow_listed, requests, cols);
    if (p->counts.deny_listed > 0)
        print_count(out, "on deny list", p->counts.deny_listed, requests, cols);
    if (p->shadow)
        print_count(out, "would be denied", p->counts.shadowed, requests, cols);
}

weir_status replay_print_table(out_stream *out, const replay_summary *s)
{
    row *rows;
    size_t rows_len;
    const replay_policy *p = s->policy;
    weir_status st = denied_rows(s, &rows, &rows_len);
    if (st != WEIR_OK)
        return st;
    size_t cols = digits_of(s->requests);
    uint64_t keys = replay_key_table_count(s->keys);
    print_head(out, p);
    print_count(out, "requests", s->requests, 0, cols);
    print_count(out, "keys", keys, 0, cols);
    print_count(out, "allowed", s->requests - p->counts.denied, s->requests, cols);
    print_count(out, "denied", p->counts.denied, s->requests, cols);
    print_named(out, p, s->requests, cols);
    print_count(out, p->shadow ? "keys over limit" : "keys ever denied", rows_len, keys, cols);
    size_t shown = rows_len < s->top ? rows_len : s->top;
    if (shown > 0)
        print_top(out, rows, shown, p->shadow);
    port_free(rows);
    return WEIR_OK;
}
