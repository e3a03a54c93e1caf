/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each line is composed of pieces, and each piece is cut to the columns that are left. From top to
 * bottom: figures of the daemon, the policies, the keys of the chosen policy, one line of status.
 * A small screen has less of each; the policies are the last to go. */

#include "cmd/client/screen.h"

#include "port/assert.h"
#include "port/duration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LINES = 3, KEYS_LINES_MAX = 14, NUMBER_COLS = 10, NAME_COLS_MIN = 6 };

/* ---- the rows -------------------------------------------------------------------------------- */

static int compare_names(const screen_row *a, const screen_row *b)
{
    return strcmp(a->policy->name, b->policy->name);
}

static int compare(double a, double b)
{
    return (a < b) - (a > b); /* the larger one first */
}

static int by_denied(const void *a, const void *b)
{
    const screen_row *x = a, *y = b;
    int first = compare(x->rates.denied, y->rates.denied);
    int second = compare(x->rates.decided, y->rates.decided);
    return first ? first : second ? second : compare_names(x, y);
}

static int by_decided(const void *a, const void *b)
{
    const screen_row *x = a, *y = b;
    int first = compare(x->rates.decided, y->rates.decided);
    return first ? first : compare_names(x, y);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(a, b);
}

static bool is_listed(const top_policy *p, const char *filter)
{
    static const top_counts none;
    if (p->name[0] == '(' && memcmp(&p->counts, &none, sizeof none) == 0)
        return false;
    return strstr(p->name, filter) != NULL;
}

size_t screen_list(const top_sample *before, const top_sample *now, screen_sort sort,
                   const char *filter, screen_row *ret)
{
    static int (*const order[])(const void *, const void *) = {[SCREEN_BY_DENIED] = by_denied,
                                                               [SCREEN_BY_DECIDED] = by_decided,
                                                               [SCREEN_BY_NAME] = by_name};
    size_t n = 0;
    WEIR_ASSERT(now->policies <= TOP_POLICIES_MAX);
    for (size_t i = 0; i < now->policies; i++) {
        if (is_listed(&now->policy[i], filter))
            ret[n++] = (screen_row){&now->policy[i], top_policy_rates(before, now, i)};
    }
    if (n > 0)
        qsort(ret, n, sizeof *ret, order[sort]);
    return n;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef enum look { PLAIN, BOLD, FAINT, RED, CHOSEN } look;

/* The line that is being composed. */
typedef struct canvas {
    weir_buffer *out;
    int cols, rows; /* rows is 0 for plain text */
    int row, left;  /* the line, from 1; the columns that are left in it */
    bool colour, utf8;
} canvas;

static void set_look(canvas *c, look l)
{
    static const char *const codes[] = {
        [PLAIN] = "0", [BOLD] = "0;1", [FAINT] = "0;2", [RED] = "0;31", [CHOSEN] = "0;7"};
    if (c->colour)
        weir_buffer_printf(c->out, "\033[%sm", codes[l]);
}

static void begin_line(canvas *c)
{
    c->row++;
    c->left = c->cols;
    if (c->rows > 0)
        weir_buffer_printf(c->out, "\033[%d;1H", c->row);
}

static void put(canvas *c, const char *text)
{
    c->left -= cells_put(c->out, text, strlen(text), c->left, c->utf8);
}

static void put_spaces(canvas *c, int n)
{
    for (; n > 0 && c->left > 0; n--, c->left--)
        weir_buffer_append_byte(c->out, ' ');
}

/* Appends text in a column of `cols`, at its left or at its right end. */
static void put_left(canvas *c, const char *text, int cols)
{
    int room = cols < c->left ? cols : c->left;
    int used = cells_put(c->out, text, strlen(text), room, c->utf8);
    c->left -= used;
    put_spaces(c, room - used);
}

static void put_right(canvas *c, const char *text, int cols)
{
    put_spaces(c, cols - (int)strlen(text)); /* ASCII */
    put(c, text);
}

static void end_line(canvas *c)
{
    set_look(c, PLAIN);
    if (c->rows == 0)
        weir_buffer_append_byte(c->out, '\n');
    else if (c->left > 0)
        weir_buffer_append(c->out, "\033[K", 3);
}

static void put_line(canvas *c, look l, const char *text)
{
    begin_line(c);
    set_look(c, l);
    put(c, text);
    end_line(c);
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_daemon(canvas *c, const screen_model *m)
{
    char text[400], up[WEIR_DURATION_MAX];
    const top_sample *s = m->now;
    uint64_t unit_s = s->uptime_s >= 86400 ? 3600 : s->uptime_s >= 3600 ? 60 : 1; /* rounds down */
    uint64_t up_s = s->uptime_s < 1000000000 ? s->uptime_s / unit_s * unit_s : 1000000000;
    weir_duration_print(up, (int64_t)up_s * 1000000000, WEIR_DURATION_SHORT);
    snprintf(text, sizeof text, "weir %s  %s  up %s  connections %llu of %llu", s->version,
             m->server, up, (unsigned long long)s->connections,
             (unsigned long long)s->connections_max);
    put_line(c, BOLD, text);
}

static void put_load(canvas *c, const screen_model *m)
{
    char text[200], decided[CELLS_NUMBER_MAX], denied[CELLS_NUMBER_MAX], latency[80] = "";
    top_rates sum = {0};
    for (size_t i = 0; i < m->now->policies; i++) {
        top_rates r = top_policy_rates(m->before, m->now, i);
        sum.decided += r.decided;
        sum.denied += r.denied;
    }
    cells_number(sum.decided, decided);
    cells_number(sum.denied, denied);
    double p50 = top_latency_ns(m->before, m->now, 0.5),
           p99 = top_latency_ns(m->before, m->now, 0.99);
    if (p50 >= 0) {
        char half[CELLS_NUMBER_MAX], most[CELLS_NUMBER_MAX];
        cells_ns(p50, half);
        cells_ns(p99, most);
        snprintf(latency, sizeof latency, "  p50 %s  p99 %s", half, most);
    }
    snprintf(text, sizeof text, "decisions %s/s  denied %s/s%s", decided, denied, latency);
    put_line(c, PLAIN, text);
}

static void put_store(canvas *c, const screen_model *m)
{
    char text[200], keys[CELLS_NUMBER_MAX], used[CELLS_NUMBER_MAX], max[CELLS_NUMBER_MAX],
        evicted[CELLS_NUMBER_MAX], refused[CELLS_NUMBER_MAX];
    cells_number((double)m->now->keys, keys);
    cells_bytes(m->now->bytes, used);
    cells_bytes(m->now->bytes_max, max);
    cells_number((double)m->now->evicted, evicted);
    cells_number((double)m->now->refused, refused);
    snprintf(text, sizeof text, "keys %s  memory %s of %s  evicted %s  refused %s", keys, used, max,
             evicted, refused);
    put_line(c, PLAIN, text);
}

static void put_header(canvas *c, const screen_model *m, int lines)
{
    if (lines > 0)
        put_daemon(c, m);
    if (lines > 1)
        put_load(c, m);
    if (lines > 2)
        put_store(c, m);
}

/* ---- the policies ---------------------------------------------------------------------------- */

/* The columns that the table has room for. */
typedef struct table {
    int name, number, numbers; /* columns; how many numbers there are */
    bool limit;
} table;

static table table_for(int cols)
{
    table t = {.number = NUMBER_COLS, .numbers = cols >= 64 ? 4 : 2};
    if (cols < 2 * NUMBER_COLS + NAME_COLS_MIN + 1)
        t.number = 7;
    t.limit = cols >= 76;
    t.name = cols - 1 - t.numbers * t.number - (t.limit ? 20 : 0);
    if (t.limit)
        t.name = cols >= 110 ? 32 : t.name < 20 ? t.name : 20;
    return t;
}

static void put_table_head(canvas *c, const screen_model *m, const table *t)
{
    static const char *const names[] = {"REQ/s", "DENIED/s", "SHADOW/s", "FAILED/s"};
    begin_line(c);
    set_look(c, BOLD);
    put_spaces(c, 1);
    put_left(c, m->sort == SCREEN_BY_NAME ? "POLICY*" : "POLICY", t->name);
    for (int i = 0; i < t->numbers; i++) {
        bool sorted =
            (m->sort == SCREEN_BY_DECIDED && i == 0) || (m->sort == SCREEN_BY_DENIED && i == 1);
        char text[16];
        snprintf(text, sizeof text, "%s%s", t->number < NUMBER_COLS && i == 1 ? "DEN/s" : names[i],
                 sorted ? "*" : "");
        put_right(c, text, t->number);
    }
    if (t->limit)
        put(c, "  LIMIT");
    end_line(c);
}

static void put_policy(canvas *c, const screen_model *m, const table *t, const screen_row *row,
                       bool chosen)
{
    const double numbers[] = {row->rates.decided, row->rates.denied, row->rates.shadowed,
                              row->rates.failed};
    begin_line(c);
    set_look(c, chosen ? CHOSEN : PLAIN);
    put(c, chosen ? ">" : " ");
    put_left(c, row->policy->name, t->name);
    for (int i = 0; i < t->numbers; i++) {
        char text[CELLS_NUMBER_MAX];
        bool bad = (i == 1 || i == 3) && numbers[i] > 0;
        cells_number(numbers[i], text);
        if (!chosen)
            set_look(c, bad ? RED : PLAIN);
        put_right(c, text, t->number);
    }
    const top_rule *rule = t->limit ? top_find_rule(m->rules, row->policy->name) : NULL;
    if (rule) {
        if (!chosen)
            set_look(c, PLAIN);
        put(c, rule->shadow ? "  (shadow) " : "  ");
        put(c, rule->limit);
    }
    if (chosen && c->rows > 0)
        put_spaces(c, c->left);
    end_line(c);
}

static void put_policies(canvas *c, const screen_model *m, int lines)
{
    table t = table_for(c->cols);
    size_t page = lines > 0 ? (size_t)lines : 1;
    size_t first = m->chosen / page * page;
    for (size_t i = first; i < first + page && lines > 0; i++) {
        if (i < m->rows)
            put_policy(c, m, &t, &m->row[i], i == m->chosen && c->rows > 0);
        else if (i == 0)
            put_line(c, FAINT, *m->filter ? " no policy matches the filter" : " no policies");
        else
            put_line(c, PLAIN, "");
    }
}

/* ---- the keys -------------------------------------------------------------------------------- */

static void put_key(canvas *c, const top_key *k)
{
    char units[CELLS_NUMBER_MAX], at_least[CELLS_NUMBER_MAX], requests[CELLS_NUMBER_MAX];
    cells_number((double)k->units, units);
    cells_number((double)k->at_least, at_least);
    cells_number((double)k->requests, requests);
    begin_line(c);
    put_right(c, units, 8);
    if (c->cols >= 40) {
        put_right(c, at_least, NUMBER_COLS);
        put_right(c, requests, NUMBER_COLS);
    }
    put_spaces(c, 2);
    c->left -= cells_put(c->out, k->text, k->len, c->left - (k->cut ? 3 : 0), c->utf8);
    if (k->cut)
        put(c, "...");
    end_line(c);
}

static void put_keys(canvas *c, const screen_model *m, int lines)
{
    const char *name = m->rows > 0 ? m->row[m->chosen].policy->name : "";
    bool known = m->keys && m->rows > 0 && m->keys->allowed == m->allowed &&
                 strcmp(m->keys->policy, name) == 0;
    char text[TOP_NAME_MAX + TOP_NOTE_MAX + 40];
    put_line(c, PLAIN, "");
    snprintf(text, sizeof text, "%s: the keys with the most %s units", name,
             m->allowed ? "allowed" : "denied");
    put_line(c, BOLD, text);
    size_t len = known ? m->keys->len : 0;
    const char *note = known ? m->keys->note : "";
    if (known && len == 0)
        note = *note ? note : "none";
    bool disabled = strstr(note, "top: off") != NULL;
    put_line(c, len > 0 ? BOLD : FAINT,
             disabled        ? "  disabled by the configuration: remove `top: off` from weir.yaml"
             : len == 0      ? (snprintf(text, sizeof text, "  %s", note), text)
             : c->cols >= 40 ? "   UNITS  AT LEAST  REQUESTS  KEY"
                             : "   UNITS  KEY");
    for (int i = 0; i < lines - 3; i++) {
        if ((size_t)i < len)
            put_key(c, &m->keys->key[i]);
        else
            put_line(c, PLAIN, "");
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* How many lines each part has. */
typedef struct layout {
    int header, gap, head, policies, keys, status;
} layout;

static layout layout_for(const screen_model *m, int rows)
{
    layout l = {.header = rows >= 12 ? HEADER_LINES : rows >= 5,
                .gap = rows >= 12,
                .head = rows >= 3,
                .status = rows >= 2};
    int left = rows - l.header - l.gap - l.head - l.status;
    l.policies = left;
    if (rows < 16)
        return l;
    size_t half = (size_t)(left - left / 2);
    if (m->rows > half) {
        l.keys = left / 2 < KEYS_LINES_MAX ? left / 2 : KEYS_LINES_MAX;
        l.policies = left - l.keys;
    } else { /* the keys follow the last policy */
        l.policies = m->rows > 0 ? (int)m->rows : 1;
        l.keys = left - l.policies;
    }
    return l;
}

int screen_page(const screen_model *m, int rows)
{
    int page = layout_for(m, rows).policies;
    return page > 0 ? page : 1;
}

static void put_help(canvas *c)
{
    static const char *const lines[] = {
        "weir top: the policies of a daemon",
        "",
        "  up, down, k, j      choose a policy",
        "  PageUp, PageDown    a page up or down",
        "  Home, End, g, G     the first or the last policy",
        "  d, r, n             sort by denied/s, by requests/s, by name",
        "  /                   show the policies whose name contains a text; Esc ends it",
        "  t                   list the keys that were allowed, or denied, most",
        "  q                   quit",
        "",
        "REQ/s, DENIED/s  requests that were decided, and denied, per second",
        "SHADOW/s         requests that were allowed only because of shadow mode",
        "FAILED/s         requests that were not decided because of an error",
        "p50, p99         time from receiving a batch of requests to deciding it",
        "UNITS, AT LEAST  upper and lower bound of a key's cost, halved each minute",
        "",
        "Press any key.",
    };
    int n = sizeof lines / sizeof *lines;
    for (int i = 0; i < c->rows; i++)
        put_line(c, i == 0 ? BOLD : PLAIN, i < n ? lines[i] : "");
}

static void put_status(canvas *c, const screen_model *m)
{
    char text[200], policies[40];
    snprintf(policies, sizeof policies, m->rows == 1 ? "%zu policy" : "%zu policies", m->rows);
    if (m->typing)
        snprintf(text, sizeof text, "/%s_", m->filter);
    else if (*m->filter)
        snprintf(text, sizeof text, "filter: %s (%s)  Esc ends it  q quit", m->filter, policies);
    else
        snprintf(text, sizeof text, "q quit  ? help  / filter  d r n sort  t %s keys  %s",
                 m->allowed ? "denied" : "allowed", policies);
    if (*m->notice)
        put_line(c, RED, m->notice);
    else
        put_line(c, FAINT, text);
}

void screen_draw(const screen_model *m, int cols, int rows, weir_buffer *out)
{
    canvas c = {.out = out, .cols = cols, .rows = rows, .colour = m->colour, .utf8 = m->utf8};
    WEIR_ASSERT(cols >= 1 && rows >= 1);
    WEIR_ASSERT(m->rows == 0 || m->chosen < m->rows);
    if (m->help) {
        put_help(&c);
        return;
    }
    if (!m->now) {
        put_line(&c, PLAIN, *m->notice ? m->notice : "waiting for the daemon");
        for (int i = 1; i < rows; i++)
            put_line(&c, PLAIN, "");
        return;
    }
    layout l = layout_for(m, rows);
    table t = table_for(cols);
    put_header(&c, m, l.header);
    if (l.gap)
        put_line(&c, PLAIN, "");
    if (l.head)
        put_table_head(&c, m, &t);
    put_policies(&c, m, l.policies);
    if (l.keys > 0)
        put_keys(&c, m, l.keys);
    if (l.status)
        put_status(&c, m);
}

void screen_print(const screen_model *m, int cols, weir_buffer *out)
{
    canvas c = {.out = out, .cols = cols, .utf8 = m->utf8};
    table t = table_for(cols);
    put_header(&c, m, HEADER_LINES);
    put_table_head(&c, m, &t);
    put_policies(&c, m, m->rows > 0 ? (int)m->rows : 1);
}
